"""``cn grant …``: what handlers may do besides what follows from where they stand."""

from __future__ import annotations

from typing import Any

import click

from cn.agency.plan.shown import Shown
from cn.cli.desk import desk, short
from cn.cli.known_here import warn_of_unknown
from cn.cli.options import DRY_RUN, REQUEST, Env, not_empty, options
from cn.cli.render.text import SHORT, wrap
from cn.cli.suggest import AS, complete_grant, complete_handler, complete_outcome


@click.group("grant")
def grant() -> None:
    """Agency's capabilities: what handlers may do besides what follows from where they stand."""


@grant.command("list")
@click.argument("handler", required=False, default="", shell_complete=complete_handler)
@options(AS)
def list_command(env: Env, handler: str, acting: str) -> None:
    """List what was granted to HANDLER and by it, or to everybody, and whether it is effective."""
    from cn.agency.plan.result import Refused
    from cn.agency.plan.structure import below
    from cn.agency.plan.views import list_permissions

    with desk(env, acting) as opened:
        facts = opened.facts
        top = getattr(opened.principal, "handler", "root")
        ids = [opened.handler(handler)] if handler else [opened.handler(top), *below(opened.handler(top), facts)]
        if handler:
            opened.check_above(ids[0])
        rows: list[Any] = []
        for id in ids:
            view = list_permissions(id, opened.principal, facts)
            if isinstance(view, Refused):
                opened.refuse(view)
            rows += [*view["held"], *(view["given"] if handler else ())]  # type: ignore[misc]
        lines = [line for row in rows for line in wrap("", grant_line(row, opened.shown), SHORT + 1)]
        whom = "" if handler else " to a handler that is active; 'cn grant list HANDLER' tells it of one that ended"
        env.facts(rows, lambda: lines or [f"nothing was granted{whom}"])


def grant_line(row: dict[str, Any], shown: Shown) -> str:
    """One capability in a sentence."""
    from cn.cli.render.agency import name

    kind, _, of = row["resource"].partition(":")
    stands = "" if row["effective"] else ", not effective"
    words = f"{row['level']} on {kind}:{name(of, shown)}, to {short(row['holder'])} from {short(row['grantor'])}"
    return f"{row['id'][:SHORT]} {words}, while {short(row['scope'])} is open{stands}"


@grant.command("add")
@click.argument("holder", shell_complete=complete_handler)
@click.argument("level")
@click.argument("resource")
@click.option(
    "--scope", default="", callback=not_empty, shell_complete=complete_outcome, help="The outcome with which it ends."
)
@options(AS, REQUEST, DRY_RUN)
def add_command(env: Env, holder: str, level: str, resource: str, scope: str, acting: str) -> None:
    """Grant HOLDER a LEVEL on RESOURCE: read on kb:1a2b, use on mcp:NAME, clone on repo:NAME.

    It ends with the holder's root outcome, or with --scope. As a handler you grant what you may do yourself, to
    your underlings.
    """
    from cn.agency.operations import GrantAccess

    with desk(env, acting) as opened:
        ending = opened.outcome(scope) if scope else None
        wanted = opened.wanted(level, resource, ending)
        opened.do(GrantAccess(opened.handler(holder), wanted))
        warn_of_unknown(env, opened.agency.hub, resources=[wanted.resource])


@grant.command("revoke")
@click.argument("grant", shell_complete=complete_grant)
@options(AS, REQUEST, DRY_RUN)
def revoke_command(env: Env, grant: str, acting: str) -> None:
    """Take a capability back; what was granted on from it goes with it."""
    from cn.agency.operations import RevokeAccess

    with desk(env, acting) as opened:
        opened.do(RevokeAccess(opened.grant(grant)))
