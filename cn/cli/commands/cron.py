"""``cn cron``: the two crontab lines that run a hub."""

from __future__ import annotations

import click

from cn.cli.options import DRY_RUN, Env, options


@click.group("cron")
def cron() -> None:
    """The lines of this hub in your crontab.

    One line syncs, one processes. cron mails you what they print, and they print nothing but
    errors. Other lines of your crontab are left alone.
    """


@cron.command("show")
@options()
def show_command(env: Env) -> None:
    """Show the lines that are installed, or those that 'cn cron install' would add."""
    from cn.actions.cron import read_jobs
    from cn.cli.render.report import show_json

    table = read_jobs(env.hub())
    if env.json:
        show_json(table.as_json())
        return
    if not table.installed:
        click.echo("not installed; 'cn cron install' adds:", err=True)
    for line in table.installed or table.wanted:
        click.echo(line)


@cron.command("install")
@click.option("--sync-every", type=int, default=5, metavar="MIN", show_default=True, help="Minutes.")
@click.option("--process-every", type=int, default=15, metavar="MIN", show_default=True, help="Minutes.")
@options(DRY_RUN)
def install_command(env: Env, sync_every: int, process_every: int) -> None:
    """Add both lines to your crontab, or bring them up to date."""
    from cn.actions.cron import install

    env.show(install(env.hub(), sync_every, process_every, dry_run=env.dry_run))


@cron.command("remove")
@options(DRY_RUN)
def remove_command(env: Env) -> None:
    """Take the lines of this hub out of your crontab."""
    from pathlib import Path

    from cn.actions.cron import remove, root_of

    root = root_of(Path(env.hub_path) if env.hub_path else None)
    env.show(remove(root, dry_run=env.dry_run))
