"""Threads of our own: adhoc threads, reflections, managed concerns (``docs/protocol/threads.md``).

One markdown file each, in ``threads/adhoc/``, ``threads/reflections/<cadence>/`` and
``state/mca/``. A head of ``**Field:** value`` lines says what state it is in; the rest is
text that people and the agent write. Nothing in it decides: it is shown and appended to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from cn.protocol.outbox_entry import is_chat
from cn.protocol.queue_item import REFLECTIONS, Cadence, is_period
from cn.protocol.thread_file import closing
from cn.values.names import HubPath, digest, fold
from cn.values.text import is_plain, one_line, redact, slug
from cn.values.timestamps import format_day, format_stamp, stamp_or_none

ADHOC = HubPath("threads/adhoc")
CONCERNS = HubPath("state/mca")
DONE_CONCERNS = HubPath("state/mca/done")
OPEN, DEFERRED, ASSIGNED = "open", "deferred", "assigned"
_FIELD = re.compile(r"\*\*([A-Z][a-z-]*):\*\*(.*)")


@dataclass(frozen=True)
class Own:
    """One thread of our own: ``fields`` in file order, ``body`` what stands below them.

    ``state`` is open, deferred or assigned, or what ended it: done, closed, discarded, delegated, failed.
    """

    path: HubPath
    title: str
    fields: tuple[tuple[str, str], ...]
    body: str

    def get(self, name: str) -> str:
        """A field, empty when it is missing."""
        return next((value for key, value in self.fields if key == name), "")

    def with_field(self, name: str, value: str) -> Own:
        """The thread with a field set; an empty value takes it out."""
        found = any(key == name for key, _ in self.fields)
        fields = [(key, value if key == name else old) for key, old in self.fields]
        fields += [] if found else [(name, value)]
        return replace(self, fields=tuple((k, one_line(v, 500)) for k, v in fields if v))

    def with_entry(self, at: datetime, who: str, text: str) -> Own:
        """The thread with one more entry at its end, under the time and the name of who wrote it."""
        end = closing(self.body)
        body = f"{self.body.rstrip()}\n{end}" if end else self.body.rstrip()
        entry = f"## {format_stamp(at)} {one_line(who, 80)}\n\n{text.strip()}"
        return replace(self, body=f"{body}\n\n{entry}".strip())

    @property
    def state(self) -> str:
        """``open`` unless the head says otherwise."""
        return self.get("State") or OPEN

    @property
    def pending(self) -> bool:
        """Is something still to be done about it?"""
        return self.state in (OPEN, DEFERRED, ASSIGNED)

    @property
    def opened(self) -> datetime | None:
        """When it was opened, where its head says so."""
        return stamp_or_none(self.get("Opened"))

    @property
    def asked(self) -> datetime | None:
        """When the agent was last asked about it."""
        return stamp_or_none(self.get("Asked"))

    @property
    def until(self) -> datetime | None:
        """Until when it is put off."""
        return stamp_or_none(self.get("Until"))

    @property
    def cadence(self) -> Cadence:
        """How it comes to the agent: concerns weekly, reflections at their own pace, all else adhoc."""
        if self.is_concern:
            return Cadence.WEEKLY
        return next((c for c in Cadence if self.path.startswith(f"{REFLECTIONS}/{c.value}/")), Cadence.ADHOC)

    @property
    def is_concern(self) -> bool:
        """Is it a managed concern?"""
        return self.path.startswith(f"{CONCERNS}/")

    @property
    def chat(self) -> str:
        """The chat that waits for an answer to the message it keeps; empty: none."""
        source = self.get("Source")
        return source if is_chat(source) and not self.is_concern else ""

    @property
    def kind(self) -> str:
        """``adhoc``, ``reflection`` or ``concern``."""
        if self.is_concern:
            return "concern"
        return "reflection" if self.path.startswith(f"{REFLECTIONS}/") else "adhoc"

    @property
    def source(self) -> str:
        """What log rows call it: ``adhoc/20260205-title``, ``daily/20260205``, ``mca/…``."""
        return own_source(self.path)


def parse_own(path: HubPath, text: str) -> Own:
    """Read one; total: a file that people wrote freely is an open thread with a body.

    The head is the first block of field lines; an empty line ends it, so that no text below
    becomes a field.
    """
    lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    title = ""
    index = 0
    if lines[0].startswith("# "):
        title, index = lines[0][2:].strip(), 1
    fields: list[tuple[str, str]] = []
    while index < len(lines):
        match = _FIELD.fullmatch(lines[index])
        if match:
            fields.append((match[1], match[2].strip(" \t")))
        elif fields or lines[index].strip():
            break
        index += 1
    stem = path.rpartition("/")[2].removesuffix(".md")
    return Own(path, title or stem, tuple(fields), "\n".join(lines[index:]).strip())


def format_own(own: Own) -> str:
    """The inverse of :func:`parse_own`."""
    lines = [f"# {one_line(own.title, 300)}", "", *(f"**{key}:** {value}" for key, value in own.fields)]
    return "\n".join([*lines, "", own.body] if own.body else lines) + "\n"


def new_own(path: HubPath, title: str, at: datetime, by: str, body: str = "", **fields: str) -> Own:
    """A thread that is opened now; ``fields`` with a capital letter, in order."""
    head = {"State": OPEN, "Opened": format_stamp(at), "By": by, **fields}
    kept = tuple((key, one_line(value, 500)) for key, value in head.items() if value)
    return Own(path, one_line(title, 300), kept, body.strip())


def adhoc_path(title: str, at: datetime, taken: frozenset[str] = frozenset()) -> HubPath:
    """``threads/adhoc/YYYYMMDD-<slug>.md``; a taken name gets ``-2``, ``-3`` and so on."""
    stem, used = f"{format_day(at)}-{slug(redact(title), empty='thread')}", {fold(name) for name in taken}
    path, number = HubPath(f"{ADHOC}/{stem}.md"), 2
    while fold(path) in used:
        path, number = HubPath(f"{ADHOC}/{stem}-{number}.md"), number + 1
    return path


def concern_path(description: str, at: datetime, salt: str) -> HubPath:
    """``state/mca/YYYYMMDD-<slug>-<8 hex>.md``: the same cause gives the same path."""
    return HubPath(f"{CONCERNS}/{format_day(at)}-{slug(description, 40)}-{digest(description, salt)[:8]}.md")


def done_concern_path(path: HubPath) -> HubPath:
    """Where a concern goes that is closed."""
    return HubPath(f"{DONE_CONCERNS}/{path.rpartition('/')[2]}")


def is_own(path: str) -> bool:
    """Is it the path of an own thread (of one that is not filed away)?"""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".md") or name.startswith((".", "-")) or not is_plain(name):
        return False
    if folder in (ADHOC, CONCERNS):
        return True
    parent, _, kind = folder.rpartition("/")
    cadences = {c.value: c for c in Cadence}
    return parent == REFLECTIONS and kind in cadences and is_period(cadences[kind], name[:-3])


def own_source(path: HubPath) -> str:
    """See :attr:`Own.source`; a concern keeps it when it is filed away."""
    folder, _, name = path.rpartition("/")
    folder = CONCERNS if folder == DONE_CONCERNS else folder
    return f"{folder.rpartition('/')[2]}/{name.removesuffix('.md')}"


def is_named(path: HubPath, text: str) -> bool:
    """May people call it that: its path, its source, or its file name, each with or without ``.md``?"""
    plain = text.removesuffix(".md")
    stem = path.removesuffix(".md")
    return plain in (stem, own_source(path), stem.rpartition("/")[2])
