"""A daemon on a hub of its own, with a Telegram on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_runs import Daemon
from hubs import cn
from telegram_server import TelegramServer, telegram_server


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    """A Telegram that says what the test wants."""
    with telegram_server() as running:
        yield running


@pytest.fixture(scope="session")
def hub_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub as ``cn init`` makes it, to be copied."""
    root = tmp_path_factory.mktemp("template") / "cn-sigma"
    cn("init", "sigma", "--path", root, check=0)
    return root


@pytest.fixture
def daemon(tmp_path: Path, hub_template: Path, server: TelegramServer) -> Iterator[Daemon]:
    """The daemon, ended with the test; what it said must be in order."""
    made = Daemon(tmp_path, hub_template, server.url)
    yield made
    made.check_and_end()
