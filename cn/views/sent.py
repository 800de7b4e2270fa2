"""Something that we sent, a message or a proposal: its text, where it is now, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import TypeVar

from cn.git.objects import merge_bases, read_info, resolve
from cn.git.read_branches import Patience, format_proposal, read_histories, read_proposals
from cn.outbox.our_names import find_ours
from cn.protocol.layout import NOT_OURS, OUTBOX, PROPOSAL, SENT
from cn.protocol.ledger import IN, OUT, Event
from cn.protocol.message import parse_message
from cn.protocol.outbox_entry import Deliver, Entry, entry_head, file_names, is_about, parse_entry
from cn.protocol.sent_life import BEGINS, is_withdrawn, last_answer, last_state, sent_chain, sent_lives
from cn.protocol.thread_life import Link
from cn.run.view import View
from cn.values.errors import CnError, Refused
from cn.values.names import Name, Oid, is_oid, topic_of
from cn.values.timestamps import format_stamp
from cn.views.log import read_log
from cn.views.mend import mend_of

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """A branch of ours at its last head. ``state`` is queued, delivered, adopted, answered, deleting, deleted or gone.

    ``status``, ``reason`` and ``merge`` are the last answer, ``unproven`` is why that is not believed; ``of_another``
    is what its peer said, since we sent it, of another commit at its branch, where it said nothing of ours;
    ``withdrawn``: we took it back.
    """

    peer: Name
    topic: str
    branch: str
    head: Oid
    kind: str
    subject: str
    state: str
    sent: datetime
    status: str
    reason: str
    merge: str
    unproven: str
    of_another: str
    withdrawn: bool
    chain: tuple[Link, ...]

    @property
    def name(self) -> str:
        """``peer:topic``."""
        return f"{self.peer}:{self.topic}"


@dataclass(frozen=True)
class SentDocument:
    """The same with its text; ``path`` is its file in the hub (empty: it has none), ``mend`` the next step where it
    waits for us.
    """

    sent: Sent
    path: str
    text: str
    mend: str = ""


def show_or_sent(view: View, text: str, show: Callable[[View, str], T]) -> T | SentDocument:
    """What ``show`` finds by a name, else what we sent; raises :class:`Refused` where it is neither."""
    try:
        return show(view, text)
    except Refused:
        if (found := show_sent(view, text)) is None:
            raise
        return found


def show_sent(view: View, text: str) -> SentDocument | None:
    """By ``peer:topic``, ``us/topic``, or the file in ``threads/mail/``; None where we sent nothing of that name."""
    found = _by_file(view, text)
    if found is None and (ours := find_ours(view.snapshot, view.settings, text)):
        peer, topic = ours
        lives = sent_lives(view.snapshot.events_of_topic(peer, OUT, topic))
        found = (peer, lives[-1]) if lives else None
    if found is None:
        return None
    peer, life = found
    begin = next(e for e in reversed(life) if e.kind in BEGINS)
    last = last_answer(life)
    get = begin.fields.get
    sent = Sent(
        peer=peer,
        topic=begin.topic,
        branch=get("branch", ""),
        head=begin.head,
        kind=get("kind", "") or PROPOSAL,
        subject=get("subject", ""),
        state=last_state(life).kind,
        sent=life[0].at,
        status=last.get("status", ""),
        reason=last.get("reason", ""),
        merge=last.get("merge", ""),
        unproven=last.get("unproven", ""),
        of_another="" if last.get("status") else _said_of_another(view, peer, begin, life[0].at),
        withdrawn=is_withdrawn(life),
        chain=sent_chain(life, _answers(view, peer, life)),
    )
    path = _file_of(view, sent, begin)
    return SentDocument(sent, path, _text(view, sent, path, get("base", "")), _mend(view, sent))


def _said_of_another(view: View, peer: Name, begin: Event, sent: datetime) -> str:
    """By the log, of which the rows have minutes."""
    since, sign, branch = sent.replace(second=0, microsecond=0), "notice:", begin.fields.get("branch", "")
    rows = (happened.row for happened in read_log(view, thread=f"{peer}/{begin.topic}"))
    mine = [row for row in rows if row.at >= since and row.branch in ("", branch)]
    said = [row.decision for row in mine if row.executed.startswith(NOT_OURS)]
    return next((words.removeprefix(sign) for words in reversed(said) if words.startswith(sign)), "")


def _mend(view: View, sent: Sent) -> str:
    """What helps where it was refused, and is there as it was."""
    ours = view.snapshot.outbound()
    item = next(
        (item for peer, item in ours if (peer, item.topic, item.head) == (sent.peer, sent.topic, sent.head)), None
    )
    return mend_of(view, sent.peer, item, ours) if item is not None else ""


def _answers(view: View, peer: Name, life: Sequence[Event]) -> dict[str, str]:
    """Head of an answer → the thread in which its words are shown; a notice has none."""
    heads = [Oid(head) for event in life if is_oid(head := event.fields.get("answer", ""))]
    events = view.snapshot.events_at_heads(peer, IN, heads) if heads else {}
    return {head: thread for head, some in events.items() for e in some if (thread := e.fields.get("thread"))}


def _by_file(view: View, text: str) -> tuple[Name, list[Event]] | None:
    """The life to which a file of the outbox, or of what was sent, belongs."""
    name = PurePosixPath(text).name
    if not name.endswith(".md") or not name[:8].isdecimal():
        return None
    path = _place(view, name)
    try:
        entry = _read(view, path)
    except CnError:
        raise Refused(f"{path} is damaged", "see 'cn doctor'") from None
    if entry is None:
        return None
    lives = sent_lives(view.snapshot.events_of_topic(entry.to, OUT, topic_of(entry.branch)))
    life = next((life for life in lives if any(e.head == entry_head(entry) for e in life)), None)
    return (entry.to, life) if life else None


def _place(view: View, name: str) -> str:
    paths = [f"{OUTBOX}/{name}", f"{SENT}/{name}", f"{SENT}/{name[:4]}/{name}"]
    view.snapshot.read_many(paths)
    return next((path for path in paths if view.snapshot.read(path) is not None), "")


def _file_of(view: View, sent: Sent, begin: Event) -> str:
    if begin.kind != "queued":
        return ""
    now, earlier = file_names(sent.peer, sent.topic, sent.head, begin.at)
    if path := _place(view, now):
        return path
    path = _place(view, earlier)
    with suppress(CnError):
        entry = _read(view, path)
        return path if entry is not None and is_about(entry, sent.peer, sent.topic, sent.head) else ""
    return path  # damaged, and said to be


def _read(view: View, path: str) -> Entry | None:
    """The entry in a file, None without one; raises :class:`CnError` where it is damaged."""
    return parse_entry(view.snapshot.read(path) or b"", view.snapshot.algorithm) if path else None


def _text(view: View, sent: Sent, path: str, base: str) -> str:
    """What was sent, below a head that says to whom."""
    head = [
        f"# {sent.subject or sent.branch}",
        "",
        f"**To:** {sent.peer}",
        f"**Branch:** {sent.branch}",
        f"**Sent:** {format_stamp(sent.sent)}",
        f"**Head:** {sent.head}",
        "",
        "---",
        "",
    ]
    said = _changes(view, sent.head, base) if sent.kind == PROPOSAL else _message(view, path)
    return "\n".join([*head, said.strip("\n"), ""])


def _message(view: View, path: str) -> str:
    try:
        entry = _read(view, path)
        return parse_message(entry.content).body if isinstance(entry, Deliver) else "(its text is not in this hub)"
    except CnError:
        return "(its file is damaged: see 'cn doctor')"


def _start(view: View, head: Oid) -> Oid:
    """Where a branch begins that is based on nobody knows what: in our main, else its last commit is shown alone."""
    git, main = view.hub.git, view.snapshot.commit
    if read_info(git, [head]) == [None] or merge_bases(git, main, head):
        return main
    return resolve(git, f"{head}~1") or main


def _changes(view: View, head: Oid, base: str) -> str:
    """Commits, files and differences, as the peer's thread shows them."""
    git, limits, patience = view.hub.git, view.settings.config.limits, Patience()
    start = Oid(base) if base else _start(view, head)
    if None in read_info(git, [head, start]):
        return "(its commits are not in this clone)"
    histories = list(read_histories(git, start, [head], patience).values())
    found = dict(read_proposals(git, histories, limits, patience))
    return (
        format_proposal(found[head], limits.thread_bytes, limits.file_bytes)
        if head in found
        else "(git cannot read it)"
    )
