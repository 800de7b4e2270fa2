"""The one interpreter of plans: effects in, one draft commit out.

It changes nothing in the world. What it gathers becomes the commit of the run, or, in a
dry run, the list that is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple, assert_never

from cn.git.fast_import import EntryChange, FileChange, build_commit
from cn.git.objects import read_known, read_object, write_objects
from cn.git.repository import Hub
from cn.protocol import effects, ledger, log, outbox_entry
from cn.protocol.effects import Effect, Plan
from cn.protocol.hub_config import is_local
from cn.protocol.layout import PROPOSAL
from cn.protocol.ledger import OUT, WITHDRAWN, Event
from cn.protocol.log import Row
from cn.protocol.message import Message, Sealed, object_id, own_topic, seal, tree_bytes
from cn.protocol.outbox_entry import Deliver, Entry, entry_head, entry_row
from cn.protocol.queue_item import INPUT
from cn.protocol.states import InvalidTransition
from cn.run.memory import Memory
from cn.run.secret_gate import check_change, mask_file, mask_line, mask_text
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.transaction import mailbox_main
from cn.transaction.base import Base, commit_time
from cn.transaction.commit import Draft
from cn.transaction.housekeeping import KEPT
from cn.transaction.journal import IN_STATE, LocalAppend, LocalFile, RefUpdate
from cn.transaction.push import keep, pin_ref
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, Oid, Topic, is_machine_local, join_branch, parse_oid, topic_of
from cn.values.report import Report
from cn.values.timestamps import format_second

MACHINE_LOG = "logs/cn.log"
Content = bytes | Oid | None
"""What a file of the commit is to hold: bytes, those of an object of git, or nothing: it goes."""


class Step(NamedTuple):
    """An effect as a dry run shows it, with the files of main that it changes and the rows that it logs."""

    cause: str
    text: str
    paths: tuple[HubPath, ...]
    rows: tuple[Row, ...]


class Executor:
    """Performs plans upon ``snapshot`` and drafts the commit that they come to.

    Only :meth:`perform` adds to that commit; everything else reads. ``notes`` are what this attempt has
    to tell.
    """

    def __init__(
        self, hub: Hub, settings: Settings, snapshot: Snapshot, base: Base, memory: Memory, *, dry_run: bool = False
    ) -> None:
        self.hub: Final = hub
        self.settings: Final = settings
        self.snapshot: Final = snapshot
        self.base: Final = base
        self.memory: Final = memory
        self.now: Final = memory.at
        self.notes: Final = Report()
        self._tip = self.base.tip
        self._published: Oid | None = None
        self._files: dict[HubPath, Content] = {}
        self._here: dict[HubPath, LocalFile] = {}
        self._withheld: dict[HubPath, bytes] = {}
        self._inputs: dict[HubPath, Oid] = {}
        self._rows: list[Row] = []
        self.changed: Final = self._files.keys()
        """The files of main that this run writes or removes."""
        self.changed_here: Final = self._here.keys()
        """The files of this machine that it writes or removes."""
        self.withheld: Final = self._withheld.keys()
        """The files in which something is masked."""
        self.rows: Final[Sequence[Row]] = self._rows
        """The rows that it logs."""
        self._wakes: list[str] = []
        self._pins: dict[str, RefUpdate] = {}
        self._kept: list[Oid] = []
        self._events: dict[Name, list[Event]] = {}
        self._items: dict[Name, ledger.Open] = {}
        self._topics: dict[Name, set[str]] = {}
        self._looked: set[HubPath] = set()
        self.steps: Final[list[Step] | None] = [] if dry_run else None
        """What a dry run shows."""
        self._touched: list[HubPath] = []
        if self.settings.separate_mailbox:
            text = self.snapshot.text(mailbox_main.PATH).strip()
            self._published = parse_oid(text) if text else None
        for peer in self.snapshot.mended:
            path, data = ledger.open_path(peer), ledger.format_open(self._open(peer)).encode()
            self.perform(Plan(peer, (effects.Edit(path, data, f"write {path} from the history"),)))

    @cached_property
    def dated(self) -> datetime:
        """The time of the commits that are made."""
        return commit_time(self.hub, self.base.tip, self.now)

    # What adds to the commit.

    def perform(self, plan: Plan) -> None:
        """Perform every effect of a plan, in order.

        One that does not fit the ledger raises :class:`InvalidTransition`, and nothing of it is performed.
        """
        self._check_fits(plan)
        for effect in plan.effects:
            self._touched, logged = [], len(self._rows)
            self._one(effect)
            if self.steps is not None:
                paths = tuple(dict.fromkeys(self._touched))
                self.steps.append(Step(plan.cause, effects.describe(effect), paths, tuple(self._rows[logged:])))

    @contextmanager
    def apart(self, source: str) -> Iterator[None]:
        """What is done within is of ``source`` alone: a plan that does not fit is told, and all others go on."""
        try:
            yield
        except InvalidTransition as error:
            self.notes.failed(
                error.text, "this is a bug in cn; all else went on. 'cn doctor' checks the hub", source=source
            )

    def _check_fits(self, plan: Plan) -> None:
        """Do the events of a plan fit what is open, one after the other?"""
        seen: dict[Name, ledger.Open] = {}
        for effect in plan.effects:
            match effect:
                case effects.Record(peer, event):
                    pass
                case effects.CleanUp(entry):
                    peer = entry.to
                    event = Event(self.now, OUT, "deleting", topic_of(entry.branch), entry_head(entry))
                case _:
                    continue
            key = event.side, event.topic
            items = seen.setdefault(peer, {})
            if key not in items and (item := self._open(peer).get(key)) is not None:
                items[key] = item
            ledger.check(items, event, f"{peer}/{event.topic}")
            ledger.apply(items, event)

    def _one(self, effect: Effect) -> None:
        match effect:
            case effects.Put(path, text):
                self._write(path, text.encode("utf-8", "replace"))
            case effects.Drop(path):
                self._write(path, None)
            case effects.Archive(path, data):
                self._write(path, data, told=path.startswith("logs/"))
            case effects.Edit(path, data):
                self._set(path, data)
            case effects.Move(old, new):
                self._set(new, self.snapshot.blob(old))
                self._set(old, None)
            case effects.WorkingCopy(path, data):
                self._inputs[path] = object_id("blob", data, self.snapshot.algorithm)
            case effects.WriteHere(path, data, was):
                self._write_here(path, data, was)
            case effects.Withhold(path, data):
                self._withheld[path] = data
            case effects.Log(row):
                self._log(row)
            case effects.Record(peer, event):
                self._record(peer, event)
            case effects.Advance(commit, _, published):
                self._tip = commit
                self._published = published or self._published
            case effects.Post():
                self._post(effect)
            case effects.Offer(entry, base):
                fields = {"branch": entry.branch, "kind": PROPOSAL, "subject": entry.subject, "base": base}
                self._queue(entry, "queued", fields)
                self._log(entry_row(entry, self.now, "queued", "queued"))
                self._kept.append(entry.head)
            case effects.CleanUp(entry, withdrawn):
                self._queue(entry, "deleting", {WITHDRAWN: format_second(self.now)} if withdrawn else {})
                self._log(entry_row(entry, self.now, "queued", "queued"))
            case effects.Pin(peer, side, topic, head):
                ref = pin_ref(peer, side, topic)
                self._pins[ref] = RefUpdate(ref, head)
            case effects.Keep(head):
                self._kept.append(head)
            case effects.Wake(thread, turn):
                if turn or self.settings.config.interface == "triage":
                    self._wakes.append(thread)
            case _:
                assert_never(effect)

    def _write(self, path: HubPath, data: bytes | None, *, told: bool = False) -> None:
        """Into the commit, or, for what stays on this machine, into a file after it.

        Without secrets, which the planners do not refuse here: what they led to must be committed.
        With ``told`` the file says what is masked in it.
        """
        local = self.settings.config.local
        here = is_machine_local(path) or bool(local and is_local(path, local))
        if data is not None and (path == INPUT or not here):
            data = self._mask(path, data, told=told)
            self._looked.add(path)
        if here:
            self._write_here(path, data)
        else:
            self._set(path, data)

    def _set(self, path: HubPath, content: Content) -> None:
        self._files[path] = content
        self._touched.append(path)

    def _write_here(self, path: HubPath, data: bytes | None, was: bytes | None = None) -> None:
        digest = "" if was is None else hashlib.sha256(was).hexdigest()
        self._here[path] = LocalFile(path, data, digest)

    def _mask(self, path: HubPath, data: bytes, *, told: bool) -> bytes:
        """A file's bytes as they may be committed; the whole of them is kept on this machine."""
        masked, found = mask_file(path, data, self.settings)
        if not found:
            return data
        if path != INPUT:  # which is in main as the turn
            self._withheld[path] = data
        if told and not path.endswith(".json"):
            what = ", ".join(dict.fromkeys(f"line {one.line} ({one.kind})" for one in found[:20]))
            place = f"the whole is on the machine that archived it, in {self.kept_in(path)}"
            masked += f"\n<!-- cn masked what looks like a secret: {what}; {place} -->\n".encode()
        return masked

    def _log(self, row: Row) -> None:
        self._rows.append(row)
        if self.steps is not None:
            self._touched.append(log.log_path(row.at))

    def _record(self, peer: Name, event: Event) -> None:
        items = self._open(peer)
        ledger.check(items, event, f"{peer}/{event.topic}")
        ledger.apply(items, event)
        self._events.setdefault(peer, []).append(event)
        if event.side == OUT and peer in self._topics:  # one that is adopted is taken as well
            self._topics[peer].add(event.topic)
        if self.steps is not None:
            names = [e.path for e in self.snapshot.folder(f"{ledger.FOLDER}/{peer}")]
            self._touched += [ledger.month_path(peer, self.now, names), ledger.open_path(peer)]

    def _queue(self, entry: Entry, kind: str, fields: dict[str, str] | None = None) -> None:
        """Put an entry into the outbox, and record it."""
        self._set(outbox_entry.outbox_path(entry), outbox_entry.format_entry(entry))
        event = Event(self.now, OUT, kind, topic_of(entry.branch), entry_head(entry), fields or {})
        self._record(entry.to, event)

    def _post(self, post: effects.Post) -> None:
        message = post.message
        sealed = self._seal(message)
        about, to = message.about, message.to
        peer = self.settings.peers.get(to)
        if peer is None and about is None:
            self.settings.peer(to)  # says that it is none
        same = next((item for item in self.open(to, OUT) if item.head == sealed.id), None)
        if same is not None:
            branch = same.get("branch") or same.topic
            self.notes.info(f"{branch} at {to} has the very same message; it is not sent twice")
            return
        topic = self.free_topic(to, post.topic, sealed.id)
        prefix = self.settings.outbound_prefix(peer) if peer is not None else self.settings.us
        branch = join_branch(prefix, topic)
        said = (message.subject, post.thread, post.source, about.branch if about else "", post.decision)
        what = (sealed.id, to, branch, message.kind, self.now)
        entry = Deliver(*what, *said, commit=sealed.commit, content=sealed.content)
        fields = {
            "branch": entry.branch,
            "kind": message.kind,
            "thread": post.thread,
            "subject": message.subject,
            "about": entry.about,
            "about_head": about.head if about else "",
            "about_status": about.status if about else "",
        }
        self._queue(entry, "queued", fields)
        if peer is None:  # what became of its branch is owed to it
            self.notes.info(f"{to} is no peer: it is told when it is added again", source=post.source)
        if not post.decision:  # else the row of the decision says so, and names what was reviewed
            self._log(entry_row(entry, self.now, "queued", "queued", fields["about_status"]))

    def _seal(self, message: Message) -> Sealed:
        """The message's commit. Unsigned ones need no process, signed ones are made by git."""
        hub, algorithm = self.hub, self.snapshot.algorithm
        plain = seal(message, hub.identity, algorithm)
        if not hub.signs:
            return plain
        tree = tree_bytes(plain.content, algorithm)
        write_objects(hub.git, [("blob", plain.content), ("tree", tree)], algorithm)
        base, text = object_id("tree", tree, algorithm), plain.commit.partition(b"\n\n")[2].decode()
        oid = build_commit(hub, base=base, parents=(), changes=(), message=text, at=message.created)
        return Sealed(oid, read_object(hub.git, oid) or b"", plain.content)

    # What reads, the plans of this run performed.

    @property
    def tip(self) -> Oid:
        """The base, or the last merge built upon it."""
        return self._tip

    @property
    def dry_run(self) -> bool:
        """Is nothing to be changed, and only to be shown?"""
        return self.steps is not None

    @property
    def published(self) -> Oid | None:
        """The last commit of the main that peers read, where that is another one."""
        return self._published

    def kept_in(self, path: HubPath) -> str:
        """Where the whole of a masked file is."""
        return f"{IN_STATE}{KEPT}/{path}"

    @property
    def empty(self) -> bool:
        """Would this run commit nothing?"""
        return not (self._files or self._here or self._rows or self._events) and self._tip == self.snapshot.commit

    def names(self, folder: HubPath) -> set[str]:
        """The names of the files in a folder."""
        names = {e.path for e in self.snapshot.folder(folder) if e.kind == "blob"}
        for path, content in self._files.items():
            parent, _, name = path.rpartition("/")
            if parent == folder:
                (names.discard if content is None else names.add)(name)
        return names

    def read(self, path: HubPath) -> bytes | None:
        """A file of main."""
        if path not in self._files:
            return self.snapshot.read(path)
        content = self._files[path]
        return read_known(self.hub.git, [content])[0] if isinstance(content, str) else content

    def open(self, peer: Name, side: str) -> list[ledger.Item]:
        """A peer's open items of one side."""
        return [item for (item_side, _), item in self._open(peer).items() if item_side == side]

    def item(self, peer: Name, side: str, topic: str) -> ledger.Item | None:
        """An open item."""
        return self._open(peer).get((side, topic))

    def recorded(self, peer: Name, side: str, topic: str) -> list[Event]:
        """What this run has added to the ledger of a topic, oldest first."""
        return [event for event in self._events.get(peer, ()) if (event.side, event.topic) == (side, topic)]

    def _open(self, peer: Name) -> ledger.Open:
        if peer not in self._items:
            self._items[peer] = dict(self.snapshot.open_items.get(peer, {}))
        return self._items[peer]

    def free_topic(self, peer: Name, wish: str, id: Oid) -> Topic:
        """A topic near ``wish`` that no branch of ours at this peer ever had, for the message ``id``."""
        return own_topic(wish, self._taken(peer), id)

    def _taken(self, peer: Name) -> set[str]:
        """Topics of ours in use, or used before, at a peer."""
        if peer not in self._topics:
            self._topics[peer] = ledger.topics(self.snapshot.history(peer), OUT)
            self._topics[peer].update(item.topic for item in self.open(peer, OUT))
        return self._topics[peer]

    # What it comes to.

    def draft(self, message: str) -> Draft | None:
        """The commit of this run, or None when there is nothing to commit or to pin.

        Its message is masked: it may repeat the name that a peer gave a branch. Refuses a secret in what
        would be committed, whatever way it came: no command is without this.
        """
        self._check()
        message, rows = self._masked(message)
        extra: tuple[Oid, ...] = ()
        if self.settings.separate_mailbox:  # the published commit that goes with this main, if it is new
            text = f"{self.settings.us}: main"
            made = mailbox_main.publish(self.hub, self._published, self._tip, None, text, self.dated)
            extra = () if made == self.snapshot.text(mailbox_main.PATH).strip() else (made,)
        files = {**self._files, **self._ledgers(), **self._logs(rows)}
        if extra:
            files[mailbox_main.PATH] = f"{extra[0]}\n".encode()
        refs = self._refs()
        if not files and not refs and not self._here and self._tip == self.snapshot.commit:
            return None
        lines = "".join(log.format_event(row) + "\n" for row in rows)
        appends = [LocalAppend(MACHINE_LOG, lines)] if lines else []
        if self._wakes:
            names = "".join(f"{name}\n" for name in dict.fromkeys(self._wakes))
            appends.append(LocalAppend(f"{IN_STATE}wake", names))
        kept = [LocalFile(self.kept_in(path), data) for path, data in self._withheld.items()]
        return Draft(
            tip=self._tip,
            changes=tuple(
                EntryChange(path, "100644", new) if isinstance(new, str) else FileChange(path, new)
                for path, new in sorted(files.items(), key=lambda pair: pair[0])
            ),
            message=message,
            at=self.dated,
            inputs=self._inputs,
            extra_parents=extra,
            refs=refs,
            appends=tuple(appends),
            files=(*kept, *self._here.values()),
        )

    def _check(self) -> None:
        """What is masked when it is written need not be looked at again."""
        changed = {
            path: data for path, data in self._files.items() if isinstance(data, bytes) and path not in self._looked
        }
        self.snapshot.read_many(changed)
        for path, data in changed.items():
            if refusal := check_change(path, data, self.snapshot.read(path), self.settings):
                raise Refused.by(refusal)

    def _masked(self, message: str) -> tuple[str, Sequence[Row]]:
        """The message and the rows without secrets."""
        told = "\n".join([message, *(text for row in self._rows for text in (row.decision, row.executed))])
        if not mask_text(told, self.settings)[1]:  # all at once first: there seldom is one
            return message, self._rows
        cells = [tuple(mask_line(text, self.settings) for text in (row.decision, row.executed)) for row in self._rows]
        rows = [row._replace(decision=one, executed=two) for row, (one, two) in zip(self._rows, cells, strict=True)]
        return mask_text(message, self.settings)[0], rows

    def _ledgers(self) -> dict[HubPath, Content]:
        files: dict[HubPath, Content] = {}
        folders = self.snapshot.folders(f"{ledger.FOLDER}/{peer}" for peer in self._events)
        held = zip(self._events, folders.values(), strict=True)
        months = {peer: ledger.month_path(peer, self.now, [e.path for e in entries]) for peer, entries in held}
        self.snapshot.read_many(months.values())
        for peer, events in self._events.items():
            lines = "".join(ledger.format_event(e) + "\n" for e in events)
            before = (self.snapshot.read(months[peer]) or b"").decode("utf-8", "surrogateescape")
            files[months[peer]] = (ledger.as_written(before) + lines).encode("utf-8", "surrogateescape")
            files[ledger.open_path(peer)] = ledger.format_open(self._open(peer)).encode()
        return files

    def _logs(self, rows: Sequence[Row]) -> dict[HubPath, Content]:
        paths = {at: log.log_path(at) for at in dict.fromkeys(row.at for row in rows)}
        some = {path: [row for row in rows if paths[row.at] == path] for path in dict.fromkeys(paths.values())}
        return {path: log.append_rows(self.snapshot.text(path), those).encode() for path, those in some.items()}

    def _refs(self) -> tuple[RefUpdate, ...]:
        """What is kept and what is unpinned comes before the pins. A dry run sets none."""
        if self.steps is not None:
            return ()
        pins = sorted(self._pins.values(), key=lambda u: (u.new is not None, u.ref))
        kept = keep(self.hub, self._kept, self.now) if self._kept else None
        return (*([RefUpdate(*kept)] if kept else []), *pins)
