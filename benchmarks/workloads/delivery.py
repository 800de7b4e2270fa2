"""``cn outbox flush``: many messages to one peer or to twenty, and the clean-up of many branches."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.frame.place import START, US, Place, Records, Stream, add_records, build_hub, clone_hub, cn
from benchmarks.frame.workload import Timed, floor
from benchmarks.workloads.idle import build_peers, names
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import OUT, Event
from cn.protocol.message import Message, Sealed, seal
from cn.protocol.outbox_entry import Deliver, Entry, Remove, entry_head, format_entry, outbox_path
from cn.values.names import Branch, Name, parse_oid

_WHO = (str(US), f"{US}@cn.invalid")


def _sealed(n: int, peer: str) -> Sealed:
    body = "".join(f"Line {line} of message {n}.\n" for line in range(20))
    return seal(Message(MESSAGE, US, Name(peer), f"Message {n}", START, body), _WHO)


def _queue(records: Records, entry: Entry, *events: tuple[str, str]) -> None:
    records.files[outbox_path(entry)] = format_entry(entry)
    topic = entry.branch.partition("/")[2]
    head = entry_head(entry)
    for kind, about in events:
        fields = {"branch": entry.branch, "kind": about} if about else {}
        records.record(entry.to, Event(START, OUT, kind, topic, head, fields))


class Delivery(Timed):
    """Messages that wait in the outbox."""

    row = "delivery"
    goal = 1.5
    sizes: Sequence[int] = (1_000,)
    full_sizes: Sequence[int] = (100, 1_000, 10_000)
    changes = True
    goal_from = 1_000
    naive_up_to = 100

    def __init__(self, peers: int) -> None:
        self.peers = peers
        self.chart = "delivery to 1 peer, by messages" if peers == 1 else ""
        if peers > 1:
            self.full_sizes = self.sizes

    def case(self, size: int) -> str:
        """How many, to how many."""
        return f"{size:,} messages to {self.peers} peer{'s' if self.peers > 1 else ''}"

    def build(self, place: Place, size: int) -> None:
        """The outbox as ``cn send`` and decisions leave it."""
        peers = names(self.peers)
        build_peers(place, peers)
        build_hub(place, {name: str(place.peer(name)) for name in peers})
        records = Records()
        for n in range(size):
            peer = Name(peers[n % self.peers])
            message = _sealed(n, peer)
            branch = Branch(f"{US}/message-{n}")
            named = (message.id, peer, branch, MESSAGE, START, f"Message {n}")
            entry = Deliver(*named, commit=message.commit, content=message.content)
            _queue(records, entry, ("queued", MESSAGE))
        add_records(place, records)
        clone_hub(place, records)

    def command(self, place: Place) -> list[str]:
        """One flush."""
        return cn("outbox", "flush")

    def floor(self, place: Place) -> list[str]:
        """See the floor."""
        return floor("delivery")

    def naive(self, place: Place) -> list[str] | None:
        """Five processes a message."""
        return floor("naive", "delivery")

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """The same commits at the peers, the same files sent."""
        _same(cn, floor)


def _same(cn: Place, floor: Place) -> None:
    for path in sorted((cn.root / "peers").iterdir()):
        ours = cn.refs(path, "refs/heads/sigma/")
        theirs = floor.refs(floor.root / "peers" / path.name, "refs/heads/sigma/")
        assert ours == theirs, f"{path.name}: {len(ours)} branches, not {len(theirs)}"
    ours, theirs = cn.files(cn.origin, "threads/mail/"), floor.files(floor.origin, "threads/mail/")
    assert ours == theirs, f"{len(ours)} files of mail, not {len(theirs)}"


class Cleanup(Timed):
    """Branches of ours that their receiver is done with; one was moved by somebody meanwhile."""

    row = "cleanup"
    goal = 1.3
    sizes = (1_000,)
    changes = True
    naive_up_to = 100
    codes = (1,)

    def case(self, size: int) -> str:
        """How many."""
        return f"{size:,} branches, one lease stale"

    def build(self, place: Place, size: int) -> None:
        """Delivered, answered, and their deletion queued."""
        build_peers(place, names(1))
        (peer,) = (Name(name) for name in names(1))
        build_hub(place, {peer: str(place.peer(peer))})
        records, stream, tips = Records(), Stream(), dict[str, int]()
        for n in range(size):
            branch = f"{US}/message-{n}"
            tips[branch] = stream.commit(f"refs/heads/{branch}", {"message.md": _sealed(n, peer).content})
        ids = stream.run(place, place.peer(peer))
        for branch, mark in tips.items():
            entry = Remove(peer, Branch(branch), parse_oid(ids[mark]), START, "done: done")
            _queue(records, entry, ("queued", MESSAGE), ("delivered", ""), ("deleting", ""))
        add_records(place, records)
        clone_hub(place, records)
        heads = f"+refs/heads/{US}/*:refs/cn/pins/{peer}/out/*"
        place.git("fetch", "-q", "--no-tags", place.peer(peer), heads)
        place.git("pack-refs", "--all")
        moved = Stream()
        moved.commit(f"refs/heads/{US}/message-0", {"message.md": "moved\n"}, f"refs/heads/{US}/message-0^0")
        moved.run(place, place.peer(peer))
        place.git("pack-refs", "--all", at=place.peer(peer))

    def command(self, place: Place) -> list[str]:
        """One flush."""
        return cn("outbox", "flush")

    def floor(self, place: Place) -> list[str]:
        """See the floor."""
        return floor("cleanup")

    def naive(self, place: Place) -> list[str] | None:
        """One push each."""
        return floor("naive", "cleanup")

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """One branch is left, and its entry."""
        _same(cn, floor)
        assert len(cn.refs(cn.peer(names(1)[0]), "refs/heads/sigma/")) == 1


DELIVERY = (Delivery(1), Delivery(20), Cleanup())
