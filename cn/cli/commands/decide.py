"""``cn done``, ``cn defer``, ``cn delegate``, ``cn delete``: a person decides a thread at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, Env, deciding, options
from cn.protocol import ops

_THREAD: Callable[[Any], Any] = click.argument("thread", shell_complete=complete_thread)


def _decide(env: Env, thread: str, make: Callable[[str], ops.Op], actor: str) -> None:
    from cn.actions.decide import decide

    env.show(decide(env.hub(), thread, make, actor=actor, dry_run=env.dry_run))


@click.command("done")
@_THREAD
@ACTOR
@options(DRY_RUN)
def done_command(env: Env, thread: str, actor: str) -> None:
    """THREAD is complete: it moves to done, its creator is told."""
    _decide(env, thread, ops.Done, actor)


@click.command("defer")
@_THREAD
@click.option("--reason", default="", help="What it waits for.")
@deciding("--until", "A date or time (UTC), or 90m, 12h, 3d; it comes back then.")
@ACTOR
@options(DRY_RUN)
def defer_command(env: Env, thread: str, reason: str, until: str, actor: str) -> None:
    """Put THREAD off."""
    _decide(env, thread, lambda id: ops.Defer(id, until, reason), actor)


@click.command("delegate")
@_THREAD
@click.argument("to", shell_complete=complete_peer)
@ACTOR
@options(DRY_RUN)
def delegate_command(env: Env, thread: str, to: str, actor: str) -> None:
    """Hand THREAD to the peer TO, or assign it to the reviewer TO."""
    _decide(env, thread, lambda id: ops.Delegate(id, to), actor)


@click.command("delete")
@_THREAD
@click.option("--reason", default="", help="Why; its creator reads it.")
@ACTOR
@options(DRY_RUN)
def delete_command(env: Env, thread: str, reason: str, actor: str) -> None:
    """Discard THREAD; its creator is told and deletes the branch."""
    _decide(env, thread, lambda id: ops.Delete(id, reason), actor)
