"""What is wrong with the model, as ``cn status`` shows it: set and taken away here alone.

``cn agent`` finds it, and what it found need not hold until it looks again: nobody may ever call it again here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cn.protocol.hub_config import AGENT_PATH
from cn.run.memory import Memory
from cn.run.snapshot import Snapshot

if TYPE_CHECKING:
    from cn.run.run import Run

_MODEL = "model"
"""The kind of condition."""
_UNASKED = "unasked"
"""The name of the one that says why no turn can be made: a key, the model."""
_FOUND_WITH = "model found with"
"""The section that has the id of ``agent.yaml`` in main as it was then; empty: there was none."""


def note_unasked(memory: Memory, snapshot: Snapshot, text: str, hint: str) -> None:
    """No turn can be made. Setting what was missing mends it, and only another look can tell."""
    again = "'cn agent' looks again"
    _note(memory, snapshot, text, f"{hint}; then {again}" if hint else again, _UNASKED)


def note_no_answer(memory: Memory, snapshot: Snapshot, text: str, hint: str) -> None:
    """A call gave no answer."""
    _note(memory, snapshot, f"the model gave no answer: {text}", hint, "")


def is_unasked(memory: Memory) -> bool:
    """Could no turn be made when ``cn agent`` looked last?"""
    return _UNASKED in memory.conditions.names(_MODEL)


def forget_faults(memory: Memory) -> None:
    """The model, or another agent in its place, answers here."""
    memory.conditions.replace(_MODEL, {})
    memory.section(_FOUND_WITH).clear()


def forget_outdated(run: Run) -> None:
    """Forget what was found of a configuration that is not main's any more, and all of it where no agent is fed."""
    if not run.memory.conditions.names(_MODEL):
        return
    fed = run.settings.config.interface == "queue"
    if not fed or run.memory.section(_FOUND_WITH).get(AGENT_PATH) != (run.snapshot.oid(AGENT_PATH) or ""):
        forget_faults(run.memory)


def _note(memory: Memory, snapshot: Snapshot, text: str, remedy: str, name: str) -> None:
    memory.conditions.set(_MODEL, text, remedy, name=name)
    memory.section(_FOUND_WITH)[AGENT_PATH] = snapshot.oid(AGENT_PATH) or ""
