"""``cn send``, ``cn reply`` and ``cn outbox``: messages that people start (``docs/protocol/messages.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cn.actions.decide import Overtaken, decide_now, say_comment
from cn.actions.drafts import Commit, First, Say, is_as_seen, say_now_or_later
from cn.git.repository import Hub
from cn.inbox.superseded import OVERTAKEN, log_overtaken, who_was_first
from cn.protocol import rules
from cn.protocol.draft import Draft
from cn.protocol.effects import Plan, Post
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, Event, each_event
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.ops import Reply
from cn.run.executor import Executor
from cn.run.find_thread import NoThread, look_for_pending, read_call
from cn.run.run import Run
from cn.run.secret_gate import check_plan, mask_line
from cn.run.shown import check_head
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import Text, text_of
from cn.system.clock import now
from cn.values.errors import Refused, UsageError
from cn.values.names import Name, Oid, ThreadName, parse_oid, reply_subject, reply_topic
from cn.values.report import Progress, Report
from cn.values.text import is_text, one_line, slug


def send(
    hub: Hub,
    to: str,
    message: str,
    *,
    body: str = "",
    dry_run: bool = False,
    waiting: Progress | None = None,
    first: First | None = None,
) -> Report:
    """Queue a message to a peer and deliver the outbox."""
    _subject(message, body)
    draft = Draft("send", to, message, "", now(), body.encode())
    return say_now_or_later(hub, draft, _send, dry_run=dry_run, waiting=waiting, first=first)


def _send(run: Run, draft: Draft, commit: Commit) -> None:
    if draft.to == run.settings.us:
        raise Refused(f"{draft.to} is this hub", "name a peer; see 'cn peer list'")
    if draft.to not in run.settings.peers:  # it may have been added elsewhere
        run.ask_origin()
    peer, body = run.settings.peer(draft.to), draft.body.decode()
    subject = _subject(draft.message, body)
    mail = Message(MESSAGE, run.settings.us, peer.name, subject, draft.written, body or draft.message)
    given = [text_of("the message's subject", draft.message), text_of("the message", body)]
    given = given if body else [text_of("the message", draft.message)]
    _queue(run, Post(mail, slug(subject)), f"message to {peer.name}: {subject}", given, commit)


def _subject(message: str, body: str) -> str:
    if not is_text(message + body):
        raise UsageError("the message holds bytes that are not UTF-8", "write it as UTF-8")
    refused = rules.check_length(f"{message}\n\n{body}", "the message")
    if refused:
        raise Refused(refused.reason, refused.remedy)
    subject = one_line(message.strip().split("\n", 1)[0])
    if not subject:
        raise UsageError("the message is empty", "say something")
    return subject


def _queue(run: Run, post: Post, what: str, given: Sequence[Text], commit: Commit) -> None:
    def plan(executor: Executor) -> str | None:
        sending = Plan(post.source or f"{post.message.to}/{post.topic}", (post,))
        if refusal := check_plan(sending, run.settings, given=given):
            raise Refused.by(refusal)
        executor.perform(sending)
        if not (run.dry_run or executor.empty):
            executor.notes.info(f"queued: {what}")
        return f"cn: {one_line(what, 60)}"

    commit(plan)


def reply(
    hub: Hub,
    thread: str,
    message: str,
    *,
    body: str = "",
    head: str = "",
    dry_run: bool = False,
    waiting: Progress | None = None,
    first: First | None = None,
) -> Report:
    """Reply to a thread. A pending message is decided by it (``do:reply:re-<topic>``), a proposal goes on waiting.

    It is about ``head``, if that is given, else about the head that who replies was shown last.
    """
    _subject(message, body)
    check_head(head)
    draft = Draft("reply", thread, message, "", now(), body.encode())
    return say_now_or_later(hub, draft, partial(_reply, head=head), dry_run=dry_run, waiting=waiting, first=first)


def _reply(run: Run, draft: Draft, commit: Commit, *, head: str = "") -> None:
    """``head`` is what who replies says that it is about; a draft that waited has the one that it was written for."""

    def decide(run: Run, draft: Draft, commit: Commit) -> None:
        about = draft.head or head
        at, waited = draft.written, draft.waited
        decide_now(run, draft.to, Reply, body=draft.text, head=about, at=at, waited=waited, commit=commit)

    _say_in_thread(run, draft, commit, decide)


def _say_in_thread(run: Run, draft: Draft, commit: Commit, say: Say) -> None:
    """Say it in the thread that waits; about one that is done, or was another, it is a message of its own."""
    if draft.called and draft.called != draft.to:  # somebody has edited to which thread it goes
        draft = replace(draft, thread="", head="")
    snapshot, waited = run.snapshot, draft.thread or _pending_here(run, draft.to)
    if not is_as_seen(run, draft):
        return _about_another(run, draft, commit)
    try:
        say(run, draft, commit)
    except NoThread as refused:
        row = refused.row if isinstance(refused, Overtaken) else None
        if row is None and waited and (row := _decided_meanwhile(run, draft, waited)) and not run.dry_run:
            log_overtaken(run, row)
        if row is not None:
            text = f"{row.source}: {row.decision} was {row.executed}; its text goes as a message of its own"
            run.report.info(text, source=row.source)
        _follow_up(run, snapshot, draft, refused, commit)


def _pending_here(run: Run, thread: str) -> str:
    """The thread that this clone last saw waiting under that name; empty: none."""
    with suppress(Refused):
        found = look_for_pending(Snapshot(run.hub.git, run.base.local), thread)
        return found[1].get("thread") if found else ""
    return ""


def _decided_meanwhile(run: Run, draft: Draft, thread: str) -> Row | None:
    """The row of what was said about a thread that waited then, and that somebody has decided since."""
    snapshot = run.snapshot
    if (found := find_done(snapshot, list(run.settings.peers), thread)) is None:
        return None
    peer, event = found
    name, branch = ThreadName(event.fields.get("thread", "")), event.fields.get("branch", "")
    told = f"not carried out: {who_was_first(run, snapshot, name)}"
    return Row(run.now, f"{peer}/{event.topic}", draft.act, told, name, branch, event.head, OVERTAKEN)


def _about_another(run: Run, draft: Draft, commit: Commit) -> None:
    """Said about a head that is not there any more: a message of its own, which decides nothing."""
    found = find_done(run.snapshot, list(run.settings.peers), draft.thread)
    if found is None:
        raise Refused(f"{draft.thread} is not there any more", "say it again with 'cn send'")
    peer, event = found
    source = f"{peer}/{event.topic}"
    text = f"{source} has moved since this was said; its text goes as a message of its own"
    run.report.info(text, source=source)
    _write_to(run, draft, peer, event, parse_oid(draft.head), commit)


def _follow_up(run: Run, snapshot: Snapshot, draft: Draft, refused: Refused, commit: Commit) -> None:
    """A reply to a thread that is done: a message of its own, with ``in-reply-to``."""
    found = find_done(snapshot, list(run.settings.peers), draft.to)
    if found is None:
        raise refused
    peer, event = found
    _write_to(run, draft, peer, event, event.head, commit)


def _write_to(run: Run, draft: Draft, peer: Name, event: Event, head: Oid, commit: Commit) -> None:
    """A message to a peer that answers its branch at ``head``; ``event`` is of the thread."""
    theirs = mask_line(event.fields.get("subject", ""), run.settings)
    subject = reply_subject(theirs or f"{peer}/{event.topic}")
    mail = Message(MESSAGE, run.settings.us, peer, subject, draft.written, draft.text, head)
    post = Post(mail, reply_topic(event.topic), event.fields.get("thread", ""), f"{peer}/{event.topic}")
    _queue(run, post, f"reply to {peer}/{event.topic}", [text_of("the message", draft.text)], commit)


def comment(
    hub: Hub,
    thread: str,
    message: str,
    *,
    body: str = "",
    actor: str = "",
    head: str = "",
    dry_run: bool = False,
    waiting: Progress | None = None,
    first: First | None = None,
) -> Report:
    """Say something about a peer's thread to its creator; the thread stays as it is.

    It is about ``head``, if that is given, else about the head that who says it was shown last.
    """
    check_head(head)
    text = f"{message}\n\n{body}" if body else message
    if not is_text(thread + actor + text):
        raise UsageError("the words hold bytes that are not UTF-8", "write them as UTF-8")
    draft = Draft("comment", thread, message, actor, now(), body.encode())
    say = partial(_comment, head=head)
    return say_now_or_later(hub, draft, say, dry_run=dry_run, waiting=waiting, first=first)


def _comment(run: Run, draft: Draft, commit: Commit, *, head: str = "") -> None:
    _say_in_thread(run, draft, commit, partial(say_comment, head=head))


SAYS = {"send": _send, "reply": _reply, "comment": _comment}
"""What carries out a draft, by its act."""


def find_done(snapshot: Snapshot, peers: list[Name], thread: str) -> tuple[Name, Event] | None:
    """The ``received`` event of a thread that is not pending any more."""
    called = read_call(thread)
    for peer in peers:
        received = [e for e in each_event(snapshot.history(peer)) if e.side == IN and e.kind == "received"]
        for event in reversed(received):
            if called.means(f"{peer}/{event.topic}", event.fields.get("thread", "")):
                return peer, event
    return None
