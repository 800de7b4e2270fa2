"""Which commit of main did something: questions to the history (git-log(1))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cn.git.entries import read_changes
from cn.git.objects import empty_tree
from cn.git.process import Git
from cn.values.names import Oid, is_oid
from cn.values.timestamps import from_epoch

_FORM = "--format=%H%x00%P%x00%ct%x00%s"


@dataclass(frozen=True)
class PastCommit:
    """One commit. Of its parents the first is main before it."""

    commit: Oid
    parents: tuple[Oid, ...]
    at: datetime
    subject: str


def commits_of(git: Git, tip: str, path: str, *, most: int = 2000, since: datetime | None = None) -> list[PastCommit]:
    """The commits up to ``tip`` that changed a file, newest first."""
    limit = [f"--since={since.isoformat()}"] if since else []
    return _log(git, f"-{most}", *limit, tip, "--", path)


def added_by(git: Git, tip: str, path: str) -> PastCommit | None:
    """The commit that brought a file; the oldest, where a merge brought it again."""
    found = _log(git, "--diff-merges=first-parent", "--diff-filter=A", "--name-only", tip, "--", path)
    return found[-1] if found else None


def read_past(git: Git, commit: str) -> PastCommit | None:
    """One commit by its name, None where it is not here."""
    done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", check=False)
    return next(iter(_log(git, "-1", done.text)), None) if done.ok else None


def _log(git: Git, *words: str) -> list[PastCommit]:
    done = git.run("log", "--no-color", "--no-show-signature", _FORM, *words, check=False)
    return list(parse_log(done.lines)) if done.ok else []


def parse_log(lines: Iterable[str]) -> Iterator[PastCommit]:
    """The commits of a log in :data:`_FORM`; what else it shows (names of files) is passed over.

    A commit without a date that is one counts as the oldest there is.
    """
    for line in lines:
        commit, *rest = line.split("\0", 3)
        if len(rest) == 3 and is_oid(commit):
            parents, at, subject = rest
            yield PastCommit(Oid(commit), tuple(Oid(p) for p in parents.split()), from_epoch(at), subject)


def changes_of(git: Git, past: PastCommit) -> list[tuple[str, str]]:
    """What a commit changed against main before it: ``A``, ``M``, ``D`` or ``T``, and the path."""
    before = past.parents[0] if past.parents else empty_tree(git)
    return [(change.status, change.path) for change in read_changes(git, before, past.commit)]
