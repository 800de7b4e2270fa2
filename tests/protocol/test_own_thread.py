"""Threads of our own: what is written is read again, whatever people put into them; what is saved."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.own_thread import (
    Own,
    adhoc_path,
    concern_path,
    done_concern_path,
    format_own,
    is_named,
    is_own,
    new_own,
    own_source,
    parse_own,
)
from cn.threads.plan.edits import MOST, Edit, Kind, Left, judge
from cn.values.names import HubPath
from cn.values.report import Mark
from cn.values.text import visible

NOW = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)
PATH = HubPath("threads/adhoc/20260205-x.md")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
# What stands in a file: CRLF is read as LF.
bodies = st.lists(
    st.sampled_from(["**State:** done", "", "text", "# x", "```", "<!--", "> q", "a\tb", "é"]), max_size=8
)


@given(texts, bodies.map("\n".join), texts)
def test_a_new_thread_is_read_as_it_was_written(title: str, body: str, source: str) -> None:
    own = new_own(PATH, f"T {title}", NOW, "sigma", body, Source=source)
    assert parse_own(PATH, format_own(own)) == own
    assert own.opened == NOW
    assert own.pending


@given(bodies.map("\n".join))
def test_no_text_below_becomes_a_field(body: str) -> None:
    own = parse_own(PATH, format_own(new_own(PATH, "T", NOW, "sigma", body)))
    assert [key for key, _ in own.fields] == ["State", "Opened", "By"]
    assert own.state == "open"


@given(st.text(max_size=300))
def test_any_text_is_a_thread(text: str) -> None:
    own = parse_own(PATH, text)
    again = parse_own(PATH, format_own(own))
    assert parse_own(PATH, format_own(again)) == again
    assert own.title


@given(bodies.map("\n".join), texts)
def test_an_entry_keeps_what_was_there(body: str, entry: str) -> None:
    own = new_own(PATH, "T", NOW, "sigma", body)
    more = own.with_entry(NOW, "cn", entry)
    assert more.body.startswith(own.body.rstrip())
    assert "## 2026-02-05T14:00Z cn" in more.body
    assert more.fields == own.fields


def test_a_file_without_a_head_is_an_open_thread() -> None:
    own = parse_own(PATH, "just some words\n**State:** done\n")
    assert (own.title, own.state, own.opened) == ("20260205-x", "open", None)
    assert own.body == "just some words\n**State:** done"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Buy a rack", "20260205-buy-a-rack"),
        ("ünïcode!", "20260205-unicode"),
        ("日本", "20260205-thread"),
        ("../../etc/passwd", "20260205-etc-passwd"),
        ("-rf", "20260205-rf"),
        ("\x1b[31m\u202e", "20260205-31m"),
        ("x" * 300, "20260205-" + "x" * 60),
    ],
)
def test_a_title_becomes_a_file_name(title: str, name: str) -> None:
    path = adhoc_path(title, NOW)
    assert path == f"threads/adhoc/{name}.md"
    assert is_own(path)


def test_a_taken_name_gets_a_number() -> None:
    taken = frozenset({"threads/adhoc/20260205-X.md", "threads/adhoc/20260205-x-2.md"})
    assert adhoc_path("x", NOW, taken) == "threads/adhoc/20260205-x-3.md"


def test_a_concern_keeps_its_source_when_it_is_done() -> None:
    path = concern_path("Watch the disk", NOW, "sigma")
    assert path == concern_path("Watch the disk", NOW, "sigma") != concern_path("Watch the disk", NOW, "pi")
    assert own_source(done_concern_path(path)) == own_source(path)
    assert is_own(path)
    assert not is_own(done_concern_path(path))


@pytest.mark.parametrize(
    "path",
    [
        "threads/adhoc/a.txt",
        "threads/adhoc/.a.md",
        "threads/adhoc/-a.md",
        "threads/adhoc/b/a.md",
        "threads/adhoc/a\nb.md",
        "threads/adhoc/a\x1b[31m.md",
        "threads/adhoc/a\u202eb.md",
        "threads/adhoc/a\udcff.md",
        "threads/inbox/a.md",
        "threads/reflections/daily/notes.md",
        "threads/reflections/hourly/20260205.md",
        "state/mca/done/a.md",
    ],
)
def test_no_threads_of_our_own(path: str) -> None:
    assert not is_own(path)


def test_the_names_of_a_thread() -> None:
    for name in ("20260205-x", "20260205-x.md", "adhoc/20260205-x", "adhoc/20260205-x.md", PATH, PATH[:-3]):
        assert is_named(PATH, name), name
    for name in ("x", "20260205", "inbox/20260205-x", "mca/20260205-x", "", "adhoc/", "THREADS/adhoc/20260205-x"):
        assert not is_named(PATH, name), name


def test_an_empty_value_takes_a_field_out() -> None:
    own = Own(PATH, "T", (("State", "open"),), "")
    assert own.with_field("Until", "x").with_field("Until", "") == own
    assert own.with_field("Reason", "a\nb").get("Reason") == "a b"


# What is saved.

OURS = ("threads/adhoc/a.md", "threads/reflections/daily/20260205.md", "state/mca/a.md", "threads/inbox/a.md")


@pytest.mark.parametrize("path", OURS)
@pytest.mark.parametrize("kind", [k for k in Kind if k not in (Kind.FILE, Kind.MISSING)])
def test_only_plain_files_are_saved(path: str, kind: Kind) -> None:
    outcome = judge(Edit(path, kind), {"threads/inbox/a.md"})
    assert isinstance(outcome, Left)
    assert outcome.mark is Mark.REFUSED


@pytest.mark.parametrize("path", OURS)
def test_the_largest_file(path: str) -> None:
    assert judge(Edit(path, Kind.FILE, MOST), {"threads/inbox/a.md"}) == path
    assert isinstance(judge(Edit(path, Kind.FILE, MOST + 1), {"threads/inbox/a.md"}), Left)


def test_deletions() -> None:
    found = [judge(Edit(path, Kind.MISSING), {"threads/inbox/a.md"}) for path in OURS]
    assert found[:2] == list(OURS[:2])
    assert [left.mark for left in found if isinstance(left, Left)] == [Mark.REFUSED, Mark.INFO]


@given(st.text(st.characters(exclude_characters="/"), min_size=1, max_size=20), st.sampled_from(OURS))
def test_whatever_the_name_it_is_judged(name: str, beside: str) -> None:
    path = f"{beside.rpartition('/')[0]}/{name}"
    outcome = judge(Edit(path, Kind.FILE), set())
    if isinstance(outcome, str):
        assert visible(outcome) == outcome
        assert "\n" not in outcome
        assert not name.startswith(".")


@pytest.mark.parametrize("path", ["state/peers.md", "threads/adhoc/.gitignore", "STATE/Peers.md"])
def test_protected_files_are_named_with_the_command(path: str) -> None:
    outcome = judge(Edit(path, Kind.FILE, tracked=False), set())
    assert isinstance(outcome, Left)
    assert f"git add -- {path} && git commit -- {path}" in outcome.why
