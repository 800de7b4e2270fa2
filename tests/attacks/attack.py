"""An attack as data: one TOML file each in ``corpus/``, read and checked here.

``what`` says it in a sentence, ``who`` names what the attacker can do (a key of :data:`WHO`),
``row`` the row of the threat model (docs/threats.md). ``scene`` is the kind of hub; attacks of one
scene are tried together on one hub, those of the scene ``alone`` each on its own.

Acts happen in three phases: 1 before the first sync, 2 between sync and process (decisions are
written here), 3 before a second sync and process. ``expect`` says what must have come of it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus")

WHO = {
    "peer": "can push branches to our mailbox",
    "shared": "can push to a mailbox that other peers use too",
    "origin": "can push to our origin's main",
    "remote": "runs the repository that we fetch from and push to",
    "model": "decides what the model says",
    "local": "can write files in our work tree",
    "nobody": "is a mistake of our own",
}
SCENES = ("pair", "shared", "pinned", "queue", "alone")
ACTS = {
    "push": {
        "as",
        "branch",
        "files",
        "message",
        "times",
        "author",
        "start",
        "tree",
        "force",
        "commit",
        "to",
        "signed",
        "merge",
        "header",
    },
    "message": {"as", "branch", "text", "message", "force", "to", "signed", "author"},
    "delete": {"branch", "to"},
    "ours": {"topic"},
    "decide": {"thread", "decision", "args"},
    "write": {"path", "text", "link", "append"},
    "origin": {"files", "message", "rewind"},
    "output": {"text"},
    "config": {"text"},
    "git": {"args"},
    "peers": {"old", "new"},
    "cn": {"args", "exit", "stdout", "stderr", "count"},
    "host": {"branch", "object", "spoil"},
}
EXPECT = {
    "received", "absent", "merged", "rule", "has", "lacks", "told", "status", "stays", "gone", "log",
    "sync", "process", "quiet", "main_has", "main_lacks", "outbox", "quoted", "untold", "listed", "files",
}  # fmt: skip


@dataclass(frozen=True)
class Attack:
    """One file of the corpus."""

    name: str
    what: str
    who: str
    row: str
    scene: str
    acts: tuple[dict[str, Any], ...]
    expect: dict[str, Any] = field(default_factory=dict)


def read_attack(path: Path) -> Attack:
    """Read and check one file; :class:`ValueError` names what is wrong with it."""
    data = tomllib.loads(path.read_text("utf-8"))

    def check(good: bool, what: object) -> None:
        if not good:
            raise ValueError(f"{path.name}: {what}")

    check(set(data) <= {"what", "who", "row", "scene", "act", "expect"}, set(data))
    check(data["who"] in WHO, data["who"])
    check(data["scene"] in SCENES, data["scene"])
    for act in data["act"]:
        check(act["do"] in ACTS, act["do"])
        check(set(act) - {"do", "phase"} <= ACTS[act["do"]], act)
    expect = data.get("expect", {})
    check(set(expect) <= EXPECT, set(expect) - EXPECT)
    check(bool(expect), "it expects nothing")
    return Attack(path.stem, data["what"], data["who"], data["row"], data["scene"], tuple(data["act"]), expect)


def read_corpus() -> list[Attack]:
    """All attacks, by name."""
    return [read_attack(path) for path in sorted(CORPUS.glob("*.toml"))]
