"""What starting costs is what is imported: commands that need no hub load the command line alone."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cn.cli.commands.agency_outcome import outcome
from tests.support.hubs import cn_env

_PROBE = (
    "import sys, atexit\n"
    "import click, dataclasses\n"
    "before = set(sys.modules)\n"
    "atexit.register(lambda: print(*sorted(set(sys.modules) - before), file=sys.stderr))\n"
    "sys.argv = ['cn', *sys.argv[1:]]\n"
    "from cn.cli.start import run\n"
    "run()\n"
)
"""A run of cn that names the modules it loaded beside click."""


def modules(*words: str, **env: str) -> set[str]:
    """What a run imported beyond what click has."""
    command = [sys.executable, "-c", _PROBE, *words]
    done = subprocess.run(command, env=cn_env(env), capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [("--version",), ("--help",)])
def test_version_and_help_load_no_more_of_cn_than_the_command_line(words: tuple[str, ...]) -> None:
    ours = {name for name in modules(*words) if name.startswith("cn.")}
    few = {"cli", "cli.main", "cli.options", "cli.render", "cli.start", "cli.streams", "values"}
    assert ours == {f"cn.{name}" for name in (*few, "inherited", "values.errors")}


def test_completing_a_command_loads_neither_git_nor_yaml() -> None:
    env = {"_CN_COMPLETE": "bash_complete", "COMP_WORDS": "cn in", "COMP_CWORD": "1"}
    loaded = modules(**env)
    assert not loaded & {"subprocess", "yaml", "ctypes", "cn.git.process", "pathlib"}


def test_version_loads_little_else() -> None:
    others = {name for name in modules("--version") if name.partition(".")[0] not in ("cn", "click")}
    assert not others & {"subprocess", "pathlib", "tempfile", "yaml", "ctypes", "hashlib", "shutil", "rich"}


def test_loading_the_command_line_looks_for_no_garbage() -> None:
    probe = (
        "import gc, sys\n"
        "sys.argv = ['cn', '--version']\n"
        "from cn.cli.start import run\n"
        "before, freeze = gc.get_stats()[0]['collections'], gc.freeze\n"
        "gc.freeze = lambda: print(gc.get_stats()[0]['collections'] - before) or freeze()\n"
        "run()\n"
    )
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[-2:] == ["0", ""]


def test_options_that_many_commands_have_are_made_once() -> None:
    shared = [next(one for one in command.params if "--json" in one.opts) for command in outcome.commands.values()]
    assert len(shared) > 5
    assert {id(one) for one in shared} == {id(shared[0])}


@pytest.mark.parametrize("most", [7, 10, 16])
def test_too_few_files_are_told_with_what_raises_them(most: int) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # noqa: E731
    command = [sys.executable, "-m", "cn", "status"]
    done = subprocess.run(
        command, env=cn_env(), preexec_fn=limit, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cn: too few files may be open here (ulimit -n)\n  → 'ulimit -n 1024' raises that\n"


def test_what_is_no_word_of_completion_is_told() -> None:
    command = [sys.executable, "-m", "cn", "status"]
    done = subprocess.run(command, env=cn_env({"_CN_COMPLETE": "x"}), capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "_CN_COMPLETE is 'x'" in done.stderr


def test_a_question_about_encodings_is_no_error_of_a_run(tmp_path: Path) -> None:
    """PYTHONWARNDEFAULTENCODING with PYTHONWARNINGS=error."""
    env = cn_env({"PYTHONWARNDEFAULTENCODING": "1", "PYTHONWARNINGS": "error"})
    command = [sys.executable, "-m", "cn", "init", "sigma", "--path", str(tmp_path / "cn-sigma")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "raised", ["MemoryError()", "OSError(12, 'no')", "ImportError('x.so: failed to map segment from shared object')"]
)
def test_too_little_memory_is_told_and_called_no_fault_of_cn(raised: str) -> None:
    program = (
        "import sys\nfrom cn.cli import main, start\ndef ends(*_):\n    raise {}\nmain._invoke = ends\nstart.run()"
    )
    words = [sys.executable, "-c", program.format(raised), "log"]
    done = subprocess.run(words, env=cn_env(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cn: there is not enough memory\n  → 'ulimit -v' shows the limit in a shell: raise it\n"
