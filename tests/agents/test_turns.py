"""Whose turn it is: tables, and that nobody is forgotten."""

from __future__ import annotations

import random
from collections.abc import Sequence

from cn.agency.names import Party, Uuid
from cn.agents.turns import Claim, in_turn


def claim(way: str, since: int, had: int = 0) -> Claim:
    """A handler by its way from the root: ``abc`` is the one below ``ab``."""
    return Claim(tuple(Uuid(Party(way[:end])) for end in range(1, len(way) + 1)), since, had)


def order(waiting: Sequence[Claim], working: Sequence[Claim] = ()) -> list[str]:
    return [one.handler for one in in_turn(waiting, working)]


def test_who_waits_longest_comes_first_and_then_whose_last_turn_is_longest_ago() -> None:
    assert order([claim("rb", 7), claim("rc", 3), claim("ra", 9)]) == ["rc", "rb", "ra"]
    assert order([claim("rb", 7, had=5), claim("rc", 8, had=4), claim("ra", 9)]) == ["ra", "rc", "rb"]


def test_a_boss_comes_before_those_below_it_but_not_twice_in_a_row() -> None:
    assert order([claim("rab", 1), claim("ra", 5), claim("r", 9)]) == ["r", "ra", "rab"]
    assert order([claim("ra", 1, had=4), claim("r", 5, had=3)]) == ["r", "ra"]
    assert order([claim("ra", 1, had=3), claim("r", 5, had=4)]) == ["ra", "r"]


def test_a_branch_with_many_handlers_gets_no_more_than_one_with_few() -> None:
    many = [claim(f"rh{number}", number) for number in range(9)]
    assert order([*many, claim("rx", 50), claim("ry", 60)])[:3] == ["rh0", "rx", "ry"]
    assert order([*many, claim("rx", 50, had=40)], [claim("rh", 0, had=9)])[0] == "rx", "none works for it"


def test_nobody_is_forgotten_whoever_else_always_has_something_to_do() -> None:
    rng = random.Random(7)
    ways = ["r"]
    for number in range(12):
        ways.append(rng.choice(ways) + chr(ord("a") + number))
    for places in (1, 2, 3):
        had = dict.fromkeys(ways, 0)
        working: list[str] = []
        turns = dict.fromkeys(ways, 0)
        for seq in range(1, 600):
            if len(working) == places:
                working.pop(0)
            waiting = [claim(way, had[way] or 1, had[way]) for way in ways if way not in working]
            chosen = in_turn(waiting, [claim(way, 0, had[way]) for way in working])[0].handler
            working.append(chosen)
            had[chosen] = seq
            turns[chosen] += 1
        assert min(turns.values()) >= 2, (places, turns)
