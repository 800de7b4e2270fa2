"""Run the server: on loopback, until its terminal ends, a signal comes, or, detached, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from cn.git.repository import Hub
from cn.system import polling
from cn.system.files import hold, read_regular, write_file
from cn.system.systemd import notify
from cn.values.errors import CnError, LockHeld, Refused, UsageError
from cn.web.app import make_app
from cn.web.connections import BACKLOG, MOST, patient_protocol
from cn.web.live import Watcher
from cn.web.reader import Reader
from cn.web.session import HOST, Running, Sessions, forget, note_running, read_running, state_file

_START = 20.0
"""Seconds that a detached server gets to start."""
_FINISH = 2
"""Seconds that open answers get when the server ends."""
_BUSY = "the port is taken"


class Site:
    """A server that has its port and its hub; it answers once :meth:`run` is called."""

    def __init__(self, hub: Hub, actor: str, port: int = 0, tell: Callable[[int], None] = lambda _: None) -> None:
        """``port`` 0: any that is free; ``tell`` hears how many links were used, whenever one was.

        Raises :class:`LockHeld` where the hub has its server already.
        """
        lock = hold(state_file(hub, "lock"))
        if lock is None:
            raise LockHeld(f"a server runs on {hub.root} already", "'cn web' gives a link to it")
        self._lock = lock
        self._hub = hub
        try:
            self._socket = _listen(port)
        except BaseException:
            os.close(lock)
            raise
        self.port: int = self._socket.getsockname()[1]
        self._actor = actor
        self._tell_user = tell
        note_running(hub, Running(os.getpid(), self.port, actor))

    def run(self) -> None:
        """Answer until SIGINT, SIGTERM or SIGHUP."""
        try:
            polling.run(self._run())
        finally:
            forget(self._hub)
            self._socket.close()
            os.close(self._lock)

    def _tell(self, used: int) -> None:
        with suppress(CnError):  # the note is for other commands
            note_running(self._hub, Running(os.getpid(), self.port, self._actor, used))
        self._tell_user(used)

    async def _run(self) -> None:
        watcher = Watcher(self._hub)
        app = make_app(Reader(self._hub, self._actor), Sessions(self.port), watcher, self.port, self._tell)
        config = uvicorn.Config(
            app,
            http=patient_protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=MOST,
            timeout_graceful_shutdown=_FINISH,
        )
        server = _Server(config, watcher)
        notify(READY=1, STATUS=f"port {self.port}")
        await server.serve(sockets=[self._socket])
        notify(STOPPING=1)


class _Server(uvicorn.Server):
    """Ends tidily by the signals that end it; none of them is raised again."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher) -> None:
        super().__init__(config)
        self._watcher = watcher

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle them in the loop."""
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) keeps a server without its terminal
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self._watcher.stop()
        self.should_exit = True


def _listen(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(BACKLOG)
    except OSError as why:
        made.close()
        text = _BUSY if why.errno in (98, 48) else why.strerror
        raise UsageError(f"cannot listen on port {port}: {text}", "give another --port, or none") from None
    made.set_inheritable(False)
    return made


def is_running(hub: Hub) -> Running | None:
    """The server of the hub, if one runs on this machine."""
    if not state_file(hub, "lock").exists():
        return None
    lock = hold(state_file(hub, "lock"))
    if lock is not None:
        os.close(lock)
        return None
    return read_running(hub)


def start_detached(hub: Hub, actor: str, port: int) -> Running:
    """Start a server that outlives this terminal; raises :class:`Refused` with what it said when it does not start."""
    # -P: what lies in the hub's tree is data, not modules that Python could pick up.
    command = [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "web", "--port", str(port), "--quiet"]
    log = state_file(hub, "log")
    write_file(log, b"", mode=hub.private_mode)  # in a new hub its folder too
    with log.open("wb") as said:
        child = subprocess.Popen(
            [*command, "--actor", actor], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and child.poll() is None:
        running = is_running(hub)
        if running is not None and running.pid == child.pid:
            return running
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        child.terminate()
    told = (read_regular(log, 4000) or b"").decode("utf-8", "replace").strip()
    raise Refused(f"the server did not start: {told or 'it said nothing'}", "run 'cn web' without --detach")
