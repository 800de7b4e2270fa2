"""What goes wrong in a run after its commit says that this is done."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.protocol.effects import Edit, Plan
from cn.run.executor import Executor
from cn.run.memory import Memory
from cn.run.run import open_run
from cn.system.clock import now
from cn.values.errors import Blocked
from cn.values.names import HubPath
from cn.values.report import Report
from tests.support.hubs import read

PATH = HubPath("threads/adhoc/20260205-rack.md")


@pytest.mark.parametrize("commits", [True, False])
def test_an_error_of_the_system_after_the_commit_says_that_it_is_done(
    tmp_path: Path, hub_template: Path, commits: bool
) -> None:
    root = shutil.copytree(hub_template, tmp_path / "hub", symlinks=True)

    def plan(executor: Executor) -> str:
        if commits:
            executor.perform(Plan("test", (Edit(PATH, b"a rack\n"),)))
        return "cn: test"

    hub = open_hub(root)

    def command() -> None:
        with open_run(hub, Report()) as run:
            run.commit(plan)
            os.listdir(root / ".cn/hub.yaml")  # no folder: an error that only the system makes

    with pytest.raises(Blocked) as told:
        command()
    assert isinstance(told.value.__context__, NotADirectoryError)
    assert "Not a directory" in told.value.text
    assert ("main has what was asked for" in told.value.text) == commits
    assert told.value.hint.startswith("do not repeat it; ") == commits
    assert Memory(hub, now()).stopped["text"] == told.value.plain[0], "it stands in the status"
    if commits:
        assert read(root, f"main:{PATH}") == b"a rack\n"
