"""What each op does to a chat message: the answer goes back to the chat.

A message in a chat has no thread of its own; the conversation is its thread. Whatever the
op, the chat gets one text: the body, else the message of the reply, else "(acknowledged)".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cn.agent.plan.conversation import message_content, said_in
from cn.protocol import rules
from cn.protocol.effects import Effect, Log, Plan, Post, Put
from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import MESSAGE, SAY
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.ops import Commit, Defer, Delegate, Delete, Ending, Reply, Surface, payload
from cn.protocol.outbox_entry import Say, format_say, parse_say
from cn.protocol.own_thread import ASSIGNED, DEFERRED, adhoc_path, format_own, new_own
from cn.protocol.peers_file import Peer
from cn.protocol.queue_item import Cadence, Input, format_queued, queue_path
from cn.threads.plan.decisions import ending_words
from cn.values.errors import Refusal
from cn.values.names import HubPath, InputId, Name
from cn.values.text import one_line, slug
from cn.values.timestamps import format_second

SEEN = HubPath("state/telegram.json")
_MOST_SEEN = 200


def parse_seen(data: bytes | None) -> list[int]:
    """The update ids that were queued of late; a damaged file holds none."""
    try:
        found = json.loads(data or b"[]")
        return [int(number) for number in found]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return []


def format_seen(ids: list[int]) -> str:
    """The inverse of :func:`parse_seen`; the oldest go."""
    return json.dumps(ids[-_MOST_SEEN:]) + "\n"


def plan_incoming(chat: str, update: int, text: str, id: InputId, seen: list[int], at: datetime) -> Plan:
    """A chat message waits for the agent; the same update again is no second one."""
    if update in seen:
        return Plan(chat)
    asked = Input(id, chat, Cadence.INBOX, at, HubPath(""), content=message_content(text))
    row = Row(at, chat, "received", "—", outcome="received", input=id)
    effects = (Put(queue_path(asked), format_queued(asked)), Put(SEEN, format_seen([*seen, update])), Log(row))
    return Plan(chat, effects)


@dataclass(frozen=True)
class ChatFacts:
    """All a planner may know of a chat message; compare :class:`cn.inbox.plan.decisions.Facts`.

    ``machine`` is the clone that has the turn, and says what comes of it.
    """

    config: HubConfig
    peers: Mapping[Name, Peer]
    asked: Input
    now: datetime
    machine: str
    input: str = ""
    lines: tuple[str, ...] = ()
    thread: str = ""

    @property
    def source(self) -> str:
        """``telegram:<chat>``."""
        return self.asked.sender


def plan_chat_end(
    facts: ChatFacts,
    actor: Name,
    ending: Ending | None,
    body: str,
    first: Surface | Commit | None,
    said: Reply | None = None,
) -> Plan | Refusal:
    """Answer the chat, and put off or hand over what was said; ``said`` is the answer where another op ends it."""
    refused = rules.valid_actor(actor, facts.config)
    if refused:
        return refused
    words = "done" if ending is None and first is not None else ending_words(ending, actor)
    before: Effect | Refusal | None = None
    if isinstance(ending, Defer):
        before = _deferred(facts, ending, actor)
    elif isinstance(ending, Delegate):
        before = _delegated(facts, actor, ending.to)
    if isinstance(before, Refusal):
        return before
    effects: list[Effect] = [before] if before else []
    if said is not None:
        effects.append(_row(facts, words, *_executed(ending, before)))
        words = ending_words(said, actor)
    text = payload(said or ending, body)
    say = Say(facts.asked.id, facts.machine, facts.asked.sender, text, facts.now, words)
    return Plan(facts.source, (*effects, Put(say.path, format_say(say)), _row(facts, words, "queued", "queued")))


def _row(facts: ChatFacts, words: str, executed: str, outcome: str) -> Log:
    return Log(Row(facts.now, facts.source, words, executed, outcome=outcome, input=facts.input))


def _executed(ending: Ending | None, before: Effect | None) -> tuple[str, str]:
    """What the log says of an end that is not the answer, and its outcome."""
    match ending:
        case Defer():
            return "✓ deferred", DEFERRED
        case Delegate():
            return ("queued", "queued") if isinstance(before, Post) else ("✓ assigned", ASSIGNED)
        case Delete():
            return "✓ discarded", "discarded"
        case _:
            return "✓ closed", "failed"


def chat_text_of(effects: Iterable[Effect]) -> str:
    """What these effects say in a chat; empty: nothing."""
    texts = (e.text for e in effects if isinstance(e, Put) and e.path.endswith(SAY))
    return next((parse_say(text.encode()).text for text in texts), "")


def _title(facts: ChatFacts) -> str:
    return one_line(said_in(facts.asked.content), 80) or "message"


def _deferred(facts: ChatFacts, op: Defer, actor: Name) -> Put | Refusal:
    """It becomes a thread of our own, which comes back when its time has come."""
    at = rules.read_return_time(op.until, facts.now, facts.now)
    if isinstance(at, Refusal):
        return at
    return _kept(facts, actor, DEFERRED, {"Until": format_second(at), "Reason": op.reason})


def _kept(facts: ChatFacts, actor: Name, state: str, fields: dict[str, str]) -> Put:
    path = adhoc_path(f"{_title(facts)} {facts.asked.id[-6:]}", facts.now)
    own = new_own(path, _title(facts), facts.now, actor, facts.asked.content, Source=facts.source)
    for name, value in {"State": state, **fields}.items():
        own = own.with_field(name, value)
    return Put(path, format_own(own))


def _delegated(facts: ChatFacts, actor: Name, to: str) -> Effect | Refusal:
    name = rules.read_addressee(to, facts.config, facts.peers)
    if isinstance(name, Refusal):
        return name
    if facts.config.is_actor(name):
        return _kept(facts, actor, ASSIGNED, {"Actor": name})
    body = f"{facts.config.name} hands this over; decided by {actor}.\n\n{facts.asked.content}"
    mail = Message(MESSAGE, facts.config.name, name, f"Fwd: {_title(facts)}", facts.now, body)
    return Post(mail, f"fwd-{slug(_title(facts))}", "", facts.source, f"delegate:{name}")
