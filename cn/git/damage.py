"""What a crash of the machine leaves in a clone, and the commands that mend it.

Whether something here is damaged is found by looking at it. What git says of a fetch or a merge cannot tell: a host and
a peer have a part in those words.
"""

from __future__ import annotations

import re
from pathlib import Path

from cn.git.process import MEND_INDEX, Done, Git, mend_objects, mend_pack_index
from cn.values.errors import Blocked
from cn.values.names import Oid, is_oid
from cn.values.shell_words import command
from cn.values.text import visible

_BROKEN = "a crash of the machine, or a tool that copies files, left no commit"
_BROKEN_REF = re.compile(r"ignoring broken ref (refs/.+)")
_LOST_OBJECT = re.compile(r"missing object ([0-9a-f]+) for (refs/.+)")
_SUSPECT = re.compile(r"bad object|missing object|\bis (?:empty|corrupt)|index file|unable to read|packfile")
"""What git says, beside other things, where an object, a ref or the index here is damaged."""
_EMPTY = "is empty: a crash of the machine left it so"
_LOG_BYTES = 1 << 20


def refuse_damage(git: Git, folder: Path, *answers: Done) -> None:
    """Raise :func:`find_damage` where answers that failed just now sound like it; else nothing is looked at."""
    if any(_SUSPECT.search(done.err) for done in answers) and (found := find_damage(git, folder)):
        raise found


def find_damage(git: Git, folder: Path) -> Blocked | None:
    """The first ref, object, pack or index that is damaged here. ``folder`` is the git directory that has them."""
    objects = folder / "objects"
    for index in _empty(objects, "pack/pack-*.idx"):
        return Blocked(f"{visible(str(index))} {_EMPTY}", mend_pack_index(str(index.with_suffix(""))))
    for path in _empty(objects, "??/[0-9a-f]*"):
        return Blocked(f"{visible(str(path))} {_EMPTY}", mend_objects(str(objects), git.main_ref))
    listed = git.run("for-each-ref", "--format=%(objecttype)", check=False)
    try:
        refuse_broken_ref(folder, listed)
    except Blocked as broken:
        return broken
    if lost := _LOST_OBJECT.search(listed.err):
        again = mend_objects(str(objects), git.main_ref)
        return Blocked(f"{visible(lost[2])} names {lost[1][:12]}, which is not here", again)
    if not git.bare and not git.run("ls-files", "--", ".cn/hub.yaml", check=False).ok:
        return Blocked("git cannot read its index", MEND_INDEX)
    return None


def _empty(objects: Path, pattern: str) -> list[Path]:
    return [path for path in sorted(objects.glob(pattern)) if path.stat().st_size == 0]


def refuse_broken_ref(folder: Path, listed: Done, prefix: str = "refs/") -> None:
    """Raise where ``for-each-ref`` passed over a ref: while it is there git fetches nothing, and sets none there."""
    broken = next((ref for ref in broken_refs(listed) if ref.startswith(prefix)), "")
    if broken:
        raise Blocked(f"{visible(broken)} is broken: {_BROKEN}", f"{_way_back(folder, broken)}, then run again")


def broken_refs(listed: Done) -> list[str]:
    """The refs that ``for-each-ref`` passed over: their files hold no id."""
    return _BROKEN_REF.findall(listed.err)


def _way_back(folder: Path, ref: str) -> str:
    gone = command("rm -- {}", str(folder / ref))
    if not ref.startswith("refs/heads/"):
        return gone  # the next run or fetch makes it again
    logged = [new for _, new, _ in read_log(folder / "logs" / ref)]
    if not logged:
        return gone
    return f"{gone}, {command('git update-ref {} {}', ref, logged[-1])} (what git's log of it has last)"


def read_log(path: Path) -> list[tuple[Oid, Oid, str]]:
    """The last moves of a ref as git noted them (git-reflog(1)): from, to, why. None where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    rows = (re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) .*?>[^\t]*\t?(.*)", line) for line in lines)
    return [(Oid(row[1]), Oid(row[2]), row[3]) for row in rows if row and is_oid(row[1]) and is_oid(row[2])]
