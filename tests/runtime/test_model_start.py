"""The model is looked up before an item is claimed, and not at every turn."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.desk import answer, queue, work_queue
from tests.support.model_server import model_server
from tests.support.runtime import agent, events, open_item, says, work_runtime
from tests.support.world import Node, World


@pytest.fixture
def hub(world: World) -> Node:
    node = world.hub("sigma", origin=False)
    work_runtime(node)
    return node


def test_a_model_that_is_not_there_costs_no_item_anything(hub: Node) -> None:
    open_item(hub, "First")
    with model_server(models=("other-1",)) as server:
        done = agent(hub, server, check=3)
        assert "there is no model claude-sonnet-5-5" in done.stderr
        assert "llm.model" in done.stderr
        assert server.calls == []
        server.key = "another"
        assert "ANTHROPIC_KEY" in agent(hub, server, check=3).stderr
    found = queue(hub)
    assert (found["in_flight"], len(found["waiting"]), found["waiting"][0]["attempts"]) == (None, 1, 0)
    assert hub.cn("agent", check=3).stdout == ""  # no key at all
    assert queue(hub)["in_flight"] is None


def test_a_good_answer_holds_and_an_idle_run_asks_nobody(hub: Node) -> None:
    with model_server() as server:
        agent(hub, server)
        assert server.requests == []
        says(server, "ack: {id}")
        for title in ("First", "Second"):
            open_item(hub, title)
            agent(hub, server)
        assert [seen.path for seen in server.requests].count("/v1/models/claude-sonnet-5-5") == 1
        assert len(server.calls) == 2
    assert [event["stop"] for event in events(hub)] == ["asked", "end_turn"] * 2
    assert all(event["parts"] and len(event["main"]) == 40 for event in events(hub))


def test_where_nobody_can_tell_it_is_told_once_and_goes_on(hub: Node) -> None:
    with model_server(has_models_api=False) as server:
        says(server, "ack: {id}")
        open_item(hub, "First")
        assert "was not checked" in agent(hub, server).stdout
        open_item(hub, "Second")
        assert "was not checked" not in agent(hub, server).stdout
        assert len(server.calls) == 2


def test_the_level_of_the_configuration_says_how_much_is_told_and_the_command_line_comes_first(hub: Node) -> None:
    def told(level: str, *args: str) -> str:
        work_runtime(hub, more=f"logging:\n  level: {level}\n")
        open_item(hub, level)
        return agent(hub, server, *args).stdout

    with model_server(has_models_api=False) as server:
        says(server, "ack: {id}")
        assert "was not checked" in told("info")
        known = hub.root / ".git/cn/local.json"
        data = json.loads(known.read_text())
        del data["models"]  # it is looked up, and told, once more
        known.write_text(json.dumps(data))
        assert "was not checked" in told("debug")
        assert [told("warning"), told("error")] == ["", ""]
        assert "ack by sigma" in told("warning", "-v")
        assert told("debug", "-q") == ""
    hub.write({".cn/agent.yaml": "logging:\n  level: error\n"}, "no model")
    assert "llm.model" in hub.cn("agent", check=3).stderr


def healthy(node: Node) -> bool:
    return node.cn("status", "--check", check=None).returncode == 0


def answer_as_another_agent(node: Node) -> None:
    open_item(node, "First")
    node.cn("inbox", "process")
    answer(node, "---\nid: ID\nack: ID\n---\n")
    node.cn("inbox", "process")


@pytest.mark.parametrize(
    "over",
    [
        lambda hub: work_queue(hub, "triage"),
        lambda hub: hub.write({".cn/agent.yaml": "llm:\n  model: claude-other-1\n"}, "another model"),
        lambda hub: hub.write({".cn/agent.yaml": None}, "no model"),
        answer_as_another_agent,
    ],
    ids=["triage", "changed", "removed", "another agent"],
)
@pytest.mark.parametrize("process", ["sync", "inbox process"])
def test_a_missing_key_is_told_as_long_as_it_may_be_needed(
    hub: Node, over: Callable[[Node], None], process: str
) -> None:
    hub.cn("agent", check=3)
    hub.cn(*process.split())
    assert not healthy(hub), "it holds still"
    over(hub)
    hub.cn(*process.split())
    assert "llm.api_key" not in hub.cn("status").stdout
    assert healthy(hub)
    work_queue(hub, "queue", more="# again\n")
    hub.cn("agent", check=3)
    assert not healthy(hub)


@pytest.mark.parametrize("words", [(), ("--process",)])
def test_an_agent_that_finds_its_key_tells_it_as_missing_no_more(hub: Node, words: tuple[str, ...]) -> None:
    """The printed step, followed literally; no item waits."""
    with model_server() as server:
        agent(hub, server)  # the model is known for a day
        server.requests.clear()
        hub.cn("agent", *words, check=3)
        assert "in the environment; then 'cn agent' looks again" in hub.cn("status").stdout
        agent(hub, server, *words)
        assert healthy(hub)
        assert server.calls == [], "no model is asked for it"


def test_a_model_that_is_not_there_is_told_until_it_is(hub: Node) -> None:
    with model_server(models=("other-1",)) as server:
        agent(hub, server, "--look", check=3)
        agent(hub, server, check=3)  # nothing waits, and it is wrong still
        assert not healthy(hub)
    with model_server() as server:
        agent(hub, server)
        assert healthy(hub)
