"""Open a hub to look at it: no lock, no network, nothing written.

What is shown is what ``main`` holds, wherever HEAD is, and the working copies of pending
threads where HEAD is ``main``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from cn.git.lost_branch import missing_main
from cn.git.repository import ORIGIN_REF, Hub
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.ledger import FOLDER, IN, Event, events_of_topics, parse_event
from cn.protocol.peers_file import PATH as PEERS
from cn.run.memory import Memory
from cn.run.settings import NoConfig, Settings, explain_missing_config, parse_settings, read_settings
from cn.run.snapshot import Snapshot, readable_ledger
from cn.system.clock import now
from cn.values.accepted import Accepted as Accepted
from cn.values.errors import ConfigError, Refused
from cn.values.names import Name, Oid, is_name


class View(NamedTuple):
    """A hub as it is now: main at ``snapshot``, ``origin`` main as it was last taken over.

    ``on_main`` tells whether HEAD is main, so that the working copies belong to it.
    """

    hub: Hub
    settings: Settings
    snapshot: Snapshot
    now: datetime
    on_main: bool
    origin: Oid | None

    @property
    def memory(self) -> Memory:
        """This clone's memory, read anew."""
        return Memory(self.hub, self.now).know_hubs(self.settings.hubs)


def has_agent(view: View) -> bool:
    """Is an agent given what is in the queue? Else it is left from a time when one was."""
    return view.settings.config.interface == "queue"


LEFT = "this clone gives the agent nothing: cn.agent is false in its git config"
GIVEN_AGAIN = "'git config cn.agent true' has it give items again"


def require_queue(view: View) -> None:
    """Raise :class:`ConfigError` where nothing would ever be given to the agent."""
    if not has_agent(view):
        raise ConfigError(
            "this hub has no queue: nothing is given to the agent",
            "set 'interface: queue' in .cn/hub.yaml and commit it",
        )
    if view.hub.leaves_agent:
        raise ConfigError(LEFT, GIVEN_AGAIN)


def open_view(hub: Hub) -> View:
    """Read main's configuration and tip; raises :class:`Refused` when there is no main."""
    head = Snapshot(hub.git, Oid("HEAD"))  # which most often is main
    known: Snapshot | None = head
    try:
        head.look_ahead(_peers_here(hub))
        settings = parse_settings(hub, head.read(CONFIG), head.read(PEERS))
    except ConfigError as error:
        known = None
        try:  # HEAD is elsewhere, or broken there: main counts
            settings = read_settings(hub, hub.main_ref)
        except ConfigError:
            raise (explain_missing_config(hub) if isinstance(error, NoConfig) else error) from None
    hub = replace(hub, main=settings.config.main, name=settings.us)
    tracking = f"refs/remotes/origin/{hub.main}"
    form = "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(tree)"
    lines = hub.git.run("for-each-ref", form, hub.main_ref, ORIGIN_REF, tracking).lines
    rows = [line.split("\0") for line in lines]
    refs = {name: Oid(oid) for name, oid, _, _ in rows}
    main = refs.get(hub.main_ref)
    if main is None:
        raise Refused(*missing_main(hub))
    on_main, tree = next((mark == "*", tree) for name, _, mark, tree in rows if name == hub.main_ref)
    same = known if known is not None and known.oid("") == tree else None
    if same is None:
        settings = read_settings(hub, main)
    origin = refs.get(ORIGIN_REF) or refs.get(tracking) if hub.origin else None
    if hub.origin and refs.get(tracking) == main:  # somebody's own push, of which no run knows yet
        origin = main
    return View(hub, settings, Snapshot(hub.git, main, same), now(), on_main, origin)


def _peers_here(hub: Hub) -> list[Name]:
    """Of whom the work tree has records: a guess at what main has, which spares asking git twice."""
    with suppress(OSError):
        return [Name(name) for name in os.listdir(hub.root / FOLDER) if is_name(name)]
    return []


def require_accepted(view: View) -> Accepted:
    """Raise :class:`Blocked` where main's configuration is not what this clone accepted: it sends nothing by it."""
    return find_accepted(view.hub, view.snapshot.commit, view.settings.us)


def find_accepted(hub: Hub, commit: Oid, ours: str = "") -> Accepted:
    """The same of a commit; ``ours`` is the name of the hub, if it is known."""
    from cn.transaction.protected_files import refuse_untrusted, trusted_commit

    refuse_untrusted(hub, commit, trusted_commit(hub), ours=ours, main_here=True)
    return Accepted(commit)


def read_events(view: View, peer: Name, *, since: str = "", about: str = "") -> list[Event]:
    """A peer's ledger from the month ``since`` (``YYYYMM``) on, in order.

    With ``about`` (a topic) only what that branch and our answers to it need: lines are
    sorted out as text before any is parsed.
    """
    text = view.snapshot.history(peer, since)
    with readable_ledger(peer):
        return [parse_event(line) for line in (_lines_about(text, about) if about else text.split("\n")) if line]


def _lines_about(text: str, topic: str) -> list[str]:
    heads = {event.head for event in events_of_topics(text, IN, [topic])[topic]}
    lines = text.split("\n")
    answers = {line.split(" ", 5)[4] for line in lines if any(f"about_head={head}" in line for head in heads)}
    wanted = [*heads, *answers]
    return [line for line in lines if any(oid in line for oid in wanted)]
