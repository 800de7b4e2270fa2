"""What arrives: new, moved, repeated and vanished branches, and notices (DESIGN 6, 8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cn.core.effect import CleanUp, Drop, Effect, Log, Plan, Post, Put, Record, Wake
from cn.core.errors import Refusal
from cn.core.kinds import NOTICE
from cn.core.ledger import IN, OUT, Event, Item
from cn.core.log import Row
from cn.core.message import About, Message, notice_topic
from cn.core.names import Branch, HubPath, Name, Oid, ThreadName, topic_of
from cn.core.outbox import Remove
from cn.core.places import inbox_path
from cn.core.stamp import format_second
from cn.core.text import one_line
from cn.core.thread import Header, format_thread, refresh


class Arrival(NamedTuple):
    """One inbound branch at one head, read and checked.

    ``content`` is the unquoted text of the thread, ``message`` is set for message branches.
    """

    peer: Name
    branch: Branch
    head: Oid
    at: datetime
    signature: str
    content: str
    message: Message | None = None

    @property
    def topic(self) -> str:
        """The branch without its prefix."""
        return topic_of(self.branch)

    @property
    def source(self) -> str:
        """``peer/topic``, as logs name it."""
        return f"{self.peer}/{self.topic}"

    def row(self, decision: str, executed: str = "—", thread: str = "", outcome: str = "") -> Log:
        """A log row about this arrival."""
        return Log(
            Row(self.at, self.source, decision, executed, thread, self.branch, self.head, outcome or decision)
        )

    def event(self, kind: str, /, **fields: str) -> Record:
        """A ledger event about this arrival."""
        return Record(self.peer, Event(self.at, IN, kind, self.topic, self.head, fields))

    def header(self, earlier: str = "") -> Header:
        """The head of its thread document."""
        return Header(self.peer, self.topic, self.branch, self.at, self.head, self.signature, earlier)


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


def plan_gone(
    peer: Name, topic: str, branch: Branch, head: Oid, at: datetime, answers: Sequence[Item]
) -> Plan:
    """The creator cleaned up: log it, and clean up our delivered answers about that branch."""
    source = f"{peer}/{topic}"
    effects: list[Effect] = [
        Record(peer, Event(at, IN, "gone", topic, head)),
        Log(
            Row(at, source, "gone", "branch deleted by its creator", branch=branch, head=head, outcome="gone")
        ),
    ]
    effects += [clean_up(peer, item, at, f"{source} is gone", source) for item in answers]
    return Plan(source, tuple(effects))


def clean_up(peer: Name, item: Item, at: datetime, reason: str, source: str) -> CleanUp:
    """Queue the deletion of one of our branches at the tip we know."""
    branch = Branch(item.get("branch"))
    return CleanUp(Remove(peer, branch, item.head, at, reason, item.get("thread"), source))


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


def notice(us: Name, peer: Name, topic: str, about: About, at: datetime, thread: str = "") -> Post:
    """The one message that tells a creator what became of its branch."""
    what = {
        "merged": f"merged as {about.merge}",
        "discarded": "discarded",
        "opened": "taken up as a concern",
        "delegated": "delegated",
        "refused": "refused",
    }.get(about.status, about.status)
    body = f"Your branch {about.branch} at {about.head} was {what}."
    if about.reason:
        body += f"\n\nReason: {one_line(about.reason, 500)}"
    if about.final:
        body += "\n\nNothing more is needed from it: its creator may delete it now."
    subject = f"{about.branch}: {about.status}"
    message = Message(NOTICE, us, peer, subject, at, body, about=about)
    return Post(message, notice_topic(topic), thread, f"{peer}/{topic}")


def plan_notice(
    arrival: Arrival,
    ours: Item | None,
    expected: Branch,
    tip: Oid | None,
    proof: Refusal | None,
    *,
    deleted: bool = False,
) -> Plan:
    """An authentic notice about one of our branches (DESIGN 8).

    ``ours`` is the open item of the branch it names, ``expected`` how a branch of ours on
    that topic is called, ``tip`` where it is at the remote now (None: gone or not seen), and
    ``proof`` a refusal when *merged* is claimed but not shown by the peer's main.
    ``deleted`` tells that it was ours at that head, and is cleaned up already.
    """
    message = arrival.message
    assert message is not None
    about = message.about
    kind = "noticed" if message.kind == NOTICE else ""
    effects: list[Effect] = [arrival.event(kind, branch=arrival.branch)] if kind else []
    if about is None:
        effects += [arrival.row("notice", "it names no branch")] if kind else []
        return Plan(arrival.source, tuple(effects))
    source = f"{arrival.peer}/{topic_of(about.branch)}"
    said = f"notice:{about.status}"
    mine = ours is not None and about.branch == expected and ours.head == about.head
    if mine and ours is not None and ours.state == "deleting":
        mine, tip, deleted = False, None, True  # its deletion is on the way already
    adopt = about.branch == expected and tip == about.head
    if not (mine or adopt):
        told = _told(about) if deleted else "it names no branch and head of ours"
        effects.append(_our_row(arrival, about, said, told, source))
        return Plan(arrival.source, tuple(effects))
    if not mine:
        effects.append(adopted(arrival.peer, about.branch, about.head, arrival.at))
    fields = {
        "status": about.status,
        "reason": about.reason,
        "merge": about.merge or "",
        "answer": arrival.head,
    }
    if about.final and proof is not None:
        fields["unproven"] = proof.reason
        told = f"claimed, unproven: {proof.reason}"
    else:
        told = _told(about)
        if ours is not None and ours.get("unproven"):
            fields["unproven"] = ""  # what an earlier answer claimed
    event = Event(arrival.at, OUT, "answered", topic_of(about.branch), about.head, fields)
    effects.append(Record(arrival.peer, event))
    effects.append(_our_row(arrival, about, said, told, source))
    if about.final and proof is None:
        reason = f"{arrival.peer} says {about.status}"
        effects.append(
            CleanUp(Remove(arrival.peer, about.branch, about.head, arrival.at, reason, "", source))
        )
    return Plan(arrival.source, tuple(effects))


def plan_proven(peer: Name, item: Item, at: datetime) -> Plan:
    """A merge that was only claimed is now shown by the peer's main: clean up."""
    source = f"{peer}/{item.topic}"
    fields = {"unproven": "", "proven": format_second(at), "status": "merged"}
    reason = f"{peer}'s main holds the merge"
    return Plan(
        source,
        (
            Record(peer, Event(at, OUT, "answered", item.topic, item.head, fields)),
            Log(Row(at, source, "notice:merged", reason, "", item.get("branch"), item.head, "merged")),
            clean_up(peer, item, at, reason, source),
        ),
    )


def _told(about: About) -> str:
    words = f"merged {about.merge[:7]}" if about.merge else about.status
    return f"{words}: {about.reason}" if about.reason else words


def _our_row(arrival: Arrival, about: About, said: str, told: str, source: str) -> Log:
    return Log(
        Row(arrival.at, source, said, told, "", about.branch, about.head, about.status, about.merge or "")
    )


def adopted(peer: Name, branch: Branch, tip: Oid, at: datetime) -> Record:
    """A branch of ours that was pushed by hand enters our records at this tip."""
    return Record(
        peer, Event(at, OUT, "adopted", topic_of(branch), tip, {"branch": branch, "kind": "proposal"})
    )


def plan_adopted(peer: Name, branch: Branch, tip: Oid, at: datetime) -> Plan:
    """Adopt, and say so in the log."""
    source = f"{peer}/{topic_of(branch)}"
    row = Row(at, source, "ours", "adopted: pushed by hand", "", branch, tip, "adopted")
    return Plan(source, (adopted(peer, branch, tip, at), Log(row)))


def plan_ours_gone(peer: Name, item: Item, at: datetime) -> Plan:
    """One of our branches vanished at the remote without our doing."""
    source = f"{peer}/{item.topic}"
    row = Row(at, source, "ours", "gone at the remote", "", item.get("branch"), item.head, "gone")
    return Plan(source, (Record(peer, Event(at, OUT, "gone", item.topic, item.head)), Log(row)))


def plan_returned(peer: Name, item: Item, at: datetime) -> Plan:
    """A deferred thread whose time has come."""
    source = f"{peer}/{item.topic}"
    thread = item.get("thread")
    row = Row(at, source, "returned", "deferred until now", thread, item.get("branch"), item.head, "returned")
    return Plan(
        source, (Record(peer, Event(at, IN, "returned", item.topic, item.head)), Log(row), Wake(thread))
    )


def plan_restored(peer: Name, item: Item, at: datetime, text: str, elsewhere: HubPath | None) -> Plan:
    """A pending thread that was removed or moved in a commit is put back."""
    source = f"{peer}/{item.topic}"
    name = ThreadName(item.get("thread"))
    row = Row(
        at, source, "restored", "pending thread was missing", name, item.get("branch"), item.head, "restored"
    )
    effects: list[Effect] = [Put(inbox_path(name), text), Log(row)]
    if elsewhere:
        effects.insert(0, Drop(elsewhere))
    return Plan(source, tuple(effects))
