"""Check ledgers in main that this clone did not write against their own history.

``open`` is only an index of the history; whoever can push to ``origin`` could empty or
change it. What this clone wrote itself, and what it has checked, it remembers by the
tree of the peer's ledger, so that a quiet run asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from cn.git.objects import list_tree, read_objects
from cn.protocol import ledger
from cn.protocol.ledger import LedgerRefused
from cn.run.memory import Memory
from cn.run.snapshot import Snapshot
from cn.values.names import Name, Oid, is_name
from cn.values.report import Report


def check_ledgers(snapshot: Snapshot, memory: Memory, report: Report) -> None:
    """Check the ledgers that are new here; mend ``open`` in the snapshot, or call a peer damaged.

    What is mended is written by the next commit of the run.
    """
    known = memory.section("ledgers")
    now = _trees(snapshot)
    snapshot.read_histories([peer for peer in now if peer not in known])
    for peer, tree in now.items():
        before = known.get(peer)
        if before == tree:
            continue
        if before is None or not _grew_well(snapshot, before, tree):
            _check_whole(snapshot, peer, memory, report)
        if peer not in snapshot.damaged and peer not in snapshot.mended:
            known[peer] = tree


def note_ledgers(snapshot: Snapshot, memory: Memory, paths: Iterable[str]) -> None:
    """Remember the ledgers among ``paths`` as they are: a commit of this clone wrote them."""
    prefix = f"{ledger.FOLDER}/"
    ours = {path.removeprefix(prefix).partition("/")[0] for path in paths if path.startswith(prefix)}
    if ours:
        memory.section("ledgers").update({peer: tree for peer, tree in _trees(snapshot).items() if peer in ours})


def _trees(snapshot: Snapshot) -> dict[Name, Oid]:
    """Peer → the tree of its ledger."""
    return {Name(e.path): e.oid for e in snapshot.folder(ledger.FOLDER) if e.kind == "tree" and is_name(e.path)}


def _grew_well(snapshot: Snapshot, before: Oid, tree: Oid) -> bool:
    """Did the months only grow since ``before``, by events that give the new ``open``?"""
    git = snapshot.git
    if read_objects(git, [before]) == [None]:
        return False  # of an earlier main, and no longer here
    old, new = ({e.path: e.oid for e in list_tree(git, t)} for t in (before, tree))
    months = [name for name in ledger.months(new) if old.get(name) != new[name]]
    if any(name not in new for name in ledger.months(old)):
        return False
    names = [f"{before}:open", f"{tree}:open", *(f"{t}:{m}" for m in months for t in (before, tree))]
    was, now, *contents = [(data or b"") for data in read_objects(git, names)]
    added = b""
    for one, two in zip(contents[::2], contents[1::2], strict=True):
        if not two.startswith(one):
            return False
        added += two[len(one) :]
    try:
        items = ledger.parse_open(was.decode())
        wanted = ledger.fold_history(ledger.each_event(added.decode()), items)
        return ledger.parse_open(now.decode()) == wanted
    except (LedgerRefused, UnicodeDecodeError):
        return False


def _check_whole(snapshot: Snapshot, peer: Name, memory: Memory, report: Report) -> None:
    """Fold the whole history; ``open`` is that, or is mended. A line that is no event damages the peer."""
    path = ledger.open_path(peer)
    try:
        wanted = ledger.fold_history(ledger.each_event(snapshot.history(peer)))
    except LedgerRefused as refused:
        snapshot.open_items.pop(peer, None)
        snapshot.damaged[peer] = f"its ledger is damaged: {refused.text}"
        return
    if snapshot.open_items.get(peer, {}) == wanted:
        return
    snapshot.mended.add(peer)
    snapshot.damaged.pop(peer, None)
    snapshot.open_items[peer] = wanted
    told_before = not memory.tell_once("mended", peer, str(snapshot.commit))
    text = f"{path} was not what the history says; it is written anew from the history"
    report.info(text, told_before=told_before)
