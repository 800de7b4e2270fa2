"""How every git is started: settings and environment.

No terminal prompt, no hooks, no fsmonitor, no remote helpers beyond the allowed transports, no
submodule recursion, object checks on fetch, a stable locale, an explicit repository. The user's
credential helpers and SSH settings stay in force: single settings are overridden, whole files are
not (git-config(1), git(1) "Environment Variables").

A module of its own, which imports next to nothing, for :mod:`cn.git.local_refs`.
"""

from __future__ import annotations

import os

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
    "fetch.fsckObjects": "true",
    "transfer.fsckObjects": "true",
    "transfer.bundleURI": "false",
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
    *("GIT_SSH", "GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_PROXY_AUTHMETHOD", "GIT_HTTP_USER_AGENT"),
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


COMMAND = ("git", *(word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")))
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
