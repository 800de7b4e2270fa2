"""Agency's records for many callers at once: writes that come together are one commit; looks wait for nobody."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cn.agency.agency import Agency
from cn.agency.names import Uuid
from cn.agency.operations import ByHandler, CreateFile, Moment, Operation, Principal, WriteFile
from cn.agency.perform import (
    Answer,
    Asked,
    Checked,
    look_through,
    new_entropy,
    perform_checked,
    read_content,
    spare_room,
)
from cn.agency.plan.access import is_current
from cn.agency.plan.plan import done_before, plan
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.agency.store.group import Group
from cn.secrets.in_turn import LARGE
from cn.server.lines import Lines
from cn.server.tool import View
from cn.system.clock import now
from cn.values.errors import CnError

T = TypeVar("T")
_THREADS = 64
"""Calls that wait for their write at once; a write takes all that wait."""
_ONE_AGENTS = 12
"""Writes of one agent at a time: one is at work, the others wait until it is done."""


def _is_large(operation: Operation) -> bool:
    """Does it bring a content that waits for its turn to be searched?"""
    return isinstance(operation, CreateFile | WriteFile) and len(operation.content) > LARGE


class SharedRecords:
    """The records of ``agency`` as :class:`cn.server.tool.Records`. ``wrote`` hears of each write, with what was in
    the way, in the thread that made it.
    """

    def __init__(self, agency: Agency, wrote: Callable[[Sequence[str]], None]) -> None:
        self.agency, self._wrote = agency, wrote
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="records")
        self._group: Group[Checked, Answer] = Group(self._write)
        self._lines = Lines()
        self._begun = set[asyncio.Task[Answer]]()

    async def _in_thread(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, do)

    async def perform(self, operation: Operation, principal: Principal, request_id: str = "") -> View | Refused:
        """Have it done, together with what others ask; the answer, once it is on disk."""
        task = asyncio.create_task(self._in_line(Asked(operation, principal, request_id)))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        answer = await asyncio.shield(task)  # who hangs up has its turn until its write is done
        return answer if isinstance(answer, Refused) else answer.answer

    async def _in_line(self, asked: Asked) -> Answer:
        """One write of an agent at a time: looking through what it wants to write may take long, and it has one turn
        among those who have something large, not one for each that it sends.
        """
        if not isinstance(asked.principal, ByHandler):
            return await self.ask(asked)
        agent = asked.principal.agent
        if (length := self._lines.length(agent)) >= _ONE_AGENTS:
            return Refused("unavailable", f"{length} calls of this agent wait already", "wait for their answers")
        async with self._lines.turn(agent) as waited:
            over = await self.look(lambda facts: None, asked.principal) if waited else None
            return over or await self.ask(asked)

    async def ask(self, asked: Asked) -> Answer:
        """The same with its changes."""
        return await self._in_thread(functools.partial(self._ask, asked))

    def _ask(self, asked: Asked) -> Answer:
        """What it says is looked through before it is one of a group: nobody waits for that but who asks. That takes
        long for a large content, so the rules are asked before: what may not be written is not searched.
        """
        refused = self._refused_now(asked) if _is_large(asked.operation) else None
        return refused or self._group.ask(look_through(asked, self.agency.allowed_secrets))

    def _refused_now(self, asked: Asked) -> Refused | None:
        agency = self.agency
        room = spare_room(agency.store.repository.folder)
        moment = Moment(now(), asked.entropy or new_entropy(), agency.limits, room)
        with agency.store.reading() as facts:
            before = done_before(asked.operation, asked.principal, asked.request_id, facts, asked.said)
            planned = before or plan(asked.operation, asked.principal, facts, moment)
        return planned if isinstance(planned, Refused) else None

    async def look(self, view: Callable[[Facts], T], principal: Principal) -> T | Refused:
        """What a view shows of the state as it is now; refused to who is no more."""

        def read() -> T | Refused:
            with self.agency.store.reading() as facts:
                return is_current(principal, facts) or view(facts)

        return await self._in_thread(read)

    async def facts(self, view: Callable[[Facts], T]) -> T:
        """The same for the server itself."""

        def read() -> T:
            with self.agency.store.reading() as facts:
                return view(facts)

        return await self._in_thread(read)

    async def content(self, file: Uuid, hash: str) -> bytes:
        """A version of a file, whose reading was told."""
        return await self._in_thread(functools.partial(read_content, self.agency.store, file, hash))

    def _write(self, checked: Sequence[Checked]) -> Sequence[Answer | Exception]:
        """One commit for all. A question that breaks its planner does not break the others."""
        agency = self.agency
        try:
            performed = perform_checked(agency.store, checked, agency.limits)
        except (CnError, OSError):
            raise
        except Exception as broken:
            if len(checked) == 1:
                return [broken]
            return [answer for one in checked for answer in self._write([one])]
        self._wrote(performed.told)
        return performed.answers

    def close(self) -> None:
        """Finish what was begun, and let go of the records."""
        self._pool.shutdown(wait=True)
        self.agency.store.close()
