"""The daemon and its children killed, or standing still, at random moments: no message lost, none answered twice."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress

import pytest

from cn.agent.daemon_health import read_health
from cn.git.repository import open_hub
from tests.support.figures import observed
from tests.support.freeze import freeze, thaw
from tests.support.hubs import git
from tests.support.studio import CHAT, Daemon, Studio, answer, id_of

MESSAGES = int(os.environ.get("TEST_MESSAGES", "60"))
SEED = os.environ.get("TEST_SEED", "chaos")
PATIENCE = 60.0 + 30.0 * MESSAGES


def speak(body: dict[str, object]) -> str:
    """The number of the message, given back."""
    number = re.findall(r"(?m)^> message (\d+)$", str(body["messages"][-1]["content"]))  # type: ignore[index]
    return answer(f"reply: ID|answer {number[-1]}", id=id_of(body))


def kill_child(studio: Studio) -> bool:
    """SIGKILL for the processor and all it started."""
    health = read_health(open_hub(studio.node.root)) or {}
    child = health.get("child")
    if not child:
        return False
    with suppress(ProcessLookupError):
        os.killpg(child["pid"], signal.SIGKILL)
        return True
    return False


@pytest.mark.full
def test_messages_through_a_daemon_that_is_killed_again_and_again(studio: Studio) -> None:
    chance = random.Random(SEED)
    studio.model.answer = speak
    sent = kills = children = freezes = 0
    begin = time.monotonic()

    def ended() -> Counter[str]:
        """How many are told, by what the log says; a file that a killed run left halfway counts later."""
        try:
            rows = [row[2] for row in studio.node.rows(CHAT) if row[1].startswith("reply")]
        except (AssertionError, OSError):
            return Counter()
        return Counter("unknown" if row.startswith("unknown") else row for row in rows if row != "queued")

    while ended().total() < MESSAGES:
        assert time.monotonic() - begin < PATIENCE, (ended(), studio.waiting)
        with ExitStack() as stack:
            daemon: Daemon = stack.enter_context(studio.daemon())
            until = time.monotonic() + chance.uniform(1.0, 15.0)
            while time.monotonic() < until and ended().total() < MESSAGES:
                if sent < MESSAGES and chance.random() < 0.5:
                    studio.telegram.say(f"message {sent}")
                    sent += 1
                if chance.random() < 0.04:
                    children += kill_child(studio)
                if chance.random() < 0.04:
                    stopped = freeze(daemon.process.pid)
                    time.sleep(chance.uniform(0.2, 6.0))
                    thaw(stopped)
                    freezes += 1
                time.sleep(0.2)
            if ended().total() < MESSAGES:
                kills += 1
                if chance.random() < 0.5:
                    children += kill_child(studio)
                daemon.process.kill()
                daemon.process.wait(20)
    seconds = time.monotonic() - begin
    for _ in range(3):
        studio.turn(until_idle=True)
    texts = Counter(studio.said())
    wanted = [f"answer {n}" for n in range(MESSAGES)]
    doubled = sorted(text for text in texts if texts[text] > 1)
    missing = [text for text in wanted if text not in texts]
    lost = max(0, len(missing) - ended()["unknown"])
    asked = Counter(number for item in studio.items for number in re.findall(r"(?m)^> message (\d+)$", item))
    observed(
        "runtime-chaos", f"seed-{SEED}", messages=MESSAGES, seconds=round(seconds), kills_of_the_daemon=kills,
        kills_of_a_child=children, freezes=freezes, lost=lost, doubled=len(doubled), told_as_unknown=ended()["unknown"],
        asked_again=asked.total() - MESSAGES, dead_letters=len(studio.dead),
    )  # fmt: skip
    assert (lost, doubled, studio.dead) == (0, [], []), missing
    assert sorted(texts) == sorted(set(wanted) - set(missing))
    assert len(studio.archive) == MESSAGES
    assert git(studio.node.root, "status", "--porcelain") == ""
    studio.sound()
