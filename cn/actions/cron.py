"""``cn cron show|install|remove``: cn's own lines in the user's crontab.

cron runs commands with a bare ``PATH`` and mails what they print. So each line brings its
own ``PATH`` (other jobs keep theirs), names cn and the hub absolutely, and is quiet but
for errors: a mail means that something needs a person.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cn.git.repository import Hub, open_hub
from cn.system.crontab import (
    Job,
    find_dirs,
    format_job,
    owner,
    quote,
    read_table,
    replaced,
    split,
    table_lock,
    write_table,
)
from cn.values.errors import ConfigError, UsageError
from cn.values.report import Report
from cn.values.text import visible

SYNC_EVERY, PROCESS_EVERY = 5, 15
"""Minutes."""
_TOOLS = ("git", "ssh", "ssh-keygen")


@dataclass(frozen=True)
class Table:
    """Our lines as they stand in the crontab, and as ``install`` would write them."""

    hub: Path
    installed: tuple[str, ...]
    wanted: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The shape of ``cn cron show --json``."""
        return {**asdict(self), "hub": str(self.hub)}


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


def jobs(hub: Path, wake: str, sync_every: int, process_every: int) -> tuple[Job, ...]:
    """The two jobs of a hub. ``wake`` is its wake command, whose program must be found too."""
    path = f"PATH={quote(':'.join(find_dirs([*_TOOLS, *wake.split()[:1]])))}"
    head = " ".join([path, *(quote(word) for word in cn_command())])
    return (
        Job("sync", schedule(sync_every, "--sync-every"), f"{head} inbox sync {quote(str(hub))} -q"),
        Job("process", schedule(process_every, "--process-every"), f"{head} inbox process {quote(str(hub))} -q"),
    )


def cn_command() -> list[str]:
    """How to start this cn from anywhere: its script, else this Python."""
    script = Path(sys.argv[0])
    candidates = [script.absolute()] if script.name == "cn" else []
    candidates.append(Path(sys.executable).parent / "cn")
    found = next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)
    return [str(found)] if found else [sys.executable, "-m", "cn"]


def read_jobs(hub: Hub, sync_every: int = SYNC_EVERY, process_every: int = PROCESS_EVERY) -> Table:
    """Our lines in the crontab, and the wanted ones."""
    table = read_table()
    installed = [os.fsdecode(line).rstrip("\r\n") for line in split(table) if owner(line, hub.root)]
    return Table(hub.root, tuple(installed), tuple(_wanted(hub, sync_every, process_every).values()))


def install(hub: Hub, sync_every: int, process_every: int, *, dry_run: bool = False) -> Report:
    """Put the two lines into the user's crontab, or bring them up to date."""
    lines = _wanted(hub, sync_every, process_every)
    return _write(hub.root, lines, dry_run)


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


def _wanted(hub: Hub, sync_every: int, process_every: int) -> dict[str, str]:
    wake = hub.config.last("cn.wake")
    return {job.name: format_job(job, hub.root) for job in jobs(hub.root, wake, sync_every, process_every)}


def _write(root: Path, lines: dict[str, str], dry_run: bool) -> Report:
    report = Report()
    with table_lock():
        before = read_table()
        after = replaced(before, root, {name: os.fsencode(line) for name, line in lines.items()})
        gone = [line for line in split(before) if owner(line, root) and line not in split(after)]
        fresh = [line for line in split(after) if owner(line, root) and line not in split(before)]
        if after == before:
            where = "has these lines already" if lines else "has no lines of this hub"
            report.info(f"the crontab {where}")
            return report
        if not dry_run:
            write_table(after)
    for line in gone:
        _tell(report, f"remove from the crontab: {_shown(line)}", f"removed: {_shown(line)}", dry_run)
    for line in fresh:
        _tell(report, f"add to the crontab: {_shown(line)}", f"added: {_shown(line)}", dry_run)
    return report


def _tell(report: Report, plan: str, done: str, dry_run: bool) -> None:
    if dry_run:
        report.plan(plan)
    else:
        report.done(done)


def _shown(line: bytes) -> str:
    return visible(os.fsdecode(line).rstrip("\r\n"))
