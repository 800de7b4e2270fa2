"""Working copies of pending threads: the only files a run takes decisions from."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from cn.git.repository import Hub
from cn.protocol.layout import DONE, INBOX, inbox_path
from cn.protocol.ledger import Item
from cn.run.conditions import Condition
from cn.run.memory import Memory
from cn.run.snapshot import Snapshot, thread_names
from cn.system.files import read_regular, write_file
from cn.transaction.checkout_retries import is_left, read_unplaced
from cn.values.names import HubPath, Name, Oid, ThreadName
from cn.values.text import visible

if TYPE_CHECKING:
    from cn.values.report import Report

_LARGEST = 8 << 20


class Working(NamedTuple):
    """A pending thread as it lies in the work tree; ``algorithm`` is the repository's hash."""

    path: HubPath
    data: bytes
    algorithm: str

    @property
    def oid(self) -> Oid:
        """The blob id of its bytes."""
        from cn.protocol.message import object_id

        return object_id("blob", self.data, self.algorithm)


def read_working(hub: Hub, name: ThreadName, algorithm: str) -> Working | None:
    """The working copy of a pending thread.

    None when it is missing or no regular file, or an old one that cn could not replace yet.
    """
    working = read_file(hub, name, algorithm)
    return None if working is None or is_left(hub, working.path, working.data) else working


def read_file(hub: Hub, name: ThreadName, algorithm: str) -> Working | None:
    """What lies in the place of a pending thread, whoever left it there; None: no regular file."""
    path = inbox_path(name)
    data = read_regular(f"{hub.root}/{path}", _LARGEST)
    return None if data is None else Working(path, data, algorithm)


def restore_missing(
    hub: Hub, snapshot: Snapshot, pending: list[tuple[Name, Item]], report: Report, *, dry_run: bool
) -> None:
    """Put back working copies of pending threads that somebody removed or moved away."""
    names = [ThreadName(item.get("thread")) for _, item in pending]
    missing = [name for name in names if not os.path.lexists(hub.root / inbox_path(name))]
    if missing:  # those that cannot be written are told of, and tried again, elsewhere
        missing = [name for name in missing if inbox_path(name) not in read_unplaced(hub)]
    snapshot.read_many(inbox_path(name) for name in missing)
    for name in missing:
        data = snapshot.read(inbox_path(name))
        if data is None:
            continue
        if dry_run:
            report.plan(f"restore the missing {inbox_path(name)}")
        else:
            write_file(hub.root / inbox_path(name), data, root=hub.root)
            report.info(f"{inbox_path(name)} was missing; restored from main")


def report_blocked(hub: Hub, pending: list[tuple[Name, Item]], report: Report, memory: Memory) -> None:
    """Name what stands in the place of a pending thread and is no file, so that nobody can decide it."""
    found: dict[str, Condition] = {}
    for peer, item in pending:
        path = inbox_path(ThreadName(item.get("thread")))
        kind = _other_kind(f"{hub.root}/{path}")
        if kind and path not in read_unplaced(hub):  # that is told elsewhere
            text = f"{path} is {kind} in the work tree: the thread cannot be read or decided there"
            remedy = f"move {path} out of the way; the next run puts the thread there"
            found[path] = Condition(text, remedy, f"{peer}/{item.topic}")
    memory.conditions.tell("blocked", found, report)


def _other_kind(path: str) -> str:
    """What is there instead of a file; empty: a file, or nothing, or nobody can tell."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    return "a folder" if stat.S_ISDIR(mode) else "a symlink" if stat.S_ISLNK(mode) else "no file"


def report_unknown(
    hub: Hub, snapshot: Snapshot, pending: list[tuple[Name, Item]], report: Report, memory: Memory
) -> list[ThreadName]:
    """Name files in the inbox that no ledger knows. They are never executed.

    Answers with the threads that are done, and were edited here while another clone decided them, or
    that an editor saved once more: they would stand in the way for ever.
    """
    unknown = unknown_files(hub, snapshot, pending)
    done = {e.path for e in snapshot.folder(DONE)} if unknown else set()
    late = []
    for name in unknown:
        path = hub.root / INBOX / name
        if name in done and path.is_file() and not path.is_symlink():
            late.append(ThreadName(name))
            continue
        report.refused(
            f"{INBOX}/{visible(name)} is no thread cn knows; it is not executed",
            "move it elsewhere, for example to threads/adhoc/",
            told_before=not memory.tell_once("stray", name),
        )
    return late


def unknown_files(hub: Hub, snapshot: Snapshot, pending: list[tuple[Name, Item]]) -> list[str]:
    """The names of markdown files in the inbox, here or in main, that are no pending thread.

    Not what cn itself could not take away or replace yet: that is told of elsewhere.
    """
    known = {item.get("thread") for _, item in pending}
    folder = hub.root / INBOX
    try:
        names = sorted(e.name for e in os.scandir(folder) if not e.is_dir(follow_symlinks=False))
    except OSError:
        return []
    stray = [n for n in names if n not in known and n.endswith(".md") and not n.startswith(".")]
    stray += [n for n in thread_names(snapshot.folder(INBOX)) if n not in known and n not in stray]
    if stray:
        left = read_unplaced(hub)
        stray = [n for n in stray if f"{INBOX}/{n}" not in left]
    # Whose records are damaged, whose threads are not known as such: that is told of the peer.
    damaged = tuple(f"-{peer}-" for peer in snapshot.damaged)
    return [n for n in stray if not n[8:].startswith(damaged)] if damaged else stray


def has_triage(hub: Hub, name: ThreadName, algorithm: str) -> bool:
    """Does the working copy hold a ``## Triage`` section, or something that must be looked at as one?"""
    working = read_working(hub, name, algorithm)
    return working is not None and shows_triage(working)


def may_decide(working: Working) -> bool:
    """Could it hold a ``## Triage`` section, or must it be looked at for another reason?

    Nearly all say no, and need no parser then: who only looks does not import it.
    """
    try:
        return "Triage" in working.data.decode("utf-8")
    except UnicodeDecodeError:
        return True


def shows_triage(working: Working) -> bool:
    """Does it hold a ``## Triage`` section, or something that must be looked at as one?"""
    if not may_decide(working):
        return False
    from cn.protocol.thread_file import read_text
    from cn.protocol.triage import TriageRefused, find_headings

    try:
        return bool(find_headings(read_text(working.data).split("\n")))
    except TriageRefused:
        return True
