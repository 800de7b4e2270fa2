"""The life of something we sent as a chain of links, read from the ledger (``docs/protocol/json.md``, "What we sent").

queued → delivered → answered → branch deleted, with what came between: moved, answered once more. That the peer has
fetched a branch is known when it answers; nothing tells it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cn.protocol import layout
from cn.protocol.layout import FINAL, NOTICE
from cn.protocol.ledger import WITHDRAWN, Event
from cn.protocol.thread_life import DELETED, MOVED, QUEUED, Link
from cn.values.text import in_quotes

DELIVERED, ADOPTED, ANSWERED, CLEANED_UP, GONE = "delivered", "adopted", "answered", "cleaned_up", "gone"
BEGINS = ("queued", "adopted")
"""The kinds of the events that a branch of ours begins with: cn sent it, or somebody pushed it by hand."""
_ENDS = ("deleted", "gone")


def sent_lives(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each branch that had this name, oldest first: each ends when it is gone."""
    lives: list[list[Event]] = []
    for event in events:
        if not lives or (event.kind in BEGINS and last_state(lives[-1]).kind in _ENDS):
            lives.append([])
        lives[-1].append(event)
    return lives


def last_state(life: Sequence[Event]) -> Event:
    """The event that says where it is now: an answer to what was over, or about to be, changes nothing of that."""
    ends = [event for event in life if event.kind in (*_ENDS, "deleting")][-1:]
    return ends[0] if ends and all(event.kind == "answered" for event in life[life.index(ends[0]) + 1 :]) else life[-1]


def sent_chain(life: Sequence[Event], shown: Mapping[str, str]) -> tuple[Link, ...]:
    """The links of one branch of ours, then what is waited for. ``shown``: head of an answer → thread that shows it."""
    links = [_link(event, life[:number], shown) for number, event in enumerate(life)]
    last = last_state(life)
    if last.kind == "queued":
        links.append(Link(DELIVERED, None, "it waits in the outbox", since=last.at))
    elif last.kind == "deleting":
        links.append(Link(DELETED, None, since=last.at))
    elif last.kind in ("delivered", "adopted", "answered") and _waits(life):
        told = "a final one" if last.kind == "answered" else "whether it was fetched is not known yet"
        links.append(Link(ANSWERED, None, told, since=last.at))
    return tuple(links)


def _waits(life: Sequence[Event]) -> bool:
    """Is an answer to come, or another than the last one?"""
    told = last_answer(life)
    return life[0].fields.get("kind") != NOTICE and (told.get("status") not in FINAL or bool(told.get("unproven")))


_IN_OUTBOX, _TAKEN_BACK = "its deletion is in the outbox", "taken back by us"


def is_withdrawn(life: Sequence[Event]) -> bool:
    """Did we take it back, since it was sent last?"""
    begun = max((number for number, event in enumerate(life) if event.kind in BEGINS), default=0)
    return any(event.fields.get(WITHDRAWN) for event in life[begun:])


def last_answer(life: Sequence[Event]) -> Mapping[str, str]:
    """What was answered since it was sent last, as the ledger folds it: later words change what they name."""
    fields: dict[str, str] = {}
    for event in life:
        if event.kind in BEGINS:
            fields = {}
        elif event.kind == "answered":
            fields |= event.fields
    return fields


def _link(event: Event, before: Sequence[Event], shown: Mapping[str, str]) -> Link:
    get = event.fields.get
    match event.kind:
        case "queued":
            moved = any(earlier.kind in BEGINS for earlier in before)
            return Link(MOVED if moved else QUEUED, event.at, get("subject", ""), event.head)
        case "answered":
            merge, status = get("merge", ""), get("status", "")
            text = f"merged as {merge[:12]}" if merge else status
            text += f": {in_quotes(get('reason', ''))}" if get("reason") else ""
            text += f" (claimed, unproven: {get('unproven')})" if get("unproven") else ""
            text += " (shown by the peer's main)" if get("proven") else ""
            if thread := shown.get(get("answer", "")):
                text += f"{', ' if text else ''}with words in {thread.removesuffix('.md')}"
            return Link(ANSWERED, event.at, text, event.head, merge)
        case "adopted":
            return Link(ADOPTED, event.at, "pushed by hand", event.head)
        case "deleting":
            why = f"{_TAKEN_BACK}; " if get(WITHDRAWN) else ""
            return Link(CLEANED_UP, event.at, f"{why}{_IN_OUTBOX}", event.head)
        case "deleted":
            instead = get("instead", "")
            how = _TAKEN_BACK if is_withdrawn((*before, event)) else "by us"
            how = f"never there: its name was another's, and it goes as {instead}" if instead else how
            return Link(DELETED, event.at, how, event.head)
        case "gone":
            return Link(GONE, event.at, layout.BRANCH_GONE, event.head)
        case kind:
            return Link(kind, event.at, "", event.head)
