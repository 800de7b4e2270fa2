"""Start agents where something is workable, watch them, and see them off (``docs/agency.md``, "Agents").

Everything that has to be known after a restart is in the records (leases) and in the agents' folders (who was started,
how it ended), so a step begins with a look at both, whoever started what is there. An agent's lease is recorded before
anything starts; a folder is cleared away only after the lease has ended.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

from cn.agency.events import AgentEnded, Change, MailDone, OutcomeCompleted
from cn.agency.names import Party, Uuid, is_user
from cn.agency.operations import BySystem, EndAgent, LeaseAgent, Operation, Principal
from cn.agency.perform import Answer, read_content
from cn.agency.plan.access import KNOWN
from cn.agency.plan.result import Refused
from cn.agency.plan.structure import above
from cn.agency.rows import Agent, Facts, Handler
from cn.agency.store.look import live_agents
from cn.agency.store.needs import Need, done_by, find_needs, next_due, past_agents
from cn.agency.tokens import hash_token, new_token
from cn.agents import outputs
from cn.agents.examine import NotTried, examine
from cn.agents.launcher import ERRORS, OUTPUT
from cn.agents.leftover import end_rest, end_strays, launchers_of
from cn.agents.letters import NO_LETTER, Ended, Letter, Whose, letter_of_end
from cn.agents.machine import Machine, Runner
from cn.agents.place import Address, Place
from cn.agents.prepare import Start, Told, prepare
from cn.agents.processes import (
    Ending,
    kill_processes_of,
    launch,
    note_ending,
    processes_of,
    read_ending,
    read_exit,
    read_launcher,
    see_launcher,
)
from cn.agents.prompt import TEMPLATE, first_message, system_prompt
from cn.agents.stuck import BY_HAND, IN_A_ROW, Past, goes_on, has_moved, idle_in_a_row, pause_until, wakes
from cn.agents.turns import Claim, in_turn
from cn.agents.unanswered import UNANSWERED, Away, wait_longer
from cn.agents.workspace import Folder
from cn.agents.wraps import hidden_of, missing
from cn.system.extras import template_dir
from cn.values.errors import Blocked, CnError
from cn.values.text import one_line
from cn.values.timestamps import format_second

Perform = Callable[[Operation, Principal], Awaitable[Answer]]
_LOOKED_AT = IN_A_ROW + 12
"""So many of a handler's last agents are looked at: the pause grows no further."""
_TRIED_AGAIN = timedelta(minutes=5)
"""After so long a wrap that did not hold is tried again."""
_AGAIN = timedelta(seconds=30)
"""After so long it is looked again whether what was missing on the machine is there."""
_SLOW = timedelta(seconds=10)
"""After so long what should be over is not any more just slow."""
_BETWEEN = 10.0
"""Seconds between two looks that count at most as time in which an agent could have been heard."""
_LOOK, _POLLS = "mail_inbox ", 10
"""A call that says nothing of where an agent is, unless it makes so many of them in a row."""
_LIVES = 8
"""An agent that gets somewhere keeps its place for so many times as long as one that does not, while others wait."""
_SYSTEM = BySystem()
_THREADS = 8
T = TypeVar("T")
_STOPPED = "it pauses until a person writes to it: its last agent was stopped by hand"
_NOT_KNOWN = "it is not known yet whether an agent of an earlier server runs as the user of its runner"
_NO_TRACE = "it was never started, or not here: this account has nothing of it on this machine"


@dataclass
class _Heard:
    """What this server heard of a live agent since it was started itself; times are the server's own
    (:attr:`Spawner._awake`).
    """

    last: float | None = None
    """When it gave a sign of life; None: it was not looked at yet."""
    said: tuple[float, ...] = ()
    """When its outputs were written to, as it was seen last."""
    call: str = ""
    times: int = 0
    polls: int = 0
    checked: bool = False
    ending: str = ""
    told: str = ""
    at_once: bool = False
    """It has no grace: what it does meanwhile is at the cost of others."""
    signalled: float | None = None
    begun: datetime | None = None
    """When it was started, or was seen first where the records say that this is to come."""
    step: tuple[int, datetime] | None = None
    """Its last step, as far as that was looked for: the number of the event, and when it was."""


@dataclass
class Spawner:
    """See :func:`make_spawner`."""

    place: Place
    machine: Machine
    perform: Perform
    address: Address
    problems: dict[Uuid, str] = field(default_factory=dict)
    """Why a handler with something workable gets no agent, in a sentence, where somebody can do something about it."""
    faults: dict[Uuid, str] = field(default_factory=dict)
    """What went wrong at the last step, by agent or handler; it kept nobody else from anything."""
    _heard: dict[Uuid, _Heard] = field(default_factory=dict)
    _away: dict[str, Away] = field(default_factory=dict)
    """By runner, whose model gave its agents no answer."""
    _held: dict[Runner, tuple[str, datetime]] = field(default_factory=dict)
    """By runner what a probe in its wrap could do, empty where it holds, and when that was tried."""
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _swept: bool = False
    """Did this server look for what earlier ones left where it does not look any more?"""
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _looked: tuple[int, datetime | None] | None = None
    _direct: Callable[[Uuid, Facts], Mapping[str, Any]] | None = None
    _first_seen: dict[Uuid, tuple[Uuid, datetime]] = field(default_factory=dict)
    """By handler its last agent, and when this server saw its end first, where that lies ahead in the records."""
    _rest: dict[Uuid, tuple[Blocked, datetime]] = field(default_factory=dict)
    """By agent why it is not seen off, though its launcher is gone, and when that is tried again; for what earlier
    servers left by the root handler.
    """
    _leaving: dict[Uuid, datetime] = field(default_factory=dict)
    """Handlers whose last agent is still being ended, and since when that was seen."""
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, "agents"))
    """Its own: what else the server does in threads, and for how long, keeps no agent waiting."""
    _awake: float = 0.0
    """Seconds that this server looked on: while it stood still (a machine that sleeps, SIGSTOP) it could hear nobody,
    and a clock that is set is no time that went by.
    """
    _last_look: float | None = None

    async def step(self, now: datetime) -> None:
        """See off who has ended or has to, and start who is needed. Cheap where nothing has changed."""
        async with self._one:
            await self._step(now)

    async def _in_thread(self, do: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(do, *given))

    async def _step(self, now: datetime) -> None:
        went_by = now.timestamp() - self._last_look if self._last_look is not None else 0.0
        self._awake, self._last_look = self._awake + min(max(went_by, 0.0), _BETWEEN), now.timestamp()
        self._children = [child for child in self._children if child.poll() is None]
        with self.place.agency.store.reading() as facts:
            live = {id: agent for id in live_agents(facts) if (agent := facts.agent(id))}
            head = facts.head()
        folders = {folder.agent: folder for folder in self.place.folders.live()}
        self.faults = {}
        for agent in live.values():
            self._begun(agent, now)
            runner = self._runner_of(agent) if self._away else None
            asks = not self._heard[agent.id].call  # who calls a tool had an answer
            if asks and runner and (away := self._away.get(runner.name)):
                self.faults[agent.handler] = f"{away.why}; it is asked again now"
        for id, folder in folders.items():
            await self._alone(id, self._look_after(folder, live.get(id), now))
        for id in live:
            if id not in folders:
                await self._alone(id, self._see_off_lost(id, now))
        if head and not self._swept:
            await self._alone(head.root, self._sweep(head.root, {*live, *folders}, now))
        self._note_leaving([folder for id, folder in folders.items() if id not in live], now)
        await self._start_needed(head.seq if head else 0, now)

    async def _sweep(self, root: Uuid, known: set[Uuid], now: datetime) -> None:
        await self._now_and_then(root, now, end_strays, self.place.folders, known, self._users)
        self._swept = True

    async def _now_and_then(self, about: Uuid, now: datetime, do: Callable[..., T], *given: Any) -> T:
        """Do what may have to ask another user of the machine. Where that fails it is told at each step, and tried
        again after a while: an agent may let each question last until its time is over.
        """
        why, again = self._rest.get(about, (None, now))
        if why and now < again:
            raise Blocked(why.text, why.hint)
        try:
            done = await self._in_thread(do, *given)
        except Blocked as why:
            self._rest[about] = why, now + _AGAIN
            raise
        self._rest.pop(about, None)
        return done

    def _note_leaving(self, ended: Sequence[Folder], now: datetime) -> None:
        """Whose agents live on though their leases ended: these handlers get no other ones meanwhile."""
        found: dict[Uuid, datetime] = {}
        for folder in ended:
            launcher = read_launcher(folder.path)
            running = launcher if launcher and launcher.is_running else None
            if running is None and folder.agent not in self._rest:
                continue
            with self.place.agency.store.reading() as facts:
                agent = facts.agent(folder.agent)
            if agent is None:
                continue
            since = found[agent.handler] = self._leaving.get(agent.handler, now)
            if running and now - since > _SLOW:
                self.faults[folder.agent] = (
                    f"agent {folder.agent[:8]} lives on, though its lease has ended: "
                    f"its launcher does not answer (pid {running.pid})"
                )
        if found.keys() != self._leaving.keys():
            self._looked = None
        self._leaving = found

    async def _see_off_lost(self, agent: Uuid, now: datetime) -> None:
        """End a lease whose agent has no folder here, and first what it started: after the hub or the agents' folder
        was moved it works on, unseen, and another one would be started beside it.
        """
        hub, launchers = self.place.folders.hub, self.launchers()
        ended = await self._now_and_then(agent, now, kill_processes_of, agent, hub, self._users, launchers)
        why = f"its folder is not where this server has them: its processes were ended ({ended})" if ended else ""
        if others := await self._in_thread(processes_of, agent, None, (), launchers):
            numbers = ", ".join(map(str, others))
            why = why or f"it works for another folder of this hub, a copy or where it was before (pid {numbers})"
            self.faults[agent] = f"agent {agent[:8]} lives, and does not work for this folder: pid {numbers}"
        await self._end(agent, one_line(why, 200) if why else _NO_TRACE)

    @property
    def _users(self) -> set[str]:
        """As whom agents may work here, beside us."""
        return {one.wrap.user for one in self.machine.runners if one.wrap and one.wrap.user}

    async def _alone(self, about: Uuid, work: Awaitable[None]) -> None:
        """What goes wrong with one, by whatever it made or is, keeps nobody else from anything."""
        try:
            await work
        except CnError as why:
            self.faults[about] = f"{why.text}; {why.hint}"
        except Exception as why:
            self.faults[about] = one_line(f"{type(why).__name__}: {why}", 200)

    async def close(self) -> None:
        """Let go; the agents go on, and are found again."""
        for child in self._children:
            if child.poll() is None:
                child.returncode = 0  # it outlives us: nobody of us will wait for it

    def use_direct(self, settings_of: Callable[[Uuid, Facts], Mapping[str, Any]]) -> None:
        """What agents start beside the bridge: ``settings_of`` gives a handler's servers of MCP by name."""
        self._direct = settings_of

    def heard(self, agent: Uuid, call: str = "") -> None:
        """An agent asked for something: it is not silent. ``call`` is the same for the same tool and arguments."""
        one = self._heard.setdefault(agent, _Heard())
        one.last = self._awake
        if call.startswith(_LOOK) and one.polls < _POLLS:  # a loop looks into its inbox between any two calls
            one.polls += 1
            return
        one.polls = 0
        one.times = one.times + 1 if call and call == one.call else 1
        one.call = call
        if call and one.times >= self.machine.watch.calls and not one.ending:
            one.ending = f"it asked {one.times} times in a row for the same"
            one.told = call

    def launchers(self) -> dict[int, Uuid]:
        """The process above all of an agent's → the agent."""
        return launchers_of(self.place.folders)

    def flooded(self, agent: Uuid, why: str) -> None:
        """An agent takes from all others what they need: it is ended now."""
        one = self._heard.setdefault(agent, _Heard())
        one.ending, one.at_once = one.ending or why, True

    async def _look_after(self, folder: Folder, agent: Agent | None, now: datetime) -> None:
        launcher = see_launcher(folder.path)
        running = launcher is not None and launcher.is_running
        if running and launcher:
            if agent is None:  # its lease ended: by its handler's end, or by a person
                launcher.signal(signal.SIGQUIT)
            elif why := self._reason_to_end(folder, agent):
                heard = self._heard[agent.id]
                heard.ending = why
                if heard.signalled is None:
                    note_ending(folder.path, Ending(why, heard.told))
                    heard.signalled = self._awake
                    launcher.signal(signal.SIGQUIT if heard.at_once else signal.SIGTERM)
                elif heard.at_once or self._awake - heard.signalled > self.machine.watch.grace + _SLOW.total_seconds():
                    launcher.signal(signal.SIGQUIT)  # its agent stopped it, or that would be over
            return
        await self._now_and_then(folder.agent, now, end_rest, self.place.folders, folder)
        await self._in_thread(self.place.folders.empty, folder)
        if agent is not None:
            await self._end(agent.id, *self._told_of_end(folder, agent, now))
        self._heard.pop(folder.agent, None)
        if left := await self._in_thread(self.place.folders.retire, folder):
            self.faults[folder.agent] = f"{self.place.folders.ended(folder.agent).path} cannot be removed: {left}"
        await self._in_thread(self.place.folders.forget, now.timestamp() - self.place.days * 86400)

    def _reason_to_end(self, folder: Folder, agent: Agent) -> str:
        """Why a running agent has to end; empty where it may go on."""
        heard = self._heard.setdefault(agent.id, _Heard())
        if heard.ending:
            return heard.ending
        runner = self._runner_of(agent)
        if runner and not heard.checked:
            servers = outputs.servers_of(folder.files / "mcp.json")
            problem = outputs.problem_of_start(runner, agent.id, folder.path / OUTPUT, servers)
            heard.checked = problem is not None
            if problem:
                return f"it did not begin as asked: {problem}"
        said = _said(folder)
        if heard.last is None or heard.said != said:
            heard.last, heard.said = self._awake, said
        quiet = self._awake - heard.last
        return f"it was silent for {int(quiet)} s" if quiet > self.machine.watch.silence else ""

    def _told_of_end(self, folder: Folder, agent: Agent, now: datetime) -> tuple[str, Letter]:
        """How it ended, and what its handler's boss has to know. What it said may be anything, and never keeps its
        lease from ending.
        """
        try:
            self._note_answers(folder, agent, now)
            return self._how(folder, agent), self._message(folder, agent, now)
        except Exception as why:
            self.faults[agent.id] = one_line(f"what it said cannot be read: {type(why).__name__}: {why}", 200)
            return f"{_exit_of(folder)}, and what it said cannot be read", NO_LETTER

    def _how(self, folder: Folder, agent: Agent) -> str:
        """In a line, why an agent is no more."""
        heard, ended = self._heard.get(agent.id, _Heard()), read_exit(folder.path)
        if heard.ending:
            said = heard.ending
        elif ended is None:
            said = "its launcher was killed" if read_launcher(folder.path) else "it was never started"
        elif ended["why"]:
            said = ended["why"]
        elif unanswered := self._unanswered(folder, agent):
            said = unanswered
        else:
            words = outputs.last_words(folder.path) if ended["code"] else ""
            said = f"{_exit_of(folder)}; {words}" if words else _exit_of(folder)
        runner = self._runner_of(agent)
        used = outputs.spent(runner, folder.path / OUTPUT) if runner else ""
        return one_line(f"{said}; {used}" if used else said, 200)

    def _unanswered(self, folder: Folder, agent: Agent) -> str:
        """Why no model answered it, where that ended it by itself; else empty."""
        heard, ended, runner = self._heard.get(agent.id, _Heard()), read_exit(folder.path), self._runner_of(agent)
        if heard.ending or ended is None or runner is None:
            return ""
        return outputs.unanswered(runner, folder.path, ended["code"])

    def _note_answers(self, folder: Folder, agent: Agent, now: datetime) -> None:
        """Whether the model of a runner answers holds for all its agents."""
        if runner := self._runner_of(agent):
            if why := self._unanswered(folder, agent):
                self._away[runner.name] = wait_longer(self._away.get(runner.name), why, now, self.machine.watch.pause)
            else:
                self._away.pop(runner.name, None)

    def _message(self, folder: Folder, agent: Agent, now: datetime) -> Letter:
        """What the boss of a handler has to know of an agent's end."""
        heard = self._heard.get(agent.id, _Heard())
        with self.place.agency.store.reading() as facts:
            moved = _has_moved(agent, facts)
            away = bool(self._unanswered(folder, agent))
            idle = 0 if moved or away else 1 + idle_in_a_row(_past(agent.handler, agent.tenure, facts))
            unanswered = 1 + _unanswered_in_a_row(agent, facts) if away else 0
            outcome, handler = facts.outcome(agent.handler), facts.handler(agent.handler)
        whose = Whose(agent.handler, outcome.title if outcome else "", handler is None or handler.parent is None)
        last = outputs.last_words(folder.path)
        until = pause_until([Past(now, moved=False)] * idle, self.machine.watch.pause)
        return letter_of_end(whose, agent.id, Ended(heard.ending, heard.told, idle, last, until, unanswered))

    async def _end(self, agent: Uuid, why: str, letter: Letter = NO_LETTER) -> None:
        answer = await self.perform(EndAgent(agent, why, letter.text, letter.subject), _SYSTEM)
        if isinstance(answer, Refused) and answer.rule != KNOWN:  # what it said last looks like a secret
            told = "An agent of this handler ended; see its output." if letter.text else ""
            folder = self.place.folders.find(agent)
            await self.perform(EndAgent(agent, _exit_of(folder) if folder else "it ended", told), _SYSTEM)

    async def _start_needed(self, seq: int, now: datetime) -> None:
        """Lease and start, oldest need first. Nothing is looked at where nothing was written and nothing became due."""
        if self._looked and self._looked[0] == seq and (self._looked[1] is None or now < self._looked[1]):
            return
        with self.place.agency.store.reading() as facts:
            live = [agent for id in live_agents(facts) if (agent := facts.agent(id))]
            ready, later = self._ready(facts, now)
            order = in_turn([*ready], [_claim(one.handler, 0, facts) for one in live])
            room = max(0, self.place.agency.limits.agents - len(live))
            over = self._make_room(order[room:], live, facts, now)
            due = [one for one in (next_due(facts, now), later, over, now + _AGAIN if self.problems else None) if one]
        self._looked = (seq, min(due, default=None))
        await asyncio.gather(*(self._start(*ready[one], now) for one in order[:room]))

    def _make_room(
        self, waiting: Sequence[Claim], live: Sequence[Agent], facts: Facts, now: datetime
    ) -> datetime | None:
        """End as many agents as wait for a place, of those that have had theirs for long without getting anywhere;
        when that has to be looked at again.
        """
        life = timedelta(seconds=self.machine.watch.life)
        ending = sum(bool(self._heard.setdefault(one.id, _Heard()).ending) for one in live)
        ends: list[tuple[datetime, Agent]] = []
        for one in live if waiting else ():
            if not self._heard[one.id].ending:
                step, begun = self._last_step(one, life, facts, now), self._begun(one, now)
                ends.append((min(step + life, begun + _LIVES * life), one))
        ends.sort()
        over = [one for at, one in ends if at <= now]
        for one, claim in zip(over, waiting[ending:], strict=False):
            idle = now - self._last_step(one, life, facts, now)
            did = "got nowhere for" if idle >= life else "had its place for"
            held = idle if idle >= life else now - self._begun(one, now)
            waits = f"while {claim.handler[:8]} waits for a place"
            self._heard[one.id].ending = f"it {did} {int(held.total_seconds())} s, {waits}"
        return min((at for at, _ in ends if at > now), default=None)

    def _begun(self, agent: Agent, now: datetime) -> datetime:
        """When it was started. Who wrote that may have had a clock that was ahead: then since it was seen first."""
        heard = self._heard.setdefault(agent.id, _Heard())
        heard.begun = heard.begun or min(agent.started, now)
        return heard.begun

    def _last_step(self, agent: Agent, life: timedelta, facts: Facts, now: datetime) -> datetime:
        """When an agent got somewhere last, or began; looked for only where what is known of it is old."""
        heard, begun = self._heard.setdefault(agent.id, _Heard()), self._begun(agent, now)
        known = heard.step[1] if heard.step else begun
        if now - known < life:
            return known
        events = [event for event in done_by(agent, facts) if _is_step(event.change, agent, facts)]
        if events and (heard.step is None or heard.step[0] != events[-1].seq):
            heard.step = events[-1].seq, min(events[-1].time, now)
        return heard.step[1] if heard.step else begun

    def _ready(self, facts: Facts, now: datetime) -> tuple[dict[Claim, tuple[Handler, Runner]], datetime | None]:
        """Who can be started now, and when the first of those is to be looked at again who have to wait."""
        ready: dict[Claim, tuple[Handler, Runner]] = {}
        waits: list[datetime] = []
        self.problems = {}
        for need in find_needs(facts, now):
            handler = facts.handler(need.handler)
            runner = self.machine.runner(handler.runner) if handler else None
            if handler is None or (runner and runner.is_person):
                continue
            if handler.id in self._leaving:
                continue  # looked at again as soon as that is over
            if problem := _problem(runner, handler) or self._leak(runner, now):
                self.problems[handler.id] = problem
            elif (away := self._away.get(runner.name if runner else "")) and away.until > now:
                waits.append(away.until)
                self.problems[handler.id] = away.told
            elif not self._swept and runner and runner.wrap and runner.wrap.user:
                self.problems[handler.id] = _NOT_KNOWN
            elif _is_stopped(handler, facts):
                self.problems[handler.id] = _STOPPED
            elif (until := self._pause(need, facts, now)) and until > now:
                waits.append(until)
                self.problems[handler.id] = _paused(until)
            elif runner:
                ready[_claim(need.handler, need.since, facts)] = handler, runner
        return ready, min(waits, default=None)

    def _leak(self, runner: Runner | None, now: datetime) -> str:
        """What was found not long ago that the wrap of a runner lets an agent do; empty where it is to be tried."""
        found, tried = self._held.get(runner, ("", now)) if runner else ("", now)
        return found if now - tried < _TRIED_AGAIN else ""

    async def _holds(self, runner: Runner, now: datetime) -> bool:
        """Does its wrap hold an agent? Tried once by a server; what an agent could do is told as a problem."""
        if runner.wrap is None or runner.unguarded:
            return True
        async with self._probing:
            if self._held.get(runner, (" ", now))[0] and not self._leak(runner, now):
                self._held[runner] = await self._in_thread(self._probe, runner), now
        return not self._held[runner][0]

    def _probe(self, runner: Runner) -> str:
        try:
            leaks = examine(runner, self.place.agency.hub, self.place.folders, self.address.socket)
        except NotTried as why:
            return f"the wrap of runner {runner.name} does not work: {why}"
        more = f" (and {len(leaks) - 1} more: cn doctor)" if len(leaks) > 1 else ""
        remedy = "correct it, or write 'unguarded = true'"
        return f"an agent of runner {runner.name} is not held by its wrap: {leaks[0]}{more}; {remedy}" if leaks else ""

    def _pause(self, need: Need, facts: Facts, now: datetime) -> datetime | None:
        handler = facts.handler(need.handler)
        past = _past(need.handler, handler.tenure if handler else 0, facts)
        last = next(past_agents(need.handler, facts), None)
        ended = facts.history(last.id, 2**53, 1)[-1].seq if last else 0
        if wakes(facts.pending(need.handler), need.handler, ended):
            return None
        if last and past:
            past[0] = past[0]._replace(ended=self._ended(need.handler, last.id, past[0].ended, now))
        return pause_until(past, self.machine.watch.pause)

    def _ended(self, handler: Uuid, agent: Uuid, told: datetime, now: datetime) -> datetime:
        """When an agent ended. Who wrote that may have had a clock that was ahead, and no later event tells an earlier
        time: then it counts when this server saw it first, or a pause would last until that date.
        """
        known, seen = self._first_seen.get(handler, (agent, now))
        if known != agent:
            seen = now
        if told > now:
            self._first_seen[handler] = agent, seen
            return seen
        return min(told, seen)

    async def _start(self, handler: Handler, runner: Runner, now: datetime) -> None:
        if not await self._holds(runner, now):
            self._looked = None  # the next step tells it, and says when it is looked again
            return
        agent, token = Uuid(Party(str(uuid.uuid4()))), new_token()
        answer = await self.perform(LeaseAgent(agent, handler.id, hash_token(token)), _SYSTEM)
        if isinstance(answer, Refused):  # somebody was faster, or it is no longer needed
            return
        try:
            folder = self.place.folders.make(agent, other_user=runner.wrap.user if runner.wrap else "")
            told = await self._in_thread(self._told, handler, now)
            start = Start(agent, handler.id, token, folder, runner, self.address, told, self.machine.watch.grace)
            start = start._replace(hub=self.place.folders.hub, hidden=hidden_of(*self.place.private))
            self._children.append(await self._in_thread(_launch, start))
        except CnError as why:
            self.problems[handler.id] = f"{why.text}; {why.hint}"
            await self._end(agent, one_line(f"it could not be started: {why.text}"))
        except Exception as why:  # a fault of ours; it is seen off as one that was started
            self.problems[handler.id] = one_line(f"{type(why).__name__}: {why}", 200)
            await self._end(agent, f"it could not be started: {type(why).__name__}")

    def _told(self, handler: Handler, now: datetime) -> Told:
        store = self.place.agency.store
        with store.reading() as facts:
            message = first_message(handler, facts, now, lambda file, hash: read_content(store, file, hash))
            servers = self._direct(handler.id, facts) if self._direct else {}
        return Told(system_prompt(self._template(), handler), message, servers)

    def _template(self) -> str:
        for folder in (self.place.agency.hub.root, template_dir()):
            with suppress(OSError, UnicodeDecodeError):
                return (folder / TEMPLATE).read_text("utf-8")
        return ""

    def _runner_of(self, agent: Agent) -> Runner | None:
        with self.place.agency.store.reading() as facts:
            handler = facts.handler(agent.handler)
        return self.machine.runner(handler.runner) if handler else None


def make_spawner(place: Place, machine: Machine, perform: Perform, address: Address) -> Spawner:
    """The spawner of an Agency. ``perform`` does an operation and answers when it is on disk."""
    told = {folder.agent: read_ending(folder.path) for folder in place.folders.live()}
    heard = {agent: _Heard(ending=one.why, told=one.told) for agent, one in told.items() if one.why}
    return Spawner(place, machine, perform, address, _heard=heard)


def _exit_of(folder: Folder) -> str:
    """How its process ended, in Agency's own words."""
    ended = read_exit(folder.path)
    code = (ended["code"] or 0) if ended else 0
    return f"it was ended by signal {-code}" if code < 0 else f"it failed: exit {code}" if code else "it ended"


def _launch(start: Start) -> subprocess.Popen[bytes]:
    return launch(start.folder.path, prepare(start))


def _problem(runner: Runner | None, handler: Handler) -> str:
    """Why this machine starts nothing with a runner; empty where it does."""
    if runner is None:
        return f"this machine has no runner {handler.runner!r}: define it in agency.toml"
    if runner.unsafe:
        return runner.unsafe
    if runner.wrap and (command := missing(runner.wrap)):
        return f"runner {runner.name} is to be wrapped by {command}, which is not on this machine: install it"
    return ""


def _paused(until: datetime) -> str:
    return f"it pauses until {format_second(until)}, or until somebody writes to it: its last agents got nowhere"


def _is_stopped(handler: Handler, facts: Facts) -> bool:
    """Was its last agent stopped by hand, and has nobody written to it since?"""
    last = next(past_agents(handler.id, facts), None)
    if last is None or last.tenure != handler.tenure:
        return False
    end = facts.history(last.id, 2**53, 1)[-1]
    by_hand = isinstance(end.change, AgentEnded) and end.change.why == BY_HAND and is_user(Party(end.actor))
    return by_hand and not goes_on(facts.pending(handler.id), end.seq)


def _past(handler: Uuid, tenure: int, facts: Facts) -> list[Past]:
    """A handler's last agents in this tenure, the last one first; only as far as they changed nothing."""
    return list(_idle_past(handler, tenure, facts))


def _idle_past(handler: Uuid, tenure: int, facts: Facts) -> Iterator[Past]:
    for agent in islice(past_agents(handler, facts), _LOOKED_AT):
        if agent.tenure != tenure:
            return
        moved = _has_moved(agent, facts)
        if not moved and _was_unanswered(agent, facts):  # no attempt
            continue
        yield Past(facts.history(agent.id, 2**53, 1)[-1].time, moved)
        if moved:
            return


def _was_unanswered(agent: Agent, facts: Facts) -> bool:
    change = facts.history(agent.id, 2**53, 1)[-1].change
    return isinstance(change, AgentEnded) and change.why.startswith(UNANSWERED)


def _unanswered_in_a_row(agent: Agent, facts: Facts) -> int:
    """How many of the handler's agents before this one no model answered."""
    before = islice((one for one in past_agents(agent.handler, facts) if one.id != agent.id), IN_A_ROW)
    return sum(1 for _ in takewhile(lambda one: _was_unanswered(one, facts), before))


def _has_moved(agent: Agent, facts: Facts) -> bool:
    """Did it get anywhere?"""
    return any(_is_step(event.change, agent, facts) for event in done_by(agent, facts))


def _is_step(change: Change, agent: Agent, facts: Facts) -> bool:
    return has_moved((change,), _own(change, agent.handler, facts))


def _claim(handler: Uuid, since: int, facts: Facts) -> Claim:
    agent = facts.live_agent(handler) or next(past_agents(handler, facts), None)
    had = facts.history(agent.id, 2**53, 2)[0].seq if agent else 0
    return Claim((*reversed([*above(handler, facts)]), handler), since, had)


def _own(change: Change, handler: Uuid, facts: Facts) -> set[Uuid]:
    """What of it concerns its handler alone: its two documents, the messages that it wrote to itself, its inbox."""
    row = facts.handler(handler)
    own = {row.state, row.audit} if row else set()
    if isinstance(change, MailDone):
        own |= {id for id in change.mail if (mail := facts.mail(id)) and mail.sender == handler}
    if isinstance(change, OutcomeCompleted):
        own |= {change.outcome} if (done := facts.outcome(change.outcome)) and done.inbox else set()
    return own


def _said(folder: Folder) -> tuple[float, ...]:
    """When an agent's outputs were written to; it said something when that changes, whatever the clocks say."""
    found = list[float]()
    for name in (OUTPUT, ERRORS):
        with suppress(OSError):
            found.append(Path(folder.path, name).stat().st_mtime)
    return tuple(found)
