"""``cn inbox process`` with many decided threads."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.frame.place import START, Place, Records, Stream, add_records, build_hub, clone_hub, cn
from benchmarks.frame.workload import Timed, floor
from benchmarks.workloads.arrivals import LIMITS, PEERS, propose
from benchmarks.workloads.idle import build_peers, names

MERGE, DELETE, REPLY = "do:merge", "delete:not now", "do:reply:answer-{n}"


class Decisions(Timed):
    """Threads that wait, each with a Triage in its working copy; messages go to ten peers."""

    row = "decisions"
    goal = 2.0
    sizes: Sequence[int] = (1_000,)
    changes = True
    way = "fast"

    def __init__(self, what: str, words: Sequence[str]) -> None:
        self.what, self.words = what, words
        self.chart = ""

    def case(self, size: int) -> str:
        """How many of which."""
        return f"{size:,}: {self.what}"

    def propose(self, place: Place, base: str, size: int) -> dict[str, str]:
        """The branches decided on."""
        return propose(place, base, size)

    def hub(self) -> dict[str, bytes | str]:
        """More files of the hub's first commit."""
        return {}

    def build(self, place: Place, size: int) -> None:
        """Branches, their threads, and the decisions on them."""
        peers = names(PEERS)
        build_peers(place, peers)
        urls = {name: str(place.peer(name)) for name in peers}
        base = build_hub(place, urls, config=f"mailbox_trusted: true\n{LIMITS}", files=self.hub())
        records = Records()
        for n, (branch, head) in enumerate(self.propose(place, base, size).items()):
            words = self.words[n % len(self.words)].format(n=n)
            body = f"An answer to number {n}.\n" if words.startswith("do:reply") else ""
            records.thread(branch, head, START, decision=words, body=body, base=base)
        add_records(place, records)
        clone_hub(place, records)

    def command(self, place: Place) -> list[str]:
        """One run."""
        return cn("inbox", "process")

    def floor(self, place: Place) -> list[str]:
        """See the floor."""
        return floor("decisions", self.way)

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """The same merges and files, the same threads done, the same branches at the peers."""
        for folder in ("docs/", "threads/inbox/"):
            ours, theirs = cn.files(cn.origin, folder), floor.files(floor.origin, folder)
            if folder == "docs/":
                assert ours == theirs, "merged files differ"
            assert set(ours) == set(theirs), f"{folder}: {len(ours)} files, not {len(theirs)}"
        a, b = (_merged(place) for place in (cn, floor))
        assert a == b, f"{len(a)} merges, not {len(b)}"
        for path in sorted((cn.root / "peers").iterdir()):
            ours = cn.refs(path, "refs/heads/sigma/")
            theirs = floor.refs(floor.root / "peers" / path.name, "refs/heads/sigma/")
            assert set(ours) == set(theirs), f"{path.name}: {len(ours)} messages, not {len(theirs)}"


def _merged(place: Place) -> set[str]:
    lines = place.git("rev-list", "--merges", "--first-parent", "--parents", "main", at=place.origin)
    return {head for line in lines.split("\n") for head in line.split()[2:]}


class Tangled(Decisions):
    """Merges that rename, and files changed in a folder that another renames from."""

    row = "merges"
    goal = 1.5
    sizes = (50,)
    way = "tree"

    def __init__(self) -> None:
        super().__init__("merges that rename, in shared folders", (MERGE,))

    def hub(self) -> dict[str, bytes | str]:
        """Two files for each branch, all in one folder."""
        text = "".join(f"A line of it, number {n}.\n" for n in range(40))
        return {f"docs/shared/{kind}-{n}.md": f"{kind} {n}\n{text}" for n in range(50) for kind in "ab"}

    def propose(self, place: Place, base: str, size: int) -> dict[str, str]:
        """Each renames a file, and changes another of the same folder."""
        peers = names(PEERS)
        stream, marks = Stream(), {}
        text = "".join(f"A line of it, number {n}.\n" for n in range(40))
        for n in range(size):
            peer = peers[n % PEERS]
            branch, author = f"{peer}/topic-{n}", f"{peer} <{peer}@example.org>"
            files = {f"docs/shared/b-{n}.md": f"b {n}\n{text}One more.\n"}
            renames = {f"docs/shared/a-{n}.md": f"docs/moved/a-{n}.md"}
            ref = f"refs/heads/{branch}"
            marks[branch] = stream.commit(ref, files, base, f"Move {n}", author, renames)
        ids = stream.run(place, place.origin)
        return {branch: ids[mark] for branch, mark in marks.items()}


class Merges(Decisions):
    """All merges, with the naive way beside them where it is affordable."""

    naive_up_to = 100

    def naive(self, place: Place) -> list[str] | None:
        """``git merge`` in the work tree."""
        return floor("naive", "merges")


DECISIONS = (
    Merges("merges of disjoint files", (MERGE,)),
    Decisions("deletes", (DELETE,)),
    Decisions("replies", (REPLY,)),
    Decisions("a mix of the three", (MERGE, DELETE, REPLY)),
    Tangled(),
)
