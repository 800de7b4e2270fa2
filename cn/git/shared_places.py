"""Who else may write in a repository that is reached by its path: git follows what lies in it as if it were ours."""

from __future__ import annotations

import os
import stat

from cn.git.process import Git
from cn.values.names import is_local

_PARTS = ("", "objects", "refs", "config")


def others_may_write(git: Git, url: str) -> str:
    """The first place in a repository on this machine that others may write, or own; empty: there is none."""
    if not is_local(url):
        return ""
    folder = os.path.join(git.root, url.removeprefix("file://"))
    for root in (f"{folder}/.git", f"{folder}.git/.git", folder, f"{folder}.git"):  # git-upload-pack(1)
        if os.path.isdir(f"{root}/objects"):
            places = [folder] if os.path.isdir(folder) else []
            places += [os.path.join(root, part) for part in _PARTS]
            return next((place for place in places if _is_open(place)), "")
    return ""


def _is_open(place: str) -> bool:
    try:
        state = os.stat(place)
    except OSError:
        return False
    return bool(state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or state.st_uid not in (os.geteuid(), 0)
