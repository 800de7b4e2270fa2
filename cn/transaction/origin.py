"""Talk with ``origin``: where its main is, fetch it, push to it.

By URL, not by name: a fetch or push by name would also write the user's
``refs/remotes/origin/*``. No network child writes a ref; refs are written by local
children, which hold the hub's lock.
"""

from __future__ import annotations

from cn.git.process import CHECK_REFUSES
from cn.git.remote import Listing, fetch_many, list_remotes
from cn.git.repository import Hub
from cn.values.errors import Blocked
from cn.values.names import Oid

ORIGIN_REF = "refs/cn/origin/main"
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
