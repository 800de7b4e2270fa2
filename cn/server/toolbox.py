"""All tools of one server, by name: who sees which, and how a call goes from its arguments to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from cn.agency.names import Party
from cn.agency.operations import Principal
from cn.agency.plan.result import Refused
from cn.agency.plan.titles import title_of, with_titles
from cn.agency.rows import Facts
from cn.server.gateway import Gateway
from cn.server.parameters import Cursor, names_root, nearest, read_arguments, with_root
from cn.server.results import fit, refusal, say
from cn.server.tool import Call, Records, Result, Tool, View
from cn.values.errors import CnError
from cn.values.text import one_line

READ_ONLY = "read-only"
UNAVAILABLE = "unavailable"


class Caller(NamedTuple):
    """Who calls: ``may_write`` beside reading; ``bridged``: it places files' contents itself. ``request`` is the
    bridge's name for the call, which it repeats where the answer was lost.
    """

    principal: Principal
    may_write: bool = True
    bridged: bool = False
    request: str = ""


class Called(NamedTuple):
    """What a call came to. ``content`` are a file's bytes, for a bridge; ``blocks`` what another server said."""

    text: str
    value: View
    refused: bool = False
    content: bytes | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()


class Toolbox:
    """``records`` are what tools act on; ``user`` is whose hub it is; ``mask`` takes secrets out of texts."""

    def __init__(
        self,
        tools: Sequence[Tool],
        records: Records,
        user: Party,
        clock: Callable[[], datetime],
        gateway: Gateway,
        mask: Callable[[str], str] = str,
    ) -> None:
        self.tools: Mapping[str, Tool] = {one.name: one for one in (*tools, *gateway.base_tools())}
        self._gateway = gateway
        self._records, self._user, self._clock, self._mask = records, user, clock, mask

    async def list(self, caller: Caller) -> list[Tool]:
        """The tools that a caller is shown: all of ours, and those of other servers that it may use."""
        return [*self.tools.values(), *self._gateway.tools_of(await self._granted(caller))]

    async def digest(self, caller: Caller) -> str:
        """Another one where :meth:`list` has other tools."""
        return self._gateway.digest(await self._granted(caller))

    async def _granted(self, caller: Caller) -> Sequence[str]:
        principal = caller.principal
        if self._gateway.is_empty:
            return []
        names = await self._records.look(lambda facts: self._gateway.granted(principal, facts), principal)
        return [] if isinstance(names, Refused) else names

    async def call(self, name: str, given: Mapping[str, Any], caller: Caller) -> Called:
        """Carry a call out. Never raises what a caller could cause."""
        tool = self.tools.get(name) or self._gateway.find(name)
        if tool is None:
            near = nearest(name, self.tools)
            remedy = f"did you mean {near!r}?" if near else "list the tools"
            return await self._no(Refused("tool", f"there is no tool {one_line(name, 60)!r}", remedy), caller)
        if not tool.reads and not caller.may_write:
            remedy = "start the bridge as 'cn mcp --write' to let this client change things"
            return await self._no(Refused(READ_ONLY, f"this connection only reads, and {name} writes", remedy), caller)
        arguments = dict(given) if tool.foreign is not None else await self._arguments(tool, given, caller)
        if isinstance(arguments, Refused):
            return await self._no(arguments, caller)
        if tool.foreign is None and "request_id" in arguments:
            arguments["request_id"] = arguments["request_id"] or caller.request
        try:
            found = await tool.run(Call(caller.principal, arguments, self._clock(), self._user), self._records)
        except CnError as error:
            return await self._no(Refused(UNAVAILABLE, error.text, error.hint), caller)
        except OSError as error:
            refused = Refused(UNAVAILABLE, f"the server's machine said: {error.strerror}", "try again later")
            return await self._no(refused, caller)
        return (
            await self._no(found, caller) if isinstance(found, Refused) else self._yes(tool, arguments, found, caller)
        )

    async def _arguments(self, tool: Tool, given: Mapping[str, Any], caller: Caller) -> dict[str, Any] | Refused:
        if names_root(tool.parameters, given):
            head = await self._records.look(lambda facts: facts.head(), caller.principal)
            if isinstance(head, Refused):
                return head
            given = with_root(tool.parameters, given, head.root) if head else given
        return read_arguments(tool.parameters, given)

    def _yes(self, tool: Tool, arguments: Mapping[str, Any], found: Result | View, caller: Caller) -> Called:
        result = found if isinstance(found, Result) else None
        if tool.foreign is not None and result:
            return Called("", result.value, result.failed, None, result.blocks)
        whole: View = result.value if result else found  # type: ignore[assignment]
        value = fit(tool, whole, arguments.get("cursor") or Cursor())
        text = (result.text if result else "") or say(tool, value)
        content = result.content if result and caller.bridged else None
        return Called(self._mask(text), value, False, content)

    async def _no(self, refused: Refused, caller: Caller) -> Called:
        """The refusal with the titles of what it names, where the records can be read."""
        asked = ""
        with suppress(CnError, OSError):
            told = await self._records.look(lambda facts: _titled(refused, facts), caller.principal)
            if not isinstance(told, Refused):
                refused, asked = told
        masked = refused._replace(reason=self._mask(refused.reason), remedy=self._mask(refused.remedy))
        text, value = refusal(masked, self._mask(asked))
        return Called(text, value, True)


def _titled(refused: Refused, facts: Facts) -> tuple[Refused, str]:
    """The same with titles in its sentences, and that of whom to ask."""
    reason, remedy = (with_titles(text, facts) for text in (refused.reason, refused.remedy))
    return refused._replace(reason=reason, remedy=remedy), title_of(refused.ask or "", facts)
