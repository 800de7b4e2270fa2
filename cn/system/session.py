"""Who reads: a process session (setsid(2)), such as a terminal's shell or one cron job; or a wake with all it starts.

A session is named by the boot of the machine, its number, and when its leader began (proc(5)): the system gives a
number again once nobody has it any more. Where there is no ``/proc``, the number alone names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from cn.system.files import is_alive

WOKEN = "CN_WOKEN"
"""Set for what a wake command starts, with a name for this one wake."""
_WAKE = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)")


def name_wake() -> str:
    """A name for one wake, as the value of :data:`WOKEN`."""
    return os.urandom(8).hex()


def user() -> int:
    """The user who reads, by number; what is noted of what they read is theirs alone."""
    return os.geteuid()


class Reader(NamedTuple):
    """A wake by its name; else a session: ``boot`` of the machine, ``number``, and ``began`` (0: not known)."""

    wake: str = ""
    boot: str = "0"
    number: int = 0
    began: int = 0

    def __str__(self) -> str:
        return f"wake-{self.wake}" if self.wake else f"{self.boot}-{self.number}-{self.began}"

    def is_same(self, other: Reader) -> bool:
        """Is it the same reader? Of a leader that ended before its children nobody knows any more when it began."""
        if self.wake or other.wake:
            return self.wake == other.wake
        began = self.began == other.began or not (self.began and other.began)
        return (self.boot, self.number) == (other.boot, other.number) and began

    def is_alive(self) -> bool:
        """Is there a process of this session yet? Of a wake nobody knows: it is not asked for."""
        if self.boot != _boot():
            return False
        began, state, _ = _look(self.number)
        if began and state != "Z":
            return not self.began or self.began == began
        if os.path.exists("/proc/self/stat"):
            return any(session == self.number and state != "Z" for _, state, session in _all())
        return is_alive(self.number) or _has_group(self.number)


def parse_reader(text: str) -> Reader | None:
    """The reader of that name; None: it names none."""
    if text.startswith("wake-") and _WAKE.fullmatch(text[5:]):
        return Reader(text[5:])
    found = _NAME.fullmatch(text)
    return Reader("", found[1], int(found[2]), int(found[3])) if found else None


def this_reader() -> Reader:
    """The one that this process belongs to."""
    woken = os.environ.get(WOKEN, "")
    if _WAKE.fullmatch(woken):
        return Reader(woken)
    number = os.getsid(0)
    return Reader("", _boot(), number, _look(number)[0])


def _boot() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read(8)
    return "0"


def _look(number: int) -> tuple[int, str, int]:
    """When a process began, in ticks since the boot, its state and its session; 0 where there is none, or who knows."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{number}/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
        return int(words[19]), words[0].decode("ascii"), int(words[3])
    return 0, "", 0


def _all() -> Iterator[tuple[int, str, int]]:
    with suppress(OSError):
        yield from (_look(int(name)) for name in os.listdir("/proc") if name.isdigit())


def _has_group(number: int) -> bool:
    """Has a process the group that the leader of the session had?"""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
