"""``cn agent --daemon``: start the daemon with this hub's configuration and views."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cn.agent.chat_message import enqueue
from cn.agent.plan.turns import Allowed, Because, Permission
from cn.git.repository import Hub
from cn.llm.config_file import read_agent_config
from cn.llm.usage_log import over_budget
from cn.protocol.queue_item import Input
from cn.run.run import Run
from cn.run.view import open_view, require_queue
from cn.runtime.daemon.daemon import DaemonSettings, run_daemon
from cn.system.extras import require_runtime
from cn.telegram.api import Command
from cn.values.errors import ConfigError
from cn.values.text import one_line
from cn.views.status import read_status


def serve(hub: Hub, path: Path | None) -> int:
    """Run the daemon until it is ended; the exit code. Raises :class:`ConfigError` without a token."""
    view = open_view(hub)
    require_queue(view)
    config = read_agent_config(view.snapshot, os.environ, path)
    bot = config.require_telegram()
    require_runtime()  # the processor's too
    settings = DaemonSettings(
        bot.token, bot.allowed_users, bot.base_url, config.daemon.poll_interval, config.daemon.poll_timeout
    )
    command = [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "agent", "--process"]
    if path is not None:
        command += ["--config", str(path.absolute())]

    def may_give(run: Run, asked: Input) -> Permission:
        """As the processor decides it, with the configuration of now."""
        try:
            config = read_agent_config(run.snapshot(), os.environ, path)
        except ConfigError as broken:
            return Because(broken.text)
        reason = over_budget(run.hub.root, config.budgets, asked.sender, run.now)
        return Because(reason) if reason else Allowed()

    return run_daemon(
        hub,
        settings,
        lambda hub, incoming: enqueue(hub, incoming, may_give),
        lambda wanted: show(hub, wanted),
        command=command,
        standby=[*command, "--standby"],
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
        lines.append(f"no run can work: {one_line(status.stopped.reason, 300)}")
    if status.queue is not None:
        queue = status.queue
        lines.append(f"agent: {queue.actor.value}, {len(queue.waiting)} waiting, {len(queue.dead)} given up")
    lines += [f"unreachable: {gone.name}" for gone in status.unreachable]
    return "\n".join(lines)
