"""The runtime's configuration, service and command line as they are taught: each example as it stands."""

from __future__ import annotations

import json
import shlex

import pytest

from cn.agent.plan.prompt import HUB_PAGE, SOUL, USER_PAGE, is_skill
from cn.cli.commands.agent import agent_command
from cn.llm.config import Sealed, parse_agent_config
from cn.llm.request import Block, Request, Said, request_json
from cn.protocol.queue_item import Cadence, is_period, reflection_path
from cn.values.names import is_protected
from tests.support.hubs import ROOT
from tests.support.runtime import ACCEPTED

AGENT_YAML = """\
telegram:
  token: ${TELEGRAM_TOKEN}
  allowed_users:
    - 498316684  # usurobor

llm:
  provider: anthropic
  model: claude-sonnet-4-latest    # validated at startup, not compiled in
  api_key: ${ANTHROPIC_KEY}
  max_tokens: 8192

context:
  daily_threads: 3          # Load last N daily threads
  weekly_thread: true       # Load current weekly
  max_skills: 3             # Max skills to inject
  conversation_limit: 10    # Max messages in history

daemon:
  poll_interval: 1          # Seconds between polls
  poll_timeout: 30          # Long-polling timeout

logging:
  level: info
"""
SERVICE = {
    # a line, and why the unit that comes along says something else
    "After=network.target": "After=network-online.target",  # a few polls less that fail at boot
    "Type=simple": "Type=notify",  # systemd knows when it is ready, and restarts one that hangs
    "User=cn": "User=me",
    "WorkingDirectory=/home/cn/hub": "WorkingDirectory=/home/me/hub",
    "ExecStart=/usr/local/bin/cn agent --daemon": "ExecStart=/home/me/.local/bin/cn agent --daemon --hub /home/me/hub",
    "Restart=always": "Restart=on-failure",  # a daemon that was told to end, or whose token is wrong, stays ended
    "RestartSec=5": "RestartSec=5",
    "Environment=TELEGRAM_TOKEN=<token>": "EnvironmentFile=/etc/cn-agent.env",  # units are readable by every user
    "Environment=ANTHROPIC_KEY=<key>": "EnvironmentFile=/etc/cn-agent.env",
    "WantedBy=multi-user.target": "WantedBy=multi-user.target",
}
COMMANDS = [
    "cn agent --daemon",
    "cn agent --process",
    "cn agent --stdio",
    "cn agent --process --dry-run --verbose",
    "cn agent --process --config .cn/agent.yaml --hub .",
]


def test_the_configuration_is_read_as_it_stands() -> None:
    config = parse_agent_config(AGENT_YAML, {"TELEGRAM_TOKEN": "1:t", "ANTHROPIC_KEY": "k"})
    assert (config.telegram.token, config.telegram.allowed_users) == (Sealed("1:t"), (498316684,))
    assert (config.llm.provider, config.llm.model, config.llm.api_key, config.llm.max_tokens) == (
        "anthropic", "claude-sonnet-4-latest", Sealed("k"), 8192,
    )  # fmt: skip
    found = config.context
    assert (found.daily_threads, found.weekly_thread, found.max_skills, found.conversation_limit) == (3, True, 3, 10)
    assert (config.daemon.poll_interval, config.daemon.poll_timeout, config.log_level) == (1, 30, "info")
    assert not config.missing
    assert not config.warnings


def test_a_key_for_the_model_alone_is_enough() -> None:
    config = parse_agent_config(AGENT_YAML, {"ANTHROPIC_KEY": "k"})
    assert config.require_llm(ACCEPTED).api_key == "k"
    assert [one.key for one in config.missing] == ["telegram.token"]


def test_a_request_has_what_is_shown_and_no_tools() -> None:
    request = Request("claude-sonnet-4-latest", 8192, (Block("the soul"),), (Said("user", "Hello"),))
    asked = json.loads(request_json(request))
    assert set(asked) == {"model", "system", "messages", "max_tokens"}
    assert (asked["max_tokens"], asked["messages"]) == (8192, [{"role": "user", "content": "Hello"}])


@pytest.mark.parametrize("line", SERVICE)
def test_the_unit_says_the_same_or_what_is_better(line: str) -> None:
    assert SERVICE[line] in (ROOT / "cron/cn-agent.service").read_text().splitlines()


@pytest.mark.parametrize("typed", COMMANDS)
def test_the_command_line_is_taken(typed: str) -> None:
    words = shlex.split(typed)[2:]
    assert agent_command.make_context("agent", words).params is not None


PACKED = {
    SOUL: "spec/SOUL.md",
    USER_PAGE: "spec/USER.md",
    HUB_PAGE: "spec/HUB.md",
    reflection_path(Cadence.DAILY, "20260219"): "threads/reflections/daily/20260219.md",
    reflection_path(Cadence.WEEKLY, "2026-W08"): "threads/reflections/weekly/2026-W08.md",
}


def test_what_is_packed_lies_where_it_is_looked_for() -> None:
    assert all(path == shown for path, shown in PACKED.items())
    assert is_period(Cadence.DAILY, "20260219")
    assert is_period(Cadence.WEEKLY, "2026-W08")
    assert is_skill("src/agent/skills/agent/agent-ops/SKILL.md")


@pytest.mark.parametrize("path", ["spec/SOUL.md", "spec/USER.md", "state/peers.md"])
def test_these_files_are_never_written(path: str) -> None:
    assert is_protected(path)
