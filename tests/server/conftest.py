"""A hub with Agency and a server on it, shared by the tests of a module; each test has handlers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agency_server import Office, Server, open_office, serving
from tests.support.hubs import cn


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hub of its own."""
    folder = tmp_path_factory.mktemp("office")
    cn("init", "office", cwd=folder)
    made = open_office(folder / "cn-office")
    yield made
    made.agency.store.close()


@pytest.fixture(scope="module")
def server(office: Office) -> Iterator[Server]:
    """It answers as long as the module's tests run."""
    with serving(office.root) as started:
        yield started


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An agent's folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder
