"""Deliver the outbox as main holds it (``docs/protocol/outbox.md``).

Every entry is one ref with its own lease. What the remote confirmed moves to ``sent/``;
what nobody knows is asked, never blindly repeated; what failed stays, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cn.git.objects import list_refs, read_info, update_refs, write_objects
from cn.git.process import TOO_MUCH, Git
from cn.git.remote import HEADS, Listing, Push, RefResult, Result, list_remotes, push_many, push_options
from cn.git.repository import Hub
from cn.outbox.plan.receipts import confirmed_kind, plan_confirmed, plan_returned
from cn.outbox.push_in_halves import REFUSED, push_in_halves
from cn.peers.observe import without_emptied
from cn.protocol import ledger, rules
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.ledger import IN, OUT
from cn.protocol.message import tree_bytes
from cn.protocol.outbox_entry import Deliver, Entry, Remove, entry_head, entry_source, take_out
from cn.protocol.peers_file import MAILBOX
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_entry
from cn.run.snapshot import Snapshot
from cn.transaction import mailbox_main
from cn.values.errors import ConfigError, Refusal
from cn.values.names import HubPath, Name, Oid, parse_oid, topic_of
from cn.values.report import Report
from cn.values.shell_words import command

Pair = tuple[HubPath, Entry]


class Outcome(NamedTuple):
    """What became of one entry: what was executed, or why nothing was (``hint``: and never will be)."""

    executed: str
    reason: str = ""
    hint: str = ""


def flush(hub: Hub, *, dry_run: bool = False) -> Report:
    """Deliver the outbox now, whatever the back-off says."""
    with open_run(hub, dry_run=dry_run) as run:
        deliver(run, force=True)
    return run.report


def deliver(run: Run, *, force: bool = False) -> None:
    """Deliver what main's outbox holds; confirmed entries go to ``sent/`` in one commit."""
    publish_main(run)
    _take_returned(run)
    ready = _ready(run, force)
    if run.dry_run:
        for _, entry in ready:
            verb = "deliver" if isinstance(entry, Deliver) else "delete"
            run.report.plan(f"{verb} {entry.branch} at {entry.to}", source=entry_source(entry))
        _commit(run, ready, {path: _taken(entry) for path, entry in ready}, force=force)
    elif ready:
        _write_messages(run.hub.git, run.snapshot.algorithm, ready)
        _commit(run, ready, _perform(run, ready), force=force)


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


def _is_asked_for(snapshot: Snapshot, entry: Entry) -> bool:
    item = snapshot.item(entry.to, OUT, topic_of(entry.branch))
    return item is not None and item.head == entry_head(entry) and item.state in ("queued", "deleting")


def _ready(run: Run, force: bool) -> list[Pair]:
    """The entries to try now; those that must wait are reported quietly."""
    ready = []
    snapshot = run.snapshot
    entries, broken = snapshot.outbox()
    for path, why in broken:
        told_before = run.memory.told("outbox", path, why)
        run.report.failed(f"{path}: {why}", f"it is not sent; {take_out(path)}", told_before=told_before)
    for path, entry in entries:
        if entry.to not in run.settings.peers:
            reason = f"{entry.to} is no peer any more"
            _failed(run, path, entry, reason, f"add it again with {command('cn peer add {} URL', entry.to)}")
        elif refusal := rules.may_send(entry, run.settings.config.name):
            hint = f"{refusal.remedy}; {take_out(path)}"
            _failed(run, path, entry, f"{refusal.rule}: {refusal.reason}", hint)
        elif isinstance(entry, Deliver) and (secret := _secret(run, snapshot, path, entry)):
            _failed(run, path, entry, f"{secret.rule}: {secret.reason}", secret.remedy)
        elif not run.settings.is_outbound(run.settings.peers[entry.to], entry.branch):
            reason = f"{entry.branch} is not ours by the route to {entry.to}"
            _failed(run, path, entry, reason, "see deliver: in state/peers.md")
        elif not force and entry.to in _hubs(run) and run.memory.unreachable.waits(entry.to):
            reason = run.memory.unreachable.reason(entry.to)
            run.report.failed(f"{entry.branch} waits: {entry.to} is unreachable: {reason}", told_before=True)
        elif not force and _is_refused(run, path):
            reason = run.memory.attempts.reason(path.rpartition("/")[2])
            run.report.failed(f"{entry.branch} waits: {entry.to} refuses it: {reason}", told_before=True)
        else:
            ready.append((path, entry))
    return ready


def _is_refused(run: Run, path: HubPath) -> bool:
    """Did the host refuse this very entry again and again, so that it is offered less often?"""
    name, attempts = path.rpartition("/")[2], run.memory.attempts
    return attempts.waits(name) and attempts.reason(name).startswith(REFUSED)


def _write_messages(git: Git, algorithm: str, ready: Sequence[Pair]) -> None:
    """Make message commits exist, from the exact bytes in the outbox."""
    messages = [entry for _, entry in ready if isinstance(entry, Deliver)]
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


def _failed(run: Run, path: HubPath, entry: Entry, reason: str, hint: str = "", *, tell: bool = False) -> None:
    new = run.memory.attempts.failed(path.rpartition("/")[2], reason, hint)
    text = f"{entry.branch} for {entry.to} is not {confirmed_kind(entry)}: {reason}"
    hint = hint or "it stays in the outbox"
    run.report.failed(text, hint, source=entry_source(entry), told_before=not (new or tell))


def _perform(run: Run, ready: Sequence[Pair]) -> dict[HubPath, Outcome]:
    """Ask each remote what it has, push the rest, ask again where the answer is unknown."""
    git, seconds = run.hub.git, run.settings.config.limits.peer_seconds
    # One remote may stand for several peers (pickup): the key is the URL.
    of = {path: run.settings.delivery_url(run.hub, run.settings.peers[entry.to]) for path, entry in ready}
    # Who did not answer a moment ago is not asked again in this run.
    urls = dict.fromkeys(of.values())
    asked: dict[str, Listing | str] = {u: run.down[p] for p, u in _hubs(run).items() if p in run.down and u in urls}
    parts = {url: {_prefix(entry) for path, entry in ready if of[path] == url} for url in urls}
    others = {url: url for url in urls if url not in asked}
    had = {of[path] for path, entry in ready if isinstance(entry, Remove)} | run.memory.section("mains").keys()
    asked |= without_emptied(list_remotes(git, others, seconds, parts=parts), had)
    outcomes = {path: _before(run, path, entry, asked[of[path]]) for path, entry in ready}
    pushes: dict[str, tuple[str, list[Push]]] = {}
    for path, entry in ready:
        if outcomes[path] is None:
            pushes.setdefault(of[path], (of[path], []))[1].append(_push(entry))
    results = push_in_halves(lambda some: push_many(git, some, seconds), pushes)
    unknown = {url for url, told in results.items() if any(r.result is not Result.DONE for r in told.values())}
    again = list_remotes(git, {url: url for url in unknown}, seconds, parts=parts)
    _note_reachability(run, asked)
    return {
        path: outcomes[path] or _after(entry, results[of[path]][entry.branch], again.get(of[path]))
        for path, entry in ready
    }


def _before(run: Run, path: HubPath, entry: Entry, listing: Listing | str) -> Outcome | None:
    """What the listing alone decides; None when there is something to push."""
    if isinstance(listing, str):
        return Outcome("", f"unreachable: {listing}")
    if _prefix(entry) in listing.cut:
        return Outcome("", f"asked for the branches under {_prefix(entry)}/, {TOO_MUCH}")
    tip = listing.get(entry.branch)
    match entry:
        case Deliver():
            if tip == entry.id:
                return _taken(entry)
            if tip is not None:
                reason = f"the branch exists there with other bytes ({tip[:8]})"
                hint = f"it waits; ask {entry.to} who made that branch there, and to delete it"
                return Outcome("", reason, hint)
            if (prefix := _prefix(entry)) in listing:
                reason = f"a branch named {prefix} there leaves no room for {entry.branch}"
                return Outcome("", reason, f"it waits; ask {entry.to} to delete the branch {prefix} there")
        case Remove():
            if tip is None:
                return Outcome("✓ deleted (it was gone already)")
            ours = run.settings.is_outbound(run.settings.peers[entry.to], entry.branch)
            item = run.snapshot.item(entry.to, OUT, topic_of(entry.branch))
            recorded = item is not None and item.head == entry.tip and item.state == "deleting"
            refusal = rules.may_delete(ours, entry.tip, tip, recorded=recorded)
            if refusal:
                hint = refusal.remedy if recorded else f"{refusal.remedy}; {take_out(path)}"
                return Outcome("", f"{refusal.rule}: {refusal.reason}", hint)
    return None


def _prefix(entry: Entry) -> str:
    return entry.branch.partition("/")[0]


def _push(entry: Entry) -> Push:
    """The branch with what it is to be, and what it is now."""
    new, old = (entry.id, None) if isinstance(entry, Deliver) else (None, entry.tip)
    return Push(entry.branch, new, old)


def _taken(entry: Entry) -> Outcome:
    """The remote has done as it was asked."""
    return Outcome("✓ delivered" if isinstance(entry, Deliver) else "✓ deleted")


def _after(entry: Entry, result: RefResult, listing: Listing | str | None) -> Outcome:
    """The outcome of a push; anything but a clear yes is compared with what the remote has now."""
    if result.result is Result.DONE:
        return _taken(entry)
    if not isinstance(listing, Listing) or _prefix(entry) in listing.cut:
        return Outcome("", f"unknown: {result.reason}")
    is_taken = listing.get(entry.branch) == _push(entry).new
    return _taken(entry) if is_taken else Outcome("", result.reason or "the remote did not take it")


def _hubs(run: Run) -> dict[Name, str]:
    """The peers whose own hub takes our branches (mailbox route), with its URL."""
    return {p.name: p.hub for p in run.settings.peers.values() if p.deliver == MAILBOX}


def _note_reachability(run: Run, asked: Mapping[str, Listing | str]) -> None:
    for peer, url in _hubs(run).items():
        answer = asked.get(url)
        if isinstance(answer, dict):
            run.memory.unreachable.worked(peer)
        elif answer is not None and peer not in run.memory.unreachable.entries:
            run.memory.unreachable.failed(peer, answer)


def _commit(run: Run, ready: Sequence[Pair], outcomes: Mapping[HubPath, Outcome], *, force: bool) -> None:
    for path, entry in ready:
        outcome = outcomes[path]
        if outcome.reason:
            _failed(run, path, entry, outcome.reason, outcome.hint, tell=force)
        else:
            run.memory.attempts.worked(path.rpartition("/")[2])
    confirmed = {path: entry for path, entry in ready if not outcomes[path].reason}
    if not confirmed:
        return
    snapshot = run.snapshot
    delivered = {path: snapshot.blob(path) for path in confirmed}

    def plan(executor: Executor) -> str | None:
        for path, entry in confirmed.items():
            ours = executor.item(entry.to, OUT, topic_of(entry.branch))
            blob = executor.snapshot.blob(path)
            waits = blob is not None and blob == delivered[path]  # else another clone confirmed it first
            executor.perform(plan_confirmed(path if waits else None, entry, ours, outcomes[path].executed, run.now))
            if waits:
                executor.notes.done(f"{confirmed_kind(entry)} {entry.branch} at {entry.to}", source=entry_source(entry))
        return "cn: delivered"

    run.commit(plan)


def check_published(run: Run, listing: Listing | None) -> None:
    """Where the mailbox's main is not what this clone published, that is published again: its host may have lost it."""
    mark = f"refs/cn/mailbox/{run.settings.mailbox}"
    if run.dry_run or not run.settings.separate_mailbox or listing is None or not listing.whole:
        return
    published = list_refs(run.hub.git, mark).get(mark)
    if published is not None and listing.get(run.hub.main) != published:
        update_refs(run.hub.git, [(mark, None)])
        run.report.info(f"main at {run.settings.mailbox} is not what was published there; it is published again")


def publish_main(run: Run) -> None:
    """Bring the mailbox's main to what we publish: fast-forward only, never over another's commits."""
    if not run.settings.separate_mailbox or run.dry_run:
        return
    text = run.snapshot.text(mailbox_main.PATH).strip()
    name, seconds = run.settings.mailbox, run.settings.config.limits.peer_seconds
    mark = f"refs/cn/mailbox/{name}"
    if not text or list_refs(run.hub.git, mark).get(mark) == text:
        return
    if not run.hub.config.last(f"remote.{name}.url"):
        raise ConfigError(f"{CONFIG}: mailbox: there is no remote {name}", command("git remote add {} URL", name))
    spec = f"{text}:{HEADS}{run.hub.main}"
    push = ("push", "--quiet", "--no-verify", *push_options(run.hub.git, name), "--", name, spec)
    done = run.hub.git.run(*push, check=False, network=True, seconds=seconds)
    if done.ok:
        update_refs(run.hub.git, [(mark, parse_oid(text))])
        run.report.done(f"published main at {name}")
        run.memory.conditions.clear("publish")
    else:
        told, remedy = f"main is not published at {name}: {done.reason}", "it is tried again at each run"
        run.report.failed(told, remedy, source=name, told_before=run.memory.told("publish", text, done.reason))
        run.memory.conditions.set("publish", told, remedy)
