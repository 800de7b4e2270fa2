"""``cn mcp``: a server of the Model Context Protocol on standard input and output, which asks Agency's.

``CN_AGENT_TOKEN`` with ``CN_MCP_SOCKET`` or ``CN_MCP_URL`` makes it an agent's. Without a token it is the user's, by
the socket that the server's health file names, and reads only unless ``--write`` is given; the command line says which
file that is, since it knows what a hub is.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from cn.bridge.connection import Address, parse_address
from cn.bridge.files import UsersFolder, Workspace
from cn.bridge.relay import Message, Relay, Who
from cn.inherited import take_umask

_MOST_LINE = 32 << 20
_AT_ONCE = 16


SOCKET: Final = "CN_MCP_SOCKET"
URL: Final = "CN_MCP_URL"
USER: Final = "CN_MCP_USER"
"""The id of the user whose server it is, for an agent that runs as another one."""
_SECURE = "https://"


def run(words: Sequence[str], health: str = "") -> NoReturn:
    """Serve until standard input ends: the user where ``health`` names the server's file, else an agent."""
    take_umask()
    try:
        address, who = find_server(words, os.environ, health)
        workspace = Workspace(".") if who.token else UsersFolder(".")
    except (OSError, ValueError) as why:
        sys.stderr.write(f"cn: {why}\n")
        sys.exit(2)
    os.environ.pop("CN_AGENT_TOKEN", None)
    serve(address, who, workspace)
    sys.exit(0)


def find_server(words: Sequence[str], env: Mapping[str, str], health: str = "") -> tuple[Address, Who]:
    """Where the server is, and as whom we speak; raises ``ValueError`` with the next step."""
    rest = [word for word in words if word != "--write"]
    if rest[:1] == ["--hub"] and len(rest) == 2:
        rest = []  # an agent's server is not found by a hub
    if rest:
        raise ValueError(f"{rest[0][:60]!r} is unknown; cn mcp takes --write and --hub DIR")
    if token := env.get("CN_AGENT_TOKEN", ""):
        return agents_address(env), Who(token)
    if not health:
        raise ValueError("an agent's bridge needs CN_AGENT_TOKEN; 'cn mcp' is that of a user")
    if not os.path.exists(health):
        raise ValueError(f"no server has run yet, as {health} would say; 'cn agency serve' starts it")
    return Address(health=health), Who("", "--write" in words)


def agents_address(env: Mapping[str, str]) -> Address:
    """Where an agent's environment says that the server is; raises ``ValueError``.

    A socket shows whose it is. At a port anybody may listen while the server is away: it is no way out where a socket
    was given, unless a certificate shows whose it is.
    """
    socket, url, user = env.get(SOCKET, ""), env.get(URL, ""), env.get(USER, "")
    if socket and not (url.startswith(_SECURE) and not os.path.exists(socket)):
        return Address(socket, users=(int(user),) if user.isascii() and user.isdigit() else ())
    if url:
        return parse_address(url)
    raise ValueError(f"an agent's bridge needs {SOCKET} or {URL} beside CN_AGENT_TOKEN")


def serve(address: Address, who: Who, workspace: Workspace) -> None:
    """Answer each line of standard input; several at once, in the order in which the answers come."""
    output = threading.Lock()
    places = threading.Semaphore(_AT_ONCE)
    threads: list[threading.Thread] = []

    def say(message: Message) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # an id that is no text, which is given back as it came
            line = json.dumps(message, separators=(",", ":")).encode()
        with output:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    relay = Relay(address, who, workspace, say)

    def work(request: Message) -> None:
        try:
            say(relay.answer(request))
        except BrokenPipeError:
            os._exit(0)  # the client has left
        finally:
            places.release()

    while line := sys.stdin.buffer.readline(_MOST_LINE):
        request = _parse(line)
        if request is None:
            if not _is_response(line):
                say(_wrong(-32700, "this line is no JSON-RPC request"))
        elif not _is_id(request.get("id")):
            say(_wrong(-32600, "the id of this request is no text, number or null"))
        elif "id" in request:
            places.acquire()
            threads[:] = [one for one in threads if one.is_alive()]
            threads.append(threading.Thread(target=work, args=(request,), daemon=True))
            if request.get("method") in ("initialize", "server/discover"):
                threads.pop().run()  # what follows depends on its answer
            else:
                threads[-1].start()
    for thread in threads:
        thread.join()
    relay.close()


def _wrong(code: int, told: str) -> Message:
    """The answer to what has no id."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": told}}


def _is_id(value: object) -> bool:
    """Can an answer give it back (JSON-RPC 2.0, section 4)?"""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _is_response(line: bytes) -> bool:
    """Is it the answer to a question that nobody asked?"""
    return line.startswith(b"{") and (b'"result"' in line or b'"error"' in line)


def _parse(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("method"), str) else None
