"""``cn inbox sync`` when many branches are new."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.frame.place import START, US, Place, Stream, build_hub, clone_hub, cn
from benchmarks.frame.workload import Timed, floor
from benchmarks.workloads.idle import build_peers, names
from cn.protocol.message import FILE, Message, format_message
from cn.protocol.message_kinds import MESSAGE
from cn.values.names import Name

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
    sizes: Sequence[int] = (10, 100, 1_000)
    full_sizes: Sequence[int] = (10, 100, 1_000, 10_000)
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


def send(place: Place, count: int, every: int) -> None:
    """Messages as ``cn send`` makes them, by ten peers; with ``every`` 2 only each second one."""
    peers = names(PEERS)
    stream = Stream()
    for n in range(0, count, every):
        peer = peers[n % PEERS]
        body = "".join(f"Line {line} of message {n}, with some words in it.\n" for line in range(20))
        message = Message(MESSAGE, Name(peer), US, f"Message {n}", START, body)
        files = {FILE: format_message(message)}
        stream.commit(f"refs/heads/{peer}/message-{n}", files, None, f"Message {n}", f"{peer} <{peer}@x.org>")
    stream.run(place, place.origin)


class Messages(Arrivals):
    """Parentless commits with ``message.md``."""

    row = "messages"
    chart = ""
    naive_up_to = 0
    full_sizes = ()
    every = 1

    def case(self, size: int) -> str:
        """How many."""
        return f"{size:,} new messages"

    def build(self, place: Place, size: int) -> None:
        """No proposals, and the messages."""
        super().build(place, 0)
        send(place, size, self.every)


class Mixed(Messages):
    """Proposals, and half as many messages."""

    row = "mixed"
    every = 2

    def case(self, size: int) -> str:
        """How many."""
        return f"{size:,} new branches, and half as many messages"

    def build(self, place: Place, size: int) -> None:
        """Both."""
        Arrivals.build(self, place, size)
        send(place, size, self.every)


class Few(Arrivals):
    """What cron meets on most days: one new branch, or ten."""

    row = "few"
    goal = 2.0
    goal_from = 0
    sizes = (1, 10)
    full_sizes = ()
    naive_up_to = 0
    chart = ""


class FewMessages(Messages):
    """The same with messages."""

    row = "few"
    goal = 2.0
    goal_from = 0
    sizes = (1, 10)


ARRIVALS = (Arrivals(), Messages(), Mixed(), Few(), FewMessages())
