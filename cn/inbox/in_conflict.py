"""What git left in conflict in cn's folders, in words: git commits and pulls nothing before somebody settles it."""

from __future__ import annotations

from collections.abc import Collection

from cn.git.objects import read_objects
from cn.git.repository import Hub
from cn.git.unmerged import find_unmerged
from cn.inbox.working_copies import own_decision
from cn.protocol.layout import DONE, INBOX
from cn.run.memory import Condition
from cn.run.settings import Settings
from cn.system.files import read_below
from cn.values.names import HubPath, ThreadName, main_decides
from cn.values.shell_words import command
from cn.values.text import visible

_LARGEST = 8 << 20
_MARK = b"<<<<<<<"


def find_conflicts(hub: Hub, settings: Settings | None, pending: Collection[ThreadName]) -> list[Condition]:
    """Each path with what settles it. Where a merge or rebase of git's is open these are its own matter, and it is told
    as that.
    """
    paths = find_unmerged(hub)
    if not paths:
        return []
    from cn.transaction.base import open_work  # few looks find any

    return [] if open_work(hub) else [_told(hub, settings, HubPath(path), pending) for path in paths]


def _told(hub: Hub, settings: Settings | None, path: HubPath, pending: Collection[ThreadName]) -> Condition:
    text = f"{visible(path)} is in conflict in git's index: git commits and pulls nothing before that is settled"
    data = read_below(hub.root, path, _LARGEST) or b""
    marked = any(line.startswith(_MARK) for line in data.split(b"\n"))
    folder, _, name = path.rpartition("/")
    if folder == DONE and settings is not None and (lost := _decision(hub, settings, path, data)):
        text += f"; {lost} in it decides nothing, the thread has ended"
    if folder == INBOX and ThreadName(name) in pending and marked:
        return Condition(
            text, "'cn inbox process' settles it: what was decided there is void, and quoted in the thread"
        )
    if main_decides(path):
        back = command("git restore --source=HEAD --staged --worktree -- {}", path)
        return Condition(text, f"{back} brings main's; what a stash had there is in the stash still")
    settles = f"{command('git add -- {}', path)} settles it"
    return Condition(text, f"take git's marks out of it, then {settles}" if marked else settles)


def _decision(hub: Hub, settings: Settings, path: HubPath, data: bytes) -> str:
    from cn.run.secret_gate import without_secrets
    from cn.secrets.scanner import own_lines

    (main,) = read_objects(hub.git, [f"{hub.main_ref}:{path}"])
    found = own_decision(data, main or b"", mains=False)
    return without_secrets(found, settings, own_lines(path, data.decode("utf-8", "replace"))) if found else ""
