"""A hub's configuration as it stands in ``main``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from cn.git import needed_rights
from cn.git.merge_steps import first_moved, pull_step
from cn.git.objects import is_ancestor, read_all, resolve
from cn.git.repository import FETCHED, ORIGIN_REF, Hub
from cn.git.sparse import bring_back
from cn.git.told import ORIGIN, Told, mailbox_ref, of_peers
from cn.protocol import hub_config
from cn.protocol import peers_file as hub_peers
from cn.protocol.hub_config import HubConfig
from cn.protocol.ledger import OUT
from cn.protocol.peers_file import MAILBOX, Peer
from cn.run.memory import Condition
from cn.run.snapshot import Snapshot
from cn.system.files import read_regular
from cn.transaction.unplaced import is_left
from cn.values.errors import CnError, ConfigError, Refused
from cn.values.names import Branch, Name, Oid, Url, is_local
from cn.values.text import redact

MAILBOX_KEY = "(mailbox)"
"""What the mailbox is called among the peers."""


class NoConfig(ConfigError):
    """There is no configuration in that commit."""


_NOT_COMMITTED = f"{hub_config.PATH} is not committed", "run 'git add -- .cn/hub.yaml' and commit"


class Settings(NamedTuple):
    """``hub.yaml`` and ``peers.md`` of one commit, and where the mailbox is.

    ``mailbox`` is the git remote in which peers leave their branches, empty when that is this repository
    itself. Is it ``separate_mailbox``, another remote than ``origin``, which keeps our state? ``files`` are the
    bytes that say all of it. ``held`` are, by peer, the open branches, with their side, that were made by another
    route than that of ``peers.md``, ``former`` the names of this hub that what is open between us has
    (``cn.run.links``).
    """

    config: HubConfig
    peers: Mapping[Name, Peer]
    mailbox: str
    separate_mailbox: bool
    files: tuple[bytes, bytes | None] | None = None
    held: Mapping[Name, frozenset[tuple[str, str]]] = MappingProxyType({})
    former: Mapping[Name, frozenset[Name]] = MappingProxyType({})

    @property
    def us(self) -> Name:
        """The hub's name, which is also its agent's."""
        return self.config.name

    @property
    def hubs(self) -> dict[str, str]:
        """The URLs of the peers' hubs."""
        return {name: peer.hub for name, peer in self.peers.items()}

    def peer(self, name: str) -> Peer:
        """The peer of that name; raises :class:`Refused` when there is none."""
        found = self.peers.get(Name(name))
        if found is None:
            known = ", ".join(self.peers) or "none yet"
            raise Refused(f"{name!r} is no peer of this hub", f"peers: {known}; add one with 'cn peer add'")
        return found

    def inbound_prefix(self, peer: Peer) -> Name:
        """The prefix of the branches a peer makes for us, from now on."""
        return peer.name if peer.deliver == MAILBOX else self.us

    def outbound_prefix(self, peer: Peer) -> Name:
        """The prefix of the branches we make for a peer, from now on."""
        return self.us if peer.deliver == MAILBOX else peer.name

    def needs_from(self, peer: Peer) -> str:
        """The rights that this hub's account needs in a peer's hub."""
        return needed_rights.of_branches(self.us) if peer.deliver == MAILBOX else needed_rights.READ

    def is_outbound(self, peer: Peer, branch: Branch) -> bool:
        """Is this a branch of ours for that peer, by its name, or by what is open?"""
        prefix = Name(branch.partition("/")[0])
        if (OUT, branch) in self.held.get(peer.name, ()):
            return True
        return prefix in (self.names_for(peer.name) if peer.deliver == MAILBOX else (peer.name,))

    def names_for(self, peer: Name) -> tuple[Name, ...]:
        """The names of this hub in what is between us and a peer: what it is called, and what it was."""
        return (self.us, *sorted(self.former.get(peer, ())))

    def delivery_url(self, hub: Hub, peer: Peer, branch: str) -> str:
        """Where a branch between us and a peer lies: in its hub, or in our own mailbox."""
        return (self.mailbox or str(hub.root)) if lies_at_mailbox(peer.name, branch) else peer.hub

    def delivery_place(self, hub: Hub, peer: Peer, branch: str) -> str:
        """The same for a step that may be typed in another clone, whose remotes of that name are others."""
        url = self.delivery_url(hub, peer, branch)
        named = hub.config.last(f"remote.{url}.url")
        is_whole = named.startswith("/") or (":" in named and not named.startswith("."))
        by_name = hub.config.last(f"remote.{url}.pushurl") or redact(named) != named  # no password stands in a step
        return named if is_whole and not by_name else url

    def sends_to_hub(self, peer: Peer) -> bool:
        """Does anything of ours go to the peer's own hub, now or still?"""
        held = self.held.get(peer.name, ())
        return peer.deliver == MAILBOX or any(s == OUT and not lies_at_mailbox(peer.name, b) for s, b in held)

    def told_to(self, hub: Hub, remote: str, peers: Iterable[Name]) -> Told:
        """What a remote, a peer or the mailbox, may hear of while branches of these ``peers`` are fetched there."""
        if remote == MAILBOX_KEY and self.mailbox == "origin":
            return ORIGIN
        if self.mailbox in ("", "origin"):
            return of_peers("refs/cn/origin" if hub.origin else hub.main_ref, peers)
        return of_peers(mailbox_ref(self.mailbox), peers)


def lies_at_mailbox(peer: Name, branch: str) -> bool:
    """Does a branch between us and this peer lie in our mailbox, whoever made it? By either route it has the peer's
    name there, and ours in the peer's hub.
    """
    return branch.partition("/")[0] == peer


def not_in_effect(hub: Hub, *mains: Snapshot) -> list[Condition]:
    """Configuration files whose working copy is what none of ``mains`` says (origin's, the local one)."""
    changed = []
    for path in (str(hub_config.PATH), str(hub_peers.PATH)):
        data = read_regular(hub.root / path) or b""
        texts = [(main.read(path) or b"").replace(b"\r\n", b"\n") for main in mains]
        if data.replace(b"\r\n", b"\n") in texts or is_left(hub, path, data or None):
            continue
        back = bring_back(hub, path)
        if (hub.root / path).exists():
            remedy = f"{back} throws it away" if any(texts) else "remove it"
            text = f"{path} has a change that is not committed: it is not in effect"
            changed.append(Condition(text, f"commit it, or {remedy}", path))
        else:
            text = f"{path} is missing from the work tree: what {hub.main} has is in effect"
            changed.append(Condition(text, f"{back} brings it back", path))
    return changed


def read_head_settings(hub: Hub, known: Settings | None = None) -> tuple[Hub, Settings]:
    """The hub with the main branch its configuration names, read from HEAD; ``known`` as in :func:`parse_settings`."""
    try:
        settings = read_settings(hub, hub.main_ref if hub.apart else "HEAD", known)
    except NoConfig:
        raise explain_missing_config(hub) from None
    return replace(hub, main=settings.config.main, name=settings.us), settings


def find_known(hub: Hub) -> tuple[Hub, str]:
    """The hub with its main by a ref that has its configuration, and that ref; empty: none has one that can be read."""
    # With all that a fetch needs, which who only looks does not.
    from cn.transaction.protected_files import TRUSTED_REF

    for ref in (hub.main_ref, TRUSTED_REF, ORIGIN_REF, f"refs/remotes/origin/{hub.main}", *FETCHED):
        with suppress(ConfigError):
            return replace(hub, main=read_settings(hub, ref).config.main), ref
    return hub, ""


def explain_missing_config(hub: Hub) -> CnError:
    """Why HEAD has no configuration: HEAD is elsewhere, main is gone, main lost the file, or has not got it yet."""
    # With all that a fetch needs, which who only looks does not.
    from cn.git.removals import find_removals, is_of_hub, named
    from cn.transaction.base import work_place
    from cn.transaction.coming_back import coming_back

    hub, known = find_known(hub)
    try:
        work_place(hub)
    except Refused as error:
        return error
    through_link = (hub.root / hub_config.PATH).parent.is_symlink()  # git takes nothing from behind one
    if ((hub.root / hub_config.PATH).is_file() and not through_link) or not known:
        return NoConfig(*_NOT_COMMITTED)
    commits = find_removals(hub.git, known, hub.main_ref, (".",), is_of_hub)
    if not commits and _is_behind(hub, known):
        pull = pull_step(hub, hub.main_ref)
        return NoConfig(f"{hub.main} here has no {hub_config.PATH}, and origin's has one", f"{pull} brings it here")
    back = [*coming_back(hub, known, commits, hub.main_ref), "'cn sync'"]
    taken = f": it was taken out{named(commits)}" if commits else ""
    text = f"{hub.main} has no {hub_config.PATH} any more{taken}"
    return NoConfig(text, f"{hub_config.LEAVE}; to come back, {', then '.join(back)}")


def _is_behind(hub: Hub, known: str) -> bool:
    """Does origin have what main here never had, as far as this clone knows of origin?"""
    if not hub.origin or (commit := resolve(hub.git, known)) is None:
        return False
    here, *there = (resolve(hub.git, ref) for ref in (hub.main_ref, ORIGIN_REF, f"refs/remotes/origin/{hub.main}"))
    has = [one is not None and is_ancestor(hub.git, commit, one) for one in (here, *there)]
    return not has[0] and any(has)


def read_settings(hub: Hub, commit: Oid | str, known: Settings | None = None) -> Settings:
    """Read both files from ``commit``; raises :class:`ConfigError` with file, line, remedy."""
    names = [f"{commit}:{path}" for path in (hub_config.PATH, hub_peers.PATH)]
    # A folder of that name is no file.
    config, peers = (one.data if one and one.kind == "blob" else None for one in read_all(hub.git, names))
    return parse_settings(hub, config, peers, known)


def from_origin(hub: Hub, error: ConfigError, tip: Oid) -> ConfigError:
    """The same error where the broken file stands in origin's main, at ``tip``, and not in the work tree."""
    paths = (hub_config.PATH, hub_peers.PATH, hub_config.AGENT_PATH)
    file = next((path for path in paths if error.text.startswith(path)), "it")
    local = resolve(hub.git, hub.main_ref)
    first = first_moved(hub, local, tip) if local else ""
    remedy = f"{first}{pull_step(hub, hub.main_ref)} brings it here; mend {file}, commit it, then run again"
    return ConfigError(f"in origin's {hub.main}, {error.text}", remedy)


def parse_settings(
    hub: Hub, config_file: bytes | None, peers_file: bytes | None, known: Settings | None = None
) -> Settings:
    """Both files, checked against each other; where the mailbox is, and the peers beside this hub.

    ``known`` are settings of this hub as they were read before: nearly always the files are the same.
    """
    if config_file is None:
        raise NoConfig(*_NOT_COMMITTED)
    files = config_file, peers_file
    if known is not None and known.files == files:
        return known
    try:
        config_text, peers_text = config_file.decode("utf-8"), (peers_file or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration is not UTF-8: {error}", "save it as UTF-8 and commit it") from None
    config = hub_config.parse_config(config_text)
    peers = hub_peers.parse_peers(peers_text.replace("\r\n", "\n"))
    hub_peers.check_names(config, peers)
    placed = {}
    for peer in peers:
        # A relative path means a place beside the hub, and never a remote of that name.
        beside = is_local(peer.hub) and not peer.hub.startswith(("/", "~", "file://"))
        placed[peer.name] = peer._replace(hub=Url(str(hub.root / peer.hub))) if beside else peer
    mailbox = config.mailbox or ("origin" if hub.origin else "")
    return Settings(config, placed, mailbox, config.mailbox not in ("", "origin"), files)
