"""The frame of every run: lock, recover, find main, read the configuration, commit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cn.git.entries import read_index
from cn.git.environment import quote_path
from cn.git.filters import FILTER, mend_filter
from cn.git.list_and_fetch import Fetched
from cn.git.needed_rights import remedy_of_denied
from cn.git.objects import list_tree, read_objects, reading
from cn.git.process import GitError
from cn.git.remote import Listing, Looked, in_the_way, is_trouble_of_host
from cn.git.repository import Hub
from cn.git.ssh_logins import shared_logins
from cn.protocol import ledger
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.ledger import LedgerRefused
from cn.protocol.peers_file import PATH as PEERS
from cn.run.executor import MACHINE_LOG, Executor
from cn.run.interrupted import note_unanswered, opened
from cn.run.links import by_links
from cn.run.memory import Condition, Memory
from cn.run.settings import MAILBOX_KEY, Settings, from_origin, not_in_effect, parse_settings, read_head_settings
from cn.run.snapshot import Snapshot
from cn.system.clock import now
from cn.system.closed import blocked_by
from cn.transaction.base import Base, OriginDeclined, OriginRefused, observe_base
from cn.transaction.checkout import IN_ITS_PLACE, LAYOUT
from cn.transaction.commit import Draft, build, commit, displaced_words
from cn.transaction.housekeeping import sweep_failed
from cn.transaction.lock import hub_lock
from cn.transaction.mailbox_main import PATH as PUBLISHED
from cn.transaction.publish import recover, rotate_log, wait_for_place
from cn.transaction.push import UNCONFIRMED, clone_id, unpushed_path
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Blocked, CnError, ConfigError, LockHeld, NotShown
from cn.values.names import Name, Oid, is_oid
from cn.values.report import Mark, Progress, Report
from cn.values.shell_words import command
from cn.values.text import visible

T = TypeVar("T")
PINS = "pins"
"""The kind of condition that origin has not all of cn's refs."""
_PINS_STAY = "pins stay in this clone, and only here they keep reviewed commits alive"
_TRIED_AGAIN = "no right is missing, as far as origin told: they go with the next push"
_TAKE_PINS = "let this clone create, force and delete refs/cn/* at origin; they go with its next push"


@dataclass
class Run:
    """One run on a locked hub (or, in a dry run, on a hub whose objects go to a throw-away folder).

    ``moved``: it has made a commit, which stays. ``made`` are the commits it was about to publish, ``down``
    the remotes that did not answer, with the reason. ``listed`` is what remotes, by key and URL, listed just
    before it began, ``heads`` what peers' hubs, by URL, listed since. ``offline``: it asks nobody. ``kind``: what
    comes again by itself, ``sync`` or ``process``; empty: a command of a person.
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
    listed: Mapping[tuple[str, str], Listing] = field(default_factory=dict)
    heads: dict[str, Listing] = field(default_factory=dict)
    offline: bool = False
    kind: str = ""
    _machine: str = ""

    def __post_init__(self) -> None:
        self._told = {*self.base.reports}  # when the run was opened
        self.now = self.memory.at
        """When the run began."""
        self.snapshot = Snapshot(self.hub.git, self.base.tip)
        """The commit of ``base``, for reading."""
        self.placed = self.snapshot
        """That of which the work tree has the files: a dry run goes on from commits that it does not bring there."""

    @property
    def machine(self) -> str:
        """The name of this clone in claims; a dry run makes none."""
        self._machine = self._machine or clone_id(self.hub, make=not self.dry_run) or "this-clone"
        return self._machine

    def _go_on_from(self, base: Base) -> None:
        if base.tip != self.base.tip:
            self.snapshot = Snapshot(self.hub.git, base.tip)
            self.placed = self.placed if self.dry_run else self.snapshot
        self.base = base

    def ask_origin(self) -> None:
        """Go on from what origin's main is now, where the run began with what this clone last knew of it."""
        if not self.base.asked:
            base = observe_base(self.hub)
            for line in base.reports:
                self.report.info(line)
            self._go_on_from(base)
            self._read_settings()

    def executor(self) -> Executor:
        """An executor on ``base`` that has performed nothing."""
        settings = self.settings
        if self.offline:
            # What peers may read is published by a run that asks origin: two clones would differ.
            settings = settings._replace(separate_mailbox=False)
        return Executor(self.hub, settings, self.snapshot, self.base, self.memory, dry_run=self.dry_run)

    def _read_settings(self) -> None:
        """The configuration; peers whose records are damaged stay out of the run."""
        base, snapshot = self.base, self.snapshot
        snapshot.look_ahead()
        try:
            settings = parse_settings(self.hub, snapshot.read(CONFIG), snapshot.read(PEERS), self.settings)
        except ConfigError as error:
            raise from_origin(self.hub, error, base.tip) if base.local != base.tip else error from None
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
            told_before = self.memory.told("damaged", peer, reason)
            hint = "'cn doctor' tells how to mend it; the other peers go on"
            self.report.failed(f"{peer} is left out: {reason}", hint, source=peer, told_before=told_before)
        behind = Snapshot(self.hub.git, base.local) if base.local != base.tip else snapshot
        for draft in () if self.hub.apart else not_in_effect(self.hub, snapshot, behind):
            told_before = self.memory.told("draft", draft.source, str(base.tip))
            self.report.info(f"{draft.text}; {draft.remedy}", told_before=told_before)
        self.memory.conditions.replace("displaced", find_displaced(self.hub, snapshot))
        if damaged:  # what is left is not what the files say
            peers = {n: p for n, p in settings.peers.items() if n not in damaged}
            settings = settings._replace(peers=peers, files=None)
        self.settings = by_links(settings, snapshot)
        self.memory.know_hubs(self.settings.hubs)

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
            if attempts:
                self.memory.rollback(before)
            moved = base.tip != self.base.tip
            self._go_on_from(base)
            if moved:
                self._read_settings()
            executor = self.executor()
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
            if line not in self._told:
                self.report.info(line)
        self._note_pins(committed.unpushed)
        self.report.notes.extend(executor.notes.notes)
        if committed.base is not self.base:  # somebody's commit came in after the plan
            self._go_on_from(committed.base)
            self._read_settings()
        origin = committed.commit if self.hub.origin else self.base.origin  # what the next push expects there
        asked = self.base.asked or committed.commit != committed.base.origin  # else that one was pushed
        after = self.base._replace(tip=committed.commit, local=committed.commit, origin=origin, asked=asked)
        self._go_on_from(after)
        note_ledgers(self.snapshot, self.memory, (c.path for c in made.changes) if made else ())
        return result

    def _note_pins(self, reason: str) -> None:
        """Where origin takes no refs of cn's: told once, and shown until it has them."""
        conditions = self.memory.conditions
        if reason:
            taken = command("git push origin :{}", ref) if (ref := in_the_way(reason)) else ""
            no_right = reason.startswith(UNCONFIRMED) or is_trouble_of_host(reason)
            otherwise = _TRIED_AGAIN if no_right else _TAKE_PINS
            step = f"{taken} takes away {ref}, which is in their way; they go with the next push" if ref else otherwise
            told = f"origin did not take cn's pins: {reason}" + (f"; {taken} takes it away" if ref else "")
            self.report.info(told, told_before=bool(conditions.names(PINS)))
            conditions.set(PINS, f"{_PINS_STAY}: {reason}", step, name="origin")
        elif not unpushed_path(self.hub).exists():
            conditions.clear(PINS, "origin")

    def _rehearse(self, plan: Callable[[Executor], tuple[str | None, T]]) -> T:
        """Show a plan, and build its commit in the throw-away folder: what follows plans on that."""
        executor = self.executor()
        subject, result = plan(executor)
        draft = executor.draft(subject or "cn: run")
        for cause, text, paths, rows in executor.steps or ():
            logged = tuple((row.source, row.decision, row.executed) for row in rows)
            self.report.plan(f"{cause}: {text}", source=cause, paths=paths, rows=logged)
        if draft is not None and draft.extra_parents:
            self.report.plan(f"publish main at {self.settings.mailbox}", paths=(PUBLISHED,))
        shown = (Mark.REFUSED, Mark.FAILED, Mark.INFO)
        self.report.notes.extend(note for note in executor.notes.notes if note.mark in shown)
        if draft is not None:
            self._go_on_from(self.base._replace(tip=build(self.hub, draft, scratch=True)))
        return result


def find_displaced(hub: Hub, snapshot: Snapshot) -> dict[str, Condition]:
    """Links and files in main where folders of cn belong.

    Nothing is brought there. Where cn alone writes, its next commit takes the place; where people write
    too, nothing is taken out of main unseen.
    """
    found = snapshot.displaced(sorted(LAYOUT))
    return {folder: Condition(*displaced_words(hub, folder, mode)) for folder, mode in found.items()}


def find_unplaced(hub: Hub) -> dict[str, Condition]:
    """Where the work tree is behind main, since cn could not write there: one for each folder and reason."""
    files = read_unplaced(hub).left
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
        mend = mend_filter(paths[0], reason)
        write = f"let cn write in {visible(folder)}/"
        remedy = move if blocked else mend if FILTER in reason else write
        found[f"{folder} {reason}"] = Condition(text, f"{remedy}; the next run brings it there")
    return found


def scratch_objects(hub: Hub, folder: str) -> Hub:
    """The hub with new objects going to ``folder``, so that looking leaves nothing behind."""
    hubs = os.fsdecode(quote_path(hub.git_dir / "objects"))
    return hub.with_git(hub.git.with_env(GIT_OBJECT_DIRECTORY=folder, GIT_ALTERNATE_OBJECT_DIRECTORIES=hubs))


@contextmanager
def open_run(
    hub: Hub,
    report: Report | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    offline: bool = False,
    known: Settings | None = None,
    hope: bool = False,
    looked: Looked | None = None,
    waiting: Progress | None = None,
    kind: str = "",
    fetched: Callable[[Hub, Settings, Memory], Fetched | None] | None = None,
) -> Iterator[Run]:
    """Lock, recover, and observe main. A dry run does neither of the first two.

    ``report``: to tell it beside what is told already. ``offline``: work on local main without asking origin; the next
    run brings the two together. ``known``: the settings as they were read a moment ago. ``hope``: plan on what
    this clone last knew of origin, for a command that always commits; where that was wrong, it is planned again.
    ``looked``: what remotes listed a moment ago. ``waiting`` is told whom it waits for, and lets it wait for long.
    ``kind``: that of :class:`Run`. ``fetched`` tells what comes with the list of origin's branches.
    """
    report = report if report is not None else Report()
    now()  # by a clock that cannot be right nothing is begun
    with ExitStack() as stack:
        with _noting(hub, report, dry_run, CnError, OSError):
            hub = hub.with_git(stack.enter_context(shared_logins(hub.git)))
            hub = hub.with_git(stack.enter_context(reading(hub.git)))
            free, settings = read_head_settings(
                replace(hub, origin=False) if offline else hub, None if offline else known
            )
            if dry_run:  # its objects go elsewhere
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cn-dry-run-"))
                hub = scratch_objects(free, folder)
            else:
                hub = stack.enter_context(hub_lock(free, settings.config.lock_wait, waiting))
        with _noting(hub, report, dry_run, CnError, OSError):
            if dry_run:
                hub = hub.with_git(stack.enter_context(reading(hub.git)))
            else:
                for line in recover(hub):  # what a killed run left
                    report.info(line)
                rotate_log(hub.root / MACHINE_LOG)
            listed = looked.still(hub.git) if looked is not None else {}
            heads, memory = listed.get((MAILBOX_KEY, "origin")), Memory(hub, now())
            more = fetched(hub, settings, memory) if fetched is not None and hub.origin else None
            base = observe_base(hub, dry_run=dry_run, hope=hope and not dry_run, listed=heads, fetched=more)
            for line in base.reports:
                report.info(line)
            run = Run(hub, base, settings, memory, report, dry_run, progress, listed=listed, offline=offline, kind=kind)
            opened.append((free, run.made))
            run._read_settings()
        # Once the run is open, what a command refuses is its own answer, and stops no other run.
        with _noting(hub, report, dry_run, Blocked, GitError, OSError, kind=kind), _remembering(run):
            yield run
            _check_end(run)


def run_once(hub: Hub, plan: Callable[[Run, Executor], str | None], *, dry_run: bool) -> Report:
    """A run of one commit (:meth:`Run.commit`), as most commands of a person are; what it reports."""
    with open_run(hub, dry_run=dry_run) as run:
        run.commit(lambda executor: plan(run, executor))
    return run.report


@contextmanager
def _noting(hub: Hub, report: Report, dry_run: bool, *stops: type[Exception], kind: str = "") -> Iterator[None]:
    """Note what stops a run, one of ``stops``, or those of a ``kind``: for ``cn status``, and to be told once.

    Every error takes over what the run had to tell: that is told once, and would be lost.
    """
    try:
        yield
    except Exception as why:
        error = _by_system(why)
        if isinstance(error, CnError):
            error.report = report
        if isinstance(why, LockHeld) or not (isinstance(why, stops) and isinstance(error, CnError)):
            raise
        memory = Memory(hub, now())
        new = memory.note_stop(*error.plain, type(error).__name__, kind)
        error.told_before = not (new or error.finished)
        if not dry_run:
            with suppress(CnError, OSError):
                sweep_failed(hub)  # on a full disk it makes the room for the note
            with suppress(Blocked):  # the disk may be what stops it
                memory.save()
        raise error from why.__cause__


Stopped = TypeVar("Stopped", bound=BaseException)


def _by_system(why: Stopped) -> Stopped | Blocked:
    """What ended a run; what the system said no to as an error of cn, but not that nobody takes what it says."""
    told = isinstance(why, (BrokenPipeError, NotShown))
    return blocked_by(why) if isinstance(why, OSError) and not told else why


@contextmanager
def _remembering(run: Run) -> Iterator[None]:
    """Save the memory however the run ends. An error that came after its commit says that this is done."""
    try:
        yield
    except BaseException as why:
        late = _by_system(why)
        if run.moved and isinstance(late, (Blocked, GitError)):
            late.is_done("main")
        if isinstance(why, (KeyboardInterrupt, SystemExit)) and not run.dry_run:
            note_unanswered(run.memory, run.settings.hubs)
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
        conditions.tell("displaced", find_displaced(run.hub, run.snapshot), run.report)
    if run.dry_run:
        return
    if run.memory.stopped or any(note.mark is Mark.FAILED for note in run.report.notes):
        sweep_failed(run.hub)
    conditions.tell("unplaced", find_unplaced(run.hub), run.report)
    # One that asks nobody cannot tell whether origin answers again.
    if run.memory.stopped and not run.offline and _shows_that_it_works(run):
        clear_stop(run.hub, run.memory)


def _shows_that_it_works(run: Run) -> bool:
    """Does what stopped a run stop none any more? Of what stopped a sync within its work only a sync can tell, or a
    commit, which meets the same; but what origin refuses for what is in it, and not for a right, it may refuse still.
    """
    stop = run.memory.stopped
    declined = stop.get("kind") in (OriginRefused.__name__, OriginDeclined.__name__)
    declined = declined and not remedy_of_denied(stop.get("text", ""), "")
    return stop.get("run", "") in ("", run.kind) or (run.moved and not declined)


def clear_stop(hub: Hub, memory: Memory) -> None:
    """Forget what stopped the last run, where main can be moved here now."""
    with suppress(Blocked, GitError):
        wait_for_place(hub, 0.0)
        read_index(hub.git)
        memory.stopped.clear()


def check_ledgers(snapshot: Snapshot, memory: Memory, report: Report) -> None:
    """Check ledgers that this clone did not write against their own history.

    ``open`` is only an index of it, which whoever can push to ``origin`` could change. It is mended in the
    snapshot, and by the next commit of the run; or the peer is damaged. What was checked is remembered by its
    tree, so that a quiet run asks nothing.
    """
    known = memory.section("ledgers")
    now = snapshot.ledgers
    snapshot.read_histories([peer for peer in now if peer not in known])
    for peer, tree in now.items():
        before = known.get(peer)
        if before == tree:
            continue
        if before is None or not _grew_well(snapshot, before, tree):
            _check_whole(snapshot, peer, memory, report)
        if peer not in snapshot.damaged and peer not in snapshot.mended:
            known[peer] = tree


def note_ledgers(snapshot: Snapshot, memory: Memory, paths: Iterable[str]) -> None:
    """Remember the ledgers among ``paths`` as they are: a commit of this clone wrote them."""
    prefix = f"{ledger.FOLDER}/"
    ours = {path.removeprefix(prefix).partition("/")[0] for path in paths if path.startswith(prefix)}
    if ours:
        memory.section("ledgers").update({peer: tree for peer, tree in snapshot.ledgers.items() if peer in ours})


def _grew_well(snapshot: Snapshot, before: Oid, tree: Oid) -> bool:
    """Did the months only grow since ``before``, by events that give the new ``open``?"""
    git = snapshot.git
    if not is_oid(str(before)) or read_objects(git, [before]) == [None]:
        return False  # of an earlier main, and no longer here
    old, new = ({e.path: e.oid for e in list_tree(git, t)} for t in (before, tree))
    months = [name for name in ledger.months(new) if old.get(name) != new[name]]
    if any(name not in new for name in ledger.months(old)):
        return False
    names = [f"{before}:open", f"{tree}:open", *(f"{t}:{m}" for m in months for t in (before, tree))]
    was, now, *contents = [(data or b"") for data in read_objects(git, names)]
    added = ""
    try:
        for one, two in zip(contents[::2], contents[1::2], strict=True):
            before_it, after_it = (ledger.as_written(data.decode()) for data in (one, two))
            if not after_it.startswith(before_it):
                return False
            added += after_it[len(before_it) :]
        items = ledger.parse_open(was.decode())
        wanted = ledger.fold_history(ledger.each_event(added), items)
        return ledger.parse_open(now.decode()) == wanted
    except (LedgerRefused, UnicodeDecodeError):
        return False


def _check_whole(snapshot: Snapshot, peer: Name, memory: Memory, report: Report) -> None:
    """Fold the whole history; ``open`` is that, or is mended. A line that is no event damages the peer."""
    path = ledger.open_path(peer)
    try:
        wanted = ledger.fold_history(ledger.each_event(snapshot.history(peer)))
    except LedgerRefused as refused:
        snapshot.open_items.pop(peer, None)
        snapshot.damaged[peer] = f"its ledger is damaged: {refused.text}"
        return
    if snapshot.open_items.get(peer, {}) == wanted:
        return
    snapshot.mended.add(peer)
    snapshot.damaged.pop(peer, None)
    snapshot.open_items[peer] = wanted
    text = f"{path} was not what the history says; it is written anew from the history"
    report.info(text, told_before=memory.told("mended", peer, str(snapshot.commit)))
