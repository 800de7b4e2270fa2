"""The page on the runtime: its configuration is taken, its commands work, its exit codes exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.llm.config import parse_agent_config
from cn.values import errors
from tests.docs.blocks import Block, blocks_of
from tests.docs.terminal import Terminal, commands
from tests.support.hubs import ROOT
from tests.support.runtime import ACCEPTED

BLOCKS = {block.name: block for block in blocks_of(ROOT / "docs/runtime.md")}
ENV = {"ANTHROPIC_KEY": "sk-ant-test-1", "TELEGRAM_TOKEN": "123456:TEST-abcdefghijklmnopqrstuvwxyz0123456"}


def block(name: str) -> Block:
    return BLOCKS[name]


def test_the_configuration_is_taken_whole() -> None:
    config = parse_agent_config(block("agent-yaml").text, ENV)
    assert (config.warnings, config.missing) == ((), ())
    assert config.require_telegram(ACCEPTED).allowed_users == (498316684,)
    assert config.require_llm(ACCEPTED).api_key == ENV["ANTHROPIC_KEY"]
    assert config.budgets.total.turns_per_hour == 60


def test_the_set_up_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal(tmp_path)
    terminal.run("cn init -q sigma")
    terminal.run("cd cn-sigma")
    (terminal.folder / ".cn/agent.yaml").write_text(block("agent-yaml").text)
    for name in ("setup", "look"):
        for command, _ in commands(block(name).text):
            terminal.run(command)


def test_the_exit_codes_are_those_of_the_code() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {int(row[0]) for row in block("exit-codes").rows} == codes
