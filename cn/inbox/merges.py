"""Merge without a work tree: a merge is what the thread showed, laid on main as it is.

A thread shows what a branch changes since the commit of main that it left, its base, which the ledger keeps. So what
was read is what is merged, whatever either side's history has become meanwhile. Where main holds something else at one
of these paths than the base, there is no merge. Where the base is the one merge base, git's own merge without renames
makes the same; a property test compares them.

That main has a commit in its history does not say that it has what that changes: what came in so is no base, and is
merged as it was shown (:mod:`cn.git.taken_in`).

Where main has got commits of a branch since it was shown, with what they change, what is left of it is to be shown
before it is merged (:func:`in_part`, :mod:`cn.inbox.shown_anew`): also what changes these back, of which its thread
showed nothing. Where main has all that a branch changes by other
commits, its merge changes nothing and is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from cn.git.entries import Change, Entry, diff_commits, in_the_way, list_entries, merge_trees, read_index
from cn.git.fast_import import CommitStream, build_commit, set_entry
from cn.git.filters import find_failing, mend_filter, uncompared
from cn.git.objects import OUTPUT_BYTES, contained, list_tree, merge_bases, read_in_halves, read_info, read_kinds
from cn.git.process import Git, GitError
from cn.git.read_branches import count_files
from cn.git.repository import Hub
from cn.git.signatures import read_signatures
from cn.git.still_there import Versions, still_there
from cn.git.taken_in import read_taken_back, read_taken_in
from cn.protocol.proposal_text import MOST_FILES
from cn.protocol.rules import MOST_COMMITS, MergeFacts, Person, TreeChange
from cn.transaction.commit import local_changes
from cn.transaction.mailbox_main import private_in
from cn.transaction.unplaced import shown_by
from cn.values.names import NameRefused, Oid, fold, folders_above, is_oid, is_owned, parse_hub_path

_HEADS = 500
_MOST_OF_ANOTHER = 64 << 20
"""Bytes that name the files of a peer's main and what they hold: some 600,000 files."""
_FILES = ("100644", "100755")
_ABSENT = "000000"


@dataclass(frozen=True)
class MergeCandidate:
    """A branch against main.

    ``shown`` is the base against which its thread shows it (or no id: it does not show all of it), ``bases`` is where
    it leaves main (the head itself when main has it, none for a stranger), then the one that counts, ``left`` what they
    were where none counts; ``commits`` what
    main has not, ``count`` their number, ``people`` their authors and signers, ``unknown`` those among them whose
    signatures have no form that git knows, ``garbled`` those in an encoding that git cannot show. ``changes`` is what
    the branch changes
    since that base, ``since`` the paths outside cn's folders that main does, where that was asked. ``against`` is main,
    or what it was before it took commits of the branch in without what they change. ``private`` is a commit with cn's
    own folders that a merge would publish, where the mailbox is a remote of its own. ``failed`` is set where git could
    not tell. ``here``: the clone has the commit.
    """

    head: Oid
    shown: str = ""
    bases: tuple[Oid, ...] = ()
    commits: frozenset[Oid] = frozenset()
    count: int = 0
    people: tuple[Person, ...] = ()
    unknown: tuple[Oid, ...] = ()
    garbled: tuple[Oid, ...] = ()
    changes: tuple[Change, ...] = ()
    since: tuple[str, ...] = ()
    private: str = ""
    failed: GitError | None = None
    against: Oid | None = None
    here: bool = True
    left: tuple[Oid, ...] = ()

    @property
    def is_open(self) -> bool:
        """Is there more to know: would a merge bring something, within the limits?"""
        new = bool(self.bases) and self.head not in self.bases and self.failed is None
        return new and self.count <= MOST_COMMITS


Asked = tuple[Oid, str]
"""A head, and the base against which it was shown."""


def read_candidates(
    git: Git,
    main: Oid,
    asked: Sequence[Asked],
    keys: Mapping[str, str],
    *,
    published: Sequence[Oid] | None = None,
    since: bool = False,
) -> dict[Asked, MergeCandidate]:
    """One for each of ``asked``; ``keys`` are the signing keys of known people (name → key).

    ``published`` are the commits of main that a mailbox of its own has; None: main is published as it is.
    ``since``: what main changed meanwhile is read too.
    """
    there = _there(git, asked)
    candidates = {one: MergeCandidate(*one, here=False) for one in asked}
    for start in range(0, len(there), _HEADS):
        found = read_in_halves(
            there[start : start + _HEADS],
            lambda some: _complete(git, main, keys, _ranges(git, main, some), published, since=since),
            lambda one, error: [MergeCandidate(*one, failed=error)],
        )
        candidates.update(((c.head, c.shown), c) for c in found)
    return candidates


def _complete(
    git: Git,
    main: Oid,
    keys: Mapping[str, str],
    candidates: Sequence[MergeCandidate],
    published: Sequence[Oid] | None,
    *,
    since: bool,
) -> list[MergeCandidate]:
    """What else a merge of them depends on, where there is one to make."""
    based = _with_base(git, [one for one in candidates if one.is_open])
    found = [one for one in based if one.is_open]
    if found:
        found = _with_changes(git, _with_people(git, keys, found))
        found = _with_since(git, main, found) if since else found
        found = found if published is None else _with_private(git, published, found)
    return [*found, *(one for one in (*candidates, *based) if not one.is_open)]


def _ranges(git: Git, main: Oid, asked: Sequence[Asked]) -> list[MergeCandidate]:
    """What each head has that main has not, and where it leaves main.

    Where main took commits of it in without what they change, this is asked of main as it was before that.
    """
    found = {(one.head, one.shown): one for one in _plain_ranges(git, main, asked)}
    taken = read_taken_in(git, main, [base for one in found.values() for base in one.bases])
    earlier: dict[Oid, list[Asked]] = {}
    for key, one in found.items():
        lost = [taken[base] for base in one.bases if base in taken and (base == one.head or taken[base].missing)]
        if lost:
            earlier.setdefault(min(lost, key=lambda way: way.order).before, []).append(key)
    for before, some in earlier.items():
        found.update(((one.head, one.shown), one) for one in _ranges(git, before, some))
    return list(found.values())


def _plain_ranges(git: Git, main: Oid, asked: Sequence[Asked]) -> list[MergeCandidate]:
    lines = "\n".join([f"^{main}", *(head for head, _ in asked), ""]).encode()
    rows = git.run("rev-list", "--parents", "--stdin", stdin=lines, max_out=OUTPUT_BYTES).lines
    parents: dict[Oid, list[Oid]] = {}
    for row in rows:
        commit, *above = (Oid(word) for word in row.split(" "))
        parents[commit] = above
    return [replace(_range(git, main, head, parents), shown=shown, against=main) for head, shown in asked]


def _range(git: Git, main: Oid, head: Oid, parents: Mapping[Oid, Sequence[Oid]]) -> MergeCandidate:
    """``parents`` names all that main has not, so every other parent is in main."""
    if head not in parents:
        return MergeCandidate(head, bases=(head,))
    commits, bases = {head: True}, dict[Oid, bool]()  # in the order they are met
    waiting = [head]
    while waiting and len(commits) <= MOST_COMMITS:
        for parent in parents[waiting.pop()]:
            if parent not in parents:
                bases[parent] = True
            elif parent not in commits:
                commits[parent] = True
                waiting.append(parent)
    count, found = len(commits), list(bases)
    if count > MOST_COMMITS:  # the walk ended early
        count = int(git.run("rev-list", "--count", f"{main}..{head}").text)
        found = merge_bases(git, main, head)
    return MergeCandidate(head, "", tuple(found), frozenset(commits), count)


def _with_people(git: Git, keys: Mapping[str, str], candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    """Authors and signers of the commits that a merge would bring."""
    commits = list(dict.fromkeys(c for one in candidates for c in sorted(one.commits)))
    of: dict[Oid, list[Person]] = {}
    unknown, garbled = set[Oid](), set[Oid]()
    for s in read_signatures(git, commits, keys):
        of[s.commit] = [Person(s.author, s.email), *([Person(s.signer, "")] if s.good else [])]
        unknown.update([s.commit] if s.unknown else [])
        garbled.update([s.commit] if s.encoding else [])
    return [
        replace(
            one,
            people=tuple(dict.fromkeys(p for c in sorted(one.commits) for p in of[c])),
            unknown=tuple(sorted(one.commits & unknown)),
            garbled=tuple(sorted(one.commits & garbled)),
        )
        for one in candidates
    ]


def _with_base(git: Git, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    """The base that counts is the one that was shown, if main has it: else nobody read what a merge would bring."""
    asked: dict[Oid, list[Oid]] = {}
    for one in candidates:
        if one.against is not None and is_oid(one.shown):
            asked.setdefault(one.against, []).append(Oid(one.shown))
    held = {(main, base) for main, bases in asked.items() for base in contained(git, main, bases)}
    return [
        replace(one, bases=(Oid(one.shown),))
        if (one.against, one.shown) in held
        else replace(one, bases=(), left=one.bases)
        for one in candidates
    ]


def _with_changes(git: Git, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    found = diff_commits(git, [(one.bases[0], one.head) for one in candidates])
    return [replace(one, changes=tuple(found[one.bases[0], one.head])) for one in candidates]


def _with_since(git: Git, main: Oid, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    found = diff_commits(git, [(one.bases[0], main) for one in candidates])
    paths = {base: tuple(c.path for c in changes if not is_owned(c.path)) for (base, _), changes in found.items()}
    return [replace(one, since=paths[one.bases[0]]) for one in candidates]


def _with_private(git: Git, published: Sequence[Oid], candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    """One question where none has any."""
    found = private_in(git, [one.head for one in candidates], published)
    if not found or len(candidates) == 1:
        return [replace(one, private=found) for one in candidates]
    half = len(candidates) // 2
    return [one for some in (candidates[:half], candidates[half:]) for one in _with_private(git, published, some)]


class MainFiles:
    """The files of main outside cn's folders, as the merges of a run leave them."""

    def __init__(self, git: Git, main: Oid, max_out: int | None = None) -> None:
        """``max_out``: of another's main no more is read, in bytes."""
        wanted = [e.path for e in list_tree(git, main) if not is_owned(e.path)]
        self._files = list_entries(git, main, wanted, max_out=max_out) if wanted else {}
        self._below = Counter(folder for path in self._files for folder in folders_above(path))
        self._names = {fold(name): name for name in sorted([*self._files, *self._below])}

    def differing(self, changes: Iterable[Change]) -> tuple[str, ...]:
        """The paths at which main holds something else than these changes begin with."""
        return tuple(c.path for c in changes if not is_owned(c.path) and self._files.get(c.path) != c.old)

    def at(self, path: str) -> Entry | None:
        """What it holds there."""
        return self._files.get(path)

    def has(self, changes: Iterable[Change]) -> bool:
        """Does main hold what these changes make?"""
        return all(self._files.get(c.path) == c.new for c in changes)

    def obstacles(self, changes: Sequence[Change]) -> tuple[list[str], list[str]]:
        """New paths where main has a file for a folder or a folder for a file, and those that would be another's.

        The second in a file system that knows no case or normal forms (macOS, Windows): of main's, or of one another.
        """
        gone = {c.path for c in changes if c.new is None}
        lost = Counter(folder for path in gone for folder in folders_above(path))
        crossing, clashing, new = list[str](), list[str](), dict[str, str]()

        def holds(folder: str) -> bool:
            return self._below[folder] > lost[folder]

        for path in (c.path for c in changes if c.old is None):
            above = list(folders_above(path))
            if holds(path) or any(name in self._files and name not in gone for name in above):
                crossing.append(path)
            for name in (*above, path):
                old = self._names.get(fold(name))
                if old is None or not ((old in self._files and old not in gone) or holds(old)):
                    old = new.setdefault(fold(name), name)  # where the branch renames one of main's, too
                if old != name:
                    clashing.append(f"{name} and {old}")
                    break
        return crossing, clashing

    def add(self, changes: Iterable[Change]) -> None:
        """These changes are in main now."""
        for change in changes:
            folders = list(folders_above(change.path))
            if change.new is None:
                del self._files[change.path]
                self._below.subtract(folders)
                continue
            if change.old is None:
                self._below.update(folders)
                self._names.update((fold(name), name) for name in (*folders, change.path))
            self._files[change.path] = change.new


def in_part(git: Git, main: Oid, asked: Sequence[Asked]) -> set[Asked]:
    """Those that main has got a part of since they were shown, so that what was shown cannot be laid on it any more.

    Each was shown against a base that is known. One process where there are none.
    """
    there = _there(git, asked)
    found = read_in_halves(there, lambda some: _plain_ranges(git, main, some), lambda one, error: [])
    moved = [(one.head, one.shown) for one in found if _left_since(git, one)]
    if not moved:
        return set()
    # What came in without its changes is no part that main has.
    left = {(one.head, one.shown): one.bases for one in _ranges(git, main, moved) if _left_since(git, one)}
    shown = [MergeCandidate(*one, bases=(Oid(one[1]),), against=main) for one in moved if one in left]
    shown = _with_changes(git, [one for one in _with_base(git, shown) if one.bases])
    files = MainFiles(git, main)
    return {
        (one.head, one.shown)
        for one in shown
        if _takes_back(git, files, left[one.head, one.shown], one)
        or (files.differing(one.changes) and not _all_there(git, main, files, one))
    }


def _takes_back(git: Git, files: MainFiles, got: Sequence[Oid], candidate: MergeCandidate) -> tuple[str, ...]:
    """The paths at which a branch changes back what main has ``got`` of its own commits.

    Beside the base that it was shown against it changes nothing there: nobody read that, and no merge would bring it.
    """
    read = {change.path for change in candidate.changes}
    found = diff_commits(git, [(commit, candidate.head) for commit in got]) if got else {}
    changes = (change for some in found.values() for change in some if change.path not in read)
    back = (c.path for c in changes if not is_owned(c.path) and files.at(c.path) != c.new)
    return tuple(dict.fromkeys(back))


def _left_since(git: Git, candidate: MergeCandidate) -> bool:
    """Does it leave main elsewhere than where it was shown? Of a merge of several branches some may have come in, and
    the others begin where it was shown.
    """
    bases = candidate.bases
    if not bases or candidate.head in bases:
        return False
    if candidate.shown not in bases:
        return True
    main = candidate.against
    return main is not None and len(bases) > 1 and candidate.shown not in merge_bases(git, main, candidate.head)


def _there(git: Git, asked: Iterable[Asked]) -> list[Asked]:
    unique = list(dict.fromkeys(asked))
    kinds = read_kinds(git, [head for head, _ in unique])
    return [one for one, kind in zip(unique, kinds, strict=True) if kind == "commit"]


def _all_there(git: Git, main: Oid, files: MainFiles, candidate: MergeCandidate) -> bool:
    """Has this main all that it changes, by other commits? Then git's own merge of the two would be main.

    Not where main took commits of it in without what they change: git calls these merged.
    """
    changes = candidate.changes
    if any(is_owned(change.path) for change in changes):
        return False
    if files.has(changes):
        return True
    if candidate.against != main:
        return False
    (tree,) = read_info(git, [f"{main}^{{tree}}"])
    return tree is not None and merge_trees(git, main, candidate.head).tree == tree.oid


def own_main(git: Git, main: Oid, head: Oid) -> Oid:
    """Main, or what it was before it took commits of this head in without what they change."""
    return _ranges(git, main, [(head, "")])[0].against or main


def own_base(git: Git, main: Oid, head: Oid) -> Oid | None:
    """Where a head leaves main, commits apart that main took in without what they change."""
    return next(iter(merge_bases(git, own_main(git, main, head), head)), None)


def read_facts(git: Git, main: Oid, head: Oid) -> MergeFacts:
    """What a merge of a head into this main would meet, as far as its creator can know before it is read there.

    Raises :class:`GitError`, limited, where there is more of that main than cn compares.
    """
    shown = own_base(git, main, head) or ""
    candidate = read_candidates(git, main, [(head, shown)], {})[head, shown]
    if candidate.failed is not None:
        raise candidate.failed
    if not candidate.bases:
        return MergeFacts(head, common=False)
    if head in candidate.bases:
        return MergeFacts(head, True, merged_already=True)
    if candidate.count > MOST_COMMITS:
        return MergeFacts(head, True, commits=candidate.count)
    files, changes = MainFiles(git, main, _MOST_OF_ANOTHER), candidate.changes
    if files.differing(changes) and _all_there(git, main, files, candidate):
        return MergeFacts(head, True, all_there=True)
    crossing, clashing = files.obstacles(changes)
    named = count_files(git, candidate.bases[0], head) if len(changes) > MOST_FILES else 0
    return MergeFacts(
        head,
        True,
        unnamed=named if named > MOST_FILES else 0,
        stale=files.differing(changes),
        conflicts=tuple(crossing),
        clashes=tuple(clashing),
        changes=tuple(map(_tree_change, changes)),
    )


def _without_base(git: Git, candidate: MergeCandidate) -> MergeFacts:
    """Why nobody read what a merge of it would bring."""
    head = candidate.head
    if not candidate.left:
        return MergeFacts(head, common=False)
    if is_oid(candidate.shown):
        return MergeFacts(head, True, shown_upon=candidate.shown)
    return MergeFacts(head, True, unnamed=count_files(git, candidate.left[0], head))


class _Waiting(NamedTuple):
    """A thread that is undecided: its name, its head, and what that changes."""

    name: str
    head: Oid
    changes: tuple[Change, ...]


class Merges:
    """The merges of one run that began at ``base``, upon each other; a context manager.

    ``keys`` and ``published`` are those of :func:`read_candidates`. With ``always`` a branch must contain all that main
    has outside cn's folders, what the run merged before included. Only objects are made, nothing points to them; they
    are there for other processes after :meth:`flush`.
    """

    def __init__(
        self,
        hub: Hub,
        base: Oid,
        local: Oid,
        at: datetime,
        keys: Mapping[str, str],
        published: Sequence[Oid] | None,
        *,
        always: bool,
    ) -> None:
        self._hub, self._base, self._local, self._at, self._keys, self._always = hub, base, local, at, keys, always
        self._published = published
        self._candidates: dict[Asked, MergeCandidate] = {}
        self._there: dict[Asked, bool] = {}
        self._merged: dict[str, bool] = {}
        self._commits: set[Oid] = set()
        self._heads: set[Oid] = set()
        self._dirty: set[str] = set()
        self._known: Collection[str] = ()
        self._shown_by: Mapping[str, str] = {}
        self._waiting: list[_Waiting] = []
        self._stream = CommitStream(hub)

    def __enter__(self) -> Merges:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        else:
            self._stream.abandon()

    @cached_property
    def _main(self) -> MainFiles:
        return MainFiles(self._hub.git, self._base)

    def read(self, asked: Sequence[Asked], waiting: Mapping[Asked, str] = MappingProxyType({})) -> None:
        """Read what these merges need to know, all at once. ``waiting`` names the threads that are undecided."""
        if not asked:
            return
        git, published = self._hub.git, self._published
        self._candidates = read_candidates(git, self._base, asked, self._keys, published=published, since=self._always)
        brought = {commit for one in self._candidates.values() for commit in one.commits - {one.head}}
        inside = {one: name for one, name in waiting.items() if one[0] in brought and is_oid(one[1])}
        found = diff_commits(self._hub.git, [(base, head) for head, base in inside]) if inside else {}
        self._waiting = [_Waiting(name, one[0], tuple(found[one[1], one[0]])) for one, name in inside.items()]
        paths = {c.path for one in self._candidates.values() for c in one.changes}
        self._dirty = set(local_changes(self._hub, self._local, sorted(paths))) if paths else set()
        self._known = read_index(self._hub.git) if self._dirty else ()
        self._shown_by = shown_by(self._hub, sorted(self._dirty))

    def flush(self) -> None:
        """Make every commit readable for all."""
        self._stream.close()

    def accept(self, asked: Asked) -> None:
        """The merge, as it was tried last, was taken: the next ones are made upon it."""
        candidate = self._candidates[asked]
        if not self._there.get(asked):
            self._main.add(candidate.changes)
        self._merged.update((c.path, True) for c in candidate.changes)
        self._commits |= candidate.commits
        self._heads.add(candidate.head)

    def try_merge(self, tip: Oid, asked: Asked, message: str) -> MergeFacts:
        """The facts of merging a head on ``tip``, which is the base or the last merge accepted."""
        candidate, head = self._candidates[asked], asked[0]
        if candidate.failed is not None:
            raise candidate.failed
        if not candidate.bases:
            return _without_base(self._hub.git, candidate)
        if candidate.count > MOST_COMMITS:
            return MergeFacts(head, True, commits=candidate.count)
        if head in candidate.bases or head in self._heads or self._came_in(candidate):
            back = head in candidate.bases and bool(read_taken_back(self._hub.git, self._base, [asked]))
            return MergeFacts(head, True, people=candidate.people, merged_already=True, taken_back=back)
        changes, stale = candidate.changes, self._main.differing(candidate.changes)
        if stale and self._is_all_there(asked):
            changes, stale = (), ()
        elif self._always:
            stale = tuple(dict.fromkeys((*candidate.since, *self._merged, *stale)))
        got = [Oid(commit) for commit in sorted(self._heads & candidate.commits)]
        stale = (*stale, *_takes_back(self._hub.git, self._main, got, candidate))
        crossing, clashing = self._main.obstacles(changes)
        facts = MergeFacts(
            head,
            True,
            stale=stale,
            conflicts=tuple(crossing),
            dirty=tuple(c.path for c in changes if c.path in self._dirty),
            untracked=self._untracked(changes),
            uncompared=self._uncompared(changes),
            shown_by=tuple(self._shown_by[c.path] for c in changes if c.path in self._shown_by),
            clashes=tuple(clashing),
            changes=tuple(_tree_change(c) for c in changes if c.path not in stale),  # a rebase may take the others out
            people=candidate.people,
            unknown=candidate.unknown,
            garbled=candidate.garbled,
            swallowed=self._swallowed(candidate),
            private=candidate.private,
        )
        if stale or crossing or not all(map(_can_be_laid, changes)):
            return facts
        return replace(facts, commit=self._commit(tip, head, changes, message))

    def _untracked(self, changes: Sequence[Change]) -> tuple[str, ...]:
        dirty = (change for change in changes if change.path in self._dirty)
        ways = (in_the_way(self._hub.root, change, self._known) for change in dirty)
        return tuple(dict.fromkeys(filter(None, ways)))

    def _uncompared(self, changes: Sequence[Change]) -> tuple[str, str] | None:
        failing = find_failing(self._hub.git, [c.path for c in changes if c.path in self._dirty])
        return (uncompared(*failing), f"{mend_filter(*failing)}; the next run tries again") if failing else None

    def _is_all_there(self, asked: Asked) -> bool:
        """Has main all of it? What the run itself merged at these paths is no commit that git could be asked about."""
        candidate = self._candidates[asked]
        if any(change.path in self._merged for change in candidate.changes):
            there = self._main.has(candidate.changes) and not any(is_owned(c.path) for c in candidate.changes)
        else:
            there = _all_there(self._hub.git, self._base, self._main, candidate)
        self._there[asked] = there
        return there

    def has(self, asked: Asked) -> bool:
        """Is the commit in this clone? Another one may have let it in, and its branch be gone since."""
        return self._candidates[asked].here

    def took_part_of(self, asked: Asked) -> bool:
        """Did this run merge commits of it, so that what is left of it is to be shown first?"""
        return bool(self._heads & self._candidates[asked].commits)

    def _swallowed(self, candidate: MergeCandidate) -> tuple[str, ...]:
        """Threads that wait, whose heads this merge would bring without all that they change."""
        laid = {c.path: c.new for c in candidate.changes}

        def is_lost(waiting: _Waiting) -> bool:
            rest = [c for c in waiting.changes if c.path not in laid]
            again = [Versions(c.old, c.new, laid[c.path]) for c in waiting.changes if c.path in laid]
            return not (self._main.has(rest) and all(still_there(self._hub.git, again)))

        others = [
            w for w in self._waiting if w.head in candidate.commits and w.head not in (candidate.head, *self._heads)
        ]
        return tuple(waiting.name for waiting in others if is_lost(waiting))

    def _came_in(self, candidate: MergeCandidate) -> bool:
        """Did it come with a branch that this run merged, and with it all that it changes?"""
        return candidate.head in self._commits and all(
            still_there(self._hub.git, [Versions(c.old, c.new, self._main.at(c.path)) for c in candidate.changes])
        )

    def _commit(self, tip: Oid, head: Oid, changes: Sequence[Change], message: str) -> Oid:
        parents, laid = (tip, head), [set_entry(c.path, c.new) for c in changes]
        if not self._hub.signs:
            return self._stream.commit(parents, laid, message, self._at)
        return build_commit(self._hub, base=tip, parents=parents, changes=laid, message=message, at=self._at)


def _tree_change(change: Change) -> TreeChange:
    new = change.new.mode if change.new else _ABSENT
    return TreeChange(change.path, new, change.old.mode if change.old else _ABSENT)


def _can_be_laid(change: Change) -> bool:
    """Is it a plain file, before and after, outside cn's folders, with a path that cn writes?"""
    if is_owned(change.path) or any(entry and entry.mode not in _FILES for entry in (change.old, change.new)):
        return False
    try:
        parse_hub_path(change.path)
    except NameRefused:
        return False
    return True
