"""Fixtures of the loop tests: one template of hubs per session, a world per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loop.studio import Studio
from loop.world import Node, World
from model_server import model_server
from telegram_server import telegram_server


@pytest.fixture
def world(tmp_path: Path, template: Path) -> World:
    """An empty world."""
    return World(tmp_path, template)


@pytest.fixture
def sigma(world: World) -> Node:
    """The hub that receives."""
    return world.hub("sigma")


@pytest.fixture
def pi(world: World, sigma: Node) -> Node:
    """The hub that proposes, on the mailbox route."""
    node = world.hub("pi")
    world.link(sigma, node)
    return node


@pytest.fixture
def studio(sigma: Node) -> Iterator[Studio]:
    """The hub that receives, with a model and a Telegram on loopback."""
    with model_server() as model, telegram_server() as telegram:
        yield Studio(sigma, model, telegram)
