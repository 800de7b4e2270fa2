"""What an agent in sandlock changes of files beside their contents: its own as without a wrap, and no others."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cn.agency.names import Party, Uuid
from cn.agents import seccomp
from cn.agents.workspace import Folder, Folders
from cn.agents.wraps import Inside, Wrap, wrap_argv
from cn.bridge import connection
from tests.support.hubs import ROOT
from tests.support.wraps import NEEDS

SANDLOCK = Wrap("sandlock")
AGENT = Uuid(Party("00000000-0000-4000-8000-000000000001"))
pytestmark = NEEDS["sandlock"]

TRIES = r"""
import ctypes, json, os, sys
HERE, NOT_FOLLOWED, EMPTY, NOW, OMIT = -100, 0x100, 0x1000, (1 << 30) - 1, (1 << 30) - 2
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *words):
    words = [os.fsencode(word) if isinstance(word, str) else word for word in words]
    if libc.syscall(number, *words) < 0:
        raise OSError(ctypes.get_errno(), "")

def linked(path):
    name = f"link-{len(os.listdir())}"
    os.symlink(path, name)
    return name

def longs(*numbers):
    return (ctypes.c_long * len(numbers))(*numbers)

def held(path):
    return os.open(path, os.O_PATH)

def opened(path):
    return os.open(path, os.O_RDONLY)

mine = os.getgid()
CHANGES = {
    "chmod": lambda path: os.chmod(path, 0o711),
    "chmod in a folder": lambda path: os.chmod(os.path.basename(path), 0o711, dir_fd=held(os.path.dirname(path))),
    "chmod from here": lambda path: os.chmod(os.path.relpath(path), 0o711),
    "fchmodat2": lambda path: call(452, HERE, path, 0o711, 0),
    "fchmodat2 of a link": lambda path: call(452, HERE, linked(path), 0o711, NOT_FOLLOWED),
    "fchmodat2 of what is held": lambda path: call(452, held(path), "", 0o711, EMPTY),
    "chmod of what is held": lambda path: os.chmod(f"/proc/self/fd/{held(path)}", 0o711),
    "chmod of what is held, by /dev": lambda path: os.chmod(f"/dev/fd/{held(path)}", 0o711),
    "chmod of what is held, with dots": lambda path: os.chmod(f"//proc/./self//fd/{held(path)}", 0o711),
    "chmod by a link": lambda path: os.chmod(linked(path), 0o711),
    "chown": lambda path: os.chown(path, -1, mine),
    "chown to another": lambda path: os.chown(path, 1, -1),
    "chown of a link": lambda path: os.lchown(linked(path), -1, mine),
    "lchown": lambda path: call(94, linked(path), -1, mine),
    "chown of what is held": lambda path: call(260, held(path), "", -1, mine, EMPTY),
    "utime": lambda path: call(132, path, longs(7, 8)),
    "utimes": lambda path: call(235, path, longs(7, 500_000, 8, 0)),
    "utimes that are none": lambda path: call(235, path, longs(7, 1_000_000, 8, 0)),
    "futimesat": lambda path: call(261, HERE, path, longs(7, 500_000, 8, 0)),
    "utimensat": lambda path: os.utime(path, ns=(7_000_000_005, 8_000_000_005)),
    "utimensat that are none": lambda path: call(280, HERE, path, longs(7, -1, 8, 0), 0),
    "utimensat of one": lambda path: call(280, HERE, path, longs(7, 5, 0, OMIT), 0),
    "utimensat of a link": lambda path: os.utime(linked(path), ns=(7, 8), follow_symlinks=False),
    "flags that are none": lambda path: call(280, HERE, path, longs(7, 5, 8, 5), 4),
    "fchmod": lambda path: os.fchmod(opened(path), 0o711),
    "fchown": lambda path: os.fchown(opened(path), -1, mine),
    "futimens": lambda path: os.utime(opened(path), ns=(7_000_000_005, 8_000_000_005)),
    "nothing": lambda path: os.chmod("", 0o711),
    "nowhere": lambda path: call(268, HERE, ctypes.c_void_p(8), 0o711),
    "no file": lambda path: os.chmod(path + "-none", 0o711),
    "too long": lambda path: os.chmod(path + "/" + "a" * 5000, 0o711),
    "nothing open": lambda path: os.fchmod(900, 0o711),
    "in nothing open": lambda path: os.chmod("a", 0o711, dir_fd=900),
    "in what is no folder": lambda path: os.chmod(path + "/a", 0o711),
}
if os.uname().machine != "x86_64":
    numbers = {90, 94, 132, 235, 260, 261, 268, 280}
    CHANGES = {name: one for name, one in CHANGES.items() if not numbers & set(one.__code__.co_consts)}
for path in json.load(sys.stdin):
    said = {}
    for name, change in CHANGES.items():
        try:
            change(path)
        except OSError as why:
            said[name] = [os.strerror(why.errno)]
        else:
            said[name] = []
        try:
            with open(path) as file:  # sandlock answers no stat(2) of a name that is not UTF-8
                found = os.fstat(file.fileno())
            said[name] += [oct(found.st_mode), found.st_atime, found.st_mtime]
            os.utime(path, ns=(3_000_000_000, 4_000_000_000))
            os.chmod(path, 0o600)
        except OSError:
            pass
    print(json.dumps(said))
"""


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folders(tmp_path / "agents").make(AGENT)


def inside(place: Folder, program: str) -> Inside:
    return Inside(place.workspace, place.home, place.files, None, program, ())


def run(place: Folder, *argv: str, given: str = "", wrap: Wrap | None = SANDLOCK) -> subprocess.CompletedProcess[str]:
    whole = wrap_argv(wrap, inside(place, argv[0]), argv)
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "LANG": "C.UTF-8"}
    return subprocess.run(whole, input=given, capture_output=True, text=True, check=False, cwd=place.workspace, env=env)


def tried(place: Folder, *paths: Path, wrap: Wrap | None) -> list[dict[str, Any]]:
    done = run(place, sys.executable, "-I", "-c", TRIES, given=json.dumps([*map(str, paths)]), wrap=wrap)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_its_own_files_are_changed_as_without_a_wrap_by_each_call_of_the_kernel(place: Folder) -> None:
    here = place.workspace / "sub"
    here.mkdir()
    for name in ("one", "é\udcff", "home"):
        (here / name).write_text("x")
        (here / name).chmod(0o600)
    (place.home / "home").write_text("x")
    paths = [here / "one", here / "é\udcff", place.home / "home"]
    for path in paths:
        os.utime(path, (3, 4))
        path.chmod(0o600)
    bare, held = (tried(place, *paths, wrap=wrap) for wrap in (None, SANDLOCK))
    assert held == bare
    assert [one["chmod"][0] for one in held] == ["0o100711"] * 3


def test_no_file_of_others_is_changed_by_any_call(place: Folder, tmp_path: Path) -> None:
    """Of the same user, and also where it may be read."""
    others = [tmp_path / "one", place.files / "given"]
    for path in others:
        path.write_text("x")
        path.chmod(0o600)
        os.utime(path, (3, 4))
    before = [(one.st_mode, one.st_mtime, one.st_ctime) for one in map(os.stat, others)]
    for said in tried(place, *others, wrap=SANDLOCK):
        of_a_link = {"chown of a link", "lchown", "utimensat of a link"}  # which is its own
        assert {name for name, told in said.items() if not told or told[0].startswith("0o")} == of_a_link
        assert said["chmod"][0] == said["fchmodat2 of what is held"][0] == "Operation not permitted"
    assert [(one.st_mode, one.st_mtime, one.st_ctime) for one in map(os.stat, others)] == before


def test_a_name_that_changes_under_the_call_leads_to_no_file_of_others(place: Folder, tmp_path: Path) -> None:
    """A link that is put in the place of a folder again and again, while the mode is changed below it."""
    (tmp_path / "hub").mkdir(mode=0o700)
    (tmp_path / "hub/x").write_text("x")
    script = f"""
import os, threading, time
os.mkdir("real"); open("real/x", "w").close(); os.symlink("{tmp_path}/hub", "link"); os.symlink("real", "now")
end = time.monotonic() + 2
def turn():
    while time.monotonic() < end:
        for target in ("real", "{tmp_path}/hub"):
            os.symlink(target, "next"); os.rename("next", "now")
threading.Thread(target=turn).start()
done = [0, 0]
while time.monotonic() < end:
    try:
        os.chmod("now/x", 0o777); done[0] += 1
    except PermissionError:
        done[1] += 1
print(*done)
"""
    done = run(place, sys.executable, "-I", "-c", script)
    assert done.returncode == 0, done.stderr
    assert all(int(count) for count in done.stdout.split()), done.stdout
    assert (tmp_path / "hub/x").stat().st_mode & 0o777 != 0o777


def test_programs_that_change_modes_and_times_work(place: Folder) -> None:
    script = """
set -e
git init -q repo && cd repo && echo a > a && chmod +x a && git add a && git ls-files -s | cut -c1-6
cp -p a b && touch -d 2001-02-03 b && tar cf ../t.tar b && mkdir out && tar xf ../t.tar -C out && date -r out/b +%F
install -m 640 a c && stat -c %a c && mkdir -m 700 d && stat -c %a d && chmod -R go+rX d && stat -c %a d
"""
    done = run(place, "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["100755", "2001-02-03", "640", "700", "755"]


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)])
def test_how_it_ends_is_told_and_its_standard_files_are_ours(place: Folder, script: str, code: int) -> None:
    done = run(place, "sh", "-c", f"cat; echo said >&2; {script}", given="given\n")
    assert (done.returncode, done.stdout, done.stderr) == (code, "given\n", "said\n")


def test_of_much_output_nothing_is_kept_beside_the_agent(place: Folder) -> None:
    """sandlock would keep what a command writes to the files that it gives it."""
    argv = wrap_argv(SANDLOCK, inside(place, "sh"), ["sh", "-c", "head -c 200000000 /dev/zero; read wait"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place.workspace) as started:
        assert started.stdout
        assert len(started.stdout.read(200_000_000)) == 200_000_000
        told = Path(f"/proc/{started.pid}/status").read_text()
        started.communicate(b"\n")
    (most,) = [int(line.split()[1]) for line in told.splitlines() if line.startswith("VmHWM")]
    assert most < 100_000


def test_what_cannot_be_started_is_told(place: Folder) -> None:
    done = run(place, "/none/such")
    assert done.returncode == 127
    assert "cannot start /none/such: No such file or directory" in done.stderr


SOCKETS = """
import os, socket, sys, threading, time
hidden, home, files, open_to_all = sys.argv[1:]
def tell(name, does):
    try:
        does()
    except OSError as why:
        print(name, os.strerror(why.errno))
    else:
        print(name, "done")
def bind(path):
    one, other = socket.socketpair()
    one.bind(path)
tell("own", lambda: bind("own"))
tell("home", lambda: bind(home + "/own"))
os.symlink(hidden, "link")
fd = os.open(hidden, os.O_PATH)
for path in (hidden, "link", f"/proc/self/fd/{fd}", files):
    tell("others", lambda: bind(path + "/evil"))
os.symlink("a", "turns")
os.mkdir("a")
end = time.monotonic() + 1
def turn():
    while time.monotonic() < end:
        for target in ("a", hidden):
            os.symlink(target, "next"); os.rename("next", "turns")
threading.Thread(target=turn).start()
count = 0
while time.monotonic() < end:
    try:
        bind(os.path.abspath(f"turns/s{(count := count + 1)}"))
    except OSError:
        pass
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    tell("made", lambda: socket.socket(socket.AF_UNIX, kind))
for kind in {*range(16)} - {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}:  # the kernel makes SOCK_RAW one for datagrams
    tell("datagrams", lambda: socket.socketpair(socket.AF_UNIX, kind))
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    tell("connected", lambda: one.connect(open_to_all))
    other.close()
    tell("connected", lambda: one.connect(open_to_all))
"""


@pytest.mark.parametrize("network", [True, False])
def test_it_makes_sockets_in_its_own_folders_alone_and_none_that_reaches_others(*, network: bool) -> None:
    """Where it has the network, sandlock's supervisor binds and connects in its place."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as others:  # a path is (unix(7))
        place, hidden = Folders(Path(short)).make(AGENT), Path(short) / "hub"
        hidden.mkdir(mode=0o700)
        others.bind(f"{short}/socket")
        others.listen()
        told = (str(hidden), str(place.home), str(place.files), f"{short}/socket")
        done = run(place, sys.executable, "-I", "-c", SOCKETS, *told, wrap=SANDLOCK._replace(network=network))
        assert done.returncode == 0, done.stderr
        said = [line.split(" ", 1) for line in done.stdout.splitlines()]
        assert [how for name, how in said if name in ("own", "home")] == ["done", "done"]
        assert "done" not in [how for name, how in said if name not in ("own", "home")], said
        assert os.listdir(hidden) == []
        assert not (place.files / "evil").exists()
        others.setblocking(False)
        with pytest.raises(BlockingIOError):
            others.accept()


@pytest.mark.parametrize("network", [True, False])
def test_it_is_given_connections_to_the_server(*, network: bool) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        place, agents = Folders(Path(short)).make(AGENT), Path(short) / "agents"
        agents.mkdir(mode=0o700)
        server.bind(f"{agents}/s")
        server.listen()
        code = "import sys; from cn.bridge.connection import _connect_unix as c; c(sys.argv[1], ()).sendall(b'hello')"
        argv = (sys.executable, "-c", code, f"{agents}/s")
        known = inside(place, argv[0])._replace(socket=agents / "s")
        wrap = SANDLOCK._replace(network=network, visible=(str(ROOT),))
        env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "PYTHONPATH": str(ROOT)}
        whole = wrap_argv(wrap, known, argv)
        done = subprocess.run(whole, capture_output=True, text=True, check=False, cwd=place.workspace, env=env)
        assert done.returncode == 0, done.stderr
        server.settimeout(10)
        with server.accept()[0] as made:
            assert made.recv(10) == b"hello"
        server.close()
        done = subprocess.run(whole, capture_output=True, text=True, check=False, cwd=place.workspace, env=env)
        assert "ConnectionRefusedError" in done.stderr


def test_both_programs_mean_the_same_question() -> None:
    from cn.agents import landlock

    assert landlock.ASK == seccomp.ASK == connection._ASK
    assert landlock.SERVER == connection._SERVER


def test_who_holds_the_key_that_sandlock_needs_is_told(tmp_path: Path) -> None:
    """The tables of proc(5); a key is shown with its sign."""
    from cn.agents.landlock import taken_registry

    def tables(memory: int, semaphores: int, user: int = 1013) -> str:
        ours, other = 0x534C4305 ^ 1013, 0xF0000001 - (1 << 32)
        for kind, uid in (("shm", memory), ("sem", semaphores)):
            rows = f"{other:10} 3 1666 99\n{ours:10} 4 1666 {uid}\n"
            (tmp_path / kind).write_text(f"       key      id perms   uid\n{rows}")
        return taken_registry(user, tmp_path)

    assert tables(1013, 1013) == ""
    assert tables(65534, 65534, user=7) == ""
    told = tables(65534, 65534)
    assert "user 65534 holds the key that it needs; that user, or root, frees it" in told
    assert f"'ipcrm -M {0x534C4305 ^ 1013:#x} -S {0x534C4305 ^ 1013:#x}'" in told
    assert "'ipcrm -S 0x" in tables(1013, 65534)
    assert taken_registry(1013, tmp_path / "none") == ""
