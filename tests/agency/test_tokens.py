"""A token is one live agent's: nobody else's, and nobody's once that agent has ended."""

from __future__ import annotations

from cn.agency.names import Uuid, parse_uuid
from cn.agency.operations import ByHandler, CreateFile, EndAgent, LeaseAgent, StopHandler
from cn.agency.tokens import hash_token, new_token, principal_of_token
from tests.support.agency import SYSTEM, Records

FIRST = "11111111-1111-4111-8111-111111111111"
SECOND = "22222222-2222-4222-8222-222222222222"


def _leased(agent: str = FIRST) -> tuple[Records, Uuid, str]:
    records = Records()
    handler = records.handler_for("Build it", records.found())
    token = new_token()
    records.do(LeaseAgent(parse_uuid(agent), handler, hash_token(token)), SYSTEM)
    return records, handler, token


def test_a_token_is_its_agents_and_no_other_text_is() -> None:
    records, handler, token = _leased()
    assert principal_of_token(token, records.rows) == ByHandler(handler, 1, FIRST)
    for other in ("", new_token(), token.upper() + "0", hash_token(token), token[:-1], "\udc80"):
        assert principal_of_token(other, records.rows) is None


def test_it_dies_with_its_agent_also_where_the_handler_ends() -> None:
    records, handler, token = _leased()
    records.do(EndAgent(parse_uuid(FIRST), "it was silent"), SYSTEM)
    assert principal_of_token(token, records.rows) is None
    again = new_token()
    records.do(LeaseAgent(parse_uuid(SECOND), handler, hash_token(again)), SYSTEM)
    assert principal_of_token(token, records.rows) is None
    records.do(StopHandler(handler))
    assert principal_of_token(again, records.rows) is None


def test_what_an_agent_asked_before_it_ended_is_refused_after() -> None:
    records, _, token = _leased()
    principal = principal_of_token(token, records.rows)
    assert principal
    records.do(CreateFile("What I found", b"x"), principal)
    records.do(EndAgent(parse_uuid(FIRST), "it was silent"), SYSTEM)
    refused = records.no(CreateFile("What I found", b"x"), principal)
    assert (refused.rule, refused.reason) == ("active-handler", f"agent {FIRST} has ended")
