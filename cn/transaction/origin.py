"""Talk with ``origin``: where its main is, fetch it, push to it.

By URL, not by name: a fetch or push by name would also write the user's
``refs/remotes/origin/*``. No network child writes a ref; refs are written by local
children, which hold the hub's lock.
"""

from __future__ import annotations

from cn.git.process import OTHER_FORMAT, Done
from cn.git.repository import Hub
from cn.values.errors import Blocked
from cn.values.names import Oid, parse_oid

ORIGIN_REF = "refs/cn/origin/main"
SECONDS = 60.0
_FSCK = "fsck error"
_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-prune",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--no-show-forced-updates",
    "--refmap=",
)


def origin_main(hub: Hub) -> Oid | None:
    """Origin's main now; None when it has none. Raises :class:`Blocked` when it does not answer."""
    done = hub.git.run(
        "ls-remote", "--quiet", "--", origin_url(hub), hub.main_ref, check=False, network=True, seconds=SECONDS
    )
    if not done.ok:
        raise unreachable(done.reason)
    for line in done.lines:
        oid, _, ref = line.partition("\t")
        if ref == hub.main_ref:
            if hub.git.is_foreign([tip := parse_oid(oid)]):
                raise unreachable(OTHER_FORMAT)
            return tip
    return None


def fetch_main(hub: Hub) -> None:
    """Bring the objects of origin's main here."""
    from cn.git.scratch import AS_PACK, move_into_hub, quarantine, quarantine_environment

    url = origin_url(hub)
    with quarantine(hub.git) as folder:
        git = hub.git.with_settings(AS_PACK).with_env(**quarantine_environment(hub.git, folder))
        done = git.run(*_FETCH, "--", url, hub.main_ref, check=False, network=True, seconds=SECONDS)
        why = move_into_hub(hub.git, folder, done)
    if why and why != done.reason:  # git's own answer is not what stands against it
        raise Blocked.uncommitted(f"origin cannot be fetched from: {why}", "see 'git remote -v'")
    if why:
        raise _refused(done) if _FSCK in done.err else unreachable(why)


def _refused(done: Done) -> Blocked:
    """Origin's main holds an object that git's checks refuse (git-config(1), ``fetch.fsckObjects``)."""
    return Blocked.uncommitted(
        f"git's object check refuses origin's main: {done.reason}",
        "nothing of it was taken in; main has to go back at origin to a commit before it, "
        "such as the one that 'git rev-parse main' names here",
    )


def unreachable(why: str) -> Blocked:
    """Origin did not answer, or as nobody can read it."""
    return Blocked.uncommitted(f"origin is unreachable: {why}", "check the network and 'git remote -v', then run again")


def origin_url(hub: Hub, *, push: bool = False) -> str:
    """The configured URL as written: git applies ``insteadOf`` itself."""
    for key in ("pushurl", "url") if push else ("url",):
        if urls := hub.config.all(f"remote.origin.{key}"):
            return urls[0]
    raise Blocked("the remote origin has no URL", "see 'git remote -v'")
