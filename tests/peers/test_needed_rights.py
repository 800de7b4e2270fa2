"""Where a host gives no right, cn says at once which one is missing, and which are needed there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cn.git.remote import is_unreached, remedy_of
from tests.support.hubs import cn, commit, git, tip
from tests.support.servers import git_daemon
from tests.support.world import Node, World

_GITOLITE = """#!/bin/sh
for words; do :; done
[ "${words%%-pack*}" = git-upload ] && right=R || right=W
case $(cat "%s") in *$right*) ;; *) echo "FATAL: $right any cn-hub us DENIED by fallthru" >&2; exit 1;; esac
exec sh -c "$words"
"""
HUB = "write and create (W, C) refs/heads/main, and write, create, force, delete (W, C, +, D) refs/cn/*"
PEER = "needed there: read (R) all of it, and write, create, force, delete (W, C, +, D) refs/heads/sigma/*"


class Host:
    """A host on which one file says what we may: ``R``, ``W``, as gitolite says it before git is started."""

    def __init__(self, folder: Path) -> None:
        self._given = folder / "given"
        self._ssh = folder / "gitolite"
        self._ssh.write_text(_GITOLITE % self._given)
        self._ssh.chmod(0o755)
        self.give("RW")

    @property
    def env(self) -> Mapping[str, str]:
        """With it cn and git reach the host."""
        return {"GIT_SSH_COMMAND": str(self._ssh), "GIT_SSH_VARIANT": "simple"}

    def give(self, rights: str) -> None:
        """Allow these, and nothing else."""
        self._given.write_text(rights)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def at(home: Path) -> str:
    return f"git@host.invalid:{home}"


def test_a_peer_is_not_added_and_all_rights_that_it_has_to_give_are_named(world: World, host: Host) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    host.give("")
    done = cn("peer", "add", "pi", at(pi.home), "--check", hub=sigma.root, env=host.env, check=1)
    assert f"gives you no right to read (R); {PEER}; ask who keeps it to allow that" in done.stderr
    assert "doctor" not in done.stderr
    host.give("R")
    done = cn("peer", "add", "pi", at(pi.home), "--check", hub=sigma.root, env=host.env, check=1)
    assert f"gives you no right to write (W); {PEER}; ask who keeps it to allow that" in done.stderr
    host.give("RW")
    assert "✓ added the peer pi" in sigma.cn("peer", "add", "pi", at(pi.home), "--check", env=host.env).stdout


@pytest.mark.parametrize(("given", "missing"), [("", "read (R)"), ("R", "write (W)")])
@pytest.mark.parametrize("words", [("doctor",), ("doctor", "--full"), ("sync",)])
def test_at_origin_the_right_that_is_missing_and_all_that_are_needed_are_named(
    sigma: Node, host: Host, given: str, missing: str, words: tuple[str, ...]
) -> None:
    git(sigma.root, "remote", "set-url", "origin", at(sigma.home))
    commit(sigma.root, {"note.md": "a note"})
    host.give(given)
    done = sigma.cn(*words, check=1, env=host.env)
    said = done.stdout + done.stderr
    assert f"gives you no right to {missing}; needed there: read (R) all of it, {HUB}; ask who keeps it" in said
    assert "'cn doctor" not in said


def test_who_may_not_push_a_project_that_becomes_a_hub_is_told_what_the_hub_needs(tmp_path: Path, host: Host) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "p.git")
    git(tmp_path, "clone", "-q", str(tmp_path / "p.git"), "p")
    commit(tmp_path / "p", {"a": "a"})
    git(tmp_path / "p", "push", "-q", "origin", "HEAD:main")
    git(tmp_path / "p", "remote", "set-url", "origin", at(tmp_path / "p.git"))
    host.give("R")
    done = cn("init", "p", "--here", cwd=tmp_path / "p", env=host.env, check=1)
    assert f"gives you no right to write (W); needed there: read (R) all of it, {HUB}; ask who keeps it" in done.stderr
    assert "doctor" not in done.stderr


def test_a_push_that_never_began_leaves_nothing_in_doubt(sigma: Node, host: Host) -> None:
    sigma.cn("peer", "add", "pi", str(sigma.home.parent / "pi.git"))
    before = tip(sigma.home, "main")
    git(sigma.root, "remote", "set-url", "origin", at(sigma.home))
    host.give("")
    done = sigma.cn("send", "pi", "Hello", "--body", "hello", env=host.env)
    assert "origin is unreachable: FATAL: R any cn-hub us DENIED by fallthru; the send waits here" in done.stdout
    assert "nobody knows" not in done.stdout + done.stderr
    assert is_unreached("FATAL: W any cn-sigma carol DENIED by fallthru")
    assert not is_unreached("[remote rejected] (hook declined): FATAL: W refs/heads/main cn-sigma carol DENIED by x")
    assert tip(sigma.home, "main") == before


def test_a_right_that_is_given_back_stops_no_run_any_more_once_main_moved(world: World) -> None:
    """What the host refused for what is in it stays told until that very run works."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage(sigma.only_thread(), "do:merge")
    hook = sigma.home / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "FATAL: W $1 sigma us DENIED by fallthru" >&2; exit 1\n')
    hook.chmod(0o755)
    with git_daemon(sigma.home.parent, world.folder) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url("sigma"))
        sigma.cn("inbox", "process", check=1)
        assert "no run can work" in sigma.cn("status").stdout
        hook.unlink()
        sigma.cn("send", "pi", "Words")
        assert "no run can work" not in sigma.cn("status").stdout


def test_what_helps_where_git_refuses_a_repository_of_another_account() -> None:
    said = remedy_of("fatal: detected dubious ownership in repository at '/srv/pi.git'", "check the URL")
    assert "at another host, who runs that host gives the repository back to the account that you log in as" in said
    assert "on this machine" in said
    assert "'git config --global --add safe.directory /srv/pi.git' says so to git" in said


@pytest.mark.parametrize(
    "reason",
    [
        "fatal: couldn't read ./packed-refs: Permission denied",
        "fatal: failed to open './config': Permission denied",
        "[remote rejected] refs/heads/main (unpacker error): unable to create temporary object directory",
        "error: insufficient permission for adding an object to repository database ./objects",
    ],
)
def test_files_at_the_host_that_its_account_may_not_use_are_no_matter_of_keys(reason: str) -> None:
    said = remedy_of(reason, "may you push to origin's main?")
    assert "gives the repository back to the account that you log in as (chown -R)" in said
    assert "key" not in said
    assert "offered" in remedy_of("git@host: Permission denied (publickey).", "check it")
    assert "key or password" in remedy_of("Permission denied, please try again.", "check it")


def test_of_what_is_no_hub_only_the_right_that_is_missing_is_named() -> None:
    said = remedy_of("FATAL: + refs/heads/x tools agent DENIED by fallthru", "try again")
    assert said == "the host knows who you are, and gives you no right to force (+) refs/heads/x; ask who keeps it" + (
        " to allow that"
    )
    for reason in (
        "DENIED: refs/heads/x is not for pi",
        "fatal: unable to access: The requested URL returned error: 403",
    ):
        assert "gives you no such right; needed there: all; ask" in remedy_of(reason, "try again", needed="all")


def test_where_a_right_is_missing_or_the_path_is_wrong_the_step_for_another_url_is_named(
    world: World, host: Host
) -> None:
    """As gitolite answers where a repository was moved: it tells nobody which it is."""
    script = Path(host.env["GIT_SSH_COMMAND"])
    script.write_text(script.read_text().replace("fallthru", "fallthru\n(or you mis-spelled the reponame)"))
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.add_peer(pi, url=at(pi.home))
    host.give("")
    told = " ".join(sigma.cn("sync", check=1, env=host.env).stderr.split())
    rights = f"gives you no right to read (R); {PEER}; ask who keeps it to allow that"
    moved = "where it has another URL now, write 'hub: URL' for it in state/peers.md, and commit that"
    assert f"{rights}; {moved}" in told
    git(sigma.root, "remote", "set-url", "origin", at(sigma.home))
    told = " ".join(sigma.cn("sync", check=1, env=host.env).stderr.split())
    assert "to allow that; where it has another URL now, 'git remote set-url origin URL'" in told


@pytest.mark.parametrize(
    "reason",
    [
        "GH006: Protected branch update failed for refs/heads/main. Changes must be made through a pull request.",
        "GH013: Repository rule violations found for refs/heads/main.",
        "GitLab: You are not allowed to push code to protected branches on this project.",
        "Not allowed to push to protected branch main",
        "Branch refs/heads/main can only be modified through pull requests.",
    ],
)
def test_a_branch_that_a_host_protects_is_called_that(reason: str) -> None:
    said = remedy_of(f"[remote rejected] main -> main (pre-receive hook declined); {reason}", "is origin bare?")
    assert said.startswith("a rule of the host protects that branch")
