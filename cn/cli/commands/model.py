"""What a model is sent, what it answers to archived inputs, and what its calls cost."""

from __future__ import annotations

import sys
from typing import Any, cast

import click

from cn.agent.plan.prompt import NO_MODEL, Packed
from cn.cli.completers import complete_thread
from cn.cli.options import DRY_RUN, SINCE, Env, options
from cn.cli.render.text import clean, table
from cn.llm.config import read_agent_config
from cn.llm.usage import LOOKED_UP, By, Sum, UsageView, read_usage
from cn.run.view import require_accepted
from cn.runtime.gather_prompt import Measured, is_due, look_up, measure, pack_item
from cn.runtime.replay import AnswerDecision, Pair, Replayed, find_pairs, pack_pair, replay
from cn.system.clock import now
from cn.values.errors import EXIT_REFUSED, UsageError
from cn.values.report import Report
from cn.values.text import visible
from cn.views.log import read_since
from cn.views.shapes import shape, to_json


@click.command("context")
@click.argument("id", required=False, shell_complete=complete_thread)
@click.option("--text", is_flag=True, help="Print the request itself, as a model reads it.")
@options()
def context_command(env: Env, id: str | None, text: bool) -> None:
    """Show what a model would be sent for an item; no model is asked.

    With a key in the environment the API counts the tokens, free of charge.

    ID is the id of an item or the name of its thread; without one it is the item in flight,
    else the next. An archived id works too, packed with what main holds now.
    """
    view = env.view()
    config = read_agent_config(view.snapshot.read)
    packed = pack_item(view, config, id)
    if text and not env.json:
        click.echo(visible(_request_text(packed)), nl=False)
        return
    measured = measure(packed, config, require_accepted(view))
    env.facts(_context_json(packed, measured), lambda: _context_lines(packed, measured))
    if not (env.json or env.quiet):
        for note in (*config.warnings, *packed.notes):
            click.echo(f"· {visible(note)}", err=True)


def _context_json(packed: Packed, measured: Measured) -> dict[str, Any]:
    asked = packed.request
    model = None if asked.model == NO_MODEL else asked.model
    request = shape(asked, "model max_tokens system messages", model=model)
    keys = "id from=sender bytes=size tokens tokens_are why? parts missing notes request"
    made = {"tokens": measured.tokens, "tokens_are": measured.how, "why": measured.why, "request": request}
    return shape(packed, keys, **made)


def _context_lines(packed: Packed, measured: Measured) -> list[str]:
    """The table of parts, and the sum."""
    rows = [("part", "from", "bytes", "tokens", "")]
    for part in packed.parts:
        place = f"cached: {part.place}" if part.place in ("stable", "hub") else "changes"
        left = f", {part.left_out} bytes left out" if part.left_out else ""
        path = clean(part.path, 80) or "—"
        rows.append((clean(part.name, 40), path, str(part.size), f"~{part.tokens}", place + left))
    counted = measured.how == "counted"
    rows.append(("in all", "", str(packed.size), f"{'' if counted else '~'}{measured.tokens}", ""))
    model = "no model yet" if packed.request.model == NO_MODEL else packed.request.model
    lines = [f"{clean(packed.id)} from {clean(packed.sender)}, for {model}", *table(rows)]
    lines += [f"{path} is not there" for path in packed.missing]
    told = "those of the parts are" if counted else "all are"
    why = f" ({clean(measured.why)})" if measured.why else ""
    return [*lines, f"Tokens with ~ are estimated, one for 3.5 bytes; {told}.{why}"]


def _request_text(packed: Packed) -> str:
    """The request as one text, each block and message under a line that says what it is."""
    lines = []
    for number, block in enumerate(packed.request.system, 1):
        border = ", cache breakpoint at its end" if block.cached else ""
        lines += [f"=== system block {number}{border}", block.text.rstrip("\n"), ""]
    for said in packed.request.messages:
        lines += [f"=== {said.role}", said.text.rstrip("\n"), ""]
    return "\n".join(lines)


@click.command("replay")
@click.argument("ids", nargs=-1)
@click.option("--model", default="", metavar="ID", help="Ask this model instead of the configured one.")
@click.option("--since", default="", metavar="WHEN", help="Those queued since; a date, or 12h, 3d back.")
@click.option("--as-sent", is_flag=True, help="Send what was sent then, byte for byte, not packed with today's main.")
@options(DRY_RUN)
def replay_command(env: Env, ids: tuple[str, ...], model: str, since: str, as_sent: bool) -> None:
    """Ask archived inputs again and compare what is decided; nothing is executed.

    IDS are names in logs/input/; without them and --since the last 10. Outputs that were rejected
    or came late are left out unless they are named. Calls cost, and budgets count them.
    """
    if ids and since:
        raise UsageError("IDS and --since exclude each other", "give one of them")
    view = env.view()
    config = read_agent_config(view.snapshot.read)
    config = config.with_model(model) if model else config
    pairs = find_pairs(view, ids, read_since(since, view.now) if since else None)
    planned = [(pair, pack_pair(view, config, pair, as_sent=as_sent)) for pair in pairs]
    if env.dry_run:
        facts = [shape(pair, "id=name source") | shape(sent, _SENT) for pair, sent in planned]
        env.facts(facts, lambda: _plan_lines(planned))
        return
    accepted, report = require_accepted(view), Report()
    if pairs and is_due(view.memory, config):
        look_up(view.hub, config, report, accepted)
    found = []
    with env.progress(f"asking {config.llm.model}") as step:
        for one in replay(view, config, planned, accepted):
            found.append(one)
            if step is not None:
                step(one.pair.name)
    failed = [one for one in found if one.error]
    for one in failed if not env.json else ():
        click.echo(f"failed: {one.pair.name}: {clean(one.error)}", err=True)
    env.facts(found, lambda: _replay_lines(found))
    for note in report.notes if not env.json else ():
        click.echo(f"· {clean(note.text)}", err=True)
    if failed:
        sys.exit(EXIT_REFUSED)


_SENT = "model=request.model bytes=size tokens"
_CHANGED = {"none": "no", "wording": "words", "decision": "yes"}


def _replay_lines(found: list[Replayed]) -> list[str]:
    if not found:
        return ["no archived pair"]
    rows = [("ID", "SOURCE", "BEFORE", "NOW", "CHANGED")]
    for one in found:
        change = _CHANGED[one.change.value] if one.change else "—"
        now = _decision_text(one.now) if one.now else "no answer"
        rows.append((one.pair.name, clean(one.pair.source, 60), _decision_text(one.pair.before), now, change))
    return [*table(rows), _sum(found)]


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


def _decision_text(typed: AnswerDecision) -> str:
    """``reply + send pi``, or by which rule it is rejected."""
    if typed.rejected:
        return f"rejected: {clean(typed.rejected[0].partition(':')[0], 60)}"
    return clean(" + ".join(typed.aims), 80)


def _plan_lines(planned: list[tuple[Pair, Packed]]) -> list[str]:
    rows = [("ID", "SOURCE", "MODEL", "BYTES", "TOKENS")]
    for pair, packed in planned:
        rows.append((pair.name, clean(pair.source, 60), packed.request.model, str(packed.size), f"~{packed.tokens}"))
    total = sum(packed.tokens for _, packed in planned)
    return [*table(rows), f"would send {len(planned)} requests with about {total:,} tokens; nothing was sent"]


@click.command("usage")
@SINCE
@click.option("--by", type=click.Choice(["day", "peer"]), default="day", show_default=True, help="Sums by this.")
@options()
def usage_command(env: Env, since: str, by: str) -> None:
    """What calls to the model used and cost, as far back as this clone's log goes.

    Costs are estimates from the price list that cn carries; a model it does not know has none.
    """
    hub = env.hub()
    view = read_usage(hub.root, cast("By", by), read_since(since, now()) if since else None)
    env.facts({**to_json(view), "prices_of": LOOKED_UP}, lambda: _lines(view))


def _lines(view: UsageView) -> list[str]:
    if not view.rows:
        return ["no call to a model is logged"]
    head = (view.by.upper(), "CALLS", "FAILED", "INPUT", "CACHED", "OUTPUT", "COST")
    sums, total = [*view.rows, *([view.total] if len(view.rows) > 1 else [])], view.total
    lines = table([head, *map(_cells, sums)])
    for count, what in (
        (total.replays, "of these were made by 'cn replay'"),
        (total.unpriced, "used a model whose price cn does not know"),
        (total.unknown, "broke off on the way and may have been charged more"),
    ):
        lines += [f"{'1 call' if count == 1 else f'{count} calls'} {what}"] if count else []
    return lines


def _cells(row: Sum) -> tuple[str, ...]:
    rate = row.cache_hit_rate
    cached = "—" if rate is None else f"{rate:.0%}"
    counts = str(row.calls), str(row.failed), f"{row.usage.prompt_tokens:,}", cached, f"{row.usage.output_tokens:,}"
    return clean(row.key, 60) or "—", *counts, _money(row)


def _money(row: Sum) -> str:
    """With two more digits where cents would show nothing."""
    if row.cost is None:
        return "—"
    text = f"${row.cost:.2f}" if row.cost >= 1 or not row.cost else f"${row.cost:.4f}"
    return f"{text} and more" if row.unpriced else text
