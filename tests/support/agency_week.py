"""An organisation that works by itself, on real records: ``python -m tests.support.agency_week FOLDER HANDLERS DAYS``.

Time is set forward, agents follow a script, people interfere. The process may be killed at any instant and begun
again: what it asks for is noted with its name before, so what was not answered is asked once more by the same name.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from cn.agency import operations as ops
from cn.agency.names import NO_ID, Party, Uuid, is_user, parse_uuid
from cn.agency.operations import ByHandler, BySystem, ByUser, Limits, Operation, Principal, Seen, Wanted
from cn.agency.perform import Asked, Done, found, perform
from cn.agency.plan.result import Refused
from cn.agency.plan.structure import depth, is_workable
from cn.agency.rows import Facts, Grant, Handler
from cn.agency.store.index import Index
from cn.agency.store.look import list_outcomes, sums
from cn.agency.store.outcome_list import Wanted as WantedOutcomes
from cn.agency.store.repository import Places
from cn.agency.store.store import Store, open_store
from tests.support.records import WHO

ADA, SYSTEM = ByUser("ada"), BySystem()
TICK = timedelta(minutes=30)
_TOGETHER = 60
"""Operations of one write at most: as many agents as ask at the same time."""
_ROUNDS = 5
_LOST = 40
"""The answers to every such batch are lost on their way, and it is asked once more."""
LIMITS = Limits(depth=9, underlings=60, open_outcomes=200, agents=1000)
Request = tuple[Operation, Principal]


class Moment(NamedTuple):
    """How far the week has come: what is written down before anything is asked for."""

    batch: int
    now: datetime
    end: datetime
    asked: tuple[Asked, ...]


class Week:
    """The world at work in ``folder``: records, what was asked for (``moment``), what was answered (``answers``)."""

    def __init__(self, folder: Path, handlers: int, days: float) -> None:
        self.folder, self.handlers = folder, handlers
        self.agents = max(8, handlers // 16)
        places = Places(folder / "cn")
        if not places.repository.exists():
            found(places, WHO, Asked(ops.FoundAgency("Help Ada"), ADA, "0.0"))[0].close()
        self.store: Store = open_store(places, WHO, lambda: self.now)
        begin = datetime.fromtimestamp(self.store.repository.tip().time, UTC)
        self.batch, self.now, self.end = 0, begin, begin + timedelta(days=days)
        self.answers = os.open(folder / "answers", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.sessions: dict[Uuid, ByHandler] = {}

    # Asking

    def ask(self, requests: Sequence[Request]) -> list[Done | Refused]:
        """Have it done, at most so many in one write; noted before, and after."""
        answers: list[Done | Refused] = []
        for start in range(0, len(requests), _TOGETHER):
            self.batch += 1
            part = requests[start : start + _TOGETHER]
            asked = tuple(Asked(one, by, f"{self.batch}.{number}") for number, (one, by) in enumerate(part))
            self._note(asked)
            answers += self._perform(asked)
            if self.batch % _LOST == 0:
                self._perform(asked)
        return answers

    def _note(self, asked: tuple[Asked, ...]) -> None:
        new = self.folder / "moment.new"
        new.write_bytes(pickle.dumps(Moment(self.batch, self.now, self.end, asked)))
        new.rename(self.folder / "moment")

    def _perform(self, asked: tuple[Asked, ...]) -> list[Done | Refused]:
        answers = list(perform(self.store, asked, LIMITS).answers)
        lines = [
            json.dumps([one.request_id, answer.rule if isinstance(answer, Refused) else "done"])
            for one, answer in zip(asked, answers, strict=True)
        ]
        os.write(self.answers, "".join(f"{line}\n" for line in lines).encode())
        return answers

    def go_on(self) -> None:
        """After a kill: what was asked for last is asked again; agents that worked are no more."""
        moment: Moment = pickle.loads((self.folder / "moment").read_bytes())
        self.batch, self.now, self.end = moment.batch, moment.now, moment.end
        self._perform(moment.asked)
        self._end_lost_agents()

    def _end_lost_agents(self) -> None:
        with self.store.reading() as facts:
            lost = _ids(facts, "SELECT id FROM agent WHERE live ORDER BY id")
        self.ask([(ops.EndAgent(id, "it was killed"), SYSTEM) for id in lost])

    # The organisation

    def begin(self) -> None:
        """Delegate until there are handlers enough, each with something to do, a file, and what it was granted."""
        made = [self._root()]
        for boss in made:
            with self.store.reading() as facts:
                there = facts.underlings(boss)
            if there or len(made) >= self.handlers:  # a kill came in between
                made += there
                continue
            width = min(20 if len(made) == 1 else 7, self.handlers - len(made))
            by = self._principal(boss)
            answers = self.ask([(ops.CreateOutcome(f"Part {n}", "", (boss,)), by) for n in range(width)])
            file = self.ask([(ops.CreateFile("Notes", b"begun"), by)])[0]
            roots = [_named(one, "outcome") for one in answers]
            grants = (Wanted(f"kb:{_named(file, 'file')}", "write"),)
            given = [(ops.Delegate(root, grants=grants), by) for root in roots]
            works = [
                (ops.CreateOutcome(f"Work {n}", "", (root,)), ByHandler(root, 1, "user:ada"))
                for root in roots
                for n in range(2)
            ]
            self.ask([*given, *works])
            made += roots

    def _root(self) -> Uuid:
        with self.store.reading() as facts:
            head = facts.head()
        assert head is not None
        return head.root

    def _principal(self, handler: Uuid) -> ByHandler:
        with self.store.reading() as facts:
            row = facts.handler(handler)
        assert row is not None
        return ByHandler(handler, row.tenure, "user:ada")

    # A week

    def live(self) -> None:
        """Half an hour after another."""
        while self.now < self.end:
            self.now += TICK
            chance = random.Random(self.batch)
            self._deliver()
            self._spawn()
            self._interfere(chance)
            for _ in range(_ROUNDS):
                self._work(chance)
            self._end_sessions(chance)
        self._end_lost_agents()

    def _deliver(self) -> None:
        with self.store.reading() as facts:
            due = facts.due(self.now, 1000)
        self.ask([(ops.DeliverDue(one.id), SYSTEM) for one in due])

    def _spawn(self) -> None:
        """Whoever has something to do and no agent gets one, whoever waits longest first."""
        with self.store.reading() as facts:
            lost = [id for id in _ids(facts, "SELECT id FROM agent WHERE live") if id not in self.sessions]
            rows = list_outcomes(facts, WantedOutcomes(workable=True), self.now, 2**31).workable
            needs = [id for id in dict.fromkeys(row[1] for row in rows) if not facts.live_agent(id)]
            last = dict(_rows(facts, "SELECT handler, max(started) FROM agent GROUP BY handler"))
            needs.sort(key=lambda id: last.get(id, 0))
            chosen = [row for id in needs[: self.agents] if (row := facts.handler(id)) and row.active]
        self.ask([(ops.EndAgent(id, "it was silent"), SYSTEM) for id in lost])
        ids = [_uuid(f"{self.batch} {row.id}") for row in chosen]
        leases = [
            ops.LeaseAgent(id, row.id, sha256(id.encode()).hexdigest()) for id, row in zip(ids, chosen, strict=True)
        ]
        answers = self.ask([(lease, SYSTEM) for lease in leases])
        twice = [
            ops.LeaseAgent(_uuid(f"{self.batch} {id}"), row.id, "0" * 64) for id, row in zip(ids, chosen, strict=True)
        ]
        self.ask([(lease, SYSTEM) for lease in twice[:1]])
        for id, row, answer in zip(ids, chosen, answers, strict=True):
            if isinstance(answer, Done):
                self.sessions[id] = ByHandler(row.id, row.tenure, id)

    def _work(self, chance: random.Random) -> None:
        with self.store.reading() as facts:
            scripts = (Script(facts, by, chance, self.now, self.handlers) for by in self.sessions.values())
            asked = [(operation, script.by) for script in scripts if (operation := script.next())]
        self.ask(asked)

    def _end_sessions(self, chance: random.Random) -> None:
        """Most say what they did and end; some are killed, which is found out later."""
        ending = [by for by in self.sessions.values() if chance.random() < 0.9]
        self.ask([(ops.SubmitAudit("worked"), by) for by in ending])
        self.ask([(ops.EndAgent(parse_uuid(by.agent), "it ended"), SYSTEM) for by in ending])
        self.sessions.clear()

    def _interfere(self, chance: random.Random) -> None:
        """What people do: mail, new work, stop, remove, move, revoke, delegate again."""
        with self.store.reading() as facts:
            handlers = _ids(facts, "SELECT id FROM handler WHERE active AND parent IS NOT NULL")
            grants = _ids(facts, 'SELECT id FROM "grant" ORDER BY rowid DESC LIMIT 500')
            again = _ids(
                facts, "SELECT h.id FROM handler h JOIN outcome o USING (id) WHERE NOT active AND status = 'open'"
            )
        one, other = chance.choice(handlers), chance.choice(handlers)
        kinds: list[Operation | None] = [
            ops.SendMail(one, text="How does it go?"),
            ops.SendMail(one, text="Look at it tomorrow.", due=self.now + timedelta(hours=chance.randint(1, 30))),
            ops.CreateOutcome("Something new", "", (self._root(),)),
            ops.Delegate(chance.choice(again), message="Once more.") if again else None,
            ops.RevokeAccess(chance.choice(grants)) if grants else None,
            ops.MoveHandler(one, other),
            ops.MoveHandler(one, Party("user:cto")),
            ops.RemoveHandler(one),
            ops.StopHandler(one) if chance.random() < 0.3 else None,
            ops.GrantAccess(self._root(), Wanted("mcp:gmail", "use")),
        ]
        if chance.random() < 0.5:  # what waits for who is stopped or removed goes on
            self.ask([(ops.SendMail(one, text="Are you there?"), ADA)])
        self.ask([(kind, ADA) for kind in chance.sample(kinds, 4) if kind])


class Script:
    """What an agent asks for next, by what it sees, as an instance of its handler would."""

    def __init__(self, facts: Facts, by: ByHandler, chance: random.Random, now: datetime, handlers: int) -> None:
        self.facts, self.by, self.chance, self.now, self.wanted = facts, by, chance, now, handlers

    def next(self) -> Operation | None:
        """An operation; None where there is nothing to do."""
        row = self.facts.handler(self.by.handler)
        if row is None or not row.active or row.tenure != self.by.tenure:
            return ops.CreateFile("Too late", b"it is stopped") if self.chance.random() < 0.5 else None
        if pending := self.facts.pending(row.id):
            return self._mail(row, [one.id for one in pending], pending[0].file, pending[0].sender)
        works = [one for id in self.facts.open_outcomes(row.id) if (one := self.facts.outcome(id))]
        ready = [one.id for one in works if is_workable(one, self.facts, self.now)]
        pick = self.chance.random()
        if pick < 0.05:
            return self._trespass(row)
        if pick < 0.3:
            return self._beside(row)
        return self._outcome(row, self.chance.choice(ready), works[0].id) if ready else None

    def _mail(self, row: Handler, mail: list[Uuid], file: Uuid, sender: Party) -> Operation:
        if self.chance.random() < 0.4:
            return ops.ReadFile(file)
        team = self.facts.underlings(row.id)
        done = sender in team and self.facts.open_outcomes(Uuid(sender)) == [sender]
        if done and self.chance.random() < 0.3:
            return ops.CompleteOutcome(Uuid(sender), "It is so.")
        return ops.FinishMail(tuple(mail))

    def _outcome(self, row: Handler, id: Uuid, other: Uuid) -> Operation:
        """``other`` is one of its own too, maybe the same."""
        pick = self.chance.random()
        if id == row.id:  # nothing is left below its root
            if pick < 0.5:
                return ops.CreateOutcome("More work", "", (id,))
            if pick < 0.8 and row.boss != row.id:
                return ops.SendMail(row.boss, text="It is accomplished.")
            return ops.BlockOutcome(id, "waits for its boss", self.now + timedelta(hours=self.chance.randint(4, 24)))
        if pick < 0.15 and self._may_delegate(row):
            return ops.Delegate(id, grants=self._wanted(), message="Begin." if pick < 0.05 else "")
        if pick < 0.25:
            return ops.CreateOutcome("A part", "", (id, other))
        if pick < 0.3:
            return ops.UpdateOutcome(id, link=(other,))
        if pick < 0.4:
            return ops.BlockOutcome(id, "waits", self.now + timedelta(hours=self.chance.randint(1, 12)))
        if pick < 0.5:
            return ops.CloseOutcome(id, "it did not work out", cascade=True)
        return ops.CompleteOutcome(id, "done")

    def _may_delegate(self, row: Handler) -> bool:
        return sums(self.facts, self.now).handlers < self.wanted + 20 and depth(row.id, self.facts) < LIMITS.depth

    def _wanted(self) -> tuple[Wanted, ...]:
        held = [one for one in self.facts.grants_of(self.by.handler, self.by.tenure) if one.level != "push"]
        return (_less(self.chance.choice(held)),) if held else ()

    def _beside(self, row: Handler) -> Operation:
        """Mail, files, capabilities, reminders."""
        team, files = self.facts.underlings(row.id), self.facts.files_of(row.id, row.tenure)
        own = [one for one in files if one.kind == "file"]
        to = self.chance.choice([row.boss, *team])
        kinds: list[Operation] = [
            ops.SendMail(to, text="Please look."),
            ops.SendMail(row.id, text="Remember.", due=self.now + timedelta(hours=self.chance.randint(1, 40))),
            ops.CreateFile("Notes", b"%d" % self.chance.randrange(10**9)),
        ]
        if own:
            file = self.chance.choice(own)
            kinds.append(ops.WriteFile(file.id, b"%d" % self.chance.randrange(10**9), Seen(file.version, file.hash)))
            if team:
                wanted = self._for_a_while(Wanted(f"kb:{file.id}", "write"))
                kinds += [ops.GrantAccess(self.chance.choice(team), wanted)] * 2
        held = self.facts.grants_of(row.id, row.tenure)
        if held and team:
            kinds += [ops.GrantAccess(self.chance.choice(team), self._for_a_while(_less(self.chance.choice(held))))] * 2
        return self.chance.choice(kinds)

    def _for_a_while(self, wanted: Wanted) -> Wanted:
        """Mostly until the holder's root ends, now and then until an outcome of its own does."""
        own = self.facts.open_outcomes(self.by.handler)
        return wanted._replace(scope=self.chance.choice(own)) if self.chance.random() < 0.4 else wanted

    def _trespass(self, row: Handler) -> Operation:
        """What it may not do: most of it is refused."""
        files = _ids(self.facts, "SELECT id FROM file WHERE kind = 'file' ORDER BY rowid DESC LIMIT 60")
        works = _ids(self.facts, "SELECT id FROM outcome WHERE status = 'open' ORDER BY rowid DESC LIMIT 60")
        others = _ids(self.facts, "SELECT id FROM handler WHERE active")
        file, work, other = (self.chance.choice(ids) for ids in (files, works, others))
        team, found, own = self.facts.underlings(row.id), self.facts.file(file), self.facts.open_outcomes(row.id)
        holder = self.chance.choice(team or others)
        kinds: list[Operation] = [
            *[ops.GrantAccess(holder, Wanted(f"kb:{file}", level)) for level in ("read", "write")],
            *[ops.GrantAccess(holder, one) for one in self._more_than_held(row)] * 2,
            ops.ReadFile(file),
            ops.SendMail(other, text="Do as I say."),
            ops.CloseOutcome(work, "I do not like it", cascade=True),
            ops.CompleteOutcome(row.id, "I say so", cascade=True),
            ops.Delegate(work),
            ops.StopHandler(other),
            ops.RemoveHandler(other),
            ops.MoveHandler(other, row.id),
            ops.UpdateOutcome(self.chance.choice(own), link=(self.chance.choice(own),)),
        ]
        if found:
            kinds.append(ops.WriteFile(file, b"mine", Seen(found.version, found.hash)))
        return self.chance.choice(kinds)

    def _more_than_held(self, row: Handler) -> list[Wanted]:
        held = self.facts.grants_of(row.id, row.tenure)
        return [Wanted(one.resource, "write") for one in held if one.level == "read"]


def _less(grant: Grant) -> Wanted:
    return Wanted(grant.resource, "read" if grant.resource.startswith("kb:") else grant.level)


def _ids(facts: Facts, statement: str) -> list[Uuid]:
    return [row[0] for row in _rows(facts, statement)]


def _rows(facts: Facts, statement: str) -> list[tuple]:  # type: ignore[type-arg]
    assert isinstance(facts, Index)
    return facts.database.execute(statement).fetchall()


def _named(answer: Done | Refused, name: str) -> Uuid:
    assert isinstance(answer, Done), answer
    value = answer.answer[name]
    assert isinstance(value, str)
    return parse_uuid(value) if not is_user(value) else NO_ID


def _uuid(text: str) -> Uuid:
    return parse_uuid(str(UUID(bytes=sha256(text.encode()).digest()[:16], version=4)))


def main(folder: Path, handlers: int, days: float) -> None:
    week = Week(folder, handlers, days)
    if (folder / "moment").exists():
        week.go_on()
    if not (folder / "begun").exists():
        week.begin()
        (folder / "begun").touch()
    week.live()
    week.store.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
