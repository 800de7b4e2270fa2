"""Each decision under each rule: the expected effects as data (``docs/protocol/decisions.md``)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cn.inbox.plan.decisions import Facts, open_concern, plan_decision, plan_refused
from cn.protocol import rules
from cn.protocol.effects import Advance, Drop, Effect, Log, Plan, Post, Put, Record
from cn.protocol.hub_config import HubConfig, Limits, Reviewer
from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.ledger import IN, Event, Item, fold_history
from cn.protocol.log import Row
from cn.protocol.message import About, Message
from cn.protocol.own_thread import concern_path
from cn.protocol.peers_file import PICKUP, Peer, fingerprint
from cn.protocol.rules import MergeFacts, Person, TreeChange
from cn.protocol.thread_file import (
    Custom,
    Decision,
    Defer,
    Delegate,
    Delete,
    Header,
    Merge,
    Reply,
    Triage,
    TriageRefused,
    Words,
    add_form,
    add_words,
    format_decision,
    format_thread,
    parse_triage,
    peer_block,
    read_decision,
    seen_head,
    set_triage,
)
from cn.values.errors import Refusal
from cn.values.names import HubPath, Oid, Url, parse_branch, parse_hub_path, parse_name, parse_topic
from cn.values.timestamps import format_stamp, is_old, parse_stamp

PI, SIGMA, OMEGA, ALICE = (parse_name(n) for n in ("pi", "sigma", "omega", "alice"))
HEAD, RESULT, TWIN = (Oid(part * 5) for part in ("3f2a9c1e", "1a2b3c4d", "9e8d7c6b"))
BRANCH = parse_branch("pi/proposal")
RECEIVED = parse_stamp("2026-02-05T14:00Z")
AT = parse_stamp("2026-02-05T15:00Z")
NOW = parse_stamp("2026-02-05T15:30:07Z")
THREAD = "20260205-pi-proposal.md"
CONFIG = HubConfig(SIGMA, reviewers=(Reviewer(ALICE),))
KEY = "ssh-ed25519 AAAA"
PEERS = {PI: Peer(PI, Url("/srv/pi")), OMEGA: Peer(OMEGA, Url("/srv/omega"), deliver=PICKUP)}
FIELDS = {"branch": str(BRANCH), "thread": THREAD, "kind": "proposal", "signature": "unverified", "hops": "0"}
ITEM = Item(IN, "proposal", HEAD, "received", RECEIVED, FIELDS)
PENDING = format_thread(Header(PI, "proposal", BRANCH, RECEIVED, HEAD, "unverified"), "Please\n\ntake it")
MERGE = MergeFacts(HEAD, True, changes=(TreeChange("docs/d.md", "100644"),), commit=RESULT)
DECISIONS: dict[str, Decision] = {
    "delete": Delete("stale"),
    "defer": Defer("later"),
    "delegate-peer": Delegate(OMEGA),
    "delegate-reviewer": Delegate(ALICE),
    "merge": Merge(),
    "reply": Reply(parse_topic("re-proposal")),
    "custom": Custom("add retry logic"),
}
ENDING = [name for name in DECISIONS if name not in ("defer", "delegate-reviewer")]


def decide(
    decision: Decision, actor: str = SIGMA, body: str = "Thank you.", until: str = "", approval: str = ""
) -> Triage:
    return Triage(decision, parse_name(actor), AT, body, until, approval)


def facts(triage: Triage, item: Item = ITEM, config: HubConfig = CONFIG, merge: MergeFacts = MERGE) -> Facts:
    return Facts(
        config, PEERS, PI, item, set_triage(PENDING, triage), NOW,
        identities=("sigma", "sigma@cn.invalid"), merge=merge if isinstance(triage.decision, Merge) else None,
    )  # fmt: skip


def planned(triage: Triage, known: Facts | None = None) -> Plan:
    outcome = plan_decision(known or facts(triage), triage)
    assert isinstance(outcome, Plan), outcome
    return outcome


def refused(triage: Triage, known: Facts | None = None) -> Refusal:
    outcome = plan_decision(known or facts(triage), triage)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.remedy
    assert outcome.reason
    return outcome


def done_text(triage: Triage, line: str) -> str:
    return f"{set_triage(PENDING, triage)}\n## Executed\n\n- 2026-02-05T15:30Z {line}\n"


def row(decision: str, executed: str, outcome: str, commit: str = "") -> Log:
    return Log(Row(NOW, "pi/proposal", decision, executed, THREAD, BRANCH, HEAD, outcome, commit))


def decided(status: str, decision: str, merge: str = "") -> Record:
    fields = {
        "status": status, "actor": "sigma", "decision": decision, "decided": "2026-02-05T15:00:00Z",
        "thread": THREAD, "merge": merge,
    }  # fmt: skip
    return Record(PI, Event(NOW, IN, "decided", "proposal", HEAD, fields))


def told(about: About, what: str, reason: str = "") -> Post:
    """The notice to the creator, dated as the decision."""
    body = f"Your branch pi/proposal at {HEAD} was {what}."
    body += f"\n\nReason: {reason}" if reason else ""
    body += "\n\nNothing more is needed from it: its creator may delete it now." if about.final else ""
    message = Message(NOTICE, SIGMA, PI, f"pi/proposal: {about.status}", AT, body, about=about)
    return Post(message, "notice-proposal", THREAD, "pi/proposal")


INBOX, DONE = HubPath(f"threads/inbox/{THREAD}"), HubPath(f"threads/inbox/done/{THREAD}")


def test_delete() -> None:
    triage = decide(Delete("stale"))
    assert planned(triage).effects == (
        Drop(INBOX),
        Put(DONE, done_text(triage, "✓ discarded")),
        decided("discarded", "delete:stale"),
        row("delete:stale", "✓ discarded", "discarded"),
        told(About(BRANCH, HEAD, "discarded", None, "stale"), "discarded", "stale"),
    )


def test_merge() -> None:
    triage = decide(Merge())
    assert planned(triage).effects == (
        Advance(RESULT, "pi/proposal"),
        Drop(INBOX),
        Put(DONE, done_text(triage, "✓ merged 1a2b3c4")),
        decided("merged", "do:merge", RESULT),
        row("do:merge", "✓ merged 1a2b3c4", "merged", RESULT),
        told(About(BRANCH, HEAD, "merged", RESULT), f"merged as {RESULT}"),
    )


def test_a_notice_names_the_merge_that_its_reader_can_see() -> None:
    triage = decide(Merge())
    plan = planned(triage, facts(triage, merge=replace(MERGE, published=TWIN)))
    assert plan.effects[0] == Advance(RESULT, "pi/proposal", TWIN)
    assert plan.effects[-1] == told(About(BRANCH, HEAD, "merged", TWIN), f"merged as {TWIN}")
    assert plan.effects[3] == decided("merged", "do:merge", RESULT)


def test_reply() -> None:
    triage = decide(Reply(parse_topic("re-proposal")))
    answer = Message(
        MESSAGE, SIGMA, PI, "Re: pi/proposal", AT, "Thank you.", HEAD, About(BRANCH, HEAD, "replied"), 1
    )  # fmt: skip
    assert planned(triage).effects == (
        Drop(INBOX),
        Put(DONE, done_text(triage, "queued")),
        decided("replied", "do:reply:re-proposal"),
        row("do:reply:re-proposal", "queued", "replied"),
        Post(answer, "re-proposal", THREAD, "pi/proposal", "do:reply:re-proposal"),
    )


def test_custom() -> None:
    triage = decide(Custom("add retry logic"))
    path = concern_path("add retry logic", NOW, HEAD)
    concern = (
        "# add retry logic\n\n**State:** open\n**Opened:** 2026-02-05T15:30Z\n**By:** sigma\n"
        f"**Source:** pi/proposal\n**Thread:** {THREAD}\n\nThank you.\n"
    )
    assert planned(triage).effects == (
        Put(path, concern),
        Drop(INBOX),
        Put(DONE, done_text(triage, f"✓ opened: {path}")),
        decided("opened", "do:custom:add retry logic"),
        row("do:custom:add retry logic", "✓ opened", "opened"),
        told(About(BRANCH, HEAD, "opened", None, "add retry logic"), "taken up as a concern", "add retry logic"),
    )


def test_delegate_to_a_peer() -> None:
    triage = decide(Delegate(OMEGA))
    first, *rest = planned(triage).effects
    assert isinstance(first, Post)
    message = first.message
    assert (message.kind, message.sender, message.to, message.hops) == (MESSAGE, SIGMA, OMEGA, 1)
    assert (message.subject, message.created, message.in_reply_to) == ("Fwd: pi/proposal", AT, BRANCH)
    assert (first.topic, first.thread, first.source) == ("fwd-pi-proposal", THREAD, "pi/proposal")
    assert message.body.split("\n") == [
        "sigma forwards this thread; decided by sigma at 2026-02-05T15:00Z. A reply goes to sigma, not to pi.",
        "",
        "- from: pi",
        "- branch: pi/proposal",
        f"- head: {HEAD}",
        "- signature: unverified",
        "- received: 2026-02-05T14:00Z",
        "",
        "Thank you.",
        "",
        *peer_block(PENDING),
    ]
    assert tuple(rest) == (
        Drop(INBOX),
        Put(DONE, done_text(triage, "queued")),
        decided("delegated", "delegate:omega"),
        row("delegate:omega", "queued", "delegated"),
        told(About(BRANCH, HEAD, "delegated", None, "to omega"), "delegated", "to omega"),
    )


@pytest.mark.parametrize(
    ("room", "kept", "gap"),
    [
        (1000, ["first", "second", "third"], ""),
        (140, ["second", "third"], "(1 text in between is left out)"),
        (70, ["third"], "(2 texts in between are left out)"),
        (20, [], "(2 texts in between are left out)"),
    ],
)
def test_a_forward_keeps_the_newest_words_and_says_what_it_leaves_out(room: int, kept: list[str], gap: str) -> None:
    text = PENDING
    for words in ("first", "second", "third"):
        text = add_words(text, Words(PI, AT, "a message", f"{words}\n"))
    small = CONFIG._replace(limits=Limits(thread_bytes=2 * room))
    triage = decide(Delegate(OMEGA))
    known = replace(facts(triage, config=small), text=set_triage(text, triage), committed=text)
    first, *_ = planned(triage, known).effects
    assert isinstance(first, Post)
    quoted = first.message.body.partition("Thank you.\n\n")[2]
    assert [word for word in ("first", "second", "third") if f"> {word}" in quoted] == kept
    assert ("left out" in quoted) == bool(gap)
    assert gap in quoted
    assert ("> … cut here" in quoted) == (room < 100)
    assert "## Triage" not in quoted


def kept(triage: Triage, heading: str, state: str) -> str:
    section = set_triage(PENDING, triage).partition("## Triage\n\n")[2].rstrip()
    text = f"{PENDING.rstrip()}\n\n---\n\n## {heading}\n\n- 2026-02-05T15:30Z ✓ {state}\n\n{section}\n"
    return add_form(text, SIGMA)


@pytest.mark.parametrize(
    ("until", "stored"),
    [
        ("", "2026-02-06T00:00:00Z"),
        ("3d", "2026-02-08T15:00:00Z"),
        ("31m", "2026-02-05T15:31:00Z"),
        ("12h", "2026-02-06T03:00:00Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01T12:00+02:00", "2026-03-01T10:00:00Z"),
    ],
)
def test_defer(until: str, stored: str) -> None:
    triage = decide(Defer("later"), until=until)
    fields = {"until": stored, "reason": "later", "by": "sigma", "thread": THREAD}
    about = About(BRANCH, HEAD, "deferred", None, f"later (until {stored[:16]}Z)")
    words = Message(MESSAGE, SIGMA, PI, "Re: pi/proposal", AT, "Thank you.", HEAD, about, 1)
    assert planned(triage).effects == (
        Put(INBOX, kept(triage, "Deferred", "deferred")),
        Record(PI, Event(NOW, IN, "deferred", "proposal", HEAD, fields)),
        row("defer:later", "✓ deferred", "deferred"),
        Post(words, "re-proposal", THREAD, "pi/proposal", "defer:later"),
    )


def test_delegate_to_a_reviewer() -> None:
    triage = decide(Delegate(ALICE))
    fields = {"actor": "alice", "by": "sigma", "thread": THREAD}
    assert planned(triage).effects == (
        Put(INBOX, kept(triage, "Assigned", "assigned")),
        Record(PI, Event(NOW, IN, "assigned", "proposal", HEAD, fields)),
        row("delegate:alice", "✓ assigned", "assigned"),
    )


@pytest.mark.parametrize("name", ["defer", "delegate-reviewer"])
def test_a_thread_that_stays_can_be_decided_again(name: str) -> None:
    put = planned(decide(DECISIONS[name])).effects[0]
    assert isinstance(put, Put)
    assert read_decision(put.text, PENDING) is None
    assert seen_head(put.text) == HEAD
    later = decide(Delete("x"))
    assert read_decision(set_triage(put.text, later), PENDING) == later


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_a_thread_sends_one_message_and_closes_it(name: str) -> None:
    plan = planned(decide(DECISIONS[name]))
    posts = [e for e in plan.effects if isinstance(e, Post)]
    assert len([p for p in posts if p.message.to == PI]) == 1
    assert [p.message.about.final for p in posts if p.message.about] == [True]
    events = [e.event for e in plan.effects if isinstance(e, Record)]
    assert fold_history(events, {(IN, "proposal"): ITEM}) == {}
    assert len([e for e in plan.effects if isinstance(e, Log)]) == 1
    assert plan.cause == "pi/proposal"


@pytest.mark.parametrize("name", DECISIONS)
def test_the_same_decision_gives_the_same_messages_at_any_time(name: str) -> None:
    triage = decide(DECISIONS[name])
    later = replace(facts(triage), now=NOW + timedelta(minutes=5))
    assert [e for e in planned(triage).effects if isinstance(e, Post)] == [
        e for e in planned(triage, later).effects if isinstance(e, Post)
    ]


# Every decision under every rule.


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize("actor", ["pi", "omega", "bob"])
def test_nobody_else_decides(name: str, actor: str) -> None:
    triage = decide(DECISIONS[name], actor)
    self_merge = name == "merge" and actor == "pi"
    assert refused(triage).rule == (rules.NO_SELF_MERGE if self_merge else rules.VALID_ACTOR)


@pytest.mark.parametrize("name", DECISIONS)
def test_a_reviewer_decides_as_the_agent_does(name: str) -> None:
    ours, theirs = planned(decide(DECISIONS[name])), planned(decide(DECISIONS[name], ALICE))
    assert [type(e) for e in ours.effects] == [type(e) for e in theirs.effects]


RULES: dict[str, tuple[MergeFacts, dict[str, str], str, str, bool]] = {
    # facts of the merge, fields of the item, approval, the rule, is the creator told?
    "no common history": (replace(MERGE, common=False), {}, "", rules.REBASE_BEFORE_MERGE, True),
    "stale": (replace(MERGE, stale=("a",)), {}, "", rules.REBASE_BEFORE_MERGE, True),
    "self by name": (replace(MERGE, people=(Person("Sigma", "x"),)), {}, "", rules.NO_SELF_MERGE, False),
    "self by email": (replace(MERGE, people=(Person("x", "SIGMA@cn.invalid"),)), {}, "", rules.NO_SELF_MERGE,
    False),
    "protected": (replace(MERGE, changes=(TreeChange(".cn/hub.yaml", "100644"),)), {}, "",
    rules.PROTECTED_PATHS, True),
    "own folder": (replace(MERGE, changes=(TreeChange("logs/x", "100644"),)), {}, "", rules.PROTECTED_PATHS,
    True),
    "symlink": (replace(MERGE, changes=(TreeChange("x", "120000"),)), {}, "", rules.PROTECTED_PATHS, True),
    "conflict": (replace(MERGE, conflicts=("a",), commit=None), {}, "", rules.CLEAN_MERGE, True),
    "dirty": (replace(MERGE, dirty=("a",)), {}, "", rules.CLEAN_MERGE, False),
    "not approved": (MERGE, {}, "REJECTED", rules.MERGE_NEEDS_APPROVAL, False),
    "withdrawn": (MERGE, {"gone": "2026-02-05T15:00:00Z"}, "", rules.MERGE_NEEDS_APPROVAL, False),
    "put back, without keys": (replace(MERGE, stale=("a",)), {"back": "went back"}, "",
    rules.REBASE_BEFORE_MERGE, True),
    "a message": (MERGE, {"kind": "message"}, "", rules.VALID_TRIAGE, False),
    "merged already, not approved": (replace(MERGE, merged_already=True, changes=(), commit=None), {}, "REJECTED",
    rules.MERGE_NEEDS_APPROVAL, False),
    "bad signature": (MERGE, {"signature": "bad"}, "", rules.SIGNATURE, True),
    "a hidden name": (replace(MERGE, changes=(TreeChange("a\x1b[2J", "100644"),)), {}, "",
    rules.VALID_NAME, True),
    "protected and stale": (replace(MERGE, stale=("a",), changes=(TreeChange(".cn/x", "100644"),)), {}, "",
    rules.PROTECTED_PATHS, True),
    "not approved and stale": (replace(MERGE, stale=("a",)), {}, "REJECTED",
    rules.MERGE_NEEDS_APPROVAL, False),
}  # fmt: skip


@pytest.mark.parametrize("case", RULES)
def test_a_merge_under_each_rule(case: str) -> None:
    merge, fields, approval, rule, notify = RULES[case]
    triage = decide(Merge(), approval=approval)
    item = ITEM._replace(fields={**FIELDS, **fields})
    refusal = refused(triage, facts(triage, item, merge=merge))
    assert (refusal.rule, refusal.notify) == (rule, notify)


@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("name", [name for name in DECISIONS if name != "merge"])
def test_the_rules_of_merging_bind_merges_alone(case: str, name: str) -> None:
    merge, fields, approval, _, _ = RULES[case]
    triage = decide(DECISIONS[name], approval=approval)
    known = replace(facts(triage, ITEM._replace(fields={**FIELDS, **fields})), merge=merge)
    assert isinstance(plan_decision(known, triage), Plan)


@pytest.mark.parametrize(
    ("signature", "key", "signed", "ok"),
    [
        ("unverified", "", "optional", True),
        ("", "", "optional", True),
        ("unverified", "", "required", False),
        (f"verified {fingerprint(KEY)}", "", "required", False),  # it was taken out
        (f"verified {fingerprint(KEY)}", KEY, "required", True),
        ("verified SHA256:x", KEY, "optional", False),
        ("unverified", KEY, "optional", False),
        ("bad", "", "optional", False),
    ],
)
def test_a_hub_can_require_signed_merges(signature: str, key: str, signed: str, ok: bool) -> None:
    triage = decide(Merge())
    item = ITEM._replace(fields={**FIELDS, "signature": signature})
    known = facts(triage, item, CONFIG._replace(signed=signed))
    outcome = plan_decision(replace(known, peers={PI: PEERS[PI]._replace(key=key)}), triage)
    assert isinstance(outcome, Plan) == ok
    assert ok or (isinstance(outcome, Refusal) and outcome.rule == rules.SIGNATURE)


@pytest.mark.parametrize(("approval", "ok"), [("", False), ("APPROVED", True), ("approved", False)])
def test_a_hub_can_require_approval(approval: str, ok: bool) -> None:
    triage = decide(Merge(), approval=approval)
    known = facts(triage, config=CONFIG._replace(explicit_approval=True))
    assert isinstance(plan_decision(known, triage), Plan) == ok


@pytest.mark.parametrize("name", DECISIONS)
def test_a_peer_that_was_taken_out(name: str) -> None:
    triage = decide(DECISIONS[name])
    known = replace(facts(triage), peers={OMEGA: PEERS[OMEGA]})
    if name in ("delete", "defer"):
        assert [e for e in planned(triage, known).effects if isinstance(e, Post)], "it is owed"
    else:
        assert refused(triage, known).rule == rules.KNOWN_PEER


@pytest.mark.parametrize(
    ("actor", "rule"), [("sigma", rules.VALID_ACTOR), ("pi", rules.KNOWN_PEER), ("nobody", rules.KNOWN_PEER)]
)
def test_delegating_to_oneself_the_creator_or_a_stranger(actor: str, rule: str) -> None:
    assert refused(decide(Delegate(parse_name(actor)))).rule == rule


@pytest.mark.parametrize(
    ("hops", "limit", "ok"), [("", 8, True), ("7", 8, True), ("8", 8, False), ("0", 0, False), ("1000", 8, False)]
)
def test_forwarding_ends_at_the_hop_limit(hops: str, limit: int, ok: bool) -> None:
    triage = decide(Delegate(OMEGA))
    config = CONFIG._replace(limits=Limits(hops=limit))
    outcome = plan_decision(facts(triage, ITEM._replace(fields={**FIELDS, "hops": hops}), config), triage)
    assert isinstance(outcome, Plan) == ok
    if isinstance(outcome, Plan):
        post = outcome.effects[0]
        assert isinstance(post, Post)
        assert post.message.hops == int(hops or 0) + 1
    else:
        assert isinstance(outcome, Refusal)
        assert "forwarded" in outcome.reason
        assert outcome.remedy


@pytest.mark.parametrize(
    "until",
    ["2026-02-05", "2026-02-05T15:30:07Z", "2020-01-01T00:00Z", "1m", "0d", "30m", "yesterday", "x", "-3d",
    "3w", "99999999d",
     "2026-02-30", "0001-01-01T00:00+14:00", "999dd"],
)  # fmt: skip
def test_deferring_to_the_past_or_to_no_time(until: str) -> None:
    refusal = refused(decide(Defer("later"), until=until))
    assert refusal.rule == rules.VALID_TRIAGE
    assert refusal.reason.startswith("until: ")


@pytest.mark.parametrize("body", ["", " \n\t\n"])
def test_a_reply_needs_words(body: str) -> None:
    assert refused(decide(Reply(parse_topic("x")), body=body)).rule == rules.VALID_TRIAGE


def test_the_subject_of_a_message_is_kept() -> None:
    item = ITEM._replace(fields={**FIELDS, "kind": "message", "subject": "Which licence?", "hops": "2"})
    triage = decide(Reply(parse_topic("x")))
    post = planned(triage, replace(facts(triage, item), about="Which licence?")).effects[-1]
    assert isinstance(post, Post)
    assert (post.message.subject, post.message.hops) == ("Re: Which licence?", 3)


# Refusals are told once.

WHY = Refusal("rebase-before-merge", "main changed since: a", "rebase", notify=True)


def after(item: Item, plan: Plan) -> Item:
    events = [e.event for e in plan.effects if isinstance(e, Record)]
    return fold_history(events, {(IN, "proposal"): item})[(IN, "proposal")]


def kinds(plan: Plan) -> list[type[Effect]]:
    return [type(e) for e in plan.effects]


def test_a_refusal_is_logged_once_and_its_creator_told_once_per_head() -> None:
    known = facts(decide(Merge()))
    first = plan_refused(known, "do:merge", "sigma", WHY, NOW)
    assert kinds(first) == [Record, Log, Post]
    assert first.effects[1] == row("do:merge", "refused: rebase-before-merge: main changed since: a", "refused")
    post = first.effects[2]
    assert isinstance(post, Post)
    reason = "rebase-before-merge: main changed since: a"
    assert post.message.about == About(BRANCH, HEAD, "refused", None, reason)
    item = after(ITEM, first)
    assert (item.state, item.get("rule"), item.get("remedy")) == ("received", WHY.rule, "rebase")

    again = replace(known, item=item)
    assert plan_refused(again, "do:merge", "sigma", WHY, NOW).effects == (), "nothing changed"

    on = WHY._replace(reason="main changed since: a, b, c and 4 more")
    assert plan_refused(again, "do:merge", "sigma", on, NOW).effects == (), "main went on, and nothing else"

    other = WHY._replace(reason="it has no history in common with main")
    second = plan_refused(again, "do:merge", "sigma", other, NOW)
    assert kinds(second) == [Record, Log], "the head is the same"
    assert plan_refused(replace(known, item=after(item, second)), "do:merge", "sigma", other, NOW).effects == ()

    item = after(item, second)
    first_again = plan_refused(replace(known, item=item), "do:merge", "sigma", WHY, NOW)
    assert kinds(first_again) == [Record, Log], "what was met last is what is shown"
    assert after(item, first_again).get("why") == WHY.reason
    condition = item.get("digest").split()[0]
    assert plan_refused(replace(known, item=item), "do:merge", "sigma", WHY, NOW, met=condition).effects == ()

    moved = after(item, Plan("", (Record(PI, Event(NOW, IN, "refreshed", "proposal", RESULT)),)))
    third = plan_refused(replace(known, item=moved), "do:merge", "sigma", WHY, NOW)
    assert kinds(third) == [Record, Log, Post], "a new head"


@pytest.mark.parametrize(
    ("decision", "actor", "refusal"),
    [
        ("do:merge", "sigma", WHY._replace(reason="other")),
        ("do:merge", "sigma", WHY._replace(rule="clean-merge")),
        ("do:merge", "alice", WHY),
        ("delete:x", "sigma", WHY),
    ],
)
def test_another_condition_is_told(decision: str, actor: str, refusal: Refusal) -> None:
    known = facts(decide(Merge()))
    item = after(ITEM, plan_refused(known, "do:merge", "sigma", WHY, NOW))
    assert kinds(plan_refused(replace(known, item=item), decision, actor, refusal, NOW)) == [Record, Log]


def test_what_the_creator_cannot_change_is_not_told_to_it() -> None:
    known = facts(decide(Merge()))
    first = plan_refused(known, "do:merge", "sigma", WHY._replace(notify=False), NOW)
    assert kinds(first) == [Record, Log]
    item = after(ITEM, first)
    told_later = plan_refused(replace(known, item=item), "do:merge", "sigma", WHY._replace(rule="r"), NOW)
    assert kinds(told_later) == [Record, Log, Post]


def test_a_refusal_without_a_remedy_forgets_the_earlier_one() -> None:
    known = facts(decide(Merge()))
    item = after(ITEM, plan_refused(known, "x", "sigma", WHY, NOW))
    item = after(item, plan_refused(replace(known, item=item), "x", "sigma", Refusal("r", "why"), NOW))
    assert (item.get("rule"), item.get("remedy")) == ("r", "")


# Small parts.


@pytest.mark.parametrize(
    ("state", "until", "due"),
    [
        ("deferred", "2026-02-05T15:30:07Z", True),
        ("deferred", "2026-02-05T15:30:08Z", False),
        ("deferred", "2025-12-31T23:59:59Z", True),
        ("deferred", "", False),
        ("assigned", "2025-12-31T23:59:59Z", False),
    ],
)
def test_when_a_deferral_is_due(state: str, until: str, due: bool) -> None:
    assert Item(IN, "x", HEAD, state, AT, {"until": until}).is_due(NOW) == due


def test_age() -> None:
    assert is_old(NOW - timedelta(days=30), NOW, 30)
    assert not is_old(NOW - timedelta(days=30, seconds=-1), NOW, 30)


@pytest.mark.parametrize("text", ["x", "../../etc", "a/b\n# c", "", "é 日本", "x" * 500, "\u202e|"])
def test_a_concern_is_one_file_with_a_safe_name(text: str) -> None:
    path = concern_path(text, NOW, HEAD)
    assert parse_hub_path(path) == path
    assert path.startswith("state/mca/20260205-")
    assert path.count("/") == 2
    assert path != concern_path(text, NOW, RESULT)
    concern = open_concern(path, text, NOW, parse_name("sigma"), "pi/x", THREAD).text
    assert len(concern.splitlines()) == 7
    assert f"**Opened:** {format_stamp(NOW)}" in concern


@pytest.mark.parametrize("name", DECISIONS)
def test_the_log_holds_the_words_of_the_decision(name: str) -> None:
    triage = decide(DECISIONS[name])
    logged = next(e.row for e in planned(triage).effects if isinstance(e, Log))
    assert logged.decision == format_decision(triage.decision)


def test_a_copied_section_is_refused_before_any_plan() -> None:
    lines = set_triage(PENDING, decide(Merge())).split("\n")
    with pytest.raises(TriageRefused):
        parse_triage(lines, lines.index("## Triage"), lines)
