"""What a shell offers for the UUIDs of Agency: by their first digits, or by words of their titles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import click

from cn.cli.options import ONE, Env, not_empty

if TYPE_CHECKING:  # every command names a function of here, and only a shell calls it
    from click.shell_completion import CompletionItem

    from cn.cli.desk import Desk

    Titled = Iterable[tuple[str, str]]

_MOST = 100
_ALL = 2**31


def _complete(kind: str, ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """At most a hundred UUIDs, each with its title."""
    from click.shell_completion import CompletionItem

    try:
        found = _suggest(ctx.find_object(Env) or Env(), kind, typed)
    except Exception:
        return []  # whatever is wrong, a person who is typing does not want to read it now
    return [CompletionItem(id, help=title or None) for id, title in found]


def _suggest(env: Env, kind: str, typed: str) -> list[tuple[str, str]]:
    from cn.cli.desk import desk
    from cn.cli.render.text import clean

    words = typed.casefold().split()

    def fits(id: str, title: str) -> bool:
        return id.startswith(typed.lower()) or (bool(words) and all(word in title.casefold() for word in words))

    with desk(env) as opened:
        return [(id, clean(title, 60)) for id, title in _all(opened, kind) if fits(id, title)][:_MOST]


def _all(opened: Desk, kind: str) -> Titled:
    from cn.agency.names import OUTCOME
    from cn.agency.plan.structure import below
    from cn.agency.store.look import list_outcomes
    from cn.agency.store.outcome_list import Wanted

    facts = opened.facts
    head = facts.head()
    handlers = [head.root, *below(head.root, facts)] if head else []
    match kind:
        case "outcome":
            listed = list_outcomes(facts, Wanted(), opened.now, _ALL)
            return [(id, title) for id, _, title, *_ in (*listed.workable, *listed.others)]
        case "handler":
            return [(id, found.title) for id in handlers if (found := facts.outcome(id))]
        case "file":
            return [(one.id, one.description) for one in facts.files_like("", 0, _ALL) if one.kind != OUTCOME]
        case "mail":
            pending = [one for party in (opened.agency.me, *handlers) for one in facts.pending(party)]
            return [(one.id, file.description) for one in pending if (file := facts.file(one.file))]
        case _:
            held = (row for id in handlers if (row := facts.handler(id)))
            grants = (one for row in held for one in facts.grants_of(row.id, row.tenure))
            return [(one.id, f"{one.level} on {one.resource}") for one in grants]


complete_outcome = partial(_complete, "outcome")
"""Open outcomes."""
complete_handler = partial(_complete, "handler")
"""Active handlers."""
complete_file = partial(_complete, "file")
"""Files of the knowledge base."""
complete_mail = partial(_complete, "mail")
"""Pending messages."""
complete_grant = partial(_complete, "grant")
"""Capabilities."""

AS = click.option(
    "--as",
    "acting",
    cls=ONE,
    default="",
    callback=not_empty,
    metavar="HANDLER",
    shell_complete=complete_handler,
    help="Act for this handler; recorded as you, acting for it.",
)
