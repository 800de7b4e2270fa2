"""Publish a commit to this clone, and finish that later (``docs/protocol/transaction.md``, from step 4).

One ref update is the commit point. What stands before it can be taken back, what stands
after it can be done again any number of times.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from cn.git.entries import UNMERGED, Change, Entry, find_below, read_index, read_tree
from cn.git.filters import without_filters
from cn.git.objects import is_ancestor, read_object, update_refs
from cn.git.process import PRUNED, Git, GitError
from cn.git.remote import FOLDER as OUTGOING
from cn.git.remote import OWN, PINS
from cn.git.repository import Hub
from cn.protocol.layout import INBOX
from cn.system.closed import writing
from cn.system.files import (
    append_once,
    blocked_parent,
    drop,
    place,
    read_plain,
    read_regular,
    sweep_temporary,
    write_file,
)
from cn.system.removal import remove_tree
from cn.transaction.base import work_place
from cn.transaction.checkout import aside_name, check_out, kept_sentence, place_again, sweep_asides
from cn.transaction.journal import (
    Journal,
    LocalFile,
    RefUpdate,
    journal_path,
    local_place,
    push_path,
    read_journal,
    restore_path,
    write_journal,
)
from cn.transaction.protected_files import TRUSTED_REF
from cn.transaction.unplaced import LOCKED, has_to_place
from cn.values.errors import Blocked, CnError, Refused, explain_write
from cn.values.names import Oid, folders_above, main_decides, never_blocks
from cn.values.text import visible

_POLL = 0.05
_STALE_LOOKS = 30
_LOG_BYTES = 4 << 20
_LOGS_KEPT = 3


def write_refs(hub: Hub, refs: Sequence[RefUpdate]) -> list[str]:
    """Set and delete cn's refs: all at once, else one by one; sentences about what is not done."""
    reports = []
    # Deletions first, on their own: a deleted ref may give its name to a folder of refs.
    for batch in ([r for r in refs if r.new is None], [r for r in refs if r.new is not None]):
        try:
            update_refs(hub.git, batch)
        except GitError:
            reports += [text for ref, new in batch if (text := _write_ref(hub, ref, new))]
    return reports


def _write_ref(hub: Hub, ref: str, new: Oid | None, tries: int = 2) -> str:
    try:
        update_refs(hub.git, [(ref, new)])
    except GitError as failed:
        lock, own = hub.git_dir / f"{ref}.lock", ref.startswith(OWN)
        # Only cn writes its own, under its lock: a lock that stays was left by a killed git of ours. Elsewhere another
        # git may be at work, for a moment; a lock that stays, and holds what we would write, is ours too.
        if tries > 1 and ((not own and _goes(lock, time.monotonic() + _REF_WAIT)) or remove_stale(lock, new or "")):
            return _write_ref(hub, ref, new, tries - 1)
        if not own:
            return ""  # where git notes origin's main: a convenience
        # A pin that is not as the listing says makes the next sync look at its branch once more.
        then = "; the next 'cn sync' tries it again" if ref.startswith(PINS) else ""
        return f"{visible(ref)} cannot be written: {failed.done.reason}{then}"
    return ""


def remove_stale(lock: Path, value: str) -> bool:
    """Remove a ref's lock that holds ``value``, or nothing and does not go away by itself."""
    for _ in range(_STALE_LOOKS):
        try:
            text = lock.read_text("ascii", "replace").strip()
        except OSError:
            return False
        if text:
            break
        time.sleep(_POLL)
    if text not in ("", value):
        return False
    with suppress(FileNotFoundError):
        lock.unlink()
    return True


def _write_local(hub: Hub, file: LocalFile, path: Path, root: Path) -> None:
    """Write or remove a machine-local file. Doing it again changes nothing."""
    if file.data is not None:
        # What is in the state must not be committed.
        write_file(path, file.data, root=root, mode=hub.private_mode if root == hub.state else 0o666)
        return
    found = read_plain(path) if blocked_parent(root, path) is None else None
    if found is not None and (not file.was or hashlib.sha256(found[1]).hexdigest() == file.was):
        with suppress(FileNotFoundError):
            path.unlink()


def rotate_log(path: Path) -> None:
    """``cn.log`` → ``cn.log.1`` → … when it has grown over 4 MiB; the oldest goes."""
    with suppress(FileNotFoundError):
        if path.parent.is_symlink() or path.lstat().st_size < _LOG_BYTES:
            return
        for number in range(_LOGS_KEPT, 1, -1):
            with suppress(FileNotFoundError):
                path.with_name(f"{path.name}.{number - 1}").rename(path.with_name(f"{path.name}.{number}"))
        path.rename(path.with_name(f"{path.name}.1"))


LOCK_WAIT = 10.0
_REF_WAIT = 2.0
_NO_MODE = "0"


class MainMoved(Exception):
    """Local main is no longer what the run planned on; nothing was published here."""


def lock_path(hub: Hub) -> Path:
    """git's lock of the index."""
    return hub.work_git_dir / "index.lock"


def publish(hub: Hub, journal: Journal) -> list[str]:
    """Move local main, index, work tree and cn's refs to ``journal``; sentences to show.

    Raises :class:`MainMoved` when main is elsewhere, :class:`Blocked` when the index stays locked.
    """
    wait_for_index(hub)
    with _undisturbed():
        journal = with_sizes(hub, journal)
        write_journal(journal_path(hub), journal, hub.private_mode)
        if journal.old == journal.new:
            return _finish(hub, journal)
        reports: list[str] = []
        try:
            _swap_index(hub, journal, journal.changes, reports)
        except (MainMoved, GitError, Refused):
            drop(journal_path(hub))
            raise
        except OSError as why:
            drop(journal_path(hub))
            raise Blocked(f"cannot write the index of {hub.root}: {why.strerror}", explain_write(why)) from why
        try:
            return reports + _publish_work_tree(hub, journal, journal.changes)
        except CnError as late:
            late.is_done("main")
            raise


def resume(hub: Hub, journal: Journal, changes: Sequence[Change]) -> list[str]:
    """Do 8 to 10 again after a crash, for the ``changes`` that main still holds."""
    if journal.old == journal.new:
        return _finish(hub, journal)
    reports: list[str] = []
    with _undisturbed():
        _swap_index(hub, journal, changes, reports, move=False)
        return reports + _publish_work_tree(hub, journal, changes)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end: a lock of the index left behind would block the user."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def with_sizes(hub: Hub, journal: Journal) -> Journal:
    """The journal with the present lengths of the files to append to."""
    places = (local_place(hub, append.path) for append in journal.appends)
    return journal._replace(sizes=tuple(p[0].lstat().st_size if p and os.path.lexists(p[0]) else 0 for p in places))


def _swap_index(
    hub: Hub, journal: Journal, changes: Sequence[Change], reports: list[str], *, move: bool = True
) -> None:
    """Steps 5 to 7: hold ``index.lock``, edit a copy of the index, move main; what fails lets go of the lock.

    The copy keeps the time of the original: git judges by it which cached file states can
    be trusted (git's ``racy-git`` documentation).
    """
    _take_index(hub, journal)
    try:
        copy = _copy_path(hub)
        copy.parent.mkdir(parents=True, exist_ok=True)
        git = hub.git.with_env(GIT_INDEX_FILE=copy)
        try:
            shutil.copy2(hub.work_git_dir / "index", copy)
        except FileNotFoundError:  # as ``git reset`` makes it: an empty one would stage all that main has as deleted
            git.run("read-tree", journal.old)
        _edit_index(hub, git, journal, changes, reports)
        if move:
            move_main(hub, journal)
    except (MainMoved, CnError, OSError):
        lock_path(hub).unlink()
        raise


def _publish_work_tree(hub: Hub, journal: Journal, changes: Sequence[Change]) -> list[str]:
    """Steps 8 to 10. What fails here leaves the journal, and the next run goes on.

    The index stays locked until the files are there: a commit of all that differs would take out of main what
    is on its way.
    """
    git = hub.git.with_env(GIT_INDEX_FILE=_copy_path(hub))
    try:
        try:
            reports = check_out(hub, journal, changes, git)
            git.run("update-index", "-q", "--refresh", check=False, seconds=git.filter_seconds)
        finally:
            _replace_index(hub)
        return reports + _finish(hub, journal)
    except OSError as why:
        text = f"it could not be brought to {hub.root}: {why.strerror}"
        raise Blocked(text, explain_write(why)) from why


def wait_for_index(hub: Hub, seconds: float = LOCK_WAIT) -> None:
    """Wait until nobody holds the index, or raise :class:`Blocked`."""
    if not _goes(lock_path(hub), time.monotonic() + seconds):
        raise Blocked(
            f"{lock_path(hub)} exists: another git is changing the index of {hub.root}",
            "wait for it; if none is running it was left by a crash, and can be removed; then run again",
        )


def _goes(lock: Path, deadline: float) -> bool:
    """Is it gone, by then at the latest?"""
    while os.path.lexists(lock):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True


def wait_for_place(hub: Hub, seconds: float = LOCK_WAIT) -> None:
    """Raise :class:`Blocked` where main could not be moved here, before anything is pushed.

    Waits for locks that another git holds; those of a ref are held for a moment only.
    """
    of_git = hub.work_git_dir, hub.git_dir, (hub.git_dir / hub.main_ref).parent, hub.git_dir / "objects"
    for folder in dict.fromkeys((*of_git, hub.state, hub.state / "push")):
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            remedy = writing(folder, "make it writable for the user of cn")
            raise Blocked(f"cannot write in {folder}", f"{remedy}, then run again")
    wait_for_index(hub, seconds)
    deadline = time.monotonic() + min(seconds, _REF_WAIT)
    for lock in (hub.git_dir / f"{hub.main_ref}.lock", hub.work_git_dir / "HEAD.lock"):
        if not _goes(lock, deadline):
            remedy = "if no git is running it was left by a crash: remove it, then run again"
            raise Blocked(f"cannot move main: {lock} exists", remedy)


def _take_index(hub: Hub, journal: Journal) -> None:
    """Create ``index.lock`` with our token in it, if a killed run has not left just that."""
    if _lock_is_ours(hub, journal):
        return
    # Linked, not created and then written: whenever a kill comes, the lock says whose it is.
    ours = hub.state / "txn" / "lock"
    write_file(ours, _token(journal))
    deadline = time.monotonic() + LOCK_WAIT
    while True:
        wait_for_index(hub, max(0.0, deadline - time.monotonic()))
        with suppress(FileExistsError):
            place(ours, lock_path(hub))
            ours.unlink()
            return


def _replace_index(hub: Hub) -> None:
    """Step 9: the copy becomes the index, and the lock goes. A lock that stays is taken over by the next run."""
    os.rename(_copy_path(hub), hub.work_git_dir / "index")
    lock_path(hub).unlink()


def _copy_path(hub: Hub) -> Path:
    return hub.state / "txn" / "index"


def _edit_index(hub: Hub, git: Git, journal: Journal, changes: Sequence[Change], reports: list[str]) -> None:
    """Set the touched entries that are still the old ones; a staged edit stays as it is.

    Not where main now has a file for a folder, or the other way round: an index that kept what is staged
    there would take main's out again with the next commit. The staged text is kept aside.
    """
    index = read_index(git)
    inputs = journal.inputs or {}
    edits: list[tuple[str, Entry | None]] = []
    added = {c.path for c in changes if c.new is not None}
    below = find_below(index, added)
    parents = {c.path: list(folders_above(c.path)) for c in changes}
    folders = {folder for path in added for folder in parents[path]}
    for change in sorted(changes, key=lambda c: c.new is not None):
        path, now = change.path, index.get(change.path)
        if now == change.new:
            continue
        above = [p for p in parents[path] if p in index]
        ours = now == change.old if now is not None else not (change.old or above)
        ours = ours or (now is not None and now.oid == inputs.get(path))
        ours = ours or (now == UNMERGED and path in inputs)  # the run took the file in with its marks
        instead = change.new is None and (path in folders or not added.isdisjoint(parents[path]))
        blocking = [*above, *(p for p in below[path] if p in index)] if change.new is not None else []
        if not ours and not main_decides(path) and not instead and not blocking:
            stays = "has a staged change that stays staged; main has another"
            if now == UNMERGED:
                stays = "is in conflict in git's index, and stays so: 'cn status' tells what settles it"
            reports.append(f"{visible(path)} {stays}")
            continue
        for other in (*([path] if now is not None and not ours else ()), *blocking):
            _keep_staged(hub, other, index.pop(other), reports)
        index.pop(path, None)
        edits.append((path, change.new))
    if edits:
        none = f"{_NO_MODE} {'0' * len(journal.new)}"
        rows = (f"{f'{entry.mode} {entry.oid}' if entry else none}\t{path}\0" for path, entry in edits)
        lines = "".join(rows).encode("utf-8", "surrogateescape")
        # git looks anew at files that changed as late as its index did (its racy-git documentation), by their filters:
        # one that cannot run would end every run here. Without them git notes that it has to look later.
        words = ("update-index", "--add", "--replace", "--remove", "-z", "--index-info")
        without_filters(git).run(*words, stdin=lines)


def _keep_staged(hub: Hub, path: str, entry: Entry, reports: list[str]) -> None:
    data = read_object(hub.git, entry.oid) if entry.oid else None
    if data is not None:
        kept = aside_name(hub, path + ".staged")
        write_file(kept, data)
        reports.append(kept_sentence(hub, path, kept, "had a staged change, and main has another here"))


def move_main(hub: Hub, journal: Journal) -> None:
    """Step 7, the local commit point. An update-ref that was killed alone leaves nothing behind."""
    args = ("update-ref", "-m", journal.message, hub.main_ref, journal.new, journal.old)
    try:
        done = hub.git.run(*args, check=False)
    except GitError as killed:
        done = killed.done
    if done.ok:
        return
    if done.killed:
        unlock_main(hub, journal)
    now = hub.git.run("rev-parse", "--verify", "--quiet", hub.main_ref, check=False).text
    if now != journal.new:
        if now != journal.old:
            raise MainMoved
        stale = "remove a stale lock if no git is running, then run again"
        remedy = f"{PRUNED}, main here is as it was" if "nonexistent object" in done.reason else stale
        raise Blocked(f"cannot move main: {done.reason}", remedy)


def unlock_main(hub: Hub, journal: Journal) -> None:
    """Remove what a killed update-ref of ours left, while ``index.lock`` is ours.

    It locks HEAD, for the reflog, with an empty file. While index.lock is ours no commit,
    checkout or merge of the user can be at work that would hold these locks for long.
    """
    remove_stale(hub.git_dir / f"{hub.main_ref}.lock", journal.new)
    remove_stale(hub.work_git_dir / "HEAD.lock", "")


def _finish(hub: Hub, journal: Journal) -> list[str]:
    reports = write_refs(hub, journal.refs)
    names = [file.path for file in journal.files] + [append.path for append in journal.appends]
    places = {name: local_place(hub, name) for name in names}
    for file in journal.files:
        if place := places[file.path]:
            _write_local(hub, file, *place)
    for append, size in zip(journal.appends, journal.sizes, strict=True):
        if place := places[append.path]:
            append_once(place[0], append.text, size, root=place[1])
    outside = (visible(path) for path, place in places.items() if place is None)
    reports += [f"{path} is not in this hub: what an interrupted run had to do there is left out" for path in outside]
    # The notes go before the journal: as long as it is there, doing all this again is harmless.
    drop(*(push_path(hub, covered) for covered in journal.covers), journal_path(hub))
    remove_tree(hub.state / "txn")
    return reports


def recover(hub: Hub) -> tuple[str, ...]:
    """Finish or take back what a killed run left; sentences about it.

    What could not be brought to the work tree before is tried again.
    """
    reports = _recover(hub)
    try:
        main = work_place(hub)[hub.main_ref] if has_to_place(hub) and not hub.apart else None
    except Refused:
        return reports  # main is not checked out: the run says so itself
    return (*reports, *place_again(hub, main)) if main else reports


def _recover(hub: Hub) -> tuple[str, ...]:
    for unfinished in ("txn", OUTGOING):
        remove_tree(hub.state / unfinished)
    for folder in (hub.state, hub.state / "push", hub.root / "state", hub.root / INBOX):
        sweep_temporary(folder)
    journal = read_journal(journal_path(hub))
    if read_regular(lock_path(hub)) == LOCKED:
        lock_path(hub).unlink(missing_ok=True)
    if journal is None:
        return tuple(sweep_asides(hub))
    for folder in {place[0].parent for file in journal.files if (place := local_place(hub, file.path))}:
        sweep_temporary(folder)
    # What it has to bring to the work tree belongs to main: that has to be checked out.
    refs = work_place(replace(hub, apart=hub.apart and not journal.changes))
    main = refs[hub.main_ref]
    _unlock_refs(hub, journal)
    text = ""
    if not is_ancestor(hub.git, journal.new, main):
        text = "a run that was interrupted before its commit was taken back"
    elif journal.new != refs.get(TRUSTED_REF, journal.new) and is_ancestor(hub.git, journal.new, refs[TRUSTED_REF]):
        # This ref moves beyond ``new`` only in a run that follows, which has dropped its journal first.
        text = "an old journal lay here again, of a run that later ones followed: it was dropped"
    if text:
        if _lock_is_ours(hub, journal):
            lock_path(hub).unlink()
        drop(journal_path(hub))
        return (text, *sweep_asides(hub))
    reports = ["a run that was interrupted after its commit was finished"]
    now = read_tree(hub.git, main, [c.path for c in journal.changes]) if main != journal.new else None
    if now is not None:
        reports += _note_reverted(hub, journal, now)
    live = [c for c in journal.changes if now is None or now.get(c.path) == c.new]
    reports += resume(hub, journal, live)
    return (*reports, *sweep_asides(hub, journal.token))


def _token(journal: Journal) -> bytes:
    """The content of our ``index.lock`` before the new index is in it."""
    return f"cn {journal.token}\n".encode()


def _lock_is_ours(hub: Hub, journal: Journal) -> bool:
    # An empty lock with our journal: killed between creating it and writing the token? No way
    # to tell it from git's own, so it stays and is reported.
    return read_regular(lock_path(hub)) == _token(journal)


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
        again = journal._replace(changes=owned, refs=(), appends=(), sizes=())
        write_journal(restore_path(hub), again, hub.private_mode)
    merged = [visible(c.path) for c in reverted if not never_blocks(c.path)]
    over = "a commit made over a stale index took"
    reports = [f"{over} away what cn had written; it is restored"] if owned else []
    return reports + ([f"{over} back what was merged: {', '.join(merged[:20])}"] if merged else [])
