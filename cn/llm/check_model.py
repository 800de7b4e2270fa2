"""Look the model up before the first item is claimed, and then no more for a while.

A model that is not there fails every call, and would use up the attempts of every item. A good
answer holds for a day, "nobody can tell" for an hour: a turn is not slowed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.model_info import Checked, unchecked
from cn.llm.request import Failure, Kind
from cn.run.memory import Memory, put_bounded
from cn.system.clock import now
from cn.values.errors import ConfigError
from cn.values.names import digest
from cn.values.report import Report
from cn.values.timestamps import StampRefused, format_second, parse_stamp

_SURE, _UNSURE = timedelta(days=1), timedelta(hours=1)
_MODELS = 20

Ask = Callable[[AgentConfig], Checked | Failure]
"""Ask the API for the configured model."""


def ask_models_api(config: AgentConfig) -> Checked | Failure:
    """Ask the Models API; raises :class:`ConfigError` where a key or the model's name is missing."""
    llm = config.require_llm()
    return client.check_model(llm.model, api_key=llm.api_key, base_url=llm.base_url)


@dataclass(frozen=True)
class ModelCheck:
    """The check of one hub's model, and this clone's memory of it."""

    hub: Hub
    config: AgentConfig
    ask: Ask = ask_models_api

    @property
    def _key(self) -> str:
        return digest("model", self.config.llm.model, self.config.llm.base_url)[:16]

    def due(self) -> bool:
        """Is it time to ask?"""
        at = now()
        try:
            until = parse_stamp(str(Memory(self.hub, at).section("models")[self._key]))
        except (KeyError, StampRefused):
            return True
        return not at < until <= at + _SURE  # a clock that went backwards ends the pause

    def check(self, report: Report) -> None:
        """Ask, and remember; raises :class:`ConfigError` for a model or key that no call can work with."""
        found = self.ask(self.config)
        if isinstance(found, Failure):
            if found.kind is not Kind.PERMISSION:
                hint = "name another one" if self.config.path == "--model" else found.hint
                raise ConfigError(f"{self.config.path}: {found.text}", hint)
            # A key may be good for messages alone.
            found = unchecked(self.config.llm.model, found.text)
        memory = Memory(self.hub, now())
        until = format_second(memory.at + (_SURE if found.known else _UNSURE))
        put_bounded(memory.section("models"), self._key, until, most=_MODELS)
        if found.note:
            told_before = not memory.tell_once("model", self._key, found.note)
            report.info(found.note, told_before=told_before)
        memory.save()
