"""Outputs as models write them, good, sloppy and hostile: each is read as the page beside it says.

``tests/corpus/outputs/NAME.md`` holds the bytes, ``NAME.json`` what reading them gives and,
as ``result``, what executing them comes to in the standard situation: input
``20260205-140007-3fa2c1`` of thread ``20260205-pi-proposal.md`` from peer pi, hub sigma,
peers pi and rho, reviewer alice, and ``docs/start.md`` in main.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cn.agent.plan.output import parse_output
from cn.protocol.ops import USAGE, format_op
from tests.support.hubs import ROOT

CORPUS = ROOT / "tests" / "corpus" / "outputs"
PAGES = sorted(CORPUS.glob("*.json"))
KEYS = ["note", "id", "ops", "body", "unknown", "errors", "result"]
RESULTS = {
    "rejected", "acked", "done", "replied", "delegated", "assigned", "deferred", "discarded", "failed",
    "opened",
}  # fmt: skip


def read(page: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))
    return expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_output_is_read_as_its_page_says(page: Path) -> None:
    expected = read(page)
    output = parse_output(page.with_suffix(".md").read_bytes())
    assert output.id == expected["id"]
    assert [list(format_op(op)) for op in output.ops] == expected["ops"]
    assert output.body == expected["body"]
    assert list(output.unknown) == expected["unknown"]
    assert len(output.errors) == len(expected["errors"]), output.errors
    for error, part in zip(output.errors, expected["errors"], strict=True):
        assert part in error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_complete_and_an_error_rejects(page: Path) -> None:
    expected = read(page)
    assert list(expected) == KEYS
    assert expected["note"].endswith("."), "one sentence"
    assert expected["result"] in RESULTS
    if expected["errors"] or (expected["id"] != "20260205-140007-3fa2c1" and page.stem != "prose"):
        assert expected["result"] == "rejected"


def test_every_output_has_a_page_and_every_page_an_output() -> None:
    outputs = {path.stem for path in CORPUS.glob("*.md")}
    assert outputs == {page.stem for page in PAGES}
    assert len(outputs) >= 70


def test_the_corpus_holds_every_op_and_every_result() -> None:
    pages = [read(page) for page in PAGES]
    assert {key for page in pages for key, _ in page["ops"]} == set(USAGE)
    assert set(Counter(page["result"] for page in pages)) == RESULTS
