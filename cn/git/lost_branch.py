"""When main is gone: the last commit it had, and the commands that bring it back.

Each command leaves the index and the files as they are, so that nothing staged or edited is lost.
"""

from __future__ import annotations

import re

from cn.git.objects import is_ancestor, resolve
from cn.git.repository import CONFIG, Hub
from cn.values.names import Oid, is_oid
from cn.values.shell_words import command
from cn.values.text import visible

_KNOWN = ("refs/cn/trusted", "refs/cn/origin/{main}", "refs/cn/origin/main", "refs/remotes/origin/{main}")
"""What this clone knew of main, by which it was a while ago at the latest."""
_LOG_BYTES = 1 << 20


def head_branch(hub: Hub) -> str:
    """The branch that HEAD names, born or not; empty on a detached commit."""
    return hub.git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False).text


def missing_main(hub: Hub) -> tuple[str, str]:
    """That there is no main, and what to type."""
    head, last = head_branch(hub), last_main(hub)
    place = f"HEAD is {visible(head)}" if head else "HEAD is a detached commit"
    if last is not None and head == hub.main:
        return (
            f"the branch {hub.main} is gone in {hub.root}",
            f"{command('git update-ref {} {}', hub.main_ref, last)} brings it back, with what is staged and edited",
        )
    if head == hub.main:
        add = command("git add {}", str(CONFIG))
        return f"{hub.main} has no commit yet in {hub.root}", f"run {add} and commit"
    if last is None and resolve(hub.git, "HEAD") is None:
        start = command("git symbolic-ref HEAD {}", hub.main_ref)
        hint = f"run {start}, then {command('git add {}', str(CONFIG))}, and commit"
    else:
        make = command("git branch {} {}", hub.main, last or "HEAD")
        done = "brings it back" if last else "makes it from here"
        hint = f"{make} {done}, then {command('git switch {}', hub.main)}"
    return f"there is no branch {hub.main} in {hub.root}; {place}", hint


def last_main(hub: Hub) -> Oid | None:
    """The tip that main had when it went away, or the latest that this clone remembers of it.

    git notes each move of HEAD (git-reflog(1)): that main was deleted or renamed under it, or left.
    """
    known = [name.format(main=hub.main) for name in _KNOWN]
    remembered = next((oid for name in known if (oid := resolve(hub.git, name)) is not None), None)
    on_main = head_branch(hub) == hub.main
    for old, new, text in reversed(_log(hub)):
        gone = not new.strip("0") and (on_main or text.startswith(f"Branch: renamed {hub.main_ref} to "))
        if gone or text.startswith(f"checkout: moving from {hub.main} to "):
            oid = resolve(hub.git, old)
            if oid is None or (remembered is not None and not is_ancestor(hub.git, remembered, oid)):
                break
            return oid
    return remembered


def _log(hub: Hub) -> list[tuple[Oid, str, str]]:
    """HEAD's log, which git itself does not show while HEAD's branch has no commit."""
    try:
        with (hub.work_git_dir / "logs" / "HEAD").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    rows = (re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) .*?>[^\t]*\t?(.*)", line) for line in lines)
    return [(Oid(row[1]), row[2], row[3]) for row in rows if row and is_oid(row[1])]
