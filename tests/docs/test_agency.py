"""The page on Agency's records says what the code does."""

from __future__ import annotations

from dataclasses import MISSING, fields

from cn.agency.events import TYPES, format_message, parse_message, subject_of
from cn.agency.names import LEVELS, parse_uuid
from cn.agency.operations import Limits
from cn.agency.pages import SHOWN, SHOWN_TEXT, outcome_page
from cn.agency.rows import Outcome
from tests.docs.blocks import PROTOCOL, blocks_of, plain

PAGE = PROTOCOL / "agency.md"
_BLOCKS = {block.name: block for block in blocks_of(PAGE)}
A, B = map(parse_uuid, ("3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0", "89abcdef-0123-4567-89ab-cdef01234567"))


def test_the_message_is_one_and_written_as_shown() -> None:
    message = _BLOCKS["message"].text
    events = parse_message(message)
    assert format_message(subject_of([event.change for event in events]), events) == message


def test_the_table_of_types_has_each_type_with_its_fields() -> None:
    said = {plain(name): [plain(word) for word in cell.split()] for name, cell, _ in _BLOCKS["types"].rows}
    assert said == {
        name: [
            f"{part.name}{'[]' if 'tuple' in str(part.type) else ''}{'' if part.default is MISSING else '?'}"
            for part in fields(kind)
        ]
        for name, kind in TYPES.items()
    }


def test_the_table_of_levels_has_each_kind_with_its_levels() -> None:
    said = {plain(kind): tuple(plain(word) for word in cell.split(", ")) for kind, cell in _BLOCKS["levels"].rows}
    assert said == LEVELS


def test_an_outcome_is_written_as_shown() -> None:
    row = Outcome(B, "Ship it", "All of it.", "closed", A, 1, "The host refuses it.", "", None, False, 7)
    assert outcome_page(row, [A], []) == _BLOCKS["outcome"].text


def test_the_numbers_are_those_of_the_code() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    most = Limits()
    said = f"{most.depth} layers of handlers, {most.underlings} underlings, {most.open_outcomes:,} open outcomes"
    assert f"{said} of a handler, {most.agents} live agents" in page
    assert f"the last {SHOWN}, as far as they take {SHOWN_TEXT >> 10} KB together)" in page
