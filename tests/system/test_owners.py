"""A file that says what is run is used only where nobody else could have written it."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from cn.agents.machine import read_machine
from cn.server.machine_tools import read_settings
from cn.system.owners import others_may_write
from cn.values.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "config/cn/agency.toml"
    found.parent.mkdir(parents=True)
    found.write_text("[agents]\n")
    for place in (found.parent, found.parent.parent):
        place.chmod(0o755)
    found.chmod(0o644)
    return found


def test_a_file_of_ours_alone_is_used(file: Path) -> None:
    assert others_may_write(file) == ""
    file.parent.chmod(0o1777)  # each one's entries there are their own
    assert others_may_write(file) == ""
    assert read_machine(file).default == "builtin"
    assert read_settings(file).servers == ()


@pytest.mark.parametrize(("up", "mode"), [(0, 0o646), (1, 0o757), (2, 0o757)])
def test_what_everybody_may_write_is_not_used(file: Path, up: int, mode: int) -> None:
    place = [file, *file.parents][up]
    place.chmod(mode)
    assert others_may_write(file) == f"everybody may write {place}"
    for read in (read_machine, read_settings):
        with pytest.raises(ConfigError, match="is not used: everybody may write") as refused:
            read(file)
        assert "chmod go-w" in refused.value.hint


def test_where_a_link_leads_and_where_it_lies_are_both_looked_at(file: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links/agency.toml"
    link.symlink_to(file)
    assert others_may_write(link) == ""
    (tmp_path / "links").chmod(0o757)
    assert others_may_write(link) == f"everybody may write {tmp_path}/links"
    (tmp_path / "links").chmod(0o755)
    file.chmod(0o646)
    assert others_may_write(link) == f"everybody may write {file}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_or_a_group_may_write_is_not_used(file: Path) -> None:
    group = next(one for one in grp.getgrall() if one.gr_gid != 0)
    os.chown(file, 0, group.gr_gid)
    file.chmod(0o664)
    assert others_may_write(file) == f"the group {group.gr_name} may write {file}"
    os.chown(file, 65534, 0)
    assert "belongs to" in others_may_write(file)
