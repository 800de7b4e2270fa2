"""The one interpreter of plans: effects in, one draft commit out.

It changes nothing in the world. What it gathers becomes the commit of the run, or, in a
dry run, the list that is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import assert_never

from cn.git.fast_import import EntryChange, FileChange, identity
from cn.git.objects import read_known
from cn.git.repository import Hub
from cn.protocol import ledger, log, outbox_entry
from cn.protocol.effects import (
    Advance,
    Archive,
    CleanUp,
    Drop,
    Effect,
    Log,
    Plan,
    Post,
    Put,
    Record,
    Wake,
    describe,
)
from cn.protocol.hub_config import is_local
from cn.protocol.layout import DONE, INBOX
from cn.protocol.ledger import OUT, Event
from cn.protocol.log import Row
from cn.protocol.message import own_topic
from cn.protocol.outbox_entry import Deliver, Entry, Remove, sent_path
from cn.protocol.queue_item import INPUT
from cn.run.memory import Memory
from cn.run.message_commit import Sealer
from cn.run.refused import RefusedArrival
from cn.run.secret_gate import check_change, mask_file, mask_line, mask_text
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.transaction import mailbox_main as published
from cn.transaction.base import Base
from cn.transaction.commit import Draft, LocalAppend, LocalFile, RefUpdate
from cn.transaction.housekeeping import KEPT
from cn.transaction.pins import Key, encode, keep, pin_ref
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, Oid, fold, is_machine_local, join_branch, parse_oid, topic_of
from cn.values.report import Report
from cn.values.timestamps import format_day

MACHINE_LOG = "logs/cn.log"
Content = bytes | Oid | None
"""What a file of the commit is to hold: bytes, those of an object of git, or nothing: it goes."""


@dataclass
class Executor:
    """The state of a run while its plans are performed upon ``snapshot``.

    ``notes`` are what this attempt has to tell, ``local`` files of this machine, ``seen`` the bytes of
    those that a plan has read, ``withheld`` the whole of files that are masked, ``steps`` what a dry run
    shows.
    """

    hub: Hub
    settings: Settings
    snapshot: Snapshot
    now: datetime
    base: Base
    memory: Memory
    notes: Report = field(default_factory=Report)
    tip: Oid = field(init=False)
    files: dict[HubPath, Content] = field(default_factory=dict)
    local: dict[HubPath, bytes | None] = field(default_factory=dict)
    seen: dict[HubPath, bytes] = field(default_factory=dict)
    withheld: dict[HubPath, bytes] = field(default_factory=dict)
    inputs: dict[HubPath, Oid] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    pins: dict[Key, tuple[str, Oid | None]] = field(default_factory=dict)
    dropped: list[Oid] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    refused: list[RefusedArrival] = field(default_factory=list)
    _events: dict[Name, list[Event]] = field(default_factory=dict)
    _items: dict[Name, ledger.Open] = field(default_factory=dict)
    _topics: dict[Name, set[str]] = field(default_factory=dict)
    _looked: set[HubPath] = field(default_factory=set)

    published: Oid | None = None
    dry_run: bool = False

    @cached_property
    def threads(self) -> set[str]:
        """Folded names of today's threads, pending or done; whoever makes one adds it."""
        day = format_day(self.now)
        names = (e.path for folder in (INBOX, DONE) for e in self.snapshot.folder(folder))
        return {fold(name) for name in names if name.startswith(day)}

    def __post_init__(self) -> None:
        self.tip = self.base.commit
        if self.settings.separate_mailbox:
            text = self.snapshot.text(published.PATH).strip()
            self.published = parse_oid(text) if text else None
        self._sealer = Sealer(self.hub, self.snapshot.algorithm)
        for peer in self.snapshot.mended:
            self.files[ledger.open_path(peer)] = ledger.format_open(self._open(peer)).encode()

    def perform(self, plan: Plan) -> None:
        """Perform every effect of a plan, in order."""
        for effect in plan.effects:
            if self.dry_run:
                self.steps.append((plan.cause, describe(effect)))
            self._one(effect)

    def _one(self, effect: Effect) -> None:
        match effect:
            case Put(path, text):
                self._write(path, text.encode("utf-8", "replace"))
            case Drop(path):
                self._write(path, None)
            case Archive(path, data):
                self._write(path, data, told=path.startswith("logs/"))
            case Log(row):
                self.rows.append(row)
            case Record(peer, event):
                self._record(peer, event)
            case Advance(commit, _, twin):
                self.tip = commit
                self.published = twin or self.published
            case Post():
                self._post(effect)
            case CleanUp(entry):
                self.files[outbox_entry.outbox_path(entry)] = outbox_entry.format_entry(entry)
                row = Row(
                    self.now,
                    entry.source,
                    "clean up",
                    "queued",
                    entry.thread,
                    entry.branch,
                    entry.tip,
                    "queued",
                )
                self.rows.append(row)
                event = Event(self.now, OUT, "deleting", topic_of(entry.branch), entry.tip)
                self._record(entry.to, event)
            case Wake(thread, turn):
                if turn or self.settings.config.interface == "triage":
                    self.wakes.append(thread)
            case _:
                assert_never(effect)

    def _write(self, path: HubPath, data: bytes | None, *, told: bool = False) -> None:
        """Into the commit, or, for what stays on this machine, into a file after it.

        Without secrets, which the planners do not refuse here: what they led to must be committed.
        With ``told`` the file says what is masked in it.
        """
        here = is_machine_local(path) or is_local(path, self.settings.config.local)
        if data is not None and (path == INPUT or not here):
            data = self.mask(path, data, told=told)
            self._looked.add(path)
        if here:
            self.local[path] = data
            return
        self.files[path] = data

    def mask(self, path: HubPath, data: bytes, *, told: bool = False, mains: Sequence[str] = ()) -> bytes:
        """A file's bytes as they may be committed; the whole of them is kept on this machine.

        ``mains`` are what main has of an edited thread, and had: what else it quotes nobody sent.
        """
        masked, found = mask_file(path, data, self.settings, mains)
        if not found:
            return data
        if path != INPUT:  # which is in main as the turn
            self.withheld[path] = data
        if told:
            what = ", ".join(dict.fromkeys(f"line {one.line} ({one.kind})" for one in found[:20]))
            place = f"the whole is on the machine that archived it, in {self.kept_in(path)}"
            masked += f"\n<!-- cn masked what looks like a secret: {what}; {place} -->\n".encode()
        return masked

    def kept_in(self, path: HubPath) -> str:
        """Where the whole of a masked file is."""
        return f".git/{self.hub.state.name}/{KEPT}/{path}"

    def read(self, path: HubPath) -> bytes | None:
        """A file as this run leaves it so far."""
        if path not in self.files:
            return self.snapshot.read(path)
        data = self.files[path]
        return read_known(self.hub.git, [data])[0] if isinstance(data, str) else data

    def _post(self, post: Post) -> None:
        message = post.message
        sealed = self._sealer.seal(message)
        peer = self.settings.peer(message.to)
        topic = own_topic(post.topic, self._taken(peer.name), sealed.id)
        self._topics[peer.name].add(topic)
        branch = join_branch(self.settings.outbound_prefix(peer), topic)
        about = message.about.branch if message.about else ""
        entry = Deliver(
            sealed.id,
            peer.name,
            branch,
            message.kind,
            self.now,
            message.subject,
            post.thread,
            post.source,
            about,
            post.decision,
            commit=sealed.commit,
            content=sealed.content,
        )
        self.files[outbox_entry.outbox_path(entry)] = outbox_entry.format_entry(entry)
        fields = {
            "branch": branch,
            "kind": message.kind,
            "thread": post.thread,
            "subject": message.subject,
            "about": message.about.branch if message.about else "",
            "about_head": message.about.head if message.about else "",
            "about_status": message.about.status if message.about else "",
        }
        event = Event(self.now, OUT, "queued", topic, sealed.id, fields)
        self._record(peer.name, event)
        if post.decision:
            return  # the row of the decision says so, and names what was reviewed
        row = Row(
            self.now,
            entry_source(entry),
            entry_decision(entry, message.about.status if message.about else ""),
            "queued",
            post.thread,
            branch,
            sealed.id,
            "queued",
        )
        self.rows.append(row)

    def _taken(self, peer: Name) -> set[str]:
        """Topics of ours in use, or used before, at a peer."""
        if peer not in self._topics:
            self._topics[peer] = ledger.topics(self.snapshot.history(peer), OUT)
            self._topics[peer].update(item.topic for item in self.open(peer, OUT))
        return self._topics[peer]

    def confirm(self, path: HubPath, entry: Entry, kind: str, executed: str) -> None:
        """An outbox entry is through: it moves to ``sent/``, logged and recorded in the same commit."""
        self.move(path, sent_path(entry))
        item = self.item(entry.to, OUT, topic_of(entry.branch))
        status = item.get("about_status") if item is not None else ""
        head = entry.id if isinstance(entry, Deliver) else entry.tip
        event = Event(self.now, OUT, kind, topic_of(entry.branch), head)
        self._record(entry.to, event)
        self.rows.append(
            Row(
                self.now,
                entry_source(entry),
                entry_decision(entry, status),
                executed,
                entry.thread,
                entry.branch,
                head,
                kind,
            )
        )

    def pin(self, peer: Name, side: str, topic: str, head: Oid | None) -> None:
        """Set, or with None drop, the pin of a branch after the commit."""
        self.pins[(peer, side, encode(topic))] = (pin_ref(peer, side, topic), head)

    def move(self, old: HubPath, new: HubPath) -> None:
        """Move a file as it is, byte for byte (the outbox to sent, old threads to their year)."""
        self.files[new] = self.snapshot.blob(old)
        self.files[old] = None

    def _record(self, peer: Name, event: Event) -> None:
        # Before anything is changed: a plan that does not fit the ledger ends the run here.
        ledger.check(self._open(peer), event, f"{peer}/{event.topic}")
        self._events.setdefault(peer, []).append(event)
        ledger.apply(self._open(peer), event)

    def _open(self, peer: Name) -> ledger.Open:
        if peer not in self._items:
            self._items[peer] = dict(self.snapshot.open_items.get(peer, {}))
        return self._items[peer]

    def open(self, peer: Name, side: str) -> list[ledger.Item]:
        """A peer's open items of one side, the events of this run folded in."""
        return [item for (item_side, _), item in self._open(peer).items() if item_side == side]

    def item(self, peer: Name, side: str, topic: str) -> ledger.Item | None:
        """An open item with the events of this run folded in."""
        return self._open(peer).get((side, topic))

    @property
    def empty(self) -> bool:
        """Would this run commit nothing?"""
        return (
            not (self.files or self.local or self.rows or self._events) and self.tip == self.snapshot.commit
        )

    def check(self) -> None:
        """Refuse a secret in what this run would commit, whatever way it came: no command is without this.

        What is masked by :meth:`mask` need not be looked at again.
        """
        changed = {
            path: data
            for path, data in self.files.items()
            if isinstance(data, bytes) and path not in self._looked
        }
        self.snapshot.read_many(changed)
        for path, data in changed.items():
            if refusal := check_change(path, data, self.snapshot.read(path), self.settings):
                raise Refused.by(refusal)

    def draft(self, message: str) -> Draft | None:
        """The commit of this run, or None when there is nothing to commit or to pin.

        Its message is masked: it may repeat the name that a peer gave a branch.
        """
        self.check()
        told = "\n".join(text for row in self.rows for text in (row.decision, row.executed))
        if mask_text(told, self.settings)[1]:  # all at once first: there seldom is one
            self.rows = [self._clean(row) for row in self.rows]
        self._write_ledgers()
        self._write_logs()
        extra = self.publish()
        refs = self._refs()
        changes = [
            EntryChange(path, "100644", data) if isinstance(data, str) else FileChange(path, data)
            for path, data in sorted(self.files.items(), key=lambda pair: pair[0])
        ]
        if not changes and not refs and not self.local and self.tip == self.snapshot.commit:
            return None
        lines = "".join(log.format_event(row) + "\n" for row in self.rows)
        appends = [LocalAppend(self.hub.root / MACHINE_LOG, lines)] if lines else []
        if self.wakes:
            names = "".join(f"{name}\n" for name in dict.fromkeys(self.wakes))
            appends.append(LocalAppend(self.hub.state / "wake", names))
        return Draft(
            tip=self.tip,
            changes=tuple(changes),
            message=mask_text(message, self.settings)[0],
            at=self.now,
            inputs=self.inputs,
            extra_parents=extra,
            refs=tuple(refs),
            appends=tuple(appends),
            files=(
                *(LocalFile(self.hub.state / KEPT / path, data) for path, data in self.withheld.items()),
                *(self._local_file(path, data) for path, data in self.local.items()),
            ),
        )

    def _clean(self, row: Row) -> Row:
        decision, executed = mask_line(row.decision, self.settings), mask_line(row.executed, self.settings)
        if (decision, executed) == (row.decision, row.executed):
            return row
        return row._replace(decision=decision, executed=executed)

    def _local_file(self, path: HubPath, data: bytes | None) -> LocalFile:
        seen = self.seen.get(path)
        was = hashlib.sha256(seen).hexdigest() if data is None and seen is not None else ""
        return LocalFile(self.hub.root / path, data, was)

    def _write_ledgers(self) -> None:
        folders = {peer: f"{ledger.FOLDER}/{peer}" for peer in self._events}
        self.snapshot.read_many(folders.values())
        names = {peer: [e.path for e in self.snapshot.folder(path)] for peer, path in folders.items()}
        self.snapshot.read_many(ledger.month_path(peer, self.now, names[peer]) for peer in folders)
        for peer, events in self._events.items():
            path = ledger.month_path(peer, self.now, names[peer])
            lines = "".join(ledger.format_event(e) + "\n" for e in events)
            self.files[path] = (self.snapshot.read(path) or b"") + lines.encode()
            self.files[ledger.open_path(peer)] = ledger.format_open(self._open(peer)).encode()
        self._events = {}

    def _write_logs(self) -> None:
        by_path: dict[HubPath, list[Row]] = {}
        for row in self.rows:
            by_path.setdefault(log.log_path(row.at), []).append(row)
        for path, rows in by_path.items():
            self.files[path] = log.append_rows(self.snapshot.text(path), rows).encode()

    def publish(self) -> tuple[Oid, ...]:
        """Where peers read another remote: the published commit that goes with this main."""
        if not self.settings.separate_mailbox:
            return ()
        before = self.snapshot.text(published.PATH).strip()
        message = f"{self.settings.us}: main"
        self.published = published.publish(self.hub, self.published, self.tip, None, message, self.now)
        if self.published == before:
            return ()
        self.files[published.PATH] = f"{self.published}\n".encode()
        return (self.published,)

    def _refs(self) -> list[RefUpdate]:
        updates = [RefUpdate(ref, head) for ref, head in self.pins.values()]
        kept = keep(self.hub, self.dropped, identity(self.hub)) if self.dropped else None
        if kept:
            updates.insert(0, RefUpdate(*kept))
        return sorted(
            updates, key=lambda u: (u.new is not None and not u.ref.startswith("refs/cn/keep"), u.ref)
        )


def entry_source(entry: Entry) -> str:
    """What log rows about an outbox entry name: the inbound branch it answers, else its own."""
    return entry.source or f"{entry.to}/{topic_of(entry.branch)}"


def entry_decision(entry: Entry, status: str) -> str:
    """The ``Decision`` cell of rows about an outbox entry; ``status`` is what a notice tells."""
    match entry:
        case Remove():
            return "clean up"
        case Deliver(decision=decision) if decision:
            return decision
        case Deliver(kind="notice"):
            return f"notice:{status}" if status else "notice"
        case Deliver():
            return f"send:{topic_of(entry.branch)}"
        case _:
            assert_never(entry)
