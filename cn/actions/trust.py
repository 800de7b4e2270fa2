"""``cn trust``: show a change to protected files that came from elsewhere, and accept it.

What is accepted is exactly what was shown. Between showing and accepting the lock is free,
so origin may move: what was shown is noted for its reader (:mod:`cn.run.shown`), and when it is
no longer what there is, it is shown again instead of accepted.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from cn.git.entries import SUBMODULE, Entry, list_entries, read_tree
from cn.git.merge_steps import first_moved, pull_step
from cn.git.objects import empty_tree, read_known, read_objects
from cn.git.process import Git
from cn.git.repository import Hub
from cn.git.signatures import own_key
from cn.git.sparse import is_sparse
from cn.inbox.working_copies import Working, own_decision, shows_triage
from cn.llm.config import check_agent_config
from cn.protocol.hub_config import AGENT_PATH, LOCK_WAIT
from cn.protocol.layout import INBOX
from cn.run import shown
from cn.run.memory import Memory
from cn.run.run import scratch_objects
from cn.run.settings import find_known, from_origin, read_head_settings, read_settings
from cn.system import clock
from cn.transaction.base import Base, observe_base
from cn.transaction.lock import hub_lock
from cn.transaction.made_here import Made, read_made, signed
from cn.transaction.protected_files import (
    BACK_AT_ORIGIN,
    TrustChange,
    Untrusted,
    accept,
    built_by_cn,
    forget_doubts,
    trusted_commit,
    untrusted,
)
from cn.transaction.publish import recover
from cn.values.errors import CnError, ConfigError, Refused
from cn.values.names import NAME_BYTES, HubPath, Oid, digest
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import counted, decode, one_line, visible
from cn.values.timestamps import from_raw

_LARGEST = 256 * 1024
_MOST_AUTHORS = 200
"""Commits that are named of a file; whoever pushes can make thousands."""
_KINDS = {"100644": "file", "100755": "executable file", "120000": "symbolic link", SUBMODULE: "submodule"}


@dataclass(frozen=True)
class Author:
    """Who made a commit, as the commit says; all of it is foreign text made visible."""

    commit: Oid
    author: str
    date: str
    subject: str
    made_here: bool = False
    """By git, of other commits, or with a line of theirs: it may hold what others changed."""


@dataclass(frozen=True)
class FileDiff:
    """One protected file that changed: blobs, modes (None: no such file), and the diff as text."""

    path: str
    old: Oid | None
    new: Oid | None
    old_mode: str | None
    new_mode: str | None
    commits: tuple[Author, ...]
    diff: str
    whole: bool = True
    """Does ``diff`` show all that would be accepted?"""
    taken_back: str = ""
    """The difference to what was made of it since, by changes that count, where that is another one."""
    unnamed: int = 0
    """How many commits changed it besides ``commits``."""


@dataclass(frozen=True)
class Pending:
    """What is to be accepted.

    ``commit`` is main as a run would see it, ``trusted`` what is accepted so far (None: nothing), ``broken`` why
    nobody can accept that: the configuration cannot be read there, or what it holds is not shown whole.
    """

    commit: Oid
    trusted: Oid | None
    files: tuple[FileDiff, ...]
    broken: CnError | None = None
    decided: tuple[str, ...] = ()
    """In a clone that accepted nothing: the threads that wait, with what is decided in them."""
    own_key: str = ""
    """This clone's own key, ``TYPE BASE64``, where it signed all of these commits, and is not listed as trusted."""

    @property
    def key(self) -> str:
        """A digest of the contents shown: the same key, the same protected files."""
        shown = (f"{f.path}\0{f.old}\0{f.new}\0{f.old_mode}\0{f.new_mode}\0{f.taken_back}" for f in self.files)
        return digest(*shown, *self.decided)

    @property
    def text(self) -> str:
        """All of it for a person to read; no character in it can hide or move others."""
        lines = [line for file in self.files for line in _lines(file)]
        if self.decided:
            lines.append("decided in threads that wait, and carried out once this is accepted:")
        lines += [f"  {one}" for one in self.decided]
        if self.own_key:
            step = command("git config --add cn.trustedKey {}", self.own_key)
            lines.append(f"all of this is signed with the key by which this clone signs: {step} takes that unasked")
        return "\n".join(lines)


def pending_changes(hub: Hub, *, dry_run: bool = False) -> Pending | None:
    """The changes to protected files that this clone has not accepted; None: there are none.

    Fetches origin. With ``dry_run`` nothing is written: no ref, no file, no object.
    """
    if not dry_run:
        with lock_damaged(hub) as locked:
            recover(locked)
            return find_pending(locked, observe_base(locked, check_trust=False))
    try:
        hub, _ = read_head_settings(hub)
    except ConfigError:
        hub, _ = find_known(hub)
    with tempfile.TemporaryDirectory(prefix="cn-dry-run-") as scratch:
        hub = scratch_objects(hub, scratch)
        return find_pending(hub, observe_base(hub, dry_run=True, check_trust=False))


def is_another(hub: Hub, pending: Pending) -> bool:
    """Was this reader shown something else, which they have not accepted?"""
    return bool(shown.read_shown(hub, shown.TRUST) - {pending.key})


def note_seen(hub: Hub, pending: Pending) -> None:
    """Note what a person has seen, for a later ``cn trust --yes``."""
    shown.note_shown(hub, shown.TRUST, pending.key)


def accept_changes(hub: Hub, pending: Pending) -> Report | Pending | None:
    """Accept what was shown; if it is something else by now, that is returned, not accepted.

    None: nothing is left to accept.
    """
    with lock_damaged(hub) as locked:
        recover(locked)
        now = find_pending(locked, observe_base(locked, check_trust=False))
        if now is None or now.key != pending.key:
            return now
        if now.broken is not None:
            raise now.broken
        accept(locked, now.commit)
        report = Report()
        if trusted_commit(locked) != now.commit:
            report.failed("the acceptance could not be written", "run 'cn trust' again")
            return report
        forget_doubts(locked)
        shown.note_shown(hub, shown.TRUST, shown.NOTHING)
        memory = Memory(locked, clock.now())
        if memory.stopped.get("kind") == Untrusted.__name__:  # that is what was accepted
            memory.stopped.clear()
            memory.save()
        names = ", ".join(f.path for f in now.files)
        report.done(f"accepted the protected files of {now.commit[:12]}: {names}")
        return report


@contextmanager
def lock_damaged(hub: Hub) -> Iterator[Hub]:
    """The hub under its lock, also where its configuration is what is to be mended."""
    wait = LOCK_WAIT
    try:
        hub, settings = read_head_settings(hub)
        wait = settings.config.lock_wait
    except CnError:
        with suppress(CnError):
            hub, _ = find_known(hub)
    with hub_lock(hub, wait) as held:
        yield held


def find_pending(hub: Hub, base: Base) -> Pending | None:
    """What main as a run would see it holds that was not accepted."""
    trusted, given = trusted_commit(hub), frozenset({base.local, base.origin or base.local})
    found = untrusted(hub, base.tip, trusted=trusted, built=built_by_cn(hub, base.tip, given))
    if not found:
        return None
    paths = [c.path for c in found]
    old, new = read_tree(hub.git, trusted, paths) if trusted else {}, read_tree(hub.git, base.tip, paths)
    made = read_made(hub) if trusted else {}
    files = tuple(_file(hub.git, c, old.get(c.path), new.get(c.path), made) for c in found)
    broken = _not_shown(hub, base, trusted, files, found) or find_broken(hub, base.tip, trusted)
    if trusted is None:
        return Pending(base.tip, trusted, files, broken, tuple(_decided(hub.git, base.tip)))
    return Pending(base.tip, trusted, files, broken, own_key=_own_key(hub, found))


def _own_key(hub: Hub, changes: Sequence[TrustChange]) -> str:
    """The key by which this clone signs, where it signed each of these commits, and is not in ``cn.trustedKey``."""
    commits = sorted({commit for change in changes for commit in change.commits})[:_MOST_AUTHORS]
    key = own_key(hub.config)
    if not key or not all(change.commits for change in changes) or len(commits) == _MOST_AUTHORS:
        return ""
    return key if set(commits) == signed(hub, commits, [key]) else ""


def _decided(git: Git, commit: Oid) -> Iterator[str]:
    """What is decided in main's threads: whoever may push there can have written it."""
    threads = {path: entry for path, entry in list_entries(git, commit, [f"{INBOX}/"]).items() if _waits(path)}
    for path, data in zip(threads, read_known(git, [entry.oid for entry in threads.values()]), strict=True):
        if shows_triage(Working(HubPath(path), data)):
            yield f"{visible(path)}: {own_decision(data, b'') or 'what cannot be read'}"


def _waits(path: str) -> bool:
    return path.removeprefix(f"{INBOX}/").count("/") == 0 and path.endswith(".md")


def _not_shown(
    hub: Hub, base: Base, trusted: Oid | None, files: Sequence[FileDiff], changes: Sequence[TrustChange]
) -> CnError | None:
    """Why nobody can accept these: of one that is too large, or no text, nobody has seen what is accepted."""
    file, change = next((pair for pair in zip(files, changes, strict=True) if not pair[0].whole), (None, None))
    if file is None or change is None:
        return None
    path, shown = change.path, visible(change.path).replace("\n", "<U+000A>")
    known, new = trusted or empty_tree(hub.git), base.origin or base.tip
    if max(len(os.fsencode(part)) for part in path.split("/")) > NAME_BYTES:  # no work tree takes it
        return Refused(f"not accepted: {one_line(shown, 80)} has too long a name to be checked out", BACK_AT_ORIGIN)
    is_new = trusted is None or change.instead == (None,) or path not in read_tree(hub.git, trusted, [path])
    pulled = base.tip != base.local
    first = first_moved(hub, base.local, base.tip) if pulled else ""
    steps = [pull_step(hub, hub.main_ref)] if pulled else []
    if made := next(iter(change.instead), None):  # what was accepted is older than that
        # Through the index: what lies there may be a link, by which a shell writes elsewhere.
        steps.append(command("git update-index --add --replace --cacheinfo {} {} {}", made.mode, made.oid, path))
        steps.append(command("git checkout -- {}", path))
        back = f"{', '.join(steps)} and 'git commit' bring back what was made of it since it was accepted"
    else:
        sparse = is_sparse(hub.config)  # git rm takes what lies there by its option alone
        remove = command("git rm --sparse -- {}", path) if sparse else command("git rm -- {}", path)
        steps.append(remove if is_new else command("git checkout {} -- {}", known, path))
        back = f"{', '.join(steps)} and 'git commit' bring back what was accepted"
    what = "a submodule, which cn does not show" if file.new_mode == SUBMODULE else "too large or binary to show"
    return Refused(
        f"not accepted: {shown} is {what}, and what is accepted is what was shown",
        f"{command('git diff -a {} {} -- {}', known, new, path)} shows it; {first}{back}; "
        f"or commit it here as a text of at most {_LARGEST:,} bytes",
    )


def find_broken(hub: Hub, commit: Oid, known: Oid | None) -> ConfigError | None:
    """Why no run, or not the runtime, could work with the configuration of ``commit``, origin's.

    None: both could, or the runtime's configuration is that of ``known``, where it is told already.
    """
    try:
        read_settings(hub, commit)
        *here, there = read_objects(hub.git, [f"{one}:{AGENT_PATH}" for one in (known, commit) if one])
        if there is not None and [there] != here:
            check_agent_config(there)
    except ConfigError as error:
        return from_origin(hub, error, commit)
    return None


def _file(git: Git, change: TrustChange, old: Entry | None, new: Entry | None, here: Made) -> FileDiff:
    """With what was accepted it is compared, and with what was made of it since and is taken back."""
    if back := old == new and bool(change.instead):
        (old,) = change.instead
    path, modes = visible(change.path).replace("\n", "<U+000A>"), [e.mode if e else None for e in (old, new)]
    before, now = _contents(git, old, new)
    diff, authors, taken_back = _diff(before, now), _authors(git, change.commits, here), ""
    if change.instead and not back:
        (made,) = change.instead
        taken_back = "(it was taken out, and is there again)"
        if made:
            taken_back = _diff(_contents(git, made)[0], now) or f"({_KINDS.get(made.mode, made.mode)} then)"
    more = max(0, len(change.commits) - _MOST_AUTHORS)
    whole = _is_shown(now) and modes[1] != SUBMODULE  # cn reads by name what it holds, be that a file
    return FileDiff(path, change.old, change.new, modes[0], modes[1], authors, diff, whole, taken_back, more)


def _contents(git: Git, *entries: Entry | None) -> list[bytes]:
    """What a diff shows of each: a submodule's entry names a commit of another repository."""
    found = iter(read_known(git, [e.oid for e in entries if e and e.mode != SUBMODULE]))
    named = [f"Subproject commit {e.oid}\n".encode() if e and e.mode == SUBMODULE else b"" for e in entries]
    return [next(found) if e and e.mode != SUBMODULE else text for e, text in zip(entries, named, strict=True)]


def _authors(git: Git, commits: Sequence[Oid], made: Made) -> tuple[Author, ...]:
    if not commits:
        return ()
    commits = commits[:_MOST_AUTHORS]
    form = "--format=%H%x00%s%x00%an <%ae>%x00%ad"  # a subject may be empty, and what ends with nothing has no field
    done = git.run("log", "--no-walk=unsorted", "-z", "--date=raw", form, *commits, check=False)
    words = iter([one_line(decode(w.encode("utf-8", "surrogateescape"))) for w in (done.fields if done.ok else ())])
    return tuple(
        Author(Oid(c), a, from_raw(d), s, c in made) for c, s, a, d in zip(words, words, words, words, strict=False)
    )


def _diff(old: bytes, new: bytes) -> str:
    """A unified diff, with every control and bidirectional character made visible; nothing is taken out of it."""
    if not _is_shown(new):
        return f"(too large or binary to show: {len(old)} bytes before, {len(new)} now)"
    said = [] if _is_shown(old) else [f"(too large or binary to show: {len(old)} bytes before; all that it is now:)"]
    old = b"" if said else old
    rows = list(difflib.unified_diff(_split(old), _split(new), lineterm="", n=3))[2:]
    return "\n".join([*said, *(visible(row) for row in rows)])


def _is_shown(data: bytes) -> bool:
    return b"\0" not in data and len(data) <= _LARGEST


def _split(data: bytes) -> list[str]:
    *lines, last = decode(data).split("\n")
    return [*lines, f"{last}  (no line end)"] if last else lines


def _lines(file: FileDiff) -> Iterator[str]:
    old, new = (_KINDS.get(mode, mode) if mode else "" for mode in (file.old_mode, file.new_mode))
    became = f"new {new}" if not old else "removed" if not new else f"{old} becomes {new}" if old != new else "changed"
    yield f"{file.path}: {became}"
    if not file.commits:
        yield "  by no commit that can be named: main does not descend from what was accepted"
    for made in file.commits:
        yield f"  by commit {made.commit[:12]} of {made.author}, {made.date}: {made.subject}"
        if made.made_here:
            yield "    made here, but git may have brought in with it what others changed"
    if file.unnamed:
        yield f"  and by {counted(file.unnamed, 'commit')} more"
    for line in file.diff.split("\n") if file.diff else ():
        yield f"    {line}"
    if not (file.diff or file.taken_back) and old == new:
        yield "    it is as it was accepted; what was made of it since, by others or in between, is not in it"
    if file.taken_back:
        yield "  taken back is what was made of it since it was accepted, here or signed by a key of cn.trustedKey:"
    for line in file.taken_back.split("\n") if file.taken_back else ():
        yield f"    {line}"
