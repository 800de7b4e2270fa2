"""``cn doctor``: check a hub, and repair it with ``--fix``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cn.cli.env import DRY_RUN, Env, options
from cn.values.errors import EXIT_DONE, EXIT_REFUSED, CnError

if TYPE_CHECKING:
    from cn.doctor import Finding
    from cn.values.report import Report


@click.command("doctor")
@click.argument("folder", metavar="[HUB]", required=False)
@click.option("--fix", is_flag=True, help="Repair what can be repaired without loss.")
@click.option("--full", is_flag=True, help="Also check every object (slow), and ask the API for the model.")
@options(DRY_RUN)
def doctor_command(env: Env, folder: str | None, fix: bool, full: bool) -> None:
    """Look at everything a run relies on, and explain what is wrong.

    Changes nothing without --fix; with it, what was there before is kept at
    refs/cn/rescue/. Contacts origin, no peer, with --full the model's API. Exit codes: 0 healthy,
    1 problems, 3 broken configuration.
    """
    from pathlib import Path

    from cn.doctor import examine, exit_code, open_damaged
    from cn.values.report import Report

    hub = open_damaged(Path(chosen) if (chosen := env.hub_path or folder) else None)
    report = Report()
    if fix and not env.dry_run:
        from cn.doctor.repair import repair

        try:
            findings, report = repair(hub, full=full)
        except CnError as error:
            if error.exit_code != EXIT_REFUSED:
                raise
            report.failed(error.text, error.hint)
            findings = examine(hub, full=full)
    else:
        findings = examine(hub, full=full)
        if fix:
            from cn.doctor.repair import plan_repairs

            report = plan_repairs(findings)
    if env.json:
        from cn.cli.render.report import show_json

        show_json([_json(f) for f in findings])
    else:
        _show(env, findings, report, fixing=fix)
    code = exit_code(findings) or report.exit_code
    if code != EXIT_DONE:
        sys.exit(code)


def _json(finding: Finding) -> dict[str, Any]:
    """The JSON shape of a finding (docs/protocol)."""
    from cn.values.text import redact

    return {
        "check": finding.check,
        "level": finding.level.value,
        "what": redact(finding.what),
        "why": redact(finding.why),
        "remedy": redact(finding.remedy),
        "fixable": finding.fix is not None,
        "repaired": finding.repaired,
    }


def _show(env: Env, findings: list[Finding], report: Report, *, fixing: bool) -> None:
    from cn.cli.render.report import show_report
    from cn.cli.render.text import paint
    from cn.doctor import Level
    from cn.values.text import redact, visible

    show_report(report, json=False, quiet=env.quiet, verbose=env.verbose)
    colours = {Level.OK: "green", Level.INFO: "cyan", Level.PROBLEM: "red"}
    for finding in findings:
        if finding.repaired or (env.quiet and finding.level is not Level.PROBLEM):
            continue
        word = paint(f"{finding.level.value:<8}", colours[finding.level])
        click.echo(f"{word} {redact(visible(finding.what))}")
        if finding.why:
            click.echo(f"           {redact(visible(finding.why))}")
        if finding.remedy:
            click.echo(f"         → {redact(visible(finding.remedy))}")
    problems = [f for f in findings if f.level is Level.PROBLEM]
    if problems:
        can = sum(f.fix is not None for f in problems)
        more = f"; 'cn doctor --fix' can repair {can} of them" if can and not fixing else ""
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}{more}", err=True)
    elif not env.quiet:
        click.echo("healthy")
