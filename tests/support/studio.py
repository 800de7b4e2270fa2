"""A hub with its runtime: a model, a Telegram, and what a test does with them.

The servers are on loopback, the client packages are the real ones. :meth:`Studio.agent` is a process
of its own; :meth:`Studio.turn` is the same use case in this process, where the packages, which take
seconds to import, are there already.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cn.agent.chat import enqueue
from cn.git.repository import open_hub
from cn.llm.usage import Call, parse_call, read_calls
from cn.runtime.turn import cycle
from cn.telegram.api import Incoming
from cn.values.report import Report
from tests.support.desk import archived, queue, work_queue
from tests.support.hubs import ROOT, cn_env, git
from tests.support.model_server import KEY, MODEL, ModelServer
from tests.support.telegram_server import TOKEN, USER, TelegramServer
from tests.support.world import Node

CHAT = f"telegram:{USER}"
OTHER = 777
SECONDS = 120.0
_CONFIG = """\
llm:
  model: {model}
  base_url: {llm}
telegram:
  allowed_users: [{users}]
  base_url: {telegram}
daemon:
  poll_interval: 0
  poll_timeout: 20
"""
_ASKED = re.compile(r"(?m)^id: (\d{8}-\d{6}-[0-9a-f]{6})$")


@dataclass
class Studio:
    """``node`` works a queue; ``env`` is what its runtime needs."""

    node: Node
    model: ModelServer
    telegram: TelegramServer
    env: dict[str, str] = field(default_factory=lambda: {"ANTHROPIC_KEY": KEY, "TELEGRAM_TOKEN": TOKEN})
    updates: int = 0

    def __post_init__(self) -> None:
        self.telegram.chats.add(OTHER)
        work_queue(self.node)
        self.configure()

    def configure(self, more: str = "", hub: str = "") -> None:
        """Write ``agent.yaml`` with further sections, and add to ``hub.yaml``."""
        users = f"{USER}, {OTHER}"
        text = _CONFIG.format(model=MODEL, llm=self.model.url, telegram=self.telegram.url, users=users)
        old = (self.node.root / ".cn/hub.yaml").read_text()
        self.node.write({".cn/agent.yaml": text + more, ".cn/hub.yaml": old + hub}, "configure")

    def agent(
        self, *words: str | Path, check: int | None = 0, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """``cn agent`` as a process; an empty variable counts as missing."""
        return self.node.cn("agent", *words, check=check, env={**self.env, **env}, stdin=stdin)

    def turn(self, *, until_idle: bool = False) -> list[str]:
        """One turn in this process; the lines of its report."""
        before = dict(os.environ)
        os.environ.update(self.env)
        try:
            report = Report()
            cycle(open_hub(self.node.root), None, until_idle=until_idle, report=report)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return lines_of(report)

    def receive(self, text: str, chat: int = USER, update: int = 0, user: int = 0) -> str:
        """A chat message arrives, as the daemon queues it. ``user`` writes in a group."""
        self.updates = update or self.updates + 1
        at = datetime.now(UTC).replace(microsecond=0)
        incoming = Incoming(self.updates, chat, user or chat, self.updates, at, text)
        return enqueue(open_hub(self.node.root), incoming)

    def said(self, chat: int = USER) -> list[str]:
        """What the chat got."""
        with self.telegram._changed:
            return [m.text for m in self.telegram.sent if m.chat_id == chat]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the calls."""
        return [seen.json for seen in self.model.calls]

    @property
    def items(self) -> list[str]:
        """The last message of each call: the item asked about."""
        return [body["messages"][-1]["content"] for body in self.requests]

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """What waits in the queue."""
        found: list[dict[str, Any]] = queue(self.node)["waiting"]
        return found

    @property
    def dead(self) -> list[dict[str, Any]]:
        """The dead letters."""
        found: list[dict[str, Any]] = queue(self.node)["dead"]
        return found

    @property
    def archive(self) -> dict[str, bytes]:
        """The answers in main."""
        return archived(self.node, "output")

    def calls(self) -> list[Call]:
        """The calls that the machine log tells, each as it ended."""
        return read_calls(self.node.root)

    def age_calls(self, by: timedelta) -> None:
        """Make every call of the machine log older."""
        path = self.node.root / "logs/cn.log"
        text = path.read_text("utf-8")
        for at in {call.at for line in text.splitlines() if (call := parse_call(line)) is not None}:
            old = at - by
            text = text.replace(f'"time": "{at:%Y-%m-%dT%H:%M:%SZ}"', f'"time": "{old:%Y-%m-%dT%H:%M:%SZ}"')
        path.write_text(text, "utf-8")

    def sound(self) -> None:
        """Main is whole, in step with its origin, and nothing lies about."""
        assert git(self.node.root, "status", "--porcelain") == ""
        git(self.node.root, "fsck", "--no-dangling", "--no-progress")
        assert self.node.main
        assert not list((self.node.root / ".git/cn/say").glob("*"))
        assert not self.model.problems

    @contextmanager
    def daemon(self, *words: str | Path, **env: str) -> Iterator[Daemon]:
        """``cn agent --daemon`` until the block ends; it must end well."""
        with (self.node.root.parent / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "cn", "--hub", str(self.node.root), "agent", "--daemon", *map(str, words)],
                env=cn_env({**self.env, **env}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        daemon = Daemon(self, process, Path(log.name))
        try:
            yield daemon
            if process.poll() is None:
                assert daemon.stop() == 0, daemon.log
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(SECONDS)


@dataclass
class Daemon:
    """A running daemon."""

    studio: Studio
    process: subprocess.Popen[bytes]
    path: Path

    @property
    def log(self) -> str:
        """What it said, its children too."""
        return self.path.read_text("utf-8", "replace")

    def until(self, what: Callable[[], object], seconds: float = SECONDS) -> None:
        """Wait until it is so."""
        deadline = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def until_said(self, count: int, chat: int = USER) -> list[str]:
        """Wait until the chat has that many texts; the texts."""
        self.until(lambda: len(self.studio.said(chat)) >= count)
        return self.studio.said(chat)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


def id_of(body: Mapping[str, Any]) -> str:
    """The id of the item that a request asks about."""
    found = _ASKED.search(body["messages"][-1]["content"])
    assert found, body["messages"][-1]
    return found[1]


def write(ops: str, body: str = "") -> Callable[[dict[str, Any]], str]:
    """A model that always answers so; ``ID`` stands for the item's id."""
    return lambda asked: answer(ops, body, id_of(asked))


def answer(ops: str, body: str = "", id: str = "{id}") -> str:
    """An output with these lines in its frontmatter."""
    lines = "".join(f"{line}\n" for line in ops.replace("ID", id).split("\n") if line)
    return f"---\nid: {id}\n{lines}---\n{body}"


def lines_of(report: Report) -> list[str]:
    """A report as lines, its hints too, without what was told before."""
    return [
        f"{note.mark.value}: {note.text}{f' ({note.hint})' if note.hint else ''}"
        for note in report.notes
        if not note.told_before
    ]


__all__ = ["CHAT", "OTHER", "ROOT", "Daemon", "Studio", "answer", "id_of", "lines_of", "write"]
