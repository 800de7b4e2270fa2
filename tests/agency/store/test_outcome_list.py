"""The list that is waited for asks the index as it is, where that is up to date; else the store looks."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.agency.store.derived import DerivedIndex
from cn.agency.store.look import list_outcomes
from cn.agency.store.outcome_list import Wanted, find_state, open_quickly
from cn.agency.store.outcome_list import list_outcomes as ask_for_outcomes
from cn.values.errors import Blocked
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


def _pipe(state: Path) -> None:
    (state / "agency/index.sqlite").unlink()
    os.mkfifo(state / "agency/index.sqlite")


def _pipe_beside(state: Path) -> None:
    os.mkfifo(state / "agency/index.sqlite-journal")


def _damaged(state: Path) -> None:
    """The pages of the outcomes; those that say what index it is are whole."""
    path = state / "agency/index.sqlite"
    with sqlite3.connect(path) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'outcome'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    data = path.read_bytes()
    path.write_bytes(data[: (page - 1) * size] + bytes(size) + data[page * size :])


def test_an_index_that_is_up_to_date_is_asked_as_it_is(tmp_path: Path) -> None:
    store = found(tmp_path)
    with store.reading() as facts:
        listed = list_outcomes(facts, Wanted(), AT, 9)
    store.close()
    database = open_quickly(str(tmp_path / "cn"))
    assert database is not None
    assert ask_for_outcomes(database, Wanted(), int(AT.timestamp()), 9) == listed
    assert [title for _, _, title in listed.workable] == ["Help"]
    database.close()


@pytest.mark.parametrize(
    "damage", [_vanish, _cut, _of_another_cn, _behind, _pipe, _pipe_beside], ids=lambda d: d.__name__.strip("_")
)
def test_any_other_index_is_left_to_the_store(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = found(tmp_path)
    DerivedIndex(store.repository).current(store.repository.tip())
    store.close()
    damage(tmp_path / "cn")
    assert open_quickly(str(tmp_path / "cn")) is None
    again = reopen(tmp_path)
    with again.reading() as facts:
        assert facts.head() is not None
    again.close()
    database = open_quickly(str(tmp_path / "cn"))
    assert database is not None
    database.close()


def test_damage_that_shows_while_it_is_read_is_named_and_mended(tmp_path: Path) -> None:
    store = found(tmp_path)
    with store.reading() as facts:
        before = list_outcomes(facts, Wanted(), AT, 9)
    store.close()
    _damaged(tmp_path / "cn")
    again = reopen(tmp_path)
    with pytest.raises(Blocked, match="damaged") as error, again.reading() as facts:
        list_outcomes(facts, Wanted(), AT, 9)
    assert "run it again" in error.value.hint
    with again.reading() as facts:
        assert list_outcomes(facts, Wanted(), AT, 9) == before
    again.close()


def test_the_state_of_a_hub_is_found_from_below_it(tmp_path: Path) -> None:
    for folder in ("hub/.cn", "hub/.git", "hub/threads/inbox"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "hub/.cn/hub.yaml").touch()
    assert find_state(str(tmp_path / "hub/threads/inbox")) == str(tmp_path / "hub/.git/cn")
    assert find_state(str(tmp_path / "elsewhere")) == ""


def test_a_hub_whose_path_means_something_in_a_uri_is_asked_too(tmp_path: Path) -> None:
    store = found(tmp_path / "a?b#c%25 d")
    DerivedIndex(store.repository).current(store.repository.tip())
    store.close()
    database = open_quickly(str(tmp_path / "a?b#c%25 d/cn"))
    assert database is not None
    database.close()
