"""``cn inbox …`` and ``cn sync``: fetch, decide, process."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from cn.cli.completers import THREAD, complete_decision, complete_peer
from cn.cli.options import ACTOR, DRY_RUN, FOLDER, HEAD, Env, action, body_options, deciding, list_group, options

if TYPE_CHECKING:
    from cn.values.names import Name


_ALL = click.option("--all", "everything", is_flag=True, help="Also the threads that are done, however many wait.")
_PEER = click.option("--peer", default="", shell_complete=complete_peer, help="Only this peer's, however many.")


@list_group("inbox", _ALL, _PEER)
def inbox(env: Env, everything: bool, peer: str) -> None:
    """List the threads that wait for a decision, in the order in which they were written.

    On a terminal no more than fit, some of every peer's; a line says of whom there are more.
    """
    from cn.cli.render.status import inbox_lines
    from cn.cli.render.text import clean, rows_that_fit
    from cn.views.threads import list_inbox, of_peer
    from cn.views.words import untold

    view = env.view()
    found = list_inbox(view, everything=everything, chains=env.json)
    if peer:
        found = of_peer(view, found, peer)
    of_them = untold(one for one, _ in found.damaged)
    nothing = "no threads yet" if everything else "nothing pending"
    signed = any(one.key for one in view.settings.peers.values())
    room = sys.maxsize if everything or peer or env.verbose else rows_that_fit()
    env.facts(
        found.threads,
        lambda: (
            inbox_lines(found.threads, view.now, signed=signed, room=room)
            or [(f"{nothing} from {peer}" if peer else nothing) + of_them]
        ),
    )
    for damaged, reason in found.damaged:
        click.echo(f"damaged: {damaged} is left out: {clean(reason)}; see 'cn doctor'", err=True)
    for name in found.unknown:
        click.echo(f"unknown: threads/inbox/{clean(name)} is no thread cn knows; not executed", err=True)


@inbox.command("show")
@THREAD
@options()
def show_command(env: Env, thread: str) -> None:
    """Show a thread, what became of it so far, and which decisions would end it; or what we sent, by its branch
    or PEER:TOPIC.

    On a terminal in colours, and beyond a screen in the pager that git uses.
    """
    from cn.cli.commands.pages import show_page
    from cn.views.sent import show_or_sent
    from cn.views.thread_page import show_document

    view = env.view()
    document = show_or_sent(view, thread, show_document)
    show_page(env, view, document)


_DECIDE = """Write DECISION into THREAD.

DECISION is delete:<reason>, defer:<reason>, delegate:<actor>, do:merge,
do:reply:<branch> or do:custom:<description>.

defer, and delegate to a reviewer, keep the thread. All others are final: the thread is
done, its creator is told and deletes the branch. 'cn comment' says something and
decides nothing. Nothing is executed before 'cn inbox process'; until then another
decision takes the place of this one, and 'git restore threads/inbox/FILE' takes it back.

It is about the head that --head says, else about the one that you were shown last:
where the branch moved since, nothing is written.

An agent's ops have names of their own: reply is do:reply, surface is do:custom.
"""
inbox.add_command(
    action(
        "triage",
        "inbox.triage:write_triage",
        _DECIDE,
        THREAD,
        click.argument("decision", shell_complete=complete_decision),
        body_options("Markdown below the fields: the text of a reply."),
        deciding("--until", "For defer: a date or time (UTC), tomorrow, tuesday, or 12h, 3d."),
        ACTOR,
        HEAD,
        deciding("--approval", "APPROVED, where the hub wants it in so many words."),
    )
)


@inbox.command("process")
@FOLDER
@options(DRY_RUN)
def process_command(env: Env) -> None:
    """Execute decided threads: enforce the rules, act, log, deliver."""
    with env.online() as hub, env.progress("processing") as step:
        from cn.loop.process import process

        report = process(hub, dry_run=env.dry_run, progress=step)
    env.show(report)


@click.command("sync")
@FOLDER
@options(DRY_RUN)
def sync_command(env: Env) -> None:
    """Inbox sync and outbox delivery in one."""
    sync_peers(env)


_INBOX_SYNC = "Fetch all peers, turn new branches into threads, wake the agent."
inbox.command("sync", help=_INBOX_SYNC)(FOLDER(options(DRY_RUN)(lambda env: sync_peers(env))))


def sync_peers(env: Env, only: list[Name] | None = None, *, force: bool = False) -> None:
    """Sync with all peers, or ``only`` these; ``force``: whatever the back-off says."""
    from cn.loop.sync import finish, sync

    hub = env.hub()
    with env.progress("asking peers") as step:
        report = sync(hub, only=only, force=force, dry_run=env.dry_run, progress=step)
    env.show(report, then=partial(finish, hub))
