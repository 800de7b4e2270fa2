"""One thread to look at, a peer's or our own: its document and its chain; and the lists of both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cn.inbox.working_copies import read_working
from cn.protocol.layout import DONE, INBOX, inbox_path
from cn.protocol.ledger import IN, Event, events_with
from cn.protocol.own_thread import DONE_CONCERNS
from cn.protocol.thread_life import Life, read_lives
from cn.run.find_thread import look_for_pending, nearly_called, read_call
from cn.run.shown import Look
from cn.run.snapshot import readable_ledger
from cn.run.view import View, has_agent, read_events
from cn.threads.store import OwnDocument, done_concerns, own_paths, pick_own, read_document
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, ThreadName
from cn.values.shell_words import command
from cn.values.text import one_line
from cn.views.threads import (
    ThreadView,
    answered_heads,
    done_view,
    forwarded,
    held_heads,
    list_inbox,
    pending_view,
    read_written,
)


@dataclass(frozen=True)
class Document:
    """A thread with its bytes as they lie at ``path`` (none when the file is nowhere)."""

    thread: ThreadView
    path: str
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text with LF alone, whatever an editor made of them."""
        return self.data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\r\n", "\n")


def show_document(view: View, text: str) -> Document:
    """One thread, pending or done, by file name, path, or ``peer/topic`` (then the latest).

    Raises :class:`Refused` for none, and for a name that means two.
    """
    if (pending := look_for_pending(view.snapshot, text)) is not None:
        peer, item = pending
        lives = read_lives(read_events(view, peer, since=f"{item.since:%Y%m}", about=item.topic))
        life = next((one for one in lives if one.thread == item.get("thread")), None)
        written = read_written(view, [item]).get(item.get("thread"))
        fed, answered, held = has_agent(view), answered_heads(view), held_heads(view, [item])
        creator = view.settings.peers.get(peer)
        thread = pending_view(peer, item, written, life, creator=creator, fed=fed, answered=answered, held=held)
        path = inbox_path(thread.thread)
        working = read_working(view.hub, thread.thread) if view.on_main else None
        return Document(thread, path, working.data if working else view.snapshot.read(path) or b"")
    return done_document(view, *_find_done(view, text, read_call(text).file))


def shown_head(document: Document) -> str:
    """The head of which a reader of the document has read: what its file says, which may be an older copy."""
    return look_at(document).head


def look_at(document: Document) -> Look:
    """What a reader of the document has read of, by what its file says, which may be an older copy."""
    from cn.protocol.thread_file import count_words, seen_showing

    seen = seen_showing(document.text)
    return Look(seen.head or document.thread.head, seen.time, count_words(document.text, document.thread.peer))


def done_document(view: View, peer: Name, life: Life) -> Document:
    """A thread that is done."""
    name = life.thread
    paths = [f"{DONE}/{name}", f"{DONE}/{name[:4]}/{name}", str(inbox_path(ThreadName(name)))]
    view.snapshot.read_many(paths)
    done = next((p for p in paths if view.snapshot.read(p) is not None), paths[0])
    data = view.snapshot.read(done) or b""
    return Document(done_view(peer, life, _forwards_of(view, life)), done, data)


def _find_done(view: View, text: str, name: str) -> tuple[Name, Life]:
    """By ``peer/topic`` in that peer's history, by name from the month in the name on."""
    for peer in view.snapshot.open_items:
        if text.startswith(f"{peer}/"):
            topic = text.removeprefix(f"{peer}/")
            events = read_events(view, peer, about=topic)
            lives = [one for one in read_lives(events) if one.received.topic == topic]
            if lives:
                return peer, lives[-1]
            _explain_refused(view, peer, topic)
    since = name[:6] if name[:8].isdigit() else ""
    peers = view.snapshot.open_items if name else ()
    for peer in sorted(peers, key=lambda peer: f"-{peer}-" not in name):  # most often the name tells whose it is
        life = _find_life(view, peer, name, since)
        if life is not None:
            return peer, life
    lists = "'cn inbox --all' lists them, 'cn status' what we sent"
    raise Refused(f"no thread {one_line(text, 80)!r}", nearly_called(view.snapshot, text) or lists)


def _find_life(view: View, peer: Name, name: str, since: str) -> Life | None:
    """A peer's thread by its file's name; only what its ledger has about that topic is parsed."""
    with readable_ledger(peer):
        events = events_with(view.snapshot.history(peer, since), IN, (f"thread={name}",))
    for topic in dict.fromkeys(event.topic for event in events):
        for life in read_lives(read_events(view, peer, since=since, about=topic)):
            if life.thread == name:
                return life
    return None


def _explain_refused(view: View, peer: Name, topic: str) -> None:
    """A branch that was refused on arrival has no thread: say which rule kept it out."""
    past = view.snapshot.events_of_topic(peer, IN, topic)
    if past and past[-1].kind == "refused":
        rule = past[-1].fields.get("rule", "a rule")
        what = f"{peer}/{one_line(topic, 80)} has no thread: {rule} refused it at {past[-1].head[:8]}"
        raise Refused(what, f"{command('cn log --thread {}', f'{peer}/{topic}')} tells why")


def _forwards_of(view: View, life: Life) -> list[Event]:
    decided = life.decided
    if decided is None or decided.fields.get("status") != "delegated":
        return []
    actor = decided.fields.get("decision", "").partition(":")[2]
    events = read_events(view, Name(actor), since=f"{decided.at:%Y%m}")
    return forwarded(events).get(life.thread, [])


Thread = OwnDocument | ThreadView
_NEVER = datetime.max.replace(tzinfo=UTC)


def list_threads(view: View, *, everything: bool = False) -> list[Thread]:
    """All threads that wait, oldest first; with ``everything`` those that have ended too."""
    own = list_own(view, everything=everything)
    return sorted([*own, *list_inbox(view, everything=everything).threads], key=_age)


def _age(thread: Thread) -> tuple[datetime, str]:
    if isinstance(thread, ThreadView):
        return thread.written, thread.thread
    return thread.own.opened or _NEVER, thread.own.path  # without a head it has no date


def list_own(view: View, *, everything: bool = False, folder: str = "") -> list[OwnDocument]:
    """The threads of our own, below ``folder``; with ``everything`` those that have ended too."""
    paths = [path for path in _paths(view) if path.startswith(folder)]
    if not everything:
        paths = [path for path in paths if not path.startswith(f"{DONE_CONCERNS}/")]
    view.snapshot.read_many(paths)
    found = [document for path in paths if (document := read_document(view, path)) is not None]
    found.sort(key=_age)
    return [document for document in found if everything or document.own.pending]


def _paths(view: View) -> list[HubPath]:
    return own_paths(view.snapshot, view.hub if view.on_main else None) + done_concerns(view.snapshot)


def show_any(view: View, text: str) -> OwnDocument | Document:
    """One thread, anybody's: by path, by source, or by file name; a name that means several is refused."""
    path = None if text.startswith(f"{INBOX}/") else pick_own(view.snapshot, _paths(view), text)
    own = None if path is None else read_document(view, path)
    found = _inbox_document(view, text, strict=own is None)
    if own is not None and found is not None:
        raise Refused(f"{text!r} means 2 threads: {path}, {found.path}", "name it by its path")
    document = own or found
    assert document is not None, "it is found, or refused"
    return document


def _inbox_document(view: View, text: str, *, strict: bool) -> Document | None:
    """A peer's thread; with ``strict`` it must be there."""
    try:
        return show_document(view, text)
    except Refused as refused:
        if strict:
            raise Refused(refused.text, refused.hint.replace("cn inbox", "cn thread list")) from None
        return None
