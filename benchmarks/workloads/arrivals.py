"""``cn inbox sync`` when many branches are new."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.frame.place import START, US, Place, Records, Stream, add_records, build_hub, clone_hub, cn
from benchmarks.frame.workload import Timed, floor
from benchmarks.workloads.idle import build_peers, names
from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.ledger import OUT, Event
from cn.protocol.message import FILE, About, Message, format_message
from cn.values.names import Branch, Name, parse_oid

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


def send(place: Place, count: int, every: int, *, pickup: bool = False) -> None:
    """Messages as ``cn send`` makes them, by ten peers; with ``every`` 2 only each second one.

    They lie in our mailbox, or with ``pickup`` in each peer's own repository.
    """
    peers = names(PEERS)
    mailbox = Stream()
    streams = {peer: Stream() if pickup else mailbox for peer in peers}
    for n in range(0, count, every):
        peer = peers[n % PEERS]
        body = "".join(f"Line {line} of message {n}, with some words in it.\n" for line in range(20))
        message = Message(MESSAGE, Name(peer), US, f"Message {n}", START, body)
        files = {FILE: format_message(message)}
        branch = f"{US if pickup else peer}/message-{n}"
        who = f"{peer} <{peer}@example.org>"
        streams[peer].commit(f"refs/heads/{branch}", files, None, f"Message {n}", who)
    if not pickup:
        mailbox.run(place, place.origin)
        return
    for peer, stream in streams.items():
        stream.run(place, place.peer(peer))


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


class Pickup(Messages):
    """Messages that ten peers left in their own repositories."""

    row = "pickup"

    def build(self, place: Place, size: int) -> None:
        """Each peer's in its own."""
        peers = names(PEERS)
        build_peers(place, peers)
        build_hub(place, {name: str(place.peer(name)) for name in peers}, config=LIMITS, route="pickup")
        clone_hub(place)
        send(place, size, 1, pickup=True)

    def floor(self, place: Place) -> list[str]:
        """One fetch a peer, all at once."""
        return floor("pickup")


class Notices(Messages):
    """Ten peers say what became of branches that we sent; these are deleted there, as the notices allow."""

    row = "notices"

    def case(self, size: int) -> str:
        """How many."""
        return f"{size:,} notices"

    def build(self, place: Place, size: int) -> None:
        """Messages of ours, delivered, and a notice about each in our mailbox."""
        peers = [Name(name) for name in names(PEERS)]
        build_peers(place, [*peers])
        build_hub(place, {name: str(place.peer(name)) for name in peers}, config=LIMITS + "mailbox_trusted: true\n")
        records, notices, sent = Records(), Stream(), {name: Stream() for name in peers}
        tips = [
            sent[peers[n % PEERS]].commit(f"refs/heads/{US}/sent-{n}", {FILE: f"Message {n} of ours.\n"})
            for n in range(size)
        ]
        ids = {name: stream.run(place, place.peer(name)) for name, stream in sent.items()}
        for n, mark in enumerate(tips):
            peer, branch = peers[n % PEERS], Branch(f"{US}/sent-{n}")
            tip = parse_oid(ids[peer][mark])
            for kind, fields in (("queued", {"branch": branch, "kind": MESSAGE}), ("delivered", {})):
                records.record(peer, Event(START, OUT, kind, f"sent-{n}", tip, fields))
            about = About(branch, tip, "discarded", reason="not needed any more")
            told = Message(NOTICE, peer, US, f"{branch}: discarded", START, f"{branch} was discarded.", about=about)
            files = {FILE: format_message(told)}
            who = f"{peer} <{peer}@example.org>"
            notices.commit(f"refs/heads/{peer}/notice-sent-{n}", files, None, f"Notice {n}", who)
        add_records(place, records)
        clone_hub(place, records)
        for peer in peers:
            delivered = f"+refs/heads/{US}/*:refs/cn/pins/{peer}/out/*"
            place.git("fetch", "-q", "--no-tags", place.peer(peer), delivered)
        place.git("pack-refs", "--all")
        notices.run(place, place.origin)

    def floor(self, place: Place) -> list[str]:
        """One fetch, one commit with a log row each, one push a peer that deletes."""
        return floor("notices")

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """Every branch of ours is gone at both."""
        for side in (cn, floor):
            left = [ref for name in names(PEERS) for ref in side.refs(side.peer(name), f"refs/heads/{US}/")]
            assert not left, f"{len(left)} branches are left"


ARRIVALS = (Arrivals(), Messages(), Mixed(), Pickup(), Notices(), Few(), FewMessages())
