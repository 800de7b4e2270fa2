"""Nothing that looks like a secret leaves, or enters main, by cn's doing (issue 3)."""

from __future__ import annotations

from collections.abc import Sequence

from cn.app.settings import Settings
from cn.core.effect import Plan
from cn.core.errors import Refusal
from cn.core.secret import Text, refuse, texts_of
from cn.shell.secrets import find_secrets


def check_plan(plan: Plan, settings: Settings) -> Refusal | None:
    """Refuse a plan that would send or commit a secret of ours."""
    return check_texts(texts_of(plan), settings)


def check_texts(texts: Sequence[Text], settings: Settings) -> Refusal | None:
    """The same for texts."""
    return refuse(find_secrets(texts), settings.config.allowed_secrets)
