"""What something of ours is called by people: a branch that we sent to a peer, a proposal or a message."""

from __future__ import annotations

from pathlib import Path

from cn.protocol.layout import PROPOSAL
from cn.protocol.ledger import OUT, Item, topics
from cn.run.memory import Condition, Conditions
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.values.errors import Refused
from cn.values.names import Name, Oid
from cn.values.shell_words import command
from cn.values.text import one_line

REPLACED = "replaced"
"""The kind of condition that another's commit stands in the place of a branch of ours, by its ``peer:topic``."""

FORWARD = "forward"
"""The kind of condition that a branch of ours was moved on by git: by a person here, or by who can push there."""

COPIED = "copied"
"""The kind of condition that what we took back stands at its peer under another name, by its ``peer/topic head``."""

LOST = "gone"
"""The kind of condition that a message of ours is gone where it was delivered, and nobody has it."""

TAKEN_DOWN = "taken-down"
"""The kind of condition that a proposal of ours is gone without an answer: a person here deleted it, or its host."""

UNLISTED = "unlisted"
"""The section of the memory on what another clone sent, and this one has not found at the peer: in how many looks, and
since when.
"""

PLACE = "hub place"
"""The section of the memory on where each peer's hub was when a run looked there, or sent something."""

AWAY = "away"
"""The kind of condition that something of ours lay at a peer's former URL and is not at the new one, by its
``peer/topic``.
"""


def ends_it(gone: str, peer: str, topic: str) -> str:
    """How a branch of ours ends at which another commit stands: ``gone`` deletes what is there."""
    return f"{gone}, then {command('cn withdraw {}', f'{peer}:{topic}')}, ends it"


def keep_step(hub: Path, tip: Oid) -> str:
    """The step that says that a commit is of somebody here: a branch of the hub holds it. It names the hub, since it
    may be typed in a clone of the peer's, where such a branch says nothing.
    """
    return command("git -C {} branch {} {}", str(hub), f"ours-{tip[:8]}", tip)


def proposes(peer: str, item: Item) -> str:
    """The step that proposes what is checked out, by the name of this one."""
    return command("cn propose {} {}", item.topic, peer)


def sends_anew(peer: str, item: Item) -> str:
    """How a proposal comes in place of another's commit that is merged: as a new one, since who has seen the one of
    before reads it no more.
    """
    over = command("cn propose {} {} --replace", item.topic, peer)
    amend = f"where {one_line(item.topic, 80)} is checked out, 'git commit --amend --no-edit'"
    return f"{amend}, then {over} brings ours there, as a new commit"


def steps_back(push: str, gone: str, peer: str, item: Item) -> str:
    """What helps where an earlier state of a branch of ours stands at a peer: ``push`` brings what we sent last, and
    ``gone`` deletes what is there.

    Whoever has decided about the earlier one, or pins our key, reads a commit no more that was there before it.
    """
    topic = one_line(item.topic, 80)
    ends = ends_it(gone, peer, item.topic)
    if item.get("kind") not in ("", PROPOSAL):
        return f"{push} brings there what we sent last; {ends}"
    again = proposes(peer, item)
    anew = f"where {topic} is checked out, 'git commit --amend --no-edit', then {again} brings there what we sent last"
    return f"{anew}, as a new commit; {push} as the same one, if nothing was answered since; {ends}"


def told_of(conditions: Conditions, name: str) -> Condition | None:
    """What is known of another commit at a branch of ours, ``peer:topic``."""
    return conditions.get(REPLACED, name) or conditions.get(FORWARD, name)


def find_ours(snapshot: Snapshot, settings: Settings, text: str) -> tuple[Name, str] | None:
    """Peer and topic of something we sent: ``peer:topic``, the branch as it is called there (``us/topic``), both
    together, or the topic alone; None where there is none. Raises :class:`Refused` where several peers have one.
    """
    known = dict.fromkeys([*settings.peers, *snapshot.ledgers])
    given, colon, topic = text.partition(":")
    if colon and given in known:
        peer = Name(given)
        either = (topic, _topic(settings, peer, topic))
        return next(((peer, one) for one in either if _was_sent(snapshot, peer, one)), None)
    asked = [(n, _topic(settings, n, text)) for n in known]
    ours = [(peer, topic) for peer, topic in asked if _was_sent(snapshot, peer, topic)]
    if len(ours) > 1:
        names = ", ".join(f"{peer}:{topic}" for peer, topic in ours)
        raise Refused(f"{one_line(text, 80)!r} was sent to several peers", f"name one of them: {names}")
    return ours[0] if ours else None


def _topic(settings: Settings, name: Name, text: str) -> str:
    peer = settings.peers.get(name)
    prefixes = (settings.us, *([settings.outbound_prefix(peer)] if peer else []))
    return next((text.removeprefix(f"{prefix}/") for prefix in prefixes if text.startswith(f"{prefix}/")), text)


def _was_sent(snapshot: Snapshot, peer: Name, topic: str) -> bool:
    return snapshot.item(peer, OUT, topic) is not None or topic in topics(snapshot.history(peer), OUT)
