"""What an agent could reach: run inside its wrap, it tries, and says what it could (``cn doctor``).

A program of the standard library alone: ``python -I -S probe.py``, with a JSON object on its standard input: paths that
it must not be able to read or list, its own token, and the number of a process outside, on which it tries what an agent
may do to none; whoever started that one looks what came of it. It answers with a JSON list of sentences, empty where
nothing was found.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

_TOKEN = b"CN_AGENT_TOKEN="
_OF_KERNEL = tuple(f"/dev/{name}" for name in ("kmsg", "mem", "port", "kvm", "fuse", "loop-control", "net/tun"))


def leaks(paths: Sequence[str], own: str) -> Iterator[str]:
    """Each thing that can be reached from here, in a sentence."""
    for path in paths:
        if _can_open(path):
            yield f"it can read {path}"
    for pid, token in _tokens():
        if token != own:
            yield f"it can read the token of another agent in /proc/{pid}/environ"
            break
    for path in paths:
        if _can_write(path):
            yield f"it can write in {path}"
    if path := next(_settings(), ""):
        yield f"it can change the kernel's settings: {path}"
    if path := next(_devices(), ""):
        yield f"it can open {path}"
    if _can_make_device():
        yield "it can make devices, and so read every disk"


def _can_open(path: str) -> bool:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            return _can_call(path)
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _can_call(path: str) -> bool:
    """To see a socket is not to be let in."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(path)
        except ConnectionRefusedError:  # nobody listens at the moment
            return True
    return True


def _can_write(path: str) -> bool:
    """Only what is there outside is tried: a folder of the wrap's own, which is empty, is nobody's."""
    if not os.path.isdir(path) or not _can_open(path):
        return False
    name = os.path.join(path, f".cn-probe-{os.getpid()}")
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    os.unlink(name)
    return True


def _settings() -> Iterator[str]:
    """What root may write below ``/proc`` beside its processes, and can be opened for it here. Nothing is written."""
    for name in _names("/proc"):
        if not name.isdigit() and not os.path.islink(f"/proc/{name}"):
            for path in _below(f"/proc/{name}"):
                if _is_private(path, stat.S_ISREG, 0o222, stat.S_IWOTH) and _opens(path, os.O_WRONLY):
                    yield path


def _below(path: str) -> Iterator[str]:
    yield path
    for here, _, names in os.walk(path):
        yield from (os.path.join(here, name) for name in names)


def _devices() -> Iterator[str]:
    """Disks, and the kernel's own; others are not opened, for some act when they are."""
    for path in (*_OF_KERNEL, *(f"/dev/{name}" for name in _names("/dev"))):
        if path in _OF_KERNEL and _is_private(path, stat.S_ISCHR, 0o777, stat.S_IROTH) and _opens(path, os.O_RDONLY):
            yield path
        if _is_private(path, stat.S_ISBLK, 0o777, stat.S_IROTH) and _opens(path, os.O_RDONLY):
            yield path


def _is_private(path: str, kind: Callable[[int], bool], some: int, of_others: int) -> bool:
    """Is it of this kind, for somebody, and not for everybody of the machine?"""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return kind(mode) and bool(mode & some) and not mode & of_others


def _opens(path: str, how: int) -> bool:
    try:
        os.close(os.open(path, how | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _can_make_device() -> bool:
    name = f".cn-probe-device-{os.getpid()}"
    try:
        os.mknod(name, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    except OSError:
        return False
    os.unlink(name)
    return True


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def try_process(pid: int) -> None:
    """Do to a process what the system lets its user do. In a wrap with numbers of its own this is another, or none."""
    if pid in (os.getpid(), os.getppid()):
        return
    tries: tuple[Callable[[], object], ...] = (
        lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.sched_setaffinity(pid, [*os.sched_getaffinity(pid)][:1]),
        lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        lambda: os.kill(pid, signal.SIGSTOP),
    )
    for one in tries:
        with suppress(OSError, ValueError, AttributeError):
            one()


def _tokens() -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                    for part in file.read().split(b"\0"):
                        if part.startswith(_TOKEN):
                            yield pid, part.removeprefix(_TOKEN).decode("ascii", "replace")


def main() -> None:
    """Read what to try, and answer."""
    asked = json.load(sys.stdin)
    try_process(asked["process"])
    json.dump(list(leaks(asked["paths"], asked["token"])), sys.stdout)


if __name__ == "__main__":
    main()
