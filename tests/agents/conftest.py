"""What the tests of agents share."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agents import Staff


@pytest.fixture
def staffed(tmp_path: Path, hub_template: Path) -> Iterator[Callable[..., Staff]]:
    """Make an Agency with agents as an ``agency.toml`` has them; all of them are ended with the test."""
    made: list[Staff] = []

    def make(machine: str = "", runner: str = "person") -> Staff:
        hub = tmp_path / f"cn-sigma{len(made)}"
        shutil.copytree(hub_template, hub, symlinks=True)
        made.append(Staff(hub, tmp_path / "agents", machine, runner))
        return made[-1]

    yield make
    for staff in made:
        staff.close()
