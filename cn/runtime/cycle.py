"""``cn agent`` and ``cn agent --process``: turns of the runtime with the real clients."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from cn.agent.interface import is_answered
from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.config_file import read_agent_config
from cn.llm.request import request_json
from cn.loop.process import process
from cn.run.view import open_view, require_queue
from cn.runtime.chat_delivery import Speak
from cn.runtime.daemon_files import is_stopping
from cn.runtime.gather_prompt import asker, pack_item
from cn.runtime.turn import TurnTools, give_back, in_flight, run_turn
from cn.system.child import GO, hold
from cn.system.extras import require_runtime
from cn.telegram import client as telegram
from cn.telegram.api import Failure
from cn.values.errors import LockHeld
from cn.values.report import Report
from cn.views.queue import find_item

_MOST_TURNS = 20
"""Turns of one cron run at most: the next run goes on."""
_ENOUGH = 30.0
"""Seconds after which no further turn is begun under the daemon, so that it can be ended without haste."""


def cycle(hub: Hub, path: Path | None, *, until_idle: bool, report: Report) -> bool:
    """One turn, or turns until nothing waits; tells whether more waits.

    Under the daemon it is always the latter, for a while: a start costs more than a turn.

    Raises :class:`ConfigError` where a key is missing that is needed, or the model is not there, and
    :class:`LockHeld` where another process is at it; what was done until then stands in ``report``.
    """
    lock = hold(hub.state / "agent.lock")
    if lock is None:
        raise LockHeld("another process asks the model for this hub", "it goes on by itself")
    try:
        return _cycle(hub, path, until_idle, report)
    finally:
        os.close(lock)


def _cycle(hub: Hub, path: Path | None, until_idle: bool, report: Report) -> bool:
    begun = time.monotonic()
    under_daemon = "CN_DAEMON" in os.environ
    view = open_view(hub)
    require_queue(view)
    config = read_agent_config(view.snapshot, os.environ, path)
    # Before anything is claimed.
    ask = asker(config)
    require_runtime("anthropic")
    if config.telegram.enabled:
        config.require_telegram()
        require_runtime("telegram")
    for warning in config.warnings:
        report.info(warning)
    with ExitStack() as stack:
        tools = TurnTools(hub, config, ask, _speaker(config, stack))
        more = run_turn(tools, view, report)
        turns = 1
        while (until_idle or under_daemon) and more and turns < _MOST_TURNS:
            if under_daemon and time.monotonic() - begun > _ENOUGH:
                break
            view = open_view(hub)
            if under_daemon and is_stopping(hub):
                turn = in_flight(view)
                if turn is not None and not is_answered(hub):
                    give_back(hub, turn, report)  # no model was asked about it
                return False
            more = run_turn(tools, view, report)
            turns += 1
    return under_daemon and more


def _speaker(config: AgentConfig, stack: ExitStack) -> Speak | None:
    """The bot, opened when there is something to say."""
    if not config.telegram.enabled:
        return None
    bot: list[telegram.Telegram] = []

    def speak(chat: int, text: str) -> Failure | None:
        if not bot:
            wanted = config.require_telegram()
            bot.append(stack.enter_context(telegram.Telegram(wanted.token, wanted.base_url)))
        return bot[0].send_message(chat, text)

    return speak


def show_request(hub: Hub, path: Path | None) -> tuple[str, Report]:
    """What a turn would do: the plan of an output that waits, else the request that would be sent."""
    if in_flight(open_view(hub)) is not None and is_answered(hub):
        return "", process(hub, dry_run=True)
    view = open_view(hub)
    config = read_agent_config(view.snapshot, os.environ, path)
    report = Report()
    for warning in config.warnings:
        report.info(warning)
    if find_item(view, None) is None:
        report.info("nothing waits for the agent")
        return "", report
    return request_json(pack_item(view, config).request), report


def stand_by() -> bool:
    """Load all that a turn needs, then wait: True for the word to begin, False when the daemon is gone.

    Importing takes longer than a turn does. The daemon keeps one such child; it holds no lock and has read
    nothing of the hub, so ending it at any time is harmless.
    """
    import yaml  # noqa: F401

    client.load_all()
    telegram.load()
    gc.freeze()  # what is loaded stays: no collection needs to look at it
    word = sys.stdin.buffer.readline()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return word == GO
