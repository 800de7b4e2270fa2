"""What another user of this machine or a mode closed to us is named with its owner, and with what opens it."""

from __future__ import annotations

import errno
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cn.git.repository import open_hub
from cn.system.closed import blame, closed_below, open_again, opening
from cn.web.session import state_file
from tests.support.hubs import cn_env
from tests.support.permission import closed, obedient, obey_permissions
from tests.support.world import Node

OTHER = 4_000_002
"""The id of a user that nobody is."""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@AS_ROOT
@pytest.mark.parametrize(
    ("user", "group", "words"),
    [
        (OTHER, os.getegid(), "let user {other} run 'chmod g+rw -- {path}'"),
        (OTHER, OTHER, "let user {other} run 'chgrp {group} -- {path}', then 'chmod g+rw -- {path}'"),
    ],
)
def test_what_opens_a_file_depends_on_its_group(tmp_path: Path, user: int, group: int, words: str) -> None:
    path = tmp_path / "thread.md"
    path.write_text("x\n")
    os.chown(path, user, os.getegid() if group == os.getegid() else group)
    expected = words.format(other=OTHER, group=tmp_path.stat().st_gid, path=path)
    assert opening(path) == expected


@AS_ROOT
def test_where_no_group_is_shared_root_gives_the_file_away(tmp_path: Path) -> None:
    path = tmp_path / "thread.md"
    path.write_text("x\n")
    os.chown(path, OTHER, OTHER)
    os.chown(tmp_path, -1, OTHER)
    assert opening(path) == f"let root run 'chown {os.geteuid()} -- {path}'"


@AS_ROOT
def test_what_lies_in_no_folder_of_ours_is_its_owners_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alice"
    path.mkdir(0o700)
    os.chown(path, OTHER, OTHER)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER + 1)
    monkeypatch.setattr(os, "getegid", lambda: OTHER + 1)
    monkeypatch.setattr(os, "getgroups", lambda: [])
    assert opening(path) == f"it is no place of yours: choose another, or ask user {OTHER}"


@pytest.mark.parametrize("mine", [True, False])
def test_a_home_is_opened_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: bool) -> None:
    home, me = tmp_path / "home", pwd.getpwuid(os.geteuid())
    home.mkdir(0o700)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=me.pw_name, pw_dir=str(home)))
    if mine:
        assert opening(home) == f"run 'chmod u+rwX -- {home}'"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)
        assert opening(home) == f"it is no place of yours: choose another, or ask {me.pw_name}"


@AS_ROOT
@pytest.mark.parametrize("name", ["web.lock", "agency/index.sqlite", "lock"])
def test_what_another_user_left_in_cns_folder_is_named_by_the_doctor(sigma: Node, name: str) -> None:
    path = sigma.root / ".git/cn" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o600)
    os.chown(path, OTHER, OTHER)
    said = obedient(sigma, "doctor").stdout
    assert f"cannot be read or written by you, but user {OTHER}: .git/cn/{name}" in said
    assert f"let root run 'chown -R {os.geteuid()} -- {sigma.root}/.git/cn'" in said
    assert "damaged in a way the doctor does not know" not in said


@AS_ROOT
def test_who_closed_what_stopped_a_command_is_said(sigma: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sigma.root / ".git/cn/agency/index.sqlite"
    path.parent.mkdir(parents=True)
    path.touch()
    os.chown(path, OTHER, OTHER)
    monkeypatch.setattr(os, "access", lambda place, *_: Path(place) != path)
    told = blame(PermissionError(errno.EACCES, "Permission denied", str(path)))
    assert told == (
        f"{path}: Permission denied; it belongs to user {OTHER}",
        f"let root run 'chown -R {os.geteuid()} -- {sigma.root}/.git/cn'",
    )
    assert blame(FileNotFoundError(errno.ENOENT, "No such file", str(path))) is None


@AS_ROOT
@pytest.mark.parametrize("words", [("status",), ("agency", "init", "Root"), ("sync",), ("doctor",)])
def test_the_owner_of_a_hub_does_not_work_there_as_root(sigma: Node, words: tuple[str, ...]) -> None:
    for place in (sigma.root, *sigma.root.rglob("*")):
        os.chown(place, OTHER, OTHER, follow_symlinks=False)
    done = subprocess.run(
        [sys.executable, "-m", "cn", "--hub", str(sigma.root), *words],
        env=cn_env({"SUDO_UID": str(OTHER)}), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout
    assert f"run it as user {OTHER}, without sudo" in done.stderr
    assert {place.lstat().st_uid for place in sigma.root.rglob("*")} == {OTHER}


@AS_ROOT
def test_the_server_of_another_user_of_a_shared_hub_is_in_nobodys_way(sigma: Node) -> None:
    hub = open_hub(sigma.root)
    hub.state.mkdir(exist_ok=True)
    theirs = state_file(hub, "lock")
    os.chown(hub.state, OTHER, OTHER)
    ours = state_file(hub, "lock")
    assert theirs.name == "web.lock"
    assert ours.name == f"web-{os.geteuid()}.lock"


@pytest.mark.parametrize("below", ["", "HEAD", "a/b/HEAD"])
def test_a_folder_of_ours_that_its_mode_closes_is_named_and_not_what_is_above_it(tmp_path: Path, below: str) -> None:
    folder = tmp_path / "home/hub/.git"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/HEAD").touch()
    (folder / "HEAD").touch()
    with closed(folder, 0):
        told = _blame_of_reading(folder / below)
    assert told == [
        f"{folder / below}: Permission denied; {folder if below else 'it'} is yours, and its mode 000 closes it to you",
        f"run 'chmod u+rwX -- {folder}'",
    ]


def test_what_may_not_be_made_is_blamed_on_the_folder_in_which_it_would_be(tmp_path: Path) -> None:
    with closed(tmp_path):
        told = _blame_of_reading(tmp_path / "new", "os.mkdir(place)")
    assert told is not None
    assert told[1] == f"run 'chmod u+rwX -- {tmp_path}'"


def test_where_no_mode_and_no_owner_is_in_the_way_nobody_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert blame(PermissionError(errno.EPERM, "Operation not permitted", str(tmp_path / "file"))) is None


_BLAMED = """
import json, os, sys
from pathlib import Path
from cn.system.closed import blame
place = Path(sys.argv[1])
try:
    {0}
except OSError as why:
    print(json.dumps(blame(why)))
"""


def _blame_of_reading(place: Path, do: str = "os.listdir(place) if place.is_dir() else place.read_bytes()") -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _BLAMED.format(do), str(place)],
        env=cn_env({}), capture_output=True, text=True, timeout=60, check=True, preexec_fn=obey_permissions,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_the_doctor_and_status_name_what_opens_cns_own_folder(sigma: Node) -> None:
    state = sigma.root / ".git/cn"
    state.mkdir(exist_ok=True)
    with closed(state, 0):
        for words in (("doctor",), ("status",)):
            assert f"chmod u+rwX -- {state}" in obedient(sigma, *words).stdout


def test_what_is_closed_below_a_folder_is_found_with_what_opens_all_of_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "c").mkdir(parents=True)
    asked = "from cn.system.closed import closed_below; raise OSError(json.dumps(closed_below(place)))"
    found = "print(json.dumps(blame(why)))", "print(why)"
    assert closed_below(tmp_path) is None
    with closed(tmp_path / "a", 0), closed(tmp_path / "b", 0):
        done = subprocess.run(
            [sys.executable, "-c", _BLAMED.format(asked).replace(*found), str(tmp_path)],
            env=cn_env({}), capture_output=True, text=True, timeout=60, check=True, preexec_fn=obey_permissions,
        )  # fmt: skip
    assert json.loads(done.stdout) == [
        f"{tmp_path}/a and 1 more cannot be read: Permission denied; it is yours, and its mode closes it to you",
        f"run 'chmod -R u+rwX -- {tmp_path}'",
    ]


def test_what_is_ours_and_closed_is_opened_and_all_else_is_left(tmp_path: Path) -> None:
    folder, file, fine = tmp_path / "folder", tmp_path / "file", tmp_path / "fine"
    folder.mkdir(mode=0)
    file.touch()
    file.chmod(0)
    fine.mkdir(mode=0o555)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert open_again(link, fine, tmp_path / "nothing") == []
    assert open_again(folder, file) == [folder, file]
    assert [one.stat().st_mode & 0o777 for one in (folder, file, fine)] == [0o700, 0o600, 0o555]
