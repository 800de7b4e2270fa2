"""What ssh says where a host's key is another than the one that is known (ssh(1), "VERIFYING HOST KEYS").

It says so in a dozen rows, and what helps stands in the last ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cn.values.shell_words import command

_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_OFFENDING = r"Offending (\S+) key in (.+):(\d+)"
_PRINT = r"(SHA256:\S+?)\.?"
_HOST = r"Host key for (\S+) has changed .*"
_REASON = r"the key of the host (\S+) has changed: .*? now (\S+), and line \d+ of (.+) has another one; Host key"


def told_of_changed_key(lines: Sequence[str]) -> str:
    """Why ssh does not go on, in one sentence; empty: it is not that."""
    if not any(_CHANGED in line for line in lines):
        return ""
    offending, host, sent = (_first(pattern, lines) for pattern in (_OFFENDING, _HOST, _PRINT))
    if not (offending and host and sent):
        return ""
    which, file, line = offending
    changed = f"the key of the host {host[0]} has changed: its {which} key is now {sent[0]}"
    return f"{changed}, and line {line} of {file} has another one; Host key verification failed"


def _first(pattern: str, lines: Sequence[str]) -> tuple[str, ...]:
    found = (re.fullmatch(pattern, line.strip()) for line in lines)
    return next((match.groups() for match in found if match), ())


def remedy_of_changed_key(reason: str) -> str:
    """What helps where that is the reason; empty: it is not."""
    found = re.search(_REASON, reason)
    if not found:
        return ""
    host, sent, file = found.groups()
    forget = command("ssh-keygen -f {} -R {}", file, host)
    ask = f"somebody may be between you and the host: ask who runs it whether its fingerprint is {sent} now"
    return f"{ask}; if it is, {forget} forgets the old key, and 'ssh HOST' once, as who runs cn, takes the new one"
