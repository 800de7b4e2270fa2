"""Threads of our own to look at, beside those of peers."""

from __future__ import annotations

from datetime import UTC, datetime

from cn.protocol.layout import INBOX
from cn.protocol.own_thread import DONE_CONCERNS
from cn.run.view import View
from cn.threads.store import OwnDocument, done_concerns, own_paths, pick_own, read_document
from cn.values.errors import Refused
from cn.values.names import HubPath
from cn.views.thread_page import Document, show_document
from cn.views.thread_view import ThreadView
from cn.views.threads import list_inbox

Thread = OwnDocument | ThreadView
_NEVER = datetime.max.replace(tzinfo=UTC)


def list_threads(view: View, *, everything: bool = False) -> list[Thread]:
    """All threads that wait, oldest first; with ``everything`` those that have ended too."""
    own = list_own(view, everything=everything)
    return sorted([*own, *list_inbox(view, everything=everything).threads], key=_age)


def _age(thread: Thread) -> tuple[datetime, str]:
    if isinstance(thread, ThreadView):
        return thread.received, thread.thread
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
        found = show_document(view, text)
    except Refused as refused:
        if strict:
            raise Refused(refused.text, refused.hint.replace("cn inbox", "cn thread list")) from None
        return None
    # It takes the last part of a path for a name; here a path means a place.
    named = "/" not in text or text.startswith(f"{INBOX}/") or text == found.thread.source
    return found if strict or named else None
