"""The conversation: read whatever it holds, bounded, and nothing in it twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.agent.plan.conversation import (
    ASSISTANT,
    CARRIED,
    CUT,
    MOST_BYTES,
    MOST_ENTRIES,
    PATH,
    TEXT_BYTES,
    USER,
    Conversation,
    Entry,
    append,
    day_path,
    format_conversation,
    new_entry,
    parse_conversation,
    rotate,
)
from cn.protocol.hub_config import is_local
from cn.values.names import HubPath

NOON = datetime(2026, 2, 19, 12, 0, tzinfo=UTC)
CHAT = "telegram:498316684"
ID = "20260219-141209-abc123"

anything = st.text(st.characters(exclude_categories=()), max_size=40)
entries = st.builds(
    new_entry,
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 3, 1)).map(lambda d: d.replace(tzinfo=UTC)),
    st.sampled_from([CHAT, "telegram:-7", "pi"]),
    st.sampled_from([USER, ASSISTANT]),
    anything,
    st.sampled_from(["", ID, "20260219-141209-abc124"]),
)


def talk(*said: Entry) -> Conversation:
    return append(Conversation(), *said)


def said(minutes: float, text: str = "x", sender: str = CHAT, role: str = USER) -> Entry:
    return new_entry(NOON + timedelta(minutes=minutes), sender, role, text)


@given(st.lists(entries, max_size=8))
def test_what_is_written_is_read_back(found: list[Entry]) -> None:
    conversation = talk(*found)
    data = format_conversation(conversation)
    assert parse_conversation(data) == conversation
    assert format_conversation(parse_conversation(data)) == data


def test_the_file_says_chat_or_peer_and_has_a_line_for_each() -> None:
    conversation = talk(new_entry(NOON, CHAT, USER, "Grüße\n---", ID), said(1, "hi", "pi", ASSISTANT))
    assert format_conversation(conversation).decode() == (
        "[\n"
        ' {"at": "2026-02-19T12:00:00Z", "chat": "telegram:498316684", "role": "user",'
        ' "text": "Grüße\\n---", "input": "20260219-141209-abc123"},\n'
        ' {"at": "2026-02-19T12:01:00Z", "peer": "pi", "role": "assistant", "text": "hi"}\n'
        "]\n"
    )
    assert format_conversation(Conversation()) == b"[]\n"


@pytest.mark.parametrize("data", [b"{", b"{}", b"3", b"null", b"\xff", b"[" * 100_000, b'["', b"x" * (9 << 20)])
def test_a_damaged_file_is_empty_and_reported(data: bytes) -> None:
    found = parse_conversation(data)
    assert found.entries == ()
    assert found.problems
    assert PATH in found.problems[0]


def test_an_empty_file_is_empty() -> None:
    assert parse_conversation(b"") == parse_conversation(b"[]") == Conversation()


def test_entries_that_cannot_be_read_are_left_out_and_counted() -> None:
    good = {"at": "2026-02-19T12:00Z", "chat": CHAT, "role": "user", "text": "a\ud800"}
    bad = [3, {}, {**good, "role": "system"}, {**good, "at": "soon"}, {**good, "text": 1}, {**good, "chat": ""}]
    found = parse_conversation(json.dumps([*bad, good]).encode())
    assert [e.text for e in found.entries] == ["a?"]
    assert found.problems == ("state/conversation.json: 6 of 7 entries cannot be read and are left out",)


@given(st.binary(max_size=60) | st.text(alphabet='[]{},:"\\u0d8atx1 ', max_size=60).map(str.encode))
def test_reading_never_fails(data: bytes) -> None:
    parse_conversation(data)


def test_a_step_that_is_repeated_adds_nothing_twice() -> None:
    first = new_entry(NOON, CHAT, USER, "hi", ID)
    conversation = talk(first)
    assert append(conversation, first) == conversation
    later = new_entry(NOON + timedelta(hours=1), CHAT, USER, "hi again", ID)
    assert append(conversation, later) == conversation
    answer = new_entry(NOON, CHAT, ASSISTANT, "hi", ID)
    assert append(conversation, answer, answer).entries == (first, answer)
    assert append(talk(said(0)), said(0)).entries == (said(0),)


def test_the_last_of_one_chat_in_order() -> None:
    conversation = talk(said(3, "c"), said(1, "a"), said(2, "b", "pi"), new_entry(NOON, CHAT, USER, "now", ID))
    assert [e.text for e in conversation.last(CHAT, 2)] == ["a", "c"]
    assert [e.text for e in conversation.last(CHAT, 9, but=ID)] == ["a", "c"]
    assert conversation.last(CHAT, 0) == conversation.last("rho", 9) == ()


def test_a_long_text_is_cut_and_says_so() -> None:
    entry = said(0, "ü" * TEXT_BYTES)
    assert len(entry.text.encode()) <= TEXT_BYTES
    assert entry.text.endswith(f"ü\n{CUT}")
    assert said(0, entry.text) == entry


def test_earlier_days_move_out_but_the_last_of_each_chat() -> None:
    day = 24 * 60
    old = [said(-day - n, f"{n}") for n in range(CARRIED + 5)]
    peers = [said(-day, "p", "pi"), said(-8 * day, "long ago", "omega")]
    today = [said(0, "today")]
    kept, moved = rotate(talk(*old, *peers, *today), NOON)
    assert [e.text for e in kept.last(CHAT, 99)] == [str(n) for n in reversed(range(CARRIED - 1))] + ["today"]
    assert [e.text for e in kept.last("pi", 9)] == ["p"]
    assert [e.text for e in moved[HubPath("state/conversation/2026/20260218.json")]] == [
        "24",
        "23",
        "22",
        "21",
        "20",
        "19",
    ]
    assert [e.text for e in moved[HubPath("state/conversation/2026/20260211.json")]] == ["long ago"]
    assert rotate(kept, NOON) == (kept, {})


@given(st.lists(entries, max_size=60))
def test_nothing_is_lost_by_rotating(found: list[Entry]) -> None:
    conversation = talk(*found)
    kept, moved = rotate(conversation, NOON)
    back = append(kept, *(e for day in moved.values() for e in day))
    assert sorted(back.entries, key=repr) == sorted(conversation.entries, key=repr)
    assert all(day_path(e.at) == path for path, day in moved.items() for e in day)


def test_a_busy_day_is_bounded_too() -> None:
    many, moved = rotate(talk(*(said(n / 60, f"{n}") for n in range(MOST_ENTRIES + 7))), NOON)
    assert len(many.entries) == MOST_ENTRIES
    assert [len(day) for day in moved.values()] == [7]
    big, _ = rotate(talk(*(said(n, "x" * TEXT_BYTES + str(n)) for n in range(60))), NOON)
    assert len(format_conversation(big)) <= MOST_BYTES + 10


def test_what_left_stays_local_with_the_file() -> None:
    local = (HubPath("state/conversation.json"),)
    assert is_local(day_path(NOON), local)
    assert is_local(PATH, local)
    assert not is_local("state/conversation2.json", local)
    assert not is_local(day_path(NOON), ())
