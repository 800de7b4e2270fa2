"""Execute the agent's output: all of it or nothing, and only after it was archived."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cn.agent.interface import read_printed
from cn.agent.plan import conversation
from cn.agent.plan.chat import ChatFacts, chat_text_of
from cn.agent.plan.ops import AnyFacts, Order, bad_output, check_artifact, check_output, is_object_id, plan_order
from cn.agent.plan.output import Output, parse_output
from cn.agent.plan.turns import plan_answered, plan_rejected, source_of
from cn.agent.queue import current_turn, failing, find_unanswered, is_wanted, keep_late, note_ended, read_output
from cn.git.objects import find_object, read_info
from cn.git.repository import Hub
from cn.inbox.arrivals import renew_stale, use_working_text
from cn.inbox.plan.decisions import Facts, quoted_of
from cn.inbox.working_copies import is_stale, lenient_text, read_working, shows_triage
from cn.protocol.effects import Archive, Effect, Plan, Record
from cn.protocol.hub_config import HubConfig, is_local
from cn.protocol.layout import inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.ops import Commit, Op, Reply, Send, Surface, format_op
from cn.protocol.outbox_entry import is_chat
from cn.protocol.own_thread import format_own, parse_own
from cn.protocol.queue_item import OUTPUT, Turn, parse_input
from cn.protocol.states import ACTOR, Actor
from cn.protocol.thread_file import TriageRefused, format_decision, read_decision
from cn.run.executor import Executor
from cn.run.find_thread import NoThread, find_pending
from cn.run.run import Run
from cn.run.secret_gate import check_plan, clean_refusal, mask_line, without_secrets
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import Text, own_lines, text_of
from cn.system.files import read_regular
from cn.threads.plan.decisions import OwnFacts
from cn.threads.store import find_own, use_own
from cn.values.errors import Refusal, Refused
from cn.values.names import HubPath, Name, Oid, ThreadName
from cn.values.report import Report
from cn.values.text import one_line

_MOST_BYTES = 8 << 20


def execute_output(run: Run, executor: Executor) -> str | None:
    """Execute what waits in ``state/output.md``; returns the line for the commit message."""
    data = read_output(run)
    if data is None:
        _report_blocked(run, executor.notes)
        return None
    output = parse_output(data)
    turn = current_turn(executor)
    late = _why_late(run, executor, turn, output)
    decided = _decided_here(run, executor, turn, output) if turn is not None and not late else ""
    if decided:  # nothing went wrong: who decided asked nobody
        path = keep_late(run, executor, data, output, decided)
        executor.notes.info(f"{decided}; the agent's answer is kept as {path}")
        return None
    if turn is None or late:
        path = keep_late(run, executor, data, output, late)
        executor.notes.refused(f"{OUTPUT}: {late}; it is kept as {path}", "ask 'cn input' what is on")
        return None
    refused = (*check_output(output, turn.input.id), *_check_prose(run, turn, output))
    whole = text_of(OUTPUT, data.decode("utf-8", "replace").replace("\0", ""))
    meant = output.is_prose or output.id == turn.input.id
    plan = _planned(run, executor, turn, output, refused, whole) if meant else refused
    source = source_of(turn.input)
    if not isinstance(plan, Plan):
        plan = tuple(clean_refusal(one, run.settings, whole) for one in plan)
        ACTOR.step(Actor.OUTPUT_READY, "rejected")
        executor.perform(plan_rejected(turn, data, plan, failing(run, executor, turn.input)))
        for refusal in plan:
            executor.notes.refused(
                f"{source}: output of {turn.input.id}: {refusal.rule}: {refusal.reason}", refusal.remedy, source=source
            )
        return None
    _note_shown(run, executor, turn)
    note_ended(run.memory, turn.input.id)
    ACTOR.step(Actor.OUTPUT_READY, "archived")
    executor.perform(plan_answered(turn, data, plan))
    if is_chat(turn.input.sender):
        remember(executor, turn, chat_text_of(plan.effects))
    for key in (without_secrets(key, run.settings, whole) for key in output.unknown):
        executor.notes.info(f"{source}: the output's key {key!r} is unknown; ignored", source=source)
    words, us = ", ".join(format_op(op)[0] for op in output.ops) or "ack (no op)", run.settings.us
    executor.notes.done(f"{source}: {words} by {us}", source=source)
    return f"{source} {one_line(words, 80)} by {us}"


def _report_blocked(run: Run, notes: Report) -> None:
    """Something lies where the output belongs that is never read: a link, a pipe, a folder."""
    with suppress(OSError):
        info = (run.hub.root / OUTPUT).lstat()
        told_before = run.memory.told("output", str(info.st_ino), str(info.st_ctime_ns))
        notes.refused(f"{OUTPUT} is not a plain file; it is not read", "move it away", told_before=told_before)


def _check_prose(run: Run, turn: Turn, output: Output) -> list[Refusal]:
    """A text without an id answers the item in flight, unless one given before may still be answered."""
    other = find_unanswered(run.memory, turn.input.id) if output.is_prose else ""
    remedy = f"start the frontmatter with 'id: {turn.input.id}'"
    return [bad_output(f"it has no id, and may be an answer to {other}", remedy)] if other else []


def _planned(
    run: Run, executor: Executor, turn: Turn, output: Output, refused: tuple[Refusal, ...], whole: Text
) -> Plan | tuple[Refusal, ...]:
    """The plan; or all that is wrong, in what cannot be read and in what can."""
    item = facts_of(run, executor, turn)
    facts: dict[str, AnyFacts] = {item.source: item}
    ops: dict[str, list[Op]] = {}
    for op in output.ops:
        about = _facts_elsewhere(run, executor, turn, op) or item
        facts.setdefault(about.source, about)
        ops.setdefault(about.source, []).append(op)
    ops.setdefault(item.source, [])
    artifacts = find_artifacts(executor.snapshot, output.ops)
    us, id, effects, wrong = run.settings.us, turn.input.id, list[Effect](), list(refused)
    for source, given in ops.items():
        known, body = turn.input.names, output.body
        if source != item.source:  # the body belongs to the item, but where a reply elsewhere says nothing itself
            known = frozenset(op.id for op in given if not isinstance(op, Send | Surface))
            body = body if any(isinstance(op, Reply) and not op.message for op in given) else ""
        order = Order(us, known, tuple(given), body, id, artifacts, unknown=output.unknown)
        plan = plan_order(facts[source], order)
        if isinstance(plan, Plan):
            effects += plan.effects
        else:
            wrong += plan
    if wrong:
        return tuple(wrong)
    whole_plan = Plan(item.source, tuple(effects))
    sources = [whole, *(text for one in facts.values() for text in sources_of(one))]
    quoted = [quoted_of(one) for one in facts.values() if isinstance(one, Facts)]
    secret = check_plan(whole_plan, run.settings, sources, quoted)
    if not secret and isinstance(item, Facts):
        _tell_overtaken(executor, item)
    return (secret,) if secret else whole_plan


def _tell_overtaken(executor: Executor, facts: Facts) -> None:
    """The answer takes the place of a decision that was refused before, and that nobody has taken out."""
    with suppress(TriageRefused):
        if triage := read_decision(facts.text, facts.committed):
            decision = mask_line(one_line(format_decision(triage.decision), 80), executor.settings)
            text = f"{facts.source}: {decision} by {triage.actor} is not carried out: the agent's answer was first"
            executor.notes.info(text, source=facts.source)


def _facts_elsewhere(run: Run, executor: Executor, turn: Turn, op: Op) -> AnyFacts | None:
    """Of another open thread that an op names, where the hub lets it; None: it is about the item, or names nothing."""
    if run.settings.config.scope != "hub" or isinstance(op, Send | Surface) or op.id in turn.input.names:
        return None
    with suppress(NoThread):
        peer, item = find_pending(executor.snapshot, op.id)
        now = executor.item(peer, IN, item.topic)
        return inbox_facts(run, executor, peer, now) if now is not None and now.get("thread") else None
    with suppress(Refused):
        if path := find_own(executor, op.id):
            own = use_own(executor, path)
            return OwnFacts(run.settings.config, run.settings.peers, own, executor.now, run.machine)
    return None


def _why_late(run: Run, executor: Executor, turn: Turn | None, output: Output) -> str:
    """Why an output answers nothing in flight here; empty when it may answer the turn."""
    if turn is None:
        return "nothing is in flight that it could answer"
    if turn.machine != run.machine:
        return "another clone of this hub has the agent's turn"
    if output.id != turn.input.id and output.id in run.memory.section("given"):
        return f"it answers {output.id}, which is not in flight any more"
    if (output.is_prose or output.id == turn.input.id) and not is_wanted(executor, turn.input):
        return f"{source_of(turn.input)} was decided another way, its branch moved, or words came since"
    return ""


def _decided_here(run: Run, executor: Executor, turn: Turn, output: Output) -> str:
    """That a person has decided about the item, and no run has carried that out. Empty: nobody did so that it counts,
    a decision about it was refused before, or the output is about something else.
    """
    asked = turn.input
    if not output.is_prose and output.id != asked.id:
        return ""
    item = executor.item(Name(asked.sender), IN, asked.topic) if asked.topic else None
    working = read_working(run.hub, ThreadName(item.get("thread"))) if item is not None else None
    if item is None or working is None or item.get("rule") or not shows_triage(working):
        return ""
    if is_stale(executor.snapshot, working.path, working.data, Name(asked.sender), item):
        return ""  # void, as who wrote it did not see what is there
    with suppress(TriageRefused):
        committed = lenient_text(executor.snapshot.read(working.path) or b"")
        if triage := read_decision(lenient_text(working.data), committed):
            decision = mask_line(one_line(format_decision(triage.decision), 80), executor.settings)
            return f"{source_of(asked)}: {decision} by {triage.actor} stands in its thread, and goes first"
    return ""


def facts_of(run: Run, executor: Executor, turn: Turn) -> AnyFacts:
    """What the planners may know of the item in flight, with what people wrote into its thread here."""
    asked = turn.input
    if asked.topic:
        item = executor.item(Name(asked.sender), IN, asked.topic)
        assert item is not None, "it was not looked at whether the item is wanted"
        return inbox_facts(run, executor, Name(asked.sender), item)
    if not asked.path:
        content = parse_input(turn.text).content
        asked = replace(asked, content=content)
        return ChatFacts(run.settings.config, run.settings.peers, asked, executor.now, turn.machine)
    try:
        own = use_own(executor, asked.path)
    except Refused:  # main's text counts; the working copy is kept beside it, and reported
        own = parse_own(asked.path, (executor.read(asked.path) or b"").decode("utf-8", "replace"))
    return OwnFacts(run.settings.config, run.settings.peers, own, executor.now, run.machine)


def inbox_facts(run: Run, executor: Executor, peer: Name, item: Item) -> Facts:
    """The facts of a peer's thread, its working copy an input of the run."""
    name = ThreadName(item.get("thread"))
    written = inbox_path(name) in executor.changed  # by this run, which has taken in what lies here
    # The agent was given what the ledger names.
    if not written and renew_stale(executor, peer, item, read_working(run.hub, name)):
        text: str | None = lenient_text(executor.read(inbox_path(name)) or b"")
    else:
        text = use_working_text(executor, name)
    if text is None:
        raise Refused(f"{inbox_path(name)} is missing", "'cn inbox sync' puts it back")
    committed = (executor.snapshot.read(inbox_path(name)) or b"").decode("utf-8", "replace")
    config, peers, about = run.settings.config, run.settings.peers, mask_line(item.get("subject"), run.settings)
    return Facts(config, peers, peer, item, text, executor.now, committed=committed, about=about)


def sources_of(facts: AnyFacts) -> list[Text]:
    """The document that people may have written into."""
    if isinstance(facts, Facts):
        return [own_lines(inbox_path(facts.thread), facts.text)]
    return [text_of(facts.own.path, format_own(facts.own))] if isinstance(facts, OwnFacts) else []


def find_artifacts(snapshot: Snapshot, ops: Iterable[Op]) -> dict[str, Oid]:
    """The object ids of what commit ops name, as far as they may and it is there; a file of main comes first."""
    named = dict.fromkeys(op.artifact for op in ops if isinstance(op, Commit) and not check_artifact(op.artifact))
    infos = read_info(snapshot.git, [f"{snapshot.commit}:{text}" for text in named])
    found = {text: info.oid for text, info in zip(named, infos, strict=True) if info is not None}
    for text in named:
        if text not in found and is_object_id(text) and (oid := find_object(snapshot.git, text)):
            found[text] = oid
    return found


def _note_shown(run: Run, executor: Executor, turn: Turn) -> None:
    """When ``cn input`` printed it, as that noted; part of the thread's chain."""
    at = read_printed(run.hub, turn.trigger)
    asked = turn.input
    if at is not None and asked.topic:
        event = Event(at, IN, "shown", asked.topic, Oid(asked.head), {"input": asked.id})
        executor.perform(Plan(source_of(asked), (Record(Name(asked.sender), event),)))


# What was said, of which a model is shown the last.


def remember(executor: Executor, turn: Turn, answer: str) -> None:
    """What was asked and answered, in the commit that answers; earlier days go to files of their own."""
    asked, chat = turn.input, turn.input.sender
    kept = partial(read_conversation, executor.hub, executor.settings.config, executor.read)
    fresh = []
    if not asked.path:  # else it was put off, and is there since
        text = conversation.said_in(parse_input(turn.text).content)
        fresh.append(conversation.new_entry(asked.queued, chat, conversation.USER, text, asked.id))
    if answer:
        fresh.append(conversation.new_entry(executor.now, chat, conversation.ASSISTANT, answer, asked.id))
    said = conversation.append(kept(conversation.PATH), *fresh)
    stays, moved = conversation.rotate(said, executor.now)
    effects = [Archive(conversation.PATH, conversation.format_conversation(stays))]
    for path, entries in moved.items():
        day = conversation.append(kept(path), *entries)
        effects.append(Archive(path, conversation.format_conversation(day)))
    executor.perform(Plan(chat, tuple(effects)))


def read_conversation(
    hub: Hub, config: HubConfig, read: Callable[[HubPath], bytes | None], path: HubPath = conversation.PATH
) -> conversation.Conversation:
    """What was said: in main, of which ``read`` reads a file, or, where the hub keeps it local, on this machine."""
    data = read_regular(hub.root / path, _MOST_BYTES) if is_local(path, config.local) else read(path)
    return conversation.parse_conversation(data or b"")
