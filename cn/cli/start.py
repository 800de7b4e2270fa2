"""Where the process begins: a sync with nothing new ends here, everything else is :mod:`cn.cli.main`.

A hub is synced by cron every few minutes, and most of the time there is nothing new. Importing
the command line and what it needs takes longer than asking the peers, so the plain sync asks
:mod:`cn.loop.idle_check` first. What it answers with yes is what the ordinary run would have done:
nothing, without a word.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without the 3 ms of its enums
import errno
import gc
import os
import sys

from cn.inherited import closed, is_for_memory, refuse_signals, take_umask

TYPE_CHECKING = False  # typing itself takes 3 ms
if TYPE_CHECKING:
    from typing import NoReturn

_GARBAGE = 50_000
"""Objects after which garbage in circles is looked for (gc, ``set_threshold``; Python's own 700).

Loading modules makes tens of thousands that all stay: looking through them again and again, and once
more at the end, takes 10 ms of ``cn --version`` and 20 of ``cn status``. What a run drops is freed
at once all the same: only circles wait.
"""

_ASKS_ORIGIN = ("send", "reply", "comment", "adhoc", "push", "save", "mca add", "outbox flush")
"""What is sure to ask origin, whatever stands behind it; and what is where nothing does: a folder may."""
_ASK_ALONE = ("sync", "inbox sync", "inbox process")
_FEWEST = 16
"""Files that may still be opened at the start: a git has three pipes, and several are asked at once."""


def run() -> NoReturn:
    """Run cn and end the process. Ctrl-C and SIGTERM end it tidily from here on, also while it is loading."""
    take_umask()
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else whoever began us ignores it
        _signal.signal(_signal.SIGINT, _leave)
    _signal.signal(_signal.SIGTERM, _leave)
    refuse_signals()
    if sys.flags.warn_default_encoding:  # a developer's question to code: no error of a run (PYTHONWARNINGS=error)
        import warnings

        warnings.simplefilter("ignore", EncodingWarning)
    _need_files()
    try:
        _open_streams()
        _run()
    except KeyboardInterrupt:
        os.write(2, b"cn: interrupted\n")
        os._exit(130)
    except (MemoryError, ImportError, OSError) as why:
        if not is_for_memory(why):
            raise
        os.write(
            2, b"cn: there is not enough memory\n  \xe2\x86\x92 'ulimit -v' shows the limit in a shell: raise it\n"
        )
        os._exit(1)


def _need_files() -> None:
    """End with a word where the caller lets us open too few files: no error could be told otherwise."""
    held: list[int] = []
    try:
        for _ in range(_FEWEST):
            held.append(os.open("/", os.O_RDONLY))
    except OSError as why:
        if why.errno == errno.EMFILE:
            os.write(
                2, b"cn: too few files may be open here (ulimit -n)\n  \xe2\x86\x92 'ulimit -n 1024' raises that\n"
            )
            os._exit(1)
    finally:
        for number in held:
            os.close(number)


def _leave(number: int, frame: object) -> NoReturn:
    """End at once: as long as this answers nothing was begun.

    An exception would be lost where Python ignores those, as it does in callbacks of its imports.
    """
    os.write(2, b"cn: interrupted\n" if number == _signal.SIGINT else b"cn: terminated\n")
    os._exit(128 + number)


def _open_streams() -> None:
    """What the caller closed leads nowhere: else a lock or a pipe of ours gets its number (open(2))."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            closed.add(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (stays open)


def _run() -> NoReturn:
    if _is_quiet_sync(sys.argv[1:]):
        os._exit(0)  # nothing was said, nothing is open: taking the interpreter down takes 4 ms
    if _is_bridge(sys.argv[1:]):
        from cn.bridge.run import run as run_bridge

        run_bridge(sys.argv[2:])
    gc.set_threshold(_GARBAGE)
    _log_in(sys.argv[1:])
    from cn.cli.main import run as run_command

    try:
        run_command()
    finally:
        if login := sys.modules.get("cn.git.early_login"):
            login.give_up()  # where the command came to no connection
        gc.freeze()  # the process ends: what it holds goes with it


def _is_bridge(words: list[str]) -> bool:
    """Is it the bridge of an agent? It is started for each, and needs none of the command line."""
    asks = "-h" in words or "--help" in words or "_CN_COMPLETE" in os.environ
    return words[:1] == ["mcp"] and not asks and bool(os.environ.get("CN_AGENT_TOKEN"))


def _log_in(words: list[str]) -> None:
    """Begin the login of a command that is sure to ask origin, while it is loaded."""
    hub, words = "", [word for word in words if word not in ("-q", "--quiet", "-v", "--verbose", "--json")]
    if words[:1] == ["--hub"]:
        hub, words = "".join(words[1:2]), words[2:]
    asks = " ".join(words) in _ASK_ALONE or not {*words[:1], " ".join(words[:2])}.isdisjoint(_ASKS_ORIGIN)
    if not asks or not {"-h", "--help", "-n", "--dry-run"}.isdisjoint(words) or _is_odd():
        return
    from cn.git.early_login import begin
    from cn.git.environment import around

    try:
        begin(os.path.realpath(hub) if hub else around(os.getcwd()))
    except OSError:  # no working directory: the command says so
        return


def _is_odd() -> bool:
    """Is this the shell that completes words, or an agent, which chooses no hub?"""
    return bool(os.environ.get("CN_ROLE")) or "_CN_COMPLETE" in os.environ


def _is_quiet_sync(words: list[str]) -> bool:
    """Is it a sync as cron writes it, on a hub where nothing is new?"""
    match [word for word in words if word not in ("-q", "--quiet")]:
        case ["sync"] | ["inbox", "sync"]:
            hub = ""
        case ["sync", folder] | ["inbox", "sync", folder] if folder and not folder.startswith("-"):
            hub = folder
        case ["--hub", hub, "sync"] | ["--hub", hub, "inbox", "sync"]:
            pass
        case _:
            return False
    # Settings of git that stand in no file are in no note.
    if _is_odd() or "GIT_CONFIG_COUNT" in os.environ:
        return False
    from cn.loop.idle_check import still_quiet

    return still_quiet(hub)
