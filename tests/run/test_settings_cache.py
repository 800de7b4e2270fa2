"""Everybody takes the configuration as the last run parsed it, for just the texts that main holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import cn, cn_env, commit

_PROBE = (
    "import sys\n"
    "from pathlib import Path\n"
    "from cn.run.view import open_view\n"
    "from cn.git.repository import open_hub\n"
    "config = open_view(open_hub(Path(sys.argv[1]))).settings.config\n"
    "print('yaml' in sys.modules, config.warn_after, *(f'{r.name}={r.email}' for r in config.reviewers))\n"
)


def look(hub: Path, probe: str = _PROBE) -> list[str]:
    """Whether YAML was needed, ``warn_after``, and the reviewers."""
    command = [sys.executable, "-c", probe, str(hub)]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


_RUN = (
    "import sys\n"
    "from pathlib import Path\n"
    "from cn.run.run import open_run\n"
    "from cn.values.report import Report\n"
    "from cn.git.repository import open_hub\n"
    "with open_run(open_hub(Path(sys.argv[1])), Report()) as run:\n"
    "    config = run.settings.config\n"
    "    people = [f'{r.name}={r.email}' for r in config.reviewers]\n"
    "    print('yaml' in sys.modules, config.warn_after, *people)\n"
)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A hub that was synced once."""
    cn("init", "sigma", "--path", tmp_path / "sigma", check=0)
    path = tmp_path / "sigma"
    configure(path, "warn_after: 9\nreviewers:\n  - {name: rho, email: r@example.org}\n")
    cn("sync", path, check=0)
    return path


def configure(hub: Path, more: str) -> None:
    """Commit a configuration."""
    commit(hub, {".cn/hub.yaml": f"name: sigma\n{more}"}, "Configure")


def test_looking_after_a_run_parses_no_yaml(hub: Path) -> None:
    assert look(hub) == ["False", "9", "rho=r@example.org"]


def test_a_run_after_a_run_parses_no_yaml_unless_the_texts_are_others(hub: Path) -> None:
    assert look(hub, _RUN) == ["False", "9", "rho=r@example.org"]
    configure(hub, "warn_after: 5\n")
    assert look(hub, _RUN) == ["True", "5"]
    assert look(hub, _RUN) == ["False", "5"]


def test_another_configuration_is_parsed_though_one_is_remembered(hub: Path) -> None:
    configure(hub, "warn_after: 5\n")
    assert look(hub) == ["True", "5"]


@pytest.mark.parametrize(
    "change",
    [
        {"parser": [["0"]]},
        {"config": {"name": "sigma"}},
        {"config": []},
        {"peers": [{"nom": "pi"}]},
        {"texts": []},
    ],
)
def test_a_note_that_is_none_is_not_used(hub: Path, change: dict[str, object]) -> None:
    note = hub / ".git/cn/settings"
    note.write_text(json.dumps(json.loads(note.read_text()) | change))
    assert look(hub) == ["True", "9", "rho=r@example.org"]
    note.write_bytes(b"\xff{")
    assert look(hub) == ["True", "9", "rho=r@example.org"]


def test_looking_writes_no_note(hub: Path) -> None:
    (hub / ".git/cn/settings").unlink()
    assert look(hub)[0] == "True"
    assert not (hub / ".git/cn/settings").exists()
