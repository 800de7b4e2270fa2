"""The agent's part of a run: execute what it wrote, give it the next item, and wake it.

Most of cn's planners serve it alone. A run of a hub that feeds no agent (``interface: triage``)
does not import them: that is half of what it would import.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cn.agent.model_faults import forget_faults, forget_outdated
from cn.git.repository import Hub
from cn.protocol.layout import inbox_path
from cn.protocol.queue_item import INPUT, OUTPUT, TURN
from cn.run.memory import Memory
from cn.system.clock import now
from cn.system.files import hold, read_regular, write_file
from cn.system.session import WOKEN, name_wake
from cn.transaction.lock import WAKE, find_holder
from cn.transaction.lock_owner import note_owner
from cn.values.errors import CnError
from cn.values.names import ThreadName
from cn.values.report import Report
from cn.values.text import one_line, redact

if TYPE_CHECKING:
    from cn.agent.queue import MayGive
    from cn.run.executor import Executor
    from cn.run.run import Run


def answered_names(run: Run) -> frozenset[str]:
    """What the output that waits is about: the id of the item in flight, and the names that its ops give; else none."""
    if not os.path.lexists(run.hub.root / OUTPUT):
        return frozenset()
    from cn.agent.plan.output import parse_output
    from cn.agent.queue import peek_turn, read_output

    data, turn = read_output(run), peek_turn(run.snapshot)
    if data is None or turn is None:
        return frozenset()
    if run.settings.config.scope != "hub":
        return frozenset({turn.input.id})
    return frozenset({turn.input.id, *(getattr(op, "id", "") for op in parse_output(data).ops)})


def execute_output(run: Run, executor: Executor) -> str | None:
    """Execute what waits in ``state/output.md``; returns the line for the commit message."""
    if not os.path.lexists(run.hub.root / OUTPUT):
        return None
    from cn.agent import execute

    executed = execute.execute_output(run, executor)
    if executed is not None:
        forget_faults(run.memory)
    return executed


def update_queue(
    run: Run, executor: Executor, *, may_give: MayGive | None = None, keep_expired_turn: bool = False
) -> None:
    """Bring the queue up to date where this hub feeds an agent, or did until a moment ago.

    ``may_give`` tells whether the agent may have an item now; without it, it may. ``keep_expired_turn``: do
    not end a turn that is out of time.
    """
    forget_outdated(run)
    fed = run.settings.config.interface == "queue"
    if fed or (run.hub.root / INPUT).exists() or executor.read(TURN) is not None:
        from cn.agent import queue

        queue.update_queue(run, executor, may_give=may_give, keep_expired_turn=keep_expired_turn)


# Waking: with the command in this clone's git config (``cn.wake``), or in a built-in way.

_SECONDS = 60.0
_AGENT_SECONDS = 900.0
"""What the runtime may take: some calls to a model."""

_LAST_WORD = 1.0
_SAID = 4000
"""Bytes of what a wake command said that are looked at, at its beginning and at its end."""
_SHOWN = 180
"""Characters of it that are told."""

TO_WAKE, WAKING = "wake", "waking"
"""Files that name threads: of which somebody is to be told, and is being told."""


def _take_pending(hub: Hub) -> list[str]:
    """The threads that nobody was woken for yet, taken out of the way of what arrives meanwhile."""
    fresh, taken = hub.state / TO_WAKE, hub.state / WAKING
    names = _names(taken)
    with suppress(FileNotFoundError):
        if names:
            names = list(dict.fromkeys([*names, *_names(fresh)]))
            write_file(taken, "".join(f"{name}\n" for name in names).encode())
            fresh.unlink()
        else:
            fresh.rename(taken)
            names = _names(taken)
    return names


def _names(path: Path) -> list[str]:
    lines = (read_regular(path) or b"").decode("utf-8", "replace").split("\n")
    return [name for name in dict.fromkeys(lines) if name and name.isprintable()]


def drop_pending(hub: Hub) -> None:
    """Nobody is to be told."""
    for name in (TO_WAKE, WAKING):
        (hub.state / name).unlink(missing_ok=True)


def _run_program(hub: Hub, words: Sequence[str], threads: Sequence[str], seconds: float) -> str:
    """Run it in the hub; empty, or why it failed. What runs longer than ``seconds`` is ended.

    Standard input is "you have inbox" and the thread names, a line each; the environment
    has ``CN_HUB``, ``CN_THREADS``, and in ``CN_WOKEN`` a name for this wake: what it starts wakes nobody again, and is
    one reader. Both streams are files: what it leaves in the background may hold them
    open as long as it likes, and is not waited for.
    """
    import tempfile

    env = {**os.environ, "CN_HUB": str(hub.root), "CN_THREADS": " ".join(threads), WOKEN: name_wake()}
    text = "\n".join(["you have inbox", *threads, ""])
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        told.write(text.encode())
        told.seek(0)
        child = subprocess.Popen(
            words, cwd=hub.root, env=env, stdin=told, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LAST_WORD)
            return f"it ran longer than {seconds:.0f} s"
        if code == 0:
            return ""
        words = _ends_of(said)
        return f"exit code {code}" + (f": {words}" if words else "")


def _ends_of(said: IO[bytes]) -> str:
    """The first and the last line of what it said: an error of cn's begins with what is wrong, and ends with a step."""
    said.seek(0)
    first = said.read(_SAID).decode("utf-8", "replace").strip().split("\n")[0]
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID))
    last = said.read(_SAID).decode("utf-8", "replace").strip().split("\n")[-1]
    if first == last:
        return one_line(redact(first), _SHOWN)
    return " … ".join(one_line(redact(line), _SHOWN // 2) for line in (first, last))


AGENT, TELEGRAM = "cn:agent", "cn:telegram"
"""Ways that are built in: run the runtime; write to a chat (``cn:telegram:CHAT``)."""


def wake(run: Run) -> None:
    """Tell the agent which threads are new, after the lock of the run is free.

    The names stay in ``.git/cn`` until a wake command has succeeded, or until what they name is over, so that neither a
    crash nor a failing command leaves the agent asleep. A run that the wake command itself starts
    wakes nobody; what it brings is told by the next run.
    """
    if os.environ.get(WOKEN):
        return
    hub, report = run.hub, run.report
    command = hub.config.last("cn.wake") if any((hub.state / name).exists() for name in (TO_WAKE, WAKING)) else ""
    if not command:
        if (hub.state / WAKING).exists():  # a command that failed before was taken out of the configuration
            memory = Memory(hub, now())
            memory.conditions.clear("wake")
            memory.save()
        drop_pending(hub)
        return
    lock = hold(hub.state / WAKE, hub.private_mode)
    if lock is None:
        _tell_held(hub, report)
        return
    try:
        note_owner(lock)
        names = [name for name in _take_pending(hub) if _waits(run, name)]
        failure = _run(hub, command, names) if names else ""
        memory = Memory(hub, now())
        if failure:
            text = f"the wake command failed: {redact(one_line(failure))}"
            _tell(memory, report, text, "see 'git config cn.wake'; it is tried again at each run")
        else:
            (hub.state / WAKING).unlink(missing_ok=True)
            memory.conditions.clear("wake")
            if names:
                report.done(f"woke the agent: you have inbox ({', '.join(names)})")
        memory.save()
    finally:
        os.close(lock)


def _waits(run: Run, name: str) -> bool:
    """Is there still what the agent is to be woken for? A person may have decided it since."""
    if run.settings.config.interface == "queue":  # it is woken for the item that it has, and for nothing else
        return run.snapshot.read(TURN) is not None
    return ":" in name or run.snapshot.read(inbox_path(ThreadName(name))) is not None


def _tell_held(hub: Hub, report: Report) -> None:
    """Another run is at it, and the next one tells what came since; or something keeps all of them from it."""
    holder = find_holder(hub, WAKE)
    if holder is None or not holder.remedy:
        report.info("another run is waking the agent; the next one tells it what came now")
        return
    memory, text = Memory(hub, now()), f"the agent is not woken: {holder.text}"
    _tell(memory, report, text, holder.remedy)
    memory.save()


def _tell(memory: Memory, report: Report, text: str, remedy: str) -> None:
    """Tell why the agent is not woken, once as long as that is so."""
    before = memory.conditions.get("wake", "")
    report.failed(text, remedy, told_before=before is not None and before.text == text)
    memory.conditions.set("wake", text, remedy)


def is_builtin(command: str) -> bool:
    """Does it name a way that is built in?"""
    return command in (AGENT, TELEGRAM) or command.startswith(f"{TELEGRAM}:")


def _run(hub: Hub, command: str, names: Sequence[str]) -> str:
    if not command.startswith("cn:"):
        # The user's own command, from this clone's git config, which no push can carry.
        return _run_program(hub, ["/bin/sh", "-c", command], names, _SECONDS)
    if not is_builtin(command):
        return f"there is no way {command!r}; built in are {AGENT} and {TELEGRAM}[:CHAT]"
    if command == AGENT:
        # -P: what lies in the hub's tree is data, not modules that Python could pick up.
        words = [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "agent", "--quiet"]
        return _run_program(hub, words, names, _AGENT_SECONDS)
    try:
        return _write(hub, command.removeprefix(TELEGRAM).removeprefix(":"), names)
    except CnError as error:
        return f"{error.text}; {error.hint}" if error.hint else error.text


def _write(hub: Hub, chat: str, names: Sequence[str]) -> str:
    """Tell a person in a chat: the one named, else the first of the allowed users."""
    from cn.llm.config import read_agent_config
    from cn.protocol.outbox_entry import chat_id
    from cn.run.view import open_view, require_accepted
    from cn.telegram.client import Telegram

    number = chat_id(f"telegram:{chat}") if chat else 0
    view = open_view(hub)
    accepted = require_accepted(view)
    bot = read_agent_config(view.snapshot.read).require_telegram(accepted)
    if not chat and not bot.allowed_users:
        return f"nobody is named: write {TELEGRAM}:CHAT, or allowed_users in .cn/agent.yaml"
    number = number or bot.allowed_users[0]
    text = "\n".join(["you have inbox", *names])
    with Telegram(bot.token, bot.base_url) as telegram:
        failure = telegram.send_message(number, text[:4000])
    # What may have arrived is not sent again: one message too few is better than one at every run.
    return str(failure) if failure and failure.is_unsent else ""
