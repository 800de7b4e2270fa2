"""Make a plan of the agent's output: its ops go through the planners of decisions.

One item in, one decision out. Of the ops of an output at most one ends the item; send,
surface and commit stand beside it, and a reply is said before another op ends it. All of it is
planned, or nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple, assert_never

from cn.agent.plan.chat import ChatFacts, plan_chat_end
from cn.agent.plan.output import Output
from cn.inbox.plan.decisions import (
    Cause,
    Facts,
    count_hops,
    open_concern,
    plan_comment,
    plan_decision,
    plan_end,
    put_off,
)
from cn.protocol import ops, rules
from cn.protocol import thread_file as triage
from cn.protocol.effects import Effect, Log, Plan, Post, Put
from cn.protocol.layout import ACKED, CONCERN, MESSAGE
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.ops import Ack, Commit, Defer, Delegate, Delete, Done, Ending, Fail, Noop, Op, Reply, Send, Surface
from cn.protocol.own_thread import concern_path
from cn.protocol.peers_file import Peer
from cn.protocol.thread_file import set_record, set_triage
from cn.threads.plan.decisions import OwnFacts, plan_own_end
from cn.values import names
from cn.values.errors import Refusal
from cn.values.names import Name, NameRefused, Oid
from cn.values.text import one_line, slug
from cn.values.timestamps import format_stamp

AnyFacts = Facts | OwnFacts | ChatFacts
Beside = Send | Surface | Commit
_STRONG = (Fail, Delegate, Defer, Delete)
_OID = re.compile(r"[0-9a-f]{4,64}")
"""An object id, or the beginning of one that git takes (git-rev-parse, "Specifying Revisions")."""
MOST_OPS = 50
"""Ops of one output: what a model says in a loop must not fill a peer's inbox."""
_ARTIFACT = "name a file of main, or an object by its id"


@dataclass(frozen=True)
class Order:
    """What is asked of the planners: ops about one item, and who gives them.

    ``names`` is what an op may call the item. ``input`` is the id under which the pair is
    archived, empty when a person acts. ``artifacts`` are the object ids of what commit ops
    name, as far as they are there. ``at`` is when they were given, if that was before now.
    ``unknown`` are keys that are no ops.
    """

    actor: Name
    names: frozenset[str]
    ops: tuple[Op, ...]
    body: str = ""
    input: str = ""
    artifacts: Mapping[str, Oid] = field(default_factory=dict)
    at: datetime | None = None
    unknown: tuple[str, ...] = ()


def check_output(output: Output, id: str) -> list[Refusal]:
    """What is wrong with an output before anything of it is looked at."""
    found = [Refusal(rules.VALID_OUTPUT, error) for error in output.errors]
    if len(output.ops) > MOST_OPS:
        found.append(bad_output(f"it has {len(output.ops)} ops, at most {MOST_OPS} are taken", "ask for less at once"))
    if output.is_prose and id not in output.body:
        return found
    if not output.id:
        found.append(bad_output("it has no id", f"start the frontmatter with 'id: {id}'"))
    elif output.id != id:
        found.append(bad_output(f"its id is {one_line(output.id, 60)!r}", f"the input's is {id}"))
    return found


def bad_output(reason: str, remedy: str = "") -> Refusal:
    """An output that does not hold."""
    return Refusal(rules.VALID_OUTPUT, reason, remedy)


def plan_order(facts: AnyFacts, order: Order) -> Plan | tuple[Refusal, ...]:
    """All that the ops do, in the order listed, or every reason why they do nothing."""
    order = replace(order, ops=tuple(on_one_line(op) for op in order.ops))
    refused = find_foreign_ops(order.ops, order.names)
    found = find_endings(order.ops)
    if isinstance(found, Refusal):
        refused.append(found)
    endings = Endings() if isinstance(found, Refusal) else found
    # The surface or commit that ends the item where no op does.
    ends = any(isinstance(op, Ending) for op in order.ops)
    first = None if ends else next((op for op in order.ops if isinstance(op, Surface | Commit)), None)
    placed: list[tuple[int, tuple[Effect, ...]]] = []
    lines = [f"- {format_stamp(facts.now)} input {order.input}"] if order.input else []
    for index, op in enumerate(order.ops):
        if isinstance(op, Beside):
            # The row that ends a peer's thread names that op itself; a thread of our own is only acknowledged.
            done = _beside(facts, order, op, index, quiet=op is first and isinstance(facts, Facts))
            if isinstance(done, Refusal):
                refused.append(done)
            else:
                placed.append((index, done[0]))
                lines.append(f"- {format_stamp(facts.now)} {done[1]}")
        elif op in endings.noted:
            words, status, executed, _ = _closing(order, op, None)
            placed.append((index, (_row(facts, order, words, executed, status),)))
    if isinstance(found, Refusal):
        return tuple(refused)
    facts = replace(facts, input=order.input, lines=tuple(lines))
    end = _end(facts, order, endings, first)
    if isinstance(end, Refusal):
        refused.append(end)
    if refused or isinstance(end, Refusal):
        return tuple(refused)
    implied = bool(end.said) and endings.said is None  # a reply that only comments: no op says how it ends
    said, at = endings.said or endings.end, len(order.ops) if implied else _place(order.ops, endings.end or first)
    placed += [(_place(order.ops, said), end.said), (at, end.effects)]
    return Plan(end.cause, tuple(effect for _, effects in sorted(placed, key=itemgetter(0)) for effect in effects))


def _place(given: Sequence[Op], op: Op | None) -> int:
    """Where it stands among the ops; what none of them says comes last."""
    kind = type(op)
    return next((index for index, one in enumerate(given) if type(one) is kind), len(given))


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
        bad_output(f"{ops.format_op(op)[0]} names {one_line(op.id, 60)!r}, which is not the input", it)
        for op in given
        if not isinstance(op, Send | Surface) and op.id not in names
    ]


@dataclass(frozen=True)
class Endings:
    """What the ops make of the item: ``end`` ends it (None: no op says so), ``said`` is sent before.

    ``noted`` are acknowledgements, which add nothing to an op that says more.
    """

    end: Ending | None = None
    said: Reply | None = None
    noted: tuple[Ending, ...] = ()


def find_endings(given: Sequence[Op]) -> Endings | Refusal:
    """What ends the item, and what is said before; refused where two ops contradict each other."""
    strong = [op for op in given if isinstance(op, _STRONG)]
    weak = [op for op in given if isinstance(op, Done | Ack | Noop)]
    end: Ending | None = strong[0] if strong else None
    # By whichever name of the item.
    others: list[Ending] = [op for op in strong if end and (type(op), astuple(op)[1:]) != (type(end), astuple(end)[1:])]
    others += [op for op in weak if isinstance(op, Done) and isinstance(end, Defer | Fail)]
    if end is not None and others:
        said = " and ".join(": ".join(ops.format_op(op)) for op in (end, others[0]))
        return bad_output(f"{said} contradict each other", "give one of them")
    reply = _join_replies([op for op in given if isinstance(op, Reply)])
    if end is None and reply is None and weak:
        end = next((op for op in weak if isinstance(op, Done)), weak[0])
    noted = tuple(op for op in weak if op != end)
    return Endings(end, reply, noted) if end else Endings(reply, None, noted)


def _join_replies(replies: Sequence[Reply]) -> Reply | None:
    """Several replies are one, with the texts of all."""
    messages = dict.fromkeys(op.message for op in replies if op.message)
    return Reply(replies[0].id, "\n\n".join(messages)) if replies else None


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
            mail = Message(MESSAGE, facts.config.name, peer.name, subject, facts.now, text, hops=_hops(facts, order))
            return (Post(mail, slug(subject), source=facts.source),), f"queued a message to {peer.name}"
        case Surface(description):
            path = concern_path(description, facts.now, f"{facts.source} {order.input} {index}")
            put = open_concern(path, description, facts.now, order.actor, facts.source, facts.thread, order.body)
            # For whoever of the community takes it up.
            community = [peer for peer in facts.peers.values() if peer.community]
            posts = [_concern(facts, order, peer, description) for peer in community]
            row = () if quiet else (_row(facts, order, f"surface:{description}", "✓ opened", "opened"),)
            return (put, *row, *posts), f"✓ opened: {path}"
        case Commit(_, artifact):
            oid = order.artifacts.get(artifact)
            if refused := check_artifact(artifact):
                return refused
            if oid is None:
                several = " or is the beginning of several ids" if is_object_id(artifact) else ""
                return bad_output(f"commit: {one_line(artifact, 80)} is not in main{several}", _ARTIFACT)
            words = f"commit:{one_line(artifact)}"
            row = () if quiet else (_row(facts, order, words, "✓ recorded", "recorded", oid),)
            return row, f"✓ recorded {one_line(artifact)} as {oid}"
        case _:
            assert_never(op)


def _row(facts: AnyFacts, order: Order, words: str, executed: str, outcome: str, commit: str = "") -> Log:
    branch, head = (facts.branch, facts.item.head) if isinstance(facts, Facts) else ("", "")
    return Log(Row(facts.now, facts.source, words, executed, facts.thread, branch, head, outcome, commit, order.input))


def _hops(facts: AnyFacts, order: Order) -> int:
    """A message beside the answer to a peer belongs to the same chain."""
    return count_hops(facts, order.actor) if isinstance(facts, Facts) else 0


def _concern(facts: AnyFacts, order: Order, peer: Peer, description: str) -> Post:
    subject, text = one_line(description), order.body or description
    mail = Message(CONCERN, facts.config.name, peer.name, subject, facts.now, text, hops=_hops(facts, order))
    return Post(mail, f"concern-{slug(subject, 40)}", source=facts.source)


def is_object_id(text: str) -> bool:
    """May it be the id of an object, or the beginning of one?"""
    return _OID.fullmatch(text) is not None


def check_artifact(text: str) -> Refusal | None:
    """Refuse what a commit op may not name: what is protected, of this machine, or outside of the hub."""
    try:
        path = names.parse_hub_path(text)
    except NameRefused as refused:
        return Refusal(rules.PROTECTED_PATHS, f"commit: {refused.text}", _ARTIFACT)
    if names.is_protected(path) or names.is_machine_local(path):
        what = "is protected" if names.is_protected(path) else "belongs to this machine"
        return Refusal(rules.PROTECTED_PATHS, f"commit: {one_line(text, 80)} {what}", "an op cannot name it")
    return None


# What ends it.


class Ended(NamedTuple):
    """What is said before the item ends, and how it ends."""

    cause: str
    said: tuple[Effect, ...]
    effects: tuple[Effect, ...]


def _end(facts: AnyFacts, order: Order, endings: Endings, first: Surface | Commit | None) -> Ended | Refusal:
    if refused := _check_opless(facts, order):
        return refused
    reply = endings.said or (endings.end if isinstance(endings.end, Reply) else None)
    if reply is not None and not (order.body or reply.message):
        return bad_output("the reply has no text", "write it below the frontmatter, or after ID|")
    if isinstance(facts, OwnFacts):
        # A text that no op stands above is written like a reply.
        written = Reply("") if order.body and not order.ops else endings.end
        return _ended(plan_own_end(facts, order.actor, written, order.body, first, endings.said))
    if isinstance(facts, ChatFacts):
        return _ended(plan_chat_end(facts, order.actor, endings.end, order.body, first, endings.said))
    # An agent's answer to a proposal is no end of it: the thread comes back the next day.
    final = any(isinstance(op, Done) for op in endings.noted)
    waits = facts.is_proposal and endings.end is reply and not final
    if reply is None or not (endings.said or waits):
        return _ended(_end_thread(facts, order, endings.end, first, order.body))
    comment = plan_comment(
        replace(facts, subject=one_line(reply.message)), order.actor, order.body or reply.message, facts.now
    )
    if isinstance(comment, Refusal):
        return comment
    text = next(effect.text for effect in comment.effects if isinstance(effect, Put))
    said = tuple(effect for effect in comment.effects if not isinstance(effect, Put))
    facts = replace(facts, text=text)
    end = _wait(facts, order) if waits else _end_thread(facts, order, endings.end, first, "")
    return end if isinstance(end, Refusal) else Ended(comment.cause, said, end.effects)


def _check_opless(facts: AnyFacts, order: Order) -> Refusal | None:
    """Refuse an answer to a peer without an op where one was meant, or where its words would end a proposal unread."""
    if order.ops or not isinstance(facts, Facts):
        return None
    id = order.input
    keep = f"'reply: {id}|TEXT' answers{' and keeps the proposal' if facts.is_proposal else ''}"
    remedy = f"{keep}, 'ack: {id}' ends it without a word"
    if order.unknown:
        listed = ", ".join(ops.USAGE)
        return bad_output(f"it has no op, and no op is called {', '.join(order.unknown)} (ops: {listed})", remedy)
    if facts.is_proposal and order.body:
        return bad_output("it has no op, so that the proposal would end and nobody read the text", remedy)
    return None


def _ended(plan: Plan | Refusal) -> Ended | Refusal:
    return plan if isinstance(plan, Refusal) else Ended(plan.cause, (), plan.effects)


def _wait(facts: Facts, order: Order) -> Plan | Refusal:
    """What was answered comes back the next day; the answer tells its creator."""
    reason = f"answered by {order.actor}"
    deferred = triage.Triage(triage.Defer(reason), order.actor, facts.now, head=facts.about_head)
    return put_off(replace(facts, text=set_triage(facts.text, deferred)), deferred, reason)


def _end_thread(
    facts: Facts, order: Order, ending: Ending | None, first: Surface | Commit | None, body: str
) -> Plan | Refusal:
    """End a peer's thread by a decision, or as only an output can."""
    decision = _decision(facts, order, ending)
    if isinstance(decision, Refusal):
        return decision
    if decision is not None:
        until = ending.until if isinstance(ending, Defer) else ""
        text = body or ending.message if isinstance(ending, Reply) else ""
        decided = triage.Triage(decision, order.actor, order.at or facts.now, text, until, head=facts.about_head)
        subject = one_line(ending.message) if isinstance(ending, Reply) else ""
        return plan_decision(replace(facts, text=set_triage(facts.text, decided), subject=subject), decided)
    words, status, executed, reason = _closing(order, ending, first)
    record = set_record(facts.text, words, order.actor, facts.now, facts.about_head)
    creator = facts.peers.get(facts.peer)
    refused = rules.valid_actor(order.actor, facts.config) or (
        rules.signed_by_its_key(facts.signature, creator, facts.source) if creator else None
    )
    cause = Cause(order.actor, facts.now, words)
    return refused or plan_end(replace(facts, text=record), cause, status, executed, reason)


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
            return f"ack:{reason}", ACKED, "✓ acked", reason
        case Noop(_, reason):
            return f"noop:{reason}", ACKED, "✓ acked", reason
        case Surface(description):
            return f"surface:{description}", "opened", "✓ opened", description
        case Commit(_, artifact):
            oid = order.artifacts.get(artifact, "")
            return f"commit:{artifact}", "done", f"✓ recorded {oid}", f"recorded {artifact} ({oid})"
        case None if not order.ops:
            return "ack", ACKED, "✓ acked (no op)", ""
        case _:
            return "ack", ACKED, "✓ acked", ""
