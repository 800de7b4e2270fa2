"""One git that answers for a whole run: the same answers, whatever happens to it and to the repository."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.git.objects import Reader, read_info, read_objects, read_raw, reading, write_objects
from cn.git.process import Git, GitError
from cn.protocol.message import object_id
from tests.support.hubs import commit, git, tip, work
from tests.support.servers import gone

ODD = [
    "HEAD",
    "nothing",
    "HEAD:family tree",
    "HEAD:nothing",
    "x y",
    "HEAD:a b\tc",
    "HEAD:\udcff",
    "--help",
    " ",
    "0" * 40,
    "end_00",
]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = work(tmp_path / "repo", "sigma")
    commit(made, {"README.md": "hello\n", "a b\tc": "odd\n", "big": "line\n" * 400_000}, "first")
    return made


@pytest.fixture
def reader(repo: Path) -> Iterator[Git]:
    with reading(Git(repo)) as one:
        yield one


def child_of(reader: Git) -> subprocess.Popen[bytes]:
    assert isinstance(reader.reader, Reader)
    child = reader.reader._child
    assert child is not None
    return child


def test_it_says_what_a_git_of_its_own_says(repo: Path, reader: Git) -> None:
    names = [*ODD, "HEAD:", "HEAD:README.md", "HEAD^{tree}"]
    for _ in range(3):
        assert read_raw(reader, names) == read_raw(Git(repo), names)
        assert read_info(reader, names) == read_info(Git(repo), names)
    assert read_raw(reader, []) == []
    assert read_objects(reader, ["HEAD:big"] * 5) == [b"line\n" * 400_000] * 5


def test_all_questions_go_to_one_process(reader: Git) -> None:
    read_raw(reader, ["HEAD"])
    pid = child_of(reader).pid
    for n in range(20):
        read_info(reader, [f"HEAD~{n}"])
    assert child_of(reader).pid == pid


def test_who_asks_nothing_starts_nothing(repo: Path) -> None:
    with reading(Git(repo)) as one:
        assert isinstance(one.reader, Reader)
        assert one.reader._child is None


def test_what_is_written_later_is_found(repo: Path, reader: Git) -> None:
    """Loose, as a pack, and after all was packed anew and the packs that it knows are gone."""
    few = [("blob", f"loose {n}\n".encode()) for n in range(3)]
    many = [("blob", f"packed {n}\n".encode()) for n in range(300)]
    ids = [object_id(kind, data) for kind, data in (*few, *many)]
    assert read_raw(reader, ids) == [None] * len(ids)
    write_objects(Git(repo), few, "sha1")
    write_objects(Git(repo), many, "sha1")
    wanted = [data for _, data in (*few, *many)]
    assert read_objects(reader, ids) == wanted
    tree = "".join(f"100644 blob {oid}\t{n}\n" for n, oid in enumerate(ids))
    made = subprocess.run(["git", "mktree"], cwd=repo, input=tree, capture_output=True, text=True, check=True)
    git(repo, "update-ref", "refs/keep", git(repo, "commit-tree", "-m", "keep", made.stdout.strip()))
    git(repo, "repack", "-a", "-d", "-q")
    git(repo, "prune-packed", "-q")
    assert read_objects(reader, ids) == wanted
    assert read_objects(reader, ["refs/keep:0"]) == [few[0][1]]


def test_one_that_ended_while_nobody_asked_is_started_again(reader: Git) -> None:
    read_raw(reader, ["HEAD"])
    child = child_of(reader)
    child.kill()
    child.wait()
    assert read_objects(reader, ["HEAD:README.md"]) == [b"hello\n"]


def test_one_that_is_killed_has_answered_nothing(repo: Path, reader: Git) -> None:
    read_raw(reader, ["HEAD"])
    child = child_of(reader)
    child.send_signal(signal.SIGSTOP)
    killer = threading.Timer(0.3, child.kill)
    killer.start()
    with pytest.raises(GitError) as caught:
        read_info(reader, ["HEAD", "nothing"])
    killer.join()
    assert caught.value.text == "git cat-file failed: ended by SIGKILL"
    assert caught.value.done.killed
    assert read_objects(reader, ["HEAD:README.md"]) == [b"hello\n"]


def test_an_object_that_cannot_be_read_ends_it_and_says_so(repo: Path, reader: Git) -> None:
    oid = git(repo, "rev-parse", "HEAD:README.md")
    read_raw(reader, ["HEAD"])
    path = repo / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(GitError) as alone:
        read_raw(Git(repo), ["HEAD:README.md"])
    with pytest.raises(GitError) as caught:
        read_raw(reader, ["HEAD:README.md"])
    assert caught.value.text == alone.value.text
    assert caught.value.done.code == alone.value.done.code
    assert read_raw(reader, ["HEAD"]) == read_raw(Git(repo), ["HEAD"])


def test_an_answer_that_was_broken_off_is_not_the_next_one(reader: Git) -> None:
    """Ctrl-C in the middle: what git has not said yet must not be taken for something else."""
    assert isinstance(reader.reader, Reader)
    read_raw(reader, ["HEAD"])
    child = child_of(reader)
    real, calls = os.read, 0

    def interrupted(fd: int, size: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt
        return real(fd, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read_raw(reader, ["HEAD:big"])
    assert child.returncode is not None
    assert read_objects(reader, ["HEAD:README.md"]) == [b"hello\n"]


@pytest.mark.parametrize("many", [1, 5_000])
def test_one_that_hangs_is_ended(reader: Git, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it takes no more of the question than a pipe holds."""
    monkeypatch.setattr("cn.git.objects.LOCAL_SECONDS", 0.3)
    read_raw(reader, ["HEAD"])
    child = child_of(reader)
    child.send_signal(signal.SIGSTOP)
    with pytest.raises(GitError, match="no answer within the time limit"):
        read_raw(reader, ["0" * 40] * many)
    assert child.returncode == -signal.SIGKILL
    monkeypatch.undo()
    assert read_objects(reader, ["HEAD:README.md"]) == [b"hello\n"]


def test_it_says_much_on_both_pipes(repo: Path, reader: Git) -> None:
    """More errors than a pipe holds, while the answer is more than a pipe holds."""
    (repo / ".git/objects/ab").mkdir(exist_ok=True)
    bad = [f"ab{n:038x}" for n in range(1500)]
    for oid in bad:
        (repo / ".git/objects/ab" / oid[2:]).write_bytes(b"no object")
    names = [name for oid in bad for name in (oid, "HEAD")]
    alone = read_info(Git(repo), names)
    assert alone[::2] == [None] * len(bad)
    assert read_info(reader, names) == alone


def test_another_environment_is_not_asked_here(reader: Git, tmp_path: Path) -> None:
    assert reader.with_env(GIT_OBJECT_DIRECTORY=str(tmp_path)).reader is None
    assert reader.at(tmp_path).reader is None
    assert reader.with_settings({"core.abbrev": "8"}).reader is reader.reader


def test_it_ends_with_the_run_and_with_a_cn_that_is_killed(repo: Path, tmp_path: Path) -> None:
    with reading(Git(repo)) as one:
        read_raw(one, ["HEAD"])
        child = child_of(one)
    assert child.returncode == 0
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom cn.git.process import Git\n"
        "from cn.git.objects import read_raw, reading\n"
        "with reading(Git(Path(sys.argv[1]))) as git:\n"
        "    read_raw(git, ['HEAD'])\n    print(git.reader._child.pid, flush=True)\n    time.sleep(60)\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", program, str(repo)], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    pid = int(runner.stdout.readline())
    runner.kill()
    runner.communicate()
    assert gone([pid])
    assert tip(repo)


def test_a_git_that_answers_not_all_has_answered_nothing(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\ncat >/dev/null\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(GitError, match="did not answer all"):
        read_info(Git(repo).with_env(PATH=f"{tmp_path}:{os.environ['PATH']}"), ["HEAD"])
