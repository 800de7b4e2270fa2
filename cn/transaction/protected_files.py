"""Protected files: what this clone has accepted, and what came from elsewhere.

Whoever can push to ``origin`` must not be able to replace a peer's key or a reviewer. The
accepted state is a local-only ref; a change is ours when the reflog shows that the commit
was made in this clone, or when a key that this clone's git config lists signed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.entries import Change, Entry, read_changes, read_tree
from cn.git.objects import empty_tree, is_ancestor, merge_bases, resolve, update_refs
from cn.git.process import Git, as_lines
from cn.git.remote import PINS
from cn.git.repository import Hub
from cn.protocol.hub_config import PATH as HUB
from cn.protocol.peers_file import PATH as PEERS
from cn.transaction.accepted_history import (
    AcceptedHistory,
    Changes,
    Judged,
    Pair,
    Parents,
    read_changes_of,
    read_parents,
)
from cn.transaction.journal import read_pushes
from cn.transaction.made_here import Again, Made, judge_again, signed
from cn.values.errors import Blocked, Refused
from cn.values.names import OWNED, PROTECTED_PATHS, Oid, is_owned, is_protected
from cn.values.text import some_of

TRUSTED_REF = "refs/cn/trusted"
_NAMED = 500
"""Paths on one command line; a file beyond them counts as made elsewhere."""


class TrustChange(NamedTuple):
    """A protected file that differs from what this clone accepted.

    ``old`` and ``new`` are blobs (None: no such file), ``commits`` those that changed it. ``instead`` is what those
    made of it whose changes count, where that is neither what was accepted nor what it is; one entry (None: no such
    file), or none.
    """

    path: str
    old: Oid | None
    new: Oid | None
    commits: tuple[Oid, ...]
    instead: tuple[Entry | None, ...] = ()


def trusted_commit(hub: Hub) -> Oid | None:
    """The commit whose protected files this clone has accepted; None in a fresh clone."""
    return resolve(hub.git, TRUSTED_REF)


def refuse_foreign(hub: Hub, root: Path, remedy: str) -> None:
    """Raise :class:`Refused` in a clone that accepted nothing: it is nobody's hub, and may be one of a peer's, in whose
    name nothing is done.
    """
    if trusted_commit(hub) is None:
        text = f"{root} may be a clone of a peer's hub: what it holds was not accepted here"
        raise Refused(text, f"{remedy}; if this is yours, 'cn trust' says so")


def accept(hub: Hub, commit: Oid) -> None:
    """Accept the protected files of ``commit``."""
    update_refs(hub.git, [(TRUSTED_REF, commit)])


def untrusted(hub: Hub, new: Oid, *, trusted: Oid | None, built: frozenset[Oid] = frozenset()) -> list[TrustChange]:
    """The protected files of ``new`` that this clone has not accepted and did not change itself.

    ``trusted`` is what was accepted, None in a fresh clone: then all of them are new. ``built`` are merges that this
    run made of commits which are judged themselves.
    """
    if trusted == new:
        return []
    # Then cn's own folders count like protected files, from what was accepted first on.
    guarded = trusted is not None and hub.config.is_true("cn.guard")

    def counts(path: str) -> bool:
        return is_protected(path) or (guarded and is_owned(path))

    changes = read_changes(hub.git, trusted or empty_tree(hub.git), new)
    changed = {c.path: c for c in changes if counts(c.path)}
    # What is as it was accepted may have been changed by us, and taken back by somebody.
    if not changed and not (trusted and _is_touched(hub.git, trusted, new, guarded=guarded)):
        return []
    start = trusted and _common(hub.git, trusted, new)
    words = [new, f"^{start}"] if start else [new]
    commits = read_parents(hub.git, *words, *([] if trusted else ["--full-history", "--", *sorted(changed)[:_NAMED]]))
    touched = {path: found for path, found in read_changes_of(hub.git, commits).items() if counts(path)}
    made_by = Made.read(hub)
    again = judge_again(hub, made_by, touched, trusted, counts) if trusted else Again()
    accepted = _Apart()
    if trusted and start and start != trusted:
        accepted = _accepted_apart(hub, made_by, again, trusted, new, start)
    foreign = {c for found in touched.values() for c in found if c not in made_by.how} - built
    if trusted:  # before, an old commit may be signed, and what came after it unknown
        foreign -= signed(hub, foreign)
        foreign |= again.uncounted | _as_others_made(hub, new, made_by, again, touched, start)
        foreign -= accepted.commits
    runs = built | made_by.by_cn
    unsure = _upon_others(made_by, commits, touched, foreign) | again.unsure
    history = AcceptedHistory(hub.git, start, commits, foreign, unsure, runs) if start else None
    found = []
    for path in sorted({*changed, *touched} if history else changed):
        made, change = touched.get(path, {}), changed.get(path)
        bad = tuple(c for c in reversed(made) if c in foreign)
        if change and path in accepted.lost:  # what was accepted is not in this history
            found.append(TrustChange(path, _oid(change.old), _oid(change.new), bad))
            continue
        known = accepted.commits | foreign
        merges = [c for c in made if len(commits[c]) > 1 and c not in foreign]
        mixed = any(len(made[c]) == len(commits[c]) or (c in runs and is_protected(path)) for c in merges)
        mixed = mixed or any((path, c) in unsure for c in made)
        if (bad or mixed) and history and (change or start == trusted or any(c not in known for c in made)):
            judged = history.judge(path, made)
            bad = tuple(c for c in reversed(made) if c in judged.by)
            if not bad and change and all(c in known for c in made):  # what was accepted is gone, and nobody's here
                bad = tuple(reversed(made))
            if bad:
                sure = [made[c] for c in made if c not in known | judged.by and (path, c) not in unsure]
                found.append(_told(path, change, bad, judged, sure))
        elif change and (bad or not made or (trusted and not start)):  # nothing explains it in what was accepted
            found.append(TrustChange(path, _oid(change.old), _oid(change.new), bad))
    return found


def _told(
    path: str, change: Change | None, bad: tuple[Oid, ...], judged: Judged, ours: Sequence[Mapping[Oid, Pair]]
) -> TrustChange:
    """``ours`` are the changes that count: the last one tells what it should be, where their histories do not."""
    (_, last) = next(iter(ours[-1].values())) if ours else (None, change.old if change else None)
    should = judged.should if judged.is_told else last
    if change is None:
        return TrustChange(path, _oid(should), _oid(judged.is_now), bad, (should,))
    instead = (should,) if should not in (change.old, change.new) else ()
    return TrustChange(path, _oid(change.old), _oid(change.new), bad, instead)


def _oid(entry: Entry | None) -> Oid | None:
    return entry and entry.oid


class _Apart(NamedTuple):
    """What was accepted of a history that main does not go on from: its ``commits``, and the paths of which changes
    are ``lost``, as git did not make them again here.
    """

    commits: frozenset[Oid] = frozenset()
    lost: frozenset[str] = frozenset()


def _accepted_apart(hub: Hub, made: Made, again: Again, trusted: Oid, new: Oid, start: Oid) -> _Apart:
    commits = frozenset(read_parents(hub.git, trusted, f"^{start}"))
    gone = read_parents(hub.git, trusted, f"^{new}")
    lost = {
        path
        for path, found in read_changes_of(hub.git, gone).items()
        if any(
            not _took_a_side(gone[c], above)
            and not ((len(gone[c]) > 1 and c in made.by_cn) or (path, c) in again.remade)
            for c, above in found.items()
        )
    }
    return _Apart(commits, frozenset(lost))


def _as_others_made(
    hub: Hub, new: Oid, made: Made, again: Again, touched: Mapping[str, Changes], start: Oid | None
) -> set[Oid]:
    """The acts here that left a file as a commit of others once did, or that were amended of such, but for what was
    accepted last, and what was picked by name: by which step it came no history tells, nor whether that commit is still
    in it.
    """
    acts = made.how.keys() - made.by_cn - made.picked_by_name
    before = read_tree(hub.git, start, touched) if start else {}
    left: dict[str, dict[Oid, set[Entry | None]]] = {}
    for path, changes in touched.items():
        for commit in acts & changes.keys():
            versions = {_entry_of(changes, commit), *again.versions.get((path, commit), ())}
            if versions := versions - {None, before.get(path)}:
                left.setdefault(path, {})[commit] = versions
    found = {commit for path in sorted(left)[_NAMED:] for commit in left[path]}
    left = {path: left[path] for path in sorted(left)[:_NAMED]}
    accepted = _touching(hub, left, start) if start else set[Oid]()
    ours = (made.how.keys() & accepted) | made.by_cn
    for path, changes in _all_changes(hub, new, left).items():
        makers: dict[Entry | None, list[Oid]] = {}
        for commit, above in changes.items():
            for entry in dict.fromkeys(entry for _, entry in above.values()):
                makers.setdefault(entry, []).append(commit)
        for commit, versions in left[path].items():
            for theirs in (makers.get(one, []) for one in versions):
                others = [one for one in theirs if one not in made.how]
                if ours.isdisjoint(theirs) and _came_apart(hub, commit, others):
                    found.add(commit)
    return found


def _came_apart(hub: Hub, commit: Oid, others: Sequence[Oid]) -> bool:
    """Is one of these unsigned, and does not stand upon this commit?"""
    unsigned = set(others) - signed(hub, others)
    apart = (not is_ancestor(hub.git, commit, one) for one in others[:_NAMED] if one in unsigned)
    return len(unsigned) > _NAMED or any(apart)


def _touching(hub: Hub, paths: Collection[str], *where: str) -> set[Oid]:
    """The commits there that change these files, which git takes in one command."""
    if not paths:
        return set()
    words = ("rev-list", *where, "--full-history", "--ignore-missing", "--", *sorted(paths))
    return {Oid(line) for line in hub.git.run(*words).lines}


def _all_changes(hub: Hub, new: Oid, paths: Collection[str]) -> dict[str, Changes]:
    """What any commit that this clone has made of these files, but for merges that took a side, and for what a peer
    sent and nobody merged: that comes into no history but by its name.
    """
    commits = _touching(hub, paths, new, f"--exclude={PINS}*", "--all", "--reflog")
    parents = read_parents(hub.git, "--no-walk", "--stdin", stdin=as_lines(sorted(commits))) if commits else {}
    return {
        path: {c: above for c, above in changes.items() if not _took_a_side(parents[c], above)}
        for path, changes in read_changes_of(hub.git, parents, paths).items()
    }


def _upon_others(
    made: Made, commits: Parents, touched: Mapping[str, Changes], foreign: Collection[Oid]
) -> set[tuple[str, Oid]]:
    """Path and commit where an act here changes a file upon a change of others: nobody knows whether that was a
    revert which stopped at a conflict, and brought more of others back.
    """
    found, acts = set[tuple[str, Oid]](), made.how.keys() - made.by_cn - set(foreign)
    for path, changes in touched.items():
        theirs = [c for c, above in changes.items() if c in foreign and not _took_a_side(commits[c], above)]
        upon = _later(theirs, commits) if theirs else set[Oid]()
        found |= {(path, c) for c in changes if c in upon and c in acts}
    return found


def _entry_of(changes: Changes, commit: Oid) -> Entry | None:
    return next(iter(changes[commit].values()))[1]


def _later(some: Collection[Oid], commits: Parents) -> set[Oid]:
    """Some commits and those that stand on them; parents come first."""
    found = set(some)
    for one, above in commits.items():
        if not found.isdisjoint(above):
            found.add(one)
    return found


def _took_a_side(parents: Sequence[Oid], above: Mapping[Oid, Pair]) -> bool:
    """Is it a merge that has a file of one of its parents, so that it made nothing of it?"""
    return not above.keys() >= set(parents)


def _common(git: Git, trusted: Oid, new: Oid) -> Oid | None:
    """The commit from which on the history of ``new`` is looked at: what was accepted, where it goes on from that; else
    one on which all stands that both have.
    """
    bases = merge_bases(git, trusted, new)
    if len(bases) > 1:
        bases = [Oid(line) for line in git.run("merge-base", "--octopus", *bases, check=False).lines]
    return bases[0] if bases else None


def is_accepted(hub: Hub, commit: Oid, trusted: Oid) -> bool:
    """Would this clone, which accepted ``trusted``, take this commit as main without a question?"""
    return not untrusted(hub, commit, trusted=trusted, built=built_by_cn(hub, commit, {commit}))


class Untrusted(Blocked):
    """What main holds by which cn acts, and nobody accepted in this clone."""


def refuse_untrusted(
    hub: Hub,
    commit: Oid,
    trusted: Oid | None,
    built: frozenset[Oid] = frozenset(),
    ours: str = "",
    *,
    main_here: bool = False,
) -> None:
    """Raise :class:`Untrusted` where ``commit`` has protected files that this clone has not accepted.

    ``ours`` is the name of the hub, if it is known; ``main_here``: it is main as it lies here, without what origin has.
    """
    foreign = untrusted(hub, commit, trusted=trusted, built=built)
    if not foreign:
        return
    # What says whom this hub knows, and who may decide, is left out of no list.
    names = some_of(sorted((c.path for c in foreign), key=lambda path: path not in (PEERS, HUB)), 10, 200)
    if trusted is None:
        raise Untrusted(
            f"this clone has not accepted what it was cloned with, by which cn acts as {ours or 'its hub'}: {names}",
            "if the hub is yours, 'cn trust' shows and accepts it; if it is a peer's, name yours with '--hub DIR'",
        )
    if hub.origin and main_here and is_ancestor(hub.git, commit, trusted):
        text = f"this clone accepted a change that main here does not have yet: {names}"
        raise Untrusted(text, "'cn sync' takes it over; then run again")
    commits = sorted({c[:12] for change in foreign for c in change.commits})
    told = f" (commit {', '.join(commits[:5])})" if commits else ""
    raise Untrusted(
        f"protected files changed elsewhere, and this clone has not accepted it: {names}{told}",
        "look at the change and accept it with 'cn trust'",
    )


def is_made_here(hub: Hub, tip: Oid, path: str) -> bool:
    """Did an act in this clone, or whoever signs with a key of ``cn.trustedKey``, bring this file of ``tip`` to what it
    is, and did no other ever change it? What was taken out meanwhile, and put back by anybody, is not what was made.
    """
    last = hub.git.run("rev-list", "-1", "--end-of-options", tip, "--", path).text
    if not last or _by_others(hub, tip, path):
        return False
    later = ("rev-list", "-1", "--full-history", "--no-merges", "--end-of-options", f"{last}..{tip}", "--", path)
    return not hub.git.run(*later).text


def _by_others(hub: Hub, tip: Oid, path: str) -> bool:
    """Has a commit of others changed this file in ``tip``, or in what was checked out here once?

    What git made of such a one here (git-revert(1), ``git commit --amend``) has their words, and the reflog shows it as
    made here.
    """
    been = hub.git.run("rev-list", "--walk-reflogs", "--ignore-missing", "HEAD", hub.main_ref, "--", check=False)
    asked = as_lines([tip, *dict.fromkeys(been.lines), "--", path])
    commits = hub.git.run("rev-list", "--full-history", "--ignore-missing", "--stdin", stdin=asked).lines
    made = Made.read(hub).how
    unknown = {Oid(line) for line in commits if line not in made}
    unknown -= signed(hub, unknown)
    parents = read_parents(hub.git, "--no-walk", "--stdin", stdin=as_lines(sorted(unknown))) if unknown else {}
    changes = read_changes_of(hub.git, parents).get(path, {})
    return any(not _took_a_side(parents[commit], above) for commit, above in changes.items())


def built_by_cn(hub: Hub, commit: Oid, given: Iterable[Oid]) -> frozenset[Oid]:
    """The commits of ``commit`` that runs of this clone made on the mains ``given``.

    The merges just built, and what a killed run pushed and origin has taken.
    """
    known = (f"^{oid}" for oid in sorted(set(given)))
    lines = hub.git.run("rev-list", "--end-of-options", commit, *known).lines
    return frozenset(Oid(line) for line in lines) | {note.new for note in read_pushes(hub)}


def _is_touched(git: Git, old: Oid, new: Oid, *, guarded: bool) -> bool:
    """Does a commit of ``old..new`` change any of them, as we write their names?"""
    where = [*PROTECTED_PATHS, *(OWNED if guarded else ())]
    words = ("rev-list", "-1", "--full-history", "--end-of-options", f"{old}..{new}", "--", *where)
    return bool(git.with_env(GIT_LITERAL_PATHSPECS="0").run(*words).text)
