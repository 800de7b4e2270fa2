"""Tools of permissions and of who stands where: capabilities, delegation, stop, layers."""

from __future__ import annotations

from dataclasses import replace

from cn.agency.names import Uuid
from cn.agency.operations import (
    ByHandler,
    Delegate,
    GrantAccess,
    MoveHandler,
    Operation,
    RemoveHandler,
    RevokeAccess,
    StopHandler,
    Wanted,
)
from cn.agency.plan.result import Refused
from cn.agency.plan.views import list_permissions
from cn.agency.rows import Facts
from cn.agents.choice import runner_for_underling
from cn.agents.machine import Machine
from cn.server.parameters import GRANT, NAME, PARTY, RESOURCE, TEXT, UUID, Parameter, list_of
from cn.server.tool import (
    COUNT,
    FLAG,
    ID,
    IDS,
    REQUEST,
    STAMP,
    WORD,
    Call,
    Records,
    Tool,
    View,
    an_object,
    answer,
    asks,
    looks,
    several,
)

_HANDLER = Parameter("handler", UUID, "The UUID of the handler", needed=True)
_CAPABILITY = an_object(
    {
        "id": ID,
        "seq": COUNT,
        "holder": ID,
        "holder_tenure": COUNT,
        "grantor": WORD,
        "grantor_tenure": COUNT,
        "resource": WORD,
        "level": WORD,
        "scope": {**ID, "description": "The outcome with which it ends"},
        "time": STAMP,
        "effective": FLAG,
    }
)


def _delegate(call: Call) -> Delegate:
    given = call.arguments
    return Delegate(Uuid(given["outcome"]), given["runner"], given["grants"], given["message"])


def delegate_with(machine: Machine) -> Tool:
    """Delegation, whose runners are those that an agent may name on this machine; the user may name any."""

    async def run(call: Call, records: Records) -> View | Refused:
        principal, operation = call.principal, _delegate(call)
        if isinstance(principal, ByHandler):
            wanted = call.arguments["runner"]
            found = await records.look(lambda facts: _runner(machine, principal, wanted, facts), principal)
            if isinstance(found, Refused):
                return found
            operation = replace(operation, runner=found)
        return await records.perform(operation, principal, call.request_id)

    return Tool(
        "delegate",
        "Delegate an outcome",
        "Gives an outcome of yours a handler of its own, which is responsible for all below it from then on. Grant "
        "what it will need, and no more.",
        (
            Parameter("outcome", UUID, "The UUID of the outcome", needed=True),
            Parameter("message", TEXT, "A first message to the new handler", default=""),
            Parameter("grants", list_of(GRANT), "Capabilities for it", default=()),
            Parameter(
                "runner", NAME, "What works for it: yours if left out, 'person', or one that you may name", default=""
            ),
            REQUEST,
        ),
        answer("handler"),
        run,
    )


def _runner(machine: Machine, principal: ByHandler, wanted: str, facts: Facts) -> str | Refused:
    row = facts.handler(principal.handler)
    return runner_for_underling(machine, row, wanted) if row else wanted


def _grant(call: Call) -> Operation:
    given = call.arguments
    return GrantAccess(Uuid(given["holder"]), Wanted(given["resource"], given["level"], given["scope"]))


def _move(call: Call) -> Operation:
    return MoveHandler(Uuid(call.arguments["handler"]), call.arguments["boss"], call.arguments["below"])


_CAPABILITIES = (
    Tool(
        "permissions_list",
        "List permissions",
        "Lists the capabilities that a handler holds and gave, its boss and its underlings.",
        (Parameter("handler", UUID, "A handler below you; your own if left out"),),
        an_object({"held": several(_CAPABILITY), "given": several(_CAPABILITY), "boss": WORD, "underlings": IDS}),
        looks(lambda call, facts: list_permissions(call.handler(facts), call.principal, facts)),
        reads=True,
    ),
    Tool(
        "permissions_grant",
        "Grant a permission",
        "Lets an underling of yours do what you may do yourself, at most as much, until an outcome ends.",
        (
            Parameter("holder", UUID, "The underling", needed=True),
            Parameter("resource", RESOURCE, "kb:UUID, outcome:UUID, mcp:SERVER or repo:NAME", needed=True),
            Parameter("level", NAME, "kb, outcome: read, write; mcp: use; repo: clone, push", needed=True),
            Parameter("scope", UUID, "The outcome with which it ends; the underling's root if left out"),
            REQUEST,
        ),
        answer("grants"),
        asks(_grant),
    ),
    Tool(
        "permissions_revoke",
        "Revoke a permission",
        "Takes a capability back, and with it all that was granted on its ground.",
        (Parameter("grant", UUID, "The capability, by 'id' of permissions_list", needed=True), REQUEST),
        answer("grants"),
        asks(lambda call: RevokeAccess(Uuid(call.arguments["grant"]))),
        ends=True,
    ),
)
_HANDLERS = (
    Tool(
        "handler_stop",
        "Stop an underling",
        "Ends an underling and all below it, for the last resort; their open outcomes are yours again.",
        (_HANDLER, REQUEST),
        answer("handler"),
        asks(lambda call: StopHandler(Uuid(call.arguments["handler"]))),
        ends=True,
    ),
    Tool(
        "handler_remove",
        "Remove a layer",
        "Ends one underling alone: its outcomes, its underlings and what it granted are yours.",
        (_HANDLER, REQUEST),
        answer("handler"),
        asks(lambda call: RemoveHandler(Uuid(call.arguments["handler"]))),
        ends=True,
    ),
    Tool(
        "handler_move",
        "Move a handler",
        "Gives a handler below you another boss below you, whose work it serves from then on.",
        (
            _HANDLER,
            Parameter("boss", PARTY, "The new boss", needed=True),
            Parameter("below", UUID, "The outcome of the new boss that it serves; the boss's root if left out"),
            REQUEST,
        ),
        answer(),
        asks(_move),
    ),
)


def permission_tools(machine: Machine) -> tuple[Tool, ...]:
    """All of them."""
    return (*_CAPABILITIES, delegate_with(machine), *_HANDLERS)
