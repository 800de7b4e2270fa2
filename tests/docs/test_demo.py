"""``make demo`` plays to its end: it checks its own claims and ends with 0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.hubs import ROOT


def test_the_demo_is_as_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "demo/demo.py")],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:]
    assert "all as told." in said
    assert "\x1b" not in said
    assert max(len(line) for line in said.splitlines() if str(tmp_path) not in line) <= 80
    (kept,) = tmp_path.glob("cn-demo-*")
    assert (kept / "cn-sigma/logs/inbox").is_dir()


def test_make_demo_runs_it() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").split("demo: $(STAMP)\n\t", 1)[1].split("\n", 1)[0]
    assert recipe == "$(BIN)/python demo/demo.py"
