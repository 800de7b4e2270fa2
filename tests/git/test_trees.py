"""Changing files of a tree comes to the tree that git makes of the same files."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.git.loose_objects import write_loose
from cn.git.objects import TreeEntry, parse_tree
from cn.git.trees import change_tree, format_tree
from cn.protocol.message import object_id
from cn.values.names import Oid
from tests.support.hubs import bare, git

_PARTS = st.sampled_from(["a", "a.b", "a-", "a0", "ab", "b", "é"])
_PATHS = st.lists(_PARTS, min_size=1, max_size=3).map("/".join)


def _make(trees: dict[Oid, bytes], root: Oid | None, files: dict[str, Oid | None]) -> Oid | None:
    def read(oid: Oid) -> Iterable[TreeEntry]:
        return parse_tree(trees[oid], 20)

    changed = change_tree(read, root, files)
    trees.update((object_id("tree", one), one) for one in changed.trees)
    return changed.oid


@given(st.lists(st.tuples(_PATHS, st.sampled_from([b"1", b"2", None])), max_size=12))
def test_changes_one_by_one_or_at_once_come_to_the_same_tree(changes: list[tuple[str, bytes | None]]) -> None:
    trees: dict[Oid, bytes] = {}
    root: Oid | None = None
    model: dict[str, Oid] = {}
    for path, data in changes:
        blob = object_id("blob", data) if data is not None else None
        root = _make(trees, root, {path: blob})
        if blob is not None:
            gone = [p for p in model if p.startswith(f"{path}/") or path.startswith(f"{p}/")]
            model = {p: oid for p, oid in model.items() if p not in gone} | {path: blob}
        else:
            gone = [p for p in model if p == path or p.startswith(f"{path}/")]
            model = {p: oid for p, oid in model.items() if p not in gone}
    assert root == _make(trees, None, dict(model))
    for data in trees.values():
        assert format_tree(parse_tree(data, 20)) == data


@given(st.lists(_PATHS, min_size=1, max_size=8, unique=True))
@settings(max_examples=10)
def test_git_makes_the_same_tree(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> None:
    files = {p: b"x" for p in paths if not any(other.startswith(f"{p}/") for other in paths)}
    repo = bare(tmp_path_factory.mktemp("trees") / "r.git")
    (blob,) = write_loose(repo / "objects", [("blob", b"x")])
    trees: dict[Oid, bytes] = {}
    root = _make(trees, None, dict.fromkeys(files, blob))
    rows = "".join(f"100644 {blob}\t{path}\n" for path in files)
    index = {"GIT_INDEX_FILE": str(repo / "index")}
    git(repo, "update-index", "--add", "--index-info", stdin=rows, **index)
    assert root == git(repo, "write-tree", **index)


def test_only_the_changed_path_is_written_anew() -> None:
    trees: dict[Oid, bytes] = {}
    x, y = object_id("blob", b"x"), object_id("blob", b"y")
    root = _make(trees, None, {f"kb/{n}/{m}/file": x for n in range(9) for m in range(9)})
    count = len(trees)
    _make(trees, root, {"kb/3/3/file": y})
    assert len(trees) == count + 4
