"""What each op does to a thread of our own: an adhoc thread, a reflection, a concern.

The same verbs as for a peer's thread. There is no creator to tell; an answer is written
into the thread itself. A concern stays open, and comes back, until it is done or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from cn.protocol import rules
from cn.protocol.effects import Drop, Effect, Log, Plan, Post, Put
from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import MESSAGE
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.ops import (
    Ack,
    Commit,
    Defer,
    Delegate,
    Delete,
    Done,
    Ending,
    Fail,
    Noop,
    Reply,
    Surface,
    format_op,
    payload,
)
from cn.protocol.outbox_entry import Say, format_say
from cn.protocol.own_thread import ASSIGNED, DEFERRED, Own, done_concern_path, format_own
from cn.protocol.peers_file import Peer
from cn.values.errors import Refusal
from cn.values.names import Name, digest
from cn.values.text import one_line, quote, slug
from cn.values.timestamps import format_second


@dataclass(frozen=True)
class OwnFacts:
    """All a planner may know of a thread of our own; compare :class:`cn.inbox.plan.decisions.Facts`.

    ``machine`` is the clone that says to a chat what comes of it. ``input`` is the id of the
    item where the agent was asked, empty where a person decides.
    """

    config: HubConfig
    peers: Mapping[Name, Peer]
    own: Own
    now: datetime
    machine: str
    input: str = ""
    lines: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """``adhoc/20260205-title``."""
        return self.own.source

    @property
    def thread(self) -> str:
        """Its path."""
        return self.own.path


def plan_own_end(
    facts: OwnFacts,
    actor: Name,
    ending: Ending | None,
    body: str,
    first: Surface | Commit | None,
    said: Reply | None = None,
) -> Plan | Refusal:
    """End, put off, or answer it; the chat whose message it keeps gets the answer too.

    ``said`` is written into it before another op ends it.
    """
    before: tuple[Effect, ...] = ()
    if said is not None:
        facts = replace(facts, own=facts.own.with_entry(facts.now, actor, body or said.message))
        row = Row(facts.now, facts.source, ending_words(said, actor), "✓ written", facts.own.path, outcome="noted")
        before = (Log(row._replace(input=facts.input)),)
    plan = _plan(facts, actor, ending, body, first)
    if isinstance(plan, Refusal):
        return plan
    return _answer_chat(facts, said or ending, body, Plan(plan.cause, (*before, *plan.effects)))


def _answer_chat(facts: OwnFacts, ending: Ending | None, body: str, plan: Plan) -> Plan:
    """One text for each time the agent was asked, but for another delay that it says nothing of."""
    chat = facts.own.chat
    silent = isinstance(ending, Defer) or not facts.input
    if not chat or (silent and not body and not isinstance(ending, Reply)):
        return plan
    words = next(e.row.decision for e in plan.effects if isinstance(e, Log))
    cause = facts.input or digest(facts.own.path, format_second(facts.now))[:16]
    say = Say(cause, facts.machine, chat, payload(ending, body), facts.now, words)
    row = Row(facts.now, chat, words, "queued", outcome="queued", input=facts.input)
    return Plan(plan.cause, (*plan.effects, Put(say.path, format_say(say)), Log(row)))


def _plan(
    facts: OwnFacts, actor: Name, ending: Ending | None, body: str, first: Surface | Commit | None
) -> Plan | Refusal:
    refused = rules.valid_actor(actor, facts.config)
    if refused:
        return refused
    own, words, end = facts.own, ending_words(ending, actor), "" if facts.own.is_concern else "closed"
    match ending:
        case Reply(_, message):
            return _closed(facts, own.with_entry(facts.now, actor, body or message), words, end, "✓ written")
        case Done():
            return _closed(facts, own, words, "done", "✓ done")
        case Fail(_, reason):
            return _closed(facts, own, words, "failed", "✓ closed", reason)
        case Delete(_, reason):
            return _closed(facts, own, words, "discarded", "✓ discarded", reason or f"decided by {actor}")
        case Defer():
            return _defer(facts, ending, actor)
        case Delegate(_, to):
            return _delegate(facts, actor, to)
        case Ack(_, reason) | Noop(_, reason):
            return _closed(facts, own, words, end, "✓ acked", reason)
        case None:
            return _closed(facts, own, words, end, "✓ acked" if first is None else "✓ done")


def ending_words(ending: Ending | None, actor: Name) -> str:
    """The words under which the log tells an end; None: nothing but acknowledged."""
    match ending:
        case Reply(_, message):
            return f"reply:{one_line(message, 120)}" if message else "reply"
        case Delegate(_, to):
            return f"delegate:{to}"
        case Defer(_, _, reason) | Delete(_, reason):
            return f"{format_op(ending)[0]}:{reason or f'decided by {actor}'}"
        case Fail(_, reason):
            return f"fail:{reason}"
        case Ack(_, reason) | Noop(_, reason) if reason:
            return f"ack:{reason}"
        case Done():
            return "done"
        case _:
            return "ack"


def _closed(
    facts: OwnFacts, own: Own, words: str, state: str, executed: str, reason: str = "", *before: Effect
) -> Plan:
    """Write it back, in its end state if there is one; a concern that has ended is filed away."""
    own = own.with_field("Input", "")
    if state:
        own = own.with_field("State", state).with_field("Until", "").with_field("Reason", reason)
    lines = "\n".join(facts.lines)
    if lines and not own.body.endswith(lines):
        own = own.with_entry(facts.now, "cn", lines)
    path = done_concern_path(own.path) if state and own.is_concern else own.path
    moved = (Drop(own.path),) if path != own.path else ()
    row = Row(facts.now, facts.source, words, executed, path, outcome=state or "noted", input=facts.input)
    return Plan(facts.source, (*before, *moved, Put(path, format_own(own)), Log(row)))


def _defer(facts: OwnFacts, op: Defer, actor: Name) -> Plan | Refusal:
    at = rules.read_return_time(op.until, facts.now, facts.now)
    if isinstance(at, Refusal):
        return at
    own = facts.own.with_field("Until", format_second(at))
    reason = op.reason or f"decided by {actor}"
    own = own.with_field("State", DEFERRED).with_field("Reason", reason).with_field("Input", "")
    return _kept(facts, own, f"defer:{reason}", DEFERRED)


def _kept(facts: OwnFacts, own: Own, words: str, state: str) -> Plan:
    """It stays where it is, in another state."""
    row = Row(facts.now, facts.source, words, f"✓ {state}", own.path, outcome=state, input=facts.input)
    return Plan(facts.source, (Put(own.path, format_own(own)), Log(row)))


def _delegate(facts: OwnFacts, actor: Name, to: str) -> Plan | Refusal:
    name = rules.read_addressee(to, facts.config, facts.peers)
    if isinstance(name, Refusal):
        return name
    if facts.config.is_actor(name):
        own = facts.own.with_field("State", ASSIGNED).with_field("Actor", name).with_field("Input", "")
        return _kept(facts, own, f"delegate:{name}", ASSIGNED)
    own = facts.own
    text = quote(f"# {own.title}\n\n{own.body}".strip())
    body = f"{facts.config.name} hands this over; decided by {actor}.\n\n{text}"
    mail = Message(MESSAGE, facts.config.name, name, f"Fwd: {own.title}", facts.now, body)
    post = Post(mail, f"fwd-{slug(own.title)}", own.path, facts.source, f"delegate:{name}")
    return _closed(facts, own, f"delegate:{name}", "delegated", "queued", "", post)
