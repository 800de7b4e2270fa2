"""Nothing new? The answer of the last sync, as long as all it was made of is the same.

What a sync does follows from main, cn's refs, this clone's files and memory, what the remotes
list, and the clock. A sync that found nothing to do notes all of these in ``.git/cn/quiet``.
While they are the same the next one would find nothing either, and only they are looked at: one
process for our refs and one for each remote, all at once, where the ordinary run starts fifteen
and then those of the remotes. No configuration is parsed, no tree is read, and the command line
is not even loaded (:mod:`cn.cli.start`): 30 instead of 250 ms of processor time with one peer on
this machine. For that sake this module imports next to nothing, and writes what others have
modules for; :mod:`cn.app.note_quiet` writes the note.

Anything but "the same" means the ordinary run, which alone decides. The note is machine-local
and harmless to lose. It holds for an hour, not past midnight UTC, and not past a date on which
the records let something happen.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time

from cn import __version__
from cn.shell.glance import list_many, nearby
from cn.shell.owner import note_owner

NOTE = "quiet"
LONGEST = 3600
AS_OURS = "--format=%(refname) %(objectname)%(HEAD)"
_AS_LISTED = "--format=%(objectname)%09%(refname)"
_HEADS = "refs/heads/"
_WIDTH = 8
_READ = (".cn/hub.yaml", "state/peers.md")
_LOCAL = ("state/input.md", "state/output.md")
_INBOX = "threads/inbox"


def still_quiet(path: str) -> bool:
    """Is the hub at ``path`` (empty: around the working directory) as the last quiet sync left it?

    Holds the lock while it looks, so that no other run is at work; it does not wait for it.
    """
    root = os.path.realpath(path) if path else _around(os.getcwd())
    try:
        with open(f"{root}/.git/cn/{NOTE}", encoding="utf-8") as file:
            lines = [line.split(" ", 1) for line in file.read().split("\n") if line]
        facts = {key: value for key, value in lines if key != "url"}
        urls = dict(value.split("\t", 1) for key, value in lines if key == "url")
        until = float(facts["until"])
        if not until - LONGEST <= time.time() < until:
            return False
        lock = os.open(f"{root}/.git/cn/lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            note_owner(lock)
            return facts["files"] == digest_files(root) and facts["seen"] == _seen(root, facts, urls)
        finally:
            os.close(lock)
    except (OSError, ValueError, KeyError):
        return False


def _around(folder: str) -> str:
    """The nearest folder upwards that is a hub; ``/`` if there is none."""
    while not os.path.isfile(f"{folder}/.cn/hub.yaml") and folder != "/":
        folder = os.path.dirname(folder)
    return os.path.realpath(folder)


def _seen(root: str, facts: dict[str, str], urls: dict[str, str]) -> str:
    """Our refs and what the remotes list, as one digest; empty when somebody does not answer."""
    near = {key: nearby(url) if facts["direct"] else None for key, url in urls.items()}
    asked = [(place, [_AS_LISTED, _HEADS]) for place in near.values() if place is not None]
    said = list_many([(f"{root}/.git", [AS_OURS, *facts["refs"].split(" ")]), *asked], _WIDTH)
    if said is None:
        return ""
    rows = dict(zip((key for key in urls if near[key] is not None), said[1:], strict=True))
    far = {key: url for key, url in urls.items() if near[key] is None}
    if far:
        rows |= _ask(root, far, float(facts["seconds"]))
    return digest_seen(said[0], rows) if len(rows) == len(urls) else ""


def _ask(root: str, urls: dict[str, str], seconds: float) -> dict[str, bytes]:
    """Listings over a network, with the deadlines and the supervision that need more."""
    import signal
    import sys
    from pathlib import Path

    from cn.shell.git import Git
    from cn.shell.remote import list_remotes

    # No child that waits for a network may be left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    answers = list_remotes(Git(Path(root)), urls, seconds)
    return {key: rows_of(dict(found)) for key, found in answers.items() if not isinstance(found, str)}


def rows_of(listing: dict[str, str]) -> bytes:
    """A listing as git prints it."""
    rows = (f"{oid}\t{_HEADS}{name}\n" for name, oid in listing.items())
    return "".join(rows).encode("utf-8", "surrogateescape")


def digest_seen(ours: bytes, rows: dict[str, bytes]) -> str:
    """Our refs, and what each remote has in any order, as one digest."""
    listed = [key.encode() + b"\n" + b"\n".join(sorted(rows[key].split(b"\n"))) for key in sorted(rows)]
    return _digest([ours, *listed])


def digest_files(root: str) -> str:
    """What lies on this machine and a sync looks at, as one digest.

    The names in the git directory tell of open merges, journals, pushes under way. What is small
    and is read is taken by content; of the inbox a sync wants to know which files are there.
    """
    git_dir, home = f"{root}/.git", os.environ.get("HOME", "")
    wide = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = [os.environ.get(key, "") for key in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")]
    configs = [f"{git_dir}/config", f"{home}/.gitconfig", f"{wide}/git/config", "/etc/gitconfig", *named]
    read = [*configs, f"{git_dir}/cn/local.json", *(f"{root}/{name}" for name in _READ)]
    parts = [__version__.encode(), os.fsencode(root), *(_content(path) for path in read)]
    parts += [b"there" if os.path.lexists(f"{root}/{name}") else b"" for name in _LOCAL]
    return _digest([*parts, *(_names(f) for f in (git_dir, f"{git_dir}/cn", f"{root}/{_INBOX}"))])


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _names(folder: str) -> bytes:
    with os.scandir(folder) as found:
        names = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in found if e.name != NOTE)
    return os.fsencode("\0".join(f"{name}{'/' * is_folder}" for name, is_folder in names))


def _digest(parts: list[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d %b" % (len(part), part))
    return digest.hexdigest()
