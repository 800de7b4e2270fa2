"""Decisions that a person gives with one command, made by the planners of the agent's ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cn.actions.drafts import Commit, telling_what_waits
from cn.agent.execute import find_artifacts, inbox_facts, sources_of
from cn.agent.hooks import update_queue
from cn.agent.plan.ops import Order, plan_order
from cn.git.repository import Hub
from cn.inbox.arrivals import renew_stale
from cn.inbox.decided import Decided, decided_of
from cn.inbox.pending import forget_declined
from cn.inbox.plan.arrivals import plan_renewed
from cn.inbox.plan.decisions import Facts, plan_comment, quoted_of
from cn.inbox.superseded import OVERTAKEN, decided_first, log_overtaken
from cn.inbox.working_copies import (
    ANEW,
    ANEW_WITH_WORDS,
    Working,
    lenient_text,
    may_decide,
    read_copies,
    shows_triage,
    use_working,
)
from cn.outbox.deliver import deliver
from cn.protocol import rules
from cn.protocol.draft import Draft
from cn.protocol.effects import Plan, WriteHere
from cn.protocol.layout import inbox_path
from cn.protocol.ledger import IN, Item
from cn.protocol.log import Row
from cn.protocol.ops import Delegate, Op, format_op
from cn.protocol.own_thread import parse_own
from cn.protocol.thread_file import Showing, count_words, seen_head, showing_of
from cn.run.executor import Executor
from cn.run.find_thread import NoThread, find_pending
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_plan, check_texts, clean_refusal, without_secrets
from cn.run.shown import check_head, refuse_unseen
from cn.run.snapshot import Snapshot
from cn.secrets.findings import unnamed
from cn.secrets.scanner import Text, joined, text_of
from cn.threads.plan.decisions import OwnFacts
from cn.threads.store import find_own, use_own
from cn.values.errors import Refusal, Refused, UsageError
from cn.values.names import Name, NameRefused, ThreadName, parse_name, short_ids
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import is_text, one_line

Make = Callable[[str], Op]
"""An op about the thread of that name."""


class Overtaken(NoThread):
    """Another clone was first; ``row`` is for the log of this one."""

    def __init__(self, row: Row, text: str, hint: str) -> None:
        super().__init__(text, hint)
        self.row = row


def decide(
    hub: Hub, thread: str, make: Make, *, actor: str = "", body: str = "", head: str = "", dry_run: bool = False
) -> Report:
    """Decide a thread now: a pending one of a peer, or one of our own.

    The decision is about ``head``, at least seven digits of it, else about the head that its reader was shown last.
    """
    check_head(head)
    with telling_what_waits(), open_run(hub, dry_run=dry_run) as run:
        waited = run.snapshot.outbox_paths()
        decide_now(run, thread, make, actor=actor, body=body, head=head)
        forget_declined(run)
        deliver(run, waited=waited)
    return run.report


def say_comment(run: Run, draft: Draft, commit: Commit, *, head: str = "") -> None:
    """A comment, in a run that is open; ``head`` is the one that it is about, where that was said."""
    who, text = _actor(run, draft.actor), draft.text

    def plan(executor: Executor) -> str | None:
        said = draft.head or head
        facts = _facts(run, executor, draft.to, _Words(text, said, decides=False, waited=draft.waited))
        if facts is None:
            return "cn: written anew"
        if not isinstance(facts, Facts):
            raise Refused(f"{facts.source} is a thread of our own: nobody else reads it", "write into its file")
        refuse_unseen(run.hub, executor.snapshot, facts.peer, facts.item, said, "nothing was said", anew=False)
        outcome = plan_comment(facts, who, text, draft.written)
        given = unnamed([text_of("the comment", text)], facts.item.topic)
        _perform(run, executor, facts, outcome if isinstance(outcome, Plan) else (outcome,), given)
        executor.notes.done(f"{facts.source}: comment by {who}; it waits as before", source=facts.source)
        if facts.item.state == "claimed":
            takes = f"{command('cn defer {} --reason REASON', facts.source)}, or a decision, takes it back"
            told = f"the agent was given it without this comment, and may answer so: {takes}"
            executor.notes.info(told, source=facts.source)
        return f"cn: {facts.source} comment by {who}"

    commit(plan)


def _actor(run: Run, actor: str) -> Name:
    try:
        return parse_name(actor, "actor") if actor else run.settings.us
    except NameRefused as refused:
        raise UsageError(refused.text, refused.hint) from None


def _perform(
    run: Run, executor: Executor, facts: Facts | OwnFacts, outcome: Plan | tuple[Refusal, ...], given: Sequence[Text]
) -> None:
    """Perform what was planned; a rule that forbids it, and a secret in what was ``given``, raise :class:`Refused`."""
    words = [*given, *([quoted_of(facts)] if isinstance(facts, Facts) else [])]
    if isinstance(outcome, Plan) and (secret := check_plan(outcome, run.settings, sources_of(facts), words)):
        outcome = (secret,)
    if not isinstance(outcome, Plan):
        whole = joined([*given, *sources_of(facts)])
        found = [clean_refusal(one, run.settings, whole) for one in outcome]
        said = "; ".join(f"{one.rule}: {one.reason}" for one in found)
        raise Refused(f"{facts.source}: {said}", "; ".join(dict.fromkeys(one.remedy for one in found if one.remedy)))
    executor.perform(outcome)


def decide_now(
    run: Run,
    thread: str,
    make: Make,
    *,
    actor: str = "",
    body: str = "",
    head: str = "",
    at: datetime | None = None,
    waited: bool = False,
    commit: Commit | None = None,
) -> None:
    """The same in a run that is open; ``at`` is when somebody said it, if they did; it may have ``waited`` for origin.

    Raises :class:`Refused` with the rule that forbids it, and where the branch moved since it was shown; ``head``
    is the one that it is about, where that was said.
    """
    deciding = _deciding(run, make, actor, body)._replace(at=at, head=head, waited=waited)

    def plan(executor: Executor) -> str | None:
        facts = _decide_one(run, executor, deciding, thread)
        if facts is None:
            return "cn: written anew"
        update_queue(run, executor)
        op = make(thread)
        told = format_op(op)[0]
        # The name of the command says it of the others.
        to_peer = isinstance(op, Delegate) and isinstance(facts, Facts) and not run.settings.config.is_actor(op.to)
        ends = " (final, the thread ends and its creator deletes the branch)" if to_peer else ""
        executor.notes.done(f"{facts.source}: {told} by {deciding.who}{ends}{_head_of(facts)}", source=facts.source)
        return f"cn: {facts.source} {one_line(told, 80)} by {deciding.who}"

    try:
        (commit or run.commit)(plan)
    except Overtaken as lost:
        if not run.dry_run:
            log_overtaken(run, lost.row)
        raise


class Chosen(NamedTuple):
    """A thread as somebody was shown it: its file name, or the path of one of our own; what it shows of its branch, and
    the decision that stood there.
    """

    thread: str
    showing: Showing = Showing("")
    decided: Decided = Decided()


def decide_all(hub: Hub, chosen: Sequence[Chosen], make: Make, *, actor: str = "", dry_run: bool = False) -> Report:
    """Decide several threads now, in one commit. One that a rule refuses is named, and takes no other with it."""
    with telling_what_waits(), open_run(hub, dry_run=dry_run) as run:
        waited = run.snapshot.outbox_paths()
        deciding = _deciding(run, make, actor, "")
        overtaken = run.commit_for(lambda executor: _decide_each(run, executor, deciding, dict.fromkeys(chosen)))
        for row in () if dry_run else overtaken:
            log_overtaken(run, row)
        forget_declined(run)
        deliver(run, waited=waited)
    return run.report


def _decide_each(
    run: Run, executor: Executor, deciding: _Deciding, chosen: Iterable[Chosen]
) -> tuple[str | None, list[Row]]:
    """The subject of the commit, and the rows of those that another clone decided first."""
    told, decided, overtaken = "", 0, list[Row]()
    for one in chosen:
        try:
            facts = _decide_one(run, executor, deciding, one.thread, shown=one)
        except Refused as refused:
            executor.notes.refused(refused.text, refused.hint, source=one.thread)
            overtaken += [refused.row] if isinstance(refused, Overtaken) else []
            continue
        if facts is not None:
            told, decided = format_op(deciding.make(one.thread))[0], decided + 1
            executor.notes.done(f"{facts.source}: {told} by {deciding.who}{_head_of(facts)}", source=facts.source)
    update_queue(run, executor)
    return f"cn: {told} for {decided} threads by {deciding.who}" if decided else None, overtaken


class _Deciding(NamedTuple):
    """Who decides what, with which text; ``seen`` is what they could look at, ``head`` what they say it is about."""

    make: Make
    who: Name
    body: str
    seen: Snapshot
    at: datetime | None = None
    head: str = ""
    waited: bool = False


def _deciding(run: Run, make: Make, actor: str, body: str) -> _Deciding:
    if not is_text("".join([actor, body, *format_op(make(""))])):
        raise UsageError("the words hold bytes that are not UTF-8", "write them as UTF-8")
    return _Deciding(make, _actor(run, actor), body, Snapshot(run.hub.git, run.base.local))


def _decide_one(
    run: Run, executor: Executor, deciding: _Deciding, thread: str, *, shown: Chosen | None = None
) -> Facts | OwnFacts | None:
    """Perform the decision of one thread, as it was ``shown`` where it was; None: it had to be written anew first.

    Raises :class:`Refused` before anything of it is performed.
    """
    if not is_text(thread):
        raise UsageError("the words hold bytes that are not UTF-8", "write them as UTF-8")
    op = deciding.make(thread)
    if row := _overtaken(run, executor, deciding.seen, thread, op):
        raise Overtaken(row, f"{row.source}: {row.decision} was {row.executed}", "'cn log' shows what was done")
    said = deciding.body if deciding.at is not None else ""
    facts = _facts(run, executor, thread, _Words(said, waited=deciding.waited))
    if facts is None:
        return None
    if shown is not None and shown.showing.head and isinstance(facts, Facts):
        _require_as_shown(executor, facts, shown)
    if isinstance(facts, Facts):
        words = count_words(facts.text, facts.peer)
        refuse_unseen(run.hub, executor.snapshot, facts.peer, facts.item, deciding.head, words=words)
    artifacts = find_artifacts(executor.snapshot, (op,))
    order = Order(deciding.who, frozenset({thread}), (op,), deciding.body, "", artifacts, deciding.at)
    given = [*(Text("the decision", (word,), 0) for word in format_op(op)), text_of("the text", deciding.body)]
    # The name of a branch is no news to who made it.
    topic = facts.source.partition("/")[2] if isinstance(facts, Facts) else ""
    _perform(run, executor, facts, plan_order(facts, order), unnamed(given, topic))
    return facts


def _require_as_shown(executor: Executor, facts: Facts, shown: Chosen) -> None:
    """Who decides several threads saw what each shows, and what others had decided of it: anything newer is left."""
    if facts.item.head != shown.showing.head:
        now, _ = short_ids([facts.item.head, shown.showing.head])
        raise Refused(f"{facts.source} has moved to {now} since it was shown", "look at it again")
    if showing_of(facts.item) != shown.showing:
        text = f"{facts.source} was shown anew since, at the same head; it is left as it is"
        raise Refused(text, "look at it again")
    working = use_working(executor.hub, facts.thread)
    copies = {str(facts.thread): working} if working is not None and may_decide(working) else {}
    written = read_copies(executor, copies).get(facts.thread)
    stands = decided_of(facts.item, written, known=facts.peer in facts.peers)
    if stands != shown.decided:
        what = f"decided since it was shown: {one_line(stands.words, 200)}" if stands.text or stands.problem else ""
        what = what or "changed since it was shown: what was decided there was taken out"
        raise Refused(f"{facts.source} is left as it is, {what}", "look at it again; named, it is decided otherwise")


def _head_of(facts: Facts | OwnFacts) -> str:
    """The head that was decided about, for who reads what was done; a thread of our own has none."""
    return f"; head {facts.item.head[:8]}" if isinstance(facts, Facts) else ""


def _overtaken(run: Run, executor: Executor, seen: Snapshot, thread: str, op: Op) -> Row | None:
    """The row of a decision about what waits here, and ended in main by what another clone did."""
    path = find_own(executor, thread)
    if path is not None:
        texts = [one.read(path) for one in (seen, executor.snapshot)]
        before, now = (
            parse_own(path, text.decode("utf-8", "surrogateescape")) if text is not None else None for text in texts
        )
        if not (before and before.pending) or (now and now.pending):
            return None
        row = Row(executor.now, before.source, "", "", path, outcome=OVERTAKEN)
        first = ""
    else:
        try:
            peer, item = find_pending(seen, thread)
        except NoThread:
            return None
        name = ThreadName(item.get("thread"))
        if any(other.get("thread") == name for _, other in executor.snapshot.pending()):
            return None
        source = f"{peer}/{item.topic}"
        row = Row(executor.now, source, "", "", name, item.get("branch"), item.head, OVERTAKEN)
        first = decided_first(run, executor.snapshot, name)
    key, value = format_op(op)
    reason = value.partition("|")[2].strip("|")
    decision = without_secrets(one_line(f"{key}:{reason}" if reason else key, 200), run.settings)
    told = f"not carried out: another clone was first{f' with {first}' if first else ''}"
    return row._replace(decision=decision, executed=told)


class _Words(NamedTuple):
    """What a command says, if it says something; about which ``head``, where that was named. ``waited`` for origin."""

    text: str
    head: str = ""
    decides: bool = True
    waited: bool = False


_SAY_AGAIN = ANEW_WITH_WORDS.replace("decide again", "say it again")


def _facts(run: Run, executor: Executor, thread: str, words: _Words) -> Facts | OwnFacts | None:
    """Of a thread that may be decided; None: it had to be written anew first, and nothing was decided, or said.

    Raises :class:`Refused` in that case where what somebody says ``waited``, so that it goes on waiting.
    """
    own = find_own(executor, thread)
    if own is not None:
        return OwnFacts(run.settings.config, run.settings.peers, use_own(executor, own), executor.now, run.machine)
    peer, item = find_pending(executor.snapshot, thread)
    now = executor.item(peer, IN, item.topic) or item
    name = ThreadName(now.get("thread"))
    path, working, source = inbox_path(name), use_working(run.hub, name), f"{peer}/{now.topic}"
    goes = _goes_all_the_same(executor, now, working, words)
    if why := renew_stale(executor, peer, now, working, "" if goes else words.text):
        executor.perform(plan_renewed(peer, now, executor.now, why))
        if goes:
            executor.notes.info(f"{source}: {why.removeprefix('void: ')}; it is written anew", source=source)
            return replace(inbox_facts(run, executor, peer, now), by_hand=True)
        told = f"{source}: {rules.VALID_TRIAGE}: {why}"
        if words.waited:
            raise Refused(told, "'cn inbox process' writes it anew, and the run after it says this")
        # They are quoted in the thread, and nobody looks for secrets there.
        if secret := check_texts(unnamed([text_of("the text", words.text)], now.topic), run.settings):
            raise Refused.by(secret)
        fresh = executor.read(path)
        if working is not None and fresh == executor.snapshot.read(path):  # no commit brings it here
            executor.perform(Plan(source, (WriteHere(path, fresh),)))
        nothing, again = ("; nothing was said", _SAY_AGAIN) if words.text else ("", ANEW)
        executor.notes.refused(f"{told}{nothing}", again, source=source)
        return None
    return replace(inbox_facts(run, executor, peer, now), by_hand=True)


def _goes_all_the_same(executor: Executor, item: Item, working: Working | None, words: _Words) -> bool:
    """Is what is said no decision, about the branch as it is, and stands none in the file that would be void?

    Then what the file lacks, such as a colleague's words, holds nothing back.
    """
    path = inbox_path(ThreadName(item.get("thread")))
    found = working or Working(path, executor.snapshot.read(path) or b"")
    if words.decides or shows_triage(found):
        return False
    return bool(words.head) or seen_head(lenient_text(found.data)) == item.head
