"""Pinned keys: what is not signed with them does not come in, and everything else is as before."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.hubs import (
    add_header,
    branches,
    cn,
    commit,
    fetch,
    git,
    make_ssh_key,
    sign_with,
    write_commit,
    write_raw_commit,
)
from tests.support.world import Node, World, is_in_main


@dataclass(frozen=True)
class Keys:
    """The private file and the public text of pi's key, and of another."""

    private: Path
    public: str
    other: Path
    other_public: str


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    private, public = make_ssh_key(folder / "pi")
    other, other_public = make_ssh_key(folder / "other")
    return Keys(private, public, other, other_public)


@pytest.fixture
def signed(world: World, keys: Keys) -> tuple[Node, Node]:
    """sigma pins pi's key; pi signs."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sign_with(pi.root, keys.private)
    git(pi.root, "config", "cn.sign", "true")
    world.link(sigma, pi, b_key=keys.public)
    return sigma, pi


def test_a_hub_that_signs_is_verified_at_its_peer(world: World, tmp_path: Path, keys: Keys, sigma: Node) -> None:
    """``cn init --signing-key``, ``cn peer add --key``: no git config by hand."""
    root = tmp_path / "signing"
    cn("init", "pi", "--path", root, "--signing-key", keys.private, check=0)
    pub = keys.private.with_name(keys.private.name + ".pub")
    sigma.cn("peer", "add", "pi", str(root), "--key", str(pub))
    cn("peer", "add", "sigma", sigma.url, hub=root, check=0)
    cn("send", "sigma", "hello", hub=root, check=0)
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    assert "**Signature:** verified SHA256:" in text
    raw = git(root, "cat-file", "commit", "main")
    assert "\ngpgsig -----BEGIN SSH SIGNATURE-----" in raw


@pytest.mark.parametrize("place", ["apart", "open", "here"])
def test_who_may_delete_what_is_not_signed_is_told(world: World, keys: Keys, place: str) -> None:
    """A host that keeps peers apart lets only pi delete what has pi's prefix; in its own repository sigma may."""
    sigma, pi = world.hub("sigma", origin=place != "here"), world.hub("pi")
    world.link(sigma, pi, b_key=keys.public)
    world.propose(pi, sigma)
    told = sigma.cn("sync", check=None).stderr
    if place == "here":
        assert "if pi did not make it, 'git branch -D pi/proposal' deletes it" in told
    else:
        assert "ask pi, whose prefix it has, to delete pi/proposal" in told
        assert "does it where the host lets you" in told
    if place == "apart":
        hook = sigma.home / "hooks/update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\ncase $1 in refs/heads/pi/*) [ "$WHO" = pi ];; esac\n')
        hook.chmod(0o755)
    (line,) = re.findall(r"'(git [^']*pi/proposal)'", told)
    done = subprocess.run(shlex.split(line), cwd=sigma.root, capture_output=True, timeout=60, check=False)
    assert (done.returncode == 0) is (place != "apart")
    assert ("pi/proposal" in branches(sigma.home)) is (place == "apart")
    if place == "apart":
        pushed = subprocess.run(
            ["git", "push", sigma.url, ":pi/proposal"],
            cwd=pi.root, env={**os.environ, "WHO": "pi"}, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert pushed.returncode == 0, pushed.stderr


def test_a_signature_of_something_else_is_told_as_that(world: World, signed: tuple[Node, Node], keys: Keys) -> None:
    sigma, pi = signed
    person = world.person(pi, sigma)
    sign_with(person, keys.private)
    made = world.propose(pi, sigma, "whole")
    text = git(person, "cat-file", "commit", made).replace("\nauthor ", "\nauthor Not ", 1)
    changed = git(person, "hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{text}\n")
    world.offer(pi, sigma, "copied", changed)
    told = sigma.sync().stderr
    assert "pi/copied is refused: signature-policy: the tip is changed since it was signed: its signature does" in told
    assert "another key" not in told
    assert len(sigma.threads()) == 1


@pytest.mark.sliced(2)
@pytest.mark.parametrize("how", ["unsigned", "otherwise"])
def test_what_the_key_did_not_sign_does_not_come_in(
    world: World, signed: tuple[Node, Node], keys: Keys, how: str
) -> None:
    sigma, pi = signed
    if how == "otherwise":
        sign_with(world.person(pi, sigma), keys.other)
    head = world.propose(pi, sigma)
    done = sigma.cn("sync")
    why = "not signed" if how == "unsigned" else "signed with another key"
    assert f"pi/proposal is refused: signature-policy: the tip is {why}" in done.stderr
    assert done.stderr.count("pi/proposal is refused") == 1
    assert sigma.threads() == []
    assert len(sigma.notices()) == 1, "its creator is told"
    again = sigma.cn("sync")
    assert (again.stdout, again.stderr) == ("", "")
    assert [r[1] for r in sigma.rows("pi/proposal")] == [
        "refused", "notice:refused", "notice:refused"
    ]  # fmt: skip
    pi.sync()
    assert world.has_branch(pi, sigma)
    assert pi.rows("sigma/proposal")[-1][1] == "notice:refused"
    if how == "otherwise":
        old = (sigma.root / "state/peers.md").read_text()
        sigma.write({"state/peers.md": old.replace(keys.public, keys.other_public)}, "correct the key")
        sigma.sync()
        assert "**Signature:** verified" in sigma.thread(sigma.only_thread())
        sigma.decide("pi/proposal", "do:merge")
        assert is_in_main(sigma, head)
    else:
        person = world.person(pi, sigma)
        sign_with(person, keys.private)
        git(person, "commit", "--quiet", "--amend", "--no-edit", "-S")
        world.offer(pi, sigma, "proposal", "HEAD", force=True)
        sigma.sync()
        sigma.decide("pi/proposal", "do:merge")
        assert is_in_main(sigma, git(person, "rev-parse", "HEAD"))


def test_a_notice_that_the_key_did_not_sign_deletes_nothing(world: World, keys: Keys, sigma: Node) -> None:
    """pi pins sigma's key, sigma does not sign."""
    pi = world.hub("pi")
    world.link(sigma, pi, a_key=keys.public)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    done = pi.cn("sync")
    assert "signature-policy" in done.stderr
    pi.cn("sync")
    assert world.has_branch(pi, sigma)
    sign_with(sigma.root, keys.private)


def test_a_signed_notice_is_believed_in_a_shared_mailbox(world: World, keys: Keys, sigma: Node) -> None:
    pi = world.hub("pi")
    sign_with(sigma.root, keys.private)
    world.link(sigma, pi, a_key=keys.public)
    world.link(pi, world.hub("omega"))
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    pi.sync()
    assert not world.has_branch(pi, sigma)


def test_a_signed_branch_merges_from_a_shared_mailbox(world: World, signed: tuple[Node, Node], keys: Keys) -> None:
    sigma, pi = signed
    world.link(sigma, world.hub("omega"))
    sign_with(world.person(pi, sigma), keys.private)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_a_merge_must_be_signed_with_the_key_that_is_pinned_when_it_is_decided(
    world: World, signed: tuple[Node, Node], keys: Keys, tmp_path: Path
) -> None:
    """The key was stolen, and another pinned, while the proposal waited."""
    sigma, pi = signed
    sign_with(world.person(pi, sigma), keys.private)
    sigma.configure("merge: {signed: required}\n")
    head = world.propose(pi, sigma)
    sigma.sync()
    _, other = make_ssh_key(tmp_path / "other")
    text = (sigma.root / "state/peers.md").read_text("utf-8")
    sigma.write({"state/peers.md": text.replace(" ".join(keys.public.split()[:2]), " ".join(other.split()[:2]))})
    sigma.cn("trust", "--yes", check=None)
    sigma.write_triage(sigma.only_thread(), "do:merge")
    assert "signature-policy" in sigma.cn("inbox", "process").stderr
    assert not is_in_main(sigma, head)


def test_a_claimed_merge_is_believed_by_signature_when_main_cannot_be_read(
    world: World, keys: Keys, sigma: Node
) -> None:
    """sigma's hub shows pi its branches, but no main."""
    pi = world.hub("pi")
    sign_with(sigma.root, keys.private)
    world.link(sigma, pi, a_key=keys.public)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    git(sigma.home, "config", "uploadpack.hideRefs", "refs/heads/main")
    pi.sync()
    assert "pi/proposal" not in branches(sigma.home)


def test_a_claimed_merge_without_signature_waits_until_main_can_be_read(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    git(sigma.home, "config", "uploadpack.hideRefs", "refs/heads/main")
    pi.cn("sync", check=None)
    git(sigma.home, "config", "--unset", "uploadpack.hideRefs")
    assert world.has_branch(pi, sigma)
    assert "unproven" in pi.rows("sigma/proposal")[-1][2]
    pi.sync()
    assert not world.has_branch(pi, sigma)


def test_a_key_on_the_tip_does_not_hide_the_authors_below(world: World, signed: tuple[Node, Node], keys: Keys) -> None:
    sigma, pi = signed
    person = world.person(pi, sigma)
    world.propose(pi, sigma, files={"docs/a.md": "a\n"}, author="sigma <sigma@cn.invalid>")
    fetch(person, sigma.url)
    sign_with(person, keys.private)
    commit(person, {"docs/b.md": "b\n"})
    world.offer(pi, sigma, "proposal", "HEAD", force=True)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    assert "no-self-merge" in sigma.process(check=1).stderr


def test_one_peers_signed_commit_is_not_anothers(world: World, signed: tuple[Node, Node], keys: Keys) -> None:
    """omega shows pi's signed commit as its own, in the same run."""
    sigma, pi = signed
    omega = world.hub("omega")
    world.link(sigma, omega, b_key=keys.other_public)
    sign_with(world.person(pi, sigma), keys.private)
    head = world.propose(pi, sigma)
    for name in ("omega/proposal", "omega/zz"):
        git(world.person(pi, sigma), "push", "--quiet", sigma.url, f"{head}:refs/heads/{name}")
    done = sigma.cn("sync")
    assert done.stderr.count("signature-policy: the tip is signed with another key") == 2
    assert sigma.only_thread().endswith("-pi-proposal.md")


def test_a_pending_branch_that_moves_to_an_unsigned_tip_is_not_merged(
    world: World, signed: tuple[Node, Node], keys: Keys
) -> None:
    sigma, pi = signed
    person = world.person(pi, sigma)
    sign_with(person, keys.private)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    git(person, "config", "commit.gpgSign", "false")
    bad = world.propose(pi, sigma, files={"docs/bad.md": "bad\n"}, force=True)
    done = sigma.process(check=None)
    assert "signature-policy" in done.stderr
    assert "what was decided is void" in done.stdout
    again = sigma.process()
    assert (again.stdout, again.stderr) == ("", "")
    assert not is_in_main(sigma, head)
    assert not is_in_main(sigma, bad)
    rows = sigma.rows()
    sigma.cn("sync")
    assert sigma.rows() == rows, "a standing refusal is logged once"
    world.offer(pi, sigma, "proposal", head, force=True)
    sigma.process()
    assert not is_in_main(sigma, head), "its signature does not say who pushed it again"
    git(person, "config", "commit.gpgSign", "true")
    good = world.propose(pi, sigma, files={"docs/good.md": "good\n"}, force=True)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, good)


def test_a_flood_of_forgeries_does_not_keep_the_genuine_out(
    world: World, signed: tuple[Node, Node], keys: Keys
) -> None:
    """The limit of a run counts what was refused before last; few of the flood are answered."""
    sigma, pi = signed
    sigma.configure("limits: {branches_per_peer: 12}\n")
    for i in range(14):
        world.propose(pi, sigma, f"a{i:02d}")
    sign_with(world.person(pi, sigma), keys.private)
    world.propose(pi, sigma, "z")
    sigma.cn("sync", check=1)
    assert sigma.threads() == []
    assert len(sigma.notices()) == 10
    sigma.cn("sync")
    assert [name.partition("-")[2] for name in sigma.threads()] == ["pi-z.md"]


@pytest.mark.parametrize("place", ["tip", "below"])
def test_a_signature_over_which_git_ends_stops_nobody_and_is_not_merged(
    world: World, sigma: Node, pi: Node, place: str
) -> None:
    person = world.person(pi, sigma)
    commit(person, {"docs/bad.md": "bad"}, "bad")
    head = add_header(person, "HEAD", "gpgsig x")
    if place == "below":
        head = git(person, "commit-tree", "-p", head, f"{head}^{{tree}}", "-m", "harmless")
    world.offer(pi, sigma, "bad", head)
    world.propose(pi, sigma, "good")
    sigma.sync()
    assert len(sigma.threads()) == 2
    assert f"**Signature:** {'bad' if place == 'tip' else 'unverified'}" in sigma.thread(
        next(name for name in sigma.threads() if "bad" in name)
    )
    sigma.triage("pi/bad", "do:merge")
    sigma.triage("pi/good", "do:merge")
    done = sigma.cn("inbox", "process", check=None)
    assert "signature-policy: " in done.stderr
    assert "tried again" not in done.stderr
    assert not is_in_main(sigma, head)
    assert len(sigma.threads()) == 1, "the other one is merged"
    assert sorted(branches(pi.home)) == ["main", "sigma/notice-bad", "sigma/notice-good"]


@pytest.mark.parametrize("ledger", ["of today", "of an older cn"])
@pytest.mark.parametrize("name", ["restart", "again"])
def test_words_that_were_signed_once_come_once_however_their_signature_is_written(
    world: World, keys: Keys, ledger: str, name: str
) -> None:
    sigma, pi = world.hub("sigma", origin=False), world.hub("pi")
    sign_with(pi.root, keys.private)
    git(pi.root, "config", "cn.sign", "true")
    world.link(sigma, pi, b_key=keys.public)
    pi.cn("send", "sigma", "restart", "--body", "Restart the server, once.")
    sigma.sync()
    (branch,) = (b for b in branches(sigma.home) if b.startswith("pi/"))
    head = branches(sigma.home)[branch]
    sigma.cn("done", branch)
    if ledger == "of an older cn":
        (month,) = (p for p in (sigma.root / "state/ledger/pi").iterdir() if p.name.isdigit())
        text = month.read_text()
        assert " signed=" in text
        sigma.write({f"state/ledger/pi/{month.name}": re.sub(" signed=[0-9a-f]+", "", text)}, "as it was")
    raw = git(sigma.home, "cat-file", "commit", head) + "\n"
    again = write_raw_commit(sigma.home, raw.replace("SIGNATURE-----\n ", "SIGNATURE-----\n \n ", 1).encode())
    assert again != head
    topic = branch if name == "restart" else "pi/again"
    git(sigma.home, "update-ref", f"refs/heads/{topic}", again)
    done = sigma.cn("sync", check=None)
    assert f"{topic} is refused: seen-before: what it says and is signed came before as {branch}" in done.stderr
    assert sigma.threads() == []
    pi.cn("send", "sigma", "restart", "--body", "Restart it once more.")
    sigma.cn("sync", check=None)
    assert len(sigma.threads()) == 1, "what is signed anew comes in"


@pytest.mark.parametrize("copy", ["goes", "moves on", "is gone before"])
def test_nobody_takes_signed_words_away_by_writing_their_signature_otherwise(
    world: World, signed: tuple[Node, Node], keys: Keys, copy: str
) -> None:
    """Somebody pushes them as another commit under a name that comes first, and takes that away."""
    sigma, pi = signed
    person = world.person(pi, sigma)
    sign_with(person, keys.private)
    git(person, "config", "commit.gpgsign", "true")
    head = world.propose(pi, sigma, "fix")
    raw = (git(sigma.home, "cat-file", "commit", head) + "\n").encode()
    other = write_raw_commit(sigma.home, raw.replace(b"SIGNATURE-----\n ", b"SIGNATURE-----\n \n ", 1))
    assert other != head
    git(sigma.home, "update-ref", "refs/heads/pi/aaa", other)
    if copy == "is gone before":
        git(sigma.home, "update-ref", "-d", "refs/heads/pi/fix")
    sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    assert "pi-aaa" in name
    sigma.triage("pi/aaa", "do:merge")
    if copy == "moves on":
        junk = git(sigma.home, "commit-tree", "-p", other, "-m", "junk", f"{other}^{{tree}}")
        git(sigma.home, "update-ref", "refs/heads/pi/aaa", junk)
    else:
        git(sigma.home, "update-ref", "-d", "refs/heads/pi/aaa")
    git(sigma.home, "update-ref", "refs/heads/pi/fix", head)
    sigma.cn("sync", check=None)
    if copy == "is gone before":
        sigma.cn("sync", check=None)
    assert sigma.threads() == [name]
    assert "**Branch:** pi/fix" in sigma.thread(name)
    assert f"**Head:** {head}" in sigma.thread(name)
    assert ("**Caution:** withdrawn by" in sigma.thread(name)) == (copy == "is gone before")
    sigma.process()
    assert not is_in_main(sigma, other)
    assert not is_in_main(sigma, head), "what was decided was about another commit"
    if copy == "is gone before":  # nobody knows who pushed it again
        assert "signed" in sigma.triage("pi/aaa", "do:merge", check=1).stderr
    else:
        sigma.decide("pi/aaa", "do:merge")
        assert is_in_main(sigma, head)


@pytest.mark.parametrize("went", ["withdrawn", "moved on"])
def test_a_copy_of_signed_words_keeps_no_decision_when_their_creator_takes_them_back(
    world: World, signed: tuple[Node, Node], keys: Keys, went: str
) -> None:
    """Somebody pushes them as another commit under a name that comes first, and leaves it there."""
    sigma, pi = signed
    person = world.person(pi, sigma)
    sign_with(person, keys.private)
    git(person, "config", "commit.gpgsign", "true")
    head = world.propose(pi, sigma, "fix")
    raw = (git(sigma.home, "cat-file", "commit", head) + "\n").encode()
    other = write_raw_commit(sigma.home, raw.replace(b"SIGNATURE-----\n ", b"SIGNATURE-----\n \n ", 1))
    git(sigma.home, "update-ref", "refs/heads/pi/aaa", other)
    sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    assert "pi-aaa" in name
    sigma.triage("pi/aaa", "do:merge")
    if went == "withdrawn":
        git(sigma.home, "update-ref", "-d", "refs/heads/pi/fix")
    else:
        git(person, "commit", "--quiet", "--amend", "-m", "Better")
        world.offer(pi, sigma, "fix", "HEAD", force=True)
    sigma.cn("inbox", "process", check=None)
    assert not is_in_main(sigma, other)
    became = "moved on from it" if went == "moved on" else "was taken back by 20"
    said = f"stays as pi/aaa: pi/fix was there with the same signed words, and {became}"
    assert f"**Caution:** {said}" in sigma.thread(name)
    assert "merge-needs-approval: the branch stays as pi/aaa" in sigma.triage(name, "do:merge", check=1).stderr


@pytest.mark.parametrize("heads", ["one commit", "a commit for each"])
def test_names_that_are_added_before_each_run_overtake_nobody(
    world: World, signed: tuple[Node, Node], keys: Keys, heads: str
) -> None:
    """As many as a run takes, and their names come first: what was listed before them is tried before them."""
    sigma, pi = signed
    sigma.configure("limits: {branches_per_peer: 12}\n")
    main = git(sigma.home, "rev-parse", "main")
    sign_with(world.person(pi, sigma), keys.private)
    world.propose(pi, sigma, "z")
    for run in range(3):
        for n in range(12):
            text = "same" if heads == "one commit" else f"{run} {n}"
            head = write_commit(sigma.home, {"docs/x.md": text}, parents=[main])
            git(sigma.home, "update-ref", f"refs/heads/pi/{9 - run}{n:03}", head)
        sigma.cn("sync", check=None)
    assert [name.partition("-")[2] for name in sigma.threads()] == ["pi-z.md"]
