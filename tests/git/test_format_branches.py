"""What a branch says and changes, shown within limits; nothing of it is hidden."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cn.git.read_branches import Commit, FileText, Proposal, Touched, format_message_content, format_proposal
from cn.protocol.layout import MESSAGE
from cn.protocol.message import About, Message
from cn.protocol.proposal_text import FORM, INDENT
from cn.values.names import Oid, parse_branch, parse_name
from cn.values.text import quote
from cn.values.timestamps import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
A, B = Oid("a" * 40), Oid("b" * 40)
ANY = st.text(st.characters(exclude_categories=()), max_size=60)
LIMIT = 1 << 18


def proposal(*texts: FileText, touched: tuple[Touched, ...] = ()) -> Proposal:
    return Proposal((Commit(A, "Pi", "pi@x", "2026-02-05", "Subject\n\nBody"),), False, touched, texts, (), None)


def shown(text: FileText) -> list[str]:
    """What stands below the heading of a file ``f``, without the indentation of its lines."""
    below = format_proposal(proposal(text), LIMIT, LIMIT).partition("## f (")[2].split("\n")[2:]
    return [line.removeprefix(INDENT) for line in below]


def test_a_new_file_is_shown_whole() -> None:
    assert shown(FileText("f", "added", "one\ntwo")) == ["one", "two"]


def test_a_changed_file_is_shown_as_its_hunks() -> None:
    patch = "@@ -1,2 +1,2 @@\n one\n--- two\n+++ two\n"
    assert shown(FileText("f", "changed", "one\n++ two\n", patch)) == patch.split("\n")[:-1]


def test_a_changed_file_without_hunks_is_shown_whole_and_says_so() -> None:
    assert shown(FileText("f", "changed", "one\ntwo")) == ["(the new text)", "", "one", "two"]


def test_commits_files_and_what_is_left_out() -> None:
    touched = (
        Touched("A", "new\n.md", "100644", A, B, "3", "0"),
        Touched("D", "bin", "000000", A, B, "-", "-"),
        Touched("T", "link", "120000", A, B, "", "", "100644", "", "new\n.md"),
        Touched("D", "was", "000000", A, B, "", "", "120000", "", "", "bin"),
        Touched("R", "b.md", "100755", A, B, "2", "1", "100644", "a\u202e.md"),
        Touched("X", "odd", "100644", A, B, "0", "0"),
    )
    text = format_proposal(
        Proposal(
            (Commit(A, "Pi\n", "p\u202e", "now", "One\n\n  two\x1b"),), True, touched, (), (("big", "too large"),), B
        ),
        LIMIT,
        LIMIT,
    )
    assert text.split("\n") == [
        FORM,
        "",
        "## Commits",
        "",
        "- aaaaaaaaaa Pi <p<U+202E>> now: One",
        "",
        "        two\x1b",
        "- … and more (the last 1 are shown)",
        "",
        "## Files",
        "",
        "- added new<U+000A>.md (+3 −0)",
        "- deleted bin (binary)",
        "- type changed link, a link to new<U+000A>.md",
        "- deleted was, was a link to bin",
        "- renamed a<U+202E>.md → b.md (+2 −1), executable",
        "- X odd (+0 −0)",
        "",
        "## Not shown",
        "",
        "- big: too large",
    ]


def test_a_line_is_what_it_is_to_git() -> None:
    body = "# a comment\x0b    return True\x85x\u2028-debug\r\nend\ry\r\n"
    lines = ["# a comment<U+000B>    return True<U+0085>x<U+2028>-debug", "end<U+000D>y"]
    assert shown(FileText("f", "added", body)) == lines
    assert quote(body).split("\n") == [f"> {line}" for line in lines]


def test_no_two_lines_of_a_file_that_differ_look_alike_by_their_spaces() -> None:
    patch = "@@ -1 +1 @@\n-if [ $a = $b ]\n+if [ $a\u00a0=\u3000$b ]\n"
    assert shown(FileText("f", "changed", "", patch))[2] == "+if [ $a<U+00A0>=<U+3000>$b ]"
    spaces = [char for char in map(chr, range(0x10000)) if char.isspace() and char not in " \n\t"]
    assert len(spaces) > 20
    for char in (*spaces, "\u0378", "\uffff", "\ufdd0"):
        assert shown(FileText("f", "added", f"a{char}b")) != [f"a{char}b"], hex(ord(char))
    plain = "Grüße\t世界 ✓ – × naïve café 👍🏽"
    assert shown(FileText("f", "added", plain)) == [plain]


def test_line_ends_are_shown_where_they_differ() -> None:
    """Else a change of them alone would show the same line twice."""
    patch = "@@ -1,2 +1,2 @@\n-one\n+one\r\n two\n\\ No newline at end of file\n"
    assert shown(FileText("f", "changed", "one\r\ntwo", patch))[1:4] == ["-one", "+one<U+000D>", " two"]
    same = "@@ -1 +1 @@\n-one\r\n+two\r\n"
    assert shown(FileText("f", "changed", "two\r\n", same)) == ["@@ -1 +1 @@", "-one", "+two"]
    assert shown(FileText("f", "added", "one\r\ntwo\n")) == ["one<U+000D>", "two"]
    assert shown(FileText("f", "added", "one\r\r\ntwo\r\r\n")) == ["one<U+000D><U+000D>", "two<U+000D><U+000D>"]


def test_what_becomes_executable_is_told() -> None:
    touched = (
        Touched("A", "new", "100755", A, B, "3", "0"),
        Touched("M", "tool", "100755", A, A, "0", "0", "100644"),
        Touched("M", "plain", "100644", A, A, "0", "0", "100755"),
        Touched("M", "same", "100755", A, B, "1", "0", "100755"),
    )
    text = format_proposal(Proposal((), False, touched, (), (), B), LIMIT, LIMIT)
    assert text.split("\n")[-4:] == [
        "- added new (+3 −0), executable",
        "- changed tool (+0 −0), executable",
        "- changed plain (+0 −0), no longer executable",
        "- changed same (+1 −0)",
    ]


def test_a_long_file_is_cut_at_a_line_and_says_how_many_are_left() -> None:
    text = format_proposal(proposal(FileText("f", "added", "one\ntwo\nthree\n")), LIMIT, 9)
    assert text.partition("## f (")[2].split("\n")[2:] == ["    one", "    two", "", "… cut here: 1 lines more"]


def test_an_empty_branch() -> None:
    text = format_proposal(Proposal((Commit(A, "", "", "", ""),), False, (), (), (), None), LIMIT, LIMIT)
    assert "(no file changed)" in text


def test_many_files_are_counted() -> None:
    touched = tuple(Touched("A", f"f{i}", "100644", A, B, "1", "0") for i in range(1234))
    text = format_proposal(proposal(touched=touched), LIMIT, LIMIT)
    assert "- … and 234 more" in text


@given(ANY, st.integers(0, 200))
def test_what_is_too_long_is_cut_and_says_so(body: str, limit: int) -> None:
    text = format_proposal(proposal(FileText("f", "added", body * 3)), limit, LIMIT)
    kept, mark, more = text.rpartition("\n\n… cut here: ")
    if len(text.encode("utf-8", "replace")) > limit:
        assert len(kept.encode("utf-8", "replace")) <= limit
        assert mark
        assert re.fullmatch(r"[0-9]+ bytes more", more)


def test_a_message() -> None:
    message = Message(
        MESSAGE,
        PI,
        SIGMA,
        "Hello\n## Triage",
        parse_stamp("2026-02-05T14:00Z"),
        "Body\n\n## Attachments",
        "x",
        About(parse_branch("sigma/y"), B, "replied"),
    )
    assert format_message_content(message, ["attachments/a\nb"], LIMIT).split("\n") == [
        "# Hello ## Triage",
        "",
        "message from pi, written 2026-02-05T14:00Z",
        "in reply to x",
        "about sigma/y at bbbbbbbbbb: replied",
        "",
        "> Body",
        ">",
        "> ## Attachments",
        "",
        "## Attachments",
        "",
        "- attachments/a<U+000A>b",
    ]


def test_a_message_without_words() -> None:
    message = Message(MESSAGE, PI, SIGMA, "", parse_stamp("2026-02-05T14:00Z"))
    assert format_message_content(message, [], LIMIT).startswith("# (no subject)\n")
