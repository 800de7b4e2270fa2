"""The life of a thread as a chain of links, read from the ledger (``docs/protocol/json.md``, "The chain").

received → decided → executed → creator informed → branch deleted, with what came between:
moved, deferred, returned, assigned, refused, and where an agent works a queue: queued, given,
shown, timed out, dead letter. *Shown* is there only where ``cn input`` printed it; nothing
records when a person looked. That the deciding actor saw the very head decided on is checked
when it is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cn.protocol.layout import FINAL, MERGED_BEFORE, returned_text
from cn.protocol.ledger import IN, OUT, SAID, Event
from cn.values.timestamps import format_stamp, parse_stamp

RECEIVED, MOVED, DEFERRED, RETURNED = "received", "moved", "deferred", "returned"
ASSIGNED, REFUSED, DECIDED, EXECUTED = "assigned", "refused", "decided", "executed"
TOLD, FORWARDED, INFORMED = "creator_told", "forwarded", "creator_informed"
QUEUED, GIVEN, SHOWN = "queued", "given", "shown"
TIMED_OUT, DEAD = "timed_out", "dead_letter"
DELETED, CONTINUED = "branch_deleted", "continued"


@dataclass(frozen=True)
class Link:
    """One step of a chain: ``at`` when it happened, or ``since`` when it is waited for.

    Both are None for a step that comes after the one waited for. ``head`` is the commit
    the step speaks of, ``commit`` the one that resulted.
    """

    step: str
    at: datetime | None
    text: str = ""
    head: str = ""
    commit: str = ""
    since: datetime | None = None


@dataclass(frozen=True)
class Written:
    """A decision that stands in a working copy and is not executed yet.

    ``problem`` says why it cannot be read, or is void, ``remedy`` what helps; then the rest is empty.
    """

    decision: str
    actor: str
    at: datetime | None
    problem: str = ""
    remedy: str = ""


@dataclass
class Life:
    """The events of one thread in ledger order: of its branch, and of our answers to it.

    ``later`` is the ``received`` event of the thread that continues it.
    """

    received: Event
    events: list[Event] = field(default_factory=list)
    later: Event | None = None

    @property
    def thread(self) -> str:
        """The thread's file name."""
        return self.received.fields.get("thread", "")

    @property
    def title(self) -> str:
        """A message's subject, a proposal's title; that it came with where a later head brought none."""
        heads = (self.last("received", "refreshed") or self.received, self.received)
        return next((t for one in heads for key in ("subject", "title") if (t := one.fields.get(key))), "")

    def last(self, *kinds: str) -> Event | None:
        """The latest inbound event of these kinds."""
        return next((e for e in reversed(self.events) if e.side == IN and e.kind in kinds), None)

    @property
    def decided(self) -> Event | None:
        """The event that ended it, if it is done."""
        return self.last("decided")

    @property
    def head(self) -> str:
        """The commit reviewed: the one decided on, else the latest."""
        return (self.decided or self.last("received", "refreshed") or self.received).head


def read_lives(events: Iterable[Event]) -> list[Life]:
    """All threads of one peer's ledger, oldest first. Events that belong to none are left out."""
    lives: list[Life] = []
    current: dict[str, Life] = {}
    heads: dict[str, Life] = {}
    answers: dict[tuple[str, str], Life] = {}
    for event in events:
        life: Life | None = None
        if event.side == IN and event.kind == "received":
            life = Life(event)
            if event.topic in current:
                current[event.topic].later = event
            current[event.topic] = life
            lives.append(life)
        elif event.side == IN:
            life = current.get(event.topic)
        elif event.kind == "queued":
            life = heads.get(event.fields.get("about_head", ""))
            if life is not None:
                answers[(event.topic, event.head)] = life
        else:
            life = answers.get((event.topic, event.head))
        if life is not None:
            life.events.append(event)
            if event.side == IN:
                heads[event.head] = life
    return lives


def read_chain(life: Life, *, written: Written | None = None, forwards: Sequence[Event] = ()) -> tuple[Link, ...]:
    """The links of one thread, in the order of the ledger, then what is still to come.

    ``written`` is a decision in the working copy, ``forwards`` the outbound events of
    messages that carried the thread to another peer.
    """
    links: list[Link] = []
    shown = life.received.head
    for event in life.events:
        links += _inbound(event, shown) if event.side == IN else ()
        shown = event.head if event.side == IN and event.kind in ("received", "refreshed") else shown
        if event.side == OUT and event.kind == "delivered":
            # The ``queued`` event of an answer holds what it says.
            queued = (e for e in life.events if e.kind == "queued" and e.head == event.head)
            links.append(_answer(next(queued, event), at=event.at))
    if life.decided is not None:
        links += _forwards(forwards)
    links += _waiting(life, links, written)
    if life.later is not None:
        text = life.later.fields.get("thread", "")
        links.append(Link(CONTINUED, life.later.at, text, life.later.head))
    return tuple(links)


def executed_text(status: str, merge: str, delivered: bool) -> str:
    """What a log row's ``Executed`` says of a decision that ended a thread."""
    if status in ("replied", "delegated"):
        return "✓ delivered" if delivered else "queued"
    return (f"✓ merged {merge[:7]}" if merge else MERGED_BEFORE) if status == "merged" else f"✓ {status}"


def _inbound(event: Event, shown: str) -> tuple[Link, ...]:
    """The links of one event of the branch; ``shown`` is the head that its thread showed before."""
    get = event.fields.get
    by = get("by", "")
    again = f", attempt {get('attempt')}" if get("attempt", "1") != "1" else ""
    moved = (MOVED, "what was decided about the earlier head, if anything was, is void")
    said = (RECEIVED, "words about it; what was decided without them is void")
    anew = (RECEIVED, "shown anew, the same head; what was decided before, if anything was, is void")
    steps = {
        "received": (RECEIVED, get("branch", "")),
        "refreshed": said if get("words") or get(SAID) else anew if event.head == shown else moved,
        "deferred": (DEFERRED, _join(_until(event), get("reason", ""), by)),
        "returned": (RETURNED, returned_text(get("actor", ""))),
        "assigned": (ASSIGNED, _join(f"to {get('actor', '')}", "", by)),
        "refused": (REFUSED, f"{get('rule', '')}: {get('why', '')}".strip(": ")),
        "gone": (DELETED, f"it moved to {to[:8]}, which did not come in" if (to := get("to")) else "it is not listed"),
        "repeated": (RECEIVED, f"again, the same head{f', as {branch}' if (branch := get('branch')) else ''}"),
        "enqueued": (QUEUED, f"for the agent, as {get('input', '')}"),
        "claimed": (GIVEN, f"to the agent on {get('machine', '')}{again}"),
        "shown": (SHOWN, "to the agent"),
        "timed-out": (TIMED_OUT, f"attempt {get('attempt', '')}"),
        "dead": (DEAD, "decide it, or 'cn queue retry'"),
    }
    if event.kind == "decided":
        at = parse_stamp(get("decided", "")) if get("decided") else event.at
        status, merge = get("status", ""), get("merge", "")
        what = f"merged as {merge[:12]}" if merge else status
        decided = Link(DECIDED, at, _join(get("decision", ""), "", get("actor", "")), event.head)
        return decided, Link(EXECUTED, event.at, what, event.head, merge)
    if event.kind not in steps or (event.kind == "refused" and not get("rule")):
        return ()  # a refusal without a rule only notes that the creator was told
    step, text = steps[event.kind]
    return (Link(step, event.at, text, event.head),)


def _join(first: str, reason: str, who: str) -> str:
    text = ": ".join(part for part in (first, reason) if part)
    return f"{text} by {who}".strip() if who else text


def _until(event: Event) -> str:
    """Until when a thread is deferred, if a date says it."""
    until = event.kind == "deferred" and event.fields.get("until")
    return f"until {format_stamp(parse_stamp(until))}" if until else ""


def _answer(queued: Event, *, at: datetime | None = None) -> Link:
    status = queued.fields.get("about_status", "")
    step = INFORMED if status in FINAL else TOLD
    what = f"{status}, on {queued.fields.get('branch', queued.topic)}"
    return Link(step, at, what, queued.fields.get("about_head", ""), since=None if at else queued.at)


def _forwards(events: Sequence[Event]) -> list[Link]:
    links = []
    for event in (e for e in events if e.kind == "queued"):
        at = next((e.at for e in events if e.kind == "delivered" and e.head == event.head), None)
        text = f"on {event.fields.get('branch', event.topic)}"
        links.append(Link(FORWARDED, at, text, since=None if at else event.at))
    return links


def _waiting(life: Life, links: Sequence[Link], written: Written | None) -> list[Link]:
    """What has not happened yet; only the first of it has a ``since``."""
    sent = {e.head for e in life.events if e.side == OUT and e.kind in ("delivered", "deleted")}
    queued = [e for e in life.events if e.side == OUT and e.kind == "queued" and e.head not in sent]
    told = [_answer(event) for event in queued]
    found = [link for link in told if link.step == TOLD]
    if life.decided is None:
        if written is not None and not written.problem:
            found.append(Link(DECIDED, written.at, f"{written.decision} by {written.actor}", life.head))
            found.append(Link(EXECUTED, None, "'cn inbox process' executes it", since=written.at))
        else:
            last = life.last("received", "refreshed", "returned", "deferred", "assigned", "refused") or life.received
            text = f"{last.fields.get('actor', '')} decides" if last.kind == "assigned" else _until(last)
            text = written.problem if written else f"deferred {text}" if _until(last) else text
            found += [Link(DECIDED, None, text, since=last.at), Link(EXECUTED, None)]
        found.append(Link(INFORMED, None))
    elif not any(link.step == INFORMED for link in links):
        found += [link for link in told if link.step == INFORMED][-1:] or [Link(INFORMED, None, since=life.decided.at)]
    if life.later is None and (life.last("received", "refreshed", "repeated", "gone") or life.received).kind != "gone":
        informed = next((link.at for link in reversed(links) if link.step == INFORMED), None)
        found.append(Link(DELETED, None, since=informed))
    return found
