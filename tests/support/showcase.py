"""A hub that has lived for some weeks: what pages, charts and pictures are looked at with.

Real hubs, real branches, real runs; only cn's clock is moved (``tests/support/clock``), so that threads have
ages. Everything in it is the same each time but for commit ids and the time at which it was made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.desk import work_queue
from tests.support.hubs import ROOT, checkout, commit, fetch
from tests.support.model_server import MODEL, ModelServer, Reply, fill
from tests.support.runtime import environment
from tests.support.world import Node, World

_CLOCK = Path(__file__).with_name("clock")
_DAY = 24.0
_TABLE = """\
# Tides

| port | high water | range |
|---|---|---|
| Husum | 04:12 | 3.4 m |
| Dover | 11:05 | 6.7 m |
| Brest | 15:48 | 7.2 m |
"""
_CODE = '''\
"""Read the tide tables."""

from pathlib import Path


def read_table(path: Path) -> list[str]:
    """The rows of a table."""
    lines = path.read_text().splitlines()
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append(line)
    return rows


def high_water(row: str) -> str:
    """When the water is high."""
    return row.split("|")[2]
'''
_BETTER = _CODE.replace(
    """    lines = path.read_text().splitlines()
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append(line)
    return rows
""",
    """    lines = path.read_text("utf-8").splitlines()
    return [line for line in lines if line.startswith("|")][2:]
""",
).replace('return row.split("|")[2]', 'return row.split("|")[2].strip()')
_PAST = (
    ("pi", "add-dover", "Add Dover to the table", "do:merge"),
    ("omega", "spelling", "Spell Cherbourg as the French do", "do:merge"),
    ("pi", "remove-license", "Remove the licence", "delete:we keep it"),
    ("omega", "add-brest", "Add Brest", "do:merge"),
    ("pi", "units", "Give ranges in metres", "do:merge"),
    ("omega", "feet", "Give ranges in feet", "delete:metres were agreed on"),
    ("pi", "sources", "Name the source of every row", "do:merge"),
    ("omega", "timezones", "Say which time zone a table is in", "do:custom:time zones are not settled"),
    ("pi", "round", "Round to five minutes", "do:merge"),
    ("omega", "index", "An index of ports", "do:merge"),
    ("pi", "calendar", "A calendar of spring tides", "do:merge"),
    ("omega", "fonts", "Other fonts", "delete:nobody asked for them"),
)


@dataclass
class Showcase:
    """``sigma`` is what is looked at; ``pi`` and ``omega`` are its peers."""

    world: World
    sigma: Node = field(init=False)
    pi: Node = field(init=False)
    omega: Node = field(init=False)

    def __post_init__(self) -> None:
        reviewers = "mailbox_trusted: true\nreviewers:\n  - name: alice\n    email: alice@example.org\n"
        self.sigma = self.world.hub("sigma", config=reviewers)
        trusting = "mailbox_trusted: true\n"
        self.pi = self.world.hub("pi", config=trusting)
        self.omega = self.world.hub("omega", config=trusting)
        self.world.link(self.sigma, self.pi)
        self.world.link(self.sigma, self.omega)
        self.sigma.write({"tides/table.md": _TABLE, "tides/read.py": _CODE}, "The tide tables")

    def run(self, ago: float, node: Node, *words: str, check: int | None = 0, **env: str) -> str:
        """A run of cn so many hours ago."""
        path = f"{_CLOCK}{os.pathsep}{ROOT}"
        shifted = {"TEST_CLOCK": str(int(-ago * 3600)), "PYTHONPATH": path, **env}
        return node.cn(*words, env=shifted, check=check, started=True).stdout

    def propose(self, ago: float, creator: Node, topic: str, title: str, files: dict[str, str]) -> None:
        """A person of ``creator``'s pushes a branch, so many hours ago."""
        when = f"{datetime.now(UTC) - timedelta(hours=ago):%Y-%m-%dT%H:%M:%S+0000}"
        person = self.world.person(creator, self.sigma)
        fetch(person, self.sigma.url, "+refs/heads/*:refs/remotes/origin/*")
        checkout(person, "proposal", "origin/main")
        commit(person, files, title, when=when)
        self.world.offer(creator, self.sigma, topic, "HEAD", force=True)

    def live(self, server: ModelServer, past: int = len(_PAST)) -> None:
        """The whole story; of what is long done the last ``past`` threads."""
        self._live_through(past)
        self._ask_agent(server)
        self._wait(server)

    def _live_through(self, past: int) -> None:
        for number, (name, topic, title, decision) in enumerate(_PAST[len(_PAST) - past :]):
            ago = (43 - 3 * number) * _DAY
            node = self.world.nodes[name]
            self.propose(ago, node, topic, title, {f"notes/{topic}.md": f"# {title}\n\nAs agreed.\n"})
            self.run(ago - 0.5, self.sigma, "sync")
            self.run(ago - 1 - 7 * (number % 4), self.sigma, "inbox", "triage", f"{name}/{topic}", decision)
            self.run(ago - 1.2 - 7 * (number % 4), self.sigma, "inbox", "process")
            self.run(ago - 2 - 7 * (number % 4), node, "sync")

    def _ask_agent(self, server: ModelServer) -> None:
        """The agent works a queue for three days, and answers four messages."""
        work_queue(self.sigma, more="timeout_cycles: 1000\n")
        self.sigma.write({".cn/agent.yaml": _AGENT.format(model=MODEL)}, "A model answers")
        questions = (
            ("pi", "Which datum are the heights above?", "reply: {id}|Chart datum, as printed on the chart."),
            ("omega", "May we mirror the tables?", "reply: {id}|Yes, under the licence in the file LICENSE."),
            ("pi", "Is Husum in local time?", "surface: Husum is given in local time, all others in UTC"),
            ("omega", "Thank you for the index", "ack: {id}|thanks need no answer"),
        )
        for number, (name, question, op) in enumerate(questions):
            ago = (7.4 - number) * _DAY
            self.run(ago, self.world.nodes[name], "send", "sigma", question, "--body", f"{question}\n\nBest, {name}")
            server.answer = partial(_answer, op)
            self.run(ago - 0.2, self.sigma, "sync", check=None)
            self.run(ago - 0.3, self.sigma, "agent", check=None, **environment(server))
            self.run(ago - 0.5, self.world.nodes[name], "sync")

    def _wait(self, server: ModelServer) -> None:
        """What waits now: two proposals for alice, one for the agent, a question, one that was put off."""
        sigma, pi, omega = self.sigma, self.pi, self.omega
        server.answer = _decide
        self.propose(82, omega, "tide-graphs", "Draw the tides as graphs", {"notes/graphs.md": "# Graphs\n\nSoon.\n"})
        self.propose(81, pi, "protect", "Say who may merge", {".cn/hub.yaml": "name: pi\n"})
        self.run(79, sigma, "sync", check=None)
        self.run(78.5, sigma, "agent", check=None, **environment(server))
        cherbourg = f"{_TABLE}| Cherbourg | 12:20 | 5.9 m |\n"
        self.propose(30, omega, "cherbourg", "Add Cherbourg", {"tides/table.md": cherbourg})
        self.run(29.5, sigma, "sync", check=None)
        self.run(29, sigma, "agent", check=None, **environment(server))
        better = {
            "tides/read.py": _BETTER,
            "tides/table.md": _TABLE.replace("04:12", "04:17"),
            "notes/reading.md": "# Reading a table\n\nThe first two lines are its head.\n",
        }
        self.propose(22, pi, "skip-the-head", "Skip the head of a table, and read UTF-8", better)
        self.run(21.5, sigma, "sync", check=None)
        self.run(20, sigma, "comment", "pi/skip-the-head", "Why are two rows skipped?")
        self.run(19.5, pi, "sync")
        self.run(18, pi, "comment", "sigma/re-skip-the-head", "The head, and the rule below it.", check=None)
        self.run(17.5, sigma, "sync", check=None)
        self.run(9, omega, "send", "sigma", "When is the next edition?", "--body", "We print on Friday.\n\nOmega")
        self.run(8.5, sigma, "sync", check=None)
        self.run(6, sigma, "send", "pi", "The next edition", "--body", "It closes on Thursday.")
        sigma.write_refused_triage("pi/protect", "do:merge", "--actor", "alice")
        self.run(5, sigma, "inbox", "process", check=None)
        self.run(0.2, sigma, "sync", check=None)


def _answer(op: str, request: dict[str, Any]) -> str | Reply:
    """What the model says: ``op`` to a message, and that a reflection has nothing to add."""
    asked = str(request["messages"][-1]["content"])
    if "cadence: inbox" not in asked:
        op = "ack: {id}|nothing to add today"
    end = "" if op.startswith(("ack", "defer", "delegate")) else "done: {id}\n"
    return fill(f"---\nid: {{id}}\n{op}\n{end}---\n\nIt stands in the head of the table.\n", request)


def _decide(request: dict[str, Any]) -> str | Reply:
    """What it says to proposals: one is put off, alice looks at the others."""
    put_off = "tide-graphs" in str(request["messages"][-1]["content"])
    return _answer("defer: {id}|20d|waits for the new fonts" if put_off else "delegate: {id}|alice", request)


_AGENT = """\
llm:
  model: {model}
budgets:
  turns_per_hour: 20
  tokens_per_day: 400000
"""
