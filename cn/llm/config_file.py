"""Read ``.cn/agent.yaml`` from main."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cn.llm.config import AgentConfig, decode_agent_config, parse_agent_config
from cn.protocol.hub_config import AGENT_PATH
from cn.run.snapshot import Snapshot
from cn.values.errors import ConfigError


def read_agent_config(snapshot: Snapshot, env: Mapping[str, str] = os.environ, path: Path | None = None) -> AgentConfig:
    """``agent.yaml`` in main, or the file that ``--config`` names; a hub without one has the defaults."""
    if path is None:
        data, name = snapshot.read(AGENT_PATH) or b"", str(AGENT_PATH)
    else:
        name = str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}", "check --config") from None
    return parse_agent_config(decode_agent_config(data, name), env, name)
