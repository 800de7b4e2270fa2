"""A repository that cannot be made: what is said, and what helps."""

from pathlib import Path

import git
import pytest

from cn.git.create import create_repo
from cn.values.errors import Refused


@pytest.mark.parametrize(
    ("said", "hint"), [("No space left on device", "make room on the disk"), ("Permission denied", "check the path")]
)
def test_a_full_disk_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, hint: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise git.GitCommandError(["git", "init"], 128, f"fatal: cannot mkdir x: {said}")

    monkeypatch.setattr(git.Git, "_call_process", fail)
    with pytest.raises(Refused) as refused:
        create_repo(tmp_path / "new", "main", {})
    assert said in refused.value.text
    assert "Cmd(" not in refused.value.text
    assert refused.value.hint.startswith(hint)
