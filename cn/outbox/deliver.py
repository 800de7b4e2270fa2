"""Deliver the outbox as main holds it (``docs/protocol/outbox.md``).

Every entry is one ref with its own lease, pushed at once: what the lease finds is the remote's answer. What it
confirmed moves to ``sent/``; what it did not take is asked; what failed stays, with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from cn.git import needed_rights
from cn.git.fetch import fetch_commits
from cn.git.objects import is_ancestor, list_refs, read_info, update_refs, write_objects
from cn.git.process import TIMED_OUT, TOO_MUCH, Git
from cn.git.remote import (
    HEADS,
    REFUSED,
    Listing,
    Push,
    RefResult,
    Result,
    in_the_way,
    list_refs_of,
    list_remotes,
    mend_there,
    push_forward,
    remedy_of,
)
from cn.git.told import ORIGIN, mailbox_ref
from cn.outbox.guarded_push import Guard
from cn.outbox.our_names import AWAY, FORWARD, LOST, PLACE, TAKEN_DOWN
from cn.outbox.plan.receipts import confirmed_kind, plan_confirmed, plan_renamed, plan_rerouted, plan_returned
from cn.outbox.push_in_halves import push_in_halves
from cn.peers.known_mains import is_known_there
from cn.peers.observe import has_box_alone, head_name, without_emptied
from cn.protocol import ledger, rules
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.ledger import IN, OUT
from cn.protocol.message import MessageRefused, parse_message, tree_bytes
from cn.protocol.outbox_entry import Deliver, Entry, Propose, Remove, entry_head, entry_source, outbox_path, take_out
from cn.protocol.peers_file import MAILBOX, say_moved
from cn.protocol.sent_life import sent_lives
from cn.run.executor import Executor
from cn.run.memory import MISNAMED
from cn.run.run import Run
from cn.run.secret_gate import check_entry
from cn.run.settings import Settings, lies_at_mailbox
from cn.run.snapshot import Snapshot
from cn.transaction import mailbox_main
from cn.transaction.base import origin_url
from cn.transaction.rights import has_tried, sweep_tried
from cn.values.errors import ConfigError, Refusal
from cn.values.names import Branch, HubPath, Name, Oid, is_oid, parse_oid, topic_of
from cn.values.shell_words import command, escape, push_step
from cn.values.text import counted, one_line
from cn.values.timestamps import format_age

Pair = tuple[HubPath, Entry]
Over = Mapping[tuple[Name, Branch], Oid]
"""Commits of somebody else that a proposal of ours, by its peer and branch, may replace."""
_NOTHING: Over = MappingProxyType({})


class Outcome(NamedTuple):
    """What became of one entry: what was executed, or why nothing was (``hint``: and never will be).

    ``plain`` is the hint that names no URL, where the other does: it is shown as long as this waits, and the URL may be
    another one by then.
    ``another`` is the branch of somebody else that has its name, as one names it there: a message goes by another, and
    what was to be deleted never was there.
    """

    executed: str
    reason: str = ""
    hint: str = ""
    another: str = ""
    plain: str = ""


def deliver(run: Run, *, force: bool = False, waited: Collection[HubPath] | None = None, over: Over = _NOTHING) -> None:
    """Deliver what main's outbox holds; confirmed entries go to ``sent/`` in one commit.

    ``over`` are commits of somebody else that a proposal of this name replaces, since somebody just said so.

    ``waited`` is what was in it before somebody said something: for whom that is, back-off or not, it is tried.
    """
    run.ask_origin()  # only what is in main is delivered
    if has_tried(run.hub) and not (run.dry_run or run.offline):
        sweep_tried(run.hub, run.settings.config.limits.peer_seconds)
    publish_main(run)
    _take_returned(run)
    _reroute(run)
    ready = _ready(run, force, waited)
    if run.dry_run:
        for _, entry in ready:
            verb = "delete" if isinstance(entry, Remove) else "deliver"
            what = _what(run, entry)
            run.report.plan(f"{verb} {entry.branch} at {entry.to}{what}", source=entry_source(entry))
        _commit(run, ready, {path: _taken(entry) for path, entry in ready}, force=force)
    elif ready:
        write_messages(run.hub.git, run.snapshot.algorithm, [entry for _, entry in ready])
        renamed = _commit(run, ready, _perform(run, ready, force=force, over=over), force=force)
        if renamed:  # one that is taken again waits for the next run
            _commit(run, renamed, _perform(run, renamed), force=force)


def is_owed(settings: Settings, entry: Entry) -> bool:
    """Does it tell what became of a branch of somebody who is no peer now? It goes when that one is added again."""
    return isinstance(entry, Deliver) and bool(entry.about) and entry.to not in settings.peers


def _take_returned(run: Run) -> None:
    """Take out of the outbox what was through before."""
    found = _find_returned(run.snapshot)
    if not found:
        return

    def plan(executor: Executor) -> str | None:
        for path, entry in found:
            if executor.snapshot.blob(path) is not None:
                executor.perform(plan_returned(path, entry, run.now))
                text = f"{entry.branch} for {entry.to} came back into the outbox; it was {confirmed_kind(entry)} before"
                executor.notes.info(f"{text}, and is not again", source=entry_source(entry))
        return "cn: taken out of the outbox"

    run.commit(plan)


def _find_returned(snapshot: Snapshot) -> list[Pair]:
    """What waits though the history says that it was through, and no open item that it is to be done (again)."""
    heads: dict[Name, list[Oid]] = {}
    strange = [(path, entry) for path, entry in snapshot.outbox()[0] if not _is_asked_for(snapshot, entry)]
    for _, entry in strange:
        heads.setdefault(entry.to, []).append(entry_head(entry))
    past = {peer: snapshot.events_at_heads(peer, OUT, some) for peer, some in heads.items()}
    through = {(peer, e.topic, head, e.kind) for peer in past for head, events in past[peer].items() for e in events}
    return [
        (path, entry)
        for path, entry in strange
        if (entry.to, topic_of(entry.branch), entry_head(entry), confirmed_kind(entry)) in through
    ]


def _reroute(run: Run) -> None:
    """What waits for a peer whose route is another one now goes by that, but for what moves a branch that is there."""
    settings = run.settings

    def has_moved(entry: Entry) -> bool:
        peer, prefix = settings.peers.get(entry.to), _prefix(entry)
        if peer is None or isinstance(entry, Remove) or prefix not in (settings.us, entry.to):
            return False
        item = run.snapshot.item(entry.to, OUT, topic_of(entry.branch))
        if prefix == settings.outbound_prefix(peer) or item is None or item.state != "queued":
            return False
        if item.head != entry_head(entry):
            return False
        return isinstance(entry, Deliver) or not was_there(run.snapshot, entry)

    if not any(has_moved(entry) for _, entry in run.snapshot.outbox()[0]):
        return

    def plan(executor: Executor) -> str | None:
        for path, entry in executor.snapshot.outbox()[0]:
            ours = executor.item(entry.to, OUT, topic_of(entry.branch))
            if not isinstance(entry, Remove) and ours is not None and has_moved(entry):
                prefix = settings.outbound_prefix(settings.peers[entry.to])
                branch = Branch(f"{prefix}/{topic_of(entry.branch)}")
                executor.perform(plan_rerouted(path, entry, branch, ours, run.now))
        return "cn: queued for another route"

    run.commit(plan)


def was_there(snapshot: Snapshot, entry: Propose | Remove) -> bool:
    """Was its branch ever seen where it goes?"""
    past = snapshot.events_of_topic(entry.to, OUT, topic_of(entry.branch))
    return bool(past) and any(event.kind in ("delivered", "adopted") for event in sent_lives(past)[-1])


def _is_asked_for(snapshot: Snapshot, entry: Entry) -> bool:
    item = snapshot.item(entry.to, OUT, topic_of(entry.branch))
    return item is not None and item.head == entry_head(entry) and item.state in ("queued", "deleting")


def _ready(run: Run, force: bool, waited: Collection[HubPath] | None) -> list[Pair]:
    """The entries to try now; those that must wait are reported quietly."""
    ready = []
    snapshot = run.snapshot
    entries, broken = snapshot.outbox()
    meant = set() if waited is None else {entry.to for path, entry in entries if path not in waited}
    for path, why in broken:
        told_before = run.memory.told("outbox", path, why)
        run.report.failed(f"{path}: {why}", f"it is not sent; {take_out(path)}", told_before=told_before)
    for path, entry in entries:
        if is_owed(run.settings, entry):
            continue  # said when it was queued, or the peer taken out
        if entry.to not in run.settings.peers:
            hint = f"add it again with {command('cn peer add {} URL', entry.to)}; {take_out(path)}"
            _failed(run, path, entry, f"{entry.to} is no peer any more", hint)
        elif refusal := rules.may_send(entry, run.settings.us, snapshot.item(entry.to, OUT, topic_of(entry.branch))):
            reason, hint = f"{refusal.rule}: {refusal.reason}", f"{refusal.remedy}; {take_out(path)}"
            if was := _former_name(run.settings, snapshot, entry):
                reason = f"it was written when this hub was called {was}"
                back = f"'name: {was}' in {CONFIG} again, until the outbox is empty: so it goes"
                hint = f"{back}; {take_out(path)}, and {entry.to} is never told what it says"
            _failed(run, path, entry, reason, hint)
        elif isinstance(entry, Deliver) and (secret := _secret(run, snapshot, path, entry)):
            _failed(run, path, entry, f"{secret.rule}: {secret.reason}", secret.remedy)
        elif not run.settings.is_outbound(run.settings.peers[entry.to], entry.branch):
            reason = f"{entry.branch} is not ours by the route to {entry.to}"
            old = _prefix(entry) not in (run.settings.us, entry.to)
            remedy = (
                f"it was made as {_prefix(entry)}: give this hub that name back, or {take_out(path)} and send it anew"
            )
            _failed(run, path, entry, reason, remedy if old else "see deliver: in state/peers.md")
        elif not (force or entry.to in meant or _is_near(entry)) and run.memory.unreachable.waits(entry.to):
            reason = run.memory.unreachable.reason(entry.to)
            run.report.failed(f"{entry.branch} waits: {entry.to} is unreachable: {reason}", told_before=True)
            left = run.memory.unreachable.next_try(entry.to) - run.now
            run.report.held[f"{entry.to}, which did not answer (next try in {format_age(left)})"] += 1
        elif not force and _is_refused(run, path):
            reason = run.memory.attempts.reason(path.rpartition("/")[2])
            run.report.failed(f"{entry.branch} waits: {entry.to} refuses it: {reason}", told_before=True)
        else:
            ready.append((path, entry))
    return ready


def _former_name(settings: Settings, snapshot: Snapshot, entry: Entry) -> str:
    """This hub's name when it was queued, as our ledger says; empty: that of now, or cn did not queue it."""
    if isinstance(entry, Deliver) and _is_asked_for(snapshot, entry):
        with suppress(MessageRefused):
            sender = parse_message(entry.content).sender
            return "" if sender == settings.us else sender
    return ""


def _is_refused(run: Run, path: HubPath) -> bool:
    """Did the host refuse this very entry again and again, so that it is offered less often?"""
    name, attempts = path.rpartition("/")[2], run.memory.attempts
    return attempts.waits(name) and attempts.reason(name).startswith(REFUSED)


def write_messages(git: Git, algorithm: str, entries: Iterable[Entry]) -> None:
    """Make message commits exist, from the exact bytes in the outbox, or in what was sent."""
    messages = [entry for entry in entries if isinstance(entry, Deliver)]
    infos = read_info(git, [message.id for message in messages])
    objects: list[tuple[str, bytes]] = []
    for message, info in zip(messages, infos, strict=True):
        if info is None:
            tree = tree_bytes(message.content, algorithm)
            objects += [("blob", message.content), ("tree", tree), ("commit", message.commit)]
    write_objects(git, objects, algorithm)


def _secret(run: Run, snapshot: Snapshot, path: HubPath, entry: Deliver) -> Refusal | None:
    """What is queued was looked at; but whoever can push to origin may have put it there."""
    data, topics = snapshot.read(path) or b"", lambda: ledger.topics(snapshot.history(entry.to), IN)
    return check_entry(path, data, entry, topics, run.settings)


def _failed(
    run: Run, path: HubPath, entry: Entry, reason: str, hint: str = "", *, tell: bool = False, plain: str = ""
) -> None:
    needed = needed_rights.of_branches(entry.branch.partition("/")[0])
    hint = hint or remedy_of(reason, "", say_moved, needed)
    peer = run.settings.peers.get(entry.to)
    # It is shown as long as this waits, and the URL may be another one by then.
    kept = plain if peer is not None and escape(peer.hub) in hint else hint
    new = run.memory.attempts.failed(path.rpartition("/")[2], reason, kept, peer=entry.to)
    text = f"{entry.branch} for {entry.to} is not {confirmed_kind(entry)}: {reason}"
    hint = hint or "it stays in the outbox"
    run.report.failed(text, hint, source=entry_source(entry), told_before=not (new or tell))


_AFTER_HANGING = 10.0
"""Seconds for the question what became of a push that took all its time."""


def _perform(run: Run, ready: Sequence[Pair], *, force: bool = False, over: Over = _NOTHING) -> dict[HubPath, Outcome]:
    """Push with what we know, each ref with its lease; ask a remote only about what it did not take."""
    git, seconds = run.hub.git, run.settings.config.limits.peer_seconds
    # One remote may stand for several peers (pickup): the key is the URL.
    of = {path: _url(run, entry) for path, entry in ready}
    # Who did not answer a moment ago is not asked again in this run.
    urls = dict.fromkeys(of.values())
    asked: dict[str, Listing | str] = {u: run.down[p] for p, u in _hubs(run).items() if p in run.down and u in urls}
    settled = _hold_from_strangers(run, [(path, e) for path, e in ready if not isinstance(asked.get(of[path]), str)])
    # Where a proposal may be now is asked: it moves.
    moving = [(path, entry) for path, entry in ready if isinstance(entry, Propose) and of[path] not in asked]
    asked |= list_remotes(git, {of[path]: of[path] for path, _ in moving}, seconds, parts=_parts(moving, of))
    guard = _guard(run)
    guard.begin([url for url in urls if not isinstance(asked.get(url), str)], force=force)
    asked |= guard.unknown
    hoped: dict[tuple[str, str], HubPath] = {}  # git takes a branch once in a push
    pushes: dict[str, tuple[str, list[Push]]] = {}
    for path, entry in ready:
        listing, place = asked.get(of[path]), (of[path], str(entry.branch))
        if path in settled or isinstance(listing, str) or of[path] in guard.held or place in hoped:
            continue
        if _refusal(run, entry):
            continue
        known = None
        if isinstance(entry, Propose) and isinstance(listing, Listing):
            known = _looked_at(run, entry, listing, over)
        if known is not None:
            settled[path] = known
            continue
        hoped[place] = path
        pushes.setdefault(of[path], (of[path], []))[1].append(_push(entry, listing))
    told = push_in_halves(guard.push, pushes)
    results = {path: told[url][branch] for (url, branch), path in hoped.items() if url not in guard.unknown}
    held = {path: guard.held[of[path]] for path, _ in ready if of[path] in guard.held and path not in settled}
    settled |= {path: Outcome("", why.text) for path, why in held.items()}
    results = {path: result for path, result in results.items() if path not in held}
    asked |= guard.unknown
    done = {path for path, result in results.items() if result.result is Result.DONE}
    left = [(path, entry) for path, entry in ready if path not in done and path not in settled]
    asked = {url: answer for url, answer in asked.items() if isinstance(answer, str)}  # it was before the push
    removed = ((of[path], run.settings.peers[entry.to]) for path, entry in ready if isinstance(entry, Remove))
    had = {url for url, peer in removed if not has_box_alone(run, peer)} | run.memory.section("mains").keys()
    hung = {of[path] for path, result in results.items() if result.reason == TIMED_OUT}
    for late, limit in ((False, seconds), (True, min(seconds, _AFTER_HANGING))):
        unknown = {of[path] for path, _ in left if of[path] not in asked and (of[path] in hung) is late}
        asked |= without_emptied(list_remotes(git, {url: url for url in unknown}, limit, parts=_parts(left, of)), had)
    _note_reachability(run, asked, {of[path] for path, one in results.items() if one.result is not Result.UNKNOWN})
    outcomes = {
        path: _outcome(run, path, entry, results.get(path), asked.get(of[path], ""))
        for path, entry in ready
        if path not in settled
    }
    return {path: settled.get(path) or outcomes[path] for path, _ in ready}


def _hold_from_strangers(run: Run, ready: Sequence[Pair]) -> dict[HubPath, Outcome]:
    """What does not go to a peer's hub, since a run has seen that the hub there is called otherwise. Where the peer's
    was there before, that was renamed, and what is for it goes on.
    """
    held = dict[HubPath, Outcome]()
    for path, entry in ready:
        told = None if _is_near(entry) else run.memory.conditions.get(MISNAMED, entry.to)
        if told is None or is_known_there(run.settings, run.memory, run.settings.peers[entry.to]):
            continue
        accept = f"{command('cn peer accept {}', entry.to)} sends it there, if it is {entry.to}'s hub"
        remedy = f"{told.remedy}; {accept}; {take_out(path)}"
        held[path] = Outcome("", told.text.partition(": what is new")[0], remedy)
    return held


def _guard(run: Run) -> Guard:
    """The pushes to peers' own hubs; what they fetch from our mailbox goes nowhere else."""
    peers: dict[str, list[Name]] = {}
    for name, url in _hubs(run).items():
        peers.setdefault(url, []).append(name)
    return Guard(run, peers)


def _parts(entries: Iterable[Pair], of: Mapping[HubPath, str]) -> dict[str, set[str]]:
    """The prefixes about which each remote is asked."""
    parts: dict[str, set[str]] = {}
    for path, entry in entries:
        parts.setdefault(of[path], set()).add(_prefix(entry))
    return parts


def _refusal(run: Run, entry: Entry, tip: Oid | None = None) -> Refusal | None:
    """Why it must not be done, whatever the remote has, or where it has ``tip``: only the creator deletes."""
    if not isinstance(entry, Remove):
        return None
    ours = run.settings.is_outbound(run.settings.peers[entry.to], entry.branch)
    return rules.may_delete(ours, entry.tip, tip or entry.tip, recorded=_is_recorded(run, entry))


def _is_recorded(run: Run, entry: Remove) -> bool:
    item = run.snapshot.item(entry.to, OUT, topic_of(entry.branch))
    return item is not None and item.head == entry.tip and item.state == "deleting"


def _outcome(run: Run, path: HubPath, entry: Entry, result: RefResult | None, listing: Listing | str) -> Outcome:
    """What became of an entry: of its push, where there was one, and by what the remote has now."""
    if result is not None and result.result is Result.DONE:
        return _taken(entry)
    if isinstance(listing, str):
        if result is None or result.reason == listing:
            return Outcome("", f"unreachable: {listing}")
        return Outcome("", f"whether it arrived is not known: {result.reason}")
    if _prefix(entry) in listing.cut:
        return Outcome("", f"asked for the branches under {_prefix(entry)}/, {TOO_MUCH}")
    if entry.branch in listing.broken:
        broken = f"{entry.branch} is broken there: a crash of that machine left no commit in its file"
        return Outcome("", broken, mend_there(HEADS + entry.branch))
    tip = listing.get(entry.branch)
    match entry:
        case Deliver():
            if tip == entry.id:
                return _taken(entry)
            if another := _in_its_place(entry, listing):
                return Outcome("", f"the name {entry.branch} is another's there ({another})", another=another)
            if no_room := _no_room(run, entry, listing):
                return no_room
        case Propose():
            if known := _looked_at(run, entry, listing):
                return known
        case Remove():
            if tip is None:
                return Outcome(
                    "✓ deleted (it was gone already)" if result is None or _is_stale(result) else "✓ deleted"
                )
            if _never_came(run, entry, tip):
                return Outcome("never there: its name is another's", another=tip)
            if refusal := _refusal(run, entry, tip):
                hint = f"{refusal.remedy}; {take_out(path)}"
                if _is_recorded(run, entry):
                    url = _url(run, entry)
                    gone, out = command("git push {} {}", url, f":{HEADS}{entry.branch}"), command("git rm -- {}", path)
                    hint = f"{refusal.remedy}: {gone} deletes that, too, where the host lets you; "
                    hint += f"{out}, and a commit, ends that cn asks for it"
                return Outcome("", f"{refusal.rule}: {refusal.reason}", hint, plain=hint.rpartition("; ")[2])
    reason = (result.reason if result else "") or "the remote did not take it"
    if isinstance(entry, Remove) and _is_near(entry) is (run.settings.peers[entry.to].deliver == MAILBOX):
        where = "here" if _is_near(entry) else "in its hub"
        reason += f"; it was made by another route: where {entry.to} deletes {entry.branch} {where}, that ends"
    way = in_the_way(reason)
    return Outcome("", reason, _make_room(run, entry, way) if way else "")


def _looked_at(run: Run, entry: Propose, listing: Listing, over: Over = _NOTHING) -> Outcome | None:
    """What a listing says of a proposal; None: it can be pushed over what is there."""
    tip = listing.get(entry.branch)
    if tip == entry.head:
        return _taken(entry)
    if _prefix(entry) in listing.cut:
        return Outcome("", f"asked for the branches under {_prefix(entry)}/, {TOO_MUCH}")
    if tip is not None and tip != over.get((entry.to, entry.branch)) and not is_ours(run, entry, tip):
        url, topic = _url(run, entry), topic_of(entry.branch)
        look = command("git fetch {} {}", url, HEADS + entry.branch)
        reason = f"it is at {tip[:8]} there, which cn did not propose"
        if was_there(run.snapshot, entry):
            again = f"{command('cn propose {} {}', topic, entry.to)}, where it is checked out,"
            gone = command("git push {} {}", url, f":{HEADS}{entry.branch}")
            over_it = command("cn propose {} {} --replace", topic, entry.to)
            ends = f"{gone}, then {command('cn withdraw {}', f'{entry.to}:{topic}')}, ends it"
            hint = f"it waits; {look} shows what somebody pushed there: 'git rebase FETCH_HEAD', where it is checked "
            hint += f"out, puts ours onto it, then {command('cn propose {} {}', topic, entry.to)}; {over_it} replaces "
            return Outcome("", reason, f"{hint}it; {ends}", plain=f"{again} tells what may be done")
        ends = f"{command('cn withdraw {}', f'{entry.to}:{topic}')} takes this out"
        anew = f"{command('cn propose {} {}', 'OTHER', entry.to)} proposes ours anew, {ends}"
        return Outcome("", reason, f"it waits; {look} shows what somebody pushed there, {anew}", plain=anew)
    return _no_room(run, entry, listing) or _lacking(run, entry)


def _is_stale(result: RefResult) -> bool:
    """Did git find another tip than expected, before it asked for anything?"""
    return result.result is Result.REJECTED and "stale info" in result.reason


def _prefix(entry: Entry) -> str:
    return entry.branch.partition("/")[0]


def _url(run: Run, entry: Entry) -> str:
    """Where it goes."""
    return run.settings.delivery_url(run.hub, run.settings.peers[entry.to], entry.branch)


def _is_near(entry: Entry) -> bool:
    """Does it go to our own mailbox, where the peer fetches?"""
    return lies_at_mailbox(entry.to, entry.branch)


def _no_room(run: Run, entry: Entry, listing: Listing) -> Outcome | None:
    """git keeps no branch below the name of another (gitrepository-layout(5), "refs")."""
    if (prefix := _prefix(entry)) not in listing:
        return None
    reason = f"a branch named {prefix} there leaves no room for {entry.branch}"
    return Outcome("", reason, _make_room(run, entry, HEADS + prefix))


def _make_room(run: Run, entry: Entry, ref: str) -> str:
    """Who deletes what is in the way: the peer in its hub, and we in our own mailbox, where it only reads."""
    if not _is_near(entry):
        return f"it waits; ask {entry.to} to delete {ref} there"
    # What proposes may be typed in a clone of the peer's hub, where the mailbox has another name.
    away = command("git -C {} push {} {}", str(run.hub.root), _url(run, entry), f":{ref}")
    return f"it waits; unless somebody here made that branch, {away} takes it away"


def _in_its_place(entry: Deliver, listing: Listing) -> str:
    """Somebody else's branch of its name, or one below it, beside which git keeps none."""
    below = f"{entry.branch}/"
    found = [name for name in listing if name == entry.branch or name.startswith(below)]
    return f"{one_line(found[0], 100)} at {listing[found[0]][:8]}" if found else ""


def is_ours(run: Run, entry: Propose, tip: Oid) -> bool:
    """Is this tip an earlier state of the proposal, by our ledger, or a part of what is proposed now?"""
    if any(event.head == tip for event in run.snapshot.events_of_topic(entry.to, OUT, topic_of(entry.branch))):
        return True
    infos = read_info(run.hub.git, [tip, entry.head])
    return None not in infos and is_ancestor(run.hub.git, tip, entry.head)


def _never_came(run: Run, entry: Remove, tip: Oid) -> bool:
    """Did what is to be deleted wait in the outbox only, since somebody else's commit, ``tip``, had its name?"""
    past = run.snapshot.events_of_topic(entry.to, OUT, topic_of(entry.branch))
    if not _is_recorded(run, entry) or was_there(run.snapshot, entry) or any(event.head == tip for event in past):
        return False
    infos = read_info(run.hub.git, [tip, entry.tip])
    return None in infos or not is_ancestor(run.hub.git, entry.tip, tip)


def _lacking(run: Run, entry: Propose) -> Outcome | None:
    """The commit may have been proposed in another clone; then origin has it."""
    if run.hub.origin and read_info(run.hub.git, [entry.head]) == [None]:
        seconds = run.settings.config.limits.peer_seconds
        fetch_commits(run.hub.git, origin_url(run.hub), [entry.head], seconds, ORIGIN)
    if read_info(run.hub.git, [entry.head]) != [None]:
        return None
    return Outcome("", f"the commit {entry.head[:8]} is not in this clone", "the clone that proposed it delivers it")


def _push(entry: Entry, listing: Listing | None) -> Push:
    """The branch with what it is to be, and what it may be now: a proposal where it was listed."""
    match entry:
        case Deliver():
            return Push(entry.branch, entry.id, None)
        case Propose():
            return Push(entry.branch, entry.head, listing.get(entry.branch) if listing else None)
        case Remove():
            return Push(entry.branch, None, entry.tip)


def _taken(entry: Entry) -> Outcome:
    """The remote has done as it was asked."""
    return Outcome("✓ deleted" if isinstance(entry, Remove) else "✓ delivered")


def _hubs(run: Run) -> dict[Name, str]:
    """The peers whose own hub takes our branches (mailbox route), with its URL."""
    return {p.name: p.hub for p in run.settings.peers.values() if run.settings.sends_to_hub(p)}


def _note_reachability(run: Run, asked: Mapping[str, Listing | str], answered: Collection[str]) -> None:
    for peer, url in _hubs(run).items():
        answer = asked.get(url)
        if isinstance(answer, Listing) or url in answered:
            run.memory.unreachable.worked(peer)
        elif answer is None or peer in run.down:  # it was not asked, or this run has counted it
            continue
        elif answer == TIMED_OUT or peer not in run.memory.unreachable.entries:
            run.memory.unreachable.failed(peer, answer, hung=answer == TIMED_OUT)


def _commit(run: Run, ready: Sequence[Pair], outcomes: Mapping[HubPath, Outcome], *, force: bool) -> list[Pair]:
    """Note what became of each; what has got another name, since its own was taken, is to be pushed under that."""
    taken = {path: entry for path, entry in ready if outcomes[path].another and isinstance(entry, Deliver)}
    for path, entry in ready:
        outcome = outcomes[path]
        if path in taken:
            run.memory.attempts.worked(path.rpartition("/")[2])
        elif outcome.reason:
            _failed(run, path, entry, outcome.reason, outcome.hint, tell=force, plain=outcome.plain)
        else:
            run.memory.attempts.worked(path.rpartition("/")[2])
            _forget_told(run, entry)
            run.memory.section(PLACE).setdefault(entry.to, run.settings.peers[entry.to].hub)
    confirmed = {path: entry for path, entry in ready if not outcomes[path].reason}
    if not (confirmed or taken):
        return []
    snapshot = run.snapshot
    delivered = {path: snapshot.blob(path) for path in (*confirmed, *taken)}
    renamed: list[Pair] = []

    said = {path: _told(run, entry, outcomes[path].another) for path, entry in confirmed.items()}

    def plan(executor: Executor) -> str | None:
        for path, entry in confirmed.items():
            ours = executor.item(entry.to, OUT, topic_of(entry.branch))
            blob = executor.snapshot.blob(path)
            waits = blob is not None and blob == delivered[path]  # else another clone confirmed it first
            executor.perform(plan_confirmed(path if waits else None, entry, ours, outcomes[path].executed, run.now))
            if waits:
                executor.notes.done(said[path], source=entry_source(entry))
        renamed.clear()
        for path, entry in taken.items():
            if (blob := executor.snapshot.blob(path)) is not None and blob == delivered[path]:
                renamed.append(_rename(executor, path, entry, outcomes[path].another))
        return "cn: delivered" if confirmed else "cn: queued under another name"

    run.commit(plan)
    return renamed


def _forget_told(run: Run, entry: Entry) -> None:
    """What is through is not missed, nor moved on by somebody, any more: a step for that would undo it.

    What stood in its place stays told until a sync looks: what was answered about the other counts from then on.
    """
    key, conditions = (entry.to, topic_of(entry.branch)), run.memory.conditions
    conditions.clear(AWAY, "/".join(key))
    conditions.clear(FORWARD, ":".join(key))
    for kind in (LOST, TAKEN_DOWN):
        conditions.clear(kind, head_name(key, entry_head(entry)))


def _told(run: Run, entry: Entry, another: str) -> str:
    """What became of what is through; ``another`` is somebody else's commit that has the name of what never came."""
    if not another:
        return f"{confirmed_kind(entry)} {entry.branch} at {_where(run, entry)}{_what(run, entry)}"
    gone = command("git push {} {}", _url(run, entry), f":{HEADS}{entry.branch}")
    text = f"{entry.branch} was never at {_where(run, entry)}: cn did not send {another[:8]}, which has that name there"
    return f"{text}, and leaves it; if somebody here made it, {gone} deletes it"


def _what(run: Run, entry: Entry) -> str:
    """Which commits a proposal brings, by its head, their number and its title; empty for anything else."""
    if not isinstance(entry, Propose):
        return ""
    item = run.snapshot.item(entry.to, OUT, topic_of(entry.branch))
    base = item.get("base") if item is not None and item.head == entry.head else ""
    done = run.hub.git.run("rev-list", "--count", f"{base}..{entry.head}", "--", check=False) if is_oid(base) else None
    number = counted(int(done.text), "commit") if done is not None and done.ok else ""
    return f": {', '.join(filter(None, [entry.head[:8], number, one_line(entry.subject, 80)]))}"


def _rename(executor: Executor, path: HubPath, entry: Deliver, another: str) -> Pair:
    """Queue a message under a free name, since somebody else's branch has its own; it is the same commit."""
    prefix, topic = _prefix(entry), topic_of(entry.branch)
    free = executor.free_topic(entry.to, topic.removesuffix(f"-{entry.id[:8]}"), entry.id)
    renamed = replace(entry, branch=Branch(f"{prefix}/{free}"))
    ours = executor.item(entry.to, OUT, topic)
    executor.perform(plan_renamed(path, entry, renamed.branch, ours, executor.now))
    own = _is_near(entry)
    where = "our own mailbox" if own else f"{entry.to}'s hub"
    goes = f"What we send goes as {renamed.branch} instead"
    theirs = executor.item(entry.to, IN, topic) if own else None
    if theirs is not None and theirs.get("branch") == entry.branch:  # by the route before this one
        text = f"{another} in {where} is {entry.to}'s own, and open here. {goes}"
        executor.notes.info(text, source=entry_source(entry))
        return outbox_path(renamed), renamed
    text = f"{another} in {where} is not ours: somebody else made it. {goes}"
    push = command("git push {} :{}", executor.settings.mailbox or ".", HEADS + another.rpartition(" at ")[0])
    who = f"unless somebody here made that branch, {push} deletes it" if own else f"{entry.to} can delete that branch"
    executor.notes.info(f"{text}; {who}", source=entry_source(entry))
    return outbox_path(renamed), renamed


def _where(run: Run, entry: Entry) -> str:
    """Where the branch lies of which that is confirmed: the peer's hub, or by pickup our own."""
    if not _is_near(entry):
        return entry.to
    place = run.settings.mailbox or "this hub"
    return f"{place}, where {entry.to} fetches it" if isinstance(entry, Deliver) else place


PUBLISH = "publish"
"""The kind of condition that a mailbox has not our main."""
_FOREIGN = "mailbox main"
"""The section of the memory on what stands in the place of what was published: where it is, and in how many runs."""
_LOOKS = 2


def check_published(run: Run, listing: Listing | None) -> None:
    """Where the mailbox's main is not what this clone published, that is published again: its host may have lost it."""
    mark = mailbox_ref(run.settings.mailbox)
    if run.dry_run or not run.settings.separate_mailbox or listing is None or not listing.whole:
        return
    published, noted = list_refs(run.hub.git, mark).get(mark), run.memory.section(_FOREIGN)
    if published is None and noted:
        noted.update(at=listing.get(run.hub.main, ""), looks=noted.get("looks", 0) + 1)
    there = listing.get(run.hub.main)
    if published is not None and there == run.snapshot.text(mailbox_main.PATH).strip() != published:
        update_refs(run.hub.git, [(mark, there)])  # another clone published it
    elif published is not None and there != published:
        noted.update(at=listing.get(run.hub.main, ""), looks=1)
        update_refs(run.hub.git, [(mark, None)])
        run.report.info(f"main at {run.settings.mailbox} is not what was published there; it is published again")


def publish_main(run: Run) -> None:
    """Bring the mailbox's main to what we publish: fast-forward only, but where it was ours and somebody pushed there.

    That is told, and replaced with a lease by the next run, which knows what another clone published since.
    """
    if not run.settings.separate_mailbox or run.dry_run:
        return
    text = run.snapshot.text(mailbox_main.PATH).strip()
    name = run.settings.mailbox
    mark = mailbox_ref(name)
    if not text or list_refs(run.hub.git, mark).get(mark) == text:
        run.memory.conditions.clear(PUBLISH)  # another clone may have published it
        return
    if not run.hub.config.last(f"remote.{name}.url"):
        raise ConfigError(f"{CONFIG}: mailbox: there is no remote {name}", command("git remote add {} URL", name))
    if (private := mailbox_main.private_in(run.hub.git, [text], [mark])) and not _has_main(run, name, text):
        told = f"main is not published at {name}: {private[:8]} in its history holds what is not published there"
        told += " (threads/, logs/ or state/)"
        anyway = push_step(name, text, run.hub.main_ref)
        shows = command("git log --full-history -m --stat {} -- threads logs state", private)
        remedy = f"{shows} shows it; {anyway} publishes it all the same"
        run.report.failed(told, remedy, source=name, told_before=run.memory.told(PUBLISH, text, told))
        run.memory.conditions.set(PUBLISH, told, remedy)
        return
    done = _push_main(run, name, text)
    foreign = run.memory.section(_FOREIGN)
    at, over = str(foreign.get("at", "")), ""
    if done.result is not Result.DONE and at and foreign.get("looks", 0) >= _LOOKS:
        done = _push_main(run, name, text, at)
        over = f", over {at[:8]}, which somebody else had pushed there"
    if done.result is Result.DONE:
        update_refs(run.hub.git, [(mark, parse_oid(text))])
        foreign.clear()
        run.report.done(f"published main at {name}{over}")
        run.memory.conditions.clear(PUBLISH)
        return
    told, remedy = f"main is not published at {name}: {done.reason}", "it is tried again at each run"
    if at or "non-fast-forward" in done.reason or "fetch first" in done.reason:
        by = f"{at[:8]}, which somebody else pushed, is there" if at else "somebody else's commits are there"
        told = f"{told}; {by}"
        if at:
            push = push_step(name, text, run.hub.main_ref, at)
            more = "so does the next run" if foreign.get("looks", 0) < _LOOKS else "where the host lets you"
            remedy = f"let nobody but this hub write main there; {push} replaces it, {more}"
        else:
            remedy = _replaces_foreign(run, name, text)
    run.report.failed(told, remedy, source=name, told_before=run.memory.told(PUBLISH, text, told))
    run.memory.conditions.set(PUBLISH, told, remedy)


def _has_main(run: Run, name: str, text: str) -> bool:
    """Did somebody publish it by hand?"""
    return _main_there(run, name) == text


def _main_there(run: Run, name: str) -> str:
    """The mailbox's main; empty: it has none, or gives no answer."""
    ref = HEADS + run.hub.main
    there = list_refs_of(run.hub.git, name, [ref], run.settings.config.limits.peer_seconds)
    return "" if isinstance(there, str) else str(there.get(ref, ""))


def _replaces_foreign(run: Run, name: str, text: str) -> str:
    """What helps where the mailbox has a main that this clone never published: no run replaces that by itself."""
    there = _main_there(run, name)
    if not there:
        return "it is tried again at each run"
    shows = command("git fetch {} {}", name, HEADS + run.hub.main)
    push = push_step(name, text, run.hub.main_ref, there)
    return f"no run replaces what cn did not publish: {shows} brings it here to look at; {push} replaces it"


def _push_main(run: Run, name: str, text: str, over: str = "") -> RefResult:
    """``over`` is the commit that is replaced, if it is still there."""
    seconds = run.settings.config.limits.peer_seconds
    return push_forward(run.hub.git, name, run.hub.main, parse_oid(text), seconds, over=over)
