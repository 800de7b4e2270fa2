"""What a person says while origin does not take it: it waits in main here until a run reaches origin."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from cn.git.objects import is_ancestor
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol.draft import ABOUT_THREADS, Draft, format_draft, parse_draft
from cn.protocol.effects import Drop, Plan, Put, WorkingCopy
from cn.protocol.layout import KEPT_BY_MAIN
from cn.run.executor import Executor
from cn.run.find_thread import look_for_pending
from cn.run.run import Run, open_run
from cn.run.snapshot import Snapshot
from cn.threads.drafts import Kept, list_drafts, read_draft
from cn.transaction.base import NotAtOrigin, OriginRefused
from cn.transaction.journal import push_path
from cn.transaction.protected_files import is_made_here
from cn.values.errors import Blocked, CnError, Refused
from cn.values.names import HubPath, Oid, is_oid
from cn.values.record_header import RecordRefused
from cn.values.report import Progress, Report

Planner = Callable[[Executor], str | None]
Commit = Callable[[Planner], None]
"""Makes one commit of what a planner performs: :meth:`~cn.run.run.Run.commit`, or a part of it."""


Say = Callable[[Run, Draft, Commit], None]
"""Plans what a draft says, and commits it."""
First = Callable[[Run], None]
"""Says what waits, in the order in which it was written."""


def say_now_or_later(
    hub: Hub, draft: Draft, say: Say, *, dry_run: bool, waiting: Progress | None = None, first: First | None = None
) -> Report:
    """Say and deliver it; where origin does not take it, look whether it would be said, and let it wait.

    ``waiting`` is told who is waited for, where a run that waits for remotes has the hub: words are not given up then.
    ``first`` says what waits already: nothing overtakes that.

    Raises :class:`Refused` with the rule that forbids it.
    """
    saying = _Saying()
    try:
        # What others decided matters to all but a message.
        with open_run(hub, dry_run=dry_run, hope=draft.act == "send", waiting=waiting) as run:
            waited = run.snapshot.outbox_paths()
            same, came = _waiting_already(run, draft), _has_come(run, draft)
            if first is not None and list_drafts(run.snapshot):
                run.ask_origin()
                with saying.noting(run, same[0].path if same else None):
                    first(run)
            if came and not same:
                run.report.info(f"the {draft.what} had come to origin; it goes once", source=draft.to)
                saying.said = True
            elif same and run.snapshot.blob(same[0].path) is None:
                saying.said = True  # it was one of those
            elif same:
                kept, draft = same
                say(run, draft, lambda plan: saying.commit(run, part_of(run, kept, draft, plan)))
            else:
                say(run, draft, lambda plan: saying.commit(run, plan))
            deliver(run, waited=waited)
        return run.report
    except NotAtOrigin as why:
        if saying.said:
            raise
        stopped = why
    except (Blocked, GitError) as why:
        if not saying.said:
            again = ", if 'cn log' does not show it" if saying.tried else ""
            lost = f"the {draft.noun} is not kept: say it again then{again}"
            why.hint = "; ".join(filter(None, (why.hint, lost)))
        raise
    with open_run(hub, dry_run=dry_run, offline=True, waiting=waiting) as run:
        if same := _waiting_already(run, draft):
            told = f"the very same {draft.what} waits already, as {same[0].path}"
            run.report.info(f"{told}; it goes once", source=draft.to)
        tried = {*(same[1].tried.split() if same else ()), *saying.tried}
        draft = replace(same[1] if same else _behind_others(run, draft), tried=" ".join(sorted(tried)))
        say(run, draft, lambda plan: _try(run, plan))
        if same:
            run.commit(lambda executor: _keep(executor, draft, same[0]))
        else:
            run.commit(lambda executor: _keep(executor, _as_seen(run, draft)))
        run.memory.note_stop(stopped.plain[0], stopped.step, type(stopped).__name__)
    if not run.dry_run:
        waits = f"{stopped.plain[0]}; the {draft.noun} waits here, and goes when origin"
        if isinstance(stopped, OriginRefused):
            run.report.failed(f"{waits} takes it", stopped.step, source=draft.to)
        else:
            run.report.info(f"{waits} answers", source=draft.to)
    return run.report


_SOON = timedelta(minutes=1)


@contextmanager
def telling_what_waits(nothing: str = "nothing was decided") -> Iterator[None]:
    """Where origin does not take what is decided: ``nothing`` came of it, and which commands wait for origin."""
    try:
        yield
    except NotAtOrigin as why:
        if why.hint.startswith("nothing was committed"):  # else somebody must look whether origin has it
            why.hint = f"{nothing}; {why.step}; {_WAIT}"
        raise


_WAIT = "what 'cn send', 'cn reply', 'cn comment', 'cn adhoc' and 'cn inbox triage' write waits here, and goes then"


@dataclass
class _Saying:
    """``said``: main has it. ``tried`` are commits with it of which nobody knows whether origin took them."""

    said: bool = False
    tried: set[Oid] = field(default_factory=set)

    @contextmanager
    def noting(self, run: Run, path: HubPath | None) -> Iterator[None]:
        """While what waits is said: a commit that ended the draft at ``path`` has it."""
        try:
            yield
        except NotAtOrigin:
            if path is not None:
                self.tried |= {one for one in _unknown(run) if Snapshot(run.hub.git, one).blob(path) is None}
            raise

    def commit(self, run: Run, plan: Planner) -> None:
        before = set(run.made)
        try:
            run.commit(plan)
        except CnError as why:
            self.said = why.finished  # origin has it; what came after it could not be done
            raise
        finally:
            self.tried |= _unknown(run) - before
        self.said = True


def _unknown(run: Run) -> set[Oid]:
    """The commits of a run of which nobody knows whether origin took them."""
    return {one for one in run.made if os.path.lexists(push_path(run.hub, one))}


def _as_seen(run: Run, draft: Draft) -> Draft:
    """With what it is about as it is now: it may be another matter when origin answers."""
    with suppress(Refused):
        if draft.act in ABOUT_THREADS and (found := look_for_pending(run.snapshot, draft.to)):
            return replace(draft, thread=found[1].get("thread"), head=found[1].head, called=draft.to)
    return draft


def is_as_seen(run: Run, draft: Draft) -> bool:
    """Is the thread that waits under this name the one that it is about, at the head that was seen?"""
    found = look_for_pending(run.snapshot, draft.to) if draft.head else None
    return found is None or (found[1].get("thread"), found[1].head) == (draft.thread, draft.head)


def _behind_others(run: Run, draft: Draft) -> Draft:
    """It goes after what waits already, also where all of it was said within a second: their files tell the order."""
    latest = max(list_drafts(run.snapshot), default=HubPath(""))
    while draft.path <= latest and draft.written - run.now < _SOON:
        draft = replace(draft, written=draft.written + timedelta(seconds=1))
    return draft


def _try(run: Run, plan: Planner) -> None:
    """Let a planner refuse; what it performs is thrown away."""
    plan(run.executor())


def _keep(executor: Executor, draft: Draft, before: Kept | None = None) -> str:
    path = before.path if before else draft.path
    if before is None or before.data != format_draft(draft):
        executor.perform(Plan(draft.to, (Put(path, format_draft(draft).decode()),)))
    return f"cn: {draft.what} waits for origin"


def _has_come(run: Run, draft: Draft) -> bool:
    """Had this clone the very same words as a draft, before origin's main was taken in, and has that one of the commits
    of which nobody knew whether origin took them?
    """
    here = Snapshot(run.hub.git, run.base.local)
    for path in list_drafts(here) if run.base.local != run.base.tip else ():
        with suppress(Refused, RecordRefused):
            waits = parse_draft(here.read(path) or b"")
            if is_same(waits, draft) and is_said(run, waits) and is_made_here(run.hub, run.base.local, path):
                return True
    return False


def is_same(one: Draft, other: Draft) -> bool:
    """Do both say the very same words of the same?"""
    return (one.act, one.to, one.text, one.actor) == (other.act, other.to, other.text, other.actor)


def _waiting_already(run: Run, draft: Draft) -> tuple[Kept, Draft] | None:
    """The draft that waits with the very same words for the same, as nobody has touched it since."""
    for path in list_drafts(run.snapshot):
        with suppress(Refused, RecordRefused):
            kept = read_draft(run.hub, run.snapshot, path, run.placed)
            waits = parse_draft(kept.data)
            if is_same(waits, draft) and kept.here == kept.data and is_made_here(run.hub, run.snapshot.commit, path):
                return kept, waits
    return None


def part_of(run: Run, kept: Kept, draft: Draft, plan: Planner) -> Planner:
    """The planner of what a draft says, together with the end of the draft; it does nothing where it was said."""

    def whole(executor: Executor) -> str | None:
        if executor.snapshot.blob(kept.path) is None:
            return None  # another clone said it, and was first at origin
        executor.perform(Plan(kept.path, _end(kept)))
        if is_said(run, draft):
            executor.notes.info(f"the {draft.what} had come to origin; it goes once")
            return f"cn: {draft.what} had come to origin"
        return plan(executor)

    return whole


def _end(kept: Kept) -> tuple[WorkingCopy | Drop, ...]:
    edited = kept.here is not None and kept.here != kept.data
    return (*((WorkingCopy(kept.path, kept.here or b""),) if edited else ()), Drop(kept.path))


def take_back(run: Run, kept: Kept) -> None:
    """Drop a draft that a person has removed here."""
    late = False
    with suppress(RecordRefused):
        late = is_said(run, parse_draft(kept.data))

    def plan(executor: Executor) -> str | None:
        if executor.snapshot.blob(kept.path) is None:
            return None
        executor.perform(Plan(kept.path, _end(kept)))
        here = f"was removed here: it is not said; {KEPT_BY_MAIN}"
        text = "had come to origin before it was removed here" if late else here
        executor.notes.info(f"{kept.path} {text}")
        return f"cn: {kept.path.rpartition('/')[2]} is taken back"

    run.commit(plan)


def is_said(run: Run, draft: Draft) -> bool:
    """Has main one of the commits of which nobody knew whether origin took them?"""
    return any(is_ancestor(run.hub.git, Oid(one), run.base.tip) for one in draft.tried.split() if is_oid(one))
