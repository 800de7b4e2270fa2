"""Talk with ``origin``: where its main is, fetch it, push to it.

By URL, not by name: a fetch or push by name would also write the user's
``refs/remotes/origin/*``. No network child writes a ref; refs are written by local
children, which hold the hub's lock.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cn.git.process import CHECK_REFUSES, Done
from cn.git.remote import Listing, fetch_many, list_remotes
from cn.git.repository import Hub
from cn.git.running import find_locks, git_processes
from cn.values.errors import Blocked
from cn.values.names import Oid, is_local
from cn.values.shell_words import command

SECONDS = 60.0
_LOOK = "check the network and 'git remote -v', then run again"


def list_origin(hub: Hub) -> Listing:
    """Origin's branches now. Raises :class:`Blocked` when it does not answer."""
    answer = list_remotes(hub.git, {"": origin_url(hub)}, SECONDS)[""]
    if isinstance(answer, str):
        raise Blocked.uncommitted(f"origin is unreachable: {answer}", _LOOK)
    return answer


def origin_main(hub: Hub) -> Oid | None:
    """Origin's main now; None when it has none."""
    return list_origin(hub).get(hub.main)


def fetch_main(hub: Hub) -> None:
    """Bring the objects of origin's main here."""
    why = fetch_many(hub.git, {"": (origin_url(hub), [hub.main])}, SECONDS).get("")
    if why:
        back = (
            "main has to go back at origin to a commit before it, such as the one that 'git rev-parse main' names here"
        )
        raise Blocked.uncommitted(
            f"origin's main cannot be fetched: {why}", back if why.startswith(CHECK_REFUSES) else _LOOK
        )


def origin_url(hub: Hub, *, push: bool = False) -> str:
    """The configured URL as written: git applies ``insteadOf`` itself."""
    for key in ("pushurl", "url") if push else ("url",):
        if urls := hub.config.all(f"remote.origin.{key}"):
            return urls[0]
    raise Blocked("the remote origin has no URL", "see 'git remote -v'")


class HeldLock(NamedTuple):
    """A lock file in an origin on this machine: its age in seconds, and the gits that may be at work there."""

    path: Path
    age: float
    users: list[str]

    @property
    def remedy(self) -> str:
        """What helps, as far as this machine can tell."""
        if self.users:
            return f"{', '.join(self.users[:3])} may be at work there: let it end"
        return f"no git of this machine is there: one that was killed left it; {command('rm -- {}', str(self.path))}"


def locks_at_origin(hub: Hub) -> list[HeldLock]:
    """Locks of git where main is pushed to, if that is a folder of this machine.

    They may be another machine's too, on a shared disk: none is ever removed.
    """
    url = origin_url(hub, push=True)
    if not is_local(url):
        return []
    folder = hub.root / url.removeprefix("file://")
    folder = folder / ".git" if (folder / ".git").is_dir() else folder
    found = []
    for path in find_locks(folder):
        with suppress(OSError):
            found.append((path, max(0.0, time.time() - path.lstat().st_mtime)))
    users = git_processes(replace(hub, root=folder, git_dir=folder, work_git_dir=folder)) if found else []
    return [HeldLock(path, age, users) for path, age in found]


class Replaced(NamedTuple):
    """A ref at origin that hides an object there (git-replace(1)), and what takes it away."""

    name: str
    remedy: str


def replaced_at_origin(hub: Hub) -> Replaced | None:
    """Such a ref: a push upon its object fails. On this machine cn has the receiving git overlook it."""
    url = origin_url(hub)
    asked = None if is_local(url) else _list_replaced(hub, url)
    refs = [line.partition("\t")[2] for line in asked.lines] if asked else []
    if not refs:
        return None
    more = f" (and {len(refs) - 1} more)" if len(refs) > 1 else ""
    mend = command("git update-ref -d {}", refs[0])  # a push that deletes it fails as well
    return Replaced(f"{refs[0]}{more}", f"{mend}, typed in that repository on its host, mends it")


def _list_replaced(hub: Hub, url: str) -> Done:
    words = ("ls-remote", "--refs", "--", url, "refs/replace/*")
    return hub.git.run(*words, check=False, network=True, seconds=SECONDS)
