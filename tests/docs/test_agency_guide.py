"""The guide to Agency works as written: each command does what it says, with other ids."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.terminal import commands
from tests.support.hubs import ROOT, cn, git

_ID = r"\b[0-9a-f]{6,40}\b"
_WHEN = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\dZ)?"


def plain(line: str) -> str:
    """A line without its times and ids; a tree is drawn on a terminal as on the page, and indented in a pipe."""
    drawn = re.match(r"(?:│   |├── |└── |    )*", line)
    if drawn and "── " in drawn[0]:
        line = "  " * (drawn.end() // 4) + line[drawn.end() :]
    return re.sub(_ID, "ID", re.sub(_WHEN, "WHEN", line))


class Guide:
    """A terminal in which the guide is typed; ``ids`` of the page, and what they are here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}

    def type(self, command: str, shown: str) -> None:
        """Run it with the ids of here, and compare what it says with the page, in any order: some is by ids."""
        said = self.run(re.sub(_ID, lambda found: self.here(found[0]), command)).splitlines()
        lines = shown.splitlines()
        assert sorted(map(plain, said)) == sorted(map(plain, lines)), command
        for line, real in zip(sorted(lines, key=plain), sorted(said, key=plain), strict=True):
            self.learn(line, real)

    def run(self, command: str) -> str:
        echo = re.fullmatch(r'echo "(.*)" \| (cn .*)', command)
        words = shlex.split(echo[2] if echo else command)
        if words[0] != "cn":
            return subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True).stdout
        done = cn(*words[1:], cwd=self.folder, stdin=f"{echo[1]}\n" if echo else "")
        assert done.returncode in (0, *([1] if words[1:3] == ["agency", "can"] else [])), (command, done.stderr)
        return done.stdout + done.stderr

    def here(self, id: str) -> str:
        """The id that stands where the page has this one."""
        (found,) = {real[: len(id)] for page, real in self.ids.items() if page.startswith(id)}
        return found

    def learn(self, line: str, real: str) -> None:
        """The ids are the same wherever the page's are."""
        pairs = (re.findall(_ID, re.sub(_WHEN, "", text)) for text in (line, real))
        for page, id in zip(*pairs, strict=True):
            assert self.ids.setdefault(page, id) == id, line


def test_the_guide_works_as_written(tmp_path: Path) -> None:
    cn("init", "-q", "sigma", cwd=tmp_path, check=0)
    guide = Guide(tmp_path / "cn-sigma")
    git(guide.folder, "config", "agency.user", "ann")
    for block in blocks_of(ROOT / "docs/agency.md"):
        for command, shown in commands(block.text):
            guide.type(command, shown)
