"""Answers that come late, turns that run out, and other ways that decide a thread meanwhile."""

from __future__ import annotations

import re
import sys

import pytest

from tests.support.desk import answer, archived, asked, clean, current, events, let_pass, queue, shown, work_queue
from tests.support.hubs import branches, clone, git, identify
from tests.support.world import Node, World


@pytest.fixture
def agent(world: World, sigma: Node, pi: Node) -> Node:
    """sigma with two threads of pi's in its queue, the first in flight."""
    work_queue(sigma)
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    return sigma


@pytest.mark.sliced(2)
@pytest.mark.parametrize("way", ["triage", "command"])
def test_a_thread_decided_by_a_person_leaves_the_agent(agent: Node, pi: Node, way: str) -> None:
    first, second = current(agent), queue(agent)["waiting"][0]["id"]
    if way == "triage":
        agent.decide("pi/one", "delete:by hand")
    else:
        agent.cn("done", "pi/one")
    assert current(agent) == second
    wrote = answer(agent, f"---\nid: {first}\nreply: {first}|too late\n---\n")
    done = agent.cn("inbox", "process", check=1)
    assert f"logs/output/{first}-late.md" in done.stderr
    assert archived(agent, "output") == {f"{first}-late": wrote}
    assert current(agent) == second
    assert not (agent.root / "state/output.md").exists()
    messages = [b for b in branches(pi.home) if b.startswith("sigma/")]
    assert messages == ["sigma/notice-one"]
    assert len(agent.threads()) == 1
    clean(agent)
    agent.idle()
    agent.cn("done", "pi/two")
    assert shown(agent) == ""
    wrote = answer(agent, f"---\nid: {second}\ndelete: {second}\n---\n")
    assert "nothing is in flight" in agent.cn("inbox", "process", check=1).stderr
    assert archived(agent, "output")[f"{second}-late"] == wrote
    agent.idle()


def test_a_waiting_thread_decided_by_triage_never_becomes_an_input(agent: Node, pi: Node) -> None:
    agent.decide("pi/two", "delete:by hand")
    assert queue(agent)["waiting"] == []
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.process()
    assert shown(agent) == ""
    assert agent.listing("state/queue") == []
    agent.idle()


@pytest.mark.parametrize("how", ["command", "editor"])
def test_output_and_triage_for_the_same_thread_have_one_effect_the_persons(agent: Node, pi: Node, how: str) -> None:
    first = current(agent)
    wrote = answer(agent, "---\nid: ID\nreply: ID|by output\ndone: ID\n---\n")
    if how == "command":
        agent.triage("pi/one", "delete:by triage")
    else:
        (name,) = [one for one in agent.threads() if one.endswith("-pi-one.md")]
        agent.write_triage(name, "delete:by triage")
        git(agent.root, "commit", "--quiet", "--message", "Decided", "--", f"threads/inbox/{name}")
    told = agent.process().stdout
    assert "pi/one: delete:by triage by sigma stands in its thread, and goes first" in told
    assert f"the agent's answer is kept as {late(first)}" in told
    assert archived(agent, "output") == {f"{first}-late": wrote}
    assert ("delete:by triage", "✓ discarded") in [row[1:] for row in agent.rows("pi/one")]
    assert [b for b in branches(pi.home) if b.startswith("sigma/")] == ["sigma/notice-one"]
    assert agent.thread(agent.done()[0]).count("## Executed") == 1
    assert asked(agent).endswith("-pi-two"), "the agent goes on with the next"
    agent.idle()


def test_a_comment_on_what_the_agent_has_says_how_it_is_taken_back(agent: Node) -> None:
    first = current(agent)
    told = agent.cn("comment", "pi/one", "Do not answer", check=0).stdout
    assert "the agent was given it without this comment, and may answer so" in told
    assert "without this comment" not in agent.cn("comment", "pi/two", "Hello", check=0).stdout
    (step,) = re.findall(r"'(cn defer pi/one --reason) REASON'", " ".join(told.split()))
    agent.cn(*step.split()[1:], "ask first")
    assert current(agent) != first
    answer(agent, f"---\nid: {first}\ndelete: {first}\n---\n")
    assert late(first) in agent.cn("inbox", "process", check=1).stderr
    assert any(name.endswith("-pi-one.md") for name in agent.threads())


def test_a_decision_that_was_refused_before_keeps_no_answer_of_the_agent_back(agent: Node) -> None:
    agent.write_refused_triage("pi/one", "delegate:nobody")
    agent.cn("inbox", "process", check=1)
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    told = agent.process().stdout
    assert "pi/one: delegate:nobody by sigma is not carried out: the agent's answer was first" in told
    assert asked(agent).endswith("-pi-two")


def late(id: str) -> str:
    """Where an answer is kept that came too late."""
    return f"logs/output/{id}-late.md"


def test_a_decision_that_is_refused_leaves_the_thread_to_the_agent(agent: Node) -> None:
    first = current(agent)
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.triage("pi/one", "do:merge")
    git(agent.root, "config", "user.email", "pi@people.example")  # nobody merges what is his own
    (name,) = [one for one in agent.threads() if one.endswith("-pi-one.md")]
    agent.cn("inbox", "process", check=1)
    assert name in agent.threads()
    assert current(agent) == first
    assert not (agent.root / "state/output.md").exists()


def test_an_output_that_names_nobody_does_not_hinder_the_triage_of_its_thread(agent: Node, pi: Node) -> None:
    first = current(agent)
    agent.triage("pi/one", "delete:by triage")
    answer(agent, "---\nid: ID\nsend: nobody|hi\n---\n")
    agent.process()
    rows = [row[1:] for row in agent.rows("pi/one")]
    assert ("delete:by triage", "✓ discarded") in rows
    assert list(archived(agent, "output")) == [f"{first}-late"]
    assert asked(agent).endswith("-pi-two")
    assert queue(agent)["dead"] == []
    agent.idle()


def test_an_answer_to_a_branch_that_moved_is_void_and_the_new_head_is_asked_anew(
    world: World, agent: Node, pi: Node
) -> None:
    first = current(agent)
    wrote = answer(agent, "---\nid: ID\ndelete: ID|no\n---\n")
    head = world.propose(pi, agent, "one", {"docs/better.md": "better\n"}, force=True)
    done = agent.cn("inbox", "process", check=1)
    assert "its branch moved" in done.stderr
    assert archived(agent, "output") == {f"{first}-late": wrote}
    assert len(agent.threads()) == 2
    view = queue(agent)
    items = [view["in_flight"], *view["waiting"]]
    (one,) = [item for item in items if item["source"] == "pi/one"]
    assert (one["head"], one["id"] != first) == (head, True)
    assert len(items) == 2
    agent.idle()
    while current(agent):
        answer(agent, "---\nid: ID\nack: ID\n---\n")
        agent.process()
    assert agent.threads() == []
    assert [r[1:] for r in agent.rows("pi/one")].count(("ack", "✓ acked")) == 1
    agent.idle()


def test_a_turn_out_of_time_waits_again_behind_the_others_until_its_attempts_are_used_up(agent: Node, pi: Node) -> None:
    agent.configure("max_attempts: 2\n")
    first, given = current(agent), shown(agent)
    let_pass(agent)
    done = agent.cn("inbox", "sync", check=1)
    assert "the agent gave no answer in time" in done.stderr
    assert asked(agent).endswith("-pi-two"), "others pass"
    assert archived(agent, "input") == {first: given.encode()}
    assert archived(agent, "output") == {}
    (waiting,) = queue(agent)["waiting"]
    assert (waiting["id"], waiting["attempts"]) == (first, 1)
    told = [r[1:] for r in agent.rows("pi/one") if r[1].startswith("notice:")]
    assert told == [("notice:timed-out", "queued"), ("notice:timed-out", "✓ delivered")]
    agent.idle()
    pi.sync()
    assert "pi/one" in branches(agent.home), "timed out is not final"
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.process()
    assert current(agent) == first
    assert "attempt: 2\nrejected: no answer in" in shown(agent)
    let_pass(agent)
    agent.cn("inbox", "process", check=1)
    assert shown(agent) == ""
    assert [d["id"] for d in queue(agent)["dead"]] == [first]
    assert f"{first}-2" in archived(agent, "input")
    told = [r[1:] for r in agent.rows("pi/one") if r[1].startswith("notice:")]
    assert len(told) == 2, "the creator is told once a head"
    assert events(agent, "pi", topic="one").count("timed-out") == 2
    agent.idle()


def test_an_output_that_is_there_counts_before_the_clock(agent: Node, pi: Node) -> None:
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    let_pass(agent)
    agent.sync()
    assert events(agent, "pi", topic="one").count("timed-out") == 0
    agent.process()
    assert [r[1:] for r in agent.rows("pi/one")][1] == ("done", "✓ done")


@pytest.fixture
def second(world: World, sigma: Node, pi: Node) -> Node:
    """Another clone of sigma's hub."""
    root = clone(sigma.home, world.folder / "cn-sigma-2", trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    return Node("sigma", root, sigma.home, sigma.url)


def test_of_two_clones_one_has_the_turn_and_what_the_other_timed_out_is_late(
    agent: Node, pi: Node, second: Node
) -> None:
    first = current(agent)
    second.sync()
    assert second.cn("input").stdout == "nothing waits for an answer\n"
    assert queue(second)["in_flight"]["here"] is False
    assert "nothing waits" in second.cn("out", "do", "reply", "--message", "hi", check=1).stderr
    second.idle()
    # what somebody writes there by hand answers nothing
    stray = answer(second, f"---\nid: {first}\nreply: {first}|from the wrong clone\n---\n")
    assert "another clone" in second.cn("inbox", "process", check=1).stderr
    assert archived(second, "output") == {f"{first}-late": stray}
    let_pass(second)
    second.cn("inbox", "sync", check=1)
    assert asked(second).endswith("-pi-two")
    # the first clone has not heard of it and answers
    agent.cn("out", "do", "reply", "--message", "after all")
    wrote = (agent.root / "state/output.md").read_bytes()
    done = agent.cn("inbox", "process", check=1)
    assert f"{first}-late-2.md" in done.stderr
    assert archived(agent, "output") == {f"{first}-late": stray, f"{first}-late-2": wrote}
    assert shown(agent) == ""
    assert not (agent.root / "state/output.md").exists()
    second.cn("out", "delete", "--reason", "no")
    second.process()
    assert current(second) == first, "the one that was timed out is asked again, there"
    assert "attempt: 2" in shown(second)
    second.cn("out", "do", "reply", "--message", "here you are")
    second.process()
    agent.sync()
    assert agent.main == second.main
    assert agent.threads() == second.threads() == [agent.only_thread()], "an answered proposal waits"
    sent = sorted(b for b in branches(pi.home) if b.startswith("sigma/"))
    assert sent == ["sigma/notice-one", "sigma/notice-two", "sigma/re-one"]
    clean(agent)
    clean(second)
    agent.idle()
    second.idle()


def test_two_clones_at_once_take_one_turn(world: World, sigma: Node, pi: Node, second: Node) -> None:
    from tests.loop.test_two_clones import finish, start

    work_queue(sigma)
    git(second.root, "pull", "--quiet")
    git(second.root, "update-ref", "refs/cn/trusted", "HEAD")
    for topic in ("one", "two", "three"):
        world.propose(pi, sigma, topic)
    finish(start(sigma, "sync"), start(second, "sync"))
    finish(start(sigma, "sync"), start(second, "sync"))
    assert sorted(bool(shown(node)) for node in (sigma, second)) == [False, True]
    assert sigma.main == second.main
    assert events(sigma, "pi").count("claimed") == 1
    assert events(sigma, "pi").count("enqueued") == 3
    holder = sigma if shown(sigma) else second
    other = second if holder is sigma else sigma
    while current(holder):
        answer(holder, "---\nid: ID\ndone: ID\n---\n")
        finish(start(holder, "inbox", "process"), start(other, "sync"))
        while not current(holder) and current(other):
            holder, other = other, holder
    for node in (sigma, second):
        node.sync()
    assert sigma.threads() == []
    assert [d for _, d, _ in sigma.rows()].count("done") == 3
    assert len([b for b in branches(pi.home) if b.startswith("sigma/")]) == 3


def test_a_late_answer_written_twice_is_kept_twice(agent: Node, pi: Node) -> None:
    first = current(agent)
    agent.cn("done", "pi/one")
    one = answer(agent, f"---\nid: {first}\nreply: {first}|one\n---\n")
    agent.cn("inbox", "process", check=1)
    two = answer(agent, f"---\nid: {first}\nreply: {first}|two\n---\n")
    agent.cn("inbox", "process", check=1)
    assert archived(agent, "output") == {f"{first}-late": one, f"{first}-late-2": two}


@pytest.mark.parametrize("way", ["command", "elsewhere"])
def test_a_late_answer_is_put_away_before_another_item_is_given_and_the_agent_woken(
    world: World, agent: Node, way: str
) -> None:
    """A person decides what the agent has answered already, here or in another clone; what comes next is answered."""
    first = current(agent)
    turn = world.folder / "turn.sh"
    turn.write_text(
        "set -e\nid=$(cn input -q | sed -n '2s/^id: //p')\ncn out do reply --item \"$id\" --message hello\n"
    )
    turn.write_text(turn.read_text().replace("cn ", f"{sys.executable} -m cn "))
    git(agent.root, "config", "cn.wake", f"sh {turn}")
    agent.cn("out", "do", "reply", "--message", "read it")
    wrote = (agent.root / "state/output.md").read_bytes()
    if way == "command":
        done = agent.cn("defer", "pi/one", "--reason", "later")
    else:
        second = world.second(agent)
        git(second.root, "config", "cn.agent", "false")
        second.cn("defer", "pi/one", "--reason", "later")
        done = agent.sync()
    kept = f"state/output.md answers nothing that is in flight any more; it is kept as logs/output/{first}-late.md"
    assert kept in done.stdout
    assert archived(agent, "output") == {f"{first}-late": wrote}
    agent.sync()
    assert asked(agent).endswith("-pi-two")
    assert f"reply: {current(agent)}|hello" in (agent.root / "state/output.md").read_text()
    assert "wake" not in agent.cn("status", "--check").stdout
    agent.process()
    assert archived(agent, "output").keys() == {f"{first}-late", *archived(agent, "input")}
    agent.idle()


def test_an_answer_to_an_item_that_is_given_again_is_not_put_away(agent: Node) -> None:
    first = current(agent)
    let_pass(agent)
    agent.cn("inbox", "sync", check=1)
    assert asked(agent).endswith("-pi-two")
    answer(agent, f"---\nid: {first}\ndone: {first}\n---\n")
    agent.cn("done", "pi/two")
    assert current(agent) == first
    agent.sync()
    agent.process()
    assert ("done", "✓ done") in [r[1:] for r in agent.rows("pi/one")]
    agent.idle()


def test_what_was_left_of_an_earlier_item_is_put_away_when_the_next_one_is_given(
    world: World, agent: Node, pi: Node
) -> None:
    agent.cn("done", "pi/two")
    first = current(agent)
    agent.cn("done", "pi/one")
    wrote = answer(agent, f"---\nid: {first}\nreply: {first}|too late\n---\n")
    world.propose(pi, agent, "three")
    agent.sync()
    assert asked(agent).endswith("-pi-three")
    assert archived(agent, "output")[f"{first}-late"] == wrote
    agent.cn("out", "do", "ack", "--reason", "seen")
    agent.process()
    agent.idle()
