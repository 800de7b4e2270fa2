"""Write the tables of ``docs/protocol/state-machines.md`` from the code (``make tables``)."""

from __future__ import annotations

import re
from pathlib import Path

from cn.protocol.states import ACTOR, RECEIVER, SENDER, THREAD, Machine

page = Path(__file__).parent / "protocol/state-machines.md"


def shown(machine: Machine) -> str:
    """A table as the page shows it."""
    ends = f"final: {', '.join(machine.finals)}" if machine.finals else "never ends"
    return f"{machine.table}\nBegins as {machine.states[0]}; {ends}.\n"


text = page.read_text("utf-8")
for one in (THREAD, ACTOR, SENDER, RECEIVER):
    found = rf"(?s)(<!-- machine: {one.name} -->\n).*?(?=<!-- /machine -->)"
    text = re.sub(found, lambda match, one=one: f"{match[1]}\n{shown(one)}\n", text)  # type: ignore[misc]
page.write_text(text, "utf-8")
