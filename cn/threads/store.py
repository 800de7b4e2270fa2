"""Find, read and queue threads of our own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from cn.git.repository import Hub
from cn.protocol.effects import Plan, WorkingCopy
from cn.protocol.layout import inbox_path
from cn.protocol.own_thread import ADHOC, CONCERNS, DONE_CONCERNS, Own, is_named, is_own, parse_own
from cn.protocol.queue_item import PERIODIC, REFLECTIONS
from cn.run.executor import Executor
from cn.run.find_thread import list_called
from cn.run.snapshot import Snapshot
from cn.run.view import View
from cn.system.closed import check_open
from cn.system.files import blocked_parent, read_regular
from cn.threads.plan.edits import MOST
from cn.transaction.unplaced import is_left, read_unplaced
from cn.values.errors import Refused
from cn.values.names import HubPath, ThreadName
from cn.values.text import decode, is_text, one_line

LARGEST = 8 << 20
_FOLDERS = (ADHOC, *(f"{REFLECTIONS}/{cadence.value}" for cadence in PERIODIC), CONCERNS)


def own_paths(snapshot: Snapshot, hub: Hub | None = None) -> list[HubPath]:
    """The threads of our own in main, and with ``hub`` those that lie only in its work tree."""
    found = {f"{folder}/{e.path}" for folder in _FOLDERS for e in snapshot.folder(folder) if e.mode.startswith("100")}
    for folder in _FOLDERS:
        if hub is not None and blocked_parent(hub.root, hub.root / folder / "x") is None:
            with suppress(OSError):
                here = [e.name for e in os.scandir(hub.root / folder) if e.is_file(follow_symlinks=False)]
                found |= {f"{folder}/{name}" for name in here}
    return [HubPath(path) for path in sorted(found) if is_own(path)]


def done_concerns(snapshot: Snapshot) -> list[HubPath]:
    """The concerns that are filed away."""
    names = [e.path for e in snapshot.folder(DONE_CONCERNS) if e.kind == "blob"]
    return [HubPath(f"{DONE_CONCERNS}/{name}") for name in sorted(names) if is_own(f"{CONCERNS}/{name}")]


def read_here(hub: Hub, path: str) -> bytes | None:
    """The working copy.

    None when it is missing, no regular file, behind a symlink, or an old one that cn could not replace yet.
    """
    data = None if blocked_parent(hub.root, hub.root / path) else read_regular(hub.root / path, LARGEST)
    return None if is_left(hub, path, data) else data


def find_own(executor: Executor, text: str) -> HubPath | None:
    """The thread of our own of that name, None when there is none.

    By path, by source (``adhoc/20260205-title``), or by file name with or without ``.md``.
    Raises :class:`Refused` for a name that means several, a pending inbox thread among them.
    """
    return pick_own(executor.snapshot, own_paths(executor.snapshot, executor.hub), text)


def pick_own(snapshot: Snapshot, paths: Iterable[HubPath], text: str) -> HubPath | None:
    """The same among ``paths``."""
    found = [path for path in paths if is_named(path, text)]
    if not found:
        return None
    pending = list_called(snapshot, text)
    every = [*found, *(inbox_path(ThreadName(item.get("thread"))) for _, item in pending)]
    if len(every) > 1:
        raise Refused(f"{one_line(text, 80)!r} means {len(every)} threads: {', '.join(every)}", "name it by its path")
    return found[0]


def use_own(executor: Executor, path: HubPath) -> Own:
    """A thread of our own as it lies here, edits not yet committed among them: an input of the run.

    Raises :class:`Refused` for what main has not, what is no text or too large, what main
    overtook, and what has ended.
    """
    committed = executor.read(path)
    if committed is None:
        raise Refused(f"{path} is not committed yet", "'cn commit' does it; then again")
    if path not in executor.changed:
        check_open(executor.hub.root / path, path)
    here = None if path in executor.changed else read_here(executor.hub, path)
    # What lies here is no edit where it only is as old as main here: another clone's commit comes with this run.
    behind = executor.base.local != executor.base.tip
    before = Snapshot(executor.hub.git, executor.base.local).read(path) if behind else committed
    data = committed if here is None or here == before else here
    if data != committed:
        if path in read_unplaced(executor.hub).edited or before != committed:
            raise Refused(f"{path} was changed here and in main", "'cn commit' brings both together; then again")
        executor.perform(Plan(path, (WorkingCopy(path, data),)))
    if len(data) > MOST:
        raise Refused(f"{path} has more than {MOST} bytes", "keep what is large elsewhere")
    text = data.decode("utf-8", "surrogateescape")
    if not is_text(text):
        raise Refused(f"{path} is not UTF-8 text", "save it as UTF-8")
    own = parse_own(path, text)
    if not own.pending:
        raise Refused(
            f"{own.source} is {one_line(own.state, 40)} already", "to take it up again, write '**State:** open' in it"
        )
    return own


@dataclass(frozen=True)
class OwnDocument:
    """A thread of our own with its text as it lies here; ``committed``: main has the same bytes."""

    own: Own
    text: str
    committed: bool


def read_document(view: View, path: HubPath) -> OwnDocument | None:
    """The working copy, where HEAD is main, else what main has; None when neither is there."""
    main = view.snapshot.read(path)
    is_ours = view.on_main and not path.startswith(f"{DONE_CONCERNS}/")
    here = read_here(view.hub, path) if is_ours else None
    data = main if here is None else here
    if data is None:
        return None
    text = decode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")
    return OwnDocument(parse_own(path, text), text, data == main)
