"""A hub whose agent is asked by the runtime, and the server that answers it."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from cn.run.view import Accepted
from cn.values.names import Oid
from tests.support.desk import work_queue
from tests.support.model_server import KEY, MODEL, ModelServer, fill
from tests.support.world import Node

ACCEPTED = Accepted(Oid("0" * 40))
"""For what only needs to see one."""


def work_runtime(node: Node, more: str = "", hub: str = "") -> None:
    """``interface: queue``, and an ``agent.yaml`` for the server of the tests."""
    work_queue(node, more=hub)
    node.write({".cn/agent.yaml": f"llm:\n  model: {MODEL}\n{more}"}, "runtime")


def environment(server: ModelServer | None) -> dict[str, str]:
    """A key, and where the model is; a place where nobody listens without a server."""
    url = server.url if server else "http://127.0.0.1:9"
    return {"ANTHROPIC_KEY": KEY, "ANTHROPIC_BASE_URL": url}


def agent(node: Node, server: ModelServer, *args: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    """``cn agent`` with the server."""
    return node.cn("agent", *args, env=environment(server), check=check)


def says(server: ModelServer, *lines: str, body: str = "") -> None:
    """What the model answers from now on; ``{id}`` is the item's."""
    text = "\n".join(["---", "id: {id}", *lines, "---", "", body])
    server.answer = lambda request: fill(text, request)


def events(node: Node, kind: str = "model") -> list[dict[str, Any]]:
    """The events of that kind in the machine log."""
    lines = (node.root / "logs/cn.log").read_text("utf-8").splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == kind]


def open_item(node: Node, title: str) -> str:
    """An adhoc thread, which is the agent's next item; its id."""
    node.cn("adhoc", title, "--body", f"About {title}.")
    queued = sorted((node.root / "state/queue").glob("adhoc-*.md"))
    turn = node.root / "state/turn.md"
    text = queued[-1].name if queued else turn.read_text("utf-8")
    match = re.search(r"\d{8}-\d{6}-[0-9a-f]{6}", text)
    assert match, text
    return match[0]
