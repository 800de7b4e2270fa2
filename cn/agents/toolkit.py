"""The tools of Agency's server as the builtin agent has them: through the bridge, which reads and places its files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cn.bridge.connection import Address
from cn.bridge.files import Workspace
from cn.bridge.relay import Relay, Who

_PROTOCOL = "2025-11-25"
_NO_AGENT = -32001
_GONE = ("active-handler",)
"""Rules by which everything is refused to an agent that is no more."""
_CHANGED = "notifications/tools/list_changed"


class Ended(Exception):
    """The agent's lease is over: whatever it asks is refused. The text says why."""


class Said(NamedTuple):
    """What a call gave, as the model reads it."""

    text: str
    is_error: bool
    value: Mapping[str, Any]


class Toolkit:
    """The tools that an agent may call. ``tools`` are those listed last, as the Messages API takes them."""

    def __init__(self, address: Address, token: str, workspace: Path) -> None:
        self._relay = Relay(address, Who(token), Workspace(str(workspace)), self._notice)
        self._numbers = itertools.count(1)
        self._changed = True
        self._tools: tuple[Mapping[str, Any], ...] = ()
        client = {"name": "cn builtin agent", "version": "1"}
        self._ask("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client})

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """Listed anew where the server said that there are others, as after a grant."""
        if self._changed:
            self._changed = False
            listed, cursor = [], None
            while True:
                found = self._ask("tools/list", {"cursor": cursor} if cursor else {})
                listed += found.get("tools", [])
                cursor = found.get("nextCursor")
                if not cursor:
                    break
            self._tools = tuple(
                {"name": one["name"], "description": one.get("description", ""), "input_schema": one["inputSchema"]}
                for one in listed
            )
        return self._tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> Said:
        """Call a tool. Raises :class:`Ended`."""
        found = self._ask("tools/call", {"name": name, "arguments": dict(arguments)})
        value = found.get("structuredContent")
        value = value if isinstance(value, dict) else {}
        if found.get("isError") and value.get("rule") in _GONE:
            raise Ended(str(value.get("reason", "")))
        parts = [one["text"] for one in found.get("content", ()) if one.get("type") == "text"]
        if value and not found.get("isError"):
            parts.append(json.dumps(value, ensure_ascii=False))
        return Said("\n".join(parts), bool(found.get("isError")), value)

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._relay.answer(
            {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": dict(params)}
        )
        error = answer.get("error")
        if isinstance(error, dict):
            if error.get("code") == _NO_AGENT:
                raise Ended(str(error.get("message", "")))
            if method != "tools/call":
                raise Ended(f"the server does not answer {method}: {error.get('message', '')}")
            return {"content": [{"type": "text", "text": str(error.get("message", ""))}], "isError": True}
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def _notice(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == _CHANGED:
            self._changed = True
