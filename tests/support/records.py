"""Agency's records with a user's writes, for tests of what keeps them: no rule is asked, every event is as it comes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from cn.agency.apply import apply
from cn.agency.events import Change, Event, FileCreated, FileRead, FileWritten, Founded, format_message
from cn.agency.names import Actor, parse_uuid, user
from cn.agency.rows import Facts, Rows
from cn.agency.store.derived import open_file
from cn.agency.store.repository import Draft, Places
from cn.agency.store.store import Base, Decide, Decided, Store, create_store, open_store
from cn.values.names import Oid

WHO = ("sigma", "sigma@example.org")
ANN, ACTOR = user("ann"), Actor("user:ann")
AT = datetime(2026, 2, 5, 12, tzinfo=UTC)


def places(folder: Path) -> Places:
    """Of a hub whose ``.git/cn`` is in ``folder``."""
    return Places(folder / "cn")


def found(folder: Path, clock: Callable[[], datetime] = lambda: AT) -> Store:
    """New records with a root outcome."""
    root, state, audit = (parse_uuid(str(uuid.UUID(int=number, version=4))) for number in (1, 2, 3))
    change = Founded(root, "Help", "", ANN, "", state, audit, digest(b""), 0)
    files: dict[str, bytes | None] = {f"{folder_of(root)}/{digest(b'')}": b""}
    made, _ = create_store(places(folder), WHO, decide(change, {"README.md": b"# Records\n", **files}), clock)
    return made


def reopen(folder: Path, clock: Callable[[], datetime] = lambda: AT) -> Store:
    """The same records, opened again."""
    return open_store(places(folder), WHO, clock)


def tip_of_file(path: Path) -> Oid | None:
    """The commit that the index in a file names."""
    index = open_file(path, "ro")
    if index is None:
        return None
    with closing(index):
        return index.tip


def decide(change: Change, files: dict[str, bytes | None] | None = None, answer: str = "") -> Decide[str]:
    """Whatever the state is, this one change."""

    def decided(rows: Rows, base: Base) -> Decided[str]:
        head = rows.head()
        event = Event(head.seq + 1 if head else 1, base.now, ACTOR, change)
        apply(rows, event)
        return Decided(Draft(format_message("A change", [event]), files or {}), answer)

    return decided


def digest(content: bytes) -> str:
    """The name of a version."""
    return hashlib.sha256(content).hexdigest()


def folder_of(file: str) -> str:
    """Where the versions of a file are."""
    return f"kb/{file[0]}/{file[1]}/{file[2]}/{file}"


def create(content: bytes, description: str = "a file", file: str = "") -> Decide[str]:
    """A new file; the answer is its id."""
    made = parse_uuid(file or str(uuid.uuid4()))
    change = FileCreated(made, "file", description, ANN, 0, digest(content), len(content), ())
    paths: dict[str, bytes | None] = {f"{folder_of(made)}/{digest(content)}": content}
    return decide(change, {**paths, f"{folder_of(made)}/FILE.md": f"# {description}\n".encode()}, made)


def overwrite(file: str, version: int, content: bytes) -> Decide[str]:
    """Another version of a file."""
    change = FileWritten(parse_uuid(file), version, digest(content), len(content), ())
    return decide(change, {f"{folder_of(file)}/{digest(content)}": content})


def look(file: str, version: int = 1) -> Decide[str]:
    """Somebody reads it: an event without contents."""
    return decide(FileRead(parse_uuid(file), version))


def state(facts: Facts) -> int:
    """How many events there were."""
    head = facts.head()
    return head.seq if head else 0
