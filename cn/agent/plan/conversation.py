"""``state/conversation.json``: what was said lately, per chat or peer (``docs/protocol/runtime.md``).

A JSON list, oldest first, one entry a line. Once a day (UTC) the entries of earlier days move
to ``state/conversation/YYYY/YYYYMMDD.json``, but for the last of each chat: a talk goes on
after midnight. Texts are data: nothing in them decides anything, and as messages of a request they end
neither their quotation nor their role.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, pairwise

from cn.agent.plan.output import format_output
from cn.llm.request import Said
from cn.protocol.ops import Reply
from cn.protocol.queue_item import is_input_id
from cn.values.names import HubPath
from cn.values.text import decode, one_line, quote, unquote, visible
from cn.values.timestamps import StampRefused, format_day, format_second, parse_stamp

PATH = HubPath("state/conversation.json")
FOLDER = HubPath("state/conversation")
USER, ASSISTANT = "user", "assistant"
TEXT_BYTES = 16 * 1024
"""UTF-8 bytes of one text that are kept; the whole is in ``logs/``."""
MOST_ENTRIES = 500
MOST_BYTES = 512 * 1024
"""What the live file holds; more moves out before its day is over."""
CARRIED = 20
"""Entries of one chat that stay when a day is over, if they are not older than :data:`CARRIED_DAYS`."""
CARRIED_DAYS = 7
_READ_BYTES = 8 * 1024 * 1024
_CHAT = "telegram:"
CUT = "… (cut: the whole is in logs/)"


@dataclass(frozen=True)
class Entry:
    """One thing said. ``sender`` is the other side, as an item's ``from``: ``telegram:<chat>`` or a peer.

    ``role`` is who spoke: ``user`` (the other side) or ``assistant``. ``input`` is the id of
    the item it belongs to: a step that is repeated after a crash adds nothing twice.
    """

    at: datetime
    sender: str
    role: str
    text: str
    input: str = ""


@dataclass(frozen=True)
class Conversation:
    """The entries, oldest first, and what could not be read, one line each."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()

    def last(self, sender: str, count: int, *, but: str = "") -> tuple[Entry, ...]:
        """The last ``count`` entries with one side, without those of the item ``but``.

        What was asked stands beside its answer, also where more was asked meanwhile.
        """
        found = [e for e in self.entries if e.sender == sender and not (but and e.input == but)]
        ends = {e.input: place for place, e in enumerate(found) if e.input}
        found = [e for _, e in sorted(enumerate(found), key=lambda p: (ends.get(p[1].input, p[0]), p[0]))]
        return tuple(found[-count:] if count > 0 else ())

    def until(self, id: str) -> Conversation:
        """What was said of the items queued before ``id``: ids sort by time."""
        return replace(self, entries=tuple(e for e in self.entries if e.input < id))


def new_entry(at: datetime, sender: str, role: str, text: str, input: str = "") -> Entry:
    """An entry within bounds; ``at`` in whole seconds."""
    assert role in (USER, ASSISTANT), role
    text = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").strip("\n")
    return Entry(at.replace(microsecond=0), sender, role, _short(text), input)


def _short(text: str) -> str:
    data = text.encode()
    if len(data) <= TEXT_BYTES:
        return text
    return f"{data[: TEXT_BYTES - len(CUT.encode()) - 1].decode('utf-8', 'ignore')}\n{CUT}"


def append(conversation: Conversation, *entries: Entry) -> Conversation:
    """The conversation with further entries, in order of time; what it holds already is left out."""
    known = {_key(e) for e in conversation.entries}
    fresh: list[Entry] = []
    for entry in entries:
        if _key(entry) not in known:
            known.add(_key(entry))
            fresh.append(entry)
    # Stable: what was said in one second stays in the order it was added in.
    merged = sorted((*conversation.entries, *fresh), key=lambda e: e.at)
    return replace(conversation, entries=tuple(merged))


def _key(entry: Entry) -> tuple[object, ...]:
    if entry.input:
        return entry.sender, entry.role, entry.input
    return entry.sender, entry.role, entry.at, entry.text


def rotate(conversation: Conversation, now: datetime) -> tuple[Conversation, dict[HubPath, tuple[Entry, ...]]]:
    """What stays, and what goes to the file of its day (:func:`append` it there)."""
    today, seen = format_day(now), Counter[str]()
    stays: list[Entry] = []
    goes: list[Entry] = []
    size, full = 0, False
    for entry in reversed(conversation.entries):
        seen[entry.sender] += 1
        carried = seen[entry.sender] <= CARRIED and (now - entry.at).days < CARRIED_DAYS
        wanted = format_day(entry.at) >= today or carried
        size += len(_line(entry).encode()) + 2 if wanted else 0
        full = full or size > MOST_BYTES or len(stays) >= MOST_ENTRIES
        (stays if wanted and not full else goes).append(entry)
    moved: dict[HubPath, tuple[Entry, ...]] = {}
    for entry in reversed(goes):
        path = day_path(entry.at)
        moved[path] = (*moved.get(path, ()), entry)
    return replace(conversation, entries=tuple(reversed(stays))), moved


def day_path(at: datetime) -> HubPath:
    """The file of a day that is over."""
    day = format_day(at)
    return HubPath(f"{FOLDER}/{day[:4]}/{day}.json")


# The file.


def _line(entry: Entry) -> str:
    side = "chat" if entry.sender.startswith(_CHAT) else "peer"
    fields = {"at": format_second(entry.at), side: entry.sender, "role": entry.role, "text": entry.text}
    return json.dumps(fields | ({"input": entry.input} if entry.input else {}), ensure_ascii=False)


def format_conversation(conversation: Conversation) -> bytes:
    """The file; :func:`parse_conversation` reads it back."""
    lines = ",\n".join(f" {_line(e)}" for e in conversation.entries)
    return (f"[\n{lines}\n]\n" if lines else "[]\n").encode("utf-8", "replace")


def parse_conversation(data: bytes) -> Conversation:
    """Read the file. Never raises: what is damaged is left out, and said in ``problems``."""
    if len(data) > _READ_BYTES:
        return Conversation((), (f"{PATH} has {len(data)} bytes, at most {_READ_BYTES} are read",))
    try:
        found = json.loads(decode(data.removeprefix(b"\xef\xbb\xbf")) or "[]")
    except (ValueError, RecursionError):
        return Conversation((), (f"{PATH} is no JSON: it counts as empty",))
    if not isinstance(found, list):
        return Conversation((), (f"{PATH} is no list: it counts as empty",))
    entries = [_entry(item) for item in found]
    bad = entries.count(None)
    problems = (f"{PATH}: {bad} of {len(entries)} entries cannot be read and are left out",) if bad else ()
    good = [e for e in entries if e is not None]
    if any(a.at > b.at for a, b in pairwise(good)):
        good.sort(key=lambda e: e.at)
    return Conversation(tuple(good), problems)


def _entry(item: object) -> Entry | None:
    if not isinstance(item, dict):
        return None
    words = [item.get("at"), item.get("chat") or item.get("peer"), item.get("role"), item.get("text")]
    words.append(item.get("input", ""))
    if not all(isinstance(word, str) for word in words) or words[2] not in (USER, ASSISTANT):
        return None
    at, sender, role, text, input = (str(word).encode("utf-8", "replace").decode() for word in words)
    try:
        when = parse_stamp(at)
    except StampRefused:
        return None
    return new_entry(when, one_line(sender, 200), role, text, one_line(input, 100)) if sender else None


SAID_BYTES = 8 * 1024
"""Bytes of one text of the conversation."""


def message_content(text: str) -> str:
    """The content of an item that is a message and no thread: ``## Message``, quoted."""
    return f"## Message\n\n{quote(text)}"


def said_in(content: str) -> str:
    """The text in :func:`message_content`, but for what quoting made visible."""
    return "\n".join(unquote(line) for line in content.split("\n") if line.startswith(">"))


def format_messages(entries: Sequence[Entry]) -> list[Said]:
    """Earlier messages, alternating, the first the user's and the last the assistant's."""
    found = [
        Said(role, "\n\n".join(_said(entry) for entry in group))
        for role, group in groupby(entries, key=lambda e: e.role)
    ]
    if found and found[0].role == ASSISTANT:  # a request starts with the user's words
        del found[0]
    if found and found[-1].role == USER:
        found.append(Said(ASSISTANT, "(no answer was sent)"))
    return found


def _said(entry: Entry) -> str:
    """An entry in the form in which items come and answers go: a model goes on as it sees itself begin."""
    text, left = cut(entry.text, SAID_BYTES)
    known = is_input_id(entry.input)
    if entry.role == ASSISTANT:
        text = visible(text).strip() + cut_note(left)
        return format_output(entry.input, (Reply(entry.input),), text).rstrip("\n") if known else text or "(nothing)"
    fields = {"id": entry.input if known else "", "from": one_line(entry.sender), "queued": format_second(entry.at)}
    lines = [f"{key}: {value}" for key, value in fields.items() if value]
    return "\n".join(["---", *lines, "---", "", message_content(text) + cut_note(left)])


def cut(text: str, limit: int) -> tuple[str, int]:
    """The text within ``limit`` bytes, whole lines where there are any; and the bytes left out."""
    data = text.encode()
    if len(data) <= limit:
        return text, 0
    kept = data[:limit].decode("utf-8", "ignore")
    kept = kept.rpartition("\n")[0] or kept
    return kept, len(data) - len(kept.encode())


def cut_with_note(text: str, limit: int) -> tuple[str, int]:
    """The text within ``limit`` bytes and what stands below it then; and the bytes left out."""
    kept, left = cut(text, limit)
    return kept + cut_note(left), left


def cut_note(left: int) -> str:
    """What stands below a text that was cut."""
    return f"\n\n({left} bytes more are left out)" if left else ""
