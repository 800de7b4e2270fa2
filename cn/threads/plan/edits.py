"""Which edits ``cn commit`` takes from cn's folders, and why it leaves the rest.

People edit threads of their own, drafts, and notes in pending threads. All else in these folders
is cn's, and main decides there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from cn.protocol.layout import DRAFTS, INBOX
from cn.protocol.own_thread import ADHOC, CONCERNS, is_own
from cn.protocol.queue_item import REFLECTIONS
from cn.values.names import HubPath, is_machine_local, is_protected
from cn.values.report import Mark
from cn.values.shell_words import command
from cn.values.text import is_plain

FOLDERS = ("threads", "logs", "state")
MOST = 1 << 20
"""The largest file that is committed, in bytes."""
_CNS = ("logs/", "threads/mail/", "threads/inbox/done/", "state/")
_LEFTOVER = re.compile(r"(\..*|.*~|#.*#|.*\.(swp|swo|orig|rej|tmp))", re.DOTALL)


class Kind(Enum):
    """What lies at a path of the work tree."""

    FILE = "a file"
    MISSING = "nothing"
    FOLDER = "a folder"
    LINK = "a symlink"
    REPOSITORY = "a git repository of its own"
    OTHER = "no regular file"
    BLOCKED = "behind something that is no folder"


@dataclass(frozen=True)
class Edit:
    """One path where index or work tree differ from HEAD; ``size`` in bytes, of a file."""

    path: str
    kind: Kind
    size: int = 0
    tracked: bool = True


@dataclass(frozen=True)
class Left:
    """Something that is not committed: why, and the next step. INFO: that is as it should be."""

    path: str
    why: str
    remedy: str = ""
    mark: Mark = Mark.REFUSED


def judge(edit: Edit, pending: Collection[str]) -> HubPath | Left | None:
    """The path, if its working state may be committed; None is left alone without a word.

    ``pending`` are the paths of the pending threads.
    """
    path = edit.path
    if is_protected(path):
        commit = command("git commit -- {}", path)
        if not edit.tracked:
            commit = command("git add -- {} && git commit -- {}", path, path)
        return Left(path, f"is protected: people commit it with git: {commit}", mark=Mark.INFO)
    if is_machine_local(path) or any(_LEFTOVER.fullmatch(part) for part in path.split("/")):
        return None
    if path.startswith(f"{DRAFTS}/") and not edit.tracked:
        return Left(path, "is no draft of cn's", "move it elsewhere, for example to threads/adhoc/")
    if not (_is_mine(path) or path.startswith(f"{INBOX}/")) or path.startswith(f"{INBOX}/done/"):
        what = "is cn's, and main decides there" if path.startswith(_CNS) else "is no thread"
        return Left(path, what, mark=Mark.INFO)
    if path.startswith(f"{INBOX}/") and path not in pending:
        return Left(path, "is no thread cn knows", "move it elsewhere, for example to threads/adhoc/")
    if not is_plain(path):
        return Left(path, "has a name with characters that do not show", "rename it")
    return _judge_kind(edit)


def _judge_kind(edit: Edit) -> HubPath | Left:
    path = edit.path
    match edit.kind:
        case Kind.MISSING if path.startswith(f"{INBOX}/"):
            return Left(path, "is missing here and stays pending; 'cn sync' puts it back", mark=Mark.INFO)
        case Kind.MISSING if path.startswith(f"{CONCERNS}/"):
            remedy = f"{command('git checkout -- {}', path)} brings it back, then 'cn mca done' ends it"
            return Left(path, "is missing here, but the concern is open", remedy)
        case Kind.FILE if edit.size > MOST:
            return Left(path, f"has {edit.size} bytes, more than {MOST}", "keep it elsewhere, or commit it with git")
        case Kind.FILE | Kind.MISSING:
            return HubPath(path)
        case _:
            return Left(path, f"is {edit.kind.value}", "put a plain file in its place, or move it away")


def _is_mine(path: str) -> bool:
    """Do people edit here: adhoc threads and what lies beside them, reflections, open concerns, drafts?"""
    concern = path.rpartition("/")[0] == CONCERNS and (is_own(path) or not is_plain(path))
    return concern or path.startswith((f"{ADHOC}/", f"{REFLECTIONS}/", f"{DRAFTS}/"))
