"""A login at origin's ssh host that is begun before the rest of cn is loaded (ssh(1), ``-N``).

A run that logged in there notes in ``.git/cn/login`` where that was. The next command that is sure to ask origin logs
in there at once, and :mod:`cn.git.ssh_logins` goes on with it where it would have done the very same. Nothing that
stands in the note is executed. It is machine-local and harmless to lose. This module imports next to nothing.
"""

from __future__ import annotations

import os
import stat
import time

from cn.git.environment import child_environment, config_files, stamp

TYPE_CHECKING = False  # typing itself takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

NOTE = "login"
LINGER = 10
"""Seconds that ssh keeps a login which nobody uses: where cn was killed, nobody ends it."""
_CONNECT = 20
"""Seconds for each address of a host (ssh_config(5), ``ConnectTimeout``): the system's own limit, over two minutes, is
longer than a peer has, so a host whose first address is dead would never be reached by its second."""
_LONGEST = 104 - 1 - 60
"""Bytes of the folder: macOS has room for 104 in all (unix(4)), and ssh adds what it hashes, and 17 while it binds."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")
_ELSEWHERE = ("GIT_SSH", "GIT_SSH_VARIANT", "GIT_CONFIG_COUNT")
"""What in the environment says where git connects to, or how, and stands in no file."""
_SIGKILL, _PDEATHSIG = 9, 1
_SECONDS = 5.0


class Started:
    """A child that logs in, and leads a session; ``code``: with what it ended, None while it is at work."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def has_ended(self) -> bool:
        """Is it at its end?"""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self, seconds: float = _SECONDS) -> None:
        """Wait so long at most for its end."""
        until = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until:
            time.sleep(0.002)

    def kill(self) -> None:
        """End it, and what it started. A login that is in is no part of it any more: it has its own session."""
        if not self.has_ended():
            try:
                os.killpg(self.pid, _SIGKILL)
            except (ProcessLookupError, PermissionError):  # it leads no session yet
                os.kill(self.pid, _SIGKILL)
            self.wait()


class Begun:
    """What :func:`begin` began: a login by which command, at which place (name and port), with which ``waits``
    (:func:`socket_options`). The names of all sockets of this process begin with ``token``.
    """

    def __init__(self, command: str, place: tuple[str, str], *, waits: bool, folder: str, token: str) -> None:
        self.asked = command, place, waits
        self.token, self.socket = token, f"{folder}/{token}e"
        self.login: Started | None = None


begun: list[Begun] = []
"""What the command that is loaded now may go on with; one at most."""
_asked = set[str]()
"""The hubs for which it was looked whether one may be begun: the first that asked has it, or has used it already."""


def log_in(command: str, options: str, place: tuple[str, str], folder: str, env: Mapping[str, str]) -> Started:
    """Begin a login by ``command`` and ``options`` (in shell syntax) that asks nobody anything.

    ssh ends when it is in, and stays in the background as after a connection. Until then it dies with this process.
    """
    name, port = place
    asked = [*(["-p", port] if port else []), name]
    words = ["sh", "-c", f'exec {command} {options} -o BatchMode=yes "$@"', "sh", "-N", *asked]
    above = os.getpid()
    if child := os.fork():
        return Started(child)
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.chdir(folder)
        _be_a_child(above)
        os.execve("/bin/sh", words, env)  # noqa: S606  it is one
    finally:
        os._exit(127)


def _be_a_child(above: int) -> None:
    """Undo what Python does to signals, and die with ``above`` (prctl(2))."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if os.uname().sysname == "Linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, _SIGKILL)
        if os.getppid() != above:
            os._exit(127)


def socket_options(socket: str, *, waits: bool) -> str:
    """How ssh leaves a login to others at ``socket`` (ssh_config(5)), in shell syntax; ``waits``: the user's
    configuration says how long it waits for a host.
    """
    own = "" if waits else f"-o ConnectTimeout={_CONNECT} "
    return f"{own}-o ControlMaster=auto -o ControlPersist={LINGER} -o ControlPath={socket}-%C"


def begin(root: str) -> None:
    """Log in where the last run at ``root`` did, if that is noted, and what git finds it by is as it was then."""
    command = os.environ.get("GIT_SSH_COMMAND") or "ssh"
    if begun or root in _asked or any(name in os.environ for name in _ELSEWHERE):
        return
    _asked.add(root)
    try:
        noted = _read(root)
        name, port, waits = noted["name"], noted["port"], noted["waits"]
        same = (noted["command"], noted["files"]) == (command, _files_text(root))
    except (OSError, ValueError, KeyError):
        return
    folder = private_folder()
    if not same or not folder or name.startswith("-") or not (port or "0").isdecimal():
        return
    one = Begun(command, (name, port), waits=bool(waits), folder=folder, token=os.urandom(4).hex())
    options = socket_options(one.socket, waits=bool(waits))
    one.login = log_in(command, options, (name, port), root, child_environment())
    begun.append(one)


def take_over(command: str, place: tuple[str, str], *, waits: bool) -> Begun | None:
    """What was begun at this place, where it is the very same; else it ends."""
    if not begun or begun[0].asked[1] != place:
        return None
    if begun[0].asked == (command, place, waits):
        return begun.pop()
    give_up()
    return None


def give_up() -> None:
    """End what nobody took over."""
    while begun:
        if login := begun.pop().login:
            login.kill()


def _read(root: str) -> dict[str, str]:
    """The note; none of another user, or that another one may have written."""
    path = f"{root}/.git/cn/{NOTE}"
    if {os.lstat(one).st_uid for one in (root, f"{root}/.git", f"{root}/.git/cn")} != {os.geteuid()}:
        return {}
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
            return {}
        return dict(line.split(" ", 1) for line in file.read().split("\n") if line)


def write_note(root: str, command: str, place: tuple[str, str], *, waits: bool) -> None:
    """Note a login that worked, where it is not noted."""
    name, port = place
    facts = {"command": command, "name": name, "port": port, "waits": "yes" * waits, "files": _files_text(root)}
    text = "".join(f"{key} {value}\n" for key, value in facts.items())
    path = f"{root}/.git/cn/{NOTE}"
    try:
        if _read(root) == facts:
            return
    except (OSError, ValueError):
        pass
    try:
        with open(
            os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w"
        ) as file:
            file.write(text)
        os.rename(f"{path}.new", path)
    except (OSError, ValueError):
        forget(root)


def forget(root: str) -> None:
    """Remove the note: that login failed, or is none of cn's."""
    try:
        os.unlink(f"{root}/.git/cn/{NOTE}")
    except OSError:
        return


def _files_text(root: str) -> str:
    return repr([stamp(path) for path in config_files(root)])


def private_folder() -> str | None:
    """A folder for sockets that is ours alone, with a short name; None where there is none."""
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp"):  # noqa: S108  whose it is, is looked at
        folder = f"{base}/cn-ssh-{os.geteuid()}"
        if not base.startswith("/") or len(folder) > _LONGEST or not _PLAIN.issuperset(folder):
            continue
        try:
            if not os.path.isdir(base):
                continue
            os.makedirs(folder, 0o700, exist_ok=True)
            info = os.lstat(folder)
        except OSError:
            continue
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077:
            return folder
    return None
