"""Checks of the agent: its queue, what stays on this machine, the runtime, the daemon, texts for chats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from cn.agent.daemon_health import health_path, is_running, read_health
from cn.agent.plan.turns import source_of
from cn.doctor.finding import Finding, HubFacts, info, ok, problem
from cn.llm.config import AgentConfig, read_agent_config
from cn.llm.request import Failure
from cn.protocol.queue_item import INPUT, OUTPUT
from cn.protocol.states import Actor
from cn.run.view import GIVEN_AGAIN, View
from cn.runtime.daemon_files import read_dead
from cn.system.extras import ExtraMissing, require_runtime
from cn.transaction.base import find_pipes
from cn.transaction.push import clone_id
from cn.values.errors import ConfigError
from cn.values.names import HubPath
from cn.values.shell_words import command
from cn.values.text import one_line, visible
from cn.values.timestamps import format_age, format_stamp, stamp_or_none
from cn.views.queue import QueueView, read_queue

_SILENT = timedelta(minutes=5)
"""A daemon polls every minute at most; beyond this it is stuck, or cannot reach Telegram."""


def check_queue(facts: HubFacts) -> Iterator[Finding]:
    """The queue can be read, moves on, and nothing in it was given up."""
    if facts.settings is None:
        return
    config = facts.settings.config
    view = read_queue(View(facts.hub, facts.settings, facts.snapshot, facts.now, False, None))
    for path in view.damaged:
        remedy = f"{command('git rm -- {}', path)}, commit and push"
        yield problem(f"{path} cannot be read", "it was not written by cn", remedy)
    for item in view.dead:
        again = f", or {command('cn queue retry {}', item.id)}" if config.interface == "queue" else ""
        why = f"the agent used up its attempts, or a person cleared the queue ({item.id})"
        yield info(f"{source_of(item)} was given up: {item.reason}", why, f"decide the thread{again}")
    if config.interface != "queue" and (view.turn or view.waiting):
        yield info(
            f"{len(view.waiting) + (view.turn is not None)} items are left in the queue",
            "hub.yaml says 'interface: triage', so nothing is given to an agent",
            "decide their threads, and 'cn queue clear' takes out what waits; or set 'interface: queue'",
        )
    if config.interface == "queue" and view.left:
        why = "cn.agent is false in this clone's git config"
        yield info("the agent's items are left to other clones of this hub", why, GIVEN_AGAIN)
    yield from _stuck(facts, view)


def _stuck(facts: HubFacts, view: QueueView) -> Iterator[Finding]:
    if os.path.lexists(facts.hub.root / OUTPUT) and (view.turn is None or not view.here):
        why = "its item was decided another way, its branch moved, words came since, or another clone has it"
        yield info(f"{OUTPUT} answers nothing that is in flight here", why, "'cn inbox process' sets it aside")
    if view.actor is Actor.TIMED_OUT and view.turn is not None:
        yield problem(
            f"the agent has had {source_of(view.turn.input)} for too long",
            "nothing executed 'cn inbox process' or 'cn inbox sync' since its time was over",
            "does cron run? 'cn cron show', 'cn inbox sync'",
        )


def check_local(facts: HubFacts) -> Iterator[Finding]:
    """What stays on this machine is ignored by git, so that nobody commits it by accident."""
    if find_pipes(facts.hub):
        return  # told by the check of the place; git would wait for it
    local = facts.settings.config.local if facts.settings else ()
    paths = [INPUT, OUTPUT, HubPath("logs/cn.log"), *local]
    probes = [f"{path}/x.md" if path in local and not path.endswith(".json") else str(path) for path in paths]
    git = facts.hub.git.with_env(GIT_LITERAL_PATHSPECS="0")  # check-ignore knows no other
    done = git.run("check-ignore", "--no-index", "--stdin", "-z", stdin="\0".join(probes).encode(), check=False)
    ignored = set(done.fields)
    missing = [path for path, probe in zip(paths, probes, strict=True) if probe not in ignored]
    if missing:
        why = "they belong to this machine; 'git add -A' would take them along"
        yield info(f"git does not ignore {', '.join(missing)}", why, "add them to .gitignore and commit it")


def check_runtime(facts: HubFacts) -> Iterator[Finding]:
    """What ``agent.yaml`` warns of, and whether the runtime could work. That it parses is checked before."""
    try:
        config = read_agent_config(facts.snapshot.read)
    except ConfigError:
        return  # the check of the configuration tells file, line and remedy
    for warning in config.warnings:
        yield info(warning, "whoever can read the hub can read its history too")
    if config.telegram.enabled:
        if not config.telegram.allowed_users:
            what = "Telegram is configured, and nobody is allowed to talk to the agent"
            remedy = "list ids under telegram.allowed_users in .cn/agent.yaml"
            yield info(what, "every message is dropped and logged", remedy)
        yield from _missing(config, "telegram.", "'cn agent' cannot reach Telegram from here")
    if facts.settings is not None and facts.settings.config.interface == "queue":
        try:
            require_runtime()
        except ExtraMissing as why:
            yield info(why.text, "'cn agent' cannot work here", why.hint)
        lacks = list(_missing(config, "llm.", "'cn agent' cannot ask a model from here"))
        yield from lacks or [ok("a model and a key for its API are configured")]
    if facts.full:
        yield _model(facts, config)


def _missing(config: AgentConfig, section: str, why: str) -> Iterator[Finding]:
    return (info(one.text, why, one.remedy) for one in config.missing if one.key.startswith(section))


def _model(facts: HubFacts, config: AgentConfig) -> Finding:
    """The one check of a service: it needs the network, so only with ``--full``."""
    from cn.llm.client import check_model

    llm = config.llm
    if not llm.model or not llm.api_key:
        return info("the model was not looked up: there is no model or no key to ask with")
    if facts.accepted is None:
        return info(
            "the model was not looked up: this clone has not accepted main's configuration", "", "see 'cn trust'"
        )
    try:
        found = check_model(llm.model, api_key=llm.api_key.open(facts.accepted), base_url=llm.base_url)
    except ExtraMissing as why:
        return info(f"the model was not looked up: {why.text}", "", why.hint)
    if isinstance(found, Failure):
        return problem(found.text, "every call to the model would fail", found.hint)
    return info(found.note) if found.note else ok(f"the API knows the model {llm.model}")


def check_daemon(facts: HubFacts) -> Iterator[Finding]:
    """A daemon that ran here runs still, polls, and gave up no message."""
    health = read_health(facts.hub)
    if health is not None:
        yield _alive(facts, health)
    elif health_path(facts.hub).exists():
        yield info("what the daemon said of itself cannot be read", "", "start it again")
    for path, incoming, reason in read_dead(facts.hub):
        who = f"a message of telegram:{incoming.chat_id} ({format_stamp(incoming.at)})"
        yield info(
            f"{who} could not be queued: {one_line(visible(reason), 300)}",
            f"it is kept in {path.name} under .git/cn/telegram-dead",
            "mend the reason and start the daemon again: it tries each once more",
        )


def _alive(facts: HubFacts, health: dict[str, Any]) -> Finding:
    polled, error = stamp_or_none(health.get("last_poll")), health.get("last_error")
    told = one_line(visible(str(error.get("text", ""))), 300) if isinstance(error, dict) else ""
    if not is_running(facts.hub):
        if health.get("state") == "stopped":
            return info("the daemon was stopped; nobody listens to Telegram here", told)
        return problem(
            f"the daemon (process {health.get('pid')}) is gone and did not say so",
            told or "it was killed, or the machine was started again",
            "start it: 'cn agent --daemon', or as root 'systemctl start cn-agent'",
        )
    if polled is None:
        return info("the daemon runs and has not reached Telegram yet", told)
    if facts.now - polled > _SILENT:
        what = f"the daemon runs and reached Telegram last {format_age(facts.now - polled)} ago"
        remedy = "look at its journal; check network, token and telegram.base_url"
        return problem(what, told or "it said no reason", remedy)
    return ok(f"the daemon runs and polled at {format_stamp(polled)}")


def check_says(facts: HubFacts) -> Iterator[Finding]:
    """What is to be said in chats can be read, and waits on the machine that can say it."""
    says, broken = facts.snapshot.says()
    for path, why in broken:
        remedy = f"{command('git log -p -- {}', path)} shows what it was: restore it and commit, or remove it"
        yield problem(f"{visible(path)}: {why}", "it is not sent as long as it cannot be read", remedy)
    here = clone_id(facts.hub, make=False)
    for path, say in says:
        if say.machine != here:
            what = f"{visible(path)} waits for another machine ({one_line(say.machine, 40)})"
            move = command("git mv -- {} {}", path, say.sent_path)
            remedy = f"run 'cn agent' there; if it is gone for good, {move} and commit"
            yield info(what, "only the clone that took the turn knows how much of it was sent", remedy)
