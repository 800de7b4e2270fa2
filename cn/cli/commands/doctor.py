"""``cn doctor``: check a hub, and repair it with ``--fix``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cn.cli.options import DRY_RUN, FOLDER, Env, note_place, options
from cn.cli.render.report import show_json
from cn.cli.render.text import at_hub, paint, typed_here
from cn.doctor import examine, repair
from cn.doctor.finding import Finding, Level, exit_code, open_damaged
from cn.run.memory import Memory
from cn.system.clock import now
from cn.values.errors import EXIT_DONE, EXIT_REFUSED, CnError
from cn.values.report import Report
from cn.values.text import counted, redact, visible


@click.command("doctor")
@FOLDER
@click.option("--fix", is_flag=True, help="Repair what can be repaired without loss.")
@click.option(
    "--full", is_flag=True, help="Also check every object (slow), try every peer's host, and ask the API for the model."
)
@options(DRY_RUN)
def doctor_command(env: Env, fix: bool, full: bool) -> None:
    """Look at everything a run relies on, and explain what is wrong.

    Changes nothing without --fix; with it, what was there before is kept at
    refs/cn/rescue/. Contacts origin, where it tries what cn may do with a ref that goes at once;
    with --full every peer likewise, and the model's API. -v shows what is fine too. Exit codes:
    0 healthy, 1 problems, 3 broken configuration.
    """
    hub = open_damaged(Path(chosen) if (chosen := env.hub_path or env.folder) else None)
    note_place(hub)
    report = Report()
    if fix and not env.dry_run:
        try:
            findings, report = repair(hub, full=full)
        except CnError as error:
            if error.exit_code != EXIT_REFUSED:
                raise
            report.failed(error.text, error.hint)
            findings = examine(hub, full=full)
    else:
        findings = examine(hub, full=full)
        for plan in [finding.fix.text for finding in findings if fix and finding.fix]:
            report.plan(plan)
    if env.json:
        show_json(findings)
    else:
        env.tell(report)
        _show(env, findings, fixing=fix, standing=len(Memory(hub, now()).conditions.shown))
    code = exit_code(findings) or report.exit_code
    if code != EXIT_DONE:
        sys.exit(code)


_STOPS = ("place", "stopped", "origin", "configuration")
"""The checks of what keeps every run from working."""


def _show(env: Env, findings: list[Finding], *, fixing: bool, standing: int) -> None:
    """What needs somebody first; what is fine is counted, and with ``-v`` told. ``standing``: how much the status shows
    that is no fault of the hub's, such as a branch that was refused.
    """
    colours = {Level.PROBLEM: "red", Level.INFO: "cyan", Level.OK: "green"}
    order = list(colours)[: 1 if env.quiet else 3 if env.verbose else 2]
    shown = [f for f in findings if f.level in order and not f.repaired]
    for finding in sorted(shown, key=lambda f: order.index(f.level)):
        word = paint(f"{finding.level.value:<8}", colours[finding.level])
        click.echo(f"{word} {redact(visible(finding.what))}")
        remedy = at_hub(finding.remedy) if finding.check in _STOPS else finding.remedy
        for mark, text in ((" ", finding.why), ("→", remedy)):
            if text:
                click.echo(f"         {mark} {typed_here(redact(visible(text)))}")
    fine = sum(f.level is Level.OK and not f.repaired for f in findings)
    if not (env.quiet or env.verbose) and fine:
        click.echo(f"{paint('ok      ', 'green')} {fine} more check{'s' if fine > 1 else ''}; -v tells which")
    problems = [f for f in findings if f.level is Level.PROBLEM]
    if problems:
        can = sum(f.fix is not None for f in problems)
        more = f"; 'cn doctor --fix' can repair {can} of them" if can and not fixing else ""
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}{more}", err=True)
    elif not env.quiet:
        more = f", but for {counted(standing, 'thing')} that 'cn status' shows" if standing else ""
        click.echo(f"healthy{more}")
