"""``cn agent`` as a command: a cycle for cron, one turn, a look, a question, two at once."""

from __future__ import annotations

import subprocess
import sys
import threading

from cn.values.errors import EXIT_LOCKED
from tests.support.desk import answer as write_output
from tests.support.desk import archived, current
from tests.support.hubs import branches, cn_env, git, read
from tests.support.studio import CHAT, Studio, answer, id_of, write
from tests.support.world import Node, World, picture


def test_a_peers_message_is_answered_through_the_model_by_a_cycle_for_cron(
    world: World, studio: Studio, pi: Node
) -> None:
    """Two messages, one run: reply, concern, mail to another peer, and the log."""
    node = studio.node
    omega = world.hub("omega")
    world.link(node, omega)
    for topic in ("one", "two"):
        world.propose(pi, node, topic)
    node.sync()
    studio.model.answer = write(
        "reply: ID|thanks\ndone: ID\nsurface: Watch it\nsend: omega|look-ID|the text", "In full."
    )
    done = studio.agent()
    assert done.stderr == ""
    assert sorted(n for n in branches(pi.home) if n.startswith("sigma/")) == ["sigma/re-one", "sigma/re-two"]
    reply = git(pi.home, "ls-tree", "-r", "--name-only", "sigma/re-one").splitlines()
    assert any(b"In full." in read(pi.home, f"sigma/re-one:{path}") for path in reply), reply
    assert len([n for n in branches(omega.home) if n.startswith("sigma/look")]) == 2
    assert len(node.listing("state/mca")) == 2
    assert node.threads() == []
    assert len(studio.requests) == 2
    assert all("> " in item and "from: pi\n" in item for item in studio.items)
    assert studio.telegram.calls == []
    assert [call.peer for call in studio.calls()] == ["pi", "pi"]
    assert studio.agent().stdout == ""
    studio.sound()


def test_a_dry_run_prints_the_very_bytes_or_the_plan_and_changes_nothing(studio: Studio) -> None:
    node = studio.node
    studio.receive("a question")
    node.process()
    before = picture(node.root, node.home)
    shown = studio.agent("--dry-run", ANTHROPIC_KEY="", TELEGRAM_TOKEN="")
    assert studio.agent("--process", "--dry-run").stdout == shown.stdout
    assert picture(node.root, node.home) == before
    write_output(node, "---\nid: ID\nreply: ID|by hand\n---\n")
    before = picture(node.root, node.home)
    plan = studio.agent("--process", "--dry-run")
    assert "by hand" in plan.stdout
    assert picture(node.root, node.home) == before
    assert (studio.model.requests, studio.telegram.calls) == ([], [])
    (node.root / "state/output.md").unlink()
    studio.model.answer = write("reply: ID|fine")
    studio.turn()
    assert studio.model.calls[0].body.decode() == shown.stdout


def test_a_question_on_standard_input_is_answered_and_nothing_executed(studio: Studio) -> None:
    before = studio.node.main
    studio.model.answer = write("surface: x", "The *answer*.\x1b[2J")
    done = studio.agent("--stdio", stdin="what waits?\nand why?\n")
    assert done.stdout.startswith("The *answer*.")
    assert "\x1b" not in done.stdout
    assert "would surface: x" in done.stderr
    assert "> what waits?\n> and why?" in studio.items[0]
    assert studio.node.main == before
    assert "ANTHROPIC_KEY" in studio.agent("--stdio", stdin="x", check=3, ANTHROPIC_KEY="").stderr


def test_what_is_asked_on_standard_input_counts_and_obeys_the_budgets(studio: Studio) -> None:
    studio.model.answer = write("", "Yes.")
    shown = studio.agent("--stdio", "--dry-run", stdin="would you?").stdout
    assert "would you?" in shown
    assert studio.requests == []
    studio.agent("--stdio", stdin="\n", check=1)
    assert studio.requests == []
    studio.agent("--stdio", stdin="would you?")
    assert [(call.peer, call.stop) for call in studio.calls()] == [("stdio", "end_turn")]
    studio.configure("budgets:\n  turns_per_hour: 1\n")
    assert "turns_per_hour" in studio.agent("--stdio", stdin="again?", check=1).stderr
    assert len(studio.requests) == 1


def test_another_configuration_is_used_as_given_and_a_broken_one_named(studio: Studio) -> None:
    root = studio.node.root
    other = root.parent / "other.yaml"
    other.write_text((root / ".cn/agent.yaml").read_text().replace("claude-sonnet-5-5", "claude-9"))
    studio.receive("a question")
    done = studio.agent("--process", "--config", other, check=3)
    assert f"{other}: there is no model claude-9" in done.stderr
    assert (studio.requests, studio.archive) == ([], {})
    other.write_text("llm: [\n")
    assert "other.yaml" in studio.agent("--process", "--config", other, check=3).stderr
    assert "--config" in studio.agent("--process", "--config", root / "none", check=3).stderr
    assert "exclude" in studio.agent("--process", "--daemon", check=2).stderr


def start(studio: Studio) -> tuple[subprocess.Popen[bytes], threading.Event]:
    """A turn whose model thinks until the event is set."""
    spoken = threading.Event()

    def speak(body: dict[str, object]) -> str:
        assert spoken.wait(60)
        return answer("reply: ID|fine", id=id_of(body))

    studio.model.answer = speak
    words = [sys.executable, "-m", "cn", "--hub", str(studio.node.root), "agent", "--process"]
    process = subprocess.Popen(words, env=cn_env(studio.env), stdout=-3, stderr=-3)
    studio.model.wait(1, 60)
    return process, spoken


def test_two_at_once_on_one_hub_ask_once(studio: Studio) -> None:
    studio.receive("a question")
    process, spoken = start(studio)
    assert "another process asks the model" in studio.agent("--process", check=EXIT_LOCKED).stderr
    studio.receive("the hub is not locked meanwhile")
    spoken.set()
    assert process.wait(120) == 0
    assert len(studio.requests) == 1
    assert studio.said() == ["fine"]


def test_two_clones_have_one_turn_and_one_voice(world: World, studio: Studio) -> None:
    """While one clone's model thinks, the other finds nothing to do; what it may say, the other does not."""
    one = studio.node
    other = Studio(world.second(one), studio.model, studio.telegram)
    git(one.root, "pull", "--quiet", "--ff-only", "origin", "main")
    studio.receive("a question")
    process, spoken = start(studio)
    assert other.turn() == []
    assert current(other.node) == ""
    spoken.set()
    assert process.wait(120) == 0
    other.turn()
    studio.turn()
    assert len(studio.requests) == 1
    assert studio.said() == ["fine"]
    assert len(archived(one, "output")) == 1
    assert [row[2] for row in one.rows(CHAT)] == ["—", "queued", "✓ delivered"]
    studio.sound()
