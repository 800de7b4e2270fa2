"""Telegram's updates as values, and long texts in parts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.telegram.api import (
    EDITED,
    LONGEST_PAUSE,
    Command,
    Failure,
    Ignored,
    Incoming,
    Pauses,
    Trouble,
    Unsupported,
    is_allowed,
    read_update,
)
from cn.values.split_text import split_text

LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4))
NAMES = st.sampled_from(["update_id", "message", "edited_message", "from", "chat", "id", "date", "text", "photo"])
SHAPED = st.recursive(LEAF, lambda inner: st.dictionaries(NAMES, inner, max_size=8), max_leaves=20)


def update(**message: Any) -> dict[str, Any]:
    """A message as Telegram sends it."""
    person = {"id": 498316684, "is_bot": False, "first_name": "U"}
    chat = {"id": 498316684, "type": "private"}
    return {"update_id": 7, "message": {"message_id": 3, "from": person, "chat": chat, "date": 1770300000, **message}}


def kind(**message: Any) -> object:
    found = read_update(update(**message))
    return found.kind if isinstance(found, Incoming) else found


def test_a_text_message_is_read_whole() -> None:
    assert read_update(update(text="hi")) == Incoming(
        7, 498316684, 498316684, 3, datetime(2026, 2, 5, 14, tzinfo=UTC), "hi"
    )


def test_an_edited_message_is_told_from_a_new_one() -> None:
    data = update(text="hi", edit_date=1770300060)
    data["edited_message"] = data.pop("message")
    found = read_update(data)
    assert isinstance(found, Incoming)
    assert (found.kind, found.at.minute) == (EDITED, 1)


@pytest.mark.parametrize(
    ("text", "kind_"),
    [
        ("/status", Command.STATUS),
        ("/STATUS", Command.STATUS),
        ("/inbox@some_bot now", Command.INBOX),
        ("/start abc", Command.START),
        ("/start\nabc", Command.START),
        ("/statuses", None),
        (" /status", None),
        ("what is /status?", None),
        ("/help", None),
    ],
)
def test_commands(text: str, kind_: object) -> None:
    assert kind(text=text) == kind_


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({"photo": [{}], "caption": "look"}, "photo"),
        ({"voice": {}}, "voice"),
        ({"animation": {}, "document": {}}, "animation"),
        ({"venue": {}, "location": {}}, "venue"),
        ({"sticker": {}}, "sticker"),
        ({"document": {}}, "document"),
    ],
)
def test_media_are_named(message: dict[str, Any], what: str) -> None:
    found = kind(**message)
    assert isinstance(found, Unsupported)
    assert found.what == what
    assert what in found.reply


def test_every_answer_to_what_is_not_supported_says_what_to_do() -> None:
    assert "new message" in EDITED.reply
    found = kind(video_note={})
    assert isinstance(found, Unsupported)
    assert "video note" in found.reply


@pytest.mark.parametrize(
    "data",
    [
        update(new_chat_members=[{}]),
        update(text=""),
        update(text=" \n"),
        update(text=None, pinned_message={}),
        update(text="hi", **{"from": None}),
        update(text="hi", chat={"id": "12"}),
        update(text="hi", message_id=True),
        {"update_id": 7, "channel_post": update()["message"]},
        {"update_id": 7, "message": []},
    ],
)
def test_what_asks_for_nothing_is_ignored_by_its_number(data: object) -> None:
    found = read_update(data)
    assert isinstance(found, Ignored)
    assert found.update_id == 7


@given(JSON | SHAPED)
@example({"update_id": True})
@example(update(text="x", date=10**18))
@example(update(text="x", date=-(10**18)))
def test_any_json_is_read_as_something(data: object) -> None:
    found = read_update(data)
    assert isinstance(found, Incoming | Ignored)
    if isinstance(found, Incoming):
        found.text.encode()


def test_half_a_character_becomes_one_that_can_be_stored() -> None:
    found = read_update(json.loads(json.dumps(update(text="x")).replace('"x"', '"a\\ud83d"')))
    assert isinstance(found, Incoming)
    assert found.text == "a\ufffd"


def test_an_empty_list_allows_nobody() -> None:
    assert not is_allowed(1, ())
    assert is_allowed(1, (2, 1))


# Splitting.

UNTIDY = st.text(st.sampled_from("ab .\n\t!é\u0301😀\u200d👩🏽🇩🇪\r中\u3000"), max_size=80)


@given(UNTIDY | st.text(max_size=80), st.integers(2, 30))
@example("a" * 10, 3)
@example(" " * 10 + "a", 3)
@example('x. "y." z', 5)
def test_parts_fit_and_lose_nothing_but_white_space_at_cuts(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(len(part.encode("utf-16-le")) <= 2 * limit and part.strip() for part in parts)
    rest = text
    for part in parts:
        at = rest.index(part)
        assert not rest[:at].strip()
        rest = rest[at + len(part) :]
    assert not rest.strip()


@given(st.text(st.sampled_from("ab \n😀é"), max_size=60))
def test_what_fits_stays_as_it_is(text: str) -> None:
    assert split_text(text) == ((text,) if text.strip() else ())


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("one two\n\nthree four", 15, ("one two", "three four")),
        ("one two\nthree four", 15, ("one two", "three four")),
        ("One two. Three four", 15, ("One two.", "Three four")),
        ('He said "so." Then left', 18, ('He said "so."', "Then left")),
        ("one two three", 9, ("one two", "three")),
        ("onetwothree", 4, ("onet", "woth", "ree")),
        ("a\n\nbcdefghij klm nop", 18, ("a\n\nbcdefghij klm", "nop")),
        ("one\n    two three", 9, ("one", "two three")),
        ("abcd    efgh", 4, ("abcd", "efgh")),
        ("😀😀😀", 4, ("😀😀", "😀")),
        ("😀😀", 3, ("😀", "😀")),
        ("aae\u0301", 3, ("aa", "e\u0301")),
        ("a👩\u200d👩\u200d👧", 8, ("a", "👩\u200d👩\u200d👧")),
        ("aa👍🏽", 4, ("aa", "👍🏽")),
        ("🇩🇪🇫🇷", 6, ("🇩🇪", "🇫🇷")),
        ("a" + "\u0301" * 5, 3, ("a\u0301\u0301", "\u0301\u0301\u0301")),
    ],
)
def test_cuts_are_made_where_a_reader_would_pause(text: str, limit: int, parts: tuple[str, ...]) -> None:
    assert split_text(text, limit) == parts


def test_a_limit_that_holds_no_character_is_refused() -> None:
    with pytest.raises(ValueError, match="limit 1"):
        split_text("a", 1)


def test_a_megabyte_is_split_in_a_moment() -> None:
    parts = split_text("word " * 200_000)
    assert len(parts) == 245


# Failures and pauses.


@pytest.mark.parametrize("trouble", Trouble)
def test_only_what_certainly_did_not_arrive_may_be_sent_again(trouble: Trouble) -> None:
    assert Failure(trouble, "").is_unsent is (trouble not in (Trouble.UNKNOWN, Trouble.SERVER))


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_are_bounded(tries: int, chance: float) -> None:
    pauses = Pauses(1, 60)
    pause = pauses.after(tries, chance)
    assert 0.5 <= pause <= 60
    assert pause <= pauses.after(tries + 1, chance)


def test_nobody_makes_the_daemon_wait_for_days() -> None:
    assert Pauses().after(1, 0.5, Failure(Trouble.RATE_LIMITED, "", 999_999)) <= LONGEST_PAUSE + 1


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True), st.floats(0.1, 1000))
def test_what_telegram_asks_for_is_never_undercut(tries: int, chance: float, seconds: float) -> None:
    assert Pauses().after(tries, chance, Failure(Trouble.RATE_LIMITED, "", seconds)) >= seconds
