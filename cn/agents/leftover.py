"""End what agents left whose leases a command ended: no server may run that would."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from cn.agency.names import Uuid
from cn.agents.launcher import Exit, boot_id
from cn.agents.processes import (
    Launcher,
    command_to_end,
    command_to_kill,
    find_processes,
    kill_processes_of,
    processes_of,
    read_exit,
    read_launcher,
)
from cn.agents.workspace import Folders
from cn.values.shell_words import command

_SECONDS: Final = 5.0
"""For the launcher, which kills at once, until it is asked no more."""
_LOOK: Final = 0.02


def end_agents(folders: Folders, agents: Iterable[Uuid], seconds: float = _SECONDS) -> list[str]:
    """End all that these agents started on this machine, and say what became of each. Their folders are left to the
    server, which clears them away.
    """
    left = [(agent, _quit(folders, agent)) for agent in agents]
    end = time.monotonic() + seconds
    while any(_is_ending(folders, agent, launcher) for agent, launcher in left) and time.monotonic() < end:
        time.sleep(_LOOK)
    return [text for agent, launcher in left if (text := _told(folders, agent, launcher))]


def make_room(folders: Folders, agents: Iterable[Uuid]) -> None:
    """Remove what these agents made, as far as they are ended: the record of it may need the room."""
    for agent in agents:
        folder = folders.find(agent)
        launcher = read_launcher(folder.path) if folder else None
        if folder and not (launcher and launcher.is_running) and not processes_of(agent, folders.hub, folder.users):
            folders.empty(folder)


def end_strays(folders: Folders, known: Collection[str], users: Collection[str] = ()) -> None:
    """End what works for this very folder of the hub, though nobody knows its agent any more: its lease ended while no
    server ran that has its folder. ``users`` are those whom wraps take.
    """
    if folders.hub:
        for agent in {one.agent for one in find_processes(hub=folders.hub, users=users)} - {*known}:
            kill_processes_of(agent, folders.hub, users)


def _is_ending(folders: Folders, agent: Uuid, launcher: Launcher | None) -> bool:
    """Does a launcher still run, or the other half of one that was killed?"""
    return launcher is not None and (launcher.is_running or not _exit(folders, agent))


def _exit(folders: Folders, agent: Uuid) -> Exit | None:
    folder = folders.find(agent)
    return read_exit(folder.path) if folder else None


def _quit(folders: Folders, agent: Uuid) -> Launcher | None:
    """Signal the launcher, if it runs; None: there is none, or it told how its agent ended."""
    folder = folders.find(agent)
    launcher = read_launcher(folder.path) if folder else None
    if launcher is None or launcher.boot != boot_id() or not (launcher.is_running or not _exit(folders, agent)):
        return None
    with suppress(PermissionError):
        launcher.signal(signal.SIGQUIT)
    return launcher


def _told(folders: Folders, agent: Uuid, launcher: Launcher | None) -> str:
    name = f"agent {agent[:8]}"
    folder = folders.find(agent)
    if launcher and launcher.is_running:
        how = command_to_end(launcher.pid)
        lives = f"{name} lives on, pid {launcher.pid}, though its lease has ended: {how} ends it with all it started"
        for user in folder.users if folder else ():  # its agents may stop what that user is asked to end them with
            lives += f"; where it does not, {command('sudo -u {} kill -KILL -1', user)} ends all that {user} runs"
        return lives
    users = folder.users if folder and not _exit(folders, agent) else ()
    killed = kill_processes_of(agent, folders.hub, users)
    if living := find_processes(agent, folders.hub, users):
        ends = ", ".join(map(command_to_kill, living))
        return f"processes of {name} live on, though its lease has ended: {ends} ends them"
    told = _exit(folders, agent)
    if told and told["left"]:
        ends = ", ".join(command("kill -KILL {}", str(pid)) for pid in told["left"])
        return f"{name} is ended, but for processes that its launcher could not end: {ends}"
    if launcher and told:
        return f"{name} and all that it started are ended (pid {launcher.pid})"
    if launcher or killed:
        what = "its processes that could be found are ended; its launcher left no word of the end (was it killed?)"
        return f"{name}: {what}, so some may be left: ps -ef"
    if folder or folders.ended(agent).path.is_dir():
        return ""  # it had ended before
    if others := processes_of(agent):
        numbers = ", ".join(map(str, others))
        return f"{name} works for another folder of this hub, a copy or where it was before: left alone (pid {numbers})"
    return f"{name} was not started by this account on this machine: end its processes where it runs, if it does"
