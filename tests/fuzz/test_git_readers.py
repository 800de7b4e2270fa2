"""What cn reads of git, where the objects are a stranger's: the same as a slow and simple reading.

Trees and commits are made byte by byte: names with line feeds, tabs and no UTF-8, odd modes, broken
headers, encodings and signatures. Many fetches would refuse; the readers must not rely on that.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from cn.git.entries import diff_commits, merge_trees, read_changes, read_tree
from cn.git.history import read_past
from cn.git.objects import list_tree, parse_tree, read_all, read_info, read_objects, reading, write_objects
from cn.git.process import Git
from cn.git.read_branches import (
    Patience,
    Proposal,
    format_proposal,
    is_signed,
    read_attachments,
    read_commits,
    read_histories,
    read_messages,
    read_proposals,
)
from cn.git.signatures import read_signatures
from cn.inbox.merges import read_candidates
from cn.protocol.hub_config import Limits
from cn.protocol.message import object_id
from cn.values.errors import CnError
from cn.values.names import Oid
from tests.support.figures import observed
from tests.support.hubs import git as run_git
from tests.support.hubs import work

EXAMPLES = max(6, int(os.environ.get("TEST_FUZZ", "0")) // 50)
PHASES = [Phase.explicit, Phase.generate, *([Phase.shrink] if "TEST_FUZZ" in os.environ else [])]
LIMITS = Limits(file_bytes=400, thread_bytes=1500, files_per_thread=6)
P = ParamSpec("P")
T = TypeVar("T")
Files = dict[bytes, tuple[bytes, bytes]]
"""Name → mode and bytes."""
Tree = tuple[Files, dict[bytes, Files]]
"""Files, and folders of files."""
Drawn = tuple[Tree, bytes, bytes, bytes, bytes, str]
"""A commit: tree, author, committer, further headers, message, and what it starts from."""
HEX = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"

NAMES = st.sampled_from(
    [b"a", b"a.md", b"a\nb", b"a\tb", b'"q"', b"\xff\xfe", "ü".encode(), HEX, b"-x", b" ", b"\\", b"x" * 200,
     b"message.md", b"diff --git a b", b"\x1b[2J", "a\u202eb".encode(), b".git", b"threads", b"A", b"a\r",
     b":100644 100644 " + HEX + b" " + HEX + b" M", b"1\t1\ta", HEX + b"\n"]
)  # fmt: skip
MODES = st.sampled_from([b"100644"] * 5 + [b"100755", b"120000", b"160000", b"100664", b"0100644", b"100000"])
BLOBS = st.sampled_from(
    [b"", b"one\n", b"one\ntwo\n", b"no end", b"\0bin", b"\xff", b"\ndiff --git a b\n@@ -1 +1 @@\n",
     HEX + b"\n" + HEX + b"\n", b"long\n" * 90, b"---\ncn: message/1\n", b"\r\n\r", b"a\x0cb"]
)  # fmt: skip
PEOPLE = st.sampled_from(
    [b"pi <pi@x> 1770303600 +0000", b"pi <pi@x> 1770303600 +0000\nauthor eve <e@x> 1 +0000", b"", b"<>",
     b"<> 1 +0", b"a <b> 99999999999999999999 +9999", b"\xff <\xfe> 1 +0000", b"a\0b <c> 1 +0000",
     b"a <b <c> 1 -2500", b"x", "ü\u2028 <\u202e> 1 +0000".encode(),
     b"+AAo-author x <y> 1 +0000 <z> 1 +0000", b"a <b> -1 +0000"]
)  # fmt: skip
HEADERS = st.sampled_from(
    [b"", b"encoding UTF-7\n", b"encoding UTF-16\n", b"encoding ISO-8859-1\n", b"encoding \xff\n",
     b"encoding\n", b"gpgsig \n", b"odd\n", b"parent x\n", b" x\n",
     b"gpgsig x\n", b"gpgsig-sha256 1\n", b"gpgsig -----BEGIN\n", b"gpgsig \xff\0\n", b"gpgsig\n x\n",
     b"gpgsig x\ngpgsig -----BEGIN SSH SIGNATURE-----\n", b"gpgsig -----BEGIN SSH SIGNATURE-----\ngpgsig x\n",
     b"gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----\n",
     b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"]
)  # fmt: skip
MESSAGES = st.sampled_from(
    [b"say\n", b"", b"two\n\nlines\n", b"\0" * 5, b"a\0" + HEX + b"\0x\0y\0z\0w", b"\xff\xfe", b"+AAA-" * 5,
     b"\xfeX\0" * 3, HEX + b"\n", b"\n\ntree " + HEX + b"\n", b"\x1b[2J\r\n", b"x" * 5000]
)  # fmt: skip


@dataclass
class Store:
    """Objects on their way into a repository, by id."""

    objects: dict[Oid, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, kind: str, data: bytes) -> Oid:
        oid = object_id(kind, data, "sha1")
        self.objects[oid] = kind, data
        return oid

    def tree(self, entries: dict[bytes, tuple[bytes, Oid]]) -> Oid:
        def place(name: bytes) -> bytes:
            return name + b"/" if entries[name][0] == b"40000" else name

        rows = (entries[n][0] + b" " + n + b"\0" + bytes.fromhex(entries[n][1]) for n in sorted(entries, key=place))
        return self.add("tree", b"".join(rows))


FILES = st.dictionaries(NAMES, st.tuples(MODES, BLOBS), max_size=4)
TREES = st.tuples(FILES, st.dictionaries(NAMES, FILES.filter(bool), max_size=2))
COMMITS = st.tuples(TREES, PEOPLE, PEOPLE, HEADERS, MESSAGES, st.sampled_from(["main", "root", "last", "both"]))


def add_tree(store: Store, drawn: Tree) -> Oid:
    files, folders = drawn
    top = {name: (mode, store.add("blob", data)) for name, (mode, data) in files.items()}
    for name, inside in folders.items():
        rows = {n: (mode, store.add("blob", data)) for n, (mode, data) in inside.items()}
        top[name] = b"40000", store.tree(rows)
    return store.tree(top)


def flat(store: Store, tree: Oid, prefix: bytes = b"") -> Iterator[tuple[str, str]]:
    """Path and id of every entry, read slowly."""
    data, at = store.objects[tree][1], 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        oid = Oid(data[end + 1 : end + 21].hex())
        at = end + 21
        if mode == b"40000":
            yield from flat(store, oid, prefix + name + b"/")
        else:
            yield (prefix + name).decode("utf-8", "surrogateescape"), oid


def changed(store: Store, old: Oid, new: Oid) -> set[str]:
    """The paths with other bytes: git shows some odd modes as the plain ones they stand for."""
    before, after = dict(flat(store, old)), dict(flat(store, new))
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def attempt(read: Callable[P, T], *args: P.args, **more: P.kwargs) -> T | None:
    """What it answers; None where cn refuses it in words of its own."""
    try:
        return read(*args, **more)
    except CnError:
        return None


def test_readers_say_what_a_slow_reading_says() -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = work(Path(folder) / "repo", "sigma")
        main = Oid(run_git(repo, "commit-tree", "-m", "main", str(base_tree(repo))))
        git = Git(repo)

        @settings(max_examples=EXAMPLES, phases=PHASES, suppress_health_check=list(HealthCheck))
        @example([(_FOLDER_TO_FILE, _WHO, _WHO, b"", b"say\n", "main")])
        @example([_RENAMED, _NEW_AT_ANOTHER_NAME])
        @given(st.lists(COMMITS, min_size=1, max_size=4))
        def run(drawn: list[Drawn]) -> None:
            check(git, main, drawn)

        run()
    observed("fuzz", "git-readers", examples=EXAMPLES)


BASE: Tree = (
    {b"a": (b"100644", b"one\n"), b"a\nb": (b"100644", b"old\n"), b"\xff\xfe": (b"100755", b"old")},
    {b"x" * 200: {b"a": (b"100644", b"one\n")}},
)


_FOLDER_TO_FILE: Tree = ({b"x" * 200: (b"100644", b"")}, {})
_WHO = b"pi <pi@x> 1770303600 +0000"
_ONE, _TWO = (b"100644", b"one\n"), (b"100644", b"one\ntwo\n")
_RENAMED: Drawn = (({b"b": _TWO}, {b"c": {b"d": _ONE, b"e": _TWO}}), _WHO, _WHO, b"", b"say\n", "main")
_NEW_AT_ANOTHER_NAME: Drawn = (({}, {b"f": {b"g": _TWO}}), _WHO, _WHO, b"", b"say\n", "main")


def base_tree(repo: Path) -> Oid:
    store = Store()
    tree = add_tree(store, BASE)
    write_objects(Git(repo), list(store.objects.values()), "sha1")
    return tree


def _without_words(proposal: Proposal | None) -> Proposal | None:
    """Of a message in UTF-16 git shows what its memory holds behind it: another text each time."""
    if proposal is None:
        return None
    return proposal._replace(commits=tuple(c._replace(message="") for c in proposal.commits))


def check(git: Git, main: Oid, drawn: list[Drawn]) -> None:
    store = Store()
    base = add_tree(store, BASE)
    heads: list[Oid] = []
    trees: dict[Oid, Oid] = {}
    parents_of: dict[Oid, tuple[Oid, ...]] = {}
    last = main
    for files, author, committer, header, message, start in drawn:
        tree = add_tree(store, files)
        parents = {"main": [main], "root": [], "last": [last], "both": [main, last]}[start]
        lines = b"".join(b"parent " + p.encode() + b"\n" for p in dict.fromkeys(parents))
        data = b"tree " + tree.encode() + b"\n" + lines + b"author " + author + b"\ncommitter " + committer + b"\n"
        last = store.add("commit", data + header + b"\n" + message)
        heads.append(last)
        trees[last] = tree
        parents_of[last] = tuple(dict.fromkeys(parents))
    write_objects(git, list(store.objects.values()), "sha1")
    heads = list(dict.fromkeys(heads))

    assert [f and (f.kind, f.data) for f in read_all(git, list(store.objects))] == list(store.objects.values())
    with reading(git) as one:
        assert read_all(one, list(store.objects)) == read_all(git, list(store.objects))
    infos = read_info(git, [*store.objects, "0" * 40, "x y", "main:a\tb"])
    assert [i and i.size for i in infos] == [*(len(d) for _, d in store.objects.values()), None, None, None]
    for tree in dict.fromkeys(trees.values()):
        raw = store.objects[tree][1]
        rows = [e for e in parse_tree(raw, 20) if e.kind != "tree"]
        slow = list(flat(store, tree))
        assert {(e.path, e.oid) for e in rows} == {(p, o) for p, o in slow if "/" not in p}
        listed = list_tree(git, tree, recursive=True)
        assert [(e.path, e.oid) for e in listed] == slow
        inside = attempt(read_tree, git, tree, [p for p, _ in slow])  # it refuses "../x"
        assert not isinstance(inside, dict) or {p: e.oid for p, e in inside.items()} == dict(slow)
    for head in heads:
        tree = trees[head]
        wanted = changed(store, base, tree)
        read = attempt(read_changes, git, main, head)
        if isinstance(read, list):  # where git can read the commit at all
            told = {c.path for c in read if (c.old and c.old.oid) != (c.new and c.new.oid)}
            assert told == wanted
            assert diff_commits(git, [(main, head)]) == {(main, head): read}
        past = attempt(read_past, git, head)
        assert past is None or (past.commit, past.parents) == (head, parents_of[head])
        merged = attempt(merge_trees, git, main, head)
        assert merged is None or merged.tree is not None or merged.conflicts
    signed = read_signatures(git, heads, {})  # whatever the headers are, it answers for each
    assert [s.commit for s in signed] == heads
    assert not any(s.good for s in signed)
    commits = attempt(read_commits, git, heads)
    if isinstance(commits, dict):
        assert all(is_signed(commits[s.commit]) for s in signed if s.present and s.commit in commits)
        messages = attempt(read_messages, git, commits, 1000)
        assert messages is None or set(messages) <= set(heads)
    attached = attempt(read_attachments, git, heads)
    for head in heads if attached is not None else []:
        assert attached is not None
        names = sorted((p for p, _ in flat(store, trees[head])), key=os.fsencode)
        assert attached[head] == [name for name in names if name != "message.md"]
    candidates = read_candidates(git, main, [(head, main) for head in heads], {})
    assert {head for head, _ in candidates} == set(heads)
    histories = read_histories(git, main, heads, Patience())
    together = dict(read_proposals(git, list(histories.values()), LIMITS, Patience()))
    for head in heads:
        careful = together.get(head)
        found = read_histories(git, main, [head], Patience())
        single = dict(read_proposals(git, list(found.values()), LIMITS, Patience())).get(head)
        assert _without_words(single) == _without_words(careful)
        if careful is not None:
            format_proposal(careful, LIMITS.thread_bytes, LIMITS.file_bytes)
        candidate = candidates[head, main]
        if candidate.is_open and candidate.bases == (main,) and careful is not None:
            names = [name for t in careful.touched for name in ([t.source, t.path] if t.source else [t.path])]
            assert sorted(c.path for c in candidate.changes) == sorted(names)
    assert read_objects(git, [f"{h}^{{tree}}" for h in heads]) == [store.objects[trees[h]][1] for h in heads]
