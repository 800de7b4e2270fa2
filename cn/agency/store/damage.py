"""Objects of the records that git cannot read: whether there are some, and what brings them back."""

from __future__ import annotations

from cn.agency.store.repository import Places, Repository
from cn.git.process import GitError
from cn.system.files import free_name
from cn.values.errors import Refusal
from cn.values.shell_words import command
from cn.values.text import redact


def find_damage(repository: Repository, *, full: bool) -> list[str]:
    """What git finds fault with (git-fsck(1)), line by line. With ``full`` it reads contents too; else it only looks
    whether they are there. Raises :class:`GitError` where git came to no end.
    """
    words = ("fsck", "--no-dangling", "--no-progress", "--strict", *([] if full else ["--connectivity-only"]))
    done = repository.git._replace(reader=None).run(*words, check=False)
    if done.limited:
        raise GitError(done)
    return [] if done.ok else [*done.lines, *done.err.splitlines()] or [f"git fsck ended with {done.code}"]


def way_out(places: Places, url: str | Refusal) -> str:
    """What to type where objects are lost: nothing is thrown away, and the copy at ``url`` comes in its place."""
    folder = places.repository
    aside = str(free_name(folder.with_name(f"{folder.name}.aside")))
    known = url if isinstance(url, str) else ""
    take = command("mv -- {} {} && cn agency restore {}", str(folder), aside, redact(known) or "URL")
    if known:
        return f"{take} takes the copy; writes that it lacks stay in the folder that is put aside"
    return f"agency.remote names no copy: 'cn agency export DIR' saves what can be read; where one is, {take} takes it"
