"""The URL that git makes of a configured one (git-config(1), ``url.<base>.insteadOf``)."""

from __future__ import annotations

from cn.git.process import Git
from cn.values.names import is_local


def push_url(git: Git, target: str) -> str:
    """Where a push to ``target``, a URL or the name of a remote, really goes.

    ``origin`` looks like a local path, and what :func:`transport_options` gives for one
    would be sent to a server as the name of its receive-pack.
    """
    if not is_local(target) or _is_place(git, target):
        return target
    done = git.run("remote", "get-url", "--push", "--", target, check=False)
    return done.lines[0] if done.ok else real_url(git, target)


def real_url(git: Git, url: str) -> str:
    """What git's ``insteadOf`` makes of a URL as written."""
    return url if _is_place(git, url) else git.run("ls-remote", "--get-url", "--", url).text


def _is_place(git: Git, url: str) -> bool:
    """Is it a full path, which no setting rewrites? No remote has such a name (git's ``remote.c``)."""
    return git.direct and url.startswith("/")
