"""What has always to hold of Agency's records, looked at after every operation of a history, as it was written.

It keeps the little that it needs by itself, from the events, and knows no planner; what cn makes of the same events is
compared with it. Only what an operation touched is looked at again, so that a history may be long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby

from cn.agency import events as ev
from cn.agency.apply import apply
from cn.agency.events import Event
from cn.agency.names import LEVELS, Party, Uuid, is_user, is_uuid
from cn.agency.plan.access import stands
from cn.agency.plan.structure import is_workable
from cn.agency.rows import Grant, Outcome
from tests.support.agency_memory import Memory

Tenure = tuple[str, int]
_HOUR = timedelta(hours=1)


@dataclass
class Work:
    holder: Tenure
    parents: set[str]
    inbox: bool = False
    is_open: bool = True
    children: set[str] = field(default_factory=set)


@dataclass
class Person:
    tenure: int
    parent: str | None
    boss: str
    active: bool = True


@dataclass
class Right:
    seq: int
    holder: Tenure
    grantor: Tenure
    resource: str
    level: str
    scope: str


@dataclass
class Letter:
    file: str
    to: Tenure
    pending: bool = True


class Watch:
    """The state after what was read so far, and what was wrong on the way."""

    def __init__(self) -> None:
        self.rows = Memory()
        self.operations = 0
        self.seen: Counter[str] = Counter()
        self.requests: set[str] = set()
        self.wrong: list[str] = []
        self.works: dict[str, Work] = {}
        self.people: dict[str, Person] = {}
        self.rights: dict[str, Right] = {}
        self.letters: dict[str, Letter] = {}
        self.owners: dict[str, Tenure] = {}
        self.heirs: dict[Tenure, Tenure] = {}
        self.agents: dict[str, Tenure] = {}
        self.dead: set[str] = set()
        self.due: dict[str, datetime] = {}
        self.needs: dict[str, datetime] = {}
        self.longest_wait = timedelta()
        self._looked = datetime.min.replace(tzinfo=UTC)
        self._mail: dict[str, set[str]] = defaultdict(set)
        self._held: dict[str, set[str]] = defaultdict(set)
        self._below: dict[str, set[str]] = defaultdict(set)
        self._rights_on: dict[str, set[str]] = defaultdict(set)
        self._sent: dict[str, list[Letter]] = defaultdict(list)
        self._touched: set[str] = set()

    def read(self, message: str) -> None:
        """A commit: operation after operation."""
        events = ev.parse_message(message)
        for _, part in groupby(events, key=lambda event: (event.actor, event.request_id)):
            self._operation(list(part))

    def _operation(self, events: Sequence[Event]) -> None:
        self.operations += 1
        self.seen[ev.type_of(events[0].change)] += 1
        self._touched = set()
        self._check_asked(events)
        for event in events:
            self._follow(event)
            apply(self.rows, event)
        for one in self._touched:
            self._check(one)
        if self.operations % 500 == 0:
            self.check_all()
        elif events[0].time - self._looked >= _HOUR:
            self._see_who_waits()

    def _say(self, what: str) -> None:
        head = self.rows.head()
        self.wrong.append(f"after event {head.seq if head else 0}: {what}")

    # Before it

    def _check_asked(self, events: Sequence[Event]) -> None:
        first = events[0]
        if first.request_id in self.requests:
            self._say(f"request {first.request_id} is done twice")
        if first.request_id:  # a reading that is asked for again has none
            self.requests.add(first.request_id)
        handler, slash, agent = first.actor.partition("/")
        if slash:
            person = self.people[handler]
            if not person.active or person.tenure != first.tenure:
                self._say(f"{first.actor} acts in tenure {first.tenure}, which is over")
            if is_uuid(agent) and self.agents.get(agent) != (handler, first.tenure):
                self._say(f"agent {agent} acts, and does not live")
        if first.grant and not stands(self._grant(first.grant), self.rows):
            self._say(f"{first.grant} allows something, and is not effective")
        if slash:
            new = {event.change.handler for event in events if isinstance(event.change, ev.Delegated)}
            for number, event in enumerate(events):
                self._check_may((handler, first.tenure), event.change, new, is_first=number == 0)

    def _check_may(self, who: Tenure, change: ev.Change, new: set[Uuid], *, is_first: bool) -> None:
        """What a handler does is what it may; ``new`` are the handlers that the same operation makes."""
        match change:
            case ev.Granted(_, holder, resource=resource, level=level):
                if not self._has(who, resource, level):
                    self._say(f"{who[0]} grants {level} on {resource}, and has it not")
                if holder not in new and self.people[holder].boss != who[0]:
                    self._say(f"{who[0]} grants something to {holder}, which is no underling")
            case ev.FileRead(file) | ev.FileWritten(file) if file not in self.works:
                level = "read" if isinstance(change, ev.FileRead) else "write"
                if not self._has(who, f"kb:{file}", level):
                    self._say(f"{who[0]} does {level} on {file}, and may not")
            case ev.MailDelivered(to=to) if to not in new:
                team = (one for one in self._below[who[0]] if self.people[one].boss == who[0])
                if to not in (who[0], self.people[who[0]].boss, *team):
                    self._say(f"{who[0]} mails {to}, neither boss nor underling")
            case ev.HandlerEnded(handler, how=ev.STOPPED | ev.REMOVED, heir=heir):
                if heir != who[0]:
                    self._say(f"{who[0]} ends {handler}, which is not below it")
            case ev.OutcomeCompleted(outcome) | ev.OutcomeClosed(outcome) if is_first:
                person = self.people.get(outcome)
                if who[0] != (person.boss if person and person.active else self.works[outcome].holder[0]):
                    self._say(f"{who[0]} ends outcome {outcome}, about which it does not decide")

    # What it makes of the state

    def _follow(self, event: Event) -> None:
        match change := event.change:
            case ev.Founded(root, user=user):
                self._hire(root, Person(1, None, user))
                self._make(root, Work((root, 1), set()))
                self.owners |= {change.state: (root, 1), change.audit: (root, 1)}
            case ev.OutcomeCreated(outcome, responsible=responsible, parents=parents, inbox=inbox):
                self._make(outcome, Work((responsible, self.people[responsible].tenure), {*parents}, inbox))
            case ev.OutcomeLinked(child, parent):
                self.works[child].parents.add(parent)
                self.works[parent].children.add(child)
                self._touched |= {child, parent}
            case ev.OutcomeUnlinked(child, parent):
                self.works[child].parents.discard(parent)
                self.works[parent].children.discard(child)
                self._touched |= {child, parent}
            case ev.OutcomeCompleted(outcome) | ev.OutcomeClosed(outcome):
                self._end_work(outcome)
            case ev.OutcomesPassed(to, outcomes):
                for one in outcomes:
                    self._pass(one, (to, self.people[to].tenure))
            case ev.Delegated(handler, number, parent, boss):
                self._hire(handler, Person(number, parent, boss))
                self._pass(handler, (handler, number))
                self.owners |= {change.state: (handler, number), change.audit: (handler, number)}
            case ev.HandlerMoved(handler, parent, boss):
                person = self.people[handler]
                self._below[person.parent or ""].discard(handler)
                person.parent, person.boss = parent, boss
                self._below[parent or ""].add(handler)
                self._touched |= {handler, parent or handler}
            case ev.HandlerEnded(handler, number, heir=heir):
                self._end_person(handler, number, heir)
            case ev.Granted():
                holder, grantor = (change.holder, change.holder_tenure), (change.grantor, change.grantor_tenure)
                what = (change.resource, change.level, change.scope)
                self.rights[change.id] = Right(event.seq, holder, grantor, *what)
                self._rights_on[change.resource].add(change.id)
                self._touched.add(change.id)
            case ev.Revoked(id):
                self._rights_on[self.rights.pop(id).resource].discard(id)
                self.dead.discard(id)
            case ev.GrantsPassed(to, grants):
                for one in grants:
                    self.rights[one].grantor = (to, self.people[to].tenure)
                    self._touched.add(one)
            case ev.FileCreated(file, owner=owner, owner_tenure=tenure):
                self.owners[file] = (owner, tenure)
            case ev.MailDelivered(mail, file, to=to, to_tenure=tenure):
                self._deliver(mail, file, (to, tenure))
            case ev.MailDeferred(mail, due=due):
                self.due[mail] = due
            case ev.MailTakenBack(mail):
                for one in mail:
                    del self.due[one]
            case ev.MailPassed(to, mail):
                for one in mail:
                    letter = self.letters[one]
                    self._mail[letter.to[0]].discard(one)
                    letter.to = (to, 0 if is_user(to) else self.people[to].tenure)
                    self._mail[to].add(one)
                self._touched.add(to)
            case ev.MailDone(mail):
                for one in mail:
                    letter = self.letters[one]
                    letter.pending = False
                    self._mail[letter.to[0]].discard(one)
                    self._touched.add(letter.to[0])
            case ev.AgentLeased(agent, handler, tenure):
                if (handler, tenure) in self.agents.values():
                    self._say(f"{handler} has two agents")
                self.agents[agent] = (handler, tenure)
                self._wake(handler, event.time)
            case ev.AgentEnded(agent):
                del self.agents[agent]

    def _hire(self, id: str, person: Person) -> None:
        self.people[id] = person
        self._below[person.parent or ""].add(id)
        self._touched.add(id)

    def _make(self, id: str, work: Work) -> None:
        self.works[id] = work
        self._held[work.holder[0]].add(id)
        for parent in work.parents:
            self.works[parent].children.add(id)
        self.owners[id] = work.holder
        self._touched |= {id, *work.parents, work.holder[0]}

    def _pass(self, id: str, to: Tenure) -> None:
        work = self.works[id]
        self._held[work.holder[0]].discard(id)
        work.holder = to
        self._held[to[0]].add(id)
        self._touched |= {id, to[0]}

    def _end_work(self, id: str) -> None:
        work = self.works[id]
        work.is_open = False
        self._held[work.holder[0]].discard(id)
        self._kill(one for one, right in self.rights.items() if right.scope == id)
        self._touched |= {id, work.holder[0], *work.children}

    def _end_person(self, id: str, number: int, heir: str) -> None:
        person = self.people[id]
        person.active = False
        self._below[person.parent or ""].discard(id)
        self.heirs[(id, number)] = (heir, self.people[heir].tenure)
        self.needs.pop(id, None)
        self._kill(one for one, right in self.rights.items() if (id, number) in (right.holder, right.grantor))
        self._touched |= {id, heir}

    def _kill(self, ids: Iterable[str]) -> None:
        """These capabilities are over for ever, and what stands on them is looked at."""
        found = {*ids}
        self.dead |= found
        for one in found:
            self._touched |= self._rights_on[self.rights[one].resource]

    def _deliver(self, mail: str, file: str, to: Tenure) -> None:
        self.due.pop(mail, None)
        self.letters[mail] = letter = Letter(file, to)
        self._mail[to[0]].add(mail)
        self._sent[file].append(letter)
        self._touched.add(to[0])

    # After it

    def _check(self, id: str) -> None:
        if id in self.works:
            self._check_work(id, self.works[id])
        if id in self.people:
            self._check_person(id, self.people[id])
        if id in self.rights:
            self._check_right(id, self.rights[id])

    def _check_work(self, id: str, work: Work) -> None:
        row = self.rows.outcome(Uuid(Party(id)))
        if row is None or (row.is_open, {*self.rows.parents(row.id)}) != (work.is_open, work.parents):
            self._say(f"outcome {id} is {row}, and should be {work}")
        if work.is_open:
            person = self.people[work.holder[0]]
            if not person.active or person.tenure != work.holder[1]:
                self._say(f"nobody active is responsible for {id}")
            if row and (row.responsible, row.tenure) != work.holder:
                self._say(f"{row.responsible} is said to be responsible for {id}, and {work.holder} is")
            if any(not self.works[one].is_open for one in work.parents):
                self._say(f"{id} is open below what ended")
        if id in self._ancestors(id):
            self._say(f"{id} stands below itself")

    def _ancestors(self, id: str) -> set[str]:
        found: set[str] = set()
        todo = {*self.works[id].parents}
        while todo:
            found |= todo
            todo = {above for one in todo for above in self.works[one].parents} - found
        return found

    def _line(self, id: str) -> Iterator[str]:
        """Itself and all above it; at most a hundred."""
        one: str | None = id
        for _ in range(100):
            if one is None:
                return
            yield one
            one = self.people[one].parent

    def _check_person(self, id: str, person: Person) -> None:
        row = self.rows.handler(Uuid(Party(id)))
        said = row and (row.tenure, row.active, row.parent, row.boss)
        if said != (person.tenure, person.active, person.parent, person.boss):
            self._say(f"handler {id} is {row}, and should be {person}")
        if not person.active:
            left = {one for one in self._held[id] if self.works[one].is_open} | self._below[id] | self._mail[id]
            if left or any(handler == id for handler, _ in self.agents.values()):
                self._say(f"{id} is no more, and has {left or 'an agent'}")
            return
        line = [*self._line(id)]
        if self.people[line[-1]].parent is not None or not all(self.people[one].active for one in line):
            self._say(f"{id} does not stand below the root handler: {line}")
        inboxes = [one for one in self._held[id] if self.works[one].inbox]
        if len(inboxes) != bool(self._mail[id]):
            self._say(f"{id} has {len(self._mail[id])} messages and {len(inboxes)} outcomes for them")
        if self._mail[id] and any(self.letters[one].to != (id, person.tenure) for one in self._mail[id]):
            self._say(f"{id} has mail of another tenure")

    def _check_right(self, id: str, right: Right) -> None:
        if right.resource.startswith("outcome:"):
            return
        row = self._grant(id)
        if stands(row, self.rows) is not self._holds(right):
            self._say(f"capability {id} is {'not ' * self._holds(right)}effective, and should be otherwise")
        if id in self.dead and stands(row, self.rows):
            self._say(f"capability {id} is back")

    def _grant(self, id: str) -> Grant:
        row = self.rows.grant(Uuid(Party(id)))
        assert row is not None, id
        return row

    def _current(self, who: Tenure) -> bool:
        person = self.people.get(who[0])
        return is_user(who[0]) or (person is not None and person.active and person.tenure == who[1])

    def _holds(self, right: Right) -> bool:
        """Its outcome is open, both are who they were, and the grantor had it before, and has it still."""
        if not (self.works[right.scope].is_open and self._current(right.holder) and self._current(right.grantor)):
            return False
        return is_user(right.grantor[0]) or self._has(right.grantor, right.resource, right.level, right.seq)

    def _has(self, who: Tenure, resource: str, level: str, before: int = 2**53) -> bool:
        """From where it stands, or by what it was granted before that event. What is granted on outcomes is not looked
        at here.
        """
        kind = resource.partition(":")[0]
        if kind == "outcome":
            return True
        levels = LEVELS[kind]
        least = levels.index(level)
        if levels.index(self._structural(who, resource)) >= least:
            return True
        others = (self.rights[one] for one in self._rights_on[resource])
        return any(
            one.holder == who and one.seq < before and levels.index(one.level) >= least and self._holds(one)
            for one in others
        )

    def _structural(self, who: Tenure, resource: str) -> str:
        kind, _, name = resource.partition(":")
        if kind != "kb":
            return "none"
        owner = self.owners[name]
        while owner in self.heirs:
            owner = self.heirs[owner]
        if owner[0] == who[0]:
            return "write"
        sent = any(one.to == who for one in self._sent[name])
        return "read" if sent or (not is_user(owner[0]) and who[0] in self._line(owner[0])) else "none"

    # Now and then, and at the end

    def check_all(self) -> None:
        """Everything at once; and who waits for an agent."""
        for id in (*self.works, *self.people, *self.rights):
            self._check(id)
        self._see_who_waits()

    def _see_who_waits(self) -> None:
        """A handler with something workable and without an agent."""
        head = self.rows.head()
        assert head is not None
        self._looked = head.time
        workable = (one for one in self.rows.of(Outcome) if one.is_open and is_workable(one, self.rows, head.time))
        needs = {one.responsible for one in workable}
        busy = {handler for handler, _ in self.agents.values()}
        self.needs = {id: self.needs.get(id, head.time) for id in needs - busy}
        for since in self.needs.values():
            self.longest_wait = max(self.longest_wait, head.time - since)

    def _wake(self, handler: str, at: datetime) -> None:
        since = self.needs.pop(handler, at)
        self.longest_wait = max(self.longest_wait, at - since)
