"""Who gets large answers waits for its next call, and nobody else does."""

from __future__ import annotations

import asyncio

from cn.server.pace import LARGE, Pace


class Clock:
    """Seconds, which go by when somebody looks: a step each."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_who_gets_large_answers_goes_on_at_a_pace_and_nobody_else_waits() -> None:
    clock = Clock()
    pace, done = Pace(rate=1 << 20, clock=clock), list[str]()

    async def ask(caller: str, size: int) -> None:
        async with pace.of(caller) as answered:
            answered(size)
        done.append(caller)

    async def work() -> None:
        for size in (3 << 20, LARGE):
            await ask("small", LARGE)
            await ask("small", LARGE)
            await asyncio.wait_for(ask("large" if size > LARGE else "other", size), 5)
        waits = [asyncio.ensure_future(ask("large", 1 << 20)) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert done.count("large") == 1, "three seconds for three megabytes"
        await ask("small", LARGE)
        clock.now = 3.0
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        assert done.count("large") == 2, "and one for the next"
        clock.now = 10.0
        await asyncio.wait_for(asyncio.gather(*waits), 10)
        await ask("small", LARGE)
        clock.now = 20.0
        await ask("small", LARGE)
        assert list(pace._callers) == ["small"], "nothing is kept of who asks no more"

    asyncio.run(work())


def test_so_many_calls_of_one_are_under_way() -> None:
    pace, under_way = Pace(at_once=2), list[int]()

    async def work() -> None:
        goes_on = asyncio.Event()

        async def ask(caller: str) -> None:
            async with pace.of(caller):
                under_way.append(1)
                await goes_on.wait()

        asked = [asyncio.ensure_future(ask("one")) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert len(under_way) == 2
        asked.append(asyncio.ensure_future(ask("other")))
        await asyncio.sleep(0.05)
        assert len(under_way) == 3
        goes_on.set()
        await asyncio.gather(*asked)
        assert len(under_way) == 6

    asyncio.run(work())
