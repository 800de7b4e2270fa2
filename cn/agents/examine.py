"""Try a runner's wrap: a probe is started inside it, as an agent would be, beside what it must not reach."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cn.agency.names import Party, Uuid
from cn.agency.tokens import new_token
from cn.agents import probe
from cn.agents.machine import Runner
from cn.agents.reachable import Reachable
from cn.agents.workspace import Folder, Folders
from cn.agents.wraps import Inside, hidden_of, missing, visible_paths, wrap_argv
from cn.git.repository import Hub
from cn.system.removal import remove_tree
from cn.values.shell_words import command

SECONDS = 30.0
_OWN = Uuid(Party("00000000-0000-4000-8000-000000000001"))
_OTHER = Uuid(Party("00000000-0000-4000-8000-000000000002"))


class NotTried(Exception):
    """The probe did not run; the text says why."""


def examine(runner: Runner, hub: Hub, folders: Folders, socket: Path | None = None) -> list[str]:
    """What an agent of this runner could reach that is not its own, in sentences; empty: nothing of what was tried.

    Raises :class:`NotTried`, also where it could not reach its own folders, or the server's ``socket``, because it is
    another user's. Agents of one other user are not kept from each other, which is told elsewhere. Nothing of it
    remains.
    """
    if runner.wrap and (command := missing(runner.wrap)):
        raise NotTried(f"{command} is not on this machine")
    with _scene(folders, runner) as (own, other), _decoy() as decoy, Reachable(runner.wrap) as reachable:
        (other.workspace / "secret").write_text("of another agent\n")
        token = new_token()
        argv = [sys.executable, "-I", "-S", probe.__file__]
        inside = Inside(own.workspace, own.home, own.files, None, sys.executable, ("CN_AGENT_TOKEN",))
        inside = inside._replace(hidden=hidden_of(hub.root, hub.git_dir, folders.base.parent))
        home = _home_paths([str(own.path), *(visible_paths(runner.wrap, inside) if runner.wrap else ())])
        user = runner.wrap.user if runner.wrap else ""
        others = [] if user else [str(other.workspace)]
        needed = [*map(str, (own.workspace, own.home, own.files, *([socket] if socket else [])))] if user else []
        paths = [str(hub.git_dir), str(hub.root / ".cn"), *others, *_user_socket(hub), *home]
        env = {"PATH": os.environ.get("PATH", os.defpath), "CN_AGENT_TOKEN": token}
        asked = json.dumps(
            {"paths": paths, "needed": needed, "token": token, "process": decoy.pid, "outside": reachable.outside}
        )
        before = _state_of(decoy)
        found, lacks = _run(wrap_argv(runner.wrap, inside, argv), asked, env, own)
        if lacks:
            raise NotTried(f"{lacks[0]}; {_calls(user) if str(socket) in lacks[0] else _opens(own.path)}")
        for path in paths:
            _remove_made(path)
        after = _state_of(decoy)
        found += [f"it can {does} other processes" for does in before if before[does] != after[does]]
        return found + ["it can call others by the network (UDP)"] * reachable.heard()


def _remove_made(path: str) -> None:
    """What the probe could make there and not remove."""
    with suppress(OSError):
        for name in os.listdir(path) if os.path.isdir(path) else ():
            if name.startswith(probe.MADE):
                os.unlink(os.path.join(path, name))


def _state_of(process: subprocess.Popen[bytes]) -> dict[str, object]:
    """By what an agent could do to it, how a process is."""
    found: dict[str, object] = {}
    for does, look in _STATES.items():
        with suppress(OSError, AttributeError):
            found[does] = look(process.pid)
    return {does: found.get(does) for does in _STATES}


def _stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in (b"T", b"Z", b"X")


_STATES: dict[str, Callable[[int], object]] = {
    "limit, and so kill,": lambda pid: resource.prlimit(pid, resource.RLIMIT_CORE),
    "take the turns of": lambda pid: (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)),
    "choose the processors of": lambda pid: os.sched_getaffinity(pid),
    "send signals to": _stopped,
}


def _run(argv: list[str], asked: str, env: dict[str, str], own: Folder) -> tuple[list[str], list[str]]:
    """What it could do, and what it could not reach."""
    try:
        done = subprocess.run(
            argv, input=asked, env=env, cwd=own.workspace, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise NotTried(f"the probe did not run: {why}") from None
    try:
        found = json.loads(done.stdout)
        return [str(one) for one in found["leaks"]], [str(one) for one in found["lacks"]]
    except (ValueError, TypeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NotTried(f"the probe did not run inside the wrap: {last[:200]}") from None


def _opens(path: Path) -> str:
    """All that is closed on the way there is named at once: who is kept out by one folder sees none below it."""
    closed = [str(one) for one in reversed(path.parents) if not one.stat().st_mode & stat.S_IXOTH]
    opens = " and ".join(command("chmod o+x {}", one) for one in closed) or "(chmod o+x)"
    again = "it is tried again within five minutes, or when a server is started anew"
    return f"let others pass it: {opens}, or start the server with XDG_STATE_HOME elsewhere; {again}"


def _calls(user: str) -> str:
    return f"name {user} in [server] users, and start the server with XDG_RUNTIME_DIR unset, or where others may pass"


def _user_socket(hub: Hub) -> list[str]:
    """That by which whoever opens it is the user, where a server has run."""
    try:
        return [str(json.loads((hub.state / "agency/server.json").read_text())["user_socket"])]
    except (OSError, ValueError, KeyError):
        return []


def _home_paths(shown: Sequence[str]) -> list[str]:
    """What is in the home folder of who runs this, but what has something that is shown: the probe's own folder, and
    where Python is.
    """
    home = os.path.expanduser("~")
    with suppress(OSError):
        paths = [os.path.join(home, name) for name in sorted(os.listdir(home))]
        return [path for path in paths if not any(f"{one}/".startswith(f"{path}/") for one in shown)][:20]
    return []


@contextmanager
def _scene(folders: Folders, runner: Runner) -> Iterator[tuple[Folder, Folder]]:
    """Two agents' folders, of which one is the probe's."""
    other_user = runner.wrap.user if runner.wrap else ""
    base = Path(tempfile.mkdtemp(prefix=".probe-", dir=folders.open_base(other_user=other_user)))
    try:
        place = Folders(base)
        yield place.make(_OWN, other_user=other_user), place.make(_OTHER, other_user=other_user)
    finally:
        remove_tree(base)


@contextmanager
def _decoy() -> Iterator[subprocess.Popen[bytes]]:
    """A process beside the probe that has a token as an agent has one."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "CN_AGENT_TOKEN": new_token()}
    process = subprocess.Popen(["sleep", str(int(SECONDS) * 2)], env=env)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
