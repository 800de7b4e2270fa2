"""What systemd hears, and lines that its journal understands."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cn.system.child import Child
from cn.system.files import hold
from cn.system.systemd import Level, Lines, notify, watchdog_seconds


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_a_notification_is_one_datagram(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "notify") if kind == "file" else f"@cn-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bus:
        bus.bind(name if kind == "file" else "\0" + name[1:])
        bus.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        assert notify(READY=1, STATUS="one\nMAINPID=1")
        assert bus.recv(1000) == b"READY=1\nSTATUS=one MAINPID=1"


@pytest.mark.parametrize("name", ["", "relative", "/nowhere/notify"])
def test_where_nobody_listens_nothing_happens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    assert not notify(READY=1)


def test_the_watchdog_is_that_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    assert watchdog_seconds() == 30
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert watchdog_seconds() == 30
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "soon")
    assert watchdog_seconds() is None


def test_a_line_is_one_line_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(["hush", ""])
    lines.say("a\n<3>b hush \x1b[31m https://me:pw@host/", Level.ERROR)
    said = capsys.readouterr().out
    assert said.endswith("Z a <3>b *** <U+001B>[31m https://***@host/\n")


def test_what_matters_less_than_asked_for_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    for least, count in ((Level.INFO, 3), (Level.WARNING, 2), (Level.ERROR, 1)):
        lines = Lines(least=least)
        for level in Level:
            lines.say("it", level)
        assert len(capsys.readouterr().out.splitlines()) == count


def test_a_lock_lives_as_long_as_the_child_that_inherits_it(tmp_path: Path) -> None:
    lock = tmp_path / "state" / "lock"
    child = Child.start(["sh", "-c", "exit 7"], tmp_path, lock)
    assert child is not None
    while child.poll() is None:
        pass
    assert child.poll() == 7
    held = hold(lock)
    assert held is not None
    assert Child.start(["true"], tmp_path, lock) is None
    os.close(held)
