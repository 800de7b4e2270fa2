"""What the server says of itself: a health file, lines for the journal, notifications to systemd."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cn.server.places import ServerPlaces
from cn.system.clock import now
from cn.system.files import identity_of, read_regular, write_file
from cn.system.systemd import Level, Lines, notify
from cn.values.errors import CnError
from cn.values.timestamps import format_second

_MOST = 1 << 16
_CALLS_SECONDS = 5.0


class Health:
    """The health file at ``places``; ``mask`` takes secrets out of what is said."""

    def __init__(self, places: ServerPlaces, lines: Lines, mask: Callable[[str], str] = str) -> None:
        self._places, self._lines, self._mask = places, lines, mask
        self.value: dict[str, Any] = {
            "pid": os.getpid(),
            "place": identity_of(places.state),
            "state": "starting",
            "since": format_second(now()),
            "url": "",
            "socket": str(places.agents),
            "user_socket": str(places.user),
            "calls": 0,
            "last_error": None,
            "servers": {},
            "left_out": {},
            "problems": {},
            "faults": {},
        }
        self._saved: dict[str, Any] = {}
        self._at = 0.0

    def say(self, text: str, level: Level = Level.INFO) -> None:
        """A line for the journal."""
        self._lines.say(self._mask(text), level)

    def report_error(self, text: str) -> None:
        """Something is wrong: it stands in the health file, and in the journal."""
        self.say(text, Level.WARNING)
        self.value["last_error"] = {"at": format_second(now()), "text": self._mask(text)}

    def is_here(self) -> bool:
        """Is the hub still in the folder in which this server began, and no other one in its place? What is closed to
        us was not moved.
        """
        try:
            os.stat(self._places.state)
        except PermissionError:
            return True
        except OSError:
            return False
        return bool(self.value["place"]) and identity_of(self._places.state) == self.value["place"]

    def save(self) -> None:
        """Write the file if anything changed, of calls alone every few seconds. The server that starts next writes its
        own, so it may be lost; what could not be written is written the next time. Where the hub was moved away
        nothing is made anew, and nothing written into what came in its place.
        """
        quick = {key: one for key, one in self.value.items() if key != "calls"}
        only_calls = quick == {key: one for key, one in self._saved.items() if key != "calls"}
        if self.value == self._saved or (only_calls and time.monotonic() - self._at < _CALLS_SECONDS):
            return
        self._at = time.monotonic()
        if not self.is_here():
            return
        with suppress(OSError, CnError):
            self._places.health.parent.mkdir(mode=0o700, exist_ok=True)
            write_file(self._places.health, json.dumps(self.value, indent=1).encode(), mode=0o600)
            self._saved = json.loads(json.dumps(self.value))
        notify(STATUS=f"{self.value['state']}, {self.value['calls']} calls")


def read_health(places: ServerPlaces) -> dict[str, Any] | None:
    """What the last server of this very folder said of itself; None where none ever ran.

    The file of a copied hub tells of the other folder's server.
    """
    with suppress(ValueError):
        found = json.loads(read_regular(places.health, _MOST) or b"null")
        return found if isinstance(found, dict) and found.get("place") == identity_of(places.state) else None
    return None
