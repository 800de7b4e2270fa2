"""Write everything that a principal may read as plain files into a folder: Markdown, what is not text as it is, and
the events as lines of JSON too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cn.agency.agency import Agency
from cn.agency.events import format_event
from cn.agency.export_pages import (
    Cells,
    Sent,
    audit_page,
    handlers_page,
    history_part,
    letters,
    log_page,
    mail_head,
    mail_page,
    who,
)
from cn.agency.names import AUDIT, MESSAGE, OUTCOME, Uuid
from cn.agency.operations import Principal, ReadFile
from cn.agency.pages import outcome_page
from cn.agency.perform import Asked, Done, perform, read_content
from cn.agency.plan.shown import Shown
from cn.agency.plan.views import outcome_history
from cn.agency.rows import Facts, File, Version
from cn.agency.store.contents import find_contents
from cn.agency.store.look import last_events
from cn.agency.store.store import Store
from cn.git.objects import read_known
from cn.system.files import PRIVATE, write_file
from cn.system.owners import refuse_anothers
from cn.values.errors import CnError, Refused
from cn.values.names import Oid
from cn.values.text import as_words, slug, words_cell
from cn.values.timestamps import format_second

_FOLDERS = {"outcome": "outcomes", "file": "files", "message": "mail", "state": "state", "audit": "audit"}
_BATCH = 200
_SHORT = 8
_TITLE = 50


class _Contents:
    """What versions hold, also where a tree that names them is lost: then each object is looked through, once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _found(self) -> dict[str, Oid]:
        return find_contents(self._store.repository)

    def read(self, file: Uuid, hash: str) -> bytes:
        """As :func:`cn.agency.perform.read_content`."""
        try:
            return read_content(self._store, file, hash)
        except CnError:
            if hash not in self._found:
                raise
            return read_known(self._store.repository.git, [self._found[hash]])[0]


class Exported(NamedTuple):
    """The files that were written, by their paths in the folder, and what each is of; and what could not be, by what
    it is called, with the reason.
    """

    paths: dict[str, Uuid]
    left_out: dict[str, str]


class _Part(NamedTuple):
    """One version of a file that is to be read, and what its name ends with before the extension."""

    file: File
    version: Version
    older: str

    def path(self, extension: str) -> str:
        """In the folder."""
        return _path(self.file, f"{self.older}{extension}")


class _Plan(NamedTuple):
    """What is to be written: versions that are yet to be read, with what stands above some; and pages that follow from
    the state, of one file and of all; ``sent`` are the messages, ``rows`` what the table of contents says of each path.
    """

    parts: list[_Part]
    heads: dict[Uuid, str]
    sent: list[tuple[File, Sent]]
    derived: dict[str, tuple[File, str]]
    pages: dict[str, str]
    rows: dict[str, tuple[str, ...]]


def export(agency: Agency, principal: Principal, folder: Path, tell: Cells, *, dry_run: bool = False) -> Exported:
    """Into a new folder, or an empty one of ours; that files were read is recorded. What cannot be read is left out,
    and named with the reason: the rest is saved. ``tell`` puts an event into words.

    Raises :class:`Refused` for a folder that holds something, ``UsageError`` for one of another user.
    """
    refuse_anothers(folder, "the files")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is there, and not an empty folder", "name a new one")
    with agency.store.reading() as facts:
        plan = _plan(principal, facts, tell)
    ids = {path: file.id for path, (file, _) in plan.derived.items()}
    if dry_run:
        return Exported(ids | {part.path(_EXTENSION): part.file.id for part in plan.parts}, {})
    left_out: dict[str, str] = {}
    contents = _Contents(agency.store)
    paths: dict[tuple[Uuid, int], str] = {}
    for start in range(0, len(plan.parts), _BATCH):
        batch = plan.parts[start : start + _BATCH]
        asked = [Asked(ReadFile(part.file.id, part.version.number), principal) for part in batch]
        for part, answer in zip(batch, perform(agency.store, asked).answers, strict=True):
            if isinstance(answer, Done):
                try:
                    data = contents.read(part.file.id, str(answer.answer["hash"]))
                except CnError as why:
                    left_out[part.path("")] = why.text
                else:
                    readable = _is_text(data)
                    head = plan.heads.get(part.file.id, "").encode() if readable else b""
                    path = _write(folder, part.path(_EXTENSION if readable else ".bin"), head + data)
                    ids[path] = part.file.id
                    paths[part.file.id, part.version.number] = path
            else:
                left_out[part.path("")] = f"{answer.rule}: {answer.reason}"
    for path, text in (*plan.pages.items(), *((path, text) for path, (_, text) in plan.derived.items())):
        _write(folder, path, text.encode())
    _write(folder, "mail.md", mail_page(plan.sent, paths).encode())
    _write(folder, "README.md", _contents([*ids], plan.rows, left_out).encode())
    return Exported(ids, left_out)


def _plan(principal: Principal, facts: Facts, tell: Cells) -> _Plan:
    """As of one moment: what this export itself reads is in no log of it."""
    shown = Shown(principal, facts)
    files = [file for file in _all(facts) if shown.may_read(file.id)]
    sent = letters(files, shown)
    derived = {_path(file, _EXTENSION): (file, _made(file, shown, tell)) for file in files if file.kind in _DERIVED}
    parts = [part for file in files if file.kind not in _DERIVED for part in _parts(file, facts)]
    heads = {file.id: mail_head(file, sent.get(file.id, ()), facts) for file in files if file.kind == MESSAGE}
    handlers = (facts.handler(file.id) for file in files if file.kind == OUTCOME)
    seen = [row for row in handlers if row and shown.is_above(row.id)]
    events = last_events(facts, shown.sees, None)
    pages = {
        "handlers.md": handlers_page(seen, facts),
        "log.md": log_page(events, tell, shown),
        "log.jsonl": "".join(f"{format_event(event)}\n" for event in events),
    }
    rows = {part.path(""): _row(part.file, part.version, facts) for part in parts}
    rows |= {_path(file, ""): _row(file, facts.version(file.id, file.version), facts) for file, _ in derived.values()}
    every = [(file, one) for file in files for one in sent.get(file.id, ())]
    return _Plan(parts, heads, every, derived, pages, rows)


def _parts(file: File, facts: Facts) -> Iterator[_Part]:
    """The newest version under the plain name, those before it beside that."""
    for version in facts.versions(file.id):
        yield _Part(file, version, "" if version.number == file.version else f".v{version.number}")


def _row(file: File, version: Version | None, facts: Facts) -> tuple[str, ...]:
    told = (str(version.number), format_second(version.time), who(version.actor, facts)) if version else ("", "", "")
    return (file.description, *told, file.id)


_DERIVED = (OUTCOME, AUDIT)
_EXTENSION = ".md"


def _all(facts: Facts) -> Iterator[File]:
    after = 0
    while found := facts.files_like("", after, _BATCH):
        # One event may make several files: the page ends before the last event, unless that is all.
        last = found[-1].since
        whole = [file for file in found if file.since < last or len(found) < _BATCH]
        yield from whole
        after = whole[-1].since if whole else last


def _path(file: File, extension: str) -> str:
    return f"{_FOLDERS[file.kind]}/{slug(file.description, _TITLE, 'untitled')}-{file.id[:_SHORT]}{extension}"


def _made(file: File, shown: Shown, tell: Cells) -> str:
    """What follows from the state: an outcome as it is now and what became of it, an audit log."""
    facts = shown.facts
    row = facts.outcome(file.id)
    if row is None:
        return audit_page(file, facts)
    page = outcome_page(row, facts.parents(row.id), facts.children(row.id))
    return page + history_part(outcome_history(row.id, facts), tell, shown)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _write(folder: Path, path: str, data: bytes) -> str:
    target = folder / path
    for above in (folder, target.parent):  # for its owner alone, as the records are
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(target, data, mode=PRIVATE)
    return path


def _contents(written: Sequence[str], told: Mapping[str, tuple[str, ...]], left_out: Mapping[str, str]) -> str:
    """A table of all of it, and what is missing."""
    rows = []
    for path in sorted(written):
        what, *others = told[path.removesuffix(PurePosixPath(path).suffix)]
        rows.append(f"| [{words_cell(what)}]({path}) | {' | '.join(words_cell(one) for one in others)} |")
    lost = [f"- {path}: {as_words(why)}" for path, why in sorted(left_out.items())]
    return "\n".join([_HEAD, *rows, *(["", "Left out:", "", *lost] if lost else [])]) + "\n"


_HEAD = """\
# Agency

What its reader may read of Agency's records, as of one moment; what nobody but others may read is not in it.

- [handlers.md](handlers.md): who was responsible for what, below whom, from when to when, and what each was granted.
- [mail.md](mail.md): who sent what to whom and when, and what is pending or deferred.
- [log.md](log.md): what happened, oldest first, long texts cut; [log.jsonl](log.jsonl): the same in full, one JSON
  object a line, with what texts of outcomes were before, and capabilities that were taken back.
- `.v1` in a name: an older version of the file that has the name without it.

| what | version | written | by | UUID |
|---|---|---|---|---|"""
