"""Several ops in one answer, ops about other threads, answers without a block, and the brake on automatic answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cn.protocol.log import Row, append_rows, log_path
from tests.support.desk import answer, archived, asked, current, queue, shown, work_queue
from tests.support.hubs import read
from tests.support.world import Node, World


@pytest.fixture
def agent(world: World, sigma: Node, pi: Node) -> Node:
    """sigma with a question of pi's in flight."""
    del world
    work_queue(sigma)
    pi.cn("send", "sigma", "question", "--body", "Which licence is it?")
    sigma.sync()
    return sigma


def said_to(pi: Node) -> str:
    return read(pi.home, "sigma/re-question:message.md").decode()


def said_about(pi: Node, topic: str) -> str:
    return read(pi.home, f"sigma/re-{topic}:message.md").decode()


def test_a_reply_is_sent_before_another_op_ends_the_item_and_each_op_is_a_row(agent: Node, pi: Node) -> None:
    answer(agent, "---\nid: ID\ndefer: ID|3d|ask the lawyer\nreply: ID|I ask\nack: ID\n---\n\nI ask a lawyer first.\n")
    agent.process()
    assert [row[1:] for row in agent.rows("pi/question")][1:5] == [
        ("defer:ask the lawyer", "✓ deferred"),
        ("notice:deferred", "queued"),
        ("comment", "queued"),
        ("ack", "✓ acked"),
    ]
    assert said_to(pi).endswith("\n\nI ask a lawyer first.\n")
    thread = agent.thread(agent.only_thread())
    assert thread.index("> I ask a lawyer first.") < thread.index("## Deferred")
    assert shown(agent) == ""
    agent.idle()


def test_what_was_put_off_comes_back_with_what_both_sides_said(agent: Node, pi: Node) -> None:
    answer(agent, "---\nid: ID\nreply: ID|Which one do you mean?\ndefer: ID|3d\n---\n")
    agent.process()
    pi.sync()
    pi.cn("reply", pi.only_thread(), "The one of the *logo*.")
    agent.sync()
    assert asked(agent).endswith("-pi-question")
    text = shown(agent)
    ours, theirs = "> Which one do you mean?", "> The one of the *logo*."
    assert text.index("> Which licence is it?") < text.index(ours) < text.index(theirs)


def test_two_ops_that_contradict_each_other_are_both_named(agent: Node, pi: Node) -> None:
    answer(agent, "---\nid: ID\ndefer: ID|3d\nfail: ID|no idea\n---\n")
    done = agent.cn("inbox", "process", check=1)
    assert "|no idea contradict each other" in done.stderr
    assert "defer: " in done.stderr
    assert "attempt: 2" in shown(agent)
    assert agent.sent() == []


def test_prose_for_a_peer_is_acknowledged_and_kept(agent: Node, pi: Node) -> None:
    trigger = current(agent)
    wrote = answer(agent, "I have read it. Done: nothing is to be done.\n")
    agent.process()
    assert ("ack", "✓ acked (no op)") in [row[1:] for row in agent.rows("pi/question")]
    assert archived(agent, "output") == {trigger: wrote}


def test_a_key_that_is_no_op_does_not_end_an_item_without_its_words(agent: Node, pi: Node) -> None:
    trigger = current(agent)
    wrote = f"---\nid: {trigger}\ncomment: {trigger}|Which one?\n---\n"
    answer(agent, wrote)
    done = agent.cn("inbox", "process", check=1)
    assert "no op is called comment" in done.stderr
    assert f"'reply: {trigger}|TEXT' answers" in done.stderr
    assert "attempt: 2" in shown(agent)
    assert "ack" not in [row[1] for row in agent.rows("pi/question")]
    answer(agent, "---\nid: ID\nmood: good\nack: ID\n---\n")
    assert "key 'mood' is unknown" in agent.process().stdout
    assert agent.threads() == []


@pytest.mark.parametrize("text", ["---\nid: ID\nmerge: ID\n---\n", "---\nid: ID\n---\n\nWhy so?\n", "Why so?\n"])
def test_what_has_no_op_ends_no_proposal_with_its_words(world: World, sigma: Node, pi: Node, text: str) -> None:
    work_queue(sigma)
    world.propose(pi, sigma, "fix", {"fix.txt": "fix\n"})
    sigma.sync()
    answer(sigma, text)
    done = sigma.cn("inbox", "process", check=1)
    assert "it has no op" in done.stderr
    assert "|TEXT' answers and keeps the proposal" in done.stderr
    assert "attempt: 2" in shown(sigma)
    pi.sync()
    assert world.has_branch(pi, sigma, "fix")
    answer(sigma, "---\nid: ID\nreply: ID|Why so?\n---\n")
    sigma.process()
    pi.sync()
    assert "Why so?" in said_about(pi, "fix")
    assert world.has_branch(pi, sigma, "fix")
    assert sigma.rows("pi/fix")[-1][1] != "ack"


def test_prose_that_may_be_meant_for_an_earlier_item_is_refused(agent: Node, pi: Node) -> None:
    first = current(agent)
    pi.cn("send", "sigma", "another", "--body", "And this?")
    agent.cn("done", "pi/question")
    agent.sync()
    assert asked(agent).endswith("-pi-another")
    answer(agent, "It is MIT.\n")
    assert f"may be an answer to {first}" in agent.cn("inbox", "process", check=1).stderr
    answer(agent, "---\nid: ID\nack: ID\n---\n")
    agent.process()
    assert agent.threads() == []


@pytest.mark.parametrize(
    "text", ["reply: {id}|yes\n", "cn out do ack --reason x\n", '{{"id": "{id}"}}\n', "send: pi|hello\n"]
)
def test_what_was_meant_as_a_block_is_no_prose(agent: Node, pi: Node, text: str) -> None:
    answer(agent, text.format(id=current(agent)))
    assert "it has no id" in agent.cn("inbox", "process", check=1).stderr
    assert "attempt: 2" in shown(agent)


def test_an_op_may_name_another_open_thread_where_the_hub_lets_it(agent: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "another", "--body", "And this?")
    agent.sync()
    agent.cn("adhoc", "A note of ours")
    agent.configure("agent:\n  scope: hub\n")
    (note,) = agent.listing("threads/adhoc")
    other = next(name for name in agent.threads() if name.endswith("-another.md"))
    answer(
        agent, f"---\nid: ID\nreply: {other}|Yes, that too\ndone: ID\ndelete: {note}\ndone: pi/nowhere\n---\n\nMIT.\n"
    )
    assert "done names 'pi/nowhere', which is not the input" in agent.cn("inbox", "process", check=1).stderr
    assert len(agent.threads()) == 2, "all of it or nothing"
    answer(agent, f"---\nid: ID\nreply: {other}|Yes, that too\ndone: ID\ndelete: {note}\n---\n\nMIT.\n")
    agent.process()
    assert agent.threads() == []
    assert queue(agent)["waiting"] == []
    assert read(pi.home, "sigma/re-another:message.md").decode().endswith("\n\nYes, that too\n")
    assert "**State:** discarded" in (agent.root / "threads/adhoc" / note).read_text()
    agent.idle()


def test_a_chain_of_automatic_answers_ends_at_a_person(world: World, agent: Node, pi: Node) -> None:
    work_queue(pi)
    for node in (agent, pi):
        node.configure("limits:\n  hops: 3\n")
    for _ in range(12):
        for node in (pi, agent):
            node.cn("sync", check=None)
            if current(node):
                answer(node, "---\nid: ID\nreply: ID|And you?\n---\n")
                node.process()
    held = [one for node in (agent, pi) for one in queue(node)["held"]]
    assert [one["hops"] for one in held] == [3]
    holder = agent if queue(agent)["held"] else pi
    assert "waits for a person: 3 automatic answers in a row" in holder.cn("status").stdout
    assert [current(node) for node in (agent, pi)] == ["", ""]
    # a person's hand begins anew
    other = pi if holder is agent else agent
    holder.cn("reply", held[0]["source"], "Hello, I am a person.")
    other.sync()
    assert "Hello, I am a person." in shown(other)


def test_many_items_acknowledged_without_a_word_are_shown_as_that(agent: Node, pi: Node) -> None:
    del pi
    at = datetime.now(UTC).replace(hour=0, minute=1)
    path = log_path(at)
    rows = [Row(at, f"pi/more-{number}", "ack", "✓ acked (no op)") for number in range(5)]
    before = (agent.root / path).read_text() if (agent.root / path).exists() else ""
    agent.write({path: append_rows(before, [*rows, Row(at, "pi/read", "ack:I know", "✓ acked")])}, "of the night")
    assert [burst["items"] for burst in queue(agent)["bursts"]] == [5]
    assert "5 items were acknowledged within a minute, without a word" in agent.cn("status").stdout
