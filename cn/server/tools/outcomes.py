"""Tools of outcomes: what is to be accomplished, what for, and how."""

from __future__ import annotations

from typing import Any

from cn.agency.names import CLOSED, COMPLETED, OPEN, Uuid
from cn.agency.operations import BlockOutcome, CloseOutcome, CompleteOutcome, CreateOutcome, Operation, UpdateOutcome
from cn.agency.plan.result import Refused
from cn.agency.plan.views import MOST, list_outcomes, list_some, view_ancestors, view_outcome, view_subtree
from cn.agency.rows import Facts
from cn.agency.store.look import ended_outcomes
from cn.server.parameters import ARGUMENTS, CURSOR, LINE, NAME, TEXT, TRUTH, UUID, Parameter, list_of, one_of
from cn.server.tool import (
    COUNT,
    FLAG,
    ID,
    IDS,
    NEXT,
    REQUEST,
    STAMP,
    WORD,
    Call,
    Records,
    Result,
    Tool,
    View,
    a,
    an_object,
    answer,
    asks,
    looks,
    maybe,
    several,
)
from cn.server.tools.files import SEEN, seen_of
from cn.values.timestamps import StampRefused, parse_until

_OUTCOME = Parameter("outcome", UUID, "The UUID of the outcome, or 'root'", needed=True)
_CASCADE = Parameter(
    "cascade", TRUTH, "Also close what is open below it and serves nothing else; otherwise that refuses", default=False
)
_WORKABLE, _DELEGATED = "workable", "delegated"
_SHOWN_TEXT = 8 << 10
_LINES, _TOLD = 12, 3 << 10
"""How many lines about an outcome, and bytes with the beginning of its Markdown, the text of an answer has."""
_SHOWN = {
    "outcome": ID,
    "title": WORD,
    "status": WORD,
    "responsible": ID,
    "decided_by": a("string", "Who may complete or close it"),
    "delegated": FLAG,
    "blocked": a("string", "Why nothing can be done about it now; empty where it is not blocked"),
    "until": maybe(STAMP),
    "workable": a("boolean", "Could its responsible handler do something about it now?"),
}
_BRIEF = an_object(_SHOWN)
_EVENT = an_object({"seq": COUNT, "time": STAMP, "actor": WORD, "type": WORD})
_MORE = a("boolean", "There are others that are not shown")


def _list(call: Call, facts: Facts) -> View | Refused:
    """What a handler has, by what can be done about it."""
    which, handler = call.arguments["which"], call.handler(facts)
    if which in (COMPLETED, CLOSED):
        ended = ended_outcomes(facts, handler, which, MOST)
        return list_some(ended, handler, call.principal, facts, call.now)
    view = list_outcomes(handler, call.principal, facts, call.now, workable=which == _WORKABLE)
    if isinstance(view, Refused):
        return view
    return {"outcomes": view["delegated" if which == _DELEGATED else "outcomes"]}


async def _view(call: Call, records: Records) -> Result | View | Refused:
    """An outcome; of a long text the beginning, since kb_read gives all of it."""
    id = Uuid(call.arguments["outcome"])
    view = await records.look(lambda facts: view_outcome(id, call.principal, facts, call.now), call.principal)
    if isinstance(view, Refused):
        return view
    text = str(view["markdown"])
    more = bool(view["more"]) or len(text) > _SHOWN_TEXT
    return Result(_told(view), {**view, "markdown": text[:_SHOWN_TEXT], "more": more})


def _told(view: View) -> str:
    """What it is in a few lines, for clients that show nothing else."""
    lines = [f"{view['title']}: {_state(view)}"]
    for word in ("parents", "children"):
        rows: Any = view[word]
        lines += [f"{word}:", *(f"  {row['outcome']} {row['title']}: {_state(row)}" for row in rows)] if rows else []
    lines[_LINES:] = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    told = "\n".join([*lines, "", str(view["markdown"])])
    return told.encode()[:_TOLD].decode(errors="ignore")


def _state(view: View) -> str:
    if view["status"] == OPEN and view["blocked"] and not view["workable"]:
        return f"blocked, {view['blocked']}"
    return "workable" if view["workable"] else str(view["status"])


async def _update(call: Call, records: Records) -> View | Refused:
    seen, given = seen_of(call), call.arguments
    if isinstance(seen, Refused):
        return seen
    operation = UpdateOutcome(
        Uuid(given["outcome"]), given["title"], given["text"], seen, given["link"], given["unlink"]
    )
    return await records.perform(operation, call.principal, call.request_id)


async def _block(call: Call, records: Records) -> View | Refused:
    try:
        until = parse_until(call.arguments["until"], call.now) if call.arguments["until"] else None
    except StampRefused as refused:
        return Refused(ARGUMENTS, f"'until': {refused.text}", refused.hint)
    operation = BlockOutcome(Uuid(call.arguments["outcome"]), call.arguments["reason"], until)
    return await records.perform(operation, call.principal, call.request_id)


def _create(call: Call) -> Operation:
    return CreateOutcome(call.arguments["title"], call.arguments["text"], call.arguments["parents"])


def _complete(call: Call) -> Operation:
    return CompleteOutcome(Uuid(call.arguments["outcome"]), call.arguments["rationale"], call.arguments["cascade"])


def _close(call: Call) -> Operation:
    return CloseOutcome(Uuid(call.arguments["outcome"]), call.arguments["rationale"], call.arguments["cascade"])


OUTCOMES = (
    Tool(
        "outcome_view",
        "View an outcome",
        "Shows an outcome with its text, its parents (why) and children (how), who is responsible, and its history.",
        (_OUTCOME,),
        an_object(
            {
                **_SHOWN,
                "markdown": WORD,
                "version": COUNT,
                "hash": WORD,
                "parents": several(_BRIEF),
                "children": several(_BRIEF),
                "more": a("boolean", "There are more children, or more text: kb_read gives all of it"),
                "history": several(_EVENT),
            }
        ),
        _view,
        reads=True,
        listed="history",
    ),
    Tool(
        "outcome_ancestors",
        "View ancestor chains",
        "Shows why an outcome is wanted: every chain of parents up to the top, the nearest first.",
        (_OUTCOME, CURSOR),
        an_object({"chains": several(several(_BRIEF)), "more": _MORE, "next": NEXT}, ["next"]),
        looks(lambda call, facts: view_ancestors(Uuid(call.arguments["outcome"]), call.principal, facts, call.now)),
        reads=True,
        listed="chains",
    ),
    Tool(
        "outcome_subtree",
        "View a subtree",
        "Shows an outcome and all below it, each once, with its depth and its parents.",
        (_OUTCOME, CURSOR),
        an_object(
            {"outcomes": several(an_object({**_SHOWN, "depth": COUNT, "parents": IDS})), "more": _MORE, "next": NEXT},
            ["next"],
        ),
        looks(lambda call, facts: view_subtree(Uuid(call.arguments["outcome"]), call.principal, facts, call.now)),
        reads=True,
        listed="outcomes",
    ),
    Tool(
        "outcome_list",
        "List outcomes",
        "Lists outcomes for which a handler is responsible: open ones, workable ones, those that it delegated, or "
        "those that ended.",
        (
            Parameter(
                "which",
                one_of(OPEN, _WORKABLE, _DELEGATED, COMPLETED, CLOSED),
                "Workable: something can be done about it now",
                default=OPEN,
            ),
            Parameter("handler", UUID, "A handler below you; your own if left out"),
            CURSOR,
        ),
        an_object({"outcomes": several(_BRIEF), "next": NEXT}, ["next"]),
        looks(_list),
        reads=True,
        listed="outcomes",
    ),
    Tool(
        "outcome_create",
        "Create an outcome",
        "Makes a new outcome below the open outcomes of yours that it helps to accomplish. You are responsible for it.",
        (
            Parameter("title", LINE, "What is to be accomplished, on one line", needed=True),
            Parameter("parents", list_of(UUID), "Outcomes that it serves, at least one", needed=True),
            Parameter("text", TEXT, "More about it, as Markdown", default=""),
            REQUEST,
        ),
        answer("outcome", "version", "hash"),
        asks(_create),
    ),
    Tool(
        "outcome_update",
        "Update an outcome",
        "Changes title or text, for which version and hash of outcome_view are needed, or the parents of an outcome.",
        (
            _OUTCOME,
            Parameter("title", LINE, "Its new title"),
            Parameter("text", TEXT, "Its new text"),
            *SEEN,
            Parameter("link", list_of(UUID), "Further parents", default=()),
            Parameter("unlink", list_of(UUID), "Parents that it no longer serves", default=()),
            REQUEST,
        ),
        answer(),
        _update,
    ),
    Tool(
        "outcome_block",
        "Block or unblock an outcome",
        "Says that nothing can be done about an outcome now, and why, perhaps until a time; without a reason, that "
        "something can again. Also for your own root, when it waits.",
        (
            _OUTCOME,
            Parameter("reason", LINE, "Why, on one line; empty to unblock it", default=""),
            Parameter("until", NAME, "A time in UTC (2026-02-05T15:00Z), tomorrow, a weekday, or 90m, 12h, 3d"),
            REQUEST,
        ),
        answer(),
        _block,
        again=True,
    ),
    Tool(
        "outcome_complete",
        "Complete an outcome",
        "Says that an outcome is accomplished, for ever. If it was delegated, its handler ends.",
        (_OUTCOME, Parameter("rationale", TEXT, "How it was verified", default=""), _CASCADE, REQUEST),
        answer("outcome"),
        asks(_complete),
        ends=True,
    ),
    Tool(
        "outcome_close",
        "Close an outcome",
        "Gives an outcome up, for ever, with the reason. If it was delegated, its handler ends.",
        (_OUTCOME, Parameter("rationale", TEXT, "Why", needed=True), _CASCADE, REQUEST),
        answer("outcome"),
        asks(_close),
        ends=True,
    ),
)
