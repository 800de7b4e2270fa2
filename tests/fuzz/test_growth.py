"""What a parser costs grows as its input does: twice the bytes, about twice the processor's time.

A peer chooses its bytes, and a run holds the lock while it reads them. Each parser gets runs of what
makes careless patterns look again and again; processor time of one size is compared with that of four
times the size, so that a slow or busy machine makes no difference.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.fuzz.parsers import PARSERS, REFUSALS, Parser

WHOLE = "TEST_FUZZ" in os.environ
SIZES = {"masked": 2_000, "hub-yaml": 2_000}
SIZE = 8_000
"""Bytes of the smaller input; fewer for a parser that is slow but linear."""
FREE = 0.05
"""Seconds of processor time that are fast enough; a quadratic pattern needs more for 32,000 bytes."""
MOST = 9.0
"""Times the cost for four times the bytes: linear is 4, quadratic 16."""

RUNS = [
    b"\r", b"\n", b"\r\n", b" ", b"\t", b" \n", b"\n ", b">", b"> ", b"> \n", b"#", b"## ", b"-", b"---\n",
    b"`", b"```\n", b"~~~", b"<!--", b"-->", b"<!-- -->", b"|", b"\\", b"\\|", b":", b": ", b"a: ", b"a:\n",
    b"a: b\n", b"'", b'"', b"[", b"]", b"{", b"}", b"- ", b"&a ", b"*a ", b"!a ", b"=", b"%", b"%0", b"@",
    b"://", b"a://b:", b"a@", b"/", b"a/", b"..", b".", b"a", b"a ", b"1", b"0", b"1 ", b"a.b", b"a-",
    b"-----BEGIN ", b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN PRIVATE KEY-----\n", b"key=",
    b"password: ", b"token ", b"sk-ant-", "\u2028".encode(), "\u202e".encode(), "é".encode(), b"\xff",
    b"\0", b"**a:** ", b"**", b"+++ b/x\n", b"@@ -1 +1 @@\n", b"decision: ", b"## Triage\n", b"${", b"$",
    b"eyJ", b"AKIA",
]  # fmt: skip


def _frames(parser: Parser, run: bytes) -> list[Callable[[int], bytes]]:
    """Where a run stands: alone, with an end that does not fit, behind a seed, and inside of it."""
    seed = parser.seeds[0]
    half = seed[: len(seed) // 2]
    return [
        lambda size: run * (size // len(run)),
        lambda size: run * (size // len(run)) + b"\x01x",
        lambda size: seed + run * (size // len(run)),
        lambda size: half + run * (size // len(run)) + seed[len(half) :],
    ]


def _cost(parser: Parser, data: bytes) -> float:
    """Seconds of processor time for reading ``data`` once."""
    begun = time.process_time()
    with suppress(*REFUSALS):
        parser.parse(data)
    return time.process_time() - begun


@pytest.mark.sliced(20)
@pytest.mark.parametrize("name", PARSERS)
def test_the_cost_of_a_parser_grows_as_its_input_does(name: str) -> None:
    parser = PARSERS[name]
    size = SIZES.get(name, SIZE)
    slow = []
    for run in RUNS:
        for number, frame in enumerate(_frames(parser, run)):
            if not WHOLE and number in (1, 2):  # ``make fuzz`` has them too; they seldom differ
                continue
            if _cost(parser, frame(4 * size)) < FREE:
                continue
            # Slow, or the machine had a bad moment: the least of three tells, taken in turn.
            rounds = [(_cost(parser, frame(size)), _cost(parser, frame(4 * size))) for _ in range(3)]
            small, large = (min(costs) for costs in zip(*rounds, strict=True))
            if large >= FREE and large > MOST * small:
                slow.append(f"{run!r} ({number}): {small:.3f} s, then {large:.3f} s for four times as much")
    assert not slow, "\n".join(slow)
