"""``cn done``, ``cn defer``, ``cn delegate``, ``cn delete``: a person decides a thread at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, Env, deciding, options

if TYPE_CHECKING:
    from cn.protocol.ops import Op

_THREAD: Callable[[Any], Any] = click.argument("thread", shell_complete=complete_thread)


def _decide(env: Env, thread: str, make: Callable[[str], Op], actor: str) -> None:
    from cn.actions.decide import decide

    env.show(decide(env.hub(), thread, make, actor=actor, dry_run=env.dry_run))


@click.command("done")
@_THREAD
@ACTOR
@options(DRY_RUN)
def done_command(env: Env, thread: str, actor: str) -> None:
    """THREAD is complete: it moves to done, its creator is told."""
    from cn.protocol.ops import Done

    _decide(env, thread, Done, actor)


@click.command("defer")
@_THREAD
@click.option("--reason", default="", help="What it waits for.")
@deciding("--until", "A date or time (UTC), or 90m, 12h, 3d; it comes back then.")
@ACTOR
@options(DRY_RUN)
def defer_command(env: Env, thread: str, reason: str, until: str, actor: str) -> None:
    """Put THREAD off."""
    from cn.protocol.ops import Defer

    _decide(env, thread, lambda id: Defer(id, until, reason), actor)


@click.command("delegate")
@_THREAD
@click.argument("to", shell_complete=complete_peer)
@ACTOR
@options(DRY_RUN)
def delegate_command(env: Env, thread: str, to: str, actor: str) -> None:
    """Hand THREAD to the peer TO, or assign it to the reviewer TO."""
    from cn.protocol.ops import Delegate

    _decide(env, thread, lambda id: Delegate(id, to), actor)


@click.command("delete")
@_THREAD
@click.option("--reason", default="", help="Why; its creator reads it.")
@ACTOR
@options(DRY_RUN)
def delete_command(env: Env, thread: str, reason: str, actor: str) -> None:
    """Discard THREAD; its creator is told and deletes the branch."""
    from cn.protocol.ops import Delete

    _decide(env, thread, lambda id: Delete(id, reason), actor)
