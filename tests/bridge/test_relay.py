"""The bridge between a client and a server that behaves badly: what it sends, asks again, and tells."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cn.bridge.connection import Address, Connection, Unreachable, parse_address
from cn.bridge.files import Workspace
from cn.bridge.owners import NotOurs, check_peer, check_place
from cn.bridge.relay import Relay, Who
from cn.bridge.run import find_server
from cn.system.files import identity_of
from tests.support.hubs import cn_env

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "kb_list", "arguments": {}}}
Script = Callable[[bytes], bytes | None]


def _answer(value: Any, *headers: str) -> bytes:
    body = json.dumps(value).encode()
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _result(**value: Any) -> bytes:
    return _answer({"jsonrpc": "2.0", "id": 7, "result": value})


@contextmanager
def _scripted(path: Path, script: Script) -> Iterator[list[bytes]]:
    """A server on a Unix socket that answers each request as the script says; None ends the connection."""
    seen: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # who asked may be gone
            while request := _read(connection):
                seen.append(request)
                said = script(request)
                if said is None:
                    return
                connection.sendall(said)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield seen
    finally:
        listener.close()


def _read(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def _relay(path: Path, folder: Path, said: list[Any] | None = None, patience: float = 2.0) -> Iterator[Relay]:
    told = said if said is not None else []
    relay = Relay(Address(str(path)), Who("tok"), Workspace(str(folder)), told.append, patience)
    try:
        yield relay
    finally:
        relay.close()


def _ask(path: Path, folder: Path, request: dict[str, Any] = CALL, patience: float = 2.0) -> dict[str, Any]:
    """One request."""
    with _relay(path, folder, patience=patience) as relay:
        return relay.answer(dict(request))


def test_it_says_who_it_is_in_a_header_and_names_each_request(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with _scripted(path, lambda request: _result(content=[])) as seen, _relay(path, tmp_path) as relay:
        assert relay.answer(dict(CALL))["result"] == {"content": []}
        relay.answer(dict(CALL))
    heads = [dict(line.split(": ", 1) for line in one.decode().split("\r\n")[1:] if ": " in line) for one in seen]
    assert heads[0]["Authorization"] == "Bearer tok"
    assert heads[0]["cn-bridge"] == "1"
    assert len(heads[0]["cn-request"]) == 32
    assert heads[0]["cn-request"] != heads[1]["cn-request"]


def test_a_request_that_holds_no_text_is_answered_by_its_id_and_not_sent(tmp_path: Path) -> None:
    call = {**CALL, "params": {"name": "kb_create", "arguments": {"content": "a\ud800b"}}}
    with _scripted(tmp_path / "s", lambda request: _result(content=[])) as seen:
        answer = _ask(tmp_path / "s", tmp_path, call)
        other = _ask(tmp_path / "s", tmp_path, {"jsonrpc": "2.0", "id": 8, "method": "x\udfff"})
    assert seen == []
    assert (answer["id"], answer["result"]["isError"]) == (7, True)
    assert "holds \\ud800 alone" in answer["result"]["structuredContent"]["reason"]
    assert (other["id"], other["error"]["code"]) == (8, -32602)


def test_what_the_server_could_not_read_is_answered_by_the_requests_id(tmp_path: Path) -> None:
    bad = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    with _scripted(tmp_path / "s", lambda request: _answer(bad)):
        assert _ask(tmp_path / "s", tmp_path) == bad | {"id": 7}


def test_a_lost_answer_is_asked_for_again_under_the_same_name(tmp_path: Path) -> None:
    answers = iter([None, None, _result(content=[])])
    with _scripted(tmp_path / "s", lambda request: next(answers)) as seen:
        assert "result" in _ask(tmp_path / "s", tmp_path)
    names = {line for one in seen for line in one.split(b"\r\n") if line.startswith(b"cn-request")}
    assert (len(seen), len(names)) == (3, 1)


@pytest.mark.parametrize("tool", ["mcp_call", "gmail__send"])
def test_what_another_server_may_have_done_is_never_asked_again(tmp_path: Path, tool: str) -> None:
    call = {**CALL, "params": {"name": tool, "arguments": {}}}
    with _scripted(tmp_path / "s", lambda request: None) as seen:
        answer = _ask(tmp_path / "s", tmp_path, call)
    assert len(seen) == 1
    assert answer["error"]["code"] == -32000


def test_a_server_that_is_not_there_is_waited_for_and_then_told(tmp_path: Path) -> None:
    answer = _ask(tmp_path / "s", tmp_path, patience=0.5)
    assert answer["id"] == 7
    assert "'cn agency serve'" in answer["error"]["message"]


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[[[[",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 204 No\r\n\r\n",
    ],
    ids=["500", "no json", "a list", "nothing"],
)
def test_what_is_no_answer_is_an_error_of_this_request(tmp_path: Path, said: bytes) -> None:
    with _scripted(tmp_path / "s", lambda request: said):
        answer = _ask(tmp_path / "s", tmp_path)
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert "a call that writes may have been done" in answer["error"]["message"]


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_what_is_no_http_ends_the_connection(tmp_path: Path, said: bytes) -> None:
    with _scripted(tmp_path / "s", lambda request: said), pytest.raises(Unreachable) as why:
        Connection(Address(str(tmp_path / "s"))).post(b"{}", {})
    assert why.value.sent


def test_a_body_in_chunks_is_put_together(tmp_path: Path) -> None:
    body = _result(content=[]).partition(b"\r\n\r\n")[2]
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:]))
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
    path = tmp_path / "s"
    with _scripted(path, lambda request: said) as seen, _relay(path, tmp_path) as relay:
        for _ in range(2):
            assert relay.answer(dict(CALL))["result"] == {"content": []}
    assert len(seen) == 2


def test_a_token_that_is_dead_tells_the_agent_to_end(tmp_path: Path) -> None:
    said = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"
    with _scripted(tmp_path / "s", lambda request: said):
        answer = _ask(tmp_path / "s", tmp_path)
    assert "so end" in answer["error"]["message"]


def test_a_content_becomes_a_copy_and_a_strange_name_none(tmp_path: Path) -> None:
    value = {"file": "ab-1", "hash": "cd" * 32, "next": 5}
    meta = {"cn/content": "aGVsbG8="}

    def read(value: dict[str, Any]) -> dict[str, Any]:
        path = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        content = [{"type": "text", "text": "version 1"}]
        script = _result(content=content, structuredContent=value, _meta=dict(meta))
        with _scripted(path, lambda request: script):
            result: dict[str, Any] = _ask(path, tmp_path)["result"]
            return result

    placed = read(value)
    assert (tmp_path / placed["structuredContent"]["path"]).read_text() == "hello"
    assert "next" not in placed["structuredContent"]
    assert placed["_meta"] == {}
    for wrong in ("../../etc", "a/b", ""):
        strange = read({**value, "file": wrong})
        assert "path" not in strange["structuredContent"]
        assert "no copy could be placed" in strange["content"][0]["text"]


def test_other_tools_are_told_once_they_are_others(tmp_path: Path) -> None:
    digests = iter(["one", "one", "two", "two"])
    said: list[Any] = []
    script = {"jsonrpc": "2.0", "id": 7, "result": {"tools": [], "content": []}}
    path = tmp_path / "s"
    server = _scripted(path, lambda request: _answer(script, f"cn-tools: {next(digests)}"))
    with server, _relay(path, tmp_path, said) as relay:
        relay.answer({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})
        for count in (0, 1, 1):
            relay.answer(dict(CALL))
            assert len(said) == count
    assert said[0]["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.org/mcp", "show the token to the network"),
        ("ftp://localhost/mcp", "no URL"),
        ("localhost:80", "no URL"),
        ("https://user:word@example.org/", "no URL"),
        ("http://localhost:x/", "no URL"),
        ("http://localhost/a\r\nX-Evil: 1", "no URL"),
    ],
)
def test_a_url_that_would_leak_or_is_none_is_refused(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_address(url)


def test_where_the_server_is_follows_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    token = {"CN_AGENT_TOKEN": "t"}
    both = {**token, "CN_MCP_SOCKET": str(tmp_path / "s"), "CN_MCP_URL": "http://localhost:9/mcp", "CN_MCP_USER": "7"}
    assert find_server([], both) == (Address(str(tmp_path / "s"), users=(7,)), Who("t"))
    assert find_server([], {**token, "CN_MCP_URL": both["CN_MCP_URL"]})[0].port == 9
    assert parse_address("https://example.org")[1:5] == ("example.org", 443, "/mcp", True)
    assert parse_address("http://[::1]:8/x")[1:4] == ("::1", 8, "/x")
    with pytest.raises(ValueError, match="CN_MCP_SOCKET or CN_MCP_URL"):
        find_server([], token)
    with pytest.raises(ValueError, match="needs CN_AGENT_TOKEN"):
        find_server(["--hub", str(tmp_path)], {})
    with pytest.raises(ValueError, match="--wriet"):
        find_server(["--wriet"], {})
    with pytest.raises(ValueError, match="'cn agency serve' starts it"):
        find_server([], {}, str(tmp_path / "server.json"))


def test_a_port_is_no_way_out_where_a_socket_was_given_unless_a_certificate_shows_whose_it_is() -> None:
    gone = {"CN_AGENT_TOKEN": "t", "CN_MCP_SOCKET": "/nowhere/s"}
    assert find_server([], {**gone, "CN_MCP_URL": "http://127.0.0.1:9/mcp"})[0] == Address("/nowhere/s")
    assert find_server([], {**gone, "CN_MCP_URL": "https://example.org/mcp"})[0].host == "example.org"


@pytest.mark.parametrize("place", ["the socket", "its folder", "the folder above"])
def test_a_socket_that_another_user_could_have_put_there_is_told_nothing(tmp_path: Path, place: str) -> None:
    path = tmp_path / "cn-1/hub/user.sock"
    path.parent.mkdir(parents=True)
    with _scripted(path, lambda request: _result(content=[])) as seen:
        assert "result" in _ask(path, tmp_path, patience=0.1)
        if place == "the socket":
            path.rename(tmp_path / "real")
            path.symlink_to(tmp_path / "real")
        else:
            (path.parent if place == "its folder" else path.parent.parent).chmod(0o777)
        told = _ask(path, tmp_path, patience=0.1)["error"]["message"]
    assert "others may write in" in told or "is no socket" in told
    assert len(seen) == 1


def test_whose_a_socket_is_and_who_listens_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with _scripted(path, lambda request: None), socket.socket(socket.AF_UNIX) as made:
        made.connect(str(path))
        check_place(str(path), {os.geteuid()})
        check_peer(made, {os.geteuid()})
        with pytest.raises(NotOurs, match=f"belongs to the user with the id {os.geteuid()}"):
            check_place(str(path), {os.geteuid() + 1})
        with pytest.raises(NotOurs, match="who listens there is the user"):
            check_peer(made, {os.geteuid() + 1})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_socket_of_ours_at_which_another_listens_is_told_nothing(tmp_path: Path) -> None:
    words = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])\n"
        "os.setuid(65534); s.listen(); print(flush=True); c, _ = s.accept(); print(c.recv(65536), flush=True)"
    )
    command = [sys.executable, "-I", "-c", words, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"\n"
        told = _ask(tmp_path / "s", tmp_path, patience=0.1)["error"]["message"]
        assert child.stdout.readline() == b"b''\n"
    assert "who listens there is the user with the id 65534" in told


def test_the_users_bridge_follows_what_the_server_says_at_the_moment(tmp_path: Path) -> None:
    health = tmp_path / "server.json"
    place = identity_of(tmp_path.parent)
    health.write_text(json.dumps({"state": "stopped", "place": place, "user_socket": str(tmp_path / "old")}))
    relay = Relay(Address(health=str(health)), Who(), Workspace(str(tmp_path)), lambda message: None, 0.1)
    with _scripted(tmp_path / "old", lambda request: _result(content=[])) as old:
        assert "it was stopped" in relay.answer(dict(CALL))["error"]["message"]
        assert old == []
    health.write_text(json.dumps({"state": "running", "place": place, "user_socket": str(tmp_path / "new")}))
    with _scripted(tmp_path / "new", lambda request: _result(content=[])):
        assert "result" in relay.answer(dict(CALL))
    relay.close()


def test_in_a_copy_of_a_hub_the_users_bridge_does_not_reach_the_originals_server(tmp_path: Path) -> None:
    """The health file comes with the copy, and names a socket at which the other hub's server answers."""
    original, copy = tmp_path / "one/.git/cn", tmp_path / "two/.git/cn"
    (original / "agency").mkdir(parents=True)
    said = {"state": "running", "place": identity_of(original), "user_socket": str(tmp_path / "s")}
    (original / "agency/server.json").write_text(json.dumps(said))
    shutil.copytree(original, copy)

    def ask(state: Path) -> dict[str, Any]:
        address = Address(health=str(state / "agency/server.json"))
        relay = Relay(address, Who(write=True), Workspace(str(tmp_path)), lambda message: None, 0.1)
        try:
            return relay.answer(dict(CALL))
        finally:
            relay.close()

    with _scripted(tmp_path / "s", lambda request: _result(content=[])) as seen:
        assert "of which this one is a copy: none runs here" in ask(copy)["error"]["message"]
        assert seen == []
        assert "result" in ask(original)


def _bridge(text: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cn", "mcp"]
    return subprocess.run(
        command, input=text, cwd=folder, env=cn_env(env), capture_output=True, text=True, timeout=60, check=False
    )


def test_lines_that_are_none_are_answered_and_answers_of_nobody_ignored(tmp_path: Path) -> None:
    with _scripted(tmp_path / "s", lambda request: _result(content=[])) as seen:
        lines = ["{", "[]", '{"id": 1, "result": {}}', '{"method": "notifications/initialized"}', json.dumps(CALL)]
        done = _bridge("\n".join([*lines, ""]), tmp_path, CN_AGENT_TOKEN="t", CN_MCP_SOCKET=str(tmp_path / "s"))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["error"]["code"] for one in answers if "error" in one] == [-32700, -32700]
    assert [one["id"] for one in answers if "result" in one] == [7]
    assert len(seen) == 1


@pytest.mark.parametrize("meta", [5, True, 1.5, "x", [1], None])
@pytest.mark.parametrize("path", ["/none", "none", "\ud800", 7])
def test_a_call_that_is_badly_made_is_answered(tmp_path: Path, meta: object, path: object) -> None:
    call = {"name": "kb_create", "_meta": meta, "arguments": {"description": "d", "path": path}}
    with _scripted(tmp_path / "s", lambda request: _result(isError=True)), _relay(tmp_path / "s", tmp_path) as relay:
        answer = relay.answer(CALL | {"params": call})
    assert answer["id"] == 7
    assert answer["result"]["isError"]
    assert "resultType" not in answer["result"]


def test_a_fault_of_the_bridge_is_an_answer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _relay(tmp_path / "s", tmp_path) as relay:
        monkeypatch.setattr(relay, "_ask", lambda request: 1 // 0)
        answer = relay.answer(CALL)
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert "ZeroDivisionError" in answer["error"]["message"]


@pytest.mark.parametrize("id", ["true", "1e999", "NaN", "[1]", "{}", "[" * 500 + "]" * 500])
def test_a_request_whose_id_no_answer_can_have_is_answered_without(tmp_path: Path, id: str) -> None:
    with _scripted(tmp_path / "s", lambda request: _result(content=[])) as seen:
        lines = [json.dumps(CALL).replace('"id": 7', f'"id": {id}'), json.dumps(CALL)]
        done = _bridge("\n".join([*lines, ""]), tmp_path, CN_AGENT_TOKEN="t", CN_MCP_SOCKET=str(tmp_path / "s"))
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert answers[None]["error"]["code"] == -32600
    assert "result" in answers[7]
    assert len(seen) == 1
    assert "Traceback" not in done.stderr


def test_the_users_bridge_reads_no_file_where_all_of_the_users_files_lie(tmp_path: Path) -> None:
    """A desktop program starts it in the home folder or the root, and a model names the file."""
    home = tmp_path / "home"
    state, work = tmp_path / "agency", home / "work"
    state.mkdir()
    work.mkdir(parents=True)
    health = {"state": "running", "place": identity_of(tmp_path), "user_socket": str(state / "s")}
    (state / "server.json").write_text(json.dumps(health))
    (home / ".netrc").write_text("mine")
    (work / "note").write_text("to send")
    (work / ".env").write_text("mine")

    def ask(folder: Path, path: str, **more: str) -> dict[str, Any]:
        call = CALL | {"params": {"name": "kb_create", "arguments": {"description": "d", "path": path}}}
        probe = f"from cn.bridge.run import run; run(['--write'], {str(state / 'server.json')!r})"
        env = cn_env({"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), **more})
        command = [sys.executable, "-P", "-c", probe]
        done = subprocess.run(
            command, input=json.dumps(call) + "\n", cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)["result"]
        return found

    with _scripted(state / "s", lambda request: _result(content=[])) as seen:
        places = ((home, ".netrc"), (home, "work/note"), (tmp_path, "home/work/note"), (Path("/"), "/etc/passwd"))
        for folder, path in places:
            refused = ask(folder, path)["structuredContent"]
            assert refused["rule"] == "path"
            assert f"started in {folder}, where your other files lie too" in refused["reason"]
        for path in (".env", "./.env", f"{work}/.env"):
            assert "begins with a dot" in ask(work, path)["structuredContent"]["reason"]
        assert seen == []
        assert "isError" not in ask(work, "note")
        assert b"to send" in seen.pop()
        agents = {"CN_AGENT_TOKEN": "t", "CN_MCP_SOCKET": str(state / "s")}
        assert "isError" not in ask(work, ".env", **agents), "an agent's folder is its own"
        assert "isError" not in ask(home, ".netrc", **agents)


def test_without_a_hub_or_a_server_it_says_what_to_do_and_ends(tmp_path: Path) -> None:
    done = _bridge("", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no hub at" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_bridge_finds_no_hub_that_another_user_put_in_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / ".cn").mkdir()
    (tmp_path / ".cn/hub.yaml").write_text("name: x\n")
    state = tmp_path / ".git/cn/agency"
    state.mkdir(parents=True)
    with _scripted(state / "user.sock", lambda request: _result(content=[])) as seen:
        (state / "server.json").write_text(json.dumps({"state": "running", "user_socket": str(state / "user.sock")}))
        for place in (tmp_path, *tmp_path.rglob("*")):
            os.chown(place, 65534, 65534)
        (tmp_path / "work").mkdir()
        done = _bridge(json.dumps(CALL) + "\n", tmp_path / "work")
    assert (done.returncode, done.stdout) == (3, "")
    assert "git does not work in" in done.stderr
    assert seen == []


def test_the_bridge_loads_no_other_part_of_cn_and_no_library(tmp_path: Path) -> None:
    probe = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "sys.argv = ['cn', 'mcp']\n"
        "from cn.cli.start import run\n"
        "run()\n"
    )
    env = {"CN_AGENT_TOKEN": "t", "CN_MCP_SOCKET": str(tmp_path / "s")}
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, cwd=tmp_path, env=cn_env(env), input="", capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith("cn.")}
    assert ours == {
        "cn.bridge",
        "cn.cli",
        "cn.cli.start",
        "cn.inherited",
        *(f"cn.bridge.{n}" for n in ("connection", "files", "owners", "relay", "run")),
    }
    assert not loaded & {"click", "mcp", "ssl", "subprocess", "http.client", "email", "asyncio", "logging", "hashlib"}
