"""Wake the agent: with the command in this clone's git config (``cn.wake``), or in a built-in way."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cn.agent.wake_command import (
    AGENT_SECONDS,
    WOKEN,
    drop_pending,
    drop_taken,
    has_pending,
    run_program,
    run_wake,
    take_pending,
)
from cn.git.repository import Hub
from cn.run.memory import Memory
from cn.system.child import hold
from cn.system.clock import now
from cn.values.errors import CnError
from cn.values.report import Report
from cn.values.text import one_line, redact

AGENT, TELEGRAM = "cn:agent", "cn:telegram"
"""Ways that are built in: run the runtime; write to a chat (``cn:telegram:CHAT``)."""


def wake(hub: Hub, report: Report) -> None:
    """Tell the agent which threads are new, after the lock is free.

    The names stay in ``.git/cn`` until a wake command has succeeded, so that neither a crash
    nor a failing command leaves the agent asleep. A run that the wake command itself starts
    wakes nobody; what it brings is told by the next run.
    """
    if os.environ.get(WOKEN):
        return
    command = hub.git.run("config", "--get", "cn.wake", check=False).text if has_pending(hub) else ""
    if not command:
        drop_pending(hub)
        return
    lock = hold(hub.state / "wake.lock")
    if lock is None:
        return  # another run is at it
    try:
        names = take_pending(hub)
        failure = _run(hub, command, names) if names else ""
        memory = Memory(hub, now())
        if failure:
            text = f"the wake command failed: {redact(one_line(failure))}"
            remedy = "see 'git config cn.wake'; it is tried again at each run"
            report.failed(text, remedy, told_before=not memory.tell_once("wake", text))
            memory.conditions.set("wake", text, remedy)
        else:
            drop_taken(hub)
            memory.conditions.clear("wake")
            if names:
                report.done(f"woke the agent: you have inbox ({', '.join(names)})")
        memory.save()
    finally:
        os.close(lock)


def is_builtin(command: str) -> bool:
    """Does it name a way that is built in?"""
    return command in (AGENT, TELEGRAM) or command.startswith(f"{TELEGRAM}:")


def _run(hub: Hub, command: str, names: Sequence[str]) -> str:
    if not command.startswith("cn:"):
        return run_wake(hub, command, names)
    if not is_builtin(command):
        return f"there is no way {command!r}; built in are {AGENT} and {TELEGRAM}[:CHAT]"
    if command == AGENT:
        # -P: what lies in the hub's tree is data, not modules that Python could pick up.
        words = [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "agent", "--quiet"]
        return run_program(hub, words, names, AGENT_SECONDS)
    try:
        return _write(hub, command.removeprefix(TELEGRAM).removeprefix(":"), names)
    except CnError as error:
        return f"{error.text}; {error.hint}" if error.hint else error.text


def _write(hub: Hub, chat: str, names: Sequence[str]) -> str:
    """Tell a person in a chat: the one named, else the first of the allowed users."""
    from cn.llm.config_file import read_agent_config
    from cn.protocol.chat_reply import chat_id
    from cn.run.view import open_view
    from cn.telegram.api import Sent, describe, is_unsent
    from cn.telegram.client import Telegram

    number = chat_id(f"telegram:{chat}") if chat else 0
    bot = read_agent_config(open_view(hub).snapshot).require_telegram()
    if not chat and not bot.allowed_users:
        return f"nobody is named: write {TELEGRAM}:CHAT, or allowed_users in .cn/agent.yaml"
    number = number or bot.allowed_users[0]
    text = "\n".join(["you have inbox", *names])
    with Telegram(bot.token, bot.base_url) as telegram:
        answer = telegram.send_message(number, text[:4000])
    # What may have arrived is not sent again: one message too few is better than one at every run.
    return "" if isinstance(answer, Sent) or not is_unsent(answer) else describe(answer)
