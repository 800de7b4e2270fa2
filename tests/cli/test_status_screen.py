"""``cn status`` on a terminal: the same facts, in columns that fit, and ages that stand out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.desk import work_queue
from tests.support.hubs import ROOT, cn_env
from tests.support.terminal import Terminal
from tests.support.world import Node, World

CLOCK = ROOT / "tests/support/clock"
TITLE = "A title that is rather long, so that it must be broken into two or three lines on a narrow screen"


@pytest.fixture
def busy(world: World, sigma: Node, pi: Node) -> Node:
    """A hub with something in most sections."""
    for topic in ("asked", "later", "refused"):
        world.propose(pi, sigma, topic, message=f"{topic}: {TITLE}")
    world.propose(pi, sigma, "protected", {".cn/hub.yaml": "name: pi\n"}, message="Another name")
    sigma.cn("send", "pi", "A question", "--body", "What?")
    sigma.sync()
    sigma.triage("pi/later", "defer:not yet", "--until", "3d")
    sigma.write_refused_triage("pi/protected", "do:merge")
    sigma.process()
    return sigma


def screen(node: Node, columns: int, hours: float = 0, *, colour: str = "", term: str = "xterm-256color") -> Terminal:
    """The command at a terminal, so many hours later; ``colour`` is NO_COLOR."""
    path, seconds = f"{CLOCK}{os.pathsep}{ROOT}", str(hours * 3600)
    terminal = Terminal(
        node.root, "status", columns=columns, TEST_CLOCK=seconds, PYTHONPATH=path, NO_COLOR=colour, TERM=term
    )
    assert terminal.end() == 0
    return terminal


@pytest.mark.parametrize("columns", [48, 80, 140])
def test_the_facts_are_those_of_the_plain_text_and_fit(busy: Node, columns: int) -> None:
    plain, shown = busy.cn("status").stdout, screen(busy, columns).text
    names = re.findall(r"\d{8}-pi-[a-z]+", plain)
    assert len(names) == 4
    for word in (*names, "4 pending", "to decide", "refused", "deferred", "waiting on others", "protected-paths"):
        assert word in plain
        assert word in shown, word
    assert "→ leave it out of the branch; people change it by hand" in " ".join(shown.split())
    lines = [line for line in shown.splitlines() if "→" not in line]
    assert max(map(len, lines)) <= columns
    assert "not yet" in shown


def test_what_the_agent_has_is_broken_between_words(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    for topic in ("a-proposal-with-a-name", "another-proposal-with-a-name"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    plain = sigma.cn("status").stdout.partition("the agent\n")[2].splitlines()
    shown = screen(sigma, 60).text.partition("the agent\n")[2].splitlines()
    assert len(plain) == 2
    assert len(shown) > len(plain)
    assert max(map(len, shown)) <= 60
    assert [word for line in shown for word in line.split()] == [word for line in plain for word in line.split()]


def test_an_age_that_needs_somebody_stands_out(busy: Node) -> None:
    styles = {
        hours: set(re.findall(r"\x1b\[([0-9;]*)m +([0-9]+[mhd])", screen(busy, 100, hours).raw))
        for hours in (1, 30, 100)
    }
    assert ("32", "1h") in styles[1], "green"
    assert ("33", "30h") in styles[30], "yellow"
    assert ("1;31", "4d") in styles[100], "bold and red past warn_after"


def test_without_colours_it_has_none(busy: Node) -> None:
    assert "\x1b[" in screen(busy, 100).raw
    assert "\x1b[" not in screen(busy, 100, colour="1").raw
    assert "\x1b[" not in screen(busy, 100, term="dumb").raw


def test_what_a_peer_wrote_is_no_style(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, message="[bold red]loud[/] :boom: [link=http://x]x[/link]")
    sigma.sync()
    shown = screen(sigma, 100)
    assert "[bold red]loud[/] :boom: [link=http://x]x[/link]" in shown.text
    assert "\x1b]8" not in shown.raw


def test_rich_is_loaded_for_a_terminal_alone(busy: Node) -> None:
    probe = (
        "import sys\nsys.argv = ['cn', *sys.argv[1:]]\nfrom cn.cli.start import run\n"
        "try:\n    run()\nfinally:\n    print('rich' in sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", probe, "--hub", str(busy.root), "status"]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "False\n"
    assert Path(command[0]).exists()
