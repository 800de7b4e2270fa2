"""The text of a decision that would begin another section is refused where it is given."""

from __future__ import annotations

from tests.support.hubs import git
from tests.support.world import World


def test_a_text_with_a_heading_of_its_own_is_refused_at_once(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "x")
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    before = path.read_text()
    for body in ("do it so\n\n## Triage\nx", "## Triage", "a\r\n  ##  Triage ##\r\n"):
        for more in ((), ("--dry-run",)):
            done = sigma.triage("pi/x", "do:reply:ok", "--body", body, *more, check=2)
            assert "would begin another section" in done.stderr
            assert "quote that line" in done.stderr
        assert path.read_text() == before
    sigma.decide("pi/x", "do:reply:ok", "--body", "so\n\n> ## Triage\n\n```\n## Triage\n```\nx")
    assert "do:reply:ok" in str(sigma.rows())


def test_a_decision_while_no_run_works_here_says_that_it_waits(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "x")
    sigma.sync()
    (sigma.root / ".git/rebase-merge").mkdir()
    said = sigma.triage("pi/x", "defer:later").stdout
    assert f"it waits until a rebase in {sigma.root} is over, then 'cn inbox process' executes it" in said
    (sigma.root / ".git/rebase-merge").rmdir()
    git(sigma.root, "switch", "--quiet", "-c", "elsewhere")
    assert "it waits until HEAD is main again, then" in sigma.triage("pi/x", "defer:later").stdout
    git(sigma.root, "switch", "--quiet", "main")
    said = sigma.triage("pi/x", "defer:later").stdout
    assert "waits" not in said
    assert "; 'cn inbox process' executes it" in said
