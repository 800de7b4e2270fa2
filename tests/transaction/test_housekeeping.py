"""Keeping the repository small: what is loose is packed, nothing is lost, nothing of others is touched."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from cn.git.repository import Hub, open_hub
from cn.transaction import housekeeping
from cn.transaction.housekeeping import KEPT, sweep_failed, sweep_kept, sweep_stale, tidy, unfinished
from tests.support.hubs import blob, commit, git, try_git, work


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {".cn/hub.yaml": "name: sigma\n"})
    return open_hub(root)


def loose(hub: Hub) -> int:
    return int(git(hub.root, "count-objects").split()[0])


def test_little_is_left_as_it_is(hub: Hub) -> None:
    before = loose(hub)
    tidy(hub)
    assert loose(hub) == before
    assert not (hub.git_dir / "packed-refs").exists()


def test_what_is_loose_is_packed_and_none_is_lost(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOST_REFS", "_MOST_LOOSE"):
        monkeypatch.setattr(housekeeping, name, 5)
    lost = blob(hub.root, "no ref points here")
    heads = [commit(hub.root, {"f": f"{n}\n"}) for n in range(6)]
    for number, head in enumerate(heads):
        git(hub.root, "update-ref", f"refs/cn/pins/pi/in/t{number}", head)
    before = git(hub.root, "for-each-ref")
    tidy(hub)
    assert loose(hub) == 0
    assert not (hub.git_dir / "refs/cn/pins/pi/in/t0").exists()
    assert git(hub.root, "for-each-ref") == before
    assert git(hub.root, "cat-file", "-p", lost) == "no ref points here"
    assert try_git(hub.root, "fsck", "--strict").returncode == 0


def test_many_packs_become_few(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "_MOST_PACKS", 3)
    for number in range(6):
        commit(hub.root, {"f": f"{number}\n"})
        git(hub.root, "repack", "-q", "-d")
    assert len(list((hub.git_dir / "objects/pack").glob("*.pack"))) == 6
    tidy(hub)
    assert len(list((hub.git_dir / "objects/pack").glob("*.pack"))) < 3
    assert try_git(hub.root, "fsck", "--strict").returncode == 0


def test_only_old_leftovers_are_swept(hub: Hub) -> None:
    lock, pack = hub.git_dir / "packed-refs.lock", hub.git_dir / "objects/pack/tmp_pack_x"
    for file in (lock, pack):
        file.write_bytes(b"")
    sweep_stale(hub)
    assert lock.exists()
    assert pack.exists()
    old = time.time() - 7200
    for file in (lock, pack):
        os.utime(file, (old, old))
    sweep_stale(hub)
    assert not lock.exists()
    assert not pack.exists()


def test_what_was_masked_is_kept_for_a_while(hub: Hub, tmp_path: Path) -> None:
    folder, other = hub.state / KEPT, tmp_path / "other"
    old, new = folder / "logs/output/a.md", folder / "threads/b.md"
    for file in (old, new, other / "c.md"):
        file.parent.mkdir(parents=True)
        file.write_text("x")
    (folder / "link").symlink_to(other)
    for days, gone in ((89, False), (91, True)):
        at = time.time() - days * 86400
        os.utime(old, (at, at))
        os.utime(other / "c.md", (0, 0))
        sweep_kept(hub)
        assert old.exists() != gone
    assert not (folder / "logs").exists()
    assert new.exists()
    assert (other / "c.md").exists()
    sweep_kept(hub)
    new.unlink()
    (folder / "link").unlink()
    sweep_kept(hub)
    assert not folder.exists()
    sweep_kept(hub)


def test_what_a_failed_git_left_goes_at_once_and_what_a_living_one_writes_stays(hub: Hub) -> None:
    folder = hub.git_dir / "objects"
    (folder / "ab").mkdir(exist_ok=True)
    dead = [folder / "pack/tmp_pack_abcdef", folder / "ab/tmp_obj_abcdef", hub.git_dir / "fast_import_crash_7"]
    for file in dead:
        file.write_text("commit refs/cn/build\n")
    living, others = folder / "pack/tmp_pack_uvwxyz", hub.git_dir / "fast_import_crash_8"
    others.write_text("commit refs/heads/theirs\n")
    with living.open("w"):
        assert set(unfinished(hub)) == {*dead, living}
        assert sweep_failed(hub) == (3 if sys.platform == "linux" else 0)
        assert unfinished(hub) == [living] or sys.platform != "linux"
    assert others.exists()
