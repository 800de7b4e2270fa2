"""States in a few words, as every door says them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cn.protocol.layout import BRANCH_GONE, BRANCH_LEFT, IN_MAIN
from cn.values.shell_words import command
from cn.values.text import clean, in_quotes, some_of
from cn.values.timestamps import format_stamp

if TYPE_CHECKING:  # who shows one kind does not import the other
    from cn.views.sent import Sent
    from cn.views.threads import ThreadView


def untold(damaged: Iterable[str]) -> str:
    """What stands behind how much is pending where records of peers are damaged: theirs are not counted."""
    peers = list(damaged)
    return f"; what is pending from {some_of(peers)} cannot be told, see 'cn doctor'" if peers else ""


def after_end(thread: ThreadView) -> str:
    """What becomes of the branch of a thread that is ended now."""
    branch = clean(thread.branch, 120)
    if thread.no_peer:
        return f"{thread.peer} is told when it is added again"
    if thread.chain:  # who only lists threads has no use for it
        from cn.protocol.thread_life import DELETED, MOVED, RECEIVED

        seen = [link.step for link in thread.chain if link.at and link.step in (RECEIVED, MOVED, DELETED)]
        gone = seen[-1:] == [DELETED]
    else:
        gone = thread.withdrawn is not None
    return f"{branch} is gone already" if gone else f"{thread.peer} deletes {branch}"


def standing_text(thread: ThreadView) -> str:
    """Why a pending thread takes fewer decisions than others, and what helps; empty where it takes all."""
    if thread.no_peer:
        told = f"{thread.peer} is no peer: it can be deleted or put off, and {thread.peer} is told when added again"
        return f"{told}; {command('cn peer add {} URL', thread.peer)} adds it"
    if thread.withdrawn:
        ends, asks = command("cn delete {}", thread.source), command("cn comment {} TEXT", thread.source)
        return f"{BRANCH_LEFT}: nothing can be merged; {ends} ends it, {asks} asks for it again"
    if thread.unsigned:
        told = f"the key that is pinned for {thread.peer} did not sign it: {thread.peer} signs it anew"
        return f"{told}, or {command('cn delete {}', thread.source)} ends it"
    return ""


_WITH_AGENT = {"queued": "waits for the agent", "claimed": "with the agent", "dead": "given up by the agent"}


def assigned_text(thread: ThreadView) -> str:
    """To whom it is assigned, and whether a comment there waits for its creator."""
    return f"{thread.decided.assigned_to}{f', waits for {thread.peer}' if thread.asked else ''}"


def state_text(thread: ThreadView) -> str:
    """A thread's state."""
    decided = thread.decided
    match thread.state:
        case "deferred":
            text = f"deferred until {format_stamp(decided.until)}" if decided.until else "deferred"
        case "assigned":
            text = f"assigned to {assigned_text(thread)}"
        case "decided":
            text = f"decided: {clean(decided.text, 80)} by {decided.actor}"
        case "refused":
            text = f"refused: {thread.refused.rule if thread.refused else ''}"
        case "answered":
            text = f"answered, waits for {thread.peer}"
        case "done":
            text = f"done: {thread.result.status}"
        case state:
            text = _WITH_AGENT.get(state, state)
    if thread.withdrawn:
        text = BRANCH_LEFT if thread.state == "withdrawn" else f"{text}, {BRANCH_LEFT}"
    text = f"{text}, of no peer now" if thread.no_peer else text
    text = f"{text}, {IN_MAIN}" if thread.in_main else text
    return f"{text}, {thread.caution}" if thread.caution else text


def sent_text(sent: Sent) -> str:
    """Where something of ours is, and its last answer."""
    where = "in the outbox" if sent.state == "queued" else f"at {sent.peer}"
    where = {"deleted": "cleaned up", "deleting": "about to be cleaned up"}.get(sent.state, where)
    answer = "no answer"
    if sent.of_another:
        answer = f"no answer about our commit, but {clean(sent.of_another)} about another there"
    if sent.state == "gone" and (at := sent.chain[-1].at) is not None:  # who deleted it no host tells
        where, answer = f"gone since {format_stamp(at)}: {BRANCH_GONE}", "no answer came before"
    where = f"taken back by us, {where}" if sent.withdrawn else where
    answer = f"merged as {sent.merge}" if sent.merge else clean(sent.status) or answer
    answer += f" (claimed, unproven: {clean(sent.unproven)})" if sent.unproven else ""
    return f"{where}; {answer}{f': {in_quotes(clean(sent.reason))}' if sent.reason else ''}"
