"""Read the decisions that stand in the working copies of pending threads."""

from __future__ import annotations

from collections.abc import Mapping

from cn.inbox.plan.decisions import refusal_digest
from cn.inbox.working_copies import Working, shows_triage
from cn.protocol import rules
from cn.protocol.ledger import Item
from cn.protocol.thread_file import read_decision, read_text
from cn.protocol.thread_life import Written
from cn.protocol.triage import TriageRefused, format_decision
from cn.run.secret_gate import without_secrets
from cn.run.view import View
from cn.secrets.findings import own_lines


def read_copies(view: View, copies: Mapping[str, Working]) -> dict[str, Written]:
    """The decisions in working copies, by thread, in the words in which a refusal of them is remembered.

    ``copies`` are those that may hold one.
    """
    found: dict[str, Written] = {}
    shown = {name: working for name, working in copies.items() if shows_triage(working)}
    view.snapshot.read_many(working.path for working in shown.values())
    for name, working in shown.items():
        try:
            triage = read_decision(read_text(working.data), read_text(view.snapshot.read(working.path) or b""))
        except TriageRefused as refused:
            decision, actor, at, problem = "", "", None, refused.text
        else:
            if triage is None:
                continue
            decision, actor, at, problem = format_decision(triage.decision), triage.actor, triage.at, ""
        whole = own_lines(working.path, working.data.decode("utf-8", "replace"))
        decision, actor, problem = (without_secrets(text, view.settings, whole) for text in (decision, actor, problem))
        found[name] = Written(decision, actor, at, problem)
    return found


def was_refused(item: Item, written: Written) -> bool:
    """Is this the very decision that was refused before? A refusal stands for its decision only."""
    rule, why = item.get("rule"), item.get("why")
    if written.problem:
        return rule == rules.VALID_TRIAGE and why == written.problem
    return item.get("digest") == refusal_digest(written.decision, written.actor, rule, why, item.head)
