"""``cn out …``, the agent's answer; ``cn done``, ``defer``, ``delegate`` and ``delete``, by which a person decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, Env, deciding, options
from cn.protocol import ops


@click.group("out")
@options()
def out(env: Env) -> None:
    """Answer the current item: do, defer, delegate or delete.

    One answer per item. It is written to state/output.md; 'cn inbox process' executes it.
    """


@out.group("do")
@options()
def do(env: Env) -> None:
    """Complete the item with an operation."""


def _with_options(function: Any, given: dict[str, str], *, required: bool) -> Any:
    """An option for each of these, with its help; ``until`` and ``body`` may always be left out."""
    for name, help in reversed(given.items()):
        complete = complete_peer if name == "to" else None
        more: dict[str, Any] = {"required": True} if required and name != "body" else {"default": ""}
        option = click.option(f"--{name}", **more, shell_complete=complete, help=help)
        function = (deciding("--until", help) if name == "until" else option)(function)
    return function


def _answer(group: click.Group, name: str, make: Callable[..., ops.Op], help: str, **given: str) -> None:
    """A command of ``group`` that writes one op, made of the item's id and the options ``given``."""

    @options(DRY_RUN)
    def command(env: Env, **fields: str) -> None:
        from cn.agent.interface import write_output

        env.show(write_output(env.hub(), lambda id: make(id, **fields), dry_run=env.dry_run))

    group.command(name, help=help)(_with_options(command, given, required=True))


def _decision(name: str, make: Callable[..., ops.Op], help: str, *arguments: Any, **given: str) -> click.Command:
    """A command that decides a thread with one op, made of its name, the arguments, and the options ``given``."""

    @options(DRY_RUN)
    def command(env: Env, thread: str, actor: str, **fields: str) -> None:
        from cn.actions.decide import decide

        env.show(decide(env.hub(), thread, lambda id: make(id, **fields), actor=actor, dry_run=env.dry_run))

    function: Any = _with_options(ACTOR(command), given, required=False)
    for argument in reversed((click.argument("thread", shell_complete=complete_thread), *arguments)):
        function = argument(function)
    return click.command(name, help=help)(function)


_answer(
    do,
    "reply",
    ops.Reply,
    "Answer the sender; the message is appended to the thread.",
    message="The text that goes to the sender.",
)
_answer(
    do,
    "send",
    lambda id, **fields: ops.Send(**fields),
    "Send a message to a peer; the item is acknowledged.",
    to="A peer.",
    message="The subject, and the text if there is no body.",
    body="The text.",
)
_answer(do, "noop", ops.Noop, "Acknowledge, nothing to do.", reason="Why nothing is to be done: what you found.")
_answer(do, "ack", ops.Ack, "Acknowledge.", reason="What you take from it.")
_answer(
    do,
    "surface",
    lambda id, desc: ops.Surface(desc),
    "Open a managed concern; the community's peers learn of it.",
    desc="What should be done, in one line.",
)
_answer(
    do,
    "commit",
    ops.Commit,
    "Record what was made, by its object id.",
    artifact="A file of main, or the full id of an object.",
)
_answer(
    out,
    "defer",
    ops.Defer,
    "Put the item off.",
    reason="What it waits for.",
    until="A date or time (UTC), or 90m, 12h, 3d.",
)
_answer(
    out, "delegate", ops.Delegate, "Hand the item to a peer, or to a reviewer of this hub.", to="A peer or a reviewer."
)
_answer(out, "delete", ops.Delete, "Discard the item.", reason="Why it is discarded; the sender reads it.")

done_command = _decision("done", ops.Done, "THREAD is complete: it moves to done, its creator is told.")
_UNTIL = "A date or time (UTC), or 90m, 12h, 3d; it comes back then."
defer_command = _decision("defer", ops.Defer, "Put THREAD off.", reason="What it waits for.", until=_UNTIL)
_TO = click.argument("to", shell_complete=complete_peer)
delegate_command = _decision(
    "delegate", ops.Delegate, "Hand THREAD to the peer TO, or assign it to the reviewer TO.", _TO
)
_DISCARD = "Discard THREAD; its creator is told and deletes the branch."
delete_command = _decision("delete", ops.Delete, _DISCARD, reason="Why; its creator reads it.")
