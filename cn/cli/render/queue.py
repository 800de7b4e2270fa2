"""The lines of ``cn queue``, which ``cn status`` shows too."""

from __future__ import annotations

from collections.abc import Sequence

from cn.agent.plan.turns import source_of
from cn.cli.render.text import age, clean, next_step, paint, wrap
from cn.protocol.queue_item import Input
from cn.protocol.states import Actor
from cn.values.shell_words import command
from cn.values.timestamps import format_stamp
from cn.views.queue import QueueView


def queue_lines(view: QueueView, most: int = 50, *, fed: bool = True) -> list[str]:
    """What the agent is at, what was given up, and of what waits the first ``most``.

    Not ``fed``: no agent is given any of it any more.
    """
    now, turn = view.now, view.turn
    lines = []
    if not fed and (turn or view.waiting or view.dead):
        lines += wrap("! ", "hub.yaml says 'interface: triage': nothing here is given to an agent", colour="yellow")
        lines += next_step("decide the threads; 'cn queue clear' takes what waits out of the queue")
    if turn is not None:
        where = "" if view.here else f", on another machine ({clean(turn.machine, 40)})"
        lines.append(f"{_asked(turn.input)}: {_AT[view.actor]} for {age(turn.since, now)}{where}")
        if turn.attempt > 1:
            lines += wrap("    ", f"attempt {turn.attempt}, since {clean(turn.input.reason, 300)}")
    for item in view.dead[:most]:
        lines.append(paint(f"{_asked(item)}: given up", "red"))
        lines += wrap("    ", clean(item.reason, 300))
        again = f", or {command('cn queue retry {}', item.id)}" if fed else ""
        lines += next_step(f"decide the thread{again}", 4)
    lines += _more(view.dead, most, "given up")
    for item in view.waiting[:most]:
        again = f", tried {item.attempts} times" if item.attempts else ""
        lines.append(f"{_asked(item)}: waits {age(item.queued, now)}{again}")
    lines += _more(view.waiting, most, "waiting")
    for source, hops in view.held[:most]:
        text = f"{clean(source)} waits for a person: {hops} automatic answers in a row led to it"
        lines += [paint(text, "yellow"), *next_step(command("cn inbox show {}", source), 4)]
    lines += _more(view.held, most, "waiting for a person")
    for burst in view.bursts[-most:]:
        said = f"{burst.items} items were acknowledged within a minute, without a word ({format_stamp(burst.at)})"
        lines += [paint(said, "yellow"), *next_step("look at what answers: 'cn log', logs/output/")]
    lines += [paint(f"{clean(path)}: cannot be read, left out", "red") for path in view.damaged]
    return lines or ["nothing waits for the agent"]


_AT = {
    Actor.IDLE: "idle",
    Actor.INPUT_READY: "the agent's input",
    Actor.PROCESSING: "shown to the agent",
    Actor.OUTPUT_READY: "answered, waits for 'cn inbox process',",
    Actor.TIMED_OUT: "out of time,",
}


def _more(items: Sequence[object], most: int, what: str) -> list[str]:
    return [f"and {len(items) - most} more {what}; 'cn queue' lists them"] if len(items) > most else []


def _asked(item: Input) -> str:
    return f"{item.id} {item.cadence.value} {clean(source_of(item), 100)}"
