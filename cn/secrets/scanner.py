"""Look for secrets with detect-secrets, loaded only when a text may hold one.

Of its detectors those that know a form; guesses by entropy or by words such as "password"
would refuse too much of what people write. See its documentation, "plugins".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from cn.secrets.findings import (
    LOGIN,
    MASK,
    PRIVATE_KEY,
    Finding,
    Text,
    end_of_key,
    fingerprint,
    is_placeholder,
    joined,
    key_goes_on,
    key_starts,
    may_hold,
    plain,
    whole,
)

_DETECTORS = (
    "AWSKeyDetector",
    "AzureStorageKeyDetector",
    "BasicAuthDetector",
    "DiscordBotTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "MailchimpDetector",
    "NpmDetector",
    "OpenAIDetector",
    "PrivateKeyDetector",
    "PypiTokenDetector",
    "SendGridDetector",
    "SlackDetector",
    "SquareOAuthDetector",
    "StripeDetector",
    "TwilioKeyDetector",
)
_MORE = {
    "Age Secret Key": re.compile(r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
    "Anthropic API Key": re.compile(r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    "AWS Secret Key": re.compile(
        r"(?:aws_?secret_?|secret_?access_?)(?:access_?)?key[\"']?\s{0,3}(?::|=>?)\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        re.IGNORECASE,
    ),
    "DigitalOcean Token": re.compile(r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    "GitHub Token": re.compile(r"gh[opusr]_[A-Za-z0-9_]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}"),
    "Google API Key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "Hugging Face Token": re.compile(r"\bhf_[A-Za-z0-9]{34}\b"),
    "NPM tokens": re.compile(r"\bnpm_[A-Za-z0-9]{36}\b"),
    "OpenAI Token": re.compile(
        r"\bsk-(?:(?:proj|svcacct|admin)-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}|(?=[A-Za-z]{0,47}[0-9])[A-Za-z0-9]{48}(?![A-Za-z0-9_-]))"
    ),
    "Private Key": re.compile(r"BEGIN ENCRYPTED[ ]PRIVATE KEY|PuTTY-User-Key-File-[13]|\bPrivate-Lines: ?\d"),
    "Telegram Bot Token": re.compile(r"\b\d{8,10}:[0-9A-Za-z_-]{35,}"),
}
"""Forms that detect-secrets 1.5 does not know, or not alone, or of which it tells only the beginning."""
_OURS = ("ANTHROPIC_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN", "TELEGRAM_BOT_TOKEN")
"""Variables whose very values must not leave."""
_GUESSES = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_indirect_reference",
    "detect_secrets.filters.heuristic.is_likely_id_string",
)
"""Filters by what stands beside a secret: a remark in the text, a call, a word such as "id". Only
``hub.yaml`` lets something pass."""
_HALF = re.compile("[\ud800-\udfff]")
"""What a byte that is no UTF-8 was read as; detect-secrets hashes no such character."""
_KEPT = re.compile(r"(?:#{1,6} |- )?(?:(?:refused: )?(?:\*\*)?[A-Za-z][A-Za-z_-]{0,19}:(?:\*\*)?)?")
"""What of a masked line stays: the mark of a heading or a list, the key of a field, the rule of a log row."""
_LONGEST = 2_000
_Hit = tuple[str, str]
"""A kind, and what a detector found of it."""


def find_secrets(texts: Sequence[Text], sources: Sequence[Text] = ()) -> list[Finding]:
    """What looks like a secret, in the order of the texts. Nothing is asked of any network.

    What stands in one of the ``sources`` too is told of there: a person can edit that.
    """
    ours = _own_values()
    if not _is_worth(joined(texts), ours):  # all at once: thousands of letters have four texts each
        return []
    hits = (hit for text in texts for hit in _search(text, ours))
    return list(dict.fromkeys(_placed(one, found, sources) for one, found in hits))


def _placed(one: Finding, found: str, sources: Sequence[Text]) -> Finding:
    for source in sources:
        for at, line in enumerate(source.lines):
            if found in line:
                return one._replace(where=source.where, line=source.first + at if source.first else 0)
    return one


def beginnings(text: Text, allowed: Collection[str]) -> set[str]:
    """By what the secrets of a text are known that was cut before it was looked at."""
    found = {secret for one, secret in _search(text, _own_values()) if one.fingerprint not in allowed}
    return set(map(_beginning, found))


def _beginning(secret: str) -> str:
    return secret[: min(8, max(3, len(secret) // 2))]


def mask_typed(text: str, words: Sequence[str]) -> str:
    """A text that may quote the words of a command, also cut off, without the secrets in these."""
    typed = Text("", tuple(line for word in words for line in word.split("\n")))
    hits = _search(typed, _own_values())
    if not hits:
        return text
    pieces = {_beginning(found) for one, found in hits if one.kind != PRIVATE_KEY}
    lines = (
        " ".join(MASK if any(piece in word for piece in pieces) else word for word in line.split(" "))
        for line in text.split("\n")
    )
    return "\n".join(mask_secrets(Text("", tuple(lines)), ())[0])


def mask_secrets(text: Text, allowed: Collection[str]) -> tuple[list[str], list[Finding]]:
    """The lines, and what looks like a secret in them and is not ``allowed``.

    :data:`MASK` stands for each line that holds such a thing, and for all lines of a private key, to its end
    or the text's. What a head is read by stays: a key with its colon, and the mark of a title.
    """
    ours = _own_values()
    found = dict.fromkeys(one for one, _ in _search(text, ours) if one.fingerprint not in allowed)
    kinds = {(one.line - text.first, one.kind == PRIVATE_KEY) for one in found}
    lines, inside = list(text.lines), False
    for at, line in enumerate(text.lines) if found else ():
        if not inside and ((at, True) in kinds or (at, False) in kinds):
            lines[at] = f"{_kept(line, ours)} {MASK}".lstrip()
        elif inside:
            lines[at] = MASK
        inside = (inside or (at, True) in kinds) and key_goes_on(line)
    return lines, list(found)


def _kept(line: str, ours: Sequence[str]) -> str:
    """What stays of a line before its mask, unless a secret or a key begins in that already."""
    match = _KEPT.match(line)
    kept = match[0].rstrip(" ") if match else ""
    return "" if key_starts(kept) or _search(Text("", (kept,)), ours) else kept


def _own_values() -> list[str]:
    values = (os.environ.get(name, "") for name in _OURS)
    return [value for value in values if len(value) > 8]


def _is_worth(text: Text, ours: Sequence[str]) -> bool:
    """Is the detector to look at it?"""
    return may_hold(text) or any(s in line for s in ours for line in text.lines)


def _search(text: Text, ours: Sequence[str]) -> list[tuple[Finding, str]]:
    """The findings of one text, each with what was found."""
    if not _is_worth(text, ours):
        return []
    from detect_secrets.settings import get_settings, transient_settings

    hits = dict[tuple[Finding, str], None]()
    inside = (0, 0)
    with transient_settings({"plugins_used": [{"name": name} for name in _DETECTORS]}):
        get_settings().disable_filters(*_GUESSES)
        for index, line in enumerate(text.lines):
            for kind, found in sorted(_in_line(line, ours)):
                for start in (key_starts(line) or [0]) if kind == PRIVATE_KEY else [0]:
                    if kind == PRIVATE_KEY:
                        if (index, start) < inside:
                            continue  # one key, though its parts have headers of their own
                        inside = end_of_key(text.lines, index, start) or (index, start + 1)
                    mark = fingerprint(whole(kind, found, text.lines, index, start))
                    hits[Finding(text.where, text.first + index, kind, mark), found] = None
    return list(hits)


def _in_line(line: str, ours: Sequence[str]) -> set[_Hit]:
    """What stands in one line. A secret counts once: as a whole, and as one kind."""
    parts = [_found(part, ours) for part in _parts(line)]
    near = [set().union(*parts[max(0, at - 1) : at + 2]) for at in range(len(parts))]
    return {hit for at, part in enumerate(parts) for hit in part if not any(_covers(o, hit) for o in near[at])}


def _covers(other: _Hit, hit: _Hit) -> bool:
    if PRIVATE_KEY in (other[0], hit[0]) or hit[1] not in other[1]:
        return False
    return other[1] != hit[1] or (other[0] == LOGIN, other[0]) < (hit[0] == LOGIN, hit[0])


def _found(part: str, ours: Sequence[str]) -> set[_Hit]:
    """Kind and spelling of what stands in one part of a line, also where Markdown's escapes part it."""
    found, bare = _scan(part, ours), plain(part)
    for kind, secret in _scan(bare, ours) - found if bare != part else ():
        spelled = re.search(r"\\?".join(map(re.escape, secret)), part)
        found.add((kind, spelled[0] if spelled else part))
    return found


def _scan(part: str, ours: Sequence[str]) -> set[_Hit]:
    from detect_secrets.core.scan import scan_line

    text = _HALF.sub("\N{REPLACEMENT CHARACTER}", part)
    kinds = {(secret.type, str(secret.secret_value)) for secret in scan_line(text)}
    if text != part:
        kinds = {(kind, _there(part, text, found)) for kind, found in kinds}
    for kind, form in _MORE.items():
        kinds |= {(kind, match[form.groups]) for match in form.finditer(part)}
    kinds |= {("a key of this hub", secret) for secret in ours if secret in part}
    return {(kind, found) for kind, found in kinds if not is_placeholder(kind, found, part.partition(found)[2])}


def _there(part: str, text: str, found: str) -> str:
    """What stands in ``part`` where ``text``, as long as that, holds what was found; else the whole part."""
    at = text.find(found)
    return part[at : at + len(found)] if at >= 0 else part


def _parts(line: str) -> Iterator[str]:
    """A long line in overlapping parts: the detectors' expressions are not made for megabytes."""
    for start in range(0, max(len(line), 1), _LONGEST):
        yield line[max(0, start - 200) : start + _LONGEST]
