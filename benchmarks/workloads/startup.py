"""Starting: what every run from cron pays before it does anything."""

from __future__ import annotations

import sys

from benchmarks.frame.place import Place, cn
from benchmarks.frame.workload import Timed


class Startup(Timed):
    """A command that needs no hub, against the import of the command-line library alone."""

    row = "start"
    goal = 1.25

    def __init__(self, name: str, *words: str, env: dict[str, str] | None = None, said: str) -> None:
        self.name, self.words, self.extra, self.said = name, words, env or {}, said

    def case(self, size: int) -> str:
        """Which command."""
        return self.name

    def build(self, place: Place, size: int) -> None:
        """Nothing but an empty folder."""
        place.hub.mkdir()

    def environment(self, place: Place) -> dict[str, str]:
        """Completion is asked for in the environment (click's documentation, "Shell Completion")."""
        return {**place.env, **self.extra}

    def command(self, place: Place) -> list[str]:
        """The command itself."""
        return cn(*self.words)

    def floor(self, place: Place) -> list[str]:
        """What click costs."""
        return [sys.executable, "-c", "import click"]

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """It answers."""
        assert self.said in said, said


STARTUP = (
    Startup("cn --version", "--version", said="cn, version"),
    Startup("cn --help", "--help", said="Peers push branches"),
    Startup(
        "completion of 'cn in'",
        env={"_CN_COMPLETE": "bash_complete", "COMP_WORDS": "cn in", "COMP_CWORD": "1"},
        said="plain,inbox",
    ),
)
