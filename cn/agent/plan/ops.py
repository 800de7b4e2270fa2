"""Make a plan of the agent's output: its ops go through the planners of decisions.

One item in, one decision out. Of the ops of an output at most one ends the item; send,
surface and commit stand beside it. All of it is planned, or nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, assert_never

from cn.agent.plan.chat import ChatFacts, plan_chat_end
from cn.agent.plan.output import Output
from cn.inbox.plan.decisions import Cause, Facts, open_concern, plan_decision, plan_end
from cn.protocol import rules
from cn.protocol.effects import Effect, Log, Plan, Post
from cn.protocol.hub_config import HubConfig
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.message_kinds import CONCERN, MESSAGE
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
    Op,
    Reply,
    Send,
    Surface,
    format_op,
)
from cn.protocol.own_thread import concern_path
from cn.protocol.peers_file import Peer
from cn.protocol.thread_file import set_record, set_triage
from cn.protocol.triage import Decision, Triage
from cn.protocol.triage import Defer as DeferDecision
from cn.protocol.triage import Delegate as DelegateDecision
from cn.protocol.triage import Delete as DeleteDecision
from cn.protocol.triage import Reply as ReplyDecision
from cn.threads.plan.decisions import OwnFacts, plan_own_end
from cn.values.errors import Refusal
from cn.values.names import (
    HubPath,
    Name,
    NameRefused,
    Oid,
    Topic,
    is_machine_local,
    is_protected,
    parse_hub_path,
    parse_name,
    parse_oid,
    parse_topic,
)
from cn.values.text import one_line, slug
from cn.values.timestamps import format_stamp

AnyFacts = Facts | OwnFacts | ChatFacts
Beside = Send | Surface | Commit
_STRONG = (Fail, Reply, Delegate, Defer, Delete)
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
MOST_OPS = 50
"""Ops of one output: what a model says in a loop must not fill a peer's inbox."""
_ARTIFACT = "name a file of main, or the full id of an object"


@dataclass(frozen=True)
class Order:
    """What is asked of the planners: ops about one item, and who gives them.

    ``names`` is what an op may call the item. ``input`` is the id under which the pair is
    archived, empty when a person acts. ``artifacts`` are the object ids of what commit ops
    name, as far as they are there.
    """

    actor: Name
    names: frozenset[str]
    ops: tuple[Op, ...]
    body: str = ""
    input: str = ""
    artifacts: Mapping[str, Oid] = field(default_factory=dict)


def check_output(output: Output, id: str) -> list[Refusal]:
    """What is wrong with an output before anything of it is looked at."""
    found = [Refusal(rules.VALID_OUTPUT, error) for error in output.errors]
    if len(output.ops) > MOST_OPS:
        found.append(_bad(f"it has {len(output.ops)} ops, at most {MOST_OPS} are taken", "ask for less at once"))
    if not output.id:
        found.append(_bad("it has no id", f"start the frontmatter with 'id: {id}'"))
    elif output.id != id:
        found.append(_bad(f"its id is {one_line(output.id, 60)!r}", f"the input's is {id}"))
    return found


def _bad(reason: str, remedy: str = "") -> Refusal:
    return Refusal(rules.VALID_OUTPUT, reason, remedy)


def plan_order(facts: AnyFacts, order: Order) -> Plan | tuple[Refusal, ...]:
    """All that the ops do, or every reason why they do nothing."""
    order = replace(order, ops=tuple(on_one_line(op) for op in order.ops))
    refused = find_foreign_ops(order.ops, order.names)
    ending = find_ending(order.ops)
    if isinstance(ending, Refusal):
        refused.append(ending)
    first = _stands_for_the_end(order.ops)
    effects: list[Effect] = []
    lines = [f"- {format_stamp(facts.now)} input {order.input}"] if order.input else []
    for index, op in enumerate(order.ops):
        if not isinstance(op, Beside):
            continue
        # The row that ends a peer's thread names that op itself; a thread of our own is only acknowledged.
        quiet = op is first and isinstance(facts, Facts)
        done = _beside(facts, order, op, index, quiet=quiet)
        if isinstance(done, Refusal):
            refused.append(done)
        else:
            effects += done[0]
            lines.append(f"- {format_stamp(facts.now)} {done[1]}")
    facts = replace(facts, input=order.input, lines=tuple(lines))
    if isinstance(ending, Refusal):
        return tuple(refused)
    end = _end(facts, order, ending, first)
    if isinstance(end, Refusal):
        refused.append(end)
    if refused or isinstance(end, Refusal):
        return tuple(refused)
    return Plan(end.cause, (*effects, *end.effects))


_TEXTS = ("message", "body")
"""What of an op may have several lines; all else stands on one line of threads, logs and records."""


def on_one_line(op: Op) -> Op:
    """The op with its reasons, names and descriptions each on one visible line."""
    lines = {f.name: one_line(str(getattr(op, f.name)), 2000) for f in fields(op) if f.name not in _TEXTS}
    whole: Any = op
    flattened: Op = replace(whole, **lines)
    return flattened


def _stranger(op: Op, names: frozenset[str]) -> Refusal | None:
    """An op may speak of the item at hand only: nobody talks an agent into acting on another."""
    if isinstance(op, Send | Surface) or op.id in names:
        return None
    key = format_op(op)[0]
    return _bad(f"{key} names {one_line(op.id, 60)!r}, which is not the input", f"it is {min(names, default='')}")


def find_foreign_ops(ops: Sequence[Op], names: frozenset[str]) -> list[Refusal]:
    """The ops that speak of another item than the one of these names."""
    return [refused for op in ops if (refused := _stranger(op, names))]


def find_ending(ops: Sequence[Op]) -> Ending | Refusal | None:
    """The one op that ends the item; None when no op says so. Acknowledging adds nothing to another."""
    strong = [op for op in ops if isinstance(op, _STRONG)]
    if strong:
        first = strong[0]
        if isinstance(first, Reply) and all(isinstance(op, Reply) for op in strong):
            messages = dict.fromkeys(op.message for op in strong if isinstance(op, Reply) and op.message)
            return Reply(first.id, "\n\n".join(messages))
        if any(type(op) is not type(first) for op in strong) or _payloads(strong) > 1:
            said = ", ".join(dict.fromkeys(format_op(op)[0] for op in strong))
            return _bad(f"it decides more than once: {said}", "give one of them")
        return first
    done = next((op for op in ops if isinstance(op, Done)), None)
    return done or next((op for op in ops if isinstance(op, Ack | Noop)), None)


def _payloads(ops: Sequence[Op]) -> int:
    """How many different things these ops of one kind ask for, by whichever name of the item."""
    return len({format_op(op)[1].partition("|")[2] for op in ops})


def _stands_for_the_end(ops: Sequence[Op]) -> Surface | Commit | None:
    """The surface or commit that ends the item where no op does."""
    if any(isinstance(op, Ending) for op in ops):
        return None
    return next((op for op in ops if isinstance(op, Surface | Commit)), None)


# What stands beside the end.


def _beside(
    facts: AnyFacts, order: Order, op: Beside, index: int, *, quiet: bool
) -> tuple[tuple[Effect, ...], str] | Refusal:
    """What it does, and the line of the thread. ``quiet``: the row that ends the item says it already."""
    match op:
        case Send(to, message, body):
            peer = _addressee(facts.config, facts.peers, to)
            if isinstance(peer, Refusal):
                return peer
            subject, text = one_line(message), body or order.body or message
            refused = rules.check_length(text, "the message")
            if refused:
                return refused
            mail = Message(MESSAGE, facts.config.name, peer.name, subject, facts.now, text)
            return (Post(mail, slug(subject), source=facts.source),), f"queued a message to {peer.name}"
        case Surface(description):
            path = concern_path(description, facts.now, f"{facts.source} {order.input} {index}")
            put = open_concern(path, description, facts.now, order.actor, facts.source, _thread(facts), order.body)
            posts = tuple(_concerns(facts, description, order.body))
            row = () if quiet else (_row(facts, order, f"surface:{description}", "✓ opened", "opened"),)
            return (put, *row, *posts), f"✓ opened: {path}"
        case Commit(_, artifact):
            oid = _artifact(order.artifacts, artifact)
            if isinstance(oid, Refusal):
                return oid
            words = f"commit:{one_line(artifact)}"
            row = () if quiet else (_row(facts, order, words, "✓ recorded", "recorded", oid),)
            return row, f"✓ recorded {one_line(artifact)} as {oid}"
        case _:
            assert_never(op)


def _thread(facts: AnyFacts) -> str:
    match facts:
        case Facts():
            return facts.thread
        case OwnFacts():
            return facts.own.path
        case ChatFacts():
            return ""
        case _:
            assert_never(facts)


def _row(facts: AnyFacts, order: Order, words: str, executed: str, outcome: str, commit: str = "") -> Log:
    branch, head = (facts.branch, facts.item.head) if isinstance(facts, Facts) else ("", "")
    return Log(
        Row(facts.now, facts.source, words, executed, _thread(facts), branch, head, outcome, commit, order.input)
    )


def _addressee(config: HubConfig, peers: Mapping[Name, Peer], to: str) -> Peer | Refusal:
    known = ", ".join(peers) or "none yet"
    if to == config.name:
        return Refusal(rules.KNOWN_PEER, f"send: {to} is this hub", f"peers: {known}")
    found = peers.get(Name(to))
    return found or Refusal(rules.KNOWN_PEER, f"send: {one_line(to, 60)!r} is no peer", f"peers: {known}")


def _concerns(facts: AnyFacts, description: str, body: str) -> list[Post]:
    """A surfaced concern goes to the peers of the community, for whoever takes it up."""
    subject = one_line(description)
    return [
        Post(
            Message(CONCERN, facts.config.name, peer.name, subject, facts.now, body or description),
            f"concern-{slug(subject, 40)}",
            source=facts.source,
        )
        for peer in facts.peers.values()
        if peer.community
    ]


def is_object_id(text: str) -> bool:
    """Is it a full object id, and so no path?"""
    return _OID.fullmatch(text) is not None


def artifact_name(text: str) -> HubPath | Oid | Refusal:
    """A commit op's artifact as a path of main or an object id; nothing protected, nothing outside."""
    if is_object_id(text):
        return parse_oid(text)
    try:
        path = parse_hub_path(text)
    except NameRefused as refused:
        return Refusal(rules.PROTECTED_PATHS, f"commit: {refused.text}", _ARTIFACT)
    if is_protected(path) or is_machine_local(path):
        what = "is protected" if is_protected(path) else "belongs to this machine"
        return Refusal(rules.PROTECTED_PATHS, f"commit: {one_line(text, 80)} {what}", "an op cannot name it")
    return path


def _artifact(found: Mapping[str, Oid], artifact: str) -> Oid | Refusal:
    name = artifact_name(artifact)
    if isinstance(name, Refusal):
        return name
    if artifact not in found:
        return _bad(f"commit: {one_line(artifact, 80)} is not in main", _ARTIFACT)
    return found[artifact]


# What ends it.


def _end(facts: AnyFacts, order: Order, ending: Ending | None, first: Surface | Commit | None) -> Plan | Refusal:
    if isinstance(facts, OwnFacts):
        return plan_own_end(facts, order.actor, ending, order.body, first)
    if isinstance(facts, ChatFacts):
        return plan_chat_end(facts, order.actor, ending, order.body, first)
    decision = _decision(facts, order, ending)
    if isinstance(decision, Refusal):
        return decision
    if decision is not None:
        until = ending.until if isinstance(ending, Defer) else ""
        body = order.body or ending.message if isinstance(ending, Reply) else ""
        triage = Triage(decision, order.actor, facts.now, body, until)
        subject = one_line(ending.message) if isinstance(ending, Reply) else ""
        return plan_decision(replace(facts, text=set_triage(facts.text, triage), subject=subject), triage)
    words, status, executed, reason = _closing(order, ending, first)
    text = set_record(facts.text, words, order.actor, facts.now)
    refused = rules.valid_actor(order.actor, facts.config)
    cause = Cause(order.actor, facts.now, words)
    return refused or plan_end(replace(facts, text=text), cause, status, executed, reason)


def _decision(facts: Facts, order: Order, ending: Ending | None) -> Decision | Refusal | None:
    """The one of the six decisions that an op means; None for those that only an output has."""
    unsaid = f"decided by {order.actor}"
    match ending:
        case Delete(_, reason):
            return DeleteDecision(reason or unsaid)
        case Defer(_, _, reason):
            return DeferDecision(reason or unsaid)
        case Delegate(_, to):
            try:
                return DelegateDecision(parse_name(to, "peer"))
            except NameRefused as refused:
                return Refusal(rules.KNOWN_PEER, f"delegate: {refused.text}", refused.hint)
        case Reply(_, message):
            if not (order.body or message):
                return _bad("the reply has no text", "write it below the frontmatter, or after ID|")
            return ReplyDecision(reply_topic(facts.item.topic))
        case _:
            return None


def reply_topic(topic: str) -> Topic:
    """The topic of a reply: ``re-<topic>``."""
    try:
        return parse_topic(f"re-{topic}")
    except NameRefused:
        return parse_topic(f"re-{slug(topic)}")


def _closing(order: Order, ending: Ending | None, first: Surface | Commit | None) -> tuple[str, str, str, str]:
    """Words, status, what the log says is executed, and the reason for the creator."""
    match ending or first:
        case Done():
            return "done", "done", "✓ done", ""
        case Fail(_, reason):
            return f"fail:{reason}", "failed", "✓ closed", reason
        case Ack(_, reason) if reason:
            return f"ack:{reason}", "acked", "✓ acked", reason
        case Noop(_, reason):
            return f"noop:{reason}", "acked", "✓ acked", reason
        case Surface(description):
            return f"surface:{description}", "opened", "✓ opened", description
        case Commit(_, artifact):
            oid = order.artifacts.get(artifact, "")
            return f"commit:{artifact}", "done", f"✓ recorded {oid}", f"recorded {artifact} ({oid})"
        case None if not order.ops:
            return "ack", "acked", "✓ acked (no op)", ""
        case _:
            return "ack", "acked", "✓ acked", ""
