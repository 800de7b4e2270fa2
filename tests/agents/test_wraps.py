"""What a wrap hides: each leak is there without one, and is not within."""

import ctypes
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from cn.agency.names import Party, Uuid
from cn.agents import seccomp
from cn.agents.examine import NotTried, examine
from cn.agents.machine import Runner
from cn.agents.processes import read_launcher
from cn.agents.reachable import Reachable
from cn.agents.workspace import Folders, folders_of
from cn.agents.wraps import Inside, Wrap, around, missing, open_files, wrap_argv
from cn.values.errors import Blocked
from tests.support.agents import Staff, machine_of, script_runner, until
from tests.support.hubs import ROOT, cn, git
from tests.support.wraps import AS_OTHER, NEEDS, WRAPS, guard, needs_other_user

BWRAP, SANDLOCK = Wrap("bwrap"), Wrap("sandlock")
SHELL = "unguarded = true"
needs_bwrap, needs_sandlock = NEEDS["bwrap"], NEEDS["sandlock"]
each_wrap = pytest.mark.parametrize("wrap", WRAPS)


def runner(wrap: Wrap | None) -> Runner:
    return Runner("shell", ("sh",), wrap=wrap)


def can(staff: Staff, wrap: Wrap | None) -> list[str]:
    return examine(runner(wrap), staff.agency.hub, staff.place.folders)


def test_the_probe_finds_every_leak_where_nothing_is_wrapped(staffed: Callable[..., Staff]) -> None:
    staff = staffed()
    found = can(staff, None)
    hub = staff.agency.hub
    assert f"it can read {hub.git_dir}" in found
    assert f"it can write in {hub.git_dir}" in found
    assert f"it can read {hub.root}/.cn" in found
    assert f"it can change the mode of {hub.git_dir}, and so close it" in found
    assert [one for one in found if "workspace" in one]
    assert [one for one in found if "token of another agent" in one]
    home = Path.home()
    assert [one for one in found if str(home) in one], "the home folder"


@needs_bwrap
def test_a_wrap_stops_all_of_them(staffed: Callable[..., Staff]) -> None:
    assert can(staffed(), BWRAP) == []


PROBES = """
import sys
from pathlib import Path
from types import SimpleNamespace
from cn.agents import wraps
from cn.agents.examine import examine
from cn.agents.machine import Runner
from cn.agents.workspace import Folders
hub, agents, filter = map(Path, sys.argv[3:])
wraps.seccomp.__file__ = str(filter)
held = Runner("shell", ("sh",), wrap=wraps.Wrap(sys.argv[1], visible=(str(filter),), network=sys.argv[2] == "on"))
hub = SimpleNamespace(root=hub, git_dir=hub / ".git", state=hub / ".git/cn")
print(*examine(held, hub, Folders(agents)), sep="\\n")
"""
NO_FILTER = (
    Path(seccomp.__file__)
    .read_text()
    .replace("def main(", "def hold(*_: object, **__: object) -> None:\n    pass\n\n\ndef main(")
)
WATCH, KEYS, ABSTRACT, HOST = "can watch which files", "the user's keys", "can call abstract", "virtual machine's host"
LEASE = "hold up all that open"
UNFILTERED = {
    ("bwrap", "on"): (KEYS, ABSTRACT, LEASE),
    ("bwrap", "off"): (KEYS, HOST, LEASE),
    ("sandlock", "on"): (WATCH, "limit, and so kill,"),
    ("sandlock", "off"): (WATCH, "can call others by the network (MPTCP)", "can be called by the network (MPTCP)"),
}
"""What the probe finds in each wrap with the network or without, where the filter is not in it."""


def is_here(leak: str) -> bool:
    """Has this machine what leaks?"""
    with Reachable(None) as reachable:
        has_keys = bool(reachable.outside["key"])
    has_host = can_make(socket.AF_VSOCK, socket.SOCK_STREAM)
    has_mptcp = can_make(socket.AF_INET, socket.SOCK_STREAM, 262)
    return {KEYS: has_keys, ABSTRACT: seccomp.has_scope(), HOST: has_host}.get(leak, has_mptcp or "MPTCP" not in leak)


def can_make(*kind: int) -> bool:
    try:
        socket.socket(*kind).close()
    except OSError:
        return False
    return True


@each_wrap
@pytest.mark.parametrize("network", ["on", "off"])
@needs_other_user
def test_a_wrap_without_its_filter_leaks_and_the_probe_says_so(
    staffed: Callable[..., Staff], tmp_path: Path, wrap: str, network: str
) -> None:
    """Of an ordinary user's processes, keys and sockets; with the filter nothing is found."""
    hub = staffed().agency.hub
    found = {}
    none = tmp_path / "none.py"
    none.write_text(NO_FILTER)
    for program in (Path(seccomp.__file__), none):
        told = [wrap, network, str(hub.root), str(tmp_path / "agents"), str(program)]
        argv = [*(AS_OTHER if wrap == "sandlock" else ()), sys.executable, "-c", PROBES, *told]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
        found[program.name] = done.stdout.splitlines()
    assert found["seccomp.py"] == [""]
    for leak in filter(is_here, UNFILTERED[wrap, network]):
        assert [one for one in found["none.py"] if leak in one], (leak, found["none.py"])


@needs_sandlock
@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
def test_sandlock_does_not_hold_what_root_starts_and_is_refused(staffed: Callable[..., Staff]) -> None:
    assert [one for one in can(staffed(), SANDLOCK) if "make devices" in one]
    staff = staffed(script_runner("one", "touch up").replace("unguarded = true", "wrap = 'sandlock'"))
    handler = staff.handler("Build the site")
    staff.step()
    assert handler not in staff.agents()
    assert "sandlock leaves root all that only root may do" in staff.spawner.problems[handler]


@needs_bwrap
def test_no_agent_is_started_in_a_wrap_that_does_not_hold(staffed: Callable[..., Staff]) -> None:
    staff = staffed()
    open_wrap = f"wrap = 'bwrap'\nvisible = ['{staff.agency.hub.root}']"
    staff.machine = machine_of(script_runner("one", "touch up").replace("unguarded = true", open_wrap))
    staff.restart()
    handler = staff.handler("Build the site")
    staff.step()
    staff.step()
    assert handler not in staff.agents()
    assert f"is not held by its wrap: it can read {staff.agency.hub.git_dir}" in staff.spawner.problems[handler]


@needs_bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns the kernel's settings")
def test_the_kernels_settings_are_not_the_agents_though_root_serves(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, "sh", ())
    opens = (
        "for name in kernel/core_pattern vm/drop_caches kernel/hostname; do : >> /proc/sys/$name && echo $name; done"
    )
    done = subprocess.run(wrap_argv(BWRAP, inside, ["bash", "-c", opens]), capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "Read-only file system" in done.stderr


_PYTHON = "/usr/bin/python3"
FORKS = """
import os, time
made = 0
try:
    while made < 600:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""


@needs_other_user
@pytest.mark.skipif(not os.path.exists(_PYTHON), reason="needs a Python that others may run")
def test_an_agent_takes_a_quarter_of_its_users_processes_and_no_more() -> None:
    """Its user goes on starting what it likes; others of its processes are not counted with the agent's."""
    storm = [_PYTHON, "-I", "-S", "-", seccomp.FEW_PROCESSES, _PYTHON, "-c", FORKS]
    within = shlex.join(["unshare", "--user", "--pid", "--fork", *storm])
    without = shlex.join([_PYTHON, "-c", FORKS.replace("60)", "1)")])
    words = f"ulimit -u 400; for i in $(seq 1 150); do sleep 60 & done; {within}; {without}; kill $(jobs -p)"
    as_nobody = AS_OTHER[: AS_OTHER.index("--clear-groups") + 1]
    program = Path(seccomp.__file__).read_text()
    done = subprocess.run([*as_nobody, "bash", "-c", words], input=program, capture_output=True, text=True, check=False)
    made, unwrapped = (int(one) for one in done.stdout.split())
    assert 50 < made < 100, done.stderr
    assert unwrapped > 100, "the limit of the user itself"


@pytest.mark.parametrize(("release", "each"), [("6.1.0-13-amd64", True), ("5.14", True), ("5.10.0-30-amd64", False)])
def test_a_kernel_that_counts_all_of_a_user_gets_no_limit(release: str, each: bool) -> None:
    assert seccomp.counts_each(release) is each


HARMS = """
import os, resource, sys
pid = int(sys.argv[1])
tries = {
    "limit": lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "nice of the user": lambda: os.setpriority(os.PRIO_USER, 0, 19),
    "processors": lambda: os.sched_setaffinity(pid, {0}),
    "scheduler": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
    "own limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "own nice": lambda: os.nice(1),
    "own processors": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
    "reading a limit": lambda: resource.prlimit(pid, resource.RLIMIT_CPU),
}
for name, one in tries.items():
    try:
        one()
        print(name)
    except OSError as why:
        assert why.errno == 1, (name, why)
"""


@pytest.mark.skipif(os.uname().machine not in seccomp.KNOWN, reason="numbers of system calls are not known here")
def test_the_filter_leaves_a_process_its_own_and_nobody_elses() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        harms = [sys.executable, "-I", "-c", HARMS, str(other.pid)]
        held = [sys.executable, "-I", "-S", seccomp.__file__, *harms]
        done = subprocess.run(held, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["own limit", "own nice", "own processors", "reading a limit"]
        bare = subprocess.run(harms, capture_output=True, text=True, check=True)
        assert {"limit", "nice", "processors", "scheduler"} <= {*bare.stdout.splitlines()}
        other.kill()


CALLS = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    ctypes.set_errno(0)
    libc.syscall(*arguments)
    return errno.errorcode.get(ctypes.get_errno(), "done")
def make(*kind):
    try:
        socket.socket(*kind).close()
    except OSError as why:
        return errno.errorcode[why.errno]
    return "done"
for name, number in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    watched = (libc.inotify_init(), b"/", 0x100) if name == "inotify_add_watch" else ()
    print(name, call(number, *(watched or [-1] * 5)))
print("files", make(socket.AF_UNIX, socket.SOCK_STREAM))
print("inet", make(socket.AF_INET, socket.SOCK_STREAM))
print("inet6", make(socket.AF_INET6, socket.SOCK_DGRAM))
print("mptcp", make(socket.AF_INET, socket.SOCK_STREAM, 262))
print("routes", make(socket.AF_NETLINK, socket.SOCK_RAW, 0))
print("events", make(socket.AF_NETLINK, socket.SOCK_RAW, 15))
print("host", make(40, socket.SOCK_STREAM))
"""
REFUSED = ("add_key", "request_key", "keyctl", "fanotify_init")


@pytest.mark.skipif(os.uname().machine not in seccomp.KNOWN, reason="numbers of system calls are not known here")
def test_the_filter_refuses_keys_and_sockets_that_no_wrap_hides() -> None:
    numbers = seccomp.KNOWN[os.uname().machine]._asdict()
    named = [f"{name}={numbers[name]}".split("=") for name in (*REFUSED, "inotify_add_watch")]
    calls = [sys.executable, "-I", "-c", CALLS, *(word for pair in [*named, ["io_uring", "425"]] for word in pair)]

    def answers(*options: str, held: bool = True) -> dict[str, str]:
        argv = [sys.executable, "-I", "-S", seccomp.__file__, *options, *calls] if held else calls
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        return {line.split()[0]: line.split()[1] for line in said.splitlines()}

    bare, usual = answers(held=False), answers()
    closed = answers("--no-watches", "--no-inet")
    assert answers("--no-unix")["files"] == "EAFNOSUPPORT"
    for found in (usual, closed):
        assert {found[name] for name in (*REFUSED, "io_uring")} == {"EPERM"}
        assert {found[name] for name in ("events", "host")} == {"EAFNOSUPPORT"}
        assert {found[name] for name in ("files", "routes")} == {"done"}
    kept = ("inet", "inet6", "mptcp", "inotify_add_watch")
    assert {name: usual[name] for name in kept} == {name: bare[name] for name in kept}
    assert {name: closed[name] for name in kept} == {**dict.fromkeys(kept, "EAFNOSUPPORT"), kept[-1]: "ENOSPC"}
    assert bare["inet"] == bare["inotify_add_watch"] == bare["events"] == "done"
    assert bare["io_uring"] != "EPERM" or bare["keyctl"] != "EPERM", "it is the filter that refuses"


def test_the_filter_lets_nobody_hold_up_those_that_open_a_file_which_it_may_read(tmp_path: Path) -> None:
    """Its user owns it, so the kernel would let it, also where a wrap shows it to be read alone."""
    (file := tmp_path / "file").write_text("x")
    takes = "import fcntl, sys; file = open(sys.argv[1]); fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)"
    plain = "fcntl.fcntl(file, fcntl.F_SETFD, 0); fcntl.flock(file, fcntl.LOCK_SH)"
    notes = "import fcntl, os, sys; fcntl.fcntl(os.open(os.path.dirname(sys.argv[1]), 0), fcntl.F_NOTIFY, 4)"
    filtered = [sys.executable, "-I", "-S", seccomp.__file__]
    for script in (takes, notes):
        for before, code in (([], 0), (filtered, 1)):
            argv = [*before, sys.executable, "-I", "-c", script, str(file)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stderr
        assert "Operation not permitted" in done.stderr
    usual = f"import fcntl, sys; file = open(sys.argv[1]); {plain}"
    subprocess.run([*filtered, sys.executable, "-I", "-c", usual, str(file)], check=True)


NAMESPACES = """
import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
print("unshare", libc.unshare(0x10000000), ctypes.get_errno())
for flags in (0x10000000 | 17, 17):
    pid = libc.syscall(int(sys.argv[1]), flags, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    print("clone", pid > 0, ctypes.get_errno() if pid < 0 else 0)
print("clone3", libc.syscall(435, 0, 0), ctypes.get_errno())
print("io_setup", libc.syscall(int(sys.argv[2]), 1, ctypes.byref(ctypes.c_ulong(0))), ctypes.get_errno())
threading.Thread(target=lambda: print("thread"), daemon=True).start()
print(subprocess.run(["sh", "-c", "echo $(echo program)"], capture_output=True, text=True, check=True).stdout.strip())
"""


def test_the_filter_refuses_namespaces_of_its_own_and_lets_programs_start_others() -> None:
    numbers = seccomp.KNOWN[os.uname().machine]
    given = [str(numbers.clone), str(numbers.io_setup)]
    argv = [sys.executable, "-I", "-S", seccomp.__file__, sys.executable, "-I", "-c", NAMESPACES, *given]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == sorted(
        ["unshare -1 1", "clone False 1", "clone True 0", "clone3 -1 38", "io_setup -1 38", "thread", "program"]
    )


SYSTEM_V = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
memory, semaphores, queue = libc.shmget(0, 4096, 0o1600), libc.semget(0, 1, 0o1600), libc.msgget(0, 0o1600)
print(*("made" if made >= 0 else errno.errorcode[ctypes.get_errno()] for made in (memory, semaphores, queue)))
for made, end in ((memory, libc.shmctl), (queue, libc.msgctl), (semaphores, lambda one, *does: libc.semctl(one, 0, 0))):
    if made >= 0:
        end(made, 0, None)
"""


@pytest.mark.skipif(os.uname().machine not in seccomp.KNOWN, reason="numbers of system calls are not known here")
def test_in_sudo_there_are_no_objects_of_system_v() -> None:
    """They would outlive their agent, and another program goes by their keys."""
    script = [sys.executable, "-I", "-c", SYSTEM_V]
    filtered = [sys.executable, "-I", "-S", seccomp.__file__]
    said = [
        subprocess.run([*argv, *script], capture_output=True, text=True, check=True).stdout.split()
        for argv in ([], filtered, [*filtered, seccomp.NO_SYSTEM_V])
    ]
    assert said == [["made"] * 3, ["made"] * 3, ["ENOSYS"] * 3]


RIGHTS = """
import ctypes, errno, os, shutil, sys
os.chdir(sys.argv[1])
call = ctypes.CDLL(None, use_errno=True).syscall

def tell(name, does):
    try:
        does()
        print(name, "done")
    except OSError as why:
        print(name, errno.errorcode[why.errno])

def raw(*given):
    if call(*given) < 0:
        raise OSError(ctypes.get_errno(), "")

open("file", "w").close()
held = os.open("file", os.O_RDONLY)
SET, PLAIN = 0o4755, 0o755
for what, mode in (("set", SET), ("group", 0o2755), ("plain", PLAIN)):
    tell(f"chmod-{what}", lambda: os.chmod("file", mode))
    tell(f"fchmod-{what}", lambda: os.fchmod(held, mode))
    tell(f"fchmodat2-{what}", lambda: raw(452, -100, b"file", mode, 0))
    tell(f"made-{what}", lambda: os.close(os.open(what, os.O_CREAT | os.O_WRONLY, mode)))
    tell(f"unnamed-{what}", lambda: os.close(os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)))
    tell(f"node-{what}", lambda: os.mknod(f"node-{what}", 0o100000 | mode))
    tell(f"opened-{what}", lambda: os.close(os.open("file", os.O_RDONLY, mode)))
tell("attribute", lambda: os.setxattr("file", "user.some", b"1"))
tell("copied", lambda: shutil.copy2("file", "copy"))
tell("openat2", lambda: raw(437, -100, b"file", 0, 24))
"""


@pytest.mark.skipif(os.uname().machine not in seccomp.KNOWN, reason="numbers of system calls are not known here")
def test_the_filter_lets_nobody_else_have_its_users_rights_by_a_file(tmp_path: Path) -> None:
    """A program that runs with its owner's rights leads out of a wrap, with the help of another user."""

    def answers(*options: str) -> dict[str, str]:
        (folder := tmp_path / "-".join(("in", *options))).mkdir()
        argv = [sys.executable, "-I", "-S", seccomp.__file__, *options, sys.executable, "-I", "-c", RIGHTS]
        said = subprocess.run([*argv, str(folder)], capture_output=True, text=True, check=True).stdout
        return dict(line.split() for line in said.splitlines())

    usual, closed = answers(), answers("--no-rights")
    for way in ("chmod", "fchmod", "fchmodat2", "made", "unnamed", "node"):
        if usual[f"{way}-plain"] != "done":  # an older kernel, another file system
            continue
        assert usual[f"{way}-set"] == "done", way
        assert [closed[f"{way}-{what}"] for what in ("set", "group", "plain")] == ["EPERM", "EPERM", "done"], way
    assert {closed[f"opened-{what}"] for what in ("set", "group", "plain")} == {"done"}
    assert closed["attribute"] in ("ENOTSUP", "EOPNOTSUPP"), "one number, two names"
    assert closed["copied"] == "done"
    assert closed["openat2"] == "ENOSYS"


WITHOUT_WRITING = """
import array, ctypes, errno, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
path, queue = sys.argv[1], sys.argv[2].encode()

def tell(name, does):
    ctypes.set_errno(0)
    try:
        did = does()
        number = ctypes.get_errno() if did is not None and did < 0 else 0
    except OSError as why:
        number = why.errno
    print(name, errno.errorcode.get(number, "done"))

def flags(request):
    with open(path) as file:
        fcntl.ioctl(file, request, array.array("l", [0]))

def attributes():
    with open(path) as file:
        os.removexattr(file.fileno(), "user.c")

tell("removexattr", lambda: os.removexattr(path, "user.a"))
tell("lremovexattr", lambda: os.removexattr(path, "user.b", follow_symlinks=False))
tell("fremovexattr", attributes)
tell("removexattrat", lambda: libc.syscall(466, -100, path.encode(), 0, b"user.d"))
tell("file_setattr", lambda: libc.syscall(469, -100, path.encode(), ctypes.create_string_buffer(24), 24, 0))
tell("getflags", lambda: flags(0x80086601))
tell("setflags", lambda: flags(0x40086602))
tell("verity", lambda: flags(0x40806685))
tell("subvolume", lambda: flags(0x4008941A))
tell("clone", lambda: flags(0x40049409))
tell("readable", lambda: flags(0x541B))
tell("mq_open", lambda: libc.mq_open(queue, os.O_RDONLY))
tell("mq_unlink", lambda: libc.mq_unlink(queue))
"""


def test_the_filter_leaves_files_that_may_only_be_read_as_they_are(tmp_path: Path) -> None:
    """An owner sets and removes these without writing."""
    queue = f"/cn-test-{os.getpid()}-{uuid4().hex[:8]}"
    libc = ctypes.CDLL(None)

    def answers(*options: str) -> dict[str, str]:
        (file := tmp_path / f"of{len(options)}").write_text("x")
        with suppress(OSError):  # not on each file system
            for name in "abcd":
                os.setxattr(file, f"user.{name}", b"1")
        made = libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        argv = [sys.executable, "-I", "-S", seccomp.__file__, *options, sys.executable, "-I", "-c", WITHOUT_WRITING]
        try:
            said = subprocess.run([*argv, str(file), queue], capture_output=True, text=True, check=True).stdout
        finally:
            libc.mq_unlink(queue.encode())
            if made >= 0:
                os.close(made)
        return dict(line.split() for line in said.splitlines())

    usual, closed = answers(), answers("--no-rights")
    for name in ("removexattr", "lremovexattr", "fremovexattr", "removexattrat"):
        assert closed[name] in ("ENOTSUP", "EOPNOTSUPP"), name
    assert closed["file_setattr"] == "ENOSYS"
    assert {closed[name] for name in ("getflags", "setflags", "verity", "subvolume")} == {"ENOTTY"}
    assert {closed["mq_open"], closed["mq_unlink"]} <= {"EPERM", "EACCES"}, "mq_unlink(3) says the one for the other"
    assert (closed["clone"], closed["readable"]) == (usual["clone"], usual["readable"])
    try:
        os.setxattr(tmp_path / "of0", "user.e", b"1")
    except OSError:
        return  # a file system without any
    assert usual["removexattr"] == usual["fremovexattr"] == "done", "it is the filter that refuses"


CALLER = """
import errno, socket, sys
own = socket.socket(socket.AF_UNIX)
own.bind("\\0own-" + sys.argv[1])
own.listen()
for name in ("own-" + sys.argv[1], sys.argv[1]):
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + name)
    except OSError as why:
        print(errno.errorcode[why.errno])
    else:
        print("called")
"""


@pytest.mark.skipif(not seccomp.has_scope(), reason="the kernel's Landlock has no scope for abstract sockets")
def test_a_held_command_calls_its_own_abstract_sockets_and_nobody_elses() -> None:
    name = f"cn-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        calls = [sys.executable, "-I", "-c", CALLER, name]
        for before, said in (([sys.executable, "-I", "-S", seccomp.__file__], "EPERM"), ([], "called")):
            done = subprocess.run([*before, *calls], capture_output=True, text=True, check=True)
            assert done.stdout.splitlines() == ["called", said]


KILLS = """
import os, signal, sys
for name, pid in (("own", os.fork() or signal.pause()), ("other", int(sys.argv[1]))):
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        print(name, "is not killed")
"""


@pytest.mark.skipif(not seccomp.has_scope(), reason="the kernel's Landlock has no scope for signals")
def test_a_held_command_stops_what_it_started_and_nobody_else_of_its_user() -> None:
    """As an agent of another user would what that user is asked to end it with."""
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            argv = [sys.executable, "-I", "-S", seccomp.__file__, sys.executable, "-I", "-c", KILLS, str(other.pid)]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            assert done.stdout == "other is not killed\n"
            assert other.poll() is None
        finally:
            other.kill()


@needs_bwrap
def test_an_agent_can_wrap_what_it_starts() -> None:
    """As Claude Code does its shell: neither mounts nor namespaces are refused, nor the address of a network."""
    inner = ("bwrap", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--unshare-net", "--", "echo", "started")
    held = [sys.executable, "-I", "-S", seccomp.__file__, *inner]
    assert subprocess.run(held, capture_output=True, text=True, check=True).stdout == "started\n"


def test_where_no_numbers_are_known_the_filter_starts_nothing() -> None:
    with pytest.raises(KeyError):
        seccomp.program("vax")


@needs_bwrap
def test_without_one_of_its_walls_the_probe_says_so(staffed: Callable[..., Staff]) -> None:
    """The probe does not pass by itself: what is let in is found."""
    staff = staffed()
    found = can(staff, BWRAP._replace(visible=(str(staff.agency.hub.root),)))
    assert f"it can read {staff.agency.hub.git_dir}" in found
    assert not [one for one in found if "write" in one or "token" in one]
    own = ("bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--")
    assert not [one for one in can(staff, Wrap("own", own)) if "token" in one]
    assert [one for one in can(staff, Wrap("own", own)) if "write" in one]


@each_wrap
def test_a_socket_of_the_users_is_no_agents_to_see(staffed: Callable[..., Staff], tmp_path: Path, wrap: str) -> None:
    staff = staffed()
    path = tmp_path / "user.sock"
    (staff.agency.hub.state / "agency").mkdir(exist_ok=True)
    (staff.agency.hub.state / "agency/server.json").write_text(json.dumps({"user_socket": str(path)}))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert f"it can read {path}" in can(staff, None)
        assert f"it can read {path}" not in can(staff, Wrap(wrap))


REPLACES = """
import os, socket, sys
path = sys.argv[1]
with socket.socket(socket.AF_UNIX) as one:
    one.connect(path)
try:
    os.unlink(path)
    socket.socket(socket.AF_UNIX).bind(path)
except OSError as why:
    print(why.strerror)
else:
    print("it is mine")
"""


@pytest.mark.parametrize("wrap", [None, pytest.param("bwrap", marks=needs_bwrap)])
def test_the_servers_socket_can_be_called_and_not_replaced(tmp_path: Path, wrap: str | None) -> None:
    """Who listens in its place is told the tokens of all other agents. (Of sandlock: ``test_landlock``.)"""
    place = Folders(tmp_path / "place").make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    path = tmp_path / "agents/agents.sock"
    path.parent.mkdir()
    inside = Inside(place.workspace, place.home, place.files, path, sys.executable, ())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        argv = wrap_argv(Wrap(wrap) if wrap else None, inside, [sys.executable, "-I", "-c", REPLACES, str(path)])
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (done.stdout == "it is mine\n") is (wrap is None), done.stdout


def test_of_a_folder_of_the_systems_configuration_what_others_may_read_is_shown_one_by_one(tmp_path: Path) -> None:
    for name in ("private", "open"):
        (tmp_path / name).mkdir()
        for file, mode in (("key", 0o600), ("page", 0o644)):
            (tmp_path / name / file).write_text(file)
            (tmp_path / name / file).chmod(mode)
    (tmp_path / "private").chmod(0o700)
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "open/link").symlink_to(tmp_path / "private/key")
    tmp_path.chmod(0o755)
    assert open_files(str(tmp_path)) == [str(tmp_path / "open/link"), str(tmp_path / "open/page")]
    assert open_files(str(tmp_path / "nothing")) == []


def test_what_is_hidden_is_in_nothing_that_is_shown_and_a_link_is_no_way_round(tmp_path: Path) -> None:
    for name in ("a/b/hub", "a/b/tools", "a/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/link").symlink_to(tmp_path / "a/b")
    (tmp_path / "a/other").symlink_to(tmp_path / "a/c")
    shown = around(str(tmp_path / "a"), [str(tmp_path / "a/b/hub")])
    assert shown == [str(tmp_path / "a" / name) for name in ("b/tools", "c", "other")]
    assert around(str(tmp_path / "a/c"), [str(tmp_path / "a/b/hub")]) == [str(tmp_path / "a/c")]
    assert around(str(tmp_path / "a/b/hub"), [str(tmp_path / "a/b/hub")]) == []
    assert "/" not in around("/", [str(tmp_path)])


READS = """
import os, stat
for here, _, names in os.walk("/etc"):
    for name in names:
        path = os.path.join(here, name)
        try:
            if not os.lstat(path).st_mode & 0o004 and open(path, "rb").read(1):
                print(path)
        except OSError:
            pass
"""


@each_wrap
def test_a_wrap_shows_nothing_of_the_systems_that_others_cannot_read(tmp_path: Path, wrap: str) -> None:
    place = Folders(tmp_path / "place").make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, sys.executable, ())
    argv = wrap_argv(Wrap(wrap), inside, [sys.executable, "-I", "-c", READS])
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == ""


WAITS_FOR = """
import os, sys, time
os.close(os.open("up", os.O_CREAT | os.O_WRONLY))
while not os.path.exists("go"):
    time.sleep(0.01)
for path in sys.argv[1:]:
    try:
        print(path, open(path, "rb").read(1))
    except OSError:
        pass
"""


@each_wrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write in /etc")
def test_no_file_that_comes_into_etc_while_an_agent_works_is_shown(tmp_path: Path, wrap: str) -> None:
    """Neither a new one, nor one that takes the place of another, as useradd(8) writes /etc/shadow."""
    place = Folders(tmp_path / "place").make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, sys.executable, ())
    name = f"cn-test-{os.getpid()}"
    paths = [f"/etc/{name}", f"/etc/profile.d/{name}", f"/etc/{name}.new"]
    private(paths[0])
    argv = wrap_argv(Wrap(wrap), inside, [sys.executable, "-I", "-c", WAITS_FOR, *paths, "/etc/passwd"])
    try:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=place.workspace) as started:
            until((place.workspace / "up").exists)
            for path in paths:
                private(path)
            (place.workspace / "go").touch()
            assert started.stdout
            assert started.stdout.read() == "/etc/passwd b'r'\n"
    finally:
        for path in paths:
            Path(path).unlink(missing_ok=True)


def private(path: str) -> None:
    """A file of the owner's alone, in the place of whatever was there."""
    beside = Path(f"{path}.beside")
    beside.write_text("secret")
    beside.chmod(0o600)
    beside.rename(path)


@each_wrap
@pytest.mark.parametrize("named", ["", "above", "itself"])
def test_hub_home_and_agents_folders_are_hidden_wherever_they_lie(tmp_path: Path, wrap: str, named: str) -> None:
    """Below what is visible, and what comes there later too; who names the very folder has it shown, and no other."""
    account = tmp_path / "opt/account"
    (account / "hub").mkdir(parents=True)
    (tmp_path / "opt/tool").mkdir()
    (tmp_path / "opt/tool/help").write_text("help")
    place = Folders(account / "agents").make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    visible = {"": (), "above": (str(tmp_path / "opt"),), "itself": (str(account),)}[named]
    hidden = (str(account), str(account / "hub"), str(account / "agents"))
    inside = Inside(place.workspace, place.home, place.files, None, sys.executable, (), hidden)
    paths = [str(account / "later"), str(account / "hub/later"), str(tmp_path / "opt/tool/help")]
    argv = wrap_argv(Wrap(wrap, visible=visible), inside, [sys.executable, "-I", "-c", WAITS_FOR, *paths])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=place.workspace) as started:
        until((place.workspace / "up").exists)
        for path in paths[:2]:
            Path(path).write_text("secret")
        (place.workspace / "go").touch()
        assert started.stdout
        said = started.stdout.read()
    assert "later" not in said
    assert ("help" in said) is (named == "above")


def doctor(staff: Staff, machine: str) -> tuple[int, str]:
    """What cn doctor says of agents with an agency.toml; its exit code."""
    path = staff.agency.hub.root.parent / "agency.toml"
    path.write_text(machine)
    git(staff.agency.hub.root, "config", "cn.agency", str(path))
    done = cn("doctor", "--json", hub=staff.agency.hub.root, check=None)
    found = json.loads(done.stdout)
    return done.returncode, "\n".join(json.dumps(one) for one in found if "runner" in str(one))


@pytest.mark.parametrize(("user", "removes"), [("", "rm -rf"), ("ann", "sudo rm -rf")])
def test_the_doctor_names_what_removes_what_an_agent_left_and_whose_it_was(
    staffed: Callable[..., Staff], user: str, removes: str
) -> None:
    """Of another user it may have closed folders, in which nobody but that one and root removes anything."""
    staff = staffed()
    left = folders_of(staff.agency.hub).ended(Uuid(Party(str(uuid4()))))
    left.workspace.mkdir(parents=True)
    if user:
        (left.path / "user").write_text(user)
    done = cn("doctor", "--json", hub=staff.agency.hub.root, check=None)
    remedies = [one["remedy"] for one in json.loads(done.stdout) if str(left.path) in one["what"]]
    assert remedies == [f"'{removes} {left.path}'"]


@needs_bwrap
def test_the_doctor_tries_each_wrap_and_says_what_an_agent_could(staffed: Callable[..., Staff]) -> None:
    staff = staffed()
    hub = staff.agency.hub.root
    assert doctor(staff, "[runners.one]\nargv = ['sh']\nwrap = 'bwrap'")[1] == ""
    code, said = doctor(staff, f"[runners.one]\nargv = ['sh']\nwrap = 'bwrap'\nvisible = ['{hub}']")
    assert code != 0
    assert f"an agent of runner one is not held: it can read {hub}/.git" in said
    assert "runner one is not started" in doctor(staff, "[runners.one]\nargv = ['sh']")[1]
    assert "unguarded" in doctor(staff, "[runners.one]\nargv = ['sh']\nunguarded = true")[1]
    assert (
        "no-such-wrap is not on this machine"
        in doctor(staff, "[runners.one]\nargv = ['x']\nwrap = ['no-such-wrap']")[1]
    )
    assert "runners.one.argv: it is a text" in doctor(staff, "[runners.one]\nargv = 'sh'")[1]


@needs_other_user
def test_the_doctor_says_that_agents_of_one_other_user_are_not_kept_from_each_other(
    staffed: Callable[..., Staff], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo, staff = tmp_path / "bin/sudo", staffed()
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\nuntil [ "$1" = -- ]; do shift; done\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    said = doctor(staff, "[runners.one]\nargv = ['sh']\nwrap = 'sudo'\nuser = 'nobody'")[1]
    assert "agents of runner one are not kept from each other" in said
    assert "does not work" not in said


def test_a_wrap_that_is_not_there_is_told(staffed: Callable[..., Staff]) -> None:
    with pytest.raises(NotTried, match="no-such-wrap is not on this machine"):
        can(staffed(), Wrap("own", ("no-such-wrap",)))
    with pytest.raises(NotTried, match="did not run inside the wrap"):
        can(staffed(), Wrap("own", ("false",)))


LOOKS = """
env > environment
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^CN_AGENT_TOKEN= | sort -u | wc -l > tokens
ls "$1" > hub 2>&1
ls {workspace}/../.. > agents 2>&1
touch up
sleep 600
"""


def looker(name: str, hub: str, more: str) -> str:
    script = LOOKS.replace("$1", hub)
    return script_runner(name, script).replace("unguarded = true", more)


def look(staff: Staff, name: str) -> Callable[[str], str]:
    """Start two agents, one after the other; what the second one sees, in a file that it wrote."""
    found: list[Path] = []
    for title in ("First", "Second"):
        handler = staff.handler(title, name)
        staff.step()
        found.append(staff.folder(staff.agents()[handler].id) / "workspace")
        until((found[-1] / "up").exists)
    return lambda what: (found[1] / what).read_text()


def test_an_unguarded_shell_reads_other_tokens_the_hub_and_other_agents(staffed: Callable[..., Staff]) -> None:
    staff = staffed(looker("bare", "HUB", SHELL))
    git_dir = str(staff.agency.hub.git_dir)
    staff.machine = machine_of(looker("bare", git_dir, SHELL))
    staff.restart()
    seen = look(staff, "bare")
    assert int(seen("tokens")) >= 2
    assert "agency.git" in seen("hub") or "config" in seen("hub")
    assert len(seen("agents").split()) == 2
    assert "CN_AGENT_TOKEN=" in seen("environment"), "its own it has in any case"


@each_wrap
def test_a_wrapped_shell_sees_itself_alone(staffed: Callable[..., Staff], wrap: str) -> None:
    staff = staffed()
    staff.machine = machine_of(looker("held", str(staff.agency.hub.git_dir), guard(wrap)))
    staff.restart()
    seen = look(staff, "held")
    tokens = {line for line in seen("environment").splitlines() if line.startswith("CN_AGENT_TOKEN=")}
    assert len(tokens) == 1
    assert int(seen("tokens")) == 1
    assert seen("hub").startswith("ls: cannot ")
    own = {line.removeprefix("CN_AGENT_ID=") for line in seen("environment").splitlines() if "CN_AGENT_ID=" in line}
    others = {agent.id for agent in staff.agents().values()} - own
    assert len(others) == 1
    assert not [one for one in others if one in seen("agents")]


@each_wrap
def test_whoever_is_killed_in_a_wrap_nobody_is_left(staffed: Callable[..., Staff], wrap: str) -> None:
    from cn.agency.operations import StopHandler

    script = "trap '' TERM; setsid sleep 600 & touch up; while :; do sleep 0.1; done"
    staff = staffed(script_runner("one", script).replace("unguarded = true", guard(wrap)))
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler].id
    until((staff.folder(agent) / "workspace/up").exists)
    until(lambda: alive("sleep 600", agent))
    staff.do(StopHandler(handler))
    staff.step_until(lambda: not staff.place.folders.live())
    assert alive("sleep 600", agent) == 0


def alive(command: str, agent: str) -> int:
    """Processes of an agent that run a command, also those in a namespace of their own."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                env = (entry / "environ").read_bytes()
            except OSError:
                continue
            count += command in line and agent.encode() in env
    return count


@needs_bwrap
def test_a_workspace_and_the_network_of_a_wrapped_agent(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, "sh", ())
    script = "pwd; echo x > mine; echo y > /tmp/own; ls -d /tmp/own; cat /proc/net/dev | wc -l"
    for network in (True, False):
        argv = wrap_argv(BWRAP._replace(network=network), inside, ["sh", "-c", script])
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[:2] == [str(place.workspace), "/tmp/own"]
        interfaces = int(done.stdout.splitlines()[-1]) - 2
        assert (interfaces == 1) or network, "without the network there is loopback alone"
    assert (place.workspace / "mine").read_text() == "x\n"
    assert not Path("/tmp/own").exists()


@needs_sandlock
def test_a_workspace_and_the_network_of_an_agent_in_sandlock(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, sys.executable, ())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        call = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))"
        script = f'pwd; cat; echo x > mine; echo y > /tmp/own; "$0" -I -c "{call}" && echo called; exit 3'
        for network in (True, False):
            argv = wrap_argv(SANDLOCK._replace(network=network), inside, ["sh", "-c", script, sys.executable])
            done = subprocess.run(argv, input="given\n", capture_output=True, text=True, check=False)
            assert done.returncode == 3
            called = ["called"] if network else []
            assert done.stdout.splitlines() == [str(place.workspace), "given", *called]
    assert (place.workspace / "mine").read_text() == "x\n"
    assert not Path("/tmp/own").exists()


@needs_sandlock
def test_an_agent_in_sandlock_hears_that_it_is_to_end(staffed: Callable[..., Staff]) -> None:
    """It stands in a group of its own, so sandlock's supervisor passes the signal on."""
    script = "trap 'exit 5' TERM; touch up; while :; do sleep 0.1; done"
    staff = staffed(
        script_runner("one", script).replace("unguarded = true", guard("sandlock")) + "[agents]\ngrace = 60"
    )
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler].id
    until((staff.folder(agent) / "workspace/up").exists)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    launcher.signal(signal.SIGTERM)
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0].startswith("it failed: exit 5")


@each_wrap
def test_what_an_agent_starts_ends_by_the_signals_that_its_wrap_waits_for(tmp_path: Path, wrap: str) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, "sh", ())
    argv = wrap_argv(Wrap(wrap), inside, ["grep", "SigBlk", "/proc/self/status"])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["SigBlk:", "0" * 16]


def test_a_wrap_whose_package_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sandlock", None)
    assert "cn-hub[sandlock]" in missing(SANDLOCK)


def test_a_command_of_ones_own_wraps_too(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(place.workspace, place.home, place.files, None, "sh", ())
    own = Wrap("own", ("wrapper", "--in", "{workspace}", "{visible}", "--"), ("/opt/models",))
    argv = wrap_argv(own, inside, ["agent", "go"])
    assert argv[:3] == ["wrapper", "--in", str(place.workspace)]
    assert str(place.files) in argv
    assert argv[-3:] == ["--", "agent", "go"]
    assert missing(own) == "wrapper"
    assert seccomp.__file__ not in argv
    filtered = wrap_argv(Wrap("own", ("wrapper", "{filter}"), network=False), inside, ["agent"])
    assert filtered == ["wrapper", sys.executable, "-I", "-S", seccomp.__file__, "--no-inet", "agent"]


def test_sudo_takes_a_user_keeps_the_variables_and_nothing_in_an_argument(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001")  # type: ignore[arg-type]
    inside = Inside(
        place.workspace, place.home, place.files, None, "sh", ("PATH", "HOME", "CN_AGENT_TOKEN", "CN_HANDLER")
    )
    argv = wrap_argv(Wrap("sudo", user="robot"), inside, ["agent"])
    kept = "--preserve-env=CN_AGENT_TOKEN,CN_HANDLER"
    known = sys.platform == "linux" and os.uname().machine in seccomp.KNOWN
    held = [sys.executable, "-I", "-S", seccomp.__file__, "--no-system-v"] if known else []
    assert argv == ["sudo", "-n", "-u", "robot", kept, "--", "env", f"HOME={place.home}", *held, "agent"]


@needs_other_user
def test_a_folder_of_another_user_is_that_users_alone(tmp_path: Path) -> None:
    place = Folders(tmp_path).make("00000000-0000-4000-8000-000000000001", other_user="nobody")  # type: ignore[arg-type]
    found = {name: (place.path / name).stat() for name in ("workspace", "home", "files", ".")}
    modes = {name: oct(info.st_mode & 0o777) for name, info in found.items()}
    assert modes == {"workspace": "0o700", "home": "0o700", "files": "0o711", ".": "0o711"}
    nobody = pwd.getpwnam("nobody").pw_uid
    assert {name: info.st_uid for name, info in found.items()} == {
        "workspace": nobody,
        "home": nobody,
        "files": 0,
        ".": 0,
    }


@needs_other_user
def test_a_folder_of_another_user_can_be_reached_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        base = tmp_path / "state/agency"
        place = Folders(base).make("00000000-0000-4000-8000-000000000001", other_user="nobody")  # type: ignore[arg-type]
    finally:
        os.umask(before)
    found = [place.files, place.path, place.path.parent, base, base.parent]
    assert {oct(one.stat().st_mode & 0o777) for one in found} == {"0o711"}


_LEAVES = """
import os, pathlib, sys
from cn.agents.workspace import Folder, Folders
base, sys.executable = pathlib.Path(sys.argv[1]), sys.argv[2]
folder = Folder(base / "live/00000000-0000-4000-8000-000000000001")
os.setgroups([])
os.seteuid(4711)
os.umask(0)
for path in (folder.workspace, folder.home, folder.files):
    path.mkdir(parents=True)
(folder.path / "user").write_text("nobody")
os.seteuid(0)
os.seteuid(65534)
inner = folder.workspace / "n/n/n"
inner.mkdir(mode=0o700, parents=True)
(inner / "f").write_text("much")
inner.chmod(0)
inner.parent.chmod(0)
os.seteuid(0)
os.seteuid(4711)
folders = Folders(base)
folders.empty(folder)
print(sorted(one.name for one in folder.path.iterdir()))
print(repr(folders.retire(folder)), folders.left_over())
"""


@needs_other_user
def test_what_another_user_closed_is_removed_as_that_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """``sudo`` is stood for by what becomes that user; who asks may not do so otherwise (seteuid(2))."""
    system = shutil.which("python3", path="/usr/bin:/bin")
    if not system or pwd.getpwnam("nobody").pw_uid != 65534:
        pytest.skip("needs a Python that others may start, and nobody's usual number")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        (place / "bin").mkdir()
        sudo = place / "bin/sudo"
        become = "os.seteuid(0); os.setgid(65534); os.setuid(65534); os.execvp(a[0], a)"
        sudo.write_text(f"#!{system} -IS\nimport os, sys\na = sys.argv[sys.argv.index('--') + 1 :]\n{become}\n")
        sudo.chmod(0o755)
        monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
        words = [sys.executable, "-c", _LEAVES, str(place / "state"), system]
        said = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
        assert said.stdout.splitlines() == ["['files', 'user']", "'' []"], said.stderr


def test_a_user_that_the_machine_does_not_have_gets_no_folder(tmp_path: Path) -> None:
    with pytest.raises(Blocked, match="no user of-nobody"):
        Folders(tmp_path).make("00000000-0000-4000-8000-000000000001", other_user="of-nobody")  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to become another user")
def test_another_user_reads_neither_hub_nor_tokens(staffed: Callable[..., Staff]) -> None:
    """What ``sudo -u`` comes to, by setpriv(1): the kernel's own wall between users."""
    if closed := [folder for folder in (ROOT, *ROOT.parents) if not folder.stat().st_mode & stat.S_IXOTH]:
        pytest.skip(f"others may not pass {closed[-1]}, where the checkout is")
    staff = staffed()
    for folder in (staff.agency.hub.git_dir, staff.agency.hub.root / ".cn", Path.home()):
        folder.chmod(0o700)
    own = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    wrap = Wrap("own", own, user="nobody")
    with tempfile.TemporaryDirectory() as base:  # whose parents others may pass
        Path(base).chmod(0o711)
        folders = Folders(Path(base, "agents"))
        look = partial(examine, runner(wrap), staff.agency.hub, folders)
        # Another test's agent may be nobody's at the moment.
        found = next((one for _ in range(20) if "token" not in str(one := look())), ["token"])
        folders.make("00000000-0000-4000-8000-000000000001", other_user="nobody")  # type: ignore[arg-type]
        until(lambda: look() == found)
    assert not [one for one in found if "token" in one]
    assert not [one for one in found if str(staff.agency.hub.root) in one]
    # Agents of one user are not kept from each other, whether one has worked here before or not.
    assert not [one for one in found if "workspace" in one]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to become another user")
@pytest.mark.parametrize("closed", ["agents", "run", "run/agents.sock"])
def test_a_wrap_whose_user_cannot_reach_what_an_agent_needs_is_told(staffed: Callable[..., Staff], closed: str) -> None:
    """Its own folders, and the server's socket, which a folder above may close to it."""
    if shut := [folder for folder in (ROOT, *ROOT.parents) if not folder.stat().st_mode & stat.S_IXOTH]:
        pytest.skip(f"others may not pass {shut[-1]}, where the checkout is")
    staff = staffed()
    own = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    held = runner(Wrap("own", own, user="nobody"))
    with tempfile.TemporaryDirectory() as base, socket.socket(socket.AF_UNIX) as server:
        for path in (Path(base), Path(base, "agents"), Path(base, "agents/below"), Path(base, "run")):
            path.mkdir(exist_ok=True)
            path.chmod(0o711)
        called = Path(base, "run/agents.sock")
        server.bind(str(called))
        server.listen()
        called.chmod(0o666)
        folders = Folders(Path(base, "agents/below/hub"))
        examine(held, staff.agency.hub, folders, called)
        Path(base, closed).chmod(0o700)
        with pytest.raises(NotTried, match=f"it cannot reach .*: {base}/{closed} is closed to it; "):
            examine(held, staff.agency.hub, folders, called)
        Path(base, "agents/below").chmod(0o700)
        if closed == "agents":
            both = f"'chmod o\\+x {base}/agents' and 'chmod o\\+x {base}/agents/below', or start"
            with pytest.raises(NotTried, match=both):
                examine(held, staff.agency.hub, folders, called)
