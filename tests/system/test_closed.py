"""What another user of this machine closed to us is named with its owner, and with what opens it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.system.closed import blame, opening
from cn.web.session import state_file
from tests.support.hubs import cn_env
from tests.support.permission import obedient
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
