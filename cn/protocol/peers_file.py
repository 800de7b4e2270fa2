"""``state/peers.md``: markdown for people with one YAML list of peers for cn.

cn changes only the lines of the entry it adds, replaces or removes; prose and comments stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from cn.protocol.hub_config import HubConfig
from cn.values.errors import ConfigError
from cn.values.names import HubPath, Name, NameRefused, Url, parse_name, parse_url
from cn.values.shell_words import command
from cn.values.text import one_line, yaml_string, yaml_word
from cn.values.yaml import compose_yaml, load_yaml

if TYPE_CHECKING:
    import yaml  # heavy: imported where it is used

PATH = HubPath("state/peers.md")
MAILBOX, PICKUP = "mailbox", "pickup"
VERIFIED = "verified"
"""How the word for a good signature of a pinned key begins, before a fingerprint (``docs/protocol/signatures.md``)."""
_FENCE = r"(?ms)^```ya?ml[ \t]*\r?\n(.*?)^```[ \t]*\r?$"
_FENCE_START = r"(?mi)^ *(?:```|~~~)[ \t]*ya?ml\b"
_KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-", "sk-ssh-ed25519", "sk-ecdsa-sha2-")


class Peer(NamedTuple):
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


def say_moved(url: str) -> str:
    """How a peer whose hub is elsewhere now is given its new URL."""
    return f"write {command('hub: {}', url)} for it in {PATH}, and commit that"


def others_can_write(peers: Mapping[Name, Peer], name: Name) -> bool:
    """Can others push where this peer's branches for us lie, so that a prefix alone proves nobody?

    By pickup that is its own hub, and who else pushes there nobody here knows.
    """
    return peers[name].deliver != MAILBOX or sum(p.deliver == MAILBOX for p in peers.values()) > 1


def parse_key(text: str) -> str:
    """An SSH public key as ``TYPE BASE64``; a trailing comment is dropped (sshd(8))."""
    words = text.split()
    if "PRIVATE KEY" in text:
        raise NameRefused(
            "that is a private key, and nobody else may have it", "give the .pub file that lies beside it"
        )
    if len(words) < 2 or not words[0].startswith(_KEY_TYPES) or not re.fullmatch(r"[A-Za-z0-9+/]+=*", words[1]):
        raise NameRefused("the key is no SSH public key", "give the text of a .pub file, such as 'ssh-ed25519 AAAA…'")
    return f"{words[0]} {words[1]}"


_MOST_FIELDS = 5


def is_key(text: str) -> bool:
    """Has it the form of a key?"""
    with suppress(NameRefused):
        return bool(parse_key(text))
    return False


def parse_whole_key(text: str) -> str:
    """The same of what a person gives; one that is cut off would refuse all that the peer sends, and so would the first
    of several what is signed with the others.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    key = parse_key("\n".join(lines))
    if len(lines) > 1:
        raise NameRefused(f"these are {len(lines)} lines, and a peer has one key", "give the line of that key alone")
    if not _is_whole(*key.split()):
        raise NameRefused("the key is cut off, or no SSH public key", "give the whole line of a .pub file")
    return key


def _is_whole(kind: str, encoded: str) -> bool:
    """Do the fields, of which the first names the type, fill it exactly (RFC 4253, 6.6; RFC 4251, 5)?"""
    import base64
    import binascii

    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False
    fields = list[bytes]()
    while data and len(fields) < _MOST_FIELDS:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            return False
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    return not data and len(fields) > 1 and fields[0] == kind.encode() and all(fields)


def signature_now(word: str, key: str) -> str:
    """What a signature is worth by the ``key`` that is pinned now (empty: none), where ``word`` is what it was when it
    was checked: that may have been by another.
    """
    return word if is_verdict_of(word, key) or not word.startswith(VERIFIED) else "unverified"


def is_verdict_of(word: str, key: str) -> bool:
    """Does the word say that this very key signed?"""
    return bool(key) and word == f"{VERIFIED} {fingerprint(key)}"


def fingerprint(key: str) -> str:
    """``SHA256:…`` of an SSH public key, as ssh-keygen(1) ``-l`` shows it."""
    import base64
    import binascii
    import hashlib

    try:
        data = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "(unreadable)"
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _block(text: str) -> re.Match[str] | None:
    blocks = list(re.finditer(_FENCE, text))
    if len(blocks) > 1:
        line = text[: blocks[1].start()].count("\n") + 1
        raise ConfigError(f"{PATH}:{line}: a second YAML block", "keep one list of peers")
    lost = None if blocks else re.search(_FENCE_START, text)
    if lost:
        line = text[: lost.start()].count("\n") + 1
        hint = "start it with '```yaml' and end it with '```', each at the start of a line"
        raise ConfigError(f"{PATH}:{line}: the YAML block cannot be read", hint)
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
        raise ConfigError(f"{PATH}:{offset + 1}: the YAML block is no list", "start each peer with '- name: …'")
    peers: dict[str, Peer] = {}
    for number, item in enumerate(data):
        try:
            peer = _peer(item)
            if peer.name in peers:
                raise NameRefused(f"{peer.name} is listed twice", "keep one entry")
        except NameRefused as refused:
            line = _items(block[1])[number].start_mark.line + 1 + offset
            raise ConfigError(f"{PATH}:{line}: {refused.text}", refused.hint) from None
        peers[peer.name] = peer
    return tuple(peers.values())


def _items(block: str) -> list[yaml.Node]:
    """The items of the list with their places in the block."""
    import yaml

    node = compose_yaml(block)
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _last_line(node: yaml.Node) -> int:
    """The line, from 0, of the last thing in a node; comments after it are not part of it."""
    match node.value:
        case [*children] if children:
            parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
            return max(_last_line(part) for part in parts)
        case _:
            end = node.end_mark
            return int(end.line) - (end.column == 0 and end.line > node.start_mark.line)


def _peer(item: object) -> Peer:
    def bad(problem: str) -> NameRefused:
        return NameRefused(problem, f"correct {PATH} and commit it")

    if not isinstance(item, dict):
        raise bad("a peer has keys such as name and hub")
    if unknown := set(item) - set(Peer._fields):
        raise bad(f"unknown key {one_line(str(min(unknown)), 80)!r}; known: {', '.join(Peer._fields)}")
    texts: dict[str, str] = {}
    for key, value in item.items():
        if key == "community" or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float, date)):
            raise bad(f"{key} must be text; put it in quotes")
        texts[key] = str(value)
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
    """A peer that is also the hub or a reviewer is broken configuration."""
    if found := [peer.name for peer in peers if config.is_actor(peer.name)]:
        problem = f"{PATH}: {found[0]} is a peer and also a name that decides in this hub"
        raise ConfigError(problem, "rename the peer, or take the reviewer out of .cn/hub.yaml")


def format_peer(peer: Peer) -> str:
    """One item of the list, free text in quotes."""
    values = {
        "name": yaml_word(peer.name),
        "hub": yaml_string(peer.hub),
        "kind": yaml_string(one_line(peer.kind)),
        "peered": yaml_string(one_line(peer.peered)) if peer.peered else "",
        "key": yaml_string(peer.key) if peer.key else "",
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
    peers = parse_peers(text)
    body = block[1] if peers else re.sub(r"^[ \t]*\[\s*\][ \t\r]*$\n?", "", block[1], flags=re.M)
    indent = " " * (_items(body)[0].start_mark.column - 2) if peers else ""
    entry = "".join(indent + line for line in format_peer(peer).splitlines(keepends=True))
    return _checked(text[: block.start(1)] + body + entry + text[block.end(1) :], (*peers, peer))


def _checked(text: str, peers: tuple[Peer, ...]) -> str:
    """The edited text, if it says what it should: people may write YAML in other ways."""
    try:
        if parse_peers(text) == peers:
            return text
    except ConfigError:
        pass
    raise ConfigError(f"{PATH}: cn cannot edit this list", "write each peer as '- name: …', or edit it by hand")


def remove_peer(text: str, name: Name) -> str:
    """The text without the entry of ``name`` (which must be there)."""
    return _replaced(text, name, None)


def replace_peer(text: str, peer: Peer) -> str:
    """The text with this entry in the place of the one of that name (which must be there)."""
    return _replaced(text, peer.name, peer)


def _replaced(text: str, name: Name, peer: Peer | None) -> str:
    block = _block(text)
    peers = parse_peers(text)
    assert block is not None
    index = [p.name for p in peers].index(name)
    node = _items(block[1])[index]
    lines = block[1].splitlines(keepends=True)
    indent = " " * (node.start_mark.column - 2)
    entry = [indent + line for line in format_peer(peer).splitlines(keepends=True)] if peer else []
    kept = lines[: node.start_mark.line] + entry + lines[_last_line(node) + 1 :]
    edited = text[: block.start(1)] + "".join(kept) + text[block.end(1) :]
    return _checked(edited, (*peers[:index], *([peer] if peer else []), *peers[index + 1 :]))
