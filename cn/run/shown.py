"""What each reader was shown last: what somebody decides, answers or accepts is what they have read.

Between a look and a decision a branch may move, and a sync of cron's bring the thread up to date without a word. So
what shows a thread notes its head, and how often its creator has said something there; ``cn input`` the item,
``cn trust`` the change to protected files; a decision about another one is refused. Readers are sessions and wakes
(:mod:`cn.system.session`): what a colleague, a program or the turn before was shown, the next one has not read.

One file for each reader and matter, ``.git/cn/readers-<user>/<matter>/<reader>``: a number, the highest of the matter
being that of the latest look, and what was shown. A user's notes are theirs alone. Losing one costs the check, never a
decision.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.repository import Hub
from cn.protocol.ledger import Item
from cn.run.short_ids import others_like
from cn.run.snapshot import Snapshot
from cn.system import session
from cn.system.files import PRIVATE, drop, read_regular, write_file
from cn.system.session import Reader, parse_reader, this_reader
from cn.values.errors import Blocked, Refused, UsageError
from cn.values.names import Name, short_ids
from cn.values.shell_words import command
from cn.values.text import some_of

ITEM, TRUST = "item", "trust"
"""Matters that are no threads: what ``cn input`` printed, and what ``cn trust`` showed."""
NOTHING = ""
"""Noted where a reader is done with what was shown."""
_OLD = ("shown", "trust-shown")
"""Below ``.git/cn``: notes for a whole clone, of an older cn, which no reader can be told of."""
_LONGEST = 100
_MATTERS = 500
_WAKES = 20
"""As many as are kept for a user, the latest."""


class _Note(NamedTuple):
    path: Path
    reader: Reader
    number: int
    value: str


def note_shown(hub: Hub, matter: str, value: str) -> None:
    """Note what this reader was shown. What cannot be noted keeps nobody from looking."""
    with suppress(Blocked, OSError):
        folder, us = _folder(hub), this_reader()
        notes = _notes(hub, matter)
        latest = max((note.number for note in notes), default=0)
        ours = [note for note in notes if note.reader.is_same(us)]
        if [(note.number, note.value) for note in ours] == [(latest, value)] or (value == NOTHING and not notes):
            return
        if not folder.exists():
            folder.mkdir(0o700, parents=True)
        path = folder / matter / str(us)
        write_file(path, f"{latest + 1} {value}\n".encode(), mode=PRIVATE)
        drop(*(note.path for note in ours if note.path != path))
        _prune(note for note in notes if note not in ours)
        _bound(folder)


def read_shown(hub: Hub, matter: str) -> frozenset[str]:
    """What this reader was shown last; where that is nothing, what this user was: by each session that lives, and the
    latest of those that are gone. More than one where these differ, empty where nothing is known.
    """
    notes, us = _notes(hub, matter), this_reader()
    found = [note for note in notes if note.reader.is_same(us)]
    if not found:
        others = [note for note in notes if not note.reader.wake]  # a wake reads for itself
        found = [note for note in others if note.reader.is_alive()]
        found += _latest(note for note in others if note not in found)
    else:
        found = _latest(found)
    return frozenset(note.value for note in found) - {NOTHING}


_SAID = re.compile(r"([0-9a-f]{7,64})(?:, ?time ([1-9][0-9]*))?")
"""A head as somebody says it, and where it was shown more than once, which time; as a decision names it."""


def check_head(text: str) -> str:
    """A head as somebody says it, at least seven digits of it; raises :class:`UsageError`."""
    if text and not _SAID.fullmatch(text):
        raise UsageError("--head takes the id of a commit, seven digits of it or more", "'cn inbox show' tells it")
    return text


class Look(NamedTuple):
    """What somebody saw of a thread: its head, how often that was shown before, how many ``words`` of its creator."""

    head: str
    time: int = 0
    words: int = 0


def note_thread(hub: Hub, thread: str, look: Look) -> None:
    """Note that this reader was shown it."""
    note_shown(hub, thread, f"{look.head} {look.words} {look.time}")


def _look(value: str) -> Look:
    """What such a note says; one of an older cn lacks numbers that are 0."""
    head, *numbers = value.split(" ")
    words, time = (*(int(one) if one.isdecimal() else 0 for one in numbers), 0, 0)[:2]
    return Look(head, time, words)


def refuse_unseen(
    hub: Hub,
    snapshot: Snapshot,
    peer: Name,
    item: Item,
    said: str = "",
    nothing: str = "nothing was decided",
    words: int = 0,
    *,
    anew: bool = True,
) -> None:
    """Raise :class:`Refused` where the thread is at another head than who decides has ``said``, or was shown, where it
    was shown anew since, or where more ``words`` stand in it than they were shown.

    Not ``anew``: what was shown of that head does not matter. A part of an id says nothing where it is one of another
    commit too. ``nothing`` says what did not come of it.
    """
    from cn.protocol.thread_file import showing_of

    source, head, showing = f"{peer}/{item.topic}", item.head, showing_of(item)
    again = f"{source} was shown anew since, at the same head; {nothing}"
    names = command("--head {}", showing.name)
    look = command("cn inbox show {}", source)
    if said:
        named, _, time = said.partition(",")
        if not head.startswith(named):
            here, there = short_ids([head, named])
            raise Refused(f"{source} is at {here}, not at {there}: {nothing}", f"look at it: {look}")
        if others := others_like(snapshot, peer, item.topic, head, named):
            text = f"{named} is the beginning of {head}, where {source} is, and of {some_of(others)}: {nothing}"
            raise Refused(text, f"{look} shows what is there; give the whole id of the one that you mean")
        if anew and int(time.replace("time", "") or 0) != showing.time:
            raise Refused(again, f"{look} shows what is there now; {names} is about that")
        return
    seen = [_look(value) for value in read_shown(hub, item.get("thread"))]
    if moved := sorted({one.head for one in seen} - {head}):
        here, *before = short_ids([head, *moved])
        raise Refused(
            f"{source} has moved since it was shown: from {' and '.join(before)} to {here}; {nothing}",
            f"{look} shows what is there now; {names} is about that one",
        )
    if anew and any(one.time != showing.time for one in seen):
        raise Refused(again, f"{look} shows what is there now; {names} is about that")
    if any(one.words < words for one in seen):
        raise Refused(
            f"{source}: its creator has said something since it was shown; {nothing}",
            f"{look} shows it; {names} is about that head, whatever was said",
        )


def sweep_shown(hub: Hub, waiting: Container[str]) -> None:
    """Remove this user's notes about what waits no more, and of readers that are gone; and the notes of an older cn."""
    folder = _folder(hub)
    for matter in _names(folder):
        if matter in (ITEM, TRUST) or matter in waiting:
            _prune(_notes(hub, matter))
        else:
            shutil.rmtree(folder / matter, ignore_errors=True)
    for old in (hub.state / name for name in _OLD):
        with suppress(OSError):
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)


def _folder(hub: Hub) -> Path:
    return hub.state / f"readers-{session.user()}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _notes(hub: Hub, matter: str) -> list[_Note]:
    """What this user was shown of a matter; nothing that another user put there."""
    folder, found = _folder(hub), list[_Note]()
    with suppress(OSError):
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != session.user():
            return []
    for name in _names(folder / matter):
        reader, path = parse_reader(name), folder / matter / name
        number, _, value = (read_regular(path, _LONGEST) or b"").decode("ascii", "replace").strip().partition(" ")
        if reader is not None and number.isdecimal() and value.isprintable():
            found.append(_Note(path, reader, int(number), value))
    return found


def _latest(notes: Iterable[_Note]) -> list[_Note]:
    """Those of the highest number: of two that looked at the same time nobody knows which was the later one."""
    every = list(notes)
    last = max((note.number for note in every), default=0)
    return [note for note in every if note.number == last]


def _prune(notes: Iterable[_Note]) -> None:
    """Remove the notes that no reader needs: of sessions that are gone all but the latest, of wakes all but some."""
    every = list(notes)
    wakes = sorted((note for note in every if note.reader.wake), key=lambda note: note.number)
    gone = [note for note in every if not note.reader.wake and not note.reader.is_alive()]
    kept = _latest(gone)
    drop(*(note.path for note in (*wakes[:-_WAKES], *(note for note in gone if note not in kept))))


def _bound(folder: Path) -> None:
    """So many matters at most: in a shared hub the daily sweep is that of one user alone."""
    names = _names(folder)
    if len(names) > _MATTERS:
        threads = sorted((folder / name for name in names if name not in (ITEM, TRUST)), key=_age)
        for path in threads[: len(names) - _MATTERS]:
            shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
