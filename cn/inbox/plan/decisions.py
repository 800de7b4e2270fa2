"""Make a plan of a decision: the six decisions and their rules (``docs/protocol/decisions.md``).

Adding a decision touches :mod:`cn.protocol.thread_file` (type, parser, formatter), one case in
:func:`plan_decision`, and its test; the type checker names every other place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, assert_never

from cn.outbox.plan.receipts import notice
from cn.protocol import rules
from cn.protocol.effects import Advance, Drop, Effect, Keep, Log, Pin, Plan, Post, Put, Record
from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import BRANCH_LEFT, COMMENTED, MERGED_BEFORE, MESSAGE, REPLIED, done_path, inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import MOST_TEXT, About, Message
from cn.protocol.own_thread import concern_path, format_own, new_own
from cn.protocol.peers_file import Peer, signature_now
from cn.protocol.rules import MergeFacts
from cn.protocol.thread_file import (
    Custom,
    Defer,
    Delegate,
    Delete,
    Merge,
    Reply,
    Triage,
    Words,
    add_form,
    add_words,
    append_section,
    format_decision,
    mark_triage,
    peer_block,
    said_in,
    showing_of,
)
from cn.secrets.findings import quoted_here, unnamed
from cn.secrets.scanner import Text
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadName, digest, reply_subject, reply_topic, topic_of
from cn.values.shell_words import command
from cn.values.text import counted, one_line, slug
from cn.values.timestamps import format_second, format_stamp


@dataclass(frozen=True)
class Facts:
    """All a planner may know of one decided thread.

    ``text`` is the working copy that was read, ``committed`` the thread as main has it,
    ``identities`` the names and emails of the deciding actor, ``merge`` is set for do:merge.
    ``input`` is the id of what the agent was asked, where its output decides; ``subject`` the
    short line of its reply, ``lines`` tell what else that output did. ``about`` is the peer's
    subject, as far as cn may repeat it. ``by_hand``: a person decides, by a command.
    """

    config: HubConfig
    peers: Mapping[Name, Peer]
    peer: Name
    item: Item
    text: str
    now: datetime
    identities: tuple[str, ...] = ()
    merge: MergeFacts | None = None
    committed: str = ""
    input: str = ""
    subject: str = ""
    lines: tuple[str, ...] = ()
    about: str = ""
    by_hand: bool = False

    @cached_property
    def thread(self) -> ThreadName:
        """The thread's file name."""
        return ThreadName(self.item.fields["thread"])

    @cached_property
    def branch(self) -> Branch:
        """The branch as the creator named it."""
        return Branch(self.item.fields["branch"])

    @property
    def is_proposal(self) -> bool:
        """Is it a branch of changes, and no message?"""
        return self.item.fields.get("kind", "proposal") in ("", "proposal")

    @cached_property
    def signature(self) -> str:
        """What its signature is by the key that is pinned now."""
        word, peer = self.item.get("signature") or "unverified", self.peers.get(self.peer)
        return signature_now(word, peer.key) if peer is not None else word

    @cached_property
    def about_head(self) -> str:
        """What a decision names as that which it is about."""
        return showing_of(self.item).name

    @cached_property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.item.topic}"


def quoted_of(facts: Facts) -> Text:
    """What people quoted in a peer's thread: it stands behind ``>`` as what the peer wrote does."""
    quoted = quoted_here(inbox_path(facts.thread), facts.text, facts.committed)
    return unnamed([quoted], facts.item.topic)[0]


class Cause(NamedTuple):
    """Who decided, when, and the words under which it stands in logs and ledger."""

    actor: Name
    at: datetime
    words: str


def cause_of(triage: Triage) -> Cause:
    """The cause that a Triage is."""
    return Cause(triage.actor, triage.at, format_decision(triage.decision))


def check_decision(facts: Facts, triage: Triage) -> Refusal | None:
    """The rule that forbids a decision, as far as it can be said before its branch is looked at."""
    decision = triage.decision
    merging = isinstance(decision, Merge)
    refused = (rules.no_self_merge(triage.actor, facts.peer, (), ()) if merging else None) or rules.valid_actor(
        triage.actor, facts.config
    )
    if refused:
        return refused
    if not isinstance(decision, Delete | Defer):
        remedy = "add it again with 'cn peer add', or delete"
        if refused := rules.creator_known(facts.peer, facts.peers, remedy):
            return refused
        creator, assigns = (
            facts.peers[facts.peer],
            isinstance(decision, Delegate) and facts.config.is_actor(decision.actor),
        )
        if not assigns and (refused := rules.signed_by_its_key(facts.signature, creator, facts.source)):
            return refused
    if merging and not facts.is_proposal:
        return Refusal(rules.VALID_TRIAGE, "this is a message, there is nothing to merge", "reply or delete it")
    if merging and facts.item.fields.get("gone"):
        ends, asks = command("cn delete {}", facts.source), command("cn comment {} TEXT", facts.source)
        remedy = f"{ends} ends the thread, {asks} asks for it again"
        return Refusal(rules.MERGE_NEEDS_APPROVAL, BRANCH_LEFT, remedy)
    if merging and rules.asks_who_pushed(facts.peers[facts.peer], facts.config):
        return rules.put_there_by_its_creator(facts.item.get("back"))
    return None


def plan_decision(facts: Facts, triage: Triage) -> Plan | Refusal:
    """What cn does for one decision, or the rule that forbids it."""
    if refused := check_decision(facts, triage):
        return refused
    decision = triage.decision
    match decision:
        case Delete(reason):
            return plan_end(facts, cause_of(triage), "discarded", "✓ discarded", reason=reason)
        case Defer(reason):
            return _defer(facts, triage, reason)
        case Delegate(actor):
            return _delegate(facts, triage, actor)
        case Merge():
            return _merge(facts, triage)
        case Reply(topic):
            return _reply(facts, triage, topic)
        case Custom(description):
            path = concern_path(description, facts.now, facts.item.head)
            put = open_concern(path, description, facts.now, triage.actor, facts.source, facts.thread, triage.body)
            cause = cause_of(triage)
            return plan_end(facts, cause, "opened", "✓ opened", reason=description, before=(put,), note=path)
        case _:
            assert_never(decision)


def _row(facts: Facts, words: str, executed: str, outcome: str, commit: str = "") -> Log:
    what = (facts.thread, facts.branch, facts.item.head)
    return Log(Row(facts.now, facts.source, words, executed, *what, outcome, commit, facts.input, facts.subject))


def plan_end(
    facts: Facts,
    cause: Cause,
    status: str,
    executed: str,
    reason: str = "",
    *,
    merge: Oid | None = None,
    told: Oid | None = None,
    before: tuple[Effect, ...] = (),
    answer: Post | None = None,
    note: str = "",
) -> Plan:
    """End a thread: move it to done with what was executed, log and record it, tell the creator.

    ``told`` is the merge commit that the creator can see.
    """
    line = f"- {format_stamp(facts.now)} {executed}" + (f": {note}" if note else "")
    lines = [*facts.lines, line]
    about = About(facts.branch, facts.item.head, status, told, reason)
    post = answer or notice(facts.config.name, facts.peer, facts.item.topic, about, cause.at, facts.thread)
    fields = {
        "status": status,
        "actor": cause.actor,
        "decision": cause.words,
        "decided": format_second(cause.at),
        "thread": facts.thread,
        "merge": merge or "",
        **({"input": facts.input} if facts.input else {}),
    }
    event = Event(facts.now, IN, "decided", facts.item.topic, facts.item.head, fields)
    effects: tuple[Effect, ...] = (
        *before,
        Drop(inbox_path(facts.thread)),
        Put(done_path(facts.thread), append_section(facts.text, "Executed", lines)),
        Record(facts.peer, event),
        _row(facts, cause.words, executed, status, merge or ""),
        post,
    )
    if topic_of(facts.branch) != facts.item.topic:  # the name under which it came may be there again, and is told too
        effects = (*effects, Pin(facts.peer, IN, facts.item.topic, None), Keep(facts.item.head))
    return Plan(facts.source, effects)


def _defer(facts: Facts, triage: Triage, reason: str) -> Plan | Refusal:
    plan = put_off(facts, triage, reason)
    refused = rules.check_length(triage.body, "what is said about it")
    if isinstance(plan, Refusal) or refused:
        return refused or plan
    at = rules.read_return_time(triage.until, triage.at, facts.now)
    until = "" if isinstance(at, Refusal) else f"until {format_stamp(at)}"
    about = About(facts.branch, facts.item.head, "deferred", None, f"{reason} ({until})" if reason else until)
    us, topic = facts.config.name, facts.item.topic
    told = notice(us, facts.peer, topic, about, triage.at, facts.thread)
    if triage.body.strip():  # words are to be read: they come as a message
        words = format_decision(triage.decision)
        told = _answer(facts, triage.actor, triage.body, triage.at, about, reply_topic(topic), words)
    return plan._replace(effects=(*plan.effects, told))


def put_off(facts: Facts, triage: Triage, reason: str) -> Plan | Refusal:
    """The thread waits for its time, and nobody is told."""
    at = rules.read_return_time(triage.until, triage.at, facts.now)
    if isinstance(at, Refusal):
        return at
    return _keep(facts, triage, "deferred", "Deferred", {"until": format_second(at), "reason": reason})


def plan_comment(facts: Facts, actor: Name, text: str, at: datetime) -> Plan | Refusal:
    """Say something about a thread to its creator, ``at`` this time; it decides nothing, and the thread stays."""
    refused = (
        rules.valid_actor(actor, facts.config)
        or rules.check_length(text, "the comment")
        or (None if text.strip() else Refusal(rules.VALID_TRIAGE, "the comment has no text", "say something"))
        or rules.creator_known(facts.peer, facts.peers, "add it again with 'cn peer add'")
    )
    if refused:
        return refused
    about = About(facts.branch, facts.item.head, COMMENTED)
    answer = _answer(facts, actor, text, at, about, reply_topic(facts.item.topic), "comment")
    said = add_words(facts.text, Words(actor, at, "comment", text))
    put = Put(inbox_path(facts.thread), said)
    return Plan(facts.source, (put, _row(facts, "comment", "queued", COMMENTED), answer))


def _keep(facts: Facts, triage: Triage, state: str, heading: str, fields: dict[str, str]) -> Plan:
    """The thread stays pending with its Triage kept as history."""
    lines = [*facts.lines, f"- {format_stamp(facts.now)} ✓ {state}"]
    text = add_form(mark_triage(facts.text, heading, "\n".join(lines)), facts.config.name)
    fields = {**fields, "by": triage.actor, "thread": facts.thread}
    record = Record(facts.peer, Event(facts.now, IN, state, facts.item.topic, facts.item.head, fields))
    row = _row(facts, format_decision(triage.decision), f"✓ {state}", state)
    return Plan(facts.source, (Put(inbox_path(facts.thread), text), record, row))


def _delegate(facts: Facts, triage: Triage, actor: Name) -> Plan | Refusal:
    refused = rules.check_addressee(actor, facts.config, facts.peers)
    refused = refused or rules.check_length(triage.body, "what is said about it")
    if refused:
        return refused
    if facts.config.is_actor(actor):
        return _keep(facts, triage, "assigned", "Assigned", {"actor": actor})
    if actor == facts.peer:
        return Refusal(rules.KNOWN_PEER, f"{actor} sent it", "reply or delete instead of sending it back")
    hops = int(facts.item.get("hops") or 0) + 1
    if hops > facts.config.limits.hops:
        return Refusal(rules.VALID_TRIAGE, f"it was forwarded {hops - 1} times already", "decide it here")
    forward = _forward(facts, triage, actor, hops)
    return plan_end(facts, cause_of(triage), "delegated", "queued", f"to {actor}", before=(forward,))


def _forward(facts: Facts, triage: Triage, actor: Name, hops: int) -> Post:
    subject = f"Fwd: {facts.about or facts.source}"
    origin = [
        f"{facts.config.name} forwards this thread; decided by {triage.actor} at {format_stamp(triage.at)}. "
        f"A reply goes to {facts.config.name}, not to {facts.peer}.",
        "",
        f"- from: {facts.peer}",
        f"- branch: {one_line(facts.branch)}",
        f"- head: {facts.item.head}",
        f"- signature: {facts.signature}",
        f"- received: {format_stamp(facts.item.since)}",
    ]
    above = "\n".join([*origin, *(["", triage.body] if triage.body else []), "", ""])
    room = min(MOST_TEXT - len(above.encode()), facts.config.limits.thread_bytes // 2)
    body = above + "\n".join(_conversation(facts.committed or facts.text, room))
    message = Message(MESSAGE, facts.config.name, actor, subject, triage.at, body, facts.branch, hops=hops)
    topic = f"fwd-{facts.peer}-{slug(facts.item.topic)}"
    return Post(message, topic, facts.thread, facts.source, format_decision(triage.decision))


def _conversation(text: str, room: int) -> list[str]:
    """What the peer sent, and what both sides said about it since, as cn wrote it and not as somebody may have edited
    it, within ``room`` bytes: the newest words are kept, and what is left out is said.
    """
    words, kept = said_in(text), list[list[str]]()
    for said in reversed(words):
        lines = ["", said[0], "", *said[1:]]
        if kept and _size(lines) > room:
            break
        kept.insert(0, _within(lines, room))
        room -= _size(lines)
    left = len(words) - len(kept)
    gap = ["", f"({counted(left, 'text')} in between {'is' if left == 1 else 'are'} left out)"] if left else []
    return [*_within(peer_block(text), room), *gap, *(line for lines in kept for line in lines)]


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _within(lines: Sequence[str], room: int) -> list[str]:
    """The first lines, as many as have room, and where the rest is cut off."""
    sizes = accumulate(len(line.encode()) + 1 for line in lines)
    fits = [line for line, size in zip(lines, sizes, strict=True) if size <= room]
    return fits if len(fits) == len(lines) else [*fits, "> … cut here"]


def _reply(facts: Facts, triage: Triage, topic: str) -> Plan | Refusal:
    if not triage.body.strip():
        return Refusal(rules.VALID_TRIAGE, "the reply has no text", "write it below the fields of the Triage section")
    refused = rules.check_length(triage.body, "the reply")
    if refused:
        return refused
    prefix, _, topic = topic.rpartition("/")
    if prefix not in ("", facts.config.name):
        why = f"the reply is a branch of ours, and {prefix}/ is not our prefix"
        return Refusal(rules.VALID_TRIAGE, why, f"write do:reply:{topic}")
    about = About(facts.branch, facts.item.head, REPLIED)
    answer = _answer(facts, triage.actor, triage.body, triage.at, about, topic, format_decision(triage.decision))
    return plan_end(facts, cause_of(triage), REPLIED, "queued", answer=answer)


_MOST_HOPS = 1000
"""What a message can say; nothing comes near it."""


def count_hops(facts: Facts, actor: Name) -> int:
    """How many automatic answers in a row an answer to this thread makes; a person's hand begins anew."""
    if facts.by_hand or actor != facts.config.name:
        return 0
    return min(int(facts.item.get("hops") or 0) + 1, _MOST_HOPS)


def _answer(facts: Facts, actor: Name, text: str, at: datetime, about: About, topic: str, words: str) -> Post:
    """A message to the creator about its branch."""
    subject = facts.subject or reply_subject(facts.about or facts.source)
    us, head = facts.config.name, facts.item.head
    message = Message(MESSAGE, us, facts.peer, subject, at, text, head, about, count_hops(facts, actor))
    return Post(message, topic, facts.thread, facts.source, words)


def open_concern(
    path: HubPath, description: str, at: datetime, actor: Name, source: str, thread: str, body: str = ""
) -> Put:
    """A managed concern: what, since when, by whom, from where."""
    concern = new_own(path, description, at, actor, body, Source=source, Thread=thread)
    return Put(path, format_own(concern))


def _merge(facts: Facts, triage: Triage) -> Plan | Refusal:
    merge = facts.merge
    assert merge is not None, "the facts of a merge were not gathered"
    if merge.merged_already:  # somebody did it with git, or it came with another branch: nothing more gets in
        refused = rules.not_taken_back(merge, facts.source)
        refused = refused or rules.approval(triage, merge.head, facts.config.explicit_approval)
        return refused or plan_end(facts, cause_of(triage), "merged", MERGED_BEFORE)
    # What the branch holds stands before where it stands: main moves on, and that reason would be gone.
    refusal = rules.join_refusals(
        [
            rules.no_self_merge(triage.actor, facts.peer, merge.people, facts.identities),
            rules.approval(triage, merge.head, facts.config.explicit_approval),
            rules.signed_merge(facts.signature, facts.config.signed == "required"),
            rules.readable_signatures(merge),
            rules.readable_commits(merge),
            rules.no_protected_path(merge.changes),
            rules.publishes_nothing_private(merge),
            rules.only_fit_names(merge.changes),
            rules.within_limits(merge),
            rules.merged_as_read(merge),
            rules.swallows_none(merge),
            rules.clean(merge),
        ]
    )
    if refusal:
        return refusal
    if merge.commit is None:
        return Refusal(rules.CLEAN_MERGE, "it holds what cn does not write", "merge it by hand", notify=True)
    advance = Advance(merge.commit, facts.source, merge.published)
    executed = f"✓ merged {merge.commit[:7]}"
    told = merge.published or merge.commit
    return plan_end(facts, cause_of(triage), "merged", executed, merge=merge.commit, told=told, before=(advance,))


def plan_refused(
    facts: Facts, decision: str, actor: str, refusal: Refusal, at: datetime, *, new: bool = False, met: str = ""
) -> Plan:
    """A refused decision: recorded when another condition was met before (or it is ``new``), its creator told once per
    head. ``met`` is the condition that this clone met last of this thread.

    Two clones may hold two decisions of one thread, both refused: neither is news when the other was refused since.
    """
    condition = refusal_digest(decision, actor, refusal.rule, refusal.reason, facts.item.head)
    before = facts.item.get("digest").split()
    if not new and condition in before and condition in (before[-1], met):
        return Plan(facts.source)
    told_head = facts.item.get("told")
    tell = refusal.notify and told_head != facts.item.head
    known = [*(one for one in before if one != condition), condition][-_MOST_REFUSALS:]
    fields = {"digest": " ".join(known), "rule": refusal.rule, "why": refusal.reason, "remedy": refusal.remedy}
    if tell:
        fields["told"] = facts.item.head
    event = Event(facts.now, IN, "refused", facts.item.topic, facts.item.head, fields)
    why = f"{refusal.rule}: {refusal.reason}"
    effects: list[Effect] = [Record(facts.peer, event), _row(facts, decision, f"refused: {why}", "refused")]
    if tell:
        about = About(facts.branch, facts.item.head, "refused", None, why)
        effects.append(notice(facts.config.name, facts.peer, facts.item.topic, about, at, facts.thread))
    return Plan(facts.source, tuple(effects))


_MOST_REFUSALS = 8
"""Refusals of one head that are remembered: one a clone, mostly."""


def refusal_digest(decision: str, actor: str, rule: str, reason: str, head: Oid) -> str:
    """What a refusal is remembered by, so that it is told once."""
    return digest(decision, actor, rule, rules.without_changed_files(reason), head)
