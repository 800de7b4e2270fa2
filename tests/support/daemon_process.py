"""A daemon as a process of its own, with a queue that is a file (for ``test_daemon``).

``python -m tests.support.daemon_process HUB CONFIG``: CONFIG is JSON with ``base_url``, ``users`` and,
as a test wants it, ``command``, ``standby``, ``times``, ``behave``. The queue is ``HUB/../queue``, a line
per message, written as ``cn.agent.chat`` must do it: durable, one per ``update_id``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cn.git.repository import Hub, open_hub
from cn.llm.config import Bot
from cn.runtime.daemon.daemon import run_daemon
from cn.runtime.daemon.monitor import Times
from cn.telegram.api import Command, Incoming, Pauses
from cn.values.errors import CnError, Refused
from tests.support.telegram_server import TOKEN


def main() -> int:
    root, config = Path(sys.argv[1]), json.loads(sys.argv[2])
    queue = root.parent / "queue"
    behave: dict[str, Any] = config.get("behave", {})
    visits: dict[str, int] = {}

    def die(where: str) -> None:
        """``kill -9`` at this instant, when the process comes by for the second time."""
        visits[where] = visits.get(where, 0) + 1
        if behave.get("die") == where and visits[where] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def enqueue(hub: Hub, incoming: Incoming) -> str:
        die("before")
        for _ in range(behave.get("children", 0)):  # as git does the work
            subprocess.run(["true"], check=True)
        if behave.get("signalled"):  # systemd ends the service
            os.kill(os.getpid(), signal.SIGTERM)
        word = next((w for w in ("bad", "later", "bug") if incoming.text.startswith(w)), "")
        mended = (root.parent / "mended").exists()
        if word == "bad" and not mended:
            raise ValueError("it cannot be queued")
        if word == "later" and not mended:
            raise Refused("the hub cannot take it now")
        if word == "bug" and not mended:
            raise KeyError(TOKEN)
        with queue.open("a+") as file:
            file.seek(0)
            if any(line.split()[0] == str(incoming.update_id) for line in file):
                return ""
            file.write(f"{incoming.update_id} {incoming.text}\n")
            file.flush()
            os.fsync(file.fileno())
        die("after")
        return f"id-{incoming.update_id}"

    def view(command: Command) -> str:
        if behave.get("broken_view"):
            raise CnError("no main")
        return f"view of {command.value}"

    if behave.get("die"):
        import cn.runtime.daemon.receiver
        import cn.runtime.daemon_files

        store = cn.runtime.daemon_files.write_offset

        def write_offset(hub: Hub, offset: int, bot: str) -> None:
            die("before_offset")
            store(hub, offset, bot)
            die("after_offset")

        cn.runtime.daemon.receiver.write_offset = write_offset  # type: ignore[attr-defined]

    bot = Bot(config.get("token", TOKEN), tuple(config["users"]), config["base_url"])
    given = {"period": 3600.0, "health": 0.05, "pauses": (0.02, 0.1), **config.get("times", {})}
    polls = {"poll_interval": config.get("poll_interval", 0.0), "poll_timeout": config.get("poll_timeout", 20.0)}
    times = Times(**{**given, **polls, "pauses": Pauses(*given["pauses"])})
    try:
        command, standby = config.get("command", ["true"]), config.get("standby", [])
        code = run_daemon(open_hub(root), bot, enqueue, view, times, command, standby)
    except CnError as error:
        print(f"{type(error).__name__}: {error.text}", file=sys.stderr)
        code = error.exit_code
    if where := config.get("modules"):
        Path(where).write_text("\n".join(sys.modules))
    return code


if __name__ == "__main__":
    sys.exit(main())
