"""``cn why`` on real hubs: one action explained from what was recorded, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks
from tests.support.desk import answer, work_queue
from tests.support.hubs import git
from tests.support.model_server import MODEL, Reply, model_server
from tests.support.runtime import agent, open_item, says, work_runtime
from tests.support.world import Node, World, picture


def why(node: Node, name: str, check: int = 0) -> Any:
    return json.loads(node.cn("why", name, "--json", check=check).stdout)


@pytest.fixture
def asked(world: World, sigma: Node, pi: Node) -> Node:
    """A hub of the runtime with a proposal of a peer in flight."""
    work_runtime(sigma)
    world.propose(pi, sigma, "proposal")
    sigma.sync()
    return sigma


def test_each_row_is_told_once(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:custom:look into it")
    screen = sigma.cn("why", "pi/proposal").stdout
    rows = [line.strip() for line in screen.splitlines() if " | " in line]
    assert len(rows) == len(sigma.rows("pi/proposal")) == len({row[6:].strip() for row in rows})


def test_an_answer_is_explained_from_the_input_to_the_delivery(world: World, asked: Node) -> None:
    pi = world.nodes["pi"]
    with model_server() as server:
        server.next(Reply("---\nid: wrong\nack: wrong\n---\n"))
        agent(asked, server, "--process", check=1)
        says(
            server, "reply: {id}|Good", "done: {id}", "send: pi|And a question", "surface: A concern", body="Well done."
        )
        agent(asked, server, "--process")
    world.settle(asked, pi)
    before = picture(asked.root), asked.refs()
    (thread,) = asked.done()
    found = why(asked, thread)
    first, second = found["attempts"]
    item = found["item"]
    assert (item["source"], item["from"], item["where"]) == ("pi/proposal", "pi", "over")
    assert (first["outcome"], first["rules"]) == ("rejected", ["valid-output"])
    assert [row["decision"] for row in first["ended"]["rows"]] == [f"output:{item['id']}"]
    assert [row["executed"] for row in second["ended"]["rows"]] == ["queued", "✓ done", "queued", "✓ opened"]
    assert all(row["input"] == item["id"] for row in second["ended"]["rows"] if "send" not in row["decision"])
    assert second["outcome"] == "executed"
    assert [op.partition(":")[0] for op in second["ops"]] == ["reply", "done", "send", "surface"]
    (call,) = second["calls"]
    assert (call["model"], call["stop"]) == (MODEL, "end_turn")
    assert [p["part"] for p in call["parts"]][-1] == "item"
    assert {p["part"]: p["bytes"] for p in call["parts"]}["item"] == len(
        (asked.root / f"logs/input/{second['trigger']}.md").read_bytes()
    )
    archived = git(asked.root, "log", "--format=%H", "--", f"logs/output/{second['trigger']}.md")
    assert second["ended"]["commit"] == archived
    kinds = sorted(m["kind"] for m in second["ended"]["messages"])
    assert kinds == ["message", "message"]
    assert all(m["executed"] == "✓ delivered" and m["delivered"] for m in second["ended"]["messages"])
    assert len(second["ended"]["concerns"]) == 1
    assert {"change": "A", "path": f"threads/inbox/done/{thread}"} in second["ended"]["files"]
    assert (found["thread"]["decision"], found["thread"]["actor"]) == ("do:reply:re-proposal", "sigma")
    assert found["notes"] == []
    for name in (item["id"], second["trigger"], "pi/proposal"):
        assert why(asked, name) == {**found, "name": name}
    screen = asked.cn("why", "pi/proposal").stdout
    for text in ("attempt 1: rejected", "valid-output", "attempt 2: executed", "preamble", "✓ delivered", "tokens in"):
        assert text in screen
    assert "-- answer of" not in screen
    assert "Well done." in asked.cn("why", item["id"], "--full").stdout.partition("-- answer of")[2]
    assert (picture(asked.root), asked.refs()) == before
    _has_documented_shape(found)


def _has_documented_shape(found: Any) -> None:
    (block,) = [b for b in blocks() if b.name == "why-shape"]
    documented = json.loads(block.text)
    assert list(documented) == list(found)
    assert list(documented["item"]) == list(found["item"])
    assert list(documented["attempts"][0]) == list(found["attempts"][1])
    assert list(documented["attempts"][0]["calls"][0]) == list(found["attempts"][1]["calls"][0])
    ended = documented["attempts"][0]["ended"]
    assert list(ended) == list(found["attempts"][1]["ended"])
    assert list(ended["messages"][0]) == list(found["attempts"][1]["ended"]["messages"][0])


def test_another_clone_says_what_it_does_not_know(world: World, asked: Node) -> None:
    with model_server() as server:
        says(server, "delete: {id}|not now")
        agent(asked, server, "--process")
    other = world.second(asked)
    found = why(other, "pi/proposal")
    (attempt,) = found["attempts"]
    assert (attempt["outcome"], attempt["calls"]) == ("executed", [])
    assert "what it used is in the log of that clone" in found["notes"][0]
    (asked.root / "logs/cn.log").unlink()
    assert "the log was rotated" in why(asked, "pi/proposal")["notes"][0]


def test_a_decision_of_a_person_has_its_actor_head_rows_and_commits(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "proposal")
    sigma.sync()
    thread = sigma.only_thread()
    assert why(sigma, thread)["thread"]["state"] == "pending"
    sigma.decide(thread, "do:merge")
    found = why(sigma, thread)
    assert (found["item"], found["attempts"], found["notes"]) == (None, [], [])
    shown = found["thread"]
    assert (shown["decision"], shown["actor"], shown["head"]) == ("do:merge", "sigma", head)
    assert found["merge"]["parents"][1] == head
    assert {"change": "A", "path": f"threads/inbox/done/{thread}"} in found["decided"]["files"]
    assert found["decided"]["rows"][0]["decision"] == "do:merge"
    assert "no agent was asked" in sigma.cn("why", thread).stdout


def test_what_is_in_flight_waits_or_was_answered_by_hand(world: World) -> None:
    hub = world.hub("sigma", origin=False)
    work_queue(hub)
    first = open_item(hub, "First")
    hub.cn("next")
    second = open_item(hub, "Second")
    assert why(hub, first)["attempts"][0]["outcome"] == "in flight"
    assert (why(hub, second)["item"]["where"], why(hub, second)["attempts"]) == ("waits", [])
    assert "waits in the queue" in hub.cn("why", second).stdout
    answer(hub, "---\nid: ID\nack: ID\n---\n")
    hub.process()
    found = why(hub, first)
    assert found["attempts"][0]["outcome"] == "executed"
    assert "answered by hand" in found["notes"][0]
    assert found["own_thread"]["title"] == "First"
    assert why(hub, found["own_thread"]["source"])["item"]["id"] == first


@pytest.mark.parametrize("name", ["nothing", "20260219-141209-abc123", "20269999-999999-abc123", "telegram:1", "../x"])
def test_what_is_not_there_is_refused(sigma: Node, name: str) -> None:
    done = sigma.cn("why", name, check=1)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_explanation_starts_as_many_gits_whatever_its_run_queued(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    """Each decision tells its creator; what one of them did is found among all that the run queued at once."""
    topics = [f"{run}-{number}" for run, size in (("one", 1), ("many", 6)) for number in range(size)]
    for topic in topics:
        world.propose(pi, sigma, topic)
    sigma.sync()
    for together in (topics[:1], topics[1:]):
        for topic in together:
            sigma.triage(f"pi/{topic}", "delete:no")
        sigma.process()
    started = []
    for name in ("pi/one-0", "pi/many-3"):
        events, config = tmp_path / name / "events", tmp_path / name / "gitconfig"
        events.mkdir(parents=True)
        config.write_text(f"[trace2]\n\teventTarget = {events}\n")
        found = json.loads(sigma.cn("why", name, "--json", env={"GIT_CONFIG_GLOBAL": str(config)}).stdout)
        assert len(found["decided"]["messages"]) == 1
        started.append(len(list(events.iterdir())))
    assert started[0] == started[1]
