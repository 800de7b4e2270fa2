"""Agency's server, measured: a call beside an empty tool of the same library, thirty agents at once, memory, idleness.

``make bench-server``. Nothing here passes or fails; the figures are printed and written to
``benchmarks/RESULTS-server.md``. Clients are processes of their own, as agents are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cn.bridge.connection import Connection, parse_address  # noqa: E402

_VERSION = "2025-11-25"
_FLOOR = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("floor")

@server.tool()
def nothing() -> str:
    "Nothing."
    return ""

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True, stateless_http=True)
"""
_AGENTS = 30


class Row(NamedTuple):
    """A figure with its floor and its goal."""

    what: str
    figure: str
    floor: str = ""
    goal: str = ""


def ask(connection: Connection, token: str, tool: str, **arguments: object) -> None:
    """One call, which has to be done."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": _VERSION,
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }
    response = connection.post(json.dumps(body).encode(), headers)
    answer = json.loads(response.body)
    if response.status != 200 or answer["result"].get("isError"):
        raise AssertionError(response)


def times(count: int, do: Callable[[], None]) -> list[float]:
    """How long each took, in milliseconds."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        do()
        found.append((time.perf_counter() - start) * 1000)
    return found


def load(url: str, tokens: Sequence[str], seconds: float) -> None:
    """What the process of clients does: each agent asks without a pause; prints how long each call took.

    An agent writes; one without a token asks the empty tool.
    """
    found: list[float] = []
    end = time.monotonic() + seconds

    def work(token: str) -> None:
        connection = Connection(parse_address(url))
        tool, given = ("audit_submit", {"text": "I went on."}) if token else ("nothing", {})
        while time.monotonic() < end:
            found.extend(times(1, lambda: ask(connection, token, tool, **given)))

    threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(found))


@contextmanager
def floor_server(folder: Path) -> Iterator[str]:
    """An empty tool of the same library."""
    from tests.support.servers import free_port

    script, port = folder / "floor.py", free_port()
    script.write_text(_FLOOR)
    process = subprocess.Popen(
        [sys.executable, script, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                ask(Connection(parse_address(url)), "", "nothing")
                break
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def processor_seconds(pid: int) -> float:
    """What a process used of a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, calls: int, seconds: float) -> list[Row]:
    """All of it on a hub of its own."""
    from tests.support.agency_server import open_office, serving

    quiet = {"stdout": subprocess.DEVNULL, "check": True}
    subprocess.run([sys.executable, "-P", "-m", "cn", "init", "bench"], cwd=folder, env=environment(), **quiet)  # type: ignore[call-overload]
    office = open_office(folder / "cn-bench")
    handlers = [office.handler(f"Handler {number}") for number in range(_AGENTS)]
    rows: list[Row] = []
    with serving(office.root, env=environment()) as server, floor_server(folder) as floor:
        agents = [office.lease(handler) for handler in handlers]  # tokens of before the server count over its sockets
        token = agents[0].token
        ours, theirs = Connection(parse_address(server.url)), Connection(parse_address(floor))
        looks = (ours, token, "permissions_list"), (theirs, "", "nothing")
        for connection, who, tool in looks:
            times(20, lambda c=connection, w=who, t=tool: ask(c, w, t))  # type: ignore[misc]
        look, empty = (
            statistics.median(times(calls, lambda c=c, w=w, t=t: ask(c, w, t)))  # type: ignore[misc]
            for c, w, t in looks
        )
        write = statistics.median(times(calls, lambda: ask(ours, token, "audit_submit", text="I went on.")))
        rows.append(Row("a call that looks, p50", f"{look:.1f} ms", f"{empty:.1f} ms, an empty tool", "≤ 2 ×"))
        rows.append(Row("a call that writes, p50", f"{write:.1f} ms", f"{empty:.1f} ms, an empty tool"))
        beside = f"{_at_once(floor, [''] * _AGENTS, seconds)}, an empty tool"
        at_once = _at_once(server.url, [one.token for one in agents], seconds)
        rows.append(Row(f"{_AGENTS} agents at once write", at_once, beside, "≥ 200/s, p99 ≤ 250 ms"))
        rows += _connected(server.process.pid, server.socket, [one.token for one in agents], folder, seconds)
    office.agency.store.close()
    return rows


def _at_once(url: str, tokens: Sequence[str], seconds: float) -> str:
    command = [sys.executable, __file__, "--load", url, *tokens, "--seconds", str(seconds)]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    found = sorted(json.loads(done.stdout))
    late = found[int(len(found) * 0.99)]
    return f"{len(found) / seconds:.0f}/s, p50 {statistics.median(found):.0f} ms, p99 {late:.0f} ms"


def _connected(pid: int, socket: str, tokens: Sequence[str], folder: Path, seconds: float) -> list[Row]:
    """Bridges that are connected, and wait."""
    hello = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": _VERSION,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        }
    )
    bridges, starts = [], []
    for token in tokens:
        env = {**environment(), "CN_AGENT_TOKEN": token, "CN_MCP_SOCKET": socket}
        start = time.perf_counter()
        command = [sys.executable, "-P", "-m", "cn", "mcp"]
        bridge = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert bridge.stdin
        assert bridge.stdout
        bridge.stdin.write(f"{hello}\n".encode())
        bridge.stdin.flush()
        bridge.stdout.readline()
        starts.append((time.perf_counter() - start) * 1000)
        bridges.append(bridge)
    size = memory(pid)
    each = statistics.median(memory(bridge.pid) for bridge in bridges)
    before, wall = processor_seconds(pid), time.monotonic()
    time.sleep(max(seconds, 10))
    idle = (processor_seconds(pid) - before) / (time.monotonic() - wall) * 100
    for bridge in bridges:
        bridge.kill()
        bridge.wait()
    python = statistics.median(
        times(5, lambda: subprocess.run([sys.executable, "-P", "-c", "pass"], check=True) and None)  # type: ignore[arg-type]
    )
    return [
        Row(f"server with {len(tokens)} connected", f"{size:.0f} MB", "", "≤ 120 MB"),
        Row("idle with them", f"{idle:.2f} % of a core", "", "≤ 1 %"),
        Row("a bridge, from its start to its first answer", f"{min(starts):.0f} ms", f"{python:.0f} ms, Python alone"),
        Row("a bridge", f"{each:.1f} MB"),
    ]


def environment() -> dict[str, str]:
    """Nothing of the machine's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "HOME") if name in os.environ}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHONPATH": str(ROOT)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--load", nargs="+", metavar="URL TOKEN", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        load(given.load[0], given.load[1:], given.seconds)
        return
    folder = Path(tempfile.mkdtemp(prefix="cn-bench-"))
    try:
        rows = measure(folder, given.calls, given.seconds)
    finally:
        shutil.rmtree(folder)
    table = [f"| {' | '.join(row)} |" for row in [Row("what", "figure", "beside", "goal"), Row(*["---"] * 4), *rows]]
    about = f"{os.cpu_count()} cores, Python {platform.python_version()}, mcp {version('mcp')}"
    about = f"{datetime.now():%Y-%m-%d}, {about}, load {os.getloadavg()[1]:.1f}"
    text = "\n".join(["# Agency's server", "", f"`make bench-server`, {about}.", "", *table, ""])
    print(text)
    (ROOT / "benchmarks/RESULTS-server.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
