"""Paths in cn's folders that git's index holds in several versions: a merge or a stash met a change of the same lines.

Until somebody settles them git commits and pulls nothing. Most looks start no git for it: the index itself shows
whether it may have some.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cn.git.repository import Hub
from cn.system.files import read_regular

_FOLDERS = ("threads", "state", "logs", ".cn", "spec")
_MAY_BE = re.compile(rb"[\x10-\x3f\x50-\x7f\x90-\xbf\xd0-\xff].(?:threads|state|logs|\.cn|spec)/", re.S)
"""A path behind flags with a stage in them (gitformat-index(5), "Index entry"); other bytes may read so too."""
_COMPRESSED = b"\0\0\0\4"
"""The version of an index whose paths are told by what they have in common."""


def find_unmerged(hub: Hub) -> list[str]:
    """These paths, sorted, in the work tree that is opened."""
    data = read_regular(Path(os.path.realpath(hub.work_git_dir / "index"))) or b""
    if data[4:8] != _COMPRESSED and not _MAY_BE.search(data):
        return []
    done = hub.git.run("ls-files", "--unmerged", "-z", "--full-name", "--", *_FOLDERS, check=False)
    return sorted({field.partition("\t")[2] for field in done.fields}) if done.ok else []
