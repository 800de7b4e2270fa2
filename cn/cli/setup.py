"""``cn init`` and ``cn trust``."""

from __future__ import annotations

from pathlib import Path

import click

from cn.cli.env import DRY_RUN, Env, options


@click.command("init")
@click.argument("name")
@click.option("--path", type=click.Path(path_type=Path), help="Where to make it; ./cn-NAME if not given.")
@click.option(
    "--signing-key",
    type=click.Path(path_type=Path),
    help="An SSH key; cn signs its commits and messages with it.",
)
@options(DRY_RUN)
def init_command(env: Env, name: str, path: Path | None, signing_key: Path | None) -> None:
    """Make a new hub called NAME."""
    from cn.app.init import init
    from cn.core.errors import UsageError
    from cn.core.names import NameRefused, parse_name
    from cn.core.report import Report

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
    """Show and accept a change to a protected file that came from origin."""
    from cn.app.trust import accept_changes, pending_changes

    pending = pending_changes(env.hub())
    if pending is None:
        click.echo("nothing to accept: no protected file changed")
        return
    click.echo(pending.text)
    if env.dry_run:
        return
    if not yes:
        click.confirm("Accept these changes?", abort=True)
    env.show(accept_changes(env.hub(), pending))
