"""``cn replay`` on real hubs: archived items are asked again, nothing is done, decisions are compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.docs.blocks import blocks
from tests.support.model_server import MODEL, ModelServer, Reply, model_server
from tests.support.runtime import agent, environment, events, open_item, says, work_runtime
from tests.support.world import Node, World, picture


def replay(node: Node, server: ModelServer | None, *args: str, check: int = 0) -> Any:
    done = node.cn("replay", "--json", *args, env=environment(server), check=check)
    return json.loads(done.stdout)


def answered(node: Node, server: ModelServer, title: str, *lines: str, body: str = "") -> str:
    """An item that the model answered; its id."""
    says(server, *lines, body=body)
    id = open_item(node, title)
    agent(node, server)
    assert (node.root / f"logs/output/{id}.md").exists()
    return id


@pytest.fixture
def hub(world: World) -> Node:
    node = world.hub("sigma", origin=False)
    work_runtime(node)
    return node


def test_decisions_are_compared_and_nothing_is_done(hub: Node) -> None:
    with model_server() as server:
        first = answered(hub, server, "First", "ack: {id}")
        second = answered(hub, server, "Second", "done: {id}")
        rejected = open_item(hub, "Third")
        server.next(Reply("---\nid: wrong\nack: wrong\n---\n"))
        agent(hub, server, "--process", check=1)
        says(server, "fail: {id}|too hard")
        before, refs = picture(hub.root), hub.refs()
        rows = replay(hub, server)
        oldest_first = sorted((first, second))  # ids of one second are told apart by a random part
        was = {first: "ack", second: "done"}
        assert [(r["id"], r["before"]["ending"], r["now"]["ending"], r["changed"]) for r in rows] == [
            (id, was[id], "fail", "decision") for id in oldest_first
        ]
        (one,) = replay(hub, server, rejected)
        assert one["before"]["rejected"][0].startswith("valid-output: ")
        assert (one["before"]["ending"], one["now"]["ending"], one["changed"]) == (None, "fail", "decision")
        says(server, "ack: {id}|seen")
        screen = hub.cn("replay", first, env=environment(server)).stdout
        assert [line.split()[-1] for line in screen.splitlines()[:2]] == ["CHANGED", "words"]
        assert "1 compared: 0 decided otherwise, 1 in other words" in screen
        asked = server.calls[-1].json
        assert asked["messages"][-1]["content"] == (hub.root / f"logs/input/{first}.md").read_text()
    after = picture(hub.root)
    changed = {path.removeprefix(str(hub.root)) for path in before.keys() | after.keys()
               if before.get(path) != after.get(path)}  # fmt: skip
    assert changed == {"/logs/cn.log"}
    assert hub.refs() == refs
    made = [event for event in events(hub) if event.get("replay") and event["stop"] != "asked"]
    assert [event["input"] for event in made] == [*oldest_first, rejected, first]
    usage = json.loads(hub.cn("usage", "--json").stdout)
    assert (usage["total"]["replays"], usage["total"]["calls"]) == (4, 7)
    (block,) = [b for b in blocks() if b.name == "replay-shape"]
    documented = json.loads(block.text)
    assert list(documented[0]) == list(rows[0])
    assert list(documented[0]["now"]) == list(rows[0]["now"])


def test_a_failed_call_is_a_row_and_the_others_go_on(hub: Node) -> None:
    with model_server() as server:
        ids = [answered(hub, server, title, "ack: {id}") for title in ("One", "Two")]
        server.next(Reply(status=400, message="no"), Reply("cut", stop="max_tokens"))
        rows = replay(hub, server, *ids, check=1)
        assert [row["now"] for row in rows] == [None, None]
        assert ["status 400" in rows[0]["error"], "max_tokens" in rows[1]["error"]] == [True, True]
        done = hub.cn("replay", ids[0], env=environment(server))
        assert "no" in done.stdout.splitlines()[1]
        calls = len(server.calls)
        assert "no archived pair" in hub.cn("replay", ids[0], "nothing", check=1).stderr
        unknown = hub.cn("replay", "--model", "claude-nobody-1", env=environment(server), check=3)
        assert "there is no model claude-nobody-1" in unknown.stderr
        assert len(server.calls) == calls


def test_a_dry_run_needs_no_key_and_sends_nothing(hub: Node) -> None:
    with model_server() as server:
        id = answered(hub, server, "One", "ack: {id}")
    before = picture(hub.root)
    rows = json.loads(hub.cn("replay", "--dry-run", "--json", "--model", "other-1").stdout)
    assert [(row["id"], row["model"]) for row in rows] == [(id, "other-1")]
    assert rows[0]["tokens"] > 100
    assert "would send 1 requests" in hub.cn("replay", "--dry-run", "--since", "1d").stdout
    assert json.loads(hub.cn("replay", "--dry-run", "--json", "--since", "2999-01-01").stdout) == []
    assert picture(hub.root) == before


def test_a_budget_stops_it_before_a_call(world: World) -> None:
    hub = world.hub("sigma", origin=False)
    work_runtime(hub, "budgets:\n  turns_per_hour: 2\n", hub="local: [logs/input, logs/output]\n")
    with model_server() as server:
        id = answered(hub, server, "One", "ack: {id}")
        (row,) = replay(hub, server, id)
        assert row["changed"] == "none"
        (row,) = replay(hub, server, id, check=1)
        assert row["error"].startswith("not sent: 2 of 2 turns are used")
        assert len(server.calls) == 2
    assert MODEL in {event["model"] for event in events(hub)}


def test_a_server_that_is_down_is_asked_once(hub: Node) -> None:
    with model_server() as server:
        for title in ("First", "Second", "Third"):
            answered(hub, server, title, "ack: {id}")
    before = len(events(hub))
    done = hub.cn("replay", env=environment(server), check=1)
    assert done.stderr.count("cannot be reached") == 3
    assert done.stderr.count("not sent: ") == 2
    asked = [event for event in events(hub)[before:] if event.get("event") == "model"]
    assert len({event["call"] for event in asked}) == 1
