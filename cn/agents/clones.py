"""Which clone was made for an agent under which name of a request: the same request again gets that one."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cn.agents.workspace import Folder
from cn.system.files import read_regular, write_file

_MOST: Final = 1 << 14


class Clones(NamedTuple):
    """Those of one agent, noted among its files and gone with them. A call without a name is not noted."""

    folder: Folder

    def note(self, request_id: str, answer: Mapping[str, object]) -> None:
        """What is answered; told before the clone is put in its place."""
        if request_id:
            path = self._path(request_id)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_file(path, json.dumps(answer).encode(), mode=0o600)

    def find(self, request_id: str) -> dict[str, object] | None:
        """What was answered, where that clone is still in its place."""
        with suppress(OSError, ValueError):
            found = json.loads(read_regular(self._path(request_id), _MOST) or b"null")
            if isinstance(found, dict) and self._has(str(found["path"])):
                return found
        return None

    def _path(self, request_id: str) -> Path:
        return self.folder.files / "clones" / hashlib.sha256(request_id.encode()).hexdigest()[:32]

    def _has(self, name: str) -> bool:
        """Is a clone there? Its place is made before it comes there (a killed server), and is empty until then.

        One that is closed to us is its owner's, who is another user: the place is ours.
        """
        place = self.folder.workspace / name
        with suppress(PermissionError):
            os.lstat(place / ".git")
        return stat.S_ISDIR(os.lstat(place).st_mode)
