"""``cn inbox sync`` when many branches are new."""

from __future__ import annotations

from benchmarks.frame.place import Place, Stream, build_hub, clone_hub, cn
from benchmarks.frame.workload import Timed, floor
from benchmarks.workloads.idle import build_peers, names

PEERS = 10
LIMITS = "limits:\n  branches_per_peer: 100000\n"


def propose(place: Place, base: str, count: int) -> dict[str, str]:
    """So many branches in origin, one commit and one new file each, by ten peers; branch → head."""
    peers = names(PEERS)
    stream, marks = Stream(), {}
    for n in range(count):
        peer = peers[n % PEERS]
        branch = f"{peer}/topic-{n}"
        text = "".join(f"Line {line} of proposal {n}, with some words in it.\n" for line in range(20))
        said = f"Propose {n}\n\nBecause it is time for number {n}.\n"
        author = f"{peer} <{peer}@example.org>"
        files = {f"docs/{peer}/{n}.md": text}
        marks[branch] = stream.commit(f"refs/heads/{branch}", files, base, said, author)
    ids = stream.run(place, place.origin)
    return {branch: ids[mark] for branch, mark in marks.items()}


class Arrivals(Timed):
    """One commit a branch; cn fetches, reads, writes the threads, commits, pushes."""

    row = "arrivals"
    goal = 1.5
    sizes = (10, 100, 1_000)
    full_sizes = (10, 100, 1_000, 10_000)
    changes = True
    goal_from = 1_000
    naive_up_to = 100
    chart = "sync, by new branches"

    def case(self, size: int) -> str:
        """How many."""
        return f"{size:,} new branches"

    def build(self, place: Place, size: int) -> None:
        """The branches come after the hub was cloned."""
        peers = names(PEERS)
        build_peers(place, peers)
        base = build_hub(place, {name: str(place.peer(name)) for name in peers}, config=LIMITS)
        clone_hub(place)
        propose(place, base, size)

    def command(self, place: Place) -> list[str]:
        """One sync."""
        return cn("inbox", "sync")

    def floor(self, place: Place) -> list[str]:
        """See the floor."""
        return floor("arrivals")

    def naive(self, place: Place) -> list[str] | None:
        """Three processes a branch."""
        return floor("naive", "arrivals")

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """The same threads, with the same heads, and in cn's every line of the floor's quotation."""
        ours, theirs = cn.files(cn.origin, "threads/inbox/"), floor.files(floor.origin, "threads/inbox/")
        assert set(ours) == set(theirs), f"{len(ours)} threads, not {len(theirs)}"
        paths = [path for path in sorted(ours) if path.endswith(".md")]
        texts = cn.contents(cn.origin, [ours[p] for p in paths])
        bare = floor.contents(floor.origin, [theirs[p] for p in paths])
        for path, text, plain in zip(paths, texts, bare, strict=True):
            there = set(text.decode().split("\n"))
            for line in plain.decode().split("\n"):
                if line.startswith(("> Line", "> Propose", "> Because", "**Head")):
                    assert any(line.removeprefix("> ") in t for t in there) or line in there, (path, line)
        assert floor.git("status", "--porcelain") == "", "the floor left its work tree behind"


ARRIVALS = (Arrivals(),)
