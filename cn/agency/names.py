"""The names in Agency's records: who, what, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, NewType, cast

from cn.values.errors import CnError
from cn.values.names import is_name
from cn.values.text import visible

Party = NewType("Party", str)
"""Who owns, commands or gets mail: the UUID of a handler, or ``user:<name>``."""
Uuid = NewType("Uuid", Party)
"""A version 4 UUID in lower case with dashes (RFC 9562); a handler has that of its root outcome."""
Actor = NewType("Actor", str)
"""Who did it: ``<handler>/<agent>``, ``<handler>/user:<name>``, ``user:<name>``, ``peer:<name>`` or ``system``."""

NO_ID: Final = Uuid(Party(""))
"""Names nothing."""
SYSTEM: Final = Actor("system")
NOT_USERS: Final = (SYSTEM, "peer")
"""What nobody who works here is called: others would take him for Agency itself, or for a peer."""
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_WHOLE = re.compile(_UUID)
_LINK = re.compile(rf"kb://({_UUID})", re.IGNORECASE)

OPEN: Final = "open"
COMPLETED: Final = "completed"
CLOSED: Final = "closed"

FILE: Final = "file"
MESSAGE: Final = "message"
OUTCOME: Final = "outcome"
STATE: Final = "state"
AUDIT: Final = "audit"
FILE_KINDS: Final = (FILE, MESSAGE, OUTCOME, STATE, AUDIT)

NO_LEVEL: Final = "none"
LEVELS: Mapping[str, tuple[str, ...]] = {
    "outcome": (NO_LEVEL, "read", "write"),
    "kb": (NO_LEVEL, "read", "write"),
    "mail": (NO_LEVEL, "send"),
    "handler": (NO_LEVEL, "stop"),
    "mcp": (NO_LEVEL, "use"),
    "repo": (NO_LEVEL, "clone", "push"),
}
"""Kind of resource → its levels, each of which includes those before it."""
GRANTABLE: Final = frozenset({"outcome", "kb", "mcp", "repo"})


class NameRefused(CnError):
    """A text that names nothing in Agency."""


class Resource(NamedTuple):
    """What access is about: ``kb:<uuid>``, ``outcome:<uuid>``, ``mcp:gmail``, ``repo:<name or URL>`` …"""

    kind: str
    name: str

    @property
    def uuid(self) -> Uuid:
        """Its name, where the kind has UUIDs."""
        return Uuid(Party(self.name))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def is_uuid(text: str) -> bool:
    """Is it a version 4 UUID as it is written here?"""
    return _WHOLE.fullmatch(text) is not None


def parse_uuid(text: str) -> Uuid:
    """A whole UUID; raises :class:`NameRefused`."""
    if not is_uuid(text):
        raise NameRefused(f"{visible(text)[:60]!r} is no UUID of version 4", "copy it whole, in lower case")
    return Uuid(Party(text))


def user(name: str) -> Party:
    """The party of a person; raises :class:`NameRefused`."""
    return parse_party(f"user:{name}")


def is_user(party: str) -> bool:
    """Is it a person, not a handler?"""
    return party.startswith("user:")


def parse_party(text: str) -> Party:
    """The UUID of a handler, or ``user:<name>``; raises :class:`NameRefused`."""
    if is_uuid(text) or (is_user(text) and is_name(text.removeprefix("user:"))):
        return Party(text)
    raise NameRefused(f"{visible(text)[:60]!r} is neither a handler nor a user", "write a UUID, or user:NAME")


def parse_actor(text: str) -> Actor:
    """Who did something; raises :class:`NameRefused`."""
    handler, slash, agent = text.partition("/")
    kind, _, name = agent.partition(":") if slash else text.partition(":")
    person = is_name(name) and (kind == "user" or (kind == "peer" and not slash))
    if (is_uuid(handler) and (is_uuid(agent) or person)) if slash else (person or text == SYSTEM):
        return Actor(text)
    raise NameRefused(
        f"{visible(text)[:90]!r} is no actor", "write HANDLER/AGENT, HANDLER/user:NAME, user:NAME, or system"
    )


def parse_resource(text: str) -> Resource:
    """A resource of a known kind with a name on one plain line; raises :class:`NameRefused`."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in LEVELS or not name or visible(name) != name or name != " ".join(name.split()):
        raise NameRefused(f"{visible(text)[:80]!r} is no resource", f"write KIND:NAME; kinds: {', '.join(LEVELS)}")
    if kind == "mail":
        parse_party(name)
    elif kind not in ("mcp", "repo"):
        parse_uuid(name)
    return Resource(kind, name)


def rank(resource: Resource, level: str) -> int:
    """A level as a number to compare, 0 for ``none``; raises :class:`NameRefused` for one that the kind has not."""
    levels = LEVELS[resource.kind]
    if level not in levels:
        raise NameRefused(f"{visible(level)[:40]!r} is no level of {resource.kind}", f"its levels: {', '.join(levels)}")
    return levels.index(level)


def links_in(text: str) -> tuple[Uuid, ...]:
    """The files that a text names as ``kb://UUID``, each once, in their order."""
    found = dict.fromkeys(map(str.lower, _LINK.findall(text)))  # no call for each: there may be hundreds of thousands
    return tuple(cast("dict[Uuid, None]", found))
