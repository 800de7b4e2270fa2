"""Which commits of main's line took out what stood in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cn.git.process import Git
from cn.values.names import Oid, is_protected
from cn.values.text import one_line, visible, without_commands

_MOST = 5
"""More commits are not named."""


class Removal(NamedTuple):
    """A commit that took out files, or lines of them: its title and author as it says."""

    commit: Oid
    title: str

    def __str__(self) -> str:
        return f"{self.commit[:12]} {self.title}"


def is_of_ledger(path: str, whole: bool) -> bool:
    """Is what was taken out there lost with it? What is open shrinks by itself (``docs/protocol/ledger.md``)."""
    return path.startswith("state/ledger/") and not path.endswith("/open")


def is_of_hub(path: str, whole: bool) -> bool:
    """Is that what makes a hub of a project: the ledger, or a whole file that only people change?"""
    return is_of_ledger(path, whole) or (whole and is_protected(path))


def find_removals(
    git: Git, old: Oid | str, new: Oid | str, paths: Sequence[str], took: Callable[[str, bool], bool]
) -> list[Removal]:
    """The commits of ``old..new`` that took something out of ``paths``, newest first.

    ``took`` is asked of each file that a commit removed (True) or took lines out of (False): is it looked for?
    """
    flags = (
        "--first-parent",
        "-m",
        "--no-renames",
        "--ignore-space-at-eol",
        "--ignore-blank-lines",
        "--no-ext-diff",
        "--no-textconv",
        "--no-show-signature",
    )
    shape = ("--raw", "--numstat", "-z", "--format=%x00%x00%H%x00%s (%an)")
    done = git.run("log", *flags, *shape, "--end-of-options", f"{old}..{new}", "--", *paths, check=False)
    if not done.ok:
        return []
    found: list[Removal] = []
    text = done.out.decode("utf-8", "replace")
    for entry in f"\0{text}".split("\0\0\0")[1:]:
        oid, title, *fields = entry.split("\0")
        if any(took(path, whole) for path, whole in _taken(fields)):
            found.append(Removal(Oid(oid), without_commands(visible(one_line(title, 80)))))
    return found


def named(commits: Sequence[Removal]) -> str:
    """`` by COMMIT TITLE, …``; empty: there is none."""
    more = f" and {len(commits) - _MOST} more" if len(commits) > _MOST else ""
    return f" by {', '.join(map(str, commits[:_MOST]))}{more}" if commits else ""


def _taken(fields: Sequence[str]) -> list[tuple[str, bool]]:
    """The files that a commit removed or took lines out of, of its rows of ``--raw`` and ``--numstat``."""
    taken, raw = list[tuple[str, bool]](), ""
    for field in (field.lstrip("\n") for field in fields):
        if field.startswith(":"):
            raw = field
        elif raw:
            taken += [(field, True)] if raw.endswith("D") else []
            raw = ""
        elif field.count("\t") == 2:
            _, out, path = field.split("\t")
            taken += [(path, False)] if out != "0" else []
    return taken
