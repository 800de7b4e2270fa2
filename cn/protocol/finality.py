"""Which decisions end a thread (``docs/protocol/decisions.md``): those are final, its creator deletes the branch."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from cn.protocol.hub_config import HubConfig
from cn.protocol.thread_file import Custom, Decision, Defer, Delegate, Delete, Merge, Reply

STAYS = ("defer:<reason>", "delegate:<reviewer>")
ENDS = ("do:merge", "do:reply:<branch>", "do:custom:<description>", "delegate:<peer>", "delete:<reason>")


def is_final(decision: Decision, config: HubConfig) -> bool:
    """Does it end the thread? Else it stays, and can be decided again."""
    match decision:
        case Defer():
            return False
        case Delegate(actor):
            return not config.is_actor(actor)
        case Delete() | Merge() | Reply() | Custom():
            return True
        case _:
            assert_never(decision)


class Offered(NamedTuple):
    """The decisions that a thread can take as it is, by what becomes of it."""

    stays: tuple[str, ...] = STAYS
    ends: tuple[str, ...] = ENDS
    words: bool = True
    """Can something be said to its creator?"""

    def has(self, verb: str) -> bool:
        """Is a decision of this verb (``do:merge``, ``delete``) among them?"""
        return any(form.partition(":<")[0] == verb for form in (*self.stays, *self.ends))


def offered(kind: str, *, withdrawn: bool = False, no_peer: bool = False, unsigned: bool = False) -> Offered:
    """What every door offers for a thread of this ``kind``; all else is refused.

    Of a message, and of a proposal that is ``withdrawn``, nothing can be merged. To a creator who is ``no_peer`` now
    nothing can be said. Where the key that is pinned for its creator did not sign it (``unsigned``), nothing is done.
    """
    if no_peer:
        return Offered(STAYS[:1], ENDS[-1:], words=False)
    if unsigned:
        return Offered(ends=ENDS[-1:])
    return Offered(ends=ENDS if kind == "proposal" and not withdrawn else ENDS[1:])
