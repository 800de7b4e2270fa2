"""One run, one transaction (DESIGN 5): plan, build, push, publish; and recovery after a crash."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from cn.core.errors import Refused
from cn.core.names import HubPath, Oid
from cn.core.text import one_line, visible
from cn.shell.base import Base, is_ancestor, observe_base, work_place
from cn.shell.build import FileChange, build_commit
from cn.shell.checkout import sweep_asides
from cn.shell.entries import (
    Change,
    Entry,
    ignores_mode,
    index_holds,
    never_blocks,
    read_changes,
    read_files,
    read_index,
    read_tree,
)
from cn.shell.files import sweep_temporary
from cn.shell.hub import Hub
from cn.shell.journal import (
    Journal,
    LocalAppend,
    RefUpdate,
    drop,
    journal_path,
    push_path,
    read_journal,
    read_pushes,
    restore_path,
    write_journal,
)
from cn.shell.origin import ORIGIN_REF, origin_main, push_main
from cn.shell.publish import (
    MainMoved,
    file_hash,
    index_path,
    lock_path,
    publish,
    remove_stale,
    resume,
    wait_for_index,
)
from cn.shell.trust import TRUSTED_REF

__all__ = ["Committed", "Draft", "LocalAppend", "RefUpdate", "commit", "local_changes", "recover"]

_ATTEMPTS = 5
_PUSH_PAUSES = (0.0, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Draft:
    """What a run wants main to become.

    ``tip`` is the base, or the last merge built upon it. ``inputs`` are the working files
    that the plan has read: the blob each may hold instead of the base's. ``refs`` and
    ``appends`` are carried out here after the commit.
    """

    tip: Oid
    changes: tuple[FileChange, ...]
    message: str
    at: datetime
    inputs: Mapping[HubPath, Oid]
    extra_parents: tuple[Oid, ...] = ()
    refs: tuple[RefUpdate, ...] = ()
    appends: tuple[LocalAppend, ...] = ()


@dataclass(frozen=True)
class Committed:
    """The end of a run: ``commit`` is the authority's main now, ``changed`` whether the run moved it."""

    base: Base
    commit: Oid
    changed: bool
    reports: tuple[str, ...]


def commit(hub: Hub, plan: Callable[[Base], Draft | None], *, base: Base | None = None) -> Committed:
    """Carry ``plan`` out on what main is; planned again when main moves meanwhile."""
    reports: list[str] = []
    for _ in range(_ATTEMPTS):
        base = base or observe_base(hub)
        reports += [r for r in base.reports if r not in reports]
        journal = _prepare(hub, base, plan(base))
        moves = journal.new != base.local or (hub.origin and journal.new != base.origin)
        if not moves and not journal.refs and not journal.appends:
            return Committed(base, journal.new, False, tuple(reports))
        _refuse_local_changes(hub, journal)
        try:
            if not hub.origin or journal.new == base.origin or _push(hub, base, journal):
                if moves:
                    journal = _with_own_refs(hub, journal)
                reports += publish(hub, journal)
                drop(restore_path(hub))
                return Committed(base, journal.new, moves, tuple(reports))
        except MainMoved:
            pass
        base = None
    raise Refused(f"{hub.main} moved {_ATTEMPTS} times while cn was at work", "run again later")


def _prepare(hub: Hub, base: Base, draft: Draft | None) -> Journal:
    """Build the commit, and gather what belongs to it, also from pushes of a killed run."""
    new, message = base.commit, "cn: fast-forward"
    if base.commit not in (base.local, base.origin):
        message = "cn: integrate local commits"
    inputs: dict[str, Oid] = {}
    refs: list[RefUpdate] = []
    appends: list[LocalAppend] = []
    covers: list[Oid] = []
    for note in read_pushes(hub):
        if is_ancestor(hub.git, note.new, base.commit):
            inputs.update(note.inputs or {})
            refs += note.refs
            appends += note.appends
            covers.append(note.new)
        elif note.expected != base.origin:
            # Origin went another way: that push can never arrive any more.
            drop(push_path(hub, note.new))
    if draft is not None:
        new = build_commit(
            hub,
            base=draft.tip,
            parents=(draft.tip, *draft.extra_parents),
            changes=draft.changes,
            message=draft.message,
            at=draft.at,
        )
        if new != base.commit:
            message = "cn: " + one_line(draft.message.split("\n")[0].removeprefix("cn: "))
        inputs.update({str(path): oid for path, oid in draft.inputs.items()})
        refs += draft.refs
        appends += draft.appends
    changes = tuple(read_changes(hub.git, base.local, new))
    return Journal(
        token=secrets.token_hex(16),
        old=base.local,
        new=new,
        message=message,
        changes=changes,
        inputs=inputs,
        refs=tuple(refs),
        appends=tuple(appends),
        # The note of our own push too: what it carries is carried out with this journal.
        covers=(*covers, new),
    )


def _with_own_refs(hub: Hub, journal: Journal) -> Journal:
    """What we know of origin and trust here moves along with main."""
    own = [RefUpdate(TRUSTED_REF, journal.new)]
    if hub.origin:
        own.append(RefUpdate(ORIGIN_REF, journal.new))
    return replace(journal, refs=(*journal.refs, *own))


def _push(hub: Hub, base: Base, journal: Journal) -> bool:
    """Step 3: is our commit origin's main now? False: somebody else's is, plan again."""
    wait_for_index(hub)
    note = push_path(hub, journal.new)
    write_journal(note, replace(journal, changes=(), expected=base.origin))
    for pause in _PUSH_PAUSES:
        time.sleep(pause)
        rejected = push_main(hub, journal.new)
        # An answer other than "done" is no proof of anything: ask.
        now = origin_main(hub) if rejected else journal.new
        if now == journal.new:
            return True
        if now != base.origin:
            return False
        if rejected and not rejected.transient:
            if rejected.told:
                drop(note)
            raise Refused(
                f"origin did not take main: {rejected.reason}",
                "nothing was committed; may you push to origin's main, and is origin a bare repository?",
            )
    raise Refused("origin's main is locked by somebody else's push", "run again later")


def recover(hub: Hub) -> tuple[str, ...]:
    """Finish or take back what a killed run left; sentences about it (DESIGN 5, ``recover``)."""
    shutil.rmtree(hub.state / "txn", ignore_errors=True)
    for folder in (hub.state, hub.state / "push", hub.root / "state"):
        sweep_temporary(folder)
    journal = read_journal(journal_path(hub))
    if journal is None:
        return tuple(sweep_asides(hub))
    main = work_place(hub)[hub.main_ref]
    _unlock_refs(hub, journal)
    if not is_ancestor(hub.git, journal.new, main):
        if _lock_is_ours(hub, journal):
            lock_path(hub).unlink()
        drop(journal_path(hub))
        return ("a run that was interrupted before its commit was taken back", *sweep_asides(hub))
    reports = ["a run that was interrupted after its commit was finished"]
    whole = file_hash(lock_path(hub)) == journal.index_hash != ""
    if whole:
        os.rename(lock_path(hub), index_path(hub))
    elif _lock_is_ours(hub, journal):
        lock_path(hub).unlink()
    now = read_tree(hub.git, main, [c.path for c in journal.changes]) if main != journal.new else None
    if now is not None and not whole:
        reports += _note_reverted(hub, journal, now)
    live = [c for c in journal.changes if now is None or now.get(c.path) == c.new]
    reports += resume(hub, journal, live)
    return (*reports, *sweep_asides(hub, journal.token))


def _lock_is_ours(hub: Hub, journal: Journal) -> bool:
    try:
        data = lock_path(hub).read_bytes()
    except OSError:
        return False
    # An empty lock with our journal: killed between creating it and writing the token? No way
    # to tell it from git's own, so it stays and is reported.
    return data == journal.token_bytes or (
        journal.index_hash != "" and file_hash(lock_path(hub)) == journal.index_hash
    )


def _unlock_refs(hub: Hub, journal: Journal) -> None:
    """Remove what a killed update-ref of ours left: its bytes, or our index.lock, say so.

    It locks HEAD, for the reflog, with an empty file. While index.lock is ours no commit,
    checkout or merge of the user can be at work that would hold these locks for long.
    """
    main, head = hub.git_dir / f"{hub.main_ref}.lock", hub.work_git_dir / "HEAD.lock"
    if _lock_is_ours(hub, journal):
        remove_stale(main, journal.new)
        remove_stale(head, "")
    else:
        with suppress(OSError):
            if main.read_text("ascii", "replace").strip() == journal.new:
                main.unlink()


def _note_reverted(hub: Hub, journal: Journal, now: Mapping[str, Entry]) -> list[str]:
    """Somebody removed our lock and committed the stale index: remember what to restore."""
    reverted = [c for c in journal.changes if now.get(c.path) == c.old]
    owned = tuple(c for c in reverted if never_blocks(c.path))
    if owned:
        write_journal(restore_path(hub), replace(journal, changes=owned, refs=(), appends=(), sizes=()))
    merged = [visible(c.path) for c in reverted if not never_blocks(c.path)]
    reports = []
    if owned:
        reports.append("a commit made over a stale index took away what cn had written; it is restored")
    if merged:
        reports.append(
            f"a commit made over a stale index took back what was merged: {', '.join(merged[:20])}"
        )
    return reports


def local_changes(hub: Hub, base: Oid, paths: Iterable[str]) -> list[str]:
    """Which of ``paths`` have an index entry or a working file that differs from ``base``'s entry."""
    wanted = list(dict.fromkeys(paths))
    old = read_tree(hub.git, base, wanted)
    return _changed(hub, base, [Change(p, old.get(p), old.get(p)) for p in wanted], {})


def _refuse_local_changes(hub: Hub, journal: Journal) -> None:
    touched = [c for c in journal.changes if not never_blocks(c.path)]
    changed = _changed(hub, journal.new, touched, journal.inputs or {})
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise Refused(
            f"your {visible(changed[0])}{more} {'have' if more else 'has'} local changes",
            "commit or stash them, then run again",
        )


def _changed(hub: Hub, like: Oid, changes: list[Change], inputs: Mapping[str, Oid]) -> list[str]:
    """The paths whose index entry or working file is neither the old, nor the new, nor an input."""
    if not changes:
        return []
    index = read_index(hub.git)
    files = read_files(hub, like, {c.path: (c.old, c.new) for c in changes})
    any_mode = ignores_mode(hub)
    found = []
    for c in changes:
        file, used = files[c.path], inputs.get(c.path)
        entry = index.get(c.path)
        staged = index_holds(index, c.path, c.old) or index_holds(index, c.path, c.new)
        staged = staged or (entry is not None and entry.oid == used)
        plain = file is None and (c.old is None or c.new is None)
        if file is not None:
            plain = any(file.holds(e, any_mode=any_mode) for e in (c.old, c.new)) or file.raw == used
        if not staged or not plain:
            found.append(c.path)
    return found
