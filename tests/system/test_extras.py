"""cn without the packages of an extra: a hub works, and a command that needs them says which to install.

The packages are really not there: Python starts without its site-packages and finds links to all of
them but those of the extra.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cn.values.errors import EXIT_CONFIG
from tests.support.hubs import ROOT, cn_env
from tests.support.runtime import environment, open_item, work_runtime
from tests.support.world import Node

LEFT_OUT = ("anthropic", "telegram", "python_telegram_bot", "httpx", "httpx2")
TOKEN = "123456:" + "a" * 35
INSTALL = "pip install 'cn-hub[runtime]'"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All installed packages but those of the extra."""
    folder = tmp_path_factory.mktemp("site")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.partition("-")[0] not in LEFT_OUT:
            (folder / entry.name).symlink_to(entry)
    return folder


def without(
    plain: Path, node: Node, *words: str, env: dict[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run cn without the extra."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "cn", "--hub", str(node.root), *words],
        env={**cn_env(env or {}), "PYTHONPATH": f"{ROOT}:{plain}"},
        input=stdin, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def test_the_packages_of_the_extra_are_not_there(plain: Path) -> None:
    probe = "import importlib.util as u; print(*map(u.find_spec, ('anthropic', 'telegram', 'click')))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", probe], env={"PYTHONPATH": str(plain)}, capture_output=True, text=True
    )
    assert done.stdout.startswith("None None ModuleSpec(")


def test_the_loop_of_a_hub_needs_no_extra(plain: Path, sigma: Node) -> None:
    for words in (("sync",), ("inbox", "process"), ("status",), ("doctor",), ("usage",)):
        done = without(plain, sigma, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("words", "package"),
    [
        (("agent",), "anthropic"),
        (("agent", "--process"), "anthropic"),
        (("agent", "--stdio"), "anthropic"),
        (("agent", "--daemon"), "anthropic and python-telegram-bot"),
        (("replay",), "anthropic"),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_an_extra_names_it(plain: Path, sigma: Node, words: tuple[str, ...], package: str) -> None:
    work_runtime(sigma, "telegram:\n  allowed_users: [1]\n" if "--daemon" in words else "")
    open_item(sigma, "question")
    keys = {**environment(None), **({"TELEGRAM_TOKEN": TOKEN} if "--daemon" in words else {})}
    before = sigma.main
    done = without(plain, sigma, *words, env=keys, stdin="who are you?")
    assert done.returncode == EXIT_CONFIG
    first, hint = done.stderr.strip().split("\n")
    assert f"the Python package {package} is not installed" in first
    assert INSTALL in hint
    assert "pipx inject cn-hub anthropic python-telegram-bot" in hint
    assert sigma.main == before, "nothing was claimed"


def test_looking_goes_on_without_it(plain: Path, sigma: Node) -> None:
    work_runtime(sigma)
    open_item(sigma, "question")
    keys = environment(None)
    shown = json.loads(without(plain, sigma, "context", "--json", env=keys).stdout)
    assert shown["tokens_are"] == "estimated"
    assert "anthropic is not installed" in shown["why"]
    told = json.loads(without(plain, sigma, "doctor", "--full", "--json", env=keys).stdout)
    found = [f for f in told if "not installed" in f["what"]]
    assert found
    assert all(f["level"] == "info" and INSTALL in f["remedy"] for f in found)
