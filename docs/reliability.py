"""Write the figures of ``docs/reliability.md`` from what the harnesses wrote (``make reliability``).

Each harness leaves files of JSON in a folder (``tests/support/figures.py``). Their numbers are added up,
one row per harness; slices of one case are one case. A harness that wrote nothing keeps the row it has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"
HEAD = "| harness | cases | seen | on |\n|---|---|---|---|\n"
TITLES = {
    "crash": "cn killed with SIGKILL",
    "child": "a git of cn's killed alone",
    "agent": "cn killed around an agent's answer",
    "runtime": "a turn of the runtime killed",
    "runtime-chaos": "the daemon and its children killed at random",
    "at-once": "everybody at once",
    "conversations": "random conversations",
    "remotes": "remotes that fail",
    "disk-full": "a disk with little room",
    "signals": "Ctrl-C and SIGTERM",
    "stops": "stopped while another run comes, and continued",
    "commits": "a person commits all in the middle of a run",
    "long-run": "a long time",
    "records": "a write to Agency's records killed, or beside any git",
    "agency-commands": "a command of Agency's killed, and asked again by the same name",
    "simulation": "an organisation that works by itself, killed every few seconds",
    "agents": "Agency's server, launchers, bridges and agents killed",
    "attacks": "attacks tried",
    "protected-histories": "random histories of protected files, with somebody who may push to origin",
    "killer-inputs": "a git that dies over one branch",
    "growth": "whole runs with twice as much of one thing",
    "fuzz": "parsers against bytes nobody would write",
}
"""What each harness is called on the page, in its order."""
_WHOLE = {"boundaries", "processes"}
"""What every slice of a case tells of the whole."""
_SEPARATE = {"long-run", "simulation"}
"""Harnesses whose cases cannot be added up."""


def read_figures(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Harness → what its cases wrote, by name of the case."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text("utf-8"))
        cases = found.setdefault(facts.pop("harness"), {})
        name = facts["case"]
        cases[name] = _together(cases[name], facts) if name in cases else facts
    return {harness: list(cases.values()) for harness, cases in found.items()}


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    most = _WHOLE | {"case", "on"}
    return {name: max(one[name], other[name]) if name in most else one[name] + other[name] for name in one}


def rows_of(harness: str, cases: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The rows of one harness: title, and the row."""
    title = TITLES.get(harness, harness)
    if harness in _SEPARATE:
        return [row for case in cases for row in [_row(f"{title}: {case['case']}", [case])]]
    return [_row(title, cases)]


def _row(title: str, cases: list[dict[str, Any]]) -> tuple[str, str]:
    names = dict.fromkeys(name for case in cases for name in case if name not in ("case", "on"))
    total = {name: round(sum(case.get(name, 0) for case in cases), 2) for name in names}
    seen = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in total.items())
    return title, f"| {title} | {len(cases)} | {seen} | {max(case.get('on', '') for case in cases)} |\n"


def fill_page(page: str, figures: dict[str, list[dict[str, Any]]]) -> str:
    """The page with the rows of ``figures`` in place of the ones it had."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line + "\n" for line in table.splitlines()[2:]}
    rows |= dict(row for harness, cases in figures.items() for row in rows_of(harness, cases))
    order = list(TITLES.values())
    names = sorted(rows, key=lambda n: (order.index(n.partition(":")[0]) if n.partition(":")[0] in order else 99, n))
    return before + BEGIN + HEAD + "".join(rows[name] for name in names) + END + after


if __name__ == "__main__":
    path = Path(__file__).with_name("reliability.md")
    old = path.read_text("utf-8")
    new = fill_page(old, read_figures(Path(sys.argv[1])))
    if new != old:
        path.write_text(new, "utf-8")
