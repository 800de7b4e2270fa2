"""What a host must have and allow (``docs/hosts.md``), looked at and tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cn.git import needed_rights
from cn.git.far_file import read_far
from cn.git.remote import (
    HEADS,
    SERVED_AS_FILES,
    head_of,
    in_the_way,
    is_broken_off,
    is_trouble_of_host,
    lacks_objects,
    list_remotes,
    remedy_of,
    serves_files,
)
from cn.git.repository import Hub
from cn.git.shared_places import others_may_write
from cn.peers.links import name_told
from cn.peers.peer_main import Found, learn_mains
from cn.protocol.hub_config import NO_HUB, PATH, name_in
from cn.protocol.peers_file import MAILBOX, Peer, say_moved
from cn.run.settings import Settings
from cn.transaction.base import origin_url
from cn.transaction.rights import Missing, try_rights
from cn.values.names import Name, Oid, is_local
from cn.values.shell_words import command
from cn.values.text import redact, visible

_PINS_PREFIX = "refs/cn/check/"


class Lack(NamedTuple):
    """What a host lacks. ``needed``: without it nothing of ours gets there, or a run stops."""

    text: str
    why: str
    remedy: str
    needed: bool


def look_at_place(hub: Hub, url: str, whose: str) -> Iterator[Lack]:
    """May others of this machine write where we read and push by a path?"""
    if place := others_may_write(hub.git, url):
        yield Lack(
            f"others may write {visible(place)} of {whose}, which is reached by its path",
            "who may write files there can do what you can: git follows links in it",
            "reach it over ssh as another user, or let nobody else write in it "
            f"({command('chmod -R go-w -- {}', url.removeprefix('file://'))})",
            False,
        )


def look_at_places(hub: Hub, settings: Settings | None) -> Iterator[Lack]:
    """The same for every remote that this hub knows."""
    places = {"origin": origin_url(hub, push=True)} if hub.origin else {}
    if settings is not None:
        if settings.mailbox not in ("", "origin"):
            places["the mailbox"] = hub.config.url(settings.mailbox, push=True)
        places |= {f"{peer.name}'s hub": peer.hub for peer in settings.peers.values()}
    if url := hub.config.last("agency.remote"):
        places["agency.remote"] = hub.config.url(url, push=True)
    for whose, url in places.items():
        yield from look_at_place(hub, url, whose)


def look_at_peer(hub: Hub, settings: Settings, peer: Peer, *, tries: bool = True, known: str = "") -> Iterator[Lack]:
    """A peer's hub, and where our branches for it go; with ``tries`` a branch is made there, and deleted.

    ``known``: the name of its main, as this clone learnt it.
    """
    seconds = settings.config.limits.peer_seconds
    answer = list_remotes(hub.git, {peer.name: peer.hub}, seconds)[peer.name]
    if isinstance(answer, str):
        text = f"{peer.name} cannot be reached at {redact(peer.hub)}: {answer}"
        remedy = remedy_of(answer, "check the URL", say_moved, settings.needs_from(peer))
        yield Lack(text, "nothing comes from it, and nothing gets there", remedy, True)
        return
    if serves_files(hub.git, peer.hub, seconds):
        yield _not_fetched(peer, SERVED_AS_FILES)
        return
    found = learn_mains(hub.git, {peer.hub: answer}, seconds)[peer.hub]
    if isinstance(found, str):
        yield _not_fetched(peer, found)
    named = found.main[0] if isinstance(found, Found) and found.main and (found.sure or "main" in answer) else ""
    yield from _look_at_head(hub, peer.hub, answer, named, f"{peer.name}'s hub", seconds)
    if named and known and named != known:
        yield Lack(
            f"the main of {peer.name}'s hub is {visible(named)} now, and this clone goes by its {visible(known)}",
            "what is merged there is not proven here, and proposals are checked against another branch",
            f"ask {peer.name}, by another way, which it is: {command('cn peer accept {}', peer.name)} takes the other",
            False,
        )
    if not tries:
        return
    if named:
        yield from _look_at_hub_file(hub, settings, peer, named)
    prefix, where, ask = settings.outbound_prefix(peer), "at origin", "allow it there"
    if peer.deliver == MAILBOX:
        where = f"in {peer.name}'s hub"
        ask = f"ask {peer.name} to allow it, or both use --deliver pickup: then each pushes to its own hub alone"
    if url := peer.hub if peer.deliver == MAILBOX else _pickup_url(hub, settings):
        yield from _look_at_rights(hub, settings, url, {f"{HEADS}{prefix}/": f"branches {prefix}/* {where}"}, ask)


def _look_at_hub_file(hub: Hub, settings: Settings, peer: Peer, main: str) -> Iterator[Lack]:
    """Is it still, or at all, the repository of a hub, which is called as it is here?"""
    data = read_far(hub.git, {"": (peer.hub, main)}, PATH, settings.config.limits.peer_seconds)[""]
    if data == b"":
        yield Lack(
            f"{peer.name}'s {visible(main)} shows no {PATH}: {NO_HUB}",
            "nothing that is sent or proposed there is answered by cn; its people see the branches with git",
            f"ask {peer.name}, by another way; {command('cn peer remove {}', peer.name)} takes it out here",
            False,
        )
    elif isinstance(data, str):
        yield _not_fetched(peer, data)
    elif told := name_told(settings, peer, name_in(data)):
        yield Lack(told.text, "", told.remedy, True)


def _not_fetched(peer: Peer, why: str) -> Lack:
    text = f"{peer.name}'s hub at {redact(peer.hub)} can be listed, and not fetched from: {why}"
    return Lack(text, "nothing comes from it", remedy_of(why, "check the URL"), True)


def _pickup_url(hub: Hub, settings: Settings) -> str:
    """Where we push what peers fetch; empty: that is this repository itself."""
    if settings.mailbox in ("", "origin"):
        return origin_url(hub, push=True) if hub.origin else ""
    return hub.config.url(settings.mailbox, push=True)


def look_at_origin(hub: Hub, settings: Settings) -> Iterator[Lack]:
    """Our own host, for the pins and the branches that peers fetch there. Main cannot be tried without moving it."""
    url, seconds = origin_url(hub), settings.config.limits.peer_seconds
    answer = list_remotes(hub.git, {"": url}, seconds)[""]
    if isinstance(answer, str) or hub.main in answer.broken:
        return  # who asks has told it
    if hub.main in answer:  # else the run that needs it says what helps
        yield from _look_at_head(hub, url, answer, hub.main, "origin", seconds)
    pickup = [peer.name for peer in settings.peers.values() if peer.deliver != MAILBOX]
    pickup = [] if settings.separate_mailbox else pickup
    places = {f"{HEADS}{name}/": f"branches {name}/* at origin" for name in pickup}
    places[_PINS_PREFIX] = "refs/cn/* at origin"
    push_url, main = origin_url(hub, push=True), answer.get(hub.main)
    yield from _look_at_rights(hub, settings, push_url, places, "allow it there", main)


def _look_at_head(
    hub: Hub, url: str, heads: Mapping[str, object], main: str, where: str, seconds: float
) -> Iterator[Lack]:
    """Does HEAD there name main? An empty repository cannot tell (git-ls-remote(1), ``--symref``)."""
    found = head_of(hub.git, url, seconds) if heads else None
    if not heads or (found and found[0] == (main or found[0])):
        return
    named = f"names {visible(found[0])}" if found else "names no branch that is there"
    good = main or "BRANCH"
    set_it = command("git -C {} symbolic-ref HEAD {}", url.removeprefix("file://"), HEADS + good)
    if not is_local(url):
        set_it = f"{command('git symbolic-ref HEAD {}', HEADS + good)}, typed in that repository"
    yield Lack(
        f"the HEAD of {where} {named}" + (f"; main is {main}" if main else ""),
        "a plain clone begins there: what is committed then has nothing in common with main, and cannot be merged",
        f"set the default branch in the host's settings, or there: {set_it}",
        False,
    )


def _look_at_rights(
    hub: Hub, settings: Settings, url: str, places: Mapping[str, str], ask: str, known: Oid | None = None
) -> Iterator[Lack]:
    missing = try_rights(hub, url, list(places), settings.config.limits.peer_seconds, known)
    for prefix, lack in missing.items():
        ours = "origin" if prefix == _PINS_PREFIX else settings.mailbox or "origin"
        remote = ours if places[prefix].endswith(" at origin") else ""
        yield _lack(settings.us, prefix, places[prefix], lack, ask, remote)


def _lack(us: Name, prefix: str, place: str, lack: Missing, ask: str, remote: str) -> Lack:
    """``remote``: what the place is called in this clone, if it is ours."""
    pins = prefix == _PINS_PREFIX
    all_of_them = needed_rights.PINS if pins else needed_rights.of_branches(prefix.removeprefix(HEADS).rstrip("/"))
    if not lack.told or is_trouble_of_host(lack.reason) or lacks_objects(lack.reason):
        text = f"whether {us} may {lack.right} {place} could not be tried: {lack.reason}"
        # It could be read a moment ago: who may not write at all gets no further than this.
        ask = "no right is known to be missing: run it again" if is_broken_off(lack.reason) else ask
        return Lack(text, "", remedy_of(lack.reason, ask, needed=all_of_them), lack.right == "create" and not pins)
    why, needed = {
        "create": ("what we send does not get there", True),
        "force": ("a branch of ours that was rebased does not get there", False),
        "delete": ("what is over stays there, since only its creator deletes a branch", False),
    }[lack.right]
    if pins:
        why, needed = "pins stay in each clone, and only there they keep reviewed commits alive", False
    if ref := in_the_way(lack.reason):
        take = command("git push {} :{}", remote, ref) if remote else ""
        ask = f"{take} takes it away" if take else f"ask for {ref} to be deleted there"
        return Lack(f"{us} cannot {lack.right} {place}: {ref} there leaves no room for them", why, ask, needed)
    stays = f"; {lack.stays} stays there until it may be deleted" if lack.stays else ""
    # A host says that one right is missing, and not which others will be.
    ask = f"{ask}; needed there: {all_of_them}"
    return Lack(f"{us} may not {lack.right} {place}: {lack.reason}{stays}", why, ask, needed)
