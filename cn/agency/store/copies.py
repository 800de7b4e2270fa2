"""The copy on another machine: pushed there behind the writes, and taken back when this machine's records are gone.

``agency.remote`` in git's configuration names it, as a URL or a remote. One clone writes: a copy that has what this
clone does not was written by another, and nothing is pushed over it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import NamedTuple

from cn.agency.store.derived import build_in_memory
from cn.agency.store.repository import MAIN, Commit, Places, Repository, build_records
from cn.git.objects import list_refs, read_info, update_refs
from cn.git.process import GitConfig
from cn.git.remote import Result, fetch_tips, list_remotes, push_forward, remedy_of
from cn.system.files import hold, remove_tree
from cn.values.errors import Refusal, Refused
from cn.values.names import NameRefused, Oid, digest, parse_url
from cn.values.text import redact

SETTING = "agency.remote"
_BRANCH = MAIN.removeprefix("refs/heads/")
_PUSH_SECONDS = 600.0
_FETCH_SECONDS = 3600.0
_LIST_SECONDS = 60.0
_PRIVATE = "keep the copy in a repository of its own, which nobody else can read"


class Lag(NamedTuple):
    """How far the copy is behind: so many writes, and the time of the last one that it has (None: it has none)."""

    writes: int
    last: datetime | None


class Restored(NamedTuple):
    """What a copy held: how many events, and when the last one happened."""

    repository: Repository
    tip: Commit
    events: int

    @property
    def last(self) -> datetime:
        """What happened after it is on the old machine alone."""
        return _time(self.tip)


def copy_url(config: GitConfig) -> str | Refusal:
    """Where the hub's configuration puts the copy; empty: nowhere. Not where others fetch the hub from."""
    named = config.last(SETTING)
    if not named:
        return ""
    url = config.url(named, push=True)
    try:
        parse_url(url)
    except NameRefused as refused:
        return Refusal("private copy", f"{SETTING}: {refused.text}", refused.hint)
    remotes = {key.removeprefix("remote.").removesuffix(".url") for key in _remote_keys(config)}
    shared = [name for name in sorted(remotes - {named}) if _place(config.url(name, push=False)) == _place(url)]
    if shared or named == "origin":
        where = f"{SETTING} is {redact(url)}, which is the remote {(shared or [named])[0]} of the hub"
        return Refusal("private copy", f"{where}: peers fetch from there", _PRIVATE)
    return url


def _remote_keys(config: GitConfig) -> list[str]:
    return [one.key for one in config.settings if one.key.startswith("remote.") and one.key.endswith(".url")]


def _place(url: str) -> str:
    return url.removeprefix("file://").rstrip("/").removesuffix(".git")


def is_copied(repository: Repository, url: str) -> bool:
    """Was the copy confirmed to have main's tip?"""
    (noted,) = read_info(repository.git, [_noted(url)])
    return noted is not None and noted.oid == repository.tip().oid


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
        reason = f"{where} has what this clone does not: another clone of the hub writes there"
        return Refusal("one home", reason, "work in that clone; here, 'cn agency export' saves what only this one has")
    remedy = remedy_of(pushed.reason, "it is tried again behind the next writes")
    return Refusal("copy", f"{where} could not be brought up to date: {redact(pushed.reason)}", remedy)


def lag(repository: Repository, url: str) -> Lag:
    """How far the copy is behind, as far as it was confirmed to this clone."""
    has = list_refs(repository.git, _noted(url)).get(_noted(url))
    span = (f"^{has}",) if has else ()
    writes = int(repository.git.run("rev-list", "--count", MAIN, *span).text)
    if has is None:
        return Lag(writes, None)
    seconds = int(repository.git.run("log", "-1", "--format=%ct", has).text)
    return Lag(writes, datetime.fromtimestamp(seconds, UTC))


def restore(places: Places, identity: tuple[str, str], url: str) -> Restored:
    """Make this clone the home of the records that a copy holds. Raises :class:`Refused`; then nothing is here.

    All of it is checked: each object as git receives it, and each event.
    """
    found: list[tuple[Commit, int]] = []

    def fill(new: Repository) -> None:
        git = new.git._replace(reader=None)
        tip = _list(new, url)
        if why := fetch_tips(git, {url: (url, [(_BRANCH, tip)])}, _FETCH_SECONDS).get(url):
            raise _unread(url, why)
        remove_tree(new.folder / "cn")  # what the fetch was checked in
        (info,) = read_info(git, [tip])
        if info is None or info.kind != "commit":
            raise _unread(url, "its main moved meanwhile")
        for ref in (MAIN, _noted(url)):
            git.run("update-ref", ref, tip)
        at = new.tip()
        index = build_in_memory(new, at)
        head = index.head()
        index.close()
        found.append((at, head.seq if head else 0))

    repository = build_records(places, identity, fill)
    return Restored(repository, *found[0])


def _list(new: Repository, url: str) -> Oid:
    listing = list_remotes(new.git._replace(reader=None), {url: url}, _LIST_SECONDS)[url]
    if isinstance(listing, str):
        raise _unread(url, listing)
    if _BRANCH not in listing:
        raise _unread(url, f"it has no branch {_BRANCH}")
    return listing[_BRANCH]


def _unread(url: str, why: str) -> Refused:
    return Refused(f"the copy at {redact(url)} cannot be read: {redact(why)}", remedy_of(why, "check the URL"))


def _noted(url: str) -> str:
    """The ref that says what a copy was confirmed to have."""
    return f"refs/cn/copies/{digest(url)}"


def _time(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.time, UTC)
