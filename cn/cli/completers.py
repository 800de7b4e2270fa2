"""Names for shell completion: threads and peers of the hub around the command line."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from cn.cli.options import Env

if TYPE_CHECKING:  # every command names a function of here, and only a shell calls it
    from click.shell_completion import CompletionItem

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
    Words = Iterable[tuple[str, str]]


def _completer(words: Callable[[Env, str], Words]) -> Completer:
    """Completes with those of the words that begin so, each with what is told of it."""

    @functools.wraps(words)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            found = list(words(ctx.find_object(Env) or Env(), incomplete))
        except Exception:
            return []  # whatever is wrong, a person who is typing does not want to read it now
        return [CompletionItem(word, help=text or None) for word, text in found if word.startswith(incomplete)]

    return complete


@_completer
def complete_thread(env: Env, incomplete: str) -> Words:
    """Pending threads, with where they come from."""
    from cn.git.objects import resolve
    from cn.run.settings import read_head_settings
    from cn.run.snapshot import Snapshot

    hub, _ = read_head_settings(env.hub())
    main = resolve(hub.git, hub.main_ref)
    pending = Snapshot(hub.git, main).pending() if main else []
    names = [(i.get("thread").removesuffix(".md"), f"{p}/{i.topic}") for p, i in pending]
    return names + [(source, name) for name, source in names if incomplete and "/" in source]


def _own(env: Env, incomplete: str) -> list[tuple[str, str]]:
    from cn.cli.render.text import clean
    from cn.views.thread_page import list_own

    return [(one.own.source, clean(one.own.title, 60)) for one in list_own(env.view())]


complete_own = _completer(_own)
"""Open threads of our own, by their source."""


def complete_any_thread(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Open threads of our own by their source, pending ones of peers by their name."""
    return [*complete_own(ctx, param, incomplete), *complete_thread(ctx, param, incomplete)]


@_completer
def complete_concern(env: Env, incomplete: str) -> Words:
    """Open concerns, by their names."""
    return [(name.removeprefix("mca/"), title) for name, title in _own(env, "") if name.startswith("mca/")]


@_completer
def complete_decision(env: Env, incomplete: str) -> Words:
    """The six decisions, up to their payload."""
    return dict.fromkeys(("delete:", "defer:", "delegate:", "do:merge", "do:reply:", "do:custom:"), "").items()


@_completer
def complete_peer(env: Env, incomplete: str) -> Words:
    """The hub's peers."""
    from cn.actions.peers import listed
    from cn.values.text import redact

    agent = os.environ.get("CN_ROLE") == "agent"  # names are all that it needs
    return [(peer.name, "" if agent else redact(peer.hub)) for peer in listed(env.hub())]
