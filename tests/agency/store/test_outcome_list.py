"""The list that is waited for asks the index as it is, where that is up to date; else the store looks."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.agency.store.derived import DerivedIndex
from cn.agency.store.look import list_outcomes
from cn.agency.store.outcome_list import Wanted, find_state, open_quickly
from cn.agency.store.outcome_list import list_outcomes as ask_for_outcomes
from tests.support.records import AT, create, found, reopen


def _vanish(state: Path) -> None:
    (state / "agency/index.sqlite").unlink()


def _cut(state: Path) -> None:
    (state / "agency/index.sqlite").write_bytes((state / "agency/index.sqlite").read_bytes()[:3000])


def _of_another_cn(state: Path) -> None:
    with sqlite3.connect(state / "agency/index.sqlite") as database:
        database.execute("PRAGMA user_version = 7")
    database.close()


def _behind(state: Path) -> None:
    shutil.copy(state / "agency/index.sqlite", state / "older")
    store = reopen(state.parent)
    store.write(create(b"x"))
    store.close()
    shutil.move(state / "older", state / "agency/index.sqlite")


def test_an_index_that_is_up_to_date_is_asked_as_it_is(tmp_path: Path) -> None:
    store = found(tmp_path)
    with store.reading() as facts:
        listed = list_outcomes(facts, Wanted(), AT, 9)
    store.close()
    database = open_quickly(tmp_path / "cn")
    assert database is not None
    assert ask_for_outcomes(database, Wanted(), int(AT.timestamp()), 9) == listed
    assert [(row.title, row.state) for row in listed.rows] == [("Help", "workable")]
    database.close()


@pytest.mark.parametrize("damage", [_vanish, _cut, _of_another_cn, _behind], ids=lambda d: d.__name__.strip("_"))
def test_any_other_index_is_left_to_the_store(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = found(tmp_path)
    DerivedIndex(store.repository).current(store.repository.tip())
    store.close()
    damage(tmp_path / "cn")
    assert open_quickly(tmp_path / "cn") is None


def test_the_state_of_a_hub_is_found_from_below_it(tmp_path: Path) -> None:
    for folder in ("hub/.cn", "hub/.git", "hub/threads/inbox"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "hub/.cn/hub.yaml").touch()
    assert find_state(tmp_path / "hub/threads/inbox") == tmp_path / "hub/.git/cn"
    assert find_state(tmp_path / "elsewhere") is None
