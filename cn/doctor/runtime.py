"""Checks of the runtime: its configuration, the model, the daemon, undelivered chat texts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from cn.doctor.facts import HubFacts
from cn.doctor.finding import Finding, Level, info, problem
from cn.llm.config import AgentConfig
from cn.llm.config_file import read_agent_config
from cn.llm.request import Failure
from cn.run.snapshot import Snapshot
from cn.runtime.daemon.state import read_dead
from cn.runtime.health import health_path, read_health
from cn.system.extras import ExtraMissing, require_runtime
from cn.transaction.pins import clone_id
from cn.values.errors import ConfigError
from cn.values.shell_words import command
from cn.values.text import one_line, visible
from cn.values.timestamps import StampRefused, format_age, format_stamp, parse_stamp

_SILENT = timedelta(minutes=5)
"""A daemon polls every minute at most; beyond this it is stuck, or cannot reach Telegram."""


def check_runtime(facts: HubFacts) -> Iterator[Finding]:
    """What ``agent.yaml`` warns of, and whether the runtime could work. That it parses is checked before."""
    if facts.main is None:
        return
    try:
        config = read_agent_config(Snapshot(facts.hub.git, facts.main), os.environ)
    except ConfigError:
        return  # the check of the configuration tells file, line and remedy
    for warning in config.warnings:
        yield info("runtime", warning, "whoever can read the hub can read its history too")
    if config.telegram.enabled and not config.telegram.allowed_users:
        yield info(
            "runtime", "Telegram is configured, and nobody is allowed to talk to the agent",
            "every message is dropped and logged", "list ids under telegram.allowed_users in .cn/agent.yaml",
        )  # fmt: skip
    if config.telegram.enabled:
        for missing in (one for one in config.missing if one.key.startswith("telegram.")):
            yield info("runtime", missing.text, "'cn agent' cannot reach Telegram from here", missing.remedy)
    if facts.settings is not None and facts.settings.config.interface == "queue":
        yield from _key(config)
    if facts.full:
        yield from _model(config)


def _key(config: AgentConfig) -> Iterator[Finding]:
    try:
        require_runtime()
    except ExtraMissing as why:
        yield info("runtime", why.text, "'cn agent' cannot work here", why.hint)
    lacks = [missing for missing in config.missing if missing.key.startswith("llm.")]
    for missing in lacks:
        yield info("runtime", missing.text, "'cn agent' cannot ask a model from here", missing.remedy)
    if not lacks:
        yield Finding("runtime", Level.OK, "a model and a key for its API are configured")


def _model(config: AgentConfig) -> Iterator[Finding]:
    """The one check of a service: it needs the network, so only with ``--full``."""
    from cn.llm.client import check_model

    llm = config.llm
    if not llm.model or not llm.api_key:
        yield info("runtime", "the model was not looked up: there is no model or no key to ask with")
        return
    try:
        found = check_model(llm.model, api_key=llm.api_key, base_url=llm.base_url)
    except ExtraMissing as why:
        yield info("runtime", f"the model was not looked up: {why.text}", "", why.hint)
        return
    if isinstance(found, Failure):
        yield problem("runtime", found.text, "every call to the model would fail", found.hint)
    elif found.note:
        yield info("runtime", found.note)
    else:
        yield Finding("runtime", Level.OK, f"the API knows the model {llm.model}")


def check_daemon(facts: HubFacts) -> Iterator[Finding]:
    """A daemon that ran here runs still, polls, and gave up no message."""
    health = read_health(facts.hub)
    if health is None:
        if health_path(facts.hub).exists():
            yield info("daemon", "what the daemon said of itself cannot be read", "", "start it again")
    else:
        yield from _alive(facts, health)
    for path, incoming, reason in read_dead(facts.hub):
        yield info(
            "daemon",
            f"a message of telegram:{incoming.chat_id} ({format_stamp(incoming.at)}) could not be queued: "
            f"{one_line(visible(reason), 300)}",
            f"it is kept in {path.name} under .git/cn/telegram-dead",
            "mend the reason and start the daemon again: it tries each once more",
        )


def _alive(facts: HubFacts, health: dict[str, Any]) -> Iterator[Finding]:
    from cn.runtime.daemon.daemon import is_running

    polled, error = _time(health.get("last_poll")), health.get("last_error")
    told = one_line(visible(str(error.get("text", ""))), 300) if isinstance(error, dict) else ""
    if not is_running(facts.hub):
        if health.get("state") == "stopped":
            yield info("daemon", "the daemon was stopped; nobody listens to Telegram here", told)
            return
        yield problem(
            "daemon", f"the daemon (process {health.get('pid')}) is gone and did not say so",
            told or "it was killed, or the machine was started again",
            "start it: 'cn agent --daemon', or as root 'systemctl start cn-agent'",
        )  # fmt: skip
        return
    if polled is None:
        yield info("daemon", "the daemon runs and has not reached Telegram yet", told)
    elif facts.now - polled > _SILENT:
        yield problem(
            "daemon", f"the daemon runs and reached Telegram last {format_age(facts.now - polled)} ago",
            told or "it said no reason", "look at its journal; check network, token and telegram.base_url",
        )  # fmt: skip
    else:
        yield Finding("daemon", Level.OK, f"the daemon runs and polled at {format_stamp(polled)}")


def _time(value: object) -> datetime | None:
    with suppress(StampRefused):
        return parse_stamp(value) if isinstance(value, str) else None
    return None


def check_says(facts: HubFacts) -> Iterator[Finding]:
    """What is to be said in chats can be read, and waits on the machine that can say it."""
    assert facts.main is not None
    says, broken = Snapshot(facts.hub.git, facts.main).says()
    for path, why in broken:
        yield problem(
            "says", f"{visible(path)}: {why}", "it is not sent as long as it cannot be read",
            f"{command('git log -p -- {}', path)} shows what it was: restore it and commit, or remove it",
        )  # fmt: skip
    here = clone_id(facts.hub, make=False)
    for path, say in says:
        if say.machine != here:
            move = command("git mv -- {} {}", path, say.sent_path)
            yield info(
                "says", f"{visible(path)} waits for another machine ({one_line(say.machine, 40)})",
                "only the clone that took the turn knows how much of it was sent",
                f"run 'cn agent' there; if it is gone for good, {move} and commit",
            )  # fmt: skip
