"""What a branch says and changes, shown within limits; nothing of it is hidden (DESIGN 6)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.core.content import Commit, FileText, Proposal, Touched, format_message_content, format_proposal
from cn.core.message import MESSAGE, About, Message
from cn.core.names import Oid, parse_branch, parse_name
from cn.core.stamp import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
A, B = Oid("a" * 40), Oid("b" * 40)
ANY = st.text(st.characters(exclude_categories=()), max_size=60)
LIMIT = 1 << 18


def proposal(*texts: FileText, touched: tuple[Touched, ...] = ()) -> Proposal:
    return Proposal(
        (Commit(A, "Pi", "pi@x", "2026-02-05", "Subject\n\nBody"),), False, touched, texts, (), None
    )


def shown(old: str | None, new: str) -> list[str]:
    text = format_proposal(proposal(FileText("f", old, new)), LIMIT)
    return text.partition("## f (")[2].split("\n")[2:]


def test_a_new_file_is_shown_whole() -> None:
    assert shown(None, "one\ntwo") == ["one", "two"]


def test_a_changed_file_is_shown_as_a_difference() -> None:
    assert shown("one\ntwo\nthree", "one\n2\nthree") == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]


@pytest.mark.parametrize("line", ["-- drop table", "++ i", "++ b/x", "-- a/x", "-", "+", "--", "++ "])
def test_no_changed_line_is_taken_for_the_head_of_the_difference(line: str) -> None:
    """An added "++ x" reads "+++ x" in the difference."""
    assert f"+{line}" in shown("a", f"a\n{line}")
    assert f"-{line}" in shown(f"a\n{line}", "a")


@given(
    st.lists(st.sampled_from(["a", "b", "-- x", "++ x", "@@", ""])),
    st.lists(st.sampled_from(["a", "-- x", "++ x"])),
)
def test_every_added_and_removed_line_is_shown(old: list[str], new: list[str]) -> None:
    lines = shown("\n".join(old), "\n".join(new))
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    rebuilt = [line[1:] for line in lines if line[:1] in ("+", " ")]
    if before != after:
        removed = [line[1:] for line in lines if line.startswith("-")]
        added = [line[1:] for line in lines if line.startswith("+")]
        assert len(added) - len(removed) == len(after) - len(before)
        assert set(after) - set(before) <= set(rebuilt)


@pytest.mark.parametrize(("old", "new"), [("a\nb", "a\r\nb"), ("a\n", "a"), ("a\nb", "a\u2028b")])
def test_a_change_of_line_ends_is_named(old: str, new: str) -> None:
    assert shown(old, new) == ["(only line ends differ)"]


def test_commits_files_and_what_is_left_out() -> None:
    touched = (
        Touched("A", "new\n.md", "100644", A, B, "3", "0"),
        Touched("D", "bin", "000000", A, B, "-", "-"),
        Touched("T", "link", "120000", A, B, "1", "1"),
        Touched("X", "odd", "100644", A, B, "0", "0"),
    )
    text = format_proposal(
        Proposal(
            (Commit(A, "Pi\n", "p\u202e", "now", "One\n\n  two\x1b"),),
            True,
            touched,
            (),
            (("big", "too large"),),
            B,
        ),
        LIMIT,
    )
    assert text.split("\n") == [
        "## Commits",
        "",
        "- aaaaaaaaaa Pi <p<U+202E>> now: One",
        "",
        "    two\x1b",
        "- … and more (the last 1 are shown)",
        "",
        "## Files",
        "",
        "- added new .md (+3 −0)",
        "- deleted bin (binary)",
        "- type changed link (+1 −1)",
        "- X odd (+0 −0)",
        "",
        "## Not shown",
        "",
        "- big: too large",
    ]


def test_an_empty_branch() -> None:
    text = format_proposal(Proposal((Commit(A, "", "", "", ""),), False, (), (), (), None), LIMIT)
    assert "(no file changed)" in text


def test_many_files_are_counted() -> None:
    touched = tuple(Touched("A", f"f{i}", "100644", A, B, "1", "0") for i in range(1234))
    text = format_proposal(proposal(touched=touched), LIMIT)
    assert "- … and 234 more" in text


@given(ANY, st.integers(0, 200))
def test_what_is_too_long_is_cut_and_says_so(body: str, limit: int) -> None:
    text = format_proposal(proposal(FileText("f", None, body * 3)), limit)
    kept, mark, more = text.partition("\n\n… cut here: ")
    assert len(kept.encode("utf-8", "replace")) <= limit or not mark
    if mark:
        assert re.fullmatch(r"[0-9]+ bytes more", more)
    else:
        assert len(text.encode("utf-8", "replace")) <= limit


def test_a_message() -> None:
    message = Message(
        MESSAGE,
        PI,
        SIGMA,
        "Hello\n## Triage",
        parse_stamp("2026-02-05T14:00Z"),
        "Body",
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
        "Body",
        "",
        "## Attachments",
        "",
        "- attachments/a b",
    ]


def test_a_message_without_words() -> None:
    message = Message(MESSAGE, PI, SIGMA, "", parse_stamp("2026-02-05T14:00Z"))
    assert format_message_content(message, [], LIMIT).startswith("# (no subject)\n")
