"""What is read of a peer's branch, on real git: everything it changes, and never more than the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.branch_content import Proposal
from cn.git.process import Git, GitError
from cn.git.read_branches import (
    History,
    Patience,
    read_attachments,
    read_commits,
    read_histories,
    read_messages,
    read_proposals,
)
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from tests.support.hubs import commit, git, raw_tree, tip, work, write_commit

LIMITS = Limits()


def read(repo: Path, head: str, base: str | None, limits: Limits = LIMITS) -> Proposal | None:
    """What a branch changes since ``base``; None: git cannot tell within the limits."""
    since = None if base is None else Oid(base)
    history = History(Oid(head), since, (), more=False)
    return dict(read_proposals(Git(repo), [history], limits, Patience())).get(Oid(head))


def shown(repo: Path, base: str | None, limits: Limits = LIMITS) -> Proposal:
    """The same for the tip of the repository, which git can read."""
    found = read(repo, tip(repo), base, limits)
    assert found is not None
    return found


def change(repo: Path, old: str, new: str) -> list[str]:
    """The hunks shown for a file that goes from ``old`` to ``new``."""
    base = commit(repo, {"f": old, "other": "x"}, "old")
    commit(repo, {"f": new}, "new")
    (text,) = shown(repo, base).texts
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
    texts = shown(repo, base).texts
    assert {t.path: (t.patch or "").splitlines() for t in texts} == {
        name: ["@@ -1 +1 @@", "-old", f"+new {name}"] for name in names
    }


def test_counts_are_those_of_git(repo: Path) -> None:
    base = commit(repo, {"f": "a\nb\n"}, "old")
    commit(repo, {"f": "a\nc\nd\n", "g": "x\n"}, "new")
    touched = shown(repo, base).touched
    assert {t.path: (t.added, t.removed) for t in touched} == {"f": ("2", "1"), "g": ("1", "0")}


def test_a_file_over_the_limit_is_named_and_never_read(repo: Path) -> None:
    commit(repo, {"big": b"\n" * (LIMITS.file_bytes + 1), "small": "x\n"}, "both")
    found = shown(repo, None)
    assert [t.path for t in found.texts] == ["small"]
    assert found.left_out == (("big", f"{LIMITS.file_bytes + 1} bytes, over the limit of a file"),)
    assert {t.path: t.added for t in found.touched} == {"big": "-", "small": "1"}


def tree_bomb(repo: Path, depth: int, width: int, message: str = "bomb") -> Oid:
    """A commit whose tree has ``width ** depth`` files in ``depth + 1`` objects."""
    blob = git(repo, "hash-object", "-w", "--stdin", stdin="x")
    tree = raw_tree(repo, [("100644", b"%02d" % i, blob) for i in range(width)])
    for _ in range(depth - 1):
        tree = raw_tree(repo, [("40000", b"%02d" % i, tree) for i in range(width)])
    return Oid(git(repo, "commit-tree", tree, "-m", message))


def test_a_tree_that_unfolds_to_millions_of_files_is_not_read_to_its_end(repo: Path) -> None:
    bomb = tree_bomb(repo, 7, 16)
    assert read(repo, bomb, None) is None
    assert read_attachments(Git(repo), [bomb]) == {bomb: ["(too many to list)"]}


def test_a_huge_commit_message_is_not_read(repo: Path) -> None:
    git(repo, "commit", "--allow-empty", "--quiet", "-F", "-", stdin="x\n" * (6 << 20))
    head = Oid(tip(repo))
    assert read_messages(Git(repo), read_commits(Git(repo), [head]), 1000) == {}
    elsewhere = Oid(git(repo, "commit-tree", f"{head}^{{tree}}", "-m", "elsewhere"))
    assert read_histories(Git(repo), elsewhere, [head], Patience()) == {}


def test_limits_of_a_thread_hold_together(repo: Path) -> None:
    commit(repo, {f"f{i}": "x" * 100 for i in range(20)}, "many")
    limits = LIMITS._replace(thread_bytes=1024, files_per_thread=5)
    found = shown(repo, None, limits)
    assert len(found.texts) == 5
    assert {reason for _, reason in found.left_out} == {"over the limits of a thread"}


def test_what_came_with_a_message_is_listed_by_path(repo: Path) -> None:
    files = ["message.md", "b", "a.d", "a/c/d", "a/b", "z z", "ä"]
    deep = "/".join("x" * 60)
    heads = [
        Oid(write_commit(repo, dict.fromkeys(files, b"x"))),
        Oid(write_commit(repo, {"message.md": b"x"})),
        Oid(write_commit(repo, {"message.md": b"x", deep: b"x"})),
    ]
    found = read_attachments(Git(repo), heads)
    assert found[heads[0]] == ["a.d", "a/b", "a/c/d", "b", "z z", "ä"]
    assert [found[head] for head in heads[1:]] == [[], ["(too many to list)"]]


def test_after_some_branches_that_cannot_be_read_the_others_of_their_peer_are_left(repo: Path) -> None:
    """Each may take git all the time it has; what it can read costs no patience."""
    bombs = [tree_bomb(repo, 7, 16, f"bomb {n}") for n in range(5)]
    good = commit(repo, {"f": "x"}, "good")
    peers = dict.fromkeys(map(str, bombs), "eve") | {good: "pi"}
    tried: list[str] = []

    class Counted(Patience):
        def blame(self, head: Oid, error: GitError) -> None:
            tried.append(head)
            super().blame(head, error)

    histories = [History(Oid(head), None, (), more=False) for head in (*bombs, good)]
    found = dict(read_proposals(Git(repo), histories, LIMITS, Counted(lambda head: peers[head])))
    assert set(found) == {good}
    assert len(tried) == 3
