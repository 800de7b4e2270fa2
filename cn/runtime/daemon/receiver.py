"""Put Telegram's updates into the queue, one after the other: none lost, none twice.

The offset follows what is dealt with: queued, answered, or dropped with a reason. Asking
Telegram for a later one makes it forget the message, so nothing is passed over in haste.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, assert_never

from cn.git.repository import Hub
from cn.llm.config import Bot
from cn.runtime.daemon.monitor import Monitor, clock
from cn.runtime.daemon_files import read_dead, write_dead, write_offset
from cn.system.clock import now
from cn.system.systemd import Level, notify
from cn.telegram import api
from cn.telegram.client import Connection
from cn.values.errors import CnError, ConfigError
from cn.values.split_text import split_text
from cn.values.timestamps import format_second

_TRIES = 3
_LONGEST_ANSWER_PAUSE = 60.0


Enqueue = Callable[[Hub, api.Incoming], str]
"""Put a message into the hub's queue: durable when it returns its id, empty where this ``update_id`` has an item.

A :class:`CnError` says that the hub cannot take anything now (locked, origin away, disk full), so the message waits at
Telegram; any other exception that this message cannot be queued: after some tries it becomes a dead letter.
"""
View = Callable[[api.Command], str]
"""The answer to ``/status`` and ``/inbox``, read from disk; may raise :class:`CnError`."""


class Receiver:
    """The conversation with Telegram. ``work`` is called when something was queued."""

    def __init__(self, monitor: Monitor, bot: Bot, enqueue: Enqueue, view: View, work: Callable[[], None]) -> None:
        self._monitor, self._allowed = monitor, bot.allowed_users
        self._enqueue, self._view, self._work = enqueue, view, work
        self._offset: int | None = monitor.health["offset"]
        self._connection, self._bot = Connection(bot.token, bot.base_url), bot.token.partition(":")[0]
        self._looked: set[int] = set()
        self.receiving = False

    async def close(self) -> None:
        """Leave Telegram."""
        await self._connection.close()

    async def poll(self) -> None:
        """Ask what is new until the daemon stops; raises :class:`ConfigError` for a refused token."""
        failed, last = 0, list[Any]()
        while not self._monitor.stop.is_set():
            self._monitor.expect_within(self._monitor.times.poll_timeout)
            begun = clock()
            answer = await self._connection.get_updates(self._offset, self._monitor.times.poll_timeout)
            pause = self._monitor.times.poll_interval - (clock() - begun)
            match answer:
                case list() as updates if updates and updates == last:
                    failed += 1
                    pause = max(pause, self._monitor.pause(failed))
                    self._report_failure("it repeats what was dealt with", pause, new=failed == 1)
                case list() as updates:
                    last = updates
                    if failed:
                        self._monitor.say(f"Telegram answers again, after {failed} failed polls")
                    failed = 0
                    self._monitor.health["last_poll"] = format_second(now())
                    self._monitor.health["unreached"] = None
                    if await self._receive_all(updates):
                        continue  # there may be more, and somebody waits
                case api.Failure(api.Trouble.UNAUTHORIZED) as failure:
                    self._monitor.report_error(str(failure), say=False)
                    raise ConfigError(str(failure), "set TELEGRAM_TOKEN to what @BotFather gave you")
                case failure:
                    failed += 1
                    pause = max(pause, self._monitor.pause(failed, failure))
                    self._report_failure(str(failure), pause, new=failed == 1)
            await self._monitor.sleep(pause)

    def _report_failure(self, text: str, pause: float, *, new: bool) -> None:
        last = self._monitor.health["last_error"]
        new = new or not last or not last["text"].startswith(text)
        self._monitor.report_error(f"{text}; tries again in {pause:.0f} s", say=new)
        before = self._monitor.health["unreached"]
        self._monitor.health["unreached"] = {"since": before["since"] if before else format_second(now()), "text": text}

    async def _receive_all(self, updates: list[Any]) -> bool:
        """Deal with all of them, in order; did the offset move?"""
        before = self._offset
        self.receiving = True
        try:
            for update in updates:
                if self._monitor.stop.is_set():
                    break
                await self._receive(update)
                # Queueing blocks. Between two messages signals are taken, and the processor is started.
                await asyncio.sleep(0)
        finally:
            self.receiving = False
        return self._offset != before

    async def _receive(self, update: object) -> None:
        """Deal with one update, whatever it is; then nothing of it is left to do."""
        incoming = api.read_update(update)
        if isinstance(incoming, api.Ignored):
            self._monitor.say(f"update {incoming.update_id}: ignored, {incoming.reason}")
            if incoming.update_id is not None:
                self._advance(incoming.update_id)
            return
        source = f"update {incoming.update_id} of user {incoming.user_id}"
        if not api.is_allowed(incoming.user_id, self._allowed):
            self._monitor.say(f"{source}: dropped, not in telegram.allowed_users", Level.WARNING)
            self._advance(incoming.update_id)
            return
        match incoming.kind:
            case None:
                await self._queue(incoming, update, source)
                return
            case api.Unsupported(what, reply):
                self._monitor.say(f"{source}: not supported: {what}")
                await self._answer(incoming.chat_id, reply, source)
            case api.Command() as command:
                if incoming.update_id not in self._looked:
                    await self._receive_command(incoming, command)
                self._looked.discard(incoming.update_id)
            case _:
                assert_never(incoming.kind)
        self._advance(incoming.update_id)

    async def _receive_command(self, incoming: api.Incoming, command: api.Command) -> None:
        source = f"update {incoming.update_id} of user {incoming.user_id}"
        self._monitor.say(f"{source}: /{command.value}")
        text = api.START_REPLY
        if command is not api.Command.START:
            self._monitor.expect_within()
            try:
                text = self._view(command)
            except CnError as error:
                text = f"/{command.value}: {error.text}"
        await self._answer(incoming.chat_id, text, source)

    def _advance(self, update_id: int) -> None:
        """This update is dealt with.

        Ids can fall: after a quiet week Telegram begins anew
        (https://core.telegram.org/bots/api#update), so the offset follows them down too.
        """
        self._offset = self._monitor.health["offset"] = update_id + 1
        try:
            write_offset(self._monitor.hub, self._offset, self._bot)
        except CnError as refused:  # at worst Telegram shows the message once more
            self._monitor.report_error(refused.text)

    # Queueing.

    async def _queue(self, incoming: api.Incoming, update: Any, source: str) -> None:
        tries = failures = 0
        while True:
            tries += 1
            try:
                id = self._try_queue(incoming)
            except Exception as error:  # of a bug this one message dies, not the daemon
                later, reason = isinstance(error, CnError), _reason(error)
                failures += not later
                old = (now() - incoming.at).total_seconds() > self._monitor.times.letter
                if not (old if later else failures >= _TRIES):
                    pause = self._monitor.pause(tries)
                    self._report_failure(f"{source}: not queued: {reason}", pause, new=tries == 1)
                    await self._answer_views(incoming.update_id)
                    await self._monitor.sleep(pause)
                    continue
                if not await self._keep_dead_letter(incoming, update, reason, source):
                    continue
            else:
                self._monitor.say(f"{source}: queued {id}" if id else f"{source}: was queued before")
                self._monitor.health["queued"] += bool(id)
            self._work()
            self._advance(incoming.update_id)
            return

    async def _answer_views(self, waiting: int) -> None:
        """While a message waits: a look at the hub needs no queue, and is wanted now more than ever."""
        updates = await self._connection.get_updates(waiting, 0)
        for update in updates if isinstance(updates, list) else ():
            look = api.read_update(update)
            if (
                isinstance(look, api.Incoming)
                and isinstance(look.kind, api.Command)
                and look.update_id not in self._looked
                and api.is_allowed(look.user_id, self._allowed)
            ):
                await self._receive_command(look, look.kind)
                self._looked.add(look.update_id)

    def _try_queue(self, incoming: api.Incoming) -> str:
        self._monitor.expect_within()
        notify(WATCHDOG=1)
        return self._enqueue(self._monitor.hub, incoming)

    async def _keep_dead_letter(self, incoming: api.Incoming, update: Any, reason: str, source: str) -> bool:
        try:
            path = write_dead(self._monitor.hub, update, reason, now())
        except CnError as error:
            self._monitor.report_error(f"{source}: {error.text}", Level.ERROR)
            await self._monitor.sleep(self._monitor.times.pauses.longest)
            return False
        self._monitor.report_error(f"{source}: given up, kept in {path}: {reason}", Level.ERROR)
        self._monitor.health["dead"] += 1
        text = "I could not take this message; it is kept for a person to look at. Try to put it otherwise."
        await self._answer(incoming.chat_id, text, source)
        return True

    def deliver_dead(self) -> None:
        """Try each dead letter once more: somebody may have mended the reason."""
        for path, incoming, reason in read_dead(self._monitor.hub):
            source = f"dead letter {incoming.update_id}"
            try:
                id = self._try_queue(incoming)
            except Exception as error:
                self._monitor.health["dead"] += 1
                self._monitor.say(f"{source}: still not queued: {_reason(error)}", Level.WARNING)
                continue
            with suppress(FileNotFoundError):
                path.unlink()
            self._monitor.say(f"{source}: queued {id} (it had failed: {reason})")

    # Answering.

    async def _answer(self, chat_id: int, text: str, source: str) -> None:
        """Send what needs no agent. What certainly did not arrive is sent again, a few times."""
        for part in split_text(text):
            for tries in range(1, _TRIES + 1):
                self._monitor.expect_within()
                outcome = await self._connection.send_message(chat_id, part)
                if outcome is None:
                    break
                pause = self._monitor.pause(tries, outcome)
                again = outcome.is_unsent and tries < _TRIES and pause <= _LONGEST_ANSWER_PAUSE
                self._monitor.say(f"{source}: answer not sent, {outcome}", Level.WARNING)
                if not again:
                    return
                await self._monitor.sleep(pause)


def _reason(error: Exception) -> str:
    return error.text if isinstance(error, CnError) else f"{type(error).__name__}: {error}"
