"""Hubs, mailboxes and peers at paths that few people choose live the whole loop there, dry and real."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import bare, cn, cn_env, git
from tests.support.world import Node, World, is_in_main, picture

NON_UTF8 = os.fsdecode(b"caf\xe9")
ODD = {
    "all": f"-a:b\n \"c\" 'd' %e\\ $HOME `x` [f]*?{{g}} ; & # ~ \x1b[31m\t\u202e{NON_UTF8} ",
    "blank": " blank ",
    "backslash": "back\\",
    "quotes": 'say "it\'s"',
    "double": '"quoted"',
    "variable": "$HOME",
    "glob": "[a]*?{b}",
    "deep": "",
    "hash": "#x;y",
    "tilde": "~root",
    "escape": "\x1b[31m\ttab",
    "helper": "ext::sh -c x",
    "dash": "-dash",
    "bidi": "\u202egnp",
    "colon": "a:b",
    "newline": "two\nlines",
    "bytes": NON_UTF8,
    "percent": "%0A%d",
    "return": "a\rb\r",
}
KINDS = ("origin", "mailbox", "alone", "apart")
"""With an origin, also with a mailbox beside it, with neither, with the repository apart from the work tree."""
CASES = [(name, KINDS[i % len(KINDS)]) for i, name in enumerate(ODD)] + [("all", kind) for kind in KINDS[1:]]
LOOKS = ("status", "log", "inbox", "inbox --all", "thread list --all", "outbox", "queue", "usage", "peer list", "mca")
_MOST = os.pathconf("/", "PC_PATH_MAX") - 1 - 400


def deep(above: Path) -> Path:
    """200 folders more, as long as a hub's path may be."""
    room = _MOST - len(os.fsencode(above)) - len("/cn-sigma")
    size, more = divmod(room, 200)
    return above / "/".join(["d" * (size - 1)] * 199 + ["d" * (size - 1 + more)])


def make(folder: Path, name: str, kind: str) -> Node:
    """A hub as a person makes it."""
    root = folder / f"cn-{name}"
    cn("init", name, "--path", root, "--dry-run", check=0)
    assert not root.exists()
    cn("init", name, "--path", root, check=0)
    if kind == "alone":
        return Node(name, root, root, str(root))
    home = bare(folder / "host" / f"{name}.git")
    git(root, "remote", "add", "origin", str(home))
    git(root, "push", "--quiet", "origin", "main")
    if kind == "apart":
        git(root, "init", "--quiet", "--separate-git-dir", str(folder / "apart.git"))
    node = Node(name, root, home, str(home))
    node.configure("mailbox_trusted: true\n")
    if kind == "mailbox":
        box = bare(folder / "host" / "box.git")
        git(root, "remote", "add", "box", str(box))
        node.configure("mailbox: box\n")
        node.home, node.url = box, str(box)
        node.sync()
    return node


def act(node: Node, *words: str) -> str:
    """A command that acts, dry and real: the first changes nothing, both succeed and show no hidden character."""
    before = picture(node.root, node.home)
    dry = node.cn(*words, "--dry-run")
    assert picture(node.root, node.home) == before, words
    done = node.cn(*words)
    assert (dry.stderr, done.stderr) == ("", ""), words
    assert not {"\x1b", "\u202e"} & set(dry.stdout + done.stdout), words
    return done.stdout


@pytest.mark.sliced(28)
@pytest.mark.parametrize(("name", "kind"), CASES, ids=map("-".join, CASES))
def test_the_whole_loop_runs_at_an_odd_path(tmp_path: Path, template: Path, home: Path, name: str, kind: str) -> None:
    folder = tmp_path / ODD[name] if ODD[name] else deep(tmp_path)
    folder.mkdir(parents=True)
    world = World(folder, template)
    sigma, pi = make(folder, "sigma", kind), make(folder, "pi", "origin")
    git(sigma.root, "config", "cn.wake", 'printf %s "$CN_HUB" > "$HOME/woken"')
    for node, other in ((sigma, pi), (pi, sigma)):
        act(node, "peer", "add", other.name, other.url, "--check")

    head = world.propose(pi, sigma)
    act(sigma, "sync")
    assert os.fsdecode((home / "woken").read_bytes()) == str(sigma.root)
    thread = sigma.only_thread()
    act(sigma, "inbox", "triage", "pi/proposal", "do:merge")
    act(sigma, "inbox", "process")
    assert is_in_main(sigma, head)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)

    act(pi, "send", "sigma", "hello", "--body", "How are you?")
    act(sigma, "sync")
    act(sigma, "reply", sigma.only_thread(), "well")
    act(pi, "sync")
    assert "> well" in pi.thread(pi.only_thread())
    act(pi, "done", pi.only_thread())

    config = (sigma.root / ".cn/hub.yaml").read_text()
    sigma.write({".cn/hub.yaml": config.replace("interface: triage", "interface: queue")}, "queue")
    act(pi, "send", "sigma", "again")
    act(sigma, "sync")
    assert "again" in sigma.cn("input").stdout
    act(sigma, "out", "do", "ack", "--reason", "seen, thanks")
    act(sigma, "inbox", "process")
    world.settle(pi, sigma)

    (sigma.root / "threads/adhoc/20260205-note.md").write_text("# note\n\ntext\n")
    act(sigma, *(("commit",) if kind == "alone" else ("save",)))
    act(sigma, "adhoc", "a title")
    look(sigma, thread)
    schedule(sigma)
    trust(world, pi)
    world.settle(pi, sigma)
    for node in (sigma, pi):
        node.idle()


def look(node: Node, thread: str) -> None:
    """What only shows shows all of it, for people and as JSON."""
    for words in (*(line.split() for line in LOOKS), ["inbox", "show", thread], ["why", thread, "--full"]):
        assert not {"\x1b", "\u202e"} & set(node.cn(*words).stdout)
        json.loads(node.cn(*words, "--json").stdout)
    for option in ((), ("--fix",), ("--full",)):
        assert "✗" not in node.cn("doctor", *option).stdout
    asked = {"_CN_COMPLETE": "bash_complete", "COMP_WORDS": "cn thread show ", "COMP_CWORD": "3"}
    assert "adhoc/20260205-note" in cn(env=asked, cwd=node.root, check=0).stdout


def schedule(node: Node) -> None:
    """A line of the crontab runs the hub, or cn says that no table can hold it, and what to do."""
    if any(ord(char) < 32 for char in str(node.root)) or len(str(node.root)) > 400:
        for words in (("show",), ("install",), ("install", "--dry-run")):
            said = node.cn("cron", *words, check=1).stderr
            assert "a crontab cannot hold" in said or "longer than cron takes" in said
            assert "systemd units in cron/" in said
        node.cn("cron", "remove")
        return
    act(node, "cron", "install")
    for job in json.loads(node.cn("cron", "show", "--json").stdout)["installed"]:
        line = job.split(" ", 5)[5].replace("\\%", "%")  # as cron does, crontab(5)
        subprocess.run(["sh", "-c", line], env=cn_env(), check=True, timeout=60)
    act(node, "cron", "remove")


def trust(world: World, node: Node) -> None:
    """A change to a protected file that comes from elsewhere is shown, accepted, and goes on."""
    other = world.second(node)
    other.write({"spec/SOUL.md": (other.root / "spec/SOUL.md").read_text() + "more\n"}, "soul")
    assert "cn trust" in node.cn("sync", check=1).stderr
    assert "+more" in node.cn("trust", check=1).stdout
    node.cn("trust", "--yes")
    act(node, "sync")


def test_a_path_that_leaves_no_room_is_refused_at_once(tmp_path: Path) -> None:
    folder = deep(tmp_path)
    long = {folder / "cn-sigma-1": "bytes", tmp_path / "new" / ("x" * 256): "a part of it has 256 bytes"}
    for path, reason in long.items():
        for words in (("init", "sigma", "--path", path), ("--hub", path, "status"), ("sync", path)):
            done = cn(*words, check=2)
            assert done.stderr.startswith(f"cn: no hub can be at {tmp_path}/")
            assert reason in done.stderr
            assert "choose a shorter path" in done.stderr
    assert list(tmp_path.iterdir()) == []
    cn("init", "sigma", "--path", folder / "cn-sigma", check=0)
