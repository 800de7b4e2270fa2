"""The table of ``cn inbox``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cn.cli.render.status import state_text
from cn.cli.render.text import age, clean, grid, next_step, paint, wrap
from cn.views.thread_view import ThreadView

_COLOURS = {"refused": "yellow", "decided": "cyan", "done": "green"}


def inbox_lines(threads: Sequence[ThreadView], now: datetime) -> list[str]:
    """One row a thread, and below it why it was refused or cannot be read, with the next step."""
    if not threads:
        return []
    rows = [
        (
            thread.thread.removesuffix(".md"),
            str(thread.peer),
            thread.kind,
            age(thread.received, now),
            thread.signature.partition(" ")[0],
            state_text(thread),
        )
        for thread in threads
    ]
    head = ("THREAD", "FROM", "KIND", "AGE", "SIGNATURE", "STATE")
    colours = [_COLOURS.get(thread.state, "") for thread in threads]
    table = grid([head, *rows], 0, ["", *colours])
    lines = [paint(line, dim=True) for line in table[0]]
    for thread, shown in zip(threads, table[1:], strict=True):
        lines += shown + _next_step(thread)
    return lines


def _next_step(thread: ThreadView) -> list[str]:
    if thread.refused is not None:
        reason = wrap("    ", clean(thread.refused.reason)) if thread.refused.reason else []
        return reason + next_step(thread.refused.remedy, 4)
    return wrap("    ", clean(thread.decided.problem)) if thread.decided.problem else []
