"""Passwords and tokens that git sends for us, and that a host may say back: they are taken out of what git prints.

All come from what git itself reads them from: URLs, ``url.….insteadOf``, headers, cookies, proxies and ``.netrc``. What
a credential helper answers is known to git alone.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from cn.system.files import read_regular
from cn.values.known_secrets import KnownSecrets

ASKED = r"url\..*\.(push)?insteadof|http\.(.*\.)?(proxy|extraheader|cookiefile)|remote\..*\.(url|pushurl|proxy)"
"""The settings that may hold any (git-config(1)), as a regular expression."""
_PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
"""Which curl reads (curl(1), "ENVIRONMENT"); a proxy may stand there with its password."""
_MOST = 1 << 20
"""Bytes of a file that holds some."""
_NETRC = r"(?m)(?:^|\s)(?:password|account)\s+(\"(?:[^\"\\]|\\.)*\"|\S+)"


def known_secrets(
    words: Iterable[str], settings: Iterable[tuple[str, str]], env: Mapping[str, str] = os.environ
) -> KnownSecrets:
    """What a remote may know of us: of the ``words`` of a command, and ``settings``, each a key and its value."""
    found = {one for url in words for one in _of_url(url)}
    for key, value in settings:
        found |= {*_of_url(key.removeprefix("url.")), *_of_url(value)}
        if key.endswith(".extraheader"):
            found |= {*_of_header(value)}
        if key.endswith(".cookiefile"):
            found |= {*_of_cookies(_read(value))}
    found |= {one for name in _PROXIES if name in env for one in _of_url(env[name])}
    netrc = _read("~/.netrc")  # curl reads it for git (CURLOPT_NETRC)
    found |= {one.strip('"') for one in re.findall(_NETRC, netrc)} if netrc else set()
    return KnownSecrets(found)


def _of_url(url: str) -> Iterator[str]:
    """The password or token of a URL, as it is and decoded."""
    scheme, _, rest = url.rpartition("://")  # a proxy may have no scheme (git-config(1), ``http.proxy``)
    account, at, _ = rest.partition("/")[0].rpartition("@")
    if not at or scheme.endswith("ssh") or not (scheme or ":" in account):  # an account there is no secret
        return
    user, colon, password = account.partition(":")
    secret = password if colon else user
    yield from (secret, unquote(secret), f"{unquote(user)}:{unquote(password)}")


def _of_header(line: str) -> Iterator[str]:
    """What lets us in by a header that goes with each request (git-config(1), ``http.extraHeader``).

    The words of its value but the name of a scheme, cookies by their values, and what basic authentication encodes
    (RFC 7617): name and password together, and the password.
    """
    name, colon, value = line.partition(":")
    words = (value if colon else name).split()
    for word in words[1:] or words:
        yield word
        yield word.rstrip(";,").partition("=")[2].strip('"')
        try:
            pair = base64.b64decode(word + "=" * (-len(word) % 4), validate=True).decode()
        except ValueError:
            continue
        if ":" in pair:
            yield from (pair, pair.partition(":")[2])
    if name.strip().lower() == "cookie":
        yield from _of_cookies(f"Set-Cookie: {value}")


def _of_cookies(text: str) -> Iterator[str]:
    """The values in a file of cookies, which has lines of Netscape's form or of headers (curl(1), ``--cookie``)."""
    for line in text.splitlines():
        if line.count("\t") >= 6:
            yield line.split("\t")[6]
        elif line.lower().startswith("set-cookie:"):
            yield from (pair.partition("=")[2].strip() for pair in line.partition(":")[2].split(";"))


def _read(path: str) -> str:
    """Of a file that may be a link, as the one of a home folder often is."""
    return (read_regular(os.path.realpath(os.path.expanduser(path)), _MOST) or b"").decode("utf-8", "replace")
