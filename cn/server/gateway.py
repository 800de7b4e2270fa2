"""Other servers behind ours: agents that hold ``mcp:<server>`` see and call their tools, and never a secret of theirs.

Whether a handler holds it is asked at each list and each call, so it holds, and ends, at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from cn.agency.names import Resource
from cn.agency.operations import Principal, UseResource
from cn.agency.plan.access import no_access, reason_for
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.server.pace import Pace
from cn.server.parameters import CURSOR, NAME, OBJECT, Parameter
from cn.server.results import MOST, size_of
from cn.server.tool import FLAG, NEXT, WORD, Call, Records, Result, Tool, a, an_object, several
from cn.values.text import one_line

KIND, LEVEL = "mcp", "use"
SEPARATOR = "__"
_ABOUT = 1000
_SHOWN = 5


class OtherTool(NamedTuple):
    """A tool of another server, as it describes it."""

    name: str
    title: str
    about: str
    takes: Mapping[str, Any]
    gives: Mapping[str, Any]
    reads: bool
    unfit: str = ""
    """Why models cannot be shown it by its own name: who may call it does so by ``mcp_call``."""


class Outcome(NamedTuple):
    """What a call of another server gave: its blocks of content, as many as an answer holds, its value if it has one
    that is not too long, and whether it failed. It had ``size`` bytes.
    """

    blocks: Sequence[Mapping[str, Any]]
    value: Any
    failed: bool
    size: int = 0


TOO_LONG: Final = object()
"""In the place of a value that is longer than an answer."""


def outcome_of(blocks: Sequence[Mapping[str, Any]], value: Any, failed: bool) -> Outcome:
    """As much of it as an answer holds. Takes as long as it is large."""
    size = size_of(value)
    return Outcome(_cut(blocks), TOO_LONG if size > MOST else value, failed, size + sum(map(size_of, blocks)))


class Unanswered(Exception):
    """Another server did not answer: why, and what who asked is to do next."""

    def __init__(self, why: str, remedy: str = "it may have done what was asked: look, before you ask again") -> None:
        super().__init__(why)
        self.remedy = remedy


class OtherTools(Protocol):
    """Another server, started or reached once for all agents. What it says is given without any secret."""

    @property
    def name(self) -> str:
        """As it is granted."""

    @property
    def state(self) -> str:
        """``ready``, or why it is not."""

    @property
    def failing(self) -> str:
        """Why the last call got no answer; empty: it did."""

    @property
    def tools(self) -> Sequence[OtherTool]:
        """What it offers; nothing while it is not there."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Raises :class:`Unanswered`."""


class Gateway:
    """The other servers, by name."""

    def __init__(self, others: Sequence[OtherTools]) -> None:
        self._others = {one.name: one for one in others}
        self._pace = Pace()

    @property
    def is_empty(self) -> bool:
        """Is there no other server?"""
        return not self._others

    def granted(self, principal: Principal, facts: Facts) -> list[str]:
        """The servers that a principal may use."""
        return [name for name in self._others if reason_for(principal, Resource(KIND, name), LEVEL, facts)]

    def tools_of(self, names: Sequence[str]) -> list[Tool]:
        """The tools of these servers, as ``<server>__<tool>``, but for those that would not fit among others: a model's
        API refuses a whole request for one of them.
        """
        return [self._tool(name, one) for name in names for one in self._others[name].tools if not one.unfit]

    def digest(self, names: Sequence[str]) -> str:
        """Another one where these servers, or their tools, are others."""
        text = json.dumps([(name, [one.name for one in self._others[name].tools]) for name in names])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def states(self) -> dict[str, str]:
        """How each server is, by its connection or by its last call."""
        return {
            name: f"its last call: {one.failing}" if one.state == "ready" and one.failing else one.state
            for name, one in self._others.items()
        }

    def left_out(self) -> dict[str, str]:
        """Server → which of its tools are not listed by their names, and why."""
        found = {name: [one for one in other.tools if one.unfit] for name, other in self._others.items()}
        return {
            name: "; ".join(f"{one_line(tool.name, 40)!r}: {tool.unfit}" for tool in tools[:_SHOWN])
            for name, tools in found.items()
            if tools
        }

    def find(self, name: str) -> Tool | None:
        """The tool that has this name."""
        server, separator, tool = name.partition(SEPARATOR)
        other = self._others.get(server) if separator else None
        found = next((one for one in other.tools if one.name == tool), None) if other else None
        return self._tool(server, found) if found else None

    def _tool(self, server: str, other: OtherTool) -> Tool:
        async def run(call: Call, records: Records) -> Result | Refused:
            outcome = await self.call(server, other.name, call.arguments, call.principal, records)
            return outcome if isinstance(outcome, Refused) else _passed_on(outcome, other)

        return Tool(
            f"{server}{SEPARATOR}{other.name}",
            one_line(other.title or other.name, 100),
            f"[{server}] {other.about}"[:_ABOUT],
            (),
            other.gives,
            run,
            reads=other.reads,
            ends=not other.reads,
            outside=True,
            foreign=other.takes,
        )

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], principal: Principal, records: Records
    ) -> Outcome | Refused:
        """Have another server do it, for who may use it."""
        refused = await records.look(lambda facts: self._may_use(server, principal, facts), principal)
        if refused is not None:
            return refused
        other = self._others[server]
        if tool not in (one.name for one in other.tools):
            if other.state != "ready":
                return Refused("unavailable", f"{server}: {other.state}", "try again later")
            return Refused("tool", f"{server} has no tool {one_line(tool, 60)!r}", "mcp_tools lists them")
        told = await records.perform(UseResource(f"{KIND}:{server}", LEVEL, f"calls {tool}"), principal)
        if isinstance(told, Refused):
            return told
        async with self._pace.of(principal) as answered:
            try:
                outcome = await other.call(tool, arguments)
            except Unanswered as why:
                return Refused("unavailable", f"{server}: {why}", why.remedy)
            answered(outcome.size)
        return outcome

    def _may_use(self, server: str, principal: Principal, facts: Facts) -> Refused | None:
        resource = Resource(KIND, server)
        if reason_for(principal, resource, LEVEL, facts) is None:
            return no_access(principal, resource, LEVEL, facts)
        if server not in self._others:
            return Refused(
                "known",
                f"no server {one_line(server, 40)!r} is behind this one",
                "ask the user to name it in [servers]",
            )
        return None

    def base_tools(self) -> tuple[Tool, ...]:
        """The two tools by which all others can be called, by clients that list tools once."""
        return (self._list_tool(), self._call_tool())

    def _list_tool(self) -> Tool:
        async def run(call: Call, records: Records) -> Result | Refused:
            names = await records.look(lambda facts: self.granted(call.principal, facts), call.principal)
            if isinstance(names, Refused):
                return names
            wanted = call.arguments["server"]
            shown = [name for name in names if wanted in ("", name)]
            rows = [
                {"server": name, "tool": one.name, "about": one.about[:_ABOUT], "takes": dict(one.takes)}
                | ({"unfit": one.unfit} if one.unfit else {})
                for name in shown
                for one in self._others[name].tools
            ]
            states = [{"server": name, "state": self._others[name].state} for name in shown]
            return Result("", {"servers": states, "tools": rows})

        server = an_object({"server": WORD, "state": a("string", "'ready', or why it is not")})
        unfit = {"unfit": a("string", "Why it is called by 'mcp_call' alone")}
        takes = {"takes": a("object", "The schema of arguments")}
        row = an_object({"server": WORD, "tool": WORD, "about": WORD} | takes | unfit, ["unfit"])
        return Tool(
            "mcp_tools",
            "List tools of other servers",
            "Lists the tools of other servers that you may use. Clients that list tools again see them by name, too.",
            (Parameter("server", NAME, "Only of this one", default=""), CURSOR),
            an_object({"servers": several(server), "tools": several(row), "next": NEXT}, ["next"]),
            run,
            reads=True,
            listed="tools",
        )

    def _call_tool(self) -> Tool:
        async def run(call: Call, records: Records) -> Result | Refused:
            given = call.arguments
            outcome = await self.call(given["server"], given["tool"], given["arguments"], call.principal, records)
            if isinstance(outcome, Refused):
                return outcome
            value = {"content": [*outcome.blocks], "failed": outcome.failed}
            known = outcome.value is not None and outcome.value is not TOO_LONG
            fits = known and size_of(outcome.value) < MOST // 2
            return Result("", value | ({"value": outcome.value} if fits else {}))

        return Tool(
            "mcp_call",
            "Call a tool of another server",
            "Calls a tool of another server that you may use.",
            (
                Parameter("server", NAME, "Its name", needed=True),
                Parameter("tool", NAME, "The tool's name there", needed=True),
                Parameter("arguments", OBJECT, "As its schema says", default={}),
            ),
            an_object(
                {
                    "content": several(a("object")),
                    "value": {"description": "Its structured result, if it has one that is not too long"},
                    "failed": FLAG,
                },
                ["value"],
            ),
            run,
            ends=True,
            outside=True,
        )


def _passed_on(outcome: Outcome, other: OtherTool) -> Result | Refused:
    """As the other server gave it."""
    if outcome.value is TOO_LONG:
        return Refused("size", f"the answer of {other.name} is longer than {MOST >> 10} KiB", "ask for less")
    value = outcome.value if isinstance(outcome.value, dict) else {}
    return Result("", value, None, tuple(outcome.blocks), outcome.failed)


def _cut(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As many blocks as an answer holds; the last text shortened, and what is left out said."""
    kept: list[Mapping[str, Any]] = []
    room = MOST // 2
    for block in blocks:
        size = size_of(block)
        if size <= room:
            kept.append(block)
            room -= size
            continue
        if block.get("type") == "text":
            kept.append({**block, "text": str(block.get("text"))[: max(0, room // 4)] + "… (cut: ask for less)"})
        else:
            kept.append({"type": "text", "text": f"(a {block.get('type')} was left out: it is too long)"})
        break
    return kept
