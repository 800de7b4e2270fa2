"""One thread: the conversation, the difference, the chain as a time line, and the form that decides."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from cn.threads.store import OwnDocument
from cn.views.conversation import Conversation, read_conversation
from cn.views.sent import SentDocument
from cn.views.thread_page import Document
from cn.views.threads import DONE
from cn.views.words import after_end, standing_text
from cn.web.page import Page, Part

VERBS = {
    "do:merge": "Merge it",
    "do:reply": "Reply, which ends the thread",
    "defer": "Put it off",
    "delegate": "Hand it to",
    "do:custom": "Open a concern about it",
    "delete": "Discard it",
}
"""What the form offers, and how it says so."""
_BARE = "do:merge"


class Given(NamedTuple):
    """What somebody filled in: a verb of :data:`VERBS`, its word, the text of a reply, and a time."""

    verb: str = ""
    word: str = ""
    body: str = ""
    until: str = ""
    problem: str = ""
    remedy: str = ""


def thread_page(document: Document, actors: tuple[str, ...], given: Given, *, may_decide: bool, approval: bool) -> Page:
    """A peer's thread. ``actors`` are whom it can be handed to, ``approval``: a merge needs a word of its own."""
    thread = document.thread
    page = talk_page(document, read_conversation(document.text, thread.kind) if document.text else None)
    asked = {
        "done": thread.state == DONE,
        "thread": thread,
        "verbs": {verb: told for verb, told in VERBS.items() if thread.offered.has(verb)},
        "actors": [name for name in actors if name != thread.peer],
        "given": given,
        "seen": digest(document.data),
        "approval": approval,
        "may_decide": may_decide,
        "stays": thread.offered.stays,
        "end": after_end(thread),
        "standing": standing_text(thread),
    }
    decide = Part("decide", "thread-decide", asked)
    return page._replace(parts=(*page.parts, decide), status=409 if given.problem else 200)


def talk_page(document: Document, talk: Conversation | None) -> Page:
    """The same to look at: what it is, what was said, what became of it."""
    thread = document.thread
    parts = (
        Part("facts", "thread-facts", {"thread": thread, "path": document.path}),
        Part("talk", "thread-talk", {"talk": talk, "thread": thread, "path": document.path}),
        Part("chain", "thread-chain", {"thread": thread, "links": thread.chain}, wide=False),
    )
    return Page(thread.subject or thread.source, "threads", parts)


def digest(data: bytes) -> str:
    """What the form remembers of the file that was shown."""
    return sha256(data).hexdigest()


def own_page(document: OwnDocument) -> Page:
    """A thread of our own."""
    own = document.own
    parts = (
        Part("facts", "own-facts", {"own": own, "committed": document.committed}),
        Part("talk", "plain-text", {"text": document.text}),
    )
    return Page(own.title or own.source, "threads", parts)


def sent_page(document: SentDocument) -> Page:
    """Something that we sent."""
    sent = document.sent
    text = document.text.partition("\n---\n")[2].strip("\n")
    parts = (
        Part("facts", "sent-facts", {"sent": sent, "path": document.path}),
        Part("talk", "plain-text", {"text": text}),
        Part("chain", "sent-chain", {"links": sent.chain}, wide=False),
    )
    return Page(sent.subject or sent.branch, "threads", parts)


def decision_of(given: Given) -> str:
    """The decision that a form means, in the words of ``docs/protocol/thread.md``."""
    return given.verb if given.verb == _BARE else f"{given.verb}:{given.word.strip()}"
