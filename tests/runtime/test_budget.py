"""Budgets stop a call before it is made, say so once, and cost the item nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.desk import current
from tests.support.studio import OTHER, Studio, answer, id_of, write

WAITS = "(your message waits: budgets.per_peer.turns_per_hour is 0: no call is made)"
HOUR = timedelta(hours=1)


def told(lines: list[str], what: str) -> int:
    return sum(what in line for line in lines)


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("budget", "word", "passes"),
    [
        ("  turns_per_hour: 1\n", "budgets.turns_per_hour", HOUR),
        ("  tokens_per_day: 10\n", "budgets.tokens_per_day", timedelta(days=1)),
        ("  per_peer:\n    turns_per_hour: 1\n", "budgets.per_peer.turns_per_hour", HOUR),
    ],
)
def test_an_item_waits_until_its_budget_is_there_again(
    studio: Studio, budget: str, word: str, passes: timedelta
) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.configure(f"budgets:\n{budget}")
    studio.receive("first")
    studio.receive("second")
    lines = studio.turn(until_idle=True)
    assert len(studio.requests) == 1
    assert studio.said()[0] == "fine"
    lines += studio.turn(until_idle=True)
    lines += studio.turn(until_idle=True)
    assert told(lines, word) == 1, lines
    assert [item["attempts"] for item in studio.waiting] == [0]
    assert len(studio.requests) == 1
    assert current(studio.node) == ""
    (waits,) = studio.said()[1:]
    assert waits.startswith("(your message waits: ")
    assert word in waits
    studio.age_calls(passes)
    studio.turn(until_idle=True)
    assert studio.said()[2:] == ["fine"]
    studio.sound()


def test_one_peers_budget_does_not_stop_another(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.configure("budgets:\n  per_peer:\n    telegram:777:\n      turns_per_hour: 0\n")
    studio.receive("never", OTHER)
    studio.receive("always")
    lines = studio.turn(until_idle=True)
    assert (studio.said(), studio.said(OTHER)) == (["fine"], [WAITS])
    assert told(lines, "turns_per_hour is 0") == 1
    assert [item["from"] for item in studio.waiting] == [f"telegram:{OTHER}"]


def test_a_rejected_answer_is_not_asked_for_again_beyond_the_budget(studio: Studio) -> None:
    """A loop that fails is a loop: the second attempt needs a call that is not there."""
    studio.model.answer = lambda body: (
        answer("reply: ID|mended", id=id_of(body)) if "rejected: " in str(body["messages"]) else f"ack: {id_of(body)}"
    )
    studio.configure("budgets:\n  turns_per_hour: 1\n")
    studio.receive("a question")
    lines = studio.turn(until_idle=True) + studio.turn(until_idle=True)
    assert len(studio.requests) == 1, lines
    assert [item["attempts"] for item in studio.waiting] == [1]
    assert told(lines, "turns_per_hour") == 1
    studio.age_calls(HOUR)
    studio.turn()
    assert [text for text in studio.said() if "waits" not in text] == ["mended"]
    assert "attempt: 2\n" in studio.items[1]
    studio.sound()
