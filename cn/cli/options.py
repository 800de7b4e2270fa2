"""What every command shares: its options, the hub it works on, and how it answers."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cn.inherited import closed
from cn.values.errors import EXIT_DONE, Refused, UsageError

if TYPE_CHECKING:  # `cn --version` needs none of it
    from cn.git.repository import Hub
    from cn.run.view import View
    from cn.values.report import Report


@dataclass(eq=False, repr=False)
class Env:
    """The common options of one invocation; ``folder`` is the argument HUB, ``did``: Agency's records have it."""

    hub_path: str = ""
    folder: str = ""
    json: bool = False
    dry_run: bool = False
    quiet: bool = False
    verbose: bool = False
    request_id: str = ""
    did: bool = False

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[str], None] | None]:
        """A bar on a terminal; yields a callback that names what has answered, None where nobody watches."""
        if not sys.stderr.isatty() or self.quiet or self.json:
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}"), TimeElapsedColumn()
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=None, last="")
            yield lambda key: bar.update(task, advance=1, last=key)

    def hub(self) -> Hub:
        """The hub: ``--hub``, then the argument HUB, then upwards from here."""
        chosen = self.hub_path or self.folder
        if os.environ.get("CN_ROLE") == "agent" and chosen:
            raise Refused("an agent may not choose the hub", "leave out --hub; it works in the hub around it")
        from pathlib import Path

        from cn.git.repository import open_hub, share

        hub = share(open_hub(Path(chosen) if chosen else None))
        note_place(hub)
        return hub

    @contextmanager
    def online(self) -> Iterator[Hub]:
        """The hub, for what is sure to ask origin: where it shares a login, that is begun while the rest loads."""
        from cn.git.ssh_logins import logged_in

        hub = self.hub()
        with logged_in(hub.git, "origin") if hub.origin and not self.dry_run else nullcontext():
            yield hub

    def view(self) -> View:
        """The hub to look at, without a lock."""
        from cn.run.view import open_view

        return open_view(self.hub())

    def facts(self, value: object, lines: Callable[[], Iterable[str]], kind: str = "") -> None:
        """Print what was asked for: its shape with ``--json``, else lines for people, nothing with ``-q``."""
        if self.json:
            from cn.cli.render.report import show_json

            show_json(value, kind)
        elif not self.quiet and (text := "\n".join(lines())):
            click.echo(text)

    def page(self, value: object, lines: Callable[[], Iterable[str]], hub: Hub) -> None:
        """:meth:`facts` that may be long: beyond a screen through the pager that git would take in that hub."""
        if self.json or self.quiet or not sys.stdout.isatty():
            self.facts(value, lines)
            return
        from cn.cli.render.pager import show_lines
        from cn.git.choices import PAGER, user_choice

        show_lines(list(lines()), lambda: user_choice(hub.root, PAGER))

    def tell(self, report: Report, *, beside: bool = False) -> None:
        """Render a report; the command goes on. ``beside``: on standard error, where the facts are on the other."""
        from cn.cli.render.report import show_report

        quiet, verbose = self.quiet, self.verbose
        if not (quiet or verbose):
            quiet, verbose = report.level in ("warning", "error"), report.level == "debug"
        show_report(report, json=self.json, quiet=quiet, verbose=verbose, beside=beside)

    def show(self, report: Report, then: Callable[[Report], None] | None = None) -> None:
        """Render a report, do what could wait for that, and end the command with its exit code."""
        self.tell(report)
        if then is not None:
            then(report)
        if report.exit_code != EXIT_DONE and not self.dry_run:
            sys.exit(report.exit_code)


def note_place(hub: Hub) -> None:
    """Steps that are printed work on this hub, also where the command was started in another folder."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        here = ""
    if here != str(hub.root):
        from cn.cli.render.text import started_elsewhere

        started_elsewhere(str(hub.root))


@contextmanager
def naming_hub(env: Env) -> Iterator[None]:
    """Steps that are printed name the hub that ``--hub`` named, where they are typed in this folder: unless the clone
    around it leads to that hub by itself, or does at the end, since it was noted there.
    """
    try:
        yield
    finally:
        if env.hub_path:
            _note_named(env.hub_path)


def _note_named(path: str) -> None:
    from pathlib import Path

    from cn.cli.render.text import name_hub
    from cn.git.repository import open_hub
    from cn.values.errors import CnError

    try:
        named = open_hub(Path(path))
    except CnError:
        return  # there is none, as the command says
    try:
        is_here = open_hub(None).git_dir == named.git_dir
    except (CnError, OSError):
        is_here = False
    if not is_here:
        name_hub(str(named.root))


def _into_env(name: str) -> dict[str, Any]:
    """Store an option in the :class:`Env`, before or after the command's name."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        env = ctx.ensure_object(Env)
        if name == "request_id" and value is not None and not value.strip():  # a script whose variable is not set
            raise click.BadParameter("it is empty; name the request, or leave the option out", ctx, param)
        if value:
            setattr(env, name, value)

    return {"expose_value": False, "callback": callback}


def not_empty(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """The callback of an option without which a command does something else: a script whose variable is not set."""
    given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    if given and isinstance(value, str) and not value.strip():
        raise click.BadParameter("it is empty; say what is meant, or leave the option out", ctx, param)
    return value


ONE: Any = functools.cache(click.Option)
"""``cls`` of an option that many commands have: it is made once, which takes half of the time to load a group."""


def _flag(*names: str, into: str, help: str) -> Callable[[Any], Any]:
    return click.option(*names, cls=ONE, is_flag=True, help=help, **_into_env(into))


HUB = click.option(
    "--hub",
    cls=ONE,
    metavar="DIR",
    type=click.Path(),
    help="The hub to work on; else the one around the current folder.",
    **_into_env("hub_path"),
)
FOLDER: Callable[[Any], Any] = click.argument("folder", metavar="[HUB]", required=False, **_into_env("folder"))
JSON = _flag("--json", into="json", help="Print facts as JSON.")
DRY_RUN = _flag("--dry-run", into="dry_run", help="Show what would be done; change nothing.")
REQUEST = click.option(
    "--request-id",
    cls=ONE,
    metavar="ID",
    help="Your name for this: the same again is not done twice, and gets the same answer.",
    **_into_env("request_id"),
)
QUIET = _flag("-q", "--quiet", into="quiet", help="Only errors.")
VERBOSE = _flag("-v", "--verbose", into="verbose", help="Also what was told before.")

SINCE = click.option(
    "--since", default="", callback=not_empty, metavar="WHEN", help="A date or time (UTC), yesterday, or 3d back."
)


def deciding(name: str, help: str) -> Callable[[Any], Any]:
    """An option whose text decides something: absent, or not empty."""
    return click.option(name, default="", callback=not_empty, help=help)


@contextmanager
def refused_as_usage() -> Iterator[None]:
    """A name that is refused is a wrong word of the command."""
    from cn.values.names import NameRefused

    try:
        yield
    except NameRefused as refused:
        raise UsageError(refused.text, refused.hint) from None


ACTOR = deciding("--actor", "Who decides; the hub's agent if not given.")
HEAD = deciding(
    "--head",
    "The head that it is about, seven digits or more that are of no other; else the one that you were shown last.",
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


class Group(click.Group):
    """A group whose help shows the line of each command whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their lines; click itself cuts these where the screen ends."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None and not one.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


_WHOLE = 1000


def list_group(name: str, *extra: Callable[[Any], Any]) -> Callable[[Callable[..., None]], click.Group]:
    """Make a group of a function that lists: without a subcommand, and as ``list``, the hidden synonym."""

    def decorate(show: Callable[..., None]) -> click.Group:
        @click.group(name, cls=Group, invoke_without_command=True, help=show.__doc__)
        @options(*extra)
        def group(env: Env, **given: Any) -> None:
            command = click.get_current_context().invoked_subcommand
            if command is None:
                show(env, **given)
            elif any(given.values()):
                raise click.UsageError(f"the options of the list do not go with {command!r}")

        group.command("list", hidden=True, help=show.__doc__)(options(*extra)(show))
        return group

    return decorate


Act = Callable[..., "Report"]


def action(
    name: str, act: str | Act, help: str, *parameters: Callable[[Any], Any], online: bool = False
) -> click.Command:
    """The command that acts on the hub: calls ``act`` with it, with these parameters, and ``dry_run``.

    ``module:function`` below ``cn`` is imported when it is called. ``online``: it is sure to ask origin.
    """

    @options(DRY_RUN)
    def command(env: Env, **given: Any) -> None:
        with env.online() if online else nullcontext(env.hub()) as hub:
            found = act
            if isinstance(found, str):
                module, _, function = found.partition(":")
                found = getattr(import_module(f"cn.{module}"), function)
            report = found(hub, **given, dry_run=env.dry_run)
        env.show(report)

    for parameter in reversed(parameters):
        command = parameter(command)
    return click.command(name, help=help)(command)


_MOST = 8 << 20
_OPEN = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Pipes that the shell has opened for us (``<(…)``): somebody writes into these."""


def body_options(help: str) -> Callable[[Any], Any]:
    """Both options, as the parameter ``body`` of a command."""
    body = click.option("--body", default="", help=help)
    file = click.option("--body-file", metavar="FILE", type=click.Path(), help="The same, from a file ('-': stdin).")

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def call(body: str, body_file: str | None, **given: Any) -> Any:
            return function(body=_read_body(body, body_file), **given)

        return body(file(call))

    return decorate


def _read_body(body: str, path: str | None) -> str:
    """``body``, or the text of the file ``path`` (``-``: standard input), at most 8 MB of UTF-8.

    Raises :class:`UsageError`. A named pipe may have no writer and a device no end: neither is read.
    """
    if path is None:
        return body
    if body:
        raise UsageError("--body and --body-file exclude each other", "give one of them")
    data = read_input(path)
    try:
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise UsageError("the text is not UTF-8", "write it as UTF-8") from None


def read_said(context: click.Context, _: click.Parameter, text: str) -> str:
    """What is said by a word of the command line; ``-``: by standard input, as with ``--body-file``."""
    return _read_body("", text).rstrip("\n") if text == "-" and not context.resilient_parsing else text


def read_input(path: str) -> bytes:
    """What the file ``path`` holds (``-``: standard input), at most 8 MB. Raises :class:`UsageError`."""
    if path == "-" and 0 in closed:
        raise UsageError("cannot read -: standard input is closed", "give a file, or say something on standard input")
    try:
        data = sys.stdin.buffer.read(_MOST + 1) if path == "-" else _read(path)
    except OSError as why:
        raise UsageError(f"cannot read {path}: {why.strerror}", "give a file, or '-' for stdin") from None
    if len(data) > _MOST:
        raise UsageError(f"{path} holds more than {_MOST >> 20} MB", "give a shorter one")
    return data


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and path.startswith(_OPEN)):
            raise UsageError(f"{path} is no regular file", "give a file, or '-' for stdin")
        os.set_blocking(fd, True)
        return file.read(_MOST + 1)
