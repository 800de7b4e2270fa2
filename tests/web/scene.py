"""A hub with something on every page: what waits for whom, an answer of the agent, something done."""

from __future__ import annotations

from pathlib import Path

from tests.support.desk import work_queue
from tests.support.model_server import MODEL, model_server
from tests.support.runtime import agent, says
from tests.support.world import Node, World

CODE = "def a():\n    return 1\n"
PAGES = (
    *("/", "/threads", "/threads?state=all", "/agent", "/peers", "/log", "/history"),
    *("/thread/pi/code", "/thread/pi/first", "/thread/pi/hello", "/thread/pi:answer", "/why/pi/first", "/why/pi/hello"),
)


def build(folder: Path, template: Path) -> Node:
    """The hub ``sigma`` with its peer pi; ``template`` is that of the tests."""
    world = World(folder, template)
    sigma, pi = world.hub("sigma", config="reviewers:\n  - name: alice\n"), world.hub("pi")
    world.link(sigma, pi)
    sigma.write({"code.py": CODE}, "code")
    world.propose(pi, sigma, "first", message="The first proposal")
    sigma.sync()
    sigma.decide("pi/first", "do:merge")
    pi.sync()
    pi.cn("send", "sigma", "Hello", "--body", "How are you?\n\nPi")
    work_queue(sigma)
    sigma.write({".cn/agent.yaml": f"llm:\n  model: {MODEL}\nbudgets:\n  turns_per_hour: 20\n"}, "A model answers")
    sigma.sync()
    with model_server() as server:
        says(server, "reply: {id}|Well.", "done: {id}", body="Very well.")
        agent(sigma, server, "--process")
    world.propose(pi, sigma, "code", {"code.py": CODE.replace("1", "2"), "new.md": "# New\n"}, message="Return two")
    world.propose(pi, sigma, "later", message="For later")
    world.propose(pi, sigma, "assigned", message="For Alice")
    sigma.sync()
    sigma.triage("pi/later", "defer:not yet", "--until", "3d")
    sigma.triage("pi/assigned", "delegate:alice")
    sigma.process()
    sigma.cn("send", "pi", "Answer", "--body", "What do you say?")
    sigma.cn("comment", "pi/code", "Why two?")
    return sigma
