"""Run a command that can do nothing to other processes of its user: ``python -I -S seccomp.py command…``.

Landlock keeps a program from signals to what is outside and from its memory, and not from system calls that ask for the
same user alone: to limit the processor time or the files of another process until the system kills it, to take its
turns away. A filter of seccomp(2) refuses these with EPERM for any process but the caller's own. It holds for all that
the command starts, and nobody can take it off again.

A program of the standard library alone. Where it cannot say which calls these are, it starts nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_CANNOT_START: Final = 127
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
"""``PR_SET_NO_NEW_PRIVS``, ``PR_SET_SECCOMP``, ``SECCOMP_MODE_FILTER`` (prctl(2))."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
"""``SECCOMP_RET_ALLOW``; ``SECCOMP_RET_ERRNO`` with EPERM (seccomp(2))."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where ``struct seccomp_data`` has them; each argument has eight bytes."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""``BPF_LD|BPF_W|BPF_ABS``, ``BPF_JMP|BPF_JEQ|BPF_K``, ``BPF_JMP|BPF_JGE|BPF_K``, ``BPF_RET|BPF_K``."""
_OTHER_ABI: Final = 0x40000000
"""``__X32_SYSCALL_BIT``: from here on the numbers are those of another interface of x86_64; no other has them."""


class Call(NamedTuple):
    """A system call that is allowed where its argument ``own`` is 0 (the caller itself).

    ``but``: refused also where the first argument is this (all processes of a user). ``unless``: allowed in any case
    where this argument is a null pointer, for then it only reads.
    """

    number: int
    own: int = 0
    but: int | None = None
    unless: int | None = None


_OF_A_USER, _IO_OF_A_USER = 2, 3
"""``PRIO_USER`` (setpriority(2)), ``IOPRIO_WHO_USER`` (ioprio_set(2))."""


def _calls(numbers: Sequence[int]) -> tuple[Call, ...]:
    limit, priority, io, parameter, scheduler, affinity, attributes = numbers
    return (
        Call(limit, unless=2),
        Call(priority, 1, but=_OF_A_USER),
        Call(io, 1, but=_IO_OF_A_USER),
        *map(Call, (parameter, scheduler, affinity, attributes)),
    )


KNOWN: Final = {
    "x86_64": (0xC000003E, _calls((302, 141, 251, 142, 144, 203, 314))),
    "aarch64": (0xC00000B7, _calls((261, 140, 30, 118, 119, 122, 274))),
}
"""By machine its ``AUDIT_ARCH`` and the numbers of prlimit64, setpriority, ioprio_set, sched_setparam,
sched_setscheduler, sched_setaffinity and sched_setattr (the kernel's ``unistd_64.h``)."""


def program(machine: str) -> bytes:
    """The filter, as bpf(2) has it; raises :class:`KeyError` for a machine whose numbers are not known."""
    architecture, calls = KNOWN[machine]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _REFUSE),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _OTHER_ABI, 0, 1),
        _step(_RETURN, _REFUSE),
    ]
    for call in calls:
        judged = [*_judge(call)]
        steps += [_step(_EQUAL, call.number, 0, len(judged)), *judged]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _judge(call: Call) -> Iterator[bytes]:
    """Ends with an answer whatever the arguments are. Where a number is read as an int, its low half decides."""
    if call.unless is not None:
        yield from (_step(_LOAD, _at(call.unless)), _step(_EQUAL, 0, 0, 3))
        yield from (_step(_LOAD, _at(call.unless) + 4), _step(_EQUAL, 0, 0, 1), _step(_RETURN, _ALLOW))
    if call.but is not None:
        yield from (_step(_LOAD, _at(0)), _step(_EQUAL, call.but, 0, 1), _step(_RETURN, _REFUSE))
    yield from (_step(_LOAD, _at(call.own)), _step(_EQUAL, 0, 0, 1))
    yield from (_step(_RETURN, _ALLOW), _step(_RETURN, _REFUSE))


def _at(argument: int) -> int:
    """The low half of an argument; both machines have it first."""
    return _ARGUMENTS + 8 * argument


def _step(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, k)


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def hold(machine: str) -> None:
    """Put the filter on this thread and all that it starts; raises :class:`OSError` where the system has none."""
    code = program(machine)
    libc = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(code) // 8, code)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(command: Sequence[str]) -> int:
    """Become the command; an exit code where that cannot be."""
    try:
        hold(os.uname().machine)
        os.execvp(command[0], list(command))  # noqa: S606  a shell has nothing to do here
    except KeyError:
        print(f"on {os.uname().machine} nothing holds an agent in sandlock from other processes", file=sys.stderr)
    except OSError as why:
        print(f"cannot start {command[0]}: {why.strerror}", file=sys.stderr)
    return _CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
