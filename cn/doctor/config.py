"""Checks of the configuration: what main has, what the work tree has, what it means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from cn.doctor.facts import HubFacts
from cn.doctor.finding import Finding, from_error, info, problem
from cn.git.lost_branch import head_branch
from cn.git.objects import list_tree, read_object
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
    texts = {path: _text(facts, path) for path in _ALWAYS}
    yield from _parse(texts, "no run works before it is mended", "configuration")


def check_working_configuration(facts: HubFacts) -> Iterator[Finding]:
    """Protected files have no uncommitted changes; those are not in effect."""
    hub, main = facts.hub, facts.main
    assert main is not None
    if head_branch(hub) != hub.main:
        return  # told by the check of the place: the files are those of another branch
    paths = [e.path for e in list_tree(hub.git, main, recursive=True) if is_protected(e.path)]
    paths += [p for p in (*_ALWAYS, ".gitignore", ".gitattributes") if p not in paths]
    changed = local_changes(hub, main, paths)
    for path in changed:
        if path == hub_config.PATH and not (hub.root / path).exists():
            continue  # told by the check of the repository
        yield problem(
            "uncommitted",
            f"{visible(path)} has uncommitted changes, which are not in effect",
            "cn reads the configuration from main",
            f"{command('git add -- {} && git commit', path)}, or take the change back",
        )
    texts = {
        path: _decode(plain[1], path) for path in changed if path in _ALWAYS and (plain := read_plain(hub.root / path))
    }
    for finding in _parse(texts, "it would break the hub once it is committed", "uncommitted"):
        yield problem(finding.check, f"uncommitted {finding.what}", finding.why, finding.remedy)


def _text(facts: HubFacts, path: str) -> str | ConfigError | None:
    data = read_object(facts.hub.git, f"{facts.main}:{path}")
    if data is None and path == hub_config.PATH:
        found = explain_missing_config(facts.hub)
        return found if isinstance(found, ConfigError) else None  # else told by the check of the place
    return None if data is None else _decode(data, path)


def _decode(data: bytes, path: str = "") -> str | ConfigError:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return ConfigError(f"{path}:{line}: it is not UTF-8", "save it as UTF-8 and commit it")


def _parse(texts: Mapping[str, str | ConfigError | None], why: str, check: str) -> Iterator[Finding]:
    config: HubConfig | None = None
    peers: tuple[Peer, ...] = ()
    for path, text in texts.items():
        try:
            if isinstance(text, ConfigError):
                raise text
            if text is None:
                continue
            if path == hub_config.PATH:
                config = hub_config.parse_config(text)
            elif path == hub_peers.PATH:
                peers = hub_peers.parse_peers(text)
            elif path == AGENT_PATH:
                parse_agent_config(text, os.environ)
        except ConfigError as error:
            runtime = path == AGENT_PATH and check == "configuration"
            yield from_error(check, error, "the runtime does not start before it is mended" if runtime else why)
    if config is not None:
        try:
            hub_peers.check_names(config, peers)
        except ConfigError as error:
            yield from_error(check, error, why)


def check_credentials(facts: HubFacts) -> Iterator[Finding]:
    """No password stands in a URL that is committed and pushed."""
    for peer in facts.settings.peers.values() if facts.settings else ():
        if _SECRET.match(peer.hub):
            yield problem(
                "credentials",
                f"the URL of {peer.name} holds a password or token in clear: {redact(peer.hub)}",
                f"whoever can read this hub or its origin can read {hub_peers.PATH} and its history",
                "change the password, take it out of the URL, and use a git credential helper or SSH",
            )
    url = facts.hub.origin_url
    if _SECRET.match(url):
        yield info(
            "credentials",
            f"the URL of origin holds a password or token in clear: {redact(url)}",
            "it stands in .git/config of this clone only",
            "a git credential helper keeps it better",
        )


def check_mailbox(facts: HubFacts) -> Iterator[Finding]:
    """Who can write in whose name?"""
    settings = facts.settings
    if settings is None:
        return
    if settings.config.mailbox and not facts.hub.config.last(f"remote.{settings.config.mailbox}.url"):
        yield problem(
            "mailbox",
            f"hub.yaml names the mailbox {visible(settings.config.mailbox)}, and there is no such remote",
            "mail from peers cannot be fetched",
            command("git remote add {} URL", settings.config.mailbox),
        )
    loose = [p.name for p in settings.peers.values() if p.deliver == MAILBOX and not p.key]
    if not settings.shared_mailbox or not loose:
        return
    names = ", ".join(loose)
    if settings.config.mailbox_trusted:
        yield info(
            "mailbox", f"several peers share the mailbox, and {names} have no pinned key",
            "mailbox_trusted: true says that the host keeps them apart; if not, one can write as another",
            "'cn peer add … --key FILE.pub' proves senders",
        )  # fmt: skip
    else:
        yield info(
            "mailbox", f"several peers share the mailbox, and {names} have no pinned key",
            "any of them could push a branch with another's prefix: their threads say 'unverified', and "
            "merges and notices from them are refused",
            "pin their keys in state/peers.md (key: …), or set mailbox_trusted: true if the host keeps "
            "them apart",
        )  # fmt: skip
