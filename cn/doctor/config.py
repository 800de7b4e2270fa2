"""Checks of the configuration: what main has, what the work tree has, what it means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from cn.doctor.finding import Finding, HubFacts, from_error, info, problem
from cn.git.lost_branch import head_branch
from cn.git.objects import list_tree, read_objects
from cn.llm.config import parse_agent_config
from cn.protocol import hub_config
from cn.protocol import peers_file as hub_peers
from cn.protocol.hub_config import AGENT_PATH, HubConfig
from cn.protocol.peers_file import MAILBOX, Peer
from cn.run.settings import explain_missing_config
from cn.system.files import read_plain
from cn.transaction.commit import local_changes
from cn.values.errors import ConfigError
from cn.values.names import is_protected
from cn.values.shell_words import command
from cn.values.text import redact, visible

_ALWAYS = (str(hub_config.PATH), str(AGENT_PATH), "spec/SOUL.md", "spec/USER.md", str(hub_peers.PATH))
_SECRET = re.compile(r"^(?:https?://[^/@\s]+@|[a-z+]+://[^/@\s:]*:[^/@\s]+@)")


def check_configuration(facts: HubFacts) -> Iterator[Finding]:
    """``hub.yaml``, ``peers.md`` and ``agent.yaml`` in main can be read."""
    broken = "no run works before it is mended"
    contents = read_objects(facts.hub.git, [f"{facts.hub.main_ref}:{path}" for path in _ALWAYS])
    there = {path: data for path, data in zip(_ALWAYS, contents, strict=True) if data is not None}
    if hub_config.PATH not in there:
        missing = explain_missing_config(facts.hub)
        if isinstance(missing, ConfigError):  # else told by the check of the place
            yield from_error(missing, broken)
    yield from _parse(there, broken, "the runtime does not start before it is mended")


def check_working_configuration(facts: HubFacts) -> Iterator[Finding]:
    """Protected files have no uncommitted changes; those are not in effect."""
    hub, main = facts.hub, facts.snapshot.commit
    if head_branch(hub) != hub.main:
        return  # told by the check of the place: the files are those of another branch
    paths = [e.path for e in list_tree(hub.git, main, recursive=True) if is_protected(e.path)]
    paths += [p for p in (*_ALWAYS, ".gitignore", ".gitattributes") if p not in paths]
    changed = local_changes(hub, main, paths)
    for path in changed:
        if path == hub_config.PATH and not (hub.root / path).exists():
            continue  # told by the check of the repository
        what = f"{visible(path)} has uncommitted changes, which are not in effect"
        remedy = f"{command('git add -- {} && git commit', path)}, or take the change back"
        yield problem(what, "cn reads the configuration from main", remedy)
    here = {path: plain[1] for path in changed if path in _ALWAYS and (plain := read_plain(hub.root / path))}
    for finding in _parse(here, *["it would break the hub once it is committed"] * 2):
        yield finding._replace(what=f"uncommitted {finding.what}", broken_config=False)


def _parse(contents: Mapping[str, bytes], why: str, runtime: str) -> Iterator[Finding]:
    """What is wrong with files of the configuration; ``runtime`` is why that of the runtime matters."""
    config: HubConfig | None = None
    peers: tuple[Peer, ...] = ()
    for path, data in contents.items():
        try:
            text = _decode(path, data)
            if path == hub_config.PATH:
                config = hub_config.parse_config(text)
            elif path == hub_peers.PATH:
                peers = hub_peers.parse_peers(text)
            elif path == AGENT_PATH:
                parse_agent_config(text, os.environ)
        except ConfigError as error:
            yield from_error(error, runtime if path == AGENT_PATH else why)
    try:
        if config is not None:
            hub_peers.check_names(config, peers)
    except ConfigError as error:
        yield from_error(error, why)


def _decode(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: it is not UTF-8", "save it as UTF-8 and commit it") from None


def check_credentials(facts: HubFacts) -> Iterator[Finding]:
    """No password stands in a URL that is committed and pushed."""
    for peer in facts.settings.peers.values() if facts.settings else ():
        if _SECRET.match(peer.hub):
            yield problem(
                f"the URL of {peer.name} holds a password or token in clear: {redact(peer.hub)}",
                f"whoever can read this hub or its origin can read {hub_peers.PATH} and its history",
                "change the password, take it out of the URL, and use a git credential helper or SSH",
            )
    url = facts.hub.origin_url
    if _SECRET.match(url):
        what = f"the URL of origin holds a password or token in clear: {redact(url)}"
        yield info(what, "it stands in .git/config of this clone only", "a git credential helper keeps it better")


def check_mailbox(facts: HubFacts) -> Iterator[Finding]:
    """Who can write in whose name?"""
    settings = facts.settings
    if settings is None:
        return
    mailbox = settings.config.mailbox
    if mailbox and not facts.hub.config.last(f"remote.{mailbox}.url"):
        what = f"hub.yaml names the mailbox {visible(mailbox)}, and there is no such remote"
        yield problem(what, "mail from peers cannot be fetched", command("git remote add {} URL", mailbox))
    loose = [p.name for p in settings.peers.values() if p.deliver == MAILBOX and not p.key]
    if not settings.shared_mailbox or not loose:
        return
    why = "mailbox_trusted: true says that the host keeps them apart; if not, one can write as another"
    remedy = "'cn peer add … --key FILE.pub' proves senders"
    if not settings.config.mailbox_trusted:
        why = (
            "any of them could push a branch with another's prefix: their threads say 'unverified', and merges and "
            "notices from them are refused"
        )
        remedy = "pin their keys in state/peers.md (key: …), or set mailbox_trusted: true if the host keeps them apart"
    yield info(f"several peers share the mailbox, and {', '.join(loose)} have no pinned key", why, remedy)
