"""``cn sign`` and ``cn peer key``: signing begins later, and the other side learns what to accept."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hubs import branches, clone, cn, commit, git, identify, make_ssh_key
from tests.support.world import Node, World


def is_signed(node: Node) -> bool:
    return "\ngpgsig -----BEGIN SSH SIGNATURE-----" in git(node.root, "cat-file", "commit", "main")


def public_of(private: Path) -> str:
    return " ".join(private.with_name(f"{private.name}.pub").read_text().split()[:2])


def test_a_key_that_is_changed_is_accepted_as_both_sides_are_told(world: World, tmp_path: Path) -> None:
    (first, text), (second, _) = make_ssh_key(tmp_path / "first"), make_ssh_key(tmp_path / "second")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.cn("peer", "add", "pi", pi.url, "--key", text)
    pi.cn("peer", "add", "sigma", sigma.url)
    told = pi.cn("sign", second).stdout
    assert "✓ cn signs in this clone of pi with SHA256:" in told
    pi.cn("send", "sigma", "hello")
    assert is_signed(pi)
    refused = sigma.cn("sync")
    assert "the tip is signed with another key (SHA256:" in refused.stderr
    for said in (refused.stderr, pi.cn("sync").stdout):
        assert "If it is pi's: 'cn sign KEY', then send it again" in said
    (words,) = re.findall(r"'(cn peer key .*)'", told)
    before = (sigma.root / "state/peers.md").read_text()
    sigma.cn(*shlex.split(words)[1:])
    assert (sigma.root / "state/peers.md").read_text() == before.replace(public_of(first), public_of(second))
    assert "refused at a peer, waits for you" in pi.cn("status").stdout
    for page in (pi.cn("status").stdout, pi.cn("thread", "show", "pi/hello").stdout):
        assert "'cn withdraw sigma:hello' takes it away" in " ".join(page.split())
    assert "received pi/hello" in sigma.cn("sync").stdout
    assert "**Signature:** verified SHA256:" in sigma.thread(sigma.only_thread())
    assert "it was let in after all, and waits for a decision" in pi.cn("sync").stdout
    status = pi.cn("status", "--check", check=0).stdout
    assert 'deferred: "it was let in after all, and waits for a decision"' in status
    assert "refused" not in status, "nobody sends it again"
    assert "takes it away" not in pi.cn("thread", "show", "pi/hello").stdout
    sigma.sync()
    assert len(sigma.notices()) == 2, "one tells that it was refused, one that it was not after all"
    assert "has this key already" in sigma.cn(*shlex.split(words)[1:], check=1).stderr


def test_all_clones_of_a_hub_sign_with_one_key(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    (first, _), (second, _) = make_ssh_key(tmp_path / "first"), make_ssh_key(tmp_path / "second")
    other = world.second(sigma)
    assert "all its clones" not in sigma.cn("sign", first).stdout
    sigma.cn("send", "pi", "hello")
    other.sync()
    told = " ".join(other.cn("sign", second).stdout.split())
    shown = subprocess.run(["ssh-keygen", "-lf", str(first)], capture_output=True, text=True, check=True)
    mark = shown.stdout.split()[1]
    assert f"what cn committed to main before is signed with {mark}, maybe in another clone of this hub" in told
    assert "all its clones sign with the same one" in told
    assert "all its clones" not in other.cn("sign", first).stdout


def test_a_private_key_signs_in_no_hub_that_others_share(sigma: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    git(sigma.root, "config", "core.sharedRepository", "group")
    before = (sigma.root / ".git/config").read_text()
    said = sigma.cn("sign", private, check=1).stderr
    assert "is shared with a group: its other users cannot sign with your private key" in said
    assert f"'git clone {sigma.url} DIR'" in " ".join(said.split())
    assert (sigma.root / ".git/config").read_text() == before


def test_a_private_key_that_others_can_read_is_named_and_closed(sigma: Node, pi: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    sigma.cn("sign", private)
    private.chmod(0o644)
    said = sigma.cn("send", pi.name, "hello", check=None).stderr
    assert "cannot sign the commit: ssh takes no private key that others can read" in said
    assert "chmod 600" in said
    private.chmod(0o600)
    sigma.cn("send", pi.name, "hello again")
    assert is_signed(sigma)


def test_a_dry_run_signs_nothing(sigma: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    before = (sigma.root / ".git/config").read_text()
    assert "would sign with SHA256:" in sigma.cn("sign", "--dry-run", private).stdout
    assert (sigma.root / ".git/config").read_text() == before


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("gone", "is missing"),
        (".", "is no file"),
        ("words.txt", "is no SSH key"),
        ("ssh-ed25519 AAAA", "the ssh-agent must have its private key"),
    ],
)
def test_a_key_that_cannot_sign_is_told_as_what_it_is(sigma: Node, tmp_path: Path, key: str, said: str) -> None:
    (tmp_path / "words.txt").write_text("hello\n")
    before = (sigma.root / ".git/config").read_text()
    done = sigma.cn("sign", key if " " in key else tmp_path / key, check=1)
    assert said in done.stderr
    assert (sigma.root / ".git/config").read_text() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_key_that_may_not_be_read_is_called_that(sigma: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    private.chmod(0)
    assert "cannot be read: Permission denied" in sigma.cn("sign", private, check=1).stderr


def test_a_private_key_alone_signs(sigma: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    private.with_name("key.pub").unlink()
    assert "cn peer key sigma KEY" in sigma.cn("sign", private).stdout
    sigma.cn("adhoc", "A note")
    assert is_signed(sigma)
    assert "signing" not in sigma.cn("doctor").stdout


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An ssh-agent of its own."""
    socket = tmp_path / "a"
    child = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert child.poll() is None
        yield {"SSH_AUTH_SOCK": str(socket)}
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("form", ["key::{}", "{}"])
def test_git_s_own_settings_count_also_with_a_key_of_the_agent(
    sigma: Node, home: Path, tmp_path: Path, agent: dict[str, str], form: str
) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    subprocess.run(["ssh-add", "-q", str(private)], env={**os.environ, **agent}, check=True, timeout=30)
    key = form.format(public_of(private))
    config = f'[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n[user]\n\tsigningKey = "{key}"\n'
    (home / ".gitconfig").write_text(config)
    sigma.cn("adhoc", "A note", env=agent)
    assert is_signed(sigma)
    assert "signing" not in sigma.cn("doctor", env=agent).stdout
    done = sigma.cn("adhoc", "From cron", check=1, env={"SSH_AUTH_SOCK": ""})
    assert "'cn sign FILE' needs none" in done.stderr


@pytest.fixture
def pinned(world: World, tmp_path: Path) -> tuple[Node, Node, Path, Path]:
    """Sigma has pinned the key with which pi's hub signs; the clone of sigma's hub where Pia works does not sign."""
    private, public = make_ssh_key(tmp_path / "key")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.cn("peer", "add", "pi", pi.url, "--key", public)
    pi.cn("peer", "add", "sigma", sigma.url)
    pi.cn("sign", private)
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    git(desk, "config", "cn.hub", str(pi.root))
    commit(desk, {"docs/fix.md": "one\n"}, "One")
    commit(desk, {"docs/more.md": "two\n"}, "Two")
    return sigma, pi, desk, private


def test_an_unsigned_commit_is_refused_before_it_goes_and_signed_as_is_told(
    pinned: tuple[Node, Node, Path, Path],
) -> None:
    sigma, pi, desk, private = pinned
    refused = cn("propose", "fix", cwd=desk, check=1).stderr
    assert "signature-policy: " in refused
    assert "is not signed; sigma has pinned SHA256:" in refused
    assert "pi/fix" not in branches(sigma.url)
    before = (pi.root / ".git/config").read_text()
    said = cn("sign", private, cwd=desk).stdout
    assert f"✓ git signs what you commit in {desk}" in said
    assert "what the hub pi itself" not in said, "it signs with the same"
    assert (pi.root / ".git/config").read_text() == before
    (each,) = re.findall(r"'(git rebase --exec .*?)' all of them", refused)
    subprocess.run(shlex.split(each), cwd=desk, check=True, capture_output=True, timeout=60)
    for rev in ("HEAD", "HEAD~1"):
        assert "\ngpgsig -----BEGIN SSH SIGNATURE-----" in git(desk, "cat-file", "commit", rev)
    cn("propose", "fix", cwd=desk)
    sigma.sync()
    assert "**Signature:** verified SHA256:" in sigma.thread(sigma.only_thread())


@pytest.mark.parametrize("project", ["signs", "does not sign"])
def test_what_a_maintainer_commits_in_a_work_tree_of_the_project_is_signed_as_is_told(
    pinned: tuple[Node, Node, Path, Path], tmp_path: Path, project: str
) -> None:
    """There cn signs for the project, with its key or none: the maintainer's is named for the one command."""
    sigma, pi, _, _ = pinned
    if project == "signs":
        sigma.cn("sign", make_ssh_key(tmp_path / "project")[0])
    tree = tmp_path / "tree"
    git(sigma.root, "worktree", "add", "--quiet", str(tree), "-b", "own")
    commit(tree, {"docs/own.md": "one\n"}, "Own")
    before = (sigma.root / ".git/config").read_text()
    refused = cn("propose", "own", "--hub", pi.root, cwd=tree, check=1).stderr
    assert "cn sign" not in refused
    (step,) = re.findall(r"'(git -c [^']*? commit --amend --no-edit -S)' signs the last commit", refused)
    subprocess.run(shlex.split(step), cwd=tree, check=True, capture_output=True, timeout=60)
    cn("propose", "own", "--hub", pi.root, cwd=tree)
    assert (sigma.root / ".git/config").read_text() == before, "the project signs as it did"
    sigma.cn("sync", check=None)
    assert "**Signature:** verified SHA256:" in sigma.thread(sigma.only_thread())


def test_the_signature_of_another_key_is_told_as_that(pinned: tuple[Node, Node, Path, Path], tmp_path: Path) -> None:
    sigma, _, desk, _ = pinned
    other, _ = make_ssh_key(tmp_path / "other")
    said = cn("sign", other, cwd=desk).stdout
    assert "what the hub pi itself commits and sends is another matter: 'cn sign --hub" in said
    git(desk, "commit", "--quiet", "--amend", "--no-edit")
    assert "is signed with another key (SHA256:" in cn("propose", "fix", cwd=desk, check=1).stderr
    assert "pi/fix" not in branches(sigma.url)


def test_nobody_signs_as_a_peer_in_a_clone_of_its_hub(pinned: tuple[Node, Node, Path, Path]) -> None:
    _, pi, desk, private = pinned
    git(desk, "config", "--unset", "cn.hub")
    for words in (["--dry-run"], []):
        said = cn("sign", *words, private, cwd=desk, check=1)
        assert "may be a clone of a peer's hub" in said.stderr
        assert "'git config cn.hub DIR' names your own" in said.stderr
        assert "cn peer key" not in said.stdout + said.stderr
    assert "signingkey" not in git(desk, "config", "--local", "--list")
    git(desk, "config", "cn.hub", str(pi.root))  # as told
    assert f"git signs what you commit in {desk}" in cn("sign", private, cwd=desk).stdout


def test_where_the_list_of_peers_cannot_be_seen_any_signature_will_do(pinned: tuple[Node, Node, Path, Path]) -> None:
    sigma, _, desk, private = pinned
    sigma.write({"state/peers.md": None}, "not for everybody")
    git(desk, "pull", "--quiet", "--rebase", "origin", "main")
    assert "is not signed; pi signs with SHA256:" in cn("propose", "fix", cwd=desk, check=1).stderr
    cn("sign", private, cwd=desk)
    git(desk, "commit", "--quiet", "--amend", "--no-edit")
    cn("propose", "fix", cwd=desk)
    assert "pi/fix" in branches(sigma.url)


def test_a_proposal_that_was_pushed_unsigned_is_told_how_to_sign(pinned: tuple[Node, Node, Path, Path]) -> None:
    sigma, _, desk, _ = pinned
    git(desk, "push", "--quiet", "origin", "HEAD:pi/by-hand")
    refused = sigma.sync().stderr
    assert "If it is pi's: 'cn sign KEY', then 'git commit --amend --no-edit -S', then propose it again" in refused


def test_a_proposal_that_was_refused_since_it_is_not_signed_is_signed_as_is_told(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    private, public = make_ssh_key(tmp_path / "key")
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    commit(desk, {"docs/fix.md": "one\n"}, "One")
    cn("propose", "fix", "sigma", "--hub", pi.root, cwd=desk, check=0)
    sigma.configure("merge: {signed: required}\n")
    sigma.sync()
    sigma.triage("pi/fix", "do:merge")
    sigma.process()
    pi.sync()
    told = [pi.cn("status").stdout, cn("propose", "fix", cwd=desk, check=None).stdout]
    for said in told:
        said = " ".join(said.split())
        assert "'cn sign KEY' where it was committed, with the key that sigma has pinned for us" in said
        assert "then 'git commit --amend --no-edit -S', then " in said
    cn("sign", private, cwd=desk, check=0)
    sigma.cn("peer", "key", "pi", public)
    git(desk, "commit", "--amend", "--no-edit", "-S")
    cn("propose", "fix", "sigma", cwd=desk, check=0)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert git(sigma.root, "show", "main:docs/fix.md") == "one"


def test_a_proposal_to_whom_merges_only_what_is_signed_and_has_pinned_no_key_is_said_to_be_refused_then(
    world: World, sigma: Node, pi: Node
) -> None:
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    commit(desk, {"docs/fix.md": "one\n"}, "One")
    warning = "sigma merges only what a key that it has pinned signed, and it has pinned none for pi"
    assert warning not in cn("propose", "first", "sigma", "--hub", pi.root, cwd=desk, check=0).stdout
    sigma.configure("merge: {signed: required}\n")
    commit(desk, {"docs/more.md": "two\n"}, "Two")
    told = cn("propose", "more", "sigma", "--hub", pi.root, cwd=desk, check=0).stdout
    assert warning in " ".join(told.split())
    assert "'cn peer key pi KEY' there pins one" in " ".join(told.split())


def propose_signed(pi: Node, desk: Path, private: Path) -> None:
    """The desk's commit, signed with pi's key, as a proposal that pi knows of."""
    cn("sign", private, cwd=desk)
    git(desk, "commit", "--quiet", "--amend", "--no-edit")
    cn("propose", "fix", cwd=desk)
    pi.sync()


def push_upon(world: World, sigma: Node) -> str:
    """A commit upon pi/fix, of somebody who may push to sigma's mailbox."""
    stranger = clone(sigma.url, world.folder / "stranger", "omega")
    git(stranger, "switch", "-q", "-c", "fix", "origin/pi/fix")
    evil = commit(stranger, {"docs/evil.md": "evil\n"}, "more")
    git(stranger, "push", "-q", "origin", "HEAD:refs/heads/pi/fix")
    return evil


def test_what_is_refused_since_it_is_not_signed_is_not_ours_by_that_refusal(
    world: World, pinned: tuple[Node, Node, Path, Path]
) -> None:
    """Somebody pushed it upon our proposal: cn asks nobody here to sign it, and a rebase does not."""
    sigma, pi, desk, private = pinned
    propose_signed(pi, desk, private)
    sigma.sync()
    head = branches(sigma.url)["pi/fix"]
    evil = push_upon(world, sigma)
    assert "signature-policy" in sigma.cn("sync", check=None).stderr
    told = pi.cn("sync", check=None)
    assert f"ours is {head[:8]}, and nobody here made the other" in " ".join((told.stdout + told.stderr).split())
    status = " ".join(pi.cn("status").stdout.split())
    assert f"our pi/fix at sigma is at {evil[:8]}, upon {head[:8]}, which we sent" in status
    assert "cn sign" not in status
    assert "pushed by hand" not in pi.cn("why", "sigma:fix").stdout
    sigma.write({"docs/other.md": "moved\n"})
    sigma.cn("sync", check=None)
    refused = " ".join(cn("rebase", "fix", cwd=desk, check=1).stderr.split())
    assert f"pi/fix is at {evil[:8]} there, and cn knows {head[:8]}" in refused
    assert branches(sigma.url)["pi/fix"] == evil
    (back,) = set(re.findall(r"'(git push --force-with-lease.*?)' brings back what we sent", status))
    git(pi.root, *shlex.split(back)[1:])
    sigma.sync()
    pi.sync()
    cn("rebase", "fix", cwd=desk, check=0)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert (sigma.root / "docs/fix.md").exists()
    assert not (sigma.root / "docs/evil.md").exists()


@pytest.mark.parametrize("signs", [True, False])
def test_a_rebase_signs_nothing_that_somebody_pushed_upon_a_proposal(
    world: World, sigma: Node, pi: Node, tmp_path: Path, *, signs: bool
) -> None:
    """It counts as moved by hand by an answer about it, where nobody signed then."""
    private, _ = make_ssh_key(tmp_path / "key")
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    head = commit(desk, {"docs/fix.md": "one\n"}, "One")
    cn("propose", "fix", "sigma", "--hub", pi.root, cwd=desk, check=0)
    sigma.sync()
    evil = push_upon(world, sigma)
    sigma.sync()
    sigma.decide("pi/fix", "defer:later")
    pi.sync()
    assert "pushed by hand" in pi.cn("why", "sigma:fix").stdout
    sigma.write({"docs/other.md": "moved\n"})
    sigma.sync()
    if not signs:
        told = " ".join(cn("rebase", "fix", cwd=desk, check=0).stdout.split())
        assert f"what somebody pushed upon {head[:8]}, which we sent, went along" in told
        assert f"'git log {head}..{evil}' shows it" in told
        return
    pi.cn("sign", private)
    refused = " ".join(cn("rebase", "fix", cwd=desk, check=1).stderr.split())
    said = f"{evil[:8]}, which somebody pushed upon what we sent, is not signed"
    assert f"{said}: a rebase would sign it for us" in refused
    assert branches(sigma.url)["pi/fix"] == evil


def test_what_somebody_pushed_upon_a_branch_that_was_pushed_by_hand_is_signed_by_nobody_unseen(
    world: World, pinned: tuple[Node, Node, Path, Path]
) -> None:
    """cn adopts such a branch, and follows it wherever it is moved."""
    sigma, pi, desk, private = pinned
    cn("sign", private, cwd=desk)
    git(desk, "commit", "--quiet", "--amend", "--no-edit")
    head = git(desk, "rev-parse", "HEAD")
    git(desk, "push", "--quiet", sigma.url, "HEAD:refs/heads/pi/fix")
    sigma.sync()
    pi.sync()
    evil = push_upon(world, sigma)
    sigma.cn("sync", check=None)
    pi.cn("sync", check=None)
    assert f"if {evil[:8]} is ours, 'cn sign KEY'" in " ".join(pi.cn("status").stdout.split())
    sigma.write({"docs/other.md": "moved\n"})
    sigma.cn("sync", check=None)
    refused = " ".join(cn("rebase", "fix", cwd=desk, check=1).stderr.split())
    assert f"{evil[:8]}, which was pushed by hand, is not signed: a rebase would sign it for us" in refused
    told = " ".join(cn("propose", "fix", "sigma", cwd=desk, check=1).stderr.split())
    assert f"somebody moved pi/fix from {head[:8]} to {evil[:8]}" in told
    for text in (refused, told):
        assert "'git log ..FETCH_HEAD' show what somebody pushed there" in text
        assert "git reset" not in text
    assert branches(sigma.url)["pi/fix"] == evil


def test_what_a_maintainer_pushed_upon_a_proposal_is_taken_up_and_signed_as_is_told(
    world: World, pinned: tuple[Node, Node, Path, Path]
) -> None:
    sigma, pi, desk, private = pinned
    propose_signed(pi, desk, private)
    git(desk, "switch", "--quiet", "-c", "fix")
    push_upon(world, sigma)
    told = " ".join(cn("propose", "fix", cwd=desk, check=1).stderr.split())
    (fetch,) = re.findall(r"'git (fetch [^']*)' and", told)
    git(desk, *fetch.split())
    git(desk, "rebase", "--quiet", "FETCH_HEAD")
    told = " ".join(cn("propose", "fix", cwd=desk, check=1).stderr.split())
    assert "'git commit --amend --no-edit -S'" in told
    git(desk, "commit", "--quiet", "--amend", "--no-edit", "-S")
    cn("propose", "fix", cwd=desk, check=0)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert (sigma.root / "docs/fix.md").exists()
    assert (sigma.root / "docs/evil.md").exists()


def test_an_earlier_commit_that_somebody_pushed_back_is_not_ours_by_the_refusal_of_it(
    pinned: tuple[Node, Node, Path, Path],
) -> None:
    """It bears our signature: whoever may push to the mailbox can push it again over the one that mended it."""
    sigma, pi, desk, private = pinned
    cn("sign", private, cwd=desk)
    git(desk, "commit", "--quiet", "--amend", "--no-edit")
    first = git(desk, "rev-parse", "HEAD")
    cn("propose", "fix", cwd=desk)
    sigma.sync()
    (desk / "docs/fix.md").write_text("mended\n")
    git(desk, "commit", "--quiet", "--amend", "--all", "--no-edit")
    last = git(desk, "rev-parse", "HEAD")
    cn("propose", "fix", cwd=desk)
    sigma.sync()
    git(desk, "push", "--quiet", "--force", sigma.url, f"{first}:refs/heads/pi/fix")
    assert "went back to the earlier commit" in sigma.cn("sync").stdout
    pi.sync()
    status = " ".join(pi.cn("status").stdout.split())
    assert f"our pi/fix at sigma is back at {first[:8]}, which we sent before {last[:8]}" in status
    assert "refused at a peer" not in status
    (back,) = set(re.findall(r"'(git push --force-with-lease.*?)' as the same one", status))
    for again in ("propose", "rebase"):
        told = cn(again, "fix", cwd=desk, check=1).stderr
        assert f"pi/fix is at {first[:8]} there, and cn knows {last[:8]}" in told
        assert "brings there what we sent last" in told
        assert "FETCH_HEAD" not in told
    git(pi.root, *shlex.split(back)[1:])
    sigma.sync()
    pi.sync()
    status = " ".join(pi.cn("status").stdout.split())
    assert "is back at" not in status
    assert "its creator pushes a new commit, signed" in status, "as at sigma nobody can tell who pushed it again"
    (amend,) = re.findall(r"'(git commit [^']*)' where it was committed makes a new commit", status)
    assert f"'{amend}'" in cn("propose", "fix", cwd=desk).stdout
    git(desk, *amend.split()[1:], "--date=2026-01-01T00:00:00Z")
    cn("propose", "fix", cwd=desk)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    pi.sync()
    assert (sigma.root / "docs/fix.md").read_text() == "mended\n"
    assert "nothing pending" in pi.cn("status").stdout
