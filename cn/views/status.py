"""The state of the whole hub on one screen, its peers and its outbox; no network."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cn.git.objects import is_ancestor, resolve
from cn.git.repository import half_done_in
from cn.inbox.in_conflict import find_conflicts
from cn.inbox.working_copies import unread
from cn.outbox.our_names import COPIED, FORWARD, REPLACED, TAKEN_DOWN
from cn.protocol.layout import FINAL, NOTICE, TO_MEND
from cn.protocol.ledger import AGAIN, OUT, Item
from cn.run.memory import Condition
from cn.run.settings import not_in_effect
from cn.run.view import View, has_agent
from cn.system.closed import writing
from cn.system.files import has_room, is_writable, read_regular
from cn.threads.refused_edits import drop_mended
from cn.values.errors import Refused
from cn.values.names import Name, Oid, ThreadName
from cn.values.text import one_line, visible
from cn.values.timestamps import from_epoch, is_old, parse_stamp, stamp_or_none
from cn.views.mend import mend_of
from cn.views.outbox import Entry, Unreachable, list_outbox, unreachable
from cn.views.threads import InboxView, list_inbox

if TYPE_CHECKING:  # imported where a hub has a queue
    from cn.git.repository import Hub
    from cn.views.queue import QueueView


class Main(NamedTuple):
    """Where main is. ``ahead`` and ``behind`` count against ``origin`` as last taken over (None: unknown).

    Where it is not ``checked_out``, ``away`` is what a run says of that, and the step.
    """

    branch: str
    commit: Oid
    checked_out: bool
    has_origin: bool
    origin: Oid | None
    ahead: int | None
    behind: int | None
    away: Condition | None = None


class Waiting(NamedTuple):
    """A branch of ours at a peer that has no final answer yet, as the ledger has it. What was refused comes first.

    Its ``status`` and ``reason`` are the last answer, ``unproven`` is why a claimed merge is not
    believed; ``old`` is set past ``warn_after`` days. ``mend`` is the next step where it waits for us. ``no_peer``: who
    has it is no peer now, so that no answer comes; ``replaced``: another commit stands there, which was not ours.
    ``moved``: where it stands there since somebody here mended it with git; empty: where we know it.
    """

    peer: Name
    item: Item
    old: bool
    mend: str = ""
    no_peer: bool = False
    replaced: bool = False
    moved: str = ""

    @property
    def is_ours_to_mend(self) -> bool:
        """Was it refused there, or did it fail, so that it waits for us, and was not told again, or mended by hand?"""
        return self.item.get("status") in TO_MEND and not (self.no_peer or self.moved or self.item.get(AGAIN))


class ShownCondition(NamedTuple):
    """Something that stops runs, or that was refused or failed and told once; the next step (may be empty).

    Those of one ``group`` are of one kind, and about one peer. One that is ``calm`` is worth knowing, and nothing is
    wrong.
    """

    text: str
    remedy: str
    since: datetime
    group: str = ""

    @property
    def calm(self) -> bool:
        """Does it stop nothing?"""
        return self.group.partition(" ")[0] in ("stray", COPIED, FORWARD, TAKEN_DOWN)


class Status(NamedTuple):
    """All that ``cn status`` shows.

    ``stopped`` is why no run can work, ``standing`` what was refused or failed and was told once. ``not_in_effect``
    are configuration files with a change that is not committed. ``queue`` is None where no agent works a queue.
    """

    hub: Name
    main: Main
    inbox: InboxView
    waiting: tuple[Waiting, ...]
    outbox: tuple[Entry, ...]
    unreachable: tuple[Unreachable, ...]
    stopped: ShownCondition | None
    standing: tuple[ShownCondition, ...]
    not_in_effect: tuple[Condition, ...]
    last_run: datetime | None
    queue: QueueView | None
    now: datetime

    @property
    def to_mend(self) -> list[Waiting]:
        """What was refused at a peer: it waits for somebody here."""
        return [one for one in self.waiting if one.is_ours_to_mend]

    @property
    def abroad(self) -> list[Waiting]:
        """What waits for others."""
        return [one for one in self.waiting if not one.is_ours_to_mend]

    @property
    def troubled(self) -> bool:
        """Does anything stand that was refused, failed, or keeps runs from working?"""
        inbox, queue = self.inbox, self.queue
        refused = bool(inbox.unknown or inbox.damaged or any(thread.refused for thread in inbox.threads))
        failed = any(entry.reason and not entry.owed for entry in self.outbox) or (queue is not None and queue.dead)
        refused = refused or bool(self.to_mend)
        standing = any(not one.calm for one in self.standing)
        return bool(self.stopped or standing or self.unreachable or self.not_in_effect or refused or failed)


def read_status(view: View) -> Status:
    """Gather it from main, the working copies of pending threads, and this clone's memory."""
    conditions = view.memory.conditions  # what is dropped here is not written
    drop_mended(conditions, view.hub)
    queue: QueueView | None = None
    if has_agent(view):
        from cn.views.queue import read_queue

        queue = read_queue(view)
    days, outbound = view.settings.config.warn_after, view.snapshot.outbound()
    replaced = [*conditions.names(REPLACED), *conditions.names(FORWARD)]
    waiting = list[Waiting]()
    for peer, item in outbound:
        if not _waits(item):
            continue
        if peer not in view.settings.peers:
            waiting.append(Waiting(peer, item, old=False, no_peer=True))
            continue
        is_replaced = f"{peer}:{item.topic}" in replaced
        moved = "" if is_replaced else _moved(view, peer, item)
        mend = "" if moved else mend_of(view, peer, item, outbound)
        old = is_old(item.since, view.now, days)
        waiting.append(Waiting(peer, item, old, mend, replaced=is_replaced, moved=moved))
    return Status(
        hub=view.settings.us,
        main=_main(view),
        inbox=list_inbox(view),
        waiting=tuple(sorted(waiting, key=lambda one: not one.is_ours_to_mend)),
        outbox=tuple(list_outbox(view)),
        unreachable=tuple(unreachable(view).values()),
        stopped=_stopped(view),
        standing=(
            *_unread(view, {text for text, *_ in conditions.shown}),
            *_in_conflict(view),
            *_no_messages(view.hub, view.now),
            *sorted(
                (ShownCondition(text, hint, parse_stamp(at), group) for text, hint, at, group in conditions.shown),
                key=lambda one: one.calm,  # what is wrong comes first
            ),
        ),
        not_in_effect=tuple(not_in_effect(view.hub, view.snapshot)) if view.on_main else (),
        last_run=_last_run(view),
        queue=queue,
        now=view.now,
    )


def _moved(view: View, peer: Name, item: Item) -> str:
    """Where a branch of ours stands that was refused, and that somebody here has moved since with git; else empty."""
    if item.get("status") not in TO_MEND or item.state != "answered":
        return ""
    from cn.transaction.push import pin_ref

    tip = resolve(view.hub.git, pin_ref(peer, OUT, item.topic))
    return tip if tip is not None and tip != item.head else ""


def _unread(view: View, told: Collection[str]) -> list[ShownCondition]:
    """Threads whose files we may not read, as it is now: no run may have met them yet."""
    names = [ThreadName(item.get("thread")) for _, item in view.snapshot.pending()] if view.on_main else []
    found = unread(view.hub, names).values()
    return [ShownCondition(text, remedy, view.now) for text, remedy in found if text not in told]


def _in_conflict(view: View) -> list[ShownCondition]:
    """What git left in conflict in cn's folders, as it is now."""
    names = [ThreadName(item.get("thread")) for _, item in view.snapshot.pending()]
    found = find_conflicts(view.hub, view.settings, names) if view.on_main else []
    return [ShownCondition(one.text, one.remedy, view.now) for one in found]


def _no_messages(hub: Hub, now: datetime) -> list[ShownCondition]:
    """What keeps the daemon of this clone, if one runs, from what people write in chats."""
    if not os.path.exists(hub.state / "daemon.json"):
        return []
    from cn.agent.daemon_health import read_unreached

    text, since = read_unreached(hub)
    remedy = "it goes on trying; check network, token and telegram.base_url"
    told = f"the daemon gets no messages: {one_line(visible(text), 200)}"
    return [ShownCondition(told, remedy, stamp_or_none(since) or now)] if text else []


def _stopped(view: View) -> ShownCondition | None:
    stop, state = view.memory.stopped, view.hub.state
    if os.path.exists(state / "lock.told"):
        from cn.transaction.lock import still_held

        if found := still_held(view.hub):
            remedy = "see what it waits for; it may be ended, and the next run finishes its work"
            return ShownCondition(found.text, found.remedy or remedy, _at(found.since))
    if half_done := "" if view.hub.apart else half_done_in(view.hub.work_git_dir):  # maybe what the stop asks for
        told = f"{half_done} is open in {view.hub.root}"
        since = parse_stamp(stop["since"]) if stop and stop["text"] == told else view.now
        return ShownCondition(told, "finish or abort it, then run again ('git status' tells how)", since)
    if stop and not (stop.get("kind") == "BadPlace" and _is_in_place(view.hub)):
        return ShownCondition(stop["text"], stop["hint"], parse_stamp(stop["since"]))
    if state.is_dir():  # where nothing can be noted, it is looked at
        if not is_writable(state):
            remedy = writing(state, "make it writable for the user of cn")
            return ShownCondition(f"cannot write in {state}", remedy, _at(state.stat().st_ctime))
        if not has_room(state):
            return ShownCondition(f"the disk of {state} is full", "make room on the disk, then run again", view.now)
    return None


def _at(seconds: float) -> datetime:
    return from_epoch(str(int(seconds)))


def _is_in_place(hub: Hub) -> bool:
    """Is HEAD main, and no merge open? That it was not stops no run any more."""
    from cn.transaction.base import work_place

    try:
        work_place(hub)
    except Refused:
        return False
    return True


def _main(view: View) -> Main:
    hub, commit, origin = view.hub, view.snapshot.commit, view.origin
    ahead: int | None = 0
    behind: int | None = 0
    if origin != commit:
        ahead = behind = None
        origin = _pulled(hub, origin)
        if origin is not None:
            done = hub.git.run("rev-list", "--left-right", "--count", f"{commit}...{origin}", "--", check=False)
            if done.ok:
                ahead, behind = (int(word) for word in done.text.split())
    return Main(hub.main, commit, view.on_main, hub.origin, origin, ahead, behind, _away(view))


def _away(view: View) -> Condition | None:
    if view.on_main:
        return None
    from cn.git.lost_branch import elsewhere

    return Condition(*elsewhere(view.hub))


def _pulled(hub: Hub, known: Oid | None) -> Oid | None:
    """Origin's main as git's own fetch noted it, where that goes on from what is ``known`` by the last run."""
    fetched = resolve(hub.git, hub.tracking) if hub.tracking else None
    goes_on = fetched is not None and known is not None and is_ancestor(hub.git, known, fetched)
    return fetched if goes_on else known


def _waits(item: Item) -> bool:
    """Is it delivered, of a kind that is answered, and without a final answer?"""
    if item.get("kind") == NOTICE or item.state not in ("delivered", "adopted", "answered"):
        return False
    return item.get("status") not in FINAL or bool(item.get("unproven"))


def _last_run(view: View) -> datetime | None:
    """When the lock was last taken in this clone: its file says so (``pid 7, since …``)."""
    text = (read_regular(view.hub.state / "lock", 200) or b"").decode("utf-8", "replace")
    return stamp_or_none(text.rpartition("since ")[2].strip()) if "since " in text else None
