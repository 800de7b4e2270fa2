"""``cn withdraw``: take back what we sent, a proposal or a message (``docs/protocol/branches.md``)."""

from __future__ import annotations

from collections.abc import Sequence

from cn.actions.drafts import telling_what_waits
from cn.git.objects import is_ancestor, read_info
from cn.git.remote import HEADS, list_refs_of
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.outbox.our_branches import UNHEARD, forget_lost
from cn.outbox.our_names import FORWARD, REPLACED, find_ours, told_of
from cn.outbox.plan.receipts import plan_end_lost, plan_seen_again, plan_unasked, plan_withdrawn
from cn.peers.observe import head_name
from cn.protocol.layout import FINAL, NOTICE, PROPOSAL, TO_MEND
from cn.protocol.ledger import OUT, Event, Item
from cn.protocol.outbox_entry import is_deletion_of
from cn.protocol.sent_life import BEGINS, last_state, sent_lives
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.values.errors import Refused
from cn.values.names import Branch, HubPath, Name, Oid, topic_of
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line


def withdraw(hub: Hub, sent: str, *, dry_run: bool = False) -> Report:
    """Delete a branch of ours where it was delivered, or take it out of the outbox; ``sent`` names it as
    :func:`cn.outbox.our_names.find_ours` says. Where it is gone there already, it is told as lost no more.

    Raises :class:`Refused` for what is none of ours, or tells a peer what became of its own.
    """
    with telling_what_waits("nothing was taken back"), open_run(hub, dry_run=dry_run) as run:
        run.ask_origin()
        found = find_ours(run.snapshot, run.settings, sent)
        if found is None:
            text = f"we sent nothing that is called {one_line(sent, 80)!r}"
            raise Refused(text, "'cn status' shows what waits on others, by the name that is meant")
        peer, topic = found
        again = None
        if run.snapshot.item(peer, OUT, topic) is None and (again := _find_again(run, peer, topic)) is None:
            _end_lost(run, peer, topic)
        else:
            _require_ours(run, peer, topic)
            run.commit(lambda executor: _take_back(executor, peer, topic, again))
            deliver(run, force=True)
            if run.snapshot.item(peer, OUT, topic) is None:  # what stood in its place is nothing of ours any more
                for kind in (REPLACED, FORWARD):
                    run.memory.conditions.clear(kind, f"{peer}:{topic}")
    return run.report


def _require_ours(run: Run, peer: Name, topic: str) -> None:
    """What somebody else pushed to our branch is not deleted as if it were ours. Raises :class:`Refused` where that
    stands there, before anything is taken out of the outbox; where nobody can tell, by what was seen last.
    """
    item, known = run.snapshot.item(peer, OUT, topic), run.settings.peers.get(peer)
    if item is None or known is None or item.get("kind") == NOTICE:
        return
    if any(is_deletion_of(entry, peer, topic) for _, entry in run.snapshot.outbox()[0]):
        return  # the outbox tells why it waits
    branch, moved = Branch(item.get("branch")), told_of(run.memory.conditions, f"{peer}:{topic}")
    url, ref = run.settings.delivery_url(run.hub, known, branch), f"{HEADS}{branch}"
    again = command("cn withdraw {}", f"{peer}:{topic}")
    there = list_refs_of(run.hub.git, url, [ref], run.settings.config.limits.peer_seconds)
    if isinstance(there, str):
        if moved is not None:
            raise Refused(moved.text, f"{moved.remedy}; 'cn sync' looks again")
        return
    tip, ours = there.get(ref), item.head
    if item.state == "queued":
        last = _last_there(run.snapshot.events_of_topic(peer, OUT, topic))
        if last is None and (not tip or not _holds(run, Oid(tip), ours)):
            return  # it never came there, whoever has its name
        ours = last or ours
    if not tip or tip in (ours, item.head):
        return
    if moved is not None and f" {tip[:8]}" in moved.text:
        raise Refused(moved.text, f"{moved.remedy}; {again} after that takes it back")
    place = run.settings.delivery_place(run.hub, known, branch)
    gone = command("git push {} {}", place, f":{ref}")
    steps = f"{gone} deletes that, too, where the host lets you, then {again} ends it here"
    if item.get("kind") in ("", PROPOSAL):
        onto = f"'git rebase FETCH_HEAD', where {one_line(topic, 80)} is checked out, goes on from it, then "
        onto += command("cn propose {} {}", topic, peer)
        steps = f"{command('git fetch {} {}', place, ref)} shows it: {onto}; {steps}"
    raise Refused(f"{branch} is at {tip[:8]} there, and cn sent {ours[:8]}: nothing was taken back", steps)


def _holds(run: Run, tip: Oid, head: Oid) -> bool:
    return None not in read_info(run.hub.git, [tip, head]) and is_ancestor(run.hub.git, head, tip)


def _check(peer: Name, item: Item, waiting: Sequence[HubPath], *, known: bool) -> None:
    """``waiting`` are its entries in the outbox: a deletion that somebody took out of it can be asked for again;
    ``known``: is that one a peer?
    """
    branch = item.get("branch")
    waits = item.get("about_status") in FINAL and item.get("status") not in TO_MEND
    if item.get("kind") == NOTICE or waits:
        text = f"{branch} tells {peer} what became of {item.get('about')}, and {peer} waits for that"
        more = f"{command('cn send {} MESSAGE', peer)} says more"
        if item.get("status") in TO_MEND:
            more = f"it was refused there, and goes again by itself: 'cn status' says what that takes; {more}"
        owed = f"{peer} is no peer now: it goes when {command('cn peer add {} URL', peer)} adds it again"
        raise Refused(text, more if known else owed)
    if item.state == "deleting" and waiting and known:
        remedy = f"{command('cn outbox')} shows why it waits, {command('cn outbox flush')} tries again"
        raise Refused(f"{branch} is about to be deleted at {peer}", remedy)


def _take_back(executor: Executor, peer: Name, topic: str, again: Event | None) -> str | None:
    """``again``: what seemed gone, and lies there as it was sent."""
    if again is not None and executor.item(peer, OUT, topic) is None:
        executor.perform(plan_seen_again(peer, Branch(again.fields.get("branch", "")), again, executor.now))
    item = executor.item(peer, OUT, topic)
    if item is None:
        return None  # another clone was first
    outbox = executor.snapshot.outbox()[0]
    waiting = [path for path, entry in outbox if (entry.to, topic_of(entry.branch)) == (peer, topic)]
    _check(peer, item, waiting, known=peer in executor.settings.peers)
    if peer not in executor.settings.peers:
        executor.perform(plan_unasked(peer, item, waiting, executor.now))
        text = f"{peer}:{one_line(topic, 80)} was taken back here; {peer} is no peer, so nothing is deleted there"
        executor.notes.done(text, source=f"{peer}/{topic}")
        return f"cn: withdraw {peer}:{one_line(topic, 60)}"
    there = _last_there(executor.snapshot.events_of_topic(peer, OUT, topic)) if item.state == "queued" else None
    executor.perform(plan_withdrawn(peer, item, there or item.head, waiting, executor.now))
    return f"cn: withdraw {peer}:{one_line(topic, 60)}"


def _last_there(past: Sequence[Event]) -> Oid | None:
    """Where the branch was when it was delivered last, in what ``past`` has of its last life."""
    life = sent_lives(past)[-1]
    return next((event.head for event in reversed(life) if event.kind in ("delivered", "adopted")), None)


def _find_again(run: Run, peer: Name, topic: str) -> Event | None:
    """What counts as gone and lies at the peer after all, as it was sent: a mirror that another clone reads may lag."""
    past, known = run.snapshot.events_of_topic(peer, OUT, topic), run.settings.peers.get(peer)
    if known is None or (last := last_state(sent_lives(past)[-1])).kind != "gone":
        return None
    begun = next(event for event in reversed(past) if event.kind in BEGINS)
    branch = Branch(begun.fields.get("branch", ""))
    url, ref = run.settings.delivery_url(run.hub, known, branch), f"{HEADS}{branch}"
    there = list_refs_of(run.hub.git, url, [ref], run.settings.config.limits.peer_seconds)
    return begun if not isinstance(there, str) and there.get(ref) == last.head == begun.head else None


def _end_lost(run: Run, peer: Name, topic: str) -> None:
    """It is not there any more, and nothing of it is open here: where that is told as a loss, it was none."""
    past, name = run.snapshot.events_of_topic(peer, OUT, topic), f"{peer}/{topic}"
    last, told = last_state(past), run.memory.conditions
    if told.get(UNHEARD, key := head_name((peer, topic), last.head)):
        told.clear(UNHEARD, key)
        run.report.done(f"{peer}:{topic} needs nothing more; it is told as refused no more", source=name)
        return
    if last.kind != "gone":
        text = f"{peer}:{one_line(topic, 80)} is not there any more: it was {last.kind}"
        raise Refused(text, f"{command('cn why {}', f'{peer}:{topic}')} tells what became of it")

    def plan(executor: Executor) -> str:
        executor.perform(plan_end_lost(peer, last, executor.now))
        executor.notes.done(f"{peer}:{topic} was taken back; it is told as lost no more", source=name)
        return f"cn: withdraw {peer}:{one_line(topic, 60)}"

    run.commit(plan)
    forget_lost(run)
