"""Main without cn's folders, published where the mailbox is a remote of its own.

The published history is a second line of commits. Each holds main's tree without
``threads/ logs/ state/``; a merge into main has its published commit there, with the merged head as
second parent. Main takes every published commit as a parent, so that a branch that
starts from what was published shares history with main.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from cn.git.fast_import import build_commit
from cn.git.objects import OUTPUT_BYTES, list_tree, read_info
from cn.git.process import Git, GitError
from cn.git.repository import Hub
from cn.values.names import OWNED, HubPath, Oid, is_owned

PATH = HubPath("state/published")


def publish(hub: Hub, last: Oid | None, main: Oid, head: Oid | None, message: str, at: datetime) -> Oid:
    """The next published commit for ``main``; ``last`` itself when nothing changed and nothing was merged."""
    entries = [e for e in list_tree(hub.git, main) if not is_owned(e.path)]
    lines = b"".join(f"{e.mode} {e.kind} {e.oid}\t{e.path}".encode("utf-8", "surrogateescape") + b"\0" for e in entries)
    tree = Oid(hub.git.run("mktree", "-z", stdin=lines).text)
    if last is not None and head is None:
        (known,) = read_info(hub.git, [f"{last}^{{tree}}"])
        if known and known.oid == tree:
            return last
    parents = tuple(oid for oid in (last, head) if oid is not None)
    return build_commit(hub, base=tree, parents=parents, changes=(), message=message, at=at)


def published_merges(git: Git, published: Oid | None, heads: Collection[Oid]) -> dict[Oid, Oid]:
    """Of these heads those that were merged on the published main, each with the newest commit that did it there."""
    if published is None or not heads:
        return {}
    words = ("rev-list", "--first-parent", "--merges", "--parents", published, "--")
    found: dict[Oid, Oid] = {}
    for line in git.run(*words, max_out=OUTPUT_BYTES).lines:
        commit, _, *merged = map(Oid, line.split(" "))
        for head in merged:
            if head in heads:
                found.setdefault(head, commit)
    return found


def private_in(git: Git, heads: Sequence[str], published: Sequence[str]) -> str:
    """A commit with cn's own folders that these heads would bring into what is published; empty: there is none.

    A commit that changes nothing there is none. What is ``published`` and is not here counts as nothing. Of several it
    is the first that adds something there: a later one may only take it away.
    """
    commits = [*heads, *(f"^{one}" for one in published)]
    among = ("--ignore-missing", "--full-history")
    found = git.run("rev-list", *among, "--max-count=1", *commits, "--", *OWNED).text.strip()
    if not found:
        return ""
    adding = ("--topo-order", "--reverse", "-m", "--diff-filter=d", "--raw", "--format=%H")
    try:
        adds = git.run("log", *among, *adding, *commits, "--", *OWNED, max_out=OUTPUT_BYTES).lines
    except GitError:  # more of them than are read
        adds = []
    return adds[0] if adds else found
