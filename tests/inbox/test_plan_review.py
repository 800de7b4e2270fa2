"""A review as a value: a queue, the steps taken, and the way back."""

from __future__ import annotations

from cn.inbox.plan.review import Review, Written
from cn.values.names import ThreadName

A, B = ThreadName("20260205-pi-a.md"), ThreadName("20260205-pi-b.md")
WRITTEN = Written(A, "pi/a", "do:merge", True, b"before", b"after")


def test_each_step_leads_to_the_next_thread_and_the_last_to_the_end() -> None:
    review = Review((A, B))
    assert review.current == A
    assert review.passed().current == B
    assert review.decided(WRITTEN).passed().current is None


def test_what_was_passed_over_was_not_written() -> None:
    assert Review((A, B)).passed().written == ()
    assert Review((A, B)).decided(WRITTEN).passed().written == (WRITTEN,)


def test_undo_goes_one_step_back_whatever_the_step_was() -> None:
    review = Review((A, B)).decided(WRITTEN).passed()
    assert (review.last, review.undone().current) == (None, B)
    back = review.undone()
    assert (back.last, back.undone()) == (WRITTEN, Review((A, B)))


def test_an_empty_queue_is_at_its_end() -> None:
    assert Review(()).current is None
    assert Review(()).last is None
