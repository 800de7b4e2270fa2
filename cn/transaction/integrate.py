"""Bring origin's main and the commits that people made here together.

Most paths are git's to merge. In cn's folders rules decide: what origin says of ledger,
queue, logs, outbox and sent stands; a thread that is done on either side is done; of a thread
changed on both sides origin's stands, and ours is kept beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cn.git.entries import Change, Entry, read_changes, read_tree
from cn.git.fast_import import FileChange, build_commit, set_entry
from cn.git.merge_tree import merge_trees
from cn.git.objects import list_tree, read_all, read_known
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.system.files import write_file
from cn.transaction.kept_copies import kept_sentence
from cn.values.errors import Blocked
from cn.values.names import HubPath, Oid, is_protected
from cn.values.shell_words import command
from cn.values.text import visible
from cn.values.timestamps import from_epoch

_ORIGINS = ("state/ledger/", "state/queue/", "state/turn.md", "logs/", "threads/mail/outbox/", "threads/mail/sent/")
_INBOX = "threads/inbox/"
_DONE = "threads/inbox/done/"
_LEDGER = "state/ledger"


def integrate(hub: Hub, origin: Oid, local: Oid, *, keep: bool) -> tuple[Oid, list[str]]:
    """The merge of ``local`` into ``origin``, and sentences about what was kept beside it.

    The same two commits always give the same merge. With ``keep``, copies of what did not
    get in are written below ``.git/cn/aside``.
    """
    base = _merge_base(hub, origin, local)
    special = _Special.read(hub, base, origin, local)
    wanted = special.decide()
    tree = _merge(hub, origin, local, special)
    at = later(hub, origin, local)
    changes = [set_entry(path, entry) for path, entry in wanted.items()]
    merged = build_commit(
        hub, base=tree, parents=(origin, local), changes=changes, message="cn: integrate local commits", at=at
    )
    return merged, [_kept(hub, local, path, entry, keep) for path, entry in special.ousted.items()]


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
    """Path → old content and the lines that only ``new`` has, for each file that lost lines."""
    found = read_all(hub.git, [f"{commit}:{_LEDGER}" for commit in (old, new)])
    # A file or a symlink in its place is no ledger.
    before, after = (one.oid if one and one.kind == "tree" else None for one in found)
    if before is None or before == after:
        return {}
    gone: list[Change]
    if after is not None:
        gone = [c for c in read_changes(hub.git, before, after) if c.old]
    else:
        listed = list_tree(hub.git, before, recursive=True)
        gone = [Change(e.path, Entry(e.mode, e.oid), None) for e in listed]
    # Only the history grows for ever: ``open`` holds what is unfinished, and shrinks.
    gone = [c for c in gone if not c.path.endswith("/open")]
    was = read_known(hub.git, [c.old.oid for c in gone if c.old])
    now = iter(read_known(hub.git, [c.new.oid for c in gone if c.new]))
    losses = {}
    for change, old_data in zip(gone, was, strict=True):
        new_data = next(now) if change.new else b""
        mine, theirs = old_data.splitlines(keepends=True), new_data.splitlines(keepends=True)
        known, left = set(mine), set(theirs)
        if not known <= left:
            extra = [line for line in theirs if line not in known]
            losses[f"{_LEDGER}/{change.path}"] = b"".join(mine + extra)
    return losses


def _merge_base(hub: Hub, origin: Oid, local: Oid) -> Oid:
    done = hub.git.run("merge-base", origin, local, check=False)
    if not done.ok:
        raise Blocked(
            "origin's main and yours share no history",
            "is 'git remote get-url origin' the right hub? cn never joins unrelated histories",
        )
    return Oid(done.lines[0])


def _merge(hub: Hub, origin: Oid, local: Oid, special: _Special) -> Oid:
    """git's merge of everything else.

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
    except GitError as failed:
        text = f"cannot merge origin's main with yours: {failed.done.reason}"
        raise Blocked(text, f"run {_pull(hub)} to see why") from None
    if tree is None:
        shown = ", ".join(visible(n) for n in sorted(conflicts)[:10])
        raise Blocked(
            f"your local commits conflict with origin's main in {shown}",
            f"run {_pull(hub)}, resolve the conflict, commit, and run again",
        )
    return tree


def _pull(hub: Hub) -> str:
    """As it works where nothing of git is configured: it names no default for diverged branches."""
    return command("git pull --no-rebase origin {}", hub.main)


@dataclass
class _Special:
    """The paths of cn's folders that changed on a side, and what each side has there."""

    base: Mapping[str, Entry]
    theirs: Mapping[str, Entry | None]
    ours: Mapping[str, Entry | None]
    origin_done: Mapping[str, dict[str, Entry]]
    local_done: Mapping[str, dict[str, Entry]]
    ousted: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def read(cls, hub: Hub, base: Oid, origin: Oid, local: Oid) -> _Special:
        theirs = {c.path: c.new for c in read_changes(hub.git, base, origin) if _is_special(c.path)}
        ours = {c.path: c.new for c in read_changes(hub.git, base, local) if _is_special(c.path)}
        names = {n for p in (*theirs, *ours) if (n := _thread(p))}
        pending = {_INBOX + name for name in names}
        theirs_done, ours_done = _done_threads(hub, origin, names), _done_threads(hub, local, names)
        return cls(read_tree(hub.git, base, {*theirs, *ours, *pending}), theirs, ours, theirs_done, ours_done)

    def decide(self) -> dict[str, Entry | None]:
        """Path → the entry the merge shall have, for every special path."""
        wanted: dict[str, Entry | None] = {}
        for path in sorted({*self.theirs, *self.ours}):
            wanted[path] = self._decide(path)
        for name in {*self.origin_done, *self.local_done}:
            wanted[_INBOX + name] = None
        for path, entry in self.ours.items():
            if entry is not None and wanted[path] != entry and not self._is_done_as(path, entry):
                self.ousted[path] = entry
        return wanted

    def _decide(self, path: str) -> Entry | None:
        known = self.base.get(path)
        theirs, ours = self.theirs.get(path, known), self.ours.get(path, known)
        if path.startswith(_DONE):
            name = path.rsplit("/", 1)[-1]
            return theirs if name in self.origin_done else ours
        if path.startswith(_INBOX):
            return theirs if path in self.theirs else ours
        # A file that only we have is no conflict, and a message in it must not be lost.
        return theirs if theirs is not None or known is not None else ours

    def _is_done_as(self, path: str, entry: Entry) -> bool:
        """Did this very content get into the other side's ``done/``?"""
        done = self.origin_done.get(path.rsplit("/", 1)[-1], {})
        return path.startswith(_INBOX) and entry in done.values()


def _is_special(path: str) -> bool:
    return path.startswith((*_ORIGINS, _INBOX)) and not is_protected(path)


def _thread(path: str) -> str:
    return path.rsplit("/", 1)[-1] if path.startswith(_INBOX) else ""


def _done_threads(hub: Hub, commit: Oid, names: Iterable[str]) -> dict[str, dict[str, Entry]]:
    wanted, found = set(names), dict[str, dict[str, Entry]]()
    for e in list_tree(hub.git, commit, _DONE.rstrip("/"), recursive=True) if wanted else []:
        name = e.path.rsplit("/", 1)[-1]
        if name in wanted:
            found.setdefault(name, {})[_DONE + e.path] = Entry(e.mode, e.oid)
    return found


def _kept(hub: Hub, local: Oid, path: str, entry: Entry, keep: bool) -> str:
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
