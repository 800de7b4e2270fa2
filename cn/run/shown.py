"""Which head of a thread this clone showed last: what a person decides by a command is what they have read.

Between a look and a decision a branch may move, and a sync of cron's bring the thread up to date without a word. So
a command that shows a thread notes its head in a file below ``.git/cn/shown/``, named as the thread; a decision about
another head is refused. It is of this clone alone. Losing a note costs the check, never a decision.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from contextlib import suppress

from cn.git.repository import Hub
from cn.system.files import read_regular, write_file
from cn.values.errors import Blocked, Refused, UsageError
from cn.values.names import Oid, is_oid
from cn.values.shell_words import command

FOLDER = "shown"
"""The folder below ``.git/cn``. It holds no more than one file for each thread that waits, or did a day ago."""
_LONGEST = 100


def note_shown(hub: Hub, thread: str, head: str) -> None:
    """Note that the thread was shown with this head. What cannot be noted keeps nobody from looking."""
    if head and read_shown(hub, thread) != head:
        with suppress(Blocked):
            write_file(hub.state / FOLDER / thread, f"{head}\n".encode(), mode=hub.private_mode)


def read_shown(hub: Hub, thread: str) -> Oid | None:
    """The head that was shown last; None: none that is known."""
    data = read_regular(hub.state / FOLDER / thread, _LONGEST) or b""
    text = data.decode("ascii", "replace").strip()
    return Oid(text) if is_oid(text) else None


def check_head(text: str) -> str:
    """A head as somebody says it, at least seven digits of it; raises :class:`UsageError`."""
    if text and not re.fullmatch(r"[0-9a-f]{7,64}", text):
        raise UsageError("--head takes the id of a commit, seven digits of it or more", "'cn inbox show' tells it")
    return text


def refuse_unseen(hub: Hub, source: str, thread: str, head: str, said: str = "") -> None:
    """Raise :class:`Refused` where the thread is at another head than who decides has ``said``, or was shown here."""
    look = command("cn inbox show {}", source)
    if said:
        if not head.startswith(said):
            raise Refused(f"{source} is at {head[:8]}, not at {said[:8]}: nothing was decided", f"look at it: {look}")
        return
    shown = read_shown(hub, thread)
    if shown is not None and shown != head:
        raise Refused(
            f"{source} has moved since it was shown: from {shown[:8]} to {head[:8]}; nothing was decided",
            f"{look} shows what is there now; '--head {head[:8]}' decides about that",
        )


def sweep_shown(hub: Hub, waiting: Container[str]) -> None:
    """Remove the notes of threads that wait no more."""
    folder = hub.state / FOLDER
    with suppress(OSError):
        for name in os.listdir(folder):
            if name not in waiting:
                with suppress(OSError):
                    os.unlink(folder / name)
