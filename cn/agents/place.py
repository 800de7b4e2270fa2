"""Where agents are, and how they reach the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cn.agency.agency import Agency
from cn.agents.workspace import Folders, folders_of
from cn.bridge.run import SOCKET, URL, USER
from cn.git.repository import Hub
from cn.values.errors import ConfigError

_DAYS = 14
TRANSCRIPTS = "agency.transcripts"


class Address(NamedTuple):
    """How an agent reaches the server: a Unix socket for agents on this machine, and a URL (empty: none)."""

    socket: Path | None
    url: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """As the environment of an agent says it."""
        found = {SOCKET: str(self.socket), USER: str(os.geteuid())} if self.socket else {}
        found[URL] = self.url
        return {name: value for name, value in found.items() if value}


class Place(NamedTuple):
    """The Agency of a hub, and the folders of its agents. Transcripts are kept for ``days``."""

    agency: Agency
    folders: Folders
    days: int = _DAYS

    @property
    def private(self) -> tuple[Path, Path, Path]:
        """What no agent may see: the hub, its repository, and the folders of all agents."""
        hub = self.agency.hub
        return hub.root, hub.git_dir, self.folders.base.parent


def place_of(agency: Agency) -> Place:
    """The place of an Agency on this machine; ``git config agency.transcripts`` says how many days are kept."""
    return Place(agency, folders_of(agency.hub), transcript_days(agency.hub))


def transcript_days(hub: Hub) -> int:
    """``agency.transcripts``, or 14; raises :class:`ConfigError` for what is no number."""
    told = hub.config.last(TRANSCRIPTS)
    if told and not (told.isascii() and told.isdigit()):
        raise ConfigError(f"{TRANSCRIPTS} is {told[:40]!r}", "set it to a number of days")
    return int(told) if told else _DAYS
