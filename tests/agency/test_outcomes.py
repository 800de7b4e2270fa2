"""Outcomes: a graph without circles, in the hands of those who are responsible."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cn.agency.events import OutcomeClosed, OutcomeCompleted, OutcomeCreated, type_of
from cn.agency.names import Uuid
from cn.agency.operations import (
    BlockOutcome,
    CloseOutcome,
    CompleteOutcome,
    CreateOutcome,
    Delegate,
    GrantAccess,
    Limits,
    MoveHandler,
    Operation,
    RevokeAccess,
    Seen,
    SendMail,
    UpdateOutcome,
    Wanted,
    WriteFile,
)
from cn.agency.plan.structure import is_workable
from tests.support.agency import ADA, Records


@pytest.fixture
def boss(records: Records, root: Uuid) -> Uuid:
    return records.handler_for("Boss", root)


def seen(records: Records, id: Uuid) -> Seen:
    file = records.rows.file(id)
    assert file
    return Seen(file.version, file.hash)


def workable(records: Records, id: Uuid) -> bool:
    return is_workable(records.row(id), records.rows, records.now)


def test_what_changes_nothing_is_refused_whoever_asks(records: Records, root: Uuid, boss: Uuid) -> None:
    by = records.agent(boss)
    work, other = records.outcome("Ship it", boss, by=by), records.outcome("Sell it", boss, by=by)
    file, tomorrow = records.file(by, b"the plan"), records.now + timedelta(days=1)
    records.do(BlockOutcome(work, "it waits"), by)
    records.do(BlockOutcome(boss, "it waits", tomorrow), by)
    records.do(GrantAccess(boss, Wanted("mcp:gmail", "use")))
    for same in (
        BlockOutcome(work, "it waits"),
        BlockOutcome(boss, "it waits", tomorrow),
        BlockOutcome(other, ""),
        UpdateOutcome(work, title="Ship it", seen=seen(records, work)),
        UpdateOutcome(work, link=(boss,)),
        UpdateOutcome(work, link=(other,), unlink=(other,)),
        WriteFile(file, b"the plan", seen(records, file)),
    ):
        assert records.no(same, by).rule == "nothing-to-change", same
    assert records.no(GrantAccess(boss, Wanted("mcp:gmail", "use"))).rule == "nothing-to-change"
    assert records.no(MoveHandler(boss, root)).rule == "nothing-to-change"
    records.do(BlockOutcome(work, "it waits", tomorrow), by)
    records.do(RevokeAccess(records.rows.grants_of(boss, 1)[0].id))
    records.do(GrantAccess(boss, Wanted("mcp:gmail", "use")))


def test_who_creates_an_outcome_is_responsible_for_it_and_stands_in_its_history(records: Records, boss: Uuid) -> None:
    by = records.agent(boss)
    id = records.outcome("Ship it", boss, by=by, text="All of it.")
    row = records.row(id)
    assert (row.responsible, row.status, row.title, row.text) == (boss, "open", "Ship it", "All of it.")
    (made,) = records.rows.history(id, 10**9, 9)
    assert (type_of(made.change), made.actor, made.tenure) == ("outcome_created", f"{boss}/user:ada", 1)
    assert made.time == records.now


def test_an_outcome_is_a_file_whose_markdown_says_what_it_is(records: Records, boss: Uuid) -> None:
    id = records.outcome("Ship it", boss, by=records.agent(boss), text="All of it.")
    markdown = records.contents[seen(records, id).hash].decode()
    for words in (f"outcome: {id}", "status: open", f"responsible: {boss}", f"  - {boss}", "# Ship it", "All of it."):
        assert words in markdown


def test_an_outcome_has_several_parents_and_they_have_one_handler(records: Records, root: Uuid, boss: Uuid) -> None:
    by = records.agent(boss)
    first, second = records.outcome("1", boss, by=by), records.outcome("2", boss, by=by)
    id = records.outcome("Both", first, second, by=by)
    assert records.rows.parents(id) == [first, second]
    assert records.no(CreateOutcome("x", "", (first, root))).rule == "one-handler"
    assert records.no(CreateOutcome("x", "", ())).rule == "open-parent"


@pytest.mark.parametrize("title", ["", " ", "a\nb", "a\u202eb", "x" * 201])
def test_a_title_is_one_plain_line(records: Records, root: Uuid, title: str) -> None:
    assert records.no(CreateOutcome(title, "", (root,))).rule == "words"


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "x" * 70_000])
def test_a_text_can_be_stored_and_is_not_too_long(records: Records, root: Uuid, text: str) -> None:
    assert records.no(CreateOutcome("x", text, (root,))).rule == "words"


def test_no_circle_can_be_linked(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    first = records.outcome("1", root, by=by)
    second = records.outcome("2", first, by=by)
    third = records.outcome("3", second, by=by)
    for child, parent in ((first, third), (first, first), (second, third)):
        assert records.no(UpdateOutcome(child, link=(parent,)), by).rule == "no-circle"
    records.do(UpdateOutcome(third, link=(first,)), by)
    assert records.rows.parents(third) == [second, first]


def test_nobody_hangs_work_below_the_outcome_of_somebody_else(records: Records, root: Uuid, boss: Uuid) -> None:
    mine = records.outcome("Mine", boss, by=records.agent(boss))
    theirs = records.outcome("Theirs", root, by=records.agent(root))
    assert records.no(UpdateOutcome(mine, link=(theirs,)), records.agent(boss)).rule == "access"
    assert records.no(UpdateOutcome(mine, link=(theirs,))).rule == "one-handler"
    assert records.no(UpdateOutcome(theirs, link=(boss,)), records.agent(root)).rule == "delegation-boundary"


def test_unlinking_leaves_an_open_parent(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    first, second = records.outcome("1", root, by=by), records.outcome("2", root, by=by)
    id = records.outcome("Both", first, second, by=by)
    records.do(UpdateOutcome(id, unlink=(first,)), by)
    assert records.no(UpdateOutcome(id, unlink=(second,)), by).rule == "open-parent"
    assert records.no(UpdateOutcome(id, unlink=(first,)), by).rule == "nothing-to-change"
    records.do(UpdateOutcome(id, link=(first,), unlink=(second,)), by)
    assert records.rows.parents(id) == [first]


def test_a_stale_write_is_refused_with_the_latest_version(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Title", root, by=by)
    old = seen(records, id)
    records.do(UpdateOutcome(id, text="one", seen=old), by)
    refused = records.no(UpdateOutcome(id, text="two", seen=old), by)
    assert refused.rule == "stale-version"
    assert f"version 2, {seen(records, id).hash}" in refused.reason
    assert records.no(UpdateOutcome(id, text="two"), by).rule == "stale-version"


def test_what_structure_changes_makes_no_write_stale(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Title", root, by=by)
    old = seen(records, id)
    records.outcome("Child", id, by=by)
    records.do(BlockOutcome(id, "waits"), by)
    records.delegate(id, by)
    records.do(UpdateOutcome(id, text="one", seen=old), by)


def test_completed_and_closed_are_final(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    done, gone = records.outcome("Done", root, by=by), records.outcome("Gone", root, by=by)
    records.do(CompleteOutcome(done, "it works"), by)
    records.do(CloseOutcome(gone, "it cannot work"), by)
    ops: list[Operation] = []
    for id in (done, gone):
        ops += [CompleteOutcome(id), CloseOutcome(id, "x"), BlockOutcome(id, "x"), CreateOutcome("x", "", (id,))]
        ops += [UpdateOutcome(id, title="x", seen=seen(records, id)), Delegate(id)]
    assert {records.no(one, by).rule for one in ops} == {"open-outcome"}


def test_a_closed_outcome_says_why_in_its_own_file_and_in_its_history(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Gone", root, by=by)
    assert records.no(CloseOutcome(id, " "), by).rule == "words"
    records.do(CloseOutcome(id, "the host\nrefuses"), by)
    markdown = records.contents[seen(records, id).hash].decode()
    assert "status: closed" in markdown
    assert markdown.endswith("## Why it is closed\n\n> the host\n> refuses\n")
    assert isinstance(records.rows.history(id, 10**9, 9)[-1].change, OutcomeClosed)


def test_what_has_open_descendants_is_not_ended_and_they_are_named(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Top", root, by=by)
    records.outcome("Below", records.outcome("Middle", id, by=by), by=by)
    for one in (CompleteOutcome(id), CloseOutcome(id, "x")):
        refused = records.no(one, by)
        assert refused.rule == "open-descendants"
        assert "Middle" in refused.reason
        assert "Below" in refused.reason


def test_a_cascade_closes_what_has_no_open_parent_left_and_says_so(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    top, other = records.outcome("Top", root, by=by), records.outcome("Other", root, by=by)
    only, both = records.outcome("Only", top, by=by), records.outcome("Both", top, other, by=by)
    below = records.outcome("Below", only, by=by)
    records.do(CompleteOutcome(top, cascade=True), by)
    assert [records.row(id).status for id in (top, only, below, both)] == ["completed", "closed", "closed", "open"]
    assert records.row(only).rationale == "closed with its parent: Top"


def test_handlers_in_a_cascade_end_and_the_underlings_of_survivors_pass_on(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    top, other = records.outcome("Top", root, by=by), records.outcome("Other", root, by=by)
    both = records.outcome("Both", top, other, by=by)
    stays = records.delegate(both, by)
    middle = records.delegate(top, by)
    assert records.handler(stays).parent == middle
    records.do(CloseOutcome(top, "no", cascade=True), by)
    assert not records.handler(middle).active
    assert (records.handler(stays).active, records.handler(stays).parent, records.handler(stays).boss) == (
        True,
        root,
        root,
    )


def test_the_boss_completes_a_delegated_root_and_that_shuts_its_handler_down(
    records: Records, root: Uuid, boss: Uuid
) -> None:
    assert records.no(CompleteOutcome(boss), records.agent(boss)).ask == root
    records.do(CompleteOutcome(boss, "verified"), records.agent(root))
    assert (records.row(boss).status, records.handler(boss).active) == ("completed", False)
    tenure = records.rows.tenure(boss, 1)
    assert tenure
    assert (tenure.how, tenure.heir) == ("completed", root)


def test_the_root_of_everything_is_perpetual(records: Records, root: Uuid) -> None:
    for one in (CompleteOutcome(root, cascade=True), CloseOutcome(root, "x", cascade=True)):
        assert records.no(one).rule == records.no(one, records.agent(root)).rule == "perpetual-root"


def test_workable_is_what_something_can_be_done_about_now(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    assert workable(records, root)
    id = records.outcome("Title", root, by=by)
    assert (workable(records, root), workable(records, id)) == (False, True)
    records.do(BlockOutcome(id, "waits", records.now.replace(year=2027)), by)
    assert not workable(records, id)
    records.now = records.now.replace(year=2027)
    assert workable(records, id)
    records.do(BlockOutcome(id, ""), by)
    under = records.delegate(id, by)
    assert workable(records, id)
    records.do(BlockOutcome(id, "waits"), records.agent(under))
    assert not workable(records, id)
    records.do(CompleteOutcome(id), by)
    assert (workable(records, id), workable(records, root)) == (False, True)


def test_only_who_is_responsible_blocks_also_its_own_root(records: Records, root: Uuid, boss: Uuid) -> None:
    records.do(BlockOutcome(boss, "waits for a key"), records.agent(boss))
    assert records.row(boss).blocked == "waits for a key"
    assert records.no(BlockOutcome(boss, "x"), records.agent(root)).rule == "delegation-boundary"
    assert records.no(BlockOutcome(boss, "x", records.now), records.agent(boss)).rule == "time-to-come"


def test_a_boss_creates_changes_and_closes_nothing_within_a_delegated_subtree(
    records: Records, root: Uuid, boss: Uuid
) -> None:
    inner = records.outcome("Inner", boss, by=records.agent(boss))
    by = records.agent(root)
    for one in (
        CreateOutcome("x", "", (inner,)),
        UpdateOutcome(inner, title="x", seen=seen(records, inner)),
        CompleteOutcome(inner),
        CloseOutcome(inner, "x"),
        BlockOutcome(inner, "x"),
        Delegate(inner),
    ):
        refused = records.no(one, by)
        assert (refused.rule, refused.ask) == ("delegation-boundary", boss)
        assert "send mail to" in refused.remedy


def test_an_underling_changes_nothing_of_its_root(records: Records, root: Uuid, boss: Uuid) -> None:
    by = records.agent(boss)
    for one in (
        UpdateOutcome(boss, title="x", seen=seen(records, boss)),
        CompleteOutcome(boss),
        CloseOutcome(boss, "x"),
    ):
        assert records.no(one, by).ask == root


def test_a_handler_has_a_bounded_number_of_open_outcomes(root: Uuid) -> None:
    records = Records(limits=Limits(open_outcomes=3))
    top = records.found()
    made = [records.outcome(str(number), top) for number in range(2)]
    assert records.no(CreateOutcome("x", "", (top,))).rule == "limit-open-outcomes"
    records.do(SendMail(top, text="mail is delivered all the same"))
    records.do(CloseOutcome(made[0], "x"))
    records.outcome("x", top)


def test_the_outcome_for_mail_is_agencys_own(records: Records, root: Uuid) -> None:
    records.do(SendMail(root, text="hello"))
    inbox = next(event.change.outcome for event in records.events if isinstance(event.change, OutcomeCreated))
    ops: list[Operation] = [CreateOutcome("x", "", (inbox,)), BlockOutcome(inbox, "x"), CloseOutcome(inbox, "x")]
    ops += [Delegate(inbox), CompleteOutcome(inbox), UpdateOutcome(inbox, link=(root,))]
    for one in ops:
        for who in (ADA, records.agent(root)):
            assert records.no(one, who).rule == "inbox-of-agency"


def test_when_the_last_open_child_ends_its_parent_is_workable_again(records: Records, root: Uuid) -> None:
    by = records.agent(root)
    id = records.outcome("Top", root, by=by)
    child = records.outcome("Child", id, by=by)
    assert not workable(records, id)
    records.do(CompleteOutcome(child), by)
    assert workable(records, id)
    assert isinstance(records.events[-1].change, OutcomeCompleted)
