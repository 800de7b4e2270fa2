"""What the doctor says: findings, each with its reason and remedy, and how to repair it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from cn.git.repository import Hub
from cn.values.errors import EXIT_CONFIG, EXIT_DONE, EXIT_REFUSED, CnError, ConfigError
from cn.values.names import Oid
from cn.values.text import redact


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


def ok(what: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, what)


def problem(what: str, why: str, remedy: str, fix: Fix | None = None, *, check: str = "") -> Finding:
    """A finding that must be dealt with."""
    return Finding(Level.PROBLEM, what, why, remedy, fix, check)


def info(what: str, why: str = "", remedy: str = "", fix: Fix | None = None, *, check: str = "") -> Finding:
    """A finding worth knowing."""
    return Finding(Level.INFO, what, why, remedy, fix, check)


def from_error(error: CnError, why: str, *, check: str = "") -> Finding:
    """An error that a run would end with."""
    return Finding(Level.PROBLEM, error.text, why, error.hint, None, check, isinstance(error, ConfigError))


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
