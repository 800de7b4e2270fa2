"""What of a hub may be published: the peers and threads that are named, and of them no text that somebody wrote in
messages, decisions or notes, nothing that was masked, and nothing that looks like a secret. Pure but for the scanner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cn.protocol.thread_life import Link
from cn.run.secret_gate import mask_text
from cn.run.settings import Settings
from cn.secrets.scanner import MASK
from cn.values.errors import Refusal
from cn.values.names import Url
from cn.views.conversation import Conversation, File, Proposed, read_commit
from cn.views.done import DoneRow
from cn.views.log import LoggedAction
from cn.views.outbox import PeerView
from cn.views.status import Status
from cn.views.threads import Decided, InboxView, Result, ThreadView

LEFT_OUT = "(left out)"


class Named(NamedTuple):
    """What was named on the command line: peers, and ``sources``, which are the proposals of these peers and the
    threads that were named themselves (``peer/topic``; that of a message is made of its subject).
    """

    peers: frozenset[str]
    sources: frozenset[str]
    settings: Settings

    def clean(self, text: str) -> str:
        """A line as it is, or nothing where something of it was masked or should be."""
        return "" if MASK in mask_text(text, self.settings)[0] else text

    def who(self, name: str) -> str:
        """This hub and the peers that are named, by name; nobody else."""
        return name if name in ("", self.settings.us, *self.peers) else "somebody else"

    def keep(self, lines: Sequence[str]) -> Iterator[bool]:
        """Which of the lines of one text may be shown: of a private key none."""
        masked = mask_text("\n".join(lines), self.settings)[0].split("\n")
        return (MASK not in line for line in masked)

    def lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Those that may."""
        return tuple(line for line, kept in zip(lines, self.keep(lines), strict=True) if kept) if lines else ()


def public_status(status: Status, named: Named) -> Status:
    """What waits with the peers that are named; of the machine nothing."""
    threads = tuple(public_thread(one, named) for one in status.inbox.threads if one.source in named.sources)
    return status._replace(
        inbox=InboxView(threads, ()),
        waiting=(),
        outbox=(),
        unreachable=(),
        stopped=None,
        standing=(),
        not_in_effect=(),
        queue=None,
        main=status.main._replace(checked_out=True, away=None),
    )


def public_thread(thread: ThreadView, named: Named) -> ThreadView:
    """A thread without words: what it is, where it stands, when what happened."""
    refused = thread.refused
    return thread._replace(
        subject=named.clean(thread.subject) if thread.kind == "proposal" else "",
        decided=Decided(
            verb_of(thread.decided.text),
            named.who(thread.decided.actor),
            thread.decided.until,
            named.who(thread.decided.assigned_to),
        ),
        result=Result("", thread.result.status, thread.result.merge),
        refused=Refusal(refused.rule, "", "") if refused else None,
        chain=tuple(Link(one.step, one.at, "", one.head, one.commit, one.since) for one in thread.chain),
    )


def public_talk(talk: Conversation, named: Named) -> Conversation:
    """The difference that is proposed; of all that was said only who said it, and when.

    The branch that carried an answer is named after its subject.
    """
    said = tuple(
        one._replace(who=named.who(one.who), text=LEFT_OUT, what="", head=one.head and "Note")
        for one in talk.said
        if one.who or one.head
    )
    return Conversation(_proposed(talk.proposed, named) if talk.proposed else None, LEFT_OUT if talk.text else "", said)


def _proposed(proposed: Proposed, named: Named) -> Proposed:
    """Commits by their first lines, without addresses of people; files with the lines that may be shown."""
    read = [commit for line in proposed.commits if (commit := read_commit(line)) is not None]
    first = [f"- {one.id} {one.author} <> {one.at}: {one.subject}" for one in read]
    files = tuple(_file(one, named) for one in proposed.files if named.clean(one.path))
    return Proposed(named.lines(first), named.lines(proposed.listed), files, ())


def _file(file: File, named: Named) -> File:
    if not file.lines:
        return file
    kept = named.keep([line for _, line in file.lines])
    return file._replace(lines=tuple(pair for pair, keep in zip(file.lines, kept, strict=True) if keep))


def public_done(rows: Iterable[DoneRow], named: Named) -> tuple[DoneRow, ...]:
    """The same for threads that are done."""
    return tuple(
        row._replace(
            subject=named.clean(row.subject) if row.kind == "proposal" else "",
            decision=verb_of(row.decision),
            actor=named.who(row.actor),
        )
        for row in rows
        if row.source in named.sources
    )


def public_rows(rows: Iterable[LoggedAction], named: Named) -> list[LoggedAction]:
    """What happened with them: the verb, and how it ended."""
    found = []
    for one in rows:
        row = one.row
        if row.source in named.sources:
            short = row._replace(
                decision=verb_of(row.decision), executed=row.executed.partition(":")[0], note="", input=""
            )
            found.append(LoggedAction(short, one.event, one.audited))
    return found


def public_peers(peers: Iterable[PeerView], named: Named) -> list[PeerView]:
    """The peers that are named: neither where they are nor whether they answer."""
    return [
        one._replace(peer=one.peer._replace(hub=Url("")), unreachable=None)
        for one in peers
        if one.peer.name in named.peers
    ]


def verb_of(decision: str) -> str:
    """A decision without its words: ``delete``, ``do:reply``."""
    verb, _, rest = decision.partition(":")
    return f"do:{rest.partition(':')[0]}" if verb == "do" else verb
