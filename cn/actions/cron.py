"""``cn cron show|install|remove``: cn's own lines in the user's crontab.

cron runs commands with a bare ``PATH`` and mails what they print. So each line brings its
own ``PATH`` (other jobs keep theirs), names cn and the hub absolutely, and is quiet but
for errors: a mail means that something needs a person.

A table is never parsed: who does that rewrites it, and comments out what it does not understand.
Each line of cn ends in ``# cn: JOB HUB``, so several hubs live in one table; every other byte is left as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cn.git.repository import CONFIG, Hub, open_hub
from cn.system.files import hold
from cn.values.errors import ConfigError, LockHeld, Refused, UsageError
from cn.values.report import Mark, Report
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_SECONDS = 30.0
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_ESCAPED = "\\%"
_NAMES = ("sync", "process")
_NO_TABLE = re.compile(r"no crontab for|can't open.*No such file")
"""What ``crontab -l`` says where there is no table: Vixie cron's, and busybox's, which names any reason."""
_WAIT, _POLL = 10.0, 0.05
LONGEST = 990
"""Vixie cron takes commands of up to 1000 bytes (``MAX_COMMAND`` in its cron.h)."""


def quote(text: str) -> str:
    """One word for sh that survives cron too, once :func:`format_job` has escaped its ``%``.

    Every ``%`` stands outside the quotes, so that it is right whether cron takes the
    backslash away (crontab(5)) or leaves it to sh.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'").replace("%", "'%'") + "'"


def format_job(name: str, schedule: str, command: str, hub: Path) -> str:
    """One line of ours, without its end. Raises :class:`Refused` when cron could not hold it.

    ``schedule`` has five fields, ``command`` is for sh, not yet for cron.
    """
    if any(ord(c) < 32 or ord(c) == 127 for c in f"{command}{hub}"):
        raise Refused(
            f"{one_line(str(hub))} has a control character in its name, which a crontab cannot hold",
            "rename the folder, or use the systemd units in cron/",
        )
    line = f"{schedule} {command.replace('%', _ESCAPED)}{_mark(name, hub)}"
    if len(line.encode("utf-8", "surrogateescape")) > LONGEST:
        raise Refused("the line would be longer than cron takes", "use shorter paths, or the systemd units in cron/")
    return line


def _mark(name: str, hub: Path) -> str:
    # cron looks at "%" in comments as well.
    return f" # cn: {name} " + quote(str(hub)).replace("%", _ESCAPED)


def owner(line: bytes, hub: Path) -> str:
    """Which job of ``hub`` this line of a table is, enabled or commented out; empty for other lines."""
    return _parse(line, hub)[0]


def _parse(line: bytes, hub: Path) -> tuple[str, str, bytes]:
    """Which job of ``hub`` a line is, what stands before its mark, and what somebody wrote behind it."""
    for name in _NAMES:
        before, found, remark = line.rstrip(b" \t\r\n").rpartition(os.fsencode(_mark(name, hub)))
        if found and (not remark or (remark[:1] in b" \t" and _words(os.fsdecode(before)))):
            return name, os.fsdecode(before), remark
    return "", "", b""


def stray_hubs(table: bytes) -> list[Path]:
    """The folders that enabled lines of cn name, and where no hub is any more: it was moved, or is gone.

    A folder whose disk is not mounted, or that is closed to us, reads the same: so nothing is taken out by itself.
    """
    found = dict[Path, None]()
    for line in split(table):
        _, mark, named = line.rstrip(b" \t\r\n").rpartition(b" # cn: ")
        words = _words(os.fsdecode(named))
        if not mark or line.lstrip().startswith(b"#") or len(words) < 2 or words[0] not in _NAMES:
            continue
        hub = Path(words[1])
        gone = not any(os.path.lexists(hub / name) for name in (CONFIG, ".git"))
        if hub.is_absolute() and gone and owner(line, hub):
            found[hub] = None
    return list(found)


def told_of_stray(hub: Path) -> tuple[str, str]:
    """What is told of lines whose hub is no longer there, and what takes them out."""
    out = command("cn cron remove --hub {}", str(hub))
    return f"the crontab has lines of {visible(str(hub))}, where no hub is any more", f"{out} takes them out"


def _words(text: str) -> list[str]:
    """The words of a line as sh sees them; none where a quotation has no end."""
    try:
        return shlex.split(text.replace(_ESCAPED, "%"))
    except ValueError:
        return []


def ours(table: bytes, hub: Path) -> list[str]:
    """The lines of ``hub`` in a table, as text without their ends."""
    return [os.fsdecode(line).rstrip("\r\n") for line in split(table) if owner(line, hub)]


def split(table: bytes) -> list[bytes]:
    """The lines of a table with their ends."""
    return table.splitlines(keepends=True) if b"\r" not in table else re.findall(rb"[^\n]*\n|[^\n]+\Z", table)


def replaced(table: bytes, hub: Path, lines: dict[str, bytes]) -> bytes:
    """The table with our jobs as in ``lines`` (name → line): in place, at the end, or gone."""
    left, result = dict(lines), list[bytes]()
    for line in split(table):
        name, _, remark = _parse(line, hub)
        if not name:
            result.append(line)
        elif name in left:
            result.append(left.pop(name) + remark + b"\n")
    if left and result and not result[-1].endswith(b"\n"):
        result[-1] += b"\n"
    return b"".join([*result, *(line + b"\n" for line in left.values())])


def read_table() -> bytes:
    """The user's crontab; empty when there is none."""
    done = _run("-l")
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode == 0:
        return done.stdout
    if _NO_TABLE.search(said):
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
    """One cn at a time reads and writes the table. The lock is a file that nobody else may open.

    Where none can be made there is none. Raises :class:`Refused` when another has it for too long.
    """
    path, fd = Path.home() / ".cache" / "cn" / "crontab.lock", None
    with suppress(Refused):
        deadline = time.monotonic() + _WAIT
        while (fd := hold(path)) is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        if fd is None:
            raise LockHeld(f"another cn is changing the crontab: {path} is locked", "try again when it has ended")
    try:
        yield
    finally:
        if fd is not None:
            os.close(fd)


def _program() -> str | None:
    return shutil.which("crontab") or shutil.which("crontab", path="/usr/bin:/bin:/usr/sbin")


def _run(*args: str) -> subprocess.CompletedProcess[bytes]:
    program = _program()
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


SYNC_EVERY, PROCESS_EVERY = 5, 15
"""Minutes."""


@dataclass(frozen=True)
class Table:
    """Our lines as they stand in the crontab, and as ``install`` would write them.

    ``stray`` are folders that lines of cn name, and where no hub is any more.
    """

    hub: Path
    installed: tuple[str, ...]
    wanted: tuple[str, ...]
    stray: tuple[Path, ...] = ()


def schedule(minutes: int, option: str) -> str:
    """Five cron fields for "every so many minutes", as evenly as cron can.

    cron counts anew each hour and each day: above half an hour only what divides a day works.
    """
    if 1 <= minutes <= 30:
        return f"*/{minutes} * * * *" if minutes > 1 else "* * * * *"
    if minutes == 1440:
        return "0 0 * * *"
    if minutes > 0 and minutes % 60 == 0 and 24 % (minutes // 60) == 0:
        hours = minutes // 60
        return f"0 */{hours} * * *" if hours > 1 else "0 * * * *"
    raise UsageError(
        f"{option} {minutes}: cron cannot do that evenly",
        "take 1 to 30 minutes, or 60, 120, 180, 240, 360, 480, 720, 1440",
    )


def _wanted(hub: Hub, sync_every: int, process_every: int) -> dict[str, str]:
    """The lines of both jobs by their names. What the wake command starts finds cn, and it itself is found, as are
    the programs that files go through.
    """
    words = cn_command()
    wake = hub.config.last("cn.wake").split()[:1]
    path = find_dirs([words[0], "git", "ssh", "ssh-keygen", *wake, *_filter_programs(hub)])
    head = " ".join([f"PATH={quote(':'.join(path))}", *(quote(word) for word in words)])
    lines = {}
    for name, minutes in (("sync", sync_every), ("process", process_every)):
        command = f"{head} inbox {name} {quote(str(hub.root))} -q"
        lines[name] = format_job(name, schedule(minutes, f"--{name}-every"), command, hub.root)
    return lines


def _filter_programs(hub: Hub) -> list[str]:
    """What git looks for in ``PATH`` to bring files to the work tree and to compare them (gitattributes(5))."""
    found = list[str]()
    for value in (s.value for s in hub.config.settings if s.key.startswith("filter.")):
        words = _words(value)
        found += [f"git-{words[1]}"] if words[:1] == ["git"] and len(words) > 1 else words[:1]
    return [name for name in dict.fromkeys(found) if "/" not in name]


def cn_command() -> list[str]:
    """How to start this cn from anywhere: its script, else this Python."""
    script = Path(sys.argv[0])
    candidates = [script.absolute()] if script.name == "cn" else []
    candidates.append(Path(sys.executable).parent / "cn")
    found = next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)
    return [str(found)] if found else [sys.executable, "-m", "cn"]


_TABLE_PATH = re.compile(rb"\s*PATH\s*=\s*(.*?)\s*")
_CRON_PATH = "/usr/bin:/bin"
"""What jobs get that set none (crontab(5))."""


def paths_of(table: bytes, hub: Path) -> dict[str, str]:
    """The enabled jobs of ``hub``, and the ``PATH`` that each has."""
    found, around = {}, _CRON_PATH
    for line in split(table):
        if setting := _TABLE_PATH.fullmatch(line):
            around = os.fsdecode(setting[1]).strip("'\"")
            continue
        name, before, _ = _parse(line, hub)
        if name and not before.lstrip().startswith("#"):
            own = [word.removeprefix("PATH=") for word in _words(before) if word.startswith("PATH=")]
            found[name] = own[0] if own else around
    return found


def read_jobs(hub: Hub) -> Table:
    """Our lines in the crontab, and the wanted ones; where there is no crontab program, none are installed."""
    table = read_table() if _program() else b""
    wanted = _wanted(hub, SYNC_EVERY, PROCESS_EVERY)
    return Table(hub.root, tuple(ours(table, hub.root)), tuple(wanted.values()), tuple(stray_hubs(table)))


def install(hub: Hub, sync_every: int, process_every: int, *, dry_run: bool = False) -> Report:
    """Put the two lines into the user's crontab, or bring them up to date."""
    return _write(hub.root, _wanted(hub, sync_every, process_every), dry_run)


def remove(root: Path, *, dry_run: bool = False) -> Report:
    """Take the lines of the hub at ``root`` out; the hub itself need not exist any more."""
    return _write(root, {}, dry_run)


def root_of(path: Path | None) -> Path:
    """The folder of a hub, or of one that is gone but was named."""
    try:
        return open_hub(path).root
    except ConfigError:
        if path is None:
            raise
        return Path(os.path.realpath(path))


def _write(root: Path, lines: dict[str, str], dry_run: bool) -> Report:
    report = Report()
    with table_lock():
        before = read_table()
        after = replaced(before, root, {name: os.fsencode(line) for name, line in lines.items()})
        old, new = ours(before, root), ours(after, root)
        if after == before:
            where = "has these lines already" if lines else "has no lines of this hub"
            report.info(f"the crontab {where}")
        elif not dry_run:
            write_table(after)
    gone, fresh = [line for line in old if line not in new], [line for line in new if line not in old]
    for plan, done, lines_of in (("remove from", "removed", gone), ("add to", "added", fresh)):
        for line in lines_of:
            told = (Mark.PLAN, f"{plan} the crontab") if dry_run else (Mark.DONE, done)
            report.add(told[0], f"{told[1]}: {visible(line)}")
    for hub in stray_hubs(after):
        report.info("; ".join(told_of_stray(hub)))
    return report
