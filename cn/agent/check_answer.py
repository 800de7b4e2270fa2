"""Refuse an answer when it is written, where the run that executes it would: by the same planners.

Main as it is here is looked at, no lock is taken and nobody is contacted. A refusal here costs no attempt.
"""

from __future__ import annotations

from cn.agent.execute import find_artifacts
from cn.agent.plan.chat import ChatFacts
from cn.agent.plan.ops import AnyFacts, Order, check_output, plan_order
from cn.agent.plan.output import parse_output
from cn.agent.queue import peek_turn
from cn.git.repository import Hub
from cn.inbox.plan.decisions import Facts
from cn.protocol.effects import Plan
from cn.protocol.ledger import IN
from cn.protocol.own_thread import parse_own
from cn.protocol.queue_item import Turn
from cn.run.view import View, open_view
from cn.threads.plan.decisions import OwnFacts
from cn.values.errors import Refused
from cn.values.names import Name


def check_answer(hub: Hub, text: str, id: str) -> None:
    """Raise :class:`Refused` with every reason why this output to the input ``id`` would not be executed."""
    view = open_view(hub)
    turn = peek_turn(view.snapshot)
    facts = _facts(view, turn) if turn is not None and turn.input.id == id else None
    if turn is None or facts is None:
        raise Refused(f"{id} is not in flight any more", "'cn input' prints what is")
    output = parse_output(text.encode("utf-8", "replace"))
    artifacts = find_artifacts(view.snapshot, output.ops)
    order = Order(view.settings.us, turn.input.names, output.ops, output.body, id, artifacts, unknown=output.unknown)
    plan = plan_order(facts, order)
    wrong = [*check_output(output, id), *(() if isinstance(plan, Plan) else plan)]
    if wrong:
        remedies = dict.fromkeys(one.remedy for one in wrong if one.remedy)
        raise Refused("; ".join(f"{one.rule}: {one.reason}" for one in wrong), "; ".join(remedies))


def _facts(view: View, turn: Turn) -> AnyFacts | None:
    """What main says of the item; None where it is decided, or its branch moved."""
    asked, config, peers = turn.input, view.settings.config, view.settings.peers
    if not asked.path:
        return ChatFacts(config, peers, asked, view.now, turn.machine)
    text = view.snapshot.text(asked.path)
    if not asked.topic:
        own = parse_own(asked.path, text)
        return OwnFacts(config, peers, own, view.now, turn.machine) if own.get("Input") == asked.id else None
    peer = Name(asked.sender)
    item = view.snapshot.open_items.get(peer, {}).get((IN, asked.topic))
    if item is None or item.get("input") != asked.id or item.head != asked.head:
        return None
    return Facts(config, peers, peer, item, text, view.now, committed=text)
