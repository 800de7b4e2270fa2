"""The URL that git makes of a configured one (git-config(1), ``url.<base>.insteadOf``)."""

from __future__ import annotations

from cn.git.process import Git
from cn.values.names import is_local


def push_url(git: Git, target: str) -> str:
    """Where a push to ``target``, a URL or the name of a remote, really goes.

    ``origin`` looks like a local path, and what :func:`transport_options` gives for one
    would be sent to a server as the name of its receive-pack. And what looks like a server may be
    a local path: without these options its hooks would run as us.
    """
    if git.direct and (not is_local(target) or _is_place(git, target)):
        return target
    if is_local(target):
        done = git.run("remote", "get-url", "--push", "--", target, check=False)
        if done.ok:
            return done.lines[0]
    return _rewritten_for_push(git, target) or real_url(git, target)


def _rewritten_for_push(git: Git, url: str) -> str | None:
    """What ``pushInsteadOf`` makes of a URL, which ``ls-remote`` does not tell: the longest decides."""
    found = git.run("config", "-z", "--get-regexp", r"^url\..*\.pushinsteadof$", check=False).fields
    rules = [(start, key) for key, _, start in (one.partition("\n") for one in found) if start]
    fitting = [(len(start), key) for start, key in rules if url.startswith(start)]
    if not fitting:
        return None
    length, key = max(fitting, key=lambda one: one[0])
    return key.removeprefix("url.").rpartition(".")[0] + url[length:]


def real_url(git: Git, url: str) -> str:
    """What git's ``insteadOf`` makes of a URL as written."""
    return url if _is_place(git, url) else git.run("ls-remote", "--get-url", "--", url).text


def _is_place(git: Git, url: str) -> bool:
    """Is it a full path, which no setting rewrites? No remote has such a name (git's ``remote.c``)."""
    return git.direct and url.startswith("/")
