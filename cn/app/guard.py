"""Nothing that looks like a secret leaves, or enters main, by cn's doing (issue 3)."""

from __future__ import annotations

from collections.abc import Sequence

from cn.app.settings import Settings
from cn.core.effect import Plan
from cn.core.errors import Refusal
from cn.core.secret import Text, refuse, texts_of
from cn.shell.secrets import find_secrets

_HIDDEN = "(not shown: it looks like a secret)"


def check_plan(plan: Plan, settings: Settings) -> Refusal | None:
    """Refuse a plan that would send or commit a secret of ours."""
    return check_texts(texts_of(plan), settings)


def check_texts(texts: Sequence[Text], settings: Settings) -> Refusal | None:
    """The same for texts."""
    return refuse(find_secrets(texts), settings.config.allowed_secrets)


def without_secrets(text: str, settings: Settings) -> str:
    """One line as it may be logged and shown: up to its first colon, where it holds a secret."""
    if check_texts([Text("", (text,))], settings) is None:
        return text
    word, colon, _ = text.partition(":")
    clean = colon and check_texts([Text("", (word,))], settings) is None
    return f"{word}: {_HIDDEN}" if clean else _HIDDEN
