"""One thread on the screen: its document, then its chain."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from cn.cli.render import has_colours
from cn.cli.render.difference import line_colours
from cn.cli.render.text import age, align, clean, next_step, paint, wrap
from cn.protocol.layout import END_IN_MAIN, IN_MAIN, PROPOSAL
from cn.protocol.thread_file import without_form
from cn.protocol.thread_life import Link
from cn.threads.store import OwnDocument
from cn.values.text import quote, visible
from cn.values.timestamps import format_stamp
from cn.views.sent import SentDocument
from cn.views.thread_page import Document
from cn.views.threads import DONE, ThreadView
from cn.views.words import after_end, sent_text, standing_text, state_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import MarkdownElement


_WITH_HEAD = ("received", "moved", "executed", "branch_deleted", "queued", "adopted")


def document_lines(document: Document | OwnDocument | SentDocument, now: datetime) -> list[str]:
    """Whatever was asked for by a name."""
    match document:
        case Document():
            return page_lines(document, now)
        case OwnDocument():
            return text_lines(document.text)
        case SentDocument():
            return sent_lines(document, now)


def page_lines(document: Document, now: datetime) -> list[str]:
    """The document, and the chain below it."""
    # On a terminal what can be decided stands below.
    text = without_form(document.text) if sys.stdout.isatty() else document.text
    shown = text_lines(text) if document.text else [f"{document.path} is not there; its records are:"]
    pending = document.thread.state != DONE
    return [*shown, "", *chain_lines(document, now), *(choice_lines(document.thread) if pending else [])]


def text_lines(text: str) -> list[str]:
    """Markdown of whoever, rendered on a terminal; nothing in it reaches the terminal as a command.

    Nothing is taken out of it, not even what looks like a password: what is decided is what was read.
    """
    text = visible(text).rstrip("\n")
    return (_render(text) if sys.stdout.isatty() else text).split("\n")


def chain_lines(document: Document, now: datetime) -> list[str]:
    """The chain with times; what is waited for says since when."""
    thread = document.thread
    state = state_text(thread)
    head = f"{clean(thread.source)} {state if state.startswith('waits ') else f'is {state}'}"
    if thread.result.merge:
        head += f" as {thread.result.merge}"
    lines = [paint("-- chain " + "-" * 31, dim=True), head]
    if thread.refused is not None:
        lines += next_step(thread.refused.remedy)
    return lines + _link_lines(thread.chain, now)


def sent_lines(document: SentDocument, now: datetime) -> list[str]:
    """What we sent, and what became of it."""
    sent = document.sent
    head = f"{clean(sent.branch)} is {sent_text(sent)}"
    chain = [paint("-- chain " + "-" * 31, dim=True), head, *_link_lines(sent.chain, now)]
    text = document.text
    if sent.kind == PROPOSAL and sys.stdout.isatty():  # files are shown letter by letter, as a peer's thread shows them
        head, mark, said = text.partition("\n---\n\n")
        text = f"{head}{mark}{quote(said)}" if mark else text
    return [*text_lines(text), "", *chain, *next_step(document.mend, 2)]


def _link_lines(links: Sequence[Link], now: datetime) -> list[str]:
    lines: list[str] = []
    steps = [(_when(link, now), link.step.replace("_", " ")) for link in links]
    for (when, step, _), link in zip(align([(*s, "") for s in steps]), links, strict=True):
        told = clean(link.text)
        if link.head and link.at and link.step in _WITH_HEAD:
            told += f" (head {link.head[:12]})"
        lines += [paint(line, dim=link.at is None) for line in wrap(f"  {when}{step}", told)]
    return lines


def choice_lines(thread: ThreadView) -> list[str]:
    """What each decision would mean for a pending thread."""
    offered = thread.offered
    return [
        paint("-- decide " + "-" * 30, dim=True),
        *standing_lines(thread),
        *wrap("  ", f"it stays: {', '.join(offered.stays)}{'; a comment' if offered.words else ''}"),
        *wrap("  ", f"final, it is done and {after_end(thread)}: {', '.join(offered.ends)}"),
    ]


def standing_lines(thread: ThreadView) -> list[str]:
    """That there is nothing to merge, or nobody to tell, if it is so, and what to do."""
    held = f"{IN_MAIN}: {END_IN_MAIN}" if thread.in_main and thread.offered.has("do:merge") else ""
    told = [text for text in (held, standing_text(thread)) if text]
    return [line for text in told for line in wrap("  ", text, colour="yellow")]


def _when(link: Link, now: datetime) -> str:
    if link.at is not None:
        return format_stamp(link.at)
    return f"waiting since {age(link.since, now)}" if link.since else "—"


_COMMENT = re.compile(r"<(?=[!/?a-zA-Z])")


def _render(text: str) -> str:
    """Markdown, but for what the peer wrote: rendering would hide comments and link targets."""
    from rich.console import Console

    console = Console(no_color=not has_colours(), highlight=False)
    with console.capture() as rendered:
        _print(console, text)
    return rendered.get().rstrip("\n")


def _print(console: Console, text: str) -> None:
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        """At the margin, as all else of a thread."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield self.text

    class Page(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}

    for quoted, lines in groupby(text.split("\n"), key=lambda line: line.startswith(">")):
        if quoted:
            _print_quoted(console, [re.sub(r"^> ?", "", line) for line in lines])
            continue
        # Two spaces are a hard break: header and Triage fields keep their lines.
        source = "\n".join(_COMMENT.sub(r"\\<", line) + "  " if line.strip() else "" for line in lines)
        if source.strip():
            console.print(Page(source, hyperlinks=False))


def _print_quoted(console: Console, lines: list[str]) -> None:
    """What the peer wrote, letter by letter, differences in colours."""
    from rich.text import Text

    bar = Text("▌ ", style="cyan")
    for line, colour in zip(lines, line_colours(lines), strict=True):
        # Wrapped here: what a terminal folds would start at the margin, like a line of ours.
        for part in Text(line, style=colour).wrap(console, max(8, console.width - 2)) or [Text()]:
            console.print(bar + part, soft_wrap=True)
