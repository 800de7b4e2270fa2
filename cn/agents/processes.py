"""Processes of agents, known again after the server was started anew, and after their launchers were killed."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

from cn.agents import carry, launcher, marks
from cn.agents.launcher import Exit, Word
from cn.agents.marks import marked
from cn.agents.wraps import as_user
from cn.system import removal
from cn.system.ancestors import ancestors
from cn.system.closed import open_again
from cn.system.files import read_regular, write_file
from cn.values.errors import Blocked
from cn.values.shell_words import command
from cn.values.text import one_line

MARK = "CN_AGENT_ID"
"""The variable of the environment by which a process of an agent is known, whoever its parent is."""
OF_HUB = "CN_AGENT_HUB"
"""Beside it the folder of the hub for which it works (:func:`cn.system.files.identity_of`): a hub that was copied has
the same agents in its records, and the processes are the original's.
"""
HANDLER = "CN_HANDLER"
"""And the handler for which it works."""
_NONE: Mapping[int, str] = MappingProxyType({})
_ENDING = "ending.json"
_MOST = 1 << 16
_LOOK = 0.01
_SECONDS, _TO_EMPTY, _TO_CARRY = 5.0, 60.0, 600.0
"""For what another user is asked: what an agent of that one's does may hold it up."""


_MOST_STANDING = 4
_standing: dict[str, list[subprocess.Popen[bytes]]] = {}
"""By user, what it was asked and has not answered."""


class NotKnown(Blocked):
    """Another user of the machine was asked for its processes, or to end one, and did not answer."""


class Launcher(NamedTuple):
    """The process that ends an agent: its number alone may be another's by now."""

    pid: int
    start: str
    boot: str

    @property
    def is_running(self) -> bool:
        """Is it still this very process?"""
        same = self.start and launcher.start_time(self.pid) == self.start
        return bool(same) and launcher.boot_id() == self.boot

    def signal(self, number: signal.Signals) -> None:
        """SIGTERM: end the agent, after its grace with all that it started; SIGQUIT: everything now. Its agent may have
        stopped it (SIGSTOP), so it is told to go on, too.
        """
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
                os.kill(self.pid, signal.SIGCONT)


def command_to_end(pid: int) -> str:
    """What a person types to end an agent by its launcher, also by one that the agent has stopped."""
    return command("kill -QUIT {} && kill -CONT {}", str(pid), str(pid))


def launch(folder: Path, word: Word) -> subprocess.Popen[bytes]:
    """Start an agent, whose notes and output are in ``folder``. Blocks until its launcher is ready, a few hundredths.

    The caller collects the process at some time. Raises :class:`Blocked` where there is no launcher; then nothing runs.
    """
    argv = [sys.executable, "-I", "-S", launcher.__file__, str(folder)]
    try:
        process = subprocess.Popen(
            argv,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as why:
        raise Blocked(f"cannot start an agent: {why.strerror}", "free memory, or end other processes") from why
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin, process.stdout as stdout:
        ready = stdout.readline() == launcher.READY
        if ready:
            with suppress(BrokenPipeError):
                stdin.write(json.dumps(word).encode() + b"\n")
                stdin.flush()
    if not ready:
        process.kill()
        process.wait()
        raise Blocked(f"cannot start an agent in {folder}", "is the disk full, or the folder gone?")
    return process


def see_launcher(folder: Path) -> Launcher | None:
    """As :func:`read_launcher`; raises :class:`OSError` where that is closed to us, which is nobody's end."""
    path = folder / launcher.NOTE
    open_again(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        return _launcher_in(_parsed(file.read(_MOST)))


def read_launcher(folder: Path) -> Launcher | None:
    """Who was started for an agent; None: nobody ever was, or it cannot be read."""
    return _launcher_in(_read(folder / launcher.NOTE))


def _launcher_in(found: Mapping[str, object]) -> Launcher | None:
    try:
        return Launcher(int(str(found["pid"])), str(found["start"]), str(found["boot"]))
    except (KeyError, ValueError):
        return None


def read_exit(folder: Path) -> Exit | None:
    """How it ended; None: it did not, or its launcher was killed."""
    found = _read(folder / launcher.EXIT)
    if found.keys() != Exit.__annotations__.keys():
        return None
    if not isinstance(found["left"], dict):  # of an older launcher, that told no more of them than their numbers
        found["left"] = {}
    return found  # type: ignore[return-value]


def left_by(folder: Path) -> list[int]:
    """Which of those live still that a launcher could not end."""
    told = read_exit(folder)
    left = told["left"] if told else {}
    return [int(pid) for pid, began in left.items() if pid.isdigit() and launcher.start_time(int(pid)) == began]


class Ending(NamedTuple):
    """Why an agent was told to end, in a line, and what it did last; both empty: it was not."""

    why: str = ""
    told: str = ""


def note_ending(folder: Path, ending: Ending) -> None:
    """Keep it before the agent is told: whoever sees it off may be a server after this one."""
    write_file(folder / _ENDING, json.dumps(ending._asdict()).encode(), root=folder, mode=0o600)


def read_ending(folder: Path) -> Ending:
    """What :func:`note_ending` kept."""
    found = _read(folder / _ENDING)
    return Ending(*(str(found.get(name, "")) for name in Ending._fields))


def _read(path: Path) -> dict[str, object]:
    open_again(path)
    return _parsed(read_regular(path, _MOST) or b"")


def _parsed(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Found(NamedTuple):
    """A living process of an agent; ``hub`` is the folder for which it works. ``user`` found it, empty: we did."""

    pid: int
    agent: str
    hub: str
    handler: str
    user: str = ""


def find_processes(
    agent: str = "", hub: str | None = None, users: Collection[str] = (), launchers: Mapping[int, str] = _NONE
) -> list[Found]:
    """Every living process of an agent, of a hub's folder, as far as its environment tells: of any agent where none is
    named, of any folder for None. Empty without ``/proc``. ``users`` are those whom a wrap takes, who look too. Raises
    :class:`NotKnown` where one of these does not.

    ``launchers`` are those that run, process → agent: what runs below another agent's is that one's, whatever it says
    that it is.
    """
    processes = [_found(pid, found) for pid, found in marked() if MARK in found]
    for user in users if os.geteuid() else ():  # root sees all
        processes += [_found(pid, found, user) for pid, found in _marked_as(user)]
    meant = (one for one in processes if agent in ("", one.agent) and hub in (None, one.hub))
    return [one for one in meant if _launched(one.pid, launchers) in ("", one.agent)]


def _launched(process: int, launchers: Mapping[int, str]) -> str:
    """The agent below whose launcher it runs; empty: none of these."""
    return next((launchers[one] for one in ancestors(process) if one in launchers), "") if launchers else ""


def command_to_kill(one: Found) -> str:
    """What a person types to end it."""
    if one.user:
        return command("sudo -u {} kill -KILL {}", one.user, str(one.pid))
    return command("kill -KILL {}", str(one.pid))


def _found(pid: int, told: Mapping[str, str], user: str = "") -> Found:
    return Found(pid, told[MARK], told.get(OF_HUB, ""), told.get(HANDLER, ""), user)


def processes_of(
    agent: str, hub: str | None = None, users: Collection[str] = (), launchers: Mapping[int, str] = _NONE
) -> list[int]:
    """The numbers of the living processes of an agent."""
    return [one.pid for one in find_processes(agent, hub, users, launchers)]


def command_to_kill_all(user: str) -> str:
    """What a person types to end all processes of a user, whatever these do to what would end one of them."""
    return command("sudo -u {} kill -KILL -1", user)


def _marked_as(user: str) -> Iterator[tuple[int, dict[str, str]]]:
    """What this one may look into. Its agents may have made it up: it is good for what that user may do alone."""
    if not _is_here(user):
        return
    said = _ask(user, sys.executable, "-I", "-S", marks.__file__)
    try:
        rows = [(pid, {name: str(value) for name, value in found.items()}) for pid, found in json.loads(said)]
    except (ValueError, TypeError, AttributeError):
        raise _not_known(user, "what it says is no list of them") from None
    yield from ((pid, found) for pid, found in rows if isinstance(pid, int) and pid > 1 and MARK in found)


def _is_here(user: str) -> bool:
    """Is it a user of this machine? One that is none has no processes."""
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False


def _ask(user: str, *words: str, seconds: float = _SECONDS) -> bytes:
    """What a command of another user says. One that lasts too long, or fails, is told by :class:`NotKnown`."""
    try:
        return _answer(user, _begin(user, words), seconds)
    except _Unanswered as why:
        raise _not_known(user, str(why)) from None


class _Unanswered(Exception):
    """Why a command of another user did not do what it was to."""


def _begin(user: str, words: Sequence[str], stdin: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a command of another user.

    Where an agent stopped it, only root can end it: it stands there, and a few that do are the last that are started.
    """
    standing = _standing[user] = [one for one in _standing.get(user, ()) if one.poll() is None]
    if len(standing) >= _MOST_STANDING:
        raise _Unanswered(f"{len(standing)} commands that it was asked stand still")
    argv = [*as_user(user), *words]
    try:
        return subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as why:
        raise _Unanswered(f"sudo cannot be started: {why.strerror}") from None


def _answer(user: str, process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """What it says."""
    try:
        said, complained = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _standing.setdefault(user, []).append(process)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        raise _Unanswered(f"sudo did not answer within {seconds:.0f} s") from None
    if process.returncode:
        last = complained.decode("utf-8", "replace").strip().splitlines()
        raise _Unanswered(last[-1] if last else f"sudo ended with {process.returncode}")
    return said


def _not_known(user: str, why: str) -> NotKnown:
    text = f"it is not known which processes of agents {user} runs ({one_line(why, 120)})"
    return NotKnown(text, f"{command_to_kill_all(user)} ends all that {user} runs")


def kill_processes_of(
    agent: str, hub: str | None = None, users: Collection[str] = (), launchers: Mapping[int, str] = _NONE
) -> int:
    """Kill what an agent left whose launcher was killed; how many there were. ``users``, ``launchers`` and what it
    raises as :func:`find_processes`.
    """
    killed: set[int] = set()  # one that is dying is found once more
    nothing = 0
    for _ in range(100):  # what is being started meanwhile is found the next time
        found = [one for one in find_processes(agent, hub, users, launchers) if launcher.start_time(one.pid)]
        nothing = 0 if found else nothing + 1
        if nothing == 2:  # once is not enough: while a process starts a program, it shows no environment
            break
        for one in found:
            if not one.user:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(one.pid, signal.SIGKILL)
        for user in {one.user for one in found if one.user}:
            kill_as(user, [one.pid for one in found if one.user == user])
        killed |= {one.pid for one in found}
        time.sleep(_LOOK)
    return len(killed)


def kill_as(user: str, pids: Sequence[int]) -> None:
    """Have another user kill its processes; raises :class:`NotKnown` where some are there still."""
    try:
        _ask(user, "kill", "-KILL", *map(str, pids))
    except NotKnown:
        if [pid for pid in pids if launcher.start_time(pid)]:
            raise


def empty_as(user: str, folder: Path) -> None:
    """Have another user remove what is its own in a folder that it closed to us; raises :class:`NotKnown`."""
    if os.geteuid() and _is_here(user):  # root removes all
        _ask(user, sys.executable, "-I", "-S", removal.__file__, str(folder), seconds=_TO_EMPTY)


def carry_as(
    user: str, copy: Path, folder: Path, beside: str, name: str, watch: Callable[[subprocess.Popen[bytes]], None]
) -> str:
    """Have another user make a folder of ours anew, as its own, in one in which it works: as ``beside``, and under its
    name when it is whole (:mod:`cn.agents.carry`). Why that was not done, else empty.

    ``watch`` hears of the process that brings it: where that ends, the other user's does.
    """
    words = (sys.executable, "-I", "-S", "-X", "utf8", carry.__file__)
    argv = [*words, str(os.getpid())]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        brings = subprocess.Popen(argv, cwd=copy, stdin=null, stdout=pipe, stderr=null, process_group=0)
    except OSError as why:
        return f"it cannot be brought: {why.strerror}"
    watch(brings)
    with brings:
        assert brings.stdout is not None
        try:
            with brings.stdout as stdout:  # of ours nobody reads: where the other user's ends, so does this one
                taker = _begin(user, (*words, str(folder), beside, name), stdout)
            with suppress(subprocess.TimeoutExpired):
                brings.wait(_TO_CARRY)
            brings.kill()
            _answer(user, taker, _TO_EMPTY)
        except _Unanswered as why:
            return one_line(str(why), 120)
        finally:
            brings.kill()
    return ""
