"""``cn review``: step through what waits, and decide it with one key each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cn.actions import review as act
from cn.actions.mail import comment
from cn.actions.review import Changed, NoThread, Review, Written
from cn.cli.commands.pages import note_page
from cn.cli.completers import complete_peer, complete_thread
from cn.cli.options import ACTOR, DRY_RUN, Env, options
from cn.cli.render.foreground import run_in_foreground
from cn.cli.render.keys import read_key
from cn.cli.render.pager import show_lines
from cn.cli.render.report import show_error
from cn.cli.render.review import KEYS, choice_line, help_text, written_line
from cn.cli.render.text import clean, rule
from cn.cli.render.thread_page import standing_lines, text_lines
from cn.git.choices import EDITOR, PAGER, user_choice
from cn.git.repository import Hub
from cn.protocol.layout import PROPOSAL, inbox_path
from cn.protocol.thread_file import without_form
from cn.run.view import View
from cn.values.errors import CnError, Refused, UsageError
from cn.values.names import ThreadName, reply_topic
from cn.values.report import Mark
from cn.views.thread_page import Document, show_document, shown_head
from cn.views.threads import list_inbox, of_peer, to_review
from cn.views.words import state_text, untold

_NOT_ASKED = {
    "decided": "'cn inbox process' executes them",
    "answered": "name one to decide it",
    "withdrawn": "name one to end it",
}
_SAME = {" ": "s", "n": "s"}
_AT_END = ("u", "q")
_APPROVED = "APPROVED"
_VERBS = {"m": "do:merge", "r": "do:reply", "c": "", "f": "defer", "g": "delegate", "d": "delete"}
"""The decision that a key means, which a thread may not take as it is."""


@click.command("review")
@click.argument("threads", nargs=-1, metavar="[THREAD]...", shell_complete=complete_thread)
@click.option("--peer", default="", shell_complete=complete_peer, help="Only what waits from this peer.")
@ACTOR
@options(DRY_RUN)
def review_command(env: Env, threads: tuple[str, ...], peer: str, actor: str) -> None:
    """Step through what waits, oldest first, and decide it; or through these THREADs.

    Each is shown with its conversation and its difference in colours, then one key
    decides: merge a proposal, reply to a message, comment, defer, delegate, delete, skip, or your editor.
    Until you leave, undo takes a decision back. What is written is the same Triage
    section as ever; nothing of it is executed before 'cn inbox process', which is
    offered at the end. A comment alone goes at once.
    """
    if env.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        how = "'cn inbox' lists what waits, 'cn inbox show' shows it, 'cn inbox triage' decides it"
        raise UsageError("a review needs a terminal to ask on", how)
    view = env.view()
    if not view.on_main:
        from cn.git.other_branch import steps_to

        remedy = f"run {steps_to(view.hub, view.hub.main)}"
        raise Refused(f"HEAD is not {view.hub.main}: decisions are read from its threads only", remedy)
    if actor and not view.settings.config.is_actor(actor):
        raise UsageError(f"{clean(actor, 60)} may not decide here", "reviewers are listed in .cn/hub.yaml")
    inbox = list_inbox(view)
    found = to_review(of_peer(view, inbox, peer) if peer else inbox, actor or view.settings.us)
    queue = tuple(_name(view, text) for text in threads) if threads else tuple(one.thread for one in found)
    for state, what in _NOT_ASKED.items():
        if not threads and (count := sum(one.state == state for one in inbox.threads)):
            click.echo(f"· {state} before: {count}; {what}")
    if not queue:
        click.echo("nothing waits for a decision" + untold(one for one, _ in inbox.damaged if peer in ("", one)))
        return
    session = _Session(env, view.hub, Review(tuple(dict.fromkeys(queue))), actor)
    try:
        session.run()
    except BaseException:
        with suppress(OSError):  # nobody may be there to read it
            click.echo()
            session.tell_written()
        raise
    session.leave()


def _name(view: View, text: str) -> ThreadName:
    found = show_document(view, text).thread
    if found.state == "done":
        raise NoThread(f"{found.source} is done", "'cn inbox' lists what is pending")
    return found.thread


@dataclass
class _Session:
    """A review on this terminal. ``shown`` is the thread as it was printed, ``said`` are the comments sent."""

    env: Env
    hub: Hub
    review: Review
    actor: str
    shown: Document | None = None
    said: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Until somebody leaves."""
        while True:
            try:
                if self.review.current is not None and self.shown is None:
                    self._show(self.review.current)
            except NoThread as gone:
                show_error(gone.text, gone.hint)
                self._go_on(self.review.passed())
                continue
            key = self._ask()
            if key in ("", "q"):
                return
            try:
                self._act(key)
            except Changed as changed:
                show_error(changed.text, changed.hint)
                self.shown = None
            except NoThread as gone:
                show_error(gone.text, "another run or clone was first; on to the next")
                self._go_on(self.review.passed())
            except CnError as error:
                show_error(error.text, error.hint)

    def leave(self) -> None:
        """Say what was written, and execute it if somebody wants that now."""
        if not self.tell_written():
            return
        now = read_key("run 'cn inbox process' now? y=yes, any other key: later ")
        click.echo(now if now.isprintable() else "")
        if now not in ("y", "Y"):
            click.echo("'cn inbox process' executes what is written")
            return
        from cn.loop.process import process

        with self.env.progress("processing") as step:
            report = process(self.env.hub(), progress=step)
        self.env.show(report)

    def tell_written(self) -> bool:
        """What this review wrote, whether it is final, and what a run made of it meanwhile. Does any of it wait?"""
        for source in self.said:
            click.echo(f"✓ {clean(source)}: a comment, committed")
        became = [(one, self._became(one)) for one in self.review.written]
        for one, what in became:
            click.echo(f"✓ {written_line(one)}; {f'now it is {what}' if what else 'not yet executed'}")
        if not (self.said or became):
            click.echo("nothing was written")
        return not all(what for _, what in became)

    def _became(self, written: Written) -> str:
        """What a decision's thread is, where that does not wait for a run any more; empty: it does, or nobody knows."""
        with suppress(CnError):
            thread = show_document(self.env.view(), str(inbox_path(written.thread))).thread
            return "" if thread.state == "decided" else state_text(thread)
        return ""

    def _show(self, thread: ThreadName) -> None:
        view = self.env.view()
        document = show_document(view, str(inbox_path(thread)))
        if document.thread.state == "done":
            raise NoThread(
                f"{document.thread.source} is done already", "another run or clone was first; on to the next"
            )
        place = f"{len(self.review.steps) + 1} of {len(self.review.queue)}"
        title = f"{document.thread.source}: {document.thread.subject or document.thread.kind}"
        head = [rule(f"{place}  {clean(title, 120)}"), ""]
        held = standing_lines(document.thread)
        lines = [*head, *text_lines(without_form(document.text)), "", *held]
        show_lines(lines, lambda: user_choice(self.hub.root, PAGER), "q leads to the keys that decide")
        note_page(view, document)
        self.shown = document

    def _ask(self) -> str:
        """A key that means something here; empty: leave."""
        keys = [key for key in KEYS if self._applies(key)]
        if self.review.current is None:
            click.echo(rule("that was the last"))
        while True:
            click.echo(choice_line(keys, self.shown.thread if self.shown else None))
            key = read_key("? ")
            if key in ("\r", "\n") and self.review.current is None:
                key = ""
            key = _SAME.get(key, key)
            click.echo(key if key.isprintable() else "")
            if key in ("", *keys):
                return key
            click.echo(help_text(keys))

    def _applies(self, key: str) -> bool:
        if key == "u":
            return bool(self.review.steps)
        if self.review.current is None:
            return key in _AT_END
        if self.shown is None or key not in _VERBS:
            return True
        thread = self.shown.thread
        # What is said about a proposal leaves it waiting, as with 'cn reply': that is a comment.
        fits = key != "r" or thread.kind != PROPOSAL
        return fits and (thread.offered.words if key == "c" else thread.offered.has(_VERBS[key]))

    def _act(self, key: str) -> None:
        act_now: dict[str, Callable[[Document], None]] = {
            "m": self._merge,
            "c": self._comment,
            "r": self._reply,
            "f": self._defer,
            "g": self._delegate,
            "d": self._delete,
            "e": self._edit,
        }
        if key == "u":
            self._undo()
        elif key == "s":
            self._go_on(self.review.passed())
        elif key == "v":
            self.shown = None
        elif self.shown is not None:
            act_now[key](self.shown)

    def _go_on(self, review: Review) -> None:
        self.review, self.shown = review, None

    def _merge(self, document: Document) -> None:
        asked = self.env.view().settings.config.explicit_approval
        if asked and _text("this hub wants it in so many words (APPROVED)") != _APPROVED:
            raise UsageError(f"a merge needs {_APPROVED} here", "nothing was written")
        self._write(document, "do:merge", approval=_APPROVED if asked else "")

    def _reply(self, document: Document) -> None:
        if body := self._long_text("reply"):
            self._write(document, f"do:reply:{reply_topic(document.thread.topic)}", body=body)

    def _defer(self, document: Document) -> None:
        if reason := _text("what does it wait for"):
            until = _text("until (a date, or 12h, 3d; empty: the next day)")
            self._write(document, f"defer:{reason}", until=until)

    def _delete(self, document: Document) -> None:
        if reason := _text("why (its creator reads it)"):
            self._write(document, f"delete:{reason}")

    def _delegate(self, document: Document) -> None:
        settings = self.env.view().settings
        names = [*(r.name for r in settings.config.reviewers), *settings.peers]
        others = [name for name in names if name != document.thread.peer]
        to = _text(f"to ({', '.join(others) or 'nobody else is known here'})")
        if to and to not in others:
            raise UsageError(f"{to} is neither a reviewer nor another peer", "nothing was written")
        if to:
            self._write(document, f"delegate:{to}")

    def _comment(self, document: Document) -> None:
        if text := self._long_text("comment"):
            source = document.thread.source
            hub, head = self.env.hub(), shown_head(document)
            report = comment(hub, source, text, actor=self.actor, head=head, dry_run=self.env.dry_run)
            self.env.tell(report)
            held = any(note.mark is Mark.REFUSED and note.source == source for note in report.notes)
            self.said += [] if self.env.dry_run or held else [source]
            self.shown = None

    def _write(self, document: Document, decision: str, *, body: str = "", until: str = "", approval: str = "") -> None:
        thread, shown = document.thread.thread, document.data
        given = {"body": body, "until": until, "actor": self.actor, "approval": approval}
        if self.env.dry_run:
            self.env.tell(act.rehearse(self.hub, thread, shown, decision, **given))
            self._go_on(self.review.passed())
        else:
            self._note(act.decide(self.hub, thread, shown, decision, **given))

    def _note(self, written: Written) -> None:
        self._go_on(self.review.decided(written))
        click.echo(f"✓ {written_line(written)}; u takes it back")

    def _edit(self, document: Document) -> None:
        if self.env.dry_run:
            raise UsageError("an editor writes, and this is a dry run", "leave out --dry-run")
        thread = document.thread.thread
        self._open(act.working_path(self.hub, thread, document.data))
        self.shown = None
        if written := act.read_edit(self.hub, thread, document.data):
            self._note(written)
        else:
            click.echo("· it holds no decision")

    def _open(self, path: Path) -> None:
        editor = user_choice(self.hub.root, EDITOR)
        if not editor:
            raise UsageError("git names no editor", "set EDITOR, or git config core.editor")
        if code := run_in_foreground(editor, str(path)):
            raise Refused(f"the editor ended with {code}: {editor}", "what it saved stands in the file")

    def _long_text(self, what: str) -> str:
        """One line, or a text from the editor; empty: not after all."""
        line = _text(f"{what} (one line; 'e': in your editor; empty: none)")
        if line != "e":
            return line
        with TemporaryDirectory(prefix="cn-review-") as folder:
            path = Path(folder, f"{what}.md")
            path.touch()
            self._open(path)
            return path.read_text("utf-8", "replace").strip()

    def _undo(self) -> None:
        if self.review.last is not None:
            act.take_back(self.hub, self.review.last)
            click.echo(f"✓ {clean(f'{self.review.last.source}: {self.review.last.words}')} is taken back")
        self._go_on(self.review.undone())


def _text(what: str) -> str:
    """One line that somebody types; empty: not after all."""
    answer: str = click.prompt(what, default="", show_default=False)
    return answer.strip()
