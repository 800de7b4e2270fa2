"""The daemon's health file, its notifications to systemd, its log lines, and its waiting."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from cn.agent.daemon_health import write_health
from cn.git.repository import Hub
from cn.llm.config import Daemon
from cn.system.clock import now
from cn.system.systemd import Level, Lines, notify, watchdog_seconds
from cn.telegram.api import Failure, Pauses
from cn.values.errors import CnError
from cn.values.timestamps import format_second

_SLACK = 90.0
"""Seconds a step may take longer than planned before the watchdog is not told any more that all is well."""


@dataclass(frozen=True)
class Times:
    """How long the daemon waits for what, in seconds.

    ``period``: the processor runs at least that often (None: ``cron_period_min`` of the hub).
    ``grace``: what a child gets to finish when the daemon ends, ``limit`` when it does not.
    ``kill``: from SIGTERM to SIGKILL. ``busy``: until a held lock is tried again.
    ``again``: until a processor that was killed is started again; twice as long each further time.
    ``unreached``: until a model that was not reached is asked again.
    ``standby``: a processor is kept ready that long after the last message.
    ``letter``: a message this old becomes a dead letter even if only the hub is the reason,
    because Telegram keeps it for 24 hours (https://core.telegram.org/bots/api#getting-updates).
    ``poll_interval`` between polls, ``poll_timeout`` that one waits at Telegram.
    """

    period: float | None = None
    grace: float = 45.0
    kill: float = 5.0
    limit: float = 1800.0
    busy: float = 5.0
    again: float = 2.0
    unreached: float = 20.0
    standby: float = 1800.0
    health: float = 10.0
    letter: float = 20 * 3600.0
    poll_interval: float = Daemon.poll_interval
    poll_timeout: float = Daemon.poll_timeout
    pauses: Pauses = Pauses()  # noqa: RUF009  it is frozen


class Monitor:
    """What the parts of the daemon share. ``stop`` is set once, and ends them all."""

    def __init__(self, hub: Hub, times: Times, lines: Lines, offset: int | None) -> None:
        self.hub, self.times = hub, times
        self.stop = asyncio.Event()
        self._lines = lines
        self._due = 0.0
        self._saved: dict[str, Any] = {}
        self.health: dict[str, Any] = {
            "pid": os.getpid(),
            "state": "running",
            "since": format_second(now()),
            "last_poll": None,
            "unreached": None,
            "last_error": None,
            "offset": offset,
            "child": None,
            "queued": 0,
            "dead": 0,
        }

    def say(self, text: str, level: Level = Level.INFO) -> None:
        """A line for the journal."""
        self._lines.say(text, level)

    def report_error(self, text: str, level: Level = Level.WARNING, *, say: bool = True) -> None:
        """Something is wrong: it stands in the health file, and in the journal unless it did a moment ago."""
        if say:
            self.say(text, level)
        self.health["last_error"] = {"at": format_second(now()), "text": text}

    def expect_within(self, seconds: float = 0.0) -> None:
        """The next sign of life comes within that time; else the watchdog may end us."""
        self._due = clock() + seconds + _SLACK

    async def send_heartbeats(self) -> NoReturn:
        """Tell systemd that the daemon moves on, and keep the health file."""
        watchdog = watchdog_seconds()
        pause = min(self.times.health, watchdog / 3) if watchdog else self.times.health
        written = clock()
        while True:
            await asyncio.sleep(pause)
            if clock() < self._due:
                notify(WATCHDOG=1)
            if clock() - written >= self.times.health:
                written = clock()
                self.save()

    def save(self) -> None:
        """Write the health file if anything changed."""
        health = self.health
        if health == self._saved:
            return
        try:
            write_health(self.hub, health)
        except CnError as refused:
            self.say(refused.text, Level.WARNING)
            return
        self._saved = dict(health)
        last = health["last_error"]
        trouble = f", last error: {last['text']}" if last else ""
        notify(STATUS=f"{health['state']}, offset {health['offset']}, queued {health['queued']}{trouble}")

    def pause(self, tries: int, failure: Failure | None = None) -> float:
        """How long to wait after that many failures."""
        return self.times.pauses.after(tries, random.random(), failure)  # noqa: S311  it hides nothing

    async def sleep(self, seconds: float) -> None:
        """Wait on purpose. When the daemon stops meanwhile, the task that waits ends here."""
        if seconds <= 0:
            return
        self.expect_within(seconds)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)
            raise asyncio.CancelledError


def clock() -> float:
    """Seconds that never run backwards."""
    return asyncio.get_running_loop().time()
