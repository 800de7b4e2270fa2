"""The journal survives being written and read, and a damaged one stops the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cn.git.entries import Change, Entry
from cn.git.repository import Hub, open_hub
from cn.system.files import drop
from cn.transaction.journal import (
    Journal,
    LocalAppend,
    RefUpdate,
    journal_path,
    local_place,
    push_path,
    read_journal,
    read_pushes,
    write_journal,
)
from cn.transaction.publish import with_sizes
from cn.values.errors import Refused
from cn.values.names import Oid
from tests.support.hubs import commit, work

A, B = Oid("a" * 40), Oid("b" * 64)
FULL = Journal(
    token="t",
    old=A,
    new=B,
    message="cn: ünï\n",
    changes=(Change("new\nline \udcff", None, Entry("100644", A)), Change("x", Entry("120000", A), None)),
    inputs={"x": A},
    refs=(RefUpdate("refs/cn/a", A), RefUpdate("refs/cn/b", None)),
    appends=(LocalAppend("x/é", "line ✓\n"),),
    sizes=(7,),
    covers=(A,),
    expected=A,
)


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {".cn/hub.yaml": "name: sigma\n"})
    return open_hub(root)


LONG = tuple(RefUpdate(f"refs/cn/{n}", A) for n in range(250))


@pytest.mark.parametrize(
    "journal",
    [
        FULL,
        Journal("t", A, A, "m", inputs={}),
        FULL._replace(refs=LONG),
        FULL._replace(refs=LONG[:200]),
        FULL._replace(appends=(*FULL.appends, LocalAppend("y", 'a "\\é✓\U0001f600\udcff\n' * 30_000))),
    ],
)
def test_round_trip(hub: Hub, journal: Journal) -> None:
    write_journal(journal_path(hub), journal)
    assert read_journal(journal_path(hub)) == journal
    drop(journal_path(hub))
    drop(journal_path(hub))
    assert read_journal(journal_path(hub)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 2}', "\x00"])
def test_a_damaged_one_is_named_and_kept(hub: Hub, text: str) -> None:
    hub.state.mkdir()
    journal_path(hub).write_text(text)
    with pytest.raises(Refused, match=r"journal is damaged") as told:
        read_journal(journal_path(hub))
    assert told.value.hint
    assert journal_path(hub).exists()


def test_notes_of_pushes_are_found_again(hub: Hub) -> None:
    assert read_pushes(hub) == []
    write_journal(push_path(hub, B), FULL)
    assert read_pushes(hub) == [FULL]


@pytest.mark.parametrize("outside", ["/etc/passwd", "../x", "a/../../x", ".git/cn/../../../x", "", ".", ".git/cn/"])
def test_no_name_of_a_journal_leads_out_of_the_hub(hub: Hub, outside: str) -> None:
    assert local_place(hub, outside) in (None, (hub.state, hub.root))


def test_names_are_found_below_the_hub_wherever_it_stands(hub: Hub) -> None:
    log = hub.root / "logs/cn.log"
    assert local_place(hub, "logs/cn.log") == local_place(hub, str(log)) == (log, hub.root)
    assert (
        local_place(hub, ".git/cn/wake") == local_place(hub, str(hub.state / "wake")) == (hub.state / "wake", hub.state)
    )
    elsewhere = replace(hub, git_dir=hub.root.parent / "apart.git")
    assert local_place(elsewhere, ".git/cn/wake") == (elsewhere.state / "wake", elsewhere.state)


def test_sizes_are_those_of_the_files(hub: Hub) -> None:
    (hub.root / "log").write_text("12345")
    appends = (LocalAppend("log", "x"), LocalAppend("none", "x"))
    assert with_sizes(hub, Journal("t", A, A, "m", appends=appends)).sizes == (5, 0)
