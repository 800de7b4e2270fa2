"""Plan what arrives: new, moved, repeated and vanished branches, and notices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cn.outbox.plan.receipts import clean_up, notice
from cn.peers.plan.arrival import Arrival
from cn.protocol.effects import Drop, Effect, Log, Plan, Put, Record, Wake
from cn.protocol.layout import inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About
from cn.protocol.thread_file import format_thread, refresh
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadName


def plan_new(arrival: Arrival, name: ThreadName, earlier: str = "") -> Plan:
    """A thread for a branch that was not seen, or that moved after its thread was done."""
    rewritten = bool(earlier) and arrival.message is not None
    message = arrival.message
    fields = {
        "branch": arrival.branch,
        "thread": name,
        "signature": arrival.signature,
        "kind": message.kind if message else "proposal",
        "subject": message.subject if message else "",
        "hops": str(message.hops) if message else "0",
        "earlier": earlier,
    }
    effects: list[Effect] = [
        Put(inbox_path(name), format_thread(arrival.header(earlier), arrival.content)),
        arrival.event("received", **fields),
        arrival.row("rewritten" if rewritten else "received", thread=name),
        Wake(name),
    ]
    return Plan(arrival.source, tuple(effects))


def plan_moved(arrival: Arrival, item: Item, working: str | None) -> Plan:
    """The thread of a pending branch that moved: refreshed, a Triage for the earlier head void.

    ``working`` is the thread's text in the work tree (or in main), None when it is nowhere.
    """
    name = ThreadName(item.get("thread"))
    fresh = format_thread(arrival.header(item.get("earlier")), arrival.content)
    reason = f"The branch moved from {item.head} to {arrival.head}; decide again."
    text = fresh if working is None else refresh(working, fresh, reason)
    kind = "rewritten" if arrival.message else "moved"
    return Plan(
        arrival.source,
        (
            Put(inbox_path(name), text),
            arrival.event("refreshed", branch=arrival.branch, signature=arrival.signature),
            arrival.row(kind, thread=name),
            Wake(name),
        ),
    )


def plan_repeated(arrival: Arrival) -> Plan:
    """The same head again: logged once, no thread."""
    return Plan(arrival.source, (arrival.event("repeated"), arrival.row("received again", "nothing to do")))


def plan_gone(peer: Name, topic: str, branch: Branch, head: Oid, at: datetime, answers: Sequence[Item]) -> Plan:
    """The creator cleaned up: log it, and clean up our delivered answers about that branch."""
    source = f"{peer}/{topic}"
    effects: list[Effect] = [
        Record(peer, Event(at, IN, "gone", topic, head)),
        Log(Row(at, source, "gone", "branch deleted by its creator", branch=branch, head=head, outcome="gone")),
    ]
    effects += [clean_up(peer, item, at, f"{source} is gone", source) for item in answers]
    return Plan(source, tuple(effects))


def plan_refused_arrival(arrival: Arrival, refusal: Refusal, us: Name, already: bool) -> Plan:
    """A branch that may not enter: logged, and its creator told, once per head."""
    if already:
        return Plan(arrival.source)
    effects: list[Effect] = [
        arrival.event("refused", rule=refusal.rule, branch=arrival.branch),
        arrival.row("refused", f"{refusal.rule}: {refusal.reason}"),
    ]
    if refusal.notify:
        about = About(arrival.branch, arrival.head, "refused", None, f"{refusal.rule}: {refusal.reason}")
        effects.append(notice(us, arrival.peer, arrival.topic, about, arrival.at))
    return Plan(arrival.source, tuple(effects))


def plan_returned(peer: Name, item: Item, at: datetime) -> Plan:
    """A deferred thread whose time has come."""
    source = f"{peer}/{item.topic}"
    thread = item.get("thread")
    row = Row(at, source, "returned", "deferred until now", thread, item.get("branch"), item.head, "returned")
    return Plan(source, (Record(peer, Event(at, IN, "returned", item.topic, item.head)), Log(row), Wake(thread)))


def plan_restored(peer: Name, item: Item, at: datetime, text: str, elsewhere: HubPath | None) -> Plan:
    """A pending thread that was removed or moved in a commit is put back."""
    source = f"{peer}/{item.topic}"
    name = ThreadName(item.get("thread"))
    row = Row(at, source, "restored", "pending thread was missing", name, item.get("branch"), item.head, "restored")
    effects: list[Effect] = [Put(inbox_path(name), text), Log(row)]
    if elsewhere:
        effects.insert(0, Drop(elsewhere))
    return Plan(source, tuple(effects))
