"""Plan what arrives: new, moved, repeated and vanished branches, and notices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cn.outbox.plan.receipts import Arrival, notice
from cn.protocol.effects import Drop, Effect, Log, Plan, Put, Record, Wake
from cn.protocol.layout import ACKED, NOTICE, inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About
from cn.protocol.states import RECEIVER, read_step
from cn.protocol.states import Step as Step
from cn.protocol.thread_file import Words, add_form, add_words, format_thread, refresh
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadName, parse_oid
from cn.values.timestamps import format_second

LOOKED = frozenset({"received", "refreshed", "repeated", "noticed"})
"""Kinds of events that say: this head was there, and let in."""
_ACTS = {"decided": "settled", "noticed": "settled", "gone": "vanished", "refused": "refused"}
"""What the receiver makes of an event; of a refused decision too: both leave a pending thread as it is."""


class Sighting(NamedTuple):
    """A branch as the ledger left it: its state, the head it was last at, all heads let in."""

    state: str = RECEIVER.states[0]
    last: Oid | None = None
    heads: frozenset[Oid] = frozenset()

    def look(self, head: Oid) -> str:
        """What it is to see ``head`` now."""
        if head not in self.heads:
            return "new head"
        return "same head" if head == self.last else "old head"


def read_sighting(item: Item | None, past: Sequence[Event]) -> Sighting:
    """From the open item and the history of the topic; the item counts where they differ.

    Total: an event that fits nothing changes nothing (a damaged history).
    """
    seen = Sighting()
    for event in past:
        seen = _after(seen, event)
    if item is not None:
        state = "withdrawn" if item.get("gone") else "present"
        return Sighting(state, item.head, seen.heads | {item.head})
    if seen.state in ("present", "withdrawn"):  # nothing is open: it was lost
        return Sighting(RECEIVER.step(seen.state, "settled"), seen.last, seen.heads)
    return seen


def _after(seen: Sighting, event: Event) -> Sighting:
    acts: list[str] = []
    if event.kind in LOOKED:
        acts.append(seen.look(event.head))
        seen = seen._replace(heads=seen.heads | {event.head})
    if act := _ACTS.get(event.kind):
        acts.append(act)
    for act in acts:
        seen = seen._replace(state=RECEIVER.after.get((seen.state, act), seen.state), last=event.head)
    return seen


def classify(head: Oid, item: Item | None, past: Sequence[Event]) -> Step:
    """What a listed head means. ``past`` may be empty where it is the head of the open item."""
    seen = read_sighting(item, past)
    return read_step(seen.state, seen.look(head))


def is_news_that_it_vanished(item: Item | None, past: Sequence[Event]) -> bool:
    """Is it news that the branch is not listed any more, or did another clone see it first?"""
    return (read_sighting(item, past).state, "vanished") in RECEIVER.after


def plan_new(arrival: Arrival, us: Name, name: ThreadName, earlier: str = "") -> Plan:
    """A thread for a branch that was not seen, or that moved after its thread was done."""
    rewritten = bool(earlier) and arrival.message is not None
    at = {"branch": arrival.branch, "signature": arrival.signature, "base": arrival.base}
    if arrival.written is not None:
        at["written"] = format_second(min(arrival.written, arrival.at))
    fields = {**at, **_what_it_is(arrival), "thread": name, "earlier": earlier}
    put = Put(inbox_path(name), add_form(format_thread(arrival.header(earlier), arrival.content), us))
    row = arrival.row("rewritten" if rewritten else "received", thread=name)
    return Plan(arrival.source, (put, arrival.event("received", **fields), row, Wake(name)))


def _what_it_is(arrival: Arrival) -> dict[str, str]:
    """The fields of the ledger that say it; a message's branch may be pushed anew as a proposal."""
    message = arrival.message
    return {
        "kind": message.kind if message else "proposal",
        "subject": message.subject if message else "",
        "title": "" if message else arrival.title,
        "hops": str(message.hops) if message else "0",
    }


def plan_continued(arrival: Arrival, us: Name, item: Item, working: str) -> Plan:
    """An answer to what we said about a pending thread is shown there, and brings it back if it was put off.

    ``working`` is that thread's text in the work tree, or in main; ``item`` is its own. An answer that ends a thread at
    its creator's goes with what it ends; of any other its creator is told that it was shown.
    """
    assert arrival.message is not None
    name, message = ThreadName(item.get("thread")), arrival.message
    what = f"{arrival.branch} at {arrival.head[:10]}, {arrival.signature}"
    text = add_words(working, Words(arrival.peer, message.created, what, arrival.content))
    back = plan_returned(arrival.peer, item, arrival.at, message.hops).effects[:1] if item.state == "deferred" else ()
    row = arrival.row("answered", f"shown in {name}", thread=name)
    about = About(arrival.branch, arrival.head, ACKED, None, f"shown in {name}")
    ends = message.about is not None and message.about.final
    told = () if ends else (notice(us, arrival.peer, arrival.topic, about, arrival.at, name),)
    seen = arrival.event("noticed", branch=arrival.branch)
    return Plan(arrival.source, (Put(inbox_path(name), text), seen, *back, row, *told, Wake(name)))


def plan_moved(arrival: Arrival, us: Name, item: Item, working: str | None, known: Sequence[str]) -> Plan:
    """The thread of a pending branch that moved: refreshed, a Triage for the earlier head void.

    ``working`` is the thread's text in the work tree (or in main), None when it is nowhere; ``known`` are
    versions that main had of it.
    """
    name = ThreadName(item.get("thread"))
    fresh = add_form(format_thread(arrival.header(item.get("earlier")), arrival.content), us)
    reason = f"The branch moved from {item.head} to {arrival.head}; decide again."
    text = fresh if working is None else refresh(working, fresh, reason, known)
    kind = "rewritten" if arrival.message else "moved"
    news = {key: value for key, value in _what_it_is(arrival).items() if item.get(key) != value}
    at = {"branch": arrival.branch, "signature": arrival.signature, "base": arrival.base or "none"}
    event = arrival.event("refreshed", **at, **news)
    return Plan(arrival.source, (Put(inbox_path(name), text), event, arrival.row(kind, thread=name), Wake(name)))


def plan_repeated(arrival: Arrival, us: Name) -> Plan:
    """The same head again: logged once, no thread. Where it was decided its creator is told once more."""
    decided = [e.fields for e in arrival.past if e.kind == "decided" and e.head == arrival.head]
    effects: list[Effect] = [arrival.event("repeated")]
    if not decided or (arrival.message is not None and arrival.message.kind == NOTICE):
        return Plan(arrival.source, (*effects, arrival.row("received again", "nothing to do")))
    last = decided[-1]
    reason = f"it was decided before: {last['decision']}; only a new commit is looked at again"
    merge = last.get("merge")
    about = About(arrival.branch, arrival.head, last["status"], parse_oid(merge) if merge else None, reason)
    told = notice(us, arrival.peer, arrival.topic, about, arrival.at)
    row = arrival.row("received again", "its creator is told once more what became of it")
    return Plan(arrival.source, (*effects, row, told))


def plan_gone(peer: Name, topic: str, branch: Branch, head: Oid, at: datetime, *, deleted: bool) -> Plan:
    """A branch that is not listed any more: log it. ``deleted``: its creator's main says that it deleted it."""
    source = f"{peer}/{topic}"
    gone = Record(peer, Event(at, IN, "gone", topic, head))
    why = "branch deleted by its creator" if deleted else "branch not listed any more"
    return Plan(source, (gone, Log(Row(at, source, "gone", why, branch=branch, head=head, outcome="gone"))))


def plan_refused_arrival(arrival: Arrival, refusal: Refusal, us: Name, already: bool) -> Plan:
    """A branch that may not enter: logged, and its creator told, once per head."""
    if already:
        return Plan(arrival.source)
    why = f"{refusal.rule}: {refusal.reason}"
    event = arrival.event("refused", rule=refusal.rule, branch=arrival.branch)
    about = About(arrival.branch, arrival.head, "refused", None, why)
    told = (notice(us, arrival.peer, arrival.topic, about, arrival.at),) if refusal.notify else ()
    return Plan(arrival.source, (event, arrival.row("refused", why), *told))


def plan_returned(peer: Name, item: Item, at: datetime, hops: int | None = None) -> Plan:
    """A deferred thread whose time has come, or that an answer brings back: ``hops`` are those of the answer."""
    source = f"{peer}/{item.topic}"
    thread = item.get("thread")
    row = Row(at, source, "returned", "deferred until now", thread, item.get("branch"), item.head, "returned")
    event = Event(at, IN, "returned", item.topic, item.head, {} if hops is None else {"hops": str(hops)})
    return Plan(source, (Record(peer, event), Log(row), Wake(thread)))


def plan_renewed(peer: Name, item: Item, at: datetime, why: str) -> Plan:
    """A pending thread whose file was another's, or an older one, and decided nothing."""
    source = f"{peer}/{item.topic}"
    row = Row(at, source, "restored", why, item.get("thread"), item.get("branch"), item.head, "restored")
    return Plan(source, (Log(row),))


def plan_restored(peer: Name, item: Item, at: datetime, text: str, elsewhere: HubPath | None) -> Plan:
    """A pending thread that was removed or moved in a commit is put back."""
    source = f"{peer}/{item.topic}"
    name = ThreadName(item.get("thread"))
    row = Row(at, source, "restored", "pending thread was missing", name, item.get("branch"), item.head, "restored")
    return Plan(source, (*((Drop(elsewhere),) if elsewhere else ()), Put(inbox_path(name), text), Log(row)))
