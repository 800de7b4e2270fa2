"""The records behind the server: what one agent sends is done in its turn, and keeps no other from its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from typing import Any

import pytest

from cn.agency.agency import Agency
from cn.agency.names import Uuid
from cn.agency.operations import CreateFile, Limits, StopHandler
from cn.agency.perform import Asked, Checked, look_through
from cn.agency.plan.access import ACTIVE
from cn.agency.plan.result import Refused
from cn.server import records as shared
from cn.server.records import SharedRecords
from cn.server.tool import View
from tests.support.agency_server import Office, uuid


def test_of_one_agent_one_write_is_at_work_and_so_many_wait(office: Office) -> None:
    """What waits of another goes between them, and what would be too many is refused at once."""
    many, one = office.lease(office.handler("many")), office.lease(office.handler("one"))

    async def scene() -> tuple[list[View | Refused], int]:
        records = SharedRecords(office.agency, lambda told: None)
        try:
            ended = list[View | Refused]()

            async def send(number: int) -> None:
                ended.append(await records.perform(CreateFile(f"file {number}", b"x"), many.principal))

            sent = [asyncio.create_task(send(number)) for number in range(20)]
            await asyncio.sleep(0)  # they are all in line
            answer = await records.perform(CreateFile("another's", b"y"), one.principal)
            before = len([done for done in ended if not isinstance(done, Refused)])
            assert not isinstance(answer, Refused)
            await asyncio.gather(*sent)
            return ended, before
        finally:
            records.close()

    ended, before = asyncio.run(scene())
    refused = [done for done in ended if isinstance(done, Refused)]
    assert [(one.rule, one.remedy) for one in refused] == [("unavailable", "wait for their answers")] * 8
    assert before <= 3, "the other's write waited for what was at work, not for all"
    assert len({file_of(done) for done in ended if not isinstance(done, Refused)}) == 12


def file_of(done: View) -> Uuid:
    assert isinstance(done, dict)
    return uuid(done["file"])


def test_what_a_stopped_agent_has_in_line_is_not_done(office: Office) -> None:
    handler = office.handler("to be stopped")
    agent = office.lease(handler)

    async def scene() -> list[View | Refused]:
        records = SharedRecords(office.agency, lambda told: None)
        try:
            sent = [
                asyncio.create_task(records.perform(CreateFile(f"late {number}", b"x"), agent.principal))
                for number in range(5)
            ]
            await asyncio.sleep(0)
            await records.perform(StopHandler(handler), office.agency.person)
            return list(await asyncio.gather(*sent))
        finally:
            records.close()

    answers = asyncio.run(scene())
    last = answers[-1]
    assert isinstance(last, Refused)
    assert last.rule == ACTIVE


def test_a_small_write_ends_while_a_large_text_of_another_is_looked_through(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks like a secret is held against what is allowed at the end of a search, which is stopped there."""
    many, one = office.lease(office.handler("many")), office.lease(office.handler("one"))
    searching, go_on = threading.Event(), threading.Event()

    def allowed(agency: Agency) -> Collection[str]:
        searching.set()
        assert go_on.wait(60)
        return ()

    monkeypatch.setattr(Agency, "allowed_secrets", allowed)

    async def scene() -> tuple[View | Refused, View | Refused]:
        records = SharedRecords(office.agency, lambda told: None)
        try:
            large = CreateFile("large", b"some words\n" * 10_000 + b"AKIA" + b"A1B2" * 4 + b"\n")
            sent = asyncio.create_task(records.perform(large, many.principal))
            assert await asyncio.to_thread(searching.wait, 60)
            small = await asyncio.wait_for(records.perform(CreateFile("small", b"x"), one.principal), 60)
            assert not sent.done()
            go_on.set()
            return small, await sent
        finally:
            go_on.set()
            records.close()

    small, large = asyncio.run(scene())
    assert not isinstance(small, Refused)
    assert isinstance(large, Refused)
    assert large.rule == "no-secrets"


def test_what_may_not_be_written_is_not_searched_and_what_was_done_before_is_answered(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To search a large content takes seconds: who has written what it may within the hour has none of them."""
    agent = office.lease(office.handler("has written much"))
    searched = list[Asked]()

    def looks(asked: Asked, *more: Any) -> Checked:
        searched.append(asked)
        return look_through(asked, *more)

    monkeypatch.setattr(shared, "look_through", looks)

    async def scene() -> list[View | Refused]:
        records = SharedRecords(office.agency._replace(limits=Limits(megabytes=1)), lambda told: None)
        try:
            ways = [("first", b"x"), ("second", b"y"), ("first", b"x")]
            return [
                await records.perform(CreateFile("large", byte * 600_000), agent.principal, name) for name, byte in ways
            ]
        finally:
            records.close()

    first, second, again = asyncio.run(scene())
    assert isinstance(second, Refused)
    assert second.rule == "limit-megabytes"
    assert first == again
    assert [asked.request_id for asked in searched] == ["first", "first"]
