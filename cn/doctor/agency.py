"""Checks of Agency's records, where a hub has some."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cn.doctor.finding import Finding, HubFacts, info, problem
from cn.git.process import RECORDS
from cn.transaction.lock import find_links
from cn.values.errors import Blocked, ConfigError
from cn.values.shell_words import command
from cn.values.text import redact, visible

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

if TYPE_CHECKING:
    from cn.agents.machine import Runner
    from cn.agents.workspace import Folders


def check_records(facts: HubFacts) -> Iterator[Finding]:
    """They are sound, what is derived follows from them, and they are on another machine too."""
    if find_links(facts.hub.state):
        return  # the check of the folder says what stops everything
    if not os.path.lexists(facts.hub.state / RECORDS):
        if url := facts.hub.config.last("agency.remote"):
            what = f"there is no Agency in {facts.hub.state}, and agency.remote names a copy"
            from cn.agency.store.copies import copy_from

            where = copy_from(facts.hub.config.url(url, push=True), facts.hub.root)
            restore = command("cn agency restore {}", redact(where))
            yield problem(what, "its records may have been removed", f"{restore} brings back what the copy holds")
        return
    # Most hubs have none, and it brings a database.
    from cn.agency.store.check import check_copy, check_records
    from cn.agency.store.copies import copy_url
    from cn.agency.store.ownership import AnothersRecords
    from cn.agency.store.repository import Places, Repository

    try:
        repository = Repository(Places(facts.hub.state), facts.hub.identity)
    except AnothersRecords as error:
        yield info(error.text, "", error.hint)
        return
    except Blocked as error:
        yield problem(error.text, "no command of Agency's works as long as it is so", error.hint)
        return
    try:
        copy = copy_url(facts.hub)
        for flaw in chain(
            check_records(repository, facts.now, url=copy, full=facts.full),
            check_copy(repository, copy, facts.now, full=facts.full),
        ):
            yield (problem if flaw.serious else info)(flaw.what, flaw.why, flaw.remedy)
    finally:
        repository.close()


def check_modes(facts: HubFacts) -> Iterator[Finding]:
    """The records are their owner's alone; older versions shared them by ``core.sharedRepository`` (git-config(1))."""
    folder = facts.hub.state / RECORDS
    with suppress(OSError):  # what lies there and is none the check of the records says
        state = folder.lstat()
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and state.st_mode & _OTHERS:
            kind = info if facts.hub.any_mode else problem  # where modes say nothing, chmod changes none
            closes = command("chmod -R go= -- {0} && git --git-dir={0} config core.sharedRepository umask", str(folder))
            what = f"the mode of {visible(str(folder))} lets other users of this machine in"
            yield kind(what, "files and messages of Agency are in it, for their owner alone", closes)


def check_settings(facts: HubFacts) -> Iterator[Finding]:
    """What git's configuration says of Agency can be read."""
    if not (facts.hub.state / RECORDS).is_dir():
        return
    from cn.agency.agency import person_of, read_limits

    try:
        person_of(facts.hub)
    except ConfigError as wrong:
        yield problem(wrong.text, "no command of Agency's works as long as it is so", wrong.hint)
    for one in read_limits(facts.hub)[1]:
        yield problem(one.what, "no server starts as long as it is so", one.remedy)


def check_agents(facts: HubFacts) -> Iterator[Finding]:
    """What this machine defines for agents makes sense, and each wrap holds: a probe tries it from inside."""
    if not (facts.hub.state / RECORDS).is_dir():
        return
    from cn.agents.machine import machine_path, read_machine
    from cn.agents.workspace import folders_of

    yield from _check_server(facts)
    try:
        machine = read_machine(machine_path(facts.hub.config.last("cn.agency")))
    except ConfigError as wrong:
        yield problem(wrong.text, "no agent is started", wrong.hint)
        return
    folders = folders_of(facts.hub)
    for left in folders.left_over():
        what = f"an agent that ended left what cannot be removed: {left.path}"
        path = str(left.path)  # what another user closed root removes
        removes = command("sudo rm -rf {}", path) if left.users else command("rm -rf {}", path)
        yield info(what, "it lies in nobody's way, and takes room", removes)
    for runner in machine.runners:
        yield from _check_runner(runner, facts, folders)


def _check_server(facts: HubFacts) -> Iterator[Finding]:
    """What the server that runs cannot do, and whether it is found."""
    from cn.agency.server_seen import see_server

    seen = see_server(facts.hub.state)
    if seen.unreached:
        what = f"the server (pid {seen.pid}) is not reached at {seen.unreached}"
        yield problem(
            what, "agents and clients find nobody", "it looks for its sockets each second; else start it anew"
        )
    for id, why in seen.problems.items():
        remedy = "correct agency.toml of this machine, and start the server anew"
        if why.startswith("it pauses "):
            remedy = command("cn mail send {} TEXT", id[:8])
        elif why.startswith("no model answered"):
            remedy = "look at the network, at the API's own word on its state, and at what the reason names"
        yield problem(f"handler {id[:8]} gets no agent: {why}", "what it is to do waits", remedy)
    for id, why in seen.faults.items():
        what = f"something went wrong with {id[:8]}: {why}"
        yield problem(what, "the server tries again; others are not kept", "look into what it names")
    for name, why in seen.away.items():
        remedy = f"look at [servers.{name}] in agency.toml, and at its secret"
        yield problem(f"the server {name} behind ours: {why}", "agents have its tools again when it answers", remedy)
    for name, why in seen.left_out.items():
        what = f"some tools of the server {name} are not listed by name: {why}"
        yield info(what, "agents call them by mcp_call alone", "tell who makes that server")


def _check_runner(runner: Runner, facts: HubFacts, folders: Folders) -> Iterator[Finding]:
    from cn.agency.server_seen import see_server
    from cn.agents.examine import NotTried, examine

    if runner.unsafe:
        yield problem(f"runner {runner.name} is not started", runner.unsafe, "correct it in agency.toml")
    elif runner.unguarded and not runner.wrap:
        why = "its agents can do whatever you can, with the hub and with other agents' tokens"
        yield info(f"runner {runner.name} is unguarded", why, "give it a wrap in agency.toml")
    elif runner.wrap:
        try:
            socket = see_server(facts.hub.state).socket
            leaks = examine(runner, facts.hub, folders, Path(socket) if socket else None)
        except NotTried as not_tried:
            yield problem(f"the wrap of runner {runner.name} does not work: {not_tried}", "no agent is started", _WRAPS)
            return
        if runner.wrap.user:
            what = f"agents of runner {runner.name} are not kept from each other"
            yield info(what, f"all of them are the user {runner.wrap.user}", "a runner with another user keeps apart")
        for leak in leaks:
            yield problem(f"an agent of runner {runner.name} is not held: {leak}", "a probe in its wrap tried", _WRAPS)


_WRAPS = 'look into docs/agency.md, "What holds an agent", and correct the runner in agency.toml'
