"""Are the records sound? What git says of them, and whether all that is derived follows from the events."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from cn.agency.events import type_of
from cn.agency.pages import README, folder_of, page_of
from cn.agency.store.contents import list_files, list_versions, other_contents
from cn.agency.store.copies import ONE_HOME, Lag, confirmed, forget_parting, lag, look_at_copy
from cn.agency.store.copy_notes import ask_again, copy_answered, copy_failure
from cn.agency.store.damage import aside, find_closed, find_lasting_damage, way_out
from cn.agency.store.derived import build_in_memory, is_damage, open_file
from cn.agency.store.index import Index
from cn.agency.store.look import last_events
from cn.agency.store.repository import MAIN, Commit, Places, Repository
from cn.agency.store.way_back import find_way_back, put_aside
from cn.git.process import GitError
from cn.git.running import find_locks
from cn.protocol.message import object_id
from cn.system.closed import closed_below
from cn.values.errors import CnError, Refusal
from cn.values.shell_words import command
from cn.values.text import counted, one_line, redact, visible

_AHEAD = timedelta(days=1)
_LATE = timedelta(days=1)
_UNHEARD = timedelta(days=7)
_SHOWN = 20
_LINES = 3


class Flaw(NamedTuple):
    """Something that is not as it should be. ``serious``: somebody has to do something about it."""

    what: str
    why: str = ""
    remedy: str = ""
    serious: bool = True


def check_records(
    repository: Repository, now: datetime, *, url: str | Refusal = "", full: bool = False
) -> Iterator[Flaw]:
    """Every flaw; changes nothing. ``url`` is the copy's. With ``full`` every byte of every object and content
    is read.
    """
    git, places = repository.git._replace(reader=None), repository.places
    stops = "nothing can be written as long as it is so"
    if closed := closed_below(places.repository):  # git takes what it cannot read for missing
        yield Flaw(closed[0], stops, closed[1])
        return
    if shut := find_closed(repository, url):
        yield Flaw(shut[0], "nothing can be read or written as long as it is so", shut[1])
        return
    if git.run("config", "--type=bool", "extensions.preciousObjects", check=False).text != "true":
        yield Flaw(
            f"{places.repository} lets git gc and git prune take objects away",
            "a write that is on its way has objects that no ref holds yet",
            command("git --git-dir={} config extensions.preciousObjects true", str(places.repository)),
        )
    for lock in find_locks(places.repository):
        why = "a git holds it, or one that was killed left it"
        yield Flaw(
            f"{visible(str(lock))} is there", why, "the next write removes it once nobody holds it", serious=False
        )
    url = confirmed(repository, url)
    try:
        tip = repository.tip()
    except CnError as error:  # git's own check would only say so in other words
        yield _without_main(repository, url, error.text)
        return
    if damage := find_lasting_damage(repository, full=full):
        more = f"; and {len(damage) - _LINES} more" if len(damage) > _LINES else ""
        said = "; ".join(one_line(line) for line in damage[:_LINES])
        what = f"git finds fault with Agency's records: {said}{more}"
        yield Flaw(what, "an object is missing or damaged", way_out(places, url) + _or_back(repository, tip, url))
        return  # whatever else is wrong shows when they are whole
    try:
        index = build_in_memory(repository, tip)
    except CnError as error:
        yield Flaw(error.text, stops, error.hint)
        return
    with closing(index):
        if datetime.fromtimestamp(tip.time, now.tzinfo) - now > _AHEAD:
            yield _of_the_future(index, now)
        yield from _check_index(places, index)
        yield from _check_tree(repository, index, way_out(places, url), full=full)


def check_copy(repository: Repository, url: str | Refusal, now: datetime, *, full: bool = False) -> Iterator[Flaw]:
    """Is there a copy on another machine, and how far is it behind? With ``full`` it is asked."""
    if isinstance(url, Refusal):
        yield Flaw(url.reason, "peers could read all of Agency", url.remedy)
    elif not url:
        why = "Agency's records are on this machine alone"
        remedy = "git config agency.remote URL names a private repository that they are copied to"
        yield Flaw("there is no copy of Agency's records", why, remedy, serious=False)
    else:
        try:
            behind = lag(repository, url)
        except GitError as error:
            what = f"nobody can tell how far the copy at {redact(url)} is behind: {error.text}"
            yield Flaw(what, "the records cannot be read", "mend what is said of them first")
            return
        found = look_at_copy(repository, url) if full else None
        if found is not None:
            ask_again(repository.places)  # so that what mends it does not take its word of before
        elif full:
            forget_parting(repository.places, url)
        failed = copy_failure(repository.places, url)
        if parted := next((one for one in (found, failed) if one is not None and one.rule == ONE_HOME), None):
            yield Flaw(parted.reason, "nothing that is written here is copied", parted.remedy)
        elif behind.writes and (behind.last is None or now - behind.last > _LATE):
            why, remedy = (
                (failed.reason, failed.remedy) if failed else ("", "'cn agency tick' tries again, and says why")
            )
            yield Flaw(f"the copy at {redact(url)} {say_lag(behind)}", why, remedy)
        elif found is not None:
            yield Flaw(found.reason, "it is needed when this machine is gone", found.remedy)
        elif failed is not None and not behind.writes:
            yield Flaw(failed.reason, "nobody knows whether it has what it had", failed.remedy)
        elif not behind.writes and (last := copy_answered(repository.places, url)) and now - last > _UNHEARD:
            what = f"the copy at {redact(url)} last answered on {last:%Y-%m-%d}"
            yield Flaw(what, "nobody asked it since", "'cn agency tick' asks it, once a day", False)


def say_lag(behind: Lag) -> str:
    """In words."""
    if not behind.writes:
        return "is up to date"
    since = f", its last is of {behind.last:%Y-%m-%d %H:%M} UTC" if behind.last else ", it has none"
    return f"lacks {counted(behind.writes, 'write')}{since}"


def _of_the_future(index: Index, now: datetime) -> Flaw:
    """A clock was ahead once. ``now`` has a time zone."""
    event = last_events(index, lambda one: one.time - now > _AHEAD, None)[0]
    ahead = counted((event.time - now).days, "day")
    what = f"event {event.seq}, {type_of(event.change)}, is of {event.time:%Y-%m-%d}, {ahead} ahead of the clock"
    why = "the clock was ahead then; time never goes back in the records, so new events have that time until it is past"
    return Flaw(what, why, "if the clock is right now, nothing need be done: what is due goes by the clock", False)


def _without_main(repository: Repository, url: str | Refusal, what: str) -> Flaw:
    """What brings main back: the copy, where main names a commit that is lost; else the last write that is whole."""
    stops, places = "nothing can be written as long as it is so", repository.places
    names = repository.git._replace(reader=None).run("rev-parse", "--verify", "--quiet", MAIN, check=False).ok
    if names and url and isinstance(url, str):
        return Flaw(what, stops, way_out(places, url))
    with suppress(CnError):
        if (back := find_way_back(repository)) is not None:
            return Flaw(what, f"{stops}; {back.lost}" if back.lost else stops, back.remedy)
    away = command("mv -- {} {}", str(places.repository), aside(places))
    otherwise = f"{away}, then 'cn agency restore URL' where there is a copy, else 'cn agency init'"
    return Flaw(what, stops, f"no write is found in it: {otherwise}")


def _or_back(repository: Repository, tip: Commit, url: str | Refusal) -> str:
    """Without a copy: how to go back to the last write that is whole, and what that costs. No lost content is worth a
    write: each says what helps.
    """
    if url and isinstance(url, str):
        return ""
    with suppress(CnError):
        back = find_way_back(repository)
        if back is not None and back.commit != tip:
            return f"; without a copy, {back.remedy} goes back to the last write that is whole: {back.lost}"
        return _or_without(repository, tip)
    return ""


def _or_without(repository: Repository, tip: Commit) -> str:
    """Which contents are lost, where all else is there; they come back from whoever has the same bytes."""
    with closing(build_in_memory(repository, tip)) as index:
        versions = list_versions(index)
    tree = list_files(repository, tip.oid)
    lost = list(other_contents(repository, {path: tree[path] for path in versions if path in tree}))
    if not lost:
        return ""
    named = (versions[path] for path in lost[:_LINES])
    names = (f"version {one.number} of {file.id[:8]} ({one_line(file.description, 60)})" for file, one in named)
    folder, more = repository.places.repository, f" and {len(lost) - _LINES} more" if len(lost) > _LINES else ""
    which = f"{', '.join(names)}{more} cannot be read, all else goes on"
    brings = command("git --git-dir={} hash-object -w -- FILE", str(folder))
    ways = ", then ".join([*put_aside(folder, (tree[path] for path in lost[:_LINES])), brings])
    return f"; without a copy, {which}: {ways}, with the very same bytes in FILE, brings one back"


def _check_index(places: Places, rebuilt: Index) -> Iterator[Flaw]:
    """Only one that names this tip says something: any other is caught up or made anew."""
    if found := _in_its_place(places.index_file):
        what, path = found
        away = command("mv -- {} {}", str(path), f"{path}.away")
        yield Flaw(what, "each command makes the index anew, in memory, which takes its time", away)
        return
    try:
        index = open_file(places.index_file, "ro")
        if index is None:
            return
        with closing(index):
            if index.tip != rebuilt.tip or all(a == b for a, b in zip_longest(index.dump(), rebuilt.dump())):
                return
    except sqlite3.DatabaseError as why:
        if not is_damage(why):  # a full disk: whoever asks is answered from memory then
            return
    yield Flaw(
        "the index of Agency's records is not what the events say",
        "answers may be wrong, no event is",
        f"{command('rm -- {}', str(places.index_file))}: the next look makes it anew",
    )


def _in_its_place(file: Path) -> tuple[str, Path] | None:
    """What keeps an index from being made at ``file``, and where that lies."""
    if os.path.lexists(file.parent) and not file.parent.is_dir():
        return "what lies in the place of the folder of the index of Agency's records is none", file.parent
    if file.is_dir() and not file.is_symlink():
        return "a folder lies in the place of the index of Agency's records", file
    return None


def _check_tree(repository: Repository, index: Index, lost: str, *, full: bool) -> Iterator[Flaw]:
    """Is each version there, each page what the state says, and nothing else? ``lost``: what helps where one is not."""
    tree = list_files(repository, index.tip)
    pages = {"README.md": README}
    pages |= {f"{folder_of(file.id)}/FILE.md": page_of(index, file) for file in index.files()}
    versions = list_versions(index)
    differ = [path for path, text in pages.items() if tree.get(path) != object_id("blob", text.encode())]
    missing = [path for path in versions if path not in tree]
    unknown = [path for path in tree if path not in pages and path not in versions]
    damaged = list(other_contents(repository, {path: tree[path] for path in versions if path in tree})) if full else []
    for paths, what, why, remedy in (
        (
            differ,
            "is not what the events say",
            "an older version wrote it, or somebody by hand; it is derived, and for people alone",
            "nothing need be done: a page is made anew with the next write of its file",
        ),
        (missing, "is missing", "a version that an event names", lost),
        (unknown, "is nothing that an event names", "somebody committed it by hand", "it does no harm"),
        (damaged, "does not hold what its name says", "a version is named by its content", lost),
    ):
        serious = paths is not differ
        for path in paths[:_SHOWN]:
            yield Flaw(f"{visible(path)} in {MAIN} of Agency's records {what}", why, remedy, serious)
        if len(paths) > _SHOWN:
            yield Flaw(f"{len(paths) - _SHOWN} more of Agency's files: each {what}", why, remedy, serious)
