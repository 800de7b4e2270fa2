"""Is what a commit made of a file still there, when the file has changed since?"""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.entries import Entry
from cn.git.process import Git
from cn.git.still_there import Versions, still_there
from cn.values.names import Oid
from tests.support.hubs import git

FILE = "100644"
LINES = "".join(f"line {n}\n" for n in range(1, 41))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def entry(repo: Path, text: str | bytes | None, mode: str = FILE) -> Entry | None:
    if text is None:
        return None
    data = text if isinstance(text, bytes) else text.encode()
    (repo / "blob").write_bytes(data)
    return Entry(mode, Oid(git(repo, "hash-object", "-w", "--no-filters", "blob")))


def is_there(repo: Path, before: str | None, made: str | bytes | None, now: str | bytes | None) -> bool:
    versions = Versions(entry(repo, before), entry(repo, made), entry(repo, now))
    (answer,) = still_there(Git(repo), [versions])
    return answer


def with_lines(**new: str) -> str:
    """The 40 lines, some of them (``l3``) written anew, taken out, or made several."""
    words = {int(name[1:]): text for name, text in new.items()}
    return "".join(words.get(n, f"line {n}\n") for n in range(1, 41))


@pytest.mark.parametrize(
    ("before", "made", "now"),
    [
        (LINES, with_lines(l3="three\n"), with_lines(l3="three\n", l30="thirty\n")),
        (LINES, with_lines(l3="three\n"), with_lines(l3="three\n", l2="two\n", l4="four\n")),
        (LINES, with_lines(l3="a\nb\nc\n"), with_lines(l3="a\nmore\nb\nc\n")),
        (LINES, with_lines(l3=""), with_lines(l3="", l30="")),
        (LINES, with_lines(l3=""), with_lines(l3="other\n")),
        (LINES, "zero\n" + LINES, "-1\nzero\n" + LINES),
        (LINES, LINES + "end\n", LINES + "end\nof all\n"),
        (None, "a\n", "b\na\nc\n"),
        (None, LINES, with_lines(l20="line 20\nmore\n")),
        ("@@ -1 +1 @@\n", "@@ -1 +1 @@\n@@ -2 +2 @@\n", "@@ -1 +1 @@\n@@ -2 +2 @@\n-a\n+b\n"),
        ("a", "b", "b"),
        ("a\n", None, None),
    ],
)
def test_what_nobody_took_back_is_there(repo: Path, before: str | None, made: str | None, now: str | None) -> None:
    assert is_there(repo, before, made, now)


@pytest.mark.parametrize(
    ("before", "made", "now"),
    [
        (LINES, with_lines(l3="three\n"), LINES),
        (LINES, with_lines(l3="three\n"), with_lines(l30="thirty\n")),
        (LINES, with_lines(l3="three\n", l30="thirty\n"), with_lines(l30="thirty\n", l35="more\n")),
        (LINES, with_lines(l3="three\n"), with_lines(l3="3\n")),
        (LINES, with_lines(l3="three\n"), with_lines(l3="three\nline 3\n")),
        (LINES, with_lines(l3="three\n"), with_lines(l3="line 3\nthree\n")),
        (LINES, with_lines(l3="three\n"), with_lines(l3="  line 3\nthree\n")),
        (LINES, with_lines(l3=""), LINES + "more\n"),
        (LINES, with_lines(l1=""), LINES + "more\n"),
        (LINES, with_lines(l40=""), "more\n" + LINES),
        (LINES, with_lines(l3="a\nb\nc\n"), with_lines(l3="a\nc\n")),
        (None, "a\nb\n", "a\n"),
        (None, "a\n", None),
        ("a\n", None, "a\n"),
        ("a\n", None, "b\n"),
        ("a\n", "b\n", None),
        (None, b"\0a\n", b"\0a\nb\n"),
    ],
)
def test_what_was_taken_back_is_not_there(
    repo: Path, before: str | None, made: str | bytes | None, now: str | bytes | None
) -> None:
    assert not is_there(repo, before, made, now)


def test_a_mode_that_was_made_is_a_part_of_it(repo: Path) -> None:
    plain, run = entry(repo, "a\n"), entry(repo, "a\n", "100755")
    more, more_run = entry(repo, "a\nb\n"), entry(repo, "a\nb\n", "100755")
    other = entry(repo, "0\na\n")
    files = [
        Versions(plain, run, more_run),
        Versions(plain, run, more),
        Versions(other, plain, run),
        Versions(plain, entry(repo, "a\n", "120000"), more),
    ]
    assert still_there(Git(repo), files) == [True, False, True, False]


def test_of_very_many_files_each_must_be_the_same(repo: Path) -> None:
    grown = Versions(None, entry(repo, "a\n"), entry(repo, "a\nb\n"))
    same = Versions(None, entry(repo, "a\n"), entry(repo, "a\n"))
    assert still_there(Git(repo), [grown] * 50) == [True] * 50
    assert still_there(Git(repo), [grown] * 51 + [same]) == [False] * 51 + [True]
