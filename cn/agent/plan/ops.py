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
from cn.inbox.plan.decisions import Cause, Facts, open_concern, plan_comment, plan_decision, plan_end, put_off
from cn.protocol import ops, rules
from cn.protocol import thread_file as triage
from cn.protocol.effects import Effect, Log, Plan, Post, Put
from cn.protocol.layout import CONCERN, MESSAGE
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.ops import Ack, Commit, Defer, Delegate, Delete, Done, Ending, Fail, Noop, Op, Reply, Send, Surface
from cn.protocol.own_thread import concern_path
from cn.protocol.peers_file import Peer
from cn.protocol.thread_file import set_record, set_triage
from cn.threads.plan.decisions import OwnFacts, plan_own_end
from cn.values import names
from cn.values.errors import Refusal
from cn.values.names import HubPath, Name, NameRefused, Oid
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
    # The surface or commit that ends the item where no op does.
    ends = any(isinstance(op, Ending) for op in order.ops)
    first = None if ends else next((op for op in order.ops if isinstance(op, Surface | Commit)), None)
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


def find_foreign_ops(given: Sequence[Op], names: frozenset[str]) -> list[Refusal]:
    """The ops that speak of another item than the one of these names: nobody talks an agent into acting on another."""
    it = f"it is {min(names, default='')}"
    return [
        _bad(f"{ops.format_op(op)[0]} names {one_line(op.id, 60)!r}, which is not the input", it)
        for op in given
        if not isinstance(op, Send | Surface) and op.id not in names
    ]


def find_ending(given: Sequence[Op]) -> Ending | Refusal | None:
    """The one op that ends the item; None when no op says so. Acknowledging adds nothing to another."""
    strong = [op for op in given if isinstance(op, _STRONG)]
    if strong:
        first = strong[0]
        if isinstance(first, Reply) and all(isinstance(op, Reply) for op in strong):
            messages = dict.fromkeys(op.message for op in strong if isinstance(op, Reply) and op.message)
            return Reply(first.id, "\n\n".join(messages))
        asked = {ops.format_op(op)[1].partition("|")[2] for op in strong}  # by whichever name of the item
        if any(type(op) is not type(first) for op in strong) or len(asked) > 1:
            said = ", ".join(dict.fromkeys(ops.format_op(op)[0] for op in strong))
            return _bad(f"it decides more than once: {said}", "give one of them")
        return first
    done = next((op for op in given if isinstance(op, Done)), None)
    return done or next((op for op in given if isinstance(op, Ack | Noop)), None)


# What stands beside the end.


def _beside(
    facts: AnyFacts, order: Order, op: Beside, index: int, *, quiet: bool
) -> tuple[tuple[Effect, ...], str] | Refusal:
    """What it does, and the line of the thread. ``quiet``: the row that ends the item says it already."""
    match op:
        case Send(to, message, body):
            peer = facts.peers.get(Name(to))
            if peer is None or to == facts.config.name:
                wrong = f"{to} is this hub" if to == facts.config.name else f"{one_line(to, 60)!r} is no peer"
                return Refusal(rules.KNOWN_PEER, f"send: {wrong}", f"peers: {', '.join(facts.peers) or 'none yet'}")
            subject, text = one_line(message), body or order.body or message
            refused = rules.check_length(text, "the message")
            if refused:
                return refused
            mail = Message(MESSAGE, facts.config.name, peer.name, subject, facts.now, text)
            return (Post(mail, slug(subject), source=facts.source),), f"queued a message to {peer.name}"
        case Surface(description):
            path = concern_path(description, facts.now, f"{facts.source} {order.input} {index}")
            put = open_concern(path, description, facts.now, order.actor, facts.source, facts.thread, order.body)
            # For whoever of the community takes it up.
            community = [peer for peer in facts.peers.values() if peer.community]
            posts = [_concern(facts, peer, description, order.body) for peer in community]
            row = () if quiet else (_row(facts, order, f"surface:{description}", "✓ opened", "opened"),)
            return (put, *row, *posts), f"✓ opened: {path}"
        case Commit(_, artifact):
            name, oid = artifact_name(artifact), order.artifacts.get(artifact)
            if isinstance(name, Refusal):
                return name
            if oid is None:
                return _bad(f"commit: {one_line(artifact, 80)} is not in main", _ARTIFACT)
            words = f"commit:{one_line(artifact)}"
            row = () if quiet else (_row(facts, order, words, "✓ recorded", "recorded", oid),)
            return row, f"✓ recorded {one_line(artifact)} as {oid}"
        case _:
            assert_never(op)


def _row(facts: AnyFacts, order: Order, words: str, executed: str, outcome: str, commit: str = "") -> Log:
    branch, head = (facts.branch, facts.item.head) if isinstance(facts, Facts) else ("", "")
    return Log(Row(facts.now, facts.source, words, executed, facts.thread, branch, head, outcome, commit, order.input))


def _concern(facts: AnyFacts, peer: Peer, description: str, body: str) -> Post:
    subject = one_line(description)
    mail = Message(CONCERN, facts.config.name, peer.name, subject, facts.now, body or description)
    return Post(mail, f"concern-{slug(subject, 40)}", source=facts.source)


def is_object_id(text: str) -> bool:
    """Is it a full object id, and so no path?"""
    return _OID.fullmatch(text) is not None


def artifact_name(text: str) -> HubPath | Oid | Refusal:
    """A commit op's artifact as a path of main or an object id; nothing protected, nothing outside."""
    if is_object_id(text):
        return Oid(text)
    try:
        path = names.parse_hub_path(text)
    except NameRefused as refused:
        return Refusal(rules.PROTECTED_PATHS, f"commit: {refused.text}", _ARTIFACT)
    if names.is_protected(path) or names.is_machine_local(path):
        what = "is protected" if names.is_protected(path) else "belongs to this machine"
        return Refusal(rules.PROTECTED_PATHS, f"commit: {one_line(text, 80)} {what}", "an op cannot name it")
    return path


# What ends it.


def _end(facts: AnyFacts, order: Order, ending: Ending | None, first: Surface | Commit | None) -> Plan | Refusal:
    if isinstance(ending, Reply) and not (order.body or ending.message):
        return _bad("the reply has no text", "write it below the frontmatter, or after ID|")
    if isinstance(facts, OwnFacts):
        return plan_own_end(facts, order.actor, ending, order.body, first)
    if isinstance(facts, ChatFacts):
        return plan_chat_end(facts, order.actor, ending, order.body, first)
    if isinstance(ending, Reply) and facts.is_proposal and not any(isinstance(op, Done) for op in order.ops):
        return _comment(facts, order, order.body or ending.message, one_line(ending.message))
    decision = _decision(facts, order, ending)
    if isinstance(decision, Refusal):
        return decision
    if decision is not None:
        until = ending.until if isinstance(ending, Defer) else ""
        body = order.body or ending.message if isinstance(ending, Reply) else ""
        decided = triage.Triage(decision, order.actor, facts.now, body, until)
        subject = one_line(ending.message) if isinstance(ending, Reply) else ""
        return plan_decision(replace(facts, text=set_triage(facts.text, decided), subject=subject), decided)
    words, status, executed, reason = _closing(order, ending, first)
    text = set_record(facts.text, words, order.actor, facts.now)
    refused = rules.valid_actor(order.actor, facts.config)
    cause = Cause(order.actor, facts.now, words)
    return refused or plan_end(replace(facts, text=text), cause, status, executed, reason)


def _comment(facts: Facts, order: Order, text: str, subject: str) -> Plan | Refusal:
    """An answer to a proposal is no end of it: it is said, and the thread comes back the next day."""
    comment = plan_comment(replace(facts, subject=subject), order.actor, text)
    if isinstance(comment, Refusal):
        return comment
    said = next(effect.text for effect in comment.effects if isinstance(effect, Put))
    deferred = triage.Triage(triage.Defer(f"answered by {order.actor}"), order.actor, facts.now)
    waits = put_off(replace(facts, text=set_triage(said, deferred)), deferred, f"answered by {order.actor}")
    if isinstance(waits, Refusal):
        return waits
    return Plan(comment.cause, (*(one for one in comment.effects if not isinstance(one, Put)), *waits.effects))


def _decision(facts: Facts, order: Order, ending: Ending | None) -> triage.Decision | Refusal | None:
    """The one of the six decisions that an op means; None for those that only an output has."""
    unsaid = f"decided by {order.actor}"
    match ending:
        case Delete(_, reason):
            return triage.Delete(reason or unsaid)
        case Defer(_, _, reason):
            return triage.Defer(reason or unsaid)
        case Delegate(_, to):
            try:
                return triage.Delegate(names.parse_name(to, "peer"))
            except NameRefused as refused:
                return Refusal(rules.KNOWN_PEER, f"delegate: {refused.text}", refused.hint)
        case Reply():
            return triage.Reply(names.reply_topic(facts.item.topic))
        case _:
            return None


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
