"""What the branches of peers hold, read from objects, never from a checkout.

Any number of branches is read with a few processes, whatever they are: one ``log``, two ``diff-tree``, and
questions to the reader of the run. Where git fails over many, or says too much, they are asked about in
halves, down to the one that is to blame: it is read alone, and costs the others nothing.

The facts are plain data, and the text of a thread is made of them.
"""

from __future__ import annotations

import heapq
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple, TypeVar

from cn.git.encodings import is_readable, read_words
from cn.git.entries import DIFF_SECONDS, LINK, RENAMES, Change, Entry, diff_trees, next_pair
from cn.git.objects import (
    OUTPUT_BYTES,
    Info,
    ensure_not_killed,
    merge_bases,
    parse_tree,
    read_in_halves,
    read_info,
    read_known,
    read_objects,
)
from cn.git.process import Git, GitError
from cn.protocol.hub_config import Limits
from cn.protocol.message import FILE, Message, object_id
from cn.protocol.message_text import ATTACHED
from cn.protocol.proposal_text import (
    ARROW,
    COMMIT_LIST,
    CUT,
    EMPTY,
    FILE_LIST,
    FORM,
    INDENT,
    MOST_FILES,
    NEW_TEXT,
    NOT_SHOWN,
    WORDS,
    file_heading,
    show_path,
)
from cn.values.names import PATH_BYTES, Oid, too_long
from cn.values.text import decode, lines_of, one_line, quote, visible, visible_code
from cn.values.timestamps import from_epoch, from_raw


class Commit(NamedTuple):
    """One commit of the branch; ``date`` is ISO 8601 as the author claims it. ``encoding`` is what it names, where git
    shows neither author nor message in that.
    """

    id: Oid
    author: str
    email: str
    date: str
    message: str
    encoding: str = ""


class Touched(NamedTuple):
    """One changed path: status A, M, D, R or T, new mode, blob ids, lines added and removed ("-": binary, "": not
    known), old mode, what it was called before, and where a link leads and led.
    """

    status: str
    path: str
    mode: str
    old: Oid
    new: Oid
    added: str
    removed: str
    was: str = ""
    source: str = ""
    target: str = ""
    old_target: str = ""


class FileText(NamedTuple):
    """The text of one path: what became of it in a ``word``, and ``patch``, its hunks, None if they are not known."""

    path: str
    word: str
    text: str
    patch: str | None = None


class Proposal(NamedTuple):
    """A branch of changes. ``left_out`` names what the limits or its kind kept out, with the reason."""

    commits: tuple[Commit, ...]
    more_commits: bool
    touched: tuple[Touched, ...]
    texts: tuple[FileText, ...]
    left_out: tuple[tuple[str, str], ...]
    base: Oid | None


def first_title(branch: Proposal | History, others: Collection[Oid] = ()) -> str:
    """What the first of its commits is called, of those that are shown: the title of a proposal at both sides.

    ``others`` are the heads of other proposals that wait: what stands below one of them is that one's.
    """
    if not branch.commits:
        return ""
    tip, *below = branch.commits
    first = [tip, *takewhile(lambda commit: commit.id not in others, below)][-1]
    return one_line(first.message.strip().partition("\n")[0])


def format_proposal(proposal: Proposal, limit: int, file_limit: int) -> str:
    """Commits, files and text as markdown, still unquoted, at most ``limit`` bytes, ``file_limit`` of one file.

    Whatever a peer wrote is indented (:mod:`cn.protocol.proposal_text`), or stands on one line behind a mark of cn's.
    """
    lines = [FORM, "", COMMIT_LIST, ""]
    for commit in proposal.commits:
        subject, *rest = lines_of(commit.message.strip())
        lines.append(
            f"- {commit.id[:10]} {one_line(commit.author, 60)} <{one_line(commit.email, 80)}>"
            f" {one_line(commit.date, 30)}: {one_line(subject)}"
        )
        lines += [f"  {INDENT}{line}" if line.strip() else "" for line in rest]
    if proposal.more_commits:
        lines.append(f"- … and more (the last {len(proposal.commits)} are shown)")
    for commit in (commit for commit in proposal.commits if commit.encoding):
        named = f"{commit.id[:10]} names the encoding {one_line(commit.encoding, 40)}"
        lines += ["", f"(This cannot be merged: {named}, and git shows neither author nor message of it.)"]
        break
    rows = map(_file_line, proposal.touched[:MOST_FILES])
    lines = [_cap_lines("\n".join(lines), limit // 2), "", FILE_LIST, "", *rows]
    if len(proposal.touched) > MOST_FILES:
        lines.append(f"- … and {len(proposal.touched) - MOST_FILES} more")
        lines += ["", f"(This cannot be merged as it is: a thread names {MOST_FILES:,} files at most.)"]
    if not proposal.touched:
        lines.append("(no file changed)")
    for path in (t.path for t in proposal.touched if too_long(t.path)):
        lines += ["", f"(This cannot be merged: {show_path(path)[:100]}… is too long a name: {too_long(path)}.)"]
        break
    for text in proposal.texts:
        lines += ["", file_heading(text.path, text.word), "", *_body(text, file_limit)]
    if proposal.left_out:
        lines += ["", NOT_SHOWN, ""]
        lines += [f"- {show_path(path)}: {reason}" for path, reason in proposal.left_out[:MOST_FILES]]
    if not lines[-1]:
        lines.append("")  # else the last line of a file would be none
    return _cap_lines("\n".join(lines), limit)


def names_all_files(text: str, proposal: Proposal) -> bool:
    """Does this text of :func:`format_proposal` name every file that the branch changes? It is cut at its end."""
    files = proposal.touched
    return not files or (len(files) <= MOST_FILES and f"\n{_file_line(files[-1])}\n" in f"{text}\n")


def _file_line(touched: Touched) -> str:
    counts = {"": "", "-": " (binary)"}.get(touched.added, f" (+{touched.added} −{touched.removed})")
    runs = {"100755": ", executable", "100644": ", no longer executable"}.get(touched.mode, "")
    told = runs if touched.mode != (touched.was or "100644") and LINK not in (touched.was, touched.mode) else ""
    name = f"{show_path(touched.source)}{ARROW}" if touched.source else ""
    word = WORDS.get(touched.status, one_line(touched.status))
    return f"- {word} {name}{show_path(touched.path)}{counts}{told}{_link(touched)}"


def _link(touched: Touched) -> str:
    """Where a symbolic link leads."""
    now = f", a link to {show_path(touched.target)}" if touched.mode == LINK else ""
    return now + (f", was a link to {show_path(touched.old_target)}" if touched.was == LINK else "")


def _body(text: FileText, limit: int) -> list[str]:
    """Its lines, of which so many bytes are shown, and what cn says of them."""
    whole = text.text if text.patch is None else text.patch
    lines = _file_lines(whole, text.patch is not None) if whole else []
    shown, size = list[str](), 0
    for line in map(visible_code, lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > limit:
            break  # what is not shown need not be made visible
        shown.append(line)
    body = [f"{INDENT}{line}" if line else "" for line in shown] if lines else [EMPTY]
    if len(shown) < len(lines):
        body += ["", f"{CUT}{len(lines) - len(shown)} lines more"]
    return [NEW_TEXT, "", *body] if text.patch is None and text.word != "added" else body


def _file_lines(text: str, is_patch: bool) -> list[str]:
    """Its lines. CR LF ends one as LF does, unless some lines end so and others do not: then each CR is seen."""
    lines = text.removesuffix("\n").split("\n")
    ends = {len(line) - len(line.rstrip("\r")) for line in lines if not (is_patch and line.startswith(("@", "\\")))}
    return lines_of(text) if ends <= {0} or ends == {1} else lines


def format_message_content(message: Message, attachments: list[str], limit: int) -> str:
    """A message as markdown, still unquoted: its body stands behind ``"> "``, each other line is cn's."""
    lines = [f"# {one_line(message.subject) or '(no subject)'}", ""]
    lines.append(f"{message.kind} from {message.sender}, written {message.created:%Y-%m-%dT%H:%MZ}")
    if message.in_reply_to:
        lines.append(f"in reply to {one_line(message.in_reply_to)}")
    if message.about:
        lines.append(f"about {one_line(message.about.branch)} at {message.about.head[:10]}: {message.about.status}")
    if message.body:
        lines += ["", quote(message.body)]
    if attachments:
        lines += ["", ATTACHED, "", *(f"- {show_path(name)}" for name in attachments[:200])]
    return _cap("\n".join(lines), limit)


def _cap(text: str, limit: int) -> str:
    shown = visible(text) if len(text) > limit else text
    data = shown.encode("utf-8", "replace")
    if len(data) <= limit:
        return shown
    return data[:limit].decode("utf-8", "ignore") + f"\n\n{CUT}{len(data) - limit} bytes more"


def _cap_lines(text: str, limit: int) -> str:
    """The same, cut between two lines: a part of one would say something else."""
    shown = visible(text) if len(text) > limit else text
    data = shown.encode("utf-8", "replace")
    if len(data) <= limit:
        return shown
    kept = data[: limit + 1].rpartition(b"\n")[0].rstrip(b"\n")
    return kept.decode("utf-8", "ignore") + f"\n\n{CUT}{len(data) - len(kept)} bytes more"


_T = TypeVar("_T")
COMMITS = 100
"""How many commits of a branch are shown."""
_LOG = "--format=%H%x00%an%x00%ae%x00%ad%x00%B%x00%P%x00%ct%x00%e"
_COMMIT_BYTES = 1 << 20
_HEADS = 250
"""How many branches are read together: bounds memory, and what one bad branch makes slow."""
_BYTES = 4 << 20
"""Bytes of old and new files that are compared and read in one go."""
_PATHS_BYTES = 1 << 16
"""Bytes of the paths that one command line names."""
_UNREADABLE = 3
"""Branches of a peer that git may fail over, each with all the time it has."""
_SECONDS = 20.0
"""How long the branches of a peer may take that are not read with those of others."""
_WALKED = 1000
"""Commits of a branch that are followed here; git finds the base of a longer one."""
_ATTACHMENTS, _ATTACHED_BYTES = 1000, 1 << 20
"""What of a message's attachments is listed: entries and folders, and the bytes of their trees and paths."""
_NEXT_PAIR = re.compile(rb"\n(?=[0-9a-f]{40,64} [0-9a-f]{40,64}\n)")
_PLAIN = ("100644", "100755")
_NOTHING = Entry("000000", Oid("0" * 40))
_SHOWN = (*_PLAIN, LINK)
_SUBMODULE = "160000"
_COMPARED = 4 << 20
"""Bytes of the files of a branch among which renames are looked for."""
_LARGER = 16
"""A file that is at most so many times larger than what is shown of one is read, and cut."""
_HEURISTIC = 8000
"""git takes for binary what has a NUL within so many bytes (git's ``xdiff-interface.c``)."""

# Commits and messages.


def read_commits(git: Git, heads: Sequence[Oid]) -> dict[Oid, bytes]:
    """Head → the commit's bytes, but for those that are too large for what cn asks of them."""
    known = zip(heads, read_info(git, list(heads)), strict=True)
    short = [h for h, info in known if info is not None and info.size <= _COMMIT_BYTES]
    return {h: c for h, c in zip(short, read_objects(git, short), strict=True) if c is not None}


_WRITTEN = re.compile(rb"\nauthor [^\n]*> ([0-9]+) [+-][0-9]+\n")


def read_written(commit: bytes) -> datetime | None:
    """When its author says that it was written; None for a commit that git would not make."""
    found = _WRITTEN.search(commit.partition(b"\n\n")[0] + b"\n")
    return from_epoch(found[1].decode()) if found else None


def is_signed(commit: bytes) -> bool:
    """Has it a signature, whatever it is worth? Else git need not be asked for it (git's ``commit.c``)."""
    return b"\ngpgsig" in commit.partition(b"\n\n")[0]


def read_messages(git: Git, commits: Mapping[Oid, bytes], limit: int) -> dict[Oid, bytes | None]:
    """Head → bytes of ``message.md``, for parentless commits that have one (None: over ``limit``)."""
    roots = [head for head, commit in commits.items() if b"\nparent " not in b"\n" + commit.partition(b"\n\n")[0]]
    infos = read_info(git, [f"{h}:{FILE}" for h in roots])
    have = {h: i for h, i in zip(roots, infos, strict=True) if i is not None and i.kind == "blob"}
    small = [h for h, i in have.items() if i.size <= limit]
    contents = dict(zip(small, read_objects(git, [have[h].oid for h in small]), strict=True))
    return {head: contents.get(head) for head in have}


def read_attachments(git: Git, heads: Sequence[Oid]) -> dict[Oid, list[str]]:
    """The names of what came with messages, by path: of one that is over a limit none is told.

    The reader of the run gives the folders, a level of all messages at a time. Their sizes are asked first: a
    message that is over a limit is not read further. git's own lists would be a process for each message
    (``ls-tree``), or kept until a tree is known to its end (``diff-tree``).
    """
    told: dict[Oid, list[str]] = {head: [] for head in heads}
    entries, sizes = Counter[Oid](), Counter[Oid]()

    def listed(head: Oid) -> bool:
        return entries[head] <= _ATTACHMENTS and sizes[head] <= _ATTACHED_BYTES

    # A folder: whose it is, the path above its entries, the name of its tree.
    folders = [(head, "", f"{head}^{{tree}}") for head in told]
    while folders:
        infos = list(zip(folders, read_info(git, [tree for *_, tree in folders]), strict=True))
        for (head, *_), info in infos:
            sizes[head] += info.size if info is not None and info.kind == "tree" else _ATTACHED_BYTES + 1
        near = [(head, above, info) for (head, above, _), info in infos if info is not None and listed(head)]
        folders = []
        for some in _in_groups(near, lambda one: one[2].size / _BYTES):
            trees = read_known(git, [info.oid for *_, info in some])
            for (head, above, info), data in zip(some, trees, strict=True):
                tree = parse_tree(data, len(info.oid) // 2) if listed(head) else []
                entries[head] += len(tree)
                sizes[head] += len(tree) * len(above)  # the path of a folder is in that of each of its entries
                if listed(head):
                    told[head] += [f"{above}{e.path}" for e in tree if e.kind != "tree"]
                    folders += [(head, f"{above}{e.path}/", e.oid) for e in tree if e.kind == "tree"]
        folders = [folder for folder in folders if listed(folder[0])]
    return {
        head: sorted((name for name in names if name != FILE), key=_as_bytes)
        if listed(head)
        else ["(too many to list)"]
        for head, names in told.items()
    }


def _in_groups(items: Iterable[_T], share: Callable[[_T], float]) -> Iterator[list[_T]]:
    """What is read in one go: as many as their shares make one whole, and one at least."""
    group, total = list[_T](), 0.0
    for item in items:
        if group and total + share(item) > 1:
            yield group
            group, total = [], 0.0
        group.append(item)
        total += share(item)
    if group:
        yield group


def _as_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


# The history of a branch.


class History(NamedTuple):
    """The commits that a branch has and main has not, newest first; ``base`` None: nothing is common."""

    head: Oid
    base: Oid | None
    commits: tuple[Commit, ...]
    more: bool


class _Row(NamedTuple):
    commit: Commit
    parents: list[Oid]
    at: int


class Patience:
    """How long cn goes on with branches of a peer that cannot be read, or that take long: so many, so many seconds.

    ``owners`` names the peers that show a head: all pay for it. After that, others of them that git failed
    over are not tried alone; but what another peer shows too is, as long as that one's patience lasts. Of what is
    ``left`` so, nothing is known.
    """

    def __init__(self, owners: Callable[[Oid], Collection[str]] = lambda head: (head,)) -> None:
        self._owners = owners
        self._unreadable = Counter[str]()
        self._spent: dict[str, float] = {}
        self._paying = False
        self.left: set[Oid] = set()

    def leaves(self, head: Oid) -> bool:
        """Is this one left, as :meth:`ended` says?"""
        self.left |= {head} if (over := self.ended(head)) else set()
        return over

    def ended(self, head: Oid) -> bool:
        """Were so many branches of each of its peers unreadable, or took so long?"""
        return all(
            self._unreadable[owner] >= _UNREADABLE or self._spent.get(owner, 0.0) >= _SECONDS
            for owner in self._owners(head)
        )

    @contextmanager
    def taking(self, heads: Sequence[Oid]) -> Iterator[None]:
        """What is done within is paid by the peer of these heads, if it is one."""
        owner, *others = set().union(*map(self._owners, heads))
        if others or self._paying:  # within what is paid already
            yield
            return
        begun, self._paying = time.monotonic(), True
        try:
            yield
        finally:
            self._spent[owner] = self._spent.get(owner, 0.0) + time.monotonic() - begun
            self._paying = False

    def blame(self, head: Oid, error: GitError) -> None:
        """git could not read it alone."""
        ensure_not_killed(error)
        self._unreadable.update(set(self._owners(head)))


def read_histories(git: Git, main: Oid, heads: Sequence[Oid], patience: Patience) -> dict[Oid, History]:
    """Head → its history; those that git cannot tell within the limits are missing."""
    found: dict[Oid, History] = {}
    unique = list(dict.fromkeys(heads))

    def together(some: Sequence[Oid]) -> list[History]:
        with patience.taking(some):
            return _read_together(git, main, some, patience)

    def alone(head: Oid, error: GitError) -> list[History]:
        ensure_not_killed(error)
        return [] if patience.leaves(head) else _read_alone(git, main, head, patience)

    for start in range(0, len(unique), _HEADS):
        some = unique[start : start + _HEADS]
        histories = read_in_halves(some, together, alone, patience.leaves)
        found.update((history.head, history) for history in histories)
    return found


def _read_together(git: Git, main: Oid, heads: Sequence[Oid], patience: Patience) -> list[History]:
    """Without what each commit changes: between two trees that nest the same folder again and again that
    takes any time, and of all but the first and the last of a branch nobody wants to know.
    """
    rows = _log(git, "--stdin", stdin="\n".join([f"^{main}", *heads, ""]).encode())
    walks = {head: _walk(head, rows) for head in heads}
    found = []
    for head, (commits, bases) in walks.items():
        if len(commits) > _WALKED or len(bases) > 1:  # only git can tell which is the base
            found += [] if patience.leaves(head) else _read_alone(git, main, head, patience)
        else:
            base = next(iter(bases), None)
            found.append(History(head, base, tuple(commits[:COMMITS]), len(commits) > COMMITS))
    return found


def _walk(head: Oid, rows: Mapping[Oid, _Row]) -> tuple[list[Commit], frozenset[Oid]]:
    """The commits of a branch in git's order, no more than are followed, and where it leaves main.

    What ``log`` did not list is in main.
    """
    if head not in rows:
        return [], frozenset([head])
    commits, bases = list[Commit](), set[Oid]()
    waiting, met = [(-rows[head].at, 0, head)], {head}
    while waiting and len(commits) <= _WALKED:
        row = rows[heapq.heappop(waiting)[2]]
        commits.append(row.commit)
        for parent in row.parents:
            if parent not in rows:
                bases.add(parent)
            elif parent not in met:
                met.add(parent)
                heapq.heappush(waiting, (-rows[parent].at, len(met), parent))
    return commits, frozenset(bases)


def _read_alone(git: Git, main: Oid, head: Oid, patience: Patience) -> list[History]:
    """The same for one branch, of any length."""
    try:
        with patience.taking([head]):
            base = next(iter(merge_bases(git, main, head)), None)
            span = [f"{base}..{head}"] if base else [head]
            commits = [row.commit for row in _log(git, f"-{COMMITS + 1}", "--end-of-options", *span).values()]
    except GitError as error:
        patience.blame(head, error)
        return []
    return [History(head, base, tuple(commits[:COMMITS]), len(commits) > COMMITS)]


def _log(git: Git, *words: str, stdin: bytes = b"") -> dict[Oid, _Row]:
    flags = ("log", "-z", "--date=raw", _LOG, "--no-color")
    out = git.run(*flags, *words, stdin=stdin, max_out=OUTPUT_BYTES).out
    fields = out.decode("utf-8", "surrogateescape").split("\0") if out else []
    rows, odd = dict[Oid, _Row](), dict[Oid, str]()
    for i in range(0, len(fields) - 7, 8):
        author, email, date, message = (decode(x.encode("utf-8", "surrogateescape")) for x in fields[i + 1 : i + 5])
        commit = Commit(Oid(fields[i]), author, email, from_raw(date) if date else "", message)
        at = fields[i + 6]
        seconds = int(at) if at.isdecimal() and len(at) < 16 else 0
        rows[commit.id] = _Row(commit, [Oid(p) for p in fields[i + 5].split()], seconds)
        if not is_readable(fields[i + 7]):
            odd[commit.id] = fields[i + 7]
    for oid, data in read_commits(git, list(odd)).items():
        author, email, epoch, message = read_words(data)
        written = from_epoch(epoch)
        date = written.isoformat() if written is not None else ""
        rows[oid] = rows[oid]._replace(commit=Commit(oid, author, email, date, message, odd[oid]))
    return rows


# What a branch changes.


class _Draft(NamedTuple):
    """A branch on the way to a proposal: its trees, what it changes, and of that what is shown."""

    history: History
    trees: tuple[Oid, Oid]
    touched: tuple[Touched, ...] = ()
    shown: tuple[Touched, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    size: int = 0

    @property
    def compared(self) -> list[str]:
        """The files whose differences are asked for."""
        files = [t for t in self.shown if t.status in "MR" and t.old != t.new and len(t.path) <= PATH_BYTES]
        return [path for t in files for path in (t.path, t.source) if path]


_Patches = dict[tuple[str, str], str]  # path, and what it was called before → hunks


def read_proposals(
    git: Git, histories: Sequence[History], limits: Limits, patience: Patience
) -> Iterator[tuple[Oid, Proposal]]:
    """What the branches change since their base; those that git cannot tell within the limits are missing."""

    def unchanged(draft: _Draft, error: GitError) -> list[_Draft]:
        patience.blame(draft.history.head, error)
        return []

    def compared(some: Sequence[_Draft]) -> list[tuple[Oid, _Patches]]:
        with patience.taking([draft.history.head for draft in some]):
            return _read_patches(git, some)

    def unpatched(draft: _Draft, error: GitError) -> list[tuple[Oid, _Patches]]:
        ensure_not_killed(error)
        return []  # the new texts are shown

    def ended(draft: _Draft) -> bool:
        return patience.ended(draft.history.head)

    for start in range(0, len(histories), _HEADS):
        drafts = _with_trees(git, histories[start : start + _HEADS])
        drafts = read_in_halves(
            drafts, lambda some: _with_changes(git, some), unchanged, lambda draft: patience.leaves(draft.history.head)
        )
        for group in _in_groups(_within(git, drafts, limits), _share):
            patches = dict(read_in_halves([d for d in group if not ended(d)], compared, unpatched, ended))
            yield from _proposals(git, group, patches)


def _with_trees(git: Git, histories: Sequence[History]) -> list[_Draft]:
    """With the trees that are compared; of a branch that has nothing in common with main the empty one."""
    commits = list(dict.fromkeys(c for h in histories for c in (h.base, h.head) if c is not None))
    trees = dict(zip(commits, read_info(git, [f"{c}^{{tree}}" for c in commits]), strict=True))
    drafts = []
    for history in histories:
        new = trees[history.head]
        old = trees[history.base] if history.base is not None else None
        if new is not None:
            before = old.oid if old is not None else object_id("tree", b"", "sha1" if len(new.oid) == 40 else "sha256")
            drafts.append(_Draft(history, (before, new.oid)))
    return drafts


def _with_changes(git: Git, drafts: Sequence[_Draft]) -> list[_Draft]:
    changes = diff_trees(git, [draft.trees for draft in drafts])
    found = [draft._replace(touched=tuple(map(_touched, changes[draft.trees]))) for draft in drafts]
    moved = [draft for draft in found if {"A", "D"} <= {t.status for t in draft.touched}]
    infos = iter(read_info(git, [oid for d in moved for t in d.touched for oid in (t.old, t.new)]))
    few = {d.trees for d in moved if sum(info.size for _ in d.touched for info in _pair(infos) if info) <= _COMPARED}
    again = dict(read_in_halves(list(few), lambda some: list(diff_trees(git, some, renames=True).items())))
    return [d._replace(touched=tuple(map(_touched, again[d.trees]))) if d.trees in again else d for d in found]


def count_files(git: Git, base: Oid, head: Oid) -> int:
    """How many files the thread of a branch has to name: one that was renamed is one, where git looks for those."""
    drafts = _with_changes(git, _with_trees(git, [History(head, base, (), more=False)]))
    return sum(len(draft.touched) for draft in drafts)


def _pair(items: Iterator[_T]) -> tuple[_T, _T]:
    return next(items), next(items)


def _touched(change: Change) -> Touched:
    old, new = (entry or _NOTHING for entry in (change.old, change.new))
    was = old.mode if change.old else ""
    return Touched(change.status, change.path, new.mode, old.oid, new.oid, "", "", was, change.source)


def parse_patches(out: bytes) -> dict[tuple[Oid, Oid], _Patches]:
    """The hunks that ``diff-tree --stdin -z --raw -p`` tells of pairs of trees."""
    patches: dict[tuple[Oid, Oid], _Patches] = {}
    at = 0
    while found := next_pair(out, at):
        pair, records, at = found
        # Every line of a hunk starts with a mark of its own, so a bare pair starts the next branch.
        following = _NEXT_PAIR.search(out, at) if records else None
        end = following.end() if following else len(out) if records else at
        patches[pair] = _hunks(out[at:end], records)
        at = end
    return patches


def _hunks(diff: bytes, files: Sequence[Change]) -> _Patches:
    """The hunks in ``diff``, which holds ``files`` in this order; of one that only changed its mode, none.

    Not of what git takes for binary. Nothing, if it holds something else.
    """
    # As above, "diff --git" starts a file. What comes before the first is the NUL behind the paths.
    parts = ("\n" + decode(diff.removeprefix(b"\0"))).split("\ndiff --git ")[1:]
    if len(parts) != len(files):
        return {}
    hunks = [(t, part.partition("\n@@ ")) for t, part in zip(files, parts, strict=True)]
    return {
        (t.path, t.source): "@@ " + rest.removesuffix("\n") if mark else ""
        for t, (_, mark, rest) in hunks
        if mark or (t.old and t.old.oid) == (t.new and t.new.oid)
    }


def _within(git: Git, drafts: Sequence[_Draft], limits: Limits) -> list[_Draft]:
    """The files to show, judged by size before any is read; the rest with the reason."""
    plain = [t for d in drafts for t in d.touched if _is_shown(t)]
    infos = iter(read_info(git, [oid for t in plain for oid in (t.new, t.old)]))
    return [_within_one(draft, limits, infos) for draft in drafts]


def _is_shown(touched: Touched) -> bool:
    return (touched.was if touched.status == "D" else touched.mode) in _SHOWN


def _within_one(draft: _Draft, limits: Limits, infos: Iterator[Info | None]) -> _Draft:
    left_out = [(t.path, "submodule") for t in draft.touched if _SUBMODULE in (t.mode, t.was)]
    shown: list[Touched] = []
    total = size = 0
    for t in draft.touched:
        if not _is_shown(t):
            continue
        new, old = (info.size if info else 0 for info in _pair(infos))
        part, read = min(new + old, limits.file_bytes), size + new + old
        if max(new, old) > _LARGER * limits.file_bytes or (LINK in (t.mode, t.was) and max(new, old) > PATH_BYTES):
            left_out.append((t.path, f"{new or old} bytes, far over the limit of a file"))
        elif len(shown) >= limits.files_per_thread or max(total + part, read // _LARGER) > limits.thread_bytes:
            left_out.append((t.path, "over the limits of a thread"))
        else:
            shown.append(t)
            total, size = total + part, read
    return draft._replace(shown=tuple(shown), left_out=tuple(left_out), size=size)


def _share(draft: _Draft) -> float:
    """Of what is compared and read in one go."""
    return draft.size / _BYTES + sum(len(_as_bytes(path)) for path in draft.compared) / _PATHS_BYTES


def _read_patches(git: Git, drafts: Sequence[_Draft]) -> list[tuple[Oid, _Patches]]:
    """The hunks of changed text files, by git's own diff, within a time limit.

    Files that one branch does not show may be compared for another. Where git then takes one of them for what
    became of a file that this branch renamed, that branch is asked for alone.
    """
    wanted = [d for d in drafts if d.compared]
    if not wanted:
        return []
    paths = dict.fromkeys(path for d in wanted for path in d.compared)
    flags = ("--raw", "-p", "-U3", "--diff-filter=MR", "--no-ext-diff", "--no-textconv", "--no-color")
    renames = RENAMES if any(t.source for d in wanted for t in d.shown) else ("--no-renames",)
    pairs = "".join(f"{old} {new}\n" for old, new in dict.fromkeys(d.trees for d in wanted)).encode()
    args = ("diff-tree", "--stdin", "-r", "-z", *renames, *flags, "--", *paths)
    out = git.run(*args, stdin=pairs, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS).out
    found = parse_patches(out)
    told = [(d, found.get(d.trees, {})) for d in wanted]
    alone = [d for d, patches in told if len(wanted) > 1 and _lacks_a_rename(d, patches)]
    mended = dict(pair for d in alone for pair in _read_patches(git, [d]))
    return [(d.history.head, mended.get(d.history.head, patches)) for d, patches in told]


def _lacks_a_rename(draft: _Draft, patches: _Patches) -> bool:
    return any(t.source and t.old != t.new and (t.path, t.source) not in patches for t in draft.shown)


def _proposals(git: Git, drafts: Sequence[_Draft], patches: Mapping[Oid, _Patches]) -> Iterator[tuple[Oid, Proposal]]:
    """The new text of added files, the hunks of those that changed or went."""
    contents = iter(read_known(git, [oid for d in drafts for t in d.shown for oid in (t.new, t.old)]))
    for draft in drafts:
        head = draft.history.head
        counted: dict[str, Touched] = {}
        texts, left_out = list[FileText](), list(draft.left_out)
        for t in draft.shown:
            new, old = next(contents), next(contents)
            patch = patches.get(head, {}).get((t.path, t.source)) if t.status in ("M", "R") else None
            counted[t.path] = _counted(t, new, old, patch)
            if LINK in (t.mode, t.was):
                continue  # the line of the file says where it leads
            if _is_binary(new) or _is_binary(old):
                left_out.append((t.path, f"binary, {len(new) or len(old)} bytes"))
            elif t.old != t.new:
                patch = _gone(old) if t.status == "D" else patch or None
                texts.append(FileText(t.path, WORDS[t.status], decode(new), patch))
        yield (
            head,
            Proposal(
                commits=draft.history.commits,
                more_commits=draft.history.more,
                touched=tuple(counted.get(t.path, t) for t in draft.touched),
                texts=tuple(texts),
                left_out=tuple(left_out),
                base=draft.history.base,
            ),
        )


def _counted(t: Touched, new: bytes, old: bytes, patch: str | None) -> Touched:
    """Lines added and removed; unknown where a file is binary, or its difference is not known."""
    if LINK in (t.mode, t.was):
        return t._replace(target=decode(new) if t.mode == LINK else "", old_target=decode(old) if t.was == LINK else "")
    if _is_binary(new) or _is_binary(old):
        return t._replace(added="-", removed="-")
    if t.status in "MR" and (patch is None or t.old == t.new):
        return t
    if t.status in "MR":
        marks = [line[:1] for line in (patch or "").split("\n")]
        return t._replace(added=str(marks.count("+")), removed=str(marks.count("-")))
    return t._replace(added=str(_lines(new)), removed=str(_lines(old)))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_HEURISTIC]


def _gone(data: bytes) -> str:
    """The hunk of a file that was deleted."""
    lines = lines_of(decode(data)) if data else []
    return "\n".join([f"@@ -1,{len(lines)} +0,0 @@", *(f"-{line}" for line in lines)])


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
