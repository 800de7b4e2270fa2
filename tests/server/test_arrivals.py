"""Who opens connections one after the other is refused early, named, and keeps nobody out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import httpx2

from cn.agency.names import Party, Uuid
from cn.agency.operations import ByHandler
from cn.server.arrivals import A_SECOND, AT_ONCE, REFUSED, Arrivals
from tests.support.agency_server import Office, start_server, stop_server
from tests.support.hubs import cn

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "permissions_list", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ONE, OTHER = (ByHandler(Uuid(Party(name * 8)), 0, name) for name in "ab")
_FLOODS = """
import socket, sys
path, token = sys.argv[1:]
lines = "POST /mcp HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", "Content-Length: 5000", "", "{"
half = "\\r\\n".join(lines)
held = []
while True:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(path)
        one.sendall(half.encode())
    except OSError:
        pass
    held.append(one)
    if len(held) > 60:
        held.pop(0).close()
"""


def test_who_comes_without_pause_is_refused_and_told_once() -> None:
    told: list[Any] = []
    clock = [0.0]
    arrivals = Arrivals(lambda who, refused: told.append((who, refused)), lambda: clock[0])
    assert [arrivals.come(7) for _ in range(AT_ONCE + 1)] == [True] * AT_ONCE + [False]
    assert arrivals.come(8), "another one is let in"
    assert arrivals.show(7, ONE)
    for _ in range(2 * REFUSED):
        arrivals.come(7)
    assert told == [(ONE, REFUSED)]
    assert arrivals.told == [ONE]
    clock[0] = 1.0
    assert sum(arrivals.come(7) for _ in range(100)) == A_SECOND
    clock[0] = 100.0
    assert arrivals.come(7)
    assert arrivals.told == []


def test_who_comes_by_ever_other_processes_is_told_by_its_token() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), lambda: 0.0)
    assert sum(arrivals.come(process) and arrivals.show(process, ONE) for process in range(1, 3 * REFUSED)) == AT_ONCE
    assert told == [ONE]
    assert arrivals.show(1, OTHER)


def test_who_shows_no_token_is_told_by_its_process() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), lambda: 0.0)
    for _ in range(3 * REFUSED):
        arrivals.come(9)
    assert told == [9]


def test_connections_without_pause_name_their_agent_and_keep_no_other_out(office: Office) -> None:
    hostile = office.lease(office.handler("Opens connections"))
    server = start_server(office.root)
    other = office.lease(office.handler("Asks beside them"))
    words = [sys.executable, "-c", _FLOODS, server.socket, hostile.token]
    with ExitStack() as stack:
        stack.callback(stop_server, server)
        flood = [subprocess.Popen(words) for _ in range(4)]
        for one in flood:
            stack.callback(one.wait)
            stack.callback(one.kill)
        _until(lambda: hostile.principal.agent in _faults(office))
        headers = {**HEADERS, "authorization": f"Bearer {other.token}"}
        for transport in (httpx2.HTTPTransport(uds=server.socket, retries=50), httpx2.HTTPTransport(retries=50)):
            with httpx2.Client(transport=transport, timeout=30) as http:
                assert http.post(server.url, content=json.dumps(CALL), headers=headers).status_code == 200
        assert "opens one connection after the other" in " ".join(
            cn("agency", "status", hub=office.root).stdout.split()
        )
        assert [one.poll() for one in flood] == [None] * 4
    log = (office.root.parent / "server.log").read_text()
    assert log.count("one connection after the other") == 1, log


def _faults(office: Office) -> dict[str, str]:
    found: dict[str, str] = json.loads((office.root / ".git/cn/agency/server.json").read_text())["faults"]
    return found


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.05)
