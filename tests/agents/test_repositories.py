"""Repositories for agents: one fetch for many, copies that share nothing, and pushes that a grant names."""

import base64
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cn.agency.names import Resource
from cn.agency.operations import GrantAccess, Wanted
from cn.agency.plan.result import Refused
from cn.agency.plan.titles import with_titles
from cn.agents import carry, processes, repositories
from cn.agents.machine import Repositories
from cn.agents.repositories import (
    Mirrors,
    Repository,
    find_repository,
    list_repositories,
    may_clone,
    may_push,
    push_patterns,
)
from cn.git.children import Children
from cn.git.process import Git
from tests.support.agents import Staff, script_runner, until
from tests.support.echo_server import echoing
from tests.support.hubs import ROOT, git
from tests.support.servers import Remote, serve
from tests.support.wraps import AS_OTHER, needs_other_user

KINDS = ("path", "git", "http", "ssh")
needs_lists = pytest.mark.skipif(shutil.which("setfacl") is None, reason="needs setfacl")


def silent(commit: str) -> None:
    """Nobody is told of a push."""


def allowed() -> Refused | None:
    """Whoever asks may have the clone."""
    return None


@pytest.fixture(params=KINDS)
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    with serve(request.param, tmp_path / "served", tmp_path / "scratch") as served:
        yield served


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Remote]:
    with serve("path", tmp_path / "served", tmp_path / "scratch") as served:
        yield served


def filled(remote: Remote, tmp_path: Path) -> str:
    """A repository with a commit on main; its URL."""
    url = remote.repo("site")
    git(remote.path("site"), "symbolic-ref", "HEAD", "refs/heads/main")
    work = tmp_path / "work"
    git(tmp_path, "init", "--quiet", "-b", "main", str(work))
    (work / "page.md").write_text("one\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "First")
    git(work, "push", "--quiet", str(remote.path("site")), "main")
    return url


def mirrors(tmp_path: Path, url: str, fresh: float = 60.0, env: dict[str, str] | None = None) -> Mirrors:
    known = Repositories((("site", url),), (), fresh)
    return Mirrors(tmp_path / "mirrors", known, Git(tmp_path, env=env or {}))


def clone(store: Mirrors, tmp_path: Path, name: str = "one") -> Path:
    """A clone in a new workspace."""
    workspace, staging = tmp_path / name, tmp_path / f"{name}.files"
    for folder in (workspace, staging):
        folder.mkdir(exist_ok=True)
    site = store.find("site")
    assert isinstance(site, Repository)
    made = store.clone(site, workspace, staging, allowed)
    assert isinstance(made, dict), made
    assert list(staging.iterdir()) == []
    return workspace / str(made["path"])


def bundle(copy: Path, branch: str = "work", since: str = "origin/HEAD") -> bytes:
    """What an agent makes in its clone."""
    git(copy, "checkout", "--quiet", "-b", branch)
    (copy / "page.md").write_text(f"by {branch}\n")
    git(copy, "commit", "--quiet", "-am", "Second")
    git(copy, "bundle", "create", "--quiet", "work.bundle", f"{since}..{branch}")
    return (copy / "work.bundle").read_bytes()


def test_a_clone_is_whole_knows_the_real_url_and_what_it_gives_is_pushed(remote: Remote, tmp_path: Path) -> None:
    url = filled(remote, tmp_path)
    store = mirrors(tmp_path, url, env=dict(remote.env))
    copy = clone(store, tmp_path)
    assert (copy / "page.md").read_text() == "one\n"
    assert git(copy, "config", "remote.origin.url") == url
    assert git(copy, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    site = store.find("site")
    assert isinstance(site, Repository)
    pushed = store.push(site, "1a2b3c4d/page", bundle(copy), silent)
    assert isinstance(pushed, dict), pushed
    assert git(remote.path("site"), "rev-parse", "1a2b3c4d/page") == git(copy, "rev-parse", "work")


def test_many_agents_at_once_are_one_fetch(tmp_path: Path) -> None:
    with serve("http", tmp_path / "served", tmp_path / "scratch") as remote:
        url = filled(remote, tmp_path)
        store = mirrors(tmp_path, url)
        seen: list[object] = []
        whole = store._fetch

        def counted(repository: Repository, path: Path, lock: int) -> Refused | None:
            seen.append(repository)
            return whole(repository, path, lock)

        store._fetch = counted  # type: ignore[method-assign]
        with ThreadPoolExecutor(8) as pool:
            copies = list(pool.map(lambda number: clone(store, tmp_path, f"agent{number}"), range(8)))
        assert len(seen) == 1
        assert {git(copy, "rev-parse", "HEAD") for copy in copies} == {git(remote.path("site"), "rev-parse", "main")}


def test_what_is_not_fresh_is_fetched_again(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path), fresh=0.0)
    clone(store, tmp_path)
    (tmp_path / "work/page.md").write_text("two\n")
    git(tmp_path / "work", "commit", "--quiet", "-am", "Second")
    git(tmp_path / "work", "push", "--quiet", str(plain.path("site")), "main")
    assert (clone(store, tmp_path, "two") / "page.md").read_text() == "two\n"


def test_a_mirror_that_was_fetched_at_a_time_to_come_is_not_fresh(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path), fresh=600.0)
    clone(store, tmp_path)
    (note,) = (tmp_path / "mirrors").glob("*.git/cn-fetched")
    os.utime(note, (4e9, 4e9))
    (tmp_path / "work/page.md").write_text("two\n")
    git(tmp_path / "work", "commit", "--quiet", "-am", "Second")
    git(tmp_path / "work", "push", "--quiet", str(plain.path("site")), "main")
    assert (clone(store, tmp_path, "two") / "page.md").read_text() == "two\n"


def test_an_agent_that_writes_into_its_objects_harms_nobody_else(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    copy = clone(store, tmp_path)
    mine = {path.stat().st_ino for path in (copy / ".git/objects").rglob("*") if path.is_file()}
    mirror = next(iter((tmp_path / "mirrors").glob("*.git")))
    assert not mine & {path.stat().st_ino for path in (mirror / "objects").rglob("*") if path.is_file()}
    assert not (copy / ".git/objects/info/alternates").exists()


@pytest.mark.parametrize("damage", ["ref", "pack", "HEAD"])
def test_a_mirror_that_a_crash_damaged_is_made_anew(plain: Remote, tmp_path: Path, damage: str) -> None:
    url = filled(plain, tmp_path)
    store = mirrors(tmp_path, url, fresh=0.0)
    clone(store, tmp_path)
    (mirror,) = store.folder.glob("*.git")
    if damage == "pack":
        git(mirror, "repack", "-adq")
        (file,) = mirror.glob("objects/pack/*.pack")
        file.chmod(0o600)
    else:
        file = mirror / ("HEAD" if damage == "HEAD" else "refs/heads/main")
    file.write_bytes(b"")
    assert (clone(store, tmp_path, "two") / "page.md").read_text() == "one\n"
    assert [one.suffix for one in store.folder.iterdir() if one.is_dir()] == [".git"]
    file.write_bytes(b"") if damage == "ref" else None
    plain.path("site").rename(tmp_path / "away")
    site = store.find("site")
    assert isinstance(site, Repository)
    assert isinstance(store.clone(site, tmp_path / "two", tmp_path / "two.files", allowed), Refused)
    assert list(store.folder.glob("*.git")) == [mirror], "what cannot be brought takes the place of nothing"


def test_no_filter_of_the_users_runs_on_what_a_repository_says(plain: Remote, tmp_path: Path) -> None:
    """It would run outside of the agent's wrap: git-lfs asks the URL that the repository names."""
    url = filled(plain, tmp_path)
    work = tmp_path / "work"
    for folder in (work, work / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / ".gitattributes").write_text("*.md filter=mine\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "Attributes")
    git(work, "push", "--quiet", str(plain.path("site")), "main")
    config = tmp_path / "gitconfig"
    git(tmp_path, "config", "--file", str(config), "filter.mine.smudge", f"touch {tmp_path}/ran; cat")
    git(tmp_path, "config", "--file", str(config), "filter.mine.clean", "cat")
    git(tmp_path, "config", "--file", str(config), "filter.mine.required", "true")
    env = {"GIT_CONFIG_GLOBAL": str(config)}
    git(tmp_path, "clone", "--quiet", str(plain.path("site")), "by-hand", **env)
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    copy = clone(mirrors(tmp_path, url, env=env), tmp_path)
    assert not (tmp_path / "ran").exists()
    assert (copy / "page.md").read_text() == "one\n"
    assert git(copy, "status", "--porcelain", **env) == ""
    assert not (copy / ".git/info/attributes").exists()


def test_a_link_in_the_workspace_leads_no_clone_elsewhere(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    elsewhere, workspace = tmp_path / "elsewhere", tmp_path / "one"
    elsewhere.mkdir()
    workspace.mkdir()
    (workspace / "site").symlink_to(elsewhere)
    assert clone(store, tmp_path) == workspace / "site.2"
    assert list(elsewhere.iterdir()) == []
    swapped, staging = tmp_path / "swapped", tmp_path / "one.files"
    swapped.symlink_to(elsewhere)
    site = store.find("site")
    assert isinstance(site, Repository)
    refused = store.clone(site, swapped, staging, allowed)
    assert isinstance(refused, Refused)
    assert refused.rule == "repo-place"
    assert list(elsewhere.iterdir()) == []


_CLONES = """
import os, pathlib, resource, select, subprocess, sys
from cn.agents.machine import Repositories
from cn.agents.repositories import Mirrors
from cn.agents.workspace import Folders
from cn.agents.clones import Clones
from cn.git.process import Git
base, sys.executable, user, umask = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4], 8)
os.setgroups([])
os.seteuid(user)
os.umask(umask)
folder = Folders(base / "state").make("00000000-0000-4000-8000-000000000001", other_user="nobody")
store = Mirrors(base / "state/mirrors", Repositories((("site", str(base / "served/site.git")),), (), 60.0), Git(base))
clones, site = Clones(folder), store.find("site")
for _ in range(2):
    places = folder.workspace, folder.files
    made = store.clone(site, *places, lambda: None, lambda answer: clones.note("once", answer), user="nobody")
    print(made["path"] if isinstance(made, dict) else made)
subprocess.run(["sudo", "-n", "--", "chmod", "700", str(folder.workspace / "site.2")])
print(clones.find("once") == made, sorted(one.name for one in folder.workspace.iterdir()))
print(os.listdir(folder.files))
if isinstance(made, dict):
    (base / "one").symlink_to(folder.workspace / "site")
    (base / "two").symlink_to(folder.workspace / "site.2")
"""
_WORKS = """
cd "$0" && git status --porcelain && git log --format=%s && cat page.md && readlink link && ./run
find . ! -user nobody
git checkout -q -b work && echo two > page.md && git commit -qam Second
git bundle create -q ../work.bundle origin/HEAD..work && chmod 700 . && cd .. && rm -rf site && ls -A
"""
_BECOMES = "os.seteuid(0); os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execvp(a[0], a)"
_SUDO = f"import os, sys\na = sys.argv[sys.argv.index('--') + 1 :]\n{_BECOMES}\n"


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place that others may pass, with a repository to clone; ``sudo`` becomes nobody."""
    system = shutil.which("python3", path="/usr/bin:/bin")
    if not system or pwd.getpwnam("nobody").pw_uid != 65534:
        pytest.skip("needs a Python that others may start, and nobody's usual number")
    if closed := [one for one in (ROOT, *ROOT.parents) if not one.stat().st_mode & stat.S_IXOTH]:
        pytest.skip(f"others may not pass {closed[-1]}, where the checkout is")
    with tempfile.TemporaryDirectory() as name, serve("path", Path(name, "served"), tmp_path) as remote:
        place = Path(name)
        filled(remote, tmp_path)
        work = tmp_path / "work"
        (work / "link").symlink_to("/nowhere")
        (work / "run").write_text("#!/bin/sh\necho ran\n")
        (work / "run").chmod(0o755)
        (work / os.fsdecode(b"\xff\n")).write_text("a name\n")
        git(work, "add", ".")
        git(work, "commit", "--quiet", "-m", "More")
        git(work, "push", "--quiet", str(remote.path("site")), "main")
        place.chmod(0o777)
        (place / "bin").mkdir()
        (place / "bin/sudo").write_text(f"#!{system} -IS\n{_SUDO}")
        (place / "bin/sudo").chmod(0o755)
        (place / "config").write_text("[safe]\n\tdirectory = *\n")
        monkeypatch.setenv("PATH", f"{place}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(place / "config"))
        yield place


def clones_for_nobody(place: Path, user: int, umask: str = "022") -> list[str]:
    """What a server of this user says of two clones for an agent that works as nobody, and what it sees of them."""
    python = str(shutil.which("python3", path="/usr/bin:/bin"))
    words = [sys.executable, "-c", _CLONES, str(place), python, str(user), umask]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_other_user
@pytest.mark.parametrize("umask", ["022", "077"])
@pytest.mark.parametrize("user", [pytest.param(0, id="root"), pytest.param(4711, id="another", marks=needs_lists)])
def test_a_clone_of_an_agent_that_works_as_another_user_is_that_users(others: Path, user: int, umask: str) -> None:
    said = clones_for_nobody(others, user, umask)
    assert said == ["site", "site.2", "True ['site', 'site.2']", "['clones']"]
    as_nobody = AS_OTHER[: AS_OTHER.index("--clear-groups") + 1]
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    env |= {f"GIT_{who}_{what}": "n@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    words = [*as_nobody, "sh", "-c", _WORKS, os.path.realpath(others / "one")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", env=env)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["More", "First", "one", "/nowhere", "ran", "site.2", "work.bundle"]


_TAKES_PART = 'until [ "$1" = -- ]; do shift; done; shift; mkdir -p "$7/$8/.git"; kill -KILL $$'
"""FOLDER and BESIDE stand there."""


@needs_other_user
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("echo 'sudo: a password is required' >&2; exit 1", "sudo: a password is required"),
        (_TAKES_PART, "sudo ended with -9"),
    ],
    ids=["refused", "killed"],
)
def test_where_another_user_takes_no_clone_that_is_told_and_nothing_of_it_is_left(
    others: Path, does: str, why: str
) -> None:
    (others / "bin/sudo").write_text(f"#!/bin/sh\n{does}\n")
    said = clones_for_nobody(others, 0)
    assert f"nobody, as whom you work, got no clone: {why}" in said[0]
    assert "ask who runs the server whether 'sudo -n -u nobody true' works there" in said[0]
    assert said[2:] == ["False []", "['clones']"]


def test_what_another_user_does_not_take_is_not_waited_for_when_its_agent_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo, source, gits = tmp_path / "bin/sudo", tmp_path / "source", Children()
    sudo.parent.mkdir()
    source.mkdir()
    sudo.write_text("#!/bin/sh\nexec sleep 600\n")
    sudo.chmod(0o755)
    (source / "large").write_bytes(bytes(1 << 20))
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(processes, "_TO_EMPTY", 0.2)
    ends = threading.Timer(0.5, gits.end, ["the agent ends"])
    ends.start()
    try:
        why = processes.carry_as("nobody", source, tmp_path, "beside", "site", gits.add)
    finally:
        for process in processes._standing.pop("nobody", ()):
            process.kill()
            process.wait()
    assert why == "sudo did not answer within 0 s"
    assert gits.ended


@pytest.mark.parametrize("end", ["a part is missing", "who asked is gone", "none"])
def test_what_is_carried_to_another_user_gets_its_name_when_it_is_whole(tmp_path: Path, end: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    (source / "inner/page.md").write_text("one\n" * 1000)
    (target / "site").mkdir(parents=True)
    words = [sys.executable, "-I", "-S", "-X", "utf8", carry.__file__]
    parent = str(os.getpid() + (end == "who asked is gone"))
    told = subprocess.run([*words, parent], cwd=source, capture_output=True, check=True).stdout
    data = told[: -3000 if end == "a part is missing" else None]
    done = subprocess.run([*words, str(target), "beside", "site"], input=data, capture_output=True, check=False)
    assert [one.name for one in target.iterdir()] == ["site"]
    found = [one.name for one in (target / "site").iterdir()]
    assert (done.stderr, found) == ((b"", ["inner"]) if end == "none" else (b"it was cut off\n", []))


def test_a_password_in_the_url_reaches_no_agent(plain: Remote, tmp_path: Path) -> None:
    assert Repository("x", "https://ann:secret@git.example.org/x.git").public_url == "https://git.example.org/x.git"
    assert Repository("x", "ssh://git@example.org/x.git").public_url == "ssh://git@example.org/x.git"
    store = mirrors(tmp_path, "https://ann:secret@127.0.0.1:9/x.git")
    site = store.find("site")
    assert isinstance(site, Repository)
    refused = store.clone(site, tmp_path, tmp_path, allowed)
    assert isinstance(refused, Refused)
    assert refused.rule == "repo-unreached"
    assert "secret" not in refused.reason


@pytest.mark.parametrize("where", ["url", "insteadOf", "extraHeader"])
def test_a_password_that_the_host_says_back_reaches_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    password = "hunter2-S3cretPassw0rd"
    pair = base64.b64encode(f"pi:{password}".encode()).decode()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    with echoing() as port:
        url = f"http://127.0.0.1:{port}/"
        with_password = f"http://pi:{password}@127.0.0.1:{port}/"
        if where == "insteadOf":
            git(tmp_path, "config", "--global", f"url.{with_password}.insteadOf", url)
        elif where == "extraHeader":
            git(tmp_path, "config", "--global", "http.extraHeader", f"Authorization: Basic {pair}")
        store = mirrors(tmp_path, f"{with_password if where == 'url' else url}site.git")
        workspace, staging = tmp_path / "one", tmp_path / "files"
        workspace.mkdir()
        staging.mkdir()
        found = store.find("site")
        assert isinstance(found, Repository)
        refused = store.clone(found, workspace, staging, allowed)
        assert isinstance(refused, Refused)
        assert "denied for ***" in refused.reason
        assert password not in refused.reason
        assert pair.rstrip("=") not in refused.reason


def test_what_is_no_bundle_of_one_commit_is_refused(plain: Remote, tmp_path: Path) -> None:
    url = filled(plain, tmp_path)
    store = mirrors(tmp_path, url)
    copy = clone(store, tmp_path)
    site = store.find("site")
    assert isinstance(site, Repository)
    good = bundle(copy)
    git(copy, "branch", "other", "HEAD~1")
    git(copy, "bundle", "create", "--quiet", "two.bundle", "work", "other")
    git(copy, "commit", "--quiet", "--allow-empty", "-m", "Third")
    git(copy, "bundle", "create", "--quiet", "gap.bundle", "HEAD~1..work")
    for data in (b"", b"no bundle", good[:-20], (copy / "two.bundle").read_bytes(), (copy / "gap.bundle").read_bytes()):
        refused = store.push(site, "a/b", data, silent)
        assert isinstance(refused, Refused)
        assert refused.rule == "repo-bundle"
        assert "one branch" not in refused.reason  # its names do not count
        assert "git bundle create" in refused.remedy
    assert git(plain.path("site"), "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert not list((tmp_path / "mirrors").glob(".push-*"))


@pytest.mark.parametrize("name", ["..", ".git"])
def test_a_bundle_of_what_our_fetches_refuse_is_not_pushed(plain: Remote, tmp_path: Path, name: str) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path), fresh=0)
    copy = clone(store, tmp_path)
    site = store.find("site")
    assert isinstance(site, Repository)
    blob = git(copy, "rev-parse", "HEAD:page.md")
    (tmp_path / "tree").write_bytes(b"100644 " + name.encode() + b"\0" + bytes.fromhex(blob))
    tree = git(copy, "hash-object", "-t", "tree", "--literally", "-w", str(tmp_path / "tree"))
    git(copy, "branch", "bad", git(copy, "commit-tree", "-p", "HEAD", "-m", "Bad", tree))
    git(copy, "bundle", "create", "--quiet", "bad.bundle", "HEAD..bad")
    data = (copy / "bad.bundle").read_bytes()
    refused = store.push(site, "a/b", data, silent)
    assert isinstance(refused, Refused)
    assert refused.rule == "repo-bundle"
    assert "git's object check refuses" in refused.reason
    clone(store, tmp_path, "two")
    # Who lets fetches take it lets pushes take it.
    lenient = {"GIT_CONFIG_COUNT": "2"}
    for number, what in enumerate(("hasDotdot", "hasDotgit")):
        lenient |= {f"GIT_CONFIG_KEY_{number}": f"fetch.fsck.{what}", f"GIT_CONFIG_VALUE_{number}": "ignore"}
    done = mirrors(tmp_path, site.url, env=lenient).push(site, "a/b", data, silent)
    assert not isinstance(done, Refused), done
    # Where another has pushed it, the branch is named.
    git(copy, "push", "--quiet", "origin", "HEAD:refs/heads/x", "HEAD:refs/heads/y", "HEAD:refs/tags/z")
    refused = store.push(site, "c/d", data, silent)
    assert isinstance(refused, Refused)
    assert "cannot be fetched: refs/heads/a/b: git's object check refuses it" in refused.reason
    assert "remove that branch" in refused.remedy


@pytest.mark.parametrize("leaves", ["files", "nothing"])
def test_trees_that_come_to_millions_of_files_are_not_laid_out(
    plain: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path), fresh=0)
    copy = clone(store, tmp_path)
    site = store.find("site")
    assert isinstance(site, Repository)
    monkeypatch.setattr(repositories, "_COUNTED_SECONDS", 3.0)
    row = f"100644 blob {git(copy, 'rev-parse', 'HEAD:page.md')}" if leaves == "files" else ""
    for _ in range(9):
        tree = git(copy, "mktree", stdin="".join(f"{row}\tn{n}\n" for n in range(10)) if row else "")
        row = f"040000 tree {tree}"
    git(copy, "branch", "bad", git(copy, "commit-tree", "-p", "HEAD", "-m", "Bad", row.split(" ")[2]))
    git(copy, "bundle", "create", "--quiet", "bad.bundle", "HEAD..bad")
    refused = store.push(site, "a/b", (copy / "bad.bundle").read_bytes(), silent)
    assert isinstance(refused, Refused)
    assert "comes to more than 500,000 files" in refused.reason
    git(copy, "push", "--quiet", str(plain.path("site")), "bad:main")
    workspace, staging = tmp_path / "two", tmp_path / "two.files"
    workspace.mkdir()
    staging.mkdir()
    refused = store.clone(site, workspace, staging, allowed)
    assert isinstance(refused, Refused)
    assert "site is not cloned: it comes to more than 500,000 files" in refused.reason
    assert not list(workspace.iterdir())


def test_what_a_bundle_calls_its_commit_is_not_pushed(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    copy = clone(store, tmp_path)
    site = store.find("site")
    assert isinstance(site, Repository)
    bundle(copy)
    git(copy, "branch", "other", "work")
    git(copy, "tag", "v1", "work")
    git(copy, "bundle", "create", "--quiet", "many.bundle", "work", "other", "v1")
    done = store.push(site, "a/b", (copy / "many.bundle").read_bytes(), silent)
    assert not isinstance(done, Refused), done
    refs = git(plain.path("site"), "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/a/b", "refs/heads/main"]


@pytest.mark.parametrize("hook", ["post-receive", "pre-receive"])
def test_of_a_push_that_was_not_confirmed_the_host_is_asked(tmp_path: Path, hook: str) -> None:
    """Its receive-pack is killed behind the change of the branch, and before it."""
    with serve("git", tmp_path / "served", tmp_path / "scratch") as remote:
        url = filled(remote, tmp_path)
        store = mirrors(tmp_path, url)
        copy = clone(store, tmp_path)
        program = remote.path("site") / "hooks" / hook
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nkill -9 $PPID\n")
        program.chmod(0o755)
        site = store.find("site")
        assert isinstance(site, Repository)
        done = store.push(site, "a/b", bundle(copy), silent)
    if hook == "post-receive":
        assert not isinstance(done, Refused), done
        assert done["branch"] == "a/b"
    else:
        assert isinstance(done, Refused)
        assert "the host was asked, and does not have it" in done.reason


def test_a_branch_only_goes_forward(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    site = store.find("site")
    assert isinstance(site, Repository)
    first, second = bundle(clone(store, tmp_path), "one"), bundle(clone(store, tmp_path, "two"), "two")
    assert isinstance(store.push(site, "a/b", first, silent), dict)
    refused = store.push(site, "a/b", second, silent)
    assert isinstance(refused, Refused)
    assert "does not build on" in refused.reason


def test_a_hook_of_the_hosts_says_why(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    site = store.find("site")
    assert isinstance(site, Repository)
    git(plain.path("site"), "config", "receive.denyNonFastforwards", "true")
    git(plain.path("site"), "config", "receive.maxInputSize", "1")
    refused = store.push(site, "a/b", bundle(clone(store, tmp_path)), silent)
    assert isinstance(refused, Refused)
    assert refused.rule == "repo-unreached"


def test_a_fetch_that_was_killed_is_done_again(plain: Remote, tmp_path: Path) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path), fresh=0.0)
    clone(store, tmp_path)
    mirror = next(iter((tmp_path / "mirrors").glob("*.git")))
    (tmp_path / "work/page.md").write_text("two\n")
    git(tmp_path / "work", "commit", "--quiet", "-am", "Second")
    git(tmp_path / "work", "push", "--quiet", str(plain.path("site")), "main")
    for name in ("refs/heads/main.lock", "packed-refs.lock", "HEAD.lock"):
        (mirror / name).touch()
    assert (clone(store, tmp_path, "two") / "page.md").read_text() == "two\n"


def test_while_one_fetches_another_repository_waits_for_nobody(plain: Remote, tmp_path: Path) -> None:
    url = filled(plain, tmp_path)
    store = mirrors(tmp_path, url)
    begun, go = threading.Event(), threading.Event()
    whole = store._fetch

    def slow(repository: Repository, path: Path, lock: int) -> Refused | None:
        if repository.name == "slow":
            begun.set()
            assert go.wait(60)
        return whole(repository, path, lock)

    store._fetch = slow  # type: ignore[method-assign]
    other = Repository("slow", str(plain.path("site")) + "/")
    (tmp_path / "slow").mkdir()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.clone, other, tmp_path / "slow", tmp_path / "slow", allowed)
        assert begun.wait(60)
        clone(store, tmp_path)
        go.set()
        assert isinstance(waiting.result(), dict)


def test_what_a_capability_names_is_what_may_be_cloned_and_pushed(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "touch up; sleep 600"))
    url = "https://git.example.org/lib.git"
    known = Repositories((("site", "https://git.example.org/site.git"),), ("https://git.example.org/*",))
    handlers = [staff.handler(name) for name in ("none", "reads", "writes", "releases", "by url")]
    wanted = [None, ("site", "clone"), ("site", "push"), ("site#release/*", "push"), (url, "clone")]
    for handler, one in zip(handlers, wanted, strict=True):
        if one:
            staff.do(GrantAccess(handler, Wanted(f"repo:{one[0]}", one[1])))
    staff.agency = staff.agency._replace(limits=staff.agency.limits._replace(agents=9))
    staff.place = staff.place._replace(agency=staff.agency)
    staff.restart()
    staff.step()
    none, reads, writes, releases, by_url = (staff.as_agent(handler) for handler in handlers)
    with staff.agency.store.reading() as facts:
        assert [isinstance(may_clone("site", one, facts), Resource) for one in (none, reads, writes, releases)] == [
            False, True, True, True,
        ]  # fmt: skip
        own = f"{handlers[2][:8]}/page"
        tried = [(writes, own), (writes, "main"), (releases, "release/1"), (releases, own), (reads, own), (none, own)]
        assert [isinstance(may_push("site", branch, one, facts), Resource) for one, branch in tried] == [
            True, False, True, False, False, False,
        ]  # fmt: skip
        for bad in ("release/../main", "release//x", "release/.x", "release/x.lock", "-x", "release/a b", "release/"):
            assert isinstance(may_push("site", bad, releases, facts), Refused)
        refused = may_push("site", "main", writes, facts)
        assert isinstance(refused, Refused)
        assert refused.ask == staff.root()
        pattern = f"{handlers[2]}/* or {handlers[2][:8]}/*"
        assert f"push a branch that fits {pattern}, or ask {staff.root()} (" in with_titles(refused.remedy, facts)
        assert [one for one, _ in push_patterns("site", releases, facts)] == ["release/*"]
        assert [one["repo"] for one in list_repositories(reads, known, facts)] == ["site"]
        assert [one["repo"] for one in list_repositories(by_url, known, facts)] == [url]
        assert list_repositories(none, known, facts) == []
    until(lambda: all((staff.folder(one.agent) / "workspace/up").exists() for one in (none, reads)))  # type: ignore[arg-type]


def test_only_what_the_machine_allows_is_found() -> None:
    known = Repositories((("site", "git@example.org:site.git"),), ("https://git.example.org/team/*",))
    assert find_repository("site", known) == Repository("site", "git@example.org:site.git")
    assert find_repository("https://git.example.org/team/x.git", known)
    for name in (
        "other", "https://git.example.org/secret/x.git", "https://git.example.org/team/../secret/x.git", "/etc",
        "https://ann:word@git.example.org/team/x", "ext::sh -c id", "https://git.example.org.evil.org/team/x",
    ):  # fmt: skip
        assert find_repository(name, known) is None, name


def test_another_users_environment_is_not_in_the_way(plain: Remote, tmp_path: Path) -> None:
    """What the server's own environment says of a repository is not meant for these."""
    url = filled(plain, tmp_path)
    os.environ["GIT_DIR"] = "/nowhere"
    try:
        copy = clone(mirrors(tmp_path, url), tmp_path)
    finally:
        del os.environ["GIT_DIR"]
    assert (copy / "page.md").exists()


def test_a_bundle_that_unpacks_to_too_much_is_not_unpacked(
    plain: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mirrors(tmp_path, filled(plain, tmp_path))
    site = store.find("site")
    assert isinstance(site, Repository)
    good = bundle(clone(store, tmp_path))
    monkeypatch.setattr(repositories, "_UNPACKED", 10)
    refused = store.push(site, "1a2b3c4d/page", good, never)
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.reason) == ("repo-bundle", "the bundle unpacks to more than 0 MB")


def never(commit: str) -> Refused | None:
    """Nobody is told of what is not done."""
    raise AssertionError(commit)
