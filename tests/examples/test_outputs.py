"""Ops and outputs as they are taught: each example read and planned as it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from cn.agent.plan.chat import ChatFacts, chat_text_of
from cn.agent.plan.ops import Order, check_output, plan_order
from cn.agent.plan.output import parse_output
from cn.inbox.plan.decisions import Facts
from cn.protocol.effects import Log, Plan, Post, Put, Record
from cn.protocol.ops import Ack, Defer, Delegate, Delete, Done, Fail, Op, Reply, Send, Surface, op_key, parse_op
from cn.protocol.queue_item import Turn
from cn.protocol.states import ACTOR, Actor, InvalidTransition
from cn.values.names import HubPath
from tests.agent.test_ops_corpus import ASKED, CONFIG, ITEM, NOW, PEERS, PI, SIGMA, TEXT

OPS: list[tuple[str, Op]] = [
    ("ack: <input-id>", Ack("<input-id>")),
    ("done: <id>", Done("<id>")),
    ("fail: <id>|<reason>", Fail("<id>", "<reason>")),
    ("fail: review-123|missing context", Fail("review-123", "missing context")),
    ("reply: <thread-id>|<message>", Reply("<thread-id>", "<message>")),
    ("send: <peer>|<message>", Send("<peer>", "<message>")),
    ("send: <peer>|<message>|<body>", Send("<peer>", "<message>", "<body>")),
    ("delegate: <thread-id>|<peer>", Delegate("<thread-id>", "<peer>")),
    ("defer: <id>", Defer("<id>")),
    ("defer: <id>|<until>", Defer("<id>", "<until>")),
    ("delete: <id>", Delete("<id>")),
    ("surface: <description>", Surface("<description>")),
    ("mca: <description>", Surface("<description>")),
]

REVIEW = """\
---
id: review-pi-proposal
done: review-pi-proposal
surface: Add retry logic to wake mechanism
---

# Review Complete

Reviewed Pi's proposal. Approved with minor suggestions.

The wake mechanism could use retry logic - surfacing as MCA.
"""

PLAN = """\
---
id: 20260219-141209-abc123
reply: 20260219-141209-abc123|Got it, reviewing now
surface: Add retry logic to wake mechanism
---

Got it. Here's what I'll do next:

1. Review the design doc changes
2. Check alignment with the protocol spec
3. Flag any gaps

I'll have this done by end of day.
"""

ANALYSIS = """\
---
id: trigger-123
reply: trigger-123|Here's my analysis
---

I looked at the three design docs you mentioned. Here are my findings:

1. The protocol spec is internally consistent
2. The security model needs one update (see below)
3. The logging doc matches the implementation

## Security Model Gap

The SECURITY-MODEL.md still references the old tool boundary...
"""


@dataclass(frozen=True)
class Example:
    """An output, the rows of the log that it comes to for a peer's message, what becomes of it, what a chat gets."""

    text: str
    id: str
    rows: tuple[tuple[str, str], ...]
    status: str
    begins: str


SURFACED = ("surface:Add retry logic to wake mechanism", "✓ opened")
OUTPUTS = {
    # "done" is logged before "surface", as it is listed.
    "review": Example(REVIEW, "review-pi-proposal", (("done", "✓ done"), SURFACED), "done", "# Review Complete"),
    "plan": Example(
        PLAN,
        "20260219-141209-abc123",
        (("do:reply:re-proposal", "queued"), SURFACED),
        "replied",
        "Got it. Here's what I'll do next:",
    ),
    "analysis": Example(
        ANALYSIS, "trigger-123", (("do:reply:re-proposal", "queued"),), "replied", "I looked at the three design docs"
    ),
}


@pytest.mark.parametrize(("line", "op"), OPS)
def test_each_line_is_its_op(line: str, op: Op) -> None:
    key, _, value = line.partition(": ")
    assert parse_op(op_key(key) or "", value) == op


def read(example: Example) -> Order:
    """Ids are cn's own; that of the example stands for the input's."""
    output = parse_output(example.text.encode())
    assert check_output(output, example.id) == []
    return Order(SIGMA, frozenset({example.id}), output.ops, output.body, example.id)


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_op_is_a_row_in_the_order_listed_and_the_thread_ends(name: str) -> None:
    example = OUTPUTS[name]
    plan = plan_order(Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT), read(example))
    assert isinstance(plan, Plan)
    assert tuple((e.row.decision, e.row.executed) for e in plan.effects if isinstance(e, Log)) == example.rows
    assert [e.event.fields["status"] for e in plan.effects if isinstance(e, Record)] == [example.status]
    told = [e.message for e in plan.effects if isinstance(e, Post) and e.message.about]
    assert [message.to for message in told] == [PI]
    if example.status == "replied":  # the body, not the line of the op, which becomes the subject
        assert told[0].body.startswith(example.begins)
        assert told[0].subject == read(example).ops[0].message  # type: ignore[union-attr]


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_chat_gets_the_body(name: str) -> None:
    example = OUTPUTS[name]
    asked = replace(ASKED, sender="telegram:498316684", path=HubPath(""), topic="", head="")
    plan = plan_order(ChatFacts(CONFIG, PEERS, asked, NOW, "machine"), read(example))
    assert isinstance(plan, Plan)
    assert chat_text_of(plan.effects).startswith(example.begins)


BODIES = [
    # ops, body, whom, what is sent
    ("reply: ID|msg", "body", "body"),
    ("reply: ID|msg", "", "msg"),
    ("send: rho|msg|third", "body", "third"),
    ("send: rho|msg", "body", "body"),
    ("send: rho|msg", "", "msg"),
]


@pytest.mark.parametrize(("op", "body", "sent"), BODIES)
def test_the_body_is_used_by_these_rules(op: str, body: str, sent: str) -> None:
    output = parse_output(f"---\nid: {ASKED.id}\n{op.replace('ID', ASKED.id)}\n---\n{body}\n".encode())
    order = Order(SIGMA, ASKED.names, output.ops, output.body, ASKED.id)
    plan = plan_order(Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT), order)
    assert isinstance(plan, Plan)
    assert sent in [e.message.body for e in plan.effects if isinstance(e, Post)]


def test_without_an_op_it_is_acknowledged_and_a_chat_is_told_so() -> None:
    asked = replace(ASKED, sender="telegram:498316684", path=HubPath(""), topic="", head="")
    plan = plan_order(ChatFacts(CONFIG, PEERS, asked, NOW, "machine"), Order(SIGMA, asked.names, (), "", asked.id))
    assert isinstance(plan, Plan)
    assert chat_text_of(plan.effects) == "(acknowledged)"
    peers = plan_order(Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT), Order(SIGMA, ASKED.names, ()))
    assert isinstance(peers, Plan)
    assert [e.row.executed for e in peers.effects if isinstance(e, Log)] == ["✓ acked (no op)"]


TURN = [
    # as it is taught, the event, and what the agent is at then
    ("Queue_pop", "promoted", Actor.INPUT_READY),
    ("Wake", "shown", Actor.PROCESSING),
    ("Output_received", "answered", Actor.OUTPUT_READY),
    ("Archive_complete", "archived", Actor.IDLE),
]


def test_a_turn_goes_through_these_states_and_skips_none() -> None:
    state = Actor.IDLE
    for taught, event, after in TURN:
        if after is not Actor.IDLE:
            with pytest.raises(InvalidTransition):
                ACTOR.step(state, "archived")
        state = Actor(ACTOR.step(state, event))
        assert state is after, taught


def test_a_pair_is_archived_under_its_trigger() -> None:
    turn = Turn(ASKED, "machine", 1, NOW, "")
    assert turn.archive_path("input") == f"logs/input/{turn.trigger}.md"
    assert turn.archive_path("output") == f"logs/output/{turn.trigger}.md"


def test_a_concern_is_a_file_of_the_hub() -> None:
    plan = plan_order(Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT), read(OUTPUTS["review"]))
    assert isinstance(plan, Plan)
    (concern,) = [e for e in plan.effects if isinstance(e, Put) and e.path.startswith("state/mca/")]
    assert concern.text.startswith("# Add retry logic to wake mechanism\n")
