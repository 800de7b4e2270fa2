"""Agents, as a person sees them: who has which place, who waits for one, and what an agent said."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cn.cli.desk import Desk, desk, short
from cn.cli.options import DRY_RUN, REQUEST, Env, options
from cn.cli.render.text import SHORT
from cn.cli.suggest import complete_handler

if TYPE_CHECKING:  # each command imports what it calls
    from cn.agency.names import Uuid
    from cn.agency.rows import Agent

_LINES = 20
_MOST = 1 << 16
_SHOWN = 20


def seen_agents(opened: Desk, troubled: Collection[str]) -> dict[str, Any]:
    """The places for agents: how many, who has one since when, and who waits for one, the longest first. Who has a
    problem of its own (``troubled``) does not wait for a place.
    """
    from cn.agency.store.look import live_agents
    from cn.agency.store.needs import find_needs
    from cn.agents.workspace import folders_of
    from cn.values.timestamps import format_second

    facts, folders, limit = opened.facts, folders_of(opened.agency.hub), opened.agency.limits.agents
    live = [agent for id in live_agents(facts) if (agent := facts.agent(id))]
    working = [
        {
            "agent": one.id,
            "handler": one.handler,
            "since": format_second(one.started),
            "folder": str(folder.path) if (folder := folders.find(one.id)) else None,
        }
        for one in live
    ]
    needs = find_needs(facts, opened.now) if len(live) >= limit else []
    waiting = [one.handler for one in needs if one.handler not in troubled and not _by_hand(opened, one.handler)]
    return {"places": limit, "working": working, "waiting": waiting}


def _by_hand(opened: Desk, handler: Uuid) -> bool:
    """Does a person work it, as far as this machine's definitions can be read?"""
    from cn.agents.machine import PERSON, machine_path, read_machine
    from cn.values.errors import ConfigError

    row = opened.facts.handler(handler)
    name = row.runner if row else PERSON
    try:
        runner = read_machine(machine_path(opened.agency.hub.config.last("cn.agency") or "")).runner(name)
    except ConfigError:
        return name == PERSON
    return runner is not None and runner.is_person


def agent_lines(opened: Desk, value: dict[str, Any]) -> list[str]:
    """Who works, and who waits."""
    from cn.cli.render.agency import name
    from cn.cli.render.text import wrap

    shown, waiting = opened.shown, value["waiting"]
    lines: list[str] = []
    for one in value["working"][:_SHOWN]:
        about = f"agent {short(one['agent'])} has a place since {one['since']}: {name(one['handler'], shown)}"
        lines += wrap("  ", about)
    if waiting:
        whom = "; ".join(name(id, shown) for id in waiting[:_SHOWN]) + ("; …" if len(waiting) > _SHOWN else "")
        lines += wrap("  ", f"all {value['places']} places are taken; who waits for one: {whom}")
    return lines


@click.command("said")
@click.argument("who", shell_complete=complete_handler)
@click.option(
    "-n", "--lines", type=click.IntRange(min=1), default=_LINES, help=f"The last so many; {_LINES} by default."
)
@options()
def said_command(env: Env, who: str, lines: int) -> None:
    """Show what an agent said last, and where all of it is: WHO is an agent, or a handler, whose last one is meant."""
    from cn.agents.workspace import folders_of

    with desk(env) as opened:
        agent = _agent(opened, who)
        folders = folders_of(opened.agency.hub)
        folder = (folders.find(agent.id) or folders.ended(agent.id)).path
        parts = _parts(folder, lines)
        if not folder.is_dir():  # it ended meanwhile
            folder = folders.ended(agent.id).path
            parts = _parts(folder, lines)
        value = {"agent": agent.id, "handler": agent.handler, "live": agent.live, "folder": str(folder)}
        value["said"] = [{"path": str(path), "lines": last} for path, last in parts]
        env.facts(value, lambda: _said_lines(opened, agent, folder, parts))


@click.command("stop")
@click.argument("who", shell_complete=complete_handler)
@options(REQUEST, DRY_RUN)
def stop_command(env: Env, who: str) -> None:
    """End an agent now, with all that it started: WHO is the agent, or its handler, which stays as it is.

    Its handler gets no other one until you write to it.
    """
    from cn.agency.operations import EndAgent
    from cn.agents.stuck import BY_HAND
    from cn.cli.crowd import insist
    from cn.values.errors import Refused
    from cn.values.shell_words import command

    def stop() -> None:
        with desk(env) as opened:
            agent = _agent(opened, who)
            go_on = command("cn mail send {} TEXT", agent.handler[:SHORT])
            if not (agent.live or env.request_id):
                what = f"no agent of {opened.title(agent.handler)} works"
                raise Refused(what, f"'cn agency serve --no-agents' starts none at all; {go_on} lets it go on")
            opened.do(EndAgent(agent.id, BY_HAND))
            if not (env.json or env.quiet or env.dry_run):
                click.echo(f"· its handler gets no other one until you write to it: {go_on}")

    insist(env, who, stop, whole_branch=False)


def _agent(opened: Desk, who: str) -> Agent:
    """By its own UUID, or the last one of a handler."""
    from cn.agency.store.look import agents_like
    from cn.agency.store.needs import past_agents
    from cn.values.errors import Refused

    found = agents_like(opened.facts, who.lower(), 2) if len(who) >= 4 else []
    if len(found) == 1 and (agent := opened.facts.agent(found[0])):
        return agent
    handler = opened.handler(who)
    last = opened.facts.live_agent(handler) or next(past_agents(handler, opened.facts), None)
    if last is None:
        raise Refused(f"{opened.title(handler)} had no agent yet", "'cn agency status' says who has one")
    return last


def _parts(folder: Path, lines: int) -> list[tuple[Path, list[str]]]:
    from cn.agents.launcher import ERRORS, OUTPUT

    found = []
    for path in (folder / OUTPUT, folder / ERRORS):
        with suppress(FileNotFoundError):
            found.append((path, _last(path, lines)))
    return found


def _last(path: Path, count: int) -> list[str]:
    """The last lines of a file, of which only the end is read, without what looks like a secret."""
    from cn.secrets.scanner import Text, mask_secrets

    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MOST))
        text = file.read(_MOST).decode("utf-8", "replace")
    return mask_secrets(Text("", tuple(text.splitlines()[-count:])), ())[0]


def _said_lines(opened: Desk, agent: Agent, folder: Path, parts: list[tuple[Path, list[str]]]) -> list[str]:
    from cn.cli.render.agency import heading, name
    from cn.values.text import visible

    lines = [heading(f"agent {short(agent.id)} of {name(agent.handler, opened.shown)}")]
    for path, last in parts:
        lines += [f"{path}:", *(f"  {visible(line)}" for line in last)]
    if not parts:
        lines.append(f"nothing is kept: {folder} is not there; what agents say is kept for agency.transcripts days")
    return lines
