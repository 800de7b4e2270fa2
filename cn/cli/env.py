"""What every command shares: its options, the hub it works on, and how it prints its answer."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cn.values.errors import EXIT_DONE, Refused

if TYPE_CHECKING:  # `cn --version` needs none of it
    from cn.git.repository import Hub
    from cn.values.report import Report


@dataclass
class Env:
    """The common options of one invocation."""

    hub_path: str = ""
    json: bool = False
    dry_run: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def terminal(self) -> bool:
        """Does a person watch, so that progress and colour make sense?"""
        return sys.stderr.isatty() and not self.quiet and not self.json

    def hub(self, argument: str | None = None) -> Hub:
        """The hub: ``--hub``, then the positional argument, then upwards from here."""
        if os.environ.get("CN_ROLE") == "agent" and (self.hub_path or argument):
            raise Refused("an agent may not choose the hub", "leave out --hub; it works in the hub around it")
        from pathlib import Path

        from cn.git.repository import open_hub

        chosen = self.hub_path or argument
        return open_hub(Path(chosen) if chosen else None)

    def tell(self, report: Report) -> None:
        """Render a report; the command goes on."""
        from cn.cli.render.report import show_report

        show_report(report, json=self.json, quiet=self.quiet, verbose=self.verbose)

    def show(self, report: Report, then: Callable[[Report], None] | None = None) -> None:
        """Render a report, do what could wait for that, and end the command with its exit code."""
        self.tell(report)
        if then is not None:
            then(report)
        if report.exit_code != EXIT_DONE and not self.dry_run:
            sys.exit(report.exit_code)


def _shared(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Store a common option in the :class:`Env`, before or after the command's name."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        env = ctx.ensure_object(Env)
        if value:
            setattr(env, name, value)

    return callback


HUB = click.option(
    "--hub",
    metavar="DIR",
    type=click.Path(),
    expose_value=False,
    callback=_shared("hub_path"),
    help="The hub to work on; else the one around the current folder.",
)
JSON = click.option(
    "--json", is_flag=True, expose_value=False, callback=_shared("json"), help="Print facts as JSON."
)
DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    expose_value=False,
    callback=_shared("dry_run"),
    help="Show what would be done; change nothing.",
)
QUIET = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_shared("quiet"), help="Only errors."
)
VERBOSE = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_shared("verbose"),
    help="Also what was told before.",
)


def options(*extra: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The common options of a command, and its :class:`Env` as first argument."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(click.get_current_context().ensure_object(Env), *args, **kwargs)

        wrapped: Any = call
        for option in (VERBOSE, QUIET, JSON, *extra, HUB):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate
