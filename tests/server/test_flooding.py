"""A server behind ours that says very much without being asked, at any rate: it costs a bounded amount."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cn.server.bodies import has_more_parts
from cn.server.few import FewLines
from cn.server.gateway import Unanswered
from cn.server.machine_tools import OtherServer
from cn.server.sdk import clients
from cn.server.sdk.clients import OtherClient
from cn.server.secrets import Vault

_MANY = 3000
_FLOODS = """
import json, sys, time
lists = pings = 0
names = ["echo", "sums"]
large = {"type": "object"}
endless = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
results = {"sums": {"outputSchema": endless}}
many = int(sys.argv[1])

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if method is None:
        pings += 1
    elif method == "initialize":
        about = {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "s", "version": "1"}}
        say(id=number, result={"protocolVersion": asked["params"]["protocolVersion"], **about})
    elif method == "tools/list":
        lists += 1
        at = int(asked.get("params", {}).get("cursor", 0))
        tools = [{"name": name, "inputSchema": large, **results.get(name, {})} for name in names[at:at + 2]]
        say(id=number, result={"tools": tools, **({"nextCursor": str(at + 2)} if at + 2 < len(names) else {})})
    elif method == "tools/call":
        what = asked["params"]["arguments"].get("what")
        if what == "flood":
            names = ["echo", "new"]
            for one in range(many):
                say(method="notifications/tools/list_changed")
                say(method="notifications/message", params={"level": "info", "data": "x"})
                say(method="notifications/none", params={"a": [1, 2]})
                say(id=f"p{one}", method="ping")
                print("no message")
        if what == "log":
            names = [f"no name {one}" for one in range(90)]
            print("said\\n" * many, file=sys.stderr, flush=True)
            say(method="notifications/tools/list_changed")
        if what == "parts":
            say(id=number, result={"content": [{"type": "text", "text": "y"}] * 20000})
            continue
        if what == "tools":
            large = {"type": "object", "properties": {str(one): {"type": "string"} for one in range(20)}}
            names = [f"large{one}" for one in range(5)]
            say(method="notifications/tools/list_changed")
        if what == "pattern":
            say(id=number, result={"content": [], "structuredContent": {"a": "a" * 60 + "!"}})
            continue
        if what == "deaf":
            while True:
                time.sleep(1)
        say(id=number, result={"content": [{"type": "text", "text": json.dumps({"lists": lists, "pings": pings})}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no"})
"""


def _with(
    tmp_path: Path,
    work: Callable[[OtherClient], Awaitable[None]],
    seconds: float = 60.0,
    said: list[str] | None = None,
    vault: Vault | None = None,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_FLOODS)
    say = (said if said is not None else []).append

    async def main() -> None:
        other = OtherServer(name="loud", argv=(sys.executable, str(program), str(_MANY)), seconds=seconds)
        client = OtherClient(other, vault or Vault({}), say)
        try:
            async with asyncio.timeout(100):
                await _until(lambda: client.state == "ready")
                await work(client)
        finally:
            async with asyncio.timeout(60):
                await client.close()

    asyncio.run(main())


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def test_of_notifications_and_requests_without_end_few_are_at_work_and_the_last_change_is_seen(tmp_path: Path) -> None:
    async def work(client: OtherClient) -> None:
        before = len(asyncio.all_tasks())
        await client.call("echo", {"what": "flood"})
        assert len(asyncio.all_tasks()) < before + 50
        await _until(lambda: [tool.name for tool in client.tools] == ["echo", "new"])
        (block,) = (await client.call("echo", {})).blocks
        counts = json.loads(block["text"])
        assert counts["lists"] < 10
        assert 0 < counts["pings"] <= 60

    _with(tmp_path, work)


def test_a_call_that_the_server_does_not_read_ends_in_its_time(tmp_path: Path) -> None:
    async def work(client: OtherClient) -> None:
        for arguments in ({"what": "deaf"}, {"long": "x" * (1 << 20)}, {"short": ""}):
            with pytest.raises(Unanswered, match=r"no answer within 0\.5 s"):
                await client.call("echo", arguments)

    _with(tmp_path, work, seconds=0.5)


def test_neither_its_log_nor_what_is_said_about_it_buries_ours(tmp_path: Path) -> None:
    async def work(client: OtherClient) -> None:
        await client.call("echo", {"what": "log"})
        await _until(lambda: len(client.tools) == 90 and said.count("loud: said") == 200)

    said: list[str] = []
    _with(tmp_path, work, said=said)
    assert said.count("loud: said") == 200
    assert len([line for line in said if "is not listed by its name" in line]) == 20


def test_a_line_with_very_many_parts_is_not_read_and_the_program_is_started_again(tmp_path: Path) -> None:
    async def work(client: OtherClient) -> None:
        with pytest.raises(Unanswered, match="a line of it has more than the 50,000 members and elements"):
            await client.call("echo", {"what": "parts"})
        await _until(lambda: "more than the 50,000" in client.state)
        await _until(lambda: client.state == "ready")
        assert not (await client.call("echo", {})).failed

    _with(tmp_path, work)


def test_tools_whose_schemas_have_very_many_parts_are_taken_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MOST_MEMBERS", 100)

    async def work(client: OtherClient) -> None:
        await client.call("echo", {"what": "tools"})
        await _until(lambda: [tool.name for tool in client.tools] == ["large0", "large1"])

    said: list[str] = []
    _with(tmp_path, work, said=said)
    assert said == ["loud: of its tools the first 2 are taken, which is what cn holds"]


def test_a_schema_of_results_whose_pattern_takes_for_ever_is_not_tried(tmp_path: Path) -> None:
    async def work(client: OtherClient) -> None:
        assert (await client.call("sums", {"what": "pattern"})).value == {"a": "a" * 60 + "!"}

    _with(tmp_path, work)


def test_others_are_answered_while_an_answer_is_looked_through(tmp_path: Path) -> None:
    others = threading.Event()
    waited: list[bool] = []

    class Slow(Vault):
        def mask_all(self, value: Any) -> Any:
            if isinstance(value, list):
                waited.append(others.wait(30))
            return super().mask_all(value)

    async def work(client: OtherClient) -> None:
        asked = asyncio.ensure_future(client.call("echo", {}))
        await _until(lambda: bool(waited) or client._one.locked())
        others.set()
        await asked

    _with(tmp_path, work, vault=Slow({}))
    assert waited == [True]


def test_parts_are_counted_as_far_as_they_matter() -> None:
    assert has_more_parts(b"[" + b"1," * 100 + b"1]", 100)
    assert not has_more_parts(b"[" + b"1," * 99 + b"1]", 100)
    assert not has_more_parts(json.dumps({"a": ",[{" * 100_000}).encode(), 100)


def test_lines_that_were_kept_out_are_counted() -> None:
    said: list[str] = []
    now = [0.0]
    lines = FewLines(said.append, 2, "loud", lambda: now[0])
    for number in range(1002):
        lines(str(number))
    assert said == ["0", "1"]
    now[0] = 61.0
    lines("again")
    assert said[2:] == ["loud: 1,000 more lines", "again"]
