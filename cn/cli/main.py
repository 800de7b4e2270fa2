"""The ``cn`` command: its groups, and the one error boundary with exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from cn import __version__
from cn.cli.options import HUB, JSON, QUIET, VERBOSE, Env
from cn.cli.render import COLOUR
from cn.cli.streams import give_up_unread, guard_streams, lead_nowhere
from cn.inherited import is_for_memory
from cn.values.errors import EXIT_PIPE, EXIT_REFUSED, Blocked, CnError, ConfigError, NotShown, Refused

if TYPE_CHECKING:
    from types import FrameType

    from click.shell_completion import CompletionItem

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Everyday": {
        "status": ("look:status_command", "One screen: what waits, and for whom."),
        "inbox": ("inbox:inbox", "The threads that wait; also: show, sync, triage, process."),
        "sync": ("inbox:sync_command", "Inbox sync and outbox delivery in one."),
        "send": ("peer:send_command", "Send a message to a peer."),
        "comment": ("peer:comment_command", "Say something about a thread; it stays as it is."),
        "reply": ("peer:reply_command", "Reply to a thread."),
        "propose": ("propose:propose_command", "Propose commits to a peer, from the clone you work in."),
        "rebase": ("propose:rebase_command", "Bring a proposal of ours onto the peer's latest main."),
        "withdraw": ("propose:withdraw_command", "Take back what we sent, a proposal or a message."),
        "review": ("review:review_command", "Step through what waits, and decide it with one key each."),
        "done": ("queue:done_command", "Decide threads: complete."),
        "defer": ("queue:defer_command", "Decide threads: put them off."),
        "delegate": ("queue:delegate_command", "Decide threads: hand them to a peer or a reviewer."),
        "delete": ("queue:delete_command", "Decide threads: discard them."),
    },
    "The agent": {
        "agent": ("agent:agent_command", "Give the next item to the model: one cycle, or a daemon."),
        "input": ("queue:input_command", "The agent's one item, printed."),
        "out": ("queue:out", "The agent's answer: do, defer, delegate, delete."),
        "queue": ("queue:queue", "What waits for the agent; also: clear, retry."),
        "next": ("queue:next_command", "Give the agent its next item."),
        "context": ("model:context_command", "What a model would be sent for an item."),
    },
    "Threads of our own": {
        "thread": ("threads:thread", "All threads, our own too: list, show, close."),
        "adhoc": ("threads:adhoc_command", "Open a thread of our own."),
        "mca": ("threads:mca", "The managed concerns; also: add, done."),
        "daily": ("threads:daily_command", "Today's reflection."),
        "weekly": ("threads:weekly_command", "This week's reflection."),
        "monthly": ("threads:monthly_command", "This month's reflection."),
        "quarterly": ("threads:quarterly_command", "This quarter's reflection."),
        "yearly": ("threads:yearly_command", "This year's reflection."),
        "commit": ("threads:commit_command", "Commit what you edited in threads/ and state/."),
        "push": ("threads:push_command", "Bring local main to origin."),
        "save": ("threads:save_command", "Commit and push."),
    },
    "Set-up": {
        "init": ("setup:init_command", "Make a new hub."),
        "peer": ("peer:peer", "The hubs this one talks to: add, key, list, remove, sync."),
        "sign": ("setup:sign_command", "Sign what cn commits and sends in this clone."),
        "cron": ("setup:cron", "The crontab lines of this hub: show, install, remove."),
        "completion": ("look:completion_command", "Print the shell completion script."),
    },
    "Look": {
        "log": ("look:log_command", "What happened, with filters."),
        "why": ("why:why_command", "Explain one action, from what was recorded."),
        "outbox": ("peer:outbox", "What waits to be delivered; also: flush."),
        "usage": ("model:usage_command", "What calls to the model used and cost."),
        "web": ("web:web_command", "Look at the hub in a browser, and decide there."),
    },
    "Maintain": {
        "doctor": ("doctor:doctor_command", "Explain every problem and its remedy."),
        "trust": ("setup:trust_command", "Accept a change to a protected file that came from origin."),
        "replay": ("model:replay_command", "Ask archived inputs again; what would be decided now?"),
    },
    "Agency": {
        "agency": ("agency:agency", "Outcomes, handlers and what each may do: init, status, can, log, export …"),
        "outcome": ("agency_outcome:outcome", "What is to be accomplished, what for, and how."),
        "handler": ("agency_handler:handler", "Who is responsible: delegate, insert, move, remove, stop, audit."),
        "kb": ("agency_kb:kb", "The knowledge base: files with all their versions."),
        "mail": ("agency_mail:mail", "Messages between handlers, and yours; also: show, send, done."),
        "grant": ("agency_grant:grant", "What handlers may do besides: list, add, revoke."),
        "mcp": ("bridge:mcp_command", "Agency's tools for a client of MCP, on standard input and output."),
    },
}
"""Every command that the help shows, by section; where it is below ``cn.cli.commands``, and its line in
the help (so that the help imports none of them)."""

SYNONYMS = {"read": "threads:show_command"}
"""Commands that work and are not shown. Groups have theirs too: ``list`` where the group alone lists."""

_COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """Imports a command's module only when it is called: cron pays for what it uses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands that are shown, section by section."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        place = _COMMANDS[cmd_name][0] if cmd_name in _COMMANDS else SYNONYMS.get(cmd_name)
        if place is None:
            return None
        _check_role(cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(import_module(f"cn.cli.commands.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help."""
        first, *others = SECTIONS
        with formatter.section(first):
            formatter.write_dl([(name, text) for name, (_, text) in SECTIONS[first].items()])
        with formatter.section("More, each explained by its own --help"):
            formatter.write_dl([(title, ", ".join(SECTIONS[title])) for title in others])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Command names, with their line, for the shell."""
        from click.shell_completion import CompletionItem

        if incomplete and not incomplete[0].isalnum():
            return super().shell_complete(ctx, incomplete)
        names = _COMMANDS.items()
        return [CompletionItem(name, help=text) for name, (_, text) in names if name.startswith(incomplete)]


_AGENT = ("input", "out")


def _check_role(name: str) -> None:
    """``CN_ROLE=agent`` leaves the agent its two verbs, on the hub it stands in."""
    role = os.environ.get("CN_ROLE", "")
    if role not in ("", "agent"):
        raise ConfigError(f"CN_ROLE is {role!r}", "the only role is 'agent'; unset it otherwise")
    if role == "agent" and name not in _AGENT:
        from cn.values.shell_words import command

        what = f"an agent may not run {command('cn {}', name)}"
        raise Refused(what, "its commands are 'cn input' and 'cn out'")


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cn")
@VERBOSE
@QUIET
@JSON
@HUB
def cli() -> None:
    """Agents and people work together over plain git.

    Peers push branches, cn turns them into markdown threads, the agent writes a typed
    decision, cn enforces the protocol, does every effect, and logs it.

    Exit codes: 0 done; 1 refused or failed; 2 usage; 3 no hub or broken configuration; 75 locked.

    What hub, thread, decision, notice, item and the other words mean: docs/words.md in cn's source.
    """


def run() -> NoReturn:
    """Run the command line and end the process: every error as text, hint and exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _raise_again
    guard_streams()
    env = Env()
    try:
        code = _invoke(env)
        sys.stdout.flush()
        sys.stderr.flush()
        sys.exit(code)
    except CnError as error:
        _tell_before(env, error)
        if error.told_before and env.quiet:
            sys.exit(error.exit_code)  # cron was told when it began
        from cn.cli.render.text import at_hub

        of_hub = isinstance(error, (Blocked, ConfigError))
        _report_error(error.text, at_hub(error.hint) if of_hub else error.hint, error.exit_code)
    except click.ClickException as error:
        words = io.StringIO()
        error.show(words)
        click.echo(_without_typed_secrets(words.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort) as stop:
        give_up_unread()
        if isinstance(stop, KeyboardInterrupt):
            click.echo(err=True)  # below the terminal's ^C
        _report_error(*_tell_signal("interrupted"), 130)
    except _Terminated as end:
        give_up_unread()
        _report_error(*_tell_signal("terminated"), int(end.code or 0))
    except BrokenPipeError:
        _end_by_sigpipe()  # what was printed last
    except NotShown as error:
        _report_error(*_not_shown(env, error), EXIT_REFUSED)
    except OSError as error:
        if is_for_memory(error):
            raise  # told where nothing is loaded for it
        _report_error(*_by_system(error), EXIT_REFUSED)
    except Exception as error:
        if is_for_memory(error) or os.environ.get("CN_DEBUG"):
            raise
        _report_error(
            f"internal error: {type(error).__name__}: {error}",
            "this is a bug in cn; CN_DEBUG=1 shows where. Nothing is lost, 'cn doctor' checks the hub",
            EXIT_REFUSED,
        )


def _invoke(env: Env) -> int:
    """Run the command; its exit code. As click's own ``main``, which would meet a reader that has left with 1."""
    if instruction := os.environ.get("_CN_COMPLETE"):
        from click.shell_completion import shell_complete

        if instruction.rpartition("_")[2] not in ("source", "complete"):
            raise ConfigError(f"_CN_COMPLETE is {instruction[:40]!r}", "unset it: it is for shell completion alone")
        return shell_complete(cli, {}, "cn", "_CN_COMPLETE", instruction)
    try:
        with cli.make_context("cn", sys.argv[1:], obj=env, color=COLOUR) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0


_SHOWS = "'cn status' and 'cn log', of an Agency 'cn agency log', show"


def _not_shown(env: Env, error: NotShown) -> tuple[str, str]:
    """The report could not be written: what is known of the work, which was done before it."""
    done: bool | None = env.did or None
    if not done and "cn.run.run" in sys.modules:
        from cn.run.interrupted import what_became

        done = what_became()
    if done:
        told = f"it was done; only the report of it could not be written: {error.strerror}"
        return told, f"do not repeat it; {_SHOWS} what is there"
    if done is False:
        return f"the answer could not be written: {error.strerror}", "nothing was committed"
    told = f"what it has to say could not be written: {error.strerror}"
    return told, f"{_SHOWS} what was done; repeat it only if they do not show it"


def _by_system(error: OSError) -> tuple[str, str]:
    """What the system said no to, and the next step; of a name no more than a person reads."""
    from cn.system.closed import blame
    from cn.system.limits import beyond_limit
    from cn.values.text import one_line

    if error.errno == errno.EAGAIN and not error.filename:
        from cn.cli.crowd import crowded_words

        return crowded_words()
    if error.errno == errno.ENOENT and not error.filename and not _is_anywhere():
        return "the current folder is not there any more", "'cd' to one that is there, then run it again"
    if limited := beyond_limit(error):
        return one_line(limited[0], 800), f"nothing is lost; {limited[1]}"
    if blamed := blame(error):
        return one_line(blamed[0], 800), f"nothing is lost; {blamed[1]}, then run it again"
    where = f"{one_line(str(error.filename), 200)}: " if error.filename else ""
    too_long = error.errno == errno.ENAMETOOLONG
    hint = "give a shorter name" if too_long else "nothing is lost; run it again when this is mended"
    if error.errno == errno.EMFILE:
        hint = "raise the limit ('ulimit -n' shows it in a shell), then run it again; nothing is lost"
    return f"{where}{error.strerror or error}", hint


def _is_anywhere() -> bool:
    """Is there a current folder? One that was removed meanwhile has no name (getcwd(3))."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _end_by_sigpipe() -> NoReturn:
    """Whoever read our output has left: end as the other tools do, which the signal would end.

    Not by the signal itself: it would also end a run whose git has died.
    """
    lead_nowhere(sys.stdout.fileno())
    sys.exit(EXIT_PIPE)


class _Terminated(SystemExit):
    """SIGTERM came; ``code`` is the exit code."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends the run at once, with 128 + 15; the next run recovers."""
    raise _Terminated(128 + number)


_A_MOMENT = 0.05
"""Seconds."""


def _raise_again(ignored: sys.UnraisableHookArgs) -> None:
    """A signal that came where Python ignores what is raised, as while it forks (os.register_at_fork), comes again."""
    if isinstance(ignored.exc_value, (_Terminated, KeyboardInterrupt)):
        from threading import Timer  # what is raised in here is ignored, too: it has to come a moment later

        number = signal.SIGTERM if isinstance(ignored.exc_value, _Terminated) else signal.SIGINT
        again = Timer(_A_MOMENT, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(ignored)


def _tell_signal(word: str) -> tuple[str, str]:
    """What a signal has ended, and what to do. Another one must not cut off the answer."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if "cn.run.run" not in sys.modules:
        return word, "no run had begun; run it again"
    from cn.run.interrupted import told_after_signal

    return told_after_signal(word)


def _without_typed_secrets(text: str) -> str:
    """What an error says, without a secret that somebody typed: what is shown is kept in many places."""
    try:
        from cn.secrets.scanner import mask_typed

        return mask_typed(text, sys.argv[1:])
    except ImportError:  # a signal came while the search was being imported: nothing that was typed is said
        return reduce(lambda told, word: told.replace(word, "***") if len(word) > 3 else told, sys.argv[1:], text)


def _tell_before(env: Env, error: CnError) -> None:
    """What the run had told itself when the error ended it; as JSON too, where facts were asked for so."""
    if error.report is not None:
        from cn.values.report import Report

        if isinstance(error.report, Report) and error.report.notes:
            env.tell(error.report)


def _report_error(text: str, hint: str, code: int) -> NoReturn:
    from cn.cli.render.report import show_error

    with suppress(NotShown):  # standard error may be what is full
        show_error(_without_typed_secrets(text), _without_typed_secrets(hint))
    sys.exit(code)
