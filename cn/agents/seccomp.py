"""Run a command that reaches nothing of its user but what its wrap shows: ``python -I -S seccomp.py [--no-inet]
[--no-watches] [--no-rights] [--no-unix] [--no-system-v] [--few-processes] [--standard-files] command…``.

Namespaces and Landlock keep a program from files, memory and signals, and not from all that the kernel keeps for a
user. A filter of seccomp(2) refuses these system calls, for all that the command starts, and nobody can take it off:

- to limit the processor time or the files of another process until the system kills it, to take its turns away;
- the user's keys (keyrings(7)), which are no file and in no namespace;
- sockets but those of the Internet, of files and of routes (address_families(7)): no namespace has those between a
  virtual machine and its host. ``--no-inet``: those of the Internet too, whatever their protocol, so nobody is called
  and nobody listens;
- leases, and notices of changes to a folder (``F_SETLEASE``, ``F_NOTIFY``, fcntl(2)): who owns a file may hold up all
  that open it, though the wrap shows it to be read alone;
- user namespaces of its own (user_namespaces(7)), of which a user has so many, as containers are refused them: without
  one no wrap begins;
- io_uring(7), which does what a filter does not see, io_setup(2), of which the machine has so many for all, and
  fanotify(7);
- ``--no-watches``: inotify(7), which tells names of files in folders that cannot be read;
- ``--no-rights``: what an owner does to a file without writing to it, past a wrap that leaves that to it: the bits by
  which a program has the rights of its owner or group (inode(7)), access lists and other attributes (acl(5), xattr(7)),
  flags and seals (ioctl(2)); and message queues, which are in no folder (mq_overview(7));
- ``--no-system-v``: memory, semaphores and queues of System V (sysvipc(7)), which outlive who made them, and whose keys
  others go by;
- ``--no-unix``: sockets of files (unix(7)) but connected pairs of them: a supervisor that looks where a connection goes
  sees an address that may be another one when the kernel reads it.

Where the kernel has scopes for it (Landlock's sixth interface, Linux 6.12), it reaches no abstract socket (unix(7)) of
others either, which a wrap with the network of the machine does not hide, and sends no signal to what it did not start:
an agent of another user stops, and ends, neither what that user is asked to end it with, nor another agent.

``--few-processes``, within a user namespace of its own: the command and all that it starts are so many processes and
threads at most that its user can start others (getrlimit(2), ``RLIMIT_NPROC``). Root has no such limit.

``--standard-files``: they are asked of :mod:`cn.agents.landlock`, in which the command is.

A program of the standard library alone. Where it cannot say which calls these are, it starts nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_CANNOT_START: Final = 127
NO_INET: Final = "--no-inet"
NO_WATCHES: Final = "--no-watches"
NO_RIGHTS: Final = "--no-rights"
NO_UNIX: Final = "--no-unix"
NO_SYSTEM_V: Final = "--no-system-v"
FEW_PROCESSES: Final = "--few-processes"
STANDARD_FILES: Final = "--standard-files"
ASK: Final = 0x636E0000
"""As :data:`cn.agents.landlock.ASK`."""
_FCHMODAT2: Final = 452
PROCESSES: Final = 4096
"""How many at most; a quarter of what its user may have, where that is less."""
_COUNTS_EACH: Final = (5, 14)
"""The first Linux that counts the processes of each user namespace; before, all of a user's count."""
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
"""``PR_SET_NO_NEW_PRIVS``, ``PR_SET_SECCOMP``, ``SECCOMP_MODE_FILTER`` (prctl(2))."""
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
"""``SECCOMP_RET_ALLOW``; ``SECCOMP_RET_ERRNO``, which has the error in its low half (seccomp(2))."""
_REFUSE = _ERROR | errno.EPERM
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where ``struct seccomp_data`` has them; each argument has eight bytes."""
_LOAD, _EQUAL, _AT_LEAST, _HAS_ANY, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""``BPF_LD|BPF_W|BPF_ABS``, ``BPF_JMP|BPF_JEQ|BPF_K``, ``…JGE…``, ``…JSET…``, ``BPF_ALU|BPF_AND|BPF_K``,
``BPF_RET|BPF_K``."""
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


class Numbers(NamedTuple):
    """Of system calls of one machine, whose ``AUDIT_ARCH`` is ``architecture`` (the kernel's ``audit.h``,
    ``unistd.h``).
    """

    architecture: int
    prlimit64: int
    setpriority: int
    ioprio_set: int
    sched_setparam: int
    sched_setscheduler: int
    sched_setaffinity: int
    sched_setattr: int
    add_key: int
    request_key: int
    keyctl: int
    socket: int
    socketpair: int
    inotify_add_watch: int
    fanotify_init: int
    fcntl: int
    clone: int
    unshare: int
    io_setup: int
    shmget: int
    semget: int
    msgget: int


_GENERIC: Final = (261, 140, 30, 118, 119, 122, 274, 217, 218, 219, 198, 199, 27, 262, 25, 220, 97, 0, 194, 190, 186)
KNOWN: Final = {
    "x86_64": Numbers(
        *(0xC000003E, 302, 141, 251, 142, 144, 203, 314, 248, 249, 250, 41, 53, 254, 300, 72, 56, 272, 206, 29, 64, 68)
    ),
    "aarch64": Numbers(0xC00000B7, *_GENERIC),
    "riscv64": Numbers(0xC00000F3, *_GENERIC),
}
"""By machine (uname(2))."""
_IO_URING: Final = (425, 426, 427)
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
"""io_uring(7), landlock(7): the same numbers on all machines."""


class Mode(NamedTuple):
    """A system call that gives a file the mode in its argument ``mode``; one with ``flags`` where these make a file."""

    number: int
    mode: int
    flags: int | None = None


_MODES_OF_ALL: Final = (Mode(_FCHMODAT2, 2),)  # fchmodat2
_GENERIC_MODES: Final = (Mode(52, 1), Mode(53, 2), Mode(33, 2), Mode(56, 3, 2))
"""fchmod, fchmodat, mknodat, openat."""
_X86_MODES: Final = (
    *(Mode(90, 1), Mode(91, 1), Mode(268, 2)),  # chmod, fchmod, fchmodat
    *(Mode(133, 1), Mode(259, 2), Mode(85, 1), Mode(2, 2, 1), Mode(257, 3, 2)),  # mknod, mknodat, creat, open, openat
)
MODES: Final = {
    "x86_64": (*_X86_MODES, *_MODES_OF_ALL),
    "aarch64": (*_GENERIC_MODES, *_MODES_OF_ALL),
    "riscv64": (*_GENERIC_MODES, *_MODES_OF_ALL),
}
_NEW_USER: Final = 0x10000000
"""``CLONE_NEWUSER`` (clone(2))."""
_CLONE3: Final = 435
"""Its flags stand where a filter does not look; programs fall back to clone(2) where there is none."""
_OPENAT2: Final = 437
"""Its mode stands where a filter does not look; programs fall back to openat(2) where there is none."""
_GENERIC_ATTRIBUTES: Final = (5, 6, 7, 463, 14, 15, 16, 466)
_ATTRIBUTES: Final = {
    "x86_64": (188, 189, 190, 463, 197, 198, 199, 466),
    "aarch64": _GENERIC_ATTRIBUTES,
    "riscv64": _GENERIC_ATTRIBUTES,
}
"""setxattr, lsetxattr, fsetxattr, setxattrat, and the same four of removexattr."""
_FILE_SETATTR: Final = 469
_QUEUES: Final = {"x86_64": (240, 241), "aarch64": (180, 181), "riscv64": (180, 181)}
"""mq_open, mq_unlink."""
_IOCTL: Final = {"x86_64": 16, "aarch64": 29, "riscv64": 29}
_OF_FILES: Final = (0x6600, 0x5800, 0x7600, 0x9400, 0xF500, 0xBC00)
"""Kinds of requests of ioctl(2) to file systems: among them are flags, versions, projects and seals of files, which an
owner sets without writing (``fs.h``, ``fsverity.h``, ``btrfs.h``)."""
_SHARE_BLOCKS: Final = (0x40049409, 0x4020940D, 0xC0189436)
"""``FICLONE``, ``FICLONERANGE``, ``FIDEDUPERANGE``, which need a file that is open for writing, or change nothing."""
_OWNERS_RIGHTS, _MAKES = 0o6000, 0x400040
"""``S_ISUID|S_ISGID``; ``O_CREAT`` and what ``O_TMPFILE`` has beside ``O_DIRECTORY``."""
_KIND, _CONNECTED = 0xF, (1, 5)
"""``SOCK_TYPE_MASK``; ``SOCK_STREAM``, ``SOCK_SEQPACKET`` (unix(7))."""
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0
"""``AF_…``, ``NETLINK_ROUTE``: programs ask for routes and interfaces to learn which addresses there are."""
_HOLDS_UP: Final = (1024, 1026)
"""``F_SETLEASE``, ``F_NOTIFY`` (fcntl(2))."""
_ABSTRACT, _SIGNAL, _HAS_SCOPES = 1, 2, 6
"""``LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET``, ``LANDLOCK_SCOPE_SIGNAL``, and the first interface of Landlock with both."""


class Given(NamedTuple):
    """What the filter leaves a command, beside what none gets."""

    inet: bool = True
    watches: bool = True
    rights: bool = True
    unix: bool = True
    system_v: bool = True


USUAL: Final = Given()


def program(machine: str, given: Given = USUAL) -> bytes:
    """The filter, as bpf(2) has it; raises :class:`KeyError` for a machine whose numbers are not known."""
    numbers = KNOWN[machine]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, numbers.architecture, 1, 0),
        _step(_RETURN, _REFUSE),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _OTHER_ABI, 0, 1),
        _step(_RETURN, _REFUSE),
    ]
    rules = [*_rules(numbers, given), *(() if given.rights else _no_rights(machine))]
    for number, judged in rules:
        steps += [_step(_EQUAL, number, 0, len(judged)), *judged]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _rules(numbers: Numbers, given: Given) -> Iterator[tuple[int, list[bytes]]]:
    """By number, steps that end with an answer whatever the arguments are."""
    for call in (
        Call(numbers.prlimit64, unless=2),
        Call(numbers.setpriority, 1, but=_OF_A_USER),
        Call(numbers.ioprio_set, 1, but=_IO_OF_A_USER),
        *map(Call, (numbers.sched_setparam, numbers.sched_setscheduler)),
        *map(Call, (numbers.sched_setaffinity, numbers.sched_setattr)),
    ):
        yield call.number, [*_judge(call)]
    for number in (numbers.add_key, numbers.request_key, numbers.keyctl, numbers.fanotify_init, *_IO_URING):
        yield number, [_step(_RETURN, _REFUSE)]
    internet = (_INET, _INET6) if given.inet else ()
    yield numbers.socket, [*_judge_family((_UNIX, *internet) if given.unix else internet)]
    pair = [*_judge_family((_UNIX, *internet))]
    if not given.unix:  # each other kind is one for datagrams, also SOCK_RAW, and can be connected anew
        stream, packets = _CONNECTED
        kind = (_step(_LOAD, _at(1)), _step(_AND, _KIND), _step(_EQUAL, stream, 2, 0), _step(_EQUAL, packets, 1, 0))
        pair = [*kind, _step(_RETURN, _ERROR | errno.EAFNOSUPPORT), *pair]
    yield numbers.socketpair, pair
    yield numbers.fcntl, [*_judge_command(_HOLDS_UP)]
    for number in (numbers.clone, numbers.unshare):
        steps = (
            _step(_LOAD, _at(0)),
            _step(_HAS_ANY, _NEW_USER, 0, 1),
            _step(_RETURN, _REFUSE),
            _step(_RETURN, _ALLOW),
        )
        yield number, [*steps]
    system_v = () if given.system_v else (numbers.shmget, numbers.semget, numbers.msgget)
    for number in (_CLONE3, numbers.io_setup, *system_v):
        yield number, [_step(_RETURN, _ERROR | errno.ENOSYS)]
    if not given.watches:  # as where the user has used all of them, which programs know
        yield numbers.inotify_add_watch, [_step(_RETURN, _ERROR | errno.ENOSPC)]


def _no_rights(machine: str) -> Iterator[tuple[int, list[bytes]]]:
    for call in MODES[machine]:
        yield call.number, [*_judge_mode(call)]
    for number in _ATTRIBUTES[machine]:  # as of a file system without any
        yield number, [_step(_RETURN, _ERROR | errno.ENOTSUP)]
    for number in _QUEUES[machine]:
        yield number, [_step(_RETURN, _REFUSE)]
    for number in (_OPENAT2, _FILE_SETATTR):
        yield number, [_step(_RETURN, _ERROR | errno.ENOSYS)]
    yield _IOCTL[machine], [*_judge_request()]


def _judge_request() -> Iterator[bytes]:
    """As of a file system that has no such request."""
    yield _step(_LOAD, _at(1))
    for request in _SHARE_BLOCKS:
        yield from (_step(_EQUAL, request, 0, 1), _step(_RETURN, _ALLOW))
    yield _step(_AND, 0xFF00)
    for kind in _OF_FILES:
        yield from (_step(_EQUAL, kind, 0, 1), _step(_RETURN, _ERROR | errno.ENOTTY))
    yield _step(_RETURN, _ALLOW)


def _judge_mode(call: Mode) -> Iterator[bytes]:
    if call.flags is not None:  # where no file is made, nothing sets the mode
        yield from (_step(_LOAD, _at(call.flags)), _step(_HAS_ANY, _MAKES, 1, 0), _step(_RETURN, _ALLOW))
    yield from (_step(_LOAD, _at(call.mode)), _step(_HAS_ANY, _OWNERS_RIGHTS, 0, 1))
    yield from (_step(_RETURN, _REFUSE), _step(_RETURN, _ALLOW))


def _judge_command(refused: Sequence[int]) -> Iterator[bytes]:
    yield _step(_LOAD, _at(1))
    for command in refused:
        yield from (_step(_EQUAL, command, 0, 1), _step(_RETURN, _REFUSE))
    yield _step(_RETURN, _ALLOW)


def _judge_family(families: Sequence[int]) -> Iterator[bytes]:
    """Sockets of these, and those that ask for routes; others are as in a kernel that has none of them."""
    yield _step(_LOAD, _at(0))
    for family in families:
        yield from (_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW))
    yield from (_step(_EQUAL, _NETLINK, 0, 3), _step(_LOAD, _at(2)), _step(_EQUAL, _ROUTE, 0, 1))
    yield from (_step(_RETURN, _ALLOW), _step(_RETURN, _ERROR | errno.EAFNOSUPPORT))


def _judge(call: Call) -> Iterator[bytes]:
    """Where a number is read as an int, its low half decides."""
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


def has_scope() -> bool:
    """Is a command kept from abstract sockets and processes of others on this machine?"""
    if sys.platform != "linux" or os.uname().machine not in KNOWN:
        return False
    return int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)) >= _HAS_SCOPES


def hold(machine: str, given: Given = USUAL) -> None:
    """Put the filter on this thread and all that it starts; raises :class:`OSError` where the system has none."""
    code = program(machine, given)
    libc = ctypes.CDLL(None, use_errno=True)
    steps = _Program(len(code) // 8, code)
    _must(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if has_scope():
        scope = struct.pack(
            "=QQQ", 0, 0, _ABSTRACT | _SIGNAL
        )  # of files and ports it handles nothing, so mounts are not refused
        rules = _must(libc.syscall(_CREATE_RULESET, scope, ctypes.c_size_t(len(scope)), 0))
        _must(libc.syscall(_RESTRICT_SELF, rules, 0))
        os.close(rules)
    _must(libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(steps), 0, 0))


def take_standard_files() -> None:
    """Those of the program that started the sandbox, in the place of the sandbox's; raises :class:`OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(3):
        fd = _must(libc.syscall(_FCHMODAT2, number, None, 0, ASK))
        os.dup2(fd, number)
        os.close(fd)


def limit_processes() -> None:
    """For this process, in its user namespace, and all that it starts."""
    import resource

    if counts_each(os.uname().release):
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = PROCESSES if soft == resource.RLIM_INFINITY else min(PROCESSES, max(1, soft // 4))
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most if hard == resource.RLIM_INFINITY else min(most, hard)))


def counts_each(release: str) -> bool:
    """Does the Linux of this release (``6.1.0-13-amd64``) count each user namespace by itself?"""
    first, second = (int(part) for part in release.partition("-")[0].split(".")[:2])
    return (first, second) >= _COUNTS_EACH


def _must(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def main(words: Sequence[str]) -> int:
    """Become the command; an exit code where that cannot be."""
    command, asked = [*words], set()
    while command[0] in (NO_INET, NO_WATCHES, NO_RIGHTS, NO_UNIX, NO_SYSTEM_V, FEW_PROCESSES, STANDARD_FILES):
        asked.add(command.pop(0))
    try:
        if STANDARD_FILES in asked:
            take_standard_files()
        if FEW_PROCESSES in asked:
            limit_processes()
        without = (NO_INET, NO_WATCHES, NO_RIGHTS, NO_UNIX, NO_SYSTEM_V)
        hold(os.uname().machine, Given(*(asks not in asked for asks in without)))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # who starts a sandbox waits for signals, and holds them back
        os.execvp(command[0], command)  # noqa: S606  a shell has nothing to do here
    except KeyError:
        print(f"on {os.uname().machine} cn knows no filter that holds an agent in its wrap", file=sys.stderr)
    except OSError as why:
        print(f"cannot start {command[0]}: {why.strerror}", file=sys.stderr)
    return _CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
