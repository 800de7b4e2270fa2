"""A server of the Model Context Protocol that knows a secret, over the official library: by standard streams or a port.

``python other_server.py`` or ``python other_server.py PORT``. It shows its secret wherever it can.
"""

from __future__ import annotations

import base64
import os
import sys
import time

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

SECRET = os.environ.get("OTHER_SECRET", "")
server = MCPServer("other")
print(f"I begin with {SECRET}", file=sys.stderr, flush=True)
print(f"I break {SECRET[:10]} │ here\n        {SECRET[10:]} │", file=sys.stderr, flush=True)


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def tell(words: str = "") -> str:
    """Say what I know."""
    return f"{words} my secret is {SECRET}, or {base64.b64encode(SECRET.encode()).decode()}"


@server.tool(structured_output=True)
def send(to: str, text: str) -> dict[str, str]:
    """Send a text, with my secret as the key."""
    return {"to": to, "text": text, "key": SECRET, "pid": str(os.getpid())}


@server.tool()
def fail() -> str:
    """Always fails, and says why."""
    raise ToolError(f"the key {SECRET} was refused")


@server.tool()
def wait(seconds: float) -> str:
    """Answer late."""
    time.sleep(seconds)
    return "at last"


@server.tool(description=f"{'My key is ' * 97}{SECRET}, and so on.")
def boast() -> str:
    return ""


@server.tool()
def long(size: int) -> str:
    """A long answer."""
    return "x" * size


@server.tool()
def die() -> str:
    """End at once, in the middle of a call."""
    os._exit(9)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True)
    else:
        server.run("stdio")
