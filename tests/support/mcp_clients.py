"""The official client of the Model Context Protocol over each way to the server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.agency_server import Server

T = TypeVar("T")
BRIDGE = [sys.executable, "-P", "-m", "cn", "mcp"]
_SECONDS = 240.0
WAYS = ("http", "socket", "bridge", "bridge by URL")


class Answer(NamedTuple):
    """What a call gave: the text, the value, and whether it was refused."""

    text: str
    value: dict[str, Any]
    refused: bool


class Agent(NamedTuple):
    """A client that is connected."""

    client: Client

    async def __call__(self, tool: str, /, **arguments: Any) -> Answer:
        """Call a tool."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        return Answer(content.text, result.structured_content, result.is_error)  # type: ignore[union-attr]

    async def do(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What is expected to be done; its value."""
        answer = await self(tool, **arguments)
        assert not answer.refused, answer
        return answer.value

    async def no(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What is expected to be refused; its value."""
        answer = await self(tool, **arguments)
        assert answer.refused, answer
        assert answer.value["reason"]
        return answer.value


@asynccontextmanager
async def connect(
    server: Server, token: str = "", way: str = "http", mode: str = "auto", workspace: Path | None = None
) -> AsyncIterator[Agent]:
    """A client of an agent with this token, over one of :data:`WAYS`."""
    if way.startswith("bridge"):
        env = {**os.environ, "CN_AGENT_TOKEN": token}
        env |= {"CN_MCP_URL": server.url} if way == "bridge by URL" else {"CN_MCP_SOCKET": server.socket}
        started = StdioServerParameters(command=BRIDGE[0], args=BRIDGE[1:], env=env, cwd=workspace)
        async with Client(stdio_client(started), mode=mode) as client:
            yield Agent(client)
        return
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    carrier = httpx2.AsyncHTTPTransport(uds=server.socket) if way == "socket" else None
    url = "http://localhost/mcp" if way == "socket" else server.url
    async with (
        httpx2.AsyncClient(headers=headers, transport=carrier, timeout=_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Agent(client)


def talk(work: Callable[[], Awaitable[T]]) -> T:
    """Run what talks to the server, bounded in time."""

    async def bounded() -> T:
        return await asyncio.wait_for(work(), _SECONDS)

    try:
        return asyncio.run(bounded())
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(why: BaseException) -> BaseException:
    """What went wrong, out of the groups of the client's tasks."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    return why
