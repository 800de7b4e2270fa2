"""Where the server meets who starts agents: what it gives, what it calls, and what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from cn.agency.agency import Agency
from cn.agency.names import Uuid
from cn.agency.operations import Operation, Principal
from cn.agency.perform import Answer
from cn.agency.rows import Facts

Perform: TypeAlias = Callable[[Operation, Principal], Awaitable[Answer]]
"""Has an operation done; answers when that is on disk."""


class Reach(NamedTuple):
    """How agents reach the server: a Unix socket, and a URL for those elsewhere (empty: none)."""

    socket: Path
    url: str


class Spawner(Protocol):
    """Starts agents where something is workable, and ends those that are silent or stopped."""

    async def step(self, now: datetime) -> None:
        """Do what is due. Called after each write, and once a second."""

    async def close(self) -> None:
        """Begin nothing more; agents that live go on."""


@runtime_checkable
class HearsCalls(Protocol):
    """A spawner that wants to know when an agent last called, and whether it goes in circles."""

    def heard(self, agent: Uuid, call: str = "", now: float = 0.0) -> None:
        """An agent called: ``call`` is the same for the same tool and arguments, ``now`` in seconds since 1970."""


@runtime_checkable
class EndsFloods(Protocol):
    """A spawner that knows which processes are its agents', and ends one that takes from all others what they need."""

    def launchers(self) -> Mapping[int, Uuid]:
        """The process above all of an agent's → the agent."""

    def flooded(self, agent: Uuid, why: str) -> None:
        """It is ended now."""


@runtime_checkable
class WritesSettings(Protocol):
    """A spawner that writes the settings of agents, and so those of servers that run beside them."""

    def use_direct(self, settings_of: Callable[[Uuid, Facts], Mapping[str, Any]]) -> None:
        """``settings_of`` gives a handler's ``mcpServers`` beside ours, as settings of Claude Code have them."""


@runtime_checkable
class NamesProblems(Protocol):
    """A spawner that says why somebody with something to do gets no agent."""

    @property
    def problems(self) -> Mapping[Uuid, str]:
        """Handler → what is missing on this machine, in a sentence."""

    @property
    def faults(self) -> Mapping[Uuid, str]:
        """Agent or handler → what went wrong with it at the last step."""


MakeSpawner: TypeAlias = Callable[[Agency, Perform, Reach], Spawner]


def machine_spawner(told: str) -> MakeSpawner:
    """The spawner of the agents' package with what this machine defines; ``told`` is ``git config cn.agency``.

    Raises :class:`cn.values.errors.ConfigError` where the definitions make no sense.
    """
    from cn.agents.machine import machine_path, read_machine
    from cn.agents.place import Address, place_of
    from cn.agents.spawner import make_spawner as make

    defined = read_machine(machine_path(told))

    def make_spawner(agency: Agency, perform: Perform, reach: Reach) -> Spawner:
        return make(place_of(agency), defined, perform, Address(reach.socket, reach.url))

    return make_spawner


class NoSpawner:
    """Agents are started by hand, or elsewhere."""

    async def step(self, now: datetime) -> None:
        """Nothing is started."""

    async def close(self) -> None:
        """Nothing was."""


def no_spawner(agency: Agency, perform: Perform, reach: Reach) -> Spawner:
    """A server that starts no agents (``cn agency serve --no-agents``)."""
    return NoSpawner()
