"""Merges without a work tree: what one would do, and its commit (git-merge-tree(1))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cn.core.names import Oid, is_owned, parse_oid
from cn.core.rules import MergeFacts, Person
from cn.shell.build import build_commit
from cn.shell.git import GitError
from cn.shell.hub import Hub
from cn.shell.inspect import merge_bases, tree_changes
from cn.shell.objects import read_info
from cn.shell.signing import read_signatures

_COMMITS = 500


def try_merge(
    hub: Hub,
    *,
    base: Oid,
    tip: Oid,
    head: Oid,
    touched: frozenset[str],
    message: str,
    at: datetime,
    keys: Mapping[str, str],
) -> MergeFacts:
    """The facts of merging ``head`` on ``tip`` in a run that began at ``base``.

    ``touched`` are the paths that earlier merges of the run changed, ``keys`` the signing
    keys of known people (name → key). Only objects are made; nothing points to them.
    """
    if read_info(hub.git, [head])[0] is None:
        return MergeFacts(head, common=False)
    bases = merge_bases(hub.git, base, head)
    if not bases:
        return MergeFacts(head, common=False)
    number = int(hub.git.run("rev-list", "--count", f"{base}..{head}").text)
    if number > _COMMITS:
        why = f"({number} commits: more than the {_COMMITS} whose authors cn checks; merge it by hand)"
        return MergeFacts(head, True, conflicts=(why,))
    stale = _stale(hub, bases, base)
    people = _people(hub, base, head, keys)
    if hub.git.run("merge-base", "--is-ancestor", head, tip, check=False).ok:
        return MergeFacts(head, True, people=people, merged_already=True)
    branch_paths = {c.path for c in tree_changes(hub.git, bases[0], head)}
    overlap = sorted(_clashes(branch_paths, touched))
    tree, conflicts = _merge_tree(hub, tip, head)
    if tree is None:
        return MergeFacts(head, True, stale, tuple(overlap), conflicts, people=people)
    changes = tuple(tree_changes(hub.git, tip, tree))
    commit = build_commit(hub, base=tree, parents=(tip, head), changes=(), message=message, at=at)
    return MergeFacts(head, True, stale, tuple(overlap), (), (), changes, people, False, commit)


def _stale(hub: Hub, bases: Sequence[Oid], main: Oid) -> tuple[str, ...]:
    """Paths outside cn's folders that main changed since the best merge base; empty if one has none."""
    best: tuple[str, ...] | None = None
    for merge_base in bases:
        paths = tuple(c.path for c in tree_changes(hub.git, merge_base, main) if not is_owned(c.path))
        if not paths:
            return ()
        best = paths if best is None or len(paths) < len(best) else best
    return best or ()


def _clashes(paths: set[str], touched: frozenset[str]) -> set[str]:
    """Paths in both sets, and those where one is a folder of the other."""
    clash = paths & touched
    folders = {"/".join(p.split("/")[:i]) for p in touched for i in range(1, p.count("/") + 1)}
    clash |= paths & folders
    for path in paths:
        clash |= {path for i in range(1, path.count("/") + 1) if "/".join(path.split("/")[:i]) in touched}
    return clash


def _merge_tree(hub: Hub, tip: Oid, head: Oid) -> tuple[Oid | None, tuple[str, ...]]:
    """The merged tree, or None and the conflicting paths."""
    done = hub.git.run(
        "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", tip, head, check=False
    )
    fields = done.fields
    if done.code == 0:
        return parse_oid(fields[0]), ()
    if done.code == 1:
        return None, tuple(dict.fromkeys(f for f in fields[1:] if f))
    raise GitError(done)  # no conflict: git could not do it here and now


def _people(hub: Hub, base: Oid, head: Oid, keys: Mapping[str, str]) -> tuple[Person, ...]:
    """Authors and signers of the commits that a merge would bring."""
    people: dict[tuple[str, str], Person] = {}
    for s in read_signatures(hub.git, [f"^{base}", str(head)], keys, walk=True):
        people[(s.author, s.email)] = Person(s.author, s.email)
        if s.good:
            people[(s.signer, "")] = Person(s.signer, "")
    return tuple(people.values())
