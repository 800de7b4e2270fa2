"""State machines as data: closed types, and a table that the code steps through.

There are four (thread, actor, sender, receiver), in :mod:`cn.protocol.states`: total functions, in
which an invalid transition is an error. Here is what they share: the check of a table when it is
imported, a step, and the table as it stands in ``docs/protocol/state-machines.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from cn.values.errors import CnError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

_MARKED = r"(?s)(?<=<!-- machine: )([a-z]+)( -->\n).*?(?=<!-- /machine -->)"


class InvalidTransition(CnError):
    """An event that cannot happen in this state: a bug of ours, nothing a user did.

    ``machine``, ``state`` and ``event`` name the pair that the table does not have.
    """

    def __init__(self, machine: str, state: str, event: str, what: str = "") -> None:
        prefix = f"{what}: " if what else ""
        super().__init__(
            f"{prefix}{event!r} is no step of the {machine} machine from {state!r}",
            "this is a bug in cn; nothing was committed. 'cn doctor' checks the hub",
        )
        self.machine = machine
        self.state = state
        self.event = event


@dataclass(frozen=True)
class Machine(Generic[S, E]):
    """A closed set of states and events, and where each event leads.

    A pair that ``table`` does not have is invalid. A table that speaks of strangers, leaves a
    state unreachable or an event unused is a mistake, and found when the module is imported.
    """

    name: str
    states: type[S]
    events: type[E]
    initial: S
    table: Mapping[S, Mapping[E, S]]

    def __post_init__(self) -> None:
        rows = self.table.values()
        states = {self.initial, *self.table, *(after for row in rows for after in row.values())}
        events = {event for row in rows for event in row}
        for found, kind, what in ((states, self.states, "state"), (events, self.events, "event")):
            if strangers := [one for one in found if not isinstance(one, kind)]:
                raise ValueError(f"{self.name}: {strangers[0]!r} is no {what}")
        if missing := [*(set(self.states) - self._reached()), *(set(self.events) - events)]:
            raise ValueError(f"{self.name}: nothing leads to {missing}")

    def _reached(self) -> set[S]:
        reached, look = {self.initial}, [self.initial]
        while look:
            fresh = set(self.table.get(look.pop(), {}).values()) - reached
            reached |= fresh
            look += fresh
        return reached

    @property
    def finals(self) -> frozenset[S]:
        """The states that nothing leads out of."""
        return frozenset(state for state in self.states if not self.table.get(state))

    def after(self, state: S, event: E) -> S | None:
        """The state after an event, None where the pair is invalid: to ask, and to fold histories."""
        return self.table.get(state, {}).get(event)

    def step(self, state: S, event: E, what: str = "") -> S:
        """The state after an event of ours; an invalid pair raises. ``what`` names the thing."""
        after = self.after(state, event)
        if after is None:
            raise InvalidTransition(self.name, str(state.value), str(event.value), what)
        return after


def format_table(machine: Machine[Any, Any]) -> str:
    """A markdown table: a row per event, a column per state that something leads out of.

    A cell is the state after the event, a dash an invalid pair.
    """
    states = [state for state in machine.states if state not in machine.finals]
    rows = [["event", *(str(state.value) for state in states)]]
    for event in machine.events:
        cells = [machine.after(state, event) for state in states]
        rows.append([str(event.value), *("—" if cell is None else str(cell.value) for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in rows]
    lines.insert(1, _line(["-" * width for width in widths]))
    finals = ", ".join(str(state.value) for state in machine.states if state in machine.finals)
    ends = f"Begins as {machine.initial.value}; " + (f"final: {finals}." if finals else "never ends.")
    return "\n".join([*lines, "", ends]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def fill_tables(page: str, machines: Iterable[Machine[Any, Any]]) -> str:
    """``page`` with the tables between its ``machine`` markers as the code has them."""
    by_name = {machine.name: machine for machine in machines}
    return re.sub(_MARKED, lambda m: f"{m[1]}{m[2]}\n{format_table(by_name[m[1]])}\n", page)
