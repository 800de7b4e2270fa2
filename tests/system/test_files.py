"""Writing files: whole or not at all, and never through a symlink."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cn.system.files import (
    blocked_parent,
    free_name,
    move,
    open_lock,
    overwrite,
    place,
    read_plain,
    sweep_temporary,
    write_file,
)
from cn.values.errors import Refused
from tests.support.hubs import ROOT


def test_it_makes_parents_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "a/b/c"
    write_file(target, b"1")
    write_file(target, b"2")
    assert target.read_bytes() == b"2"
    assert os.listdir(target.parent) == ["c"]


def test_a_symlink_at_the_target_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("precious")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert not (tmp_path / "link").is_symlink()


def test_a_symlinked_parent_inside_the_hub_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub/state").symlink_to("../outside")
    with pytest.raises(Refused, match="state is not a real folder"):
        write_file(tmp_path / "hub/state/input.md", b"x", root=tmp_path / "hub")
    assert os.listdir(tmp_path / "outside") == []


def test_a_failed_write_leaves_the_old_file_and_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "f", b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        write_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_place_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        place(tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"old"
    place(tmp_path / "new", tmp_path / "free")
    assert (tmp_path / "free").read_bytes() == b"new"


@pytest.mark.parametrize("exists", [False, True])
def test_place_works_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    def unable(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    (tmp_path / "new").write_bytes(b"new")
    if exists:
        (tmp_path / "to").write_bytes(b"old")
        with pytest.raises(FileExistsError):
            place(tmp_path / "new", tmp_path / "to")
    else:
        place(tmp_path / "new", tmp_path / "to")
    assert (tmp_path / "to").read_bytes() == (b"old" if exists else b"new")
    assert sorted(os.listdir(tmp_path)) == ["new", "to"]


def test_move_crosses_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crossing(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", crossing)
    (tmp_path / "a").write_bytes(b"x")
    move(tmp_path / "a", tmp_path / "deep/b")
    assert (tmp_path / "deep/b").read_bytes() == b"x"
    assert not (tmp_path / "a").exists()


def test_read_plain_hangs_on_nothing_and_follows_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "file").write_bytes(b"x")
    link, file = read_plain(tmp_path / "link"), read_plain(tmp_path / "file")
    assert read_plain(tmp_path / "pipe") is None
    assert read_plain(tmp_path) is None
    assert read_plain(tmp_path / "nothing") is None
    assert link is not None
    assert stat.S_ISLNK(link[0])
    assert link[1] == b"pipe"
    assert file is not None
    assert file[1] == b"x"


def test_blocked_parent_names_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert blocked_parent(tmp_path, tmp_path / "file/x") == tmp_path / "file"
    assert blocked_parent(tmp_path, tmp_path / "new/x/y") is None


def test_free_name_counts(tmp_path: Path) -> None:
    assert free_name(tmp_path / "a").name == "a"
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "a.2").symlink_to("nowhere")
    assert free_name(tmp_path / "a").name == "a.3"


def test_leftovers_of_dead_writers_are_swept(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".cn-tmp-{dead.pid}-00").write_bytes(b"")
    (tmp_path / f".cn-tmp-{os.getppid()}-00").write_bytes(b"")
    (tmp_path / "kept").write_bytes(b"")
    sweep_temporary(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [f".cn-tmp-{os.getppid()}-00", "kept"]


def test_a_file_is_written_over_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a longer text")
    assert overwrite(path, b"short")
    assert path.read_bytes() == b"short"
    assert not overwrite(tmp_path / "none", b"x")

    code = (
        "import resource, signal, sys; from pathlib import Path; from cn.system.files import overwrite\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (7, 7))\n"
        "sys.exit(overwrite(Path(sys.argv[1]), b'too long for it'))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=env, check=False, timeout=60)
    assert done.returncode == 0
    assert path.read_bytes() == b"short"


def test_what_lies_in_the_place_of_a_file_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(Refused, match="Is a directory") as caught:
        write_file(tmp_path / "f", b"x")
    assert caught.value.hint == "a folder lies in its place: move it out of the way"
    (tmp_path / "g").write_bytes(b"")
    with pytest.raises(Refused) as caught:
        write_file(tmp_path / "g/x", b"x")
    assert "in the place of its folder" in caught.value.hint


def test_a_lock_makes_its_folder_and_none_above(tmp_path: Path) -> None:
    os.close(open_lock(tmp_path / "state/lock"))
    with pytest.raises(FileNotFoundError):  # the hub was moved away: no empty one comes in its place
        open_lock(tmp_path / "gone/.git/cn/lock")
    assert os.listdir(tmp_path) == ["state"]
