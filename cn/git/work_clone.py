"""The repository in which a person works: a clone of a peer's hub, of a project, or the hub itself.

It is read; nothing of it is changed but the one setting that says which hub proposes from it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cn.git.process import Git, GitConfig
from cn.git.repository import NOTED, read_config
from cn.values.errors import Refused
from cn.values.names import Oid, parse_oid


class WorkClone(NamedTuple):
    """A work tree with its git; ``git_dir`` is what it shares with others of the repository, ``config`` the
    configuration of that.
    """

    root: Path
    git_dir: Path
    git: Git
    config: GitConfig

    @property
    def hub(self) -> str:
        """The hub that proposes from it, as it was noted; empty: none was."""
        return self.config.last(NOTED, "local", "worktree")

    @property
    def urls(self) -> list[str]:
        """Where its remotes are."""
        return [one.value for one in self.config.settings if one.key.startswith("remote.") and one.key.endswith(".url")]

    @property
    def branch(self) -> str:
        """The branch that is checked out; empty where HEAD is detached."""
        return self.git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False).text

    def commit(self, rev: str) -> Oid:
        """The commit that a revision names; raises :class:`Refused`."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        done = self.git.run(*words, check=False)
        if not done.ok:
            raise Refused(f"there is no commit {rev!r} in {self.root}", "'git log' shows the commits")
        return parse_oid(done.text)

    def uncommitted(self) -> list[str]:
        """The paths with changes that no commit has, without files that git does not track."""
        words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
        return [field[3:] for field in self.git.run(*words).fields]

    def note_hub(self, hub: Path) -> bool:
        """Remember which hub proposes from here; False where that is known."""
        if self.hub == str(hub):
            return False
        self.git.run("config", "--local", NOTED, str(hub))
        return True


def find_work_clone(folder: Path) -> WorkClone:
    """The one around a folder; raises :class:`Refused`."""
    git = Git(folder, finds=True)
    done = git.run("rev-parse", "--show-toplevel", check=False)
    if not done.ok:
        raise Refused(f"{folder} is in no work tree of git", "go to one, a clone with its files, then run it again")
    root = Path(os.path.realpath(done.path))
    git = git._replace(root=root)
    git_dir = Path(os.path.realpath(root / git.run("rev-parse", "--git-common-dir").path))
    return WorkClone(root, git_dir, git, read_config(git))


def work_trees(git: Git) -> dict[str, list[Path]]:
    """The work trees of a repository by the branch (its full name) that is checked out there."""
    found: dict[str, list[Path]] = {}
    here = Path()
    for line in git.run("worktree", "list", "--porcelain", "-z").fields:
        word, _, value = line.partition(" ")
        if word == "worktree":
            here = Path(value)
        elif word == "branch":
            found.setdefault(value, []).append(here)
    return found
