"""The page of figures is written from what harnesses wrote, and keeps what was not run again."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.figures import observed
from tests.support.hubs import ROOT

PAGE = ROOT / "docs/reliability.md"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "docs/reliability.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_are_added_up_and_old_rows_stay(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_FIGURES", str(tmp_path))
    row = "| attacks tried | 1 | 3 tried | 2026-01-01 |\n"
    page = f"before\n{script.BEGIN}{script.HEAD}{row}{script.END}after\n"
    observed("crash", "merge", kills=3, wrong=0)
    observed("crash", "delete", kills=4, wrong=1)
    observed("long-run", "year", days=365)
    on = json.loads((tmp_path / "crash-merge.json").read_text())["on"]
    filled = script.fill_page(page, script.read_figures(tmp_path))
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    rows = filled.partition(script.HEAD)[2].splitlines()[:3]
    assert rows == [
        f"| cn killed with SIGKILL | 2 | 7 kills, 1 wrong | {on} |",
        f"| a long time: year | 1 | 365 days | {on} |",
        "| attacks tried | 1 | 3 tried | 2026-01-01 |",
    ]
    assert script.fill_page(filled, script.read_figures(tmp_path)) == filled


def test_slices_of_a_case_are_one_case(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_FIGURES", str(tmp_path))
    for part, kills in (("0:2", 4), ("1:2", 3)):
        monkeypatch.setenv("TEST_SLICE", part)
        observed("crash", "merge", boundaries=7, kills=kills, wrong=0)
    (case,) = script.read_figures(tmp_path)["crash"]
    assert (case["boundaries"], case["kills"], case["wrong"]) == (7, 7, 0)


def test_the_page_has_its_table_and_nothing_failed(script: ModuleType) -> None:
    text = PAGE.read_text("utf-8")
    table = text.partition(script.BEGIN)[2].partition(script.END)[0]
    assert table.startswith(script.HEAD)
    for bad in ("wrong", "lost", "doubled", "resurrected", "unsound", "got through", "too costly"):
        for line in table.splitlines():
            assert f" {bad}" not in line or f" 0 {bad}" in line, line


def test_what_can_happen_to_agencys_records_is_shown_by_tests_that_are_there() -> None:
    table = PAGE.read_text("utf-8").partition("## What can happen to Agency's records")[2].partition("\n## ")[0]
    named = re.findall(r"^\| [^|]+ \| `([^`]+)::(test_\w+)` \|$", table, re.M)
    assert len(named) == table.count("\n| ") - 1 > 20
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / "tests/agency" / file).read_text("utf-8"), (file, test)
