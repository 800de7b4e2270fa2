"""Keep secrets out of main and of everything that leaves (``docs/protocol/hub.md``, "Secrets").

What is asked for is refused. What cn keeps by itself (the archive, what the agent is given, what stood
in a thread whose branch moved) is masked, and the whole of it stays on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

from cn.protocol.effects import Plan
from cn.protocol.outbox_entry import Deliver
from cn.protocol.queue_item import INPUT, LOGS, QUEUE, TURN
from cn.protocol.rules import NO_SECRETS
from cn.run.settings import Settings
from cn.secrets.findings import quoted_here, refuse, texts_of, texts_of_change, texts_of_entry, unnamed
from cn.secrets.scanner import MASK, Finding, Text, beginnings, find_secrets, mask_secrets, own_lines
from cn.values.errors import Refusal
from cn.values.names import HubPath

_NOTHING = Text("", ())


def check_plan(
    plan: Plan, settings: Settings, sources: Sequence[Text] = (), given: Sequence[Text] = ()
) -> Refusal | None:
    """Refuse a plan that would send or commit a secret of ours.

    ``sources`` are what the plan was made of, where a person can take the secret out. What was ``given``
    is searched too: the plan may hold a piece of it.
    """
    return check_texts([*given, *texts_of(plan)], settings, [*given, *sources])


def check_texts(texts: Sequence[Text], settings: Settings, sources: Sequence[Text] = ()) -> Refusal | None:
    """The same for texts."""
    found = find_secrets(texts, sources)
    return refuse(found, settings.config.allowed_secrets) if found else None


def check_words(texts: Sequence[Text], settings: Settings, topic: Callable[[], str]) -> Refusal | None:
    """The same for the words of a command about a branch, whose name is no news to who made it."""
    refusal = check_texts(texts, settings)
    if refusal is None or not (hidden := topic()):
        return refusal
    return check_texts(unnamed(texts, hidden), settings)


def check_change(path: HubPath, data: bytes, old: bytes | None, settings: Settings) -> Refusal | None:
    """Refuse what a file that cn is about to commit adds to main."""
    before = None if old is None else _plain(old)
    return check_texts(texts_of_change(path, _plain(data), before), settings)


def _plain(data: bytes) -> str:
    """Also what is written in UTF-16."""
    return data.decode("utf-8", "surrogateescape").replace("\0", "")


def check_entry(
    path: HubPath, data: bytes, entry: Deliver, topics: Callable[[], Collection[str]], settings: Settings
) -> Refusal | None:
    """Refuse a message of the outbox that would bring a secret to a peer, whoever put it there.

    ``topics`` are those of the branches that the peer made: their names are no news to it.
    """
    texts = texts_of_entry(path, data, entry)
    if check_texts(texts, settings) is None:
        return None
    about = {name.partition("/")[2] for name in (entry.about, entry.source)}
    for topic in about.intersection(topics()):
        texts = unnamed(unnamed(texts, topic), topic.lower())
    return check_texts(texts, settings)


def without_secrets(text: str, settings: Settings, whole: Text = _NOTHING) -> str:
    """One line as it may be logged and shown: up to its first colon, where it holds a secret.

    It may be cut from ``whole``: the beginning of a secret of that, which has no form any more, counts too.
    """
    parts = beginnings(whole, settings.config.allowed_secrets)

    def is_clean(part: str) -> bool:
        return check_texts([Text("", (part,))], settings) is None and not any(p in part for p in parts)

    if is_clean(text):
        return text
    word, colon, _ = text.partition(":")
    return f"{word}: {MASK}" if colon and is_clean(word) else MASK


def clean_refusal(refusal: Refusal, settings: Settings, whole: Text) -> Refusal:
    """A refusal as it may be told: it may quote what it refuses, or a piece of it."""
    if refusal.rule == NO_SECRETS:  # which names the place, and not what stands there
        return refusal
    reason, remedy = (without_secrets(text, settings, whole) for text in (refusal.reason, refusal.remedy))
    return refusal._replace(reason=reason, remedy=remedy)


def mask_text(text: str, settings: Settings) -> tuple[str, list[Finding]]:
    """A text of any lines with what looks like a secret masked, and what that was."""
    lines, found = mask_secrets(Text("", tuple(text.split("\n"))), settings.config.allowed_secrets)
    return ("\n".join(lines) if found else text), found


def mask_line(text: str, settings: Settings) -> str:
    """The same for one line."""
    return mask_text(text, settings)[0]


def mask_path(path: str, settings: Settings) -> str:
    """A path with each of its names masked for itself."""
    return "/".join(mask_line(part, settings) for part in path.split("/"))


def mask_file(path: HubPath, data: bytes, settings: Settings, mains: Sequence[str] = ()) -> tuple[bytes, list[Finding]]:
    """A file of cn's folders as it may be committed, and what is masked in it.

    An answer counts whole, also what it quotes; with ``mains`` also what none of these quotes.
    """
    if path == TURN or path.startswith(
        f"{QUEUE}/"
    ):  # a record: masked it says nothing any more, and its names are in the ledger too
        head, end, body = data.partition(b"\n---\n")
        masked_body, found = mask_file(INPUT, body, settings)
        lines_before = (head + end).count(b"\n")
        return head + end + masked_body, [one._replace(line=one.line + lines_before) for one in found]
    text = data.decode("utf-8", "surrogateescape")
    lines = tuple(text.split("\n"))
    if path.endswith(".json"):
        return _mask_json(path, data, lines, settings.config.allowed_secrets)
    own = Text(path, lines) if path.startswith(f"{LOGS['output']}/") else own_lines(path, text)
    if mains:
        here = quoted_here(path, text, *mains).lines
        own = Text(path, tuple(quoted or line for quoted, line in zip(here, own.lines, strict=True)))
    masked, found = mask_secrets(own, settings.config.allowed_secrets)
    if not found and b"\0" in data:  # UTF-16, of which nothing is readable but to who expects it
        plain = Text(path, tuple(text.replace("\0", "").split("\n")))
        if found := mask_secrets(plain, settings.config.allowed_secrets)[1]:
            return MASK.encode(), found
    if not found:
        return data, []
    kept = (new if new != old else line for new, old, line in zip(masked, own.lines, lines, strict=True))
    return "\n".join(kept).encode("utf-8", "surrogateescape"), found


def _mask_json(
    path: HubPath, data: bytes, lines: Sequence[str], allowed: Collection[str]
) -> tuple[bytes, list[Finding]]:
    """The same for JSON with an object a line: each of its texts is masked for itself, so it stays JSON.

    A line is not looked at as it is written: the escape of a line's end would join what are two words.
    """
    masked: list[str] = []
    found: list[Finding] = []
    for number, line in enumerate(lines, 1):
        item = _texts_in(line)
        texts = (line,) if item is None else tuple(text for pair in item.items() for text in pair)
        told: list[Finding] = []
        left: list[str] = []
        for text in texts:
            new, some = mask_secrets(Text(path, tuple(text.split("\n"))), allowed)
            left.append("\n".join(new) if some else text)
            told += [one._replace(line=number) for one in some]
        if told and item is not None:
            before, after = line[: line.index("{")], line[line.rindex("}") + 1 :]
            whole = json.dumps(dict(zip(left[::2], left[1::2], strict=True)), ensure_ascii=False)
            left = [f"{before}{whole}{after}"]
        masked.append(left[0] if told else line)
        found += told
    return ("\n".join(masked).encode("utf-8", "replace") if found else data), list(dict.fromkeys(found))


def _texts_in(line: str) -> dict[str, str] | None:
    """The object of texts that a line is; None: it is none."""
    try:
        item = json.loads(line.strip().removesuffix(",")) if "{" in line else None
    except (ValueError, RecursionError):
        return None
    is_flat = isinstance(item, dict) and all(isinstance(value, str) for value in item.values())
    return item if is_flat else None
