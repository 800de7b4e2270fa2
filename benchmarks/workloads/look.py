"""Looking: ``cn status`` and ``cn inbox`` with open threads and a long past."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta

from benchmarks.frame.place import START, Place, Records, Stream, add_records, bare, build_hub, clone_hub, cn, fake_id
from benchmarks.frame.workload import Timed, floor

PEERS = ("pi", "rho", "tau", "phi", "chi")


def build_past(place: Place, done: int, pending: int, urls: dict[str, str] | None = None) -> None:
    """A hub with so many threads done long ago, and so many that wait."""
    base = build_hub(place, urls or {name: str(place.peer(name)) for name in PEERS})
    stream = Stream()
    branches = [f"{PEERS[n % len(PEERS)]}/open-{n}" for n in range(pending)]
    marks = {b: stream.commit(f"refs/heads/{b}", {f"docs/{b}.md": f"{b}\n"}, base, f"Propose {b}") for b in branches}
    heads = stream.run(place, place.origin) if marks else {}
    records = Records()
    for n in range(done):
        name = f"{PEERS[n % len(PEERS)]}/done-{n}"
        records.thread(name, fake_id(name), START - timedelta(days=300) + timedelta(minutes=2 * n), done=True)
    for n, branch in enumerate(branches):
        records.thread(branch, heads[marks[branch]], START + timedelta(minutes=n), base=base)
    add_records(place, records)
    clone_hub(place, records)


class Look(Timed):
    """A command that shows what waits. It must not read what is done."""

    row = "look"
    goal = 1.5
    sizes = (10_000,)

    def __init__(self, *words: str) -> None:
        self.words = words

    def case(self, size: int) -> str:
        """Which command, on what."""
        return f"cn {' '.join(self.words)}, 100 open, {size:,} done"

    def build(self, place: Place, size: int) -> None:
        """100 threads wait, and a run from cron was here."""
        for name in PEERS:
            bare(place, place.peer(name))
        build_past(place, size, 100)
        subprocess.run(cn("inbox", "sync"), cwd=place.hub, env=place.env, check=True)

    def command(self, place: Place) -> list[str]:
        """The command itself."""
        return cn(*self.words)

    def floor(self, place: Place) -> list[str]:
        """click, main, and the text of the 100."""
        return floor("look", place.hub)

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """Both name the same threads (status shows at least how many)."""
        names = [name.removesuffix(".md") for name in floor_said.split()]
        assert len(names) == 100
        if self.words == ("inbox",):
            assert set(names) <= set(re.findall(r"\S+", said)), said[:500]
        else:
            assert "100" in said, said[:500]


LOOK = (Look("status"), Look("inbox"))
