"""When main is gone: the last commit it had, and the commands that bring it back.

Each command leaves the index and the files as they are, so that nothing staged or edited is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from cn.git.damage import read_log
from cn.git.merge_steps import merge_step, pull_step
from cn.git.objects import is_ancestor, read_all, resolve
from cn.git.other_branch import steps_to
from cn.git.repository import CONFIG, ORIGIN_REF, Hub
from cn.protocol.hub_config import main_named_in
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import visible

_KNOWN = ("refs/cn/trusted", "refs/cn/origin/{main}", "refs/cn/origin/main", "refs/remotes/origin/{main}")
"""What this clone knew of main, by which it was a while ago at the latest."""


def head_branch(hub: Hub) -> str:
    """The branch that HEAD names, born, broken or not; empty on a detached commit."""
    # A short name says more where a tag is called the same.
    named = hub.git.run("symbolic-ref", "--quiet", "HEAD", check=False).text.removeprefix("refs/heads/")
    if not named and _is_broken(hub):  # git follows no HEAD to an empty file
        with suppress(OSError):
            ref = (hub.work_git_dir / "HEAD").read_text(errors="replace").removeprefix("ref:").strip()
            return hub.main if ref == hub.main_ref else ""
    return named


def _is_broken(hub: Hub) -> bool:
    """Is the file of main there, and no branch?"""
    return (hub.git_dir / hub.main_ref).is_file() and resolve(hub.git, hub.main_ref) is None


_HEADS = "refs/heads/"


def elsewhere(hub: Hub) -> tuple[str, str]:
    """That HEAD is not on main, and what goes there."""
    head = f"HEAD is {visible(head_branch(hub) or 'a detached commit')}"
    name = _main_now(hub)
    return f"{head}, and cn works on {name} only", f"run {steps_to(hub, name)}, then run again"


def _main_now(hub: Hub) -> str:
    """The name that main has in this clone: a branch of before it was renamed has a hub file that names the former."""
    known = resolve(hub.git, ORIGIN_REF)
    form = f"--format=%(refname:lstrip=2) %(objectname):{CONFIG}"
    rows = hub.git.run("for-each-ref", form, "--contains", known, _HEADS).lines if known is not None else []
    named = [row.rpartition(" ")[::2] for row in rows]
    files = read_all(hub.git, [file for _, file in named])
    found = (name for (name, _), file in zip(named, files, strict=True) if file and main_named_in(file.data) == name)
    return next(found, hub.main)


def missing_main(hub: Hub) -> tuple[str, str]:
    """That there is no main, and what to type."""
    if _main_now(hub) != hub.main:
        return elsewhere(hub)
    head, last = head_branch(hub), last_main(hub)
    if _is_broken(hub):
        gone = command("rm -- {}", str(hub.git_dir / hub.main_ref))
        back = command("git update-ref {} {}", hub.main_ref, last) if last else _from_origin(hub)
        text = f"the branch {hub.main} is broken in {hub.root}: a crash of the machine left no commit in its file"
        return text, f"{gone}, then {back} brings it back, with what is staged and edited"
    place = f"HEAD is {visible(head)}" if head else "HEAD is a detached commit"
    if last is not None and head == hub.main:
        return (
            f"the branch {hub.main} is gone in {hub.root}",
            f"{command('git update-ref {} {}', hub.main_ref, last)} brings it back, with what is staged and edited",
        )
    if head == hub.main and (packed := hub.git_dir / "packed-refs").is_file() and not packed.stat().st_size:
        text = f"{visible(str(packed))} is empty: a crash of the machine took branches with it, {hub.main} too"
        return text, f"{_from_origin(hub)} brings back what origin has of {hub.main}"
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
    text = f"there is no branch {hub.main} in {hub.root}; {place}"
    for name, sure in _renamed_at_origin(hub, head):
        steps = f"if main was renamed at origin: {rename_steps(hub, name)}"
        if not sure:
            return text, f"{hint}; {steps}"
        return f"{text}, and origin has {visible(name)} in the place of {hub.main}", f"{steps}; else {hint}"
    return text, hint


def rename_steps(hub: Hub, name: str) -> str:
    """How main gets the name here that a host gave it, and says so in its hub file: the commands, in their order.

    Whoever typed what a host shows for it (``git branch -m``) has that branch already.
    """
    new, here = _HEADS + name, resolve(hub.git, hub.main_ref) is not None
    steps = list[str]()
    if resolve(hub.git, new) is not None:
        steps += [command("git switch {}", name)] if here or head_branch(hub) != name else []
        steps += [merge_step(hub, hub.main_ref)] if here else []
    elif here:
        steps.append(command("git branch -m {} {}", hub.main, name))
    else:
        steps.append(command("git switch --create {} --track {}", name, f"origin/{name}"))
    steps.append(pull_step(hub, new))  # others may have gone on there
    says = f"'main: {visible(name)}' in {CONFIG} and a commit, unless it says so by then"
    return f"{', then '.join(steps)}, then {says}, and {command('git push -u origin {}', new)}"


def _renamed_at_origin(hub: Hub, head: str) -> Iterator[tuple[str, bool]]:
    """The branch that has main's place at origin, as far as git's last fetch or clone tells: its hub file is this
    hub's, and it holds what this clone knew of main. Is it sure, or may it be some branch that was pushed?
    """
    tracked = "refs/remotes/origin/"
    default = hub.git.run("symbolic-ref", "--quiet", f"{tracked}HEAD", check=False).text.removeprefix(tracked)
    known = resolve(hub.git, ORIGIN_REF) or resolve(hub.git, tracked + hub.main)
    for name in dict.fromkeys((default, head)):
        tip = resolve(hub.git, tracked + name) if name not in ("", hub.main) else None
        if tip is None or (known is not None and not is_ancestor(hub.git, known, tip)):
            continue
        (file,) = read_all(hub.git, [f"{tip}:{CONFIG}"])
        if file is not None and main_named_in(file.data) in (hub.main, name):
            moved = f"Branch: renamed {hub.main_ref} to {_HEADS}{name}"
            log = read_log(hub.work_git_dir / "logs" / "HEAD")
            gone = resolve(hub.git, tracked + hub.main) is None or any(text == moved for *_, text in log)
            yield name, gone and name == default


def _from_origin(hub: Hub) -> str:
    """The commands that make main what origin has."""
    return (
        f"{command('git fetch origin {}', hub.main_ref)}, then {command('git update-ref {} FETCH_HEAD', hub.main_ref)}"
    )


def last_main(hub: Hub) -> Oid | None:
    """The tip that main had when it went away, or the latest that this clone remembers of it.

    git notes each move of HEAD (git-reflog(1)): that main was deleted or renamed under it, or left. Main's own log goes
    with main; where it is there, a crash took main alone.
    """
    known = [name.format(main=hub.main) for name in _KNOWN]
    remembered = next((oid for name in known if (oid := resolve(hub.git, name)) is not None), None)
    on_main = head_branch(hub) == hub.main
    for _, new, _ in reversed(read_log(hub.git_dir / "logs" / hub.main_ref)):
        if (oid := resolve(hub.git, new)) is not None:
            if remembered is None or is_ancestor(hub.git, remembered, oid):
                return oid
            break
    log_of_head = read_log(hub.work_git_dir / "logs" / "HEAD")  # git itself shows it for a born branch alone
    for old, new, text in reversed(log_of_head):
        gone = not new.strip("0") and (on_main or text.startswith(f"Branch: renamed {hub.main_ref} to "))
        if gone or text.startswith(f"checkout: moving from {hub.main} to "):
            oid = resolve(hub.git, old)
            if oid is None or (remembered is not None and not is_ancestor(hub.git, remembered, oid)):
                break
            return oid
    return remembered
