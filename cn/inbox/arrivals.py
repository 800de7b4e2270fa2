"""Read what arrived and plan it: threads, messages, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cn.git.branch_content import format_message_content, format_proposal
from cn.git.objects import read_object
from cn.git.read_branches import (
    History,
    Patience,
    is_signed,
    read_attachments,
    read_commits,
    read_histories,
    read_messages,
    read_proposals,
)
from cn.git.signatures import Signature, read_signatures
from cn.inbox.plan.arrivals import (
    LOOKED,
    Step,
    classify,
    is_news_that_it_vanished,
    plan_gone,
    plan_moved,
    plan_new,
    plan_refused_arrival,
    plan_repeated,
)
from cn.inbox.working_copies import lenient_text, read_working, renewed, shows_head
from cn.outbox.our_branches import apply_notice, find_merges
from cn.outbox.plan.receipts import plan_notice
from cn.peers.observe import Observation, fetch_mains
from cn.peers.plan.arrival import Arrival, RefusedArrival
from cn.protocol import rules
from cn.protocol.effects import Keep, Pin, Plan, Put, Withhold, WorkingCopy
from cn.protocol.layout import inbox_path
from cn.protocol.ledger import IN, OUT, Event, Item, parse_events
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.message_kinds import NOTICE
from cn.protocol.peers_file import MAILBOX, Peer
from cn.protocol.thread_file import keep_mains, read_text
from cn.protocol.triage import TriageRefused
from cn.run.executor import Executor
from cn.run.secret_gate import mask_file
from cn.transaction.pins import decode
from cn.transaction.unplaced import read_edited
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadKey, ThreadName, join_branch, thread_name
from cn.values.names import Topic as TopicName
from cn.values.text import decode as decode_text
from cn.values.text import one_line
from cn.values.timestamps import format_day

_NOTICES = 10
"""How many refused branches a peer is told of in one run."""


class Found(NamedTuple):
    """One changed inbound branch with what the ledger knows of it."""

    key: ThreadKey
    branch: Branch
    head: Oid
    step: Step
    item: Item | None
    past: tuple[Event, ...]


def record_arrivals(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> list[RefusedArrival]:
    """Perform the plan of every arrived branch; those that are not let in."""
    _read_past(executor, seen, keys)
    found = [_classified(executor, seen, key) for key in keys]
    for f in found:
        if f.step is Step.KNOWN:
            peer, topic = f.key
            executor.perform(Plan(f"{peer}/{topic}", (Pin(peer, IN, topic, f.head),)))
    fresh = [f for f in found if f.step is not Step.KNOWN]
    peers = dict.fromkeys(f.key[0] for f in fresh)
    before = {p: executor.snapshot.events_at_heads(p, IN, [f.head for f in fresh if f.key[0] == p]) for p in peers}
    let_in: dict[tuple[Name, Oid], str] = {}  # another branch at the same head is none any more
    refused: list[RefusedArrival] = []
    for arrival, f, refusal in _read(executor, seen, fresh) if fresh else ():
        first = let_in.get((arrival.peer, arrival.head), arrival.topic)
        refusal = refusal or _seen_before(executor, arrival, before[arrival.peer].get(arrival.head, []), first)
        if refusal is None:
            let_in.setdefault((arrival.peer, arrival.head), arrival.topic)
            _let_in(executor, seen, arrival, f)
        else:
            quiet = sum(one.key[0] == arrival.peer for one in refused) >= _NOTICES
            refused.append(_refuse(executor, arrival, f, refusal, quiet=quiet))
    return refused


def _read_past(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> None:
    """One look into each peer's history for all of its branches that need it."""
    moved = [key for key in keys if not _is_calm(executor.item(key[0], IN, key[1]), seen.inbound[key][1])]
    for peer in dict.fromkeys(peer for peer, _ in moved):
        executor.snapshot.read_topics(peer, IN, [topic for p, topic in moved if p == peer])


def _seen_before(executor: Executor, arrival: Arrival, events: Sequence[Event], first: str) -> Refusal | None:
    """Why this head may not come under this name; None where it came under this one, or never.

    ``events`` are what the ledger has of the head, ``first`` the name under which this run let it in.
    """
    topics = [event.topic for event in events if event.kind in LOOKED]
    if arrival.topic in topics:
        return None
    first = topics[0] if topics else first
    if first == arrival.topic:
        return None
    item = executor.item(arrival.peer, IN, first)
    events = [event for event in events if event.topic == first]
    decided = next((e for e in reversed(events) if e.kind == "decided"), None)
    if item is not None and item.head == arrival.head:
        became = "which was withdrawn undecided" if item.get("gone") else "which waits for a decision"
    elif decided is not None:
        became = f"which is {decided.fields.get('status') or 'decided'}"
    elif any(event.kind == "noticed" for event in events):
        became = "a notice"
    else:
        became = "which has moved on since" if events else "in this run"
    why = f"the very commit {arrival.head[:8]} came before as {arrival.peer}/{one_line(first, 80)}, {became}"
    notify = arrival.message is None or arrival.message.kind != NOTICE
    why += "; only a new commit becomes a thread"
    return Refusal(rules.SEEN_BEFORE, why, "its creator deletes it, or pushes a new commit to it", notify)


def _is_calm(item: Item | None, head: Oid) -> bool:
    """A pending branch that did not move needs no history."""
    return item is not None and bool(item.get("thread")) and item.head == head


def _classified(executor: Executor, seen: Observation, key: ThreadKey) -> Found:
    branch, head = seen.inbound[key]
    item = executor.item(key[0], IN, key[1])
    past = () if _is_calm(item, head) else tuple(executor.snapshot.events_of_topic(key[0], IN, key[1]))
    return Found(key, branch, head, classify(head, item, past), item, past)


def _read(executor: Executor, seen: Observation, found: Sequence[Found]) -> list[tuple[Arrival, Found, Refusal | None]]:
    """Everything that cn knows of these branches."""
    peers: dict[Oid, set[Name]] = {}
    for f in found:
        peers.setdefault(f.head, set()).add(f.key[0])
    patience = Patience(lambda head: peers[head])
    git, limits = executor.hub.git, executor.settings.config.limits
    commits = read_commits(git, list(dict.fromkeys(f.head for f in found)))
    signatures = _signatures(executor, [f for f in found if f.head not in commits or is_signed(commits[f.head])])
    messages = read_messages(git, commits, limits.thread_bytes)
    checked = [(*_checked(executor, f, signatures.get((f.key[0], f.head)), messages.get(f.head)), f) for f in found]
    shown = [arrival for arrival, refusal, f in checked if _needs_text(arrival, refusal, f)]
    histories = _histories(executor, seen, shown, patience)
    texts = {
        head: format_proposal(proposal, limits.thread_bytes)
        for head, proposal in read_proposals(git, list(histories.values()), limits, patience)
    }
    heard = [arrival for arrival, refusal, _ in checked if refusal is None]
    attachments = read_attachments(git, [a.head for a in heard if a.message is not None])
    find_merges(executor, seen, [a for a in heard if _unproven_sender(executor, a) is None])
    arrivals = []
    for arrival, refusal, f in checked:
        if _needs_text(arrival, refusal, f):
            unread = f"(this branch cannot be shown within cn's limits; look at {arrival.head} with git)"
            arrival = arrival._replace(content=arrival.content + texts.get(arrival.head, unread))
        elif arrival.message is not None and refusal is None:
            names = attachments[arrival.head]
            text = format_message_content(arrival.message, names, limits.thread_bytes)
            arrival = arrival._replace(content=text)
        arrivals.append((arrival, f, refusal))
    return arrivals


def _histories(
    executor: Executor, seen: Observation, shown: Sequence[Arrival], patience: Patience
) -> dict[Oid, History]:
    """What each branch has since it left our main; one that never was in it, since it left its creator's."""
    git = executor.hub.git
    histories = read_histories(git, executor.snapshot.commit, [a.head for a in shown], patience)
    strangers = [a for a in shown if (history := histories.get(a.head)) is not None and history.base is None]
    for peer in fetch_mains(executor, seen, [a.peer for a in strangers]):
        heads = [a.head for a in strangers if a.peer == peer]
        histories |= read_histories(git, seen.mains[peer][1], heads, patience)
    return histories


def _checked(
    executor: Executor, found: Found, sign: Signature | None, message: bytes | None
) -> tuple[Arrival, Refusal | None]:
    """A branch with its signature and, where it is one, its message; refused where these forbid it."""
    peer = executor.settings.peers[found.key[0]]
    arrival = Arrival(peer.name, found.branch, found.head, executor.now, "unverified", "")
    if sign is not None:
        arrival = arrival._replace(signature=sign.word)
    refusal = _signature_refusal(peer, sign) if peer.key else None
    if message is not None:
        arrival, wrong = _message_arrival(executor, arrival, message)
        refusal = refusal or wrong
    return arrival, refusal


def _needs_text(arrival: Arrival, refusal: Refusal | None, found: Found) -> bool:
    """Is its thread to show what the branch changes?"""
    return arrival.message is None and refusal is None and found.step is not Step.REPEATED


def _signatures(executor: Executor, found: Sequence[Found]) -> dict[tuple[Name, Oid], Signature]:
    """Signatures of the tips, each against the pinned key of its own peer alone.

    Two peers may show the same commit: what one's key proves says nothing of the other.
    """
    by_key: dict[Name, list[Found]] = {}
    for f in found:
        pinned = f.key[0] if executor.settings.peers[f.key[0]].key else Name("")
        by_key.setdefault(pinned, []).append(f)
    signatures: dict[tuple[Name, Oid], Signature] = {}
    for name, theirs in by_key.items():
        keys = {str(name): executor.settings.peers[name].key} if name else {}
        heads = list(dict.fromkeys(f.head for f in theirs))
        checked = {s.commit: s for s in read_signatures(executor.hub.git, heads, keys)}
        signatures |= {(f.key[0], f.head): checked[f.head] for f in theirs if f.head in checked}
    return signatures


def _signature_refusal(peer: Peer, sign: Signature | None) -> Refusal | None:
    if sign is not None and sign.good:
        return None
    why = "signed with another key" if sign is not None and sign.present else "not signed"
    return Refusal(
        rules.SIGNATURE,
        f"the tip is {why}; {peer.name} has a pinned key",
        "sign it with the pinned key, or change the key in state/peers.md",
        notify=True,
    )


def _message_arrival(executor: Executor, arrival: Arrival, data: bytes) -> tuple[Arrival, Refusal | None]:
    """The arrival with its message; a message that lies about its sender or addressee is refused."""
    try:
        message = parse_message(data)
    except MessageRefused as refused:
        return arrival._replace(content=f"({refused.text}; shown as a plain branch)\n\n"), None
    arrival = arrival._replace(message=message)
    if message.sender != arrival.peer:
        why = f"it says it is from {message.sender}, but it was fetched as {arrival.peer}'s"
        remedy = f"ask {arrival.peer} to delete the branch, or to send it in its own name"
        return arrival, Refusal(rules.KNOWN_PEER, why, remedy)
    if message.to != executor.settings.us:
        return arrival, Refusal(rules.KNOWN_PEER, f"it is addressed to {message.to}", "send it to the right hub")
    return arrival, _unproven_sender(executor, arrival) if message.kind == NOTICE else None


def _unproven_sender(executor: Executor, arrival: Arrival) -> Refusal | None:
    mailbox = executor.settings.peers[arrival.peer].deliver == MAILBOX
    shared = mailbox and executor.settings.shared_mailbox
    return rules.proven_sender(arrival.signature, shared, executor.settings.config.mailbox_trusted)


def _refuse(executor: Executor, arrival: Arrival, found: Found, refusal: Refusal, *, quiet: bool) -> RefusedArrival:
    """Not pinned: the condition is looked at again, a corrected key lets it in."""
    already = any(e.kind == "refused" and e.head == found.head for e in found.past)
    if quiet:  # a flood is not answered one by one
        refusal = refusal._replace(notify=False)
    executor.perform(plan_refused_arrival(arrival, refusal, executor.settings.us, already))
    text = f"{arrival.source} is refused: {refusal.rule}: {refusal.reason}"
    executor.notes.refused(text, refusal.remedy, source=arrival.source, told_before=already)
    return RefusedArrival(found.key, found.head, text, refusal.remedy)


def _let_in(executor: Executor, seen: Observation, arrival: Arrival, found: Found) -> None:
    peer, topic = found.key
    executor.perform(Plan(arrival.source, (Pin(peer, IN, topic, arrival.head),)))
    if found.step is Step.REPEATED:
        executor.perform(plan_repeated(arrival))
        executor.notes.info(f"{arrival.source} was seen before at {arrival.head[:8]}; no new thread")
        return
    message = arrival.message
    if message is not None and message.about is not None:
        trusted = _unproven_sender(executor, arrival) is None
        if message.kind == NOTICE or trusted:
            apply_notice(executor, seen, arrival, message.about)
    if message is not None and message.kind == NOTICE:
        if message.about is None:
            executor.perform(plan_notice(arrival, None, arrival.branch, None, None))
        return
    _thread(executor, arrival, found)


def _thread(executor: Executor, arrival: Arrival, found: Found) -> None:
    peer, topic = found.key
    if found.step is Step.MOVED and found.item is not None and found.item.get("thread"):
        name = ThreadName(found.item.get("thread"))
        working = use_working_text(executor, name)
        mains = _mains(executor, inbox_path(name))
        executor.perform(Plan(arrival.source, (Keep(found.item.head),)))
        if working is not None:
            working = _masked(executor, name, working, mains)
        executor.perform(plan_moved(arrival, found.item, working, mains))
        executor.notes.done(f"{arrival.source} moved to {arrival.head[:8]}; {name} is refreshed", source=arrival.source)
        return
    earlier = next((e.fields["thread"] for e in reversed(found.past) if e.fields.get("thread")), "")
    name = thread_name(format_day(executor.now), peer, topic, arrival.head, executor.threads)
    executor.perform(plan_new(arrival, name, earlier))
    executor.notes.done(f"received {arrival.source} as {inbox_path(name)}", source=arrival.source)


def _mains(executor: Executor, path: HubPath) -> list[str]:
    """What main has of a file, and what of main was edited here."""
    return [decode_text(data) for data in (executor.snapshot.read(path), _edited(executor, path)) if data]


def _masked(executor: Executor, name: ThreadName, text: str, mains: Sequence[str]) -> str:
    """A thread's text without the secrets that people wrote into it: a decision that becomes void is quoted."""
    path, data = inbox_path(name), text.encode("utf-8", "surrogateescape")
    masked, secrets = mask_file(path, data, executor.settings, mains)
    if secrets:
        executor.perform(Plan(name, (Withhold(path, data),)))
    return masked.decode("utf-8", "replace")


def renew_stale(executor: Executor, peer: Name, item: Item) -> str:
    """Write a pending thread anew whose file shows another head than the ledger names; why, or nothing.

    Whoever read that file saw another branch: what it decides is void, and what a person wrote is kept.
    """
    name = ThreadName(item.get("thread"))
    path = inbox_path(name)
    working = read_working(executor.hub, name, executor.snapshot.algorithm)
    data = working.data if working is not None else executor.snapshot.read(path)
    if data is None or shows_head(data, item.head):
        return ""
    mains = _mains(executor, path)
    fresh, why = renewed(executor.snapshot, peer, item, _masked(executor, name, lenient_text(data), mains))
    used = [WorkingCopy(path, working.oid)] if working is not None else []
    executor.perform(Plan(f"{peer}/{item.topic}", (*used, Put(path, fresh))))
    return why


def use_working_text(executor: Executor, name: ThreadName) -> str | None:
    """The thread as it lies in the work tree, an input of the run; else as in main."""
    working = read_working(executor.hub, name, executor.snapshot.algorithm)
    if working is not None:
        executor.perform(Plan(name, (WorkingCopy(working.path, working.oid),)))
    data = working.data if working is not None else executor.snapshot.read(inbox_path(name))
    if data is None:
        return None
    try:
        text = read_text(data)
    except TriageRefused:
        return decode_text(data)
    return with_mains(executor, inbox_path(name), text)


def with_mains(executor: Executor, path: HubPath, text: str) -> str:
    """A working copy with what main got meanwhile, where it is an edit of an older text."""
    base = _edited(executor, path)
    main = executor.snapshot.read(path) or b""
    return keep_mains(text, decode_text(base), decode_text(main)) if base is not None else text


def _edited(executor: Executor, path: HubPath) -> bytes | None:
    """What of main was edited here, where main has overtaken it."""
    noted = read_edited(executor.hub).get(path)
    return read_object(executor.hub.git, noted.base) if noted and noted.base else None


def record_vanished(executor: Executor, seen: Observation) -> None:
    """Inbound branches that are gone: their creators cleaned up, and so do we."""
    for peer, component, tip in seen.vanished(IN):
        topic = decode(component)
        if topic is None:  # too long for a ref: only the ledger has it
            events = parse_events(executor.snapshot.history(peer))
            topic = decode(component, {e.topic for e in events if e.side == IN})
        if topic is None:
            continue
        executor.perform(Plan(f"{peer}/{topic}", (Pin(peer, IN, topic, None), Keep(tip))))
        item = executor.item(peer, IN, topic)
        past = () if item is not None else executor.snapshot.events_of_topic(peer, IN, topic)
        if not is_news_that_it_vanished(item, past):
            continue  # another clone of this hub saw it first
        branch = join_branch(executor.settings.inbound_prefix(executor.settings.peers[peer]), TopicName(topic))
        answers = [
            item
            for item in executor.open(peer, OUT)
            if item.get("about") == branch and item.state in ("delivered", "answered")
        ]
        executor.perform(plan_gone(peer, topic, branch, tip, executor.now, answers))
        executor.notes.done(f"{peer}/{topic} is gone: its creator deleted the branch", source=f"{peer}/{topic}")
