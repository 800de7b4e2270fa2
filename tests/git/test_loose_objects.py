"""Loose objects that plain git reads, and what is done about one that is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.git.loose_objects import is_whole, loose_path, write_loose
from cn.protocol.message import object_id
from tests.support.hubs import bare, git, git_bytes

CONTENTS = (b"", b"text\n", bytes(range(256)) * 40, b"x" * 200_000)


def test_git_reads_what_was_written_and_finds_nothing_wrong(tmp_path: Path) -> None:
    repo = bare(tmp_path / "r.git")
    ids = write_loose(repo / "objects", [("blob", data) for data in CONTENTS])
    assert [git_bytes(repo, "cat-file", "blob", oid) for oid in ids] == list(CONTENTS)
    assert git(repo, "fsck", "--no-dangling") == ""
    assert not [*repo.glob("objects/??/tmp_*")]


@given(st.binary(max_size=300))
@settings(max_examples=20)
def test_an_id_is_that_of_git(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("ids")
    assert object_id("blob", data) == git(folder, "hash-object", "--stdin", stdin=data)


@pytest.mark.parametrize("left", [b"", b"x\x01", b"cut"])
def test_an_object_that_a_crash_cut_off_is_written_anew(tmp_path: Path, left: bytes) -> None:
    repo = bare(tmp_path / "r.git")
    (oid,) = write_loose(repo / "objects", [("blob", b"text\n")])
    path = loose_path(repo / "objects", oid)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:7] if left == b"cut" else left)
    assert not is_whole(path)
    write_loose(repo / "objects", [("blob", b"text\n")])
    assert git(repo, "cat-file", "blob", oid) == "text"


def test_an_object_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    repo = bare(tmp_path / "r.git")
    (oid,) = write_loose(repo / "objects", [("blob", b"text\n")])
    before = loose_path(repo / "objects", oid).stat()
    assert write_loose(repo / "objects", [("blob", b"text\n")] * 2) == [oid, oid]
    assert loose_path(repo / "objects", oid).stat().st_ino == before.st_ino


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    repo = bare(tmp_path / "r.git")
    folder = loose_path(repo / "objects", object_id("blob", b"b")).parent
    folder.write_text("a file in the place of the folder")
    with pytest.raises(NotADirectoryError):
        write_loose(repo / "objects", [("blob", b"a"), ("blob", b"b")])
    assert not [*repo.glob("objects/??/*")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_many_are_each_flushed_before_they_have_a_name_and_their_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = bare(tmp_path / "r.git")
    objects = [("blob", b"%d\n" % number) for number in range(60)]
    flushed: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    ids = write_loose(repo / "objects", objects)
    for oid, (_, data) in zip(ids, objects, strict=True):
        assert is_whole(loose_path(repo / "objects", oid))
        assert object_id("blob", data) == oid
    files = [path for path in flushed if "/tmp_obj_" in path]
    assert len(files) == len(set(files)) == 60
    assert git(repo, "fsck", "--no-dangling") == ""
    folders = {str(loose_path(repo / "objects", oid).parent.resolve()) for oid in ids}
    assert folders <= set(flushed[flushed.index(files[-1]) :])


def test_where_one_of_many_cannot_be_flushed_none_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = bare(tmp_path / "r.git")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_loose(repo / "objects", [("blob", b"%d\n" % number) for number in range(60)])
    assert not [path for path in (repo / "objects").rglob("*") if path.is_file() and "info" not in path.parts]
