"""The lines of ``cn queue``, which ``cn status`` shows too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cn.agent.plan.turns import source_of
from cn.cli.render.text import age, clean, next_step, paint, wrap, wrap_around_commands
from cn.protocol.layout import BRANCH_LEFT
from cn.protocol.queue_item import Input
from cn.protocol.states import Actor
from cn.values.shell_words import command
from cn.values.timestamps import format_stamp
from cn.views.queue import QueueView


def queue_lines(view: QueueView, most: int = 50, *, fed: bool = True, margin: str = "") -> list[str]:
    """What the agent is at, what was given up, and of what waits the first ``most``.

    Not ``fed``: no agent is given any of it any more.
    """
    now, turn, deep = view.now, view.turn, len(margin)
    lines = list[str]()

    def tell(text: str, colour: str = "") -> None:
        lines.extend(paint(line, colour) for line in wrap_around_commands(f"{margin}{text}", deep + 4))

    def tell_withdrawn(item: Input) -> None:
        lines.extend(wrap(f"{margin}    ", BRANCH_LEFT) if item.id in view.withdrawn else ())

    if not fed and (turn or view.waiting or view.dead):
        tell("! hub.yaml says 'interface: triage': nothing here is given to an agent", "yellow")
        lines += next_step("decide the threads; 'cn queue clear' takes what waits out of the queue", deep + 2)
    if fed and view.left:
        tell("items are left to other clones of this hub: cn.agent is false in this one's git config")
    if turn is not None:
        where = "" if view.here else f", on another machine ({clean(turn.machine, 40)})"
        tell(f"{_asked(turn.input)}: {_AT[view.actor]} for {age(turn.since, now)}{where}")
        tell_withdrawn(turn.input)
        if turn.attempt > 1:
            lines += wrap(f"{margin}    ", f"attempt {turn.attempt}, since {clean(turn.input.reason, 300)}")
    for item in view.dead[:most]:
        tell(f"{_asked(item)}: given up", "red")
        lines += wrap(f"{margin}    ", clean(item.reason, 300))
        tell_withdrawn(item)
        again = f", or {command('cn queue retry {}', item.id)}" if fed else ""
        lines += next_step(f"decide the thread{again}", deep + 4)
    _tell_more(tell, view.dead, most, "given up")
    for item in view.waiting[:most]:
        again = f", tried {'once' if item.attempts == 1 else f'{item.attempts} times'}" if item.attempts else ""
        tell(f"{_asked(item)}: waits {age(item.queued, now)}{again}")
        tell_withdrawn(item)
    _tell_more(tell, view.waiting, most, "waiting")
    for source, _, why in view.held[:most]:
        tell(f"{clean(source)} waits for a person: {why}", "yellow")
        lines += next_step(command("cn inbox show {}", source), deep + 4)
    _tell_more(tell, view.held, most, "waiting for a person")
    for burst in view.bursts[-most:]:
        said = f"{burst.items} items were acknowledged within a minute, without a word ({format_stamp(burst.at)})"
        tell(said, "yellow")
        lines += next_step("look at what answers: 'cn log', logs/output/", deep + 2)
    for path in view.damaged:
        tell(f"{clean(path)}: cannot be read, left out", "red")
    return lines or [f"{margin}nothing waits for the agent"]


_AT = {
    Actor.IDLE: "idle",
    Actor.INPUT_READY: "the agent's input",
    Actor.PROCESSING: "shown to the agent",
    Actor.OUTPUT_READY: "answered, waits for 'cn inbox process',",
    Actor.TIMED_OUT: "out of time,",
}


def _tell_more(tell: Callable[[str], None], items: Sequence[object], most: int, what: str) -> None:
    if len(items) > most:
        tell(f"and {len(items) - most} more {what}; 'cn queue' lists them")


def _asked(item: Input) -> str:
    return f"{item.id} {item.cadence.value} {clean(source_of(item), 100)}"
