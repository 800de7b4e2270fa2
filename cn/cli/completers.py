"""Names for shell completion: threads and peers of the hub around the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from cn.values.text import redact

if TYPE_CHECKING:  # every command names a function of here, and only a shell calls it
    from click.shell_completion import CompletionItem


def _items(words: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """The words that begin so, each with what is told of it."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(word, help=text or None) for word, text in words if word.startswith(incomplete)]


def complete_thread(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Pending threads, with where they come from."""
    from cn.cli.options import Env
    from cn.git.objects import resolve
    from cn.run.settings import read_head_settings
    from cn.run.snapshot import Snapshot

    try:
        hub, _ = read_head_settings((ctx.find_object(Env) or Env()).hub())
        main = resolve(hub.git, hub.main_ref)
        pending = Snapshot(hub.git, main).pending() if main else []
    except Exception:
        return []  # whatever is wrong, a person who is typing does not want to read it now
    names = [(i.get("thread").removesuffix(".md"), f"{p}/{i.topic}") for p, i in pending]
    names += [(source, name) for name, source in names if incomplete and "/" in source]
    return _items(names, incomplete)


def complete_any_thread(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Open threads of our own by their source, pending ones of peers by their name."""
    return [*_items(_own(ctx), incomplete), *complete_thread(ctx, param, incomplete)]


def complete_own(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Open threads of our own."""
    return _items(_own(ctx), incomplete)


def complete_concern(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Open concerns, by their names."""
    names = [(one.removeprefix("mca/"), title) for one, title in _own(ctx) if one.startswith("mca/")]
    return _items(names, incomplete)


def _own(ctx: click.Context) -> list[tuple[str, str]]:
    from cn.cli.options import Env
    from cn.cli.render.text import clean
    from cn.run.view import open_view
    from cn.views.own_threads import list_own

    try:
        found = list_own(open_view((ctx.find_object(Env) or Env()).hub()))
    except Exception:
        return []  # whatever is wrong, a person who is typing does not want to read it now
    return [(one.own.source, clean(one.own.title, 60)) for one in found]


def complete_decision(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The six decisions, up to their payload."""
    words = ["delete:", "defer:", "delegate:", "do:merge", "do:reply:", "do:custom:"]
    return _items(((word, "") for word in words), incomplete)


def complete_peer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The hub's peers."""
    from cn.actions.peers import listed
    from cn.cli.options import Env

    try:
        peers = listed((ctx.find_object(Env) or Env()).hub())
    except Exception:
        return []  # whatever is wrong, a person who is typing does not want to read it now
    agent = os.environ.get("CN_ROLE") == "agent"  # names are all that it needs
    return _items(((p.name, "" if agent else redact(p.hub)) for p in peers), incomplete)
