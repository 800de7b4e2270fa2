"""Read one small file of remote branches: their latest commits are fetched, into repositories that go afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cn.git.process import Git, Job
from cn.git.remote import HEADS, NOT_THERE, WIDTH, borrowing_nothing, for_filter, make_outgoing, why_not
from cn.system.removal import remove_tree
from cn.values.names import is_oid

_MOST = 1 << 16
_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--refmap=", "--depth=1"),
    f"--filter=blob:limit={_MOST + 1}",  # a host that knows no filters sends larger files, too
)


def read_far(git: Git, branches: Mapping[str, tuple[str, str]], path: str, seconds: float) -> dict[str, bytes | str]:
    """The file at ``path`` in each of these branches (URL and name) by key: its bytes, none where it has none or the
    branch has gone; or, as text, why nothing could be taken from there.
    """
    places = {key: make_outgoing(git, f"file-{os.getpid()}-{number}") for number, key in enumerate(branches)}
    plain = {key: (place / "config").read_bytes() for key, place in places.items()}
    found: dict[str, bytes | str] = {}
    try:
        jobs = [
            Job(
                key,
                (*_FETCH, "--", for_filter(url), HEADS + branch),
                seconds=seconds,
                env=borrowing_nothing(places[key]),
                git_dir=places[key],
            )
            for key, (url, branch) in branches.items()
        ]
        for job, done in zip(jobs, git.run_many(jobs, width=WIDTH), strict=True):
            (places[job.key] / "config").write_bytes(plain[job.key])  # that it lacks files is not to be mended
            if done.ok:
                found[job.key] = _read(git.with_env(**job.env).at(places[job.key]), places[job.key], path)
            else:
                found[job.key] = b"" if NOT_THERE in done.err else why_not(git, branches[job.key][0], done, seconds)
    finally:
        for place in places.values():
            remove_tree(place)
            with suppress(OSError):  # another one is at work
                place.parent.rmdir()
    return found


def _read(git: Git, place: Path, path: str) -> bytes:
    word = (place / "FETCH_HEAD").read_text("utf-8", "replace").partition("\t")[0]
    if not is_oid(word):
        return b""
    size = git.run("cat-file", "-s", f"{word}:{path}", check=False)
    if not size.ok or int(size.text) > _MOST:
        return b""
    return git.run("cat-file", "blob", f"{word}:{path}", check=False).out
