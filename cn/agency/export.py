"""Write everything that a principal may read as plain files into a folder: Markdown, and what is not text as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cn.agency.agency import Agency
from cn.agency.names import AUDIT, OUTCOME, Resource, Uuid
from cn.agency.operations import Principal, ReadFile
from cn.agency.pages import outcome_page, page_of
from cn.agency.perform import Asked, Done, perform, read_content
from cn.agency.plan.access import reason_for
from cn.agency.rows import Facts, File
from cn.system.files import PRIVATE, write_file
from cn.system.owners import refuse_anothers
from cn.values.errors import Blocked, Refused
from cn.values.text import cell, one_line, slug

_FOLDERS = {"outcome": "outcomes", "file": "files", "message": "mail", "state": "state", "audit": "audit"}
_BATCH = 200
_SHORT = 8
_TITLE = 50


class Exported(NamedTuple):
    """The files that were written, by their paths in the folder, and what each is of; and what could not be, by what
    it is called, with the reason.
    """

    paths: dict[str, Uuid]
    left_out: dict[str, str]


def export(agency: Agency, principal: Principal, folder: Path, *, dry_run: bool = False) -> Exported:
    """Into a new folder, or an empty one of ours; that files were read is recorded. What cannot be read is left out,
    and named with the reason: the rest is saved.

    Raises :class:`Refused` for a folder that holds something, ``UsageError`` for one of another user.
    """
    refuse_anothers(folder, "the files")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is there, and not an empty folder", "name a new one")
    with agency.store.reading() as facts:
        files = [file for file in _all(facts) if _may_read(file, principal, facts)]
        kept = [file for file in files if file.kind not in _DERIVED and file.version]
        derived = [file for file in files if file.kind in _DERIVED]
        if dry_run:
            return Exported({_path(file, _EXTENSION): file.id for file in (*derived, *kept)}, {})
        made = {_path(file, _EXTENSION): _made(file, facts).encode() for file in derived}
    written = {_write(folder, _path(file, _EXTENSION), made[_path(file, _EXTENSION)]): file for file in derived}
    left_out: dict[str, str] = {}
    for start in range(0, len(kept), _BATCH):
        batch = kept[start : start + _BATCH]
        asked = [Asked(ReadFile(file.id), principal) for file in batch]
        for file, answer in zip(batch, perform(agency.store, asked).answers, strict=True):
            if isinstance(answer, Done):
                try:
                    data = read_content(agency.store, file.id, str(answer.answer["hash"]))
                except Blocked as why:
                    left_out[_path(file, "")] = why.text
                else:
                    written[_write(folder, _path(file, _EXTENSION if _is_text(data) else ".bin"), data)] = file
            else:
                left_out[_path(file, "")] = f"{answer.rule}: {answer.reason}"
    _write(folder, "README.md", _contents(written, left_out).encode())
    return Exported({path: file.id for path, file in written.items()}, left_out)


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


def _may_read(file: File, principal: Principal, facts: Facts) -> bool:
    return reason_for(principal, Resource("kb", file.id), "read", facts) is not None


def _path(file: File, extension: str) -> str:
    return f"{_FOLDERS[file.kind]}/{slug(file.description, _TITLE, 'untitled')}-{file.id[:_SHORT]}{extension}"


def _made(file: File, facts: Facts) -> str:
    """What follows from the state: an outcome as it is now, an audit log."""
    row = facts.outcome(file.id)
    if row is None:
        return page_of(facts, file)
    return outcome_page(row, facts.parents(row.id), facts.children(row.id))


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


def _contents(written: dict[str, File], left_out: dict[str, str]) -> str:
    """A table of all of it, and what is missing."""
    rows = [f"| [{cell(file.description)}]({path}) | {file.id} |" for path, file in sorted(written.items())]
    lost = [f"- {path}: {one_line(why)}" for path, why in sorted(left_out.items())]
    return "\n".join(["# Agency", "", *_TABLE, *rows, *(["", "Left out:", "", *lost] if lost else [])]) + "\n"


_TABLE = ("| what | UUID |", "|---|---|")
