"""The chain of what we sent says what happened, and what is waited for."""

from __future__ import annotations

import pytest

from cn.protocol.layout import BRANCH_GONE
from cn.protocol.ledger import OUT, Event
from cn.protocol.sent_life import last_answer, sent_chain, sent_lives
from cn.values.names import Oid
from cn.values.timestamps import parse_stamp

AT = parse_stamp("2026-02-05T14:00:07Z")
A, B = Oid("a" * 40), Oid("b" * 40)


def event(kind: str, head: Oid = A, /, **fields: str) -> Event:
    return Event(AT, OUT, kind, "fix", head, fields)


QUEUED = event("queued", kind="proposal", subject="Mend it")
THERE = event("delivered")
NOTICE = [event("queued", kind="notice"), THERE]
REFUSED = event("answered", status="refused", reason="rebase")
MERGED = event("answered", status="merged", merge=B)
CLAIMED = event("answered", status="merged", merge=B, unproven="nobody knows")

CHAINS = [
    ([QUEUED], ["queued: Mend it", "(delivered: it waits in the outbox)"]),
    ([QUEUED, THERE], ["queued: Mend it", "delivered", "(answered: whether it was fetched is not known yet)"]),
    (NOTICE, ["queued", "delivered"]),
    ([event("adopted")], ["adopted: pushed by hand", "(answered: whether it was fetched is not known yet)"]),
    ([QUEUED, THERE, REFUSED], [..., 'answered: refused: "rebase"', "(answered: a final one)"]),
    ([QUEUED, THERE, event("queued", B, subject="More")], [..., "moved: More", "(delivered: it waits in the outbox)"]),
    ([QUEUED, THERE, MERGED], [..., f"answered: merged as {B[:12]}"]),
    ([QUEUED, THERE, CLAIMED], [..., "(answered: a final one)"]),
    (
        [QUEUED, THERE, MERGED, event("deleting")],
        [..., "cleaned_up: its deletion is in the outbox", "(branch_deleted)"],
    ),
    ([QUEUED, THERE, MERGED, event("deleting"), event("deleted")], [..., "branch_deleted: by us"]),
    ([QUEUED, THERE, event("gone")], [..., f"gone: {BRANCH_GONE}"]),
]


@pytest.mark.parametrize(("life", "wanted"), CHAINS)
def test_the_chain_of_a_branch_of_ours(life: list[Event], wanted: list[object]) -> None:
    told = [": ".join(filter(None, [link.step, link.text])) for link in sent_chain(life, {})]
    shown = [text if link.at else f"({text})" for link, text in zip(sent_chain(life, {}), told, strict=True)]
    if wanted[0] is ...:
        wanted = wanted[1:]
        shown = shown[-len(wanted) :]
    assert shown == wanted
    assert all((link.at is None) != (link.since is None) for link in sent_chain(life, {}))


def test_a_name_that_is_used_again_has_another_life() -> None:
    first = [QUEUED, THERE, MERGED, event("deleting"), event("deleted")]
    again = [event("queued", B), event("delivered", B)]
    assert sent_lives([*first, *again]) == [first, again]
    assert sent_lives([*first, event("deleted")]) == [[*first, event("deleted")]]
    assert sent_lives([]) == []


COMMENTED = event("answered", answer=A)
SHOWN = event("answered", status="merged", unproven="", proven="later")


@pytest.mark.parametrize(
    ("life", "told"),
    [
        ([QUEUED], {}),
        ([QUEUED, THERE, CLAIMED], {"status": "merged", "merge": B, "unproven": "nobody knows"}),
        ([QUEUED, THERE, CLAIMED, SHOWN], {"status": "merged", "merge": B, "unproven": "", "proven": "later"}),
        ([QUEUED, THERE, REFUSED, COMMENTED], {"status": "refused", "reason": "rebase", "answer": A}),
        ([QUEUED, THERE, REFUSED, event("queued", B)], {}),
    ],
)
def test_the_last_answer_is_that_to_what_was_sent_last(life: list[Event], told: dict[str, str]) -> None:
    assert last_answer(life) == told
