"""What arrives: seen before, for ever; notices act only on what is ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.inbox.plan.arrivals import (
    Step,
    classify,
    plan_gone,
    plan_moved,
    plan_new,
    plan_refused_arrival,
    plan_repeated,
    plan_restored,
    plan_returned,
)
from cn.outbox.plan.receipts import Arrival, notice, plan_adopted, plan_notice, plan_ours_gone, plan_proven
from cn.protocol.effects import CleanUp, Drop, Effect, Log, Plan, Post, Put, Record, Wake
from cn.protocol.layout import FINAL, MESSAGE, NOT_FINAL, NOTICE
from cn.protocol.ledger import IN, OUT, Event, Item, Open, fold_history
from cn.protocol.message import About, Message
from cn.protocol.outbox_entry import Remove
from cn.protocol.thread_file import Merge, Triage, read_decision, seen_head, set_triage
from cn.values.errors import Refusal
from cn.values.names import HubPath, Oid, ThreadName, parse_branch, parse_name
from cn.values.timestamps import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
A, B, C, D = (Oid(digit * 40) for digit in "abcd")
AT = parse_stamp("2026-02-05T14:00Z")
BRANCH, OURS = parse_branch("pi/x"), parse_branch("sigma/x")
NAME = ThreadName("20260205-pi-x.md")
ARRIVAL = Arrival(PI, "x", BRANCH, A, AT, "unverified", "content")


def event(kind: str, head: Oid = A, side: str = IN, **fields: str) -> Event:
    return Event(AT, side, kind, "x", head, fields)


def records(plan: Plan) -> list[Event]:
    return [e.event for e in plan.effects if isinstance(e, Record)]


def rows(plan: Plan) -> list[tuple[str, str, str]]:
    return [(e.row.source, e.row.decision, e.row.executed) for e in plan.effects if isinstance(e, Log)]


def of(plan: Plan, kind: type[Effect]) -> list[Effect]:
    return [e for e in plan.effects if isinstance(e, kind)]


# Seen before?

R, DEC, G, REP = "received", "decided", "gone", "repeated"


@pytest.mark.parametrize(
    ("history", "head", "step"),
    [
        ([], A, Step.NEW),
        ([(R, A)], A, Step.KNOWN),
        ([(R, A)], B, Step.MOVED),
        ([(R, A), ("refreshed", B)], B, Step.KNOWN),
        ([(R, A), ("refreshed", B)], A, Step.MOVED),
        ([(R, A), ("deferred", A)], A, Step.KNOWN),
        ([(R, A), ("assigned", A)], B, Step.MOVED),
        ([(R, A), (G, A)], A, Step.REPEATED),
        ([(R, A), (G, A), (REP, A)], A, Step.KNOWN),
        ([(R, A), (G, A)], B, Step.MOVED),
        ([(R, A), (DEC, A)], A, Step.KNOWN),
        ([(R, A), (DEC, A)], B, Step.REOPENED),
        ([(R, A), (DEC, A), (G, A)], A, Step.REPEATED),
        ([(R, A), (DEC, A), (G, A), (REP, A)], A, Step.KNOWN),
        ([(R, A), (DEC, A), (G, A), (REP, A), (G, A)], A, Step.REPEATED),
        ([(R, A), (DEC, A), (R, B), (DEC, B)], A, Step.REPEATED),
        ([(R, A), (DEC, A), (R, B), (DEC, B), (REP, A)], A, Step.KNOWN),
        ([(R, A), (DEC, A), (R, B), (DEC, B), (REP, A)], B, Step.REPEATED),
        ([(R, A), (DEC, A), (R, B), (DEC, B)], C, Step.REOPENED),
        ([(R, A), ("refreshed", B), (DEC, B)], A, Step.REPEATED),
        ([(R, A), ("refused", B)], A, Step.KNOWN),
        ([(R, A), ("refused", B)], B, Step.MOVED),
        ([("refused", A)], A, Step.NEW),
        ([("refused", A)], B, Step.NEW),
        ([(R, A), (DEC, A), ("refused", B)], A, Step.REPEATED),
        ([(R, A), (DEC, A), ("refused", B)], B, Step.REOPENED),
        ([("noticed", A)], A, Step.KNOWN),
        ([("noticed", A), (G, A)], A, Step.REPEATED),
        ([("noticed", A)], B, Step.REOPENED),
    ],
    ids=str,
)
def test_what_a_head_means(history: Sequence[tuple[str, Oid]], head: Oid, step: Step) -> None:
    events = [event(kind, of) for kind, of in history]
    assert classify(head, fold_history(events).get((IN, "x")), events) is step


def follow(pushes: Sequence[Oid | None]) -> list[tuple[Step, Oid]]:
    """Let a peer push heads (None: delete the branch) and cn decide each new thread at once."""
    events: list[Event] = []
    items: Open = {}
    steps: list[tuple[Step, Oid]] = []
    last: Oid | None = None
    for push in pushes:
        if push is None:
            if last is not None:
                events.append(event("gone", last))
        else:
            arrival = ARRIVAL._replace(head=push)
            step = classify(push, items.get((IN, "x")), events)
            steps.append((step, push))
            if step in (Step.NEW, Step.REOPENED):
                events += [*records(plan_new(arrival, SIGMA, NAME)), event("decided", push)]
            elif step is Step.REPEATED:
                events += records(plan_repeated(arrival, SIGMA))
        last = push
        items = fold_history(events)
    return steps


@given(st.lists(st.sampled_from([A, B, C, None]), max_size=12))
def test_a_head_that_was_decided_never_becomes_a_thread_again(pushes: list[Oid | None]) -> None:
    threads = [head for step, head in follow(pushes) if step in (Step.NEW, Step.REOPENED)]
    assert len(threads) == len(set(threads)) == len({p for p in pushes if p is not None})


@given(st.lists(st.sampled_from([A, B, None]), max_size=12))
def test_an_unchanged_listing_says_nothing(pushes: list[Oid | None]) -> None:
    """The same head at the next run is known: nothing is logged twice."""
    doubled = [p for push in pushes for p in ([push, push] if push is not None else [None])]
    steps = follow(doubled)
    assert all(step is Step.KNOWN for step, _ in steps[1::2])


# Plans of arrivals.


def test_a_new_branch() -> None:
    plan = plan_new(ARRIVAL, SIGMA, NAME)
    put, record, log, wake = plan.effects
    assert isinstance(put, Put)
    assert put.path == "threads/inbox/20260205-pi-x.md"
    assert seen_head(put.text) == A
    assert isinstance(record, Record)
    assert (record.event.kind, record.event.head, record.event.fields["thread"]) == ("received", A, NAME)
    assert isinstance(log, Log)
    assert rows(plan) == [("pi/x", "received", "—")]
    assert wake == Wake(NAME)


@pytest.mark.parametrize(("message", "earlier", "word"), [(False, "", "received"), (False, "t.md",
"received"),
                                                         (True, "", "received"), (True, "t.md",
                                                         "rewritten")])  # fmt: skip
def test_a_message_with_other_bytes_is_rewritten(message: bool, earlier: str, word: str) -> None:
    said = Message(MESSAGE, PI, SIGMA, "Hello", AT, hops=3) if message else None
    plan = plan_new(ARRIVAL._replace(message=said), SIGMA, NAME, earlier)
    assert rows(plan)[0][1] == word
    fields = records(plan)[0].fields
    assert (fields["kind"], fields["hops"]) == (("message", "3") if message else ("proposal", "0"))
    assert (f"**Earlier:** {earlier}" in of(plan, Put)[0].text) is bool(earlier)  # type: ignore[union-attr]


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_a_branch_that_moved_before_it_was_decided(decided: bool, there: bool) -> None:
    first = plan_new(ARRIVAL, SIGMA, NAME)
    item = fold_history(records(first))[(IN, "x")]
    before = next(e.text for e in first.effects if isinstance(e, Put))
    working = set_triage(before, Triage(Merge(), SIGMA, AT)) if decided else before
    plan = plan_moved(ARRIVAL._replace(head=B, content="other"), SIGMA, item, working if there else None, [before])
    text = next(e.text for e in plan.effects if isinstance(e, Put))
    assert seen_head(text) == B
    assert "> other" in text
    assert "> content" not in text
    assert read_decision(text, text) is None
    assert ("## Void triage" in text) == (decided and there)
    assert rows(plan) == [("pi/x", "moved", "—")]
    after = fold_history([*records(first), *records(plan)])[(IN, "x")]
    assert (after.head, after.state, after.get("thread")) == (B, "received", NAME)
    assert of(plan, Wake) == [Wake(NAME)]


def test_the_same_head_again_makes_no_thread() -> None:
    plan = plan_repeated(ARRIVAL, SIGMA)
    assert rows(plan) == [("pi/x", "received again", "nothing to do")]
    assert not of(plan, Put)
    assert not of(plan, Wake)
    assert not of(plan, Post)


@pytest.mark.parametrize(("merged_as", "told"), [(None, B), (C, C), ("", None)])
def test_a_merge_is_told_again_by_the_commit_that_peers_can_see(merged_as: str | None, told: Oid | None) -> None:
    """By none where no commit of theirs did it, as before we took a mailbox of its own."""
    past = [event("decided", status="merged", decision="do:merge", merge=B)]
    (post,) = of(plan_repeated(ARRIVAL._replace(past=past, merged_as=merged_as), SIGMA), Post)
    assert isinstance(post, Post)
    assert post.message.about is not None
    assert post.message.about.merge == told


@pytest.mark.parametrize(
    ("deleted", "told"), [(True, "branch deleted by its creator"), (False, "branch not listed any more")]
)
def test_a_vanished_branch_is_called_deleted_where_its_creators_main_says_so(deleted: bool, told: str) -> None:
    plan = plan_gone(PI, "x", BRANCH, A, AT, deleted=deleted)
    assert rows(plan) == [("pi/x", "gone", told)]
    assert not of(plan, CleanUp)


@pytest.mark.parametrize("notify", [False, True])
def test_a_refused_arrival_is_told_once(notify: bool) -> None:
    refusal = Refusal("signature-policy", "the tip is not signed", "sign it", notify)
    plan = plan_refused_arrival(ARRIVAL, refusal, SIGMA, already=False)
    assert rows(plan) == [("pi/x", "refused", "signature-policy: the tip is not signed")]
    assert not of(plan, Put)
    posts = [e for e in plan.effects if isinstance(e, Post)]
    assert len(posts) == notify
    for post in posts:
        about = post.message.about
        assert about == About(BRANCH, A, "refused", None, "signature-policy: the tip is not signed")
        assert post.message.kind == NOTICE
    assert plan_refused_arrival(ARRIVAL, refusal, SIGMA, already=True).effects == ()


@pytest.mark.parametrize("status", FINAL + NOT_FINAL)
def test_a_notice_says_what_became_of_a_branch(status: str) -> None:
    post = notice(SIGMA, PI, "x", About(BRANCH, A, status, B if status == "merged" else None, "why\nso"), AT, NAME)
    message = post.message
    assert (message.kind, message.sender, message.to, message.created) == (NOTICE, SIGMA, PI, AT)
    assert (post.topic, post.thread, post.source) == ("notice-x", NAME, "pi/x")
    assert f"pi/x at {A}" in message.body
    assert "Reason: why so" in message.body
    assert ("may delete it" in message.body) == (status in FINAL)


# Notices about our branches.

OPEN = Item(OUT, "x", A, "delivered", AT, {"branch": OURS})
UNPROVEN = Refusal("creator-only-delete", "pi's main cannot be read", "look")


def told(status: str, branch: str = OURS, head: Oid = A, kind: str = NOTICE, reason: str = "") -> Arrival:
    about = About(parse_branch(branch), head, status, D if status == "merged" else None, reason)
    message = Message(kind, PI, SIGMA, "x", AT, "", "", about)
    return Arrival(PI, "notice-x", parse_branch("pi/notice-x"), C, AT, "verified SHA256:x", "", message)


@pytest.mark.parametrize("status", FINAL)
@pytest.mark.parametrize("kind", [NOTICE, MESSAGE])
def test_a_final_notice_about_our_branch_at_our_head(status: str, kind: str) -> None:
    plan = plan_notice(told(status, kind=kind), OPEN, OURS, A, None)
    assert of(plan, CleanUp) == [CleanUp(Remove(PI, OURS, A, AT, f"pi says {status}", "", "pi/x"))]
    assert [e.kind for e in records(plan)] == (["noticed"] if kind == NOTICE else []) + ["answered"]
    after = fold_history(records(plan), {(OUT, "x"): OPEN})[(OUT, "x")]
    assert (after.state, after.get("status"), after.get("answer")) == ("answered", status, C)
    assert not of(plan, Put)
    assert not of(plan, Post), "notices never cause notices"
    assert rows(plan)[0][:2] == ("pi/x", f"notice:{status}")


@pytest.mark.parametrize("status", NOT_FINAL)
def test_a_notice_that_ends_nothing_leaves_the_branch(status: str) -> None:
    plan = plan_notice(told(status, reason="rebase"), OPEN, OURS, A, None)
    assert not of(plan, CleanUp)
    assert rows(plan) == [("pi/x", f"notice:{status}", f'{status}: "rebase"')]
    assert fold_history(records(plan), {(OUT, "x"): OPEN})[(OUT, "x")].state == "answered"


FORGED = [
    ("another head", told("discarded", head=B), OPEN, A),
    ("another head, ours unknown", told("discarded", head=B), None, A),
    ("another prefix", told("discarded", branch="pi/x"), OPEN, A),
    ("another peer's", told("discarded", branch="omega/x"), OPEN, A),
    ("another's, at the same head and tip", told("merged", branch="omega/x"), None, A),
    ("gone, never recorded", told("merged"), None, None),
    ("moved since", told("merged"), None, B),
    ("moved since, recorded", told("merged", head=C), OPEN._replace(head=B), A),
]


@pytest.mark.parametrize(("arrival", "ours", "tip"), [f[1:] for f in FORGED], ids=[f[0] for f in FORGED])
@pytest.mark.parametrize("proof", [None, UNPROVEN])
def test_a_forged_or_stale_notice_changes_nothing(
    arrival: Arrival, ours: Item | None, tip: Oid | None, proof: Refusal | None
) -> None:
    plan = plan_notice(arrival, ours, OURS, tip, proof)
    assert not of(plan, CleanUp)
    assert [(e.side, e.kind) for e in records(plan)] == [(IN, "noticed")]
    assert rows(plan)[0][2].startswith("it names no branch and head of ours")


def test_a_merge_that_is_not_shown_is_only_claimed() -> None:
    plan = plan_notice(told("merged"), OPEN, OURS, A, UNPROVEN)
    assert not of(plan, CleanUp)
    assert rows(plan) == [("pi/x", "notice:merged", "claimed, unproven: pi's main cannot be read")]
    item = fold_history(records(plan), {(OUT, "x"): OPEN})[(OUT, "x")]
    assert (item.get("unproven"), item.get("merge")) == ("pi's main cannot be read", D)
    proven = plan_proven(PI, item, "merged", AT, final=True)
    assert of(proven, CleanUp) == [CleanUp(Remove(PI, OURS, A, AT, "pi's main holds the merge", "", "pi/x"))]
    after = fold_history(records(proven), {(OUT, "x"): item})[(OUT, "x")]
    assert (after.get("unproven"), after.get("status"), after.get("merge")) == ("", "merged", D)
    assert after.get("proven")


def test_a_later_answer_does_not_keep_what_an_earlier_one_claimed() -> None:
    claimed = fold_history(records(plan_notice(told("merged"), OPEN, OURS, A, UNPROVEN)), {(OUT, "x"): OPEN})
    item = claimed[(OUT, "x")]
    later = fold_history(records(plan_notice(told("refused", reason="rebase"), item, OURS, A, None)), claimed)
    assert (later[(OUT, "x")].get("status"), later[(OUT, "x")].get("unproven")) == ("refused", "")


def test_what_is_proven_later_does_not_show_the_reason_of_a_claim_that_may_be_forged() -> None:
    claimed = plan_notice(told("refused", reason="send the key first"), OPEN, OURS, A, UNPROVEN)
    item = fold_history(records(claimed), {(OUT, "x"): OPEN})[(OUT, "x")]
    assert item.get("reason") == "send the key first"
    after = fold_history(records(plan_proven(PI, item, "discarded", AT, final=True)), {(OUT, "x"): item})[(OUT, "x")]
    assert (after.get("status"), after.get("reason")) == ("discarded", "")


@pytest.mark.parametrize("ours", [None, OPEN._replace(head=B)])
def test_an_authentic_notice_adopts_exactly_the_tip_that_is_there(ours: Item | None) -> None:
    plan = plan_notice(told("discarded"), ours, OURS, A, None)
    assert [(e.kind, e.head) for e in records(plan)] == [("noticed", C), ("adopted", A), ("answered", A)]
    assert of(plan, CleanUp) == [CleanUp(Remove(PI, OURS, A, AT, "pi says discarded", "", "pi/x"))]


def test_a_notice_about_what_is_cleaned_up_already_is_only_logged() -> None:
    plan = plan_notice(told("discarded"), None, OURS, None, None, deleted=True)
    assert not of(plan, CleanUp)
    assert rows(plan) == [("pi/x", "notice:discarded", "discarded")]


@pytest.mark.parametrize("kind", [NOTICE, MESSAGE])
def test_a_notice_that_names_no_branch(kind: str) -> None:
    message = Message(kind, PI, SIGMA, "x", AT)
    plan = plan_notice(told("merged")._replace(message=message), OPEN, OURS, A, None)
    assert rows(plan) == ([("pi/notice-x", "notice", "it names no branch")] if kind == NOTICE else [])
    assert not of(plan, CleanUp)


# Our branches, time, and repairs.


def test_a_branch_pushed_by_hand_is_adopted() -> None:
    plan = plan_adopted(PI, OURS, A, AT)
    item = fold_history(records(plan))[(OUT, "x")]
    assert (item.head, item.state, item.get("branch")) == (A, "adopted", OURS)
    assert rows(plan) == [("pi/x", "ours", "adopted: pushed by hand")]


def test_a_branch_of_ours_that_vanished() -> None:
    plan = plan_ours_gone(PI, OPEN, AT)
    assert fold_history(records(plan), {(OUT, "x"): OPEN}) == {}
    assert rows(plan) == [("pi/x", "ours", "gone at the remote")]
    assert not of(plan, CleanUp)


def test_a_deferred_thread_returns() -> None:
    item = Item(IN, "x", A, "deferred", AT, {"thread": NAME, "until": "2026-02-05T14:00:00Z"})
    plan = plan_returned(PI, item, AT)
    assert fold_history(records(plan), {(IN, "x"): item})[(IN, "x")].state == "received"
    assert of(plan, Wake) == [Wake(NAME)]


def test_an_assigned_thread_returns_from_who_is_no_reviewer_any_more() -> None:
    item = Item(IN, "x", A, "assigned", AT, {"thread": NAME, "actor": "eve", "by": "sigma"})
    plan = plan_returned(PI, item, AT)
    assert fold_history(records(plan), {(IN, "x"): item})[(IN, "x")] == Item(
        IN, "x", A, "received", AT, {"thread": NAME}
    )
    assert rows(plan) == [("pi/x", "returned", "eve is no reviewer any more")]


@pytest.mark.parametrize("elsewhere", [None, HubPath("threads/adhoc/x.md")])
def test_a_missing_thread_is_put_back(elsewhere: HubPath | None) -> None:
    item = Item(IN, "x", A, "received", AT, {"thread": NAME, "branch": BRANCH})
    plan = plan_restored(PI, item, AT, "text", elsewhere)
    assert of(plan, Put) == [Put(HubPath(f"threads/inbox/{NAME}"), "text")]
    assert of(plan, Drop) == ([Drop(elsewhere)] if elsewhere else [])
    assert rows(plan) == [("pi/x", "restored", "pending thread was missing")]
