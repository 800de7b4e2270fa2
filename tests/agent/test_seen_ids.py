"""The list of updates that were queued of late: what is none holds none."""

from __future__ import annotations

import pytest

from cn.agent.plan.chat import format_seen, parse_seen


@pytest.mark.parametrize("data", [None, b"", b"{", b"5", b"[NaN]", b'["x"]', b"\xff"])
def test_what_is_no_list_of_ids_holds_none(data: bytes | None) -> None:
    assert parse_seen(data) == []
    assert parse_seen(format_seen([1, 2]).encode()) == [1, 2]


@pytest.mark.parametrize("data", [b"[1e999]", b"[" * 100_000], ids=["overflow", "deep"])
def test_an_overflow_among_the_seen_is_none(data: bytes) -> None:
    assert parse_seen(data) == []
