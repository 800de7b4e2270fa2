"""Is the repository at a peer's URL still that peer's? It is known by its main, as far as anything is delivered there.

What answers first at a URL is the peer's. From then on its main may go on, go back, or get a history that
has a commit in common with what it was; anything else is another repository: a name that somebody else has
taken, a host that serves the wrong one, an empty one. Nothing is delivered there until a person accepts it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping

from cn.git.main_history import Strange, look_at_mains
from cn.git.remote import KnownMain, Listing
from cn.peers.peer_main import named_main, note_name
from cn.protocol.peers_file import Peer
from cn.run.memory import Condition
from cn.run.run import Run
from cn.values.names import Name, Oid, is_branch, is_oid
from cn.values.shell_words import command

ANOTHER = "another"
"""The kind of condition that another repository answers at a peer's URL."""
_KNOWN = "known"


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


def forget_removed(run: Run) -> None:
    """Of who is no peer any more nothing is said."""
    for name in run.memory.conditions.names(ANOTHER):
        if name not in run.settings.peers:
            run.memory.conditions.clear(ANOTHER, name)


def believe(run: Run, peer: Peer, main: tuple[str, Oid] | None) -> None:
    """What answers at a peer's URL is the peer's, whatever was there: with this main, or with the next one seen."""
    run.memory.section(_KNOWN).pop(peer.hub, None)
    note_name(run.memory, peer.hub, main[0] if main is not None else "")
    if main is not None:
        _note(run, peer.hub, KnownMain(*main))
    run.memory.conditions.clear(ANOTHER, peer.name)


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
            told[url] = answer if isinstance(answer, str) else hold(run, peers[url], known[url], answer)
    return told


def hold(run: Run, peers: Collection[Name], known: KnownMain, found: Strange) -> Condition:
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
