"""Which thread a word means: one answer for every command, to look as to decide."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from cn.protocol.ledger import OUT, Item
from cn.run.snapshot import Snapshot
from cn.values.errors import Refused
from cn.values.names import Branch, Name, NameRefused, parse_thread_name, reply_topic, topic_of
from cn.values.shell_words import command
from cn.values.text import one_line, some_of


class NoThread(Refused):
    """No pending thread has that name."""


class Called(NamedTuple):
    """What an inbox thread may be called: by ``word`` its exact ``peer/topic`` or its item's id, by ``file`` its file.

    A branch may be named as the path of any file, so no part of a word counts but the folders of the inbox.
    """

    word: str
    file: str

    def means(self, source: str, file: str, id: str = "") -> bool:
        """Is it this thread?"""
        return self.word == source or bool(file and self.file == file) or bool(id and self.word == id)

    def means_item(self, peer: Name, item: Item) -> bool:
        """Is it the thread of this open item?"""
        return self.means(f"{peer}/{item.topic}", item.get("thread"), item.get("input"))


def read_call(text: str) -> Called:
    """A word as both: a source or an id, and a file name with or without ``.md``, with or without its folder."""
    with suppress(NameRefused):
        return Called(text, parse_thread_name(text))
    return Called(text, "")


def list_called(snapshot: Snapshot, text: str) -> list[tuple[Name, Item]]:
    """The pending threads of that name, the one of exactly that source first. One that goes on as another branch of its
    peer is called by that too.
    """
    called = read_call(text)

    def is_meant(peer: Name, item: Item) -> bool:
        return called.means_item(peer, item) or text == f"{peer}/{topic_of(Branch(item.get('branch')))}"

    found = [(peer, item) for peer, item in snapshot.pending() if is_meant(peer, item)]
    return sorted(found, key=lambda one: text != f"{one[0]}/{one[1].topic}")


def look_for_pending(snapshot: Snapshot, text: str) -> tuple[Name, Item] | None:
    """The pending thread of that name; raises :class:`Refused` where it means two."""
    found = list_called(snapshot, text)
    if len(found) > 1:
        each = (f"{item.get('thread')} ({one_line(item.get('branch'), 80)} at {item.head[:8]})" for _, item in found)
        raise Refused(f"{one_line(text, 80)!r} means {len(found)} threads: {', '.join(each)}", "name it by its file")
    return found[0] if found else None


_NEAR = 3


def nearly_called(snapshot: Snapshot, text: str) -> str:
    """What is called nearly so: by a beginning of its name, or by its topic alone."""
    pending = snapshot.pending()
    names = {f"{p}/{i.topic}": (i.topic, i.get("thread"), f"{p}:{i.topic}", f"{p}:{p}/{i.topic}") for p, i in pending}
    found = [name for name, others in names.items() if text and any(one.startswith(text) for one in (name, *others))]
    more = " and others, 'cn inbox' lists them" if len(found) > _NEAR else ""
    return f"there is {', '.join(one_line(name, 120) for name in found[:_NEAR])}{more}" if found else ""


def _of_ours(snapshot: Snapshot, text: str) -> str:
    """What is meant where a word names something that we sent as ``peer:topic``; empty: nothing of ours."""
    peer, _, branch = text.partition(":")
    topics = [branch, branch.partition("/")[2]]
    found = [item for topic in topics if topic and (item := snapshot.item(Name(peer), OUT, topic)) is not None]
    if not found:
        return ""
    pending = [item for name, item in snapshot.pending() if name == peer]
    answers = [one.topic for one in pending if one.head == found[0].get("answer")]
    answers += [one.topic for one in pending if one.topic == reply_topic(found[0].topic)]
    show, send = command("cn thread show {}", f"{peer}:{found[0].topic}"), command("cn send {} MESSAGE", peer)
    here = f"its answer waits here as {peer}/{one_line(answers[0], 120)}" if answers else f"{send} says more"
    back = command("cn withdraw {}", f"{peer}:{found[0].topic}")
    text = f"that is what we sent: {show} shows it and where it was answered, {here}"
    return f"{text}; {back} takes it back"


def find_pending(snapshot: Snapshot, text: str) -> tuple[Name, Item]:
    """The same; raises :class:`NoThread` where there is none."""
    found = look_for_pending(snapshot, text)
    if found is None:
        remedy = nearly_called(snapshot, text) or _of_ours(snapshot, text) or "'cn inbox' lists them"
        if snapshot.damaged:  # it may be one of theirs
            remedy = f"what is pending from {some_of(list(snapshot.damaged))} cannot be told, see 'cn doctor'; {remedy}"
        raise NoThread(f"no pending thread {one_line(text, 80)!r}", remedy)
    return found
