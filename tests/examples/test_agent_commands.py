"""The agent's two commands as they are taught: each example typed as it stands."""

from __future__ import annotations

import json
import shlex

import pytest

from cn.protocol.queue_item import Cadence
from tests.support.desk import OUTPUT, current, work_queue
from tests.support.hubs import git, read
from tests.support.world import Node, World

COMMANDS = [
    # what is typed, the op that stands in the output
    ('cn out do reply --message "LGTM"', "reply: ID|LGTM"),
    ('cn out do send --to pi --message "hello"', "send: pi|hello"),
    # The text stands below the frontmatter, where it may have several lines.
    ('cn out do send --to pi --message "summary" --body "full response"', "send: pi|summary\n---\n\nfull response"),
    ('cn out do noop --reason "acknowledged"', "noop: ID|acknowledged"),
    ('cn out do ack --reason "acknowledged"', "ack: ID|acknowledged"),
    ('cn out do surface --desc "Add retry logic"', "surface: Add retry logic"),
    ("cn out do commit --artifact ARTIFACT", "commit: ID|ARTIFACT"),
    ('cn out defer --reason "waiting on review"', "defer: ID||waiting on review"),
    ("cn out delegate --to pi", "delegate: ID|pi"),
    ('cn out delete --reason "duplicate"', "delete: ID|duplicate"),
]

CANNOT = {
    "access filesystem": ("thread", "show", "x"),
    "execute commands": ("inbox", "process"),
    "call APIs": ("agent",),
    "list inbox": ("inbox",),
    "choose processing order": ("next",),
}


@pytest.fixture
def sigma_asked(world: World, sigma: Node, pi: Node) -> Node:
    """sigma with a message of omega's in flight, so that it may be handed to pi."""
    del pi
    omega = world.hub("omega")
    world.link(sigma, omega)
    work_queue(sigma)
    omega.cn("send", "sigma", "Please review")
    sigma.sync()
    return sigma


def test_each_command_writes_its_op(sigma_asked: Node) -> None:
    id, artifact = current(sigma_asked), git(sigma_asked.root, "rev-parse", "--short", "main")
    for typed, op in COMMANDS:
        words = shlex.split(typed.replace("ARTIFACT", artifact))
        assert words[0] == "cn"
        sigma_asked.cn(*words[1:])
        written = (sigma_asked.root / OUTPUT).read_text()
        end = "" if "\n---\n" in op else "\n---"
        assert written == f"---\nid: {id}\n{op}{end}\n".replace("ID", id).replace("ARTIFACT", artifact), typed
        (sigma_asked.root / OUTPUT).unlink()


def test_the_input_has_id_sender_content_and_cadence(sigma_asked: Node) -> None:
    asked = json.loads(sigma_asked.cn("input", "--json").stdout)
    assert set(asked) == {"id", "from", "content", "cadence"}
    assert (asked["from"], asked["cadence"]) == ("omega", "inbox")
    # Not the words alone: they stand quoted in their thread, so that nobody's text speaks as cn.
    assert "\n> > Please review" in asked["content"]


def test_the_cadences_are_these_in_this_order() -> None:
    assert [c.name.title() for c in Cadence] == ["Inbox", "Daily", "Weekly", "Monthly", "Quarterly", "Yearly", "Adhoc"]


def test_there_are_four_ways_to_answer_and_six_operations(sigma_asked: Node) -> None:
    def commands(*words: str) -> set[str]:
        lines = sigma_asked.cn(*words, "--help").stdout.partition("Commands:\n")[2].splitlines()
        return {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}

    assert commands("out") == {"do", "defer", "delegate", "delete"}
    assert commands("out", "do") == {"reply", "send", "noop", "ack", "surface", "commit"}


@pytest.mark.parametrize("what", CANNOT)
def test_in_its_role_the_agent_has_nothing_else(sigma_asked: Node, what: str) -> None:
    done = sigma_asked.cn(*CANNOT[what], check=1, env={"CN_ROLE": "agent"})
    assert "cn input" in done.stderr


def test_whoever_sent_the_input_is_told_of_any_answer(world: World, sigma_asked: Node) -> None:
    sigma_asked.cn("out", "do", "noop", "--reason", "acknowledged")
    sigma_asked.process()
    omega = world.nodes["omega"]
    assert b"acknowledged" in read(omega.home, "sigma/notice-please-review:message.md")
