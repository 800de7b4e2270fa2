"""An agent of the tests: calls tools through a bridge of its own; for programs that execute this file."""

import json
import os
import subprocess
import sys
from typing import Any


def say(**told: Any) -> None:
    """A line for the test."""
    print(json.dumps(told), flush=True)


class Agent:
    """A bridge, started as an agent starts it."""

    def __init__(self) -> None:
        argv = [sys.executable, "-P", "-m", "cn.bridge"]
        self._bridge = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ})
        self._number = 0
        info = {"name": "test", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """The value that a call gave; a refusal is one too."""
        found = self._ask("tools/call", {"name": tool, "arguments": given})
        return dict(found["structuredContent"])

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._bridge.stdin
        assert self._bridge.stdout
        self._bridge.stdin.write(json.dumps(message).encode() + b"\n")
        self._bridge.stdin.flush()
        while line := self._bridge.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        sys.exit("the bridge has ended")
