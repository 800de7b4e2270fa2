"""Every output of the corpus, planned in one standard situation: what becomes of the thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cn.agent.plan.ops import Order, check_output, plan_order
from cn.agent.plan.output import parse_output
from cn.inbox.plan.decisions import Facts
from cn.protocol.effects import Plan, Post, Record
from cn.protocol.hub_config import HubConfig, Reviewer
from cn.protocol.layout import NOTICE, inbox_path
from cn.protocol.ledger import IN, Event, fold_history
from cn.protocol.ops import Commit
from cn.protocol.peers_file import Peer
from cn.protocol.queue_item import Cadence, Input
from cn.protocol.thread_file import Header, format_thread
from cn.values.names import HubPath, InputId, Oid, ThreadName, Url, parse_branch, parse_name
from cn.values.timestamps import parse_stamp

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "outputs"
NAMES = sorted(path.stem for path in CORPUS.glob("*.json"))
NOW = parse_stamp("2026-02-05T15:30Z")
HEAD = Oid("3f2a9c1e" * 5)
PI, RHO, SIGMA = parse_name("pi"), parse_name("rho"), parse_name("sigma")
THREAD = ThreadName("20260205-pi-proposal.md")
ASKED = Input(
    InputId("20260205-140007-3fa2c1"),
    "pi",
    Cadence.INBOX,
    parse_stamp("2026-02-05T14:00:07Z"),
    inbox_path(THREAD),
    "proposal",
    HEAD,
)
PEERS = {PI: Peer(PI, Url("/srv/pi.git")), RHO: Peer(RHO, Url("/srv/rho.git"), community=True)}
CONFIG = HubConfig(SIGMA, interface="queue", reviewers=(Reviewer(parse_name("alice")),))
RECEIVED = Event(
    parse_stamp("2026-02-05T14:00Z"), IN, "received", "proposal", HEAD,
    {"branch": "pi/proposal", "kind": "message", "thread": THREAD, "input": ASKED.id},
)  # fmt: skip
ITEM = fold_history([RECEIVED])[(IN, "proposal")]
TEXT = format_thread(
    Header(PI, "proposal", parse_branch("pi/proposal"), RECEIVED.at, HEAD, "unverified"), "Please look."
)
MAIN = {"docs/start.md": Oid("ab" * 20)}


def plan(data: bytes) -> Plan | tuple[Any, ...]:
    output = parse_output(data)
    refused = check_output(output, ASKED.id)
    if refused:
        return tuple(refused)
    facts = Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT)
    artifacts = {op.artifact: MAIN[op.artifact] for op in output.ops if isinstance(op, Commit) and op.artifact in MAIN}
    order = Order(SIGMA, ASKED.names, output.ops, output.body, ASKED.id, artifacts)
    return plan_order(facts, order)


def result(planned: Plan | tuple[Any, ...]) -> str:
    if not isinstance(planned, Plan):
        assert planned, "a refusal has a reason"
        return "rejected"
    ends = [
        e.event.fields.get("status") or e.event.kind
        for e in planned.effects
        if isinstance(e, Record) and e.event.side == IN
    ]
    assert len(ends) == 1, "one thing becomes of the thread"
    return ends[0]


@pytest.mark.parametrize("name", NAMES)
def test_an_output_comes_to_what_stands_beside_it(name: str) -> None:
    expected = json.loads((CORPUS / f"{name}.json").read_text("utf-8"))
    planned = plan((CORPUS / f"{name}.md").read_bytes())
    told = planned if not isinstance(planned, Plan) else ()
    assert result(planned) == expected["result"], (expected["note"], told)


@pytest.mark.parametrize("name", NAMES)
def test_the_creator_gets_one_message_about_its_branch_or_none_where_a_reviewer_has_it(name: str) -> None:
    planned = plan((CORPUS / f"{name}.md").read_bytes())
    if not isinstance(planned, Plan):
        return
    said = [e for e in planned.effects if isinstance(e, Post) and e.message.about is not None]
    about = [e for e in said if e.message.about is not None and e.message.about.status != "commented"]
    assert len(about) == (0 if result(planned) == "assigned" else 1)
    for post in about:
        assert post.message.to == PI
        assert post.message.about is not None
        assert post.message.about.head == HEAD
        assert (post.message.kind == NOTICE) == (result(planned) != "replied")


@pytest.mark.parametrize("name", NAMES)
def test_no_output_writes_outside_of_threads_logs_and_concerns(name: str) -> None:
    planned = plan((CORPUS / f"{name}.md").read_bytes())
    for effect in planned.effects if isinstance(planned, Plan) else ():
        path = getattr(effect, "path", None)
        if isinstance(path, str):
            allowed = (inbox_path(THREAD), HubPath(f"threads/inbox/done/{THREAD}"))
            assert path in allowed or (path.startswith("state/mca/2026") and path.count("/") == 2)


def test_the_corpus_is_large_and_tries_both() -> None:
    results = [json.loads((CORPUS / f"{n}.json").read_text("utf-8"))["result"] for n in NAMES]
    assert len(NAMES) >= 60
    assert {"rejected", "acked", "done", "replied", "delegated", "assigned", "deferred"} <= set(results)
    assert {"discarded", "failed", "opened"} <= set(results)
