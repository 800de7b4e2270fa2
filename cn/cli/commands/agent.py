"""``cn agent``: the runtime."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cn.cli.options import DRY_RUN, Env, options


@click.command("agent")
@click.option("--daemon", is_flag=True, help="Poll Telegram, queue, run the processor, until SIGTERM.")
@click.option("--process", "process_", is_flag=True, help="Work on the next item, or on the one in flight.")
@click.option("--stdio", is_flag=True, help="Answer what stands on standard input; nothing is executed.")
@click.option("--config", type=click.Path(), metavar="PATH", help="Instead of .cn/agent.yaml in main.")
@click.option("--standby", is_flag=True, hidden=True)
@click.option("--look", is_flag=True, hidden=True)
@options(DRY_RUN)
def agent_command(
    env: Env, daemon: bool, process_: bool, stdio: bool, config: str | None, standby: bool, look: bool
) -> None:
    """Give the next item to the model, execute its answer: one cycle, for cron.

    Environment: ANTHROPIC_KEY (or ANTHROPIC_API_KEY), TELEGRAM_TOKEN.
    """
    from cn.values.errors import CnError, UsageError

    if daemon + process_ + stdio > 1:
        raise UsageError("--daemon, --process and --stdio exclude each other", "give one of them")
    if standby:
        from cn.cli.render import report as report_text  # noqa: F401  what ends the turn is loaded before, too
        from cn.runtime.turn import stand_by

        if not stand_by():
            return
    path = Path(config) if config else None
    hub = env.hub()
    if daemon:
        from cn.runtime.daemon.daemon import serve

        sys.exit(serve(hub, path))
    if stdio:
        _stdio(env, path)
        return
    from cn.runtime.turn import cycle, show_request

    if env.dry_run:
        text, report = show_request(hub, path)
        if text:
            click.echo(text, nl=False)
        env.show(report)
        return
    from cn.values.errors import EXIT_AGAIN, EXIT_MORE
    from cn.values.report import Report

    report = Report()
    try:
        more = cycle(hub, path, until_idle=not process_, report=report, look=look)
    except CnError:
        env.tell(report)
        raise

    try:
        env.show(report)
    finally:
        if more:  # a run that has to report something has work left all the same
            sys.exit(EXIT_MORE)
        if report.again and "CN_DAEMON" in os.environ:
            sys.exit(EXIT_AGAIN)


def _stdio(env: Env, path: Path | None) -> None:
    """Questions from standard input, a line each on a terminal, else all of it as one."""
    from cn.runtime.stdio import open_session
    from cn.values.report import Report

    report = Report()
    talk = open_session(env.hub(), path, report, dry_run=env.dry_run)
    if env.dry_run:
        from cn.llm.request import request_json
        from cn.system.clock import now

        click.echo(request_json(talk.pack(sys.stdin.read(), now()).request), nl=False)
        return
    for note in report.notes:
        click.echo(f"· {note.text}", err=True)
    if not sys.stdin.isatty():
        _show(talk.ask(sys.stdin.read()), markdown=False)
        return
    click.echo(f"talking to {talk.config.llm.model}; nothing is executed; end with Ctrl-D", err=True)
    while True:
        try:
            line = input("> ")
        except EOFError:
            return
        if line.strip():
            _show(talk.ask(line), markdown=True)


def _show(answer: object, *, markdown: bool) -> None:
    from cn.runtime.stdio import SpokenAnswer
    from cn.values.text import visible

    assert isinstance(answer, SpokenAnswer)
    if markdown and sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(visible(answer.text)))
    else:
        click.echo(visible(answer.text))
    for line in answer.ops:
        click.echo(f"· would {visible(line)}", err=True)
    for line in answer.problems:
        click.echo(f"refused: {visible(line)}", err=True)
