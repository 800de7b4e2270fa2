"""Our tools as a server of the Model Context Protocol: streamable HTTP without sessions, answered as JSON.

Each request stands for itself, so that the server can be stopped and started while its clients live. Protocol versions:
those that the library speaks (modelcontextprotocol.io/specification).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from cn import __version__
from cn.server.bodies import weighed
from cn.server.door import CALLER, App, Receive, Scope, Send
from cn.server.parameters import MOST_CONTENT
from cn.server.room import Room
from cn.server.tool import Tool
from cn.server.toolbox import Called, Caller

CONTENT = "cn/content"
"""Where a bridge finds a file's bytes in a result's ``_meta``, as base64."""
_STRUCTURED_SINCE = "2025-06-18"
"""The version that brought ``structuredContent``: clients before it have the text alone."""
_MOST_BODY = 4 * MOST_CONTENT
_NAME = "cn"
_INSTRUCTIONS = (
    "Agency's tools. Who you are follows from your connection. A refusal names its rule, the reason, the next step and "
    "whom to ask. Files that you write or create are read from your workspace by 'path'."
)

ListTools = Callable[[Caller], Awaitable[Sequence[Tool]]]
CallTool = Callable[[str, Mapping[str, Any], Caller], Awaitable[Called]]


def make_app(list_tools: ListTools, call_tool: CallTool, hosts: Sequence[str], origins: Sequence[str] = ()) -> App:
    """The ASGI application at ``/mcp``. ``hosts`` are the Host headers that it answers, ``origins`` the Origins."""

    async def on_list(ctx: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        tools = await list_tools(_caller(ctx))
        return types.ListToolsResult(tools=[_described(tool) for tool in tools], ttl_ms=0, cache_scope="private")

    async def on_call(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        called = await call_tool(params.name, params.arguments or {}, _caller(ctx))
        return _result(called, ctx.protocol_version)

    server: Server[Any] = Server(
        _NAME, version=__version__, instructions=_INSTRUCTIONS, on_list_tools=on_list, on_call_tool=on_call
    )
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=_MOST_BODY,
        transport_security=TransportSecuritySettings(allowed_hosts=[*hosts], allowed_origins=[*origins]),
    )
    return _also_with_slash(weighed(app, _MOST_BODY, Room()))


def _also_with_slash(app: App) -> App:
    """At ``/mcp/`` as at ``/mcp``: not every client asks again where it is sent on."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/mcp/":
            scope["path"] = "/mcp"
        await app(scope, receive, send)

    return answer


def _caller(ctx: ServerRequestContext[Any]) -> Caller:
    caller = ctx.request.scope[CALLER]  # type: ignore[union-attr]
    assert isinstance(caller, Caller)
    return caller


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=tool.takes,
        output_schema=dict(tool.gives) or None,
        annotations=types.ToolAnnotations.model_validate(tool.annotations),
    )


def _result(called: Called, version: str) -> types.CallToolResult:
    if called.blocks or not called.text:
        return types.CallToolResult.model_validate(
            {"content": [*called.blocks], "structuredContent": called.value or None, "isError": called.refused}
        )
    text = called.text
    if version < _STRUCTURED_SINCE:
        text = json.dumps(called.value, ensure_ascii=False)
    meta = {} if called.content is None else {CONTENT: base64.b64encode(called.content).decode()}
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=dict(called.value),
        is_error=called.refused,
        **({"_meta": meta} if meta else {}),  # type: ignore[arg-type]
    )
