"""Threads of our own by the command line: opened, found, shown, closed."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from cn.protocol.queue_item import PERIODIC, Cadence, parse_queued, period, reflection_path
from tests.support.hubs import ROOT, git
from tests.support.world import Node, World, content

OPENED = "**State:** open"


@pytest.fixture
def alone(world: World) -> Node:
    """A hub without origin and without peers."""
    return world.hub("sigma", origin=False)


def day() -> str:
    return datetime.now(UTC).strftime("%Y%m%d")


def facts(node: Node, *words: str) -> Any:
    return json.loads(node.cn(*words, "--json").stdout)


def only_adhoc(node: Node) -> str:
    (path,) = (p for p in (node.root / "threads/adhoc").iterdir() if p.suffix == ".md")
    return path.name


def test_an_adhoc_thread_is_one_commit_with_a_row(sigma: Node) -> None:
    before = sigma.main
    said = sigma.cn("adhoc", "Buy a rack | now", "--body", "It is full.\r\n\r\n**State:** done").stdout
    name = f"{day()}-buy-a-rack-now.md"
    assert f"✓ opened threads/adhoc/{name}" in said
    assert git(sigma.root, "rev-list", "--count", f"{before}..{sigma.main}") == "1"
    text = (content(sigma, f"threads/adhoc/{name}") or b"").decode()
    assert re.fullmatch(
        r"# Buy a rack \| now\n\n\*\*State:\*\* open\n\*\*Opened:\*\* \S+\n\*\*By:\*\* sigma\n\n"
        r"It is full\.\n\n\*\*State:\*\* done\n",
        text,
    )
    assert sigma.rows() == [(f"adhoc/{name[:-3]}", "opened", "✓ written")]
    sigma.cn("adhoc", "Buy a rack | now")
    assert facts(sigma, "read", f"{name[:-3]}-2")["state"] == "open"
    sigma.idle()


def test_the_body_comes_from_a_file(alone: Node) -> None:
    alone.cn("adhoc", "t", "--body-file", "-", stdin="from stdin\n")
    assert facts(alone, "read", only_adhoc(alone))["text"].endswith("from stdin\n")
    assert "exclude" in alone.cn("adhoc", "t", "--body", "a", "--body-file", "-", check=2).stderr
    for title in ("", "  \n"):
        assert "empty" in alone.cn("adhoc", title, check=2).stderr


def test_in_a_hub_with_a_queue_it_waits_for_the_agent(alone: Node) -> None:
    config = (alone.root / ".cn/hub.yaml").read_text()
    alone.write({".cn/hub.yaml": config.replace("interface: triage", "interface: queue")}, "queue")
    assert "waits for the agent" in alone.cn("adhoc", "Think").stdout
    (name,) = (n for n in alone.listing("state/queue") if n.endswith(".md"))
    asked = parse_queued(content(alone, f"state/queue/{name}") or b"")
    own = facts(alone, "read", f"adhoc/{day()}-think")
    assert (asked.path, asked.cadence, asked.sender) == (own["path"], Cadence.ADHOC, "sigma")
    assert own["input"] == asked.id
    alone.cn("next")
    assert asked.id in (alone.root / "state/input.md").read_text()
    alone.cn("thread", "close", own["source"])
    assert not (alone.root / "state/input.md").exists(), "what is closed needs no answer"


@pytest.mark.parametrize("cadence", PERIODIC, ids=lambda c: c.value)
def test_a_reflection_is_opened_once(alone: Node, cadence: Cadence) -> None:
    path = reflection_path(cadence, period(cadence, datetime.now(UTC)))
    done = alone.cn(cadence.value)
    assert f"✓ opened {path}" in done.stderr
    assert done.stdout.encode() == content(alone, path)
    assert done.stdout.startswith(f"# {cadence.value.capitalize()} reflection {period(cadence, datetime.now(UTC))[:4]}")
    tip = alone.main
    (alone.root / path).write_text(done.stdout + "\nA good one.\n")
    again = alone.cn(cadence.value)
    assert again.stdout.endswith("A good one.\n")
    assert again.stderr == ""
    assert alone.main == tip
    assert facts(alone, cadence.value)["committed"] is False
    assert not (alone.root / "state/queue").exists(), "the agent is asked when the period is over"


def test_two_clones_open_the_same_reflection(world: World, sigma: Node) -> None:
    other = world.second(sigma)
    sigma.cn("daily")
    assert "opened" not in other.cn("daily").stderr, "the other was first, and its file has come"
    assert other.main == sigma.main


def test_concerns(alone: Node) -> None:
    alone.cn("mca", "add", "Watch the disk", "--body", "It fills.")
    assert "open already" in alone.cn("mca", "add", "Watch the disk", check=1).stderr
    alone.cn("mca", "add", "Watch the log")
    first, second = facts(alone, "mca")
    assert facts(alone, "mca", "list") == [first, second]
    assert {first["title"], second["title"]} == {"Watch the disk", "Watch the log"}
    assert (first["kind"], first["by"]) == ("concern", "sigma")
    assert "**Source:** sigma" in facts(alone, "read", first["source"])["text"]
    refused = alone.cn("mca", "done", day(), check=1).stderr
    assert first["thread"] in refused
    assert second["thread"] in refused
    alone.cn("mca", "done", f"{day()}-watch-the-d")
    assert [one["title"] for one in facts(alone, "mca")] == ["Watch the log"]
    disk = f"state/mca/done/{first['thread']}" if first["title"].endswith("disk") else ""
    disk = disk or f"state/mca/done/{second['thread']}"
    assert b"**State:** done" in (content(alone, disk) or b"")
    source = f"mca/{disk.rpartition('/')[2][:-3]}"
    assert alone.rows(source) == [(source, "surface:Watch the disk", "✓ opened"), (source, "done", "✓ done")]
    assert "done already" in alone.cn("mca", "done", source, check=1).stderr
    assert "no open concern" in alone.cn("mca", "done", "", check=1).stderr
    assert facts(alone, "read", source)["state"] == "done"
    alone.cn("mca", "add", "Watch the disk")
    assert len(facts(alone, "mca")) == 2, "what was done may come back"


def test_the_list_holds_all_threads_oldest_first(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("adhoc", "one")
    (sigma.root / "threads/adhoc/free.md").write_text("words\n")
    sigma.cn("daily")
    found = facts(sigma, "thread", "list")
    assert {(t["kind"], t["state"]) for t in found} == {("inbox", "pending"), ("adhoc", "open"), ("reflection", "open")}
    assert found[0]["kind"] == "inbox", "what a peer wrote stands where it was written, not where it arrived"
    assert [t["opened"] for t in found[1:-1]] == sorted(t["opened"] for t in found[1:-1])
    assert (found[-1]["thread"], found[-1]["opened"], found[-1]["committed"]) == ("free.md", None, False)
    sigma.cn("thread", "close", f"{day()}-one", "--reason", "not needed")
    assert "adhoc/" + day() not in sigma.cn("thread", "list").stdout
    every = {t["source"]: t for t in facts(sigma, "thread", "list", "--all")}
    assert every[f"adhoc/{day()}-one"]["reason"] == "not needed"
    assert "already" in sigma.cn("thread", "close", f"{day()}-one", check=1).stderr


def test_any_thread_is_shown(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("adhoc", "one")
    name = sigma.only_thread()
    for text in (name, name[:-3], "pi/proposal", f"threads/inbox/{name}"):
        assert sigma.cn("read", text).stdout == sigma.cn("inbox", "show", text).stdout
    for text in (f"{day()}-one", f"{day()}-one.md", f"adhoc/{day()}-one", f"threads/adhoc/{day()}-one.md"):
        assert sigma.cn("thread", "show", text).stdout.startswith("# one\n")
    assert "'cn done" in sigma.cn("thread", "close", "pi/proposal", check=1).stderr
    assert sigma.only_thread() == name
    for text in ("nothing", "adhoc/nothing", "../../etc/passwd", "threads/adhoc/../../.cn/hub.yaml", "\udcff", ""):
        assert sigma.cn("read", text, check=1).stderr.startswith("cn: no thread")
        assert sigma.cn("thread", "close", text, check=1).stderr
    sigma.decide("pi/proposal", "delete:no")
    assert sigma.cn("read", name).stdout == sigma.cn("inbox", "show", name).stdout


def test_a_name_that_means_several_is_refused(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.write({f"threads/adhoc/{name}": "mine\n", f"threads/reflections/daily/{day()}.md": "d\n"})
    sigma.write({f"threads/adhoc/{day()}.md": "a\n"})
    for words in (("read", name), ("thread", "close", name), ("done", name)):
        refused = sigma.cn(*words, check=1).stderr
        assert f"threads/adhoc/{name}, threads/inbox/{name}" in refused
    assert "threads/reflections/daily" in sigma.cn("read", day(), check=1).stderr
    assert sigma.cn("read", f"threads/adhoc/{name}").stdout == "mine\n"
    assert sigma.cn("read", f"adhoc/{name}").stdout == "mine\n"
    assert "pi/proposal" in sigma.cn("read", f"threads/inbox/{name}").stdout
    sigma.decide("pi/proposal", "delete:no")
    assert "means 2 threads" in sigma.cn("read", name, check=1).stderr, "a done one is a thread too"


def test_what_was_edited_goes_in_when_it_is_closed(sigma: Node) -> None:
    sigma.cn("adhoc", "one")
    path = sigma.root / f"threads/adhoc/{day()}-one.md"
    path.write_text(path.read_text() + "\nan edit\n")
    sigma.cn("thread", "close", "adhoc/" + path.stem)
    text = path.read_text()
    assert text.endswith("\nan edit\n")
    assert "**State:** closed" in text
    assert git(sigma.root, "status", "--porcelain") == ""
    sigma.cn("mca", "add", "two")
    (concern,) = (sigma.root / "state/mca").glob("*.md")
    concern.write_text(concern.read_text() + "\nan edit\n")
    sigma.cn("thread", "close", concern.stem)
    assert not concern.exists()
    assert (concern.parent / "done" / concern.name).read_text().endswith("an edit\n")
    assert git(sigma.root, "status", "--porcelain") == ""


def test_what_cannot_be_read_is_not_written_over(alone: Node) -> None:
    alone.cn("adhoc", "one")
    path = alone.root / f"threads/adhoc/{day()}-one.md"
    before = alone.main
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in alone.cn("thread", "close", path.stem, check=1).stderr
    (path.parent / "new.md").write_text("mine\n")
    assert "'cn commit'" in alone.cn("thread", "close", "new", check=1).stderr
    assert alone.main == before
    assert path.read_bytes() == b"\xff\xfe"
    assert "<0xFF>" in alone.cn("read", path.stem).stdout


def test_foreign_text_does_not_reach_the_terminal(alone: Node) -> None:
    evil = "\x1b[31mred\x1b]0;title\x07 \u202eabc https://user:secret@example.org/"
    harmless = evil.replace("user:secret@", "")  # a password would be refused
    alone.cn("adhoc", harmless, "--body", harmless)
    (alone.root / "threads/adhoc/raw.md").write_text(f"# {evil}\n\n{evil}\n")
    for words in (("thread", "list"), ("read", "raw"), ("thread", "list", "--json"), ("read", "raw", "--json")):
        said = alone.cn(*words).stdout
        assert not {"\x1b", "\x07", "\u202e"} & set(said), words
    assert "secret" not in alone.cn("thread", "list").stdout
    assert "user:secret@" in alone.cn("read", "raw").stdout, "of a text that is read nothing is taken out"


def test_links_and_pipes_are_no_threads(alone: Node) -> None:
    folder = alone.root / "threads/adhoc"
    (folder / "x.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "p.md")
    (folder / "d.md").mkdir()
    assert facts(alone, "thread", "list") == []
    assert "no thread" in alone.cn("read", "x", check=1).stderr
    assert "root:" not in alone.cn("thread", "list", "--all").stdout


def test_a_dry_run_changes_nothing(sigma: Node) -> None:
    sigma.cn("adhoc", "one")
    sigma.cn("mca", "add", "two")
    before = sigma.refs(), git(sigma.root, "status", "--porcelain")
    (concern,) = facts(sigma, "mca")
    for words in (
        ("adhoc", "three"),
        ("daily",),
        ("mca", "add", "three"),
        ("mca", "done", concern["thread"]),
        ("thread", "close", f"{day()}-one"),
    ):
        said = sigma.cn(*words, "--dry-run").stdout
        assert "would: " in said, words
        assert "✓" not in said
    assert (sigma.refs(), git(sigma.root, "status", "--porcelain")) == before


def test_an_agent_may_not(alone: Node) -> None:
    for words in (("adhoc", "x"), ("daily",), ("mca",), ("thread", "list"), ("read", "x"), ("save",)):
        assert "an agent may not" in alone.cn(*words, check=1, env={"CN_ROLE": "agent"}).stderr


def test_the_shapes_are_those_of_the_page(alone: Node) -> None:
    page = (ROOT / "docs/protocol/json.md").read_text("utf-8")
    found = re.findall(r"<!-- shape: (\w+) -->\n```json\n(.*?)\n```", page, re.S)
    shapes = {name: json.loads(text) for name, text in found}
    alone.cn("mca", "add", "two")
    assert list(facts(alone, "daily")) == list(shapes["own"])
    assert list(facts(alone, "read", f"daily/{day()}")) == list(shapes["own"])
    for words in (("thread", "list"), ("mca",), ("mca", "list")):
        assert list(facts(alone, *words)[0]) == list(shapes["threads"][0])


def test_names_are_completed(alone: Node) -> None:
    alone.cn("adhoc", "one")
    alone.cn("mca", "add", "two")

    def complete(words: str) -> str:
        env = {"_CN_COMPLETE": "bash_complete", "COMP_WORDS": f"cn --hub {alone.root} {words}"}
        count = len(env["COMP_WORDS"].split(" ")) - 1
        return alone.cn(check=None, env={**env, "COMP_CWORD": str(count)}).stdout

    assert f"adhoc/{day()}-one" in complete("read ad")
    assert f"adhoc/{day()}-one" in complete("thread close ad")
    assert f"{day()}-two-" in complete(f"mca done {day()[:4]}")
    assert "adhoc" not in complete(f"mca done {day()[:4]}")


def test_who_leaves_out_the_day_is_told_the_whole_name(alone: Node) -> None:
    alone.cn("adhoc", "Plan week")
    said = alone.cn("thread", "close", "plan-week", check=1).stderr
    (close,) = re.findall(r"'cn (thread close [^']*-plan-week)'", said)
    alone.cn(*close.split())
    assert "plan-week" not in alone.cn("thread", "list").stdout
