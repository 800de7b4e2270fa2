"""``cn kb …``: the knowledge base, files with all their versions, and who read and wrote them."""

from __future__ import annotations

import sys
from typing import Any

import click

from cn.agency.names import Uuid
from cn.cli.desk import Desk, desk
from cn.cli.options import DRY_RUN, REQUEST, Env, options, read_input
from cn.cli.render.text import SHORT
from cn.cli.suggest import AS, complete_file

_FILE = click.argument("file", shell_complete=complete_file)
_PATH = click.argument("path", type=click.Path())
_SHOWN_HASH = 12


@click.group("kb")
def kb() -> None:
    """Agency's knowledge base: files with all their versions."""


@kb.command("list")
@options(AS)
def list_command(env: Env, acting: str) -> None:
    """List the files that you may read; outcomes are listed by 'cn outcome list'."""
    from cn.agency.plan.views import list_files

    with desk(env, acting) as opened:
        files: list[Any] = []
        after: int | None = 0
        while after is not None:
            view: Any = list_files(opened.principal, opened.facts, after)
            files, after = files + view["files"], view["next"]
        opened.look({"files": files}, _file_lines)


@kb.command("browse")
@click.argument("words", nargs=-1)
@options(AS)
def browse_command(env: Env, words: tuple[str, ...], acting: str) -> None:
    """Search the descriptions of all files and outcomes for WORDS, readable or not."""
    from cn.agency.plan.views import browse

    with desk(env, acting) as opened:
        opened.look(browse(" ".join(words), opened.principal, opened.facts), _file_lines)


def _file_lines(view: dict[str, Any]) -> list[str]:
    from cn.cli.render.agency import said
    from cn.cli.render.text import columns, cut, table

    rows = [
        (
            one["file"][:SHORT],
            one["kind"],
            one["access"],
            str(one["version"]),
            f"{one['size']:,}" if "size" in one else "",
            said(one["description"]),
        )
        for one in view["files"]
    ]
    more = ["and more; say more words"] if view.get("next") else []
    head, *lines = table([("ID", "KIND", "ACCESS", "VERSION", "BYTES", "DESCRIPTION"), *rows])
    return [head, *(cut(line, columns()) for line in lines), *more] if rows else ["no file"]


@kb.command("read")
@_FILE
@click.option("--version", "number", type=click.IntRange(1, 2**53), help="One of the versions before.")
@options(AS, REQUEST)
def read_command(env: Env, file: str, number: int | None, acting: str) -> None:
    """Print a file; that it was read is recorded. Beside it, on standard error, its version to give to 'write'."""
    with desk(env, acting) as opened:
        show_file(opened, opened.file(file), number)


def show_file(opened: Desk, file: Uuid, number: int | None = None, *, mail: bool = False) -> None:
    """Read a version and print it, and what to say to write over it; of a message, on whole lines, that alone."""
    from cn.agency.operations import ReadFile
    from cn.agency.perform import Asked, read_content

    (done,), _ = opened.ask_all([Asked(ReadFile(file, number), opened.principal, opened.env.request_id)])
    answer: dict[str, Any] = dict(done.answer)
    data = read_content(opened.agency.store, file, answer["hash"])
    env = opened.env
    if env.json:
        from cn.cli.render.report import show_json

        show_json(answer | {"content": data.decode("utf-8", "replace")})
        return
    _print(data + b"\n" if mail and not data.endswith(b"\n") else data)
    if not (env.quiet or mail):
        version, row, more = answer["version"], opened.facts.file(file), ""
        if row is not None and row.version != version:
            more = f"; the latest is version {row.version}"
        elif opened.may_write(file):
            more = f"; to write over it: --seen {version}:{answer['hash'][:_SHOWN_HASH]}"
        click.echo(f"· version {version}{more}", err=True)
    for word in () if env.quiet else ("broken", "unreadable"):
        for id in answer.get(word, ()):
            click.echo(f"· {word} link: kb://{id}", err=True)


def _print(data: bytes) -> None:
    """As it is into a pipe; on a terminal without what would command it."""
    from cn.values.text import visible

    if sys.stdout.isatty():
        text = data.decode("utf-8", "replace")
        click.echo("\n".join(map(visible, text.split("\n"))), nl=not text.endswith("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@kb.command("write")
@_FILE
@_PATH
@click.option("--seen", default="", metavar="VERSION:HASH", help="The version you saw last, as 'read' tells it.")
@options(AS, REQUEST, DRY_RUN)
def write_command(env: Env, file: str, path: str, seen: str, acting: str) -> None:
    """Write the content of the file at PATH ('-': standard input) as a new version, in place of the one you saw."""
    from cn.agency.operations import WriteFile
    from cn.agency.plan.checks import STALE

    data = read_input(path)
    with desk(env, acting) as opened:
        id = opened.file(file)
        row = opened.facts.file(id)
        shown = f"{row.version}:{row.hash[:_SHOWN_HASH]}" if row else "VERSION:HASH"
        read = opened.typed("cn kb read {}", id[:SHORT])
        remedy = f"{read} gives what it says now; put your changes into that, and write it with --seen {shown}"
        opened.do(WriteFile(id, data, opened.seen(id, seen)), {STALE: remedy})


@kb.command("create")
@_PATH
@click.option("--description", required=True, help="What it is, on one line; everybody sees it.")
@options(AS, REQUEST, DRY_RUN)
def create_command(env: Env, path: str, description: str, acting: str) -> None:
    """Make a new file of the content of the file at PATH ('-': standard input)."""
    from cn.agency.operations import CreateFile

    data = read_input(path)
    with desk(env, acting) as opened:
        opened.do(CreateFile(description, data))


@kb.command("history")
@_FILE
@click.option("--audit", is_flag=True, help="Who read and who wrote it, instead.")
@options(AS)
def history_command(env: Env, file: str, acting: str, *, audit: bool) -> None:
    """List the versions of a file: number, hash, size, time, and who wrote it."""
    from cn.agency.plan.views import file_audit, file_history

    with desk(env, acting) as opened:
        ask = file_audit if audit else file_history
        opened.look(ask(opened.file(file), opened.principal, opened.facts), _audit_lines if audit else _version_lines)


def _version_lines(view: dict[str, Any]) -> list[str]:
    from cn.cli.render.agency import actor_name
    from cn.cli.render.text import table

    rows = [
        (str(one["number"]), one["hash"][:_SHOWN_HASH], f"{one['size']:,}", one["time"], actor_name(one["actor"]))
        for one in view["versions"]
    ]
    return table([("VERSION", "HASH", "BYTES", "TIME", "BY"), *rows]) if rows else ["nothing was written to it"]


def _audit_lines(view: dict[str, Any]) -> list[str]:
    from cn.cli.render.agency import actor_name
    from cn.cli.render.text import table

    rows = [(one["time"], actor_name(one["actor"]), one["type"].replace("_", " ")) for one in view["events"]]
    return table([("TIME", "BY", "WHAT"), *rows])


@kb.command("links")
@_FILE
@options(AS)
def links_command(env: Env, file: str, acting: str) -> None:
    """List what a file names as kb://UUID, and what names it."""
    from cn.agency.names import Resource

    with desk(env, acting) as opened:
        id, facts = opened.file(file), opened.facts
        opened.check_read(Resource("kb", id))
        value = {"names": [*facts.references(id)], "named_by": [*facts.referenced_by(id)]}
        opened.look(value, lambda view: _link_lines(opened, view))


def _link_lines(opened: Desk, view: dict[str, Any]) -> list[str]:
    lines = [f"names {_target(opened, id)}" for id in view["names"]]
    return lines + [f"named by {opened.title(id)}" for id in view["named_by"]] or ["no link"]


def _target(opened: Desk, id: Uuid) -> str:
    return opened.title(id) if opened.facts.file(id) else f"{id[:SHORT]}, which is not there"
