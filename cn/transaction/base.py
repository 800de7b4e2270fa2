"""What main is, and the commit a run plans on: origin's main and the commits made here, together."""

from __future__ import annotations

from typing import NamedTuple

from cn.git.entries import read_tree
from cn.git.fast_import import build_commit, set_entry
from cn.git.lost_branch import head_branch, missing_main
from cn.git.objects import is_ancestor, resolve, update_refs
from cn.git.remote import Listing
from cn.git.repository import ORIGIN_REF, Hub
from cn.transaction.integrate import integrate, later, ledger_losses, restore_ledger
from cn.transaction.journal import read_journal, restore_path
from cn.transaction.origin import fetch_main, list_origin
from cn.transaction.protected_files import TRUSTED_REF, accept, built_by_cn, untrusted
from cn.values.errors import Blocked
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import visible

_OPEN = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or am",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
    "BISECT_LOG": "a bisect",
}
_FETCH_TRIES = 3


class Base(NamedTuple):
    """What a run plans on.

    ``tip`` is origin's main and the local commits integrated, ``local`` main in this
    clone, ``origin`` main there (None: no origin, or it has no main yet), ``reports``
    sentences to show, ``heads`` origin's branches.
    """

    tip: Oid
    local: Oid
    origin: Oid | None
    reports: tuple[str, ...]
    heads: Listing | None = None


def observe_base(hub: Hub, *, dry_run: bool = False, check_trust: bool = True) -> Base:
    """Fetch origin's main and integrate; :class:`Blocked` where a run must not work.

    With ``dry_run`` no ref and no file is written, objects go where ``hub.git`` says.
    What origin's main is, is noted in :data:`ORIGIN_REF` once all checks let it in.
    ``check_trust=False`` is for ``cn trust``, which looks at what the check refuses.
    """
    refs = work_place(hub)
    local = refs[hub.main_ref]
    origin, heads, commit, reports = None, None, local, list[str]()
    if hub.origin:
        heads = _observe_origin(hub, refs.get(ORIGIN_REF), local, dry_run)
        origin = heads.get(hub.main)
        if origin is not None:
            commit, reports = _integrated(hub, origin, local, keep=not dry_run)
    commit = _restored(hub, commit)
    if check_trust:
        trusted = refs.get(TRUSTED_REF)
        if trusted is None and not dry_run:
            accept(hub, local)
        known = trusted or local
        if commit != known:
            _check_trust(hub, known, commit, {local, origin or local})
            if not dry_run:
                accept(hub, commit)
        # Only now: what this clone never took over is no loss when it is gone again.
        if origin is not None and origin != refs.get(ORIGIN_REF) and not dry_run:
            update_refs(hub.git, [(ORIGIN_REF, origin)])
    return Base(commit, local, origin, tuple(reports), heads)


def _check_trust(hub: Hub, known: Oid, commit: Oid, given: set[Oid]) -> None:
    foreign = untrusted(hub, commit, trusted=known, built=built_by_cn(hub, commit, given))
    if foreign:
        names = ", ".join(visible(c.path) for c in foreign[:10])
        commits = sorted({c[:12] for change in foreign for c in change.commits})
        told = f" (commit {', '.join(commits[:5])})" if commits else ""
        raise Blocked(
            f"protected files changed elsewhere, and this clone has not accepted it: {names}{told}",
            "look at the change and accept it with 'cn trust'",
        )


class BadPlace(Blocked):
    """HEAD is not main, another work tree is there too, or something is half done."""


def work_place(hub: Hub) -> dict[str, Oid]:
    """cn's own refs and main, if this is a place to work in; else :class:`BadPlace` or :class:`Blocked`."""
    _whole(hub)
    form = "--format=%(refname)%00%(objectname)%00%(HEAD)"
    lines = hub.git.run("for-each-ref", form, hub.main_ref, ORIGIN_REF, TRUSTED_REF).lines
    rows = [line.split("\0") for line in lines]
    refs = {name: Oid(oid) for name, oid, _ in rows}
    on_main = any(name == hub.main_ref and mark == "*" for name, _, mark in rows)
    open_work = next((what for name, what in _OPEN.items() if (hub.work_git_dir / name).exists()), None)
    if open_work:
        raise BadPlace(
            f"{open_work} is open in {hub.root}", "finish or abort it, then run again ('git status' tells how)"
        )
    if hub.main_ref not in refs:
        raise BadPlace(*missing_main(hub))
    if not on_main:
        head = head_branch(hub) or "a detached commit"
        raise BadPlace(
            f"HEAD is {visible(head)}, and cn works on {hub.main} only",
            f"run {command('git switch {}', hub.main)}, then run again",
        )
    _no_other_work_tree(hub)
    return refs


def _whole(hub: Hub) -> None:
    """Where history or objects are left out, "not there" says nothing about what main has."""
    if (hub.git_dir / "shallow").exists():
        raise Blocked(
            "this clone is shallow: a part of main's history is not here",
            f"{command('git fetch --unshallow {}', 'origin' if hub.origin else 'REMOTE')} brings it, then run again",
        )
    for remote, keys in hub.config.partial.items():
        unset = " and ".join(command("git config --unset-all {}", key) for key in keys)
        fetch = command("git fetch --refetch --no-filter {}", remote)
        raise Blocked(
            f"this is a partial clone: {visible(remote)} holds objects that are not here",
            f"{fetch} brings them; then {unset}, and run again",
        )


def _no_other_work_tree(hub: Hub) -> None:
    if not (hub.git_dir / "worktrees").is_dir():
        return
    holders, here = [], ""
    for line in hub.git.run("worktree", "list", "--porcelain", "-z").fields:
        if line.startswith("worktree "):
            here = line.removeprefix("worktree ")
        elif line == f"branch {hub.main_ref}":
            holders.append(here)
    if len(holders) > 1:
        raise BadPlace(
            f"more than one work tree is on {hub.main}: {', '.join(visible(h) for h in holders)}",
            "switch the others to another branch, or remove them with 'git worktree remove'",
        )


def _observe_origin(hub: Hub, known: Oid | None, local: Oid, dry_run: bool) -> Listing:
    """Origin's branches, once its main is here."""
    for _ in range(_FETCH_TRIES):
        heads = list_origin(hub)
        tip = heads.get(hub.main)
        if tip is None:
            if known is not None:
                raise _rewound(hub, known, None, "origin has no main any more", "", dry_run)
            return heads
        if tip == known:
            return heads
        fetch_main(hub)
        # It may have moved between the two questions; what was brought then holds the tip.
        if resolve(hub.git, tip) is not None:
            _check_grown(hub, known, tip, local, dry_run)
            return heads
    raise Blocked("origin's main changes faster than it can be fetched", "run again later")


def _check_grown(hub: Hub, known: Oid | None, tip: Oid, local: Oid, dry_run: bool) -> None:
    """Neither main nor ledger of origin may lose what we knew."""
    if known is not None and not is_ancestor(hub.git, known, tip):
        text = f"origin's main was rewound: {known[:12]} is not in it any more"
        raise _rewound(hub, known, tip, text, _dropping(hub, known, tip, local), dry_run)
    before = known or (local if is_ancestor(hub.git, local, tip) else None)
    if before is not None and (lost := ledger_losses(hub, before, tip)):
        text = f"origin's main lost entries of the ledger: {', '.join(sorted(lost)[:5])}"
        raise _rewound(hub, before, tip, text, "", dry_run)


def _dropping(hub: Hub, known: Oid, tip: Oid, local: Oid) -> str:
    """The command by which main here lets go of what origin lost, and keeps what was only made here."""
    if is_ancestor(hub.git, local, known):
        return command("git reset --keep {}", tip)
    return command("git rebase --onto {} {} {}", tip, known, hub.main)


def _rewound(hub: Hub, known: Oid, tip: Oid | None, text: str, dropping: str, dry_run: bool) -> Blocked:
    """``dropping`` is what has to be done to main here before the loss can be accepted (empty: nothing)."""
    rescue = f"refs/cn/rescue/{known[:16]}"
    if not dry_run:
        update_refs(hub.git, [(rescue, known)])
    lease = f"{hub.main}:{tip or ''}"
    push = command("git push --force-with-lease={} origin {}:{}", lease, rescue, hub.main_ref)
    hint = f"push it back ({push})"
    if tip is not None:
        fetch, forget = (command("git fetch origin {}", hub.main), command("git update-ref {} {}", ORIGIN_REF, tip))
        steps = [fetch, dropping, forget]
        steps.append("'cn doctor --fix', so that branches which came since come again")
        hint += f"; if the loss is meant, {', then '.join(filter(None, steps))}"
    return Blocked(f"{text}; what this clone knew is kept at {rescue}", hint)


def _integrated(hub: Hub, origin: Oid, local: Oid, *, keep: bool) -> tuple[Oid, list[str]]:
    if origin == local or is_ancestor(hub.git, local, origin):
        return origin, []
    if is_ancestor(hub.git, origin, local):
        restored = restore_ledger(hub, origin, local)
        told = ["commits made here took entries out of the ledger; they are restored"]
        return restored, told if restored != local else []
    return integrate(hub, origin, local, keep=keep)


def _restored(hub: Hub, commit: Oid) -> Oid:
    """Give back to cn's folders what a commit of a stale index took away (see ``recover``)."""
    note = read_journal(restore_path(hub))
    if note is None:
        return commit
    now = read_tree(hub.git, commit, [c.path for c in note.changes])
    back = [set_entry(c.path, c.new) for c in note.changes if now.get(c.path) == c.old]
    return build_commit(
        hub,
        base=commit,
        parents=(commit,),
        changes=back,
        message="cn: restore what a commit made over a stale index took away",
        at=later(hub, commit),
    )
