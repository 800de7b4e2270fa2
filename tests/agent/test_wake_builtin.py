"""The ways to wake that are built in: the runtime, and a chat. Each told as done only when it was."""

from __future__ import annotations

import pytest

from tests.support.desk import work_queue
from tests.support.hubs import git
from tests.support.model_server import KEY, MODEL, fill, model_server
from tests.support.telegram_server import USER, telegram_server
from tests.support.world import Node, World

ANSWER = "---\nid: {id}\nreply: {id}|Seen\n---\n\nIt looks good to me."


def test_the_runtime_is_run_and_answers_the_peer(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_queue(sigma)
    sigma.write({".cn/agent.yaml": f"llm:\n  model: {MODEL}\n"})
    git(sigma.root, "config", "cn.wake", "cn:agent")
    world.propose(pi, sigma)
    with model_server(lambda body: fill(ANSWER, body)) as server:
        monkeypatch.setenv("ANTHROPIC_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        done = sigma.sync()
        assert "woke the agent" in done.stdout
        assert len(server.calls) == 1
        assert len(sigma.threads()) == 1, "an answered proposal waits for its creator"
        pi.sync()
        assert "It looks good to me." in pi.thread(pi.only_thread())
        sigma.sync()
        assert len(server.calls) == 1, "nobody is woken twice"


def test_a_runtime_that_cannot_work_is_no_success(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    sigma.write({".cn/agent.yaml": f"llm:\n  model: {MODEL}\n"})
    git(sigma.root, "config", "cn.wake", "cn:agent")
    world.propose(pi, sigma)
    done = sigma.cn("sync", check=1)
    assert "woke" not in done.stdout
    assert "exit code 3" in done.stderr
    assert len(sigma.threads()) == 1


def test_a_person_is_told_in_a_chat(world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    git(sigma.root, "config", "cn.wake", f"cn:telegram:{USER}")
    world.propose(pi, sigma)
    with telegram_server() as server:
        server.chats.add(USER)
        monkeypatch.setenv("TELEGRAM_TOKEN", server.token)
        monkeypatch.setenv("TELEGRAM_BASE_URL", server.url)
        done = sigma.sync()
        assert "woke the agent" in done.stdout
        assert server.texts() == [f"you have inbox\n{sigma.only_thread()}"]
        sigma.sync()
        assert len(server.texts()) == 1


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("way", "reason"), [("cn:shell", "no way 'cn:shell'"), ("cn:telegram", "telegram"), ("cn:telegram:x", "no chat")]
)
def test_a_way_that_cannot_be_gone_is_told_and_tried_again(
    world: World, sigma: Node, pi: Node, way: str, reason: str
) -> None:
    git(sigma.root, "config", "cn.wake", way)
    world.propose(pi, sigma)
    done = sigma.cn("sync", check=1)
    assert "the wake command failed" in done.stderr
    assert reason in done.stderr
    assert "woke" not in done.stdout
    git(sigma.root, "config", "cn.wake", "true")
    assert "woke the agent" in sigma.sync().stdout
