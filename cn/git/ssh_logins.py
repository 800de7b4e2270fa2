"""One login at each ssh host for all connections of a run (ssh_config(5), ``ControlMaster``).

A login takes up to a second, and each fetch and push would be one. So the first connection to a host leaves its
login to those that follow: they wait until its socket is there, and go through it. ssh itself ends a login
some seconds after its last connection closed, whatever became of cn; a run that ends tells it to.

A socket is named by ssh (``%C``) for host, port and user, so no connection can come out at another host than its
own. Where the user's configuration speaks of masters, or something else than OpenSSH is started, all is left
as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from cn.git import early_login
from cn.git.environment import child_environment
from cn.git.process import Git, GitConfig

_AT_ONCE = 8
"""Connections through one login at the same time; sshd allows ten (sshd_config(5), ``MaxSessions``)."""
_SECONDS = 5.0
_PATIENCE = 5.0
"""So long a connection waits for the login that was begun before there was one; then it makes its own."""
_DAY = 86400.0
_NONE: Mapping[str, str] = MappingProxyType({})
_PLAIN_SSH = re.compile(r"(?:[\w./+-]*/)?ssh(?:\s[^;|&#\n`]*)?")
_SHARES = re.compile(r"control|(?<!\S)-[1246AaCfGgKkNnqsTtVvXxYy]*[MS]", re.ASCII)
"""What in a command says that the user has masters of his own (ssh(1))."""
_PLACE = re.compile(r"(?:[A-Za-z0-9][\w.+-]*@)?[A-Za-z0-9][\w.-]*", re.ASCII)
_SSH_URL = re.compile(r"(?:ssh|git\+ssh|ssh\+git)://([^/]+?)(?::(\d+))?/")
_SHORT_URL = re.compile(r"([^/:]+):(?!//)")
_NETWORK = frozenset({"fetch", "ls-remote", "push"})


class Place(NamedTuple):
    """Where ssh goes: ``HOST`` or ``USER@HOST``, and the port as written, if one is."""

    name: str
    port: str = ""


def parse_place(url: str) -> Place | None:
    """The place of a URL that git hands to ssh (git-clone(1), "GIT URLS"); None for others, and for odd names."""
    if found := _SSH_URL.match(url):
        place = Place(found[1], found[2] or "")
    elif "://" not in url and (short := _SHORT_URL.match(url)):
        place = Place(short[1])
    else:
        return None
    return place if _PLACE.fullmatch(place.name) else None


def plain_command(config: GitConfig, env: Mapping[str, str]) -> str | None:
    """How ssh is started for git, in shell syntax; None where that is no OpenSSH, or shares logins already."""
    command = env.get("GIT_SSH_COMMAND") or config.last("core.sshcommand")
    if not command and "GIT_SSH" in env:
        return None
    command = (command or "ssh").strip()
    variant = env.get("GIT_SSH_VARIANT") or config.last("ssh.variant") or "auto"
    plain = _PLAIN_SSH.fullmatch(command) and not _SHARES.search(command.replace("Control", "control"))
    return command if plain and variant in ("auto", "ssh") else None


class _Login:
    """One host: the beginning of its socket's name, and the connections that use it.

    ``begun``: one was started that logs in. ``worked``: its socket was there. ``waits``: the user says how long, and
    ``options`` are what ssh gets besides. ``early``: what logs in before there is a connection, and ``asked`` since
    when one waits for it.
    """

    def __init__(self, socket: str, *, waits: bool) -> None:
        self.socket, self.waits = socket, waits
        self.options = early_login.socket_options(socket, waits=waits)
        self.users = 0
        self.begun = self.worked = False
        self.early: early_login.Started | None = None
        self.asked = 0.0

    def is_open(self) -> bool:
        """Is it logged in? While ssh binds its socket, that has a longer name, with a dot."""
        folder, _, name = self.socket.rpartition("/")
        with contextlib.suppress(OSError):
            self.worked |= (found := any(_sockets(folder, name)))
            return found
        return False

    def settle(self) -> bool:
        """Is there no early login, or has it ended? One that failed, or takes too long, has told nobody why: the
        first connection logs in then.
        """
        if self.early is None:
            return True
        if not self.early.has_ended():
            self.asked = self.asked or time.monotonic()
            if time.monotonic() < self.asked + _PATIENCE:
                return False
            self.drop()
        self.early, self.begun = None, self.is_open()
        return True

    def drop(self) -> None:
        """End an early login that is not in yet. One that is in goes to the background by itself."""
        if self.early is not None:
            if self.is_open():
                self.early.wait()
            self.early.kill()


class SharedLogins:
    """The logins of one run: who may begin a connection now, and with which environment."""

    def __init__(self, git: Git, config: GitConfig, command: str, folder: str) -> None:
        self._git, self._config, self._command = git, config, command
        self._folder, self._token = folder, early_login.begun[0].token if early_login.begun else os.urandom(4).hex()
        self._logins: dict[Place, _Login | None] = {}

    def begin(self, args: Sequence[str]) -> None:
        """Log in where git with these arguments will connect to; it asks nobody anything.

        ssh ends when it is in, and stays in the background as after a connection (ssh(1), ``-N``).
        """
        place = self._place(args)
        login = self._login(place)
        if place is None or login is None or login.begun:
            return
        login.begun = True
        env = self._git.around or child_environment()
        login.early = early_login.log_in(self._command, login.options, place, str(self._git.root), env)

    def enter(self, args: Sequence[str]) -> Mapping[str, str] | None:
        """What is added to a connection's environment; None while another one logs in, or too many are at work."""
        login = self._login(self._place(args))
        if login is not None and not login.settle():
            return None
        if login is None or (login.begun and not login.users and not login.worked):
            return _NONE  # nothing to share: its one attempt has failed
        open_now = login.is_open()
        if login.users and (not open_now or login.users >= _AT_ONCE):
            return None
        login.begun = True
        login.users += 1
        return {"GIT_SSH_COMMAND": f"{self._command} {login.options}", "GIT_SSH_VARIANT": "ssh"}

    def leave(self, args: Sequence[str]) -> None:
        """A connection that entered has ended."""
        if login := self._login(self._place(args)):
            login.is_open()
            login.users -= 1

    def end(self) -> None:
        """Log out everywhere."""
        self._note_origin()
        for login in self._logins.values():
            if login is not None:
                login.drop()
        program = self._command.split()[0]
        ending = [
            subprocess.Popen(
                [program, "-F", "/dev/null", "-O", "exit", "-o", f"ControlPath={self._folder}/{name}", "cn"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
            )
            for name in _sockets(self._folder, self._token)
        ]
        until = time.monotonic() + _SECONDS
        for one in ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(max(0.0, until - time.monotonic()))
            one.kill()
            one.wait()
        for name in _sockets(self._folder, self._token):  # of one that was killed
            with contextlib.suppress(OSError):
                os.unlink(f"{self._folder}/{name}")

    def _note_origin(self) -> None:
        """Note where a next run may log in at once, or that it may not."""
        place, root = self._place(("push", "--", "origin")), str(self._git.root)
        login = self._logins.get(place) if place else None
        if place and login and login.worked and not self._config.includes:
            early_login.write_note(root, self._command, place, waits=login.waits)
        elif place in self._logins:
            early_login.forget(root)

    def _place(self, args: Sequence[str]) -> Place | None:
        """Where a git with these arguments connects to by ssh."""
        if args[0] not in _NETWORK:
            return None
        return parse_place(self._config.url(args[args.index("--") + 1], push=args[0] == "push"))

    def _login(self, place: Place | None) -> _Login | None:
        if place is None:
            return None
        if place not in self._logins:
            self._logins[place] = self._find(place)
        return self._logins[place]

    def _find(self, place: Place) -> _Login | None:
        said = self._settings_of(place)
        if not _may_share(said):
            return None
        waits = said.get(b"connecttimeout", b"none").strip() != b"none"
        early = early_login.take_over(self._command, place, waits=waits)
        login = _Login(early.socket if early else f"{self._folder}/{self._token}{len(self._logins)}", waits=waits)
        login.early, login.begun = early.login if early else None, early is not None
        return login

    def _settings_of(self, place: Place) -> dict[bytes, bytes]:
        """What ssh would do for it, by its configuration (ssh(1), ``-G``); nothing where it does not tell."""
        port = ("-p", place.port) if place.port else ()
        try:
            done = subprocess.run(
                ["sh", "-c", f'{self._command} "$@"', "sh", "-G", *port, place.name],
                cwd=self._git.root,
                env=self._git.around or child_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return {}
        return dict(line.split(b" ", 1) for line in done.stdout.split(b"\n") if b" " in line)


def _may_share(said: Mapping[bytes, bytes]) -> bool:
    """Does the configuration of ssh say nothing of masters?"""
    alone = (b"no", b"false", b"none")
    masters = (b"controlmaster", b"controlpath", b"controlpersist")
    return bool(said) and all(said.get(key, b"no").strip() in alone for key in masters)


_open: list[SharedLogins] = []
"""What an idle check has left to the run that follows in the same process."""


@contextmanager
def shared_logins(git: Git) -> Iterator[Git]:
    """The same git, whose connections share logins while this lasts."""
    sharing = open_logins(git)
    try:
        yield sharing
    finally:
        end_logins()


def open_logins(git: Git) -> Git:
    """The same git, whose connections share logins until :func:`end_logins`."""
    if not _open and git.config is not None:
        command = plain_command(git.config, git.around or child_environment())
        if command and (folder := early_login.private_folder()):
            _sweep(folder)
            _open.append(SharedLogins(git, git.config, command, folder))
    return git._replace(logins=_open[0]) if _open else git


@contextmanager
def logged_in(git: Git, remote: str) -> Iterator[None]:
    """Where connections share a login, log in at the host of a remote while what is done then loads: it will push."""
    if (logins := open_logins(git).logins) is not None:
        logins.begin(("push", "--", remote))
    try:
        yield
    finally:
        end_logins()


def end_logins() -> None:
    """Log out everywhere."""
    while _open:
        _open.pop().end()
    early_login.give_up()


def _sockets(folder: str, beginning: str) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found if entry.name.startswith(beginning) and "." not in entry.name]


def _sweep(folder: str) -> None:
    """A master that was killed leaves its socket."""
    old = time.time() - _DAY
    with os.scandir(folder) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < old:
                    os.unlink(entry.path)
