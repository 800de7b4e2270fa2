"""Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no hub, 75 locked."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hubs import cn, cn_env, git, make_ssh_key
from tests.support.terminal import Terminal
from tests.support.world import Node, World

ACTING = [
    ("inbox", "sync"),
    ("inbox", "process"),
    ("sync",),
    ("peer", "sync"),
    ("outbox", "flush"),
    ("send", "pi", "hello"),
    ("reply", "pi/proposal", "hello"),
    ("inbox", "triage", "pi/proposal", "do:merge"),
    ("peer", "add", "omega", "/nowhere"),
    ("peer", "remove", "pi"),
]


def test_a_held_lock_is_75_and_changes_nothing(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("lock_wait: 0.1\n")
    world.propose(pi, sigma)
    sigma.sync()
    before = sigma.refs()
    with (sigma.root / ".git/cn/lock").open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for words in ACTING:
            done = sigma.cn(*words, check=75)
            assert done.stderr, words
            assert done.stdout == "", words
        assert sigma.refs() == before
        assert sigma.cn("inbox", "sync", "--dry-run").returncode == 0
    sigma.process()


def test_no_hub_is_3(tmp_path: Path) -> None:
    for words in (("sync",), ("inbox", "process"), ("send", "pi", "x")):
        done = cn(*words, cwd=tmp_path, check=3)
        assert "no hub" in done.stderr
        assert "cn init" in done.stderr
    assert "no hub" in cn("sync", str(tmp_path), check=3).stderr
    assert "no hub" in cn("sync", hub=tmp_path / "none", check=3).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("inbox", "triage"),
        ("inbox", "triage", "x", "do:nonsense"),
        ("inbox", "triage", "x", "delete:"),
        ("inbox", "triage", "x", "do:reply:thanks"),
        ("inbox", "triage", "x", "defer:later", "--until", "soon"),
        ("inbox", "triage", "x", "do:merge", "--actor", "No Name"),
        ("peer", "add", "UPPER", "/x"),
        ("peer", "add", "ok", "ext::sh"),
        ("peer", "add", "ok", "/x", "--key", "no key"),
        ("sync", "--nonsense"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(sigma: Node, words: tuple[str, ...]) -> None:
    main = sigma.main
    done = sigma.cn(*words, check=2)
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert sigma.main == main


def test_a_word_too_long_for_a_name_is_told_short_and_with_what_to_do(sigma: Node) -> None:
    long = "x" * 300
    done = sigma.cn("peer", "add", "bad", "/x", "--key", long, check=2)
    assert "no SSH public key" in done.stderr
    done = cn("sync", long, cwd=sigma.root, check=2)
    assert "no hub can be at" in done.stderr
    assert "choose a shorter path" in done.stderr
    assert long not in done.stderr


def test_a_private_key_is_not_told_again(sigma: Node, tmp_path: Path) -> None:
    body = "b3BlbnNzaC1rZXktdjEAAAAA" * 20
    text = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----"
    (tmp_path / "id").write_text(text)
    (tmp_path / "damaged").write_text(body)
    for key in (text, text.replace("\n", " "), tmp_path / "id", body, tmp_path / "damaged"):
        done = sigma.cn("peer", "add", "bad", "/x", "--key", key, check=2)
        assert body not in done.stderr
        assert ".pub" in done.stderr


def test_a_hub_that_cannot_be_worked_on_is_1(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.root, "switch", "--quiet", "-c", "elsewhere")
    done = sigma.cn("sync", check=1)
    assert "git switch main" in done.stderr
    assert "git switch main" in sigma.cn("sync", "--dry-run", check=1).stderr, "there is no plan to show"
    git(sigma.root, "switch", "--quiet", "main")
    sigma.cn("sync", "--dry-run", check=0)
    (sigma.root / ".git/rebase-merge").mkdir()
    assert "rebase" in sigma.cn("inbox", "process", check=1).stderr
    (sigma.root / ".git/rebase-merge").rmdir()
    sigma.sync()


def test_an_unreachable_origin_commits_nothing_and_is_1(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    before = sigma.refs()
    away = sigma.home.with_name("away.git")
    shutil.move(sigma.home, away)
    for words in (("sync",), ("inbox", "process")):
        done = sigma.cn(*words, check=1)
        assert "origin" in done.stderr
    assert sigma.refs() == before
    assert "the send waits here" in sigma.cn("send", "pi", "x").stdout
    shutil.move(away, sigma.home)
    sigma.process()
    assert sigma.threads() == []


def test_an_unknown_thread_or_peer_is_1(sigma: Node, pi: Node) -> None:
    assert "cn inbox" in sigma.triage("pi/none", "do:merge", check=1).stderr
    assert "cn peer" in sigma.cn("peer", "remove", "none", check=1).stderr
    assert "none" in sigma.cn("peer", "sync", "none", check=1).stderr
    sigma.cn("peer", "add", "pi", "/x", check=1)


def test_an_existing_folder_is_no_place_for_a_hub(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = cn("init", "fresh", "--path", tmp_path, check=1)
    assert "not empty" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    cn("init", "UPPER", "--path", tmp_path / "x", check=2)


def test_a_terminated_run_ends_with_143_and_the_next_goes_on(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    git(sigma.root, "config", "cn.wake", "sleep 30")
    child = subprocess.Popen(
        [sys.executable, "-m", "cn", "--hub", str(sigma.root), "sync"],
        env=cn_env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    inbox = sigma.root / "threads/inbox"
    deadline = time.monotonic() + 60
    while not list(inbox.glob("*.md")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    child.terminate()
    told = child.communicate(timeout=30)[1]
    assert child.returncode == 143
    hint = "it is committed: the next run, such as 'cn sync', finishes what was begun"
    assert told == f"cn: terminated\n  → {hint}\n"
    git(sigma.root, "config", "--unset", "cn.wake")
    sigma.sync()
    assert len(sigma.threads()) == 1
    sigma.idle()


def test_output_that_nobody_reads_is_no_error(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "cn", "--hub", str(sigma.root), "sync"],
        env=cn_env(),
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert b"Traceback" not in done.stderr
    assert len(sigma.threads()) == 1


def test_json_is_one_value_and_quiet_is_quiet(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    report = json.loads(sigma.cn("sync", "--json").stdout)
    assert report["exit_code"] == 0
    assert any("received pi/proposal" in note["text"] for note in report["notes"])
    sigma.triage("pi/proposal", "delete:no")
    assert sigma.cn("-q", "inbox", "process").stdout == ""


def test_a_held_lock_is_told_once_and_status_shows_it_until_it_is_gone(sigma: Node) -> None:
    sigma.configure("lock_wait: 0\n")
    sigma.sync()
    path = sigma.root / ".git/cn/lock"
    living = f"pid {os.getpid()}, since 2026-02-05T15:00:00Z\n"
    for owner, said in ((living, "another run of cn holds the hub"), ("", f"{path} is locked")):
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            path.write_text(owner)
            assert "no run can work" not in sigma.cn("status").stdout
            assert said in sigma.cn("sync", "-q", check=75).stderr
            assert sigma.cn("sync", "-q", check=75).stderr == ""
            assert said in sigma.cn("sync", check=75).stderr
            assert said in sigma.cn("status").stdout
            assert "()" not in sigma.cn("doctor", check=None).stdout
        assert "no run can work" not in sigma.cn("status").stdout
        sigma.sync()


def test_a_run_that_had_nothing_to_commit_does_not_say_that_others_work(world: World, tmp_path: Path) -> None:
    """The key with which the hub signs is gone: a sync cannot commit, and a process need not."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    private, _ = make_ssh_key(tmp_path / "key")
    sigma.cn("sign", str(private))
    private.rename(tmp_path / "gone")
    world.propose(pi, sigma)
    for _ in range(2):
        sigma.sync(check=1)
        assert "no run can work" in sigma.cn("status").stdout
        sigma.process()
        assert "no run can work" in sigma.cn("status", "--check", check=1).stdout
    (tmp_path / "gone").rename(private)
    sigma.cn("send", "pi", "hello")  # which is committed, and signed
    assert "no run can work" not in sigma.cn("status").stdout
    private.rename(tmp_path / "gone")
    sigma.sync(check=1)
    world.withdraw(pi, sigma)
    sigma.sync()  # as good as before: there is nothing to commit
    assert "no run can work" not in sigma.cn("status").stdout


def test_a_head_that_is_back_stops_nothing_any_more(sigma: Node) -> None:
    git(sigma.root, "switch", "-q", "-c", "other")
    sigma.sync(check=1)
    assert "! no run can work: HEAD is other" in sigma.cn("status").stdout
    git(sigma.root, "switch", "-q", "main")
    assert "no run can work" not in sigma.cn("status").stdout


def test_a_refusal_ends_with_1_where_somebody_here_can_do_something(world: World, sigma: Node, pi: Node) -> None:
    """And the status as long as it stands, whoever has to act."""
    world.propose(pi, sigma, "theirs", {".cn/hub.yaml": "name: pi\n"})
    world.propose(pi, sigma, "ours")
    sigma.sync()
    sigma.write_refused_triage("pi/theirs", "do:merge")
    done = sigma.process(0)
    assert "pi/theirs: do:merge is refused: protected-paths" in done.stderr
    assert sigma.cn("status", "--check", check=1).stdout.count("protected-paths") == 1
    sigma.write_refused_triage("pi/ours", "do:merge", "--actor", "mallory")
    assert "pi/ours: " in sigma.process(1).stderr
    assert sigma.process(0).stderr == "", "it was told"
    sigma.cn("status", "--check", check=1)


def test_what_is_new_is_not_said_to_stand_as_before(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "bad", {".cn/hub.yaml": "name: pi\n"})
    sigma.sync()
    sigma.write_refused_triage("pi/bad", "do:merge")
    terminal = Terminal(sigma.root, "inbox", "process")
    assert terminal.end() == 0
    assert "stand" not in terminal.text
    terminal = Terminal(sigma.root, "inbox", "process")
    assert terminal.end() == 0
    assert "1 problem stands as before" in terminal.text


def test_a_refused_branch_stands_since_it_came(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "one")
    world.offer(pi, sigma, "two", "HEAD")  # the very same commit
    sigma.sync()
    memory = sigma.root / ".git/cn/local.json"
    known = json.loads(memory.read_text())
    (name,) = [name for name in known["standing"] if name.startswith("arrival ")]
    known["standing"][name]["since"] = "2026-02-05T15:00:00Z"
    memory.write_text(json.dumps(known))
    world.propose(pi, sigma, "three")
    sigma.sync()
    assert json.loads(memory.read_text())["standing"][name]["since"] == "2026-02-05T15:00:00Z"
    assert "healthy, but for 1 thing that 'cn status' shows" in sigma.cn("doctor", check=0).stdout
