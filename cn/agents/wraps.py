"""What stands between an agent that can run programs and this machine: one prefix of its command.

A wrap hides the hub, other agents' folders and processes, and the home folder. ``bwrap`` (bubblewrap) shows the agent
its own workspace and the system's programs; ``sandlock`` lets it open nothing else, where the kernel has Landlock;
``sudo`` runs it as another user. A command of one's own may have the placeholders ``{workspace}``, ``{home}`` and
``{visible}``, which becomes several words. :mod:`cn.agents.probe` looks from inside what can be reached.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import cn

NAMED: Final = ("bwrap", "sandlock", "sudo")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
_WITH_SECRETS: Final = ("/etc", "/opt", "/usr/local/etc")
_DEVICES: Final = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_KEPT_BY_SUDO: Final = ("HOME", "PATH")


class Wrap(NamedTuple):
    """``name`` is one of :data:`NAMED`, or ``own`` for the command ``argv``.

    ``visible`` are absolute paths that it lets the agent read beside the system's; ``network``: it may use it;
    ``user`` is the one that ``sudo`` takes.
    """

    name: str
    argv: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    network: bool = True
    user: str = ""


class Inside(NamedTuple):
    """What an agent has to reach: its folders to write, and files to read; ``socket`` to talk to the server, if any.

    A server that was started anew has a new socket of the same name, so its folder is shown, which has nothing else.
    ``program`` is what it runs; ``variables`` are the names in its environment.
    """

    workspace: Path
    home: Path
    files: Path
    socket: Path | None
    program: str
    variables: Sequence[str]


def missing(wrap: Wrap) -> str:
    """What the wrap needs and that is not on this machine; empty where it is."""
    if wrap.name == "sandlock":
        return "" if importlib.util.find_spec("sandlock") else "the Python package sandlock (cn-hub[sandlock])"
    command = wrap.argv[0] if wrap.argv else wrap.name
    return "" if shutil.which(command) else command


def wrap_argv(wrap: Wrap | None, inside: Inside, argv: Sequence[str]) -> list[str]:
    """The whole command."""
    if wrap is None:
        return list(argv)
    match wrap.name:
        case "bwrap":
            return [*_bwrap(wrap, inside), *argv]
        case "sandlock":
            return [*_sandlock(wrap, inside), *argv]
        case "sudo":
            kept = ",".join(name for name in inside.variables if name not in _KEPT_BY_SUDO)
            home = ["env", f"HOME={inside.home}"]
            return ["sudo", "-n", "-u", wrap.user, f"--preserve-env={kept}", "--", *home, *argv]
        case _:
            return [*_own(wrap, inside), *argv]


def killer_of(wrap: Wrap | None) -> list[str]:
    """The command that ends processes which are not ours to end."""
    return ["sudo", "-n", "-u", wrap.user, "--", "kill"] if wrap and wrap.name == "sudo" else []


def has_tmp(wrap: Wrap | None) -> bool:
    """May it write temporary files where programs expect to?"""
    return wrap is not None and wrap.name != "sandlock"


def visible_paths(wrap: Wrap, inside: Inside) -> list[str]:
    """What has to be readable beside the system's programs: Python, cn, the agent's program and files."""
    found = [sys.prefix, sys.base_prefix, str(Path(cn.__file__).parent), str(inside.files), *wrap.visible]
    program = shutil.which(inside.program)
    if program:
        found += [program, os.path.realpath(program)]
    kept: list[str] = []
    for path in dict.fromkeys(found):
        if os.path.exists(path) and not _is_below(path, (*_SYSTEM, *kept)):
            kept.append(path)
    return kept


def hidden_paths(wrap: Wrap, folders: Sequence[str] = _WITH_SECRETS) -> list[str]:
    """What we can read of the system's configuration and others of this machine cannot: where root serves, host keys
    and passwords. A folder stands for all in it; what is ``visible`` stays.
    """
    found: list[str] = []
    for top in folders:
        if os.path.realpath(top) != top:
            continue
        for here, names, files in os.walk(top):
            closed = [name for name in names if _is_ours_alone(os.path.join(here, name), os.X_OK)]
            names[:] = [name for name in names if name not in closed]
            hidden = (*closed, *(name for name in files if _is_ours_alone(os.path.join(here, name), os.R_OK)))
            found += [os.path.join(here, name) for name in hidden]
    shown = [os.path.realpath(one) for one in wrap.visible]
    return [path for path in found if not any(_is_below(one, [path]) or _is_below(path, [one]) for one in shown)]


def _is_ours_alone(path: str, right: int) -> bool:
    """May we (``right``: read, or pass) where nobody may who is neither owner nor group? Links are judged where they
    lead.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return False
    kept = stat.S_ISLNK(found.st_mode) or stat.S_ISSOCK(found.st_mode)
    return not kept and not found.st_mode & right and os.access(path, right)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _bwrap(wrap: Wrap, inside: Inside) -> Iterator[str]:
    """bwrap(1): namespaces of its own, and nothing of the file system but what is named."""
    yield from ("bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc")
    yield from ("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
    if not wrap.network:
        yield "--unshare-net"
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108  of its own
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in hidden_paths(wrap):
        yield from ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
    for path in (*_resolver(wrap), *visible_paths(wrap, inside)):
        yield from ("--ro-bind", path, path)
    for folder in (inside.workspace, inside.home):
        yield from ("--bind", str(folder), str(folder))
    if inside.socket:  # not to write: who took its place would be told other agents' tokens
        yield from ("--ro-bind", str(inside.socket.parent), str(inside.socket.parent))
    yield from ("--chdir", str(inside.workspace), "--")


def _resolver(wrap: Wrap) -> Iterator[str]:
    """Where names of the network are looked up, if that stands outside of /etc."""
    resolver = os.path.realpath("/etc/resolv.conf")
    if wrap.network and resolver.startswith("/run/") and os.path.exists(resolver):
        yield resolver


def _sandlock(wrap: Wrap, inside: Inside) -> Iterator[str]:
    """The program that starts it there; what is named twice may do what either says."""
    packages = str(Path(cn.__file__).parent.parent)  # Python finds no module in a folder that it cannot list
    readable = [*_SYSTEM, "/proc", *_DEVICES, *_resolver(wrap), *visible_paths(wrap, inside), packages]
    writable = [str(inside.workspace), str(inside.home), "/dev/null"]
    if inside.socket:  # the socket may be connected to, and its folder not be written
        readable.append(str(inside.socket.parent))
        writable.append(str(inside.socket))
    asked = {
        "readable": [path for path in readable if os.path.exists(path)],
        "writable": [path for path in writable if os.path.exists(path)],
        "denied": hidden_paths(wrap),
        "network": wrap.network,
        "cwd": str(inside.workspace),
    }
    yield from (sys.executable, "-P", str(Path(__file__).with_name("landlock.py")), json.dumps(asked))


def _own(wrap: Wrap, inside: Inside) -> Iterator[str]:
    given = {"workspace": str(inside.workspace), "home": str(inside.home)}
    for part in wrap.argv:
        if part == "{visible}":
            yield from visible_paths(wrap, inside)
        else:
            yield part.replace("{workspace}", given["workspace"]).replace("{home}", given["home"])
