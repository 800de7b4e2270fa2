"""Find and open a hub: its folder, its git directory, its remotes, and git's configuration.

The configuration is read with one process: asked for one by one, the same few settings took 20 of a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from cn.git.credentials import ASKED
from cn.git.environment import child_environment
from cn.git.process import Git, GitConfig
from cn.system.closed import owner_of
from cn.system.files import PRIVATE
from cn.values.errors import ConfigError, UsageError
from cn.values.names import too_long
from cn.values.shell_words import command
from cn.values.text import one_line

ORIGIN_REF = "refs/cn/origin/main"
"""Origin's main as this clone last took it over."""
RESCUE = "refs/cn/rescue/"
"""What origin's main had, and lost."""

_ASKED = (
    rf"{ASKED}|remote\..*\.(fetch|promisor|partialclonefilter|proxyauthmethod)|core\.(bare|filemode|sharedrepository|sparsecheckout)|merge\.(ff|verifysignatures)|cn\..*|agency\..*"
    r"|core\.sshcommand|ssh\.variant|user\.(name|email|signingkey)|commit\.gpgsign|gpg\.format|gpg\.ssh\.defaultkeycommand"
    r"|extensions\.(partialclone|objectformat)|filter\..*\.(clean|smudge|process)|include\.path|includeif\..*\.path"
)
NOTED = "cn.hub"
"""The setting of a clone of a peer's hub that names the hub which proposes from it: a path."""
_OPEN = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or am",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
    "BISECT_LOG": "a bisect",
}
_BELOW = 400
"""Bytes of the longest path that git and cn need below a hub: a pin of a long topic, with its lock."""
_OVERRIDDEN = "commit.gpgsign"
"""What the runner sets for its own calls (:mod:`cn.git.environment`): git reads that last."""


def half_done_in(work_git_dir: Path) -> str:
    """What of git's is half done in a work tree with this folder of git files, such as "a rebase"; empty: nothing."""
    return next((what for name, what in _OPEN.items() if (work_git_dir / name).exists()), "")


def read_config(git: Git) -> GitConfig:
    """The configuration of a repository, without what the runner itself sets."""
    found = git.list_settings(_ASKED)
    ours = [number for number, setting in enumerate(found) if setting.key == _OVERRIDDEN][-1:]
    return GitConfig(tuple(setting for number, setting in enumerate(found) if number not in ours))


def list_included(git: Git) -> list[str]:
    """The files that the configuration of a repository takes in, or would (git-config(1), "Includes")."""
    done = git.run("config", "--show-origin", "-z", "--get-regexp", r"^include(if\..*)?\.path$", check=False)
    found = []
    for origin, pair in zip(done.fields[::2], done.fields[1::2], strict=False):
        folder = os.path.join(git.root, os.path.dirname(origin.removeprefix("file:")))
        found.append(os.path.join(folder, os.path.expanduser(pair.partition("\n")[2])))
    return found


_OWN_SCOPES = ("local", "worktree", "command")
CONFIG = Path(".cn") / "hub.yaml"
FETCHED = ("refs/remotes/origin/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/master")
"""Where git's own fetch notes origin's main: a clone from before a project became a hub has its configuration there."""
_MAINS = ("HEAD", "refs/heads/main", "refs/cn/trusted", "refs/cn/origin/main", *FETCHED)
"""Where a hub's configuration may stand when the work tree does not have it."""
_NONE = "make one with 'cn init NAME', or name one with --hub DIR"
_NOT_THERE = (
    "check the path; where the hub was moved, name its new place: 'cn cron install' there has cron work in it, and "
    "tells what takes out the lines that name this one"
)
"""Of a folder that is not there: a second, empty hub in its place would have cron work on, and on nothing."""
_NONE_IN_CLONE = (
    "where this project is a hub, 'git pull' brings what makes it one here; else 'cn init NAME --here' makes it one, "
    "or name one with --hub DIR"
)


class ForeignHub(ConfigError):
    """The hub belongs to another user, and git was not told to trust it."""


@dataclass(frozen=True, eq=False, repr=False)  # each method that is made for it takes time at every start
class Hub:
    """An opened hub.

    ``root`` is the work tree, ``git_dir`` the common git directory (shared by linked
    work trees), ``work_git_dir`` the one of this work tree (HEAD, index), ``main`` the
    name of the main branch, ``origin`` whether a remote of that name exists, ``name`` the
    hub's own name once its configuration was read. ``apart``: another branch is checked out, and stays so; a run
    moves main without index and work tree. ``state`` is
    ``.git/cn`` (lock, journal, scratch files: never in the tree, never pushed), ``main_ref``
    ``refs/heads/main``.
    """

    root: Path
    git_dir: Path
    work_git_dir: Path
    git: Git
    main: str = "main"
    origin: bool = False
    name: str = ""
    apart: bool = False
    state: Path = field(init=False)
    main_ref: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", self.git_dir / "cn")
        object.__setattr__(self, "main_ref", f"refs/heads/{self.main}")
        object.__setattr__(self, "git", self.git._replace(main_ref=self.main_ref))

    @cached_property
    def config(self) -> GitConfig:
        """git's configuration here."""
        return self.git.config or GitConfig()

    @cached_property
    def identity(self) -> tuple[str, str]:
        """Name and email of the repository's commits: the hub's own, whoever's machine it is on."""
        told = [self.config.last(key, *_OWN_SCOPES) for key in ("user.name", "user.email")]
        name, email = map(_clean_ident, told)
        name = name or _clean_ident(self.name or self.root.name) or "cn"
        fallback = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "cn"
        return name, email or f"{fallback}@cn.invalid"

    @cached_property
    def signs(self) -> bool:
        """Are commits signed here: ``cn.sign`` or the user's ``commit.gpgSign``?"""
        return self.config.is_true("cn.sign") or self.config.is_true("commit.gpgsign")

    @cached_property
    def leaves_agent(self) -> bool:
        """Does this clone leave the agent's items to another one, where the agent works (``cn.agent`` is false)?"""
        return self.config.is_false("cn.agent")

    @cached_property
    def private_mode(self) -> int:
        """The mode of what is nobody else's affair: ours alone, or the group's with which the repository is shared."""
        return PRIVATE | 0o060 if shares_with_group(self.config.last("core.sharedrepository")) else PRIVATE

    @cached_property
    def any_mode(self) -> bool:
        """Does the executable bit of a file say nothing on this file system?"""
        return self.config.is_false("core.filemode")

    @cached_property
    def origin_url(self) -> str:
        """The first URL of ``origin`` as written, empty where there is none."""
        return next(iter(self.config.all("remote.origin.url")), "")

    @property
    def tracking(self) -> str:
        """Where git's own fetch and push note origin's main, for prompts and editors; empty if they do not
        (git-config(1), ``remote.<name>.fetch``).
        """
        ref = f"refs/remotes/origin/{self.main}"
        specs = {spec.removeprefix("+") for spec in self.config.all("remote.origin.fetch")}
        every = {"refs/heads/*:refs/remotes/origin/*", f"{self.main_ref}:{ref}"}
        return ref if self.origin and specs & every else ""

    def with_git(self, git: Git) -> Hub:
        """The same hub on another variant of the runner."""
        return replace(self, git=git)


def _clean_ident(text: str) -> str:
    """What git itself strips from a name or an email (``ident.c``, "crud")."""
    kept = re.sub(r"[<>\x00-\x1f\x7f]", "", text.encode("utf-8", "replace").decode())
    return kept.strip(" .,:;\"\\'")


def shares_with_group(setting: str) -> bool:
    """May the group write by this value of ``core.sharedRepository`` (git-config(1))?"""
    word = setting.strip().lower()
    if re.fullmatch(r"[0-7]+", word):
        return int(word, 8) in (1, 2) or bool(int(word, 8) & 0o020)
    return word in ("group", "true", "yes", "on", "all", "world", "everybody")


def shared_mask(setting: str, mask: int) -> int:
    """The umask of who works in a repository that is shared so, whose own is ``mask`` (git-config(1)).

    An octal value is the mode of every file; a word opens to the group, or to all for reading, what the user's closes.
    """
    word = setting.strip().lower()
    if re.fullmatch(r"[0-7]{3,}", word):
        given = int(word, 8) & 0o666
        return 0o777 & ~(given | (given & 0o444) >> 2)
    if word in ("2", "all", "world", "everybody"):
        return mask & ~0o075
    return mask & ~0o070 if shares_with_group(word) else mask


def share(hub: Hub) -> Hub:
    """The hub, whose files this process makes from now on as git makes its own there, whatever the caller's umask."""
    mask = os.umask(0o077)
    os.umask(shared_mask(hub.config.last("core.sharedrepository"), mask) | mask & 0o002)
    return hub


def find_hub(start: Path) -> Path | None:
    """The nearest folder from ``start`` upwards that is a hub with its repository; else the nearest that is one.

    A file such as a hub's may lie in any folder of a hub, also by a merge: the hub around it is meant.
    """
    start = start.absolute()
    folders = (start, *start.parents)
    whole = next((d for d in folders if (d / ".git").exists() and is_hub(d)), None)
    return whole or next((d for d in folders if is_hub(d)), None)


def is_hub(folder: Path) -> bool:
    """Does it hold ``.cn/hub.yaml``, or does its repository, so that the file is only missing here?"""
    if (folder / CONFIG).is_file() and ((folder / ".git").exists() or _is_ours(folder / CONFIG)):
        return True
    if not (folder / ".git").exists() or _refusal(folder):
        return False
    asked = "".join(f"{ref}:{CONFIG}\n" for ref in _MAINS).encode()
    done = Git(folder).run("cat-file", "--batch-check", stdin=asked, check=False)
    return done.ok and any(b" blob " in line for line in done.out.splitlines())


def _has_origin(folder: Path) -> bool:
    """Does a folder lie in a clone that git works in, which has an origin?"""
    if not folder.is_dir():
        return False
    return Git(folder, finds=True).run("config", "--get", "remote.origin.url", check=False).ok


def is_trusted(root: Path) -> bool:
    """Would git work in this hub, or is there no repository that could be somebody else's?"""
    return not (root / ".git").exists() or not _refusal(root)


def _is_ours(path: Path) -> bool:
    """Alone it makes no hub: anybody may put one into a folder such as ``/tmp``."""
    with suppress(OSError):
        return path.lstat().st_uid == os.geteuid()
    return False


def _refusal(root: Path, *more: Path) -> str:
    """Why git does not work here: it is another user's, whose configuration could make it run anything. Or "".

    A git that is told where the repository is, as all of cn's are, does not look (git-config(1), ``safe.directory``).
    """
    try:
        if {place.lstat().st_uid for place in (root, root / ".git", *more)} == {os.geteuid()}:
            return ""
    except OSError as why:
        return why.strerror or str(why)
    return refused_by_git(root)


def refuse_sudo(root: Path) -> None:
    """Raise :class:`ForeignHub` where a user works as root, by sudo(8), in a hub of their own.

    git allows it (``SUDO_UID`` in git-config(1), ``safe.directory``); but what root makes there its owner can
    neither read nor write afterwards.
    """
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() or not number.isdecimal() or number == "0":
        return
    if root.lstat().st_uid == int(number):
        owner = owner_of(root)
        text = f"{root} is {owner}'s, and this is root, by sudo: what root makes there is closed to {owner}"
        raise ForeignHub(text, f"nothing was done; run it as {owner}, without sudo")


def refused_by_git(folder: Path) -> str:
    """What git says that looks for its repository from ``folder``, and does not work there; empty: it works."""
    finding = Git(folder, finds=True, settings={"safe.bareRepository": "all"})
    done = finding.run("rev-parse", "--git-dir", check=False)
    return "" if done.ok else done.reason


def check_place(folder: Path) -> None:
    """Raise :class:`UsageError` where the path of a hub leaves no room for what git and cn write below it."""
    most = os.pathconf("/", "PC_PATH_MAX") - 1 - _BELOW
    if why := too_long(str(folder), most):
        raise UsageError(f"no hub can be at {one_line(str(folder), 200)}: {why}", "choose a shorter path")


def open_hub(path: Path | None, *, cwd: Path | None = None, main: str = "main") -> Hub:
    """Open the hub at ``path``, or the one around ``cwd``; from a clone in which another hub is noted, that one.

    Raises :class:`ConfigError` when there is none or it is no git repository.
    """
    if path is not None:
        check_place(path.absolute())
        root = path.absolute() if is_hub(path.absolute()) else None
        where = str(path)
    else:
        where = str(cwd or Path.cwd())
        root = find_hub(cwd or Path.cwd())
    if root is None and path is not None and not os.path.lexists(path):
        raise ConfigError(f"no hub at {where}: there is no such folder", _NOT_THERE)
    if root is None:
        raise ConfigError(f"no hub at {where}", _NONE_IN_CLONE if _has_origin(Path(where)) else _NONE)
    hub = open_repository(Path(os.path.realpath(root)), main)
    noted = hub.config.last(NOTED, "local", "worktree") if path is None else ""
    if noted and not is_hub(Path(noted)):
        right, out = command("git config {} DIR", NOTED), command("git config --unset {}", NOTED)
        remedy = f"{right} sets it right, {out} takes it out"
        raise ConfigError(f"there is no hub at {one_line(noted)}, which {NOTED} names in {root}", remedy)
    return open_hub(Path(noted), main=main) if noted else hub


def open_repository(root: Path, main: str) -> Hub:
    """The repository with its work tree at ``root``, whether it is a hub or is to become one."""
    check_place(root)
    if not (root / ".git").exists():
        raise ConfigError(f"{root} has .cn/hub.yaml but is not a git work tree", "run 'git init -b main' there")
    git = Git(root, around=child_environment())
    if (root / ".git").is_dir():
        git_dir = work_git_dir = root / ".git"
    else:
        words = ("--git-common-dir", "--absolute-git-dir")
        common, work = (git.run("rev-parse", word, check=False) for word in words)
        if not (common.ok and work.ok):
            raise ConfigError(f"git cannot read {root}: {common.reason}", "repair the repository first")
        git_dir, work_git_dir = Path(os.path.realpath(root / common.path)), Path(work.path)
    refuse_sudo(root)
    if why := _refusal(root, git_dir, work_git_dir):
        hint = f"if you trust who owns it: {command('git config --global --add safe.directory {}', str(root))}"
        raise ForeignHub(f"git does not work in {root}: {why}", hint)
    git = configured(git)
    config = git.config or GitConfig()
    if git_dir == work_git_dir != root / ".git" and config.is_true("core.bare"):
        text = f"{root} is no work tree: its repository is bare"
        raise ConfigError(text, "'git worktree list' names its work trees: go to the one that has main, or name it")
    return Hub(root, git_dir, work_git_dir, git, main, bool(config.all("remote.origin.url")))


def configured(git: Git) -> Git:
    """The same git, which knows its repository's configuration."""
    config = read_config(git)
    proxies = _proxies(config, git.around or child_environment())
    return git._replace(config=config, env={**git.env, **proxies})


def _proxies(config: GitConfig, around: Mapping[str, str]) -> dict[str, str]:
    """``remote.<name>.proxy`` as ``http.<url>.proxy``: cn speaks to a host by its URL, where git does not look at the
    first (git-config(1)). In the environment (git-config(1), "ENVIRONMENT"): such a URL may hold a password.
    """
    given: dict[str, str] = {}
    count = int(text) if (text := around.get("GIT_CONFIG_COUNT", "")).isdecimal() else 0
    for setting in config.settings:
        remote, _, option = setting.key.removeprefix("remote.").rpartition(".")
        if setting.key.startswith("remote.") and option in ("proxy", "proxyauthmethod"):
            for url in dict.fromkeys(config.url(remote, push=push) for push in (False, True)):
                given |= {f"GIT_CONFIG_KEY_{count}": f"http.{url}.{option}", f"GIT_CONFIG_VALUE_{count}": setting.value}
                count += 1
    return {**given, "GIT_CONFIG_COUNT": str(count)} if given else {}
