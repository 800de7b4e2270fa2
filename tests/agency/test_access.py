"""Who may do what, rule by rule, and that an explanation never differs from the answer."""

from __future__ import annotations

from itertools import chain

import pytest

from cn.agency.events import ResourceUsed
from cn.agency.names import LEVELS, Party, Resource, Uuid, parse_resource
from cn.agency.operations import (
    ByHandler,
    CloseOutcome,
    CompleteOutcome,
    Delegate,
    FinishMail,
    GrantAccess,
    MoveHandler,
    ReadFile,
    RemoveHandler,
    RevokeAccess,
    Seen,
    SendMail,
    StopHandler,
    UpdateOutcome,
    UseResource,
    Wanted,
    WriteFile,
)
from cn.agency.plan.access import access, stands, why
from cn.agency.store.index import Index
from tests.support.agency import ADA, Records


class Office(Records):
    """Root → boss → left and right; ``work`` is the boss's, ``file`` too."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self.found()
        self.boss = self.handler_for("Boss", self.root)
        self.left = self.handler_for("Left", self.boss)
        self.right = self.handler_for("Right", self.boss)
        self.work = self.outcome("Work", self.boss, by=self.agent(self.boss))
        self.paper = self.file(self.agent(self.boss))

    def grant(self, by: Uuid, to: Uuid, resource: str, level: str, scope: Uuid | None = None) -> Uuid:
        """A capability."""
        grants = self.do(GrantAccess(to, Wanted(resource, level, scope)), self.agent(by))["grants"]
        assert isinstance(grants, list)
        return Uuid(Party(str(grants[0])))

    def levels(self, resource: str) -> list[str]:
        """What root, boss, left and right may do."""
        return [self.level(one, resource) for one in (self.root, self.boss, self.left, self.right)]


@pytest.fixture
def office() -> Office:
    return Office()


def test_the_responsible_handler_writes_an_outcome_and_those_above_read_it(office: Office) -> None:
    assert office.levels(f"outcome:{office.work}") == ["read", "write", "none", "none"]


def test_a_handler_reads_its_own_root_which_its_boss_writes(office: Office) -> None:
    assert office.levels(f"outcome:{office.left}") == ["read", "write", "read", "none"]


def test_a_handler_reads_all_ancestors_of_its_root_but_not_what_stands_beside_them(office: Office) -> None:
    assert office.levels(f"outcome:{office.root}") == ["read", "read", "read", "read"]
    assert office.levels(f"outcome:{office.boss}") == ["write", "read", "read", "read"]
    assert office.level(office.left, f"outcome:{office.right}") == "none"


def test_a_handler_reads_why_along_every_chain_of_parents(office: Office) -> None:
    both = office.outcome("Both", office.work, office.boss, by=office.agent(office.boss))
    under = office.delegate(both, office.agent(office.boss))
    deep = office.outcome("Deep", under, by=office.agent(under))
    assert office.level(under, f"outcome:{office.work}") == "read"
    assert office.level(office.delegate(deep, office.agent(under)), f"outcome:{office.work}") == "read"


def test_a_handler_reads_what_ended_below_the_work_it_took_over(office: Office) -> None:
    old = office.outcome("Old", office.work, by=office.agent(office.boss))
    office.do(CloseOutcome(old, "no"), office.agent(office.boss))
    under = office.delegate(office.work, office.agent(office.boss))
    assert office.level(under, f"outcome:{old}") == "read"


def test_the_owner_writes_a_file_and_those_above_read_it_and_others_only_see_that_it_is_there(office: Office) -> None:
    assert office.levels(f"kb:{office.paper}") == ["read", "write", "none", "none"]


def test_a_handler_writes_its_state_document_and_only_reads_its_audit_log(office: Office) -> None:
    row = office.handler(office.left)
    assert office.levels(f"kb:{row.state}") == ["read", "read", "write", "none"]
    assert office.levels(f"kb:{row.audit}") == ["read", "read", "read", "none"]


def test_mail_goes_between_boss_and_underling_and_to_oneself_only(office: Office) -> None:
    assert office.levels(f"mail:{office.left}") == ["none", "send", "send", "none"]
    assert office.levels(f"mail:{office.boss}") == ["send", "send", "send", "send"]
    assert office.levels("mail:user:ada") == ["send", "none", "none", "none"]


def test_only_the_boss_stops_a_handler(office: Office) -> None:
    assert office.levels(f"handler:{office.left}") == ["none", "stop", "none", "none"]


def test_nobody_has_a_server_or_a_repository_from_structure(office: Office) -> None:
    assert office.levels("mcp:gmail") == office.levels("repo:tools") == ["none"] * 4


def test_a_user_may_do_everything(office: Office) -> None:
    for text in (f"outcome:{office.left}", f"kb:{office.paper}", "mcp:gmail", "repo:x", f"mail:{office.left}"):
        resource = parse_resource(text)
        assert access(ADA, resource, office.rows) == LEVELS[resource.kind][-1]


def test_what_one_holds_one_grants_to_a_direct_underling(office: Office) -> None:
    office.grant(office.boss, office.left, f"kb:{office.paper}", "write")
    assert office.levels(f"kb:{office.paper}") == ["read", "write", "write", "none"]
    file = office.rows.file(office.paper)
    assert file
    office.do(WriteFile(office.paper, b"by left", Seen(1, file.hash)), office.agent(office.left))
    assert office.events[-1].grant


def test_a_restricted_version_can_be_granted(office: Office) -> None:
    office.grant(office.boss, office.left, f"kb:{office.paper}", "read")
    refused = office.no(WriteFile(office.paper, b"no", Seen(1, "0" * 64)), office.agent(office.left))
    assert (refused.rule, refused.ask) == ("access", office.boss)
    assert "ask your boss" in refused.remedy


@pytest.mark.parametrize("level", ["write", "read"])
def test_nobody_grants_more_than_it_holds(office: Office, level: str) -> None:
    other = office.file(office.agent(office.root))
    wanted = Wanted(f"kb:{other}", level)
    assert office.no(GrantAccess(office.left, wanted), office.agent(office.boss)).rule == "access"
    assert office.no(Delegate(office.work, grants=(wanted,)), office.agent(office.boss)).rule == "access"


@pytest.mark.parametrize("holder", ["root", "boss", "right"])
def test_only_direct_underlings_are_granted_something(office: Office, holder: str) -> None:
    wanted = Wanted(f"outcome:{office.left}", "read")
    refused = office.no(GrantAccess(getattr(office, holder), wanted), office.agent(office.left))
    assert refused.rule == "direct-underling"


@pytest.mark.parametrize(
    ("resource", "level"),
    [
        ("mail:user:ada", "send"),
        ("handler:{left}", "stop"),
        ("kb:{paper}", "none"),
        ("kb:{paper}", "push"),
        ("x", "y"),
        ("repo:site#", "push"),
        ("repo:site#", "clone"),
        ("repo:#release/*", "push"),
    ],
)
def test_what_cannot_be_granted_is_refused(office: Office, resource: str, level: str) -> None:
    text = resource.format(left=office.left, paper=office.paper)
    assert office.no(GrantAccess(office.left, Wanted(text, level)), office.agent(office.boss)).rule == "grantable"


def test_what_is_not_there_cannot_be_granted(office: Office) -> None:
    nothing = office.paper[:-1] + ("0" if office.paper[-1] != "0" else "1")
    assert (
        office.no(GrantAccess(office.left, Wanted(f"kb:{nothing}", "read")), office.agent(office.boss)).rule == "known"
    )


def test_a_capability_flows_down_the_chain_and_ends_with_its_first_link(office: Office) -> None:
    office.do(GrantAccess(office.root, Wanted("mcp:gmail", "use")))
    first = office.grant(office.root, office.boss, "mcp:gmail", "use")
    office.grant(office.boss, office.left, "mcp:gmail", "use")
    assert office.levels("mcp:gmail") == ["use", "use", "use", "none"]
    office.do(RevokeAccess(first), office.agent(office.root))
    assert office.levels("mcp:gmail") == ["use", "none", "none", "none"]
    office.grant(office.root, office.boss, "mcp:gmail", "use")
    assert office.levels("mcp:gmail") == ["use", "use", "none", "none"]


def test_with_the_outcome_ends_at_every_level_what_was_granted_for_it(office: Office) -> None:
    deep = office.handler_for("Deep", office.left)
    office.do(GrantAccess(office.root, Wanted("repo:tools", "push")))
    office.grant(office.root, office.boss, "repo:tools", "push")
    office.grant(office.boss, office.left, "repo:tools", "push", office.left)
    office.grant(office.left, deep, "repo:tools", "clone")
    assert office.level(deep, "repo:tools") == "clone"
    office.do(CompleteOutcome(office.left, cascade=True), office.agent(office.boss))
    assert not any(office.level(one, "repo:tools") != "none" for one in (office.left, deep))


def test_a_capability_can_end_with_an_outcome_below_the_holders_root(office: Office) -> None:
    step = office.outcome("Step", office.left, by=office.agent(office.left))
    office.grant(office.boss, office.left, f"kb:{office.paper}", "read", step)
    assert office.level(office.left, f"kb:{office.paper}") == "read"
    office.do(CompleteOutcome(step), office.agent(office.left))
    assert office.level(office.left, f"kb:{office.paper}") == "none"
    wanted = Wanted(f"kb:{office.paper}", "read", step)
    assert office.no(GrantAccess(office.left, wanted), office.agent(office.boss)).rule == "scope"
    elsewhere = Wanted(f"kb:{office.paper}", "read", office.right)
    assert office.no(GrantAccess(office.left, elsewhere), office.agent(office.boss)).rule == "scope"


def test_an_outcome_delegated_again_revives_nothing(office: Office) -> None:
    office.grant(office.boss, office.left, f"kb:{office.paper}", "write")
    office.do(SendMail(office.left, text="Read this"), office.agent(office.boss))
    (mail,) = office.rows.pending(office.left)
    office.do(FinishMail((mail.id,)), office.agent(office.left))
    own = office.file(office.agent(office.left))
    stale = office.agent(office.left)
    office.do(StopHandler(office.left), office.agent(office.boss))
    assert office.delegate(office.left, office.agent(office.boss)) == office.left
    assert office.handler(office.left).tenure == 2
    assert office.level(office.left, f"kb:{office.paper}") == "none"
    assert office.level(office.left, f"kb:{mail.file}") == "none"
    assert office.levels(f"kb:{own}") == ["read", "write", "none", "none"]
    assert office.no(ReadFile(own), stale).rule == "active-handler"
    assert access(stale, Resource("outcome", office.left), office.rows) == "none"


def test_many_capabilities_at_each_link_are_each_looked_at_once(office: Office) -> None:
    """A way for each choice of one per link would be 4^6 ways."""
    line, scopes = [office.boss], list[list[Uuid]]()
    for depth in range(6):
        line.append(office.handler_for(f"Layer {depth}", line[-1]))
        scopes.append([office.outcome(f"{depth}.{n}", line[-1], by=office.agent(line[-1])) for n in range(4)])
    for boss, holder, ending in zip(line, line[1:], scopes, strict=False):
        for scope in ending:
            office.grant(boss, holder, f"kb:{office.paper}", "write", scope)
    asked = (line[-1], 1, f"kb:{office.paper}")
    index = Index.in_memory()
    for row in chain(*(table.values() for table in office.rows.rows().values())):
        index.put(row)
    found = index.capabilities(*asked)
    index.close()
    assert len(found) == 24
    assert sorted(found) == sorted(office.rows.capabilities(*asked))
    assert office.level(line[-1], f"kb:{office.paper}") == "write"
    office.do(CloseOutcome(scopes[0][0], "done with"), office.agent(line[1]))
    assert office.level(line[-1], f"kb:{office.paper}") == "write"  # three stay at that link
    for scope in scopes[0][1:]:
        office.do(CloseOutcome(scope, "done with"), office.agent(line[1]))
    assert office.level(line[-1], f"kb:{office.paper}") == "none"


def test_a_capability_is_worth_what_its_grantor_has_now(office: Office) -> None:
    """The boss lets its underling write a part of its work, and gives the work away: it only reads it now."""
    part = office.outcome("Part", office.work, by=office.agent(office.boss))
    grant = office.grant(office.boss, office.left, f"outcome:{part}", "write")
    assert office.level(office.left, f"outcome:{part}") == "write"
    office.delegate(office.work, office.agent(office.boss))
    assert office.level(office.boss, f"outcome:{part}") == "read"
    assert office.level(office.left, f"outcome:{part}") == "none"
    row = office.rows.grant(grant)
    assert row
    assert not stands(row, office.rows)


def test_a_capability_does_not_outlive_the_tenure_of_who_granted_it(office: Office) -> None:
    """The holder was moved away before its former boss was stopped and began again."""
    office.do(GrantAccess(office.root, Wanted("mcp:gmail", "use")))
    office.grant(office.root, office.boss, "mcp:gmail", "use")
    state = f"kb:{office.handler(office.boss).state}"
    for resource, level in (("mcp:gmail", "use"), (state, "read")):
        office.grant(office.boss, office.left, resource, level)
    office.do(MoveHandler(office.left, office.root), office.agent(office.root))
    assert [office.level(office.left, one) for one in ("mcp:gmail", state)] == ["use", "read"]
    office.do(StopHandler(office.boss), office.agent(office.root))
    assert [office.level(office.left, one) for one in ("mcp:gmail", state)] == ["none", "none"]
    office.delegate(office.boss, office.agent(office.root), [Wanted("mcp:gmail", "use")])
    assert [office.level(office.boss, one) for one in ("mcp:gmail", state)] == ["use", "write"]
    assert [office.level(office.left, one) for one in ("mcp:gmail", state)] == ["none", "none"]


def test_two_capabilities_never_hold_up_each_other(office: Office) -> None:
    """Boss and underling change places, each grants to the other, and what both stood on is taken away."""
    office.do(GrantAccess(office.root, Wanted("mcp:gmail", "use")))
    first = office.grant(office.root, office.boss, "mcp:gmail", "use")
    office.grant(office.boss, office.left, "mcp:gmail", "use")
    office.do(MoveHandler(office.left, office.root))
    office.do(MoveHandler(office.boss, office.left))
    office.grant(office.left, office.boss, "mcp:gmail", "use")
    assert office.level(office.boss, "mcp:gmail") == "use"
    office.do(RevokeAccess(first))
    assert [office.level(one, "mcp:gmail") for one in (office.left, office.boss)] == ["none", "none"]


def test_what_a_removed_layer_had_granted_goes_on_only_where_it_stood(office: Office) -> None:
    office.do(GrantAccess(office.root, Wanted("mcp:gmail", "use")))
    first = office.grant(office.root, office.boss, "mcp:gmail", "use")
    kept = office.grant(office.boss, office.left, f"kb:{office.paper}", "read")
    office.grant(office.boss, office.left, "mcp:gmail", "use")
    office.do(RevokeAccess(first), office.agent(office.root))
    office.do(RemoveHandler(office.boss), office.agent(office.root))
    assert office.level(office.left, f"kb:{office.paper}") == "read"
    assert office.level(office.left, "mcp:gmail") == "none"
    row = office.rows.grant(kept)
    assert row
    assert row.grantor == office.root


def test_a_capability_is_taken_back_by_its_grantor_and_by_those_above_and_by_nobody_else(office: Office) -> None:
    grant = office.grant(office.boss, office.left, f"kb:{office.paper}", "read")
    for nobody in (office.left, office.right):
        refused = office.no(RevokeAccess(grant), office.agent(nobody))
        assert (refused.rule, refused.ask) == ("access", office.boss)
    office.do(RevokeAccess(grant), office.agent(office.root))
    assert office.no(RevokeAccess(grant), office.agent(office.root)).rule == "known"


def test_an_explanation_names_every_link_of_the_chain(office: Office) -> None:
    office.do(GrantAccess(office.root, Wanted("mcp:gmail", "use")))
    office.grant(office.root, office.boss, "mcp:gmail", "use")
    last = office.grant(office.boss, office.left, "mcp:gmail", "use")
    explained = why(office.agent(office.left), Resource("mcp", "gmail"), office.rows)
    (reason,) = explained.reasons
    assert (explained.level, reason.grant and reason.grant.id) == ("use", last)
    assert reason.because[0].grant
    assert reason.because[0].because[0].text == "granted by user:ada"
    office.do(CloseOutcome(office.left, "no"), office.agent(office.boss))
    gone = why(ByHandler(office.left, 1, "user:ada"), Resource("mcp", "gmail"), office.rows)
    assert (gone.level, gone.reasons[0].text) == ("none", "its tenure is over")


def test_an_explanation_of_no_says_what_held_once(office: Office) -> None:
    part = office.outcome("Part", office.left, by=office.agent(office.left))
    office.grant(office.boss, office.left, f"kb:{office.paper}", "read", part)
    office.do(CloseOutcome(part, "no"), office.agent(office.left))
    explained = why(office.agent(office.left), Resource("kb", office.paper), office.rows)
    assert [one.text for one in explained.reasons] == [f"its outcome {part} has ended"]


def test_an_outcome_is_a_file_too_and_access_to_both_is_one(office: Office) -> None:
    office.grant(office.boss, office.left, f"kb:{office.work}", "write")
    assert (
        office.level(office.left, f"kb:{office.work}") == office.level(office.left, f"outcome:{office.work}") == "write"
    )
    file = office.rows.file(office.work)
    assert file
    office.do(UpdateOutcome(office.work, text="better", seen=Seen(1, file.hash)), office.agent(office.left))
    assert office.no(CompleteOutcome(office.work), office.agent(office.left)).rule == "access"


def test_a_former_boss_does_not_read_what_is_done_elsewhere_later(office: Office) -> None:
    """Neither after a move, nor where the work went on for somebody else."""
    goal, other = (office.outcome(title, office.root, by=office.agent(office.root)) for title in ("Goal", "Other"))
    both = office.outcome("Both", goal, other, by=office.agent(office.root))
    group = office.delegate(goal, office.agent(office.root))
    stays = office.delegate(both, office.agent(group))
    office.do(MoveHandler(office.left, office.root), office.agent(office.root))
    office.do(CloseOutcome(group, "no", cascade=True), office.agent(office.root))
    assert office.handler(stays).boss == office.root
    ended = []
    for handler in (office.left, stays):
        ended.append(office.outcome("Later", handler, by=office.agent(handler)))
        office.do(CompleteOutcome(ended[-1]), office.agent(handler))
        office.do(CompleteOutcome(handler), office.agent(Uuid(office.handler(handler).boss)))
    assert office.rows.parents(stays) == [other]
    assert [office.level(office.boss, f"outcome:{id}") for id in ended] == ["none", "none"]
    assert [office.level(office.root, f"outcome:{id}") for id in ended] == ["write", "write"]


def test_who_uses_what_beyond_agency_is_told_with_the_capability_before_it_is_done(office: Office) -> None:
    boss = office.root
    grant = office.do(GrantAccess(boss, Wanted("mcp:mail", "use")))["grants"]
    office.do(UseResource("mcp:mail", "use", "calls send"), office.agent(boss))
    event = office.events[-1]
    assert event.change == ResourceUsed("mcp:mail", "use", "calls send")
    assert [event.grant] == grant
    assert office.no(UseResource("mcp:chat", "use", "calls send"), office.agent(boss)).rule == "access"
    assert office.no(UseResource("mcp:mail", "push", "x"), office.agent(boss)).rule == "known"
    assert office.no(UseResource("mcp:mail", "use", "two\nlines"), office.agent(boss)).rule == "words"
