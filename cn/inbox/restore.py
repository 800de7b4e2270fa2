"""Restore pending threads that a commit removed or moved."""

from __future__ import annotations

from cn.git.objects import read_info, read_object
from cn.inbox.plan.arrivals import plan_restored
from cn.protocol.layout import INBOX, done_path, inbox_path
from cn.run.conditions import Condition
from cn.run.executor import Executor
from cn.values.names import HubPath, ThreadName


def restore_pending(executor: Executor) -> None:
    """Every open thread of the ledger is in the inbox of main, or is put there again.

    Its text is taken from ``done/`` if somebody moved it there by hand, else from the last
    commit of main that had it.
    """
    pending = list(executor.snapshot.pending())
    lost: dict[str, Condition] = {}
    there = {e.path for e in executor.snapshot.folder(INBOX) if e.kind == "blob"} if pending else set()
    for peer, item in pending:
        name = ThreadName(item.get("thread"))
        if name in there or inbox_path(name) in executor.changed or executor.item(peer, "in", item.topic) is None:
            continue
        moved = executor.snapshot.read(done_path(name))
        data = moved if moved is not None else _last(executor, inbox_path(name))
        if data is None:
            text = f"{inbox_path(name)} is lost from main and its history"
            lost[f"{name} {item.head}"] = Condition(text, "'cn doctor' tells more")
            continue
        text = data.decode("utf-8", "replace")
        executor.perform(plan_restored(peer, item, executor.now, text, done_path(name) if moved is not None else None))
        executor.notes.info(f"{inbox_path(name)} was gone from main; restored")
    executor.memory.conditions.tell("lost", lost, executor.notes)


def _last(executor: Executor, path: HubPath) -> bytes | None:
    """The file as the last commit that had it left it; a folder that took its place is not it."""
    git = executor.hub.git
    log = ("log", "--diff-filter=AM", "--format=%H", "--no-color", executor.snapshot.commit, "--", path)
    names = [f"{commit}:{path}" for commit in git.run(*log).lines]
    last = next((i for i, found in enumerate(read_info(git, names)) if found and found.kind == "blob"), None)
    return None if last is None else read_object(git, names[last])
