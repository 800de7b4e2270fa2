"""A server behind ours that says very much without being asked, at any rate: it costs a bounded amount."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cn.server.few import FewLines
from cn.server.gateway import Unanswered
from cn.server.machine_tools import OtherServer
from cn.server.sdk.clients import OtherClient
from cn.server.secrets import Vault

_MANY = 3000
_FLOODS = """
import json, sys, time
lists = pings = 0
names = ["echo"]
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
        say(id=number, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
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
            names = [f"no name {one}" for one in range(100)]
            print("said\\n" * many, file=sys.stderr, flush=True)
            say(method="notifications/tools/list_changed")
        if what == "deaf":
            while True:
                time.sleep(1)
        say(id=number, result={"content": [{"type": "text", "text": json.dumps({"lists": lists, "pings": pings})}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no"})
"""


def _with(
    tmp_path: Path, work: Callable[[OtherClient], Awaitable[None]], seconds: float = 60.0, said: list[str] | None = None
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_FLOODS)
    say = (said if said is not None else []).append

    async def main() -> None:
        other = OtherServer(name="loud", argv=(sys.executable, str(program), str(_MANY)), seconds=seconds)
        client = OtherClient(other, Vault({}), say)
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
        await _until(lambda: len(client.tools) == 100 and said.count("loud: said") == 200)

    said: list[str] = []
    _with(tmp_path, work, said=said)
    assert said.count("loud: said") == 200
    assert len([line for line in said if "is not listed by its name" in line]) == 20


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
