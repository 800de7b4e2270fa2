"""What an agent is told when it starts: what holds for all agents of its handler first, so that they share a cache.

The words stand in ``spec/AGENT.md`` of the hub, or of the template where a hub has none. What is there now (the
outcome and why, the state document, what is workable, pending mail) is its first message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from cn.agency.names import SYSTEM, Uuid, is_user
from cn.agency.operations import ByHandler
from cn.agency.plan.structure import is_workable
from cn.agency.plan.views import view_ancestors
from cn.agency.rows import Facts, Handler, Outcome

TEMPLATE: Final = "spec/AGENT.md"
_MOST_STATE = 32 * 1024
_MOST_LISTED = 30


def system_prompt(template: str, handler: Handler) -> str:
    """The stable part: ``{handler}`` and ``{boss}`` are filled in, all other braces stay."""
    boss = str(handler.boss) if is_user(handler.boss) else f"the Handler responsible for Outcome {handler.boss}"
    return template.replace("{handler}", handler.id).replace("{boss}", boss)


def first_message(handler: Handler, facts: Facts, now: datetime, read: Callable[[Uuid, str], bytes]) -> str:
    """How things are for a handler now; ``read`` gives the content of a file's version by its hash."""
    return "\n\n".join(_parts(handler, facts, now, read)) + "\n"


def _parts(handler: Handler, facts: Facts, now: datetime, read: Callable[[Uuid, str], bytes]) -> Iterator[str]:
    root = facts.outcome(handler.id)
    if root:
        yield f"## Your outcome\n\n{_named(root)}" + (f"\n\n{root.text.strip()}" if root.text.strip() else "")
    if chains := _chains(handler, facts, now):
        yield f"## Why\n\n{chains}"
    yield f"## State document (kb://{handler.state})\n\n{_state(handler, facts, read)}"
    workable = [one for one in _open(handler, facts) if is_workable(one, facts, now)]
    yield "## Workable now\n\n" + (_listed([_named(one) for one in workable]) or "Nothing.")
    yield "## Pending mail\n\n" + (_listed(list(_mail(handler, facts))) or "None.")


def _named(outcome: Outcome) -> str:
    return f"{outcome.id} {outcome.title}"


def _listed(lines: Sequence[str]) -> str:
    more = [f"- … and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    return "\n".join([*(f"- {line}" for line in lines[:_MOST_LISTED]), *more])


def _open(handler: Handler, facts: Facts) -> Iterator[Outcome]:
    inbox = facts.open_inbox(handler.id)
    for id in [*([inbox] if inbox else []), *facts.open_outcomes(handler.id)]:
        if found := facts.outcome(id):
            yield found


def _chains(handler: Handler, facts: Facts, now: datetime) -> str:
    """The ways up from its root, each the nearest first."""
    view = view_ancestors(handler.id, ByHandler(handler.id, handler.tenure, ""), facts, now)
    chains = view.get("chains") if isinstance(view, dict) else None
    lines = []
    for chain in chains if isinstance(chains, list) else []:
        lines.append(" ← ".join(f"{one['title']} ({str(one['outcome'])[:8]})" for one in chain))
    return _listed(lines)


def _state(handler: Handler, facts: Facts, read: Callable[[Uuid, str], bytes]) -> str:
    file = facts.file(handler.state)
    if file is None or not file.version:
        return "Nothing has been written yet: you are the first."
    text = read(file.id, file.hash)[:_MOST_STATE].decode("utf-8", "replace").strip()
    cut = "\n\n… it goes on; read it with state_read." if file.size > _MOST_STATE else ""
    return f"Version {file.version}, hash {file.hash}:\n\n{text}{cut}"


def _mail(handler: Handler, facts: Facts) -> Iterator[str]:
    for one in facts.pending(handler.id):
        file = facts.file(one.file)
        sender = f"{SYSTEM}, about {one.sender}" if one.letter else one.sender
        yield f"{one.id} from {sender}: {file.description if file else ''} (kb://{one.file}, version {one.version})"
