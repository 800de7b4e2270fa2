"""Paths that an agent names are opened beneath its workspace, whatever lies there: by openat2, and folder by folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.bridge import files
from cn.bridge.files import PathRefused, UsersFolder, Workspace


@pytest.fixture(params=["openat2", "walk"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace beside a file that is not in it, opened either way."""
    if request.param == "walk":
        monkeypatch.setattr(files, "_open_beneath", _not_there)
    root = tmp_path / "workspace"
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/note.md").write_text("found")
    (tmp_path / "secret").write_text("not yours")
    return Workspace(str(root))


def _not_there(folder: int, name: str) -> int:
    raise NotImplementedError


def test_this_kernel_has_openat2() -> None:
    fd = os.open("/", os.O_RDONLY)
    try:
        os.close(files._open_beneath(fd, "etc/passwd"))
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", ["deep/er/note.md", "./deep//er/./note.md", "ROOT/deep/er/note.md"])
def test_a_file_of_the_workspace_is_read(workspace: Workspace, path: str) -> None:
    assert workspace.read(path.replace("ROOT", workspace.root)) == b"found"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../secret", "leads out"),
        ("deep/../../secret", "leads out"),
        ("deep/../deep/er/note.md", "leads out"),
        ("/etc/passwd", "not in your workspace"),
        ("ROOT/../secret", "leads out"),
        ("ROOTs/secret", "not in your workspace"),
        ("", "empty"),
        (".", "leads out"),
        ("/", "not in your workspace"),
        ("deep", "no regular file"),
        ("deep/er/note.md/x", "symbolic link, or a file"),
        ("deep/er/note.md\0.txt", "NUL"),
        ("nothing", "No such file"),
        ("x" * 5000, "too long"),
        ("\ud800", "no name of a file"),
        ("/proc/self/fd/0", "not in your workspace"),
        ("/dev/stdin", "not in your workspace"),
    ],
)
def test_what_is_not_a_file_of_the_workspace_is_refused(workspace: Workspace, path: str, words: str) -> None:
    with pytest.raises(PathRefused) as refused:
        workspace.read(path.replace("ROOT", workspace.root))
    assert words in refused.value.reason
    assert refused.value.remedy


def _to_secret(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "secret")


def _within(root: Path) -> None:
    (root / "link").symlink_to("deep/er/note.md")


def _folder(root: Path) -> None:
    (root / "link").symlink_to(root.parent)


def _magic(root: Path) -> None:
    (root / "link").symlink_to("/proc/self/root")


@pytest.mark.parametrize(
    ("make", "path"), [(_to_secret, "link"), (_within, "link"), (_folder, "link/secret"), (_magic, "link/etc/passwd")]
)
def test_no_link_is_followed(workspace: Workspace, make: Callable[[Path], None], path: str) -> None:
    root = Path(workspace.root)
    make(root)
    assert (root / path).exists(), "what plain open(2) would have read"
    with pytest.raises(PathRefused, match="symbolic link"):
        workspace.read(path)


def test_a_file_with_another_name_elsewhere_is_refused(workspace: Workspace) -> None:
    root = Path(workspace.root)
    os.link(root.parent / "secret", root / "mine")
    with pytest.raises(PathRefused, match="hard links"):
        workspace.read("mine")


def test_a_pipe_is_refused_and_nobody_waits_for_a_writer(workspace: Workspace) -> None:
    os.mkfifo(Path(workspace.root) / "pipe")
    with pytest.raises(PathRefused, match="no regular file"):
        workspace.read("pipe")


def test_a_file_that_is_too_long_is_refused_however_it_says_it_is(workspace: Workspace) -> None:
    root = Path(workspace.root)
    with (root / "long").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PathRefused, match="longer than 8 MB"):
        workspace.read("long")
    (root / "short").write_bytes(b"x" * 100)
    assert workspace.read("short", 100) == b"x" * 100
    with pytest.raises(PathRefused):
        workspace.read("short", 99)


def test_the_root_stays_the_folder_that_it_was(workspace: Workspace, tmp_path: Path) -> None:
    root = Path(workspace.root)
    root.rename(tmp_path / "moved")
    root.symlink_to("/etc")
    assert workspace.read("deep/er/note.md") == b"found"
    with pytest.raises(PathRefused):
        workspace.read("passwd")


def test_a_link_that_is_swapped_in_at_the_moment_is_never_followed(workspace: Workspace) -> None:
    root = Path(workspace.root)
    (root / "deep/mine").mkdir()
    (root / "deep/mine/secret").write_text("mine")
    (root / "deep/theirs").symlink_to(root.parent)
    stop = threading.Event()

    def swap() -> None:
        one, other = root / "deep/mine", root / "deep/theirs"
        here = root / "deep/now"
        one.rename(here)
        while not stop.is_set():
            here.rename(one)
            other.rename(here)
            here.rename(other)
            one.rename(here)

    swapper = threading.Thread(target=swap)
    swapper.start()
    found = set()
    try:
        for _ in range(3000):
            try:
                found.add(workspace.read("deep/now/secret"))
            except PathRefused:
                found.add(b"")
    finally:
        stop.set()
        swapper.join()
    assert found <= {b"mine", b""}


def test_a_workspace_may_be_the_root_of_all(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("found")
    made = Workspace("/")
    assert made.read(os.path.realpath(tmp_path / "x")) == b"found"


def test_a_folder_of_the_user_within_hidden_ones_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config/notes"
    folder.mkdir(parents=True)
    (folder / "x").write_text("found")
    assert UsersFolder(str(folder)).read("x") == b"found"
    with pytest.raises(PathRefused, match="begins with a dot"):
        UsersFolder(str(folder)).read(".x")
    monkeypatch.setenv("HOME", str(folder / "below"))
    with pytest.raises(PathRefused, match="your other files"):
        UsersFolder(str(folder)).read("x")


@given(st.binary(max_size=300))
def test_every_byte_comes_through(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x").write_bytes(data)
        made = Workspace(folder)
        assert made.read("x") == data
        path = made.place("ab-1", "cd" * 32, data)
        assert (Path(folder) / path).read_bytes() == data


def test_a_copy_replaces_what_lies_in_its_place_and_follows_no_link(workspace: Workspace) -> None:
    root = Path(workspace.root)
    hash = "ab" * 32
    (root / "kb/1").mkdir(parents=True)
    (root / "kb/1" / hash).symlink_to(root.parent / "secret")
    assert workspace.has("1", hash) == ""
    path = workspace.place("1", hash, b"new")
    assert path == workspace.has("1", hash)
    assert (root / path).read_bytes() == b"new"
    assert not (root / path).is_symlink()
    assert (root.parent / "secret").read_text() == "not yours"
    (root / "kb/2").symlink_to(root.parent)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        workspace.place("2", hash, b"new")
