"""Who may look: a link that works once, a cookie that holds while the server runs, a token in every form.

A browser gets the link by a file that only its user can read: what stands among a program's arguments every user of the
machine sees (proc_pid_cmdline(5)).

The link's token is kept as a digest in the hub's state, where only who may write the hub can put one: so a second
``cn web`` gives a link to a server that runs already.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import NamedTuple

from cn.git.repository import Hub
from cn.system.files import PRIVATE, drop, read_regular, write_file

MOST = 16
"""Browsers that may look at a time; one more takes the place of the first."""
HOST = "127.0.0.1"
_DOOR = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>cn</title><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={link}"><p><a href="{link}">To the hub</a></p></html>\n'
)
"""It needs no script."""


class Running(NamedTuple):
    """A server: its process, where it listens, who decides there, and how many links of it were used."""

    pid: int
    port: int
    actor: str
    used: int = 0


def note_running(hub: Hub, running: Running) -> None:
    """Say where the server is."""
    write_file(_place(hub, "json"), json.dumps(running._asdict()).encode(), mode=PRIVATE)


def read_running(hub: Hub) -> Running | None:
    """What the server noted, or one that is gone; None where none ever was, or the note cannot be read."""
    try:
        data = json.loads(read_regular(_place(hub, "json"), 4096) or b"")
        return Running(int(data["pid"]), int(data["port"]), str(data["actor"]), int(data.get("used", 0)))
    except (ValueError, KeyError, TypeError):
        return None


def make_link(hub: Hub, port: int) -> str:
    """A link that opens the server's pages once; the one made before does not any more."""
    token = secrets.token_urlsafe(24)
    drop(_place(hub, "html"))
    write_file(_place(hub, "token"), _digest(token).encode(), mode=PRIVATE)
    return f"http://{HOST}:{port}/start?token={token}"


def write_door(hub: Hub, link: str) -> Path:
    """A file that leads a browser to the link, for its user's eyes alone; it is gone once the link was used."""
    path = _place(hub, "html")
    write_file(path, _DOOR.format(link=escape(link)).encode(), mode=PRIVATE)
    return path


def take_token(hub: Hub, token: str) -> bool:
    """Is it the token of the last link? It is none from then on."""
    path = _place(hub, "token")
    kept = (read_regular(path, 200) or b"").decode("ascii", "replace").strip()
    if not (token and kept and hmac.compare_digest(kept, _digest(token))):
        return False
    drop(path, _place(hub, "html"))
    return True


def forget(hub: Hub) -> None:
    """The server ends: no link and no note of it is left."""
    with suppress(OSError):
        drop(*(_place(hub, kind) for kind in ("token", "html", "json")))


def state_file(hub: Hub, kind: str) -> Path:
    """A file of this user's server: each user of a hub that is shared has one, which decides as them."""
    us = os.geteuid()
    with suppress(OSError):
        if hub.state.lstat().st_uid != us:
            return hub.state / f"web-{us}.{kind}"
    return hub.state / f"web.{kind}"


def _place(hub: Hub, kind: str) -> Path:
    return state_file(hub, kind)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Sessions:
    """The browsers that came by a link, in memory alone. The cookie's name has the port in it: cookies have none."""

    def __init__(self, port: int) -> None:
        self.cookie = f"cn-{port}"
        self.used = 0  # links, each of which let a browser in
        self._key = secrets.token_bytes(32)
        self._known: dict[str, None] = {}

    def begin(self) -> str:
        """A new session; what the cookie holds."""
        value = secrets.token_urlsafe(32)
        self.used += 1
        self._known[_digest(value)] = None
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return value

    def holds(self, cookies: Mapping[str, str]) -> bool:
        """Does one of the cookies belong to a session?"""
        return _digest(cookies.get(self.cookie, "")) in self._known

    def form_token(self, cookies: Mapping[str, str]) -> str:
        """What every form of this session carries."""
        value = cookies.get(self.cookie, "").encode("utf-8", "replace")
        return hmac.new(self._key, value, hashlib.sha256).hexdigest()

    def is_form_token(self, cookies: Mapping[str, str], token: str) -> bool:
        """Is it that of this session?"""
        return hmac.compare_digest(self.form_token(cookies).encode(), token.encode("utf-8", "replace"))
