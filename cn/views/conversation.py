"""A thread's file as a conversation: what was proposed, what was said, what was decided. Pure.

The file is text for people (``docs/protocol/thread.md``); this reads it back for doors that show its parts apart.
Whatever it holds, every line of it comes back in some part. A proposal that does not stand in exactly the form in which
cn writes it is one text: what is shown as its files must be what a merge brings. So is a message of an older cn, in
which a line of the peer could stand where one of cn's does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat, takewhile
from typing import NamedTuple

from cn.protocol.message_text import read_message_text, read_words
from cn.protocol.proposal_text import (
    COMMIT_LIST,
    CUT,
    EMPTY,
    FILE_LIST,
    INDENT,
    NEW_TEXT,
    NOT_SHOWN,
    read_heading,
    read_row,
    read_sections,
)
from cn.protocol.thread_file import without_form
from cn.values.text import unquote
from cn.views.difference import Kind, hunk_kinds

_SAID = re.compile(r"\*\*([^*]+) (wrote|proposed), ([^*]+)\*\* \((.*)\)")
_HEADER = re.compile(r"\*\*[A-Z][a-z]+:\*\* ")
_COMMIT = re.compile(r"- ([0-9a-f]{10}) ([^<>]*) <([^<>]*)> (\S+): (.*)")
_MOST_OPEN = 400
"""Lines up to which a file's difference is shown unfolded."""


class File(NamedTuple):
    """One file of a proposal: what became of it, its lines with their kinds, and what cn says of them."""

    path: str
    word: str
    lines: tuple[tuple[Kind, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """Lines that came; of a new file all of them."""
        return len(self.lines) if self.word == "added" else sum(kind == "added" for kind, _ in self.lines)

    @property
    def removed(self) -> int:
        """Lines that went."""
        return sum(kind == "removed" for kind, _ in self.lines)

    @property
    def is_short(self) -> bool:
        """May it stand unfolded?"""
        return len(self.lines) <= _MOST_OPEN


class Commit(NamedTuple):
    """A commit of a proposal, as its first line tells it."""

    id: str
    author: str
    email: str
    at: str
    subject: str


class Proposed(NamedTuple):
    """A proposal as its thread shows it: commits with their messages, the list of files, the differences of those that
    are shown, and which are not.
    """

    commits: tuple[str, ...]
    listed: tuple[str, ...]
    files: tuple[File, ...]
    rest: tuple[str, ...]


class Said(NamedTuple):
    """Something that was said. ``who`` is empty for a note that stands in the file; ``head`` names a section.

    ``what`` is the kind, or the branch it came on.
    """

    who: str
    at: str
    what: str
    head: str
    text: str


class Conversation(NamedTuple):
    """What the branch holds, a proposal or a text, and what followed, in order; ``before``: what it answers."""

    proposed: Proposed | None
    text: str
    said: tuple[Said, ...]
    before: str = ""


def read_conversation(text: str, kind: str) -> Conversation:
    """The parts of a thread's file; ``kind`` is that of the thread."""
    lines = without_form(text).split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith(">")), len(lines))
    block = list(takewhile(lambda line: line.startswith(">"), lines[start:]))
    quoted = unquote("\n".join(block))
    above = [line for line in lines[:start] if not (_HEADER.match(line) or line.startswith("# ") or line == "---")]
    told = tuple(_said(lines[start + len(block) :]))
    note = "\n".join(above).strip("\n")
    said = (Said("", "", "note", "", note), *told) if note else told
    if kind == "proposal":
        proposed = read_proposal(quoted.split("\n"))
        return Conversation(proposed, "" if proposed else quoted.strip("\n"), said)
    if (message := read_message_text(quoted)) is not None:
        return Conversation(None, message.words, (*_below(message.below), *said), message.before)
    return Conversation(None, quoted.strip("\n"), said)


def read_proposal(lines: Sequence[str]) -> Proposed | None:
    """Commits and files of a proposal (:func:`cn.git.read_branches.format_proposal`).

    None where it has another form, as one of an older cn or one that somebody edited, or where what is shown of files
    is not what the list of files names, in that order.
    """
    sections = [(head, list(body)) for head, body in read_sections(lines)]
    for _, body in sections[:-1]:
        if body[-1:] == [""]:
            del body[-1]  # the blank line before the next heading
    rest = sections.pop()[1] if sections and sections[-1][0] == NOT_SHOWN else []
    if [head for head, _ in sections[:2]] != [COMMIT_LIST, FILE_LIST]:
        return None
    (_, commits), (_, listed), *shown = sections
    files = [file for head, body in shown if (file := _read_file(head, body)) is not None]
    named = iter([read_row(line) for line in listed])
    is_listed = len(files) == len(shown) and all((file.path, file.word) in named for file in files)
    ours = [*listed, *rest, *(line for line in commits if not line.startswith(INDENT))]
    if is_listed and all(not line or line.startswith(("- ", "(", CUT)) for line in ours):
        return Proposed(_filled(commits), _filled(listed), tuple(files), _filled(rest))
    return None


def _filled(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if line)


def _read_file(head: str, body: list[str]) -> File | None:
    """What is shown of one file; None where a line of it is neither its own nor one that cn writes there."""
    named, before, behind = read_heading(head), list[str](), list[str]()
    if body[:1] == [""]:
        del body[0]
    while body[:1] in ([NEW_TEXT], [EMPTY]):
        before.append(body[0])
        del body[:2]
    while body and body[-1].startswith(CUT):
        behind.append(body.pop())
        if body[-1:] == [""]:
            del body[-1]
    if named is None or any(line and not line.startswith(INDENT) for line in body):
        return None
    path, word = named
    lines = [line.removeprefix(INDENT) for line in body]
    is_text = word == "added" or NEW_TEXT in before
    kinds: Iterable[Kind] = repeat("", len(lines)) if is_text else hunk_kinds(lines)
    return File(path, word, tuple(zip(kinds, lines, strict=True)), (*before, *reversed(behind)))


def read_commit(line: str) -> Commit | None:
    """The commit that a line of a proposal tells of; None where it tells of none, or not in that form."""
    found = _COMMIT.fullmatch(line)
    return Commit(*found.groups()) if found else None


def _said(lines: Sequence[str]) -> Iterator[Said]:
    """What stands below the quotation: words with their author, sections of cn's, notes of people."""
    begun, body = Said("", "", "note", "", ""), list[str]()
    for line in lines:
        words, head = _SAID.fullmatch(line), line.startswith("## ")
        if words or head:
            yield from _ended(begun, body)
            body = []
            begun = Said(words[1], words[3], words[4], "", "") if words else Said("", "", "section", line[3:], "")
        elif line != "---":
            body.append(line)
    yield from _ended(begun, body)


def _ended(begun: Said, body: Sequence[str]) -> Iterator[Said]:
    text, below = "\n".join(body).strip("\n"), tuple[str, ...]()
    if begun.who:
        text = unquote(text)
        if (message := read_words(text.split("\n"))) is not None:
            text, below = message.words, message.below
    if text or begun.who or begun.head:
        yield begun._replace(text=text)
    yield from _below(below)


def _below(lines: Sequence[str]) -> Iterator[Said]:
    """What cn says below the words of a message: what came with it, and that they are cut."""
    for one in _said(lines) if lines else ():
        yield one._replace(what="section", head=one.head or "Not shown")
