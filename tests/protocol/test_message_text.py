"""In a thread of messages no line of a peer stands where one of cn's could."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cn.git.read_branches import format_message_content
from cn.protocol.layout import MESSAGE
from cn.protocol.message import About, Message
from cn.protocol.message_text import ATTACHED, BEFORE, FORM, NOW, MessageText, read_message_text, read_words, repeat
from cn.protocol.proposal_text import FORM as PROPOSAL_FORM
from cn.protocol.thread_file import Header, format_thread, peer_block
from cn.values.names import Branch, Name, Oid, parse_branch
from cn.values.timestamps import parse_stamp

PI, SIGMA, HEAD = Name("pi"), Name("sigma"), Oid("b" * 40)
AT = parse_stamp("2026-02-05T14:00Z")
WRITTEN = "message from pi, written 2026-02-05T14:00Z"
FORGED = (
    *("", " ", "\n", "\r", "\u2028", "> ", ">", "\t", "---", "x", "    x", "<!--", "```"),
    *(FORM, BEFORE, NOW, ATTACHED, "- ours.pdf", "## Triage", "… cut here: 3 bytes more", WRITTEN),
    *("**sigma wrote, 2026-02-05T13:00Z** (sigma/fee)", "> We pay 5,000.", "# Re: Fee", "> > so", "a" * 50),
)
TEXT = st.lists(st.sampled_from(FORGED), max_size=12).map("\n".join)


def ours(content: str) -> list[str]:
    """The lines of a thread's quotation that stand where cn's do."""
    text = format_thread(Header(PI, "x", Branch("pi/x"), AT, HEAD, "unverified"), content)
    return [line[2:] for line in peer_block(text) if line != ">" and not line.startswith("> >")]


@given(TEXT, TEXT, TEXT, st.lists(TEXT.filter(bool), max_size=2))
def test_what_is_not_quoted_once_more_is_cns(subject: str, body: str, name: str, attached: list[str]) -> None:
    about = About(parse_branch("sigma/fee"), HEAD, "replied")
    content = format_message_content(Message(MESSAGE, PI, SIGMA, subject, AT, body, name, about), attached, 1 << 18)
    first, second, *rest = ours(f"{FORM}\n\n{content}")
    assert first == FORM
    assert second.startswith("# ")
    if name:
        assert rest.pop(1).startswith("in reply to ")
    assert rest[:2] == [WRITTEN, "about sigma/fee at bbbbbbbbbb: replied"]
    assert len(rest[2:]) == (1 + len(attached) if attached else 0)
    assert rest[2:3] == ([ATTACHED] if attached else [])
    assert all(line.startswith("- ") for line in rest[3:])
    read = read_message_text(f"{FORM}\n\n{content}")
    assert read is not None
    assert read.before == ""
    assert [line for line in read.below if line] == rest[2:]


@given(TEXT, st.integers(200, 700))
def test_a_cut_lets_no_line_of_a_peer_out(body: str, limit: int) -> None:
    content = format_message_content(Message(MESSAGE, PI, SIGMA, "Fee", AT, body * 5), ["a"], limit)
    known = (FORM, "# Fee", WRITTEN, ATTACHED, "- a")
    told = [line for line in ours(f"{FORM}\n\n{content}") if not line.startswith("… cut here: ")]
    assert all(any(one.startswith(line) for one in known) for line in told), told  # the last may be cut as well


def test_the_parts_of_a_message_are_read_back() -> None:
    message = f"# Fee\n\n{WRITTEN}\nin reply to x\n\n> Yes.\n>\n> > so\n\n{ATTACHED}\n\n- a.pdf\n- b.pdf"
    below = ("", ATTACHED, "", "- a.pdf", "- b.pdf")
    assert read_words(message.split("\n")) == MessageText("", "Yes.\n\n> so", below)
    before = "**sigma wrote, 2026-02-05T13:00Z** (sigma/fee)\n\n> How much?"
    whole = f"{FORM}\n\n{BEFORE}\n\n{before}\n\n{NOW}\n\n{message}"
    assert read_message_text(whole) == MessageText(before, "Yes.\n\n> so", below)
    assert read_words(f"# Fee\n\n{WRITTEN}".split("\n")) == MessageText("", "", ())


def test_a_message_in_another_form_has_no_parts() -> None:
    for text in (
        f"# Fee\n\n{WRITTEN}\n\n> Yes.",
        f"{FORM}\n\n# Fee\n\n{WRITTEN}\n\nYes.",
        f"{FORM}\n\n# Fee\n\n{WRITTEN}\n\n> Yes.\n\n**sigma wrote, 2026-02-05T13:00Z** (sigma/fee)\n\n> No.",
        f"{FORM}\n\n# Fee\n\n{WRITTEN}\n\n- Yes.",
        f"{FORM}\n\n# Fee\n\nYes.",
        f"{FORM}\n\n{BEFORE}\n\n> Yes.",
        "",
    ):
        assert read_message_text(text) is None, text


def test_what_is_shown_again_keeps_its_lines_apart() -> None:
    shown = f"# Fee\n\n{WRITTEN}\n\n> Yes."
    assert repeat(f"{FORM}\n\n{shown}") == shown
    assert repeat(f"{FORM}\n\n{BEFORE}\n\n**x**\n\n> {NOW}\n\n{NOW}\n\n{shown}") == f"**x**\n\n> {NOW}\n\n{shown}"
    assert repeat(f"{PROPOSAL_FORM}\n\n## Commits\n\n    x") == "## Commits\n\n    x"


@given(TEXT)
def test_of_what_an_older_cn_showed_each_line_is_quoted(text: str) -> None:
    """There a line of the peer could stand where one of cn's does."""
    first, blank, *lines = repeat(f"# Fee\n\n{WRITTEN}\n\n{text}").split("\n")
    assert (first, blank) == ("(The thread showed this, and not which of its lines are whose:)", "")
    assert all(line.startswith(">") for line in lines)
