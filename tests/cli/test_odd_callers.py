"""What a caller leaves that no command needs: a folder that is gone, a umask that closes all, no room for a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import cn, cn_env
from tests.support.world import Node, World


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("odd") / "hub"
    cn("init", "sigma", "--path", path, check=0)
    return path


def shell(folder: Path, before: str, words: str) -> subprocess.CompletedProcess[str]:
    """cn, started by a shell in the folder that did something before."""
    line = f"{before}; exec {sys.executable} -m cn {words}"
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=cn_env(), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("words", ["status", "sync", "init foo", "agency status", "--hub ../hub status"])
def test_a_current_folder_that_was_removed_is_named(hub: Path, tmp_path: Path, words: str) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = shell(folder, f"rmdir {folder}", words)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("cn: the current folder is not there any more\n  → 'cd' to one that is there"), done
    assert shell(tmp_path, f"mkdir a; cd a; rmdir {tmp_path}/a", f"--hub {hub} status").returncode == 0


def test_a_umask_closes_no_file_to_its_own_user(hub: Path) -> None:
    for words in ("adhoc Closed", "sync"):
        assert shell(hub, "umask 777", words).returncode == 0
    closed = [path for path in hub.rglob("*") if path.is_file() and not path.lstat().st_mode & 0o400]
    assert closed == []
    assert any((hub / "threads/adhoc").glob("*-closed.md"))


@pytest.mark.parametrize(
    "words", ["sync", "adhoc T", "cron install", "agency init", "doctor", "init foo --path {}/new"]
)
def test_a_limit_of_the_size_of_files_is_named(hub: Path, words: str) -> None:
    """Where nothing at all can be written, and so no temporary file either."""
    done = shell(hub, "ulimit -f 0", words.format(hub.parent))
    said = done.stdout + done.stderr
    assert done.returncode == 1, done
    assert "'ulimit -f'" in said, done
    assert "No usable temporary" not in said
    assert "exit code" not in said


def test_a_hub_file_in_a_folder_of_a_hub_makes_no_hub_of_the_folder(sigma: Node, world: World, pi: Node) -> None:
    """Anybody may propose one: it is no protected file there."""
    world.propose(pi, sigma, files={"docs/.cn/hub.yaml": "name: evil\n"})
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    below = sigma.root / "docs"
    assert (below / ".cn/hub.yaml").is_file()
    assert cn("status", cwd=below, check=0).stdout.startswith("sigma: main at ")
    cn("sync", cwd=below, check=0)
