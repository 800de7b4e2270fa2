"""Show one thread, and note for its reader at which head: what they decide next is about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cn.run.shown import note_thread
from cn.views.thread_page import Document, look_at

if TYPE_CHECKING:
    from cn.cli.options import Env
    from cn.run.view import View
    from cn.threads.store import OwnDocument
    from cn.views.sent import SentDocument


def show_page(env: Env, view: View, document: Document | OwnDocument | SentDocument) -> None:
    """Print what was asked for by a name."""
    from cn.cli.render.thread_page import document_lines

    env.page(document, lambda: document_lines(document, view.now), view.hub)
    if isinstance(document, Document) and not env.quiet:
        note_page(view, document)


def note_page(view: View, document: Document) -> None:
    """Note what a reader was shown of a thread that waits."""
    if document.thread.state != "done" and (look := look_at(document)).head:
        note_thread(view.hub, document.thread.thread, look)
