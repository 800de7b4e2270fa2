"""Looking for secrets with detect-secrets, loaded only when a text may hold one.

Of its detectors those that know a form; guesses by entropy or by words such as "password"
would refuse too much of what people write. See its documentation, "plugins".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cn.core.secret import Finding, Text, fingerprint, may_hold

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


def find_secrets(texts: Sequence[Text]) -> list[Finding]:
    """What looks like a secret, in the order of the texts. Nothing is asked of any network."""
    ours = [os.environ[name] for name in _OURS if len(os.environ.get(name, "")) > 8]
    wanted = [t for t in texts if may_hold(t) or any(s in line for s in ours for line in t.lines)]
    if not wanted:
        return []
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import get_settings, transient_settings

    found = []
    with transient_settings({"plugins_used": [{"name": name} for name in _DETECTORS]}):
        get_settings().disable_filters(*_GUESSES)
        for text in wanted:
            for index, line in enumerate(text.lines):
                after = text.lines[index + 1] if index + 1 < len(text.lines) else ""
                for part in _parts(line):
                    kinds = {secret.type for secret in scan_line(part)}
                    kinds |= {kind for kind, form in _MORE.items() if form.search(part)}
                    kinds |= {"a key of this hub" for secret in ours if secret in part}
                    found += [
                        Finding(text.where, text.first + index, kind, fingerprint(kind, line, after))
                        for kind in sorted(kinds)
                    ]
    return list(dict.fromkeys(found))


def _parts(line: str) -> Iterator[str]:
    """A long line in overlapping parts: the detectors' expressions are not made for megabytes."""
    for start in range(0, max(len(line), 1), _LONGEST):
        yield line[max(0, start - 200) : start + _LONGEST]
