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
    NotKnown,
    command_to_end,
    command_to_kill,
    command_to_kill_all,
    find_processes,
    kill_as,
    kill_processes_of,
    left_by,
    processes_of,
    read_exit,
    read_launcher,
)
from cn.agents.workspace import Folder, Folders
from cn.values.errors import Blocked
from cn.values.shell_words import command

_SECONDS: Final = 12.0
"""For the launcher, which kills at once, and after its own patience tells what it could not kill."""
_DYING: Final = 1.0
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
        with suppress(NotKnown):
            if folder and not (launcher and launcher.is_running) and not _rest_of(folders, folder):
                folders.empty(folder)


def launchers_of(folders: Folders) -> dict[int, Uuid]:
    """The process above all of an agent's → the agent, as far as they run."""
    found = {folder.agent: read_launcher(folder.path) for folder in folders.live()}
    return {launcher.pid: agent for agent, launcher in found.items() if launcher and launcher.is_running}


def end_rest(folders: Folders, folder: Folder) -> int:
    """End what an agent left whose launcher is gone; how many were found. Raises :class:`Blocked`, with what helps,
    where some of it lives on, or nobody knows whether it does.
    """
    users = _asked(folder)
    for user in users:
        if left := left_by(folder.path):
            kill_as(user, left)
    killed = kill_processes_of(folder.agent, folders.hub, users, launchers_of(folders))
    end = time.monotonic() + _DYING
    while (rest := _rest_of(folders, folder)) and time.monotonic() < end:
        time.sleep(_LOOK)
    if rest:
        text = f"processes of agent {folder.agent[:8]} live on (pid {', '.join(rest)})"
        ends = [f"{command_to_kill_all(user)} ends all that {user} runs" for user in users]
        raise Blocked(text, "; ".join(ends) or f"{', '.join(rest.values())} ends them")
    return killed


def _asked(folder: Folder) -> tuple[str, ...]:
    """The other user of the machine who has to be asked what an agent left: nobody where its launcher saw to it all, or
    the machine was started anew.
    """
    launcher, told = read_launcher(folder.path), read_exit(folder.path)
    is_over = launcher is None or launcher.boot != boot_id() or (told and not told["left"])
    return () if is_over else folder.users


def _rest_of(folders: Folders, folder: Folder) -> dict[str, str]:
    """The numbers of what lives of it, and what ends each."""
    found = find_processes(folder.agent, folders.hub, _asked(folder), launchers_of(folders))
    left = {str(pid): command("kill -KILL {}", str(pid)) for pid in left_by(folder.path)}
    return left | {str(one.pid): command_to_kill(one) for one in found}


def end_strays(folders: Folders, known: Collection[str], users: Collection[str] = ()) -> None:
    """End what works for this very folder of the hub, though nobody knows its agent any more: its lease ended while no
    server ran that has its folder. ``users`` are those whom wraps take; raises :class:`NotKnown`.
    """
    launchers = launchers_of(folders) if folders.hub else {}
    for some in ((), *((user,) for user in users)) if folders.hub else ():
        found = find_processes(hub=folders.hub, users=some, launchers=launchers)
        for agent in {one.agent for one in found} - {*known}:
            kill_processes_of(agent, folders.hub, some, launchers)


def _is_ending(folders: Folders, agent: Uuid, launcher: Launcher | None) -> bool:
    """Does a launcher still run, or the other half of one that was killed?"""
    return launcher is not None and (launcher.is_running or not _exit(folders, agent))


def _exit(folders: Folders, agent: Uuid) -> Exit | None:
    folder = folders.find(agent)
    told = read_exit(folder.path) if folder else None
    return told or read_exit(folders.ended(agent).path)  # a server may have put it there meanwhile


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
            lives += f"; where it does not, {command_to_kill_all(user)} ends all that {user} runs"
        return lives
    try:
        launchers = launchers_of(folders)
        killed = end_rest(folders, folder) if folder else kill_processes_of(agent, folders.hub, (), launchers)
    except Blocked as why:
        return f"{name}: its lease has ended, and {why.text}: {why.hint}"
    told = _exit(folders, agent)
    if launcher and told:
        return f"{name} and all that it started are ended (pid {launcher.pid})"
    if launcher or killed:
        what = "its processes that could be found are ended; its launcher left no word of the end (was it killed?)"
        return f"{name}: {what}, so some may be left: ps -ef"
    if folder or folders.ended(agent).path.is_dir():
        return ""  # it had ended before
    if others := processes_of(agent, launchers=launchers_of(folders)):
        numbers = ", ".join(map(str, others))
        return f"{name} works for another folder of this hub, a copy or where it was before: left alone (pid {numbers})"
    return f"{name} was not started by this account on this machine: end its processes where it runs, if it does"
