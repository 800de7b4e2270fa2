"""Deferred threads come back when their time has come."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta

import pytest

from cn.protocol.layout import BRANCH_LEFT
from tests.inbox.test_never_listed import CLOCK
from tests.support.world import Node, World, is_in_main


def test_a_deferred_thread_returns_when_its_time_has_come(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    until = (datetime.now(UTC) + timedelta(seconds=8)).isoformat(timespec="seconds")
    sigma.decide("pi/proposal", "defer:soon", "--until", until)
    assert ("pi/proposal", "defer:soon", "✓ deferred") in sigma.rows()
    from tests.support.hubs import git

    git(sigma.root, "config", "cn.wake", f"cat > '{note}'")
    while datetime.now(UTC) <= datetime.fromisoformat(until) + timedelta(seconds=1):
        time.sleep(0.1)
    sigma.sync()
    assert sigma.rows()[-1] == ("pi/proposal", "returned", "deferred until now")
    assert note.read_text() == f"you have inbox\n{name}\n"
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_what_returns_after_its_branch_was_withdrawn_is_withdrawn(world: World, deliver: str) -> None:
    """Also where the run that decides it cannot look whether the branch is there."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "defer:soon", "--until", "1h")
    world.withdraw(pi, sigma, "proposal")
    assert "is gone" in sigma.sync().stdout
    later = {"PYTHONPATH": CLOCK, "TEST_CLOCK": str(2 * 3600)}
    assert "returns: deferred until now" in sigma.cn("sync", env=later).stdout
    rows = sigma.rows()
    for words in (("status",), ("inbox", "show", "pi/proposal"), ("inbox",)):
        assert BRANCH_LEFT in " ".join(sigma.cn(*words, env=later).stdout.split())
    refused = sigma.cn("inbox", "triage", "pi/proposal", "do:merge", env=later, check=1).stderr
    assert f"merge-needs-approval: {BRANCH_LEFT}" in refused
    assert sigma.cn("sync", env=later).stdout == ""
    assert sigma.rows() == rows, "that it is gone is logged once"
    assert not is_in_main(sigma, head)


def test_a_time_that_is_over_is_refused(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    assert "is over" in sigma.triage("pi/proposal", "defer:later", "--until", "2020-01-01", check=1).stderr
    sigma.write_triage(sigma.only_thread(), "defer:later", until="2020-01-01")
    assert "is over" in sigma.process(check=1).stderr
    sigma.decide("pi/proposal", "defer:later", "--until", "3d")
    text = sigma.thread(sigma.only_thread())
    assert "until: 3d" in text
    sigma.idle()


def test_a_deferred_thread_whose_branch_moves_is_fresh(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "defer:later", "--until", "3d")
    head = world.propose(pi, sigma, files={"docs/new.md": "new\n"}, force=True)
    sigma.sync()
    assert f"**Head:** {head}" in sigma.thread(sigma.only_thread())
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_a_time_to_come_back_is_for_a_deferral_and_its_forms_are_told(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    told = sigma.triage("pi/proposal", "delete:no", "--until", "3d", check=2).stderr
    assert "--until is for defer" in told
    told = sigma.triage("pi/proposal", "defer:later", "--until", "in a while", check=2).stderr
    assert "'in a while' is not a time" in told
    assert "a date (2026-02-05), a time (2026-02-05T15:00Z, UTC), tomorrow, a weekday such as next tuesday" in told
    told = sigma.cn("log", "--since", "tomorrow", check=2).stderr
    assert "a date (2026-02-05), a time (2026-02-05T15:00Z, UTC), today, yesterday" in told
    sigma.cn("log", "--since", "yesterday")
    told = sigma.triage("pi/proposal", "defer:later", "--until", "next tuesday").stdout
    sigma.process()
    (until,) = re.findall(r'"until": "(.*)T00:00:00Z"', sigma.cn("inbox", "show", "pi/proposal", "--json").stdout)
    assert date.fromisoformat(until).isoweekday() == 2
    assert f"(it stays, until {until}T00:00Z)" in told


def test_what_was_assigned_to_a_reviewer_who_was_taken_out_comes_back(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    config = ".cn/hub.yaml"
    before = (sigma.root / config).read_text()
    sigma.write({config: before.replace("[]", "[eve, dan]", 1)}, "Reviewers")
    sigma.sync()
    sigma.cn("delegate", "pi/proposal", "eve")
    sigma.write({config: before.replace("[]", "[dan, eve]", 1)}, "In another order")
    sigma.sync()
    assert "eve decides" in sigma.cn("inbox", "show", "pi/proposal", "--json").stdout
    sigma.write({config: before.replace("[]", "[dan]", 1)}, "Without eve")
    done = sigma.sync()
    assert f"✓ {sigma.only_thread()} returns: eve is no reviewer any more" in done.stdout
    assert ("pi/proposal", "returned", "eve is no reviewer any more") in sigma.rows()
    chain = sigma.cn("inbox", "show", "pi/proposal", "--json").stdout
    assert "eve is no reviewer any more" in chain
    assert "eve decides" not in chain
    status = sigma.cn("status").stdout
    assert "to decide" in status
    assert "eve" not in status
    sigma.idle()
    sigma.cn("doctor")
