"""Many branches cost as many git processes as few: what is counted does not depend on the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.hubs import branches, git
from tests.support.world import Node, World, is_in_main

FEW, MANY = 3, 9


def counted(node: Node, folder: Path, *words: str) -> int:
    """How many git processes of cn's own one run starts."""
    tools, log = folder / "tools", folder / "log"
    tools.mkdir(exist_ok=True)
    log.write_text("")
    real = shutil.which("git")
    (tools / "git").write_text(f"#!/bin/sh\necho >> '{log}'\nPATH=\"$REST\" exec '{real}' \"$@\"\n")
    (tools / "git").chmod(0o755)
    path = os.environ["PATH"]
    node.cn(*words, env={"PATH": f"{tools}{os.pathsep}{path}", "REST": path})
    return len(log.read_text())


def offer(world: World, sigma: Node, pi: Node, numbers: range) -> list[str]:
    """One-commit branches of disjoint files, pushed at once."""
    person = world.person(pi, sigma)
    git(person, "fetch", "-q", "origin")
    stream = "".join(
        f"commit refs/heads/t{n}\ncommitter Pi <pi@people.example> 1770000000 +0000\ndata 2\nm\n"
        f"from refs/remotes/origin/main^0\nM 644 inline docs/t{n}.md\ndata 2\nx\n"
        for n in numbers
    )
    git(person, "fast-import", "--quiet", "--force", stdin=stream)
    git(person, "push", "-q", sigma.url, *(f"t{n}:refs/heads/pi/t{n}" for n in numbers))
    return [branches(sigma.home)[f"pi/t{n}"] for n in numbers]


@pytest.mark.parametrize("decision", ["do:merge", "delete:not now", "do:reply:answer"])
def test_more_branches_start_no_more_processes(
    world: World, sigma: Node, pi: Node, tmp_path: Path, decision: str
) -> None:
    seen: list[tuple[int, int]] = []
    for numbers in (range(FEW), range(10, 10 + MANY)):
        heads = offer(world, sigma, pi, numbers)
        synced = counted(sigma, tmp_path, "inbox", "sync")
        names = sigma.threads()
        assert len(names) == len(numbers)
        for name in names:
            sigma.write_triage(name, decision)
            if decision.startswith("do:reply"):
                path = sigma.root / "threads/inbox" / name
                path.write_text(path.read_text() + "\nThanks.\n")
        processed = counted(sigma, tmp_path, "inbox", "process")
        assert sigma.threads() == []
        assert all(is_in_main(sigma, head) == (decision == "do:merge") for head in heads)
        assert sigma.outbox() == []
        seen.append((synced, processed))
    few, many = seen
    assert many[0] <= few[0] + 2
    assert many[1] <= few[1] + 2
