"""Each thing that waits or was sent has a file of its own, and those that an earlier cn named are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.protocol.outbox_entry import file_names, outbox_path, parse_entry
from cn.values.names import Oid, topic_of
from tests.support.hubs import branches, cn, push
from tests.support.world import Node, World


def earlier_name(node: Node, folder: str, name: str) -> str:
    """Rename a file as an earlier cn named it."""
    path = node.root / folder / name
    data = path.read_bytes()
    entry = parse_entry(data)
    assert outbox_path(entry).rpartition("/")[2] == name
    head = Oid(str(getattr(entry, "id", "") or getattr(entry, "head", "")))
    old = file_names(entry.to, topic_of(entry.branch), head, entry.queued)[1]
    assert old != name
    node.write({f"{folder}/{name}": None, f"{folder}/{old}": data}, "as an earlier cn named it")
    return old


@pytest.mark.parametrize(
    "names", [("fix-typo", "fix+typo", "fix/typo", "fix--typo"), ("a" * 90 + "-one", "a" * 90 + "-two")]
)
def test_each_branch_of_ours_is_deleted_though_their_names_are_alike(
    world: World, sigma: Node, pi: Node, names: tuple[str, ...]
) -> None:
    head = world.propose(pi, sigma, names[0], {"docs/fix.md": "mended\n"})
    push(world.person(pi, sigma), sigma.home, *(f"{head}:refs/heads/pi/{name}" for name in names[1:]))
    sigma.cn("sync", check=None)
    pi.sync()
    sigma.decide(sigma.only_thread(), "delete:no")
    world.settle(sigma, pi)
    assert [name for name in branches(sigma.home) if name.startswith("pi/")] == []
    assert len([name for name in pi.sent() if name.endswith("-delete.md")]) == len(names)
    assert pi.outbox() == []


def test_peers_and_topics_that_are_joined_alike_have_files_of_their_own(
    tmp_path: Path, world: World, sigma: Node, pi: Node
) -> None:
    cn("init", "pi-x", "--path", tmp_path / "template/pi-x", check=0)
    other = World(tmp_path, tmp_path / "template").hub("pi-x")
    world.link(sigma, other)
    head = world.propose(sigma, pi, "x-fix")
    push(world.person(sigma, pi), other.home, f"{head}:refs/heads/sigma/fix")
    world.settle(sigma, pi, other)
    pi.decide("sigma/x-fix", "delete:no")
    other.decide("sigma/fix", "delete:no")
    world.settle(sigma, pi, other)
    assert [name for home in (pi.home, other.home) for name in branches(home) if "fix" in name] == []
    assert len([name for name in sigma.sent() if name.endswith("-delete.md")]) == 2


def test_what_an_earlier_cn_queued_is_sent_and_shown(world: World, sigma: Node, pi: Node) -> None:
    away = pi.home.rename(pi.home.with_name("away"))
    sigma.cn("send", "pi", "Hello", "--body", "How is it going?", check=None)
    (name,) = sigma.outbox()
    earlier_name(sigma, "threads/mail/outbox", name)
    assert "How is it going?" in sigma.cn("thread", "show", "pi:hello").stdout
    away.rename(pi.home)
    sigma.cn("outbox", "flush")
    assert "sigma/hello" in branches(pi.home)
    assert (sigma.outbox(), sigma.sent()) == ([], [name])
    assert "✓ delivered" in sigma.cn("why", "pi:hello").stdout


def test_what_an_earlier_cn_sent_is_shown_and_repeated_above_its_answer(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Hello", "--body", "How is it going?")
    (name,) = sigma.sent()
    old = earlier_name(sigma, "threads/mail/sent", name)
    assert "How is it going?" in sigma.cn("thread", "show", "pi:hello").stdout
    assert "How is it going?" in sigma.cn("thread", "show", old).stdout
    pi.sync()
    pi.cn("reply", "sigma/hello", "Well.")
    world.settle(pi, sigma)
    assert "> How is it going?" in sigma.thread(sigma.only_thread())


def test_the_file_of_another_thing_is_not_shown_for_one_that_an_earlier_cn_named_alike(
    world: World, sigma: Node, pi: Node
) -> None:
    sigma.cn("send", "pi", "Hello", "--body", "How is it going?")
    sigma.cn("send", "pi", "Secret", "--body", "Of another message.")
    mine, other = sorted(sigma.sent(), key=lambda name: "secret" in name)
    data, wrong = ((sigma.root / "threads/mail/sent" / name).read_bytes() for name in (mine, other))
    entry = parse_entry(data)
    old = file_names(entry.to, topic_of(entry.branch), Oid(str(getattr(entry, "id", ""))), entry.queued)[1]
    folder = "threads/mail/sent"
    sigma.write({f"{folder}/{mine}": None, f"{folder}/{old}": wrong}, "it took the place of the first")
    shown = sigma.cn("thread", "show", "pi:hello").stdout
    assert "its text is not in this hub" in shown
    assert "another message" not in shown
