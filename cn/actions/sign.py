"""``cn sign``: sign what is committed and sent in this clone, from now on."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree
from cn.git.process import GitConfig, Setting
from cn.git.repository import NOTED, Hub, open_hub, read_config, share, shares_with_group
from cn.git.signatures import (
    Signature,
    commit_settings,
    is_literal,
    own_key,
    read_key,
    read_signatures,
    signing_settings,
)
from cn.git.work_clone import WorkClone, find_work_clone
from cn.run.run import scratch_objects
from cn.run.settings import read_head_settings
from cn.system.clock import now
from cn.transaction.lock import hub_lock
from cn.transaction.protected_files import refuse_foreign
from cn.values.errors import Refused
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line


def sign(given: str, folder: Path, key: str, *, dry_run: bool = False) -> Report:
    """Sign with ``key`` (a file, or a public key that an ssh-agent has the private one of), once that was tried.

    In the hub that was ``given``, else the one around ``folder``; in a clone from which another hub proposes, what
    people commit there. Writes git's own settings of the clone.
    """
    value = key if is_literal(key) else os.path.abspath(Path(key).expanduser())
    value = f"key::{value}" if value.startswith(("ssh-", "ecdsa-", "sk-")) else value
    public = read_key(value)
    hub, settings = read_head_settings(share(open_hub(Path(given) if given else None, cwd=folder)))
    work = None if given else _other_clone(hub, folder)
    if work is None:
        notes = f"{command('git config {} DIR', NOTED)} names your own, then 'cn sign' signs what you commit here"
        refuse_foreign(hub, hub.root, notes)
    made = _try(hub, value, public)
    if work is None and not is_literal(key) and shares_with_group(hub.config.last("core.sharedrepository")):
        text = f"{hub.root} is shared with a group: its other users cannot sign with your private key, and would stop"
        own = command("git clone {} DIR", hub.origin_url or str(hub.root))
        raise Refused(text, f"sign in a clone of your own: {own}, then 'cn sign' there")
    where = f"in {work.root}" if work is not None else f"in this clone of {settings.us}"
    report = Report()
    if dry_run:
        report.plan(f"sign with {made.fingerprint} {where}")
        return report
    if work is not None:
        _sign_commits(work, value)
        report.done(f"git signs what you commit {where}, with {made.fingerprint} ({one_line(value, 120)})")
        if own_key(hub.config) != public or not hub.signs:
            there = command("cn sign --hub {} {}", str(hub.root), key)
            report.info(f"what the hub {settings.us} itself commits and sends is another matter: {there}")
        return report
    with hub_lock(hub, settings.config.lock_wait) as held:
        for name, wanted in signing_settings(value).items():
            held.git.run("config", "--local", name, wanted)
        if not held.with_git(held.git._replace(config=read_config(held.git))).signs:
            raise Refused("the settings did not stay in this clone's git config", "is .git/config writable?")
    report.done(f"cn signs {where} with {made.fingerprint} ({one_line(value, 120)})")
    listed = {" ".join(key.split()[:2]) for key in hub.config.all("cn.trustedkey")}
    if public and public not in listed and hub.config.is_true("cn.guard"):
        step = command("git config --add cn.trustedKey {}", public)
        report.info(f"cn.guard asks for what another clone of this hub commits, also with this key: {step} takes that")
    accept = command("cn peer key {} {}", settings.us, public or "KEY")
    refuses = f"who has pinned another key of ours refuses what we send, until it accepts this one: {accept}"
    if other := _other_key(hub, made):
        report.info(
            f"what cn committed to {hub.main} before is signed with {other}, maybe in another clone of this hub: a "
            "peer pins one key for a hub, so all its clones sign with the same one. 'cn sign' with the file of that "
            f"does here; where this one shall take its place, sign with it in all of them: {refuses}"
        )
    else:
        report.info(refuses)
    return report


_MOST = "--max-count=50"


def _other_key(hub: Hub, made: Signature) -> str:
    """The fingerprint of the key that signed cn's last signed commit of main, if that is another one; else empty."""
    words = ("--first-parent", "--grep=^cn: ", "--grep=^Merge ", "--format=%H", _MOST, hub.main_ref, "--")
    commits = hub.git.run("log", *words, check=False).lines
    signed = (one for one in read_signatures(hub.git, commits, {}) if one.present and one.fingerprint)
    last = next(signed, None)
    return last.fingerprint if last is not None and last.fingerprint != made.fingerprint else ""


def _other_clone(hub: Hub, folder: Path) -> WorkClone | None:
    """The clone around ``folder``, if it is not the hub itself but one from which it proposes."""
    with suppress(Refused):
        work = find_work_clone(folder)
        return work if work.git_dir != hub.git_dir else None
    return None


def _sign_commits(work: WorkClone, key: str) -> None:
    """git's own settings in a clone that is no hub of ours; raises :class:`Refused` where they did not stay."""
    wanted = commit_settings(key)
    for name, value in wanted.items():
        work.git.run("config", "--local", name, value)
    now = read_config(work.git)
    if any(now.last(name.lower(), "local") != value for name, value in wanted.items()):
        raise Refused(f"the settings did not stay in {work.root}", "is .git/config writable?")


def _try(hub: Hub, key: str, public: str) -> Signature:
    """A signature made with the key, and read back; the commit that has it is thrown away."""
    settings = signing_settings(key)
    known = hub.config.settings
    config = GitConfig((*known, *(Setting("command", name.lower(), value) for name, value in settings.items())))
    with tempfile.TemporaryDirectory(prefix="cn-sign-") as scratch:
        trial = scratch_objects(hub.with_git(hub.git.with_settings(settings)._replace(config=config)), scratch)
        commit = commit_tree(trial, empty_tree(trial.git), (), "cn: a signature", now())
        (made,) = read_signatures(trial.git, [commit], {"us": public} if public else {})
    if not made.present or (public and not made.good):
        raise Refused("the signature that was made does not fit the key", "is the .pub file that of the private key?")
    return made
