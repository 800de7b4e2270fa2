"""Seen before? The history of a topic, folded through the receiver machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.inbox.plan.arrivals import classify, is_news_that_it_vanished, read_sighting
from cn.protocol.ledger import IN, Event, Item, fold_history
from cn.protocol.states import Step
from cn.values.names import Oid
from cn.values.timestamps import parse_stamp

A, B, C = (Oid(digit * 40) for digit in "abc")
AT = parse_stamp("2026-02-05T14:00Z")
R, DEC, G, REP, REF, N = "received", "decided", "gone", "repeated", "refused", "noticed"
History = Sequence[tuple[str, Oid]]


def read(history: History) -> tuple[Item | None, list[Event]]:
    events = [Event(AT, IN, kind, "x", head, {"thread": "t.md"}) for kind, head in history]
    return fold_history(events).get((IN, "x")), events


@pytest.mark.parametrize(
    ("history", "state", "last", "news"),
    [
        ([], "unseen", None, True),
        ([(REF, A)], "refused", A, True),
        ([(REF, A), (R, A)], "present", A, True),
        ([(R, A), (REF, B)], "present", A, True),
        ([(R, A), ("refreshed", B)], "present", B, True),
        ([(R, A), (G, A)], "withdrawn", A, False),
        ([(R, A), (G, A), (REP, A)], "present", A, True),
        ([(R, A), (G, A), ("refreshed", B)], "present", B, True),
        ([(R, A), ("deferred", A), (DEC, A)], "settled", A, True),
        ([(R, A), (DEC, A), (G, A)], "gone", A, False),
        ([(R, A), (G, A), (DEC, A)], "gone", A, False),
        ([(R, A), (DEC, A), (G, A), (REF, B)], "settled", B, True),
        ([(R, A), (DEC, A), (G, A), (REP, A)], "settled", A, True),
        ([(N, A)], "settled", A, True),
        ([(N, A), (G, A)], "gone", A, False),
        ([(N, A), (G, A), (N, B)], "settled", B, True),
        ([(G, A)], "unseen", A, True),
    ],
    ids=str,
)
def test_a_branch_as_the_ledger_left_it(history: History, state: str, last: Oid | None, news: bool) -> None:
    item, past = read(history)
    sighting = read_sighting(item, past)
    assert (sighting.state, sighting.last) == (state, last)
    assert is_news_that_it_vanished(item, past) is news


@pytest.mark.parametrize(("head", "step"), [(A, Step.REPEATED), (B, Step.REOPENED)])
def test_what_was_withdrawn_and_then_decided_is_logged_when_it_comes_again(head: Oid, step: Step) -> None:
    """Same head again, logged once; not only where the branch went last."""
    item, past = read([(R, A), (G, A), (DEC, A)])
    assert classify(head, item, past) is step
    item, past = read([(R, A), (G, A), (DEC, A), (REP, A)])
    assert classify(A, item, past) is Step.KNOWN


def test_an_open_item_that_was_lost_does_not_make_a_second_thread_of_its_head() -> None:
    _, past = read([(R, A)])
    assert classify(A, None, past) is Step.KNOWN
    assert classify(B, None, past) is Step.REOPENED


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from([R, "refreshed", "deferred", "enqueued", "claimed", DEC, G, REP, REF, N]),
        st.sampled_from([A, B]),
    ),
    max_size=10,
)


@given(HISTORIES, st.sampled_from([A, B, C]), st.booleans())
def test_whatever_the_history_a_head_means_something(history: History, head: Oid, lost: bool) -> None:
    item, past = read(history)
    step = classify(head, None if lost else item, past)
    if item is not None and not lost:
        assert (step is Step.MOVED) == (head != item.head)
    if head is C:
        assert step in (Step.NEW, Step.MOVED, Step.REOPENED)
