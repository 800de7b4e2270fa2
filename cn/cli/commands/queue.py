"""``cn input``, ``cn out …``, ``cn queue …`` and ``cn next``."""

from __future__ import annotations

from collections.abc import Callable

import click

from cn.cli.completers import complete_peer
from cn.cli.options import DRY_RUN, Env, deciding, list_group, options
from cn.protocol import ops


@click.command("input")
@options()
def input_command(env: Env) -> None:
    """Print the one item that waits for an answer."""
    from cn.agent.interface import is_answered, read_input
    from cn.cli.render.report import show_json
    from cn.views.shapes import input_json

    hub = env.hub()
    text = read_input(hub)
    if env.json:
        show_json(input_json(text))
        return
    if text is None:
        click.echo("nothing waits for an answer")
        return
    from cn.values.text import visible

    click.echo(visible(text), nl=False)
    if is_answered(hub) and not env.quiet:
        click.echo("· it has its answer; 'cn inbox process' executes it", err=True)


@click.group("out")
@options()
def out(env: Env) -> None:
    """Answer the current item: do, defer, delegate or delete.

    One answer per item. It is written to state/output.md; 'cn inbox process' executes it.
    """


@out.group("do")
@options()
def do(env: Env) -> None:
    """Complete the item with an operation."""


def _write(env: Env, make: Callable[[str], ops.Op]) -> None:
    from cn.agent.interface import write_output

    env.show(write_output(env.hub(), make, dry_run=env.dry_run))


@do.command("reply")
@click.option("--message", required=True, help="The text that goes to the sender.")
@options(DRY_RUN)
def reply_command(env: Env, message: str) -> None:
    """Answer the sender; the message is appended to the thread."""
    _write(env, lambda id: ops.Reply(id, message))


@do.command("send")
@click.option("--to", required=True, shell_complete=complete_peer, help="A peer.")
@click.option("--message", required=True, help="The subject, and the text if there is no body.")
@click.option("--body", default="", help="The text.")
@options(DRY_RUN)
def send_command(env: Env, to: str, message: str, body: str) -> None:
    """Send a message to a peer; the item is acknowledged."""
    _write(env, lambda id: ops.Send(to, message, body))


@do.command("noop")
@click.option("--reason", required=True, help="Why nothing is to be done: what you found.")
@options(DRY_RUN)
def noop_command(env: Env, reason: str) -> None:
    """Acknowledge, nothing to do."""
    _write(env, lambda id: ops.Noop(id, reason))


@do.command("ack")
@click.option("--reason", required=True, help="What you take from it.")
@options(DRY_RUN)
def ack_command(env: Env, reason: str) -> None:
    """Acknowledge."""
    _write(env, lambda id: ops.Ack(id, reason))


@do.command("surface")
@click.option("--desc", required=True, help="What should be done, in one line.")
@options(DRY_RUN)
def surface_command(env: Env, desc: str) -> None:
    """Open a managed concern; the community's peers learn of it."""
    _write(env, lambda id: ops.Surface(desc))


@do.command("commit")
@click.option("--artifact", required=True, help="A file of main, or the full id of an object.")
@options(DRY_RUN)
def commit_command(env: Env, artifact: str) -> None:
    """Record what was made, by its object id."""
    _write(env, lambda id: ops.Commit(id, artifact))


@out.command("defer")
@click.option("--reason", required=True, help="What it waits for.")
@deciding("--until", "A date or time (UTC), or 90m, 12h, 3d.")
@options(DRY_RUN)
def defer_command(env: Env, reason: str, until: str) -> None:
    """Put the item off."""
    _write(env, lambda id: ops.Defer(id, until, reason))


@out.command("delegate")
@click.option("--to", required=True, shell_complete=complete_peer, help="A peer or a reviewer.")
@options(DRY_RUN)
def delegate_command(env: Env, to: str) -> None:
    """Hand the item to a peer, or to a reviewer of this hub."""
    _write(env, lambda id: ops.Delegate(id, to))


@out.command("delete")
@click.option("--reason", required=True, help="Why it is discarded; the sender reads it.")
@options(DRY_RUN)
def delete_command(env: Env, reason: str) -> None:
    """Discard the item."""
    _write(env, lambda id: ops.Delete(id, reason))


@click.command("next")
@options(DRY_RUN)
def next_command(env: Env) -> None:
    """Give the agent its next item, if it has none."""
    from cn.actions.queue import next_item

    env.show(next_item(env.hub(), dry_run=env.dry_run))


@list_group("queue")
def queue(env: Env) -> None:
    """List what the agent has, what waits for it, and what was given up."""
    from cn.cli.render.queue import queue_lines
    from cn.run.view import has_agent
    from cn.views.queue import read_queue
    from cn.views.shapes import queue_json

    view = env.view()
    found = read_queue(view)
    env.facts(lambda: queue_json(found), lambda: queue_lines(found, fed=has_agent(view)))


@queue.command("clear")
@options(DRY_RUN)
def clear_command(env: Env) -> None:
    """Take everything that waits out of the queue; the threads stay."""
    from cn.actions.queue import clear

    env.show(clear(env.hub(), dry_run=env.dry_run))


@queue.command("retry")
@click.argument("id")
@options(DRY_RUN)
def retry_command(env: Env, id: str) -> None:
    """Queue a dead letter again, by its ID or the name of its thread."""
    from cn.actions.queue import retry

    env.show(retry(env.hub(), id, dry_run=env.dry_run))
