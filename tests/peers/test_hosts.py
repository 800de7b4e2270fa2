"""What a host must have and allow is found before anything is lost by it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cn.git.process import Git
from cn.git.remote import RefResult, in_the_way, is_broken_off, push_refs
from cn.git.repository import open_hub
from cn.transaction import rights
from cn.transaction.rights import has_tried, try_rights
from cn.values.names import Oid
from tests.support.hubs import branches, git
from tests.support.proxy import NONE, Fault, proxy
from tests.support.servers import git_daemon, http_backend
from tests.support.world import Node, World

HOOK = """#!/bin/sh
zero=$(printf %040d 0)
[ "$2" = $zero ] && right=create || { [ "$3" = $zero ] && right=delete || right=force; }
case "$1 $right" in *"$(cat "$GIT_DIR/forbidden")") echo "FATAL: $right $1 DENIED by fallthru" >&2; exit 1;; esac
"""


def forbid(repo: Path, right: str) -> None:
    """Let a hook refuse a right, as hosts with rules do."""
    hook = repo / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)
    (repo / "forbidden").write_text(right)


@pytest.fixture
def hosts(world: World, tmp_path: Path) -> tuple[Node, Node]:
    """Two hubs that do not know each other yet, whose origins HEAD is not main."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    for node in (sigma, pi):
        git(node.home, "symbolic-ref", "HEAD", "refs/heads/master")
    return sigma, pi


def test_a_peer_is_checked_and_its_head_told_of_and_nothing_is_left_there(hosts: tuple[Node, Node]) -> None:
    sigma, pi = hosts
    done = sigma.cn("peer", "add", "pi", pi.url, "--check")
    assert "✓ checked: pi's hub answers, and takes our branches" in done.stdout
    assert "the HEAD of pi's hub names no branch that is there; main is main" in done.stdout
    assert f"git -C {pi.home} symbolic-ref HEAD refs/heads/main" in done.stdout
    assert list(branches(pi.home)) == ["main"]
    assert not (sigma.root / ".git/cn/tried").exists()


@pytest.mark.parametrize(("right", "code"), [("create", 1), ("force", 0), ("delete", 0)])
def test_each_right_that_is_missing_is_found_in_the_words_of_the_host(
    hosts: tuple[Node, Node], tmp_path: Path, right: str, code: int
) -> None:
    sigma, pi = hosts
    forbid(pi.home, right)
    with git_daemon(pi.home.parent, tmp_path) as served:
        done = sigma.cn("peer", "add", "pi", served.url("pi"), "--check", check=code)
    said = done.stdout + done.stderr
    assert f"sigma may not {right} branches sigma/* in pi's hub" in said
    assert f"FATAL: {right} refs/heads/sigma/cn-check-" in said
    assert "pi" in sigma.cn("peer", "list").stdout.split() or code
    assert (sigma.root / ".git/cn/tried").exists() == (right == "delete"), "what stays goes when it may be deleted"
    assert len(branches(pi.home)) == 1 + (right == "delete")
    assert ("stays there until it may be deleted" in said) == (right == "delete")


@pytest.mark.parametrize("syncs", [0, 6])
def test_what_could_not_be_deleted_goes_once_it_may_be(hosts: tuple[Node, Node], tmp_path: Path, syncs: int) -> None:
    sigma, pi = hosts
    forbid(pi.home, "delete")
    with git_daemon(pi.home.parent, tmp_path) as served:
        sigma.cn("peer", "add", "pi", served.url("pi"), "--check")
        for _ in range(syncs):  # after some of them no run tries it any more
            sigma.cn("sync")
        sigma.cn("doctor", "--full")
        assert len(branches(pi.home)) == 3, "the try of doctor left another one"
        for _ in range(syncs):
            sigma.cn("sync")
        forbid(pi.home, "nothing")
        sigma.cn(*(("doctor", "--full") if syncs else ("sync",)))
    assert list(branches(pi.home)) == ["main"]
    assert not (sigma.root / ".git/cn/tried").exists()


def test_a_host_that_lists_and_sends_nothing_has_not_left(hosts: tuple[Node, Node], tmp_path: Path) -> None:
    sigma, pi = hosts
    tree = git(pi.home, "rev-parse", "main^{tree}").strip()
    (pi.home / "objects" / tree[:2] / tree[2:]).unlink()
    with git_daemon(pi.home.parent, tmp_path) as served:
        done = sigma.cn("peer", "add", "pi", served.url("pi"), "--check", check=1)
    said = " ".join(done.stderr.split())
    assert "can be listed, and not fetched from" in said
    assert tree in said
    assert "left cn" not in said


def test_who_may_not_write_at_all_is_told_that_before_a_peer_is_added(hosts: tuple[Node, Node], tmp_path: Path) -> None:
    sigma, pi = hosts
    git(pi.home, "config", "daemon.receivepack", "false")
    with git_daemon(pi.home.parent, tmp_path) as served:
        done = sigma.cn("peer", "add", "pi", served.url("pi"), "--check", check=1)
    assert (
        "whether sigma may create branches sigma/* in pi's hub could not be tried: fatal: remote error" in done.stderr
    )


@pytest.mark.parametrize(
    "fault",
    [Fault("cut", push=0), Fault("deaf", deaf=True), Fault("busy", status=503, pushes=True)],
    ids=lambda fault: fault.name,
)
def test_a_fault_of_the_network_is_no_right_and_its_step_is_to_run_it_again(
    hosts: tuple[Node, Node], fault: Fault
) -> None:
    sigma, pi = hosts
    with http_backend(pi.home.parent) as served, proxy(urlsplit(served.base).port or 0) as before:
        url = f"http://127.0.0.1:{before.port}/{pi.home.name}"
        before.fault = fault
        refused = sigma.cn("peer", "add", "pi", url, "--check", check=1)
        before.fault = NONE
        assert "✓ checked" in sigma.cn("peer", "add", "pi", url, "--check").stdout
        before.fault = fault
        doctor = sigma.cn("doctor", "--full", check=1)
        before.fault = NONE
        sigma.cn("doctor", "--full")
    for said in (" ".join(refused.stderr.split()), " ".join(doctor.stdout.split())):
        assert "whether sigma may create branches sigma/* in pi's hub could not be tried" in said
        assert "→ no right is known to be missing: run it again" in said
        assert "allow it" not in said


@pytest.mark.parametrize(
    ("reason", "broken"),
    [
        ("error: RPC failed; curl 52 Empty reply from server", True),
        ("error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", True),
        ("error: RPC failed; HTTP 429 curl 22 The requested URL returned error: 429", True),
        ("no answer within the time limit", True),
        ("fatal: the remote end hung up unexpectedly", True),
        ("ssh: connect to host git.example port 22: Connection refused", True),
        ("Connection to git.example closed by remote host.", True),
        ("ended by SIGKILL", True),
        ("error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403", False),
        ("fatal: unable to access 'http://x/': The requested URL returned error: 405", False),
        ("fatal: remote error: access denied or repository not exported: /pi.git", False),
        ("fatal: 'pi.git' does not appear to be a git repository", False),
        ("ERROR: Write access to repository not granted.", False),
        ("GitLab: You are not allowed to push code to this project.", False),
    ],
)
def test_what_tells_that_nobody_said_no(reason: str, *, broken: bool) -> None:
    assert is_broken_off(reason) is broken


REVIEW = """#!{python}
import sys
received, answer = sys.stdin.buffer, sys.stdout.buffer

def lines():
    while length := int(received.read(4) or b"0", 16):
        yield received.read(length - 4).decode().strip()

def say(*texts):
    for text in texts:
        answer.write(b"%04x" % (len(text) + 5) + text.encode() + b"\\n")
    answer.write(b"0000")
    answer.flush()

list(lines())
say("version=1")
say(*(text for line in lines() for text in ("ok " + line.split()[2], {more})))
"""


def review(repo: Path, more: str = "") -> None:
    """Let a hook take what is pushed for review, and set no branch (git-receive-pack(1), "proc-receive")."""
    git(repo, "config", "receive.procReceiveRefs", "refs/heads")
    hook = repo / "hooks/proc-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(REVIEW.format(python=sys.executable, more=more))
    hook.chmod(0o755)


def test_a_host_that_says_done_and_has_nothing_is_found(hosts: tuple[Node, Node], tmp_path: Path) -> None:
    sigma, pi = hosts
    review(pi.home)
    with git_daemon(pi.home.parent, tmp_path) as served:
        done = sigma.cn("peer", "add", "pi", served.url("pi"), "--check", check=1)
    assert "sigma may not create branches sigma/* in pi's hub" in done.stderr
    assert "write, create, force, delete (W, C, +, D) refs/heads/sigma/*" in " ".join(done.stderr.split())
    assert "the host said that refs/heads/sigma/cn-check-" in done.stderr
    assert "is set, and does not list it" in done.stderr


def test_a_host_that_reviews_what_is_pushed_is_told_as_one(hosts: tuple[Node, Node], tmp_path: Path) -> None:
    sigma, pi = hosts
    review(pi.home, '"option refname refs/pull/1/head"')
    with git_daemon(pi.home.parent, tmp_path) as served:
        sigma.cn("peer", "add", "pi", served.url("pi"))
        done = sigma.cn("send", "pi", "Hello", check=1)
    said = "the host took it under another name (refs/pull/1/head): something there reviews what is pushed"
    assert said in done.stdout + done.stderr
    assert "→ cn needs a host that sets the branches it is given" in done.stdout + done.stderr
    assert said in sigma.cn("outbox").stdout


def test_a_dry_run_makes_nothing_there(hosts: tuple[Node, Node], tmp_path: Path) -> None:
    sigma, pi = hosts
    forbid(pi.home, "create")
    with git_daemon(pi.home.parent, tmp_path) as served:
        sigma.cn("peer", "add", "pi", served.url("pi"), "--check", "--dry-run")


def test_doctor_finds_what_our_own_host_lacks(hosts: tuple[Node, Node]) -> None:
    sigma, _ = hosts
    git(sigma.home, "config", "receive.hideRefs", "refs/cn")
    done = sigma.cn("doctor")
    assert "the HEAD of origin names no branch that is there; main is main" in done.stdout
    assert "sigma may not create refs/cn/* at origin: [remote rejected] (deny updating a hidden ref)" in done.stdout
    assert "pins stay in each clone" in done.stdout
    told = " ".join(done.stdout.split())
    assert "allow it there; needed there: write, create, force, delete (W, C, +, D) refs/cn/*" in told
    git(sigma.home, "config", "--unset", "receive.hideRefs")
    git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/main")
    assert "the host gives what cn needs" in sigma.cn("doctor", "-v").stdout
    assert git(sigma.home, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_full_disk_at_origin_is_no_right(world: World, hosts: tuple[Node, Node], tmp_path: Path) -> None:
    """git makes the file of a new ref there, and has no room for what stands in it: it says no more than that."""
    sigma, pi = hosts
    hook = sigma.home / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    said = "error: cannot update ref '$1': couldn't write '/srv/sigma.git/./$1.lock'"
    hook.write_text(f'#!/bin/sh\ncase "$1" in refs/cn/*) echo "{said}" >&2; exit 1;; esac\n')
    hook.chmod(0o755)
    world.link(sigma, pi)
    world.propose(pi, sigma)
    with git_daemon(sigma.home.parent, tmp_path) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url("sigma"))
        sigma.sync()
        for words in (("doctor",), ("status",)):
            done = " ".join(sigma.cn(*words, check=None).stdout.split())
            assert "couldn't write '/srv/sigma.git/./refs/cn/" in done
            for wrong in ("may not create", "allow it there", "let this clone create"):
                assert wrong not in done
        doctor = " ".join(sigma.cn("doctor").stdout.split())
        assert "whether sigma may create refs/cn/* at origin could not be tried" in doctor
        assert "the host's git cannot write there, most likely for a full disk" in doctor
        hook.unlink()
        assert "could not be tried" not in sigma.cn("doctor").stdout


def test_what_a_killed_try_left_the_next_run_deletes_and_no_peer_reads_it(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, pushed = open_hub(sigma.root), []

    def push(git: Git, url: str, refs: Mapping[str, Oid | None], seconds: float) -> dict[str, RefResult]:
        pushed.append(refs)
        if len(pushed) == 2:
            raise KeyboardInterrupt
        return push_refs(git, url, refs, seconds)

    monkeypatch.setattr(rights, "push_refs", push)
    with pytest.raises(KeyboardInterrupt):
        try_rights(hub, str(pi.home), ["refs/heads/sigma/"], 60.0)
    assert has_tried(hub)
    assert len(branches(pi.home)) == 2
    assert pi.sync().stdout == ""
    assert pi.threads() == []
    sigma.cn("sync", "--dry-run")
    assert len(branches(pi.home)) == 2
    sigma.sync()
    assert list(branches(pi.home)) == ["main"]
    assert not has_tried(hub)


def test_a_remote_that_is_gone_is_asked_a_few_times_to_delete_a_try(sigma: Node, tmp_path: Path) -> None:
    note = sigma.root / ".git/cn/tried"
    note.parent.mkdir(exist_ok=True)
    note.write_text(f'{{"{tmp_path}/gone.git": [0, ["refs/heads/sigma/cn-check-00000000"]]}}')
    for _ in range(5):
        assert note.exists()
        sigma.sync()
    assert not note.exists()


@pytest.mark.parametrize("text", ["{}", "[]", "x", '{"/x": 3}', '{"/x": [0, ["refs/heads/main"]]}', '{"/x": {}}'])
def test_a_note_that_cn_did_not_write_deletes_nothing(sigma: Node, text: str) -> None:
    note = sigma.root / ".git/cn/tried"
    note.parent.mkdir(exist_ok=True)
    note.write_text(text.replace("/x", str(sigma.home)))
    sigma.sync()
    assert branches(sigma.home)
    assert not note.exists()


def test_a_ref_at_origin_that_leaves_no_room_is_named_and_taken_away_as_told(sigma: Node) -> None:
    git(sigma.home, "update-ref", "refs/cn/check", sigma.main)
    said = sigma.cn("doctor").stdout
    assert "refs/cn/check there leaves no room for them" in said
    (step,) = re.findall("'git (push origin .*?)' takes it away", said)
    git(sigma.root, *step.split())
    assert "leaves no room" not in sigma.cn("doctor").stdout


@pytest.mark.parametrize(
    ("reason", "ref"),
    [
        ("cannot lock ref 'refs/cn/keep/1': 'refs/cn/keep' exists; cannot create 'refs/cn/keep/1'", "refs/cn/keep"),
        ("'refs/cn/keep/1/2' exists; cannot create 'refs/cn/keep/1'", "refs/cn/keep/1/2"),
        ("'refs/heads/main' exists; cannot create 'refs/cn/keep/1'", ""),
        ("'refs/cn/ke' exists; cannot create 'refs/cn/keep/1'", ""),
        ("deny updating a hidden ref", ""),
    ],
)
def test_only_a_ref_that_leaves_no_room_is_named(reason: str, ref: str) -> None:
    """A host, or its hook, says what it likes: what is to be deleted is above or below what was asked for."""
    assert in_the_way(reason) == ref
