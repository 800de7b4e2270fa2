"""A short id decides only where it is of one commit: whoever makes commits finds two that begin alike."""

from __future__ import annotations

import re

import pytest

from cn.git.repository import open_hub
from cn.run.short_ids import others_like
from cn.run.snapshot import Snapshot
from cn.values.names import Name, Oid
from tests.support.alike import commits_alike
from tests.support.hubs import git, push, tip
from tests.support.world import Node, World, is_in_main


class Pair:
    """A proposal of pi's whose first eight digits are also those of the one that takes its place."""

    def __init__(self, world: World, sigma: Node, pi: Node) -> None:
        self.world, self.sigma, self.pi = world, sigma, pi
        heads = [world.propose(pi, sigma, "fix", {"docs/a.md": text}, force=True) for text in ("good\n", "evil\n")]
        self.work = world.person(pi, sigma)
        good, evil = (git(self.work, "rev-parse", f"{head}^{{tree}}") for head in heads)
        parent = git(self.work, "rev-parse", "origin/main")
        self.good, self.evil = commits_alike(self.work, parent, (good, evil), 8)
        self.short = self.good[:8]
        assert self.evil.startswith(self.short)

    def show(self, head: str) -> None:
        push(self.work, self.sigma.home, f"+{head}:refs/heads/pi/fix")
        self.sigma.sync()


DECISIONS = [("inbox", "triage", "pi/fix", "do:merge"), ("done", "pi/fix"), ("comment", "pi/fix", "Yes.")]


@pytest.mark.parametrize("words", DECISIONS)
def test_a_head_that_begins_as_another_of_its_branch_is_not_meant_by_a_short_id(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    pair = Pair(world, sigma, pi)
    pair.show(pair.good)
    sigma.cn("inbox", "show", "pi/fix")
    pair.show(pair.evil)
    said = sigma.cn(*words, "--head", pair.short, check=1).stderr
    assert f"{pair.short} is the beginning of {pair.evil}, where pi/fix is, and of {pair.good[:16]}" in said
    assert "give the whole id" in said
    said = sigma.cn(*words, "--head", pair.good, check=1).stderr
    assert f"pi/fix is at {pair.evil[:16]}, not at {pair.good[:16]}" in said
    assert "✓" in sigma.cn(*words, "--head", pair.evil).stdout


def test_what_another_clone_has_seen_of_the_branch_counts_too(world: World, sigma: Node, pi: Node) -> None:
    pair = Pair(world, sigma, pi)
    pair.show(pair.good)
    pair.show(pair.evil)
    second = world.second(sigma).root
    git(second, "gc", "--quiet", "--prune=now")  # a clone of a folder has all that lies there
    assert pair.good not in git(second, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    snapshot = Snapshot(open_hub(second).git, Oid(tip(second, "main")))
    evil = Oid(pair.evil)
    assert others_like(snapshot, Name("pi"), "fix", evil, pair.short) == [pair.good[:16]]
    assert others_like(snapshot, Name("pi"), "fix", evil, pair.evil) == []


def test_what_cn_says_to_write_is_the_whole_id(world: World, sigma: Node, pi: Node) -> None:
    pair = Pair(world, sigma, pi)
    pair.show(pair.good)
    sigma.cn("inbox", "show", "pi/fix")
    pair.show(pair.evil)
    said = sigma.cn("inbox", "triage", "pi/fix", "do:merge", check=1).stderr
    assert f"from {pair.good[:16]} to {pair.evil[:16]}" in said
    assert re.findall("--head ([0-9a-f]+)", said) == [pair.evil]
    sigma.cn("inbox", "triage", "pi/fix", "do:merge", "--head", pair.evil)
    assert f"\nhead: {pair.evil}\n" in sigma.thread(sigma.only_thread())


@pytest.mark.parametrize("alike", [True, False])
def test_a_section_with_a_part_of_an_id_decides_where_that_is_of_one_commit(
    world: World, sigma: Node, pi: Node, *, alike: bool
) -> None:
    pair = Pair(world, sigma, pi)
    if alike:
        pair.show(pair.good)
    pair.show(pair.evil)
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    section = f"\n## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-11-27\nhead: {pair.short}\n"
    path.write_text(path.read_text() + section)
    done = sigma.cn("inbox", "process", check=None)
    assert is_in_main(sigma, pair.evil) == (not alike)
    if alike:
        assert f"void: head: {pair.short} is the beginning of {pair.evil}, and of {pair.good[:16]}" in done.stderr
        assert done.returncode == 1
        path.write_text(path.read_text().replace(f"head: {pair.short}\n", f"head: {pair.evil}\n"))
        sigma.cn("inbox", "process")
        assert is_in_main(sigma, pair.evil)
