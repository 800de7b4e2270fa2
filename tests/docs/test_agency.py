"""The page on Agency's records names the events, places and settings that there are."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

from cn.agency.events import TYPES
from cn.agency.store.repository import Places
from tests.docs.blocks import PROTOCOL

PAGE = (PROTOCOL / "agency.md").read_text("utf-8")


def test_every_event_stands_there_with_its_fields() -> None:
    table = PAGE.partition("<!-- events -->\n")[2].partition("<!-- /events -->")[0].splitlines()[2:]
    found = {row.split(" | ")[0].strip("|` "): row.split(" | ")[1] for row in table}
    named = {
        name: ", ".join(f"`{part.name}`{'' if part.default is MISSING else '?'}" for part in fields(kind))
        for name, kind in TYPES.items()
    }
    assert found == named


def test_the_places_are_those_of_the_code() -> None:
    places = Places(Path(".git/cn"))
    for path in (places.repository, places.lock, places.index_file):
        assert f"`{path}`" in PAGE
