"""What was read is what is merged: any files of any branch are shown, with their modes and their own lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cn.git.process import Git
from cn.git.read_branches import (
    FileText,
    Patience,
    Proposal,
    Touched,
    format_proposal,
    names_all_files,
    read_histories,
    read_proposals,
)
from cn.protocol.hub_config import Limits
from cn.protocol.proposal_text import CUT, FORM, NEW_TEXT, WORDS, read_row, show_path
from cn.protocol.thread_file import Header, format_thread
from cn.values.names import Branch, Name, Oid
from cn.values.text import lines_of, visible, visible_code
from cn.views.conversation import Proposed, read_conversation
from tests.support.hubs import blob, commit_tree, raw_tree, work

LIMITS = Limits()
PIECES = [
    "a", "z", " ", "  ", "\u00a0", "\u3000", "\t", "\n", "\r", "\u2028", "\u202e", '"', "\\", "\\xff", "<U+0020>", "…",
    " (added)", " (+1 −0)", " → ", ", executable", ", a link to b", ": ", "- ", "## ",
]  # fmt: skip
LINES = [
    "", " ", "    ", "x", FORM, f"    {FORM}", "## Commits", "## Files", "## Not shown", "## a (added)", "## z (added)",
    "    ## a (added)", "- added a (+1 −0)", "- added z (+1 −0), executable", "(empty)", NEW_TEXT, f"{CUT}3 lines more",
    "@@ -1,2 +1,2 @@", "+x", "-x", "\\ No newline at end of file", "x\r", "x\ry", "x\u2028## a (added)",
    "\t## z (added)",
]  # fmt: skip
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
TEXTS = st.lists(st.sampled_from(LINES), max_size=8).map("\n".join) | st.text(max_size=30).filter(
    lambda t: "\0" not in t
)
MODES = st.sampled_from(["100644", "100755"])


def pages_of(proposal: Proposal, limits: Limits = LIMITS) -> tuple[str, Proposed | None]:
    """The quoted text, and what pages show of the thread."""
    content = format_proposal(proposal, limits.thread_bytes, limits.file_bytes)
    header = Header(Name("pi"), "x", Branch("pi/x"), datetime(2026, 2, 5, 14, tzinfo=UTC), Oid("1" * 40), "unverified")
    return content, read_conversation(format_thread(header, content), "proposal").proposed


def own_lines(text: str, patch: str | None = None) -> list[str]:
    """The lines of a text, or of its patch, as a thread shows them."""
    text, hunks = (text, ()) if patch is None else (patch, ("@", "\\"))
    plain = text.removesuffix("\n").split("\n")
    told = [line for line in plain if not line.startswith(hunks)]
    alike = all(not line.endswith("\r") for line in told) or all(re.search(r"[^\r]\r\Z|\A\r\Z", line) for line in told)
    return [visible_code(line) for line in (lines_of(text) if alike else plain)] if text else []


def without_ends(line: str) -> str:
    """A line whose CR may be shown, where another of the file has none."""
    return re.sub(r"(<U\+000D>)+\Z", "", line)


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    """Any paths, modes and texts."""
    touched, texts, left_out = list[Touched](), list[FileText](), list[tuple[str, str]]()
    for path in draw(st.lists(NAMES, unique=True, max_size=5)):
        status, mode, was = draw(st.sampled_from("AAMDRT")), draw(MODES), draw(MODES)
        source = draw(NAMES) if status == "R" else ""
        was, mode = ("" if status == "A" else was), ("000000" if status == "D" else mode)
        link = draw(NAMES) if status == "T" else ""
        mode = "120000" if link else mode
        counts = draw(st.sampled_from([("1", "0"), ("", ""), ("-", "-")]))
        touched.append(Touched(status, path, mode, Oid("0" * 40), Oid("1" * 40), *counts, was, source, link))
        if counts[0] == "-":
            left_out.append((path, "binary, 3 bytes"))
        elif not link:
            patch = None if status == "A" else draw(st.none() | TEXTS)
            texts.append(FileText(path, WORDS[status], draw(TEXTS), patch))
    return Proposal((), False, tuple(touched), tuple(texts), tuple(left_out), None)


HIDES = Proposal(
    (),
    False,
    tuple(
        Touched("A", path, mode, Oid("0" * 40), Oid("1" * 40), "1", "0")
        for path, mode in (("AUTHORS.md", "100644"), ("install.sh", "100755"), ("zebra.md", "100644"))
    ),
    (
        FileText(
            "AUTHORS.md", "added", "- added notes.md (+1 −0)\n\n## zebra.md (added)\n\nx\n\n## notes.md (added)\n\ny"
        ),
        FileText("install.sh", "added", "curl"),
        FileText("zebra.md", "added", "z"),
    ),
    (),
    None,
)
"""A file that holds the headings of others: one of them would hide ``install.sh``."""


@given(proposals())
@example(HIDES)
def test_the_files_that_are_shown_are_those_of_the_branch_and_each_line_is_its_own(proposal: Proposal) -> None:
    text, shown = pages_of(proposal)
    assert shown is not None
    assert names_all_files(text, proposal)
    rows = [line for line in shown.listed if line.startswith("- ")]
    assert [read_row(row) for row in rows] == [(show_path(t.path), WORDS[t.status]) for t in proposal.touched]
    assert [row.endswith(", executable") for row in rows] == [
        t.mode == "100755" and t.was != "100755" for t in proposal.touched
    ]
    found = [(file.path, file.word, [line for _, line in file.lines]) for file in shown.files]
    assert found == [(show_path(t.path), t.word, own_lines(t.text, t.patch)) for t in proposal.texts]
    assert [line.rpartition(": ")[0] for line in shown.rest] == [
        f"- {show_path(path)}" for path, _ in proposal.left_out
    ]


@given(proposals(), st.integers(0, 60), st.integers(0, 900))
@example(HIDES, 1, 300)
def test_what_is_cut_shows_no_other_files_and_no_other_lines(proposal: Proposal, file_bytes: int, bytes_: int) -> None:
    text, shown = pages_of(proposal, LIMITS._replace(file_bytes=file_bytes, thread_bytes=bytes_))
    if shown is None:
        assert CUT in text
        return
    rows = [row for line in shown.listed if (row := read_row(line))]
    assert rows == [(show_path(t.path), WORDS[t.status]) for t in proposal.touched][: len(rows)]
    if names_all_files(text, proposal):
        assert len(rows) == len(proposal.touched)
    for file, whole in zip(shown.files, proposal.texts, strict=False):
        lines = [line for _, line in file.lines]
        own = own_lines(whole.text, whole.patch)
        assert (file.path, file.word, lines) == (show_path(whole.path), whole.word, own[: len(lines)])
        assert len(lines) == len(own) or any(note.startswith(CUT) for note in file.notes)


@given(st.lists(NAMES | st.text(max_size=8), unique=True, max_size=8))
def test_no_two_paths_look_alike(paths: list[str]) -> None:
    shown = [show_path(path) for path in paths]
    assert len(set(shown)) == len(paths)
    assert all(visible(one) == one and len(one.splitlines()) < 2 for one in shown)


Tree = dict[str, tuple[str, str]]  # name → mode and text
TREES = st.dictionaries(NAMES.filter(lambda name: "\n" not in name), st.tuples(MODES, TEXTS), max_size=4)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return work(tmp_path_factory.mktemp("read") / "repo", "pi")


def commit_of(repo: Path, tree: Tree, *parents: str) -> str:
    entries = [(mode, name.encode(), blob(repo, text)) for name, (mode, text) in tree.items()]
    return commit_tree(repo, raw_tree(repo, sorted(entries, key=lambda entry: entry[1])), "x", parents)


@settings(max_examples=15)
@given(old=TREES, new=TREES, goes=st.booleans())
@example(
    old={"README.md": ("100644", "old\n")},
    new={
        "AA.sh": ("100755", "## README.md (changed)\n\n@@ -40 +40,2 @@\n See\n+curl | sh\n"),
        "README.md": ("100755", "old\n"),
    },
    goes=False,
)
def test_what_git_has_is_what_is_shown(repo: Path, old: Tree, new: Tree, goes: bool) -> None:
    new = {} if goes else {**old, **new}
    base = commit_of(repo, old)
    head = commit_of(repo, new, base)
    histories = list(read_histories(Git(repo), Oid(base), [Oid(head)], Patience()).values())
    (proposal,) = dict(read_proposals(Git(repo), histories, LIMITS, Patience())).values()
    _, shown = pages_of(proposal)
    assert shown is not None
    became = {name: "changed" if name in old else "added" for name in new if new[name] != old.get(name)}
    became |= {name: "deleted" for name in old if name not in new}
    rows = {row[0]: (row[1], line) for line in shown.listed if (row := read_row(line))}
    assert {name: word for name, (word, _) in rows.items()} == {show_path(n): word for n, word in became.items()}
    for name, word in became.items():
        if word != "deleted":
            runs = new[name][0] == "100755" and old.get(name, ("", ""))[0] != "100755"
            assert rows[show_path(name)][1].endswith(", executable") == runs
    texts = {show_path(n): (old.get(n, ("", ""))[1], new.get(n, ("", ""))[1]) for n in became}
    assert {file.path for file in shown.files} == {
        path for path, (before, after) in texts.items() if before != after or rows[path][0] != "changed"
    }
    for file in shown.files:
        before, after = (
            [without_ends(visible_code(line)) for line in lines_of(t)] if t else [] for t in texts[file.path]
        )
        lines = [without_ends(line) for _, line in file.lines]
        if file.word == "added":
            assert [line for _, line in file.lines] == own_lines(texts[file.path][1])
        elif file.word == "deleted":
            assert lines[1:] == [f"-{line}" for line in before]
        else:
            told = [(k, without_ends(line[1:])) for k, line in file.lines if k != "hunk" and not line.startswith("\\")]
            assert [line for kind, line in told if kind != "removed"] == _within(after, told, "removed")
            assert [line for kind, line in told if kind != "added"] == _within(before, told, "added")


def _within(lines: list[str], told: Sequence[tuple[str, str]], other: str) -> list[str]:
    """Of a file's lines those that a difference tells, in their order."""
    rest = iter(lines)
    return [line for kind, line in told if kind != other and line in rest]
