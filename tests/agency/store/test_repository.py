"""The repository of the records: what is written is read with plain git, and what is in the way is named."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.agency.store.repository import MAIN, Draft, Moved, Places, Repository, create_records, open_records
from cn.values.errors import Blocked, LockHeld, Refused
from tests.support.hubs import git, git_bytes

AT = 1_770_000_000
WHO = ("sigma", "sigma@example.org")
FIRST = Draft('Begin\n\n{"seq":1}', {"README.md": b"# Records\n", "kb/1/2/3/u/FILE.md": b"one\n"})


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Repository]:
    made = create_records(Places(tmp_path / "cn"), WHO, FIRST, AT)
    yield made
    made.close()


def write(records: Repository, message: str, files: dict[str, bytes | None] | None = None) -> tuple[str, ...]:
    with records.lock.held(10):
        tip = records.tip()
        return records.append(tip, Draft(message, files or {}), tip.time + 1)[1]


def test_a_write_is_one_commit_that_plain_git_shows(records: Repository) -> None:
    write(
        records,
        'Make a file\n\n{"seq":2}\n{"seq":3,"text":"é 😀"}',
        {"kb/1/2/3/u/FILE.md": b"two\n", "kb/1/2/4/v": b""},
    )
    assert git(records.folder, "log", "--format=%an <%ae> %at %B") == (
        f'sigma <sigma@example.org> {AT + 1} Make a file\n\n{{"seq":2}}\n{{"seq":3,"text":"é 😀"}}\n\n'
        f'sigma <sigma@example.org> {AT} Begin\n\n{{"seq":1}}\n'
    ).rstrip("\n")
    assert git(records.folder, "ls-tree", "-r", "--name-only", "main").split("\n") == [
        "README.md",
        "kb/1/2/3/u/FILE.md",
        "kb/1/2/4/v",
    ]
    assert git_bytes(records.folder, "show", "main:kb/1/2/3/u/FILE.md") == b"two\n"
    assert git(records.folder, "fsck", "--strict") == ""


def test_the_writes_are_read_as_they_were_written(records: Repository) -> None:
    before = records.tip()
    for number in range(3):
        write(records, f"Change {number}\n\nline", {"kb/1/2/3/u/FILE.md": b"%d" % number})
    read = list(records.commits())
    assert [one.message.split("\n")[0] for one in read] == ["Begin", "Change 0", "Change 1", "Change 2"]
    assert [one.parent for one in read[1:]] == [one.oid for one in read[:-1]]
    assert list(records.commits(before.oid)) == read[1:]
    assert records.tip()._replace(message="") == read[-1]._replace(message="")
    assert records.read("kb/1/2/3/u/FILE.md") == b"2"
    assert records.read("kb/1/2/3/u/FILE.md", before.oid) == b"one\n"
    assert records.read("kb/none") is None


def test_a_file_that_is_taken_away_is_gone_with_its_folders(records: Repository) -> None:
    write(records, "Take it away\n\nx", {"kb/1/2/3/u/FILE.md": None})
    assert git(records.folder, "ls-tree", "-r", "--name-only", "main") == "README.md"


def test_a_repository_is_private_and_nothing_in_it_is_ever_pruned(records: Repository) -> None:
    assert records.folder.stat().st_mode & 0o077 == 0
    assert git(records.folder, "config", "extensions.preciousObjects") == "true"
    with pytest.raises(AssertionError, match="precious"):
        git(records.folder, "prune")


def test_there_is_one_repository_and_what_a_killed_creation_left_goes(tmp_path: Path) -> None:
    places = Places(tmp_path / "cn")
    assert open_records(places, WHO) is None
    (tmp_path / "cn/agency.git.new/objects").mkdir(parents=True)
    create_records(places, WHO, FIRST, AT).close()
    assert not (tmp_path / "cn/agency.git.new").exists()
    with pytest.raises(Refused, match="is there already"):
        create_records(places, WHO, FIRST, AT)
    found = open_records(places, WHO)
    assert found is not None
    assert found.tip().message == FIRST.message + "\n"
    found.close()


def test_a_ref_that_another_git_moved_is_not_overwritten(records: Repository) -> None:
    with records.lock.held(1):
        tip = records.tip()
        other = git(records.folder, "commit-tree", "-p", tip.oid, "-m", "by hand", tip.tree)
        git(records.folder, "update-ref", MAIN, other)
        with pytest.raises(Moved):
            records.append(tip, Draft("ours\n\nx", {}), AT)
    assert git(records.folder, "rev-parse", "main") == other
    assert write(records, "after it\n\nx") == ()
    assert git(records.folder, "log", "--format=%s", "main").split("\n")[:2] == ["after it", "by hand"]


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "HEAD.lock"])
def test_a_lock_that_a_killed_git_left_is_removed_and_told(records: Repository, name: str) -> None:
    left = records.folder / name
    left.touch()
    os.utime(left, (time.time() - 60, time.time() - 60))
    (told,) = write(records, "after it\n\nx")
    assert left.name in told
    assert not left.exists()
    assert git(records.folder, "log", "-1", "--format=%s", "main") == "after it"


def test_a_lock_that_a_living_git_holds_is_waited_for(records: Repository) -> None:
    oid = records.tip().oid
    words = ["git", f"--git-dir={records.folder}", "update-ref", "--stdin"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(f"start\nverify {MAIN} {oid}\nprepare\n".encode())
        other.stdin.flush()
        assert [other.stdout.readline() for _ in range(2)] == [b"start: ok\n", b"prepare: ok\n"]
        lock = records.folder / "refs/heads/main.lock"
        os.utime(lock, (time.time() - 60, time.time() - 60))
        timer = threading.Timer(0.3, lambda: other.stdin and other.stdin.close())
        timer.start()
        assert write(records, "after it\n\nx") == ()
        timer.join()
    assert git(records.folder, "log", "-1", "--format=%s", "main") == "after it"


def test_a_missing_tip_is_no_empty_repository(records: Repository) -> None:
    (records.folder / MAIN).unlink()
    with pytest.raises(Blocked, match="missing or damaged"):
        records.tip()


def test_a_tree_that_cannot_be_read_is_not_taken_for_an_empty_one(records: Repository) -> None:
    tree = git(records.folder, "rev-parse", "main:kb/1/2")
    (records.folder / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Blocked, match=tree[:12]):
        write(records, "lost\n\nx", {"kb/1/2/4/v": b"x"})
    write(records, "elsewhere\n\nx", {"kb/2/2/4/v": b"x"})


def test_git_that_dies_meanwhile_is_started_again(records: Repository) -> None:
    write(records, "one\n\nx")
    for child in (records._reader._child, records._refs._child):
        assert child is not None
        child.kill()
        child.wait()
    write(records, "two\n\nx")
    assert git(records.folder, "log", "-1", "--format=%s", "main") == "two"


def test_one_writes_at_a_time_and_who_waits_in_vain_is_told(records: Repository) -> None:
    other = Repository(records.places, WHO)
    with records.lock.held(1):
        with pytest.raises(LockHeld, match=f"pid {os.getpid()}"), other.lock.held(0.05):
            pass
        waits = threading.Thread(target=write, args=(other, "after it\n\nx"))
        waits.start()
        tip = records.tip()
        records.append(tip, Draft("first\n\nx", {}), AT)
    waits.join()
    assert git(records.folder, "log", "--format=%s", "main").split("\n")[:2] == ["after it", "first"]
    other.close()
