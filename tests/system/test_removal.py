"""Folders are removed whatever somebody made in them, and what stays is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cn.system.removal import remove_tree
from tests.support.hubs import ROOT


def dig(top: Path, depth: int, name: str) -> None:
    """A folder in a folder, and so on, deeper than any path can say."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.parametrize(("depth", "name"), [(5000, "d"), (300, "x" * 200)])
def test_no_depth_is_too_much(tmp_path: Path, depth: int, name: str) -> None:
    top = tmp_path / "top"
    top.mkdir()
    dig(top, depth, name)
    dig(top / name, depth, f"{name}2")
    assert remove_tree(top) == ""
    assert not top.exists()


def test_nothing_behind_a_link_goes_and_no_name_or_kind_of_file_stops_it(tmp_path: Path) -> None:
    kept, top = tmp_path / "kept", tmp_path / "top"
    kept.mkdir()
    (kept / "file").write_text("kept")
    (top / "folder").mkdir(parents=True)
    for where in (top, top / "folder"):
        (where / "link").symlink_to(kept)
        (where / "lost").symlink_to("nowhere")
        os.mkfifo(where / "pipe")
        (where / os.fsdecode(b"\xff\n name")).write_text("")
        (where / "-rf").mkdir()
    assert remove_tree(top) == ""
    assert not top.exists()
    (tmp_path / "link").symlink_to(kept)
    assert remove_tree(tmp_path / "link") == ""
    assert remove_tree(tmp_path / "nothing") == remove_tree(tmp_path / "nothing/below") == ""
    assert (kept / "file").read_text() == "kept"


_AS_ANOTHER = """
import os, sys
from pathlib import Path
from cn.system.removal import remove_tree
os.umask(0)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
top = Path(sys.argv[1]) / "top"
for modes in ((0o000, 0o000), (0o500, 0o000), (0o000, 0o700), (0o100, 0o200), (0o400, 0o400)):
    for path in (top / "outer/inner/deep", top / "outer/inner2"):
        path.mkdir(parents=True)
        (path / "file").touch()
    (top / "outer/inner/deep").chmod(modes[1])
    for name, mode in zip(("outer/inner", "outer"), modes):
        (top / name).chmod(mode)
    top.chmod(modes[0])
    why = remove_tree(top)
    assert (why, top.exists()) == ("", False), (modes, why)
os.makedirs(top / "others/folder")
print("made", flush=True)
input()
print(remove_tree(top), sorted(os.listdir(top)))
"""


def test_folders_that_were_closed_are_opened_and_what_is_anothers_is_named(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents[:3]):
        if above.stat().st_uid == os.geteuid():
            above.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    argv = [sys.executable, "-P", "-c", _AS_ANOTHER, str(place)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "made\n"
        mine = os.geteuid() == 0
        if mine:
            (place / "top/others/ours").mkdir()
            (place / "top/others/ours/file").touch()
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.read()
    if mine:
        assert said.startswith("Permission denied ")
        assert len(eval(said.removeprefix("Permission denied "))) == 1
