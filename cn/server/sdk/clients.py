"""Clients of other servers of the Model Context Protocol: started or reached once, kept, connected anew when lost."""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx2
import jsonschema
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from cn.server.bodies import Parts
from cn.server.few import FewLines
from cn.server.fitness import find_unfit
from cn.server.gateway import OtherTool, Outcome, Unanswered, outcome_of
from cn.server.library_logs import ABOUT
from cn.server.machine_tools import OtherServer
from cn.server.sdk.bounded_http import ENDED, GONE, MOST_BYTES, MOST_MEMBERS, NOT_LET_IN, REMEDIES, open_client
from cn.server.sdk.faults import InOurWords, tell
from cn.server.sdk.lines import ENCODING, TOO_MUCH
from cn.server.sdk.sifted import sifted
from cn.server.secrets import Vault
from cn.values.text import counted, one_line

Given = TypeVar("Given")
Found = TypeVar("Found")
READY = "ready"
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_START_SECONDS = 60.0
_MOST_TOOLS = 500
_MOST_PAGES = 100
_MOST_LINE = 1 << 16
"""Signs of a line of a program's log."""
_MOST_SAID, _MOST_LOGGED = 20, 200
"""Lines within a minute, of ours about a server and of its own log."""
_BETWEEN = 1.0
"""Seconds, at least, from one list of tools to the next."""

_CLOSED = f"{types.CONNECTION_CLOSED} Connection closed"
_BROKEN_OFF = re.compile(rf"{types.CONNECTION_CLOSED} SSE stream (?:ended|failed)\b.*", re.DOTALL)
"""What the library itself says. Servers use these numbers too, with words of their own, which are passed on."""


def _said(error: MCPError) -> str:
    return f"{error.error.code} {error.error.message}"


class _ListRefused(InOurWords):
    """A list of tools that comes to no end."""


class _Silent(InOurWords):
    """A server that was started, or reached, and does not answer."""


class OtherClient:
    """The one connection to another server, in a task of its own. ``say`` gets what the server writes to its log.

    Whatever the server says goes through ``vault``, which takes secrets out, before anybody shortens it.
    """

    def __init__(self, server: OtherServer, vault: Vault, say: Callable[[str], None]) -> None:
        self._server, self._vault = server, vault
        self._say = FewLines(say, _MOST_SAID, server.name)
        self._say_its = FewLines(
            lambda line: say(f"{server.name}: {one_line(vault.mask_line(line), 500)}"), _MOST_LOGGED, "its log"
        )
        self._client: Client | None = None
        self._lost, self._changed, self._why = asyncio.Event(), asyncio.Event(), ""
        self._scope, self._beginning = anyio.CancelScope(), anyio.CancelScope()
        self.name, self.state, self.failing = server.name, "starting", ""
        self.tools: Sequence[OtherTool] = ()
        self._one = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._task = asyncio.ensure_future(self._keep())

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Raises :class:`Unanswered`."""
        client = self._client
        if client is None:
            raise Unanswered(self.state)
        try:
            outcome = await self._answer(client, tool, arguments)
        except Unanswered as why:
            self.failing = str(why)
            raise
        self.failing = ""
        return outcome

    async def _answer(self, client: Client, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        try:
            result = await self._in_time(client.call_tool(tool, dict(arguments)))
        except MCPError as error:
            if error.error.code in REMEDIES:
                raise self._not_its_word(error) from None
            if _said(error) == _CLOSED:
                self._lost.set()
                raise Unanswered(self._why or "the connection was lost") from None
            if _BROKEN_OFF.fullmatch(_said(error)):
                raise Unanswered("its answer broke off") from None
            return await self._apart(self._failure, error.error.message)
        except Exception as why:  # whatever the library or the other server makes of it
            self._lost.set()
            raise Unanswered(await self._tell(why)) from None
        if result is None:
            raise Unanswered(f"no answer within {self._server.seconds:g} s")
        return await self._apart(self._outcome, result)

    async def _in_time(self, call: Coroutine[Any, Any, Found]) -> Found | None:
        """The library's own bound begins once the server has read the call, and after it the library waits for seconds
        to tell the server that the call is given up; it does that by itself here.
        """
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which nobody else may ask for
        try:
            await asyncio.wait({task}, timeout=self._server.seconds)
            return task.result() if task.done() else None
        finally:
            task.cancel()

    async def _apart(self, look: Callable[[Given], Found], given: Given) -> Found:
        """Have what may take long looked through in a thread, one thing of a server at a time: others are answered
        meanwhile.
        """
        async with self._one:
            return await anyio.to_thread.run_sync(look, given)

    async def _tell(self, why: BaseException) -> str:
        return await self._apart(lambda one: tell(one, self._vault.mask), why)

    def _failure(self, said: str) -> Outcome:
        return outcome_of([{"type": "text", "text": self._vault.mask(said)}], None, True)

    def _outcome(self, result: types.CallToolResult) -> Outcome:
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
        mask_all = self._vault.mask_all
        return outcome_of(mask_all(blocks), mask_all(result.structured_content), result.is_error)

    def _not_its_word(self, error: MCPError) -> Unanswered:
        """An answer that another one gave in its place, or none at all."""
        code, why = error.error.code, one_line(self._vault.mask(error.error.message), 300)
        if code == NOT_LET_IN:
            self._why = why  # which stands in its state until it lets us in again
        if code in (NOT_LET_IN, GONE, ENDED):
            self._lost.set()
        return Unanswered(why, REMEDIES[code])

    async def _keep(self) -> None:
        """Connect, and again whenever the connection is lost, after a growing pause."""
        pause = _FIRST_PAUSE
        ABOUT.set(self.name)
        with self._scope:
            while True:
                self._lost.clear()
                self._changed.clear()
                self._why = ""
                try:
                    await self._connected()
                    pause = _FIRST_PAUSE
                    self.state = self._why or "the connection was lost"
                except asyncio.CancelledError:
                    raise
                except BaseException as why:  # groups of exceptions of the library's tasks
                    self.state = await self._tell(why)
                    self._say(f"{self.name}: {self.state}")
                finally:
                    self._client, self.tools = None, ()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connected(self) -> None:
        self._beginning = anyio.CancelScope(deadline=anyio.current_time() + _START_SECONDS)
        with self._beginning as beginning:
            transport = sifted(self._transport(), self._changed.set)
            async with Client(transport, cache=None) as client:  # the cache would have to hear of other tools
                beginning.deadline = math.inf
                client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                self.tools = await self._list(client)
                self._client, self.state = client, READY
                async with anyio.create_task_group() as beside:
                    beside.start_soon(self._list_again, client)
                    await self._lost.wait()
                    beside.cancel_scope.cancel()
        if beginning.cancelled_caught:
            raise _Silent(self._why or f"it did not begin within {_START_SECONDS:g} s")

    async def _list_again(self, client: Client) -> None:
        """Whenever the server has other tools. However often it says so, one list is under way, and one due."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            begun = anyio.current_time()
            try:
                self.tools = await self._list(client)
            except Exception as why:  # it keeps those that it had
                self._say(f"{self.name}: {await self._tell(why)}")
            await asyncio.sleep(max(_BETWEEN, anyio.current_time() - begun))

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        server = self._server
        if server.url:
            headers = {name: self._vault.fill(text) for name, text in server.headers}
            return _reached(server.url, open_client(headers, server.seconds))
        env = {name: self._vault.fill(text) for name, text in server.env}
        started = StdioServerParameters(
            command=server.argv[0], args=[*server.argv[1:]], env=env, cwd=server.cwd or None, encoding=ENCODING
        )
        TOO_MUCH.set(self._too_much)
        return _logged(started, self._say_its)

    def _too_much(self, why: str) -> None:
        """The program that was started is ended, and started again: who knows what that line would have answered?"""
        self._why = why
        self._lost.set()
        if self._client is None:
            self._beginning.cancel()

    async def _list(self, client: Client) -> list[OtherTool]:
        """Raises :class:`_ListRefused`."""
        try:
            with anyio.fail_after(_START_SECONDS):
                return await self._pages(client)
        except TimeoutError:
            raise _ListRefused(f"tools/list has no end after {_START_SECONDS:g} s") from None

    async def _pages(self, client: Client) -> list[OtherTool]:
        taken: list[types.Tool] = []
        room, cursor = _Room(), None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            taken += await self._apart(room.take, page.tools)
            cursor = page.next_cursor
            if not cursor or room.full:
                if room.full:
                    self._say(f"{self.name}: of its tools the first {len(taken)} are taken, which is what cn holds")
                return await self._fitting(taken)
        raise _ListRefused(f"tools/list has no end after {_MOST_PAGES} pages")

    async def _fitting(self, taken: Sequence[types.Tool]) -> list[OtherTool]:
        """These as we describe them, with what is wrong with some, which is said."""
        listed = await self._apart(lambda tools: [self._described(one) for one in tools], taken)
        found = await self._apart(lambda tools: find_unfit(self.name, tools, _fault), listed)
        for tool in found:
            if tool.unfit:
                self._say(f"{self.name}: {one_line(tool.name, 60)!r} is not listed by its name: {tool.unfit}")
        if len(found) < len(listed):
            more = len(listed) - len(found)
            self._say(f"{self.name}: {counted(more, 'tool')} without a name, or with one that another has, left out")
        return found

    def _described(self, tool: types.Tool) -> OtherTool:
        hints, mask, mask_all = tool.annotations, self._vault.mask, self._vault.mask_all
        gives = mask_all(tool.output_schema or {})
        return OtherTool(
            mask(tool.name),
            mask(tool.title or (hints.title if hints and hints.title else "")),
            mask(tool.description or ""),
            mask_all(tool.input_schema),
            {} if _fault(gives) else gives,
            bool(hints and hints.read_only_hint),
        )

    async def close(self) -> None:
        """End the connection, and a server that was started for it.

        By a scope and not by ``Task.cancel``: that breaks into the library's own end of a server, whose process is then
        left and waited for without end, and it is lost where something else fails at the same time.
        """
        self._scope.cancel()
        await self._task


class _Room:
    """For the tools of one server: so many, so many bytes and so many parts."""

    def __init__(self) -> None:
        self.full = False
        self._tools, self._bytes, self._parts = 0, 0, Parts()

    def take(self, tools: Sequence[types.Tool]) -> list[types.Tool]:
        """As many of them as there is room for."""
        taken: list[types.Tool] = []
        for tool in tools:
            described = tool.model_dump_json(by_alias=True, exclude_none=True).encode()
            self._tools, self._bytes = self._tools + 1, self._bytes + len(described)
            self._parts.add(described)
            if self._tools > _MOST_TOOLS or self._bytes > MOST_BYTES or self._parts.count > MOST_MEMBERS:
                self.full = True
                break
            taken.append(tool)
        return taken


async def _unchecked(name: str, result: types.CallToolResult) -> None:
    """Whether a result is as its tool's schema says is for who gets it to check. The schema is the server's too: one
    pattern of it may take for ever, and nothing else is done meanwhile.
    """


@asynccontextmanager
async def _reached(url: str, http: httpx2.AsyncClient) -> AsyncIterator[Any]:
    async with http, streamable_http_client(url, http_client=http) as streams:
        yield streams


class _logged:
    """``stdio_client`` with the server's standard error read line by line, so that no secret gets past us."""

    def __init__(self, started: StdioServerParameters, say: Callable[[str], None]) -> None:
        read, self._write = os.pipe()
        threading.Thread(target=_read_lines, args=(read, say), daemon=True).start()
        self._file = os.fdopen(self._write, "w")
        self._inner = stdio_client(started, errlog=self._file)

    async def __aenter__(self) -> Any:
        try:
            return await self._inner.__aenter__()
        finally:
            self._file.close()  # the child has it

    async def __aexit__(self, *why: Any) -> Any:
        return await self._inner.__aexit__(*why)


def _fault(schema: Mapping[str, Any]) -> str:
    """What keeps it from being a JSON schema."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except (jsonschema.SchemaError, RecursionError):
        return "the schema of its arguments is none"
    return ""


def _read_lines(fd: int, say: Callable[[str], None]) -> None:
    with os.fdopen(fd, "r", errors="replace") as file:
        while line := file.readline(_MOST_LINE):
            if len(line) == _MOST_LINE and not line.endswith("\n"):
                while (line := file.readline(_MOST_LINE)) and not line.endswith("\n"):
                    pass  # half a secret has no mask
                say(f"a line of more than {_MOST_LINE >> 10} KiB in its log is left out")
            elif line.strip():
                say(line)
