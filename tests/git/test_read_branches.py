"""Branches read together say the same as each read on its own, and as git."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cn.git.objects import merge_bases
from cn.git.process import Git
from cn.git.read_branches import Patience, Proposal, read_histories, read_proposals
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from cn.values.text import decode
from tests.support.hubs import git, git_bytes, tip, work, write_commit

Commits = list[tuple[str, list[tuple[str, bytes | None, str]]]]
"""Per commit its message and the changed (path, content, mode)."""
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LIMITS = Limits(file_bytes=400, thread_bytes=1500, files_per_thread=4)
PATHS = ["a.md", "a/b.md", 'ü "q".md', "x\ny.md", "bin/run", "deep/er/file"]
CONTENTS = st.one_of(
    st.sampled_from(
        [
            b"",
            b"one\n",
            b"one\ntwo\nthree\n",
            b"no end",
            b"\0binary",
            b"\xff\xfe",
            b"\ndiff --git a b\n",
            b"long\n" * 90,
        ]
    ),
    st.binary(max_size=40),
    st.just(b"0" * 40 + b"\n" + b"f" * 40 + b"\n"),
)
CHANGE = st.tuples(
    st.sampled_from(PATHS), st.one_of(st.none(), CONTENTS), st.sampled_from(["100644", "100644", "100755", "120000"])
)
COMMIT = st.tuples(st.sampled_from(["say\n", "two\n\nlines\n", "", "ü\n", "x" * 50]), st.lists(CHANGE, max_size=3))


@st.composite
def branches(draw: st.DrawFn) -> list[tuple[str, Commits]]:
    """Branches: where each starts, and its commits."""
    starts = st.sampled_from(["main", "main", "main", "old", "none", "last", "merge"])
    return [(draw(starts), draw(st.lists(COMMIT, max_size=3))) for _ in range(draw(st.integers(1, 4)))]


def build(root: Path, start: str, commits: Commits, last: str) -> str:
    at = {"main": "main", "old": "main~1", "none": "", "last": last, "merge": last}[start]
    parents = [tip(root, at)] if at else []
    if start == "merge":
        parents.append(tip(root, "main"))
    for message, changes in commits or [("empty\n", [])]:
        files, modes = {path: content for path, content, _ in changes}, {p: m for p, _, m in changes}
        files = {p: c for p, c in files.items() if not any(o.startswith(p + "/") for o in files)}
        parents = [write_commit(root, files, message, parents, modes=modes)]
    return parents[0]


def read(root: Path, heads: list[str]) -> dict[Oid, Proposal]:
    """The branches, read together."""
    here, asked = Git(root), [Oid(head) for head in heads]
    histories = read_histories(here, Oid(tip(root, "main")), asked, Patience())
    assert set(histories) == set(asked)
    return dict(read_proposals(here, list(histories.values()), LIMITS, Patience()))


def compare(root: Path, heads: list[str]) -> None:
    """What was read together equals what is read alone, and what git itself says."""
    together, here, main = read(root, heads), Git(root), Oid(tip(root, "main"))
    assert set(together) == set(heads)
    for head, proposal in together.items():
        assert proposal == read(root, [head])[head]
        assert proposal.base == next(iter(merge_bases(here, main, head)), None)
        since = [f"^{proposal.base}"] if proposal.base else []
        assert [c.id for c in proposal.commits] == git(root, "rev-list", "-100", head, *since).split()
        compare_files(root, proposal, head)


def compare_files(root: Path, proposal: Proposal, head: str) -> None:
    old = proposal.base or EMPTY
    fields = iter(git(root, "diff-tree", "-r", "-z", "-M", "--raw", old, head).split("\0")[:-1])
    rows = []
    for meta in fields:
        *_, kind = words = meta.split()
        source = next(fields) if kind.startswith("R") else ""
        rows.append((source, next(fields), words[1], kind[0]))
    assert [(t.source, t.path, t.mode, t.status) for t in proposal.touched] == rows
    numstat = git(root, "diff-tree", "-r", "-z", "--no-renames", "--numstat", old, head).split("\0")[:-1]
    counts = {path: (added, removed) for added, removed, path in (row.split("\t", 2) for row in numstat)}
    texts = {text.path: text for text in proposal.texts}
    for touched in proposal.touched:
        if touched.path in texts and touched.status in ("A", "M"):
            assert (touched.added, touched.removed) == counts[touched.path]
            patch = git_bytes(root, "diff-tree", "-p", "-r", old, head, "--", touched.path)
            hunks = decode(patch).partition("\n@@ ")
            wanted = "@@ " + hunks[2].removesuffix("\n") if hunks[1] else None
            assert texts[touched.path].patch == (wanted if touched.status == "M" else None)


def repository(folder: Path) -> Path:
    root = work(folder / "hub", "sigma")
    first = write_commit(root, {"a.md": b"one\ntwo\nthree\n", "bin/run": b"#!\n", "gone": b"x\n"})
    git(root, "update-ref", "refs/heads/main", write_commit(root, {"more": b"more\n"}, parents=[first]))
    return root


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(branches())
def test_read_together_is_read_alone(drawn: list[tuple[str, Commits]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = repository(Path(folder))
        heads, last = [], "main"
        for start, commits in drawn:
            heads.append(build(root, start, commits, last))
            last = heads[-1]
        compare(root, heads)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path)


def test_what_is_simple(root: Path) -> None:
    main = tip(root, "main")
    one = write_commit(root, {"n.md": b"new\n", "a.md": b"one\n2\nthree\n", "gone": None}, "one\n", [main])
    two = write_commit(root, {"bin/run": b"#!\n"}, "two\n", [one], modes={"bin/run": "100755"})
    compare(root, [one, two, one])


def test_what_is_odd(root: Path) -> None:
    main = tip(root, "main")
    side = write_commit(root, {"s.md": b"s\n"}, parents=[main])
    old = write_commit(root, {"o.md": b"o\n"}, parents=[tip(root, "main~1")])
    odd = {
        "stranger": write_commit(root, {"n.md": b"new\n"}),
        "in main": main,
        "merge": write_commit(root, {}, parents=[side, old]),
        "link": write_commit(root, {"l": b"a.md"}, parents=[main], modes={"l": "120000"}),
        "became a link": write_commit(
            root, {"a.md": b"x", "more": b"less\n"}, parents=[main], modes={"a.md": "120000"}
        ),
        "large": write_commit(root, {"l": b"x" * (16 * LIMITS.file_bytes + 1), "more": b"less\n"}, parents=[main]),
        "long name": write_commit(root, {"n" * 1001: b"x"}, parents=[main]),
    }
    plain = write_commit(root, {"p.md": b"p\n"}, parents=[main])
    compare(root, [*odd.values(), plain])
    shown = read(root, [odd["large"]])[Oid(odd["large"])]
    assert [t.path for t in shown.texts if t.patch] == ["more"]
    assert [path for path, _ in shown.left_out] == ["l"]


def test_a_branch_of_many_commits_shows_the_last(root: Path) -> None:
    stream = "".join(
        f"commit refs/heads/many\nmark :{n}\ncommitter P <p@x.example> 1770000000 +0000\ndata 1\nm\n"
        f"{'from refs/heads/main^0' if n == 1 else f'from :{n - 1}'}\nM 644 inline f\ndata 4\n{n:04}\n"
        for n in range(1, 1102)
    )
    git(root, "fast-import", "--quiet", stdin=stream)
    heads = [tip(root, f"many~{back}") for back in (0, 1000, 1001, 1002)]
    compare(root, heads)
    found = read(root, heads)
    assert [found[Oid(head)].more_commits for head in heads] == [True, True, False, False]


def test_what_the_commits_within_a_branch_change_costs_nothing(root: Path) -> None:
    """Two trees that are the same for diff, and other objects at each of 40 levels: 2^40 comparisons."""
    main = tip(root, "main")
    one, two = (nested(root, mode, 40) for mode in ("100644", "100664"))
    inner = git(root, "commit-tree", one, "-p", main, "-m", "one")
    inner = git(root, "commit-tree", two, "-p", inner, "-m", "two")
    files = git(root, "rev-parse", f"{write_commit(root, {'n.md': b'new'}, parents=[main])}^{{tree}}")
    head = git(root, "commit-tree", files, "-p", inner, "-m", "three")
    assert read(root, [head])[Oid(head)].touched


def nested(root: Path, mode: str, depth: int) -> str:
    """A tree with two folders that are the same tree, of which each has two again."""
    tree = f"{mode} f\0".encode() + bytes.fromhex(git(root, "hash-object", "-w", "--stdin", stdin="x"))
    for _ in range(depth):
        made = git_bytes(root, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=tree)
        oid = bytes.fromhex(made.decode().strip())
        tree = b"40000 a\0" + oid + b"40000 b\0" + oid
    return git_bytes(root, "hash-object", "-t", "tree", "-w", "--stdin", stdin=tree).decode().strip()
