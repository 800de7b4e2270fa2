"""What a busy year leaves in the repository."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.frame.measure import run, size_of
from benchmarks.frame.place import ROOT, US, Place, Records, Stream, bare, build_hub, clone_hub, cn
from benchmarks.frame.workload import Cost, Plan, Result, Workload
from benchmarks.workloads.arrivals import LIMITS
from benchmarks.workloads.idle import build_peers, names
from cn.protocol.thread_file import Triage, format_triage, parse_decision

_A_DAY = 30
_PEERS = 5
_DECISIONS = ("delete:not now", "do:reply:answer-{n}")
_QUICK_DAYS, _FULL_DAYS = 10, 120
_CLOCK = ROOT / "tests/support/clock"


class Growth(Workload):
    """Thirty branches a day come, are decided, answered and cleaned up, by cn's own runs alone.

    Each brings a text of 1 to 4 KB, an answer has 200 to 1,000 bytes, in words that repeat as in
    people's writing (:func:`prose`): a text that repeats itself would pack to nothing, and the floor with it.
    Compared: the bytes of the hub's ``.git`` (without index), and those of a repository that
    holds every message of either side and nothing else, packed as tightly as git does.
    A day is a sync, a process, and a sync after the creators deleted their branches, at hours of
    their own: cn's clock is ahead of the machine's (``tests/support/clock``), because what it tidies
    hourly, daily and quarterly belongs to what is measured. At the end comes a sync that finds nothing:
    what the last run replaced is kept until the next one, and is no growth.
    """

    row = "growth"
    goal = 3.0

    def results(self, plan: Plan) -> Iterator[Result]:
        """Live through it."""
        days = _FULL_DAYS if plan.full else _QUICK_DAYS
        for count in plan.sizes or (days,):
            folder = plan.scratch / "growth"
            folder.mkdir()
            place = Place(folder / "live")
            place.root.mkdir()
            peak = self._live(place, count)
            ours = size_of(place.hub / ".git") - (place.hub / ".git/index").stat().st_size
            packed = self._packed(place)
            cost = Cost(float(ours), 1, peak)
            floor = Cost(float(packed), 1)
            case = f"{count} days of {_A_DAY} messages, half of them answered"
            result = Result(self.row, case, count, self.goal, cost, floor, unit="bytes")
            plan.say(f"{self.row}: {case}: {ours:,} bytes, {result.ratio:.2f} × floor")
            shutil.rmtree(folder)
            yield result

    def _live(self, place: Place, days: int) -> int:
        peers = names(_PEERS)
        build_peers(place, peers)
        config = f"mailbox_trusted: true\n{LIMITS}"
        base = build_hub(place, {name: str(place.peer(name)) for name in peers}, config=config)
        clone_hub(place, Records())
        bare(place, place.root / "all.git")
        peak = 0
        for day in range(days):
            stream, branches = Stream(), []
            for n in range(day * _A_DAY, (day + 1) * _A_DAY):
                branch = f"{peers[n % _PEERS]}/topic-{n}"
                text = prose(n, 1_000, 4_000)
                stream.commit(f"refs/heads/{branch}", {f"docs/{n}.md": text}, base, f"Propose {n}\n")
                branches.append(branch)
            stream.run(place, place.origin)
            peak = max(peak, self._run(place, 24 * day, "inbox", "sync"))
            self._decide(place.hub / "threads/inbox", day)
            peak = max(peak, self._run(place, 24 * day + 1, "inbox", "process"))
            self._keep(place)
            gone = "".join(f"delete refs/heads/{branch}\n" for branch in branches)
            place.git("update-ref", "--stdin", at=place.origin, stdin=gone.encode())
            peak = max(peak, self._run(place, 24 * day + 2, "sync"))
        return max(peak, self._run(place, 24 * days, "sync"))

    def _run(self, place: Place, hours: int, *words: str) -> int:
        ahead = {"PYTHONPATH": f"{ROOT}:{_CLOCK}", "TEST_CLOCK": str(3600 * hours)}
        return run(cn(*words), place.hub, place.env | ahead).peak

    def _decide(self, inbox: Path, day: int) -> None:
        for n, path in enumerate(sorted(inbox.glob("*.md"))):
            words = _DECISIONS[n % len(_DECISIONS)].format(n=day * _A_DAY + n)
            body = prose(-1 - day * _A_DAY - n, 200, 1_000) if words.startswith("do:") else ""
            triage = Triage(parse_decision(words), US, datetime.now(UTC), body=body)
            path.write_text(f"{path.read_text('utf-8')}\n---\n\n{format_triage(triage)}", "utf-8")

    def _keep(self, place: Place) -> None:
        """Every message of either side, for the floor."""
        everything = place.root / "all.git"
        place.git("fetch", "-q", place.origin, "+refs/heads/*:refs/in/*", at=everything)
        for path in sorted((place.root / "peers").iterdir()):
            target = f"+refs/heads/{US}/*:refs/out/{path.name}/*"
            place.git("fetch", "-q", path, target, at=everything)

    def _packed(self, place: Place) -> int:
        everything = place.root / "all.git"
        place.git("update-ref", "-d", "refs/in/main", at=everything)
        place.git("repack", "-a", "-d", "-f", "-q", at=everything)
        place.git("prune", at=everything)
        return size_of(everything / "objects")


def _vocabulary() -> list[str]:
    chance = random.Random("words")
    syllables = [a + b for a in "bcdfghjklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "st")]
    return ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(_WORDS)]


def prose(seed: int, least: int, most: int) -> str:
    """Made-up text of so many bytes: few words often, many seldom (Zipf), in lines and paragraphs.

    zlib makes it as small as pieces of this project's documents of that length: 48 %, these 46 %.
    """
    chance = random.Random(seed)
    size, lines, length = chance.randint(least, most), list[str](), 0
    while length < size:
        words = chance.choices(_VOCABULARY, _WEIGHTS, k=chance.randint(8, 14))
        lines.append(" ".join(words).capitalize() + chance.choice((",", ".", ".\n")))
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


_WORDS = 3_000
_VOCABULARY = _vocabulary()
_WEIGHTS = [1 / (2.7 + rank) for rank in range(_WORDS)]

GROWTH = (Growth(),)
