"""One turn of the runtime: pack, ask the model once, write, archive, execute, answer.

Each step can be the last before a crash. What was done is in files: the claim in main, the
answer in ``state/output.md``, what is to be said in the outbox. So the next turn goes on
from there, and a model is never asked again for an answer that is there.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from cn.agent.daemon_health import is_stopping
from cn.agent.hooks import update_queue
from cn.agent.interface import is_answered, note_sent, put_output
from cn.agent.model_faults import forget_faults, is_unasked, note_no_answer, note_unasked
from cn.agent.plan.output import parse_output
from cn.agent.plan.turns import plan_lapsed, plan_rejected, plan_released, rests, source_of, time_limit
from cn.agent.queue import MayGive, current_turn, failing, note_ended, peek_turn, tell_chat
from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig, read_agent_config
from cn.llm.request import Answer, Failure, Kind, Said, Stop, format_sent, request_json
from cn.llm.usage import over_budget, read_calls
from cn.loop.process import process, process_as_agent
from cn.protocol import rules
from cn.protocol.outbox_entry import is_chat
from cn.protocol.queue_item import INPUT, Input, Turn, is_input_id
from cn.run.executor import Executor
from cn.run.memory import Memory
from cn.run.run import Run, open_run
from cn.run.secret_gate import clean_refusal, mask_line
from cn.run.settings import Settings
from cn.run.view import Accepted, View, open_view, require_accepted, require_queue
from cn.runtime.chat_delivery import Speak, Unsent, send_texts
from cn.runtime.gather_prompt import Ask, ask_packed, asker, is_due, look_up, pack_item, pack_text
from cn.secrets.scanner import text_of
from cn.system.child import GO
from cn.system.clock import now
from cn.system.extras import require_runtime
from cn.system.files import hold
from cn.telegram import client as telegram
from cn.transaction.push import clone_id
from cn.values.errors import ConfigError, LockHeld, Refusal
from cn.values.report import Report
from cn.values.text import one_line
from cn.views.queue import find_item

_JUST = timedelta(seconds=30)


@dataclass(frozen=True)
class TurnTools:
    """What a turn works with. ``speak`` is None where there is no bot; ``settings`` are the hub's at its start.

    ``ask`` is None where a key or the model's name is missing. ``look``: look the model up, whether or not an
    item waits.
    """

    hub: Hub
    settings: Settings
    config: AgentConfig
    accepted: Accepted
    ask: Ask | None
    speak: Speak | None
    look: bool = False

    def may_give(self, asked: Input) -> str | None:
        """Which budget forbids to ask the model about this item; empty: none. None: it rests after an attempt."""
        at = now()
        return over_budget(self.hub.root, self.config.budgets, asked.sender, at) or (None if rests(asked, at) else "")


def run_turn(tools: TurnTools, view: View, report: Report) -> bool:
    """Execute what waits, ask the model about the item in flight, execute its answer; is more in flight?

    Raises :class:`ConfigError` where no call can work.
    """
    hub = tools.hub
    turn = in_flight(view)
    forgotten = turn is not None and _was_forgotten(view, turn)
    if turn is not None and forgotten:
        give_back(hub, turn, report, tools.may_give)
    if _check(view, tools, report) or forgotten:
        view = open_view(hub)
        turn = in_flight(view)
    # Given to the agent a moment ago, by a run that looked at all else: the rest can be done after its answer.
    fresh = turn is not None and timedelta() <= view.now - turn.since < _JUST and view.on_main and turn.attempt == 1
    if turn is None or is_answered(hub) or not fresh:
        _process(tools, report, tools.may_give)
        view = open_view(hub)
        turn = in_flight(view)
        if turn is None or is_answered(hub):
            return False
    if tools.may_give(turn.input):
        give_back(hub, turn, report, tools.may_give)
    else:
        _ask(view, tools, turn, report)
    return (hub.root / INPUT).exists()  # every run puts it right


def _check(view: View, tools: TurnTools, report: Report) -> bool:
    """Look the model up where an item waits for it and nobody did lately, or where it is told as wrong; was it time to?

    What can be done without a model is done first, and nothing is claimed: a wrong name in the
    configuration costs no item an attempt, and holds up no answer that is there.
    """
    look = tools.look or tools.ask is None or is_unasked(view.memory)
    if not look and not is_due(view.memory, tools.config):
        return False
    wanted: list[Input] = []

    _process(tools, report, wanted.append)
    turn = in_flight(open_view(tools.hub))
    if turn is not None and not is_answered(tools.hub):
        wanted.append(turn.input)
    if wanted or look:
        try:
            look_up(tools.hub, tools.config, report, tools.accepted)
        except ConfigError as broken:
            _tell_unasked(tools, broken, wanted, report)
            raise
        _note_reachable(view, now(), None)
    return True


def _tell_unasked(tools: TurnTools, why: ConfigError, waiting: Sequence[Input], report: Report) -> None:
    """What keeps turns from being made stands in ``cn status``, and is said in each chat that waits, once."""
    unsent: list[Unsent] = []
    with open_run(tools.hub, report) as run:
        note_unasked(run.memory, run.snapshot, why.text, why.hint)

        def plan(executor: Executor) -> str | None:
            turn = current_turn(executor)
            if turn is not None and turn.machine == run.machine and not is_answered(run.hub):
                executor.perform(plan_released(turn, executor.now))  # its time does not run meanwhile
            for asked in waiting:
                _say_once(run, executor, asked, why.text)  # the cause is for cn status
            return "cn: the model cannot be asked"

        run.commit(plan)
        unsent = _say(run, tools)
    _send_again(tools, unsent, report)


_CANNOT_ASK = "the agent's model cannot be asked at the moment"


def _say_once(run: Run, executor: Executor, asked: Input, why: str) -> None:
    """A chat is told that something is wrong with the model once, as long as it is wrong; what, is our own affair."""
    since = next((at for text, _, at, _ in executor.memory.conditions.shown if text == why), "")
    if is_chat(asked.sender) and not executor.memory.told("unasked", asked.sender, why, since):
        tell_chat(run, executor, asked, _CANNOT_ASK, set())


def _process(tools: TurnTools, report: Report, may_give: MayGive) -> None:
    unsent: list[Unsent] = []

    def say(run: Run) -> None:
        unsent.extend(_say(run, tools))

    report.notes += process_as_agent(tools.hub, tools.settings, may_give=may_give, deliver_first=say).notes
    _send_again(tools, unsent, report)


_PAUSES = (1.0, 4.0)


def _say(run: Run, tools: TurnTools) -> list[Unsent]:
    if tools.speak is not None:
        return send_texts(run, tools.speak, tools.config.telegram.allowed_users)
    waiting = sum(say.machine == run.machine for _, say in run.snapshot.says()[0])
    if waiting:
        text = f"{waiting} texts for chats wait: there is no token for Telegram"
        remedy = "set TELEGRAM_TOKEN in the environment of cn agent"
        run.report.info(f"{text}; {remedy}", told_before=run.memory.told("no token", str(waiting)))
    return []


def _send_again(tools: TurnTools, unsent: list[Unsent], report: Report) -> None:
    """What was not sent is tried again soon, while nobody has to wait for the hub.

    A chat that Telegram wants to be left alone for a while does not keep the others waiting:
    its text is sent by a later run.
    """
    for pause in _PAUSES:
        if all(text.wait for text in unsent):
            break
        time.sleep(pause)
        with open_run(tools.hub, report) as run:
            told = {text.say.name for text in unsent if text.new}
            unsent = [replace(text, new=text.new or text.say.name in told) for text in _say(run, tools)]
    for found in unsent:
        text = f"{found.say.chat}: not sent: {found.reason}"
        report.failed(text, "it stays in the outbox", source=found.say.chat, told_before=not found.new)


def in_flight(view: View) -> Turn | None:
    """The item that this machine's agent has, None when it has none."""
    turn = peek_turn(view.snapshot)
    return turn if turn is not None and turn.machine == clone_id(view.hub, make=False) else None


def _was_forgotten(view: View, turn: Turn) -> bool:
    """Was it taken long ago, and no model asked about it? The machine was off: that is no attempt."""
    if is_answered(view.hub) or not turn.expired(view.now, time_limit(view.settings.config)):
        return False
    asked = read_calls(view.hub.root, turn.since)
    if any((call.trigger or call.input) == turn.trigger for call in asked):
        return False
    memory = view.memory
    once = not memory.told("forgotten", turn.trigger)  # one that is never asked is given up in the end
    memory.save()
    return once


def _ask(view: View, tools: TurnTools, turn: Turn, report: Report) -> None:
    packed = pack_text(view, tools.config, turn.text, turn.since)
    source = source_of(turn.input)
    trigger = turn.trigger if turn.attempt > 1 else ""
    assert tools.ask is not None, "without a model nothing gets so far"
    note_sent(view.hub, turn.trigger, format_sent(packed.request).encode("utf-8", "replace"))
    outcome, call = ask_packed(view, packed, tools.ask, source, trigger)
    if isinstance(outcome, Failure) and outcome.kind in _PERHAPS_NOT_THE_ITEM and not outcome.retryable:
        probe = replace(packed, parts=(), request=replace(packed.request, system=(), messages=_PROBE))
        reply, call = ask_packed(view, probe, tools.ask, source, trigger)
        if isinstance(reply, Failure) and reply.kind is not Kind.EMPTY:
            hint = _ALL_REFUSED if outcome.kind is Kind.INVALID else outcome.hint
            outcome = replace(outcome, kind=Kind.PERMISSION, hint=hint)
    _note_reachable(view, call.at, outcome)
    if isinstance(outcome, Answer) and not _fault(turn, outcome):
        report.info(f"{source}: {outcome.model} answered in {outcome.seconds:.1f} s", source=source)
        # From now on the model is not asked again. Where 'cn out' was first, that answer counts.
        put_output(view.hub, outcome.text)
        _process(tools, report, tools.may_give)
    else:
        _end(tools, turn, report, outcome)


def _note_reachable(view: View, at: datetime, outcome: Answer | Failure | None) -> None:
    """Whether a model answers here is shown by ``cn status``."""
    memory = Memory(view.hub, at)
    if isinstance(outcome, Failure):
        note_no_answer(memory, view.snapshot, outcome.text, outcome.hint)
    else:
        forget_faults(memory)
    memory.save()


_NOT_THE_ITEM = (Kind.AUTH, Kind.PERMISSION, Kind.NOT_FOUND)
"""Failures that no other attempt at the same item can mend."""
_PERHAPS_NOT_THE_ITEM = (Kind.INVALID, Kind.SERVER)
"""Failures that may be about the request, or about all: the API says with status 400 that an account is used up.

Which it is, another request tells, not the words: the same model, with as many tokens, is asked a few words.
"""
_ALL_REFUSED = "no request is taken: look in the console of the API (credit, limits), or at llm in agent.yaml"
_PROBE = (Said("user", "Answer with the word: yes"),)


def give_back(hub: Hub, turn: Turn, report: Report, may_give: MayGive | None = None) -> None:
    """The item in flight waits again, and costs no attempt; with ``may_give`` another may have the turn."""
    with open_run(hub, report) as run:

        def plan(executor: Executor) -> str | None:
            there = current_turn(executor)
            if there is None or there.trigger != turn.trigger:
                return None
            executor.perform(plan_released(turn, executor.now))
            note_ended(executor.memory, turn.input.id)
            if may_give is not None:
                update_queue(run, executor, may_give=may_give)
            return f"cn: {source_of(turn.input)} waits"

        run.commit(plan)


def _end(tools: TurnTools, turn: Turn, report: Report, outcome: Answer | Failure) -> None:
    """An attempt without an answer that can be executed."""
    source = source_of(turn.input)
    unsent: list[Unsent] = []
    with open_run(tools.hub, report) as run:

        def plan(executor: Executor) -> str | None:
            there = current_turn(executor)
            if there is None or there.trigger != turn.trigger:
                return None  # it was decided another way meanwhile
            facts = failing(run, executor, turn.input)
            note_ended(executor.memory, turn.input.id)
            if isinstance(outcome, Answer):
                fault = Refusal(rules.VALID_OUTPUT, *_fault(turn, outcome))
                refusal = clean_refusal(fault, run.settings, text_of("the answer", outcome.text))
                executor.perform(plan_rejected(turn, outcome.text.encode("utf-8", "replace"), (refusal,), facts))
                executor.notes.refused(f"{source}: {refusal.rule}: {refusal.reason}", refusal.remedy, source=source)
            elif outcome.kind in _NOT_THE_ITEM:
                executor.perform(plan_released(turn, executor.now))
                _say_once(run, executor, turn.input, f"the model gave no answer: {outcome.text}")
            elif outcome.retryable and not outcome.unknown:  # no model was reached: it waits
                report.again = True
                executor.perform(plan_released(turn, executor.now, below=facts.config.max_attempts))
                if turn.attempt >= facts.config.max_attempts:
                    _say_once(run, executor, turn.input, f"the model gave no answer: {outcome.text}")
            else:
                executor.perform(plan_lapsed(turn, facts, one_line(mask_line(outcome.text, run.settings), 300)))
            if isinstance(outcome, Failure):
                executor.notes.failed(f"{source}: {outcome.text}", outcome.hint, source=source)
            if isinstance(outcome, Answer) or not (outcome.retryable or outcome.kind in _NOT_THE_ITEM):
                # It lies with this item: the others need not wait for the next run, nor fail the same way.
                update_queue(run, executor, may_give=tools.may_give)
            return f"cn: {source} has no answer"

        run.commit(plan)
        unsent = _say(run, tools)
    _send_again(tools, unsent, report)


def _fault(turn: Turn, answer: Answer) -> tuple[str, str] | tuple[()]:
    """Why an answer cannot be executed, and the next step; empty: it can.

    A model that copies the id of an earlier item has answered, badly. (What another brain
    writes into ``output.md`` under an earlier id is late, and costs this item nothing.)
    """
    more = f": {one_line(answer.note)}" if answer.note else ""
    match answer.stop:
        case Stop.MAX_TOKENS:
            return (
                "the model's answer was cut off at llm.max_tokens",
                "raise llm.max_tokens in agent.yaml, or ask for less",
            )
        case Stop.REFUSAL:
            return f"the model refused to answer{more}", "look at the item; a person can decide its thread"
        case Stop.OTHER:
            return f"the model stopped for another reason{more}", "it is tried again"
    id = parse_output(answer.text.encode("utf-8", "replace")).id
    if is_input_id(id) and id != turn.input.id:
        return f"its id is {id}, the input's {turn.input.id}", "copy the id of the input exactly"
    return ()


# ``cn agent`` and ``cn agent --process``: turns with the real clients.

_MOST_TURNS = 20
"""Turns of one cron run at most: the next run goes on."""
_ENOUGH = 30.0
"""Seconds after which no further turn is begun under the daemon, so that it can be ended without haste."""


def cycle(hub: Hub, path: Path | None, *, until_idle: bool, report: Report, look: bool = False) -> bool:
    """One turn, or turns until nothing waits; tells whether more waits.

    Under the daemon it is always the latter, for a while: a start costs more than a turn. ``look``: look the
    model up first, whether or not an item waits.

    Raises :class:`ConfigError` where a key is missing that is needed, or the model is not there, and
    :class:`LockHeld` where another process is at it; what was done until then stands in ``report``.
    """
    begun, under_daemon = time.monotonic(), "CN_DAEMON" in os.environ
    with ExitStack() as stack:
        lock = hold(hub.state / "agent.lock", hub.private_mode)
        if lock is None:
            raise LockHeld("another process asks the model for this hub", "it goes on by itself")
        stack.callback(os.close, lock)
        view = open_view(hub)
        require_queue(view)
        accepted = require_accepted(view)
        config = read_agent_config(view.snapshot.read, path)
        report.level = config.log_level
        # Before anything is claimed.
        require_runtime("anthropic")
        if config.telegram.token:
            require_runtime("telegram")
        for warning in config.warnings:
            report.info(warning)
        ask: Ask | None = None
        with suppress(ConfigError):  # what can be done without a model is done, then it is told
            ask = asker(config, accepted)
        tools = TurnTools(hub, view.settings, config, accepted, ask, _speaker(config, accepted, stack), look)
        more, turns = run_turn(tools, view, report), 1
        while (until_idle or under_daemon) and more and turns < _MOST_TURNS:
            if under_daemon and time.monotonic() - begun > _ENOUGH:
                break
            view, tools = open_view(hub), replace(tools, look=False)
            if under_daemon and is_stopping(hub):
                turn = in_flight(view)
                if turn is not None and not is_answered(hub):
                    give_back(hub, turn, report)  # no model was asked about it
                return False
            more, turns = run_turn(tools, view, report), turns + 1
    return under_daemon and more


def _speaker(config: AgentConfig, accepted: Accepted, stack: ExitStack) -> Speak | None:
    """The bot, opened when there is something to say."""

    @cache
    def bot() -> telegram.Telegram:
        wanted = config.require_telegram(accepted)
        return stack.enter_context(telegram.Telegram(wanted.token, wanted.base_url))

    return (lambda chat, text: bot().send_message(chat, text)) if config.telegram.token else None


def show_request(hub: Hub, path: Path | None) -> tuple[str, Report]:
    """What a turn would do: the plan of an output that waits, else the request that would be sent."""
    view = open_view(hub)
    if in_flight(view) is not None and is_answered(hub):
        return "", process(hub, dry_run=True)
    config = read_agent_config(view.snapshot.read, path)
    report = Report()
    for warning in config.warnings:
        report.info(warning)
    if find_item(view, None) is None:
        report.info("nothing waits for the agent")
        return "", report
    return request_json(pack_item(view, config).request), report


def stand_by() -> bool:
    """Load all that a turn needs, then wait: True for the word to begin, False when the daemon is gone.

    Importing takes longer than a turn does. The daemon keeps one such child; it holds no lock and has read
    nothing of the hub, so ending it at any time is harmless.
    """
    import yaml  # noqa: F401

    client.load_all()
    telegram.load()
    gc.freeze()  # what is loaded stays: no collection needs to look at it
    word = sys.stdin.buffer.readline()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return word == GO
