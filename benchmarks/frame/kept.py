"""The results that stand (``benchmarks/results.json``), so that a row can be measured without the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.frame.workload import Cost, Result

_FILE = Path(__file__).resolve().parents[1] / "results.json"


def kept() -> list[Result]:
    """What stands; nothing where there is no file."""
    if not _FILE.is_file():
        return []
    return [_result(fields) for fields in json.loads(_FILE.read_text("utf-8"))]


def keep(results: Sequence[Result]) -> None:
    """Write all of it."""
    _FILE.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n", "utf-8")


def merged(results: Sequence[Result], new: Result, rows: Sequence[str]) -> list[Result]:
    """``new`` in the place of the same line, or behind the last one of its row; ``rows``: their order."""
    lines = {(r.row, r.case): r for r in results} | {(new.row, new.case): new}
    return sorted(lines.values(), key=lambda r: rows.index(r.row) if r.row in rows else len(rows))


def _result(fields: dict[str, object]) -> Result:
    sides = ("cn", "floor", "naive")
    costs = {side: Cost(**found) for side in sides if isinstance(found := fields[side], dict)}
    return Result(**{**fields, **costs})  # type: ignore[arg-type]
