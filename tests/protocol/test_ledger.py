"""The ledger remembers for ever; the open file is the same history folded."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.protocol.ledger import (
    IN,
    OUT,
    Event,
    Item,
    LedgerRefused,
    Open,
    apply,
    as_written,
    each_event,
    events_of_topics,
    fold_history,
    format_event,
    format_open,
    missing_events,
    month_path,
    months,
    names_thread,
    numbered_lines,
    open_path,
    parse_event,
    parse_open,
)
from cn.values.names import Oid, parse_name
from cn.values.timestamps import parse_stamp

PI = parse_name("pi")
A, B, C = (Oid(digit * 40) for digit in "abc")
AT = parse_stamp("2026-02-05T14:00:07Z")
KINDS = {
    IN: ["received", "refreshed", "repeated", "deferred", "returned", "assigned", "refused", "decided",
    "gone",
         "noticed", "enqueued", "claimed", "shown", "timed-out", "dead"],
    OUT: ["queued", "adopted", "delivered", "answered", "deleting", "deleted", "gone"],
}  # fmt: skip

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: text.rstrip("\r"))
TOPICS = st.one_of(
    st.sampled_from(["a", "a b", "ab", "b", "a/b", "a%20b", "a\nb", "é", "日本", "in", "out", "Z in", A, "a=b"]),
    TEXT.filter(bool),
)
FREE_FIELDS = st.dictionaries(
    st.sampled_from(["until", "reason", "gone", "actor", "digest", "rule", "merge",
    "unproven"]),
    st.one_of(TEXT, st.just("")),
    max_size=4,
)  # fmt: skip
NAMES = st.fixed_dictionaries(
    {},
    optional={"branch": st.sampled_from(["pi/x", "pi/a%b/ü", ""]), "thread": st.sampled_from(["20260205-pi-x.md", ""])},
)
FIELDS = st.builds(lambda free, names: {**free, **names}, FREE_FIELDS, NAMES)
EVENTS = st.sampled_from([(side, kind) for side, kinds in KINDS.items() for kind in kinds]).flatmap(
    lambda pair: st.builds(
        Event, st.just(AT), st.just(pair[0]), st.just(pair[1]), TOPICS, st.sampled_from([A, B]), FIELDS
    )
)


def event(kind: str, head: Oid = A, side: str = IN, topic: str = "x", **fields: str) -> Event:
    return Event(AT, side, kind, topic, head, fields)


def remembered(kind: str, fields: dict[str, str]) -> Event:
    return Event(AT, IN, kind, "x", A, fields)


def said(one: Event) -> Event:
    """The event as it is remembered: a field that says nothing need not be written."""
    return Event(one.at, one.side, one.kind, one.topic, one.head, {k: v for k, v in one.fields.items() if v})


@given(EVENTS)
@example(event("received", topic="a b%\n|é", thread="x y=z"))
def test_an_event_is_read_as_it_is_written(one: Event) -> None:
    line = format_event(one)
    assert line.isascii()
    assert line.isprintable()
    assert said(parse_event(line)) == said(one)
    assert format_event(parse_event(line)) == line


def test_the_form_of_an_event() -> None:
    one = event("received", topic="a b/c%", branch="pi/a b/c%", thread="t.md", earlier="")
    assert format_event(one) == (f"2026-02-05T14:00:07Z in received a%20b/c%25 {A} branch=pi/a%20b/c%25 thread=t.md")
    assert format_event(event("deferred", until="")) == f"2026-02-05T14:00:07Z in deferred x {A} until="


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        f"2026-02-05T14:00:07Z in received x {A[:39]}",
        f"2026-02-05T14:00:07Z in unheard x {A}",
        f"2026-02-05T14:00:07Z on received x {A}",
        f"2026-02-05T14:00:07Z in queued x {A}",
        f"2026-02-05T14:00:07Z out received x {A}",
        f"today in received x {A}",
        f"2026-02-05T14:00:07Z in received x {A} branch",
        f"2026-02-05T14:00:07Z in received x {A} branch=%ff",
        f"2026-02-05T14:00:07Z in received %ff {A}",
        f"2026-02-05T14:00:07Z in received x {A} ",
        "<<<<<<< HEAD",
    ],
    ids=ascii,
)
def test_no_event(line: str) -> None:
    with pytest.raises(LedgerRefused) as caught:
        parse_event(line)
    assert caught.value.hint
    assert "unpack" not in caught.value.text


@given(st.lists(EVENTS, max_size=12))
def test_folding_at_once_bit_by_bit_or_from_the_file_is_the_same(events: list[Event]) -> None:
    """In order: of a beginning after its end only the whole history tells."""
    ends, begins = {"decided", "deleted", "gone"}, {"received", "refreshed", "queued", "adopted"}
    ended: set[tuple[str, str, str]] = set()
    begun: set[tuple[str, str, str]] = set()
    history, events = events, []
    for one in history:
        key = (one.side, one.topic, one.head)
        if one.kind in ends and key not in begun:
            ended.add(key)
        if one.kind not in begins or key not in ended:
            events.append(one)
            begun |= {key} if one.kind in begins else set()
    at_once = fold_history(events)
    bit_by_bit: Open = {}
    from_file: Open = {}
    in_place: Open = {}
    for one in events:
        bit_by_bit = fold_history([one], bit_by_bit)
        from_file = parse_open(format_open(fold_history([one], from_file)))
        apply(in_place, one)
    rebuilt = fold_history(each_event("".join(format_event(one) + "\n" for one in events)))
    assert at_once == bit_by_bit == from_file == in_place == rebuilt


def test_what_ended_twice_may_begin_again() -> None:
    """By one listing it was gone, by the next it was deleted, then it was there."""
    kinds = ("queued", "delivered", "gone", "deleted", "queued", "delivered")
    fields = {"branch": "sigma/x", "kind": "message"}
    events = [Event(AT, OUT, kind, "x", A, fields if kind == "queued" else {}) for kind in kinds]
    in_place: Open = {}
    for one in events:
        apply(in_place, one)
    assert fold_history(events) == in_place
    assert in_place["out", "x"].state == "delivered"
    assert fold_history([events[3], events[0]]) == {}, "an end that a slow clock wrote before its beginning"


@given(st.lists(EVENTS, max_size=12), EVENTS)
def test_folding_changes_no_argument(events: list[Event], one: Event) -> None:
    items = fold_history(events)
    before = dict(items)
    fold_history([one], items)
    assert items == before


@given(st.lists(EVENTS, max_size=12))
def test_the_open_file_holds_open_items_alone(events: list[Event]) -> None:
    text = format_open(fold_history(events))
    opened = {(e.side, e.topic) for e in events if e.kind in ("received", "queued", "adopted")}
    assert text.count("\n") <= len(opened)
    assert text.isascii()
    closed = [Event(AT, IN, "decided", e.topic, e.head) for e in events if e.side == IN]
    closed += [Event(AT, OUT, "deleted", e.topic, h) for e in events if e.side == OUT for h in (A, B)]
    assert fold_history([*events, *closed]) == {}


@given(st.lists(EVENTS, max_size=12))
def test_the_open_file_is_read_as_it_is_written(events: list[Event]) -> None:
    items = fold_history(events)
    text = format_open(items)
    assert parse_open(text) == items
    assert format_open(parse_open(text)) == text
    assert format_open(dict(reversed(items.items()))) == text


@pytest.mark.parametrize("line", ["x", "[]", "1", "{}", '{"side": "in"}', '{"fields": []}', "null", "[" * 5000, '"x"'])
def test_no_open_item(line: str) -> None:
    with pytest.raises(LedgerRefused) as caught:
        parse_open(line)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("side", "state"),
    [(IN, s) for s in ("none", "done", "delivered", "pending", "")]
    + [(OUT, s) for s in ("none", "deleted", "gone", "received", "Queued")]
    + [("", "received"), ("on", "queued")],
)
def test_a_state_that_nothing_open_has_is_refused(side: str, state: str) -> None:
    line = format_open(fold_history([event("received")]))
    assert parse_open(line)
    damaged = line.replace('"side": "in"', f'"side": "{side}"')
    damaged = damaged.replace('"state": "received"', f'"state": "{state}"')
    with pytest.raises(LedgerRefused):
        parse_open(damaged)


# kind of the event → state, head and fields of the item after it; None: nothing is open.
START_IN = event("received", branch="pi/x", thread="t.md", signature="unverified")
NEXT_IN = [
    ("received", ("received", B, {"k": "v"})),
    ("refreshed", ("received", B, {"branch": "pi/x", "thread": "t.md", "signature": "unverified", "k": "v"})),
    ("repeated", ("received", A, {"branch": "pi/x", "thread": "t.md", "signature": "unverified"})),
    ("deferred", ("deferred", B, {"branch": "pi/x", "thread": "t.md", "signature": "unverified", "k": "v"})),
    # Not deferred: nothing returns.
    ("returned", ("received", A, {"branch": "pi/x", "thread": "t.md", "signature": "unverified"})),
    ("assigned", ("assigned", B, {"branch": "pi/x", "thread": "t.md", "signature": "unverified", "k": "v"})),
    ("decided", None),
    ("noticed", ("received", A, {"branch": "pi/x", "thread": "t.md", "signature": "unverified"})),
    (
        "gone",
        (
            "received",
            A,
            {"branch": "pi/x", "thread": "t.md", "signature": "unverified", "gone": "2026-02-05T14:00:07Z"},
        ),
    ),
]


@pytest.mark.parametrize(("kind", "after"), NEXT_IN)
def test_what_an_inbound_event_makes_of_an_item(kind: str, after: tuple[str, Oid, dict[str, str]] | None) -> None:
    item = fold_history([START_IN, event(kind, B, k="v")]).get((IN, "x"))
    assert (item and (item.state, item.head, dict(item.fields))) == after


@pytest.mark.parametrize("kind", KINDS[IN])
def test_what_an_inbound_event_makes_of_nothing(kind: str) -> None:
    assert bool(fold_history([event(kind)])) == (kind == "received")


@pytest.mark.parametrize("kind", KINDS[OUT])
def test_what_an_outbound_event_makes_of_nothing(kind: str) -> None:
    assert bool(fold_history([event(kind, side=OUT)])) == (kind in ("queued", "adopted"))


@pytest.mark.parametrize(
    ("kind", "head", "state"),
    [
        ("queued", A, "queued"),
        ("adopted", A, "adopted"),
        ("delivered", A, "delivered"),
        ("answered", A, "answered"),
        ("deleting", A, "deleting"),
        ("deleted", A, None),
        ("gone", A, None),
        ("deleted", B, "delivered"),
        ("gone", B, "delivered"),
    ],
)
def test_what_an_outbound_event_makes_of_an_item(kind: str, head: Oid, state: str | None) -> None:
    """An old deletion does not close a new branch of that name."""
    opened = [event("queued", side=OUT), event("delivered", side=OUT)]
    item = fold_history([*opened, event(kind, head, OUT)]).get((OUT, "x"))
    assert (item and item.state) == state


def test_what_waits_in_the_outbox_is_not_gone_and_may_be_taken_back() -> None:
    queued = fold_history([event("queued", side=OUT)])
    assert fold_history([event("gone", side=OUT)], queued) == queued
    back = fold_history([event("deleting", side=OUT, withdrawn="2026-02-05T14:00:07Z")], queued)
    assert [(item.state, item.head) for item in back.values()] == [("deleting", A)]
    assert not fold_history([event("deleted", side=OUT)], back)


@pytest.mark.parametrize("start", ["received", "deferred", "assigned"])
def test_a_refusal_leaves_the_state(start: str) -> None:
    items = fold_history([event("received", thread="t.md"), event(start), event("refused", rule="r", digest="d")])
    assert items[(IN, "x")].state == start
    assert items[(IN, "x")].get("rule") == "r"


def test_a_head_that_was_not_let_in_changes_nothing_of_what_is_pending() -> None:
    first = event("received", thread="t.md", signature="verified SHA256:x")
    assert fold_history([first, event("refused", B, rule="signature-policy")]) == fold_history([first])


@pytest.mark.parametrize("kind", ["refreshed", "returned"])
def test_a_new_start_forgets_what_was_said_of_the_old_one(kind: str) -> None:
    old = dict.fromkeys(("digest", "rule", "why", "remedy", "until", "actor", "reason", "by"), "x")
    items = fold_history([event("received", thread="t.md"), remembered("deferred", old), event("gone"), event(kind, B)])
    left = {"gone": "2026-02-05T14:00:07Z"} if kind == "returned" else {}  # its branch is as it was
    assert items[(IN, "x")].fields == {"thread": "t.md", **left}


def test_a_branch_that_is_there_again_is_not_withdrawn() -> None:
    items = fold_history([event("received", thread="t.md"), event("gone"), event("repeated")])
    assert items[(IN, "x")].get("gone") == ""
    still = fold_history([event("received", thread="t.md"), event("gone"), event("repeated", B)])
    assert still[(IN, "x")].get("gone")


def test_an_empty_field_takes_an_earlier_one_away_for_good() -> None:
    events = [
        event("queued", side=OUT, branch="us/x"),
        event("answered", side=OUT, status="merged", unproven="main cannot be read"),
        event("answered", side=OUT, status="merged", unproven=""),
    ]
    again = list(each_event("\n".join(format_event(one) for one in events)))
    assert fold_history(events) == fold_history(again)
    assert fold_history(again)[(OUT, "x")].fields == {"branch": "us/x", "status": "merged"}


def test_both_sides_of_a_topic_are_two_items() -> None:
    items = fold_history([event("received"), event("queued", B, OUT), event("decided")])
    assert list(items) == [(OUT, "x")]


NEAR = ["a", "aa", "a a", "a b", "b", "a%20b", "a%2520b", "in", "out", "Z", "a\nb", "\n", "é", "é ", "a/b", "/", A]


@given(st.lists(st.tuples(st.sampled_from(NEAR), st.sampled_from([IN, OUT])), max_size=20), st.sampled_from(NEAR))
def test_the_events_of_one_topic_and_no_other(pairs: list[tuple[str, str]], topic: str) -> None:
    events = [
        event("gone", side=side, topic=name, about=f" {topic} ", reason=f"Z {side} {topic} {A}") for name, side in pairs
    ]
    history = "".join(format_event(one) + "\n" for one in events)
    for side in (IN, OUT):
        assert events_of_topics(history, side, [topic])[topic] == [
            e for e in events if e.side == side and e.topic == topic
        ]


@given(st.lists(EVENTS, max_size=10), TOPICS)
def test_the_events_of_any_topic(events: list[Event], topic: str) -> None:
    history = "".join(format_event(one) + "\n" for one in events)
    for side in (IN, OUT):
        wanted = [said(e) for e in events if (e.side, e.topic) == (side, topic)]
        assert [said(e) for e in events_of_topics(history, side, [topic])[topic]] == wanted


def test_where_the_ledger_lies() -> None:
    assert month_path(PI, AT) == "state/ledger/pi/202602"
    assert open_path(PI) == "state/ledger/pi/open"


@pytest.mark.parametrize(
    ("key", "value"),
    [("thread", "../../.cn/hub.yaml"), ("thread", "a/b.md"), ("thread", "x"), ("branch", "../x"), ("branch", "x")],
)
def test_names_in_the_open_file_are_names_or_the_file_is_damaged(key: str, value: str) -> None:
    """They become paths and refs: whoever can push to origin can write them."""
    item = Item(IN, "x", A, "received", AT, {key: value})
    with pytest.raises(LedgerRefused):
        parse_open(format_open({(IN, "x"): item}))


def as_they_come(events: Iterable[Event]) -> Open:
    """The items after events that are in the order in which they happened."""
    items: Open = {}
    for one in events:
        apply(items, one)
    return items


@pytest.mark.parametrize(
    "early",
    [
        [event("decided"), event("received", thread="t.md")],
        [event("decided", B), event("received", thread="t.md"), event("refreshed", B)],
        [event("received"), event("decided", B), event("decided"), event("received", B)],
        [event("deleted", side=OUT), event("queued", side=OUT), event("delivered", side=OUT)],
        [event("gone", side=OUT), event("queued", side=OUT)],
    ],
    ids=lambda events: " ".join(one.kind for one in events),
)
def test_an_end_that_stands_before_its_beginning_is_an_end(early: list[Event]) -> None:
    assert as_they_come(early)
    assert fold_history(early) == {}


@pytest.mark.parametrize(
    "events",
    [
        [event("received"), event("decided"), event("received", B), event("refreshed", A)],
        [event("queued", side=OUT), event("deleted", side=OUT), event("adopted", side=OUT)],
        [event("received"), event("decided", topic="y"), event("decided", B), event("received", C)],
    ],
    ids=lambda events: " ".join(one.kind for one in events),
)
def test_a_history_in_order_is_only_folded(events: list[Event]) -> None:
    assert fold_history(events) == as_they_come(events) != {}


def test_no_event_is_written_before_the_last_file() -> None:
    assert months(["202612", "open", "202611", ".gitkeep"]) == ["202611", "202612"]
    assert month_path(PI, AT) == "state/ledger/pi/202602"
    assert month_path(PI, AT, ["open", "202601"]) == "state/ledger/pi/202602"
    assert month_path(PI, AT, ["open", "202601", "202612"]) == "state/ledger/pi/202612"


@pytest.mark.parametrize(
    ("kind", "thread", "named"),
    [
        ("received", "20260205-pi-a.md", False),
        ("refreshed", "20260205-pi-a.md", False),
        ("deferred", "20260205-pi-a.md", True),
        ("deferred", "20260205-pi-a.md.md", False),
        ("queued", "20260205-pi-b.md", False),
    ],
)
def test_a_thread_is_named_by_what_was_said_or_decided_there(kind: str, thread: str, named: bool) -> None:
    came = Event(AT, IN, "received", "a", A, {"branch": "pi/a", "thread": "20260205-pi-a.md"})
    later = Event(AT, OUT if kind == "queued" else IN, kind, "a", A, {"thread": thread, "title": "thread=x"})
    history = f"{format_event(came)}\n{format_event(later)}\n"
    assert names_thread(history, "20260205-pi-a.md") is named
    assert names_thread(history.rstrip("\n"), "20260205-pi-a.md") is named
    assert not names_thread("", "20260205-pi-a.md")
    assert not names_thread(" thread=20260205-pi-a.md", "20260205-pi-a.md")


MONTH = "".join(
    f"{format_event(one)}\n"
    for one in (event("received", thread="20260205-pi-x.md", title="50%0D\r\nof it"), event("decided", status="merged"))
)
ONE, TWO = MONTH.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        MONTH.replace("\n", "\r\n"),
        MONTH.replace("\n", "\r\r\n"),
        MONTH.replace("\n", "\r"),
        f"\ufeff{MONTH}",
        MONTH.removesuffix("\n"),
        MONTH.replace("\n", " \t\n"),
        f"\n{MONTH}\n\n",
        f" {MONTH}",
        MONTH + MONTH.replace("\n", "\r\n"),
        f"{ONE}\r\n{TWO}\n{ONE}\n",
        f"{ONE}\n\ufeff{ONE}\r\n{TWO}\r\n",
        MONTH.replace("\n", "%0D\n"),
    ],
)
def test_what_tools_do_to_lines_says_nothing(text: str) -> None:
    assert as_written(text) == MONTH
    assert len(list(each_event(as_written(text)))) == 2


def test_lines_have_their_numbers_and_the_same_event_twice_stays_two() -> None:
    assert numbered_lines(f"\n{ONE}\r\n\n{TWO}") == [(2, ONE), (4, TWO)]
    assert as_written(f"{ONE}\n{ONE}\n") == f"{ONE}\n{ONE}\n"
    assert as_written("") == ""


@pytest.mark.parametrize(
    "made", [ONE.replace(" in ", " inside "), ONE[:40], ONE[: len(ONE) - 1], f"{ONE[:-1]}\udcff", ""]
)
def test_what_a_program_made_of_an_event_says_nothing_beside_it(made: str) -> None:
    assert missing_events([made, TWO], {ONE}) == {TWO}
    assert missing_events([ONE], {made}) == {ONE}


@given(st.lists(EVENTS))
def test_what_cn_wrote_is_read_to_the_byte(events: list[Event]) -> None:
    text = "".join(f"{format_event(one)}\n" for one in events)
    assert as_written(text) == text
    assert "".join(f"{line}\n" for _, line in numbered_lines(text)) == text


@given(st.lists(EVENTS))
def test_an_open_file_says_the_same_whatever_tools_did_to_its_lines(events: list[Event]) -> None:
    items = fold_history(events)
    text = format_open(items)
    for changed in (text.replace("\n", "\r\n"), f"\ufeff{text}", text.replace("\n", " \n\n"), text.removesuffix("\n")):
        assert parse_open(changed) == parse_open(text)


def test_a_carriage_return_that_was_taken_into_a_field_is_none_of_it() -> None:
    item = Item(IN, "x", A, "received", AT, {"thread": "20260205-pi-x.md\r", "written": "2026-02-05T14:00:07Z\r"})
    (read,) = parse_open(format_open({(IN, "x"): item})).values()
    assert read.fields == {"thread": "20260205-pi-x.md", "written": "2026-02-05T14:00:07Z"}
