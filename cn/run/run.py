"""The frame of every run: lock, recover, find main, read the configuration, commit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from cn.git.entries import read_index
from cn.git.environment import quote_path
from cn.git.objects import reading
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.peers_file import PATH as PEERS
from cn.run.executor import MACHINE_LOG, Executor
from cn.run.interrupted import opened
from cn.run.ledger_check import check_ledgers, note_ledgers
from cn.run.memory import Condition, Memory
from cn.run.settings import Settings, decode_texts, from_origin, not_in_effect, parse_settings, read_head_settings
from cn.run.snapshot import Snapshot
from cn.system.clock import now
from cn.transaction.base import Base, observe_base
from cn.transaction.checkout import IN_ITS_PLACE, LAYOUT
from cn.transaction.commit import Draft, build, commit, displaced_words, recover
from cn.transaction.housekeeping import rotate_log, sweep_failed
from cn.transaction.lock import hub_lock
from cn.transaction.mailbox_main import PATH as PUBLISHED
from cn.transaction.pins import clone_id
from cn.transaction.publish import wait_for_place
from cn.transaction.unplaced import read_left
from cn.values.errors import Blocked, CnError, ConfigError, LockHeld
from cn.values.names import Oid
from cn.values.report import Mark, Progress, Report
from cn.values.text import visible

T = TypeVar("T")


@dataclass
class Run:
    """One run on a locked hub (or, in a dry run, on a hub whose objects go to a throw-away folder).

    ``moved``: it has made a commit, which stays. ``made`` are the commits it was about to publish, ``down``
    the remotes that did not answer, with the reason. ``offline``: it asks nobody.
    """

    hub: Hub
    base: Base
    settings: Settings
    memory: Memory
    report: Report
    dry_run: bool
    progress: Progress | None = None
    down: dict[str, str] = field(default_factory=dict)
    moved: bool = False
    made: set[Oid] = field(default_factory=set)
    offline: bool = False
    _placed: Base | None = None
    _snapshot: Snapshot | None = None
    _machine: str = ""

    @property
    def now(self) -> datetime:
        """When the run began."""
        return self.memory.at

    @property
    def machine(self) -> str:
        """The name of this clone in claims; a dry run makes none."""
        self._machine = self._machine or clone_id(self.hub, make=not self.dry_run) or "this-clone"
        return self._machine

    def executor(self, base: Base) -> Executor:
        """An executor on ``base`` that has performed nothing."""
        settings, snapshot = self.settings, self.snapshot(base)
        if self.offline:
            # What peers may read is published by a run that asks origin: two clones would differ.
            settings = settings._replace(config=settings.config._replace(mailbox=""))
        return Executor(self.hub, settings, snapshot, self.now, base, self.memory, dry_run=self.dry_run)

    @property
    def placed(self) -> Base:
        """Whose files the work tree has: a dry run goes on from commits that it does not bring there."""
        return self._placed or self.base

    def snapshot(self, base: Base | None = None) -> Snapshot:
        """The commit of ``base`` (this run's if not given) for reading; cached."""
        commit = (base or self.base).tip
        if self._snapshot is None or self._snapshot.commit != commit:
            self._snapshot = Snapshot(self.hub.git, commit)
        return self._snapshot

    def _read_settings(self, base: Base) -> None:
        """The configuration of ``base``; peers whose records are damaged stay out of the run."""
        snapshot = self.snapshot(base)
        snapshot.look_ahead()
        try:
            texts = decode_texts(snapshot.read(CONFIG), snapshot.read(PEERS))
            settings = parse_settings(self.hub, *texts)
        except ConfigError as error:
            raise from_origin(self.hub, error) if base.local != base.tip else error from None
        shown = set(snapshot.damaged) if snapshot.open_items else set()  # the status sees these by itself
        check_ledgers(snapshot, self.memory, self.report)
        damaged = snapshot.damaged
        hidden = {
            str(peer): Condition(f"{peer} is left out: {why}", "see 'cn doctor'")
            for peer, why in damaged.items()
            if peer not in shown
        }
        self.memory.conditions.replace("damaged", hidden)
        for peer, reason in damaged.items():
            told_before = not self.memory.tell_once("damaged", peer, reason)
            hint = "'cn doctor' tells how to mend it; the other peers go on"
            self.report.failed(f"{peer} is left out: {reason}", hint, source=peer, told_before=told_before)
        behind = Snapshot(self.hub.git, base.local) if base.local != base.tip else snapshot
        for draft in not_in_effect(self.hub, snapshot, behind):
            told_before = not self.memory.tell_once("draft", draft.source, str(base.tip))
            self.report.info(f"{draft.text}; {draft.remedy}", told_before=told_before)
        self.memory.conditions.replace("displaced", find_displaced(self.hub, snapshot))
        self.settings = settings._replace(peers={n: p for n, p in settings.peers.items() if n not in damaged})

    def commit(self, plan: Callable[[Executor], str | None]) -> None:
        """Plan on the base, commit, and report what the last plan noted.

        ``plan`` fills the executor and returns the subject of the commit. It is called again, with an empty
        executor on the new base, when main moved meanwhile: so it changes nothing else.
        """
        self.commit_for(lambda executor: (plan(executor), None))

    def commit_for(self, plan: Callable[[Executor], tuple[str | None, T]]) -> T:
        """:meth:`commit` with a plan that returns a result too: that of the last attempt."""
        if self.dry_run:
            return self._rehearse(plan)
        attempts: list[tuple[Executor, T, Draft | None]] = []
        before = self.memory.checkpoint()

        def draft(base: Base) -> Draft | None:
            self.memory.rollback(before)
            if base.tip != self.base.tip:
                self._read_settings(base)
            self.base = base
            executor = self.executor(base)
            subject, result = plan(executor)
            for path in executor.withheld:
                text = f"{path}: what looks like a secret is masked in it"
                executor.notes.info(f"{text}; the whole is in {executor.kept_in(path)}")
            made = executor.draft(subject or "cn: run")
            attempts.append((executor, result, made))
            return made

        try:
            committed = commit(self.hub, draft, base=self.base, made=self.made)
        except BaseException:
            self.memory.rollback(before)  # what was not shown is told by the next run
            raise
        executor, result, made = attempts[-1]
        self.moved |= committed.changed
        for line in committed.reports:
            self.report.info(line)
        if reason := committed.unpushed:
            told_before = not self.memory.tell_once("pins", reason)
            self.report.info(f"origin did not take cn's pins: {reason}", told_before=told_before)
        self.report.notes.extend(executor.notes.notes)
        if committed.base is not self.base:  # somebody's commit came in after the plan
            self._read_settings(committed.base)
        origin = committed.commit if self.hub.origin else self.base.origin  # what the next push expects there
        self.base = self.base._replace(tip=committed.commit, local=committed.commit, origin=origin)
        note_ledgers(self.snapshot(), self.memory, (c.path for c in made.changes) if made else ())
        return result

    def _rehearse(self, plan: Callable[[Executor], tuple[str | None, T]]) -> T:
        """Show a plan, and build its commit in the throw-away folder: what follows plans on that."""
        executor = self.executor(self.base)
        subject, result = plan(executor)
        draft = executor.draft(subject or "cn: run")
        for cause, text, paths, rows in executor.steps:
            logged = tuple((row.source, row.decision, row.executed) for row in rows)
            self.report.plan(f"{cause}: {text}", source=cause, paths=paths, rows=logged)
        if draft is not None and draft.extra_parents:
            self.report.plan(f"publish main at {self.settings.mailbox}", paths=(PUBLISHED,))
        shown = (Mark.REFUSED, Mark.FAILED, Mark.INFO)
        self.report.notes.extend(note for note in executor.notes.notes if note.mark in shown)
        if draft is not None:
            self._placed = self.placed
            self.base = self.base._replace(tip=build(self.hub, draft, scratch=True))
        return result


def find_displaced(hub: Hub, snapshot: Snapshot) -> dict[str, Condition]:
    """Links and files in main where folders of cn belong.

    Nothing is brought there. Where cn alone writes, its next commit takes the place; where people write
    too, nothing is taken out of main unseen.
    """
    found = {}
    for folder in sorted(LAYOUT):
        above, _, name = folder.rpartition("/")
        for entry in snapshot.folder(above):
            if entry.path == name and entry.kind != "tree":
                found[folder] = Condition(*displaced_words(hub, folder, entry.mode))
    return found


def find_unplaced(hub: Hub) -> dict[str, Condition]:
    """Where the work tree is behind main, since cn could not write there: one for each folder and reason."""
    files = read_left(hub)
    groups: dict[tuple[str, str], list[str]] = {}
    for path in sorted(files):
        folder = path.rpartition("/")[0] or "."
        groups.setdefault((folder, files[path].reason), []).append(path)
    found = {}
    for (folder, reason), paths in groups.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        text = f"the work tree is behind main at {visible(paths[0])}{more}: {reason}"
        blocked = reason.endswith(IN_ITS_PLACE)
        move = f"move {reason.removesuffix(IN_ITS_PLACE).strip()} out of the way"
        remedy = move if blocked else f"let cn write in {visible(folder)}/"
        found[f"{folder} {reason}"] = Condition(text, f"{remedy}; the next run brings it there")
    return found


def scratch_objects(hub: Hub, folder: str) -> Hub:
    """The hub with new objects going to ``folder``, so that looking leaves nothing behind."""
    hubs = os.fsdecode(quote_path(hub.git_dir / "objects"))
    return hub.with_git(hub.git.with_env(GIT_OBJECT_DIRECTORY=folder, GIT_ALTERNATE_OBJECT_DIRECTORIES=hubs))


@contextmanager
def open_run(
    hub: Hub, report: Report, *, dry_run: bool = False, progress: Progress | None = None, offline: bool = False
) -> Iterator[Run]:
    """Lock, recover, and observe main. A dry run does neither of the first two.

    ``offline``: work on local main without asking origin; the next run brings the two together.
    """
    with _handing_over(report), ExitStack() as stack:
        with _noting(hub, dry_run, CnError, OSError):
            hub = hub.with_git(stack.enter_context(reading(hub.git)))
            free, settings = read_head_settings(replace(hub, origin=False) if offline else hub)
            place = _scratch(free) if dry_run else hub_lock(free, settings.config.lock_wait)
            hub = stack.enter_context(place)
        with _noting(hub, dry_run, CnError, OSError):
            if dry_run:  # its objects go elsewhere
                hub = hub.with_git(stack.enter_context(reading(hub.git)))
            base = _find_base(hub, report, dry_run)
            memory = Memory(hub, now())
            run = Run(hub, base, settings, memory, report, dry_run, progress, offline=offline)
            opened.append((free, run.made))
            run._read_settings(base)
        # Once the run is open, what a command refuses is its own answer, and stops no other run.
        with _noting(hub, dry_run, Blocked, GitError, OSError), _remembering(run):
            yield run
            _check_end(run)


def run_once(hub: Hub, plan: Callable[[Run, Executor], str | None], *, dry_run: bool) -> Report:
    """A run of one commit (:meth:`Run.commit`), as most commands of a person are; what it reports."""
    report = Report()
    with open_run(hub, report, dry_run=dry_run) as run:
        run.commit(lambda executor: plan(run, executor))
    return report


@contextmanager
def _handing_over(report: Report) -> Iterator[None]:
    """Give what the run had to tell to the error that ends it: it is told once, and would be lost."""
    try:
        yield
    except CnError as error:
        error.report = report
        raise


@contextmanager
def _scratch(hub: Hub) -> Iterator[Hub]:
    with tempfile.TemporaryDirectory(prefix="cn-dry-run-") as folder:
        yield scratch_objects(hub, folder)


@contextmanager
def _noting(hub: Hub, dry_run: bool, *stops: type[Exception]) -> Iterator[None]:
    """Note what stops a run, one of ``stops``: for ``cn status``, and to be told once."""
    try:
        yield
    except (LockHeld, BrokenPipeError):
        raise
    except stops as why:
        error = Blocked.by_system(why) if isinstance(why, OSError) else why
        if not isinstance(error, CnError):
            raise
        memory = Memory(hub, now())
        new = memory.note_stop(*error.plain, type(error).__name__)
        error.told_before = not (new or error.finished)
        if not dry_run:
            with suppress(CnError, OSError):
                sweep_failed(hub)  # on a full disk it makes the room for the note
            with suppress(Blocked):  # the disk may be what stops it
                memory.save()
        raise error from why.__cause__


def _find_base(hub: Hub, report: Report, dry_run: bool) -> Base:
    """Finish what a killed run left, and find out what main is."""
    if not dry_run:
        for line in recover(hub):
            report.info(line)
        rotate_log(hub.root / MACHINE_LOG)
    base = observe_base(hub, dry_run=dry_run)
    for line in base.reports:
        report.info(line)
    return base


@contextmanager
def _remembering(run: Run) -> Iterator[None]:
    """Save the memory however the run ends. An error that came after its commit says that this is done."""
    try:
        yield
    except BaseException as why:
        late = Blocked.by_system(why) if isinstance(why, OSError) else why
        if run.moved and isinstance(late, (Blocked, GitError)):
            late.is_done("main")
        with suppress(Blocked):  # what ended the run says more than a full disk
            _save(run)
        if late is why:
            raise
        raise late from why.__cause__
    _save(run)


def _save(run: Run) -> None:
    if run.dry_run:
        return
    try:
        run.memory.save()
    except Blocked as why:
        if run.moved:
            why.is_done("main")
        raise


def _check_end(run: Run) -> None:
    """Report where main and the work tree are not as they must be, and note that a run works again."""
    conditions = run.memory.conditions
    if conditions.names("displaced"):
        conditions.tell("displaced", find_displaced(run.hub, run.snapshot()), run.report)
    if run.dry_run:
        return
    if run.memory.stopped or any(note.mark is Mark.FAILED for note in run.report.notes):
        sweep_failed(run.hub)
    conditions.tell("unplaced", find_unplaced(run.hub), run.report)
    # One that asks nobody cannot tell whether origin answers again, and one that had nothing to write did
    # not meet what stopped the last one.
    if run.memory.stopped and not run.offline:
        with suppress(Blocked, GitError):
            wait_for_place(run.hub, 0.0)
            read_index(run.hub.git)
            run.memory.stopped.clear()
