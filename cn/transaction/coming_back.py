"""The commands that bring cn's files back to a project that left cn (``docs/leaving.md``).

They bring what this clone would take as main, and of records what stood there last. git-revert(1) of the commit that
took them out is none of them: it brings what was before that commit, which is for whoever made it to choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from cn.git.entries import list_entries, read_changes
from cn.git.objects import is_ancestor, read_info, resolve
from cn.git.process import Git
from cn.git.removals import Removal
from cn.git.repository import Hub
from cn.protocol.hub_config import PATH as HUB
from cn.transaction.protected_files import TRUSTED_REF, is_accepted
from cn.values.names import OWNED, Oid, is_protected
from cn.values.shell_words import command

_FOLDERS = (".cn", *OWNED)
"""In these, what the project has none of is brought back as a whole."""
_SHARED = ("skills", "spec")
"""These folders may have files of the project's own."""


def coming_back(hub: Hub, known: Oid | str, commits: Sequence[Removal], now: Oid | str) -> list[str]:
    """The commands that bring back what ``now`` lacks, and commit it. ``known`` has the hub, ``commits`` are those that
    took something out since, the newest first.
    """
    known = resolve(hub.git, known) or Oid(known)
    last, trusted = _last_with_hub(hub.git, commits), resolve(hub.git, TRUSTED_REF)
    if last is None or not is_ancestor(hub.git, known, last):  # who took it out chose what was before
        last = known
    goes_on = trusted is None or (is_ancestor(hub.git, trusted, last) and is_accepted(hub, last, trusted))
    pages = last if trusted is None or goes_on else trusted
    records = pages if hub.config.is_true("cn.guard") else last
    return [*bring_back(hub.git, records, pages, now), command("git commit -m {}", "restored")]


def _last_with_hub(git: Git, commits: Sequence[Removal]) -> Oid | None:
    """The state before the last commit that took the hub's configuration out."""
    for one in commits:
        before = resolve(git, f"{one.commit}^1")
        has = read_info(git, [f"{one.commit}^1:{HUB}", f"{one.commit}:{HUB}"])
        if before and has[0] is not None and has[1] is None:
            return before
    return None


def bring_back(git: Git, records: Oid, pages: Oid, now: Oid | str) -> list[str]:
    """The commands that bring the files of cn which these commits have and ``now`` has not: the protected ones of
    ``pages``, all others of ``records``.
    """
    gone = {c.path: c.old for c in read_changes(git, records, now) if c.of_files.new is None}
    protected = {
        c.path: c.old for c in read_changes(git, pages, now) if c.of_files.new is None and is_protected(c.path)
    }
    standing = {folder for path in list_entries(git, now, (*_FOLDERS, *_SHARED)) for folder in _above(path)}
    unknown = [path for path in gone if is_protected(path) and path not in protected]
    places = _places([path for path in gone if path not in unknown], standing)
    steps = [command("git checkout {} -- {}", records, place) for place in places]
    with_it = [path for path in unknown if not set(_above(path)).isdisjoint(places)]
    steps += [command("git rm -f -- {}", path) for path in with_it]
    other = [path for path, entry in protected.items() if gone.get(path) != entry]
    return [*steps, *(command("git checkout {} -- {}", pages, path) for path in other)]


def _places(gone: Sequence[str], standing: set[str]) -> list[str]:
    """The folders of cn of which nothing stands, and what is gone beside."""
    places = dict[str, bool]()
    for path in gone:
        top = path.partition("/")[0]
        if top in _FOLDERS or (top in _SHARED and top not in standing):
            places[next((one for one in _above(path) if one not in standing), path)] = True
        elif is_protected(path):
            places[path] = True
    return list(places)


def _above(path: str) -> list[str]:
    """The folders in which it lies, the outermost first."""
    names = path.split("/")[:-1]
    return ["/".join(names[: many + 1]) for many in range(len(names))]
