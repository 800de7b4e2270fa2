"""Commit a run: plan, build, push, publish (``docs/protocol/transaction.md``)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from cn.git.entries import (
    LINK,
    OTHER,
    SUBMODULE,
    Change,
    find_below,
    gives_way,
    in_the_way,
    read_changes,
    read_files,
    read_index,
    read_tree,
)
from cn.git.fast_import import EntryChange, FileChange, build_commit, written_paths
from cn.git.filters import find_failing, mend_filter, uncompared
from cn.git.repository import ORIGIN_REF, Hub
from cn.protocol.layout import INBOX
from cn.system.closed import blocked_by
from cn.system.files import drop
from cn.transaction.base import Base, NotAtOrigin, observe_base
from cn.transaction.journal import Journal, LocalAppend, LocalFile, RefUpdate, push_path, restore_path
from cn.transaction.protected_files import TRUSTED_REF
from cn.transaction.publish import MainMoved, publish, wait_for_place
from cn.transaction.push import arrived_pushes, leave_unpushed, push
from cn.transaction.unplaced import read_unplaced, shown_by
from cn.values.errors import Blocked, CnError, Refused
from cn.values.names import HubPath, Oid, folders_above, main_decides, never_blocks
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_ATTEMPTS = 5
_MOST_NAMED = 20
"""So many files in the way are named: who learns of them one by one has as many runs that do nothing."""
_MOST_SHOWN = 3
"""Of so many files git is told to look at them again; the next run names others."""


class Draft(NamedTuple):
    """What a run wants main to become.

    ``tip`` is the base, or the last merge built upon it. ``inputs`` are the working files
    that the plan has read: the blob each may hold instead of the base's. ``refs``,
    ``appends`` and ``files`` are carried out here after the commit.
    """

    tip: Oid
    changes: tuple[FileChange | EntryChange, ...]
    message: str
    at: datetime
    inputs: Mapping[HubPath, Oid]
    extra_parents: tuple[Oid, ...] = ()
    refs: tuple[RefUpdate, ...] = ()
    appends: tuple[LocalAppend, ...] = ()
    files: tuple[LocalFile, ...] = ()


class Committed(NamedTuple):
    """The end of a run: ``commit`` is the authority's main now, ``changed`` whether the run moved it.

    ``unpushed``: why origin did not take some of cn's refs.
    """

    base: Base
    commit: Oid
    changed: bool
    reports: tuple[str, ...]
    unpushed: str = ""


def commit(
    hub: Hub, plan: Callable[[Base], Draft | None], *, base: Base | None = None, made: set[Oid] | None = None
) -> Committed:
    """Carry ``plan`` out on what main is; planned again when main moves meanwhile.

    ``made`` gets every commit that is about to be published, also when this ends early.

    What a killed run has published is finished before anything is planned: a plan must not
    meet files of this machine that main says are used up.
    """
    own = _Own(set() if made is None else made)
    try:
        return _commit(hub, plan, base, own)
    except (CnError, OSError) as why:
        if not own.taken:
            raise
        error = blocked_by(why) if isinstance(why, OSError) else why
        error.is_done("main on origin")
        raise error from why.__cause__


@dataclass
class _Own:
    """The commits that this run planned and tried to push; ``taken``: origin has one of them.

    ``made`` are those with something in them that was not there before; ``unpushed`` as in
    :class:`Committed`.
    """

    made: set[Oid]
    unpushed: str = ""
    tried: set[Oid] = field(default_factory=set)
    taken: bool = False


def _commit(hub: Hub, plan: Callable[[Base], Draft | None], base: Base | None, own: _Own) -> Committed:
    reports: list[str] = []
    moved, carried = False, set[Oid]()
    for _ in range(_ATTEMPTS):
        base = base or observe_base(hub)
        reports += [r for r in base.reports if r not in reports]
        # What is carried out is that once, whatever stays of its note.
        arrived = [note for note in arrived_pushes(hub, base) if note.new not in carried]
        own.taken |= any(note.new in own.tried for note in arrived)
        if arrived and not hub.origin:
            leave_unpushed(hub, arrived)
        journal = _prepare(hub, base, None if arrived else plan(base), arrived)
        if not arrived:
            own.tried.add(journal.new)
            own.made |= {journal.new} - {base.tip}
        moves = journal.new != base.local or (hub.origin and journal.new != base.origin)
        try:
            if not moves and not (journal.refs or journal.appends or journal.files):
                for done in (*(push_path(hub, oid) for oid in journal.covers), restore_path(hub)):
                    drop(done)
            elif not _carry_out(hub, base, journal, moves, reports, own):
                base = None
                continue
        except MainMoved:
            base = None
            continue
        moved |= moves
        carried.update(journal.covers)
        if not arrived or own.taken:  # planned a second time it would be done twice
            return Committed(base, journal.new, moved, tuple(reports), own.unpushed)
        base = None
    stop = NotAtOrigin if hub.origin else Blocked
    raise stop(f"{hub.main} moved {_ATTEMPTS} times while cn was at work", "run again later")


def _carry_out(hub: Hub, base: Base, journal: Journal, moves: bool, reports: list[str], own: _Own) -> bool:
    """Push and publish; False when somebody else's push was faster."""
    _refuse_local_changes(hub, journal)
    if moves:
        wait_for_place(hub)
    if hub.origin and (journal.new != base.origin or journal.refs):
        pushed = push(hub, base, journal)
        if pushed is None:
            return False
        own.unpushed = pushed or own.unpushed
    own.taken |= hub.origin and journal.new in own.tried
    if moves:  # what we know of origin and trust here moves along with main
        known = (TRUSTED_REF, *filter(None, [ORIGIN_REF, hub.tracking] if hub.origin else []))
        journal = journal._replace(refs=(*journal.refs, *(RefUpdate(ref, journal.new) for ref in known)))
    reports += publish(hub, journal)
    drop(restore_path(hub))
    return True


def _prepare(hub: Hub, base: Base, draft: Draft | None, arrived: Sequence[Journal]) -> Journal:
    """Build the commit, and gather what belongs to it, also from pushes of a killed run."""
    new, message = base.tip, "cn: fast-forward"
    if base.tip not in (base.local, base.origin):
        message = "cn: integrate local commits"
    made: list[Journal | Draft] = [*arrived, *([draft] if draft is not None else [])]
    folders: set[str] = set()
    if draft is not None:
        new = build(hub, draft)
        if new != base.tip:
            message = "cn: " + one_line(draft.message.split("\n")[0].removeprefix("cn: "))
        folders.update(f for path in written_paths(draft.changes) for f in folders_above(path))
    texts: dict[str, str] = {}  # one for each file: of several a killed run could not tell which it did
    for append in (append for one in made for append in one.appends):
        texts[append.path] = texts.get(append.path, "") + append.text
    changes = () if hub.apart else tuple(read_changes(hub.git, base.local, new))
    _refuse_displaced(hub, base, folders, changes)
    return Journal(
        token=secrets.token_hex(16),
        old=base.local,
        new=new,
        message=message,
        changes=changes,
        inputs={str(path): oid for one in made for path, oid in (one.inputs or {}).items()},
        refs=tuple(ref for one in made for ref in one.refs),
        appends=tuple(LocalAppend(path, text) for path, text in texts.items()),
        files=tuple(file for one in made for file in one.files),
        # The note of our own push too: what it carries is carried out with this journal.
        covers=(*(note.new for note in arrived), new),
    )


def build(hub: Hub, draft: Draft, *, scratch: bool = False) -> Oid:
    """The commit of a draft; no ref moves. A ``scratch`` one is not signed: nobody will see it."""
    return build_commit(
        hub,
        base=draft.tip,
        parents=(draft.tip, *draft.extra_parents),
        changes=draft.changes,
        message=draft.message,
        at=draft.at,
        scratch=scratch,
    )


def _refuse_displaced(hub: Hub, base: Base, folders: set[str], changes: Iterable[Change]) -> None:
    """A file of the draft below what is no folder in main would take that out of main, unseen.

    ``folders`` are those above the files that it writes.
    """
    above = sorted(c.path for c in changes if c.new is None and c.path in folders)
    if base.tip != base.local:  # what origin's commits brought is not among the changes
        above = sorted(folders)
    # Where main alone decides, cn writes what belongs there.
    above = [folder for folder in above if folder != INBOX and not main_decides(f"{folder}/")]
    if above and (found := read_tree(hub.git, base.tip, above)):
        path = min(found)
        # Without the uppermost no run can work; the others concern those who write there.
        refused = Refused if "/" in path else Blocked
        raise refused(*displaced_words(hub, path, found[path].mode))


def displaced_words(hub: Hub, folder: str, mode: str) -> tuple[str, str]:
    """What is told of something else in main where cn's folder belongs, and what takes it out."""
    what = {LINK: "a symlink", SUBMODULE: "a submodule"}.get(mode, "no folder")
    here = hub.root / folder
    kept = here.is_dir() and not here.is_symlink()
    remove = command("git rm --cached -- {}" if kept else "git rm -- {}", folder)
    return (
        f"cn needs the folder {visible(folder)}, and in main it is {what}",
        f"{remove}, commit that, then run again",
    )


def local_changes(hub: Hub, base: Oid, paths: Iterable[str]) -> list[str]:
    """Which of ``paths`` have an index entry or a working file that differs from ``base``'s entry."""
    wanted = list(dict.fromkeys(paths))
    old = read_tree(hub.git, base, wanted)
    return _changed(hub, base, [Change(p, old.get(p), old.get(p)) for p in wanted], {})


def _refuse_local_changes(hub: Hub, journal: Journal) -> None:
    touched = [c for c in journal.changes if not never_blocks(c.path)]
    changed = _changed(hub, journal.new, touched, journal.inputs or {})
    if changed:
        index, ours = read_index(hub.git), set(changed)
        files = (c for c in touched if c.path in ours and not c.is_of_submodule)
        ways = {way: c.path for c in files if (way := in_the_way(hub.root, c, index))}
        if ways:
            file = visible(next(iter(ways.values())))
            lie, it = f"lies where main has the file {file}, and is untracked", "it"
            if len(ways) > 1:
                lie, it = "lie where main has files, and are untracked", "them"
            names = ", ".join(map(visible, list(ways)[:_MOST_NAMED]))
            more = f" and {len(ways) - _MOST_NAMED} more" if len(ways) > _MOST_NAMED else ""
            raise Blocked(
                f"{names}{more} {lie}",
                f"move {it} elsewhere (git neither commits nor stashes what it ignores), then run again",
            )
        if failing := find_failing(hub.git, changed):
            raise Blocked(uncompared(*failing), f"{mend_filter(*failing)}; then run again")
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        shows = list(shown_by(hub, changed).values())[:_MOST_SHOWN]
        first = f"{', then '.join(shows)} lets git look there again; then " if shows else ""
        raise Blocked(
            f"your {visible(changed[0])}{more} {'have' if more else 'has'} local changes",
            f"{first}commit them, or put them away with 'git stash -u', then run again",
        )


def _changed(hub: Hub, like: Oid, changes: list[Change], inputs: Mapping[str, Oid]) -> list[str]:
    """The paths whose index entry or working file is neither the old, nor the new, nor an input."""
    if not changes:
        return []
    index = read_index(hub.git)
    # Not yet replaced by cn itself, and so no change of anybody's.
    here = {path: one.here for path, one in read_unplaced(hub).left.items()}
    of_files = (c.of_files for c in changes)
    files = read_files(hub, like, {c.path: (c.old, c.new, here.get(c.path)) for c in of_files})
    main = {c.path: c.old for c in changes}
    lying = {path for path, old in main.items() if old is not None}
    below = find_below(index, [c.path for c in changes if c.old is None])
    found = []
    for c in changes:
        file, used = files[c.path], inputs.get(c.path)
        entry = index.get(c.path)
        if file is OTHER and c.old is None and gives_way(hub.root, c.path, lying):
            file = None  # a file becomes a folder, or a folder a file
        staged = entry in (c.old, c.new)
        if entry is None:  # a file of main above it that becomes a folder is in nobody's way
            staged = staged and all(index[p] == main.get(p) for p in folders_above(c.path) if p in index)
        staged = staged and (c.old is not None or all(index[p] == main.get(p) for p in below[c.path]))
        staged = staged or (entry is not None and entry.oid == used)
        may_be = [c.old, c.new, *([here[c.path]] if c.path in here else ())]
        plain = file is None and None in may_be
        if file is not None:
            plain = bool(file.same) or file.raw == used
        if c.is_of_submodule and c.of_files.old is None:
            plain = file in (None, OTHER)  # what lies in its folder is its own repository's
        if not staged or not plain:
            found.append(c.path)
    return found
