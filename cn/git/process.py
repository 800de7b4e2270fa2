"""Run git, hardened: every call as :mod:`cn.git.environment` says. No other module starts git.

A call that talks to a network has a time limit.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple, Protocol

from cn.git.credentials import ASKED, known_secrets
from cn.git.environment import COMMAND, child_environment
from cn.git.host_keys import told_of_changed_key
from cn.system import polling
from cn.system.limits import BEYOND_ULIMIT, has_ulimit
from cn.values.errors import RAISE_ULIMIT, CnError
from cn.values.names import is_local
from cn.values.shell_words import command
from cn.values.text import decode, one_line, redact, without_escapes

_LOCAL_RECEIVE = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true -c core.fsmonitor=false"
    " -c core.useReplaceRefs=false -c core.logAllRefUpdates=false"
    " -c user.name=cn -c user.email=cn@localhost -c committer.name=cn -c committer.email=cn@localhost"
    " -c receive.autogc=false -c gc.auto=0 -c receive.denyCurrentBranch=refuse receive-pack"
)
_RECEIVES = f"--receive-pack={_LOCAL_RECEIVE}"
_TAIL = 4000
_PADDING = " \t\0"
"""git-upload-pack(1) ends a line with a NUL."""
_NONE: Mapping[str, str] = MappingProxyType({})
TIMED_OUT = "no answer within the time limit"
_CHUNK = 1 << 20
_MAX_DATA = 768 << 20
"""Memory of a child whose output is bounded: git gathers a whole diff before it says a word."""
_MAX_FAR_DATA = 1536 << 20
"""Memory of each process of a fetch or a push over a network: the list of branches that a host begins with has no end
of its own. An object of ``fetch_bytes`` takes twice its size."""
_SPARING = {"pack.threads": "2", "pack.windowMemory": "128m", "core.bigFileThreshold": "64m"}
"""What a pack takes then, whatever machine makes or reads it (git-config(1))."""
LOCAL_SECONDS = 900.0
FILTER_SECONDS = 60.0
REASON = 500
"""How much of what a host says is told."""
_CUT_OFF = "fatal: fetch-pack: invalid index-pack output"
_FSCK = "fsck error"
CHECK_REFUSES = "git's object check refuses"
"""What :attr:`Done.reason` begins with where a fetch brought such an object (git-config(1), ``fetch.fsckObjects``)."""
_CORRUPT_THERE = "repository corruption on the remote side"
_NOT_READ = "fatal: Could not read from remote repository"
_KNOWN_HOST = "Warning: Permanently added"
TOO_MUCH = "it says more than cn reads"
NO_MEMORY = "git had not enough memory for what it says or is told: at most 1.5 GiB for each process"
_NO_MEMORY = "fatal: Out of memory"
OTHER_FORMAT = (
    "it has the other object format (SHA-1, SHA-256), and git exchanges nothing between the two: "
    "one of them must be made anew ('git init --object-format')"
)
"""What a remote cannot be for us (git-init(1), ``--object-format``)."""
_SAY_OTHER_FORMAT = (
    "fatal: mismatched algorithms",
    "fatal: the receiving end does not support this repository's hash",
    "fatal: protocol error: unexpected capabilities^{}",  # an empty one of ids of the other length
)
_TEMPORARY = re.compile(r"(?<=/tmp_)[a-z]+_[A-Za-z0-9]{6}\b")
"""The part of a file's name that is another each time: what is told once must read the same."""
_QUOTED_ROW = re.compile(r"(un(?:expected|terminated) line in .*?packed-refs): .*", re.DOTALL)
"""git quotes a broken row; where somebody made the file a link, it is a row of any file of ours."""
_PACKED_REFS = re.compile(r"un(?:expected|terminated) line in (.*?packed-refs)")
READING = frozenset(
    {"cat-file", "diff", "diff-tree", "for-each-ref", "log", "ls-files", "ls-tree", "merge-base"}
    | {"merge-tree", "rev-list", "rev-parse", "status"}
)
"""What only reads: it may be killed at any time, with all that it started."""
_TALKING = frozenset({"clone", "fetch", "ls-remote", "push"})
"""What may talk to a remote."""
_LOOK = 1.0
_STOPPED = 4 * _LOOK
"""Seconds between two looks at our children, which a second should part: cn was stopped meanwhile (SIGSTOP, a
frozen control group). Nobody read what they said, perhaps nobody ran them: that time is none of theirs."""
PATIENT = 0.3
"""Seconds of a local git after which a signal that was held back is let in."""
_LAST_WORD = 0.8
"""Seconds that a local git has to end by itself when a signal ends cn."""
unanswered: dict[str, float] = {}
"""Which remotes, by URL, had not answered when a signal ended this process, and for how many seconds: signals belong to
the process."""
_BY_PROXY = "UNKNOWN port"
"""What ssh says of a connection through another program (ssh_config(5), "ProxyCommand") that never came about. Where it
keeps the login for others it does not show what that program said."""
_GRACE = 0.5
"""Seconds that pipes may stay open after git itself has ended, and that one which receives has to end."""
_POLL = 0.01


_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGPIPE})
"""Signals by which a process brings itself down (signal(7)): a stack too deep, a failed assertion, a verifier that
ends before it has read what was signed."""

_FULL = ("No space left", "Out of diskspace", "Disk quota exceeded")
_READ_ONLY = "Read-only file system"
_NO_LIST = "could not open object name list"
NOT_WRITTEN = "git could not write here what it fetched"
"""What a reason begins with where a fetch failed at a file of ours, whatever the system calls it: without a free inode
git makes no folder, and then says that a file in it is not there."""
PRUNED = "if 'git prune' or 'git gc --prune=now' ran meanwhile it took what this run had just made: run again"
"""git removes at once what no ref names yet (git-prune(1)); nothing that a ref names goes with it."""
_GONE = ("Not a valid commit", "nonexistent object", "fatal: bad object", "unable to read tree", "bad tree object")
MEND_INDEX = "move .git/index away and 'git reset' makes a new one; nothing but what was staged is lost"
_EMPTY_OBJECT = re.compile(r"object file (\S.*?/objects)/[0-9a-f]{2}/[0-9a-f]+ is empty")
_CORRUPT_OBJECT = re.compile(r"loose object [0-9a-f]+ \(stored in (\S.*?)\) is corrupt")
_NO_COMMIT = re.compile(r"error: Could not read [0-9a-f]{40,64}")
"""What git says of a commit in a history that it walks, where the commit is not there."""
_PACK_INDEX = re.compile(r"(\S.*?/pack/pack-[0-9a-f]+)\.idx\b")
MAIN_REF = "refs/heads/main"
OTHER = "'cn doctor' looks for the cause; when it is mended, run again"
"""What helps where what git says names nothing that does."""
RECORDS = "agency.git"
"""Below ``.git/cn``: a repository of its own, whose gits touch nothing of the hub, and whose objects no fetch of the
hub brings."""
_NOT_FETCHED = "'cn doctor --full' tells how to bring it back: nothing but a copy of the records has their objects"
_REMEDIES = (
    *((said, f"{PRUNED}; else 'cn doctor' looks for the cause") for said in _GONE),
    ("index file", MEND_INDEX),
    ("bad index", MEND_INDEX),
    ("bad config", "correct that file of git's configuration, then run again"),
    (NOT_WRITTEN, "make room on the disk ('df' shows bytes, 'df -i' files), let the user of cn write in .git"),
    *((said, "make room on the disk ('df' shows bytes, 'df -i' files), then run again") for said in _FULL),
    (_READ_ONLY, "make the disk writable, then run again"),
    (
        _NO_LIST,
        "'fetch.fsck.skipList' in git's configuration names a file that is not there: bring it back, or unset that",
    ),
    ("insufficient permission", "let the user of cn write in .git/objects and all below it, then run again"),
    ("ermission denied", "let the user of cn write in .git and all below it, then run again"),
)
"""What git says, in our locale, and what helps."""
_HERE = (NOT_WRITTEN, *_FULL, _READ_ONLY, _NO_LIST)
"""Of these, what is said of this machine also by a git that asks another one."""


def remedy_here(reason: str) -> str:
    """What helps where this machine, and nobody else, kept a git from it; empty: it was something else."""
    if reason == BEYOND_ULIMIT:
        return RAISE_ULIMIT
    return next((remedy for said, remedy in _REMEDIES if said in reason and said in _HERE), "")


def fetch_again(main_ref: str) -> str:
    """What brings objects that are missing here. git passes over a branch of origin that is what was noted of it, also
    with ``--refetch``, where others are new: so main is named.
    """
    named = command("git fetch --refetch origin {}", main_ref)
    again = f"{named}, then 'git fetch --refetch origin' bring again what origin has"
    return f"{again}, or copy .git/objects from another clone"


def mend_objects(objects: str, main_ref: str) -> str:
    """What helps where objects are missing here, or a crash left their files empty."""
    find = command('find {} -type f -size 0 -name "[0-9a-f]*" -delete', objects)
    return f"{find}, then {fetch_again(main_ref)}"


def mend_pack_index(pack: str) -> str:
    """What helps where a crash left the index of a pack empty (git-index-pack(1)); ``pack`` has no suffix."""
    anew = command("git index-pack {}", f"{pack}.pack")
    return f"{command('rm -f -- {}', f'{pack}.idx')}, then {anew} makes it anew"


def _mend_packed_refs(path: str) -> str:
    """What helps where ``packed-refs`` is cut short or garbled: git then reads no ref at all."""
    if f"/{RECORDS}/" in path:
        return _NOT_FETCHED
    away = command("mv -- {} {}", path, f"{path}.damaged")
    return f"{away}, then run again: cn says how main comes back; branches of yours stand in the lines of that file"


def _remedy_of_objects(err: str, main_ref: str) -> str:
    """What helps where git could not read a file of objects; it names the first one. Or nothing."""
    if index := _PACK_INDEX.search(err):
        pack = index[1].removeprefix("error: ").removeprefix("fatal: ").removeprefix("index file ")
        return mend_pack_index(pack)
    empty, corrupt = _EMPTY_OBJECT.search(err), _CORRUPT_OBJECT.search(err)
    if (found := empty or corrupt) and f"/{RECORDS}/" in f"{found[1]}/":
        return _NOT_FETCHED
    if empty:
        return mend_objects(empty[1], main_ref)
    if corrupt:
        return f"{command('rm -f -- {}', corrupt[1])}, then {fetch_again(main_ref)}"
    return fetch_again(main_ref) if _NO_COMMIT.search(err) else ""


class GitError(CnError):
    """git answered with an error; ``done`` holds the whole answer, ``main_ref`` is the hub's main."""

    def __init__(self, done: Done, main_ref: str = MAIN_REF) -> None:
        verb = next((a for a in done.args if not a.startswith("-")), "?")
        found = [remedy for said, remedy in _REMEDIES if said in done.err]
        found = [objects, *found] if (objects := _remedy_of_objects(done.err, main_ref)) else found
        found = [_mend_packed_refs(packed[1]), *found] if (packed := _PACKED_REFS.search(done.err)) else found
        found = [RAISE_ULIMIT] if done.reason == BEYOND_ULIMIT else found
        super().__init__(f"git {verb} failed: {done.reason}", next(iter(found), OTHER))
        self.done = done


def as_lines(words: Iterable[str]) -> bytes:
    """What git reads on its standard input, one word a line."""
    return b"".join(f"{word}\n".encode("utf-8", "surrogateescape") for word in words)


class Done(NamedTuple):
    """A finished git process: exit code, standard output as bytes, standard error as text."""

    args: tuple[str, ...]
    code: int
    out: bytes
    err: str
    timed_out: bool = False
    too_much: bool = False

    @property
    def ok(self) -> bool:
        """Did it exit with 0, within its limits?"""
        return self.code == 0 and not self.limited

    @property
    def disk_full(self) -> bool:
        """Was there no room to write?"""
        return any(said in self.err for said in _FULL)

    @property
    def crashed(self) -> bool:
        """Did it bring itself down? Where it read a peer's objects that is an answer: they do it again."""
        return -self.code in _CRASHES

    @property
    def killed(self) -> bool:
        """Did a signal end it, for none of our limits? Then it has answered nothing."""
        return self.code < 0 and not self.limited

    @property
    def died(self) -> bool:
        """Did a signal end it, or was there no memory for it? Either may come of what it was given."""
        return self.killed or "out of memory" in self.err.lower()

    @property
    def limited(self) -> bool:
        """Did it go beyond a limit that cn gave it: time, what it says, what it writes?"""
        return self.timed_out or self.too_much or self.code == -signal.SIGXFSZ

    @property
    def text(self) -> str:
        """Standard output without its last line end."""
        return decode(self.out).rstrip("\n")

    @property
    def path(self) -> str:
        """Standard output as one path, whatever stands in it; undecodable bytes as surrogates."""
        return os.fsdecode(self.out.removesuffix(b"\n"))

    @property
    def lines(self) -> list[str]:
        """Standard output split at line feeds only."""
        return self.text.split("\n") if self.out else []

    @property
    def fields(self) -> list[str]:
        """Standard output split at NUL (``-z``); undecodable bytes as surrogates."""
        return self.out.decode("utf-8", "surrogateescape").rstrip("\0").split("\0") if self.out else []

    @property
    def reason(self) -> str:
        """Why it failed, in one visible line without credentials; a peer may have written it."""
        if self.too_much:
            return TOO_MUCH
        if self.timed_out:
            return TIMED_OUT
        if -self.code == signal.SIGXFSZ or f"died of signal {signal.SIGXFSZ:d}" in self.err:
            return BEYOND_ULIMIT if has_ulimit() else "it sent more than the size limit"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"ended by {signal.Signals(-self.code).name}"
        lines = [line for line in without_escapes(self.err).splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:", "remote:"))]
        if _CORRUPT_THERE in self.err:  # by ssh and on one machine what upload-pack says of it may come first
            told.sort(key=lambda one: (not one.startswith("remote:"), _CORRUPT_THERE not in one))
        line = (told or lines or [f"exit code {self.code}"])[0]
        if line.startswith("remote:"):  # the host's words, all of them, and what git made of these
            others = [other for other in told if not other.startswith("remote:")]
            line = "; ".join([*remote_words(self.err), *others[:1]])
        if _FSCK in self.err:
            line = f"{CHECK_REFUSES} it: {line}"
        if self.args[:1] in (("fetch",), ("push",)) and any(one.startswith(_NO_MEMORY) for one in lines):
            return NO_MEMORY
        if line.startswith(_CUT_OFF):
            more = "most likely beyond the size limit"
            return BEYOND_ULIMIT if has_ulimit() else f"the pack broke off while it was received, {more}"
        if line.startswith(_SAY_OTHER_FORMAT):
            return OTHER_FORMAT
        if line.startswith(_NOT_READ):  # what ssh, or the host by it, said
            said = [one for one in lines[: lines.index(line)] if not one.startswith(_KNOWN_HOST)]
            line = told_of_changed_key(said) or "; ".join(said) or line
        if line.endswith(":") and line in lines[:-1]:  # git:// gives each address a line, with what was wrong
            line = f"{line} {lines[lines.index(line) + 1].strip()}"
        line = _QUOTED_ROW.sub(r"\1", line)
        return one_line(redact(_TEMPORARY.sub("…", line)), REASON)


def remote_words(err: str) -> list[str]:
    """What the host said beside git's own words (git-push(1), lines that begin with ``remote:``)."""
    lines = without_escapes(err).splitlines()
    return [
        said for line in lines if line.startswith("remote:") and (said := line.removeprefix("remote:").strip(_PADDING))
    ]


class Job(NamedTuple):
    """One call for :meth:`Git.run_many`: ``key`` names whose it is.

    ``near``: it reads this repository (a git directory) and talks to nobody, so it may outlive cn.
    ``env``: more environment variables. ``git_dir``: it works on that repository, not on the hub's. ``on_said`` hears
    what comes on its standard error, as it comes.
    """

    key: str
    args: tuple[str, ...]
    stdin: bytes = b""
    seconds: float = 60.0
    max_out: int | None = None
    near: Path | None = None
    env: Mapping[str, str] = _NONE
    git_dir: Path | None = None
    on_said: Callable[[bytes], None] | None = None


class Setting(NamedTuple):
    """One line of the configuration: scope, key (section and name in lower case), value."""

    scope: str
    key: str
    value: str


class GitConfig(NamedTuple):
    """The settings in the order git reads them, so the last one counts."""

    settings: tuple[Setting, ...] = ()

    def all(self, key: str, *scopes: str) -> list[str]:
        """Every value of ``key``, of all scopes or of these."""
        return [s.value for s in self.settings if s.key == key and (not scopes or s.scope in scopes)]

    def last(self, key: str, *scopes: str) -> str:
        """The value that counts, empty where there is none."""
        return (self.all(key, *scopes) or [""])[-1]

    def is_true(self, key: str) -> bool:
        """Is it switched on (git-config(1), "Values")?"""
        text = self.last(key).strip().lower()
        return text in ("true", "yes", "on") or (text.lstrip("+-").isdigit() and int(text) != 0)

    def is_false(self, key: str) -> bool:
        """Is it there, and switched off?"""
        return bool(self.all(key)) and self.last(key).strip().lower() in ("", "false", "no", "off", "0")

    @property
    def has_filters(self) -> bool:
        """May files go through programs of the user's, on their way to the work tree or from it (gitattributes(5))?"""
        return any(s.key.startswith("filter.") for s in self.settings)

    @property
    def rewrites(self) -> bool:
        """Do ``url.….insteadOf`` or ``pushInsteadOf`` make one URL of another?"""
        return any(s.key.startswith("url.") for s in self.settings)

    @property
    def includes(self) -> bool:
        """Does a file of it take in others, of which only git knows (git-config(1), "Includes")?"""
        return any(s.key.startswith(("include.", "includeif.")) for s in self.settings)

    @property
    def partial(self) -> dict[str, list[str]]:
        """Remotes that keep objects to themselves (git-clone(1), ``--filter``), and the keys that say so."""
        found: dict[str, list[str]] = {}
        for key, value in dict.fromkeys((s.key, s.value) for s in self.settings):
            section, _, option = key.rpartition(".")
            if option in ("promisor", "partialclonefilter"):
                found.setdefault(section.removeprefix("remote."), []).append(key)
            elif option == "partialclone":  # what git before 2.24 wrote
                found.setdefault(value, []).append(key)
        return found

    def url(self, target: str, *, push: bool) -> str:
        """Where ``target``, a URL or the name of a remote, really is (git-config(1), ``url.<base>.insteadOf``)."""
        if push and (explicit := self.all(f"remote.{target}.pushurl")):
            return self._rewritten(explicit[0], "insteadof") or explicit[0]
        url = (self.all(f"remote.{target}.url") or [target])[0]
        return (push and self._rewritten(url, "pushinsteadof")) or self._rewritten(url, "insteadof") or url

    def _rewritten(self, url: str, option: str) -> str:
        """What the longest beginning that fits makes of a URL; empty where none does."""
        rules = [(s.value, s.key) for s in self.settings if s.key.startswith("url.") and s.key.endswith(f".{option}")]
        fitting = [rule for rule in rules if url.startswith(rule[0])]
        start, key = max(fitting, key=lambda rule: len(rule[0]), default=("", ""))
        return key.removeprefix("url.").removesuffix(f".{option}") + url[len(start) :] if start else ""


class Answers(Protocol):
    """Who answers questions about objects."""

    def ask(self, lines: bytes, seconds: float) -> bytes:
        """What git says to these lines (git-cat-file(1), ``--batch-command``)."""


class Logins(Protocol):
    """What lets connections to one host share a login (:mod:`cn.git.ssh_logins`)."""

    def begin(self, args: Sequence[str]) -> None:
        """Log in where git with these arguments will connect to."""

    def enter(self, args: Sequence[str]) -> Mapping[str, str] | None:
        """More environment for a connection that may begin now; None: it has to wait for another one's login."""

    def leave(self, args: Sequence[str]) -> None:
        """One that was given such an environment has ended."""


class Watches(Protocol):
    """Hears of each git that is started, to end it from another thread."""

    def add(self, child: subprocess.Popen[bytes]) -> None:
        """It was started, in a process group of its own."""


class Git(NamedTuple):
    """git on one repository. Immutable; :meth:`with_env` makes a variant.

    ``root`` is the work tree (or, with ``bare``, the repository itself). ``git_dir`` is set
    where git is to work in ``root`` on a repository that lies elsewhere; with ``finds`` git looks for it
    itself, and refuses another user's (git-config(1), ``safe.directory``). ``lock_fd`` is
    inherited by children that change refs or files, so that the hub's lock lives as
    long as they do; children that talk to a network die with cn instead. ``config`` is the
    configuration, once it was read. ``reader``: who answers questions about objects, where
    one does it for a whole run. ``around``: the environment of every child, once it was read. ``logins``: those that
    connections share. ``children``: who may end what was started. ``main_ref``: the hub's main, for what is told.
    """

    root: Path
    bare: bool = False
    env: Mapping[str, str] = _NONE
    lock_fd: int | None = None
    max_bytes: int | None = None
    config: GitConfig | None = None
    settings: Mapping[str, str] = _NONE
    git_dir: Path | None = None
    reader: Answers | None = None
    around: Mapping[str, str] | None = None
    finds: bool = False
    logins: Logins | None = None
    children: Watches | None = None
    main_ref: str = MAIN_REF

    def is_foreign(self, ids: Iterable[str]) -> bool:
        """Is one of them known to be no id in this repository's object format?"""
        if self.config is None:
            return False
        length = 64 if self.config.last("extensions.objectformat", "local") == "sha256" else 40
        return any(len(oid) != length for oid in ids)

    @property
    def direct(self) -> bool:
        """Is it known that nothing rewrites URLs, so that a path among them is the place itself?"""
        return self.config is not None and not self.config.rewrites

    def at(self, git_dir: Path) -> Git:
        """The same git, with the same working folder, on another repository."""
        return self._replace(git_dir=git_dir, reader=None)

    def with_env(self, **env: str | Path) -> Git:
        """The same git with more environment variables (``GIT_INDEX_FILE`` …)."""
        # It may name other objects.
        return self._replace(env={**self.env, **{k: str(v) for k, v in env.items()}}, reader=None)

    def with_settings(self, settings: Mapping[str, str]) -> Git:
        """The same git with more ``-c`` settings: none of them says which objects there are."""
        return self._replace(settings={**self.settings, **settings})

    @property
    def filter_seconds(self) -> float:
        """How long a git may take that runs the user's filters: one that hangs at a peer's content holds up no run."""
        return FILTER_SECONDS if self.config and self.config.has_filters else LOCAL_SECONDS

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        check: bool = True,
        seconds: float | None = None,
        network: bool = False,
        max_out: int | None = None,
    ) -> Done:
        """Run ``git ARGS`` to its end. With ``check``, an error raises :class:`GitError`.

        A local git that somebody killed has answered nothing, whatever was asked: that raises always.
        """
        if network or max_out is not None:
            done = self.run_many([Job("", args, stdin, seconds or 60.0, max_out)])[0]
        else:
            done = self._communicate(args, stdin, seconds or LOCAL_SECONDS)
        if (check and not done.ok) or (done.killed and not network):
            raise GitError(done, self.main_ref)
        return done

    def run_many(
        self, jobs: Sequence[Job], width: int = 8, on_done: Callable[[Job, Done], None] | None = None
    ) -> list[Done]:
        """Run network jobs, at most ``width`` at once; answers in the order of ``jobs``.

        Each has its own deadline and its own process group, killed as a whole; one that
        hangs delays nobody else. Single-threaded on purpose: children are configured
        between fork and exec (subprocess documentation, "preexec_fn").
        """
        queue = _Queue(self.logins, jobs)
        answers: dict[int, Done] = {}
        running: dict[int, Running] = {}
        begun = time.monotonic()
        with polling.Selector() as selector:
            try:
                while queue.waiting or running:
                    begun = time.monotonic()
                    while len(running) < width and (ready_job := queue.take()):
                        index, job = ready_job
                        running[index] = Running.start(self, job, selector)
                    look = _POLL if queue.held_up else _LOOK
                    pause = min((r.deadline - time.monotonic() for r in running.values()), default=look)
                    for ready, _ in selector.select(min(max(0.0, pause), look)):
                        ready.data(ready.fileobj)
                    if (gap := time.monotonic() - begun) > _STOPPED:
                        for child in running.values():
                            child.deadline += gap
                    for index, child in list(running.items()):
                        done = child.poll()
                        if done is not None:
                            del running[index]
                            if queue.ended(index) and _BY_PROXY in done.err and queue.ask_again(index, jobs[index]):
                                continue
                            answers[index] = done
                            if on_done:
                                on_done(jobs[index], done)
            except (KeyboardInterrupt, SystemExit):
                now = time.monotonic()
                gap = now - begun if now - begun > _STOPPED else 0.0
                waits = [(child.job, child.waited) for child in running.values() if not child.has_said_all]
                for job, waited in (*waits, *queue.held):
                    if url := _url_in(job.args):
                        unanswered[url] = max(waited - gap, unanswered.get(url, 0.0))
                raise
            finally:
                for child in running.values():
                    child.ask_to_end()
                for child in running.values():
                    child.end()
                for index in running:
                    queue.ended(index)
        return [answers[i] for i in range(len(jobs))]

    def prepared(self, args: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """The whole command and its environment (see :mod:`cn.git.environment`)."""
        place = [f"--git-dir={self.git_dir or (self.root if self.bare else self.root / '.git')}"]
        if self.finds:
            place = []
        elif not (self.bare or self.git_dir):
            place.append(f"--work-tree={self.root}")
        more = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")]
        return [*COMMAND, *more, *place, *args], {**(self.around or child_environment()), **self.env}

    def start(
        self, *args: str, stdin: int | IO[bytes] = subprocess.PIPE, setup: Callable[[], None] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start ``git ARGS`` on pipes, for a conversation; the caller ends it. ``setup`` runs before exec."""
        command, env = self.prepared(args)
        try:
            child = subprocess.Popen(
                command,
                cwd=self.root,
                env=env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self.lock_fd,) if self.lock_fd is not None else (),
                start_new_session=True,
                preexec_fn=setup,
            )
        except FileNotFoundError as missing:
            if missing.filename == "git":
                raise CnError("git is not installed or not on PATH", "install git 2.39 or newer") from None
            raise CnError(f"cannot start git in {missing.filename}", "is the folder still there?") from None
        if self.children is not None:
            self.children.add(child)
        return child

    def _communicate(self, args: tuple[str, ...], stdin: bytes, seconds: float) -> Done:
        with _as_file(stdin) as given:
            child = self.start(*args, stdin=given)
        try:
            out, err = _communicate(child, seconds)
        except subprocess.TimeoutExpired:
            kill_group(child)
            out, err = b"", b""
            with contextlib.suppress(subprocess.TimeoutExpired):  # what it left elsewhere may hold the pipes
                out, err = child.communicate(timeout=_GRACE)
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LAST_WORD)
            return Done(args, -signal.SIGKILL, out, tail(err), timed_out=True)
        except BaseException:  # a signal: cn is to end soon, whatever a child does
            if args[:1] and args[0] in READING:
                kill_group(child)
            # One that changes refs or files finishes on its own, and holds the lock until then.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=_LAST_WORD)
            raise
        said = self.hide_secrets(args, out, tail(err)) if args[:1] and args[0] in _TALKING else (out, tail(err))
        return Done(args, child.returncode, *said)

    def hide_secrets(self, args: tuple[str, ...], out: bytes, err: str) -> tuple[bytes, str]:
        """What git said on both pipes, without what the host may know of us and say back.

        No other place does that: each git that talks to a remote comes by here, whoever started it.
        """
        if not err:
            return out, err
        try:
            settings = self.config.settings if self.config is not None else self.list_settings(ASKED)
        except GitError:  # by a configuration that git cannot read it has told nobody anything
            settings = ()
        pairs = [*((one.key, one.value) for one in settings), *((key.lower(), v) for key, v in self.settings.items())]
        known = known_secrets(args, pairs, self.around or os.environ)
        if not known:
            return out, err
        err = known.mask(without_escapes(err))  # a secret may be hidden in colours
        if args[:1] == ("push",):  # a host gives its reasons there too
            text = out.decode("utf-8", "surrogateescape")
            out = known.mask(text).encode("utf-8", "surrogateescape")
        return out, err

    def list_settings(self, asked: str) -> Sequence[Setting]:
        """The settings of a repository whose keys fit an expression, in the order git reads them."""
        done = self.run("config", "--show-scope", "-z", "--get-regexp", f"^({asked})$", check=False)
        if done.code not in (0, 1):  # 1: none of them is set; anything else is no answer
            raise GitError(done)
        rows = (
            (scope, *pair.partition("\n")) for scope, pair in zip(done.fields[::2], done.fields[1::2], strict=False)
        )
        return [Setting(scope, key, value if newline else "true") for scope, key, newline, value in rows]


def _communicate(child: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """Its output and errors; raises :class:`subprocess.TimeoutExpired`, and what a signal raises."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return child.communicate(timeout=max(0.0, min(PATIENT, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
        let_signals_in()


def let_signals_in() -> None:
    """What waits until something is whole (sigpending(2)) waits no more: a git that hangs may never end.

    The next run finishes that, or takes it back, as after a kill.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.sigpending())


def transport_options(url: str) -> tuple[str, ...]:
    """Options for ``git push`` to ``url``.

    A local receive-pack runs as us, with the peer's hooks and configuration; they are
    overridden on its command line (``core.hooksPath`` of ours does not reach it).
    """
    return (_RECEIVES,) if is_local(url) else ()


class _Queue:
    """Jobs that wait to be started, in order; ``held_up``: some of them for a login that is being made."""

    def __init__(self, logins: Logins | None, jobs: Sequence[Job]) -> None:
        self.waiting = dict(enumerate(jobs))
        self.held_up = False
        self._logins = logins
        self._since: dict[int, float] = {}
        self._entered: dict[int, Job] = {}
        self._again: set[int] = set()

    def take(self) -> tuple[int, Job] | None:
        """The first that may begin now.

        One that waited for a login that then failed has had that time: of a host that hangs it gets no answer twice.
        """
        self.held_up = False
        now = time.monotonic()
        for index, job in self.waiting.items():
            env = self._logins.enter(job.args) if self._logins is not None and job.near is None else _NONE
            if env is None:
                self.held_up = True
                self._since.setdefault(index, now)
                continue
            del self.waiting[index]
            if env:
                self._entered[index] = job
            elif index in self._since:
                job = job._replace(seconds=max(_GRACE, job.seconds - (now - self._since[index])))
            return index, job._replace(env={**job.env, **env})
        return None

    @property
    def held(self) -> list[tuple[Job, float]]:
        """What waits for a login, and for how many seconds."""
        return [(self.waiting[one], time.monotonic() - at) for one, at in self._since.items() if one in self.waiting]

    def ended(self, index: int) -> bool:
        """A job that was taken has its answer, or was ended. Did it go by a login of cn's own?"""
        if self._logins is not None and (job := self._entered.pop(index, None)):
            self._logins.leave(job.args)
            return True
        return False

    def ask_again(self, index: int, job: Job) -> bool:
        """Once more, by no login of cn's own: that has failed, and is not tried again. False: it was that already."""
        first = index not in self._again
        if first:
            self._again.add(index)
            self.waiting[index] = job
        return first


class Running:
    """A started job: its pipes, its deadline, and what it said so far."""

    def __init__(
        self, job: Job, child: subprocess.Popen[bytes], stdin: IO[bytes], selector: selectors.BaseSelector, git: Git
    ) -> None:
        self.job, self.child, self.stdin, self.selector, self.git = job, child, stdin, selector, git
        self.deadline = time.monotonic() + job.seconds
        self.ended: float | None = None
        self.asked = 0.0
        self.timed_out = False
        self.too_much = False
        self.size = 0
        self.out: list[bytes] = []
        self.err: list[bytes] = []
        self.open: list[IO[bytes]] = []
        for pipe, sink in ((child.stdout, self.out), (child.stderr, self.err)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, self._reader(sink))
            self.open.append(pipe)

    @classmethod
    def start(cls, git: Git, job: Job, selector: selectors.BaseSelector) -> Running:
        """Start it; ``selector`` tells when it says something. Raises :class:`CnError` and ``OSError``."""
        stdin, setup = _as_file(job.stdin), None
        at = git._replace(lock_fd=None).with_env(**job.env)
        at = at.at(job.git_dir) if job.git_dir is not None else at
        if job.near is not None:
            at = at.at(job.near)
        else:
            far = job.max_out is None and _is_far(git, job.args)
            at = at.with_settings(_SPARING) if far else at
            setup = child_setup(git.max_bytes, _MAX_FAR_DATA if far else None if job.max_out is None else _MAX_DATA)
        try:
            child = at.start(*job.args, stdin=stdin, setup=setup)
        except BaseException:
            stdin.close()
            raise
        return cls(job, child, stdin, selector, at)

    def _reader(self, sink: list[bytes]) -> Callable[[IO[bytes]], None]:
        def read(pipe: IO[bytes]) -> None:
            data = pipe.read(_CHUNK)
            if data:
                if sink is self.err:  # only its end is told
                    if self.job.on_said is not None:
                        self.job.on_said(data)
                    data = (b"".join(sink) + data)[-_TAIL:]
                    sink.clear()
                else:
                    self.size += len(data)
                sink.append(data)
                if self.job.max_out is not None and self.size > self.job.max_out:
                    self.too_much = True
                    self.deadline = 0.0
            elif data is not None:
                self._close(pipe)

        return read

    def poll(self) -> Done | None:
        """The answer, once it is there or the time is up.

        A pipe can outlive git: what an ssh master connection leaves in the background
        (ssh_config(5), ControlPersist) holds it open and is not waited for.
        """
        if not self.open:  # it is about to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(_GRACE)
        now = time.monotonic()
        if self.child.poll() is not None:
            self.ended = self.ended or now
            if self.open and now < self.ended + _GRACE:
                return None
        elif now < self.deadline:
            return None
        else:
            self.timed_out = True
        self.end()
        out, err = b"".join(self.out), tail(b"".join(self.err))
        if self.job.near is None:
            out, err = self.git.hide_secrets(self.job.args, out, err)
        return Done(self.job.args, self.child.returncode, out, err, self.timed_out, self.too_much)

    def end(self) -> None:
        """Kill what still runs, and let go of everything."""
        if self.open or self.child.returncode is None:
            self.ask_to_end()
            while self.asked and time.monotonic() < self.asked + _GRACE and _has_group(self.child):
                time.sleep(_POLL)
            kill_group(self.child)
        for pipe in list(self.open):
            self._close(pipe)
        self.child.wait()
        self.stdin.close()

    @property
    def waited(self) -> float:
        """For how many seconds it has been asked."""
        return self.job.seconds - (self.deadline - time.monotonic())

    @property
    def has_said_all(self) -> bool:
        """Has it ended, or said more than is read?"""
        return self.too_much or self.child.poll() is not None

    def ask_to_end(self) -> None:
        """A git that receives on this machine takes its locks away when asked to end, and not when killed."""
        if _RECEIVES in self.job.args and not self.asked:
            self.asked = time.monotonic()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGTERM)

    def _close(self, pipe: IO[bytes]) -> None:
        self.selector.unregister(pipe)
        pipe.close()
        self.open.remove(pipe)


def _url_in(args: Sequence[str]) -> str:
    """The remote that is asked, as it was named; empty: there is none."""
    return args[args.index("--") + 1] if "--" in args[:-1] else ""


def _is_far(git: Git, args: Sequence[str]) -> bool:
    """Does it talk to another machine? What a git on this one says has an end, and may take what it takes."""
    url = _url_in(args)
    return not is_local(git.config.url(url, push="push" in args[:1]) if git.config is not None else url)


def _as_file(data: bytes) -> IO[bytes]:
    """Standard input of any size, whole before git starts: nobody needs to feed it.

    A pipe that is fed on the way is not: after a first timeout, ``communicate`` of Python sends no more of it.
    """
    if not data:
        return open(os.devnull, "rb")
    if sys.platform == "linux":  # no disk that may be full (memfd_create(2))
        stdin: IO[bytes] = open(os.memfd_create("stdin"), "w+b")  # noqa: SIM115  closed by the caller
    else:
        import tempfile

        stdin = tempfile.TemporaryFile()  # noqa: SIM115
    stdin.write(data)
    stdin.seek(0)  # git has the same place in it
    return stdin


def child_setup(max_bytes: int | None, max_data: int | None) -> Callable[[], None] | None:
    """What a network child does to itself before exec: die with cn, write no huge file."""
    prctl = _prctl()

    def setup() -> None:
        if prctl is not None:
            prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG, prctl(2)
        if max_bytes is not None:
            import resource

            # Nobody may raise a limit of the system's or the user's (setrlimit(2)).
            limits = [one for one in resource.getrlimit(resource.RLIMIT_FSIZE) if one != resource.RLIM_INFINITY]
            least = min([max_bytes, *limits])
            resource.setrlimit(resource.RLIMIT_FSIZE, (least, least))
        if max_data is not None:
            import resource

            with contextlib.suppress(ValueError, OSError):  # not every system has it
                resource.setrlimit(resource.RLIMIT_DATA, (max_data, max_data))

    return setup


@functools.cache
def _prctl() -> Callable[[int, int], int] | None:
    if sys.platform == "linux":
        import ctypes
        import resource  # noqa: F401  imported before fork, used after it

        with contextlib.suppress(OSError, AttributeError):
            return ctypes.CDLL(None, use_errno=True).prctl
    return None


def tail(err: bytes) -> str:
    """The end of what a git said on standard error, as text."""
    return decode(err[-_TAIL:]) if err else ""


def _has_group(child: subprocess.Popen[bytes]) -> bool:
    """Is anything left of it? It is waited for first: else it would stay in its own group."""
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """With what it may have started: it has a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
