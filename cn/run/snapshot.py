"""Read one commit of main: files, folders, ledger, inbox, outbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from cn.git.objects import Found, TreeEntry, ensure_absent, read_raw
from cn.git.process import Git
from cn.protocol import ledger
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.layout import INBOX, OUTBOX, SAY
from cn.protocol.ledger import Event, Item, LedgerRefused, Open
from cn.protocol.peers_file import PATH as PEERS
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, Oid, is_name

if TYPE_CHECKING:  # imported where something waits
    from cn.protocol.outbox_entry import Entry, Say

T = TypeVar("T")
_ABOVE = ("", ".cn", "logs", "logs/inbox", "state", "threads", "threads/mail", "threads/reflections")
"""Folders of what every command reads: they tell, with no further question, what is not there."""
_FIRST = (*_ABOVE, CONFIG, PEERS, ledger.FOLDER, INBOX, OUTBOX)
"""What every command needs comes with the first question."""


class Snapshot:
    """A read-only, caching view of one commit.

    ``damaged`` names the peers whose unfinished items could not be read, once
    ``open_items`` was asked for, ``mended`` those whose items were folded from the history instead.

    Nothing that is long done is read: ``open_items`` come from the folded ledgers, a
    peer's whole history only when :meth:`history` is asked for it.
    """

    def __init__(self, git: Git, commit: Oid, like: Snapshot | None = None) -> None:
        """``like`` is a snapshot of the same tree: what it read need not be read again."""
        self.git = git
        self.commit = commit
        self.algorithm = "sha256" if len(commit) == 64 else "sha1"
        """The repository's hash, by the length of its ids (gitformat-pack(5), "SHA-1 AND SHA-256")."""
        self._files: dict[str, Found | None] = like._files if like else {}
        self.damaged: dict[Name, str] = {}
        self.mended: set[Name] = set()
        self._open: dict[Name, Open] | None = None
        self._outbox: tuple[list[tuple[HubPath, Entry]], list[tuple[HubPath, str]]] | None = None
        self._history: dict[tuple[Name, str], str] = {}

    def read_many(self, paths: Iterable[str]) -> None:
        """Load files into the cache with one question.

        Where their folder was read before, git is asked for their ids: it looks for each path from
        the root, and reading 1,000 files of one folder by their paths takes it 0.5 s.
        """
        asked = paths if self._files else (*paths, *_FIRST)
        # git takes a name a line; a file of cn's own has no line feed in its name.
        wanted = [p for p in dict.fromkeys(asked) if p not in self._files and "\n" not in p]
        names = {path: self._name(path) for path in wanted}
        self._files.update((path, None) for path, name in names.items() if name is None)
        there = {path: name for path, name in names.items() if name is not None}
        if not there:
            return
        self._files.update(zip(there, read_raw(self.git, list(there.values())), strict=True))
        # git says the same of a file that is not there and of one that it cannot read.
        unclear = [path for path in there if self._files[path] is None and not self._is_absent(path)]
        if unclear:
            ensure_absent(self.git, [f"{self.commit}:{path}" for path in unclear])

    def _is_absent(self, path: str) -> bool:
        """Do the folders read so far tell that there is no such file?"""
        parts = path.split("/") if path else []
        above = ((self._files.get("/".join(parts[:depth])), name) for depth, name in enumerate(parts))
        return any(folder is not None and name not in folder.entries for folder, name in above)

    def _name(self, path: str) -> str | None:
        """What git is asked for ``path``; None: its folder is known, and has no such entry."""
        folder, slash, _ = path.rpartition("/")
        if not slash or folder not in self._files:
            return f"{self.commit}:{path}"
        entry = self._entry(path)
        return entry.oid if entry else None

    def look_ahead(self, peers: Iterable[Name] = ()) -> None:
        """Load what every command needs, configuration and the folders of cn, with one question.

        Of ``peers``, of whom there may be records, also what is not finished.
        """
        opens = (ledger.open_path(peer) for peer in peers)
        self.read_many((*_FIRST, *opens))

    def oid(self, path: str) -> Oid | None:
        """The id of what is at a path, a file or a folder; None when there is nothing."""
        found = self._find(path)
        return found.oid if found else None

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None when there is none: what a folder there holds is no text."""
        found = self._find(path)
        return found.data if found and found.kind == "blob" else None

    def _find(self, path: str) -> Found | None:
        if path not in self._files:
            self.read_many([path])
        return self._files.get(path)

    def text(self, path: str) -> str:
        """A file of cn's own as text, empty when it is not there."""
        return (self.read(path) or b"").decode("utf-8", "replace")

    def folder(self, path: str) -> Collection[TreeEntry]:
        """The entries of a folder."""
        found = self._find(path)
        return found.entries.values() if found else ()

    def folders(self, paths: Iterable[str]) -> dict[str, Collection[TreeEntry]]:
        """The entries of each of these folders, with one question."""
        wanted = list(paths)
        self.read_many(wanted)
        return {path: self.folder(path) for path in wanted}

    def _entry(self, path: str) -> TreeEntry | None:
        """What the folder above says of a path."""
        folder, _, name = path.rpartition("/")
        found = self._find(folder)
        return found.entries.get(name) if found else None

    def displaced(self, folders: Iterable[str]) -> dict[str, str]:
        """Those in whose place something else is, with its mode."""
        found = {folder: self._entry(folder) for folder in folders}
        return {folder: entry.mode for folder, entry in found.items() if entry and entry.kind != "tree"}

    @property
    def open_items(self) -> dict[Name, Open]:
        """Per peer what is not finished, in both directions."""
        if self._open is None:
            paths = {peer: ledger.open_path(peer) for peer in self.ledgers}
            self.read_many(paths.values())
            self._open = {}
            for peer, path in paths.items():
                try:
                    self._open[peer] = ledger.parse_open(self.text(path))
                except LedgerRefused as refused:
                    self.damaged[peer] = f"{path} is damaged: {refused.text}"
        return self._open

    @property
    def ledgers(self) -> dict[Name, Oid]:
        """Peer → the tree of its ledger."""
        return {Name(e.path): e.oid for e in self.folder(ledger.FOLDER) if e.kind == "tree" and is_name(e.path)}

    def item(self, peer: Name, side: str, topic: str) -> Item | None:
        """One unfinished item."""
        return self.open_items.get(peer, {}).get((side, topic))

    def pending(self) -> list[tuple[Name, Item]]:
        """Inbound items with a thread that is not decided, oldest first."""
        found = [(peer, item) for peer, item in self._of_side(ledger.IN) if "thread" in item.fields]
        return sorted(found, key=lambda pair: pair[1].order)

    def outbound(self) -> list[tuple[Name, Item]]:
        """Our branches that are not finished, oldest first."""
        return sorted(self._of_side(ledger.OUT), key=lambda pair: (pair[1].since, pair[1].topic))

    def _of_side(self, side: str) -> list[tuple[Name, Item]]:
        return [(peer, item) for peer, items in self.open_items.items() for item in items.values() if item.side == side]

    def history(self, peer: Name, since: str = "") -> str:
        """The months of a peer's ledger from ``since`` (``YYYYMM``) on, oldest first, as cn wrote them."""
        if (peer, since) not in self._history:
            self.read_histories([peer], since)
            self._history[peer, since] = "".join(
                ledger.as_written(self.text(path)) for path in self._months(peer, since)
            )
        return self._history[peer, since]

    def read_histories(self, peers: Collection[Name], since: str = "") -> None:
        """Load what :meth:`history` says of many peers, with two questions."""
        self.read_many(f"{ledger.FOLDER}/{peer}" for peer in peers)
        self.read_many(path for peer in peers for path in self._months(peer, since))

    def _months(self, peer: Name, since: str) -> list[str]:
        folder = f"{ledger.FOLDER}/{peer}"
        return [f"{folder}/{month}" for month in ledger.months(e.path for e in self.folder(folder)) if month >= since]

    def events_of_topic(self, peer: Name, side: str, topic: str) -> list[Event]:
        """What the ledger says of one topic, oldest first."""
        return self.events_of_topics(peer, side, [topic])[topic]

    def events_of_topics(self, peer: Name, side: str, topics: Iterable[str]) -> dict[str, list[Event]]:
        """What the ledger says of many topics, with one look at the history."""
        with readable_ledger(peer):
            return ledger.events_of_topics(self.history(peer), side, topics)

    def events_at_heads(self, peer: Name, side: str, heads: Iterable[Oid]) -> dict[Oid, list[Event]]:
        """What the ledger says of some heads, under any topic, with one look at the history."""
        with readable_ledger(peer):
            return ledger.events_at_heads(self.history(peer), side, heads)

    def events_with(self, peer: Name, side: str, words: Iterable[str], since: str = "") -> list[Event]:
        """The events whose line holds one of these words, oldest first, with one look at the history (from the month
        ``since`` on).
        """
        with readable_ledger(peer):
            return ledger.events_with(self.history(peer, since), side, tuple(words))

    def blob(self, path: str) -> Oid | None:
        """The id of a file, told by its folder; None when there is none."""
        entry = self._entry(path)
        return entry.oid if entry and entry.kind == "blob" else None

    def thread_names(self) -> list[str]:
        """The files of threads in the inbox."""
        return [e.path for e in self.folder(INBOX) if e.kind == "blob" and e.path.endswith(".md") and e.path[0] != "."]

    def outbox_paths(self) -> list[HubPath]:
        """The files of the outbox that are entries, or should be."""
        return [path for path in self._waiting() if not path.endswith(SAY)]

    def _waiting(self) -> list[HubPath]:
        names = [e.path for e in self.folder(OUTBOX) if e.kind == "blob" and not e.path.startswith(".")]
        return [HubPath(f"{OUTBOX}/{name}") for name in names]

    def outbox(self) -> tuple[list[tuple[HubPath, Entry]], list[tuple[HubPath, str]]]:
        """The waiting entries, and the files that are none with the reason; parsed once."""
        if self._outbox is None:
            if paths := self.outbox_paths():
                from cn.protocol.outbox_entry import parse_entry

                self._outbox = self._read_records(paths, lambda data: parse_entry(data, self.algorithm))
            else:
                self._outbox = [], []
        entries, broken = self._outbox
        return list(entries), list(broken)

    def says(self) -> tuple[list[tuple[HubPath, Say]], list[tuple[HubPath, str]]]:
        """What waits to be said in chats, oldest first, and the files that are none with the reason."""
        paths = [path for path in self._waiting() if path.endswith(SAY)]
        if not paths:
            return [], []
        from cn.protocol.outbox_entry import parse_say

        says, broken = self._read_records(paths, parse_say)
        return sorted(says, key=lambda pair: (pair[1].queued, pair[1].id)), broken

    def _read_records(
        self, paths: Sequence[HubPath], parse: Callable[[bytes], T]
    ) -> tuple[list[tuple[HubPath, T]], list[tuple[HubPath, str]]]:
        from cn.values.record_header import RecordRefused

        read: list[tuple[HubPath, T]] = []
        broken: list[tuple[HubPath, str]] = []
        self.read_many(paths)
        for path in paths:
            try:
                read.append((path, parse(self.read(path) or b"")))
            except RecordRefused as refused:
                broken.append((path, refused.text))
        return read, broken


@contextmanager
def readable_ledger(peer: Name) -> Iterator[None]:
    """Refuse a ledger that has a line that is no event."""
    try:
        yield
    except LedgerRefused as refused:
        raise Refused(f"the ledger of {peer} is damaged: {refused.text}", "see 'cn doctor'") from None
