"""``cn adhoc``, ``cn daily`` … ``cn yearly``, ``cn mca``: people open, write and close threads of our own."""

from __future__ import annotations

from datetime import datetime

from cn.actions.decide import decide_now
from cn.actions.drafts import Commit, say_now_or_later, telling_what_waits
from cn.agent.plan.reflections import TITLES
from cn.agent.queue import enqueue_own
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol import own_thread
from cn.protocol.draft import Draft
from cn.protocol.effects import Log, Plan, Put
from cn.protocol.log import Row
from cn.protocol.ops import Ack, Done
from cn.protocol.queue_item import Cadence, period, reflection_path
from cn.run.executor import Executor
from cn.run.find_thread import NoThread, find_pending
from cn.run.run import Run, open_run, run_once
from cn.run.secret_gate import check_plan, check_texts
from cn.run.settings import read_head_settings
from cn.run.snapshot import Snapshot
from cn.run.view import open_view
from cn.secrets.scanner import text_of
from cn.system.clock import now
from cn.threads.store import OwnDocument, done_concerns, own_paths, pick_own, read_document
from cn.values.errors import Refused, UsageError
from cn.values.names import HubPath
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import is_text, one_line


def open_adhoc(hub: Hub, title: str, body: str = "", *, dry_run: bool = False) -> Report:
    """Open an adhoc thread; in a hub with a queue it waits for the agent at once."""
    _check("title", title, body)
    return say_now_or_later(hub, _draft(hub, "adhoc", title, body), _adhoc, dry_run=dry_run)


def _draft(hub: Hub, act: str, title: str, body: str) -> Draft:
    """What is opened for this hub itself."""
    return Draft(act, read_head_settings(hub)[1].us, title, "", now(), body.replace("\r\n", "\n").encode())


def _adhoc(run: Run, draft: Draft, commit: Commit) -> None:
    title, at = draft.message, draft.written

    def plan(executor: Executor) -> str | None:
        taken = frozenset(map(str, own_paths(executor.snapshot, executor.hub)))
        path = own_thread.adhoc_path(title, at, taken)
        own = own_thread.new_own(path, title, at, run.settings.us, draft.body.decode())
        if run.settings.config.interface != "queue":
            return _open(executor, own, title, "opened", "✓ written")
        subject = _open(executor, own, title, "opened", "queued for the agent", "; it waits for the agent")
        enqueue_own(executor, own)
        return subject

    commit(plan)


def _check(what: str, text: str, body: str = "") -> None:
    if not is_text(text + body):
        raise UsageError(f"the {what} or its text holds bytes that are not UTF-8", "write them as UTF-8")
    if not one_line(text):
        raise UsageError(f"the {what} is empty", "say in a few words what it is about")


def _open(executor: Executor, own: own_thread.Own, title: str, words: str, executed: str, more: str = "") -> str:
    """Put a new thread into main, log it, and tell it with ``more``; the subject of the commit."""
    row = Row(executor.now, own.source, words, executed, own.path, outcome="opened")
    plan = Plan(own.source, (Put(own.path, own_thread.format_own(own)), Log(row)))
    given = [text_of("the title", title), text_of("the text", own.body)]
    # What was given first: the document's name is made of its title, and is not told with a secret in it.
    refusal = check_texts(given, executor.settings) or check_plan(plan, executor.settings, given=given)
    if refusal is not None:
        raise Refused.by(refusal)
    executor.perform(plan)
    executor.notes.done(f"opened {own.path}{more}", source=own.source)
    return f"cn: open {own.source}"


def reflect(hub: Hub, cadence: Cadence, *, dry_run: bool = False) -> tuple[OwnDocument | None, Report]:
    """The reflection of the current period, opened if it is not there, and what the run said. Nothing is queued.

    None: a dry run would open it.
    """
    path = reflection_path(cadence, period(cadence, now()))
    if (found := read_document(open_view(hub), path)) is not None:
        return found, Report()

    def plan(run: Run, executor: Executor) -> str | None:
        if executor.read(path) is not None:
            return None  # another clone was first
        name = path.rpartition("/")[2].removesuffix(".md")
        shown = f"{name[:4]}-{name[4:6]}-{name[6:]}" if cadence is Cadence.DAILY else name
        title = f"{TITLES[cadence]} {shown}"
        own = own_thread.new_own(path, title, executor.now, run.settings.us)
        return _open(executor, own, title, "opened", "✓ written")

    with telling_what_waits("nothing was opened"):
        report = run_once(hub, plan, dry_run=dry_run)
    return read_document(open_view(hub), path), report


def add_concern(hub: Hub, description: str, body: str = "", *, dry_run: bool = False) -> Report:
    """Open a managed concern."""
    _check("description", description, body)
    return say_now_or_later(hub, _draft(hub, "mca", description, body), _mca, dry_run=dry_run)


def _mca(run: Run, draft: Draft, commit: Commit) -> None:
    description, at, us = draft.message, draft.written, run.settings.us

    def plan(executor: Executor) -> str | None:
        path = _free_concern(executor, one_line(description, 300), at, us)
        own = own_thread.new_own(path, description, at, us, draft.body.decode(), Source=us)
        return _open(executor, own, description, f"surface:{one_line(description, 120)}", "✓ opened")

    commit(plan)


OPENS = {"adhoc": _adhoc, "mca": _mca}
"""What carries out a draft that begins a thread of our own, by its act."""


def _free_concern(executor: Executor, description: str, at: datetime, salt: str) -> HubPath:
    """One that is open already is refused; one that was done that day may be opened again."""
    path = own_thread.concern_path(description, at, salt)
    if executor.read(own_thread.done_concern_path(path)) is not None:
        return _free_concern(executor, description, at, f"{salt}+")
    if executor.read(path) is not None:
        raise Refused(f"{path} is open already", "write into that one, or end it with 'cn mca done'")
    return path


def end_concern(hub: Hub, id: str, *, dry_run: bool = False) -> Report:
    """File a concern away as done, by its name or an unambiguous beginning of it."""
    with telling_what_waits(), open_run(hub, dry_run=dry_run) as run:
        snapshot = run.snapshot
        open_ones = [path for path in own_paths(snapshot, run.hub) if path.startswith(f"{own_thread.CONCERNS}/")]
        found = [path for path in open_ones if own_thread.is_named(path, id)]
        found = found or [path for path in open_ones if id and path.startswith(f"{own_thread.CONCERNS}/{id}")]
        if len(found) > 1:
            names = ", ".join(path.removeprefix(f"{own_thread.CONCERNS}/") for path in found)
            raise Refused(f"{one_line(id, 80)!r} begins {len(found)} concerns: {names}", "write more of the name")
        if not found:
            if _is_done(snapshot, id):
                raise Refused(f"{one_line(id, 80)} is done already", "'cn mca' lists the open ones")
            raise Refused(f"no open concern {one_line(id, 80)!r}", "'cn mca' lists them")
        decide_now(run, found[0], Done)
        deliver(run)
    return run.report


def _is_done(snapshot: Snapshot, name: str) -> bool:
    return any(own_thread.is_named(path, name) for path in done_concerns(snapshot))


def close_thread(hub: Hub, name: str, reason: str = "", *, dry_run: bool = False) -> Report:
    """Close a thread of our own; a peer's is refused, for its creator must be told something."""
    with telling_what_waits(), open_run(hub, dry_run=dry_run) as run:
        snapshot = run.snapshot
        path = pick_own(snapshot, own_paths(snapshot, run.hub), name)
        if path is None:
            try:
                peer, item = find_pending(snapshot, name)
            except NoThread:
                shown = one_line(name, 80)
                what = f"{shown} is done already" if _is_done(snapshot, name) else f"no open thread {shown!r}"
                near = [p for p in own_paths(snapshot, run.hub) if p.removesuffix(".md").endswith(f"-{name}")]
                meant = command("cn thread close {}", own_thread.own_source(near[0]).partition("/")[2]) if near else ""
                hint = f"{meant} closes the one that is called so" if meant else "'cn thread list' lists them"
                raise Refused(what, hint) from None
            what = f"{peer}/{one_line(item.topic, 80)} is a peer's, who waits for an answer"
            raise Refused(what, command("cn done {}", item.get("thread").removesuffix(".md")))
        op = Done if path.startswith(f"{own_thread.CONCERNS}/") else lambda id: Ack(id, one_line(reason))
        decide_now(run, path, op)
        deliver(run)
    return run.report
