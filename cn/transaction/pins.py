"""Pins: one ref per recorded branch, so that an idle check is one listing (``docs/protocol/branches.md``).

``refs/cn/pins/<peer>/in/<topic>`` holds the head of a peer's branch that the ledger knows,
``…/out/…`` the tip of one of ours. Names are encoded so that no topic clashes with another
on any file system. Heads whose pin goes stay reachable through ``refs/cn/keep/<clone>``.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime

from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree, list_refs, read_info, resolve
from cn.git.process import Git
from cn.git.repository import Hub
from cn.protocol.ledger import IN, OUT
from cn.values.names import Name, Oid

PREFIX = "refs/cn/pins/"
_PLAIN = set("abcdefghijklmnopqrstuvwxyz0123456789-_")
_AS_IT_IS = re.compile(r"[a-z0-9_-]+")
_COMPONENT = re.compile(r"(?:[a-z0-9_-]|%[0-9a-f]{2})+|\+[0-9a-f]{64}")
_LONGEST = 180
_PARENTS = 500
Key = tuple[Name, str, str]
"""(peer, side, encoded topic)"""


def encode(topic: str) -> str:
    """A topic as one safe component of a ref name; a long one becomes ``+`` and a digest."""
    if len(topic) <= _LONGEST and _AS_IT_IS.fullmatch(topic):
        return topic
    data = topic.encode("utf-8", "surrogateescape")
    text = "".join(chr(b) if chr(b) in _PLAIN else f"%{b:02x}" for b in data)
    return text if len(text) <= _LONGEST else "+" + hashlib.sha256(data).hexdigest()


def decode(component: str, candidates: Iterable[str] = ()) -> str | None:
    """The topic of an encoded component; a digest is looked up among ``candidates``."""
    if component.startswith("+"):
        return next((c for c in candidates if encode(c) == component), None)
    parts = component.split("%")
    data = parts[0].encode() + b"".join(bytes([int(p[:2], 16)]) + p[2:].encode() for p in parts[1:])
    return data.decode("utf-8", "surrogateescape")


def pin_ref(peer: Name, side: str, topic: str) -> str:
    """The full name of a pin."""
    return f"{PREFIX}{peer}/{side}/{encode(topic)}"


def read_pins(git: Git) -> dict[Key, Oid]:
    """All pins."""
    found: dict[Key, Oid] = {}
    for ref, oid in list_refs(git, PREFIX).items():
        key = parse_pin(ref)
        if key is not None:
            found[key] = oid
    return found


def parse_pin(ref: str) -> Key | None:
    """Whose pin it is; None for a ref that cn did not write."""
    parts = ref.removeprefix(PREFIX).split("/")
    if len(parts) != 3 or parts[1] not in (IN, OUT) or not _COMPONENT.fullmatch(parts[2]):
        return None
    return Name(parts[0]), parts[1], parts[2]


def keep(hub: Hub, heads: Iterable[Oid], at: datetime) -> tuple[str, Oid] | None:
    """A commit that keeps ``heads`` alive for ever, and the ref it belongs to."""
    unique = list(dict.fromkeys(heads))
    infos = zip(unique, read_info(hub.git, unique), strict=True)
    parents = [head for head, info in infos if info is not None and info.kind == "commit"]
    if not parents:
        return None
    ref = f"refs/cn/keep/{clone_id(hub)}"
    last = resolve(hub.git, ref)
    tree = empty_tree(hub.git)
    for start in range(0, len(parents), _PARENTS):
        batch = ([last] if last else []) + parents[start : start + _PARENTS]
        last = commit_tree(hub, tree, batch, "cn: reviewed", at, unsigned=True)
    assert last is not None
    return ref, last


def clone_id(hub: Hub, *, make: bool = True) -> str:
    """A random name of this clone, kept in its git config (``cn.clone``); empty if it has none to be made."""
    known = hub.config.last("cn.clone", "local")
    known = known or hub.git.run("config", "--local", "--get", "cn.clone", check=False).text  # made meanwhile
    if not known and make:
        known = secrets.token_hex(4)
        hub.git.run("config", "--local", "cn.clone", known)
    return known
