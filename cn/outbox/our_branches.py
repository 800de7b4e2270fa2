"""Follow our own branches at peers: adopted, moved, gone, merged, too old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cn.git.entries import merge_trees
from cn.git.objects import OUTPUT_BYTES, is_ancestor, read_info
from cn.git.process import GitError
from cn.git.read_branches import Patience, first_title, read_commits, read_histories, read_messages
from cn.git.remote import HEADS
from cn.git.signatures import lacks_our_key, signed_digest
from cn.git.taken_in import held
from cn.outbox.our_names import (
    COPIED,
    FORWARD,
    LOST,
    REPLACED,
    TAKEN_DOWN,
    UNLISTED,
    ends_it,
    keep_step,
    proposes,
    sends_anew,
    steps_back,
)
from cn.outbox.plan.receipts import (
    LEFT,
    Arrival,
    clean_up,
    left_head,
    plan_adopted,
    plan_deleted_again,
    plan_notice,
    plan_ours_gone,
    plan_proven,
    plan_seen_again,
)
from cn.peers.known_mains import lay_in_another
from cn.peers.observe import Observation, fetch_mains, has_box_alone, head_name, works_by_hand
from cn.peers.older_state import is_missed_for_a_day
from cn.peers.routes import THEIRS
from cn.peers.strangers import tell_other_name
from cn.peers.their_records import read_theirs, route_told, sent_about
from cn.protocol import rules
from cn.protocol.effects import Pin, Plan, Record
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.layout import ACKED, FINAL, NOT_FINAL, NOTICE, PROPOSAL, TO_MEND
from cn.protocol.ledger import AGAIN, IN, OUT, WITHDRAWN, Event, Item, topics
from cn.protocol.message import About, MessageRefused, parse_message
from cn.protocol.outbox_entry import is_deletion_of
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer, others_can_write
from cn.protocol.peers_file import PATH as PEERS
from cn.protocol.sent_life import BEGINS, is_withdrawn, last_answer, last_state, sent_lives
from cn.protocol.twins import THERE
from cn.run.executor import Executor
from cn.run.memory import MISNAMED, Condition
from cn.run.run import Run
from cn.run.secret_gate import mask_line
from cn.run.settings import MAILBOX_KEY, lies_at_mailbox
from cn.transaction.mailbox_main import private_in
from cn.transaction.push import bring_pinned, decode, encode
from cn.values.errors import Refusal
from cn.values.names import Branch, Name, Oid, ThreadKey, Topic, is_oid, join_branch, topic_of
from cn.values.shell_words import command, push_step
from cn.values.text import in_quotes, one_line, some_of
from cn.values.timestamps import is_old

UNHEARD = "unheard"
"""The kind of condition that a message of ours was refused after it was cleaned up: it has to be said anew."""
_ANSWERS = ("delivered", "answered")
_MOST_DELETED = 5
"""So often the same commit is deleted that a host shows again: one that does not forget would be asked at each run."""


class PinnedTopics:
    """The topics of pins of one side; those too long for a ref are looked up in the ledger, once for each peer."""

    def __init__(self, executor: Executor, side: str) -> None:
        self._executor, self._side = executor, side
        self._long: dict[Name, dict[str, str]] = {}

    def of(self, peer: Name, component: str) -> str | None:
        """The topic of a pin's last part; None where nothing names it."""
        if not component.startswith("+"):
            return decode(component)
        if peer not in self._long:
            found = topics(self._executor.snapshot.history(peer), self._side)
            self._long[peer] = {encode(topic): topic for topic in found}
        return self._long[peer].get(component)


def record_ours(executor: Executor, seen: Observation) -> list[ThreadKey]:
    """Compare our branches at the remotes with our records.

    Returns those that are ours from now on where they stand: what was said about them before counts now.
    """
    forget_lost(executor)
    keys = [key for key in seen.changed(OUT) if key not in seen.missing[OUT] and key not in seen.later]
    before, came = _read_before(executor, seen, keys), _read_came(executor, keys)
    elsewhere, anew = _read_elsewhere(executor, seen, before), list[ThreadKey]()
    copies = _read_copies(executor, seen)
    _forget_theirs(executor, seen)
    for peer, topic in keys:
        branch, tip = seen.listed[OUT][peer, topic]
        item = executor.item(peer, OUT, topic)
        source = f"{peer}/{topic}"
        for kind in (LOST, TAKEN_DOWN):
            executor.memory.conditions.clear(kind, head_name((peer, topic), tip))
        if item is None:
            with executor.apart(source):
                known = before[peer].get(tip, {})
                if not known and (other := elsewhere.get((peer, tip, topic))):
                    text = f"{branch} at {peer} is what was sent to {other}, and is left there"
                    executor.notes.info(text, source=source)
                elif not _leave_theirs(executor, seen, (peer, topic), known.get(topic, []), came[peer, topic]):
                    _record_found(executor, seen, (peer, topic), branch, tip, known, copies.get((peer, topic)))
                    anew.append((peer, topic))
        elif item.head != tip and may_be_ours(executor, seen, peer, item, tip):
            text = f"our {branch} at {peer} is at {tip[:8]}, recorded at {item.head[:8]}"
            executor.notes.info(text, told_before=executor.memory.told("moved", peer, topic, tip))
        executor.perform(Plan(source, (Pin(peer, OUT, topic, tip),)))
    _tell_copies(executor, seen, copies)
    anew += _record_replaced(executor, seen)
    _record_gone(executor, seen)
    _record_never_listed(executor, seen)
    _renew_gone(executor, seen)
    return anew


def may_be_ours(executor: Executor, seen: Observation, peer: Name, item: Item, tip: Oid) -> bool:
    """May a person here have moved a branch of ours to this commit with git, or another of this hub's clones?

    What cn sent moves to a commit that holds it, that it had before, or that this hub has in main or a branch of its
    own: what nobody here ever had is another's, who can push there. A branch that was pushed by hand is moved by hand.
    That a commit holds it proves nothing once the peer has merged it: every commit upon its main does.
    """
    git = executor.hub.git
    if _is_from_here(executor, peer, item, tip):
        return True
    if read_info(git, [tip]) == [None] or not is_ancestor(git, item.head, tip):
        return False
    return not (fetch_mains(executor, seen, [peer]) and is_ancestor(git, item.head, seen.mains[peer][1]))


def _is_from_here(executor: Executor, peer: Name, item: Item, tip: Oid) -> bool:
    """Was it there before, is it held here, or is the branch one that people move?"""
    if item.head == tip or _is_adopted(executor, peer, item.topic):
        return True
    events = executor.snapshot.events_of_topic(peer, OUT, item.topic)
    if any(event.head == tip for event in events if event.kind in BEGINS):
        return True
    return read_info(executor.hub.git, [tip]) != [None] and _is_held_here(executor, tip)


def _is_adopted(executor: Executor, peer: Name, topic: str) -> bool:
    """Was the branch pushed by hand, as it is by the ledger?"""
    events = executor.snapshot.events_of_topic(peer, OUT, topic)
    return next((event.kind for event in reversed(events) if event.kind in BEGINS), "") == "adopted"


def _is_back(executor: Executor, peer: Name, item: Item, tip: Oid) -> bool:
    """Was it sent before what is there by our records? Its host may have an old state, or somebody set it back."""
    sent = [e.head for e in executor.snapshot.events_of_topic(peer, OUT, item.topic) if e.kind == "queued"]
    return tip in sent and item.head in sent


def _is_held_here(executor: Executor, tip: Oid) -> bool:
    """Does this hub's main hold it, or a branch in this clone that is no peer's, nor ours for one?"""
    if is_ancestor(executor.hub.git, tip, executor.snapshot.commit):
        return True
    names = executor.hub.git.run("for-each-ref", f"--contains={tip}", "--format=%(refname)", HEADS).lines
    settings = executor.settings
    prefixes = {*settings.peers, *(name for peer in settings.peers for name in settings.names_for(peer))}
    return any(name.removeprefix(HEADS).partition("/")[0] not in prefixes for name in names)


def _record_replaced(executor: Executor, seen: Observation) -> list[ThreadKey]:
    """Tell of branches of ours at which another's commit stands, for as long as it does.

    Returns those that a person here has moved, and those at which no other's stands any more.
    """
    found, forward = dict[str, Condition](), dict[str, Condition]()
    moved = list[ThreadKey]()
    for peer, known in executor.snapshot.outbound():
        item = executor.item(peer, OUT, known.topic)  # this very run may have ended it
        _, tip = seen.listed[OUT].get((peer, known.topic), (None, None))
        if item is None or tip is None or tip == item.head or item.state not in (*THERE, "deleting"):
            continue
        not_here = (peer, known.topic) in seen.missing[OUT] or (peer, known.topic) in seen.later
        if not_here or peer not in executor.settings.peers:
            continue
        branch = item.get("branch")
        url = executor.settings.delivery_place(executor.hub, executor.settings.peers[peer], branch)
        gone = command("git push {} {}", url, f":{HEADS}{branch}")
        tell = partial(_tell_at, executor, seen, (peer, known.topic))
        if not _is_from_here(executor, peer, item, tip) and (became := _took_in(executor, seen, peer, item)):
            text = f"our {branch} at {peer} is not what we sent: {tip[:8]} stands there; {became}, {item.head[:8]}"
            plain = f"nothing of ours is missing there; where nobody needs {tip[:8]}, that branch can be deleted"
            forward[f"{peer}:{known.topic}"] = tell(text, f"{plain}: {gone}", plain)
            continue
        brings = bring_pinned(executor.hub.git, peer, OUT, known.topic, item.head)
        back = ", then ".join([*brings, push_step(url, item.head, f"{HEADS}{branch}", tip)])
        ends = ends_it(gone, peer, known.topic)
        if may_be_ours(executor, seen, peer, item, tip):
            if item.state == "deleting":
                continue  # the outbox tells why it waits
            if not _is_from_here(executor, peer, item, tip):
                look = command("git fetch {} {}", url, f"{HEADS}{branch}")
                text = f"our {branch} at {peer} is at {tip[:8]}, upon {item.head[:8]}, which we sent"
                again = command("cn propose {} {}", known.topic, peer)
                plain = f"{again}, where it is checked out, tells how to go on from it"
                takes = f"{look} and 'git rebase FETCH_HEAD', where {known.topic} is checked out, go on from it, "
                remedy = f"{takes}then {again} says that it is ours; "
                remedy += f"{back} brings back what we sent, and {ends}"
                forward[f"{peer}:{known.topic}"] = tell(text, remedy, plain)
            elif _is_back(executor, peer, item, tip):
                text = f"our {branch} at {peer} is back at {tip[:8]}, which we sent before {item.head[:8]}"
                plain = f"ask {peer}, by another way"
                remedy = steps_back(back, gone, peer, item)
                forward[f"{peer}:{known.topic}"] = tell(text, remedy, plain)
                continue
            pinned = executor.settings.peers[peer].key
            if not executor.memory.told(LEFT, peer, known.topic, tip, pinned):  # it stays so until somebody answers
                moved.append((peer, known.topic))
            continue
        text = f"our {branch} at {peer} is not what we sent: {tip[:8]} stands there, and cn saw nobody here "
        text += f"make it; ours is {item.head[:8]}"
        says = f"if somebody here pushed the other, {keep_step(executor.hub.root, tip)} says so"
        plain = f"{says}, also after it was answered; else ask {peer}, by another way"
        is_proposal = item.get("kind") in ("", PROPOSAL) and item.state in THERE
        if is_proposal and (merged := _is_in_main(executor, seen, peer, item._replace(head=tip))):
            remedy = f"{merged}: {says}, and it is merged; else {sends_anew(peer, item)}; {ends}"
        else:
            remedy = f"{says}, also after it was answered"
            remedy += f", and so does {proposes(peer, item)}, where that is checked out" if is_proposal else ""
            remedy += f"; else {back} brings ours back, and {ends}"
        found[f"{peer}:{known.topic}"] = tell(text, remedy, plain)
    conditions = executor.memory.conditions
    for kind, there in ((REPLACED, found), (FORWARD, forward)):  # where nobody looked it stays as it was
        for name in conditions.names(kind):
            peer, before = Name(name.partition(":")[0]), conditions.get(kind, name)
            if before is not None and peer in executor.settings.peers and peer not in seen.saw[OUT]:
                there.setdefault(name, before)
    conditions.replace(FORWARD, forward)
    over = [name.partition(":") for name in conditions.names(REPLACED) if name not in found]
    conditions.tell(REPLACED, found, executor.notes)
    return list(dict.fromkeys([*moved, *((Name(peer), topic) for peer, _, topic in over)]))


def _took_in(executor: Executor, seen: Observation, peer: Name, item: Item) -> str:
    """That the peer's main holds a proposal of ours, in whose place another's commit stands: it is merged. Else empty.

    Its branch stays: it is another's now.
    """
    if item.get("kind") not in ("", PROPOSAL):
        return ""
    if not (became := _is_in_main(executor, seen, peer, item) or _has_all(executor, seen, peer, item)):
        return ""
    if item.state in _ANSWERS and (item.get("status") != "merged" or item.get("unproven")):
        executor.perform(plan_proven(peer, item, "merged", executor.now, final=False))
        executor.notes.done(f"{item.get('branch')} is merged, by {peer}'s main", source=f"{peer}/{item.topic}")
    return became


_Sent = dict[str, list[Event]]
"""The topics under which we had a commit, oldest first, with what the ledger says of it there."""


def _read_before(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> dict[Name, dict[Oid, _Sent]]:
    """What the ledger has of the tips of branches of ours that are not open, by one look at each peer's history."""
    tips: dict[Name, list[Oid]] = {}
    for peer, topic in keys:
        if executor.item(peer, OUT, topic) is None:
            tips.setdefault(peer, []).append(seen.listed[OUT][peer, topic][1])
    found: dict[Name, dict[Oid, _Sent]] = {}
    for peer, theirs in tips.items():
        found[peer] = {}
        for tip, events in executor.snapshot.events_at_heads(peer, OUT, theirs).items():
            sent = found[peer].setdefault(tip, {})
            for event in events:
                sent.setdefault(event.topic, []).append(event)
    return found


def _read_elsewhere(
    executor: Executor, seen: Observation, before: Mapping[Name, Mapping[Oid, _Sent]]
) -> dict[tuple[Name, Oid, str], Name]:
    """Tips and topics at a peer that the ledger has as sent to another: one of the same hub, or that is none now."""
    peers, found = executor.settings.peers, dict[tuple[Name, Oid, str], Name]()
    for peer in before:
        tips = [tip for (name, _), (_, tip) in seen.listed[OUT].items() if name == peer and tip not in before[peer]]
        others = (n for n in executor.snapshot.ledgers if n != peer and (n not in peers or _is_same(peers, n, peer)))
        for other in others if tips else ():
            for tip, events in executor.snapshot.events_at_heads(other, OUT, tips).items():
                found |= {(peer, tip, event.topic): other for event in events if event.kind == "queued"}
    return found


def _is_same(peers: Mapping[Name, Peer], one: Name, other: Name) -> bool:
    return peers[one].hub == peers[other].hub


def _read_came(executor: Executor, keys: Sequence[ThreadKey]) -> dict[ThreadKey, list[Event]]:
    """What the ledger has of peers' branches on the topics of ours that are not open, by one look at each history."""
    topics: dict[Name, list[str]] = {}
    for peer, topic in keys:
        if executor.item(peer, OUT, topic) is None:
            topics.setdefault(peer, []).append(topic)
    found = {peer: executor.snapshot.events_of_topics(peer, IN, some) for peer, some in topics.items()}
    return {(peer, topic): events for peer in found for topic, events in found[peer].items()}


def _leave_theirs(
    executor: Executor, seen: Observation, key: ThreadKey, mine: Sequence[Event], came: Sequence[Event]
) -> bool:
    """Is what lies where ours would lie the peer's own, made by another route than ours? It is neither adopted nor
    deleted. ``mine`` and ``came`` are what the ledger has of it as ours, at this head, and as the peer's.
    """
    if any(event.kind == "queued" for event in mine):
        return False
    (peer, topic), (branch, tip) = key, seen.listed[OUT][key]
    ours, other = (MAILBOX, PICKUP) if executor.settings.peers[peer].deliver == MAILBOX else (PICKUP, MAILBOX)
    text = f"{branch} at {peer} is {peer}'s, made by the route {other}: it is left alone"
    if any(event.fields.get("branch") == branch for event in came):
        executor.notes.info(text, source=f"{peer}/{topic}")
        return True
    theirs = read_theirs(executor, seen, executor.settings.peers[peer], OUT, topic, tip)
    if not any(e.fields.get("branch") == branch for e in theirs) and not _is_from(executor, peer, tip):
        return False
    text += f"; here deliver: for {peer} is {ours}"
    remedy = f"both hubs have the same deliver: for each other in {PEERS}; with {other} here too, it comes in"
    if route_told(executor, seen, executor.settings.peers[peer]) == ours:  # it was on its way when both changed that
        text += f", and there too, but {peer}'s main does not show that it made it"
        remedy = f"it comes in when that shows it; or with {other} here: then {ours} can be written again"
    executor.notes.failed(text, remedy, source=f"{peer}/{topic}")
    executor.memory.conditions.set(THEIRS, text, remedy, name=head_name(key, tip))
    return True


def _is_from(executor: Executor, peer: Name, tip: Oid) -> bool:
    """Is it a message of that peer to this hub, by what it says?"""
    try:
        message = parse_message(_message_at(executor, tip) or b"")
    except MessageRefused:
        return False
    return message.sender == peer and message.to in executor.settings.names_for(peer)


def _forget_theirs(executor: Executor, seen: Observation) -> None:
    """What a peer made by another route is shown until it is not listed there any more, or comes in."""
    for name in executor.memory.conditions.names(THEIRS):
        branch, _, head = name.rpartition(" ")
        peer, _, topic = branch.partition("/")
        _, tip = seen.listed[OUT].get((Name(peer), topic), (None, None))
        if peer not in executor.settings.peers or (Name(peer) in seen.saw[OUT] and tip != head):
            executor.memory.conditions.clear(THEIRS, name)


def _record_found(
    executor: Executor,
    seen: Observation,
    key: ThreadKey,
    branch: Branch,
    tip: Oid,
    known: _Sent,
    copied: _Copied | None,
) -> None:
    """A branch of ours that is not open: one that we sent, one that was pushed by hand, or neither."""
    peer, topic = key
    source, settings = f"{peer}/{topic}", executor.settings
    mine = known.get(topic, [])
    sent = [event for event in mine if event.kind == "queued"]
    if sum(event.kind == "deleted" and event.head == tip for event in mine) >= _MOST_DELETED:
        text = f"{branch} at {peer} comes back whenever it is deleted; cn did that {_MOST_DELETED} times, and leaves it"
        executor.notes.info(f"{text} there: whoever keeps that host can delete it", source=source)
    elif any(event.kind in ("deleting", "deleted") for event in mine):
        executor.perform(plan_deleted_again(peer, branch, mine, executor.now))
        told = next((f" ({e.fields['status']})" for e in reversed(mine) if e.fields.get("status")), "")
        text = f"{branch} is at {peer} again; it was deleted before{told}, and is again: only a new commit is looked at"
        executor.notes.info(text, source=source)
    elif sent:  # an old listing of a slow mirror did not show it
        executor.perform(plan_seen_again(peer, branch, sent[-1], executor.now))
        executor.notes.done(f"{branch} is at {peer} again", source=source)
    elif (known and topic not in known) or copied is not None:
        # Not ours to clean up: whoever writes the mailbox may have put it there.
        if copied is None or not copied.withdrawn:  # else it is told as long as it is there
            first = copied.first if copied is not None else next(iter(known))
            what = "the very commit of" if known else "the same signed words as"
            text = f"{branch} at {_place_of(executor, peer, branch)} is {what} our {peer}:{one_line(first, 80)}, pushed"
            executor.notes.info(f"{text} under another name; cn did not do that, and leaves it there", source=source)
    elif _was_taken(executor, peer, topic):
        text = f"{branch} at {peer} is not ours: somebody else made it at {tip[:8]}, and ours went under another name"
        executor.notes.info(text, source=source)
    elif _is_message(executor, tip):  # whoever may write there could speak for us
        url = settings.delivery_place(executor.hub, settings.peers[peer], branch)
        push = command("git push {} {}", url, f":{HEADS}{branch}")
        text = (
            f"{branch} at {peer} is a message in our name at {tip[:8]} that cn did not send by what main records: it "
            "is not adopted. Another clone of this hub may have sent it, whose records origin lost or has not: they "
            f"come once that clone is in step with origin. Where no clone and nobody here did, {push} deletes it"
        )
        executor.notes.info(text, source=source)
    else:
        base, subject = _what_it_is(executor, seen, peer, tip)
        executor.perform(plan_adopted(peer, branch, tip, executor.now, base, subject))
        executor.notes.done(f"adopted {branch} at {peer}: pushed by hand", source=source)


def _place_of(executor: Executor, peer: Name, branch: str) -> str:
    """Where a branch of ours lies, as it is told."""
    return executor.settings.mailbox or "this hub" if lies_at_mailbox(peer, branch) else peer


class _Copied(NamedTuple):
    """By which topic we sent what stands under another name, and whether we took it back."""

    first: str
    withdrawn: bool


def _read_copies(executor: Executor, seen: Observation) -> dict[ThreadKey, _Copied]:
    """Branches under our name that cn did not send, and are a commit that we sent under another name, or the same
    signed words in another one.
    """
    strange: dict[Name, list[tuple[str, Oid]]] = {}
    for (peer, topic), (_, tip) in seen.listed[OUT].items():
        there = (peer, topic) not in seen.missing[OUT] and (peer, topic) not in seen.later
        item = executor.item(peer, OUT, topic)
        if there and (item is None or (item.head == tip and _is_adopted(executor, peer, topic))):
            strange.setdefault(peer, []).append((topic, tip))
    found: dict[ThreadKey, _Copied] = {}
    for peer, tips in strange.items():
        sent = executor.snapshot.events_with(peer, OUT, (f" {OUT} queued ", f"{WITHDRAWN}="))
        commits = read_commits(executor.hub.git, list(dict.fromkeys(tip for _, tip in tips))) if sent else {}
        said = {tip: signed_digest(commit) for tip, commit in commits.items()}
        ours = [event.head for event in sent if event.fields.get("kind") == PROPOSAL and any(said.values())]
        words = {
            head: signed_digest(commit)
            for head, commit in read_commits(executor.hub.git, list(dict.fromkeys(ours))).items()
        }
        for topic, tip in tips:
            same = [e for e in sent if e.head == tip or (said.get(tip) and words.get(e.head) == said[tip])]
            if same and not any(event.topic == topic for event in same):
                first = next((event.topic for event in same if event.fields.get(WITHDRAWN)), "")
                found[peer, topic] = _Copied(first or same[0].topic, bool(first))
    return found


def _tell_copies(executor: Executor, seen: Observation, copies: Mapping[ThreadKey, _Copied]) -> None:
    """Tell of what we took back and what stands there under another name, as long as it does: who decides there may
    take it for ours.
    """
    found, conditions = dict[str, Condition](), executor.memory.conditions
    for (peer, topic), copied in copies.items():
        if not copied.withdrawn:
            continue
        branch, tip = seen.listed[OUT][peer, topic]
        url = executor.settings.delivery_place(executor.hub, executor.settings.peers[peer], branch)
        text = f"{branch} at {_place_of(executor, peer, branch)} is what we took back as "
        text += f"{peer}:{one_line(copied.first, 80)}, at {tip[:8]}, under another name: {peer} may take it for ours"
        plain = f"where nobody here wants it there, ask {peer}, by another way, to take nothing of it"
        deletes = command("git push {} {}", url, f":{HEADS}{branch}")
        if executor.item(peer, OUT, topic) is not None:
            plain = deletes = command("cn withdraw {}", f"{peer}:{topic}")
            plain = f"where nobody here wants it there, {deletes} deletes it"
        remedy = f"where nobody here wants it there, {deletes} deletes it"
        found[head_name((peer, topic), tip)] = _tell_at(executor, seen, (peer, topic), text, remedy, plain)
    told = conditions.names(COPIED)
    for name in told:  # where nobody looked it stays as it was
        peer, before = Name(name.partition("/")[0]), conditions.get(COPIED, name)
        if before is not None and peer in executor.settings.peers and peer not in seen.saw[OUT]:
            found.setdefault(name, before)
    conditions.replace(COPIED, found)
    for name, one in found.items():
        if name not in told:
            executor.notes.info(f"{one.text}; {one.remedy}", source=one.source)


def _what_it_is(executor: Executor, seen: Observation, peer: Name, tip: Oid) -> tuple[str, str]:
    """Where a branch that was pushed by hand leaves the peer's main, and its title; empty: not known."""
    git, history = executor.hub.git, None
    if read_info(git, [tip]) != [None] and peer in fetch_mains(executor, seen, [peer]):
        history = read_histories(git, seen.mains[peer][1], [tip], Patience()).get(tip)
    others = [item.head for item in executor.open(peer, OUT)]
    return (history.base or "", mask_line(first_title(history, others), executor.settings)) if history else ("", "")


def _is_message(executor: Executor, tip: Oid) -> bool:
    """Is it what only cn makes: a commit without a parent that holds a message?"""
    return _message_at(executor, tip) is not None


def _message_at(executor: Executor, tip: Oid) -> bytes | None:
    git = executor.hub.git
    commits = read_commits(git, [tip]) if read_info(git, [tip]) != [None] else {}
    return read_messages(git, commits, executor.settings.config.limits.thread_bytes).get(tip)


def _was_taken(executor: Executor, peer: Name, topic: str) -> bool:
    """Did a message of ours find this name taken, or the one above it, beside which git keeps none below?"""
    names = topic.split("/")
    above = ("/".join(names[:many]) for many in range(len(names), 0, -1))
    return any(_is_taken(executor.snapshot.events_of_topic(peer, OUT, name)) for name in above)


def _is_taken(past: Sequence[Event]) -> bool:
    return bool(past) and last_state(past).kind == "deleted" and "instead" in last_state(past).fields


def _record_gone(executor: Executor, seen: Observation) -> None:
    """Branches of ours that are not listed any more, but for those whose deletion is on its way."""
    pinned = PinnedTopics(executor, OUT)
    for peer, component, _ in seen.vanished(OUT):
        topic = pinned.of(peer, component)
        if topic is None or (peer, topic) in seen.away:
            continue
        item = executor.item(peer, OUT, topic)  # this very run may have queued its deletion
        if item is None:
            executor.perform(Plan(f"{peer}/{topic}", (Pin(peer, OUT, topic, None),)))
        # What the outbox holds is on its way: its delivery sets or drops the pin.
        elif item.state not in ("queued", "deleting"):
            _tell_gone(executor, seen, peer, item)
        elif item.state == "deleting" and not _deletion_waits(executor, peer, topic):
            executor.perform(plan_ours_gone(peer, item, executor.now, "deleted"))
            executor.notes.info(f"our {item.get('branch')} is gone at {peer}", source=f"{peer}/{topic}")


def _record_never_listed(executor: Executor, seen: Observation) -> None:
    """Branches of ours that another clone of this hub has sent, and that were gone before this one listed them.

    Told after a day and some looks: the peer may have been listed before the other clone sent it, or by a mirror that
    lags behind.
    """
    looks = executor.memory.section(UNLISTED)
    before = dict(looks)
    looks.clear()
    for peer, known in executor.snapshot.outbound():
        key = peer, known.topic
        if known.state not in THERE or key in seen.listed[OUT] or key in seen.away:
            continue
        if (peer, OUT, encode(known.topic)) in seen.pins or executor.item(peer, OUT, known.topic) != known:
            continue
        name = head_name(key, known.head)
        if peer not in seen.saw[OUT]:
            looks.update({name: before[name]} if name in before else {})
            continue
        if is_missed_for_a_day(looks, name, str(before.get(name, "")), executor.now):
            _tell_gone(executor, seen, peer, known)


def _deletion_waits(executor: Executor, peer: Name, topic: str) -> bool:
    """Is it in the outbox, or put there by this very run? A person may have taken it out."""
    known = executor.snapshot.item(peer, OUT, topic)
    if known is None or known.state != "deleting":
        return True
    return any(is_deletion_of(entry, peer, topic) for _, entry in executor.snapshot.outbox()[0])


def _tell_gone(executor: Executor, seen: Observation, peer: Name, item: Item) -> None:
    """A branch of ours is not there any more, and cn did not delete it. A message that nobody answered, nor has looked
    at, is lost.
    """
    is_here = read_info(executor.hub.git, [item.head]) != [None]
    executor.perform(plan_ours_gone(peer, item, executor.now, is_here=is_here))
    settings, source = executor.settings, f"{peer}/{item.topic}"
    proposal = item.get("kind") in ("", PROPOSAL)
    pickup = lies_at_mailbox(peer, item.get("branch"))
    text = f"our {item.get('branch')} is gone at {_place_of(executor, peer, item.get('branch'))}"
    waited = item.state in _ANSWERS and item.get("status") not in FINAL
    about = topic_of(Branch(item.get("about"))) if item.get("about") else ""
    if not waited or peer not in settings.peers or (proposal and item.get("status") in TO_MEND):
        executor.notes.info(text, source=source)
    elif about and (peer, about) not in seen.listed[IN]:
        executor.notes.info(f"{text}, with what it was about", source=source)
    elif _has_no_cn(executor, seen, settings.peers[peer]):
        executor.notes.info(f"{text}: {peer} has no cn, and deletes what it has read", source=source)
    elif became := (_what_became if not proposal else _is_in_main)(executor, seen, peer, item):
        executor.notes.info(f"{text}; {became}", source=source)
    else:
        anew = not pickup and lay_in_another(executor, settings.peers[peer], item.since)
        text = f"{text}{_ANEW}" if anew else f"{text}, and it did not say what became of it"
        told = _remedy_of_gone(
            executor, seen, (peer, item.topic), item.head, Branch(item.get("branch")), proposal, anew
        )
        if proposal:  # its creator may have deleted it by hand
            executor.notes.info(f"{text}; {told.remedy}", source=source)
        else:
            executor.notes.failed(text, told.remedy, source=source)
        kind, name = TAKEN_DOWN if proposal else LOST, head_name((peer, item.topic), item.head)
        executor.memory.conditions.set(kind, text, told.remedy, name=name, plain=told.plain)


_ANEW = ", with the repository that was there before another one was accepted"


def _remedy_of_gone(
    executor: Executor, seen: Observation, key: ThreadKey, head: Oid, branch: Branch, proposal: bool, anew: bool
) -> Condition:
    """What may be done about a branch of ours that is gone, with and without the URL where the peer is now.

    ``anew``: it lay in another repository than the one that is there now, and no proposal from that fits into this.
    """
    (peer, topic), settings = key, executor.settings
    url = settings.delivery_place(executor.hub, settings.peers[peer], branch)
    push = ", then ".join(
        [*bring_pinned(executor.hub.git, peer, OUT, topic, head), push_step(url, head, HEADS + branch)]
    )
    back = command("cn withdraw {}", f"{peer}:{topic}")
    why = "the host lost it or hides it, somebody deleted it there, or its hub had another URL when it went: "
    if anew:
        why = f"propose it anew, in a clone of what is there now, or ask {peer}" if proposal else f"ask {peer}"
    else:
        why += f"ask {peer}"
    over = (
        f"; if somebody here took it back, {back} says so" if not anew else f"; {back} says that it needs nothing more"
    )
    brings = not (proposal and anew) and (not proposal or _is_published(executor, seen, peer, head))
    plain = f"{why}{over}"
    if not brings or _is_called_otherwise(executor, seen, peer):
        return Condition("", plain, plain=plain)
    way, pickup = _in_its_way(seen, peer, branch), lies_at_mailbox(peer, branch)
    if way and pickup:
        push = ", then ".join([*(command("git push {} {}", url, f":{ref}") for ref in way), push])
    if way:
        room = f"{some_of(way)} there {'leaves' if len(way) == 1 else 'leave'} no room for it"
        once = "where nobody here made that" if pickup else f"once {peer} has deleted that"
        return Condition("", f"{why}; {room}: {once}, {push} brings it there{over}", plain=plain)
    return Condition("", f"{why}, or {push} brings it there{over}", plain=plain)


_MOST_IN_THE_WAY = 5


def _in_its_way(seen: Observation, peer: Name, branch: Branch) -> list[str]:
    """The first refs where a branch of ours lay beside which git keeps none of its name (gitrepository-layout(5),
    "refs"): those below it, and one that is called as a part of its name.
    """
    listing = seen.listings.get(MAILBOX_KEY, seen.heads) if lies_at_mailbox(peer, branch) else seen.listings.get(peer)
    names = [name for name in listing or () if f"{name}/".startswith(f"{branch}/") or branch.startswith(f"{name}/")]
    return [HEADS + name for name in sorted(names)[:_MOST_IN_THE_WAY]]


def _tell_at(executor: Executor, seen: Observation, key: ThreadKey, text: str, remedy: str, plain: str) -> Condition:
    """What is told of a branch of ours, with the remedy that names no URL where the hub there is another's."""
    peer, topic = key
    return Condition(text, plain if _is_called_otherwise(executor, seen, peer) else remedy, f"{peer}/{topic}", plain)


def _is_called_otherwise(executor: Executor, seen: Observation, peer: Name) -> bool:
    """Is the hub at a peer's URL called otherwise, as far as this run knows?"""
    if not seen.fetched_mains.get(peer):
        return executor.memory.conditions.get(MISNAMED, peer) is not None
    return tell_other_name(executor, executor.settings.peers[peer], seen.mains[peer][1]) is not None


def _renew_gone(executor: Executor, seen: Observation) -> None:
    """Where a peer has another URL than when a loss was told, its step names that one, as soon as the peer answers."""
    conditions, settings = executor.memory.conditions, executor.settings
    for kind, name in [(one, name) for one in (LOST, TAKEN_DOWN) for name in conditions.names(one)]:
        key, _, head = name.rpartition(" ")
        whose, _, topic = key.partition("/")
        peer, told = Name(whose), conditions.get(kind, name)
        if told is None or peer not in settings.peers or peer not in seen.mains or peer in seen.strange:
            continue
        if not conditions.names_no_url(kind, name):
            continue
        past = executor.snapshot.events_of_topic(peer, OUT, topic)
        branch = next((e.fields["branch"] for e in reversed(past) if e.head == head and e.fields.get("branch")), "")
        if branch and not lies_at_mailbox(peer, branch):
            proposal, anew = kind == TAKEN_DOWN, told.text.endswith(_ANEW)
            new = _remedy_of_gone(executor, seen, (peer, topic), Oid(head), Branch(branch), proposal, anew)
            conditions.set(kind, told.text, new.remedy, name=name, plain=new.plain)


def _is_published(executor: Executor, seen: Observation, peer: Name, head: Oid) -> bool:
    """May what is in the history of a branch of ours be pushed to the peer's host, as far as its main tells? A mailbox
    of its own has a main without cn's folders, and keeps them from all who read it.
    """
    if peer not in fetch_mains(executor, seen, [peer]):
        return True
    return not private_in(executor.hub.git, [head], [seen.mains[peer][1]])


def _has_no_cn(executor: Executor, seen: Observation, peer: Peer) -> bool:
    """Does a peer read and delete our answers by hand? No word of cn's ever came from it, and its main is no hub's."""
    if peer.name not in seen.mains:
        return has_box_alone(executor, peer)
    if not works_by_hand(executor, peer.name) or peer.name not in fetch_mains(executor, seen, [peer.name]):
        return False
    return read_info(executor.hub.git, [f"{seen.mains[peer.name][1]}:{CONFIG}"]) == [None]


def _what_became(executor: Executor, seen: Observation, peer: Name, item: Item) -> str:
    """What became of a message of ours there, by the peer's main and by its answer; empty: not known."""
    theirs = read_theirs(executor, seen, executor.settings.peers[peer], IN, item.topic, item.head)
    kinds = {event.kind for event in theirs}
    if kinds & {"received", "refreshed", "noticed", "repeated"}:
        return "it had come in there"
    return "it had been refused there" if "refused" in kinds | {item.get("status")} else ""


def _is_in_main(executor: Executor, seen: Observation, peer: Name, item: Item) -> str:
    """Does the peer's main hold a proposal of ours, as where its host deletes what it merged? Empty: not known."""
    if peer not in fetch_mains(executor, seen, [peer]):
        return ""
    main, commit = seen.mains[peer]
    return f"{peer}'s {main} holds it" if held(executor.hub.git, commit, [item.head]) else ""


def _has_all(executor: Executor, seen: Observation, peer: Name, item: Item) -> str:
    """Has the peer's main all that a proposal of ours changes, under other commits? Empty: not known."""
    git = executor.hub.git
    if peer not in fetch_mains(executor, seen, [peer]) or read_info(git, [item.head]) == [None]:
        return ""
    name, main = seen.mains[peer]
    try:
        merged = merge_trees(git, main, item.head, max_out=OUTPUT_BYTES)
    except GitError:
        return ""  # no history in common, or more than it takes
    (now,) = read_info(git, [f"{main}^{{tree}}"])
    return f"{peer}'s {name} has all that it changes" if now is not None and merged.tree == now.oid else ""


def forget_lost(run: Run | Executor) -> None:
    """What was lost is shown until it is back, its peer says after all what became of it, somebody says that it was
    taken back, in whichever clone, its peer is none any more, or it is old; a proposal also until another one is made
    by that name. What was refused when it was over is shown until something else is said by its name.
    """
    conditions, settings = run.memory.conditions, run.settings
    for kind, name in [(one, name) for one in (LOST, TAKEN_DOWN, UNHEARD) for name in conditions.names(one)]:
        key, _, head = name.rpartition(" ")
        peer, _, topic = key.partition("/")
        old = is_old(conditions.since(kind, name), run.now, settings.config.notice_days)
        past = run.snapshot.events_of_topic(Name(peer), OUT, topic) if peer in settings.peers and not old else []
        last = last_state(past) if past else None
        is_over = last is not None and (last.kind, last.head) == ("deleted", head)
        is_other = kind == TAKEN_DOWN and last is not None and last.head != head
        told = last_answer(past) if last is not None and (last.kind, last.head) == ("gone", head) else {}
        is_told = kind != UNHEARD and told.get("status") in FINAL and not told.get("unproven")
        if last is None or is_other or is_told or is_over is (kind != UNHEARD):
            conditions.clear(kind, name)


def take_back_answers(executor: Executor, seen: Observation) -> None:
    """Delete our answers about branches that are gone: at once where the peer's main shows that it has the answer.

    Else after a day and some looks, at each of which the branch was not listed: one look may be at an older state, and
    an answer that nobody has read would be lost.
    """
    looks = executor.memory.section("absent")
    before = dict(looks)
    looks.clear()
    for peer, known in executor.snapshot.outbound():
        item = executor.item(peer, OUT, known.topic)  # this very run may have ended it
        if item is None or not item.get("about") or item.state not in _ANSWERS or peer not in executor.settings.peers:
            continue
        if item.get("kind") != NOTICE and item.get("status") in TO_MEND and not item.get(AGAIN):
            continue  # nobody took what it says: it waits for somebody here
        about, key = topic_of(Branch(item.get("about"))), f"{peer}/{item.topic} {item.head}"
        if (peer, about) in seen.listed[IN]:
            continue
        if peer not in seen.saw[IN]:
            looks.update({key: before[key]} if key in before else {})
            continue
        reason = f"{peer}/{about} is gone"
        if not _is_received(executor, seen, peer, item):
            if not is_missed_for_a_day(looks, key, str(before.get(key, "")), executor.now):
                continue
            reason += " for a day"
        executor.perform(Plan(reason, (clean_up(peer, item, executor.now, reason, f"{peer}/{about}"),)))


def _is_received(executor: Executor, seen: Observation, peer: Name, item: Item) -> bool:
    """Does the peer's main say that our message came in there? One that did not is looked at again when it moved."""
    if peer not in seen.mains:
        return False
    looked = ("received", peer, item.topic, item.head, seen.mains[peer][1])
    if executor.memory.told_before(*looked):
        return False
    received = bool(read_theirs(executor, seen, executor.settings.peers[peer], IN, item.topic, item.head))
    if not received and seen.fetched_mains.get(peer):
        executor.memory.told(*looked)
    return received


def record_proven(executor: Executor, seen: Observation) -> None:
    """What was only claimed: look again when the peer's main has changed."""
    for peer_name, known in executor.snapshot.outbound():
        peer = executor.settings.peers.get(peer_name)
        item = executor.item(peer_name, OUT, known.topic)  # this very run may have ended it
        if peer is None or item is None or not item.get("unproven") or item.state != "answered":
            continue
        if peer_name not in seen.mains:
            continue
        main = seen.mains[peer_name][1]
        branch, status, merge = Branch(item.get("branch")), item.get("status"), item.get("merge")
        looked = ("claim", peer_name, item.topic, item.head, main)
        if executor.memory.told_before(*looked) or peer_name not in fetch_mains(executor, seen, [peer_name]):
            text = f"{peer_name} claims {branch} is {status}; unproven: {item.get('unproven')}"
            executor.notes.info(text, told_before=True)
            continue
        executor.memory.told(*looked)
        shown = False
        for event in read_theirs(executor, seen, peer, IN, topic_of(branch), item.head):
            shown = shown or event.kind in ("noticed", "decided")
            if event.kind == "noticed":
                status = ACKED
            if event.kind == "decided":  # whatever was claimed last: a forged claim hides no true one
                status, merge = event.fields.get("status", ""), event.fields.get("merge", "")
        about = About(branch, item.head, status, Oid(merge) if is_oid(merge) else None)
        said = _came_of(executor, seen, peer, item, status) or _claim_of(executor, peer_name, item)
        # Of a reply the words count: these very ones must have come.
        shown = shown and status not in ("merged", "replied")
        if shown or check_claim(executor, seen, peer, about, "unverified", said) is None:
            executor.perform(plan_proven(peer_name, item, status, executor.now, final=about.final))
            executor.notes.done(f"{branch} is {status}, by {peer_name}'s main", source=f"{peer_name}/{item.topic}")


def _came_of(executor: Executor, seen: Observation, peer: Peer, item: Item, status: str) -> tuple[str, Oid] | None:
    """Topic and commit of a message that came in here, and that the peer's main records as sent, with that status."""
    sent = {event.head: event.topic for event in sent_about(executor, seen, peer, item.head, status)}
    came = executor.snapshot.events_at_heads(peer.name, IN, list(sent))
    heads = [head for head, events in came.items() if any(event.kind != "refused" for event in events)]
    return (sent[heads[-1]], heads[-1]) if heads else None


def _claim_of(executor: Executor, peer: Name, item: Item) -> tuple[str, Oid] | None:
    """Topic and commit of the message that says what became of a branch of ours."""
    answer = item.get("answer")
    events = executor.snapshot.events_at_heads(peer, IN, [Oid(answer)]).get(Oid(answer), []) if is_oid(answer) else []
    return (events[-1].topic, Oid(answer)) if events else None


def _said_of_ended(
    executor: Executor, peer: Name, about: About, ours: Item | None, past: Sequence[Event]
) -> Mapping[str, str] | None:
    """What was answered about a branch of ours that is over, or about to be, at the head that it had last; None: the
    message is about no such one.
    """
    if ours is not None:
        return ours.fields if (ours.state, ours.head) == ("deleting", about.head) else None
    life = [*(sent_lives(past)[-1] if past else ()), *executor.recorded(peer, OUT, topic_of(about.branch))]
    return last_answer(life) if life and not _is_taken(life) and last_state(life).head == about.head else None


_OVER = "it is cleaned up, or about to be"


def apply_notice(
    executor: Executor, seen: Observation, arrival: Arrival, about: About, past: Sequence[Event]
) -> Arrival:
    """Perform what a message says became of a branch of ours, as far as it is authentic and proven.

    ``past`` is what the ledger has of that branch. Returns the arrival, which says whether it was left.
    """
    peer = executor.settings.peers[arrival.peer]
    topic = topic_of(about.branch)
    ours = executor.item(peer.name, OUT, topic)
    expected = join_branch(executor.settings.outbound_prefix(peer), Topic(topic))
    by_record = any(event.fields.get("branch") == about.branch for event in past)
    if by_record or executor.settings.is_outbound(peer, about.branch):  # by a name that this hub had, or another route
        expected = about.branch
    listed = seen.listed[OUT].get((peer.name, topic))
    is_ours = about.branch == expected and (ours is not None or listed is not None)
    said = arrival.topic, arrival.head
    known = ours is not None and ours.head == about.head
    deleted = about.branch == expected and not known and any(e.head == about.head for e in past)
    proof = check_claim(executor, seen, peer, about, arrival.signature, said) if is_ours or deleted else None
    taken_name = ours is None and _is_taken(past)
    copied = _read_copies(executor, seen).get((peer.name, topic)) if ours is None and listed is not None else None
    taken_back = copied is not None and copied.withdrawn  # told as long as it is there
    strange = ours is not None and listed is not None and _is_strange(executor, seen, peer.name, ours, listed[1], about)
    if strange and ours is not None and proof is None and about.status == "merged":
        strange = not _is_part_of(executor, seen, peer.name, ours, about.head)
    tip = listed[1] if listed and not taken_name and not strange and not taken_back else None
    arrival = arrival._replace(left=left_head(about, ours, expected, tip, deleted=deleted))
    before = _said_of_ended(executor, peer.name, about, ours, past) if about.branch == expected else None
    plan = plan_notice(arrival, ours, expected, tip, proof, deleted=deleted, before=before)
    executor.perform(plan)
    source = f"{peer.name}/{topic}"
    reason = f": {in_quotes(about.reason)}" if about.reason else ""
    text = f"{peer.name} says {about.branch} is {about.status}"
    claimed = f" (claimed, unproven: {proof.reason})" if proof is not None else ""
    taken = any(isinstance(e, Record) and e.event.kind == "answered" for e in plan.effects)
    if taken_name and not deleted:  # its creator is not who is told here
        text = f"{text} at {about.head[:8]}; that is not ours: somebody else made it, and ours went under another name"
        executor.notes.info(text, source=source)
    elif taken and ours is not None and not known:
        text = f"{text}{reason}; that is about {about.head[:8]}, and ours was at {ours.head[:8]}: somebody moved it"
        executor.notes.info(text, source=source)
    elif deleted or (about.branch == expected and ours and (ours.state, ours.head) == ("deleting", about.head)):
        where = f"that was at {about.head[:8]}, and it has moved since" if deleted and ours is not None else _OVER
        unheard = before is not None and before.get("status") not in FINAL and about.status in TO_MEND
        if unheard and _was_a_message(executor, peer.name, topic, past):
            _tell_unheard(executor, peer.name, topic, about, f"{text}{claimed}{reason}; {where}")
        else:
            executor.notes.info(f"{text}{claimed}{reason}; {where}", source=source)
            if proof is None and about.status not in TO_MEND:
                said_of = (UNHEARD, LOST, TAKEN_DOWN) if about.status in FINAL else (UNHEARD,)
                for kind in said_of:
                    executor.memory.conditions.clear(kind, head_name((peer.name, topic), about.head))
    elif taken and proof is None:
        executor.notes.done(f"{text}{reason}", source=source)
    elif taken:
        executor.notes.info(f"{text}{claimed}{reason}", source=source)
    elif strange and ours is not None and not known and about.branch == expected:
        text = f"{text} at {about.head[:8]}{reason}; ours is {ours.head[:8]}, and nobody here made the other"
        executor.notes.info(f"{text}: nothing follows", source=source)
    elif known and proof is not None and about.branch == expected:
        executor.notes.info(f"{text}{claimed}{reason}; what was said before stands", source=source)
    else:
        executor.notes.info(f"{text}{reason}; but it names no branch and head of ours: nothing follows", source=source)
    return arrival


def _is_strange(executor: Executor, seen: Observation, peer: Name, ours: Item, tip: Oid, about: About) -> bool:
    """Is what stands in the place of what we sent no state of it that an answer makes ours?

    What we sent before it is not: nobody here took back what is missing there. A commit upon it may be a colleague's,
    but no answer short of an end says so of one without our key, where we sign: a refusal for that least of all.
    """
    if tip == ours.head:
        return False
    if _is_back(executor, peer, ours, tip) or not may_be_ours(executor, seen, peer, ours, tip):
        return True
    if about.status not in NOT_FINAL or _is_from_here(executor, peer, ours, tip):
        return False
    return bool(lacks_our_key(executor.hub, tip))


def _is_part_of(executor: Executor, seen: Observation, peer: Name, ours: Item, merged: Oid) -> bool:
    """Did the peer merge what we sent as a part of this commit, which somebody made upon it or of it by a rebase before
    we looked? Then it decided ours with it, and of neither is anything lost with the branch.
    """
    if read_info(executor.hub.git, [merged]) == [None]:
        return False
    if _is_in_main(executor, seen, peer, ours):
        return is_ancestor(executor.hub.git, ours.head, merged)
    return bool(_has_all(executor, seen, peer, ours))


def _was_a_message(executor: Executor, peer: Name, topic: str, past: Sequence[Event]) -> bool:
    """Is what went last by that name a message which we did not take back?"""
    life = [*(sent_lives(past)[-1] if past else ()), *executor.recorded(peer, OUT, topic)]
    return bool(life) and life[0].fields.get("kind") not in (None, PROPOSAL, NOTICE) and not is_withdrawn(life)


def _tell_unheard(executor: Executor, peer: Name, topic: str, about: About, text: str) -> None:
    away = command("cn withdraw {}", f"{peer}:{topic}")
    remedy = f"say it anew in a message of its own; {away} says that it needs nothing more"
    executor.notes.failed(text, remedy, source=f"{peer}/{topic}")
    executor.memory.conditions.set(UNHEARD, text, remedy, name=head_name((peer, topic), about.head))


def _unproven(reason: str) -> Refusal:
    return Refusal(rules.CREATOR_ONLY_DELETE, reason, "look at the peer's main; the branch stays")


def check_claim(
    executor: Executor, seen: Observation, peer: Peer, about: About, signature: str, said: tuple[str, Oid] | None
) -> Refusal | None:
    """What a message says became of a branch of ours is believed of a sender that is proven, or where the peer's main
    shows it: its ledger, fetched from its own hub, names the very message that was ``said`` (its topic and commit) as
    one that it sent. That it records some answer proves none: this one may be another's, in the place of the true one.
    """
    if about.status == "merged":
        return _check_merge(executor, seen, peer, about, signature)
    settings = executor.settings
    shared = others_can_write(settings.peers, peer.name)
    unknown = rules.proven_sender(signature, shared, settings.config.mailbox_trusted)
    if unknown is None:
        return None
    if peer.name not in fetch_mains(executor, seen, [peer.name]):
        return _unproven(f"{unknown.reason}, and {peer.name}'s main cannot be read")
    if said and _is_sent(executor, seen, peer, *said):
        return None
    return _unproven(f"{unknown.reason}, and {peer.name}'s main does not say so")


def _is_sent(executor: Executor, seen: Observation, peer: Peer, topic: str, head: Oid) -> bool:
    """Does a peer's main record that it sent us this very message? Its id covers all that it says."""
    return any(event.kind == "queued" for event in read_theirs(executor, seen, peer, OUT, topic, head))


def _check_merge(executor: Executor, seen: Observation, peer: Peer, about: About, signature: str) -> Refusal | None:
    """*merged* is believed when the peer's main itself made that merge, with our head as a parent, or, where none is
    named, holds our head, and not in its history alone: nothing is lost with the branch then.

    A merge that came in with another branch is that branch's creator's, unless the peer's ledger has it as its own: a
    merge by hand (``git pull``) may bring the peer's main aside. Where that main cannot be read, a signature of the
    pinned key is enough.
    """
    if peer.name not in fetch_mains(executor, seen, [peer.name]):
        return None if signature.startswith("verified") else _unproven(f"{peer.name}'s main cannot be read")
    if about.merge is None:
        if held(executor.hub.git, seen.mains[peer.name][1], [about.head]):
            return None
        return _unproven(f"it names no merge commit, and {peer.name}'s main does not hold {about.head[:8]}")
    if peer.name not in seen.merges:
        words = ("rev-list", "--first-parent", "--merges", "--parents", seen.mains[peer.name][1], "--")
        try:
            rows = [line.split(" ") for line in executor.hub.git.run(*words, max_out=OUTPUT_BYTES).lines]
        except GitError:
            rows = []
        seen.merges[peer.name] = {commit: parents for commit, *parents in rows}
    parents = seen.merges[peer.name].get(about.merge)
    if parents is None and _records_merge(executor, seen, peer, about):
        return None
    if parents is None:
        return _unproven(f"{peer.name}'s main did not make {about.merge[:8]}")
    if about.head not in parents[1:]:
        return _unproven(f"{about.merge[:8]} does not merge {about.head[:8]}")
    return None


def _records_merge(executor: Executor, seen: Observation, peer: Peer, about: About) -> bool:
    """Does the peer's main hold that merge, and record that our branch came with it? No branch changes a ledger."""
    theirs = read_theirs(executor, seen, peer, IN, topic_of(about.branch), about.head)
    if about.merge is None or not any(event.fields.get("merge") == about.merge for event in theirs):
        return False
    return bool(held(executor.hub.git, seen.mains[peer.name][1], [about.merge]))
