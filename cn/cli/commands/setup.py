"""``cn init``, ``cn sign``, ``cn trust``, ``cn cron …``: make a hub, sign, accept protected files, let cron run it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cn.actions.cron import PROCESS_EVERY, SYNC_EVERY, read_jobs, remove, root_of, told_of_stray
from cn.actions.init import init, init_here
from cn.actions.trust import Pending, accept_changes, is_another, note_seen, pending_changes
from cn.cli.options import DRY_RUN, Env, Group, action, options, refused_as_usage
from cn.cli.render.report import show_error, show_json
from cn.values.errors import EXIT_DONE, EXIT_REFUSED, UsageError
from cn.values.names import parse_name
from cn.values.report import Report
from cn.values.shell_words import command
from cn.views.shapes import to_json


@click.command("init")
@click.argument("name")
@click.option("--path", type=click.Path(path_type=Path), help="Where to make it; ./cn-NAME if not given.")
@click.option(
    "--signing-key", type=click.Path(path_type=Path), help="An SSH key; cn signs its commits and messages with it."
)
@click.option("--here", is_flag=True, help="Make the repository around the current folder the hub, beside its files.")
@options(DRY_RUN)
def init_command(env: Env, name: str, path: Path | None, signing_key: Path | None, here: bool) -> None:
    """Make a new hub called NAME, in a repository of its own.

    With --here the repository that is here becomes one: one commit on its main branch adds cn's folders, and
    proposals are about its files. Nothing that is there is changed; main is pushed to origin, if there is one.
    """
    with refused_as_usage():
        parsed = parse_name(name)
    report = Report()
    if here:
        if path is not None or signing_key is not None:
            raise UsageError("--here takes neither --path nor --signing-key", "git's own settings say how it signs")
        init_here(parsed, Path.cwd(), report, dry_run=env.dry_run)
        begin = ""
    else:
        place = path or Path(f"cn-{parsed}")
        init(parsed, place, report, signing_key=signing_key, dry_run=env.dry_run)
        begin = f"{command('cd {}', str(place))}, 'git remote add origin URL', 'git push -u origin main', then "
    if not env.dry_run:
        report.info(f"next: {begin}'cn peer add NAME URL --check', 'cn cron install'; 'cn --help' shows the rest")
    env.show(report)


@click.command("sign")
@click.argument("key")
@options(DRY_RUN)
def sign_command(env: Env, key: str) -> None:
    """Sign what cn commits and sends in this clone with KEY, an SSH key file, or a public key of an ssh-agent.

    In a clone of a peer's hub from which you propose: what you commit there. Peers that have pinned another key of
    ours must accept it: 'cn peer key'.
    """
    from cn.actions.sign import sign

    env.show(sign(env.hub_path, Path.cwd(), key, dry_run=env.dry_run))


@click.command("trust")
@click.option("--yes", is_flag=True, help="Accept without asking; needed without a terminal.")
@options(DRY_RUN)
def trust_command(env: Env, yes: bool) -> None:
    """Show and accept a change to a protected file that came from origin.

    Without a terminal 'cn trust' only shows; 'cn trust --yes' accepts what was shown, and
    nothing else: if origin moved meanwhile, it shows again. Exit code 1 while a change waits.
    A fresh clone has accepted nothing yet: there it shows all of them.
    """
    hub = env.hub()
    pending = pending_changes(hub, dry_run=env.dry_run)
    if pending is None or env.dry_run or pending.broken is not None:
        _show_trust(env, pending, accepted=False)
        if pending is not None and pending.broken is not None and not env.dry_run:
            raise pending.broken
        return
    asks = sys.stdin.isatty() and not env.json and not yes
    moved = yes and is_another(hub, pending)
    while not moved and (yes or asks):
        if asks or not (env.json or env.quiet):
            _show_trust(env, pending, accepted=False)
        if asks and not click.confirm("Accept these changes?"):
            show_error("not accepted; nothing was changed", "the runs stay stopped until it is")
            sys.exit(EXIT_REFUSED)
        answer = accept_changes(hub, pending)
        if not isinstance(answer, Pending):
            if answer is not None and not env.json:
                env.show(answer)
                return
            _show_trust(env, pending if answer else None, accepted=answer is not None and answer.exit_code == EXIT_DONE)
            sys.exit(answer.exit_code if answer else EXIT_DONE)
        pending, moved = answer, not asks
        if asks:
            click.echo("what came from elsewhere changed while you read; it is now:")
    note_seen(hub, pending)
    _show_trust(env, pending, accepted=False)
    text = "this changed since it was shown" if moved else "there is no terminal to ask on"
    show_error(f"not accepted: {text}", "read it, then accept exactly this with 'cn trust --yes', from the same shell")
    sys.exit(EXIT_REFUSED)


def _show_trust(env: Env, pending: Pending | None, *, accepted: bool) -> None:
    """The facts of ``cn trust``: one JSON object, or text."""
    if env.json:
        files = to_json(pending.files if pending else ())
        show_json({"commit": pending.commit if pending else None, "accepted": accepted, "files": files})
    elif pending:
        click.echo(pending.text)
    elif not env.quiet:
        click.echo("nothing to accept: no protected file was changed elsewhere")


@click.group("cron", cls=Group)
def cron() -> None:
    """The lines of this hub in your crontab.

    One line syncs, one processes. cron mails you what they print, and they print nothing but
    errors. Other lines of your crontab are left alone.
    """


@cron.command("show")
@options()
def show_command(env: Env) -> None:
    """Show the lines that are installed, or those that 'cn cron install' would add."""
    table = read_jobs(env.hub())
    if env.json:
        show_json(table)
        return
    if not table.installed:
        click.echo("not installed; 'cn cron install' adds:", err=True)
    for line in table.installed or table.wanted:
        click.echo(line)
    for hub in table.stray:
        click.echo("; ".join(told_of_stray(hub)), err=True)


_EVERY = [
    click.option(f"--{job}-every", type=int, default=minutes, metavar="MIN", show_default=True, help="Minutes.")
    for job, minutes in (("sync", SYNC_EVERY), ("process", PROCESS_EVERY))
]
cron.add_command(
    action("install", "actions.cron:install", "Add both lines to your crontab, or bring them up to date.", *_EVERY)
)


@cron.command("remove")
@options(DRY_RUN)
def remove_command(env: Env) -> None:
    """Take the lines of this hub out of your crontab."""
    root = root_of(Path(env.hub_path) if env.hub_path else None)
    env.show(remove(root, dry_run=env.dry_run))
