"""The server's sockets: whoever takes them away, agents find the server again, or somebody is told."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cn.agency.server_seen import see_server
from cn.server.places import ServerPlaces, make_folder
from cn.server.sockets import Sockets
from cn.system.files import hold, identity_of
from tests.support.agency_server import Office, Server, open_office, serving
from tests.support.hubs import cn
from tests.support.mcp_clients import connect, talk

_SECONDS = 120.0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Office]:
    """A hub that no other test uses."""
    cn("init", "office", cwd=tmp_path)
    made = open_office(tmp_path / "cn-office")
    yield made
    made.agency.store.close()


def _remove(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    (path / "x").mkdir(parents=True)


def _another(path: Path) -> None:
    path.rename(path.with_name("taken"))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()


def _whole_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def test_a_socket_that_somebody_took_away_or_whose_place_is_taken_is_made_anew(alone: Office) -> None:
    agent = alone.lease(alone.handler("Calls"))
    with serving(alone.root) as server:
        path = Path(server.socket)
        for harm in (_remove, _folder, _another, _whole_folder):
            harm(path)
            _until(lambda: _answers(path))
            _asks(server, agent.token)
        health = json.loads((alone.root / ".git/cn/agency/server.json").read_text())
        assert "is made anew" in health["last_error"]["text"]
        assert [one.name for one in path.parent.parent.glob("*.aside*")] == ["agents.sock.aside"]


def test_what_a_mode_closes_of_a_server_is_open_again_at_its_next_look(alone: Office) -> None:
    with serving(alone.root) as server:
        sockets = Path(server.socket).parent.parent
        state = alone.root / ".git/cn"
        places = {
            Path(server.socket): 0o600,
            sockets / "user.sock": 0o600,
            sockets / "agents": 0o700,
            sockets: 0o700,
            state / "agency.git": 0o755,
            state / "agency": 0o700,
            state: 0o755,
        }
        for place in places:
            place.chmod(0)
        _until(lambda: all(place.stat().st_mode & 0o700 == mode & 0o700 for place, mode in places.items()))
        _until(lambda: "and is open again" in (state / "agency/server.json").read_text())
        Path(server.socket).chmod(0o666)
        _until(lambda: Path(server.socket).stat().st_mode & 0o777 == 0o600)
        _asks(server, alone.lease(alone.handler("Calls again")).token)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as made:
        return made.connect_ex(str(path)) == 0


def _asks(server: Server, token: str) -> None:
    async def work() -> None:
        async with connect(server, token, "socket") as ask:
            await ask.do("mail_inbox")

    talk(work)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_folder_in_the_place_of_a_socket_keeps_no_server_from_starting(alone: Office) -> None:
    with serving(alone.root) as server:
        path = Path(server.socket)
    _folder_of(path)
    with serving(alone.root) as server:
        assert path.is_socket()


def _folder_of(path: Path) -> None:
    (path / "x").mkdir(parents=True)


def test_what_is_not_ours_is_not_taken_away_at_the_end(tmp_path: Path) -> None:
    places = ServerPlaces(tmp_path / "state", tmp_path / "run/hub")
    make_folder(places, others=False)
    sockets = Sockets(places, others=False)
    opened = sockets.open()
    assert sockets.renew() == []
    places.user.unlink()
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(str(places.user))
        sockets.remove()
    assert places.user.is_socket()
    assert not places.agents.exists()
    for one in opened:
        one.close()


def test_two_servers_of_one_user_leave_each_others_folders_as_they_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """One has agents of other users, who pass through the folder of both, and find the other hub's own closed."""
    folder = tmp_path_factory.mktemp("s")
    open_to_some = ServerPlaces(folder / "state 1", folder / "run/1")
    closed = ServerPlaces(folder / "state 2", folder / "run/2")
    both = Sockets(open_to_some, others=True), Sockets(closed, others=False)
    opened = [one for sockets in both for one in sockets.open()]
    for _ in range(2):
        assert [sockets.mend() for sockets in both] == [[], []]
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o711
    assert stat.S_IMODE(open_to_some.folder.stat().st_mode) == 0o711
    assert stat.S_IMODE(closed.folder.stat().st_mode) == 0o700
    for one in opened:
        one.close()


def test_status_and_doctor_say_who_gets_no_agent_and_where_the_server_is_not_reached(tmp_path: Path) -> None:
    cn("init", "seen", cwd=tmp_path)
    hub = tmp_path / "cn-seen"
    handler = json.loads(cn("agency", "init", "--runner", "nosuch", "--json", hub=hub).stdout)["outcome"]
    health = hub / ".git/cn/agency/server.json"
    value = {
        "pid": os.getpid(),
        "place": identity_of(health.parent.parent),
        "state": "running",
        "socket": str(tmp_path / "agents.sock"),
        "user_socket": str(tmp_path / "user.sock"),
        "problems": {handler: "this machine has no runner 'nosuch'"},
        "faults": {handler: "OSError: the disk is full"},
    }
    health.parent.mkdir(exist_ok=True)
    health.write_text(json.dumps(value))
    status = " ".join(cn("agency", "status", hub=hub).stdout.split())
    doctor = " ".join(cn("doctor", hub=hub, check=None).stdout.split())
    assert f"server: runs (pid {os.getpid()}), not reached at {value['socket']}" in status
    assert f'no agent for {handler[:8]} "Help the user accomplish all their work": this machine has no' in status
    assert f"handler {handler[:8]} gets no agent: this machine has no runner 'nosuch'" in doctor
    for text in (status, doctor):
        assert "the disk is full" in text
    other = value | {"place": identity_of(tmp_path)}
    health.write_text(json.dumps(other))
    assert "server: none runs" in cn("agency", "status", hub=hub).stdout, (
        "it is that of the hub of which this is a copy"
    )
    assert "not reached" not in cn("doctor", hub=hub, check=None).stdout
    health.write_text(json.dumps(value | {"state": "stopping"}))
    assert f"server: is ending (pid {os.getpid()})" in cn("agency", "status", hub=hub).stdout
    held = hold(hub / ".git/cn/agency.server.lock")
    assert held is not None
    refused = cn("agency", "serve", "--no-agents", hub=hub, check=75).stderr
    os.close(held)
    assert f"the server of this hub is ending (pid {os.getpid()})" in refused
    health.write_text(json.dumps(value | {"state": "stopped"}))
    assert "server: none runs" in cn("agency", "status", hub=hub).stdout


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '{"pid": true}', '{"pid": 99999999, "state": "running"}', "[" * 9999]
)
def test_a_health_file_may_hold_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / "agency").mkdir()
    (tmp_path / "agency/server.json").write_text(text)
    assert see_server(tmp_path).pid == 0
