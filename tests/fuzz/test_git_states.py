"""What cn reads of a work tree and its index: the same as what was put there, whatever the names are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cn.git.entries import Entry
from cn.git.repository import Hub, open_hub
from cn.protocol.message import object_id
from cn.threads.plan.edits import Kind
from cn.threads.read_edits import read_edits
from cn.values.names import Oid
from tests.support.figures import observed
from tests.support.hubs import commit, git_bytes, work

EXAMPLES = max(8, int(os.environ.get("TEST_FUZZ", "0")) // 20)
PHASES = [Phase.explicit, Phase.generate, *([Phase.shrink] if "TEST_FUZZ" in os.environ else [])]
NAMES = st.sampled_from(
    [b"a", b" a", b"a ", b"a b", b"a\nb", b"\n? b", b"a\tb", b'"q"', b"\xff\xfe", "ü".encode(),
     "u\u0308".encode(), b"? x", b"1 .M N... 100644 100644 100644 x y z", b"u UU N...", b"\\n", b"-x",
     b"\x1b[2J", b"x" * 200, b"*", b"[a]"]
)  # fmt: skip
CONTENT = st.sampled_from([None, b"", b"one\n", b"two\n"])
States = dict[bytes, tuple[bytes | None, bytes | None, bytes | None]]
"""Name → its bytes in HEAD, in the index, in the work tree; None: not there."""
STATES = st.dictionaries(NAMES, st.tuples(CONTENT, CONTENT, CONTENT), max_size=6)
Seen = tuple[str, Entry | None, Entry | None, Kind]


def entry(data: bytes | None) -> Entry | None:
    return None if data is None else Entry("100644", object_id("blob", data, "sha1"))


def put(hub: Hub, states: States) -> None:
    """HEAD, index and work tree as they were drawn."""
    root, folder = hub.root, os.fsencode(hub.root / "threads")
    git_bytes(root, "read-tree", "--empty")
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    for number in (0, 1):
        rows = b"".join(
            f"100644 {Oid(one.oid)}\t".encode() + b"threads/" + name + b"\0"
            for name, state in states.items()
            if (one := entry(state[number])) is not None
        )
        git_bytes(root, "read-tree", "--empty")
        git_bytes(root, "update-index", "-z", "--index-info", stdin=rows)
        if number == 0:
            tree = git_bytes(root, "write-tree").decode().strip()
            made = git_bytes(root, "commit-tree", "-m", "x", tree).decode().strip()
            git_bytes(root, "update-ref", "refs/heads/main", made)
    for name, (_, _, data) in states.items():
        if data is not None:
            Path(os.fsdecode(os.path.join(folder, name))).write_bytes(data)


def expected(states: States) -> set[Seen]:
    found: set[Seen] = set()
    for name, (head, index, file) in states.items():
        path = "threads/" + name.decode("utf-8", "surrogateescape")
        kind = Kind.MISSING if file is None else Kind.FILE
        if head != index or (index is not None and index != file):
            found.add((path, entry(head), entry(index), kind))
        elif index is None and file is not None:  # out of the index, but still there: git lists it twice
            found.add((path, None, None, kind))
    return found


def test_edits_are_what_was_done_to_index_and_work_tree() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = work(Path(folder) / "repo", "sigma")
        commit(root, {".cn/hub.yaml": "name: sigma\n", "threads/a": "x"}, "init")
        for data in (b"", b"one\n", b"two\n"):
            git_bytes(root, "hash-object", "-w", "--stdin", stdin=data)
        hub = open_hub(root)

        @settings(max_examples=EXAMPLES, phases=PHASES, suppress_health_check=list(HealthCheck))
        @given(STATES)
        def run(states: States) -> None:
            put(hub, states)
            found = [(one.edit.path, one.head, one.index, one.edit.kind) for one in read_edits(hub, ["threads"])]
            assert len({path for path, *_ in found}) == len(found)
            assert set(found) == expected(states)

        run()
    observed("fuzz", "git-states", examples=EXAMPLES)
