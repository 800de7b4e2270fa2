"""Temporary repositories: one to push from, and one to fetch into first.

``git push`` compares every refspec with every ref of both sides: 1,000 refspecs beside 1,000 pins and branches
took 4.3 s. From a repository that holds no refs but those to be pushed, one pattern does the same in 0.4 s.

A fetch keeps what it got before the last of git's checks: ``.gitmodules`` is looked at when all objects are written
(git 2.39, unpack-objects and index-pack alike). Objects that were refused must not enter the hub: the next fetch
would find them there, and ask nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cn.git.environment import quote_path
from cn.git.process import Done, Git
from cn.git.repository import read_config
from cn.values.names import Oid

PREFIX = "refs/push/"
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"


FOLDER = "outgoing"
"""Below ``.git/cn``. Not in the transaction's own: that goes while a push may still be at work."""


@contextmanager
def outgoing(git: Git, refs: Mapping[str, Oid], name: str = "branches") -> Iterator[Git]:
    """git on a repository with these ``refs`` (full names), gone afterwards; one of each ``name`` at a time.

    It lies inside the hub's: settings that the user made for a folder hold there too
    (git-config(1), "Conditional includes").
    """
    import shutil  # with its archives 2 ms, and whoever only lists remotes sends nothing

    common = common_dir(git)
    folder = common / "cn" / FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("refs", "objects"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_bytes(_config(git, common))
    (folder / "packed-refs").write_bytes(_packed(refs))
    objects = git.env.get("GIT_OBJECT_DIRECTORY", str(common / "objects"))
    try:
        yield git.with_env(GIT_OBJECT_DIRECTORY=objects).at(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another one is at work
            folder.parent.rmdir()


def common_dir(git: Git) -> Path:
    """The git directory that all work trees share."""
    if git.bare:
        return git.root
    if (git.root / ".git").is_dir():
        return git.root / ".git"
    return Path(os.path.realpath(git.root / git.run("rev-parse", "--git-common-dir").path))


def _config(git: Git, common: Path) -> bytes:
    sha256 = (git.config or read_config(git)).last("extensions.objectformat", "local") == "sha256"
    lines = [b"[include]\npath = " + quote_path(common / "config"), b"[core]\nbare = true"]
    lines += [b"repositoryformatversion = 1\n[extensions]\nobjectFormat = sha256"] if sha256 else []
    return b"\n".join(lines) + b"\n"


def _packed(refs: Mapping[str, Oid]) -> bytes:
    names = {ref.encode("utf-8", "surrogateescape"): oid.encode() for ref, oid in refs.items()}
    return _HEADER + b"".join(names[name] + b" " + name + b"\n" for name in sorted(names))


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
    (folder / "info/alternates").write_bytes(quote_path(_objects(git)) + b"\n")
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
