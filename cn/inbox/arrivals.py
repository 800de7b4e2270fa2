"""Read what arrived and plan it: threads, messages, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from cn.git.objects import is_ancestor, read_in_halves, read_object
from cn.git.process import Git, GitError
from cn.git.read_branches import (
    History,
    Patience,
    first_title,
    format_message_content,
    format_proposal,
    is_signed,
    names_all_files,
    read_attachments,
    read_commits,
    read_histories,
    read_messages,
    read_proposals,
    read_written,
)
from cn.git.remote import HEADS
from cn.git.signatures import Signature, read_signatures, signed_digest
from cn.git.taken_in import read_taken_in
from cn.inbox.conversation import Earlier, answered, earlier_thread, read_earlier, said_before
from cn.inbox.parts import mark_parts
from cn.inbox.plan.arrivals import (
    LOOKED,
    Step,
    classify,
    ended_as_another,
    is_back,
    is_news_that_it_vanished,
    left_beside,
    left_by,
    other_names,
    plan_continued,
    plan_gone,
    plan_let_in,
    plan_moved,
    plan_moved_on,
    plan_new,
    plan_refused_arrival,
    plan_renamed,
    plan_repeated,
    plan_revived,
    plan_void,
    said_again,
    stepped_back,
    takes_words,
    with_refusal,
    withdrawn_before,
)
from cn.inbox.working_copies import (
    Working,
    has_triage,
    is_stale,
    lenient_text,
    own_text,
    read_working,
    renewed,
    shows_triage,
)
from cn.outbox.our_branches import PinnedTopics, apply_notice
from cn.outbox.plan.receipts import Arrival, plan_notice, plan_words
from cn.peers.observe import ARRIVAL, MORE, UNREAD, Observation, fetch_mains, forget_gone, head_name
from cn.peers.older_state import is_missed_for_a_day
from cn.peers.their_records import read_theirs
from cn.peers.turns import Turns
from cn.protocol import rules
from cn.protocol.effects import Keep, Pin, Plan, Put, Withhold, WorkingCopy
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.hub_config import Limits
from cn.protocol.layout import COMMENTED, DONE, END_IN_MAIN, IN_MAIN, INBOX, NOTICE, PROPOSAL, REPLIED, inbox_path
from cn.protocol.ledger import IN, OUT, Event, Item
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.message_text import FORM as MESSAGE_FORM
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer, fingerprint
from cn.protocol.thread_file import TriageRefused, find_headings, holds_section, keep_mains, read_text
from cn.protocol.twins import rename_to
from cn.run.executor import Executor
from cn.run.secret_gate import mask_file
from cn.run.settings import lies_at_mailbox
from cn.transaction.mailbox_main import published_merges
from cn.transaction.push import encode
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadKey, ThreadName, fold, join_branch, thread_name, topic_of
from cn.values.names import Topic as TopicName
from cn.values.shell_words import command
from cn.values.text import decode as decode_text
from cn.values.text import one_line, visible
from cn.values.timestamps import format_day, format_second

_MOST_SAID = 2 << 20
"""Characters of a thread in which answers are shown: what comes then is a thread of its own."""
_NOTICES = 10
"""How many refused branches a peer is told of in one run, and of how many of its own a person reads here."""


def record_arrivals(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> None:
    """Perform the plan of every arrived branch. Those that are not let in are noted until they are gone."""
    _record_other_names(executor, seen)
    out = set[ThreadKey]()
    found = _classified(executor, seen, keys)
    for one in found:
        if one.step is Step.KNOWN:
            executor.perform(Plan(one.source, (Pin(one.peer, IN, one.topic, one.head),)))
    fresh = [one for one in found if one.step is not Step.KNOWN and not _stays_refused(executor, one)]
    out.update({one.key for one in found if one.step is not Step.KNOWN} - {one.key for one in fresh})
    peers = dict.fromkeys(one.peer for one in fresh)
    before = {p: _read_past(executor, p, [one for one in fresh if one.peer == p]) for p in peers}
    let_in: dict[tuple[Name, str], str] = {}  # another branch at the same head, or of the same words, is none any more
    refused, more = Counter[Name](), Counter[Name]()
    taken: set[str] = set()
    if fresh:
        names = [e.path for folder in (INBOX, DONE) for e in executor.snapshot.folder(folder)]
        names += [path.rpartition("/")[2] for path in executor.changed if path.startswith(f"{INBOX}/")]
        taken = {fold(name) for name in names if name.startswith(format_day(executor.now))}
    read = _read_apart(executor, seen, fresh)
    out.update(one.key for one in fresh)
    out.difference_update(one.key for one, _ in read)
    shown = mark_parts(executor, [arrival for arrival, refusal in read if refusal is None])
    read = [*zip(shown, [None] * len(shown), strict=True), *[pair for pair in read if pair[1] is not None]]
    places = _places([arrival for arrival, _ in read], executor.now)
    read.sort(key=lambda pair: places[pair[0].key])
    told_of = _read_told_of(executor, [arrival for arrival, _ in read])
    said = _read_said(executor, [arrival for arrival, _ in read])
    earlier = read_earlier(executor, [arrival for arrival, _ in read])
    published = _read_published(executor, before)
    for found_one, refusal in read:
        arrival = found_one if refusal is not None else _as_withdrawn(executor, found_one, said)
        if published is not None:
            arrival = arrival._replace(merged_as=published.get(arrival.head, ""))
        past = before[arrival.peer].get(arrival.head, [])
        events = [event for event in past if event.kind != "refused"]
        first = _first_name(arrival, events, let_in.get((arrival.peer, arrival.head), arrival.topic))
        if refusal is None and first != arrival.topic and arrival.item is None:
            with executor.apart(arrival.source):
                if _stands_for(executor, arrival, first, past):
                    continue
        if refusal is None and first != arrival.topic:
            refusal = _seen_before(executor, arrival, events, first)
        refusal = refusal or _said_before(arrival, said, let_in) or _instead_of_a_thread(arrival)
        if refusal is None:
            for what in filter(None, (arrival.head, arrival.signed)):
                let_in.setdefault((arrival.peer, what), arrival.topic)
            about = arrival.message.about if arrival.message is not None else None
            told = told_of[arrival.peer][topic_of(about.branch)] if about is not None else ()
            with executor.apart(arrival.source):
                _let_in(executor, seen, arrival, taken, told, earlier.get(arrival.peer))
        else:
            quiet = refused[arrival.peer] >= _NOTICES  # a flood is not answered one by one
            out.add(arrival.key)
            with executor.apart(arrival.source):
                new = _refuse(executor, arrival, refusal._replace(notify=False) if quiet else refusal, quiet=quiet)
                refused[arrival.peer] += new
                more[arrival.peer] += quiet and new
    _record_left(executor, seen)
    for peer, count in more.items():
        if count:
            executor.notes.refused(f"{peer}: {count} more branches are refused", MORE, source=peer)
    forget_gone(executor, seen, [key for key in keys if key not in out])


def _places(arrivals: Sequence[Arrival], now: datetime) -> dict[ThreadKey, tuple[datetime, int]]:
    """What each is sorted by: oldest first, and what answers another one of them behind that.

    Times are in whole seconds, and by the clocks of others: a proposal and the words that go with it often have one.
    """
    heads: dict[tuple[Name, str], Arrival] = {(arrival.peer, arrival.head): arrival for arrival in arrivals}
    places: dict[ThreadKey, tuple[datetime, int]] = {}
    for arrival in arrivals:
        chain: list[Arrival] = []
        one: Arrival | None = arrival
        while one is not None and one.key not in places:  # a commit names no commit that names it: this ends
            chain.append(one)
            one = heads.get((one.peer, one.message.in_reply_to)) if one.message is not None else None
        at, depth = places[one.key] if one is not None else (None, -1)
        for one in reversed(chain):
            written = one.written or now
            at, depth = written if at is None else max(at, written), depth + 1
            places[one.key] = at, depth
    return places


def _record_other_names(executor: Executor, seen: Observation) -> None:
    """Threads that go on as another branch at their head, where their own is not at it any more."""
    listed = seen.listed[IN]
    for peer, item in executor.snapshot.pending():
        branch, head = listed.get((peer, item.topic), (None, None))
        now = executor.item(peer, IN, item.topic)
        if branch is None or head != item.head or now is None or now.get("branch") in ("", branch) or now.get("gone"):
            continue
        name, past = ThreadName(item.get("thread")), executor.snapshot.events_at_heads(peer, IN, [item.head])
        arrival = Arrival(peer, item.topic, branch, item.head, executor.now, item=item)
        with executor.apart(arrival.source):
            there = any(str(one) == item.get("branch") for (whose, _), (one, _) in listed.items() if whose == peer)
            back = left_by(item, branch, "" if there else format_second(executor.now))
            _rename(executor, arrival, item, name, back)
            before = [e for e in past.get(item.head, ()) if e.fields.get("branch") == branch]
            _tell_let_in(executor, arrival._replace(past=before), name, back)
            why = f"{item.get('branch')} {'has moved away from it' if there else 'is there no more'}"
            text = f"{name} goes on as {visible(branch)}, at the same commit: {visible(why)}"
            executor.notes.info(text, source=arrival.source)


def _record_left(executor: Executor, seen: Observation) -> None:
    """Threads whose branch stands at their head, where another name of that, which stood there too, does not any more:
    that may be the one of the two that their creator meant, and has taken back or replaced.

    One that another had written in this run is looked at by the next.
    """
    waiting = [(peer, item) for peer, item in executor.snapshot.pending() if peer in seen.saw[IN]]
    for peer in dict.fromkeys(peer for peer, _ in waiting):
        known = [item for whose, item in waiting if whose == peer]
        since = min(f"{item.since:%Y%m}" for item in known)
        events = executor.snapshot.events_with(peer, IN, (f"rule={rules.SEEN_BEFORE}", f" {IN} repeated "), since)
        if not events:
            continue
        listed = {str(branch): head for (whose, _), (branch, head) in seen.listed[IN].items() if whose == peer}
        for item in (now for one in known if (now := executor.item(peer, IN, one.topic)) is not None):
            name, branch = ThreadName(item.get("thread")), Branch(item.get("branch"))
            if listed.get(branch) != item.head or item.get("gone") or inbox_path(name) in executor.changed:
                continue
            names = other_names(item, events)
            left = {one: one in listed for one, at in names.items() if listed.get(one) not in (at, item.head)}
            if not left:
                continue
            back = left_beside(item, left, names[next(iter(left))] != item.head, executor.now)
            arrival = Arrival(peer, item.topic, branch, item.head, executor.now, item=item)
            with executor.apart(arrival.source):
                _rename(executor, arrival, item, name, back, left)
                executor.notes.info(f"{name} {back}", source=arrival.source)


def _stays_refused(executor: Executor, arrival: Arrival) -> bool:
    """Was this very head refused for what stands in it? Then it is not read again before this hub has another name:
    nothing else can change that. It is told from the memory of this clone, so one that has none reads it once more.
    """
    refused = (e for e in arrival.past if e.kind == "refused" and e.head == arrival.head)
    told = executor.memory.conditions.get(ARRIVAL, head_name(arrival.key, arrival.head))
    if told is None or not any(e.fields.get("rule") == rules.KNOWN_PEER for e in refused):
        return False
    if not executor.memory.told_before(*_as_named(executor, arrival)):
        return False
    Turns(executor.memory).note_tried(arrival.peer, arrival.head)
    executor.notes.refused(told.text, told.remedy, source=arrival.source, told_before=True)
    return True


def _as_named(executor: Executor, arrival: Arrival) -> tuple[str, ...]:
    """A head that was refused while this hub had these names, as the memory notes it."""
    return ("addressed", *arrival.key, arrival.head, *executor.settings.names_for(arrival.peer))


def _read_past(executor: Executor, peer: Name, arrivals: Sequence[Arrival]) -> dict[Oid, list[Event]]:
    """What the ledger has of their heads, in its order. Of what was refused, which may be without end, that of the
    branches themselves.
    """
    found = executor.snapshot.events_at_heads(peer, IN, [one.head for one in arrivals])
    topics = {one.topic for one in arrivals}
    return {head: [e for e in events if e.kind != "refused" or e.topic in topics] for head, events in found.items()}


def _read_published(executor: Executor, before: Mapping[Name, Mapping[Oid, Sequence[Event]]]) -> dict[Oid, Oid] | None:
    """By which commits heads that were merged before were merged on the main that peers read; None: they read ours."""
    if not executor.settings.separate_mailbox:
        return None
    past = (event for heads in before.values() for events in heads.values() for event in events)
    heads = {event.head for event in past if event.kind == "decided" and event.fields.get("merge")}
    return published_merges(executor.hub.git, executor.published, heads)


def _read_told_of(executor: Executor, arrivals: Sequence[Arrival]) -> dict[Name, dict[str, list[Event]]]:
    """What the ledger has of the branches of ours that messages are about, by one look at each peer's history."""
    about: dict[Name, list[str]] = {}
    for one in arrivals:
        if one.message is not None and one.message.about is not None:
            about.setdefault(one.peer, []).append(topic_of(one.message.about.branch))
    return {peer: executor.snapshot.events_of_topics(peer, OUT, some) for peer, some in about.items()}


def _first_name(arrival: Arrival, events: Sequence[Event], first: str) -> str:
    """Under which name this head came first: this one, if it ever came under it, or never under another.

    ``events`` are what the ledger has of the head, ``first`` the name under which this run let it in.
    """
    topics = [event.topic for event in events if event.kind in LOOKED]
    return arrival.topic if arrival.topic in topics else next(iter(topics), first)


def _stands_for(executor: Executor, arrival: Arrival, first: str, past: Sequence[Event]) -> bool:
    """Is this another name of a head whose ``first`` name is gone, or was decided while this one stood there too?

    The thread of the one goes on under this name; what was decided of the other counts for this one too. ``past`` is
    what the ledger has of the head, in its order: of two events of one second that tells which was first.
    """
    events = [event for event in past if event.topic == first and event.kind != "refused"]
    item = executor.item(arrival.peer, IN, first)
    stood = [event.at for event in arrival.past if event.kind == "refused" and event.head == arrival.head]
    was_it = [event.at for event in events if event.fields.get("branch") == arrival.branch]  # its thread went on as it
    if item is not None and item.head == arrival.head and item.get("gone") and item.get("thread"):
        _go_on(executor, arrival, item, stood=any(format_second(at) <= item.get("gone") for at in stood))
        return True
    decided = next((event for event in reversed(events) if event.kind == "decided"), None)
    if item is not None or decided is None:
        return False
    until = past[: past.index(decided)]
    refused = any(event.kind == "refused" and event.topic == arrival.topic for event in until)
    if not refused and not any(at <= decided.at for at in was_it):
        return False
    executor.perform(Plan(arrival.source, (Pin(arrival.peer, IN, arrival.topic, arrival.head),)))
    executor.perform(plan_repeated(arrival._replace(past=() if was_it else events), executor.settings.us))
    why = f"what became of {arrival.peer}/{one_line(first, 80)} counts for it"
    executor.notes.info(f"{arrival.source} is at the same commit: {why}", source=arrival.source)
    return True


def _go_on(executor: Executor, arrival: Arrival, item: Item, *, stood: bool) -> None:
    """The thread of a branch that is gone goes on under this name of its head.

    One that ``stood`` there already is the branch that was read. Of one that came later nobody knows who put it there.
    """
    name = ThreadName(item.get("thread"))
    refused = arrival  # as the other name of that thread
    arrival = arrival._replace(topic=item.topic, item=item)
    executor.perform(Plan(arrival.source, (Pin(arrival.peer, IN, arrival.topic, arrival.head),)))
    back = left_by(item, arrival.branch, item.get("gone"))
    if stood or arrival.message is not None:
        _rename(executor, arrival, item, name, back)
    else:
        back = withdrawn_before(item)
        _revive(executor, arrival)
    _tell_let_in(executor, refused._replace(item=item), name, back)
    executor.notes.info(f"{name} goes on as {visible(arrival.branch)}, at the same commit", source=arrival.source)


def _rename(
    executor: Executor, arrival: Arrival, item: Item, name: ThreadName, back: str, others: Collection[str] = ()
) -> None:
    fresh, known = own_text(executor.snapshot, executor.settings.us, arrival.peer, item)
    working = use_working_text(executor, name)
    void = working is not None and holds_section(working)
    if working is not None:
        working = mask_thread(executor, name, working, read_mains(executor, inbox_path(name)))
    plan = plan_renamed(arrival, executor.settings.us, item, working, fresh, known, back, others)
    if item.get("kind") in ("", PROPOSAL):  # told once for each name
        plan = _telling(executor, arrival if others else arrival._replace(item=None), plan, name, back)
    executor.perform(plan)
    if void:
        text = f"{arrival.source}: what was decided is void; read {inbox_path(name)}, then decide again"
        executor.notes.info(text, source=arrival.source)


def _seen_before(executor: Executor, arrival: Arrival, events: Sequence[Event], first: str) -> Refusal:
    """Why this head may not come under this name.

    ``events`` are what the ledger has of the head, ``first`` the name under which it was let in.
    """
    item = executor.item(arrival.peer, IN, first)
    events = [event for event in events if event.topic == first]
    decided = next((e for e in reversed(events) if e.kind == "decided"), None)
    remedy = "its creator deletes it, or pushes a new commit to it"
    end = "; only a new commit becomes a thread"
    if item is not None and item.head == arrival.head and not item.get("gone"):
        branch = item.get("branch")
        became, end = "which waits for a decision", f": {rename_to(branch, arrival.branch)}"
        remedy = f"it may stay; its creator deletes {one_line(branch, 80)} where it shall be called {arrival.source}; "
        remedy += "whichever of the two goes, what was decided is void"
    elif item is not None and item.head == arrival.head:
        became = "which was withdrawn undecided"
    elif decided is not None:
        became = f"which is {decided.fields.get('status') or 'decided'}"
    elif any(event.kind == "noticed" for event in events):
        became = "a notice"
    else:
        became = "which has moved on since" if events else "in this run"
    why = f"the very commit {arrival.head[:8]} came before as {arrival.peer}/{one_line(first, 80)}, {became}"
    notify = arrival.message is None or arrival.message.kind != NOTICE
    return Refusal(rules.SEEN_BEFORE, f"{why}{end}", remedy, notify)


def _read_said(executor: Executor, arrivals: Sequence[Arrival]) -> dict[tuple[Name, str], Event]:
    """Peer and :func:`signed_digest` → when that was let in first, of what comes now with a signature.

    An event of an older cn has no digest: it is made of the commit, which a ref of ours keeps.
    """
    signed = dict.fromkeys(one.peer for one in arrivals if one.signed)
    found: dict[tuple[Name, str], Event] = {}
    for peer in signed:
        events = [e for e in executor.snapshot.events_with(peer, IN, ("signed=", "signature=verified")) if _is_look(e)]
        bare = list(dict.fromkeys(e.head for e in events if "signed" not in e.fields))
        made = {head: signed_digest(data) for head, data in read_commits(executor.hub.git, bare).items()}
        for event in events:
            if digest := event.fields.get("signed") or made.get(event.head, ""):
                found.setdefault((peer, digest), event)
    return found


def _is_look(event: Event) -> bool:
    return event.kind in LOOKED


def _as_withdrawn(executor: Executor, arrival: Arrival, said: dict[tuple[Name, str], Event]) -> Arrival:
    """Signed words that come as another commit when the branch of their thread is gone: that thread moves to it, and
    says that nobody knows who pushed them. (Of what stood there before, ``cn.peers.observe`` finds the thread.)
    """
    event = said.get((arrival.peer, arrival.signed)) if arrival.signed and arrival.item is None else None
    item = executor.item(arrival.peer, IN, event.topic) if event is not None else None
    if item is None or not _is_theirs(arrival, item) or not (item.get("gone") and item.get("thread")):
        return arrival
    if arrival.message is not None or item.head == arrival.head:
        return arrival
    return arrival._replace(topic=item.topic, item=item, step=Step.MOVED, part=said_again(item))


def _is_theirs(arrival: Arrival, item: Item) -> bool:
    """Does this thread show what this branch says and is signed?"""
    return bool(arrival.signed) and arrival.signed == item.get("signed")


def _said_before(
    arrival: Arrival, said: dict[tuple[Name, str], Event], let_in: dict[tuple[Name, str], str]
) -> Refusal | None:
    """Why words that are signed may not come as another commit: a signature does not cover how it is written itself,
    so whoever can push makes as many commits of them as it likes.
    """
    item = arrival.item
    if item is not None and item.get("branch") != arrival.branch and _is_theirs(arrival, item):
        return None  # their thread goes on as this branch
    event = said.get((arrival.peer, arrival.signed)) if arrival.signed else None
    if event is not None and event.head != arrival.head:
        first, commit = event.topic, event.head[:8]
    elif arrival.signed and (arrival.peer, arrival.signed) in let_in:
        first, commit = let_in[arrival.peer, arrival.signed], "in this run"
    else:
        return None
    why = (
        f"what it says and is signed came before as {arrival.peer}/{one_line(first, 80)} ({commit}), in another commit"
    )
    notify = arrival.message is None or arrival.message.kind != NOTICE
    return Refusal(rules.SEEN_BEFORE, why, "its creator deletes it, or signs a new commit", notify)


def _instead_of_a_thread(arrival: Arrival) -> Refusal | None:
    """A notice becomes no thread, so it may not take the place of one that waits: nobody would have ended that."""
    if arrival.message is None or arrival.message.kind != NOTICE or arrival.item is None:
        return None
    why = f"{arrival.source} is a thread that waits for a decision; a notice has a branch of its own"
    remedy = f"its creator pushes what was there again; or end it: {command('cn delete {}', arrival.source)}"
    return Refusal(rules.SEEN_BEFORE, why, remedy)


def _classified(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> list[Arrival]:
    """These branches with what the ledger knows of them, by one look into the history of each peer."""
    items = {(peer, topic): executor.item(peer, IN, topic) for peer, topic in keys}
    heads = {key: seen.listed[IN][key][1] for key in keys}
    # A pending branch that did not move needs no history.
    calm = {key for key, item in items.items() if item and item.get("thread") and item.head == heads[key]}
    past: dict[ThreadKey, Sequence[Event]] = dict.fromkeys(calm, ())
    for peer in dict.fromkeys(peer for peer, topic in keys if (peer, topic) not in calm):
        topics = [topic for p, topic in keys if p == peer and (p, topic) not in calm]
        events = executor.snapshot.events_of_topics(peer, IN, topics)
        past |= {(peer, topic): theirs for topic, theirs in events.items()}
    found = list[Arrival]()
    for key in keys:
        step, at = classify(heads[key], items[key], past[key]), seen.listed[IN][key]
        if step is Step.KNOWN and items[key] is None and ended_as_another(past[key], *at):
            step = Step.REPEATED
        found.append(Arrival(*key, *at, executor.now, step=step, item=items[key], past=past[key]))
    return found


def _read_apart(
    executor: Executor, seen: Observation, found: Sequence[Arrival]
) -> list[tuple[Arrival, Refusal | None]]:
    """All that git can read. What a git dies over keeps no other out; the next run tries it again, since it may have
    been this machine that ended that git.
    """

    def unread(arrival: Arrival, error: GitError) -> list[tuple[Arrival, Refusal | None]]:
        if not error.done.died:
            raise error
        text = f"{arrival.source} at {arrival.head[:8]} could not be read: {error.text}"
        remedy = "the next run tries it again; its creator deletes it, or pushes something else"
        told_before = executor.memory.told("unread", *arrival.key, arrival.head)
        Turns(executor.memory).note_tried(arrival.peer, arrival.head)
        executor.notes.failed(text, remedy, source=arrival.source, told_before=told_before)
        executor.memory.conditions.set(UNREAD, text, remedy, name=head_name(arrival.key, arrival.head))
        return []

    def read(some: Sequence[Arrival]) -> list[tuple[Arrival, Refusal | None]]:
        return _read(executor, seen, some)

    return read_in_halves(found, read, unread)


def _read(executor: Executor, seen: Observation, found: Sequence[Arrival]) -> list[tuple[Arrival, Refusal | None]]:
    """Everything that cn knows of these branches."""
    peers: dict[Oid, set[Name]] = {}
    for one in found:
        peers.setdefault(one.head, set()).add(one.peer)
    patience = Patience(lambda head: peers[head])
    git, limits = executor.hub.git, executor.settings.config.limits
    commits = read_commits(git, list(dict.fromkeys(one.head for one in found)))
    checked = check_read(executor, found, commits)
    ours = _read_ours(executor, found)
    checked = [(a, _not_theirs(executor, a) if a.key in ours else refusal) for a, refusal in checked]
    let_in = [arrival for arrival, refusal in checked if refusal is None]
    shown = {a.key: a for a in let_in if a.message is None and (a.step is not Step.REPEATED or _is_revived(a))}
    histories = _histories(executor, seen, list(shown.values()), patience)
    texts = show_proposals(git, list(histories.values()), limits, patience, _beside(executor, shown.values()))
    attachments = read_attachments(git, [a.head for a in let_in if a.message is not None])
    arrivals = []
    for arrival, refusal in checked:
        if arrival.key in shown and arrival.head in patience.left:
            continue
        if arrival.key in shown:
            unread = f"(this branch cannot be shown within cn's limits; look at {arrival.head} with git)"
            shows = texts.get(arrival.head, ShownProposal(unread))
            arrival = arrival._replace(content=arrival.content + shows.text, base=shows.base, title=shows.title)
        elif arrival.message is not None and refusal is None:
            names = attachments[arrival.head]
            text = format_message_content(arrival.message, names, limits.thread_bytes)
            arrival = arrival._replace(content=text)
        message, commit = arrival.message, commits.get(arrival.head, b"")
        arrival = arrival._replace(written=message.created if message else read_written(commit))
        arrivals.append((arrival, refusal))
    for name, count in Counter(a.peer for a in shown.values() if a.head in patience.left).items():
        executor.notes.info(
            f"{name}: {count} more branches are read in the next run: others took all the time", source=name
        )
    return sorted(arrivals, key=lambda pair: pair[0].written or pair[0].at)


def check_read(
    executor: Executor, found: Sequence[Arrival], commits: Mapping[Oid, bytes]
) -> list[tuple[Arrival, Refusal | None]]:
    """Branches with their signatures and messages, by the keys that are pinned now; ``commits`` are those of heads."""
    signatures = _signatures(executor, [a for a in found if a.head not in commits or is_signed(commits[a.head])])
    messages = read_messages(executor.hub.git, commits, executor.settings.config.limits.thread_bytes)
    found = [a._replace(signed=signed_digest(commits[a.head])) if a.head in commits else a for a in found]
    return [_checked(executor, a, signatures.get((a.peer, a.head)), messages.get(a.head)) for a in found]


class ShownProposal(NamedTuple):
    """What a thread says of a proposal, against which base (``none``: it does not name all files), and its title."""

    text: str
    base: str = "none"
    title: str = ""


def show_proposals(
    git: Git,
    histories: Sequence[History],
    limits: Limits,
    patience: Patience,
    beside: Mapping[Oid, Collection[Oid]] | None = None,
) -> dict[Oid, ShownProposal]:
    """The text of each proposal that can be read, by its head; ``beside``: the heads of others."""
    bases = {one.head: one.base for one in histories}
    found = {}
    for head, proposal in read_proposals(git, histories, limits, patience):
        text = format_proposal(proposal, limits.thread_bytes, limits.file_bytes)
        base = bases[head] if names_all_files(text, proposal) else None
        found[head] = ShownProposal(text, base or "none", first_title(proposal, (beside or {}).get(head, ())))
    return found


def _beside(executor: Executor, shown: Iterable[Arrival]) -> dict[Oid, set[Oid]]:
    """By head, the heads of all proposals that wait, anybody's, and of its creator's that came in this run.

    Not of another's that came in this run: nobody knows whose their commits are; and not its own before it moved.
    """
    waiting = {item.head for _, item in executor.snapshot.pending()}
    came: dict[Name, set[Oid]] = {}
    for arrival in (shown := list(shown)):
        came.setdefault(arrival.peer, set()).add(arrival.head)
    before = {arrival.head: {arrival.item.head} if arrival.item is not None else set[Oid]() for arrival in shown}
    return {arrival.head: (waiting | came[arrival.peer]) - before[arrival.head] for arrival in shown}


def _histories(
    executor: Executor, seen: Observation, shown: Sequence[Arrival], patience: Patience
) -> dict[Oid, History]:
    """What each branch has since it left our main; one that never was in it, since it left its creator's."""
    git, main = executor.hub.git, executor.snapshot.commit
    histories = own_histories(git, main, [a.head for a in shown], patience)
    strangers = [a for a in shown if (history := histories.get(a.head)) is not None and history.base is None]
    for peer in fetch_mains(executor, seen, [a.peer for a in strangers]):
        heads = [a.head for a in strangers if a.peer == peer]
        histories |= read_histories(git, seen.mains[peer][1], heads, patience)
    return histories


def own_histories(git: Git, main: Oid, heads: Sequence[Oid], patience: Patience) -> dict[Oid, History]:
    """What each branch has that main has not. Where main took commits of it in without what they change, against main
    as it was before that: all that a merge would bring is shown.
    """
    histories = read_histories(git, main, heads, patience)
    taken = read_taken_in(git, main, [one.base for one in histories.values() if one.base is not None])
    earlier: dict[Oid, list[Oid]] = {}
    for head, one in histories.items():
        way = taken.get(one.base) if one.base is not None else None
        if way is not None and (one.base == head or way.missing):
            earlier.setdefault(way.before, []).append(head)
    for before, some in earlier.items():
        histories |= own_histories(git, before, some, patience)
    return histories


def _checked(
    executor: Executor, arrival: Arrival, sign: Signature | None, message: bytes | None
) -> tuple[Arrival, Refusal | None]:
    """A branch with its signature and, where it is one, its message; refused where these forbid it."""
    peer = executor.settings.peers[arrival.peer]
    if sign is not None:
        arrival = arrival._replace(signature=sign.word)
    delete = _deletion(executor, peer, arrival)
    wrong = None
    if message is not None:
        arrival, wrong = _message_arrival(executor, arrival, message)
    refusal = _signature_refusal(peer, sign, _say_anew(message is not None, arrival), delete) if peer.key else None
    if refusal is not None and _is_about_a_notice(executor, arrival):
        refusal = refusal._replace(notify=False)
    return arrival, refusal or wrong


def _is_about_a_notice(executor: Executor, arrival: Arrival) -> bool:
    """Does it say what became of a notice of ours? Two hubs that sign nothing for each other would answer for ever.

    Who sent it finds by our main that it did not come in (:mod:`cn.outbox.told_again`).
    """
    about = arrival.message.about if arrival.message is not None else None
    ours = executor.item(arrival.peer, OUT, topic_of(about.branch)) if about is not None else None
    return ours is not None and ours.get("kind") == NOTICE


def _say_anew(is_message: bool, arrival: Arrival) -> str:
    """What a creator does with what is not signed as it should be: a notice, or a reply, goes again by itself
    (:mod:`cn.outbox.told_again`).
    """
    if not is_message:
        return "'cn sign KEY', then 'git commit --amend --no-edit -S', then propose it again"
    message = arrival.message
    is_reply = message is not None and message.about is not None and message.about.status == REPLIED
    if message is not None and (message.kind == NOTICE or is_reply):
        return "'cn sign KEY', and its next 'cn sync' sends it again"
    return "'cn sign KEY', then send it again"


def _read_ours(executor: Executor, found: Sequence[Arrival]) -> set[ThreadKey]:
    """Those that are branches of ours by their whole name, as they can be where the route was another before."""
    ours = set[ThreadKey]()
    for peer in dict.fromkeys(one.peer for one in found):
        theirs = [one for one in found if one.peer == peer and not _came_before(one)]
        sent = executor.snapshot.events_of_topics(peer, OUT, [one.topic for one in theirs])
        ours |= {o.key for o in theirs if any(e.fields.get("branch") == o.branch for e in sent[o.topic])}
    return ours


def _came_before(arrival: Arrival) -> bool:
    return arrival.item is not None or any(
        e.kind in LOOKED and e.fields.get("branch") == arrival.branch for e in arrival.past
    )


def _not_theirs(executor: Executor, arrival: Arrival) -> Refusal:
    settings, peer = executor.settings, executor.settings.peers[arrival.peer]
    other = PICKUP if peer.deliver == MAILBOX else MAILBOX
    place = settings.delivery_url(executor.hub, peer, arrival.branch)
    why = f"it is ours, made by the route {other}, which is {peer.deliver} now"
    delete = command("git push {} {}", place, f":{HEADS}{arrival.branch}")
    return Refusal(rules.KNOWN_PEER, why, f"{delete} deletes it, where nothing more is needed from it")


def _signatures(executor: Executor, found: Sequence[Arrival]) -> dict[tuple[Name, Oid], Signature]:
    """Signatures of the tips, each against the pinned key of its own peer alone.

    Two peers may show the same commit: what one's key proves says nothing of the other.
    """
    by_key: dict[Name, list[Arrival]] = {}
    for one in found:
        by_key.setdefault(one.peer if executor.settings.peers[one.peer].key else Name(""), []).append(one)
    signatures: dict[tuple[Name, Oid], Signature] = {}
    for name, theirs in by_key.items():
        keys = {str(name): executor.settings.peers[name].key} if name else {}
        heads = list(dict.fromkeys(one.head for one in theirs))
        checked = {s.commit: s for s in read_signatures(executor.hub.git, heads, keys)}
        signatures |= {(one.peer, one.head): checked[one.head] for one in theirs if one.head in checked}
    return signatures


def _deletion(executor: Executor, peer: Peer, arrival: Arrival) -> str:
    """Who takes a branch away that may be nobody's whom we know, and how.

    In our mailbox it has the prefix of the peer, and a host that keeps peers apart lets nobody else delete it
    (``docs/hosts.md``); in a repository without one we are the host.
    """
    branch = one_line(arrival.branch, 100)
    if not lies_at_mailbox(peer.name, arrival.branch):
        return f"ask {peer.name} to delete {branch} in its hub"
    if not (mailbox := executor.settings.mailbox):
        return f"{command('git branch -D {}', arrival.branch)} deletes it"
    push = command("git push {} :{}", mailbox, HEADS + arrival.branch)
    return f"ask {peer.name}, whose prefix it has, to delete {branch}; {push} does it where the host lets you"


def _signature_refusal(peer: Peer, sign: Signature | None, again: str, delete: str) -> Refusal | None:
    if sign is not None and sign.good:
        return None
    other = sign.how if sign is not None else "not signed"
    # The creator is told the reason alone.
    why = f"the tip is {other}, so nobody knows whose it is; {peer.name} has the pinned key {fingerprint(peer.key)}"
    remedy = f"if {peer.name} did not make it, {delete}; if it did, it signs it with that key"
    return Refusal(rules.SIGNATURE, f"{why}. If it is {peer.name}'s: {again}", remedy, notify=True)


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
    if message.to not in executor.settings.names_for(arrival.peer):
        us = executor.settings.us
        why = f"it is addressed to {message.to}, and this hub is {us}"
        remedy = f"ask {arrival.peer} to list this hub as {us} and send it again; "
        remedy += f"where {message.to} is the right name, set name: in {CONFIG} to it"
        return arrival, Refusal(rules.KNOWN_PEER, why, remedy)
    return arrival, None


def _refuse(executor: Executor, arrival: Arrival, refusal: Refusal, *, quiet: bool) -> bool:
    """Not pinned: the condition is looked at again, a corrected key lets it in. Returns whether it is news."""
    already = any(e.kind == "refused" and e.head == arrival.head for e in arrival.past)
    noted = already
    if already and refusal.rule == rules.SEEN_BEFORE:  # it may leave again, which is noted again
        words = (f"rule={rules.SEEN_BEFORE}", f" {IN} repeated ")
        noted = not is_back(arrival.branch, arrival.head, executor.snapshot.events_with(arrival.peer, IN, words))
    again = refusal._replace(notify=refusal.notify and not already)
    executor.perform(plan_refused_arrival(arrival, again, executor.settings.us, noted))
    text = f"{arrival.called} is refused: {refusal.rule}: {refusal.reason}"
    told_before, theirs = already or quiet, refusal.notify
    executor.notes.refused(text, refusal.remedy, source=arrival.source, told_before=told_before, theirs=theirs)
    Turns(executor.memory).note_tried(arrival.peer, arrival.head, arrival.topic)
    if refusal.rule == rules.KNOWN_PEER:
        executor.memory.told(*_as_named(executor, arrival))
    executor.memory.conditions.set(ARRIVAL, text, refusal.remedy, name=head_name(arrival.key, arrival.head))
    return not already


def _let_in(
    executor: Executor,
    seen: Observation,
    arrival: Arrival,
    taken: set[str],
    told_of: Sequence[Event],
    earlier: Earlier | None,
) -> None:
    """``taken`` are the folded names of today's threads, pending or done; ``told_of`` is what the ledger has of the
    branch that a message is about, ``earlier`` what a message may answer.
    """
    executor.perform(Plan(arrival.source, (Pin(arrival.peer, IN, arrival.topic, arrival.head),)))
    message = arrival.message
    if arrival.step is Step.REPEATED and _is_revived(arrival):
        _revive(executor, arrival)
        return
    if arrival.step is Step.REPEATED:
        executor.perform(plan_repeated(arrival, executor.settings.us))
        executor.notes.info(f"{arrival.source} was seen before at {arrival.head[:8]}; no new thread")
        return
    is_notice = message is not None and message.kind == NOTICE
    if message is not None and message.about is not None:
        arrival = apply_notice(executor, seen, arrival, message.about, told_of)
    elif is_notice:
        executor.perform(plan_notice(arrival, None, arrival.branch, None, None))
    if is_notice:
        executor.perform(plan_let_in(arrival, executor.settings.us, None))
    if not is_notice:
        _note_answered(executor, arrival, earlier)
    if not is_notice and not _continue(executor, arrival, earlier):
        _thread(executor, arrival, taken, earlier)


def _note_answered(executor: Executor, arrival: Arrival, earlier: Earlier | None) -> None:
    """A comment of ours is answered by a message in reply to it, also by one that is about no branch."""
    if arrival.message is None or earlier is None:
        return
    about = arrival.message.about
    for event in earlier.wrote.get(Oid(arrival.message.in_reply_to), ()):
        ours = executor.item(arrival.peer, OUT, event.topic)
        if ours is None or ours.head != event.head or ours.get("about_status") != COMMENTED or ours.state == "deleting":
            continue
        if about is None or about.branch != ours.get("branch"):
            executor.perform(plan_words(arrival, ours))


def _is_revived(arrival: Arrival) -> bool:
    """Does a proposal come again whose thread waits? Who pushed the same commit again is not known."""
    item = arrival.item
    return arrival.message is None and item is not None and bool(item.get("gone") and item.get("thread"))


def _revive(executor: Executor, arrival: Arrival) -> None:
    assert arrival.item is not None
    item, name = arrival.item, ThreadName(arrival.item.get("thread"))
    working, mains = use_working_text(executor, name), read_mains(executor, inbox_path(name))
    if working is not None:
        working = mask_thread(executor, name, working, mains)
    ours = [one for one in executor.open(arrival.peer, OUT) if one.get("about_status") == COMMENTED]
    said = [one.head for one in ours if one.get("about_head") == item.head]
    plan = plan_revived(arrival, executor.settings.us, item, working, mains, said)
    executor.perform(_telling(executor, arrival, plan, name, withdrawn_before(item)))
    back = executor.item(arrival.peer, IN, arrival.topic)
    told = back.get("back") if back is not None else ""
    executor.notes.info(f"{arrival.source} was {told}; {name} waits again", source=arrival.source)


def _back(executor: Executor, arrival: Arrival, item: Item) -> str:
    """Is what moved there a head that was there before, or a part of what it replaces? Anybody can push that again."""
    before = any(event.kind in LOOKED and event.head == arrival.head for event in arrival.past)
    if arrival.message is not None or not (before or is_ancestor(executor.hub.git, arrival.head, item.head)):
        return arrival.part
    return stepped_back(item, arrival.head, arrival.past)


def _continue(executor: Executor, arrival: Arrival, earlier: Earlier | None) -> bool:
    """Show an answer in the thread about which we wrote what it answers, while that waits for its decision, and a
    message that goes with a proposal in the thread of that.

    Who has decided, or is about to, was not shown it: they decide again (:func:`cn.inbox.plan.arrivals.hold`).
    """
    if arrival.step is Step.MOVED or arrival.message is None or earlier is None:
        return False
    names = {event.fields.get("thread") for event in answered(earlier, arrival)}
    names = (names | {earlier_thread(earlier, arrival)}) & earlier.waiting.keys()
    topics = [item.topic for item in sorted((earlier.waiting[name] for name in names if name), key=lambda i: i.order)]
    what = "is an answer, shown"
    if not topics and (head := arrival.message.in_reply_to):
        topics = [item.topic for item in executor.open(arrival.peer, IN) if item.head == head]
        what = "goes with a proposal, and is shown"
    for topic in topics:
        item = executor.item(arrival.peer, IN, topic)
        if item is None or not item.get("thread") or (names and item.get("thread") not in names):
            continue
        if not takes_words(item):
            return False
        name, peer, us = ThreadName(item.get("thread")), arrival.peer, executor.settings.us
        copy = read_working(executor.hub, name) if inbox_path(name) not in executor.changed else None
        decided = copy is not None and shows_triage(copy)
        if inbox_path(name) not in executor.changed:  # what goes into main shows what main does
            renew_stale(executor, peer, item, copy)
        working = use_working_text(executor, name)
        if working is None or len(working) + len(arrival.content) > _MOST_SAID:
            return False
        working = mask_thread(executor, name, working, read_mains(executor, inbox_path(name)))
        own = own_text(executor.snapshot, us, peer, item) if find_headings(working.split("\n")) else None
        asked = item.state == "claimed"
        held = asked or decided or own is not None
        executor.perform(plan_continued(arrival, us, item, working, own, held=held))
        executor.notes.done(f"{arrival.source} {what} in {inbox_path(name)}", source=arrival.source)
        if held:
            again = "the agent is asked again" if asked else f"read {inbox_path(name)}, then decide again"
            text = f"{peer}/{item.topic}: what was decided without these words is void; {again}"
            executor.notes.info(text, source=f"{peer}/{item.topic}")
        return True
    return False


def _thread(executor: Executor, arrival: Arrival, taken: set[str], said: Earlier | None) -> None:
    item = arrival.item
    if arrival.message is not None:
        before = said_before(executor, said, arrival) if said is not None and arrival.step is not Step.MOVED else ""
        arrival = arrival._replace(content=f"{MESSAGE_FORM}\n\n{before}{arrival.content}")
    if arrival.step is Step.MOVED and item is not None and item.get("thread"):
        name = ThreadName(item.get("thread"))
        working = use_working_text(executor, name)
        mains = read_mains(executor, inbox_path(name))
        executor.perform(Plan(arrival.source, (Keep(item.head),)))
        if working is not None:
            working = mask_thread(executor, name, working, mains)
        back = _back(executor, arrival, item)
        reviewer = assigned_to(executor, item)
        plan = plan_moved(arrival, executor.settings.us, item, working, mains, back, reviewer)
        executor.perform(_telling(executor, arrival, plan, name, back))
        past = executor.snapshot.events_at_heads(arrival.peer, IN, [arrival.head]).get(arrival.head, ())
        past = [event for event in past if event.fields.get("branch") == arrival.branch]
        _tell_let_in(executor, arrival._replace(past=past), name, back)
        moved = f"moved to {arrival.head[:8]}"
        if not back and _is_theirs(arrival, item) and item.get("branch") != arrival.branch:
            moved = f"goes on as {visible(arrival.branch)}, the same signed words in the commit {arrival.head[:8]}"
        told = f"{back or moved}; {name} is refreshed"
        told += f", and stays assigned to {reviewer}" if reviewer else ""
        executor.notes.done(f"{arrival.source} {told}", source=arrival.source)
        if working is not None and holds_section(working):
            void = f"what was decided about {item.head[:8]} is void; read {inbox_path(name)}, then decide again"
            executor.notes.info(f"{arrival.source}: {void}", source=arrival.source)
        _tell_in_main(executor, arrival)
        return
    earlier = next((e.fields["thread"] for e in reversed(arrival.past) if e.fields.get("thread")), "")
    name = thread_name(format_day(executor.now), arrival.peer, topic_of(arrival.branch), arrival.head, taken)
    taken.add(fold(name))
    plan = plan_new(arrival, executor.settings.us, name, earlier)
    executor.perform(_telling(executor, arrival, plan, name, arrival.part))
    _tell_let_in(executor, arrival, name, arrival.part)
    executor.notes.done(f"received {arrival.called} as {inbox_path(name)}", source=arrival.source)
    if arrival.part:
        executor.notes.info(f"{arrival.called} {arrival.part}", source=arrival.source)
    _tell_in_main(executor, arrival)


def _telling(executor: Executor, arrival: Arrival, plan: Plan, name: ThreadName, back: str) -> Plan:
    """What lets in a branch of which ``back`` is said, where that keeps it from ever being merged."""
    refusal = _never_merged(executor, arrival, back)
    return plan if refusal is None else with_refusal(plan, arrival, executor.settings.us, name, refusal)


def _never_merged(executor: Executor, arrival: Arrival, back: str) -> Refusal | None:
    settings, is_proposal = executor.settings, arrival.item is None or arrival.item.get("kind") in ("", PROPOSAL)
    if arrival.message is not None or not is_proposal:
        return None
    asks = rules.asks_who_pushed(settings.peers[arrival.peer], settings.config)
    return rules.put_there_by_its_creator(back) if asks else None


def _tell_let_in(executor: Executor, arrival: Arrival, name: ThreadName, back: str) -> None:
    """Tell the creator of a branch that was refused that it is let in, where it was not told that it is never merged:
    of two notices of one second nobody knows which is the later.
    """
    if _never_merged(executor, arrival, back) is None:
        executor.perform(plan_let_in(arrival, executor.settings.us, name))


def _tell_in_main(executor: Executor, arrival: Arrival) -> None:
    """Say of a proposal that there is nothing to merge: where it left main, or its creator's main, is its own head."""
    if arrival.base == arrival.head and is_ancestor(executor.hub.git, arrival.head, executor.snapshot.commit):
        executor.notes.info(f"{arrival.source}: {IN_MAIN}; {END_IN_MAIN}", source=arrival.source)


def assigned_to(executor: Executor, item: Item) -> str:
    """The reviewer whom a thread is assigned to; of one who is none any more nobody waits for a decision."""
    actor = item.get("actor") if item.state == "assigned" else ""
    return actor if actor and executor.settings.config.is_actor(actor) else ""


def read_mains(executor: Executor, path: HubPath) -> list[str]:
    """What main has of a file, and what of main was edited here."""
    return [decode_text(data) for data in (executor.snapshot.read(path), _edited(executor, path)) if data]


def mask_thread(executor: Executor, name: ThreadName, text: str, mains: Sequence[str]) -> str:
    """A thread's text without the secrets that people wrote into it: a decision that becomes void is quoted."""
    path, data = inbox_path(name), text.encode("utf-8", "surrogateescape")
    masked, secrets = mask_file(path, data, executor.settings, mains)
    if secrets:
        executor.perform(Plan(name, (Withhold(path, data),)))
    return masked.decode("utf-8", "replace")


def renew_stale(executor: Executor, peer: Name, item: Item, working: Working | None, words: str = "") -> str:
    """Write a pending thread anew whose file shows another head than the ledger names, or decides again
    what was carried out; why, or nothing.

    Whoever read that file saw another branch, or an old copy: what it decides is void, and what a person wrote is kept,
    in it or as the ``words`` of a command of which nothing comes.
    """
    name = ThreadName(item.fields["thread"])
    path = inbox_path(name)
    data = working.data if working is not None else executor.snapshot.read(path)
    if data is None or not is_stale(executor.snapshot, path, data, peer, item):
        return ""
    mains = read_mains(executor, path)
    text = mask_thread(executor, name, lenient_text(data), mains)
    fresh, why = renewed(executor.snapshot, executor.settings.us, peer, item, text, words)
    used = [WorkingCopy(*working)] if working is not None else []
    executor.perform(Plan(f"{peer}/{item.topic}", (*used, Put(path, fresh))))
    return why


def use_working_text(executor: Executor, name: ThreadName) -> str | None:
    """The thread as this run wrote it; else as it lies in the work tree, an input of the run; else as in main."""
    if inbox_path(name) in executor.changed and (written := executor.read(inbox_path(name))) is not None:
        return decode_text(written)
    working = read_working(executor.hub, name)
    if working is not None:
        executor.perform(Plan(name, (WorkingCopy(*working),)))
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
    if base is None:
        return text
    return keep_mains(text, decode_text(base), decode_text(executor.snapshot.read(path) or b""))


def _edited(executor: Executor, path: HubPath) -> bytes | None:
    """What of main was edited here, where main has overtaken it: before this run, or while it integrated."""
    noted, base = read_unplaced(executor.hub).edited.get(path), executor.base
    if noted and noted.base:
        return read_object(executor.hub.git, noted.base)
    return None if base.local == base.tip else read_object(executor.hub.git, f"{base.local}:{path}")


MISSED = "missed"
"""The section of the memory on what another clone let in, and this one has not found listed: in how many looks, and
since when.
"""


def record_vanished(executor: Executor, seen: Observation) -> None:
    """Inbound branches that are not listed any more; whose main shows it, its creator has deleted them. Those too that
    another clone of this hub let in, and that were gone before this one listed them.
    """
    pinned = PinnedTopics(executor, IN)
    named = [(peer, pinned.of(peer, component), tip) for peer, component, tip in seen.vanished(IN)]
    gone = [(peer, topic, tip) for peer, topic, tip in named if topic is not None]
    closed: dict[Name, list[str]] = {}
    for peer, topic, _ in gone:
        if executor.item(peer, IN, topic) is None:
            closed.setdefault(peer, []).append(topic)
    past = {peer: executor.snapshot.events_of_topics(peer, IN, some) for peer, some in closed.items()}
    _forget_missed(executor, seen)
    for peer, topic, tip in gone:
        item, has_pin = executor.item(peer, IN, topic), (peer, IN, encode(topic)) in seen.pins
        if has_pin:
            executor.perform(Plan(f"{peer}/{topic}", (Pin(peer, IN, topic, None), Keep(tip))))
        elif item is None or item.head != tip:
            continue  # another clone of this hub did something about it during this run
        if not is_news_that_it_vanished(item, past.get(peer, {}).get(topic, ())):
            continue  # another clone of this hub saw it first
        life = [item.fields] if item is not None else [event.fields for event in past.get(peer, {}).get(topic, ())]
        called = next((Branch(one["branch"]) for one in reversed(life) if one.get("branch")), None)
        prefix = executor.settings.inbound_prefix(executor.settings.peers[peer])
        branch = called or join_branch(prefix, TopicName(topic))
        theirs = read_theirs(executor, seen, executor.settings.peers[peer], OUT, topic, tip)
        deleted = any(event.kind in ("deleting", "deleted") for event in theirs)
        if not (has_pin or deleted or _is_seen_to_be_gone(executor, (peer, topic), branch, tip)):
            continue
        why = "its creator deleted the branch" if deleted else "the branch is not listed any more"
        with executor.apart(f"{peer}/{topic}"):
            executor.perform(plan_gone(peer, topic, branch, tip, executor.now, deleted=deleted))
            executor.notes.done(f"{peer}/{topic} is gone: {why}", source=f"{peer}/{topic}")


def _is_seen_to_be_gone(executor: Executor, key: ThreadKey, branch: Branch, head: Oid) -> bool:
    """Is a branch gone that this clone never listed? At once where it lay beside our main, which has that it came in;
    another host may be shown by a mirror that lags, so there it has to be missed for a day.
    """
    if lies_at_mailbox(key[0], branch) and not executor.settings.separate_mailbox:
        return True
    looks, name = executor.memory.section(MISSED), _missed_name(key[0], encode(key[1]), head)
    return is_missed_for_a_day(looks, name, str(looks.pop(name, "")), executor.now)


def _forget_missed(executor: Executor, seen: Observation) -> None:
    """What was found, decided, or is known to be gone is missed no more."""
    missed = {_missed_name(peer, component, head) for (peer, _, component), head in seen.unpinned.items()}
    looks = executor.memory.section(MISSED)
    for name in looks.keys() - missed:
        del looks[name]


def _missed_name(peer: Name, component: str, head: Oid) -> str:
    return f"{peer}/{component} {head}"


UNHEARD = "unheard"
"""The section of the memory on branches that moved to what this clone did not get, nor hear that it cannot: of each the
head that its thread shows and the one that was listed, in how many looks, and since when.
"""


def record_moved_on(
    executor: Executor, seen: Observation, later: Container[ThreadKey], asked: Container[ThreadKey] | None = None
) -> None:
    """Pending proposals whose branch stands at another commit, which did not come in. It is gone from the commit that
    was shown: nobody merges what its creator has replaced, and if it comes back, that is said as of any other branch.
    What was decided before this was known is void; who knows it can end the thread, not merge it.

    A fetch that failed says nothing of the branch: until it is known what came of it, and for a day at most, its thread
    stays as it is. Where it goes back before, somebody put it back, as from any other commit.

    ``later``: what comes of these branches is not recorded yet; ``asked``: those alone were to come in by this run, the
    others come with the next sync.
    """
    _forget_unheard(executor)
    for peer, known in executor.snapshot.pending():
        there, item = seen.listed[IN].get((peer, known.topic)), executor.item(peer, IN, known.topic)
        if there is None or item is None or (peer, item.topic) in later:
            continue
        if asked is not None and (peer, item.topic) not in asked:
            continue
        branch, tip = there
        if item.get("gone"):
            if seen.pins.get((peer, IN, encode(item.topic))) == tip == item.head:
                # Another clone saw it leave, and this one did not: the next run looks at it as at one that is new.
                executor.perform(Plan(f"{peer}/{item.topic}", (Pin(peer, IN, item.topic, None), Keep(tip))))
            continue
        if item.get("kind") not in ("", PROPOSAL) or not item.get("thread"):
            continue
        to = _known_to_be_elsewhere(executor, seen, (peer, item.topic), item.head, tip)
        if to is None:
            continue
        source, name = f"{peer}/{item.topic}", ThreadName(item.get("thread"))
        with executor.apart(source):
            executor.perform(Plan(source, (Pin(peer, IN, item.topic, None), Keep(item.head))))
            decided = inbox_path(name) not in executor.changed and has_triage(executor.hub, name)
            if decided and (working := use_working_text(executor, name)) is not None:
                fresh, shown = own_text(executor.snapshot, executor.settings.us, peer, item)
                masked = mask_thread(executor, name, working, shown)
                executor.perform(plan_void(peer, item, to, masked, fresh, shown))
            executor.perform(plan_moved_on(peer, item, branch, to, executor.now))
            text = f"{source} moved from {item.head[:8]} to {to[:8]}, which did not come in: nothing of it is merged"
            if to != tip:
                text = f"{source} moved from {item.head[:8]} to {to[:8]}, and back before that came in: a sync shows it"
            void = f"; what was decided is void, {command('cn delete {}', source)} ends it" if decided else ""
            executor.notes.info(f"{text}{void}", source=source)


def _known_to_be_elsewhere(executor: Executor, seen: Observation, key: ThreadKey, head: Oid, tip: Oid) -> Oid | None:
    """Where a branch went from the head that its thread shows, if that is known not to come in; also where it is back,
    and what was listed meanwhile never came.
    """
    looks = executor.memory.section(UNHEARD)
    noted = [name for name in looks if name.startswith(f"{'/'.join(key)} {head} ")]
    before = {name.rpartition(" ")[2]: str(looks.pop(name)) for name in noted}
    if tip == head:
        return Oid(next(iter(before))) if before else None
    name = f"{'/'.join(key)} {head} {tip}"
    if key not in seen.unheard or is_missed_for_a_day(looks, name, before.get(tip, ""), executor.now):
        return tip
    return None


def _forget_unheard(executor: Executor) -> None:
    """What a thread shows no more, another head came in there, or is decided."""
    shown = {f"{peer}/{item.topic} {item.head}" for peer, item in executor.snapshot.pending()}
    looks = executor.memory.section(UNHEARD)
    for name in [name for name in looks if name.rpartition(" ")[0] not in shown]:
        del looks[name]
