"""``cn inbox …`` and ``cn sync``: fetch, decide, process."""

from __future__ import annotations

from functools import partial

import click

from cn.cli.complete import complete_decision, complete_thread
from cn.cli.env import DRY_RUN, Env, options
from cn.cli.render.progress import progress


@click.group("inbox", invoke_without_command=True)
@options()
def inbox(env: Env) -> None:
    """Threads that wait for a decision (without a subcommand: list them)."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        from cn.cli.commands.views import show_inbox

        show_inbox(env, everything=False)


@inbox.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the threads that are done.")
@options()
def list_command(env: Env, everything: bool) -> None:
    """List pending threads, oldest first."""
    from cn.cli.commands.views import show_inbox

    show_inbox(env, everything=everything)


@inbox.command("show")
@click.argument("thread", shell_complete=complete_thread)
@options()
def show_command(env: Env, thread: str) -> None:
    """Show a thread, and what became of it so far."""
    from cn.cli.commands.views import show_thread

    show_thread(env, thread)


@inbox.command("sync")
@click.argument("folder", metavar="[HUB]", required=False)
@options(DRY_RUN)
def inbox_sync_command(env: Env, folder: str | None) -> None:
    """Fetch all peers, turn new branches into threads, wake the agent."""
    _sync(env, folder)


@inbox.command("triage")
@click.argument("thread", shell_complete=complete_thread)
@click.argument("decision", shell_complete=complete_decision)
@click.option("--body", default="", help="Markdown below the fields: the text of a reply.")
@click.option("--body-file", metavar="FILE", type=click.Path(), help="The same, from a file ('-': stdin).")
@click.option("--until", default="", help="For defer: a date or time (UTC), or 90m, 12h, 3d.")
@click.option("--actor", default="", help="Who decides; the hub's agent if not given.")
@click.option("--approval", default="", help="APPROVED, where the hub wants it in so many words.")
@options(DRY_RUN)
def triage_command(
    env: Env,
    thread: str,
    decision: str,
    body: str,
    body_file: str | None,
    until: str,
    actor: str,
    approval: str,
) -> None:
    """Write DECISION into THREAD.

    DECISION is delete:<reason>, defer:<reason>, delegate:<actor>, do:merge,
    do:reply:<branch> or do:custom:<description>.
    """
    from cn.cli.body import read_body
    from cn.inbox.triage import write_triage

    text = read_body(body, body_file)
    env.show(
        write_triage(
            env.hub(),
            thread,
            decision,
            body=text,
            until=until,
            actor=actor,
            approval=approval,
            dry_run=env.dry_run,
        )
    )


@inbox.command("process")
@click.argument("folder", metavar="[HUB]", required=False)
@options(DRY_RUN)
def process_command(env: Env, folder: str | None) -> None:
    """Execute decided threads: enforce the rules, act, log, deliver."""
    from cn.loop.process import process

    with progress(env.terminal, "processing") as step:
        report = process(env.hub(folder), dry_run=env.dry_run, progress=step)
    env.show(report)


@click.command("sync")
@click.argument("folder", metavar="[HUB]", required=False)
@options(DRY_RUN)
def sync_command(env: Env, folder: str | None) -> None:
    """Inbox sync and outbox delivery in one."""
    _sync(env, folder)


def _sync(env: Env, folder: str | None) -> None:
    from cn.loop.sync import finish, sync

    hub = env.hub(folder)
    with progress(env.terminal, "asking peers") as step:
        report = sync(hub, dry_run=env.dry_run, progress=step)
    env.show(report, then=partial(finish, hub))
