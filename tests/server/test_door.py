"""Who comes in, and who does not: tokens, sockets, hosts, bodies. Each attack is sent as it would come."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cn.agency.names import Party, Uuid
from cn.agency.operations import ByHandler, EndAgent, StopHandler
from cn.agency.tokens import hash_token, new_token
from cn.git.repository import open_hub
from cn.server.bodies import MOST_PARTS, Weight
from cn.server.door import AT_ONCE, Door
from cn.server.places import ServerPlaces, listen_at, listen_on, make_folder, places_of
from cn.server.toolbox import Caller
from cn.values.errors import Blocked
from tests.support.agency_server import Office, Server
from tests.support.mcp_clients import BRIDGE, connect, talk

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "permissions_list", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def _post(server: Server, token: str = "", body: Any = None, **headers: str) -> httpx2.Response:
    """A request as any program can make it."""
    sent = {**HEADERS, **({"authorization": f"Bearer {token}"} if token else {}), **headers}
    content = body if isinstance(body, bytes) else json.dumps(CALL if body is None else body).encode()
    return httpx2.post(server.url, content=content, headers=sent, timeout=30)


def test_no_other_text_than_the_token_of_a_live_agent_lets_anybody_in(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Lives"))
    assert _post(server, agent.token).status_code == 200
    near = [agent.token[:-1], f"{agent.token}x", f"{agent.token.upper()}A", hash_token(agent.token)]
    for token in ["", new_token(), "null", *near]:
        refused = _post(server, token)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == 'Bearer realm="cn"'
        assert agent.token not in refused.text
    for header in (f"Basic {agent.token}", agent.token, "Bearer", "Bearer x y"):
        assert _post(server, authorization=header).status_code == 401
    twice = [*HEADERS.items(), *(("authorization", f"Bearer {one}") for one in ("x", agent.token))]
    assert httpx2.post(server.url, content=json.dumps(CALL).encode(), headers=twice).status_code == 401


def test_a_token_dies_with_its_agent_and_with_its_handler(office: Office, server: Server) -> None:
    handler = office.handler("Is stopped")
    first = office.lease(handler)
    assert _post(server, first.token).status_code == 200
    office.do(EndAgent(first.principal.agent, "it was silent"))  # type: ignore[arg-type]
    said = _post(server, first.token)  # its look may be a second old, but what it asks is asked of the records
    assert said.status_code == 401 or said.json()["result"]["structuredContent"]["rule"] == "active-handler"
    second = office.lease(handler)
    assert _post(server, second.token).json()["result"]["isError"] is False
    office.do(StopHandler(handler))
    said = _post(server, second.token)
    assert said.status_code == 401 or said.json()["result"]["structuredContent"]["rule"] == "active-handler"


def test_after_a_second_a_dead_token_is_not_even_let_in() -> None:
    clock = [100.0]
    asked: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["cn.caller"].principal)

    alive = ByHandler(Uuid(Party("h")), 1, "alive")
    answers: list[Any] = [alive, None]

    async def look(view: Any) -> Any:
        return answers.pop(0)

    async def tools(caller: Caller) -> str:
        return ""

    door = Door(app, look, None, "", tools, clock=lambda: clock[0])  # type: ignore[arg-type]
    headers = [(b"authorization", b"Bearer abc")]
    scope = {"type": "http", "method": "POST", "server": ("127.0.0.1", 1), "headers": headers}
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def work() -> None:
        for seconds in (0.0, 0.5, 0.6):
            clock[0] += seconds
            await door(dict(scope), None, send)  # type: ignore[arg-type]

    asyncio.run(work())
    assert asked == [alive, alive]
    assert statuses[0] == 401


def test_of_one_caller_so_many_requests_are_under_way_and_others_are_answered() -> None:
    async def work() -> list[int]:
        done, told = asyncio.Event(), []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await done.wait()
            await send({"type": "http.response.start", "status": 200})

        async def look(view: Any) -> Any:
            return ByHandler(Uuid(Party("h")), 1, whose)

        async def send(message: Any) -> None:
            told.extend([message["status"]] if "status" in message else [])

        async def ask(token: bytes) -> None:
            scope = {"type": "http", "method": "POST", "server": ("", None), "headers": [(b"authorization", token)]}
            await door(scope, None, send)  # type: ignore[arg-type]

        async def tools(caller: Caller) -> str:
            return ""

        door = Door(app, look, None, "", tools)  # type: ignore[arg-type]
        whose = "one"
        first = [asyncio.create_task(ask(b"Bearer one")) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        await ask(b"Bearer one")
        assert told == [429]
        whose = "another"
        other = asyncio.create_task(ask(b"Bearer another"))
        await asyncio.sleep(0)
        done.set()
        await asyncio.gather(*first, other)
        whose = "one"
        await ask(b"Bearer one")
        return told

    assert asyncio.run(work()) == [429, *[200] * (AT_ONCE + 2)]


def test_a_web_page_of_another_name_is_not_answered(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Is in a browser"))
    assert _post(server, agent.token, host="evil.example.org").status_code == 421
    assert _post(server, agent.token, host="127.0.0.1.evil.example.org").status_code == 421
    assert _post(server, agent.token, origin="https://evil.example.org").status_code == 403
    assert _post(server, agent.token, **{"content-type": "text/plain"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"", {400}),
        (b"{", {400}),
        (b"[" * 100_000, {400}),
        (b"\xff\xfe", {400}),
        (b"null", {400}),
        (json.dumps([CALL]).encode(), {400}),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', {200, 400}),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing/here"}', {200, 404}),
        (b" " * (33 << 20), {413}),
        (b"[%s]" % b",".join([json.dumps(CALL).encode()] * 100_000), {400}),
        (b'{"a":{%s}}' % b",".join(b'"k%d":1' % one for one in range(100_000)), {400}),
    ],
    ids=["empty", "cut", "deep", "no text", "null", "batch", "no name", "no method", "too long", "calls", "arguments"],
)
def test_a_body_that_is_none_is_refused_and_the_server_goes_on(
    office: Office, server: Server, body: bytes, statuses: set[int]
) -> None:
    agent = office.lease(office.handler("Sends bodies"))
    said = _post(server, agent.token, body)
    assert said.status_code in statuses
    assert "Traceback" not in said.text
    if said.status_code == 200:
        assert "error" in said.json()
    assert _post(server, agent.token).status_code == 200


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_parts_of_a_body_are_counted_as_they_come_and_not_those_in_a_text(step: int) -> None:
    def why(value: Any) -> str:
        body, weight = json.dumps(value).encode(), Weight()
        for start in range(0, len(body), step):
            weight.add(body[start : start + step])
        return weight.why

    many = MOST_PARTS + 1
    assert "several calls" in why([CALL])
    for text in ("," * many, "[{" * many, '",' * many, '\\",' * many, "\\" * many + ",[" * many):
        assert why({**CALL, text: text, "last": [text, 1]}) == ""
    assert "more than 20,000" in why({"text": 'a\\"', "numbers": [1] * many})
    assert "more than 20,000" in why({"text": ["\\", '"\\'] * many})
    assert why({"numbers": [1] * (MOST_PARTS - 3)}) == ""


def test_an_argument_that_names_somebody_else_is_refused(office: Office, server: Server) -> None:
    top = office.handler("Boss")
    low = office.handler("Low", top)
    agent = office.lease(low)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            for tool in ("mail_inbox", "audit_read", "state_read", "outcome_list", "permissions_list"):
                assert (await ask.no(tool, handler=top))["rule"] in ("access", "known"), tool
            for name in ("as", "actor", "principal", "agent", "token"):
                assert (await ask.no("kb_list", **{name: top}))["rule"] == "arguments"
            assert (await ask.no("state_write", handler=top, content="mine now"))["rule"] == "access"
            assert (await ask.no("handler_stop", handler=top))["rule"] == "access"

    talk(work)


def test_over_the_users_socket_a_client_reads_and_writes_only_where_it_was_told_so(
    office: Office, server: Server, workspace: Path
) -> None:
    (workspace / "note").write_text("mine")
    words = [*BRIDGE, "--hub", str(office.root)]

    def ask(command: list[str], tool: str, **arguments: object) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        lines = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        done = subprocess.run(
            command, input=text, cwd=workspace, capture_output=True, text=True, check=True, timeout=60
        )
        found: dict[str, Any] = json.loads(done.stdout)["result"]
        return found

    assert not ask(words, "kb_list")["isError"]
    refused = ask(words, "kb_create", description="Mine", path="note")
    assert refused["structuredContent"]["rule"] == "read-only"
    made = ask([*words, "--write"], "kb_create", description="Mine", path="note")
    assert not made["isError"]
    with office.agency.store.reading() as facts:
        row = facts.file(made["structuredContent"]["file"])
    assert row
    assert row.owner == office.agency.me


def test_the_agents_socket_and_the_port_never_take_anybody_for_the_user(office: Office, server: Server) -> None:
    async def work() -> None:
        carrier = httpx2.AsyncHTTPTransport(uds=server.socket)
        async with httpx2.AsyncClient(transport=carrier) as http:
            said = await http.post("http://localhost/mcp", json=CALL, headers={**HEADERS, "cn-write": "1"})
            assert said.status_code == 401

    asyncio.run(work())
    assert _post(server, **{"cn-write": "1"}).status_code == 401


def test_a_slash_at_the_end_of_the_address_makes_no_difference(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Asks with a slash"))
    headers = {**HEADERS, "authorization": f"Bearer {agent.token}"}
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=server.socket)) as http:
        said = [http.post(f"http://localhost/mcp{end}", json=CALL, headers=headers) for end in ("", "/")]
    assert [one.status_code for one in said] == [200, 200]
    assert said[0].json() == said[1].json()


def test_the_sockets_are_in_a_folder_of_the_users_alone(office: Office, server: Server) -> None:
    for path in (Path(server.socket), Path(str(server.health["user_socket"]))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    health = office.root / ".git/cn/agency/server.json"
    assert stat.S_IMODE(health.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user_is_closed_before_it_is_read(tmp_path: Path) -> None:
    from cn.server.sdk.listen import may_come

    made = listen_at(tmp_path / "a.sock", others=True)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == 0 and parent != Path("/") and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    words = "import socket,sys,os; os.setuid(65534); s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
    child = subprocess.Popen([sys.executable, "-I", "-c", words, str(tmp_path / "a.sock")], stderr=subprocess.DEVNULL)
    try:
        made.settimeout(20)
        peer, _ = made.accept()
        with peer:
            assert not may_come(peer, {0, 1000})
            assert may_come(peer, {65534})
    finally:
        child.kill()
        child.wait()
        made.close()


def test_a_folder_that_somebody_else_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "cn").symlink_to(tmp_path / "real")
    with pytest.raises(Blocked, match="is not ours"):
        make_folder(ServerPlaces(tmp_path, tmp_path / "cn" / "x"), others=False)


def test_a_folder_of_another_beside_the_temporary_files_is_passed_by(
    tmp_path: Path, hub_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="cn-", dir="/tmp") as short:  # a socket has a short path
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setenv("XDG_STATE_HOME", f"{short}/state")
        hub = open_hub(hub_template)
        taken = Path(short, f"cn-{os.geteuid()}")
        assert places_of(hub).folder.parent == taken
        taken.symlink_to(tmp_path)
        places = places_of(hub)
        assert places.folder.parent == Path(short, "state/cn/run")
        make_folder(places, others=False)
        listen_at(places.agents).close()
        monkeypatch.setenv("XDG_STATE_HOME", f"{short}/{'x' * 100}")
        with pytest.raises(Blocked, match="is not ours") as refused:
            make_folder(places_of(hub), others=False)
        assert refused.value.hint.startswith("set XDG_RUNTIME_DIR")


def test_a_path_that_is_too_long_for_a_socket_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(Blocked) as refused:
        listen_at(tmp_path / ("x" * 120))
    assert "XDG_RUNTIME_DIR" in refused.value.hint


def test_the_port_of_the_last_time_is_taken_again_and_a_wanted_one_or_none() -> None:
    first = listen_on(0, 0)
    port = first.getsockname()[1]
    other = listen_on(0, port)
    assert other.getsockname()[1] != port
    with pytest.raises(Blocked, match="cannot listen on port") as told:
        listen_on(port, 0)
    assert (
        f"'ss -ltnp sport = :{port}' tells what has it: stop that ('cn agency stop WHO' ends an agent"
        in told.value.hint
    )
    first.close()
    again = listen_on(0, port)
    assert again.getsockname()[1] == port
    for one in (other, again):
        one.close()
