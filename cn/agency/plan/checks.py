"""The rules about outcomes and words that several planners share: each says why not, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cn.agency.names import NO_ID, Party, Uuid, is_user
from cn.agency.operations import ByHandler, BySystem, ByUser, Principal, Seen
from cn.agency.plan.access import ACCESS, KNOWN, boss_of
from cn.agency.plan.bounds import MOST_TEXT, MOST_TITLE
from cn.agency.plan.result import Refused
from cn.agency.plan.structure import above, delegated, holder, writer
from cn.agency.rows import Facts, File, Outcome
from cn.values.text import in_quotes, is_text, one_line
from cn.values.timestamps import format_second

OPEN_OUTCOME = "open-outcome"
OWN_INBOX = "inbox-of-agency"
BOUNDARY = "delegation-boundary"
STALE = "stale-version"
WORDS = "words"
TIME_TO_COME = "time-to-come"
NOTHING = "nothing-to-change"


def open_outcome(id: Uuid, facts: Facts) -> Outcome | Refused:
    """An outcome of which something can still be changed, and that is not Agency's own."""
    outcome = facts.outcome(id)
    if outcome is None:
        return Refused(KNOWN, f"there is no outcome {id}", "list outcomes, or search by title")
    if not outcome.is_open:
        return Refused(OPEN_OUTCOME, f"{_named(outcome)} is {outcome.status}, which is final", "create a new outcome")
    if outcome.inbox:
        why = f"{_named(outcome)} is Agency's own"
        return Refused(OWN_INBOX, why, "deal with the messages in the inbox; it completes by itself then")
    return outcome


def works_on(principal: Principal, outcome: Outcome, facts: Facts) -> Refused | None:
    """Only the responsible handler, or a user, works on an outcome: children, block, delegation."""
    if isinstance(principal, ByUser) or (isinstance(principal, ByHandler) and outcome.responsible == principal.handler):
        return None
    return _not_yours(principal, outcome, Party(holder(outcome, facts)), facts)


def decides(principal: Principal, outcome: Outcome, facts: Facts) -> Refused | None:
    """Only who writes an outcome, or a user, ends or links it: of a delegated one the boss."""
    decider = writer(outcome, facts)
    if isinstance(principal, ByUser) or (isinstance(principal, ByHandler) and decider == principal.handler):
        return None
    return _not_yours(principal, outcome, decider, facts)


def _not_yours(principal: Principal, outcome: Outcome, decider: Party, facts: Facts) -> Refused:
    """Refuse, and say whom to ask: downwards the underling in between, otherwise one's boss."""
    name, me = _named(outcome), principal.handler if isinstance(principal, ByHandler) else NO_ID
    boss = boss_of(principal, facts)
    if outcome.id == me:
        return Refused(ACCESS, f"{name} is your own root", f"ask your boss, {boss}, which decides about it", boss)
    if is_user(decider):
        return Refused(ACCESS, f"{name} is {decider}'s to decide", f"ask {decider}", decider)
    line = [Uuid(decider), *above(Uuid(decider), facts)]
    if me in line:
        underling = line[line.index(me) - 1]
        found = facts.handler(underling)
        if found is not None and is_user(found.boss):
            return Refused(BOUNDARY, f"{name} is delegated", f"ask {found.boss}, the boss of {underling}", found.boss)
        remedy = f"send mail to your underling {underling}, or stop it to have its outcomes again"
        return Refused(BOUNDARY, f"{name} is delegated", remedy, underling)
    return Refused(ACCESS, f"{name} is {decider}'s to decide", f"ask your boss, {boss}", boss)


def not_delegated(outcome: Outcome, facts: Facts) -> Refused | None:
    """What was delegated is its handler's."""
    handler = delegated(outcome, facts)
    if handler is None:
        return None
    if is_user(handler.boss):
        remedy = f"ask {handler.boss}, the boss of its handler {handler.id}"
        return Refused(BOUNDARY, f"{_named(outcome)} is delegated", remedy, handler.boss)
    remedy = f"send mail to its handler {handler.id}, or stop it"
    return Refused(BOUNDARY, f"{_named(outcome)} is delegated", remedy, handler.id)


def fresh(file: File, seen: Seen | None) -> Refused | None:
    """Who overwrites has seen the latest version."""
    if not file.version or (seen and seen == (file.version, file.hash)):
        return None
    said = f"you last saw version {seen.version}" if seen else "you named no version"
    if seen and seen.version == file.version:
        said = f"what you saw, {one_line(seen.hash, 64)}, is not version {seen.version}"
    reason = f"{said}; the latest is version {file.version}, {file.hash}"
    return Refused(STALE, reason, "read it, put your changes into what it says now, and name that version and hash")


def fit_line(text: str, what: str) -> Refused | None:
    """A title, subject or description: on one line, and something."""
    if text and text == one_line(text, MOST_TITLE):
        return None
    remedy = f"write one line of at most {MOST_TITLE} visible characters, one space between words, none at the ends"
    return Refused(WORDS, f"{what} {one_line(text, 40)!r} does not do", remedy)


def fit_text(text: str, what: str, *, needed: bool = False) -> Refused | None:
    """A text that can be stored, and is not too long; ``needed``: and that says something."""
    if needed and not text.strip():
        return Refused(WORDS, f"{what} is empty", f"say in a sentence what {what} is")
    if not is_text(text) or "\0" in text:
        return Refused(WORDS, f"{what} is no text", "write it as UTF-8 without NUL")
    if len(text.encode()) > MOST_TEXT:
        return Refused(
            WORDS, f"{what} is longer than {MOST_TEXT} bytes", "put it into a file, and name it as kb://UUID"
        )
    return None


def to_come(at: datetime | None, now: datetime) -> Refused | None:
    """A time at which something is to happen lies ahead."""
    if at is None or at > now:
        return None
    return Refused(TIME_TO_COME, f"{format_second(at)} is over", "give a time to come")


def first(*refusals: Refused | None) -> Refused | None:
    """The first that says no."""
    return next((one for one in refusals if one is not None), None)


def named(outcomes: Sequence[Outcome], most: int = 5) -> str:
    """Some outcomes by their titles."""
    shown = ", ".join(map(_named, outcomes[:most]))
    return shown if len(outcomes) <= most else f"{shown} and {len(outcomes) - most} more"


def _named(outcome: Outcome) -> str:
    return f"{outcome.id[:8]} ({in_quotes(one_line(outcome.title, 60))})"


def needs_party(principal: Principal) -> Refused | None:
    """Agency itself owns and sends nothing."""
    return Refused(ACCESS, "Agency itself does no such thing") if isinstance(principal, BySystem) else None
