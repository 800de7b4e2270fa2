"""The archive of what the agent was asked and answered: ``logs/input`` and ``logs/output``.

In main, or, where the hub keeps them local, on this machine; older ones may still lie in main then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from cn.protocol import rules
from cn.protocol.hub_config import is_local
from cn.protocol.log import FOLDER, parse_rows
from cn.protocol.queue_item import LOGS
from cn.run.view import View
from cn.system.files import read_regular

_MOST_BYTES = 8 * 1024 * 1024
_REJECTED = "output:"
RULES = frozenset(
    value for name, value in vars(rules).items() if name.isupper() and isinstance(value, str) and "-" in value
)
"""The names of all rules."""


@dataclass(frozen=True)
class Rejected:
    """An output that did not hold: ``why`` as the log tells it, the rule first."""

    why: str

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by name, in the order told."""
        words = [part.partition(":")[0].strip() for part in self.why.split(";")]
        return tuple(dict.fromkeys(word for word in words if word in RULES))


def archived_names(view: View, kind: str) -> list[str]:
    """The names, without ``.md``, of all that is archived; ``kind`` is ``input`` or ``output``."""
    folder = LOGS[kind]
    found = {e.path for e in view.snapshot.folder(folder) if e.kind == "blob"}
    if is_local(f"{folder}/x", view.settings.config.local):
        with suppress(OSError), os.scandir(view.hub.root / folder) as entries:
            found |= {e.name for e in entries if e.is_file(follow_symlinks=False)}
    return sorted(name.removesuffix(".md") for name in found if name.endswith(".md"))


def read_archived(view: View, kind: str, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of those that are there."""
    folder, wanted = LOGS[kind], list(names)
    view.snapshot.read_many(f"{folder}/{name}.md" for name in wanted)
    local = is_local(f"{folder}/x", view.settings.config.local)
    found = {}
    for name in wanted:
        path = f"{folder}/{name}.md"
        data = read_regular(view.hub.root / path, _MOST_BYTES) if local else None
        data = view.snapshot.read(path) if data is None else data
        if data is not None:
            found[name] = data
    return found


def read_sent(view: View, name: str) -> bytes | None:
    """All that a model was sent for an attempt (:func:`cn.llm.request.parse_sent`); None where nothing was."""
    path = f"{LOGS['input']}/{name}.json"
    local = is_local(path, view.settings.config.local)
    data = read_regular(view.hub.root / path, _MOST_BYTES) if local else None
    return view.snapshot.read(path) if data is None else data


def read_rejected(view: View, since: str) -> dict[str, Rejected]:
    """Trigger → why its output was rejected, as the log of main tells since that day (``YYYYMMDD``)."""
    names = [e.path.removesuffix(".md") for e in view.snapshot.folder(FOLDER) if e.path.endswith(".md")]
    days = [day for day in names if day.isdigit() and day >= since]
    view.snapshot.read_many(f"{FOLDER}/{day}.md" for day in days)
    found = {}
    for day in sorted(days):
        for row in parse_rows(view.snapshot.text(f"{FOLDER}/{day}.md"), day):
            if row.decision.startswith(_REJECTED) and row.executed.startswith("refused: "):
                found[row.decision.removeprefix(_REJECTED)] = Rejected(row.executed.removeprefix("refused: "))
    return found
