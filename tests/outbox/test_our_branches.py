"""Our own branches at peers: what is adopted, and what that costs."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.inbox.arrivals import record_vanished
from cn.loop.sync import sync
from cn.outbox.our_branches import record_ours
from cn.peers import observe
from cn.peers.observe import Observation
from cn.protocol.effects import Plan, Record
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, OUT, Event
from cn.protocol.message import Message, format_message
from cn.run.executor import Executor
from cn.run.run import open_run
from cn.transaction.push import encode
from cn.values.names import Branch, Name, Oid
from cn.values.report import Report
from tests.support.growth import assert_cost_grows_as_size
from tests.support.hubs import checkout, cn, commit, git, make_ssh_key, refs, sign_with, tip, write_raw_commit
from tests.support.world import MAIN_FILE, Node, World

PI = Name("pi")
_PI = {f"GIT_{who}_{what}": "pi@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def update(node: Node, *lines: str) -> None:
    git(node.home, "update-ref", "--stdin", stdin="".join(f"{line}\n" for line in lines))


def open_ours(node: Node) -> int:
    return sum('"kind": "proposal"' in line for line in (node.root / "state/ledger/pi/open").read_text().splitlines())


def test_a_flood_of_branches_in_our_name_is_adopted_within_limits(
    sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "_ADOPTED", 8)
    sigma.configure("limits: {branches_per_peer: 5}\n")
    parent, tree = tip(pi.home, "main"), git(pi.home, "rev-parse", "main^{tree}")
    heads = [git(pi.home, "commit-tree", tree, "-p", parent, stdin=str(i), **_PI) for i in range(20)]
    update(pi, *(f"create refs/heads/sigma/b{i:02d} {head}" for i, head in enumerate(heads)))

    def told() -> str:
        return "\n".join(note.text for note in sync(open_hub(sigma.root)).notes if not note.told_before)

    assert "pi: 15 more branches of ours wait for the next run (limit 5 a run)" in told()
    assert open_ours(sigma) == 5
    assert "pi lists more branches of ours that cn did not make than the 8 it follows: 12 are left alone" in told()
    assert open_ours(sigma) == 8
    assert told() == "", "it is told once"
    assert "than the 8 it follows" in sigma.cn("status").stdout
    update(pi, *(f"delete refs/heads/sigma/b{i:02d}" for i in range(20)))
    told()
    assert open_ours(sigma) == 0
    assert "than the 8" not in sigma.cn("status").stdout


def test_a_branch_of_ours_that_the_host_has_not_is_told_as_ours(sigma: Node, pi: Node) -> None:
    path = pi.home / "refs/heads/sigma/missing"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1" * 40 + "\n")
    said = sigma.cn("sync", check=1).stderr
    assert "our sigma/missing at pi cannot be fetched" in said
    assert "its creator" not in said
    assert "our sigma/missing" in sigma.cn("status").stdout
    path.unlink()
    sigma.sync()
    assert "sigma/missing" not in sigma.cn("status").stdout


def test_a_message_in_our_name_that_cn_did_not_send_is_not_adopted(sigma: Node, pi: Node) -> None:
    text = format_message(Message(MESSAGE, Name("sigma"), PI, "Hello", datetime.now(UTC), "It was not us."))
    blob = git(pi.home, "hash-object", "-w", "--stdin", stdin=text.decode())
    tree = git(pi.home, "mktree", stdin=f"100644 blob {blob}\tmessage.md\n")
    forged = git(pi.home, "commit-tree", tree, stdin="forged", **_PI)
    update(pi, f"create refs/heads/sigma/forged {forged}")
    said = sigma.cn("sync", check=0).stdout
    assert f"sigma/forged at pi is a message in our name at {forged[:8]} that cn did not send" in said
    assert "Another clone of this hub may have sent it" in said
    assert f"Where no clone and nobody here did, 'git push {pi.url} :refs/heads/sigma/forged' deletes it" in said
    assert "adopted sigma/forged" not in said
    assert "forged" not in sigma.cn("sync", check=0).stdout, "it is told once"
    assert "forged" not in sigma.cn("status").stdout


def test_a_notice_that_goes_with_what_it_is_about_is_not_missed(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "hello")
    sigma.sync()
    sigma.decide("pi/hello", "defer:later")
    sigma.decide("pi/hello", "delete:no")
    world.withdraw(pi, sigma, "hello")
    update(pi, "delete refs/heads/sigma/notice-hello")
    done = sigma.sync()
    assert "our sigma/notice-hello is gone at pi, with what it was about" in done.stdout
    assert "✗" not in done.stdout
    assert "gone" not in sigma.cn("status").stdout


def _vanish(side: str) -> Callable[[Executor, list[str]], None]:
    """A run in which all these branches of one side are gone."""

    def run(executor: Executor, names: list[str]) -> None:
        seen = Observation({(PI, side, encode(name)): Oid("a" * 40) for name in names})
        seen.saw = {IN: {PI}, OUT: {PI}}
        (record_ours if side == OUT else record_vanished)(executor, seen)

    return run


def _list(executor: Executor, names: list[str]) -> None:
    """A run in which all these branches are new, at one commit that the ledger has under many names."""
    seen = Observation({})
    seen.listed[OUT] = {(PI, f"new-{name}"): (Branch(f"sigma/new-{name}"), Oid("a" * 40)) for name in names}
    record_ours(executor, seen)


@pytest.mark.parametrize("work", [_vanish(OUT), _vanish(IN), _list], ids=["ours gone", "theirs gone", "ours found"])
def test_the_cost_of_following_ours_grows_as_the_listing_does(
    tmp_path: Path, template: Path, work: Callable[[Executor, list[str]], None]
) -> None:
    world = World(tmp_path, template)
    node = world.hub("sigma", origin=False)
    world.link(node, world.hub("pi", origin=False))
    runs: dict[int, Callable[[], None]] = {}
    with open_run(open_hub(node.root), Report()) as run:
        made = 0
        for size in (400, 1600):
            long = "x" * 200
            names = [f"{long if i % 2 else ''}b{i}" for i in range(size)]

            def grow(executor: Executor, names: list[str] = names, made: int = made) -> str:
                for name in names[made:]:
                    fields = {"branch": f"sigma/{name}", "kind": "proposal"}
                    event = Event(run.now, OUT, "adopted", name, Oid("a" * 40), fields)
                    theirs = Event(run.now, IN, "refused", name, Oid("a" * 40))
                    executor.perform(Plan("test", (Record(PI, event), Record(PI, theirs))))
                return "cn: test"

            run.commit(grow)
            made = size
            executor = run.executor
            snapshot = run.snapshot
            runs[size] = lambda names=names, snapshot=snapshot: work(  # type: ignore[misc]
                Executor(run.hub, run.settings, snapshot, run.base, run.memory), names
            )
            assert executor().empty
        assert_cost_grows_as_size(lambda size: runs[size](), 400)


def test_what_its_author_mended_with_git_waits_for_the_peer_again(world: World, sigma: Node, pi: Node) -> None:
    """Refused, amended and pushed by hand: nothing is left to mend until the peer answers."""
    world.propose(pi, sigma, files={MAIN_FILE: "mine\n"})
    pi.sync()
    sigma.sync()
    sigma.write({MAIN_FILE: "other\n"})
    sigma.sync()
    sigma.triage(sigma.only_thread(), "do:merge")
    sigma.cn("inbox", "process", check=None)
    pi.sync()
    assert "refused at a peer, waits for you" in pi.cn("status").stdout
    person = world.person(pi, sigma)
    git(person, "commit", "--quiet", "--amend", "-m", "Mended")
    head = tip(person, "HEAD")
    world.offer(pi, sigma, "proposal", head, force=True)
    pi.sync()
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"moved to {head[:8]} by hand, no answer yet; before that refused" in shown
    assert "waits for you" not in shown
    pi.cn("status", "--check")


@pytest.mark.parametrize("copy", ["the same commit", "the same signed words"])
@pytest.mark.parametrize("when", ["before it is taken back", "afterwards"])
@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_what_we_took_back_is_named_as_long_as_it_stands_there_under_another_name(
    world: World, tmp_path: Path, deliver: str, when: str, copy: str
) -> None:
    """Whoever can push there may have put it there, and the peer may merge it."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    person = world.person(pi, sigma)
    sign_with(person, make_ssh_key(tmp_path / "key")[0])
    git(person, "config", "commit.gpgsign", "true")
    checkout(person, "fix", "origin/main")
    head = commit(person, {"docs/fix.md": "fix\n"}, "Fix")
    cn("propose", "fix", "sigma", "--hub", pi.root, cwd=person, check=0)
    branch, url = world.branch(pi, sigma, "aa")
    place = (sigma if deliver == "mailbox" else pi).home
    if copy != "the same commit":
        raw = (git(place, "cat-file", "commit", head) + "\n").encode()
        head = write_raw_commit(place, raw.replace(b"SIGNATURE-----\n ", b"SIGNATURE-----\n \n ", 1))
    git(place, "update-ref", f"refs/heads/{branch}", head)
    said = pi.cn("sync", check=0).stdout if when == "before it is taken back" else ""
    pi.cn("withdraw", "fix")
    for _ in range(2):
        said += pi.cn("sync", check=0).stdout
    assert "adopted" not in said
    shown = " ".join(pi.cn("status").stdout.split())
    at = "sigma" if deliver == "mailbox" else "origin"
    told = f"{branch} at {at} is what we took back as sigma:fix, at {head[:8]}, under another name"
    assert told in shown
    assert said.count(told) == 1
    assert told in " ".join(pi.cn("doctor", check=None).stdout.split())
    step = f"git push {url} :refs/heads/{branch}"
    assert f"{step} deletes it" in shown.replace("'", "")
    subprocess.run(shlex.split(step), cwd=pi.root, check=True, capture_output=True)
    pi.sync()
    assert "took back" not in pi.cn("status").stdout


@pytest.mark.parametrize("told", ["before it is taken back", "afterwards"])
def test_a_strangers_name_for_what_we_sent_is_named_though_its_peer_told_of_it(world: World, told: str) -> None:
    """The peer's refusal of a second name looks as if a person here had renamed the branch, and nobody knows."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    person = world.person(pi, sigma)
    checkout(person, "fix", "origin/main")
    head = commit(person, {"docs/fix.md": "fix\n"}, "Fix")
    cn("propose", "fix", "sigma", "--hub", pi.root, cwd=person, check=0)
    sigma.sync()
    branch, url = world.branch(pi, sigma, "zz")
    git(sigma.home, "update-ref", f"refs/heads/{branch}", head)
    sigma.cn("sync", check=0)
    away = f"git push {url} :refs/heads/{branch}"
    if told == "before it is taken back":
        pi.sync()
        away = "cn withdraw sigma:zz"
        shown = " ".join(pi.cn("status").stdout.split())
        assert "if somebody here renamed it, 'cn withdraw sigma:fix' deletes" in shown
        assert f"if not, '{away}' deletes {branch}, and" in shown
    pi.cn("withdraw", "fix")
    for _ in range(2):
        pi.sync()
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"{branch} at sigma is what we took back as sigma:fix, at {head[:8]}, under another name" in shown
    assert f"where nobody here wants it there, '{away}' deletes it" in shown
    if away.startswith("git"):
        subprocess.run(shlex.split(away), cwd=pi.root, check=True, capture_output=True)
    else:
        pi.cn(*shlex.split(away)[1:])
    pi.sync()
    assert refs(sigma.home, f"refs/heads/{branch}") == {}
    assert "took back" not in pi.cn("status").stdout
