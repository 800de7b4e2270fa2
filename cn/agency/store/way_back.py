"""The last write below which all can be read, where main names one that cannot: for records that have no copy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import DatabaseError
from typing import NamedTuple

from cn.agency.events import Event, EventRefused, parse_message, type_of
from cn.agency.store.derived import open_file
from cn.agency.store.index import Index
from cn.agency.store.look import events_after
from cn.agency.store.repository import MAIN, Commit, Repository, parse_commit
from cn.git.loose_objects import loose_path
from cn.git.objects import read_in_halves, read_raw
from cn.protocol.message import object_id
from cn.system.files import free_name
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import counted, one_line

_TOLD = 5
_TITLE = 60
_BATCH = 500
_DAMAGED = re.compile(r"\b([0-9a-f]{40})(?:: object corrupt or missing|: hash-path mismatch)")


class WayBack(NamedTuple):
    """What to type, the write that main is at then, and what is not in the records any more, in words."""

    remedy: str
    commit: Commit
    lost: str


def find_way_back(repository: Repository) -> WayBack | None:
    """To the last write below which every write, and each tree of its own, can be read; None where there is none.

    Nothing is thrown away: what is damaged, and the writes above, stay as objects. Reads every write.
    """
    whole = _read_whole(repository)
    with suppress(DatabaseError, OSError):
        index = open_file(repository.places.index_file, "ro")
        if index is not None:
            with closing(index):
                return _way_back(repository, whole, index)
    return _way_back(repository, whole, None)


def _way_back(repository: Repository, whole: Mapping[Oid, Commit], index: Index | None) -> WayBack | None:
    main = _main(repository)
    last = choose_last(whole, main, index.tip if index else None, lambda one: _agrees(one, index))
    if last is None:
        return None
    line = list(_line(whole, last))
    place = first_that(lambda number: _has_trees(repository, line[number].tree), len(line))
    if place is None:
        return None
    commit = line[place]
    known = main is None and index is not None and index.tip == commit.oid
    lost = "" if known or main == commit.oid else _lost(commit, line[:place], index, sure=main is not None)
    return WayBack(_remedy(repository, whole, commit.oid, main), commit, lost)


def choose_last(
    whole: Mapping[Oid, Commit], main: Oid | None, known: Oid | None, agrees: Callable[[Commit], bool]
) -> Commit | None:
    """Main's, where it is ``whole``. Else the one with the longest history: of those that have the commit in it that
    the index is of (``known``); where that is lost, of those whose events the index has.
    """
    if main is not None and main in whole:
        return whole[main]
    depth: dict[Oid, int] = {}
    holds = set[Oid]()
    for commit in whole.values():  # parents stand before their children
        depth[commit.oid] = depth.get(commit.parent, 0) + 1 if commit.parent else 1
        if commit.oid == known or commit.parent in holds:
            holds.add(commit.oid)
    order = sorted(whole.values(), key=lambda one: (depth[one.oid], one.time), reverse=True)
    if holds:
        return next(one for one in order if one.oid in holds)
    return next((one for one in order if agrees(one)), None)


def _read_whole(repository: Repository) -> dict[Oid, Commit]:
    """Each commit that can be read down to the first write, whatever names it; parents before their children."""
    git = repository.git._replace(reader=None)
    listed = git.run("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)", check=False)
    oids = [Oid(line.split(" ")[0]) for line in listed.lines if line.endswith(" commit")]

    def read(some: Sequence[Oid]) -> list[Commit]:
        found = [one for one in read_raw(git, some) if one is not None]
        return [parse_commit(one) for one in found if object_id("commit", one.data) == one.oid]

    commits: list[Commit] = []
    for start in range(0, len(oids), _BATCH):
        commits += read_in_halves(oids[start : start + _BATCH], read)
    children: dict[Oid | None, list[Commit]] = {}
    for commit in commits:
        children.setdefault(commit.parent, []).append(commit)
    whole: dict[Oid, Commit] = {}
    left = children.get(None, [])
    while left:
        whole |= {commit.oid: commit for commit in left}
        left = [child for commit in left for child in children.get(commit.oid, ())]
    return whole


def _line(whole: Mapping[Oid, Commit], last: Commit) -> list[Commit]:
    """It and what is below it, the first write last."""
    found = [last]
    while (parent := found[-1].parent) is not None:
        found.append(whole[parent])
    return found


def first_that(holds: Callable[[int], bool], count: int) -> int | None:
    """The first number of which something holds, where those that it does not hold of stand before it; asks few."""
    below, step = -1, 1
    while not holds(at := min(below + step, count - 1)):
        if at == count - 1:
            return None
        below, step = at, step * 2
    while at - below > 1:
        middle = (at + below) // 2
        below, at = (below, middle) if holds(middle) else (middle, at)
    return at


def _has_trees(repository: Repository, tree: Oid) -> bool:
    return repository.git._replace(reader=None).run("ls-tree", "-r", "-z", "--name-only", tree, check=False).ok


def _main(repository: Repository) -> Oid | None:
    done = repository.git._replace(reader=None).run("rev-parse", "--verify", "--quiet", MAIN, check=False)
    return Oid(done.text) if done.ok else None


def _agrees(commit: Commit, index: Index | None) -> bool:
    """Has the index the last event of a write? Who was killed before main moved leaves a write that nobody knows of."""
    if index is None:
        return True
    try:
        (*_, last) = parse_message(commit.message)
    except EventRefused:
        return False
    return next(iter(events_after(index, last.seq - 1)), None) == last


def _remedy(repository: Repository, whole: Mapping[Oid, Commit], to: Oid, main: Oid | None) -> str:
    """The damaged files out of git's way, then main. git sets no ref whose file is empty, or names a damaged object."""
    folder = repository.places.repository
    err = repository.git._replace(reader=None).run("fsck", "--no-dangling", "--no-progress", check=False).err
    damaged = (Oid(oid) for oid in dict.fromkeys(_DAMAGED.findall(err)) if oid not in whole)
    if main is not None and main in whole:
        back = command("git --git-dir={} update-ref {} {} {}", str(folder), MAIN, to, main)
    else:
        back = command("rm -f -- {} && git --git-dir={} update-ref {} {}", str(folder / MAIN), str(folder), MAIN, to)
    return ", then ".join([*put_aside(folder, damaged), back])


def put_aside(folder: Path, damaged: Iterable[Oid]) -> list[str]:
    """The commands that move the files of damaged objects out of git's way: it writes none where a file is."""
    files = (loose_path(folder / "objects", oid) for oid in damaged)
    return [command("mv -- {} {}", str(file), str(_aside(folder, file))) for file in files if file.is_file()]


def _aside(folder: Path, file: Path) -> Path:
    return free_name(folder.with_name(f"{folder.name}.damaged-{file.parent.name}{file.name[:10]}"))


def _lost(to: Commit, above: Sequence[Commit], index: Index | None, *, sure: bool) -> str:
    """What the records are without when main is at ``to``: as the writes ``above`` it say, else the index."""
    after = f"{datetime.fromtimestamp(to.time, UTC):%Y-%m-%d %H:%M} UTC"
    events: list[Event] = []
    with suppress(EventRefused):
        seq = parse_message(to.message)[-1].seq
        after = f"event {seq} of {after}"
        for commit in reversed(above):
            events += parse_message(commit.message)
        if index is not None:
            events += events_after(index, events[-1].seq if events else seq)
    if not events:
        return f"what was written after {after}{'' if sure else ', if anything was,'} is lost by that"
    more = f"; and {len(events) - _TOLD} more" if len(events) > _TOLD else ""
    return f"lost by that: {counted(len(events), 'event')}: {'; '.join(map(_say, events[:_TOLD]))}{more}"


def _say(event: Event) -> str:
    """Which one it is: its number, its kind, and what people called it."""
    named = getattr(event.change, "description", "") or getattr(event.change, "title", "")
    what = f" ({one_line(named, _TITLE)})" if named else ""
    return f"{event.seq} {type_of(event.change)}{what} of {event.time:%Y-%m-%d %H:%M} UTC"
