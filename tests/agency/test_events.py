"""Events as lines: what is written is read again, and what nobody wrote is refused with its line."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.agency.events import (
    ENDS,
    TYPES,
    Change,
    Event,
    EventRefused,
    MailDone,
    OutcomeBlocked,
    OutcomeCreated,
    format_event,
    format_message,
    parse_event,
    parse_message,
    subject_of,
)
from cn.agency.names import FILE_KINDS, SYSTEM, Actor, Party, parse_uuid

A, B = map(parse_uuid, ("3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0", "89abcdef-0123-4567-89ab-cdef01234567"))
AT = datetime(2026, 2, 5, 14, 0, 7, tzinfo=UTC)
HASH = "0f" * 32

_uuids = st.uuids(version=4).map(lambda found: parse_uuid(str(found)))
_texts = st.text(st.characters(exclude_categories=["Cs"]))
_times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(
    lambda at: at.replace(microsecond=0)
)
_hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
_numbers = st.integers(1, 2**53 - 1)
_parties = st.one_of(_uuids, st.just(Party("user:ada")))
_BY_TYPE: dict[str, st.SearchStrategy[object]] = {
    "str": _texts,
    "int": st.integers(0, 2**53 - 1),
    "bool": st.booleans(),
    "Uuid": _uuids,
    "Uuid | None": st.none() | _uuids,
    "Party": _parties,
    "datetime": _times,
    "datetime | None": st.none() | _times,
    "tuple[Uuid, ...]": st.lists(_uuids, max_size=3).map(tuple),
}
_BY_NAME: dict[str, st.SearchStrategy[object]] = {
    "hash": _hashes,
    "token": _hashes,
    "number": _numbers,
    "version": _numbers,
    "how": st.sampled_from(ENDS),
    "kind": st.sampled_from(FILE_KINDS),
    "user": st.just("user:ada"),
    "resource": st.sampled_from(["mcp:gmail", f"kb:{A}", "repo:https://example.org/x y.git"]),
}


def _changes(kind: type[Change]) -> st.SearchStrategy[Change]:
    parts = {p.name: _BY_NAME.get(p.name, _BY_TYPE.get(str(p.type))) for p in dataclasses.fields(kind)}
    return st.builds(kind, **{name: part for name, part in parts.items() if part is not None})


_events = st.builds(
    Event,
    seq=_numbers,
    time=_times,
    actor=st.sampled_from([SYSTEM, Actor("user:ada"), Actor(f"{A}/{B}"), Actor(f"{A}/user:ada"), Actor("peer:pi")]),
    change=st.one_of([_changes(kind) for kind in TYPES.values()]),
    tenure=st.integers(0, 99),
    grant=st.none() | _uuids,
    request_id=st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=9),
    digest=st.text("0123456789abcdef", min_size=16, max_size=16) | st.just(""),
)


@given(_events)
def test_what_is_written_is_read_again(event: Event) -> None:
    line = format_event(event)
    assert parse_event(line) == event
    assert line.isprintable()


@given(_texts, st.lists(_events, min_size=1, max_size=4))
def test_a_message_holds_its_events_whatever_its_subject_says(subject: str, events: list[Event]) -> None:
    message = format_message(f"x{subject}", events)
    assert parse_message(message) == tuple(events)
    assert parse_message(message.removesuffix("\n")) == tuple(events)


def test_a_line_is_short_and_has_no_field_with_its_default() -> None:
    made = OutcomeCreated(A, "Größe", "a\u202eb\n\U000e0001", B, (B,), HASH, 9)
    assert format_event(Event(7, AT, Actor(f"{B}/{A}"), made, tenure=2)) == (
        f'{{"seq":7,"time":"2026-02-05T14:00:07Z","actor":"{B}/{A}","tenure":2,"type":"outcome_created",'
        f'"outcome":"{A}","title":"Größe","text":"a\\u202eb\\n\\udb40\\udc01","responsible":"{B}",'
        f'"parents":["{B}"],"hash":"{HASH}","size":9}}'
    )


_LINE = json.loads(format_event(Event(7, AT, Actor(f"{B}/{A}"), OutcomeBlocked(A, "waits", AT), 1, B, "r1", "0" * 16)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"type": "outcome_exploded"}, "type is not known"),
        ({"type": None}, "type is not known"),
        ({"extra": 1}, "no field 'extra'"),
        ({"reason": 7}, "a text"),
        ({"reason": "\ud800"}, "a text"),
        ({"outcome": A.upper()}, "no UUID"),
        ({"outcome": A.replace("4d7f", "1d7f")}, "no UUID"),
        ({"until": "soon"}, "no time|not a time"),
        ({"seq": 0}, "from 1"),
        ({"seq": True}, "whole number"),
        ({"seq": 1.5}, "whole number"),
        ({"seq": 2**60}, "whole number"),
        ({"actor": "ada"}, "no actor"),
        ({"actor": f"{A}/peer:pi"}, "no actor"),
        ({"actor": f"{A}/"}, "no actor"),
        ({"actor": "user:A B"}, "no actor"),
        ({"tenure": 0}, "from 1"),
        ({"tenure": -1}, "whole number"),
        ({"grant": ""}, "no UUID"),
        ({"request_id": ""}, "plain text"),
        ({"request_id": "x" * 201}, "plain text"),
        ({"request_id": "a\nb"}, "plain text"),
        ({"digest": "0" * 15}, "hexadecimal"),
        ({"digest": "G" * 16}, "hexadecimal"),
    ],
)
def test_a_line_that_nobody_wrote_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(EventRefused, match=why):
        parse_event(json.dumps(_LINE | change))


@pytest.mark.parametrize("name", ["seq", "time", "actor", "type", "outcome", "reason"])
def test_a_line_that_lacks_something_is_refused(name: str) -> None:
    with pytest.raises(EventRefused, match="type is not known" if name == "type" else name):
        parse_event(json.dumps({key: value for key, value in _LINE.items() if key != name}))


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "7", '"x"', "null", '{"seq":1,"seq":2}', '{"seq":NaN}', "[" * 100_000, "{}" * 2, "\0"]
)
def test_what_is_no_object_is_refused(line: str) -> None:
    with pytest.raises(EventRefused):
        parse_event(line)


@settings(max_examples=30)
@given(
    st.text() | st.dictionaries(st.text(max_size=9), st.text() | st.integers() | st.lists(st.text())).map(json.dumps)
)
def test_any_text_is_an_event_or_refused(line: str) -> None:
    with pytest.raises(EventRefused):
        parse_event(line)


@pytest.mark.parametrize(
    "message", ["", "\n", "s", "s\n", "s\n\n", "\n\n{}", "s\n{}", "s\n\n\n{}", "s\n\n{}\n\n{}", "s\nx\n{}"]
)
def test_a_message_without_subject_empty_line_or_events_is_refused(message: str) -> None:
    line = format_event(Event(1, AT, SYSTEM, MailDone((A,))))
    with pytest.raises(EventRefused):
        parse_message(message.replace("{}", line))


def test_a_refused_line_is_named() -> None:
    line = format_event(Event(1, AT, SYSTEM, MailDone((A,))))
    with pytest.raises(EventRefused, match="line 4: "):
        parse_message(f"s\n\n{line}\n{line[:-1]}\n")


def test_a_subject_says_what_was_done_and_to_what() -> None:
    made = OutcomeCreated(A, "Ship it", "", B, (B,), HASH, 9)
    assert subject_of([made]) == "outcome_created 3f2a9c1e Ship it"
    assert subject_of([made, MailDone((A,))]) == "outcome_created 3f2a9c1e Ship it (+1)"
    assert subject_of([MailDone((A, B))]) == "mail_done"


def test_no_field_of_a_change_is_named_as_one_that_every_event_has() -> None:
    named = {part.name for kind in TYPES.values() for part in dataclasses.fields(kind)}
    assert named & {*Event._fields, "type"} == set()
