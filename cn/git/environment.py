"""How every git is started: settings and environment; and the refs of repositories on this machine.

No terminal prompt, no hooks, no fsmonitor, no remote helpers beyond the allowed transports, no
submodule recursion, object checks on fetch, a stable locale, an explicit repository. The user's
credential helpers and SSH settings stay in force: single settings are overridden, whole files are
not (git-config(1), git(1) "Environment Variables").

Where a peer's repository lies on this machine and is ours, ``for-each-ref`` in it tells what a server would: one
process instead of three (git, sh, upload-pack), 2 instead of 5.5 ms. It is started without :mod:`subprocess`, and
this module imports next to nothing: an idle sync of one peer, which is all this is for, takes 30 instead of 65 ms.
"""

from __future__ import annotations

import os
import select
import stat
import time

TRANSPORTS = ("file", "git", "http", "https", "ssh")
_COLOURED = ("ui", "advice", "branch", "diff", "grep", "push", "remote", "showBranch", "status", "transport")
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",
    "core.quotePath": "false",
    "core.warnAmbiguousRefs": "false",  # else each full id is also looked for under ten names of refs
    "core.pager": "cat",
    **{f"color.{what}": "false" for what in _COLOURED},
    "column.ui": "never",
    "i18n.logOutputEncoding": "UTF-8",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    **{f"protocol.{name}.allow": "always" for name in TRANSPORTS},
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.negotiate": "false",
    "push.pushOption": "",  # none: a host that takes no options would take nothing
    "fetch.fsckObjects": "true",
    "transfer.fsckObjects": "true",
    "transfer.bundleURI": "false",
    "http.followRedirects": "false",
    "fetch.writeCommitGraph": "false",
    "fetch.prune": "false",
    "fetch.pruneTags": "false",
    "safe.bareRepository": "explicit",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "init.templateDir": "",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "30",
}
_CHOICES = (
    *("GIT_SSH", "GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_PROXY_AUTHMETHOD", "GIT_HTTP_USER_AGENT", "GIT_PROXY_COMMAND"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_DEFAULT_HASH"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"),
)
"""Beginnings of what git reads for the user: how to reach servers, and which configuration. Nothing else that begins
with ``GIT_`` reaches a git of ours: a hook, ``git rebase --exec`` or ``git worktree`` leaves there what is meant for
another repository, and ``GIT_FLUSH=0`` would have a conversation wait for ever."""
_DROPPED = frozenset({"SSH_ASKPASS", "ANTHROPIC_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN"})
"""Nothing that git starts needs them."""
_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set but empty: neither core.askPass nor SSH_ASKPASS is asked instead
    "GIT_ALLOW_PROTOCOL": ":".join(TRANSPORTS),
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


def quote_path(path: str | os.PathLike[str]) -> bytes:
    """A path in double quotes, as git reads it in its configuration and in lists of paths.

    Without them a colon or a line feed ends it there (git(1), ``GIT_ALTERNATE_OBJECT_DIRECTORIES``).
    """
    return b'"' + os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


_ASK_ONLY = '!f() { test "$1" = get && unset GIT_CONFIG_PARAMETERS && git credential fill; }; f'
"""The one credential helper of ours: it asks those that the user configured, by the user's own settings.

After a 401 git has each helper erase the password, whichever repository of the host said so, and after a success store
it (gitcredentials(7), git-credential(1)). What the user keeps is not ours to change.
"""
_HELPERS = ("-c", "credential.helper=", "-c", f"credential.helper={_ASK_ONLY}")
COMMAND = ("git", *(word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")), *_HELPERS)
"""How the words of every git child begin; a setting that is given behind these counts instead."""


def child_environment() -> dict[str, str]:
    """What a git child has of our environment, and what every one is given.

    ``ssh`` is left as the user configured it (``core.sshCommand``, ``GIT_SSH_COMMAND``): a child has no
    terminal, so there is nobody it could ask.
    """
    return {**users_environment(), **_FIXED}


def users_environment() -> dict[str, str]:
    """The environment without what is not for a git of ours."""
    foreign = [name for name in os.environ if name.startswith("GIT_") and not name.startswith(_CHOICES)]
    return {name: value for name, value in os.environ.items() if name not in _DROPPED and name not in foreign}


def config_files(root: str) -> list[str]:
    """The files in which git's configuration for a repository stands, without those that they take in (git-config(1),
    "FILES"); "" is none.
    """
    home = os.environ.get("HOME", "")
    wide = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = [os.environ.get(key, "") for key in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")]
    mine = [f"{root}/.git/config", f"{root}/.git/config.worktree"]
    return [*mine, f"{home}/.gitconfig", f"{wide}/git/config", "/etc/gitconfig", *named]


def stamp(path: str) -> tuple[int, ...]:
    """By what git tells in its index that a file is another one (gitformat-index(5)); () where there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return ()
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino


def around(folder: str) -> str:
    """The nearest folder upwards that may be a hub; ``/`` if there is none."""
    while not any(os.path.exists(f"{folder}/{name}") for name in (".cn/hub.yaml", ".git")) and folder != "/":
        folder = os.path.dirname(folder)
    return os.path.realpath(folder)


SECONDS = 10.0
"""How long a glance may take: a slower repository is the ordinary run's, which names it."""
_CONFIG_BYTES = 1 << 20
_SIGKILL = 9  # the module signal takes 2 ms


def find_local_git_dir(url: str) -> str | None:
    """The git directory that an absolute path names, if listing its refs tells what its server would.

    Not in a repository of another user, which git refuses to serve (git(1), ``safe.directory``),
    and not where the configuration may hide refs, or is not all in one file.
    """
    if not url.startswith("/"):
        return None
    for path in (f"{url}/.git", url):  # the order of git-upload-pack(1)
        try:
            config = _read_config(f"{path}/config")
            mine = {os.stat(url).st_uid, os.stat(path).st_uid} == {os.geteuid()}
        except OSError:
            continue
        whole = config is not None and not any(word in config for word in (b"hiderefs", b"[include", b"worktreeconfig"))
        return path if mine and whole and os.path.isdir(f"{path}/objects") else None
    return None


def _read_config(path: str) -> bytes | None:
    """In lower case; None for what is no plain file of a usual size. A pipe would keep us waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        plain = stat.S_ISREG(info.st_mode) and info.st_size <= _CONFIG_BYTES
        return os.read(fd, _CONFIG_BYTES).lower() if plain else None
    finally:
        os.close(fd)


def list_many(asked: list[tuple[str, list[str]]], width: int) -> list[bytes] | None:
    """``for-each-ref`` with these words in each git directory, at most ``width`` at once.

    What each printed, in order; None when one failed, or took too long.
    """
    said = [b""] * len(asked)
    waiting = list(range(len(asked)))[::-1]
    running: dict[int, tuple[int, int]] = {}
    failed, env = False, child_environment()
    poll, end_at = select.poll(), time.monotonic() + SECONDS
    while waiting or running:
        while waiting and len(running) < width:
            index = waiting.pop()
            git_dir, words = asked[index]
            pipe, end = os.pipe()
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, end, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ]
            start = [*COMMAND, f"--git-dir={git_dir}", "for-each-ref", *words]
            running[pipe] = index, os.posix_spawnp("git", start, env, file_actions=actions)
            os.close(end)
            poll.register(pipe, select.POLLIN)
        left = end_at - time.monotonic()
        ready = poll.poll(left * 1000) if left > 0 else []
        if not ready:
            for _, child in running.values():
                os.kill(child, _SIGKILL)
                os.waitpid(child, 0)
            return None
        for pipe, _ in ready:
            index, child = running[pipe]
            data = os.read(pipe, 1 << 20)
            said[index] += data
            if not data:
                poll.unregister(pipe)
                os.close(pipe)
                del running[pipe]
                failed |= os.waitpid(child, 0)[1] != 0
    return None if failed else said
