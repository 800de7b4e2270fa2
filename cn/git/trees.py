"""Change files in a tree, writing anew only the trees on their paths (gitdatamodel: a tree names blobs and trees)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cn.git.objects import TreeEntry
from cn.protocol.message import object_id
from cn.values.names import Oid

ReadTree = Callable[[Oid], Iterable[TreeEntry]]
"""The entries of a tree that is there."""
_FILE, _FOLDER = "100644", "040000"


class Changed(NamedTuple):
    """A tree after a change: its id (None: nothing is left in it), and the bytes of the trees that are new."""

    oid: Oid | None
    trees: tuple[bytes, ...]


def change_tree(read: ReadTree, root: Oid | None, files: Mapping[str, Oid | None]) -> Changed:
    """The tree ``root`` (None: the empty one) with these files set to blobs, or taken away (None).

    Of each folder on a changed path one tree is read. A file in the place of a folder gives way, and the other
    way round; a folder with nothing left in it goes.
    """
    entries = {entry.path: entry for entry in read(root)} if root is not None else {}
    below: dict[str, dict[str, Oid | None]] = {}
    new: list[bytes] = []
    for path, blob in files.items():
        name, _, rest = path.partition("/")
        if rest:
            below.setdefault(name, {})[rest] = blob
        elif blob is None:
            entries.pop(name, None)
        else:
            entries[name] = TreeEntry(_FILE, "blob", blob, name)
    for name, inside in below.items():
        old = entries.get(name)
        if old is not None and old.kind != "tree" and not any(inside.values()):
            continue  # nothing is to be taken away below a file
        entries.pop(name, None)
        changed = change_tree(read, old.oid if old is not None and old.kind == "tree" else None, inside)
        new += changed.trees
        if changed.oid is not None:
            entries[name] = TreeEntry(_FOLDER, "tree", changed.oid, name)
    data = format_tree(entries.values())
    oid = object_id("tree", data)
    return Changed(oid if entries else None, (*new, data) if entries and oid != root else tuple(new))


def format_tree(entries: Iterable[TreeEntry]) -> bytes:
    """The bytes of a tree: the inverse of :func:`cn.git.objects.parse_tree`."""
    ordered = sorted((_sort_key(entry), entry) for entry in entries)
    parts = (
        b"%s %s\0%s" % (entry.mode.lstrip("0").encode(), _name(entry), bytes.fromhex(entry.oid)) for _, entry in ordered
    )
    return b"".join(parts)


def _sort_key(entry: TreeEntry) -> bytes:
    """git sorts a folder as if its name ended with ``/``."""
    return _name(entry) + (b"/" if entry.kind == "tree" else b"")


def _name(entry: TreeEntry) -> bytes:
    return entry.path.encode("utf-8", "surrogateescape")
