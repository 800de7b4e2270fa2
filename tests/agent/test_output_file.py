"""``state/output.md`` as models write it by hand: executed whole, or not at all."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.desk import answer, archived, asked, clean, current, events, queue, shown, work_queue
from tests.support.hubs import branches, read
from tests.support.world import Node, World


@pytest.fixture
def agent(world: World, sigma: Node, pi: Node) -> Node:
    """sigma with two threads of pi's in its queue, the first in flight."""
    work_queue(sigma)
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    assert asked(sigma).endswith("-pi-one")
    return sigma


def test_all_ops_of_an_output_are_executed_in_the_order_listed(agent: Node, pi: Node) -> None:
    answer(
        agent,
        '```markdown\n---\nid: ID\nsend: pi|first | with a bar\nmca: Watch: the "retries" #1\n'
        "reply: ID|thanks\nmood: good\nack: ID\nsend: pi|second\n---\n\n"
        "The text | of the reply\nin two lines.\n```\n",
    )
    done = agent.process()
    assert "'mood' is unknown; ignored" in done.stdout
    rows = [row[1:] for row in agent.rows("pi/one")][1:]
    assert [*rows[:6], *sorted(rows[6:])] == [
        ("send:first", "queued"),
        ('surface:Watch: the "retries" #1', "✓ opened"),
        ("comment", "queued"),
        ("ack", "✓ acked"),
        ("send:second", "queued"),
        ("defer:answered by sigma", "✓ deferred"),
        ("comment", "✓ delivered"),
        ("send:first", "✓ delivered"),
        ("send:second", "✓ delivered"),
    ]
    reply = read(pi.home, "sigma/re-one:message.md").decode()
    assert reply.endswith("\n\nThe text | of the reply\nin two lines.\n")
    assert 'subject: "thanks"\n' in reply
    assert read(pi.home, "sigma/first:message.md").decode().endswith("\n\nwith a bar\n")
    assert read(pi.home, "sigma/second:message.md").decode().count("The text | of the reply") == 1
    assert len(list((agent.root / "state/mca").glob("*.md"))) == 1
    lines = [json.loads(line) for line in (agent.root / "logs/cn.log").read_text().splitlines()]
    (opened,) = [line for line in lines if line["decision"].startswith("surface:")]
    assert opened["input"] in archived(agent, "output")
    clean(agent)


def test_an_output_without_an_op_acknowledges(agent: Node, pi: Node) -> None:
    answer(agent, "---\nid: ID\n---\n")
    agent.process()
    assert agent.rows("pi/one")[1:] == [
        ("pi/one", "ack", "✓ acked (no op)"),
        ("pi/one", "notice:acked", "queued"),
        ("pi/one", "notice:acked", "✓ delivered"),
    ]


def test_a_bad_op_among_good_ones_stops_all_and_every_bad_one_is_named(agent: Node, pi: Node) -> None:
    wrote = answer(
        agent,
        "---\nid: ID\nreply: ID|fine\nsend: pi|hello\nsend: nobody|hello\nsurface:\nfail: ID\n"
        "delegate: ID|nobody\ndelete: ID\ncommit: ID|docs/none.md\n---\n",
    )
    given, trigger = shown(agent), current(agent)
    before = branches(pi.home)
    done = agent.cn("inbox", "process", check=1)
    for why in (
        "surface lacks the description",
        "fail lacks the reason",
        "'nobody' is no peer",
        "docs/none.md is not in main",
        "contradict each other",
    ):
        assert why in done.stderr, done.stderr
    assert branches(pi.home) == before
    assert agent.outbox() == agent.sent() == []
    assert not (agent.root / "state/mca").exists()
    assert archived(agent, "output") == {trigger: wrote}
    assert archived(agent, "input") == {trigger: given.encode()}
    assert len(agent.threads()) == 2
    # the same item again, and the agent is told why
    assert current(agent) == trigger
    assert "\nattempt: 2\nrejected: " in shown(agent)
    assert "fail lacks the reason" in shown(agent)
    assert shown(agent).partition("\n---\n")[2] == given.partition("\n---\n")[2]
    clean(agent)
    agent.idle()
    answer(agent, "---\nid: ID\nack: ID\n---\n")
    agent.process()
    assert sorted(archived(agent, "output")) == sorted(archived(agent, "input")) == [trigger, f"{trigger}-2"]
    assert asked(agent).endswith("-pi-two")


def test_a_wrong_or_missing_id_is_refused_and_the_input_stays(agent: Node, pi: Node) -> None:
    first = current(agent)
    for id, why in (("20200101-000000-abcdef", "its id is"), ("", "it has no id"), ("../../x", "its id is")):
        answer(agent, f"---\nid: {id}\nreply: {id}|hello\n---\n")
        done = agent.cn("inbox", "process", check=1)
        assert why in done.stderr
        assert first in done.stderr
        if why == "it has no id":
            break
        assert current(agent) == first
    assert agent.sent() == []
    assert not (agent.root / "x.md").exists()
    clean(agent)


def test_an_output_may_not_name_another_pending_thread(world: World, agent: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(agent, omega)
    world.propose(omega, agent, "theirs")
    agent.sync()
    (other,) = [n for n in agent.threads() if "omega" in n]
    text = agent.thread(other)
    answer(agent, f"---\nid: ID\nack: ID\ndelete: {other[:-3]}|no\nreply: {other}|hello\n---\n")
    done = agent.cn("inbox", "process", check=1)
    assert f"delete names '{other[:-3]}', which is not the input" in done.stderr
    assert f"reply names '{other}', which is not the input" in done.stderr
    assert agent.thread(other) == text
    assert len(agent.threads()) == 3
    assert agent.sent() == []


def test_three_rejections_make_a_dead_letter_and_the_queue_goes_on(agent: Node, pi: Node) -> None:
    first, name = current(agent), f"{asked(agent)}.md"
    for _ in range(3):
        answer(agent, "---\nid: ID\nsend: nobody|hi\n---\n")
        agent.cn("inbox", "process", check=1)
    view = queue(agent)
    assert [(d["id"], d["attempts"]) for d in view["dead"]] == [(first, 3)]
    assert "'nobody' is no peer" in view["dead"][0]["reason"]
    assert asked(agent).endswith("-pi-two")
    assert sorted(archived(agent, "output")) == [first, f"{first}-2", f"{first}-3"]
    assert name in agent.threads()
    for words in (("queue",), ("status",), ("doctor",)):
        assert first in agent.cn(*words, check=None).stdout, words
    rows = [row[1:] for row in agent.rows("pi/one")]
    assert rows.count(("notice:failed", "queued")) == rows.count(("notice:failed", "✓ delivered")) == 1
    assert ("dead letter", "given up after 3 attempts") in rows
    pi.sync()
    assert "pi/one" in branches(agent.home), "failed is not final: the branch stays"
    agent.idle()
    # a person has it tried again
    agent.cn("queue", "retry", first)
    view = queue(agent)
    assert view["dead"] == []
    (again,) = view["waiting"]
    assert again["source"] == "pi/one"
    assert (again["attempts"], again["id"] != first) == (0, True)
    answer(agent, "---\nid: ID\nack: ID|read it\n---\n")
    agent.process()
    assert current(agent) == again["id"]
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.process()
    assert agent.threads() == []
    assert len(archived(agent, "output")) == 5
    assert agent.cn("queue", "retry", first, check=1).stderr.startswith("cn: no dead letter")
    agent.idle()


def test_a_dead_letter_goes_when_its_thread_is_decided_another_way(agent: Node, pi: Node) -> None:
    agent.configure("max_attempts: 1\n")
    first = current(agent)
    answer(agent, "---\nid: ID\nsend: nobody|hi\n---\n")
    agent.cn("inbox", "process", check=1)
    assert [d["id"] for d in queue(agent)["dead"]] == [first]
    agent.decide("pi/one", "delete:by hand")
    assert queue(agent)["dead"] == []
    assert agent.listing("state/queue/dead") == []
    assert agent.cn("doctor", check=None).stdout.count(first) == 0
    clean(agent)


def test_what_is_cleared_waits_until_a_person_brings_it_back(agent: Node, pi: Node) -> None:
    (waiting,) = queue(agent)["waiting"]
    said = agent.cn("queue", "clear").stdout
    assert "took 1 out of the queue" in said
    view = queue(agent)
    assert view["waiting"] == []
    assert [d["id"] for d in view["dead"]] == [waiting["id"]]
    assert asked(agent).endswith("-pi-one"), "what is in flight stays"
    agent.idle()
    assert "nothing waits" in agent.cn("queue", "clear").stdout
    agent.cn("queue", "retry", "pi/two")
    assert [w["source"] for w in queue(agent)["waiting"]] == ["pi/two"]
    agent.idle()


def test_bytes_that_are_no_text_and_too_many_of_them_are_rejected(agent: Node, pi: Node) -> None:
    trigger = current(agent)
    first = answer(agent, b"---\nid: ID\nreply: ID|caf\xe9\n---\n")
    assert "0xE9" in agent.cn("inbox", "process", check=1).stderr
    second = answer(agent, b"---\nid: ID\nreply: ID|long\n---\n" + b"x" * (2 << 20))
    assert "bytes" in agent.cn("inbox", "process", check=1).stderr
    assert archived(agent, "output") == {trigger: first, f"{trigger}-2": second}
    assert agent.sent() == []
    answer(agent, b"---\nid: ID\nreply: ID|text\n---\n\nbody caf\xe9\n")
    agent.process()
    assert asked(agent).endswith("-pi-two")
    clean(agent)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("kind", ["symlink", "pipe", "folder"])
def test_what_is_no_plain_file_is_never_read_and_is_reported(agent: Node, pi: Node, kind: str) -> None:
    path, text = (agent.root / "state/output.md", f"---\nid: {current(agent)}\nreply: {current(agent)}|x\n---\n")
    before = shown(agent)
    if kind == "symlink":
        secret = agent.root.parent / "secret"
        secret.write_text(text)
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "x").write_text(text)
    done = agent.cn("inbox", "process", check=1)
    assert "state/output.md is not a plain file" in done.stderr
    assert agent.cn("inbox", "process").stderr == "", "told once"
    assert os.path.lexists(path), "it is not ours to remove"
    assert shown(agent) == before
    assert agent.sent() == []
    assert archived(agent, "output") == {}
    assert "plain file" in agent.cn("out", "do", "reply", "--message", "hello", check=1).stderr
    agent.cn("inbox", "sync")
    assert events(agent, "pi", topic="one") == ["received", "enqueued", "claimed"]


@pytest.mark.sliced(3)
@pytest.mark.parametrize("kind", ["symlink", "pipe", "folder"])
def test_what_is_no_plain_file_does_not_become_the_agents_input(agent: Node, pi: Node, kind: str) -> None:
    path, outside = agent.root / "state/input.md", agent.root.parent / "outside"
    given = path.read_bytes()
    path.unlink()
    outside.write_text("---\nid: 1\n---\nnot for you\n")
    if kind == "symlink":
        path.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    said = agent.cn("input", check=None)
    assert "not for you" not in said.stdout
    if kind == "folder":
        assert agent.cn("inbox", "process", check=1).stderr != ""
        path.rmdir()
    agent.process()
    assert path.read_bytes() == given
    assert not path.is_symlink()
    assert outside.read_text().endswith("not for you\n")


def test_back_at_triage_nothing_waits_for_the_agent(agent: Node, pi: Node) -> None:
    """What is left of the queue is a person's, and said to be; it can be cleared."""
    del pi
    path = agent.root / ".cn/hub.yaml"
    agent.write({".cn/hub.yaml": path.read_text().replace("interface: queue", "interface: triage")}, "back")
    agent.cn("sync", check=None)
    _, waiting = queue(agent)["waiting"]
    for words in (("inbox",), ("status",), ("inbox", "show", "pi/two"), ("queue",)):
        assert "waits for the agent" not in agent.cn(*words).stdout, words
    assert "nothing here is given to an agent" in agent.cn("queue").stdout
    assert "it is given to no agent" in agent.cn("why", waiting["id"]).stdout
    assert "'cn queue clear'" in agent.cn("doctor", check=None).stdout
    told = agent.cn("queue", "clear").stdout
    assert "took 2 out of the queue" in told
    assert "retry" not in told + agent.cn("queue").stdout
    assert queue(agent)["waiting"] == []
    assert "pi-two" in agent.cn("inbox").stdout
    assert "given up by the agent" not in agent.cn("inbox").stdout
    agent.decide("pi/two", "delete:by hand")
    assert "pi-two" not in agent.cn("inbox").stdout
