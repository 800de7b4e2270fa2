"""The server of Agency as a process, on a hub with records; and agents that were leased, with their tokens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cn.agency.agency import Agency, open_agency, person_of, places_of
from cn.agency.names import Party, Uuid
from cn.agency.operations import (
    ByHandler,
    BySystem,
    CreateOutcome,
    Delegate,
    FoundAgency,
    LeaseAgent,
    Limits,
    Moment,
    Operation,
    Principal,
    Wanted,
)
from cn.agency.perform import Asked, Done, found, new_entropy, perform
from cn.agency.tokens import hash_token, new_token
from cn.git.repository import open_hub
from cn.system.clock import now

_START_SECONDS = 120.0


class Leased(NamedTuple):
    """A live agent that nobody started, and what it proves itself with."""

    principal: ByHandler
    token: str


class Office(NamedTuple):
    """A hub with Agency, for tests that act beside the server."""

    root: Path
    agency: Agency
    head: Uuid

    def do(self, operation: Operation, principal: Principal | None = None) -> dict[str, Any]:
        """What is expected to be done; the answer."""
        asked = Asked(operation, self.agency.person if principal is None else principal)
        (answer,) = perform(self.agency.store, [asked], self.agency.limits).answers
        assert isinstance(answer, Done), answer
        return dict(answer.answer)

    def handler(self, title: str, boss: Uuid | None = None, grants: Sequence[Wanted] = ()) -> Uuid:
        """A new handler below another one, by default the root's."""
        outcome = self.do(CreateOutcome(title, "", (boss or self.head,)))["outcome"]
        return uuid(self.do(Delegate(uuid(outcome), grants=tuple(grants)))["handler"])

    def lease(self, handler: Uuid | None = None) -> Leased:
        """A live agent for a handler."""
        handler, token = handler or self.head, new_token()
        agent = Moment(now(), new_entropy()).uuid("agent")
        self.do(LeaseAgent(agent, handler, hash_token(token)), BySystem())
        with self.agency.store.reading() as facts:
            row = facts.handler(handler)
        assert row
        return Leased(ByHandler(handler, row.tenure, agent), token)


def uuid(value: object) -> Uuid:
    """An id out of an answer."""
    assert isinstance(value, str)
    return Uuid(Party(value))


def open_office(root: Path) -> Office:
    """Agency of the hub at ``root``, founded here if it is not yet."""
    hub = open_hub(root)
    if not places_of(hub).repository.exists():
        asked = Asked(FoundAgency("Help the user"), person_of(hub))
        found(places_of(hub), hub.identity, asked)[0].close()
    agency = open_agency(hub)._replace(limits=Limits(underlings=10_000, agents=10_000))
    with agency.store.reading() as facts:
        head = facts.head()
    assert head
    return Office(root, agency, head.root)


class Server(NamedTuple):
    """A server that answers, with what its health file says."""

    process: subprocess.Popen[bytes]
    health: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Where streamable HTTP is answered."""
        return str(self.health["url"])

    @property
    def socket(self) -> str:
        """The agents' socket."""
        return str(self.health["socket"])


def start_server(
    root: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    agents: bool = False,
    files: int = 0,
    within: Sequence[str] = (),
) -> Server:
    """Start it, and wait until it answers; only with ``agents`` it starts some, with ``files`` it may open no more
    at once, and ``within`` is a command that runs it.
    """
    health = root / ".git/cn/agency/server.json"
    log = (root.parent / "server.log").open("ab")
    command = [*within, sys.executable, "-P", "-m", "cn", "--hub", str(root), "agency", "serve", *words]
    command += [] if agents else ["--no-agents"]
    limited = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    process = subprocess.Popen(
        limited if files else command, stdout=log, stderr=log, env={**os.environ, **(env or {})}, start_new_session=True
    )
    log.close()
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if health.exists():
            found = json.loads(health.read_text())
            if found["state"] == "running" and found["pid"] == process.pid:
                return Server(process, found)
        time.sleep(0.05)
    process.kill()
    raise AssertionError((root.parent / "server.log").read_text())


def stop_server(server: Server) -> int:
    """Ask it to end; its exit code."""
    server.process.send_signal(signal.SIGTERM)
    try:
        return server.process.wait(30)
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@contextmanager
def serving(root: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server that is stopped at the end."""
    server = start_server(root, *words, env=env)
    try:
        yield server
    finally:
        stop_server(server)
