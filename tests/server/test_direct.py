"""A server beside the agent: in the settings of who holds it; a live agent is told once that it has to be another."""

from __future__ import annotations

from cn.agency.names import Uuid, parse_uuid
from cn.agency.operations import EndAgent, GrantAccess, LeaseAgent, RevokeAccess, SendMail, Wanted
from cn.agency.store.index import Index
from cn.server.direct import SUBJECT, DirectServers
from cn.server.machine_tools import OtherServer
from tests.support.agency import SYSTEM, Records

SERVERS = (
    OtherServer("browser", argv=("npx", "browser-mcp"), env=(("HEADLESS", "1"),), direct=True),
    OtherServer("docs", url="https://docs.example.org/mcp", direct=True),
    OtherServer("gmail", argv=("gmail-mcp",)),
)
FIRST = parse_uuid("11111111-1111-4111-8111-111111111111")
SECOND = parse_uuid("22222222-2222-4222-8222-222222222222")


def _index(records: Records) -> Index:
    """The same state, as a store has it."""
    from cn.agency.apply import apply

    made = Index.in_memory()
    with made.changing():
        for event in records.events:
            apply(made, event)
    return made


def _grant(records: Records, handler: Uuid, resource: str) -> Uuid:
    return parse_uuid(str(records.do(GrantAccess(handler, Wanted(resource, "use")))["grants"][0]))  # type: ignore[index]


def _changed(direct: DirectServers, records: Records) -> list[SendMail]:
    return direct.changed(_index(records))


def test_settings_name_what_is_held_and_nothing_that_stands_behind_us() -> None:
    records = Records()
    handler = records.handler_for("Browse", records.found())
    direct = DirectServers(SERVERS)
    assert direct.settings_of(handler, records.rows) == {}
    for name in ("mcp:browser", "mcp:docs", "mcp:gmail"):
        _grant(records, handler, name)
    assert direct.settings_of(handler, records.rows) == {
        "browser": {"command": "npx", "args": ["browser-mcp"], "env": {"HEADLESS": "1"}},
        "docs": {"type": "http", "url": "https://docs.example.org/mcp", "headers": {}},
    }


def test_a_live_agent_is_told_once_of_what_is_given_and_taken_and_the_next_one_is_not() -> None:
    records = Records()
    handler = records.handler_for("Browse", records.found())
    direct = DirectServers(SERVERS)
    records.do(LeaseAgent(FIRST, handler, "ab" * 32), SYSTEM)
    assert _changed(direct, records) == []
    records.pass_time(seconds=5)
    grant = _grant(records, handler, "mcp:browser")
    (message,) = _changed(direct, records)
    assert (message.to, message.subject) == (handler, SUBJECT)
    assert "given: browser" in message.text
    records.do(message)
    assert _changed(direct, records) == []
    records.do(RevokeAccess(grant))
    (message,) = _changed(direct, records)
    assert "taken: browser" in message.text
    records.do(EndAgent(FIRST, "it saved its state"), SYSTEM)
    records.do(LeaseAgent(SECOND, handler, "cd" * 32), SYSTEM)
    assert _changed(direct, records) == []


def test_a_grant_that_came_while_no_server_ran_is_told_when_one_does() -> None:
    records = Records()
    handler = records.handler_for("Browse", records.found())
    _grant(records, handler, "mcp:docs")
    records.pass_time(seconds=5)
    records.do(LeaseAgent(FIRST, handler, "ab" * 32), SYSTEM)
    records.pass_time(seconds=5)
    _grant(records, handler, "mcp:browser")
    (message,) = _changed(DirectServers(SERVERS), records)
    assert "given: browser)" in message.text
    assert not DirectServers([server for server in SERVERS if not server.direct])
