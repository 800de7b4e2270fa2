"""The tables of the page are those of the code."""

from __future__ import annotations

import subprocess
import sys

from cn.protocol.states import ACTOR, RECEIVER, SENDER, THREAD
from tests.docs.blocks import PROTOCOL
from tests.support.hubs import ROOT

PAGE = PROTOCOL / "state-machines.md"


def test_the_page_is_what_the_code_gives() -> None:
    """If this fails: ``make tables``, and read the difference."""
    text = PAGE.read_text("utf-8")
    for machine in (THREAD, ACTOR, SENDER, RECEIVER):
        assert f"<!-- machine: {machine.name} -->\n\n{machine.table}\nBegins as {machine.states[0]};" in text
        for state in (*machine.states, *machine.finals):
            assert f"`{state}`" in text, f"{machine.name}: {state} is not explained"


def test_the_page_reads_well_in_a_terminal() -> None:
    assert [line for line in PAGE.read_text("utf-8").splitlines() if len(line) > 100] == []


def test_make_tables_writes_the_page() -> None:
    before = PAGE.read_bytes()
    subprocess.run([sys.executable, ROOT / "docs/tables.py"], check=True, cwd=ROOT, env={"PYTHONPATH": "."})
    assert PAGE.read_bytes() == before
