"""The pages of a hub as anybody may see them: made by the same functions, of what :mod:`cn.web.public` leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from cn.git.repository import Hub
from cn.run.view import View
from cn.values.errors import Refused
from cn.views.activity import HOURS, count_hours
from cn.views.conversation import read_conversation
from cn.views.done import DoneRow
from cn.views.history import count_by, count_weeks
from cn.views.log import read_log
from cn.views.outbox import list_peers
from cn.views.status import Status, read_status
from cn.views.thread_page import Document, done_document, show_document
from cn.web.page import Page
from cn.web.pages.log import log_page, read_asked
from cn.web.pages.now import now_page
from cn.web.pages.rest import history_page, peers_page
from cn.web.pages.thread import talk_page
from cn.web.pages.threads import read_filters, threads_page
from cn.web.public import Named, public_done, public_peers, public_rows, public_status, public_talk, public_thread
from cn.web.reader import Query, Reader, file_name

SECTIONS: tuple[str, ...] = ("now", "threads", "peers", "log", "history")
"""The pages that a public export has: nothing of the agent."""


class PublicReader(Reader):
    """What is ``named``, and nothing else."""

    def __init__(self, hub: Hub, named: Named) -> None:
        super().__init__(hub, "")
        self._named = named

    def makers(self) -> Mapping[str, Callable[[View, str, Query], Page]]:
        """Fewer pages than the hub has."""
        return {
            "now": self._now,
            "threads": self._threads,
            "thread": self._thread,
            "peers": self._peers,
            "log": self._log,
            "history": self._history,
        }

    def _status(self, view: View) -> Status:
        return public_status(read_status(view), self._named)

    def _ended(self, view: View) -> list[DoneRow]:
        return [row for rows in self.done(view) for row in public_done(rows, self._named)]

    def _now(self, view: View, rest: str, query: Query) -> Page:
        first = view.now.replace(minute=0, second=0) - timedelta(hours=HOURS - 1)
        hours = count_hours(public_rows(read_log(view, first), self._named), first, HOURS)
        page = now_page(self._status(view), (), hours, "")
        return page._replace(parts=tuple(part for part in page.parts if part.name in ("waiting", "hours")))

    def _threads(self, view: View, rest: str, query: Query) -> Page:
        filters = read_filters(query)
        done = sorted(self._ended(view), key=lambda row: row.decided, reverse=True)
        return threads_page(self._status(view).inbox.threads, (), done, sorted(self._named.peers), filters, view.now)

    def _thread(self, view: View, rest: str, query: Query) -> Page:
        known = self.lives.get(file_name(rest))
        found = done_document(view, *known) if known else show_document(view, file_name(rest))
        thread = found.thread
        if thread.source not in self._named.sources:
            raise Refused(f"{thread.source} is not public", "")
        talk = public_talk(read_conversation(found.text, thread.kind), self._named) if found.text else None
        return talk_page(Document(public_thread(thread, self._named), found.path, b""), talk)

    def _peers(self, view: View, rest: str, query: Query) -> Page:
        done = count_by(row.peer for row in self._ended(view))
        pending = dict(count_by(one.peer for one in self._status(view).inbox.threads))
        counts = {peer: (pending.get(peer, 0), dict(done).get(peer, 0)) for peer in self._named.peers}
        return peers_page(public_peers(list_peers(view), self._named), counts, None)

    def _log(self, view: View, rest: str, query: Query) -> Page:
        return log_page(public_rows(read_log(view), self._named), (), read_asked(query), lambda _: True)

    def _history(self, view: View, rest: str, query: Query) -> Page:
        done, pending = self._ended(view), self._status(view).inbox.threads
        ends = count_by(row.status or row.decision for row in done)
        peers = count_by([*(row.peer for row in done), *(one.peer for one in pending)])
        return history_page(count_weeks(done, (one.received for one in pending), view.now), ends, peers)
