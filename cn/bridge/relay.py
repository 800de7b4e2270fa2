"""Messages between a client on standard input and output and the server: each line is one (JSON-RPC 2.0).

What names files of the workspace is filled in on the way: ``path`` becomes the file's content, and contents that come
back become read-only copies. See ``docs/protocol/agency-mcp.md``.
"""

from __future__ import annotations

import binascii
import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cn.bridge.connection import Address, Connection, Response, Unreachable
from cn.bridge.files import PathRefused, Workspace

CONTENT = "cn/content"
FROM_FILES = ("kb_create", "kb_write", "repo_push", "state_write")
"""Tools that take the content of a file of the workspace."""
LISTS = ("kb_browse", "kb_list")
"""Tools whose rows say where a copy lies."""
_VERSION = "io.modelcontextprotocol/protocolVersion"
_PATIENCE = 60.0
_PAUSE = 0.2
_LONGEST_PAUSE = 2.0
_AWAY = 503
"""The status by which the server says that it cannot work any more."""
_BUSY = 429
"""The same of too many requests at once: nothing was done."""
_UNREACHABLE, _UNKNOWN_TOKEN, _BAD_ANSWER, _INVALID = -32000, -32001, -32603, -32602

Message = dict[str, Any]


class Who(NamedTuple):
    """As whom the bridge speaks: the agent of a token, or the user, who may also ``write``."""

    token: str = ""
    write: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """As the server's door reads them."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        return {"cn-write": "1"} if self.write else {}


class Relay:
    """Answers requests by asking the server at ``address``. Any thread may ask.

    ``patience`` is how many seconds a request waits for a server that is not there, as while it is started anew.
    """

    def __init__(
        self,
        address: Address,
        who: Who,
        workspace: Workspace,
        say: Callable[[Message], None],
        patience: float = _PATIENCE,
    ) -> None:
        self._address, self._who, self._workspace, self._say = address, who, workspace, say
        self._patience = patience
        self._free: list[Connection] = []
        self._version = ""
        self._tools = ""

    def close(self) -> None:
        """Let go of the connections that rest."""
        while self._free:
            self._free.pop().close()

    def answer(self, request: Message) -> Message:
        """The response to a request, whatever it holds: its client waits for one."""
        try:
            return self._answer(request)
        except Exception as why:  # a fault of ours
            told = f"this request failed in the bridge ({type(why).__name__}); it may have been done"
            return _error(request, _BAD_ANSWER, f"{told}: look before you ask again, and tell the user")

    def _answer(self, request: Message) -> Message:
        try:
            filled = self._fill(request)
            response = self._ask(filled)
        except UnicodeEncodeError as why:
            return _no_text(request, why)
        except PathRefused as refused:
            return _refused(request, "path", refused.reason, refused.remedy)
        except Unreachable as why:
            remedy = "" if why.sent else "; the user starts it with 'cn agency serve'"
            return _error(request, _UNREACHABLE, f"Agency's server at {self._address} does not answer: {why}{remedy}")
        return self._read(request, response)

    def _fill(self, request: Message) -> Message:
        """The request with the content of the file that it names."""
        name, arguments = _call_of(request)
        if name not in FROM_FILES or not isinstance(arguments.get("path"), str):
            return request
        if any(arguments.get(other) is not None for other in ("content", "content_base64")):
            raise PathRefused("both a path and a content are given", "give one of them")
        data = self._workspace.read(arguments["path"])
        given = {key: value for key, value in arguments.items() if key != "path"} | _content(data)
        return request | {"params": request["params"] | {"arguments": given}}

    def _ask(self, request: Message) -> Response:
        """Ask until somebody answers. What may have arrived is asked again only where that does no harm: the server
        knows operations by their id, but not what another server behind it did.
        """
        body = json.dumps(request, ensure_ascii=False).encode()
        headers = self._headers(request)
        deadline, pause = time.monotonic() + self._patience, _PAUSE
        name, _ = _call_of(request)
        once = name == "mcp_call" or "__" in name
        while True:
            connection = self._free.pop() if self._free else Connection(self._address)
            try:
                response = connection.post(body, headers)
                self._free.append(connection)
                if response.status != _BUSY or time.monotonic() + pause > deadline:
                    return response
            except Unreachable as why:
                if (why.sent and once) or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _headers(self, request: Message) -> dict[str, str]:
        """Of streamable HTTP (modelcontextprotocol.io, "Transports"), and our own."""
        told = _meta_of(request).get(_VERSION)
        found = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "cn-bridge": "1",
            "cn-request": os.urandom(16).hex(),
            **self._who.headers,
        }
        if isinstance(told, str):
            name, _ = _call_of(request)
            found |= {"MCP-Protocol-Version": _plain(told), "Mcp-Method": _plain(str(request.get("method")))}
            found |= {"Mcp-Name": _plain(name)} if name else {}
        elif self._version and request.get("method") != "initialize":
            found["MCP-Protocol-Version"] = self._version
        return found

    def _read(self, request: Message, response: Response) -> Message:
        if response.status == 401:
            told = f"{_reason(response)}: your work has ended, so end" if self._who.token else "a token is needed"
            return _error(request, _UNKNOWN_TOKEN, told)
        if response.status in (_AWAY, _BUSY):
            return _error(request, _UNREACHABLE, _reason(response))
        try:
            answer = json.loads(response.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            said = " ".join(response.body[:200].decode("utf-8", "replace").split())
            return _error(request, _BAD_ANSWER, f"{_NO_ANSWER.format(self._address, response.status)}: {said!r}")
        result = answer.get("result")
        if isinstance(result, dict):
            self._notice(request, response, result)
            self._place(request, result)
        return answer | {"id": request.get("id")}  # what the server could not read has no id there

    def _notice(self, request: Message, response: Response, result: Message) -> None:
        """Remember the version, and tell when there are other tools than were listed last."""
        if request.get("method") == "initialize":
            self._version = _plain(str(result.get("protocolVersion") or ""))
            tools = result.get("capabilities", {}).get("tools")
            if isinstance(tools, dict):
                tools["listChanged"] = True
        now = response.headers.get("cn-tools", "")
        if request.get("method") == "tools/list":
            self._tools = now
        elif self._tools and now and now != self._tools:
            self._tools = now
            self._say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def _place(self, request: Message, result: Message) -> None:
        """Contents become copies in the workspace, and rows say where those are."""
        value, meta = result.get("structuredContent"), result.get("_meta")
        if not isinstance(value, dict):
            return
        name, _ = _call_of(request)
        if name in LISTS:
            for row in value.get("files", ()):
                path = self._workspace.has(str(row.get("file")), str(row.get("hash")))
                row |= {"path": path} if path else {}
        if isinstance(meta, dict) and isinstance(meta.get(CONTENT), str):
            data = binascii.a2b_base64(meta.pop(CONTENT))
            try:
                value["path"] = self._workspace.place(_name(value["file"]), _name(value["hash"]), data)
            except OSError as why:
                _add(result, f"no copy could be placed in the workspace: {why.strerror}")
            else:
                value.pop("next", None)
                value.pop("content_base64", None)
                _add(result, f"all of it is at {value['path']}")


_NO_ANSWER = (
    "what listens at {} answered with status {}, and not as Agency's server does; a call that writes may have been "
    "done: look before you ask again; 'cn agency status' tells the user whether the server runs"
)


def _reason(response: Response) -> str:
    """Why the server lets nobody in, or not this token."""
    try:
        return str(json.loads(response.body)["error"])[:500]
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status}" if response.status == _AWAY else "no live agent has this token"


def _content(data: bytes) -> Message:
    """As text where it is one."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    strange = any(ord(character) < 32 and character not in "\t\n\r" for character in set(text))
    return {"content_base64": binascii.b2a_base64(data, newline=False).decode()} if strange else {"content": text}


def _call_of(request: Message) -> tuple[str, Message]:
    """The tool that a request calls, with its arguments; empty for what calls none."""
    params = request.get("params")
    if request.get("method") != "tools/call" or not isinstance(params, dict):
        return "", {}
    arguments = params.get("arguments")
    return str(params.get("name")), arguments if isinstance(arguments, dict) else {}


def _meta_of(request: Message) -> Message:
    """What a request says of itself; empty where that is no object, which the server refuses."""
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _plain(text: str) -> str:
    """A value that a header can have; other text as base64 (streamable HTTP of 2026-07-28)."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{binascii.b2a_base64(text.encode('utf-8', 'replace'), newline=False).decode()}?="


def _name(value: object) -> str:
    """A name of a file that the server gave: digits and dashes alone."""
    text = str(value)
    if not text or text.strip("0123456789abcdef-"):
        raise OSError(0, "the server gave a strange name")
    return text


def _add(result: Message, words: str) -> None:
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict) and "text" in content[0]:
        content[0]["text"] += f"; {words}"


def _refused(request: Message, rule: str, reason: str, remedy: str) -> Message:
    """A refusal as the server's tools give it."""
    value = {"rule": rule, "reason": reason, "remedy": remedy}
    content = [{"type": "text", "text": f"refused, {rule}: {reason}; {remedy}"}]
    result: Message = {"content": content, "structuredContent": value, "isError": True}
    if _VERSION in _meta_of(request):
        result["resultType"] = "complete"
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result}


def _no_text(request: Message, why: UnicodeEncodeError) -> Message:
    """JSON can escape what no text holds: half of a surrogate pair, which no server could read."""
    reason = f"the request holds \\u{ord(why.object[why.start]):04x} alone, half of a character, which no text holds"
    remedy = "write the whole character, or leave it out"
    if _call_of(request)[0]:
        return _refused(request, "words", reason, remedy)
    return _error(request, _INVALID, f"{reason}: {remedy}")


def _error(request: Message, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": code, "message": text}}
