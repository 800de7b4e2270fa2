"""``--body-file``: a file, a pipe that the shell opened, standard input; nothing that never ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import cn, cn_env
from tests.support.world import Node, World


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / "hub"
    cn("init", "sigma", "--path", path, check=0)
    return path


@pytest.mark.parametrize("words", [("adhoc", "t"), ("mca", "add", "c"), ("inbox", "triage", "pi/x", "do:merge")])
def test_what_has_no_end_or_no_writer_is_refused(hub: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        done = cn(*words, "--body-file", path, hub=hub, check=2, seconds=20)
        assert f"{path} is no regular file" in done.stderr or "Is a directory" in done.stderr
    assert "No such file" in cn(*words, "--body-file", tmp_path / "none", hub=hub, check=2).stderr


def test_a_text_without_end_is_refused(hub: Path) -> None:
    line = f"{sys.executable} -m cn --hub {hub} adhoc endless --body-file - < /dev/zero"
    done = subprocess.run(["bash", "-c", line], env=cn_env(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "more than 8 MB" in done.stderr) == (2, True), done


def test_a_standard_input_that_is_closed_is_no_empty_text(hub: Path) -> None:
    before = sorted((hub / "threads/adhoc").glob("*.md"))
    line = f"{sys.executable} -m cn --hub {hub} adhoc closed --body-file - <&-"
    done = subprocess.run(["bash", "-c", line], env=cn_env(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.partition("\n")[0]) == (2, "cn: cannot read -: standard input is closed"), done
    assert sorted((hub / "threads/adhoc").glob("*.md")) == before


def test_a_file_standard_input_and_a_pipe_of_the_shell_are_read(hub: Path, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"from a file\r\n")
    cn("adhoc", "one", "--body-file", file, hub=hub, check=0)
    cn("adhoc", "two", "--body-file", "-", hub=hub, check=0, stdin="from stdin\n")
    line = f"{sys.executable} -m cn --hub {hub} adhoc three --body-file <(sleep 0.3; echo from a pipe)"
    subprocess.run(["bash", "-c", line], env=cn_env(), capture_output=True, timeout=60, check=True)
    texts = "".join(path.read_text() for path in (hub / "threads/adhoc").glob("*.md"))
    assert all(said in texts for said in ("from a file\n", "from stdin\n", "from a pipe\n"))


@pytest.mark.parametrize("act", ["send", "reply", "comment"])
def test_a_message_that_is_a_dash_is_what_standard_input_says(world: World, sigma: Node, pi: Node, act: str) -> None:
    pi.cn("send", "sigma", "question")
    sigma.sync()
    to = "pi" if act == "send" else "pi/question"
    assert "say something" in sigma.cn(act, to, "-", check=None).stderr
    sigma.cn(act, to, "-", stdin="Yes, 100 EUR\n\nand a second line\n")
    pi.sync()
    text = "".join(map(pi.thread, pi.threads()))
    assert "> Yes, 100 EUR" in text
    assert "> and a second line" in text
