"""The records behind the server: what one agent sends is done in its turn, and keeps no other from its own."""

from __future__ import annotations

import asyncio

from cn.agency.names import Uuid
from cn.agency.operations import CreateFile, StopHandler
from cn.agency.plan.access import ACTIVE
from cn.agency.plan.result import Refused
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
