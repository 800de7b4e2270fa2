"""What the checks look at (:class:`HubFacts`), and what they say (:class:`Finding`), with how to repair it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from cn.git.objects import resolve
from cn.git.process import Git, GitConfig, GitError
from cn.git.repository import ForeignHub, Hub, open_hub, read_config, share
from cn.protocol import ledger
from cn.protocol.ledger import Event, LedgerRefused
from cn.run.settings import Settings, find_known, read_settings
from cn.run.snapshot import Snapshot
from cn.run.view import Accepted, find_accepted
from cn.system.clock import now
from cn.values.errors import EXIT_CONFIG, EXIT_DONE, EXIT_REFUSED, Blocked, CnError, ConfigError
from cn.values.names import Name, Oid, is_name


@dataclass
class History:
    """A peer's ledger as far as it can be read: good events in order, and by file the lines that are none; no line of a
    file (or of all the folder) that git cannot read.
    """

    events: list[Event] = field(default_factory=list)
    bad: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class HubFacts:
    """A hub in whatever state it is.

    ``readable`` tells whether git can read the repository at all, ``main`` is its main
    branch's tip, ``settings`` the configuration in it; None: there is none that can be read.
    ``locked``: we hold the hub's lock ourselves.
    """

    hub: Hub
    now: datetime
    readable: bool
    main: Oid | None
    settings: Settings | None
    full: bool = False
    locked: bool = False

    @cached_property
    def snapshot(self) -> Snapshot:
        """Main, for checks that need one."""
        assert self.main is not None
        return Snapshot(self.hub.git, self.main)

    @cached_property
    def accepted(self) -> Accepted | None:
        """That this clone has accepted main's configuration; None: it has not, and nobody is contacted by it."""
        with suppress(Blocked):
            return find_accepted(self.hub, self.main) if self.main else None
        return None

    @cached_property
    def histories(self) -> dict[Name, History]:
        """The ledgers in main."""
        entries = self.snapshot.folder(ledger.FOLDER)
        peers = [Name(e.path) for e in entries if e.kind == "tree" and is_name(e.path)]
        return {peer: read_history(self.snapshot, peer) for peer in peers}


def read_history(snapshot: Snapshot, peer: Name) -> History:
    """Every month of a peer's ledger; whatever the files hold."""
    found = History()
    folder = f"{ledger.FOLDER}/{peer}"
    entries = snapshot.folder(folder)
    if not entries:  # git keeps no empty folder
        found.bad[folder] = []
    for name in ledger.months(e.path for e in entries):
        path = f"{folder}/{name}"
        if (data := snapshot.read(path)) is None:
            found.bad[path] = []
            continue
        text = data.decode("utf-8", "surrogateescape")
        for number, line in ledger.numbered_lines(text):
            try:
                line.encode("utf-8")
                found.events.append(ledger.parse_event(line))
            except (LedgerRefused, UnicodeEncodeError):
                found.bad.setdefault(path, []).append(number)
    return found


def open_damaged(path: Path | None) -> Hub:
    """The hub, also one whose ``.cn/hub.yaml`` is neither in the work tree nor in main.

    Raises :class:`ConfigError` where there is no sign of a hub.
    """
    try:
        return share(open_hub(path))
    except ForeignHub:
        raise
    except (ConfigError, GitError):
        start = (path or Path.cwd()).absolute()
        for root in (start,) if path is not None else (start, *start.parents):
            if (root / ".git").is_dir() and (_has_worked(root / ".git" / "cn") or (root / ".cn").is_dir()):
                real = Path(os.path.realpath(root))
                config = GitConfig()
                with suppress(GitError):  # a damaged one; the check of the repository tells it
                    config = read_config(Git(real))
                git, origin = Git(real, config=config), bool(config.all("remote.origin.url"))
                return share(Hub(real, real / ".git", real / ".git", git, "main", origin))
        raise


def _has_worked(state: Path) -> bool:
    """Did cn do more in this repository than to take the lock and look, as one that refuses does too?"""
    found = [path for path in state.iterdir() if not path.name.startswith("lock")] if state.is_dir() else []
    return any(not path.is_dir() or any(path.iterdir()) for path in found)


def examine_from(hub: Hub, *, full: bool = False, locked: bool = False) -> HubFacts:
    """Read what every check needs; nothing that fails here ends the examination."""
    main: Oid | None = None
    settings: Settings | None = None
    readable = False
    with suppress(CnError, OSError, ValueError):
        readable = hub.git.run("rev-parse", "--git-dir", check=False).ok
    if readable:
        with suppress(CnError, OSError, ValueError):
            settings = read_settings(hub, "HEAD")
            hub = replace(hub, main=settings.config.main)
        if settings is None:
            with suppress(CnError, OSError, ValueError):
                hub, _ = find_known(hub)
        with suppress(CnError, OSError, ValueError):
            main = resolve(hub.git, hub.main_ref)
        if main is not None:
            settings = None
            with suppress(CnError, OSError, ValueError):
                settings = read_settings(hub, main)
    return HubFacts(hub, now(), readable, main, settings, full, locked)


class Level(Enum):
    """OK: looked at and fine. INFO: worth knowing. PROBLEM: something must be done."""

    OK = "ok"
    INFO = "info"
    PROBLEM = "problem"


class Step(Enum):
    """The repairs, in the order in which they are made."""

    SWEEP = 0
    MOVE_LOCK = 1
    FINISH_RUN = 2
    SET_PIN = 3
    REBUILD_OPEN = 4


class Fix(NamedTuple):
    """A repair. ``text`` says what it will do, ``apply`` does it under the lock and says what it did.

    ``apply`` is given the name of the rescue, below which it keeps what it takes away. ``pin`` is the ref that
    it changes, with what that holds now (None: nothing): the rescue keeps it too.
    """

    step: Step
    text: str
    apply: Callable[[Hub, str], str]
    pin: tuple[str, Oid | None] | None = None


class Finding(NamedTuple):
    """One thing that the doctor found.

    ``check`` is the stable name of what was looked at, the check's own if it is empty. ``broken_config`` makes
    the exit code 3.
    """

    level: Level
    what: str
    why: str = ""
    remedy: str = ""
    fix: Fix | None = None
    check: str = ""
    broken_config: bool = False
    repaired: bool = False


ok = partial(Finding, Level.OK)
problem = partial(Finding, Level.PROBLEM)
info = partial(Finding, Level.INFO)


def from_error(error: CnError, why: str, *, check: str = "") -> Finding:
    """An error that a run would end with."""
    return Finding(Level.PROBLEM, error.text, why, error.hint, None, check, isinstance(error, ConfigError))


def exit_code(findings: list[Finding]) -> int:
    """0 healthy, 1 problems, 3 broken configuration."""
    bad = [f for f in findings if f.level is Level.PROBLEM]
    if any(f.broken_config for f in bad):
        return EXIT_CONFIG
    return EXIT_REFUSED if bad else EXIT_DONE
