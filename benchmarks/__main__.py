"""The benchmark: ``make bench`` (quick), ``make bench-full``; ``python -m benchmarks NAME…`` for some rows.

A whole run writes ``RESULTS.md`` and ``cost.svg`` beside this file, after each line of the table, so
that what was measured stays; a run of some rows only prints its table, or replaces these rows
(``--write``). Nothing passes or fails here; the figures are what they are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.frame.chart import draw
from benchmarks.frame.kept import keep, kept, merged
from benchmarks.frame.report import markdown, measured, table
from benchmarks.frame.workload import Plan, Result
from benchmarks.workloads import ALL

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run what was asked for."""
    rows = list(dict.fromkeys(workload.row for workload in ALL))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"any of: {', '.join(rows)}; all if none is given")
    parser.add_argument("--full", action="store_true", help="the large sizes too; may take an hour")
    parser.add_argument("--runs", type=int, default=5, help="how often each side is run (5)")
    parser.add_argument("--size", type=int, action="append", help="this size instead of the usual ones")
    parser.add_argument("--write", action="store_true", help="write these rows into RESULTS.md")
    parser.add_argument("--scratch", type=Path, help="where to build; a temporary folder if not given")
    asked = parser.parse_args()
    if wrong := [row for row in asked.rows if row not in rows]:
        parser.error(f"no such row: {', '.join(wrong)}")
    write = asked.write or not (asked.rows or asked.size)
    at, results, everything = measured(), list[Result](), kept() if write else []
    with tempfile.TemporaryDirectory(prefix="cn-bench-", dir=asked.scratch) as scratch:
        plan = Plan(asked.full, Path(scratch).resolve(), asked.runs, sizes=tuple(asked.size or ()))
        for workload in ALL:
            if asked.rows and workload.row not in asked.rows:
                continue
            for result in workload.results(plan):
                results.append(replace(result, at=at))
                if write:
                    everything = merged(everything, results[-1], rows)
                    _write(everything, asked.full, asked.rows)
    if write and asked.full and not (asked.rows or asked.size):  # what is not measured any more
        everything = [r for r in everything if any((r.row, r.case) == (s.row, s.case) for s in results)]
        _write(everything, asked.full, asked.rows)
    print("\n".join(table(results)))
    if write:
        print(f"written to {HERE.name}/RESULTS.md", file=sys.stderr)


def _write(results: list[Result], full: bool, rows: list[str]) -> None:
    keep(results)
    chart = "cost.svg" if draw(results, HERE / "cost.svg") else ""
    remarks = (HERE / "REMARKS.md").read_text("utf-8") if (HERE / "REMARKS.md").is_file() else ""
    text = markdown(results, full=full, rows=rows, chart=chart, remarks=remarks)
    (HERE / "RESULTS.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
