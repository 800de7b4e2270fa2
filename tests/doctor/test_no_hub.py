"""The doctor is for hubs: where there is none, it says so."""

from __future__ import annotations

from pathlib import Path

from tests.support.hubs import cn, commit, work


def test_a_repository_that_only_refused_to_become_a_hub_is_none(tmp_path: Path) -> None:
    root = work(tmp_path / "project", "Alice")
    commit(root, {"logs/x.md": "ours\n"})
    cn("init", "project", "--here", cwd=root, check=1)
    (root / ".git/cn").mkdir(exist_ok=True)
    (root / ".git/cn/lock").touch()
    done = cn("doctor", cwd=root, check=3)
    assert "no hub at" in done.stderr
    assert done.stdout == ""
