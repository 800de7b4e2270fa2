"""Something that happens once, at the very moment when a run pushes."""

from __future__ import annotations

import shutil
from pathlib import Path


def meanwhile(
    folder: Path, *, before: str = ":", after: str = ":", verb: str = "push", push: str = "=refs/heads/main:"
) -> dict[str, str]:
    """An environment in which shell commands run around the first push (or ``verb``) that names such a ref.

    Main is named by its lease. What they say is in ``said`` of the folder, which is made.
    """
    real = shutil.which("git")
    folder.mkdir()
    path = "/usr/local/bin:/usr/bin:/bin"
    script = f"""#!/bin/sh
case " $* " in *" {verb} "*{push}*)
    [ -e {folder}/once ] && exec {real} "$@"
    : >{folder}/once
    (PATH={path}; export PATH; {before}) >{folder}/said 2>&1
    {real} "$@"; code=$?
    (PATH={path}; export PATH; {after}) >>{folder}/said 2>&1
    exit $code;;
esac
exec {real} "$@"
"""
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:{path}"}
