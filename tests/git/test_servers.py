"""Each kind of remote, reached through the hardened runner: list, fetch, push, leases."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from cn.git.process import Git, GitError, Job, transport_options
from tests.support.hubs import bare, branches, clone, commit, git, refs, tip, work
from tests.support.servers import Remote, http_backend


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A repository of ours with one commit."""
    repo = work(tmp_path / "mine", "sigma")
    commit(repo, {"README.md": "hello\n"}, "first")
    return repo


def push(repo: Path, url: str, *words: str, check: bool = True) -> tuple[bool, str]:
    options = [w for w in words if w.startswith("--")]
    specs = [w for w in words if not w.startswith("--")]
    done = Git(repo).run(
        "push", "--porcelain", *options, *transport_options(url), "--", url, *specs, check=check, network=True
    )
    return done.ok, done.text or f"{done.reason}\n{done.err}"


def listing(repo: Path, url: str) -> list[str]:
    return Git(repo).run("ls-remote", "--refs", "--", url, network=True).lines


def test_lists_nothing_in_an_empty_repository(remote: Remote, mine: Path) -> None:
    assert listing(mine, remote.repo("pi")) == []


def test_lists_what_is_there(remote: Remote, mine: Path) -> None:
    url = remote.repo("pi")
    git(mine, "push", "--quiet", "--", url, "main:refs/heads/main", "main:refs/heads/sigma/a")
    assert listing(mine, url) == [f"{tip(mine)}\trefs/heads/main", f"{tip(mine)}\trefs/heads/sigma/a"]


def test_fetches_into_refs_of_its_own(remote: Remote, mine: Path, tmp_path: Path) -> None:
    url = remote.repo("pi")
    theirs = work(tmp_path / "theirs", "pi")
    oid = commit(theirs, {"docs/d.md": "text\n"}, "from pi")
    git(theirs, "push", "--quiet", "--", str(remote.path("pi")), "main:refs/heads/sigma/topic")
    Git(mine).run("fetch", "--no-tags", "--", url, "+refs/heads/*:refs/cn/in/pi/*", network=True)
    assert tip(mine, "refs/cn/in/pi/sigma/topic") == oid
    assert git(mine, "show", f"{oid}:docs/d.md") == "text"
    assert list(refs(mine)) == ["refs/cn/in/pi/sigma/topic", "refs/heads/main"]


def test_pushes_a_branch(remote: Remote, mine: Path) -> None:
    url = remote.repo("pi")
    assert push(mine, url, "main:refs/heads/sigma/topic")[0]
    assert refs(remote.path("pi")) == {"refs/heads/sigma/topic": tip(mine)}


@pytest.mark.sliced(3)
def test_pushes_a_big_pack(remote: Remote, mine: Path) -> None:
    """Beyond ``http.postBuffer`` git sends the pack chunked."""
    url = remote.repo("pi")
    noise = os.urandom(3_000_000)
    oid = commit(mine, {"noise.bin": noise}, "big")
    assert push(mine, url, "main:refs/heads/sigma/big")[0]
    assert branches(remote.path("pi")) == {"sigma/big": oid}
    assert git(remote.path("pi"), "cat-file", "-s", f"{oid}:noise.bin") == str(len(noise))


@pytest.mark.sliced(3)
def test_an_empty_lease_creates_once(remote: Remote, mine: Path) -> None:
    url = remote.repo("pi")
    lease, spec = "--force-with-lease=refs/heads/sigma/m:", "main:refs/heads/sigma/m"
    assert push(mine, url, lease, spec)[0]
    assert push(mine, url, lease, spec)[0], "the same id is up to date"
    first = tip(mine)
    commit(mine, {"README.md": "other\n"}, "second")
    ok, said = push(mine, url, lease, spec, check=False)
    assert not ok
    assert "!\t" in said
    assert branches(remote.path("pi")) == {"sigma/m": first}


@pytest.mark.sliced(3)
def test_a_stale_lease_deletes_nothing(remote: Remote, mine: Path) -> None:
    url = remote.repo("pi")
    old = tip(mine)
    new = commit(mine, {"README.md": "other\n"}, "second")
    push(mine, url, "main:refs/heads/sigma/m")
    ref = "refs/heads/sigma/m"
    ok, said = push(mine, url, f"--force-with-lease={ref}:{old}", f":{ref}", check=False)
    assert not ok
    assert "stale info" in said
    assert branches(remote.path("pi")) == {"sigma/m": new}
    assert push(mine, url, f"--force-with-lease={ref}:{new}", f":{ref}")[0]
    assert branches(remote.path("pi")) == {}


@pytest.mark.sliced(3)
def test_a_push_that_is_no_fast_forward_is_rejected(remote: Remote, mine: Path) -> None:
    url = remote.repo("pi")
    push(mine, url, "main:refs/heads/main")
    new = commit(mine, {"README.md": "theirs\n"}, "theirs")
    push(mine, url, "main:refs/heads/main")
    git(mine, "reset", "--quiet", "--hard", "HEAD~")
    commit(mine, {"README.md": "ours\n"}, "ours")
    ok, said = push(mine, url, "main:refs/heads/main", check=False)
    assert not ok
    assert "non-fast-forward" in said or "fetch first" in said
    assert branches(remote.path("pi")) == {"main": new}


def test_a_missing_repository_is_an_error_with_a_reason(remote: Remote, mine: Path) -> None:
    done = Git(mine).run("ls-remote", "--", remote.url("nobody"), check=False, network=True)
    assert not done.ok
    assert not done.timed_out
    assert done.reason.startswith(("fatal:", "remote:", "error:"))


@pytest.mark.sliced(3)
def test_many_listings_at_once(remote: Remote, mine: Path) -> None:
    urls = [remote.repo(f"peer{i}") for i in range(12)]
    for i in range(12):
        git(mine, "push", "--quiet", "--", str(remote.path(f"peer{i}")), f"main:refs/heads/sigma/t{i}")
    answers = Git(mine).run_many([Job(u, ("ls-remote", "--refs", "--", u)) for u in urls])
    assert [a.text for a in answers] == [f"{tip(mine)}\trefs/heads/sigma/t{i}" for i in range(12)]


def test_http_with_credentials_in_the_url(tmp_path: Path, mine: Path) -> None:
    bare(tmp_path / "host" / "pi.git")
    with http_backend(tmp_path / "host", user="pi", password="s3cret") as served:
        url = served.url("pi").replace("://", "://pi:s3cret@")
        assert push(mine, url, "main:refs/heads/sigma/topic")[0]
        assert branches(served.path("pi")) == {"sigma/topic": tip(mine)}


def test_http_with_a_credential_helper_of_the_user(tmp_path: Path, mine: Path, home: Path) -> None:
    """Hardening must not cost people their logins."""
    bare(tmp_path / "host" / "pi.git")
    store = home / ".git-credentials"
    with http_backend(tmp_path / "host", user="pi", password="s3cret") as served:
        store.write_text(served.base.replace("://", "://pi:s3cret@") + "\n")
        git(home, "config", "--global", "credential.helper", "store")
        assert push(mine, served.url("pi"), "main:refs/heads/sigma/topic")[0]
        assert branches(served.path("pi")) == {"sigma/topic": tip(mine)}


@pytest.mark.parametrize("kept", ["right", "wrong"])
@pytest.mark.parametrize("scope", ["global", "hub", "url"])
def test_a_host_takes_no_password_from_its_helper_and_brings_none(
    tmp_path: Path, mine: Path, home: Path, scope: str, kept: str
) -> None:
    """After a 401 git erases the password of the whole host, after a success it stores it in every helper."""
    bare(tmp_path / "host" / "pi.git")
    with http_backend(tmp_path / "host", user="pi", password="right") as served:
        line = served.base.replace("://", f"://pi:{kept}@") + "\n"
        (home / "kept").write_text(line)
        key = f"credential.{served.base}.helper" if scope == "url" else "credential.helper"
        where = ("config", "--add") if scope == "hub" else ("config", "--global", "--add")
        for file in ("kept", "other"):
            git(mine, *where, key, f"store --file={home / file}")
        with nullcontext() if kept == "right" else pytest.raises(GitError, match="Authentication failed"):
            push(mine, served.url("pi"), "main:refs/heads/sigma/topic")
    assert (home / "kept").read_text() == line
    assert not (home / "other").exists()


def test_a_clone_made_over_each_remote_is_whole(remote: Remote, mine: Path, tmp_path: Path) -> None:
    url = remote.repo("pi")
    push(mine, url, "main:refs/heads/main")
    assert tip(clone(url, tmp_path / "copy", "pi")) == tip(mine)
