"""The tables of the page are those of the code."""

from __future__ import annotations

import subprocess
import sys

from cn.protocol.states.tables import MACHINES
from cn.values.state_machine import fill_tables, format_table
from tests.docs.blocks import PROTOCOL
from tests.support.hubs import ROOT

PAGE = PROTOCOL / "state-machines.md"


def test_the_page_is_what_the_code_gives() -> None:
    """If this fails: ``make tables``, and read the difference."""
    text = PAGE.read_text("utf-8")
    assert fill_tables(text, MACHINES) == text
    for machine in MACHINES:
        assert format_table(machine) in text
        for state in machine.states:
            assert f"`{state.value}`" in text, f"{machine.name}: {state.value} is not explained"


def test_the_page_reads_well_in_a_terminal() -> None:
    assert [line for line in PAGE.read_text("utf-8").splitlines() if len(line) > 100] == []


def test_make_tables_writes_the_page() -> None:
    before = PAGE.read_bytes()
    subprocess.run([sys.executable, ROOT / "docs/tables.py"], check=True, cwd=ROOT, env={"PYTHONPATH": "."})
    assert PAGE.read_bytes() == before
