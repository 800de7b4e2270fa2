"""The rules cn enforces: pure functions of facts (``docs/protocol/decisions.md``, "Rules").

Each returns a :class:`Refusal` that names the rule, the reason and the remedy, or None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import NamedTuple

from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import (
    BRANCH_GONE,
    BRANCH_LEFT,
    NOT_ALL_NAMED,
    NOT_PUBLISHED,
    SIGNATURE_POLICY,
    SIGNED_ANEW,
    TOO_MANY_COMMITS,
)
from cn.protocol.layout import REBASE_BEFORE_MERGE as REBASE_BEFORE_MERGE
from cn.protocol.layout import SEEN_BEFORE as SEEN_BEFORE
from cn.protocol.ledger import Item
from cn.protocol.message import FILE, MOST_TEXT, MessageRefused, parse_message
from cn.protocol.outbox_entry import Deliver, Entry, Propose
from cn.protocol.peers_file import Peer, fingerprint, is_verdict_of
from cn.protocol.proposal_text import MOST_FILES
from cn.protocol.thread_file import Triage, came_back
from cn.values.errors import Refusal
from cn.values.names import Name, NameRefused, Oid, is_owned, is_protected, parse_name, parse_topic, too_long, topic_of
from cn.values.shell_words import command
from cn.values.text import is_plain, one_line, shown_name
from cn.values.timestamps import StampRefused, parse_until

CREATOR_ONLY_DELETE = "creator-only-delete"
MERGE_NEEDS_APPROVAL = "merge-needs-approval"
NO_SELF_MERGE = "no-self-merge"
VALID_ACTOR = "valid-actor"
PROTECTED_PATHS = "protected-paths"
CLEAN_MERGE = "clean-merge"
KNOWN_PEER = "known-peer"
VALID_NAME = "valid-name"
SIGNATURE = SIGNATURE_POLICY
VALID_TRIAGE = "valid-triage"
VALID_OUTPUT = "valid-output"
NO_SECRETS = "no-secrets"
APPROVED = "APPROVED"
MOST_COMMITS = 500
"""Commits of a branch whose authors are checked at most; one with more is not merged."""


class Person(NamedTuple):
    """Who authored or signed a commit, as git tells it."""

    name: str
    email: str


class TreeChange(NamedTuple):
    """One path a merge would change. ``mode`` is the new mode, ``000000`` for a deletion."""

    path: str
    mode: str
    old_mode: str = "000000"

    @property
    def adds(self) -> bool:
        """Is the file new?"""
        return self.old_mode == "000000" != self.mode


@dataclass(frozen=True)
class MergeFacts:
    """What was found out about merging ``head`` into main.

    ``stale`` are paths at which main holds something else than the branch began with (with ``rebase: always`` all
    that main changed outside cn's folders), ``conflicts`` new paths that main has as a folder, or a folder of theirs
    as a file, ``dirty`` touched paths with local changes, ``untracked`` what lies where new files are to come and git
    does not track, ``shown_by`` the commands that let git see those again at which it was told not to look,
    ``clashes`` pairs of names that are one on a file system without case. ``changes``
    is what the branch changes, which is what its merge does. ``people`` are authors and signers of the commits
    merged, ``unknown`` the commits among them whose signatures have no form that git knows, ``garbled`` those in an
    encoding in which git shows no author. ``swallowed`` are waiting threads that came before it,
    whose heads it would put into main's history without what they change. ``all_there``: main has all that it changes,
    by other commits. ``commit`` is the prepared merge, ``published`` the published commit for it where the mailbox is a
    remote of its own, and ``private`` a commit with cn's own folders that would be published with it there.
    ``uncompared``: of one of the ``dirty``, why nobody can tell whether it was changed, and what helps.
    ``taken_back``: main's history has the head, and its files have nothing of it any more. ``commits`` is how many it
    has and ``unnamed`` how many files it changes, where that is more than is checked, or than its thread names;
    ``shown_upon`` the commit against which its thread shows it, where main does not have that.
    """

    head: Oid
    common: bool
    stale: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    dirty: tuple[str, ...] = ()
    changes: tuple[TreeChange, ...] = ()
    people: tuple[Person, ...] = ()
    merged_already: bool = False
    commit: Oid | None = None
    published: Oid | None = None
    clashes: tuple[str, ...] = ()
    unknown: tuple[Oid, ...] = ()
    garbled: tuple[Oid, ...] = ()
    swallowed: tuple[str, ...] = ()
    all_there: bool = False
    untracked: tuple[str, ...] = ()
    shown_by: tuple[str, ...] = ()
    private: str = ""
    uncompared: tuple[str, str] | None = None
    taken_back: bool = False
    commits: int = 0
    unnamed: int = 0
    shown_upon: str = ""


def valid_actor(actor: Name, config: HubConfig) -> Refusal | None:
    """Only the hub's agent and listed reviewers decide."""
    if config.is_actor(actor):
        return None
    names = ", ".join([config.name, *(r.name for r in config.reviewers)])
    return Refusal(VALID_ACTOR, f"{actor} may not decide here", f"actors of this hub: {names}")


def creator_known(peer: Name, peers: Collection[Name], remedy: str) -> Refusal | None:
    """Who is no peer any more gets nothing from here but an end."""
    return None if peer in peers else Refusal(KNOWN_PEER, f"{peer} {_NO_PEER}", remedy)


_NO_PEER = "is no peer any more"


def is_past(item: Item, *, known: bool) -> bool:
    """Is that which a decision about this thread was refused for over: is its branch there again, is its creator a
    peer again (``known``)?
    """
    rule, why = item.get("rule"), item.get("why")
    if rule == MERGE_NEEDS_APPROVAL and why in (BRANCH_LEFT, BRANCH_GONE):
        return not item.get("gone")
    return known and rule == KNOWN_PEER and why.endswith(f" {_NO_PEER}")


def not_taken_back(merge: MergeFacts, source: str) -> Refusal | None:
    """What was merged with git and reverted is in main's history: git merges nothing of it a second time."""
    if not merge.taken_back:
        return None
    asks = command("cn comment {} TEXT", source)
    return Refusal(
        CLEAN_MERGE,
        f"{merge.head[:8]} was merged with git, and all that it changes was taken back: a merge brings nothing of it",
        f"{asks} asks for new commits with it",
    )


def approval(triage: Triage, head: Oid, explicit: bool) -> Refusal | None:
    """An ``approval:`` line other than APPROVED refuses; the hub can require the line."""
    if triage.approval == APPROVED or (not triage.approval and not explicit):
        return None
    said = f"approval says {one_line(triage.approval, 40)!r}" if triage.approval else "there is no approval line"
    return Refusal(MERGE_NEEDS_APPROVAL, f"{said} for {head[:8]}", "write 'approval: APPROVED' when it is")


def no_self_merge(actor: Name, creator: Name, people: Sequence[Person], identities: Iterable[str]) -> Refusal | None:
    """The actor neither made the branch nor authored or signed a commit of it.

    ``identities`` are the names and emails the actor is known by; case is ignored.
    """
    if actor == creator:
        return Refusal(NO_SELF_MERGE, f"{actor} made the branch", "somebody else must decide the merge")
    known = {text.casefold() for text in identities if text}
    for person in people:
        if {person.name.casefold(), person.email.casefold()} & known:
            name, email = one_line(person.name), one_line(person.email)
            # Signers are known by the name their key is listed under, and have no email.
            what = f"is an author of the commits ({name} <{email}>)" if email else f"signed the commits (key of {name})"
            return Refusal(NO_SELF_MERGE, f"{actor} {what}", "somebody else must decide the merge")
    return None


def merged_as_read(facts: MergeFacts) -> Refusal | None:
    """What the merge changes on main is what the branch changes since it left it."""
    remedy = "rebase the branch on the latest main and push it again"
    if not facts.common:
        return Refusal(REBASE_BEFORE_MERGE, "it has no history in common with main", remedy, notify=True)
    if facts.shown_upon:
        why = f"its thread shows it upon {facts.shown_upon[:8]}, which main does not have"
        return Refusal(REBASE_BEFORE_MERGE, why, remedy, notify=True)
    if facts.stale:
        return Refusal(REBASE_BEFORE_MERGE, f"{_SINCE}{_some(facts.stale)}", remedy, notify=True)
    return None


def within_limits(facts: MergeFacts) -> Refusal | None:
    """The authors of all its commits are checked, and its thread names all files that it changes.

    No rebase makes it smaller.
    """
    by_hand = "or its receiver merges it by hand"
    if facts.commits:
        why = f"it has {facts.commits:,} {TOO_MANY_COMMITS} {MOST_COMMITS:,} whose authors cn checks"
        return Refusal(CLEAN_MERGE, why, f"propose it in parts, or squash it; {by_hand}", notify=True)
    if facts.unnamed:
        most = f"a thread names ({MOST_FILES:,} at most)"
        named = most if facts.unnamed > MOST_FILES else "its thread names against main"
        why = f"it changes {facts.unnamed:,} {NOT_ALL_NAMED} {named}"
        return Refusal(CLEAN_MERGE, why, f"propose it in parts; {by_hand}", notify=True)
    return None


_NOT_MERGED = "leave it out of the branch: no merge brings symbolic links or submodules, they lead elsewhere"
_KINDS = {"120000": "is a symbolic link", "160000": "is a submodule"}


def no_protected_path(changes: Sequence[TreeChange]) -> Refusal | None:
    """No protected file, nothing in cn's folders, no symlink, submodule, or attribute file, and no message of cn's."""
    for change in changes:
        if change.path == FILE and change.adds:  # who fetches all branches and rebases takes one in
            why = f"{FILE} is what a message of cn's holds, which was sent, and is no part of a proposal"
            remedy = "leave its commit out of the branch ('git rebase -i' drops it)"
            return Refusal(PROTECTED_PATHS, why, remedy, notify=True)
        kind = next((_KINDS[mode] for mode in (change.mode, change.old_mode) if mode in _KINDS), "")
        what = "is protected" if is_protected(change.path) else "is one of cn's own" if is_owned(change.path) else kind
        if what:
            by_hand = "leave it out of the branch; people change it by hand"
            remedy = _NOT_MERGED if what == kind else by_hand
            return Refusal(PROTECTED_PATHS, f"{shown_name(change.path)} {what}", remedy, notify=True)
    return None


def publishes_nothing_private(facts: MergeFacts) -> Refusal | None:
    """A merge publishes the history of its branch too, where main is published without cn's own folders."""
    if not facts.private:
        return None
    why = f"{facts.private[:8]} {NOT_PUBLISHED} (threads/, logs/ or state/)"
    remedy = "rebase it on what is published, without that commit and what others change there, and push it again"
    return Refusal(PROTECTED_PATHS, why, remedy, notify=True)


_BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f]")
"""What looks like a space."""
_NAMED = 5


def only_fit_names(changes: Sequence[TreeChange]) -> Refusal | None:
    """Every new file has a name that any file system holds, and that hides nothing from who reads it.

    A name that commands a terminal, or turns its order around, hides something.
    """
    for path in (change.path for change in changes if change.adds):
        name = f"the name {shown_name(path, 100)}"
        if why := too_long(path):
            why = f"{name} is too long: {why}"
        elif not is_plain(path) or _BLANKS.search(path):
            hidden = (c for c in dict.fromkeys(path) if not is_plain(c) or _BLANKS.match(c))
            which = ", ".join(f"U+{ord(c):04X}" for c in islice(hidden, _NAMED))
            why = f"{name} holds control or hidden characters: {which}"
        if why:
            return Refusal(VALID_NAME, why, "rename it in the branch and push it again", notify=True)
    return None


def join_refusals(refusals: Iterable[Refusal | None]) -> Refusal | None:
    """The first refusal, and what else stands in the way: who mends one thing should know of all.

    Where the branch's creator is to act, without what only people here can mend.
    """
    found = [one for one in refusals if one is not None]
    if not found:
        return None
    first, *others = found
    others = [one for one in others if one.notify or not first.notify]
    reason = _ALSO.join([first.reason, *(f"{one.rule}: {one.reason}" for one in others)])
    remedies = dict.fromkeys(one.remedy for one in [first, *others] if one.remedy)
    return Refusal(first.rule, reason, "; ".join(remedies), first.notify)


_SINCE, _CONFLICT, _ALSO = "main changed since: ", "conflict in ", "; also "
_GROWING = re.compile(rf"({_SINCE}|{_CONFLICT}).*?(?={_ALSO}|$)")


def without_changed_files(reason: str) -> str:
    """A reason without the files that main has changed: others join them, and it is the same reason still."""
    return _GROWING.sub(r"\1", reason)


_MOST_SHOWN = 3


def clean(facts: MergeFacts) -> Refusal | None:
    """No conflict, and no touched path with local changes."""
    if facts.conflicts:
        return Refusal(CLEAN_MERGE, f"{_CONFLICT}{_some(facts.conflicts)}", "rebase, resolve, push again", notify=True)
    if facts.clashes:
        why = f"{_some(facts.clashes)} are one name on a file system without case, or with one form of letters"
        return Refusal(CLEAN_MERGE, why, "rename it in the branch and push it again", notify=True)
    if facts.untracked:
        lie = "lie here and are" if len(facts.untracked) > 1 else "lies here and is"
        why = f"{_some(facts.untracked)} {lie} untracked, where the merge puts a file"
        return Refusal(CLEAN_MERGE, why, "move it elsewhere, or delete it")
    if facts.uncompared:
        return Refusal(CLEAN_MERGE, *facts.uncompared)
    if facts.dirty:
        why = f"your {_some(facts.dirty)} {'have' if len(facts.dirty) > 1 else 'has'} local changes"
        shows = ", then ".join(facts.shown_by[:_MOST_SHOWN])
        first = f"{shows} lets git look there again; then " if shows else ""
        others = " (the others likewise)" if len(facts.dirty) > 1 else ""
        away = f"{command('git stash push -- {}', facts.dirty[0])}{others} puts it away, 'git stash pop' brings it back"
        # Committed, they would be what main changed since, which its creator has to rebase upon.
        return Refusal(CLEAN_MERGE, why, f"{first}{away} after the run; committed, the branch would need a rebase")
    return None


def signed_merge(signature: str, required: bool) -> Refusal | None:
    """Approved is the exact commit, whoever pushed it; a hub may want it signed with the peer's pinned key too."""
    if signature == "bad":
        return Refusal(SIGNATURE, "its signature does not fit the commit", "sign it again", notify=True)
    if signature == "unread":
        why = "the commit is longer than cn reads for a signature, so nobody knows whether one fits it"
        return Refusal(SIGNATURE, why, "make it anew with fewer parents or a shorter message and header", notify=True)
    if signature.startswith("verified") or not required:
        return None
    why = "hub.yaml asks for merges that are signed with the peer's pinned key"
    return Refusal(
        SIGNATURE, why, "pin the peer's key ('cn peer key'), and have the commit signed with it", notify=True
    )


def signed_by_its_key(signature: str, peer: Peer, source: str) -> Refusal | None:
    """Whose key is pinned acts by nothing that another key signed, or none: it may have come before that was pinned."""
    if not peer.key or is_verdict_of(signature, peer.key):
        return None
    why = f"{peer.name} has the pinned key {fingerprint(peer.key)}, which did not sign this head"
    again = f"{peer.name} signs it with that key and pushes it again, or sends it again"
    return Refusal(SIGNATURE, why, f"{again}; {command('cn delete {}', source)} ends it", notify=True)


def asks_who_pushed(peer: Peer, config: HubConfig) -> bool:
    """Does a signature count here, so that it has to say who proposes, and not only who made the commit?"""
    return bool(peer.key) or config.signed == "required"


def put_there_by_its_creator(back: str) -> Refusal | None:
    """An old signature says who made a commit, and not who pushed it again after it was taken back."""
    if not back:
        return None
    why = came_back(back)
    why += "" if "signature" in back else ": its signature does not say who did that"
    return Refusal(MERGE_NEEDS_APPROVAL, why, SIGNED_ANEW, notify=True)


def readable_signatures(facts: MergeFacts) -> Refusal | None:
    """Main gets no commit over which ``git log --show-signature`` ends, for everybody and for ever."""
    if not facts.unknown:
        return None
    commits = _some([commit[:8] for commit in facts.unknown])
    why = f"git ends over the signatures of {commits} in the branch"
    return Refusal(SIGNATURE, why, "make the branch anew without that header and push it again", notify=True)


def readable_commits(facts: MergeFacts) -> Refusal | None:
    """Main gets no commit whose author and message no git shows."""
    if not facts.garbled:
        return None
    commits = _some([commit[:8] for commit in facts.garbled])
    why = f"the header of {commits} names an encoding in which git shows neither author nor message"
    return Refusal(CLEAN_MERGE, why, "make the commit anew, in UTF-8, and push it again", notify=True)


def swallows_none(facts: MergeFacts) -> Refusal | None:
    """No merge makes commits of another thread a part of main's history without what they change.

    git would call that thread's branch merged from then on, and its creator would lose it with the next rebase. What
    stands in the way is to be decided here, so the branch's creator, who may have made those commits, is told nothing.
    """
    if not facts.swallowed:
        return None
    names = _some(facts.swallowed)
    waits = "which waits here" if len(facts.swallowed) == 1 else "which wait here"
    why = f"it takes in the commits of {names}, {waits}, without all that they change"
    return Refusal(CLEAN_MERGE, why, f"decide {names} first, or ask its creator to leave those commits out")


def proven_sender(signature: str, shared_mailbox: bool, trusted: bool) -> Refusal | None:
    """Where others than the sender can push, only a verified key proves it."""
    if signature.startswith("verified") or (signature not in ("bad", "unread") and (not shared_mailbox or trusted)):
        return None
    why = "others can push there too, and no pinned key proves the sender"
    remedy = "pin the peer's key in state/peers.md, or set 'mailbox_trusted: true' in .cn/hub.yaml"
    return Refusal(SIGNATURE, why, remedy)


def check_addressee(to: Name, config: HubConfig, peers: Collection[Name]) -> Refusal | None:
    """Who something can be handed to: a peer, or a reviewer of this hub."""
    if to == config.name:
        why = f"{to} is this hub's own agent"
        return Refusal(VALID_ACTOR, why, "decide it, or delegate to another")
    if config.is_actor(to) or to in peers:
        return None
    known = ", ".join([*peers, *(r.name for r in config.reviewers)]) or "nobody yet"
    return Refusal(KNOWN_PEER, f"{to} is neither a peer nor a reviewer", f"known: {known}")


def read_addressee(to: str, config: HubConfig, peers: Collection[Name]) -> Name | Refusal:
    """Who an op hands something to."""
    try:
        name = parse_name(to, "peer")
    except NameRefused as refused:
        return Refusal(KNOWN_PEER, f"delegate: {refused.text}", refused.hint)
    return check_addressee(name, config, peers) or name


def read_return_time(until: str, said: datetime, now: datetime) -> datetime | Refusal:
    """When what is put off comes back: a time to come; where nothing says when, with the next day (UTC)."""
    if not until:
        return datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    try:
        at = parse_until(until, said)
    except StampRefused as refused:
        return Refusal(VALID_TRIAGE, f"until: {refused.text}", refused.hint)
    if at <= now:
        return Refusal(VALID_TRIAGE, f"until: {until} is over", "give a time to come")
    return at


def check_length(text: str, what: str) -> Refusal | None:
    """A message holds what its receiver can show."""
    size = len(text.encode("utf-8", "replace"))
    if size <= MOST_TEXT:
        return None
    why = f"{what} has {size} bytes, a message holds at most {MOST_TEXT}"
    return Refusal(VALID_TRIAGE, why, "shorten it, or propose a branch with the text as a file")


def may_send(entry: Entry, us: Name, ours: Item | None = None) -> Refusal | None:
    """What waits in the outbox says no more than cn would have queued, whoever wrote the file.

    ``ours`` is what the ledger has open under its topic.
    """
    remedy = "cn did not write this entry"
    if isinstance(entry, Propose):
        queued = ours is not None and (ours.state, ours.head) == ("queued", entry.head)
        return None if queued else Refusal(VALID_OUTPUT, "our ledger does not say that it is proposed", remedy)
    if not isinstance(entry, Deliver):
        return None
    try:
        parse_topic(topic_of(entry.branch))
        message = parse_message(entry.content)
    except (NameRefused, MessageRefused) as refused:
        return Refusal(VALID_NAME if isinstance(refused, NameRefused) else VALID_OUTPUT, refused.text, remedy)
    if message.sender != us:
        return Refusal(KNOWN_PEER, f"it is written in the name of {message.sender}", remedy)
    if message.to != entry.to or message.to == us:
        return Refusal(KNOWN_PEER, f"it is addressed to {message.to}, and would go to {entry.to}", remedy)
    if message.kind != entry.kind or b"\nparent " in entry.commit.partition(b"\n\n")[0]:
        return Refusal(VALID_OUTPUT, "it is no message of one commit of its kind", remedy)
    return None


def may_delete(prefix_is_ours: bool, known_tip: Oid | None, tip: Oid, *, recorded: bool = True) -> Refusal | None:
    """Only the creator deletes, and only the tip it knows; ``recorded``: our ledger says so too."""
    if not prefix_is_ours:
        return Refusal(CREATOR_ONLY_DELETE, "another made this branch", "its creator deletes it")
    if not recorded:
        reason = "our ledger does not say that this branch is to be deleted"
        return Refusal(CREATOR_ONLY_DELETE, reason, "cn did not write this entry, or what came since undid it")
    if known_tip is not None and known_tip != tip:
        why = f"it is at {tip[:8]}, we know {known_tip[:8]}"
        return Refusal(CREATOR_ONLY_DELETE, why, "somebody pushed to it, and it stays there")
    return None


def _some(paths: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(shown_name(p, 80) for p in paths[:most])
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"
