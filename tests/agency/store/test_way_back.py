"""Which write is the last one below which all can be read: pure, from commits as they are found."""

from __future__ import annotations

import pytest

from cn.agency.store.repository import Commit
from cn.agency.store.way_back import choose_last, first_that
from cn.values.names import Oid


def write(name: str, parent: str = "", time: int = 0) -> Commit:
    return Commit(Oid(name), Oid("tree"), Oid(parent) if parent else None, time, "")


LINE = [write("a"), write("b", "a", 1), write("c", "b", 2), write("d", "c", 3)]
SIDE = write("x", "a", 9)
"""What a writer left that was killed before main moved."""


@pytest.mark.parametrize(
    ("commits", "main", "known", "unknown", "expected"),
    [
        (LINE, "d", None, "", "d"),
        (LINE, "b", "d", "", "b"),
        (LINE, None, None, "", "d"),
        (LINE, "lost", "b", "", "d"),
        ([*LINE[:2], SIDE], None, "b", "", "b"),
        ([*LINE[:2], SIDE], "lost", "lost", "x", "b"),
        ([*LINE[:2], SIDE], "lost", "lost", "bx", "a"),
        ([], "lost", None, "", None),
    ],
)
def test_the_last_write_is_mains_or_follows_the_index_or_is_known_to_it(
    commits: list[Commit], main: str | None, known: str | None, unknown: str, expected: str | None
) -> None:
    chosen = choose_last(
        {one.oid: one for one in commits},
        Oid(main) if main else None,
        Oid(known) if known else None,
        lambda one: one.oid not in unknown,
    )
    assert (chosen.oid if chosen else None) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 1000])
def test_the_first_of_which_something_holds_is_found_with_few_questions(count: int) -> None:
    for first in range(0, count + 1, max(1, count // 50)):
        asked: list[int] = []

        def holds(number: int, first: int = first, asked: list[int] = asked) -> bool:
            asked.append(number)
            return number >= first

        assert first_that(holds, count) == (first if first < count else None)
        assert len(asked) <= 2 * count.bit_length() + 2
