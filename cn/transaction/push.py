"""cn's own refs, and the push that brings them to origin with main (``docs/protocol/transaction.md``, step 3).

A pin is one ref for each recorded branch, so that an idle check is one listing (``docs/protocol/branches.md``).
``refs/cn/pins/<peer>/in/<topic>`` holds the head of a peer's branch that the ledger knows, ``…/out/…`` the tip
of one of ours. Heads whose pin goes stay reachable through ``refs/cn/keep/<clone>``.

In a push main decides: a ref that origin refuses, or that somebody holds there, fails alone, is told once, and goes
again with the next push. A note says what belongs to a push until the local share is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cn.git import needed_rights
from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree, is_ancestor, list_refs, read_info, resolve, update_refs
from cn.git.process import Git, GitConfig, GitError
from cn.git.remote import (
    BATCH,
    OWN,
    PINS,
    REFUSED,
    Push,
    RefResult,
    Result,
    is_broken_off,
    is_refused_by_host,
    is_trouble_of_host,
    is_unreached,
    lacks_objects,
    list_refs_of,
    lock_named,
    push_own,
    remedy_of,
    remedy_of_damage,
    would_push,
)
from cn.git.repository import Hub, read_config
from cn.git.running import find_gits, find_locks
from cn.protocol.ledger import IN, OUT
from cn.system.closed import blocked_by
from cn.system.files import drop, read_regular, write_file
from cn.transaction.base import (
    SECONDS,
    Base,
    NotAtOrigin,
    OriginDeclined,
    OriginRefused,
    list_origin,
    origin_folder,
    origin_url,
)
from cn.transaction.journal import Journal, push_path, read_pushes, write_journal
from cn.values.errors import CnError
from cn.values.names import Name, Oid, is_local
from cn.values.shell_words import command
from cn.values.text import redact

_PLAIN = set("abcdefghijklmnopqrstuvwxyz0123456789-_")
_AS_IT_IS = re.compile(r"[a-z0-9_-]+")
_COMPONENT = re.compile(r"(?:[a-z0-9_-]|@[0-9a-f]{2})+|\+[0-9a-f]{64}")
_OLD = "%"
"""What stood for ``@`` in the names of pins, and what gitolite takes in no name of a ref."""
_LONGEST = 180
_PARENTS = 500
Key = tuple[Name, str, str]
"""(peer, side, encoded topic)"""


def encode(topic: str) -> str:
    """A topic as one safe component of a ref name, on any file system; a long one becomes ``+`` and a digest."""
    if len(topic) <= _LONGEST and _AS_IT_IS.fullmatch(topic):
        return topic
    data = topic.encode("utf-8", "surrogateescape")
    text = "".join(chr(b) if chr(b) in _PLAIN else f"@{b:02x}" for b in data)
    return text if len(text) <= _LONGEST else "+" + hashlib.sha256(data).hexdigest()


def decode(component: str, candidates: Iterable[str] = ()) -> str | None:
    """The topic of an encoded component; a digest is looked up among ``candidates``."""
    if component.startswith("+"):
        return next((c for c in candidates if encode(c) == component), None)
    parts = component.split("@")
    data = parts[0].encode() + b"".join(bytes([int(p[:2], 16)]) + p[2:].encode() for p in parts[1:])
    return data.decode("utf-8", "surrogateescape")


def pin_ref(peer: Name, side: str, topic: str) -> str:
    """The full name of a pin."""
    return f"{PINS}{peer}/{side}/{encode(topic)}"


def bring_pinned(git: Git, peer: Name, side: str, topic: str, head: Oid) -> list[str]:
    """The step that brings a head which another clone knows, in quotes; none where it is here."""
    if read_info(git, [head]) != [None]:
        return []
    return [command("git fetch origin {}", pin_ref(peer, side, topic))]


def take_pins(hub: Hub, at: datetime, *, dry_run: bool = False) -> dict[Key, Oid]:
    """All pins. Those with a name of before get the one of now, with the next push at origin too.

    What is to be pushed is noted first: a killed run leaves a note that asks for nothing wrong.
    """
    refs = list_refs(hub.git, PINS)
    old = {ref: _renamed(ref) for ref in refs if _OLD in ref and parse_pin(ref) is not None}
    if old and not dry_run:
        if hub.origin:
            waiting = _read_unpushed(hub)
            _note_unpushed(hub, waiting, waiting | dict.fromkeys(old.values(), False) | dict.fromkeys(old, True))
        taken = [refs[ref] for ref, new in old.items() if refs.get(new, refs[ref]) != refs[ref]]
        kept = keep(hub, taken, at) if taken else None  # an older cn worked here meanwhile
        renamed = [(new, refs[ref]) for ref, new in old.items() if new not in refs]
        update_refs(hub.git, [*([kept] if kept else []), *renamed, *((ref, None) for ref in old)])
    names = sorted(refs, key=lambda ref: ref not in old)  # of two names of a pin the one of now counts
    return {key: refs[ref] for ref in names if (key := parse_pin(ref)) is not None}


def _renamed(ref: str) -> str:
    folder, slash, component = ref.rpartition("/")
    return folder + slash + component.replace(_OLD, "@")


def parse_pin(ref: str) -> Key | None:
    """Whose pin it is, also by a name of before; None for a ref that cn did not write."""
    parts = _renamed(ref).removeprefix(PINS).split("/")
    if len(parts) != 3 or parts[1] not in (IN, OUT) or not _COMPONENT.fullmatch(parts[2]):
        return None
    return Name(parts[0]), parts[1], parts[2]


def keep(hub: Hub, heads: Iterable[Oid], at: datetime) -> tuple[str, Oid] | None:
    """A commit that keeps ``heads`` alive for ever, and the ref it belongs to."""
    unique = list(dict.fromkeys(heads))
    infos = zip(unique, read_info(hub.git, unique), strict=True)
    parents = [head for head, info in infos if info is not None and info.kind == "commit"]
    if not parents:
        return None
    ref = f"refs/cn/keep/{clone_id(hub)}"
    last = resolve(hub.git, ref)
    tree = empty_tree(hub.git)
    for start in range(0, len(parents), _PARENTS):
        batch = ([last] if last else []) + parents[start : start + _PARENTS]
        last = commit_tree(hub, tree, batch, "cn: reviewed", at, unsigned=True)
    assert last is not None
    return ref, last


def clone_id(hub: Hub, *, make: bool = True) -> str:
    """A random name of this clone, kept in its git config (``cn.clone``); empty if it has none to be made.

    A copy of the folder beside the clone that it was made of gets one of its own.
    """
    known = _known_id(hub, hub.config) or _known_id(hub, read_config(hub.git))  # made meanwhile
    if not known and make:
        known = secrets.token_hex(4)
        hub.git.run("config", "--local", "cn.clonePath", str(hub.git_dir))
        hub.git.run("config", "--local", "cn.clone", known)
    return known


def _known_id(hub: Hub, config: GitConfig) -> str:
    """Empty where the repository for which it was made still has it, at its place."""
    known, made_for = config.last("cn.clone", "local"), Path(config.last("cn.clonepath", "local") or hub.git_dir)
    with suppress(OSError, GitError):
        if made_for != hub.git_dir and not os.path.samefile(made_for, hub.git_dir):
            others = read_config(Git(made_for, bare=True)).last("cn.clone", "local")
            return known if others != known else ""
    return known


_PAUSES = (0.0, 0.2, 0.5, 1.0)
_HELD = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What a remote says of a ref that somebody else is setting."""


class Rejected(NamedTuple):
    """The push was not taken, as far as we know.

    ``told``: origin itself said so. ``transient``: because somebody else was pushing. ``declined``: because of what
    was pushed, or who pushed it.
    """

    reason: str
    told: bool
    transient: bool
    declined: bool = False


class Answer(NamedTuple):
    """What origin said: of main (None: it took it, or was not asked), and why it ``lacks`` refs of cn's."""

    main: Rejected | None
    lacks: Mapping[str, str]


UNCONFIRMED = "nobody knows whether origin took them"
"""What the reason begins with why refs of cn's may not be at origin, where origin itself refused nothing."""


def push(hub: Hub, base: Base, journal: Journal) -> str | None:
    """Bring the journal's commit and refs to origin, where it has not got them; again what it did not take.

    Why some of cn's refs are not there, or nothing; None: main is not origin's, plan again.
    """
    waiting = _read_unpushed(hub)
    here = list_refs(hub.git, OWN) if waiting else {}
    refs = {ref: here.get(ref) for ref, gone in sorted(waiting.items()) if gone or ref in here}
    refs |= {ref.ref: ref.new for ref in journal.refs}
    if journal.new == base.origin:
        answer = _push_refs(hub, refs)
    else:
        taken = _push_main(hub, base, journal, refs)
        if taken is None:
            return None
        answer = taken
    _note_unpushed(hub, waiting, {ref: refs[ref] is None for ref in answer.lacks})  # nothing else waits now
    reason = next(iter(answer.lacks.values()), "")
    if reason and (lock := _lock_on(hub, *answer.lacks)) is not None:
        reason += f"; {lock.path} is there: {lock.remedy}"
    return reason


def _push_refs(hub: Hub, refs: Mapping[str, Oid | None]) -> Answer:
    """Those of a commit that origin has. That it fails stops nothing."""
    try:
        return send(hub, refs)
    except (CnError, OSError) as why:  # what stands in the way of the run itself says so
        error = why if isinstance(why, CnError) else blocked_by(why)
        return Answer(None, dict.fromkeys(refs, error.text))


def _push_main(hub: Hub, base: Base, journal: Journal, refs: Mapping[str, Oid | None]) -> Answer | None:
    """None: somebody else's commit is origin's main now."""
    note = journal._replace(changes=(), expected=base.origin)
    write_journal(push_path(hub, journal.new), note, hub.private_mode)
    without: dict[str, str] = {}
    again = True
    pauses, lock = list(_PAUSES), ""
    while pauses:
        time.sleep(pauses.pop(0))
        answer = send(hub, refs, Push(hub.main, journal.new, base.origin))
        rejected = answer.main
        # An answer other than "done" is no proof of anything: ask.
        if rejected is None:
            _check_same(hub, base)
            return Answer(None, without or answer.lacks)
        try:
            now = list_origin(hub).get(hub.main)
        except CnError as silent:
            if is_unreached(rejected.reason):
                _forget(hub, note)
                raise
            unknown = NotAtOrigin(
                f"nobody knows whether origin took main: {rejected.reason}; asked for it, {silent.text}",
                "do not repeat it now; run 'cn sync' when origin answers: if origin has it, that finishes it,"
                " if 'cn log' does not show it then, repeat it",
            )
            unknown.step = "run 'cn sync' when origin answers"
            raise unknown from silent
        if now == journal.new:
            return Answer(None, without or answer.lacks)
        if now != base.origin:
            return None
        if rejected.transient:
            lock = lock_named(rejected.reason)
            continue
        if refs and again and not rejected.told:  # a fault on the way is no rule of the host's
            again = False
            pauses.insert(0, 0.0)
            continue
        if refs:  # a rule of the host may refuse all of a push because of them
            reason = rejected.reason if rejected.told else f"{UNCONFIRMED}: {rejected.reason}"
            refs, without = {}, dict.fromkeys(refs, reason)
            pauses.insert(0, 0.0)  # nobody else's push was in the way
            continue
        text = f"origin did not take main: {rejected.reason}"
        if rejected.told:
            _forget(hub, note)
        elif step := _set_push_url(hub):
            raise OriginRefused.uncommitted(text, step, " here")
        if rejected.declined:
            raise OriginDeclined.because(rejected.reason, _remedy_at_origin(hub, rejected.reason))
        if rejected.told:
            raise OriginRefused.uncommitted(text, _remedy_at_origin(hub, rejected.reason))
        step = remedy_of(rejected.reason, _ASKED, needed=needed_rights.of_hub(hub.main))
        raise NotAtOrigin.uncommitted(text, step, " here")
    if (here := _lock_on(hub, hub.main_ref)) is not None:
        raise OriginRefused.uncommitted(f"{here.path} keeps origin from taking main", f"{here.remedy}, then run again")
    remedy = f"run again later; if it stays so, who keeps the host looks whether a push died and left {lock}"
    raise NotAtOrigin("origin's main is locked by somebody else's push", remedy if lock else "run again later")


_ASKED = "origin was asked, and does not have it; run again"


def _remedy_at_origin(hub: Hub, reason: str) -> str:
    """What lets origin take main again, by the reason that it gave."""
    if lacks_objects(reason):
        if replaced := replaced_at_origin(hub):
            return "somebody put {} there; {}".format(*replaced)
        return remedy_of_damage(reason, origin_folder(hub, push=True))
    # Who has no right is told so; a connection that broke says nothing of rights.
    may = "may you push to origin's main, and is origin a bare repository?"
    may = _ASKED if is_broken_off(reason) else may
    return remedy_of(reason, may, needed=needed_rights.of_hub(hub.main))


def _set_push_url(hub: Hub) -> str:
    """What sets right where git pushes to, if that is elsewhere than it fetches from (git-remote(1), ``set-url``)."""
    place = origin_url(hub, push=True)
    if place == hub.origin_url:
        return ""
    return f"git pushes to {redact(place)}; {command('git remote set-url --push origin {}', redact(hub.origin_url))}"


def _check_same(hub: Hub, base: Base) -> None:
    """A push that was taken elsewhere than git fetches from must be seen there."""
    if (step := _set_push_url(hub)) and list_origin(hub).get(hub.main) == base.origin:
        text = f"main was taken at {redact(origin_url(hub, push=True))}, and origin does not have it"
        raise OriginRefused.uncommitted(f"{text}: they are two repositories", step, " here")


def _lock_on(hub: Hub, *refs: str) -> HeldLock | None:
    """What keeps one of the refs from being set, where origin is on this machine."""
    names = ("packed-refs.lock", *(f"{ref}.lock" for ref in refs))
    return next((lock for lock in locks_at_origin(hub) if str(lock.path).endswith(names)), None)


def send(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> Answer:
    """One push of cn's refs, and of main; those that somebody was setting just then go twice."""
    if main is None and not refs:
        return Answer(None, {})
    url = origin_url(hub, push=True)
    told = push_own(hub.git, url, refs, SECONDS, main)
    held = {ref: new for ref, new in refs.items() if told[ref].result is Result.REJECTED and _is_held(told[ref])}
    if held:
        with suppress(OSError, CnError):  # main may be there already: what stops this is not told instead
            told |= push_own(hub.git, url, held, SECONDS)
    never = {ref for ref in refs if _OLD in ref and told[ref].result is Result.REJECTED}  # nor was it ever taken there
    lacks = {ref: redact(told[ref].reason) for ref in refs if told[ref].result is not Result.DONE and ref not in never}
    lost = {ref: new for ref, new in refs.items() if told[ref].result is Result.UNKNOWN and ref in lacks}
    if lost:
        lacks |= {ref: f"{UNCONFIRMED}: {lacks[ref]}" for ref in lost}
        for ref in _find_taken(hub, url, lost, next(iter(lacks.values()))):
            del lacks[ref]
    rejected = None
    if main is not None and (one := told[hub.main_ref]).result is not Result.DONE:
        told_so = one.result is Result.REJECTED  # one that was cut off may not have been the last word
        declined = is_refused_by_host(one.reason) and (told_so or REFUSED not in one.reason)
        rejected = Rejected(redact(one.reason), told_so, _is_held(one), declined)
    return Answer(rejected, lacks)


def _find_taken(hub: Hub, url: str, lost: Mapping[str, Oid | None], reason: str) -> list[str]:
    """Which of the refs of which origin did not tell are there as they are meant to be; none where it does not say."""
    if is_unreached(reason):
        return []
    there = list_refs_of(hub.git, url, list(lost)[:BATCH], SECONDS)
    return [] if isinstance(there, str) else [ref for ref in list(lost)[:BATCH] if there.get(ref) == lost[ref]]


def _is_held(told: RefResult) -> bool:
    waits = any(word in told.reason for word in _HELD) and not is_trouble_of_host(told.reason)
    return told.result is not Result.DONE and waits


def arrived_pushes(hub: Hub, base: Base) -> list[Journal]:
    """The notes of pushes of killed runs that origin has taken; others that never can are dropped.

    One that was itself carrying out others has all that is theirs.
    """
    arrived = []
    for note in read_pushes(hub):
        if is_ancestor(hub.git, note.new, base.tip):
            arrived.append(note)
        elif hub.origin and note.expected != base.origin:
            # Origin went another way: that push can never arrive any more. (A run that did
            # not ask origin cannot tell, and leaves the note to the next one.)
            _forget(hub, note)
    carried = {oid for note in arrived for oid in note.covers if oid != note.new}
    return [
        note._replace(inputs={}, refs=(), appends=(), files=()) if note.new in carried else note for note in arrived
    ]


def _forget(hub: Hub, note: Journal) -> None:
    """Origin has not taken that commit: refs that it took with it are as they are here again."""
    # Nobody means its deletions any more. One that waits already belongs to a commit that origin has.
    waiting = _read_unpushed(hub)
    _note_unpushed(hub, waiting, dict.fromkeys((ref.ref for ref in note.refs), False) | waiting)
    drop(push_path(hub, note.new))


def leave_unpushed(hub: Hub, notes: Iterable[Journal]) -> None:
    """Their refs go with the next push: a run that asks no origin carries out the rest of them."""
    refs = {ref.ref: ref.new is None for note in notes for ref in note.refs}
    waiting = _read_unpushed(hub)
    _note_unpushed(hub, waiting, waiting | refs)


def unpushed_path(hub: Hub) -> Path:
    """Where the names of cn's refs wait that origin has not as they are here."""
    return hub.state / "unpushed"


def _read_unpushed(hub: Hub) -> dict[str, bool]:
    """Each name, and whether it is to be deleted at origin: that it is absent here does not say so."""
    try:
        plain = json.loads(read_regular(unpushed_path(hub)) or b"")
        return {name: gone is True for name, gone in plain.items() if name.startswith(OWN)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _note_unpushed(hub: Hub, known: Mapping[str, bool], refs: Mapping[str, bool]) -> None:
    """Exactly these are to be pushed again; so far these are ``known`` to be."""
    with suppress(OSError, CnError):  # main is at origin: what comes now must not be stopped by it
        if refs and refs != known:
            write_file(unpushed_path(hub), json.dumps(refs, sort_keys=True).encode())
        elif not refs:
            unpushed_path(hub).unlink(missing_ok=True)


class HeldLock(NamedTuple):
    """A lock file in an origin on this machine: its age in seconds, and the gits that may be at work there."""

    path: Path
    age: float
    users: list[str]

    @property
    def remedy(self) -> str:
        """What helps, as far as this machine can tell."""
        if self.users:
            return f"{', '.join(self.users[:3])} may be at work there: let it end"
        return f"no git of this machine is there: one that was killed left it; {command('rm -- {}', str(self.path))}"


def locks_at_origin(hub: Hub) -> list[HeldLock]:
    """Locks of git where main is pushed to, if that is a folder of this machine.

    They may be another machine's too, on a shared disk: none is ever removed.
    """
    folder = origin_folder(hub, push=True)
    if folder is None:
        return []
    found = []
    for path in find_locks(folder):
        with suppress(OSError):
            found.append((path, max(0.0, time.time() - path.lstat().st_mtime)))
    users = find_gits(folder) if found else []
    return [HeldLock(path, age, users) for path, age in found]


def refuses_push(hub: Hub, base: Base) -> tuple[str, str] | None:
    """Why origin cannot be pushed to, as far as it tells without being changed, and what helps; None: it can, or
    answers for itself.

    A main that is not ahead of origin's is another matter.
    """
    url = origin_url(hub, push=True)
    done = would_push(hub.git, url, hub.main, base.tip, SECONDS)
    if done.ok or f":{hub.main_ref}\t" in done.text:
        return None
    look = "look at 'git remote -v', and at your access"
    return redact(done.reason), remedy_of(done.reason, look, needed=needed_rights.of_hub(hub.main))


def replaced_at_origin(hub: Hub) -> tuple[str, str] | None:
    """A ref that hides an object at origin (git-replace(1)), and what takes it away: a push upon its object fails.

    On this machine cn has the receiving git overlook it.
    """
    url = origin_url(hub)
    if is_local(url):
        return None
    words = ("ls-remote", "--refs", "--", url, "refs/replace/*")
    lines = hub.git.run(*words, check=False, network=True, seconds=SECONDS).lines
    if not lines:
        return None
    ref, more = lines[0].partition("\t")[2], f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    mend = command("git update-ref -d {}", ref)  # a push that deletes it fails as well
    return f"{ref}{more}", f"{mend}, typed in that repository on its host, mends it"
