"""Programs of the user's that files go through on their way to the work tree and back (gitattributes(5), "filter").

One that is required and cannot run ends the git that needs it: git-lfs or git-crypt that cron's ``PATH`` does not hold,
a key that is not there. What git says of that first names neither file nor filter, and may sound like the network.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cn.git.environment import quote_path
from cn.git.process import Done, Git, GitConfig
from cn.values.shell_words import command
from cn.values.text import one_line, redact, visible, without_escapes

FILTER = "filter"
"""In why a file of main cannot be brought or compared, where a program of the user's refuses it."""
_KEY = re.compile(r"filter\.(?P<name>.+)\.(?:clean|smudge|process)", re.DOTALL)
_TELLS = re.compile("error|fail|not found|no such|denied", re.IGNORECASE)
_NOT_FOUND = re.compile(r"cannot run |(?:\d|sh): \S+: (?:command )?not found")
"""What git, or a shell, says of a program that it does not find."""
_PIPE = "the remote end hung up unexpectedly"
"""What git says of a program that ended, or never began, while it talked to it (``filter.NAME.process``)."""
_WORDS = 200


def without_filters(git: Git) -> Git:
    """The same git that starts no filter. A file that only they could tell from what git stores differs for it."""
    found = (_KEY.fullmatch(s.key) for s in (git.config or GitConfig()).settings)
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    names = dict.fromkeys(one["name"] for one in found if one)
    return git.with_settings({f"filter.{name}.{key}": value for name in names for key, value in off.items()})


def filters_of(git: Git, paths: Sequence[str], *, cached: bool = False) -> dict[str, str]:
    """The filters of those of the paths that have one; ``cached``: by the attributes of the index of ``git``."""
    if not (paths and git.config and git.config.has_filters):
        return {}
    stdin = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    fields = git.run("check-attr", *(["--cached"] if cached else []), "-z", "--stdin", FILTER, stdin=stdin).fields
    values = zip(fields[::3], fields[2::3], strict=True)
    return {path: value for path, value in values if value not in ("unspecified", "unset")}


def why_filter_failed(name: str, err: str) -> str:
    """What is told of a filter that ended a git: its name, what git says, and the filter's own words."""
    lines = [line for line in redact(without_escapes(err)).splitlines() if line.strip()]
    gits = [line.partition(": ")[2] for line in lines if line.startswith(("error: ", "fatal: "))]
    others = [line for line in lines if not line.startswith(("error: ", "fatal: "))]
    telling = [line for line in others if _TELLS.search(line)] or others
    words = [one for one in (*gits[:1], *telling[:1]) if one != _PIPE or not telling]
    return f"its {FILTER} {visible(name)} fails: {': '.join(one_line(one, _WORDS) for one in words)}"


def mend_filter(path: str, reason: str) -> str:
    """What helps where a file's filter fails for this reason."""
    look = command("git check-attr filter -- {}", path)
    mend = f"see what filters it ({look}; git config --get-regexp ^filter), and mend that"
    if _NOT_FOUND.search(reason):
        mend += (
            "; where its program is found at a terminal and not by cron, 'cn cron install' typed there adds its folder"
        )
    elif "lfs" in reason:
        mend += ", or, where its content is not at the host, ask who proposed it for 'git lfs push --all URL'"
    return mend


def find_failing(git: Git, paths: Sequence[str]) -> tuple[str, str] | None:
    """The first of the paths whose filter cannot say what git would store of it, and why."""
    filters = {path: name for path, name in filters_of(git, paths).items() if (git.root / path).is_file()}
    if not filters or _ask(git, list(filters)).ok:
        return None
    for path, name in filters.items():
        done = _ask(git, [path])
        if done.limited:
            return path, f"its {FILTER} {visible(name)} fails: {done.reason}"
        if not done.ok and (git.root / path).is_file():
            return path, why_filter_failed(name, done.err)
    return None


def _ask(git: Git, paths: Sequence[str]) -> Done:
    names = b"".join(quote_path(path) + b"\n" for path in paths)
    return git.run("hash-object", "--stdin-paths", stdin=names, check=False, seconds=git.filter_seconds)


def uncompared(path: str, why: str) -> str:
    """What is told of such a file where main has another than it was: nobody knows whether somebody changed it."""
    return f"whether you changed {visible(path)} cannot be told: {why}"
