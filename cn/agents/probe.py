"""What an agent could reach: run inside its wrap, it tries, and says what it could (``cn doctor``).

A program of the standard library alone: ``python -I -S probe.py``, with a JSON object on its standard input: paths that
it must not be able to read or list, its own token, the number of a process outside, on which it tries what an agent
may do to none, and what there is of the kernel's to be reached (:class:`Outside`); whoever started that process, and
listens there, looks what came of it. It is also given what an agent has to reach. It answers with a JSON object of two
lists of sentences: what it could do, and what of that it cannot reach; both empty where all is well.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypedDict

_TOKEN = b"CN_AGENT_TOKEN="
MADE = ".cn-probe-"
"""How the names of what it makes outside begin."""
_OF_KERNEL = tuple(f"/dev/{name}" for name in ("kmsg", "mem", "port", "kvm", "fuse", "loop-control", "net/tun"))


_JOIN_SESSION, _LINK, _READ, _SESSION = 1, 8, 11, -3
"""``KEYCTL_JOIN_SESSION_KEYRING``, ``KEYCTL_LINK``, ``KEYCTL_READ``, ``KEY_SPEC_SESSION_KEYRING`` (keyctl(2))."""
_SEEN_AS_A_NAME = 0x00000100 | 0x00000200
"""``IN_CREATE``, ``IN_DELETE`` (inotify(7))."""
_MPTCP = 262
_MOST_SECONDS = 2.0
_OF_NO_NAMESPACE = {
    40: "a virtual machine's host (AF_VSOCK)",
    31: "Bluetooth (AF_BLUETOOTH)",
    42: "a modem (AF_QIPCRTR)",
}


class Outside(TypedDict):
    """What is there outside. ``keyctl`` is the number of that system call, ``keyring`` and ``key`` are of the user; 0:
    there is none. ``abstract`` is the name of a socket that listens, empty where others' may be reached. ``ports`` of
    TCP and of UDP listen on loopback; None: the network may be used. ``net`` is the namespace where they do.
    """

    keyctl: int
    keyring: int
    key: int
    abstract: str
    ports: tuple[int, int] | None
    net: int


def leaks(paths: Sequence[str], own: str, outside: Outside) -> Iterator[str]:
    """Each thing that can be reached from here, in a sentence."""
    yield from _files(paths, own)
    for path in paths:
        if not _can_open(path) and _can_watch(path):
            yield f"it can watch which files come and go in {path}"
    if _can_read_key(outside):
        yield "it can read, and change, the user's keys in the kernel (keyrings(7))"
    if outside["abstract"] and _connects(socket.AF_UNIX, 0, "\0" + outside["abstract"]):
        yield "it can call abstract sockets of others (unix(7)), with which agents in sandlock can be ended"
    if outside["ports"]:
        yield from _network(*outside["ports"], outside["net"])


def _files(paths: Sequence[str], own: str) -> Iterator[str]:
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
    for path in paths:
        if _can_change_mode(path):
            yield f"it can change the mode of {path}, and so close it"
        if _can_bind(path):
            yield f"it can make sockets in {path}, in the place of others"
    if _can_lease(__file__):
        yield f"it can hold up all that open {__file__}, which it may only read (fcntl(2), F_SETLEASE)"
    if path := next(_settings(), ""):
        yield f"it can change the kernel's settings: {path}"
    if path := next(_devices(), ""):
        yield f"it can open {path}"
    if _can_make_device():
        yield "it can make devices, and so read every disk"


def lacks(needed: Sequence[str]) -> Iterator[str]:
    """Each path that is closed to it, in a sentence; that something is not there is another matter."""
    for path in needed:
        try:
            if stat.S_ISSOCK(os.stat(path).st_mode):
                _call(path)
            elif not os.access(path, os.X_OK):
                raise PermissionError
        except PermissionError:
            closed = next((one for one in _above(path) if not os.access(one, os.X_OK)), path)
            yield f"it cannot reach {path}: {closed} is closed to it"
        except OSError:
            continue


def _above(path: str) -> Iterator[str]:
    """The folders in which it lies, the outermost first."""
    parts = path.split("/")
    yield from ("/".join(parts[:count]) or "/" for count in range(1, len(parts)))


def _can_watch(path: str) -> bool:
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        fd = libc.inotify_init1(os.O_CLOEXEC)
        if fd >= 0:
            watched: int = libc.inotify_add_watch(fd, os.fsencode(path), _SEEN_AS_A_NAME)
            os.close(fd)
            return watched >= 0
    return False


def _can_read_key(outside: Outside) -> bool:
    """As one that is among the keys of the own session, or by making the user's keyring part of a new one."""
    if not outside["key"]:
        return False
    call = ctypes.CDLL(None).syscall
    some = ctypes.create_string_buffer(16)

    def reads() -> bool:
        return int(call(outside["keyctl"], _READ, outside["key"], some, len(some))) > 0

    if reads():
        return True
    call(outside["keyctl"], _JOIN_SESSION, None)
    call(outside["keyctl"], _LINK, outside["keyring"], _SESSION)
    return reads()


def _network(tcp: int, udp: int, net: int) -> Iterator[str]:
    """How it can be used though it may not be. What is listened to in a namespace of one's own, nobody outside hears.
    Whether the datagram arrives is seen there.
    """
    for name, protocol in (("TCP", 0), ("MPTCP", _MPTCP)):
        if _connects(socket.AF_INET, protocol, ("127.0.0.1", tcp)):
            yield f"it can call others by the network ({name})"
        if _net_namespace() in (0, net) and _listens(protocol):
            yield f"it can be called by the network ({name})"
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", udp))
    for family, name in _OF_NO_NAMESPACE.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            with suppress(OSError), socket.socket(family, kind):
                yield f"it can make sockets to {name}"
                break


def _connects(family: int, protocol: int, address: str | tuple[str, int]) -> bool:
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM, protocol) as caller:
        caller.settimeout(_MOST_SECONDS)
        caller.connect(address)
        return True
    return False


def _listens(protocol: int) -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        return True
    return False


def _net_namespace() -> int:
    with suppress(OSError):
        return os.stat("/proc/self/ns/net").st_ino
    return 0


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
    try:
        _call(path)
    except ConnectionRefusedError:  # nobody listens at the moment
        return True
    return True


def _call(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(_MOST_SECONDS)
        caller.connect(path)


def _can_write(path: str) -> bool:
    """Only what is there outside is tried: a folder of the wrap's own, which is empty, is nobody's."""
    if not os.path.isdir(path) or not _can_open(path):
        return False
    name = os.path.join(path, f"{MADE}{os.getpid()}")
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    os.unlink(name)
    return True


def _can_change_mode(path: str) -> bool:
    """To the one that it has."""
    try:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))
    except OSError:
        return False
    return True


def _can_bind(path: str) -> bool:
    """Whoever started us removes what we cannot."""
    name = os.path.join(path, f"{MADE}{os.getpid()}-s")
    with suppress(OSError), socket.socket(socket.AF_UNIX) as made:
        made.bind(name)
        with suppress(OSError):
            os.unlink(name)
        return True
    return False


def _can_lease(path: str) -> bool:
    with suppress(AttributeError, OSError), open(path, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return True
    return False


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
    found = list(leaks(asked["paths"], asked["token"], asked["outside"]))
    json.dump({"leaks": found, "lacks": list(lacks(asked["needed"]))}, sys.stdout)


if __name__ == "__main__":
    main()
