"""The page on where Agency's records are kept names the places that there are."""

from __future__ import annotations

from pathlib import Path

from cn.agency.store.copies import SETTING
from cn.agency.store.repository import Places
from tests.docs.blocks import PROTOCOL

PAGE = (PROTOCOL / "agency-store.md").read_text("utf-8")


def test_the_places_are_those_of_the_code() -> None:
    places = Places(Path(".git/cn"))
    for path in (places.repository, places.lock, places.index_file, places.packing_lock):
        assert f"`{path}`" in PAGE
    assert f"`{places.copy_lock.name}`" in PAGE


def test_the_setting_is_that_of_the_code() -> None:
    assert f"`git config {SETTING} URL`" in PAGE
