"""What a hub that is shared with a group (``core.sharedRepository``, git-config(1)) does not give to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from cn.doctor.finding import Finding, Fix, HubFacts, Step, problem
from cn.git.repository import Hub, shares_with_group
from cn.system.closed import foreign_below, owner_of, taking
from cn.transaction.lock import find_links
from cn.values.shell_words import command
from cn.values.text import counted, visible

_TREES = ("threads", "state", "logs", ".cn", "spec")
"""Where cn writes in the work tree, beside what merges bring."""
_READERS = "readers-"
_OWNERS = ("agency", "web.", "web-", _READERS)
"""How the names in ``.git/cn`` begin that are for their owner alone, also there."""
_FILE, _FOLDER = 0o060, 0o070
_NAMED = 5


def check_group(facts: HubFacts) -> Iterator[Finding]:
    """Whoever shares the hub can read and write all that runs read and write."""
    hub = facts.hub
    if not shares_with_group(hub.config.last("core.sharedrepository")):
        yield from _closed_to_us(hub)
        return
    closed: dict[int, list[Path]] = {}
    for path in _places(hub):
        with suppress(OSError):
            state = path.lstat()
            if _is_closed(state, hub.git_dir.stat().st_gid):
                closed.setdefault(state.st_uid, []).append(path)
    for uid, paths in closed.items():
        mine = uid == os.geteuid()
        names = ", ".join(visible(os.path.relpath(path, hub.root)) for path in paths[:3])
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        owner = "yours" if mine else f"{visible(owner_of(paths[0]))}'s"
        what = f"{counted(len(paths), 'place')} of {owner} in this hub, which is shared, cannot be written by its group"
        remedy = _words(hub, paths)
        given = "give the group what it lacks of yours"
        yield problem(
            f"{what}: {names}{more}",
            "a run of somebody else's stops there, or does not see what was decided",
            f"'cn doctor --fix' does {remedy}" if mine else f"let {visible(owner_of(paths[0]))} run {remedy}",
            Fix(Step.SWEEP, given, partial(_give, paths=paths)) if mine else None,
        )


def _closed_to_us(hub: Hub) -> Iterator[Finding]:
    """What another user, root by one ``sudo``, left in cn's own folder."""
    found = foreign_below(hub.state) if hub.state.is_dir() and not find_links(hub.state) else []
    found = [path for path in found if not path.name.startswith(_READERS)]  # which nobody else needs
    if found:
        names = ", ".join(visible(os.path.relpath(path, hub.root)) for path in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        owner = visible(owner_of(found[0]))
        closed = f"{counted(len(found), 'place')} in cn's own folder cannot be read or written by you, but {owner}"
        yield problem(f"{closed}: {names}{more}", "what needs them stops there", taking(found[0]))


def _words(hub: Hub, paths: list[Path]) -> str:
    """The command for their owner; of very many the one that opens them all."""
    group, some = str(hub.git_dir.stat().st_gid), list(map(str, paths[:_NAMED]))
    if len(paths) > _NAMED:
        return command("cn --hub {} doctor --fix", str(hub.root))
    wrong = [str(path) for path in paths[:_NAMED] if path.lstat().st_gid != hub.git_dir.stat().st_gid]
    opens = "; ".join(command("chmod g+rwX -- {}", one) for one in some)
    gives = "; ".join(command("chgrp {} -- {}", group, one) for one in wrong)
    return f"{gives}, then {opens}" if wrong else opens


def _places(hub: Hub) -> Iterator[Path]:
    """The folders of the hub, and all in those in which cn works."""
    yield from (hub.root, hub.git_dir)
    for name in _TREES:
        yield from _below(hub.root / name)
    yield hub.state
    with suppress(OSError):
        for path in sorted(hub.state.iterdir()):
            if not path.name.startswith(_OWNERS):
                yield from _below(path)


def _below(path: Path) -> Iterator[Path]:
    yield path
    if not path.is_symlink():
        for here, folders, names in os.walk(path):
            yield from (Path(here) / name for name in (*folders, *names))


def _is_closed(state: os.stat_result, group: int) -> bool:
    if stat.S_ISLNK(state.st_mode):
        return False
    needed = _FOLDER if stat.S_ISDIR(state.st_mode) else _FILE
    return state.st_mode & needed != needed or state.st_gid != group


def _give(hub: Hub, stamp: str, *, paths: list[Path]) -> str:
    """As git gives what it makes itself; a folder passes its group on to what is made in it (inode(7))."""
    group = hub.git_dir.stat().st_gid
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.lstat()
            if state.st_gid != group:
                os.chown(path, -1, group, follow_symlinks=False)
            more = _FOLDER | stat.S_ISGID if stat.S_ISDIR(state.st_mode) else _FILE
            path.chmod(stat.S_IMODE(state.st_mode) | more)
    return f"gave {counted(len(paths), 'place')} of yours to the group with which this hub is shared"
