"""An Agency with a spawner of its own, and agents that are shell scripts: real records, real processes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cn.agency.agency import Agency, open_agency, places_of
from cn.agency.events import Event
from cn.agency.names import Party, Uuid
from cn.agency.operations import ByHandler, ByUser, CreateOutcome, Delegate, FoundAgency, Operation, Principal
from cn.agency.perform import Answer, Asked, Done, found, perform
from cn.agency.rows import Agent
from cn.agency.store.look import live_agents
from cn.agents.launcher import EXIT
from cn.agents.machine import Machine, parse_machine
from cn.agents.place import Address, Place
from cn.agents.processes import kill_processes_of, processes_of, read_launcher
from cn.agents.spawner import Spawner, make_spawner
from cn.agents.workspace import Folders
from cn.git.repository import open_hub
from cn.system.clock import now

ANN = ByUser("ann")
SECONDS = 120.0


def until(condition: Callable[[], object], what: str = "it never came") -> None:
    """Wait for something that comes soon."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def machine_of(text: str) -> Machine:
    """An ``agency.toml``."""
    return parse_machine(text.encode(), Path("agency.toml"))


def script_runner(name: str, script: str, more: str = "") -> str:
    """The table of a runner that is a shell script, of which nothing keeps anybody."""
    assert "'''" not in script
    return f"[runners.{name}]\nargv = ['sh', '-c', '''{script}''']\nunguarded = true\n{more}\n"


class Staff:
    """The Agency of a hub, and who works in it. ``skip`` is how much later than now its spawner thinks that it is."""

    def __init__(self, hub: Path, base: Path, machine: str = "", runner: str = "person") -> None:
        opened = open_hub(hub)
        if not (hub / ".git/cn/agency.git").exists():
            store, _ = found(places_of(opened), opened.identity, Asked(FoundAgency("Help Ann", runner=runner), ANN))
            store.close()
        self.agency: Agency = open_agency(opened)
        self.machine = machine_of(machine or script_runner("one", "exit 0"))
        self.place = Place(self.agency, Folders(base))
        self.address = Address(None, "")
        self.skip = timedelta()
        self.spawner = self.new_spawner()

    def new_spawner(self) -> Spawner:
        """As a server has that was just started."""

        async def ask(operation: Operation, principal: Principal) -> Answer:
            return await asyncio.to_thread(self.ask, operation, principal)

        return make_spawner(self.place, self.machine, ask, self.address)

    def restart(self) -> None:
        """The server is gone, and another one comes."""
        asyncio.run(self.spawner.close())
        self.spawner = self.new_spawner()

    def step(self) -> None:
        """One look of the spawner."""
        asyncio.run(self.spawner.step(self.now))

    def pass_time(self, seconds: float) -> None:
        """So long the spawner looks on, every ten seconds."""
        for _ in range(int(seconds // 10)):
            self.skip += timedelta(seconds=10)
            self.step()

    @property
    def now(self) -> datetime:
        return now() + self.skip

    def ask(self, operation: Operation, principal: Principal = ANN) -> Answer:
        """Do it, or hear why not."""
        return perform(self.agency.store, [Asked(operation, principal)], self.agency.limits).answers[0]

    def do(self, operation: Operation, principal: Principal = ANN) -> dict[str, object]:
        """Do it."""
        answer = self.ask(operation, principal)
        assert isinstance(answer, Done), answer
        return dict(answer.answer)

    def root(self) -> Uuid:
        with self.agency.store.reading() as facts:
            head = facts.head()
            assert head
            return head.root

    def outcome(self, title: str, *parents: Uuid) -> Uuid:
        """A new one, below the root by default."""
        return Uuid(Party(str(self.do(CreateOutcome(title, "", parents or (self.root(),)))["outcome"])))

    def handler(self, title: str, runner: str = "one", message: str = "") -> Uuid:
        """A new one with a new outcome below the root, whose boss is the root handler."""
        return Uuid(Party(str(self.do(Delegate(self.outcome(title), runner, message=message))["handler"])))

    def agents(self) -> dict[Uuid, Agent]:
        """The live ones, by handler."""
        with self.agency.store.reading() as facts:
            found = [agent for id in live_agents(facts) if (agent := facts.agent(id))]
        assert len({one.handler for one in found}) == len(found), "two agents of one handler"
        return {one.handler: one for one in found}

    def as_agent(self, handler: Uuid) -> ByHandler:
        """What its live agent is, when it calls."""
        one = self.agents()[handler]
        return ByHandler(one.handler, one.tenure, one.id)

    def as_person(self, handler: Uuid) -> ByHandler:
        """What the user is, acting for it."""
        with self.agency.store.reading() as facts:
            row = facts.handler(handler)
        assert row
        return ByHandler(row.id, row.tenure, "user:ann")

    def folder(self, agent: Uuid) -> Path:
        """Where an agent is, or what is left of it."""
        live = self.place.folders.find(agent)
        return (live or self.place.folders.ended(agent)).path

    def history(self, subject: str) -> Sequence[Event]:
        with self.agency.store.reading() as facts:
            return facts.history(subject, 2**53, 1000)

    def ends(self, handler: Uuid) -> list[str]:
        """Why its agents ended, oldest first."""
        from cn.agency.events import AgentEnded, AgentLeased

        leases = [event.change for event in self.history(handler) if isinstance(event.change, AgentLeased)]
        told = [event.change for one in leases for event in self.history(one.agent)]
        return [one.why for one in told if isinstance(one, AgentEnded)]

    def letters(self, party: str) -> list[tuple[str, str]]:
        """Subject and text of what waits in an inbox."""
        from cn.agency.perform import read_content

        with self.agency.store.reading() as facts:
            files = [facts.file(mail.file) for mail in facts.pending(Party(party))]
        return [(f.description, read_content(self.agency.store, f.id, f.hash).decode()) for f in files if f]

    def step_until(self, condition: Callable[[], object], what: str = "it never came") -> None:
        """Look again and again, as the server does."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, what
            self.step()
            time.sleep(0.01)

    def close(self) -> None:
        """End everything that was started; nothing is left."""
        folders = self.place.folders.live()
        for folder in folders:
            if launcher := read_launcher(folder.path):
                launcher.signal(signal.SIGQUIT)
                until(lambda launcher=launcher: not launcher.is_running)  # type: ignore[misc]
            kill_processes_of(folder.agent)
        for child in self.spawner._children:
            child.wait(SECONDS)
        self.agency.store.close()
        assert [one for folder in folders for one in processes_of(folder.agent)] == []

    def has_ended(self, agent: Uuid) -> bool:
        """Has its launcher seen its end?"""
        return (self.folder(agent) / EXIT).exists()


def run(argv: Sequence[str | Path], **more: object) -> subprocess.CompletedProcess[str]:
    """A command that has to succeed."""
    return subprocess.run([*map(str, argv)], capture_output=True, text=True, check=True, **more)  # type: ignore[call-overload,no-any-return]
