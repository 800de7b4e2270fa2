"""Who opens connections one after the other is refused early, named, and keeps nobody out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from cn.agency.names import Party, Uuid
from cn.server.arrivals import (
    A_SECOND,
    AT_ONCE,
    GONE,
    IN_A_TURN,
    REFUSED,
    Agents,
    Arrivals,
    Counted,
    Origin,
    Pid,
    process_of,
)
from tests.support.agency_server import Office, Server, stop_server
from tests.support.hubs import ROOT, cn
from tests.support.wraps import NEEDS

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "permissions_list", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ONE, OTHER = (Uuid(Party(f"{digit * 8}-1111-4111-8111-111111111111")) for digit in "12")
FIRST, SECOND = Pid(7), Pid(8)
NOBODY = Agents(dict)
_SECONDS = 100.0


def test_who_comes_without_pause_is_refused_and_told_once() -> None:
    told: list[Any] = []
    clock = [0.0]
    arrivals = Arrivals(lambda who, refused: told.append((who, refused)), NOBODY, lambda: clock[0])
    assert [arrivals.come(FIRST) for _ in range(AT_ONCE + 1)] == [True] * AT_ONCE + [False]
    assert arrivals.come(SECOND), "another one is let in"
    for _ in range(2 * REFUSED):
        arrivals.come(FIRST)
    assert told == [(FIRST, REFUSED)]
    assert arrivals.told == [FIRST]
    clock[0] = 1.0
    assert sum(arrivals.come(FIRST) for _ in range(100)) == A_SECOND
    clock[0] = 100.0
    assert arrivals.come(FIRST)
    assert arrivals.told == []


def test_who_comes_from_ever_other_places_is_told_by_its_token() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), NOBODY, lambda: 0.0)
    assert sum(arrivals.come(Pid(one)) and arrivals.show(ONE) for one in range(1, 3 * REFUSED)) == AT_ONCE
    assert told == [ONE]
    assert arrivals.show(OTHER)


@pytest.mark.parametrize("every", [2, 7, 1000])
def test_a_turn_refuses_as_many_however_many_are_taken_in_between(tmp_path: Path, every: int) -> None:
    """Others are served between turns: none may be longer where more is taken."""
    come = list[bool]()

    class Takes(Arrivals):
        def come(self, origin: Origin) -> bool:
            come.append(len(come) % every == every - 1)
            return come[-1]

    with ExitStack() as stack:
        listens = stack.enter_context(Counted(Takes(lambda who, refused: None, NOBODY)))
        listens.bind(str(tmp_path / "socket"))
        listens.listen()
        listens.setblocking(False)
        for _ in range(4 * IN_A_TURN):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(tmp_path / "socket"))
        while len(come) < 4 * IN_A_TURN:
            before = len(come)
            with suppress(BlockingIOError):
                while True:
                    stack.enter_context(listens.accept()[0])
            assert come[before:].count(False) <= IN_A_TURN
        assert come.count(True) == 4 * IN_A_TURN // every


def test_of_those_that_are_gone_nobody_is_told() -> None:
    told: list[Any] = []
    arrivals = Arrivals(lambda who, refused: told.append(who), NOBODY, lambda: 0.0)
    assert sum(arrivals.come(GONE) for _ in range(3 * REFUSED)) == AT_ONCE
    assert told == []


_CHILD = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
_ORPHAN = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.execv(sys.executable, [sys.executable, '-c', "
_ORPHAN += f'"{_CHILD}", sys.argv[1]])'
_TAKES_ORPHANS = "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1); print(flush=True); "
_TAKES_ORPHANS += "subprocess.run(sys.argv[1:]); sys.stdin.read()"


def origins(folder: Path, *before: str, script: str = _CHILD) -> list[Origin]:
    """Of two connections, each of which a new process opens below one that takes orphans (prctl(2)), which is
    said to be an agent's launcher.
    """
    path, launchers = str(folder / "sock"), dict[int, Uuid]()
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen()
        listening.settimeout(_SECONDS)
        agents = Agents(lambda: launchers)
        twice = "sh", "-c", 'for i in 1 2; do "$@" & done; wait', "sh"
        words = [sys.executable, "-c", _TAKES_ORPHANS, *before, *twice, sys.executable, "-c", script, path]
        top = stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        stack.callback(top.stdin.close if top.stdin else top.kill)
        assert top.stdout
        top.stdout.readline()
        launchers[top.pid] = ONE
        taken = [stack.enter_context(listening.accept()[0]) for _ in range(2)]
        return [agents.whose(process_of(one)) for one in taken]


@pytest.mark.parametrize("script", [_CHILD, _ORPHAN], ids=["child", "orphan of a session of its own"])
def test_each_process_below_a_launcher_is_its_agents(tmp_path: Path, script: str) -> None:
    assert origins(tmp_path, script=script) == [ONE, ONE]


@NEEDS["bwrap"]
def test_each_process_in_a_sandbox_is_the_agents_also_where_that_makes_sandboxes(tmp_path: Path) -> None:
    sandbox = "bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/"
    assert origins(tmp_path, *sandbox, "--proc", "/proc", *sandbox) == [ONE, ONE]


def test_however_deep_a_process_is_it_is_its_agents_or_nobody_s_and_its_second_look_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[int]()

    def above(process: int) -> Iterator[int]:
        """Each is started by the one with the number before it; 1000 is a launcher."""
        for one in range(process, 0, -1):
            looks.append(one)
            yield one

    monkeypatch.setattr("cn.server.arrivals.ancestors", above)
    monkeypatch.setattr("cn.server.arrivals.time.monotonic", lambda: 5.0)
    agents = Agents(lambda: {1000: ONE})
    assert agents.whose(2900) == ONE
    assert len(looks) == 1901
    looks.clear()
    assert [agents.whose(pid) for pid in (2901, 2902, 2903)] == [ONE] * 3
    assert len(looks) == 6
    assert [agents.whose(pid) for pid in (9000, 9001)] == [GONE, GONE], "one of thousands is not looked for to its end"
    assert agents.whose(900) == 900, "who is above the launcher is itself"


def test_who_is_below_no_launcher_is_one_process_and_who_is_gone_is_nobody() -> None:
    agents = Agents(lambda: {1 << 30: ONE})
    assert agents.whose(os.getpid()) == os.getpid()
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert agents.whose(gone.pid) == GONE


_SERVES = """
import sys
from pathlib import Path
from cn.agency.agency import open_agency
from cn.git.repository import open_hub
from cn.server.machine_tools import Settings
from cn.server.places import places_of
from cn.server.serve import Plan, serve
from cn.server.tools import BASE

launcher, agent = Path(sys.argv[2]), sys.argv[3]

class Spawner:
    def __init__(self, agency, perform, reach):
        pass
    async def step(self, now):
        pass
    def launchers(self):
        return {int(launcher.read_text()): agent} if launcher.exists() else {}
    def flooded(self, agent, why):
        launcher.with_name("flooded").write_text(f"{agent} {why}")
    async def close(self):
        pass

hub = open_hub(Path(sys.argv[1]))
sys.exit(serve(open_agency(hub), places_of(hub), Plan(Settings(Path("agency.toml")), BASE, Spawner)))
"""
_FLOODS = """
import os, socket, sys
path, token, how = sys.argv[1:]
anew = how != "by few"
lines = "POST /mcp HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", "Content-Length: 5000", "", "{"
half = "\\r\\n".join(lines if token else lines[:1])
for _ in range(4):
    if not os.fork():
        break
held = []
while True:
    if anew and os.fork():
        os.wait()
        continue
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(path)
        one.sendall(half.encode())
        if how == "a process for each":
            one.settimeout(0.2)
            one.recv(1)
    except OSError:
        pass
    if anew:
        os._exit(0)
    held.append(one)
    if len(held) > 60:
        held.pop(0).close()
"""


@pytest.mark.parametrize("token", [True, False], ids=["token", "none"])
@pytest.mark.parametrize("how", ["by few", "a process for each", "gone at once"])
def test_connections_without_pause_name_their_agent_and_keep_no_other_out(
    office: Office, tmp_path: Path, how: str, *, token: bool
) -> None:
    """Whose a process is that is gone when somebody looks nobody can say: it is let be, and keeps nobody out either."""
    hostile = office.lease(office.handler("Opens connections"))
    script, launcher, health = tmp_path / "serve.py", tmp_path / "launcher", office.root / ".git/cn/agency/server.json"
    script.write_text(_SERVES)
    words = [sys.executable, str(script), str(office.root), str(launcher), hostile.principal.agent]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        serves = subprocess.Popen(words, env=env, stdout=log, stderr=log)
        stack.callback(lambda: stop_server(Server(serves, {})))
        _until(lambda: health.exists() and json.loads(health.read_text())["pid"] == serves.pid)
        server = Server(serves, json.loads(health.read_text()))
        other = office.lease(office.handler("Asks beside them"))  # of this server: at its port others do not count
        floods = [sys.executable, "-c", _FLOODS, server.socket, hostile.token if token else "", how]
        flood = subprocess.Popen(floods, start_new_session=True)
        launcher.write_text(str(flood.pid))
        stack.callback(flood.wait)
        stack.callback(lambda: os.killpg(flood.pid, 9))
        if how != "gone at once":
            _until(lambda: hostile.principal.agent in _faults(health))
            _until((tmp_path / "flooded").exists)
            assert hostile.principal.agent in (tmp_path / "flooded").read_text()
        headers = {**HEADERS, "authorization": f"Bearer {other.token}"}
        for made in (_OverSocket(server.socket), HTTPConnection("localhost", int(server.health["port"]), timeout=30)):
            made.request("POST", "/mcp", json.dumps(CALL), headers)
            assert made.getresponse().status == 200
            made.close()
        told = " ".join(cn("agency", "status", hub=office.root).stdout.split())
        assert set(_faults(health)) <= {hostile.principal.agent}, "nobody else is blamed"
        assert ("opens one connection after the other" in told) == bool(_faults(health))
        assert bool(_faults(health)) or how == "gone at once"
        assert flood.poll() is None
    assert (tmp_path / "log").read_text().count(f"{hostile.principal.agent}: it opens one connection") <= 1


class _OverSocket(HTTPConnection):
    """Over a Unix socket; where its queue is full it waits (connect(2))."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def _faults(health: Path) -> Mapping[str, str]:
    found: dict[str, str] = json.loads(health.read_text())["faults"]
    return found


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
