"""Kill a turn of the runtime at every step: one answer, one effect, one text, or told as unknown."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.desk import archived
from tests.support.figures import observed
from tests.support.hubs import git
from tests.support.kill import Kill, State, Trial
from tests.support.studio import CHAT, Studio, answer, id_of
from tests.support.world import Node, content

PARTS = 2
BODY = "\n\n".join(f"paragraph {n}: {'word ' * 150}end" for n in range(PARTS * 4))
UNKNOWN = re.compile(r"unknown: \d of \d parts")
EVERY = 120


@dataclass
class Turn(Trial):
    """``cn agent --process`` on a Telegram item; the servers forget what an earlier trial did."""

    studio: Studio = field(kw_only=True)
    calls: list[bool] = field(default_factory=list)

    def _restore(self) -> None:
        super()._restore()
        self.studio.telegram.sent.clear()
        self.studio.model.requests.clear()
        self.calls.clear()

    def state(self) -> State:
        """As of any command; a text told as unknown counts as sent, how often was asked does not count."""
        found = super().state()
        found["main"] = [(path, UNKNOWN.sub("✓ delivered", text)) for path, text in found["main"]]
        lines = [line for line in found["cn.log"] if '"event": "model"' not in line]
        found["cn.log"] = sorted(_told(line) for line in lines)
        return found

    def judge(self) -> State:
        """What must be so however it went."""
        node = self.studio.node
        texts = Counter(self.studio.said())
        rows = [row[2] for row in node.rows(CHAT) if row[1].startswith("reply") and row[2] != "queued"]
        concerns = [p for p in node.listing("state/mca") if p.endswith(".md")]
        talk = (content(node, "state/conversation.json") or b"").decode()
        return {
            "asked although there was an answer": any(self.calls),
            "asked": bool(self.calls),
            "a text twice": max(texts.values(), default=0) > 1,
            "a text lost": rows == ["✓ delivered"] and len(texts) != PARTS,
            "said": len(rows),
            "concerns": len(concerns),
            "conversation": (talk.count('"role": "user"'), talk.count('"role": "assistant"')),
            "archive": (len(archived(node, "input")), len(archived(node, "output"))),
            "notes": [p.name for p in (node.root / ".git/cn/say").glob("*")],
        }


def _told(line: str) -> str:
    return UNKNOWN.sub(r"\\u2713 delivered", line).replace('"outcome": "unknown"', '"outcome": "delivered"')


def make(studio: Studio, tmp_path: Path) -> Turn:
    """A message waits, which the model answers with two texts and a concern."""
    node = studio.node
    # Each trial goes on from the same claim, which must not grow old while the matrix is walked through.
    studio.configure(hub="cron_period_min: 600\n")
    folder = tmp_path / "world"
    folder.mkdir()
    home = folder / "sigma.git"
    node.root.rename(folder / "cn-sigma")
    node.home.rename(home)
    studio.node = node = Node("sigma", folder / "cn-sigma", home, str(home))
    git(node.root, "remote", "set-url", "origin", str(home))
    studio.receive("a question")

    def settle() -> None:
        for _ in range(8):
            before = node.refs()
            done = studio.agent("--process", check=None)
            assert done.returncode in (0, 1), done.stderr
            assert "internal error" not in done.stderr
            if node.refs() == before and not done.stdout:
                return
        raise AssertionError("the hub did not come to rest")

    turn = Turn(folder, node, (), ("agent", "--process"), settle, (0, 1), studio=studio)
    turn.extra = turn.judge

    def speak(body: dict[str, object]) -> str:
        known = (node.root / "state/output.md").exists() or bool(archived(node, "output"))
        turn.calls.append(known)
        return answer("reply: ID|short\nsurface: Watch the retries", BODY, id_of(body))

    studio.model.answer = speak
    return turn


@pytest.fixture
def turn(studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Turn:
    for name, value in studio.env.items():
        monkeypatch.setenv(name, value)
    return make(studio, tmp_path)


def check(turn: Turn) -> None:
    """What an undisturbed turn comes to."""
    good = turn.record()
    wanted = {
        "asked although there was an answer": False,
        "asked": True,
        "a text twice": False,
        "a text lost": False,
        "said": 1,
        "concerns": 1,
        "conversation": (1, 1),
        "archive": (1, 1),
        "notes": [],
        "leftovers": [],
        "status": "",
        "output": None,
        "input": None,
    }
    assert {key: good[key] for key in wanted} == wanted
    assert "".join(turn.studio.said()).replace("\n", "") == BODY.replace("\n", "")
    assert len(turn.calls) == 1


def test_a_kill_at_a_sample_of_steps_says_and_does_nothing_twice(turn: Turn) -> None:
    check(turn)
    turn.try_kills(turn.sample(EVERY, "runtime"))


@pytest.mark.full
def test_a_kill_at_any_step_says_and_does_nothing_twice(turn: Turn) -> None:
    check(turn)
    kills = turn.slice_of_kills()
    asked = unknown = killed = 0
    wrong: list[tuple[Kill, str, State]] = []
    for kill in kills:
        met, difference = turn.kill(kill)
        killed += met
        asked += len(turn.calls) - 1
        unknown += any("unknown" in row[2] for row in turn.studio.node.rows(CHAT))
        if difference:
            wrong.append((kill, turn.steps[kill.step - 1], difference))
            print(*wrong[-1])
    observed(
        "runtime", "turn", boundaries=len(turn.kills()), kills=len(kills), met=killed, asked_again=asked,
        told_as_unknown=unknown, wrong=len(wrong),
    )  # fmt: skip
    assert not wrong
