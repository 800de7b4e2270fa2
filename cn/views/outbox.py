"""What waits to be delivered, and what was tried; the peers: route, pinned key, and whether they answered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.protocol.layout import DRAFTS, PROPOSAL
from cn.protocol.peers_file import Peer, fingerprint
from cn.run.settings import MAILBOX_KEY
from cn.run.view import View
from cn.values.errors import Refused
from cn.values.names import HubPath
from cn.values.record_header import RecordRefused
from cn.values.text import one_line
from cn.values.timestamps import stamp_or_none

if TYPE_CHECKING:  # imported where something waits
    from cn.protocol import outbox_entry as outbox


class Entry(NamedTuple):
    """One file of the outbox. ``effect`` is deliver, delete, say, draft (written while origin did not answer), or
    damaged (``reason`` says how).

    It was tried ``attempts`` times, the ``last`` time in vain for this ``reason``; of a draft that
    says what becomes of it. ``owed``: it tells what became of a branch of somebody who is no peer now, and nothing is
    wrong.
    """

    file: str
    effect: str
    to: str = ""
    branch: str = ""
    head: str = ""
    kind: str = ""
    subject: str = ""
    queued: datetime | None = None
    thread: str = ""
    source: str = ""
    attempts: int = 0
    reason: str = ""
    last: datetime | None = None
    owed: bool = False


def list_outbox(view: View) -> list[Entry]:
    """What waits to be delivered, oldest first, then damaged files."""
    entries, broken = view.snapshot.outbox()
    says, damaged = view.snapshot.says()
    attempts = view.memory.attempts.entries
    found = [_mail(path.rpartition("/")[2], entry, attempts) for path, entry in entries]
    found = [
        _without_peer(one, entry) if entry.to not in view.settings.peers else one
        for one, (_, entry) in zip(found, entries, strict=True)
    ]
    for _, say in says:
        words, tried = one_line(say.text, 80), _tried(attempts.get(say.name))
        found.append(Entry(say.name, "say", say.chat, "", "", "text", words, say.queued, "", say.chat, *tried))
    if view.snapshot.folder(DRAFTS):
        found += _drafts(view)
    found.sort(key=lambda e: (e.queued or view.now, e.file))
    unreadable = [*broken, *damaged]
    return found + [Entry(path.rpartition("/")[2], "damaged", reason=why) for path, why in unreadable]


def _without_peer(shown: Entry, entry: outbox.Entry) -> Entry:
    """What waits for somebody who is no peer now."""
    from cn.protocol.outbox_entry import Deliver

    owed = isinstance(entry, Deliver) and bool(entry.about)
    return shown._replace(reason=f"{entry.to} is no peer: it goes when {entry.to} is added again", owed=owed)


def _drafts(view: View) -> list[Entry]:
    from cn.threads.drafts import list_drafts

    return [_draft(view, path) for path in list_drafts(view.snapshot)]


def _draft(view: View, path: HubPath) -> Entry:
    from cn.protocol.draft import parse_draft
    from cn.threads.drafts import NOT_MADE_HERE, read_draft
    from cn.transaction.protected_files import is_made_here

    name = path.rpartition("/")[2]
    try:
        kept = read_draft(view.hub, view.snapshot, path, view.snapshot if view.on_main else None)
        draft = parse_draft(kept.data if kept.here is None else kept.here)
    except (RecordRefused, Refused) as refused:
        return Entry(name, "damaged", reason=refused.text)
    reason = _UNKNOWN if draft.tried else ""
    if kept.here is None:
        reason = f"its file was removed here: it is not said{', unless origin has it already' if draft.tried else ''}"
    elif not is_made_here(view.hub, view.snapshot.commit, path):
        reason = f"{NOT_MADE_HERE}: it is not said here"
    words = one_line(draft.message, 80)
    return Entry(name, "draft", draft.to, kind=draft.act, subject=words, queued=draft.written, reason=reason)


_UNKNOWN = "nobody knows whether origin took it; the next run that reaches origin finds out, and finishes it"


def _mail(file: str, entry: outbox.Entry, attempts: Mapping[str, Mapping[str, Any]]) -> Entry:
    from cn.protocol.outbox_entry import Deliver, Propose

    about = entry.queued, entry.thread, entry.source
    if isinstance(entry, Deliver):
        effect, head, kind, subject = "deliver", entry.id, entry.kind, entry.subject
    elif isinstance(entry, Propose):
        effect, head, kind, subject = "propose", entry.head, PROPOSAL, entry.subject
    else:
        effect, head, kind, subject = "delete", entry.tip, "", entry.reason
    return Entry(file, effect, entry.to, entry.branch, head, kind, subject, *about, *_tried(attempts.get(file)))


def _tried(memory: Mapping[str, Any] | None) -> tuple[int, str, datetime | None]:
    memory = memory or {}
    return int(memory.get("count", 0)), str(memory.get("reason", "")), stamp_or_none(memory.get("last"))


class Unreachable(NamedTuple):
    """A peer, or the mailbox, that did not answer, as this clone remembers it."""

    name: str
    reason: str
    since: datetime | None
    next: datetime | None
    attempts: int


class PeerView(NamedTuple):
    """A peer with the fingerprint of its pinned key (empty: none) and what is known of its reachability."""

    peer: Peer
    fingerprint: str
    unreachable: Unreachable | None


def list_peers(view: View) -> list[PeerView]:
    """The peers of main's ``state/peers.md``."""
    failing, peers = unreachable(view), view.settings.peers.values()
    return [PeerView(peer, fingerprint(peer.key) if peer.key else "", failing.get(peer.name)) for peer in peers]


def unreachable(view: View) -> dict[str, Unreachable]:
    """Failing peers and mailbox by key; peers that were removed are left out."""
    known = {*view.settings.peers, MAILBOX_KEY}
    return {
        key: Unreachable(
            name=f"the mailbox ({view.settings.mailbox})" if key == MAILBOX_KEY else key,
            reason=str(entry.get("reason", "")),
            since=stamp_or_none(entry.get("since")),
            next=stamp_or_none(entry.get("next")),
            attempts=count if isinstance(count := entry.get("count", 0), int) else 0,
        )
        for key, entry in sorted(view.memory.unreachable.entries.items())
        if key in known
    }
