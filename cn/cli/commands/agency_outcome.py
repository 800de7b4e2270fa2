"""``cn outcome …``: what is to be accomplished, what for, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from cn.cli.options import DRY_RUN, REQUEST, Env, body_options, not_empty, options
from cn.cli.render.text import SHORT, clean, columns, cut, paint, rows_that_fit
from cn.cli.suggest import AS, complete_handler, complete_outcome
from cn.values.text import in_quotes

if TYPE_CHECKING:  # each command imports what it calls: the list is waited for
    from cn.agency.names import Uuid
    from cn.agency.rows import Outcome
    from cn.agency.store.outcome_list import Listed, Ready, Wanted
    from cn.cli.desk import Desk
    from cn.cli.render.agency import Branch

_OUTCOME = click.argument("outcome", shell_complete=complete_outcome)
_TEXT = body_options("The text below the title.")
_SEEN = click.option("--seen", default="", metavar="VERSION:HASH", help="The version you saw last, as it was shown.")
_WITH_CASCADE = {"open-descendants": "end these first, or close what is only for it, too, with --cascade"}
_CASCADE = click.option("--cascade", is_flag=True, help="Close what was only for it, too.")
_FIELDS = ("id", "responsible", "title", "state", "blocked")
_MOST_TREE, _DEEPEST = 1000, 100
_MOST = 2**53
"""Outcomes of a tree at most, and levels: nobody reads more, and what is drawn calls itself for each level."""
_MOST_TOLD = 100
_COLOURS = {"workable": "green", "blocked": "yellow", "completed": "bright_black", "closed": "bright_black"}


@click.group("outcome")
def outcome() -> None:
    """Agency's outcomes: what is to be accomplished, what for, and how."""


@outcome.command("list")
@click.option("--workable", is_flag=True, help="Only those about which something can be done now.")
@click.option(
    "--handler", default="", callback=not_empty, shell_complete=complete_handler, help="Only those of this handler."
)
@click.option("--depth", type=click.IntRange(0, _MOST), help="At most so many links below the root, or the handler's.")
@click.option(
    "--search",
    default="",
    callback=not_empty,
    metavar="WORDS",
    help="Only those with all these words in title or text.",
)
@click.option("--all", "everything", is_flag=True, help="Also ended ones, and more than a screen.")
@options(AS)
def list_command(
    env: Env, acting: str, handler: str, depth: int | None, search: str, *, workable: bool, everything: bool
) -> None:
    """List open outcomes, workable ones first: as many as fit the screen."""
    from cn.agency.store.outcome_list import Wanted

    if search:
        from cn.agency.plan.bounds import fit_words
        from cn.cli.desk import desk

        if refused := fit_words(search):
            with desk(env, acting) as opened:
                opened.refuse(refused)
    wanted = Wanted(None, workable, everything, search, depth)
    most = 2**31 if everything or env.json else rows_that_fit()
    listed = _list_of(env, acting, handler, wanted, most) if acting or handler else _quick(env, wanted, most)
    rows = [*((*row, "workable", "") for row in listed.workable), *listed.others] if env.json else []
    shown = {"outcomes": [dict(zip(_FIELDS, row, strict=True)) for row in rows], "count": listed.total}
    kind = "workable " if workable else "" if everything else "open "
    nothing = f"no {kind}outcome{' with all these words' if search else ''}"
    env.facts(shown, lambda: list_lines(listed) or [nothing])


def _quick(env: Env, wanted: Wanted, most: int) -> Listed:
    """Of all handlers, for a user: from the index as it is, if that is up to date."""
    import os
    import sqlite3
    import time
    from contextlib import suppress

    from cn.agency.store.outcome_list import find_state, list_outcomes, open_quickly

    state = find_state(os.path.abspath(env.hub_path or "."))
    database = open_quickly(state) if state else None
    if database is not None:
        try:
            with suppress(sqlite3.DatabaseError):  # it is damaged: who has the store open says so, and mends it
                return list_outcomes(database, wanted, int(time.time()), most)
        finally:
            database.close()
    return _list_of(env, "", "", wanted, most)


def _list_of(env: Env, acting: str, handler: str, wanted: Wanted, most: int) -> Listed:
    from cn.agency.store.look import list_outcomes
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        whose = opened.handler(handler) if handler else getattr(opened.principal, "handler", None)
        if whose:
            opened.check_above(whose)
        return list_outcomes(opened.facts, wanted._replace(handler=whose), opened.now, most)


def list_lines(listed: Listed) -> list[str]:
    """A table that fits the width, and how many more there are."""
    ready, others = listed.workable, listed.others
    lines = [paint("ID        STATE      HANDLER   TITLE", dim=True)] if ready or others else []
    form = _form("workable")
    lines += [form % row for row in _shown([(id, handler, in_quotes(title)) for id, handler, title in ready])]
    held = [(id, handler, _held_by(in_quotes(title), why)) for id, handler, title, _, why in others]
    lines += [_form(other[3]) % row for other, row in zip(others, _shown(held), strict=True)]
    if left := listed.total - len(ready) - len(others):
        lines.append(f"and {left:,} more; --all shows them, --search finds one")
    return lines


def _held_by(title: str, why: str) -> str:
    return f"{title} ({in_quotes(why)})" if why else title


def _form(state: str) -> str:
    """The line of an outcome, handler and title in that state."""
    return f"%.{SHORT}s  {paint(state, _COLOURS.get(state, ''))}{' ' * (9 - len(state))}  %.{SHORT}s  %s"


def _shown(rows: list[Ready]) -> list[Ready]:
    """The rows with titles that are visible and not too long: looked at together, of 10,000 mostly all are plain."""
    room = columns() - 2 * SHORT - 15
    titles = [row[2] for row in rows]
    whole = "".join(titles)
    plain = whole.isascii() and whole.isprintable() and ":" not in whole
    if plain and max(map(len, titles), default=0) <= room // 2:  # no character takes more than two columns
        return rows
    return [(id, handler, cut(clean(title), room)) for id, handler, title in rows]


@outcome.command("show")
@_OUTCOME
@options(AS)
def show_command(env: Env, outcome: str, acting: str) -> None:
    """Show an outcome: its text, parents, children, who is responsible, and its history."""
    from cn.agency.plan.views import view_outcome
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        id = opened.outcome(outcome)
        opened.look(
            view_outcome(id, opened.principal, opened.facts, opened.now), lambda view: _page_lines(opened, view)
        )


def _page_lines(opened: Desk, view: dict[str, Any]) -> list[str]:
    from cn.agency.plan.views import outcome_history
    from cn.cli.render.agency import event_cells, heading, name, said
    from cn.cli.render.text import grid, wrap
    from cn.cli.render.thread_page import text_lines

    shown, id = opened.shown, view["outcome"]
    fields = {
        "outcome": id,
        "state": _state(view, opened) + _held(view, opened),
        "responsible": name(view["responsible"], shown),
        "decided by": name(view["decided_by"], shown) + (", which delegated it" if view["delegated"] else ""),
        "seen": f"{view['version']}:{view['hash'][:12]}",
    }
    lines = [heading(said(view["title"])), *(line for key in fields for line in wrap(f"{key}: ", fields[key]))]
    body = view["markdown"].split("\n---\n", 1)[1].strip("\n").partition("\n")[2].strip("\n")
    # Behind a mark, which no field and no heading has: the text may look like them.
    lines += ["", *(f"> {line}".rstrip() for line in text_lines(body)), ""] if body else []
    for word in ("parents", "children"):
        rows = [f"  {one['outcome'][:SHORT]} {_state(one, opened)} {said(one['title'])}" for one in view[word]]
        lines += [f"{word}:", *(cut(row, columns()) for row in rows)] if rows else []
    cells = [("", *event_cells(event, shown)) for event in outcome_history(id, opened.facts)[-_MOST_TOLD:]]
    return [*lines, "history:", *(line for row in grid(cells, 2, [""] * len(cells)) for line in row)]


def _held(view: dict[str, Any], opened: Desk) -> str:
    """What an outcome waits for, or waited for until a time that is past."""
    from cn.cli.render.agency import said

    reason, until = view["blocked"], view["until"]
    if reason and not _is_blocked(view, opened):
        return f"; it was blocked until {until}: {said(reason)}"
    return f", {said(reason)}" + (f" until {until}" if until else "") if reason else ""


def _state(view: dict[str, Any], opened: Desk) -> str:
    if view["status"] != "open":
        return str(view["status"])
    return "workable" if view["workable"] else "blocked" if _is_blocked(view, opened) else "waiting"


def _is_blocked(view: dict[str, Any], opened: Desk) -> bool:
    """Is it still? Times are compared as they are written: all in one form."""
    from cn.values.timestamps import format_second

    return bool(view["blocked"]) and (view["until"] is None or view["until"] > format_second(opened.now))


@outcome.command("create")
@click.argument("title")
@click.option("--parent", "parents", multiple=True, shell_complete=complete_outcome, help="What it is good for.")
@_TEXT
@options(AS, REQUEST, DRY_RUN)
def create_command(env: Env, title: str, parents: tuple[str, ...], body: str, acting: str) -> None:
    """Create an outcome below others: without --parent below the root, or that of the handler you act for."""
    from cn.agency.operations import CreateOutcome
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        above = parents or (str(getattr(opened.principal, "handler", "root")),)
        opened.do(CreateOutcome(title, body, tuple(map(opened.outcome, above))))


@outcome.command("update")
@_OUTCOME
@click.option("--title", default=None, help="Another title.")
@_TEXT
@_SEEN
@options(AS, REQUEST, DRY_RUN)
def update_command(env: Env, outcome: str, title: str | None, body: str, seen: str, acting: str) -> None:
    """Change title or text of an outcome, in place of the version that you saw."""
    from cn.agency.operations import UpdateOutcome
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        id = opened.outcome(outcome)
        opened.do(UpdateOutcome(id, title, body or None, opened.seen(id, seen)), _stale(opened, id))


def _stale(opened: Desk, id: Uuid) -> dict[str, str]:
    """What to type for a version that was not the latest."""
    from cn.agency.plan.checks import STALE

    row = opened.facts.file(id)
    shown = f"{row.version}:{row.hash[:12]}" if row else "VERSION:HASH"
    return {STALE: f"{opened.typed('cn outcome show {}', id[:SHORT])} shows what it says now; then --seen {shown}"}


@outcome.command("block")
@_OUTCOME
@click.argument("reason", required=False, default="")
@click.option(
    "--until",
    default="",
    callback=not_empty,
    metavar="WHEN",
    help="Until a date or time (UTC), tomorrow, or 3d from now.",
)
@click.option("--lift", is_flag=True, help="Something can be done about it again.")
@options(AS, REQUEST, DRY_RUN)
def block_command(env: Env, outcome: str, reason: str, until: str, acting: str, *, lift: bool) -> None:
    """Say that nothing can be done about an outcome now, for a REASON."""
    from cn.agency.operations import BlockOutcome
    from cn.values.timestamps import parse_until

    if lift is bool(reason) or (lift and until):
        raise click.UsageError("give a REASON, or --lift and nothing else")
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        at = parse_until(until, opened.now) if until else None
        id = opened.outcome(outcome)
        opened.do(BlockOutcome(id, reason, at), said=f"{id} {until} {reason}")


@outcome.command("complete")
@_OUTCOME
@click.option("--rationale", default="", help="Why it counts as done.")
@_CASCADE
@options(AS, REQUEST, DRY_RUN)
def complete_command(env: Env, outcome: str, rationale: str, acting: str, *, cascade: bool) -> None:
    """Mark an outcome as accomplished; if it is delegated, its handler ends, and all that was granted for it."""
    from cn.agency.operations import CompleteOutcome
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        opened.do(CompleteOutcome(opened.outcome(outcome), rationale, cascade), _WITH_CASCADE)


@outcome.command("close")
@_OUTCOME
@click.argument("rationale")
@_CASCADE
@options(AS, REQUEST, DRY_RUN)
def close_command(env: Env, outcome: str, rationale: str, acting: str, *, cascade: bool) -> None:
    """Give an outcome up, for a reason that stays in it."""
    from cn.agency.operations import CloseOutcome
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        opened.do(CloseOutcome(opened.outcome(outcome), rationale, cascade), _WITH_CASCADE)


def _linking(name: str, help: str) -> None:
    @outcome.command(name, help=help)
    @click.argument("child", shell_complete=complete_outcome)
    @click.argument("parent", shell_complete=complete_outcome)
    @options(AS, REQUEST, DRY_RUN)
    def command(env: Env, child: str, parent: str, acting: str) -> None:
        from cn.agency.operations import UpdateOutcome
        from cn.cli.desk import desk

        with desk(env, acting) as opened:
            ids = (opened.outcome(parent),)
            opened.do(UpdateOutcome(opened.outcome(child), **{name: ids}))  # type: ignore[arg-type]


_linking("link", "CHILD is also a way to accomplish PARENT.")
_linking("unlink", "CHILD is no longer a way to accomplish PARENT.")


@outcome.command("tree")
@click.argument("outcome", required=False, default="", shell_complete=complete_outcome)
@click.option("--depth", type=click.IntRange(0, _DEEPEST), help="At most so many levels below it.")
@click.option("--all", "everything", is_flag=True, help="Ended ones too.")
@options(AS)
def tree_command(env: Env, outcome: str, depth: int | None, acting: str, *, everything: bool) -> None:
    """Draw an outcome and what stands below it: how it is to be accomplished. Without OUTCOME, the root, or that of the
    handler for whom you act.
    """
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        id = opened.outcome(outcome or getattr(opened.principal, "handler", "root"))
        facts = opened.facts

        def next_of(one: Uuid) -> Sequence[Uuid]:
            return [c for c in facts.children(one) if everything or ((row := facts.outcome(c)) and row.is_open)]

        _draw(opened, id, next_of, depth)


@outcome.command("why")
@_OUTCOME
@options(AS)
def why_command(env: Env, outcome: str, acting: str) -> None:
    """Draw what an outcome is good for: its parents, theirs, up to the root."""
    from cn.cli.desk import desk

    with desk(env, acting) as opened:
        _draw(opened, opened.outcome(outcome), opened.facts.parents, None)


def _draw(opened: Desk, id: Uuid, next_of: Callable[[Uuid], Sequence[Uuid]], depth: int | None) -> None:
    from cn.agency.names import Resource
    from cn.cli.render.agency import tree_lines

    opened.check_read(Resource("outcome", id))
    shown: dict[Uuid, dict[str, Any]] = {}
    branch = _branch(opened, id, next_of, _DEEPEST if depth is None else depth, shown)
    left = any(one not in shown for row in shown.values() for one in row["next"])
    value = {"outcomes": list(shown.values()), "more": left}
    opened.env.page(value, lambda: tree_lines([branch]), opened.agency.hub)


def _branch(
    opened: Desk, id: Uuid, next_of: Callable[[Uuid], Sequence[Uuid]], depth: int, shown: dict[Uuid, dict[str, Any]]
) -> Branch:
    """Each outcome once with what follows on it; met again, it is only named."""
    from cn.cli.render.agency import Branch, said

    facts, row = opened.facts, opened.facts.outcome(id)
    assert row is not None, "a link names outcomes"
    state = _state_of(row, opened)
    given = facts.handler(id)
    marks = (
        [state] + (["handler"] if given and given.active else []) + ([_why(opened, row)] if state == "blocked" else [])
    )
    # The mark at the end of the title stays where that is cut.
    text, end = f"{id[:SHORT]} {said(row.title, 120)[:-1]}", f'" ({", ".join(marks)})'
    if id in shown:
        return Branch(text, (), "bright_black", f"{end}, as above")
    following = next_of(id)
    shown[id] = {"outcome": id, "title": row.title, "state": state, "next": [*following]}
    if depth == 0 and following:
        return Branch(text, (), _COLOURS.get(state, ""), f"{end}, {len(following)} more")
    below: list[Branch] = []
    for number, one in enumerate(following):
        if len(shown) >= _MOST_TREE:
            below.append(Branch(f"and {len(following) - number} more; give an outcome, or --depth"))
            break
        below.append(_branch(opened, one, next_of, depth - 1, shown))
    return Branch(text, below, _COLOURS.get(state, ""), end)


def _why(opened: Desk, row: Outcome) -> str:
    from cn.agency.plan.shown import NOT_SHOWN
    from cn.cli.render.agency import said

    why = opened.shown.blocked(row)
    return why if why == NOT_SHOWN else said(why, 30)


def _state_of(row: Outcome, opened: Desk) -> str:
    if not row.is_open:
        return row.status
    if row.blocked and (row.until is None or row.until > opened.now):
        return "blocked"
    return "waiting" if opened.facts.has_open_child(row.id) else "workable"
