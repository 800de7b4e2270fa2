"""Readers that leave, streams that are closed, and Ctrl-C before anything is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import ROOT, cn, cn_env, git

INTERRUPTED = """
import os, signal, sys
class Early:
    def find_spec(self, name, path=None, target=None):
        if name == "cn.cli.main":
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])
sys.meta_path.insert(0, Early())
from cn.cli.start import run
run()
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub with nothing in it."""
    path = tmp_path_factory.mktemp("hub") / "hub"
    cn("init", "sigma", "--path", path, check=0)
    return path


def shell(hub: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which ``$CN`` is cn on this hub."""
    env = cn_env({"CN": f"{sys.executable} -m cn --hub {hub}"})
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("words", ["status", "log", "peer list", "inbox", "thread list", "doctor", "--help"])
def test_a_reader_that_has_left_ends_every_command_as_it_ends_git(hub: Path, words: str) -> None:
    done = shell(hub, f"{{ sleep 0.05; $CN {words}; echo $? >&2; }} | true")
    assert done.stderr == "141\n"


@pytest.mark.sliced(4)
@pytest.mark.parametrize("words", ["status", "log", "sync", "--version"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(hub: Path, words: str, closed: str) -> None:
    done = shell(hub, f"$CN {words} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["adhoc 'Buy a rack'", "adhoc 'Buy a rack' --json", "mca add Watch"])
def test_a_report_that_cannot_be_written_says_that_it_was_done(hub: Path, words: str) -> None:
    before = git(hub, "rev-list", "--count", "main")
    done = shell(hub, f"$CN {words} >/dev/full")
    assert done.returncode == 1
    assert "it was done; only the report of it could not be written: No space left on device" in done.stderr
    assert "do not repeat it" in done.stderr
    assert "run it again" not in done.stderr
    assert int(git(hub, "rev-list", "--count", "main")) == int(before) + 1


def test_the_same_of_agencys_records(hub: Path) -> None:
    for words in ("agency init", "outcome create Once"):
        done = shell(hub, f"$CN {words} >/dev/full")
        assert (done.returncode, done.stderr.split(";")[0]) == (1, "cn: it was done")
    listed = json.loads(shell(hub, "$CN outcome list --json").stdout)
    assert [row["title"] for row in listed["outcomes"]].count("Once") == 1


@pytest.mark.parametrize("words", ["status", "log --json", "peer list", "--help"])
def test_what_only_looks_says_that_nothing_can_be_shown(hub: Path, words: str) -> None:
    done = shell(hub, f"$CN {words} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("cn: what it has to say could not be written: No space left on device\n")


def test_a_full_standard_error_too_is_no_traceback(hub: Path) -> None:
    done = shell(hub, "$CN adhoc Chairs >/dev/full 2>/dev/full; echo $?")
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_pipe_that_takes_nothing_just_now_is_waited_for() -> None:
    code = "import sys; from cn.cli.streams import guard_streams; guard_streams(); sys.stdout.write('x' * 1_000_000)"
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing, cwd=ROOT, stderr=subprocess.PIPE) as writer:
        os.close(writing)
        with open(reading, "rb") as pipe:
            assert pipe.read() == b"x" * 1_000_000
        assert writer.stderr is not None
        assert writer.stderr.read() == b""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_end_while_cn_is_still_loading_is_tidy(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, name],
        env=cn_env(), capture_output=True, text=True, timeout=60, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores it
    )  # fmt: skip
    assert done.returncode == {"SIGINT": 130, "SIGTERM": 143}[name]
    assert done.stderr == {"SIGINT": "cn: interrupted\n", "SIGTERM": "cn: terminated\n"}[name]


def test_verbose_shows_all_of_the_status(hub: Path) -> None:
    memory = hub / ".git/cn/local.json"
    memory.parent.mkdir(exist_ok=True)
    before = memory.read_text() if memory.exists() else None
    at = "2026-02-05T15:00:00Z"
    standing = {f"x {n:02}": {"text": f"reason {n:02}", "remedy": "do", "since": at} for n in range(30)}
    memory.write_text(json.dumps({"standing": standing}))
    few = cn("status", hub=hub, check=0).stdout
    assert "20 more; -v shows all" in few
    assert "reason 29" not in few
    full = cn("status", "-v", hub=hub, check=0).stdout
    assert all(f"reason {n:02}" in full for n in range(30))
    assert "more" not in full
    memory.unlink() if before is None else memory.write_text(before)
