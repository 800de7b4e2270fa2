"""The JSON shapes of what is shown (docs/protocol/json.md): plain dicts, times as text, null for nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from cn.protocol.log import NOTHING
from cn.values.text import redact
from cn.values.timestamps import format_second
from cn.views.threads import ThreadView

if TYPE_CHECKING:  # nothing is loaded for a shape that is not asked for
    from cn.protocol.queue_item import Input
    from cn.views.queue import QueueView
    from cn.views.status import Status
    from cn.views.why import Attempt, Why

_THREAD = (
    "thread peer topic branch head kind subject? signature state received written decision?=decided.text "
    "actor?=decided.actor executed?=result.executed status?=result.status merge?=result.merge until=decided.until "
    "assigned_to?=decided.assigned_to reason? rule?=refused.rule remedy?=refused.remedy withdrawn in_main earlier? "
    "note?=decided.problem"
)
_TOKENS = " ".join(f"{kind}_tokens=usage.{kind}_tokens" for kind in ("input", "output", "cache_read", "cache_write"))
_KEYS = {
    "AnswerDecision": "ending? decides=aims ops body? rejected",
    "Attempt": (
        "trigger attempt=trigger.attempt outcome machine=turn.machine given=turn.since calls answer ops errors rules "
        "refused=rejected.why ended"
    ),
    "Author": "commit author date subject made_here",
    "Block": "text cached",
    "Call": f"at model main? parts:part,bytes {_TOKENS} cost_usd=cost seconds stop attempts unknown",
    "Document": "*thread path text",
    "Ended": "*past files:change,path rows messages concerns",
    "Entry": (
        "file effect to? branch? head? kind? subject? queued attempts reason?! last_attempt=last thread? source?"
    ),
    "FileDiff": "path old new old_mode new_mode commits diff taken_back",
    "Finding": "check level what! why! remedy! fixable repaired",
    "Input": "id from=sender cadence queued source path? head? attempts reason?!",
    "Item": "id source from=sender cadence? thread? queued shown where reason?",
    "Link": "step at waiting_since=since text head? commit?",
    "LoggedAction": (
        "time=row.at event source?=row.source decision?=row.decision executed thread?=row.thread branch?=row.branch "
        "head?=row.head outcome?=row.outcome commit?=row.commit input?=row.input note?=row.note audited"
    ),
    "Main": "branch commit checked_out has_origin origin ahead behind",
    "Message": "file kind to subject? branch? queued delivered executed?",
    "Note": "mark text! hint! source known=told_before paths! rows!",
    "Own": "thread source kind cadence title state opened by? until reason? input? path",
    "OwnDocument": "*own committed text",
    "OwnDocument:row": "*own committed",
    "Part": "part=name place path? bytes=size tokens left_out",
    "PastCommit": "commit parents at subject",
    "PeerView": (
        "name=peer.name hub!=peer.hub kind=peer.kind peered?=peer.peered deliver=peer.deliver key?=fingerprint "
        "community=peer.community unreachable"
    ),
    "QueueView": "actor in_flight waiting dead damaged held bursts",
    "Held": "source hops",
    "Burst": "at items",
    "Replayed": (
        "id=pair.name source=pair.source from=pair.shown.sender model before=pair.before now changed=change error? "
        "tokens=call.usage.tokens cost_usd=call.cost seconds=call.seconds"
    ),
    "Report": "exit_code notes",
    "Said": "role text",
    "Sent": "peer topic branch head kind subject? state sent status? reason? merge? unproven? of_another? chain",
    "SentDocument": "*sent path? text",
    "ShownCondition": "text! remedy! since",
    "ShownCondition:stopped": "reason!=text remedy! since",
    "Status": (
        "hub main pending oldest threads=inbox.threads:brief unknown_files=inbox.unknown "
        "damaged=inbox.damaged:peer,reason not_in_effect waiting outbox unreachable stopped:stopped standing queue "
        "last_run now"
    ),
    "Sum": f"key? calls failed {_TOKENS} cache_hit_rate cost_usd=cost unpriced unknown seconds replays",
    "Table": "hub installed wanted",
    "ThreadView": f"{_THREAD} chain",
    "ThreadView:brief": _THREAD,
    "ThreadView:row": (
        "thread source kind cadence title?=subject state opened=received by=peer until=decided.until reason? input "
        "path committed"
    ),
    "Unreachable": "name reason! since next_try=next attempts",
    "UsageView": "since by rows total",
    "Waiting": (
        "peer branch head=item.head kind since=item.since status? reason? unproven? warning=old to_mend=is_ours_to_mend"
    ),
    "Why": "name item attempts replays thread own_thread sent decided merge rows others notes",
}
"""What is shown of a type (``type:kind``: in a shorter form), as :func:`shape` reads it."""


def _attempt(attempt: Attempt) -> dict[str, Any]:
    from cn.protocol.ops import format_whole

    output, answer = attempt.output, attempt.answer
    return {
        "trigger": str(attempt.trigger),
        "answer": None if answer is None else answer.decode("utf-8", "replace"),
        "ops": [": ".join(format_whole(op)) for op in output.ops] if output else None,
        "errors": output.errors if output else (),
        "rules": attempt.rejected.rules if attempt.rejected else (),
    }


def _input(item: Input) -> dict[str, Any]:
    from cn.agent.plan.turns import source_of

    return {"source": source_of(item)}


def _queue(view: QueueView) -> dict[str, Any]:
    turn = view.turn
    if turn is None:
        return {"in_flight": None}
    keys = "*input attempt machine here since until"
    return {"in_flight": shape(turn, keys, here=view.here, until=turn.since + view.limit)}


def _status(status: Status) -> dict[str, Any]:
    threads = status.inbox.threads
    oldest = min((one.received for one in threads), default=None)
    return {"pending": len(threads), "oldest": oldest, "not_in_effect": [one.source for one in status.not_in_effect]}


def _why(why: Why) -> dict[str, Any]:
    theirs = isinstance(why.thread, ThreadView)
    return {"thread": why.thread if theirs else None, "own_thread": None if theirs else why.thread}


_OWN_FIELDS = ("by", "reason", "input")
_WAITING_FIELDS = ("branch", "status", "reason", "unproven")

_MADE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Attempt": _attempt,
    "Finding": lambda finding: {"fixable": finding.fix is not None},
    "Input": _input,
    "LoggedAction": lambda one: {"executed": None if one.row.executed == NOTHING else one.row.executed},
    "Own": lambda own: {"thread": own.path.rpartition("/")[2]} | {k: own.get(k.title()) for k in _OWN_FIELDS},
    "QueueView": _queue,
    "Replayed": lambda one: {"model": one.call.model if one.call else one.packed.request.model},
    "Status": _status,
    "Sum": lambda row: {"cache_hit_rate": None if row.cache_hit_rate is None else round(row.cache_hit_rate, 4)},
    "ThreadView:row": lambda _: {"kind": "inbox", "cadence": "inbox", "input": None, "path": None, "committed": None},
    "Waiting": lambda one: {"kind": one.item.get("kind") or "proposal"} | {k: one.item.get(k) for k in _WAITING_FIELDS},
    "Why": _why,
}
"""What a type does not have as an attribute."""


def to_json(value: Any, kind: str = "") -> Any:
    """What is shown of a value: of those in the table an object, of others themselves; times become text.

    ``kind`` is the form of the table to take where there are several, or the keys for tuples in a list.
    """
    name = type(value).__name__
    entry = f"{name}:{kind}" if f"{name}:{kind}" in _KEYS else name
    if entry in _KEYS:
        return shape(value, _KEYS[entry], **(_MADE[entry](value) if entry in _MADE else {}))
    if isinstance(value, (list, tuple)):
        if "," in kind:
            return [dict(zip(kind.split(","), one, strict=True)) for one in value]
        return [to_json(one, kind) for one in value]
    if isinstance(value, datetime):
        return format_second(value)
    if isinstance(value, Enum):
        return value.value
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def shape(of: object, keys: str, **made: Any) -> dict[str, Any]:
    """The attributes of a value as a JSON object with these ``keys``, in their order.

    ``key=attribute.of.attribute`` says where the value stands if not in the attribute ``key`` (null as soon as
    one on the way is None); ``made`` are those that stand nowhere. ``key?`` shows an empty text as null, ``key!``
    a text without credentials, ``:kind`` at the end is that of :func:`to_json`. ``*attribute`` stands for all its keys.
    """
    found: dict[str, Any] = {}
    for word in keys.split():
        key, _, path = word.partition("=")
        place, _, kind = (path or key).partition(":")
        name = key.partition(":")[0].rstrip("?!")
        value: Any = made.get(name, of)
        for attribute in () if name in made else place.strip("*?!").split("."):
            value = None if value is None else getattr(value, attribute)
        if key.startswith("*"):
            found |= to_json(value)
        elif value == "" and "?" in key:
            found[name] = None
        else:
            found[name] = to_json(_redacted(value) if "!" in key else value, kind)
    return found


def _redacted(value: Any) -> Any:
    """A text, or all texts in a list, without credentials."""
    if isinstance(value, (list, tuple)):
        return [_redacted(one) for one in value]
    return redact(value) if isinstance(value, str) else value
