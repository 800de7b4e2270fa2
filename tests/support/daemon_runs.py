"""A daemon that tests start, end and start again (``daemon_process.py``)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cn.agent.daemon_health import read_health
from cn.git.repository import open_hub
from cn.runtime.daemon_files import read_dead
from tests.support.hubs import cn_env
from tests.support.telegram_server import TOKEN, USER

SECRET = TOKEN.partition(":")[2]
SECONDS = 20.0


class Daemon:
    """A daemon that a test starts, ends and starts again."""

    def __init__(self, folder: Path, template: Path, url: str) -> None:
        self.root = folder / "hub"
        subprocess.run(["cp", "-a", str(template), str(self.root)], check=True)
        self.queue_file = folder / "queue"
        self.log = folder / "log"
        self.config: dict[str, Any] = {"base_url": url, "users": [USER]}
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **config: Any) -> Daemon:
        """Start it with further configuration."""
        self.config |= config
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.daemon_process", str(self.root), json.dumps(self.config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=cn_env(self.env),
                cwd=self.root.parent,
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process
        return self.process.wait(SECONDS)

    @property
    def runs(self) -> bool:
        assert self.process
        return self.process.poll() is None

    def queued(self) -> list[str]:
        """The texts in the queue, in order."""
        text = self.queue_file.read_text() if self.queue_file.exists() else ""
        return [line.split(" ", 1)[1] for line in text.splitlines()]

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def offset(self) -> int | None:
        path = self.root / "state/telegram.offset"
        return int(path.read_text().split()[0]) if path.exists() else None

    @property
    def health(self) -> dict[str, Any]:
        return read_health(open_hub(self.root)) or {}

    @property
    def dead(self) -> list[str]:
        return [letter[1].text for letter in read_dead(open_hub(self.root))]

    def sees(self, condition: Callable[[], object]) -> None:
        """Wait until it holds."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"it never came so\n{self.said}"
            time.sleep(0.01)

    def check_and_end(self) -> None:
        """End it; no secret and no traceback was printed."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert SECRET not in self.said
        assert "Traceback" not in self.said


def processor(folder: Path, script: str) -> list[str]:
    """A processor in shell; its runs are lines of ``runs``."""
    return ["sh", "-c", f"echo run >> {folder / 'runs'}; {script}"]


def runs(folder: Path) -> int:
    path = folder / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0
