"""What a peer's main records of us: its ledger, and its list of peers. Nobody but the peer writes that main."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

from cn.git.objects import read_info, read_objects, read_raw
from cn.git.process import Git
from cn.peers.observe import Observation, fetch_mains
from cn.protocol.ledger import FOLDER, OUT, Event, LedgerRefused, as_written, events_of_topics, events_with, months
from cn.protocol.peers_file import PATH as PEERS
from cn.protocol.peers_file import Peer, parse_peers
from cn.protocol.sent_life import BEGINS
from cn.run.executor import Executor
from cn.run.run import Run
from cn.values.errors import ConfigError
from cn.values.names import Branch, Name, Oid, topic_of
from cn.values.text import decode

_MONTHS = 24
_MOST_BYTES = 8 << 20
_MOST_EVENTS, _MOST_LINE = 100, 4096
_MOST_LIST = 1 << 20
_ABOUT = "about_head="


def route_told(run: Run | Executor, seen: Observation, peer: Peer) -> str:
    """The route by which a peer's main lists this hub; empty: it does not, or nobody knows."""
    if peer.name not in fetch_mains(run, seen, [peer.name]):
        return ""
    names = run.settings.names_for(peer.name)
    found = (entry_at(run.hub.git, seen.mains[peer.name][1], name) for name in names)
    return next((one.deliver for one in found if one is not None), "")


def entry_at(git: Git, main: Oid, us: Name) -> Peer | None:
    """What the list of peers in a main has of us; None: nothing, or it cannot be read."""
    name = f"{main}:{PEERS}"
    (info,) = read_info(git, [name])
    if info is None or info.kind != "blob" or info.size > _MOST_LIST:
        return None
    with suppress(ConfigError):
        return next((one for one in parse_peers(decode(read_objects(git, [name])[0] or b"")) if one.name == us), None)
    return None


def is_sent_by(run: Run | Executor, seen: Observation, peer: Peer, branch: Branch, head: Oid) -> bool:
    """Does a peer's main record that it made this very branch, at this head, for us?"""
    theirs = read_theirs(run, seen, peer, OUT, topic_of(branch), head)
    return any(e.kind in BEGINS and e.fields.get("branch") == branch for e in theirs)


def read_theirs(run: Run | Executor, seen: Observation, peer: Peer, side: str, topic: str, head: Oid) -> list[Event]:
    """What a peer's main records of a topic at this head, of ours (``IN``: it came in there) or of its own (``OUT``).

    Nothing where that main cannot be read, or is no ledger.
    """
    lines = _their_lines(run, seen, peer, head)
    lines = [line for line in lines if line.split(" ", 4)[3] == topic][-_MOST_EVENTS:]
    try:
        return events_of_topics("\n".join([*lines, ""]), side, [topic])[topic]
    except LedgerRefused:
        return []


def sent_about(run: Run | Executor, seen: Observation, peer: Peer, head: Oid, status: str) -> list[Event]:
    """What a peer's main records that it sent us about this head of ours, with that status."""
    lines = _their_lines(run, seen, peer, f"{_ABOUT}{head}")[-_MOST_EVENTS:]
    try:
        events = events_with("\n".join([*lines, ""]), OUT, [_ABOUT])
    except LedgerRefused:
        return []
    return [event for event in events if event.kind == "queued" and event.fields.get("about_status") == status]


def _their_lines(run: Run | Executor, seen: Observation, peer: Peer, key: str) -> list[str]:
    """The lines of the ledger in a peer's main at a head, or (``about_head=…``) about one of ours."""
    if peer.name not in fetch_mains(run, seen, [peer.name]):
        return []
    if peer.name not in seen.ledgers:
        seen.ledgers[peer.name] = found = dict[str, list[str]]()
        main, names = seen.mains[peer.name][1], run.settings.names_for(peer.name)
        for line in read_ledger_at(run.hub.git, main, names).split("\n"):
            if len(line) < _MOST_LINE:
                words = line.split(" ")
                for one in (*words[4:5], *(word for word in words[5:] if word.startswith(_ABOUT))):
                    found.setdefault(one, []).append(line)
    return seen.ledgers[peer.name].get(key, [])


def read_ledger_at(git: Git, main: Oid, names: Sequence[Name]) -> str:
    """The latest months of what a peer's main records of us, within limits: it is the peer's to write.

    ``names`` are what we are called, then what we were: what is recorded under these comes first.
    """
    return "".join(_ledger_of(git, main, name) for name in reversed(names))


def _ledger_of(git: Git, main: Oid, us: Name) -> str:
    folder = f"{main}:{FOLDER}/{us}"
    (info,) = read_info(git, [folder])
    (listed,) = read_raw(git, [folder]) if info and info.size <= _MOST_BYTES else (None,)
    names = [f"{folder}/{name}" for name in reversed(months(listed.entries)[-_MONTHS:])] if listed else []
    infos = read_info(git, names)
    sizes = accumulate(info.size if info and info.kind == "blob" else 0 for info in infos)
    small = [name for name, info, size in zip(names, infos, sizes, strict=True) if info and size <= _MOST_BYTES]
    found = read_raw(git, small)
    texts = (one.data.decode("utf-8", "replace") for one in reversed(found) if one and one.kind == "blob")
    return "".join(map(as_written, texts))
