"""``cn sign``: let cn sign what it commits and sends in this clone, from now on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cn.git.fast_import import commit_tree
from cn.git.objects import empty_tree
from cn.git.process import GitConfig, Setting
from cn.git.repository import Hub, read_config
from cn.git.signatures import Signature, is_literal, read_key, read_signatures, signing_settings
from cn.run.run import scratch_objects
from cn.run.settings import read_head_settings
from cn.system.clock import now
from cn.transaction.lock import hub_lock
from cn.values.errors import Refused
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line


def sign(hub: Hub, key: str, *, dry_run: bool = False) -> Report:
    """Sign with ``key`` (a file, or a public key that an ssh-agent has the private one of), once that was tried.

    Writes git's own settings of this clone.
    """
    value = key if is_literal(key) else os.path.abspath(Path(key).expanduser())
    value = f"key::{value}" if value.startswith(("ssh-", "ecdsa-", "sk-")) else value
    public, report = read_key(value), Report()
    hub, settings = read_head_settings(hub)
    made = _try(hub, value, public)
    if dry_run:
        report.plan(f"sign with {made.fingerprint} in this clone")
        return report
    with hub_lock(hub, settings.config.lock_wait) as held:
        for name, wanted in signing_settings(value).items():
            held.git.run("config", "--local", name, wanted)
        if not held.with_git(held.git._replace(config=read_config(held.git))).signs:
            raise Refused("the settings did not stay in this clone's git config", "is .git/config writable?")
    report.done(f"cn signs in this clone with {made.fingerprint} ({one_line(value, 120)})")
    accept = command("cn peer key {} {}", settings.us, public or "KEY")
    report.info(f"who has pinned another key of ours refuses what we send, until it accepts this one: {accept}")
    return report


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
