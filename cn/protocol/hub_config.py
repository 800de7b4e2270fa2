"""``.cn/hub.yaml``: what people configured for a hub (``docs/protocol/hub.md``)."""

from __future__ import annotations

import re
from typing import NamedTuple

from cn.values.names import HubPath, Name, NameRefused, is_branch, parse_hub_path
from cn.values.text import one_line
from cn.values.yaml import At, load_yaml

PATH = HubPath(".cn/hub.yaml")
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
    """The parsed ``hub.yaml``. Ages in days, ``lock_wait`` in seconds."""

    name: Name
    main: str = "main"
    interface: str = "triage"
    reviewers: tuple[Reviewer, ...] = ()
    mailbox: str = ""
    mailbox_trusted: bool = False
    local: tuple[HubPath, ...] = ()
    explicit_approval: bool = False
    allowed_secrets: tuple[str, ...] = ()
    notice_days: int = 30
    warn_after: int = 3
    cron_period_min: int = 5
    timeout_cycles: int = 3
    max_attempts: int = 3
    lock_wait: float = LOCK_WAIT
    limits: Limits = Limits()

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


def _int(low: int, high: int) -> tuple[type, int, int]:
    return (int, low, high)


_NUMBERS = {
    "notice_days": _int(1, 3650),
    "warn_after": _int(1, 3650),
    "cron_period_min": _int(1, 1440),
    "timeout_cycles": _int(1, 1000),
    "max_attempts": _int(1, 1000),
    "lock_wait": (float, 0, 3600),
}
_LIMITS = {
    "peer_seconds": (float, 1, 3600),
    "branches_per_peer": _int(1, 100_000),
    "file_bytes": _int(0, 16 << 20),
    "thread_bytes": _int(1024, 64 << 20),
    "files_per_thread": _int(1, 100_000),
    "fetch_bytes": _int(1 << 16, 1 << 40),
    "hops": _int(0, 100),
}
_KEYS = {
    "name",
    "main",
    "interface",
    "reviewers",
    "mailbox",
    "mailbox_trusted",
    "local",
    "merge",
    "secrets",
    "limits",
} | set(_NUMBERS)


def parse_config(text: str) -> HubConfig:
    """Read ``hub.yaml``; raises :class:`ConfigError` with file, line and remedy."""
    data = load_yaml(text, PATH)
    at = At(text, PATH)
    if not isinstance(data, dict):
        raise at("name", "it must hold keys such as 'name: sigma'")
    for key in data:
        if key not in _KEYS:
            raise at(key, f"unknown key {one_line(str(key), 80)!r}; known: {', '.join(sorted(_KEYS))}")
    if "name" not in data:
        raise at("name", "the key 'name' is missing")
    numbers = {k: at.number(data, k, bounds) for k, bounds in _NUMBERS.items() if k in data}
    limits = at.mapping(data, "limits")
    for key in limits:
        if key not in _LIMITS:
            raise at(key, f"unknown limit {one_line(str(key), 80)!r}; known: {', '.join(sorted(_LIMITS))}")
    merge = at.mapping(data, "merge")
    if set(merge) - {"explicit_approval"}:
        raise at("merge", "the only key under 'merge' is explicit_approval")
    secrets = at.mapping(data, "secrets")
    if set(secrets) - {"allow"}:
        raise at("secrets", "the only key under 'secrets' is allow")
    interface = at.text(data, "interface", "triage")
    if interface not in ("triage", "queue"):
        raise at("interface", "interface is 'triage' or 'queue'")
    main = at.text(data, "main", "main")
    if main.startswith("-") or not is_branch(main):
        raise at("main", f"{one_line(main, 80)!r} is no branch name")
    mailbox = at.text(data, "mailbox", "")
    if mailbox.startswith("-"):
        raise at("mailbox", "mailbox is the name of a git remote")
    name = at.name(data["name"], "name")
    reviewers = tuple(_reviewer(at, item) for item in at.list(data, "reviewers"))
    names = [name, *(r.name for r in reviewers)]
    if len(set(names)) < len(names):
        raise at("reviewers", "a name is listed twice, or is the hub's own")
    return HubConfig(
        name=name,
        main=main,
        interface=interface,
        reviewers=reviewers,
        mailbox=mailbox,
        mailbox_trusted=at.flag(data, "mailbox_trusted"),
        local=tuple(_path(at, p) for p in at.list(data, "local")),
        explicit_approval=at.flag(merge, "explicit_approval"),
        allowed_secrets=tuple(_fingerprint(at, item) for item in at.list(secrets, "allow")),
        limits=Limits(**{k: at.number(limits, k, b) for k, b in _LIMITS.items() if k in limits}),
        **numbers,
    )


def _fingerprint(at: At, item: object) -> str:
    if not isinstance(item, str) or not re.fullmatch(r"[0-9a-f]{16}", item):
        raise at("secrets", "a fingerprint has 16 hexadecimal digits; put it in quotes, the refusal names it")
    return item


def _reviewer(at: At, item: object) -> Reviewer:
    if isinstance(item, str):
        return Reviewer(at.name(item, "reviewers"))
    if not isinstance(item, dict) or set(item) - {"name", "email"} or "name" not in item:
        raise at("reviewers", "a reviewer is a name, or {name: …, email: …}")
    return Reviewer(at.name(item["name"], "reviewers"), at.text(item, "email", ""))


def _path(at: At, value: object) -> HubPath:
    if not isinstance(value, str):
        raise at("local", "a path must be text; put it in quotes")
    try:
        path = parse_hub_path(value.rstrip("/"))
    except NameRefused as refused:
        raise at("local", refused.text) from None
    if path not in _MAY_BE_LOCAL:
        raise at("local", f"{one_line(str(value), 80)!r} cannot stay local; {', '.join(_MAY_BE_LOCAL)} can")
    return path
