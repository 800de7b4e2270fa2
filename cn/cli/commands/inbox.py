"""``cn inbox …`` and ``cn sync``: fetch, decide, process."""

from __future__ import annotations

from functools import partial

import click

from cn.cli.completers import complete_decision, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, FOLDER, Env, body_options, deciding, list_group, options


@list_group("inbox", click.option("--all", "everything", is_flag=True, help="Also the threads that are done."))
def inbox(env: Env, everything: bool) -> None:
    """List the threads that wait for a decision, oldest first."""
    from cn.cli.render.status import inbox_lines
    from cn.cli.render.text import clean
    from cn.views.shapes import thread_json
    from cn.views.threads import list_inbox

    view = env.view()
    found = list_inbox(view, everything=everything, chains=env.json)
    nothing = "no threads yet" if everything else "nothing pending"
    env.facts(
        lambda: [thread_json(thread) for thread in found.threads],
        lambda: inbox_lines(found.threads, view.now) or [nothing],
    )
    for peer, reason in found.damaged:
        click.echo(f"damaged: {peer} is left out: {clean(reason)}; see 'cn doctor'", err=True)
    for name in found.unknown:
        click.echo(f"unknown: threads/inbox/{clean(name)} is no thread cn knows; not executed", err=True)


@inbox.command("show")
@click.argument("thread", shell_complete=complete_thread)
@options()
def show_command(env: Env, thread: str) -> None:
    """Show a thread, and what became of it so far."""
    from cn.cli.render.thread_page import page_lines
    from cn.views.shapes import document_json
    from cn.views.thread_page import show_document

    view = env.view()
    document = show_document(view, thread)
    env.facts(lambda: document_json(document), lambda: page_lines(document, view.now))


@inbox.command("sync")
@FOLDER
@options(DRY_RUN)
def inbox_sync_command(env: Env) -> None:
    """Fetch all peers, turn new branches into threads, wake the agent."""
    _sync(env)


@inbox.command("triage")
@click.argument("thread", shell_complete=complete_thread)
@click.argument("decision", shell_complete=complete_decision)
@body_options("Markdown below the fields: the text of a reply.")
@deciding("--until", "For defer: a date or time (UTC), or 90m, 12h, 3d.")
@ACTOR
@deciding("--approval", "APPROVED, where the hub wants it in so many words.")
@options(DRY_RUN)
def triage_command(env: Env, thread: str, decision: str, body: str, body_file: str | None, **fields: str) -> None:
    """Write DECISION into THREAD.

    DECISION is delete:<reason>, defer:<reason>, delegate:<actor>, do:merge,
    do:reply:<branch> or do:custom:<description>.
    """
    from cn.cli.options import read_body
    from cn.inbox.triage import write_triage

    text = read_body(body, body_file)
    env.show(write_triage(env.hub(), thread, decision, body=text, dry_run=env.dry_run, **fields))


@inbox.command("process")
@FOLDER
@options(DRY_RUN)
def process_command(env: Env) -> None:
    """Execute decided threads: enforce the rules, act, log, deliver."""
    from cn.loop.process import process

    with env.progress("processing") as step:
        report = process(env.hub(), dry_run=env.dry_run, progress=step)
    env.show(report)


@click.command("sync")
@FOLDER
@options(DRY_RUN)
def sync_command(env: Env) -> None:
    """Inbox sync and outbox delivery in one."""
    _sync(env)


def _sync(env: Env) -> None:
    from cn.loop.sync import finish, sync

    hub = env.hub()
    with env.progress("asking peers") as step:
        report = sync(hub, dry_run=env.dry_run, progress=step)
    env.show(report, then=partial(finish, hub))
