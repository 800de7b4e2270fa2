"""Step 3: origin's main goes forward, and cn's refs go there in the same push.

Main decides: a pin that origin refuses, or that somebody holds there, fails alone, is told once, and goes
again with the next push. A note says what belongs to a push until the local share is done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.objects import is_ancestor, list_refs
from cn.git.remote import OWN, RefResult, Result, push_own
from cn.git.repository import Hub
from cn.system.files import write_file
from cn.transaction.base import Base
from cn.transaction.journal import Journal, drop, push_path, read_pushes, write_journal
from cn.transaction.origin import SECONDS, HeldLock, locks_at_origin, origin_main, origin_url, replaced_at_origin
from cn.values.errors import Blocked, CnError
from cn.values.names import Oid
from cn.values.text import redact

_PAUSES = (0.0, 0.2, 0.5, 1.0)
_HELD = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What a remote says of a ref that somebody else is setting."""


class Rejected(NamedTuple):
    """The push was not taken, as far as we know.

    ``told``: origin itself said so. ``transient``: because somebody else was pushing.
    """

    reason: str
    told: bool
    transient: bool


class Answer(NamedTuple):
    """What origin said: of main (None: it took it, or was not asked), and why it ``lacks`` refs of cn's."""

    main: Rejected | None
    lacks: Mapping[str, str]


class Pushed(NamedTuple):
    """``main``: is it origin's now? ``reason``: why some of cn's refs are not there."""

    main: bool
    reason: str


def push(hub: Hub, base: Base, journal: Journal) -> Pushed:
    """Bring the journal's commit and refs to origin, where it has not got them. Not ``main``: plan again."""
    refs = _to_push(hub, journal)
    if journal.new == base.origin:
        answer = _push_refs(hub, refs)
    else:
        taken = _push_main(hub, base, journal, refs)
        if taken is None:
            return Pushed(False, "")
        answer = taken
    _note_unpushed(hub, {ref: refs[ref] is None for ref in answer.lacks})  # nothing else waits now
    reason = next(iter(answer.lacks.values()), "")
    if reason and (lock := _lock_on(hub, *answer.lacks)) is not None:
        reason += f"; {lock.path} is there: {lock.remedy}"
    return Pushed(True, reason)


def _push_refs(hub: Hub, refs: Mapping[str, Oid | None]) -> Answer:
    """Those of a commit that origin has. That it fails stops nothing."""
    try:
        return send(hub, None, refs)
    except (CnError, OSError) as why:  # what stands in the way of the run itself says so
        error = why if isinstance(why, CnError) else Blocked.by_system(why)
        return Answer(None, dict.fromkeys(refs, error.text))


def _push_main(hub: Hub, base: Base, journal: Journal, refs: Mapping[str, Oid | None]) -> Answer | None:
    """None: somebody else's commit is origin's main now."""
    note = journal._replace(changes=(), expected=base.origin)
    write_journal(push_path(hub, journal.new), note)
    without: dict[str, str] = {}
    pauses = list(_PAUSES)
    while pauses:
        time.sleep(pauses.pop(0))
        answer = send(hub, journal.new, refs)
        rejected = answer.main
        # An answer other than "done" is no proof of anything: ask.
        now = _ask_origin(hub, rejected) if rejected else journal.new
        if now == journal.new:
            return Answer(None, without or answer.lacks)
        if now != base.origin:
            return None
        if rejected is None or rejected.transient:
            continue
        if refs:  # a rule of the host may refuse all of a push because of them
            refs, without = {}, dict.fromkeys(refs, rejected.reason)
            pauses.insert(0, 0.0)  # nobody else's push was in the way
            continue
        text = f"origin did not take main: {rejected.reason}"
        if rejected.told:
            _forget(hub, note)
            raise Blocked.uncommitted(text, _remedy(hub, rejected.reason))
        raise Blocked.uncommitted(text, "origin was asked, and does not have it; run again", " here")
    if (lock := _lock_on(hub, hub.main_ref)) is not None:
        raise Blocked.uncommitted(f"{lock.path} keeps origin from taking main", f"{lock.remedy}, then run again")
    raise Blocked("origin's main is locked by somebody else's push", "run again later")


def _lock_on(hub: Hub, *refs: str) -> HeldLock | None:
    """What keeps one of the refs from being set, where origin is on this machine."""
    names = ("packed-refs.lock", *(f"{ref}.lock" for ref in refs))
    return next((lock for lock in locks_at_origin(hub) if str(lock.path).endswith(names)), None)


def _remedy(hub: Hub, reason: str) -> str:
    """What helps where origin refuses main."""
    if "missing necessary objects" in reason and (replaced := replaced_at_origin(hub)):
        return f"somebody put {replaced.name} there; {replaced.remedy}"
    return "may you push to origin's main, and is origin a bare repository?"


def send(hub: Hub, main: Oid | None, refs: Mapping[str, Oid | None]) -> Answer:
    """One push of main (None: not that) and cn's refs; those that somebody was setting just then go twice."""
    if main is None and not refs:
        return Answer(None, {})
    url, to = origin_url(hub, push=True), (hub.main_ref, main) if main else None
    told = push_own(hub.git, url, refs, SECONDS, to)
    held = {ref: new for ref, new in refs.items() if told[ref].result is Result.REJECTED and _is_held(told[ref])}
    if held:
        with suppress(OSError, CnError):  # main may be there already: what stops this is not told instead
            told |= push_own(hub.git, url, held, SECONDS)
    lacks = {ref: redact(told[ref].reason) for ref in refs if told[ref].result is not Result.DONE}
    rejected = None
    if main is not None and (one := told[hub.main_ref]).result is not Result.DONE:
        rejected = Rejected(redact(one.reason), one.result is Result.REJECTED, _is_held(one))
    return Answer(rejected, lacks)


def _is_held(told: RefResult) -> bool:
    return told.result is not Result.DONE and any(word in told.reason for word in _HELD)


def _ask_origin(hub: Hub, rejected: Rejected) -> Oid | None:
    """Origin's main after a push that was not answered with "done"."""
    try:
        return origin_main(hub)
    except CnError as silent:
        raise Blocked(
            f"nobody knows whether origin took main: {rejected.reason}; asked for it, {silent.text}",
            "do not repeat it now; run 'cn sync' when origin answers: if origin has it, that finishes it",
        ) from silent


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
    _note_unpushed(hub, dict.fromkeys((ref.ref for ref in note.refs), False) | _read_unpushed(hub))
    drop(push_path(hub, note.new))


def leave_unpushed(hub: Hub, notes: Iterable[Journal]) -> None:
    """Their refs go with the next push: a run that asks no origin carries out the rest of them."""
    refs = {ref.ref: ref.new is None for note in notes for ref in note.refs}
    _note_unpushed(hub, _read_unpushed(hub) | refs)


def unpushed_path(hub: Hub) -> Path:
    """Where the names of cn's refs wait that origin has not as they are here."""
    return hub.state / "unpushed"


def _read_unpushed(hub: Hub) -> dict[str, bool]:
    """Each name, and whether it is to be deleted at origin: that it is absent here does not say so."""
    try:
        plain = json.loads(unpushed_path(hub).read_bytes())
        return {name: gone is True for name, gone in plain.items() if name.startswith(OWN)}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _note_unpushed(hub: Hub, refs: Mapping[str, bool]) -> None:
    """Exactly these are to be pushed again."""
    known = _read_unpushed(hub)
    with suppress(OSError, CnError):  # main is at origin: what comes now must not be stopped by it
        if refs and refs != known:
            write_file(unpushed_path(hub), json.dumps(refs, sort_keys=True).encode())
        elif not refs:
            unpushed_path(hub).unlink(missing_ok=True)


def _to_push(hub: Hub, journal: Journal) -> dict[str, Oid | None]:
    """The journal's refs, and as they are here those that origin did not take before."""
    waiting = _read_unpushed(hub)
    here = list_refs(hub.git, OWN) if waiting else {}
    again = {ref: here.get(ref) for ref, gone in sorted(waiting.items()) if gone or ref in here}
    return again | {ref.ref: ref.new for ref in journal.refs}
