"""``cn agency …``: begin, look, do what is due, explain access, the log, copies."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cn.cli.commands.agency_agents import agent_lines, said_command, seen_agents, stop_command
from cn.cli.desk import Desk, desk
from cn.cli.known_here import warn_of_unknown
from cn.cli.options import DRY_RUN, REQUEST, SINCE, Env, body_options, not_empty, options
from cn.cli.suggest import AS, complete_handler, complete_outcome
from cn.values.errors import EXIT_REFUSED

if TYPE_CHECKING:  # each command imports what it calls
    from cn.agency.events import Event
    from cn.agency.names import Resource
    from cn.agency.plan.access import Reason
    from cn.agency.plan.shown import Shown
    from cn.agency.rows import Facts, Handler
    from cn.agency.store.repository import Places

_ROOT_TITLE = "Help the user accomplish all their work"
_COUNT = 50
_NAMED = 5


@click.group("agency")
def agency() -> None:
    """Agency: outcomes, the handlers responsible for them, what each may do; recorded in git."""


@agency.command("init")
@click.argument("title", default=_ROOT_TITLE)
@body_options("More about the root outcome.")
@click.option(
    "--runner",
    default="",
    callback=not_empty,
    help="What works for the root handler: 'person', or one of this machine.",
)
@options(REQUEST, DRY_RUN)
def init_command(env: Env, title: str, body: str, runner: str) -> None:
    """Begin: a root outcome with TITLE, which is never completed, and its handler, whose boss you are.

    The records are in .git/cn of this clone, where no peer can read them.
    """
    from cn.agency.agency import person_of, places_of
    from cn.agency.operations import FoundAgency
    from cn.agency.perform import Asked, found
    from cn.agency.store.copies import refuse_second_home, refuse_unfinished
    from cn.cli.desk import show_done

    hub = env.hub()
    places = places_of(hub)
    operation = FoundAgency(title, body, runner)
    if env.request_id and places.repository.exists():
        with desk(env) as opened:  # by this request, maybe
            opened.do(operation)
        return
    if not places.repository.exists():
        refuse_unfinished(places)
        refuse_second_home(hub)
    if env.dry_run:
        _plan_new(env, places, f"begin Agency in {places.repository}: {title}")
        return
    store, answer = found(places, hub.identity, Asked(operation, person_of(hub), env.request_id))
    env.did = True
    store.close()
    show_done(env, [answer], [], None)
    warn_of_unknown(env, hub, runner)


def _plan_new(env: Env, places: Places, text: str) -> None:
    """A dry run of what makes the records."""
    from cn.agency.store.repository import open_records
    from cn.values.errors import Refused
    from cn.values.report import Report

    if open_records(places, env.hub().identity):
        raise Refused(f"{places.repository} is there already", "'cn agency status' shows what it holds")
    report = Report()
    report.plan(text)
    env.show(report)


agency.add_command(said_command)
agency.add_command(stop_command)


@agency.command("status")
@options()
def status_command(env: Env) -> None:
    """One screen: what there is, what waits for you, and the copy."""
    from cn.agency.plan.views import read_inbox
    from cn.agency.server_seen import see_server
    from cn.agency.store.copies import copy_url, lag
    from cn.agency.store.look import sums
    from cn.cli.commands.agency_mail import inbox_lines
    from cn.values.errors import Refusal
    from cn.values.text import redact

    with desk(env) as opened:
        counted = sums(opened.facts, opened.now)
        url = copy_url(opened.agency.hub)
        behind = lag(opened.agency.store.repository, url) if url and not isinstance(url, Refusal) else None
        mail: Any = read_inbox(opened.agency.me, opened.principal, opened.facts)
        head = opened.facts.head()
        top = opened.facts.handler(head.root) if head else None
        seen = see_server(opened.agency.hub.state)
        value = counted._asdict() | {
            "root": head.root if head else None,
            "ahead": max(0, int((head.time - opened.now).total_seconds())) if head else 0,
            "user": opened.agency.me,
            "boss": top.boss if top else opened.agency.me,
            "mail": mail["mail"],
            "copy": {"url": redact(str(url)), "behind": behind.writes} if behind else None,
            "server": seen._asdict(),
            **seen_agents(opened, {*seen.problems}),
        }
        env.facts(value, lambda: [*_status_lines(opened, value, url), *inbox_lines(opened, mail)])


def _status_lines(opened: Desk, value: dict[str, Any], url: object) -> list[str]:
    from cn.agency.store.copy_notes import copy_answered, copy_failure
    from cn.cli.render.agency import heading, name
    from cn.cli.render.text import wrap
    from cn.values.errors import Refusal
    from cn.values.shell_words import command
    from cn.values.text import counted, redact

    lines = [heading(name(value["root"], opened.shown))]
    if value["boss"] != value["user"]:
        hand_over = command("cn handler move root {}", value["user"])
        lines += wrap("", f"the root handler's mail goes to {value['boss']}; {hand_over} makes that you")
    lines.append(f"outcomes: {value['outcomes']:,} open, {value['workable']:,} workable, {value['blocked']:,} blocked")
    lines.append(f"handlers: {value['handlers']:,}; agents: {value['agents']:,}; files: {value['files']:,}")
    lines.append(f"mail: {value['pending']:,} pending, {value['deferred']:,} deferred; events: {value['events']:,}")
    if days := value["ahead"] // 86400:
        lines.append(f"clock: the records are {counted(days, 'day')} ahead of it; 'cn doctor' says since when")
    lines += [one.told for one in opened.agency.misread]
    lines += agent_lines(opened, value)
    if isinstance(url, Refusal):
        lines.append(f"copy: {url.reason}")
    elif value["copy"]:
        left = value["copy"]["behind"]
        places = opened.agency.store.repository.places
        last = copy_answered(places, str(url))
        heard = f", answered {last:%Y-%m-%d %H:%M} UTC" if last else ", not asked yet"
        behind = f", {counted(left, 'write')} behind" if left else ""
        lines.append(f"copy: {redact(str(url))}{behind}{heard}")
        if failed := copy_failure(places, str(url)):
            lines.append(f"  {failed.reason}; {failed.remedy}")
    else:
        lines.append("copy: none; 'git config agency.remote URL' names a private repository for one")
    return [*lines, *_server_lines(value["server"], opened.shown), f"your inbox ({value['user']}):"]


def _server_lines(server: dict[str, Any], shown: Shown) -> list[str]:
    from cn.cli.render.agency import name
    from cn.cli.render.text import clean, wrap

    if not server["pid"]:
        return ["server: none runs; 'cn agency serve' starts agents and delivers what is due"]
    away = f", not reached at {server['unreached']}" if server["unreached"] else ""
    does = "is ending" if server["ending"] else "runs"
    lines = [f"server: {does} (pid {server['pid']}){away}"]
    for id, why in server["problems"].items():
        lines += wrap("  ", f"no agent for {name(id, shown)}: {clean(why)}")
    for id, why in server["faults"].items():
        lines += wrap("  ", f"something went wrong with {name(id, shown)}: {clean(why)}")
    for other, why in server["away"].items():
        lines += wrap(
            "  ", f"{clean(other)}: {clean(why)}; look at [servers.{clean(other)}] and its secret in agency.toml"
        )
    for other, why in server["left_out"].items():
        lines += wrap("  ", f"{clean(other)}: tools that agents call by mcp_call alone: {clean(why)}")
    return lines


@agency.command("tick")
@options(DRY_RUN)
def tick_command(env: Env) -> None:
    """Do what is due: deliver deferred mail, pack the records, push the copy. For cron, where no server runs."""
    from cn.agency.agency import open_agency
    from cn.agency.plan.shown import Shown
    from cn.agency.tick import tick
    from cn.cli.desk import show_done
    from cn.values.errors import Refused
    from cn.values.text import redact

    opened = open_agency(env.hub())
    try:
        ticked = tick(opened, dry_run=env.dry_run)
        pushed = [f"the copy at {redact(ticked.pushed)} has all of it"] if ticked.pushed and env.verbose else []
        with opened.store.reading() as facts:
            show_done(env, ticked.done, [*ticked.told, *pushed], Shown(opened.person, facts))
    finally:
        opened.store.close()
    if ticked.refused:
        raise Refused.by(ticked.refused)


@agency.command("serve")
@click.option("--port", type=click.IntRange(min=0, max=65535), default=0, help="The port on this machine's loopback.")
@click.option("--no-agents", is_flag=True, help="Start no agents; those that live are served.")
@options()
def serve_command(env: Env, port: int, *, no_agents: bool) -> None:
    """Serve Agency's tools to agents, start agents, do what is due, and push the copy, until SIGTERM.

    Other servers, secrets and runners are defined in agency.toml of this machine.
    """
    from cn.agency.agency import open_agency
    from cn.system.extras import require_agency

    require_agency()
    from cn.agency.agency import check_limits
    from cn.agents.machine import machine_path, read_machine
    from cn.agents.place import place_of
    from cn.agents.repositories import Mirrors
    from cn.git.process import Git
    from cn.server.far_work import FarWork
    from cn.server.machine_tools import read_settings, settings_path
    from cn.server.places import places_of
    from cn.server.serve import Plan, serve
    from cn.server.spawning import machine_spawner, no_spawner
    from cn.server.tools import base_tools
    from cn.server.tools.repositories import repository_tools

    hub = env.hub()
    told = hub.config.last("cn.agency") or ""
    settings = read_settings(settings_path(told))
    if port:
        settings = replace(settings, port=port)
    spawner = no_spawner if no_agents else machine_spawner(told)
    opened = open_agency(hub)
    check_limits(opened)
    place = place_of(opened)
    machine = read_machine(machine_path(told))
    mirrors = Mirrors(place.folders.base / "mirrors", machine.repos, Git(hub.root))
    far = FarWork()
    tools = (*base_tools(machine), *repository_tools(place, mirrors, far))
    sys.exit(serve(opened, places_of(hub), Plan(settings, tools, spawner, far)))


@agency.command("can")
@click.argument("handler", shell_complete=complete_handler)
@click.argument("level")
@click.argument("resource")
@options(AS)
def can_command(env: Env, handler: str, level: str, resource: str, acting: str) -> None:
    """Explain link by link whether HANDLER may do LEVEL on RESOURCE: write kb:1a2b, send mail:root, use mcp:NAME.

    Ends with 0 if it may, else with 1. With --as, of that handler and those below it, with titles of what it may read.
    """
    from cn.agency.names import rank
    from cn.agency.operations import ByHandler
    from cn.agency.plan.access import canonical, why

    with desk(env, acting) as opened:
        facts = opened.facts
        id, about = opened.handler(handler), canonical(opened.resource(resource), facts)
        wanted = rank(about, level)
        row = facts.handler(id)
        assert row is not None, "it was just found"
        opened.check_above(id)
        explained = why(ByHandler(id, row.tenure, ""), about, facts)
        reasons = tuple(_seen(opened, one) for one in (*explained.reasons, *_of_the_past(row, about, facts)))
        yes = rank(about, explained.level) >= wanted
        value = {"can": yes, "level": explained.level, "resource": str(about), "handler": id}
        value["reasons"] = [_reason(reason) for reason in reasons]
        env.facts(value, lambda: _can_lines(opened, value, level, reasons, wanted))
    if not yes:
        sys.exit(EXIT_REFUSED)


def _of_the_past(row: Handler, resource: Resource, facts: Facts) -> list[Reason]:
    """What it was granted in tenures that are over: whoever asks may remember that."""
    from cn.agency.names import rank
    from cn.agency.plan.access import Reason, granted

    grants = (one for past in range(1, row.tenure) for one in granted(row.id, past, str(resource), facts))
    over = "granted by {}, in tenure {}, which is over"
    return [
        Reason(rank(resource, one.level), False, over.format(one.grantor, one.holder_tenure), one) for one in grants
    ]


def _seen(opened: Desk, reason: Reason) -> Reason:
    """As far as who acts may see it: what a capability stands on is its grantor's, and seen by those above that one."""
    from cn.agency.names import Uuid, is_user

    grant = reason.grant
    seen = grant is None or is_user(grant.grantor) or opened.shown.is_above(Uuid(grant.grantor))
    return reason._replace(because=tuple(_seen(opened, one) for one in reason.because) if seen else ())


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "holds": reason.holds,
        "text": reason.text,
        "grant": reason.grant.id if reason.grant else None,
        "because": [_reason(one) for one in reason.because],
    }


def _can_lines(opened: Desk, value: dict[str, Any], level: str, reasons: tuple[Reason, ...], wanted: int) -> list[str]:
    from cn.cli.render.agency import Branch, tree_lines

    def branch(reason: Reason) -> Branch:
        grant = reason.grant
        what = f"{grant.level} by capability {grant.id[:8]}: " if grant else ""
        mark = "" if not reason.holds else "" if reason.level >= wanted else ", which is less"
        text = f"{'yes' if reason.holds else 'no'}: {what}{_with_titles(opened, reason.text)}{mark}"
        below = [branch(one) for one in reason.because]
        return Branch(text, below, "green" if reason.holds else "yellow", whole=True)

    kind, _, of = value["resource"].partition(":")
    answer = "yes" if value["can"] else f"no, it has {value['level']}"
    title = f"{_name(opened, value['handler'])}: {level} on {kind}:{_name(opened, of)}? {answer}"
    nothing = [Branch("no: nothing follows from where it stands, and nothing was granted")]
    return tree_lines([Branch(title, [branch(one) for one in reasons] or nothing, whole=True)])


def _with_titles(opened: Desk, text: str) -> str:
    from cn.agency.names import is_uuid

    words = ((word, word.rstrip(",;")) for word in text.split(" "))
    return " ".join(_name(opened, bare) + word[len(bare) :] if is_uuid(bare) else word for word, bare in words)


def _name(opened: Desk, id: str) -> str:
    """With its title where who acts may read it."""
    from cn.agency.names import is_uuid
    from cn.cli.render.agency import name

    return name(id, opened.shown if is_uuid(id) and opened.shown.may_read(id) else None)


@agency.command("log")
@SINCE
@click.option(
    "--about",
    default="",
    callback=not_empty,
    metavar="UUID",
    shell_complete=complete_outcome,
    help="Only what names this.",
)
@click.option(
    "--by", default="", metavar="WHO", shell_complete=complete_handler, help="Only by this handler, or user:NAME."
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type: outcome_created.")
@click.option("-n", "--count", type=click.IntRange(min=1), help=f"The last so many; {_COUNT} unless --since is given.")
@options(AS)
def log_command(
    env: Env, since: str, about: str, by: str, types: tuple[str, ...], count: int | None, acting: str
) -> None:
    """What happened, who did it, and for whom, oldest first; for a handler what it may read of that."""
    from cn.agency.events import TYPES
    from cn.agency.store.look import last_events
    from cn.values.errors import UsageError
    from cn.values.timestamps import parse_since

    if unknown := [one for one in types if one not in TYPES]:
        raise UsageError(f"there is no type {unknown[0][:40]!r}", f"types: {', '.join(TYPES)}")
    with desk(env, acting) as opened:
        start = parse_since(since, opened.now) if since else None
        who = str(opened.party(by)) if by else ""
        subject = opened.subject(about) if about else ""
        shown = opened.shown

        def fits(event: Event) -> bool:
            late = start is None or event.time >= start
            by_them = not who or event.actor == who or event.actor.startswith(f"{who}/")
            return late and by_them and (not types or _type(event) in types) and shown.sees(event)

        few = count is None and start is None
        events = last_events(opened.facts, fits, _COUNT + 1 if few else count, subject)
        more = few and len(events) > _COUNT
        events = events[-_COUNT:] if few else events
        env.page([_event(one) for one in events], lambda: _log_lines(opened, events), opened.agency.hub)
    if more and not env.quiet:
        click.echo(
            f"· these are the last {_COUNT}, and there are more before: -n N or --since WHEN shows them", err=True
        )


def _type(event: Event) -> str:
    from cn.agency.events import type_of

    return type_of(event.change)


def _event(event: Event) -> dict[str, Any]:
    import json

    from cn.agency.events import format_event

    found: dict[str, Any] = json.loads(format_event(event))
    return found


def _log_lines(opened: Desk, events: list[Event]) -> list[str]:
    from cn.agency.events import AgentEnded
    from cn.cli.render.agency import event_cells
    from cn.cli.render.text import grid

    shown = opened.shown
    rows = [event_cells(event, shown) for event in events]
    lines = [line for one in grid(rows, 1, [""] * len(rows)) for line in one]
    if any(isinstance(event.change, AgentEnded) for event in events):
        lines.append("· 'cn agency said AGENT' shows what an agent said last, and where all of it is")
    return lines or ["nothing that fits"]


@agency.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@options(AS, DRY_RUN)
def export_command(env: Env, folder: Path, acting: str) -> None:
    """Write everything that you may read as plain files into FOLDER, which is new or empty.

    Outcomes, files with their older versions, mail, handlers with what each was granted, and the log: Markdown, and
    the log as JSON too.
    """
    from cn.agency.export import export
    from cn.cli.render.agency import event_cells
    from cn.values.errors import Refused
    from cn.values.report import Report
    from cn.values.text import counted

    with desk(env, acting) as opened:
        written = export(opened.agency, opened.principal, folder, event_cells, dry_run=env.dry_run)
    if env.json:
        env.facts({"folder": str(folder), "files": written.paths, "left_out": written.left_out}, list)
    else:
        report = Report()
        if env.dry_run:
            report.plan(f"write {counted(len(written.paths), 'file')} into {folder}")
        else:
            report.done(f"{counted(len(written.paths), 'file')} now in {folder}")
        env.show(report)
    if written.left_out:
        named = [f"{path}: {why}" for path, why in [*written.left_out.items()][:_NAMED]]
        more = f"; {folder}/README.md names all" if len(written.left_out) > _NAMED else ""
        what = f"{counted(len(written.left_out), 'file')} left out: {'; '.join(named)}{more}"
        raise Refused(what, "'cn doctor --full' tells how to mend it; then export into a new folder")


def _where_else(places: Places) -> str:
    """Where writes may be that the copy lacks: in what was put aside here last, else on another machine."""
    from cn.values.text import visible

    beside = [*places.state.glob(f"{places.repository.name}.aside*")]
    last = max(beside, key=lambda one: one.lstat().st_ctime, default=None)
    if last is None:
        return "on the old machine alone; it must write no more"
    return f"in {visible(str(last))}, which was put aside, or on another machine, which must write no more"


@agency.command("restore")
@click.argument("url")
@options(DRY_RUN)
def restore_command(env: Env, url: str) -> None:
    """Make this clone the home of Agency, from its copy at URL, when the old machine is gone.

    What happened after the copy was made is not in it; agents that the old machine had are ended.
    """
    from cn.agency.agency import person_of, places_of
    from cn.agency.restore import restore_home
    from cn.agency.store.copies import copy_from, rehearse_restore
    from cn.values.report import Report
    from cn.values.shell_words import command
    from cn.values.text import counted

    hub = env.hub()
    url = copy_from(hub.config.url(url, push=False), Path.cwd())
    if env.dry_run:
        rehearse_restore(places_of(hub), hub.identity, url, hub.git)
        report = Report()
        report.plan(f"make this clone the home of Agency, from {url}, with all that is written there")
        env.show(report)
        return
    person = person_of(hub)
    restored = restore_home(hub, places_of(hub), person, url)
    env.did = True
    report = Report()
    report.done(f"{counted(restored.events, 'event')} taken over; the last is of {restored.last:%Y-%m-%d %H:%M} UTC")
    report.info(f"what happened after that is {_where_else(places_of(hub))}")
    if restored.ended:
        report.info(f"{counted(restored.ended, 'agent')} of the old machine ended")
    if restored.boss != f"user:{person.name}":
        be = command("git config agency.user {}", restored.boss.removeprefix("user:"))
        take = command("cn handler move root {}", f"user:{person.name}")
        where = f"the root handler's mail goes to {restored.boss}"
        report.info(f"you are user:{person.name} here, and {where}: {be} makes you that user, {take} hands it to you")
    if not hub.config.last("agency.remote"):
        again = command("git config agency.remote {}", url)
        report.info(f"this clone writes no copy yet: {again}, or another private repository")
    env.show(report)
