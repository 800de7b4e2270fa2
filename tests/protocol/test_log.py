"""One row per action; no peer text can forge a row (``docs/protocol/logs.md``)."""

from __future__ import annotations

import json
from datetime import timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.protocol.log import NOTHING, Row, append_rows, format_event, format_row, log_path, parse_rows
from cn.values.text import one_line, redact
from cn.values.timestamps import parse_stamp

AT = parse_stamp("2026-02-05T14:00:07Z")
ANY = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.text(st.sampled_from("|\\\n\r\x0b\x85\u2028 `—✓:/@#"), max_size=20),
    st.sampled_from(
        [
            "x | do:merge | ✓ merged |",
            "x |\n| 15:00 | pi/x | do:merge | ✓ merged |",
            "\\| y",
            "\\",
            "| 15:00 | pi/x | do:merge | ✓ merged 1a2b3c4 |",
            "x\u2028| 15:00 | pi/x | do:merge | ✓ merged |",
            "https://user:secret@example.org/x",
        ]
    ),
)


@given(st.lists(st.builds(Row, st.just(AT), ANY, ANY, ANY), max_size=4))
def test_a_row_is_read_as_it_is_written(rows: list[Row]) -> None:
    text = append_rows("", rows)
    found = parse_rows(text, "20260205")
    assert len(found) == len(rows)
    for row, again in zip(rows, found, strict=True):
        assert again.at == AT.replace(second=0)
        assert again.source == (one_line(row.source) or NOTHING)
        assert again.decision == (one_line(redact(row.decision)) or NOTHING)
        assert again.executed == (one_line(redact(row.executed), 400) or NOTHING)


@given(ANY, ANY, ANY)
@example("x |\n| 15:00 | pi/x | do:merge | ✓ merged |", "", "")
def test_no_text_makes_a_second_row_or_cell(source: str, decision: str, executed: str) -> None:
    line = format_row(Row(AT, source, decision, executed))
    assert len(line.splitlines()) == 1
    plain = line.replace("\\\\", "").replace("\\|", "")
    assert plain.count("|") == 5
    assert line.startswith("| 14:00 | ")
    assert line.endswith(" |")
    line.encode()


@given(st.builds(Row, st.just(AT), ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY))
def test_a_machine_row_is_one_line_of_json(row: Row) -> None:
    line = format_event(row)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    data = json.loads(line)
    assert data.pop("time") == "2026-02-05T14:00:07Z"
    assert data.pop("event") == "inbox"
    assert set(data) == {k for k, v in row._asdict().items() if v and k != "at"}


def test_no_password_reaches_a_log() -> None:
    row = Row(AT, "pi/x", "see https://user:secret@example.org", "ssh://user:secret@host/x failed")
    assert "secret" not in format_row(row) + format_event(row)


def test_a_page_has_a_title_and_a_table() -> None:
    rows = [Row(AT, "pi/proposal", "received"), Row(AT, "pi/proposal", "do:merge", "✓ merged")]
    assert append_rows("", rows) == (
        "# Inbox Log: 2026-02-05\n"
        "\n"
        "| Time | Source | Decision | Executed |\n"
        "|------|--------|----------|----------|\n"
        "| 14:00 | pi/proposal | received | — |\n"
        "| 14:00 | pi/proposal | do:merge | ✓ merged |\n"
    )


def test_rows_are_appended() -> None:
    rows = [Row(AT, "pi/a", "received"), Row(AT, "pi/b", "received")]
    assert append_rows(append_rows("", rows[:1]), rows[1:]) == append_rows("", rows)
    assert append_rows("", []) == ""
    assert append_rows("text\n", []) == "text\n"


def test_a_file_whose_last_line_was_cut_keeps_its_rows_apart() -> None:
    rows = [Row(AT, "pi/a", "received"), Row(AT, "pi/b", "received")]
    cut = append_rows("", rows[:1]).rstrip("\n")
    assert append_rows(cut, rows[1:]) == append_rows("", rows)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("\n", "  \n"),
        ("\n", "\n\n"),
        ("# Inbox", "\ufeff# Inbox"),
        (" | received |", "      | received    |"),
    ],
)
def test_a_page_that_a_tool_went_over_has_its_rows(old: str, new: str) -> None:
    rows = [Row(AT, "pi/a", "received"), Row(AT, "pi/b", "received")]
    page = append_rows("", rows[:1]).replace(old, new)
    assert parse_rows(page, "20260205") == parse_rows(append_rows("", rows[:1]), "20260205")
    longer = append_rows(page, rows[1:])
    assert parse_rows(longer, "20260205") == parse_rows(append_rows("", rows), "20260205")
    assert not {"\r", "\ufeff"} & set(longer)


def test_days_and_times_are_utc() -> None:
    late = Row(AT.replace(hour=20).astimezone(timezone(timedelta(hours=5, minutes=45))), "pi/x", "received")
    assert log_path(late.at) == "logs/inbox/20260205.md"
    assert "# Inbox Log: 2026-02-05" in append_rows("", [late])
    assert format_row(late).startswith("| 20:00 |")


@pytest.mark.parametrize(
    "line",
    ["", "# x", "| Time | Source | Decision | Executed |", "|------|--------|----------|----------|",
    "| 25:00 | a | b | c |",
     "| 14:60 | a | b | c |", "| 14:00 | a | b |", "| 14:00 | a | b | c | d |", "x | 14:00 | a | b | c |"],
)  # fmt: skip
def test_other_lines_are_skipped(line: str) -> None:
    text = append_rows("", [Row(AT, "pi/x", "received")])
    assert len(parse_rows(f"{line}\n{text}{line}\n", "20260205")) == 1
