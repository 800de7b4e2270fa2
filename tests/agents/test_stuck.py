"""When a handler is stuck, and how long it has to wait: tables."""

from datetime import UTC, datetime, timedelta

import pytest

from cn.agency.events import (
    AuditSubmitted,
    Change,
    FileCreated,
    FileRead,
    FileWritten,
    MailDeferred,
    MailDelivered,
    MailDone,
    OutcomeBlocked,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeUnblocked,
)
from cn.agency.names import Party, Uuid
from cn.agency.rows import Mail
from cn.agents.stuck import LONGEST, Past, has_moved, idle_in_a_row, pause_until, wakes

END = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
ID, FILE, HANDLER, STATE, REMINDER, INBOX = (
    Uuid(Party(f"00000000-0000-4000-8000-00000000000{number}")) for number in range(1, 7)
)


def past(*moved: bool) -> list[Past]:
    return [Past(END - timedelta(minutes=number), one) for number, one in enumerate(moved)]


@pytest.mark.parametrize(
    ("moved", "idle", "seconds"),
    [
        ((), 0, None),
        ((True,), 0, None),
        ((False, False), 2, None),
        ((False, False, True, False), 2, None),
        ((False, False, False), 3, 60),
        ((False,) * 4, 4, 120),
        ((False,) * 6, 6, 480),
        ((False,) * 30, 30, LONGEST.total_seconds()),
        ((True, *(False,) * 9), 0, None),
    ],
)
def test_a_row_of_agents_that_changed_nothing_makes_a_pause_that_doubles(
    moved: tuple[bool, ...], idle: int, seconds: float | None
) -> None:
    assert idle_in_a_row(past(*moved)) == idle
    until = pause_until(past(*moved), 60)
    assert until == (None if seconds is None else END + timedelta(seconds=seconds))


def letter(sender: Party, seq: int) -> Mail:
    return Mail(ID, FILE, sender, 1, HANDLER, 1, END, seq, "", pending=True, version=1, letter=False)


@pytest.mark.parametrize(
    ("pending", "wakes_it"),
    [
        ([], False),
        ([letter(STATE, 9)], False),
        ([letter(STATE, 11)], True),
        ([letter(STATE, 9), letter(STATE, 11), letter(STATE, 12)], False),
        ([letter(STATE, 9), letter(INBOX, 11)], True),
        ([letter(HANDLER, 11)], False),
        ([letter(Party("user:ann"), 9), letter(Party("user:ann"), 11)], True),
        ([letter(Party("user:ann"), 9)], False),
    ],
)
def test_a_handlers_messages_end_a_pause_once_until_they_are_dealt_with_and_a_persons_always(
    pending: list[Mail], *, wakes_it: bool
) -> None:
    assert wakes(pending, HANDLER, 10) is wakes_it


def test_what_an_agent_reads_says_or_sends_is_no_step_but_outcomes_mail_that_is_done_and_files_are() -> None:
    message = FileCreated(FILE, "message", "I do not get any further.", HANDLER, 1, "0" * 64, 9, ())
    sent = MailDelivered(ID, FILE, HANDLER, 1, Party("user:ann"), 0)
    inbox = OutcomeCreated(ID, "Process inbox", "", HANDLER, (HANDLER,), "0" * 64, 9, inbox=True)
    later = MailDeferred(ID, FILE, HANDLER, 1, HANDLER, 1, END)
    said: list[Change] = [FileRead(ID, 1), AuditSubmitted(ID, "I looked."), message, sent, inbox, later]
    said += [OutcomeBlocked(ID, "it waits"), OutcomeUnblocked(ID)]
    own = {STATE, REMINDER, INBOX}
    said += [MailDone((REMINDER,)), OutcomeCompleted(INBOX, "", 2, "0" * 64, 9)]
    assert not has_moved([*said, FileWritten(STATE, 2, "0" * 64, 9, ())], own)
    steps: list[Change] = [
        MailDone((REMINDER, ID)),
        OutcomeCompleted(ID, "", 2, "0" * 64, 9),
        OutcomeCreated(ID, "A part", "", HANDLER, (HANDLER,), "0" * 64, 9),
        FileCreated(FILE, "file", "The plan", HANDLER, 1, "0" * 64, 9, ()),
        FileWritten(FILE, 2, "0" * 64, 9, ()),
    ]
    for step in steps:
        assert has_moved([*said, step], own)
