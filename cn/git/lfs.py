"""Files of which git has only a pointer: git-lfs keeps their contents, and its own hook of ``git push`` brings them.

cn runs no hooks (``docs/hosts.md``). A pointer is a text of its specification, "The Pointer".
"""

from __future__ import annotations

from cn.git.objects import read_info, read_objects
from cn.git.process import Git
from cn.values.names import Oid

POINTER = b"version https://git-lfs."
"""What a pointer begins with."""
_MOST_BYTES = 1024
"""No pointer is longer (git-lfs's specification)."""


def find_pointers(git: Git, known: Oid, tip: Oid) -> list[str]:
    """The paths of pointers in the commits that ``tip`` has and ``known`` has not, but for merges: what these bring was
    pushed by who made it. Nothing where git-lfs is not set up.
    """
    if known == tip or git.config is None or not any(s.key.startswith("filter.lfs.") for s in git.config.settings):
        return []
    form = ("--raw", "--format=", "--no-abbrev", "--no-renames", "--diff-filter=AMT", "--no-merges")
    rows = [line.partition("\t") for line in git.run("log", *form, f"^{known}", tip, "--").lines if line]
    files = {meta.split()[3]: path for meta, _, path in rows if meta.split()[1].startswith("100")}
    ids = list(map(Oid, files))
    small = [one.oid for one in read_info(git, ids) if one is not None and one.size <= _MOST_BYTES] if ids else []
    texts = zip(small, read_objects(git, small), strict=True) if small else ()
    return sorted({files[oid] for oid, text in texts if text is not None and text.startswith(POINTER)})
