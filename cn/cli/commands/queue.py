"""``cn input``, ``cn queue …`` and ``cn next``."""

from __future__ import annotations

import click

from cn.cli.options import DRY_RUN, Env, list_group, options


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
