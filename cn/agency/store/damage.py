"""Records that git cannot open, or whose objects it cannot read: whether it is so, and what brings them back."""

from __future__ import annotations

from cn.agency.store.repository import MAIN, Places, Repository
from cn.git.process import GitError
from cn.system.files import free_name
from cn.values.errors import CnError, Refusal
from cn.values.shell_words import command
from cn.values.text import redact, visible

_LOCK_SECONDS = 10.0


def find_damage(repository: Repository, *, full: bool) -> list[str]:
    """What git finds fault with (git-fsck(1)), line by line. With ``full`` it reads contents too; else it only looks
    whether they are there. Raises :class:`GitError` where git came to no end.
    """
    words = ("fsck", "--no-dangling", "--no-progress", "--strict", *([] if full else ["--connectivity-only"]))
    done = repository.git._replace(reader=None).run(*words, check=False)
    if done.limited:
        raise GitError(done)
    return [] if done.ok else [*done.lines, *done.err.splitlines()] or [f"git fsck ended with {done.code}"]


def find_lasting_damage(repository: Repository, *, full: bool) -> list[str]:
    """The same beside writers: git lists objects before it reads refs, and misses what was written in between. What is
    found is looked for again while nobody writes, or, where somebody writes without end, once more.
    """
    found = find_damage(repository, full=full)
    if not found:
        return []
    try:
        with repository.lock.held(_LOCK_SECONDS):
            again = find_damage(repository, full=full)
    except CnError:
        again = find_damage(repository, full=full)
    return [line for line in again if line in found]


def find_closed(repository: Repository, url: str | Refusal) -> tuple[str, str] | None:
    """Why git opens no repository there, with what makes it open again; None: it opens it. ``url`` is the copy's.

    What cannot be opened may hold everything: no remedy removes anything (gitrepository-layout(5)).
    """
    done = repository.git._replace(reader=None).run("rev-parse", "--git-dir", check=False)
    if done.ok:
        return None
    folder = repository.places.repository
    head = folder / "HEAD"
    try:
        names_main = head.read_bytes().strip() == b"ref: " + MAIN.encode()
    except OSError:
        names_main = False
    if not names_main:
        what = f"{visible(str(head))} does not say which branch is main, and without that git opens no repository"
        return what, command("echo ref: {} > {}", MAIN, str(head))
    if not (folder / "refs").is_dir():
        what = f"{visible(str(folder))} has no folder refs, and without it git opens no repository"
        return what, command("mkdir -p -- {}", str(folder / "refs/heads"))
    if not (folder / "objects").is_dir():
        return f"{visible(str(folder))} has no folder objects: what was in it is lost", way_out(repository.places, url)
    config = visible(str(folder / "config"))
    remedy = f"correct {config}; if a newer git wrote it, use that git here"
    return f"git cannot open Agency's records: {done.reason}", remedy


def way_out(places: Places, url: str | Refusal) -> str:
    """What to type where objects are lost: nothing is thrown away, and the copy at ``url`` comes in its place. Empty:
    none is known that has them.
    """
    known = url if isinstance(url, str) else ""
    take = command("mv -- {} {} && cn agency restore {}", str(places.repository), aside(places), redact(known) or "URL")
    if known:
        return f"{take} takes the copy; writes that it lacks stay in the folder that is put aside"
    saves = "'cn agency export DIR' saves what can be read"
    return f"no copy is known to have them: {saves}; where one is, {take} takes it"


def brings_back(places: Places) -> str:
    """What to type where records were put aside, and nothing is in their place; empty: none were."""
    folder = places.repository
    if not (found := sorted(folder.parent.glob(f"{folder.name}.aside*"))):
        return ""
    return f"{command('mv -- {} {}', str(found[-1]), str(folder))} brings those back that were put aside"


def aside(places: Places) -> str:
    """Where the records are put, so that others can take their place."""
    folder = places.repository
    return str(free_name(folder.with_name(f"{folder.name}.aside")))
