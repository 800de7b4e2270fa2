"""Protected files: what this clone has accepted, and what came from elsewhere.

Whoever can push to ``origin`` must not be able to replace a peer's key or a reviewer. The
accepted state is a local-only ref; a change is ours when the reflog shows that the commit
was made in this clone, or when a key that this clone's git config lists signed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.entries import Change, Entry, find_unwritable, read_changes, read_tree
from cn.git.objects import empty_tree, is_ancestor, merge_bases, resolve, update_refs
from cn.git.process import Git, GitError, as_lines
from cn.git.repository import Hub
from cn.protocol.hub_config import PATH as HUB
from cn.protocol.peers_file import PATH as PEERS
from cn.transaction.accepted_history import AcceptedHistory, Changes, Judged, Pair, later, read_changes_of, read_parents
from cn.transaction.in_doubt import in_doubt
from cn.transaction.journal import read_pushes
from cn.transaction.made_here import ACT, AGAIN, CN, DOUBT, KNOWN, read_made, signed
from cn.values.errors import Blocked, Refused
from cn.values.names import OWNED, PROTECTED_PATHS, Oid, is_owned, is_protected
from cn.values.text import some_of, visible

TRUSTED_REF = "refs/cn/trusted"
_NAMED = 500
"""Paths on one command line; a file beyond them counts as made elsewhere."""


BACK_AT_ORIGIN = (
    "main has to go back at origin to a commit before it, such as the one that 'git rev-parse main' names here"
)


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


def forget_doubts(hub: Hub) -> None:
    """What a person has looked at is in doubt no more."""
    refs = hub.git.run("for-each-ref", "--format=%(refname)", DOUBT).lines
    update_refs(hub.git, [(ref, None) for ref in refs])


def untrusted(hub: Hub, new: Oid, *, trusted: Oid | None, built: frozenset[Oid] = frozenset()) -> list[TrustChange]:
    """The protected files of ``new`` that this clone has not accepted and did not change itself.

    ``trusted`` is what was accepted, None in a fresh clone: then all of them are new. ``built`` are merges that this
    run made of commits which are judged themselves.
    """
    if trusted == new:
        return []
    # Then cn's own folders count like protected files, from what was accepted first on.
    guarded = trusted is not None and hub.config.is_true("cn.guard")
    found = read_changes(hub.git, trusted or empty_tree(hub.git), new)
    if odd := find_unwritable(found):
        text = f"main holds {visible(odd)} twice, or by a name that git puts nowhere: nothing of it is taken"
        raise Blocked(text, BACK_AT_ORIGIN)
    changed = {c.path: c for c in found if is_protected(c.path) or (guarded and is_owned(c.path))}
    if trusted is None:
        return _made_elsewhere(hub, new, changed)
    where = [*PROTECTED_PATHS, *(OWNED if guarded else ()), *(f":(literal){path}" for path in sorted(changed)[:_NAMED])]
    git = hub.git.with_env(GIT_LITERAL_PATHSPECS="0")
    # What is as it was accepted may have been changed by us, and taken back by somebody.
    if not changed and not _is_touched(git, trusted, new, where):
        return []
    start = _common(hub.git, trusted, new)
    if start is None:
        return [_as_it_is(changed[path], ()) for path in sorted(changed)]
    commits = read_parents(hub.git, new, f"^{start}")
    try:
        touched = read_changes_of(git, commits, where)
    except GitError as failed:
        if not failed.done.too_much:
            raise
        entry = read_tree(hub.git, trusted, [HUB]).get(HUB)
        return [_as_it_is(c, ()) for _, c in sorted(changed.items())] or [_as_it_is(Change(HUB, entry, entry), ())]
    made = read_made(hub)
    accepted = frozenset() if start == trusted else frozenset(read_parents(hub.git, trusted, f"^{start}"))
    foreign = {c for changes in touched.values() for c in changes if c not in made} - built - accepted
    foreign -= signed(hub, foreign)
    doubt = in_doubt(hub, made, touched, new, trusted)
    runs = built | {c for c, how in made.items() if how == CN}
    history = AcceptedHistory(hub.git, start, commits, foreign, doubt, runs)
    return list(_judged(history, changed, touched, accepted, is_apart=start != trusted))


def _made_elsewhere(hub: Hub, new: Oid, changed: Mapping[str, Change]) -> list[TrustChange]:
    """What was not all made in this clone, which has accepted nothing."""
    if not (paths := sorted(changed)):
        return []
    made = {c for c, how in read_made(hub).items() if how != AGAIN}
    commits = read_parents(hub.git, new, "--full-history", "--", *paths[:_NAMED])
    touched = read_changes_of(hub.git, commits, paths[:_NAMED])
    by = {path: tuple(c for c in list(touched.get(path, {}))[::-1] if c not in made) for path in paths}
    return [_as_it_is(changed[path], by[path]) for path in paths if by[path] or path not in touched]


def _judged(
    history: AcceptedHistory,
    changed: Mapping[str, Change],
    touched: Mapping[str, Changes],
    accepted: Collection[Oid],
    *,
    is_apart: bool,
) -> Iterator[TrustChange]:
    """What asks. ``is_apart``: main does not go on from what was accepted."""
    foreign, doubt = history.foreign, history.unsure
    for path in sorted({*changed, *touched}):
        made, change = touched.get(path, {}), changed.get(path)
        ours = [c for c in made if c not in foreign and c not in accepted]
        theirs = [c for c in list(made)[::-1] if c in foreign]
        theirs = [c for c in theirs if not _took_a_side(history.parents[c], made[c])] or theirs
        if change and (is_apart or not ours):
            yield _as_it_is(change, tuple(theirs))
        elif ours:
            judged = history.judge(path, made)
            if bad := tuple(c for c in list(made)[::-1] if c in judged.by):
                upon = later(theirs, history.parents)
                sure = [made[c] for c in ours if c not in judged.by and c not in upon and (path, c) not in doubt]
                yield _told(path, change, bad, judged, sure)


def _as_it_is(change: Change, by: tuple[Oid, ...]) -> TrustChange:
    return TrustChange(change.path, _oid(change.old), _oid(change.new), by)


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
    note: bool = False,
) -> None:
    """Raise :class:`Untrusted` where ``commit`` has protected files that this clone has not accepted.

    ``ours`` is the name of the hub, if it is known; ``main_here``: it is main as it lies here, without what origin has.
    ``note``: what was made here, and asks, stays in doubt until it is accepted.
    """
    foreign = untrusted(hub, commit, trusted=trusted, built=built)
    if not foreign:
        return
    made, asked = read_made(hub), {c for change in foreign for c in change.commits}
    if note:
        update_refs(hub.git, [(f"{DOUBT}{c}", c) for c in sorted(asked) if made.get(c) == ACT])
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
    here = bool(asked) and asked <= made.keys()
    where = "here, with what git may have taken of others" if here else "elsewhere"
    raise Untrusted(
        f"protected files changed {where}, and this clone has not accepted it: {names}{told}",
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
    """Has a commit of others that is known here changed this file, in ``tip`` or elsewhere?

    What git made of such a one here (git-revert(1), ``git merge --squash``) has their words, and the reflog shows it as
    made here.
    """
    made = {*read_made(hub), *(note.new for note in read_pushes(hub))}
    lines = hub.git.run("rev-list", tip, *KNOWN, "--full-history", "--", path).lines
    unknown = {Oid(line) for line in lines if line not in made}
    unknown -= signed(hub, unknown)
    parents = read_parents(hub.git, "--no-walk", "--stdin", stdin=as_lines(sorted(unknown))) if unknown else {}
    changes = read_changes_of(hub.git, parents, [path]).get(path, {}) if unknown else {}
    return any(not _took_a_side(parents[commit], above) for commit, above in changes.items())


def built_by_cn(hub: Hub, commit: Oid, given: Iterable[Oid]) -> frozenset[Oid]:
    """The commits of ``commit`` that runs of this clone made on the mains ``given``.

    The merges just built, and what a killed run pushed and origin has taken.
    """
    known = (f"^{oid}" for oid in sorted(set(given)))
    lines = hub.git.run("rev-list", "--end-of-options", commit, *known).lines
    return frozenset(Oid(line) for line in lines) | {note.new for note in read_pushes(hub)}


def _is_touched(git: Git, old: Oid, new: Oid, where: Sequence[str]) -> bool:
    """Does a commit of ``old..new`` change any of them?"""
    words = ("rev-list", "-1", "--full-history", "--end-of-options", f"{old}..{new}", "--", *where)
    return bool(git.run(*words).text)
