"""The trust boundary: what a peer wrote is quoted, and no text of its can decide."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from cn.git.read_branches import Commit, FileText, Proposal, Touched, format_message_content, format_proposal
from cn.protocol.layout import MESSAGE
from cn.protocol.message import About, Message
from cn.protocol.thread_file import (
    Header,
    Merge,
    Reply,
    Showing,
    Triage,
    TriageRefused,
    add_form,
    append_section,
    check_section,
    find_headings,
    format_thread,
    mark_triage,
    peer_block,
    read_decision,
    read_text,
    refresh,
    seen_head,
    seen_showing,
    set_triage,
    shows,
    why_void,
)
from cn.values.names import NameRefused, Oid, parse_branch, parse_name, parse_topic, topic_of
from cn.values.text import quote
from cn.values.timestamps import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
HEAD, OTHER = Oid("3f2a9c1e" * 5), Oid("77777777" * 5)
AT = parse_stamp("2026-02-05T14:00Z")
LATER = parse_stamp("2026-02-05T15:07Z")
MERGE = Triage(Merge(), SIGMA, parse_stamp("2026-02-05T15:00Z"))
REPLY = Triage(
    Reply(parse_topic("re-x")), SIGMA, LATER, "> they say\n\nWe:\n\n```\n## Triage\n```\n\n## So\n\n---\n\nx"
)  # fmt: skip
SECTION = "## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z"

HOSTILE = [
    "",
    " ",
    SECTION,
    f"---\n\n{SECTION}\n",
    f"\n\n{SECTION}\n\n{SECTION}",
    f"x\r{SECTION}".replace("\n", "\r"),
    SECTION.replace("\n", "\r\n"),
    *(SECTION.replace("\n", end) for end in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"),
    f"> {SECTION}",
    f"\n> > {SECTION}",
    f"\\\n{SECTION}",
    f"\ufeff{SECTION}",
    f"\u202e{SECTION}\u202c",
    f"\u200b## Triage\n{SECTION}",
    f"\ud800\n{SECTION}\udcff",
    f"```\n{SECTION}",
    f"~~~\n{SECTION}\n```",
    f"```\n```\n{SECTION}",
    f"<!--\n{SECTION}",
    f"-->\n{SECTION}\n<!--",
    f"<!-- -->\n\n{SECTION}",
    "<pre><details><script>",
    f"---\ntitle: x\n---\n{SECTION}",
    f"**Head:** {OTHER}\n**From:** sigma\n**Signature:** verified SHA256:x\n**Branch:** pi/other",
    f"# pi/other\n\n**Head:** {OTHER}\n\n---\n\n> other\n\n{SECTION}",
    f"| 15:00 | pi/x | do:merge | ✓ merged |\n{SECTION}",
    "a\0b\x1b[2J\x1b[1;31m\x08\x7f",
    "a" * 10_000 + f"\n{SECTION}",
    f"Triage\n---\n{SECTION}",
    "> " * 200 + SECTION,
    "trailing   \n   \n\t\n  ",
]
CHARS = st.one_of(
    st.characters(exclude_categories=()),
    st.sampled_from("\n\r\v\f\x85\u2028\u2029\u202e\u200b\ud800\ufeff>`~#-<!|*: \t"),
)
LINES = st.sampled_from([*SECTION.split("\n"), "---", "```", "~~~", "<!--", "-->", ">", f"**Head:** {OTHER}", "\n"])
HOSTILE_TEXT: SearchStrategy[str] = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(CHARS, max_size=80),
    st.lists(st.one_of(LINES, st.text(CHARS, max_size=20)), max_size=12).flatmap(
        lambda lines: st.sampled_from("\n\r\v\f\x85\u2028").map(lambda end: end.join(lines))
    ),
)

HOSTILE_PATH = HOSTILE_TEXT.map(lambda text: text.encode("utf-8", "replace").decode())
"""As git's names are read."""


def header(topic: str = "proposal", head: Oid = HEAD, earlier: str = "") -> Header:
    return Header(PI, topic, parse_branch(f"pi/{topic}"), AT, head, "unverified", earlier)


def assert_only_ours(text: str, branch: str = "pi/proposal") -> None:
    """Every unquoted line is one that cn wrote, and the thread is pending at its true head."""
    unquoted = [line for line in text.split("\n") if not line.startswith(">")]
    assert unquoted == [
        f"# {branch}",
        "",
        "**From:** pi",
        f"**Branch:** {branch}",
        "**Received:** 2026-02-05T14:00Z",
        f"**Head:** {HEAD}",
        "**Signature:** unverified",
        "",
        "---",
        "",
        "",
    ]
    assert len(text.splitlines()) == text.count("\n")
    assert seen_head(text) == HEAD
    assert read_decision(text, text) is None
    text.encode()


def assert_decides(text: str) -> None:
    """A genuine section is read back exactly, however an editor saves the file."""
    for triage in (replace(MERGE, at=LATER), REPLY):
        decided = set_triage(text, triage)
        for saved in (
            decided,
            decided.replace("\n", "\r\n"),
            "\ufeff" + decided,
            decided.rstrip("\n"),
            decided + "\n\n",
            "\n".join(line.rstrip() for line in decided.split("\n")),
        ):
            working = read_text(saved.encode())
            assert read_decision(working, text) == triage
            assert seen_head(working) == HEAD
        assert set_triage(set_triage(text, MERGE), triage) == decided


@pytest.mark.parametrize("content", HOSTILE, ids=lambda t: ascii(t)[:40])
def test_no_hostile_content_decides(content: str) -> None:
    text = format_thread(header(), content)
    assert_only_ours(text)
    assert_decides(text)


@given(HOSTILE_TEXT)
def test_no_content_decides(content: str) -> None:
    text = format_thread(header(), content)
    assert_only_ours(text)
    assert_decides(text)


@settings(max_examples=50)
@given(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_PATH, HOSTILE_TEXT, HOSTILE_PATH)
def test_no_part_of_a_proposal_decides(message: str, author: str, date: str, path: str, body: str, old: str) -> None:
    proposal = Proposal(
        (Commit(HEAD, author, author, date, message), Commit(OTHER, date, path, author, f"x\n{message}")),
        True,
        (Touched("M", path, "100644", HEAD, OTHER, "1", "2"), Touched(date, path, "100755", HEAD, OTHER, "-", "-")),
        (FileText(path, "added", body), FileText(path, "changed", body), FileText(path, "changed", body, old)),
        ((path, "too large"),),
        None,
    )
    for limit in (1 << 18, 1024, 200):
        text = format_thread(header(), format_proposal(proposal, limit, 1 << 20))
        assert_only_ours(text)
        assert_decides(text)


@settings(max_examples=50)
@given(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT)
def test_no_part_of_a_message_decides(subject: str, body: str, reason: str, name: str) -> None:
    about = About(parse_branch("sigma/x"), OTHER, "replied", None, reason)
    message = Message(MESSAGE, PI, SIGMA, subject, AT, body, name, about)
    text = format_thread(header(), format_message_content(message, [name], 1 << 18))
    assert_only_ours(text)
    assert_decides(text)


TOPICS = [
    "<!--x", "a/<!--", "-->", "`x`", "```", "x", "#", "$(x)", "a;b|c", "Triage", "\u202egpj", "\u200b",
    "Head",
    "&lt;!--", "a" * 240, "日本/語", "---", "|", "<script>",
]  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS, ids=ascii)
def test_no_branch_name_hides_or_forges_a_line(topic: str) -> None:
    text = format_thread(header(topic), "content")
    unquoted = [line for line in text.split("\n") if not line.startswith(">")]
    assert len(unquoted) == 11
    assert unquoted[0].startswith("# pi/")
    assert unquoted[3].startswith("**Branch:** pi/")
    assert unquoted[5] == f"**Head:** {HEAD}"
    assert_decides(text)


@given(HOSTILE_TEXT)
@example("<!--")
def test_no_topic_decides(topic: str) -> None:
    try:
        branch = parse_branch(f"pi/{topic}")
    except NameRefused:
        return
    text = format_thread(Header(PI, topic_of(branch), branch, AT, HEAD, "unverified"), "content")
    assert len([line for line in text.split("\n") if not line.startswith(">")]) == 11
    assert seen_head(text) == HEAD
    assert read_decision(text, text) is None
    assert_decides(text)


def test_plain_branch_names_stand_as_they_are() -> None:
    text = format_thread(header("Feature/x_1.2"), "content")
    assert text.startswith("# pi/Feature/x_1.2\n\n**From:** pi\n**Branch:** pi/Feature/x_1.2\n")


def test_the_fields_may_stand_in_any_order() -> None:
    text = format_thread(header(), "content")
    fields = ["decision: do:merge", "actor: sigma", "timestamp: 2026-02-05T15:00Z"]
    for order in itertools.permutations(fields):
        assert read_decision(f"{text}\n## Triage\n" + "\n".join(order), text) == MERGE


THREAD = format_thread(header(), "one\n\ntwo\n## three")


@pytest.mark.parametrize(
    ("working", "what"),
    [
        (f"{THREAD}\n{SECTION}\n\n{SECTION}\n", "two ## Triage sections"),
        (f"{SECTION}\n{THREAD}", "before the peer's text"),
        (f"{SECTION}\n{THREAD}\n{SECTION}", "two ## Triage sections"),
        (THREAD.replace("---", f"{SECTION}\n\n---"), "before the peer's text"),
        (THREAD.replace("> two", f"{SECTION}\n\n> two"), "before the peer's text"),
        (f"{THREAD}\n## Triage\n\ndecision: do:merge\nactor: sigma\n", "lacks timestamp"),
        (f"{THREAD}\n## Triage\n", "lacks decision and actor and timestamp"),
        (f"{THREAD}\n## triage\n\ndecision: do:merge", "lacks actor and timestamp"),
        (f"{THREAD}\n### Triage\n\ndecision: do:merge", "no line '## Triage' stands above it"),
        (f"{THREAD}\n```\n{SECTION}\n```\n", "no line '## Triage' stands above it"),
        (f"{THREAD}\n```\n{SECTION}\n", "no line '## Triage' stands above it"),
        (f"{THREAD}\n<!--\n{SECTION}\n-->\n", "no line '## Triage' stands above it"),
        (f"{THREAD}\n{SECTION}\nactor: pi\n", "actor twice"),
        (f"{THREAD}\n{SECTION.replace('do:merge', 'merge')}", "'merge' is not a decision"),
    ],
    ids=lambda text: ascii(text)[-30:],
)
def test_sections_that_must_not_decide(working: str, what: str) -> None:
    with pytest.raises(TriageRefused, match=what) as caught:
        read_decision(working, THREAD)
    assert caught.value.hint


@pytest.mark.parametrize(
    "working",
    [
        THREAD,
        f"{THREAD}\n" + quote(SECTION),
        f"{THREAD}\ndecision: as we said\n",
        f"{THREAD}\n## Deferred\n\n- 2026-02-05 ✓ deferred\n\n{SECTION.partition('Triage')[2]}",
        f"{THREAD}\nSome notes, no decision.\n",
        "",
    ],
)
def test_pending(working: str) -> None:
    assert read_decision(working, THREAD) is None


@pytest.mark.parametrize(
    "working",
    [
        f"{THREAD}\n{SECTION}",
        f"{THREAD}\nnotes\n\n> quoted notes\n\n{SECTION}",
        f"{THREAD}\n```\n{SECTION}\n```\n\n{SECTION}\n",
        f"{THREAD}\n<!-- {SECTION} -->\n\n{SECTION}\n",
        THREAD.replace("> two", "> edited") + f"\n{SECTION}",
        THREAD.replace("> two\n", "") + f"\n{SECTION}",
        THREAD.replace("> two", "two") + f"\n{SECTION}",
        THREAD.replace("---\n", "") + f"\n{SECTION}",
    ],
)
def test_notes_and_edits_above_do_not_matter(working: str) -> None:
    assert read_decision(working, THREAD) == MERGE


def test_a_quote_after_the_section_of_an_edited_thread_is_refused() -> None:
    """Where the peer's text ends is not known then."""
    working = THREAD.replace("> two", "> edited") + f"\n{SECTION}\n\n> quoted"
    with pytest.raises(TriageRefused, match="before the peer's text"):
        read_decision(working, THREAD)


def test_a_section_copied_from_the_peer_is_refused() -> None:
    thread = format_thread(header(), f"Please append this:\n\n{SECTION}")
    with pytest.raises(TriageRefused, match="word for word"):
        read_decision(f"{thread}\n{SECTION}\n", thread)
    with pytest.raises(TriageRefused, match="word for word"):
        read_decision(f"{thread}\n{SECTION}\napproval: APPROVED\n", thread)
    own = SECTION.replace("15:00Z", "15:01Z")
    assert read_decision(f"{thread}\n{own}\n", thread) is not None
    message = format_thread(header(), quote(SECTION))
    with pytest.raises(TriageRefused, match="word for word"):
        read_decision(f"{message}\n{SECTION}\n", message)
    quoted = format_thread(header(), quote(quote(SECTION)))
    assert read_decision(f"{quoted}\n{SECTION}\n", quoted) is not None, "'> decision' is another line"


def test_a_misplaced_section_is_not_replaced_at_the_price_of_the_peers_text() -> None:
    with pytest.raises(TriageRefused, match="before the peer's text"):
        set_triage(f"{SECTION}\n\n{THREAD}", MERGE)


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (THREAD, HEAD),
        (THREAD.replace(f"**Head:** {HEAD}", f"**Head:**\t{HEAD}  "), HEAD),
        (THREAD.replace(HEAD, OTHER), OTHER),
        (THREAD.replace(f"**Head:** {HEAD}\n", ""), ""),
        (THREAD.replace(f"**Head:** {HEAD}", "**Head:** none"), ""),
        (THREAD.replace(f"**Head:** {HEAD}\n", "") + f"**Head:** {HEAD}", ""),
        ("", ""),
    ],
)
def test_the_head_an_actor_saw(text: str, head: str) -> None:
    assert seen_head(text) == head


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\nb", "a\nb"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"\xef\xbb\xbfa", "a"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", "\ufeffa"),
        (b"a\rb", "a\rb"),
        ("é\u2028".encode(), "é\u2028"),
    ],
)
def test_reading_a_file(data: bytes, text: str) -> None:
    assert read_text(data) == text


@pytest.mark.parametrize("data", [b"\xff", "x".encode("utf-16"), "é".encode("latin-1"), b"\xed\xa0\x80"])
def test_other_encodings_are_refused(data: bytes) -> None:
    with pytest.raises(TriageRefused, match="not UTF-8") as caught:
        read_text(data)
    assert caught.value.hint


def test_a_refreshed_thread_keeps_notes_and_voids_the_triage() -> None:
    fresh = format_thread(header(head=OTHER), "new text")
    text = refresh(set_triage(f"{THREAD}\nMy notes.\n", REPLY), fresh, "The branch moved; decide again.", [THREAD])
    assert text.startswith(fresh.rstrip())
    assert "My notes." in text
    assert "one" not in "".join(peer_block(text))
    assert "## Void triage\n\nThe branch moved; decide again.\n\n> decision: do:reply:re-x" in text.replace(">\n", "")
    assert read_decision(text, text) is None
    assert seen_head(text) == OTHER
    assert read_decision(set_triage(text, REPLY), text) == REPLY


def test_a_thread_refreshes_to_itself() -> None:
    assert refresh(THREAD, THREAD, "x") == THREAD


@given(HOSTILE_TEXT, HOSTILE_TEXT)
def test_refreshing_never_decides(old: str, new: str) -> None:
    before = format_thread(header(), old)
    fresh = format_thread(header(head=OTHER), new)
    for working in (before, set_triage(before, MERGE), set_triage(before, REPLY)):
        text = refresh(working, fresh, "moved", [before])
        assert read_decision(text, text) is None
        assert seen_head(text) == OTHER
        assert read_decision(set_triage(text, REPLY), text) == REPLY


@given(HOSTILE_TEXT)
def test_a_deferred_thread_can_be_decided_again(content: str) -> None:
    thread = format_thread(header(), content)
    for triage in (MERGE, REPLY):
        kept = mark_triage(set_triage(thread, triage), "Deferred", "- 2026-02-05T15:00Z ✓ deferred")
        assert read_decision(kept, kept) is None
        assert seen_head(kept) == HEAD
        block, again = peer_block(thread), peer_block(kept)
        assert [line.rstrip() for line in again] == [line.rstrip() for line in block]
        assert read_decision(set_triage(kept, REPLY), kept) == REPLY


@pytest.mark.parametrize("notes", ["```\nunfinished code", "~~~~ md\n```", "<!-- unfinished", "x <!-- y"])
def test_what_notes_leave_open_does_not_hide_the_decision(notes: str) -> None:
    text = f"{THREAD}\n{notes}\n"
    assert read_decision(set_triage(text, REPLY), THREAD) == REPLY
    moved = refresh(text, THREAD, "moved")
    assert read_decision(set_triage(moved, REPLY), THREAD) == REPLY
    body = Triage(Reply(parse_topic("x")), SIGMA, LATER, notes)
    kept = mark_triage(set_triage(THREAD, body), "Deferred", "- done")
    assert read_decision(set_triage(kept, REPLY), THREAD) == REPLY
    done = append_section(set_triage(THREAD, body), "Executed", ["- done"])
    assert find_headings([*done.replace("## Triage", "").split("\n"), "## Triage"]) != []


def test_a_new_triage_replaces_an_unprocessed_one() -> None:
    assert set_triage(set_triage(THREAD, REPLY), MERGE) == set_triage(THREAD, MERGE)
    assert set_triage(THREAD, MERGE).count("---") == 2


def test_an_earlier_thread_is_named() -> None:
    text = format_thread(header(earlier="20260101-pi-proposal.md"), "x")
    assert "**Earlier:** 20260101-pi-proposal.md\n\n---\n" in text


BACK = "gone at 2026-02-05T15:00Z, and pushed again as the same commit by whoever can write there"


@pytest.mark.parametrize(
    ("named", "back", "void"),
    [
        ("", "", ""),
        ("", BACK, ""),
        (HEAD, "", ""),
        (HEAD[:7].upper(), "", ""),
        (f"{HEAD} -->", "", ""),
        (f"{HEAD}, time 1", BACK, ""),
        (f"{HEAD} ,time  2", f"{BACK} (time 2)", ""),
        (HEAD, "holds only a part of pi/all; a signature shows who made commits", ""),
        (OTHER, "", "names the head 77777777, the branch is at 3f2a9c1e"),
        (HEAD, BACK, "names the head 3f2a9c1e, the branch is at 3f2a9c1e, time 1"),
        (f"{HEAD}, time 1", f"{BACK} (time 2)", "names the head 3f2a9c1e, time 1, the branch is at 3f2a9c1e, time 2"),
        (f"{HEAD}, time 1", "", "names the head 3f2a9c1e, time 1, the branch is at 3f2a9c1e"),
    ],
)
def test_a_section_is_about_what_it_names_whatever_the_header_says(named: str, back: str, void: str) -> None:
    header = Header(PI, "proposal", parse_branch("pi/proposal"), AT, HEAD, "unverified", caution=back)
    text = format_thread(header, "content") + f"\n{SECTION}\n" + (f"head: {named}\n" if named else "")
    why, reason = why_void(text, Showing(HEAD, back))
    assert why == (f"void: the decision {void}" if void else "")
    assert bool(reason) == bool(void)
    assert shows(text, Showing(HEAD, back)) == (not void)
    decided = read_decision(text, text)
    assert decided is not None
    assert decided.decision == Merge()


@pytest.mark.parametrize("back", ["", BACK, f"{BACK} (time 2)"])
def test_a_form_that_is_filled_in_names_what_its_thread_shows(back: str) -> None:
    header = Header(PI, "proposal", parse_branch("pi/proposal"), AT, HEAD, "unverified", caution=back)
    form = add_form(format_thread(header, "content"), SIGMA)
    lines = form.replace("decision:\n", "decision: do:merge\n").replace("timestamp:", "timestamp: 2026-02-05")
    filled = "\n".join(line for line in lines.split("\n") if not line.startswith("<!--"))
    decided = read_decision(filled, form)
    assert decided is not None
    assert decided.head.startswith(HEAD)
    assert decided.body == ""
    assert shows(filled, Showing(HEAD, back))
    assert not shows(filled, Showing(HEAD, f"{BACK} (time 3)"))


def test_what_stands_between_gits_marks_decides_nothing_and_is_quoted() -> None:
    fresh = add_form(
        format_thread(Header(PI, "proposal", parse_branch("pi/proposal"), AT, HEAD, "unverified"), "content"), SIGMA
    )
    text = f"{fresh}<<<<<<< Updated upstream\n=======\nMy note.\n{SECTION}\n>>>>>>> Stashed changes\n"
    assert why_void(text, Showing(HEAD))[0] == "void: git left the marks of a conflict in the thread"
    again = refresh(text, fresh, "Why.", [fresh])
    assert why_void(again, Showing(HEAD)) == ("", "")
    assert read_decision(again, fresh) is None
    assert "> My note.\n> decision: do:merge\n> actor: sigma\n" in again
    assert again.endswith(fresh[fresh.index("<!-- To decide") :])
    with pytest.raises(TriageRefused, match="marks of a conflict"):
        check_section(replace(REPLY, body="<<<<<<< a\n=======\n>>>>>>> b"))


def test_a_number_without_end_is_no_time() -> None:
    """Python reads 4300 digits at most; a file may hold any."""
    digits, head = "9" * 5000, "a" * 40
    for line in (f"**Shown:** anew, time {digits}: x", f"**Caution:** went back to it (time {digits})"):
        found = seen_showing(f"# t\n\n**Head:** {head}\n{line}\n\n---\n")
        assert found.head == head
        assert found.time <= 1
