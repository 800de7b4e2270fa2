"""Read what pages show, from the views, and keep what is dear and does not change.

Threads that are done are kept by the tree of their peer's ledger, drawn pages by the fingerprint of the hub and the
minute; both are bounded. Everything else is read anew, as the command line does it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TypeVar

from cn.git.repository import Hub
from cn.llm.config import AgentConfig, read_agent_config
from cn.llm.usage import read_calls
from cn.protocol.thread_life import Life
from cn.run.snapshot import Snapshot
from cn.run.view import View, has_agent, open_view
from cn.system.clock import now
from cn.threads.store import OwnDocument
from cn.values.errors import CnError, ConfigError, Refused
from cn.values.names import Name, Oid
from cn.values.text import one_line
from cn.views.activity import read_hours
from cn.views.done import DoneRow, read_done
from cn.views.history import count_by, count_weeks
from cn.views.log import read_log, read_since
from cn.views.outbox import list_peers
from cn.views.queue import read_queue
from cn.views.sent import SentDocument, show_or_sent
from cn.views.status import read_status
from cn.views.thread_page import Document, done_document, list_own, show_any
from cn.views.threads import list_inbox
from cn.views.turns import list_turns
from cn.views.why import explain
from cn.web.fingerprint import read_fingerprint
from cn.web.page import Drawn, Page
from cn.web.pages.agent import TURNS, agent_page
from cn.web.pages.log import log_page, read_asked
from cn.web.pages.now import now_page
from cn.web.pages.rest import history_page, nothing_page, peers_page, why_page
from cn.web.pages.thread import Given, own_page, sent_page, thread_page
from cn.web.pages.threads import read_filters, threads_page

KEPT, KEPT_BYTES = 32, 4 << 20
"""Drawn pages that are kept, and their bytes in all."""

Query = Mapping[str, str]
T = TypeVar("T")


class Reader:
    """The pages of one hub, for ``actor``."""

    def __init__(self, hub: Hub, actor: str) -> None:
        self.hub = hub
        self.actor = actor
        self.title = hub.name or hub.root.name
        self.lives: Mapping[str, tuple[Name, Life]] = {}
        """Threads that are done, where all of them are to be shown (:func:`cn.web.export.export`)."""
        self._lock = threading.Lock()
        self._done: dict[Name, tuple[Oid, tuple[DoneRow, ...]]] = {}
        self._sorted: tuple[object, list[DoneRow]] | None = None
        self._drawn: OrderedDict[tuple[object, ...], Drawn] = OrderedDict()

    def now(self) -> datetime:
        """The time, for what is drawn."""
        return now()

    def draw(self, name: str, query: Query, draw: Callable[[Page, datetime], Drawn]) -> Drawn:
        """A page, drawn; the one that was drawn before as long as nothing has changed but for the seconds."""
        with self._lock:
            asked = name, tuple(sorted(query.items()))
            at = now()
            key = (*asked, read_fingerprint(self.hub), f"{at:%Y%m%d%H%M}")
            if (known := self._drawn.get(key)) is not None:
                self._drawn.move_to_end(key)
                return known
            drawn = draw(self.page(name, query), at)
            self._keep(key, drawn)
            return drawn

    def _keep(self, key: tuple[object, ...], drawn: Drawn) -> None:
        if drawn.status == 200:
            self._drawn[key] = drawn
        while len(self._drawn) > KEPT or sum(len(one.html) for one in self._drawn.values()) > KEPT_BYTES:
            self._drawn.popitem(last=False)

    def page(self, name: str, query: Query) -> Page:
        """A page by its name: ``now``, ``threads``, ``agent``, ``peers``, ``log``, ``history``, ``thread/NAME``,
        ``why/NAME``; one that says so where there is none, or where the hub cannot be read.
        """
        try:
            return self.page_of(open_view(self.hub), name, query)
        except CnError as refused:
            return nothing_page(f"{refused.text}.", refused.hint)

    def page_of(self, view: View, name: str, query: Query) -> Page:
        """The same of a hub that is open; raises :class:`CnError`."""
        kind, _, rest = name.partition("/")
        make = self.makers().get(kind)
        if make is None:
            return nothing_page(f"There is no page {one_line(name, 80)}.", "")
        return make(view, rest, query)

    def _now(self, view: View, rest: str, query: Query) -> Page:
        return now_page(read_status(view), list_peers(view), read_hours(view), self.actor)

    def _threads(self, view: View, rest: str, query: Query) -> Page:
        filters = read_filters(query)
        own = () if filters.peer else list_own(view, everything=filters.state in ("all", "done"))
        done = self._latest(view) if filters.state in ("done", "all") else ()
        peers = sorted({*view.settings.peers, *view.snapshot.open_items})
        return threads_page(list_inbox(view).threads, own, done, peers, filters, view.now)

    def _latest(self, view: View) -> Sequence[DoneRow]:
        """What is done, latest first."""
        trees = tuple(view.snapshot.ledgers.items())
        if self._sorted is None or self._sorted[0] != trees:
            rows = [row for rows in self.done(view) for row in rows]
            self._sorted = trees, sorted(rows, key=lambda row: row.decided, reverse=True)
        return self._sorted[1]

    def done(self, view: View) -> Iterator[tuple[DoneRow, ...]]:
        """The threads that are done, peer by peer."""
        trees = view.snapshot.ledgers
        for gone in self._done.keys() - trees.keys():
            del self._done[gone]
        for peer, tree in trees.items():
            known = self._done.get(peer)
            if known is None or known[0] != tree:
                # With a snapshot of its own, so that the text of the ledger is not kept.
                alone = view._replace(snapshot=Snapshot(view.hub.git, view.snapshot.commit))
                known = self._done[peer] = tree, read_done(alone, peer)
            yield known[1]

    def _thread(self, view: View, rest: str, query: Query) -> Page:
        known = self.lives.get(file_name(rest))
        found = (
            done_document(view, *known) if known else _or_ours(rest, lambda name: show_or_sent(view, name, show_any))
        )
        return self.thread_page(view, found, Given())

    def thread_page(self, view: View, found: Document | OwnDocument | SentDocument, given: Given) -> Page:
        """The page of whatever was found by a name; ``given`` is what was filled in."""
        match found:
            case OwnDocument():
                return own_page(found)
            case SentDocument():
                return sent_page(found)
        config = view.settings.config
        actors = (*(one.name for one in config.reviewers), *view.settings.peers)
        return thread_page(found, actors, given, may_decide=view.on_main, approval=config.explicit_approval)

    def _agent(self, view: View, rest: str, query: Query) -> Page:
        queue = read_queue(view) if has_agent(view) else None
        calls = read_calls(view.hub.root)
        return agent_page(queue, list_turns(view, TURNS), calls, _agent_config(view), self._titles(view), view.now)

    def _titles(self, view: View) -> dict[str, str]:
        """Of every thread of a peer, by name."""
        found = {row.thread.removesuffix(".md"): row.subject for rows in self.done(view) for row in rows}
        return found | {one.thread.removesuffix(".md"): one.subject for one in list_inbox(view).threads}

    def _peers(self, view: View, rest: str, query: Query) -> Page:
        status = read_status(view)
        done = {str(rows[0].peer): len(rows) for rows in self.done(view) if rows}
        pending = dict(count_by(one.peer for one in status.inbox.threads))
        counts = {peer: (pending.get(peer, 0), done.get(peer, 0)) for peer in {*pending, *done}}
        return peers_page(list_peers(view), counts, dict(count_by(one.peer for one in status.waiting)))

    def _log(self, view: View, rest: str, query: Query) -> Page:
        asked, problem = read_asked(query), ""
        peers = sorted(view.settings.peers)
        try:
            since = read_since(asked.since, view.now) if asked.since else None
            everything = asked.text or asked.thread or since
            rows = read_log(view, since, asked.peer, asked.thread, None if everything else (asked.page + 20) * 100)
        except CnError as refused:
            rows, problem = [], refused.text

        @cache
        def is_ours(source: str) -> bool:
            try:
                _or_ours(source, lambda name: show_or_sent(view, name, show_any))
            except CnError:
                return False
            return True

        return log_page(rows, peers, asked, is_ours, problem)

    def _history(self, view: View, rest: str, query: Query) -> Page:
        done = [row for rows in self.done(view) for row in rows]
        pending = [item for _, item in view.snapshot.pending()]
        peers = [*(row.peer for row in done), *(peer for peer, _ in view.snapshot.pending())]
        ends = count_by(row.status or row.decision.partition(":")[0] for row in done)
        return history_page(count_weeks(done, (item.since for item in pending), view.now), ends, count_by(peers))

    def _why(self, view: View, rest: str, query: Query) -> Page:
        return why_page(_or_ours(rest, lambda name: explain(view, name)))

    def makers(self) -> Mapping[str, Callable[[View, str, Query], Page]]:
        """What makes each kind of page."""
        return {
            "now": self._now,
            "threads": self._threads,
            "thread": self._thread,
            "agent": self._agent,
            "peers": self._peers,
            "log": self._log,
            "history": self._history,
            "why": self._why,
        }


def _or_ours(name: str, show: Callable[[str], T]) -> T:
    """What is called so; ``peer/topic`` of the log may also be what we sent, whose name is ``peer:topic``."""
    try:
        return show(file_name(name))
    except Refused:
        ours = name.replace("/", ":", 1)
        if ours == name:
            raise
        try:
            return show(ours)
        except Refused:
            pass
        raise


def file_name(name: str) -> str:
    """The name of a thread's file, whose suffix addresses leave out."""
    return f"{name}.md" if name[:8].isdigit() and name[8:9] == "-" and "/" not in name else name


def _agent_config(view: View) -> AgentConfig | None:
    try:
        return read_agent_config(view.snapshot.read)
    except ConfigError:
        return None
