"""Handlers: a tree that can be built, stopped, layered and moved without losing anything."""

from __future__ import annotations

import pytest

from cn.agency.events import AgentEnded, Delegated
from cn.agency.names import Party, Uuid
from cn.agency.operations import (
    CloseOutcome,
    CompleteOutcome,
    CreateOutcome,
    Delegate,
    EndAgent,
    FoundAgency,
    LeaseAgent,
    Limits,
    MoveHandler,
    ReadFile,
    RemoveHandler,
    SendMail,
    StopHandler,
    UpdateOutcome,
    Wanted,
)
from tests.support.agency import SYSTEM, Records

TOKEN = "ab" * 32


@pytest.fixture
def boss(records: Records, root: Uuid) -> Uuid:
    return records.handler_for("Boss", root)


def line(records: Records, id: Uuid) -> tuple[bool, Uuid | None, Party]:
    row = records.handler(id)
    return row.active, row.parent, row.boss


def test_agency_is_founded_once_with_a_root_handler_whose_boss_is_the_user(records: Records, root: Uuid) -> None:
    assert line(records, root) == (True, None, "user:ada")
    assert records.row(root).responsible == root
    assert records.no(FoundAgency("again")).rule == "founded-once"
    assert Records().no(CompleteOutcome(root)).rule == "known"


def test_the_root_handler_is_handed_to_another_user_and_stays_where_it_is(records: Records, root: Uuid) -> None:
    records.do(SendMail(Party("user:ada"), text="old"), records.agent(root))
    records.do(MoveHandler(root, Party("user:eva")))
    assert line(records, root) == (True, None, "user:eva")
    records.do(SendMail(Party("user:eva"), text="new"), records.agent(root))
    assert [len(records.rows.pending(Party(f"user:{name}"))) for name in ("ada", "eva")] == [1, 1]
    assert records.no(MoveHandler(root, Party("user:eva"))).rule == "nothing-to-change"
    assert records.no(MoveHandler(root, Party("user:bob")), records.agent(root)).rule == "access"
    other = records.handler_for("Other", root)
    assert records.no(MoveHandler(root, other)).rule == "perpetual-root"


def test_delegation_makes_a_handler_named_by_the_outcome_below_who_delegates(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Work", root, by=by)
    part = records.outcome("Part", id, by=by)
    beside = records.outcome("Beside", root, by=by)
    assert records.delegate(id, by) == id
    assert line(records, id) == (True, root, root)
    assert [records.row(one).responsible for one in (id, part, beside)] == [id, id, root]


def test_delegation_grants_and_sends_a_first_message_in_the_same_operation(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    file, id = records.file(by), records.outcome("Work", root, by=by)
    records.delegate(id, by, [Wanted(f"kb:{file}", "read")], "Please begin with the tests.")
    assert records.level(id, f"kb:{file}") == "read"
    (mail,) = records.rows.pending(id)
    assert (mail.sender, records.level(id, f"kb:{mail.file}")) == (root, "read")
    assert records.rows.open_inbox(id)


def test_what_cannot_be_delegated_is_refused(records: Records, root: Uuid, boss: Uuid) -> None:
    by = records.agent(root)
    assert records.no(Delegate(root), by).rule == "own-root"
    assert records.no(Delegate(boss), by).rule == "own-root"
    assert records.no(Delegate(boss), records.agent(boss)).rule == "own-root"
    inner = records.outcome("Inner", boss, by=records.agent(boss))
    assert records.no(Delegate(inner), by).rule == "delegation-boundary"


def test_a_layer_is_inserted_and_no_underling_notices(records: Records, root: Uuid) -> None:
    """Some outcomes are grouped below a new one, which is delegated; their handlers go with it."""
    by = records.agent(root)
    under = [records.handler_for(f"Under {number}", root) for number in range(4)]
    events = {id: [records.row(id).text, records.handler(id).tenure] for id in under}
    group = records.outcome("Group", root, by=by)
    for id in under[:2]:
        records.do(UpdateOutcome(id, link=(group,), unlink=(root,)), by)
    layer = records.delegate(group, by)
    assert [records.handler(id).boss for id in under] == [layer, layer, root, root]
    assert events == {id: [records.row(id).text, records.handler(id).tenure] for id in under}
    assert [records.row(id).responsible for id in under] == under
    assert records.level(under[0], f"mail:{layer}") == "send"
    assert records.level(under[0], f"mail:{root}") == "none"


def test_a_layer_is_removed_and_what_it_had_is_its_boss_s(records: Records, root: Uuid, boss: Uuid) -> None:
    inner = records.outcome("Inner", boss, by=records.agent(boss))
    under = records.handler_for("Under", boss)
    records.do(RemoveHandler(boss), records.agent(root))
    assert line(records, boss) == (False, root, root)
    assert line(records, under) == (True, root, root)
    assert [records.row(one).responsible for one in (boss, inner, under)] == [root, root, under]


def test_a_stop_ends_all_below_and_gives_their_outcomes_to_the_boss(records: Records, root: Uuid, boss: Uuid) -> None:
    under = records.handler_for("Under", boss)
    inner = records.outcome("Inner", under, by=records.agent(under))
    file = records.file(records.agent(under))
    records.do(SendMail(under, text="unread"), records.agent(boss))
    records.do(LeaseAgent(inner, under, TOKEN), SYSTEM)
    state = records.handler(under).state
    records.do(StopHandler(boss), records.agent(root))
    assert not any(records.handler(one).active for one in (boss, under))
    assert {records.row(one).responsible for one in (boss, under, inner)} == {root}
    assert [event.change.agent for event in records.events if isinstance(event.change, AgentEnded)] == [inner]
    assert records.level(root, f"kb:{file}") == "write"
    assert records.level(root, f"kb:{state}") == "write"
    (mail,) = records.rows.pending(root)
    assert mail.sender == boss
    assert records.rows.open_inbox(root)
    assert records.rows.open_inbox(under) is None


def test_a_handler_delegated_again_has_its_own_documents_again(records: Records, root: Uuid, boss: Uuid) -> None:
    before = records.handler(boss)
    records.do(StopHandler(boss), records.agent(root))
    records.delegate(boss, records.agent(root))
    after = records.handler(boss)
    assert (after.tenure, after.state, after.audit) == (2, before.state, before.audit)
    assert records.level(boss, f"kb:{after.state}") == "write"
    assert records.level(root, f"kb:{after.state}") == "read"


def test_only_the_boss_or_a_user_stops_and_nobody_skips_a_level(records: Records, root: Uuid, boss: Uuid) -> None:
    under, beside = records.handler_for("Under", boss), records.handler_for("Beside", root)
    for operation in (StopHandler(under), RemoveHandler(under)):
        assert records.no(operation, records.agent(root)).rule == "delegation-boundary"
        assert records.no(operation, records.agent(beside)).ask == boss
        assert records.no(operation, records.agent(under)).ask == boss
    records.do(StopHandler(under))
    assert records.no(StopHandler(under)).rule == "known"
    assert records.no(StopHandler(root)).rule == "perpetual-root"


def test_a_handler_moves_to_another_boss_by_one_above_both(records: Records, root: Uuid, boss: Uuid) -> None:
    other = records.handler_for("Other", root)
    under = records.handler_for("Under", boss)
    goal = records.outcome("Goal", other, by=records.agent(other))
    for nobody in (boss, other, under):
        assert records.no(MoveHandler(under, other), records.agent(nobody)).rule == "access"
    refused = records.no(MoveHandler(under, other), records.agent(under))
    assert (refused.ask, refused.remedy) == (boss, f"ask {boss}, your boss; {root} is above both")
    records.do(MoveHandler(under, other, goal), records.agent(root))
    assert line(records, under) == (True, other, other)
    assert records.rows.parents(under) == [goal]
    assert records.no(MoveHandler(other, under)).rule == "no-circle"
    assert records.no(MoveHandler(other, boss, goal)).rule == "one-handler"


def test_what_a_person_is_the_boss_of_no_handler_above_moves_nor_is_told_to_stop(
    records: Records, root: Uuid, boss: Uuid
) -> None:
    other = records.handler_for("Other", boss)
    under = records.handler_for("Under", boss)
    deep = records.handler_for("Deep", under)
    bob = Party("user:bob")
    records.do(MoveHandler(under, bob))
    for who, moved, to in (boss, under, boss), (boss, under, other), (root, under, boss), (boss, deep, other):
        refused = records.no(MoveHandler(moved, Party(to)), records.agent(who))
        assert (refused.rule, refused.ask) == ("access", bob)
    refused = records.no(MoveHandler(other, Party(under)), records.agent(boss))
    assert refused.ask == bob, "nor is anybody put below that one"
    for work in CreateOutcome("More", "", (under,)), CreateOutcome("More", "", (deep,)):
        refused = records.no(work, records.agent(boss))
        assert (refused.rule, refused.ask) == ("delegation-boundary", bob)
        assert "stop" not in refused.remedy
    records.do(MoveHandler(deep, Party(boss)))
    records.do(MoveHandler(under, Party(boss)))
    assert line(records, under) == (True, boss, boss)


def test_a_user_can_be_the_boss_at_any_node(records: Records, root: Uuid, boss: Uuid) -> None:
    under = records.handler_for("Under", boss)
    cto = Party("user:cto")
    assert records.no(MoveHandler(under, cto), records.agent(boss)).rule == "access"
    records.do(MoveHandler(under, cto))
    assert line(records, under) == (True, boss, cto)
    assert records.level(under, "mail:user:cto") == "send"
    assert records.level(under, f"mail:{boss}") == records.level(boss, f"handler:{under}") == "none"
    assert records.level(boss, f"outcome:{under}") == "read"
    assert records.no(CompleteOutcome(under), records.agent(boss)).ask == cto
    records.do(SendMail(cto, text="done"), records.agent(under))
    assert records.rows.pending(cto)
    records.do(StopHandler(under))
    assert records.row(under).responsible == boss


def test_subtrees_split_and_merge_by_layers_and_moves(records: Records, root: Uuid, boss: Uuid) -> None:
    other = records.handler_for("Other", root)
    under = [records.handler_for(f"Under {number}", boss) for number in range(2)]
    for id in under:
        records.do(MoveHandler(id, other), records.agent(root))
    records.do(CompleteOutcome(boss), records.agent(root))
    assert [records.handler(id).boss for id in under] == [other, other]


def test_a_cascade_over_a_delegated_root_ends_everybody_below_it(records: Records, root: Uuid, boss: Uuid) -> None:
    under = records.handler_for("Under", boss)
    assert records.no(CloseOutcome(boss, "no"), records.agent(root)).rule == "open-descendants"
    records.do(CloseOutcome(boss, "no", cascade=True), records.agent(root))
    assert not any(records.handler(one).active for one in (boss, under))
    assert [records.row(one).status for one in (boss, under)] == ["closed", "closed"]


def test_limits_refuse_what_adds_by_name_and_never_what_ends(root: Uuid) -> None:
    records = Records(limits=Limits(depth=3, underlings=2))
    top = records.found()
    first = records.handler_for("1", top)
    second = records.handler_for("2", first)
    deep = records.outcome("x", second, by=records.agent(second))
    assert records.no(Delegate(deep), records.agent(second)).rule == "limit-depth"
    records.handler_for("3", top)
    wide = records.outcome("x", top)
    assert records.no(Delegate(wide)).rule == "limit-underlings"
    group = records.outcome("Group", top)
    records.do(UpdateOutcome(first, link=(group,), unlink=(top,)))
    assert records.no(Delegate(group)).rule == "limit-depth"
    assert records.no(MoveHandler(second, top)).rule == "limit-underlings"
    records.limits = Limits(depth=1, underlings=0)
    records.do(RemoveHandler(first))
    assert line(records, second) == (True, top, top)
    records.do(StopHandler(second))


def test_a_handler_has_one_live_agent_at_most_and_few_live_at_all(records: Records, root: Uuid, boss: Uuid) -> None:
    records.limits = Limits(agents=2)
    ids = [records.file(records.agent(root)) for _ in range(4)]
    records.do(LeaseAgent(ids[0], root, TOKEN), SYSTEM)
    assert records.no(LeaseAgent(ids[1], root, TOKEN), SYSTEM).rule == "one-agent"
    records.do(LeaseAgent(ids[1], boss, TOKEN), SYSTEM)
    third = records.handler_for("Third", root)
    assert records.no(LeaseAgent(ids[2], third, TOKEN), SYSTEM).rule == "limit-agents"
    records.do(EndAgent(ids[1], "it was done"), SYSTEM)
    assert records.no(LeaseAgent(ids[1], third, TOKEN), SYSTEM).rule == "one-agent"
    records.do(LeaseAgent(ids[2], third, TOKEN), SYSTEM)
    assert records.no(LeaseAgent(ids[3], boss, TOKEN), records.agent(root)).rule == "access"
    assert records.no(EndAgent(ids[1], "again"), SYSTEM).rule == "known"


def test_who_is_no_more_asks_for_nothing(records: Records, boss: Uuid) -> None:
    file = records.file(records.agent(boss))
    gone = records.agent(boss)
    records.do(StopHandler(boss))
    for operation in (
        CreateOutcome("More", "", (boss,)),
        ReadFile(file),
        SendMail(boss, text="hello"),
        StopHandler(boss),
    ):
        assert records.no(operation, gone).rule == "active-handler"
    records.delegate(boss)
    assert records.no(ReadFile(file), gone).rule == "active-handler"


def test_agency_itself_decides_nothing(records: Records, root: Uuid) -> None:
    for operation in (CloseOutcome(root, "x"), SendMail(root, text="x"), Delegate(root)):
        assert records.no(operation, SYSTEM).rule == "access"


def test_every_tenure_is_told_with_its_number(records: Records, root: Uuid, boss: Uuid) -> None:
    records.do(StopHandler(boss), records.agent(root))
    records.delegate(boss, records.agent(root))
    assert [event.change.number for event in records.events if isinstance(event.change, Delegated)] == [1, 2]
    first = records.rows.tenure(boss, 1)
    assert first
    assert (first.how, first.heir, first.ended) == ("stopped", root, records.now)
