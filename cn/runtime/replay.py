"""``cn replay``: ask archived inputs again, execute nothing, compare the decisions.

Which pairs: by name whatever is archived; else those whose answer held. A rejected output, or one
that came too late, decided nothing that could change.

Two answers agree in *decision* when they end the item the same way, and what else they ask for goes to the same
places: ``reply`` and ``reply``, ``delegate`` to the same peer, ``send`` to the same one. The words (messages,
reasons, bodies) are compared too, and told apart from it: no model says the same twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from cn.agent.archive import Rejected, archived_names, read_archived, read_rejected, read_sent
from cn.agent.plan.ops import Beside, check_output, find_endings, find_foreign_ops
from cn.agent.plan.output import parse_output
from cn.agent.plan.prompt import Packed, pack_sent
from cn.llm.config import AgentConfig
from cn.llm.request import Answer, Failure, Stop, parse_sent
from cn.llm.usage import Call, over_budget
from cn.protocol.ops import Commit, Defer, Delegate, Op, Send, format_whole
from cn.protocol.queue_item import LOGS, Shown, Trigger, parse_input, parse_trigger
from cn.run.view import Accepted, View
from cn.runtime.gather_prompt import Ask, ask_packed, asker, pack_text
from cn.system.clock import now
from cn.system.extras import require_runtime
from cn.values.errors import Refusal, Refused
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, parse_stamp

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


def read_answer_decision(answer: bytes, id: str, names: Iterable[str]) -> AnswerDecision:
    """What an answer to the item ``id`` decides; ``names`` is what an op may call the item.

    Rules that need the hub of that day (known peers, approvals) are not asked.
    """
    output = parse_output(answer)
    known = frozenset({id, *names})
    refused = [*check_output(output, id), *find_foreign_ops(output.ops, known)]
    endings = find_endings(output.ops)
    if isinstance(endings, Refusal):
        refused.append(endings)
    ops = tuple(_normal(format_whole(op), known) for op in output.ops)
    if refused or isinstance(endings, Refusal):
        told = tuple(f"{r.rule}: {r.reason}" for r in refused)
        return AnswerDecision("", tuple(map(_aim, output.ops)), ops, output.body, told)
    end, said = endings.end, [_aim(endings.said)] if endings.said else []
    beside = [_aim(op) for op in output.ops if isinstance(op, Beside)]
    first = "ack" if end is None else _aim(end)
    return AnswerDecision("ack" if end is None else format_whole(end)[0], (first, *said, *beside), ops, output.body)


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


LAST = 10
"""How many are taken where nobody says which."""
_LATE = "-late"


@dataclass(frozen=True)
class Pair:
    """One archived attempt: the ``name`` of its files, the ``text`` asked, the ``answer`` given."""

    name: str
    trigger: Trigger
    at: datetime
    text: str
    answer: bytes
    rejected: Rejected | None = None

    @property
    def shown(self) -> Shown:
        """Id, sender and thread, as the model saw them."""
        return parse_input(self.text)

    @property
    def source(self) -> str:
        """What it was about: its thread, or the chat."""
        return self.shown.thread or self.shown.sender

    @property
    def before(self) -> AnswerDecision:
        """What the archived answer decided."""
        typed = self.typed(self.answer)
        if self.rejected is not None and not typed.rejected:  # by a rule that the text alone does not show
            return AnswerDecision("", typed.aims, typed.ops, typed.body, (self.rejected.why,))
        return typed

    def typed(self, answer: bytes) -> AnswerDecision:
        """What an answer decides by its text."""
        thread = self.shown.thread
        return read_answer_decision(answer, self.trigger.id, (thread, f"{thread}.md") if thread else ())


@dataclass(frozen=True)
class Replayed:
    """What came of one pair. ``error`` says why there is nothing to compare; then ``now`` is None. ``unreached``: no
    connection came to the server.
    """

    pair: Pair
    packed: Packed
    now: AnswerDecision | None = None
    error: str = ""
    call: Call | None = None
    unreached: bool = False

    @property
    def change(self) -> Change | None:
        """How far the answers differ; None where there is no answer."""
        return compare(self.pair.before, self.now) if self.now is not None else None


def find_pairs(view: View, names: Sequence[str] = (), since: datetime | None = None) -> list[Pair]:
    """The pairs asked for, oldest first; raises :class:`Refused` for a name of which there is no pair."""
    if names:
        return [_named(view, name) for name in dict.fromkeys(names)]
    answered = set(archived_names(view, "output"))
    triggers = sorted(t for n in archived_names(view, "input") if n in answered and (t := parse_trigger(n)))
    if since is not None:
        triggers = [t for t in triggers if (at := _queued(t)) is not None and at >= since]
    window = len(triggers) if since is not None else 4 * LAST
    while True:
        taken = triggers[-window:] if window else []
        rejected = read_rejected(view, taken[0].id[:8]) if taken else {}
        held = [t for t in taken if str(t) not in rejected]
        if since is not None or len(held) >= LAST or len(taken) == len(triggers):
            chosen = held if since is not None else held[-LAST:]
            return _read(view, [(trigger, str(trigger)) for trigger in chosen])
        window *= 4


def _read(view: View, wanted: Sequence[tuple[Trigger, str]]) -> list[Pair]:
    """The pairs that are there: of each the attempt that was asked, and the name of its answer."""
    asked = read_archived(view, "input", [str(trigger) for trigger, _ in wanted])
    answers = read_archived(view, "output", [name for _, name in wanted])
    found = []
    for trigger, name in wanted:
        text, answer, at = asked.get(str(trigger)), answers.get(name), _queued(trigger)
        if text is not None and answer is not None and at is not None:
            found.append(Pair(name, trigger, at, text.decode("utf-8", "replace"), answer))
    return found


def _named(view: View, name: str) -> Pair:
    """A pair by its exact name; that of a late output ends with ``-late``."""
    base, late, _ = name.partition(_LATE)
    trigger = parse_trigger(base)
    for pair in _read(view, [(trigger, name)]) if trigger else ():
        why = Rejected("it came too late") if late else read_rejected(view, base[:8]).get(base)
        return replace(pair, rejected=why)
    raise Refused(
        f"there is no archived pair {one_line(name, 80)!r}",
        "give names that are in both logs/input/ and logs/output/, without .md",
    )


def _queued(trigger: Trigger) -> datetime | None:
    """An id tells when its item was queued."""
    try:
        return parse_stamp(f"{trigger.id[:8]}T{trigger.id[9:15]}Z")
    except StampRefused:
        return None


def pack_pair(view: View, config: AgentConfig, pair: Pair, *, as_sent: bool = False) -> Packed:
    """The request with today's main, of the conversation what was said before the item; or as it was sent then.

    Raises :class:`Refused` where what was sent is not archived.
    """
    if as_sent:
        found = parse_sent(read_sent(view, str(pair.trigger)) or b"")
        if found is None:
            what = f"what was sent for {pair.name} is not in {LOGS['input']}/"
            raise Refused(what, "leave --as-sent out: it is packed with today's main then")
        return pack_sent(found, pair.text, config.llm.model or found.model)
    return pack_text(view, config, pair.text, pair.at, before=pair.trigger.id)


def replay(
    view: View, config: AgentConfig, pairs: Sequence[tuple[Pair, Packed]], accepted: Accepted, ask: Ask | None = None
) -> Iterator[Replayed]:
    """Ask each again, one after the other. Nothing is executed; what it used is logged at once.

    Where the server cannot be reached, the others are not asked: each would wait as long.
    """
    if ask is None:
        ask = asker(config, accepted)
        require_runtime("anthropic")
    down = ""
    for pair, packed in pairs:
        one = Replayed(pair, packed, error=f"not sent: {down}") if down else _one(view, config, pair, packed, ask)
        down = one.error if one.unreached else down
        yield one


def _one(view: View, config: AgentConfig, pair: Pair, packed: Packed, ask: Ask) -> Replayed:
    sender = pair.shown.sender
    over = over_budget(view.hub.root, config.budgets, sender, now())
    if over:
        return Replayed(pair, packed, error=f"not sent: {over}")
    trigger = pair.name if pair.name != pair.trigger.id else ""
    outcome, call = ask_packed(view, packed, ask, pair.source, trigger, replay=True)
    match outcome:
        case Answer(stop=Stop.END_TURN | Stop.STOP_SEQUENCE):
            return Replayed(pair, packed, pair.typed(outcome.text.encode("utf-8", "replace")), call=call)
        case Answer():
            more = f": {one_line(outcome.note, 200)}" if outcome.note else ""
            return Replayed(pair, packed, error=f"no whole answer ({outcome.stop.value}){more}", call=call)
        case Failure():
            text = one_line(outcome.text, 300)
            return Replayed(pair, packed, error=text, call=call, unreached=outcome.unreached)
