"""What is no file where git expects one keeps nobody waiting."""

from __future__ import annotations

import os

import pytest

from tests.support.world import Node


@pytest.mark.parametrize("path", [".gitignore", ".gitattributes", "threads/.gitignore"])
def test_a_pipe_where_git_reads_what_to_ignore_keeps_nobody_waiting(sigma: Node, path: str) -> None:
    (sigma.root / path).unlink(missing_ok=True)
    os.mkfifo(sigma.root / path)
    (sigma.root / "threads/adhoc/20260205-x.md").write_text("# X\n")
    for words in (("save",), ("sync",), ("doctor",)):
        done = sigma.cn(*words, check=1)
        assert f"{path} is no regular file" in done.stdout + done.stderr, words
    (sigma.root / path).unlink()
    sigma.cn("save")
