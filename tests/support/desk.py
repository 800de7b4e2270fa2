"""A hub whose agent works a queue, as the tests of the agent layer see it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.hubs import git
from tests.support.world import Node, content

OUTPUT = "state/output.md"
INPUT = "state/input.md"


def work_queue(node: Node, interface: str = "queue", more: str = "") -> None:
    """Set ``interface`` in ``hub.yaml``, and add keys."""
    old = (node.root / ".cn/hub.yaml").read_text()
    text = re.sub(r"(?m)^interface: .*$", f"interface: {interface}", old)
    node.write({".cn/hub.yaml": text + more}, f"interface {interface}")


def queue(node: Node) -> dict[str, Any]:
    """``cn queue --json``."""
    found: dict[str, Any] = json.loads(node.cn("queue", "--json").stdout)
    return found


def shown(node: Node) -> str:
    """``state/input.md``, empty when there is none."""
    path = node.root / INPUT
    return path.read_text("utf-8") if path.exists() else ""


def current(node: Node) -> str:
    """The id of the item in flight here, empty when there is none."""
    match = re.search(r"(?m)^id: (.*)$", shown(node))
    return match[1] if match else ""


def asked(node: Node) -> str:
    """The thread of the item in flight here."""
    match = re.search(r"(?m)^thread: (.*)$", shown(node))
    return match[1] if match else ""


def answer(node: Node, text: str | bytes) -> bytes:
    """Write ``state/output.md`` as a model's runtime does; ``ID`` stands for the input's id."""
    data = text.encode() if isinstance(text, str) else text
    data = data.replace(b"ID", current(node).encode())
    (node.root / OUTPUT).write_bytes(data)
    return data


def archived(node: Node, kind: str) -> dict[str, bytes]:
    """The files of ``logs/input`` or ``logs/output`` in main, by their names without ``.md``."""
    text = git(node.root, "ls-tree", "-r", "--name-only", "main", f"logs/{kind}/")
    paths = [p for p in text.splitlines() if p.endswith(".md")]
    return {Path(p).stem: content(node, p) or b"" for p in paths}


def events(node: Node, peer: str, side: str = "in", topic: str = "") -> list[str]:
    """The kinds of the ledger's events about a peer, oldest first."""
    folder = node.root / "state/ledger" / peer
    lines = [
        line
        for path in sorted(folder.iterdir())
        if re.fullmatch(r"\d{6}", path.name)
        for line in path.read_text().splitlines()
    ]
    rows = [line.split(" ") for line in lines]
    return [r[2] for r in rows if r[1] == side and (not topic or r[3] == topic)]


def clean(node: Node) -> None:
    """Nothing is left to commit, and nothing but what is meant to lies about."""
    assert git(node.root, "status", "--porcelain") == ""


def let_pass(node: Node) -> None:
    """Make the turn in flight a year older: a commit of its file, as anybody can make one."""
    path = node.root / "state/turn.md"
    text = path.read_text("utf-8")
    match = re.search(r'(?m)^since: "(\d{4})', text)
    assert match, text
    older = text.replace(match[0], f'since: "{int(match[1]) - 1}', 1)
    node.write({"state/turn.md": older}, "time passes")
