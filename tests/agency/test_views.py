"""What only looks: outcomes with their neighbours, why, what is below, what can be worked on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from cn.agency.names import Party, Uuid
from cn.agency.operations import BlockOutcome, GrantAccess, ReadFile, SendMail, Wanted
from cn.agency.plan.result import Refused
from cn.agency.plan.views import (
    View,
    browse,
    list_files,
    list_outcomes,
    list_permissions,
    read_inbox,
    view_ancestors,
    view_outcome,
    view_subtree,
)
from cn.agency.rows import File
from tests.support.agency import ADA, Records, listed


@pytest.fixture
def records() -> Records:
    return Records()


def test_an_outcome_is_shown_with_neighbours_responsible_handler_and_history(records: Records) -> None:
    root = records.found()
    by = records.agent(root)
    work = records.outcome("Work", root, by=by, text="Do it.")
    child = records.outcome("Child", work, by=by)
    records.do(ReadFile(work), by)
    view = view_outcome(work, by, records.rows, records.now)
    assert not isinstance(view, Refused)
    assert (view["title"], view["status"], view["responsible"], view["workable"]) == ("Work", "open", root, False)
    assert [one["outcome"] for one in listed(view, "parents")] == [root]
    assert [one["outcome"] for one in listed(view, "children")] == [child]
    assert [one["type"] for one in listed(view, "history")] == ["outcome_created", "outcome_created"]
    assert f"  - {child}\n" in str(view["markdown"])


def test_why_is_every_chain_of_parents_up_to_the_root(records: Records) -> None:
    root = records.found()
    first, second = records.outcome("1", root), records.outcome("2", root)
    both = records.outcome("Both", first, second)
    view = view_ancestors(both, ADA, records.rows, records.now)
    assert not isinstance(view, Refused)
    chains = view["chains"]
    assert isinstance(chains, list)
    assert [[one["title"] for one in chain] for chain in chains] == [
        ["1", records.row(root).title],
        ["2", records.row(root).title],
    ]


def test_a_subtree_has_each_outcome_once_with_its_depth(records: Records) -> None:
    root = records.found()
    first = records.outcome("1", root)
    records.outcome("Both", first, root)
    found = listed(view_subtree(root, ADA, records.rows, records.now), "outcomes")
    assert [(one["title"], one["depth"]) for one in found][1:] == [("1", 1), ("Both", 2)]
    cut = view_subtree(root, ADA, records.rows, records.now, most=2)
    assert not isinstance(cut, Refused)
    assert cut["more"] is True


def test_what_one_may_not_read_is_not_shown(records: Records) -> None:
    root = records.found()
    boss, other = records.handler_for("Boss", root), records.handler_for("Other", root)
    by = records.agent(other)
    for view in (view_outcome, view_ancestors, view_subtree):
        refused = view(boss, by, records.rows, records.now)
        assert isinstance(refused, Refused)
        assert (refused.rule, refused.ask) == ("access", root)
        nothing = view(Uuid(Party("0")), by, records.rows, records.now)
        assert isinstance(nothing, Refused)
        assert nothing.rule == "known"
    for refusal in (
        list_outcomes(boss, by, records.rows, records.now, workable=True),
        list_permissions(boss, by, records.rows),
        read_inbox(boss, by, records.rows),
        read_inbox(Party("user:ada"), by, records.rows),
    ):
        assert isinstance(refusal, Refused)


def test_a_handler_lists_what_is_open_what_it_delegated_and_what_it_can_work_on(records: Records) -> None:
    root = records.found()
    by = records.agent(root)
    free, stuck = records.outcome("Free", root, by=by), records.outcome("Stuck", root, by=by)
    records.do(BlockOutcome(stuck, "waits"), by)
    boss = records.handler_for("Boss", root)
    view = list_outcomes(root, by, records.rows, records.now, workable=False)
    assert [one["outcome"] for one in listed(view, "outcomes")] == [root, free, stuck]
    assert [one["outcome"] for one in listed(view, "delegated")] == [boss]
    records.do(SendMail(root, text="hello"))
    now = listed(list_outcomes(root, by, records.rows, records.now, workable=True), "outcomes")
    assert [one["title"] for one in now] == ["Process inbox", "Free"]


def test_of_a_file_that_one_may_not_read_neither_hash_nor_size_is_shown(records: Records) -> None:
    root = records.found()
    boss, other = records.handler_for("Boss", root), records.handler_for("Other", root)
    file = records.file(records.agent(boss), description="The PIN of the door")
    outcome = records.outcome("The PIN is changed", boss, by=records.agent(boss))
    for principal, level in ((records.agent(boss), "write"), (records.agent(other), "none")):
        found = {one["file"]: one for one in listed(browse("PIN", principal, records.rows), "files")}
        assert found.keys() == {file, outcome}
        for row in found.values():
            assert row["access"] == level
            assert ({"hash", "size"} & row.keys() != set()) is (level != "none")


def test_permissions_are_listed_with_whether_they_stand(records: Records) -> None:
    root = records.found()
    boss = records.handler_for("Boss", root)
    records.do(GrantAccess(root, Wanted("mcp:gmail", "use")))
    records.do(GrantAccess(boss, Wanted("mcp:gmail", "use")), records.agent(root))
    held = listed(list_permissions(boss, records.agent(boss), records.rows), "held")
    assert [(one["resource"], one["level"], one["effective"]) for one in held] == [("mcp:gmail", "use", True)]
    given = listed(list_permissions(root, ADA, records.rows), "given")
    assert [one["holder"] for one in given] == [boss]


def test_an_inbox_lists_what_is_pending_with_sender_and_subject(records: Records) -> None:
    root = records.found()
    records.do(SendMail(root, subject="Plans", text="hello"))
    (mail,) = listed(read_inbox(root, records.agent(root), records.rows), "mail")
    assert (mail["from"], mail["subject"]) == ("user:ada", "Plans")
    records.do(SendMail(Party("user:ada"), text="done"), records.agent(root))
    assert len(listed(read_inbox(Party("user:ada"), ADA, records.rows), "mail")) == 1


@pytest.mark.parametrize("most", [3, 4, 5])
def test_a_list_that_goes_on_has_every_file_once(records: Records, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    root = records.found()
    for number in range(4):
        records.outcome(f"Work {number}", root)
    boss = records.handler_for("Boss", root)
    made = {records.file(records.agent(boss), description=f"File {number}") for number in range(3)}
    monkeypatch.setattr("cn.agency.plan.views.MOST", most)  # one event makes three files at most
    everything = Counter(row.id for row in records.rows.of(File) if row.kind != "outcome")
    for principal in (ADA, records.agent(root)):
        assert Counter(_all_pages(partial(list_files, principal, records.rows))) == everything
        assert Counter(_all_pages(partial(browse, "file", principal, records.rows))) == Counter(made)


def _all_pages(ask: Callable[[int], View | Refused]) -> list[object]:
    found: list[object] = []
    after: object = 0
    while isinstance(after, int):
        view = ask(after)
        assert not isinstance(view, Refused)
        found += [one["file"] for one in listed(view, "files")]
        after = view["next"]
    return found
