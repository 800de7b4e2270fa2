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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cn.git.entries import Below, Change, Entry, read_index
from cn.git.objects import read_object, update_refs
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.system.files import PRIVATE, is_writable, make_parents, place, read_plain, write_file
from cn.transaction.checkout import check_out
from cn.transaction.journal import (
    Journal,
    LocalAppend,
    LocalFile,
    RefUpdate,
    drop,
    journal_path,
    push_path,
    with_sizes,
    write_journal,
)
from cn.transaction.kept_copies import aside_name, kept_sentence
from cn.transaction.pins import PREFIX
from cn.values.errors import Blocked, CnError, Refused
from cn.values.names import Oid, folders_above, main_decides
from cn.values.text import visible

_POLL = 0.05
_STALE_LOOKS = 30


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
        # Only cn writes here, under its lock: one that stays was left by a killed git of ours.
        if tries > 1 and remove_stale(hub.git_dir / f"{ref}.lock", new or ""):
            return _write_ref(hub, ref, new, tries - 1)
        # A pin that is not as the listing says makes the next sync look at its branch once more.
        then = "; the next 'cn sync' tries it again" if ref.startswith(PREFIX) else ""
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


def write_local(hub: Hub, file: LocalFile) -> None:
    """Write or remove a machine-local file. Doing it again changes nothing."""
    if file.data is not None:
        if file.path.is_relative_to(hub.state):  # what must not be committed
            write_file(file.path, file.data, mode=PRIVATE)
        else:
            write_file(file.path, file.data, root=hub.root)
        return
    found = read_plain(file.path)
    if found is not None and (not file.was or hashlib.sha256(found[1]).hexdigest() == file.was):
        with suppress(FileNotFoundError):
            file.path.unlink()


def append_once(append: LocalAppend, size: int, *, root: Path | None = None) -> None:
    """Append the text unless a killed run has done so, wholly or in part.

    ``size`` is the file's length when the journal was written: what stands behind that
    was written since. With ``root``, no parent below it may be a symlink.
    """
    data = append.text.encode("utf-8", "surrogateescape")
    make_parents(append.path, root)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(append.path, flags, 0o666), "r+b", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            file.seek(size if size <= length else 0)
            since = file.read()
            if data in since:
                return
            rest = data[len(since) :] if data.startswith(since) else data
            _write_all(file.fileno(), rest)
    except OSError as why:
        raise Blocked(f"cannot append to {append.path}: {why.strerror}", "the next run tries again") from why


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


LOCK_WAIT = 10.0
_REF_WAIT = 2.0
_NO_MODE = "0"


class MainMoved(Exception):
    """Local main is no longer what the run planned on; nothing was published here."""


def index_path(hub: Hub) -> Path:
    """The index of this work tree."""
    return hub.work_git_dir / "index"


def lock_path(hub: Hub) -> Path:
    """git's lock of the index."""
    return hub.work_git_dir / "index.lock"


def publish(hub: Hub, journal: Journal) -> list[str]:
    """Move local main, index, work tree and cn's refs to ``journal``; sentences to show.

    Raises :class:`MainMoved` when main is elsewhere, :class:`Blocked` when the index stays locked.
    """
    wait_for_index(hub)
    with _undisturbed():
        journal = with_sizes(journal)
        write_journal(journal_path(hub), journal)
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
            raise Blocked(
                f"cannot write the index of {hub.root}: {why.strerror}", "is the disk full or read-only?"
            ) from why
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


def _swap_index(
    hub: Hub, journal: Journal, changes: Sequence[Change], reports: list[str], *, move: bool = True
) -> None:
    """Steps 5 to 7. Whatever fails before the commit point gives the index free again."""
    take_index(hub, journal)
    try:
        fill_index(hub, journal, lambda copy: edit_index(hub, journal, changes, copy, reports))
        if move:
            move_main(hub, journal)
    except (MainMoved, GitError, Refused, OSError):
        lock_path(hub).unlink()
        raise


def _publish_work_tree(hub: Hub, journal: Journal, changes: Sequence[Change]) -> list[str]:
    """Steps 8 to 10. What fails here leaves the journal, and the next run goes on."""
    try:
        os.rename(lock_path(hub), index_path(hub))
        reports = check_out(hub, journal, changes)
        refresh_index(hub, journal)
        return reports + _finish(hub, journal)
    except OSError as why:
        text = f"it could not be brought to {hub.root}: {why.strerror}"
        raise Blocked(text, "is the disk full or read-only?") from why


def wait_for_index(hub: Hub, seconds: float = LOCK_WAIT) -> None:
    """Wait until nobody holds the index, or raise :class:`Blocked`."""
    deadline = time.monotonic() + seconds
    while os.path.lexists(lock_path(hub)):
        if time.monotonic() >= deadline:
            raise Blocked(
                f"{lock_path(hub)} exists: another git is changing the index of {hub.root}",
                "wait for it; if none is running it was left by a crash, and can be removed; then run again",
            )
        time.sleep(_POLL)


def wait_for_place(hub: Hub, seconds: float = LOCK_WAIT) -> None:
    """Raise :class:`Blocked` where main could not be moved here, before anything is pushed.

    Waits for locks that another git holds; those of a ref are held for a moment only.
    """
    of_git = hub.work_git_dir, hub.git_dir, (hub.git_dir / hub.main_ref).parent, hub.git_dir / "objects"
    for folder in dict.fromkeys((*of_git, hub.state, hub.state / "push")):
        if folder.exists() and not is_writable(folder):
            raise Blocked(f"cannot write in {folder}", "make it writable for the user of cn, then run again")
    wait_for_index(hub, seconds)
    deadline = time.monotonic() + min(seconds, _REF_WAIT)
    for lock in (hub.git_dir / f"{hub.main_ref}.lock", hub.work_git_dir / "HEAD.lock"):
        while os.path.lexists(lock):
            if time.monotonic() >= deadline:
                raise Blocked(
                    f"cannot move main: {lock} exists",
                    "if no git is running it was left by a crash: remove it, then run again",
                )
            time.sleep(_POLL)


def take_index(hub: Hub, journal: Journal, seconds: float = LOCK_WAIT) -> None:
    """Step 5: create ``index.lock`` with our token in it."""
    # Linked, not created and then written: whenever a kill comes, the lock says whose it is.
    ours = hub.state / "txn" / "lock"
    write_file(ours, journal.token_bytes)
    deadline = time.monotonic() + seconds
    while True:
        wait_for_index(hub, max(0.0, deadline - time.monotonic()))
        with suppress(FileExistsError):
            place(ours, lock_path(hub))
            ours.unlink()
            return


def fill_index(hub: Hub, journal: Journal, edit: Callable[[Path], None]) -> Journal:
    """Step 6: edit a copy of the index, note its hash in the journal, make it ``index.lock``.

    The copy keeps the time of the original: git judges by it which cached file states can
    be trusted (git's ``racy-git`` documentation).
    """
    copy = hub.state / "txn" / "index"
    copy.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        copy.unlink()
    with suppress(FileNotFoundError):
        shutil.copy2(index_path(hub), copy)
    edit(copy)
    if not copy.exists():
        hub.git.with_env(GIT_INDEX_FILE=copy).run("read-tree", "--empty")
    journal = journal._replace(index_hash=file_hash(copy) or "")
    write_journal(journal_path(hub), journal)
    os.rename(copy, lock_path(hub))
    return journal


def file_hash(path: Path) -> str | None:
    """SHA-256 of a file, None when there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def edit_index(hub: Hub, journal: Journal, changes: Sequence[Change], copy: Path, reports: list[str]) -> None:
    """Set the touched entries that are still the old ones; a staged edit stays as it is.

    Not where main now has a file for a folder, or the other way round: an index that kept what is staged
    there would take main's out again with the next commit. The staged text is kept aside.
    """
    index = read_index(hub.git, copy) if copy.exists() else {}
    inputs = journal.inputs or {}
    edits: list[tuple[str, Entry | None]] = []
    added = {c.path for c in changes if c.new is not None}
    below = Below(index)
    parents = {c.path: list(folders_above(c.path)) for c in changes}
    folders = {folder for path in added for folder in parents[path]}
    for change in sorted(changes, key=lambda c: c.new is not None):
        path, now = change.path, index.get(change.path)
        if now == change.new:
            continue
        above = [p for p in parents[path] if p in index]
        ours = now == change.old if now is not None else not (change.old or above)
        ours = ours or (now is not None and now.oid == inputs.get(path))
        instead = change.new is None and (path in folders or not added.isdisjoint(parents[path]))
        blocking = [*above, *(p for p in below(path) if p in index)] if change.new is not None else []
        if not ours and not main_decides(path) and not instead and not blocking:
            reports.append(f"{visible(path)} has a staged change that stays staged; main has another")
            continue
        for other in (*([path] if now is not None and not ours else ()), *blocking):
            _keep_staged(hub, other, index.pop(other), reports)
        index.pop(path, None)
        edits.append((path, change.new))
    if edits:
        git = hub.git.with_env(GIT_INDEX_FILE=copy)
        lines = b"".join(_index_line(path, entry, journal.new) for path, entry in edits)
        git.run("update-index", "--add", "--replace", "--remove", "-z", "--index-info", stdin=lines)


def _index_line(path: str, entry: Entry | None, like: Oid) -> bytes:
    head = f"{entry.mode} {entry.oid}" if entry else f"{_NO_MODE} {'0' * len(like)}"
    return head.encode() + b"\t" + path.encode("utf-8", "surrogateescape") + b"\0"


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
        raise Blocked(f"cannot move main: {done.reason}", "remove a stale lock if no git is running, then run again")


def unlock_main(hub: Hub, journal: Journal) -> None:
    """Remove what a killed update-ref of ours left, while ``index.lock`` is ours.

    It locks HEAD, for the reflog, with an empty file. While index.lock is ours no commit,
    checkout or merge of the user can be at work that would hold these locks for long.
    """
    remove_stale(hub.git_dir / f"{hub.main_ref}.lock", journal.new)
    remove_stale(hub.work_git_dir / "HEAD.lock", "")


def refresh_index(hub: Hub, journal: Journal) -> None:
    """Step 10: let git note the state of the new files. A convenience: a busy index is left alone."""

    def refresh(copy: Path) -> None:
        git = hub.git.with_env(GIT_INDEX_FILE=copy)
        git.run("update-index", "-q", "--refresh", check=False)

    try:
        take_index(hub, journal, 0.0)
    except Refused:
        return
    try:
        fill_index(hub, journal, refresh)
    except (GitError, Refused, OSError):
        lock_path(hub).unlink()
        raise
    os.rename(lock_path(hub), index_path(hub))


def _finish(hub: Hub, journal: Journal) -> list[str]:
    reports = write_refs(hub, journal.refs)
    for file in journal.files:
        write_local(hub, file)
    for append, size in zip(journal.appends, journal.sizes, strict=True):
        append_once(append, size, root=hub.root if append.path.is_relative_to(hub.root / "logs") else None)
    # The notes go before the journal: as long as it is there, doing all this again is harmless.
    for covered in journal.covers:
        drop(push_path(hub, covered))
    drop(journal_path(hub))
    shutil.rmtree(hub.state / "txn", ignore_errors=True)
    return reports
