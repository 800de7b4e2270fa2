"""``cn init``: a hub in a folder that somebody prepared keeps what was prepared."""

from __future__ import annotations

import stat
from pathlib import Path

from cn.actions.init import init
from cn.values.names import parse_name
from cn.values.report import Report


def test_an_empty_folder_keeps_its_mode(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    hub.mkdir(mode=0o700)
    init(parse_name("sigma"), hub, Report())
    assert (hub / ".cn/hub.yaml").is_file()
    assert stat.S_IMODE(hub.stat().st_mode) == 0o700
