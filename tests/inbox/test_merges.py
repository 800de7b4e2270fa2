"""A merge is what was read: what the branch changed since it left main. Where there is one, git makes the same.

Random histories with renames of files and folders, mode changes, files where others have
folders, branches upon branches, and merges both ways (criss-cross bases), on real git.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cn.git.repository import Hub, open_hub
from cn.inbox.merges import Merges
from cn.values.names import Oid, is_owned
from tests.support.hubs import clone, git, parents_of, tip, try_git, work

AT = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
PATHS = ["a", "a/x", "a/y", "a/sub/z", "b", "b/x", "lib/one", "lib/two", "lib/sub/three", "top", "new/x", "new/q"]
FOLDERS = ["a", "a/sub", "b", "lib", "lib/sub", "new", "moved"]
OWN = ["threads/inbox/t1.md", "threads/inbox/t2.md", "logs/inbox/day.md", "state/ledger/pi/open"]
Tree = dict[str, tuple[str, str]]
"""Path → mode and content."""


def text(word: str) -> str:
    """Ten lines, so that a changed line leaves them similar."""
    return "".join(f"line {number} of {word}\n" for number in range(10))


def put(tree: Tree, path: str, value: tuple[str, str]) -> None:
    """As in a work tree: a file and a folder of the same name exclude each other."""
    for other in list(tree):
        if other.startswith(path + "/") or path.startswith(other + "/"):
            del tree[other]
    tree[path] = value


@dataclass
class History:
    """Commits as data: parents, tree, and the stream that makes them."""

    trees: list[Tree] = field(default_factory=list)
    stream: list[str] = field(default_factory=list)

    def commit(self, parents: list[int], tree: Tree) -> int:
        number = len(self.trees) + 1
        self.trees.append(dict(tree))
        who = f"P <p@x.example> {1770000000 + number} +0000"
        lines = [f"commit refs/heads/c{number}\nmark :{number}\nauthor {who}\ncommitter {who}\ndata 1\nm\n"]
        words = ["from", *["merge"] * len(parents)]
        lines += [f"{word} :{parent}\n" for word, parent in zip(words, parents, strict=False)]
        lines.append("deleteall\n")
        for path, (mode, content) in tree.items():
            lines.append(f"M {mode} inline {path}\ndata {len(content.encode())}\n{content}\n")
        self.stream += [*lines, "\n"]
        return number

    def tree(self, number: int) -> Tree:
        return dict(self.trees[number - 1])


def change(draw: st.DrawFn, tree: Tree, paths: list[str], word: str) -> None:
    """One thing that people do to a tree."""
    there = sorted(p for p in tree if p in paths or p.split("/")[0] in FOLDERS)
    kind = draw(st.sampled_from(["add", "add", "add", "edit", "edit", "delete", "mode", "rename", "folder"]))
    if kind == "add" or not there:
        put(tree, draw(st.sampled_from(paths)), ("100644", text(word)))
        return
    path = draw(st.sampled_from(there))
    mode, content = tree[path]
    match kind:
        case "edit":
            tree[path] = mode, content.replace("line 5 ", f"line {word} ")
        case "delete":
            del tree[path]
        case "mode":
            tree[path] = ("100755" if mode == "100644" else "100644"), content
        case "rename":
            del tree[path]
            put(tree, draw(st.sampled_from(paths)), (mode, content))
        case _:
            old, new = draw(st.sampled_from(FOLDERS)), draw(st.sampled_from(FOLDERS))
            inside = [p for p in tree if p.startswith(old + "/")]
            if not (new + "/").startswith(old + "/") and not (old + "/").startswith(new + "/"):
                moved = [(p, tree.pop(p)) for p in inside]
                for p, value in moved:
                    put(tree, new + p.removeprefix(old), value)


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, int, list[int]]:
    """A history, its main, and the branches to merge in one run."""
    history = History()
    start = {p: ("100644", text(p)) for p in ("a/x", "a/y", "a/sub/z", "lib/one", "lib/two", "top", *OWN)}
    mains = [history.commit([], start)]
    branches: list[int] = []
    for turn in range(draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(["branch", "branch", "branch", "branch", "main", "own", "upon", "cross"]))
        if kind in ("main", "own"):
            tree = history.tree(mains[-1])
            if kind == "own":  # what cn itself does to main between two runs
                moved = tree.pop("threads/inbox/t1.md", None)
                tree["threads/inbox/done/t1.md"] = moved or ("100644", text(f"done{turn}"))
                tree["logs/inbox/day.md"] = "100644", text(f"log{turn}")
            else:
                change(draw, tree, PATHS, f"main{turn}")
            mains.append(history.commit([mains[-1]], tree))
            continue
        if kind == "cross" and branches and draw(st.booleans()):
            # main takes a branch as it was, and the branch takes main as it was: two merge bases
            other, old = branches[-1], mains[-1]
            mains.append(history.commit([old, other], {**history.tree(other), **history.tree(old)}))
            branches.append(history.commit([other, old], {**history.tree(old), **history.tree(other)}))
            continue
        base = draw(st.sampled_from(branches if kind == "upon" and branches else mains))
        tree = history.tree(base)
        for step in range(draw(st.integers(1, 3))):
            change(draw, tree, PATHS, f"b{turn}.{step}")
        branches.append(history.commit([base], tree))
    heads = draw(st.permutations(branches)) if branches else []
    return history, mains[-1], heads


def make_hub(folder: Path, history: History) -> Hub:
    root = work(folder / "hub", "sigma")
    (root / ".cn").mkdir()
    (root / ".cn/hub.yaml").write_text("name: sigma\n")
    git(root, "fast-import", "--quiet", "--force", stdin="".join(history.stream))
    return open_hub(root)


def reference(folder: Path, hub: Hub, tip_: str, head: str) -> str | None:
    """The tree of git's own merge of contents in a work tree; None where it conflicts."""
    there = folder / "reference"
    if not there.exists():
        clone(hub.root, there, "sigma")
    git(there, "fetch", "-q", str(hub.root), tip_, head)
    git(there, "checkout", "-q", "--force", "--detach", tip_)
    git(there, "clean", "-qfdx")
    # Before git 2.50 only "recursive" leaves renames alone.
    done = try_git(there, "merge", "-s", "recursive", "-X", "no-renames", "-q", "--no-ff", "-m", "m", head)
    if done.returncode:
        git(there, "reset", "-q", "--hard")  # "merge --abort" stumbles over a file that became a folder
        return None
    assert parents_of(there) == [tip_, head]
    git(hub.root, "fetch", "-q", str(there), "HEAD")
    return git(there, "rev-parse", "HEAD^{tree}")


def changes(hub: Hub, old: str, new: str) -> list[str]:
    """Paths, modes and contents that differ."""
    return git(hub.root, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, new).split("\0")


def check_run(folder: Path, history: History, main: int, heads: list[int]) -> Iterator[str]:
    """Merge what the rules let through, then compare with git; yields what became of each."""
    hub = make_hub(folder, history)
    git(hub.root, "config", "uploadpack.allowAnySHA1InWant", "true")
    base = Oid(tip(hub.root, f"c{main}"))
    git(hub.root, "checkout", "-q", "-B", "main", base)
    ids = [Oid(tip(hub.root, f"c{number}")) for number in heads]
    at, asked = base, []
    shown = {head: git(hub.root, "merge-base", base, head) for head in ids}  # one of them, as a thread does
    with Merges(hub, base, base, AT, {}, None, always=False) as merges:
        merges.read([(head, shown[head]) for head in ids])
        for head in ids:
            facts = merges.try_merge(at, (head, shown[head]), "Merge")
            if facts.merged_already or not facts.common:
                continue
            asked.append((at, head, facts))
            if facts.commit is not None:
                merges.accept((head, shown[head]))
                at = facts.commit
    git(hub.root, "update-ref", "refs/heads/result", at)
    for before, head, facts in asked:
        bases = git(hub.root, "merge-base", "--all", before, head).split()
        if bases == [head]:  # it came with one that was merged in the same run, and is told so in the next
            assert facts.commit is None
            yield "came with another"
            continue
        read = changes(hub, shown[Oid(head)], head)
        wanted = reference(folder, hub, before, head)
        if facts.commit is None:
            assert facts.stale or facts.conflicts or any(is_owned(c.path) for c in facts.changes)
            own = any(is_owned(c.path) for c in facts.changes)
            assert own or bases != [shown[Oid(head)]] or wanted is None or changes(hub, before, wanted) != read, (
                before,
                head,
            )
            yield "refused"
            continue
        yield "merged"
        laid = changes(hub, before, facts.commit)
        there = laid == [""]  # main has all that it changes, as git too finds below
        assert laid == read or there, (before, head)
        if bases == [shown[Oid(head)]]:
            assert git(hub.root, "rev-parse", f"{facts.commit}^{{tree}}") == wanted, (before, head)
        assert parents_of(hub.root, facts.commit) == [before, head]
        raw = changes(hub, before, facts.commit)
        changed = {(path, meta.split()[1]) for meta, path in zip(raw[::2], raw[1::2], strict=False)}
        assert {(c.path, c.mode) for c in facts.changes} == changed


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_a_run_of_merges_gives_what_git_gives(drawn: tuple[History, int, list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for what in check_run(Path(folder), *drawn):
            event(what)


@pytest.mark.full
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories())
def test_a_great_many_runs_of_merges_give_what_git_gives(drawn: tuple[History, int, list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for _ in check_run(Path(folder), *drawn):
            pass


def lines(
    *branches: dict[str, str | None], start: tuple[str, ...] = ("lib/one", "lib/two", "top")
) -> tuple[History, int, list[int]]:
    """A history of branches off one main: path → content, None removes."""
    history = History()
    tree = {p: ("100644", text(p)) for p in start}
    main = history.commit([], tree)
    heads = []
    for files in branches:
        mine = dict(tree)
        for path, content in files.items():
            if content is None:
                del mine[path]
            else:
                put(mine, path, ("100644", content))
        heads.append(history.commit([main], mine))
    return history, main, heads


RENAMED: dict[str, str | None] = {
    "lib/one": None,
    "lib/two": None,
    "moved/one": text("lib/one"),
    "moved/two": text("lib/two"),
}


def test_a_file_is_where_it_was_read_though_its_folder_was_renamed(tmp_path: Path) -> None:
    history, main, heads = lines(RENAMED, {"lib/three": "3\n"})
    assert list(check_run(tmp_path, history, main, heads)) == ["merged", "merged"]


def test_a_file_that_was_renamed_is_not_edited_at_its_new_place(tmp_path: Path) -> None:
    history, main, heads = lines(RENAMED, {"lib/one": text("lib/one") + "more\n"})
    assert list(check_run(tmp_path, history, main, heads)) == ["merged", "refused"]


def test_two_branches_that_touch_one_file_are_not_merged_both(tmp_path: Path) -> None:
    history, main, heads = lines({"top": "a\n" + text("top")}, {"top": text("top") + "b\n"}, {"lib/one": "1\n"})
    assert list(check_run(tmp_path, history, main, heads)) == ["merged", "refused", "merged"]


def test_a_file_is_not_laid_over_a_folder_nor_a_folder_over_a_file(tmp_path: Path) -> None:
    history, main, heads = lines({"docs": "a file\n"}, {"docs/x": "x\n"}, {"lib/three": "3\n"})
    assert list(check_run(tmp_path, history, main, heads)) == ["merged", "refused", "merged"]
    history, main, heads = lines({"docs/x": "x\n"}, {"docs": "a file\n"})
    assert list(check_run(tmp_path / "other", history, main, heads)) == ["merged", "refused"]


def test_a_folder_gives_way_to_a_file_where_it_is_emptied(tmp_path: Path) -> None:
    history, main, heads = lines({"lib/one": None, "lib/two": None, "lib": "a file\n"}, {"lib/three": "3\n"})
    assert list(check_run(tmp_path, history, main, heads)) == ["merged", "refused"]
    history, main, heads = lines({"lib/three": "3\n"}, {"lib/one": None, "lib/two": None, "lib": "a file\n"})
    assert list(check_run(tmp_path / "other", history, main, heads)) == ["merged", "refused"]


def test_a_branch_that_takes_back_what_another_brought(tmp_path: Path) -> None:
    history, main, (first,) = lines({"docs/x": "x\n"})
    tree = {**history.tree(first), "docs/y": ("100644", "y\n")}
    del tree["docs/x"]
    second = history.commit([first], tree)
    assert list(check_run(tmp_path, history, main, [first, second])) == ["merged", "refused"]
