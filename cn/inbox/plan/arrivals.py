"""Plan what arrives: new, moved, repeated and vanished branches, and notices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from cn.outbox.plan.receipts import Arrival, notice
from cn.protocol.effects import Drop, Effect, Log, Plan, Put, Record, Wake
from cn.protocol.layout import ACKED, NOTICE, SEEN_BEFORE, inbox_path, returned_text
from cn.protocol.ledger import IN, SAID, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About
from cn.protocol.states import RECEIVER, read_step
from cn.protocol.states import Step as Step
from cn.protocol.thread_file import (
    UNREAD_WORDS,
    Words,
    add_form,
    add_words,
    came_back,
    format_thread,
    name_branch,
    refresh,
    set_verdict,
    without_form,
)
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, Name, Oid, ThreadName, parse_oid
from cn.values.text import one_line
from cn.values.timestamps import format_second, parse_stamp

LOOKED = frozenset({"received", "refreshed", "repeated", "noticed"})
"""Kinds of events that say: this head was there, and let in."""
_ACTS = {"decided": "settled", "noticed": "settled", "gone": "vanished", "refused": "refused"}
"""What the receiver makes of an event; of a refused decision too: both leave a pending thread as it is."""


_MOST_SAID = 20
"""Comments about one head that are remembered as answered."""


class Sighting(NamedTuple):
    """A branch as the ledger left it: its state, the head it was last at, all heads let in."""

    state: str = RECEIVER.states[0]
    last: Oid | None = None
    heads: frozenset[Oid] = frozenset()

    def look(self, head: Oid) -> str:
        """What it is to see ``head`` now."""
        if head not in self.heads:
            return "new head"
        return "same head" if head == self.last else "old head"


def read_sighting(item: Item | None, past: Sequence[Event]) -> Sighting:
    """From the open item and the history of the topic; the item counts where they differ.

    Total: an event that fits nothing changes nothing (a damaged history).
    """
    seen = Sighting()
    for event in past:
        seen = _after(seen, event)
    if item is not None:
        state = "withdrawn" if item.get("gone") else "present"
        return Sighting(state, item.head, seen.heads | {item.head})
    if seen.state in ("present", "withdrawn"):  # nothing is open: it was lost
        return Sighting(RECEIVER.step(seen.state, "settled"), seen.last, seen.heads)
    return seen


def _after(seen: Sighting, event: Event) -> Sighting:
    acts: list[str] = []
    if event.kind in LOOKED:
        acts.append(seen.look(event.head))
        seen = seen._replace(heads=seen.heads | {event.head})
    if act := _ACTS.get(event.kind):
        acts.append(act)
    for act in acts:
        seen = seen._replace(state=RECEIVER.after.get((seen.state, act), seen.state), last=event.head)
    return seen


def classify(head: Oid, item: Item | None, past: Sequence[Event]) -> Step:
    """What a listed head means. ``past`` may be empty where it is the head of the open item."""
    seen = read_sighting(item, past)
    return read_step(seen.state, seen.look(head))


def ended_as_another(past: Sequence[Event], branch: Branch, head: Oid) -> bool:
    """Was a thread at this head decided when it went on as another branch, and its creator told nothing of this one?"""
    here = [event for event in past if event.head == head]
    last = max((at for at, event in enumerate(here) if event.kind == "decided"), default=None)
    if last is None or any(event.kind == "repeated" for event in here[last:]):
        return False
    names = [name for event in here[:last] if event.kind in LOOKED and (name := event.fields.get("branch"))]
    return bool(names) and names[-1] != branch


def is_news_that_it_vanished(item: Item | None, past: Sequence[Event]) -> bool:
    """Is it news that the branch is not listed any more, or did another clone see it first?"""
    return (read_sighting(item, past).state, "vanished") in RECEIVER.after


def plan_new(arrival: Arrival, us: Name, name: ThreadName, earlier: str = "") -> Plan:
    """A thread for a branch that was not seen, or that moved after its thread was done."""
    rewritten = bool(earlier) and arrival.message is not None
    at = {"branch": arrival.branch, "signature": arrival.signature, "base": arrival.base}
    if arrival.written is not None:
        at["written"] = format_second(min(arrival.written, arrival.at))
    fields = {**at, **_what_it_is(arrival), "thread": name, "earlier": earlier}
    fields |= {"back": arrival.part} if arrival.part else {}
    put = Put(inbox_path(name), add_form(format_thread(arrival.header(earlier, arrival.part), arrival.content), us))
    row = arrival.row("rewritten" if rewritten else "received", thread=name)
    return Plan(arrival.source, (put, arrival.event("received", **fields), row, Wake(name)))


def _what_it_is(arrival: Arrival) -> dict[str, str]:
    """The fields of the ledger that say it; a message's branch may be pushed anew as a proposal."""
    message = arrival.message
    return {
        "kind": message.kind if message else "proposal",
        "subject": message.subject if message else "",
        "title": "" if message else arrival.title,
        "hops": str(message.hops) if message else "0",
    }


def plan_continued(
    arrival: Arrival, us: Name, item: Item, working: str, own: tuple[str, Sequence[str]] | None, *, held: bool
) -> Plan:
    """An answer to what we said about a pending thread is shown there, and brings it back if it was put off.

    ``working`` is that thread's text in the work tree, or in main; ``item`` is its own. An answer that ends a thread at
    its creator's goes with what it ends; of any other its creator is told that it was shown.

    What was decided before is about less, and void: ``own`` is the thread as main has it, and all that main had of it,
    where ``working`` holds a decision. ``held``: that is so, or the agent has the thread without these words.
    """
    assert arrival.message is not None
    name, message = ThreadName(item.get("thread")), arrival.message
    what = f"{arrival.branch} at {arrival.head[:10]}, {arrival.signature}"
    words = Words(arrival.peer, message.created, what, arrival.content)
    text = add_words(working, words)
    if own is not None:
        fresh, known = own
        text = refresh(working, add_words(fresh, words), UNREAD_WORDS, known)
    back: tuple[Effect, ...] = ()
    if item.state == "deferred":
        back = plan_returned(arrival.peer, item, arrival.at, message.hops).effects[:1]
    if held:
        back = (*back, *hold(arrival.peer, item, arrival.at))
    elif item.get("input"):
        # It waits under an id that main shows, and who wrote these words may have read: it gets another.
        at = {SAID: format_second(arrival.at)}
        anew = Record(arrival.peer, Event(arrival.at, IN, "refreshed", item.topic, item.head, at))
        back = (*back, anew, *_stays(arrival.peer, item, arrival.at))
    shown = f"shown in {name}{'; what was decided without it is void' if held else ''}"
    row = arrival.row("answered", shown, thread=name)
    about = About(arrival.branch, arrival.head, ACKED, None, "shown in the thread that it answers")
    ends = message.about is not None and message.about.final
    told = () if ends else (notice(us, arrival.peer, arrival.topic, about, arrival.at, name),)
    seen = arrival.event("noticed", branch=arrival.branch)
    return Plan(arrival.source, (Put(inbox_path(name), text), seen, *back, row, *told, Wake(name)))


def hold(peer: Name, item: Item, at: datetime) -> tuple[Effect, ...]:
    """Words hold a decision back, once: it waits again, for the agent too, and what comes then is a thread of its own.

    Else whoever says something all the time would keep it from ever being carried out.
    """
    shown = Record(peer, Event(at, IN, "refreshed", item.topic, item.head, {"words": format_second(at)}))
    return (shown, *_stays(peer, item if item.state != "deferred" else item._replace(state="received"), at))


def takes_words(item: Item) -> bool:
    """May what is said about a thread still be shown in it?"""
    return not item.get("words") or item.state == "deferred"


def withdrawn_before(item: Item) -> str:
    """What is said of a branch that was withdrawn, undecided, and that came again at the very same head."""
    back = f"gone at {item.get('gone')}, and pushed again as the same commit by whoever can write there"
    return f"{back}{_which_time(item)}" if item.get("gone") else ""


def left_by(item: Item, branch: Branch, gone: str) -> str:
    """What is said of a thread that goes on as ``branch``, since its own is not at their commit any more; ``gone``: the
    time by which it was not there at all.
    """
    first = one_line(item.get("branch"), 80)
    went = f"was taken back by {gone}" if gone else "moved on from it"
    return f"went on as {one_line(branch, 80)}: {first} was at the same commit, and {went}{_which_time(item)}"


def left_beside(item: Item, others: Mapping[str, bool], signed: bool, now: datetime) -> str:
    """What is said of a thread whose branch stands where it was, since ``others``, names of its commit too, stand there
    no more: each with whether it is listed elsewhere. ``signed``: the first had the signed words in another commit.
    """
    (first, there), *more = others.items()
    was = "there with the same signed words" if signed else "at the same commit"
    went = "moved on from it" if there else f"was taken back by {format_second(now)}"
    went += f", as did {len(more)} more" if more else ""
    stays = f"stays as {one_line(item.get('branch'), 80)}: {one_line(first, 80)} was {was}"
    return f"{stays}, and {went}{_which_time(item)}"


_OTHER = "other"
"""The field of a thread's event that says which other names of its commit, by their branches, are there no more."""


def other_names(item: Item, events: Iterable[Event]) -> dict[str, Oid]:
    """The other names, and their heads, by which what a thread shows stood there as well: refused, as the same commit
    or the same signed words, and not said to have left since. That one of them came first, and has the thread, does not
    say which one their creator means. ``events`` are the peer's, in their order.
    """
    found = dict[str, Oid]()
    for event in events:
        branch, signed = event.fields.get("branch", ""), event.fields.get("signed")
        same = event.head == item.head or (bool(signed) and signed == item.get("signed"))
        if event.kind == "refused" and event.fields.get("rule") == SEEN_BEFORE and same:
            found[branch] = event.head
        elif event.kind == "repeated" and event.topic == item.topic:
            for name in (branch, *event.fields.get(_OTHER, "").split(" ")):
                found.pop(name, None)
    return {branch: head for branch, head in found.items() if branch not in ("", item.get("branch"))}


def is_back(branch: Branch, head: Oid, events: Iterable[Event]) -> bool:
    """Was a name said to have left this head after it was refused there? ``events`` are the peer's, in their order."""
    left = False
    for event in events:
        if event.kind == "refused" and event.head == head and event.fields.get("branch") == branch:
            left = False
        elif event.kind == "repeated" and branch in event.fields.get(_OTHER, "").split(" "):
            left = True
    return left


def said_again(item: Item) -> str:
    """What is said of a branch that was withdrawn, undecided, where its signed words came again as another commit."""
    back = f"withdrawn by {item.get('gone')}, and pushed again in another commit with the same signature"
    return f"{back}, by whoever can write there{_which_time(item)}"


def stepped_back(item: Item, head: Oid, past: Sequence[Event]) -> str:
    """What is said of a branch that went back to a head that it had before."""
    since = next((e.at for e in reversed(past) if e.kind in LOOKED and e.head == item.head), item.since)
    back = f"went back to the earlier commit {head[:8]}; {item.head[:8]} was shown since {format_second(since)}"
    return f"{back}{_which_time(item)}"


def is_withdrawn(past: Sequence[Event], head: Oid) -> bool:
    """Does the history of a topic say that this head was let in, and that its branch was gone before it was decided?
    Pushed again it is shown with a caution (:func:`withdrawn_before`, :func:`stepped_back`).
    """
    ends = [at for at, event in enumerate(past) if event.kind == "decided"]
    since = past[ends[-1] + 1 :] if ends else past
    acts = [event.kind for event in since if event.kind in LOOKED or event.kind == "gone"]
    return acts[-1:] == ["gone"] and any(event.head == head and event.kind in LOOKED for event in since)


def _which_time(item: Item) -> str:
    """No two cautions of a thread are the same, also within one second: each names one time that a head was shown."""
    return f" (time {_times(item)})" if item.get("times") else ""


def _times(item: Item) -> int:
    """How often the branch came back to a head, this time included."""
    times = item.get("times")
    return (int(times) if times.isdecimal() else 1 if times else 0) + 1


def part_of(peer: Name, whole: Event) -> str:
    """What is said of a branch whose commits came before, with others upon them."""
    which = f"{peer}/{one_line(whole.topic, 80)} ({whole.head[:8]}), which came first, {format_second(whole.at)}"
    return f"holds only a part of {which}; a signature shows who made commits, not who proposes these alone"


def came_before_as(peer: Name, event: Event) -> str:
    """What is said of a signed proposal that came before as another peer's."""
    which = f"{peer}/{one_line(event.topic, 80)} ({event.head[:8]}), {format_second(event.at)}"
    return (
        f"holds what came before as {which}; a signature shows who made commits, not who proposes them under which name"
    )


def _sentence(back: str) -> str:
    return _sentence_of(came_back(back))


def plan_revived(
    arrival: Arrival, us: Name, item: Item, working: str | None, known: Sequence[str], said: Sequence[Oid] = ()
) -> Plan:
    """A withdrawn proposal that came again at the same head: what was decided of it is void, and its thread says so.

    ``said`` are the comments of ours about that head: its creator has answered them by that.
    """
    name, back = ThreadName(item.get("thread")), withdrawn_before(item)
    header = arrival.header(item.get("earlier"), back)._replace(received=item.since, anew=item.get("anew"))
    fresh = add_form(format_thread(header, arrival.content), us)
    text = fresh if working is None else refresh(working, fresh, f"{_sentence(back)}; decide again.", known)
    row = arrival.row("received again", back, thread=name)
    moved: dict[str, str] = {"branch": arrival.branch} if item.get("branch") != arrival.branch else {}
    moved |= {"said": " ".join(said[-_MOST_SAID:])} if said else {}
    again = arrival.event("repeated", back=back, times=str(_times(item)), **moved)
    return Plan(arrival.source, (Put(inbox_path(name), text), again, row, Wake(name)))


_LET_IN = ("received", "refreshed", "repeated")


def with_refusal(plan: Plan, arrival: Arrival, us: Name, name: ThreadName, refusal: Refusal) -> Plan:
    """What lets a branch in, where no decision can ever merge it as it is: its creator is told now, once per head.
    Whoever decides is refused before anything is written, so that no run would tell it.
    """
    if arrival.item is not None and arrival.item.get("told") == arrival.head:
        return plan
    effects = [_noting_told(effect, arrival.head) for effect in plan.effects]
    reason = f"{refusal.rule}: {refusal.reason}; {refusal.remedy}"
    about = About(arrival.branch, arrival.head, "refused", None, reason)
    return plan._replace(effects=(*effects, notice(us, arrival.peer, arrival.topic, about, arrival.at, name)))


def _noting_told(effect: Effect, head: Oid) -> Effect:
    if not isinstance(effect, Record) or effect.event.kind not in _LET_IN:
        return effect
    return effect._replace(event=effect.event._replace(fields={**effect.event.fields, "told": head}))


def plan_renamed(
    arrival: Arrival,
    us: Name,
    item: Item,
    working: str | None,
    fresh: str,
    known: Sequence[str],
    back: str,
    others: Collection[str] = (),
) -> Plan:
    """A thread whose branch is at its head no more goes on as another one that stands there. Nobody knows which of the
    two its creator meant, so what was decided is void, as where the one branch had moved, and the thread says so
    (``back``, :func:`left_by`). So it is where the one that has the thread stays, and ``others`` leave
    (:func:`left_beside`).

    ``working`` is its text in the work tree (or in main), None when it is nowhere; ``fresh`` the thread as cn wrote it,
    ``known`` what main had of it.
    """
    name = ThreadName(item.get("thread"))
    verdict = set_verdict(without_form(fresh), item.get("signature") or "unverified", back)
    fresh = add_form(name_branch(verdict, arrival.branch), us)
    text = fresh if working is None else refresh(working, fresh, f"{_sentence(back)}; decide again.", known)
    left = {_OTHER: " ".join(others)} if others else {}
    again = arrival.event("repeated", branch=arrival.branch, back=back, times=str(_times(item)), **left)
    row = arrival.row("received again", f"{'stays' if others else 'goes on'} as {arrival.branch}", thread=name)
    return Plan(arrival.source, (Put(inbox_path(name), text), again, row, Wake(name)))


def plan_moved(
    arrival: Arrival,
    us: Name,
    item: Item,
    working: str | None,
    known: Sequence[str],
    back: str = "",
    assigned_to: str = "",
) -> Plan:
    """The thread of a pending branch that moved: refreshed, a Triage for the earlier head void.

    ``working`` is the thread's text in the work tree (or in main), None when it is nowhere; ``known`` are
    versions that main had of it, ``back`` says that it went back to an earlier head. An approval is for one head; who
    is to look at the branch is not: it stays ``assigned_to`` whom it was, where that is given.
    """
    name = ThreadName(item.get("thread"))
    header = arrival.header(item.get("earlier"), back)._replace(assigned_to=assigned_to, anew=item.get("anew"))
    fresh = add_form(format_thread(header, arrival.content), us)
    reason = f"The branch moved from {item.head} to {arrival.head}; decide again."
    if back:
        reason = f"{_sentence(back)}; decide again."
    text = fresh if working is None else refresh(working, fresh, reason, known)
    kind = "rewritten" if arrival.message else "moved"
    news = {key: value for key, value in _what_it_is(arrival).items() if item.get(key) != value}
    news |= {"back": back} if back or item.get("back") else {}
    news |= {"times": str(_times(item))} if back else {}
    news |= {"words": ""} if item.get("words") else {}
    at = {"branch": arrival.branch, "signature": arrival.signature, "base": arrival.base or "none"}
    events = [arrival.event("refreshed", **at, **news)]
    row = arrival.row(kind, thread=name)
    if assigned_to:
        events.append(arrival.event("assigned", actor=assigned_to, by=item.get("by"), thread=name))
        row = arrival.row(kind, f"stays assigned to {assigned_to}", thread=name)
    return Plan(arrival.source, (Put(inbox_path(name), text), *events, row, Wake(name)))


def plan_shown_anew(
    arrival: Arrival, us: Name, item: Item, working: str | None, known: Sequence[str], assigned_to: str = ""
) -> Plan:
    """The thread of a pending branch that did not move, shown against what main has got of it since.

    The arguments are those of :func:`plan_moved`. What was decided was about more than is left, and is void; a creator
    who was told that it is refused is told that it waits.
    """
    name = ThreadName(item.get("thread"))
    header = arrival.header(item.get("earlier"), item.get("back"))
    anew = str(int(item.get("anew") or 0) + 1)
    header = header._replace(received=item.since, assigned_to=assigned_to, anew=anew)
    fresh = add_form(format_thread(header, arrival.content), us)
    text = fresh if working is None else refresh(working, fresh, f"{GOT_PART}; decide again.".capitalize(), known)
    effects: list[Effect] = [
        Put(inbox_path(name), text),
        arrival.event("refreshed", base=arrival.base, told="", anew=anew),
    ]
    if assigned_to:
        effects.append(arrival.event("assigned", actor=assigned_to, by=item.get("by"), thread=name))
    effects += [arrival.row("shown anew", GOT_PART, thread=name), Wake(name)]
    if item.get("told") == arrival.head:
        about = About(arrival.branch, arrival.head, "deferred", None, f"{GOT_PART}: what is left waits for a decision")
        effects.append(notice(us, arrival.peer, arrival.topic, about, arrival.at, name))
    return Plan(arrival.source, tuple(effects))


_NOT_SIGNED = "is not signed with "


def plan_checked_anew(
    arrival: Arrival, us: Name, item: Item, key: str, working: str, fresh: str, known: Sequence[str], *, tell: bool
) -> Plan:
    """A pending thread of which ``arrival`` has the word for its signature by the ``key`` that is pinned now
    (a fingerprint; empty: none), and that was checked by another. What was decided of it was decided by that, and is
    void; put off or assigned it stays as it was.

    ``working`` is what lies in the work tree or in main, ``fresh`` the thread as cn wrote it, ``known`` what main had
    of it. Its creator is told that it has to be signed (``tell``: not of every one of a flood), and who was told so
    that it waits again, where no other key is asked for any more: it was pinned wrongly, and nothing is to be mended.
    """
    name = ThreadName(item.get("thread"))
    unsigned = bool(key) and arrival.signature != f"verified {key}"
    back = item.get("back")
    if not back or back.startswith(_NOT_SIGNED):
        back = f"{_NOT_SIGNED}{key}, the key that is pinned for {arrival.peer} now" if unsigned else arrival.part
    why = f"it {_NOT_SIGNED}{key}" if unsigned else f"its signature is {arrival.signature} now"
    why = f"the key that is pinned for {arrival.peer} changed: {why}"
    text = refresh(working, set_verdict(fresh, arrival.signature, back), f"{_sentence_of(why)}; decide again.", known)
    told, about = dict[str, str](), None
    if unsigned and tell and item.get("told") != arrival.head:
        told = {"told": arrival.head}
        about = About(arrival.branch, arrival.head, "refused", None, f"signature-policy: {why}; {SIGN_ANEW}")
    elif not unsigned and item.get("pinned") and item.get("told") == arrival.head:
        told = {"told": ""}
        about = About(arrival.branch, arrival.head, "deferred", None, LET_IN)
    changed = arrival.event("refreshed", signature=arrival.signature, pinned=key if unsigned else "", back=back, **told)
    effects: list[Effect] = [Put(inbox_path(name), text), changed, *_stays(arrival.peer, item, arrival.at)]
    effects += [arrival.row("shown anew", why, thread=name), Wake(name)]
    if about is not None:
        effects.append(notice(us, arrival.peer, arrival.topic, about, arrival.at, name))
    return Plan(arrival.source, tuple(effects))


def _stays(peer: Name, item: Item, at: datetime) -> list[Effect]:
    """What a head that did not move keeps: who has it assigned, until when it is put off, that its branch is gone."""
    kept = {"assigned": ("actor", "by"), "deferred": ("until", "reason", "by")}.get(item.state, ())
    stays: list[Effect] = []
    if kept:
        fields = {**{key: item.get(key) for key in kept}, "thread": item.get("thread")}
        stays.append(Record(peer, Event(at, IN, item.state, item.topic, item.head, fields)))
    if item.get("gone"):
        stays.append(Record(peer, Event(parse_stamp(item.get("gone")), IN, "gone", item.topic, item.head)))
    return stays


def _sentence_of(why: str) -> str:
    return why[0].upper() + why[1:]


SIGN_ANEW = (
    "'cn sign KEY' lets a clone sign with that key; then 'git commit --amend --no-edit -S' signs a proposal, which is "
    "pushed again, and a message is sent again"
)
GOT_PART = "main has got a part of it since"


def plan_repeated(arrival: Arrival, us: Name) -> Plan:
    """A head that was seen before: logged once, no thread. Where it was decided, or replaced by one that was, its
    creator is told once more what became of it: of a merge the commit that its creator can see, as before.
    """
    effects: list[Effect] = [arrival.event("repeated")]
    last = _decided_last(arrival)
    if last is None or (arrival.message is not None and arrival.message.kind == NOTICE):
        return Plan(arrival.source, (*effects, arrival.row("received again", "nothing to do")))
    get = last.fields.get
    what, status, merge = "it was", get("status", ""), get("merge", "")
    if last.head != arrival.head:  # nothing of this one will be taken
        what, status, merge = f"it was replaced by {last.head[:8]}, which was", "discarded", ""
    elif status == "merged" and arrival.merged_as is not None:
        merge = arrival.merged_as
    reason = f"{what} decided before: {get('decision')}; only a new commit is looked at again"
    about = About(arrival.branch, arrival.head, status, parse_oid(merge) if merge else None, reason)
    told = notice(us, arrival.peer, arrival.topic, about, arrival.at)
    row = arrival.row("received again", "its creator is told once more what became of it")
    return Plan(arrival.source, (*effects, row, told))


def _decided_last(arrival: Arrival) -> Event | None:
    """The decision about this head; else the last one about what it was replaced by."""
    past = arrival.past
    decided = [event for event in past if event.kind == "decided" and event.head == arrival.head]
    if decided:
        return decided[-1]
    shown = [i for i, e in enumerate(past) if e.head == arrival.head and e.kind in ("received", "refreshed")]
    later = [event for event in past[shown[-1] :] if event.kind == "decided"] if shown else []
    return later[-1] if later else None


def plan_gone(peer: Name, topic: str, branch: Branch, head: Oid, at: datetime, *, deleted: bool) -> Plan:
    """A branch that is not listed any more: log it. ``deleted``: its creator's main says that it deleted it."""
    source = f"{peer}/{topic}"
    gone = Record(peer, Event(at, IN, "gone", topic, head))
    why = "branch deleted by its creator" if deleted else "branch not listed any more"
    return Plan(source, (gone, Log(Row(at, source, "gone", why, branch=branch, head=head, outcome="gone"))))


def plan_moved_on(peer: Name, item: Item, branch: Branch, head: Oid, at: datetime) -> Plan:
    """A branch that stands at ``head`` now, which did not come in, and not where its thread shows it."""
    source, why = f"{peer}/{item.topic}", f"moved to {head[:8]}, which did not come in"
    gone = Record(peer, Event(at, IN, "gone", item.topic, item.head, {"to": head}))
    return Plan(source, (gone, Log(Row(at, source, "gone", why, branch=branch, head=item.head, outcome="gone"))))


def plan_void(peer: Name, item: Item, head: Oid, text: str, fresh: str, known: Sequence[str]) -> Plan:
    """What was decided in ``text``, before anybody here knew that the branch stands at ``head``, decides nothing."""
    reason = f"The branch moved from {item.head} to {head}, which did not come in; decide again."
    path = inbox_path(ThreadName(item.get("thread")))
    return Plan(f"{peer}/{item.topic}", (Put(path, refresh(text, fresh, reason, known)),))


def plan_refused_arrival(arrival: Arrival, refusal: Refusal, us: Name, already: bool) -> Plan:
    """A branch that may not enter: logged, and its creator told, once per head."""
    if already:
        return Plan(arrival.source)
    why = f"{refusal.rule}: {refusal.reason}"
    tell = {"told": arrival.head} if refusal.notify else {}
    event = arrival.event("refused", rule=refusal.rule, branch=arrival.branch, **tell)
    about = About(arrival.branch, arrival.head, "refused", None, why)
    told = (notice(us, arrival.peer, arrival.topic, about, arrival.at),) if refusal.notify else ()
    return Plan(arrival.source, (event, arrival.row("refused", why), *told))


LET_IN = "it was let in after all, and waits for a decision"
_TAKEN_IN = "it was let in after all"


def plan_let_in(arrival: Arrival, us: Name, name: ThreadName | None) -> Plan:
    """Whose creator was told that it is refused, and that came in after all: the creator sends nothing again.

    A notice has no thread (``name``): it is over by that.
    """
    if not any(e.kind == "refused" and e.head == arrival.head and e.fields.get("told") for e in arrival.past):
        return Plan(arrival.source)
    status, why = ("deferred", LET_IN) if name is not None else (ACKED, _TAKEN_IN)
    about = About(arrival.branch, arrival.head, status, None, why)
    return Plan(arrival.source, (notice(us, arrival.peer, arrival.topic, about, arrival.at, name or ""),))


def plan_returned(peer: Name, item: Item, at: datetime, hops: int | None = None) -> Plan:
    """A deferred thread whose time has come, or that an answer brings back: ``hops`` are those of the answer. Or an
    assigned one, whose reviewer is none any more.
    """
    source = f"{peer}/{item.topic}"
    thread = item.get("thread")
    fields = {} if hops is None else {"hops": str(hops)}
    fields |= {"actor": item.get("actor")} if item.state == "assigned" else {}
    why = returned_text(fields.get("actor", ""))
    row = Row(at, source, "returned", why, thread, item.get("branch"), item.head, "returned")
    fields |= {"words": ""} if item.get("words") else {}
    event = Event(at, IN, "returned", item.topic, item.head, fields)
    return Plan(source, (Record(peer, event), Log(row), Wake(thread)))


def plan_renewed(peer: Name, item: Item, at: datetime, why: str) -> Plan:
    """A pending thread whose file was another's, or an older one, and decided nothing."""
    source = f"{peer}/{item.topic}"
    row = Row(at, source, "restored", why, item.get("thread"), item.get("branch"), item.head, "restored")
    return Plan(source, (Log(row),))


def plan_restored(peer: Name, item: Item, at: datetime, text: str, elsewhere: HubPath | None) -> Plan:
    """A pending thread that was removed or moved in a commit is put back."""
    source = f"{peer}/{item.topic}"
    name = ThreadName(item.get("thread"))
    row = Row(at, source, "restored", "pending thread was missing", name, item.get("branch"), item.head, "restored")
    return Plan(source, (*((Drop(elsewhere),) if elsewhere else ()), Put(inbox_path(name), text), Log(row)))
