"""``cn why``: explain one action from what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import click

from cn.agent.plan.prompt import estimate_bytes
from cn.cli.completers import complete_any_thread
from cn.cli.options import Env, options
from cn.cli.render.text import clean, next_step, paint, wrap
from cn.cli.render.thread_page import text_lines
from cn.git.history import PastCommit
from cn.llm.usage import Call
from cn.protocol.ops import format_op
from cn.values.shell_words import command
from cn.views.log import LoggedAction
from cn.views.sent import Sent
from cn.views.threads import ThreadView
from cn.views.why import Attempt, Ended, Item, Message, Why, explain
from cn.views.words import sent_text, state_text

_FEW = 12
_SHORT = 300


@click.command("why")
@click.argument("name", shell_complete=complete_any_thread)
@click.option("--full", is_flag=True, help="Print the answers whole.")
@options()
def why_command(env: Env, name: str, full: bool) -> None:
    """Explain one action: who asked, what was sent and answered, what came of it, what it cost.

    NAME is the id of an item (as in 'cn log --json' and logs/input/), a thread, PEER/TOPIC, a
    chat such as telegram:498316684, or what we sent: its branch, or PEER:TOPIC. What this clone does not know is said.
    """
    why = explain(env.view(), name)
    env.facts(why, lambda: [*why_lines(why), *(_answers(why) if full else ())])


def _answers(why: Why) -> Iterator[str]:
    for attempt in why.attempts:
        if attempt.answer is not None:
            yield paint(f"\n-- answer of {attempt.trigger} " + "-" * 20, dim=True)
            yield from text_lines(attempt.answer.decode("utf-8", "replace"))


def why_lines(why: Why) -> list[str]:
    """The story in order: asked, attempts, what became of the thread, what is not known."""
    if why.sent is not None:
        lines = [*_sent(why.sent), *next_step(why.mend)]
    else:
        lines = list(_item(why.item)) if why.item else [paint(f"{clean(why.name)}: no agent was asked", bold=True)]
    for attempt in why.attempts:
        lines += ["", *_attempt(attempt)]
    if why.replays:
        lines += ["", f"replayed {why.replays} times ('cn replay'), which did nothing"]
    lines += _thread(why)
    if why.rows:
        lines += ["", paint("other rows of the log", bold=True), *_rows(why.rows)]
    if why.others:
        lines += ["", f"asked before about the same: {', '.join(why.others)}"]
    return lines + ([""] if why.notes else []) + [line for note in why.notes for line in wrap("· ", clean(note))]


def _sent(sent: Sent) -> Iterator[str]:
    """What we sent: what, to whom, where it is, and its chain."""
    yield paint(f"{clean(sent.branch)}: {sent.kind} to {sent.peer}", bold=True)
    if sent.subject:
        yield from _told("says", clean(sent.subject))
    yield from _told("is", sent_text(sent))
    yield f"  head     {sent.head}"
    for link in sent.chain:
        when = _at(link.at) if link.at is not None else "waiting for"
        yield from wrap(f"  {when} ", ": ".join(filter(None, [link.step.replace("_", " "), clean(link.text)])))
    yield f"  {command('cn thread show {}', sent.name)} shows all of it"


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _told(label: str, text: str, colour: str = "") -> list[str]:
    """What is told of something, behind the word for it."""
    return wrap(f"  {label:<9}", text, colour=colour)


def _item(item: Item) -> Iterator[str]:
    yield paint(f"{item.id}: {clean(item.source)}", bold=True)
    about = f", about {clean(item.thread)}" if item.thread else ""
    yield f"  asked by {clean(item.sender)} ({item.cadence}){about}; queued {_at(item.queued)}"
    if item.shown is not None:
        yield f"  shown by 'cn input' {_at(item.shown)}"
    if item.where != "over":
        yield from wrap("  ", f"it {_WHERE[item.where]}{f': {clean(item.reason)}' if item.reason else ''}")


_WHERE = {"waits": "waits in the queue", "in flight": "is in flight", "given up": "was given up"}


def _attempt(attempt: Attempt) -> Iterator[str]:
    turn, output = attempt.turn, attempt.output
    yield paint(f"attempt {attempt.trigger.attempt}: {attempt.outcome}", bold=True)
    if turn is not None:
        yield f"  given {_at(turn.since)} to machine {clean(turn.machine, 40)}"
    for call in attempt.calls:
        yield from _call(call)
    if output is not None:
        ops = ", ".join(": ".join(format_op(op)) for op in output.ops) or "no op, which is an ack"
        yield from _told("decided", clean(ops))
        if output.body:
            yield from _told("answer", clean(output.body, _SHORT))
        for error in output.errors:
            yield from _told("error", clean(error))
    if attempt.rejected is not None:
        yield from _told("refused", clean(attempt.rejected.why), "yellow")
    if attempt.ended is not None:
        yield from _ended(attempt.ended)


def _call(call: Call) -> Iterator[str]:
    used = call.usage
    cost = "cost not known" if call.cost is None else f"${call.cost:.4f}"
    yield f"  asked    {_at(call.at)} {clean(call.model, 80)}, {call.seconds:.1f} s, {call.stop}, {cost}"
    cached = f"{used.cache_read_tokens:,} from the cache, {used.cache_write_tokens:,} written to it"
    yield f"           {used.prompt_tokens:,} tokens in ({cached}), {used.output_tokens:,} out"
    if call.parts:
        parts = ", ".join(f"{clean(name, 40)} {size}" for name, size in call.parts)
        total = sum(size for _, size in call.parts)
        yield from _told("context", f"{total} bytes, about {estimate_bytes(total):,} tokens: {parts}")
    if call.main:
        yield f"           packed from main at {call.main[:12]}"


def _ended(ended: Ended) -> Iterator[str]:
    yield from _rows(ended.rows)
    for message in ended.messages:
        yield from _message(message)
    for path in ended.concerns:
        yield f"  concern  {clean(path)}"
    yield from _commit("commit", ended.past)
    yield from (f"           {status} {clean(path, 120)}" for status, path in ended.files[:_FEW])
    if len(ended.files) > _FEW:
        yield f"           and {len(ended.files) - _FEW} more"


def _commit(word: str, past: PastCommit) -> Iterator[str]:
    yield f"  {word:<8} {past.commit[:12]} {_at(past.at)} {clean(past.subject, 120)}"
    for parent in past.parents[1:]:
        yield f"           takes in {parent[:12]}"


def _rows(rows: Iterable[LoggedAction]) -> Iterator[str]:
    for row in (happened.row for happened in rows):
        commit = f" ({row.commit[:12]})" if row.commit else ""
        told = f"{clean(row.source, 80)} | {clean(row.decision)} | {clean(row.executed)}{commit}"
        yield from _told(f"{row.at:%H:%M}", told)


def _message(message: Message) -> list[str]:
    what = f"{message.kind} to {clean(message.to, 60)}: {clean(message.subject, 120)}"
    if message.delivered is None:
        return _told("message", f"{what}; it waits since {_at(message.queued)}")
    return _told("message", f"{what}; {clean(message.executed, 120) or 'left the outbox'} {_at(message.delivered)}")


def _thread(why: Why) -> Iterator[str]:
    thread = why.thread
    if thread is None:
        return
    yield ""
    if not isinstance(thread, ThreadView):
        yield paint(f"thread {clean(thread.source)}: {clean(thread.state, 60)}", bold=True)
        return
    yield paint(f"thread {thread.thread}: {state_text(thread)}", bold=True)
    if thread.decided.text:
        yield from _told("decided", f"{clean(thread.decided.text)} by {clean(thread.decided.actor, 60)}")
    yield f"  head     {thread.head} ({clean(thread.signature, 80)})"
    if thread.refused is not None:
        yield from _told("refused", f"{thread.refused.rule}: {clean(thread.refused.reason)}", "yellow")
    for link in thread.chain:
        if link.at is not None:
            yield from wrap(f"  {_at(link.at)} ", f"{link.step.replace('_', ' ')} {clean(link.text)}".rstrip())
    if why.decided is not None:
        yield from _ended(why.decided)
    if why.merge is not None:
        yield from _commit("merge", why.merge)
