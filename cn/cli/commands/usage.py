"""``cn usage``: what calls to the model used and cost."""

from __future__ import annotations

from typing import cast

import click

from cn.cli.options import SINCE, Env, options
from cn.cli.render.text import clean, table
from cn.llm.usage import By, Sum, UsageView, read_usage
from cn.system.clock import now
from cn.views.log import parse_since
from cn.views.shapes import usage_json


@click.command("usage")
@SINCE
@click.option("--by", type=click.Choice(["day", "peer"]), default="day", show_default=True, help="Sums by this.")
@options()
def usage_command(env: Env, since: str, by: str) -> None:
    """What calls to the model used and cost, as far back as this clone's log goes.

    Costs are estimates from the price list that cn carries; a model it does not know has none.
    """
    hub = env.hub()
    view = read_usage(hub.root, cast("By", by), parse_since(since, now()) if since else None)
    env.facts(lambda: usage_json(view), lambda: _lines(view))


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
