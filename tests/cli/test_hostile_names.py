"""Names, subjects, authors, reasons and words of hosts that would move, hide or reorder what a terminal shows."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from cn.values.text import for_terminal, visible
from tests.support.hubs import cn_env, git, push, write_commit
from tests.support.terminal import Terminal
from tests.support.world import Node, World

EVIL = "\x9b2J\u202e\u200b\u2028\u3164"
"""As git lets it stand in the name of a branch: a command of a terminal, and what reorders or shows nothing."""
WORSE = f"\x1b[2J\x1b]0;t\x07\x1b[31m{EVIL}"
"""As it may stand everywhere else."""
AT = datetime(2026, 2, 5, 12, 0, tzinfo=UTC)
_COLOURS = r"\x1b\[[0-9;]*m"


def hidden(text: str) -> set[str]:
    """What in it is not seen as it is; colours of cn's own stand on terminals alone."""
    return {repr(line) for line in text.replace("\r\n", "\n").split("\n") if visible(line) != line}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """A hub with all of it; the tests look, and what they decide is of no matter to the others."""
    world = World(tmp_path_factory.mktemp("hostile"), template)
    sigma, pi, omega = (world.hub(name) for name in ("sigma", "pi", "omega"))
    world.link(sigma, pi)
    world.link(sigma, omega)
    sigma.cn("send", "pi", "hello")
    sigma.cn("send", "pi", "again")
    ours = [
        line.split()
        for line in git(
            pi.home, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads/sigma"
        ).splitlines()
    ]
    for index, (kind, about) in enumerate([(MESSAGE, None), (MESSAGE, None), *((NOTICE, one) for one in ours)]):
        what = About(Branch(about[1]), Oid(about[0]), "discarded", reason=EVIL) if about else None
        mail = Message(kind, Name("pi"), Name("sigma"), f"Subject {EVIL}", AT, f"Body {WORSE}\n", about=what)
        head = write_commit(
            sigma.home, {"message.md": format_message(mail)}, f"m {index}{WORSE}", author=f"P{EVIL} <p@x>"
        )
        push(sigma.home, sigma.home, f"{head}:refs/heads/pi/m{index}{EVIL}")
    changed = {f"docs/a{WORSE}": WORSE, "docs/b.md": f"{WORSE}\n"}
    world.propose(pi, sigma, f"prop{EVIL}", changed, message=f"Add {WORSE}\n\n{WORSE}", author=f"P{EVIL} <p@x>")
    world.propose(pi, sigma, f"one{EVIL}", message="One")
    for stray in (f"nobody/x{EVIL}", f"PI{EVIL}", f"pi/again{EVIL}"):
        push(sigma.home, sigma.home, f"refs/heads/pi/prop{EVIL}:refs/heads/{stray}")
    hook = omega.home / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nprintf '%s\\n' '{WORSE} no' >&2\nexit 1\n")
    hook.chmod(0o755)
    git(omega.home, "config", "core.hooksPath", str(hook.parent))
    return sigma


def commands(node: Node) -> list[tuple[str, ...]]:
    """Everything that prints threads, or what came of them."""
    looks = [
        ("status",), ("status", "-v"), ("inbox",), ("inbox", "--all"), ("inbox", "--peer", "pi"), ("thread", "list"),
        ("thread", "list", "--all"), ("log",), ("log", "-v"), ("outbox",), ("doctor",), ("queue",), ("mca",),
        ("next",),
        ("peer", "list"), ("done", "--all", "--dry-run"), ("delete", "--peer", "pi", "--dry-run"),
        ("inbox", "process", "--dry-run"),
        ("sync", "--dry-run"), ("outbox", "flush", "--dry-run"), ("context",), ("usage",), ("input",),
        ("inbox", "show", f"pi/{EVIL}"),
    ]  # fmt: skip
    found = sorted(path.name for path in (node.root / "threads").rglob("*.md") if "-" in path.name)
    return [
        *looks,
        *(words for name in found for words in (("inbox", "show", name), ("thread", "show", name), ("why", name))),
        *(("why", "--full", name) for name in found[:2]),
    ]


def test_nothing_that_hides_is_printed_by_any_command(hostile: Node) -> None:
    ways: list[tuple[str, ...]] = [("sync", "-v"), ("send", "omega", "hello"), ("sync",)]
    told = [(words, hostile.cn(*words, check=None)) for words in ways]
    waiting = [f"pi/m0{EVIL}", f"pi/one{EVIL}", f"pi/prop{EVIL}", f"pi/m1{EVIL}"]
    told += [(words, hostile.cn(*words, check=None)) for words in commands(hostile)]
    acts: list[tuple[str, ...]] = [
        ("comment", waiting[0], "Why?"), ("inbox", "triage", waiting[1], "do:merge"), ("inbox", "process"),
        ("defer", waiting[2], "--reason", "later"), ("delegate", waiting[3], "omega"), ("reply", waiting[0], "No."),
        ("inbox", "triage", "pi/nothing", "do:merge", "--head", "1" * 40), ("sync", "-v"), ("done", "--all", "--yes"),
    ]  # fmt: skip
    told += [(words, hostile.cn(*words, check=None)) for words in acts]
    told += [(words, hostile.cn(*words, check=None)) for words in commands(hostile)]
    found = {words: lines for words, done in told if (lines := hidden(done.stdout) | hidden(done.stderr))}
    assert not found
    everything = "".join(done.stdout + done.stderr for _, done in told)
    assert everything.count("<U+009B>") > 100
    assert "<U+202E>" in everything
    assert "Traceback" not in everything


def test_what_a_terminal_gets_beside_colours_is_seen(hostile: Node) -> None:
    names = sorted(path.name for path in (hostile.root / "threads").rglob("*-pi-*.md"))
    for words in (
        ("status",),
        ("inbox", "--all"),
        ("log",),
        ("inbox", "show", names[0]),
        ("thread", "show", names[-1]),
    ):
        at = Terminal(hostile.root, *words, PAGER="cat", GIT_PAGER="cat")
        at.end()
        assert not hidden(re.sub(_COLOURS, "", at.raw)), words


def test_the_last_look_lets_colours_and_bars_through_and_nothing_else() -> None:
    bar = "\r\x1b[2K\x1b[1A\x1b[?25l\x1b[32m✓\x1b[0m\x1b[?25h done\n\t漢字 é\n"
    assert for_terminal(bar) == bar
    assert for_terminal("plain\n") == "plain\n"
    assert for_terminal("a\x1b[2Jb\x9b2J\u202ec\x1b]0;t\x07") == (
        "a<U+001B>[2Jb<U+009B>2J<U+202E>c<U+001B>]0;t<U+0007>"
    )


def test_a_raw_name_is_seen_at_a_terminal_whoever_forgot_to_look(tmp_path: Path) -> None:
    code = "from cn.cli.streams import guard_streams; guard_streams(); import click; "
    code += f"click.echo({EVIL!r} + 'x'); click.echo({EVIL!r} + 'y', err=True)"
    keys, screen = pty.openpty()
    with os.fdopen(keys, "rb", buffering=0) as shown:
        subprocess.run([sys.executable, "-c", code], stdout=screen, stderr=screen, env=cn_env(), check=True)
        text = shown.read(1000).decode()
        os.close(screen)
    for end in "xy":
        assert f"<U+009B>2J<U+202E><U+200B><U+2028><U+3164>{end}" in text
