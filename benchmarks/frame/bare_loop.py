"""The floor of a write to Agency's records: the same objects and one ref, written by a bare loop that asks nobody.

No lock, no index, nothing read; each object and the ref flushed to the disk, and nothing else.
"""

import hashlib
import os
import zlib
from pathlib import Path


class Loop:
    """Writes into the bare repository at ``folder``, whose branch main is at ``tip``."""

    def __init__(self, folder: Path, tip: str) -> None:
        self.folder, self.tip = folder, tip

    def write(self, objects: list[tuple[str, bytes]]) -> str:
        """Loose objects, the last of which is the commit that main is set to; its id."""
        for kind, data in objects:
            whole = b"%s %d\0" % (kind.encode(), len(data)) + data
            oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
            self._replace(self.folder / "objects" / oid[:2] / oid[2:], zlib.compress(whole, 1))
        self.tip = oid
        self._replace(self.folder / "refs/heads/main", f"{oid}\n".encode())
        return oid

    def _replace(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f"{path.name}.new")
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
