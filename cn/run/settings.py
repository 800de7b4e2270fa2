"""A hub's configuration as it stands in ``main``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from cn.git.objects import read_objects
from cn.git.repository import Hub
from cn.protocol import hub_config
from cn.protocol import peers_file as hub_peers
from cn.protocol.hub_config import HubConfig
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer
from cn.run.memory import Condition
from cn.run.snapshot import Snapshot
from cn.transaction.unplaced import is_left
from cn.values.errors import CnError, ConfigError, Refused
from cn.values.names import Branch, Name, Oid, Url, is_local
from cn.values.shell_words import command

MAILBOX_KEY = "(mailbox)"
"""What the mailbox is called among the peers."""


class NoConfig(ConfigError):
    """There is no configuration in that commit."""


class Settings(NamedTuple):
    """``hub.yaml`` and ``peers.md`` of one commit, and where the mailbox is.

    ``mailbox`` is the git remote in which peers leave their branches, empty when that is
    this repository itself.
    """

    config: HubConfig
    peers: Mapping[Name, Peer]
    mailbox: str
    origin: bool

    @property
    def us(self) -> Name:
        """The hub's name, which is also its agent's."""
        return self.config.name

    def peer(self, name: str) -> Peer:
        """The peer of that name; raises :class:`Refused` when there is none."""
        found = self.peers.get(Name(name))
        if found is None:
            known = ", ".join(self.peers) or "none yet"
            raise Refused(f"{name!r} is no peer of this hub", f"peers: {known}; add one with 'cn peer add'")
        return found

    @property
    def shared_mailbox(self) -> bool:
        """Can several peers write the mailbox, so that a prefix alone proves nobody?"""
        return sum(p.deliver == MAILBOX for p in self.peers.values()) > 1

    @property
    def separate_mailbox(self) -> bool:
        """Do peers read and write another remote than ``origin``, which keeps our state?"""
        return bool(self.config.mailbox) and self.config.mailbox != "origin"

    def inbound_prefix(self, peer: Peer) -> Name:
        """The prefix of the branches a peer makes for us."""
        return peer.name if peer.deliver == MAILBOX else self.us

    def outbound_prefix(self, peer: Peer) -> Name:
        """The prefix of the branches we make for a peer."""
        return self.us if peer.deliver == MAILBOX else peer.name

    def is_outbound(self, peer: Peer, branch: Branch) -> bool:
        """Is this a branch of ours for that peer, by its name?"""
        return branch.startswith(f"{self.outbound_prefix(peer)}/")

    def delivery_url(self, hub: Hub, peer: Peer) -> str:
        """Where our branches for a peer lie: its hub, or (pickup) our own origin."""
        return (self.mailbox or str(hub.root)) if peer.deliver == PICKUP else peer.hub


def not_in_effect(hub: Hub, *mains: Snapshot) -> list[Condition]:
    """Configuration files whose working copy is what none of ``mains`` says (origin's, the local one)."""
    changed = []
    for path in (hub_config.PATH, hub_peers.PATH):
        try:
            data = (hub.root / path).read_bytes()
        except OSError:
            data = b""
        texts = [(main.read(path) or b"").replace(b"\r\n", b"\n") for main in mains]
        if data.replace(b"\r\n", b"\n") not in texts and not is_left(hub, str(path), data or None):
            changed.append(_draft(hub, str(path), new=not any(texts)))
    return changed


def _draft(hub: Hub, path: str, *, new: bool) -> Condition:
    back = command("git checkout {} -- {}", hub.main, path)
    if not (hub.root / path).exists():
        text = f"{path} is missing from the work tree: what {hub.main} has is in effect"
        return Condition(text, f"{back} brings it back", path)
    text = f"{path} has a change that is not committed: it is not in effect"
    return Condition(text, f"commit it, or {'remove it' if new else f'{back} throws it away'}", path)


def read_head_settings(hub: Hub) -> tuple[Hub, Settings]:
    """The hub with the main branch its configuration names, read from HEAD."""
    try:
        settings = read_settings(hub, "HEAD")
    except NoConfig:
        raise explain_missing_config(hub) from None
    return replace(hub, main=settings.config.main, name=settings.us), settings


def explain_missing_config(hub: Hub) -> CnError:
    """Why HEAD has no configuration: HEAD is elsewhere, main is gone, or main lost the file."""
    # With all that a fetch needs, which who only looks does not.
    from cn.git.repository import ORIGIN_REF
    from cn.transaction.base import work_place
    from cn.transaction.protected_files import TRUSTED_REF

    known: str | None = None
    for ref in (hub.main_ref, TRUSTED_REF, ORIGIN_REF, f"refs/remotes/origin/{hub.main}"):
        with suppress(ConfigError):
            hub = replace(hub, main=read_settings(hub, ref).config.main)
            known = ref
            break
    try:
        work_place(hub)
    except Refused as error:
        return error
    if (hub.root / hub_config.PATH).is_file() or known is None:
        add = command("git add -- {}", hub_config.PATH)
        return NoConfig(f"{hub_config.PATH} is not committed", f"run {add} and commit")
    return NoConfig(
        f"{hub.main} has no {hub_config.PATH} any more",
        f"{command('git checkout {} -- {}', known, hub_config.PATH)} brings it back; then commit it",
    )


def read_settings(hub: Hub, commit: Oid | str) -> Settings:
    """Read both files from ``commit``; raises :class:`ConfigError` with file, line, remedy."""
    names = [f"{commit}:{path}" for path in (hub_config.PATH, hub_peers.PATH)]
    return parse_settings(hub, *decode_texts(*read_objects(hub.git, names)))


def from_origin(hub: Hub, error: ConfigError) -> ConfigError:
    """The same error where the broken file stands in origin's main, and not in the work tree."""
    paths = (hub_config.PATH, hub_peers.PATH, hub_config.AGENT_PATH)
    file = next((path for path in paths if error.text.startswith(path)), "it")
    pull = command("git pull --no-rebase origin {}", hub.main)
    return ConfigError(
        f"in origin's {hub.main}, {error.text}", f"{pull} brings it here; mend {file}, commit it, then run again"
    )


def decode_texts(config: bytes | None, peers: bytes | None) -> tuple[str, str]:
    """The bytes of both files as text; raises :class:`ConfigError`."""
    if config is None:
        raise NoConfig(
            f"{hub_config.PATH} is not committed", f"run {command('git add -- {}', hub_config.PATH)} and commit"
        )
    try:
        return config.decode("utf-8"), (peers or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration is not UTF-8: {error}", "save it as UTF-8 and commit it") from None


def parse_settings(hub: Hub, config_text: str, peers_text: str) -> Settings:
    """Both files, checked against each other; where the mailbox is, and the peers beside this hub."""
    config = hub_config.parse_config(config_text)
    peers = hub_peers.parse_peers(peers_text.replace("\r\n", "\n"))
    hub_peers.check_names(config, peers)
    mailbox = config.mailbox or ("origin" if hub.origin else "")
    # A relative path means a place beside the hub, and never a remote of that name.
    placed = [p._replace(hub=Url(str(hub.root / p.hub))) if _is_relative(p.hub) else p for p in peers]
    return Settings(config, {p.name: p for p in placed}, mailbox, hub.origin)


def _is_relative(url: str) -> bool:
    return is_local(url) and not url.startswith(("/", "~", "file://"))
