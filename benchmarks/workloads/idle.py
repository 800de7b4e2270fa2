"""An idle ``cn inbox sync``: nobody has anything new."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.frame.place import START, Place, Records, Stream, add_records, bare, build_hub, clone_hub, cn
from benchmarks.frame.servers import free_port, git_daemon
from benchmarks.frame.workload import Timed, floor

_THEIRS = 5
"""Branches that others have at each peer."""


def names(count: int) -> list[str]:
    """So many names of peers."""
    return [f"p{n:04}" for n in range(count)]


def build_peers(place: Place, peers: list[str]) -> None:
    """Peers' repositories: a main, and some branches that are not ours."""
    first = bare(place, place.peer(peers[0]))
    stream = Stream()
    mark = stream.commit("refs/heads/main", {"README.md": "A peer.\n"})
    for n in range(_THEIRS):
        stream.commit(f"refs/heads/other/topic-{n}", {f"docs/{n}.md": f"{n}\n"}, mark)
    stream.run(place, first)
    place.git("pack-refs", "--all", at=first)
    for name in peers[1:]:
        shutil.copytree(first, place.peer(name))


class Idle(Timed):
    """Peers as local paths; each is asked, and so is origin, which is the mailbox."""

    row = "idle"
    goal = 1.3
    sizes: Sequence[int] = (1, 20, 100)
    chart = "idle inbox sync, by peers"
    width = 8
    naive_up_to = 20
    warm = 2  # cron has been here before

    def case(self, size: int) -> str:
        """How many peers."""
        return f"{size} local peer{'s' if size > 1 else ''}"

    def url(self, place: Place, name: str) -> str:
        """Where a peer is asked."""
        return str(place.peer(name))

    def build(self, place: Place, size: int) -> None:
        """A hub with ten threads that wait, and its peers."""
        peers = names(size)
        urls = {name: self.url(place, name) for name in peers}
        base = build_hub(place, urls)
        build_peers(place, peers)
        stream, records = Stream(), Records()
        marks = {}
        for n in range(10):
            branch = f"{peers[n % size]}/open-{n}"
            marks[branch] = stream.commit(f"refs/heads/{branch}", {f"docs/{n}.md": f"{n}\n"}, base, f"Propose {n}")
        heads = stream.run(place, place.origin)
        for branch, mark in marks.items():
            records.thread(branch, heads[mark], START)
        add_records(place, records)
        clone_hub(place, records)
        (place.root / "urls").write_text("\n".join([str(place.origin), *urls.values()]))

    def command(self, place: Place) -> list[str]:
        """One sync."""
        return cn("inbox", "sync")

    def floor(self, place: Place) -> list[str]:
        """One listing of each remote."""
        return floor("idle", place.root / "urls", str(self.width))

    def naive(self, place: Place) -> list[str] | None:
        """One fetch after the other."""
        return [
            "sh",
            "-c",
            'while read -r url || [ "$url" ]; do git fetch -q --no-write-fetch-head "$url"; done < "$0"',
            "../urls",
        ]

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """The floor saw every branch; cn saw nothing new, and says so by silence."""
        expected = []
        for number, path in enumerate([floor.origin, *sorted((floor.root / "peers").iterdir())]):
            refs = floor.refs(path, "refs/heads/")
            expected += [f"{number} {ref} {oid}" for ref, oid in refs.items()]
        assert floor_said.split("\n") == [*sorted(expected), ""], "the floor's listing is not what is there"
        assert said == "", said
        assert floor.refs(floor.hub)["refs/heads/main"] == floor.refs(floor.origin)["refs/heads/main"]


class IdleFar(Idle):
    """Twenty peers behind one git daemon, every byte 25 ms late in each direction."""

    sizes = (20,)
    chart = ""
    width = 16
    naive_up_to = 20

    def __init__(self) -> None:
        self.port = 0

    def case(self, size: int) -> str:
        """How many peers, how far."""
        return f"{size} peers over git://, 50 ms away and back"

    @contextmanager
    def serving(self, place: Place) -> Iterator[None]:
        """The daemon, and the delay in front of it."""
        self.port = free_port()
        with git_daemon(place, self.port, seconds=0.025):
            yield

    def url(self, place: Place, name: str) -> str:
        """By the delayed port."""
        return f"git://127.0.0.1:{self.port}/{name}.git"


IDLE = (Idle(), IdleFar())
