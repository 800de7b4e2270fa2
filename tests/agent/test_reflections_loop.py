"""What time alone brings to the agent: a reflection after a day with activity, open concerns weekly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cn.protocol.queue_item import Cadence, period
from tests.support.desk import answer, clean, current, queue, shown, work_queue
from tests.support.hubs import git
from tests.support.world import Node, World

HEAD = "# Inbox log {day}\n\n| Time | Source | Decision | Executed |\n|------|--------|----------|----------|\n"


def days_ago(days: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}"


def active(node: Node, *days: int, row: str = "pi/old | received | —") -> None:
    """Commit a log as a run of cn leaves it on that day."""
    for day in days:
        text = HEAD.format(day=days_ago(day)) + f"| 09:00 | {row} |\n"
        node.write({f"logs/inbox/{days_ago(day)}.md": text}, "a day")


def week_is_reflected_on(node: Node) -> None:
    """Commit a later week's reflection: on a Monday the week of yesterday asks for one of its own."""
    week = period(Cadence.WEEKLY, datetime.now(UTC) + timedelta(days=7))
    node.write({f"threads/reflections/weekly/{week}.md": "A week.\n"}, "a week")


@pytest.fixture
def agent(sigma: Node, pi: Node) -> Node:
    """sigma, who works a queue."""
    work_queue(sigma)
    return sigma


def test_a_day_with_activity_is_reflected_on_once_and_the_answer_stands_in_its_file(agent: Node) -> None:
    active(agent, 1)
    week_is_reflected_on(agent)
    name = days_ago(1)
    agent.sync()
    text = shown(agent)
    assert "\nfrom: sigma\ncadence: daily\n" in text
    assert f"# Daily reflection {name}" in text
    assert "> | 09:00 | pi/old | received | — |" in text
    view = queue(agent)
    assert (view["in_flight"]["source"], view["waiting"]) == (f"daily/{name}", [])
    agent.idle()
    answer(agent, "---\nid: ID\nreply: ID|quiet\n---\n\nA quiet day.\n\nNothing to learn from it.\n")
    agent.process()
    path = f"threads/reflections/daily/{name}.md"
    written = git(agent.root, "show", f"main:{path}")
    assert "A quiet day.\n\nNothing to learn from it." in written
    assert (agent.root / path).read_text().rstrip("\n") == written
    assert shown(agent) == ""
    assert agent.notices() == [], "nobody is told: it came from nobody"
    (row,) = [r for r in agent.rows() if r[0] == f"daily/{name}"]
    assert row[2] == "✓ written"
    clean(agent)
    agent.idle()
    forget_the_hour(agent)
    agent.idle()
    assert queue(agent)["in_flight"] is None


def forget_the_hour(node: Node) -> None:
    """The agenda is looked at once an hour; losing what a clone remembers costs a look."""
    (node.root / ".git/cn/local.json").unlink(missing_ok=True)


def test_an_idle_day_and_one_of_reflections_only_ask_for_nothing(agent: Node) -> None:
    active(agent, 2, row="daily/20260101 | reply:done | ✓ written")
    active(agent, 20)
    agent.sync()
    assert shown(agent) == ""
    assert not (agent.root / "threads/reflections/daily").exists() or agent.listing("threads/reflections/daily") == []
    agent.idle()


def test_the_inbox_comes_before_what_time_brings(world: World, agent: Node, pi: Node) -> None:
    active(agent, 1)
    world.propose(pi, agent)
    agent.sync()
    view = queue(agent)
    assert view["in_flight"]["source"] == "pi/proposal"
    assert [w["cadence"] for w in view["waiting"]] == ["daily"]


def test_a_surfaced_concern_comes_back_weekly_until_it_is_done(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent)
    agent.sync()
    answer(agent, "---\nid: ID\nsurface: Watch the retries\n---\n\nThey pile up.\n")
    agent.process()
    (name,) = agent.listing("state/mca")
    path = f"state/mca/{name}"
    forget_the_hour(agent)
    agent.sync()
    assert shown(agent) == "", "it was opened just now"

    def make_older(field: str) -> None:
        text = (agent.root / path).read_text()
        head = f"**{field}:** "
        assert head in text, text
        start = text.index(head) + len(head)
        old = f"{datetime.now(UTC) - timedelta(days=8):%Y-%m-%dT%H:%MZ}"
        agent.write({path: text[:start] + old + text[text.index("\n", start) :]}, "a week passes")
        forget_the_hour(agent)

    for field in ("Opened", "Asked"):
        make_older(field)
        agent.sync()
        assert "cadence: weekly" in shown(agent)
        assert "Watch the retries" in shown(agent)
        assert "They pile up." in shown(agent)
        agent.idle()
        answer(agent, "---\nid: ID\nreply: ID|still watching\n---\n")
        agent.process()
        assert "still watching" in (agent.root / path).read_text()
        forget_the_hour(agent)
        agent.sync()
        assert shown(agent) == "", "asked again after a week only"
    make_older("Asked")
    agent.sync()
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.process()
    assert agent.listing("state/mca") == []
    (done,) = agent.listing("state/mca/done")
    assert done == name
    forget_the_hour(agent)
    agent.sync()
    assert queue(agent)["in_flight"] is None
    clean(agent)


def test_a_concern_can_be_put_off_and_comes_back_then(world: World, agent: Node, pi: Node) -> None:
    opened = f"{datetime.now(UTC) - timedelta(days=9):%Y-%m-%dT%H:%MZ}"
    path = "state/mca/20260101-watch-0a1b2c3d.md"
    agent.write({path: f"# Watch\n\n**State:** open\n**Opened:** {opened}\n\nText.\n"}, "by hand")
    agent.sync()
    answer(agent, "---\nid: ID\ndefer: ID|3d|after the release\n---\n")
    agent.process()
    text = (agent.root / path).read_text()
    assert "**State:** deferred" in text
    assert "**Reason:** after the release" in text
    forget_the_hour(agent)
    agent.sync()
    assert shown(agent) == ""
    start = text.index("**Until:** ") + 11
    past = f"{datetime.now(UTC) - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    agent.write({path: text[:start] + past + text[text.index("\n", start) :]}, "time passes")
    forget_the_hour(agent)
    agent.sync()
    assert "# Watch" in shown(agent)


def test_a_thread_of_our_own_that_was_given_up_can_be_tried_again(agent: Node) -> None:
    active(agent, 1)
    agent.configure("max_attempts: 1\n")
    agent.sync()
    first = current(agent)
    answer(agent, "---\nid: ID\nsend: nobody|hi\n---\n")
    agent.cn("inbox", "process", check=1)
    assert [d["id"] for d in queue(agent)["dead"]] == [first]
    agent.idle()
    agent.cn("queue", "retry", first)
    assert current(agent) not in ("", first)
    assert "# Daily reflection" in shown(agent)
    answer(agent, "---\nid: ID\nreply: ID|now it works\n---\n")
    agent.process()
    assert "now it works" in (agent.root / f"threads/reflections/daily/{days_ago(1)}.md").read_text()
    assert queue(agent)["dead"] == []
    agent.idle()


def test_a_cleared_thread_of_our_own_comes_back_by_retry(world: World, agent: Node, pi: Node) -> None:
    active(agent, 1)
    world.propose(pi, agent)
    agent.sync()
    (waiting,) = queue(agent)["waiting"]
    agent.cn("queue", "clear")
    agent.cn("queue", "retry", waiting["id"])
    assert [w["cadence"] for w in queue(agent)["waiting"]] == ["daily"]
    answer(agent, "---\nid: ID\ndone: ID\n---\n")
    agent.process()
    assert "cadence: daily" in shown(agent)


def test_a_dead_letter_goes_when_its_own_thread_is_closed_by_hand(agent: Node) -> None:
    active(agent, 1)
    agent.configure("max_attempts: 1\n")
    agent.sync()
    first = current(agent)
    answer(agent, "---\nid: ID\nsend: nobody|hi\n---\n")
    agent.cn("inbox", "process", check=1)
    assert [d["id"] for d in queue(agent)["dead"]] == [first]
    path = f"threads/reflections/daily/{days_ago(1)}.md"
    text = (agent.root / path).read_text().replace("**State:** open", "**State:** closed")
    agent.write({path: text}, "closed by hand")
    agent.sync()
    assert queue(agent)["dead"] == []
    agent.idle()
