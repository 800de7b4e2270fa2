"""Tools of a handler's two own files: its audit log, and its state document."""

from __future__ import annotations

from cn.agency.names import Uuid
from cn.agency.operations import SubmitAudit, WriteFile
from cn.agency.plan.result import Refused
from cn.agency.plan.views import LATEST, read_audit
from cn.agency.rows import Facts
from cn.server.parameters import NUMBER, TEXT, UUID, Parameter
from cn.server.tool import (
    BEFORE,
    COUNT,
    ID,
    REQUEST,
    STAMP,
    WORD,
    Call,
    Records,
    Result,
    Tool,
    View,
    an_object,
    answer,
    asks,
    looks,
    several,
)
from cn.server.tools.files import CONTENT, FROM, READ, SEEN, content_of, read_file, seen_of

_WHOSE = Parameter("handler", UUID, "A handler below you; your own if left out")


def _state(call: Call, facts: Facts) -> Uuid | Refused:
    row = facts.handler(call.handler(facts))
    return row.state if row else Refused("known", "there is no such handler", "look at permissions_list")


async def _read(call: Call, records: Records) -> Result | Refused:
    file = await records.look(lambda facts: _state(call, facts), call.principal)
    return file if isinstance(file, Refused) else await read_file(call, records, file)


async def _write(call: Call, records: Records) -> View | Refused:
    file = await records.look(lambda facts: _state(call, facts), call.principal)
    data, seen = content_of(call), seen_of(call)
    for one in (file, data, seen):
        if isinstance(one, Refused):
            return one
    operation = WriteFile(file, data, seen)  # type: ignore[arg-type]
    return await records.perform(operation, call.principal, call.request_id)


AUDIT = (
    Tool(
        "audit_read",
        "Read the audit log",
        "Gives what a handler's agents said of their work, oldest first; 'before' looks further back.",
        (_WHOSE, Parameter("before", NUMBER, "Only entries before this number ('seq')", default=LATEST)),
        an_object(
            {
                "entries": several(
                    an_object({"handler": ID, "seq": COUNT, "actor": WORD, "time": STAMP, "text": WORD})
                ),
                "next": BEFORE,
            },
            ["next"],
        ),
        looks(lambda call, facts: read_audit(call.handler(facts), call.principal, facts, call.arguments["before"])),
        reads=True,
        listed="entries",
    ),
    Tool(
        "audit_submit",
        "Submit an audit entry",
        "Appends what you did, and why, to your handler's audit log. Do it before you end.",
        (Parameter("text", TEXT, "What you did and why", needed=True), REQUEST),
        answer(),
        asks(lambda call: SubmitAudit(call.arguments["text"])),
    ),
    Tool(
        "state_read",
        "Read the state document",
        "Gives what the agent before you left as your handler's state document. Where nobody wrote one, it is refused "
        "as 'not-written', and state_write needs no version.",
        (_WHOSE, FROM),
        READ,
        _read,
        reads=True,
    ),
    Tool(
        "state_write",
        "Write the state document",
        "Writes the state document anew for the agent after you, in place of the version that you saw last.",
        (*CONTENT, *SEEN, REQUEST, _WHOSE),
        answer("file", "version", "hash"),
        _write,
    ),
)
