"""What main is, and the commit a run plans on: origin's main and the commits made here, together.

Most paths are git's to merge. In cn's folders rules decide: what origin says of ledger,
queue, logs, outbox and sent stands; a thread that is done on either side is done; of a thread
changed on both sides origin's stands, and ours is kept beside. Only where commits made here were at origin once, before
its main was rewound, both sides' records stand (:mod:`cn.transaction.joined_records`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cn.git import needed_rights
from cn.git.damage import refuse_broken_ref
from cn.git.entries import Conflicted, Entry, merge_trees, merge_with_conflicts, read_changes, read_tree
from cn.git.fast_import import EntryChange, FileChange, build_commit, set_entry
from cn.git.fetch import fetch_tips
from cn.git.lfs import find_pointers
from cn.git.list_and_fetch import Fetched, list_and_fetch
from cn.git.lost_branch import elsewhere, head_branch, missing_main
from cn.git.merge_steps import first_moved, merge_step, pull_step
from cn.git.objects import (
    empty_tree,
    is_ancestor,
    list_tree,
    merge_bases,
    read_all,
    read_info,
    read_known,
    read_object,
    resolve,
    update_refs,
)
from cn.git.other_branch import differing, steps_to
from cn.git.process import CHECK_REFUSES, TOO_MUCH, GitError
from cn.git.remote import HEADS, Listing, list_remotes, mend_there, remedy_of
from cn.git.repository import ORIGIN_REF, RESCUE, Hub, half_done_in
from cn.git.sparse import bring_back
from cn.git.told import ORIGIN
from cn.git.work_clone import work_trees
from cn.protocol.hub_config import LEAVE, PATH
from cn.protocol.ledger import missing_events, numbered_lines
from cn.system.files import write_file
from cn.transaction.checkout import LAYOUT, kept_sentence
from cn.transaction.journal import read_journal, restore_path
from cn.transaction.moved_main import Origin, find_moved, find_renamed, refuse_moved, refuse_renamed
from cn.transaction.protected_files import (
    BACK_AT_ORIGIN,
    TRUSTED_REF,
    accept,
    built_by_cn,
    is_accepted,
    refuse_untrusted,
)
from cn.values.errors import Blocked, Refused
from cn.values.names import HubPath, Oid, is_local, is_protected
from cn.values.shell_words import command
from cn.values.text import counted, one_line, some_of, unix_lines, visible, without_commands
from cn.values.timestamps import from_epoch

if TYPE_CHECKING:
    from cn.transaction.joined_records import Contradiction

_GIT_READS = (".gitignore", ".gitattributes")
_FETCH_TRIES = 3
SECONDS = 60.0
_LOOK = "check the network and 'git remote -v', then run again"


class Base(NamedTuple):
    """What a run plans on.

    ``tip`` is origin's main and the local commits integrated, ``local`` main in this
    clone, ``origin`` main there (None: no origin, or it has no main yet), ``reports``
    sentences to show, ``heads`` origin's branches, where all of peers could be listed. ``asked``: is ``origin`` what
    was there a moment ago, or only what it was when this clone last knew?
    """

    tip: Oid
    local: Oid
    origin: Oid | None
    reports: tuple[str, ...]
    heads: Listing | None = None
    asked: bool = True


def observe_base(
    hub: Hub,
    *,
    dry_run: bool = False,
    check_trust: bool = True,
    hope: bool = False,
    listed: Listing | None = None,
    fetched: Fetched | None = None,
) -> Base:
    """Fetch origin's main and integrate; :class:`Blocked` where a run must not work.

    With ``dry_run`` no ref and no file is written, objects go where ``hub.git`` says.
    What origin's main is, is noted in :data:`ORIGIN_REF` once all checks let it in.
    ``check_trust=False`` is for ``cn trust``, which looks at what the check refuses. With ``hope`` origin is not
    asked: its main is taken to be what this clone last knew, and the lease of the push finds out whether it is.
    ``listed``: origin's branches, where it was asked a moment ago; ``fetched``: what else is to come with them.
    """
    refs = work_place(hub)
    local = refs[hub.main_ref]
    origin, heads, commit, reports = None, None, local, list[str]()
    hope = hope and hub.origin and ORIGIN_REF in refs
    if hub.origin:
        heads = None if hope else _observe_origin(hub, refs, local, dry_run, listed, fetched)
        origin = refs.get(ORIGIN_REF) if heads is None else heads.get(hub.main)
        if origin is not None and (pointers := find_pointers(hub.git, origin, local)):
            if not hope:
                raise _holding_pointers(hub, pointers)
            # Somebody may have pushed them: origin is asked.
            return observe_base(hub, dry_run=dry_run, check_trust=check_trust, listed=listed, fetched=fetched)
        if origin is not None:
            commit, reports = _integrated(hub, origin, local, refs, keep=not dry_run)
            reports = [*reports, *_published_with(hub, origin, local)]
    commit = _restored(hub, commit)
    if check_trust:
        trusted = refs.get(TRUSTED_REF)
        if commit != trusted:
            built = built_by_cn(hub, commit, {local, origin or local})
            refuse_untrusted(hub, commit, trusted, built, hub.name, note=not dry_run)
            # A merge that was only made now is judged as main, once it is that: origin may decline it.
            if not dry_run and commit in (local, origin):
                accept(hub, commit)
        # Only now: what this clone never took over is no loss when it is gone again.
        if origin is not None and origin != refs.get(ORIGIN_REF) and not dry_run:
            update_refs(hub.git, [(ORIGIN_REF, origin)])
            note_tracking(hub, origin)
    known = heads if heads is not None and (heads.whole or heads.fetched is not None) else None
    return Base(commit, local, origin, tuple(reports), known, not hope)


def note_tracking(hub: Hub, origin: Oid) -> None:
    """What git's own fetch or push would have noted of origin's main. A convenience: a busy ref is left as it is."""
    if hub.tracking:
        hub.git.run("update-ref", hub.tracking, origin, check=False)


class NotAtOrigin(Blocked):
    """Origin does not answer, others push faster, or nobody knows what it took."""


class OriginRefused(NotAtOrigin):
    """Origin takes nothing until somebody mends something."""


class OriginDeclined(OriginRefused):
    """Its host said no to this commit: to what is in it, or to all of ours. ``reason`` has its words."""

    reason = ""

    @classmethod
    def because(cls, reason: str, step: str) -> OriginDeclined:
        """Nothing was committed; ``step`` is what helps where it says no to all of ours."""
        error = cls(f"origin did not take main: {reason}", f"nothing was committed; {step}")
        error.step, error.reason = step, reason
        return error


class BadPlace(Blocked):
    """HEAD is not main, another work tree is there too, something is half done, or a folder of cn's is none."""


_FOLDERS = ("threads", "threads/inbox", "logs", "state")
"""Where every run reads or writes in the work tree."""


def work_place(hub: Hub) -> dict[str, Oid]:
    """cn's own refs and main, if this is a place to work in; else :class:`BadPlace` or :class:`Blocked`."""
    _whole(hub)
    form = "--format=%(refname)%00%(objectname)%00%(HEAD)"
    done = hub.git.run("for-each-ref", form, hub.main_ref, ORIGIN_REF, TRUSTED_REF)
    if done.err:
        refuse_broken_ref(hub.git_dir, done, "refs/cn/")
    rows = [line.split("\0") for line in done.lines]
    refs = {name: Oid(oid) for name, oid, _ in rows}
    if ORIGIN_REF in refs and not (hub.origin or hub.origin_url):  # a run that shall not push passes over origin
        raise _without_origin(hub)
    on_main = any(name == hub.main_ref and mark == "*" for name, _, mark in rows)
    if half_done := open_work(hub):
        raise BadPlace(
            f"{half_done} is open in {hub.root}", "finish or abort it, then run again ('git status' tells how)"
        )
    if hub.main_ref not in refs:
        raise BadPlace(*missing_main(hub))
    if not (on_main or hub.apart):
        raise BadPlace(*elsewhere(hub))
    _no_other_work_tree(hub)
    _real_folders(hub)
    for path in find_pipes(hub):
        back = bring_back(hub, path)
        text = f"{path} is no regular file, and git would wait for it without end"
        raise Blocked(text, f"move it away, and if main has one, {back} brings it back; then run again")
    return refs


def _without_origin(hub: Hub) -> Blocked:
    """Where its name was changed, or a crash left an empty configuration, origin decides all the same."""
    gone = command("git update-ref -d {}", ORIGIN_REF)
    return Blocked(
        f"{visible(str(hub.git_dir / 'config'))} names no remote origin, and this clone had one: alone it would decide "
        "what others decide too",
        "'git remote add origin URL' (or 'git remote rename NAME origin') brings it back; "
        f"if it is gone for good, {gone}",
    )


def open_work(hub: Hub) -> str:
    """What of git's is half done in the work tree, such as "a rebase": no run works before it is over. Or ""."""
    if hub.apart:
        return ""
    return half_done_in(hub.work_git_dir)


def waits_for(hub: Hub, path: HubPath) -> str:
    """What has to be before a run reads what is written into the file of a thread, in a work tree where nothing of
    git's is open; empty: one does now. Raises :class:`Refused` where git would not take it along to main.
    """
    head = hub.main if hub.apart else head_branch(hub)
    if head == hub.main:
        return ""
    if path in differing(hub, hub.main):
        raise Refused(
            f"HEAD is {visible(head or 'a detached commit')}, where {path} is not as in {hub.main}, and git takes no "
            f"change of it along to {hub.main}: nothing was decided",
            f"run {steps_to(hub, hub.main)}, then decide",
        )
    return f"HEAD is {hub.main} again"


def find_pipes(hub: Hub) -> list[str]:
    """Pipes, devices and the like where git reads what to ignore and attributes, at the top and in cn's folders."""
    paths = [f"{folder}/{name}".lstrip("/") for folder in ("", *sorted(LAYOUT)) for name in _GIT_READS]
    return [path for path in paths if _is_special(hub.root / path)]


def _is_special(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))  # git follows no link here


def _real_folders(hub: Hub) -> None:
    """What lies behind a link is no part of the work tree: others may write there, and cn must not."""
    for folder in _FOLDERS:
        here = hub.root / folder
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            what = "a link, and cn follows none" if here.is_symlink() else "no folder"
            back = command("git checkout -- {}", folder)
            raise BadPlace(f"{here} is {what}", f"move it away, and {back} brings main's folder; then run again")


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
    found = work_trees(hub.git).get(hub.main_ref, [])
    holders = [path for path in found if (path / ".git").exists()]  # else it was removed, or is a bare repository
    if len(holders) > 1:
        raise BadPlace(
            f"more than one work tree is on {hub.main}: {', '.join(visible(str(h)) for h in holders)}",
            "switch the others to another branch, or remove them with 'git worktree remove'",
        )
    if holders and not hub.apart and os.path.realpath(holders[0]) != str(hub.root):
        text = f"{hub.main} is checked out in {visible(str(holders[0]))}, and not in {visible(str(hub.root))}"
        raise BadPlace(text, f"run cn there: {command('cd {}', str(holders[0]))}")


def _observe_origin(
    hub: Hub, refs: Mapping[str, Oid], local: Oid, dry_run: bool, listed: Listing | None, fetched: Fetched | None
) -> Listing:
    """Origin's branches, once its main is here; ``listed`` are those of a moment ago, if somebody asked then."""
    known = refs.get(ORIGIN_REF)
    for _ in range(_FETCH_TRIES):
        heads = list_origin(hub, fetched) if listed is None else listed
        listed = fetched = None
        origin, tip = Origin(origin_url(hub), known, heads, lambda: list_origin(hub)), heads.get(hub.main)
        if hub.main in heads.broken:
            raise _broken_there(hub, known, dry_run)
        if tip is None:
            if known is not None:
                origin = origin._replace(heads=origin.all())  # both look at all, which is asked for once
                if moved := find_moved(hub, origin, known):
                    raise moved
                beside, renamed = find_renamed(hub, origin, known)
                way = {HEADS + name: oid for name, oid in origin.heads.items() if name.startswith(f"{hub.main}/")}
                room = f"; {one_line(min(way), 100)} there leaves no room for it" if way else ""
                text = f"origin has no main any more{beside}{room}"
                raise _rewound(hub, known, None, text, "", dry_run, renamed, way=way)
            refuse_renamed(hub, origin, local)
            return heads
        if tip == known:
            return heads
        wanted = {} if heads.fetched is not None else {"": (origin_url(hub), [(hub.main, tip)])}
        if why := fetch_tips(hub.git, wanted, SECONDS, told={"": ORIGIN}).get(""):
            text = f"origin's main cannot be fetched: {why}"
            remedy = remedy_of(why, _LOOK, needed=needed_rights.of_hub(hub.main))
            raise NotAtOrigin.uncommitted(text, BACK_AT_ORIGIN if why.startswith(CHECK_REFUSES) else remedy)
        # It may have moved between the two questions; what was brought then holds the tip.
        if resolve(hub.git, tip) is not None:
            refuse_moved(hub, origin, tip)
            _check_grown(hub, known, tip, local, dry_run, refs.get(TRUSTED_REF))
            return heads
    raise NotAtOrigin("origin's main changes faster than it can be fetched", "run again later")


def _broken_there(hub: Hub, known: Oid | None, dry_run: bool) -> Blocked:
    """A crash of origin's machine left no commit in the file of its main: git sets none while that file is there."""
    text = f"origin's own {hub.main_ref} is broken: a crash of its machine, or a tool that copies files, left no commit"
    mend = mend_there(hub.main_ref, origin_folder(hub))
    if known is None:
        return Blocked(text, f"{mend}; then run again")
    lost = _rewound(hub, known, None, text, "", dry_run)
    return Blocked(lost.text, f"{mend}; then {lost.hint}")


def _check_grown(hub: Hub, known: Oid | None, tip: Oid, local: Oid, dry_run: bool, trusted: Oid | None) -> None:
    """Neither main nor ledger of origin may lose what we knew."""
    if known is not None and not is_ancestor(hub.git, known, tip):
        dropping = _dropping(hub, known, tip, local)
        if not merge_bases(hub.git, known, tip):
            raise _made_anew(hub, known, tip, dropping, dry_run)
        text = f"origin's main was rewound: {known[:12]} is not in it any more"
        raise _rewound(hub, known, tip, text, dropping, dry_run, local=local)
    before = _taken_over(hub, known, trusted) if known else (local if is_ancestor(hub.git, local, tip) else None)
    if before is None or not (lost := ledger_losses(hub, before, tip)):
        return
    if not is_ancestor(hub.git, tip, local):  # else this run brings it back upon what a person has merged
        raise _taken_out(hub, before, tip, sorted(lost), dry_run)


def _taken_over(hub: Hub, known: Oid, trusted: Oid | None) -> Oid | None:
    """What this clone knew of origin's main, if it accepts that; else what it accepted before, where ``known`` goes on
    from that. Of all else nothing is lost here, and nothing is brought back.
    """
    if trusted is None:
        return known
    if is_ancestor(hub.git, known, trusted):  # as it is no more, where that took entries out
        return None if ledger_losses(hub, known, trusted) else known
    if is_accepted(hub, known, trusted):
        return known
    return trusted if is_ancestor(hub.git, trusted, known) else None


def _dropping(hub: Hub, known: Oid, tip: Oid, local: Oid) -> str:
    """By what main here lets go of what origin lost, and keeps what was only made here."""
    if is_ancestor(hub.git, local, known):
        return command("git reset --keep {}", tip)
    onto = command("git rebase --onto {} {} {}", tip, known, hub.main)
    if not hub.git.run("rev-list", "-1", "--merges", f"{known}..{local}").text:
        return onto
    kept = f"{RESCUE}main-{local[:16]}"  # by this name nobody takes it for what origin had
    keep = command("git update-ref {} {}", kept, local)
    return f"{keep}, then {onto} (which makes no merge again: what was written in one is at {kept} alone)"


def _made_anew(hub: Hub, known: Oid, tip: Oid, dropping: str, dry_run: bool) -> Blocked:
    """It has no commit in common with what it was: another repository, or this one with a history of its own making."""
    rescue = _rescue(known)
    if not dry_run:
        update_refs(hub.git, [(rescue, known), (_rescue(tip), tip)])
    push = command("git push --force-with-lease={} origin {}:{}", f"{hub.main_ref}:{tip}", rescue, hub.main_ref)
    count, titles = _commits(hub, known, tip, "%h %s (%an)")
    has = f"{counted(count, 'commit')} that this clone did not know ({titles})"
    back = ", then ".join([*_keeping(hub, known), push])
    taken = ", then ".join(_accepting(hub, tip, dropping))
    return Blocked(
        f"origin's main ({tip[:12]}) has nothing in common with what it was: that is another repository, or its "
        f"history was made anew; what this clone knew is kept at {rescue}",
        "'git remote -v' shows where it is, and 'git remote set-url origin URL' sets it right; if that is the right "
        f"one, and its history was made anew, {taken}; or, if nobody meant to, push back what was there ({back}): "
        f"origin has {has}, which are gone from it then, and are kept at {_rescue(tip)}",
    )


def _taken_out(hub: Hub, known: Oid, tip: Oid, lost: Sequence[str], dry_run: bool) -> Blocked:
    """Origin's main went on from ``known``, and commits of it took lines out of the ledger."""
    # Every run comes by here, and few stop.
    from cn.git.removals import find_removals, is_of_hub, is_of_ledger, named
    from cn.transaction.coming_back import coming_back

    rescue = _rescue(known)
    if not dry_run:
        update_refs(hub.git, [(rescue, known), (_rescue(tip), tip)])
    has = [one is not None for one in read_all(hub.git, [f"{commit}:{PATH}" for commit in (known, tip)])]
    left = has == [True, False]
    commits = find_removals(hub.git, known, tip, (".",) if left else (_LEDGER,), is_of_hub if left else is_of_ledger)
    merge = merge_step(hub, tip)  # by its id: where doctor says this, no run has made the rescue refs yet
    if left:
        steps = [merge, *coming_back(hub, known, commits, tip)]
        text = f"the project left cn: origin's main has no {PATH} any more, it was taken out{named(commits)}"
        come = f"{LEAVE}; to come back, {', then '.join(steps)}, then 'cn sync'"
        return Blocked(f"{text}; what this clone knew is kept at {rescue}", come)
    taken = f", taken out{named(commits)}" if commits else ""
    text = f"origin's main lost entries of the ledger: {', '.join(lost[:5])}{taken}"
    hint = f"{merge}, then 'cn sync' brings them back; if the loss is meant, {', then '.join(_accepting(hub, tip))}"
    return Blocked(f"{text}; what this clone knew is kept at {rescue}", hint)


def _accepting(hub: Hub, tip: Oid, dropping: str = "") -> list[str]:
    """How what origin has now is taken for right; ``dropping`` is what has to be done to main here before."""
    fetch, forget = (command("git fetch origin {}", hub.main_ref), command("git update-ref {} {}", ORIGIN_REF, tip))
    steps = [fetch, dropping, forget, "'cn doctor --fix', so that branches which came since come again"]
    return [step for step in steps if step]


def _rescue(oid: Oid) -> str:
    return f"{RESCUE}{oid[:16]}"


def _keeping(hub: Hub, known: Oid) -> list[str]:
    """What keeps ``known`` first, where doctor or a dry run has seen it gone before a run did."""
    return [] if resolve(hub.git, _rescue(known)) else [command("git update-ref {} {}", _rescue(known), known)]


def _rewound(
    hub: Hub,
    known: Oid,
    tip: Oid | None,
    text: str,
    dropping: str,
    dry_run: bool,
    otherwise: str = "",
    local: Oid | None = None,
    way: Mapping[str, Oid] = {},
) -> Blocked:
    """``dropping`` is what has to be done to main here before the loss can be accepted (empty: nothing),
    ``otherwise`` ends the remedy, and beside refs in the ``way`` git keeps no main: they are kept here.
    """
    rescue = _rescue(known)
    beside = tip if tip is not None and not is_ancestor(hub.git, tip, known) else None
    if not dry_run:
        update_refs(hub.git, [(rescue, known), *([(_rescue(beside), beside)] if beside else [])])
    lease = f"{hub.main_ref}:{tip or ''}"
    steps = _keeping(hub, known)
    for ref, oid in way.items():
        steps += [
            command("git fetch --refmap= origin {}:{}", ref, _rescue(oid)),
            command("git push origin {}", f":{ref}"),
        ]
    steps.append(command("git push --force-with-lease={} origin {}:{}", lease, rescue, hub.main_ref))
    push = ", then ".join(steps)
    if beside:
        count, titles = _commits(hub, known, beside, "%h %s (%an)")
        # In the hint: what origin gets in the meantime is no other trouble, which would be told again.
        has = f"{counted(count, 'commit')} that this clone did not know ({titles})" if count else "other merges"
        # Doctor and a dry run have brought and kept nothing; without the rescue ref the records here would be dropped.
        steps = [command("git fetch origin {}", hub.main_ref), command("git update-ref {} {}", rescue, known)]
        if local is None or not is_ancestor(hub.git, known, local):  # a merge of both begins with main here
            steps.append(merge_step(hub, rescue))
        steps.append(command("git update-ref {} {}", ORIGIN_REF, beside))
        hint = (
            f"origin has {has}: if they shall stay, as where a backup was restored and another clone has gone on from "
            f"there, {', then '.join(steps)}, then 'cn sync' merges both sides and pushes nothing by force; "
            f"if they shall go, push back what was there ({push}), they are kept at {_rescue(beside)}"
        )
    else:
        lags = "where the host has several copies, this is an old one: run again later; else "
        hint = f"{lags if tip is not None else ''}push it back ({push})"
    if tip is not None:
        hint += f"; if the loss is meant, {', then '.join(_accepting(hub, tip, dropping))}"
    return Blocked(f"{text}; what this clone knew is kept at {rescue}", hint + otherwise)


def _integrated(hub: Hub, origin: Oid, local: Oid, refs: Mapping[str, Oid], *, keep: bool) -> tuple[Oid, list[str]]:
    known, trusted = refs.get(ORIGIN_REF), refs.get(TRUSTED_REF)
    if origin == local or is_ancestor(hub.git, origin, local):
        before = _taken_over(hub, known, trusted) if known and known != origin else None
        restored = local
        for line in dict.fromkeys(filter(None, (before, origin))):
            restored = restore_ledger(hub, line, restored) if line != local else restored
        told = ["commits took entries out of the ledger; they are restored"]
        return restored, told if restored != local else []
    if is_ancestor(hub.git, local, origin):
        return origin, []
    former = [line for line in _former(hub, origin, local) if _taken_over(hub, line, trusted) == line]
    for line in former:
        local = restore_ledger(hub, line, local)
    merged, reports = integrate(hub, origin, local, keep=keep, join=bool(former))
    told = [
        f"what origin had before its main was rewound ({line[:12]}) is merged with what it has now" for line in former
    ]
    return merged, [*told, *reports]


def _former(hub: Hub, origin: Oid, local: Oid) -> list[Oid]:
    """What main here has, origin had once, and lost: runs of this hub made it, and what it records was done."""
    form = "--format=%(refname)%00%(objectname)"
    rows = hub.git.run("for-each-ref", form, f"--merged={local}", f"--no-merged={origin}", RESCUE).lines
    found = ((name, Oid(oid)) for name, oid in (row.split("\0") for row in rows))
    # Other names are of `cn doctor`: never at origin, maybe.
    return [oid for name, oid in found if name == _rescue(oid)]


_MOST_TITLES = 3


def _holding_pointers(hub: Hub, pointers: Sequence[str]) -> Blocked:
    """Commits made here that hold files of git-lfs go to origin by ``git push``, whose hook brings their contents:
    without these nobody else can check main out.
    """
    contents = command("git lfs push origin {}", hub.main_ref)
    push = command("git push origin {}", hub.main_ref)
    pull = pull_step(hub, hub.main_ref)
    return Blocked(
        f"commits made here on {hub.main} hold files of git-lfs, whose contents cn does not bring to origin: "
        f"{some_of(pointers, 3, 80)}",
        f"{contents}, then {push} (where origin has moved, {pull} before), then run again",
    )


def _published_with(hub: Hub, origin: Oid, local: Oid) -> list[str]:
    """Says which commits made here go to origin with what cn pushes: who made them may not expect that."""
    count, titles = _commits(hub, origin, local, "%h %s")
    goes = "goes" if count == 1 else "go"
    return [f"{counted(count, 'commit')} made here on {hub.main} {goes} to origin: {titles}"] if count else []


def _commits(hub: Hub, known: Oid, tip: Oid, form: str) -> tuple[int, str]:
    """How many commits ``tip`` has that ``known`` has not, but for merges, and the newest of them, each in a ``form``
    of git-log(1).
    """
    if known == tip:
        return 0, ""
    new = (f"^{known}", tip)
    rows = hub.git.run("log", "--no-merges", f"--format={form}", f"--max-count={_MOST_TITLES}", *new, "--").lines
    if not rows:
        return 0, ""
    count = int(hub.git.run("rev-list", "--no-merges", "--count", *new, "--").text)
    more = f" and {count - len(rows)} more" if count > len(rows) else ""
    return count, f"{', '.join(without_commands(visible(one_line(row, 60))) for row in rows)}{more}"


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


# By URL, not by name: a fetch or push by name would also write the user's ``refs/remotes/origin/*``. No network
# child writes a ref; refs are written by local children, which hold the hub's lock.


def _move_origin(url: str) -> str:
    return command("git remote set-url origin {}", url)


def list_origin(hub: Hub, fetched: Fetched | None = None) -> Listing:
    """Origin's branches now, or of too many main alone. Raises :class:`Blocked` when it does not answer."""
    key = fetched.key if fetched else ""
    urls, parts = {key: origin_url(hub)}, {key: [hub.main]}
    if fetched:
        answer = list_and_fetch(hub.git, urls, SECONDS, fetched)[key]
    else:
        answer = list_remotes(hub.git, urls, SECONDS, parts=parts)[key]
    if isinstance(answer, Listing) and answer.cut:
        answer = TOO_MUCH
    if isinstance(answer, str):
        remedy = remedy_of(answer, _LOOK, _move_origin, needed_rights.of_hub(hub.main))
        raise NotAtOrigin.uncommitted(f"origin is unreachable: {answer}", remedy)
    return answer


def origin_url(hub: Hub, *, push: bool = False) -> str:
    """The configured URL as written: git applies ``insteadOf`` itself."""
    pushed = hub.config.all("remote.origin.pushurl") if push else []
    if url := next(iter(pushed), hub.origin_url):
        return url
    raise Blocked("the remote origin has no URL", "see 'git remote -v'")


def origin_folder(hub: Hub, *, push: bool = False) -> Path | None:
    """The git directory of an origin that is on this machine."""
    url = origin_url(hub, push=push)
    if not is_local(url):
        return None
    folder = hub.root / url.removeprefix("file://")
    return folder / ".git" if (folder / ".git").is_dir() else folder


_ORIGINS = ("state/ledger/", "state/queue/", "state/turn.md", "logs/", "threads/mail/outbox/", "threads/mail/sent/")
_INBOX = "threads/inbox/"
_DONE = "threads/inbox/done/"
_DRAFTS = "threads/drafts/"
_LEDGER = "state/ledger"


def integrate(hub: Hub, origin: Oid, local: Oid, *, keep: bool, join: bool = False) -> tuple[Oid, list[str]]:
    """The merge of ``local`` into ``origin``, and sentences about what was kept beside it.

    The same two commits always give the same merge. With ``keep``, copies of what did not
    get in are written below ``.git/cn/aside``. With ``join``, the records of both sides stand.
    """
    base = hub.git.run("merge-base", origin, local, check=False)
    if not base.ok:
        raise Blocked(
            "origin's main and yours share no history",
            "is 'git remote get-url origin' the right hub? cn never joins unrelated histories",
        )
    special = _Special.read(hub, Oid(base.lines[0]), origin, local)
    wanted, ousted = special.decide()
    tree, conflicts = _merge(hub, origin, local, special, join=join)
    at = later(hub, origin, local)
    changes = {path: set_entry(path, entry) for path, entry in wanted.items()}
    changes |= {path: set_entry(path, sides.ours) for path, sides in conflicts.items()}
    told = [_kept(hub, local, path, sides.theirs, keep) for path, sides in conflicts.items()]
    if join:
        joined, twice = _joined(hub, Oid(base.lines[0]), origin, local, special)
        changes, told = changes | joined, [*told, *twice]
        ousted = {path: entry for path, entry in ousted.items() if path not in joined}
    merged = build_commit(
        hub,
        base=tree,
        parents=(origin, local),
        changes=list(changes.values()),
        message="cn: integrate local commits",
        at=at,
    )
    return merged, [*told, *(_kept(hub, local, path, entry, keep) for path, entry in ousted.items())]


_LOGS = "logs/"
_OUTBOX, _SENT = "threads/mail/outbox/", "threads/mail/sent/"


def _joined(
    hub: Hub, base: Oid, origin: Oid, local: Oid, special: _Special
) -> tuple[dict[str, FileChange | EntryChange], list[str]]:
    """The records of both sides: histories and logs line by line, others as the side that changed them has them. And
    sentences about what both sides decided, each otherwise.
    """
    from cn.transaction import joined_records  # a run needs it once in years

    changes: dict[str, FileChange | EntryChange] = {}
    told = list[str]()
    peers = set[str]()
    for path, ours in special.ours.items():
        theirs, known = special.theirs.get(path), special.base.get(path)
        folder = path.rpartition("/")[0]
        if folder.rpartition("/")[0] == _LEDGER:
            peers.add(folder)
        elif path not in special.theirs and path.startswith((_LOGS, _OUTBOX, _SENT)):
            changes[path] = set_entry(path, ours)
        elif path.startswith(_LOGS) and ours and theirs:
            before, *sides = (_lines(data) for data in read_known(hub.git, [(known or ours).oid, theirs.oid, ours.oid]))
            changes[path] = _file(path, joined_records.join_lines(before if known else None, *sides))
    sent = {_name(path) for path in (*special.theirs, *special.ours) if path.startswith(_SENT)}
    for path in {*special.theirs, *special.ours}:
        if path.startswith(_OUTBOX) and _name(path) in sent:  # sent on either side is sent
            changes[path] = set_entry(path, None)
    for folder in sorted(peers):
        months = [_months(hub, commit, folder) for commit in (base, origin, local)]
        told += [_told_twice(hub, _name(folder), one) for one in joined_records.find_contradictions(*months)]
        history = joined_records.join_history(*months)
        for name, lines in history.items():
            changes[f"{folder}/{name}"] = _file(f"{folder}/{name}", lines)
        if (folded := joined_records.fold_months(history)) is not None:
            changes[f"{folder}/open"] = FileChange(HubPath(f"{folder}/open"), folded)
    return changes, told


def _told_twice(hub: Hub, peer: str, found: Contradiction) -> str:
    merge, what = found.merge, f"{peer}/{one_line(found.topic, 80)}"
    how = f" as {merge[:12]}" if merge else ""
    text = f"{what} was merged{how} on one side, and {found.other} on the other: main has what was merged"
    keeps, shows = command("cn send {} MESSAGE", peer), command("git diff {} {}", f"{merge}^1", merge)
    trees = read_info(hub.git, [f"{merge}^{{tree}}", f"{merge}^1^{{tree}}"]) if merge else []
    brought = bool(trees) and None not in trees and trees[0] != trees[1]
    out = f"; {shows} shows what it brought, and a commit of yours takes out what shall not stay" if brought else ""
    return f"{text}, and {peer} was told both; {keeps} tells it what holds{out}"


def _lines(data: bytes) -> list[str]:
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return unix_lines(text).removesuffix("\n").split("\n") if text else []


def _events(data: bytes) -> list[str]:
    return [line for _, line in numbered_lines(data.decode("utf-8", "surrogateescape"))]


def _file(path: str, lines: Sequence[str]) -> FileChange:
    return FileChange(HubPath(path), _data(lines))


def _data(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _months(hub: Hub, commit: Oid, folder: str) -> dict[str, list[str]]:
    found = [e for e in list_tree(hub.git, commit, folder) if e.kind == "blob" and e.path.isdigit()]
    return {e.path: _events(data) for e, data in zip(found, read_known(hub.git, [e.oid for e in found]), strict=True)}


def restore_ledger(hub: Hub, known: Oid, local: Oid) -> Oid:
    """``local``, or a commit on it that has all the ledger lines of ``known`` again."""
    lost = ledger_losses(hub, known, local)
    if not lost:
        return local
    changes = [FileChange(HubPath(path), data) for path, data in sorted(lost.items())]
    return build_commit(
        hub, base=local, parents=(local,), changes=changes, message="cn: restore the ledger", at=later(hub, local)
    )


def ledger_losses(hub: Hub, old: Oid, new: Oid) -> dict[str, bytes]:
    """Path → old content and the lines that only ``new`` has, for each file that lost lines.

    An event with another end of its line is not lost, and what is no event (:func:`missing_events`) is neither lost nor
    brought back; nor does it stay where commits made it of the lines that come back.
    """
    found = read_all(hub.git, [f"{commit}:{_LEDGER}" for commit in (old, new)])
    # A file or a symlink in its place is no ledger.
    before, after = (one.oid if one and one.kind == "tree" else None for one in found)
    if before is None or before == after:
        return {}
    changes = read_changes(hub.git, before, after or empty_tree(hub.git))
    # Only the history grows for ever: ``open`` holds what is unfinished, and shrinks.
    gone = [c for c in changes if c.old and not c.path.endswith("/open")]
    was = read_known(hub.git, [c.old.oid for c in gone if c.old])
    now = iter(read_known(hub.git, [c.new.oid for c in gone if c.new]))
    losses = {}
    for change, old_data in zip(gone, was, strict=True):
        new_data = next(now) if change.new else b""
        path, is_month = f"{_LEDGER}/{change.path}", _name(change.path).isdigit()
        mine, theirs = ((_events if is_month else _lines)(data) for data in (old_data, new_data))
        known, there = set(mine), set(theirs)
        lost = missing_events(mine, there) if is_month else known - there
        if lost:
            added = missing_events(theirs, known) if is_month else there - known
            kept = [line for line in mine if line in lost or line in there]
            losses[path] = _data([*kept, *(line for line in theirs if line in added)])
    return losses


def _merge(hub: Hub, origin: Oid, local: Oid, special: _Special, *, join: bool) -> tuple[Oid, Mapping[str, Conflicted]]:
    """git's merge of everything else, and what conflicts, which only a ``join`` may.

    The special paths are set to the merge base's entries on both sides first, so that git's
    detection of renamed folders cannot move a new thread because others went to ``done/``.
    """
    sides: list[Oid] = []
    for side, changed in ((origin, special.theirs), (local, special.ours)):
        back = [set_entry(path, special.base.get(path)) for path in changed]
        at = datetime.fromtimestamp(0, UTC)
        sides.append(
            build_commit(hub, base=side, parents=(side,), changes=back, message="scratch", at=at, scratch=True)
        )
    try:
        tree, conflicts = merge_trees(hub.git, sides[0], sides[1])
        if tree is None and join:  # git's own merge would conflict in the records too, which nobody resolves by hand
            return merge_with_conflicts(hub.git, sides[0], sides[1])
    except GitError as failed:
        text = f"cannot merge origin's main with yours: {failed.done.reason}"
        raise Blocked(text, f"run {pull_step(hub, hub.main_ref)} to see why") from None
    if tree is None:
        shown = ", ".join(visible(n) for n in sorted(conflicts)[:10])
        stash, pop = _around_pull(hub, local, special.theirs)
        first, pull = first_moved(hub, local, origin), pull_step(hub, hub.main_ref)
        remedy = f"{first}run {stash}{pull}, resolve the conflict, commit, {pop}and run again"
        raise Blocked(f"your local commits conflict with origin's main in {shown}", remedy)
    return tree, {}


def _around_pull(hub: Hub, local: Oid, theirs: Collection[HubPath | str]) -> tuple[str, str]:
    """What stands before and after a pull where a thread that origin changed holds a decision that no commit has: git
    overwrites none. The next run says what becomes of it. Empty: there is none.
    """
    done = hub.git.run("diff-index", "--name-only", "-z", local, "--", _INBOX, check=False)
    if not done.ok or not set(done.fields).intersection(theirs):
        return "", ""
    stash = command("git stash push -- {}", _INBOX.rstrip("/"))
    return f"{stash} for what is decided there, then ", "'git stash pop', "


class _Special(NamedTuple):
    """The paths of cn's folders that changed on a side, and what each side has there."""

    base: Mapping[str, Entry]
    theirs: Mapping[str, Entry | None]
    ours: Mapping[str, Entry | None]
    origin_done: Mapping[str, dict[str, Entry]]
    local_done: Mapping[str, dict[str, Entry]]

    @classmethod
    def read(cls, hub: Hub, base: Oid, origin: Oid, local: Oid) -> _Special:
        theirs, ours = (
            {
                c.path: c.new
                for c in read_changes(hub.git, base, side)
                if c.path.startswith((*_ORIGINS, _INBOX, _DRAFTS)) and not is_protected(c.path)
            }
            for side in (origin, local)
        )
        names = {_name(path) for path in (*theirs, *ours) if path.startswith(_INBOX)}
        done = (_done_threads(hub, side, names) for side in (origin, local))
        return cls(read_tree(hub.git, base, {*theirs, *ours}), theirs, ours, *done)

    def decide(self) -> tuple[dict[str, Entry | None], dict[str, Entry]]:
        """Path → the entry the merge shall have, for every special path; and what of ours does not get in."""
        wanted = {path: self._decide(path) for path in sorted({*self.theirs, *self.ours})}
        wanted |= {_INBOX + name: None for name in {*self.origin_done, *self.local_done}}
        ousted = {}
        for path, entry in self.ours.items():
            # Its very content may have got into the other side's ``done/``.
            done = self.origin_done.get(_name(path), {}) if path.startswith(_INBOX) else {}
            if entry is not None and wanted[path] != entry and entry not in done.values():
                ousted[path] = entry
        return wanted, ousted

    def _decide(self, path: str) -> Entry | None:
        known = self.base.get(path)
        theirs, ours = self.theirs.get(path, known), self.ours.get(path, known)
        if path.startswith(_DONE):
            return theirs if _name(path) in self.origin_done else ours
        if path.startswith((_INBOX, _DRAFTS)):
            return theirs if path in self.theirs else ours
        # A file that only we have is no conflict, and a message in it must not be lost.
        return theirs if theirs is not None or known is not None else ours


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _done_threads(hub: Hub, commit: Oid, names: Collection[str]) -> dict[str, dict[str, Entry]]:
    found = dict[str, dict[str, Entry]]()
    for e in list_tree(hub.git, commit, _DONE.rstrip("/"), recursive=True) if names else []:
        if _name(e.path) in names:
            found.setdefault(_name(e.path), {})[_DONE + e.path] = Entry(e.mode, e.oid)
    return found


def _kept(hub: Hub, local: Oid, path: str, entry: Entry | None, keep: bool) -> str:
    if entry is None or entry.mode == "160000":  # a submodule's commit is no file
        return f"{visible(path)} was changed on both sides, and origin's stands"
    # The name depends on the commit only: looking twice keeps one copy.
    target = hub.state / "aside" / local[:12] / path
    if keep:
        (data,) = read_known(hub.git, [entry.oid])
        write_file(target, data)
    return kept_sentence(hub, path, target, "was changed on both sides, and origin's stands")


def later(hub: Hub, *commits: Oid) -> datetime:
    """The latest commit time: the result depends on its inputs alone."""
    lines = hub.git.run("show", "-s", "--format=%ct", *commits).lines
    return max(from_epoch(line) for line in lines)


def commit_time(hub: Hub, tip: Oid, now: datetime) -> datetime:
    """When a commit upon ``tip`` was made, as it says: ``now``, but where that is before the whole of main, as by a
    clock without a battery, the time of ``tip``.

    git ends its walks by these dates (``docs/reliability.md``): after some commits that are older than all others it
    finds no history in common with what was begun before.
    """
    head = (read_object(hub.git, tip) or b"").partition(b"\n\n")[0]
    lines = [line.split() for line in head.split(b"\n") if line.startswith(b"committer ")]
    made = max((from_epoch(words[-2].decode()) for words in lines), default=now)
    if now >= made:
        return now
    roots = hub.git.run("log", "--max-parents=0", "--format=%ct", "--end-of-options", tip, "--").lines
    return now if now > min(from_epoch(line) for line in roots) else made
