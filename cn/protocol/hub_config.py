"""``.cn/hub.yaml``: what people configured for a hub (``docs/protocol/hub.md``)."""

from __future__ import annotations

import re
from typing import NamedTuple

from cn.values.config_reader import Reader
from cn.values.errors import ConfigError
from cn.values.names import HubPath, Name, is_branch, is_name
from cn.values.text import one_line

PATH = HubPath(".cn/hub.yaml")
LEAVE = "if that is meant, 'cn cron remove' ends cn's runs here"
"""What is left to do in a clone of a project that left cn."""
NO_HUB = "the project left cn, or never used it"
"""What it means that the main of a peer has no such file."""
AGENT_PATH = HubPath(".cn/agent.yaml")


class Reviewer(NamedTuple):
    """A person who may decide beside the hub's agent; ``email`` identifies commits."""

    name: Name
    email: str = ""


class Limits(NamedTuple):
    """Bounds of one run. Seconds, counts and bytes as named."""

    peer_seconds: float = 60.0
    branches_per_peer: int = 200
    file_bytes: int = 64 * 1024
    thread_bytes: int = 256 * 1024
    files_per_thread: int = 200
    fetch_bytes: int = 512 * 1024 * 1024
    hops: int = 8


LOCK_WAIT = 10.0
"""Seconds to wait for the hub's lock where no configuration says it."""


class HubConfig(NamedTuple):
    """The parsed ``hub.yaml``. Ages in days, ``lock_wait`` in seconds.

    ``scope``: what an op of the agent may be about, its ``item`` or any open thread of the ``hub``.
    """

    name: Name
    main: str = "main"
    interface: str = "triage"
    reviewers: tuple[Reviewer, ...] = ()
    mailbox: str = ""
    mailbox_trusted: bool = False
    local: tuple[HubPath, ...] = ()
    explicit_approval: bool = False
    rebase: str = "when-needed"
    signed: str = "optional"
    allowed_secrets: tuple[str, ...] = ()
    notice_days: int = 30
    warn_after: int = 3
    cron_period_min: int = 5
    timeout_cycles: int = 3
    max_attempts: int = 3
    lock_wait: float = LOCK_WAIT
    limits: Limits = Limits()
    scope: str = "item"

    def is_actor(self, name: str) -> bool:
        """May this name decide: the hub's agent or a listed reviewer?"""
        return name == self.name or any(r.name == name for r in self.reviewers)


_MAY_BE_LOCAL = ("logs/input", "logs/output", "state/conversation.json")


def is_local(path: str, local: tuple[HubPath, ...]) -> bool:
    """Does the hub keep this path on its machine (``local:``)?

    With ``state/conversation.json`` go the days that left it, in ``state/conversation/``.
    """
    folders = [f"{part.removesuffix('.json')}/" for part in local]
    return path in local or any(path.startswith(folder) for folder in folders)


_NUMBERS: dict[str, tuple[type, float, float]] = {
    "notice_days": (int, 1, 3650),
    "warn_after": (int, 1, 3650),
    "cron_period_min": (int, 1, 1440),
    "timeout_cycles": (int, 1, 1000),
    "max_attempts": (int, 1, 1000),
    "lock_wait": (float, 0, 3600),
}
_LIMITS: dict[str, tuple[type, float, float]] = {
    "peer_seconds": (float, 1, 3600),
    "branches_per_peer": (int, 1, 100_000),
    "file_bytes": (int, 0, 16 << 20),
    "thread_bytes": (int, 1024, 64 << 20),
    "files_per_thread": (int, 1, 100_000),
    "fetch_bytes": (int, 1 << 16, 1 << 40),
    "hops": (int, 0, 100),
}
_TEXTS = ("name", "main", "interface", "reviewers", "mailbox", "mailbox_trusted", "local")
_SECTIONS = ("merge", "secrets", "limits", "agent")
_KEYS = sorted({*_TEXTS, *_SECTIONS, *_NUMBERS})


def parse_config(text: str) -> HubConfig:
    """Read ``hub.yaml``; raises :class:`ConfigError` with file, line and remedy."""
    top = Reader.load(text, PATH)
    top.known(_KEYS)
    merge, secrets, limits, agent = (top.section(key) for key in _SECTIONS)
    limits.known(_LIMITS)
    agent.known(["scope"])
    merge.known(["explicit_approval", "rebase", "signed"])
    secrets.known(["allow"])
    if "name" not in top.data:
        raise top.complain("name", "the key 'name' is missing")
    main, mailbox = top.text("main", "main"), top.text("mailbox", "")
    if main.startswith("-") or not is_branch(main):
        raise top.complain("main", f"{one_line(main, 80)!r} is no branch name")
    if mailbox.startswith(("-", "/", ".")) or ":" in mailbox:
        adds = "'git remote add mailbox URL' adds one, and 'mailbox: mailbox' names it"
        raise top.complain("mailbox", f"mailbox is the name of a git remote, and no URL: {adds}")
    name = top.name("name")
    listed, local, allow = top.items("reviewers"), top.items("local"), secrets.items("allow")
    reviewers = tuple(_reviewer(listed, key) for key in listed.data)
    names = [name, *(r.name for r in reviewers)]
    if len(set(names)) < len(names):
        raise top.complain("reviewers", "a name is listed twice, or is the hub's own")
    return HubConfig(
        name=name,
        main=main,
        interface=top.choice("interface", ("triage", "queue"), "triage"),
        reviewers=reviewers,
        mailbox=mailbox,
        mailbox_trusted=top.flag("mailbox_trusted", default=False),
        local=tuple(_path(local, key) for key in local.data),
        explicit_approval=merge.flag("explicit_approval", default=False),
        rebase=merge.choice("rebase", ("when-needed", "always"), "when-needed"),
        signed=merge.choice("signed", ("optional", "required"), "optional"),
        allowed_secrets=tuple(_fingerprint(allow, key) for key in allow.data),
        limits=Limits(**limits.numbers(_LIMITS)),
        scope=agent.choice("scope", ("item", "hub"), "item"),
        **top.numbers(_NUMBERS),
    )


def name_in(data: bytes) -> str:
    """The name that the hub file of another hub has, whatever else is in it; empty: it is none that can be read."""
    name = _text_in(data, "name", "")
    return name if is_name(name) else ""


def main_named_in(data: bytes) -> str:
    """The main that the hub file of another hub names, whatever else is in it; empty: it is none that can be read."""
    return _text_in(data, "main", "main")


def _text_in(data: bytes, key: str, otherwise: str) -> str:
    try:
        return Reader.load(data.decode(), PATH).text(key, otherwise)
    except (ConfigError, UnicodeDecodeError):
        return ""


def _fingerprint(reader: Reader, key: str) -> str:
    item = reader.data[key]
    if not isinstance(item, str) or not re.fullmatch(r"[0-9a-f]{16}", item):
        raise reader.complain(key, "a fingerprint has 16 hexadecimal digits; put it in quotes, the refusal names it")
    return item


def _reviewer(reader: Reader, key: str) -> Reviewer:
    item = reader.data[key]
    if isinstance(item, str):
        return Reviewer(reader.name(key))
    if not isinstance(item, dict) or set(item) - {"name", "email"} or "name" not in item:
        raise reader.complain(key, "a reviewer is a name, or {name: …, email: …}")
    one = reader.below(key, item)
    return Reviewer(one.name("name"), one.text("email", ""))


def _path(reader: Reader, key: str) -> HubPath:
    value = reader.data[key]
    if not isinstance(value, str):
        raise reader.complain(key, "a path must be text; put it in quotes")
    path = value.rstrip("/")
    if path not in _MAY_BE_LOCAL:
        raise reader.complain(key, f"{one_line(value, 80)!r} cannot stay local; {', '.join(_MAY_BE_LOCAL)} can")
    return HubPath(path)
