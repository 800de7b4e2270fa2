"""``cn context [ID]``: what a model would be sent, part by part, with sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cn.cli.completers import complete_thread
from cn.cli.options import Env, options

if TYPE_CHECKING:
    from cn.agent.plan.prompt_parts import Packed
    from cn.runtime.gather_prompt import Measured


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
    from cn.llm.config_file import read_agent_config
    from cn.runtime.gather_prompt import counter, measure, pack_item
    from cn.runtime.shapes import context_json
    from cn.values.text import visible

    view = env.view()
    config = read_agent_config(view.snapshot)
    packed = pack_item(view, config, id)
    if text and not env.json:
        click.echo(visible(request_text(packed)), nl=False)
        return
    measured = measure(packed, counter(config))
    env.facts(lambda: context_json(packed, measured), lambda: context_lines(packed, measured))
    if not (env.json or env.quiet):
        for note in (*config.warnings, *packed.notes):
            click.echo(f"· {visible(note)}", err=True)


_BORDERS = {"stable": "cached: stable", "hub": "cached: hub", "tail": "changes", "item": "changes"}


def context_lines(packed: Packed, measured: Measured) -> list[str]:
    """The table of parts, and the sum."""
    from cn.agent.plan.prompt import NO_MODEL
    from cn.cli.render.text import align, clean, paint

    rows = [("part", "from", "bytes", "tokens", "")]
    for part in packed.parts:
        left = f", {part.left_out} bytes left out" if part.left_out else ""
        place = _BORDERS.get(part.place, "changes")
        rows.append(
            (clean(part.name, 40), clean(part.path, 80) or "—", str(part.size), f"~{part.tokens}", place + left)
        )
    rows.append(("in all", "", str(packed.size), _tokens(measured), ""))
    model = "no model yet" if packed.request.model == NO_MODEL else packed.request.model
    lines = [f"{clean(packed.id)} from {clean(packed.sender)}, for {model}"]
    lines += ["".join(row).rstrip() for row in align(rows)]
    lines[1] = paint(lines[1], dim=True)
    lines += [f"{path} is not there" for path in packed.missing]
    told = "those of the parts are" if measured.how == "counted" else "all are"
    why = f" ({clean(measured.why)})" if measured.why else ""
    return [*lines, f"Tokens with ~ are estimated, one for 3.5 bytes; {told}.{why}"]


def _tokens(measured: Measured) -> str:
    return str(measured.tokens) if measured.how == "counted" else f"~{measured.tokens}"


def request_text(packed: Packed) -> str:
    """The request as one text, each block and message under a line that says what it is."""
    lines = []
    for number, block in enumerate(packed.request.system, 1):
        border = ", cache breakpoint at its end" if block.cached else ""
        lines += [f"=== system block {number}{border}", block.text.rstrip("\n"), ""]
    for said in packed.request.messages:
        lines += [f"=== {said.role}", said.text.rstrip("\n"), ""]
    return "\n".join(lines)
