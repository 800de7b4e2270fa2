"""The agent's queue: what arrives waits once, one item is in flight, and the agent has two verbs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from itertools import pairwise

import pytest

from cn.protocol.thread_file import without_form
from tests.loop.test_dry_run import unchanged
from tests.support.desk import answer, archived, asked, clean, current, events, queue, shown, work_queue
from tests.support.hubs import ROOT, clone, cn, commit, git, identify, push
from tests.support.world import Node, World, content

CLOCK = ROOT / "tests/support/clock"

IDLE: dict[str, object] = {
    "actor": "idle",
    "in_flight": None,
    "waiting": [],
    "dead": [],
    "damaged": [],
    "held": [],
    "bursts": [],
}


@pytest.fixture
def agent(sigma: Node, pi: Node) -> Node:
    """sigma, who works a queue; nothing waits."""
    work_queue(sigma)
    return sigma


def test_what_arrives_is_queued_once_and_one_item_is_in_flight(world: World, agent: Node, pi: Node) -> None:
    assert queue(agent) == IDLE
    assert agent.cn("input").stdout == "nothing waits for an answer\n"
    none = json.loads(agent.cn("input", "--json").stdout)
    assert none == {"id": None, "from": None, "content": None, "cadence": None}
    assert "nothing waits" in agent.cn("next").stdout
    world.propose(pi, agent, "one")
    world.propose(pi, agent, "two")
    agent.sync()
    for _ in range(2):
        view = queue(agent)
        assert view["in_flight"]["source"] == "pi/one"
        assert (view["in_flight"]["attempt"], view["in_flight"]["here"]) == (1, True)
        assert [w["source"] for w in view["waiting"]] == ["pi/two"]
        agent.idle()
    assert view["actor"] == "input-ready"
    assert view["in_flight"]["id"] == current(agent)
    text = agent.cn("input").stdout
    assert text == shown(agent)
    assert f"id: {current(agent)}\nfrom: pi\ncadence: inbox\nqueued: " in text
    one = json.loads(agent.cn("input", "--json").stdout)
    assert (one["id"], one["from"], one["cadence"]) == (current(agent), "pi", "inbox")
    assert one["content"] == without_form(agent.thread(f"{asked(agent)}.md")).strip("\n")
    assert queue(agent)["actor"] == "processing"
    lines = agent.cn("queue").stdout.split("\n")
    assert "pi/one: shown to the agent" in lines[0]
    assert "pi/two: waits" in lines[1]
    assert agent.cn("queue", "list").stdout == agent.cn("queue").stdout
    assert "pi/one is the agent's input already" in agent.cn("next").stdout
    assert events(agent, "pi") == ["received", "received", "enqueued", "enqueued", "claimed"]
    clean(agent)


def test_next_gives_the_agent_what_waits_when_it_has_nothing(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent)
    agent.sync()
    first = current(agent)
    agent.cn("done", "pi/proposal")
    assert shown(agent) == ""
    assert queue(agent) == IDLE
    world.propose(pi, agent, "later")
    agent.write({".cn/hub.yaml": (agent.root / ".cn/hub.yaml").read_text().replace(": queue", ": triage")})
    agent.sync()
    assert queue(agent) == IDLE
    assert "has no queue" in agent.cn("next", check=1).stderr
    work_queue(agent)
    assert "would: pi/later" in unchanged(agent, "next")
    assert "pi/later is the agent's input" in agent.cn("next").stdout
    assert current(agent) not in ("", first)


def test_a_dry_process_shows_what_an_output_would_do_and_changes_nothing(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent, "one")
    world.propose(pi, agent, "two")
    agent.sync()
    agent.cn("input")
    answer(agent, "---\nid: ID\nreply: ID|hello\nsurface: Watch it\n---\n")
    said = unchanged(agent, "inbox", "process")
    for line in (
        f"would: pi/one: archive logs/output/{current(agent)}.md",
        "would: pi/one: send message to pi on sigma/re-one: hello",
        "would: pi/one: remove state/output.md",
        "would: pi/two: write state/input.md",
    ):
        assert line in said
    answer(agent, "---\nid: ID\nsend: nobody|hello\n---\n")
    assert "record pi in refused one" in unchanged(agent, "inbox", "process")


def test_a_hub_can_keep_the_archive_on_its_own_machine(world: World, agent: Node, pi: Node) -> None:
    agent.configure("local: [logs/input, logs/output]\n")
    world.propose(pi, agent)
    agent.sync()
    given, trigger = shown(agent), current(agent)
    wrote = answer(agent, "---\nid: ID\nreply: ID|private words\n---\n")
    agent.process()
    assert archived(agent, "input") == archived(agent, "output") == {}
    assert (agent.root / f"logs/input/{trigger}.md").read_text() == given
    assert (agent.root / f"logs/output/{trigger}.md").read_bytes() == wrote
    agent.idle()
    names = git(agent.root, "ls-tree", "-r", "--name-only", "main")
    assert "logs/input/2" not in names


def test_the_interface_can_change_with_threads_pending_and_an_item_in_flight(
    world: World, sigma: Node, pi: Node
) -> None:
    for topic in ("c", "b", "a"):
        world.propose(pi, sigma, topic)
        sigma.sync()
        time.sleep(1.1)  # when they came is known to the second
    assert not (sigma.root / "state/queue").exists()
    work_queue(sigma)
    sigma.sync()
    # in the order in which they came, not of their names
    assert asked(sigma).endswith("-pi-c")
    assert [w["source"] for w in queue(sigma)["waiting"]] == ["pi/b", "pi/a"]
    first = current(sigma)
    answer(sigma, "---\nid: ID\nack: ID|late but fine\n---\n")
    work_queue(sigma, "triage")
    sigma.sync()
    assert current(sigma) == first, "what the agent has answered counts"
    sigma.process()
    assert len(sigma.done()) == 1
    assert shown(sigma) == ""
    sigma.idle()
    topic = sigma.threads()[0].partition("-pi-")[2].removesuffix(".md")
    sigma.decide(f"pi/{topic}", "delete:by hand")
    work_queue(sigma)
    sigma.sync()
    view = queue(sigma)
    assert view["waiting"] == []
    assert view["in_flight"]["path"] == f"threads/inbox/{sigma.threads()[0]}"
    sigma.idle()


def test_back_at_triage_what_the_agent_was_given_is_taken_back(world: World, sigma: Node, pi: Node) -> None:
    """Told once, no attempt counts, and nobody is told that the agent gave no answer."""
    second = Node("sigma", clone(sigma.home, world.folder / "cn-sigma-2", trusted=True), sigma.home, sigma.url)
    identify(second.root, "sigma", "sigma@cn.invalid")
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    id = current(sigma)
    work_queue(sigma, "triage")
    second.cn("trust", "--yes")
    second.sync()
    assert content(second, "state/turn.md") is not None, "the other machine may have an answer"
    words = "pi/proposal is the agent's no more: hub.yaml says 'interface: triage'"
    assert sigma.sync().stdout.count(words) == 1
    assert words not in sigma.sync().stdout + second.sync().stdout
    assert shown(sigma) == ""
    assert content(sigma, "state/turn.md") is None
    (waiting,) = queue(sigma)["waiting"]
    assert (waiting["id"], waiting["attempts"]) == (id, 0)
    assert sigma.notices() == []
    sigma.decide("pi/proposal", "delete:by hand")
    sigma.idle()


def test_back_at_triage_a_turn_of_a_machine_that_is_gone_ends_when_its_time_is_over(
    world: World, sigma: Node, pi: Node
) -> None:
    second = Node("sigma", clone(sigma.home, world.folder / "cn-sigma-2", trusted=True), sigma.home, sigma.url)
    identify(second.root, "sigma", "sigma@cn.invalid")
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    work_queue(sigma, "triage")
    git(sigma.root, "push", "--quiet", "origin", "main")
    second.cn("trust", "--yes")
    later = {"TEST_CLOCK": "1000", "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
    assert "is the agent's no more" in second.cn("sync", env=later, started=True).stdout
    assert content(second, "state/turn.md") is None
    assert sigma.sync().stdout == ""
    assert shown(sigma) == ""


NOTE = 'cat >> "{0}"'


def test_the_agent_is_woken_for_each_input_and_not_for_what_waits(world: World, agent: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(agent.root, "config", "cn.wake", NOTE.format(note))
    world.propose(pi, agent, "one")
    agent.sync()
    assert note.read_text() == f"you have inbox\n{agent.threads()[0]}\n"
    note.unlink()
    world.propose(pi, agent, "two")
    agent.sync()
    agent.idle()
    assert not note.exists(), "one item is in flight; what waits wakes nobody"
    answer(agent, "---\nid: wrong\n---\n")
    agent.cn("inbox", "process", check=1)
    assert note.read_text() == f"you have inbox\n{agent.threads()[0]}\n"
    note.unlink()
    answer(agent, "---\nid: ID\n---\n")
    agent.process()
    assert note.read_text() == f"you have inbox\n{agent.only_thread()}\n"


def test_an_agent_of_ten_lines_works_the_whole_queue(world: World, agent: Node, pi: Node) -> None:
    script = world.folder / "agent.sh"
    script.write_text(
        f"""#!/bin/sh
export CN_ROLE=agent
cn() {{ {sys.executable} -m cn "$@"; }}
while read -r line; do
  case "$line" in
    "thread: "*-pi-one) set -- do reply --message "hello pi" ;;
    "thread: "*) set -- delete --reason "we have it already" ;;
  esac
done <<EOF
$(cn input)
EOF
[ $# -gt 0 ] && cn out "$@"
"""
    )
    script.chmod(0o755)
    git(agent.root, "config", "cn.wake", str(script))
    for topic in ("one", "two"):
        world.propose(pi, agent, topic)
    agent.sync()
    for _ in range(2):
        agent.process()
    assert agent.only_thread().endswith("-pi-one.md"), "an answered proposal waits for its creator"
    decisions = [d for _, d, e in agent.rows() if e in ("queued", "✓ discarded")]
    assert decisions == ["comment", "delete:we have it already", "notice:discarded"]
    assert queue(agent) == IDLE
    agent.idle()


def test_an_agent_has_two_commands_and_no_choice_of_hub(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent)
    agent.sync()
    role = {"CN_ROLE": "agent"}
    for words in (
        ("inbox", "process"),
        ("inbox", "list"),
        ("sync",),
        ("queue",),
        ("next",),
        ("done", "pi/proposal"),
        ("trust",),
        ("peer", "list"),
        ("doctor",),
        ("init", "x"),
    ):
        done = cn(*words, cwd=agent.root, env=role, check=1)
        assert f"an agent may not run 'cn {words[0]}'" in done.stderr
        assert "'cn input' and 'cn out'" in done.stderr
    verbs: list[tuple[str, ...]] = [("input",), ("out", "do", "reply", "--message", "hi")]
    for verb in verbs:
        assert "may not choose the hub" in cn(*verb, hub=agent.root, env=role, check=1).stderr
        assert "may not choose the hub" in cn(*verb, "--hub", agent.root, env=role, check=1).stderr
    assert not (agent.root / "state/output.md").exists()
    assert cn("input", cwd=agent.root, env=role, check=0).stdout == shown(agent)
    cn("out", "do", "reply", "--message", "hi", cwd=agent.root / "docs", env=role, check=0)
    done = cn("input", cwd=agent.root, env={"CN_ROLE": "nonsense"}, check=3)
    assert "CN_ROLE is 'nonsense'" in done.stderr


def test_a_damaged_file_in_the_queue_is_named_and_the_others_go_on(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent, "one")
    world.propose(pi, agent, "two")
    agent.sync()
    (waiting,) = agent.listing("state/queue")
    agent.write({f"state/queue/{waiting}": "garbage\n", "state/turn.md": "more garbage\n"})
    done = agent.cn("inbox", "sync", check=1)
    assert waiting in done.stderr
    assert "state/turn.md" in done.stderr
    agent.cn("inbox", "sync", check=None)
    assert asked(agent).endswith("-pi-one"), "what was in flight is given again"
    assert f"state/queue/{waiting}" in agent.cn("queue", "--json").stdout
    assert content(agent, f"state/queue/{waiting}") == b"garbage\n"


def test_a_peer_that_asks_all_the_time_keeps_no_other_from_its_turn(world: World, agent: Node, pi: Node) -> None:
    """Nor do two who alternate: the next turn is of who had none, or whose last is the longest ago."""
    omega = world.hub("omega")
    world.link(agent, omega)
    shutil.copytree(omega.home, world.folder / "rho.git")
    agent.cn("peer", "add", "rho", str(world.folder / "rho.git"))
    for number in range(4):
        world.propose(pi, agent, f"n{number}", message=f"number {number}")
        world.propose(omega, agent, f"o{number}", message=f"number {number}")
    agent.sync()
    person = world.person(pi, agent)
    head = commit(person, {"docs/late.md": "late\n"}, "late")
    push(person, agent.home, f"{head}:refs/heads/rho/late")
    agent.sync()
    turns = []
    while source := queue(agent)["in_flight"]:
        turns.append(source["source"])
        answer(agent, "---\nid: ID\nack: ID|seen\n---\n")
        agent.process()
    peers = [source.partition("/")[0] for source in turns]
    assert sorted(peers[:3]) == ["omega", "pi", "rho"], turns
    assert all(one != next_ for one, next_ in pairwise(peers)), turns
    for name in ("pi", "omega"):
        theirs = [source for source in turns if source.startswith(f"{name}/")]
        assert theirs == sorted(theirs), "each sender's own in their order"
