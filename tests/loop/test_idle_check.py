"""A sync with nothing new is short, and anything that is not as it was makes it an ordinary one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git import environment
from cn.git.repository import open_hub
from cn.loop import sync as sync_module
from cn.outbox.deliver import deliver
from cn.run.run import Run
from tests.support.hubs import branches, clone, cn_env, commit, git
from tests.support.world import Node, World

MODULES = (
    "import sys\n"
    "sys.argv = ['cn', *sys.argv[1:]]\n"
    "import os\n"
    "os._exit = lambda code: print(code, *sorted(sys.modules)) or sys.exit(code)\n"
    "from cn.cli.start import run\n"
    "run()\n"
)
"""A run that prints, when it was a short one, what it had imported."""


def note(node: Node) -> Path:
    """Where a quiet sync notes what it saw."""
    return node.root / ".git/cn/quiet"


def is_short(node: Node, *words: str) -> bool:
    """Does the next sync end without the ordinary run?"""
    command = [sys.executable, "-c", MODULES, "--hub", str(node.root), *(words or ("inbox", "sync"))]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.startswith("0 ")


@pytest.fixture
def quiet(world: World, sigma: Node, pi: Node) -> Node:
    """A hub with a thread that waits, and nothing new."""
    world.propose(pi, sigma)
    for _ in range(3):
        sigma.sync()
    assert note(sigma).is_file()
    return sigma


def test_an_idle_sync_starts_one_git_for_our_refs_and_one_for_each_remote(quiet: Node, tmp_path: Path) -> None:
    events, config = tmp_path / "events", tmp_path / "gitconfig"
    events.mkdir()
    config.write_text(f"[trace2]\n\teventTarget = {events}\n")
    env = {"GIT_CONFIG_GLOBAL": str(config)}
    quiet.cn("sync", env=env)
    for _ in range(2):
        for file in events.iterdir():
            file.unlink()
        done = quiet.cn("sync", env=env)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list(events.iterdir())) == 3, "our refs, origin, pi"


def test_an_idle_sync_does_not_load_the_command_line(quiet: Node) -> None:
    command = [sys.executable, "-c", MODULES, "--hub", str(quiet.root), "inbox", "sync", "-q"]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=120, check=True)
    code, *names = done.stdout.split()
    assert code == "0"
    heavy = {"click", "yaml", "rich", "git", "subprocess", "dataclasses", "typing", "json", "cn.cli.main"}
    assert not heavy & set(names)


def edit_peers(world: World, node: Node) -> None:
    path = node.root / "state/peers.md"
    path.write_text(path.read_text() + "\nA note.\n")


def drop_pin(world: World, node: Node) -> None:
    (ref,) = [ref for ref in node.refs() if ref.startswith("refs/cn/pins/")]
    git(node.root, "update-ref", "-d", ref)


def old_note(world: World, node: Node) -> None:
    text = note(node).read_text()
    lines = [f"until {time.time() - 1}" if line.startswith("until ") else line for line in text.split("\n")]
    note(node).write_text("\n".join(lines))


def early_note(world: World, node: Node) -> None:
    """A clock that went backwards."""
    text = note(node).read_text()
    lines = [f"until {time.time() + 9e6}" if line.startswith("until ") else line for line in text.split("\n")]
    note(node).write_text("\n".join(lines))


def lock_inbox_copy(world: World, node: Node) -> None:
    path = node.root / "threads/inbox" / node.only_thread()
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[World, Node], object]] = {
    "a branch is new": lambda w, n: w.propose(w.nodes["pi"], n, "more"),
    "a branch moved": lambda w, n: w.propose(w.nodes["pi"], n, files={"docs/x.md": "moved\n"}, force=True),
    "a branch is gone": lambda w, n: w.withdraw(w.nodes["pi"], n),
    "ours is there, pushed by hand": lambda w, n: w.propose(n, w.nodes["pi"], "by-hand"),
    "main moved here": lambda w, n: commit(n.root, {"docs/here.md": "here\n"}, "here"),
    "main moved at origin": lambda w, n: at_origin(w, n),
    "a thread was removed": lambda w, n: (n.root / "threads/inbox" / n.only_thread()).unlink(),
    "a folder is in the place of a thread": lock_inbox_copy,
    "a file lies in the inbox": lambda w, n: (n.root / "threads/inbox/stray.md").write_text("stray\n"),
    "the configuration is edited": edit_peers,
    "git's configuration changed": lambda w, n: git(n.root, "config", "cn.x", "y"),
    "a merge is open": lambda w, n: (n.root / ".git/MERGE_HEAD").write_text("0" * 40),
    "HEAD is elsewhere": lambda w, n: git(n.root, "switch", "-q", "-c", "other"),
    "a pin is gone": drop_pin,
    "a journal was left": lambda w, n: (n.root / ".git/cn/journal").write_text("{}"),
    "somebody is to be woken": lambda w, n: (n.root / ".git/cn/wake").write_text("a.md\n"),
    "the agent wrote something": lambda w, n: (n.root / "state/output.md").write_text("id: x\n"),
    "a peer is gone": lambda w, n: shutil.rmtree(w.nodes["pi"].home),
    "another work tree": lambda w, n: git(n.root, "worktree", "add", "-q", str(w.folder / "other")),
    "this clone's memory changed": lambda w, n: (n.root / ".git/cn/local.json").write_text("{}"),
    "the note is too old": old_note,
    "the note is of the future": early_note,
    "the note is damaged": lambda w, n: note(n).write_bytes(b"\xff\x00"),
    "the note is cut off": lambda w, n: note(n).write_text(note(n).read_text()[:60]),
}


def at_origin(world: World, node: Node) -> None:
    person = world.person(world.nodes["pi"], node)
    git(person, "fetch", "-q", node.url, "main")
    git(person, "switch", "-q", "--detach", "FETCH_HEAD")
    commit(person, {"docs/there.md": "there\n"}, "there")
    git(person, "push", "-q", node.url, "HEAD:refs/heads/main")


@pytest.fixture
def fresh(world: World, sigma: Node, pi: Node) -> Node:
    """A hub whose last sync brought a thread."""
    sigma.sync()
    world.propose(pi, sigma)
    assert "received pi/proposal" in sigma.sync().stdout
    return sigma


def test_who_writes_to_a_file_that_the_last_sync_replaced_is_told_by_the_next(world: World, fresh: Node) -> None:
    """An editor that had it open."""
    world.propose(world.nodes["pi"], fresh, "more")
    fresh.sync()
    assert is_short(fresh)
    (replaced, *_) = [p for p in (fresh.root / ".git/cn/old").glob("*/*") if p.name != "manifest"]
    with replaced.open("a") as file:
        file.write("more\n")
    assert "was written to while cn replaced it" in fresh.sync().stdout


@pytest.mark.sliced(15)
@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changed_right_after_news_makes_the_next_sync_an_ordinary_one(
    world: World, fresh: Node, what: str
) -> None:
    assert is_short(fresh)
    CHANGES[what](world, fresh)
    assert not is_short(fresh)


@pytest.mark.sliced(15)
@pytest.mark.parametrize("what", CHANGES)
def test_whatever_changed_makes_the_next_sync_an_ordinary_one(world: World, quiet: Node, what: str) -> None:
    assert is_short(quiet)
    CHANGES[what](world, quiet)
    assert not is_short(quiet)


def test_what_came_while_the_syncs_were_short_is_found(world: World, quiet: Node, pi: Node) -> None:
    assert is_short(quiet)
    world.propose(pi, quiet, "more")
    assert "received pi/more" in quiet.sync().stdout
    (quiet.root / "threads/inbox" / quiet.threads()[0]).unlink()
    assert "was missing; restored" in quiet.sync().stdout
    quiet.idle()


@pytest.mark.sliced(9)
@pytest.mark.parametrize("route", ["mailbox", "pickup"])
@pytest.mark.parametrize("origin", [True, False])
@pytest.mark.parametrize("wake", ["", "true", "false"])
def test_a_sync_right_after_one_that_brought_something_is_short(
    world: World, route: str, origin: bool, wake: str
) -> None:
    """Not where nobody could be woken: that is tried again."""
    sigma, pi = world.hub("sigma", origin=origin), world.hub("pi")
    world.link(sigma, pi, route)
    if wake:
        git(sigma.root, "config", "cn.wake", wake)
    world.propose(pi, sigma, "one")
    sigma.cn("sync", check=None)
    sigma.cn("sync", check=None)
    world.propose(pi, sigma, "two")
    assert "received pi/two" in sigma.cn("sync", check=None).stdout
    assert is_short(sigma) == (wake != "false")
    world.withdraw(pi, sigma, "two")
    sigma.cn("sync", check=None)
    assert len(sigma.threads()) == 2 if not origin else True
    assert sigma.cn("sync", check=None).stdout == ""


def test_what_came_during_a_sync_that_brought_something_is_found_by_the_next(
    world: World, sigma: Node, pi: Node
) -> None:
    """A branch that origin got after it was listed, while another one was fetched."""
    sigma.sync()
    world.propose(pi, sigma, "late")
    late = branches(sigma.home)["pi/late"]
    git(sigma.home, "update-ref", "-d", "refs/heads/pi/late")
    world.propose(pi, sigma, "early")
    tools = world.folder / "tools"
    tools.mkdir()
    real = shutil.which("git")
    (tools / "git").write_text(
        f"#!/bin/sh\ncase \"$*\" in *' fetch '*)"
        f" env -i '{real}' --git-dir='{sigma.home}' update-ref refs/heads/pi/late {late};; esac\n"
        f"exec '{real}' \"$@\"\n"
    )
    (tools / "git").chmod(0o755)
    done = sigma.cn("inbox", "sync", env={"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"})
    assert "received pi/early" in done.stdout
    assert note(sigma).exists()
    assert "received pi/late" in sigma.sync().stdout
    assert len(sigma.threads()) == 2


def test_a_thread_that_was_removed_during_the_sync_that_brought_it_comes_back(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the inbox was looked through, and before the sync ends."""
    sigma.sync()
    world.propose(pi, sigma)
    real = deliver

    def remove(run: Run, *, force: bool = False) -> None:
        real(run, force=force)
        for path in (sigma.root / "threads/inbox").glob("*.md"):
            path.unlink()

    monkeypatch.setattr(sync_module, "deliver", remove)
    sync_module.sync(open_hub(sigma.root))
    assert not note(sigma).exists()
    assert "was missing; restored" in sigma.sync().stdout


def test_a_hub_without_peers_sees_what_is_pushed_to_its_origin(sigma: Node, tmp_path: Path) -> None:
    """Nobody lists origin there, so no note says how it was."""
    for _ in range(3):
        sigma.sync()
    person = clone(sigma.url, tmp_path / "person", "Sigma")
    commit(person, {"docs/new.md": "x\n"}, "new")
    git(person, "push", "-q", "origin", "HEAD:main")
    sigma.sync()
    assert (sigma.root / "docs/new.md").is_file()


def test_a_hub_without_origin_is_short_too_and_sees_its_own_branches(world: World) -> None:
    sigma, pi = world.hub("sigma", origin=False), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "one")
    for _ in range(3):
        sigma.sync()
    assert is_short(sigma)
    world.propose(pi, sigma, "two")
    assert not is_short(sigma)
    assert len(sigma.threads()) == 2


@pytest.mark.parametrize("words", [("sync", "-v"), ("sync", "--json"), ("sync", "--dry-run"), ("status",)])
def test_other_commands_are_never_short(quiet: Node, words: tuple[str, ...]) -> None:
    assert not is_short(quiet, *words)


def test_an_agent_is_refused_as_ever(quiet: Node) -> None:
    done = quiet.cn("sync", check=1, env={"CN_ROLE": "agent"})
    assert "an agent may not run 'cn sync'" in done.stderr


def test_a_sync_that_has_something_to_tell_leaves_no_note(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    for _ in range(3):
        sigma.sync()
    away = pi.home.with_name("away.git")
    os.rename(pi.home, away)
    for code in (1, 0, 0):
        sigma.cn("sync", check=code)
    assert not note(sigma).exists()
    assert not is_short(sigma)


def test_a_deferral_ends_the_note_in_time(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "defer:soon", "--until", "2m")
    for _ in range(3):
        sigma.sync()
    (until,) = [line for line in note(sigma).read_text().split("\n") if line.startswith("until ")]
    assert float(until.split(" ")[1]) <= time.time() + 120


def test_another_run_at_work_is_waited_for(quiet: Node) -> None:
    import fcntl

    with (quiet.root / ".git/cn/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not is_short(quiet)


def test_a_thread_that_was_refused_counts_as_soon_as_somebody_decides_it(world: World, quiet: Node) -> None:
    name = quiet.only_thread()
    path = quiet.root / "threads/inbox" / name
    before = path.read_text()
    quiet.write_triage(name, "do:whatever")
    quiet.process(check=1)
    decided = path.read_text()
    path.write_text(before)
    for _ in range(3):
        quiet.sync()
    path.write_text(decided)
    quiet.sync()


def test_settings_of_git_in_the_environment_are_looked_at(quiet: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_short(quiet)
    for key, value in (("COUNT", "1"), ("KEY_0", "cn.x"), ("VALUE_0", "y")):
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    assert not is_short(quiet)


def test_a_repository_that_keeps_us_waiting_is_left_to_the_ordinary_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, hung = world.hub("pi").home, tmp_path / "hung.git"
    shutil.copytree(repo, hung)
    (hung / "packed-refs").unlink(missing_ok=True)
    os.mkfifo(hung / "packed-refs")
    monkeypatch.setattr(environment, "SECONDS", 1.0)
    words = ["--format=%(refname)"]
    assert environment.list_many([(str(repo), words)], 8) is not None
    assert environment.list_many([(str(repo), words), (str(hung), words)], 8) is None
    assert environment.find_local_git_dir(str(hung)) == str(hung)
    (hung / "config").unlink()
    os.mkfifo(hung / "config")
    assert environment.find_local_git_dir(str(hung)) is None


@pytest.mark.parametrize("key", ["include.path", "includeIf.gitdir:/.path"])
def test_a_file_that_the_configuration_takes_in_is_looked_at_too(quiet: Node, key: str) -> None:
    git(quiet.root, "config", key, "more")
    quiet.sync()
    quiet.sync()
    assert is_short(quiet)
    (quiet.root / ".git/more").write_text("[include]\n\tpath = ../even-more\n")
    assert not is_short(quiet)
    quiet.sync()
    quiet.sync()
    assert is_short(quiet)
    (quiet.root / "even-more").write_text("")
    assert not is_short(quiet)
