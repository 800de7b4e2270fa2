"""What a workload is: a row of the table, and how its cost is found.

To add one: a class in a module of ``benchmarks/workloads``, named in ``ALL`` there. Most are
:class:`Timed`: say how the place is built, which command cn runs, and which command is the floor.
"""

from __future__ import annotations

import statistics
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame.measure import LIMIT, Broken, copy, count_processes, put_away, run, size_of
from benchmarks.frame.place import Place

FLOORS = Path(__file__).resolve().parents[1] / "floors"


@dataclass(frozen=True)
class Cost:
    """One side: the median of so many runs (seconds or bytes), KiB at peak, processes, bytes left."""

    value: float
    runs: int
    peak: int = 0
    processes: int = 0
    added: int = 0


@dataclass(frozen=True)
class Result:
    """One line of the table.

    ``goal`` is the ratio to reach, 0 where none is set; ``base`` says what the ratio is against,
    ``unit`` what is compared, ``at`` the cn that was measured.
    """

    row: str
    case: str
    size: int
    goal: float
    cn: Cost
    floor: Cost
    naive: Cost | None = None
    unit: str = "s"
    base: str = "floor"
    chart: str = ""
    at: str = ""

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.cn.value / self.floor.value


@dataclass(frozen=True)
class Plan:
    """How thorough a benchmark is.

    ``scratch`` is where places are built; ``sizes`` are taken instead of the usual ones.
    """

    full: bool
    scratch: Path
    runs: int = 5
    few: int = 3  # of the naive way
    sizes: tuple[int, ...] = ()

    def say(self, text: str) -> None:
        """Progress, for the person who waits."""
        print(text, file=sys.stderr, flush=True)


class Workload(ABC):
    """A row of the table: its name, the ratio to reach, the chart that it is a point of."""

    row: str
    goal: float
    chart: str = ""

    @abstractmethod
    def results(self, plan: Plan) -> Iterator[Result]:
        """Measure it."""


class Timed(Workload):
    """A command of cn beside its floor, interleaved, at several sizes.

    ``changes``: a run leaves something behind, so each gets a fresh copy of the place, at the
    same path. ``goal_from`` this size on the goal is set. ``naive_up_to`` this size the naive way is
    measured, and once up to ten times that in the full benchmark. ``codes`` are the exit codes that
    are right, ``warm`` the runs before the first that is looked at.
    """

    sizes: Sequence[int] = (1,)
    full_sizes: Sequence[int] = ()
    changes = False
    goal_from = 0
    codes: Sequence[int] = (0,)
    naive_up_to = 0
    base = "floor"
    warm = 0

    @abstractmethod
    def case(self, size: int) -> str:
        """The case in a few words."""

    @abstractmethod
    def build(self, place: Place, size: int) -> None:
        """Make the hub and its peers at ``place``, with plain git."""

    @abstractmethod
    def command(self, place: Place) -> list[str]:
        """What cn does."""

    @abstractmethod
    def floor(self, place: Place) -> list[str]:
        """The bare pipeline that does the same data work."""

    def naive(self, place: Place) -> list[str] | None:
        """The way one would write it first; None: there is none."""
        return None

    def environment(self, place: Place) -> dict[str, str]:
        """The environment of both sides."""
        return place.env

    def serving(self, place: Place) -> AbstractContextManager[None]:
        """Servers that run while the place is built and measured."""
        return nullcontext()

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """Raise :class:`Broken` unless the floor gives the same result as cn.

        ``cn`` and ``floor`` are the places as either left them (the same one where nothing
        changes), ``said`` what they printed.
        """

    def results(self, plan: Plan) -> Iterator[Result]:
        """Build, check, and measure each size."""
        sizes = self.full_sizes if plan.full and self.full_sizes else self.sizes
        for size in plan.sizes or sizes:
            folder = plan.scratch / "case"
            folder.mkdir()
            place = Place(folder / "live")
            place.root.mkdir()
            with ExitStack() as stack:
                stack.enter_context(self.serving(place))
                self.build(place, size)
                yield self._measured(plan, place, size)
            put_away(folder, plan.scratch / "old")

    def _measured(self, plan: Plan, place: Place, size: int) -> Result:
        bench = _Bench(self, place, plan.scratch / "old")
        bench.prepare()
        env = self.environment(place)
        sides = {"floor": self.floor(place), "cn": self.command(place)}
        small = size <= self.naive_up_to
        naive = self.naive(place) if small or (plan.full and size <= 10 * self.naive_up_to) else None
        seconds: dict[str, list[float]] = {name: [] for name in (*sides, "naive")}
        peaks = dict.fromkeys((*sides, "naive"), 0)
        for number in range(plan.runs):
            for name, command in sides.items():
                bench.fresh()
                ran = run(command, place.hub, env, codes=self.codes if name == "cn" else (0,))
                seconds[name].append(ran.seconds)
                peaks[name] = max(peaks[name], ran.peak)
            if naive is not None and number < (plan.few if small else 1):
                bench.fresh()
                ran = run(naive, place.hub, env, limit=LIMIT)
                seconds["naive"].append(ran.seconds)
                peaks["naive"] = max(peaks["naive"], ran.peak)
        costs = {}
        for name, command in sides.items():
            bench.fresh()
            before = size_of(place.hub / ".git") if place.hub.is_dir() else 0
            codes = self.codes if name == "cn" else (0,)
            processes = count_processes(command, place.hub, env, codes, self.warm)
            after = size_of(place.hub / ".git") if place.hub.is_dir() else 0
            costs[name] = _cost(seconds[name], peaks[name], processes, after - before)
        result = Result(
            self.row,
            self.case(size),
            size,
            self.goal if size >= self.goal_from else 0,
            costs["cn"],
            costs["floor"],
            _cost(seconds["naive"], peaks["naive"]) if seconds["naive"] else None,
            base=self.base,
            chart=self.chart,
        )
        plan.say(f"{self.row}: {result.case}: {result.cn.value:.3f} s, {result.ratio:.2f} × {self.base}")
        return result


def _cost(runs: Sequence[float], peak: int, processes: int = 0, added: int = 0) -> Cost:
    return Cost(statistics.median(runs), len(runs), peak, processes, added)


class _Bench:
    """The place of one case, and its copies where runs change it."""

    def __init__(self, workload: Timed, place: Place, old: Path) -> None:
        self.workload, self.place, self.old = workload, place, old
        self.template = place.root.with_name("template")

    def prepare(self) -> None:
        """Warm up both sides, and check that they come to the same result."""
        workload, place = self.workload, self.place
        env = workload.environment(place)
        if workload.changes:
            place.root.rename(self.template)
        self.fresh()
        for _ in range(workload.warm):
            run(workload.command(place), place.hub, env, codes=workload.codes)
        said = run(workload.command(place), place.hub, env, codes=workload.codes).out
        ours = place
        if workload.changes:
            ours = Place(place.root.with_name("after-cn"))
            place.root.rename(ours.root)
            self.fresh()
        for _ in range(workload.warm if workload.base != "floor" else 0):
            run(workload.floor(place), place.hub, env)
        told = run(workload.floor(place), place.hub, env).out
        try:
            workload.check(ours, place, said, told)
        except AssertionError as wrong:
            raise Broken(f"{workload.row}: the floor does something else than cn: {wrong}") from wrong
        if workload.changes:
            put_away(ours.root, self.old)

    def fresh(self) -> None:
        """The place as it was built."""
        if self.workload.changes:
            put_away(self.place.root, self.old)
            copy(self.template, self.place.root)


def floor(name: str, *words: str | Path) -> list[str]:
    """The command of a floor in ``benchmarks/floors``."""
    return [sys.executable, str(FLOORS / f"{name}.py"), *(str(word) for word in words)]
