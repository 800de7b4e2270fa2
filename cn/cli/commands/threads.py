"""``cn thread``, ``read``, ``adhoc``, ``daily`` … ``yearly``, ``mca``; ``cn commit``, ``push``, ``save`` for edits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cn.cli.completers import complete_any_thread, complete_concern, complete_own
from cn.cli.options import DRY_RUN, Env, body_options, list_group, options
from cn.cli.render.report import line

if TYPE_CHECKING:
    from cn.values.report import Report

_BODY = body_options("The text below the head.")


@click.command("adhoc")
@click.argument("title")
@_BODY
@options(DRY_RUN)
def adhoc_command(env: Env, title: str, body: str, body_file: str | None) -> None:
    """Open a thread of our own, threads/adhoc/YYYYMMDD-TITLE.md.

    Where the agent works a queue, it waits for the agent at once.
    """
    from cn.actions.threads import open_adhoc
    from cn.cli.options import read_body

    env.show(open_adhoc(env.hub(), title, read_body(body, body_file), dry_run=env.dry_run))


def _reflection(name: str, of: str) -> click.Command:
    @click.command(name, help=f"Show {of} reflection; it is opened if it is not there. Periods are UTC.")
    @options(DRY_RUN)
    def command(env: Env) -> None:
        _reflect(env, name)

    return command


daily_command = _reflection("daily", "today's")
weekly_command = _reflection("weekly", "this (ISO) week's")
monthly_command = _reflection("monthly", "this month's")
quarterly_command = _reflection("quarterly", "this quarter's")
yearly_command = _reflection("yearly", "this year's")


def _reflect(env: Env, name: str) -> None:
    from cn.actions.threads import reflect
    from cn.cli.render.thread_page import text_lines
    from cn.protocol.cadence import Cadence
    from cn.views.shapes import own_document_json

    document, report = reflect(env.hub(), Cadence(name), dry_run=env.dry_run)
    if document is None:
        env.show(report)
        return
    if not env.json:
        _beside(env, report)
    env.facts(lambda: own_document_json(document), lambda: text_lines(document.text))
    if report.exit_code and not env.dry_run:
        sys.exit(report.exit_code)


def _beside(env: Env, report: Report) -> None:
    """Notes on standard error: standard output is the text."""
    from cn.values.report import Mark

    for note in report.notes:
        wrong = note.mark in (Mark.REFUSED, Mark.FAILED)
        if (wrong or not env.quiet) and (env.verbose or not note.told_before):
            click.echo(line(note), err=True)


@list_group("mca")
def mca(env: Env) -> None:
    """List the managed concerns that are open: what is to be kept in mind until it is done."""
    from cn.cli.render.status import thread_lines
    from cn.protocol.own_thread import CONCERNS
    from cn.views.shapes import any_json
    from cn.views.thread_page import list_own

    view = env.view()
    found = list_own(view, folder=f"{CONCERNS}/")
    env.facts(lambda: [any_json(one) for one in found], lambda: thread_lines(found, view.now) or ["no open concern"])


@mca.command("add")
@click.argument("description")
@_BODY
@options(DRY_RUN)
def mca_add_command(env: Env, description: str, body: str, body_file: str | None) -> None:
    """Open a concern."""
    from cn.actions.threads import add_concern
    from cn.cli.options import read_body

    env.show(add_concern(env.hub(), description, read_body(body, body_file), dry_run=env.dry_run))


@mca.command("done")
@click.argument("id", shell_complete=complete_concern)
@options(DRY_RUN)
def mca_done_command(env: Env, id: str) -> None:
    """File the concern ID away as done. ID is its file name, or an unambiguous beginning of it."""
    from cn.actions.threads import end_concern

    env.show(end_concern(env.hub(), id, dry_run=env.dry_run))


@click.group("thread")
def thread() -> None:
    """All threads: our own (adhoc, reflections, concerns) and those of peers."""


@thread.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the threads that have ended.")
@options()
def list_command(env: Env, everything: bool) -> None:
    """List open threads, oldest first."""
    from cn.cli.render.status import thread_lines
    from cn.views.shapes import any_json
    from cn.views.thread_page import list_threads

    view = env.view()
    found = list_threads(view, everything=everything)
    env.facts(
        lambda: [any_json(one) for one in found],
        lambda: thread_lines(found, view.now) or ["no threads yet" if everything else "no open thread"],
    )


@thread.command("show")
@click.argument("name", shell_complete=complete_any_thread)
@options()
def show_command(env: Env, name: str) -> None:
    """Show the thread NAME: a file name, a path, or a source such as adhoc/20260205-title."""
    from cn.cli.render.thread_page import page_lines, text_lines
    from cn.threads.store import OwnDocument
    from cn.views.shapes import document_json, own_document_json
    from cn.views.thread_page import show_any

    view = env.view()
    found = show_any(view, name)
    if isinstance(found, OwnDocument):
        env.facts(lambda: own_document_json(found), lambda: text_lines(found.text))
    else:
        env.facts(lambda: document_json(found), lambda: page_lines(found, view.now))


@thread.command("close")
@click.argument("name", shell_complete=complete_own)
@click.option("--reason", default="", help="Why.")
@options(DRY_RUN)
def close_command(env: Env, name: str, reason: str) -> None:
    """Close the thread NAME of our own; a concern is filed away as done."""
    from cn.actions.threads import close_thread

    env.show(close_thread(env.hub(), name, reason, dry_run=env.dry_run))


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
