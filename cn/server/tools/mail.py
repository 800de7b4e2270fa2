"""Tools of mail: between boss and underlings, to oneself, now or later."""

from __future__ import annotations

from datetime import datetime

from cn.agency.names import Party
from cn.agency.operations import FinishMail, SendMail, TakeBackMail
from cn.agency.plan.result import Refused
from cn.agency.plan.views import list_deferred, read_inbox
from cn.agency.rows import Facts
from cn.server.parameters import ARGUMENTS, CURSOR, LINE, NAME, TEXT, UUID, Kind, Parameter, list_of
from cn.server.parameters import PARTY as _PARTY
from cn.server.tool import (
    ID,
    NEXT,
    REQUEST,
    STAMP,
    WORD,
    Call,
    Records,
    Tool,
    View,
    a,
    an_object,
    answer,
    asks,
    looks,
    several,
)
from cn.values.timestamps import StampRefused, parse_until

BOSS = "boss"


def _to(value: object) -> Party:
    return Party(BOSS) if value == BOSS else Party(_PARTY.read(value))


_ADDRESSEE = Parameter(
    "to", Kind(NAME.schema, _to), "The UUID of a handler: an underling or your own; 'boss'; or user:NAME", True
)
_LETTER = (
    Parameter("text", TEXT, "The message; it may name files as kb://UUID", default=""),
    Parameter("file", UUID, "A file of yours that is the message, instead of a text"),
    Parameter("subject", LINE, "Its subject on one line; else the beginning of the text", default=""),
)
_AT = Parameter("at", NAME, "Not before: a time in UTC (2026-02-05T15:00Z), tomorrow, a weekday, or 90m, 12h, 3d", True)


async def _send(call: Call, records: Records) -> View | Refused:
    given = call.arguments
    due: datetime | None = None
    if given.get("at"):
        try:
            due = parse_until(given["at"], call.now)
        except StampRefused as refused:
            return Refused(ARGUMENTS, f"'at': {refused.text}", refused.hint)
    to = await records.look(lambda facts: _addressee(call, facts), call.principal)
    if isinstance(to, Refused):
        return to
    operation = SendMail(to, given["file"], given["subject"], given["text"], due)
    return await records.perform(operation, call.principal, call.request_id)


def _addressee(call: Call, facts: Facts) -> Party | Refused:
    if call.arguments["to"] != BOSS:
        return Party(call.arguments["to"])
    row = facts.handler(call.handler(facts))
    if row is None or row.boss == call.me:
        return Refused("known", "you have no boss", "name a handler")
    return row.boss


def _done(call: Call) -> FinishMail:
    return FinishMail(call.arguments["mail"])


def _inbox(call: Call, facts: Facts) -> View | Refused:
    return read_inbox(call.arguments["handler"] or call.me, call.principal, facts)


def _later(call: Call, facts: Facts) -> View | Refused:
    return list_deferred(call.arguments["handler"] or call.me, call.principal, facts)


def _take_back(call: Call) -> TakeBackMail:
    return TakeBackMail(call.arguments["mail"])


MAIL = (
    Tool(
        "mail_send",
        "Send a message",
        "Delivers a text, or a file of yours, to your boss, an underling, or yourself. Nobody waits for an answer.",
        (_ADDRESSEE, *_LETTER, REQUEST),
        answer("mail"),
        _send,
    ),
    Tool(
        "mail_send_deferred",
        "Send a message later",
        "The same at a later time: a reminder to yourself, say.",
        (_ADDRESSEE, _AT, *_LETTER, REQUEST),
        answer("mail"),
        _send,
    ),
    Tool(
        "mail_deferred",
        "List messages for later",
        "Lists the messages of yours that wait for their time, the earliest first.",
        (Parameter("handler", UUID, "A handler below you; your own if left out"), CURSOR),
        an_object(
            {
                "mail": several(
                    an_object(
                        {
                            "mail": ID,
                            "file": ID,
                            "version": a("integer", "Of the file, which was sent"),
                            "to": WORD,
                            "subject": WORD,
                            "due": STAMP,
                        }
                    )
                ),
                "next": NEXT,
            },
            ["next"],
        ),
        looks(_later),
        reads=True,
        listed="mail",
    ),
    Tool(
        "mail_take_back",
        "Take messages back",
        "Messages of yours that wait for their time are not delivered.",
        (Parameter("mail", list_of(UUID), "The messages, by 'mail' of mail_deferred", needed=True), REQUEST),
        answer("mail"),
        asks(_take_back),
        ends=True,
    ),
    Tool(
        "mail_inbox",
        "Read the inbox",
        "Lists the messages that wait, oldest first; kb_read_version gives the text of one by 'file' and 'version'. "
        "One from 'system' is by Agency itself, about another's work.",
        (Parameter("handler", UUID, "A handler below you; your own if left out"), CURSOR),
        an_object(
            {
                "mail": several(
                    an_object(
                        {
                            "mail": ID,
                            "file": ID,
                            "version": a("integer", "Of the file, which was sent"),
                            "latest": a(
                                "integer", "Of the file, now: what was written after it was sent is not the message"
                            ),
                            "from": WORD,
                            "about": a("string", "Whose work a message from 'system' is about"),
                            "subject": WORD,
                            "time": STAMP,
                            "note": a("string", "Why it came here; empty for what was sent to you"),
                        },
                        ["about"],
                    )
                ),
                "next": NEXT,
            },
            ["next"],
        ),
        looks(_inbox),
        reads=True,
        listed="mail",
    ),
    Tool(
        "mail_done",
        "Finish messages",
        "Says that messages of your inbox have been dealt with.",
        (Parameter("mail", list_of(UUID), "The messages, by 'mail' of mail_inbox", needed=True), REQUEST),
        answer(),
        asks(_done),
        ends=True,
    ),
)
