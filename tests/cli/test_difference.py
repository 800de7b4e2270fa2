"""The colours of differences, and the pager beyond a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cn.cli.render.difference import line_colours
from cn.protocol.proposal_text import FORM
from tests.support.hubs import git
from tests.support.terminal import Terminal
from tests.support.world import Node, World

SHOWN = f"""\
{FORM}

## Commits

- 0123456789 Pi <pi@x.example> 2026-02-05: One

      ## code.py (changed)

      @@ -1,1 +1,1 @@
      -of a message

## Files

- changed code.py (+1 −1)

## code.py (changed)

    @@ -1,3 +1,3 @@
     def a():
    -    return 1
    +    return 2

    \\ No newline at end of file
    @@ -9 +9 @@
    -x
    +y
    -not of the hunk

## other.py (changed)

(the new text)

    @@ -1,1 +1,1 @@
    -fake

## new.md (added)

    @@ -1,1 +1,1 @@
    -fake
    +fake
"""


def test_only_what_a_hunk_counts_below_the_heading_of_a_file_is_coloured() -> None:
    lines = SHOWN.splitlines()
    found = [(line, colour) for line, colour in zip(lines, line_colours(lines), strict=True) if colour]
    assert [(line[4:], colour) for line, colour in found] == [
        ("@@ -1,3 +1,3 @@", "cyan"),
        ("-    return 1", "red"),
        ("+    return 2", "green"),
        ("@@ -9 +9 @@", "cyan"),
        ("-x", "red"),
        ("+y", "green"),
    ]
    assert not any(line_colours([line.removeprefix("    ") for line in lines[1:]])), "of another form"


def test_what_is_cut_ends_the_colours() -> None:
    lines = [FORM, "## a (changed)", "", "    @@ -1,9 +1,9 @@", "    -a", "", "… cut here: 8 lines more", "", "    - b"]
    assert list(line_colours(lines)) == ["", "", "", "cyan", "red", "", "", "", ""]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """A change of a file whose new text tries to command the terminal; tests only look at it."""
    world = World(tmp_path_factory.mktemp("difference"), template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "change", {"docs/start.md": "begin \x1b[2J\x1b]0;owned\x07\n"})
    sigma.sync()
    return sigma


def show(node: Node, *words: str, lines: int = 200, **env: Any) -> Terminal:
    terminal = Terminal(node.root, *(words or ("inbox", "show", "pi/change")), lines=lines, **env)
    assert terminal.end() == 0, terminal.text
    return terminal


def test_a_difference_is_coloured_on_a_terminal_and_nothing_of_it_commands_it(waiting: Node) -> None:
    shown = show(waiting)
    assert "\x1b[31m    -start" in shown.raw
    assert "\x1b[32m    +begin <U+001B>[2J<U+001B>]0;owned<U+0007>" in shown.raw
    assert "\x1b[2J" not in shown.raw
    assert "\x07" not in shown.raw
    plain = show(waiting, NO_COLOR="1")
    assert "\x1b[31m" not in plain.raw
    assert "-start" in plain.text
    assert "\x1b" not in waiting.cn("inbox", "show", "pi/change").stdout


def test_beyond_a_screen_the_pager_of_git_shows_it(waiting: Node) -> None:
    pagers = {name: f"sed 's/^/{name}: /'" for name in ("variable", "config", "environment")}
    git(waiting.root, "config", "core.pager", pagers["config"])
    assert "config: " not in show(waiting).text, "it fits"
    assert "config: " in show(waiting, lines=10, PAGER=pagers["environment"]).text
    assert "variable: " in show(waiting, lines=10, GIT_PAGER=pagers["variable"]).text
    git(waiting.root, "config", "--unset", "core.pager")
    assert "environment: " in show(waiting, "thread", "show", "pi/change", lines=10, PAGER=pagers["environment"]).text
    assert ": " in waiting.cn("inbox", "show", "pi/change", env={"GIT_PAGER": "false"}).stdout, "no terminal, no pager"


def test_a_pager_that_is_not_there_hides_nothing_and_one_that_is_left_is_no_error(waiting: Node) -> None:
    assert "pi/change is pending" in show(waiting, lines=10, GIT_PAGER="no-such-pager").text
    assert "pi/change is pending" not in show(waiting, lines=10, GIT_PAGER="head -3").text
