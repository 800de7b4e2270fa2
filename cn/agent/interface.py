"""``cn input`` and ``cn out``: the agent's whole interface (``docs/protocol/agent.md``).

Neither takes the lock or writes into main.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import datetime

from cn.agent.plan.ops import on_one_line
from cn.agent.plan.output import format_output
from cn.git.objects import read_objects
from cn.git.repository import Hub
from cn.protocol.ops import Defer, Delegate, Op, Reply, Send, Surface, format_op
from cn.protocol.queue_item import INPUT, OUTPUT, TURN, Shown, parse_input, parse_turn
from cn.run import shown
from cn.secrets.scanner import Text, find_secrets, text_of_word
from cn.system.clock import now
from cn.system.files import place, read_plain, read_regular, write_file
from cn.values.errors import Refused, UsageError
from cn.values.record_header import RecordRefused
from cn.values.report import Report
from cn.values.text import is_text, one_line
from cn.values.timestamps import StampRefused, format_second, parse_stamp, parse_until


def read_input(hub: Hub) -> str | None:
    """What the agent is to answer, as it lies in ``state/input.md``; None when nothing waits."""
    found = read_plain(hub.root / INPUT)
    if found is None:
        return None
    text = found[1].decode("utf-8", "replace")
    with suppress(Refused):  # notes, never in the way of the agent
        trigger = parse_input(text).trigger
        shown.note_shown(hub, shown.ITEM, trigger)
        _note_printed(hub, trigger)
    return text


def is_answered(hub: Hub) -> bool:
    """Does an output wait to be executed?"""
    return os.path.lexists(hub.root / OUTPUT)


_PRINTED = "printed"
"""Below ``.git/cn``: a trigger, and when it was first printed here, to whomever."""


def _note_printed(hub: Hub, trigger: str) -> None:
    if read_printed(hub, trigger) is None:
        write_file(hub.state / _PRINTED, f"{trigger} {format_second(now())}\n".encode(), mode=hub.private_mode)


def read_printed(hub: Hub, trigger: str) -> datetime | None:
    """When this attempt's input was first printed in this clone, as far as that was noted."""
    data = (read_regular(hub.state / _PRINTED) or b"").decode("ascii", "replace")
    named, _, at = data.strip().partition(" ")
    try:
        return parse_stamp(at) if named == trigger else None
    except StampRefused:
        return None


def note_sent(hub: Hub, trigger: str, request: bytes) -> None:
    """Keep what is about to be sent to a model for this attempt, until the attempt is archived."""
    write_file(hub.state / "sent", f"{trigger}\n".encode() + request)


def read_sent(hub: Hub, trigger: str) -> bytes:
    """What was sent for this attempt; empty where no model was asked from here."""
    named, _, request = (read_regular(hub.state / "sent") or b"").partition(b"\n")
    return request if named == trigger.encode() else b""


Check = Callable[[Hub, str, str], None]
"""Raise :class:`Refused` for an output to an input that would not be executed (:mod:`cn.agent.check_answer`)."""


def write_output(hub: Hub, make: Callable[[str], Op], check: Check, *, item: str = "", dry_run: bool = False) -> Report:
    """Write the one answer to the current input; a second one is refused.

    ``make`` gives the op for the input's id. It answers ``item``, if that is given, else the one that this reader was
    shown last; where another is in flight now, it is refused. Nothing is executed here.
    """
    report = Report()
    found = read_plain(hub.root / INPUT)
    if found is None:
        raise Refused("nothing waits for an answer", "'cn input' prints what does")
    text = found[1].decode("utf-8", "replace")
    given = parse_input(text)
    id = given.id
    _refuse_unread(hub, given, item)
    op = make(id)
    _check_secrets(hub, op)
    output = compose(op, id)
    check(hub, output, id)
    answered = Refused(f"{id} has its answer already", "'cn inbox process' executes it")
    if is_answered(hub):
        if not (hub.root / OUTPUT).is_file() or (hub.root / OUTPUT).is_symlink():
            raise Refused(f"{OUTPUT} is not a plain file", "a person has to move it away")
        raise answered
    if dry_run:
        report.plan(f"write {OUTPUT}:\n{output}")
        return report
    with suppress(Refused):
        _note_printed(hub, given.trigger)
    if not put_output(hub, output):
        raise answered
    found = read_plain(hub.root / INPUT)
    if found is None or found[1].decode("utf-8", "replace") != text:  # the turn ended while we wrote
        with suppress(FileNotFoundError):
            (hub.root / OUTPUT).unlink()
        raise Refused(f"{id} is not in flight any more", "'cn input' prints what is")
    shown.note_shown(hub, shown.ITEM, shown.NOTHING)
    report.done(f"{id}: {format_op(op)[0]}; 'cn inbox process' executes it")
    return report


def _refuse_unread(hub: Hub, given: Shown, said: str) -> None:
    """Another item than what is answered took its place since: an answer belongs to what was read."""
    others = {said} - {given.id, given.trigger} if said else shown.read_shown(hub, shown.ITEM) - {given.trigger}
    if others:
        what = "what is answered" if said else "what was read"
        raise Refused(
            f"{what} is {one_line(' and '.join(sorted(others)), 200)}, and what is in flight now is {given.trigger}",
            "read it with 'cn input', then answer it" + ("" if said else "; '--item ID' says which one is answered"),
        )


def _check_secrets(hub: Hub, op: Op) -> None:
    """Refuse an answer that holds a secret, as the run that executes it would: on one line too, as it will stand."""
    texts = [
        text_of_word(f"--{_OPTIONS.get(f.name, f.name)}", str(getattr(one, f.name)))
        for one in (op, on_one_line(op))
        for f in fields(op)
        if f.name != "id"
    ]
    if not find_secrets(texts) and not isinstance(op, Delegate):
        return  # nearly always, and hub.yaml is not read for it
    from cn.run.secret_gate import check_texts, check_words
    from cn.run.settings import read_head_settings

    asked = None
    (turn,) = read_objects(hub.git, [f"{hub.main_ref}:{TURN}"])
    with suppress(RecordRefused):
        asked = parse_turn(turn or b"").input
    told = op.to if isinstance(op, Send | Delegate) else ""
    hub, settings = read_head_settings(hub)
    # The name of a branch is no news to who made it; to another one it is.
    others = [p.name for p in settings.peers.values() if p.name == told or (isinstance(op, Surface) and p.community)]
    if asked is None or not asked.topic or all(name == asked.sender for name in others):
        refusal = check_words(texts, settings, lambda: asked.topic if asked else "")
    else:
        named = [Text("the branch's name", (asked.topic,), 0)] if isinstance(op, Delegate) else []
        refusal = check_texts([*texts, *named], settings)
    if refusal:
        raise Refused.by(refusal)


def put_output(hub: Hub, output: str) -> bool:
    """Give the complete file its name; False for whoever comes second."""
    target = hub.root / OUTPUT
    beside = target.parent / f".cn-tmp-{os.getpid()}-output"
    write_file(beside, output.encode("utf-8", "replace"), root=hub.root)
    try:
        place(beside, target)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    return True


def compose(op: Op, id: str) -> str:
    """The text of ``state/output.md`` for one op as ``cn out`` got it; raises :class:`UsageError`.

    A message of several lines, or with a bar where a bar parts segments, becomes the body;
    its first line stands in the op.
    """
    words = {f.name: str(getattr(op, f.name)) for f in fields(op)}
    for name, value in words.items():
        if not is_text(value):
            raise UsageError("the words hold bytes that are not UTF-8", "write them as UTF-8")
        if not value.strip() and name not in ("body", "until"):
            raise UsageError(f"--{_OPTIONS.get(name, name)} is empty", "say something")
    op = on_one_line(op)
    match op:
        case Defer(_, until) if until:
            try:
                parse_until(until, now())
            except StampRefused as refused:
                raise UsageError(f"--until: {refused.text}", refused.hint) from None
        case Reply(_, message):
            return format_output(id, (Reply(id, _short(message)),), _long(message))
        case Send(to, message, body):
            return format_output(id, (Send(to, _short(message)),), body.strip() or _long(message))
    return format_output(id, (op,))


_OPTIONS = {"description": "desc"}


def _short(message: str) -> str:
    return one_line(message.strip().partition("\n")[0], 200).replace("|", "/")


def _long(message: str) -> str:
    """The message itself, where one line does not hold it."""
    text = message.replace("\r\n", "\n").strip()
    return text if text != _short(message) else ""
