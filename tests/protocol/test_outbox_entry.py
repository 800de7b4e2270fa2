"""An outbox entry holds the exact bytes, and proves that it does."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.layout import MESSAGE
from cn.protocol.message import Message, Sealed, object_id, seal
from cn.protocol.outbox_entry import (
    Deliver,
    Entry,
    Propose,
    Remove,
    entry_name,
    file_names,
    format_entry,
    outbox_path,
    parse_entry,
    sent_path,
)
from cn.values.names import Branch, NameRefused, Oid, digest, fold, parse_branch, parse_hub_path, parse_name
from cn.values.record_header import RecordRefused
from cn.values.text import one_line
from cn.values.timestamps import parse_stamp

PI, SIGMA = parse_name("pi"), parse_name("sigma")
TIP = Oid("3f2a9c1e" * 5)
AT = parse_stamp("2026-02-05T15:00:07Z")
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LINES = st.one_of(ANY, st.sampled_from(["---", "a\n---\nb", '"', "\\", "x: y", "\n---\n", "\udcff", "😀"]))


def branch_ok(text: str) -> bool:
    try:
        parse_branch(f"sigma/{text}")
    except NameRefused:
        return False
    return True


BRANCHES = st.text(st.characters(), max_size=20).filter(branch_ok).map(lambda t: parse_branch(f"sigma/{t}"))
MESSAGES = st.builds(Message, st.just(MESSAGE), st.just(SIGMA), st.just(PI), LINES, st.just(AT), LINES)


def deliver(
    sealed: Sealed, subject: str = "", thread: str = "", source: str = "", about: str = "", decision: str = ""
) -> Deliver:
    branch = parse_branch("sigma/re-x")
    return Deliver(
        sealed.id, PI, branch, MESSAGE, AT, subject, thread, source, about, decision,
        commit=sealed.commit, content=sealed.content,
    )  # fmt: skip


ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    st.builds(deliver, st.builds(seal, MESSAGES, st.tuples(LINES, LINES)), *[LINES] * 5),
    st.builds(Propose, st.just(PI), BRANCHES, st.just(TIP), st.just(AT), LINES.map(lambda t: one_line(t, 500))),
    st.builds(
        Remove, st.just(PI), BRANCHES, st.just(TIP), st.just(AT), LINES.map(lambda t: one_line(t, 500)), LINES, LINES
    ),
)


@given(ENTRIES)
def test_an_entry_is_read_as_it_is_written(entry: Entry) -> None:
    data = format_entry(entry)
    assert parse_entry(data) == entry
    assert format_entry(parse_entry(data)) == data


@given(ENTRIES)
def test_no_text_becomes_a_field(entry: Entry) -> None:
    head = format_entry(entry).partition(b"\n---\n")[0].decode("ascii")
    lines = head.split("\n")
    assert lines[:2] == ["---", "cn: outbox/1"]
    keys = [line.partition(":")[0] for line in lines[2:]]
    assert len(keys) == len(set(keys))
    assert set(keys) <= {
        "effect", "id", "to", "branch", "kind", "queued", "subject", "thread", "source", "about", "commit",
        "tip", "head",
        "reason", "decision",
    }  # fmt: skip


SEALED = seal(Message(MESSAGE, SIGMA, PI, "Hello", AT, "Body"), ("Sigma", "s@example.org"))
ENTRY = deliver(SEALED, subject="Hello")
GOOD = format_entry(ENTRY)
REMOVE = Remove(PI, parse_branch("sigma/x"), TIP, AT, "done", "t.md", "pi/x")


def test_signed_bytes_that_are_no_utf_8_survive() -> None:
    commit = SEALED.commit.replace(b"Sigma", b"Sigm\xff")
    entry = deliver(Sealed(object_id("commit", commit), commit, SEALED.content))
    assert parse_entry(format_entry(entry)) == entry


def test_what_a_tool_did_to_all_line_ends_is_read_as_without_it() -> None:
    for entry in (ENTRY, REMOVE):
        data = format_entry(entry)
        for changed in (
            data.replace(b"\n", b"\r\n"),
            b"\xef\xbb\xbf" + data,
            b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        ):
            assert parse_entry(changed) == entry
    with pytest.raises(RecordRefused, match="do not give its id"):  # the head is as it was: the message is another
        parse_entry(GOOD.removesuffix(SEALED.content) + SEALED.content.replace(b"\n", b"\r\n"))


def test_other_hashes() -> None:
    sealed = seal(Message(MESSAGE, SIGMA, PI, "x", AT), ("S", "s@x"), "sha256")
    entry = deliver(sealed)
    assert parse_entry(format_entry(entry), "sha256") == entry
    with pytest.raises(RecordRefused, match="do not give its id"):
        parse_entry(format_entry(entry))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no outbox entry"),
        (b"\xff\xfe", "no outbox entry"),
        (b"# notes", "no outbox entry"),
        (GOOD.replace(b"outbox/1", b"outbox/2"), "no outbox entry"),
        (GOOD[:60], "no outbox entry"),
        (GOOD + b"x", "do not give its id"),
        (GOOD.replace(b"Body", b"Bodz"), "do not give its id"),
        (GOOD.replace(b"s@example.org", b"t@example.org"), "do not give its id"),
        (GOOD.replace(SEALED.id.encode(), TIP.encode()), "do not give its id"),
        (GOOD.replace(b'"deliver"', b'"merge"'), "damaged"),
        (GOOD.replace(b'to: "pi"', b'to: "../pi"'), "damaged"),
        (GOOD.replace(b'to: "pi"\n', b""), "damaged"),
        (GOOD.replace(b"sigma/re-x", b"re-x"), "damaged"),
        (GOOD.replace(b"sigma/re-x", b"sigma/../x"), "damaged"),
        (GOOD.replace(b'"pi"', b"pi"), "damaged"),
        (GOOD.replace(b'"Hello"', b"[" * 9000), "damaged"),
        (GOOD.replace(b'queued: "2026', b'queued: "x026'), "damaged"),
        (format_entry(REMOVE).replace(TIP.encode(), b"HEAD"), "damaged"),
        (format_entry(REMOVE).replace(b'tip: "', b'typ: "'), "damaged"),
    ],
    ids=lambda value: ascii(value)[-30:],
)
def test_what_is_not_as_cn_wrote_it_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(RecordRefused, match=what) as caught:
        parse_entry(data)
    assert caught.value.hint


@given(st.binary(max_size=100))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    for text in (data, b"---\ncn: outbox/1\n" + data, GOOD[:80] + data, GOOD + data):
        with suppress(RecordRefused):
            parse_entry(text)


def test_names_and_places() -> None:
    assert file_names(PI, "re-x", SEALED.id, AT) == (entry_name(ENTRY), f"20260205-pi-re-x-{SEALED.id[:8]}.md")
    assert entry_name(REMOVE) == f"20260205-pi-x-{digest('pi', 'x', TIP, size=32)}-delete.md"
    assert outbox_path(REMOVE) == f"threads/mail/outbox/{entry_name(REMOVE)}"
    assert sent_path(ENTRY) == f"threads/mail/sent/{entry_name(ENTRY)}"


TOPICS = st.text(st.sampled_from("ab-+/.é"), max_size=8).map(lambda text: "a" * 66 + text)


@given(st.lists(st.tuples(st.sampled_from(["pi", "pi-a", "pi-aa"]), TOPICS, st.sampled_from("12")), max_size=30))
def test_two_things_never_have_one_name(things: list[tuple[str, str, str]]) -> None:
    things += [("pi", "x-fix", "1"), ("pi-x", "fix", "1"), ("pi", "fix/typo", "1"), ("pi", "fix-typo", "1")]
    heads = {end: Oid("3f2a9c1e" * 4 + end * 8) for end in "12"}
    entries = [
        effect(parse_name(to), Branch(f"sigma/{topic}"), heads[end], AT)
        for to, topic, end in dict.fromkeys(things)
        for effect in (Propose, Remove)
    ]
    assert len({fold(entry_name(entry)) for entry in entries}) == len(entries)


@given(ENTRIES)
def test_a_name_is_one_plain_file(entry: Entry) -> None:
    name = entry_name(entry)
    assert parse_hub_path(name) == name
    assert "/" not in name
    assert name.isascii()
    assert len(name) < 160
    assert not name.startswith((".", "-"))
