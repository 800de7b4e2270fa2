"""``cn init``: create a hub from the template, with one commit on ``main``; in a repository of its own, or in one
that is there.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cn.git.create import commit_first, create_repo
from cn.git.fast_import import FileChange
from cn.git.merge_steps import pull_step
from cn.git.objects import list_refs, list_tree, read_info
from cn.git.process import GitError
from cn.git.remote import HEADS, ask_heads, list_remotes
from cn.git.repository import Hub, check_place, find_hub, is_trusted, open_repository
from cn.git.signatures import read_key, signing_settings
from cn.git.work_clone import WorkClone, find_work_clone
from cn.protocol import hub_config
from cn.protocol.hub_config import LOCK_WAIT
from cn.run.run import scratch_objects
from cn.run.settings import read_head_settings
from cn.secrets.findings import refuse
from cn.secrets.scanner import Text, find_secrets
from cn.system.clock import now
from cn.system.extras import template_dir
from cn.system.limits import beyond_limit
from cn.transaction.base import SECONDS, Base, observe_base
from cn.transaction.commit import Committed, Draft, commit
from cn.transaction.lock import hub_lock
from cn.transaction.protected_files import Untrusted, accept
from cn.transaction.publish import recover
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, Oid, fold
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import counted, some_of, visible, yaml_word

_RENAMED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes"}


def init(name: Name, path: Path, report: Report, *, signing_key: Path | None = None, dry_run: bool = False) -> None:
    """Make the hub ``name`` at ``path``: complete, or not at all."""
    path = path.absolute()
    if ".." in path.parts:  # through a link it leads elsewhere than it reads
        path = path.resolve()
    check_place(path)
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise Refused(f"{path} exists and is not empty", "choose another --path")
    if (around := find_hub(path.parent)) is not None and is_trusted(around):
        raise Refused(f"{path} is inside the hub {around}", "choose a --path outside of it")
    if signing_key is not None:
        read_key(str(signing_key))
    if refusal := refuse(find_secrets([Text("the name", (name,), 0)]), ()):
        raise Refused.by(refusal, "choose another name")
    files = _template(name)
    if dry_run:
        for target in files:
            report.plan(f"write {path / target}")
        report.plan(f"make a git repository on main with one commit at {path}")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cn-init-", dir=path.parent) as scratch:
            fresh = Path(scratch) / "hub"
            for target, data in files.items():
                (fresh / target).parent.mkdir(parents=True, exist_ok=True)
                (fresh / target).write_bytes(data)
            settings = {"user.name": str(name), "user.email": f"{name}@cn.invalid"}
            if signing_key is not None:
                settings |= signing_settings(str(signing_key.absolute()))
            create_repo(fresh, "main", settings)
            accept(*commit_first(fresh, files, f"Hub of {name}", now()))
            if path.is_dir():  # an empty folder that was made for it, perhaps for one user alone
                fresh.chmod(stat.S_IMODE(path.stat().st_mode))
                path.rmdir()
            fresh.rename(path)
    except GitError as error:
        raise Refused(f"the first commit failed: {error.done.reason}", "check git and the signing key") from None
    except OSError as error:
        why, remedy = beyond_limit(error) or (error.strerror, "check the path and its permissions")
        raise Refused(f"cannot make {path}: {why}", remedy) from None
    report.done(f"made the hub {name} at {path}")


_OWN = (".cn", "threads", "logs", "state")
"""What cn has for itself in a hub: nothing of a project may lie there."""
_PEOPLES = ("spec", "skills")
"""Folders for people's pages: those of a project are left as they are."""
_IGNORED = {"state": ("/input.md", "/output.md", "/telegram.offset"), "logs": ("/cn.log*",), "threads": ()}
_BEING_WRITTEN = ".cn-tmp-*"
_BOTH = ("main", "master")


def init_here(name: Name, folder: Path, report: Report, *, dry_run: bool = False) -> None:
    """Make the repository around ``folder`` the hub ``name``: one commit on its main branch, nothing else changes."""
    work = find_work_clone(folder)
    if (around := find_hub(work.root)) is not None:
        read_head_settings(open_repository(around, "main"))  # one that is not here yet, or damaged, says what helps
        raise Refused(f"{around} is a hub already", "'cn status' shows it")
    if refusal := refuse(find_secrets([Text("the name", (name,), 0)]), ()):
        raise Refused.by(refusal, "choose another name")
    main = _main_branch(work)
    hub = replace(open_repository(work.root, main), name=str(name))
    files = _template_here(name, main)
    told: list[str] = []

    def plan(base: Base) -> Draft:
        found, told[:] = _beside_project(hub, base.tip, files)
        changes = tuple(FileChange(path, data) for path, data in sorted(found.items()))
        return Draft(base.tip, changes, f"Hub of {name}", now(), {})

    _beside_project(hub, work.commit(f"{HEADS}{main}"), files)  # before anything is written
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="cn-dry-run-") as scratch:
            aside = scratch_objects(hub, scratch)
            found, _ = _beside_project(aside, observe_base(aside, dry_run=True, check_trust=False).tip, files)
        for path in sorted(found):
            report.plan(f"write {path}", paths=(path,))
        push = f", and push {main} to origin" if hub.origin else ""
        report.plan(f"commit that on {main} in {hub.root}{push}")
        return
    with hub_lock(hub, LOCK_WAIT) as locked:
        for line in recover(locked):
            report.info(line)
        _beside_project(locked, observe_base(locked, check_trust=False).tip, files)  # before anything is accepted
        accept(locked, work.commit(hub.main_ref))  # the project as it is here becomes the hub
        try:
            made = commit(locked, plan)
        except Untrusted as error:  # there is no hub yet in which 'cn trust' could show it
            pull = pull_step(locked, HEADS + main)
            remedy = f"{pull} brings it here to look at; then run it again"
            raise Refused(f"origin's {main} has what was never here: {error.text}", remedy) from None
        pushed = _pushed_before(locked, made)
    there = f", and is pushed to origin{pushed}" if hub.origin else ""
    report.done(f"{hub.root} is the hub {name}: commit {made.commit[:7]} on {main} added its folders{there}")
    for line in (*made.reports, *told):
        report.info(line)
    report.info(
        f"cn works here while {main} is checked out; 'git worktree add' gives other branches a place of their own"
    )
    if hub.origin:
        report.info(
            f"what you commit on {main} here goes to origin with cn's next run; what is not ready is for a branch"
        )


def _pushed_before(hub: Hub, made: Committed) -> str:
    """How many commits of the project went to origin with cn's own, in words; empty: none."""
    known = [f"^{made.base.origin}"] if made.base.origin else []
    count = int(hub.git.run("rev-list", "--count", made.base.tip, *known).text) if hub.origin else 0
    return f" with {counted(count, 'commit')} of yours that origin did not have" if count else ""


def _main_branch(work: WorkClone) -> str:
    """The project's main branch, which has to be checked out: what origin has as that, else what this clone has noted
    of origin's HEAD, else the one that is.
    """
    here = work.branch
    known = work.git.run("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", check=False).text
    local = list_refs(work.git, HEADS)
    if f"{HEADS}{here}" not in local:
        raise Refused(f"{work.root} has no commit on a branch that is checked out", "make one, then run it again")
    others = [name for name in _BOTH if f"{HEADS}{name}" in local and here not in _BOTH]
    at_origin = _main_at_origin(work, here, known)
    main = at_origin or known.removeprefix("refs/remotes/origin/") or next(iter(others), here)
    if main != here:
        there = f"{HEADS}{main}" in local or bool(list_refs(work.git, f"refs/remotes/origin/{main}"))
        fetch, switch = "" if there else "'git fetch origin', then ", command("git switch {}", main)
        text = f"HEAD is {here}, and the main branch of {work.root} is {main}{', as at origin' if at_origin else ''}"
        raise Refused(text, f"{fetch}{switch}, then run it again")
    return main


def _main_at_origin(work: WorkClone, here: str, known: str) -> str:
    """What HEAD names at origin; where it names nothing that is there, ``main`` or ``master`` (the one that is checked
    out ``here`` before the other), else its only branch. Empty: origin has none, gives no answer, or nothing of that
    tells where this clone has noted it (``known``). Raises :class:`Refused` where nobody knows.
    """
    if not work.config.all("remote.origin.url"):
        return ""
    head = ask_heads(work.git, ["origin"], SECONDS)["origin"]
    if head is not None:
        return "" if isinstance(head, str) else head[0]
    listing = list_remotes(work.git, {"": "origin"}, SECONDS)[""]
    there = [] if isinstance(listing, str) else sorted(listing)
    for name in (*(name for name in (here, *_BOTH) if name in _BOTH), *there[: len(there) == 1]):
        if name in there:
            return name
    if there and not known:
        text = f"origin has {some_of(there, 3, 80)}, its HEAD names none of them, and nobody knows which is main"
        set_it = "set the default branch in the host's settings, or 'git remote set-head origin BRANCH' notes it here"
        raise Refused(text, f"{set_it}; then run it again")
    return ""


def _template_here(name: Name, main: str) -> dict[HubPath, bytes]:
    """The template's files, with what git is to ignore and to leave alone noted in cn's own folders."""
    root = {HubPath(path) for path in ("README.md", *_RENAMED.values())}
    files = {path: data for path, data in _template(name).items() if path not in root}
    if main != "main":
        config = HubPath(hub_config.PATH)
        line = f"name: {name}\n".encode()
        files[config] = files[config].replace(line, line + f"main: {yaml_word(main)}\n".encode(), 1)
    for folder, names in _IGNORED.items():
        files[HubPath(f"{folder}/.gitignore")] = "".join(f"{one}\n" for one in (*names, _BEING_WRITTEN)).encode()
    for folder in ("threads", "logs", "state"):
        files[HubPath(f"{folder}/.gitattributes")] = b"* -text -filter -ident !working-tree-encoding\n"
    return files


def _beside_project(hub: Hub, main: Oid, files: Mapping[HubPath, bytes]) -> tuple[dict[HubPath, bytes], list[str]]:
    """The files to add to a main, and sentences about those that are not; refuses where cn has no room."""
    theirs = {fold(entry.path): entry for entry in list_tree(hub.git, main)}
    if read_info(hub.git, [f"{main}:{hub_config.PATH}"]) != [None]:
        pull = pull_step(hub, hub.main_ref)
        raise Refused(f"{hub.main} at origin is a hub already", f"{pull} brings it here")
    for folder in _OWN:
        if taken := theirs.get(folder):
            why = f"the project has {visible(taken.path)} in {hub.main}, which cn needs for itself"
            make = command("cn init {}", hub.name)
            raise Refused(why, f"move it elsewhere, or make a hub beside the project: {make} in another folder")
    left = [folder for folder in _PEOPLES if folder in theirs]
    added = {path: data for path, data in files.items() if path.split("/")[0] not in left}
    return added, [f"{folder}/ is the project's: cn's pages are not put there" for folder in left]


def _template(name: Name) -> dict[HubPath, bytes]:
    """The template's files for this hub."""
    top = template_dir()
    files = {f.relative_to(top): f.read_text("utf-8") for f in sorted(top.rglob("*")) if f.is_file()}
    return {
        HubPath(path.with_name(_RENAMED.get(path.name, path.name)).as_posix()): text.replace("{{name}}", name).encode()
        for path, text in files.items()
    }
