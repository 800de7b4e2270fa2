"""A hub whose server runs and starts agents, whose models are plays: the whole of Agency, as processes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cn.agency.events import AgentEnded, AgentLeased, Change
from cn.agency.names import Uuid
from cn.agency.operations import CreateOutcome, Delegate, FoundAgency, Operation, Principal, Wanted
from cn.agency.perform import Asked, found
from cn.agency.rows import Outcome
from cn.agency.store.look import last_events, live_agents
from cn.agents.processes import MARK
from cn.git.repository import open_hub
from tests.support.agency_server import Office, Server, open_office, start_server, stop_server, uuid
from tests.support.hubs import ROOT, cn, git
from tests.support.model_server import KEY, MODEL, ModelServer, model_server
from tests.support.plays import Play, Scene, Stage

SECONDS = 240.0
BUILTIN = f'[runners.builtin]\nmodel = "{MODEL}"\n'


class Firm:
    """``stage`` has the plays; ``state`` is where agents are. The root handler is worked by a person unless told."""

    def __init__(
        self, folder: Path, plays: Mapping[str, Callable[[Scene], Play]], machine: str = BUILTIN, runner: str = "person"
    ) -> None:
        from cn.agency.agency import person_of, places_of

        cn("init", "firm", cwd=folder)
        self.root = folder / "cn-firm"
        self.state = folder / "state"
        self.config = folder / "agency.toml"
        self.config.write_text(machine)
        git(self.root, "config", "cn.agency", str(self.config))
        hub = open_hub(self.root)
        asked = Asked(FoundAgency("Help the user", runner=runner), person_of(hub))
        found(places_of(hub), hub.identity, asked)[0].close()
        self.office: Office = open_office(self.root)
        self.stage = Stage(plays)
        self.model: ModelServer | None = None
        self.server: Server | None = None

    def start(self) -> Server:
        """Start the server; agents are started by it."""
        assert self.model
        env = {
            "XDG_STATE_HOME": str(self.state),
            "ANTHROPIC_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.model.url,
            "PYTHONPATH": str(ROOT),
        }
        self.server = start_server(self.root, env=env, agents=True)
        return self.server

    def stop(self) -> None:
        """Ask the server to end; agents go on."""
        if self.server:
            assert stop_server(self.server) == 0
            self.server = None

    def kill(self) -> None:
        """Kill the server alone."""
        assert self.server
        self.server.process.kill()
        self.server.process.wait()
        self.server = None

    def do(self, operation: Operation, principal: Principal | None = None) -> dict[str, Any]:
        """What is expected to be done, beside the server."""
        return self.office.do(operation, principal)

    def handler(self, title: str, runner: str = "", grants: tuple[Wanted, ...] = (), message: str = "") -> Uuid:
        """A new handler below the root's."""
        outcome = uuid(self.do(CreateOutcome(title, "", (self.office.head,)))["outcome"])
        return uuid(self.do(Delegate(outcome, runner, grants, message))["handler"])

    def outcome(self, id: str) -> Outcome:
        """As it is now."""
        with self.office.agency.store.reading() as facts:
            row = facts.outcome(uuid(id))
        assert row
        return row

    def titled(self, title: str) -> list[Outcome]:
        """Outcomes of a title, oldest first."""
        from cn.agency.events import OutcomeCreated

        made = [one for one in self.changes() if isinstance(one, OutcomeCreated) and one.title == title]
        return [self.outcome(one.outcome) for one in made]

    def below(self, top: str) -> list[Outcome]:
        """The children of an outcome."""
        with self.office.agency.store.reading() as facts:
            return [row for id in facts.children(uuid(top)) if (row := facts.outcome(id))]

    def changes(self) -> list[Change]:
        """All that happened."""
        with self.office.agency.store.reading() as facts:
            return [event.change for event in last_events(facts, lambda event: True, None)]

    def live(self) -> list[Uuid]:
        """Agents that live, by the records."""
        with self.office.agency.store.reading() as facts:
            found = [agent for id in live_agents(facts) if (agent := facts.agent(id))]
        assert len({one.handler for one in found}) == len(found), "two agents of one handler"
        return [one.id for one in found]

    def ends(self, handler: str) -> list[str]:
        """Why its agents ended, oldest first."""
        changes = self.changes()
        mine = [one.agent for one in changes if isinstance(one, AgentLeased) and one.handler == handler]
        return [one.why for one in changes if isinstance(one, AgentEnded) and one.agent in mine]

    def until(self, condition: Callable[[], object], what: str = "it never came", seconds: float = SECONDS) -> None:
        """Wait for something that comes."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"{what}\n{self.story()}")
            time.sleep(0.05)

    def kept(self, name: str) -> dict[str, str]:
        """A file of each agent's folder, by agent. Folders move from ``live`` to ``ended``, so they are read so."""
        found = {}
        for place in ("live", "ended"):
            for path in self.state.glob(f"cn/agency/*/{place}/*/{name}"):
                with suppress(FileNotFoundError):
                    found[path.parent.name] = path.read_text()
        return found

    def story(self) -> str:
        """What happened, for who has to find out why something did not."""
        log = (self.root.parent / "server.log").read_text()[-2000:]
        told = [str(one)[:160] for one in self.changes()[-25:]]
        agents = [text[-800:] for text in self.kept("errors").values()][-4:]
        return "\n".join([*told, *agents, *self.stage.errors, log])

    def processes(self) -> list[int]:
        """Everything that agents of this hub started, and launchers, and that still runs."""
        marks = {agent.agent for agent in self.changes() if isinstance(agent, AgentLeased)}
        return [pid for pid, words, env in all_processes() if _is_ours(words, env, marks, str(self.state))]

    def close(self) -> None:
        """End the server and everything that agents started; nothing is left."""
        self.stop()
        from cn.agents.processes import read_launcher

        for folder in self.state.glob("cn/agency/*/live/*"):
            if launcher := read_launcher(folder):
                launcher.signal(signal.SIGQUIT)
        self.until(lambda: not self.processes(), "an agent's process is left")
        self.office.agency.store.close()


def _is_ours(words: list[str], env: Mapping[str, str], marks: set[Uuid], state: str) -> bool:
    launcher = any("launcher.py" in word for word in words) and any(state in word for word in words)
    return launcher or env.get(MARK) in marks


def all_processes() -> Iterator[tuple[int, list[str], dict[str, str]]]:
    """Number, words and environment of each process that we may look at."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                folder = Path("/proc", name)
                if folder.joinpath("stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                    continue
                words = folder.joinpath("cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                pairs = folder.joinpath("environ").read_bytes().decode("utf-8", "replace").split("\0")
                yield int(name), words, dict(pair.split("=", 1) for pair in pairs if "=" in pair)


@contextmanager
def firm(
    folder: Path,
    plays: Mapping[str, Callable[[Scene], Play]],
    machine: str = BUILTIN,
    runner: str = "person",
    *,
    any_client: bool = False,
) -> Iterator[Firm]:
    """A running one; ended with all its agents. ``any_client``: its models are asked by more than our own client."""
    made = Firm(folder, plays, machine, runner)
    with model_server(made.stage, takes_tools=True, any_client=any_client) as model:
        made.model = model
        try:
            made.start()
            yield made
        finally:
            made.close()
    assert made.stage.errors == [], made.story()


def transcript(firm_: Firm, agent: str) -> list[dict[str, Any]]:
    """What an agent said, a value a line."""
    return [json.loads(line) for line in firm_.kept("output")[agent].splitlines() if line.startswith("{")]
