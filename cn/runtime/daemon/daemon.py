"""``cn agent --daemon``: receive messages, queue them, run the processor, repeat.

The daemon decides nothing. It asks Telegram what is new, puts each allowed message into the
queue, lets a child process do the work, and stores the offset when a message is safe. It
imports neither the model's client nor the processor, so that it stays small for months.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from cn.agent.chat import enqueue
from cn.agent.daemon_health import STOPPING
from cn.agent.model_faults import is_unasked
from cn.git.repository import Hub
from cn.llm.config import Bot, read_agent_config
from cn.llm.usage import over_budget
from cn.protocol.queue_item import Input
from cn.run.run import Run
from cn.run.settings import read_head_settings
from cn.run.view import open_view, require_accepted, require_queue
from cn.runtime.daemon.monitor import Monitor, Times
from cn.runtime.daemon.receiver import Enqueue, Receiver, View
from cn.runtime.daemon.runner import Runner
from cn.runtime.daemon_files import read_offset
from cn.system import polling
from cn.system.extras import require_runtime
from cn.system.files import hold
from cn.system.systemd import Level, Lines, notify
from cn.telegram.api import Command, Incoming
from cn.values.errors import ConfigError, LockHeld
from cn.values.text import one_line
from cn.views.status import read_status

_FINISH = 10.0
"""Seconds that a message being dealt with gets when the daemon stops."""


def run_daemon(
    hub: Hub,
    bot: Bot,
    enqueue: Enqueue,
    view: View,
    times: Times,
    command: Sequence[str],
    standby: Sequence[str],
    least: Level = Level.INFO,
    first: Sequence[str] = (),
) -> int:
    """Receive until SIGTERM or SIGINT; 0 then.

    ``command`` is the processor; see :class:`Runner` for what its exit codes mean. ``standby`` is one that
    waits for its word, empty: none. ``first`` is added to the command at the start. ``least``: what matters less
    is not said. Raises :class:`ConfigError` (exit code 3) when Telegram refuses the token, :class:`LockHeld` when
    this hub has its daemon already.
    """
    name, _, secret = bot.token.partition(":")
    lines = Lines([bot.token, secret], least)
    hub, settings = read_head_settings(hub)
    if times.period is None:
        times = replace(times, period=settings.config.cron_period_min * 60.0)
    lock = hold(hub.state / "daemon.lock", hub.private_mode)
    if lock is None:
        raise LockHeld(f"a daemon runs on {hub.root} already", "stop it first: .git/cn/daemon.json names it")
    before = signal.getsignal(signal.SIGTERM)
    try:
        monitor = Monitor(hub, times, lines, read_offset(hub, name))
        runner = partial(Runner, monitor, command, standby, first)
        return polling.run(_run(monitor, bot, enqueue, view, runner))
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(lock)


async def _run(monitor: Monitor, bot: Bot, enqueue: Enqueue, view: View, make_runner: Callable[[], Runner]) -> int:
    runner = make_runner()
    receiver = Receiver(monitor, bot, _without_signals(enqueue, runner), view, runner.run_soon)
    try:
        with _signals(monitor, runner):
            monitor.expect_within(monitor.times.poll_timeout)
            monitor.save()
            users = len(bot.allowed_users)
            monitor.say(f"daemon of {monitor.hub.root}: asks {bot.base_url}, {users} allowed users")
            if not users:
                monitor.say("telegram.allowed_users is empty: every message is dropped", Level.WARNING)
            notify(READY=1, STATUS="asks Telegram")
            receiver.deliver_dead()
            tasks = await _work(monitor, receiver, runner)
    finally:
        monitor.health |= {"state": "stopped", "child": None}
        monitor.save()
    for task in tasks:
        if task.done() and not task.cancelled() and (why := task.exception()):
            monitor.say(f"ends: {why}", Level.ERROR)
            raise why
    monitor.say("ended")
    return 0


async def _work(monitor: Monitor, receiver: Receiver, runner: Runner) -> Sequence[asyncio.Task[None]]:
    """Receive and process until one of the two ends, or the daemon is stopped; the tasks as they ended."""
    poll, work = asyncio.create_task(receiver.poll()), asyncio.create_task(runner.run())
    beat = asyncio.create_task(monitor.send_heartbeats())
    stopped = asyncio.create_task(monitor.stop.wait())
    try:
        await asyncio.wait({poll, work, beat, stopped}, return_when=asyncio.FIRST_COMPLETED)
        monitor.health["state"] = STOPPING
        monitor.save()  # the processor looks there before it begins another turn
        notify(STOPPING=1, STATUS="finishes")
        monitor.stop.set()
        runner.look_again()
        if receiver.receiving:
            await asyncio.wait({poll}, timeout=_FINISH)
        poll.cancel()
        await asyncio.wait({poll, work})
    finally:
        for task in (poll, work, beat, stopped):
            task.cancel()
        await receiver.close()
    return poll, work, beat


@contextmanager
def _signals(monitor: Monitor, runner: Runner) -> Iterator[None]:
    """SIGTERM and SIGINT stop the daemon, SIGCHLD says that a child ended."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if not monitor.stop.is_set():
            monitor.say(f"{number.name}: finishes")
        monitor.stop.set()
        runner.look_again()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGCHLD, runner.look_again)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            loop.remove_signal_handler(number)


def _without_signals(enqueue: Enqueue, runner: Runner) -> Enqueue:
    """``enqueue`` with SIGCHLD unhandled meanwhile.

    Each git of it that ends sends one. While it blocks the loop nobody reads these, only some hundred fit,
    and then SIGTERM is lost.
    """

    def enqueue_alone(hub: Hub, incoming: Incoming) -> str:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGCHLD)
        try:
            return enqueue(hub, incoming)
        finally:
            loop.add_signal_handler(signal.SIGCHLD, runner.look_again)
            runner.look_again()

    return enqueue_alone


def serve(hub: Hub, path: Path | None) -> int:
    """Run the daemon until it is ended; the exit code. Raises :class:`ConfigError` without a token."""
    view = open_view(hub)
    require_queue(view)
    accepted = require_accepted(view)
    config = read_agent_config(view.snapshot.read, path)
    bot = config.require_telegram(accepted)
    require_runtime()  # the processor's too
    # -P: what lies in the hub's tree is data, not modules that Python could pick up.
    command = [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "agent", "--process"]
    if path is not None:
        command += ["--config", str(path.absolute())]

    def may_give(run: Run, asked: Input) -> str | None:
        """As the processor decides it, with the configuration of now."""
        if is_unasked(run.memory):
            return None  # the chat was told, and the processor looks again
        try:
            config = read_agent_config(run.snapshot.read, path)
        except ConfigError as broken:
            return broken.text
        return over_budget(run.hub.root, config.budgets, asked.sender, run.now)

    return run_daemon(
        hub,
        bot,
        lambda hub, incoming: enqueue(hub, incoming, may_give),
        lambda wanted: show(hub, wanted),
        Times(poll_interval=config.daemon.poll_interval, poll_timeout=config.daemon.poll_timeout),
        command,
        [*command, "--standby"],
        {"warning": Level.WARNING, "error": Level.ERROR}.get(config.log_level, Level.INFO),
        ["--look"],  # what is wrong with the model is said now, not with the first message
    )


def show(hub: Hub, wanted: Command) -> str:
    """The answer to ``/status`` and ``/inbox``, without a model."""
    status = read_status(open_view(hub))
    threads = status.inbox.threads
    if wanted is Command.INBOX:
        lines = [f"{thread.source}: {thread.state}" for thread in threads[:30]]
        more = [f"and {len(threads) - 30} more"] if len(threads) > 30 else []
        return "\n".join([*lines, *more]) or "nothing pending"
    lines = [f"{status.hub}: {len(threads)} pending, {len(status.outbox)} in the outbox"]
    if status.stopped:
        lines.append(f"no run can work: {one_line(status.stopped.text, 300)}")
    if status.queue is not None:
        queue = status.queue
        lines.append(f"agent: {queue.actor.value}, {len(queue.waiting)} waiting, {len(queue.dead)} given up")
    lines += [f"unreachable: {gone.name}" for gone in status.unreachable]
    return "\n".join(lines)
