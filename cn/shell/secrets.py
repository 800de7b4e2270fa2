"""Looking for secrets with detect-secrets, loaded only when a text may hold one.

Of its detectors those that know a form; guesses by entropy or by words such as "password"
would refuse too much of what people write. See its documentation, "plugins".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from cn.core.secret import (
    MASK,
    Finding,
    Text,
    fingerprint,
    is_placeholder,
    mask_key,
    mask_word,
    may_hold,
)

_DETECTORS = (
    "AWSKeyDetector",
    "AzureStorageKeyDetector",
    "BasicAuthDetector",
    "DiscordBotTokenDetector",
    "GitHubTokenDetector",
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
    "Anthropic API Key": re.compile(r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    "GitHub Token": re.compile(r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    "Google API Key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "Telegram Bot Token": re.compile(r"\b\d{8,10}:[0-9A-Za-z_-]{35,}"),
}
"""Forms that detect-secrets 1.5 does not know, or knows only where they stand alone."""
_OURS = ("ANTHROPIC_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN", "TELEGRAM_BOT_TOKEN")
"""Variables whose very values must not leave."""
_GUESSES = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_indirect_reference",
    "detect_secrets.filters.heuristic.is_likely_id_string",
)
"""Filters by what stands beside a secret: a remark in the text, a call, a word such as "id". Only
``hub.yaml`` lets something pass."""
_LONGEST = 2_000


_KEY = "Private Key"


def find_secrets(texts: Sequence[Text]) -> list[Finding]:
    """What looks like a secret, in the order of the texts. Nothing is asked of any network."""
    return list(dict.fromkeys(finding for text in texts for finding, _ in _search(text)))


def mask_secrets(text: Text, allowed: Collection[str]) -> tuple[list[str], list[Finding]]:
    """The lines with ``***`` for what looks like a secret and is not ``allowed``, and what that was."""
    hits = [(one, found) for one, found in _search(text) if one.fingerprint not in allowed]
    lines, masked = list(text.lines), -1
    for one, found in hits:
        at = one.line - text.first
        if at <= masked:
            continue  # inside a key
        if one.kind == _KEY:
            masked = mask_key(lines, at)
        else:
            lines[at] = mask_word(lines[at], found)
    touched = {at for at, line in enumerate(lines) if line != text.lines[at]}
    for at in touched if hits else ():
        if any(one.fingerprint not in allowed for one in find_secrets([Text("", (lines[at],))])):
            lines[at] = MASK
    return lines, list(dict.fromkeys(one for one, _ in hits))


def _search(text: Text) -> list[tuple[Finding, str]]:
    """The findings of one text, each with what was found."""
    ours = [os.environ[name] for name in _OURS if len(os.environ.get(name, "")) > 8]
    if not (may_hold(text) or any(s in line for s in ours for line in text.lines)):
        return []
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import get_settings, transient_settings

    hits = dict[tuple[Finding, str], None]()
    with transient_settings({"plugins_used": [{"name": name} for name in _DETECTORS]}):
        get_settings().disable_filters(*_GUESSES)
        for index, line in enumerate(text.lines):
            after = text.lines[index + 1] if index + 1 < len(text.lines) else ""
            for part in _parts(line):
                kinds = {(secret.type, str(secret.secret_value)) for secret in scan_line(part)}
                kinds |= {(kind, match[0]) for kind, form in _MORE.items() for match in form.finditer(part)}
                kinds |= {("a key of this hub", secret) for secret in ours if secret in part}
                for kind, found in sorted(kinds):
                    if not is_placeholder(kind, found, part.partition(found)[2]):
                        mark = fingerprint(kind, line, after)
                        hits[Finding(text.where, text.first + index, kind, mark), found] = None
    return list(hits)


def _parts(line: str) -> Iterator[str]:
    """A long line in overlapping parts: the detectors' expressions are not made for megabytes."""
    for start in range(0, max(len(line), 1), _LONGEST):
        yield line[max(0, start - 200) : start + _LONGEST]
