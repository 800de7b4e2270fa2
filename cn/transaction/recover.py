"""Finish or take back what a killed run left (``docs/protocol/transaction.md``, "Recover")."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

from cn.git.entries import Entry, read_tree
from cn.git.objects import is_ancestor
from cn.git.repository import Hub
from cn.git.scratch import FOLDER as OUTGOING
from cn.system.files import sweep_temporary
from cn.transaction.base import work_place
from cn.transaction.checkout import place_again
from cn.transaction.journal import Journal, drop, journal_path, read_journal, restore_path, write_journal
from cn.transaction.kept_copies import sweep_asides
from cn.transaction.publish import file_hash, index_path, lock_path, resume, unlock_main
from cn.transaction.unplaced import has_to_place
from cn.values.errors import Refused
from cn.values.names import never_blocks
from cn.values.text import visible


def recover(hub: Hub) -> tuple[str, ...]:
    """Finish or take back what a killed run left; sentences about it.

    What could not be brought to the work tree before is tried again.
    """
    return (*_recover(hub), *_place_again(hub))


def _place_again(hub: Hub) -> list[str]:
    if not has_to_place(hub):
        return []
    try:
        main = work_place(hub)[hub.main_ref]
    except Refused:
        return []  # main is not checked out: the run says so itself
    return place_again(hub, main)


def _recover(hub: Hub) -> tuple[str, ...]:
    for unfinished in ("txn", OUTGOING):
        shutil.rmtree(hub.state / unfinished, ignore_errors=True)
    for folder in (hub.state, hub.state / "push", hub.root / "state"):
        sweep_temporary(folder)
    journal = read_journal(journal_path(hub))
    if journal is None:
        return tuple(sweep_asides(hub))
    for folder in {file.path.parent for file in journal.files}:
        sweep_temporary(folder)
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
    return data == journal.token_bytes or (journal.index_hash != "" and file_hash(lock_path(hub)) == journal.index_hash)


def _unlock_refs(hub: Hub, journal: Journal) -> None:
    """Remove what a killed update-ref of ours left: its bytes, or our index.lock, say so."""
    if _lock_is_ours(hub, journal):
        unlock_main(hub, journal)
    else:
        main = hub.git_dir / f"{hub.main_ref}.lock"
        with suppress(OSError):
            if main.read_text("ascii", "replace").strip() == journal.new:
                main.unlink()


def _note_reverted(hub: Hub, journal: Journal, now: Mapping[str, Entry]) -> list[str]:
    """Somebody removed our lock and committed the stale index: remember what to restore."""
    reverted = [c for c in journal.changes if now.get(c.path) == c.old]
    owned = tuple(c for c in reverted if never_blocks(c.path))
    if owned:
        write_journal(restore_path(hub), journal._replace(changes=owned, refs=(), appends=(), sizes=()))
    merged = [visible(c.path) for c in reverted if not never_blocks(c.path)]
    reports = []
    if owned:
        reports.append("a commit made over a stale index took away what cn had written; it is restored")
    if merged:
        reports.append(f"a commit made over a stale index took back what was merged: {', '.join(merged[:20])}")
    return reports
