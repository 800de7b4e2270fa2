"""Look at the mailbox and the peers: list refs first, fetch objects only for what differs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from cn.git.local_refs import find_local_git_dir
from cn.git.objects import list_refs, read_info
from cn.git.process import TIMED_OUT, Git
from cn.git.remote import HEADS, Listing, fetch_many, fetch_tips, head_of, list_remotes, main_of
from cn.git.repository import Hub
from cn.protocol.ledger import IN, OUT
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer
from cn.run.memory import Memory
from cn.run.settings import MAILBOX_KEY, Settings
from cn.transaction.pins import Key, encode, read_pins
from cn.values.names import Branch, Name, NameRefused, Oid, ThreadKey, parse_branch, topic_of
from cn.values.report import Progress, Report
from cn.values.shell_words import command
from cn.values.text import visible

_ALONE = 48
"""How many branches are fetched one by one when fetching them together failed."""
_Wanted = dict[str, tuple[str, list[tuple[Branch, Oid, ThreadKey]]]]
"""Per remote its URL, and the branches to bring with the tips that were listed."""


@dataclass
class Observation:
    """What was seen of the world in one run.

    ``inbound`` and ``ours`` map (peer, topic) to branch and tip; a peer is in
    ``saw_inbound`` / ``saw_ours`` when its listing is known, so that absence means gone.
    ``urls`` are the remotes that were asked, ``listings`` what those that answered have,
    ``heads`` our own branches where they are the mailbox, ``merges`` of the merges that were
    claimed whether the peer's main holds them.
    """

    pins: dict[Key, Oid]
    inbound: dict[ThreadKey, tuple[Branch, Oid]] = field(default_factory=dict)
    ours: dict[ThreadKey, tuple[Branch, Oid]] = field(default_factory=dict)
    saw_inbound: set[Name] = field(default_factory=set)
    saw_ours: set[Name] = field(default_factory=set)
    mains: dict[Name, tuple[str, Oid]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    invalid: list[tuple[Name, str]] = field(default_factory=list)
    missing: set[ThreadKey] = field(default_factory=set)
    missing_ours: set[ThreadKey] = field(default_factory=set)
    fetched_mains: dict[Name, bool] = field(default_factory=dict)
    merges: dict[tuple[Name, Oid], bool] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)
    heads: Listing = field(default_factory=dict)

    def changed_inbound(self) -> list[ThreadKey]:
        """Inbound branches whose tip is not the pinned one, sorted."""
        return sorted(
            key
            for key, (_, tip) in self.inbound.items()
            if self.pins.get((key[0], IN, encode(key[1]))) != tip
        )

    def changed_ours(self) -> list[ThreadKey]:
        """Branches of ours whose tip is not the pinned one, sorted."""
        return sorted(
            key for key, (_, tip) in self.ours.items() if self.pins.get((key[0], OUT, encode(key[1]))) != tip
        )

    def vanished(self, side: str) -> list[tuple[Name, str, Oid]]:
        """Pins whose branch is not listed any more: (peer, encoded topic, last tip)."""
        listed = self.inbound if side == IN else self.ours
        saw = self.saw_inbound if side == IN else self.saw_ours
        there = {(peer, encode(topic)) for peer, topic in listed}
        return sorted(
            (peer, component, tip)
            for (peer, pin_side, component), tip in self.pins.items()
            if pin_side == side and peer in saw and (peer, component) not in there
        )

    @property
    def quiet(self) -> bool:
        """Is everything as the pins say?"""
        return not (
            self.changed_inbound()
            or self.changed_ours()
            or self.vanished(IN)
            or self.vanished(OUT)
            or self.unknown
            or self.invalid
        )


def observe(
    hub: Hub,
    settings: Settings,
    memory: Memory,
    report: Report,
    at: datetime,
    *,
    only: Iterable[Name] | None = None,
    inbound_only: bool = False,
    force: bool = False,
    down: dict[str, str] | None = None,
    progress: Progress | None = None,
) -> Observation:
    """List the mailbox and the peers at once; failures go to the report by name, and to ``down``.

    With ``inbound_only`` nobody is asked who has no branch for us to show.
    """
    peers = [p for p in settings.peers.values() if only is None or p.name in set(only)]
    urls: dict[str, str] = {}
    for peer in peers:
        if inbound_only and peer.deliver == MAILBOX:
            continue
        if not force and memory.unreachable.waits(peer.name):
            text = f"{peer.name} is unreachable: {memory.unreachable.reason(peer.name)}"
            report.failed(text, "it is tried again later", told_before=True)
        else:
            urls[peer.name] = peer.hub
    if settings.mailbox and peers:
        urls[MAILBOX_KEY] = _mailbox(hub, settings)
    answers = list_remotes(hub.git, urls, settings.config.limits.peer_seconds, progress)
    seen = Observation(read_pins(hub.git))
    seen.urls, listings = urls, seen.listings
    for key, answer in answers.items():
        if isinstance(answer, str):
            _unreachable(report, memory, key, answer, tell=force)
            if down is not None:
                down[key] = answer
        else:
            listings[key] = answer
            if memory.unreachable.reached(key):
                report.info(f"{_who(key)} is reachable again")
    heads = listings.get(MAILBOX_KEY)
    if not settings.mailbox:
        refs = list_refs(hub.git, HEADS)
        heads = seen.heads = {name.removeprefix(HEADS): oid for name, oid in refs.items()}
    if heads is not None:
        _sort_mailbox(seen, settings, peers, heads, whole=only is None)
    for peer in peers:
        if peer.name in listings:
            _sort_peer(seen, settings, peer, listings[peer.name])
    return seen


def _mailbox(hub: Hub, settings: Settings) -> str:
    """The mailbox by name; origin on this machine by its path, which is listed faster."""
    near = settings.mailbox == "origin" and hub.git.direct and find_local_git_dir(hub.origin_url) is not None
    return hub.origin_url if near else settings.mailbox


def _who(key: str) -> str:
    return "the mailbox" if key == MAILBOX_KEY else key


def _unreachable(report: Report, memory: Memory, key: str, reason: str, *, tell: bool) -> None:
    new = memory.unreachable.failed(key, reason)
    hint = (
        "check the remote with 'git remote -v'"
        if key == MAILBOX_KEY
        else f"{command('cn peer sync {}', key)} tries again"
    )
    report.failed(f"{_who(key)} is unreachable: {reason}", hint, source=key, told_before=not (new or tell))


def _sort_mailbox(
    seen: Observation, settings: Settings, peers: list[Peer], heads: Listing, *, whole: bool
) -> None:
    """Branches in our mailbox: peers' for us (mailbox route), ours for peers (pickup route)."""
    by_name = {p.name: p for p in peers}
    for peer in peers:
        (seen.saw_inbound if peer.deliver == MAILBOX else seen.saw_ours).add(peer.name)
    for name, tip in heads.items():
        prefix, slash, _ = name.partition("/")
        if not slash:
            continue
        known = by_name.get(Name(prefix))
        if known is None:
            if whole and prefix not in settings.peers:
                seen.unknown.append(name)
            continue
        _place(seen, known, name, tip, seen.inbound if known.deliver == MAILBOX else seen.ours)


def _sort_peer(seen: Observation, settings: Settings, peer: Peer, heads: Listing) -> None:
    """Branches at a peer's hub: ours there (mailbox), or its branches for us (pickup)."""
    (seen.saw_ours if peer.deliver == MAILBOX else seen.saw_inbound).add(peer.name)
    main = main_of(heads)
    if main:
        seen.mains[peer.name] = (main, heads[main])
    for name, tip in heads.items():
        if name.startswith(f"{settings.us}/"):
            _place(seen, peer, name, tip, seen.inbound if peer.deliver == PICKUP else seen.ours)


def _place(
    seen: Observation, peer: Peer, name: str, tip: Oid, where: dict[ThreadKey, tuple[Branch, Oid]]
) -> None:
    try:
        branch = parse_branch(name)
    except NameRefused:
        seen.invalid.append((peer.name, name))
        return
    where[(peer.name, topic_of(branch))] = (branch, tip)


def bring(
    hub: Hub,
    settings: Settings,
    seen: Observation,
    report: Report,
    memory: Memory,
    *,
    only: Container[ThreadKey] | None = None,
    progress: Progress | None = None,
) -> list[ThreadKey]:
    """Fetch the objects of changed branches, bounded per peer; returns which inbound ones arrived.

    Ours are fetched too: what was pushed by hand, from anywhere, is pinned here. With
    ``only``, nothing but those inbound branches.
    """
    changed = [key for key in seen.changed_inbound() if only is None or key in only]
    changed = [key for key in changed if not _resting(seen, key, report, memory)]
    # What was refused before comes last: a flood of forgeries must not keep the genuine out.
    changed.sort(key=lambda key: memory.told_before("arrival", *key, seen.inbound[key][1]))
    chosen = _choose(settings, changed, report)
    ours = [] if only is not None else seen.changed_ours()
    ours = _missing(hub.git, [(seen.ours[key][1], key) for key in ours])
    branches = [(_source(settings, key[0], IN), seen.inbound[key], key) for key in chosen]
    branches += [(_source(settings, key[0], OUT), seen.ours[key], key) for key in ours]
    wanted: _Wanted = {}
    for (remote, url), (branch, tip), key in branches:
        if url:
            wanted.setdefault(remote, (url, []))[1].append((branch, tip, key))
    git = hub.git._replace(max_bytes=settings.config.limits.fetch_bytes)
    failed = _fetch(git, settings, wanted, progress)
    for remote, reason in failed.items():
        url, pairs = wanted[remote]
        if reason == TIMED_OUT:
            # Who hangs once would hang for every branch: no more of this run's time.
            new = memory.unreachable.failed(remote, reason)
            text = f"{_who(remote)} does not send its branches: {reason}"
            report.failed(text, source=remote, told_before=not new)
            continue
        # One bad branch must not keep the others out: fetch each alone, name the bad ones.
        alone = {str(i): (url, [pair]) for i, pair in enumerate(pairs)}
        alone = dict(list(alone.items())[:_ALONE])
        reasons = _fetch(git, settings, alone, None) if len(pairs) > 1 else {"0": reason}
        for index, why in reasons.items():
            _not_fetched(report, memory, pairs[int(index)], why)
    # What moved between listing and fetching is left for the next run.
    tips = [(seen.inbound[key][1], key) for key in chosen]
    for (tip, key), info in zip(tips, read_info(hub.git, [tip for tip, _ in tips]), strict=True):
        if info is None or info.kind != "commit":
            seen.missing.add(key)
        if info is not None and info.kind != "commit":  # git takes no such push: the host lies
            _not_fetched(report, memory, (seen.inbound[key][0], tip, key), f"it is a {info.kind}, no commit")
    seen.missing_ours |= set(_missing(hub.git, [(seen.ours[key][1], key) for key in ours]))
    return [key for key in chosen if key not in seen.missing]


FETCH = "fetch"
"""The kind of condition that a head could not be fetched."""


def _not_fetched(report: Report, memory: Memory, found: tuple[Branch, Oid, ThreadKey], why: str) -> None:
    branch, head, key = found
    new = memory.unfetched.failed(_attempt(key, head), why)
    text, remedy = f"{visible(branch)} cannot be fetched: {why}", "its creator must push it again"
    report.failed(text, remedy, source=key[0], told_before=not new)
    memory.conditions.set(FETCH, text, remedy, name=name_of(key, head))


def name_of(key: ThreadKey, head: Oid) -> str:
    """The name of the condition that a head was not let in."""
    return f"{key[0]}/{key[1]} {head}"


def _attempt(key: ThreadKey, head: Oid) -> str:
    return f"{key[0]}/{key[1]}@{head}"


def _resting(seen: Observation, key: ThreadKey, report: Report, memory: Memory) -> bool:
    """A head that could not be fetched again and again is left alone for a while."""
    branch, head = seen.inbound[key]
    if not memory.unfetched.waits(_attempt(key, head)):
        return False
    report.failed(f"{visible(branch)} cannot be fetched", "its creator must push it again", told_before=True)
    return True


def _choose(settings: Settings, changed: list[ThreadKey], report: Report) -> list[ThreadKey]:
    most = settings.config.limits.branches_per_peer
    chosen: list[ThreadKey] = []
    count: dict[Name, int] = {}
    for key in changed:
        count[key[0]] = count.get(key[0], 0) + 1
        if count[key[0]] <= most:
            chosen.append(key)
    for peer, number in count.items():
        if number > most:
            report.info(f"{peer}: {number - most} more branches wait for the next run (limit {most} a run)")
    return chosen


def _missing(git: Git, tips: list[tuple[Oid, ThreadKey]]) -> list[ThreadKey]:
    infos = read_info(git, [tip for tip, _ in tips])
    return [key for (_, key), info in zip(tips, infos, strict=True) if info is None or info.kind != "commit"]


def _fetch(
    git: Git,
    settings: Settings,
    wanted: _Wanted,
    progress: Progress | None,
) -> dict[str, str]:
    branches = {
        remote: (url, [(branch, tip) for branch, tip, _ in pairs]) for remote, (url, pairs) in wanted.items()
    }
    return fetch_tips(git, branches, settings.config.limits.peer_seconds, progress)


def _source(settings: Settings, name: Name, side: str) -> tuple[str, str]:
    """Where a peer's branches for us (IN) or ours for it (OUT) are fetched: key and URL."""
    peer = settings.peers[name]
    if (peer.deliver == MAILBOX) == (side == IN):
        return MAILBOX_KEY, settings.mailbox
    return name, peer.hub


def fetch_mains(hub: Hub, settings: Settings, seen: Observation, peers: Iterable[Name]) -> set[Name]:
    """Bring peers' main branches (for proofs and merge bases), once a run; which of them are here."""
    peers = list(dict.fromkeys(peers))
    for name in peers:
        find_main(hub, settings, seen, name)
    asked = [p for p in peers if p in seen.mains]
    wanted = {
        str(p): (str(settings.peers[p].hub), [seen.mains[p][0]]) for p in asked if p not in seen.fetched_mains
    }
    git = hub.git._replace(max_bytes=settings.config.limits.fetch_bytes)
    failed = fetch_many(git, wanted, settings.config.limits.peer_seconds)
    seen.fetched_mains.update({Name(p): p not in failed for p in wanted})
    return {p for p in asked if seen.fetched_mains[p]}


def find_main(hub: Hub, settings: Settings, seen: Observation, name: Name) -> bool:
    """Is a peer's main known? One that is neither ``main`` nor ``master`` is what its HEAD names."""
    reached = name in seen.saw_ours and name in seen.saw_inbound
    if name not in seen.mains and name not in seen.fetched_mains and reached:
        found = head_of(hub.git, settings.peers[name].hub, settings.config.limits.peer_seconds)
        if found is None:
            seen.fetched_mains[name] = False
        else:
            seen.mains[name] = found
    return name in seen.mains


_STRAYS = 100


def report_strays(seen: Observation, us: Name, report: Report, memory: Memory) -> None:
    """Branches that are nobody's (once, exit code 0), and names outside the grammar (refused)."""
    strays: dict[str, list[str]] = {}
    for name in seen.unknown:
        strays.setdefault(name.partition("/")[0], []).append(name)
    for prefix, names in list(strays.items())[:_STRAYS]:
        if memory.tell_once("unknown", prefix):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            whose = (
                "the prefix is no peer's" if prefix != us else "nobody sends us that, under our own prefix"
            )
            report.info(f"branch {visible(names[0])}{more}: {whose}; left alone")
    for peer, name in seen.invalid:
        report.refused(
            f"branch {visible(name)} is refused: valid-name",
            "its creator must rename it",
            source=peer,
            told_before=not memory.tell_once("invalid", peer, name),
        )
