"""The lists of threads: titles, who is shown where there is no room for all, and in which order."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.cli.render.status import inbox_lines, pick_fairly
from cn.cli.render.text import cut, width
from cn.values.names import Name, Oid, ThreadName
from cn.views.threads import ThreadView
from tests.support.hubs import cn, commit_tree, git, push
from tests.support.terminal import Terminal
from tests.support.world import Node, World

NOW = datetime(2026, 2, 5, 15, tzinfo=UTC)


def threads(peers: str, signature: str = "unverified") -> list[ThreadView]:
    """One thread of the peer of each letter, in this order."""
    return [
        ThreadView(
            ThreadName(f"20260205-{peer}-{index}.md"), Name(peer), str(index), f"{peer}/{index}", Oid("3" * 40),
            "proposal", f"title {index}", signature, "pending", NOW, NOW,
        )
        for index, peer in enumerate(peers)
    ]  # fmt: skip


def names(found: Sequence[ThreadView]) -> str:
    return " ".join(one.source for one in found)


@pytest.mark.parametrize(
    ("peers", "room", "shown", "left"),
    [
        ("ab", 2, "a/0 b/1", {}),
        ("aaaab", 3, "a/0 a/1 b/4", {"a": 2}),
        ("aaabbc", 3, "a/0 b/3 c/5", {"a": 2, "b": 1}),
        ("abc", 2, "a/0 b/1", {"c": 1}),
        ("aaa", 0, "", {"a": 3}),
    ],
)
def test_a_flood_hides_no_other_peer(peers: str, room: int, shown: str, left: dict[str, int]) -> None:
    found, more = pick_fairly(threads(peers), room)
    assert (names(found), more) == (shown, left)


def test_what_is_left_out_is_one_line_with_its_count() -> None:
    lines = inbox_lines(threads("a" * 30 + "b"), NOW, signed=False, room=10)
    assert len(lines) == 12
    assert lines[-2].startswith("20260205-b-30")
    assert lines[-1] == "and 21 more from a; 'cn inbox --peer a' shows them"
    assert (
        inbox_lines(threads("aaabbb"), NOW, signed=False, room=2)[-1]
        == "and 4 more: 2 from a, 2 from b; --all shows them"
    )


def test_signatures_have_a_column_where_they_say_something() -> None:
    assert "SIGNATURE" not in inbox_lines(threads("a"), NOW, signed=False)[0]
    assert "SIGNATURE" in inbox_lines(threads("a"), NOW, signed=True)[0]
    assert "SIGNATURE" in inbox_lines(threads("a", "bad"), NOW, signed=False)[0]


def test_a_text_is_cut_by_the_columns_it_takes() -> None:
    assert cut("plain", 5) == "plain"
    assert cut("plainer", 5) == "plai…"
    assert (cut("漢字漢字", 5), width(cut("漢字漢字", 5))) == ("漢字…", 5)


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """A hub with 14 branches of pi's, and one of another peer; tests only look at it."""
    world = World(tmp_path_factory.mktemp("flood"), template)
    sigma, pi, omega = (world.hub(name) for name in ("sigma", "pi", "omega"))
    world.link(sigma, pi)
    world.link(sigma, omega)
    person = world.person(pi, sigma)
    tree = git(person, "rev-parse", "HEAD^{tree}")
    when = "2026-02-05T12:{:02}:00+0000"
    made = [commit_tree(person, tree, f"漢字 flood {n}", ["HEAD"], when=when.format(n)) for n in range(14)]
    push(person, sigma.url, *(f"{oid}:refs/heads/pi/z{13 - n:02}" for n, oid in enumerate(made)))
    world.propose(omega, sigma, "late", message="Add one more\n\nWith a reason.")
    sigma.sync()
    return sigma


def test_on_a_screen_a_flood_is_one_line_and_elsewhere_all_is_there(flooded: Node) -> None:
    at = Terminal(flooded.root, "inbox", lines=12, columns=80)
    assert at.end() == 0
    lines = at.text.rstrip("\n").split("\n")
    assert len(lines) == 12
    assert all(width(line) <= 80 for line in lines)
    assert lines[-1] == "and 5 more from pi; 'cn inbox --peer pi' shows them"
    assert any("omega-late" in line and "Add one more" in line for line in lines)
    for words in (("--all",), ("--peer", "pi")):
        at = Terminal(flooded.root, "inbox", *words, lines=12)
        assert at.end() == 0
        assert at.text.count("flood") == 14
    assert flooded.cn("inbox").stdout.count("flood") == 14
    assert len(json.loads(flooded.cn("inbox", "--json").stdout)) == 15
    told = flooded.cn("status").stdout
    assert "omega-late" in told
    assert "  and 10 more from pi; 'cn inbox --peer pi' shows them" in told
    assert "is no peer" in flooded.cn("inbox", "--peer", "nobody", check=1).stderr


def test_lists_go_by_the_time_of_writing(flooded: Node) -> None:
    found = json.loads(flooded.cn("inbox", "--peer", "pi", "--json").stdout)
    assert [one["topic"] for one in found] == [f"z{13 - n:02}" for n in range(14)]
    assert found[3]["written"] == "2026-02-05T12:03:00Z"
    assert [one["subject"] for one in found][3] == "漢字 flood 3"
    titles = [line.split("  ")[-2:] for line in flooded.cn("thread", "list").stdout.splitlines()[1:]]
    assert [one[-1] for one in titles if "flood" in one[-1]] == [f"漢字 flood {n}" for n in range(14)]


def test_where_head_is_elsewhere_titles_come_from_main(flooded: Node) -> None:
    git(flooded.root, "switch", "--quiet", "-c", "elsewhere")
    try:
        assert flooded.cn("inbox").stdout.count("flood") == 14
    finally:
        git(flooded.root, "switch", "--quiet", "main")


def test_what_was_written_in_the_same_second_is_listed_as_it_arrived(world: World, sigma: Node, pi: Node) -> None:
    for topic in ("zebra", "apple"):
        world.propose(pi, sigma, topic)
        sigma.sync()
        time.sleep(1.1)  # what arrives is noted by the second
    listed = json.loads(sigma.cn("inbox", "--json").stdout)
    assert [one["branch"] for one in listed] == ["pi/zebra", "pi/apple"]


def test_a_narrow_terminal_breaks_between_words_and_no_command(sigma: Node) -> None:
    terminal = Terminal(sigma.root, "done", "pi/this-is-no-thread-of-anybody", columns=50)
    assert terminal.end() == 1
    lines = terminal.text.splitlines()
    assert all(len(line) <= 50 for line in lines)
    assert any("'cn inbox' lists" in line for line in lines)
    said = " ".join(line.strip() for line in lines)
    assert "no pending thread 'pi/this-is-no-thread-of-anybody'" in said


@pytest.mark.parametrize("group", ["inbox", "peer", "out", "out do", "queue", "thread", "mca", "outbox", "cron"])
def test_the_help_of_a_group_cuts_no_line(group: str) -> None:
    assert "..." not in cn(*group.split(), "--help", check=0).stdout.partition("Commands:")[2]
