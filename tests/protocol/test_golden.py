"""The formats that peers, people and older versions rely on, byte for byte.

The files lie in ``tests/golden/``. After a change that is meant, write them anew and read
the difference before it is committed:

    GOLDEN=write pytest tests/protocol/test_golden.py && git diff tests/golden
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cn.git.read_branches import Commit, FileText, Proposal, Touched, format_proposal
from cn.inbox.plan.arrivals import plan_gone, plan_moved, plan_new, plan_repeated
from cn.inbox.plan.decisions import Facts, plan_decision, plan_refused
from cn.outbox.plan.receipts import Arrival, plan_notice
from cn.protocol.effects import Log, Plan, Post, Put, Record
from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.ledger import IN, OUT, Event, Item, fold_history, format_event, format_open
from cn.protocol.log import append_rows
from cn.protocol.log import format_event as format_machine_row
from cn.protocol.message import About, Message, format_message, seal
from cn.protocol.outbox_entry import Deliver, Remove, format_entry
from cn.protocol.peers_file import Peer, add_peer
from cn.protocol.rules import MergeFacts
from cn.protocol.thread_file import Merge, Reply, Triage, set_triage
from cn.values.errors import Refusal
from cn.values.names import HubPath, Oid, ThreadName, Url, parse_branch, parse_name, parse_topic, topic_of
from cn.values.timestamps import parse_stamp
from tests.support.hubs import ROOT

GOLDEN = ROOT / "tests" / "golden"
VARIABLE = "GOLDEN"

PI, SIGMA = parse_name("pi"), parse_name("sigma")
HEAD, MOVED, RESULT = (Oid(part * 5) for part in ("3f2a9c1e", "77777777", "1a2b3c4d"))
BLOB = Oid("0" * 39 + "1")
BRANCH = parse_branch("pi/proposal")
RECEIVED, DECIDED = parse_stamp("2026-02-05T14:00:07Z"), parse_stamp("2026-02-05T15:00:00Z")
NOW = parse_stamp("2026-02-05T15:15:00Z")
NAME = ThreadName("20260205-pi-proposal.md")
US = ("sigma", "sigma@cn.invalid")

CONTENT = format_proposal(
    Proposal(
        (
            Commit(
                HEAD, "Pi", "pi@example.org", "2026-02-05T13:58:12+00:00", "Say hello\n\n## Triage\ndecision: do:merge"
            ),
        ),
        False,
        (
            Touched("A", "hello.md", "100644", BLOB, BLOB, "1", "0"),
            Touched("M", "a.md", "100644", BLOB, BLOB, "1", "1"),
        ),
        (
            FileText("hello.md", "added", "hello \u202eworld\n"),
            FileText("a.md", "changed", "one\n++ two\n", "@@ -1,2 +1,2 @@\n one\n--- two\n+++ two\n"),
        ),
        (("big.bin", "binary"),),
        BLOB,
    ),
    1 << 18,
    1 << 16,
)
ARRIVAL = Arrival(PI, topic_of(BRANCH), BRANCH, HEAD, RECEIVED, "verified SHA256:x", CONTENT)
MERGE = Triage(Merge(), SIGMA, DECIDED, "Well done.", approval="APPROVED")
REPLY = Triage(Reply(parse_topic("re-proposal")), SIGMA, DECIDED, "Thank you.\n\n> one\n\nWhy? 😀")


def text_of(plan: Plan | Refusal, path: str) -> str:
    assert isinstance(plan, Plan)
    return next(e.text for e in plan.effects if isinstance(e, Put) and e.path == path)


def post_of(plan: Plan | Refusal) -> Post:
    assert isinstance(plan, Plan)
    return next(e for e in plan.effects if isinstance(e, Post))


NEW = plan_new(ARRIVAL, SIGMA, NAME)
THREAD = text_of(NEW, f"threads/inbox/{NAME}")
OPEN = fold_history([e.event for e in NEW.effects if isinstance(e, Record)])
ITEM = OPEN[(IN, "proposal")]
PEER = Peer(PI, Url("https://git.example.org/pi/hub.git"), peered="2026-02-05", key="ssh-ed25519 AAAA")


def facts(triage: Triage) -> Facts:
    merge = MergeFacts(HEAD, True, commit=RESULT)
    return Facts(HubConfig(SIGMA), {PI: PEER._replace(key="")}, PI, ITEM, set_triage(THREAD, triage), NOW, merge=merge)


MERGED, REPLIED = plan_decision(facts(MERGE), MERGE), plan_decision(facts(REPLY), REPLY)
REFUSED = plan_refused(
    facts(MERGE), "do:merge", "sigma",
    Refusal("rebase-before-merge", "main changed since: a.md", "rebase the branch on the latest main",
    notify=True), NOW,
)  # fmt: skip
ARRIVED_MOVED = Arrival(PI, topic_of(BRANCH), BRANCH, MOVED, NOW, "unverified", "new content")
REFRESHED = plan_moved(ARRIVED_MOVED, SIGMA, ITEM, set_triage(THREAD, MERGE), [THREAD])
NOTICE_ABOUT_OURS = plan_notice(
    Arrival(
        PI, "notice-x", parse_branch("pi/notice-x"), MOVED, NOW, "verified SHA256:x", "",
        Message(NOTICE, PI, SIGMA, "x", NOW, about=About(parse_branch("sigma/x"), HEAD, "merged", RESULT)),
    ),
    Item(OUT, "x", HEAD, "delivered", RECEIVED, {"branch": "sigma/x"}), parse_branch("sigma/x"), HEAD, None,
)  # fmt: skip
PLANS = [
    NEW, REFRESHED, REFUSED, MERGED, NOTICE_ABOUT_OURS, plan_repeated(ARRIVED_MOVED, SIGMA),
    plan_gone(PI, "proposal", BRANCH, MOVED, NOW, deleted=True),
]  # fmt: skip


def entry(post: Post, branch: str) -> Deliver:
    sealed = seal(post.message, US)
    return Deliver(
        sealed.id, post.message.to, parse_branch(branch), post.message.kind, NOW, post.message.subject,
        post.thread, post.source, str(BRANCH), post.decision, commit=sealed.commit, content=sealed.content,
    )  # fmt: skip


def ledger() -> list[Event]:
    events = [e.event for p in PLANS if isinstance(p, Plan) for e in p.effects if isinstance(e, Record)]
    sealed = seal(post_of(MERGED).message, US)
    fields = {"branch": "sigma/notice-proposal", "kind": "notice", "about": str(BRANCH)}
    odd = parse_branch("pi/a%b/ünï|x")
    return [
        *events,
        Event(NOW, OUT, "queued", "notice-proposal", sealed.id, fields),
        Event(NOW, OUT, "delivered", "notice-proposal", sealed.id),
        Event(NOW, IN, "received", topic_of(odd), HEAD, {"branch": odd, "thread": "t.md", "subject": "a b=c"}),
    ]


def log() -> str:
    return append_rows("", [e.row for p in PLANS if isinstance(p, Plan) for e in p.effects if isinstance(e, Log)])


def machine_log() -> str:
    rows = [e.row for p in PLANS if isinstance(p, Plan) for e in p.effects if isinstance(e, Log)]
    return "".join(format_machine_row(row) + "\n" for row in rows)


FILES: dict[str, bytes | str] = {
    "thread.md": THREAD,
    "thread-triaged.md": set_triage(THREAD, MERGE),
    "thread-done.md": text_of(MERGED, f"threads/inbox/done/{NAME}"),
    "thread-refreshed.md": text_of(REFRESHED, f"threads/inbox/{NAME}"),
    "log.md": log(),
    "cn.log": machine_log(),
    "message.md": format_message(post_of(REPLIED).message),
    "message.commit": seal(post_of(REPLIED).message, US).commit,
    "notice.md": format_message(post_of(MERGED).message),
    "notice-refused.md": format_message(post_of(REFUSED).message),
    "outbox-deliver.md": format_entry(entry(post_of(REPLIED), "sigma/re-proposal")),
    "outbox-notice.md": format_entry(entry(post_of(MERGED), "sigma/notice-proposal")),
    "outbox-delete.md": format_entry(Remove(PI, parse_branch("sigma/x"), HEAD, NOW, "pi says merged", NAME, "pi/x")),
    "ledger": "".join(format_event(one) + "\n" for one in ledger()),
    "open": format_open(fold_history(ledger())),
    "peers.md": add_peer("# Peers of sigma\n\nProse.\n\n```yaml\n```\n", PEER),
}


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_as_it_was(name: str) -> None:
    content = FILES[name]
    data = content.encode() if isinstance(content, str) else content
    path = GOLDEN / name
    if os.environ.get(VARIABLE) == "write":
        GOLDEN.mkdir(exist_ok=True)
        path.write_bytes(data)
    assert path.read_bytes().decode() == data.decode()


def test_every_golden_file_is_compared() -> None:
    assert {path.name for path in Path(GOLDEN).iterdir()} == set(FILES)


def test_a_plan_of_each_kind_stands_in_the_files() -> None:
    assert isinstance(MERGED, Plan)
    assert isinstance(REPLIED, Plan)
    assert post_of(REPLIED).message.kind == MESSAGE
    assert HubPath(f"threads/inbox/{NAME}") in {e.path for e in NEW.effects if isinstance(e, Put)}
