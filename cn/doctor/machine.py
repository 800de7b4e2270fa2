"""Checks of what is around the hub: git, Python, tools, identity, crontab."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cn.agent.wake import is_builtin
from cn.doctor.finding import Finding, HubFacts, info, problem
from cn.git.running import finds_program, is_shell_command
from cn.git.signatures import own_key
from cn.protocol.hub_config import PATH as CONFIG
from cn.system.crontab import owner, read_table, split
from cn.system.files import has_room, is_writable
from cn.values.errors import CnError
from cn.values.shell_words import command
from cn.values.text import one_line, redact

_GIT = (2, 39)
_ROOM = 1 << 20
_RESERVED = {"if", "for", "while", "case", "until", "{", "(", "!"}


def check_versions(facts: HubFacts) -> Iterator[Finding]:
    """Git is new enough; with an older Python than ours this is not reached."""
    text = facts.hub.git.run("version").text
    found = re.search(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < _GIT:
        yield problem(
            f"{one_line(text)} is too old",
            "cn merges with 'git merge-tree --write-tree' and relies on repairs of git 2.39",
            "install git 2.39 or newer",
        )


def check_repository(facts: HubFacts) -> Iterator[Finding]:
    """Git can read the repository, and we may write it."""
    hub = facts.hub
    if not facts.readable:
        done = hub.git.run("rev-parse", "--git-dir", check=False)
        yield problem(
            f"git cannot read {hub.root}: {done.reason}",
            "nothing else in the hub can be checked",
            "repair .git, or clone the hub again from its origin and copy 'git config' settings over",
        )
    objects = hub.git_dir / "objects"
    below = [hub.git_dir / "refs", hub.state, objects, objects / "pack", *sorted(objects.glob("??"))]
    closed = [f for f in (hub.git_dir, hub.root, *below) if f.is_dir() and not is_writable(f)]
    if closed:
        more = f" and {len(closed) - 1} more folders are" if len(closed) > 1 else " is"
        remedy = "check owner, permissions, and how it is mounted"
        yield problem(f"{closed[0]}{more} not writable", "no run can work here", remedy)
    if not has_room(hub.git_dir, _ROOM):
        why = "git and cn fail where they cannot write; nothing is lost by that"
        yield problem(f"less than {_ROOM >> 20} MB are free on the disk of {hub.git_dir}", why, "make room on the disk")
    if not (hub.root / CONFIG).is_file() and facts.main is not None:
        why = f"runs read {hub.main}'s; a commit of everything would take it out of {hub.main}"
        back = command("git -C {} checkout {} -- {}", str(hub.root), hub.main, CONFIG)
        yield problem(f"{CONFIG} is missing from the work tree", why, back)


def check_identity(facts: HubFacts) -> Iterator[Finding]:
    """This clone has a name and an email of its own; cn never uses the machine's."""
    hub = facts.hub
    named = replace(hub, name=facts.settings.us) if facts.settings else hub
    for key, used in zip(("user.name", "user.email"), named.identity, strict=True):
        if not hub.config.last(key, "local").strip():
            remedy = command("git config {} NAME" if key == "user.name" else "git config {} EMAIL", key)
            yield info(
                f"{key} is not set in this repository; what cn commits and sends carries {one_line(used)}",
                "what you commit with git here carries the machine's, if that has one",
                f"if it shall be another: {remedy}",
            )


def check_wake(facts: HubFacts) -> Iterator[Finding]:
    """The wake command can be started."""
    command = facts.hub.config.last("cn.wake")
    if not command or is_builtin(command):
        return
    words = [w for w in command.split() if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", w)]
    program = words[0].strip("'\"") if words else ""
    if not is_shell_command(command):
        what = f"the wake command is no shell command: {one_line(redact(command), 80)}"
    elif program[:1] in tuple("$({`~!") or program in _RESERVED or finds_program(program, facts.hub.root):
        return  # of a construct of the shell only the shell knows
    else:
        what = f"the program of the wake command is not found: {one_line(program, 80)}"
    why = "the agent is not told when something arrives; sync reports it as failed"
    yield problem(what, why, "git config cn.wake COMMAND, with an absolute path")


def check_signing(facts: HubFacts) -> Iterator[Finding]:
    """What is to be signed can be signed, what is to be verified can be verified."""
    pinned = [p.name for p in facts.settings.peers.values() if p.key] if facts.settings else []
    will_sign = facts.hub.signs
    form = facts.hub.config.last("gpg.format") or "openpgp"
    if (pinned or (will_sign and form == "ssh")) and shutil.which("ssh-keygen") is None:
        whose = f"branches of {', '.join(pinned)}" if pinned else "our own commits"
        why = f"git needs it for signatures of {whose}"
        yield problem("ssh-keygen is not found", why, "install OpenSSH's client programs")
    if not will_sign:
        return
    key = facts.hub.config.last("user.signingkey").strip()
    why = "no commit can be made while signing is on"
    if form != "ssh":
        remedy = "git config gpg.format ssh, and a key file in user.signingKey"
        yield info(f"commits are signed with {form}", "peers pin SSH keys: this proves nothing to them", remedy)
    elif not key:
        remedy = "git config user.signingKey FILE, or turn cn.sign off"
        yield problem("signing is on, but user.signingKey is not set", why, remedy)
    elif not key.startswith(("ssh-", "ecdsa-", "sk-", "key::")) and not Path(key).expanduser().is_file():
        yield problem(f"the signing key {key} is missing", why, "restore the file, or name another key")
    elif not own_key(facts.hub.config):
        yield problem(f"{one_line(key, 80)} is no SSH key", why, "name a key made with ssh-keygen")


def check_crontab(facts: HubFacts) -> Iterator[Finding]:
    """Is anything started by itself? Only worth knowing: systemd or a person may do it."""
    try:
        lines = [line for line in split(read_table()) if owner(line, facts.hub.root)]
    except CnError as error:
        yield info(error.text, "", error.hint)
        return
    if all(line.lstrip().startswith(b"#") for line in lines):
        yield info("no crontab line runs this hub", "", "'cn cron install' adds them, if nothing else does")
