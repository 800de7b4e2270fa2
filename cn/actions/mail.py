"""``cn send``, ``cn reply`` and ``cn outbox``: messages that people start (``docs/protocol/messages.md``)."""

from __future__ import annotations

from collections.abc import Sequence

from cn.actions.decide import Overtaken, decide_now
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol import rules
from cn.protocol.effects import Plan, Post
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, Event, each_event
from cn.protocol.message import Message
from cn.protocol.ops import Reply
from cn.run.executor import Executor
from cn.run.find_thread import NoThread, read_call
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_plan, mask_line
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import Text, text_of
from cn.values.errors import Refused, UsageError
from cn.values.names import Name, reply_topic
from cn.values.report import Report
from cn.values.text import is_text, one_line, slug


def send(hub: Hub, to: str, message: str, *, body: str = "", dry_run: bool = False) -> Report:
    """Queue a message to a peer and deliver the outbox."""
    subject = _subject(message, body)
    with open_run(hub, dry_run=dry_run) as run:
        if to == run.settings.us:
            raise Refused(f"{to} is this hub", "name a peer; see 'cn peer list'")
        peer = run.settings.peer(to)
        text = body or message
        mail = Message(MESSAGE, run.settings.us, peer.name, subject, run.now, text)
        given = [text_of("the message's subject", message), text_of("the message", body)]
        given = given if body else [text_of("the message", message)]
        _queue(run, Post(mail, slug(subject)), f"message to {peer.name}: {subject}", given)
    return run.report


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


def _queue(run: Run, post: Post, what: str, given: Sequence[Text]) -> None:
    def plan(executor: Executor) -> str | None:
        sending = Plan(post.source or f"{post.message.to}/{post.topic}", (post,))
        if refusal := check_plan(sending, run.settings, given=given):
            raise Refused.by(refusal)
        executor.perform(sending)
        if not run.dry_run:
            executor.notes.info(f"queued: {what}")
        return f"cn: {one_line(what, 60)}"

    run.commit(plan)
    deliver(run)


def reply(hub: Hub, thread: str, message: str, *, body: str = "", dry_run: bool = False) -> Report:
    """Reply to a thread. A pending one is decided by it (``do:reply:re-<topic>``), like in triage."""
    _subject(message, body)
    text = f"{message}\n\n{body}" if body else message
    with open_run(hub, dry_run=dry_run) as run:
        snapshot = run.snapshot
        try:
            decide_now(run, thread, Reply, body=text)
        except NoThread as refused:
            if isinstance(refused, Overtaken):
                run.report.info(f"{refused.text}; its text goes as a message of its own", source=refused.row.source)
            _follow_up(run, snapshot, thread, text, refused)
            return run.report
        deliver(run)
    return run.report


def _follow_up(run: Run, snapshot: Snapshot, thread: str, text: str, refused: Refused) -> None:
    """A reply to a thread that is done: a message of its own, with ``in-reply-to``."""
    found = find_done(snapshot, list(run.settings.peers), thread)
    if found is None:
        raise refused
    peer, event = found
    theirs = mask_line(event.fields.get("subject", ""), run.settings)
    subject = f"Re: {theirs or f'{peer}/{event.topic}'}"
    mail = Message(MESSAGE, run.settings.us, peer, subject, run.now, text, event.head)
    post = Post(mail, reply_topic(event.topic), event.fields.get("thread", ""), f"{peer}/{event.topic}")
    _queue(run, post, f"reply to {peer}/{event.topic}", [text_of("the message", text)])


def find_done(snapshot: Snapshot, peers: list[Name], thread: str) -> tuple[Name, Event] | None:
    """The ``received`` event of a thread that is not pending any more."""
    called = read_call(thread)
    for peer in peers:
        received = [e for e in each_event(snapshot.history(peer)) if e.side == IN and e.kind == "received"]
        for event in reversed(received):
            if called.means(f"{peer}/{event.topic}", event.fields.get("thread", "")):
                return peer, event
    return None
