"""Is the repository at a peer's URL still that peer's? It is known by its main, as far as anything is delivered there.

What answers first at a URL is the peer's. From then on its main may go on, go back, or get a history that
has a commit in common with what it was; anything else is another repository: a name that somebody else has
taken, a host that serves the wrong one, an empty one. Nothing is delivered there until a person accepts it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from datetime import datetime

from cn.git.main_history import Strange, look_at_mains
from cn.git.remote import KnownMain, Listing
from cn.peers.peer_main import named_main, note_name
from cn.protocol.peers_file import Peer
from cn.run.executor import Executor
from cn.run.memory import ANOTHER, NAMELESS, Condition, Memory, put_bounded
from cn.run.run import Run
from cn.run.settings import Settings
from cn.values.names import Name, Oid, is_branch, is_oid
from cn.values.shell_words import command
from cn.values.timestamps import format_second, stamp_or_none

_KNOWN, _ANEW = "known", "anew"
"""Sections of the memory, by URL: the main there; and since when another repository was accepted."""


_CALLED, _FIRST = "called", "first url"
"""Sections of the memory, by peer: at which URL a hub answered that is called as the peer, or that has no name; and at
which one the peer was seen first.
"""


def is_called_so(memory: Memory, peer: Peer) -> bool:
    """Did a hub answer at the peer's URL that is called as the peer, or something that has no name?"""
    return memory.section(_CALLED).get(peer.name) == peer.hub


def is_known_there(settings: Settings, memory: Memory, peer: Peer) -> bool:
    """Was the hub at the peer's URL the peer's, as far as this clone knows, before it was called otherwise?"""
    alone = all(one.hub != peer.hub for name, one in settings.peers.items() if name != peer.name)
    return is_called_so(memory, peer) or (alone and memory.section(_FIRST).get(peer.name) == peer.hub)


def note_called(memory: Memory, peer: Peer, *, so: bool = True) -> None:
    """Note that the hub at the peer's URL is the peer's; not ``so``: it is to be looked at."""
    memory.section(_CALLED).pop(peer.name, None)
    if so:
        memory.section(_CALLED)[peer.name] = peer.hub
    else:
        memory.section(_FIRST).pop(peer.name, None)


def known_main(run: Run, url: str) -> KnownMain | None:
    """The main by which the repository at a URL is known; None: nobody has seen one."""
    words = str(run.memory.section(_KNOWN).get(url, "")).split(" ")
    if len(words) < 3 or not is_branch(words[0]) or not all(map(is_oid, (words[1], *words[3:]))):
        return None
    try:
        commit = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        commit = b""
    return KnownMain(words[0], Oid(words[1]), commit, tuple(words[3:]))


def _note(run: Run, url: str, main: KnownMain) -> None:
    words = (main.branch, main.tip, base64.b64encode(main.commit).decode(), *main.roots)
    run.memory.section(_KNOWN)[url] = " ".join(words)


def note_listed(run: Run, peer: Peer, listing: Listing, main: tuple[str, Oid] | None) -> None:
    """What a peer's hub lists now, and its main: the first that is seen is the peer's."""
    run.heads[peer.hub] = listing
    run.memory.section(_FIRST).setdefault(peer.name, peer.hub)
    if not run.settings.sends_to_hub(peer):
        return
    known = known_main(run, peer.hub)
    sure = main if main is not None and named_main(run.memory, peer.hub) == main[0] else None
    if known is None and sure is not None:
        seen = run.memory.section("mains").get(peer.hub)
        _note(run, peer.hub, KnownMain(sure[0], Oid(str(seen)) if is_oid(str(seen)) else sure[1]))
    elif known is not None and listing.get(known.branch) == known.tip:
        run.memory.conditions.clear(ANOTHER, peer.name)
        if sure is not None and sure[0] != known.branch:  # that was taken for its main before its name was learnt
            _note(run, peer.hub, KnownMain(*sure))


def tell_lost_name(run: Run, peer: Peer, main: tuple[str, Oid] | None) -> None:
    """Tell once that a peer's hub, as it was listed now, has no branch any more of the name that its main had.

    What HEAD names there is not taken by itself: whoever may delete a branch makes no other main of another.
    """
    name = named_main(run.memory, peer.hub)
    before = run.memory.conditions.get(NAMELESS, peer.name)
    if main is not None or not name or run.memory.conditions.get(ANOTHER, peer.name) is not None:
        run.memory.conditions.clear(NAMELESS, peer.name)
        return
    text = f"{peer.name}'s hub has no {name} any more, which was its main: what is merged there is not proven here"
    accept = command("cn peer accept {}", peer.name)
    remedy = f"ask {peer.name}, by another way, whether its main has another name now: {accept} takes the one it has"
    run.report.failed(text, remedy, source=peer.name, told_before=before is not None and before.text == text)
    run.memory.conditions.set(NAMELESS, text, remedy, name=peer.name)


def lay_in_another(run: Run | Executor, peer: Peer, since: datetime) -> bool:
    """Did what got to a peer at that time lie in the repository that was at its URL before another one was accepted?"""
    at = stamp_or_none(str(run.memory.section(_ANEW).get(peer.hub, "")))
    return at is not None and since <= at


def forget_removed(run: Run) -> None:
    """Of who is no peer any more nothing is said."""
    for kind in (ANOTHER, NAMELESS):
        for name in run.memory.conditions.names(kind):
            if name not in run.settings.peers:
                run.memory.conditions.clear(kind, name)


def believe(run: Run, peer: Peer, main: tuple[str, Oid] | None) -> None:
    """What answers at a peer's URL is the peer's, whatever was there: with this main, or with the next one seen.

    Where that was another repository, what lay there is gone with it.
    """
    known = known_main(run, peer.hub)
    is_another = run.memory.conditions.get(ANOTHER, peer.name) is not None
    if known is not None and main is not None and known.tip != main[1] and not is_another:
        git = run.hub.git._replace(max_bytes=run.settings.config.limits.fetch_bytes)
        answers = look_at_mains(git, {peer.hub: known}, run.settings.config.limits.peer_seconds)
        is_another = isinstance(answers[peer.hub], Strange)
    if is_another:
        put_bounded(run.memory.section(_ANEW), peer.hub, format_second(run.now))
    run.memory.section(_KNOWN).pop(peer.hub, None)
    note_name(run.memory, peer.hub, main[0] if main is not None else "")
    if main is not None:
        _note(run, peer.hub, KnownMain(*main))
    for kind in (ANOTHER, NAMELESS):
        run.memory.conditions.clear(kind, peer.name)


def judged(run: Run, names: Collection[Name], tip: Oid | None) -> Condition | None:
    """What was found before at what is there now, of these peers of one URL; ``tip``: its main, if this run knows."""
    stand = [one for name in names if (one := run.memory.conditions.get(ANOTHER, name))]
    if not stand or (tip is not None and f" is {tip[:12]}," not in stand[0].text):
        return None
    return Condition(stand[0].text.partition(": ")[0])


def look(run: Run, peers: Mapping[str, Collection[Name]]) -> dict[str, Condition | str]:
    """Read the mains at these URLs, and remember those that go on; of all others what is wrong, or why nobody knows.

    ``peers``: whose hubs they are.
    """
    limits = run.settings.config.limits
    known = {url: main for url in peers if (main := known_main(run, url)) is not None}
    git = run.hub.git._replace(max_bytes=limits.fetch_bytes)
    told: dict[str, Condition | str] = {}
    for url, answer in look_at_mains(git, known, limits.peer_seconds).items():
        if isinstance(answer, KnownMain):
            _note(run, url, answer)
            for name in peers[url]:
                run.memory.conditions.clear(ANOTHER, name)
        else:
            told[url] = answer if isinstance(answer, str) else _hold(run, peers[url], known[url], answer)
    return told


def _hold(run: Run, peers: Collection[Name], known: KnownMain, found: Strange) -> Condition:
    """Tell once that another repository answers; what is told of it where something is to be delivered."""
    told = Condition("")
    for name in peers:
        what = f"its {known.branch} is {found.tip[:12]}" if found.tip else f"it has no {known.branch}"
        common = "which has nothing in common with" if found.tip else "where there was"
        text = f"another repository answers at {name}'s URL: {what}, {common} {known.tip[:12]}; nothing is sent there"
        accept = command("cn peer accept {}", name)
        remedy = f"ask {name}, by another way, whether its hub moved or was made anew: {accept} takes what is there now"
        before = run.memory.conditions.get(ANOTHER, name)
        run.report.failed(text, remedy, source=name, told_before=before is not None and before.text == text)
        run.memory.conditions.set(ANOTHER, text, remedy, name=name)
        told = Condition(f"another repository answers at {name}'s URL")
    return told
