"""Who opens connections one after the other is refused early, named, and keeps nobody out."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from cn.agency.names import Party, Uuid
from cn.agency.operations import ByHandler
from cn.server.arrivals import A_SECOND, AT_ONCE, GONE, REFUSED, Arrivals, Origin, origin_of
from tests.support.agency_server import Office, start_server, stop_server
from tests.support.hubs import cn
from tests.support.wraps import NEEDS

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


FIRST, SECOND = Origin(7), Origin(8)


def test_who_comes_without_pause_is_refused_and_told_once() -> None:
    told: list[Any] = []
    clock = [0.0]
    arrivals = Arrivals(lambda who, refused: told.append((who, refused)), lambda: clock[0])
    assert [arrivals.come(FIRST) for _ in range(AT_ONCE + 1)] == [True] * AT_ONCE + [False]
    assert arrivals.come(SECOND), "another one is let in"
    assert arrivals.show(FIRST, ONE)
    for _ in range(2 * REFUSED):
        arrivals.come(FIRST)
    assert told == [(ONE, REFUSED)]
    assert arrivals.told == [ONE]
    clock[0] = 1.0
    assert sum(arrivals.come(FIRST) for _ in range(100)) == A_SECOND
    clock[0] = 100.0
    assert arrivals.come(FIRST)
    assert arrivals.told == []


def test_who_comes_by_ever_other_processes_is_told_by_its_token() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), lambda: 0.0)
    assert sum(arrivals.come(one) and arrivals.show(one, ONE) for one in map(Origin, range(1, 3 * REFUSED))) == AT_ONCE
    assert told == [ONE]
    assert arrivals.show(FIRST, OTHER)


def test_who_shows_no_token_is_told_by_its_origin() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), lambda: 0.0)
    for _ in range(3 * REFUSED):
        arrivals.come(SECOND)
    assert told == [SECOND]


_CONNECTS = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
_STAYS = "s.recv(1)"


def origins(folder: Path, *before: str, then: str = _STAYS) -> list[Origin | None]:
    """Of two connections, each of which a new process opens."""
    path = str(folder / "sock")
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen()
        twice = "sh", "-c", 'for i in 1 2; do "$@" & done; wait', "sh"
        words = [*before, *twice, sys.executable, "-c", _CONNECTS + then, path]
        asks = stack.enter_context(subprocess.Popen(words))
        if then != _STAYS:
            asks.wait()
        return [origin_of(stack.enter_context(listening.accept()[0])) for _ in range(2)]


def test_each_process_is_an_origin_of_its_own(tmp_path: Path) -> None:
    first, second = origins(tmp_path)
    assert first is not None
    assert first.process
    assert first != second


def test_who_is_gone_is_one_origin_with_all_others_who_are(tmp_path: Path) -> None:
    assert origins(tmp_path, then="") == [GONE, GONE]


@NEEDS["bwrap"]
def test_all_processes_in_a_sandbox_are_one_origin(tmp_path: Path) -> None:
    sandbox = "bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"
    first, second = origins(tmp_path, *sandbox)
    assert first is not None
    assert first.namespace
    assert first == second


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
    assert log.count("it opens one connection after the other") == 1, log
    assert log.count("one connection after the other") <= 1 + len(flood), (
        "a process may be told before its token is read"
    )


def _faults(office: Office) -> dict[str, str]:
    found: dict[str, str] = json.loads((office.root / ".git/cn/agency/server.json").read_text())["faults"]
    return found


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.05)
