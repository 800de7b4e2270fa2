"""Read the decisions that stand in the working copies of pending threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cn.inbox.plan.decisions import refusal_digest
from cn.inbox.working_copies import Working
from cn.protocol import rules
from cn.protocol.ledger import Item
from cn.protocol.thread_file import read_decision, read_text
from cn.protocol.thread_life import Written
from cn.protocol.triage import TriageRefused, find_headings, format_decision
from cn.run.secret_gate import without_secrets
from cn.run.settings import Settings
from cn.run.view import View
from cn.secrets.findings import Text, own_lines


def read_copies(view: View, copies: Mapping[str, Working]) -> dict[str, Written]:
    """The decisions in working copies, by thread; ``copies`` are those that may hold one."""
    texts: dict[str, str] = {}
    found: dict[str, Written] = {}
    wholes: dict[str, Text] = {}
    for name, working in copies.items():
        wholes[name] = own_lines(working.path, working.data.decode("utf-8", "replace"))
        try:
            text = read_text(working.data)
        except TriageRefused as refused:
            found[name] = Written("", "", None, refused.text)
            continue
        if find_headings(text.split("\n")):
            texts[name] = text
    view.snapshot.read_many(copies[name].path for name in texts)
    for name, text in texts.items():
        try:
            committed = read_text(view.snapshot.read(copies[name].path) or b"")
            triage = read_decision(text, committed)
        except TriageRefused as refused:
            found[name] = Written("", "", None, refused.text)
            continue
        if triage is not None:
            found[name] = Written(format_decision(triage.decision), triage.actor, triage.at)
    return {name: _clean(written, view.settings, wholes[name]) for name, written in found.items()}


def _clean(written: Written, settings: Settings, whole: Text) -> Written:
    """A decision as it may be shown, in the words in which a refusal of it is remembered."""
    texts = (written.decision, written.actor, written.problem)
    decision, actor, problem = (without_secrets(text, settings, whole) for text in texts)
    return replace(written, decision=decision, actor=actor, problem=problem)


def was_refused(item: Item, written: Written) -> bool:
    """Is this the very decision that was refused before? A refusal stands for its decision only."""
    rule, why = item.get("rule"), item.get("why")
    if written.problem:
        return rule == rules.VALID_TRIAGE and why == written.problem
    return item.get("digest") == refusal_digest(written.decision, written.actor, rule, why, item.head)
