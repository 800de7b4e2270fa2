"""Cn's own folder in the git directory: what somebody put in the place of one of its folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.world import Node

_LONG_AGO = time.time() - 200 * 86400


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder outside of the hub, with an old file in it, named as runs name their own."""
    folder = tmp_path / "theirs"
    (folder / "stage/sub").mkdir(parents=True)
    for name in ("index", "lock", "20260101-pi-x.md", "stage/sub/f"):
        (folder / name).write_text("mine\n")
        os.utime(folder / name, (_LONG_AGO, _LONG_AGO))
    return folder


def _look(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() if p.is_file() else "" for p in folder.rglob("*")}


@pytest.mark.parametrize("name", ["old", "withheld", "txn", "say", "outgoing", "push"])
def test_a_link_in_the_folder_of_cn_stops_runs_and_nothing_behind_it_is_touched(
    sigma: Node, pi: Node, theirs: Path, name: str
) -> None:
    before, place = _look(theirs), sigma.root / ".git/cn" / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(theirs)
    for words in (("sync",), ("inbox", "process"), ("doctor", "--fix")):
        done = sigma.cn(*words, check=1)
        assert f"{place} is a link" in done.stdout + done.stderr
    for words in (("status",), ("doctor",)):
        assert f"{place} is a link" in sigma.cn(*words, check=None).stdout
    assert _look(theirs) == before
    place.unlink()
    sigma.sync()
    assert "no run can work" not in sigma.cn("status").stdout


@pytest.mark.parametrize("name", ["txn", "outgoing"])
def test_a_pipe_in_the_place_of_a_scratch_folder_is_removed_unread(sigma: Node, pi: Node, name: str) -> None:
    (sigma.root / ".git/cn").mkdir(exist_ok=True)
    os.mkfifo(sigma.root / ".git/cn" / name)
    sigma.sync()
    assert not (sigma.root / ".git/cn" / name).is_fifo()
