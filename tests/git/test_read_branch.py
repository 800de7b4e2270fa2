"""What is read of a peer's branch, on real git: everything it changes, and never more than the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git import read_branches
from cn.git.objects import contained, reading
from cn.git.process import Done, Git, GitError
from cn.git.read_branches import (
    FileText,
    History,
    Patience,
    Proposal,
    format_proposal,
    read_attachments,
    read_commits,
    read_histories,
    read_messages,
    read_proposals,
)
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from tests.support.hubs import Content, commit, git, raw_tree, tip, work, write_commit

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
    assert text.word == "changed"
    assert text.patch is not None
    return text.patch.splitlines()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return work(tmp_path / "repo", "pi")


def test_a_changed_file_is_shown_as_a_difference(repo: Path) -> None:
    assert change(repo, "one\ntwo\nthree\n", "one\n2\nthree\n") == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]


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
    size = 16 * LIMITS.file_bytes + 1
    commit(repo, {"big": b"\n" * size, "small": "x\n"}, "both")
    found = shown(repo, None)
    assert [t.path for t in found.texts] == ["small"]
    assert found.left_out == (("big", f"{size} bytes, far over the limit of a file"),)
    assert {t.path: t.added for t in found.touched} == {"big": "", "small": "1"}


def test_what_goes_is_shown_line_by_line(repo: Path) -> None:
    (repo / "link").symlink_to("f")
    git(repo, "add", "link")
    base = commit(repo, {"f": "one\ntwo"}, "old")
    git(repo, "rm", "-q", "f", "link")
    git(repo, "commit", "-q", "-m", "gone")
    found = shown(repo, base)
    assert [(t.path, t.word, t.patch) for t in found.texts] == [("f", "deleted", "@@ -1,2 +0,0 @@\n-one\n-two")]
    assert [(t.path, t.added, t.removed, t.old_target) for t in found.touched] == [
        ("f", "0", "2", ""),
        ("link", "", "", "f"),
    ]


def test_a_commit_of_before_1970_is_shown_as_all_others(repo: Path) -> None:
    """git-log(1) ends with a fatal error where it is to show such a date."""
    base = commit(repo, {"a.md": "1"}, "old")
    commit(repo, {"a.md": "2"}, "new")
    git(repo, "commit", "--quiet", "--amend", "--no-edit", "--date=@0 -1200")
    (history,) = read_histories(Git(repo), Oid(base), [Oid(tip(repo))], Patience()).values()
    assert [one.date for one in history.commits] == ["1969-12-31T12:00:00-12:00"]


def test_a_file_that_was_renamed_is_one_file(repo: Path) -> None:
    lines = [f"line {n}\n" for n in range(20)]
    base = commit(repo, {"a/old.md": "".join(lines), "same.md": "".join(lines[5:])}, "old")
    git(repo, "mv", "a/old.md", "new.md")
    git(repo, "mv", "same.md", "b.md")
    commit(repo, {"new.md": "".join([*lines[:-1], "the last\n"])}, "moved")
    found = shown(repo, base)
    assert [(t.status, t.source, t.path, t.added, t.removed) for t in found.touched] == [
        ("R", "same.md", "b.md", "", ""),
        ("R", "a/old.md", "new.md", "1", "1"),
    ]
    (text,) = found.texts
    assert (text.path, text.word) == ("new.md", "renamed")
    assert (text.patch or "").split("\n")[-2:] == ["-line 19", "+the last"]


def test_what_is_binary_is_what_git_takes_for_it(repo: Path) -> None:
    commit(repo, {"binary": b"a\0b\n", "text": b"x" * 8000 + b"\0\n"}, "both")
    found = shown(repo, None)
    assert [t.path for t in found.texts] == ["text"]
    assert {t.path: t.added for t in found.touched} == {"binary": "-", "text": "1"}


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
    assert [found[head] for head in heads[1:]] == [[], [deep]]


def message_of(repo: Path, *folders: tuple[bytes, str]) -> Oid:
    """A commit of some folders, each a name and a tree."""
    tree = raw_tree(repo, [("40000", name, tree) for name, tree in folders])
    return Oid(git(repo, "commit-tree", tree, "-m", "say"))


def blob(repo: Path) -> str:
    return git(repo, "hash-object", "-w", "--stdin", stdin="x")


def heavy(repo: Path, size: int, mark: bytes = b"a") -> str:
    """A tree of one entry, of so many bytes."""
    return raw_tree(repo, [("100644", mark * size, blob(repo))])


def test_folders_that_are_too_large_together_are_not_read(repo: Path) -> None:
    large = [(b"d%d" % n, heavy(repo, 400_000, b"%d" % n)) for n in range(3)]
    head, fine = message_of(repo, *large), message_of(repo, *large[:2])
    told = read_attachments(Git(repo), [head, fine])
    assert told == {head: ["(too many to list)"], fine: ["d0/" + "0" * 400_000, "d1/" + "1" * 400_000]}


def test_a_message_of_very_many_folders_is_not_followed(repo: Path) -> None:
    chain = raw_tree(repo, [])
    for _ in range(4):
        chain = raw_tree(repo, [("40000", b"x", chain)])
    head = message_of(repo, *((b"d%04d" % n, chain) for n in range(900)))
    assert read_attachments(Git(repo), [head]) == {head: ["(too many to list)"]}


def test_a_long_name_above_many_files_is_not_told_with_each(repo: Path) -> None:
    names = raw_tree(repo, [("100644", b"%03d" % n, blob(repo)) for n in range(500)])
    head = message_of(repo, (b"d" * 100_000, names))
    assert read_attachments(Git(repo), [head]) == {head: ["(too many to list)"]}


def test_folders_nested_deep_are_not_followed(repo: Path) -> None:
    chain = raw_tree(repo, [("100644", b"x", blob(repo))])
    for _ in range(120):
        chain = raw_tree(repo, [("40000", b"d" * 200, chain)])
    head = message_of(repo, (b"d", chain))
    assert read_attachments(Git(repo), [head]) == {head: ["(too many to list)"]}


def test_a_date_of_thousands_of_digits_spoils_nothing(repo: Path) -> None:
    data = git(repo, "cat-file", "commit", commit(repo, {"f": "x"}, "one"))
    heads = []
    for at in ("9" * 15, "9" * 5000):
        odd = data.replace(data.split("committer ")[1].split("> ")[1].split(" ")[0], at)
        made = git(repo, "hash-object", "-t", "commit", "--literally", "-w", "--stdin", stdin=odd)
        heads.append(Oid(made))
    main = Oid(git(repo, "commit-tree", f"{heads[0]}^{{tree}}", "-m", "main"))
    assert set(read_histories(Git(repo), main, heads, Patience())) == set(heads)


def test_a_commit_that_git_has_no_time_to_look_for_is_not_in_there(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it ends each sync, as long as the message is there that names it."""
    held = [Oid(commit(repo, {"f": str(n)}, "say")) for n in range(8)]
    slow, alone = {held[2]}, list[list[str]]()
    run = Git.run

    def hurried(self: Git, *args: str, stdin: bytes = b"", max_out: int | None = None) -> Done:
        asked = stdin.decode().split()[1:]
        alone.extend([asked] if len(asked) == 1 else [])
        if args[0] == "rev-list" and slow & set(asked):
            raise GitError(Done(args, -9, b"", "", timed_out=True))
        return run(self, *args, stdin=stdin, max_out=max_out)

    with reading(Git(repo)) as one:
        monkeypatch.setattr(Git, "run", hurried)
        assert contained(one, held[-1], held) == set(held) - slow
        slow.update(held)
        alone.clear()
        assert contained(one, held[-1], held) == set()
    assert len(alone) == 3


def test_what_two_peers_show_is_tried_as_long_as_one_has_patience_left(repo: Path) -> None:
    """Else one could hide what another says: it shows that too, and some that cannot be read."""
    bombs = [tree_bomb(repo, 7, 16, f"bomb {n}") for n in range(4)]
    good, own = (Oid(git(repo, "commit-tree", f"{bombs[0]}^{{tree}}", "-m", m)) for m in ("a", "b"))
    peers = {head: {"eve"} for head in bombs} | {good: {"pi", "eve"}, own: {"eve"}}
    patience = Patience(lambda head: peers[head])
    error = GitError(Done(("diff-tree",), 1, b"", "", too_much=True))
    for head in bombs[:3]:
        patience.blame(head, error)
    assert patience.leaves(own)
    assert patience.leaves(bombs[3])
    assert not patience.leaves(good)
    for _ in range(3):
        patience.blame(good, error)
    assert patience.leaves(good)


@pytest.mark.full
def test_after_some_branches_that_cannot_be_read_the_others_of_their_peer_are_left(repo: Path) -> None:
    """Each may take git all the time it has; what it can read costs no patience."""
    bombs = [tree_bomb(repo, 7, 16, f"bomb {n}") for n in range(5)]
    good = commit(repo, {"f": "x"}, "good")
    peers = {str(head): ["eve"] for head in bombs} | {good: ["pi"]}
    tried: list[str] = []

    class Counted(Patience):
        def blame(self, head: Oid, error: GitError) -> None:
            tried.append(head)
            super().blame(head, error)

    histories = [History(Oid(head), None, (), more=False) for head in (*bombs, good)]
    found = dict(read_proposals(Git(repo), histories, LIMITS, Counted(lambda head: peers[head])))
    assert set(found) == {good}
    assert len(tried) == 3


def test_what_another_branch_moves_makes_no_new_file_a_renamed_one(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is too large for its renames to be looked for; both are compared by one git."""
    monkeypatch.setattr("cn.git.read_branches._COMPARED", 4000)
    lines = [f"line {n}\n" for n in range(100)]
    base = commit(repo, {"old.txt": "".join(lines), "other.txt": "x\n"}, "old")
    edited = "".join([*lines[:50], "line of theirs\n", *lines[51:]])
    heads = []
    others: list[dict[str, Content]] = [{}, {"large.bin": b"\0" * 8000, "other.txt": "y\n"}]
    for more in others:
        git(repo, "checkout", "-q", "--detach", base)
        git(repo, "mv", "old.txt", "new.txt")
        heads.append(commit(repo, {"new.txt": edited, **more}, "moved"))
    histories = [History(Oid(head), Oid(base), (), more=False) for head in heads]
    found = dict(read_proposals(Git(repo), histories, LIMITS, Patience()))
    small, large = ({t.path: t for t in found[Oid(head)].texts}["new.txt"] for head in heads)
    assert (small.word, small.patch is None) == ("renamed", False)
    assert (large.word, large.patch, large.text) == ("added", None, edited)


def test_of_a_long_file_only_the_lines_that_are_shown_are_made_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(text: str) -> str:
        looked.append(text)
        return text

    text = FileText("a", "added", "line\n" * 10_000, None)
    proposal = Proposal((), more_commits=False, touched=(), texts=(text,), left_out=(), base=None)
    monkeypatch.setattr(read_branches, "visible_code", counted)
    shown = format_proposal(proposal, 100_000, 50)
    assert shown.count("    line\n") == 10
    assert "9990 lines more" in shown
    assert len(looked) == 11
