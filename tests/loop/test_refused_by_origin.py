"""What origin's host does not take into main keeps nothing else out, and is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.desk import work_queue
from tests.support.hubs import git
from tests.support.servers import git_daemon
from tests.support.world import Node, World

Refuse = Callable[[str], None]
NOT_TAKEN = "origin does not take pi/bad into main: [remote rejected] (pre-receive hook declined): GH013"
MINDS_BAD = 'git log -p --format= "$new" --not --all | grep -q ^+.*BAD'


@pytest.fixture
def refuse(sigma: Node, tmp_path: Path) -> Iterator[Refuse]:
    """Origin behind a server (a local push takes cn's settings: no hooks); it refuses a push to main if a line of
    shell holds of its ``new``. Empty: it takes all again.
    """
    hook = sigma.home / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)

    def refuse(test: str) -> None:
        hook.unlink(missing_ok=True)
        if test:
            lines = f'[ "$ref" = refs/heads/main ] && {{ {test}; }} && echo GH013 >&2 && exit 1'
            hook.write_text(f"#!/bin/sh\nwhile read old new ref; do\n{lines}\ndone\nexit 0\n")
            hook.chmod(0o755)

    with git_daemon(sigma.home.parent, tmp_path) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url(sigma.home.stem))
        yield refuse


def standing(sigma: Node) -> list[str]:
    return [one["text"] for one in json.loads(sigma.cn("status", "--json").stdout)["standing"]]


def test_a_branch_that_origin_does_not_take_keeps_no_other_out_and_is_named(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(pi, sigma, "bad", {"docs/bad.md": "BAD\n"})
    world.propose(pi, sigma, "good")
    omega.cn("send", "sigma", "hi")
    refuse(MINDS_BAD)
    done = sigma.sync(check=1)
    assert done.stdout.count("✓ received") == 2
    assert NOT_TAKEN in done.stderr
    assert "its creator deletes it" in done.stderr
    assert "'cn peer sync pi' tries again" in done.stderr
    assert sorted(name.split("-", 1)[1] for name in sigma.threads()) == ["omega-hi.md", "pi-good.md"]
    assert "| origin | not taken | each part goes by itself |" in git(sigma.root, "grep", "-h", "not taken", "main")
    assert [NOT_TAKEN in text for text in standing(sigma)] == [True]

    again = sigma.sync()
    assert (again.stdout, again.stderr) == ("", "")
    sigma.cn("send", "omega", "hello")  # that origin takes this is no word about the other
    assert sigma.cn("status", "--check", check=1)
    assert NOT_TAKEN in sigma.cn("doctor", check=1).stdout
    assert NOT_TAKEN in sigma.cn("peer", "sync", "pi", check=None).stderr

    refuse("")
    assert "received pi/bad" in sigma.cn("peer", "sync", "pi").stdout
    assert standing(sigma) == []


def test_what_origin_does_not_take_is_forgotten_with_its_branch(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    world.propose(pi, sigma, "bad", {"docs/bad.md": "BAD\n"})
    refuse(MINDS_BAD)
    sigma.sync(check=1)
    assert len(standing(sigma)) == 1
    world.withdraw(pi, sigma, "bad")
    sigma.sync()
    assert standing(sigma) == []
    assert json.loads((sigma.root / ".git/cn/local.json").read_text())["not-taken"] == {}


def test_many_branches_of_which_each_is_taken_come_in_though_origin_takes_them_not_together(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    for number in range(6):
        world.propose(pi, sigma, f"b{number}")
    refuse('[ $(git diff --name-only "$old" "$new" -- threads/inbox | wc -l) -gt 2 ]')
    assert sigma.sync().stdout.count("✓ received") == 6
    assert len(sigma.threads()) == 6
    sigma.idle()


def test_of_many_that_origin_does_not_take_a_run_tries_some_and_others_come_in(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    for number in range(20):
        world.propose(pi, sigma, f"bad{number}", {"docs/bad.md": f"BAD {number}\n"})
    world.propose(omega, sigma, "fine")
    refuse(MINDS_BAD)
    done = sigma.sync(check=1)
    assert "received omega/fine" in done.stdout
    assert "more branches wait for the next run: origin refused others" in done.stdout
    for _ in range(3):
        sigma.cn("sync", check=None)
    assert len([text for text in standing(sigma) if "origin does not take pi/bad" in text]) == 20


def test_an_origin_that_takes_no_commit_of_ours_is_told_as_that_and_nobody_is_blamed(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    world.propose(pi, sigma, "fine")
    refuse("true")
    done = sigma.sync(check=1)
    assert "origin did not take main: [remote rejected] (pre-receive hook declined): GH013" in done.stderr
    assert "may you push to origin's main" in done.stderr
    assert not any("pi/" in text for text in standing(sigma))
    refuse("")
    assert "received pi/fine" in sigma.sync().stdout
    assert standing(sigma) == []


def test_a_merge_that_origin_does_not_take_keeps_no_other_decision_back_and_is_named(
    world: World, sigma: Node, pi: Node, refuse: Refuse
) -> None:
    """What a branch brings that its thread does not show may be what the host minds."""
    world.propose(pi, sigma, "bad", {"docs/bad.md": "BAD\n"})
    world.propose(pi, sigma, "good")
    world.propose(pi, sigma, "other")
    sigma.sync()
    refuse('git ls-tree -r --name-only "$new" | grep -q ^docs/bad.md')
    for name in ("bad", "good", "other"):
        sigma.triage(f"pi/{name}", "do:merge")
    done = sigma.process(check=1)
    assert "pi/good: do:merge by sigma" in done.stdout
    assert "pi/other: do:merge by sigma" in done.stdout
    declined = "pi/bad: origin does not take what is decided about it into main: [remote rejected]"
    assert declined in done.stderr
    assert "'cn delete pi/bad' ends it without its changes" in done.stderr
    assert [declined in text for text in standing(sigma)] == [True]
    assert [name.rpartition("-")[2] for name in sigma.threads()] == ["bad.md"]
    rows = git(sigma.root, "grep", "-h", "not taken", "main").count("not taken")
    again = sigma.process()
    assert (again.stdout, again.stderr) == ("", "")
    assert git(sigma.root, "grep", "-h", "not taken", "main").count("not taken") == rows
    sigma.cn("send", "pi", "hello")
    assert [declined in text for text in standing(sigma)] == [True]
    refuse("")
    assert "pi/bad: do:merge by sigma" in sigma.process().stdout
    assert standing(sigma) == []


@pytest.mark.parametrize("ends", ["moved", "deleted"])
def test_what_origin_did_not_take_of_a_decision_is_over_with_that_decision(
    world: World, sigma: Node, pi: Node, refuse: Refuse, ends: str
) -> None:
    """The step that ends the thread would end what its creator mended."""
    world.propose(pi, sigma, "bad", {"docs/bad.md": "BAD\n"})
    sigma.sync()
    refuse('git ls-tree -r --name-only "$new" | grep -q ^docs/bad.md')
    sigma.triage("pi/bad", "do:merge")
    sigma.process(check=1)
    assert ["origin does not take what is decided" in text for text in standing(sigma)] == [True]
    if ends == "moved":
        world.propose(pi, sigma, "bad", {"docs/good.md": "good\n"}, force=True)
        sigma.sync()
    else:
        sigma.cn("delete", "pi/bad")
    assert standing(sigma) == []


@pytest.mark.parametrize("first", ["sync", "process"])
def test_a_decided_branch_that_moves_to_what_origin_does_not_take_is_void_and_said_to_have_moved(
    world: World, sigma: Node, pi: Node, refuse: Refuse, first: str
) -> None:
    """Who may push to a shared mailbox must not stop what others decided with a word about our decision."""
    before = world.propose(pi, sigma, "bad", {"docs/fine.md": "fine\n"})[:8]
    world.propose(pi, sigma, "good")
    sigma.sync()
    sigma.triage("pi/bad", "do:merge")
    sigma.triage("pi/good", "do:merge")
    refuse(MINDS_BAD)
    now = world.propose(pi, sigma, "bad", {"docs/bad.md": "BAD\n"}, force=True)[:8]
    done = sigma.sync(check=1) if first == "sync" else sigma.process(check=1)
    moved = (
        f"pi/bad moved from {before} to {now}, which did not come in: nothing of it is merged; what was decided is void"
    )
    assert moved in done.stdout
    assert NOT_TAKEN in done.stderr
    assert "cn delete" not in done.stderr
    assert [NOT_TAKEN in text for text in standing(sigma)] == [True]
    assert NOT_TAKEN in sigma.cn("doctor", check=1).stdout
    assert "## Void triage" in sigma.cn("inbox", "show", "pi/bad").stdout
    assert "the branch is not there any more" in sigma.cn("inbox", "triage", "pi/bad", "do:merge", check=1).stderr
    if first == "sync":
        assert "pi/good: do:merge by sigma" in sigma.process().stdout
    else:
        assert "pi/good: do:merge by sigma" in done.stdout
    sigma.idle()

    refuse("")
    assert f"pi/bad moved to {now}" in sigma.cn("peer", "sync", "pi").stdout
    assert "BAD" in sigma.cn("inbox", "show", "pi/bad").stdout
    assert standing(sigma) == []


def test_what_origin_takes_of_one_run_does_not_say_that_it_takes_what_it_refused_of_another(
    sigma: Node, pi: Node, refuse: Refuse
) -> None:
    """What the agent wrote is refused, and nothing else."""
    work_queue(sigma)
    pi.cn("send", "sigma", "a question")
    sigma.sync()
    sigma.cn("input")
    sigma.cn("out", "do", "reply", "--message", "this is BAD")
    refuse(MINDS_BAD)
    sigma.process(check=1)
    assert "no run can work" in sigma.cn("status").stdout
    sigma.cn("send", "pi", "hello")
    assert "no run can work" in sigma.cn("status").stdout
    refuse("")
    sigma.process()
    assert "no run can work" not in sigma.cn("status").stdout
