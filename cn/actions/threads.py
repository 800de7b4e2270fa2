"""``cn adhoc``, ``cn daily`` … ``cn yearly``, ``cn mca``: people open, write and close threads of our own."""

from __future__ import annotations

from dataclasses import dataclass

from cn.actions.decide import decide_now
from cn.agent.plan.reflections import TITLES
from cn.agent.reflections import enqueue_own
from cn.git.repository import Hub
from cn.inbox.triage import NoThread, find_pending
from cn.outbox.deliver import deliver
from cn.protocol.cadence import Cadence, period, reflection_path
from cn.protocol.effects import Log, Plan, Put
from cn.protocol.log import Row
from cn.protocol.ops import Ack, Done, Op
from cn.protocol.own_thread import (
    CONCERNS,
    Own,
    adhoc_path,
    concern_path,
    done_concern_path,
    format_own,
    is_named,
    new_own,
)
from cn.run.executor import Executor
from cn.run.run import open_run
from cn.run.secret_gate import check_plan, check_texts
from cn.run.view import open_view
from cn.secrets.findings import text_of
from cn.system.clock import now
from cn.threads.read import OwnDocument, read_document
from cn.threads.store import done_concerns, own_paths, pick_own
from cn.values.errors import Refused, UsageError
from cn.values.names import HubPath
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import is_text, one_line


def open_adhoc(hub: Hub, title: str, body: str = "", *, dry_run: bool = False) -> Report:
    """Open an adhoc thread; in a hub with a queue it waits for the agent at once."""
    _check("title", title, body)
    report = Report()
    with open_run(hub, report, dry_run=dry_run) as run:

        def plan(executor: Executor) -> str | None:
            taken = frozenset(map(str, own_paths(executor.snapshot, executor.hub)))
            path = adhoc_path(title, executor.now, taken)
            own = new_own(path, title, executor.now, run.settings.us, body.replace("\r\n", "\n"))
            queued = run.settings.config.interface == "queue"
            _open(executor, own, title, "opened", "queued for the agent" if queued else "✓ written")
            if queued:
                enqueue_own(executor, own)
            if not run.dry_run:
                executor.notes.done(
                    f"opened {path}" + ("; it waits for the agent" if queued else ""), source=own.source
                )
            return f"cn: open {own.source}"

        run.commit(plan)
    return report


def _check(what: str, text: str, body: str = "") -> None:
    if not is_text(text + body):
        raise UsageError(f"the {what} or its text holds bytes that are not UTF-8", "write them as UTF-8")
    if not one_line(text):
        raise UsageError(f"the {what} is empty", "say in a few words what it is about")


def _open(executor: Executor, own: Own, title: str, words: str, executed: str) -> None:
    row = Row(executor.now, own.source, words, executed, own.path, outcome="opened")
    plan = Plan(own.source, (Put(own.path, format_own(own)), Log(row)))
    given = [text_of("the title", title), text_of("the text", own.body)]
    # What was given first: the document's name is made of its title, and is not told with a secret in it.
    refusal = check_texts(given, executor.settings) or check_plan(plan, executor.settings, given=given)
    if refusal is not None:
        raise Refused.by(refusal)
    executor.perform(plan)


@dataclass(frozen=True)
class Reflection:
    """The reflection of the current period (None: a dry run that would open it), and what the run said."""

    document: OwnDocument | None
    report: Report


def reflect(hub: Hub, cadence: Cadence, *, dry_run: bool = False) -> Reflection:
    """The reflection of the current period, opened if it is not there. Nothing is queued."""
    report = Report()
    path = reflection_path(cadence, period(cadence, now()))
    if (found := read_document(open_view(hub), path)) is not None:
        return Reflection(found, report)
    _begin(hub, cadence, path, report, dry_run=dry_run)
    return Reflection(read_document(open_view(hub), path), report)


def _begin(hub: Hub, cadence: Cadence, path: HubPath, report: Report, *, dry_run: bool) -> None:
    with open_run(hub, report, dry_run=dry_run) as run:

        def plan(executor: Executor) -> str | None:
            if executor.read(path) is not None:
                return None  # another clone was first
            name = path.rpartition("/")[2].removesuffix(".md")
            title = f"{TITLES[cadence]} {_shown(cadence, name)}"
            own = new_own(path, title, executor.now, run.settings.us)
            _open(executor, own, title, "opened", "✓ written")
            if not run.dry_run:
                executor.notes.done(f"opened {path}", source=own.source)
            return f"cn: open {own.source}"

        run.commit(plan)


def _shown(cadence: Cadence, name: str) -> str:
    """The period for a title: a day is written with dashes."""
    return f"{name[:4]}-{name[4:6]}-{name[6:]}" if cadence is Cadence.DAILY else name


def add_concern(hub: Hub, description: str, body: str = "", *, dry_run: bool = False) -> Report:
    """Open a managed concern."""
    _check("description", description, body)
    report = Report()
    with open_run(hub, report, dry_run=dry_run) as run:
        us = run.settings.us

        def plan(executor: Executor) -> str | None:
            path = _free_concern(executor, one_line(description, 300), us)
            own = new_own(path, description, executor.now, us, body.replace("\r\n", "\n"), Source=us)
            _open(executor, own, description, f"surface:{one_line(description, 120)}", "✓ opened")
            if not run.dry_run:
                executor.notes.done(f"opened {path}", source=own.source)
            return f"cn: open {own.source}"

        run.commit(plan)
    return report


def _free_concern(executor: Executor, description: str, actor: str) -> HubPath:
    """One that is open already is refused; one that was done today may be opened again."""
    salt = actor
    path = concern_path(description, executor.now, salt)
    while executor.read(done_concern_path(path)) is not None:
        salt += "+"
        path = concern_path(description, executor.now, salt)
    if executor.read(path) is not None:
        raise Refused(f"{path} is open already", "write into that one, or end it with 'cn mca done'")
    return path


def end_concern(hub: Hub, id: str, *, dry_run: bool = False) -> Report:
    """File a concern away as done, by its name or an unambiguous beginning of it."""
    report = Report()
    with open_run(hub, report, dry_run=dry_run) as run:
        snapshot = run.snapshot()
        open_ones = [path for path in own_paths(snapshot, run.hub) if path.startswith(f"{CONCERNS}/")]
        found = [path for path in open_ones if is_named(path, id)]
        found = found or [path for path in open_ones if id and path.startswith(f"{CONCERNS}/{id}")]
        if len(found) > 1:
            names = ", ".join(path.removeprefix(f"{CONCERNS}/") for path in found)
            raise Refused(f"{one_line(id, 80)!r} begins {len(found)} concerns: {names}", "write more of the name")
        if not found:
            if any(is_named(path, id) for path in done_concerns(snapshot)):
                raise Refused(f"{one_line(id, 80)} is done already", "'cn mca' lists the open ones")
            raise Refused(f"no open concern {one_line(id, 80)!r}", "'cn mca' lists them")
        decide_now(run, found[0], Done)
        deliver(run)
    return report


def close_thread(hub: Hub, name: str, reason: str = "", *, dry_run: bool = False) -> Report:
    """Close a thread of our own; a peer's is refused, for its creator must be told something."""
    report = Report()
    with open_run(hub, report, dry_run=dry_run) as run:
        snapshot = run.snapshot()
        path = pick_own(snapshot, own_paths(snapshot, run.hub), name)
        if path is None:
            try:
                peer, item = find_pending(snapshot, name)
            except NoThread:
                gone = any(is_named(path, name) for path in done_concerns(snapshot))
                what = f"{one_line(name, 80)} is done already" if gone else f"no open thread {one_line(name, 80)!r}"
                raise Refused(what, "'cn thread list' lists them") from None
            thread = item.get("thread").removesuffix(".md")
            raise Refused(
                f"{peer}/{one_line(item.topic, 80)} is a peer's, who waits for an answer", command("cn done {}", thread)
            )
        is_concern = path.startswith(f"{CONCERNS}/")

        def make(id: str) -> Op:
            return Done(id) if is_concern else Ack(id, one_line(reason))

        decide_now(run, path, make)
        deliver(run)
    return report
