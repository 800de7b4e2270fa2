"""Look the model up before the first item is claimed, and then no more for a while.

A model that is not there fails every call, and would use up the attempts of every item. A good
answer holds for a day, "nobody can tell" for an hour: a turn is not slowed by it.
"""

from __future__ import annotations

from datetime import timedelta

from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.request import Failure, Kind
from cn.llm.responses import unchecked
from cn.run.memory import Memory, put_bounded
from cn.system.clock import now
from cn.values.errors import ConfigError
from cn.values.names import digest
from cn.values.report import Report
from cn.values.timestamps import StampRefused, format_second, parse_stamp

_SURE, _UNSURE = timedelta(days=1), timedelta(hours=1)
_MODELS = 20


def is_due(hub: Hub, config: AgentConfig) -> bool:
    """Is it time to ask?"""
    at = now()
    try:
        until = parse_stamp(str(Memory(hub, at).section("models")[_key(config)]))
    except (KeyError, StampRefused):
        return True
    return not at < until <= at + _SURE  # a clock that went backwards ends the pause


def look_up(hub: Hub, config: AgentConfig, report: Report) -> None:
    """Ask the Models API, and remember; raises :class:`ConfigError` for what no call can work with."""
    llm = config.require_llm()
    found = client.check_model(llm.model, api_key=llm.api_key, base_url=llm.base_url)
    if isinstance(found, Failure):
        if found.kind is not Kind.PERMISSION:
            hint = "name another one" if config.path == "--model" else found.hint
            raise ConfigError(f"{config.path}: {found.text}", hint)
        # A key may be good for messages alone.
        found = unchecked(llm.model, found.text)
    memory = Memory(hub, now())
    until = format_second(memory.at + (_SURE if found.known else _UNSURE))
    put_bounded(memory.section("models"), _key(config), until, most=_MODELS)
    if found.note:
        told_before = not memory.tell_once("model", _key(config), found.note)
        report.info(found.note, told_before=told_before)
    memory.save()


def _key(config: AgentConfig) -> str:
    return digest("model", config.llm.model, config.llm.base_url)[:16]
