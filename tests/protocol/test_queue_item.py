"""Items of the queue and the turn: files that read back, names that sort, ids, and the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.queue_item import (
    Cadence,
    Input,
    Shown,
    Turn,
    dead_path,
    format_input,
    format_queued,
    format_turn,
    is_input_id,
    new_input_id,
    parse_input,
    parse_queue_name,
    parse_queued,
    parse_turn,
    places,
    queue_path,
)
from cn.values.names import HubPath, InputId
from cn.values.record_header import RecordRefused
from cn.values.text import one_line

AT = datetime(2026, 2, 5, 15, 4, 5, tzinfo=UTC)
ID = InputId("20260205-150405-a1b2c3")
PATH = HubPath("threads/inbox/20260205-pi-proposal.md")
ITEM = Input(ID, "pi", Cadence.INBOX, AT, PATH, "proposal", "1" * 40)

times = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC))
lines = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40).map(
    lambda s: one_line(s, 1000)
)
ids = st.builds(new_input_id, times, st.lists(lines, max_size=3))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
items = st.builds(
    Input,
    ids,
    st.sampled_from(["pi", "sigma"]),
    st.sampled_from(Cadence),
    times,
    st.sampled_from([PATH, HubPath("threads/adhoc/20260205-ünï.md"), HubPath("")]),
    st.sampled_from(["", "proposal"]),
    st.sampled_from(["", "1" * 40]),
    st.integers(0, 9),
    lines,
    texts,
)


@given(items)
def test_a_queued_item_reads_back_as_it_was(item: Input) -> None:
    assert parse_queued(format_queued(item).encode()) == item


@given(items, st.integers(1, 9), times, texts)
def test_a_turn_reads_back_with_its_text_byte_for_byte(item: Input, attempt: int, since: datetime, text: str) -> None:
    turn = Turn(replace(item, content=""), "3a699970", attempt, since, text)
    assert parse_turn(format_turn(turn).encode()) == turn


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cn: queue/1", "cn: queue/2"),
        ("---\n", ""),
        (ID, "20260205-150405-A1B2C3"),
        (ID, "../../../etc/passwd"),
        ('cadence: "inbox"', 'cadence: "hourly"'),
        ("2026-02-05T15:04:05Z", "yesterday"),
        (PATH, "../outside.md"),
        (PATH, "threads//x.md"),
        ('"pi"', "pi"),
        ('attempts: "0"', 'attempts: "many"'),
        ('from: "pi"\n', ""),
    ],
)
def test_a_queued_item_that_cn_did_not_write_is_refused(old: str, new: str) -> None:
    text = format_queued(ITEM)
    assert old in text
    with pytest.raises(RecordRefused):
        parse_queued(text.replace(old, new, 1).encode())


@given(st.binary(max_size=300))
def test_no_bytes_make_the_readers_fail_otherwise_than_by_refusing(data: bytes) -> None:
    for head in (b"", b"---\ncn: queue/1\n", b"---\ncn: turn/1\n"):
        for parse in (parse_queued, parse_turn):
            try:
                parse(head + data)
            except RecordRefused:
                continue


@pytest.mark.parametrize("field", ["machine", "attempt", "since", "id"])
def test_a_turn_that_lacks_a_field_is_refused(field: str) -> None:
    text = format_turn(Turn(ITEM, "3a699970", 1, AT, "text"))
    cut = "\n".join(line for line in text.split("\n") if not line.startswith(f"{field}: "))
    assert cut != text
    with pytest.raises(RecordRefused):
        parse_turn(cut.encode())


def test_cadence_comes_before_attempts_and_attempts_before_age() -> None:
    def name(cadence: Cadence, second: int, attempts: int = 0) -> str:
        id = new_input_id(AT + timedelta(seconds=second), ["x"])
        return queue_path(Input(id, "pi", cadence, AT, PATH, attempts=attempts)).rpartition("/")[2]

    wanted = [
        name(Cadence.INBOX, 5),
        name(Cadence.INBOX, 9),
        name(Cadence.INBOX, 1, attempts=1),
        name(Cadence.INBOX, 0, attempts=10),
        name(Cadence.DAILY, 0),
        name(Cadence.WEEKLY, 0),
        name(Cadence.MONTHLY, 0),
        name(Cadence.QUARTERLY, 0),
        name(Cadence.YEARLY, 0),
        name(Cadence.ADHOC, 0),
    ]
    assert [path for _, path in places(sorted(wanted))] == wanted
    assert [
        path for _, path in places([*wanted, "README.md", "inbox-1.md", ".gitkeep", "hourly-" + wanted[0][6:]])
    ] == wanted


def priority(item: Input) -> int:
    """What has no thread is a chat's, which waits for nobody."""
    return item.cadence.priority if item.path else 0


@given(st.lists(items, unique_by=lambda i: i.id, max_size=8))
def test_the_order_of_the_queue_hangs_on_the_items_alone(found: list[Input]) -> None:
    names = [queue_path(item).rpartition("/")[2] for item in found]
    wanted = sorted(found, key=lambda i: (priority(i), i.attempts, i.id))
    assert [path for _, path in places(reversed(names))] == [queue_path(item).rpartition("/")[2] for item in wanted]


@given(items)
def test_a_queue_name_tells_its_item(item: Input) -> None:
    for path in (queue_path(item), dead_path(item)):
        place = parse_queue_name(path.rpartition("/")[2])
        assert place is not None
        assert (place.id, place.priority) == (item.id, priority(item))
    assert queue_path(item) != dead_path(item)


@pytest.mark.parametrize(
    "name", ["", "inbox.md", "inbox-20260205-150405-a1b2c3", "INBOX-20260205-150405-a1b2c3.md", "a/b.md"]
)
def test_other_files_have_no_place_in_the_queue(name: str) -> None:
    assert parse_queue_name(name) is None


@given(times, st.lists(lines, max_size=3), st.integers(0, 300))
def test_the_same_cause_gives_the_same_id_and_a_taken_one_is_never_given(
    at: datetime, cause: list[str], nth: int
) -> None:
    first = new_input_id(at, cause, (), nth)
    assert is_input_id(first)
    assert first == new_input_id(at, tuple(cause), {"other"}, nth)
    taken: set[str] = set()
    for _ in range(4):
        fresh = new_input_id(at, cause, taken, nth)
        assert fresh not in taken
        taken.add(fresh)
    assert len(taken) == 4


def test_what_one_run_queues_sorts_as_it_was_queued_and_before_what_comes_a_second_later() -> None:
    found = [new_input_id(AT, ["pi", str(n)], (), n) for n in range(200)]
    assert found == sorted(found)
    assert found[-1] < new_input_id(AT + timedelta(seconds=1), ["pi"])


@pytest.mark.parametrize(
    "text", ["", "20260205-150405-A1B2C3", "20260205-150405-a1b2c3\n", "20260205-150405", "２０260205-150405-a1b2c3"]
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_input_id(text)


@pytest.mark.parametrize(
    ("age", "over"),
    [
        (timedelta(0), False),
        (timedelta(minutes=15), False),
        (timedelta(minutes=15, microseconds=1), True),
        (timedelta(minutes=14, seconds=59), False),
        (timedelta(minutes=-5), False),
        (timedelta(days=400), True),
    ],
)
def test_a_turn_is_over_after_its_limit_not_at_it(age: timedelta, over: bool) -> None:
    turn = Turn(ITEM, "m", 1, AT, "")
    assert turn.expired(AT + age, timedelta(minutes=15)) is over


@pytest.mark.parametrize(("attempt", "trigger"), [(1, ID), (2, f"{ID}-2"), (11, f"{ID}-11")])
def test_every_attempt_has_an_archive_of_its_own(attempt: int, trigger: str) -> None:
    turn = Turn(ITEM, "m", attempt, AT, "")
    assert turn.trigger == trigger
    assert turn.archive_path("input") == f"logs/input/{trigger}.md"
    assert turn.archive_path("output") == f"logs/output/{trigger}.md"
    assert parse_input(format_input(ITEM, attempt, "x")).trigger == trigger


@given(items, texts)
def test_what_cn_input_tells_is_what_the_input_says(item: Input, content: str) -> None:
    shown = parse_input(format_input(item, 1, content))
    assert shown == Shown(item.id, item.sender, content.strip("\n"), item.cadence.value, thread=item.thread)


def test_a_further_attempt_says_why_the_last_did_not_hold_on_one_line() -> None:
    text = format_input(replace(ITEM, reason="no\n---\nid: forged"), 2, "body")
    assert text.split("\n")[:10] == [
        "---",
        f"id: {ID}",
        "from: pi",
        "cadence: inbox",
        "queued: 2026-02-05T15:04:05Z",
        "thread: 20260205-pi-proposal",
        "attempt: 2",
        "rejected: no --- id: forged",
        "---",
        "",
    ]
    assert "rejected" not in format_input(replace(ITEM, reason="old"), 1, "body")


def test_an_op_may_call_an_item_by_its_id_or_its_thread() -> None:
    assert ITEM.names == {ID, "20260205-pi-proposal", "20260205-pi-proposal.md", "pi/proposal"}
    assert replace(ITEM, path=HubPath(""), topic="").names == {ID}
