"""``cn send``, ``cn reply`` and ``cn outbox``: write to peers, and see what was not delivered yet."""

from __future__ import annotations

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import DRY_RUN, Env, list_group, options


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


@list_group("outbox")
def outbox(env: Env) -> None:
    """List what waits to be delivered, with reason and attempts."""
    from cn.cli.render.status import outbox_lines
    from cn.views.outbox import list_outbox
    from cn.views.shapes import entry_json

    view = env.view()
    entries = list_outbox(view)
    env.facts(
        lambda: [entry_json(entry) for entry in entries],
        lambda: outbox_lines(entries, view.now) or ["nothing waits to be delivered"],
    )


@outbox.command("flush")
@options(DRY_RUN)
def flush_command(env: Env) -> None:
    """Deliver now, whatever the back-off says."""
    from cn.outbox.deliver import flush

    env.show(flush(env.hub(), dry_run=env.dry_run))
