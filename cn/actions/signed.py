"""Is a commit that is proposed signed as its addressee asks (``docs/protocol/signatures.md``)?"""

from __future__ import annotations

from cn.git.objects import merge_bases, read_objects
from cn.git.process import Git
from cn.git.signatures import own_key, read_signatures
from cn.inbox.plan.arrivals import is_withdrawn
from cn.peers.their_records import entry_at, read_ledger_at
from cn.protocol import rules
from cn.protocol.hub_config import PATH as CONFIG
from cn.protocol.hub_config import parse_config
from cn.protocol.ledger import IN, LedgerRefused, events_of_topics
from cn.protocol.peers_file import Peer, fingerprint
from cn.run.run import Run
from cn.values.errors import ConfigError, Refusal, Refused
from cn.values.names import Name, Oid, Topic
from cn.values.shell_words import command
from cn.values.text import decode


def refuse_unsigned(run: Run, peer: Peer, tip: Oid, head: Oid, *, others: bool = False) -> None:
    """Raise :class:`Refused` for a ``head`` that a peer, whose main is at ``tip``, refuses for its signature.

    Where its list of peers cannot be seen, and cn signs here, it is taken to have pinned our key. ``others``: it was
    committed in a clone in which cn signs for another hub.
    """
    git, us = run.hub.git, run.settings.us
    pinned = pinned_key(git, tip, us)
    ours = own_key(run.hub.config) if run.hub.signs else ""
    key = ours if pinned is None else pinned
    if not key:
        return
    (sign,) = read_signatures(git, [head], {str(us): key})
    if sign.good or (pinned is None and sign.present):
        return
    whose = f"{peer.name} has pinned {fingerprint(key)} for {us}" if pinned else f"{us} signs with {fingerprint(key)}"
    base = next(iter(merge_bases(git, tip, head)), tip)
    remedy = _with_key(run, base, key, ours) if others else _remedy(us, base, key, ours)
    raise Refused.by(Refusal(rules.SIGNATURE, f"{head[:8]} is {sign.how}; {whose}", remedy))


def will_be_refused(run: Run, peer: Peer, tip: Oid) -> str:
    """What to tell where a peer merges only what a pinned key signed, and has pinned none of ours; else empty."""
    us, (data,) = run.settings.us, read_objects(run.hub.git, [f"{tip}:{CONFIG}"])
    if pinned_key(run.hub.git, tip, us) != "" or data is None:
        return ""
    try:
        demands = parse_config(decode(data)).signed == "required"
    except ConfigError:
        return ""
    if not demands:
        return ""
    pins = command("cn peer key {} KEY", us)
    text = f"{peer.name} merges only what a key that it has pinned signed, and it has pinned none for {us}"
    return f"{text}: as it stands it will be refused; {pins} there pins one, 'cn sign KEY' here signs with it"


def refuse_withdrawn(run: Run, peer: Peer, tip: Oid, topic: Topic, head: Oid) -> None:
    """Raise :class:`Refused` for a ``head`` that a peer, whose main is at ``tip``, has seen taken back, where it has
    pinned our key: no signature says who pushes that again, and it is never merged.
    """
    git, settings = run.hub.git, run.settings
    if not pinned_key(git, tip, settings.us):
        return
    lines = read_ledger_at(git, tip, settings.names_for(peer.name))
    try:
        past = events_of_topics(lines, IN, [topic])[topic]
    except LedgerRefused:
        return
    if is_withdrawn(past, head):
        why = f"{peer.name} has seen {head[:8]} taken back, and its signature does not say who proposes it again"
        again = "'git commit --amend --no-edit -S' makes a new commit of it; then propose again"
        raise Refused.by(Refusal(rules.MERGE_NEEDS_APPROVAL, why, again))


def _remedy(us: Name, base: Oid, key: str, ours: str) -> str:
    """How to sign what is committed; first how to sign with that key at all."""
    amend = "git commit --amend --no-edit -S"
    begin = "'cn sign KEY' in this clone, where git does not sign with that key yet"
    if key != ours:
        begin = f"'cn sign KEY' with that key, or {command('cn peer key {} KEY', us)} there"
    each = command("git rebase --exec {} {}", amend, base)
    return f"{begin}; then '{amend}' signs the last commit, which is enough, {each} all of them; then propose again"


def _with_key(run: Run, base: Oid, key: str, ours: str) -> str:
    """The same in a clone that signs for its own hub: 'cn sign' there would let that sign with our key."""
    file = run.hub.config.last("user.signingkey").strip() if key == ours else "KEY"
    last = command("git -c gpg.format=ssh -c user.signingKey={} commit --amend --no-edit -S", file)
    sign = "git commit --amend --no-edit -S"
    each = command("git -c gpg.format=ssh -c user.signingKey={} rebase --exec {} {}", file, sign, base)
    which = "" if key == ours else ", with that key's file as KEY,"
    return f"{last}{which} signs the last commit, which is enough, {each} all of them; then propose again"


def pinned_key(git: Git, tip: Oid, us: Name) -> str | None:
    """The key that the list of peers in a main has for us (empty: none); None where it cannot be read."""
    entry = entry_at(git, tip, us)
    return None if entry is None else entry.key
