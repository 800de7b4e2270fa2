"""The repository in which a person works: a clone of a peer's hub, of a project, or the hub itself.

It is read; nothing of it is changed but the one setting that says which hub proposes from it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cn.git.objects import OUTPUT_BYTES, read_info
from cn.git.process import Git, GitConfig
from cn.git.repository import NOTED, half_done_in, read_config
from cn.values.errors import Refused
from cn.values.names import Oid, parse_oid
from cn.values.shell_words import command


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
    def half_done(self) -> str:
        """What of git's has taken HEAD off its branch and goes on from there, such as "a rebase"; empty: nothing."""
        if self.branch:
            return ""
        return half_done_in(Path(self.root / self.git.run("rev-parse", "--git-dir").path))

    @property
    def decides(self) -> bool:
        """Is it a clone of a hub in which cn runs for that hub? Then no other one is noted in it."""
        return self.git.run("rev-parse", "--verify", "--quiet", "refs/cn/trusted", check=False).ok

    def place(self, url: str) -> str:
        """What git is given for a URL here: the remote that has it, else the URL."""
        for one in self.config.settings:
            if one.key.startswith("remote.") and one.key.endswith(".url") and same_place(one.value, url):
                return one.key.removeprefix("remote.").removesuffix(".url")
        return url

    @property
    def branch(self) -> str:
        """The branch that is checked out; empty where HEAD is detached."""
        return self.git.run("symbolic-ref", "--quiet", "HEAD", check=False).text.removeprefix("refs/heads/")

    def commit(self, rev: str) -> Oid:
        """The commit that a revision names; raises :class:`Refused`."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        done = self.git.run(*words, check=False)
        if not done.ok:
            raise Refused(f"there is no commit {rev!r} in {self.root}", "'git log' shows the commits")
        return parse_oid(done.text)

    def tip(self, branch: str) -> Oid | None:
        """Where a branch of its own is; None: it has none of that name."""
        done = self.git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}", check=False)
        return parse_oid(done.text) if done.ok else None

    def had(self, commit: Oid) -> bool:
        """Was a commit in a branch or HEAD of this clone, now or by their reflogs? What was only fetched was not."""
        if read_info(self.git, [commit]) == [None]:
            return False
        past = self.git.run("rev-list", "--walk-reflogs", "--branches", "HEAD", check=False, max_out=OUTPUT_BYTES)
        tips = "".join(f"^{tip}\n" for tip in dict.fromkeys(past.lines)).encode()
        words = ("rev-list", "--max-count=1", "--ignore-missing", commit, "--not", "--branches", "HEAD", "--stdin")
        done = self.git.run(*words, stdin=tips, check=False)
        return done.ok and not done.text

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


def same_place(one: str, other: str) -> bool:
    """Are these URLs of one repository, as they are written?"""
    return bool(one) and _bare(one) == _bare(other)


def _bare(url: str) -> str:
    return url.removeprefix("file://").rstrip("/").removesuffix(".git")


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


def way_to(git: Git, branch: str) -> str:
    """The command that goes to a branch; where git has it checked out in another work tree, it is only there."""
    holders = work_trees(git).get(f"refs/heads/{branch}", [])
    if there := [path for path in holders if path.is_dir()]:
        return command("cd {}", str(there[0]))
    switch = command("git switch {}", branch)
    return f"'git worktree prune', then {switch}" if holders else switch


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
