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
from cn.system import crontab
from cn.values.errors import ConfigError, UsageError
from cn.values.report import Mark, Report
from cn.values.text import visible

SYNC_EVERY, PROCESS_EVERY = 5, 15
"""Minutes."""


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


def _wanted(hub: Hub, sync_every: int, process_every: int) -> dict[str, str]:
    """The lines of both jobs by their names. The program of the wake command must be found by them too."""
    path = crontab.find_dirs(["git", "ssh", "ssh-keygen", *hub.config.last("cn.wake").split()[:1]])
    head = " ".join([f"PATH={crontab.quote(':'.join(path))}", *(crontab.quote(word) for word in cn_command())])
    lines = {}
    for name, minutes in (("sync", sync_every), ("process", process_every)):
        command = f"{head} inbox {name} {crontab.quote(str(hub.root))} -q"
        lines[name] = crontab.format_job(crontab.Job(name, schedule(minutes, f"--{name}-every"), command), hub.root)
    return lines


def cn_command() -> list[str]:
    """How to start this cn from anywhere: its script, else this Python."""
    script = Path(sys.argv[0])
    candidates = [script.absolute()] if script.name == "cn" else []
    candidates.append(Path(sys.executable).parent / "cn")
    found = next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)
    return [str(found)] if found else [sys.executable, "-m", "cn"]


def read_jobs(hub: Hub) -> Table:
    """Our lines in the crontab, and the wanted ones."""
    installed = [os.fsdecode(line).rstrip("\r\n") for line in _ours(crontab.read_table(), hub.root)]
    return Table(hub.root, tuple(installed), tuple(_wanted(hub, SYNC_EVERY, PROCESS_EVERY).values()))


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


def _ours(table: bytes, root: Path) -> list[bytes]:
    return [line for line in crontab.split(table) if crontab.owner(line, root)]


def _write(root: Path, lines: dict[str, str], dry_run: bool) -> Report:
    report = Report()
    with crontab.table_lock():
        before = crontab.read_table()
        after = crontab.replaced(before, root, {name: os.fsencode(line) for name, line in lines.items()})
        old, new = _ours(before, root), _ours(after, root)
        if after == before:
            where = "has these lines already" if lines else "has no lines of this hub"
            report.info(f"the crontab {where}")
            return report
        if not dry_run:
            crontab.write_table(after)
    gone, fresh = [line for line in old if line not in new], [line for line in new if line not in old]
    for plan, done, lines_of in (("remove from", "removed", gone), ("add to", "added", fresh)):
        for line in lines_of:
            shown = visible(os.fsdecode(line).rstrip("\r\n"))
            report.add(*((Mark.PLAN, f"{plan} the crontab: {shown}") if dry_run else (Mark.DONE, f"{done}: {shown}")))
    return report
