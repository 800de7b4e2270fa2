"""Every refusal says what, why, and the next step, once; and stands in the status until it is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.hubs import git, push, try_git, write_commit
from tests.support.world import Node, World, content


@dataclass(frozen=True)
class Case:
    """How a condition begins and ends; ``told`` is in what the run says, ``remedy`` in the line below it.

    ``shown`` is what the status says, if that is not ``told``.
    """

    begin: Callable[[World, Node, Node], None]
    end: Callable[[World, Node, Node], None]
    told: str
    remedy: str
    words: tuple[str, ...] = ("sync",)
    shown: str = ""


def _stray(world: World, sigma: Node, pi: Node) -> None:
    (sigma.root / "threads/inbox/20260101-pi-x.md").write_text("x\n")


def _no_stray(world: World, sigma: Node, pi: Node) -> None:
    (sigma.root / "threads/inbox/20260101-pi-x.md").unlink()


def _committed_stray(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"threads/inbox/20260101-pi-x.md": "x\n"})


def _no_committed_stray(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.root, "rm", "--quiet", "--", "threads/inbox/20260101-pi-x.md")
    git(sigma.root, "commit", "--quiet", "-m", "out")
    git(sigma.root, "push", "--quiet", "origin", "main")


def _vanished(world: World, sigma: Node, pi: Node) -> None:
    pi.home.rename(world.folder / "away")


def _back(world: World, sigma: Node, pi: Node) -> None:
    (world.folder / "away").rename(pi.home)
    sigma.cn("peer", "sync", "pi")


def _bad_outbox(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"threads/mail/outbox/20260101-pi-x.md": "nothing of the sort\n"})


def _good_outbox(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"threads/mail/outbox/20260101-pi-x.md": None})


def _wake(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.root, "config", "cn.wake", "exit 3")
    world.propose(pi, sigma, "waking")


def _awake(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.root, "config", "cn.wake", "true")


def _bad_name(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.home, "pack-refs", "--all")
    refs = sigma.home / "packed-refs"
    head = git(sigma.home, "rev-parse", "main")
    refs.write_bytes(refs.read_bytes() + f"{head} refs/heads/pi/zz-".encode() + b"\xff\n")


def _good_name(world: World, sigma: Node, pi: Node) -> None:
    refs = sigma.home / "packed-refs"
    lines = [line for line in refs.read_bytes().splitlines(keepends=True) if b"\xff" not in line]
    refs.write_bytes(b"".join(lines))


def _impostor(world: World, sigma: Node, pi: Node) -> None:
    text = "---\ncn: message/1\nkind: message\nfrom: omega\nto: sigma\nsubject: x\n"
    text += "created: 2026-02-05T12:00Z\n---\n"
    person = world.person(pi, sigma)
    head = write_commit(person, {"message.md": text}, "x")
    push(person, sigma.url, f"{head}:refs/heads/pi/liar")


def _honest(world: World, sigma: Node, pi: Node) -> None:
    world.withdraw(pi, sigma, "liar")


def _bad_triage(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "unclear")
    sigma.sync()
    sigma.write_triage(sigma.only_thread(), "merge it please")


def _good_triage(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("delete", "pi/unclear", check=None)
    path = sigma.root / "threads/inbox" / sigma.only_thread() if sigma.threads() else None
    if path:
        path.write_text(path.read_text().replace("merge it please", "delete:no"))
        sigma.process()


def _secret(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "question")
    sigma.sync()
    sigma.triage("pi/question", "do:reply:answer", "--body", "it is with you")
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    path.write_text(f"{path.read_text()}\nghp_abcdefghijklmnopqrstuvwxyz0123456789\n")


def _no_secret(world: World, sigma: Node, pi: Node) -> None:
    sigma.triage("pi/question", "do:reply:answer", "--body", "it is with you")
    sigma.process()


CASES = {
    "a stray file": Case(_stray, _no_stray, "is no thread cn knows", "move it elsewhere", shown="20260101-pi-x.md"),
    "a stray file in main": Case(
        _committed_stray, _no_committed_stray, "is no thread cn knows", "git rm --", shown="20260101-pi-x.md"
    ),
    "a peer that is away": Case(_vanished, _back, "pi is unreachable", "tries again", shown="\nunreachable"),
    "a damaged outbox file": Case(_bad_outbox, _good_outbox, "20260101-pi-x.md", "it is not sent"),
    "a failing wake": Case(_wake, _awake, "the wake command failed", "git config cn.wake"),
    "a name outside the grammar": Case(_bad_name, _good_name, "valid-name", "must rename it"),
    "another's name": Case(_impostor, _honest, "known-peer", "ask pi to delete the branch"),
    "an unclear decision": Case(_bad_triage, _good_triage, "valid-triage", "write delete:", ("inbox", "process")),
    "a secret": Case(_secret, _no_secret, "no-secrets", "take it out", ("inbox", "process")),
}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("name", CASES)
def test_a_condition_is_told_once_and_stands_until_it_is_gone(name: str, world: World, sigma: Node, pi: Node) -> None:
    case = CASES[name]
    sigma.sync()
    case.begin(world, sigma, pi)
    first = sigma.cn(*case.words, check=1)
    lines = first.stderr.splitlines()
    at = [i for i, line in enumerate(lines) if case.told in line]
    assert at, first.stderr
    assert any(case.remedy in line for line in lines[at[0] : at[0] + 2]), first.stderr
    again = sigma.cn(*case.words)
    assert (again.stdout, again.stderr) == ("", "")
    mark = case.shown or case.told
    assert mark in sigma.cn("status").stdout
    assert mark.strip() in sigma.cn("status", "--json").stdout
    assert "ghp_" not in first.stderr + sigma.cn("status", "-v").stdout + sigma.cn("log").stdout
    case.end(world, sigma, pi)
    sigma.sync()
    sigma.process()
    assert mark not in sigma.cn("status").stdout


def test_an_edit_with_a_key_is_not_committed(sigma: Node) -> None:
    path = sigma.root / "threads/adhoc/20260205-keys.md"
    path.write_text("# Keys\n\nthe key:\nAKIAIOSFODNN7EXAMPLE\n")
    done = sigma.cn("commit", check=1)
    assert "threads/adhoc/20260205-keys.md, line 4: looks like a secret (AWS Access Key)" in done.stderr
    assert "AKIA" not in done.stdout + done.stderr
    assert content(sigma, "threads/adhoc/20260205-keys.md") is None
    mark = done.stderr.partition('allow: ["')[2][:16]
    sigma.configure(f'secrets:\n  allow: ["{mark}"]\n')
    sigma.cn("commit")
    assert content(sigma, "threads/adhoc/20260205-keys.md") == path.read_bytes()
    path.write_text(path.read_text() + "AKIAIOSFODNN7EXAMPLF\n")
    assert "line 5" in sigma.cn("commit", check=1).stderr
    git(sigma.root, "checkout", "--", ".")


def test_a_branch_named_like_a_key_can_be_decided(world: World, sigma: Node, pi: Node) -> None:
    topic = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    world.propose(pi, sigma, topic, {"docs/x.md": "x\n"})
    sigma.sync()
    sigma.decide(f"pi/{topic}", "delete:no more of these")
    assert sigma.threads() == []


@pytest.mark.parametrize("decision", ["delete:no more, AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"])
def test_a_refused_decision_with_a_key_is_not_logged_with_it(
    world: World, sigma: Node, pi: Node, decision: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.write_triage(sigma.only_thread(), decision)
    done = sigma.process(check=1)
    shown = sigma.cn("log", "-v").stdout + (sigma.root / "logs/cn.log").read_text()
    assert "refused" in shown
    assert "AKIA" not in done.stdout + done.stderr + shown
    assert try_git(sigma.root, "grep", "AKIA", "main").returncode == 1
