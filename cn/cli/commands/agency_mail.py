"""``cn mail …``: messages between a handler, its boss and its underlings; and yours."""

from __future__ import annotations

from typing import Any

import click

from cn.agency.names import Party
from cn.cli.desk import Desk, desk
from cn.cli.options import DRY_RUN, REQUEST, Env, body_options, list_group, not_empty, options
from cn.cli.render.text import SHORT
from cn.cli.suggest import AS, complete_file, complete_handler, complete_mail


@list_group("mail", AS)
def mail(env: Env, acting: str) -> None:
    """List the messages in your inbox, or in that of the handler for whom you act."""
    from cn.agency.plan.mail import deferred_of
    from cn.agency.plan.views import read_inbox

    with desk(env, acting) as opened:
        me = _me(opened)
        later = len(deferred_of(me, opened.facts))
        lists = opened.typed("cn mail waiting")
        told = [f"{later:,} of yours wait for their time: {lists} lists them"] if later else []
        opened.look(read_inbox(me, opened.principal, opened.facts), lambda view: [*inbox_lines(opened, view), *told])


def _me(opened: Desk) -> Party:
    return Party(getattr(opened.principal, "handler", opened.agency.me))


def inbox_lines(opened: Desk, view: dict[str, Any]) -> list[str]:
    """The pending messages of an inbox, as a table."""
    from cn.cli.render.agency import sender_of
    from cn.cli.render.text import columns, cut, table

    shown = opened.shown
    rows = [
        (one["mail"][:SHORT], one["time"][:16].replace("T", " "), sender_of(one, shown), _subject(one))
        for one in view["mail"]
    ]
    head, *lines = table([("ID", "TIME", "FROM", "SUBJECT"), *rows])
    return [*_senders(opened, view), head, *(cut(line, columns()) for line in lines)] if rows else ["no message waits"]


_MANY = 20


def _senders(opened: Desk, view: dict[str, Any]) -> list[str]:
    """Of many messages, from whom how many are, most first."""
    from collections import Counter

    from cn.cli.render.agency import sender_of
    from cn.cli.render.text import wrap

    shown = opened.shown
    counts = Counter(sender_of(one, shown) for one in view["mail"])
    if counts.total() <= _MANY:
        return []
    told = (f"{count:,} from {sender}" for sender, count in counts.most_common())
    return wrap("", f"{counts.total():,} messages: {'; '.join(told)}")


def _subject(one: dict[str, Any]) -> str:
    from cn.cli.render.agency import said
    from cn.cli.render.text import clean

    return said(one["subject"]) + (f" ({clean(one['note'])})" if one["note"] else "")


@mail.command("waiting")
@options(AS)
def waiting_command(env: Env, acting: str) -> None:
    """List the messages of yours that wait for their time, or those of the handler for whom you act."""
    from cn.agency.plan.views import list_deferred

    with desk(env, acting) as opened:
        found = list_deferred(_me(opened), opened.principal, opened.facts)
        opened.look(found, lambda view: _waiting_lines(opened, view))


def _waiting_lines(opened: Desk, view: dict[str, Any]) -> list[str]:
    from cn.cli.render.agency import name, said
    from cn.cli.render.text import columns, cut, table

    shown = opened.shown
    rows = [
        (one["mail"][:SHORT], one["due"][:16].replace("T", " "), name(one["to"], shown), said(one["subject"]))
        for one in view["mail"]
    ]
    head, *lines = table([("ID", "DUE", "TO", "SUBJECT"), *rows])
    return [head, *(cut(line, columns()) for line in lines)] if rows else ["no message of yours waits for its time"]


@mail.command("take-back")
@click.argument("mail", nargs=-1, required=True)
@options(AS, REQUEST, DRY_RUN)
def take_back_command(env: Env, mail: tuple[str, ...], acting: str) -> None:
    """Do not deliver messages that wait for their time, as 'cn mail waiting' lists them."""
    from cn.agency.operations import TakeBackMail

    with desk(env, acting) as opened:
        opened.do(TakeBackMail(tuple(map(opened.deferred, mail))))


@mail.command("show")
@click.argument("mail", shell_complete=complete_mail)
@options(AS, REQUEST)
def show_command(env: Env, mail: str, acting: str) -> None:
    """Show a message; that it was read is recorded."""
    from cn.cli.commands.agency_kb import show_file

    with desk(env, acting) as opened:
        id = opened.mail(mail, deferred=True)
        row = opened.facts.mail(id) or opened.facts.deferred(id)
        assert row is not None, "it was just found"
        show_file(opened, row.file, row.version, mail=True)
        file = opened.facts.file(row.file)
        if file and file.version != row.version and not (env.json or env.quiet):
            read = opened.typed("cn kb read {}", row.file[:SHORT])
            click.echo(f"· this is what was sent, version {row.version}; {read} gives version {file.version}", err=True)


_SUBJECT = click.option("--subject", default="", help="Its subject; else the beginning of the text.")
_AT = click.option(
    "--at",
    default="",
    callback=not_empty,
    metavar="WHEN",
    help="Not before a date, a time (UTC), tomorrow, or 3d from now.",
)


@mail.command("send")
@click.argument("to", shell_complete=complete_handler)
@click.argument("text", required=False, default="")
@_SUBJECT
@body_options("More text, or the text.")
@click.option(
    "--file",
    default="",
    callback=not_empty,
    shell_complete=complete_file,
    help="Send this file of yours instead of a text.",
)
@_AT
@options(AS, REQUEST, DRY_RUN)
def send_command(env: Env, to: str, text: str, subject: str, body: str, file: str, at: str, acting: str) -> None:
    """Send TEXT to a handler, to 'boss', or to user:NAME: as a handler to boss, underlings or itself."""
    from cn.agency.operations import SendMail
    from cn.values.timestamps import parse_until

    with desk(env, acting) as opened:
        due = parse_until(at, opened.now) if at else None
        sent = opened.file(file) if file else None
        whole = "\n\n".join(part for part in (text, body) if part)
        party = opened.party(to)
        said = "\n".join((party, sent or "", at, subject, whole))
        opened.do(SendMail(party, sent, subject, whole, due), said=said)


@mail.command("done")
@click.argument("mail", nargs=-1, required=True, shell_complete=complete_mail)
@options(AS, REQUEST, DRY_RUN)
def done_command(env: Env, mail: tuple[str, ...], acting: str) -> None:
    """Say that messages have been dealt with."""
    from cn.agency.operations import FinishMail

    with desk(env, acting) as opened:
        opened.do(FinishMail(tuple(map(opened.mail, mail))))
