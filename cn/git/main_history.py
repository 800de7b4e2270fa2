"""Does the main of a remote still hold what it held? Its commits are read, into a repository that goes afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.process import Git, Job
from cn.git.remote import (
    HEADS,
    NOT_THERE,
    WIDTH,
    KnownMain,
    ask_heads,
    borrowing_nothing,
    for_filter,
    make_outgoing,
    seeing_hub,
    why_not,
)
from cn.system.removal import remove_tree
from cn.values.names import Oid, is_oid

_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--refmap="),
    "--filter=tree:0",  # a host that knows no filters sends all of them
)
_FIRST, _WHOLE = "--depth=1000", "--unshallow"
"""A main that went on is told by its latest commits; all of them are read where these do not tell."""
_MOST_ROOTS = 20
_MOST_COMMIT = 8192


class Strange(NamedTuple):
    """A main that has nothing in common with what was known, by its tip; None: there is none."""

    tip: Oid | None


Answer = KnownMain | Strange | str
"""The main as it is now, that it is another one, or why nobody knows."""


def look_at_mains(git: Git, known: Mapping[str, KnownMain], seconds: float) -> dict[str, Answer]:
    """What became of the mains that were known at these URLs: each is fetched once, rarely twice.

    Where there is no such branch any more, the one that HEAD names is that main if it holds the commit that was known:
    it was given another name.
    """
    found = _look(git, known, seconds, whole=False)
    gone = [url for url, answer in found.items() if answer == Strange(None)]
    heads = ask_heads(git, gone, seconds)
    found |= {url: head for url, head in heads.items() if isinstance(head, str)}
    renamed = {url: known[url]._replace(branch=head[0]) for url, head in heads.items() if isinstance(head, tuple)}
    there = _look(git, renamed, seconds, whole=True)
    return found | {url: answer for url, answer in there.items() if not isinstance(answer, Strange)}


def _look(git: Git, known: Mapping[str, KnownMain], seconds: float, *, whole: bool) -> dict[str, Answer]:
    """As :func:`look_at_mains`, of the branches of these names; ``whole``: each has to hold all that was known."""
    found: dict[str, Answer] = {}
    places = {url: make_outgoing(git, f"look-{number}") for number, url in enumerate(known)}
    plain = {url: (place / "config").read_bytes() for url, place in places.items()}
    try:
        left = list(known)
        for depth in (_FIRST, _WHOLE):
            jobs = [_fetch(git, places[url], url, known[url].branch, depth, seconds) for url in left]
            for job, done in zip(jobs, git.run_many(jobs, width=WIDTH), strict=True):
                (places[job.key] / "config").write_bytes(plain[job.key])  # that it lacks trees is not to be mended
                if done.ok:
                    seeing = git.with_env(**seeing_hub(git, places[job.key]))
                    answer = _read(seeing, places[job.key], known[job.key], whole=whole)
                else:
                    answer = Strange(None) if NOT_THERE in done.err else why_not(git, job.key, done, seconds)
                if answer is not None:
                    found[job.key] = answer
            left = [url for url in left if url not in found]
    finally:
        for place in places.values():
            remove_tree(place)
            with suppress(OSError):  # another one is at work
                place.parent.rmdir()
    return {url: found.get(url, Strange(None)) for url in known}


def _fetch(git: Git, place: Path, url: str, branch: str, depth: str, seconds: float) -> Job:
    words = (*_FETCH, depth, "--", for_filter(url), HEADS + branch)
    return Job(url, words, seconds=seconds, env=borrowing_nothing(place), git_dir=place)


def _read(git: Git, place: Path, known: KnownMain, *, whole: bool) -> Answer | None:
    """What one fetch told; None: too few commits were fetched."""
    word = (place / "FETCH_HEAD").read_text("utf-8", "replace").partition("\t")[0]
    if not is_oid(word):
        return "it sent no commit"
    tip, reader = Oid(word), git.at(place)
    shallow = (place / "shallow").is_file()
    roots = () if shallow else tuple(_lines(reader, "rev-list", "--max-parents=0", tip, "--")[-_MOST_ROOTS:])
    words = ("merge-base", "--is-ancestor") if whole else ("merge-base",)
    if reader.run(*words, known.tip, tip, check=False).ok or (not whole and set(roots) & set(known.roots)):
        commit = reader.run("cat-file", "commit", tip, check=False).out
        return KnownMain(known.branch, tip, commit if len(commit) <= _MOST_COMMIT else b"", roots or known.roots)
    return None if shallow else Strange(tip)


def _lines(git: Git, *words: str) -> list[str]:
    done = git.run(*words, check=False)
    return done.lines if done.ok else []
