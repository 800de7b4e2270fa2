"""Records of libraries: each is said, and what comes without end is counted."""

from __future__ import annotations

import asyncio
import logging

from cn.server.library_logs import Told
from cn.system.systemd import Level


def test_a_line_that_makes_records_without_end_is_said_a_few_times_a_minute_and_counted() -> None:
    said: list[str] = []
    secret = "-".join(("a", "key"))
    now = [0.0]

    def say(text: str, level: Level) -> None:
        said.append(text)

    log = logging.Logger("noisy")
    log.addHandler(Told(say, lambda: now[0]))
    for _ in range(1000):
        log.warning("Invalid request: %s", secret)
    assert len(said) == 5
    log.error("another line")
    assert len(said) == 6, "of every line of code by itself"
    now[0] = 61.0
    log.warning("again")
    assert "995 more at server/test_library_logs.py:" in said[6]
    assert len(said) == 8
    assert not any(secret in one for one in said)


def test_that_a_request_was_given_up_when_the_server_ends_is_no_fault() -> None:
    said: list[str] = []
    log = logging.Logger("serves")
    log.addHandler(Told(lambda text, level: said.append(text)))
    for why in (asyncio.CancelledError(), ValueError()):
        log.error("Exception in ASGI application", exc_info=why)
    assert len(said) == 1
    assert said[0].endswith("ValueError")
