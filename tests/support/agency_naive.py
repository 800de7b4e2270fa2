"""Agency once more, as simply as it can be said: sets, loops over everything, no index, and no code of cn's planners.

It follows accepted operations, tells who may do what, and who may ask for what. Random histories compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cn.agency import operations as ops
from cn.agency.operations import ByHandler, ByUser, Operation, Principal

LEVELS = {
    "outcome": ["none", "read", "write"],
    "kb": ["none", "read", "write"],
    "mail": ["none", "send"],
    "handler": ["none", "stop"],
    "mcp": ["none", "use"],
    "repo": ["none", "clone", "push"],
}


@dataclass
class Work:
    responsible: tuple[str, int]
    parents: set[str]
    is_open: bool = True
    inbox: bool = False


@dataclass
class Person:
    tenure: int
    parent: str | None
    boss: str
    active: bool = True


@dataclass
class Paper:
    owner: tuple[str, int]
    kind: str = "file"


@dataclass
class Right:
    number: int
    holder: tuple[str, int]
    grantor: tuple[str, int]
    resource: str
    level: str
    scope: str


@dataclass
class Letter:
    file: str
    to: tuple[str, int]
    pending: bool = True


@dataclass
class Naive:
    """The whole of it. What has a tenure is a pair of a handler and a number; of a user the number is 0.

    ``waiting`` are the senders of messages that wait for their time.
    """

    root: str = ""
    works: dict[str, Work] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    papers: dict[str, Paper] = field(default_factory=dict)
    rights: dict[str, Right] = field(default_factory=dict)
    letters: dict[str, Letter] = field(default_factory=dict)
    waiting: dict[str, tuple[str, int]] = field(default_factory=dict)
    heirs: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    _readable: dict[str, set[str]] = field(default_factory=dict)

    def changed(self) -> None:
        """What was found out about readers is no longer so."""
        self._readable.clear()

    # Who stands where

    def now(self, who: tuple[str, int]) -> str:
        while who in self.heirs:
            who = self.heirs[who]
        return who[0]

    def current(self, who: tuple[str, int]) -> bool:
        person = self.people.get(who[0])
        return who[0].startswith("user:") or (person is not None and person.active and person.tenure == who[1])

    def line(self, handler: str) -> list[str]:
        """Itself and all above it."""
        found = [handler]
        while (parent := self.people[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def team(self, handler: str) -> set[str]:
        """Itself and all active ones below it."""
        return {one for one, person in self.people.items() if person.active and handler in self.line(one)}

    def active(self, id: str) -> bool:
        return id in self.people and self.people[id].active

    def hands(self, work: str) -> str:
        """The handler in whose hands it is: of a delegated one that above its own."""
        return self.people[work].parent or "" if self.active(work) else self.works[work].responsible[0]

    def decider(self, work: str) -> str:
        return self.people[work].boss if self.active(work) else self.now(self.works[work].responsible)

    def children(self, work: str) -> set[str]:
        return {id for id, one in self.works.items() if work in one.parents}

    def open_parents(self, work: str) -> set[str]:
        return {one for one in self.works[work].parents if self.works[one].is_open}

    def ancestors(self, work: str) -> set[str]:
        found: set[str] = set()
        todo = set(self.works[work].parents)
        while todo:
            found |= todo
            todo = {above for one in todo for above in self.works[one].parents} - found
        return found

    # Who may do what

    def structural(self, handler: str, resource: str) -> str:
        kind, _, name = resource.partition(":")
        if kind == "outcome" and name in self.works:
            return self._on_work(handler, name)
        if kind == "kb" and name in self.papers:
            return self._on_paper(handler, self.papers[name], name)
        person = self.people[handler]
        if kind == "mail":
            under = self.active(name) and self.people[name].boss == handler
            return "send" if name in (handler, person.boss) or under else "none"
        if kind == "handler":
            return "stop" if self.active(name) and self.people[name].boss == handler else "none"
        return "none"

    def _on_work(self, handler: str, name: str) -> str:
        if self.decider(name) == handler:
            return "write"
        if handler not in self._readable:
            self._readable[handler] = self._readable_works(handler)
        return "read" if name in self._readable[handler] else "none"

    def _readable_works(self, handler: str) -> set[str]:
        team = self.team(handler)
        mine = {id for id in self.works if self.now(self.works[id].responsible) in team}
        why = {above for id in mine if self.works[id].is_open for above in self.ancestors(id)}
        parts = {id for id in self.works if self.ancestors(id) & mine}
        return mine | why | parts | {handler}

    def _on_paper(self, handler: str, paper: Paper, name: str) -> str:
        owner = self.now(paper.owner)
        if owner == handler:
            return "read" if paper.kind in ("audit", "message") else "write"
        sent = any(
            one.file == name and one.to == (handler, self.people[handler].tenure) for one in self.letters.values()
        )
        above = not owner.startswith("user:") and handler in self.line(owner)
        return "read" if sent or above else "none"

    def effective(self) -> list[Right]:
        """The capabilities that hold, in the order in which they were granted: each stands on those before it."""
        found: list[Right] = []
        for right in sorted(self.rights.values(), key=lambda one: one.number):
            if not (self.works[right.scope].is_open and self.current(right.holder) and self.current(right.grantor)):
                continue
            grantor = right.grantor[0]
            if grantor.startswith("user:") or self._reaches(grantor, right.resource, right.level, found):
                found.append(right)
        return found

    def _reaches(self, handler: str, resource: str, level: str, rights: list[Right]) -> bool:
        levels = LEVELS[resource.partition(":")[0]]
        have = [self.structural(handler, resource)]
        have += [one.level for one in rights if one.holder[0] == handler and one.resource == resource]
        return max(map(levels.index, have)) >= levels.index(level)

    def access(self, handler: str, resource: str) -> str:
        levels = LEVELS[resource.partition(":")[0]]
        rights = self.effective()
        return next(one for one in reversed(levels) if self._reaches(handler, resource, one, rights))

    # Who may ask for what; what is allowed may still be refused, for limits or for the state it is in

    def allows(self, operation: Operation, principal: Principal) -> bool:
        if isinstance(principal, ByUser):
            return not isinstance(operation, ops.SendMail) or not operation.to.startswith("user:")
        if not isinstance(principal, ByHandler) or not self.current((principal.handler, principal.tenure)):
            return False
        me = principal.handler
        match operation:
            case ops.CreateOutcome(parents=parents):
                return all(self.works[one].responsible[0] == me for one in parents)
            case ops.UpdateOutcome(outcome, link=link, unlink=unlink):
                words = operation.title is None or self.access(me, f"outcome:{outcome}") == "write"
                ends = {self.works[one].responsible[0] for one in (*link, *unlink)}
                return words and (not ends or (ends == {me} and self.decider(outcome) == me == self.hands(outcome)))
            case ops.BlockOutcome(outcome):
                return self.works[outcome].responsible[0] == me
            case ops.CompleteOutcome(outcome) | ops.CloseOutcome(outcome):
                return self.decider(outcome) == me
            case ops.Delegate(outcome, grants=grants):
                held = all(self._reaches(me, one.resource, one.level, self.effective()) for one in grants)
                return held and self.works[outcome].responsible[0] == me != outcome
            case ops.StopHandler(handler) | ops.RemoveHandler(handler):
                return self.people[handler].boss == me
            case ops.MoveHandler(handler, boss):
                return boss in self.people and me in self.line(handler)[1:] and me in self.line(boss)
            case ops.GrantAccess(holder, wanted):
                is_boss = self.active(holder) and self.people[holder].boss == me
                return is_boss and self._reaches(me, wanted.resource, wanted.level, self.effective())
            case ops.RevokeAccess(grant):
                right = self.rights[grant]
                granted = right.grantor == (me, self.people[me].tenure)
                return granted or me in self.line(right.holder[0])[1:]
            case ops.WriteFile(file):
                return self.access(me, f"kb:{file}") == "write"
            case ops.ReadFile(file):
                return self.access(me, f"{'outcome' if file in self.works else 'kb'}:{file}") != "none"
            case ops.SendMail(to, file):
                owns = file is None or self.now(self.papers[file].owner) == me
                return owns and self.structural(me, f"mail:{to}") == "send"
            case ops.FinishMail(mail):
                return all(self.letters[one].to[0] == me for one in mail)
            case ops.TakeBackMail(mail):
                senders = [self.now(self.waiting[one]) for one in mail]
                return all(not one.startswith("user:") and me in self.line(one) for one in senders)
            case _:
                return True

    # What becomes of it

    def delegate(self, work: str) -> None:
        boss = self.works[work].responsible[0]
        tenure = self.people[work].tenure + 1 if work in self.people else 1
        mine = {work}
        while True:
            more = {
                id
                for one in mine
                for id in self.children(one)
                if self.works[id].is_open and self.works[id].responsible[0] == boss and not self.active(id)
            }
            if more <= mine:
                break
            mine |= more
        roots = {id for one in mine for id in self.children(one) if self.active(id) and self.hands(id) == boss}
        self.people[work] = Person(tenure, boss, boss)
        for id in mine:
            self.works[id].responsible = (work, tenure)
        for id in roots:
            person = self.people[id]
            person.boss = work if person.boss == boss else person.boss
            person.parent = work

    def end(self, handlers: set[str]) -> None:
        """Their tenures are over; what they owned is the nearest one's above that stays, their mail the boss's."""
        lines = {one: self.line(one) for one in handlers}
        for one in handlers:
            person = self.people[one]
            heir = next(above for above in lines[one] if above not in handlers)
            self.heirs[(one, person.tenure)] = (heir, self.people[heir].tenure)
            boss = person.boss if person.boss.startswith("user:") else heir
            for letter in self.letters.values():
                if letter.pending and letter.to[0] == one:
                    letter.to = (boss, 0 if boss.startswith("user:") else self.people[boss].tenure)
        for one in handlers:
            self.people[one].active = False

    def stop(self, handler: str) -> None:
        parent = self.people[handler].parent or ""
        team = self.team(handler)
        for work in self.works.values():
            if work.is_open and not work.inbox and work.responsible[0] in team:
                work.responsible = (parent, self.people[parent].tenure)
        self.end(team)

    def remove(self, handler: str, standing: list[Right]) -> None:
        person = self.people[handler]
        parent = person.parent or ""
        for work in self.works.values():
            if work.is_open and not work.inbox and work.responsible[0] == handler:
                work.responsible = (parent, self.people[parent].tenure)
        for one in self.people.values():
            if one.active and one.parent == handler:
                one.parent, one.boss = parent, person.boss if one.boss == handler else one.boss
        for right in standing:
            if right.grantor == (handler, person.tenure):
                right.grantor = (parent, self.people[parent].tenure)
        self.end({handler})

    def finish(self, work: str) -> set[str]:
        """End it, and what has no open parent left; the handlers that end with it."""
        self.works[work].is_open = False
        while True:
            more = {
                id
                for id, one in self.works.items()
                if one.is_open and one.parents and not one.inbox and not self.open_parents(id)
            }
            if not more:
                break
            for id in more:
                self.works[id].is_open = False
        for one in self.works.values():
            if one.is_open:
                one.parents = {parent for parent in one.parents if self.works[parent].is_open}
        return {id for id in self.people if self.active(id) and not self.works[id].is_open}
