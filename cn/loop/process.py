"""``cn inbox process``: parse decisions, enforce the rules, execute, move to done, log, deliver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cn.agent.hooks import answered_turn, execute_output, update_queue
from cn.agent.wake import drop_pending, wake
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.git.signatures import own_key
from cn.inbox.arrivals import record_arrivals, record_vanished, renew_stale, with_mains
from cn.inbox.check_inbox import check_inbox, restore_pending
from cn.inbox.due import record_due
from cn.inbox.merge.merges import Merges
from cn.inbox.plan.arrivals import plan_renewed
from cn.inbox.plan.decisions import Facts, plan_decision, plan_refused, quoted_of
from cn.inbox.working_copies import ANEW, Working, has_triage, read_working, shows_triage
from cn.outbox.deliver import deliver
from cn.peers.observe import Observation, fetch_changed, note_refused, observe
from cn.protocol import rules
from cn.protocol.effects import Plan, WorkingCopy
from cn.protocol.layout import inbox_path
from cn.protocol.ledger import IN, Item
from cn.protocol.thread_file import read_decision, read_text
from cn.protocol.triage import Merge, Triage, TriageRefused, format_decision
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_plan, clean_refusal, mask_line, without_secrets
from cn.secrets.findings import Text, own_lines
from cn.transaction.mailbox_main import publish
from cn.values.errors import Refusal
from cn.values.names import Name, Oid, ThreadKey, ThreadName, digest
from cn.values.report import Progress, Report
from cn.values.shell_words import command
from cn.values.text import one_line

if TYPE_CHECKING:
    from cn.agent.queue import MayGive


def process(hub: Hub, *, dry_run: bool = False, progress: Progress | None = None) -> Report:
    """Execute the agent's output and every decided thread, and wake the agent.

    Refused ones stay and say why.
    """
    report = Report()
    with open_run(hub, report, dry_run=dry_run, progress=progress) as run:
        _process(run)
    if not dry_run:
        wake(hub, report)
    return report


def process_as_agent(
    hub: Hub, *, may_give: MayGive | None = None, deliver_first: Callable[[Run], None] | None = None
) -> Report:
    """:func:`process` where the runtime itself is the agent: nobody is woken.

    ``may_give`` keeps items from it; ``deliver_first`` delivers what git does not, for which a person waits.
    """
    report = Report()
    with open_run(hub, report) as run:
        _process(run, may_give, deliver_first)
    drop_pending(hub)
    return report


def _process(run: Run, may_give: MayGive | None = None, deliver_first: Callable[[Run], None] | None = None) -> None:
    snapshot = run.snapshot()
    turn = answered_turn(run)
    decided = {
        (peer, item.topic)
        for peer, item in snapshot.pending()
        if has_triage(run.hub, ThreadName(item.get("thread")), snapshot.algorithm)
        or (turn is not None and item.get("input") == turn.input.id)
    }
    seen, keys = _look(run, decided)
    run.commit(lambda executor: gather_process(run, executor, seen, keys, may_give))
    if deliver_first is not None:
        deliver_first(run)
    check_inbox(run)
    deliver(run)


def _look(run: Run, decided: set[tuple[Name, str]]) -> tuple[Observation | None, list[tuple[Name, str]]]:
    """Fetch what is decided on: a branch that moved since is void."""
    peers = {peer for peer, _ in decided if peer in run.settings.peers}
    if not peers:
        return None, []
    seen = observe(run, only=peers, inbound_only=True, force=True)
    keys = fetch_changed(run, seen, only=decided)
    return seen, keys


class Decided(NamedTuple):
    """A thread that somebody decided, as it was read: facts, Triage, and what a row says of it."""

    facts: Facts
    triage: Triage
    working: Working

    @property
    def is_merge(self) -> bool:
        """Does it ask for a merge?"""
        return isinstance(self.triage.decision, Merge)


def gather_process(
    run: Run, executor: Executor, seen: Observation | None, keys: list[tuple[Name, str]], may_give: MayGive | None
) -> str | None:
    """All that one run decides, on one base."""
    if seen is not None:
        record_vanished(executor, seen)
        refused = record_arrivals(executor, seen, keys)
        note_refused(run, seen, keys, refused)
    record_due(executor)
    restore_pending(executor)
    answered = execute_output(run, executor)
    subjects = [answered] if answered else []
    tips = {key: tip for key, (_, tip) in seen.inbound.items()} if seen is not None else {}
    decided = _read_decided(run, executor)
    subjects += _execute(run, executor, decided, tips)
    update_queue(run, executor, may_give=may_give)
    if len(subjects) == 1:
        return f"cn: {subjects[0]}"
    return f"cn: {len(subjects)} decisions\n\n" + "\n".join(subjects) if subjects else "cn: process"


def _read_decided(run: Run, executor: Executor) -> list[Decided]:
    """The pending threads with a Triage; one that must not decide is refused."""
    found: list[tuple[Name, Item, Working]] = []
    for peer, item in executor.snapshot.pending():
        now = executor.item(peer, IN, item.topic)
        name = ThreadName(item.get("thread"))
        if now is None or now.head != item.head or inbox_path(name) in executor.changed:
            continue  # moved in this very run: its Triage is void, and says so
        working = read_working(run.hub, name, executor.snapshot.algorithm)
        if working is None:
            continue  # main's copy is pending, and is put back
        decides = shows_triage(working)
        if why := renew_stale(executor, peer, now):
            _tell_void(run, executor, peer, now, working if decides else None, why)
        elif decides:
            found.append((peer, now, working))
    executor.snapshot.read_many(working.path for _, _, working in found)
    decided = (_decided(run, executor, peer, item, working) for peer, item, working in found)
    return [one for one in decided if one is not None]


def _tell_void(run: Run, executor: Executor, peer: Name, item: Item, working: Working | None, why: str) -> None:
    """``working`` is the file that showed another head, if there was a decision in it."""
    if working is None:
        executor.perform(plan_renewed(peer, item, executor.now, why))
        executor.notes.info(f"{peer}/{item.topic}: {why}: it is written anew")
        return
    facts, refusal = _facts(run, executor, peer, item), Refusal(rules.VALID_TRIAGE, why, ANEW)
    _refuse(executor, facts, _raw_decision(working.data), "", refusal, _own(working), new=True)


def _facts(run: Run, executor: Executor, peer: Name, item: Item) -> Facts:
    return Facts(run.settings.config, run.settings.peers, peer, item, "", executor.now, run.settings.shared_mailbox)


def _decided(run: Run, executor: Executor, peer: Name, item: Item, working: Working) -> Decided | None:
    facts = _facts(run, executor, peer, item)
    try:
        text = read_text(working.data)
        committed = read_text(executor.snapshot.read(working.path) or b"")
        triage = read_decision(text, committed)
    except TriageRefused as refused:
        refusal = Refusal(rules.VALID_TRIAGE, refused.text, refused.hint)
        _refuse(executor, facts, _raw_decision(working.data), "", refusal, _own(working))
        return None
    if triage is None:
        return None
    text = with_mains(executor, working.path, text)
    about = mask_line(item.get("subject"), executor.settings)
    return Decided(replace(facts, text=text, committed=committed, about=about), triage, working)


def _execute(run: Run, executor: Executor, decided: Sequence[Decided], tips: Mapping[ThreadKey, Oid]) -> list[str]:
    """Decide thread by thread; returns the lines for the commit message."""
    keys, people = _keys_and_people(run)
    subjects, undone = [], dict[str, Condition]()
    with Merges(run.hub, executor.base.tip, executor.base.local, executor.now, keys) as merges:
        merges.read([d.facts.item.head for d in decided if d.is_merge])
        for one in decided:
            actor = one.triage.actor
            facts = replace(one.facts, identities=people.get(actor, (str(actor),)))
            decision = format_decision(one.triage.decision)
            try:
                outcome = _outcome(run, executor, facts, one.triage, tips, merges)
            except GitError as error:
                if error.done.disk_full:
                    raise  # nothing else could be done either, and it says what helps
                if error.done.limited or error.done.crashed:  # the branch is to blame
                    remedy = "look at the branch with git, or delete the thread"
                    refusal = Refusal(rules.CLEAN_MERGE, error.text, remedy)
                    _refuse(executor, facts, decision, actor, refusal, _own(one.working))
                    continue
                # Disk or memory may be to blame: the creator is told nothing, the others go on.
                condition = digest("not decided", facts.source, facts.item.head, error.text)
                text = f"{facts.source}: {decision} could not be done: {error.text}"
                remedy = "it is tried again; if it stays, look at the branch with git, or delete the thread"
                undone[condition] = Condition(text, remedy, facts.source)
                continue
            if isinstance(outcome, Plan):
                own, quoted = _own(one.working), [quoted_of(facts)]
                outcome = check_plan(outcome, run.settings, [own], quoted) or outcome
            if isinstance(outcome, Refusal):
                _refuse(executor, facts, decision, actor, outcome, _own(one.working))
                continue
            used = WorkingCopy(one.working.path, one.working.oid)
            executor.perform(replace(outcome, effects=(used, *outcome.effects)))
            if one.is_merge:
                merges.accept(one.facts.item.head)
            executor.notes.done(f"{facts.source}: {decision} by {actor}", source=facts.source)
            subjects.append(f"{facts.source} {one_line(decision, 80)} by {actor}")
    run.memory.conditions.tell("undone", undone, executor.notes)
    return subjects


def _keys_and_people(run: Run) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Who is known by which key, and the names and emails of those who may decide."""
    config = run.settings.config
    keys = {str(p.name): p.key for p in run.settings.peers.values() if p.key}
    ours = own_key(run.hub.config)
    if ours:
        keys[str(config.name)] = ours
    people: dict[str, tuple[str, ...]] = {str(r.name): (str(r.name), r.email) for r in config.reviewers}
    people[str(config.name)] = (str(config.name), *run.hub.identity)
    return keys, people


def _outcome(
    run: Run, executor: Executor, facts: Facts, triage: Triage, tips: Mapping[ThreadKey, Oid], merges: Merges
) -> Plan | Refusal:
    tip = tips.get((facts.peer, facts.item.topic), facts.item.head)
    if tip != facts.item.head:  # it moved to what was refused, or could not be fetched
        return Refusal(
            rules.VALID_TRIAGE,
            f"void: the branch moved from {facts.item.head[:8]} to {tip[:8]}, which did not come in",
            f"wait until its creator has pushed it well, or end it: {command('cn delete {}', facts.source)}",
        )
    if isinstance(triage.decision, Merge) and facts.peer in run.settings.peers:
        message = f"Merge {facts.branch}\n\nApproved by {triage.actor} in {facts.thread}"
        merge = merges.try_merge(executor.tip, facts.item.head, message)
        if merge.commit is not None and run.settings.separate_mailbox:
            merges.flush()
            subject = f"Merge {facts.branch}"
            published = publish(run.hub, executor.published, merge.commit, merge.head, subject, executor.now)
            merge = replace(merge, published=published)
        facts = replace(facts, merge=merge)
    return plan_decision(facts, triage)


def _own(working: Working) -> Text:
    """What of a thread's working copy is ours."""
    return own_lines(working.path, working.data.decode("utf-8", "replace"))


def _raw_decision(data: bytes) -> str:
    """The decision line of a section that cannot be read, for the log."""
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip().lower().startswith("decision:"):
            return one_line(line.partition(":")[2], 80) or "(none)"
    return "(none)"


def _refuse(
    executor: Executor, facts: Facts, decision: str, actor: str, refusal: Refusal, whole: Text, *, new: bool = False
) -> None:
    """``new``: also if the same was refused before, it is another one."""
    # What was decided is logged as it was written, unless it is what must not get into a log.
    decision, actor = (without_secrets(text, executor.settings, whole) for text in (decision, actor))
    refusal = clean_refusal(refusal, executor.settings, whole)
    plan = plan_refused(facts, decision, actor, refusal, executor.now, new=new)
    executor.perform(plan)
    executor.notes.refused(
        f"{facts.source}: {decision} is refused: {refusal.rule}: {refusal.reason}",
        refusal.remedy,
        source=facts.source,
        told_before=not plan.effects,
    )
