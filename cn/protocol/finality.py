"""Which decisions end a thread (``docs/protocol/decisions.md``): those are final, its creator deletes the branch."""

from __future__ import annotations

from typing import assert_never

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


def final_forms(kind: str) -> tuple[str, ...]:
    """The final decisions that make sense for a thread of this ``kind``: of a message nothing can be merged."""
    return ENDS if kind == "proposal" else ENDS[1:]
