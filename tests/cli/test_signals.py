"""Ctrl-C and SIGTERM while cn is still loading: the exit codes, a word, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import ROOT, cn_env

_AT_ONCE = "os.kill(os.getpid(), {number})\n"
_IN_A_CALLBACK = """
class Last:
    def __del__(self):
        os.kill(os.getpid(), {number})
        for _ in range(1000):  # an exception here is lost
            pass

Last()
"""


def load(folder: Path, text: str, *, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """``cn --version``, and what runs while it imports click."""
    (folder / "click").mkdir()
    (folder / "click/__init__.py").write_text("import os, time\n" + text + "time.sleep(20)\n")
    return subprocess.run(
        [sys.executable, "-m", "cn", "--version"],
        env=cn_env({"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL) and None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("act", [_AT_ONCE, _IN_A_CALLBACK], ids=["at once", "in a callback"])
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_while_cn_is_loading_ends_it_with_its_code_and_a_word(
    tmp_path: Path, act: str, number: int, code: int, word: str
) -> None:
    done = load(tmp_path, act.format(number=int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"cn: {word}\n")


def test_ctrl_c_stays_ignored_where_the_shell_has_it_so(tmp_path: Path) -> None:
    done = load(tmp_path, _AT_ONCE.format(number=int(signal.SIGINT)) + "os._exit(5)\n", ignored=True)
    assert (done.returncode, done.stderr) == (5, "")
