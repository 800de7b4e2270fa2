"""The copy on another machine: pushed there behind the writes, and taken back when this machine's records are gone.

``agency.remote`` in git's configuration names it, as a URL or a remote. One clone writes: a copy that has what this
clone does not was written by another, and nothing is pushed over it.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cn.agency.events import parse_message
from cn.agency.store.contents import find_wrong
from cn.agency.store.copy_notes import copy_failure, forget_failure, note_answer
from cn.agency.store.damage import aside, find_lasting_damage, way_out
from cn.agency.store.derived import build_in_memory
from cn.agency.store.repository import MAIN, Commit, Places, Repository, build_records, open_records, parse_commit
from cn.git.fetch import fetch_tips
from cn.git.objects import list_refs, read_info, read_raw, update_refs
from cn.git.process import Git, GitConfig
from cn.git.remote import Result, list_remotes, push_forward, remedy_of
from cn.git.repository import Hub
from cn.git.told import Told
from cn.system.files import PRIVATE, drop, hold, read_regular, write_file
from cn.system.removal import remove_tree
from cn.values.errors import Blocked, Refusal, Refused
from cn.values.names import NameRefused, Oid, digest, is_local, parse_url
from cn.values.shell_words import command
from cn.values.text import decode, one_line, redact, visible

SETTING = "agency.remote"
ONE_HOME = "one home"
"""The rule that one clone writes."""
COPY, LOST = "copy", "copy lost"
"""A copy that is not reached, and one that has not any more what it was confirmed to have."""
_TICK = "'cn agency tick'"
_BRANCH = MAIN.removeprefix("refs/heads/")
_PUSH_SECONDS = 600.0
_FETCH_SECONDS = 3600.0
_LIST_SECONDS = 60.0
_LOCK_SECONDS = 30.0
_URL_BYTES = 4096
_ANSWERED = "it answered a moment ago, so its URL is right: run it again; 'git fsck' there says if it is damaged"
_PRIVATE = "keep the copy in a repository of its own, which nobody else can read"


class Lag(NamedTuple):
    """How far the copy is behind: so many writes, and the time of the last one that it has (None: it has none)."""

    writes: int
    last: datetime | None


class Restored(NamedTuple):
    """What a copy held: how many events that were not here, and when the last one happened."""

    repository: Repository
    tip: Commit
    events: int

    @property
    def last(self) -> datetime:
        """What happened after it is on the old machine alone."""
        return _time(self.tip)


def copy_url(hub: Hub) -> str | Refusal:
    """Where the hub's configuration puts the copy; empty: nowhere. Not where others fetch the hub from, and not the
    records themselves. A relative path is one from the hub's folder, as in git.
    """
    config = hub.config
    named = config.last(SETTING)
    if not named:
        return ""
    url = config.url(named, push=True)
    try:
        parse_url(url)
    except NameRefused as refused:
        return Refusal("private copy", f"{SETTING}: {refused.text}", refused.hint)
    url = copy_from(url, hub.root)
    where, place = f"{SETTING} is {redact(url)}", _place(url, hub.root)
    if place in (_place(str(one), hub.root) for one in (Places(hub.state).repository, hub.root, hub.git_dir)):
        return Refusal("private copy", f"{where}, in this hub itself: with the one the other would be gone", _PRIVATE)
    remotes = {key.removeprefix("remote.").removesuffix(".url") for key in _remote_keys(config)}
    shared = [name for name in sorted(remotes - {named}) if _place(config.url(name, push=False), hub.root) == place]
    if shared or named == "origin":
        which = f"{where}, which is the remote {(shared or [named])[0]} of the hub"
        return Refusal("private copy", f"{which}: peers fetch from there", _PRIVATE)
    return url


def copy_from(url: str, folder: Path) -> str:
    """The same URL, from ``folder`` on where it is a relative path."""
    is_relative = is_local(url) and not url.startswith(("file://", "/"))
    return os.path.normpath(folder / url) if is_relative else url


def _remote_keys(config: GitConfig) -> list[str]:
    return [one.key for one in config.settings if one.key.startswith("remote.") and one.key.endswith(".url")]


_AT_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/]*@)?([^:/]+)(?::[0-9]*(?=/)|:|(?=/))(.*)", re.I | re.DOTALL)
"""A URL with a host, or what ssh takes for one (git-fetch(1), "Git URLs"): the host, and the path there."""


def _place(url: str, folder: Path) -> tuple[str, str]:
    """Host and path, whatever way leads there: the same for two URLs of one repository, as far as a URL tells."""
    found = None if is_local(url) else _AT_HOST.fullmatch(url)
    if found is None:
        host, path = "", os.path.realpath(folder / url.removeprefix("file://"))
    else:
        host, path = found[1].lower(), os.path.normpath(f"/{found[2]}")
    return host, f"/{path.strip('/')}".removesuffix("/.git").removesuffix(".git")


def is_copied(repository: Repository, url: str) -> bool:
    """Was the copy confirmed to have main's tip?"""
    (noted,) = read_info(repository.git, [_noted(url)])
    return noted is not None and noted.oid == repository.tip().oid


def look_at_copy(repository: Repository, url: str) -> Refusal | None:
    """Ask the copy what it has: what is wrong with it, None where it has what it was confirmed to have, or more of
    what is here. One request; nothing is changed.
    """
    where = f"the copy at {redact(url)}"
    (noted,) = read_info(repository.git, [_noted(url)])
    listing = list_remotes(repository.git._replace(reader=None), {url: url}, _LIST_SECONDS)[url]
    if isinstance(listing, str):
        return Refusal(COPY, f"{where} cannot be read: {redact(listing)}", remedy_of(listing, "check the URL"))
    tip = listing.get(_BRANCH)
    if tip is None:
        again = Refusal(LOST, f"{where} holds nothing any more", f"{_TICK} brings it there again")
        return again if noted is not None else None
    git = repository.git._replace(reader=None)
    if not repository.has(tip) or not _is_ancestor(git, tip, repository.tip().oid):
        return _another_home(url)
    if noted is None or _is_ancestor(git, noted.oid, tip):
        return None
    return Refusal(LOST, f"{where} lost writes that it had: it is an older one now", f"{_TICK} brings them there again")


def ask_copy(repository: Repository, url: str) -> Refusal | None:
    """The same, and take back what was confirmed where the copy lost it, so that it is pushed again; what no push
    mends.
    """
    found = look_at_copy(repository, url)
    if found is not None and found.rule == LOST:
        repository.git.run("update-ref", "-d", _noted(url))
        return None
    return found


def push_copy(repository: Repository, url: str) -> Refusal | None:
    """Bring the copy to main's tip; why that could not be. One at a time: who comes second leaves it to the first."""
    fd = hold(repository.places.copy_lock)
    if fd is None:
        return None
    try:
        tip = repository.tip().oid
        if is_copied(repository, url):
            return None
        pushed = push_forward(repository.git._replace(reader=None), url, _BRANCH, tip, _PUSH_SECONDS)
        if pushed.result is Result.DONE:
            update_refs(repository.git, [(_noted(url), tip)])
            return None
    finally:
        os.close(fd)
    where = f"the copy at {redact(url)}"
    if "fetch first" in pushed.reason or "non-fast-forward" in pushed.reason:
        return _another_home(url)
    remedy = remedy_of(pushed.reason, "it is tried again behind the next writes")
    return Refusal(COPY, f"{where} could not be brought up to date: {redact(pushed.reason)}", remedy)


def forget_parting(places: Places, url: str) -> None:
    """The copy at ``url`` has nothing that is not here, whatever it had before."""
    failed = copy_failure(places, url)
    if failed is not None and failed.rule == ONE_HOME:
        forget_failure(places)


def _another_home(url: str) -> Refusal:
    where, take = f"the copy at {redact(url)}", command("cn agency restore {}", redact(url))
    reason = (
        f"{where} has writes that are not here: another clone made them, an older backup came back here, "
        "or it is another Agency's"
    )
    remedy = f"if another clone is the home now, work there; else {take} brings them here, or says that it is another's"
    return Refusal(ONE_HOME, reason, remedy)


def lag(repository: Repository, url: str) -> Lag:
    """How far the copy is behind, as far as it was confirmed to this clone."""
    has = list_refs(repository.git, _noted(url)).get(_noted(url))
    span = (f"^{has}",) if has else ()
    writes = int(repository.git.run("rev-list", "--count", MAIN, *span).text)
    if has is None:
        return Lag(writes, None)
    seconds = int(repository.git.run("log", "-1", "--format=%ct", has).text)
    return Lag(writes, datetime.fromtimestamp(seconds, UTC))


def rehearse_restore(places: Places, identity: tuple[str, str], url: str, git: Git) -> None:
    """Raise :class:`Refused` where :func:`restore` would before it takes a copy; ``git`` asks it. Where there are
    records here, the copy's objects come to them, to be compared; no ref moves.
    """
    here = open_records(places, identity)
    if here is None:
        _list(git, url)
        return
    try:
        _go_on(here, url, rehearse=True)
    finally:
        here.close()


def restore(places: Places, identity: tuple[str, str], url: str) -> Restored:
    """Make this clone the home of the records that a copy holds. Raises :class:`Refused`; then nothing is changed.

    All of it is checked: each object as git receives it, each event, and each content against its name. Records that
    are here go on to what the copy has, if they are whole, and it has all of theirs.
    """
    here = open_records(places, identity)
    if here is not None:
        try:
            return _go_on(here, url)
        except BaseException:
            here.close()
            raise
    found: list[tuple[Commit, int]] = []

    def fill(new: Repository) -> None:
        git = new.git._replace(reader=None)
        tip = _list(git, url)
        if why := _fetch(git, url, tip):
            raise _unread(url, why, _ANSWERED)
        remove_tree(new.folder / "cn")  # what the fetch was checked in
        (info,) = read_info(git, [tip])
        if info is None or info.kind != "commit":
            raise _unread(url, "its main moved meanwhile", "run it again")
        for ref in (MAIN, _noted(url)):
            git.run("update-ref", ref, tip)
        at = new.tip()
        found.append((at, _check_all(new, at, url)))
        drop(_begun(places))

    def begin() -> None:
        write_file(_begun(places), redact(url).encode(), mode=PRIVATE)

    repository = build_records(places, identity, fill, begin)
    _note_taken(places, url)
    return Restored(repository, *found[0])


def _fetch(git: Git, url: str, tip: Oid) -> str:
    """Why the copy's main did not come, or nothing; it hears of what it was confirmed to have."""
    told = {url: Told((_noted(url),), ours=True)}
    return fetch_tips(git, {url: (url, [(_BRANCH, tip)])}, _FETCH_SECONDS, told=told).get(url, "")


def refuse_unfinished(places: Places) -> None:
    """Raise :class:`Refused` where a restore was cut off: what would be founded now would be a second home."""
    url = decode(read_regular(_begun(places), _URL_BYTES) or b"")
    if not url or places.repository.exists():
        return
    away = command("rm -r -- {}", str(places.building))
    what = f"there is no Agency in {places.state}: a restore from {visible(url)} is under way, or was cut off"
    raise Refused(what, f"{command('cn agency restore {}', url)} does it again; {away} gives it up")


def _begun(places: Places) -> Path:
    """Names the copy while a restore is under way."""
    return places.building / "restoring"


def _go_on(here: Repository, url: str, *, rehearse: bool = False) -> Restored:
    """Move main to the copy's, forwards only."""
    git = here.git._replace(reader=None)
    here.tip()  # a store without one says so itself
    tip = _list(git, url)
    if damage := find_lasting_damage(here, full=True):  # a copy with the same tip may have what is lost here
        what = f"git finds fault with the records that are here: {one_line(damage[0])}"
        raise Refused(what, way_out(here.places, url))  # which was just listed
    with here.lock.held(_LOCK_SECONDS):
        before = here.tip()
        old = before.oid
        if here.has(tip) and _is_ancestor(git, tip, old):
            if not rehearse:
                forget_parting(here.places, url)
            raise Refused(f"this clone has all that the copy at {redact(url)} has", "there is nothing to restore")
        if why := _fetch(git, url, tip):
            raise _unread(url, why, _ANSWERED)
        remove_tree(here.folder / "cn")  # what the fetch was checked in
        if not _is_ancestor(git, old, tip):
            raise _parted(here, url, tip)
        found = read_raw(git, [tip])[0]
        if found is None or found.kind != "commit":
            raise _unread(url, "its main moved meanwhile", "run it again")
        at = parse_commit(found)
        events = _check_all(here, at, url) - parse_message(before.message)[-1].seq
        if rehearse:
            return Restored(here, at, events)
        git.run("update-ref", MAIN, tip, old)
        git.run("update-ref", _noted(url), tip)
        _note_taken(here.places, url)
    return Restored(here, at, events)


def _note_taken(places: Places, url: str) -> None:
    """All that the copy has is here now, so what was in its way is over."""
    forget_failure(places)
    note_answer(places, url)


def _check_all(repository: Repository, at: Commit, url: str) -> int:
    """How many events there are. Raises where one cannot be read, or a content is not what it names."""
    shows = command("git clone {} DIR", redact(url))
    remedy = f"take another copy; {shows} shows as files what this one holds"
    try:
        index = build_in_memory(repository, at)
    except Blocked as why:
        raise Blocked(f"the copy at {redact(url)} cannot be taken: {why.text}", remedy) from why
    with closing(index):
        if wrong := find_wrong(repository, index, at.oid):
            raise Refused(f"the copy at {redact(url)} is not whole, or was forged: {wrong}", remedy)
        head = index.head()
        return head.seq if head else 0


def _is_ancestor(git: Git, older: Oid, newer: Oid) -> bool:
    return git.run("merge-base", "--is-ancestor", older, newer, check=False).ok


def _parted(here: Repository, url: str, tip: Oid) -> Refused:
    """Both have writes that the other has not: a person chooses. ``tip`` is the copy's."""
    move = command("mv -- {} {}", str(here.folder), aside(here.places))
    take = command("cn agency restore {}", redact(url))
    what = f"this clone and the copy at {redact(url)} each have writes that the other has not"
    remedy = f"'cn agency export DIR' saves as files what is here; then {move}, and {take}"
    if not here.git._replace(reader=None).run("merge-base", MAIN, tip, check=False).ok:
        own = command("git config {} URL", SETTING)
        what = f"{what}, and no write in common: it is another Agency's"
        remedy = f"{own} names a repository of its own for the copy of this one. To take the other instead: {remedy}"
    return Refused(f"{ONE_HOME}: {what}", remedy)


def refuse_second_home(hub: Hub) -> None:
    """Raise :class:`Refused` where the configured copy holds records already, or nobody can tell."""
    url, git = copy_url(hub), hub.git
    if not url or isinstance(url, Refusal):
        return
    without = f"to begin without it, {command('git config --unset {}', SETTING)}"
    listing = list_remotes(git, {url: url}, _LIST_SECONDS)[url]
    if isinstance(listing, str):
        remedy = f"{remedy_of(listing, 'check the URL')}; {without}"
        raise Refused(f"the copy at {redact(url)}, which {SETTING} names, cannot be read: {redact(listing)}", remedy)
    if _BRANCH in listing:
        take = command("cn agency restore {}", redact(url))
        text = f"{ONE_HOME}: {SETTING} names {redact(url)}, which holds Agency's records"
        raise Refused(text, f"{take} brings them here; {without}")


def _list(git: Git, url: str) -> Oid:
    listing = list_remotes(git, {url: url}, _LIST_SECONDS)[url]
    if isinstance(listing, str):
        raise _unread(url, listing)
    if _BRANCH not in listing:
        raise _unread(url, f"it has no branch {_BRANCH}")
    return listing[_BRANCH]


def _unread(url: str, why: str, otherwise: str = "check the URL") -> Refused:
    text = f"the copy at {redact(url)} cannot be read: {redact(why)}"
    here = any(full in why for full in _FULL) and "remote:" not in why  # git marks so what the host says
    return Refused(text, "make room on this machine's disk, then run it again" if here else remedy_of(why, otherwise))


_FULL = os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)


def confirmed(repository: Repository, url: str | Refusal) -> str:
    """The URL of a copy that was seen to have writes; empty: none was, and it cannot take the place of what is here."""
    known = url if isinstance(url, str) else ""
    return known if known and list_refs(repository.git._replace(reader=None), _noted(known)) else ""


def _noted(url: str) -> str:
    """The ref that says what a copy was confirmed to have."""
    return f"refs/cn/copies/{digest(url)}"


def _time(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.time, UTC)
