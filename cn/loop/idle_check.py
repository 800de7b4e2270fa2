"""Repeat the answer of the last sync while nothing that it depends on has changed.

What a sync does follows from main, cn's refs, this clone's files and memory, what the remotes
list, and the clock. A sync that leaves nothing to do notes all of these in ``.git/cn/quiet``.
While they are the same the next one would find nothing either, and only they are looked at: one
process for our refs and one for each remote, all at once, where the ordinary run starts fifteen
and then those of the remotes. No configuration is parsed, no tree is read, and the command line
is not even loaded (:mod:`cn.cli.start`): 30 instead of 250 ms of processor time with one peer on
this machine. For that sake this module imports next to nothing, and writes what others have
modules for; :mod:`cn.loop.sync` writes the note.

Anything but "the same" means the ordinary run, which alone decides. The note is machine-local
and harmless to lose. It holds for an hour, not past midnight UTC, and not past a date on which
the records let something happen.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from cn import __version__
from cn.git.early_login import NOTE as LOGIN
from cn.git.early_login import begin, give_up
from cn.git.environment import around, config_files, find_local_git_dir, list_many, stamp
from cn.transaction.lock_owner import note_owner

TYPE_CHECKING = False  # typing itself takes 3 ms
if TYPE_CHECKING:
    from typing import NoReturn

    from cn.git.remote import Looked

    Names = list[tuple[str, bool, bool]]
    Stamps = list[tuple[int, ...]]
    Files = tuple[Stamps, list[Names], Stamps]
NOTE = "quiet"
MEMORY = "local.json"
FETCHED = "fetched"
"""The fact of the note that names what of origin is fetched as it is listed: its key, its main, how many bytes at most,
and the prefixes of peers. Empty: it is on this machine, or has many branches.
"""
LONGEST = 3600
AS_OURS = "--format=%(refname) %(objectname)%(HEAD)"
_AS_LISTED = "--format=%(objectname)%09%(refname)"
_HEADS = "refs/heads/"
_WIDTH = 8
_READ = (".cn/hub.yaml", "state/peers.md", "state/input.md", "state/output.md")
_INBOX = "threads/inbox"
_DRAFTS = "threads/drafts"


def still_quiet(path: str) -> bool:
    """Is the hub at ``path`` (empty: around the working directory) as the last sync left it, and noted?

    Holds the lock while it looks, so that no other run is at work; it does not wait for it.
    """
    try:
        root = os.path.realpath(path) if path else around(os.getcwd())
        if {os.lstat(root).st_uid, os.lstat(f"{root}/.git").st_uid} != {os.geteuid()}:
            return False  # the ordinary run asks git whether it is to be trusted
        note = os.open(f"{root}/.git/cn/{NOTE}", os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for
        with open(note, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split(" ", 1) for line in file.read().split("\n") if line]
        facts = {key: value for key, value in lines if key not in ("url", "config")}
        configs = [value for key, value in lines if key == "config"]
        urls = dict(value.split("\t", 1) for key, value in lines if key == "url")
        until = float(facts["until"])
        if not until - LONGEST <= time.time() < until:
            return False
        lock = os.open(f"{root}/.git/cn/lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            note_owner(lock)
            files = files_text(root, read_files(root, configs))
            same = facts["files"] == files and facts["seen"] == _seen(root, facts, urls)
        finally:
            os.close(lock)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):  # the last by a clock beyond 2262
        return False
    if same:  # else the run that follows goes on with them
        logins = sys.modules.get("cn.git.ssh_logins")
        logins.end_logins() if logins else give_up()
    return same


def _seen(root: str, facts: dict[str, str], urls: dict[str, str]) -> str:
    """Our refs and what the remotes list, on one line; empty when somebody does not answer."""
    near = {key: find_local_git_dir(url) if facts["direct"] else None for key, url in urls.items()}
    asked = [(place, [_AS_LISTED, _HEADS]) for place in near.values() if place is not None]
    words = [AS_OURS, *facts["refs"].split(" ")]
    if len(asked) < len(urls):
        begin(root)
    said = list_many([(f"{root}/.git", words), *asked], _WIDTH)
    if said is None:
        return ""
    rows = dict(zip((key for key in urls if near[key] is not None), said[1:], strict=True))
    far = {key: url for key, url in urls.items() if near[key] is None}
    if far:
        rows |= _ask(root, far, facts, words, said[0])
    return seen_text(said[0], rows) if len(rows) == len(urls) else ""


looked: list[Looked] = []
"""What the run that follows in this process need not ask again."""


def _ask(root: str, urls: dict[str, str], facts: dict[str, str], words: list[str], ours: bytes) -> dict[str, bytes]:
    """Listings over a network, with the deadlines and the supervision that need more.

    What peers have at origin is fetched by the same connection. The branches of others there are not looked at: the
    next ordinary run tells of them.
    """
    import signal
    from pathlib import Path

    from cn.git.process import Git
    from cn.git.repository import configured
    from cn.git.ssh_logins import open_logins, parse_place

    # No child that waits for a network may be left behind.
    def terminate(number: int, frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    git = Git(Path(root))
    if any(parse_place(url) or url.startswith("http") for url in urls.values()):
        git = open_logins(configured(git))
    if git.logins is not None:  # while the rest loads
        for url in list(urls.values())[:_WIDTH]:
            git.logins.begin(("fetch", "--", url))

    from cn.git.list_and_fetch import Fetched, list_and_fetch
    from cn.git.remote import Looked, list_remotes

    seconds, fetched = float(facts["seconds"]), None
    if facts[FETCHED]:
        key, branch, most, *prefixes = facts[FETCHED].split(" ")
        fetched = Fetched(key, branch, prefixes, int(most))
    try:
        if fetched:
            answers = list_and_fetch(git, urls, seconds, fetched, _load_meanwhile)
        else:
            answers = list_remotes(git, urls, seconds)
    except KeyboardInterrupt:
        _end_by_signal(root, urls, "interrupted", 128 + signal.SIGINT)
    except SystemExit:
        _end_by_signal(root, urls, "terminated", 128 + signal.SIGTERM)
    found = {key: listing for key, listing in answers.items() if not isinstance(listing, str)}
    looked[:] = [Looked({(key, urls[key]): listing for key, listing in found.items()}, words, ours)]
    if fetched and fetched.key in found:
        if found[fetched.key].not_fetched:
            return {}  # the run that follows says which branch keeps itself out
        found[fetched.key] = fetched.of(found[fetched.key])
    return {key: rows_of(dict(listing)) for key, listing in found.items()}


def _load_meanwhile() -> None:
    """Load what the ordinary run needs, while git and the network bring what is new: both take a tenth of a second."""
    import gc
    from importlib import import_module

    gc.disable()  # all of it stays; what runs then sets its own limit
    for name in ("cn.cli.main", "cn.cli.commands.inbox", "cn.loop.sync", "yaml"):
        import_module(name)
    gc.freeze()  # else the first collection looks through all of it
    gc.enable()


def _end_by_signal(root: str, urls: dict[str, str], word: str, code: int) -> NoReturn:
    """End as a run does: what peers had not answered is noted, and told. Another signal must not cut that off."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    from contextlib import suppress
    from pathlib import Path

    from cn.run.interrupted import note_without_run, told_of_unanswered
    from cn.run.settings import MAILBOX_KEY
    from cn.values.errors import CnError

    with suppress(CnError, OSError):
        note_without_run(Path(root), {key: url for key, url in urls.items() if key != MAILBOX_KEY})
    text, step = told_of_unanswered()
    lines = [f"cn: {word}{text}", *([f"  → {step}"] if step else []), ""]
    os.write(2, "\n".join(lines).encode())
    sys.exit(code)


def rows_of(listing: dict[str, str]) -> bytes:
    """A listing as git prints it."""
    rows = (f"{oid}\t{_HEADS}{name}\n" for name, oid in listing.items())
    return "".join(rows).encode("utf-8", "surrogateescape")


def seen_text(ours: bytes, rows: dict[str, bytes]) -> str:
    """Our refs, and what each remote has in any order, on one line."""
    return repr([ours, *((key, sorted(rows[key].split(b"\n"))) for key in sorted(rows))])


def read_files(root: str, included: list[str]) -> Files:
    """What lies on this machine and a sync looks at: stamps of files, and names in folders.

    The names in the git directory tell of open merges, journals, pushes under way. What is read is
    told apart as git does it for its index (gitformat-index(5)): by times, size and inode. Of the
    inbox a sync wants to know which files are there, of the drafts what they hold. ``included`` are the files that
    git's configuration takes in. The last are the files that a run replaced: somebody who had one open may write to it.
    """
    git_dir = f"{root}/.git"
    read = [f"{git_dir}/cn/{MEMORY}", *config_files(root), *included, *(f"{root}/{name}" for name in _READ)]
    folders = [git_dir, f"{git_dir}/cn", f"{root}/{_INBOX}"]
    drafts = f"{root}/{_DRAFTS}"
    names = _names(drafts) if os.path.isdir(drafts) else []
    stamps = [stamp(path) for path in (*read, *(f"{drafts}/{name}" for name, *_ in names))]
    return stamps, [*(_names(path) for path in folders), names], _replaced(f"{git_dir}/cn/old")


def files_text(root: str, files: Files) -> str:
    """The same on one line."""
    return repr((__version__, root, *files))


def _replaced(folder: str) -> Stamps:
    try:
        runs = sorted(entry.path for entry in os.scandir(folder))
    except FileNotFoundError:
        return []
    return [stamp(path) for run in runs for path in sorted(entry.path for entry in os.scandir(run))]


def _names(folder: str) -> Names:
    """What is there, and whether it is a folder, a file, or neither."""
    with os.scandir(folder) as found:
        return sorted(
            (e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
            for e in found
            if e.name not in (NOTE, LOGIN)
        )
