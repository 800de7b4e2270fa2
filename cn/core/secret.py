"""Secrets that must not leave by accident: what was found where, and how a person lets it pass (issue 3).

The secret itself is in no finding: a fingerprint names the line it stands in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

from cn.core.effect import Plan, Post, Put
from cn.core.errors import Refusal
from cn.core.message import NOTICE
from cn.core.names import HubPath
from cn.core.rules import NO_SECRETS
from cn.core.value import dataclass

_MAYBE = re.compile(
    r"(?=[A-Za-z0-9_+/=~]{16})(?=[A-Za-z_+/=~]*\d)(?=[0-9_+/=~]*[A-Za-z])"
    r"|PRIVATE KEY|\b(?:xox[a-z]|glpat|sk|npm|pypi)[-_]|\d:[\w-]{35}|://[^/\s:@]+:[^/\s@]+@"
)
_PLAIN = re.compile(r"\b(?:[0-9a-f]{40}(?:[0-9a-f]{24})?|SHA256:[A-Za-z0-9+/=]+)\b")


@dataclass(frozen=True)
class Text:
    """One text that is about to leave or to be committed. ``where`` is its file, or what it is."""

    where: str
    lines: tuple[str, ...]
    first: int = 1


@dataclass(frozen=True)
class Finding:
    """Something in line ``line`` of ``where`` that looks like a secret of this ``kind``."""

    where: str
    line: int
    kind: str
    fingerprint: str


def may_hold(text: Text) -> bool:
    """Is it worth to load the detector? Ids of git and times are no secrets."""
    return any(_MAYBE.search(_PLAIN.sub("", line)) for line in text.lines)


def fingerprint(kind: str, line: str, after: str = "") -> str:
    """16 hex digits of a finding: kind, line and the line after it (keys have the same first line)."""
    data = "\0".join([kind, line.strip(), after.strip()])
    return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def texts_of(plan: Plan) -> list[Text]:
    """What a plan would send, and what of our own it would commit: never a peer's quoted text."""
    found = []
    for effect in plan.effects:
        match effect:
            case Post(message) if message.kind != NOTICE:
                found.append(Text("the message", (message.subject, *message.body.split("\n")), 0))
            case Put(path, text):
                found.append(own_lines(path, text))
    return found


def own_lines(path: HubPath, text: str) -> Text:
    """A document without the lines that cn quoted; line numbers stay."""
    return Text(path, tuple("" if line.startswith(">") else line for line in text.split("\n")))


def refuse(findings: Sequence[Finding], allowed: Collection[str]) -> Refusal | None:
    """The refusal that names what was found; None if there is nothing, or all of it is allowed."""
    left = [one for one in findings if one.fingerprint not in allowed]
    if not left:
        return None
    shown = "; ".join(describe(one) for one in left[:5])
    more = f" and {len(left) - 5} more" if len(left) > 5 else ""
    marks = ", ".join(f'"{mark}"' for mark in dict.fromkeys(one.fingerprint for one in left[:5]))
    return Refusal(
        NO_SECRETS,
        f"{shown}{more}",
        "take it out, and revoke it if it is real; if it is none, let it pass in .cn/hub.yaml: "
        f"'secrets: {{allow: [{marks}]}}'",
    )


def describe(one: Finding) -> str:
    """``notes.md, line 3: looks like a Private Key``."""
    line = f", line {one.line}" if one.line else ", its subject"
    return f"{one.where}{line}: looks like a secret ({one.kind})"
