"""What waits for the agent, its answer (``cn out …``), and how a person decides a thread at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from cn.cli.commands.several import Choice, decide_one, decide_several
from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, HEAD, Env, Group, action, deciding, list_group, options
from cn.protocol import ops


@click.command("input")
@options()
def input_command(env: Env) -> None:
    """Print the one item that waits for an answer."""
    from cn.agent.interface import is_answered, read_input

    hub = env.hub()
    text = read_input(hub)
    if text is None:
        _require_queue(hub)
    if env.json:
        from cn.cli.render.report import show_json
        from cn.protocol.queue_item import parse_input
        from cn.views.shapes import shape

        show_json(shape(None if text is None else parse_input(text), "id from=sender content cadence"))
        return
    if text is None:
        click.echo("nothing waits for an answer")
        return
    from cn.values.text import visible

    click.echo(visible(text), nl=False)
    if is_answered(hub) and not env.quiet:
        click.echo("· it has its answer; 'cn inbox process' executes it", err=True)


def _require_queue(hub: Hub) -> None:
    """Say how to get a queue where there is none, or none in this clone: nothing will ever wait there."""
    from cn.run.settings import read_head_settings
    from cn.values.errors import Refused

    if read_head_settings(hub)[1].config.interface != "queue":
        text = "this hub has no queue: its threads wait for a '## Triage'"
        raise Refused(text, "to have them wait for an agent, set 'interface: queue' in .cn/hub.yaml and commit it")
    if hub.leaves_agent:
        from cn.run.view import GIVEN_AGAIN, LEFT

        raise Refused(LEFT, GIVEN_AGAIN)


next_command = action("next", "actions.queue:next_item", "Give the agent its next item, if it has none.")


@list_group("queue")
def queue(env: Env) -> None:
    """List what the agent has, what waits for it, and what was given up."""
    from cn.cli.render.queue import queue_lines
    from cn.run.view import has_agent
    from cn.views.queue import read_queue

    view = env.view()
    found = read_queue(view)
    env.facts(found, lambda: queue_lines(found, fed=has_agent(view)))


_CLEAR = "Take everything that waits out of the queue; the threads stay."
_RETRY = "Queue a dead letter again, by its ID or the name of its thread."
queue.add_command(action("clear", "actions.queue:clear", _CLEAR))
queue.add_command(action("retry", "actions.queue:retry", _RETRY, click.argument("id")))


if TYPE_CHECKING:
    from cn.git.repository import Hub
    from cn.values.report import Report


@click.group("out", cls=Group)
@options()
def out(env: Env) -> None:
    """Answer the current item: do, defer, delegate or delete.

    One answer per item, the one that you read with 'cn input'. It is written to
    state/output.md; 'cn inbox process' executes it.
    """


@out.group("do", cls=Group)
@options()
def do(env: Env) -> None:
    """Complete the item with an operation."""


def _given(options: dict[str, str], *, required: bool) -> list[Callable[[Any], Any]]:
    """An option for each of these, with its help; ``until`` and ``body`` may always be left out."""
    found = []
    for name, help in options.items():
        complete = complete_peer if name == "to" else None
        more: dict[str, Any] = {"required": True} if required and name != "body" else {"default": ""}
        option = click.option(f"--{name}", **more, shell_complete=complete, help=help)
        found.append(deciding("--until", help) if name == "until" else option)
    return found


_ITEM = deciding("--item", "The id of the item that it answers, as 'cn input' printed it; else the one you read last.")


def _answer(name: str, make: Callable[..., ops.Op], help: str, given: dict[str, str]) -> None:
    """A command below ``cn out`` that writes one op, made of the item's id and the options ``given``."""

    def answer(hub: Hub, *, item: str, dry_run: bool, **fields: str) -> Report:
        from cn.agent.check_answer import check_answer
        from cn.agent.interface import write_output
        from cn.protocol.queue_item import INPUT

        if not (hub.root / INPUT).exists():  # not read: what 'cn out' looks at, the agent has not seen
            _require_queue(hub)
        return write_output(hub, lambda id: make(id, **fields), check_answer, item=item, dry_run=dry_run)

    below, _, word = name.rpartition(" ")
    (do if below else out).add_command(action(word, answer, help, *_given(given, required=True), _ITEM))


_THREADS = click.argument("threads", nargs=-1, metavar="[THREAD]...", shell_complete=complete_thread)
_PEER = click.option("--peer", default="", shell_complete=complete_peer, help="All that wait from this peer.")
_ALL = click.option("--all", "everything", is_flag=True, help="All that 'cn inbox' lists.")
_YES = click.option("--yes", is_flag=True, help="Several at once without asking; needed without a terminal.")


def _decision(name: str, make: Callable[..., ops.Op], help: str, *arguments: Any, **given: str) -> click.Command:
    """A command that decides threads with one op, made of each one's name, the arguments, and the options ``given``."""

    @options(DRY_RUN)
    def decided(env: Env, actor: str, head: str, **words: Any) -> None:
        choice = Choice(*(words.pop(word) for word in ("threads", "peer", "everything", "yes")))
        act = decide_several if choice.is_several(words.get("to")) else decide_one
        act(env, name, choice, lambda id: make(id, **words), actor=actor, head=head)

    made = decided
    for parameter in reversed([_THREADS, *arguments, *_given(given, required=False), _PEER, _ALL, ACTOR, HEAD, _YES]):
        made = parameter(made)
    return click.command(name, help=f"{help}\n\n{_SEVERAL}")(made)


_SEVERAL = """Several THREADs, --peer or --all are shown first, and decided together when you say yes. One
that a rule refuses is named, and keeps no other from it."""


_ANSWERS: dict[str, tuple[Callable[..., ops.Op], str, dict[str, str]]] = {
    "do reply": (
        ops.Reply,
        "Answer the sender, as do:reply does in a thread; the message is appended to it.",
        {"message": "The text that goes to the sender."},
    ),
    "do send": (
        lambda id, **fields: ops.Send(**fields),
        "Send a message to a peer; the item is acknowledged.",
        {"to": "A peer.", "message": "The subject, and the text if there is no body.", "body": "The text."},
    ),
    "do noop": (
        ops.Noop,
        "Acknowledge: nothing was to do. 'ack' says that it was read.",
        {"reason": "Why nothing is to be done: what you found."},
    ),
    "do ack": (
        ops.Ack,
        "Acknowledge: it was read, and no more follows. 'noop' says that nothing was to do.",
        {"reason": "What you take from it."},
    ),
    "do surface": (
        lambda id, desc: ops.Surface(desc),
        "Open a managed concern, as do:custom in a thread; 'cn mca' lists them. The community's peers learn of it.",
        {"desc": "What should be done, in one line."},
    ),
    "do commit": (
        ops.Commit,
        "Record what was made, by its object id.",
        {"artifact": "A file of main, or the id of an object."},
    ),
    "defer": (
        ops.Defer,
        "Put the item off.",
        {"reason": "What it waits for.", "until": "A date or time (UTC), tomorrow, tuesday, or 12h, 3d."},
    ),
    "delegate": (
        ops.Delegate,
        "Hand the item to a peer, or to a reviewer of this hub.",
        {"to": "A peer or a reviewer."},
    ),
    "delete": (ops.Delete, "Discard the item.", {"reason": "Why it is discarded; the sender reads it."}),
}
for _name, _row in _ANSWERS.items():
    _answer(_name, *_row)

done_command = _decision("done", ops.Done, "Complete THREAD: final, it moves to done and its creator is told.")
_UNTIL = "A date or time (UTC), tomorrow, tuesday, or 12h, 3d; it comes back then."
defer_command = _decision(
    "defer", ops.Defer, "Put THREAD off: it stays, and its creator is told.", reason="What it waits for.", until=_UNTIL
)
_TO = click.argument("to", shell_complete=complete_peer)
delegate_command = _decision(
    "delegate", ops.Delegate, "Hand THREAD to the peer TO, which is final, or assign it to the reviewer TO.", _TO
)
_DISCARD = "Discard THREAD: final, its creator is told and deletes the branch."
delete_command = _decision("delete", ops.Delete, _DISCARD, reason="Why; its creator reads it.")
