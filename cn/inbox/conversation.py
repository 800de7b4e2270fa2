"""What an answer answers: the threads of a conversation are one after the other, each with what was said before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from cn.outbox.plan.receipts import Arrival
from cn.protocol.layout import OUTBOX, SENT, done_path, inbox_path
from cn.protocol.ledger import IN, OUT, Event, Item
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.message_text import BEFORE, NOW, repeat
from cn.protocol.outbox_entry import Deliver, Propose, file_names, is_about, parse_entry
from cn.protocol.thread_file import PROPOSED, WROTE, peer_block
from cn.run.executor import Executor
from cn.run.snapshot import Snapshot
from cn.values.names import HubPath, Name, Oid, ThreadName, is_oid, topic_of
from cn.values.record_header import RecordRefused
from cn.values.text import decode, quote
from cn.values.timestamps import format_stamp

_MOST = 8000
"""Characters of what was said before, of each side, that a thread repeats."""


class Earlier(NamedTuple):
    """What a peer's ledger has of what its messages answer.

    ``wrote``: what we wrote, by head. ``shown``: topic of ours → (head, thread) of what it said about that, oldest
    first. ``about``: thread → what we wrote about it. ``waiting``: thread → what it shows, while that is undecided.
    """

    wrote: dict[Oid, list[Event]]
    shown: dict[str, list[tuple[str, str]]]
    about: dict[str, list[Event]]
    waiting: dict[str, Item]


def read_earlier(executor: Executor, arrivals: Sequence[Arrival]) -> dict[Name, Earlier]:
    """What the messages of a run answer, by one look at the ledger of each of their peers."""
    by_peer: dict[Name, list[Arrival]] = {}
    for arrival in arrivals:
        if arrival.message is not None:
            by_peer.setdefault(arrival.peer, []).append(arrival)
    return {peer: _read_earlier_of(executor.snapshot, peer, some) for peer, some in by_peer.items()}


def _read_earlier_of(snapshot: Snapshot, peer: Name, arrivals: Sequence[Arrival]) -> Earlier:
    heads = list(dict.fromkeys(head for one in arrivals for head in _named(one)))
    told = snapshot.events_at_heads(peer, OUT, heads) if heads else {}
    wrote = {head: [event for event in events if event.kind == "queued"] for head, events in told.items()}
    topics = dict.fromkeys(topic for one in arrivals if (topic := _topic_of_ours(one)))
    past = snapshot.events_of_topics(peer, OUT, topics) if topics else {}
    answers = {topic: [e.fields.get("answer", "") for e in past[topic] if e.kind == "answered"] for topic in topics}
    came = list(dict.fromkeys(Oid(head) for some in answers.values() for head in some if is_oid(head)))
    seen = snapshot.events_at_heads(peer, IN, came) if came else {}
    threads = {head: [t for e in events if (t := e.fields.get("thread"))] for head, events in seen.items()}
    shown = {
        topic: [(head, thread) for head in dict.fromkeys(some) for thread in threads.get(Oid(head), ())]
        for topic, some in answers.items()
    }
    about: dict[str, list[Event]] = {}
    for event in snapshot.events_with(peer, OUT, (" thread=",)):
        if event.kind == "queued":
            about.setdefault(event.fields["thread"], []).append(event)
    items = snapshot.open_items.get(peer, {}).values()
    return Earlier(wrote, shown, about, {i.get("thread"): i for i in items if i.side == IN and i.get("thread")})


def _named(arrival: Arrival) -> list[Oid]:
    """What a message says it answers, and what it says it is about."""
    message = arrival.message
    assert message is not None
    named = [message.in_reply_to, *([message.about.head] if message.about else [])]
    return [Oid(name) for name in dict.fromkeys(named) if is_oid(name)]


def _topic_of_ours(arrival: Arrival) -> str:
    about = arrival.message.about if arrival.message is not None else None
    return topic_of(about.branch) if about is not None else ""


def answered(earlier: Earlier, arrival: Arrival) -> list[Event]:
    """What we wrote that a message says it answers."""
    return [event for head in _named(arrival) for event in earlier.wrote.get(head, ())]


def earlier_thread(earlier: Earlier, arrival: Arrival) -> str:
    """Where the last of what was said before about the same branch of ours is shown; empty: nothing was."""
    shown = earlier.shown.get(_topic_of_ours(arrival), ())
    return next((thread for head, thread in reversed(shown) if head != arrival.head), "")


def said_before(executor: Executor, earlier: Earlier, arrival: Arrival) -> str:
    """What stands in a new thread above an answer: the message before our words, and these; else nothing."""
    said = []
    if thread := earlier_thread(earlier, arrival):
        answers = (_our_words(executor, arrival.peer, event) for event in earlier.about.get(thread, ()))
        said = [*_their_words(executor, thread), *filter(None, answers)]
    for event in () if said else answered(earlier, arrival):
        if ours := _our_words(executor, arrival.peer, event):
            said += [*_their_words(executor, event.fields.get("thread", "")), ours]
    return "\n\n".join([BEFORE, *said, f"{NOW}\n\n"]) if said else ""


def _our_words(executor: Executor, peer: Name, event: Event) -> str:
    """A message that we sent, as main's outbox has it."""
    for name in file_names(peer, event.topic, event.head, event.at):
        data = executor.read(HubPath(f"{SENT}/{name}")) or executor.read(HubPath(f"{OUTBOX}/{name}"))
        with suppress(RecordRefused, MessageRefused):
            entry = parse_entry(data or b"", executor.snapshot.algorithm)
            if not is_about(entry, peer, event.topic, event.head):
                continue
            if isinstance(entry, Propose):
                said = PROPOSED.format(executor.settings.us, format_stamp(event.at), entry.branch, entry.head[:10])
                return f"{said}\n\n{quote(_end_of(entry.subject))}"
            if isinstance(entry, Deliver):
                message = parse_message(entry.content)
                said = WROTE.format(message.sender, format_stamp(message.created), entry.branch)
                return f"{said}\n\n{quote(_end_of(message.body or message.subject))}"
    return ""


def _their_words(executor: Executor, thread: str) -> list[str]:
    """What the thread about which we wrote shows."""
    name = ThreadName(thread)
    data = (executor.read(done_path(name)) or executor.read(inbox_path(name))) if thread else None
    block = "\n".join(line[2:] for line in peer_block(decode(data or b""))).strip("\n")
    return [_end_of(repeat(block))] if block else []


def _end_of(text: str) -> str:
    return text if len(text) <= _MOST else "(the beginning is left out)\n" + text[-_MOST:].partition("\n")[2]
