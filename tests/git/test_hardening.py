"""Attacks on a program that runs git: each works on plain git, and not through cn.

Every test springs its trap twice, first with unhardened git, so that a trap that no
longer works is noticed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from cn.git.process import Git, GitError, Job, transport_options
from cn.git.remote import Push, Result, list_remotes, push_own
from cn.git.repository import read_config
from cn.values.errors import CnError
from cn.values.names import Oid, parse_url
from tests.support.hubs import (
    ROOT,
    bare,
    blob,
    clone,
    commit,
    commit_tree,
    git,
    make_ssh_key,
    raw_tree,
    refs,
    sign_with,
    tip,
    try_git,
    work,
)
from tests.support.servers import alive, git_daemon, gone, http_backend, http_server, ssh_server, stalled_server

LONG = 30.0
"""Seconds within which anything here ends, however slow the machine."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG and /proc are Linux's")


@dataclass(frozen=True)
class Trap:
    """A program that leaves a mark when it is run."""

    program: Path
    mark: Path

    def sprung(self) -> bool:
        """Did it run since the last question?"""
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    mark, program = tmp_path / "mark", tmp_path / "trap"
    return Trap(script(program, f"echo >> '{mark}'\nexit 1"), mark)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    repo = work(tmp_path / "mine", "sigma")
    commit(repo, {"README.md": "hello\n"}, "first")
    return repo


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    return bare(tmp_path / "peer.git")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def attempt(repo: Path, *args: str, network: bool = False) -> bool:
    return Git(repo).run(*args, check=False, network=network, seconds=LONG).ok


def push_to(repo: Path, url: str, spec: str = "main:refs/heads/sigma/topic") -> bool:
    return attempt(repo, "push", *transport_options(url), "--", url, spec, network=True)


# Programs that this repository or the user's own configuration would run.


@pytest.mark.parametrize(
    ("hook", "args"),
    [
        ("pre-commit", ["commit", "--allow-empty", "-m", "x"]),
        ("commit-msg", ["commit", "--allow-empty", "-m", "x"]),
        ("post-commit", ["commit", "--allow-empty", "-m", "x"]),
        ("reference-transaction", ["update-ref", "refs/heads/x", "main"]),
        ("post-index-change", ["read-tree", "main"]),
        ("post-checkout", ["checkout", "-q", "-B", "x"]),
        ("post-merge", ["merge", "-q", "side"]),
        ("pre-push", ["push", "-q", "../peer.git", "main"]),
    ],
)
@pytest.mark.parametrize("where", [".git/hooks", "hooksPath", "environment"])
def test_no_hook_of_ours_runs(
    hook: str,
    args: list[str],
    where: str,
    mine: Path,
    peer: Path,
    trap: Trap,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    git(mine, "checkout", "-q", "-b", "side")
    commit(mine, {"side": "s"})
    git(mine, "checkout", "-q", "main")
    start = tip(mine)
    hooks = mine / ".git" / "hooks" if where == ".git/hooks" else tmp_path / "hooks"
    if where == "hooksPath":
        git(mine, "config", "--global", "core.hooksPath", str(hooks))
    elif where == "environment":
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(hooks))
    hooks.mkdir(exist_ok=True)
    (hooks / hook).symlink_to(trap.program)
    try_git(mine, *args)
    assert trap.sprung()
    (hooks / hook).unlink()
    git(mine, "reset", "-q", "--hard", start)
    (hooks / hook).symlink_to(trap.program)
    assert attempt(mine, *args)
    assert not trap.sprung()


def test_no_hook_comes_from_a_template(tmp_path: Path, trap: Trap, home: Path) -> None:
    hook = tmp_path / "template" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.symlink_to(trap.program)
    git(home, "config", "--global", "init.templateDir", str(tmp_path / "template"))
    (tmp_path / "plain").mkdir()
    git(tmp_path / "plain", "init")
    assert (tmp_path / "plain" / ".git" / "hooks" / "post-checkout").exists()
    (tmp_path / "ours").mkdir()
    assert attempt(tmp_path / "ours", "init")
    assert (tmp_path / "ours" / ".git" / "HEAD").exists()
    assert not (tmp_path / "ours" / ".git" / "hooks" / "post-checkout").exists()


@pytest.mark.parametrize(
    ("settings", "args"),
    [
        ({"core.fsmonitor": "TRAP"}, ["status"]),
        ({"commit.gpgSign": "true", "gpg.program": "TRAP"}, ["commit", "--allow-empty", "-m", "x"]),
        ({"core.editor": "TRAP"}, ["commit", "--allow-empty"]),
        ({"log.showSignature": "true", "gpg.ssh.program": "TRAP"}, ["log", "-1"]),
        ({"core.alternateRefsCommand": "TRAP"}, ["rev-list", "--alternate-refs", "main"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_no_configured_program_runs(
    settings: dict[str, str], args: list[str], mine: Path, trap: Trap, tmp_path: Path
) -> None:
    key, _ = make_ssh_key(tmp_path / "key")
    allowed = tmp_path / "allowed"
    allowed.write_text("")
    sign_with(mine, key)
    git(mine, "config", "gpg.ssh.allowedSignersFile", str(allowed))
    commit(mine, {"signed": "s"})
    for name in ("gpg.format", "commit.gpgSign"):
        git(mine, "config", "--unset", name)
    other = clone(mine, tmp_path / "other")
    (mine / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    (mine / "README.md").write_text("staged\n")
    git(mine, "add", "README.md")
    for name, value in settings.items():
        git(mine, "config", name, value.replace("TRAP", str(trap.program)))
    try_git(mine, *args)
    assert trap.sprung()
    attempt(mine, *args)
    assert not trap.sprung()


def test_an_embedded_bare_repository_is_not_discovered(mine: Path, trap: Trap) -> None:
    """A tree can hold a whole bare repository, configuration included (safe.bareRepository)."""
    inside = mine / "docs"
    git(mine, "init", "-q", "--bare", "docs")
    for name, value in (("core.bare", "false"), ("core.worktree", ".."), ("core.fsmonitor", str(trap.program))):
        git(mine, "config", "--file", "docs/config", name, value)
    try_git(inside, "status")
    assert trap.sprung()
    assert not attempt(inside, "status")
    assert attempt(mine, "status")
    attempt(mine, "-C", str(inside), "status")
    found = Git(mine).with_settings({"alias.st": "!cd docs && env -u GIT_DIR -u GIT_WORK_TREE git status"})
    assert not found.run("st", check=False).ok
    assert not trap.sprung()


def test_submodules_are_not_fetched(mine: Path, trap: Trap, tmp_path: Path) -> None:
    part = work(tmp_path / "part", "pi")
    commit(part, {"p": "1"})
    allow = ("-c", "protocol.file.allow=always")
    git(mine, *allow, "submodule", "--quiet", "add", str(part), "part")
    git(mine, "commit", "-q", "-m", "with a part")
    copy = tmp_path / "copy"
    git(tmp_path, *allow, "clone", "-q", "--recurse-submodules", str(mine), str(copy))
    commit(part, {"p": "2"})
    git(mine / "part", "pull", "-q", "origin", "main")
    git(mine, "commit", "-q", "-a", "-m", "a newer part")
    git(copy / "part", "config", "remote.origin.uploadpack", str(trap.program))
    git(copy, "config", "--global", "fetch.recurseSubmodules", "true")
    git(copy, "config", "--global", "submodule.recurse", "true")
    before = tip(copy, "origin/main")
    try_git(copy, "fetch", "origin")
    assert trap.sprung()
    git(copy, "update-ref", "refs/remotes/origin/main", before)
    assert attempt(copy, "fetch", "origin", network=True)
    assert not trap.sprung()
    assert tip(copy, "origin/main") == tip(mine)


def test_a_user_configuration_does_not_change_what_we_read(mine: Path) -> None:
    commit(mine, {"ünï.md": "text\n"}, "Grüße")
    git(mine, "branch", "side")
    commands = (
        ("log", "-2", "--format=%H %s"),
        ("diff", "HEAD~", "HEAD"),
        ("diff", "--stat", "HEAD~", "HEAD"),
        ("branch", "--list"),
        ("status", "--short"),
        ("ls-tree", "-r", "--name-only", "HEAD"),
    )
    calm = [Git(mine).run(*c).out for c in commands]
    plain = [try_git(mine, *c).stdout for c in commands]
    for key, value in {
        "color.ui": "always",
        "color.diff": "always",
        "color.branch": "always",
        "color.status": "always",
        "column.ui": "always",
        "i18n.logOutputEncoding": "ISO-8859-1",
        "core.quotePath": "true",
    }.items():
        git(mine, "config", "--global", key, value)
    (mine / "new").write_text("")
    git(mine, "config", "status.showUntrackedFiles", "no")
    differing = [c[0] for c, old in zip(commands, plain, strict=True) if try_git(mine, *c).stdout != old]
    assert set(differing) >= {"log", "diff", "branch"}
    assert [Git(mine).run(*c).out for c in commands] == calm
    assert "ünï.md" in Git(mine).run("ls-tree", "--name-only", "HEAD").lines


def test_a_push_sends_what_it_was_told(mine: Path, peer: Path) -> None:
    git(mine, "tag", "-a", "-m", "x", "v1")
    git(mine, "config", "--global", "push.followTags", "true")
    git(mine, "push", "-q", str(peer), "main:refs/heads/plain")
    assert "refs/tags/v1" in refs(peer)
    git(mine, "push", "-q", str(peer), ":refs/tags/v1", ":refs/heads/plain")
    assert push_to(mine, str(peer))
    assert list(refs(peer)) == ["refs/heads/sigma/topic"]
    git(mine, "config", "--global", "push.gpgSign", "true")
    assert try_git(mine, "push", str(peer), "main:refs/heads/plain").returncode != 0
    assert push_to(mine, str(peer), "main:refs/heads/sigma/more")
    git(mine, "config", "--global", "push.pushOption", "ci.skip")
    assert try_git(mine, "push", str(peer), "main:refs/heads/plain").returncode != 0
    assert push_to(mine, str(peer), "main:refs/heads/sigma/again")


def test_submodules_are_not_pushed(mine: Path, peer: Path, trap: Trap, tmp_path: Path) -> None:
    part = work(tmp_path / "part", "pi")
    commit(part, {"p": "1"})
    git(mine, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    commit(mine / "part", {"p": "2"}, author="Sigma <sigma@example.org>")
    git(mine, "add", "part")
    git(mine, "commit", "-q", "-m", "a part that only we have")
    git(mine / "part", "config", "remote.origin.receivepack", str(trap.program))
    git(mine, "config", "--global", "push.recurseSubmodules", "on-demand")
    try_git(mine, "push", str(peer), "main:refs/heads/plain")
    assert trap.sprung()
    assert push_to(mine, str(peer))
    assert not trap.sprung()


def test_a_fetch_changes_only_the_refs_it_was_told(mine: Path, peer: Path) -> None:
    git(mine, "push", "-q", str(peer), "main:refs/heads/a")
    for key in ("fetch.prune", "fetch.pruneTags", "fetch.writeCommitGraph"):
        git(mine, "config", "--global", key, "true")
    graph = mine / ".git" / "objects" / "info" / "commit-graphs"
    kept = ["refs/cn/in/gone", "refs/tags/ours"]

    def fetched(run: Callable[..., object], *more: str) -> list[str]:
        for ref in kept:
            git(mine, "update-ref", ref, "main")
        run(mine, "fetch", *more, "--", str(peer), "+refs/heads/*:refs/cn/in/*")
        return [ref for ref in kept if ref in refs(mine)]

    assert fetched(git) == ["refs/tags/ours"]
    assert graph.exists()
    shutil.rmtree(graph)
    assert fetched(attempt) == kept
    assert not graph.exists()


# A peer that we reach through the file system: its own git runs as us.


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("hook", ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"])
def test_no_hook_of_a_local_peer_runs(hook: str, scheme: str, mine: Path, peer: Path, trap: Trap) -> None:
    (peer / "hooks").mkdir(exist_ok=True)
    (peer / "hooks" / hook).symlink_to(trap.program)
    try_git(mine, "push", f"{scheme}{peer}", "main:refs/heads/plain")
    assert trap.sprung()
    assert push_to(mine, f"{scheme}{peer}")
    assert refs(peer)["refs/heads/sigma/topic"] == tip(mine)
    assert not trap.sprung()


def test_no_hook_of_a_local_peer_runs_from_a_path_it_configured(
    mine: Path, peer: Path, trap: Trap, tmp_path: Path
) -> None:
    hook = tmp_path / "hooks" / "post-receive"
    hook.parent.mkdir()
    hook.symlink_to(trap.program)
    git(peer, "config", "core.hooksPath", str(hook.parent))
    try_git(mine, "push", str(peer), "main:refs/heads/plain")
    assert trap.sprung()
    assert push_to(mine, str(peer))
    assert not trap.sprung()


def test_the_alternate_refs_command_of_a_local_peer_does_not_run(
    mine: Path, peer: Path, trap: Trap, tmp_path: Path
) -> None:
    store = bare(tmp_path / "store.git")
    (peer / "objects" / "info").mkdir(exist_ok=True)
    (peer / "objects" / "info" / "alternates").write_text(f"{store}/objects\n")
    git(peer, "config", "core.alternateRefsCommand", str(trap.program))
    try_git(mine, "push", str(peer), "main:refs/heads/plain")
    assert trap.sprung()
    assert push_to(mine, str(peer))
    assert not trap.sprung()


def test_a_local_peer_does_not_make_us_check_out_through_its_filters(mine: Path, trap: Trap, tmp_path: Path) -> None:
    """``receive.denyCurrentBranch=updateInstead`` checks out, with the peer's filters, as us."""
    peer = work(tmp_path / "peer", branch="sigma/topic")
    git(peer, "config", "receive.denyCurrentBranch", "updateInstead")
    git(peer, "config", "filter.evil.smudge", str(trap.program))
    (peer / ".git" / "info").mkdir(exist_ok=True)
    (peer / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    push_to(mine, str(peer))
    assert not trap.sprung()
    try_git(mine, "push", str(peer), "main:refs/heads/sigma/topic")
    assert trap.sprung()


def test_a_local_peer_does_not_make_us_fetch_lazily_by_its_own_command(
    mine: Path, peer: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects missing at the peer are fetched by its configuration, CVE-2024-32004 and -32465."""
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", "ssh://nowhere.invalid/x"),
        ("remote.evil.promisor", "true"),
        ("core.sshCommand", str(trap.program)),
    ):
        git(peer, "config", key, value)
    who = "pi <pi@example.org> 1 +0000"
    lost = f"tree {'1' * 40}\nauthor {who}\ncommitter {who}\n\nlost\n"
    oid = git(peer, "hash-object", "-t", "commit", "--literally", "-w", "--stdin", stdin=lost)
    (peer / "refs" / "heads" / "main").write_text(oid + "\n")
    monkeypatch.setenv("GIT_NO_LAZY_FETCH", "0")
    try_git(mine, "fetch", str(peer), "main")
    assert trap.sprung()
    assert not attempt(mine, "fetch", "--", str(peer), "main", network=True)
    assert not trap.sprung()


@pytest.mark.parametrize("key", ["insteadOf", "pushInsteadOf"])
def test_no_hook_runs_behind_a_url_that_git_makes_a_local_path_of(key: str, mine: Path, peer: Path, trap: Trap) -> None:
    git(mine, "config", f"url.{peer.parent}/.{key}", "work:")
    url, head = f"work:{peer.name}", Oid(tip(mine))
    for hook in ("pre-receive", "update"):
        script(peer / "hooks" / hook, f"exec {trap.program}")
    try_git(mine, "push", url, "main")
    assert trap.sprung()
    assert read_config(Git(mine)).url(url, push=True) == str(peer)
    told = push_own(Git(mine), url, {"refs/cn/a": head}, LONG, Push("main", head, None))
    assert not trap.sprung()
    assert {one.result for one in told.values()} == {Result.DONE}


# What a URL or a name can make git do.


@pytest.mark.parametrize("how", ["config", "environment", "insteadOf"])
def test_remote_helpers_do_not_run(how: str, mine: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"ext::{trap.program}"
    git(mine, "config", "--global", "protocol.ext.allow", "always")
    if how == "environment":
        monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file")
    elif how == "insteadOf":
        git(mine, "config", "--global", f"url.{url}.insteadOf", "https://peer.example/")
        url = "https://peer.example/"
    try_git(mine, "ls-remote", url)
    assert trap.sprung()
    done = Git(mine).run("ls-remote", "--", url, check=False, network=True)
    assert not trap.sprung()
    assert "not allowed" in done.reason


def test_an_unknown_scheme_starts_no_program(
    mine: Path, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git-remote-evil").symlink_to(trap.program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    try_git(mine, "ls-remote", "evil://x/y")
    assert trap.sprung()
    assert not attempt(mine, "ls-remote", "--", "evil://x/y", network=True)
    assert not trap.sprung()
    with pytest.raises(CnError):
        parse_url("evil://x/y")


def test_a_url_that_is_an_option_is_no_option(mine: Path, peer: Path, trap: Trap) -> None:
    option = f"--upload-pack={trap.program}"
    try_git(mine, "ls-remote", option, str(peer))
    assert trap.sprung()
    assert isinstance(list_remotes(Git(mine), {"pi": option}, LONG)["pi"], str)
    assert not trap.sprung()
    with pytest.raises(CnError):
        parse_url(option)


def test_a_branch_that_is_an_option_is_no_option(mine: Path, peer: Path, trap: Trap) -> None:
    git(mine, "push", "-q", str(peer), "main")
    option = f"--upload-pack={trap.program}"
    try_git(mine, "fetch", str(peer), option)
    assert trap.sprung()
    assert not attempt(mine, "fetch", "--", str(peer), option, network=True)
    assert not trap.sprung()


@pytest.mark.parametrize("name", [b".git", b"..", b".GIT", b"git~1", b".git\xe2\x80\x8c"])
def test_a_tree_that_reaches_into_git_is_not_fetched(name: bytes, mine: Path, peer: Path) -> None:
    tree = raw_tree(peer, [("100644", name, blob(peer, "evil\n"))])
    git(peer, "update-ref", "refs/heads/sigma/evil", commit_tree(peer, tree, "evil"))
    spec = "+refs/heads/sigma/evil:refs/cn/evil"
    done = Git(mine).run("fetch", "--", str(peer), spec, check=False, network=True)
    assert not done.ok
    assert "refs/cn/evil" not in refs(mine)
    git(mine, "fetch", "-q", str(peer), spec)
    assert "refs/cn/evil" in refs(mine)


def test_replaced_objects_are_not_believed(mine: Path) -> None:
    oid = tip(mine)
    git(mine, "replace", oid, commit_tree(mine, f"{oid}^{{tree}}", "forged", author="Eve <eve@example.org>"))
    assert git(mine, "log", "-1", "--format=%s") == "forged"
    assert Git(mine).run("log", "-1", "--format=%s").text == "first"


# Questions that nobody is there to answer.


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[str]:
    """A repository over HTTP that wants a password."""
    bare(tmp_path / "host" / "pi.git")
    with http_backend(tmp_path / "host", user="pi", password="s3cret") as served:
        yield served.url("pi")


def on_a_terminal(words: Sequence[str], cwd: Path, until: str) -> tuple[bytes, bool]:
    """Run ``words`` on a terminal of its own: what it wrote there, and whether it ended by itself."""
    ours, theirs = pty.openpty()

    def asked(text: bytes) -> bool:
        return re.search(until, text.decode(errors="replace"), re.MULTILINE) is not None

    def take_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        words,
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    said, deadline = b"", time.monotonic() + LONG
    try:
        while not asked(said) and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # EIO: the last writer has closed it
                    if data := os.read(ours, 4096):
                        said += data
                        continue
                break
        if asked(said):
            return said, False
        child.wait(LONG)
        return said, True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        os.close(ours)


def hardened(repo: Path, *args: str, seconds: float = LONG) -> list[str]:
    """The command line of a program that runs one network call through cn's runner."""
    return [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from cn.git.process import Git\n"
        "git, seconds = Git(Path(sys.argv[1])), float(sys.argv[2])\n"
        "done = git.run(*sys.argv[3:], check=False, network=True, seconds=seconds)\n"
        "print(done.reason)",
        str(repo),
        str(seconds),
        *args,
    ]


def test_nobody_is_asked_for_a_password(locked: str, mine: Path) -> None:
    said, ended = on_a_terminal(["git", "ls-remote", locked], mine, until="^Username for")
    assert not ended, said
    said, ended = on_a_terminal(hardened(mine, "ls-remote", "--", locked), mine, until="^Username for")
    assert ended, said
    assert b"could not read Username" in said


@pytest.mark.parametrize("how", ["GIT_ASKPASS", "SSH_ASKPASS", "core.askPass"])
def test_no_password_dialogue_opens(
    how: str, locked: str, mine: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "core.askPass":
        git(mine, "config", "--global", how, str(trap.program))
    else:
        monkeypatch.setenv(how, str(trap.program))
    monkeypatch.setenv("DISPLAY", ":7")
    try_git(mine, "ls-remote", locked, GIT_TERMINAL_PROMPT="0")
    assert trap.sprung()
    assert not attempt(mine, "ls-remote", "--", locked, network=True)
    assert not trap.sprung()


def test_an_unknown_ssh_host_is_refused_without_a_question(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path / "host" / "pi.git")
    with ssh_server(tmp_path / "host", tmp_path / "server") as served:
        asking = served.env["GIT_SSH_COMMAND"].replace("StrictHostKeyChecking=yes", "StrictHostKeyChecking=ask")
        (tmp_path / "server" / "known_hosts").write_text("")
        monkeypatch.setenv("GIT_SSH_COMMAND", asking.replace("-o BatchMode=yes", ""))
        url = served.url("pi")
        said, ended = on_a_terminal(["git", "ls-remote", url], mine, until="[(]yes/no")
        assert not ended, said
        said, ended = on_a_terminal(hardened(mine, "ls-remote", "--", url), mine, until="[(]yes/no")
        assert ended, said
        assert b"Host key verification failed" in said


# Time, size, processes.


def test_a_peer_that_says_nothing_is_given_up_and_delays_nobody(mine: Path, peer: Path, tmp_path: Path) -> None:
    git(mine, "push", "-q", str(peer), "main")
    with stalled_server() as (port, connected), git_daemon(tmp_path, tmp_path) as served:
        stalled = f"git://127.0.0.1:{port}/x"
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["git", "ls-remote", stalled], capture_output=True, timeout=2, check=False, cwd=mine)
        jobs = [Job(f"stalled{i}", ("ls-remote", "--", stalled), seconds=4) for i in range(3)] + [
            Job(f"fine{i}", ("ls-remote", "--", served.url("peer")), seconds=LONG) for i in range(8)
        ]
        order: list[str] = []
        answers = Git(mine).run_many(jobs, width=4, on_done=lambda job, _: order.append(job.key))
        assert connected() == 4
    assert [a.timed_out for a in answers] == [True] * 3 + [False] * 8
    assert all(a.ok for a in answers[3:])
    assert {a.reason for a in answers[:3]} == {"no answer within the time limit"}
    assert set(order[:8]) == {f"fine{i}" for i in range(8)}


def wait_for(path: Path, lines: int) -> list[int]:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if path.exists() and len(words := path.read_text().split()) >= lines:
            return [int(w) for w in words]
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def test_what_git_started_dies_with_it(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    ssh = script(tmp_path / "ssh", f"sleep 300 &\necho $$ $! >> '{pids}'\nwait")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    url = "ssh://127.0.0.1/x"
    child = subprocess.Popen(["git", "ls-remote", url], cwd=mine, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    left = wait_for(pids, 2)
    child.kill()
    child.wait()
    try:
        assert any(alive(pid) for pid in left)
    finally:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    pids.unlink()
    done = Git(mine).run("ls-remote", "--", url, check=False, network=True, seconds=1)
    assert done.timed_out
    assert gone(wait_for(pids, 2))


def test_what_stays_behind_in_the_background_is_not_waited_for(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh master connection (ControlPersist) can keep git's standard error open."""
    pids = tmp_path / "pids"
    body = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    null = os.open('/dev/null', os.O_RDWR)\n"
        "    os.dup2(null, 0)\n"
        "    os.dup2(null, 1)\n"
        f"    print(os.getpid(), file=open({str(pids)!r}, 'w'), flush=True)\n"
        "    time.sleep(300)\n"
        f"while not os.path.exists({str(pids)!r}) or not open({str(pids)!r}).read(): time.sleep(0.01)\n"
        "sys.exit(255)\n"
    )
    (tmp_path / "ssh.py").write_text(body)
    ssh = script(tmp_path / "ssh", f"exec '{sys.executable}' '{tmp_path}/ssh.py'")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    url = "ssh://127.0.0.1/x"
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["git", "ls-remote", url], cwd=mine, capture_output=True, timeout=2, check=False)
        os.kill(wait_for(pids, 1)[0], signal.SIGKILL)
        pids.unlink()
        done = Git(mine).run("ls-remote", "--", url, check=False, network=True, seconds=60)
        assert not done.timed_out
        assert done.code == 128
    finally:
        with contextlib.suppress(ProcessLookupError, OSError):
            os.kill(wait_for(pids, 1)[0], signal.SIGKILL)


@pytest.mark.parametrize("kind", ["one big file", "many objects"])
def test_a_fetch_beyond_the_limit_is_ended(kind: str, mine: Path, peer: Path, tmp_path: Path) -> None:
    theirs = work(tmp_path / "theirs", "pi")
    if kind == "one big file":
        commit(theirs, {"big": os.urandom(3_000_000)})
    else:
        commit(theirs, {f"f{i}": os.urandom(20_000) for i in range(150)})
    git(theirs, "push", "-q", str(peer), "main:sigma/big")
    spec = "+refs/heads/sigma/big:refs/cn/big"
    done = Git(mine, max_bytes=1_000_000).run("fetch", "--", str(peer), spec, check=False, network=True)
    assert not done.ok
    assert "the size limit" in done.reason
    assert "refs/cn/big" not in refs(mine)
    git(mine, "fetch", "-q", str(peer), spec)
    assert "refs/cn/big" in refs(mine)


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(entry.name))
    return found


@linux
@pytest.mark.parametrize("how", ["plain", "hardened"])
def test_network_children_die_with_us(how: str, mine: Path) -> None:
    with stalled_server() as (port, connected):
        url = f"git://127.0.0.1:{port}/x"
        plain = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", "git"]
        words = [*plain, "ls-remote", url] if how == "plain" else hardened(mine, "ls-remote", "--", url)
        parent = subprocess.Popen(words, cwd=mine, env={**os.environ, "PYTHONPATH": str(ROOT)})
        deadline = time.monotonic() + LONG
        while not connected() and time.monotonic() < deadline:
            time.sleep(0.02)
        children = children_of(parent.pid)
        assert children
        parent.kill()
        parent.wait()
        try:
            if how == "hardened":
                assert gone(children)
            else:
                time.sleep(0.2)
                assert all(alive(pid) for pid in children)
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_local_children_hold_the_lock_after_our_death(mine: Path, tmp_path: Path) -> None:
    """A git that still moves refs must keep the next run of cn out."""
    lock, pids, stop = tmp_path / "lock", tmp_path / "pids", tmp_path / "stop"
    slow = f"!echo $$ >> '{pids}'; while [ ! -e '{stop}' ]; do sleep 0.05; done"
    program = (
        "import fcntl, sys; from pathlib import Path; from cn.git.process import Git\n"
        "file = open(sys.argv[2], 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "Git(Path(sys.argv[1]), lock_fd=file.fileno(), settings={'alias.slow': sys.argv[3]}).run('slow')\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(mine), str(lock), slow], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        children = wait_for(pids, 1)
        parent.kill()
        parent.wait()
        with lock.open("w") as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stop.touch()
            assert gone(children)
            fcntl.flock(file, fcntl.LOCK_EX)
    finally:
        stop.touch()
        parent.kill()
        parent.wait()


# The environment that cn is started in.


def catalogue(path: Path, text: str, translation: str) -> None:
    """A gettext catalogue of one message, as msgfmt(1) writes it."""
    pairs = sorted([("", "Content-Type: text/plain; charset=UTF-8\n"), (text, translation)])
    keys = [k.encode() for k, _ in pairs]
    values = [v.encode() for _, v in pairs]
    offset = 28 + 16 * len(pairs)
    tables = b""
    for strings in (keys, values):
        for s in strings:
            tables += struct.pack("<II", len(s), offset)
            offset += len(s) + 1
    head = struct.pack("<IIIIIII", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, offset)
    path.parent.mkdir(parents=True)
    path.write_bytes(head + tables + b"".join(s + b"\0" for s in keys + values))


def test_messages_are_not_translated(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue(tmp_path / "de" / "LC_MESSAGES" / "git.mo", "Needed a single revision", "genau EIN Commit")
    for name, value in {
        "GIT_TEXTDOMAINDIR": str(tmp_path),
        "LANG": "de_DE.UTF-8",
        "LANGUAGE": "de",
        "LC_ALL": "C.UTF-8",  # any locale that exists and is not "C" obeys LANGUAGE
    }.items():
        monkeypatch.setenv(name, value)
    args = ("rev-parse", "--verify", "nothing")
    said = try_git(mine, *args).stderr.decode()
    if "EIN" not in said:
        pytest.skip("this git or its C library does not translate in the locale C.UTF-8")
    assert Git(mine).run(*args, check=False).reason == "fatal: Needed a single revision"


@pytest.mark.parametrize(
    ("variable", "args"),
    [
        ("GIT_DIR", ["rev-parse", "HEAD"]),
        ("GIT_INDEX_FILE", ["ls-files"]),
        ("GIT_WORK_TREE", ["rev-parse", "--show-toplevel"]),
        ("GIT_OBJECT_DIRECTORY", ["cat-file", "-t", "HEAD"]),
        ("GIT_CONFIG", ["config", "user.name"]),
        ("GIT_NAMESPACE", ["ls-remote", "."]),
        ("GIT_REPLACE_REF_BASE", ["log", "-1", "--format=%s"]),
    ],
)
def test_a_repository_named_in_the_environment_is_not_ours(
    variable: str, args: list[str], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cn may be started from a hook of another repository, with that one's variables set."""
    other = work(tmp_path / "other", "pi")
    commit(other, {"OTHER.md": "other\n"}, "other")
    oid = tip(mine)
    forged = commit_tree(mine, f"{oid}^{{tree}}", "forged")
    git(mine, "update-ref", f"refs/evil/{oid}", forged)
    expected = Git(mine).run(*args).out
    monkeypatch.setenv(
        variable,
        {
            "GIT_DIR": f"{other}/.git",
            "GIT_INDEX_FILE": f"{other}/.git/index",
            "GIT_WORK_TREE": str(other),
            "GIT_OBJECT_DIRECTORY": f"{other}/.git/objects",
            "GIT_CONFIG": f"{other}/.git/config",
            "GIT_NAMESPACE": "evil",
            "GIT_REPLACE_REF_BASE": "refs/evil/",
        }[variable],
    )
    assert try_git(mine, *args).stdout != expected
    assert Git(mine).run(*args).out == expected
    assert variable not in Git(mine).prepared(())[1]


def test_nothing_that_git_calls_local_to_a_repository_leaks(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git-rev-parse(1) ``--local-env-vars``; GIT_CONFIG_COUNT stays, it carries a user's settings."""
    names = set(git(mine, "rev-parse", "--local-env-vars").split()) - {"GIT_CONFIG_COUNT"}
    assert "GIT_DIR" in names
    for name in names:
        monkeypatch.setenv(name, "/leak")
    env = Git(mine).prepared(())[1]
    assert {n for n in names if env.get(n) == "/leak"} == set()


def test_a_diff_program_in_the_environment_does_not_run(
    mine: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine / "README.md").write_text("changed\n")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    try_git(mine, "diff")
    assert trap.sprung()
    assert "+changed" in Git(mine).run("diff").lines
    assert not trap.sprung()


def test_refs_move_even_inside_a_receiving_hook(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mailbox's pre-receive hook may start cn; git sets GIT_QUARANTINE_PATH there."""
    monkeypatch.setenv("GIT_QUARANTINE_PATH", str(mine / ".git" / "objects" / "incoming"))
    assert try_git(mine, "update-ref", "refs/heads/x", "main").returncode != 0
    assert attempt(mine, "update-ref", "refs/heads/x", "main")


def test_looking_does_not_write_the_index_of_the_user(mine: Path) -> None:
    index = mine / ".git" / "index"
    (mine / "README.md").write_text("hello\n")  # same content, new time: a refresh would note it
    os.utime(mine / "README.md", (1, 1))
    before = index.read_bytes()
    assert Git(mine).run("status", "--porcelain").lines == []
    assert index.read_bytes() == before
    git(mine, "status", "--porcelain")
    assert index.read_bytes() != before


def test_traces_do_not_mix_with_answers(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_TRACE", "GIT_TRACE_SETUP", "GIT_TRACE2_PERF", "GIT_TRACE_PERFORMANCE", "GIT_CURL_VERBOSE"):
        monkeypatch.setenv(name, "1")
    assert try_git(mine, "rev-parse", "HEAD").stderr
    assert Git(mine).run("rev-parse", "HEAD").err == ""


def test_a_run_inside_a_hook_of_another_repository(mine: Path, tmp_path: Path) -> None:
    other = work(tmp_path / "other", "pi")
    commit(other, {"a": "1"})
    answers = tmp_path / "answers"
    program = (
        "import sys; from pathlib import Path; from cn.git.process import Git\n"
        "print(*Git(Path(sys.argv[1])).run('ls-files').lines)"
    )
    (tmp_path / "hook.py").write_text(program)
    script(
        other / ".git" / "hooks" / "pre-commit",
        f"git -C '{mine}' ls-files > '{answers}'\n"
        f"PYTHONPATH='{ROOT}' '{sys.executable}' '{tmp_path}/hook.py' '{mine}' >> '{answers}'",
    )
    (other / "a").write_text("2")
    git(other, "commit", "-q", "-m", "x", "a")
    plain, ours = answers.read_text().splitlines()
    assert plain == "a"
    assert ours == "README.md"


# What must stay in force: a good guest uses the logins that people set up.


@pytest.mark.parametrize("how", ["core.sshCommand", "GIT_SSH_COMMAND", "GIT_SSH"])
def test_the_ssh_command_of_the_user_is_used(how: str, mine: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "core.sshCommand":
        git(mine, "config", how, str(trap.program))
    else:
        monkeypatch.setenv(how, str(trap.program))
    assert not attempt(mine, "ls-remote", "--", "ssh://127.0.0.1:9/x", network=True)
    assert trap.sprung()


def test_an_error_shows_neither_password_nor_control_characters(mine: Path, peer: Path, tmp_path: Path) -> None:
    (peer / "hooks").mkdir(exist_ok=True)
    script(peer / "hooks" / "pre-receive", "printf 'evil \\033[2J\\302\\233K http://u:p@ss@host/\\n' >&2; exit 1")
    with http_backend(tmp_path) as served, pytest.raises(GitError) as caught:
        Git(mine).run("push", "--", served.url("peer"), "main", network=True)
    assert "evil" in caught.value.done.err
    for secret in ("\x1b", "\x9b", "p@ss", "ss@host"):
        assert secret not in caught.value.text


def test_a_host_leads_git_to_no_other(mine: Path, tmp_path: Path) -> None:
    """A redirect could send a push to a server of its choice, or show another's branches as its own."""
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path.startswith("/pi.git/"):
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{port}/other.git/info/refs?service=git-upload-pack")
                self.end_headers()
            else:
                self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http_server(Elsewhere) as port:
        found = list_remotes(Git(mine), {"pi": f"http://127.0.0.1:{port}/pi.git"}, 20)
    assert isinstance(found["pi"], str)
    assert not [path for path in asked if path.startswith("/other.git")]
