"""The text of a decision that would begin another section is refused where it is given."""

from __future__ import annotations

from pathlib import Path

from tests.support.hubs import commit, git, try_git
from tests.support.world import MAIN_FILE, World


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
    git(sigma.root, "switch", "--quiet", "-c", "elsewhere")
    assert "it waits until HEAD is main again, then" in sigma.triage("pi/x", "defer:later").stdout
    git(sigma.root, "switch", "--quiet", "main")
    said = sigma.triage("pi/x", "defer:later").stdout
    assert "waits" not in said
    assert "; 'cn inbox process' executes it" in said


def test_a_decision_in_place_of_another_one_names_that(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "x")
    sigma.sync()
    assert "in place of" not in sigma.triage("pi/x", "delete:I found a bug").stdout
    assert "in place of" not in sigma.triage("pi/x", "delete:I found a bug").stdout
    assert (
        "; in place of 'delete:I found a bug by sigma'; 'cn inbox process'" in sigma.triage("pi/x", "do:merge").stdout
    )


def test_attributes_of_the_users_own_convert_no_file_of_cns(world: World, tmp_path: Path) -> None:
    (tmp_path / "attributes").write_text("*.md working-tree-encoding=UTF-16 ident filter=shout\n")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    git(sigma.root, "config", "core.attributesFile", str(tmp_path / "attributes"))
    git(sigma.root, "config", "filter.shout.smudge", "tr a-z A-Z")
    git(sigma.root, "config", "filter.shout.clean", "tr A-Z a-z")
    world.link(sigma, pi)
    world.propose(pi, sigma, "x")
    sigma.sync()
    sigma.decide("pi/x", "defer:later $Id$")
    assert "defer:later $Id$" in str(sigma.rows())
    assert git(sigma.root, "status", "--porcelain") == ""


def test_an_open_rebase_goes_on_as_nothing_is_decided_meanwhile(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "x")
    sigma.sync()
    base = git(sigma.root, "rev-parse", "HEAD")
    theirs = sigma.write({MAIN_FILE: "theirs\n"})
    git(sigma.root, "reset", "-q", "--hard", base)
    commit(sigma.root, {MAIN_FILE: "ours\n"}, "ours")
    assert try_git(sigma.root, "rebase", "-q", theirs).returncode != 0
    for words in (["--dry-run"], []):
        said = sigma.triage("pi/x", "defer:later", *words, check=1).stderr
        assert "a rebase is open" in said
        assert "finish or abort it, then decide" in said
    shown = sigma.cn("status").stdout
    assert "no run can work: a rebase is open in" in shown
    assert "git switch" not in shown
    assert "not executed" not in shown
    (sigma.root / MAIN_FILE).write_text("both\n")
    git(sigma.root, "add", MAIN_FILE)
    git(sigma.root, "-c", "core.editor=true", "rebase", "--continue")
    sigma.decide("pi/x", "defer:later")
    assert "deferred" in str(sigma.rows())
