"""The seal around the tests: what is on the machine does not reach them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import pytest

from tests.support.hubs import ROOT, cn, cn_env, commit, git, tip, work


def test_the_home_is_new_and_holds_a_git_config(home: Path) -> None:
    assert Path.home() == home
    assert Path.cwd() == home
    assert [p.name for p in home.iterdir()] == [".gitconfig"]
    origins = git(home, "config", "--list", "--show-origin").splitlines()
    assert {line.partition("\t")[0] for line in origins} == {f"file:{home}/.gitconfig"}


def test_no_variable_of_git_comes_from_outside() -> None:
    assert {n for n in os.environ if n.startswith(("GIT_", "CN_", "SSH_", "XDG_"))} == {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_ATTR_NOSYSTEM",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
    }


def test_the_zone_is_neither_utc_nor_a_whole_hour_away() -> None:
    assert time.timezone == -(5 * 3600 + 45 * 60)
    assert not time.daylight


def test_the_default_branch_is_not_main(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert git(tmp_path, "symbolic-ref", "--short", "HEAD") == "trunk"


def test_commits_are_the_same_in_every_run(tmp_path: Path) -> None:
    ids = []
    for name in ("a", "b"):
        repo = work(tmp_path / name, "pi")
        ids.append(commit(repo, {"f": "x"}, "m", author="Pi <pi@example.org>"))
    assert ids[0] == ids[1] == tip(tmp_path / "a")


def test_the_crontab_is_a_file_in_this_home(home: Path) -> None:
    assert subprocess.run(["crontab", "-l"], capture_output=True, check=False).returncode == 1
    subprocess.run(["crontab", "-"], input=b"*/5 * * * * true # test\n", check=True)
    assert (home / "crontab").read_text() == "*/5 * * * * true # test\n"
    listed = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=True)
    assert listed.stdout == (home / "crontab").read_text()
    subprocess.run(["crontab", "-r"], check=True)
    assert subprocess.run(["crontab", "-l"], capture_output=True, check=False).returncode == 1


def test_the_network_ends_at_loopback(home: Path) -> None:
    done = subprocess.run(
        ["git", "ls-remote", "http://peer.example/x"], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode != 0
    assert "127.0.0.1 port 9" in done.stderr


def test_hypothesis_keeps_nothing_in_the_checkout() -> None:
    assert hypothesis.settings().database is None
    assert hypothesis.settings().deadline is None
    assert not (ROOT / ".hypothesis").exists()


def test_a_dirty_environment_is_cleaned(tmp_path: Path) -> None:
    """The suite passes when it is started from a hook of some repository."""
    dirty = {
        "GIT_DIR": "/nowhere",
        "GIT_AUTHOR_NAME": "Eve",
        "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "CN_ROLE": "agent",
        "LC_ALL": "de_DE.UTF-8",
        "TZ": "America/New_York",
        "HOME": "/nowhere",
        "NO_COLOR": "1",
    }
    name = f"{Path(__file__).name}::test_no_variable_of_git_comes_from_outside"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--basetemp", str(tmp_path / "inner"), str(ROOT / "tests" / name)],
        cwd=ROOT,
        env={**os.environ, **dirty},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


def test_cn_runs_the_checkout(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import cn; print(cn.__file__)"],
        cwd=tmp_path,
        env=cn_env(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(shown.stdout.strip()) == ROOT / "cn" / "__init__.py"


def test_cn_with_another_exit_code_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with"):
        cn("no-such-command", cwd=tmp_path, check=99)


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("--version",), ""), (("nonsense",), ""), (("status",), ""), (("adhoc", "note", "--body-file", "-"), "a\r\nb\n")],
)
def test_a_forked_cn_answers_as_a_started_one(tmp_path: Path, words: tuple[str, ...], stdin: str) -> None:
    answers = []
    for started in (False, True):
        cn("init", "sigma", "--path", tmp_path / "hub", check=0)
        done = cn(*words, cwd=tmp_path / "hub", stdin=stdin, started=started)
        answers.append((done.returncode, re.sub("[0-9a-f]{6,}", "ID", done.stdout), done.stderr))
        shutil.rmtree(tmp_path / "hub")
    assert answers[0] == answers[1]


def test_a_forked_cn_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    before = cn("--help", env={"COLUMNS": "60"}).stdout
    other = cn("--help", env={"COLUMNS": "120", "TZ": "UTC"}, cwd=tmp_path).stdout
    assert max(map(len, other.splitlines())) > max(map(len, before.splitlines()))
    assert cn("--help", env={"COLUMNS": "60"}).stdout == before


def test_a_cn_that_does_not_end_is_killed(tmp_path: Path) -> None:
    cn("init", "sigma", "--path", tmp_path / "hub", check=0)
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 5\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(subprocess.TimeoutExpired):
        cn("status", hub=tmp_path / "hub", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, seconds=0.5)


def test_each_folder_of_the_tests_is_a_package_or_what_tests_share() -> None:
    packages = {path.parent.name for path in (ROOT / "cn").glob("*/__init__.py")}
    others = {"attacks", "corpus", "docs", "examples", "fuzz", "golden", "reliability", "support"}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= packages | others
    assert others <= folders
