"""What became of our branches: notices about theirs and ours, clean-up, adoption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cn.protocol.effects import CleanUp, Edit, Effect, Keep, Log, Move, Pin, Plan, Post, Record, Wake
from cn.protocol.layout import COMMENTED, FINAL, NOT_OURS, NOTICE, TO_MEND
from cn.protocol.ledger import IN, OUT, WITHDRAWN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About, Message
from cn.protocol.outbox_entry import (
    Deliver,
    Entry,
    Propose,
    Remove,
    entry_head,
    entry_row,
    entry_source,
    format_entry,
    outbox_path,
    sent_path,
)
from cn.protocol.sent_life import BEGINS, is_withdrawn
from cn.protocol.states import Step
from cn.protocol.thread_file import Header
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadKey, topic_of
from cn.values.text import in_quotes, one_line
from cn.values.timestamps import format_second

LEFT = "left"
"""The field of what came about a head of ours that was not ours then: it is looked at again once it is."""


class Arrival(NamedTuple):
    """One inbound branch at one head; ``step``, ``item`` and ``past`` are what the ledger knows of its topic.

    Once it is read and checked, ``content`` is the unquoted text of the thread, ``base`` the commit against which it
    shows the branch (``none``: it shows nothing), ``written`` when its creator says that it was written, ``title`` its
    first commit's, ``message`` set for message branches, ``signed`` the digest of what its signature covers (empty:
    it has none), ``left`` the head that it is about, where nothing follows since no branch of ours is there, and
    ``merged_as`` the commit that merged this head on the main that its creator reads, where that is not ours (empty: no
    commit did).
    """

    peer: Name
    topic: str
    branch: Branch
    head: Oid
    at: datetime
    signature: str = "unverified"
    content: str = ""
    message: Message | None = None
    step: Step = Step.NEW
    item: Item | None = None
    past: Sequence[Event] = ()
    base: str = ""
    written: datetime | None = None
    title: str = ""
    signed: str = ""
    part: str = ""
    left: str = ""
    merged_as: str | None = None

    @property
    def key(self) -> ThreadKey:
        """By what it is known."""
        return self.peer, self.topic

    @property
    def source(self) -> str:
        """``peer/topic``, as logs name it."""
        return f"{self.peer}/{self.topic}"

    @property
    def called(self) -> str:
        """``peer/name`` by its branch: not its topic where another's thread, which goes on under it, has that."""
        return f"{self.peer}/{topic_of(self.branch)}"

    def row(self, decision: str, executed: str = "—", thread: str = "", outcome: str = "") -> Log:
        """A log row about this arrival."""
        return Log(Row(self.at, self.source, decision, executed, thread, self.branch, self.head, outcome or decision))

    def event(self, kind: str, /, **fields: str) -> Record:
        """A ledger event about this arrival, with what must not come once more as another commit."""
        before = self.item.get("signed") if self.item is not None else ""
        changes = kind in ("received", "refreshed", "noticed")
        if (changes and (self.signed or before)) or (kind == "refused" and self.signed):
            fields["signed"] = self.signed
        if changes and self.left:
            fields[LEFT] = self.left
        return Record(self.peer, Event(self.at, IN, kind, self.topic, self.head, fields))

    def header(self, earlier: str = "", caution: str = "") -> Header:
        """The head of its thread document."""
        name = topic_of(self.branch)
        return Header(self.peer, name, self.branch, self.at, self.head, self.signature, earlier, caution)


def clean_up(peer: Name, item: Item, at: datetime, reason: str, source: str) -> CleanUp:
    """Queue the deletion of one of our branches at the tip we know."""
    branch = Branch(item.get("branch"))
    return CleanUp(Remove(peer, branch, item.head, at, reason, item.get("thread"), source))


def plan_withdrawn(peer: Name, item: Item, there: Oid, waiting: Sequence[HubPath], at: datetime) -> Plan:
    """We take back what we sent: it is deleted where it was delivered, at ``there``, and what is ``waiting`` in the
    outbox goes out of it. What waits may be there too, unconfirmed, so that its deletion is asked for in any case.
    """
    source = f"{peer}/{item.topic}"
    deletion = clean_up(peer, item._replace(head=there), at, "taken back by us", source)._replace(withdrawn=True)
    return Plan(source, (*(Edit(path, None) for path in waiting), deletion))


def plan_end_lost(peer: Name, gone: Event, at: datetime) -> Plan:
    """What is not there any more was taken back by us. ``gone`` is the event that tells it."""
    source, fields = f"{peer}/{gone.topic}", {WITHDRAWN: format_second(at)}
    row = Row(at, source, "ours", "taken back by us", head=gone.head, outcome="deleted")
    return Plan(source, (Record(peer, Event(at, OUT, "deleted", gone.topic, gone.head, fields)), Log(row)))


def plan_unasked(peer: Name, item: Item, waiting: Sequence[HubPath], at: datetime) -> Plan:
    """We take back what we sent to one that is no peer now: what is ``waiting`` goes out of the outbox, and its branch
    is deleted where it lies if that one is added again.
    """
    taken = plan_end_lost(peer, Event(at, OUT, "deleted", item.topic, item.head), at)
    pin = Pin(peer, OUT, item.topic, None)
    return Plan(taken.cause, (*(Edit(path, None) for path in waiting), *taken.effects, pin))


def notice(us: Name, peer: Name, topic: str, about: About, at: datetime, thread: str = "") -> Post:
    """The one message that tells a creator what became of its branch."""
    merged = f"merged as {about.merge}" if about.merge else "merged: main holds that commit"
    words = {"merged": merged, "opened": "taken up as a concern", "deferred": "put off"}
    what = words.get(about.status, about.status)
    body = f"Your branch {about.branch} at {about.head} was {what}."
    if about.reason:
        body += f"\n\nReason: {one_line(about.reason, 500)}"
    if about.final:
        body += "\n\nNothing more is needed from it: its creator may delete it now."
    subject = f"{about.branch}: {about.status}"
    message = Message(NOTICE, us, peer, subject, at, body, about=about)
    return Post(message, notice_topic(topic), thread, f"{peer}/{topic}")


def notice_topic(topic: str) -> str:
    """The name that a notice about a branch wishes."""
    return f"notice-{topic}"


def left_head(about: About, ours: Item | None, expected: Branch, tip: Oid | None, *, deleted: bool) -> str:
    """The head that a message is about, where no branch of ours is or was there: one may be yet. Else empty."""
    is_left = about.branch == expected and not deleted and not _meets(about, ours, expected, tip)
    return about.head if is_left else ""


def _meets(about: About, ours: Item | None, expected: Branch, tip: Oid | None) -> str:
    """What a message is about: ``mine``, which is as we know it, one whose deletion is on its way (``deleting``), or
    one to ``adopt``, which stands at that head; else empty. The arguments are those of :func:`plan_notice`.
    """
    if about.branch != expected:
        return ""
    if ours is not None and ours.head == about.head:
        return "deleting" if ours.state == "deleting" else "mine"
    moving = ours is not None and ours.state == "queued"  # to a head that nobody has decided
    return "adopt" if tip == about.head and not moving else ""


def plan_notice(
    arrival: Arrival,
    ours: Item | None,
    expected: Branch,
    tip: Oid | None,
    proof: Refusal | None,
    *,
    deleted: bool = False,
    before: Mapping[str, str] | None = None,
) -> Plan:
    """An authentic notice about one of our branches.

    ``ours`` is the open item of the branch it names, ``expected`` how a branch of ours on
    that topic is called, ``tip`` where it is at the remote now (None: gone or not seen), and
    ``proof`` a refusal where nothing proves what it claims.
    ``deleted`` tells that it was ours at that head, and is cleaned up already, ``before`` what was answered,
    where it is over and the last of its name. One that is known is looked at again.
    """
    message = arrival.message
    assert message is not None
    about = message.about
    effects: list[Effect] = []
    if message.kind == NOTICE and arrival.step is not Step.KNOWN:
        effects.append(arrival.event("noticed", branch=arrival.branch))
    if about is None:
        return Plan(arrival.source, (*effects, arrival.row("notice", "it names no branch")) if effects else ())
    source = f"{arrival.peer}/{topic_of(about.branch)}"
    meets = _meets(about, ours, expected, tip)
    if meets not in ("mine", "adopt"):
        deleted = deleted or meets == "deleting"
        told = _claim(about, proof) if deleted else NOT_OURS
        if not deleted and ours is not None and about.branch == expected:
            told += f": that is about {about.head[:8]}, and ours is {ours.head[:8]}"
        if before is not None and _says_more(about, proof, before):
            effects.append(_answered(arrival, about, proof, before))
        return Plan(arrival.source, (*effects, _our_row(arrival, about, told, source)))
    if meets == "adopt":
        effects.append(adopted(arrival.peer, about.branch, about.head, arrival.at))
    event = _answered(arrival, about, proof, ours.fields if ours is not None and meets == "mine" else {})
    # What nothing proves takes no other answer's place, but for an end, which is looked for in the peer's main.
    if proof is None or about.final or ours is None or ours.state != "answered":
        effects.append(event)
        if about.status in TO_MEND:
            effects.append(Wake(f"{arrival.peer}:{topic_of(about.branch)}"))
    effects.append(_our_row(arrival, about, _claim(about, proof), source))
    if about.final and proof is None:
        reason = f"{arrival.peer} says {about.status}"
        effects.append(CleanUp(Remove(arrival.peer, about.branch, about.head, arrival.at, reason, "", source)))
    return Plan(arrival.source, tuple(effects))


def _says_more(about: About, proof: Refusal | None, before: Mapping[str, str]) -> bool:
    """Does it say more of what is over than what was said ``before``?"""
    if not before.get("status"):
        return True
    return proof is None and bool(before.get("unproven") or (about.final and before["status"] not in FINAL))


def _answered(arrival: Arrival, about: About, proof: Refusal | None, before: Mapping[str, str]) -> Record:
    """What a message says of a branch of ours, of which it was said ``before``."""
    fields = {"status": about.status, "reason": about.reason, "merge": about.merge or "", "answer": str(arrival.head)}
    is_words = about.status == COMMENTED and (before.get("status") or COMMENTED) != COMMENTED
    if is_words:
        fields = {"answer": str(arrival.head)}  # words about it change nothing of what became of it, nor of its proof
    if arrival.message is not None and arrival.message.kind != NOTICE:
        fields["words"] = str(arrival.head)
    if proof is not None:
        fields["unproven"] = proof.reason
    elif before.get("unproven") and not is_words:
        fields["unproven"] = ""  # what an earlier answer claimed
    return Record(arrival.peer, Event(arrival.at, OUT, "answered", topic_of(about.branch), about.head, fields))


def plan_words(arrival: Arrival, ours: Item) -> Plan:
    """Words in reply to a message of ours, which say nothing of what becomes of it: it was put off no more."""
    fields = {"answer": str(arrival.head), "words": str(arrival.head)}
    if ours.get("status") not in (*FINAL, *TO_MEND):
        fields |= {key: "" for key in ("status", "reason") if ours.get(key)}
    answered = Event(arrival.at, OUT, "answered", ours.topic, ours.head, fields)
    return Plan(f"{arrival.peer}/{ours.topic}", (Record(arrival.peer, answered),))


def plan_proven(peer: Name, item: Item, status: str, at: datetime, *, final: bool) -> Plan:
    """What was only claimed is now shown by the peer's main; where it is ``final``, clean up."""
    source = f"{peer}/{item.topic}"
    # The reason that an unproven claim gave is nobody's: that of a forged one would be shown as the peer's.
    fields = {"unproven": "", "proven": format_second(at), "status": status, "reason": ""}
    reason = f"{peer}'s main {'holds the merge' if status == 'merged' else 'says so'}"
    proven = Record(peer, Event(at, OUT, "answered", item.topic, item.head, fields))
    row = Log(Row(at, source, f"notice:{status}", reason, "", item.get("branch"), item.head, status))
    return Plan(source, (proven, row, *([clean_up(peer, item, at, reason, source)] if final else [])))


def _claim(about: About, proof: Refusal | None) -> str:
    return _told(about) if proof is None else f"claimed, unproven: {proof.reason}"


def _told(about: About) -> str:
    words = f"merged {about.merge[:7]}" if about.merge else about.status
    return f"{words}: {in_quotes(about.reason)}" if about.reason else words


def _our_row(arrival: Arrival, about: About, told: str, source: str) -> Log:
    what = ("", about.branch, about.head, about.status, about.merge or "")
    return Log(Row(arrival.at, source, f"notice:{about.status}", told, *what))


def adopted(peer: Name, branch: Branch, tip: Oid, at: datetime, base: str = "", subject: str = "") -> Record:
    """A branch of ours that was pushed by hand enters our records at this tip, with its ``base`` and title if known."""
    known = {"branch": branch, "kind": "proposal", "subject": subject, "base": base}
    fields = {name: value for name, value in known.items() if value}
    return Record(peer, Event(at, OUT, "adopted", topic_of(branch), tip, fields))


def plan_adopted(peer: Name, branch: Branch, tip: Oid, at: datetime, base: str = "", subject: str = "") -> Plan:
    """Adopt, and say so in the log."""
    source = f"{peer}/{topic_of(branch)}"
    row = Row(at, source, "ours", "adopted: pushed by hand", "", branch, tip, "adopted")
    return Plan(source, (adopted(peer, branch, tip, at, base, subject), Log(row)))


def plan_seen_again(peer: Name, branch: Branch, queued: Event, at: datetime) -> Plan:
    """What we sent and what seemed gone is there: it goes on as what it was."""
    source = f"{peer}/{queued.topic}"
    events = (queued._replace(at=at), Event(at, OUT, "delivered", queued.topic, queued.head))
    row = Row(at, source, "ours", "there again", "", branch, queued.head, "delivered")
    return Plan(source, (*(Record(peer, event) for event in events), Log(row)))


def plan_deleted_again(peer: Name, branch: Branch, past: Sequence[Event], at: datetime) -> Plan:
    """What was deleted, and came back with a backup of the host's, goes again; ``past`` are its events."""
    begun = next(event for event in reversed(past) if event.kind in BEGINS)
    source = f"{peer}/{begun.topic}"
    events = [begun, *[event for event in past if event.kind == "answered"][-1:]]
    if begun.kind == "queued":
        events.insert(1, Event(at, OUT, "delivered", begun.topic, begun.head))
    item = Item(OUT, begun.topic, begun.head, "answered", at, {**begun.fields, "branch": branch})
    row = Log(Row(at, source, "ours", "there again", "", branch, begun.head, "delivered"))
    again = clean_up(peer, item, at, "it was deleted before", source)._replace(withdrawn=is_withdrawn(past))
    return Plan(source, (*(Record(peer, event._replace(at=at)) for event in events), row, again))


def plan_ours_gone(peer: Name, item: Item, at: datetime, kind: str = "gone", *, is_here: bool = True) -> Plan:
    """One of our branches is not there any more, and cn did not delete it; ``deleted``: that was asked for before.

    Where its commit is not here, since another clone sent it, the pin at origin stays: from there it is brought back.
    """
    source = f"{peer}/{item.topic}"
    row = Row(at, source, "ours", "gone at the remote", "", item.get("branch"), item.head, kind)
    gone = Event(at, OUT, kind, item.topic, item.head)
    pin = (Pin(peer, OUT, item.topic, None), Keep(item.head)) if is_here else ()
    return Plan(source, (Record(peer, gone), Log(row), *pin))


def confirmed_kind(entry: Entry) -> str:
    """What an entry that is through has come to, in the ledger and in words."""
    return "deleted" if isinstance(entry, Remove) else "delivered"


def plan_returned(path: HubPath, entry: Entry, at: datetime) -> Plan:
    """An entry that was through before came back into the outbox, with a commit undone, or a copy: it goes again."""
    row = entry_row(entry, at, "not done again: it came back into the outbox", "returned")
    return Plan(entry_source(entry), (Move(path, sent_path(entry)), Log(row)))


_QUEUED = ("kind", "thread", "subject", "about", "about_head", "about_status")


def plan_renamed(path: HubPath, entry: Deliver, branch: Branch, ours: Item | None, at: datetime) -> Plan:
    """A message whose name is another's branch where it goes: the very same commit waits under a free name.

    ``ours`` is what the ledger has open under the name that is taken.
    """
    renamed = replace(entry, branch=branch)
    known = ours.fields if ours is not None else {"kind": entry.kind, "thread": entry.thread, "about": entry.about}
    fields = {"branch": branch, **{key: known[key] for key in _QUEUED if key in known}}
    left = Event(at, OUT, "deleted", topic_of(entry.branch), entry.id, {"instead": topic_of(branch)})
    queued = Event(at, OUT, "queued", topic_of(branch), entry.id, fields)
    effects: list[Effect] = [Edit(path, None), Edit(outbox_path(renamed), format_entry(renamed))]
    if ours is not None and ours.head == entry.id:
        effects.append(Record(entry.to, left))
    row = entry_row(entry, at, f"its name is taken there; queued as {branch}", "queued", known.get("about_status", ""))
    return Plan(entry_source(entry), (*effects, Record(entry.to, queued), Log(row)))


def plan_rerouted(path: HubPath, entry: Deliver | Propose, branch: Branch, ours: Item, at: datetime) -> Plan:
    """What waits for a peer whose route is another one now: the very same commit waits as ``branch``."""
    renamed = replace(entry, branch=branch)
    fields = {**{key: ours.get(key) for key in (*_QUEUED, "base") if ours.get(key)}, "branch": branch}
    queued = Event(at, OUT, "queued", ours.topic, entry_head(entry), fields)
    row = entry_row(entry, at, f"its peer has another route; queued as {branch}", "queued", ours.get("about_status"))
    gone = () if outbox_path(renamed) == path else (Edit(path, None),)
    edit = Edit(outbox_path(renamed), format_entry(renamed))
    return Plan(entry_source(entry), (*gone, edit, Record(entry.to, queued), Log(row)))


def plan_brought(entry: Deliver | Propose, ours: Item, at: datetime) -> Plan:
    """What lay at a peer's former URL waits for the new one, the very same commit."""
    fields = {key: ours.get(key) for key in ("branch", *_QUEUED, "base") if ours.get(key)}
    queued = Event(at, OUT, "queued", ours.topic, entry_head(entry), fields)
    row = entry_row(entry, at, "its peer has another URL; queued again", "queued", ours.get("about_status"))
    edit = Edit(outbox_path(entry), format_entry(entry))
    return Plan(entry_source(entry), (edit, Record(entry.to, queued), Keep(ours.head), Log(row)))


def plan_confirmed(path: HubPath | None, entry: Entry, ours: Item | None, executed: str, at: datetime) -> Plan:
    """An outbox entry is through: its branch is pinned or not any more, and it moves to ``sent/``.

    ``path`` is where it waits, None where another clone has moved it already.
    """
    topic, head, kind = topic_of(entry.branch), entry_head(entry), confirmed_kind(entry)
    effects: list[Effect] = [Pin(entry.to, OUT, topic, None if isinstance(entry, Remove) else head)]
    if isinstance(entry, Remove):
        effects.append(Keep(head))
    if path is not None:
        status = ours.fields.get("about_status", "") if ours is not None else ""
        effects += [
            Move(path, sent_path(entry)),
            Record(entry.to, Event(at, OUT, kind, topic, head)),
            Log(entry_row(entry, at, executed, kind, status)),
        ]
    return Plan(entry_source(entry), tuple(effects))
