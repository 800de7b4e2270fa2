"""Is what a commit made of a file still there in a later version, which may have changed more of the file?

It is where no line that the commit added was taken out, and no line that it took out was put back at its place. So a
file that goes on growing has all of it, and one in which such a line was written anew has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from cn.git.entries import DIFF_SECONDS, LINK, SUBMODULE, Entry
from cn.git.objects import OUTPUT_BYTES
from cn.git.process import Git, GitError

_FILES = 50
"""Files of one question that are looked into; of more, each must be the same."""
_HUNK = re.compile(rb"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_PLACES = (LINK, SUBMODULE)


class Versions(NamedTuple):
    """A file before a commit, as the commit made it, and as it is now; None: it is not there."""

    before: Entry | None
    made: Entry | None
    now: Entry | None


class Hunk(NamedTuple):
    """One place where two versions differ: ``out`` are the lines that go, ``into`` those that come.

    The first of them stands at line ``old`` of the one and ``new`` of the other, counted from 1; where there are none,
    that is the line behind which they would stand.
    """

    old: int
    out: tuple[bytes, ...]
    new: int
    into: tuple[bytes, ...]


def still_there(git: Git, files: Sequence[Versions]) -> list[bool]:
    """Of each file: does it hold now what was made of it?

    What is no text, or of which git does not tell, holds it where it is the same.
    """
    same = [versions.made == versions.now for versions in files]
    if same.count(False) > _FILES:
        return same
    return [equal or _has_grown(git, versions) for equal, versions in zip(same, files, strict=True)]


def keeps(change: Sequence[Hunk], later: Sequence[Hunk]) -> bool:
    """Does ``later``, made upon ``change``, leave all of it as it is? Both are in the order of their lines."""
    at = 0
    for hunk in later:
        first, end = hunk.old, hunk.old + len(hunk.out)
        while at < len(change) and change[at].new + len(change[at].into) + 1 < first:
            at += 1
        for one in change[at:]:
            if one.new > end + 1:
                break
            takes_out = hunk.out and one.into and first < one.new + len(one.into) and one.new < end
            if takes_out or not _words(hunk.into).isdisjoint(_words(one.out)):
                return False
    return True


def _words(lines: Sequence[bytes]) -> set[bytes]:
    """What is said: a line without a word says nothing."""
    return {line.strip() for line in lines} - {b""}


def _has_grown(git: Git, versions: Versions) -> bool:
    before, made, now = versions
    if made is None or now is None or any(entry and entry.mode in _PLACES for entry in versions):
        return False
    if now.mode != made.mode and (before is None or made.mode != before.mode):
        return False  # the mode is a part of what was made
    try:
        later = _hunks(git, made, now)
        if before is None:
            return later is not None and not any(hunk.out for hunk in later)
        change = _hunks(git, before, made)
    except GitError:
        return False
    return change is not None and later is not None and keeps(change, later)


def _hunks(git: Git, before: Entry, after: Entry) -> list[Hunk] | None:
    """Where two files differ (git-diff(1), "Generating patch text with -p"); None: they are no text."""
    if before.oid == after.oid:
        return []
    how = ("--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--diff-algorithm=myers")
    done = git.run("diff", *how, before.oid, after.oid, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS)
    rows = iter(done.out.split(b"\n"))
    found = list[Hunk]()
    for row in rows:
        if row.startswith(b"Binary files "):
            return None
        if head := _HUNK.match(row):
            old, lines_out, new, lines_in = (int(word) if word else 1 for word in head.groups())
            out, into = _lines(rows, lines_out), _lines(rows, lines_in)
            found.append(Hunk(old, out, new, into))
    return found


def _lines(rows: Iterator[bytes], count: int) -> tuple[bytes, ...]:
    """The next lines of a hunk, without their sign. Behind one without a line feed stands a row that says so."""
    said = (row for row in rows if not row.startswith(b"\\"))
    return tuple(row[1:] for row in islice(said, count))
