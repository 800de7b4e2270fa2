"""Origin's main lost what this clone knew, or cannot be merged: what is told works as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import branches, clone, commit, force_push, git, identify, paths, push, read, tip
from tests.support.servers import serve
from tests.support.world import Node, World, is_in_main

LEDGER = "state/ledger/pi/202602"


def told_commands(text: str, after: str = "") -> list[str]:
    """The commands that the text tells, in their order."""
    return re.findall(r"'((?:git|cn) [^']*)'", text[text.index(after) :])


def obey(node: Node, *commands: str) -> None:
    """Do literally what was told."""
    for command in commands:
        if command.startswith("cn "):
            node.cn(*command.split()[1:])
        else:
            subprocess.run(command, shell=True, cwd=node.root, check=True, capture_output=True, timeout=60)


@pytest.fixture
def lost(world: World, sigma: Node, pi: Node) -> str:
    """What sigma's origin has when its last commits are gone."""
    left = branches(sigma.home)["main"]
    world.propose(pi, sigma)
    sigma.sync()
    force_push(sigma.root, sigma.url, f"{left}:refs/heads/main")
    return left


def test_a_loss_that_is_meant_is_accepted(sigma: Node, lost: str) -> None:
    told = sigma.cn("sync", check=1).stderr
    assert "origin's main was rewound" in told
    assert "where the host has several copies, this is an old one: run again later" in told
    shown = sigma.cn("status").stdout
    assert "in step with origin as of the last good run" in shown
    obey(sigma, *told_commands(told, "if the loss is meant"))
    done = sigma.sync()
    assert git(sigma.root, "merge-base", lost, branches(sigma.home)["main"]) == lost
    assert "pi/proposal" in done.stdout, "it is in no record any more: it comes again"
    assert sigma.threads()
    assert "no run can work" not in sigma.cn("status").stdout
    assert "as of" not in sigma.cn("status").stdout


def test_a_loss_that_is_meant_leaves_what_was_only_made_here(sigma: Node, lost: str) -> None:
    gone = tip(sigma.root, "main")
    commit(sigma.root, {"docs/mine.md": "mine\n"}, "mine")
    obey(sigma, *told_commands(sigma.cn("sync", check=1).stderr, "if the loss is meant"))
    sigma.sync()
    assert read(sigma.home, "main:docs/mine.md") == b"mine\n"
    assert gone not in git(sigma.home, "rev-list", "main").split()


def test_what_was_written_in_a_merge_stands_somewhere_after_a_loss_that_is_meant(sigma: Node, lost: str) -> None:
    """A rebase makes no merge again."""
    git(sigma.root, "switch", "-q", "-c", "topic")
    commit(sigma.root, {"docs/topic.md": "topic\n"}, "topic")
    git(sigma.root, "switch", "-q", "main")
    commit(sigma.root, {"docs/mine.md": "mine\n"}, "mine")
    git(sigma.root, "merge", "-q", "--no-commit", "topic")
    merged = commit(sigma.root, {"docs/fix.md": "written in the merge\n"}, "merge")
    told = sigma.cn("sync", check=1).stderr
    assert (
        f"(which makes no merge again: what was written in one is at refs/cn/rescue/main-{merged[:16]} alone)" in told
    )
    obey(sigma, *told_commands(told, "if the loss is meant"))
    assert not (sigma.root / "docs/fix.md").exists()
    assert git(sigma.root, "show", f"refs/cn/rescue/main-{merged[:16]}:docs/fix.md") == "written in the merge"
    sigma.sync()


def test_what_was_lost_is_pushed_back(sigma: Node, lost: str) -> None:
    before = tip(sigma.root, "main")
    told = sigma.cn("sync", check=1).stderr
    obey(sigma, told_commands(told)[0])
    sigma.sync()
    assert branches(sigma.home)["main"] == before


def test_what_somebody_pushed_over_it_is_named_and_not_lost(world: World, sigma: Node, lost: str) -> None:
    stale = clone(sigma.home, world.folder / "stale")
    identify(stale, "Ann", "ann@people.example")
    theirs = commit(stale, {"docs/stale.md": "work\n"}, "From a stale clone")
    force_push(stale, sigma.url, "HEAD:refs/heads/main")
    before = tip(sigma.root, "main")
    told = sigma.cn("sync", check=1).stderr
    assert f"1 commit that this clone did not know ({theirs[:7]} From a stale clone (Ann))" in told
    assert tip(sigma.root, f"refs/cn/rescue/{theirs[:16]}") == theirs
    obey(sigma, *told_commands(told.partition("; if they shall go")[0], "if they shall stay"))
    main = branches(sigma.home)["main"]
    assert {before, theirs} <= set(git(sigma.home, "rev-list", main).split())
    assert read(sigma.home, "main:docs/stale.md") == b"work\n"


def test_what_somebody_pushed_over_it_is_thrown_out_and_kept_here(world: World, sigma: Node, lost: str) -> None:
    theirs = commit(clone(sigma.home, world.folder / "stale"), {"docs/stale.md": "work\n"}, "From a stale clone")
    force_push(world.folder / "stale", sigma.url, "HEAD:refs/heads/main")
    before = tip(sigma.root, "main")
    told = sigma.cn("sync", check=1).stderr
    obey(sigma, *told_commands(told.partition("; if the loss")[0], "if they shall go"))
    sigma.sync()
    assert branches(sigma.home)["main"] == before
    assert tip(sigma.root, f"refs/cn/rescue/{theirs[:16]}") == theirs


def test_an_origin_without_main_gets_it_back(sigma: Node) -> None:
    sigma.sync()
    git(sigma.home, "update-ref", "-d", "refs/heads/main")
    (command,) = told_commands(sigma.cn("sync", check=1).stderr)
    obey(sigma, command)
    sigma.sync()
    assert branches(sigma.home)["main"] == tip(sigma.root, "main")


@pytest.mark.sliced(2)
@pytest.mark.parametrize("ahead", [False, True])
def test_a_ledger_that_lost_lines_is_accepted(world: World, sigma: Node, pi: Node, ahead: bool) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    (month,) = (str(p.relative_to(sigma.root)) for p in sigma.root.glob("state/ledger/pi/2*"))
    other = other_clone(world, sigma)
    made = commit(other, {month: None}, "shorter")
    push(other, sigma.url, "main")
    if ahead:
        commit(sigma.root, {"docs/mine.md": "mine\n"}, "mine")
    told = sigma.cn("sync", check=1).stderr
    assert "lost entries of the ledger" in told
    obey(sigma, *told_commands(told, "if the loss is meant"))
    told = sigma.cn("sync", check=None).stderr
    assert "lost entries" not in told
    assert made in git(sigma.home, "rev-list", "main").split()


@pytest.mark.parametrize("how", ["commit", "merge", "two commits", "stale merge"])
def test_lines_of_the_ledger_that_a_commit_took_come_back_without_a_push_over_it(
    world: World, sigma: Node, pi: Node, how: str
) -> None:
    """What came since stays, and origin's main is never rewound."""
    other = other_clone(world, sigma)
    world.propose(pi, sigma)
    sigma.sync()
    (month,) = (str(p.relative_to(sigma.root)) for p in sigma.root.glob("state/ledger/pi/2*"))
    known = branches(sigma.home)["main"]
    if how == "stale merge":  # begun before the entries came, and main taken in without them
        commit(other, {"docs/old.md": "old\n"}, "old")
        git(other, "fetch", "-q")
        git(other, "merge", "-q", "--no-commit", "origin/main")
        git(other, "rm", "-qrf", "state/ledger")
        git(other, "commit", "-qm", "bad merge")
    else:
        git(other, "pull", "-q")
        git(other, "switch", "-qc", "side")
        if how == "two commits":
            commit(other, {month: "".join((other / month).read_text().splitlines(True)[1:])}, "shorter")
            commit(other, {"docs/between.md": "x\n"}, "between")
        commit(other, {month: None}, "bad")
        git(other, "switch", "-q", "main")
        git(other, "merge", "-q", "side", *(["--no-ff"] if how == "merge" else []))
    bad = commit(other, {"docs/since.md": "since\n"}, "work that followed")
    push(other, sigma.url, "main")
    told = sigma.cn("sync", check=1).stderr
    assert "lost entries of the ledger" in told
    assert "push" not in told
    back = told_commands(told.partition("; if the loss is meant")[0], "→")
    assert [one.split()[:2] for one in back] == [["git", "merge"], ["cn", "sync"]]
    obey(sigma, *back)
    main = branches(sigma.home)["main"]
    assert {known, bad} <= set(git(sigma.home, "rev-list", main).split())
    assert read(sigma.home, "main:docs/since.md") == b"since\n"
    assert read(sigma.home, f"main:{month}") == read(sigma.home, f"{known}:{month}")
    assert "healthy" in sigma.cn("doctor").stdout
    sigma.decide("pi/proposal", "do:merge")


@pytest.mark.parametrize("guard", [False, True])
def test_what_comes_back_is_not_what_was_before_the_commit_that_others_made(
    world: World, sigma: Node, pi: Node, guard: bool
) -> None:
    """They choose what is before it: here what stood there before a reviewer left."""
    if guard:
        git(sigma.root, "config", "cn.guard", "true")
    world.propose(pi, sigma)
    sigma.sync()
    commit(sigma.root, {".cn/who.txt": "bob\n", "state/.gitattributes": "bob\n"}, "bob")
    sigma.sync()
    old = branches(sigma.home)["main"]
    commit(sigma.root, {".cn/who.txt": None, "state/.gitattributes": None}, "bob left")
    sigma.sync()
    known, other = branches(sigma.home)["main"], other_clone(world, sigma)
    left = list[str]()
    for parents in ([old], [known]):
        git(other, "checkout", "-q", "-f", "--detach", parents[0])
        git(other, "rm", "-rqf", ".cn", "state/ledger")
        git(other, "rm", "-qf", "--ignore-unmatch", "state/.gitattributes")
        words = [word for one in (*left, *parents) for word in ("-p", one)]
        left.append(git(other, "commit-tree", *words, "-m", "tidy", git(other, "write-tree")))
    git(other, "push", "-q", sigma.url, f"{left[-1]}:refs/heads/main")
    told = sigma.cn("sync", check=1).stderr
    assert "the project left cn" in told
    obey(sigma, *[one for one in told_commands(told, "to come back") if one.startswith("git ")])
    sigma.cn("sync", check=None)
    there = paths(sigma.home, "main")
    assert ".cn/hub.yaml" in there or guard
    assert not {".cn/who.txt", "state/.gitattributes"} & set(there)


def test_a_line_of_the_ledger_that_nobody_accepted_does_not_come_back(world: World, sigma: Node, pi: Node) -> None:
    """A person said that a rewound main shall stay; what it has more is refused, and taken out there again."""
    git(sigma.root, "config", "cn.guard", "true")
    world.propose(pi, sigma)
    sigma.sync()
    known = branches(sigma.home)["main"]
    commit(sigma.root, {"docs/mine.md": "mine\n"}, "mine")
    sigma.sync()
    other = other_clone(world, sigma)
    git(other, "reset", "-q", "--hard", known)
    (month,) = (str(p.relative_to(other)) for p in other.glob("state/ledger/pi/2*"))
    was = (other / month).read_text()
    head = branches(sigma.home)["pi/proposal"]
    commit(other, {month: f"{was}2026-02-05T13:00:00Z in gone proposal {head}\n"}, "forged")
    git(other, "push", "-q", "--force", sigma.url, "main")
    told = sigma.cn("sync", check=1).stderr
    obey(sigma, *told_commands(told.partition(", then 'cn sync'")[0], "if they shall stay"))
    assert "protected files changed elsewhere" in sigma.cn("sync", check=1).stderr
    commit(other, {month: was}, "as it was")
    push(other, sigma.url, "main")
    told = sigma.cn("sync", check=None).stderr
    assert "lost entries" not in told
    sigma.sync()
    assert b"in gone" not in read(sigma.home, f"main:{month}")
    assert "healthy" in sigma.cn("doctor").stdout


@pytest.mark.parametrize("merged", [False, True])
def test_a_project_that_left_cn_is_called_that_and_comes_back_as_told(
    world: World, sigma: Node, pi: Node, merged: bool
) -> None:
    second = world.second(sigma)
    world.propose(pi, sigma)
    second.sync()
    sigma.sync()
    other = other_clone(world, sigma)
    git(other, "switch", "-qc", "side")
    kept = commit(other, {"docs/since.md": "since\n"}, "work")
    git(other, "rm", "-rq", ".cn", "threads", "logs", "state", "spec", "skills")
    git(other, "commit", "-qm", "Without cn")
    left = tip(other, "HEAD")
    git(other, "switch", "-q", "main")
    git(other, "merge", "-q", "side", *(["--no-ff"] if merged else []))
    left = tip(other, "HEAD") if merged else left
    push(other, sigma.url, "main")
    told = sigma.cn("sync", check=1).stderr
    assert "the project left cn: origin's main has no .cn/hub.yaml any more, it was taken out by" in told
    assert f"{left[:12]} " in told
    assert "if that is meant, 'cn cron remove' ends cn's runs here" in told
    assert "push" not in told
    assert "lost entries" not in told
    merge, *back = told_commands(told, "to come back")
    obey(sigma, merge)
    gone = sigma.cn("sync", check=3).stderr
    assert f"main has no .cn/hub.yaml any more: it was taken out by {left[:12]}" in gone
    assert "'cn cron remove' ends cn's runs here" in gone
    obey(sigma, *back)
    assert kept in git(sigma.home, "rev-list", "main").split()
    assert "docs/since.md" in git(sigma.home, "ls-tree", "-r", "--name-only", "main").split()
    second.sync()
    assert sigma.threads() == second.threads() != []
    for node in (sigma, second):
        assert "healthy" in node.cn("doctor").stdout


def test_a_conflict_is_resolved_as_told(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"docs/d.md": "1\n"}, "base")
    sigma.sync()
    other = other_clone(world, sigma)
    commit(other, {"docs/d.md": "theirs\n"}, "theirs")
    push(other, sigma.url, "main")
    commit(sigma.root, {"docs/d.md": "ours\n"}, "ours")
    told = sigma.cn("sync", check=1).stderr
    (command,) = told_commands(told, "conflict with origin's main in docs/d.md")
    done = subprocess.run(command, shell=True, cwd=sigma.root, capture_output=True, text=True, timeout=60)
    assert "CONFLICT" in done.stdout, (command, done.stderr)
    for look in ("status", "doctor"):
        shown = " ".join(sigma.cn(look, check=None).stdout.split())
        assert f"a merge is open in {sigma.root}" in shown
        assert "git pull" not in shown, "git refuses that now"
    (sigma.root / "docs/d.md").write_text("both\n")
    git(sigma.root, "commit", "-qam", "both")
    sigma.sync()
    assert read(sigma.home, "main:docs/d.md") == b"both\n"


def test_a_tag_that_is_called_as_main_is_no_part_of_what_is_told(world: World, sigma: Node, pi: Node) -> None:
    """Who may push tags to the mailbox gives origin one called ``main``, with what nobody decided."""
    sigma.write({"docs/d.md": "1\n"}, "base")
    sigma.sync()
    other = other_clone(world, sigma)
    commit(other, {"evil.md": "evil\n"}, "evil")
    push(other, sigma.url, "HEAD:refs/tags/main")
    git(other, "reset", "--quiet", "--hard", "HEAD~1")
    commit(other, {"docs/d.md": "theirs\n"}, "theirs")
    push(other, sigma.url, "refs/heads/main")
    commit(sigma.root, {"docs/d.md": "ours\n"}, "ours")
    (command,) = told_commands(sigma.cn("sync", check=1).stderr, "conflict with origin's main in docs/d.md")
    done = subprocess.run(command, shell=True, cwd=sigma.root, capture_output=True, text=True, timeout=60)
    assert "CONFLICT" in done.stdout, (command, done.stderr)
    (sigma.root / "docs/d.md").write_text("both\n")
    git(sigma.root, "commit", "-qam", "both")
    sigma.sync()
    assert read(sigma.home, "refs/heads/main:docs/d.md") == b"both\n"
    assert "evil.md" not in paths(sigma.home, "refs/heads/main")


def other_clone(world: World, sigma: Node) -> Path:
    """Somebody else who may push to sigma's origin."""
    path = clone(sigma.url, world.folder / "other")
    identify(path, "other")
    return path


def test_where_the_configuration_lost_origin_nothing_is_decided_alone(world: World) -> None:
    """A crash can leave an empty file, a person can give it another name."""
    sigma = world.hub("sigma", origin=True)
    pi = world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    config = sigma.root / ".git/config"
    whole, told, main = config.read_text(), branches(pi.home), tip(sigma.root)
    for lost in ("", whole.replace('"origin"', '"upstream"')):
        config.write_text(lost)
        for words in (("sync",), ("inbox", "process")):
            done = sigma.cn(*words, check=1)
            assert "names no remote origin, and this clone had one" in done.stderr
        assert "names no remote origin" in sigma.cn("doctor", check=1).stdout
        assert (branches(pi.home), tip(sigma.root)) == (told, main)
    git(sigma.root, "remote", "rename", "upstream", "origin")
    sigma.process()
    assert is_in_main(sigma, head)


def test_an_origin_that_is_gone_for_good_is_let_go_by_the_command_that_is_told(world: World) -> None:
    sigma = world.hub("sigma", origin=True)
    sigma.sync()
    git(sigma.root, "remote", "remove", "origin")
    told = sigma.cn("sync", check=1).stderr
    git(sigma.root, *shlex.split(re.findall("'git (update-ref .*?)'", told)[0]))
    sigma.sync()


@pytest.mark.parametrize("kind", ["path", "git"])
@pytest.mark.parametrize("told_by", ["sync", "doctor"])
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed as well"])
def test_a_main_that_a_crash_broke_at_origin_comes_back_by_what_is_told(
    world: World, tmp_path: Path, kind: str, packed: bool, told_by: str
) -> None:
    """It is not gone: git sets no main there before the file without a commit is taken away."""
    with serve(kind, tmp_path / "served", tmp_path / "server") as served:
        served.repo("sigma")
        sigma = world.hub("sigma", url=served.url("sigma"), home=served.path("sigma"))
        pi = world.hub("pi")
        world.link(sigma, pi)
        if packed:
            git(sigma.home, "pack-refs", "--all")
        world.propose(pi, sigma)
        sigma.sync()
        before = tip(sigma.root, "main")
        (sigma.home / "refs/heads/main").write_text("")
        examined = sigma.cn("doctor", check=1).stdout
        assert "origin's own refs/heads/main is broken" in examined
        for wrong in ("allow it there", "may not create", "default branch", "check the network"):
            assert wrong not in examined
        steps = re.findall(r"'((?:rm|git) [^']*)'", examined)
        if told_by == "sync":
            told = sigma.cn("sync", check=1).stderr
            assert "origin's own refs/heads/main is broken" in told
            steps = re.findall(r"'((?:rm|git) [^']*)'", told)
            assert steps == re.findall(r"'((?:rm|git) [^']*)'", sigma.cn("status", check=None).stdout)
        for step in steps:
            place = sigma.root if "refs/cn/rescue/" in step else sigma.home
            subprocess.run(step, shell=True, cwd=place, check=True, capture_output=True, timeout=60)
        sigma.sync()
        assert tip(sigma.home, "main") == before
        world.propose(pi, sigma, topic="other")
        sigma.sync()
        assert len(sigma.threads()) == 2
        assert "problem" not in sigma.cn("doctor").stdout


def test_a_fresh_clone_of_an_origin_with_a_broken_main_makes_none_anew(sigma: Node) -> None:
    git(sigma.root, "update-ref", "-d", "refs/cn/origin/main")
    before = tip(sigma.home, "main")
    (sigma.home / "refs/heads/main").write_text("")
    told = sigma.cn("sync", check=1).stderr
    assert "origin's own refs/heads/main is broken" in told
    for step in re.findall(r"'((?:rm|git) [^']*)'", told):
        subprocess.run(step, shell=True, cwd=sigma.root, check=True, timeout=60)
    sigma.sync()
    assert git(sigma.home, "merge-base", before, "main") == before


@pytest.mark.parametrize("kind", ["path", "file"])
def test_a_cut_list_of_refs_at_origin_is_no_matter_of_the_network(world: World, tmp_path: Path, kind: str) -> None:
    with serve(kind, tmp_path / "served", tmp_path / "server") as served:
        served.repo("sigma")
        sigma = world.hub("sigma", url=served.url("sigma"), home=served.path("sigma"))
        sigma.sync()
        git(sigma.home, "pack-refs", "--all")
        packed = sigma.home / "packed-refs"
        packed.write_bytes(packed.read_bytes()[:-10])
        told = sigma.cn("sync", check=1).stderr
        assert "who keeps that repository moves that file away there" in told
        assert "check the network" not in told
        packed.rename(packed.with_name("damaged"))
        step = re.findall(r"'(git push [^']*)'", sigma.cn("sync", check=1).stderr)[-1]
        obey(sigma, step)
        sigma.sync()
