"""What stops a run: it says what is done and what is not, and is told once (issue 3)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hubs import branches, git
from loop.permission import closed, obedient
from loop.world import Node, World


@contextmanager
def left_lock(path: Path) -> Iterator[None]:
    """A lock file of some other git's."""
    path.write_bytes(b"")
    try:
        yield
    finally:
        path.unlink()


def stopping(node: Node, what: str) -> AbstractContextManager[None]:
    """Something on this machine that keeps main from moving."""
    return closed(node.root / what) if what in (".git", ".git/objects") else left_lock(node.root / what)


STOPS = [".git/refs/heads/main.lock", ".git/HEAD.lock", ".git/index.lock", ".git", ".git/objects"]


@pytest.mark.parametrize("stop", STOPS)
def test_run_again_is_true_where_a_message_could_not_be_queued(
    world: World, sigma: Node, pi: Node, stop: str
) -> None:
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


def meanwhile(folder: Path, act: str) -> dict[str, str]:
    """An environment in which something happens once, when origin has taken the push of main."""
    real = shutil.which("git")
    folder.mkdir()
    script = f"""#!/bin/sh
case " $* " in *" push "*:refs/heads/main*)
    {real} "$@"; code=$?
    [ -e {folder}/once ] || {{ : >{folder}/once; {act}; }} >/dev/null 2>&1
    exit $code;;
esac
exec {real} "$@"
"""
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}


@pytest.mark.parametrize("late", ["refs/heads/main.lock", "HEAD.lock", "index.lock"])
def test_what_origin_has_is_not_to_be_repeated(
    world: World, sigma: Node, pi: Node, tmp_path: Path, late: str
) -> None:
    lock = sigma.root / ".git" / late
    done = sigma.cn("send", "pi", "pay invoice 7", check=1, env=meanwhile(tmp_path / "bin", f": >{lock}"))
    assert "main on origin has what was asked for" in done.stderr
    assert "→ do not repeat it; " in done.stderr
    assert "run again" not in done.stderr
    lock.unlink()
    sigma.sync()
    assert len(sigma.notices()) == 1
    assert len([b for b in branches(pi.home) if b.startswith("sigma/")]) == 1


def test_a_commit_made_here_while_origin_took_the_push_does_not_send_twice(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    act = f"git -C {sigma.root} commit --quiet --allow-empty -m mine"
    sigma.cn("send", "pi", "pay invoice 7", env=meanwhile(tmp_path / "bin", act))
    assert "mine" in git(sigma.root, "log", "--format=%s", "main").split()
    assert len(sigma.notices()) == 1
    assert sigma.main
    sigma.sync()
    sigma.idle()
