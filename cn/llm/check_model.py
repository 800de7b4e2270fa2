"""Look the model up before the first item is claimed, and then no more for a while.

A model that is not there fails every call, and would use up the attempts of every item. A good
answer holds for a day, "nobody can tell" for an hour: a turn is not slowed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.model_info import Checked, unchecked
from cn.llm.request import Failure, Kind
from cn.run.memory import Local
from cn.system.clock import now
from cn.values.errors import ConfigError
from cn.values.names import digest
from cn.values.report import Report

Look = Callable[[AgentConfig], Checked | Failure]
"""Ask the API for the configured model."""


def look(config: AgentConfig) -> Checked | Failure:
    """Ask the Models API; raises :class:`ConfigError` where a key or the model's name is missing."""
    llm = config.require_llm()
    return client.check_model(llm.model, api_key=config.require_api_key(), base_url=llm.base_url)


@dataclass(frozen=True)
class ModelCheck:
    """The check of one hub's model, and this clone's memory of it."""

    hub: Hub
    config: AgentConfig
    look: Look = look

    @property
    def _key(self) -> str:
        return digest("model", self.config.llm.model, self.config.llm.base_url)[:16]

    def due(self) -> bool:
        """Is it time to ask?"""
        return Local(self.hub).model_is_due(self._key, now())

    def check(self, report: Report) -> None:
        """Ask, and remember; raises :class:`ConfigError` for a model or key that no call can work with."""
        found = self.look(self.config)
        if isinstance(found, Failure):
            if found.kind is not Kind.PERMISSION:
                hint = "name another one" if self.config.path == "--model" else found.hint
                raise ConfigError(f"{self.config.path}: {found.text}", hint)
            # A key may be good for messages alone.
            found = unchecked(self.config.llm.model, found.text)
        local = Local(self.hub)
        local.model_checked(self._key, now(), known=found.known)
        if found.note:
            report.info(found.note, known=not local.is_new(digest("model", self._key, found.note)))
        local.save()
