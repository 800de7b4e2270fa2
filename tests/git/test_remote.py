"""Pushing many refs: in batches, each with its own lease, each with its own outcome."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cn.git import fetch, remote
from cn.git.fetch import fetch_tips
from cn.git.objects import read_info
from cn.git.process import Done, Git, Job, remedy_here
from cn.git.remote import (
    Push,
    RefResult,
    Result,
    is_unreached,
    list_remotes,
    may_pass,
    push_many,
    push_own,
    read_pushed,
)
from cn.git.told import NOTHING
from cn.values.names import Oid
from tests.support.hubs import bare, branches, commit, git, identify, work
from tests.support.servers import http_backend


@pytest.mark.parametrize("kind", ["nobody is let in", "there is nothing", "there is no ssh"])
def test_a_push_that_met_no_repository_never_began(tmp_path: Path, kind: str) -> None:
    """So nothing of it can have been taken."""
    repo = work(tmp_path / "repo", "pi")
    head = Oid(commit(repo, {"f": "1"}))
    (tmp_path / "served").mkdir()
    git(repo, "config", "core.sshCommand", "/nowhere/ssh")
    with http_backend(tmp_path / "served", "pia" if kind == "nobody is let in" else "", "secret") as served:
        url = "ssh://host.invalid/pi.git" if kind == "there is no ssh" else served.url("pi")
        told = push_many(Git(repo), {"pi": (url, [Push("pi/b", head, None)])}, 30.0)["pi"]["pi/b"]
    assert told.result is not Result.DONE
    assert is_unreached(told.reason), told.reason


def test_a_stale_ref_fails_alone_whatever_its_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BATCH", 4)
    host, repo = bare(tmp_path / "host.git"), work(tmp_path / "repo", "pi")
    old, new = (Oid(commit(repo, {"f": text}, text)) for text in ("old", "new"))
    git(repo, "push", "--quiet", str(host), f"{new}:refs/heads/pi/b3")
    pushes = [Push(f"pi/b{i}", old, None) for i in range(10)]
    told = push_many(Git(repo), {"pi": (str(host), pushes)}, 30.0)["pi"]
    assert {b: r.result for b, r in told.items() if r.result is not Result.DONE} == {"pi/b3": Result.REJECTED}
    assert branches(host) == {f"pi/b{i}": new if i == 3 else old for i in range(10)}


def test_a_new_branch_moves_none_that_is_there_not_even_forwards(tmp_path: Path) -> None:
    host, repo = bare(tmp_path / "host.git"), work(tmp_path / "repo", "pi")
    old, new = (Oid(commit(repo, {"f": text}, text)) for text in ("old", "new"))
    git(repo, "push", "--quiet", str(host), f"{old}:refs/heads/pi/a", f"{old}:refs/heads/pi/c")
    pushes = [Push("pi/a", new, None), Push("pi/b", new, None), Push("pi/c", new, old)]
    told = push_many(Git(repo), {"pi": (str(host), pushes)}, 30.0)["pi"]
    assert [told[f"pi/{b}"].result for b in "abc"] == [Result.REJECTED, Result.DONE, Result.DONE]
    assert branches(host) == {"pi/a": old, "pi/b": new, "pi/c": new}


def test_what_a_host_says_of_one_ref_is_told_of_that_one() -> None:
    err = "remote: FATAL: W refs/heads/a x pi DENIED\x1b[K        \nremote: FATAL: C refs/heads/b x pi DENIED\n"
    out = "".join(f"!\trefs/heads/{n}:refs/heads/{n}\t[remote rejected] (hook declined)\n" for n in "abc")
    told = read_pushed(Done((), 1, out.encode(), err))
    said = {name: told[f"refs/heads/{name}"].reason.partition(": ")[2] for name in "abc"}
    assert said["a"] == "FATAL: W refs/heads/a x pi DENIED"
    assert said["b"] == "FATAL: C refs/heads/b x pi DENIED"
    assert said["c"] == f"{said['a']}; {said['b']}"


def test_a_push_uses_the_settings_of_the_hub(tmp_path: Path) -> None:
    host, repo = bare(tmp_path / "host.git"), work(tmp_path / "repo", "pi")
    head = Oid(commit(repo, {"f": "x"}, "x"))
    git(repo, "config", f"url.{host}.insteadOf", "https://git.example.org/pi.git")
    url = "https://git.example.org/pi.git"
    told = push_many(Git(repo), {"pi": (url, [Push("pi/a", head, None)])}, 30.0)["pi"]
    assert told["pi/a"].result is Result.DONE
    assert branches(host) == {"pi/a": head}


def test_a_fetch_that_cannot_be_written_here_is_no_fault_of_its_creator(tmp_path: Path) -> None:
    """As on a disk without free inodes, where git makes no folder and says that a file in it is not there."""
    host, repo = work(tmp_path / "host", "pi"), Git(work(tmp_path / "repo", "sigma"))
    head = commit(host, {"f": "x"}, "x")
    folder = tmp_path / "fetch"
    env = remote.quarantine_environment(repo, folder, NOTHING)
    (folder / "pack").symlink_to(tmp_path / "nowhere")
    fetch = ("-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-write-fetch-head", "--", str(host), head)
    (done,) = repo.run_many([Job("pi", fetch, env=env)])
    why = remote.move_into_hub(repo, folder, done)
    assert "No such file or directory" in why
    assert remedy_here(why).startswith("make room on the disk")


@pytest.mark.parametrize("version", ["0", "2"])
def test_many_branches_are_fetched_by_their_tips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(fetch, "_BY_NAME", 2)
    host, there = bare(tmp_path / "host.git"), work(tmp_path / "there", "pi")
    tips = [Oid(commit(there, {"f": f"{n}"}, f"{n}")) for n in range(4)]
    git(there, "push", "--quiet", str(host), *(f"{tip}:refs/heads/pi/b{n}" for n, tip in enumerate(tips)))
    here = Git(work(tmp_path / "repo", "sigma"), settings={"protocol.version": version})
    pairs = [(f"pi/b{n}", tip) for n, tip in enumerate(tips)]
    assert fetch_tips(here, {"pi": (str(host), pairs)}, 30.0) == {}
    assert all(read_info(here, tips))
    other = Git(work(tmp_path / "other", "sigma"), settings={"protocol.version": version})
    moved = [*pairs[:3], ("pi/b3", Oid("1" * 40))]
    assert fetch_tips(other, {"pi": (str(host), moved)}, 30.0) == {}
    assert all(read_info(other, tips))


def test_deletions_need_the_tip_that_is_there(tmp_path: Path) -> None:
    host, repo = bare(tmp_path / "host.git"), work(tmp_path / "repo", "pi")
    old, new = (Oid(commit(repo, {"f": text}, text)) for text in ("old", "new"))
    git(repo, "push", "--quiet", str(host), f"{old}:refs/heads/pi/a", f"{new}:refs/heads/pi/b")
    told = push_many(Git(repo), {"pi": (str(host), [Push("pi/a", None, old), Push("pi/b", None, old)])}, 30.0)
    assert {b: r.result for b, r in told["pi"].items()} == {"pi/a": Result.DONE, "pi/b": Result.REJECTED}
    assert list(branches(host)) == ["pi/b"]


def test_where_ids_are_long_too_what_only_deletes_or_moves_is_pushed(tmp_path: Path) -> None:
    for name, bare_ in (("repo", ()), ("host", ("--bare",))):
        git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", *bare_, name)
    repo, host = tmp_path / "repo", str(tmp_path / "host")
    identify(repo, "pi")
    old, new = (Oid(commit(repo, {"f": text}, text)) for text in ("old", "new"))
    git(repo, "push", "--quiet", host, f"{old}:refs/heads/pi/a", f"{old}:refs/heads/pi/b", f"{old}:refs/cn/c")
    for push, left in ((Push("pi/a", None, old), {"pi/b": old}), (Push("pi/b", new, old), {"pi/b": new})):
        told = push_many(Git(repo), {"pi": (host, [push])}, 30.0)["pi"]
        assert told[push.branch].result is Result.DONE, told
        assert branches(Path(host)) == left
    told = push_own(Git(repo), host, {"refs/cn/c": None}, 30.0)
    assert told["refs/cn/c"].result is Result.DONE
    assert "refs/cn/c" not in git(host, "for-each-ref")


def test_a_remote_that_is_not_there_is_unknown_and_says_why(tmp_path: Path) -> None:
    repo = work(tmp_path / "repo", "pi")
    head = Oid(commit(repo, {"f": "x"}, "x"))
    gone = str(tmp_path / "gone.git")
    told = push_many(Git(repo), {"pi": (gone, [Push("pi/a", head, None)])}, 30.0)["pi"]
    assert told["pi/a"].result is Result.UNKNOWN
    assert "gone.git" in told["pi/a"].reason
    assert isinstance(list_remotes(Git(repo), {"pi": gone}, 30.0)["pi"], str)


@pytest.mark.parametrize("batch", [4, 1000])
def test_own_refs_are_set_and_deleted_whatever_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(remote, "BATCH", batch)
    host, repo, head = own_refs_host(tmp_path)
    other = Oid(git(repo, "commit-tree", "-m", "no child of it", f"{head}^{{tree}}"))
    refs: dict[str, Oid | None] = {f"refs/cn/pins/{n}": None for n in range(1, 20)}
    refs |= {"refs/cn/pins/0": other, "refs/cn/none": None, "refs/cn/new": head}
    told = push_own(Git(repo), str(host), refs, 30.0, Push("main", head, None))
    assert told.keys() == {*refs, "refs/heads/main"}
    assert {one.result for one in told.values()} == {Result.DONE}
    assert own_refs(host) == {"refs/cn/pins/0", "refs/cn/new"}
    assert git(host, "rev-parse", "main", "refs/cn/pins/0").split() == [head, other]


def test_main_moves_only_from_where_it_was_known_and_own_refs_go_all_the_same(tmp_path: Path) -> None:
    host, repo, head = own_refs_host(tmp_path)
    git(repo, "push", "--quiet", str(host), f"{head}:refs/heads/main")
    other = Oid(git(repo, "commit-tree", "-m", "no child of it", f"{head}^{{tree}}"))
    told = push_own(Git(repo), str(host), {"refs/cn/pins/1": None}, 30.0, Push("main", other, None))
    assert told["refs/heads/main"].result is Result.REJECTED
    assert told["refs/cn/pins/1"].result is Result.DONE
    assert git(host, "rev-parse", "main") == head


def test_an_own_ref_that_is_being_set_holds_up_no_other_and_not_main(tmp_path: Path) -> None:
    host, repo, head = own_refs_host(tmp_path)
    (host / "refs" / "cn" / "pins" / "7.lock").touch()
    refs: dict[str, Oid | None] = {f"refs/cn/pins/{n}": None for n in range(20)}
    told = push_own(Git(repo), str(host), refs, 30.0, Push("main", head, None))
    assert [ref for ref, one in told.items() if one.result is not Result.DONE] == ["refs/cn/pins/7"]
    assert own_refs(host) == {"refs/cn/pins/7"}
    assert git(host, "rev-parse", "main") == head


def test_one_that_is_not_there_says_nothing_of_any_ref(tmp_path: Path) -> None:
    _, repo, head = own_refs_host(tmp_path)
    told = push_own(Git(repo), str(tmp_path / "gone"), {"refs/cn/a": head, "refs/cn/b": None}, 30.0)
    assert {ref: one.result for ref, one in told.items()} == {"refs/cn/a": Result.UNKNOWN, "refs/cn/b": Result.UNKNOWN}
    assert "gone" in told["refs/cn/a"].reason


_PINS = [f"refs/cn/pins/{n}" for n in range(20)]


def push_main_and_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> tuple[Path, dict[str, RefResult]]:
    """Push main and delete the pins, four at a time, with a git that does the shell's ``case`` first."""
    monkeypatch.setattr(remote, "BATCH", 4)
    host, repo, head = own_refs_host(tmp_path)
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in {case};; esac\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return host, push_own(Git(repo), str(host), dict.fromkeys(_PINS), 30.0, Push("main", head, None))


@pytest.mark.parametrize("answer", ["exit 1", "kill -KILL $$", "exit 0"])
def test_a_push_of_main_that_died_is_not_known_by_the_deletions_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    host, told = push_main_and_delete(tmp_path, monkeypatch, f"*=refs/heads/main:*) {answer}")
    assert told["refs/heads/main"].result is Result.UNKNOWN
    assert {told[ref].result for ref in _PINS} == {Result.UNKNOWN}
    assert len(own_refs(host)) == 20, "nothing is deleted for a main that nobody has"


def test_deletions_that_died_say_nothing_against_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, told = push_main_and_delete(tmp_path, monkeypatch, "*:refs/cn/pins/9*) exit 1")
    assert told["refs/heads/main"].result is Result.DONE
    assert {ref for ref in _PINS if told[ref].result is not Result.DONE} == own_refs(host)
    assert len(own_refs(host)) == 12


def own_refs_host(folder: Path) -> tuple[Path, Path, Oid]:
    """A remote with twenty refs of cn's own, a repository, and a commit there."""
    host, repo = bare(folder / "host.git"), work(folder / "repo", "pi")
    head = Oid(commit(repo, {"f": "x"}, "x"))
    git(repo, "push", "--quiet", str(host), *(f"{head}:refs/cn/pins/{n}" for n in range(20)))
    return host, repo, head


def own_refs(host: Path) -> set[str]:
    """The names of cn's own refs at a remote."""
    return set(git(host, "for-each-ref", "--format=%(refname)", "refs/cn/").split())


def test_a_fetch_that_somebody_killed_is_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, repo = work(tmp_path / "host", "pi"), work(tmp_path / "repo", "sigma")
    heads = [Oid(commit(host, {"f": text}, text)) for text in ("one", "two")]
    for number, head in enumerate(heads):
        git(host, "branch", f"b{number}", head)
    real = shutil.which("git")
    fake, deaths = tmp_path / "bin" / "git", tmp_path / "deaths"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\ncase " $* " in *" fetch "*) if [ "$(cat {deaths})" -gt 0 ]; then\n'
        f'echo $(($(cat {deaths}) - 1)) >{deaths}; kill -9 $$; fi;; esac\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    deaths.write_text("1")
    assert fetch_tips(Git(repo), {"pi": (str(host), [("b0", heads[0])])}, 30.0) == {}
    assert read_info(Git(repo), [heads[0]]) != [None]
    deaths.write_text("2")
    told = fetch_tips(Git(repo), {"pi": (str(host), [("b1", heads[1])])}, 30.0)
    assert told == {"pi": "ended by SIGKILL"}
    assert deaths.read_text().strip() == "0"


@pytest.mark.parametrize(
    ("err", "passes"),
    [
        ("error: RPC failed; curl 52 Empty reply from server\nfatal: expected 'packfile'\n", True),
        ("error: 3 bytes of length header were received\nfatal: expected 'packfile'\n", True),
        ("error: 99 bytes of body are still expected\nfatal: the remote end hung up unexpectedly\n", True),
        ("fatal: expected 'packfile'\n", True),
        ("fatal: expected flush after capabilities\n", True),
        (
            "error: 2 bytes of length header were received\nfatal: expected response end packet after ref listing\n",
            True,
        ),
        ("fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF\n", True),
        (
            "fetch-pack: unexpected disconnect while reading sideband packet\nfatal: error in sideband demultiplexer\n",
            True,
        ),
        ("fatal: Could not read from remote repository.\n\nPlease make sure\n", True),
        ("fatal: fetch-pack: invalid index-pack output\n", False),
        (f"error: Could not read {'1' * 40}\nfatal: Failed to traverse parents of commit\n", False),
        ("fatal: remote error: upload-pack: not our ref 1111\n", False),
        (
            "error: object 1111: gitmodulesUrl: disallowed submodule url: -u 9 bytes of body are still expected\n"
            "fatal: fsck error in pack objects\n",
            False,
        ),
        (
            "error: git upload-pack: git-pack-objects died with error.\n"
            "fatal: git upload-pack: aborting due to possible repository corruption on the remote side.\n"
            "remote: fatal: unable to read 1111\nfatal: early EOF\n",
            False,
        ),
    ],
)
def test_what_a_fetch_says_of_an_answer_that_ends_early_is_no_fault_of_what_was_asked_for(
    err: str, *, passes: bool
) -> None:
    assert may_pass(Done(("fetch",), 128, b"", err).reason) is passes
