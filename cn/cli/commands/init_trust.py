"""``cn init``: create a hub; ``cn trust``: accept a change to protected files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cn.cli.options import DRY_RUN, Env, options
from cn.values.errors import EXIT_DONE, EXIT_REFUSED

if TYPE_CHECKING:
    from cn.actions.trust import Pending


@click.command("init")
@click.argument("name")
@click.option("--path", type=click.Path(path_type=Path), help="Where to make it; ./cn-NAME if not given.")
@click.option(
    "--signing-key", type=click.Path(path_type=Path), help="An SSH key; cn signs its commits and messages with it."
)
@options(DRY_RUN)
def init_command(env: Env, name: str, path: Path | None, signing_key: Path | None) -> None:
    """Make a new hub called NAME."""
    from cn.actions.init import init
    from cn.values.errors import UsageError
    from cn.values.names import NameRefused, parse_name
    from cn.values.report import Report

    try:
        parsed = parse_name(name)
    except NameRefused as refused:
        raise UsageError(refused.text, refused.hint) from None
    report = Report()
    target = (path or Path(f"cn-{parsed}")).absolute()
    init(parsed, target, report, signing_key=signing_key, dry_run=env.dry_run)
    env.show(report)


@click.command("trust")
@click.option("--yes", is_flag=True, help="Accept without asking; needed without a terminal.")
@options(DRY_RUN)
def trust_command(env: Env, yes: bool) -> None:
    """Show and accept a change to a protected file that came from origin.

    Without a terminal 'cn trust' only shows; 'cn trust --yes' accepts what was shown, and
    nothing else: if origin moved meanwhile, it shows again. Exit code 1 while a change waits.
    """
    from cn.actions.trust import note_shown, pending_changes, was_shown
    from cn.cli.render.report import show_error

    hub = env.hub()
    pending = pending_changes(hub, dry_run=env.dry_run)
    if pending is None:
        _show_trust(env, None, accepted=False)
        return
    if env.dry_run:
        _show_trust(env, pending, accepted=False)
        return
    asks = sys.stdin.isatty() and not env.json and not yes
    if pending.broken is not None:
        _show_trust(env, pending, accepted=False)
        raise pending.broken
    seen = was_shown(hub)
    moved = bool(yes and seen and seen != pending.key)
    while not moved and (yes or asks):
        if asks:
            _show_trust(env, pending, accepted=False)
            if not click.confirm("Accept these changes?"):
                show_error("not accepted; nothing was changed", "the runs stay stopped until it is")
                sys.exit(EXIT_REFUSED)
        elif not (env.json or env.quiet):
            _show_trust(env, pending, accepted=False)
        now = _accept(env, pending)
        if now is None:
            return
        pending, moved = now, not asks
        if asks:
            click.echo("what came from elsewhere changed while you read; it is now:")
    note_shown(hub, pending)
    _show_trust(env, pending, accepted=False)
    text = "this changed since it was shown" if moved else "there is no terminal to ask on"
    show_error(f"not accepted: {text}", "read it, then accept exactly this with 'cn trust --yes'")
    sys.exit(EXIT_REFUSED)


def _accept(env: Env, pending: Pending) -> Pending | None:
    """Accept and show it; a Pending: it is another one by now."""
    from cn.actions.trust import Pending, accept_changes

    answer = accept_changes(env.hub(), pending)
    if isinstance(answer, Pending):
        return answer
    if answer is None:
        _show_trust(env, None, accepted=False)
    elif env.json:
        _show_trust(env, pending, accepted=answer.exit_code == EXIT_DONE)
        sys.exit(answer.exit_code)
    else:
        env.show(answer)
    return None


def _show_trust(env: Env, pending: Pending | None, *, accepted: bool) -> None:
    """The facts of ``cn trust``: one JSON object, or text."""
    if env.json:
        from cn.actions.trust import pending_json
        from cn.cli.render.report import show_json

        show_json(pending_json(pending, accepted=accepted))
    elif pending:
        click.echo(pending.text)
    elif not env.quiet:
        click.echo("nothing to accept: no protected file was changed elsewhere")
