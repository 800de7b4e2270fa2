"""``cn replay``: archived inputs as a test set for a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cn.cli.options import DRY_RUN, Env, options
from cn.cli.render.progress import progress
from cn.cli.render.text import align, clean, paint

if TYPE_CHECKING:
    from cn.agent.plan.prompt_parts import Packed
    from cn.agent.plan.replay import AnswerDecision
    from cn.runtime.replay import Pair, Replayed

_CHANGED = {"none": "no", "wording": "words", "decision": "yes"}


@click.command("replay")
@click.argument("ids", nargs=-1)
@click.option("--model", default="", metavar="ID", help="Ask this model instead of the configured one.")
@click.option("--since", default="", metavar="WHEN", help="Those queued since; a date, or 12h, 3d back.")
@options(DRY_RUN)
def replay_command(env: Env, ids: tuple[str, ...], model: str, since: str) -> None:
    """Ask archived inputs again and compare what is decided; nothing is executed.

    IDS are names in logs/input/; without them and --since the last 10. Outputs that were rejected
    or came late are left out unless they are named. Calls cost, and budgets count them.
    """
    from cn.llm.check_model import ModelCheck
    from cn.llm.config_file import read_agent_config
    from cn.runtime.replay import find_pairs, pack_pair, replay
    from cn.runtime.shapes import planned_json, replayed_json
    from cn.values.errors import EXIT_REFUSED, UsageError
    from cn.values.report import Report
    from cn.views.log import parse_since

    if ids and since:
        raise UsageError("IDS and --since exclude each other", "give one of them")
    view = env.view()
    config = read_agent_config(view.snapshot)
    config = config.with_model(model) if model else config
    pairs = find_pairs(view, ids, parse_since(since, view.now) if since else None)
    if env.dry_run:
        planned = [(pair, pack_pair(view, config, pair)) for pair in pairs]
        env.facts(lambda: [planned_json(*one) for one in planned], lambda: _plan_lines(planned))
        return
    report, check = Report(), ModelCheck(view.hub, config)
    if pairs and check.due():
        check.check(report)
    found = []
    with progress(env.terminal, f"asking {config.llm.model}") as step:
        for one in replay(view, config, pairs):
            found.append(one)
            if step is not None:
                step(one.pair.name)
    for one in found if not env.json else ():
        if one.error:
            click.echo(f"failed: {one.pair.name}: {clean(one.error)}", err=True)
    env.facts(lambda: [replayed_json(one) for one in found], lambda: _lines(found))
    for note in report.notes if not env.json else ():
        click.echo(f"· {clean(note.text)}", err=True)
    if any(one.error for one in found):
        sys.exit(EXIT_REFUSED)


def _lines(found: list[Replayed]) -> list[str]:
    if not found:
        return ["no archived pair"]
    rows = [("ID", "SOURCE", "BEFORE", "NOW", "CHANGED")]
    for one in found:
        change = _CHANGED[one.change.value] if one.change else "—"
        now = decision_text(one.now) if one.now else "no answer"
        before = decision_text(one.pair.before)
        rows.append((one.pair.name, clean(one.pair.source, 60), before, now, change))
    table = ["".join(row).rstrip() for row in align(rows)]
    return [paint(table[0], dim=True), *table[1:], _sum(found)]


def _sum(found: list[Replayed]) -> str:
    changes = [one.change.value for one in found if one.change]
    told = f"{len(changes)} compared: {changes.count('decision')} decided otherwise"
    told += f", {changes.count('wording')} in other words"
    failed = sum(bool(one.error) for one in found)
    told += f"; {failed} without an answer" if failed else ""
    calls = [one.call for one in found if one.call]
    costs = [call.cost for call in calls if call.cost is not None]
    told += f"; {sum(call.usage.tokens for call in calls):,} tokens"
    return told + (f", ${sum(costs):.4f}" if costs else "") + f", {sum(c.seconds for c in calls):.1f} s"


def decision_text(typed: AnswerDecision) -> str:
    """``reply + send pi``, or by which rule it is rejected."""
    if typed.rejected:
        return f"rejected: {clean(typed.rejected[0].partition(':')[0], 60)}"
    return clean(" + ".join(typed.aims), 80)


def _plan_lines(planned: list[tuple[Pair, Packed]]) -> list[str]:
    rows = [("ID", "SOURCE", "MODEL", "BYTES", "TOKENS")]
    for pair, packed in planned:
        source, model = clean(pair.source, 60), packed.request.model
        rows.append((pair.name, source, model, str(packed.size), f"~{packed.tokens}"))
    total = sum(packed.tokens for _, packed in planned)
    lines = ["".join(row).rstrip() for row in align(rows)]
    would = f"would send {len(planned)} requests with about {total:,} tokens; nothing was sent"
    return [paint(lines[0], dim=True), *lines[1:], would]
