"""``cn inbox process``: parse decisions, enforce the rules, execute, move to done, log, deliver."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cn.agent.hooks import answered_names, drop_pending, execute_output, update_queue, wake
from cn.git.damage import refuse_damage
from cn.git.objects import is_ancestor, read_raw
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.git.signatures import own_key
from cn.inbox.arrivals import record_arrivals, record_moved_on, record_vanished, renew_stale, with_mains
from cn.inbox.merges import Merges
from cn.inbox.pending import DECLINED, check_inbox, declined_name, record_due, restore_pending
from cn.inbox.pinned_keys import check_pinned
from cn.inbox.plan.arrivals import LOOKED, hold, plan_renewed
from cn.inbox.plan.decisions import Facts, check_decision, plan_decision, plan_refused, quoted_of, refusal_digest
from cn.inbox.shown_anew import show_anew
from cn.inbox.working_copies import (
    ANEW,
    Working,
    edition,
    has_triage,
    lacks_said,
    own_decision,
    read_working,
    shows_item,
    shows_triage,
)
from cn.loop.waiting import say_drafts
from cn.outbox.deliver import deliver
from cn.outbox.moved_hubs import hold_theirs_back
from cn.peers.observe import Observation, fetch_changed, observe, report_not_taken
from cn.peers.older_state import hold_back_older
from cn.peers.routes import place_by_records
from cn.peers.strangers import hold_back_strangers
from cn.protocol import rules
from cn.protocol.effects import Plan, WorkingCopy
from cn.protocol.layout import PROPOSAL, inbox_path
from cn.protocol.ledger import IN, Item
from cn.protocol.thread_file import Merge, Triage, TriageRefused, format_decision, named_head, read_decision, read_text
from cn.run.commit_apart import commit_apart
from cn.run.executor import Executor
from cn.run.find_thread import read_call
from cn.run.memory import Condition, put_bounded
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_plan, clean_refusal, mask_line, without_secrets
from cn.run.settings import Settings
from cn.run.short_ids import others_like
from cn.secrets.scanner import Text, own_lines
from cn.transaction.base import OriginDeclined
from cn.transaction.mailbox_main import publish
from cn.values.errors import Refusal
from cn.values.names import Name, Oid, ThreadKey, ThreadName, digest
from cn.values.report import Progress, Report
from cn.values.shell_words import command
from cn.values.text import one_line, some_of

if TYPE_CHECKING:
    from cn.agent.queue import MayGive


def process(hub: Hub, *, dry_run: bool = False, progress: Progress | None = None) -> Report:
    """Execute the agent's output and every decided thread, and wake the agent.

    Refused ones stay and say why.
    """
    with open_run(hub, dry_run=dry_run, progress=progress, kind="process") as run:
        _process(run)
    if not dry_run:
        wake(run)
    return run.report


def process_as_agent(
    hub: Hub, known: Settings, *, may_give: MayGive | None = None, deliver_first: Callable[[Run], None] | None = None
) -> Report:
    """:func:`process` where the runtime itself is the agent: nobody is woken.

    ``known`` are the settings as the caller read them; ``may_give`` keeps items from it; ``deliver_first`` delivers
    what git does not, for which a person waits.
    """
    with open_run(hub, known=known, kind="process") as run:
        _process(run, may_give, deliver_first)
    drop_pending(hub)
    return run.report


def _process(run: Run, may_give: MayGive | None = None, deliver_first: Callable[[Run], None] | None = None) -> None:
    say_drafts(run)  # they were said before what is decided now
    snapshot = run.snapshot
    answered = [read_call(name) for name in answered_names(run)]
    decided = {
        (peer, item.topic)
        for peer, item in snapshot.pending()
        if has_triage(run.hub, ThreadName(item.fields["thread"]))
        or any(called.means_item(peer, item) for called in answered)
    }
    seen, keys = Observation({}), list[ThreadKey]()
    if peers := {peer for peer, _ in decided if peer in run.settings.peers}:
        # What is decided on is fetched: a branch that moved since is void.
        seen = observe(run, only=peers, inbound_only=True, force=True)
        place_by_records(run, seen)
        hold_back_strangers(run, seen)
        hold_back_older(run, seen)
        hold_theirs_back(run, seen)
        items = [(peer, item) for peer, item in snapshot.pending() if (peer, item.topic) in decided]
        # Another name of its commit, and its own branch, where that moved away from it.
        there = {(peer, word) for peer, item in items for word in (str(item.head), item.get("branch"))}
        others = {k for k, at in seen.listed[IN].items() if {(k[0], str(at[0])), (k[0], str(at[1]))} & there}
        keys = fetch_changed(run, seen, only=decided | others)

    merged = False

    def commit(some: Sequence[ThreadKey], moved: Container[ThreadKey] = ()) -> None:
        nonlocal merged

        def decide(executor: Executor) -> tuple[str | None, bool]:
            came = [key for key in keys if key not in moved]
            subject = gather_process(run, executor, seen, came, may_give, about, about.difference(some))
            return subject, executor.tip != executor.base.tip

        merged |= run.commit_for(decide)

    about = {*decided, *keys}
    known = run.memory.conditions.names(DECLINED)
    names = {(peer, item.topic): declined_name(peer, item.topic, item.head) for peer, item in snapshot.pending()}
    alone = [key for key in sorted(about) if names.get(key) in known]
    refused, _ = commit_apart(run, commit, [sorted(about.difference(alone))], alone)
    declined = dict(refused)
    for key, why in refused:
        if key in keys:  # what is refused is what its branch moved to: that nothing is decided of it is taken
            report_not_taken(run, seen, key, why, tell=False)
            with suppress(OriginDeclined):
                commit([key], [key])
                del declined[key]
    run.memory.conditions.tell(
        DECLINED,
        {names.get(key, declined_name(*key, "")): _declined(key, why) for key, why in declined.items()},
        run.report,
    )
    if merged and not run.dry_run:
        run.commit(_show_what_is_left)
    if deliver_first is not None:
        deliver_first(run)
    check_inbox(run)
    deliver(run)


def _declined(key: ThreadKey, why: str) -> Condition:
    source = "/".join(key)
    text = f"{source}: origin does not take what is decided about it into main: {why}"
    ends = command("cn delete {}", source)
    return Condition(text, f"{ends} ends it without its changes; or whoever runs origin lets it in", source)


def _show_what_is_left(executor: Executor) -> str | None:
    """What waits, and of which this very run merged a part."""
    show_anew(executor)
    return "cn: shown anew"


class Decided(NamedTuple):
    """A thread that somebody decided, as it was read: facts, Triage, and what a row says of it."""

    facts: Facts
    triage: Triage
    working: Working


def gather_process(
    run: Run,
    executor: Executor,
    seen: Observation,
    keys: Sequence[ThreadKey],
    may_give: MayGive | None,
    about: Container[ThreadKey],
    later: Container[ThreadKey],
) -> str | None:
    """All that one run decides, on one base: what is ``about`` these branches, but for those of ``later``."""
    record_vanished(executor, seen)
    record_arrivals(executor, seen, [key for key in keys if key not in later])
    record_moved_on(executor, seen, later, about)
    record_due(executor)
    check_pinned(executor)
    show_anew(executor)
    restore_pending(executor)
    answered = None if _answer_waits(run, executor, seen) else execute_output(run, executor)
    subjects = [answered] if answered else []
    tips = {key: tip for key, (_, tip) in seen.listed[IN].items()}
    decided = _read_decided(executor, later)
    decided = [one for one in decided if not _waits_for_its_branch(executor, seen, one.facts.peer, one.facts.item)]
    subjects += _execute(executor, decided, tips)
    update_queue(run, executor, may_give=may_give)
    if len(subjects) == 1:
        return f"cn: {subjects[0]}"
    return f"cn: {len(subjects)} decisions\n\n" + "\n".join(subjects) if subjects else "cn: process"


def _read_decided(executor: Executor, later: Container[ThreadKey]) -> list[Decided]:
    """The pending threads with a Triage, but those of ``later``; one that must not decide is refused."""
    config, peers = executor.settings.config, executor.settings.peers
    found: list[tuple[Facts, Working]] = []
    copies: list[tuple[Facts, Working, bool]] = []
    for peer, item in executor.snapshot.pending():
        now = executor.item(peer, IN, item.topic)
        name = ThreadName(item.fields["thread"])
        if (peer, item.topic) in later or now is None or now.head != item.head:
            continue
        if inbox_path(name) in executor.changed:
            continue  # moved in this very run: its Triage is void, and says so
        working = read_working(executor.hub, name)
        if working is None:
            continue  # main's copy is pending, and is put back
        copies.append((Facts(config, peers, peer, now, "", executor.now), working, shows_triage(working)))
    executor.snapshot.read_many(working.path for _, working, decides in copies if decides)
    for facts, working, decides in copies:
        if decides and _is_mains_of_before(executor, working):
            why = "its thread was changed in another clone, and nothing of what stood here before is decided"
            executor.notes.info(f"{facts.source}: {why}; the next run reads what main has now", source=facts.source)
            continue
        is_current = shows_item(working.data, facts.item)
        if is_current and not decides:
            continue
        # A colleague's words hold it back as often as they come, and use up none of the creator's.
        unread = is_current and lacks_said(executor.snapshot, working, facts.peer, facts.item, facts.peer)
        why = renew_stale(executor, facts.peer, facts.item, working)
        if why and decides:
            if unread:
                executor.perform(Plan(facts.source, hold(facts.peer, facts.item, executor.now)))
            refusal = Refusal(rules.VALID_TRIAGE, why, ANEW)
            _refuse(executor, facts, _raw_decision(executor, working), "", refusal, working, new=True)
        elif why:
            executor.perform(plan_renewed(facts.peer, facts.item, executor.now, why))
            executor.notes.info(f"{facts.source}: {why}: it is written anew")
        elif decides:
            found.append((facts, working))
    decided = (_decided(executor, facts, working) for facts, working in found)
    return [one for one in decided if one is not None]


def _is_mains_of_before(executor: Executor, working: Working) -> bool:
    """Is a working copy what main had here before this run, where origin has another by now? What somebody decided, and
    took back in another clone, would be carried out; the run places what main has now.
    """
    base = executor.base
    if base.local == base.tip or working.data == executor.snapshot.read(working.path):
        return False
    (before,) = read_raw(executor.hub.git, [f"{base.local}:{working.path}"])
    return before is not None and before.data == working.data


def _decided(executor: Executor, facts: Facts, working: Working) -> Decided | None:
    try:
        text = read_text(working.data)
        committed = read_text(executor.snapshot.read(working.path) or b"")
        triage = read_decision(text, committed)
    except TriageRefused as refused:
        refusal = Refusal(rules.VALID_TRIAGE, refused.text, refused.hint)
        _refuse(executor, facts, _raw_decision(executor, working), "", refusal, working)
        return None
    if triage is None:
        return None
    said, item = named_head(triage), facts.item
    if others := others_like(executor.snapshot, facts.peer, item.topic, item.head, said) if said else []:
        why = f"void: head: {said} is the beginning of {item.head}, and of {some_of(others)}"
        refusal = Refusal(
            rules.VALID_TRIAGE, why, "write the whole id that Head says above, once you have read that one"
        )
        _refuse(executor, facts, format_decision(triage.decision), triage.actor, refusal, working)
        return None
    text = with_mains(executor, working.path, text)
    about = mask_line(facts.item.fields.get("subject", ""), executor.settings)
    return Decided(replace(facts, text=text, committed=committed, about=about), triage, working)


def _asked(item: Item) -> tuple[Oid, str]:
    """What is merged where an item is: its head, as it was shown."""
    return item.head, item.fields.get("base", "")


def _waiting(executor: Executor) -> dict[tuple[Oid, str], str]:
    """The proposals that are there to be decided: what would be merged, and what each is called."""
    pending = ((peer, item) for peer, item in executor.snapshot.pending() if item.get("kind") in ("", PROPOSAL))
    return {_asked(item): f"{peer}/{item.topic}" for peer, item in pending if not item.get("gone")}


def _execute(executor: Executor, decided: Sequence[Decided], tips: Mapping[ThreadKey, Oid]) -> list[str]:
    """Decide thread by thread; returns the lines for the commit message."""
    if not decided:
        executor.memory.conditions.tell("undone", {}, executor.notes)
        return []
    keys, people = _keys_and_people(executor)
    subjects, undone = [], dict[str, Condition]()
    base, always = executor.base, executor.settings.config.rebase == "always"
    published = [executor.published] if executor.published else []
    mailbox = published if executor.settings.separate_mailbox else None
    with Merges(executor.hub, base.tip, base.local, executor.dated, keys, mailbox, always=always) as merges:
        merges.read([_asked(d.facts.item) for d in decided if isinstance(d.triage.decision, Merge)], _waiting(executor))
        for facts, triage, working in decided:
            actor, decision, own = triage.actor, format_decision(triage.decision), _own(working)
            facts = replace(facts, identities=people.get(actor, (str(actor),)))
            try:
                outcome = _outcome(executor, facts, triage, tips, merges)
            except GitError as error:
                if error.done.disk_full:
                    raise  # nothing else could be done either, and it says what helps
                refuse_damage(executor.hub.git, executor.hub.git_dir, error.done)
                remedy = "look at the branch with git, or delete the thread"
                if not (error.done.limited or error.done.crashed):
                    # Disk or memory may be to blame: the creator is told nothing, the others go on.
                    condition = digest("not decided", facts.source, facts.item.head, error.text)
                    text = f"{facts.source}: {decision} could not be done: {error.text}"
                    undone[condition] = Condition(text, f"it is tried again; if it stays, {remedy}", facts.source)
                    continue
                outcome = Refusal(rules.CLEAN_MERGE, error.text, remedy)  # the branch is to blame
            if isinstance(outcome, Condition):
                undone[digest("not here", facts.source, facts.item.head)] = outcome
                continue
            if isinstance(outcome, Plan):
                outcome = check_plan(outcome, executor.settings, [own], [quoted_of(facts)]) or outcome
            if isinstance(outcome, Refusal):
                merging = isinstance(triage.decision, Merge) and outcome.rule == rules.REBASE_BEFORE_MERGE
                if merging and merges.took_part_of(_asked(facts.item)):
                    continue  # what is left of it is shown once main has the rest
                _refuse(executor, facts, decision, actor, outcome, working)
                continue
            with executor.apart(facts.source):
                executor.perform(outcome._replace(effects=(WorkingCopy(*working), *outcome.effects)))
                if isinstance(triage.decision, Merge):
                    merges.accept(_asked(facts.item))
                executor.notes.done(f"{facts.source}: {decision} by {actor}", source=facts.source)
                subjects.append(f"{facts.source} {one_line(decision, 80)} by {actor}")
    executor.memory.conditions.tell("undone", undone, executor.notes)
    return subjects


def _keys_and_people(executor: Executor) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Who is known by which key, and the names and emails of those who may decide."""
    config, hub = executor.settings.config, executor.hub
    keys = {str(p.name): p.key for p in executor.settings.peers.values() if p.key}
    if ours := own_key(hub.config):
        keys[str(config.name)] = ours
    people: dict[str, tuple[str, ...]] = {str(r.name): (str(r.name), r.email) for r in config.reviewers}
    return keys, {**people, str(config.name): (str(config.name), *hub.identity)}


def _answer_waits(run: Run, executor: Executor, seen: Observation) -> bool:
    """Is what the agent answers about a branch of which this run did not hear where it is now?"""
    called = [read_call(name) for name in answered_names(run)] if seen.unheard else []
    about = ((p, i) for p, i in executor.snapshot.pending() if any(one.means_item(p, i) for one in called))
    return any(_waits_for_its_branch(executor, seen, peer, item) for peer, item in about)


def _waits_for_its_branch(executor: Executor, seen: Observation, peer: Name, item: Item) -> bool:
    """Did the branch move to what this run did not get, nor hear that it cannot? Then its decision, which may be void,
    waits for a run that does.
    """
    key, now = (peer, item.topic), executor.item(peer, IN, item.topic)
    _, tip = seen.listed[IN].get(key, (None, item.head))
    if key not in seen.unheard or tip == item.head or now is None or now.get("gone"):
        return False
    source = f"{peer}/{item.topic}"
    text = f"{source} moved from {item.head[:8]} to {tip[:8]}, which was not fetched this time"
    asks = f"{command('cn sync')} or the next {command('cn inbox process')} asks again"
    executor.notes.info(f"{text}: what is decided waits; {asks}", source=source)
    return True


def _outcome(
    executor: Executor, facts: Facts, triage: Triage, tips: Mapping[ThreadKey, Oid], merges: Merges
) -> Plan | Refusal | Condition:
    tip = tips.get((facts.peer, facts.item.topic), facts.item.head)
    if tip != facts.item.head and not facts.item.get("gone"):  # what it moved to was refused, or could not be fetched
        why = f"void: the branch moved from {facts.item.head[:8]} to {tip[:8]}, which did not come in"
        ends = command("cn delete {}", facts.source)
        remedy = f"wait until its creator has pushed it well, or taken it away; then {ends} ends it"
        return Refusal(rules.VALID_TRIAGE, why, remedy)
    if isinstance(triage.decision, Merge) and facts.peer in facts.peers:
        if not merges.has(_asked(facts.item)):
            return check_decision(facts, triage) or _not_here(facts, triage)
        subject = f"Merge {facts.branch}"
        text = f"{subject}\n\nApproved by {triage.actor} in {facts.thread}"
        merge = merges.try_merge(executor.tip, _asked(facts.item), text)
        if merge.swallowed:
            merge = replace(merge, swallowed=_came_before(executor, facts, merge.swallowed))
        if merge.commit is not None and executor.settings.separate_mailbox:
            merges.flush()
            published = publish(executor.hub, executor.published, merge.commit, merge.head, subject, executor.now)
            merge = replace(merge, published=published)
        facts = replace(facts, merge=merge)
    return plan_decision(facts, triage)


def _not_here(facts: Facts, triage: Triage) -> Condition:
    """A merge of what another clone let in, and this one cannot have: neither the branch nor its creator is to blame,
    so its creator is told nothing, and the decision stays.
    """
    decision, head, ends = format_decision(triage.decision), facts.item.head, command("cn delete {}", facts.source)
    text = f"{facts.source}: {decision} could not be done: {head[:8]} is not in this clone, and no run could fetch it"
    remedy = "it is tried again; while its branch is there, a clone of this hub that has the commit decides it, else"
    return Condition(text, f"{remedy} {facts.peer} pushes it again; {ends} ends it", facts.source)


def _came_before(executor: Executor, facts: Facts, names: Sequence[str]) -> tuple[str, ...]:
    """Of the threads whose commits a branch takes in those whose commits did not come first with this branch itself:
    whoever points a branch of its own at another's commits does not make them its own. Of what came in one run nobody
    knows whose it is.
    """
    pending = {f"{peer}/{item.topic}": (peer, item) for peer, item in executor.snapshot.pending()}
    own = executor.snapshot.events_of_topic(facts.peer, IN, facts.item.topic)
    looks = [event for event in own if event.kind in LOOKED]

    def is_theirs(peer: Name, item: Item) -> bool:
        events = executor.snapshot.events_at_heads(peer, IN, [item.head]).get(item.head, [])
        since = min((event.at for event in events if event.kind in LOOKED), default=None)
        heads = dict.fromkeys(event.head for event in looks if since is not None and event.at < since)
        return peer == facts.peer or not any(is_ancestor(executor.hub.git, item.head, head) for head in heads)

    return tuple(name for name in names if is_theirs(*pending[name]))


def _own(working: Working) -> Text:
    """What of a thread's working copy is ours."""
    return own_lines(working.path, working.data.decode("utf-8", "replace"))


def _raw_decision(executor: Executor, working: Working) -> str:
    """The decision of a file that does not decide, for the log: what main has of others was carried out."""
    return own_decision(working.data, executor.snapshot.read(working.path) or b"") or "(none)"


def _refuse(
    executor: Executor,
    facts: Facts,
    decision: str,
    actor: str,
    refusal: Refusal,
    working: Working,
    *,
    new: bool = False,
) -> None:
    """``new``: also if the same was refused before, it is another one. Who decides again is told again."""
    # What was decided is logged as it was written, unless it is what must not get into a log.
    whole = _own(working)
    decision, actor = (without_secrets(text, executor.settings, whole) for text in (decision, actor))
    refusal = clean_refusal(refusal, executor.settings, whole)
    met = executor.memory.section("met")
    last = str(met.get(facts.thread, ""))
    plan = plan_refused(facts, decision, actor, refusal, executor.now, new=new, met=last)
    put_bounded(met, facts.thread, refusal_digest(decision, actor, refusal.rule, refusal.reason, facts.item.head))
    executor.perform(plan)
    text = f"{facts.source}: {decision} is refused: {refusal.rule}: {refusal.reason}"
    # Another clone may have met the same: who decides here was told nothing yet.
    writing = edition(executor.hub, working.path)
    told = executor.memory.told("refused", facts.thread, decision, actor, refusal.rule, facts.item.head, writing)
    told_before = told and not plan.effects
    executor.notes.refused(text, refusal.remedy, source=facts.source, told_before=told_before, theirs=refusal.notify)
