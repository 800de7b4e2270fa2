"""What stands between an agent that can run programs and this machine: one prefix of its command.

A wrap hides the hub, other agents' folders and processes, and the home folder. ``bwrap`` (bubblewrap) shows the agent
its own workspace and the system's programs; ``sandlock`` lets it open nothing else, where the kernel has Landlock;
``sudo`` runs it as another user. Within each of them stands :mod:`cn.agents.seccomp`, for what none of them hides. A
command of one's own may have the placeholders ``{workspace}``, ``{home}``, ``{visible}`` and ``{filter}``, of which the
last two become several words. :mod:`cn.agents.probe` looks from inside what can be reached.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import cn
from cn.agents import seccomp

NAMED: Final = ("bwrap", "sandlock", "sudo")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SETTINGS: Final = ("/usr/local/etc",)
"""Below the system's programs, and like /etc: nothing of it is shown that was not chosen."""
_ETC: Final = """
passwd group hosts hostname host.conf resolv.conf gai.conf nsswitch.conf services protocols networks netconfig
localtime timezone locale.alias locale.conf default/locale machine-id os-release lsb-release *_version *-release
ld.so.cache ld.so.conf ld.so.conf.d ld-musl-* alternatives ssl/certs ssl/cert.pem ssl/openssl.cnf ssl/ca-*
ca-certificates ca-certificates.conf pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf pki/ca-trust/extracted
crypto-policies profile profile.d bash.bashrc bashrc inputrc shells terminfo magic magic.mime mime.types fonts
gitconfig gitattributes python* perl java* claude-code
"""
"""What programs need of /etc, as patterns; all else of it, now and later, is not there."""
_OF_PYTHON: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
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
    ``program`` is what it runs; ``variables`` are the names in its environment. ``hidden`` are folders of which nothing
    is shown wherever they lie, but what is named itself: the hub, the user's home, all agents' folders.
    """

    workspace: Path
    home: Path
    files: Path
    socket: Path | None
    program: str
    variables: Sequence[str]
    hidden: Sequence[str] = ()


def missing(wrap: Wrap) -> str:
    """What the wrap needs and that is not on this machine; empty where it is."""
    if wrap.name == "sandlock":
        return "" if importlib.util.find_spec("sandlock") else "the Python package sandlock (cn-hub[sandlock])"
    command = wrap.argv[0] if wrap.argv else wrap.name
    return "" if shutil.which(command) else command


def unfit(wrap: Wrap, user: int) -> str:
    """Why a wrap does not hold what a user (a number of this machine) starts, and what to do; empty where it may."""
    if wrap.name == "sandlock" and user == 0:
        return (
            "sandlock leaves root all that only root may do, devices among it: "
            "let another user serve, or set 'wrap' to bwrap"
        )
    return ""


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
            return [*as_user(wrap.user, f"--preserve-env={kept}"), *home, *_filter(wrap), *argv]
        case _:
            return [*_own(wrap, inside), *argv]


def killer_of(wrap: Wrap | None) -> list[str]:
    """The command that ends processes which are not ours to end."""
    return [*as_user(wrap.user), "kill"] if wrap and wrap.name == "sudo" else []


def as_user(user: str, *options: str) -> list[str]:
    """What stands before a command that another user of the machine is to run."""
    return ["sudo", "-n", "-u", user, *options, "--"]


def has_tmp(wrap: Wrap | None) -> bool:
    """May it write temporary files where programs expect to?"""
    return wrap is not None and wrap.name != "sandlock"


def visible_paths(wrap: Wrap, inside: Inside) -> list[str]:
    """What has to be readable beside the system's programs: Python, cn, the agent's program and files.

    What is hidden is left out of what it lies in, unless ``visible`` names that very folder.
    """
    python = [part for prefix in (sys.prefix, sys.base_prefix) for part in _python(prefix, inside.hidden)]
    found = [*python, str(Path(cn.__file__).parent), str(inside.files)]
    program = shutil.which(inside.program)
    if program:
        found += [program, os.path.realpath(program)]
    named = {os.path.realpath(path) for path in wrap.visible}
    hidden = [path for path in map(os.path.realpath, inside.hidden) if path not in named]
    kept: list[str] = []
    for path in dict.fromkeys([*found, *wrap.visible]):
        if os.path.exists(path) and not _is_below(path, (*system_paths(inside.hidden), *kept)):
            kept += around(path, hidden)
    return kept


def hidden_of(root: Path, git_dir: Path, agents: Path) -> tuple[str, ...]:
    """Of what no agent is shown anything wherever it lies: a hub, the user's home, the folders of all agents."""
    found = [os.path.realpath(path) for path in (os.path.expanduser("~"), root, agents)]
    where = os.path.realpath(git_dir)
    return tuple(dict.fromkeys([*found, *([] if _is_below(where, [found[1]]) else [where])]))


def system_paths(hidden: Sequence[str]) -> list[str]:
    """The system's programs, and the few files of its configuration that they need, as others of the machine may read
    them now. Of a folder with secrets nothing could be hidden: a new file, or one in the place of another, would show.
    """
    without = [*map(os.path.realpath, hidden), *_SETTINGS]
    programs = [part for path in _SYSTEM if os.path.lexists(path) for part in around(path, without)]
    chosen = [one for pattern in _ETC.split() for one in sorted(glob.glob(f"/etc/{pattern}"))]
    return [*programs, *dict.fromkeys(path for one in chosen for path in open_files(one))]


def around(path: str, hidden: Sequence[str]) -> list[str]:
    """A path, or what is in it, so that nothing of ``hidden`` (real paths) can be reached by it, now or later."""
    if not any(_is_below(one, [os.path.realpath(path)]) for one in hidden):
        return [path]
    if os.path.islink(path) or os.path.realpath(path) in hidden or not os.path.isdir(path):
        return []
    with suppress(OSError):
        return [part for name in sorted(os.listdir(path)) for part in around(os.path.join(path, name), hidden)]
    return []


def open_files(path: str) -> list[str]:
    """The files in it that others of the machine may read, and links, one by one: what comes into a folder later is not
    shown.
    """
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return [path]
        if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
            return [one for name in sorted(os.listdir(path)) for one in open_files(os.path.join(path, name))]
    except OSError:
        return []
    return [path] if stat.S_ISREG(mode) and mode & stat.S_IROTH else []


def _python(prefix: str, hidden: Sequence[str]) -> list[str]:
    """Where Python is; where that is a home folder too, no more of it than it needs."""
    return [os.path.join(prefix, name) for name in _OF_PYTHON] if prefix in hidden else [prefix]


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _bwrap(wrap: Wrap, inside: Inside) -> Iterator[str]:
    """bwrap(1): namespaces of its own, and nothing of the file system but what is named."""
    yield from ("bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc")
    yield from ("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
    if not wrap.network:
        yield "--unshare-net"
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108  of its own
    for path in settings_of_the_kernel():
        yield from ("--ro-bind", path, path)
    for path in system_paths(inside.hidden):
        yield from ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind", path, path)
    for path in (*_resolver(wrap), *visible_paths(wrap, inside)):
        yield from ("--ro-bind", path, path)
    for folder in (inside.workspace, inside.home):
        yield from ("--bind", str(folder), str(folder))
    if inside.socket:  # not to write: who took its place would be told other agents' tokens
        yield from ("--ro-bind", str(inside.socket.parent), str(inside.socket.parent))
    yield from ("--chdir", str(inside.workspace), "--", *_filter(wrap))


def settings_of_the_kernel() -> list[str]:
    """What ``/proc`` has beside processes: the machine's, and root writes it without any capability, for it owns it."""
    with suppress(OSError), os.scandir("/proc") as entries:
        return sorted(one.path for one in entries if not one.name.isdigit() and _is_writable(one))
    return []


def _is_writable(entry: os.DirEntry[str]) -> bool:
    """A folder may have files that are; a link leads to the process that follows it."""
    return entry.is_dir(follow_symlinks=False) or bool(
        entry.is_file(follow_symlinks=False) and entry.stat().st_mode & 0o222
    )


def _resolver(wrap: Wrap) -> Iterator[str]:
    """Where names of the network are looked up, if that stands outside of /etc."""
    resolver = os.path.realpath("/etc/resolv.conf")
    if wrap.network and resolver.startswith("/run/") and os.path.exists(resolver):
        yield resolver


def _sandlock(wrap: Wrap, inside: Inside) -> Iterator[str]:
    """The program that starts it there; what is named twice may do what either says."""
    packages = str(Path(cn.__file__).parent.parent)  # Python finds no module in a folder that it cannot list
    system = [
        path for path in system_paths(inside.hidden) if not os.path.islink(path)
    ]  # no rule follows a link of /etc
    readable = [
        *system,
        "/proc",
        *_DEVICES,
        *_resolver(wrap),
        *visible_paths(wrap, inside),
        *around(packages, inside.hidden),
    ]
    writable = [str(inside.workspace), str(inside.home), "/dev/null"]
    if inside.socket:  # to be looked at: the program that starts it connects to it in the agent's place
        readable.append(str(inside.socket.parent))
    asked = {
        "readable": [path for path in readable if os.path.exists(path)],
        "writable": [path for path in writable if os.path.exists(path)],
        "own": [str(inside.workspace), str(inside.home)],
        "server": str(inside.socket or ""),
        "network": wrap.network,
        "cwd": str(inside.workspace),
    }
    yield from (sys.executable, "-P", str(Path(__file__).with_name("landlock.py")), json.dumps(asked))
    yield from _filter(wrap)


def _filter(wrap: Wrap) -> Iterator[str]:
    """The program that refuses what the wrap around it does not hide; within ``bwrap`` it has a network of its own, and
    other folders than its own are not there to be watched.
    """
    if _has_filter(wrap):
        yield from (sys.executable, "-I", "-S", seccomp.__file__)
        if not wrap.network and wrap.name != "bwrap":
            yield seccomp.NO_INET
        if wrap.name == "sandlock":
            yield from (seccomp.NO_WATCHES, seccomp.NO_RIGHTS, seccomp.NO_UNIX, seccomp.STANDARD_FILES)
        if wrap.name == "bwrap":
            yield seccomp.FEW_PROCESSES
        if wrap.name == "sudo":
            yield seccomp.NO_SYSTEM_V


def _has_filter(wrap: Wrap) -> bool:
    """Does :mod:`cn.agents.seccomp` stand within it? With a command of one's own where that says so; where another user
    is the wall, as long as it can.
    """
    match wrap.name:
        case "own":
            return "{filter}" in wrap.argv
        case "sudo":
            return sys.platform == "linux" and os.uname().machine in seccomp.KNOWN
        case _:
            return True


def _own(wrap: Wrap, inside: Inside) -> Iterator[str]:
    given = {"workspace": str(inside.workspace), "home": str(inside.home)}
    for part in wrap.argv:
        if part == "{visible}":
            yield from visible_paths(wrap, inside)
        elif part == "{filter}":
            yield from _filter(wrap)
        else:
            yield part.replace("{workspace}", given["workspace"]).replace("{home}", given["home"])
