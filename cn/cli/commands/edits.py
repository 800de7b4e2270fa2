"""``cn commit``, ``cn push``, ``cn save``: commit and push edited files of cn's folders."""

from __future__ import annotations

import click

from cn.cli.options import DRY_RUN, Env, options

_MESSAGE = click.option("-m", "--message", default=None, help="The commit's message; else it names the files.")


@click.command("commit")
@_MESSAGE
@options(DRY_RUN)
def commit_command(env: Env, message: str | None) -> None:
    """Commit what you edited: adhoc threads, reflections, concerns, notes in pending threads.

    On local main, without asking origin. What is staged stays staged, and nothing outside
    these folders is touched. What is left out is named.
    """
    from cn.threads.edits import commit_edits

    env.show(commit_edits(env.hub(), message, dry_run=env.dry_run))


@click.command("push")
@options(DRY_RUN)
def push_command(env: Env) -> None:
    """Bring local main together with origin's, and push it."""
    from cn.threads.edits import push

    env.show(push(env.hub(), dry_run=env.dry_run))


@click.command("save")
@_MESSAGE
@options(DRY_RUN)
def save_command(env: Env, message: str | None) -> None:
    """Commit what you edited, and push it: 'cn commit' and 'cn push' in one."""
    from cn.threads.edits import save

    env.show(save(env.hub(), message, dry_run=env.dry_run))
