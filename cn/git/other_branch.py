"""Another branch than main is checked out: what of the threads git takes along to main, and the steps that lead there.

Git switches over a changed file only where both branches have the very same one, and takes the change along; else it
refuses (git-switch(1), "--merge"). Over a file that it does not track it refuses too; one that it ignores is lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from cn.git.objects import list_tree, resolve
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.git.work_clone import way_to, work_trees
from cn.protocol.layout import INBOX
from cn.system.files import free_name
from cn.values.errors import Blocked
from cn.values.shell_words import command


class _Changed(NamedTuple):
    """A file of a thread that git does not switch over; ``staged``: its index says so too. Has main one there?"""

    path: str
    staged: bool
    in_main: bool


def differing(hub: Hub, branch: str) -> dict[str, bool]:
    """The paths of pending threads at which HEAD and ``branch`` differ, and for each: has ``branch`` a file there?"""
    here, there = (
        {f"{INBOX}/{one.path}": (one.mode, one.oid) for one in list_tree(hub.git, tree, INBOX) if one.kind == "blob"}
        for tree in ("HEAD", f"refs/heads/{branch}")
    )
    return {path: path in there for path in here.keys() | there.keys() if here.get(path) != there.get(path)}


def steps_to(hub: Hub, branch: str) -> str:
    """The commands that go to a branch, with what is written into pending threads here. What git cannot read it tells
    itself, by the command that goes there.
    """
    way = way_to(hub.git, branch)
    if any(path.is_dir() for path in work_trees(hub.git).get(f"refs/heads/{branch}", [])):
        return way
    away, back, changed = list[str](), list[str](), list[_Changed]()
    with suppress(Blocked, GitError):
        changed = _changed(hub, branch)
    for one in changed:
        file = hub.root / one.path
        kept = free_name(file.with_name(f"{file.name}.kept"))
        away.append(command("mv -- {} {}", str(file), str(kept)))
        away += [command("git restore --staged -- {}", str(file))] if one.staged else []
        back += [command("mv -- {} {}", str(kept), str(file))] if one.in_main else []
    if not away:
        return way
    return f"{', then '.join([*away, way, *back])} (git takes no change of such a file along)"


def _changed(hub: Hub, branch: str) -> list[_Changed]:
    found = {path: in_main for path, in_main in differing(hub, branch).items() if os.path.lexists(hub.root / path)}
    if not found:
        return []
    if resolve(hub.git, "HEAD") is None:  # git switches over all from a branch without a commit
        said = hub.git.run("diff-index", "--name-only", "-z", f"refs/heads/{branch}", "--", INBOX).fields
        return [_Changed(path, False, found[path]) for path in sorted(found) if path in said]
    how = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored")
    states: dict[str, set[str]] = {}
    for line in hub.git.run("status", *how, "--", INBOX).fields:
        states.setdefault(line[3:], set()).add(line[0])
    return [_Changed(path, bool(states[path] - set(" ?!")), found[path]) for path in sorted(found) if path in states]
