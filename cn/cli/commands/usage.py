"""``cn usage``: what calls to the model used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from cn.cli.options import SINCE, Env, options
from cn.cli.render.text import align, clean, paint

if TYPE_CHECKING:
    from cn.llm.usage import By, Sum, UsageView


@click.command("usage")
@SINCE
@click.option("--by", type=click.Choice(["day", "peer"]), default="day", show_default=True, help="Sums by this.")
@options()
def usage_command(env: Env, since: str, by: str) -> None:
    """What calls to the model used and cost, as far back as this clone's log goes.

    Costs are estimates from the price list that cn carries; a model it does not know has none.
    """
    from cn.llm.usage import read_usage
    from cn.system.clock import now
    from cn.views.log import parse_since
    from cn.views.shapes import usage_json

    hub = env.hub()
    start = parse_since(since, now()) if since else None
    view = read_usage(hub.root, cast("By", by), start)
    env.facts(lambda: usage_json(view), lambda: _lines(view))


def _lines(view: UsageView) -> list[str]:
    if not view.rows:
        return ["no call to a model is logged"]
    head = (view.by.upper(), "CALLS", "FAILED", "INPUT", "CACHED", "OUTPUT", "COST")
    total = [_cells(view.total)] if len(view.rows) > 1 else []
    table = ["".join(row).rstrip() for row in align([head, *(_cells(row) for row in view.rows), *total])]
    lines = [paint(table[0], dim=True), *table[1:]]
    if view.total.replays:
        lines.append(f"{_calls(view.total.replays)} of these were made by 'cn replay'")
    if view.total.unpriced:
        lines.append(f"{_calls(view.total.unpriced)} used a model whose price cn does not know")
    if view.total.unknown:
        lines.append(f"{_calls(view.total.unknown)} broke off on the way and may have been charged more")
    return lines


def _cells(row: Sum) -> tuple[str, ...]:
    rate = row.cache_hit_rate
    return (
        clean(row.key, 60) or "—",
        str(row.calls),
        str(row.failed),
        f"{row.usage.prompt_tokens:,}",
        "—" if rate is None else f"{rate:.0%}",
        f"{row.usage.output_tokens:,}",
        _money(row),
    )


def _money(row: Sum) -> str:
    """With two more digits where cents would show nothing."""
    if row.cost is None:
        return "—"
    text = f"${row.cost:.2f}" if row.cost >= 1 or not row.cost else f"${row.cost:.4f}"
    return f"{text} and more" if row.unpriced else text


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
