"""The server's process, one for each hub: tools for agents, timers, the spawner, other servers, the background copy.

It can be stopped and started at will: what it answered is on disk, and agents that live find it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.agency.agency import Agency
from cn.agency.names import Uuid, parse_uuid
from cn.agency.operations import ByHandler, BySystem, DeliverDue
from cn.agency.perform import Answer, Asked
from cn.agency.plan.access import is_current
from cn.agency.plan.result import Refused
from cn.agency.server_seen import STOPPING
from cn.agency.store.behind import follow
from cn.agency.store.copies import copy_url
from cn.agency.store.look import live_agents
from cn.agency.store.ownership import open_parts
from cn.server.arrivals import Agents, Arrivals, Origin
from cn.server.direct import DirectServers
from cn.server.door import Door
from cn.server.far_work import FarWork
from cn.server.gateway import Gateway
from cn.server.health import Health, read_health
from cn.server.library_logs import take_logs
from cn.server.machine_tools import Settings
from cn.server.places import ServerPlaces, listen_on
from cn.server.records import SharedRecords
from cn.server.secrets import Vault, keep_to_ourselves, take_secrets
from cn.server.sockets import Sockets
from cn.server.spawning import EndsFloods, HearsCalls, MakeSpawner, NamesProblems, Reach, Spawner, WritesSettings
from cn.server.tool import Tool
from cn.server.toolbox import Called, Caller, Toolbox
from cn.system import polling
from cn.system.clock import now
from cn.system.closed import open_again
from cn.system.files import hold
from cn.system.systemd import Level, Lines, notify, watchdog_seconds
from cn.values.errors import Blocked, CnError, LockHeld, Refusal

if TYPE_CHECKING:
    from cn.server.sdk.listen import Listener

_STEP = 1.0
_SETTLE = 2.0
"""Seconds from a write to packing and the copy: writes that follow each other are one push."""
_LOOK = 3600.0
"""Seconds after which the copy is looked after where nothing is written."""
_BATCH = 100
_FLOODS = "opens one connection after the other"
_LONG = 1000
"""Characters."""


class Plan(NamedTuple):
    """What a server has: ``tools`` beside its own, who starts agents, and what its tools do on other hosts."""

    settings: Settings
    tools: Sequence[Tool]
    make_spawner: MakeSpawner
    far: FarWork | None = None


def serve(agency: Agency, places: ServerPlaces, plan: Plan) -> int:
    """Answer until SIGTERM or SIGINT; 0 then. Raises :class:`LockHeld` where the hub has its server already, and
    :class:`Blocked` once the hub is no more where it was.
    """
    lock = hold(places.lock)
    if lock is None:
        health = read_health(places) or {}
        pid = health.get("pid", "unknown")
        if health.get("state") == STOPPING:
            raise LockHeld(f"the server of this hub is ending (pid {pid})", "start another one in a moment")
        raise LockHeld(f"a server of this hub runs already (pid {pid})", "stop it first")
    try:
        keep_to_ourselves()
        vault = take_secrets(plan.settings.secrets)
        process = _Process(agency, places, plan, vault)
        take_logs(process.health.say)
        polling.run(process.run())
        process.tell("stopped")  # nothing of it runs any more; whoever starts the next one may
        return 0
    finally:
        os.close(lock)


class _Process:
    """One run of the server."""

    def __init__(self, agency: Agency, places: ServerPlaces, plan: Plan, vault: Vault) -> None:
        self.agency, self.places, self.plan, self.vault = agency, places, plan, vault
        self.health = Health(places, Lines(), vault.mask)
        self.records = SharedRecords(agency, self._wrote)
        self._direct = DirectServers(plan.settings.servers)
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._to_follow = threading.Event()
        self._to_follow.set()
        self._spawner: Spawner | None = None
        self._arrivals = Arrivals(self._flooded, Agents(self._launchers))
        self._sockets = Sockets(places, others=bool(plan.settings.users), arrivals=self._arrivals)
        self._listener: Listener | None = None
        self._port = 0

    async def run(self) -> None:
        """Until it is told to stop; what began is ended in the other order."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        sockets, reach = self._listen()
        async with AsyncExitStack() as ending:
            ending.callback(self._sockets.remove)
            ending.callback(self.records.close)
            gateway = self._connect(ending)
            await self._answer(sockets, gateway, ending)
            if self.plan.far:
                ending.push_async_callback(self.plan.far.close)
            self._spawner = self.plan.make_spawner(self.agency, self._perform, reach)
            ending.push_async_callback(self._spawner.close)
            if isinstance(self._spawner, WritesSettings):
                self._spawner.use_direct(self._direct.settings_of)
            self.tell("running", READY=1)
            self.health.say(f"the server of {self.agency.hub.root} answers at {reach.url} and {reach.socket}")
            threading.Thread(target=self._follow, name="follow", daemon=True).start()
            try:
                await self._work(gateway)
            finally:
                self.tell(STOPPING, STOPPING=1)
        if not self.health.is_here():
            raise Blocked(
                f"{self.agency.hub.root} was moved or removed while this server ran, so it has ended",
                "'cn agency serve' in the hub's folder starts one where it is now",
            )

    def _listen(self) -> tuple[list[socket.socket], Reach]:
        """The sockets, and how agents reach us by them."""
        settings = self.plan.settings
        ours = self._sockets.open()
        known = (read_health(self.places) or {}).get("port", 0)
        port = listen_on(settings.port, known if isinstance(known, int) else 0)
        self._port = port.getsockname()[1]
        url = settings.url or f"http://127.0.0.1:{self._port}/mcp"
        self.health.value |= {"url": url, "port": self._port}
        return [port, *ours], Reach(self.places.agents, url)

    def _connect(self, ending: AsyncExitStack) -> Gateway:
        """Other servers, each in a task of its own."""
        from cn.server.sdk.clients import OtherClient

        behind = [one for one in self.plan.settings.servers if not one.direct]
        others = [OtherClient(one, self.vault, self.health.say) for one in behind]

        async def close() -> None:
            await asyncio.gather(*(one.close() for one in others))

        ending.push_async_callback(close)
        return Gateway(others)

    async def _answer(self, sockets: Sequence[socket.socket], gateway: Gateway, ending: AsyncExitStack) -> None:
        """Let callers in to the tools."""
        from cn.server.sdk.app import make_app
        from cn.server.sdk.listen import Listener

        settings, person = self.plan.settings, self.agency.person
        toolbox = Toolbox(self.plan.tools, self.records, self.agency.me, now, gateway, self.vault.mask)
        app = make_app(toolbox.list, self._counted(toolbox), _hosts(self._port, settings.hosts), settings.origins)
        before = await self.records.facts(live_agents)
        door = Door(
            app,
            self.records.facts,
            person,
            str(self.places.user),
            toolbox.digest,
            before,
            self.health.is_here,
            arrivals=self._arrivals,
        )
        listener = Listener(door, sockets, {os.geteuid(), 0, *settings.users})
        await listener.ready()
        self._listener = listener
        ending.push_async_callback(listener.close)

    def tell(self, state: str, **notice: int) -> None:
        """Say how we are, in the health file and to systemd."""
        self.health.value["state"] = state
        self.health.save()
        notify(**notice)

    async def _work(self, gateway: Gateway) -> None:
        """Timers and the spawner, once a second and after each write, until the signal to stop, or the hub is gone."""
        assert self._spawner is not None
        watchdog = watchdog_seconds()
        stopped = asyncio.ensure_future(self._stop.wait())
        while not self._stop.is_set():
            if not self.health.is_here():
                self._stop.set()
                break
            self._changed.clear()
            await self._guarded("files that were closed", self._keep_open())
            await self._guarded("sockets", self._keep_sockets())
            await self._guarded("what is due", self._deliver())
            await self._guarded("servers beside agents", self._tell_changes())
            await self._guarded("work on other hosts", self._end_far())
            await self._guarded("agents", self._spawner.step(now()))
            if watchdog:
                notify(WATCHDOG=1)
            await self._guarded("the health file", self._save(gateway))
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait({stopped, changed}, timeout=_STEP, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        stopped.cancel()

    async def _save(self, gateway: Gateway) -> None:
        self._tell_problems()
        self.health.value |= {"servers": gateway.states(), "left_out": gateway.left_out()}
        self.health.save()

    async def _guarded(self, what: str, work: Any) -> None:
        """What fails is told, and tried again at the next step."""
        try:
            await work
        except CnError as error:
            self.health.report_error(f"{what}: {error.text}; {error.hint}")
        except Exception as error:  # a fault of ours must not end what serves others
            self.health.report_error(f"{what}: {type(error).__name__}: {error}")

    async def _keep_open(self) -> None:
        """A program that runs as this user may close what is ours by a mode, to everybody who needs it."""
        hub, records = self.agency.hub, self.agency.store.repository.places
        opened = open_again(hub.root, hub.git_dir)
        opened += open_parts(records.repository, records.index_file.parent)
        for path in (*opened, *self._sockets.mend()):
            self.health.report_error(f"{path} had a mode that closes it, and is open again")

    async def _keep_sockets(self) -> None:
        """Who can write their folder may take ours away, or put others in their places: agents would find nobody."""
        for path, old, new in self._sockets.renew():
            assert self._listener is not None
            await self._listener.replace(old, new)
            self.health.report_error(f"{path} was not ours any more, and is made anew")

    async def _deliver(self) -> None:
        """Messages whose time has come."""
        due = await self.records.facts(lambda facts: [one.id for one in facts.due(now(), _BATCH)])
        answers = await asyncio.gather(*(self.records.ask(Asked(DeliverDue(id), BySystem())) for id in due))
        for answer in answers:
            if isinstance(answer, Refused) and answer.rule != "known":  # another process was first
                self.health.report_error(f"a deferred message: {answer.reason}")

    async def _end_far(self) -> None:
        """What is done on other hosts for who has ended."""
        if self.plan.far is None or not (asked := self.plan.far.principals):
            return
        found = await self.records.facts(lambda facts: [(one, is_current(one, facts)) for one in asked])
        for principal, over in found:
            if over:
                self.plan.far.end(principal, over.reason)

    def _tell_problems(self) -> None:
        """Why somebody gets no agent, and what went wrong with one: in the health file while it is so, in the journal
        once.
        """
        known = self._spawner if isinstance(self._spawner, NamesProblems) else None
        floods = {who: _told_of_flood() for who in self._arrivals.told if isinstance(who, str)}
        for key, words, found in (
            ("problems", "no agent for handler", known.problems if known else {}),
            ("faults", "agents: something went wrong with", {**floods, **(known.faults if known else {})}),
        ):
            for id, why in found.items():
                if self.health.value[key].get(id) != why:
                    self.health.say(f"{words} {id}: {why}", Level.WARNING)
            self.health.value[key] = {id: self.vault.mask(why) for id, why in found.items()}

    async def _tell_changes(self) -> None:
        """Agents whose settings are old, told in the user's name."""
        for message in await self.records.facts(self._direct.changed) if self._direct else ():
            await self.records.ask(Asked(message, self.agency.person))

    async def _perform(self, operation: Any, principal: Any) -> Answer:
        return await self.records.ask(Asked(operation, principal))

    def _counted(self, toolbox: Toolbox) -> Callable[[str, Mapping[str, Any], Caller], Any]:
        """Calls, counted, of which the spawner hears."""

        async def call(name: str, given: Mapping[str, Any], caller: Caller) -> Called:
            self.health.value["calls"] += 1
            principal = caller.principal
            if isinstance(self._spawner, HearsCalls) and isinstance(principal, ByHandler):
                self._spawner.heard(parse_uuid(principal.agent), f"{name} {_digest(given)}")
            return await toolbox.call(name, given, caller)

        return call

    def _launchers(self) -> Mapping[int, Uuid]:
        return self._spawner.launchers() if isinstance(self._spawner, EndsFloods) else {}

    def _flooded(self, who: Origin, refused: int) -> None:
        """Connections come without pause: an agent that opens them is ended, as far as the spawner has it; a process
        of nobody is named.
        """
        if isinstance(who, int):
            self.health.report_error(f"process {who} {_FLOODS} to the agents' socket ({refused} were refused)")
            return
        if isinstance(self._spawner, EndsFloods):
            self._spawner.flooded(who, _told_of_flood(refused))
        self._changed.set()

    def _wrote(self, told: Sequence[str]) -> None:
        """A write is on disk: what it made due is done at once, packing and the copy follow. In any thread."""
        for text in told:
            self.health.say(text)
        self._to_follow.set()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._changed.set)

    def _follow(self) -> None:
        """Packing and the copy, behind the writes, in a thread of its own."""
        while not self._stop.is_set():
            self._to_follow.wait(_LOOK)
            if self._stop.is_set() or not self.health.is_here():
                return
            self._to_follow.clear()
            try:
                url = copy_url(self.agency.hub)
                told = follow(self.agency.store.repository, "" if isinstance(url, Refusal) else url)
                for text in told:
                    self.health.say(text)
            except (CnError, OSError) as why:
                self.health.report_error(f"the copy: {why}")
            time.sleep(_SETTLE)


def _told_of_flood(refused: int = 0) -> str:
    return f"it {_FLOODS}" + (f" ({refused} were refused)" if refused else "")


def _digest(given: Mapping[str, Any]) -> str:
    """Another one for other arguments. A long text, to write which as JSON would take long, stands by a digest of its
    own.
    """
    short = {name: _hash(one) if isinstance(one, str) and len(one) > _LONG else one for name, one in given.items()}
    return _hash(json.dumps(short, sort_keys=True, default=str))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _hosts(port: int, more: Sequence[str]) -> list[str]:
    """The Host headers that are answered: a web page of another name cannot make a browser ask (DNS rebinding)."""
    return [f"127.0.0.1:{port}", f"localhost:{port}", "localhost", *more]
