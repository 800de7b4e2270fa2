"""What the doctor says: findings, each with its reason and remedy, and repairs as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from cn.values.errors import EXIT_CONFIG, EXIT_DONE, EXIT_REFUSED, CnError, ConfigError
from cn.values.names import Name, Oid
from cn.values.text import redact


class Level(Enum):
    """OK: looked at and fine. INFO: worth knowing. PROBLEM: something must be done."""

    OK = "ok"
    INFO = "info"
    PROBLEM = "problem"


@dataclass(frozen=True)
class FinishRun:
    """Do what the next run would do first: finish or take back an interrupted run."""


@dataclass(frozen=True)
class MoveLock:
    """Move a stale lock of git into ``.git/cn/rescue``, if it is still that very file."""

    path: Path
    inode: int
    changed_ns: int


@dataclass(frozen=True)
class SweepFailed:
    """Remove unfinished files of a git that failed, which nobody writes any more."""


@dataclass(frozen=True)
class RebuildOpen:
    """Write a peer's ``open`` again, as the fold of its history."""

    peer: Name


@dataclass(frozen=True)
class SetPin:
    """Set a pin, or with None drop it. ``old`` is what it holds now (None: nothing)."""

    ref: str
    old: Oid | None
    new: Oid | None


Fix = FinishRun | MoveLock | SweepFailed | RebuildOpen | SetPin


@dataclass(frozen=True)
class Finding:
    """One thing that the doctor found.

    ``check`` is the stable name of the check. ``broken_config`` makes the exit code 3.
    """

    check: str
    level: Level
    what: str
    why: str = ""
    remedy: str = ""
    fix: Fix | None = None
    broken_config: bool = False
    repaired: bool = False


def problem(check: str, what: str, why: str, remedy: str, fix: Fix | None = None) -> Finding:
    """A finding that must be dealt with."""
    return Finding(check, Level.PROBLEM, what, why, remedy, fix)


def info(check: str, what: str, why: str = "", remedy: str = "", fix: Fix | None = None) -> Finding:
    """A finding worth knowing."""
    return Finding(check, Level.INFO, what, why, remedy, fix)


def from_error(check: str, error: CnError, why: str) -> Finding:
    """An error that a run would end with."""
    broken = isinstance(error, ConfigError)
    return Finding(check, Level.PROBLEM, error.text, why, error.hint, broken_config=broken)


def repaired(finding: Finding) -> Finding:
    """The finding after its repair."""
    return replace(finding, level=Level.OK, repaired=True, fix=None)


def exit_code(findings: list[Finding]) -> int:
    """0 healthy, 1 problems, 3 broken configuration."""
    bad = [f for f in findings if f.level is Level.PROBLEM]
    if any(f.broken_config for f in bad):
        return EXIT_CONFIG
    return EXIT_REFUSED if bad else EXIT_DONE


def finding_json(finding: Finding) -> dict[str, Any]:
    """The JSON shape of a finding (``docs/protocol/json.md``)."""
    return {
        "check": finding.check,
        "level": finding.level.value,
        "what": redact(finding.what),
        "why": redact(finding.why),
        "remedy": redact(finding.remedy),
        "fixable": finding.fix is not None,
        "repaired": finding.repaired,
    }
