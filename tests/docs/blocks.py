"""Marked blocks of the documentation: ``<!-- test: NAME … -->`` before a fence, a table or a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.hubs import ROOT

PROTOCOL = ROOT / "docs/protocol"
_MARK = re.compile(r"<!-- test: ([a-z-]+)(?: (.*?))? -->")
_FENCE = re.compile(r"(`{3,})([a-z]*)")


@dataclass(frozen=True)
class Block:
    """A block that a test executes: where it stands, its name, what follows the name, its lines."""

    page: str
    line: int
    name: str
    argument: str
    text: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, without its heading."""
        rows = [_cells(line) for line in self.text.splitlines()]
        return rows[2:]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}:{self.name}"


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [c.strip() for c in re.split(r"(?<!\\)\|", inner)]


def plain(cell: str) -> str:
    """A cell without its code marks."""
    return cell.removeprefix("`").removesuffix("`")


def blocks(folder: Path = PROTOCOL) -> list[Block]:
    """All marked blocks of a folder of markdown files."""
    return [block for page in sorted(folder.glob("*.md")) for block in blocks_of(page)]


def blocks_of(page: Path) -> list[Block]:
    """The marked blocks of one page."""
    lines = page.read_text("utf-8").split("\n")
    found = []
    for number, line in enumerate(lines):
        mark = _MARK.fullmatch(line)
        if mark:
            text = "\n".join(_following(lines, number + 1)) + "\n"
            found.append(Block(page.name, number + 1, mark[1], mark[2] or "", text))
    return found


def _following(lines: list[str], start: int) -> list[str]:
    fence = _FENCE.fullmatch(lines[start])
    if fence:
        end = next(i for i in range(start + 1, len(lines)) if lines[i] == fence[1])
        return lines[start + 1 : end]
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    return lines[start:end]
