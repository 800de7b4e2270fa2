"""What this machine's ``agency.toml`` does not know is told at once to who names it: nothing else says so as soon."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from cn.values.errors import ConfigError
from cn.values.text import one_line

if TYPE_CHECKING:
    from cn.cli.options import Env
    from cn.git.repository import Hub


def warn_of_unknown(env: Env, hub: Hub, runner: str = "", resources: Iterable[str] = ()) -> None:
    """A sentence for each name; nothing where the file makes no sense, which 'cn doctor' tells."""
    from cn.values.report import Report

    report = Report()
    try:
        for text in _unknown(hub, runner, resources):
            report.info(text)
    except ConfigError:
        return
    if report.notes and env.json:
        sys.stderr.write("".join(f"cn: {note.text}\n" for note in report.notes))
    elif report.notes:
        env.tell(report)


def _unknown(hub: Hub, runner: str, resources: Iterable[str]) -> Iterator[str]:
    from cn.agents.machine import machine_path, read_machine

    told = hub.config.last("cn.agency") or ""
    if runner:
        machine = read_machine(machine_path(told))
        if machine.runner(runner) is None:
            yield _sentence("runner", runner, [one.name for one in machine.runners], "no agent is started here")
    for kind, _, name in (one.partition(":") for one in resources):
        if kind == "mcp":
            from cn.server.machine_tools import read_settings, settings_path

            servers = [one.name for one in read_settings(settings_path(told)).servers]
            if name not in servers:
                yield _sentence("server", name, servers, "its tools are not there")
        elif kind == "repo" and not {":", "/"} & {*name.partition("#")[0]}:
            repositories = [one for one, _ in read_machine(machine_path(told)).repos.named]
            if name.partition("#")[0] not in repositories:
                yield _sentence("repository", name.partition("#")[0], repositories, "nothing is cloned")


def _sentence(kind: str, name: str, known: Collection[str], so: str) -> str:
    has = f"it has {', '.join(known)}" if known else "it has none"
    return f"agency.toml of this machine knows no {kind} {one_line(name, 60)!r} ({has}): until it does, {so}"
