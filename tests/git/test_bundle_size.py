"""What a bundle comes to is known before git unpacks it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cn.git.bundle_size import unpacked_size
from tests.support.hubs import git

ALL = 1 << 40


def bundle_of(folder: Path, *, more: bytes = b"") -> bytes:
    """Thirty commits, so that git stores differences, and one with a file of ``more``."""
    git(folder, "init", "--quiet", "-b", "main", "repo")
    repo = folder / "repo"
    for number in range(30):
        (repo / "text").write_text("".join(f"line {at} {number * (at % 50 == number)}\n" for at in range(3000)))
        (repo / f"noise-{number}").write_bytes(os.urandom(5000 * number))
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "-m", str(number))
    if more:
        (repo / "more").write_bytes(more)
        git(repo, "add", ".")
        git(repo, "commit", "--quiet", "-m", "more")
    git(repo, "repack", "-adfq")
    git(repo, "bundle", "create", "--quiet", "all.bundle", "main")
    return (repo / "all.bundle").read_bytes()


def test_objects_and_what_differences_come_to_are_counted(tmp_path: Path) -> None:
    found = unpacked_size(bundle_of(tmp_path), ALL)
    listed = git(tmp_path / "repo", "cat-file", "--batch-all-objects", "--batch-check=%(objectsize) %(deltabase)")
    rows = [line.split() for line in listed.splitlines()]
    true = sum(int(size) for size, _ in rows)
    assert any(base.strip("0") for _, base in rows), "there are differences"
    assert true <= found <= true * 1.1


def test_a_small_bundle_of_much_is_found_out(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, more=bytes(64 << 20))
    assert len(bundle) < 4 << 20
    assert unpacked_size(bundle, 32 << 20) > 32 << 20


def test_what_is_no_whole_bundle_is_told_and_no_bundle_is_nothing(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path)
    for cut in (len(bundle) // 2, len(bundle) - 2000):
        with pytest.raises(ValueError, match="damaged"):
            unpacked_size(bundle[:cut], ALL)
    for other in (b"", b"no bundle\n\nPACK", b"# v2 git bundle\n"):
        assert unpacked_size(other, ALL) == 0
