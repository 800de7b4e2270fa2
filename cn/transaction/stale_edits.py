"""Files that a person edited while main got another version (``.git/cn/diverged``).

A checkout leaves such a file as it is. Committed as it stands it would take back what main
got, so ``cn commit`` brings the three versions together first, as git's merge would.
Losing this memory costs that protection, never a byte.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from cn.git.objects import read_object
from cn.git.repository import Hub
from cn.system.files import write_file
from cn.values.names import Oid


class Diverged(NamedTuple):
    """``base`` is the blob that was edited (None: main had none), ``found`` the edited bytes' id then."""

    base: Oid | None
    found: Oid


def diverged_path(hub: Hub) -> Path:
    """Where it is noted."""
    return hub.state / "diverged"


def read_diverged(hub: Hub) -> dict[str, Diverged]:
    """What is noted, by path."""
    try:
        plain = json.loads(diverged_path(hub).read_bytes())
        return {path: Diverged(Oid(base) if base else None, Oid(raw)) for path, (base, raw) in plain.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def note_diverged(hub: Hub, path: str, base: Oid | None, found: Oid) -> None:
    """Note one; of a file that main overtakes twice the first base stands."""
    known = read_diverged(hub)
    if path not in known:
        _write(hub, {**known, path: Diverged(base, found)})


def forget_diverged(hub: Hub, paths: Iterable[str]) -> None:
    """They are as main has them again."""
    known, gone = read_diverged(hub), set(paths)
    if known.keys() & gone:
        _write(hub, {path: one for path, one in known.items() if path not in gone})


def _write(hub: Hub, known: Mapping[str, Diverged]) -> None:
    if not known:
        diverged_path(hub).unlink(missing_ok=True)
        return
    plain = {path: [one.base or "", one.found] for path, one in known.items()}
    write_file(diverged_path(hub), json.dumps(plain, ensure_ascii=True).encode())


def merge_edit(hub: Hub, base: Oid | None, ours: bytes, theirs: bytes) -> bytes | None:
    """git's merge of one file (git-merge-file(1)); None where it conflicts or is no text."""
    before = read_object(hub.git, base) if base else b""
    if before is None or not base:
        return None  # two files of one name that have nothing in common
    with tempfile.TemporaryDirectory(prefix="cn-merge-") as folder:
        names = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for name, data in zip(names, (ours, before, theirs), strict=True):
            name.write_bytes(data)
        done = hub.git.run("merge-file", "-p", "--quiet", *map(str, names), check=False)
    return done.out if done.ok else None
