"""Send the chat texts of the outbox, each once; one whose fate is unknown is reported, never repeated.

A chat's server does not recognize a text it has had. So before a part is handed over, a
note of this machine says so; a note that is still there after a crash means that nobody
knows, and that part is not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cn.git.repository import Hub
from cn.protocol.effects import Log, Move, Plan
from cn.protocol.log import Row
from cn.protocol.outbox_entry import Say, chat_id
from cn.run.executor import Executor
from cn.run.run import Run
from cn.system.clock import now
from cn.system.files import read_regular, write_file
from cn.telegram.api import LONGEST_PAUSE, Failure, Trouble, is_heard
from cn.values.errors import CnError
from cn.values.names import HubPath
from cn.values.split_text import split_text
from cn.values.timestamps import StampRefused, format_second, parse_stamp

Speak = Callable[[int, str], Failure | None]
"""Hand a text to a chat; None: its server has it."""


@dataclass
class _Note:
    """How far a text is: ``done`` parts are through, ``sending`` tells that the next was handed over.

    ``after``: the server wants to be left alone until then.
    """

    path: Path
    done: int = 0
    sending: bool = False
    unknown: int = 0
    after: datetime | None = None

    @classmethod
    def read(cls, path: Path) -> _Note:
        try:
            data = json.loads(read_regular(path) or b"")
            after = parse_stamp(data["after"]) if data.get("after") else None
            return cls(path, int(data["done"]), bool(data["sending"]), int(data["unknown"]), after)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StampRefused):
            return cls(path)

    def write(self) -> None:
        after = format_second(self.after) if self.after else ""
        data = {"done": self.done, "sending": self.sending, "unknown": self.unknown, "after": after}
        write_file(self.path, json.dumps(data).encode())


@dataclass(frozen=True)
class Unsent:
    """A text that was certainly not sent and stays, and after how many seconds it may be tried again."""

    say: Say
    reason: str
    wait: float
    new: bool


def send_texts(run: Run, speak: Speak, allowed: Collection[int]) -> list[Unsent]:
    """Say what waits; what is through, or can never be, moves to ``sent/`` in one commit.

    Only to chats of ``allowed`` users, and to groups in which one of them wrote to this machine: whoever
    can push to main can put a file into the outbox. Answers with the first text of each chat that could
    not be sent now.
    """
    says, broken = run.snapshot.says()
    _forget_old(run)
    for path, reason in broken:
        run.report.failed(f"{path}: {reason}", "it is not sent", told_before=run.memory.told("say", path, reason))
    waiting = {path.rpartition("/")[2] for path, _ in says}
    for note in (run.hub.state / "say").glob("*"):
        if note.name not in waiting:  # a run was killed before it could drop it
            note.unlink(missing_ok=True)
    ended: dict[HubPath, tuple[Say, str]] = {}
    unsent: dict[str, Unsent] = {}
    for path, say in says:
        if say.machine != run.machine:
            continue
        if run.memory.told_before("said", say.name):
            ended[path] = (say, "not said again: it came back into the outbox")
            continue
        if not is_heard(chat_id(say.chat), run.memory.section("chats").get(say.chat), allowed):
            # It stays in the outbox: a person may allow that chat, or take the file out.
            reason = f"{say.chat} is no allowed user's, and none of them wrote there to this machine"
            new = run.memory.attempts.failed(say.name, reason)
            hint = "add the user to telegram.allowed_users in .cn/agent.yaml, or remove the file; see who put it there"
            run.report.failed(f"{say.name} is not sent: {reason}", hint, source=say.chat, told_before=not new)
            continue
        if say.chat in unsent:
            continue  # in order: what comes later does not overtake
        executed = _say(run, say, speak)
        if isinstance(executed, Unsent):
            unsent[say.chat] = executed
        else:
            ended[path] = (say, executed)
    if ended:
        _commit(run, ended)
    for path in ended:
        _note(run, path).path.unlink(missing_ok=True)
    return list(unsent.values())


_LOST = "chat"
"""Texts that may not have arrived, by name: no run can find out, so ``cn status`` shows each for a week."""
_IN_DOUBT = ("refused: ", "unknown: ")
_SHOWN = timedelta(days=7)


def _forget_old(run: Run) -> None:
    for name in run.memory.conditions.names(_LOST):
        if run.now - run.memory.conditions.since(_LOST, name) > _SHOWN:
            run.memory.conditions.clear(_LOST, name)


def next_send_time(hub: Hub) -> datetime | None:
    """When the first text may be sent that its server wants to wait; None: there is none."""
    notes = map(_Note.read, (hub.state / "say").glob("*"))
    return min((note.after for note in notes if note.after), default=None)


def _note(run: Run, path: HubPath) -> _Note:
    return _Note.read(run.hub.state / "say" / path.rpartition("/")[2])


def _say(run: Run, say: Say, speak: Speak) -> str | Unsent:
    """What the log says of it, or why it has to wait."""
    note = _note(run, say.path)
    if note.after and note.after > now():
        reason = str(run.memory.attempts.entries.get(say.name, {}).get("reason", "")) or "it has to wait"
        return Unsent(say, reason, (note.after - now()).total_seconds(), new=False)
    if note.sending:
        note.done, note.sending, note.unknown = note.done + 1, False, note.unknown + 1
        text = f"{say.chat}: cn was ended while it sent part {note.done}; nobody knows whether it arrived"
        run.report.failed(text, "it is not sent again; ask the reader", source=say.chat)
    parts = split_text(say.text)
    for part in parts[note.done :]:
        note.sending, note.after = True, None
        note.write()
        try:
            failure = speak(chat_id(say.chat), part)
        except CnError:  # it was not handed over: without a token there is nobody to hand it to
            note.sending = False
            note.write()
            raise
        note.sending = False
        if failure is None:
            note.done += 1
        elif not failure.is_unsent:
            note.done, note.unknown = note.done + 1, note.unknown + 1
            text = f"{say.chat}: nobody knows whether a text arrived: {failure}"
            run.report.failed(text, "it is not sent again; ask the reader", source=say.chat)
        elif failure.retry_after:
            note.after = now() + timedelta(seconds=min(failure.retry_after, LONGEST_PAUSE))
        note.write()
        if failure is not None and failure.trouble is Trouble.REJECTED:
            run.report.failed(f"{say.chat}: refused: {failure}", "it is given up", source=say.chat)
            return f"refused: {failure}"
        if failure is not None and failure.is_unsent:
            new = run.memory.attempts.failed(say.name, str(failure))
            return Unsent(say, str(failure), failure.retry_after, new)
    return f"unknown: {note.unknown} of {len(parts)} parts" if note.unknown else "✓ delivered"


def _commit(run: Run, ended: dict[HubPath, tuple[Say, str]]) -> None:
    def plan(executor: Executor) -> str | None:
        waiting = {path for path, _ in executor.snapshot.says()[0]}
        for path, (say, executed) in ended.items():
            if path not in waiting:
                continue
            outcome = executed.removeprefix("✓ ").partition(":")[0]
            row = Row(run.now, say.chat, say.decision, executed, outcome=outcome, input=say.id, note=say.name)
            executor.perform(Plan(say.chat, (Move(path, say.sent_path), Log(row))))
            if executed.startswith("✓"):
                executor.notes.done(f"answered {say.chat}", source=say.chat)
        return "cn: answered"

    run.commit(plan)
    for say, executed in ended.values():
        run.memory.attempts.worked(say.name)
        if executed.startswith(_IN_DOUBT):
            text = f"{say.chat}: a text is not, or not wholly, known to have arrived: {executed}"
            remedy = f"it stands in {say.sent_path}; ask the reader"
            run.memory.conditions.set(_LOST, text, remedy, name=say.name)
        run.memory.told("said", say.name)
