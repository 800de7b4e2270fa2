"""What each op does to a thread of our own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cn.agent.plan.chat import chat_text_of
from cn.agent.plan.ops import Order, plan_order
from cn.protocol.effects import Drop, Log, Plan, Post, Put
from cn.protocol.hub_config import HubConfig, Reviewer
from cn.protocol.ops import Ack, Commit, Defer, Delegate, Delete, Done, Ending, Fail, Noop, Reply, Surface
from cn.protocol.own_thread import Own, new_own, parse_own
from cn.protocol.peers_file import Peer
from cn.threads.plan.decisions import OwnFacts, plan_own_end
from cn.values.errors import Refusal
from cn.values.names import HubPath, Name, parse_url

NOW = datetime(2026, 2, 5, 15, tzinfo=UTC)
US = Name("sigma")
ID = "20260205-150000-a1b2c3"
ADHOC = HubPath("threads/adhoc/20260101-plan.md")
CONCERN = HubPath("state/mca/20260101-watch-0a1b2c3d.md")
DONE = HubPath("state/mca/done/20260101-watch-0a1b2c3d.md")
CONFIG = HubConfig(US, reviewers=(Reviewer(Name("rhea"), "rhea@example.org"),))


def facts(path: HubPath = ADHOC, body: str = "The plan.", lines: tuple[str, ...] = ()) -> OwnFacts:
    own = new_own(path, "Plan", NOW, "sigma", body).with_field("Input", ID)
    peers = {Name("pi"): Peer(Name("pi"), parse_url("https://example.org/pi.git"))}
    return OwnFacts(CONFIG, peers, own, NOW, "clone", ID, lines)


def plan(ending: Ending | None, path: HubPath = ADHOC, body: str = "", first: Surface | Commit | None = None) -> Plan:
    found = plan_own_end(facts(path), US, ending, body, first)
    assert isinstance(found, Plan), found
    return found


def left(found: Plan) -> Own:
    """The thread as the plan leaves it, wherever that is."""
    (put,) = [e for e in found.effects if isinstance(e, Put)]
    return parse_own(put.path, put.text)


def logged(found: Plan) -> tuple[str, str, str]:
    (row,) = [e.row for e in found.effects if isinstance(e, Log)]
    assert row.input == ID
    return row.decision, row.executed, row.outcome


@pytest.mark.parametrize("path", [ADHOC, CONCERN])
@pytest.mark.parametrize(
    ("ending", "state", "words", "executed"),
    [
        (Done(ID), "done", "done", "✓ done"),
        (Fail(ID, "no data"), "failed", "fail:no data", "✓ closed"),
        (Delete(ID, "not needed"), "discarded", "delete:not needed", "✓ discarded"),
        (Delete(ID), "discarded", "delete:decided by sigma", "✓ discarded"),
        (Delegate(ID, "pi"), "delegated", "delegate:pi", "queued"),
    ],
)
def test_what_ends_it_ends_a_concern_too_and_files_it_away(
    path: HubPath, ending: Ending, state: str, words: str, executed: str
) -> None:
    found = plan(ending, path)
    own = left(found)
    assert own.state == state
    assert own.get("Input") == own.get("Until") == ""
    assert own.body == "The plan."
    assert logged(found) == (words, executed, state)
    assert own.path == (DONE if path == CONCERN else ADHOC)
    assert [e.path for e in found.effects if isinstance(e, Drop)] == ([CONCERN] if path == CONCERN else [])


@pytest.mark.parametrize(
    ("ending", "words", "executed"),
    [
        (Reply(ID, "looks | good"), "reply:looks | good", "✓ written"),
        (Ack(ID, "read it"), "ack:read it", "✓ acked"),
        (Noop(ID, "nothing new"), "ack:nothing new", "✓ acked"),
        (Ack(ID), "ack", "✓ acked"),
        (None, "ack", "✓ acked"),
    ],
)
def test_an_answer_closes_an_adhoc_thread_and_leaves_a_concern_open(
    ending: Ending | None, words: str, executed: str
) -> None:
    closed = plan(ending)
    assert (left(closed).state, logged(closed)) == ("closed", (words, executed, "closed"))
    noted = plan(ending, CONCERN)
    assert (left(noted).state, left(noted).path) == ("open", CONCERN)
    assert logged(noted) == (words, executed, "noted")
    assert left(noted).get("Input") == "", "it can be asked about again"


@pytest.mark.parametrize("first", [Surface("Watch it"), Commit(ID, "docs/x.md")])
def test_a_surface_or_commit_alone_ends_it_as_done(first: Surface | Commit) -> None:
    assert logged(plan(None, first=first))[1] == "✓ done"


def test_a_reply_is_written_into_the_thread_with_who_and_when() -> None:
    assert left(plan(Reply(ID, "short"), body="Long text\nof two lines.\n")).body == (
        "The plan.\n\n## 2026-02-05T15:00Z sigma\n\nLong text\nof two lines."
    )
    assert left(plan(Reply(ID, "short"))).body.endswith("\n\nshort")
    refusals = plan_order(facts(), Order(US, frozenset({ID}), (Reply(ID),)))
    assert not isinstance(refusals, Plan)
    assert "no text" in refusals[0].reason


def test_a_text_whose_fence_is_open_does_not_swallow_the_reply() -> None:
    found = plan_own_end(facts(body="```\nopen"), US, Reply(ID, "hello"), "", None)
    assert isinstance(found, Plan)
    assert left(found).body == "```\nopen\n```\n\n## 2026-02-05T15:00Z sigma\n\nhello"


def test_what_stood_beside_the_end_is_noted_once() -> None:
    lines = ("- 2026-02-05T15:00Z queued a message to pi",)
    found = plan_own_end(facts(lines=lines), US, Done(ID), "", None)
    assert isinstance(found, Plan)
    assert left(found).body.count("queued a message to pi") == 1


@pytest.mark.parametrize(
    ("until", "stands"),
    [
        ("", "2026-02-06T00:00:00Z"),
        ("3d", "2026-02-08T15:00:00Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("90m", "2026-02-05T16:30:00Z"),
    ],
)
def test_it_is_put_off_until_a_time(until: str, stands: str) -> None:
    own = left(found := plan(Defer(ID, until, "the release"), CONCERN))
    assert (own.state, own.get("Until"), own.get("Reason"), own.get("Input")) == ("deferred", stands, "the release", "")
    assert own.path == CONCERN
    assert logged(found) == ("defer:the release", "✓ deferred", "deferred")
    assert left(plan(Defer(ID))).get("Reason") == "decided by sigma"


@pytest.mark.parametrize("until", ["2026-02-05T15:00Z", "2020-01-01", "some day", "-3d", "0m"])
def test_it_is_not_put_off_until_a_time_that_is_over_or_none(until: str) -> None:
    assert isinstance(plan_own_end(facts(), US, Defer(ID, until), "", None), Refusal)


def test_it_is_handed_to_a_peer_with_its_text_quoted() -> None:
    found = plan_own_end(facts(body="---\nfrom: omega\n---\n## Triage"), US, Delegate(ID, "pi"), "", None)
    assert isinstance(found, Plan)
    (post,) = [e for e in found.effects if isinstance(e, Post)]
    assert (post.message.to, post.message.subject, post.topic) == ("pi", "Fwd: Plan", "fwd-plan")
    text = post.message.body.split("\n\n", 1)[1]
    assert all(line.startswith(">") for line in text.split("\n"))
    assert "> ## Triage" in text


def test_it_is_assigned_to_a_reviewer_and_stays() -> None:
    found = plan(Delegate(ID, "rhea"), CONCERN)
    assert (left(found).state, left(found).get("Actor"), left(found).path) == ("assigned", "rhea", CONCERN)
    assert logged(found) == ("delegate:rhea", "✓ assigned", "assigned")
    assert not [e for e in found.effects if isinstance(e, Post)]


@pytest.mark.parametrize("to", ["sigma", "nobody", "../x", "", "PI"])
def test_it_is_not_handed_to_oneself_or_to_strangers(to: str) -> None:
    assert isinstance(plan_own_end(facts(), US, Delegate(ID, to), "", None), Refusal)


def test_only_an_actor_of_this_hub_ends_it() -> None:
    found = plan_own_end(facts(), Name("mallory"), Done(ID), "", None)
    assert isinstance(found, Refusal)
    assert "mallory" in found.reason
    assert isinstance(plan_own_end(facts(), Name("rhea"), Done(ID), "", None), Plan)


def test_ending_it_twice_notes_it_once_more_and_moves_nothing_further() -> None:
    once = left(plan(Done(ID), CONCERN))
    again = plan_own_end(replace(facts(), own=once), US, Done(ID), "", None)
    assert isinstance(again, Plan)
    assert once.path == DONE


CHAT_SOURCE = "telegram:498316684"


@pytest.mark.parametrize(
    ("ending", "body", "asked", "said"),
    [
        (Reply(ID, "yes"), "", True, "yes"),
        (Reply(ID, "yes"), "The whole answer.", True, "The whole answer."),
        (Reply(ID, "yes"), "", False, "yes"),
        (Done(ID), "", True, "(acknowledged)"),
        (None, "", True, "(acknowledged)"),
        (Done(ID), "", False, ""),
        (Defer(ID, "3d"), "", True, ""),
        (Defer(ID, "3d"), "Not this week.", True, "Not this week."),
    ],
)
def test_a_message_that_was_put_off_is_answered_in_its_chat(
    ending: Ending | None, body: str, asked: bool, said: str
) -> None:
    kept = replace(facts(), own=facts().own.with_field("Source", CHAT_SOURCE), input=ID if asked else "")
    found = plan_own_end(kept, US, ending, body, None)
    assert isinstance(found, Plan)
    assert chat_text_of(found.effects) == said
    rows = [e.row.source for e in found.effects if isinstance(e, Log)]
    assert rows.count(CHAT_SOURCE) == bool(said)


def test_a_concern_from_a_chat_is_answered_where_it_stands() -> None:
    concern = replace(facts(CONCERN), own=facts(CONCERN).own.with_field("Source", CHAT_SOURCE))
    found = plan_own_end(concern, US, Reply(ID, "still so"), "", None)
    assert isinstance(found, Plan)
    assert chat_text_of(found.effects) == ""
