"""A branch that moved to what does not come in: what was decided about it is over, also when it moves back."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.inbox.test_never_listed import CLOCK
from tests.inbox.test_put_back import pin, put
from tests.support.desk import answer, current, work_queue
from tests.support.hubs import bare, git, write_raw_commit
from tests.support.proxy import NONE, Fault, proxy
from tests.support.servers import http_backend
from tests.support.world import Node, World

KEYS = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="keys are made with ssh-keygen")


def lacking(sigma: Node) -> str:
    """A commit at the host whose tree is nowhere: nobody can fetch it."""
    who = "Pi <pi@example.org> 1770000000 +0000"
    return write_raw_commit(sigma.home, f"tree {'1' * 40}\nauthor {who}\ncommitter {who}\n\nlacks its tree\n".encode())


def merged(sigma: Node, head: str) -> bool:
    return head in git(sigma.home, "rev-list", "main").split()


@pytest.mark.parametrize("seen", ["process", "sync", "both"])
def test_a_decision_is_void_when_the_branch_was_at_what_did_not_come_in(
    world: World, sigma: Node, pi: Node, seen: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    bad = lacking(sigma)
    put(sigma, "pi/proposal", bad)
    if seen != "process":
        told = sigma.cn("inbox", "sync", check=None).stdout
        assert f"pi/proposal moved from {head[:8]} to {bad[:8]}, which did not come in" in told
    if seen != "sync":
        told = sigma.process(check=None).stdout
        assert seen == "both" or "which did not come in" in told
        assert "'cn delete' ends it" in sigma.cn("status").stdout
    assert not merged(sigma, head)
    put(sigma, "pi/proposal", head)
    assert "pushed again as the same commit by whoever can write there" in sigma.sync().stdout
    assert not merged(sigma, head)
    text = sigma.thread(sigma.only_thread())
    assert "## Void triage" in text
    assert "**Caution:** gone at 2" in text
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert merged(sigma, head), "who read that may still take it"


@KEYS
def test_what_its_creator_replaced_by_an_unsigned_commit_is_not_merged_when_it_is_put_back(
    world: World, sigma: Node, pi: Node
) -> None:
    unsigned = world.propose(pi, sigma, "other", {"docs/other.md": "other\n"})
    world.withdraw(pi, sigma, "other")
    pin(world, sigma, pi)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    put(sigma, "pi/proposal", unsigned)
    assert "signature" in sigma.process(check=None).stderr
    put(sigma, "pi/proposal", head)
    sigma.sync()
    assert "its signature does not say who did that" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    assert not merged(sigma, head)


def test_a_proposal_whose_branch_moved_to_what_did_not_come_in_can_be_ended_and_says_why(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    bad = lacking(sigma)
    put(sigma, "pi/proposal", bad)
    sigma.sync(check=1)
    (thread,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert thread["state"] == "withdrawn"
    assert f"it moved to {bad[:8]}, which did not come in" in sigma.cn("why", "pi/proposal").stdout
    assert "'cn delete pi/proposal' ends" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    sigma.triage("pi/proposal", "delete:replaced")
    sigma.process(check=None)
    assert sigma.threads() == []
    assert bad in git(sigma.home, "rev-parse", "pi/proposal"), "what nobody here has read is not taken away"


def test_what_was_decided_before_anybody_knew_ends_nothing(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "delete:spam")
    bad = lacking(sigma)
    put(sigma, "pi/proposal", bad)
    told = sigma.cn("sync", check=None).stdout
    assert "what was decided is void" in told
    sigma.process(check=None)
    text = sigma.thread(sigma.only_thread())
    assert f"to {bad}, which did not come in; decide again." in text
    assert "> decision: delete:spam" in text
    sigma.triage("pi/proposal", "delete:spam")
    sigma.process(check=None)
    assert sigma.threads() == []


def test_what_its_creator_pushes_well_after_all_is_decided_as_ever(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    put(sigma, "pi/proposal", lacking(sigma))
    sigma.sync(check=1)
    world.withdraw(pi, sigma)
    better = world.propose(pi, sigma, files={"docs/better.md": "better\n"}, force=True)
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    assert better in text
    assert "**Caution:**" not in text
    sigma.decide("pi/proposal", "do:merge")
    assert merged(sigma, better)


@pytest.mark.parametrize("how", ["deleted", "moved to what does not come in"])
def test_what_another_clone_saw_leave_and_is_back_waits_here_too(world: World, sigma: Node, pi: Node, how: str) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    second = world.second(sigma)
    second.sync()
    if how == "deleted":
        git(sigma.home, "update-ref", "-d", "refs/heads/pi/proposal")
    else:
        put(sigma, "pi/proposal", lacking(sigma))
    second.cn("sync", check=None)
    put(sigma, "pi/proposal", head)
    told = [sigma.sync().stdout for _ in range(2)]
    assert "pushed again as the same commit" in "".join(told)
    (thread,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert thread["state"] == "pending"
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert merged(sigma, head)


def test_a_branch_that_moves_while_another_is_decided_comes_with_the_next_sync(
    world: World, sigma: Node, pi: Node
) -> None:
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    sigma.triage("pi/one", "delete:no")
    new = world.propose(pi, sigma, "two", {"docs/two.md": "better\n"}, force=True)
    told = sigma.process()
    assert "did not come in" not in told.stdout
    assert "not there any more" not in sigma.cn("status").stdout
    assert f"pi/two moved to {new[:8]}" in sigma.sync().stdout
    sigma.decide("pi/two", "do:merge")
    assert merged(sigma, new)


@pytest.fixture
def cut_off(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose hosts list, and break off whatever is fetched from them (git-config(1),
    ``uploadpack.packObjectsHook``).
    """
    script = tmp_path / "pack-objects"
    script.write_text("#!/bin/sh\nkill -9 $PPID\n")
    script.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[uploadpack]\n\tpackObjectsHook = {script}\n")
    return {"GIT_CONFIG_GLOBAL": str(config)}


@pytest.mark.parametrize("command", ["inbox process", "sync"])
def test_a_fetch_that_failed_says_nothing_of_a_branch_that_moved(
    world: World, sigma: Node, pi: Node, cut_off: dict[str, str], command: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    new = world.propose(pi, sigma, files={"docs/better.md": "better\n"}, force=True)
    done = sigma.cn(*command.split(), check=1, env=cut_off)
    assert "does not send pi's branches" in done.stderr
    told = sigma.cn("inbox", "process", check=None, env=cut_off).stdout
    assert f"pi/proposal moved from {head[:8]} to {new[:8]}, which was not fetched this time" in told
    assert "what is decided waits; 'cn sync' or the next 'cn inbox process' asks again" in told
    shown = sigma.cn("status").stdout
    for text in (done.stdout, told, shown, sigma.cn("why", "pi/proposal").stdout):
        assert "did not come in" not in text
        assert "cn delete" not in text
        assert "not there any more" not in text
    (thread,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert thread["state"] == "decided"
    assert not merged(sigma, head)

    told = sigma.cn(*command.split()).stdout
    assert f"pi/proposal moved to {new[:8]}" in told
    sigma.process()
    assert not merged(sigma, new), "what was decided about the earlier one is void"
    sigma.decide("pi/proposal", "do:merge")
    assert merged(sigma, new)
    assert "does not send" not in sigma.cn("status").stdout


def test_what_an_agent_answers_waits_too_until_it_is_known_where_the_branch_is(
    world: World, sigma: Node, pi: Node, cut_off: dict[str, str]
) -> None:
    work_queue(sigma)
    head = world.propose(pi, sigma)
    sigma.sync()
    id = current(sigma)
    answer(sigma, f"---\nid: {id}\ndone: {id}\n---\n")
    new = world.propose(pi, sigma, files={"docs/better.md": "better\n"}, force=True)
    told = sigma.cn("inbox", "process", check=None, env=cut_off).stdout
    assert f"pi/proposal moved from {head[:8]} to {new[:8]}, which was not fetched this time" in told
    assert (sigma.root / "state/output.md").exists()
    assert len(sigma.threads()) == 1
    assert f"pi/proposal moved to {new[:8]}" in sigma.process(check=None).stdout
    assert len(sigma.threads()) == 1, "it was about the earlier one"


ENDED = Fault("ended", down=6000, lies=((b"Content-Length", b"X-Other-Length"), (b"HTTP/1.0", b"HTTP/1.1")))
"""An answer ends with its connection, and early."""


def test_an_answer_of_a_host_that_ends_early_says_nothing_of_a_branch_that_moved(world: World, tmp_path: Path) -> None:
    with http_backend(tmp_path / "served") as served, proxy(urlsplit(served.base).port or 0) as host:
        url = f"http://127.0.0.1:{host.port}/sigma.git"
        sigma, pi = world.hub("sigma", url=url, home=bare(served.path("sigma"))), world.hub("pi")
        world.link(sigma, pi)
        work_queue(sigma)
        head = world.propose(pi, sigma)
        sigma.sync()
        id = current(sigma)
        answer(sigma, f"---\nid: {id}\ndone: {id}\n---\n")
        new = world.propose(pi, sigma, files={"docs/long.md": secrets.token_hex(20_000)}, force=True)
        host.fault = ENDED
        for _ in range(2):
            done = sigma.cn("inbox", "process", check=None)
            assert "bytes of body are still expected" in done.stderr + sigma.cn("status").stdout
            assert f"pi/proposal moved from {head[:8]} to {new[:8]}, which was not fetched this time" in done.stdout
            for text in (done.stderr, sigma.cn("status").stdout, sigma.cn("doctor", check=None).stdout):
                assert "push it again" not in text
        assert "'cn peer sync pi' tries again; else the next sync asks it" in sigma.cn("status").stdout
        assert (sigma.root / "state/output.md").exists()
        host.fault = NONE
        assert f"pi/proposal moved to {new[:8]}" in sigma.process(check=None).stdout
        assert len(sigma.threads()) == 1, "it was about the earlier one"


@pytest.mark.parametrize("command", ["inbox process", "sync"])
def test_a_branch_that_goes_back_from_what_was_not_fetched_was_put_back(
    world: World, sigma: Node, pi: Node, cut_off: dict[str, str], command: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    new = world.propose(pi, sigma, files={"docs/better.md": "better\n"}, force=True)
    sigma.cn(*command.split(), check=1, env=cut_off)
    put(sigma, "pi/proposal", head)
    told = sigma.cn(*command.split(), check=None).stdout
    assert f"pi/proposal moved from {head[:8]} to {new[:8]}, and back before that came in" in told
    assert not merged(sigma, head)
    assert "pushed again as the same commit by whoever can write there" in sigma.sync().stdout
    sigma.process(check=None)
    assert not merged(sigma, head)
    assert "## Void triage" in sigma.thread(sigma.only_thread())
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert merged(sigma, head), "who read that may still take it"


def test_a_branch_that_nobody_sends_for_a_day_is_gone_from_what_was_shown(
    world: World, sigma: Node, pi: Node, cut_off: dict[str, str]
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    new = world.propose(pi, sigma, files={"docs/better.md": "better\n"}, force=True)
    for _ in range(5):
        sigma.cn("sync", check=None, env=cut_off)
    assert "not there any more" not in sigma.cn("status").stdout
    later = {**cut_off, "PYTHONPATH": CLOCK, "TEST_CLOCK": str(25 * 3600)}
    assert f"to {new[:8]}, which did not come in" in sigma.cn("sync", check=None, env=later).stdout
    sigma.triage("pi/proposal", "delete:replaced")
    sigma.cn("inbox", "process", check=None, env=later)
    assert sigma.threads() == []
