"""A plan can be printed before it is executed, without a checkmark."""

from __future__ import annotations

import pytest

from cn.protocol.effects import (
    Advance,
    Archive,
    CleanUp,
    Drop,
    Edit,
    Effect,
    Keep,
    Log,
    Move,
    Offer,
    Pin,
    Plan,
    Post,
    Put,
    Record,
    Wake,
    Withhold,
    WorkingCopy,
    WriteHere,
    describe,
)
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, Event
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.outbox_entry import Propose, Remove
from cn.values.names import HubPath, Oid, parse_branch, parse_name
from cn.values.timestamps import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
HEAD = Oid("3f2a9c1e" * 5)
AT = parse_stamp("2026-02-05T15:00Z")

MOVED = "move logs/output/x.md to logs/output/2026/x.md"
EFFECTS: list[tuple[Effect, str]] = [
    (Put(HubPath("threads/inbox/x.md"), "text"), "write threads/inbox/x.md"),
    (Drop(HubPath("threads/inbox/x.md")), "remove threads/inbox/x.md"),
    (Log(Row(AT, "pi/x", "do:merge", "✓ merged 1a2b3c4")), "log pi/x | do:merge | merged 1a2b3c4"),
    (Record(PI, Event(AT, IN, "received", "x", HEAD)), "record pi in received x 3f2a9c1e"),
    (Advance(HEAD, "pi/x"), "merge pi/x (as a commit such as 3f2a9c1e)"),
    (Post(Message(MESSAGE, SIGMA, PI, "Hello", AT), "re-x"), "send message to pi on sigma/re-x: Hello"),
    (Offer(Propose(PI, parse_branch("sigma/x"), HEAD, AT), HEAD), "push 3f2a9c1e to pi as sigma/x"),
    (
        CleanUp(Remove(PI, parse_branch("sigma/x"), HEAD, AT, "done")),
        "delete our branch sigma/x at pi if it is still 3f2a9c1e",
    ),
    (Archive(HubPath("logs/output/x.md"), b"raw"), "archive logs/output/x.md"),
    (Edit(HubPath("state/peers.md"), b"text"), "commit its 4 bytes"),
    (Edit(HubPath("state/peers.md"), None), "commit its deletion"),
    (Edit(HubPath("state/peers.md"), b"text", "add to state/peers.md"), "add to state/peers.md"),
    (Move(HubPath("logs/output/x.md"), HubPath("logs/output/2026/x.md")), MOVED),
    (WorkingCopy(HubPath("threads/inbox/x.md"), b"x"), "use threads/inbox/x.md as it is here"),
    (WriteHere(HubPath("state/input.md"), b"text"), "write state/input.md on this machine"),
    (WriteHere(HubPath("state/output.md"), None, b"x"), "remove state/output.md on this machine"),
    (Withhold(HubPath("threads/inbox/x.md"), b"x"), "keep the whole of threads/inbox/x.md on this machine"),
    (Pin(PI, IN, "x", HEAD), "pin pi in x at 3f2a9c1e"),
    (Pin(PI, IN, "x", None), "unpin pi in x"),
    (Keep(HEAD), "keep 3f2a9c1e reachable"),
    (Wake("x.md"), "wake the agent for x.md"),
]


@pytest.mark.parametrize(("effect", "line"), EFFECTS)
def test_an_effect_in_one_line(effect: Effect, line: str) -> None:
    assert describe(effect) == line
    assert "✓" not in describe(effect)


def test_every_effect_is_described() -> None:
    assert {type(effect) for effect, _ in EFFECTS} == set(Effect.__args__)


def test_a_plan_may_be_empty() -> None:
    assert Plan("pi/x").effects == ()
