"""``cn done|defer|delegate|delete THREAD``: a person decides as the agent would."""

from __future__ import annotations

import re

import pytest

from tests.agent.test_out_command import omega  # noqa: F401
from tests.support.desk import clean, current, events, queue, work_queue
from tests.support.hubs import branches, read
from tests.support.world import Node, World

WAYS = {
    "done": ("done: ID", ("done", "THREAD")),
    "defer": ("defer: ID|3d|until the release", ("defer", "THREAD", "--reason", "until the release", "--until", "3d")),
    "delete": ("delete: ID|not for us", ("delete", "THREAD", "--reason", "not for us")),
    "delegate": ("delegate: ID|omega", ("delegate", "THREAD", "omega")),
    "assign": ("delegate: ID|rhea", ("delegate", "THREAD", "rhea")),
}


def plain(text: str, topic: str) -> str:
    """``text`` without its topic, times, and ids."""
    text = text.replace(topic, "TOPIC")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z", "TIME", text)
    text = re.sub(r"(?m)^- TIME input \d{8}-\d{6}-[0-9a-f]{6}\n", "", text)
    text = re.sub(r" input=\S+", "", text)
    return re.sub(r"\b[0-9a-f]{10,40}\b", "HEX", text)


def outcome(sigma: Node, peers: tuple[Node, ...], topic: str) -> dict[str, object]:
    """What came of a topic: thread, ledger, log, messages."""
    name = next(n for n in [*sigma.threads(), *sigma.done()] if n.endswith(f"-{topic}.md"))
    about = [
        (branch.replace(topic, "TOPIC"), plain(read(peer.home, f"{branch}:message.md").decode(), topic))
        for peer in peers
        for branch in branches(peer.home)
        if branch.startswith("sigma/") and topic in branch
    ]
    ledger = "".join(p.read_text() for p in (sigma.root / "state/ledger/pi").glob("2*"))
    lines = [line for line in ledger.split("\n") if f" {topic} " in line]
    return {
        "pending": name in sigma.threads(),
        "thread": plain(sigma.thread(name), topic),
        "ledger": [plain(line, topic) for line in lines if " claimed " not in line],
        "log": sorted(row[1:] for row in sigma.rows(f"pi/{topic}")),
        "messages": about,
    }


def test_a_person_and_the_agent_come_to_the_same_by_the_same_op(
    world: World,
    sigma: Node,
    pi: Node,
    omega: Node,  # noqa: F811
) -> None:
    for verb in WAYS:
        for who in ("agent", "human"):
            world.propose(pi, sigma, f"{who}-{verb}", {"docs/x.md": f"{who}-{verb}\n"})
    sigma.sync()
    while current(sigma):
        (item,) = [queue(sigma)["in_flight"]]
        who, verb = item["source"].removeprefix("pi/").split("-")
        op, words = WAYS[verb]
        if who == "agent":
            (sigma.root / "state/output.md").write_text(f"---\nid: ID\n{op}\n---\n".replace("ID", item["id"]))
            sigma.process()
        else:
            sigma.cn(*(f"pi/human-{verb}" if word == "THREAD" else word for word in words))
    clean(sigma)
    for verb in WAYS:
        mine, theirs = (outcome(sigma, (pi, omega), f"{who}-{verb}") for who in ("human", "agent"))
        assert mine == theirs, verb
        assert len(mine["messages"]) == {"assign": 0, "delegate": 2}.get(verb, 1)  # type: ignore[arg-type]
    sigma.idle()


@pytest.mark.sliced(2)
@pytest.mark.parametrize("interface", ["triage", "queue"])
def test_a_command_decides_only_what_is_pending_and_by_whom_it_may(
    world: World, sigma: Node, pi: Node, interface: str
) -> None:
    work_queue(sigma, interface)
    world.propose(pi, sigma)
    sigma.sync()
    main = sigma.main
    for words, why in (
        (("done", "pi/nothing"), "pi/nothing"),
        (("done", "pi/proposal", "--actor", "mallory"), "mallory"),
        (("delegate", "pi/proposal", "nobody"), "nobody"),
        (("delegate", "pi/proposal", "sigma"), "sigma"),
        (("delegate", "pi/proposal", "pi"), "pi"),
        (("defer", "pi/proposal", "--until", "2020-01-01"), "is over"),
    ):
        done = sigma.cn(*words, check=1)
        assert why in done.stderr, words
        assert sigma.main == main
    assert "would: pi/proposal" in sigma.cn("delete", "pi/proposal", "--dry-run").stdout
    assert sigma.main == main
    sigma.cn("delete", "pi/proposal")
    assert events(sigma, "pi", topic="proposal")[-1] == "decided"
    assert "decision: delete:decided by sigma" in sigma.thread(sigma.done()[0])
    sigma.cn("delete", "pi/proposal", check=1)
    sigma.idle()


def test_a_command_refuses_a_thread_that_the_person_did_not_see(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    text = path.read_text()
    path.write_text(re.sub(r"\*\*Head:\*\* [0-9a-f]{40}", "**Head:** " + "1" * 40, text))
    assert "shows the head 11111111" in sigma.cn("done", "pi/proposal", check=1).stderr
    path.write_text(text)
    sigma.cn("done", "pi/proposal")


def test_what_the_agent_would_get_of_who_is_no_peer_any_more_waits_for_a_person(
    world: World, sigma: Node, pi: Node
) -> None:
    """It was taken out of the queue with the peer; what the agent has it keeps."""
    work_queue(sigma)
    for topic in ("first", "second"):
        world.propose(pi, sigma, topic, {"docs/x.md": f"{topic}\n"})
    sigma.sync()
    assert "the agent" in sigma.cn("status").stdout
    sigma.cn("peer", "remove", "pi")
    sigma.sync()
    shown = sigma.cn("status").stdout
    assert "to decide" in shown
    listed = shown.partition("to decide")[2].split("\n\n")[0]
    (left,) = [item for item in ("first", "second") if f"-pi-{item}" in listed]
    assert "of no peer now" in shown
    told = sigma.cn("why", f"pi/{left}").stdout
    assert "was taken out of the queue, and no agent was given it" in told
    assert f"received pi/{left}" in told
    sigma.cn("delete", f"pi/{left}", "--reason", "left")
    assert left not in sigma.cn("inbox").stdout
