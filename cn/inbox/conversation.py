"""What an answer answers: the threads of a conversation are one after the other, each with what was said before."""

from __future__ import annotations

from contextlib import suppress

from cn.outbox.plan.receipts import Arrival
from cn.protocol.layout import OUTBOX, SENT, done_path, inbox_path
from cn.protocol.ledger import IN, OUT, Event, each_event
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.outbox_entry import Deliver, Propose, file_name, parse_entry
from cn.protocol.thread_file import PROPOSED, WROTE, peer_block
from cn.run.executor import Executor
from cn.values.names import HubPath, Name, Oid, ThreadName, is_oid, topic_of
from cn.values.record_header import RecordRefused
from cn.values.text import decode, quote
from cn.values.timestamps import format_stamp

_BEFORE, _NOW = "## Before", "## Now"
_MOST = 8000
"""Characters of what was said before, of each side, that a thread repeats."""


def answered(executor: Executor, arrival: Arrival) -> list[Event]:
    """What we wrote that a message says it answers, as the ledger recorded it."""
    message = arrival.message
    if message is None:
        return []
    named = [message.in_reply_to, *([message.about.head] if message.about else [])]
    heads = [Oid(name) for name in dict.fromkeys(named) if is_oid(name)]
    told = executor.snapshot.events_at_heads(arrival.peer, OUT, heads) if heads else {}
    return [event for events in told.values() for event in events if event.kind == "queued"]


def earlier_thread(executor: Executor, arrival: Arrival) -> str:
    """Where the last of what was said before about the same branch of ours is shown; empty: nothing was."""
    about = arrival.message.about if arrival.message is not None else None
    if about is None:
        return ""
    events = executor.snapshot.events_of_topic(arrival.peer, OUT, topic_of(about.branch))
    answers = [event.fields.get("answer", "") for event in events if event.kind == "answered"]
    heads = [Oid(head) for head in dict.fromkeys(answers) if is_oid(head) and head != arrival.head]
    told = executor.snapshot.events_at_heads(arrival.peer, IN, heads) if heads else {}
    shown = [event for head in heads for event in told.get(head, []) if event.fields.get("thread")]
    return shown[-1].fields["thread"] if shown else ""


def said_before(executor: Executor, arrival: Arrival) -> str:
    """What stands in a new thread above an answer: the message before our words, and these; else nothing."""
    said = []
    if earlier := earlier_thread(executor, arrival):
        said = [*_their_words(executor, earlier), *_our_answers(executor, arrival.peer, earlier)]
    for event in () if said else answered(executor, arrival):
        if ours := _our_words(executor, arrival.peer, event):
            said += [*_their_words(executor, event.fields.get("thread", "")), ours]
    return "\n\n".join([_BEFORE, *said, f"{_NOW}\n\n"]) if said else ""


def _our_words(executor: Executor, peer: Name, event: Event) -> str:
    """A message that we sent, as main's outbox has it."""
    name = file_name(peer, event.topic, event.head, event.at)
    data = executor.read(HubPath(f"{SENT}/{name}")) or executor.read(HubPath(f"{OUTBOX}/{name}"))
    with suppress(RecordRefused, MessageRefused):
        entry = parse_entry(data or b"", executor.snapshot.algorithm)
        if isinstance(entry, Propose):
            said = PROPOSED.format(executor.settings.us, format_stamp(event.at), entry.branch, entry.head[:10])
            return f"{said}\n\n{quote(_end_of(entry.subject))}"
        if isinstance(entry, Deliver):
            message = parse_message(entry.content)
            said = WROTE.format(message.sender, format_stamp(message.created), entry.branch)
            return f"{said}\n\n{quote(_end_of(message.body or message.subject))}"
    return ""


def _our_answers(executor: Executor, peer: Name, thread: str) -> list[str]:
    """What we said about a thread."""
    sent = [e for e in each_event(executor.snapshot.history(peer)) if e.side == OUT and e.kind == "queued"]
    return [words for e in sent if e.fields.get("thread") == thread and (words := _our_words(executor, peer, e))]


def _their_words(executor: Executor, thread: str) -> list[str]:
    """What the thread about which we wrote shows."""
    name = ThreadName(thread)
    data = (executor.read(done_path(name)) or executor.read(inbox_path(name))) if thread else None
    block = "\n".join(line[2:] for line in peer_block(decode(data or b""))).strip("\n")
    if block.startswith(_BEFORE):
        block = block.removeprefix(_BEFORE).replace(f"\n{_NOW}\n", "", 1).strip("\n")
    return [_end_of(block)] if block else []


def _end_of(text: str) -> str:
    return text if len(text) <= _MOST else "(the beginning is left out)\n" + text[-_MOST:].partition("\n")[2]
