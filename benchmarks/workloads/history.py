"""The cost of the past: an idle sync and ``cn status`` with ever more threads in ``done/``."""

from __future__ import annotations

import re

from benchmarks.frame.place import Place, cn
from benchmarks.frame.workload import Timed
from benchmarks.workloads.idle import build_peers
from benchmarks.workloads.look import PEERS, build_past

_FEW = 100


class History(Timed):
    """The same command on a hub with much done, against itself on one with 100."""

    row = "history"
    goal = 1.2
    sizes = (10_000,)
    full_sizes = (10_000, 100_000)
    base = "itself at 100"
    warm = 2

    def __init__(self, *words: str) -> None:
        self.words = words
        self.chart = f"cn {' '.join(words)}, by threads in done/"

    def case(self, size: int) -> str:
        """Which command, on what."""
        return f"cn {' '.join(self.words)}, {size:,} done"

    def build(self, place: Place, size: int) -> None:
        """The large hub, and beside it the small one, with the same peers."""
        build_peers(place, sorted(PEERS))
        urls = {name: str(place.peer(name)) for name in PEERS}
        build_past(place, size, 10, urls)
        small = self._small(place)
        small.root.mkdir()
        build_past(small, _FEW, 10, urls)

    def _small(self, place: Place) -> Place:
        return Place(place.root / "small")

    def command(self, place: Place) -> list[str]:
        """On the large one."""
        return cn("--hub", str(place.hub), *self.words)

    def floor(self, place: Place) -> list[str]:
        """On the small one."""
        return cn("--hub", str(self._small(place).hub), *self.words)

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """Both find the same: nothing new, or the same ten threads."""
        a, b = (re.sub(r"main at \w+", "main", text) for text in (said, floor_said))
        assert a == b, f"{a[:300]!r} is not {b[:300]!r}"


HISTORY = (History("inbox", "sync"), History("status"))
