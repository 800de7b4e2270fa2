"""Many branches cost as many git processes as few: what is counted does not depend on the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cn.protocol.layout import CONCERN, MESSAGE, NOTICE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from cn.values.timestamps import parse_stamp
from tests.support.hubs import branches, clone, git, tip
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


@pytest.mark.sliced(4)
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


KINDS: dict[str, tuple[str, ...]] = {
    "proposals": ("proposal",),
    "messages": ("message",),
    "notices": ("notice",),
    "concerns": ("concern",),
    "a mix": ("proposal", "message", "notice", "concern", "merge", "stranger", "link", "attached"),
}


def commits(kind: str, n: int, heads: dict[int, str]) -> str:
    """One branch of a kind, as pi would make it for sigma (git-fast-import(1)): ``t<n>``."""
    start = f"commit refs/heads/t{n}\ncommitter Pi <pi@people.example> 177000{n:04} +0000\ndata 2\nm\n"
    base = "from refs/remotes/sigma/main^0\n"
    if kind == "stranger":
        return f"{start}M 644 inline a{n}\ndata 2\nx\n"
    if kind == "link":
        return f"{start}{base}M 120000 inline l{n}\ndata 1\nx\n"
    if kind == "merge":
        return f"{start}{base}M 644 inline a{n}\ndata 2\nx\n\n{start}merge refs/remotes/sigma/main~1\n"
    if kind == "proposal":
        return f"{start}{base}M 644 inline docs/start.md\ndata 2\n{n % 10}\n"
    about = About(Branch(f"sigma/ours-{n}"), Oid(heads[n]), "replied") if kind == "notice" else None
    created = parse_stamp(f"2026-02-05T12:00:{n:02}Z")
    word = {"notice": NOTICE, "concern": CONCERN}.get(kind, MESSAGE)
    message = Message(word, Name("pi"), Name("sigma"), f"number {n}", created, "Hello.\n", about=about)
    data = format_message(message).decode()
    more = "M 644 inline attachments/a\ndata 2\na\n" if kind == "attached" else ""
    return f"{start}M 644 inline message.md\ndata {len(data)}\n{data}\n{more}"


@pytest.mark.sliced(6)
@pytest.mark.parametrize("route", ["mailbox", "pickup"])
@pytest.mark.parametrize("what", KINDS)
def test_more_branches_of_any_kind_start_no_more_processes(world: World, tmp_path: Path, what: str, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    person = clone(pi.url, world.folder / "person", "Pi")
    git(person, "remote", "add", "sigma", sigma.url)
    ours = {n: git(person, "commit-tree", f"{tip(person)}^{{tree}}", "-m", f"{n}") for n in range(40)}
    there, back = (sigma.url, pi.url) if route == "mailbox" else (pi.url, sigma.url)
    prefix, their_prefix = ("pi", "sigma") if route == "mailbox" else ("sigma", "pi")
    git(person, "push", "-q", back, *(f"{oid}:refs/heads/{their_prefix}/ours-{n}" for n, oid in ours.items()))
    sigma.sync()
    seen = []
    for numbers in (range(1), range(8, 16), range(16, 16 + 3 * 8)):
        git(person, "fetch", "-q", "sigma")
        kinds = KINDS[what]
        made = "".join(commits(kinds[n % len(kinds)], n, ours) for n in numbers)
        git(person, "fast-import", "--quiet", "--force", stdin=made)
        git(person, "push", "-q", there, *(f"t{n}:refs/heads/{prefix}/t{n}" for n in numbers))
        seen.append(counted(sigma, tmp_path, "inbox", "sync"))
    assert "cannot be shown" not in "".join(sigma.thread(name) for name in sigma.threads())
    assert seen[2] <= seen[1] + 1, seen
