"""A branch of which main got a part is another thing to decide, though it stands at the same head."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.desk import answer, current, work_queue
from tests.support.hubs import commit, git, try_git, write_commit
from tests.support.terminal import Terminal
from tests.support.world import Node, World, content, is_in_main


@pytest.fixture
def upper(world: World, sigma: Node, pi: Node) -> str:
    """Two branches that wait: the second takes back what the first brings, and adds a file; its head."""
    sigma.write({"auth": "no check\n"})
    world.propose(pi, sigma, "fix", {"auth": "check\n"})
    wip = commit(world.person(pi, sigma), {"auth": "no check\n"}, "wip")
    head = world.propose(pi, sigma, "more", {"more": "more\n"}, start=wip)
    sigma.sync()
    return head


def thread_of(sigma: Node) -> str:
    (name,) = (name for name in sigma.threads() if name.endswith("-pi-more.md"))
    return f"threads/inbox/{name}"


def merge_lower(sigma: Node) -> None:
    """By another reader: in a session of its own, cron's."""
    sigma.triage("pi/fix", "do:merge")
    sigma.process()


def holds(sigma: Node, head: str) -> None:
    assert not is_in_main(sigma, head)
    assert content(sigma, "auth") == b"check\n"


def test_what_was_read_before_is_not_what_a_command_decides(sigma: Node, upper: str) -> None:
    sigma.cn("inbox", "show", "pi/more")
    merge_lower(sigma)
    told = sigma.triage("pi/more", "do:merge", check=1).stderr
    assert "pi/more was shown anew since, at the same head; nothing was decided" in told
    sigma.process()
    holds(sigma, upper)
    assert "was shown anew since" in sigma.triage("pi/more", "do:merge", "--head", upper, check=1).stderr
    (named,) = re.findall(r"--head ([0-9a-f]+,\\ time\\ 1)'", told)
    sigma.triage("pi/more", "do:merge", "--head", named.replace("\\", ""))
    sigma.process()
    assert is_in_main(sigma, upper)
    assert content(sigma, "auth") == b"no check\n"


def test_who_looks_again_decides(sigma: Node, upper: str) -> None:
    sigma.cn("inbox", "show", "pi/more")
    merge_lower(sigma)
    shown = sigma.cn("inbox", "show", "pi/more").stdout
    assert "anew, time 1" in shown
    assert "+no check" in shown
    sigma.decide("pi/more", "do:merge")
    assert is_in_main(sigma, upper)


def by_command(sigma: Node) -> None:
    sigma.triage("pi/more", "do:merge")


def by_hand(sigma: Node) -> None:
    path = sigma.root / thread_of(sigma)
    text = (
        path.read_text()
        .replace("decision:\n", "decision: do:merge\n")
        .replace("timestamp:\n", "timestamp: 2026-02-05\n")
    )
    path.write_text("\n".join(line for line in text.split("\n") if not line.startswith("<!-- To decide")))


@pytest.mark.parametrize("decide", [by_command, by_hand])
def test_a_file_saved_over_it_decides_nothing(sigma: Node, upper: str, decide: Callable[[Node], None]) -> None:
    decide(sigma)
    path = sigma.root / thread_of(sigma)
    old = path.read_text()
    git(sigma.root, "checkout", "-q", "--", thread_of(sigma))
    merge_lower(sigma)
    path.write_text(old)
    told = sigma.process(check=1).stderr
    assert "void: " in told
    holds(sigma, upper)
    assert "+no check" in path.read_text()


@pytest.mark.parametrize("decide", [by_command, by_hand])
@pytest.mark.parametrize("committed", [False, True])
def test_a_decision_of_another_clone_about_what_was_there_before_is_void(
    world: World, sigma: Node, upper: str, decide: Callable[[Node], None], *, committed: bool
) -> None:
    other = world.second(sigma)
    other.sync()
    decide(other)
    if committed:
        git(other.root, "commit", "-qam", "Decided")
    merge_lower(sigma)
    for _ in range(2):
        other.cn("inbox", "process", check=None)
        holds(sigma, upper)
    sigma.sync()
    other.sync()
    holds(sigma, upper)
    sigma.decide("pi/more", "do:merge")
    assert is_in_main(sigma, upper)


@pytest.mark.parametrize("way", ["pull", "stash"])
def test_git_calls_a_decision_about_what_was_there_before_a_conflict(
    world: World, sigma: Node, upper: str, way: str
) -> None:
    other = world.second(sigma)
    other.sync()
    by_command(other)
    git(other.root, *(["stash", "-q"] if way == "stash" else ["commit", "-qam", "Decided"]))
    merge_lower(sigma)
    done = try_git(other.root, "pull", "-q", "--rebase", "origin", "main")
    if way == "stash":
        assert done.returncode == 0
        done = try_git(other.root, "stash", "pop", "-q")
    assert done.returncode != 0
    for _ in range(2):
        other.cn("inbox", "process", check=None)
        holds(sigma, upper)


def test_an_agent_that_was_given_it_before_is_given_it_anew(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    sigma.write({"auth": "no check\n"})
    person = world.person(pi, sigma)
    git(person, "fetch", "-q", sigma.url, "main")
    lower = write_commit(person, {"auth": "check\n"}, "Fix", [git(person, "rev-parse", "FETCH_HEAD")])
    wip = write_commit(person, {"auth": "no check\n"}, "wip", [lower])
    upper = write_commit(person, {"more": "more\n"}, "More", [wip])
    world.offer(pi, sigma, "more", upper)
    sigma.sync()
    assert "more" in sigma.cn("input").stdout
    first = current(sigma)
    world.offer(pi, sigma, "fix", lower)
    sigma.sync()
    merge_lower(sigma)
    assert current(sigma) == first
    answer(sigma, f"---\nid: {first}\nmerge: {first}\n---\n")
    assert "pi/more is taken from the agent" in sigma.process(check=1).stdout
    holds(sigma, upper)
    assert current(sigma) != first
    assert "+no check" in sigma.cn("input").stdout


def test_a_caution_that_came_since_is_not_what_was_read(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "gone")
    sigma.sync()
    sigma.cn("inbox", "show", "pi/gone")
    name, url = world.branch(pi, sigma, "gone")
    git(world.person(pi, sigma), "push", "-q", url, f":refs/heads/{name}")
    sigma.sync()
    git(world.person(pi, sigma), "push", "-q", url, f"{head}:refs/heads/{name}")
    sigma.sync()
    assert "**Caution:**" in sigma.thread(sigma.only_thread())
    assert "was shown anew since" in sigma.triage("pi/gone", "delete:no", check=1).stderr
    sigma.cn("inbox", "show", "pi/gone")
    sigma.triage("pi/gone", "delete:no")


def test_what_is_shown_anew_while_several_are_asked_about_is_left_out(sigma: Node, upper: str) -> None:
    at = Terminal(sigma.root, "delete", "--peer", "pi")
    at.expect("delete these 2 threads")
    merge_lower(sigma)
    at.type("y\r")
    at.expect("pi/more was shown anew since, at the same head; it is left as it is")
    assert at.end() == 1
    assert "pi-more" in " ".join(sigma.threads())
    shown = " ".join(sigma.cn("inbox", "show", "pi/more").stdout.split())
    assert "shown anew, the same head" in shown
