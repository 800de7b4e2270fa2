"""Waking the agent: the command in this clone's git config, ``cn.wake`` (DESIGN 4, 6)."""

from __future__ import annotations

from cn.app.local import Local
from cn.core.names import digest
from cn.core.report import Report
from cn.core.text import one_line, redact
from cn.shell.hub import Hub
from cn.shell.wake import read_pending, run_wake


def wake(hub: Hub, report: Report) -> None:
    """Tell the agent which threads are new, after the lock is free.

    The names stay in ``.git/cn/wake`` until a wake command has succeeded, so that neither a
    crash nor a failing command leaves the agent asleep.
    """
    names = read_pending(hub)
    if not names:
        return
    command = hub.git.run("config", "--get", "cn.wake", check=False).text
    if not command:
        read_pending(hub, clear=True)
        return
    failure = run_wake(hub, command, names)
    if failure:
        local = Local(hub)
        text = f"the wake command failed: {redact(one_line(failure))}"
        known = not local.is_new(digest("wake", text))
        local.save()
        report.failed(text, "see 'git config cn.wake'; it is tried again at each run", known=known)
        return
    read_pending(hub, clear=True)
    report.done(f"woke the agent: you have inbox ({', '.join(names)})")
