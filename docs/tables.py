"""Write the tables of ``docs/protocol/state-machines.md`` from the code (``make tables``)."""

from __future__ import annotations

from pathlib import Path

from cn.core.machine import fill_tables
from cn.core.machines import MACHINES

page = Path(__file__).parent / "protocol/state-machines.md"
page.write_text(fill_tables(page.read_text("utf-8"), MACHINES), "utf-8")
