"""The state of the whole hub on one screen, its peers and its outbox; no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.outbox.plan.due import is_old
from cn.protocol.ledger import Item
from cn.protocol.message_kinds import FINAL, NOTICE
from cn.protocol.peers_file import Peer
from cn.run.settings import MAILBOX_KEY, Draft, not_in_effect
from cn.run.view import View
from cn.system.files import has_room, is_writable
from cn.threads.refused_edits import drop_mended
from cn.values.errors import Refused
from cn.values.names import Name, Oid
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, from_epoch, parse_stamp
from cn.views.threads import InboxView, list_inbox

if TYPE_CHECKING:  # imported where a hub has a queue, or something waits in the outbox
    from cn.git.repository import Hub
    from cn.protocol import outbox_entry as outbox
    from cn.views.queue import QueueView


class Main(NamedTuple):
    """Where main is. ``ahead`` and ``behind`` count against ``origin`` as last taken over (None: unknown)."""

    branch: str
    commit: Oid
    checked_out: bool
    has_origin: bool
    origin: Oid | None
    ahead: int | None
    behind: int | None


class Waiting(NamedTuple):
    """A branch of ours at a peer that has no final answer yet.

    ``status`` and ``reason`` are the last answer, ``unproven`` why a claimed merge is not
    believed; ``old`` is set past ``warn_after`` days.
    """

    peer: Name
    branch: str
    head: Oid
    kind: str
    since: datetime
    status: str
    reason: str
    unproven: str
    old: bool


class Entry(NamedTuple):
    """One file of the outbox. ``effect`` is deliver, delete, say, or damaged (``reason`` says how)."""

    file: str
    effect: str
    to: str = ""
    branch: str = ""
    head: str = ""
    kind: str = ""
    subject: str = ""
    queued: datetime | None = None
    attempts: int = 0
    reason: str = ""
    last: datetime | None = None
    thread: str = ""
    source: str = ""


class Unreachable(NamedTuple):
    """A peer, or the mailbox, that did not answer, as this clone remembers it."""

    name: str
    reason: str
    since: datetime | None
    next: datetime | None
    attempts: int


class PeerView(NamedTuple):
    """A peer with the fingerprint of its pinned key (empty: none) and what is known of its reachability."""

    peer: Peer
    fingerprint: str
    unreachable: Unreachable | None


class Stopped(NamedTuple):
    """Why no run can work, since when, and the next step."""

    reason: str
    remedy: str
    since: datetime


class ShownCondition(NamedTuple):
    """Something that was refused or failed, was told once, and is not gone; the next step (may be empty)."""

    text: str
    remedy: str
    since: datetime


class Status(NamedTuple):
    """All that ``cn status`` shows.

    ``standing`` is what was refused or failed and was told once. ``not_in_effect`` are
    configuration files with a change that is not committed. ``queue`` is
    None where no agent works a queue.
    """

    hub: Name
    main: Main
    inbox: InboxView
    waiting: tuple[Waiting, ...]
    outbox: tuple[Entry, ...]
    unreachable: tuple[Unreachable, ...]
    stopped: Stopped | None
    standing: tuple[ShownCondition, ...]
    not_in_effect: tuple[Draft, ...]
    last_run: datetime | None
    queue: QueueView | None
    now: datetime
    warn_after: int


def read_status(view: View) -> Status:
    """Gather it from main, the working copies of pending threads, and this clone's memory."""
    conditions = view.memory.conditions  # what is dropped here is not written
    drop_mended(conditions, view.hub.root)
    return Status(
        hub=view.settings.us,
        main=_main(view),
        inbox=list_inbox(view),
        waiting=tuple(_waiting(view)),
        outbox=tuple(list_outbox(view)),
        unreachable=tuple(_unreachable(view).values()),
        stopped=_stopped(view),
        standing=tuple(ShownCondition(text, hint, parse_stamp(at)) for text, hint, at in conditions.shown),
        not_in_effect=tuple(not_in_effect(view.hub, view.snapshot)) if view.on_main else (),
        last_run=_last_run(view),
        queue=_queue(view),
        now=view.now,
        warn_after=view.settings.config.warn_after,
    )


def _queue(view: View) -> QueueView | None:
    if view.settings.config.interface != "queue":
        return None
    from cn.views.queue import read_queue

    return read_queue(view)


def _stopped(view: View) -> Stopped | None:
    stop, state = view.memory.stop.entries, view.hub.state
    if os.path.exists(state / "lock.told") and (held := _held(view.hub)):
        return held
    if stop and not _is_mended(view.hub, stop.get("kind", "")):
        return Stopped(stop["text"], stop["hint"], parse_stamp(stop["since"]))
    if state.is_dir():  # where nothing can be noted, it is looked at
        if not is_writable(state):
            since = from_epoch(str(int(state.stat().st_ctime)))
            return Stopped(f"cannot write in {state}", "make it writable for the user of cn", since)
        if not has_room(state):
            return Stopped(f"the disk of {state} is full", "make room on the disk, then run again", view.now)
    return None


def _held(hub: Hub) -> Stopped | None:
    from cn.transaction.lock import still_held

    found = still_held(hub)
    if found is None:
        return None
    return Stopped(
        f"another run of cn holds the hub{found[0]}",
        "see what it waits for; it may be ended, and the next run finishes its work",
        from_epoch(str(int(found[1]))),
    )


def _is_mended(hub: Hub, kind: str) -> bool:
    """Was HEAD elsewhere, or a merge open, and is not any more? No run need tell."""
    if kind != "BadPlace":
        return False
    from cn.transaction.base import work_place

    try:
        work_place(hub)
    except Refused:
        return False
    return True


def _main(view: View) -> Main:
    hub, commit = view.hub, view.snapshot.commit
    ahead: int | None = 0
    behind: int | None = 0
    if view.origin != commit:
        ahead = behind = None
        if view.origin is not None:
            done = hub.git.run(
                "rev-list", "--left-right", "--count", f"{commit}...{view.origin}", "--", check=False
            )
            if done.ok:
                ahead, behind = (int(word) for word in done.text.split())
    return Main(hub.main, commit, view.on_main, hub.origin, view.origin, ahead, behind)


def _waiting(view: View) -> list[Waiting]:
    return [
        Waiting(
            peer=peer,
            branch=item.get("branch"),
            head=item.head,
            kind=item.get("kind") or "proposal",
            since=item.since,
            status=item.get("status"),
            reason=item.get("reason"),
            unproven=item.get("unproven"),
            old=is_old(item.since, view.now, view.settings.config.warn_after),
        )
        for peer, item in view.snapshot.outbound()
        if _waits(item)
    ]


def _waits(item: Item) -> bool:
    """Is it delivered, of a kind that is answered, and without a final answer?"""
    if item.get("kind") == NOTICE or item.state not in ("delivered", "adopted", "answered"):
        return False
    return item.get("status") not in FINAL or bool(item.get("unproven"))


def list_outbox(view: View) -> list[Entry]:
    """What waits to be delivered, oldest first, then damaged files."""
    entries, broken = view.snapshot.outbox()
    attempts = view.memory.attempts.entries
    found = [_mail(path.rpartition("/")[2], entry, attempts) for path, entry in entries]
    says, damaged = view.snapshot.says()
    for _, say in says:
        tried = attempts.get(say.name) or {}
        found.append(
            Entry(
                file=say.name,
                effect="say",
                to=say.chat,
                kind="text",
                subject=one_line(say.text, 80),
                queued=say.queued,
                attempts=int(tried.get("count", 0)),
                reason=str(tried.get("reason", "")),
                last=_time(tried.get("last")),
                source=say.chat,
            )
        )
    broken = [*broken, *damaged]
    found.sort(key=lambda e: (e.queued or view.now, e.file))
    return found + [Entry(path.rpartition("/")[2], "damaged", reason=why) for path, why in broken]


def _mail(file: str, entry: outbox.Entry, attempts: Mapping[str, Mapping[str, Any]]) -> Entry:
    from cn.protocol.outbox_entry import Deliver

    tried = attempts.get(file) or {}
    delivers = isinstance(entry, Deliver)
    return Entry(
        file=file,
        effect="deliver" if delivers else "delete",
        to=entry.to,
        branch=entry.branch,
        head=entry.id if isinstance(entry, Deliver) else entry.tip,
        kind=entry.kind if isinstance(entry, Deliver) else "",
        subject=entry.subject if isinstance(entry, Deliver) else entry.reason,
        queued=entry.queued,
        attempts=int(tried.get("count", 0)),
        reason=str(tried.get("reason", "")),
        last=_time(tried.get("last")),
        thread=entry.thread,
        source=entry.source,
    )


def list_peers(view: View) -> list[PeerView]:
    """The peers of main's ``state/peers.md``."""
    failing = _unreachable(view)
    return [
        PeerView(peer, fingerprint(peer.key) if peer.key else "", failing.get(peer.name))
        for peer in view.settings.peers.values()
    ]


def fingerprint(key: str) -> str:
    """``SHA256:…`` of an SSH public key, as ssh-keygen(1) ``-l`` shows it."""
    import base64
    import binascii
    import hashlib

    try:
        data = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "(unreadable)"
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _unreachable(view: View) -> dict[str, Unreachable]:
    """Failing peers and mailbox by key; peers that were removed are left out."""
    known = {*view.settings.peers, MAILBOX_KEY}
    return {
        key: Unreachable(
            name=f"the mailbox ({view.settings.mailbox})" if key == MAILBOX_KEY else key,
            reason=str(entry.get("reason", "")),
            since=_time(entry.get("since")),
            next=_time(entry.get("next")),
            attempts=_count(entry),
        )
        for key, entry in sorted(view.memory.unreachable.entries.items())
        if key in known
    }


def _count(entry: Mapping[str, Any]) -> int:
    count = entry.get("count", 0)
    return count if isinstance(count, int) else 0


def _time(text: object) -> datetime | None:
    with suppress(StampRefused):
        return parse_stamp(str(text)) if text else None
    return None


def _last_run(view: View) -> datetime | None:
    """When the lock was last taken in this clone: its file says so (``pid 7, since …``)."""
    try:
        text = (view.hub.state / "lock").read_text("utf-8", "replace")
    except OSError:
        return None
    return _time(text.rpartition("since ")[2].strip()) if "since " in text else None
