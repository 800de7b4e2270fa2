"""An object of one peer that brings git down keeps nothing of anybody else out, whichever git reads it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.figures import observed
from tests.support.hubs import ROOT, git
from tests.support.world import Node, World

READERS = ("cat-file", "log", "diff-tree", "merge-base", "rev-list", "ls-tree", "merge-tree", "for-each-ref", "show")
OBJECTS = {"commit": "{}", "tree": "{}^{{tree}}", "blob": "{}:docs/deep.md"}
CASES = [(reader, kind) for reader in READERS for kind in OBJECTS]


def crashing(folder: Path, reader: str, oid: str) -> dict[str, str]:
    """An environment in which ``git READER`` dies over an object; everything else is git."""
    folder.mkdir()
    real, program = shutil.which("git"), ROOT / "tests/support/crashing_git.py"
    dies = f'for word; do [ "$word" = {reader} ] && exec {sys.executable} -S {program} {real} {oid} "$@"; done'
    (folder / "git").write_text(f'#!/bin/sh\n{dies}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}


def shown(node: Node) -> set[str]:
    return {name[9:].removesuffix(".md") for name in node.threads()}


@pytest.mark.sliced(9)
@pytest.mark.parametrize(("reader", "kind"), CASES)
def test_a_git_that_dies_over_one_branch_keeps_no_other_out(
    world: World, tmp_path: Path, reader: str, kind: str
) -> None:
    sigma = world.hub("sigma", config="mailbox_trusted: true\n")
    pi, omega = world.hub("pi"), world.hub("omega")
    for peer in (pi, omega):
        world.link(sigma, peer)
    head = world.propose(pi, sigma, "deep", {"docs/deep.md": "deep\n"}, message="Dig deep")
    world.propose(pi, sigma, "fine")
    world.propose(omega, sigma, "other")
    oid = git(world.person(pi, sigma), "rev-parse", OBJECTS[kind].format(head))
    env = crashing(tmp_path / "bin", reader, oid)
    done = sigma.cn("inbox", "sync", check=None, env=env)
    first = shown(sigma)
    assert first >= {"pi-fine", "omega-other"}, done.stderr
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "pi-deep" in first or "pi/deep" in done.stderr, done.stderr
    again = sigma.cn("inbox", "sync", check=None, env=env)
    assert "internal error" not in again.stderr
    for thread in ("omega/other", "pi/deep"):
        if thread.replace("/", "-") in shown(sigma):
            sigma.triage(thread, "do:merge")
    decided = sigma.cn("inbox", "process", check=None, env=env)
    assert (sigma.root / "docs/other.md").exists(), decided.stderr
    assert "internal error" not in decided.stderr
    sigma.cn("inbox", "sync", check=None)
    last = sigma.cn("inbox", "process", check=None)
    assert "pi-deep" in shown(sigma) or (sigma.root / "docs/deep.md").exists(), last.stderr
    observed("killer-inputs", f"{reader}-{kind}", runs=5, shown_at_once=len(first))
