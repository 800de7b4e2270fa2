"""What a run reports: notes with a mark, and the exit code they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from cn.values.errors import EXIT_DONE, EXIT_REFUSED


class Mark(Enum):
    """What kind of note it is. DONE is only for what was read back."""

    DONE = "done"
    INFO = "info"
    PLAN = "plan"
    REFUSED = "refused"
    FAILED = "failed"


class Note(NamedTuple):
    """One sentence of a run. What was ``told_before`` is quiet, and shown by ``cn status`` until it is gone;
    ``theirs`` is a refusal that its creator, who alone can do something about it, was told.

    Of a step that is only planned, ``paths`` are the files of main that it changes, ``rows`` the rows that
    it logs: source, decision and executed.
    """

    mark: Mark
    text: str
    hint: str = ""
    source: str = ""
    told_before: bool = False
    paths: tuple[str, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()
    theirs: bool = False


@dataclass
class Report:
    """The notes of a run in order. The only thing use cases write while they work."""

    notes: list[Note] = field(default_factory=list)
    untidy: bool = False
    """The repository is to be packed when this was shown: nobody waits for it."""
    held: Counter[str] = field(default_factory=Counter)
    """What waits in the outbox, and was not tried since its peer did not answer a moment ago: how much for whom, and
    until when. A person at a terminal is told; to a run from cron it is no news.
    """
    again: bool = False
    """No model was reached: to be asked again soon."""
    level: str = ""
    """``logging.level`` of agent.yaml: how much is shown where the command line does not say."""

    def add(self, mark: Mark, text: str, hint: str = "", *, source: str = "", told_before: bool = False) -> None:
        """Add one note."""
        self.notes.append(Note(mark, text, hint, source, told_before))

    def done(self, text: str, *, source: str = "") -> None:
        """An effect that was read back."""
        self.add(Mark.DONE, text, source=source)

    def info(self, text: str, *, source: str = "", told_before: bool = False) -> None:
        """Something worth knowing."""
        self.add(Mark.INFO, text, source=source, told_before=told_before)

    def plan(
        self, text: str, *, source: str = "", paths: tuple[str, ...] = (), rows: tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        """What a dry run would do."""
        self.notes.append(Note(Mark.PLAN, text, source=source, paths=paths, rows=rows))

    def refused(
        self, text: str, hint: str = "", *, source: str = "", told_before: bool = False, theirs: bool = False
    ) -> None:
        """A rule said no."""
        self.notes.append(Note(Mark.REFUSED, text, hint, source, told_before, theirs=theirs))

    def failed(self, text: str, hint: str = "", *, source: str = "", told_before: bool = False) -> None:
        """Something did not work, or nobody knows whether it did."""
        self.add(Mark.FAILED, text, hint, source=source, told_before=told_before)

    @property
    def exit_code(self) -> int:
        """1 where something was refused or failed in this run about which somebody here can do something."""
        bad = any(n.mark in (Mark.REFUSED, Mark.FAILED) and not (n.told_before or n.theirs) for n in self.notes)
        return EXIT_REFUSED if bad else EXIT_DONE


Progress = Callable[[str], None]
