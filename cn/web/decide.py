"""Decide a thread from its form: the same use case as 'cn inbox triage', about exactly what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cn.actions import review
from cn.protocol.layout import inbox_path
from cn.run.view import open_view
from cn.values.errors import CnError, Refused
from cn.values.names import reply_topic
from cn.views.thread_page import Document, show_document
from cn.web.page import Page
from cn.web.pages.rest import nothing_page
from cn.web.pages.thread import VERBS, Given, decision_of, digest
from cn.web.reader import Reader, file_name


class Filled(NamedTuple):
    """A form as it was sent; ``seen`` is the digest of the file that was shown with it."""

    given: Given
    seen: str
    approval: str

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Filled:
        """Of its fields; line ends are LF."""
        get = fields.get
        body = get("body", "").replace("\r\n", "\n")
        given = Given(get("verb", ""), " ".join(get("word", "").split()), body, get("until", "").strip())
        return cls(given, get("seen", ""), get("approval", "").strip())


def decide(reader: Reader, name: str, filled: Filled) -> Page | None:
    """Write it; None: it is written, and was read back. Else the thread's page with what was filled in, and why not."""
    try:
        view = open_view(reader.hub)
        shown = show_document(view, file_name(name))
    except CnError as refused:
        return nothing_page(f"{refused.text}.", refused.hint)
    try:
        _write(reader, shown, filled)
    except CnError as refused:
        given = filled.given._replace(problem=refused.text, remedy=refused.hint)
        if isinstance(refused, review.Changed):
            given = given._replace(verb="")  # what was chosen was about something else
        return reader.thread_page(open_view(reader.hub), show_document(view, file_name(name)), given)
    return None


def _write(reader: Reader, shown: Document, filled: Filled) -> None:
    thread, given = shown.thread, filled.given
    if thread.state == "done":
        raise Refused(f"{thread.source} is done already", "another run or clone was first")
    if digest(shown.data) != filled.seen:
        path = inbox_path(thread.thread)
        raise review.Changed(
            f"{path} has changed since it was shown", "nothing was written; read it again, then decide"
        )
    if given.verb not in VERBS:
        raise Refused("no decision was chosen", "choose one")
    if given.verb == "do:reply" and not given.word:
        given = given._replace(word=reply_topic(thread.topic))
    until = given.until if given.verb == "defer" else ""
    body = given.body if given.verb == "do:reply" else ""
    review.decide(
        reader.hub,
        thread.thread,
        shown.data,
        decision_of(given),
        body=body,
        until=until,
        actor=reader.actor,
        approval=filled.approval,
    )
