"""Secrets found in a text: where they stand, and how a person lets one pass (``docs/protocol/hub.md``).

The secret itself is in no finding: a fingerprint names it, the same one wherever it stands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from cn.protocol.effects import Log, Plan, Post, Put
from cn.protocol.layout import DONE, INBOX, OUTBOX, SENT
from cn.protocol.ledger import FOLDER as LEDGER
from cn.protocol.log import FOLDER as LOG
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.message_kinds import NOTICE
from cn.protocol.outbox_entry import Deliver
from cn.protocol.queue_item import INPUT, LOGS, QUEUE, TURN
from cn.protocol.rules import NO_SECRETS
from cn.values.errors import Refusal
from cn.values.names import HubPath, topic_of

_MAYBE = re.compile(
    r"PRIVATE KEY|Private-Lines:|PuTTY-User-Key-File|\b(?:xox[a-z]|glpat|sk|npm|pypi|hf)\\?[-_]|(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}|\d:[\w-]{35}|://[^/\s:@]{1,200}:[^/\s@]{1,200}@"
)
_LONG = r"[A-Za-z0-9_+/=~]"
_MIXED = re.compile(rf"(?<!{_LONG})(?={_LONG}{{16}})(?={_LONG}*[0-9]){_LONG}*[A-Za-z]")
_PLAIN = re.compile(r"\b(?:[0-9a-f]{40}(?:[0-9a-f]{24})?|SHA256:[A-Za-z0-9+/=]+)\b")
_BLOCK = re.compile(r"(?:-----)?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File")
_BEGIN = re.compile(rf"{_BLOCK.pattern}|Private-Lines:")
"""The first line of a private key, and of the second part of PuTTY's."""
_END = re.compile(r"END (?:(?!BEGIN)[A-Z0-9 ]){0,40}PRIVATE KEY(?: BLOCK)?(?:-----)?|Private-MAC: *\w*")
"""Its last line; where another one begins in that, it is none."""
_HEAD_ONLY = re.compile(rf"(?:{_BEGIN.pattern})(?: BLOCK)?[-\s\d]*")
_LONGEST_USER = 200
_NOT_USER, _NOT_HOST = re.compile(r"[\s/:@]"), re.compile(r"[^\w.-]")
_ESCAPE = re.compile(r"\\([_.:/@+=~-])")
"""A character as Markdown may write it."""
_BREAK = re.compile(r"\\[nr]|[\s\\]")
_NO_PASSWORD = re.compile(r"[A-Z]+(?:[_-][A-Z]+)*|[xX*.…_-]+|<[^>]*>")
_FILLED = re.compile(r"[A-Za-z0-9_-]{0,14}?([xX*])\1{7,}[A-Za-z0-9_-]{0,4}")
_WORDS = re.compile(r"sk-(?:ant|proj|svcacct|admin)-(?:[a-z]+[0-9]{2}-)?(?:[a-z]{1,15}[-_])+[a-z]{1,15}")
_LONG_KEY = re.compile(r"sk-(?:ant|proj|svcacct|admin)-")
_CUT_OFF = 60
_LONGEST_KEY = 1_000
PRIVATE_KEY = "Private Key"
LOGIN = "Basic Auth Credentials"
"""Kinds whose detectors tell less than what counts: where a key begins, the password of a URL."""
MASK = "(not shown, as it looks like a secret)"
"""Stands for a line that holds a secret. It has no colon, so that YAML takes it as a value."""
QUOTED = (f"{INBOX}/", f"{DONE}/", f"{QUEUE}/", f"{LOGS['input']}/", TURN, INPUT)
"""Where lines that start with ``>`` are a peer's, as they came."""
_PLACES = ("path: ", "topic: ", "thread: ")
RECORDS = (f"{OUTBOX}/", f"{SENT}/", f"{LEDGER}/", f"{LOG}/")
"""What is made of what others sent, and of our messages, which are looked at before and at delivery."""


class Text(NamedTuple):
    """One text that is about to leave or to be committed. ``where`` is its file, or what it is."""

    where: str
    lines: tuple[str, ...]
    first: int = 1


def text_of(where: str, text: str) -> Text:
    """A text of any lines."""
    return Text(where, tuple(text.split("\n")))


def text_of_word(where: str, word: str) -> Text:
    """A word of a command: of one line, without a number, or of several."""
    lines = tuple(word.split("\n"))
    return Text(where, lines, 1 if len(lines) > 1 else 0)


def joined(texts: Sequence[Text]) -> Text:
    """Several as one."""
    return Text("", tuple(line for text in texts for line in text.lines))


class Finding(NamedTuple):
    """Something in line ``line`` of ``where`` (0: it has no lines) that looks like a secret of this kind."""

    where: str
    line: int
    kind: str
    fingerprint: str


def may_hold(text: Text) -> bool:
    """Is it worth to load the detector? Ids of git and times are no secrets."""
    # All lines at once, which none of the patterns goes beyond: a run asks this of thousands of texts.
    whole = "\n".join(text.lines)
    return _MAYBE.search(whole) is not None or _mixed(whole)


def _mixed(text: str) -> bool:
    """Is there a long word of letters and digits? In one pass, however long a line is."""
    return _MIXED.search(text) is not None and _MIXED.search(_PLAIN.sub("", text)) is not None


def plain(text: str) -> str:
    """A text without the escapes of Markdown."""
    return _ESCAPE.sub(r"\1", text)


def fingerprint(secret: str) -> str:
    """16 hex digits that stand for a secret, whatever kinds it is of and wherever it stands."""
    return hashlib.sha256(plain(secret).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def whole(kind: str, found: str, lines: Sequence[str], at: int, start: int = 0) -> str:
    """All of the secret of which a detector found this in line ``at``, from its character ``start`` on.

    A private key to its end, however it is broken into lines; a password with its user and host, because
    a word alone is soon guessed from its fingerprint.
    """
    if kind == LOGIN:
        colon = lines[at].find(f":{found}@")
        if colon < 0:
            return found
        before, after = lines[at][max(0, colon - _LONGEST_USER) : colon], lines[at][colon + len(found) + 2 :]
        return f"{_NOT_USER.split(before)[-1]}:{found}@{_NOT_HOST.split(after, maxsplit=1)[0]}"
    if kind != PRIVATE_KEY:
        return found
    end = end_of_key(lines, at, start)
    if end is None:
        another = _BLOCK.search(lines[at], _behind_begin(lines[at], start))
        text = lines[at][start : another.start() if another else None]
        if not another and _HEAD_ONLY.fullmatch(text) and at + 1 < len(lines):
            text += lines[at + 1]
    else:
        last, column = end
        text = "".join([*lines[at:last], lines[last][:column]])[start:]
    return _BREAK.sub("", text)


def key_starts(line: str) -> list[int]:
    """From which characters of a line on there may be private keys."""
    return [begin.start() for begin in _BEGIN.finditer(line)]


def end_of_key(lines: Sequence[str], at: int, start: int) -> tuple[int, int] | None:
    """Behind which line and character the private key ends that begins there; None: nowhere near.

    Where another one begins first it has no end.
    """
    pos = _behind_begin(lines[at], start)
    for index in range(at, min(len(lines), at + _LONGEST_KEY)):
        line = lines[index]
        another = _BLOCK.search(line, pos) if "BEGIN" in line or "PuTTY" in line else None
        # No further than there: a line may hold thousands of them.
        stop = another.start() if another else len(line)
        if line.find("END", pos, stop) >= 0 or line.find("MAC", pos, stop) >= 0:
            end = _END.search(line, pos, stop)
            if end:
                return index, end.end()
        if another:
            return None
        pos = 0
    return None


def _behind_begin(line: str, start: int) -> int:
    begin = _BEGIN.match(line, start)
    return begin.end() if begin else start


def is_placeholder(kind: str, found: str, after: str = "") -> bool:
    """Does it only show where a secret would stand? ``after`` is what follows it in its line."""
    if kind == LOGIN:
        return _NO_PASSWORD.fullmatch(found) is not None
    if _FILLED.fullmatch(found) or _WORDS.fullmatch(found):
        return True
    # The whole of a key with such a beginning is far longer: what is shown opens nothing.
    cut = _LONG_KEY.match(found) is not None and len(found) < _CUT_OFF
    return cut and after.startswith(("…", "..."))


def texts_of(plan: Plan) -> list[Text]:
    """What a plan would send, and what of our own it would commit: never a peer's quoted text.

    The name of the branch it is about is no news to its creator, nor to main.
    """
    peer, _, topic = plan.cause.partition("/")
    found = []
    for effect in plan.effects:
        match effect:
            case Post(message) if message.kind == NOTICE:
                hidden = topic if message.to == peer else ""
                reason = message.about.reason if message.about else ""
                found.append(unnamed(Text("the reason", (reason,)), hidden))
            case Post(message):
                hidden = topic if message.to == peer else ""
                found.append(unnamed(Text("the message's subject", (message.subject,), 0), hidden))
                found.append(unnamed(Text("the message", tuple(message.body.split("\n"))), hidden))
            case Put(path, text):
                found.append(unnamed(own_lines(path, text), topic))
            case Log(row):
                found.append(unnamed(Text("the decision", (row.decision,)), topic))
    return found


def texts_of_change(path: HubPath, new: str, old: str | None) -> list[Text]:
    """What a commit changes in one file: the name of a new one, and the lines that main does not have yet.

    Not in the records of what others sent, and of what was looked at before it was queued.
    """
    if path.startswith(RECORDS):
        return []
    known = set((old or "").split("\n"))
    text = own_lines(path, new)
    kept = tuple("" if line in known else line for line in text.lines)
    lines = _with_keys(kept, text.lines, [old or ""])
    name = [] if old is not None or path.startswith(QUOTED) else [name_of(path)]
    return [*name, Text(path, lines)]


def texts_of_entry(path: HubPath, data: bytes, entry: Deliver) -> list[Text]:
    """All of a message that its peer would get: the name of its branch, the commit, the message.

    ``data`` is the file at ``path``. Words stand as they were looked at when they were queued, without what
    a frontmatter puts around them.
    """
    head = data.removesuffix(entry.content).decode("utf-8", "replace").split("\n")
    at = {line.partition(":")[0]: number for number, line in enumerate(head, 1)}
    try:
        message = parse_message(entry.content)
    except MessageRefused:
        words = {}
    else:
        reason = message.about.reason if message.about else ""
        words = {"subject:": message.subject, "  reason:": reason, "Reason:": reason}
    lines = []
    for line in entry.content.decode("utf-8", "replace").split("\n"):
        key, colon, rest = line.partition(":")
        lines.append(words.get(key + colon, line) if rest else line)
    commit = " ".join(entry.commit.decode("utf-8", "replace").partition("\n\n")[0].split("\n"))
    subject = entry.commit.decode("utf-8", "replace").partition("\n\n")[2].strip("\n").split("\n")
    return [
        Text(path, (topic_of(entry.branch),), at.get("branch", 1)),
        *(Text(path, (line,), at.get("commit", 1)) for line in (commit, *subject)),
        Text(path, tuple(lines), len(head)),
    ]


def name_of(path: str) -> Text:
    """The name of a file, as a text in which a secret may stand."""
    return Text("the file's name", (path,), 0)


def unnamed(text: Text, topic: str) -> Text:
    """The text without the name of a branch, if that may look like a secret."""
    if not topic or not may_hold(Text("", (topic,))):
        return text
    return Text(text.where, tuple(line.replace(topic, MASK) for line in text.lines), text.first)


def own_lines(path: str, text: str) -> Text:
    """A document without what is a peer's: the lines that cn quoted, and what a head says of its branch.

    Line numbers stay.
    """
    lines = text.split("\n")
    theirs = path.startswith(QUOTED)
    kept = ["" if theirs and line.startswith(">") else line for line in lines]
    if path.startswith(f"{INBOX}/") and "---" in lines:
        end = lines.index("---")
        kept[:end] = [""] * end
    elif theirs:  # what an agent is asked; a turn has the head of its input below its own
        at = 0
        while lines[at : at + 1] == ["---"] and "---" in lines[at + 1 :]:
            end = lines.index("---", at + 1)
            kept[at:end] = ["" if line.startswith(_PLACES) else line for line in lines[at:end]]
            at = end + 1
    return Text(path, tuple(kept))


def quoted_here(path: str, text: str, *mains: str) -> Text:
    """The lines behind ``>`` that main does not have, nor had: somebody wrote them here, and no peer."""
    theirs = path.startswith(QUOTED)
    known = {line.rstrip() for main in mains for line in main.split("\n")} if theirs else set()
    lines = text.split("\n") if known else []
    quoted = ["" if not line.startswith(">") else line for line in lines]
    kept = ["" if line.rstrip() in known else line for line in quoted]
    return Text(path, _with_keys(kept, quoted, mains))


def _with_keys(kept: Sequence[str], lines: Sequence[str], olds: Iterable[str]) -> tuple[str, ...]:
    """What is kept of the lines, and each private key that is new: others may have its first line."""
    starts = _keys(lines)
    if not starts:
        return tuple(kept)
    before = [old.split("\n") for old in olds]
    known = {whole(PRIVATE_KEY, "", old, *place) for old in before for place in _keys(old)}
    new = list(kept)
    for at, start in starts:
        if whole(PRIVATE_KEY, "", lines, at, start) not in known:
            end = end_of_key(lines, at, start)
            last = end[0] if end else at + 1
            new[at : last + 1] = lines[at : last + 1]
    return tuple(new)


def _keys(lines: Sequence[str]) -> list[tuple[int, int]]:
    return [(at, start) for at, line in enumerate(lines) if line for start in key_starts(line)]


def key_goes_on(line: str) -> bool:
    """Does the private key of which this is a line go on behind it, or another one that begins here?"""
    begins = list(_BEGIN.finditer(line))
    return _END.search(line, begins[-1].end() if begins else 0) is None


def refuse(findings: Sequence[Finding], allowed: Collection[str]) -> Refusal | None:
    """The refusal that names what was found; None if there is nothing, or all of it is allowed."""
    left = [one for one in findings if one.fingerprint not in allowed]
    if not left:
        return None
    places = list(dict.fromkeys(map(describe, left)))
    shown = "; ".join(places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    known = dict.fromkeys(one.fingerprint for one in left if describe(one) in places[:5])
    marks = ", ".join(f'"{mark}"' for mark in dict.fromkeys([*allowed, *known]))
    return Refusal(
        NO_SECRETS,
        f"{shown}{more}",
        "take it out, and revoke it if it is real; if it is none, let it pass: "
        f"'secrets: {{allow: [{marks}]}}' as the only 'secrets:' in .cn/hub.yaml",
    )


def describe(one: Finding) -> str:
    """``notes.md, line 3: looks like a Private Key``."""
    line = f", line {one.line}" if one.line else ""
    return f"{one.where}{line}: looks like a secret ({one.kind})"
