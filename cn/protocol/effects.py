"""Effects: the values that planners return and that :mod:`cn.run.executor` alone carries out."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from cn.protocol.ledger import Event
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.outbox_entry import Propose, Remove
from cn.values.names import HubPath, Name, Oid


class Put(NamedTuple):
    """Write a file of cn's own folders (``text`` is its whole content).

    One that belongs to this machine (``state/input.md``) is written after the commit.
    """

    path: HubPath
    text: str


class Drop(NamedTuple):
    """Remove a file of cn's own folders."""

    path: HubPath


class Edit(NamedTuple):
    """Commit a file as it is (None: its deletion); it is refused, not masked, if it adds a secret.

    ``words`` say what is done to it, where that is more than its size.
    """

    path: HubPath
    data: bytes | None
    words: str = ""


class Move(NamedTuple):
    """Move a file as it is, byte for byte."""

    old: HubPath
    new: HubPath


class WorkingCopy(NamedTuple):
    """The plan was made of the working copy of a file, these bytes: it does not block the run."""

    path: HubPath
    data: bytes


class WriteHere(NamedTuple):
    """Write a file that belongs to this machine, or with None remove it, after the commit.

    It is removed only while it holds ``was``, if that is given.
    """

    path: HubPath
    data: bytes | None
    was: bytes | None = None


class Withhold(NamedTuple):
    """Keep the whole of a file on this machine that is committed with something masked."""

    path: HubPath
    data: bytes


class Archive(NamedTuple):
    """Keep bytes as they are under ``logs/``, in the commit of what they led to, so before any effect."""

    path: HubPath
    data: bytes


class Log(NamedTuple):
    """Append a row to the day's log."""

    row: Row


class Record(NamedTuple):
    """Append an event to a peer's ledger."""

    peer: Name
    event: Event


class Advance(NamedTuple):
    """Take a prepared merge commit as the new tip of main, ``published`` as what peers may read."""

    commit: Oid
    source: str
    published: Oid | None = None


class Post(NamedTuple):
    """Queue a message in the outbox; ``topic`` is a wish, made unique when it is queued.

    ``decision`` is set where the message is what a decision asked for: the decision's own
    log row says ``queued`` then, and ``✓ delivered`` follows under the same words.
    """

    message: Message
    topic: str
    thread: str = ""
    source: str = ""
    decision: str = ""


class CleanUp(NamedTuple):
    """Queue the deletion of a branch of ours; ``withdrawn``: not since it is done with, we take it back."""

    entry: Remove
    withdrawn: bool = False


class Offer(NamedTuple):
    """Queue a proposal of ours, or move one; its ``base`` is where it leaves the peer's main."""

    entry: Propose
    base: Oid


class Pin(NamedTuple):
    """Note, after the commit, that the ledger knows a branch at this head; None: it is gone."""

    peer: Name
    side: str
    topic: str
    head: Oid | None


class Keep(NamedTuple):
    """Keep a commit reachable whose branch moved or is gone."""

    head: Oid


class Wake(NamedTuple):
    """Name a thread, or what we sent (``peer:topic``), to the agent after the run.

    ``turn`` tells that it is the agent's input now; where the agent works a queue, nothing
    else wakes it.
    """

    thread: str
    turn: bool = False


FileEffect = Put | Drop | Edit | Move | WorkingCopy | WriteHere | Withhold | Archive
Effect = FileEffect | Log | Record | Advance | Post | Offer | CleanUp | Pin | Keep | Wake


class Plan(NamedTuple):
    """The effects of one cause, in order."""

    cause: str
    effects: tuple[Effect, ...] = ()


def describe(effect: Effect) -> str:
    """One line for a dry run: what would be done, without a checkmark."""
    match effect:
        case Put(path, _):
            return f"write {path}"
        case Drop(path):
            return f"remove {path}"
        case Edit(_, data, words):
            return words or ("commit its deletion" if data is None else f"commit its {len(data)} bytes")
        case Move(old, new):
            return f"move {old} to {new}"
        case WorkingCopy(path, _):
            return f"use {path} as it is here"
        case WriteHere(path, data, _):
            return f"{'remove' if data is None else 'write'} {path} on this machine"
        case Withhold(path, _):
            return f"keep the whole of {path} on this machine"
        case Archive(path, _):
            return f"archive {path}"
        case Log(row):
            return f"log {row.source} | {row.decision} | {row.executed.replace('✓ ', '')}"
        case Record(peer, event):
            return f"record {peer} {event.side} {event.kind} {event.topic} {event.head[:8]}"
        case Advance(commit, source, _):
            return f"merge {source} (as a commit such as {commit[:8]})"
        case Post(message, topic, _, _):
            return f"send {message.kind} to {message.to} on {message.sender}/{topic}: {message.subject}"
        case Offer(entry, _):
            return f"push {entry.head[:8]} to {entry.to} as {entry.branch}"
        case CleanUp(entry):
            return f"delete our branch {entry.branch} at {entry.to} if it is still {entry.tip[:8]}"
        case Pin(peer, side, topic, head):
            return f"unpin {peer} {side} {topic}" if head is None else f"pin {peer} {side} {topic} at {head[:8]}"
        case Keep(head):
            return f"keep {head[:8]} reachable"
        case Wake(thread, _):
            return f"wake the agent for {thread}"
        case _:
            assert_never(effect)
