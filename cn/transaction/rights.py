"""May we write there? Tried with refs that are made, forced and deleted at once.

A note tells which were begun, so that the next run deletes what a killed one left.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree, resolve
from cn.git.remote import RefResult, Result, list_refs_of, push_refs
from cn.git.repository import Hub
from cn.system.clock import now
from cn.system.files import drop, read_regular, write_file
from cn.values.names import Oid
from cn.values.text import redact

_RIGHTS = ("create", "force", "delete")
_MOST_SWEEPS = 5
_NOTE = "tried"


class Missing(NamedTuple):
    """The first right that a host does not give below a prefix, and why; ``told``: the host itself said so.

    ``stays`` is the ref that was made, and could not be deleted.
    """

    right: str
    reason: str
    told: bool
    stays: str = ""


class Tried(NamedTuple):
    """The refs that were begun at one remote, and how often one was to delete them in vain."""

    sweeps: int
    refs: list[str]


def try_rights(
    hub: Hub, url: str, prefixes: Collection[str], seconds: float, known: Oid | None = None
) -> dict[str, Missing]:
    """Which of ``prefixes`` (such as ``refs/heads/pi/``) of a remote are not ours to create, force and delete in.

    It is tried with ``known``, a commit that the remote has, and its parent. Where there are none, three objects of a
    few bytes stay there until the host cleans up. Raises :class:`Blocked` where nothing can be noted.
    """
    token = secrets.token_hex(4)
    refs = {prefix: f"{prefix}cn-check-{token}" for prefix in prefixes}
    tips, before = _tips(hub, known), _read(hub)
    earlier = before[url].refs if url in before else []
    _write(hub, {**before, url: Tried(0, [*earlier, *refs.values()])})
    made: set[str] = set()
    missing: dict[str, Missing] = {}
    for right, new in zip(_RIGHTS, (*tips, None), strict=True):
        if new is None:
            missing |= _not_there(hub, url, {p: refs[p] for p in refs if p not in missing}, tips[1], seconds)
        asked = {refs[p]: new for p in refs if (refs[p] in made if new is None else p not in missing)}
        asked |= dict.fromkeys(earlier, None) if new is None else {}
        told = push_refs(hub.git, url, asked, seconds) if asked else {}
        made |= {ref for ref, one in told.items() if one.result is not Result.REJECTED}
        for prefix, ref in refs.items():
            if ref in told and told[ref].result is not Result.DONE:
                missing.setdefault(prefix, _missing(right, told[ref]))
                if right == _RIGHTS[-1]:
                    missing[prefix] = missing[prefix]._replace(stays=ref)
    others = {place: rest for place, rest in _read(hub).items() if place != url}
    left = [ref for ref in earlier if ref in told and told[ref].result is not Result.DONE]
    left += [one.stays for one in missing.values() if one.stays]
    if all(one.told for one in missing.values()):
        _write(hub, {**others, url: Tried(0, left)} if left else others)
    return missing


def _not_there(hub: Hub, url: str, refs: Mapping[str, str], tip: Oid, seconds: float) -> dict[str, Missing]:
    """Of which prefixes the host said that all was done, and its listing does not show it."""
    there = list_refs_of(hub.git, url, list(refs.values()), seconds) if refs else {}
    if isinstance(there, str):
        return {prefix: Missing("create", redact(there), told=False) for prefix in refs}
    lost = {prefix: ref for prefix, ref in refs.items() if there.get(ref) != tip}
    return {
        p: Missing("create", f"the host said that {ref} is set, and does not list it", True) for p, ref in lost.items()
    }


def _tips(hub: Hub, known: Oid | None) -> tuple[Oid, Oid]:
    """Two commits, of which the second is not built upon the first."""
    before = resolve(hub.git, f"{known}~1") if known else None
    if known and before:
        return known, before
    tree = empty_tree(hub.git)
    one, two = (commit_tree(hub, tree, (), f"cn: may we {what} here?", now(), unsigned=True) for what in _RIGHTS[:2])
    return one, two


def _missing(right: str, told: RefResult) -> Missing:
    return Missing(right, redact(told.reason), told.result is Result.REJECTED)


def sweep_tried(hub: Hub, seconds: float) -> None:
    """Delete what a killed try left at remotes. One that does not answer again and again is left alone; one that says
    no is, until what it allows is tried again.
    """
    left: dict[str, Tried] = {}
    for url, tried in _read(hub).items():
        if tried.sweeps >= _MOST_SWEEPS:
            left[url] = tried
            continue
        told = push_refs(hub.git, url, dict.fromkeys(tried.refs), seconds)
        last = tried.sweeps + 1 == _MOST_SWEEPS
        stays = (Result.REJECTED,) if last else (Result.REJECTED, Result.UNKNOWN)
        if there := [ref for ref, one in told.items() if one.result in stays]:
            left[url] = Tried(tried.sweeps + 1, there)
    _write(hub, left)


def has_tried(hub: Hub) -> bool:
    """Was a try cut off, and is it swept still?"""
    if not _path(hub).exists():
        return False
    found = _read(hub)
    return not found or any(tried.sweeps < _MOST_SWEEPS for tried in found.values())


def _path(hub: Hub) -> Path:
    return hub.state / _NOTE


def _read(hub: Hub) -> dict[str, Tried]:
    """What is noted for each URL; of what is no such note nothing."""
    try:
        plain = json.loads(read_regular(_path(hub)) or b"")
        found = {url: Tried(int(sweeps), [str(ref) for ref in refs]) for url, (sweeps, refs) in plain.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}
    return {url: one for url, one in found.items() if all("/cn-check-" in ref for ref in one.refs)}


def _write(hub: Hub, note: Mapping[str, Tried]) -> None:
    if note:
        write_file(_path(hub), json.dumps(note).encode(), mode=hub.private_mode)
    else:
        drop(_path(hub))
