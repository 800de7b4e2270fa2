"""The user's crontab: cn's own marked lines in it, every other byte left as it is.

A table is never parsed: who does that rewrites it, and comments out what it does not understand.
Each line of cn ends in ``# cn: JOB HUB``, so several hubs live in one table.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cn.values.errors import Refused
from cn.values.text import one_line

_SECONDS = 30.0
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_NAMES = ("sync", "process")
_NO_TABLE = ("no crontab for", "can't open")
LONGEST = 990
"""Vixie cron takes commands of up to 1000 bytes (``MAX_COMMAND`` in its cron.h)."""


@dataclass(frozen=True)
class Job:
    """One line of ours: ``schedule`` has five fields, ``command`` is for sh, not yet for cron."""

    name: str
    schedule: str
    command: str


def quote(text: str) -> str:
    """One word for sh that survives cron too, once :func:`format_job` has escaped its ``%``.

    Every ``%`` stands outside the quotes, so that it is right whether cron takes the
    backslash away (crontab(5)) or leaves it to sh.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'").replace("%", "'%'") + "'"


def format_job(job: Job, hub: Path) -> str:
    """The line, without its end. Raises :class:`Refused` when cron could not hold it."""
    if any(ord(c) < 32 or ord(c) == 127 for c in f"{job.command}{hub}"):
        raise Refused(
            f"{one_line(str(hub))} has a control character in its name, which a crontab cannot hold",
            "rename the folder, or use the systemd units in cron/",
        )
    command = job.command.replace("%", "\\%")
    line = f"{job.schedule} {command}{_mark(job.name, hub)}"
    if len(line.encode("utf-8", "surrogateescape")) > LONGEST:
        raise Refused("the line would be longer than cron takes", "use shorter paths, or the systemd units in cron/")
    return line


def _mark(name: str, hub: Path) -> str:
    # cron looks at "%" in comments as well.
    return f" # cn: {name} " + quote(str(hub)).replace("%", "\\%")


def owner(line: bytes, hub: Path) -> str:
    """Which job of ``hub`` this line of a table is, enabled or commented out; empty for other lines."""
    text = line.rstrip(b" \t\r\n")
    return next((name for name in _NAMES if text.endswith(os.fsencode(_mark(name, hub)))), "")


def split(table: bytes) -> list[bytes]:
    """The lines of a table with their ends."""
    return table.splitlines(keepends=True) if b"\r" not in table else re.findall(rb"[^\n]*\n|[^\n]+\Z", table)


def replaced(table: bytes, hub: Path, lines: dict[str, bytes]) -> bytes:
    """The table with our jobs as in ``lines`` (name → line): in place, at the end, or gone."""
    left, result = dict(lines), list[bytes]()
    for line in split(table):
        name = owner(line, hub)
        if not name:
            result.append(line)
        elif name in left:
            result.append(left.pop(name) + b"\n")
    if left and result and not result[-1].endswith(b"\n"):
        result[-1] += b"\n"
    return b"".join([*result, *(line + b"\n" for line in left.values())])


def read_table() -> bytes:
    """The user's crontab; empty when there is none."""
    done = _run("-l")
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode == 0:
        return done.stdout
    if any(words in said for words in _NO_TABLE):
        return b""
    raise Refused(
        f"crontab -l failed: {one_line(said) or f'exit code {done.returncode}'}",
        "may you use cron here? see crontab(1); the systemd units in cron/ do the same",
    )


def write_table(table: bytes) -> None:
    """Install a table and read it back."""
    with tempfile.NamedTemporaryFile(prefix="cn-crontab-") as file:
        file.write(table)
        file.flush()
        done = _run(file.name)
    if done.returncode != 0:
        said = one_line(done.stderr.decode("utf-8", "replace"))
        raise Refused(f"crontab did not take the table: {said}", "nothing was changed")
    if read_table() != table:
        raise Refused("the crontab is not what was installed", "look at it with 'crontab -l', then try again")


@contextmanager
def table_lock() -> Iterator[None]:
    """One cn at a time reads and writes the table (a folder can be locked, and nothing is left behind)."""
    fd = None
    with suppress(OSError):
        fd = os.open(Path.home(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if fd is not None:
            os.close(fd)


def _run(*args: str) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("crontab") or shutil.which("crontab", path="/usr/bin:/bin:/usr/sbin")
    if program is None:
        raise Refused(
            "there is no crontab program on this machine",
            "install cron, or use the systemd units cn-sync.timer and cn-process.timer in cron/",
        )
    env = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}
    try:
        return subprocess.run(
            [program, *args], stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Refused(f"{program} does not work: {why}", "see crontab(1)") from None


def find_dirs(programs: Sequence[str]) -> list[str]:
    """The folders of ``PATH`` that hold these programs, then the standard ones."""
    found = [str(Path(path).parent.absolute()) for name in programs if (path := shutil.which(name))]
    return list(dict.fromkeys([*found, "/usr/local/bin", "/usr/bin", "/bin"]))
