"""``state/peers.md``: markdown for people with one YAML list of peers for cn.

cn changes only the lines of the entry it adds or removes; prose and comments stay.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from cn.core.config import HubConfig, load_yaml
from cn.core.errors import ConfigError
from cn.core.names import HubPath, Name, NameRefused, Url, parse_name, parse_url

PATH = HubPath("state/peers.md")
MAILBOX, PICKUP = "mailbox", "pickup"
_FENCE = re.compile(r"^```ya?ml[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)
_KEYS = ("name", "hub", "kind", "peered", "key", "deliver", "community")
_KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-", "sk-ssh-ed25519", "sk-ecdsa-sha2-")


@dataclass(frozen=True)
class Peer:
    """Another hub. ``key`` is an SSH public key (``TYPE BASE64``) that pins its signatures.

    ``deliver`` is the route of the link in both directions, ``mailbox`` or ``pickup``.
    """

    name: Name
    hub: Url
    kind: str = "agent"
    peered: str = ""
    key: str = ""
    deliver: str = MAILBOX
    community: bool = False


def parse_key(text: str) -> str:
    """An SSH public key as ``TYPE BASE64``; a trailing comment is dropped (sshd(8))."""
    words = text.split()
    if (
        len(words) < 2
        or not words[0].startswith(_KEY_TYPES)
        or not re.fullmatch(r"[A-Za-z0-9+/]+=*", words[1])
    ):
        raise NameRefused(
            "the key is no SSH public key", "give the text of a .pub file, such as 'ssh-ed25519 AAAA…'"
        )
    return f"{words[0]} {words[1]}"


def _block(text: str) -> re.Match[str] | None:
    blocks = list(_FENCE.finditer(text))
    if len(blocks) > 1:
        line = text[: blocks[1].start()].count("\n") + 1
        raise ConfigError(f"{PATH}:{line}: a second YAML block", "keep one list of peers")
    return blocks[0] if blocks else None


def parse_peers(text: str) -> tuple[Peer, ...]:
    """The peers in the order listed; raises :class:`ConfigError` with file, line, remedy."""
    block = _block(text)
    if block is None:
        return ()
    offset = text[: block.start(1)].count("\n")
    data = load_yaml("\n" * offset + block[1], PATH)
    if data is None:
        return ()
    if not isinstance(data, list):
        raise ConfigError(
            f"{PATH}:{offset + 1}: the YAML block is no list", "start each peer with '- name: …'"
        )
    starts = _item_lines(block[1], offset)
    peers = tuple(_peer(item, line) for item, line in zip(data, starts, strict=True))
    seen: set[str] = set()
    for peer, line in zip(peers, starts, strict=True):
        if peer.name in seen:
            raise ConfigError(f"{PATH}:{line}: {peer.name} is listed twice", "keep one entry")
        seen.add(peer.name)
    return peers


def _item_lines(block: str, offset: int) -> list[int]:
    """The line numbers, from 1, on which the items of the list start."""
    import yaml

    node = yaml.compose(block, yaml.SafeLoader)
    assert isinstance(node, yaml.SequenceNode)
    return [child.start_mark.line + 1 + offset for child in node.value]


def _peer(item: object, line: int) -> Peer:
    def bad(problem: str) -> ConfigError:
        return ConfigError(f"{PATH}:{line}: {problem}", f"correct {PATH} and commit it")

    if not isinstance(item, dict):
        raise bad("a peer has keys such as name and hub")
    unknown = set(item) - set(_KEYS)
    if unknown:
        raise bad(f"unknown key {min(unknown)!r}; known: {', '.join(_KEYS)}")
    texts = {k: str(v) for k, v in item.items() if k != "community" and v is not None}
    try:
        name = parse_name(texts.get("name", ""), "peer")
        hub = parse_url(texts.get("hub", ""))
        key = parse_key(texts["key"]) if texts.get("key") else ""
    except NameRefused as refused:
        raise bad(f"{refused.text}: {refused.hint}") from None
    deliver = texts.get("deliver", MAILBOX)
    if deliver not in (MAILBOX, PICKUP):
        raise bad(f"deliver is '{MAILBOX}' or '{PICKUP}'")
    community = item.get("community", False)
    if not isinstance(community, bool):
        raise bad("community is yes or no")
    return Peer(name, hub, texts.get("kind", "agent"), texts.get("peered", ""), key, deliver, community)


def check_names(config: HubConfig, peers: tuple[Peer, ...]) -> None:
    """A peer that is also the hub or a reviewer is broken configuration (DESIGN 16)."""
    for peer in peers:
        if config.is_actor(peer.name):
            raise ConfigError(
                f"{PATH}: {peer.name} is a peer and also a name that decides in this hub",
                "rename the peer, or take the reviewer out of .cn/hub.yaml",
            )


def format_peer(peer: Peer) -> str:
    """One item of the list; every value is a JSON string, which YAML reads as itself."""
    values = {
        "name": peer.name,
        "hub": json.dumps(str(peer.hub), ensure_ascii=False),
        "kind": json.dumps(peer.kind, ensure_ascii=False),
        "peered": json.dumps(peer.peered) if peer.peered else "",
        "key": json.dumps(peer.key) if peer.key else "",
        "deliver": peer.deliver if peer.deliver != MAILBOX else "",
        "community": "yes" if peer.community else "",
    }
    lines = [f"{key}: {value}" for key, value in values.items() if value]
    return "- " + "\n  ".join(lines) + "\n"


def add_peer(text: str, peer: Peer) -> str:
    """The text with one more entry at the end of its list."""
    block = _block(text)
    if block is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}```yaml\n{format_peer(peer)}```\n"
    body = block[1] if parse_peers(text) else re.sub(r"^\s*\[\s*\]\s*$\n?", "", block[1], flags=re.M)
    return text[: block.start(1)] + body + format_peer(peer) + text[block.end(1) :]


def remove_peer(text: str, name: Name) -> str:
    """The text without the entry of ``name`` (which must be there)."""
    block = _block(text)
    peers = parse_peers(text)
    assert block is not None
    index = [p.name for p in peers].index(name)
    starts = [n - 1 for n in _item_lines(block[1], 0)]
    lines = block[1].splitlines(keepends=True)
    first = starts[index]
    last = starts[index + 1] if index + 1 < len(starts) else len(lines)
    return text[: block.start(1)] + "".join(lines[:first] + lines[last:]) + text[block.end(1) :]
