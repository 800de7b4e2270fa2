"""Checks of the agent's queue, and of what stays on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cn.agent.plan.turns import source_of
from cn.doctor.facts import HubFacts
from cn.doctor.finding import Finding, info, problem
from cn.protocol.queue_item import INPUT, OUTPUT
from cn.protocol.states.agent import Actor
from cn.run.snapshot import Snapshot
from cn.values.names import HubPath
from cn.values.shell_words import command
from cn.views.queue import QueueView, make_queue_view


def check_queue(facts: HubFacts) -> Iterator[Finding]:
    """The queue can be read, moves on, and nothing in it was given up."""
    if facts.main is None or facts.settings is None:
        return
    config = facts.settings.config
    view = make_queue_view(facts.hub, Snapshot(facts.hub.git, facts.main), config, facts.now)
    for path in view.damaged:
        yield problem(
            "queue",
            f"{path} cannot be read",
            "it was not written by cn",
            f"{command('git rm -- {}', path)}, commit and push",
        )
    for item in view.dead:
        yield info(
            "queue",
            f"{source_of(item)} was given up: {item.reason}",
            f"the agent used up its attempts, or a person cleared the queue ({item.id})",
            f"decide the thread, or {command('cn queue retry {}', item.id)}"
            if config.interface == "queue"
            else "decide the thread",
        )
    if config.interface != "queue" and (view.turn or view.waiting):
        yield info(
            "queue",
            f"{len(view.waiting) + (view.turn is not None)} items are left in the queue",
            "hub.yaml says 'interface: triage', so nothing is given to an agent",
            "decide their threads, and 'cn queue clear' takes out what waits; or set 'interface: queue'",
        )
    yield from _stuck(facts, view)


def _stuck(facts: HubFacts, view: QueueView) -> Iterator[Finding]:
    there = os.path.lexists(facts.hub.root / OUTPUT)
    if there and (view.turn is None or not view.here):
        yield info(
            "queue",
            f"{OUTPUT} answers nothing that is in flight here",
            "its item was decided another way, or another clone has it",
            "'cn inbox process' sets it aside",
        )
    if view.actor is Actor.TIMED_OUT and view.turn is not None:
        yield problem(
            "queue",
            f"the agent has had {source_of(view.turn.input)} for too long",
            "nothing executed 'cn inbox process' or 'cn inbox sync' since its time was over",
            "does cron run? 'cn cron show', 'cn inbox sync'",
        )


def check_local(facts: HubFacts) -> Iterator[Finding]:
    """What stays on this machine is ignored by git, so that nobody commits it by accident."""
    local = facts.settings.config.local if facts.settings else ()
    paths = [INPUT, OUTPUT, HubPath("logs/cn.log"), *local]
    probes = [f"{path}/x.md" if path in local and not path.endswith(".json") else str(path) for path in paths]
    git = facts.hub.git.with_env(GIT_LITERAL_PATHSPECS="0")  # check-ignore knows no other
    done = git.run("check-ignore", "--no-index", "--stdin", "-z", stdin="\0".join(probes).encode(), check=False)
    ignored = set(done.fields)
    missing = [path for path, probe in zip(paths, probes, strict=True) if probe not in ignored]
    if missing:
        yield info(
            "local",
            f"git does not ignore {', '.join(missing)}",
            "they belong to this machine; 'git add -A' would take them along",
            "add them to .gitignore and commit it",
        )
