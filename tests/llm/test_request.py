"""Requests are sent as they are shown; answers and errors become values (Messages API)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.llm.request import (
    MAX_WAIT,
    Answer,
    Block,
    Checked,
    Failure,
    Kind,
    Request,
    RequestRefused,
    Said,
    Stop,
    Usage,
    count_json,
    parse_retry_after,
    pause_before,
    read_answer,
    read_count,
    read_error,
    read_model,
    request_json,
)
from cn.values.known_secrets import hide
from tests.support.model_server import problem_of

KEY = "sk-ant-0123456789abcdef"
NOW = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=()), min_size=1, max_size=30).filter(lambda t: bool(t.strip()))


def request(**changes: Any) -> Request:
    parts: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 8192,
        "system": (Block("who you are", cached=True), Block("the hub", cached=True)),
        "messages": (Said("user", "hello"), Said("assistant", "yes?"), Said("user", "go on")),
    }
    return Request(**{**parts, **changes})


def message(**changes: Any) -> bytes:
    body: dict[str, Any] = {
        "id": "msg_1",
        "model": "claude-sonnet-5-5",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return json.dumps({**body, **changes}).encode()


# The request.


def test_the_body_has_two_breakpoints_and_no_tools() -> None:
    assert json.loads(request_json(request())) == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 8192,
        "system": [
            {"type": "text", "text": "who you are", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "the hub", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "yes?"},
            {"role": "user", "content": "go on"},
        ],
    }


def test_the_order_of_the_keys_is_fixed_and_the_stable_part_first() -> None:
    text = request_json(request())
    places = [text.index(f'\n  "{key}"') for key in ("model", "max_tokens", "system", "messages")]
    assert places == sorted(places)


def test_without_system_the_key_is_left_out() -> None:
    assert "system" not in json.loads(request_json(request(system=())))


@given(st.lists(st.builds(Block, TEXT, st.booleans()), max_size=4), TEXT)
def test_every_request_is_one_the_api_takes(blocks: list[Block], text: str) -> None:
    made = request(system=tuple(blocks), messages=(Said("user", text),))
    sent = request_json(made)
    assert sent == request_json(made)
    assert problem_of(json.loads(sent.encode("utf-8"))) == ""
    assert problem_of(json.loads(count_json(made)), counts=True) == ""


def test_a_lone_surrogate_does_not_stop_a_call() -> None:
    assert json.loads(request_json(request(messages=(Said("user", "a\ud800b é"),))))["messages"] == [
        {"role": "user", "content": "a?b é"}
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": " "}, "names no model"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"messages": ()}, "take turns"),
        ({"messages": (Said("assistant", "hi"),)}, "take turns"),
        ({"messages": (Said("user", "a"), Said("user", "b"), Said("user", "c"))}, "take turns"),
        ({"messages": (Said("user", "a"), Said("assistant", "b"))}, "take turns"),
        ({"messages": (Said("user", " \n"),)}, "empty"),
        ({"system": (Block(""),)}, "empty"),
        ({"system": (Block("x", cached=True),) * 5}, "more than 4"),
    ],
)
def test_what_the_api_would_refuse_is_refused_before(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestRefused, match=why):
        request(**changes)


# The answer.


def test_all_text_blocks_are_joined_and_thinking_is_left_out() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
    ]
    found = read_answer(message(content=content))
    assert isinstance(found, Answer)
    assert found.text == "one two"


def test_usage_counts_the_cache_apart_from_the_rest_of_the_input() -> None:
    counts = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_read_input_tokens": 11,
        "cache_creation_input_tokens": 13,
        "service_tier": "standard",
    }
    found = read_answer(message(usage=counts))
    assert found.usage == Usage(5, 7, 11, 13)
    assert (found.usage.prompt_tokens, found.usage.tokens) == (29, 36)


def test_counts_that_are_null_are_nothing() -> None:
    counts = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": None}
    assert read_answer(message(usage=counts)).usage == Usage(5, 7)


@pytest.mark.parametrize("stop", [s for s in Stop if s is not Stop.OTHER])
def test_a_known_stop_is_told(stop: Stop) -> None:
    found = read_answer(message(stop_reason=stop.value))
    assert isinstance(found, Answer)
    assert found.stop is stop


def test_another_stop_is_told_in_the_note() -> None:
    found = read_answer(message(stop_reason="model_context_window_exceeded"))
    assert isinstance(found, Answer)
    assert (found.stop, found.note) == (Stop.OTHER, "model_context_window_exceeded")


def test_a_refusal_may_have_no_text_and_says_why() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "not\x1b this"}
    found = read_answer(message(content=[], stop_reason="refusal", stop_details=details))
    assert isinstance(found, Answer)
    assert (found.stop, found.text, found.note) == (Stop.REFUSAL, "", "bio: not<U+001B> this")


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": " \n"}], [{"type": "thinking", "thinking": "x"}]])
def test_an_answer_without_text_fails_and_its_tokens_count(content: list[Any]) -> None:
    found = read_answer(message(content=content, stop_reason="max_tokens"))
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable, found.usage) == (Kind.EMPTY, False, Usage(3, 1))
    assert "max_tokens" in found.hint


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"[]", b"null", b"{}", b"[" * 100_000, message(content=None), message(usage=3)]
)
def test_what_is_no_message_may_have_been_charged(data: bytes) -> None:
    found = read_answer(data)
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable, found.unknown) == (Kind.SERVER, False, True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: (
            st.lists(c)
            | st.dictionaries(
                st.sampled_from(["content", "type", "text", "usage", "stop_reason", "model", "id", "input_tokens"]), c
            )
        ),
    )
)
def test_no_json_breaks_the_reader(data: object) -> None:
    assert read_answer(json.dumps(data).encode()) is not None


# Errors.


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, Kind.INVALID, False),
        (401, Kind.AUTH, False),
        (402, Kind.PERMISSION, False),
        (403, Kind.PERMISSION, False),
        (404, Kind.NOT_FOUND, False),
        (413, Kind.TOO_LARGE, False),
        (422, Kind.INVALID, False),
        (429, Kind.RATE_LIMITED, True),
        (500, Kind.SERVER, True),
        (501, Kind.SERVER, False),
        (502, Kind.SERVER, True),
        (503, Kind.SERVER, True),
        (504, Kind.TIMEOUT, True),
        (524, Kind.SERVER, True),
        (529, Kind.OVERLOADED, True),
    ],
)
def test_a_status_has_a_kind_and_passes_or_not(status: int, kind: Kind, retryable: bool) -> None:
    found = read_error(status, b'{"error": {"type": "some_error", "message": "why"}}')
    assert (found.kind, found.retryable) == (kind, retryable)
    assert found.hint
    assert f"{status}" in found.text
    assert "why (some_error)" in found.text


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"{", b"[]", b'{"error": "x"}', b"\xff\x1b[31m"])
def test_any_body_of_an_error_is_survived_and_visible(body: bytes) -> None:
    text = read_error(502, body).text
    assert "502" in text
    assert "html" not in text
    assert text.isprintable()


def test_the_key_is_never_told() -> None:
    body = json.dumps({"error": {"type": "x", "message": f"bad key {KEY} at https://me:pw@host/?k={KEY}"}})
    text = read_error(401, body.encode(), [KEY]).text
    assert KEY not in text
    assert "pw" not in text
    assert KEY not in read_error(500, KEY.encode(), [KEY]).text


def test_a_secret_is_hidden_as_part_of_a_url_too() -> None:
    assert hide("a/b+c=d and a%2Fb%2Bc%3Dd", "a/b+c=d") == "*** and ***"
    assert hide("nothing", "") == "nothing"


# Waiting.


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 05 Feb 2026 14:00:30 GMT", 30.0),
        ("Thu, 05 Feb 2026 13:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_pauses_grow_and_spread() -> None:
    pauses = (1.0, 4.0, 16.0)
    assert [pause_before(n, pauses, None, 0.0) for n in (2, 3, 4, 5)] == [1.0, 4.0, 16.0, None]
    assert [pause_before(n, pauses, None, 1.0) for n in (2, 3, 4)] == [0.5, 2.0, 8.0]


def test_what_the_server_asks_for_is_waited_but_not_for_ever() -> None:
    assert pause_before(2, (1.0,), 9.0, 0.5) == 9.0
    assert pause_before(2, (1.0,), 0.0, 0.0) == 1.0
    assert pause_before(2, (1.0,), MAX_WAIT + 1, 0.0) is None
    assert pause_before(2, (1.0,), float("inf"), 0.0) is None


# The Models API.


def test_a_model_is_known_with_its_limits() -> None:
    found = read_model("alias", b'{"id": "m", "lifecycle": "active", "max_tokens": 9, "max_input_tokens": 99}')
    assert found == Checked("m", True, "", 9)


def test_a_model_that_will_be_withdrawn_is_warned_of() -> None:
    found = read_model("m", b'{"id": "m", "lifecycle": "deprecated", "retires_at": "2026-11-30T00:00:00Z"}')
    assert isinstance(found, Checked)
    assert found.known
    assert "2026-11-30" in found.note


def test_a_model_that_is_withdrawn_is_a_failure() -> None:
    found = read_model("m", b'{"id": "m", "lifecycle": "retired", "retires_at": "2026-11-30T00:00:00Z"}')
    assert isinstance(found, Failure)
    assert (found.kind, found.hint != "") == (Kind.NOT_FOUND, True)


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"data": []}'])
def test_another_answer_leaves_the_model_unknown(data: bytes) -> None:
    found = read_model("m", data)
    assert isinstance(found, Checked)
    assert not found.known
    assert found.note


def test_a_count_is_read_or_not() -> None:
    assert read_count(b'{"input_tokens": 12}') == 12
    assert [read_count(d) for d in (b"", b"[]", b"{}", b'{"input_tokens": "12"}')] == [None] * 4
