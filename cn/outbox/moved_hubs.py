"""A peer's hub has another URL: what lay at the one before goes on where the peer is now.

Nobody ended it: the peer still has what came in. So it is not gone. What nobody has answered, and may be seen there,
goes there by itself, the very same commit; all else is named, each with the command that brings it. Where the hub there
does not call itself as the peer is called here, somebody may have written another's URL: nothing goes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cn.git.objects import merge_bases
from cn.outbox.our_names import AWAY, PLACE
from cn.outbox.plan.receipts import plan_brought
from cn.outbox.told_again import read_sent
from cn.peers.links import read_names
from cn.peers.observe import Observation, fetch_mains
from cn.protocol.layout import FINAL, NOT_PUBLISHED, PROPOSAL
from cn.protocol.ledger import IN, OUT, Item
from cn.protocol.outbox_entry import Deliver, Propose
from cn.protocol.peers_file import PATH, Peer
from cn.protocol.twins import THERE
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run
from cn.run.settings import lies_at_mailbox
from cn.transaction.mailbox_main import private_in
from cn.transaction.push import bring_pinned
from cn.values.names import Branch, Name, is_oid
from cn.values.shell_words import command, push_step
from cn.values.text import one_line, redact, some_of
from cn.values.timestamps import format_second

_AWAY = "away"
"""The section of the memory on what lay at a peer's former URL and is not at the new one."""


def hold_back_moved(run: Run, seen: Observation) -> None:
    """Note what is open and lay at a peer's former URL, and is not at the new one: it is not gone there.

    What goes to the new one later, and is taken away there, is gone as anything else.
    """
    noted, away = run.memory.section(PLACE), run.memory.section(_AWAY)
    for peer in run.settings.peers.values():
        if peer.name not in seen.listings or seen.listings[peer.name].cut:  # nobody knows what is there
            continue
        lacks = _find_lacking(run, seen, peer, (IN, OUT))
        noted[peer.name] = peer.hub
        for name in [name for name in away if name.partition("/")[0] == peer.name]:
            del away[name]
        away.update({name: _life(item) for name, item in lacks.items()})
        seen.away |= {(peer.name, item.topic): item for item in lacks.values() if item.side == OUT}
        if theirs := [item for item in lacks.values() if item.side == IN]:
            seen.their_away[peer.name] = theirs
            seen.saw[IN].discard(peer.name)


def hold_theirs_back(run: Run, seen: Observation) -> None:
    """The same of a run that looks at peers' branches alone, and leaves the rest to a sync."""
    for peer in run.settings.peers.values():
        if peer.name in seen.listings and _find_lacking(run, seen, peer, (IN,)):
            seen.saw[IN].discard(peer.name)


def _find_lacking(run: Run, seen: Observation, peer: Peer, sides: Collection[str]) -> dict[str, Item]:
    noted, away = run.memory.section(PLACE), run.memory.section(_AWAY)
    moved = str(noted.get(peer.name, peer.hub)) != peer.hub
    if not moved and not away:
        return {}
    items = {_name(peer.name, item): item for item in run.snapshot.open_items.get(peer.name, {}).values()}
    return {
        name: item
        for name, item in items.items()
        if item.side in sides
        and not lies_at_mailbox(peer.name, item.get("branch"))
        and _lies(item)
        and (peer.name, item.topic) not in seen.listed[item.side]
        and (moved or away.get(name) == _life(item))
    }


def is_upon_former_main(run: Run, peer: Peer, item: Item) -> bool:
    """Was a proposal made on the main of a former URL, or on one that is not what its peer publishes now?

    Where neither is known, a main without history in common with it is another's, or was replaced.
    """
    moved = str(run.memory.section(PLACE).get(peer.name, peer.hub)) != peer.hub
    moved = moved or run.memory.conditions.get(AWAY, f"{peer.name}/{item.topic}") is not None
    return moved or (item.get("status") == "refused" and NOT_PUBLISHED in item.get("reason"))


def _name(peer: Name, item: Item) -> str:
    return f"{peer}/{item.side}/{item.topic}"


def _life(item: Item) -> str:
    """What was sent once: sent again it is another."""
    return f"{item.head} {format_second(item.since)}"


def _lies(item: Item) -> bool:
    """Does its branch lie somewhere, and does anybody wait for what becomes of it?"""
    if item.side == IN:
        return bool(item.get("thread") and not item.get("gone"))
    return item.state in THERE and item.get("status") not in FINAL


def bring_moved(executor: Executor, seen: Observation) -> None:
    """Queue what goes to a peer's new URL as it is; of all else tell once how it gets there, and show it till then."""
    conditions, found = executor.memory.conditions, dict[str, Condition]()
    here = fetch_mains(executor, seen, [peer for peer, _ in seen.away])
    names = read_names(executor.hub.git, {peer: seen.mains[peer][1] for peer in here})
    for (peer, topic), known in seen.away.items():
        if executor.item(peer, OUT, topic) != known:  # this run has ended it, or another clone has brought it
            continue
        source = f"{peer}/{topic}"
        url, is_it = redact(executor.settings.peers[peer].hub), names.get(peer) == peer
        if is_it and (entry := _entry(executor, seen, executor.settings.peers[peer], known)):
            with executor.apart(source):
                executor.perform(plan_brought(entry, known, executor.now))
                executor.notes.info(
                    f"{known.get('branch')} is not at {url}, where {peer} is now: it goes there", source=source
                )
            continue
        text = f"our {one_line(known.get('branch'), 100)} waits at {peer} and is not at {url}, where {peer} is now"
        if is_it:
            remedy = _remedy(executor, seen, peer, known)
        elif called := names.get(peer):
            text = f"{text}: that calls itself {one_line(called, 40)}, so nothing goes there"
            remedy = f"write {peer}'s own URL in {PATH}, or {_take_back(peer, known)}"
        else:
            remedy = f"no main there says that it is {peer}'s: 'cn sync' looks again; {_take_back(peer, known)}"
        found[source] = Condition(text, remedy, source)
    for peer, items in seen.their_away.items():
        text = f"{some_of([f'{peer}/{one.topic}' for one in items])} came from where {peer} was, and is not at "
        text += f"{redact(executor.settings.peers[peer].hub)}, where {peer} is now"
        remedy = f"it is decided as before; ask {peer} to push it there, where its answer is looked for"
        found[peer] = Condition(text, remedy, peer)
    for name in conditions.names(AWAY):  # where nobody looked it stays as it was
        peer, before = Name(name.partition("/")[0]), conditions.get(AWAY, name)
        if before is not None and peer in executor.settings.peers and peer not in seen.listings:
            found.setdefault(name, before)
    told = conditions.names(AWAY)
    conditions.replace(AWAY, found)
    for name, one in found.items():
        executor.notes.info(f"{one.text}; {one.remedy}", source=name, told_before=name in told)


def _entry(executor: Executor, seen: Observation, peer: Peer, item: Item) -> Deliver | Propose | None:
    """What brings it there; None: that is for a person.

    A proposal goes that cn made, since what was pushed by hand was not looked at for secrets; and none of which
    somebody has said something already, since it would begin anew here.
    """
    if item.state != "delivered":
        return None
    if item.get("kind") not in ("", PROPOSAL):
        entry = read_sent(executor.snapshot, peer.name, [item]).get(item.head)
        return replace(entry, queued=executor.now, branch=Branch(item.get("branch"))) if entry is not None else None
    if not _may_go(executor, seen, peer.name, item):
        return None
    return Propose(peer.name, Branch(item.get("branch")), item.head, executor.now, item.get("subject"))


def _may_go(executor: Executor, seen: Observation, peer: Name, item: Item) -> bool:
    """Does its history bring nothing of cn's folders that is not there? What its main has is there."""
    return not private_in(executor.hub.git, [item.head], [seen.mains[peer][1]])


def _take_back(peer: Name, item: Item) -> str:
    return f"{command('cn withdraw {}', f'{peer}:{item.topic}')} takes it back"


def _remedy(executor: Executor, seen: Observation, peer: Name, item: Item) -> str:
    ours, branch, ends = f"{peer}:{item.topic}", item.get("branch"), _take_back(peer, item)
    if item.get("kind") not in ("", PROPOSAL) or _may_go(executor, seen, peer, item):
        url = executor.settings.delivery_place(executor.hub, executor.settings.peers[peer], branch)
        steps = bring_pinned(executor.hub.git, peer, OUT, item.topic, item.head)
        steps.append(push_step(url, item.head, f"refs/heads/{branch}"))
        return f"{', then '.join(steps)} brings it there; {ends}"
    holds = "its history holds threads/, logs/ or state/, which are not published there"
    if not is_oid(item.get("base")) or merge_bases(executor.hub.git, seen.mains[peer][1], item.head):
        clone = command("git clone {}", executor.settings.peers[peer].hub)
        return f"{holds}: make it anew in a clone of that ({clone}), with 'cn propose'; {ends}"
    return f"{holds}: {command('cn rebase {}', ours)} lays it upon {peer}'s main there; {ends}"
