"""What is looked at for secrets, and how a person lets one pass that was found (``docs/protocol/hub.md``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from cn.protocol.effects import Log, Plan, Post, Put
from cn.protocol.layout import NOTICE, OUTBOX, SENT
from cn.protocol.ledger import FOLDER as LEDGER
from cn.protocol.log import FOLDER as LOG
from cn.protocol.message import MessageRefused, parse_message
from cn.protocol.outbox_entry import Deliver
from cn.protocol.rules import NO_SECRETS
from cn.secrets.scanner import (
    MASK,
    PRIVATE_KEY,
    QUOTED,
    Finding,
    Text,
    end_of_key,
    key_starts,
    may_hold,
    own_lines,
    text_of,
    whole,
)
from cn.values.errors import Refusal
from cn.values.names import HubPath, topic_of

RECORDS = (f"{OUTBOX}/", f"{SENT}/", f"{LEDGER}/", f"{LOG}/")
"""What is made of what others sent, and of our messages, which are looked at before and at delivery."""


def texts_of(plan: Plan) -> list[Text]:
    """What a plan would send, and what of our own it would commit: never a peer's quoted text.

    The name of the branch it is about is no news to its creator, nor to main.
    """
    peer, _, topic = plan.cause.partition("/")
    about: list[Text] = []
    found: list[Text] = []
    for effect in plan.effects:
        match effect:
            case Post(message):
                said = [Text("the message's subject", (message.subject,), 0), text_of("the message", message.body)]
                if message.kind == NOTICE:
                    said = [Text("the reason", (message.about.reason if message.about else "",))]
                (about if message.to == peer else found).extend(said)
            case Put(path, text):
                about.append(own_lines(path, text))
            case Log(row):
                about.append(Text("the decision", (row.decision,)))
    return unnamed(about, topic) + found


def texts_of_change(path: HubPath, new: str, old: str | None) -> list[Text]:
    """What a commit changes in one file: the name of a new one, and the lines that main does not have yet.

    Not in the records of what others sent, and of what was looked at before it was queued.
    """
    if path.startswith(RECORDS):
        return []
    known = set((old or "").split("\n"))
    text = own_lines(path, new)
    kept = tuple("" if line in known else line for line in text.lines)
    lines = _withkey_starts(kept, text.lines, [old or ""])
    name = [] if old is not None or path.startswith(QUOTED) else [Text("the file's name", (path,), 0)]
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


def unnamed(texts: Sequence[Text], topic: str) -> list[Text]:
    """The texts without the name of a branch, if that may look like a secret."""
    if not topic or not may_hold(Text("", (topic,))):
        return list(texts)
    return [one._replace(lines=tuple(line.replace(topic, MASK) for line in one.lines)) for one in texts]


def quoted_here(path: str, text: str, *mains: str) -> Text:
    """The lines behind ``>`` that main does not have, nor had: somebody wrote them here, and no peer."""
    theirs = path.startswith(QUOTED)
    known = {line.rstrip() for main in mains for line in main.split("\n")} if theirs else set()
    lines = text.split("\n") if known else []
    quoted = ["" if not line.startswith(">") else line for line in lines]
    kept = ["" if line.rstrip() in known else line for line in quoted]
    return Text(path, _withkey_starts(kept, quoted, mains))


def _withkey_starts(kept: Sequence[str], lines: Sequence[str], olds: Iterable[str]) -> tuple[str, ...]:
    """What is kept of the lines, and each private key that is new: others may have its first line."""
    starts = key_starts(lines)
    if not starts:
        return tuple(kept)
    before = [old.split("\n") for old in olds]
    known = {whole(PRIVATE_KEY, "", old, *place) for old in before for place in key_starts(old)}
    new = list(kept)
    for at, start in starts:
        if whole(PRIVATE_KEY, "", lines, at, start) not in known:
            end = end_of_key(lines, at, start)
            last = end[0] if end else at + 1
            new[at : last + 1] = lines[at : last + 1]
    return tuple(new)


def refuse(findings: Sequence[Finding], allowed: Collection[str]) -> Refusal | None:
    """The refusal that names what was found; None if all of it is allowed."""
    left = [one for one in findings if one.fingerprint not in allowed]
    if not left:
        return None
    places = list(dict.fromkeys(map(describe, left)))
    shown = "; ".join(places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    if not all(one.fingerprint for one in left):
        return Refusal(NO_SECRETS, f"{shown}{more}", "take them out; what are none stands in several smaller texts")
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
