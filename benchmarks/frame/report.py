"""The results as markdown: machine, versions, the table, and what the numbers are."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.frame.place import ROOT
from benchmarks.frame.workload import Cost, Result

MOST_MEMORY = 80 * 1024
"""KiB: the goal for every run."""
_FLAT = 1.25
_PACKAGES = ("click", "PyYAML")
_ABOUT = """\
Each line is one command of the installed `cn`, run as a process, beside its **floor**: the bare git
pipeline that does the same data work and nothing else (`benchmarks/floors/`), checked in the same
run to give the same result. The runs are interleaved. The time is the median of *n*; ratios, not
seconds, are what to compare. Where a run changes the repositories, each has a fresh copy.

- **naive**: the way one writes it first; measured only where it is affordable.
- **processes**: cn itself and every git, also those that git starts, counted by git's own trace in
  a run that is not timed. In brackets: the floor's.
- **bytes**: what one run adds to `.git`, in brackets the floor's.
- **memory**: peak resident size of the largest single process of the run (`ru_maxrss` of wait4(2)).
- **cn at**: the commit that was measured. Rows can be measured one by one (`--write`).
"""


def markdown(results: Sequence[Result], *, full: bool, rows: Sequence[str], chart: str, remarks: str) -> str:
    """The whole page. ``rows`` are those that were measured last, if not all were."""
    kind = "full (`make bench-full`)" if full else "quick (`make bench`)"
    kind += f"; measured last: {', '.join(rows)}" if rows else ""
    lines = ["# Results", "", "Written by `benchmarks/`; run it again rather than edit this.", ""]
    lines += [f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {kind}", f"- {_machine()}", f"- {_versions()}", ""]
    lines += [*_ABOUT.split("\n"), "", *table(results), "", *_memory(results), ""]
    if chart:
        lines += [f"![cost against size]({chart})", ""]
    return "\n".join([*lines, remarks.rstrip(), ""]) if remarks else "\n".join(lines)


def table(results: Sequence[Result]) -> list[str]:
    """One row per workload and size."""
    head = (
        "workload",
        "n",
        "cn",
        "floor",
        "ratio",
        "goal",
        "reached",
        "naive",
        "processes",
        "bytes",
        "memory",
        "cn at",
    )
    rows = [head, tuple("---" for _ in head)]
    for r in results:
        rows.append(
            (
                f"{r.row}: {r.case}",
                str(r.cn.runs),
                _value(r.cn, r.unit),
                _value(r.floor, r.unit) + ("" if r.base == "floor" else f" ({r.base})"),
                f"{r.ratio:.2f} ×",
                f"≤ {r.goal:g} ×" if r.goal else "",
                ("yes" if r.ratio <= r.goal else "no") if r.goal else "",
                _value(r.naive, r.unit) if r.naive else "",
                f"{r.cn.processes} ({r.floor.processes})" if r.cn.processes else "",
                f"{r.cn.added:,} ({r.floor.added:,})",
                f"{r.cn.peak / 1024:.0f} MB" if r.cn.peak else "",
                r.at,
            )
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def _value(cost: Cost, unit: str) -> str:
    if unit == "bytes":
        return f"{cost.value / 1024:,.0f} KiB" if cost.value >= 10_000 else f"{cost.value:,.0f} bytes"
    if unit != "s":
        return f"{cost.value:g}"
    if cost.value < 0.01:
        return f"{cost.value * 1e6:,.0f} µs"
    return f"{cost.value * 1000:.0f} ms" if cost.value < 10 else f"{cost.value:.1f} s"


def _memory(results: Sequence[Result]) -> list[str]:
    """The row of the table about memory: the largest of up to 1,000, and growth from there to 10,000."""
    seen = [r for r in results if r.cn.peak]
    promised = [r for r in seen if r.size <= 1_000]
    if not promised:
        return []
    most = max(promised, key=lambda r: r.cn.peak)
    told = "reached" if most.cn.peak <= MOST_MEMORY else "not reached"
    lines = [
        f"Memory, up to 1,000: at most {most.cn.peak / 1024:.0f} MB ({most.row}: {most.case}); "
        f"goal ≤ {MOST_MEMORY // 1024} MB: {told}."
    ]
    for small in seen:
        for large in seen:
            if small.chart and small.chart == large.chart and (small.size, large.size) == (1_000, 10_000):
                ratio = large.cn.peak / small.cn.peak
                flat = "flat" if ratio <= _FLAT else "not flat"
                lines.append(f"From 1,000 to 10,000, {small.chart}: {ratio:.2f} ×, {flat}.")
    return lines


def _machine() -> str:
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = f"{platform.system()} {platform.release()}"
    load = os.getloadavg()[0]
    return f"{system}, {os.cpu_count()} × {name}, {memory:.0f} GiB; load at the end {load:.1f}"


def _versions() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"Python {platform.python_version()}, {git}, {packages}"


def measured() -> str:
    """The commit of the cn that is measured; with ``-dirty`` when it was changed since."""
    # Not the results themselves, which this run writes.
    changed = ["git", "-C", str(ROOT), "status", "--porcelain", "--", ":/", ":!/benchmarks/RESULTS.md"]
    changed += [":!/benchmarks/results.json", ":!/benchmarks/cost.svg"]
    head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit, dirty = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        for command in (head, changed)
    )
    return f"{commit or 'no commit'}{'-dirty' if dirty else ''}"
