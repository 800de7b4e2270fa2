"""Start a command inside sandlock: ``python -P landlock.py {JSON object} command…``.

A program of its own, for it stays beside the agent: sandlock's supervisor answers for the system calls that Landlock
does not know. The object's keys are ``readable`` and ``writable`` (paths), ``own`` (folders), ``server`` (the agents'
socket, or nothing), ``network`` (true or false), and ``cwd``. Nothing is imported but the standard library and
sandlock.

Landlock has no rule for modes, owners and times of files. Who changes them is asked here (:class:`Changes`): what lies
in a folder of ``own`` is changed by this program, in the caller's place, and nothing else is. The file is held before
it is judged, so that no other comes in its place (seccomp_unotify(2)).

Who binds a socket to a path is answered by sandlock's supervisor, which is this process and not held by the rules of
the command. So this process makes none but below ``own`` itself (:func:`make_sockets_in`).

No command makes sockets of files itself (``--no-unix`` of :mod:`cn.agents.seccomp`). The one that it may reach, the
server's, is connected to here, and given to who asks (:data:`ASK`).

Where sandlock asks, it gives the command standard files of its own and keeps what is written; so
:mod:`cn.agents.seccomp`, the first within it, asks for ours (:data:`ASK`).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import sandlock

ASK: Final = 0x636E0000
"""As the flags of fchmodat2(2), which has no such: the caller wants the standard file whose number is its folder, or
(:data:`SERVER`) a connection to the server."""
SERVER: Final = 3
_CANNOT_START, _BY_SIGNAL = 127, 128
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DONE = signal.SIGUSR1
_BEGINS = 10.0
"""Seconds until the command has its standard files; a signal to it waits so long."""
_HERE: Final = -100
"""``AT_FDCWD`` (openat(2))."""
_NOT_FOLLOWED, _FILE_ITSELF = 0x100, 0x1000
"""``AT_SYMLINK_NOFOLLOW``, ``AT_EMPTY_PATH`` (openat(2))."""
_LONGEST: Final = 4096
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _BENEATH = 444, 445, 446, 1
"""landlock(7), with ``LANDLOCK_RULE_PATH_BENEATH``: the same numbers on all machines."""
_MAKE_SOCK: Final = 1 << 9
"""``LANDLOCK_ACCESS_FS_MAKE_SOCK``."""
_NO_NEW_PRIVILEGES: Final = 38
"""``PR_SET_NO_NEW_PRIVS`` (prctl(2))."""
_REGISTRY: Final = 0x534C4305
"""With a user's number, by exclusive or, the key by which sandlock finds what it counts that user's sandboxes by."""
_PAGE: Final = 4096
_SAME: Final = 0xFFFFFFFF


class Call(NamedTuple):
    """A system call that changes a file: where its arguments are, and ``what`` it changes. None: it has no such.

    ``fixed`` are flags that it has by itself. The file is the open one ``folder`` where there is no ``path``.
    """

    what: str
    path: int | None
    folder: int | None = None
    value: int = 0
    flags: int | None = None
    fixed: int = 0


_FCHMODAT2: Final = 452
_FOR_ALL: Final = {_FCHMODAT2: Call("mode", 1, 0, 2, 3)}
_GENERIC: Final = {
    52: Call("mode", None, 0, 1),  # fchmod
    53: Call("mode", 1, 0, 2),  # fchmodat
    54: Call("owner", 1, 0, 2, 4),  # fchownat
    55: Call("owner", None, 0, 1),  # fchown
    88: Call("times", 1, 0, 2, 3),  # utimensat
    **_FOR_ALL,
}
CALLS: Final[Mapping[str, Mapping[int, Call]]] = {
    "x86_64": {
        90: Call("mode", 0, value=1),  # chmod
        91: Call("mode", None, 0, 1),  # fchmod
        92: Call("owner", 0, value=1),  # chown
        93: Call("owner", None, 0, 1),  # fchown
        94: Call("owner", 0, value=1, fixed=_NOT_FOLLOWED),  # lchown
        132: Call("seconds", 0, value=1),  # utime
        235: Call("microseconds", 0, value=1),  # utimes
        260: Call("owner", 1, 0, 2, 4),  # fchownat
        261: Call("microseconds", 1, 0, 2),  # futimesat
        268: Call("mode", 1, 0, 2),  # fchmodat
        280: Call("times", 1, 0, 2, 3),  # utimensat
        **_FOR_ALL,
    },
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
}
"""By machine (uname(2)) and number (the kernel's ``unistd.h``)."""
_TIMES: Final = ("seconds", "microseconds", "times")
"""utime(2), utimes(2), utimensat(2)."""
_TO_NANO: Final = 1000


class Changes(sandlock.Handler):  # type: ignore[misc]  # sandlock has no types
    """Does what a command asks to do to the mode, the owner or the times of a file in its own folders ``own`` (absolute
    real paths), and refuses it of all others with ``EPERM``.
    """

    on_exception = sandlock.ExceptionPolicy.DENY_EPERM

    def __init__(self, own: Sequence[str], server: str) -> None:
        self._server = server
        self._own = [os.path.realpath(os.fsencode(one)) for one in own]
        self._calls = CALLS[os.uname().machine]
        self.numbers = [*self._calls]
        self.begun = threading.Event()
        self.first = 0
        """The process of the command, once it has its standard files."""

    def handle(self, ctx: sandlock.HandlerCtx) -> sandlock.NotifAction:
        """Answer a call of one of :attr:`numbers`."""
        try:
            if ctx.syscall_nr == _FCHMODAT2 and ctx.args[3] == ASK:
                return sandlock.NotifAction.inject_fd_send(self._give(ctx))
            self._change(ctx, self._calls[ctx.syscall_nr])
        except OSError as why:
            return sandlock.NotifAction.errno(why.errno or errno.EPERM)
        return sandlock.NotifAction.returns(0)

    def _give(self, ctx: sandlock.HandlerCtx) -> int:
        """A file that the caller asked for."""
        number = ctx.args[0]
        if number == SERVER and self._server:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
                made.setblocking(False)  # whoever asks waits, and no other call
                made.connect(self._server)
                made.setblocking(True)
                return made.detach()
        if number not in (0, 1, 2):
            raise _error(errno.EBADF)
        self.first = self.first or ctx.pid
        if number == sys.stderr.fileno():
            self.begun.set()
        return os.dup(number)

    def _change(self, ctx: sandlock.HandlerCtx, call: Call) -> None:
        times = _times(ctx, call) if call.what in _TIMES else None
        fd = _hold(ctx, call)
        try:
            held = f"/proc/self/fd/{fd}"
            if not self._is_own(os.readlink(os.fsencode(held))):
                raise _error(errno.EPERM)
            if call.what == "mode":
                os.chmod(held, ctx.args[call.value] & 0o7777)
            elif call.what == "owner":
                user, group = (_number(ctx.args[call.value + one]) for one in (0, 1))
                os.chown(held, user, group)
            else:
                _set_times(held, times)
        finally:
            os.close(fd)

    def _is_own(self, path: bytes) -> bool:
        return any(path == one or path.startswith(one + b"/") for one in self._own)


_OF_THE_CALLER = {b"/proc/self/": b"/", b"/proc/thread-self/": b"/", b"/dev/fd/": b"/fd/"}
"""What the kernel reads for whoever asks (proc(5)), by where that is in the folder of a process."""


def _hold(ctx: sandlock.HandlerCtx, call: Call) -> int:
    """The file that the caller means, open as no more than a place (``O_PATH``)."""
    flags = call.fixed | (ctx.args[call.flags] if call.flags is not None else 0)
    if flags & 0xFFFFFFFF & ~(_NOT_FOLLOWED | _FILE_ITSELF):
        raise _error(errno.EINVAL)
    folder = ctypes.c_int(ctx.args[call.folder] & 0xFFFFFFFF).value if call.folder is not None else _HERE
    path = b""
    if call.path is not None and (ctx.args[call.path] or call.what not in _TIMES):
        path = _read_path(ctx, ctx.args[call.path])
        if not path and not flags & _FILE_ITSELF:
            raise _error(errno.ENOENT)
    process = f"/proc/{ctx.pid}".encode()
    base = process + (b"/cwd" if folder == _HERE else b"/fd/%d" % folder)
    plain = re.sub(rb"(?:/\.?)+/", b"/", path)
    for link, place in _OF_THE_CALLER.items():  # not ours
        if plain.startswith(link):
            path = process + place + plain.removeprefix(link)
    try:
        # A link of /proc leads to the open file itself, be it a link: only a path is not to be followed.
        followed = os.O_NOFOLLOW if path and flags & _NOT_FOLLOWED else 0
        return os.open(os.path.join(base, path) if path else base, os.O_PATH | os.O_CLOEXEC | followed)
    except FileNotFoundError:
        is_open = folder == _HERE or path.startswith(b"/") or os.path.lexists(base)
        raise _error(errno.ENOENT if is_open else errno.EBADF) from None


def _read_path(ctx: sandlock.HandlerCtx, address: int) -> bytes:
    """Not by sandlock's own reader of texts, which takes names for UTF-8. What lies behind may be no memory."""
    read = b""
    while len(read) < _LONGEST:
        part: bytes | None = ctx.read(address + len(read), _PAGE - (address + len(read)) % _PAGE)
        if part is None:
            raise _error(errno.EFAULT)
        read += part
        if b"\0" in part:
            return read[: read.index(b"\0")]
    raise _error(errno.ENAMETOOLONG)


def _times(ctx: sandlock.HandlerCtx, call: Call) -> bytes | None:
    """As ``struct timespec[2]``; None: now."""
    address = ctx.args[call.value]
    if not address:
        return None
    parts = 2 if call.what == "seconds" else 4
    data = ctx.read(address, parts * 8)
    if data is None:
        raise _error(errno.EFAULT)
    found = struct.unpack(f"={parts}q", data)
    if call.what == "seconds":
        found = (found[0], 0, found[1], 0)
    elif call.what == "microseconds":
        if any(not 0 <= found[half] < 1_000_000 for half in (1, 3)):
            raise _error(errno.EINVAL)
        found = (found[0], found[1] * _TO_NANO, found[2], found[3] * _TO_NANO)
    return struct.pack("=4q", *found)


def _set_times(path: str, times: bytes | None) -> None:
    """``times`` as utimensat(2) has them."""
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.utimensat(_HERE, path.encode(), times, 0))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _must(answer: int) -> int:
    """What a call of the C library answered; raises :class:`OSError` where it failed."""
    if answer < 0:
        raise _error(ctypes.get_errno())
    return answer


def _number(given: int) -> int:
    """Of a user or a group; -1: it stays."""
    number = given & _SAME
    return -1 if number == _SAME else number


def _code(ended: sandlock.Result) -> int:
    if ended.reason == sandlock.ExitReason.EXITED:
        return int(ended.exit_code)
    return _BY_SIGNAL + int(ended.signal if ended.reason == sandlock.ExitReason.SIGNALED else signal.SIGKILL)


def make_sockets_in(folders: Sequence[str]) -> None:
    """Let this process, and all that it starts, bind sockets to paths below these folders alone; raises
    :class:`OSError`.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    handled = struct.pack("=Q", _MAKE_SOCK)
    rules = _must(libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0))
    for folder in folders:
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        _must(libc.syscall(_ADD_RULE, rules, _BENEATH, struct.pack("=Qi", _MAKE_SOCK, fd), 0))
        os.close(fd)
    _must(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _must(libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def taken_registry(user: int, folder: Path = Path("/proc/sysvipc")) -> str:
    """Who else made what sandlock counts a user's sandboxes by, so that it starts none, and who takes that away: memory
    and semaphores of System V (proc(5), ``sysvipc``), whose key everybody knows. Empty: nobody did.
    """
    key, remove, others = _REGISTRY ^ user, list[str](), set[str]()
    for kind, option in (("shm", "-M"), ("sem", "-S")):
        with suppress(OSError, ValueError, KeyError):
            names, *rows = [line.split() for line in (folder / kind).read_text("ascii").splitlines()]
            for row in (dict(zip(names, one, strict=True)) for one in rows):
                if int(row["key"]) & _SAME == key and int(row["uid"]) != user:
                    remove.append(f"{option} {key:#x}")
                    others.add(row["uid"])
    whose, words = " and ".join(sorted(others)), " ".join(remove)
    return f"user {whose} holds the key that it needs; that user, or root, frees it: 'ipcrm {words}'" if remove else ""


def main(asked: str, command: Sequence[str]) -> int:
    """Run it, with our own standard files, and pass on what asks it to end; its exit code."""
    given = json.loads(asked)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code (wait(2))
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, _DONE))
    try:
        make_sockets_in(given["own"])
    except OSError as why:
        print(f"sandlock cannot start {command[0]}: Landlock: {why.strerror}", file=sys.stderr)
        return _CANNOT_START
    box = sandlock.Sandbox(
        fs_readable=given["readable"],
        fs_writable=given["writable"],
        net_allow=["*:*", "udp://*:*"] if given["network"] else [],
        net_allow_bind=["*"] if given["network"] else [],
        cwd=given["cwd"],
    )
    changes = Changes(given["own"], given["server"])
    code = [_CANNOT_START]

    def run() -> None:
        try:
            ended = box.run_with_handlers(list(command), [(number, changes) for number in changes.numbers])
            if ended.error is None:
                code[0] = _code(ended)
            for file, written in ((sys.stdout, ended.stdout), (sys.stderr, ended.stderr)):  # before it asked for ours
                file.buffer.write(written)
                file.flush()
            why: object = ended.error
        except (RuntimeError, ValueError, OSError, sandlock.SandlockError) as failed:
            why = failed
        if why is not None:
            print(f"sandlock cannot start {command[0]}: {taken_registry(os.getuid()) or why}", file=sys.stderr)
        changes.begun.set()
        os.kill(os.getpid(), _DONE)

    threading.Thread(target=run, daemon=True).start()
    while (heard := signal.sigwait((*_PASSED_ON, _DONE))) != _DONE:
        changes.begun.wait(_BEGINS)
        with suppress(ProcessLookupError):
            if changes.first:  # it leads a group of its own, which our launcher's signals do not reach
                os.killpg(changes.first, heard)
    return code[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
