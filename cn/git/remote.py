"""Talk to remotes: list, fetch, push and delete, with leases; from temporary repositories.

``git push`` compares every refspec with every ref of both sides: 1,000 refspecs beside 1,000 pins and branches
took 4.3 s. From a repository that holds no refs but those to be pushed, one pattern does the same in 0.4 s.

A fetch keeps what it got before the last of git's checks: ``.gitmodules`` is looked at when all objects are written
(git 2.39, unpack-objects and index-pack alike). Objects that were refused must not enter the hub: the next fetch
would find them there, and ask nothing. So it goes into a folder of its own first.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cn.git.damage import broken_refs
from cn.git.environment import find_local_git_dir, quote_path
from cn.git.host_keys import remedy_of_changed_key
from cn.git.loose_objects import loose_path
from cn.git.needed_rights import never_began, remedy_of_denied
from cn.git.plain_push import Order, mistaken_for, run_orders
from cn.git.process import (
    CHECK_REFUSES,
    NOT_WRITTEN,
    OTHER_FORMAT,
    REASON,
    TIMED_OUT,
    Done,
    Git,
    Job,
    remedy_here,
    remote_words,
    transport_options,
)
from cn.git.repository import read_config
from cn.git.told import Told, environment
from cn.system.removal import remove_tree
from cn.values.errors import CnError
from cn.values.names import Oid, is_branch, is_oid
from cn.values.shell_words import command
from cn.values.text import one_line, redact

_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"


FOLDER = "outgoing"
"""Below ``.git/cn``. Not in the transaction's own: that goes while a push may still be at work."""


@contextmanager
def outgoing(git: Git, refs: Mapping[str, Oid], name: str = "branches") -> Iterator[Git]:
    """git on a repository with these ``refs`` (full names), gone afterwards; one of each ``name`` at a time.

    It lies inside the hub's: settings that the user made for a folder hold there too
    (git-config(1), "Conditional includes").
    """
    folder = make_outgoing(git, name)
    names = {ref.encode("utf-8", "surrogateescape"): oid.encode() for ref, oid in refs.items()}
    (folder / "packed-refs").write_bytes(_HEADER + b"".join(names[ref] + b" " + ref + b"\n" for ref in sorted(names)))
    objects = git.env.get("GIT_OBJECT_DIRECTORY", str(common_dir(git) / "objects"))
    try:
        yield git.with_env(GIT_OBJECT_DIRECTORY=objects).at(folder)
    finally:
        remove_tree(folder)
        with suppress(OSError):  # another one is at work
            folder.parent.rmdir()


def make_outgoing(git: Git, name: str) -> Path:
    """The git directory of an empty repository of this ``name`` inside the hub's; whoever makes it removes it."""
    folder = common_dir(git) / "cn" / FOLDER / name
    remove_tree(folder)
    make_empty(git, folder)
    return folder


def make_empty(git: Git, folder: Path) -> None:
    """An empty repository in this folder, with the hub's configuration."""
    for name in ("refs", "objects"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_bytes(_config(git, common_dir(git)))


def common_dir(git: Git) -> Path:
    """The git directory that all work trees share."""
    if git.bare:
        return git.root
    if (git.root / ".git").is_dir():
        return git.root / ".git"
    return Path(os.path.realpath(git.root / git.run("rev-parse", "--git-common-dir").path))


def _config(git: Git, common: Path) -> bytes:
    sha256 = (git.config or read_config(git)).last("extensions.objectformat", "local") == "sha256"
    lines = [b"[include]\npath = " + quote_path(common / "config"), b"[core]\nbare = true"]
    lines += [b"repositoryformatversion = 1\n[extensions]\nobjectFormat = sha256"] if sha256 else []
    return b"\n".join(lines) + b"\n"


@contextmanager
def quarantine(git: Git) -> Iterator[Path]:
    """A folder for fetches, removed at the end (or by the next run), with all that was not taken in."""
    mine = git.env.get("GIT_OBJECT_DIRECTORY")  # of a dry run, beside which another run may be at work
    folder = Path(mine) / "incoming" if mine else common_dir(git) / "cn" / "txn" / "fetch"
    remove_tree(folder)
    try:
        yield folder
    finally:
        remove_tree(folder)


def borrowing_nothing(place: Path) -> dict[str, str]:
    """The environment in which the empty repository at ``place`` has what comes, and sees nothing of the hub."""
    return {"GIT_OBJECT_DIRECTORY": str(place / "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}


def seeing_hub(git: Git, place: Path) -> dict[str, str]:
    """The environment of a repository at ``place`` that sees the hub's objects too."""
    return {**borrowing_nothing(place), "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(quote_path(_objects(git)))}


def quarantine_environment(git: Git, folder: Path, told: Told) -> dict[str, str]:
    """The environment in which a fetch sees the hub's objects, names those that are ``told``, and writes into
    ``folder``. Its settings are those of :mod:`cn.git.told`.
    """
    (folder / "info").mkdir(parents=True)
    (folder / "info/alternates").write_bytes(quote_path(_objects(git)) + b"\n")
    return {"GIT_OBJECT_DIRECTORY": str(folder), **environment(told, common_dir(git))}


SERVED_AS_FILES = "it is served as files, without git's own protocol (smart HTTP), and git checks no such objects"
_AS_FILES = "dumb http transport"
_SHALLOW = "the repository there is shallow: what its commits are based on is missing (git-clone(1), --depth)"


def why_not_taken(folder: Path, done: Done) -> str:
    """Why what a fetch brought into this folder of objects is not to be taken; empty: it is."""
    if _AS_FILES in done.err or _unchecked(done, folder):
        return SERVED_AS_FILES
    if "shallow roots are not allowed" in done.err or (folder.parent / "shallow").is_file():  # git ends well
        return _SHALLOW
    why = "" if done.ok else done.reason
    return f"{NOT_WRITTEN}: {why}" if f"'{folder}/" in why and not remedy_here(why) else why


def move_into_hub(git: Git, folder: Path, done: Done) -> str:
    """What a good fetch brought becomes the hub's; else nothing, and why not.

    The index of a pack comes last, as git does it.
    """
    import shutil

    if why := why_not_taken(folder, done):
        return why
    place = _objects(git) / "pack"
    place.mkdir(exist_ok=True)
    for file in sorted(folder.glob("pack/pack-*"), key=lambda file: file.suffix == ".idx"):
        shutil.move(file, place / file.name)
    return ""


def _unchecked(done: Done, folder: Path) -> bool:
    """Did a host that knows no git serve the files of a repository ("dumb" HTTP, gitprotocol-http(5))?

    git then writes objects one by one, or looks for a folder of packs that is not here, and its object
    checks see neither.
    """
    if not done.ok:
        return f"Unable to open local file {folder}" in done.err
    return any(one.name not in ("info", "pack") for one in folder.iterdir())


def _objects(git: Git) -> Path:
    mine = git.env.get("GIT_OBJECT_DIRECTORY")
    return Path(mine) if mine else common_dir(git).absolute() / "objects"


def push_options(git: Git, target: str) -> tuple[str, ...]:
    """Options for a push to ``target``, a URL or the name of a remote, by where it really goes.

    ``origin`` looks like a local path, and what is given for one would be sent to a server as the name of its
    receive-pack. And what looks like a server may be a local path: without these options its hooks would run as us.
    """
    return transport_options((git.config or read_config(git)).url(target, push=True))


FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules"),
    *("--no-show-forced-updates", "--refmap=", "--stdin"),
)
HEADS = "refs/heads/"
OWN = "refs/cn/"
PINS = "refs/cn/pins/"
"""What came and what was sent, pinned so that no host drops it."""
BATCH = 1000
"""Refs a push: two arguments each fit any command line (execve(2), E2BIG)."""
WIDTH = 16
"""How many remotes are asked at once."""
AS_LISTED = "--format=%(objectname)%09%(refname)"


def for_filter(url: str) -> str:
    """The same remote, as git takes it beside ``--filter``: it notes by that name whom it asks for what was left out,
    and refuses a name that begins with ``/`` (promisor-remote.c) where the host knows filters.
    """
    if not url.startswith("/"):
        return url
    from urllib.parse import quote

    return f"file://{quote(os.fsencode(url))}"


class Listing(dict[str, Oid]):
    """Branch names without ``refs/heads/``, with their tips. No UTF-8: surrogates.

    ``whole``: are these all? If not, all that begin with some parts; those in ``cut`` were too many themselves.
    ``fetched``: it is of these prefixes, and what is listed is here, fetched by the same connection; ``not_fetched``:
    that was tried. ``broken``: there, with a file that holds no commit, as a crash of the machine leaves it.
    """

    whole = True
    fetched: frozenset[str] | None = None
    not_fetched = False
    cut: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()

    def has_all(self, prefixes: Collection[str]) -> bool:
        """Is that known of all branches with these prefixes, so that one that is missing is gone?"""
        return self.whole or (self.fetched is not None and self.fetched.issuperset(prefixes))

    def below(self, branches: Container[str], prefixes: Container[str]) -> Listing:
        """These branches, and those whose names begin so, up to a slash."""
        some = Listing((n, tip) for n, tip in self.items() if n in branches or n.partition("/")[0] in prefixes)
        some.whole, some.fetched, some.cut, some.broken = False, self.fetched, self.cut, self.broken
        return some


class Looked(NamedTuple):
    """What remotes listed a moment ago, by key and URL, while for-each-ref said ``ours`` to ``words``."""

    listings: Mapping[tuple[str, str], Listing]
    words: Sequence[str]
    ours: bytes

    def still(self, git: Git) -> Mapping[tuple[str, str], Listing]:
        """The listings, unless a run has changed our own refs meanwhile: then these may be older."""
        return self.listings if git.run("for-each-ref", *self.words, check=False).out == self.ours else {}


class Result(Enum):
    """What became of one ref of a push."""

    DONE = "done"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class RefResult(NamedTuple):
    """The outcome for one ref, with the remote's reason when it was not done."""

    result: Result
    reason: str = ""


NOT_GIT = "it answers, but not as a git server"
LISTING_BYTES = 16 << 20
"""What a listing may hold: some 200,000 branches. A server can pack a thousand times as much."""


class Push(NamedTuple):
    """One ref to push: ``new`` (None deletes), only if the remote has ``expected`` (None: absent)."""

    branch: str
    new: Oid | None
    expected: Oid | None


def list_remotes(
    git: Git,
    urls: Mapping[str, str],
    seconds: float,
    on_done: Callable[[str], None] | None = None,
    parts: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, Listing | str]:
    """The branches of many remotes at once: key → listing, or the reason it failed.

    Of one that has more than cn reads, those ``parts`` of it that matter: a branch, or all whose names begin so,
    up to a slash.
    """
    if not urls:
        return {}
    jobs = listing_jobs(git, urls, seconds)
    answers = git.run_many(jobs, width=WIDTH, on_done=(lambda job, _: on_done(job.key)) if on_done else None)
    return read_listings(git, urls, seconds, jobs, answers, parts)


def listing_jobs(git: Git, urls: Mapping[str, str], seconds: float) -> list[Job]:
    """The questions of :func:`list_remotes`, for :meth:`Git.run_many`."""
    return [_list(git, key, url, seconds) for key, url in urls.items()]


def read_listings(
    git: Git,
    urls: Mapping[str, str],
    seconds: float,
    jobs: Sequence[Job],
    answers: Sequence[Done],
    parts: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, Listing | str]:
    """What :func:`list_remotes` makes of the answers."""
    told: dict[str, Listing | str] = {}
    empty = [job for job, done in zip(jobs, answers, strict=True) if done.ok and not done.out]
    silent = _without_protocol(git, [job for job in empty if _is_web(git, urls[job.key])])
    moved = _led_to(git, [job for job, done in zip(jobs, answers, strict=True) if _REDIRECTS.search(done.err)], urls)
    for job, done in zip(jobs, answers, strict=True):
        if job.key in silent:
            told[job.key] = NOT_GIT
            continue
        listing = read_listing(done) if done.ok else Listing()
        if done.too_much and job.key in parts:
            listing = _list_parts(git, urls[job.key], seconds, parts[job.key])
        foreign = OTHER_FORMAT if git.is_foreign(listing.values()) else listing
        reason = f"{_IT_LEADS_TO} {moved[job.key]}" if job.key in moved else done.reason
        told[job.key] = foreign if done.ok or not listing.whole else reason
    return told


def _led_to(git: Git, jobs: Sequence[Job], urls: Mapping[str, str]) -> dict[str, str]:
    """Where those lead that answered with a redirect, which is not followed; it is the host's word, fit to be shown.

    git says only the status. A trace of the headers has the rest (git(1), ``GIT_TRACE_CURL``): it leaves out what we
    are let in by, and goes the way of all that git prints, on which secrets are taken out of it.
    """
    asked = [job._replace(env={"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"}) for job in jobs]
    found = {}
    for job, done in zip(asked, git.run_many(asked) if asked else (), strict=True):
        said = _LOCATION.findall(done.err)
        if said and _REDIRECTS.search(done.err):
            found[job.key] = redact(one_line(_whole_url(git, urls[job.key], said[-1].strip()), REASON // 2))
    return found


def _whole_url(git: Git, url: str, location: str) -> str:
    """The repository that a ``Location`` names, which may leave out the host (RFC 9110, 10.2.2)."""
    from urllib.parse import urljoin

    asked = (git.config or read_config(git)).url(url, push=False).rstrip("/") + _FIRST_PAGE
    with suppress(ValueError):
        location = urljoin(asked, location)
    return location.removesuffix(f"{_FIRST_PAGE}?service=git-upload-pack").removesuffix(_FIRST_PAGE)


def _without_protocol(git: Git, jobs: Sequence[Job]) -> set[str]:
    """Which of these web servers, that listed nothing, do not speak git's protocol at all.

    git takes any page that a web server answers with for the list of a repository that is served as files
    (gitprotocol-http(5), "Dumb Clients"), and a short one for an empty list. A trace of packets has none then (git(1),
    ``GIT_TRACE_PACKET``).
    """
    import tempfile

    if not jobs:
        return set()
    with tempfile.TemporaryDirectory(prefix="cn-trace-") as folder:
        traces = {job.key: Path(folder, str(number)) for number, job in enumerate(jobs)}
        answers = git.run_many([job._replace(env={"GIT_TRACE_PACKET": str(traces[job.key])}) for job in jobs])
        return {job.key for job, done in zip(jobs, answers, strict=True) if done.ok and not traces[job.key].exists()}


def serves_files(git: Git, url: str, seconds: float) -> bool:
    """Does a host give files only, of which nothing is fetched? The listing alone does not tell."""
    return _is_web(git, url) and bool(_without_protocol(git, [_list(git, url, url, seconds)]))


def _is_web(git: Git, url: str) -> bool:
    return (git.config or read_config(git)).url(url, push=False).startswith(("http://", "https://"))


def _list(git: Git, key: str, url: str, seconds: float, part: str = "") -> Job:
    """By ``ls-remote``, or where that tells the same, ``for-each-ref`` (see :mod:`cn.git.environment`)."""
    if near := find_local_git_dir(url) if git.direct else None:
        words: tuple[str, ...] = ("for-each-ref", AS_LISTED, HEADS + part)
    else:
        words = ("ls-remote", "--quiet", "--heads", "--", url, *([HEADS + part, f"{HEADS}{part}/*"] if part else []))
    return Job(key, words, seconds=seconds, near=Path(near) if near else None, max_out=LISTING_BYTES)


def _list_parts(git: Git, url: str, seconds: float, parts: Collection[str]) -> Listing:
    """Asked one by one, what one of them has too much hides nothing of another."""
    answers = git.run_many([_list(git, part, url, seconds, part) for part in parts], width=WIDTH)
    found, cut = Listing(), set()
    for part, done in zip(parts, answers, strict=True):
        if done.ok:
            listing = read_listing(done)
            found.update((n, tip) for n, tip in listing.items() if n == part or n.startswith(f"{part}/"))
            found.broken |= listing.broken
        else:
            cut.add(part)
    found.whole, found.cut = False, frozenset(cut)
    return found


def read_listing(done: Done) -> Listing:
    """The branches that ``ls-remote`` or ``for-each-ref`` printed. A broken one is listed by git's server with the id
    of nothing, and ``for-each-ref`` warns of it.

    A server can send any bytes as a name, line feeds among them, and git prints them as they are.
    """
    found = Listing()
    for line in done.out.decode("utf-8", "surrogateescape").split("\n"):
        oid, _, ref = line.partition("\t")
        if ref.startswith(HEADS) and is_oid(oid):
            found[ref.removeprefix(HEADS)] = Oid(oid)
    none = {HEADS + name for name, oid in found.items() if not oid.strip("0")}
    broken = (ref for ref in (*none, *broken_refs(done)) if ref.startswith(HEADS))
    found.broken = frozenset(ref.removeprefix(HEADS) for ref in broken)
    for name in found.broken & found.keys():
        del found[name]
    return found


class KnownMain(NamedTuple):
    """The main branch of a remote as it was known: its tip, ``commit`` (the tip's bytes; empty: they were not kept),
    and its first commits (none: they were not read).
    """

    branch: str
    tip: Oid
    commit: bytes = b""
    roots: tuple[str, ...] = ()


def push_many(
    git: Git,
    pushes: Mapping[str, tuple[str, Sequence[Push]]],
    seconds: float,
    mains: Mapping[str, KnownMain] = MappingProxyType({}),
) -> dict[str, dict[str, RefResult]]:
    """Push refs to many remotes at once, one process each; key → branch → outcome.

    Every ref has its own lease, so one stale ref does not fail the rest. A ref that the
    remote did not answer for is UNKNOWN: ask, never repeat blindly.

    To a URL of ``mains`` nothing goes unless its main is there as it was known: of that branch there is an outcome too,
    DONE if it is. Then all refs of a push go, or none (git-push(1), ``--atomic``).
    """
    batches = [
        (key, url, refs[start : start + BATCH])
        for key, (url, refs) in pushes.items()
        for start in range(0, len(refs), BATCH)
    ]
    orders = [_order(git, url, number, refs, mains.get(url)) for number, (_, url, refs) in enumerate(batches)]
    with outgoing(git, _staged(orders)) as pusher:
        expected = _with_commits(pusher, [mains[url] for _, url, _ in batches if url in mains])
        answers = run_orders(expected, orders, seconds, WIDTH)
    outcome: dict[str, dict[str, RefResult]] = {}
    for (key, url, _), order, done in zip(batches, orders, answers, strict=True):
        each = _each(done, order.refs, why_not(git, url, done, seconds))
        outcome.setdefault(key, {}).update({ref.removeprefix(HEADS): one for ref, one in each.items()})
    return outcome


def _staged(orders: Sequence[Order]) -> dict[str, Oid]:
    return {ref: oid for order in orders for ref, oid in order.staged.items()}


def _with_commits(pusher: Git, mains: Sequence[KnownMain]) -> Git:
    """git that knows these tips: it asks for the commit of what it is to find there, and for nothing behind it."""
    if not mains:
        return pusher
    assert pusher.git_dir is not None
    objects = pusher.git_dir / "objects"
    for main in mains:
        path = loose_path(objects, main.tip)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"commit %d\0" % len(main.commit) + main.commit))
    return pusher.with_env(GIT_ALTERNATE_OBJECT_DIRECTORIES=os.fsdecode(quote_path(objects)))


def _order(git: Git, url: str, number: int, refs: Sequence[Push], main: KnownMain | None) -> Order:
    """``main`` is pushed to what it is known to be: that changes nothing, and where it is anything else its lease keeps
    all from being sent.
    """
    wanted = {HEADS + p.branch: p.new for p in refs}
    leases: dict[str, str] = {HEADS + p.branch: p.expected or "" for p in refs}
    options = push_options(git, url)
    if main is not None:
        wanted[HEADS + main.branch], leases[HEADS + main.branch] = main.tip, main.tip
        options = (*options, "--atomic")
    return Order(url, wanted, leases, place=f"{number}/", options=options)


def push_own(
    git: Git, url: str, refs: Mapping[str, Oid | None], seconds: float, main: Push | None = None
) -> dict[str, RefResult]:
    """Set refs under ``refs/cn/`` at a remote, or delete them (None), whatever they are there.

    With ``main`` that goes in the same push, with its lease. Each ref goes by itself: one that is refused, or
    that somebody holds, fails alone. Of many deletions most go after main; where it was not taken, or a push gave no
    answer, they do not.
    """
    gone = [ref for ref, oid in refs.items() if oid is None]
    main_ref = HEADS + main.branch if main else ""
    first: dict[str, Oid | None] = {main_ref: main.new} if main else {}
    first |= {ref: oid for ref, oid in refs.items() if oid is not None}
    leases = {main_ref: str(main.expected or "")} if main else {}
    order = Order(url, first, leases, forced=True, options=push_options(git, url))
    told: dict[str, RefResult] = {}
    with outgoing(git, order.staged, "own") as pusher:
        for start in range(0, max(len(gone), 1), BATCH):
            batch = order._replace(refs={**order.refs, **dict.fromkeys(gone[start : start + BATCH])})
            try:
                (done,) = run_orders(pusher, [batch], seconds, 1)
            except (OSError, CnError) as why:
                if not told:
                    raise
                # Main is there: that more cannot be asked for does not change it.
                return dict.fromkeys(gone, RefResult(Result.UNKNOWN, str(why))) | told
            told |= _each(done, batch.refs, why_not(git, url, done, seconds))
            if any(one.result is Result.UNKNOWN for one in told.values()):
                break
            if main and told[main_ref].result is not Result.DONE:
                break
            order = order._replace(refs={}, leases={})
    return {ref: told.get(ref) or RefResult(Result.UNKNOWN, done.reason) for ref in (*told, *gone)}


def push_forward(git: Git, url: str, branch: str, new: Oid, seconds: float, *, over: str = "") -> RefResult:
    """Bring a branch of a remote, a URL or a name, forward to ``new``: refused where it has what ``new`` does not
    contain. With ``over`` it must be that commit, and is replaced.

    What the host did not confirm it is asked for: DONE if the branch is ``new`` there, whatever it answered. UNKNOWN is
    what it does not tell then either.
    """
    ref = HEADS + branch
    order = Order(url, {ref: new}, {ref: over} if over else {}, options=push_options(git, url))
    told = _push_few(git, order, seconds, "forward")[ref]
    if told.result is Result.DONE or is_unreached(told.reason):
        return told
    place = (git.config or read_config(git)).url(url, push=True)
    there = list_refs_of(git, place, [ref], min(seconds, _ASKED_AFTER))
    if isinstance(there, str):
        return told if there in told.reason else told._replace(reason=f"asked for it, {there}; before, {told.reason}")
    if there.get(ref) == new:
        return RefResult(Result.DONE)
    if told.result is Result.REJECTED:
        return told
    has = f"has {there[ref][:8]} there" if ref in there else "does not have it"
    return RefResult(Result.REJECTED, f"the host was asked, and {has}: {told.reason}")


_ASKED_AFTER = 30.0
"""Seconds for the question what became of a push."""


def push_refs(git: Git, url: str, refs: Mapping[str, Oid | None], seconds: float) -> dict[str, RefResult]:
    """Set a few refs (full names) at a remote, or delete them (None), whatever they are there."""
    return _push_few(git, Order(url, refs, forced=True, options=push_options(git, url)), seconds, "few")


def would_push(git: Git, url: str, branch: str, new: Oid, seconds: float) -> Done:
    """What git says of bringing a branch forward, without doing it (git-push(1), ``--dry-run``)."""
    order = Order(url, {HEADS + branch: new}, options=(*push_options(git, url), "--dry-run"))
    with outgoing(git, order.staged, "would") as pusher:
        return run_orders(pusher, [order], seconds, 1)[0]


def _push_few(git: Git, order: Order, seconds: float, name: str) -> dict[str, RefResult]:
    with outgoing(git, order.staged, name) as pusher:
        (done,) = run_orders(pusher, [order], seconds, 1)
    return _each(done, order.refs, why_not(git, order.target, done, seconds))


def why_not(git: Git, url: str, done: Done, seconds: float) -> str:
    """Why a remote did not answer a git; where the host sent it elsewhere, which is not followed, where to."""
    if done.ok or not (_REDIRECTS.search(done.err) and is_unreached(done.err)):
        return done.reason
    place = (git.config or read_config(git)).url(url, push=done.args[:1] == ("push",))
    moved = _led_to(git, [_list(git, url, place, seconds)], {url: place})
    return f"{_IT_LEADS_TO} {moved[url]}" if url in moved else done.reason


def _each(done: Done, refs: Iterable[str], why: str) -> dict[str, RefResult]:
    """What one push says of each of its refs. git names them all, also where it has nothing to do."""
    told, asked = read_pushed(done), list(refs)
    reason = _left_out(told.keys() - set(asked)) if done.ok else why
    each = {ref: told.get(ref) or RefResult(Result.UNKNOWN, reason) for ref in asked}
    if done.timed_out:  # cut off in the middle: a refusal may not have been the last word
        refused = {ref: one for ref, one in each.items() if one.result is Result.REJECTED}
        each |= {ref: RefResult(Result.UNKNOWN, one.reason) for ref, one in refused.items()}
    return each


def _left_out(others: Collection[str]) -> str:
    """What is said of a ref that a good push does not name: a hook may have set another (git-receive-pack(1),
    "proc-receive").
    """
    shown = ", ".join(sorted(others)[:3])
    where = f"took it under another name ({shown})" if others else "took the push and said nothing of this branch"
    return redact(one_line(f"the host {where}: something there reviews what is pushed", REASON))


def read_pushed(done: Done) -> dict[str, RefResult]:
    """Per-ref lines of ``git push --porcelain``: flag, ``from:to``, summary (git-push(1) "OUTPUT").

    With a refusal of the host's goes what its hooks said, of this ref if they name it: git says only that one declined.
    """
    said = remote_words(done.err) or [line for line in done.err.splitlines() if "remote unpack failed" in line]
    told: dict[str, RefResult] = {}
    for line in done.out.decode("utf-8", "surrogateescape").split("\n"):
        parts = line.split("\t")
        if len(parts) < 3 or len(parts[0]) != 1:
            continue
        ref = parts[1].rpartition(":")[2]
        if parts[0] != "!":
            told[ref] = RefResult(Result.DONE)
        elif "[remote failure]" in parts[2] or "failed to report" in parts[2]:
            told[ref] = RefResult(Result.UNKNOWN, parts[2])
        else:
            words = "; ".join([line for line in said if ref in line] or said) if "[remote rejected]" in parts[2] else ""
            more = f": {redact(one_line(words, REASON))}" if words else ""
            told[ref] = RefResult(Result.REJECTED, parts[2] + more)
    return told


_NO_REPOSITORY = re.compile("repository not exported|ot found|does not exist|does not appear to be a git repository")


def is_no_repository(reason: str) -> bool:
    """Does a host answer, and say that there is no repository of that name, or none for us?"""
    return bool(_NO_REPOSITORY.search(reason))


_IT_LEADS_TO = "it is not there any more, says the host: it leads to"
_UNREACHED = (
    _IT_LEADS_TO,
    *("ssh: connect to host", "ssh: Could not resolve hostname", "ermission denied (", "Host key verification failed"),
    "kex_exchange_identification:",
    *(
        "does not appear to be a git repository",
        "fatal: unable to connect to",
        "fatal: unable to look up",
        "fatal: unable to access '",  # over HTTP the first question, before anything is sent (gitprotocol-http(5))
        "Could not resolve host",
        "Failed to connect to",
        "fatal: Authentication failed for '",
        "fatal: could not read Username for '",
        "fatal: repository '",
        "fatal: cannot run ",  # what core.sshCommand names is not there
    ),
)


def is_unreached(reason: str) -> bool:
    """Does a git say that it never came to speak with a remote, so that nothing was changed there?"""
    began = _NOT_SENT in reason  # the same words may come of a later question
    return not began and (any(words in reason for words in _UNREACHED) or never_began(reason))


NOT_THERE = "couldn't find remote ref"
"""What a fetch says of a ref that the remote has not."""

REFUSED = "[remote rejected]"
"""How git begins what a host says no to (git-push(1), "OUTPUT")."""
_NOT_SENT = "RPC failed"
"""What git says where a web server took the connection, and not what came by it (with 413, it was too much)."""


def is_refused_by_host(reason: str) -> bool:
    """Did the host itself say no, by a hook, a limit of bytes or a right? Somebody else's push is another matter, and
    what is wrong with its disk.
    """
    return (REFUSED in reason or _NOT_SENT in reason) and not is_trouble_of_host(reason)


def is_trouble_of_host(reason: str) -> bool:
    """Is it the host's own disk, or its being busy, and nothing of what was pushed?"""
    return bool(_TROUBLE.search(reason))


_BUSY = r"(?:HTTP|returned error:|response) (?:429|5\d\d)\b"
_TROUBLE = re.compile(
    rf"{_BUSY}|No space left on device|Disk quota exceeded|Read-only file system|Input/output error"
    r"|Unable to create '[^']*': (?!File exists)|couldn't (?:write|close|set) '"
)
"""What a host says that cannot write, or does not answer now: the same goes well another time (errno(3), RFC 9110)."""
_BROKEN_OFF = re.compile(
    rf"{_BUSY}|RPC failed|early EOF|bad pack header|pack-objects died|unexpected disconnect|hung up|Connection reset"
    r"|bytes of (?:length header were received|body are still expected)|error in sideband demultiplexer"
    r"|expected (?:'packfile'|flush after|response end packet)|fatal: Could not read from remote repository"
    r"|repository corruption on the remote side"
)
"""What git says where an answer breaks off, or ends early, or none comes (remote-curl.c, fetch-pack.c, connect.c)."""


def is_of_host(reason: str) -> bool:
    """Does a fetch fail by its host, or on the way there, as git says it? A single branch may still be the cause.

    What git's object check says quotes the objects: whoever made these could write any of those words.
    """
    broken = reason == TIMED_OUT or is_unreached(reason) or _BROKEN_OFF.search(reason) or _REDIRECTS.search(reason)
    return bool(broken) and not reason.startswith(CHECK_REFUSES)


def may_pass(reason: str) -> bool:
    """Does a fetch fail by what is over another time, as git says it, so that it tells nothing of what was asked for?
    A host that cannot read its own objects says so (git-upload-pack(1)).
    """
    return is_of_host(reason) and "repository corruption" not in reason


_SAYS_NO = re.compile(r"(?:HTTP|returned error:|response) 4(?!29)\d\d\b|does not appear to be a git repository")
_ENDS = re.compile(r"[Cc]onnection (?:to \S+ )?(?:closed|timed out)|^ended by SIG")


def is_broken_off(reason: str) -> bool:
    """Did a push come to no answer, on the way there or by a host that has trouble, so that nothing tells whether it is
    allowed? A host that knows what it says no to says it in other words.
    """
    return bool((is_of_host(reason) and not _SAYS_NO.search(reason)) or _ENDS.search(reason))


_HELD = re.compile(r"Unable to create '([^']*)': File exists")


def lock_named(reason: str) -> str:
    """The lock that kept a host's git from setting a ref: somebody sets it just then, or died over it. May be empty."""
    found = _HELD.search(reason)
    return one_line(found[1], REASON) if found else ""


_REDIRECTS = re.compile(r"requested URL returned error: 30[12378]\b")
_LOCATION = re.compile(r"(?im)^.*<= recv header[^:]*: location: ?(.*)$")
_FIRST_PAGE = "/info/refs"
"""What a client asks for first below the URL of a repository (gitprotocol-http(5), "Discovering References")."""

_CRON = "cron has no agent, and nobody to ask"
_GREETS = (
    "the host prints text before git begins: take it out of the login files of that account, or if it asks for a new "
    "password, log in there once by hand; 'ssh HOST true' shows it, and must print nothing"
)
_DAMAGED = "git cannot send what is there, most likely for damage: 'git fsck' there says what; tell who keeps it"
_LOST_THERE = (
    "objects are lost or empty there: 'git fsck' in that repository, on its host, names them; who keeps it removes the "
    "empty files, and brings back what is lost from a copy"
)
_CLOSED_THERE = re.compile(
    r"(?:couldn't|could not|unable to|cannot|failed to) (?:read|open|access|create)\b[^;]*[Pp]ermission denied"
    r"|insufficient permission|unable to create temporary object directory"
)
"""What git at a host says of files of the repository that the account there may not read or write."""
_GIVES_BACK = "who runs that host gives the repository back to the account that you log in as (chown -R)"
_RULED = "a rule of the host protects that branch: ask who keeps it to let the account that cn pushes as write there"
_NOT_LET_IN = (
    ("No space left on device", "the host's disk is full: tell who keeps it; what is ours waits here"),
    ("Disk quota exceeded", "the host has no room left for it: tell who keeps it; what is ours waits here"),
    ("Read-only file system", "nothing can be written at the host now: tell who keeps it"),
    ("couldn't write '", "the host's git cannot write there, most likely for a full disk: tell who keeps it"),
    ("Unable to create '", "the host's git may not write there, or a lock was left: tell who keeps it"),
    (
        "served as files",
        "the host has to speak git's own protocol at that URL: ask who keeps it for another URL, or to "
        "turn smart HTTP on ('git http-backend')",
    ),
    ("corruption on the remote side", _DAMAGED),
    ("git-pack-objects died", _DAMAGED),  # what came before is not always heard
    (
        "reviews what is pushed",
        "cn needs a host that sets the branches it is given: ask who keeps it to let these pass",
    ),
    (
        "publickey",
        "the host knows none of the keys that were offered, or a key has a passphrase and no agent holds it: "
        f"'ssh -v HOST' shows which were offered ({_CRON})",
    ),
    ("Host key verification failed", "the host's own key is not known, or is another: 'ssh HOST' once, as who runs cn"),
    ("uthentication failed", f"check the password for the host in git's credential helper ({_CRON})"),
    ("could not read Username", f"a credential helper of git's keeps name and password for the host ({_CRON})"),
    ("could not read Password", f"a credential helper of git's keeps the password for the host ({_CRON})"),
    ("rotected branch", _RULED),
    ("rule violations", _RULED),
    ("through pull requests", _RULED),
    ("exceeds maximum allowed size", "the host takes no push of that size: ask who keeps it (receive.maxInputSize)"),
    ("407", "a proxy stands before the host and wants a password: check http.proxy, or http_proxy and https_proxy"),
    ("error: 401", f"check the password for the host in git's credential helper ({_CRON})"),
    (
        "mux_client_request_session",
        "the host allows one connection no further session: 'ControlPath none' for it in ssh_config",
    ),
    ("bad line length character", _GREETS),
    (
        "packed-refs",
        "its list of refs is damaged: who keeps that repository moves that file away there, then run again",
    ),
    ("ermission denied", f"the host does not let you in: check the key or password for it ({_CRON})"),
)
"""What ssh, curl, git and gitolite say, and what helps; the first that fits counts."""


_LACKS_OBJECTS = "missing necessary objects"
_BAD_REF = re.compile(r"bad object (refs/\S+)")


def lacks_objects(reason: str) -> bool:
    """Is something of the repository damaged there? Before a git takes a push it goes through all that its refs name:
    one bad ref, or one object that is lost, keeps everything out.
    """
    return _LACKS_OBJECTS in reason


def mend_there(ref: str, place: Path | None = None) -> str:
    """What takes away a ref that a crash of the host left broken; ``place`` is the git directory there, where that is
    on this machine. A file without a commit git does not delete, and one that is packed as well is there again once
    the file is gone.
    """
    if place is not None:
        file, packed = command("rm -f -- {}", str(place / ref)), command("git -C {} update-ref -d {}", str(place), ref)
        return f"{file}, then {packed}, typed by who keeps that repository, take it away"
    file, packed = command("rm -f -- {}", ref), command("git update-ref -d {}", ref)
    return f"{file}, then {packed}, typed in the git directory of that repository on its host, take it away"


def remedy_of_damage(reason: str, place: Path | None = None) -> str:
    """What helps where something is damaged there; empty: nothing is, as far as is said."""
    if not lacks_objects(reason):
        return ""
    bad = _BAD_REF.search(reason)
    if bad is None or not is_branch(bad[1].removeprefix("refs/")):  # the host says what, and one may lie
        return _LOST_THERE
    return f"{bad[1]} is broken there, or names an object that is lost; {mend_there(bad[1], place)}"


_OTHER_OWNER = re.compile(r"dubious ownership in repository at '(.+)'")
"""How git refuses a repository of another account (git-config(1), ``safe.directory``)."""


_OR_NOT_THERE = "mis-spelled"
"""What gitolite says where it tells nobody whether there is such a repository."""


def remedy_of(reason: str, otherwise: str, moved: Callable[[str], str] | None = None, needed: str = "") -> str:
    """What helps where a remote gave no answer for this reason, or refused a push for it.

    ``moved`` says how it is given another URL, ``needed`` which rights are needed there, where that is known.
    """
    if _IT_LEADS_TO in reason:
        url = reason.partition(_IT_LEADS_TO)[2].strip()
        where = moved(url) if moved else "put that URL in the place of the old one"
        return f"redirects are not followed: ask who keeps it whether that is right; if so, {where}"
    if others := _OTHER_OWNER.search(reason):
        trust = command("git config --global --add safe.directory {}", others[1])
        there = f"that repository is another account's: at another host, {_GIVES_BACK}"
        return f"{there}; on this machine, if who may write there may act as you, {trust} says so to git"
    if _CLOSED_THERE.search(reason) and "publickey" not in reason:
        return f"the account there may not read or write all files of that repository: {_GIVES_BACK}"
    if damaged := remedy_of_damage(reason):
        return damaged
    denied = remedy_of_denied(reason, needed)
    if denied and moved and _OR_NOT_THERE in reason:
        denied += f"; where it has another URL now, {moved('URL')}"
    found = (remedy for said, remedy in _NOT_LET_IN if said in reason)
    return remedy_of_changed_key(reason) or denied or next(found, otherwise)


_NO_ROOM = r"'(refs/[^' ]+)' exists; cannot create '(refs/[^' ]+)'"


def in_the_way(reason: str) -> str:
    """The ref that leaves no room for one that was refused for this reason: a file where a folder is needed, or the
    other way, or a name for which git takes it too. Empty: it was refused for another one.
    """
    if other := mistaken_for(reason):
        return other
    found = re.search(_NO_ROOM, reason)
    apart = found is None or not (f"{found[2]}/".startswith(f"{found[1]}/") or found[1].startswith(f"{found[2]}/"))
    return "" if found is None or apart else found[1]


def list_refs_of(git: Git, url: str, refs: Collection[str], seconds: float) -> Mapping[str, str] | str:
    """The tips of those of these refs (full names) that a remote has, or why there was no answer."""
    job = Job("", ("ls-remote", "--quiet", "--refs", "--", url, *refs), seconds=seconds, max_out=LISTING_BYTES)
    (done,) = git.run_many([job])
    rows = [line.partition("\t") for line in done.text.split("\n")]
    return {ref: oid for oid, _, ref in rows if ref in refs} if done.ok else why_not(git, url, done, seconds)


def head_of(git: Git, url: str, seconds: float) -> tuple[str, Oid] | None:
    """The branch that HEAD names at a remote, with its tip; None as well where there was no answer."""
    found = ask_heads(git, [url], seconds)[url]
    return None if isinstance(found, str) else found


def ask_heads(git: Git, urls: Sequence[str], seconds: float) -> dict[str, tuple[str, Oid] | str | None]:
    """The branches that HEAD names at remotes, with their tips, or why there was no answer (git-ls-remote(1),
    ``--symref``). None: it names none that is there.
    """
    words = ("ls-remote", "--quiet", "--symref", "--")
    jobs = [Job(url, (*words, url, "HEAD"), seconds=seconds, max_out=LISTING_BYTES) for url in urls]
    answers = git.run_many(jobs, width=WIDTH) if jobs else []
    pairs = zip(urls, answers, strict=True)
    return {url: _read_head(done) if done.ok else why_not(git, url, done, seconds) for url, done in pairs}


def _read_head(done: Done) -> tuple[str, Oid] | None:
    rows = [line.split("\t") for line in done.text.split("\n")]
    names = [row[0].removeprefix("ref: ") for row in rows if row[0].startswith("ref: ")]
    tips = [row[0] for row in rows if row[1:] == ["HEAD"] and not row[0].startswith("ref: ")]
    if not names or not tips or not is_oid(tips[0]) or not names[0].startswith(HEADS):
        return None
    branch = names[0].removeprefix(HEADS)
    return (branch, Oid(tips[0])) if is_branch(branch) else None
