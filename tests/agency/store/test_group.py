"""What many ask at once is written together, and each gets its own answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from cn.agency.store.group import Group


def test_those_who_come_during_a_write_share_the_next_one() -> None:
    writes: list[list[int]] = []
    first, go = threading.Event(), threading.Event()

    def perform(questions: Sequence[int]) -> list[int | Exception]:
        writes.append(list(questions))
        first.set()
        assert go.wait(10)
        return [ValueError(f"{q} is odd") if q % 2 else q * 10 for q in questions]

    group = Group(perform)
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        try:
            answers[number] = group.ask(number)
        except ValueError as error:
            answers[number] = str(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    threads[0].start()
    assert first.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(group._waiting) < 11:
        threading.Event().wait(0.001)
    go.set()
    for thread in threads:
        thread.join()
    assert [len(one) for one in writes] == [1, 11]
    assert answers == {n: f"{n} is odd" if n % 2 else n * 10 for n in range(12)}


def test_no_more_than_so_many_are_written_at_once_and_none_is_left() -> None:
    sizes = []

    def perform(questions: Sequence[int]) -> list[int | Exception]:
        sizes.append(len(questions))
        return list(questions)

    group = Group(perform, most=2)
    group._waiting.extend((n, Future()) for n in range(3))
    assert group.ask(9) == 9
    assert sizes == [2, 2]


def test_a_write_that_fails_fails_for_all_of_it_and_the_next_goes_on() -> None:
    def perform(questions: Sequence[str]) -> list[str | Exception]:
        if "bad" in questions:
            raise OSError("disk")
        return list(questions)

    group = Group(perform)
    with pytest.raises(OSError, match="disk"):
        group.ask("bad")
    assert group.ask("good") == "good"
