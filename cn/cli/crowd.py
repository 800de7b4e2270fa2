"""What a command does where its user has as many processes as the system allows, or an agent shuts it out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from cn.cli.options import Env

_SHOWN = 3


def insist(env: Env, who: str, do: Callable[[], None], *, whole_branch: bool) -> None:
    """Do what stops ``who``. Where no process can be started for it, or the records do not let us in, its agents are
    ended first, which takes neither, and then it is done. ``whole_branch``: those of all handlers below it too.
    """
    from cn.agents.crowd import is_crowded, is_shut_out

    try:
        do()
    except Exception as why:
        told = "no process could be started" if is_crowded(why) else "it could not be recorded" * is_shut_out(why)
        if env.dry_run or not told or not _end_first(env, who, told, whole_branch=whole_branch):
            raise
        do()


def _end_first(env: Env, who: str, why: str, *, whole_branch: bool) -> bool:
    """End the agents that are meant, and say so; False where none was found."""
    from cn.agency.store.repository import Places
    from cn.agents.crowd import end, meant
    from cn.git.repository import find_hub
    from cn.system.files import identity_of

    root = find_hub(Path(env.hub_path) if env.hub_path else Path.cwd())
    if root is None:
        return False
    state = root / ".git/cn"  # which of the hub's folders git would name, only git can say
    ended = end(meant(who.lower(), identity_of(state), Places(state), whole_branch=whole_branch))
    for agent in ended:
        click.echo(f"· {why}: agent {agent[:8]} was ended first, with all it started", err=True)
    return bool(ended)


def crowded_words() -> tuple[str, str]:
    """That no process can be started, and what ends who has most of them: in a shell it starts none itself."""
    from cn.agents.crowd import at_work
    from cn.agents.processes import command_to_end

    found = at_work()[:_SHOWN]
    shown = "; ".join(f"agent {one.agent[:8]} has {one.processes} (pid {one.pid})" for one in found)
    text = f"no process can be started: user {os.geteuid()} has as many as the system allows"
    if not found:
        return text, "nothing is lost; end other programs, then run it again ('ulimit -u' shows the limit)"
    kill = command_to_end(found[0].pid)
    return f"{text}; {shown}", f"nothing is lost; {kill} ends that agent with all it started, then run it again"
