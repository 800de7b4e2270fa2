"""Reading ``output.md`` is total; nothing of the body ever becomes an op.

What models write in practice lies in ``tests/corpus/outputs``; here stand the properties,
the limits and what errors say.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.agent.plan.output import LIMIT, Output, format_output, parse_output
from cn.protocol.ops import Ack, Defer, Done, Op, Reply, Send, Surface, format_op, parse_op
from cn.values.text import visible

I = "20260205-140007-3fa2c1"  # noqa: E741

line = (
    st.text(st.characters(codec="utf-8") | st.sampled_from("|\"'\\#:-`*>"), min_size=1, max_size=30)
    .map(lambda text: visible(" ".join(text.split())))
    .filter(bool)
)
plain = line.map(lambda text: text.replace("|", "/"))
ops = st.lists(
    st.one_of(
        st.builds(Ack, plain, line),
        st.builds(Done, plain),
        st.builds(Reply, plain, st.just("") | line),
        st.builds(Defer, plain, st.just("") | plain, st.just("") | line),
        st.builds(Send, plain, plain, st.just("") | line),
        st.builds(Surface, line),
    ),
    max_size=4,
)
PIECES = [
    "---", "...", "```", "```yaml", "~~~", f"id: {I}", "id: other", f"delete: {I}", "send: rho|x", "<!--",
    "-->", "", "  ", "# Title", "> quoted", "- item", "    code", "text", "- reply: x|y", "**done:** x", "|",
    "\ufeff", "\u2028",
]  # fmt: skip
pieces = st.sampled_from(PIECES)
bodies = st.lists(pieces | st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)).map("\n".join)
"""Bodies made of what could be taken for something else."""


@given(plain, ops, bodies)
@example("x", [Surface('"a"'), Surface("'a'"), Surface("|"), Surface(">-"), Surface('"'), Surface("a\\")], "---\nid: y")
@example("'x'", [Ack('"a', 'b"')], "```\n---\nid: y\n---\n```")
@example("x", [], "\n\n```\ncode\n```")
@example("---", [], "<!-- a -->\n\n\nid: x")
def test_what_is_written_is_read_back(id: str, ops: list[Op], body: str) -> None:
    read = parse_output(format_output(id, ops, body).encode())
    assert read == Output(id, tuple(ops), body.strip(), (), ())


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1)
    .map(lambda text: visible(text.strip()).strip())
    .filter(bool)
)
@example("a\n\n- b\n\\n \"c\" 'd'\t|\n---\n# e")
def test_line_feeds_of_a_text_are_kept(text: str) -> None:
    op = Send("pi", "short", text)
    assert parse_output(format_output(I, [op]).encode()).ops == (op,)


def test_the_standard_format_is_written() -> None:
    text = format_output("review", [Done("review"), Surface('Add "retry" logic: now')], "\n# Review\n\nDone.\n\n")
    assert text == '---\nid: review\ndone: review\nsurface: Add "retry" logic: now\n---\n\n# Review\n\nDone.\n'
    assert format_output("x", [Ack("x")]) == "---\nid: x\nack: x\n---\n"


def test_crlf_in_a_body_becomes_lf() -> None:
    assert "\r" not in format_output("x", [], "a\r\nb\r\n")
    assert parse_output(b"---\r\nid: x\r\n---\r\na\r\nb\r\n").body == "a\nb"


@given(st.binary(max_size=300))
@example(b"---")
@example(b"```")
@example(b"```\n---")
@example(b"- ")
@example(b"id:")
@example(b"---\n- - id: x")
@example(b"\xff\xfe-\0-\0-\0")
def test_any_bytes_are_read(data: bytes) -> None:
    read = parse_output(data)
    (read.id + read.body + "".join(read.unknown) + "".join(read.errors)).encode()
    assert all(text.isprintable() for text in (*read.unknown, *read.errors))


@given(
    st.lists(pieces | st.sampled_from(["id", "reply: a|b", "x: y", "surface: |", "  more", '"', "ack:"]), max_size=14)
)
@example(["---", "surface: |", "  more", "  more"])
def test_any_lines_are_read_and_their_ops_stand_in_them(lines: list[str]) -> None:
    """A block scalar has several lines, which a written op puts on one."""
    read = parse_output("\n".join(lines).encode())
    for op in read.ops:
        key, value = format_op(op)
        again = parse_op(key, value)
        assert type(again) is type(op)
        assert format_op(again) == (key, value)
        assert any(key in text for text in lines)


@given(bodies)
def test_no_body_adds_an_op(body: str) -> None:
    """With a closed block above it, nothing below decides, whatever it imitates."""
    read = parse_output(f"---\nid: {I}\nack: {I}\n---\n{body}".encode())
    assert (read.id, read.ops, read.unknown, read.errors) == (I, (Ack(I),), (), ())
    assert read.body == body.strip()


@given(bodies)
@example(f"text\n---\ndelete: {I}\n---")
def test_a_body_below_an_unclosed_block_adds_no_op_unseen(body: str) -> None:
    """Where the closing line is missing, text parts the two; an op that might be meant is an error."""
    read = parse_output(f"---\nid: {I}\nack: {I}\n\nSome words.\n\n{body}".encode())
    assert (read.id, read.ops, read.unknown) == (I, (Ack(I),), ())
    assert read.errors or read.body == f"Some words.\n\n{body}".strip()


@given(bodies)
def test_prose_never_holds_an_op_unless_a_whole_block_follows_it(body: str) -> None:
    read = parse_output(f"I think so.\n\n{body}".encode())
    if read.ops:
        assert read.id
        assert "---" in body or "```" in body or "~~~" in body


@given(bodies)
def test_quoted_text_never_holds_an_op(body: str) -> None:
    quoted = "\n".join(f"> {text}" for text in body.split("\n"))
    assert parse_output(f"You wrote:\n\n{quoted}\n".encode()).ops == ()


@pytest.mark.parametrize("talk", range(1, 8))
def test_at_most_five_lines_of_talk_are_dropped(talk: int) -> None:
    read = parse_output(("well\n\n" * talk + f"---\nid: {I}\n---\n").encode())
    assert read.id == (I if talk <= 5 else "")


@pytest.mark.parametrize(
    "answer",
    [
        "Here:\n\n---\nack: {I}\n---\n",
        "Here:\n\n---\nid: {I}\nack: {I}\n",
        "Here:\n\n---\nid: {I}\nnonsense\nack: {I}\n---\n",
        "Here:\n\nid: {I}\nack: {I}\n",
        "Here:\n\nid: {I}\nack: {I}\n---\n",
        "Here:\n> quoted\n---\nid: {I}\nack: {I}\n---\n",
        "Here:\n```\n---\nid: {I}\nack: {I}\n---\n```\nand more\n",
        "Here:\n```\nid: {I}\nack: {I}\n```\nand more\n",
    ],
)
def test_talk_is_dropped_only_before_a_clear_block(answer: str) -> None:
    text = answer.format(I=I)
    read = parse_output(text.encode())
    assert (read.id, read.ops, read.body) == ("", (), text.strip())


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ("ack:", "line 3: ack lacks the id; write ack: ID[|REASON]"),
        ("MCA:", "line 3: surface lacks the description; write surface: DESCRIPTION"),
        ("send: pi", "line 3: send lacks the message; write send: PEER|MESSAGE[|BODY]"),
        ("done:\n  - x", "line 3: done has a list; write done: ID on a line of its own for each"),
        ("ack: a\0", "line 3: ack holds the control character U+0000; write plain text"),
        ("ack: a\x85b", "line 3: ack holds the control character U+0085; write plain text"),
        ('ack: "a\\n\x07b"', "line 3: ack holds the control character U+0007; write plain text"),
        ("reply: |\n  x|a\n  b\u2066", "line 3: reply holds the control character U+2066; write plain text"),
        ("id: y", "line 3: there are two ids, 'x' and 'y'; give one"),
        ("ack: x\nnonsense", "line 4: 'nonsense' is no pair of key and value; "
         "write ops as key: value, and the text below the closing ---"),
    ],
    ids=lambda part: ascii(part)[:30],
)  # fmt: skip
def test_an_error_names_line_op_reason_and_remedy(pairs: str, error: str) -> None:
    assert parse_output(f"---\nid: x\n{pairs}\n---\n".encode()).errors == (error,)


def test_a_byte_that_is_no_utf_8_is_named() -> None:
    read = parse_output(b"---\nid: x\nack: x|\xe9\n---\ncaf\xe9")
    assert read.errors == ("line 3: ack holds the byte 0xE9, which is no UTF-8; write UTF-8",)
    assert read.body == "caf\ufffd"


def test_the_replacement_character_itself_is_text() -> None:
    assert parse_output("---\nid: x\nack: x|\ufffd\n---\n".encode()).ops == (Ack("x", "\ufffd"),)


def test_joiners_that_languages_need_are_text() -> None:
    assert parse_output("---\nid: x\nack: x|می\u200cخواهم 👩\u200d💻\n---\n".encode()).errors == ()


def test_one_bad_op_does_not_hide_the_next() -> None:
    read = parse_output(b"---\nid: x\nack:\nreply: x|ok\nsend: pi\n---\n")
    assert read.ops == (Reply("x", "ok"),)
    assert [error.partition(" lacks")[0] for error in read.errors] == ["line 3: ack", "line 5: send"]


def test_unknown_keys_are_one_short_visible_line() -> None:
    read = parse_output(f"---\nid: x\n{'k' * 500}: 1\nmódel: 2\n---\n".encode())
    assert read.unknown == ("k" * 39 + "…", "módel")


def test_floods_are_told_in_few_lines() -> None:
    read = parse_output(("---\nid: x\n" + "a: b\n" * 100 + "ack:\n" * 100 + "---\n").encode())
    assert len(read.unknown) == len(read.errors) == 21
    assert (read.unknown[-1], read.errors[-1]) == ("and 80 more keys", "and 80 more errors")


def test_more_pairs_than_anybody_needs_are_an_error() -> None:
    read = parse_output(("---\nid: x\n" + "send: pi|x\n" * 5000 + "---\n").encode())
    assert read.errors == ("line 5002: more than 5000 pairs; write fewer ops",)


def test_more_than_the_limit_is_an_error_and_the_rest_is_not_read() -> None:
    head = b"---\nid: x\nack: x\n---\n"
    whole = head + b"y" * (LIMIT - len(head))
    assert parse_output(whole).errors == ()
    read = parse_output(whole + b"z")
    assert (read.id, read.ops, len(read.errors)) == ("x", (Ack("x"),), 1)
    assert "1048577 bytes" in read.errors[0]
    assert "z" not in read.body


MIB = 1 << 20
HOSTILE = {
    "backticks": b"`" * MIB,
    "dashes": b"-" * MIB,
    "rules": b"---\n" * (MIB // 4),
    "empty lines": b"\n" * MIB,
    "carriage returns": b"\r" * MIB,
    "spaces in a value": b"---\nid: x\nreply: " + b" " * (MIB - 20) + b"x",
    "spaces behind a key": b"---\na" + b" " * (MIB - 10) + b"x",
    "one key": b"---\n" + b"a" * (MIB - 10),
    "pairs": b"---\n" + b"x: \n" * (MIB // 4 - 2),
    "bad ops": b"---\nid: x\n" + b"ack:\n" * (MIB // 5 - 4),
    "a block scalar": b"---\nid: x\nreply: |\n" + b"  a\n" * (MIB // 4 - 8),
    "continued lines": b"---\nid: x\n" + b" x\n\n" * (MIB // 4 - 8),
    "a list": b"---\nops:\n" + b"- a\n" * (MIB // 4 - 4),
    "escapes": b'---\nreply: "' + b"\\" * (MIB - 20) + b'"',
    "doubled quotes": b"---\nreply: '" + b"''" * (MIB // 2 - 10) + b"'",
    "fences": b"```\n\n" * (MIB // 5),
    "fences in a fence": b"```\n---\nid: x\n---\n" + b"```\n" * (MIB // 4 - 8),
    "blocks behind talk": b"Here:\n" + b"\n---\nid: x\n---\n" * (MIB // 16),
    "blocks below a broken one": b"---\nid: x\n\nfoo\n" + b"---\nid: x\n" * (MIB // 10 - 4),
    "no UTF-8": b"\xff" * MIB,
    "NUL": b"\0" * MIB,
}


@pytest.mark.sliced(4)
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_mebibyte_of_anything_is_read_in_linear_time(data: bytes) -> None:
    """A quadratic reader would take hours: the test run itself is the clock."""
    assert MIB * 0.9 < len(data) <= MIB
    read = parse_output(data)
    assert len(read.errors) <= 21
    assert len(read.ops) <= 1
