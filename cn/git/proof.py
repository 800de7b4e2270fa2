"""Does a host have what it lists? A commit that is here already is not asked for, so whoever knows its id can list it.

What is taken from a host stands on commits that came from it, or that it is known to have (:mod:`cn.git.told`). Where
others are here already the host sends them once more, as commits alone, into a repository that borrows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cn.git.process import Git, Job
from cn.git.remote import FETCH, for_filter, is_unreached, make_empty, why_not
from cn.git.told import Told
from cn.values.names import Oid
from cn.values.text import one_line

_FETCH = (*FETCH, "--filter=tree:0")
"""A host that knows no filters sends the files too."""
LACKS = "its host lists it, and does not have what it stands on"


def why_unproven(
    git: Git, place: Path, url: str, specs: Sequence[str], tips: Sequence[Oid], told: Told, seconds: float
) -> str:
    """Why what a fetch brought into the repository at ``place`` is not to be taken in; empty: it is."""
    objects = place / "objects"
    words = ("rev-list", "--ignore-missing", "--stdin", "--not", *told.refs, *(f"--glob={ref}" for ref in told.refs))
    done = git.with_env(GIT_OBJECT_DIRECTORY=objects).run(*words, stdin=_lines(tips), check=False)
    if not done.ok:
        return done.reason
    (objects / "info/alternates").unlink()
    strange = _missing(git, objects, [Oid(line) for line in done.lines])
    if not strange:
        return ""
    again = place / "again"
    make_empty(git, again)
    ask = (*_FETCH, f"--depth={len(done.lines)}", "--", for_filter(url))
    proofs = {"GIT_OBJECT_DIRECTORY": str(again / "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
    (sent,) = git.run_many([Job("", ask, _lines(specs), seconds, env=proofs, git_dir=again)])
    if sent.timed_out or is_unreached(sent.reason):
        return why_not(git, url, sent, seconds)
    lacking = _missing(git, again / "objects", strange)
    return f"{LACKS}: {_named(git, lacking[0])}" if lacking else ""


def _missing(git: Git, objects: Path, commits: Sequence[Oid]) -> list[Oid]:
    """Those that are not among these objects alone."""
    if not commits:
        return []
    alone = git.with_env(GIT_OBJECT_DIRECTORY=objects, GIT_ALTERNATE_OBJECT_DIRECTORIES="")
    rows = alone.run("cat-file", "--batch-check=%(objectname)", stdin=_lines(commits)).lines
    return [commit for commit, row in zip(commits, rows, strict=True) if row != commit]


def _named(git: Git, commit: Oid) -> str:
    """A commit, with a ref of this clone that has it."""
    words = ("for-each-ref", f"--contains={commit}", "--count=1", "--format=%(refname)")
    refs = git.run(*words, "refs/heads", "refs/stash", "refs/tags", check=False).lines
    return f"{commit[:8]}, which this clone has" + (f" ({one_line(refs[0], 100)})" if refs else "")


def _lines(words: Sequence[str]) -> bytes:
    return b"".join(f"{word}\n".encode("utf-8", "surrogateescape") for word in words)
