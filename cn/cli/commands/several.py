"""Threads that one command decides: the one that is named, or several after a look and a question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from cn.cli.options import Env
from cn.values.errors import EXIT_REFUSED, EXIT_USAGE, UsageError
from cn.values.shell_words import command
from cn.values.text import one_line

if TYPE_CHECKING:  # the help needs none of it
    from cn.actions.decide import Chosen, Make
    from cn.protocol.ops import Op
    from cn.run.view import View
    from cn.views.threads import ThreadView


class Choice(NamedTuple):
    """Which threads the words of a command name, and whether to ask before several are decided."""

    threads: tuple[str, ...]
    peer: str
    everything: bool
    yes: bool

    def is_several(self, to: str | None) -> bool:
        """Are they more than the one thread that is named? ``to`` is the last word of ``cn delegate``."""
        selected = bool(self.peer) + self.everything
        if selected > 1 or (selected and self.threads):
            raise UsageError("THREAD, --peer and --all exclude each other", "give one of them")
        if not selected and not self.threads:
            if to:
                raise UsageError("it takes a thread and, as the last word, to whom", f"{to!r} alone says only one")
            raise UsageError("it takes a THREAD, --peer or --all", "'cn inbox' lists the threads")
        return bool(selected) or len(self.threads) > 1


def decide_one(env: Env, name: str, choice: Choice, make: Make, *, actor: str, head: str) -> None:
    """Decide the thread that is named."""
    from cn.actions.decide import decide

    env.show(decide(env.hub(), choice.threads[0], make, actor=actor, head=head, dry_run=env.dry_run))


def decide_several(env: Env, name: str, choice: Choice, make: Make, *, actor: str, head: str) -> None:
    """Show the threads, ask, and decide exactly these at the heads that were shown."""
    from cn.actions.decide import decide_all
    from cn.cli.render.report import show_error
    from cn.cli.render.text import clean
    from cn.protocol.ops import Defer, Delegate, Delete
    from cn.views.words import state_text, untold

    if head:
        raise UsageError("--head is for one thread", "name that thread alone, or leave it out")
    view = env.view()
    op = make("")
    if isinstance(op, Delegate):
        _check_addressee(view, op.to)
    if isinstance(op, Delete | Defer) and not op.reason:
        _check_words(name, choice.threads)
    found, chosen, left = _choose(view, choice)
    for one in left:  # what somebody wrote would come to nothing, unseen
        told = f"{clean(one.source, 120)} is left out, {state_text(one)}; named, it is decided otherwise"
        click.echo(told, err=env.json)
    if not chosen:
        more = " but that" if left else ""
        nothing = f"nothing pending{more} from {choice.peer}" if choice.peer else f"nothing pending{more}"
        click.echo(nothing + untold(one for one in view.snapshot.damaged if choice.peer in ("", one)))
        return
    if env.dry_run or not choice.yes:
        for line in _preview(view, found, chosen):
            click.echo(line, err=env.json)
    what = _question(view, name, op, sum(bool(one.showing.head) or _is_ours(view, one.thread) for one in chosen))
    if env.dry_run:
        click.echo(f"would {what}", err=env.json)
    elif not choice.yes:
        if not sys.stdin.isatty():
            show_error(f"nothing was done: there is no terminal to ask whether to {what}", "'--yes' does it")
            sys.exit(EXIT_USAGE)
        if not click.confirm(f"{what}?", err=env.json):
            show_error("nothing was done", "")
            sys.exit(EXIT_REFUSED)
    env.show(decide_all(view.hub, chosen, make, actor=actor, dry_run=env.dry_run))


_WORDS = {"done": "complete"}
_FINAL = "final: each of them ends, its creator is told and deletes the branch"


def _question(view: View, name: str, op: Op, count: int) -> str:
    from cn.protocol.ops import Defer, Delegate

    what = f"{_WORDS.get(name, name)} {f'these {count} threads' if count > 1 else 'this thread'}"
    what += f" to {op.to}" if isinstance(op, Delegate) else ""
    stays = isinstance(op, Defer) or (isinstance(op, Delegate) and view.settings.config.is_actor(op.to))
    return what if stays else f"{what} ({_FINAL})"


def _check_addressee(view: View, to: str) -> None:
    """The last word of ``cn delegate`` is the addressee: a thread there is a word forgotten, or the wrong order."""
    if to not in view.settings.peers and not view.settings.config.is_actor(to):
        known = [*(reviewer.name for reviewer in view.settings.config.reviewers), *view.settings.peers]
        hint = f"it is one of {', '.join(known)}" if known else "there is no peer and no reviewer"
        raise UsageError(f"the last word says to whom, and {one_line(to, 60)!r} is neither peer nor reviewer", hint)


def _check_words(name: str, threads: tuple[str, ...]) -> None:
    """No thread has a name with a space: words behind the thread are meant as the reason."""
    for words in threads[1:]:
        if any(map(str.isspace, words)):
            step = command("cn {} {} --reason {}", name, threads[0], one_line(words, 200))
            text = f"there is no thread {one_line(words, 60)!r}: nothing was done"
            raise UsageError(text, f"if that is the reason, {step} says so")


def _choose(view: View, choice: Choice) -> tuple[list[ThreadView], list[Chosen], list[ThreadView]]:
    """The threads of peers among them, as people see them, and all of them as they are to be decided; and those that
    nobody named, and in which a decision is written that waits for its execution.
    """
    from cn.actions.decide import Chosen
    from cn.run.find_thread import read_call
    from cn.views.threads import DECIDED, list_inbox, of_peer

    inbox = list_inbox(view)
    if not choice.threads:
        every = of_peer(view, inbox, choice.peer).threads if choice.peer else inbox.threads
        found = [one for one in every if one.state != DECIDED]
        return (
            found,
            [Chosen(one.thread, one.showing, one.decided) for one in found],
            [one for one in every if one.state == DECIDED],
        )
    calls = {text: read_call(text) for text in choice.threads}
    named = {
        text: next((one for one in inbox.threads if call.means(one.source, one.thread)), None)
        for text, call in calls.items()
    }
    chosen = [Chosen(one.thread, one.showing, one.decided) if one else Chosen(text) for text, one in named.items()]
    return [one for one in named.values() if one], list(dict.fromkeys(chosen)), []


def _is_ours(view: View, name: str) -> bool:
    """Is it the name of a thread of our own?"""
    from cn.threads.store import own_paths, pick_own

    return pick_own(view.snapshot, own_paths(view.snapshot, view.hub if view.on_main else None), name) is not None


def _preview(view: View, found: list[ThreadView], chosen: list[Chosen]) -> list[str]:
    from cn.cli.render.status import inbox_lines
    from cn.cli.render.text import clean

    others = [one.thread for one in chosen if not one.showing.head]
    told = [clean(name, 200) + ("" if _is_ours(view, name) else ": there is no such thread") for name in others]
    return [*inbox_lines(found, view.now, signed=False), *told]
