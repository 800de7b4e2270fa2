"""A clock that cannot be right: nothing is dated by it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from cn.system import clock
from cn.values.errors import Blocked
from tests.support.hubs import ROOT, tip
from tests.support.world import World

CLOCK = ROOT / "tests/support/clock"


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ("1901-12-13T20:45:52", "1901-12-13T20:45:52Z"),
        ("1970-01-01T23:59:59", "1970-01-01T23:59:59Z"),
        ("3000-01-01T00:00:00", "3000-01-01T00:00:00Z"),
        ("9000-06-01T00:00:00", "9000-06-01T00:00:00Z"),
    ],
)
def test_a_clock_that_cannot_be_right_is_refused(monkeypatch: pytest.MonkeyPatch, shown: str, told: str) -> None:
    monkeypatch.setattr(clock, "read_seconds", lambda: seconds_of(shown))
    with pytest.raises(Blocked, match=told) as refused:
        clock.now()
    assert "set the clock" in refused.value.hint


@pytest.mark.parametrize("seconds", [1e12, 1e18])
def test_a_clock_beyond_all_calendars_is_refused_too(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(clock, "read_seconds", lambda: seconds)
    with pytest.raises(Blocked, match="after the year 9999"):
        clock.now()


def test_a_clock_beyond_what_python_tells_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 2262-04-11 time.time() raises."""

    def beyond() -> float:
        raise OverflowError

    monkeypatch.setattr("time.time", beyond)
    assert clock.now() == datetime.fromtimestamp(clock.read_seconds(), UTC)
    assert clock.now().year < 2262


@pytest.mark.parametrize("shown", ["1970-01-02T00:00:00", "2026-11-24T17:00:00", "2999-12-31T23:59:59"])
def test_any_other_time_is_taken(monkeypatch: pytest.MonkeyPatch, shown: str) -> None:
    monkeypatch.setattr(clock, "read_seconds", lambda: seconds_of(shown) + 0.9)
    assert clock.now() == datetime.fromisoformat(shown).replace(tzinfo=UTC)


@pytest.mark.parametrize(("year", "seconds"), [("19", -2_500_000_000), ("89", 220_000_000_000)])
def test_no_command_works_by_such_a_clock(world: World, year: str, seconds: int) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    before = tip(sigma.root)
    env = {"TEST_CLOCK": str(seconds), "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
    for words in (["sync"], ["commit"], ["send", "pi", "hello"], ["status"], ["doctor"], ["agency", "init"]):
        done = sigma.cn(*words, check=None, env=env)
        assert done.returncode == 1, (words, done)
        assert f"the clock of this machine shows {year}" in done.stderr + done.stdout, (words, done)
        assert "set the clock" in done.stderr + done.stdout, (words, done)
        assert "internal error" not in done.stderr
    assert tip(sigma.root) == tip(sigma.home) == before
    sigma.sync()
    assert sigma.only_thread()
