"""A commit that origin's host refuses is made in parts, so that one bad part keeps no other back.

A host judges a push by what is in it (a hook, githooks(5) "pre-receive"; a limit of bytes), and what a peer sends goes
into our main. Which part it minds is found by halves, as for what goes to peers (``docs/protocol/outbox.md``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from cn.protocol.effects import Log, Plan
from cn.protocol.log import Row
from cn.run.executor import Executor
from cn.run.run import Run
from cn.transaction.base import OriginDeclined

T = TypeVar("T")
_MOST = 24
"""How often origin may refuse in one run, which has an end: what was not tried by then waits for the next."""
NOT_TAKEN = "not taken"
"""The decision that the log names where origin refused a commit as a whole."""


def commit_apart(
    run: Run, commit: Callable[[Sequence[T]], None], groups: Sequence[Sequence[T]], alone: Sequence[T] = ()
) -> tuple[list[tuple[T, str]], list[T]]:
    """Commit with what is in ``groups``, together if origin takes it, then each of ``alone`` by itself.

    Returns what origin takes in no commit, with its reason, and what was not tried. Raises :class:`OriginDeclined`
    where it does not take a commit without any of it either: that is about our right to push.
    """
    together = [part for group in groups for part in group]
    waiting = deque([part] for part in alone)
    refused: list[tuple[T, str]] = []
    try:
        commit(together)
    except OriginDeclined:
        if not together:
            raise
        run.commit(_log_refusal)
        commit([])
        waiting = deque([*(list(group) for group in groups), *waiting])
    tries = 0
    while waiting and tries < _MOST:
        some = waiting.popleft()
        try:
            commit(some)
        except OriginDeclined as why:
            tries += 1
            middle = len(some) // 2
            if middle:  # behind what others sent
                waiting += [some[:middle], some[middle:]]
            else:
                refused.append((some[0], why.reason))
    return refused, [part for some in waiting for part in some]


def _log_refusal(executor: Executor) -> str:
    """What is in no way a peer's: only if origin takes this, it was not about us."""
    row = Row(executor.now, "origin", NOT_TAKEN, "each part goes by itself")
    executor.perform(Plan(row.source, (Log(row),)))
    return "cn: origin did not take all at once"
