"""Every statement of ``sentences.md`` names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (_FOLDER / "sentences.md").read_text("utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| statement"))
]


def _tests(name: str) -> list[str]:
    path = _FOLDER / f"test_{name}.py"
    return re.findall(r"^def test_(\w+)\(", path.read_text("utf-8"), re.M) if path.exists() else []


def test_every_statement_has_a_test_or_says_what_it_waits_for() -> None:
    assert len(_ROWS) > 90
    for statement, file, test in _ROWS:
        assert statement
        assert test in _tests(file) if file != "later" else test, statement


def test_no_statement_stands_twice() -> None:
    statements = [statement for statement, _, _ in _ROWS]
    assert sorted(statements) == sorted(set(statements))
