"""What is told of links to peers that are not what the configuration says: another route, another name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cn.git.objects import read_info, read_objects
from cn.git.process import Git
from cn.peers.known_mains import note_called
from cn.peers.observe import Observation, fetch_mains
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.hub_config import name_in
from cn.protocol.ledger import IN, OUT, Item
from cn.protocol.peers_file import MAILBOX, PATH, PICKUP, Peer
from cn.run.executor import Executor
from cn.run.memory import MISNAMED, Condition
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.values.names import Name, Oid
from cn.values.shell_words import command
from cn.values.text import counted, redact, some_of

ROUTE, FORMER = "route", "former"
"""Kinds of conditions, by peer: a changed route waits for what is open; that has a name which this hub had before."""
ONE_NAME = "a hub has one name, and refuses what is sent to it under another"
_MOST_BYTES = 1 << 16


def find_routes(settings: Settings, items: Mapping[Name, Collection[Item]]) -> dict[str, Condition]:
    """Routes that were changed in ``peers.md`` while something was open, which goes on by the other."""
    found = {}
    for name, branches in settings.held.items():
        there = {(item.side, item.get("branch")) for item in items.get(name, ()) if item.state != "deleting"}
        held = sorted(branch for side, branch in branches if (side, branch) in there)
        if not held:
            continue
        written = settings.peers[name].deliver
        used = PICKUP if written == MAILBOX else MAILBOX
        text = f"deliver: {written} for {name} in {PATH} is in effect for what is new: what is open goes on by {used}"
        remedy = "both hubs change it; decide what came, and 'cn why' tells what ours wait for"
        found[str(name)] = Condition(f"{text}: {some_of(held)}", remedy, name)
    return found


def find_former(settings: Settings, items: Mapping[Name, Collection[Item]]) -> dict[str, Condition]:
    """Former names of this hub in what is open."""
    found = {}
    for name, former in settings.former.items():
        branches = sorted(b for one in items.get(name, ()) if (b := _called(one, former)))
        if not branches:
            continue
        was = " and ".join(sorted(former))
        what = counted(len(branches), "branch is", "branches are")
        text = f"this hub is {settings.us} now, and {what} open with {name} under its former name {was}"
        remedy = f"where {name} lists this hub by its former name, it does not look at what comes from {settings.us}: "
        add = command("cn peer add {} URL", settings.us)
        remedy += f"{add} there mends that (beside {was}, whose 'hub:' there is this hub's URL of now, too), "
        remedy += f"or 'name: {sorted(former)[0]}' in {CONFIG} here, until they are over"
        found[str(name)] = Condition(f"{text}: {some_of(branches)}", remedy, name)
    return found


def _called(item: Item, names: frozenset[Name]) -> str:
    branch = item.get("branch")
    return branch if branch.partition("/")[0] in names and item.state not in ("queued", "deleting") else ""


def open_at(snapshot: Snapshot) -> dict[Name, Collection[Item]]:
    """What is open in a commit, by peer."""
    return {name: items.values() for name, items in snapshot.open_items.items()}


def tell_links(executor: Executor, seen: Observation) -> None:
    """Tell once of each link that is not what the configuration says, and show it as long as it is so."""
    settings, conditions = executor.settings, executor.memory.conditions
    items = {name: [*executor.open(name, IN), *executor.open(name, OUT)] for name in settings.peers}
    routes, former, misnamed = (
        find_routes(settings, items),
        find_former(settings, items),
        _find_misnamed(executor, seen),
    )
    for kind, found in ((ROUTE, routes), (FORMER, former), (MISNAMED, misnamed)):
        before = set(conditions.names(kind))
        conditions.replace(kind, found)
        for name, one in found.items():
            if name not in before:
                executor.notes.info(f"{one.text}; {one.remedy}", source=one.source)


def _find_misnamed(executor: Executor, seen: Observation) -> dict[str, Condition]:
    """What peers' mains say of their names, of those that this run has fetched; of all others what is known.

    One that called itself otherwise is looked at again when its main moved.
    """
    settings, conditions, git = executor.settings, executor.memory.conditions, executor.hub.git
    old = {name: conditions.get(MISNAMED, name) for name in conditions.names(MISNAMED) if name in settings.peers}
    moved = [Name(name) for name in old if name in seen.mains]
    fetch_mains(executor, seen, [n for n in moved if not executor.memory.told_before(MISNAMED, n, seen.mains[n][1])])
    found = {name: one for name, one in old.items() if one is not None}
    here = [name for name, fetched in seen.fetched_mains.items() if fetched and name in settings.peers]
    for name, called in read_names(git, {name: seen.mains[name][1] for name in here}).items():
        found.pop(name, None)
        told = name_told(settings, settings.peers[name], called)
        if told is None:
            note_called(executor.memory, settings.peers[name])
        else:
            found[str(name)] = told
            executor.memory.told(MISNAMED, name, seen.mains[name][1])
    return found


def read_names(git: Git, mains: Mapping[Name, Oid]) -> dict[Name, str]:
    """What hubs call themselves, by peers whose mains are here; empty: nobody knows."""
    files = {name: f"{main}:{CONFIG}" for name, main in mains.items()}
    infos = dict(zip(files, read_info(git, [*files.values()]), strict=True))
    small = [name for name, one in infos.items() if one and one.kind == "blob" and one.size <= _MOST_BYTES]
    texts = dict(zip(small, read_objects(git, [files[name] for name in small]), strict=True))
    return {name: name_in(texts.get(name) or b"") for name in mains}


def name_told(settings: Settings, peer: Peer, called: str) -> Condition | None:
    """Does a peer's hub have another name than the one by which it is listed here? ``called``: empty, nobody knows."""
    copy = called == settings.us and peer.deliver != MAILBOX  # a fork of ours, from which its owner's branches come
    if called in ("", peer.name) or copy:
        return None
    text = (
        f"{peer.name}'s hub at {redact(peer.hub)} calls itself {called}: what is new to {peer.name} is refused there, "
    )
    text += f"and what comes as {called}/ is not looked at here"
    if called == settings.us:
        remedy = f"that is this hub's own name: check the URL of {peer.name}, or one of the two takes another name"
    elif Name(called) in settings.peers:
        remedy = f"{called} is a peer already: {command('cn peer remove {}', peer.name)} when nothing is open with it"
        remedy += f", or, where {peer.name} has another URL, its hub: in {PATH}"
    else:
        url = peer.hub if redact(peer.hub) == peer.hub else "URL"  # a password is never part of a command
        remedy = f"{command('cn peer add {} {}', called, url)} lists it by its name"
        if peer.name in settings.peers:
            remedy += f"; {command('cn peer remove {}', peer.name)} when nothing is open with that"
            remedy += f"; if {peer.name} is elsewhere, write its own URL in {PATH}"
    return Condition(text, remedy, peer.name)
