"""The contents of versions: is each there that an event names, and is it what its name says?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from cn.agency.pages import folder_of
from cn.agency.rows import File, Version
from cn.agency.store.index import Index
from cn.agency.store.repository import MAIN, Repository
from cn.git.objects import read_in_halves, read_raw
from cn.values.names import Oid

_BATCH = 200
_BLOB = "blob "


def list_files(repository: Repository, at: Oid | None = None) -> dict[str, Oid]:
    """Each file of the tree, now or ``at`` a commit, with its blob."""
    git = repository.git._replace(reader=None)
    rows = (field.partition("\t") for field in git.run("ls-tree", "-r", "-z", at or MAIN).fields)
    return {path: Oid(meta.split(" ")[2]) for meta, _, path in rows}


def list_versions(index: Index) -> dict[str, tuple[File, Version]]:
    """Each version that events name, with its file, by its path; where two hold the same bytes, the last one."""
    return {
        f"{folder_of(file.id)}/{one.hash}": (file, one) for file in index.files() for one in index.versions(file.id)
    }


def is_named(path: str, data: bytes) -> bool:
    """Are these the bytes of the version that lies at a path, or has that name? A version is named by its SHA-256."""
    return hashlib.sha256(data).hexdigest() == path.rpartition("/")[2]


def other_contents(repository: Repository, versions: Mapping[str, Oid]) -> Iterator[str]:
    """The paths of versions whose blobs hold other bytes, or cannot be read. Reads each to its end."""
    git, paths = repository.git._replace(reader=None), list(versions)

    def read(some: Sequence[str]) -> list[str]:
        found = zip(some, read_raw(git, [versions[path] for path in some]), strict=True)
        return [path for path, one in found if one is not None and is_named(path, one.data)]

    for start in range(0, len(paths), _BATCH):
        batch = paths[start : start + _BATCH]
        whole = frozenset(read_in_halves(batch, read))
        yield from (path for path in batch if path not in whole)


def find_contents(repository: Repository) -> dict[str, Oid]:
    """Each blob that can be read, by the SHA-256 of its bytes: where a tree is lost, the contents below it are not.

    Reads every object.
    """
    git = repository.git._replace(reader=None)
    words = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)")
    blobs = [Oid(line[len(_BLOB) :]) for line in git.run(*words, check=False).lines if line.startswith(_BLOB)]

    def read(some: Sequence[Oid]) -> list[tuple[str, Oid]]:
        found = [one for one in read_raw(git, some) if one is not None]
        return [(hashlib.sha256(one.data).hexdigest(), one.oid) for one in found]

    batches = (blobs[start : start + _BATCH] for start in range(0, len(blobs), _BATCH))
    return {hash: oid for batch in batches for hash, oid in read_in_halves(batch, read)}


def find_wrong(repository: Repository, index: Index, at: Oid) -> str:
    """What is wrong with the first version at a commit of which that is so; empty: all are there and sound."""
    tree, versions = list_files(repository, at), list_versions(index)
    for path in versions:
        if path not in tree:
            return f"{path} is missing, a version that an event names"
    for path in other_contents(repository, {path: tree[path] for path in versions}):
        return f"{path} does not hold what its name says: a version is named by the SHA-256 of its content"
    return ""
