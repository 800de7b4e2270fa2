"""Mail: from boss to underling and back, now and later; nothing that was sent is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cn.agency.apply import apply
from cn.agency.events import MailDeferred, MailDelivered
from cn.agency.names import Party, Uuid
from cn.agency.operations import (
    ByHandler,
    ByUser,
    DeliverDue,
    EndAgent,
    FinishMail,
    LeaseAgent,
    MoveHandler,
    Principal,
    ReadFile,
    Seen,
    SendMail,
    StopHandler,
    TakeBackMail,
    WriteFile,
)
from cn.agency.plan.result import Refused
from cn.agency.plan.shown import Shown
from cn.agency.plan.structure import is_workable
from cn.agency.plan.views import file_audit, list_deferred, list_files, read_inbox
from cn.agency.rows import Mail
from tests.support.agency import SYSTEM, Records, listed
from tests.support.agency_memory import Memory

AGENT = Uuid(Party("00000000-0000-4000-8000-0000000000a1"))


class Pair(Records):
    """Root and boss."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self.found()
        self.boss = self.handler_for("Boss", self.root)

    def send(self, by: Uuid, to: Party, text: str = "hello", days: int = 0) -> Uuid:
        """A message; its id."""
        due = self.now + timedelta(days=days) if days else None
        mail = self.do(SendMail(to, text=text, due=due), self.agent(by))["mail"]
        assert isinstance(mail, list)
        return Uuid(Party(mail[0]))

    def deliver(self, mail: Uuid) -> Mail:
        """What is due."""
        self.do(DeliverDue(mail), SYSTEM)
        found = self.rows.mail(mail)
        assert found
        return found


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_text_becomes_a_file_that_its_addressee_reads(pair: Pair) -> None:
    mail = pair.rows.mail(pair.send(pair.root, pair.boss, "Read kb://x"))
    assert mail
    file = pair.rows.file(mail.file)
    assert file
    assert (file.kind, file.owner, file.description) == ("message", pair.root, "Read kb://x")
    assert pair.contents[file.hash] == b"Read kb://x"
    assert pair.do(ReadFile(file.id), pair.agent(pair.boss))["version"] == 1


def test_a_file_of_ones_own_is_sent_and_then_read_by_its_addressee(pair: Pair) -> None:
    file = pair.file(pair.agent(pair.root))
    row, by = pair.rows.file(file), pair.agent(pair.boss)
    assert row
    seen = Seen(1, row.hash)
    assert pair.no(ReadFile(file), by).rule == "access"
    pair.do(SendMail(pair.boss, file), pair.agent(pair.root))
    assert pair.do(ReadFile(file), by)["version"] == 1
    assert pair.no(WriteFile(file, b"mine", seen), by).rule == "access"
    (told,) = [one for one in listed(list_files(by, pair.rows), "files") if one["file"] == file]
    assert (told["description"], told["access"]) == ("A file", "read")
    pair.do(WriteFile(file, b"again", seen), pair.agent(pair.root))
    audit = listed(file_audit(file, by, pair.rows), "events")
    assert [one["type"] for one in audit] == ["file_created", "file_read", "file_written"]


def test_what_somebody_else_owns_is_granted_not_sent(pair: Pair) -> None:
    under = pair.handler_for("Under", pair.boss)
    file = pair.file(pair.agent(under))
    assert pair.level(pair.root, f"kb:{file}") == "read"
    assert pair.no(SendMail(pair.boss, file), pair.agent(pair.root)).rule == "own-file"
    assert pair.no(SendMail(pair.boss, pair.boss), pair.agent(pair.root)).rule == "own-file"
    assert pair.no(SendMail(pair.boss, file, text="both"), pair.agent(pair.root)).rule == "words"
    assert pair.no(SendMail(pair.boss, text=" "), pair.agent(pair.root)).rule == "words"


def test_nobody_mails_past_its_boss_or_its_direct_underlings(pair: Pair) -> None:
    under, beside = pair.handler_for("Under", pair.boss), pair.handler_for("Beside", pair.boss)
    for by, to in ((under, pair.root), (pair.root, under), (under, beside), (pair.boss, Party("user:ada"))):
        refused = pair.no(SendMail(to, text="psst"), pair.agent(Uuid(by)))
        assert (refused.rule, refused.ask) == ("access", pair.handler(Uuid(by)).boss)


def test_a_user_mails_any_handler_and_the_root_handler_mails_the_user(pair: Pair) -> None:
    under = pair.handler_for("Under", pair.boss)
    pair.do(SendMail(under, text="how is it going?"))
    assert [mail.sender for mail in pair.rows.pending(under)] == ["user:ada"]
    pair.send(pair.root, Party("user:ada"), "It is done.")
    assert [mail.sender for mail in pair.rows.pending(Party("user:ada"))] == [pair.root]
    assert pair.no(SendMail(Party("user:cto"), text="x")).rule == "access"


def test_mail_makes_one_workable_outcome_that_completes_when_nothing_is_pending(pair: Pair) -> None:
    first, second = pair.send(pair.root, pair.boss), pair.send(pair.root, pair.boss)
    inbox = pair.rows.open_inbox(pair.boss)
    assert inbox
    assert is_workable(pair.row(inbox), pair.rows, pair.now)
    assert sum(1 for row in pair.rows.rows().values() for one in row.values() if getattr(one, "inbox", False)) == 1
    pair.do(FinishMail((first,)), pair.agent(pair.boss))
    assert pair.rows.open_inbox(pair.boss) == inbox
    pair.do(FinishMail((second,)), pair.agent(pair.boss))
    assert (pair.rows.open_inbox(pair.boss), pair.row(inbox).status) == (None, "completed")
    pair.send(pair.root, pair.boss)
    assert pair.rows.open_inbox(pair.boss) != inbox


def test_a_message_is_pending_until_its_addressee_says_that_it_is_done(pair: Pair) -> None:
    mail = pair.send(pair.root, pair.boss)
    assert pair.no(FinishMail((mail,)), pair.agent(pair.root)).rule == "known"
    pair.do(FinishMail((mail, mail)), pair.agent(pair.boss))
    assert pair.no(FinishMail((mail,)), pair.agent(pair.boss)).rule == "known"
    assert pair.no(FinishMail(()), pair.agent(pair.boss)).rule == "words"


def test_one_sender_fills_no_inbox_neither_now_nor_later(pair: Pair) -> None:
    pair.limits = pair.limits._replace(unread=3)
    by, file = pair.agent(pair.boss), pair.file(pair.agent(pair.boss))
    mail = pair.send(pair.boss, pair.root, "one")
    pair.send(pair.boss, pair.root, "two", days=1)
    pair.send(pair.boss, pair.root, "three", days=2)
    refused = pair.no(SendMail(pair.root, text="four"), by)
    assert refused.rule == "limit-unread"
    assert refused.reason.startswith(f"3 messages of yours to {pair.root} wait")
    assert pair.no(SendMail(pair.root, text="five", due=pair.now + timedelta(days=3)), by).rule == "limit-unread"
    assert pair.no(SendMail(pair.root, file=file), by).rule == "limit-unread"
    pair.do(SendMail(pair.boss, text="to another"), by)
    pair.do(SendMail(pair.root, text="a user's"))
    other = pair.handler_for("Other", pair.root)
    pair.send(other, pair.root, "another's")
    pair.do(FinishMail((mail,)), pair.agent(pair.root))
    pair.send(pair.boss, pair.root, "four")


def test_a_deferred_message_is_delivered_when_it_is_due_also_to_oneself(pair: Pair) -> None:
    mail = pair.send(pair.boss, pair.boss, "look again", days=3)
    assert pair.no(SendMail(pair.boss, text="x", due=pair.now), pair.agent(pair.boss)).rule == "time-to-come"
    assert not pair.rows.pending(pair.boss)
    assert pair.no(DeliverDue(mail), SYSTEM).rule == "not-due"
    pair.pass_time(days=3)
    assert [one.id for one in pair.rows.due(pair.now, 9)] == [mail]
    assert pair.no(DeliverDue(mail), pair.agent(pair.boss)).rule == "access"
    assert pair.deliver(mail).to == pair.boss
    assert pair.rows.open_inbox(pair.boss)
    assert pair.no(DeliverDue(mail), SYSTEM).rule == "known"


def test_a_deferred_message_that_may_not_be_sent_any_more_goes_back(pair: Pair) -> None:
    other, under = pair.handler_for("Other", pair.root), pair.handler_for("Under", pair.boss)
    mail = pair.send(pair.boss, under, days=1)
    pair.do(MoveHandler(under, other))
    pair.pass_time(days=1)
    delivered = pair.deliver(mail)
    assert delivered.to == pair.boss
    assert "could not be delivered" in delivered.note


@pytest.mark.parametrize("gone", ["boss", "under"])
def test_what_was_for_or_by_somebody_who_is_no_more_goes_to_who_took_over(pair: Pair, gone: str) -> None:
    under = pair.handler_for("Under", pair.boss)
    mail = pair.send(pair.boss, under, days=1)
    ended, by = (pair.boss, pair.root) if gone == "boss" else (under, pair.boss)
    pair.do(StopHandler(ended), pair.agent(by))
    pair.pass_time(days=1)
    delivered = pair.deliver(mail)
    assert delivered.to == by
    assert "whose tenure is over" in delivered.note


def test_a_reminder_of_a_former_tenure_does_not_reach_the_next_one(pair: Pair) -> None:
    mail = pair.send(pair.boss, pair.boss, days=1)
    pair.do(StopHandler(pair.boss), pair.agent(pair.root))
    pair.delegate(pair.boss, pair.agent(pair.root))
    pair.pass_time(days=1)
    assert pair.deliver(mail).to == pair.root


def test_nobody_mails_a_handler_that_is_no_more_or_as_one(pair: Pair) -> None:
    pair.do(StopHandler(pair.boss), pair.agent(pair.root))
    assert pair.no(SendMail(pair.boss, text="x"), pair.agent(pair.root)).rule == "known"
    assert pair.no(SendMail(pair.root, text="x"), ByHandler(pair.boss, 1, "user:ada")).rule == "active-handler"


def test_nobody_writes_over_a_message(pair: Pair) -> None:
    mail = pair.rows.mail(pair.send(pair.boss, pair.root, "I tidied up. Nothing to decide."))
    assert mail
    file = pair.rows.file(mail.file)
    assert file
    for by in (pair.agent(pair.boss), pair.agent(pair.root), ByUser("ada")):
        refused = pair.no(WriteFile(file.id, b"I will delete all unless you say no.", Seen(1, file.hash)), by)
        assert (refused.rule, file.id in refused.reason) == ("own-tool", True)
    assert pair.level(pair.boss, f"kb:{file.id}") == "read"


def test_a_letter_of_agency_is_from_it_and_not_from_whom_it_is_about(pair: Pair) -> None:
    pair.do(LeaseAgent(AGENT, pair.boss, "0" * 64), SYSTEM)
    pair.do(EndAgent(AGENT, "silent", "It was silent.", "Agent ended"), SYSTEM)
    (letter,) = listed(read_inbox(pair.root, pair.agent(pair.root), pair.rows), "mail")
    assert (letter["from"], letter["about"], letter["version"]) == ("system", pair.boss, 1)
    row = pair.rows.file(Uuid(Party(str(letter["file"]))))
    assert row
    forged = WriteFile(row.id, b"All is well.", Seen(1, row.hash))
    assert pair.no(forged, pair.agent(pair.boss)).rule == "own-tool"
    pair.limits = pair.limits._replace(unread=1)
    pair.send(pair.boss, pair.root, "It was silent.")  # what Agency said is none of its own messages
    assert [one["from"] for one in listed(read_inbox(pair.root, pair.agent(pair.root), pair.rows), "mail")] == [
        "system",
        pair.boss,
    ]


@pytest.mark.parametrize("days", [0, 1])
def test_what_was_sent_is_the_version_of_then_whatever_is_written_later(pair: Pair, days: int) -> None:
    by, file = pair.agent(pair.boss), pair.file(pair.agent(pair.boss), b"as sent")
    row = pair.rows.file(file)
    assert row
    due = pair.now + timedelta(days=days) if days else None
    pair.do(SendMail(pair.root, file, due=due), by)
    pair.do(WriteFile(file, b"another", Seen(1, row.hash)), by)
    pair.pass_time(days=days)
    for waiting in pair.rows.due(pair.now, 9):
        pair.deliver(waiting.id)
    (letter,) = listed(read_inbox(pair.root, pair.agent(pair.root), pair.rows), "mail")
    assert (letter["version"], letter["latest"]) == (1, 2)
    pair.do(SendMail(pair.root, file), by)  # another version is another message
    assert pair.no(SendMail(pair.root, file), by).rule == "said-already"


def test_old_records_that_name_no_version_show_what_was_sent_all_the_same(pair: Pair) -> None:
    by, file = pair.agent(pair.boss), pair.file(pair.agent(pair.boss), b"as sent")
    row = pair.rows.file(file)
    assert row
    pair.do(SendMail(pair.root, file, due=pair.now + timedelta(days=1)), by)
    pair.do(SendMail(pair.root, file), by)
    pair.do(WriteFile(file, b"another", Seen(1, row.hash)), by)
    pair.do(LeaseAgent(AGENT, pair.boss, "0" * 64), SYSTEM)
    pair.do(EndAgent(AGENT, "silent", "It was silent.", "Agent ended"), SYSTEM)
    pair.pass_time(days=1)
    for waiting in pair.rows.due(pair.now, 9):
        pair.deliver(waiting.id)
    old = Memory()
    for event in pair.events:
        change = event.change
        if isinstance(change, MailDelivered):
            change = replace(change, version=0, letter=False)
        elif isinstance(change, MailDeferred):
            change = replace(change, version=0)
        apply(old, event._replace(change=change))
    assert old.pending(pair.root) == pair.rows.pending(pair.root)
    assert [(one.version, one.letter) for one in old.pending(pair.root)] == [(1, False), (1, True), (1, False)]


def test_what_waits_for_its_time_is_listed_and_taken_back_by_whose_it_is_or_who_is_above(pair: Pair) -> None:
    under, beside = pair.handler_for("Under", pair.boss), pair.handler_for("Beside", pair.boss)
    mail = [pair.send(under, pair.boss, f"{days}", days=days) for days in (3, 1, 2)]
    for one in (pair.agent(under), pair.agent(pair.boss), ByUser("ada")):
        (first, second, third) = listed(list_deferred(under, one, pair.rows), "mail")
        assert [first["mail"], second["mail"], third["mail"]] == [mail[1], mail[2], mail[0]]
        assert (first["to"], first["subject"], first["version"]) == (pair.boss, "1", 1)
    assert pair.no(TakeBackMail((mail[0],)), pair.agent(beside)).rule == "known"
    assert pair.no(TakeBackMail(()), pair.agent(under)).rule == "words"
    assert isinstance(list_deferred(under, pair.agent(beside), pair.rows), Refused)
    who: tuple[Principal, ...] = (pair.agent(under), pair.agent(pair.root), ByUser("ada"))
    for id, by in zip(mail, who, strict=True):
        assert pair.do(TakeBackMail((id, id)), by)["mail"] == [id]
        assert pair.no(TakeBackMail((id,)), by).rule == "known"
    pair.pass_time(days=4)
    assert not pair.rows.due(pair.now, 9)


def test_what_waits_of_a_handler_that_ended_is_listed_for_who_has_what_it_left(pair: Pair) -> None:
    under = pair.handler_for("Under", pair.boss)
    mail = pair.send(under, pair.boss, "later", days=1)
    for ending in (under, pair.boss):
        pair.do(StopHandler(ending), ByUser("ada"))
        (row,) = listed(
            list_deferred(pair.root if ending == pair.boss else pair.boss, ByUser("ada"), pair.rows), "mail"
        )
        assert row["mail"] == mail
    assert listed(list_deferred(pair.root, pair.agent(pair.root), pair.rows), "mail") == [row]
    assert pair.do(TakeBackMail((mail,)), pair.agent(pair.root))["mail"] == [mail]
    assert listed(list_deferred(pair.root, pair.agent(pair.root), pair.rows), "mail") == []


def test_another_tenure_is_a_stranger_to_what_the_one_before_sent(pair: Pair) -> None:
    mail = pair.send(pair.boss, pair.root, "later", days=1)
    pair.send(pair.boss, pair.root, "now")
    assert pair.no(SendMail(pair.root, text="now"), pair.agent(pair.boss)).rule == "said-already"
    pair.do(StopHandler(pair.boss), pair.agent(pair.root))
    pair.delegate(pair.boss, pair.agent(pair.root))
    by = pair.agent(pair.boss)
    assert listed(list_deferred(pair.boss, by, pair.rows), "mail") == []
    assert pair.no(TakeBackMail((mail,)), by).rule == "known"
    assert not [
        event
        for event in pair.events
        if event.tenure == 1 and event.actor.startswith(pair.boss) and Shown(by, pair.rows).sees(event)
    ]
    pair.send(pair.boss, pair.root, "now")
    assert pair.no(SendMail(pair.root, text="now"), by).rule == "said-already"


def test_messages_for_later_close_no_way_for_good(pair: Pair) -> None:
    pair.limits = pair.limits._replace(unread=2)
    by = pair.agent(pair.boss)
    later = [pair.send(pair.boss, pair.root, f"{days}", days=days) for days in (9000, 9001)]
    refused = pair.no(SendMail(pair.root, text="urgent"), by)
    assert "2 of them for their time" in refused.reason
    assert "take back" in refused.remedy
    pair.do(TakeBackMail((later[0],)), by)
    pair.send(pair.boss, pair.root, "urgent")
    assert pair.no(SendMail(pair.root, text="more"), by).rule == "limit-unread"
    pair.do(StopHandler(pair.boss), pair.agent(pair.root))
    pair.delegate(pair.boss, pair.agent(pair.root))
    pair.send(pair.boss, pair.root, "another tenure begins at nothing")
