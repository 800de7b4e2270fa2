"""Agents as the processes of this machine show them, and how they are ended where nobody can start a process any more.

An agent that takes all processes of its user leaves none for git, with which every command reads the records. Here
nothing is started: ``/proc`` is read, and the index of the records as it was written last. So it knows nothing without
``/proc``.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from cn.agency.names import Uuid, is_uuid
from cn.agency.plan.structure import below
from cn.agency.store.derived import open_file
from cn.agency.store.repository import Places
from cn.agents import launcher
from cn.agents.processes import find_processes
from cn.agents.workspace import LIVE
from cn.git.process import GitError
from cn.values.errors import CnError

_SECONDS: Final = 15.0
_LOOK: Final = 0.02
_FEWEST: Final = 4
"""Digits that name an agent or a handler."""
_LAUNCHER: Final = os.path.join("cn", "agents", os.path.basename(launcher.__file__))
_NO_THREAD: Final = "can't start new thread"
_DENIED: Final = os.strerror(errno.EACCES)


class AtWork(NamedTuple):
    """An agent that works for a hub's folder: its launcher, and how many processes it has; ``handler`` and ``hub`` are
    empty where none of these tells any more.
    """

    pid: int
    agent: str
    handler: str
    hub: str
    processes: int


def is_crowded(why: BaseException | None) -> bool:
    """Did an error come of it that the system starts no process and no thread any more (fork(2), ``EAGAIN``)?"""
    return any(
        (isinstance(one, OSError) and one.errno == errno.EAGAIN)
        or (isinstance(one, RuntimeError) and _NO_THREAD in str(one))
        for one in _chain(why)
    )


def is_shut_out(why: BaseException | None) -> bool:
    """Did an error come of files that do not let us in, or of which git could make nothing? An agent that may change
    modes by their paths can close them as fast as they are opened.
    """
    return any(
        isinstance(one, PermissionError | GitError) or (isinstance(one, CnError) and _DENIED in one.text)
        for one in _chain(why)
    )


def _chain(why: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []  # a chain of causes may come back to where it began
    while why is not None and why not in seen:
        yield why
        seen.append(why)
        why = why.__cause__ or why.__context__


def at_work() -> list[AtWork]:
    """Every agent of this user on this machine, the one with most processes first."""
    parents = dict(_parents())
    children = defaultdict[int, list[int]](list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    launchers = {pid: agent for pid in parents if (agent := _launches(pid))}
    marks = {one.pid: one for one in find_processes()}
    found = []
    for pid, agent in launchers.items():
        if parents[pid] not in launchers:  # the first of its two halves
            family = _family(pid, children)
            marked = next((marks[one] for one in family if one in marks and marks[one].agent == agent), None)
            told = (marked.handler, marked.hub) if marked else ("", "")
            found.append(AtWork(pid, agent, *told, len(family)))
    return sorted(found, key=lambda one: -one.processes)


def _parents() -> Iterator[tuple[int, int]]:
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (parent := launcher.parent_of(int(name))):
                yield int(name), parent


def _launches(pid: int) -> str:
    """The agent above which a process of ours stands; empty where it is no launcher."""
    with suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return ""
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        folder = Path(os.fsdecode(words[-2])) if len(words) > 2 else Path()
        if os.fsdecode(words[-3] if len(words) > 2 else b"").endswith(_LAUNCHER) and folder.parent.name == LIVE:
            return folder.name if is_uuid(folder.name) else ""
    return ""


def _family(pid: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def meant(who: str, hub: str, places: Places, *, whole_branch: bool) -> list[AtWork]:
    """The agents that somebody means who names ``who``: one by its digits, or that of a handler; with ``whole_branch``
    those of all below it too, and not the root handler's, which never ends. ``hub`` as in their environment.
    """
    if who != "root" and len(who) < _FEWEST:
        return []
    handlers = _handlers(who, places, whole_branch=whole_branch)
    return [
        one
        for one in at_work()
        if one.hub in ("", hub) and (one.handler in handlers or (not whole_branch and one.agent.startswith(who)))
    ]


def _handlers(who: str, places: Places, *, whole_branch: bool) -> Collection[str]:
    """As the index knew them last."""
    with suppress(sqlite3.Error, OSError):
        index = open_file(places.index_file, "ro")
        if index is not None:
            with closing(index):
                head = index.head()
                named = [head.root] if head and who == "root" else index.find(who, 2)
                found = [id for id in named if index.handler(id)]
                if len(found) != 1 or (whole_branch and head and found[0] == head.root):
                    return ()
                return {found[0], *(below(found[0], index) if whole_branch else ())}
    return ()


def end(found: Sequence[AtWork]) -> list[Uuid]:
    """End these with all that they started; those that are gone after some seconds."""
    began = {one.pid: launcher.start_time(one.pid) for one in found}
    for one in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one.pid, signal.SIGQUIT)
            os.kill(one.pid, signal.SIGCONT)  # its agent may have stopped it
    deadline = time.monotonic() + _SECONDS
    while (left := {pid for pid in began if _lives(pid, began[pid])}) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    return [Uuid(one.agent) for one in found if one.pid not in left]  # type: ignore[arg-type]


def _lives(pid: int, began: str) -> bool:
    return bool(began) and launcher.start_time(pid) == began
