"""``cn init``: a hub in a folder that somebody prepared keeps what was prepared."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cn.actions.init import init
from cn.values.names import parse_name
from cn.values.report import Report
from tests.support.hubs import git


def test_an_empty_folder_keeps_its_mode(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    hub.mkdir(mode=0o700)
    init(parse_name("sigma"), hub, Report())
    assert (hub / ".cn/hub.yaml").is_file()
    assert stat.S_IMODE(hub.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("core.excludesFile", "~/ignored"),
        ("core.safecrlf", "true"),
        ("core.autocrlf", "true"),
        ("commit.gpgSign", "false"),
    ],
)
def test_the_users_own_git_config_changes_nothing_in_the_first_commit(
    tmp_path: Path, home: Path, setting: str, value: str
) -> None:
    (home / "ignored").write_text("state/\n*.yaml\nthreads\n")
    git(home, "config", "--global", setting, value)
    if setting == "core.safecrlf":
        git(home, "config", "--global", "core.autocrlf", "input")
    hub = tmp_path / "hub"
    init(parse_name("sigma"), hub, Report())
    listed = git(hub, "ls-tree", "-r", "--name-only", "main").split("\n")
    assert {".cn/hub.yaml", ".cn/agent.yaml", "state/peers.md", ".gitignore", ".gitattributes"} <= set(listed)
    there = {p.relative_to(hub).as_posix() for p in hub.rglob("*") if p.is_file() and ".git/" not in f"{p}/"}
    assert there == set(listed)
    assert git(hub, "status", "--porcelain") == ""
    assert git(hub, "log", "--format=%an %ae %s", "main") == "sigma sigma@cn.invalid Hub of sigma"
