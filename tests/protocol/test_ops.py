"""Ops: if it is not in the type, an agent cannot do it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.protocol.ops import (
    USAGE,
    Ack,
    Commit,
    Defer,
    Delegate,
    Delete,
    Done,
    Fail,
    Noop,
    Op,
    OpRefused,
    Reply,
    Send,
    Surface,
    format_op,
    format_whole,
    op_key,
    parse_op,
)
from cn.values.text import visible

GOOD: list[tuple[str, str, Op]] = [
    ("ack", "x", Ack("x")),
    ("ack", "x|seen: a|b", Ack("x", "seen: a|b")),
    ("done", "x", Done("x")),
    ("noop", "x|nothing | left", Noop("x", "nothing | left")),
    ("fail", "review-123|missing context", Fail("review-123", "missing context")),
    ("reply", "x|LGTM", Reply("x", "LGTM")),
    ("reply", "x", Reply("x")),
    ("reply", "x|a || b", Reply("x", "a || b")),
    ("delegate", "x|rho", Delegate("x", "rho")),
    ("delegate", "x|rho|pi", Delegate("x", "rho|pi")),
    ("defer", "x", Defer("x")),
    ("defer", "x|2026-03-01", Defer("x", "2026-03-01")),
    ("defer", "x|3d|a|b", Defer("x", "3d", "a|b")),
    ("defer", "x||later", Defer("x", "", "later")),
    ("delete", "x|duplicate", Delete("x", "duplicate")),
    ("delete", "x", Delete("x")),
    ("send", "pi|hello", Send("pi", "hello")),
    ("send", "pi|summary|full | response", Send("pi", "summary", "full | response")),
    ("surface", "a | b: c # d", Surface("a | b: c # d")),
    ("commit", "x|docs/a b.md", Commit("x", "docs/a b.md")),
]
"""Texts as :func:`format_op` gives them."""


@pytest.mark.parametrize(("key", "value", "op"), GOOD, ids=lambda part: ascii(part))
def test_an_op_is_read_and_written(key: str, value: str, op: Op) -> None:
    assert parse_op(key, value) == op
    assert format_op(op) == (key, value)
    assert format_whole(op) == (key, value)


def test_the_table_holds_every_op() -> None:
    assert {key for key, _, _ in GOOD} == set(USAGE)


SLOPPY: list[tuple[str, str, Op]] = [
    ("reply", "  x |  LGTM  ", Reply("x", "LGTM")),
    ("reply", "x|", Reply("x")),
    ("reply", "x|\nfirst\n\nsecond\n", Reply("x", "first\n\nsecond")),
    ("defer", "x| | ", Defer("x")),
    ("done", "x|", Done("x")),
    ("ack", "x | ", Ack("x")),
    ("send", " pi\t| a | ", Send("pi", "a")),
]


@pytest.mark.parametrize(("key", "value", "op"), SLOPPY, ids=lambda part: ascii(part))
def test_white_space_and_empty_segments_are_forgiven(key: str, value: str, op: Op) -> None:
    assert parse_op(key, value) == op


BAD = [
    ("ack", "", "the id"), ("ack", " | seen", "the id"), ("done", "", "the id"), ("done", "x|y", "alone"),
    ("noop", "x", "the reason"), ("noop", "x| ", "the reason"), ("noop", "|why", "the id"),
    ("fail", "x", "the reason"), ("fail", "", "the id"), ("reply", "|hello", "the id"),
    ("reply", "", "the id"),
    ("delegate", "x", "the peer"), ("delegate", "|rho", "the id"), ("defer", "", "the id"),
    ("defer", "|3d", "the id"), ("delete", " ", "the id"), ("send", "pi", "the message"),
    ("send", "pi| |body", "the message"), ("send", "|hello", "the peer"), ("surface", " ", "the description"),
    ("commit", "x", "the artifact"), ("commit", "|docs/a.md", "the id"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "lacks"), BAD, ids=lambda part: ascii(part))
def test_what_is_missing_is_named_with_what_to_write(key: str, value: str, lacks: str) -> None:
    with pytest.raises(OpRefused) as refused:
        parse_op(key, value)
    assert refused.value.text.startswith(f"{key} ")
    assert lacks in refused.value.text
    assert refused.value.hint == f"write {key}: {USAGE[key]}"


def test_a_key_outside_the_table_is_no_op() -> None:
    with pytest.raises(OpRefused, match="merge"):
        parse_op("merge", "x")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("reply", "reply"),
        (" Reply ", "reply"),
        ("MCA", "surface"),
        ("mca", "surface"),
        ("rep ly", None),
        ("replys", None),
        ("reрly", None),
        ("ac\u212a", None),
        ("ｄｏｎｅ", None),
        ("do", None),
        ("", None),
    ],
    ids=ascii,
)
def test_keys_are_plain_ascii_in_any_case(key: str, name: str | None) -> None:
    assert op_key(key) == name


def test_the_last_segment_keeps_its_bars_and_the_others_lose_theirs() -> None:
    assert format_op(Defer("x", "a|b", "c|d")) == ("defer", "x|a/b|c|d")
    assert format_op(Send("pi", "a|b")) == ("send", "pi|a|b")


def test_a_long_text_is_written_whole() -> None:
    assert format_op(Surface("x " * 5000)) == ("surface", " ".join(["x"] * 5000))


def test_one_line_for_logs_and_all_lines_for_the_file() -> None:
    op = Send("pi", "short", "first\r\n\n- second\x1b\u202e")
    assert format_op(op) == ("send", "pi|short|first - second<U+001B><U+202E>")
    assert format_whole(op) == ("send", "pi|short|first\n\n- second<U+001B><U+202E>")


words = (
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
    .map(lambda text: visible(" ".join(text.split())))
    .filter(bool)
)
whole = (
    st.text(st.characters(codec="utf-8"), max_size=60)
    .map(lambda text: visible(text.replace("\r", "").strip()).strip())
    .filter(bool)
)


def every_op(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Op]:
    """Ops whose texts are drawn from ``texts``; what stands before a bar holds none."""
    plain = texts.map(lambda text: text.replace("|", "/"))
    maybe = st.just("") | texts
    return st.one_of(
        st.builds(Ack, plain, maybe),
        st.builds(Done, plain),
        st.builds(Noop, plain, texts),
        st.builds(Fail, plain, texts),
        st.builds(Reply, plain, maybe),
        st.builds(Delegate, plain, texts),
        st.builds(Defer, plain, st.just("") | plain, maybe),
        st.builds(Delete, plain, maybe),
        st.builds(Send, plain, plain, st.just("")),
        st.builds(Send, plain, plain, texts),
        st.builds(Surface, texts),
        st.builds(Commit, plain, texts),
    )


@given(every_op(words))
@example(Reply("x", "|a | b|"))
@example(Ack("x", "a| b"))
def test_what_is_written_is_read_back(op: Op) -> None:
    key, value = format_op(op)
    assert "\n" not in value
    assert parse_op(key, value) == op


@given(every_op(whole))
def test_what_is_written_whole_is_read_back(op: Op) -> None:
    assert parse_op(*format_whole(op)) == op


@given(st.sampled_from(sorted(USAGE)), st.text(max_size=60))
def test_any_value_is_an_op_or_refused(key: str, value: str) -> None:
    try:
        found = format_op(parse_op(key, value))[0]
    except OpRefused as refused:
        found = refused.text.split()[0]
    assert found == key
