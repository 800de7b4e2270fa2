"""Random histories of operations, by anybody and about anything, beside a naive model: after every one of them
both say the same of everybody, and what has always to hold does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cn.agency import operations as ops
from cn.agency.events import Granted, MailDeferred, MailDelivered
from cn.agency.names import LEVELS, Party, Uuid, is_user, parse_resource
from cn.agency.operations import ByHandler, Limits, Operation, Principal, Seen, Wanted
from cn.agency.plan.access import access, reason_for, stands, why
from cn.agency.plan.mail import deferred_of, may_take_back
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.shown import Shown
from cn.agency.plan.structure import is_workable
from cn.agency.rows import Deferred, File, Grant, Handler, Link, Mail, Outcome
from tests.support.agency import ADA, SYSTEM, Records
from tests.support.agency_naive import Letter, Naive, Paper, Person, Right, Work

_RIGHTS = ("access", "delegation-boundary", "direct-underling", "own-file", "active-handler")
"""The rules that say that somebody may not; the others say that something does not fit."""
LIMITS = Limits(depth=5, underlings=4, open_outcomes=9)
R = TypeVar("R")
Picks = tuple[int, int, int, int]


class History:
    """The records and the naive model, driven by numbers that say what to do next."""

    def __init__(self) -> None:
        self.records = Records(limits=LIMITS)
        self.naive = Naive()
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.dead: set[Uuid] = set()
        self.share = 1
        self.named: list[tuple[ops.ReadFile, ByHandler, str]] = []
        root = self.records.found()
        self.naive.root = root
        self.naive.works[root] = Work((root, 1), set())
        self.naive.people[root] = Person(1, None, "user:ada")
        self._papers_of(root)
        self._build(root, 3)

    def _build(self, boss: Uuid, layers: int) -> None:
        """An organisation to begin with: each handler with work that has two parents, a file, which it read, a
        message to itself for later, and two underlings.
        """
        by = self.records.agent(boss)
        first = self._made(ops.CreateOutcome("First", "", (boss,)), by, "outcome")
        both = self._made(ops.CreateOutcome("Both", "", (first, boss)), by, "outcome")
        read = ops.ReadFile(self._made(ops.CreateFile("A file", b"content"), by, "file"))
        self._made(ops.SendMail(boss, text="Later", due=self.records.now.replace(year=2027)), by, "mail")
        self._made(read, by, "file", f"read {len(self.named)}")
        self.named.append((read, by, f"read {len(self.named)}"))
        for parents in ((first, both), (boss,)):
            if layers > 1:
                root = self._made(ops.CreateOutcome("Root", "", parents), by, "outcome")
                self._made(ops.Delegate(root), by, "handler")
                self._build(root, layers - 1)

    def _made(self, operation: Operation, by: Principal, name: str, request: str = "") -> Uuid:
        done = self.records.ask(operation, by, request)
        assert isinstance(done, Planned)
        self._follow(operation, done, by, [])
        return Uuid(Party(str(done.answer[name])))

    # What to ask for

    def step(self, kind: str, picks: Picks) -> None:
        principal = self._principal(kind, picks)
        operation = getattr(self, f"_{kind}")(principal, picks)
        if operation is None:
            return
        allowed = self.naive.allows(operation, principal)
        before = self._levels() if isinstance(operation, ops.GrantAccess | ops.Delegate) else {}
        standing = self.naive.effective()
        name = f"read {len(self.named)}" if isinstance(operation, ops.ReadFile) else ""
        done = self.records.ask(operation, principal, name)
        if not isinstance(done, Planned):
            assert isinstance(done, Refused)
            assert not allowed or done.rule not in _RIGHTS, (operation, principal, done)
            self.refused[f"{kind} {done.rule}"] += 1
            return
        assert allowed, (operation, principal, done)
        self.accepted[kind] += 1
        self.share += 1
        if isinstance(operation, ops.ReadFile) and isinstance(principal, ByHandler):
            self.named.append((operation, principal, name))
        self._follow(operation, done, principal, standing)
        self._compare()
        self._check_invariants()
        if before:
            self._check_no_raise(before, operation, principal, done)

    def _principal(self, kind: str, picks: Picks) -> Principal:
        """Mostly handlers, and where a handler is concerned its boss; now and then an agent whose tenure is over."""
        if picks[0] % 7 == 0:
            return ADA
        handler = self._pick(self._handlers(picks[0] % 11), picks[0])
        if kind in ("stop", "remove", "move", "close", "grant") and picks[0] % 5:
            boss = self._target(picks).boss
            handler = handler if is_user(boss) else self.records.handler(Uuid(boss))
        return ByHandler(handler.id, max(1, handler.tenure - (picks[0] % 13 == 0)), "user:ada")

    def _handlers(self, pick: int) -> list[Handler]:
        """All, or those in a tenure."""
        return [one for one in self.records.rows.of(Handler) if one.active or not pick]

    def _target(self, picks: Picks) -> Handler:
        """A handler about which something is asked, seldom the root."""
        handlers = self._handlers(picks[1] % 9)
        below = [one for one in handlers if one.parent]
        return self._pick(below if below and picks[1] % 8 else handlers, picks[1] // 3)

    def _pick(self, rows: Sequence[R], pick: int) -> R:
        return rows[pick % len(rows)]

    def _works(self) -> list[Outcome]:
        return list(self.records.rows.of(Outcome))

    def _mine(self, principal: Principal, pick: int) -> Outcome | None:
        """Mostly something of the principal's own."""
        works = [one for one in self._works() if (one.is_open and not one.inbox) or pick % 9 == 0]
        mine = [one for one in works if isinstance(principal, ByHandler) and one.responsible == principal.handler]
        found = mine if mine and pick % 4 else works
        return self._pick(found, pick // 5) if found else None

    def _create(self, principal: Principal, picks: Picks) -> Operation | None:
        parents = [one for pick in picks[1 : 2 + (picks[3] % 3 == 0)] if (one := self._mine(principal, pick))]
        return ops.CreateOutcome("Title", "text", tuple(one.id for one in parents)) if parents else None

    def _update(self, principal: Principal, picks: Picks) -> Operation | None:
        work = self._mine(principal, picks[1])
        file = self.records.rows.file(work.id) if work else None
        if not work or not file:
            return None
        return ops.UpdateOutcome(work.id, title=f"Title {picks[2]}", seen=Seen(file.version, file.hash))

    def _link(self, principal: Principal, picks: Picks) -> Operation | None:
        """Now and then the root of an underling."""
        parent = self._mine(principal, picks[2] * 4 + 1)
        child = self.records.rows.outcome(self._target(picks).id) if picks[3] % 3 else self._mine(principal, picks[1])
        return ops.UpdateOutcome(child.id, link=(parent.id,)) if child and parent else None

    def _unlink(self, principal: Principal, picks: Picks) -> Operation | None:
        links = list(self.records.rows.of(Link))
        rows, me = self.records.rows, getattr(principal, "handler", "")
        mine = [
            one for one in links if self.records.row(one.parent).responsible == me and len(rows.parents(one.child)) > 1
        ]
        links = mine if mine and picks[1] % 3 else links
        link = self._pick(links, picks[1]) if links else None
        return ops.UpdateOutcome(link.child, unlink=(link.parent,)) if link else None

    def _block(self, principal: Principal, picks: Picks) -> Operation | None:
        work = self._mine(principal, picks[1])
        return ops.BlockOutcome(work.id, "waits" if picks[2] % 2 else "") if work else None

    def _complete(self, principal: Principal, picks: Picks) -> Operation | None:
        work = self._mine(principal, picks[1])
        return ops.CompleteOutcome(work.id, cascade=picks[2] % 2 == 0) if work else None

    def _close(self, principal: Principal, picks: Picks) -> Operation | None:
        """Now and then the root of an underling."""
        work = self._target(picks) if picks[3] % 2 else self._mine(principal, picks[1])
        return ops.CloseOutcome(work.id, "it did not work out", picks[2] % 3 > 0) if work else None

    def _delegate(self, principal: Principal, picks: Picks) -> Operation | None:
        """By turns what was delegated before."""
        former = [self.records.row(one.id) for one in self.records.rows.of(Handler) if not one.active]
        again = [one for one in former if one.is_open and one.responsible == getattr(principal, "handler", "")]
        work = self._pick(again, picks[1] // 2) if again and picks[1] % 2 else self._mine(principal, picks[1])
        if not work or (work.id == work.responsible and picks[1] % 9):
            return None
        resource = self._resource(picks[2] // 2)
        wanted = () if picks[2] % 2 else (Wanted(resource, LEVELS[parse_resource(resource).kind][1]),)
        return ops.Delegate(work.id, grants=wanted, message="Begin" if picks[3] % 3 == 0 else "")

    def _stop(self, principal: Principal, picks: Picks) -> Operation | None:
        return ops.StopHandler(self._target(picks).id)

    def _remove(self, principal: Principal, picks: Picks) -> Operation | None:
        return ops.RemoveHandler(self._target(picks).id)

    def _move(self, principal: Principal, picks: Picks) -> Operation | None:
        boss = self._pick(self._handlers(picks[2] % 9), picks[2])
        return ops.MoveHandler(self._target(picks).id, Party("user:cto") if picks[3] % 6 == 0 else boss.id)

    def _resource(self, pick: int) -> str:
        """A file, an outcome, a server or a repository."""
        files = [one for one in self.records.rows.of(File) if one.kind != "outcome"]
        works = self._works()
        match pick % 5:
            case 0 | 1:
                return f"kb:{self._pick(files, pick // 5).id}"
            case 2:
                return f"outcome:{self._pick(works, pick // 5).id}"
            case 3:
                return "mcp:gmail"
            case _:
                return "repo:tools"

    def _of(self, principal: Principal) -> list[str]:
        """What was granted to it, and twice what it has from structure."""
        if not isinstance(principal, ByHandler):
            return ["mcp:gmail", "repo:tools"]
        rows = self.records.rows
        files = [f"kb:{one.id}" for one in rows.files_of(principal.handler, principal.tenure) if one.kind == "file"]
        works = [f"outcome:{one}" for one in rows.open_outcomes(principal.handler)]
        return [
            *files[-2:],
            *works[-2:],
            *(one.resource for one in rows.grants_of(principal.handler, principal.tenure)),
        ]

    def _grant(self, principal: Principal, picks: Picks) -> Operation | None:
        holder = self._target(picks)
        mine = self._of(principal)
        resource = self._pick(mine, picks[2] // 3) if mine and picks[2] % 3 else self._resource(picks[2])
        level = self._pick(LEVELS[parse_resource(resource).kind][1:], picks[3])
        scopes = [one.id for one in self._works() if one.is_open and one.responsible == holder.id and not one.inbox]
        return ops.GrantAccess(holder.id, Wanted(resource, level, self._pick([None, *scopes], picks[3] // 2)))

    def _revoke(self, principal: Principal, picks: Picks) -> Operation | None:
        grants = list(self.records.rows.of(Grant))
        return ops.RevokeAccess(self._pick(grants, picks[1]).id) if grants else None

    def _file(self, principal: Principal, picks: Picks) -> Operation | None:
        return ops.CreateFile("A file", b"content")

    def _write(self, principal: Principal, picks: Picks) -> Operation | None:
        files = [one for one in self.records.rows.of(File) if one.kind != "outcome"]
        file = self._pick(files, picks[1])
        return ops.WriteFile(file.id, b"more", Seen(file.version, file.hash))

    def _read(self, principal: Principal, picks: Picks) -> Operation | None:
        return ops.ReadFile(self._pick(list(self.records.rows.of(File)), picks[1]).id)

    def _again(self, principal: Principal, picks: Picks) -> Operation | None:
        """Something that was read under a name, once more, by who stands there now."""
        if self.named:
            operation, before, name = self._pick(self.named, picks[1])
            now = self.records.agent(before.handler)
            may = self.naive.allows(operation, now) and now.tenure == before.tenure
            done = self.records.ask(operation, now, name)
            assert isinstance(done, Planned if may else Refused), (operation, before, now)
            self.accepted["again"] += 1
        return None

    def _take_back(self, principal: Principal, picks: Picks) -> Operation | None:
        waiting = list(self.records.rows.of(Deferred))
        return ops.TakeBackMail((self._pick(waiting, picks[1]).id,)) if waiting else None

    def _send(self, principal: Principal, picks: Picks) -> Operation | None:
        handlers = [one.id for one in self.records.rows.of(Handler)]
        to = self._pick([*handlers, Party("user:ada"), Party("user:cto")], picks[1])
        if isinstance(principal, ByHandler) and picks[1] % 3:
            to = self.records.handler(principal.handler).boss
        files = [one.id for one in self.records.rows.of(File) if one.kind in ("file", "message")]
        file = self._pick(files, picks[2]) if files and picks[3] % 3 == 0 else None
        due = self.records.now.replace(year=2027) if picks[3] % 5 == 1 else None
        return ops.SendMail(to, file, text="" if file else "A message", due=due)

    def _finish(self, principal: Principal, picks: Picks) -> Operation | None:
        pending = [one for one in self.records.rows.of(Mail) if one.pending]
        return ops.FinishMail((self._pick(pending, picks[1]).id,)) if pending else None

    def _due(self, principal: Principal, picks: Picks) -> Operation | None:
        """Time goes on, and Agency delivers."""
        all_waiting = list(self.records.rows.of(Deferred))
        if all_waiting:
            waiting = self._pick(all_waiting, picks[1])
            self.records.now = max(self.records.now, waiting.due)
            done = self.records.ask(ops.DeliverDue(waiting.id), SYSTEM)
            assert isinstance(done, Planned)
            self.accepted["due"] += 1
            self._follow_letters(done)
            self._compare()
            self._check_invariants()
        return None

    # What becomes of it in the naive model

    def _papers_of(self, id: Uuid) -> None:
        handler = self.records.handler(id)
        self.naive.papers[handler.state] = Paper((id, handler.tenure), "state")
        self.naive.papers[handler.audit] = Paper((id, handler.tenure), "audit")

    def _follow(self, operation: Operation, done: Planned, principal: Principal, standing: list[Right]) -> None:
        naive, answer = self.naive, done.answer
        match operation:
            case ops.CreateOutcome(parents=parents):
                responsible = naive.works[parents[0]].responsible[0]
                tenure = naive.people[responsible].tenure
                naive.works[str(answer["outcome"])] = Work((responsible, tenure), set(parents))
            case ops.UpdateOutcome(outcome, link=link, unlink=unlink):
                naive.works[outcome].parents |= set(link)
                naive.works[outcome].parents -= set(unlink)
            case ops.CompleteOutcome(outcome) | ops.CloseOutcome(outcome):
                ended = naive.finish(outcome)
                self._adopt_survivors(ended)
                naive.end(ended)
            case ops.Delegate(outcome):
                naive.delegate(outcome)
                self._papers_of(outcome)
            case ops.StopHandler(handler):
                naive.stop(handler)
            case ops.RemoveHandler(handler):
                naive.remove(handler, standing)
            case ops.MoveHandler(handler, boss):
                self._follow_move(handler, boss)
            case ops.RevokeAccess(grant):
                del naive.rights[grant]
            case ops.CreateFile():
                naive.papers[str(answer["file"])] = Paper(self._party(principal))
            case ops.FinishMail(mail):
                for one in mail:
                    naive.letters[one].pending = False
            case ops.TakeBackMail(mail):
                for one in mail:
                    del naive.waiting[one]
            case _:
                pass
        self._follow_rights(done)
        self._follow_letters(done, principal)

    def _party(self, principal: Principal) -> tuple[str, int]:
        return (principal.handler, principal.tenure) if isinstance(principal, ByHandler) else ("user:ada", 0)

    def _follow_rights(self, done: Planned) -> None:
        for change in done.changes:
            if isinstance(change, Granted):
                holder, grantor = (change.holder, change.holder_tenure), (change.grantor, change.grantor_tenure)
                number = len(self.naive.rights) + 1000 * self.records.events[-1].seq
                what = (change.resource, change.level, change.scope)
                self.naive.rights[change.id] = Right(number, holder, grantor, *what)

    def _follow_letters(self, done: Planned, principal: Principal = SYSTEM) -> None:
        """New messages and the outcomes of Agency's own: the naive model takes them as they come."""
        for mail in self.records.rows.of(Mail):
            if mail.id not in self.naive.letters:
                self.naive.letters[mail.id] = Letter(mail.file, (mail.to, mail.to_tenure))
                self.naive.waiting.pop(mail.id, None)
        for one in self.records.rows.of(Deferred):
            if one.id not in self.naive.waiting:
                self.naive.waiting[one.id] = self._party(principal)
        for file in self.records.rows.of(File):
            if file.kind == "message" and file.id not in self.naive.papers:
                self.naive.papers[file.id] = Paper(self._party(principal), "message")
        for work in self._works():
            if work.inbox:
                self.naive.works[work.id] = Work((work.responsible, work.tenure), set(), work.is_open, True)

    def _adopt_survivors(self, ended: set[str]) -> None:
        """To which of several open parents something passes is free; that it has to, and to one of them, is not."""
        naive = self.naive
        for work in self._works():
            old = naive.works.get(work.id)
            if not old or not old.is_open or work.inbox or work.id == naive.root:
                continue
            hands = naive.hands(work.id)
            handler = self.records.rows.handler(work.id)
            now = (handler.parent if handler and handler.active else work.responsible) or ""
            parents = [self.records.row(Uuid(Party(one))) for one in naive.open_parents(work.id)]
            assert now in {one.responsible for one in parents}
            if now != hands:
                assert hands in ended or hands not in {one.responsible for one in parents}
        for work in self._works():
            handler, one = self.records.rows.handler(work.id), naive.people.get(work.id)
            if handler and one and one.active and work.id not in ended:
                one.boss = handler.boss if not one.boss.startswith("user:") else one.boss
                one.parent = handler.parent
            if work.is_open and not work.inbox:
                naive.works[work.id].responsible = (work.responsible, work.tenure)

    def _follow_move(self, handler: Uuid, boss: Party) -> None:
        person = self.naive.people[handler]
        if boss.startswith("user:"):
            person.boss = boss
            return
        work = self.naive.works[handler]
        keep = {one for one in work.parents if self.naive.works[one].responsible[0] == boss}
        work.parents = keep | {boss}
        person.parent = person.boss = boss

    # What has to hold

    def _levels(self) -> dict[tuple[Uuid, str], int]:
        found = {}
        for handler in self.records.rows.of(Handler):
            for resource in self._resources():
                who, what = self.records.agent(handler.id), parse_resource(resource)
                found[handler.id, resource] = LEVELS[what.kind].index(access(who, what, self.records.rows))
        return found

    def _resources(self) -> list[str]:
        rows = self.records.rows
        found = [f"{'outcome' if one.kind == 'outcome' else 'kb'}:{one.id}" for one in rows.of(File)]
        found += [f"{kind}:{one.id}" for one in rows.of(Handler) for kind in ("mail", "handler")]
        return [*found, "mcp:gmail", "repo:tools", "mail:user:ada"]

    def _compare(self) -> None:
        """Both say the same of the graph, of the tree, and of what everybody may do."""
        rows, naive = self.records.rows, self.naive
        naive.changed()
        for work in self._works():
            one = naive.works[work.id]
            assert (work.is_open, set(rows.parents(work.id))) == (one.is_open, one.parents), work
            assert (work.responsible, work.tenure) == one.responsible or not work.is_open, work
        for handler in rows.of(Handler):
            person = naive.people[handler.id]
            said = (person.tenure, person.active)
            assert said == (handler.tenure, handler.active)
            assert not handler.active or (person.parent, person.boss) == (handler.parent, handler.boss)
        rights = naive.effective()
        standing = {id for id, one in naive.rights.items() if one in rights}
        assert standing == {one.id for one in rows.of(Grant) if stands(one, rows)}
        assert naive.waiting.keys() == {one.id for one in rows.of(Deferred)}
        for handler in rows.of(Handler):
            if handler.active:
                self._compare_levels(handler, rights)
                self._compare_what_waits(handler)
                self._compare_log(handler)

    def compare_all(self) -> None:
        """As after every step, of all resources instead of a seventh of them."""
        self.share = 0
        self._compare()

    def _compare_levels(self, handler: Handler, rights: list[Right]) -> None:
        principal = self.records.agent(handler.id)
        held = [one for one in rights if one.holder[0] == handler.id]
        for resource in self._resources()[self.share % 7 :: 7] if self.share else self._resources():
            what = parse_resource(resource)
            naive = [self.naive.structural(handler.id, resource), *(r.level for r in held if r.resource == resource)]
            level = access(principal, what, self.records.rows)
            assert level == max(naive, key=LEVELS[what.kind].index), (handler.id, resource)
            explained = why(principal, what, self.records.rows)
            assert explained.level == level
            assert (reason_for(principal, what, level, self.records.rows) is not None) is (level != "none")

    def _compare_what_waits(self, handler: Handler) -> None:
        me, rows, naive = self.records.agent(handler.id), self.records.rows, self.naive
        mine = {id for id, sender in naive.waiting.items() if naive.now(sender) == handler.id}
        assert {one.id for one in deferred_of(Party(handler.id), rows)} == mine
        below = {id for id in naive.waiting if naive.allows(ops.TakeBackMail((Uuid(Party(id)),)), me)}
        assert {one.id for one in rows.of(Deferred) if may_take_back(one, me, rows)} == below

    def _compare_log(self, handler: Handler) -> None:
        """Of mail, whose subject tells as much as the message: what it did in this tenure, and what it may read. Of
        capabilities its own, and of those below it.
        """
        shown = Shown(self.records.agent(handler.id), self.records.rows)
        for event in self.records.events[self.share % 7 :: 7]:
            did = (event.actor, event.tenure) == (f"{handler.id}/user:ada", handler.tenure)
            if isinstance(event.change, MailDeferred | MailDelivered):
                file = event.change.file
                may = self.naive.access(handler.id, f"kb:{file}") != "none"
                assert shown.sees(event) <= (did or may), event
                assert bool(shown.title(file)) == may, event
            elif isinstance(event.change, Granted):
                audit = self.records.handler(event.change.holder).audit  # a handler's own, as its capabilities are
                may = self.naive.access(handler.id, f"kb:{audit}") != "none"
                assert shown.sees(event) == (did or may), event

    def _check_invariants(self) -> None:
        rows = self.records.rows
        for handler in rows.of(Handler):
            if handler.active:
                line = self.naive.line(handler.id)
                assert len(set(line)) == len(line) <= 100
                assert line[-1] == self.naive.root
                assert all(self.naive.active(one) for one in line)
        for work in self._works():
            assert work.id not in self.naive.ancestors(work.id)
            if work.is_open:
                assert all(self.records.row(one).is_open for one in rows.parents(work.id))
                responsible = self.records.handler(work.responsible)
                assert (responsible.active, responsible.tenure) == (True, work.tenure)
                own_root = rows.handler(work.id)
                assert not own_root or not own_root.active or work.responsible == work.id
        for mail in rows.of(Mail):
            if mail.pending and not mail.to.startswith("user:"):
                to = self.records.handler(Uuid(mail.to))
                inbox = rows.outcome(rows.open_inbox(to.id) or to.id)
                assert (to.active, to.tenure) == (True, mail.to_tenure)
                assert inbox
                assert inbox.inbox
                assert is_workable(inbox, rows, self.records.now)
        for work in self._works():
            assert not (work.inbox and work.is_open) or rows.pending(work.responsible)
        self._check_no_zombies()

    def _check_no_zombies(self) -> None:
        """What once ended with its outcome, or with a tenure, never holds again."""
        rows = self.records.rows
        for grant in rows.of(Grant):
            ended = not self.records.row(grant.scope).is_open or not self.naive.current(
                (grant.holder, grant.holder_tenure)
            )
            if ended or grant.id in self.dead:
                self.dead.add(grant.id)
                assert not stands(grant, rows)

    def _check_no_raise(
        self, before: dict[tuple[Uuid, str], int], operation: Operation, principal: Principal, done: Planned
    ) -> None:
        """Nobody got by a grant what its grantor had not."""
        for change in done.changes:
            if isinstance(change, Granted) and isinstance(principal, ByHandler):
                rank = LEVELS[parse_resource(change.resource).kind].index(change.level)
                assert rank <= before[principal.handler, change.resource]


_KINDS = ["create"] * 4 + ["delegate"] * 5 + ["grant"] * 6 + ["link"] * 3 + ["move"] * 3 + ["send"] * 2
_KINDS += ["update", "unlink", "block", "complete", "close", "stop", "remove", "revoke", "file", "write", "read"]
_KINDS += ["finish", "due", "take_back", "again"]
_steps = st.lists(st.tuples(st.sampled_from(_KINDS), st.tuples(*[st.integers(0, 10_000)] * 4)), max_size=40)


def _play(steps: Sequence[tuple[str, Picks]]) -> History:
    history = History()
    for kind, picks in steps:
        history.step(kind, picks)
    history.compare_all()
    assert history.records.replayed().rows() == history.records.rows.rows()
    return history


def _random_steps(seed: int, length: int) -> list[tuple[str, Picks]]:
    source = random.Random(seed)
    pick = partial(source.randrange, 10_000)
    return [(source.choice(_KINDS), (pick(), pick(), pick(), pick())) for _ in range(length)]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(_steps)
def test_whatever_is_asked_the_rules_hold_and_a_naive_model_agrees(steps: list[tuple[str, Picks]]) -> None:
    _play(steps)


def test_long_histories_hold_and_every_operation_occurs_in_them() -> None:
    accepted: Counter[str] = Counter()
    for seed in range(10, 14):
        accepted += _play(_random_steps(seed, 100)).accepted
    assert accepted.keys() >= set(_KINDS)


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, 4000, 100))
def test_thousands_of_histories_hold(start: int) -> None:
    for seed in range(start + 1000, start + 1100):
        _play(_random_steps(seed, 30 + seed % 120))
