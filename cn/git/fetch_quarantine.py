"""Fetch into a folder of its own first, so that objects which git's checks refuse never enter the hub.

git keeps what it fetched before the last of its checks: ``.gitmodules`` is looked at when all objects are
written (git 2.39, unpack-objects and index-pack alike). The next fetch would find them here, and ask nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cn.git.process import Done, Git
from cn.git.push_scratch import common_dir

AS_PACK = {"fetch.unpackLimit": "1"}
"""Whatever comes is one pack, so that taking it in is moving a few files."""


@contextmanager
def quarantine(git: Git) -> Iterator[Path]:
    """A folder for fetches, removed at the end (or by the next run), with all that was not taken in."""
    import shutil  # with its archives 2 ms, and most runs fetch nothing

    mine = git.env.get("GIT_OBJECT_DIRECTORY")  # of a dry run, beside which another run may be at work
    folder = Path(mine) / "incoming" if mine else common_dir(git) / "cn" / "txn" / "fetch"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def quarantine_environment(git: Git, folder: Path) -> dict[str, str]:
    """The environment in which a fetch sees the hub's objects and writes into ``folder``."""
    (folder / "info").mkdir(parents=True)
    (folder / "info/alternates").write_bytes(bytes(_objects(git)) + b"\n")
    return {"GIT_OBJECT_DIRECTORY": str(folder)}


_UNCHECKED = "it is served as files, without git's own protocol (smart HTTP), and git checks no such objects"


def move_into_hub(git: Git, folder: Path, done: Done) -> str:
    """What a good fetch brought becomes the hub's; else nothing, and why not.

    The index of a pack comes last, as git does it.
    """
    import shutil

    if _unchecked(done, folder):
        return _UNCHECKED
    if not done.ok:
        return done.reason
    place = _objects(git) / "pack"
    place.mkdir(exist_ok=True)
    for file in sorted(folder.glob("pack/pack-*"), key=lambda file: file.suffix == ".idx"):
        shutil.move(file, place / file.name)
    return ""


def _unchecked(done: Done, folder: Path) -> bool:
    """Did a host that knows no git serve the files of a repository ("dumb" HTTP, gitprotocol-http(5))?

    git then writes objects one by one, or looks for a folder of packs that is not here, and its object
    checks see neither.
    """
    if not done.ok:
        return f"Unable to open local file {folder}" in done.err
    return any(one.name not in ("info", "pack") for one in folder.iterdir())


def _objects(git: Git) -> Path:
    mine = git.env.get("GIT_OBJECT_DIRECTORY")
    return Path(mine) if mine else common_dir(git).absolute() / "objects"
