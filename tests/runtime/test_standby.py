"""The processor that stands by: loaded before a message comes, one at a time, gone when it should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cn.values.errors import EXIT_MORE
from tests.support.daemon_runs import Daemon, processor, runs
from tests.support.hubs import cn_env, git
from tests.support.model_server import KEY, MODEL, fill, model_server
from tests.support.servers import alive
from tests.support.telegram_server import TOKEN, USER, TelegramServer


def waiting(folder: Path, then: str = "true") -> list[str]:
    """A processor in shell that stands by: a line of ``waits`` with its id, at the word one of ``went``."""
    script = f"echo $$ >> {folder}/waits; read word || exit 0; echo $$ $word >> {folder}/went; {then}"
    return ["sh", "-c", script]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def pids(folder: Path) -> list[int]:
    return [int(line) for line in lines(folder / "waits")]


def test_it_is_started_used_and_replaced(server: TelegramServer, daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(command=processor(tmp_path, "true"), standby=waiting(tmp_path))
    daemon.sees(lambda: len(pids(tmp_path)) == 1)
    assert runs(tmp_path) == 1  # what was left over from before went to a fresh one
    server.say("hi")
    daemon.sees(lambda: len(pids(tmp_path)) == 2)
    server.say("hi")
    daemon.sees(lambda: len(pids(tmp_path)) == 3)
    assert lines(tmp_path / "went") == [f"{pid} go" for pid in pids(tmp_path)[:2]]
    assert runs(tmp_path) == 1


def test_a_killed_one_is_replaced(server: TelegramServer, daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(standby=waiting(tmp_path), times={"busy": 0.05})
    daemon.sees(lambda: pids(tmp_path))
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    daemon.sees(lambda: len(pids(tmp_path)) == 2)
    assert "the waiting processor: ended by SIGKILL" in daemon.said
    server.say("hi")
    daemon.sees(lambda: lines(tmp_path / "went") == [f"{pids(tmp_path)[1]} go"])


def test_one_that_always_fails_is_replaced_ever_more_slowly_and_stops_no_message(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    script = f"echo $$ >> {tmp_path}/waits; exit 3"
    daemon.start(command=processor(tmp_path, "true"), standby=["sh", "-c", script], times={"busy": 0.02})
    daemon.sees(lambda: len(pids(tmp_path)) == 3)
    server.say("hi")
    daemon.sees(lambda: runs(tmp_path) == 2)
    time.sleep(0.5)
    assert len(pids(tmp_path)) < 8
    assert "the waiting processor: exit code 3" in daemon.said


def test_one_that_cannot_be_started_stops_no_message(server: TelegramServer, daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(command=processor(tmp_path, "true"), standby=["/nowhere/cn"])
    daemon.sees(lambda: "cannot start /nowhere/cn" in daemon.said)
    server.say("hi")
    daemon.sees(lambda: runs(tmp_path) == 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_daemon(daemon: Daemon, tmp_path: Path, number: int) -> None:
    daemon.start(standby=waiting(tmp_path))
    daemon.sees(lambda: pids(tmp_path))
    daemon.end(number)
    daemon.sees(lambda: not alive(pids(tmp_path)[0]))
    assert lines(tmp_path / "went") == []


def test_it_ends_when_nobody_writes_and_comes_with_the_next_message(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    command = processor(tmp_path, "true")
    daemon.start(command=command, standby=waiting(tmp_path), times={"standby": 5.0})
    daemon.sees(lambda: pids(tmp_path))
    daemon.sees(lambda: not alive(pids(tmp_path)[0]))
    time.sleep(0.3)
    assert len(pids(tmp_path)) == 1
    server.say("hi")
    daemon.sees(lambda: len(pids(tmp_path)) == 2)
    assert (runs(tmp_path), lines(tmp_path / "went")) == (2, [])


def test_a_period_without_messages_does_not_keep_it(daemon: Daemon, tmp_path: Path) -> None:
    times = {"standby": 0.3, "period": 0.2}
    daemon.start(command=processor(tmp_path, "true"), standby=waiting(tmp_path), times=times)
    daemon.sees(lambda: runs(tmp_path) >= 4)
    assert not [pid for pid in pids(tmp_path) if alive(pid)]


def test_none_waits_beside_one_that_works_and_two_never_work(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    inside = f"mkdir {tmp_path}/inside || echo two >> {tmp_path}/broken; sleep 0.05; rmdir {tmp_path}/inside"
    daemon.start(command=processor(tmp_path, inside), standby=waiting(tmp_path, inside))
    for n in range(10):
        server.say(f"m{n}")
        time.sleep(0.03)
    daemon.sees(lambda: len(daemon.queued()) == 10)
    daemon.sees(lambda: pids(tmp_path) and alive(pids(tmp_path)[-1]))
    assert not (tmp_path / "broken").exists()


def test_more_that_waits_is_done_at_once(server: TelegramServer, daemon: Daemon, tmp_path: Path) -> None:
    script = f"[ $(wc -l < {tmp_path}/went) -gt 1 ] || exit {EXIT_MORE}"
    daemon.start(command=processor(tmp_path, "true"), standby=waiting(tmp_path, script))
    daemon.sees(lambda: pids(tmp_path))
    server.say("hi")
    daemon.sees(lambda: runs(tmp_path) == 2)  # the next one was not ready: a fresh one did it


# The real one.


def test_a_message_is_answered_by_the_one_that_waits(
    server: TelegramServer, tmp_path: Path, hub_template: Path
) -> None:
    root = tmp_path / "hub"
    subprocess.run(["cp", "-a", str(hub_template), str(root)], check=True)
    settings = root / ".cn/hub.yaml"
    settings.write_text(settings.read_text().replace("interface: triage", "interface: queue"))

    def answer(body: dict[str, Any]) -> str:
        return fill("---\nid: {id}\nreply: {id}|short\n---\n\nthe answer", body)

    with model_server(answer) as api:
        text = f"llm:\n  model: {MODEL}\n  base_url: {api.url}\n"
        text += f"telegram:\n  base_url: {server.url}\n  allowed_users: [{USER}]\n"
        (root / ".cn/agent.yaml").write_text(text)
        git(root, "commit", "-qam", "Set up")
        with (tmp_path / "log").open("wb") as log:
            daemon = subprocess.Popen(
                [sys.executable, "-P", "-m", "cn", "--hub", str(root), "agent", "--daemon"],
                stdout=log,
                stderr=log,
                env=cn_env({"TELEGRAM_TOKEN": TOKEN, "ANTHROPIC_KEY": KEY}),
                cwd=root,
            )
        try:
            for count in (1, 2):
                wait_for(lambda: stands_by(daemon.pid))
                server.say("hi")
                wait_for(lambda count=count: len(server.sent) == count)  # type: ignore[misc]
        finally:
            daemon.terminate()
            assert daemon.wait(60) == 0
    said = (tmp_path / "log").read_text()
    assert (server.texts(), len(api.calls)) == (["the answer"] * 2, 2), said
    assert (
        git(root, "log", "-6", "--reverse", "--format=%s").split("\n")
        == [f"cn: telegram:{USER}", f"cn: telegram:{USER} reply by sigma", "cn: answered"] * 2
    )


def stands_by(daemon: int) -> bool:
    """Has the daemon a child that waits? (Linux; elsewhere a second has to do.)"""
    children = Path(f"/proc/{daemon}/task/{daemon}/children")
    if not children.exists():
        time.sleep(1)
        return True
    words = [Path(f"/proc/{pid}/cmdline") for pid in children.read_text().split()]
    return any(b"--standby" in path.read_bytes() for path in words if path.exists())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stand_by(root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "cn", "--hub", str(root), "agent", "--process", "--standby"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=cn_env({"CN_DAEMON": "1", "ANTHROPIC_KEY": KEY}),
        cwd=root,
    )


@pytest.mark.full
def test_the_real_one_reads_nothing_of_the_hub_before_the_word(tmp_path: Path, hub_template: Path) -> None:
    subprocess.run(["cp", "-a", str(hub_template), str(tmp_path / "hub")], check=True)
    settings = tmp_path / "hub/.cn/hub.yaml"
    settings.write_text(settings.read_text().replace("interface: triage", "interface: queue"))
    (tmp_path / "hub/.cn/agent.yaml").write_text(f"llm:\n  model: {MODEL}\n  base_url: http://127.0.0.1:9\n")
    git(tmp_path / "hub", "commit", "-qam", "Work a queue")
    with stand_by(tmp_path / "hub") as process:
        said, _ = process.communicate(b"", 60)
    assert (process.returncode, said) == (0, b"")
    assert not (tmp_path / "hub/.git/cn/agent.lock").exists()
    with stand_by(tmp_path / "hub") as process:
        said, _ = process.communicate(b"go\n", 60)
    assert process.returncode == 0, said
    assert (tmp_path / "hub/.git/cn/agent.lock").exists()


def test_the_real_one_has_loaded_all_that_a_turn_takes(tmp_path: Path) -> None:
    script = (
        "import sys; from cn.runtime.turn import stand_by; assert stand_by();"
        "print(*sorted({'anthropic', 'httpcore', 'httpcore2', 'telegram', 'yaml', 'anyio', 'h11', 'certifi',"
        " 'cn.runtime.turn', 'cn.runtime.chat_delivery', 'cn.loop.process'} - set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=b"go\n", env=cn_env(), capture_output=True, check=True)
    assert done.stdout.split() == []
