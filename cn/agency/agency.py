"""Agency of a hub, opened: where its records are, who the person is, and how much there may be.

git's configuration of the clone says what is not in the records: ``agency.user``, ``agency.depth``,
``agency.underlings``, ``agency.outcomes``, ``agency.agents``, ``agency.unread``,
``agency.megabytes``, ``agency.remote``.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from typing import NamedTuple

from cn.agency.names import NOT_USERS, Party, user
from cn.agency.operations import ByUser, Limits
from cn.agency.store.repository import Places
from cn.agency.store.store import Store, open_store
from cn.git.repository import Hub
from cn.values.errors import ConfigError
from cn.values.names import is_name
from cn.values.shell_words import command
from cn.values.text import one_line, redact, slug

_DIGITS = 12
_SHOWN = 40
_LIMITS = {
    "depth": "depth",
    "underlings": "underlings",
    "open_outcomes": "outcomes",
    "agents": "agents",
    "unread": "unread",
    "megabytes": "megabytes",
}


class Misread(NamedTuple):
    """A limit that git's configuration sets to what is no number, and what holds in its place."""

    key: str
    text: str
    holds: int

    @property
    def what(self) -> str:
        """In words."""
        return f"{self.key} is {self.text!r}, which is no number from 1: {self.holds} holds"

    @property
    def remedy(self) -> str:
        """What sets it right."""
        return f"{command('git config {} N', self.key)} sets it"

    @property
    def told(self) -> str:
        """Both."""
        return f"{self.what}; {self.remedy}"


class Agency(NamedTuple):
    """What commands work with. ``person`` is who types them."""

    hub: Hub
    store: Store
    person: ByUser
    limits: Limits
    misread: tuple[Misread, ...] = ()

    @property
    def me(self) -> Party:
        """The person, as one to whom mail is sent."""
        return user(self.person.name)

    def allowed_secrets(self) -> Collection[str]:
        """The fingerprints that the hub's configuration lets pass; it is read when one is found."""
        from cn.run.settings import read_settings

        return read_settings(self.hub, "HEAD").config.allowed_secrets

    def follow(self) -> None:
        """Let packing and the copy follow what was written, in a process of their own that nobody waits for."""
        from cn.agency.store.behind import start
        from cn.agency.store.copies import copy_url

        url = copy_url(self.hub)
        start(self.store.repository, url if isinstance(url, str) else "")


def places_of(hub: Hub) -> Places:
    """Where a hub's records are."""
    return Places(hub.state)


def open_agency(hub: Hub) -> Agency:
    """Raises :class:`ConfigError` where the hub has none yet, or ``agency.user`` makes no sense; ``Refused`` where a
    restore was cut off. A limit that makes no sense keeps nobody from what ends something.
    """
    places = places_of(hub)
    if places.building.exists():
        from cn.agency.store.copies import refuse_unfinished

        refuse_unfinished(places)
    if not places.repository.exists() and (url := hub.config.last("agency.remote")):
        from cn.agency.store.copies import copy_from
        from cn.agency.store.damage import brings_back

        where = copy_from(hub.config.url(url, push=True), hub.root)
        restore = command("cn agency restore {}", redact(where))
        remedy = "; ".join(filter(None, (f"{restore} brings back what agency.remote holds", brings_back(places))))
        raise ConfigError(f"there is no Agency in {places.state}", remedy)
    return Agency(hub, open_store(places, hub.identity), person_of(hub), *read_limits(hub))


def person_of(hub: Hub) -> ByUser:
    """Who works here: ``agency.user``, else the name of the account."""
    told = hub.config.last("agency.user")
    if told and not is_name(told):
        raise ConfigError(f"agency.user is {told!r}, which is no name", "set it to lower-case letters and digits")
    if told in NOT_USERS:
        raise ConfigError(
            f"agency.user is {told!r}, which would pass for another than a user", "set it to another name"
        )
    return ByUser(told or _account())


def _account() -> str:
    try:
        name = slug(pwd.getpwuid(os.geteuid()).pw_name, 40, "owner")
    except KeyError:  # a container's number without a name
        name = "owner"
    return name if is_name(name) and name not in NOT_USERS else "owner"


def read_limits(hub: Hub) -> tuple[Limits, tuple[Misread, ...]]:
    """How much there may be, by git's configuration. In the place of what is no number, what cn has holds."""
    found, misread = {}, []
    for name, key in _LIMITS.items():
        text = hub.config.last(f"agency.{key}")
        if text and len(text) <= _DIGITS and text.isascii() and text.isdigit() and int(text):
            found[name] = int(text)
        elif text:
            misread.append(Misread(f"agency.{key}", one_line(text, _SHOWN), getattr(Limits(), name)))
    return Limits(**found), tuple(misread)


def check_limits(agency: Agency) -> None:
    """Raise :class:`ConfigError` where one is no number: who starts agents has to know."""
    if agency.misread:
        one = agency.misread[0]
        raise ConfigError(f"{one.key} is {one.text!r}, which is no number from 1", one.remedy)
