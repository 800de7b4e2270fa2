"""Write the tables of ``docs/protocol/state-machines.md`` from the code (``make tables``)."""

from __future__ import annotations

from pathlib import Path

from cn.protocol.states.tables import MACHINES
from cn.values.state_machine import fill_tables

page = Path(__file__).parent / "protocol/state-machines.md"
before = page.read_text("utf-8")
after = fill_tables(before, MACHINES)
if after != before:
    page.write_text(after, "utf-8")
