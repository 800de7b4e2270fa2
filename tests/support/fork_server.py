"""A process that has imported cn and forks: each child is one run of the command ``cn``.

``python fork_server.py SOCKET [model]``: SOCKET is the number of an inherited Unix socket. Each message
on it brings four descriptors: standard input, output and error of the run, and a socket from which the
child reads what to run (JSON) and on which the client gets the process id and, later, how it ended (two
lines). At the end of SOCKET the server ends too.

A child is a process like any other: it has its own descriptors, signals, locks, environment, folder
and umask, and whatever it leaves in memory ends with it. Only what the interpreter reads when it starts
(``PYTHON*``, the locale) is the server's; ``tests/support/forked.py`` does not come here when that differs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

ALWAYS = ("yaml", "yaml.cyaml", "rich.console", "rich.table", "detect_secrets.core.scan")
"""What commands import when they need it, of other packages."""

PROGRAMS = ("cn.agents.landlock",)
"""What is never imported, and whose package may not be there."""

MODEL = ("telegram", "telegram.ext")
"""The same, of those that talk to a model and to chats."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    _load("model" in sys.argv)
    _warm_up()
    interrupt = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is pytest's
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that it shares with this process
    while True:
        ready = {key.fileobj for key, _ in waiting.select()}
        if woken in ready:
            woken.recv(4096)
            _reap(running)
        if control in ready:
            _, files, _, _ = socket.recv_fds(control, 1, 4)
            if not files:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, interrupt)
                _child(files)
            *streams, reply = files
            for number in streams:
                os.close(number)
            running[pid] = socket.socket(fileno=reply)
            _tell(running[pid], pid)


def _load(model: bool) -> None:
    import cn

    for module in pkgutil.walk_packages(cn.__path__, "cn."):
        if not module.name.endswith("__main__") and module.name not in PROGRAMS:
            importlib.import_module(module.name)
    for name in (*ALWAYS, *(MODEL if model else ())):
        importlib.import_module(name)
    if model:
        from cn.llm.client import load_all

        load_all()


def _warm_up() -> None:
    """What a first command makes once: click's texts, the patterns of the parsers."""
    from click.testing import CliRunner

    from cn.cli.main import cli

    CliRunner().invoke(cli, ["--help"])


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        reply = running.pop(pid)
        _tell(reply, os.waitstatus_to_exitcode(status))
        reply.close()


def _tell(reply: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the client has left
        reply.sendall(b"%d\n" % number)


def _child(files: list[int]) -> NoReturn:
    *streams, reply = files
    for number, file in enumerate(streams):
        os.dup2(file, number)
    with socket.socket(fileno=os.dup(reply)) as asked, asked.makefile("rb") as pipe:
        run = json.load(pipe)
    os.closerange(3, 4096)
    code = 1
    try:
        _become(run)
        code = _run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_end(code))


def _become(run: dict[str, Any]) -> None:
    sys.stdin = _stream(sys.stdin, 0, "r")
    sys.stdout = _stream(sys.stdout, 1, "w")
    sys.stderr = _stream(sys.stderr, 2, "w")
    os.environ.clear()
    os.environ.update(run["env"])
    time.tzset()
    os.umask(run["umask"])
    os.chdir(run["cwd"])
    sys.argv[:] = [run["program"], *run["words"]]
    sys.path[0] = run["cwd"]


def _stream(like: object, number: int, mode: str) -> io.TextIOWrapper:
    """As the interpreter makes it for this descriptor: what is known of another one stays behind."""
    assert isinstance(like, io.TextIOWrapper)
    newline = None if mode == "r" else "\n"
    raw = io.FileIO(number, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, like.encoding, like.errors, newline, line_buffering=number == 2)


def _run() -> int:
    """The exit code of the command, as the interpreter makes it of what ended the program."""
    from cn.cli.start import run

    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1


def _end(code: int) -> int:
    """What the interpreter does at its end, without taking down what the kernel takes down anyway."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
