"""``cn thread``, ``read``, ``adhoc``, ``daily`` … ``yearly``, ``mca``; ``cn commit``, ``push``, ``save`` for edits."""

from __future__ import annotations

import sys

import click

from cn.cli.completers import complete_any_thread, complete_concern, complete_own
from cn.cli.options import DRY_RUN, Env, Group, action, body_options, list_group, options

_BODY = body_options("The text below the head.")
_ADHOC = """Open a thread of our own, threads/adhoc/YYYYMMDD-TITLE.md.

Where the agent works a queue, it waits for the agent at once.
"""
adhoc_command = action("adhoc", "actions.threads:open_adhoc", _ADHOC, click.argument("title"), _BODY, online=True)


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
    from cn.protocol.queue_item import Cadence

    document, report = reflect(env.hub(), Cadence(name), dry_run=env.dry_run)
    if document is None:
        env.show(report)
        return
    if not env.json:
        env.tell(report, beside=True)
    env.facts(document, lambda: text_lines(document.text))
    if report.exit_code and not env.dry_run:
        sys.exit(report.exit_code)


@list_group("mca")
def mca(env: Env) -> None:
    """List the managed concerns that are open: what is to be kept in mind until it is done.

    do:custom in a thread opens one, an agent's surface (or mca) does, and 'cn mca add'.
    """
    from cn.cli.render.status import thread_lines
    from cn.protocol.own_thread import CONCERNS
    from cn.views.thread_page import list_own

    view = env.view()
    found = list_own(view, folder=f"{CONCERNS}/")
    env.facts(found, lambda: thread_lines(found, view.now) or ["no open concern"], "row")


mca.add_command(
    action("add", "actions.threads:add_concern", "Open a concern.", click.argument("description"), _BODY, online=True)
)
_END = "File the concern ID away as done. ID is its file name, or an unambiguous beginning of it."
_ID = click.argument("id", shell_complete=complete_concern)
mca.add_command(action("done", "actions.threads:end_concern", _END, _ID))


@click.group("thread", cls=Group)
def thread() -> None:
    """All threads: our own (adhoc, reflections, concerns) and those of peers."""


@thread.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the threads that have ended.")
@options()
def list_command(env: Env, everything: bool) -> None:
    """List open threads, oldest first."""
    from cn.cli.render.status import thread_lines
    from cn.views.thread_page import list_threads

    view = env.view()
    found = list_threads(view, everything=everything)
    nothing = "no threads yet" if everything else "no open thread"
    env.facts(found, lambda: thread_lines(found, view.now) or [nothing], "row")


@thread.command("show")
@click.argument("name", shell_complete=complete_any_thread)
@options()
def show_command(env: Env, name: str) -> None:
    """Show the thread NAME: a file name, a path, or a source such as adhoc/20260205-title.

    What we sent is shown too: NAME is its branch, PEER:TOPIC, or its file in threads/mail/.
    """
    from cn.cli.commands.pages import show_page
    from cn.views.sent import show_or_sent
    from cn.views.thread_page import show_any

    view = env.view()
    found = show_or_sent(view, name, show_any)
    show_page(env, view, found)


_CLOSE = "Close the thread NAME of our own; a concern is filed away as done."
_NAME = click.argument("name", shell_complete=complete_own)
_REASON = click.option("--reason", default="", help="Why.")
thread.add_command(action("close", "actions.threads:close_thread", _CLOSE, _NAME, _REASON))

_COMMIT = """Commit what you edited: adhoc threads, reflections, concerns, notes in pending threads.

On local main, without asking origin. What is staged stays staged, and nothing outside
these folders is touched. What is left out is named.
"""
_MESSAGE = click.option("-m", "--message", default=None, help="The commit's message; else it names the files.")
commit_command = action("commit", "threads.edits:commit_edits", _COMMIT, _MESSAGE)
push_command = action(
    "push", "threads.edits:push", "Bring local main together with origin's, and push it.", online=True
)
_SAVE = "Commit what you edited, and push it: 'cn commit' and 'cn push' in one."
save_command = action("save", "threads.edits:save", _SAVE, _MESSAGE, online=True)
