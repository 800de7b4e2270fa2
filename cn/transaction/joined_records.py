"""The records of two lines of main that cn made both, as where a host was set back and two clones went on from there.

Of what people commit on main here, origin's records stand: nobody else writes them. What origin itself had once is no
such commit: what either line says was done, was done. Pure: blobs in, blobs out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from cn.protocol import ledger
from cn.protocol.layout import FINAL
from cn.protocol.ledger import Event
from cn.values.errors import CnError

Months = Mapping[str, Sequence[str]]
"""The files of a peer's history by name, each as its lines."""
_Key = tuple[str, ...]


def join_lines(base: Sequence[str] | None, theirs: Sequence[str], ours: Sequence[str]) -> list[str]:
    """``theirs``, and after it what ``ours`` has added to ``base`` (None: both began the file)."""
    if base is None:
        base = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(theirs, ours, strict=False))]
    return [*theirs, *_added(base, ours)]


def join_history(base: Months, theirs: Months, ours: Months) -> dict[str, list[str]]:
    """All events of both, in an order after which no thread that is over on one side is open.

    Of a topic that only one of them speaks of, the order is that one's. Of others the side comes last that ended it,
    theirs where both did or none: threads are merged by the same rule. A line of ours that is no event is not brought.
    """
    all_theirs = {line for lines in theirs.values() for line in lines}
    new_theirs = {name: _added(base.get(name, ()), lines) for name, lines in theirs.items()}
    new_ours = {
        name: [one for one in _added(base.get(name, ()), lines) if one not in all_theirs and _read(one)[1] is not None]
        for name, lines in ours.items()
    }
    they, we = _Spoken(new_theirs), _Spoken(new_ours)
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for name, lines in sorted(new_ours.items()):
        for line in lines:
            key, _ = _read(line)
            if key not in they.first:
                after.setdefault(name, []).append(line)
            elif we.over[key] and not they.over[key]:
                after.setdefault(max(name, they.last[key]), []).append(line)
            else:
                before.setdefault(min(name, they.first[key]), []).append(line)
    joined = {}
    for name in sorted({*theirs, *before, *after}):
        had = theirs.get(name, ())
        start = len(had) - len(new_theirs.get(name, ()))  # where it only grew, what was there stands first
        joined[name] = [*had[:start], *before.get(name, ()), *had[start:], *after.get(name, ())]
    return joined


class Contradiction(NamedTuple):
    """A proposal that one side merged, and of which the other side decided something else. ``merge``: the commit that
    did it; empty where it was in main before.
    """

    topic: str
    merge: str
    other: str


def find_contradictions(base: Months, theirs: Months, ours: Months) -> list[Contradiction]:
    """The proposals of a peer that were merged on one side alone, where the other side has ended them as well."""
    merges, others = dict[_Key, str](), dict[_Key, str]()
    for side in (theirs, ours):
        for name, lines in sorted(side.items()):
            for line in _added(base.get(name, ()), lines):
                _, event = _read(line)
                if event is None or event.kind != "decided":
                    continue
                key = (event.topic, event.head)
                if (status := event.fields.get("status", "")) == "merged":
                    merges[key] = event.fields.get("merge", "")
                elif status in FINAL:
                    others[key] = status
    return [Contradiction(key[0], merge, others[key]) for key, merge in sorted(merges.items()) if key in others]


def fold_months(history: Months) -> bytes | None:
    """The file ``open`` of this history; None: a line is no event, and a run says so."""
    try:
        events = [ledger.parse_event(line) for name in sorted(history) for line in history[name] if line]
    except CnError:
        return None
    return ledger.format_open(ledger.fold_history(events)).encode()


class _Spoken:
    """Of which topics new lines speak: in which files first and last, and whether they end them."""

    def __init__(self, new: Months) -> None:
        self.first: dict[_Key, str] = {}
        self.last: dict[_Key, str] = {}
        self.over: dict[_Key, bool] = {}
        for name, lines in sorted(new.items()):
            for key, event in map(_read, lines):
                self.first.setdefault(key, name)
                self.last[key] = name
                self.over[key] = event is not None and ledger.closes(event)


def _read(line: str) -> tuple[_Key, Event | None]:
    try:
        event = ledger.parse_event(line)
    except CnError:
        return (line,), None
    return (event.side, event.topic), event


def _added(base: Sequence[str], side: Sequence[str]) -> list[str]:
    if list(side[: len(base)]) == list(base):
        return list(side[len(base) :])
    had, new = Counter(base), list[str]()
    for line in side:
        if had[line]:
            had[line] -= 1
        else:
            new.append(line)
    return new
