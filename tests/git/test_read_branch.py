"""What is read of a peer's branch, on real git: everything it changes, and never more than the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.branch_content import Proposal
from cn.git.process import Git, GitError
from cn.git.read_branch import read_attachments, read_commits, read_messages, read_proposal
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from tests.support.hubs import commit, git, raw_tree, tip, work

LIMITS = Limits()


def change(repo: Path, old: str, new: str) -> list[str]:
    """The hunks shown for a file that goes from ``old`` to ``new``."""
    base = commit(repo, {"f": old, "other": "x"}, "old")
    commit(repo, {"f": new}, "new")
    (text,) = read_proposal(Git(repo), Oid(tip(repo)), Oid(base), LIMITS).texts
    assert not text.added
    assert text.patch is not None
    return text.patch.splitlines()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return work(tmp_path / "repo", "pi")


def test_a_changed_file_is_shown_as_a_difference(repo: Path) -> None:
    assert change(repo, "one\ntwo\nthree\n", "one\n2\nthree\n") == [
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "+2",
        " three",
    ]


@pytest.mark.parametrize("line", ["-- drop table", "++ b/x", "diff --git a/f b/f", "@@ -1 +1 @@", "+", ""])
def test_no_changed_line_is_taken_for_the_head_of_the_difference(repo: Path, line: str) -> None:
    assert f"+{line}" in change(repo, "a\n", f"a\n{line}\n")
    assert f"-{line}" in change(repo, f"a\n{line}\n", "a\n")


def test_every_changed_file_has_its_own_hunks(repo: Path) -> None:
    names = ["a/b", "a.b", "a-b", "ä", "z z", "a/c/d"]
    base = commit(repo, dict.fromkeys(names, "old\n"), "old")
    commit(repo, {name: f"new {name}\n" for name in names}, "new")
    texts = read_proposal(Git(repo), Oid(tip(repo)), Oid(base), LIMITS).texts
    shown = {t.path: (t.patch or "").splitlines() for t in texts}
    assert shown == {name: ["@@ -1 +1 @@", "-old", f"+new {name}"] for name in names}


def test_counts_are_those_of_git(repo: Path) -> None:
    base = commit(repo, {"f": "a\nb\n"}, "old")
    commit(repo, {"f": "a\nc\nd\n", "g": "x\n"}, "new")
    touched = read_proposal(Git(repo), Oid(tip(repo)), Oid(base), LIMITS).touched
    assert {t.path: (t.added, t.removed) for t in touched} == {"f": ("2", "1"), "g": ("1", "0")}


def test_a_file_over_the_limit_is_named_and_never_read(repo: Path) -> None:
    commit(repo, {"big": b"\n" * (LIMITS.file_bytes + 1), "small": "x\n"}, "both")
    found = read_proposal(Git(repo), Oid(tip(repo)), None, LIMITS)
    assert [t.path for t in found.texts] == ["small"]
    assert found.left_out == (("big", f"{LIMITS.file_bytes + 1} bytes, over the limit of a file"),)
    assert {t.path: t.added for t in found.touched} == {"big": "-", "small": "1"}


def tree_bomb(repo: Path, depth: int, width: int) -> Oid:
    """A commit whose tree has ``width ** depth`` files in ``depth + 1`` objects."""
    blob = git(repo, "hash-object", "-w", "--stdin", stdin="x")
    tree = raw_tree(repo, [("100644", b"%02d" % i, blob) for i in range(width)])
    for _ in range(depth - 1):
        tree = raw_tree(repo, [("40000", b"%02d" % i, tree) for i in range(width)])
    return Oid(git(repo, "commit-tree", tree, "-m", "bomb"))


def test_a_tree_that_unfolds_to_millions_of_files_is_not_read_to_its_end(repo: Path) -> None:
    bomb = tree_bomb(repo, 7, 16)
    with pytest.raises(GitError, match=r"out of memory|time limit"):
        read_proposal(Git(repo), bomb, None, LIMITS)
    assert read_attachments(Git(repo), bomb) == ["(too many to list)"]


def test_a_huge_commit_message_is_not_read(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "--quiet", "-F", "-", stdin="x\n" * (6 << 20))
    head = Oid(tip(repo))
    assert read_messages(Git(repo), read_commits(Git(repo), [head]), 1000) == {}
    with pytest.raises(GitError, match="more than cn reads"):
        read_proposal(Git(repo), head, None, LIMITS)


def test_limits_of_a_thread_hold_together(repo: Path) -> None:
    commit(repo, {f"f{i}": "x" * 100 for i in range(20)}, "many")
    limits = LIMITS._replace(thread_bytes=1024, files_per_thread=5)
    found: Proposal = read_proposal(Git(repo), Oid(tip(repo)), None, limits)
    assert len(found.texts) == 5
    assert {reason for _, reason in found.left_out} == {"over the limits of a thread"}
