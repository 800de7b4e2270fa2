"""A run of the transaction in a process of its own, killed at a chosen step.

``python crash.py HUB [STEP before|after]``: every rename, link, unlink, replace, fsync and
every started process is a step. At STEP the process sends itself SIGKILL, before or after
the call. Without a STEP it prints how many there were and what was reported, and runs once
more, which must change nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cn.git.fast_import import FileChange, build_commit
from cn.git.objects import read_object, resolve
from cn.git.repository import Hub, open_hub
from cn.system.files import blob_id
from cn.transaction.base import Base
from cn.transaction.commit import Committed, Draft, commit
from cn.transaction.journal import LocalAppend, RefUpdate
from cn.transaction.lock import hub_lock
from cn.transaction.publish import recover
from cn.values.names import HubPath

THREAD = HubPath("threads/inbox/20260101-pi-x.md")
DONE = HubPath("threads/inbox/done/20260101-pi-x.md")
LOG = HubPath("logs/inbox/20260101.md")
LEDGER = HubPath("state/ledger/pi/202601")
PEER = "refs/heads/pi/x"
ROWS = int(os.environ.get("CRASH_ROWS", "0"))
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def plan(hub: Hub, base: Base) -> Draft | None:
    """What a run of cn does in small: read the agent's edit, merge, file, log, record, pin."""
    thread = read_object(hub.git, f"{base.tip}:{THREAD}")
    if thread is None:
        return None
    file = hub.root / THREAD
    edited = file.read_bytes() if file.exists() else thread
    if b"decision" not in edited:
        return None
    tip, pins = base.tip, [RefUpdate("refs/cn/pins/pi/in/x", base.tip), RefUpdate("refs/cn/gone", None)]
    head = resolve(hub.git, PEER)
    if head is not None:
        text = read_object(hub.git, f"{head}:docs/d.md")
        merged = (FileChange(HubPath("docs/d.md"), text),)
        tip = build_commit(hub, base=tip, parents=(tip, head), changes=merged, message="Merge pi/x", at=AT)
    log = read_object(hub.git, f"{base.tip}:{LOG}") or b""
    ledger = read_object(hub.git, f"{base.tip}:{LEDGER}") or b""
    changes = (
        FileChange(THREAD, None),
        FileChange(DONE, edited + b"done\n"),
        FileChange(LOG, log + b"| row |\n"),
        FileChange(LEDGER, ledger + b"x done\n"),
    )
    inputs = {THREAD: blob_id(base.tip, edited)}
    append = LocalAppend("logs/cn.log", "processed x\n")
    return Draft(tip, changes, "process x\n", AT, inputs, (), tuple(pins), (append,))


def plan_row(hub: Hub, base: Base) -> Draft | None:
    """One more row in the log, until there are :data:`ROWS`; each run does one."""
    log = (read_object(hub.git, f"{base.tip}:{LOG}") or b"").decode()
    number = log.count("\n")
    if number >= ROWS:
        return None
    row = f"row {number}\n"
    append = LocalAppend("logs/cn.log", row)
    document = FileChange(HubPath("docs/d.md"), row.encode())
    changes = (FileChange(LOG, (log + row).encode()), document)
    return Draft(base.tip, changes, row, AT, {}, (), (), (append,))


def run(path: Path) -> tuple[Committed, list[str]]:
    """One run, as app does it."""
    hub = open_hub(path)
    with hub_lock(hub, 30) as locked:
        told = recover(locked)
        decide = plan_row if ROWS else plan
        done = commit(locked, lambda base: decide(locked, base))
    return done, [*told, *done.reports]


class Steps:
    """Counts the calls that change something, and dies at one."""

    def __init__(self, at: int, when: str) -> None:
        self.count, self.at, self.when = 0, at, when

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.at and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **kwargs)
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def main(argv: list[str]) -> None:
    """See above."""
    steps = Steps(int(argv[2]) if len(argv) > 2 else 0, argv[3] if len(argv) > 3 else "")
    for name in ("replace", "rename", "link", "unlink", "fsync", "rmdir", "write"):
        setattr(os, name, steps.wrap(getattr(os, name)))
    real_unlink = Path.unlink
    Path.unlink = steps.wrap(real_unlink)  # type: ignore[method-assign]
    subprocess.Popen.__init__ = steps.wrap(subprocess.Popen.__init__)  # type: ignore[method-assign]
    done, told = run(Path(argv[1]))
    counted = steps.count
    again = run(Path(argv[1]))[0].changed if not steps.at else None
    print(json.dumps({"steps": counted, "changed": done.changed, "told": told, "again": again}))


if __name__ == "__main__":
    main(sys.argv)
