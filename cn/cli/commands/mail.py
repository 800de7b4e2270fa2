"""``cn send``, ``cn reply`` and ``cn outbox``: write to peers, and see what was not delivered yet."""

from __future__ import annotations

import click

from cn.cli.complete import complete_peer, complete_thread
from cn.cli.env import DRY_RUN, Env, options


@click.command("send")
@click.argument("peer", shell_complete=complete_peer)
@click.argument("message")
@click.option("--body", default="", help="The text; MESSAGE is then the subject.")
@options(DRY_RUN)
def send_command(env: Env, peer: str, message: str, body: str) -> None:
    """Send MESSAGE to PEER."""
    from cn.actions.mail import send

    env.show(send(env.hub(), peer, message, body=body, dry_run=env.dry_run))


@click.command("reply")
@click.argument("thread", shell_complete=complete_thread)
@click.argument("message")
@click.option("--body", default="", help="More text below the message.")
@options(DRY_RUN)
def reply_command(env: Env, thread: str, message: str, body: str) -> None:
    """Reply to THREAD; a pending thread is decided by it."""
    from cn.actions.mail import reply

    env.show(reply(env.hub(), thread, message, body=body, dry_run=env.dry_run))


@click.group("outbox", invoke_without_command=True)
@options()
def outbox(env: Env) -> None:
    """What waits to be delivered (without a subcommand: list it)."""
    if click.get_current_context().invoked_subcommand is None:
        from cn.cli.commands.views import show_outbox

        show_outbox(env)


@outbox.command("list")
@options()
def list_command(env: Env) -> None:
    """List waiting entries with reason and attempts."""
    from cn.cli.commands.views import show_outbox

    show_outbox(env)


@outbox.command("flush")
@options(DRY_RUN)
def flush_command(env: Env) -> None:
    """Deliver now, whatever the back-off says."""
    from cn.outbox.deliver import flush

    env.show(flush(env.hub(), dry_run=env.dry_run))
