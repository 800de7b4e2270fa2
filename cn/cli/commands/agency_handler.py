"""``cn handler …``: who is responsible for what: delegation, stop, layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cn.agency.names import NO_ID, Uuid
from cn.cli.desk import Desk, desk
from cn.cli.known_here import warn_of_unknown
from cn.cli.options import DRY_RUN, REQUEST, Env, not_empty, options
from cn.cli.render.text import SHORT
from cn.cli.suggest import AS, complete_handler, complete_outcome
from cn.values.errors import UsageError
from cn.values.shell_words import command

if TYPE_CHECKING:
    from cn.agency.operations import Wanted
    from cn.agency.plan.result import Refused

_HANDLER = click.argument("handler", shell_complete=complete_handler)


@click.group("handler")
def handler() -> None:
    """Agency's handlers: who is responsible for what."""


@handler.command("list")
@options(AS)
def list_command(env: Env, acting: str) -> None:
    """Draw the handlers: who stands below whom, what each can work on, and its mail."""
    from cn.cli.render.agency import tree_lines

    with desk(env, acting) as opened:
        head = opened.facts.head()
        top: Uuid = getattr(opened.principal, "handler", head.root if head else NO_ID)
        shown: list[dict[str, Any]] = []
        branch = _branch(opened, top, shown)
        env.page(shown, lambda: tree_lines([branch]), opened.agency.hub)


def _branch(opened: Desk, id: Uuid, shown: list[dict[str, Any]]) -> Any:
    from cn.cli.render.agency import Branch, name

    facts = opened.facts
    row = facts.handler(id)
    assert row is not None, "an underling is a handler"
    open_count, mail = facts.count_open(id), len(facts.pending(id))
    live = facts.live_agent(id)
    about = {"handler": id, "boss": row.boss, "tenure": row.tenure, "open": open_count, "mail": mail}
    shown.append(about | {"runner": row.runner, "agent": live.id if live else None})
    words = [f"{open_count} open", *([f"{mail} mail"] if mail else []), *([row.runner] if row.runner else [])]
    words += [f"boss {row.boss}"] if row.boss != row.parent else []
    words += ["an agent works"] if live else []
    rows = sorted((found.since, one) for one in facts.underlings(id) if (found := facts.outcome(one)))
    below = [_branch(opened, one, shown) for _, one in rows]
    return Branch(name(id, opened.shown), below, end=f" ({', '.join(words)})")


@handler.command("show")
@_HANDLER
@options(AS)
def show_command(env: Env, handler: str, acting: str) -> None:
    """Show a handler: boss, underlings, outcomes, what it was granted, its mail and its audit log."""
    from cn.agency.plan.result import Refused
    from cn.agency.plan.views import list_outcomes, list_permissions, read_audit, read_inbox

    with desk(env, acting) as opened:
        id, principal, facts = opened.handler(handler), opened.principal, opened.facts
        row = facts.handler(id)
        assert row is not None, "it was just found"
        opened.check_above(id)
        value: dict[str, Any] = {name: part for name, part in row._asdict().items() if name != "id"}
        value = {"handler": id} | value
        for view in (
            list_outcomes(id, principal, facts, opened.now, workable=False),
            list_permissions(id, principal, facts),
            read_inbox(id, principal, facts),
            read_audit(id, principal, facts),
        ):
            if isinstance(view, Refused):
                opened.refuse(view)
            value |= view
        opened.look(value, lambda shown: _page_lines(opened, shown))


def _page_lines(opened: Desk, view: dict[str, Any]) -> list[str]:
    from cn.cli.commands.agency_grant import grant_line
    from cn.cli.render.agency import actor_name, heading, name, said, sender_of
    from cn.cli.render.text import wrap

    shown = opened.shown
    lines = [heading(name(view["handler"], shown))]
    lines.append(f"boss: {name(view['boss'], shown)}" + ("" if view["active"] else "; not active"))
    lines.append(f"tenure: {view['tenure']}; runner: {view['runner'] or 'the default'}")
    lines += [f"state document: {view['state']}", f"audit log: {view['audit']}"]
    parts: list[tuple[str, Sequence[str]]] = [
        ("underlings", [name(id, shown) for id in view["underlings"]]),
        ("outcomes", [f"{o['outcome'][:SHORT]} {said(o['title'])}" for o in view["outcomes"]]),
        ("granted to it", [grant_line(one, shown) for one in view["held"]]),
        ("granted by it", [grant_line(one, shown) for one in view["given"]]),
        ("mail", [f"{m['mail'][:SHORT]} {said(m['subject'])}, from {sender_of(m, shown)}" for m in view["mail"]]),
        ("audit log", [f"{e['time']} {actor_name(e['actor'])}: {said(e['text'])}" for e in view["entries"][-20:]]),
    ]
    for title, rows in parts:
        lines += [f"{title}:", *(line for row in rows for line in wrap("  ", row))] if rows else []
    return lines


_RUNNER = click.option(
    "--runner", default="", callback=not_empty, help="What works for it: 'person', or one that this machine defines."
)
_GRANT = click.option("--grant", "grants", multiple=True, metavar="LEVEL:RESOURCE", help="What it may do besides.")
_MESSAGE = click.option("--message", default="", callback=not_empty, help="Its first mail.")


@handler.command("delegate")
@click.argument("outcome", shell_complete=complete_outcome)
@_RUNNER
@_GRANT
@_MESSAGE
@options(AS, REQUEST, DRY_RUN)
def delegate_command(env: Env, outcome: str, runner: str, grants: tuple[str, ...], message: str, acting: str) -> None:
    """Give an OUTCOME a handler of its own, below the one that is responsible for it."""
    from cn.agency.operations import Delegate

    with desk(env, acting) as opened:
        wanted = tuple(_wanted(opened, text) for text in grants)
        opened.do(Delegate(opened.outcome(outcome), runner, wanted, message))
        warn_of_unknown(env, opened.agency.hub, runner, [one.resource for one in wanted])


def _wanted(opened: Desk, text: str) -> Wanted:
    level, colon, resource = text.partition(":")
    if not colon:
        raise UsageError(f"--grant {text[:60]!r} names no resource", "write LEVEL:RESOURCE, as in read:kb:1a2b3c4d")
    return opened.wanted(level, resource)


@handler.command("insert")
@click.argument("title")
@click.argument("outcomes", nargs=-1, required=True, shell_complete=complete_outcome)
@_RUNNER
@_MESSAGE
@options(AS, REQUEST, DRY_RUN)
def insert_command(env: Env, title: str, outcomes: tuple[str, ...], runner: str, message: str, acting: str) -> None:
    """Insert a layer: a handler with TITLE for these OUTCOMES, whose handlers notice nothing.

    They must be of one handler, delegated or not; they are grouped below a new outcome, and that is delegated.
    """
    from cn.agency.operations import CreateOutcome, Delegate, Moment, Operation, UpdateOutcome
    from cn.agency.perform import Asked

    with desk(env, acting) as opened:
        group = tuple(dict.fromkeys(map(opened.outcome, outcomes)))
        old = {id: _parents(opened, id) for id in group}
        parents = tuple(dict.fromkeys(parent for id in group for parent in old[id] if parent not in group))
        entropy = opened.entropy()
        made = Moment(opened.now, entropy).uuid("outcome")
        asked: list[Operation] = [CreateOutcome(title, "", parents)]
        asked += [UpdateOutcome(id, link=(made,), unlink=tuple(old[id])) for id in group]
        asked += [Delegate(made, runner, message=message)]
        said = "\n".join(("insert", title, runner, *group, message))
        why_not = _not_together(opened, group)
        if why_not and not env.request_id:  # else it may have been done before
            opened.refuse(why_not)
        remedies = {why_not.rule: why_not.remedy} if why_not else {}
        opened.do_all([Asked(one, opened.principal, entropy=entropy, said=said) for one in asked], remedies)
        warn_of_unknown(env, opened.agency.hub, runner)


def _not_together(opened: Desk, group: tuple[Uuid, ...]) -> Refused | None:
    """Why no layer can be put above these outcomes, by the names that were typed."""
    from cn.agency.plan.checks import open_outcome
    from cn.agency.plan.outcomes import ONE_HANDLER, OPEN_PARENT
    from cn.agency.plan.result import Refused
    from cn.agency.plan.structure import owning_handler

    hands: dict[Uuid, Uuid] = {}
    for id in group:
        row = open_outcome(id, opened.facts)
        if isinstance(row, Refused):
            return row
        hand = owning_handler(row, opened.facts)
        if hand is None:
            why = f"{opened.title(id)} is the root outcome: nothing stands above it"
            return Refused(OPEN_PARENT, why, "name outcomes below it")
        hands[hand] = id
    if len(hands) > 1:
        (one, first), (other, second) = [*hands.items()][:2]
        why = f"{opened.title(first)} is in the hands of {one}, {opened.title(second)} in those of {other}"
        return Refused(ONE_HANDLER, why, "name outcomes of one handler")
    return None


def _parents(opened: Desk, id: Uuid) -> list[Uuid]:
    """Those in the hands in which the outcome is."""
    from cn.agency.plan.structure import owning_handler

    facts, row = opened.facts, opened.facts.outcome(id)
    hands = owning_handler(row, facts) if row else None
    return [parent for parent in facts.parents(id) if (one := facts.outcome(parent)) and one.responsible == hands]


@handler.command("move")
@_HANDLER
@click.argument("boss", shell_complete=complete_handler)
@click.option(
    "--below",
    default="",
    callback=not_empty,
    shell_complete=complete_outcome,
    help="The outcome of the new boss it serves.",
)
@options(AS, REQUEST, DRY_RUN)
def move_command(env: Env, handler: str, boss: str, below: str, acting: str) -> None:
    """Give a handler another BOSS: a handler, or user:NAME."""
    from cn.agency.operations import MoveHandler

    with desk(env, acting) as opened:
        serves = opened.outcome(below) if below else None
        opened.do(MoveHandler(opened.handler(handler), opened.party(boss), serves))


@handler.command("remove")
@_HANDLER
@options(AS, REQUEST, DRY_RUN)
def remove_command(env: Env, handler: str, acting: str) -> None:
    """Take a layer out: its outcomes and underlings are its boss's, and go on."""
    from cn.agency.operations import RemoveHandler
    from cn.agency.plan.handlers import lost_by_removal
    from cn.cli.render.agency import name

    with desk(env, acting) as opened:
        id = opened.handler(handler)
        row = opened.facts.handler(id)
        lost = lost_by_removal(row, opened.facts) if row and row.active else []
        opened.do(RemoveHandler(id))
        for one in () if env.quiet else lost:
            what = f"{one.level} on {one.resource} for {name(one.holder, opened.shown)}"
            again = command("cn grant add {} {} {}", one.holder[:SHORT], one.level, one.resource)
            why = f"it was granted to {id[:SHORT]} alone"
            click.echo(
                f"· capability {one.id[:SHORT]}, {what}, has no effect then: {why}; {again} gives it anew", err=True
            )


@handler.command("audit")
@click.argument("text")
@options(AS, REQUEST, DRY_RUN)
def audit_command(env: Env, text: str, acting: str) -> None:
    """Put TEXT, what you did, into the audit log of the handler for whom you act; 'show' shows the log."""
    from cn.agency.operations import SubmitAudit

    with desk(env, acting) as opened:
        opened.do(SubmitAudit(text))


@handler.command("stop")
@_HANDLER
@options(AS, REQUEST, DRY_RUN)
def stop_command(env: Env, handler: str, acting: str) -> None:
    """Stop a handler and all below it; the open outcomes are its boss's again."""
    from cn.agency.operations import StopHandler
    from cn.cli.crowd import insist

    def stop() -> None:
        with desk(env, acting) as opened:
            opened.do(StopHandler(opened.handler(handler)))

    insist(env, "" if acting else handler, stop, whole_branch=True)
