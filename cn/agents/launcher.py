"""Above one agent: starts it at a word, and ends with it all that it started (``docs/agency.md``).

A program of the standard library alone, so that it starts at once: ``python -I -S launcher.py FOLDER``. It notes in
FOLDER who it is, says ``ready``, and waits on its standard input for the word: one line of JSON (:class:`Word`).
Where that ends first, because whoever started it is gone, it leaves, and nothing was started. A server that is killed
between the lease and the start so leaves no agent that nobody knows.

What the agent says goes through pipes of ours into files, of which the first and the last part are kept.

It outlives the server. SIGTERM: the agent gets it, and after its grace everything is killed. SIGQUIT: everything is
killed at once. How it ended is in FOLDER too.

There are two of it, a parent that is asked and a child that does all this: where one of them is killed the other ends
all that the agent started, for orphans become the children of whichever is left.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, Final, TypedDict

NOTE: Final = "launched.json"
EXIT: Final = "exit.json"
OUTPUT: Final = "output"
ERRORS: Final = "errors"
READY: Final = b"ready\n"
_BEFORE_OTHERS = 500
"""As if it had half of all memory more."""
_SUBREAPER, _DEATH_SIGNAL = 36, 1
"""``PR_SET_CHILD_SUBREAPER`` and ``PR_SET_PDEATHSIG`` (prctl(2))."""
_HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGALRM)
_LOOK = 0.02
_PATIENCE = 10.0
"""Seconds after which a process that cannot be killed is left, and told."""
_ANOTHER = 0.5
"""Seconds after which another killer is started beside one that has not ended: the agent may have stopped it."""
_KILLERS = 16
"""So many of them live at most."""
_QUIET: Final = 2
"""Looks in a row that find nothing, after which nothing is left."""
_ENDED_AT_ONCE: Final = 10_000
_UNNAMED: Final = "?"
"""In the place of a process that is another one at each look."""
_TOLD: Final = 100
"""So many of those that are left are told."""
_ALL: Final = -1
"""All processes of a user (kill(2))."""
_CANNOT_START = 127
_KILLED = "its launcher was killed"
_ROOM: Final = 4096
"""Bytes that are kept on the disk for :data:`EXIT`."""
MOST_KEPT: Final = 8 << 20
"""Bytes of what an agent says on each of its two outputs that are kept at most, the first :data:`_FIRST` among them."""
_FIRST: Final = 1 << 20
_PIECE: Final = 1 << 16


Left = dict[str, str]
"""Processes by their numbers, and when each of them started (:func:`start_time`)."""


class Word(TypedDict):
    """What to start. ``input`` is a file for its standard input, empty for none; ``grace`` in seconds.

    ``killer`` is a command that ends processes of another user, given their numbers, or -1 for all that user's; empty
    where there is none.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    input: str
    grace: float
    killer: list[str]


class Exit(TypedDict):
    """How it ended. ``code`` is that of :func:`os.waitstatus_to_exitcode`, None where nothing was started.

    ``forced``: everything was killed before it ended by itself. ``left``: processes that could not be killed.
    """

    code: int | None
    forced: bool
    left: Left
    why: str
    time: float


def start_time(pid: int) -> str:
    """When a process started, as the system tells it; empty where there is none, or it is dead (proc_pid_stat(5)).

    With the number and :func:`boot_id` it names a process for all times.
    """
    if not os.path.isdir("/proc/self"):
        return _ask(["ps", "-o", "lstart=", "-p", str(pid)])
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def boot_id() -> str:
    """Which start of the machine this is."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return _ask(["sysctl", "-n", "kern.boottime"])


def _ask(argv: list[str]) -> str:
    with suppress(OSError):
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def main(folder: str) -> int:
    """Wait for the word, start, and stay until nothing is left."""
    with suppress(OSError):
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code (wait(2))
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _prctl(_SUBREAPER, 1)
    write_note(folder, NOTE, {"pid": os.getpid(), "start": start_time(os.getpid()), "boot": boot_id()})
    _keep_room(folder)
    with suppress(OSError):
        os.write(1, READY)
    line = sys.stdin.buffer.readline()
    _close_standard()
    if not line.endswith(b"\n"):
        return _end(folder, None, why="the word to begin never came")
    word: Word = json.loads(line)
    parent = os.getpid()
    try:
        second = os.fork()
    except OSError as why:
        return _end(folder, _CANNOT_START, why=f"cannot start {word['argv'][0]}: {why.strerror}")
    if second:
        return _guard(folder, second, word["killer"])
    _prctl(_SUBREAPER, 1)  # of the parent alone until now (prctl(2))
    _prctl(_DEATH_SIGNAL, signal.SIGQUIT)
    return _run(folder, word, parent) if os.getppid() == parent else _end(folder, None, why=_KILLED)


def _guard(folder: str, second: int, killer: list[str]) -> int:
    """Pass on what is asked until the second one is gone; if it was killed, do what it would have done."""
    while (code := _reap(second)) is None:
        heard = signal.sigwait(_HEARD)
        if heard not in (signal.SIGCHLD, signal.SIGALRM):
            with suppress(ProcessLookupError):
                os.kill(second, heard)
                os.kill(second, signal.SIGCONT)  # the agent may have stopped it
    if code == 0:
        return 0
    return _end(folder, None, forced=True, left=_end_all(Killers(killer)), why=_KILLED)


def _run(folder: str, word: Word, parent: int) -> int:
    """Start the agent, and stay until nothing of it is left, or ``parent`` is gone."""
    try:
        child, keepers = _start(folder, word)
    except OSError as why:
        return _end(folder, _CANNOT_START, why=f"cannot start {word['argv'][0]}: {why.strerror}")
    killers = Killers(word["killer"])
    code, forced = _watch(child, word["grace"], killers)
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    left = _end_all(killers)
    for keeper in keepers:  # nobody writes any more, unless somebody is left, or was given the pipe
        keeper.join(_ANOTHER if left else _PATIENCE)
    return _end(folder, code, forced=forced, left=left, why="" if os.getppid() == parent else _KILLED)


def _close_standard() -> None:
    """Whoever started it may be gone; nothing is said to anybody from here on."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _start(folder: str, word: Word) -> tuple[int, list[threading.Thread]]:
    """The agent as a child in a session of its own, and who keeps what it says; raises what fails before it runs."""
    pipes = [os.pipe() for _ in (OUTPUT, ERRORS)]
    files = [os.open(word["input"] or os.devnull, os.O_RDONLY), *(written for _, written in pipes)]
    told, tells = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become(word, files, tells, parent)
    for fd in (*files, tells):
        os.close(fd)
    paths = [os.path.join(folder, name) for name in (OUTPUT, ERRORS)]
    keepers = [
        threading.Thread(target=keep, args=(read, path), daemon=True)
        for path, (read, _) in zip(paths, pipes, strict=True)
    ]
    for keeper in keepers:
        keeper.start()
    with os.fdopen(told, "rb") as pipe:
        problem = pipe.read()
    if problem:
        os.waitpid(child, 0)
        raise OSError(int(problem), os.strerror(int(problem)))
    return child, keepers


def keep(pipe: int, path: str, most: int = MOST_KEPT, first: int = _FIRST) -> None:
    """Write what comes out of a pipe into a file until its end; once there is more than ``most``, the middle goes.

    A disk that is full loses words, and never stops the agent.
    """
    size, left_out = 0, 0
    out = _open_new(path)
    while piece := _read(pipe):
        try:
            if size + len(piece) > most:
                out, size, left_out = _without_middle(path, out, first, most // 2, left_out)
            out.write(piece)
            out.flush()
            size += len(piece)
        except OSError:
            left_out += len(piece)
    out.close()


def _open_new(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "r+b", buffering=0)


def _read(pipe: int) -> bytes:
    with suppress(OSError):
        return os.read(pipe, _PIECE)
    return b""


def _without_middle(path: str, out: BinaryIO, first: int, last: int, left_out: int) -> tuple[BinaryIO, int, int]:
    """The file anew, with its first and its last part, and a line between that says how much is gone."""
    out.seek(0)
    data = out.read()
    begin, rest = data[:first], data[first:]
    cut = max(0, len(rest) - last)
    end = rest[cut:]
    gone = left_out + cut
    said = b"\n[cn: %d bytes are left out here]\n" % gone
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    made = _open_new(new)
    made.write(begin + said + end)
    os.replace(new, path)
    out.close()
    return made, len(begin) + len(said) + len(end), gone


def _become(word: Word, files: list[int], tells: int, parent: int) -> None:
    """In the child: never returns."""
    try:
        os.setsid()
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked to be told
            os._exit(_CANNOT_START)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, which is no choice of anybody's
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _go_first()
        os.chdir(word["cwd"])
        for target, fd in enumerate(files):
            os.dup2(fd, target)
        os.execvpe(word["argv"][0], word["argv"], word["env"])  # noqa: S606  a shell has nothing to do here
    except OSError as why:
        os.write(tells, str(why.errno or 1).encode())
    finally:
        os._exit(_CANNOT_START)


def _go_first() -> None:
    """Where memory is short the kernel ends an agent before the server, and what its wrap keeps in memory goes with it
    (proc_pid_oom_score_adj(5)). It may undo that for a process of its own.
    """
    with suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
        wanted = max(int(file.read()), _BEFORE_OTHERS)
        file.seek(0)
        file.write(str(wanted))


class Killers:
    """Runs of ``command``, which ends processes of another user, who may stop them: none is waited for."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self._living: set[int] = set()
        self._last = -_ANOTHER

    def among(self, children: Sequence[int]) -> set[int]:
        """Those of our living children that are such runs."""
        self._living &= {*children}
        return {*self._living}

    def send(self, number: signal.Signals, pids: Sequence[int]) -> None:
        """Start one, unless another one has begun just now, or too many stand still."""
        begun = time.monotonic()
        runs = self.among(children_of(os.getpid()))
        if not self.command or len(runs) >= _KILLERS or (runs and begun - self._last < _ANOTHER):
            return
        argv = [*self.command, f"-{number.name.removeprefix('SIG')}", *map(str, pids)]
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        with suppress(OSError):
            self._living.add(os.posix_spawnp(argv[0], argv, os.environ, file_actions=null, setsigmask=()))
            self._last = begun


def _watch(child: int, grace: float, killers: Killers) -> tuple[int, bool]:
    """Until the agent is gone: its exit code, and whether it had to be killed."""
    forced = False
    while True:
        code = _reap(child)
        if code is not None:
            return code, forced
        heard = signal.sigwait(_HEARD)
        if heard in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            _kill_group(child, signal.SIGTERM, killers)
            if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                signal.setitimer(signal.ITIMER_REAL, max(grace, _LOOK))
        elif heard in (signal.SIGQUIT, signal.SIGALRM):
            forced = True
            _kill_group(child, signal.SIGKILL, killers)
            signal.setitimer(signal.ITIMER_REAL, 1.0)


def _kill_group(child: int, number: signal.Signals, killers: Killers) -> None:
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        killers.send(number, [child])


def _reap(child: int) -> int | None:
    """Collect all that has ended; the exit code of the agent, once it has."""
    return next((os.waitstatus_to_exitcode(status) for pid, status in _collect() if pid == child), None)


def _collect() -> list[tuple[int, int]]:
    """What has ended, with its status; not more than can be there at once, for it may come as fast as it goes."""
    found = list[tuple[int, int]]()
    with suppress(ChildProcessError):
        while len(found) < _ENDED_AT_ONCE and (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def _end_all(killers: Killers) -> Left:
    """Kill what the agent left, until there is nothing; orphans become our children (prctl(2)). What is left.

    A process that goes on in a new one all the time is gone when it is looked at, and known by what ends again and
    again. Another user is asked at last to end all that is that user's, which nothing escapes.
    """
    begun, quiet, runs = time.monotonic(), 0, set[int]()
    while (quiet < _QUIET or runs) and time.monotonic() < begun + _PATIENCE:
        ended = {pid for pid, _ in _collect()} - runs
        children = children_of(os.getpid())
        runs = killers.among(children)
        others = [pid for pid in children if pid not in runs]
        foreign = [pid for pid in others if not _kill(pid)]
        quiet = 0 if others or ended else quiet + 1
        if time.monotonic() > begun + _PATIENCE / 2 and not quiet:
            killers.send(signal.SIGKILL, [_ALL])
        elif foreign:
            killers.send(signal.SIGKILL, foreign)
        elif quiet:  # what they were to end is gone; what they started becomes our child, and is ended as one
            for run in runs:
                _kill(run)
        time.sleep(_LOOK if children else 0)
    for run in runs:
        _kill(run)
    left = {str(pid): start_time(pid) for pid in children_of(os.getpid()) if pid not in runs}
    return dict([*left.items()][:_TOLD]) or ({} if quiet else {_UNNAMED: ""})


def _kill(pid: int) -> bool:
    """Was it ours to end?"""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def children_of(pid: int) -> list[int]:
    """Its living children; none where the system has no ``/proc``."""
    with suppress(OSError):
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [one for one in numbers if parent_of(one) == pid]
    return []


def parent_of(pid: int) -> int:
    """Who started a living process; 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[1])


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end(
    folder: str, code: int | None, *, forced: bool = False, left: dict[str, str] | None = None, why: str = ""
) -> int:
    found: Exit = {"code": code, "forced": forced, "left": left or {}, "why": why, "time": time.time()}
    with suppress(OSError):  # the folder may be gone
        write_note(folder, EXIT, found)
    return 0


def _keep_room(folder: str) -> None:
    """For how it will have ended: the agent may fill the disk."""
    with os.fdopen(_open_note(os.path.join(folder, EXIT)), "wb") as file:
        file.write(b" " * _ROOM)
        file.flush()
        os.fsync(file.fileno())


def _open_note(path: str) -> int:
    """A note that is to be; what room it has it keeps, so that it can be written on a full disk."""
    return os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def write_note(folder: str, name: str, content: object) -> None:
    """A file that is there whole, or not at all."""
    path = os.path.join(folder, name)
    with os.fdopen(_open_note(path), "w") as file:
        json.dump(content, file)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
