"""Events make the state, and one that does not follow on it is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cn.agency.apply import apply
from cn.agency.events import (
    Change,
    Event,
    EventRefused,
    FileWritten,
    MailDone,
    OutcomesPassed,
    OutcomeUnblocked,
    Revoked,
    answer_of,
    subjects_of,
)
from cn.agency.names import SYSTEM
from cn.agency.operations import CloseOutcome, GrantAccess, RemoveHandler, SendMail, StopHandler, Wanted
from tests.support.agency import Records
from tests.support.agency_memory import Memory

NOTHING = "3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0"


def busy() -> Records:
    """A little of everything."""
    records = Records()
    root = records.found()
    boss = records.handler_for("Boss", root)
    under = records.handler_for("Under", boss)
    records.do(GrantAccess(boss, Wanted("mcp:gmail", "use")))
    records.do(SendMail(under, text="hello"), records.agent(boss))
    records.do(RemoveHandler(boss), records.agent(root))
    records.do(StopHandler(under), records.agent(root))
    records.do(CloseOutcome(under, "no"), records.agent(root))
    return records


def test_the_same_events_make_the_same_rows() -> None:
    records = busy()
    assert records.replayed().rows() == records.rows.rows()


@pytest.mark.parametrize(("gap", "back"), [(0, 0), (2, 0), (-1, 0), (1, 1)])
def test_events_have_numbers_without_gaps_and_times_that_never_go_back(gap: int, back: int) -> None:
    records = busy()
    head = records.rows.head()
    assert head
    event = Event(head.seq + gap, head.time - timedelta(seconds=back), SYSTEM, MailDone(()))
    with pytest.raises(EventRefused, match="does not follow"):
        apply(records.rows, event)


def test_the_first_event_and_no_other_founds() -> None:
    records = busy()
    first = records.events[0]
    with pytest.raises(EventRefused, match="founded"):
        apply(Memory(), first._replace(change=MailDone(())))
    with pytest.raises(EventRefused, match="founded"):
        apply(records.rows, first._replace(seq=len(records.events) + 1, time=records.now))


def _about(root: str) -> list[Change]:
    from cn.agency.names import Party, Uuid

    nothing, top = Uuid(Party(NOTHING)), Uuid(Party(root))
    return [
        OutcomeUnblocked(nothing),
        OutcomesPassed(nothing, ()),
        OutcomesPassed(top, (nothing,)),
        Revoked(nothing),
        FileWritten(nothing, 2, "0" * 64, 0, ()),
        MailDone((nothing,)),
    ]


@pytest.mark.parametrize("number", range(6))
def test_an_event_about_what_is_not_there_is_refused(number: int) -> None:
    records = busy()
    head = records.rows.head()
    assert head
    with pytest.raises(EventRefused, match="not there"):
        apply(records.rows, Event(head.seq + 1, head.time, SYSTEM, _about(head.root)[number]))


def test_the_history_of_each_thing_has_every_event_that_names_it() -> None:
    records = busy()
    for event in records.events:
        for subject in subjects_of(event.change):
            assert event in records.rows.history(subject, 10**9, 10**9)


def test_an_answer_follows_from_its_changes_alone() -> None:
    records = Records()
    root = records.found()
    planned = records.ask(CloseOutcome(root, "x"), records.agent(root))
    assert getattr(planned, "rule", "") == "perpetual-root"
    assert answer_of([event.change for event in records.events])["outcome"] == root
