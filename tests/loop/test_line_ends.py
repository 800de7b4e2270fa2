"""A formatter, an editor or git itself gives cn's records other line ends, and a person commits that."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.protocol.ledger import FOLDER
from tests.support.hubs import branches, commit, git
from tests.support.world import Node, World, is_in_main

Tool = Callable[[bytes], bytes]
PI = f"{FOLDER}/pi"


def dos(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def mark(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def cut(data: bytes) -> bytes:
    return data.removesuffix(b"\n")


def blanks(data: bytes) -> bytes:
    return data.replace(b"\n", b"  \n")


def blank_lines(data: bytes) -> bytes:
    return b"\n" + data.replace(b"\n", b"\n\n")


TOOLS = [dos, mark, cut, blanks, blank_lines, lambda data: mark(cut(dos(data)))]
NAMES = ["CRLF", "byte order mark", "no last line end", "trailing blanks", "blank lines", "several"]


def records(node: Node, *folders: str) -> list[str]:
    names = git(node.root, "ls-files", "-z", "--", *folders).split("\0")
    return [name for name in names if name and not name.endswith(".gitkeep")]


def use(node: Node, tool: Tool, *folders: str) -> None:
    """A person's tool goes over files of main, and the person commits what it did."""
    files = {name: tool((node.root / name).read_bytes()) for name in records(node, *folders)}
    commit(node.root, files, "format")


def months(node: Node) -> bytes:
    return b"".join((node.root / name).read_bytes() for name in records(node, PI) if not name.endswith("open"))


def in_order(*nodes: Node) -> None:
    """All clones see the same and miss nothing, and each event is there once, as cn writes it."""
    assert len({node.main for node in nodes}) == 1
    for node in nodes:
        assert "healthy" in node.cn("doctor").stdout
    lines = months(nodes[0]).split(b"\n")
    assert lines[-1] == b""
    assert len(set(lines)) == len(lines)
    assert not any(line.strip(b" \r\xef\xbb\xbf") != line for line in lines)


def leave(node: Node) -> Path:
    return node.home.rename(node.home.with_suffix(".away"))


@pytest.fixture
def second(world: World, sigma: Node, pi: Node) -> Node:
    """Two proposals wait; one was merged while its creator could not be reached."""
    for topic in ("a", "b"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    there = leave(pi)
    sigma.decide("pi/a", "do:merge", check=1)
    there.rename(pi.home)
    return world.second(sigma)


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_ledger_that_a_tool_went_over_is_read_as_it_was(sigma: Node, pi: Node, second: Node, tool: Tool) -> None:
    use(sigma, tool, PI)
    assert "restored" not in sigma.sync().stdout
    assert "healthy" in sigma.cn("doctor").stdout
    assert [name[9:] for name in sigma.threads()] == ["pi-b.md"]
    assert second.sync().stderr == ""
    assert "left out" not in second.cn("status").stdout
    second.decide("pi/b", "do:merge")
    sigma.sync()
    in_order(sigma, second)
    assert {name for name in branches(pi.home) if name != "main"} == {"sigma/notice-a", "sigma/notice-b"}
    for node in (pi, sigma, second, pi):
        node.sync()
    in_order(sigma, second)
    assert {*branches(sigma.home), *branches(pi.home)} == {"main"}
    assert [row[1:] for row in sigma.rows()].count(("notice:merged", "✓ delivered")) == 2


def test_all_records_with_crlf_go_on_and_what_waits_goes_out(sigma: Node, pi: Node, second: Node) -> None:
    use(sigma, dos, FOLDER, "logs", "threads")
    assert len(sigma.outbox()) == 1
    assert "✓ delivered sigma/notice-a" in sigma.sync().stdout
    second.decide("pi/b", "do:merge")
    sigma.sync()
    in_order(sigma, second)
    assert {("do:merge", "✓ merged"), ("received", "—")} <= {(row[1], row[2][:8]) for row in sigma.rows("pi/a")}
    log = sigma.cn("log").stdout
    assert log.count("notice:merged") == second.cn("log").stdout.count("notice:merged") == 4


def test_taking_the_line_ends_back_is_no_loss(sigma: Node, second: Node) -> None:
    use(sigma, dos, PI)
    sigma.sync()
    use(sigma, dos, PI)  # what is CRLF once more has two of them
    sigma.sync()
    second.sync()
    use(second, lambda data: data.replace(b"\r", b""), PI)
    for node in (second, sigma):
        assert "restored" not in node.sync().stdout
    in_order(sigma, second)


def test_a_format_here_and_a_decision_there_come_together(sigma: Node, second: Node) -> None:
    second.decide("pi/b", "do:merge")
    use(sigma, dos, PI, "logs")
    assert "restored" not in sigma.sync().stdout
    second.sync()
    in_order(sigma, second)
    assert sigma.threads() == []


def test_what_an_earlier_cn_made_of_crlf_is_mended_by_a_sync(sigma: Node, pi: Node, second: Node) -> None:
    sigma.sync()
    second.sync()
    (month,) = [name for name in records(sigma, PI) if not name.endswith("open")]
    lines, why = (sigma.root / month).read_bytes(), [node.cn("why", "pi/a").stdout for node in (sigma, second)]
    items = [json.loads(line) for line in (sigma.root / PI / "open").read_text().splitlines()]
    for item in items:  # the last value of each line was taken with its carriage return
        item["fields"] |= {key: f"{item['fields'][key]}\r" for key in ("thread", "written") if key in item["fields"]}
    broken = "".join(json.dumps(item) + "\n" for item in items).encode()
    at = lines.index(b" out delivered ")
    at = lines.rindex(b"\n", 0, at) + 1
    sigma.write({month: lines[:at] + dos(lines[:at]) + lines[at:], f"{PI}/open": broken}, "as it was left")
    for node in (sigma, second):
        assert "left out" not in node.cn("sync").stderr
        assert "healthy" in node.cn("doctor").stdout
        assert [name[9:] for name in node.threads()] == ["pi-b.md"]
    assert [node.cn("why", "pi/a").stdout for node in (sigma, second)] == why
    second.decide("pi/b", "do:merge")
    sigma.sync()
    in_order(sigma, second)
    assert (sigma.root / month).read_bytes().startswith(lines)


def test_a_line_that_was_taken_out_beside_a_format_is_missed_and_its_commit_named(sigma: Node, second: Node) -> None:
    sigma.sync()
    second.sync()
    (month,) = [name for name in records(sigma, PI) if not name.endswith("open")]
    use(sigma, dos, PI)
    taken = (sigma.root / month).read_bytes().partition(b"\n")[2]
    made = sigma.write({month: taken}, "takes one out")
    said = second.cn("sync", check=1).stderr
    assert f"taken out by {made[:12]} takes one out (sigma);" in said
    assert "format" not in said
    for one in re.findall(r"'((?:git|cn) [^']*)'", said.partition("; if the loss is meant")[0]):
        if one.startswith("git "):
            subprocess.run(one, shell=True, cwd=second.root, check=True, capture_output=True, timeout=60)
    for node in (second, sigma):
        node.sync()
        assert "healthy" in node.cn("doctor").stdout
    second.decide("pi/b", "do:merge")
    sigma.sync()
    in_order(sigma, second)


def test_a_line_that_was_taken_out_here_beside_a_format_is_restored_once(sigma: Node, second: Node) -> None:
    sigma.sync()
    second.sync()
    (month,) = [name for name in records(sigma, PI) if not name.endswith("open")]
    was = months(sigma)
    use(sigma, lambda data: dos(data.partition(b"\n")[2]), month)
    assert "are restored" in sigma.sync().stdout
    second.sync()
    assert months(sigma) == months(second) == was
    in_order(sigma, second)


def test_a_merge_is_proven_to_a_creator_whose_records_have_crlf(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "a")
    pi.sync()
    use(pi, dos, f"{FOLDER}/sigma")
    pi.sync()
    sigma.sync()
    sigma.decide("pi/a", "do:merge")
    assert is_in_main(sigma, head)
    for node in (pi, sigma, pi):
        node.sync()
    assert "healthy" in pi.cn("doctor").stdout
    assert {*branches(sigma.home), *branches(pi.home)} == {"main"}
