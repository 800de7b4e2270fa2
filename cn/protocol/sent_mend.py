"""What helps where something of ours was refused by a peer, or failed there (``docs/protocol/json.md``)."""

from __future__ import annotations

from cn.protocol.layout import (
    NOT_ALL_NAMED,
    NOT_PUBLISHED,
    PROPOSAL,
    REBASE_BEFORE_MERGE,
    REPLIED,
    SIGNATURE_POLICY,
    SIGNED_ANEW,
    TO_MEND,
    TOO_MANY_COMMITS,
)
from cn.protocol.ledger import AGAIN, Item
from cn.protocol.twins import rename_to
from cn.values.names import Name, NameRefused, parse_topic
from cn.values.shell_words import command
from cn.values.text import clean, slug

_MADE_BADLY = ("longer than cn reads for a signature", "git ends over the signatures")
"""What refusals by that rule say where no signature helps."""


def signing_text(item: Item, peer: Name) -> str:
    """How a proposal is signed that was refused for its signature, or as nobody there can tell who pushed that very
    commit again; empty: it was refused for another reason.
    """
    reason = item.get("reason")
    if SIGNED_ANEW in reason:
        return "'git commit --amend --no-edit -S' where it was committed makes a new commit of it"
    if not reason.startswith(f"{SIGNATURE_POLICY}:") or any(words in reason for words in _MADE_BADLY):
        return ""
    key = f"with the key that {peer} has pinned for us ('cn peer key' there pins one)"
    sign = f"'cn sign KEY' where it was committed, {key}, then 'git commit --amend --no-edit -S'"
    return f"if {item.head[:8]} is ours, {sign}"


def _smaller(item: Item, peer: Name) -> str:
    """What helps a proposal that is larger than cn merges; empty: it was refused for another reason."""
    reason = item.get("reason")
    if TOO_MANY_COMMITS in reason:
        return f"propose it in parts, or squash it (or {peer} merges it by hand): make the branch a part, or one commit"
    if NOT_ALL_NAMED in reason:
        return f"propose it in parts (or {peer} merges it by hand): make the branch the first part"
    return ""


def mend_text(item: Item, peer: Name, twin: str = "") -> str:
    """The next step; empty where the last answer waits for nobody here.

    ``twin``: the branch as whose other name it was refused.
    """
    get = item.get
    if item.state != "answered" or get("status") not in TO_MEND or get(AGAIN):
        return ""
    if twin:
        return rename_to(clean(twin, 120), clean(get("branch"), 120), peer)
    if get("about_status") == REPLIED and get("reason").startswith(f"{SIGNATURE_POLICY}:"):
        take = command("cn withdraw {}", f"{peer}:{item.topic}")
        tell = f"'cn sign KEY', with the key that {peer} has pinned for us, and the next 'cn sync' tells it again"
        return f"{tell}; {take} takes it away"
    if get("kind") not in ("", PROPOSAL):
        return f"{command('cn withdraw {}', f'{peer}:{item.topic}')} takes it away; say it anew in a message of its own"
    if get("status") == "refused" and get("reason").startswith(REBASE_BEFORE_MERGE):
        return command("cn rebase {}", f"{peer}:{item.topic}")
    mend = signing_text(item, peer) or _smaller(item, peer) or "mend it"
    try:
        parse_topic(item.topic)
    except NameRefused:
        again = command("cn propose {} {}", slug(item.topic, empty="TOPIC"), peer)
        away = command("cn withdraw {}", f"{peer}:{item.topic}")
        return f"{mend}, then {again} proposes it under a name that cn writes; {away} takes this one away"
    again = command("cn propose {} {}", item.topic, peer)
    away = command("cn withdraw {}", f"{peer}:{item.topic}")
    if get("status") == "refused" and NOT_PUBLISHED in get("reason"):
        lays = f"{command('cn rebase {}', f'{peer}:{item.topic}')} lays it upon what {peer} publishes now"
        left = f"'git rebase --onto FETCH_HEAD START' does, START being where it left {peer}'s own main"
        return (
            f"with the URL of that as its hub:, {lays}; where it began on more than that, {left}, after "
            f"{command('git fetch {}', 'URL')}; then {again}; {away} takes it back"
        )
    return f"{mend}, then {again} moves it there; {away} takes it back"
