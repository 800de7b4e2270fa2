"""Look at the mailbox and the peers: list their refs, and sort them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from cn.git.environment import find_local_git_dir
from cn.git.fetch import fetch_tips
from cn.git.objects import list_refs, read_kinds, read_raw, update_refs
from cn.git.process import TIMED_OUT, Git, remedy_here
from cn.git.remote import (
    HEADS,
    SERVED_AS_FILES,
    Listing,
    is_no_repository,
    list_remotes,
    may_pass,
    mend_there,
    remedy_of,
)
from cn.git.told import MAINS, Told, mailbox_ref, mains_ref
from cn.peers.known_mains import forget_removed, note_listed
from cn.peers.peer_main import GUESSES, main_parts, mains_in, note_read
from cn.peers.second_tries import Pair, Wanted, fetch_apart
from cn.peers.turns import Turns
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.layout import PROPOSAL, SEEN_BEFORE, TRIED
from cn.protocol.ledger import IN, OUT, Item, each_event
from cn.protocol.peers_file import MAILBOX, Peer, say_moved
from cn.protocol.peers_file import PATH as PEERS
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run
from cn.run.settings import MAILBOX_KEY, Settings, lies_at_mailbox
from cn.transaction import mailbox_main
from cn.transaction.push import Key, encode, take_pins
from cn.values.errors import Refused
from cn.values.names import Branch, Name, NameRefused, Oid, ThreadKey, parse_branch, topic_of
from cn.values.shell_words import command, push_step
from cn.values.text import counted, one_line, redact, some_of, visible
from cn.values.timestamps import format_second, parse_stamp

Listed = dict[ThreadKey, tuple[Branch, Oid]]


@dataclass
class Observation:
    """What was seen of the world in one run.

    Of each side (``IN``: peers' branches for us, ``OUT``: ours for them) ``listed`` maps (peer, topic) to branch
    and tip, ``saw`` has the peers whose listing is known, so that absence means gone, and ``missing`` what could not
    be fetched; ``unheard`` are those inbound ones that were to be fetched, and of which this run did not hear whether
    they can be. ``unknown`` are branches of the mailbox that are nobody's, all of them where it was seen
    ``whole``. ``later`` are branches of ours that wait to be adopted, ``away`` those that
    lay at a peer's former URL, and are not at the new one; ``their_away`` that peer's own of these.
    ``urls`` are the remotes that were asked, ``listings`` what those that answered have, ``heads`` our
    own branches where they are the mailbox, ``merges`` what a peer's main merged (merge and its parents), ``ledgers``
    the lines of a peer's ledger of us by the head that they name, ``strange`` those at whose URL another answers.
    ``unpinned`` are the inbound branches that another clone let in and this one never had, as the ledger had them
    before anybody was asked.
    """

    pins: dict[Key, Oid]
    listed: dict[str, Listed] = field(default_factory=lambda: {IN: {}, OUT: {}})
    saw: dict[str, set[Name]] = field(default_factory=lambda: {IN: set(), OUT: set()})
    missing: dict[str, set[ThreadKey]] = field(default_factory=lambda: {IN: set(), OUT: set()})
    unheard: set[ThreadKey] = field(default_factory=set)
    later: set[ThreadKey] = field(default_factory=set)
    away: dict[ThreadKey, Item] = field(default_factory=dict)
    their_away: dict[Name, list[Item]] = field(default_factory=dict)
    mains: dict[Name, tuple[str, Oid]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    whole: bool = False
    invalid: list[tuple[Name, str]] = field(default_factory=list)
    fetched_mains: dict[Name, bool] = field(default_factory=dict)
    merges: dict[Name, dict[str, list[str]]] = field(default_factory=dict)
    ledgers: dict[Name, dict[str, list[str]]] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    listings: dict[str, Listing] = field(default_factory=dict)
    heads: Listing = field(default_factory=Listing)
    strange: set[Name] = field(default_factory=set)
    unpinned: dict[Key, Oid] = field(default_factory=dict)

    def changed(self, side: str) -> list[ThreadKey]:
        """Branches whose tip is not the pinned one, sorted."""
        return sorted(
            (peer, topic)
            for (peer, topic), (_, tip) in self.listed[side].items()
            if self.pins.get((peer, side, encode(topic))) != tip
        )

    def vanished(self, side: str) -> list[tuple[Name, str, Oid]]:
        """Branches of pins, or open here without one, that are not listed: (peer, encoded topic, last tip)."""
        there = {(peer, encode(topic)) for peer, topic in self.listed[side]}
        return sorted(
            (peer, component, tip)
            for (peer, pin_side, component), tip in (self.unpinned | self.pins).items()
            if pin_side == side and peer in self.saw[side] and (peer, component) not in there
        )


def observe(
    run: Run, *, only: Iterable[Name] | None = None, inbound_only: bool = False, force: bool = False
) -> Observation:
    """List the mailbox and the peers at once; failures go to the report, and to ``run.down``.

    ``only`` these peers. With ``inbound_only`` nobody is asked who has no branch for us to show; ``force``
    asks those too that failed of late.
    """
    settings, unreachable = run.settings, run.memory.unreachable
    peers = [p for p in settings.peers.values() if only is None or p.name in set(only)]
    urls: dict[str, str] = {}
    for peer in peers:
        if inbound_only and peer.deliver == MAILBOX and not has_two_places(run, peer):
            continue
        if not force and unreachable.waits(peer.name):
            text = f"{peer.name} is unreachable: {unreachable.reason(peer.name)}"
            run.report.failed(text, "it is tried again later", told_before=True)
        else:
            urls[peer.name] = peer.hub
    if settings.mailbox and peers:
        # Origin on this machine by its path, which is listed faster.
        near = settings.mailbox == "origin" and run.hub.git.direct and find_local_git_dir(run.hub.origin_url)
        urls[MAILBOX_KEY] = run.hub.origin_url if near else settings.mailbox
    known = {key: run.listed[key, url] for key, url in urls.items() if (key, url) in run.listed}
    known |= {MAILBOX_KEY: run.base.heads} if settings.mailbox == "origin" and run.base.heads is not None else {}
    if MAILBOX_KEY in known and not known[MAILBOX_KEY].has_all(settings.peers):  # main, as it is now, has more of them
        del known[MAILBOX_KEY]
    asked = {key: url for key, url in urls.items() if key not in known}
    parts = {
        key: [p.name for p in peers]
        if key == MAILBOX_KEY
        else [*main_parts(run.memory, url), *settings.names_for(Name(key))]
        for key, url in asked.items()
    }
    answers = list_remotes(run.hub.git, asked, settings.config.limits.peer_seconds, run.progress, parts)
    seen = Observation(take_pins(run.hub, run.now, dry_run=run.dry_run))
    seen.unpinned = _without_pins(run, seen.pins)
    answers = without_emptied(answers, _had_some(run, seen, peers))
    answers |= {key: heads for key, heads in known.items() if key in urls}
    seen.urls, listings = urls, seen.listings
    for key, answer in answers.items():
        if isinstance(answer, str):
            run.down[key] = answer
            told_before = not unreachable.failed(key, answer, hung=answer == TIMED_OUT) and not force
            moved = f"; if its hub moved, {say_moved('URL')}" if is_no_repository(answer) else ""
            hint = f"{command('cn peer sync {}', key)} tries again{moved}"
            needed = "" if key == MAILBOX_KEY else settings.needs_from(settings.peers[Name(key)])
            if key == MAILBOX_KEY:
                hint = "check the remote with 'git remote -v'"
            hint = remedy_of(answer, hint, None if key == MAILBOX_KEY else say_moved, needed)
            run.report.failed(f"{who(key)} is unreachable: {answer}", hint, source=key, told_before=told_before)
        else:
            listings[key] = answer
            if unreachable.worked(key):
                run.report.info(f"{who(key)} is reachable again")
    heads = listings.get(MAILBOX_KEY)
    if not settings.mailbox:
        refs = list_refs(run.hub.git, HEADS)
        heads = seen.heads = Listing((name.removeprefix(HEADS), oid) for name, oid in refs.items())
    if heads is not None:
        seen.whole = only is None and heads.whole
        _sort_mailbox(run, seen, peers, heads, whole=seen.whole)
        _hold_moved(run, seen, peers, some=only is not None)
    mains = mains_in(run, {peer.hub: listings[peer.name] for peer in peers if peer.name in listings})
    for peer in peers:
        if (theirs := listings.get(peer.name)) is None:
            continue
        if not isinstance(main := mains[peer.hub], str):
            seen.mains[peer.name] = main
        note_listed(run, peer, theirs, seen.mains.get(peer.name))
        names = settings.names_for(peer.name)
        listed = [_is_listed(run, peer.name, name, theirs, f"{peer.name}'s hub") for name in names]
        if all(listed):
            seen.saw[_side(peer, at_mailbox=False)].add(peer.name)
        for name, tip in theirs.items():
            prefix, slash, topic = name.partition("/")
            ours = slash and prefix in names and not re.fullmatch(TRIED, topic)
            if ours and _is_meant(run, peer, name, theirs, _side_of(settings, peer, name)):
                _place(settings, seen, peer, name, tip)
    forget_removed(run)
    _hold_by_routes(run, seen, peers)
    _place_by_threads(run, seen)
    return seen


def _is_meant(run: Run, peer: Peer, name: str, listing: Listing, side: str) -> bool:
    """Does a branch under one of our names stand for its topic? That of what is open does; else the one that is
    called as this hub is now, or, of what a peer made for us, by a name that it was called.
    """
    us, (prefix, _, topic) = run.settings.us, name.partition("/")
    item = run.snapshot.item(peer.name, side, topic)
    if item is not None and item.get("branch") in (f"{one}/{topic}" for one in run.settings.names_for(peer.name)):
        return item.get("branch") == name
    return prefix == us or (side == IN and f"{us}/{topic}" not in listing)


def _place_by_threads(run: Run, seen: Observation) -> None:
    """A thread that went on under another name of its head keeps its topic: there that branch is listed.

    What is listed under that topic itself changes places with it, and is read as what it is.
    """
    listed, away = seen.listed[IN], dict[Name, list[Item]]()
    for peer, topic, item in _inbound(run):
        there = item.get("branch").partition("/")[2]
        if there != topic and (found := listed.get((peer, there))) and str(found[0]) == item.get("branch"):
            _change_places(listed, peer, topic, there)
        if peer in seen.saw[IN] and ((peer, topic) not in listed or listed[peer, topic][1] != item.head):
            away.setdefault(peer, []).append(item)
    for peer, items in away.items():
        with suppress(Refused):  # a damaged ledger is told of elsewhere
            _place_by_other_names(run, listed, peer, items)


def _change_places(listed: Listed, peer: Name, topic: str, there: str) -> None:
    other = listed.pop((peer, topic), None)
    listed[peer, topic] = listed.pop((peer, there))
    if other is not None:
        listed[peer, there] = other


def _place_by_other_names(run: Run, listed: Listed, peer: Name, items: Sequence[Item]) -> None:
    """Threads whose branch is not at their head any more go on under another name that stood there before, refused as
    one of the same commit, or of the same signed words in another commit: nobody takes a branch out of its creator's
    hands by a name of its own. Of one that came later, nobody knows who put it there.
    """
    refused = [e for e in run.snapshot.events_with(peer, IN, (f"rule={SEEN_BEFORE}",)) if e.kind == "refused"]
    if not refused:
        return
    names = {str(branch): topic for (whose, topic), (branch, _) in listed.items() if whose == peer}
    threads = {topic for whose, topic, _ in _inbound(run) if whose == peer}
    for item in items:
        since = _away_since(run, listed, peer, item)
        for event in refused:
            topic = names.get(event.fields.get("branch", ""))
            # Where the same commit stands and the first name is gone, its going is recorded first.
            same = event.head == item.head and (peer, item.topic) in listed
            same = same or (bool(item.get("signed")) and event.fields.get("signed") == item.get("signed"))
            there = topic is not None and topic not in threads and listed[peer, topic][1] == event.head
            if topic is not None and same and there and (since is None or event.at <= since):
                _change_places(listed, peer, item.topic, topic)
                names = {str(branch): topic for (whose, topic), (branch, _) in listed.items() if whose == peer}
                break


def _away_since(run: Run, listed: Listed, peer: Name, item: Item) -> datetime | None:
    """When it was seen first that the branch of a thread is not at its head; None: now."""
    if gone := item.get("gone"):
        return parse_stamp(gone)
    there = listed.get((peer, item.topic))
    if there is None:
        return None
    branch, tip = there
    events = run.snapshot.events_at_heads(peer, IN, [tip]).get(tip, [])
    return min((e.at for e in events if e.fields.get("branch") == branch), default=None)


def _inbound(run: Run) -> Iterator[tuple[Name, str, Item]]:
    """The inbound items with a thread that is not decided."""
    for peer, items in run.snapshot.open_items.items():
        for (side, topic), item in items.items():
            if side == IN and item.get("thread"):
                yield peer, topic, item


def _without_pins(run: Run, pins: Mapping[Key, Oid]) -> dict[Key, Oid]:
    """The branches of open threads that have no pin in this clone, but those that are known to be gone."""
    there = (((peer, IN, encode(topic)), item) for peer, topic, item in _inbound(run) if not item.get("gone"))
    return {key: item.head for key, item in there if key not in pins}


_EMPTIED = "it lists no branch at all, and had some"


def without_emptied(answers: Mapping[str, Listing | str], had: Container[str]) -> dict[str, Listing | str]:
    """The answers by key: a listing without any branch, of one that ``had`` some, becomes the reason why it is none."""
    return {
        key: _EMPTIED if isinstance(one, Listing) and one.whole and not one and key in had else one
        for key, one in answers.items()
    }


def _had_some(run: Run, seen: Observation, peers: Sequence[Peer]) -> set[str]:
    """The peers in whose hubs there was a main, or a branch that is pinned."""
    pinned = {(peer, side) for peer, side, _ in seen.pins}
    mains = run.memory.section("mains")

    def had_some(peer: Peer) -> bool:
        side = _side(peer, at_mailbox=False)
        return peer.hub in mains or ((peer.name, side) in pinned and (side == IN or not works_by_hand(run, peer.name)))

    return {peer.name for peer in peers if had_some(peer)}


def has_box_alone(run: Run | Executor, peer: Peer) -> bool:
    """Has a peer an empty repository for our answers alone: no main, and never a word of cn's? It deletes there what it
    has read.
    """
    return peer.hub not in run.memory.section("mains") and works_by_hand(run, peer.name)


def works_by_hand(run: Run | Executor, peer: Name) -> bool:
    """Did proposals come from it, and never a message or a notice? Only cn makes these."""
    came = [event for event in each_event(run.snapshot.history(peer)) if event.side == IN]
    spoke = any(event.kind == "noticed" or (event.fields.get("kind") or PROPOSAL) != PROPOSAL for event in came)
    return bool(came) and not spoke


def _side(peer: Peer, *, at_mailbox: bool) -> str:
    """Whose branches lie there, at our mailbox or at the peer's hub: its own for us (IN), or ours for it (OUT)."""
    return IN if (peer.deliver == MAILBOX) == at_mailbox else OUT


def _side_of(settings: Settings, peer: Peer, branch: str) -> str:
    """Whose branch it is: that of what is open, by whichever route it was made, else by the route that is written."""
    usual = _side(peer, at_mailbox=lies_at_mailbox(peer.name, branch))
    other = OUT if usual == IN else IN
    return other if (other, branch) in settings.held.get(peer.name, ()) else usual


def who(key: str) -> str:
    """A peer or the mailbox, in words."""
    return "the mailbox" if key == MAILBOX_KEY else key


CUT = "cut"
"""The kind of condition that of some names more branches are listed than cn reads."""


def _is_listed(run: Run, peer: Name, prefix: str, listing: Listing, where: str) -> bool:
    """Are all branches under this prefix known, so that one that is missing is gone?"""
    broken = min((name for name in listing.broken if name.startswith(f"{prefix}/")), default="")
    if prefix not in listing.cut and not broken:
        run.memory.conditions.clear(CUT, f"{peer} {prefix}")
        return True
    text = f"{where} has more branches under {prefix}/ than cn reads: none of them is seen"
    remedy = f"{peer} deletes what it does not need; or {command('cn peer remove {}', peer)}"
    if broken:
        text = f"{visible(broken)} is broken in {where}: a crash of that machine left no commit in its file"
        remedy = f"{mend_there(HEADS + broken)}, then its creator pushes it again"
    run.report.failed(text, remedy, source=peer, told_before=run.memory.told("cut", peer, prefix))
    run.memory.conditions.set(CUT, text, remedy, name=f"{peer} {prefix}")
    return False


def _sort_mailbox(run: Run, seen: Observation, peers: list[Peer], heads: Listing, *, whole: bool) -> None:
    by_name, settings = {p.name: p for p in peers}, run.settings
    for peer in peers:
        if _is_listed(run, peer.name, peer.name, heads, "the mailbox"):
            seen.saw[_side(peer, at_mailbox=True)].add(peer.name)
    for name, tip in heads.items():
        prefix, slash, topic = name.partition("/")
        if re.fullmatch(TRIED, topic):
            continue
        known = by_name.get(Name(prefix))
        if slash and known is not None:
            _place(settings, seen, known, name, tip)
        elif slash and whole and prefix not in settings.peers:
            seen.unknown.append(name)


MOVED = "mailbox-moved"
"""The kind of condition that another remote is the mailbox now, and lacks branches that are open, by peer."""
_PLACE = "mailbox place"


def _hold_moved(run: Run, seen: Observation, peers: Sequence[Peer], *, some: bool) -> None:
    """Where ``mailbox:`` names another remote, what is open and not there is not gone: it lies where it lay. What came
    after this clone saw the change came to the new one, and never lay there.

    ``some``: these are not all peers.
    """
    noted, conditions, mailbox = run.memory.section(_PLACE), run.memory.conditions, run.settings.mailbox
    before = str(noted.get("name", mailbox))
    found: dict[str, Condition] = {}
    changed = str(noted.setdefault("since", format_second(run.now))) if before != mailbox else ""
    for peer in peers if changed else ():
        items = run.snapshot.open_items.get(peer.name, {}).values()
        here = [i for i in items if lies_at_mailbox(peer.name, i.get("branch")) and _lies(i)]
        here = [i for i in here if format_second(i.since) <= changed]
        lacks = [i for i in here if (peer.name, i.topic) not in seen.listed[i.side]]
        if lacks:
            side = lacks[0].side
            for lacking in lacks:
                seen.saw[lacking.side].discard(peer.name)
            names = ", ".join(one_line(item.get("branch"), 100) for item in lacks[:_PREFIXES])
            more = f" and {len(lacks) - _PREFIXES} more" if len(lacks) > _PREFIXES else ""
            text = f"the mailbox is {mailbox or 'this repository'} now, and was {before or 'this repository'}: "
            text += f"what is open with {peer.name} is not there yet: {names}{more}"
            remedy = _bringing(run, lacks, peer.name)
            remedy += f"; or write 'mailbox: {before}' again until they are over" if before else ""
            ends = command("cn delete {}", f"{peer.name}/{lacks[0].topic}")
            remedy += f"; {ends} ends one" if side == IN else ""
            found[peer.name] = Condition(text, remedy, peer.name)
    told = conditions.names(MOVED)
    if some:
        kept = {name: one for name in told if (one := conditions.get(MOVED, name)) is not None}
        found = {name: one for name, one in kept.items() if name not in {peer.name for peer in peers}} | found
    elif not found:
        noted["name"] = mailbox
        noted.pop("since", None)
    conditions.replace(MOVED, found)
    for name, one in found.items():
        if name not in told:
            run.report.info(f"{one.text}; {one.remedy}", source=one.source)


def _bringing(run: Run, items: Sequence[Item], peer: Name) -> str:
    """How these come to the mailbox: a peer's by that peer, who may push there; ours by who reads this. No step
    publishes what a separate one is there to keep out of it.
    """
    git, mailbox, separate = run.hub.git, run.settings.mailbox, run.settings.separate_mailbox
    published, steps = [mailbox_ref(mailbox)], list[str]()
    kept = [item for item in items if separate and mailbox_main.private_in(git, [item.head], published)]
    theirs, free = items[0].side == IN, [item for item in items if item not in kept]
    if theirs:
        steps.append(f"{peer} writes the URL of that as our hub: in its {PEERS}")
        steps += ["its cn brings there what it may, and names what brings the rest"] if free else []
    elif free:
        push = push_step(mailbox or ".", free[0].head, f"{HEADS}{free[0].get('branch')}")
        steps.append(f"{push} brings one there")
    if kept:
        names = ", ".join(one_line(item.get("branch"), 100) for item in kept[:_PREFIXES])
        more = f" and {len(kept) - _PREFIXES} more" if len(kept) > _PREFIXES else ""
        holds = f"the history of {names}{more} holds threads/, logs/ or state/, which are not published there"
        if theirs:
            how = f"{command('cn rebase {}', f'{run.settings.us}:{kept[0].topic}')} there lays one upon what is"
        else:
            how = f"{command('cn withdraw {}', f'{peer}:{kept[0].topic}')} takes one back, to be made anew without them"
        steps.append(f"{holds}: {how}")
    return "; ".join(steps)


def _lies(item: Item) -> bool:
    """Does its branch lie somewhere, as far as we know?"""
    return bool(item.get("thread") and not item.get("gone")) if item.side == IN else item.state != "queued"


def _place(settings: Settings, seen: Observation, peer: Peer, name: str, tip: Oid) -> None:
    try:
        branch = parse_branch(name)
    except NameRefused:
        seen.invalid.append((peer.name, name))
        return
    side, key = _side_of(settings, peer, name), (peer.name, topic_of(branch))
    before = seen.listed[side].get(key)
    if before is not None and (side, before[0]) in settings.held.get(peer.name, ()):
        return  # by the other route something of that topic is open, and goes first
    seen.listed[side][key] = (branch, tip)


ROUTES = "routes"
"""The section of the memory by which route all lay that was seen of a peer, when both places were looked at last."""


def has_two_places(run: Run, peer: Peer) -> bool:
    """May branches of either side lie by either route?"""
    noted = run.memory.section(ROUTES).get(peer.name, peer.deliver)
    return noted != peer.deliver or peer.name in run.settings.held


def _hold_by_routes(run: Run, seen: Observation, peers: Sequence[Peer]) -> None:
    """Where branches may lie by either route, none is gone unless both places were looked at."""
    for peer in peers:
        if has_two_places(run, peer) and not all(peer.name in saw for saw in seen.saw.values()):
            for saw in seen.saw.values():
                saw.discard(peer.name)


_STRAYS = 100
INVALID = "name"
"""The kind of condition that a branch's name is outside the grammar."""


def report_strays(run: Run, seen: Observation) -> None:
    """Report branches that are nobody's (once, exit code 0), and names outside the grammar (refused)."""
    strays: dict[str, list[str]] = {}
    for name in seen.unknown:
        strays.setdefault(name.partition("/")[0], []).append(name)
    for prefix, names in list(strays.items())[:_STRAYS]:
        if not run.memory.told("unknown", prefix):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            ours = prefix == run.settings.us
            whose = "nobody sends us that, under our own prefix" if ours else "the prefix is no peer's"
            run.report.info(f"branch {visible(names[0])}{more}: {whose}; left alone")
    conditions = run.memory.conditions
    if seen.whole:
        found = {"": _strays(run, strays)} if strays else {}
        if at_origin := _left_at_origin(run):
            found["origin"] = at_origin
            if not run.memory.told(STRAY, at_origin.text):
                run.report.info(f"{at_origin.text}; {at_origin.remedy}", source="origin")
        conditions.replace(STRAY, found)
    for name in conditions.names(INVALID):  # of a peer that was not seen they stay as they were
        peer = name.partition(" ")[0]
        if peer not in run.settings.peers or peer in seen.saw[IN] | seen.saw[OUT]:
            conditions.clear(INVALID, name)
    remedy = "its creator must rename it"
    invalid: dict[Name, list[str]] = {}
    for peer, name in seen.invalid:
        invalid.setdefault(peer, []).append(name)
    for peer, theirs in invalid.items():
        if left := len(theirs[_STRAYS:]):  # a flood is one sentence: no memory holds all its names
            text = f"{peer} has {left} more branches whose names are refused: valid-name"
            run.report.refused(text, remedy, source=peer, told_before=run.memory.told("invalid", peer))
            conditions.set(INVALID, text, remedy, name=f"{peer} ")
    for peer, name in ((peer, name) for peer, theirs in invalid.items() for name in theirs[:_STRAYS]):
        text = f"{peer}'s branch {visible(name)} is refused: valid-name"
        run.report.refused(text, remedy, source=peer, told_before=run.memory.told("invalid", peer, name))
        text = f"{peer}'s branch {one_line(name, 100)} is refused: valid-name"
        conditions.set(INVALID, text, remedy, name=f"{peer} {visible(name)}")


STRAY = "stray"
"""The kind of condition that branches of the mailbox are nobody's. It stops nothing: they may be somebody's own."""
_PREFIXES = 5


def _strays(run: Run, strays: Mapping[str, Sequence[str]]) -> Condition:
    """All of them in one sentence, by prefix, those with the most first."""
    us, mailbox = run.settings.us, run.settings.mailbox
    most = sorted(strays, key=lambda prefix: (-len(strays[prefix]), prefix))
    shown = [f"{one_line(prefix, 60)}/{' (our own prefix)' * (prefix == us)}: {len(strays[prefix])}" for prefix in most]
    more = f", and {len(most) - _PREFIXES} prefixes more" if len(most) > _PREFIXES else ""
    count = sum(len(names) for names in strays.values())
    what = f"{counted(count, 'branch', 'branches')} in the mailbox of no peer, left alone"
    text = f"{what}: {', '.join(shown[:_PREFIXES])}{more}"
    name, peer = strays[most[0]][0], next((prefix for prefix in most if prefix != us), "")
    delete = command("git push {} {}", mailbox, f":{HEADS}{name}") if mailbox else command("git branch -D {}", name)
    adds = f"{command('cn peer add {} URL', peer)} lets in what is a peer's; " if peer else ""
    where = ", where the host lets you" if mailbox else ""
    return Condition(text, f"{adds}{delete} deletes one that nobody needs{where}")


def _left_at_origin(run: Run) -> Condition | None:
    """What peers push to origin where the mailbox is another remote: who knows the old URL goes on with it, and no host
    tells them. What the ledger knows lay there before, and is told with the mailbox that has changed.
    """
    if not run.settings.separate_mailbox or run.base.heads is None:
        return None
    peers = {peer.name for peer in run.settings.peers.values() if peer.deliver == MAILBOX}
    new, url = dict[Name, list[str]](), run.hub.origin_url
    for name, head in run.base.heads.items():
        peer = Name(name.partition("/")[0])
        if peer in peers and "/" in name and not run.snapshot.events_at_heads(peer, IN, [head]).get(head):
            new.setdefault(peer, []).append(name)
    if not new:
        return None
    names, mailbox = [one_line(name, 100) for some in new.values() for name in some], run.settings.mailbox
    text = f"{some_of(names)} at origin, where nobody looks: what peers send goes to {mailbox} ('mailbox:' in {CONFIG})"
    gone = command("git push {} {}", "origin", f":{HEADS}{next(iter(new.values()))[0]}")
    remedy = f"tell {some_of(list(new))} to write the URL of {mailbox}, and not {redact(url)}, as our hub: in {PEERS}; "
    return Condition(text, f"{remedy}its cn brings there what it may; {gone} deletes one that came there")


FETCH, FETCH_OURS, ARRIVAL, UNREAD, NOT_TAKEN = "fetch", "fetch-ours", "arrival", "unread", "not-taken"
"""Kinds of conditions: a head could not be fetched, a rule refuses it, or origin takes no commit with it."""
_FETCH = {IN: FETCH, OUT: FETCH_OURS}
ADOPT = "adopt"
"""The kind of condition that a peer lists more branches of ours, made by others, than cn follows."""
_ADOPTED = 1000
"""Open branches of ours at a peer that cn did not make. Their records are read and written by every run."""
_NEWS = 10
"""Branches of a peer that a run names as such that cannot be fetched; of a flood the rest is counted."""
MORE = "'cn status -v' names them"
SILENT = "silent"
"""The kind of condition that a host lists a peer's branches, and does not send them."""


def fetch_changed(
    run: Run, seen: Observation, *, only: Container[ThreadKey] | None = None, force: bool = False
) -> list[ThreadKey]:
    """Fetch the objects of changed branches, bounded per peer; returns which inbound ones arrived.

    Ours are fetched too: what was pushed by hand, from anywhere, is pinned here, so many in a run and in all. With
    ``only``, nothing but those inbound branches; ``force`` asks for those too that could not be fetched of late.
    """
    git = run.hub.git
    heads = {key: seen.listed[IN][key][1] for key in seen.changed(IN)}
    turns = Turns(run.memory)
    turns.note_listed(heads, [name for name in run.settings.peers if name not in seen.saw[IN]])
    changed = [key for key in heads if only is None or key in only]
    seen.unheard.update(changed)
    changed = [key for key in changed if force or not _waits(run, seen, key, IN)]
    chosen = _choose(run, seen, turns, {key: heads[key] for key in changed})
    ours = _unknown(run, seen, _choose_ours(run, seen)) if only is None else []
    seen.missing[OUT] |= set(ours)
    ours = [key for key in ours if force or not _waits(run, seen, key, OUT)]
    wanted, paused = _wanted(run, seen, {IN: chosen, OUT: ours}, force=force)
    if only is None:
        _forget_silent(run, seen, paused)
    if not chosen and not ours:
        return []
    chosen = [key for key in chosen if _part(run, key[0], seen.listed[IN][key][0])[:2] not in paused]
    failed = _fetch(run, wanted)
    found = fetch_apart(lambda again: _fetch(run, again), wanted, failed)
    news = Counter[Name]()
    for pair, why in found.branches:
        quiet = news[pair[2][0]] >= _NEWS
        news[pair[2][0]] += _report_not_fetched(run, *pair, why, quiet=quiet)
    for peer, count in news.items():
        if count > _NEWS:
            run.report.failed(f"{peer}: {count - _NEWS} more branches cannot be fetched", MORE, source=peer)
    for _, head, key, side in found.hung:
        run.memory.unfetched.failed(_fetch_name(key, head, side), TIMED_OUT)
        if side == IN:
            turns.note_tried(key[0], head)
    _report_untried(run, found.untried)
    asked = [*(pair for pair, _ in found.branches), *found.hung, *found.untried]
    told = {(key[0], head) for _, head, key, side in asked if side == IN}
    heard = {(key[0], head) for (_, head, key, side), why in found.branches if side == IN and not _may_pass(why)}
    not_ours = {(key[0], head) for _, head, key, side in asked if side == OUT}
    _report_silent(run, wanted, found.silent)
    # What moved between listing and fetching is left for the next run.
    kinds = read_kinds(git, [seen.listed[IN][key][1] for key in chosen])
    for key, kind in zip(chosen, kinds, strict=True):
        why = found.silent.get(_part(run, key[0], seen.listed[IN][key][0])[:2], "")
        silent = bool(why)
        if silent and not _may_pass(why):
            heard.add((key[0], heads[key]))
        if kind != "commit" or silent or (key[0], heads[key]) in told:  # it may be here, and be none of theirs
            seen.missing[IN].add(key)
        else:
            run.memory.unfetched.worked(_fetch_name(key, heads[key], IN))
        if not kind and not silent and (key[0], heads[key]) not in told:
            told.add((key[0], heads[key]))
            if _report_differing(run, *seen.listed[IN][key], key):
                heard.add((key[0], heads[key]))
        if kind and kind != "commit":  # git takes no such push: the host lies
            _report_not_fetched(run, *seen.listed[IN][key], key, IN, f"it is a {kind}, no commit")
            heard.add((key[0], heads[key]))
    came = [key for key in ours if (key[0], seen.listed[OUT][key][1]) not in not_ours]
    came = [key for key in came if _part(run, key[0], seen.listed[OUT][key][0])[:2] not in {*found.silent, *paused}]
    seen.missing[OUT] -= set(came) - set(_missing(git, seen, came))
    read = [key for key in chosen if key not in seen.missing[IN]]
    heard |= {(key[0], heads[key]) for key in read}
    seen.unheard -= {key for key in seen.unheard if (key[0], heads[key]) in heard}
    return read


def _may_pass(why: str) -> bool:
    """Does what kept a branch from being fetched say nothing of the branch?"""
    return may_pass(why) or bool(remedy_here(why))


def _part(run: Run, name: Name, branch: Branch) -> tuple[str, str, str]:
    """Where a branch lies and whose it is: remote and peer; and the remote's URL."""
    peer = run.settings.peers[name]
    if lies_at_mailbox(name, branch):
        return MAILBOX_KEY, peer.name, run.settings.mailbox
    return peer.name, peer.name, peer.hub


def _wanted(
    run: Run, seen: Observation, sides: Mapping[str, Sequence[ThreadKey]], *, force: bool
) -> tuple[dict[str, tuple[str, list[Pair]]], set[tuple[str, str]]]:
    """Per remote its URL and the branches to fetch there; and from where those of a peer are left alone for a while."""
    wanted: dict[str, tuple[str, list[Pair]]] = {}
    paused: set[tuple[str, str]] = set()
    asked: set[tuple[str, Oid, str]] = set()  # one head is asked for once, whatever its names are
    for side, keys in sides.items():
        for key in keys:
            *part, url = _part(run, key[0], seen.listed[side][key][0])
            remote, peer = part
            if not force and _is_left_alone(run, " ".join(part)):
                if (remote, peer) not in paused:
                    text = _silent_text(remote, peer, run.memory.silent.reason(" ".join(part)))
                    run.report.failed(text, source=peer, told_before=True)
                paused.add((remote, peer))
            elif url and not _is_brought(seen, remote) and (peer, head := seen.listed[side][key][1], side) not in asked:
                asked.add((peer, head, side))
                wanted.setdefault(remote, (url, []))[1].append((*seen.listed[side][key], key, side))
    return wanted, paused


def _is_brought(seen: Observation, remote: str) -> bool:
    """Did its branches come with the list?"""
    return remote in seen.listings and seen.listings[remote].fetched is not None


def _is_left_alone(run: Run, name: str) -> bool:
    """Did it take all its time when it was asked last? What answers at once is asked by each run."""
    return run.memory.silent.waits(name) and run.memory.silent.reason(name) == TIMED_OUT


def _silent_text(remote: str, peer: str, reason: str) -> str:
    whose = "its branches" if remote == peer else f"{peer}'s branches"
    return f"{who(remote)} does not send {whose}: {reason}"


def _report_silent(
    run: Run, wanted: Mapping[str, tuple[str, list[Pair]]], silent: Mapping[tuple[str, str], str]
) -> None:
    """Tell once who does not send; who did is known to work again."""
    told: set[str] = set()
    for remote, (_, pairs) in wanted.items():
        parts = {(remote, str(key[0])) for _, _, key, _ in pairs}
        whole = len(parts) > 1 and parts <= silent.keys()
        for part in sorted(parts):
            name = " ".join(part)
            if part not in silent:
                if run.memory.silent.worked(name):
                    run.report.info(f"{who(remote)} sends branches again")
                run.memory.conditions.clear(SILENT, name)
                continue
            new = run.memory.silent.failed(name, silent[part])
            text = _silent_text(remote, remote if whole else part[1], silent[part])
            remedy = _asked_again(part[1], rarely=silent[part] == TIMED_OUT)
            if text not in told:
                run.report.failed(text, remedy, source=remote, told_before=not new)
            told.add(text)
            run.memory.conditions.set(SILENT, _silent_text(remote, part[1], silent[part]), remedy, name=name)


def _asked_again(peer: str, *, rarely: bool) -> str:
    often = "it is asked less and less often" if rarely else "the next sync asks it"
    return f"{command('cn peer sync {}', peer)} tries again; else {often}"


def _forget_silent(run: Run, seen: Observation, paused: Container[tuple[str, str]]) -> None:
    """Of whom nothing is to be fetched any more, nothing is missing."""
    for name in run.memory.conditions.names(SILENT):
        remote, _, peer = name.partition(" ")
        if peer not in run.settings.peers or (remote in seen.listings and (remote, peer) not in paused):
            run.memory.conditions.clear(SILENT, name)


def _waits(run: Run, seen: Observation, key: ThreadKey, side: str) -> bool:
    """Is a head left alone for a while? Origin does not take it, or it could not be fetched again and again, and this
    machine was not the cause.
    """
    branch, head = seen.listed[side][key]
    if side == IN and run.memory.not_taken.waits(head_name(key, head)):
        text, remedy = _not_taken(key, branch, run.memory.not_taken.reason(head_name(key, head)))
        run.report.failed(text, remedy, source=key[0], told_before=True)
        seen.unheard.discard(key)
        return True
    name = _fetch_name(key, head, side)
    if not run.memory.unfetched.waits(name) or remedy_here(run.memory.unfetched.reason(name)):
        return False
    text, remedy = _not_fetched(key, branch, side, run.memory.unfetched.reason(name), rarely=True)
    run.report.failed(text, remedy, source=key[0], told_before=True)
    if side == IN and not _may_pass(run.memory.unfetched.reason(name)):
        seen.unheard.discard(key)
    return True


_DIFFER = ("not our ref", "couldn't find remote ref", "could not find remote ref")
"""What git says where a host does not have what it listed a moment ago."""
_NOT_SENT = "its host lists it, and sends another state of the branch (copies there differ)"


def _not_fetched(key: ThreadKey, branch: Branch, side: str, why: str, *, rarely: bool) -> tuple[str, str]:
    """What is told of a branch that could not be fetched, and what helps. ``rarely``: the next run leaves it alone."""
    what, whoever = f"{_shown(key, branch)} cannot be fetched: {why}", "its creator must push it again"
    if side == OUT:
        what = f"our {visible(branch)} at {key[0]} cannot be fetched: {why}"
        whoever = "whoever pushed it there pushes it again"
    if remedy := remedy_here(why):
        return what, f"{remedy}; {command('cn peer sync {}', key[0])} tries at once"
    if why == SERVED_AS_FILES:
        return what, remedy_of(why, "")
    differs = why == _NOT_SENT
    if not differs and not any(said in why for said in _DIFFER):
        if not may_pass(why):
            return what, whoever
        again = _asked_again(key[0], rarely=rarely)
        return what, f"{again}; if it stays so, {whoever}" if rarely else again
    helps = "the copies at its host have to catch up" + ("" if differs else f", or {whoever}")
    return what, f"{helps}; {command('cn peer sync {}', key[0])} tries now"


def _report_differing(run: Run, branch: Branch, head: Oid, key: ThreadKey) -> bool:
    """The fetch went well and did not bring what was listed. Once that is a branch that moved meanwhile; returns
    whether it was so before.
    """
    if run.memory.told("differs", *key, head):
        _report_not_fetched(run, branch, head, key, IN, _NOT_SENT)
        return True
    run.report.info(f"{_shown(key, branch)} was listed at {head[:8]} and not sent; the next run looks again")
    return False


def _shown(key: ThreadKey, branch: Branch) -> str:
    """Whose it is, and what its creator calls it: by pickup that begins with our own name."""
    source = f"{key[0]}/{key[1]}"
    return visible(source) if branch == source else f"{visible(source)} (there {visible(branch)})"


def _choose(run: Run, seen: Observation, turns: Turns, heads: Mapping[ThreadKey, Oid]) -> list[ThreadKey]:
    most = run.settings.config.limits.branches_per_peer
    pending = [(peer, topic, item.head) for peer, topic, item in _inbound(run)]
    withdrawn = {(peer, head) for peer, topic, head in pending if (peer, topic) not in seen.listed[IN]}
    chosen: list[ThreadKey] = []
    for peer, theirs in _by_peer(heads).items():
        # A thread whose branch is gone may go on under any other name of its head.
        first = turns.choose({key: heads[key] for key in theirs if (peer, heads[key]) in withdrawn}, most)
        first = list({heads[key]: key for key in reversed(first)}.values())
        rest = turns.choose({key: heads[key] for key in theirs if key not in first}, most)
        chosen += [*first, *rest][:most]
        if more := len(theirs[most:]):
            run.report.info(f"{peer}: {more} more branches wait for the next run (limit {most} a run)")
    return chosen


def _choose_ours(run: Run, seen: Observation) -> list[ThreadKey]:
    """Ours whose tip is news: all on record, and of others as many of a peer as a run adopts, and as there are in all.

    A peer can write our name in its own hub as often as it likes.
    """
    items, changed = run.snapshot.open_items, seen.changed(OUT)
    strange = _by_peer([(peer, topic) for peer, topic in changed if (OUT, topic) not in items.get(peer, {})])
    most = run.settings.config.limits.branches_per_peer
    for peer in seen.saw[OUT]:
        left = _ADOPTED - sum(i.side == OUT and i.get("kind") == "proposal" for i in items.get(peer, {}).values())
        waits = strange.get(peer, [])[max(0, min(most, left)) :]
        seen.later.update(waits)
        if waits and left > most:
            run.report.info(f"{peer}: {len(waits)} more branches of ours wait for the next run (limit {most} a run)")
        elif waits:
            text = f"{peer} lists more branches of ours that cn did not make than the {_ADOPTED} it follows"
            remedy = "delete there what is not needed"
            told = run.memory.told("adopt", peer)
            run.report.info(f"{text}: {len(waits)} are left alone", told_before=told)
            run.memory.conditions.set(ADOPT, text, remedy, name=peer)
        if not waits or left > most:
            run.memory.conditions.clear(ADOPT, peer)
    return [key for key in changed if key not in seen.later]


def _by_peer(keys: Iterable[ThreadKey]) -> dict[Name, list[ThreadKey]]:
    found: dict[Name, list[ThreadKey]] = {}
    for key in keys:
        found.setdefault(key[0], []).append(key)
    return found


def _unknown(run: Run, seen: Observation, ours: Sequence[ThreadKey]) -> list[ThreadKey]:
    """Those branches of ours whose tip is not here, or is, and only the host of a peer says that it is ours.

    What our records have there we sent. Where the mailbox is origin, it had to get what it has.
    """
    missing, items = set(_missing(run.hub.git, seen, ours)), run.snapshot.open_items
    for peer, topic in ours:
        item = items.get(peer, {}).get((OUT, topic))
        remote, _, url = _part(run, peer, seen.listed[OUT][peer, topic][0])
        theirs = url and not run.settings.told_to(run.hub, remote, []).ours
        if theirs and (item is None or item.head != seen.listed[OUT][peer, topic][1]):
            missing.add((peer, topic))
    return [key for key in ours if key in missing]


def _missing(git: Git, seen: Observation, ours: Sequence[ThreadKey]) -> list[ThreadKey]:
    """Those branches of ours whose tip is not here."""
    kinds = read_kinds(git, [seen.listed[OUT][key][1] for key in ours])
    return [key for key, kind in zip(ours, kinds, strict=True) if kind != "commit"]


def _fetch(run: Run, wanted: Wanted) -> dict[str, str]:
    limits = run.settings.config.limits
    branches = {remote: (url, [(branch, tip) for branch, tip, *_ in pairs]) for remote, (url, pairs) in wanted.items()}
    git = run.hub.git._replace(max_bytes=limits.fetch_bytes)
    told = {key: _told(run, pairs) for key, (_, pairs) in wanted.items()}
    return fetch_tips(git, branches, limits.peer_seconds, run.progress, told)


def _told(run: Run, pairs: Sequence[Pair]) -> Told:
    """What the remote of these branches may hear of."""
    branch, _, key, _ = pairs[0]
    return run.settings.told_to(run.hub, _part(run, key[0], branch)[0], {key[0] for _, _, key, _ in pairs})


def _report_untried(run: Run, untried: Sequence[Pair]) -> None:
    """Others took the room of this run: the next one begins with these."""
    for peer, count in Counter(key[0] for _, _, key, _ in untried).items():
        run.report.info(f"{peer}: {count} more branches have to be tried one by one: the next run begins with them")


def _report_not_fetched(
    run: Run, branch: Branch, head: Oid, key: ThreadKey, side: str, why: str, *, quiet: bool = False
) -> bool:
    """Returns whether it is news; of a flood that is told in one sentence (``quiet``)."""
    name = _fetch_name(key, head, side)
    new = run.memory.unfetched.failed(name, why)
    if side == IN:
        Turns(run.memory).note_tried(key[0], head)
    text, remedy = _not_fetched(key, branch, side, why, rarely=run.memory.unfetched.waits(name))
    run.report.failed(text, remedy, source=key[0], told_before=quiet or not new)
    run.memory.conditions.set(_FETCH[side], text, remedy, name=head_name(key, head))
    return new


def report_not_taken(run: Run, seen: Observation, key: ThreadKey, why: str, *, tell: bool) -> None:
    """Origin takes no commit with what this branch brings; ``why`` has the words of its host. ``tell``: also again."""
    branch, head = seen.listed[IN][key]
    name = head_name(key, head)
    new = run.memory.not_taken.failed(name, why)
    Turns(run.memory).note_tried(key[0], head)
    text, remedy = _not_taken(key, branch, why)
    run.report.failed(text, remedy, source=key[0], told_before=not (new or tell))
    run.memory.conditions.set(NOT_TAKEN, text, remedy, name=name)


def _not_taken(key: ThreadKey, branch: Branch, why: str) -> tuple[str, str]:
    """What is told of a branch that origin does not take, and what helps."""
    tries = f"{command('cn peer sync {}', key[0])} tries again, else cn does, less and less often"
    helps = "its creator deletes it, or pushes it again without what origin minds; or whoever runs origin lets it in"
    return f"origin does not take {_shown(key, branch)} into main: {why}", f"{helps}; {tries}"


def head_name(key: ThreadKey, head: Oid) -> str:
    """A head of a branch, as the name of a condition."""
    return f"{key[0]}/{key[1]} {head}"


def _fetch_name(key: ThreadKey, head: Oid, side: str) -> str:
    """A head of a peer fails under all its names."""
    return f"{key[0]} {head}" if side == IN else f"{side} {head_name(key, head)}"


def forget_gone(executor: Executor, seen: Observation, read: Collection[ThreadKey]) -> None:
    """Forget which heads did not come in, where they are not listed any more, or moved, or are ``read`` now."""
    conditions, came = executor.memory.conditions, set(read)
    for kind, side in ((ARRIVAL, IN), (UNREAD, IN), (NOT_TAKEN, IN), (FETCH, IN), (FETCH_OURS, OUT)):
        for name in conditions.names(kind):
            branch, _, head = name.rpartition(" ")
            peer, _, topic = branch.partition("/")
            key = (Name(peer), topic)
            listed = seen.listed[side].get(key)
            here = key not in seen.missing[OUT] if side == OUT else key in came
            same = listed is not None and listed[1] == head and not here
            unseen = peer in executor.settings.peers and peer not in seen.saw[side]
            if not (same or unseen):
                conditions.clear(kind, name)
                if kind == NOT_TAKEN:
                    executor.memory.not_taken.worked(name)


def fetch_mains(executor: Executor | Run, seen: Observation, peers: Iterable[Name]) -> set[Name]:
    """Fetch peers' main branches (for proofs and merge bases), once a run; returns which of them are here."""
    asked = [name for name in dict.fromkeys(peers) if name in seen.mains]
    wanted = {p: seen.mains[p] for p in asked if p not in seen.fetched_mains}
    failed = bring_mains(executor, wanted)
    seen.fetched_mains.update({p: p not in failed for p in wanted})
    return {p for p in asked if seen.fetched_mains[p]}


def bring_mains(run: Executor | Run, mains: Mapping[Name, tuple[str, Oid]]) -> dict[Name, str]:
    """Bring main branches of peers: why one did not come, by peer.

    One that came is noted. Its peer may hear of it, so that of the next only what is new comes; and it needs not come
    again.
    """
    git, settings = run.hub.git, run.settings
    noted = list_refs(git, MAINS) if mains else {}
    wanted = {
        str(peer): (str(settings.peers[peer].hub), [main])
        for peer, main in mains.items()
        if noted.get(mains_ref(peer)) != main[1]
    }
    if not wanted:
        return {}
    told = {peer: settings.told_to(run.hub, peer, [Name(peer)]) for peer in wanted}
    limited = git._replace(max_bytes=settings.config.limits.fetch_bytes)
    failed = fetch_tips(limited, wanted, settings.config.limits.peer_seconds, told=told)
    if not run.dry_run:
        came = {peer: mains[Name(peer)][1] for peer in wanted if peer not in failed}
        here = read_kinds(git, list(came.values()))
        ours = [(mains_ref(Name(p)), tip) for (p, tip), kind in zip(came.items(), here, strict=True) if kind]
        read = zip(came, read_raw(git, [f"{tip}:{CONFIG}" for tip in came.values()]), strict=True)
        for peer, found in read:
            if found is not None:
                note_read(run.memory, settings.peers[Name(peer)].hub, mains[Name(peer)][0], found.data)
        update_refs(git, [*ours, *((ref, None) for ref in noted if ref.removeprefix(MAINS) not in settings.peers)])
    return {Name(peer): why for peer, why in failed.items()}


def main_of(run: Run, url: str, *, anew: bool = False) -> tuple[str, Oid] | str:
    """The main branch of a hub with its tip, or why nobody knows; ``anew``: whatever was known of it."""
    parts = GUESSES if anew else main_parts(run.memory, url)
    answer = list_remotes(run.hub.git, {"": url}, run.settings.config.limits.peer_seconds, parts={"": parts})[""]
    return answer if isinstance(answer, str) else mains_in(run, {url: answer}, anew=anew)[url]
