"""Which commits of main's line took out what stood in it, and the commands that take them back (git-revert(1))."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cn.git.process import Git
from cn.values.names import Oid, is_protected
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_MOST = 5
"""Of more commits nobody types the commands."""


class Removal(NamedTuple):
    """A commit that took out files, or lines of them: its title and author as it says, ``merge``: does it have several
    parents? Then it is looked at, and taken back, against the first.
    """

    commit: Oid
    title: str
    merge: bool

    @property
    def revert(self) -> str:
        """The command that takes it back."""
        oid = self.commit  # a tag may be called by fewer of its digits
        return command("git revert --no-edit -m 1 {}", oid) if self.merge else command("git revert --no-edit {}", oid)


def is_of_ledger(path: str, whole: bool) -> bool:
    """Is what was taken out there lost with it? What is open shrinks by itself (``docs/protocol/ledger.md``)."""
    return path.startswith("state/ledger/") and not path.endswith("/open")


def is_of_hub(path: str, whole: bool) -> bool:
    """Is that what makes a hub of a project: the ledger, or a whole file that only people change?"""
    return is_of_ledger(path, whole) or (whole and is_protected(path))


def find_removals(
    git: Git, old: Oid | str, new: Oid | str, paths: Sequence[str], took: Callable[[str, bool], bool]
) -> list[Removal]:
    """The commits of ``old..new`` that took something out of ``paths``, newest first; empty where they are too many.

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
    shape = ("--raw", "--numstat", "-z", "--format=%x00%x00%H%x00%P%x00%s (%an)")
    done = git.run("log", *flags, *shape, "--end-of-options", f"{old}..{new}", "--", *paths, check=False)
    if not done.ok:
        return []
    found: list[Removal] = []
    text = done.out.decode("utf-8", "replace")
    for entry in f"\0{text}".split("\0\0\0")[1:]:
        oid, parents, title, *fields = entry.split("\0")
        if any(took(path, whole) for path, whole in _taken(fields)):
            found.append(Removal(Oid(oid), visible(one_line(title, 80)), " " in parents))
    return found if len(found) <= _MOST else []


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
