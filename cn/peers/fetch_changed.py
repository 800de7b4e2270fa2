"""Fetch the objects of what differs from the pins, and note which heads were not let in."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from cn.git.objects import read_info
from cn.git.process import TIMED_OUT, Git
from cn.git.remote import fetch_many, fetch_tips, head_of
from cn.peers.observe import Observation, who
from cn.protocol.ledger import IN, OUT
from cn.protocol.peers_file import MAILBOX
from cn.run.executor import Executor
from cn.run.refused import RefusedArrival
from cn.run.run import Run
from cn.run.settings import MAILBOX_KEY, Settings
from cn.values.names import Branch, Name, Oid, ThreadKey
from cn.values.text import visible

_ALONE = 48
"""How many branches are fetched one by one when fetching them together failed."""
_Wanted = dict[str, tuple[str, list[tuple[Branch, Oid, ThreadKey]]]]
"""Per remote its URL, and the branches to fetch with the tips that were listed."""
_FETCH, _ARRIVAL = "fetch", "arrival"
"""Kinds of conditions: a head could not be fetched, or a rule refuses it."""


def fetch_changed(run: Run, seen: Observation, *, only: Container[ThreadKey] | None = None) -> list[ThreadKey]:
    """Fetch the objects of changed branches, bounded per peer; returns which inbound ones arrived.

    Ours are fetched too: what was pushed by hand, from anywhere, is pinned here. With
    ``only``, nothing but those inbound branches.
    """
    settings, git = run.settings, run.hub.git
    changed = [key for key in seen.changed_inbound() if only is None or key in only]
    changed = [key for key in changed if not _waits(run, seen, key)]
    # What was refused before comes last: a flood of forgeries must not keep the genuine out.
    changed.sort(key=lambda key: run.memory.told_before("arrival", *key, seen.inbound[key][1]))
    chosen = _choose(run, changed)
    ours = [] if only is not None else seen.changed_ours()
    ours = _missing(git, [(seen.ours[key][1], key) for key in ours])
    branches = [(_source(settings, key[0], IN), seen.inbound[key], key) for key in chosen]
    branches += [(_source(settings, key[0], OUT), seen.ours[key], key) for key in ours]
    wanted: _Wanted = {}
    for (remote, url), (branch, tip), key in branches:
        if url:
            wanted.setdefault(remote, (url, []))[1].append((branch, tip, key))
    failed = _fetch(run, wanted)
    for remote, reason in failed.items():
        url, pairs = wanted[remote]
        if reason == TIMED_OUT:
            # Who hangs once would hang for every branch: no more of this run's time.
            new = run.memory.unreachable.failed(remote, reason)
            text = f"{who(remote)} does not send its branches: {reason}"
            run.report.failed(text, source=remote, told_before=not new)
            continue
        # One bad branch must not keep the others out: fetch each alone, name the bad ones.
        alone: _Wanted = {str(i): (url, [pair]) for i, pair in enumerate(pairs[:_ALONE])}
        reasons = _fetch(run, alone) if len(pairs) > 1 else {"0": reason}
        for index, why in reasons.items():
            _report_not_fetched(run, *pairs[int(index)], why)
    # What moved between listing and fetching is left for the next run.
    tips = [(seen.inbound[key][1], key) for key in chosen]
    for (tip, key), info in zip(tips, read_info(git, [tip for tip, _ in tips]), strict=True):
        if info is None or info.kind != "commit":
            seen.missing.add(key)
        if info is not None and info.kind != "commit":  # git takes no such push: the host lies
            _report_not_fetched(run, seen.inbound[key][0], tip, key, f"it is a {info.kind}, no commit")
    seen.missing_ours |= set(_missing(git, [(seen.ours[key][1], key) for key in ours]))
    return [key for key in chosen if key not in seen.missing]


def _waits(run: Run, seen: Observation, key: ThreadKey) -> bool:
    """A head that could not be fetched again and again is left alone for a while."""
    branch, head = seen.inbound[key]
    if not run.memory.unfetched.waits(_attempt(key, head)):
        return False
    text = f"{_shown(key, branch)} cannot be fetched: {run.memory.unfetched.reason(_attempt(key, head))}"
    run.report.failed(text, "its creator must push it again", source=key[0], told_before=True)
    return True


def _shown(key: ThreadKey, branch: Branch) -> str:
    """Whose it is, and what its creator calls it: by pickup that begins with our own name."""
    source = f"{key[0]}/{key[1]}"
    return visible(source) if branch == source else f"{visible(source)} (there {visible(branch)})"


def _choose(run: Run, changed: list[ThreadKey]) -> list[ThreadKey]:
    most = run.settings.config.limits.branches_per_peer
    chosen: list[ThreadKey] = []
    count: dict[Name, int] = {}
    for key in changed:
        count[key[0]] = count.get(key[0], 0) + 1
        if count[key[0]] <= most:
            chosen.append(key)
    for peer, number in count.items():
        if number > most:
            text = f"{peer}: {number - most} more branches wait for the next run (limit {most} a run)"
            run.report.info(text)
    return chosen


def _missing(git: Git, tips: list[tuple[Oid, ThreadKey]]) -> list[ThreadKey]:
    infos = read_info(git, [tip for tip, _ in tips])
    return [key for (_, key), info in zip(tips, infos, strict=True) if info is None or info.kind != "commit"]


def _source(settings: Settings, name: Name, side: str) -> tuple[str, str]:
    """Where a peer's branches for us (IN) or ours for it (OUT) are fetched: key and URL."""
    peer = settings.peers[name]
    if (peer.deliver == MAILBOX) == (side == IN):
        return MAILBOX_KEY, settings.mailbox
    return name, peer.hub


def _fetch(run: Run, wanted: _Wanted) -> dict[str, str]:
    limits = run.settings.config.limits
    branches = {remote: (url, [(branch, tip) for branch, tip, _ in pairs]) for remote, (url, pairs) in wanted.items()}
    git = run.hub.git._replace(max_bytes=limits.fetch_bytes)
    return fetch_tips(git, branches, limits.peer_seconds, run.progress)


def _report_not_fetched(run: Run, branch: Branch, head: Oid, key: ThreadKey, why: str) -> None:
    new = run.memory.unfetched.failed(_attempt(key, head), why)
    text, remedy = f"{_shown(key, branch)} cannot be fetched: {why}", "its creator must push it again"
    run.report.failed(text, remedy, source=key[0], told_before=not new)
    run.memory.conditions.set(_FETCH, text, remedy, name=_name(key, head))


def _attempt(key: ThreadKey, head: Oid) -> str:
    return f"{key[0]}/{key[1]}@{head}"


def _name(key: ThreadKey, head: Oid) -> str:
    return f"{key[0]}/{key[1]} {head}"


def note_refused(run: Run, seen: Observation, read: Collection[ThreadKey], refused: Collection[RefusedArrival]) -> None:
    """Note which heads are not let in now; ``cn status`` shows them until they are gone.

    ``read`` are those that this run looked into. What is not listed any more, or moved, is gone.
    """
    conditions = run.memory.conditions
    for kind in (_ARRIVAL, _FETCH):
        for name in conditions.names(kind):
            branch, _, head = name.rpartition(" ")
            peer, _, topic = branch.partition("/")
            key = (Name(peer), topic)
            listed = seen.inbound.get(key)
            same = listed is not None and listed[1] == head and key not in read
            unseen = peer in run.settings.peers and peer not in seen.saw_inbound
            if not (same or unseen):
                conditions.clear(kind, name)
    for one in refused:
        conditions.set(_ARRIVAL, one.text, one.remedy, name=_name(one.key, one.head))


def fetch_mains(executor: Executor, seen: Observation, peers: Iterable[Name]) -> set[Name]:
    """Fetch peers' main branches (for proofs and merge bases), once a run; returns which of them are here."""
    settings = executor.settings
    asked = [name for name in dict.fromkeys(peers) if find_main(executor, seen, name)]
    wanted = {str(p): (str(settings.peers[p].hub), [seen.mains[p][0]]) for p in asked if p not in seen.fetched_mains}
    git = executor.hub.git._replace(max_bytes=settings.config.limits.fetch_bytes)
    failed = fetch_many(git, wanted, settings.config.limits.peer_seconds)
    seen.fetched_mains.update({Name(p): p not in failed for p in wanted})
    return {p for p in asked if seen.fetched_mains[p]}


def find_main(executor: Executor, seen: Observation, name: Name) -> bool:
    """Is a peer's main known? One that is neither ``main`` nor ``master`` is what its HEAD names."""
    reached = name in seen.saw_ours and name in seen.saw_inbound
    if name not in seen.mains and name not in seen.fetched_mains and reached:
        peer, seconds = executor.settings.peers[name], executor.settings.config.limits.peer_seconds
        found = head_of(executor.hub.git, peer.hub, seconds)
        if found is None:
            seen.fetched_mains[name] = False
        else:
            seen.mains[name] = found
    return name in seen.mains
