"""The chain holds what the ledger recorded, in its order, and says what is waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.ledger import IN, OUT, Event
from cn.protocol.thread_life import Link, Written, executed_text, read_chain, read_lives
from cn.values.names import Oid

T0 = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)
A, B, C, MERGE, NOTICE = (Oid(c * 40) for c in "abcde")
THREAD = "20260205-pi-proposal.md"


def at(minutes: int) -> datetime:
    return T0 + timedelta(minutes=minutes)


def event(minutes: int, kind: str, head: Oid = A, topic: str = "proposal", side: str = IN, **fields: str) -> Event:
    return Event(at(minutes), side, kind, topic, head, fields)


def received(minutes: int = 0, head: Oid = A, thread: str = THREAD) -> Event:
    return event(minutes, "received", head, branch="pi/proposal", thread=thread)


def decided(minutes: int, status: str = "merged", decision: str = "do:merge", merge: str = MERGE) -> Event:
    return event(
        minutes, "decided", status=status, decision=decision, merge=merge, actor="sigma",
        decided="2026-02-05T14:20:00Z", thread=THREAD,
    )  # fmt: skip


def answer(minutes: int, kind: str, status: str = "merged", about: Oid = A, head: Oid = NOTICE) -> Event:
    fields = {"about_head": about, "about_status": status, "branch": "sigma/notice-proposal"}
    return event(minutes, kind, head, "notice-proposal", OUT, **(fields if kind == "queued" else {}))


def chain(*events: Event, written: Written | None = None) -> tuple[Link, ...]:
    return read_chain(read_lives(events)[0], written=written)


def steps(links: tuple[Link, ...]) -> list[str]:
    return [link.step for link in links]


def waited(links: tuple[Link, ...]) -> dict[str, datetime]:
    return {link.step: link.since for link in links if link.since is not None}


def test_a_whole_life_has_a_time_for_every_step() -> None:
    links = chain(
        received(), decided(30), answer(30, "queued"), answer(31, "delivered"), event(40, "gone"),
        answer(40, "deleting"), answer(40, "deleted"),
    )  # fmt: skip
    assert [(link.step, link.at) for link in links] == [
        ("received", at(0)),
        ("decided", at(20)),
        ("executed", at(30)),
        ("creator_informed", at(31)),
        ("branch_deleted", at(40)),
    ]
    executed = links[2]
    assert (executed.head, executed.commit) == (A, MERGE)


def test_shown_is_never_claimed() -> None:
    links = chain(received(), decided(30))
    assert "shown" not in steps(links)


def test_a_pending_thread_waits_for_its_decision_and_only_for_that() -> None:
    links = chain(received())
    assert steps(links) == ["received", "decided", "executed", "creator_informed", "branch_deleted"]
    assert waited(links) == {"decided": at(0)}


@pytest.mark.parametrize(
    ("between", "step", "text"),
    [
        (event(5, "refreshed", B), "moved", ""),
        (event(5, "refreshed", A, anew="1"), "received", "shown anew, the same head"),
        (event(5, "deferred", until="2026-02-06T00:00:00Z", reason="later"), "deferred", "2026-02-06T00:00Z"),
        (event(5, "assigned", actor="rho"), "assigned", "rho"),
        (event(5, "refused", rule="no-self-merge", why="sigma made it"), "refused", "no-self-merge"),
    ],
)
def test_what_comes_between_is_a_link_and_the_wait_starts_anew(between: Event, step: str, text: str) -> None:
    links = chain(received(), between)
    assert links[1].step == step
    assert links[1].at == at(5)
    assert text in links[1].text or text in links[2].text
    assert waited(links) == {"decided": at(5)}


def test_a_decision_in_the_working_copy_waits_for_process() -> None:
    links = chain(received(), written=Written("do:merge", "sigma", at(7)))
    assert links[1] == Link("decided", at(7), "do:merge by sigma", A)
    assert waited(links) == {"executed": at(7)}


def test_an_unreadable_decision_decides_nothing() -> None:
    links = chain(received(), written=Written("", "", None, "the Triage section lacks actor"))
    assert links[1].at is None
    assert links[1].text == "the Triage section lacks actor"


def test_until_the_notice_is_delivered_the_creator_is_not_informed() -> None:
    links = chain(received(), decided(30), answer(30, "queued"))
    assert waited(links) == {"creator_informed": at(30)}
    delivered = chain(received(), decided(30), answer(30, "queued"), answer(33, "delivered"))
    assert waited(delivered) == {"branch_deleted": at(33)}


def test_the_notice_of_a_refusal_does_not_count_as_the_final_answer() -> None:
    links = chain(
        received(), event(3, "refused", rule="r", why="w"),
        answer(3, "queued", "refused"), answer(4, "delivered", "refused"),
    )  # fmt: skip
    assert steps(links)[:3] == ["received", "refused", "creator_told"]
    assert links[-2] == Link("creator_informed", None)


def test_a_branch_withdrawn_before_the_decision_is_deleted_in_its_place() -> None:
    links = chain(received(), event(2, "gone"), decided(30, "discarded", "delete:gone", ""))
    assert steps(links) == ["received", "branch_deleted", "decided", "executed", "creator_informed"]


def test_a_branch_pushed_again_after_its_deletion_waits_for_the_creator_again() -> None:
    links = chain(
        received(), decided(30), answer(30, "queued"), answer(31, "delivered"), event(40, "gone"),
        event(50, "repeated"),
    )  # fmt: skip
    assert links[-1].step == "branch_deleted"
    assert links[-1].at is None


def test_a_branch_that_moved_on_continues_in_another_thread() -> None:
    first, second = read_lives(
        [received(), decided(30), received(60, B, "20260205-pi-proposal-bbbbbbbb.md"), event(70, "gone", B)]
    )
    assert read_chain(first)[-1] == Link("continued", at(60), "20260205-pi-proposal-bbbbbbbb.md", B)
    assert "branch_deleted" not in steps(read_chain(first))
    assert steps(read_chain(second))[:2] == ["received", "branch_deleted"]


def test_answers_about_other_heads_belong_to_other_threads() -> None:
    links = chain(received(), decided(30), answer(30, "queued", about=C), answer(31, "delivered", about=C))
    assert waited(links) == {"creator_informed": at(30)}


def test_a_forwarded_thread_says_when_it_reached_the_other_peer() -> None:
    queued = event(30, "queued", C, "fwd-pi-proposal", OUT, branch="sigma/fwd-pi-proposal", thread=THREAD)
    life = read_lives([received(), decided(30, "delegated", "delegate:omega", "")])[0]
    waiting = read_chain(life, forwards=[queued])
    assert Link("forwarded", None, "on sigma/fwd-pi-proposal", since=at(30)) in waiting
    done = read_chain(life, forwards=[queued, event(35, "delivered", C, "fwd-pi-proposal", OUT)])
    assert ("forwarded", at(35)) in [(link.step, link.at) for link in done]


@pytest.mark.parametrize(
    ("status", "delivered", "text"),
    [
        ("merged", True, "✓ merged eeeeeee"),
        ("discarded", False, "✓ discarded"),
        ("replied", False, "queued"),
        ("replied", True, "✓ delivered"),
        ("delegated", False, "queued"),
    ],
)
def test_executed_reads_as_in_the_log(status: str, delivered: bool, text: str) -> None:
    assert executed_text(status, "e" * 40 if status == "merged" else "", delivered) == text


_EVENTS = st.lists(
    st.builds(
        lambda n, kind, head, topic: (n, kind, head, topic),
        st.integers(0, 99),
        st.sampled_from(["received", "refreshed", "repeated", "refused", "decided", "gone", "queued", "delivered"]),
        st.sampled_from([A, B, C]),
        st.sampled_from(["proposal", "other"]),
    ),
    max_size=20,
)


@given(_EVENTS)
def test_any_history_gives_a_chain_and_at_most_one_event_each(found: list[tuple[int, str, Oid, str]]) -> None:
    events = []
    for n, kind, head, topic in found:
        if kind in ("queued", "delivered"):
            events.append(event(n, kind, NOTICE, f"notice-{topic}", OUT, about_head=head, about_status="merged"))
        else:
            events.append(event(n, kind, head, topic, thread=THREAD, status="merged"))
    lives = read_lives(events)
    assert sum(len(life.events) for life in lives) <= len(events)
    for life in lives:
        assert read_chain(life)[0].step == "received"
