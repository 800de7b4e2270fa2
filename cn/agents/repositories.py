"""Repositories for agents: mirrors on this machine, clones in workspaces, pushes of the branches that a grant names.

A mirror is fetched by one at a time, at most every so many seconds, with the credentials of who runs the server; agents
get none. A clone is a copy: files that it shared with the mirror could be written through. What an agent wants pushed
comes as a bundle (git-bundle(1)) that it made itself, since no git of ours may work in a repository whose
configuration an agent writes.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from cn.agency.names import Resource
from cn.agency.operations import ByHandler, Principal
from cn.agency.plan.access import KNOWN, boss_of, no_access, reason_for
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.agents.machine import Repositories
from cn.agents.processes import carry_as
from cn.agents.workspace import remove_made
from cn.git.bundle_size import unpacked_size
from cn.git.process import CHECK_REFUSES, Done, Git, Watches
from cn.git.remote import Result, is_unreached, push_forward, remedy_of, why_not
from cn.system.files import open_lock
from cn.system.removal import remove_tree
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import one_line, redact

BRANCH: Final = "repo-branch"
UNREACHED: Final = "repo-unreached"
PLACE: Final = "repo-place"
BUNDLE: Final = "repo-bundle"
_UNPACKED: Final = 512 << 20
"""Bytes that the objects of a bundle may come to."""
SECONDS: Final = 600.0
_MOST_FILES: Final = 500_000
_MOST_BYTES: Final = 16 << 30
_SIZE_BYTES: Final = 16
_COUNTED_SECONDS: Final = 30.0
"""What a clone may come to, when it is checked out; how long that is counted, with so many bytes for each file."""
_MOST_ASKED: Final = 2000
"""Branches and tags among which one is looked for."""
_MARK: Final = "#"
_BRANCH: Final = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}"
_FETCHED: Final = "cn-fetched"
Tell: TypeAlias = Callable[[], Refused | None]
Note: TypeAlias = Callable[[Mapping[str, object]], None]
_ALL: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class Repository(NamedTuple):
    """A repository as an agent names it, and where it is."""

    name: str
    url: str

    @property
    def public_url(self) -> str:
        """Without a user's password."""
        return re.sub(r"^(\w+://)[^/@]*:[^/@]*@", r"\1", self.url)

    @property
    def folder(self) -> str:
        """The name of a clone."""
        last = self.name.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1].removesuffix(".git")
        return re.sub(r"[^A-Za-z0-9._-]", "-", last).lstrip(".-")[:60] or "repo"


def find_repository(name: str, known: Repositories) -> Repository | None:
    """By a name of the machine's file, or by a URL that one of its patterns allows."""
    named = dict(known.named)
    if name in named:
        return Repository(name, named[name])
    plain = "://" in name and "@" not in name and ".." not in name and redact(name) == name
    allowed = plain and any(fnmatch.fnmatchcase(name, pattern) for pattern in known.patterns)
    return Repository(name, name) if allowed else None


def list_repositories(principal: Principal, known: Repositories, facts: Facts) -> list[dict[str, object]]:
    """What a principal may clone or push: name, URL, and the patterns of branches that it may push."""
    names = {name for name, _ in known.named} | {name for name, _ in _granted(principal, facts)}
    found: list[dict[str, object]] = []
    for name in sorted(names):
        repository = find_repository(name, known)
        if repository and isinstance(may_clone(name, principal, facts), Resource):
            pushes = list(dict(push_patterns(name, principal, facts)))
            found.append({"repo": name, "url": repository.public_url, "push": pushes})
    return found


def may_clone(name: str, principal: Principal, facts: Facts) -> Resource | Refused:
    """As what it may; a capability for some of its branches is one for the repository."""
    resource = Resource("repo", name)
    mine = [Resource("repo", f"{one}{_MARK}{rest}") for one, rest in _granted(principal, facts) if one == name]
    found = (one for one in (resource, *mine) if reason_for(principal, one, "clone", facts))
    return next(found, None) or no_access(principal, resource, "clone", facts)


def push_patterns(name: str, principal: Principal, facts: Facts) -> Iterator[tuple[str, Resource]]:
    """The branches that it may push, each with the resource that says so.

    These are what grants name behind ``#``, and where one names none, those of its own.
    """
    whole = Resource("repo", name)
    if not isinstance(principal, ByHandler):
        yield "*", whole
        return
    if reason_for(principal, whole, "push", facts):
        yield from ((f"{principal.handler}/*", whole), (f"{principal.handler[:8]}/*", whole))
    for one, branches in _granted(principal, facts):
        resource = Resource("repo", f"{one}{_MARK}{branches}")
        if one == name and branches and reason_for(principal, resource, "push", facts):
            yield branches, resource


def may_push(name: str, branch: str, principal: Principal, facts: Facts) -> Resource | Refused:
    """As what it may push this branch."""
    patterns = dict(push_patterns(name, principal, facts))
    if not patterns:
        return no_access(principal, Resource("repo", name), "push", facts)
    if not re.fullmatch(_BRANCH, branch) or re.search(r"\.\.|//|/\.|\.lock(/|$)|[/.]$", branch):
        what = f"{one_line(branch, 80)!r} is no name of a branch"
        return Refused(BRANCH, what, "use letters, digits, '-', '.' and '/'")
    for pattern, resource in patterns.items():
        if fnmatch.fnmatchcase(branch, pattern):
            return resource
    boss = boss_of(principal, facts)
    remedy = f"push a branch that fits {' or '.join(patterns)}, or ask {boss} for another one"
    return Refused(BRANCH, f"your capability does not name the branch {branch}", remedy, boss)


def _granted(principal: Principal, facts: Facts) -> Iterator[tuple[str, str]]:
    """Repositories in the grants of a handler, with the branches that stand behind ``#``."""
    if isinstance(principal, ByHandler):
        for grant in facts.grants_of(principal.handler, principal.tenure):
            kind, _, name = grant.resource.partition(":")
            if kind == "repo":
                repository, _, branches = name.partition(_MARK)
                yield repository, branches


def _nothing_noted(answer: Mapping[str, object]) -> None:
    """Nobody asks for it again."""


class Mirrors:
    """The mirrors of a machine, below ``folder``. Methods block, for as long as a fetch takes; any thread may call."""

    def __init__(self, folder: Path, known: Repositories, git: Git) -> None:
        self.folder, self.known, self._git = folder, known, git

    def find(self, name: str) -> Repository | Refused:
        """By its name or URL."""
        found = find_repository(name, self.known)
        remedy = "list repositories; the user adds others to [repos] of agency.toml"
        return found or Refused(KNOWN, f"this machine has no repository {one_line(name, 100)!r}", remedy)

    def watched(self, gits: Watches) -> Mirrors:
        """The same, whose gits somebody may end."""
        return type(self)(self.folder, self.known, self._git._replace(children=gits))

    def clone(
        self,
        repository: Repository,
        workspace: Path,
        staging: Path,
        tell: Tell,
        note: Note = _nothing_noted,
        user: str = "",
    ) -> dict[str, object] | Refused:
        """A copy in a workspace, whose ``origin`` is the real URL; ``staging`` is a folder of ours on the same disk.
        ``user`` is the other user of the machine who works there, if any: the copy becomes that one's.

        All waiting is over when ``tell`` is asked, and what it refuses is not handed out. ``note`` gets the answer
        before the copy is in its place.
        """
        made = Path(tempfile.mkdtemp(prefix="clone-", dir=staging))
        try:
            with self._mirror(repository) as mirror:
                refused = mirror if isinstance(mirror, Refused) else self._copy(repository, mirror, made / "clone")
            return refused or tell() or self._place(repository, made / "clone", workspace, note, user)
        finally:
            remove_tree(made)

    def _copy(self, repository: Repository, mirror: Path, copy: Path) -> Refused | None:
        if why := _too_much(self._bare(mirror), "HEAD"):
            remedy = f"ask the user to look at the default branch of {repository.name} at its host"
            return Refused(UNREACHED, f"{repository.name} is not cloned: {why}", remedy)
        git = self._git._replace(root=copy.parent, bare=False, git_dir=None, finds=True)
        words = ("clone", "--quiet", "--local", "--no-hardlinks", "--no-checkout", "--", str(mirror), str(copy))
        done = git.run(*words, check=False, seconds=SECONDS)
        if why := _check_out(git._replace(root=copy)) if done.ok else done.reason:
            return Refused(UNREACHED, f"{repository.name} could not be cloned: {why}", "try again later")
        Git(copy).run("remote", "set-url", "origin", repository.public_url)
        return None

    def _place(
        self, repository: Repository, copy: Path, workspace: Path, note: Note, user: str
    ) -> dict[str, object] | Refused:
        """Bring a clone into the workspace under a name that is free there; no link of the agent's is followed."""
        try:
            fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            remedy = "clone it yourself, from the URL in repo_list"
            return Refused(PLACE, "your workspace is not on this machine", remedy)
        try:
            for number in range(1, 100):
                name = repository.folder if number == 1 else f"{repository.folder}.{number}"
                with suppress(OSError):
                    os.mkdir(name, 0o700, dir_fd=fd)
                    answer: dict[str, object] = {"repo": repository.name, "path": name, "url": repository.public_url}
                    note(answer)
                    if not user:
                        os.rename(copy, name, dst_dir_fd=fd)  # over an empty folder, never through a link (rename(2))
                    elif refused := self._carry(copy, workspace, name, user):
                        with suppress(OSError):
                            os.rmdir(name, dir_fd=fd)
                        return refused
                    return answer
        finally:
            os.close(fd)
        why = f"your workspace has {repository.folder}, and many more of that name"
        return Refused(PLACE, why, "remove what you do not need")

    def _carry(self, copy: Path, workspace: Path, name: str, user: str) -> Refused | None:
        """The clone as another user's. What happens in its workspace is done as that user, where it may as well do it
        itself.
        """
        beside, gits = f".{name}.{os.urandom(8).hex()}", self._git.children
        why = carry_as(user, copy, workspace, beside, name, gits.add if gits else lambda brings: None)
        if not why:
            return None
        remove_made(workspace / beside, (user,))  # where what that user was asked was killed
        try_it = command("sudo -n -u {} true", user)
        remedy = f"clone again where your workspace has room; else ask who runs the server whether {try_it} works there"
        return Refused(PLACE, f"{user}, as whom you work, got no clone: {why}", remedy)

    def push(
        self, repository: Repository, branch: str, bundle: bytes, tell: Callable[[str], Refused | None]
    ) -> dict[str, object] | Refused:
        """Push what a bundle holds as a branch, forward only. It names one commit, which ``tell`` gets before."""
        with self._mirror(repository) as mirror:
            if isinstance(mirror, Refused):
                return mirror
            scratch = Path(tempfile.mkdtemp(prefix=".push-", dir=self.folder))
            try:
                git = self._bare(scratch / "taken.git")
                (git.root / "objects/info").mkdir(parents=True, exist_ok=True)
                (git.root / "objects/info/alternates").write_text(f"{mirror}/objects\n")
                (scratch / "bundle").write_bytes(bundle)
                commit = _too_large(bundle) or _unpack(git, scratch / "bundle")
                refused = commit if isinstance(commit, Refused) else _too_many(git, commit) or tell(commit)
                return refused or _push(git, repository, branch, str(commit))
            finally:
                remove_tree(scratch)

    @contextmanager
    def _mirror(self, repository: Repository) -> Iterator[Path | Refused]:
        """The mirror, fetched lately, and nobody else's meanwhile."""
        path = self.folder / f"{hashlib.sha256(repository.url.encode()).hexdigest()[:24]}.git"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = open_lock(path.with_suffix(".lock"))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            refused = None if _is_fresh(path, self.known.fresh) else self._fetch(repository, path, fd)
            yield refused or path
        finally:
            os.close(fd)

    def _fetch(self, repository: Repository, path: Path, lock: int) -> Refused | None:
        """Bring a mirror up to date. Whoever holds the lock is alone: a lock of git's there is that of a killed one.

        One that is damaged, as by a crash of the machine, has nothing of its own: another takes its place.
        """
        for stale in path.rglob("*.lock"):
            stale.unlink(missing_ok=True)
        was = path.exists()
        git = self._bare(path)._replace(lock_fd=lock)
        done = self._bring(git, repository)
        why = "" if done.ok else why_not(git, repository.url, done, SECONDS)
        may_be_ours = was and not (is_unreached(why) or why.startswith(CHECK_REFUSES))
        if why and not (may_be_ours and self._make_anew(repository, path, lock)):
            remedy = remedy_of(why, "try again later, or ask who runs the server", _say_moved)
            if why.startswith(CHECK_REFUSES) and (ref := _find_refused(git, repository.url)):
                why, remedy = f"{one_line(ref)}: {why}", "ask the user to remove that branch or tag from its host"
            return Refused(UNREACHED, f"{repository.name} cannot be fetched: {redact(why)}", remedy)
        head = git.run("ls-remote", "--symref", "--", repository.url, "HEAD", check=False, seconds=SECONDS)
        for line in head.lines:
            if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
                git.run("symbolic-ref", "HEAD", line.removeprefix("ref: ").split("\t")[0])
        (path / _FETCHED).touch()
        return None

    def _make_anew(self, repository: Repository, path: Path, lock: int) -> bool:
        """Put another mirror in the place of one; False: that cannot be fetched either."""
        anew = path.with_suffix(".anew")
        remove_tree(anew)  # of a server that was killed
        brought = self._bring(self._bare(anew)._replace(lock_fd=lock), repository).ok
        if brought:
            remove_tree(path)
            os.rename(anew, path)
        remove_tree(anew)
        return brought

    @staticmethod
    def _bring(git: Git, repository: Repository) -> Done:
        words = ("fetch", "--quiet", "--prune", "--no-tags", "--", repository.url, *_ALL)
        return git.run(*words, check=False, seconds=SECONDS)

    def _bare(self, path: Path) -> Git:
        git = self._git._replace(root=path, bare=True, git_dir=None, finds=False)
        if not (path / "HEAD").exists():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            git.run("init", "--quiet", "--bare")
        return git


def _find_refused(git: Git, url: str) -> str:
    """A branch or tag that keeps the others from being fetched; empty where that cannot be told."""
    listed = git.run("ls-remote", "--heads", "--tags", "--refs", "--", url, check=False, seconds=SECONDS)
    refs = [line.split("\t")[1] for line in listed.lines if "\t" in line]
    if len(refs) > _MOST_ASKED:
        return ""
    while len(refs) > 1:
        half = refs[: len(refs) // 2]
        words = ("fetch", "--quiet", "--no-tags", "--", url, *(f"+{ref}:{ref}" for ref in half))
        done = git.run(*words, check=False, seconds=SECONDS)
        if not done.ok and not done.reason.startswith(CHECK_REFUSES):
            return ""
        refs = refs[len(half) :] if done.ok else half
    return "".join(refs)


def _too_large(bundle: bytes) -> Refused | None:
    try:
        if unpacked_size(bundle, _UNPACKED) <= _UNPACKED:
            return None
    except ValueError as damaged:
        return Refused(
            BUNDLE,
            f"the bundle is not whole: {damaged}",
            "make it again: git bundle create NAME.bundle origin/HEAD..BRANCH",
        )
    why = f"the bundle unpacks to more than {_UNPACKED >> 20} MB"
    return Refused(BUNDLE, why, "push smaller parts one after the other; large files belong elsewhere")


def _too_many(git: Git, commit: str) -> Refused | None:
    why = _too_much(git, commit)
    return Refused(BUNDLE, f"nobody could check that out: {why}", "push fewer files") if why else None


def _check_out(git: Git) -> str:
    """The files of HEAD, if it has any, by none of the user's filters: these would run outside of the agent's wrap, on
    what the repository says (gitattributes(5), which names the file that comes before all others). Why not, or "".
    """
    if not git.run("rev-parse", "--quiet", "--verify", "HEAD", check=False).ok:
        return ""
    attributes = git.root / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* -filter\n")
    done = git.run("reset", "--quiet", "--hard", check=False, seconds=SECONDS)
    attributes.unlink()
    return "" if done.ok else done.reason


def _too_much(git: Git, commit: str) -> str:
    """Why a commit is not laid out in a work tree; empty: it can be, or there is none. A few hundred bytes of trees
    that name each other come to a hundred million files.
    """
    words = ("ls-tree", "-r", "-z", "--format=%(objectsize)", commit)
    done = git.run(*words, check=False, seconds=_COUNTED_SECONDS, max_out=_MOST_FILES * _SIZE_BYTES)
    sizes = done.fields if done.ok else []
    if done.limited or len(sizes) > _MOST_FILES:
        return f"it comes to more than {_MOST_FILES:,} files, or to trees without end"
    if sum(int(size) for size in sizes if size.isdecimal()) > _MOST_BYTES:
        return f"its files come to more than {_MOST_BYTES >> 30} GB"
    return ""


def _unpack(git: Git, file: Path) -> str | Refused:
    """The commit of a bundle, with all that it needs, checked. Its names do not count: who pushes says the branch."""
    advice = "in your clone: git bundle create NAME.bundle origin/HEAD..BRANCH, then give the path of that file"
    listed = git.run("bundle", "list-heads", str(file), check=False)
    heads = {line.split(" ", 1)[0] for line in listed.lines if line}
    if not listed.ok or len(heads) != 1:
        reason = f"it names {len(heads)} commits" if listed.ok else listed.reason
        return Refused(BUNDLE, f"the file is no bundle of one commit: {one_line(reason)}", advice)
    (commit,) = heads
    # Not 'git bundle unbundle': it checks no object, and what our fetches refuse would keep the repository from all.
    pack = file.read_bytes().partition(b"\n\n")[2]
    taken = git.run("index-pack", "--stdin", "--fix-thin", _check(git), check=False, seconds=SECONDS, stdin=pack)
    if taken.reason.startswith(CHECK_REFUSES):
        return Refused(BUNDLE, f"the bundle: {taken.reason}", "make those commits anew without that, and bundle them")
    done = git.run("rev-list", "--objects", "--quiet", commit, check=False, seconds=SECONDS) if taken.ok else taken
    return commit if done.ok else Refused(BUNDLE, f"the bundle is not whole: {done.reason}", advice)


def _check(git: Git) -> str:
    """The object check of our fetches, as an argument of git-index-pack(1): what ``fetch.fsck.*`` changes of it too."""
    asked = git.list_settings(r"fetch\.fsck\..*")
    changes = [f"{one.key.removeprefix('fetch.fsck.')}={one.value}" for one in asked]
    return f"--strict={','.join(changes)}" if changes else "--strict"


def _push(git: Git, repository: Repository, branch: str, commit: str) -> dict[str, object] | Refused:
    pushed = push_forward(git, repository.url, branch, Oid(commit), SECONDS)
    if pushed.result is Result.DONE:
        return {"repo": repository.name, "branch": branch, "commit": commit}
    if "fetch first" in pushed.reason or "non-fast-forward" in pushed.reason:
        reason = f"{branch} of {repository.name} has commits that yours does not build on"
        return Refused(BRANCH, reason, "clone again, put your work on top of it, or push another branch")
    what = one_line(redact(pushed.reason))
    if pushed.result is Result.UNKNOWN and not is_unreached(pushed.reason):
        remedy = f"clone again: if {branch} is there, it is done; else push it again"
        return Refused(UNREACHED, f"nobody knows whether {repository.name} took {branch}: {what}", remedy)
    remedy = remedy_of(pushed.reason, "push it again, or ask who runs the server", _say_moved)
    return Refused(UNREACHED, f"{repository.name} did not take {branch}: {what}", remedy)


def _say_moved(url: str) -> str:
    return "the user puts that URL into [repos] of agency.toml"


def _is_fresh(path: Path, seconds: float) -> bool:
    with suppress(OSError):  # a time to come, which a clock that was put right leaves, tells nothing
        return 0 <= time.time() - (path / _FETCHED).stat().st_mtime < seconds
    return False
