"""Which commits of main's line took out what stood in it, and the commands that bring it back.

These commands bring what this clone knew, and nothing else: git-revert(1) brings what was before that commit, which is
for whoever made it to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cn.git.entries import list_entries, read_changes
from cn.git.process import Git
from cn.values.names import OWNED, Oid, is_protected
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_MOST = 5
"""More commits are not named."""
_MOST_NAMES = 10
"""More paths are brought back by the folder."""
_FOLDERS = (".cn", *OWNED)
_PAGES = ("skills", "spec")
"""These folders may have files of the project's own."""


class Removal(NamedTuple):
    """A commit that took out files, or lines of them: its title and author as it says."""

    commit: Oid
    title: str

    def __str__(self) -> str:
        return f"{self.commit[:12]} {self.title}"


def bring_back(git: Git, known: Oid | str, accepted: Oid | str, now: Oid | str) -> list[str]:
    """The commands that bring the files of cn which ``known`` has and ``now`` has not, the protected ones as this clone
    ``accepted`` them; empty: there are none.
    """
    gone = {c.path: c.old for c in read_changes(git, known, now) if c.new is None}
    protected = [path for path in gone if is_protected(path)]
    before = list_entries(git, accepted, protected) if protected else {}
    standing = {folder for path in list_entries(git, now, (*_FOLDERS, *_PAGES)) for folder in _above(path)}
    whole = {}
    for path in gone:
        top = path.partition("/")[0]
        if top in _FOLDERS or (top in _PAGES and top not in standing):
            whole[next((one for one in _above(path) if one not in standing), path)] = True
        elif path in protected:
            whole[path] = True
    places = whole if len(whole) <= _MOST_NAMES else dict.fromkeys(path.partition("/")[0] for path in whole)
    steps = [command("git checkout {} -- {}", known, path) for path in places]
    other = [path for path in protected if path in before and before[path] != gone[path]]
    return [*steps, *(command("git checkout {} -- {}", accepted, path) for path in other)]


def _above(path: str) -> list[str]:
    """The folders in which it lies, the outermost first."""
    names = path.split("/")[:-1]
    return ["/".join(names[: many + 1]) for many in range(len(names))]


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
    shape = ("--raw", "--numstat", "-z", "--format=%x00%x00%H%x00%s (%an)")
    done = git.run("log", *flags, *shape, "--end-of-options", f"{old}..{new}", "--", *paths, check=False)
    if not done.ok:
        return []
    found: list[Removal] = []
    text = done.out.decode("utf-8", "replace")
    for entry in f"\0{text}".split("\0\0\0")[1:]:
        oid, title, *fields = entry.split("\0")
        if any(took(path, whole) for path, whole in _taken(fields)):
            found.append(Removal(Oid(oid), visible(one_line(title, 80))))
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
