"""Names for shell completion: threads and peers of the hub around the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import click

from cn.cli.options import Env

if TYPE_CHECKING:  # every command names a function of here, and only a shell calls it
    from click.shell_completion import CompletionItem

    Words = Iterable[tuple[str, str]]


def _complete(
    words: Callable[[Env, str], Words], ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Those of the words that begin so, each with what is told of it.

    Shells put them on the command line as they are. What a peer named must not be read by them as anything but a word.
    """
    from shlex import quote

    from click.shell_completion import CompletionItem

    try:
        found = list(words(ctx.find_object(Env) or Env(), incomplete))
    except Exception:
        return []  # whatever is wrong, a person who is typing does not want to read it now
    fit = [(word, text) for word, text in found if word.startswith(incomplete) and quote(word) == word]
    return [CompletionItem(word, help=text or None) for word, text in fit]


def _pending(env: Env, incomplete: str) -> Words:
    pending = env.view().snapshot.pending()
    names = [(i.get("thread").removesuffix(".md"), f"{p}/{i.topic}") for p, i in pending]
    return names + [(source, name) for name, source in names if incomplete and "/" in source]


def _sent(env: Env, incomplete: str) -> Words:
    from cn.protocol.layout import NOTICE

    sent = env.view().snapshot.outbound()
    return [(item.get("branch"), f"to {peer}") for peer, item in sent if item.get("kind") != NOTICE]


def _own(env: Env, incomplete: str) -> list[tuple[str, str]]:
    from cn.cli.render.text import clean
    from cn.views.thread_page import list_own

    return [(one.own.source, clean(one.own.title, 60)) for one in list_own(env.view())]


def _peers(env: Env, incomplete: str) -> Words:
    from cn.actions.peers import listed
    from cn.values.text import redact

    agent = os.environ.get("CN_ROLE") == "agent"  # names are all that it needs
    return [(peer.name, "" if agent else redact(peer.hub)) for peer in listed(env.hub())]


complete_thread = partial(_complete, _pending)
"""Pending threads, with where they come from."""
complete_sent = partial(_complete, _sent)
"""What we sent and is open, by its branch, with its peer."""
complete_own = partial(_complete, _own)
"""Open threads of our own, by their source."""
complete_any_thread = partial(_complete, lambda env, word: [*_own(env, word), *_pending(env, word)])
"""Open threads of our own by their source, pending ones of peers by their name."""
complete_concern = partial(
    _complete, lambda env, _: [(of.removeprefix("mca/"), title) for of, title in _own(env, "") if of.startswith("mca/")]
)
"""Open concerns, by their names."""
complete_decision = partial(
    _complete, lambda *_: [(d, "") for d in ("delete:", "defer:", "delegate:", "do:merge", "do:reply:", "do:custom:")]
)
"""The six decisions, up to their payload."""
complete_peer = partial(_complete, _peers)
"""The hub's peers."""

THREAD = click.argument("thread", shell_complete=complete_thread)
PEER = click.argument("to", metavar="PEER", shell_complete=complete_peer)
