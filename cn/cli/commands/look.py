"""``cn status``, ``cn log``, ``cn completion``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import FOLDER, SINCE, Env, options
from cn.cli.render.text import align, clean, columns, grid, width
from cn.values.errors import EXIT_REFUSED

if TYPE_CHECKING:  # each command imports only what it calls
    from cn.views.log import LoggedAction
    from cn.views.status import Status

DEFAULT_COUNT = 50


@click.command("status")
@FOLDER
@click.option("--check", is_flag=True, help="End with 1 while anything is refused, fails or stops all runs.")
@options()
def status_command(env: Env, *, check: bool) -> None:
    """One screen: what waits for whom, since when, and what fails.

    Looks only: no lock, no network. Origin and peers are shown as the last run saw them.
    """
    from cn.views.status import read_status

    view = env.view()
    status = read_status(view)
    env.facts(status, lambda: _status_lines(status, view.settings.config.warn_after, everything=env.verbose))
    if check and status.troubled:
        sys.exit(EXIT_REFUSED)


def _status_lines(status: Status, warn_after: int, *, everything: bool) -> list[str]:
    if sys.stdout.isatty():
        from cn.cli.render.status_screen import screen_lines

        return screen_lines(status, warn_after, everything=everything)
    from cn.cli.render.status import status_lines

    return status_lines(status, everything=everything)


@click.command("log")
@SINCE
@click.option("--peer", default="", shell_complete=complete_peer, help="Only what concerns this peer.")
@click.option(
    "--thread", default="", shell_complete=complete_thread, help="Only this thread, or PEER/TOPIC, or PEER:TOPIC."
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    help=f"The last so many rows; {DEFAULT_COUNT} unless --since or --thread is given.",
)
@options()
def log_command(env: Env, since: str, peer: str, thread: str, count: int | None) -> None:
    """What happened: every action, every decision, oldest first."""
    from cn.views.log import read_log, read_since

    view = env.view()
    start = read_since(since, view.now) if since else None
    if count is None and not since and not thread:
        count = DEFAULT_COUNT
    rows = read_log(view, start, peer, thread, count)
    env.facts(rows, lambda: _log_lines(rows) or ["nothing logged"])


def _log_lines(rows: list[LoggedAction]) -> list[str]:
    heads = [(f"{h.row.at:%Y-%m-%d %H:%M}", clean(h.row.source or h.event, 120)) for h in rows]
    told = [(clean(h.row.decision, 200), clean(h.row.executed, 400)) for h in rows]
    wide = align([(*head, *words) for head, words in zip(heads, told, strict=True)])
    if all(width("".join(row)) <= columns() for row in wide):
        return ["".join(row).rstrip() for row in wide]
    short = [decision if executed == "—" else f"{decision}: {executed}" for decision, executed in told]
    table = [(*head, words) for head, words in zip(heads, short, strict=True)]
    return [line for lines in grid(table, 1, [""] * len(table)) for line in lines]


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL: commands, options, threads and peers.

    \b
    bash (4.4 or newer):
           cn completion bash > ~/.local/share/bash-completion/completions/cn
           (or in ~/.bashrc:  eval "$(cn completion bash)")
    zsh:   cn completion zsh > a folder of your $fpath, as _cn
           (or in ~/.zshrc, after compinit:  eval "$(cn completion zsh)")
    fish:  cn completion fish > ~/.config/fish/completions/cn.fish

    Then open a new shell.
    """  # noqa: D301  click reads the backspace itself
    from click.shell_completion import get_completion_class

    from cn.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    # The script as click has it, without starting bash to ask for its version.
    source = found(cli, {}, "cn", "_CN_COMPLETE")
    click.echo(source.source_template % source.source_vars())
