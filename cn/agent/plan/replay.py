"""What an answer decides, in a form in which two answers to one item can be compared.

The brain is text to text, so an archived pair is a test. Two answers agree in *decision* when they
end the item the same way, and what else they ask for goes to the same places: ``reply`` and ``reply``,
``delegate`` to the same peer, ``send`` to the same one. The words (messages, reasons, bodies) are
compared too, and told apart from it: no model says the same twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from cn.agent.plan.ops import Beside, check_output, find_ending, find_foreign_ops
from cn.agent.plan.output import Output, parse_output
from cn.protocol.ops import Commit, Defer, Delegate, Op, Send, format_whole
from cn.values.errors import Refusal

ITEM = "ID"
"""Stands for every name of the item, so that attempts with different ids compare."""


class Change(Enum):
    """How far two answers differ: not at all, in words alone, in what is decided."""

    NONE = "none"
    WORDING = "wording"
    DECISION = "decision"


@dataclass(frozen=True)
class AnswerDecision:
    """What an answer decides.

    ``ending`` is the op that ends the item (``ack`` where none says so), empty where it is
    rejected for what the text alone shows: ``rejected`` says why, rule first. ``aims`` are what decides:
    each op without its words, the ending first; ``ops`` the same with them, in the order written.
    """

    ending: str
    aims: tuple[str, ...]
    ops: tuple[str, ...]
    body: str
    rejected: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """What stands beside the ending, without its words."""
        return self.aims[1:] if self.ending else ()


def read_answer_decision(answer: bytes, id: str, names: Iterable[str]) -> AnswerDecision:
    """What an answer to the item ``id`` decides; ``names`` is what an op may call the item.

    Rules that need the hub of that day (known peers, approvals) are not asked.
    """
    output = parse_output(answer)
    known = frozenset({id, *names})
    refused = [*check_output(output, id), *find_foreign_ops(output.ops, known)]
    ending = find_ending(output.ops)
    if isinstance(ending, Refusal):
        refused.append(ending)
    ops = tuple(_normal(format_whole(op), known) for op in output.ops)
    if refused or isinstance(ending, Refusal):
        told = tuple(f"{r.rule}: {r.reason}" for r in refused)
        return AnswerDecision("", _aims(output), ops, output.body, told)
    end = "ack" if ending is None else format_whole(ending)[0]
    beside = [_aim(op) for op in output.ops if isinstance(op, Beside)]
    first = end if ending is None else _aim(ending)
    return AnswerDecision(end, (first, *beside), ops, output.body)


def _aims(output: Output) -> tuple[str, ...]:
    return tuple(_aim(op) for op in output.ops)


def _aim(op: Op) -> str:
    """An op without its words."""
    key = format_whole(op)[0]
    match op:
        case Delegate(_, to) | Send(to):
            return f"{key} {to}"
        case Defer(_, until) if until:
            return f"{key} until {until}"
        case Commit(_, artifact):
            return f"{key} {artifact}"
        case _:
            return key


def _normal(pair: tuple[str, str], names: frozenset[str]) -> str:
    key, value = pair
    first, bar, rest = value.partition("|")
    return f"{key}: {ITEM if first in names else first}{bar}{rest}"


def compare(before: AnswerDecision, now: AnswerDecision) -> Change:
    """How far the answer given now differs from the one that was given."""
    if bool(before.rejected) != bool(now.rejected) or before.ending != now.ending:
        return Change.DECISION
    if before.aims != now.aims:
        return Change.DECISION
    return Change.NONE if (before.ops, before.body) == (now.ops, now.body) else Change.WORDING
