"""``make demo`` plays to its end: it checks its own claims and ends with 0."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hubs import ROOT


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room for the sockets of a server (unix(7), 108 bytes)."""
    with tempfile.TemporaryDirectory(prefix="cn-t", dir="/tmp") as folder:
        yield Path(folder)


def test_the_demo_is_as_told(short: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "demo/demo.py")],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(short), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
        check=False,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:]
    assert "all as told." in said
    assert "\x1b" not in said
    assert max(len(line) for line in said.splitlines() if str(short) not in line) <= 80
    (kept,) = short.glob("cn-demo-*")
    assert (kept / "cn-sigma/logs/inbox").is_dir()


def test_make_demo_runs_it() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").split("demo: $(STAMP)\n\t", 1)[1].split("\n", 1)[0]
    assert recipe == "$(BIN)/python demo/demo.py"
