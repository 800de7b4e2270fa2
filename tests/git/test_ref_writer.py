"""What git says against a move of a ref is told, whichever of its pipes ends first."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.process import Git
from cn.git.ref_writer import RefWriter
from cn.values.names import Oid
from tests.support.hubs import commit, work

LATE = "#!/bin/sh\nread first\nexec >&-\nsleep 0.3\necho 'fatal: main.lock: File exists' >&2\nexit 128\n"


def test_a_reason_that_comes_after_the_answer_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = work(tmp_path / "repo", "sigma")
    oid = Oid(commit(repo, {"f": "text"}, "first"))
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(LATE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    refs = RefWriter(Git(repo))
    try:
        assert refs.move("refs/heads/other", oid, None) == "fatal: main.lock: File exists"
    finally:
        refs.close()
