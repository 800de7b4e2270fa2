"""``cn status``, ``cn log``, and what ``inbox``, ``peer`` and ``outbox`` show. Nothing here acts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from cn.cli.complete import complete_peer, complete_thread
from cn.cli.env import Env, options
from cn.cli.render.text import align, clean, columns, grid, next_step, paint, width, wrap

if TYPE_CHECKING:  # each command imports only what it calls
    from cn.views.log import Happened
    from cn.views.thread_view import ThreadView

DEFAULT_COUNT = 50
_STATE_COLOURS = {"refused": "yellow", "decided": "cyan", "done": "green"}


@click.command("status")
@click.argument("folder", metavar="[HUB]", required=False)
@options()
def status_command(env: Env, folder: str | None) -> None:
    """One screen: what waits for whom, since when, and what fails.

    Looks only: no lock, no network. Origin and peers are shown as the last run saw them.
    """
    from cn.run.view import open_view
    from cn.views.status import read_status

    status = read_status(open_view(env.hub(folder)))
    if env.json:
        from cn.cli.render.json import status_json
        from cn.cli.render.report import show_json

        show_json(status_json(status))
    elif not env.quiet:
        from cn.cli.render.status import status_lines

        _print(status_lines(status, everything=env.verbose))


@click.command("log")
@click.option("--since", default="", metavar="WHEN", help="A date or time (UTC), or 90m, 12h, 3d back.")
@click.option("--peer", default="", shell_complete=complete_peer, help="Only what concerns this peer.")
@click.option("--thread", default="", shell_complete=complete_thread, help="Only this thread, or PEER/TOPIC.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    help=f"The last so many rows; {DEFAULT_COUNT} unless --since or --thread is given.",
)
@options()
def log_command(env: Env, since: str, peer: str, thread: str, count: int | None) -> None:
    """What happened: every action, every decision, oldest first."""
    from cn.cli.render.json import happened_json
    from cn.cli.render.report import show_json
    from cn.run.view import open_view
    from cn.views.log import Query, parse_since, read_log

    view = open_view(env.hub())
    start = parse_since(since, view.now) if since else None
    if count is None and not since and not thread:
        count = DEFAULT_COUNT
    rows = read_log(view, Query(start, peer, thread, count))
    if env.json:
        show_json([happened_json(row) for row in rows])
    elif not env.quiet:
        _print(_log_lines(rows) or ["nothing logged"])


def show_inbox(env: Env, *, everything: bool) -> None:
    """The threads that wait, oldest first; with ``everything`` those that are done too."""
    from cn.run.view import open_view
    from cn.views.threads import list_inbox

    view = open_view(env.hub())
    inbox = list_inbox(view, everything=everything, chains=env.json)
    if env.json:
        from cn.cli.render.json import thread_json
        from cn.cli.render.report import show_json

        show_json([thread_json(thread) for thread in inbox.threads])
    elif not env.quiet:
        nothing = "no threads yet" if everything else "nothing pending"
        _print(_inbox_lines(inbox.threads, view.now) or [nothing])
    for peer, reason in inbox.damaged:
        click.echo(f"damaged: {peer} is left out: {clean(reason)}; see 'cn doctor'", err=True)
    for name in inbox.unknown:
        click.echo(f"unknown: threads/inbox/{clean(name)} is no thread cn knows; not executed", err=True)


def show_thread(env: Env, thread: str) -> None:
    """A thread's document, and its chain."""
    from cn.cli.render.json import document_json
    from cn.cli.render.report import show_json
    from cn.cli.render.thread_page import show_page
    from cn.run.view import open_view
    from cn.views.thread_page import show_document

    view = open_view(env.hub())
    document = show_document(view, thread)
    if env.json:
        show_json(document_json(document))
    elif not env.quiet:
        show_page(document, view.now)


def show_peers(env: Env) -> None:
    """The peers, with route, pinned key, and whether they failed to answer."""
    from cn.cli.render.json import peer_json
    from cn.cli.render.report import show_json
    from cn.cli.render.text import since
    from cn.run.view import open_view
    from cn.views.status import list_peers

    view = open_view(env.hub())
    peers = list_peers(view)
    if env.json:
        show_json([peer_json(peer) for peer in peers])
        return
    lines: list[str] = []
    for peer in peers:
        p, gone = peer.peer, peer.unreachable
        lines.append(f"{paint(p.name, bold=True)}  {clean(p.hub)}")
        facts = [p.deliver, clean(p.kind, 60), peer.fingerprint or "no key"]
        facts += ["community"] if p.community else []
        facts += [f"peered {clean(p.peered, 30)}"] if p.peered else []
        lines += wrap("    ", ", ".join(facts))
        if gone:
            told = f"unreachable {since(gone.since, view.now)}: {clean(gone.reason)}"
            lines += [paint(line, "red") for line in wrap("    ", told)]
    if not env.quiet:
        _print(lines or ["no peers yet; add one with 'cn peer add NAME URL'"])


def show_outbox(env: Env) -> None:
    """What waits to be delivered, with attempts and reason."""
    from cn.cli.render.json import entry_json
    from cn.cli.render.report import show_json
    from cn.cli.render.status import outbox_lines
    from cn.run.view import open_view
    from cn.views.status import list_outbox

    view = open_view(env.hub())
    entries = list_outbox(view)
    if env.json:
        show_json([entry_json(entry) for entry in entries])
    elif not env.quiet:
        _print(outbox_lines(entries, view.now) or ["nothing waits to be delivered"])


def _inbox_lines(threads: tuple[ThreadView, ...], now: datetime) -> list[str]:
    from cn.cli.render.status import state_text
    from cn.cli.render.text import age

    if not threads:
        return []
    rows = [
        (
            thread.thread.removesuffix(".md"),
            str(thread.peer),
            thread.kind,
            age(thread.received, now),
            thread.signature.partition(" ")[0],
            state_text(thread),
        )
        for thread in threads
    ]
    head = ("THREAD", "FROM", "KIND", "AGE", "SIGNATURE", "STATE")
    colours = [_STATE_COLOURS.get(thread.state, "") for thread in threads]
    table = grid([head, *rows], 0, ["", *colours])
    lines = [paint(line, dim=True) for line in table[0]]
    for thread, shown in zip(threads, table[1:], strict=True):
        lines += shown + _next_step(thread)
    return lines


def _next_step(thread: ThreadView) -> list[str]:
    if thread.state == "refused":
        reason = wrap("    ", clean(thread.reason)) if thread.reason else []
        return reason + next_step(thread.remedy, 4)
    return wrap("    ", clean(thread.note)) if thread.note else []


def _log_lines(rows: list[Happened]) -> list[str]:
    cells = [
        (
            f"{h.row.at:%Y-%m-%d %H:%M}",
            clean(h.row.source or h.event, 120),
            clean(h.row.decision, 200),
            clean(h.row.executed, 400),
        )
        for h in rows
    ]
    if all(width("".join(row)) <= columns() for row in align(cells)):
        return ["".join(row).rstrip() for row in align(cells)]
    short = [(at, source, _told(decision, executed)) for at, source, decision, executed in cells]
    return [line for lines in grid(short, 1, [""] * len(short)) for line in lines]


def _told(decision: str, executed: str) -> str:
    return decision if executed == "—" else f"{decision}: {executed}"


def _print(lines: list[str]) -> None:
    for line in lines:
        click.echo(line)
