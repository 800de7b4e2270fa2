"""The daemon as a real process with real signals, against Telegram on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cn.runtime.daemon.monitor import Times
from cn.values.errors import EXIT_AGAIN, EXIT_CONFIG, EXIT_LOCKED, EXIT_MORE
from tests.support.daemon_runs import SECONDS, SECRET, Daemon, processor, runs
from tests.support.hubs import ROOT, cn_env
from tests.support.servers import alive, free_port
from tests.support.telegram_server import (
    BAD_GATEWAY,
    CUT,
    CUT_AFTER,
    NOT_JSON,
    SERVER_ERROR,
    TelegramServer,
    error,
    rate_limit,
    telegram_server,
)

STRANGER = 666


# Messages.


def test_messages_are_queued_in_order_and_then_confirmed(server: TelegramServer, daemon: Daemon) -> None:
    server.say("one")
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["one"])
    last = [server.say(text) for text in ("two", "three")][-1]
    daemon.sees(lambda: daemon.queued() == ["one", "two", "three"])
    daemon.sees(lambda: server.waits() == [])
    assert daemon.offset == last + 1
    assert server.sent == []
    assert daemon.end() == 0
    assert daemon.said.rstrip().endswith("ended")


def test_a_message_goes_to_the_processor_at_once(server: TelegramServer, daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(command=processor(tmp_path, "true"))
    daemon.sees(lambda: runs(tmp_path) == 1)  # what was left over from before
    server.say("hi")
    daemon.sees(lambda: runs(tmp_path) == 2)
    server.say("hi")
    daemon.sees(lambda: runs(tmp_path) == 3)


def test_a_processor_that_was_killed_comes_again_by_itself(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    """The period is an hour, and nobody writes: it is started again, each time later, until it ends by itself."""
    del server
    command = processor(tmp_path, f"[ $(wc -l < {tmp_path}/runs) -gt 3 ] || kill -9 $$")
    daemon.start(command=command, times={"again": 0.02})
    daemon.sees(lambda: runs(tmp_path) == 4)
    assert daemon.said.count("ended by SIGKILL") == 3


def test_a_batch_of_messages_loses_no_signal_and_lets_the_processor_begin(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    for n in range(40):
        server.say(str(n))
    begun = f"[ -e {tmp_path}/queued ] || cp {tmp_path}/queue {tmp_path}/queued 2>/dev/null"
    daemon.start(command=processor(tmp_path, begun), behave={"children": 10})
    daemon.sees(lambda: len(daemon.queued()) == 40)
    daemon.sees(lambda: (tmp_path / "queued").exists())
    assert len((tmp_path / "queued").read_text().splitlines()) < 40
    assert "wakeup fd" not in daemon.said


def test_strangers_are_dropped_and_never_answered(server: TelegramServer, daemon: Daemon) -> None:
    daemon.start()
    for text in ("hi", "/start", "/status"):
        server.say(text, STRANGER)
    server.say("me")
    daemon.sees(lambda: daemon.queued() == ["me"])
    assert server.count("sendMessage") == 0
    assert f"user {STRANGER}: dropped" in daemon.said
    assert "hi" not in daemon.said.split()


def test_without_allowed_users_everybody_is_a_stranger(server: TelegramServer, daemon: Daemon) -> None:
    server.say("me")
    daemon.start(users=[])
    daemon.sees(lambda: daemon.offset)
    assert daemon.queued() == []
    assert "allowed_users is empty" in daemon.said


def test_what_is_not_supported_is_answered_so(server: TelegramServer, daemon: Daemon) -> None:
    daemon.start()
    server.say(None, photo=[{}], caption="look")  # type: ignore[arg-type]
    server.update("edited_message", {"text": "hi"})
    server.update("message", {"text": None, "new_chat_members": []})
    server.raw({"message": {"text": ["?"]}})
    daemon.sees(lambda: len(server.sent) == 2)
    daemon.sees(lambda: server.waits() == [])
    assert "(photo)" in server.texts()[0]
    assert "changes" in server.texts()[1]
    assert daemon.queued() == []


def test_commands_are_answered_from_the_view(server: TelegramServer, daemon: Daemon) -> None:
    daemon.start()
    for text in ("/status", "/inbox", "/start"):
        server.say(text)
    daemon.sees(lambda: len(server.sent) == 3)
    assert server.texts()[:2] == ["view of status", "view of inbox"]
    assert daemon.queued() == []


def test_a_view_that_fails_says_why(server: TelegramServer, daemon: Daemon) -> None:
    daemon.start(behave={"broken_view": True})
    server.say("/status")
    daemon.sees(lambda: server.texts() == ["/status: no main"])


@pytest.mark.sliced(3)
@pytest.mark.parametrize(("fault", "answers"), [(rate_limit(1), 1), (CUT_AFTER, 1), (CUT, 0)])
def test_an_answer_is_repeated_only_if_it_certainly_did_not_arrive(
    server: TelegramServer, daemon: Daemon, fault: Any, answers: int
) -> None:
    server.fault("sendMessage", fault)
    server.say("/status")
    server.say("after it")
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["after it"])
    assert len(server.sent) == answers


# Messages that cannot be queued.


@pytest.mark.sliced(2)
@pytest.mark.parametrize("text", ["bad one", "bug one"])
def test_a_message_that_always_fails_becomes_a_dead_letter(server: TelegramServer, daemon: Daemon, text: str) -> None:
    daemon.start()
    for message in (text, "good"):
        server.say(message)
    daemon.sees(lambda: daemon.queued() == ["good"])
    assert daemon.dead == [text]
    assert "kept for a person" in server.texts()[0]
    assert "given up" in daemon.said
    daemon.sees(lambda: daemon.health["dead"] == 1)


def test_a_dead_letter_is_tried_again_when_the_daemon_starts(server: TelegramServer, daemon: Daemon) -> None:
    server.say("bad one")
    daemon.start()
    daemon.sees(lambda: daemon.dead)
    daemon.end()
    daemon.start()
    daemon.sees(lambda: "still not queued" in daemon.said)
    daemon.end()
    (daemon.root.parent / "mended").touch()
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["bad one"])
    daemon.sees(lambda: daemon.dead == [])


def test_a_hub_that_takes_nothing_now_makes_no_dead_letters(server: TelegramServer, daemon: Daemon) -> None:
    server.say("later one")
    daemon.start(times={"pauses": [0.3, 3600]})
    daemon.sees(lambda: server.count("getUpdates") >= 1 and "cannot take it now" in daemon.said)
    time.sleep(0.5)
    assert (daemon.dead, daemon.offset) == ([], None)
    assert daemon.end() == 0  # without waiting for the end of its pause
    daemon.start()
    (daemon.root.parent / "mended").touch()
    daemon.sees(lambda: daemon.queued() == ["later one"])


def test_a_message_that_telegram_would_soon_forget_is_kept_here(server: TelegramServer, daemon: Daemon) -> None:
    server.say("later one", date=int(time.time()) - 21 * 3600)
    daemon.start()
    daemon.sees(lambda: daemon.dead == ["later one"])


# Nothing lost, nothing twice.


def test_duplicates_after_a_restart_are_queued_once(server: TelegramServer, daemon: Daemon) -> None:
    server.repeat = True
    server.say("one")
    daemon.start(poll_interval=0.05)
    daemon.sees(lambda: daemon.queued() == ["one"])
    daemon.end(signal.SIGKILL)
    (daemon.root / "state/telegram.offset").write_text("nonsense")
    daemon.start()
    daemon.sees(lambda: "was queued before" in daemon.said)
    server.say("two")
    daemon.sees(lambda: daemon.queued() == ["one", "two"])
    assert server.count("getUpdates") < 200


def test_ids_that_begin_anew_after_a_quiet_week_are_followed(server: TelegramServer, daemon: Daemon) -> None:
    server.say("one")
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["one"])
    daemon.sees(lambda: server.waits() == [])
    server.jump(5)
    server.say("two")
    daemon.sees(lambda: server.waits() == [])
    assert (daemon.queued(), daemon.offset) == (["one", "two"], 6)


def test_the_offset_of_one_bot_is_not_another_s(server: TelegramServer, daemon: Daemon) -> None:
    server.say("one")
    offset = daemon.root / "state/telegram.offset"
    offset.write_text("900 987654\n")  # what was said to this bot before would be forgotten
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["one"])
    daemon.sees(lambda: offset.read_text() == f"1001 {server.token.partition(':')[0]}\n")
    daemon.end(signal.SIGKILL)
    offset.write_text("900\n")  # as an older cn wrote it
    daemon.start()
    daemon.sees(lambda: daemon.health.get("offset") == 900)


@pytest.mark.sliced(4)
@pytest.mark.parametrize("where", ["before", "after", "before_offset", "after_offset"])
def test_killed_at_any_instant_it_loses_and_doubles_nothing(server: TelegramServer, daemon: Daemon, where: str) -> None:
    texts = ["one", "two", "three", "four"]
    for text in texts:
        server.say(text)
    kills = 0
    while server.waits():
        daemon.start(behave={"die": where})
        daemon.sees(lambda: not daemon.runs or not server.waits())
        kills += not daemon.runs
        assert kills < 10
    daemon.end(signal.SIGKILL)
    assert daemon.queued() == texts
    assert kills > 1


# What goes wrong outside.


@pytest.mark.sliced(3)
@pytest.mark.parametrize("fault", [SERVER_ERROR, BAD_GATEWAY, NOT_JSON, CUT, error(409, "Conflict: other poll")])
def test_trouble_of_telegram_is_outlived(server: TelegramServer, daemon: Daemon, fault: Any) -> None:
    server.fault("getUpdates", fault, fault, fault)
    server.say("hi")
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["hi"])
    assert "after 3 failed polls" in daemon.said
    assert daemon.said.count("tries again") == 1


def test_a_conflict_names_the_other_poller(server: TelegramServer, daemon: Daemon) -> None:
    server.fault("getUpdates", error(409, "Conflict: terminated by other getUpdates request"))
    daemon.start()
    daemon.sees(lambda: "another program polls with this token" in daemon.said)


def test_the_pause_that_telegram_asks_for_is_kept(server: TelegramServer, daemon: Daemon) -> None:
    server.fault("getUpdates", rate_limit(1))
    server.say("hi")
    daemon.start()
    daemon.sees(lambda: daemon.queued() == ["hi"])
    first, second = [call.at for call in server.calls if call.method == "getUpdates"][:2]
    assert second - first >= 1


def test_a_refused_token_ends_it_with_the_remedy(server: TelegramServer, daemon: Daemon) -> None:
    server.token = "1:other"
    daemon.start()
    assert daemon.wait() == EXIT_CONFIG
    assert "refuses the token" in daemon.said
    assert daemon.health["state"] == "stopped"


def test_telegram_may_be_away_when_the_daemon_starts(daemon: Daemon) -> None:
    port = free_port()
    daemon.start(base_url=f"http://127.0.0.1:{port}")
    daemon.sees(lambda: "is not reached" in daemon.said)
    daemon.sees(lambda: daemon.health.get("unreached"))
    done = _status(daemon)
    assert "the daemon gets no messages: Telegram is not reached" in done.stdout
    assert done.returncode == 1
    with telegram_server(port=port) as late:
        late.say("hi")
        daemon.sees(lambda: daemon.queued() == ["hi"])
        daemon.sees(lambda: daemon.health.get("unreached") is None)
        assert "gets no messages" not in _status(daemon).stdout


def _status(daemon: Daemon) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cn", "--hub", str(daemon.root), "status", "--check"]
    return subprocess.run(command, capture_output=True, text=True, env=cn_env(), check=False)


def test_of_two_daemons_on_a_hub_the_second_is_refused(daemon: Daemon, server: TelegramServer) -> None:
    daemon.start()
    daemon.sees(lambda: server.count("getUpdates"))
    first = daemon.process
    assert daemon.start().wait() == EXIT_LOCKED
    daemon.process = first
    assert daemon.end() == 0


# The processor.


def test_the_processor_runs_again_while_more_waits(daemon: Daemon, tmp_path: Path) -> None:
    script = f"[ $(wc -l < {tmp_path}/runs) -lt 4 ] && exit {EXIT_MORE} || exit 0"
    daemon.start(command=processor(tmp_path, script))
    daemon.sees(lambda: runs(tmp_path) == 4)
    time.sleep(0.3)
    assert runs(tmp_path) == 4


def test_the_processor_runs_soon_again_where_no_model_was_reached(daemon: Daemon, tmp_path: Path) -> None:
    times = {"period": 1000.0, "unreached": 0.05}
    daemon.start(command=processor(tmp_path, f"exit {EXIT_AGAIN}"), times=times)
    daemon.sees(lambda: runs(tmp_path) >= 3)
    assert Times().unreached <= 30.0


def test_the_processor_runs_once_a_period_without_messages(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start(command=processor(tmp_path, "exit 1"), times={"period": 0.1})
    daemon.sees(lambda: runs(tmp_path) >= 3)
    assert "the processor: exit code 1" in daemon.said


def test_only_one_processor_runs_at_a_time_even_after_kill_9(
    server: TelegramServer, daemon: Daemon, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = f"echo $$ >> {tmp_path}/pids; while [ ! -e {go} ]; do sleep 0.02; done"
    daemon.start(command=processor(tmp_path, script), times={"busy": 0.05})
    daemon.sees(lambda: runs(tmp_path) == 1)
    server.say("hi")
    daemon.sees(lambda: daemon.queued() == ["hi"])
    daemon.end(signal.SIGKILL)
    daemon.start()
    daemon.sees(lambda: "an earlier processor still works" in daemon.said)
    assert runs(tmp_path) == 1
    go.touch()
    daemon.sees(lambda: runs(tmp_path) == 2)


def test_a_signal_is_not_lost_among_those_of_a_message_that_starts_many_processes(
    server: TelegramServer, daemon: Daemon
) -> None:
    server.say("one")
    daemon.start(behave={"children": 600, "signalled": True})
    assert daemon.wait() == 0
    assert daemon.queued() == ["one"]


@pytest.mark.sliced(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_processor_finish(daemon: Daemon, tmp_path: Path, number: int) -> None:
    daemon.start(command=processor(tmp_path, f"sleep 0.5; echo done > {tmp_path}/done"))
    daemon.sees(lambda: runs(tmp_path) == 1)
    assert daemon.end(number) == 0
    assert (tmp_path / "done").exists()


def test_a_processor_that_does_not_end_is_ended(daemon: Daemon, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; trap '' TERM; while :; do sleep 0.05; done"
    daemon.start(command=processor(tmp_path, script), times={"grace": 0.2, "kill": 0.2})
    daemon.sees(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    assert daemon.end() == 0
    assert "takes too long: SIGKILL" in daemon.said
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_processor_that_cannot_be_started_stops_no_message(server: TelegramServer, daemon: Daemon) -> None:
    server.say("hi")
    daemon.start(command=["/nowhere/cn"])
    daemon.sees(lambda: daemon.queued() == ["hi"])
    assert "cannot start /nowhere/cn" in daemon.said


def test_the_child_knows_of_the_daemon_and_not_of_systemd(daemon: Daemon, tmp_path: Path) -> None:
    daemon.env = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000000"}
    daemon.start(command=["sh", "-c", f"env > {tmp_path}/env.tmp; mv {tmp_path}/env.tmp {tmp_path}/env"])
    daemon.sees(lambda: (tmp_path / "env").exists())
    env = (tmp_path / "env").read_text()
    assert f"CN_DAEMON={daemon.pid}\n" in env
    assert "NOTIFY_SOCKET" not in env
    assert "WATCHDOG" not in env


# As a service.


def test_systemd_hears_of_start_life_and_end(daemon: Daemon, server: TelegramServer, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bus:
        bus.bind(str(tmp_path / "notify"))
        bus.settimeout(SECONDS)
        daemon.env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        daemon.start()
        heard = ""
        while "WATCHDOG=1" not in heard or "READY=1" not in heard:
            heard += bus.recv(1000).decode() + "\n"
        assert daemon.end() == 0
        while "STOPPING=1" not in heard:
            heard += bus.recv(1000).decode() + "\n"
        assert "STATUS=running" in heard
    assert SECRET not in heard


def test_the_health_file_tells_how_it_is(daemon: Daemon, server: TelegramServer, tmp_path: Path) -> None:
    daemon.start(command=["sleep", "20"], times={"grace": 0.1, "health": 0.05})
    id = server.say("hi")
    daemon.sees(lambda: daemon.health.get("offset") == id + 1 and daemon.health["last_poll"])
    health = daemon.health
    assert (health["pid"], health["state"], health["queued"]) == (daemon.pid, "running", 1)
    assert health["child"]["pid"] != daemon.pid
    assert daemon.end() == 0
    assert (daemon.health["state"], daemon.health["child"]) == ("stopped", None)


def test_lines_have_priorities_only_under_the_journal(daemon: Daemon, server: TelegramServer) -> None:
    server.say("x", STRANGER)
    daemon.log.touch()
    found = os.stat(daemon.log)
    daemon.env = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
    daemon.start()
    daemon.sees(lambda: "dropped" in daemon.said)
    daemon.end()
    assert {line[:3] for line in daemon.said.splitlines()} == {"<4>", "<6>"}
    daemon.log.unlink()
    daemon.env = {"JOURNAL_STREAM": "1:2"}
    daemon.start()
    daemon.sees(lambda: "daemon of" in daemon.said)
    assert daemon.said.startswith("20")


def test_it_stays_small_and_loads_neither_model_nor_processor(
    daemon: Daemon, server: TelegramServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = Path("/proc/self/status")
    daemon.start(poll_timeout=0.0, poll_interval=0.001, modules=str(tmp_path / "modules"))
    daemon.sees(lambda: server.count("getUpdates") > 100)
    server.say("hi")
    daemon.sees(lambda: server.count("getUpdates") > 500)
    resident = 0
    if status.exists():
        lines = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
        resident = int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
        with capsys.disabled():
            print(f"\ndaemon after {server.count('getUpdates')} polls: {resident / 1024:.1f} MB resident")
    assert daemon.end() == 0
    loaded = set((tmp_path / "modules").read_text().split())
    assert "telegram" in loaded
    assert loaded & {"anthropic", "git", "rich", "click", "cn.loop.process", "telegram.ext"} == set()
    assert resident < 56 * 1024


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = (ROOT / "cron/cn-agent.service").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    assert (settings["Type"], settings["RestartPreventExitStatus"]) == ("notify", str(EXIT_CONFIG))
    assert int(settings["TimeoutStopSec"]) > Times().grace + Times().kill + 10
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing")
    unit = tmp_path / "cn-agent.service"
    unit.write_text(text.replace("/home/me/.local/bin/cn", "/bin/true").replace("User=me", "User=root"))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, encoding="utf-8", check=False)
    if "cn-agent" not in done.stderr and done.returncode:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_server_that_repeats_what_was_dealt_with_is_asked_with_pauses(server: TelegramServer, daemon: Daemon) -> None:
    server.repeat = True
    server.say("one")
    daemon.start()
    daemon.sees(lambda: "it repeats what was dealt with" in daemon.said)
    assert daemon.queued() == ["one"]
    assert server.count("getUpdates") < 100
