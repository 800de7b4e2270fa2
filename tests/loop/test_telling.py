"""What stops a run: it says what is done and what is not, and is told once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.hubs import branches, git
from tests.support.meanwhile import meanwhile
from tests.support.permission import closed, obedient
from tests.support.world import Node, World


@contextmanager
def left_lock(path: Path) -> Iterator[None]:
    """A lock file of some other git's."""
    path.write_bytes(b"")
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def other_bytes(path: Path, data: bytes) -> Iterator[None]:
    """A file that is broken."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


@contextmanager
def link_instead(folder: Path) -> Iterator[None]:
    """A symlink in the place of a folder."""
    away = folder.with_name("away")
    folder.rename(away)
    folder.symlink_to(away)
    try:
        yield
    finally:
        folder.unlink()
        away.rename(folder)


def stopping(node: Node, what: str) -> AbstractContextManager[None]:
    """Something on this machine that keeps main from moving."""
    match what:
        case ".git" | ".git/objects":
            return closed(node.root / what)
        case ".git/index":
            return other_bytes(node.root / what, b"DIRC")
        case "threads/inbox":
            return link_instead(node.root / what)
        case _:
            return left_lock(node.root / what)


STOPS = [".git/refs/heads/main.lock", ".git/HEAD.lock", ".git/index.lock", ".git", ".git/objects"]


@pytest.mark.sliced(8)
@pytest.mark.parametrize("stop", STOPS)
def test_run_again_is_true_where_a_message_could_not_be_queued(world: World, sigma: Node, pi: Node, stop: str) -> None:
    sigma.sync()
    before = sigma.main
    with stopping(sigma, stop):
        done = obedient(sigma, "send", "pi", "pay invoice 7")
        assert done.returncode == 1
        assert "→" in done.stderr
        assert "run again" in done.stderr
        assert "do not repeat" not in done.stderr
        assert sigma.main == before
    sigma.cn("send", "pi", "pay invoice 7")
    assert len(sigma.notices()) == 1


def test_what_ends_a_run_hides_nothing_that_it_had_to_tell(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    """A refusal is told once: shown beside the error, or never."""
    for topic in ("a", "b"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    sigma.triage("pi/a", "do:merge")
    sigma.write_refused_triage("pi/b", "delegate:nobody")
    gone = sigma.home.with_name("gone")
    env = meanwhile(tmp_path / "bin", after=f"mv {sigma.home} {gone}")
    done = sigma.cn("inbox", "process", check=1, env=env)
    gone.rename(sigma.home)
    assert "✓ pi/a: do:merge by sigma" in done.stdout
    assert "refused: pi/b: delegate:nobody is refused: known-peer" in done.stderr
    assert "main has what was asked for, but it could not be finished: origin is unreachable" in done.stderr
    assert "nothing was committed" not in done.stderr
    shown = sigma.cn("status").stdout
    assert "known-peer: nobody is neither" in shown
    assert "origin is unreachable" in shown
    assert "delegate:nobody" not in sigma.process().stderr


@pytest.mark.sliced(4)
@pytest.mark.parametrize("late", ["refs/heads/main.lock", "HEAD.lock", "index.lock"])
def test_what_origin_has_is_not_to_be_repeated(world: World, sigma: Node, pi: Node, tmp_path: Path, late: str) -> None:
    lock = sigma.root / ".git" / late
    done = sigma.cn("send", "pi", "pay invoice 7", check=1, env=meanwhile(tmp_path / "bin", after=f": >{lock}"))
    assert "main on origin has what was asked for" in done.stderr
    assert "→ do not repeat it; " in done.stderr
    assert "run again" not in done.stderr
    lock.unlink()
    sigma.sync()
    assert len(sigma.notices()) == 1
    assert len([b for b in branches(pi.home) if b.startswith("sigma/")]) == 1


def test_an_error_of_the_system_after_the_push_says_that_it_is_done(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    notes = sigma.root / ".git/cn/push"
    sigma.sync()
    act = f"git -C {sigma.root} commit --quiet --allow-empty -m mine; chmod 0 {notes}"
    done = obedient(sigma, "send", "pi", "pay invoice 7", env=meanwhile(tmp_path / "bin", after=act))
    notes.chmod(0o755)
    assert done.returncode == 1
    assert "main on origin has what was asked for" in done.stderr
    assert "Permission denied" in done.stderr
    assert "→ do not repeat it; " in done.stderr
    assert "run again" not in done.stderr
    sigma.sync()
    assert len(sigma.notices()) == 1
    sigma.idle()


def test_a_commit_made_here_while_origin_took_the_push_does_not_send_twice(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    act = f"git -C {sigma.root} commit --quiet --allow-empty -m mine"
    sigma.cn("send", "pi", "pay invoice 7", env=meanwhile(tmp_path / "bin", after=act))
    assert "mine" in git(sigma.root, "log", "--format=%s", "main").split()
    assert len(sigma.notices()) == 1
    assert sigma.main
    sigma.sync()
    sigma.idle()


def test_a_link_in_the_place_of_the_inbox_stops_every_run_until_it_is_gone(world: World, sigma: Node, pi: Node) -> None:
    sigma.sync()
    world.propose(pi, sigma)
    with stopping(sigma, "threads/inbox"):
        told = obedient(sigma, "sync", "-q").stderr.splitlines()
        assert told[0].endswith("threads/inbox is a link, and cn follows none"), told
        assert told[1].startswith(f"  → in {sigma.root}: move it away, ")
        again = obedient(sigma, "sync", "-q")
        assert (again.returncode, again.stderr) == (1, "")
        assert "threads/inbox is a link" in sigma.cn("status").stdout
    sigma.sync()
    assert len(sigma.threads()) == 1
    assert "is a link" not in sigma.cn("status").stdout


@pytest.mark.sliced(8)
@pytest.mark.parametrize("stop", [*STOPS, ".git/index"])
def test_what_stops_every_run_is_told_once_and_stands_in_the_status(
    world: World, sigma: Node, pi: Node, stop: str
) -> None:
    sigma.sync()
    world.propose(pi, sigma)
    with stopping(sigma, stop):
        first = obedient(sigma, "sync", "-q")
        assert first.returncode == 1
        told = first.stderr.splitlines()
        assert told[0].startswith("cn: ")
        assert told[1].startswith("  → ")
        again = obedient(sigma, "sync", "-q")
        assert (again.returncode, again.stderr) == (1, "")
        stopped = json.loads(sigma.cn("status", "--json").stdout)["stopped"]
        assert told[0].endswith(stopped["reason"])
        assert told[1].endswith(stopped["remedy"])
        assert stopped["reason"] in obedient(sigma, "sync").stderr
    sigma.sync()
    assert json.loads(sigma.cn("status", "--json").stdout)["stopped"] is None
    assert len(sigma.threads()) == 1
    with stopping(sigma, stop):
        world.propose(pi, sigma, "second")
        assert obedient(sigma, "sync", "-q").stderr.startswith("cn: ")


def test_a_run_with_nothing_to_write_does_not_say_that_it_is_over(sigma: Node, pi: Node) -> None:
    sigma.sync()
    lock = sigma.root / ".git/refs/heads/main.lock"
    with left_lock(lock):
        sigma.cn("send", "pi", "pay invoice 7", check=1)
        sigma.sync()
        sigma.sync()
        assert str(lock) in json.loads(sigma.cn("status", "--json").stdout)["stopped"]["reason"]
    sigma.sync()
    assert json.loads(sigma.cn("status", "--json").stdout)["stopped"] is None


def test_what_a_command_refuses_stops_no_other_run(sigma: Node, pi: Node) -> None:
    sigma.cn("send", "nobody", "hello", check=1)
    assert json.loads(sigma.cn("status", "--json").stdout)["stopped"] is None


def test_a_broken_configuration_is_told_once(sigma: Node, pi: Node) -> None:
    sigma.sync()
    sigma.configure("lock_wait: soon\n")
    told = sigma.cn("sync", "-q", check=3).stderr
    assert "lock_wait" in told
    assert sigma.cn("sync", "-q", check=3).stderr == ""
    assert sigma.cn("sync", check=3).stderr == told


def test_an_edit_that_is_not_committed_stands_until_it_is_another(sigma: Node, pi: Node) -> None:
    sigma.cn("adhoc", "an idea")
    (path,) = (sigma.root / "threads/adhoc").glob("*-an-idea.md")
    before = path.read_text()
    path.write_text(f"{before}\nkey AKIA{'Q7RZ' * 4}\n")
    done = sigma.cn("commit", check=1)
    assert "no-secrets" in done.stderr
    (one,) = json.loads(sigma.cn("status", "--json").stdout)["standing"]
    assert path.name in one["text"]
    assert "no-secrets" in one["text"]
    assert one["remedy"]
    path.write_text(before)
    assert json.loads(sigma.cn("status", "--json").stdout)["standing"] == []
    sigma.cn("commit")
    assert "no-secrets" not in (sigma.root / ".git/cn/local.json").read_text()


def plant(world: World, sigma: Node, path: str) -> None:
    """A symlink at a path of main, from another clone."""
    other = world.second(sigma).root
    shutil.rmtree(other / path, ignore_errors=True)
    (other / path).symlink_to("../docs")
    git(other, "add", "-A")
    git(other, "commit", "--quiet", "-m", "planted")
    git(other, "push", "--quiet", "origin", "main")


def test_a_symlink_in_the_place_of_a_folder_of_cn_stands_and_is_not_replaced(
    world: World, sigma: Node, pi: Node
) -> None:
    (sigma.root / "threads/adhoc").mkdir(exist_ok=True)
    (sigma.root / "threads/adhoc/.keep").write_text("")  # or git would take the folder away
    plant(world, sigma, "threads/adhoc")
    first = sigma.cn("sync", "-q", check=1)
    assert "threads/adhoc" in first.stderr
    assert "→ 'git rm --cached -- threads/adhoc', commit that" in first.stderr
    assert sigma.cn("sync", "-q").stderr == ""
    (one,) = json.loads(sigma.cn("status", "--json").stdout)["standing"]
    assert "threads/adhoc" in one["text"]
    before = sigma.main
    done = sigma.cn("adhoc", "my idea", check=1)
    assert "cn needs the folder threads/adhoc, and in main it is a symlink" in done.stderr
    assert "→ 'git rm --cached -- threads/adhoc', commit that, then run again" in done.stderr
    assert "✓" not in done.stdout
    assert sigma.main == before
    git(sigma.root, "rm", "--quiet", "--cached", "--", "threads/adhoc")
    git(sigma.root, "commit", "--quiet", "-m", "no symlink")
    sigma.sync()
    sigma.cn("adhoc", "my idea")
    assert json.loads(sigma.cn("status", "--json").stdout)["standing"] == []
    assert json.loads(sigma.cn("status", "--json").stdout)["stopped"] is None


@pytest.mark.sliced(2)
@pytest.mark.parametrize("folder", [".git/objects", ".git", ".git/refs"])
def test_the_doctor_finds_what_cannot_be_written(sigma: Node, pi: Node, folder: str) -> None:
    sigma.sync()
    assert "not writable" not in obedient(sigma, "doctor").stdout
    with closed(sigma.root / folder):
        done = obedient(sigma, "doctor")
    assert done.returncode == 1
    assert f"{folder} is not writable" in done.stdout + done.stderr


def test_a_folder_of_cn_that_cannot_be_written_is_told_once_and_stands_in_the_status(
    world: World, sigma: Node, pi: Node
) -> None:
    sigma.sync()
    world.propose(pi, sigma)
    with closed(sigma.root / ".git/cn"):
        first = obedient(sigma, "sync", "-q")
        assert first.returncode == 1
        assert f"cannot write in {sigma.root}/.git/cn\n" in first.stderr
        again = obedient(sigma, "sync", "-q")
        assert (again.returncode, again.stderr) == (1, "")
        assert json.loads(obedient(sigma, "status", "--json").stdout)["stopped"]["reason"]
    sigma.sync()
    assert len(sigma.threads()) == 1
    assert json.loads(sigma.cn("status", "--json").stdout)["stopped"] is None


def test_what_a_clone_cannot_note_down_its_status_sees(world: World, sigma: Node, pi: Node) -> None:
    sigma.sync()
    memory = sigma.root / ".git/cn/local.json"
    with closed(memory, 0o444), closed(sigma.root / ".git/cn"):
        done = obedient(sigma, "peer", "sync", "-q")
        stopped = json.loads(obedient(sigma, "status", "--json").stdout)["stopped"]
    assert stopped["reason"] == f"cannot write in {sigma.root}/.git/cn"
    assert stopped["remedy"]
    assert "✓" not in done.stdout
