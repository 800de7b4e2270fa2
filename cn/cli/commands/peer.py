"""``cn peer …``: list, add and remove peers; ``cn send``, ``cn reply`` and ``cn outbox``: write to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cn.cli.commands.inbox import sync_peers
from cn.cli.completers import PEER, THREAD, complete_peer
from cn.cli.options import DRY_RUN, HEAD, Env, Group, action, list_group, options, read_said, refused_as_usage

if TYPE_CHECKING:
    from cn.values.report import Report
    from cn.views.outbox import PeerView


@click.group("peer", cls=Group)
def peer() -> None:
    """The hubs this one talks to."""


@peer.command("add")
@click.argument("name")
@click.argument("url")
@click.option("--key", default="", help="An SSH public key, or a .pub file: pins the peer's signatures.")
@click.option("--deliver", type=click.Choice(["mailbox", "pickup"]), default="mailbox", show_default=True)
@click.option("--kind", default="agent", show_default=True, help="What the peer is, for people.")
@click.option("--community", is_flag=True, help="Surfaced concerns go to it too.")
@click.option("--check", is_flag=True, help="Contact it first.")
@options(DRY_RUN)
def add_command(env: Env, name: str, url: str, key: str, deliver: str, kind: str, community: bool, check: bool) -> None:
    """Add the peer NAME, whose hub is at URL."""
    from cn.actions.peers import absolute_url, add
    from cn.protocol.peers_file import Peer
    from cn.values.names import parse_name

    with refused_as_usage():
        peer, place = parse_name(name, "peer"), absolute_url(url, Path.cwd())
        parsed = Peer(peer, place, kind, key=_key(key) if key else "", deliver=deliver, community=community)
    env.show(add(env.hub(), parsed, check=check, dry_run=env.dry_run))


def _key(given: str) -> str:
    """The key itself, or the one in the file of that name; a text that can be no name is not looked for."""
    from cn.protocol.peers_file import is_key, parse_whole_key
    from cn.values.names import NameRefused

    if is_key(given):
        return parse_whole_key(given)
    text = given
    with suppress(OSError, RuntimeError):  # too long a name, an unknown user's home
        path = Path(given).expanduser()
        if "\n" not in given and path.is_file():
            try:
                text = path.read_text("utf-8", "replace")
            except OSError as why:
                who = "let the user of cn read it, or give the key's text"
                raise NameRefused(f"the key file {given} cannot be read: {why.strerror}", who) from None
        elif given.endswith(".pub"):
            raise NameRefused(f"there is no file {given}", "name the .pub file of a key, or give its text")
    return parse_whole_key(text)


@peer.command("list")
@options()
def list_command(env: Env) -> None:
    """List the peers."""
    from cn.views.outbox import list_peers

    view = env.view()
    peers = list_peers(view)
    nothing = "no peers yet; add one with 'cn peer add NAME URL'"
    env.facts(peers, lambda: _peer_lines(peers, view.now) or [nothing])


def _peer_lines(peers: Sequence[PeerView], now: datetime) -> list[str]:
    """The peers, with route, pinned key, and whether they failed to answer."""
    from cn.cli.render.text import clean, paint, since, wrap

    lines: list[str] = []
    for peer in peers:
        p, gone = peer.peer, peer.unreachable
        lines.append(f"{paint(p.name, bold=True)}  {clean(p.hub)}")
        # What nobody has said is not told: a person is no agent.
        kind = [clean(p.kind, 60)] if p.kind not in ("", "agent") else []
        facts = [p.deliver, *kind, peer.fingerprint or "no key"]
        facts += ["community"] if p.community else []
        facts += [f"peered {clean(p.peered, 30)}"] if p.peered else []
        lines += wrap("    ", ", ".join(facts))
        if gone:
            told = f"unreachable {since(gone.since, now)}: {clean(gone.reason)}"
            lines += [paint(line, "red") for line in wrap("    ", told)]
    return lines


_NAME = click.argument("name", shell_complete=complete_peer)
peer.add_command(action("remove", "actions.peers:remove", "Take a peer out; its threads and records stay.", _NAME))

_ACCEPT = "Take what answers at a peer's URL for the peer's, where another repository was there before."
peer.add_command(action("accept", "actions.peers:accept", _ACCEPT, _NAME))


@peer.command("key")
@_NAME
@click.argument("key")
@options(DRY_RUN)
def key_command(env: Env, name: str, key: str) -> None:
    """Pin another KEY for the peer NAME: an SSH public key, or a .pub file.

    What waits, or was refused for its signature, is checked by that key.
    """
    from cn.actions.peers import pin_key

    with refused_as_usage():
        parsed = _key(key)
    env.show(pin_key(env.hub(), name, parsed, dry_run=env.dry_run))


@peer.command("sync")
@click.argument("names", nargs=-1, shell_complete=complete_peer)
@options(DRY_RUN)
def sync_command(env: Env, names: tuple[str, ...]) -> None:
    """Sync with peers now (all, or those named), whatever the back-off says."""
    from cn.values.names import parse_name

    sync_peers(env, [parse_name(n, "peer") for n in names] or None, force=True)


_MESSAGE = click.argument("message", callback=read_said)
_SUBJECT = click.option("--body", default="", help="The text; MESSAGE is then the subject.")


def _saying(name: str) -> Callable[..., Report]:
    """What says something, of ``cn.actions.mail``: with a word on standard error about whom it waits for."""

    def say(*args: Any, **given: Any) -> Report:
        from cn.actions import mail
        from cn.loop.waiting import say_drafts
        from cn.values.text import visible

        act: Callable[..., Report] = getattr(mail, name)
        waiting = lambda text: click.echo(f"· {visible(text)}", err=True)  # noqa: E731
        return act(*args, **given, waiting=waiting, first=say_drafts)

    return say


send_command = action(
    "send", _saying("send"), "Send MESSAGE ('-': standard input) to PEER.", PEER, _MESSAGE, _SUBJECT, online=True
)

_MORE = click.option("--body", default="", help="More text below the message.")
_REPLY = (
    "Reply MESSAGE ('-': standard input) to THREAD; a pending message is decided by it, a proposal goes on waiting."
)
reply_command = action("reply", _saying("reply"), _REPLY, THREAD, _MESSAGE, _MORE, HEAD, online=True)

_COMMENT = "Say MESSAGE ('-': standard input) about THREAD to its creator; it decides nothing, and the thread stays."
_ACTOR = click.option("--actor", default="", help="Who says it; this hub's agent if not given.")
comment_command = action("comment", _saying("comment"), _COMMENT, THREAD, _MESSAGE, _MORE, _ACTOR, HEAD, online=True)


@list_group("outbox")
def outbox(env: Env) -> None:
    """List what waits to be delivered, with reason and attempts."""
    from cn.cli.render.status import outbox_lines
    from cn.views.outbox import list_outbox

    view = env.view()
    entries = list_outbox(view)
    env.facts(entries, lambda: outbox_lines(entries, view.now) or ["nothing waits to be delivered"])


outbox.add_command(action("flush", "loop.waiting:flush", "Deliver now, whatever the back-off says.", online=True))
