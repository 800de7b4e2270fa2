"""The configuration as it was parsed last, so that the same YAML is not parsed again.

Loading PyYAML and parsing two small files takes 30 ms, a fifth of the time of ``cn status``. A run
leaves in ``.git/cn/settings`` what they say, beside the texts that say it. It holds for just these
texts, so for what main holds. It is machine-local and harmless to lose, and as safe as the journal
beside it: who can write there can do whatever cn can.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from cn import __version__
from cn.git.repository import Hub
from cn.protocol import hub_config
from cn.protocol import peers_file as hub_peers
from cn.protocol.hub_config import HubConfig, Limits, Reviewer
from cn.protocol.peers_file import Peer
from cn.system.files import read_regular, write_file
from cn.values.errors import CnError

_NOTE = "settings"
_LARGEST = 4 << 20


def parsed(hub: Hub, texts: tuple[str, str]) -> tuple[HubConfig, tuple[Peer, ...]]:
    """What ``hub.yaml`` and ``peers.md`` say, checked against each other. Raises :class:`ConfigError`."""
    return recall(hub, texts) or parse_files(*texts)


def parse_files(config_text: str, peers_text: str) -> tuple[HubConfig, tuple[Peer, ...]]:
    """What both files say, checked against each other."""
    config = hub_config.parse_config(config_text)
    peers = hub_peers.parse_peers(peers_text.replace("\r\n", "\n"))
    hub_peers.check_names(config, peers)
    return config, peers


def remember(hub: Hub, texts: tuple[str, str], config: HubConfig, peers: tuple[Peer, ...]) -> None:
    """Note what ``hub.yaml`` and ``peers.md`` (``texts``) say. That it cannot be written harms nobody."""
    reviewers, limits = [reviewer._asdict() for reviewer in config.reviewers], config.limits._asdict()
    fields = {**config._asdict(), "reviewers": reviewers, "limits": limits}
    parsed = {"config": fields, "peers": [peer._asdict() for peer in peers]}
    note = json.dumps({"parser": _parser(), "texts": texts, **parsed}).encode()
    if note != read_regular(hub.state / _NOTE, _LARGEST):
        with suppress(CnError):
            write_file(hub.state / _NOTE, note)


def _parser() -> str:
    """What would parse them: another version, or a changed one, may read the same text otherwise."""
    code = [os.stat(module.__file__ or "") for module in (hub_config, hub_peers)]
    return " ".join([__version__, *(f"{file.st_size}.{file.st_mtime_ns}" for file in code)])


def recall(hub: Hub, texts: tuple[str, str]) -> tuple[HubConfig, tuple[Peer, ...]] | None:
    """What these texts say, if the note tells; it must be of this parser and this user."""
    path = hub.state / _NOTE
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return None
        note = json.loads(read_regular(path, _LARGEST) or b"")
        if note["parser"] != _parser() or tuple(note["texts"]) != texts:
            return None
        return _config(note["config"]), tuple(Peer(**peer) for peer in note["peers"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _config(fields: dict[str, Any]) -> HubConfig:
    made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    made["reviewers"] = tuple(Reviewer(**reviewer) for reviewer in fields["reviewers"])
    made["limits"] = Limits(**fields["limits"])
    return HubConfig(**made)
