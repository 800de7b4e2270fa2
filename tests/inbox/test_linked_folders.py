"""Folders of the work tree that are links: what lies there may be anybody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.inbox.working_copies import read_working
from cn.values.names import ThreadName
from tests.support.world import Node, World


@pytest.mark.parametrize("folder", ["threads", "threads/inbox", "logs", "state"])
def test_nothing_behind_a_linked_folder_is_read_or_decided(
    world: World, sigma: Node, pi: Node, tmp_path: Path, folder: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.write_triage(name, "do:merge")
    before = sigma.refs()
    (sigma.root / folder).rename(tmp_path / "theirs")
    (sigma.root / folder).symlink_to(tmp_path / "theirs")
    for words in (("inbox", "process"), ("sync",)):
        assert f"{sigma.root / folder} is a link" in sigma.cn(*words, check=1).stderr
    for words in (("status",), ("doctor",)):
        assert f"{sigma.root / folder} is a link" in sigma.cn(*words, check=None).stdout
    if folder.startswith("threads"):
        assert read_working(open_hub(sigma.root), ThreadName(name)) is None
    assert sigma.refs() == before
    (sigma.root / folder).unlink()
    (tmp_path / "theirs").rename(sigma.root / folder)
    sigma.process()
    assert sigma.threads() == []
