"""Passwords and tokens that cn itself knows, and that a host may say back: they are taken out of what git prints."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from cn.values.text import without_escapes

_SHORTEST = 6
"""What is shorter stands in words of its own."""


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without these, and without what only colours it: a secret may be hidden in such."""
    found = list(secrets)
    text = without_escapes(text) if found else text
    for secret in found:
        text = text.replace(secret, "***")
    return text


def secrets_of(urls: Iterable[str], headers: Iterable[str]) -> list[str]:
    """The credentials of URLs, as they are, decoded, and in base64 as they are sent (RFC 7617), longest first.

    ``headers`` are what is sent with each request (git-config(1), ``http.extraHeader``).
    """
    found = {one for url in urls for one in _of_url(url)} | {words[-1] for line in headers if (words := line.split())}
    return sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)


def _of_url(url: str) -> Iterator[str]:
    scheme, _, rest = url.rpartition("://")  # a proxy may have no scheme (git-config(1), ``http.proxy``)
    account, at, _ = rest.partition("/")[0].rpartition("@")
    if not at or scheme.endswith("ssh") or not (scheme or ":" in account):  # an account there is no secret
        return
    user, colon, password = account.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}"
    secret = password if colon else user
    for one in (secret, unquote(secret)):
        yield from (one, _base64(one))
    yield from (pair, _base64(pair))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode().rstrip("=")
