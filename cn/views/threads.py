"""Threads to look at: pending and done, each with its state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cn.git.process import GitError
from cn.inbox.decided import PUT_OFF, decided_of
from cn.inbox.decided import Decided as Decided
from cn.inbox.working_copies import Working, may_decide, read_copies, read_working, unknown_files, was_refused
from cn.protocol.layout import COMMENTED, END_IN_MAIN, FINAL, PROPOSAL, TO_MEND
from cn.protocol.ledger import IN, OUT, Event, Item
from cn.protocol.peers_file import Peer, is_verdict_of, signature_now
from cn.run.view import View, has_agent, read_events
from cn.values.errors import Refusal, Refused
from cn.values.names import Name, Oid, ThreadName
from cn.values.shell_words import command
from cn.values.text import one_line
from cn.values.timestamps import parse_stamp, stamp_or_none

if TYPE_CHECKING:  # imported where somebody decided, or a history is asked for
    from cn.protocol.finality import Offered
    from cn.protocol.thread_file import Showing
    from cn.protocol.thread_life import Life, Link, Written

PENDING, ANSWERED, DECIDED, REFUSED, DONE = "pending", "answered", "decided", "refused", "done"
WITHDRAWN = "withdrawn"


_MOST_COMMITS = 50_000
"""Of proposals that hold more than so many commits that main has not, it is not said which of them main holds."""


class Result(NamedTuple):
    """What came of it: as the log tells it, the status that the creator reads, the merge commit."""

    executed: str = ""
    status: str = ""
    merge: str = ""


class ThreadView(NamedTuple):
    """One thread as people see it; texts are empty where there is nothing to say.

    ``state`` is pending, answered (by a comment, to which its creator has said nothing yet), withdrawn (its branch is
    not there any more, and nothing else of these), decided (waiting for process), refused, deferred, assigned, queued,
    claimed (the agent has it), dead (given up by the agent), or done. ``refused`` is the rule that
    said no to the decision. ``chain`` is filled only where the history was asked for. ``subject`` is that of a
    message, or the title of a proposal's first commit. ``written`` is when its creator says to have written it,
    never later than it was received. ``in_main``: main holds the head of this proposal already, so that there is
    nothing left to merge. ``no_peer``: its creator is no peer now. ``anew`` is how often it was shown against another
    base, in digits. ``asked``: a comment of ours waits for its creator, also where it is assigned. ``unsigned``: its
    creator has a pinned key, which did not sign it.
    """

    thread: ThreadName
    peer: Name
    topic: str
    branch: str
    head: str
    kind: str
    subject: str
    signature: str
    state: str
    received: datetime
    written: datetime
    earlier: str = ""
    withdrawn: datetime | None = None
    caution: str = ""
    in_main: bool = False
    no_peer: bool = False
    decided: Decided = Decided()
    result: Result = Result()
    refused: Refusal | None = None
    chain: tuple[Link, ...] = ()
    anew: str = ""
    asked: bool = False
    unsigned: bool = False

    @property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.topic}"

    @property
    def showing(self) -> Showing:
        """What the thread of one that waits shows of its branch."""
        from cn.protocol.thread_file import Showing  # lists of threads decide nothing

        return Showing(self.head, self.caution, self.anew)

    @property
    def offered(self) -> Offered:
        """The decisions that it can take as it is."""
        from cn.protocol.finality import offered  # lists of threads offer nothing

        gone = self.withdrawn is not None
        return offered(self.kind, withdrawn=gone, no_peer=self.no_peer, unsigned=self.unsigned)

    @property
    def step_in_main(self) -> str:
        """What ends it, where main holds it already; of what is withdrawn, or no peer's, nothing is merged."""
        if not self.in_main:
            return ""
        return END_IN_MAIN if self.offered.has("do:merge") else f"{command('cn delete {}', self.source)} ends it"

    @property
    def reason(self) -> str:
        """Why it was refused, else why it was put off."""
        return self.refused.reason if self.refused else self.decided.reason


class InboxView(NamedTuple):
    """The threads, those that are done first, the others in the order in which they were written; files in the inbox
    that are none, peers with damaged records.
    """

    threads: tuple[ThreadView, ...]
    unknown: tuple[str, ...]
    damaged: tuple[tuple[Name, str], ...] = ()


def list_inbox(view: View, *, everything: bool = False, chains: bool = False) -> InboxView:
    """Pending threads, with ``everything`` the done ones too. ``chains`` reads the history."""
    pending = view.snapshot.pending()
    written = read_written(view, [item for _, item in pending])
    threads: list[ThreadView] = []
    lives: Mapping[str, Life] = {}
    if everything or chains:
        from cn.protocol.thread_life import read_lives

        histories = _histories(view, pending, everything=everything)
        all_lives = [(peer, life) for peer, events in histories.items() for life in read_lives(events)]
        lives = {life.thread: life for _, life in all_lives}
        if everything:
            forwards = forwarded(event for events in histories.values() for event in events)
            ended = [(peer, life) for peer, life in all_lives if life.decided is not None]
            threads = [done_view(peer, life, forwards.get(life.thread, ())) for peer, life in ended]
    fed, answered, held = has_agent(view), answered_heads(view), held_heads(view, [item for _, item in pending])
    for peer, item in pending:
        name = item.get("thread")
        creator = view.settings.peers.get(peer)
        shown = (peer, item, written.get(name), lives.get(name))
        threads.append(pending_view(*shown, creator=creator, fed=fed, answered=answered, held=held))
    threads.sort(key=lambda t: (t.state != DONE, t.written, t.received, t.thread))
    damaged = tuple(view.snapshot.damaged.items())
    unknown = unknown_files(view.hub, view.snapshot, pending) if view.on_main else ()
    return InboxView(tuple(threads), tuple(unknown), damaged)


def to_review(inbox: InboxView, actor: str) -> list[ThreadView]:
    """What waits for this actor's decision: nobody put it off, answered or decided it, has it, or is to decide it
    instead.
    """
    waits = {PENDING, REFUSED, "queued", "dead"}
    return [t for t in inbox.threads if t.state in waits or (t.state == "assigned" and t.decided.assigned_to == actor)]


def of_peer(view: View, inbox: InboxView, peer: str) -> InboxView:
    """What of it is this peer's. Raises :class:`Refused` for one that is no peer and sent nothing."""
    threads = tuple(thread for thread in inbox.threads if thread.peer == peer)
    if not threads and peer not in view.settings.peers:
        raise Refused(f"{one_line(peer, 60)!r} is no peer", "'cn peer list' lists them")
    return InboxView(threads, (), tuple(one for one in inbox.damaged if one[0] == peer))


def _histories(view: View, pending: Sequence[tuple[Name, Item]], *, everything: bool) -> dict[Name, list[Event]]:
    """The ledgers, of all peers or as far back as what is pending goes."""
    histories: dict[Name, list[Event]] = {}
    for peer in list(view.snapshot.open_items) if everything else dict.fromkeys(p for p, _ in pending):
        try:
            oldest = "" if everything else f"{min(item.since for p, item in pending if p == peer):%Y%m}"
            histories[peer] = read_events(view, peer, since=oldest)
        except Refused as refused:  # one damaged ledger hides nobody else's threads
            view.snapshot.damaged[peer] = refused.text
    return histories


def read_written(view: View, items: Sequence[Item]) -> Mapping[str, Written]:
    """The decisions that stand in working copies, by thread. None where HEAD is not main."""
    copies: dict[str, Working] = {}
    for item in items if view.on_main else ():
        name = item.get("thread")
        working = read_working(view.hub, ThreadName(name))
        if working and may_decide(working):
            copies[name] = working
    return read_copies(view, copies) if copies else {}


Comments = Mapping[tuple[Name, str], Collection[str]]
"""Comments of ours that are on their way to a creator, or wait there, by whom and which head they are about."""


def answered_heads(view: View) -> Comments:
    """The heads about which comments of ours are on their way, or wait: those that were answered with words do not."""
    ended = (*FINAL, *TO_MEND)
    found: dict[tuple[Name, str], list[str]] = {}
    for peer, item in view.snapshot.outbound():
        # An older ledger has no ``words``; a comment comes with words alone.
        words = item.get("words") or (item.get("answer") and item.get("status") in ("", COMMENTED))
        if item.get("about_status") == COMMENTED and item.get("status") not in ended and not words:
            found.setdefault((peer, item.get("about_head")), []).append(item.head)
    return found


def held_heads(view: View, items: Iterable[Item]) -> frozenset[str]:
    """The heads of these proposals that main holds already: merged by somebody with git, or pushed again.

    Of what git has no more, or cannot tell within the limits, nothing is said.
    """
    shown = {item.head: item.get("base") for item in items if item.get("kind") in ("", PROPOSAL)}
    heads = list(shown)
    if not heads:
        return frozenset()
    asked = "\n".join([f"^{view.snapshot.commit}", *heads, ""]).encode()
    try:
        missing = set(view.hub.git.run("rev-list", f"--max-count={_MOST_COMMITS}", "--stdin", stdin=asked).lines)
    except GitError as error:
        if error.done.limited:
            return frozenset()
        from cn.git.objects import contained  # one of them may be gone

        return _with_changes(view, contained(view.hub.git, view.snapshot.commit, heads), shown)
    there = (h for h in heads if h not in missing)
    return _with_changes(view, there, shown) if len(missing) < _MOST_COMMITS else frozenset()


def _with_changes(view: View, heads: Iterable[Oid], shown: Mapping[Oid, str]) -> frozenset[str]:
    """Those that did not come into main's history with another branch, and without what they change, and of which main
    did not take back all; ``shown`` says where each left main.
    """
    if not (there := set(heads)):
        return frozenset()
    from cn.git.taken_in import read_taken_back, read_taken_in

    git, main = view.hub.git, view.snapshot.commit
    back = read_taken_back(git, main, [(head, shown[head]) for head in sorted(there)])
    return frozenset(there - back - read_taken_in(git, main, there).keys())


def pending_view(
    peer: Name,
    item: Item,
    written: Written | None,
    life: Life | None,
    *,
    creator: Peer | None,
    fed: bool,
    answered: Comments,
    held: Collection[str] = (),
) -> ThreadView:
    """A pending thread; with ``life`` its chain too. ``creator``: as it is a peer now; ``fed``: this hub gives its
    threads to an agent; ``answered`` are the heads that a comment waits at (:func:`answered_heads`), ``held`` those
    that main has (:func:`held_heads`).
    """
    known, signature = creator is not None, item.get("signature") or "unverified"
    state = _state(item, written, known=known, fed=fed)
    # Who withdrew a branch and pushed it again has answered what was said before.
    asked = bool(set(answered.get((peer, item.head), ())) - set(item.get("said").split()))
    state = ANSWERED if asked and state == PENDING else state
    state = WITHDRAWN if item.is_withdrawn and state in (PENDING, ANSWERED) else state
    refusal = _refusal(item, written) if state == REFUSED else None
    chain: tuple[Link, ...] = ()
    if life:
        from cn.protocol.thread_life import read_chain

        chain = read_chain(life, written=None if refusal else written)
    get = item.get
    executed = f"✓ {item.state}" if item.state in PUT_OFF else ""
    return ThreadView(
        thread=ThreadName(get("thread")),
        peer=peer,
        topic=item.topic,
        branch=get("branch"),
        head=item.head,
        kind=get("kind") or "proposal",
        subject=get("subject") or get("title"),
        signature=signature_now(signature, creator.key) if creator else signature,
        state=state,
        received=item.since,
        written=item.written,
        earlier=get("earlier"),
        withdrawn=parse_stamp(get("gone")) if item.is_withdrawn else None,
        caution=get("back"),
        in_main=item.head in held and get("kind") in ("", PROPOSAL),
        no_peer=not known,
        decided=decided_of(item, written, known=known),
        result=Result(f"refused: {refusal.rule}: {refusal.reason}" if refusal else executed),
        refused=refusal,
        chain=chain,
        anew=get("anew"),
        asked=asked,
        unsigned=creator is not None and bool(creator.key) and not is_verdict_of(signature, creator.key),
    )


def _refusal(item: Item, written: Written | None) -> Refusal:
    """Why what is written decides nothing, else what was recorded of it."""
    if written is not None and written.problem:
        from cn.protocol.rules import VALID_TRIAGE  # lists of threads need no rules

        return Refusal(VALID_TRIAGE, written.problem, written.remedy)
    return Refusal(item.get("rule"), item.get("why"), item.get("remedy"))


def _state(item: Item, written: Written | None, *, known: bool, fed: bool) -> str:
    """What is written now counts before what was recorded; what waits for no agent, which is given nothing of who is no
    peer, is a person's.
    """
    if written is not None:
        return REFUSED if was_refused(item, written, known=known) else DECIDED
    left = not (fed and known) and item.state in ("queued", "dead")
    return PENDING if left or item.state == "received" else item.state


def forwarded(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Messages that carried a thread to another peer, and their deliveries, by thread."""
    found: dict[str, list[Event]] = {}
    ids: dict[str, str] = {}
    for event in events:
        if event.side != OUT:
            continue
        get = event.fields.get
        if event.kind == "queued" and get("thread") and not get("about"):
            ids[event.head] = get("thread", "")
        if event.head in ids and event.kind in ("queued", "delivered"):
            found.setdefault(ids[event.head], []).append(event)
    return found


def done_view(peer: Name, life: Life, forwards: Sequence[Event]) -> ThreadView:
    """A thread that is done. ``forwards`` are the events of messages that carried it on."""
    from cn.protocol.thread_life import INFORMED, executed_text, read_chain

    received, decided = life.received, life.decided
    assert decided is not None
    get = decided.fields.get
    chain = read_chain(life, forwards=forwards)
    status = get("status", "")
    informed = any(link.step == INFORMED and link.at for link in chain)
    through = informed if status == "replied" else any(event.kind == "delivered" for event in forwards)
    latest = life.last("received", "refreshed") or received
    branches = [branch for e in life.events if e.side == IN and (branch := e.fields.get("branch"))]
    gone = life.last("gone")
    # A message is read and then cleaned up; only a proposal can be taken back.
    proposal = received.fields.get("kind") in (None, "", "proposal")
    return ThreadView(
        thread=ThreadName(life.thread),
        peer=peer,
        topic=received.topic,
        branch=branches[-1] if branches else "",
        head=decided.head,
        kind=received.fields.get("kind") or "proposal",
        subject=life.title,
        signature=latest.fields.get("signature") or "unverified",
        state=DONE,
        received=received.at,
        written=stamp_or_none(received.fields.get("written")) or received.at,
        earlier=received.fields.get("earlier", ""),
        withdrawn=gone.at if gone and gone.at < decided.at and proposal else None,
        decided=Decided(get("decision", ""), get("actor", "")),
        result=Result(executed_text(status, get("merge", ""), through), status, get("merge", "")),
        chain=chain,
    )
