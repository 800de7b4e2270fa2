"""A hub whose main has another name now: each clone stops until it is there too, for two mains decide everything twice.

The hub file says which branch is main (``docs/protocol/hub.md``). Who renames it brings that commit to the former main
at origin as well, or deletes that one, so that no clone goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cn.git.fetch import fetch_tips
from cn.git.lost_branch import rename_steps
from cn.git.merge_steps import merge_step
from cn.git.objects import is_ancestor, merge_bases, read_all, resolve
from cn.git.remote import HEADS, Listing, ask_heads
from cn.git.repository import Hub
from cn.git.told import ORIGIN
from cn.protocol.hub_config import PATH, main_named_in
from cn.values.errors import Blocked
from cn.values.names import Oid, is_branch
from cn.values.shell_words import command
from cn.values.text import visible

_SECONDS = 60.0
_KEEPS = "'cn commit' for what is written in threads here"
_MOST = 50
"""Branches that are looked at for a main that is gone."""


class Origin(NamedTuple):
    """Origin's branches as they were listed, and how to ask for all of them; ``known`` is what its main was."""

    url: str
    known: Oid | None
    heads: Listing
    ask: Callable[[], Listing]

    def all(self) -> Listing:
        """Also those that nobody asked for."""
        return self.heads if self.heads.whole else self.ask()


def refuse_moved(hub: Hub, origin: Origin, tip: Oid) -> None:
    """Raises :class:`Blocked` where origin's main, now at ``tip``, says that another branch is main; or where it became
    main in the place of another, which other clones go on with.
    """
    named, was = _mains_at(hub, tip, origin.known or tip)
    if named not in ("", hub.main) and is_branch(named) and (there := origin.all().get(named)):
        _bring(hub, origin.url, [(named, there)])
        if _mains_at(hub, there) == [named]:
            raise _goes_on(hub, named)
        # Else no hub goes on there, and the line is a change as any other.
    was = was if named else ""
    there = origin.all().get(was) if was not in ("", hub.main) and is_branch(was) else None
    if there is None:
        return
    _bring(hub, origin.url, [(was, there)])
    if _mains_at(hub, there) == [was]:
        text = f"the hub's main is {hub.main} now, and origin has {visible(was)} still, with which other clones go on"
        tells = command("git push origin {}", f"{hub.main_ref}:{HEADS}{was}")
        deletes = command("git push origin :{}", HEADS + was)
        hint = f"{tells} tells them, and stops them until they are there too; then {deletes}, once the host's HEAD "
        hint += f"names {hub.main}: a peer that did not read {visible(was)} meanwhile is told so by its own cn"
        if not is_ancestor(hub.git, there, tip):
            hint = f"{_take_in(hub, was)}; then {hint}"
        raise Blocked(text, hint)


def find_moved(hub: Hub, origin: Origin, known: Oid) -> Blocked | None:
    """Origin has no main any more: what helps where another branch there goes on from it and says that it is main now,
    or this clone says so of one that is not there yet.
    """
    heads, (was,) = origin.all(), _mains_at(hub, known)
    if was not in ("", hub.main):
        text = f"the hub's main is {hub.main} now, and origin has no such branch yet"
        here, both = command("git push origin {}", hub.main_ref), ""
        if was in heads:
            tells = command("git push origin {}", f"{hub.main_ref}:{HEADS}{was}")
            both = f"; {tells} tells those that go on with {visible(was)}"
        return Blocked(text, f"{here} brings it there{both}")
    _bring(hub, origin.url, _looked_at(heads))
    found = [one for one in _looked_at(heads) if resolve(hub.git, one[1]) is not None]
    for (name, oid), named in zip(found, _mains_at(hub, *(oid for _, oid in found)), strict=True):
        if named == name and is_ancestor(hub.git, known, oid):
            return _goes_on(hub, name)
    return None


def find_left_behind(hub: Hub, tip: Oid, url: str, ask: Callable[[], Listing]) -> list[tuple[str, str]]:
    """The former mains that origin has still and that hold commits which main, at ``tip``, lacks: somebody pushes there
    by git alone, and no run reads it. What to do about each. Origin is asked where main had another name once.
    """
    log = hub.git.run("log", "--format=%H", "--no-renames", tip, "--", PATH, check=False)
    names = set(_mains_at(hub, *map(Oid, log.text.split()))) - {"", hub.main} if log.ok else set[str]()
    heads = ask() if names else Listing()
    left = [(name, heads[name]) for name in sorted(names) if name in heads]
    _bring(hub, url, left)
    found = [name for name, oid in left if resolve(hub.git, oid) is None or not is_ancestor(hub.git, oid, tip)]
    return [(name, f"{_take_in(hub, name)}; then {command('git push origin :{}', HEADS + name)}") for name in found]


def _take_in(hub: Hub, was: str) -> str:
    take = (
        command("git fetch origin {}", HEADS + was),
        merge_step(hub, "FETCH_HEAD"),
        command("git push origin {}", hub.main_ref),
    )
    return f"{', then '.join(take)} take in what they did"


def _bring(hub: Hub, url: str, branches: Sequence[tuple[str, Oid]]) -> None:
    lacks = [one for one in branches if resolve(hub.git, one[1]) is None]
    if lacks:
        fetch_tips(hub.git, {"": (url, lacks)}, _SECONDS, told={"": ORIGIN})


def find_renamed(hub: Hub, origin: Origin, known: Oid) -> tuple[str, str]:
    """Where main is gone at origin, and a branch there goes on from it, as where a host renamed it: that, and what to
    do if so; empty: there is none.
    """
    heads = _looked_at(origin.all())
    head = _ask_head(hub, origin) if heads else None
    first = head[0] if isinstance(head, tuple) else ""  # of several that hold it the default branch is meant
    for name, oid in sorted(heads, key=lambda one: one[0] != first):
        if is_ancestor(hub.git, known, oid):
            steps = f"; if main was renamed there: {rename_steps(hub, name)}"
            return f", and its branch {visible(name)} goes on from it", steps
    return "", ""


def refuse_renamed(hub: Hub, origin: Origin, local: Oid) -> None:
    """Raises :class:`Blocked` where origin lacks main, of which this clone never knew one there, and its HEAD names a
    branch of this very hub: a host renamed main, and to make it anew would give the hub two.
    """
    heads = _looked_at(origin.all())
    head = _ask_head(hub, origin) if heads else None
    if isinstance(head, str):
        raise Blocked(f"origin has no {hub.main}, and does not say what its HEAD names: {head}", "run again later")
    name = head[0] if head is not None else ""
    tip = dict(heads).get(name)
    if tip is None:
        return
    _bring(hub, origin.url, [(name, tip)])
    if resolve(hub.git, tip) is None or not merge_bases(hub.git, local, tip):
        return
    (named,) = _mains_at(hub, tip)
    if named in (hub.main, name):
        text = f"origin has no {hub.main}, and its HEAD names {visible(name)}, which is this hub's too"
        push = command("git push origin {}", hub.main_ref)
        raise Blocked(text, f"if main was renamed there: {rename_steps(hub, name)}; else {push} brings it there")


def _ask_head(hub: Hub, origin: Origin) -> tuple[str, Oid] | str | None:
    """As :func:`ask_heads` answers."""
    return ask_heads(hub.git, [origin.url], _SECONDS)[origin.url]


def _goes_on(hub: Hub, name: str) -> Blocked:
    text = f"origin's hub goes on in the branch {visible(name)}, which its {PATH} names as main"
    steps = [_KEEPS, "'git fetch origin'", command("git switch {}", name), merge_step(hub, hub.main_ref)]
    return Blocked(text, f"{', then '.join(steps)}; then run again")


def _looked_at(heads: Listing) -> list[tuple[str, Oid]]:
    return [(name, oid) for name, oid in heads.items() if "/" not in name][:_MOST]


def _mains_at(hub: Hub, *commits: Oid) -> list[str]:
    """Which branch the hub file of each commit names as main; empty: it has none that can be read."""
    files = read_all(hub.git, [f"{commit}:{PATH}" for commit in commits])
    return [main_named_in(found.data) if found is not None else "" for found in files]
