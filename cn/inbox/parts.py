"""Is what arrives a part of what the same peer proposed before? (``docs/protocol/branches.md``)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cn.git.objects import OUTPUT_BYTES, ensure_not_killed
from cn.git.process import Git, GitError
from cn.inbox.plan.arrivals import LOOKED, came_before_as, part_of
from cn.outbox.plan.receipts import Arrival
from cn.protocol.ledger import IN, Event
from cn.protocol.peers_file import VERIFIED
from cn.run.executor import Executor
from cn.values.names import Name, Oid, ThreadKey

_LOOKS = (f" {IN} received ", f" {IN} refreshed ")
_MOST_HEADS, _MOST_COMMITS = 2000, 50_000
"""How many of a peer's heads, the latest ones, are looked through, and how many of their commits that main has not."""


def mark_parts(executor: Executor, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """These with what is said of those that are a part of a branch that came in before them, by one look for each peer.

    What arrives with this run, or came first, is no part: people propose one piece of work upon another.
    """
    asked = [one for one in arrivals if one.message is None and one.head != (one.item.head if one.item else None)]
    elsewhere = came_elsewhere(executor, [one for one in asked if one.signature.startswith(VERIFIED)])
    found: dict[tuple[Name, Oid], list[Event]] = {}
    for peer in dict.fromkeys(one.peer for one in asked):
        known: dict[Oid, Event] = {}
        for event in executor.snapshot.events_with(peer, IN, _LOOKS):
            known.setdefault(event.head, event)
        known = dict([*known.items()][-_MOST_HEADS:])
        heads = [one.head for one in asked if one.peer == peer and one.head not in known]
        holding = _holding(executor.hub.git, executor.snapshot.commit, heads, known)
        found |= {(peer, head): [known[one] for one in some] for head, some in holding.items()}
    return [
        one._replace(part=_words(one, found.get((one.peer, one.head), ())) or elsewhere.get(one.key, ""))
        for one in arrivals
    ]


def came_elsewhere(executor: Executor, arrivals: Sequence[Arrival]) -> dict[ThreadKey, str]:
    """What is said of signed proposals that came before as another peer's: one that is called otherwise now, or has the
    same key. A key proves who made a commit under any name, and under none who pushed it.

    Of what another key signed, or none, it is said where that is over: else who shows another's commit as its own
    would keep that one from being merged.
    """
    found: dict[ThreadKey, str] = {}
    if not arrivals:
        return found
    snapshot = executor.snapshot
    snapshot.read_histories(snapshot.ledgers)
    for one in arrivals:
        words = tuple(filter(None, (one.head, one.signed)))
        for other in snapshot.ledgers:
            history = "" if other == one.peer or other in snapshot.damaged else snapshot.history(other)
            if not any(word in history for word in words):
                continue
            looks = [event for event in snapshot.events_with(other, IN, words) if event.kind in LOOKED]
            same = [event for event in looks if event.fields.get("signature") == one.signature]
            over = [event for event in looks if not same and _is_over(executor, other, event)]
            for event in (same or over)[:1]:
                found.setdefault(one.key, came_before_as(other, event))
    return found


def _is_over(executor: Executor, peer: Name, event: Event) -> bool:
    item = executor.snapshot.item(peer, IN, event.topic)
    return item is None or item.head != event.head or bool(item.get("gone"))


def _words(arrival: Arrival, whole: Sequence[Event]) -> str:
    """What is said of it, where it did not stand there, refused, before the first branch that holds it came."""
    first = min(whole, key=lambda event: event.at, default=None)
    stood = any(e.kind == "refused" and e.head == arrival.head and first and e.at <= first.at for e in arrival.past)
    return part_of(arrival.peer, first) if first is not None and not stood else ""


def _holding(git: Git, main: Oid, heads: Sequence[Oid], known: Mapping[Oid, Event]) -> dict[Oid, list[Oid]]:
    """Of ``heads`` those that are in the history of ``known`` ones and not in main, with these.

    Nothing is said of what git has no more, or has too much of.
    """
    if not heads or not known:
        return {}
    names = "\n".join([f"^{main}", *known, ""]).encode()
    ask = ("rev-list", "--parents", "--ignore-missing", f"--max-count={_MOST_COMMITS}", "--stdin")
    try:
        rows = [line.split(" ") for line in git.run(*ask, stdin=names, max_out=OUTPUT_BYTES).lines]
    except GitError as error:
        ensure_not_killed(error)
        return {}
    above: dict[str, list[str]] = {}
    for commit, *parents in rows:
        for parent in parents:
            above.setdefault(parent, []).append(commit)
    inside = {row[0] for row in rows}
    return {head: [Oid(one) for one in _reach(above, head) if one in known] for head in heads if head in inside}


def _reach(above: Mapping[str, Iterable[str]], head: str) -> set[str]:
    met, waiting = set[str](), [head]
    while waiting:
        for commit in above.get(waiting.pop(), ()):
            if commit not in met:
                met.add(commit)
                waiting.append(commit)
    return met
