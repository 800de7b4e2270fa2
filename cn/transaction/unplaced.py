"""Where the work tree has something else than main, and cn did not touch it (``.git/cn/unplaced``).

Two things can lie there. What cn *left*: its own older file, or none, because it could not write; it
decides nothing, is not committed, does not stop a merge, and every run tries again. And what somebody
*edited* while main got another version: committed as it stands it would take back what main got, so
``cn commit`` merges the two. Losing this note costs that knowledge, never a byte.

To git what cn left would be an edit, and ``git commit -a`` would take out of main what was never here. So
these paths are *hidden* from git (git-update-index(1), "Skip-worktree bit") as long as they are left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cn.git.filters import without_filters
from cn.git.process import Git
from cn.git.repository import Hub
from cn.system.files import blob_id, place, read_regular, write_file
from cn.values.names import Oid
from cn.values.shell_words import command

if TYPE_CHECKING:  # imported where something is noted
    from cn.git.entries import Entry


class Left(NamedTuple):
    """``here`` is what cn left in the work tree (None: nothing), ``reason`` why it could do no more."""

    here: Entry | None
    reason: str

    def is_it(self, data: bytes | None) -> bool:
        """Is a file of these bytes (None: no file) what cn left, and no edit of anybody?"""
        if self.here is None or data is None:
            return self.here is None and data is None
        return blob_id(self.here.oid, data) == self.here.oid


class Edited(NamedTuple):
    """``base`` is the blob that was edited (None: main had none), ``found`` the edited bytes' id then."""

    base: Oid | None
    found: Oid


class Unplaced(NamedTuple):
    """Both, by path; ``token`` names the files that trying again moves aside, ``hidden`` the paths cn hid from git."""

    token: str
    left: Mapping[str, Left]
    edited: Mapping[str, Edited]
    hidden: frozenset[str] = frozenset()


def unplaced_path(hub: Hub) -> Path:
    """Where it is noted."""
    return hub.state / "unplaced"


def read_unplaced(hub: Hub) -> Unplaced:
    """What is noted. Where the note cannot be read nothing is; 'git status' shows it all the same."""
    data = read_regular(unplaced_path(hub))
    if data is None:
        return Unplaced("", {}, {})
    try:
        plain = json.loads(data)
        if plain["left"]:
            from cn.git.entries import Entry
        left = {
            path: Left(Entry(mode, Oid(oid)) if mode and oid else None, str(reason))
            for path, (mode, oid, reason) in plain["left"].items()
        }
        edited = {path: Edited(Oid(base) if base else None, Oid(raw)) for path, (base, raw) in plain["edited"].items()}
        return Unplaced(str(plain["token"]), left, edited, frozenset(map(str, plain["hidden"])))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return Unplaced("", {}, {})


def has_to_place(hub: Hub) -> bool:
    """Is there something for the next run to bring to the work tree, or to show to git again?"""
    noted = read_unplaced(hub)
    return bool(noted.left or noted.hidden)


def is_left(hub: Hub, path: str, data: bytes | None) -> bool:
    """Are these bytes at ``path`` (None: no file) what cn itself could not replace yet?"""
    one = read_unplaced(hub).left.get(path)
    return one is not None and one.is_it(data)


def write_unplaced(hub: Hub, git: Git, known: Unplaced, left: Mapping[str, Left], edited: Mapping[str, Edited]) -> None:
    """Note exactly these, where that is news beside what is ``known``; hide what is left, in the index of ``git``."""
    hide, hidden = _to_hide(hub, git, left, known.hidden) if left or known.hidden else ([], frozenset())
    if not left and not edited and not hidden:
        unplaced_path(hub).unlink(missing_ok=True)
    elif (left, edited, hidden) != known[1:]:
        # What was moved aside until now is no longer needed where others are left.
        token = known.token if left == known.left and known.token else os.urandom(16).hex()
        plain = {
            "token": token,
            "left": {path: [*(one.here or ("", "")), one.reason] for path, one in left.items()},
            "edited": {path: [one.base or "", one.found] for path, one in edited.items()},
            "hidden": sorted(hidden),
        }
        write_file(unplaced_path(hub), json.dumps(plain, ensure_ascii=True).encode())
    if hide:  # noted before: a bit that nobody knows of would stay
        _mark(hub, git, "--skip-worktree", hide)


def _to_hide(hub: Hub, git: Git, left: Iterable[str], known: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """What is to be hidden now, and all that cn hid, or will have; what is left no more is shown.

    What somebody else hid is not cn's; a busy index is asked again by the next run.
    """
    wanted = frozenset(left)
    done = git.run("ls-files", "-t", "-z", "--full-name", check=False)
    marks = {path: mark for mark, _, path in (field.partition(" ") for field in done.fields)} if done.ok else {}
    paths = [path for path in sorted(wanted) if marks.get(path) == "H"]
    gone = [path for path in sorted(known - wanted) if marks.get(path) == "S"]
    shown = done.ok and (not gone or _mark(hub, git, "--no-skip-worktree", gone))
    return paths, frozenset(paths) | (known & wanted if shown else known)


_MOST_NAMED = 100
"""So many paths are named to git; of more it is asked about all that it has."""


def shown_by(hub: Hub, paths: Sequence[str]) -> dict[str, str]:
    """The commands by which git looks again at those of the paths at which somebody told it not to look, or that a
    sparse checkout leaves out: until then it neither commits nor stashes them. What cn hid is not among them.
    """
    from cn.git.sparse import bring_back, is_sparse  # most runs find no such change

    named = ("--", *paths) if len(paths) <= _MOST_NAMED else ()
    fields = hub.git.run("ls-files", "-v", "-z", "--full-name", *named, check=False).fields if paths else []
    marks = {path: mark for mark, _, path in (field.partition(" ") for field in fields)}
    hidden, found = read_unplaced(hub).hidden, dict[str, str]()
    for path in paths:
        mark, steps = marks.get(path, ""), list[str]()
        if mark.islower():
            steps.append(command("git update-index --no-assume-unchanged -- {}", path))
        if mark in ("S", "s") and path not in hidden:
            left_out = is_sparse(hub.config) and not os.path.lexists(hub.root / path)
            shows = command("git update-index --no-skip-worktree -- {}", path)
            steps.append(bring_back(hub, path) if left_out else shows)
        if steps:
            found[path] = ", then ".join(steps)
    return found


LOCKED = b"cn places files\n"
"""What is in our lock of the index here. A run that finds it has the hub's lock, so who left it is gone."""


def _mark(hub: Hub, git: Git, how: str, paths: Iterable[str]) -> bool:
    git = without_filters(git)  # of other files, which it would look at anew: one that fails would end it
    words, lines = ("update-index", how, "-z", "--stdin"), b"".join(os.fsencode(path) + b"\0" for path in paths)
    if "GIT_INDEX_FILE" in git.env:
        return git.run(*words, stdin=lines, check=False).ok
    import shutil  # with its archives 2 ms, and most runs have nothing to hide

    # On a copy, under a lock of ours: of one that a killed git leaves nobody knows whose it is.
    index, scratch = hub.work_git_dir / "index", hub.state / "txn"
    lock = index.with_name("index.lock")
    try:
        write_file(scratch / "mark", LOCKED)
        place(scratch / "mark", lock)
    except OSError:  # another git is at work, or nothing can be written there
        return False
    try:
        shutil.copy2(index, scratch / "marks")
        done = git.with_env(GIT_INDEX_FILE=scratch / "marks").run(*words, stdin=lines, check=False).ok
        if done:
            os.replace(scratch / "marks", index)
        return done
    except OSError:
        return False
    finally:
        lock.unlink(missing_ok=True)


def forget_left(hub: Hub, path: str) -> None:
    """What main has of this file was taken up here by who writes it."""
    known = read_unplaced(hub)
    if path in known.left:
        write_unplaced(hub, hub.git, known, {p: one for p, one in known.left.items() if p != path}, known.edited)


def forget_edited(hub: Hub, paths: Iterable[str]) -> None:
    """They are as main has them again."""
    known, gone = read_unplaced(hub), set(paths)
    if known.edited.keys() & gone:
        write_unplaced(hub, hub.git, known, known.left, {p: one for p, one in known.edited.items() if p not in gone})
