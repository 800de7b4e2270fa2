"""A command that is sure to ask origin logs in where the last run did, before it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.cli.main import SECTIONS
from cn.cli.start import _ASK_ALONE, _ASKS_ORIGIN
from cn.git import early_login
from cn.git.process import Git
from cn.git.remote import list_remotes
from cn.git.repository import read_config
from cn.git.ssh_logins import parse_place, shared_logins
from tests.git.test_ssh_logins import SECONDS, logins, runtime, served, sockets
from tests.support.hubs import cn_env, git, work
from tests.support.servers import Remote

__all__ = ["runtime", "served"]


@pytest.fixture
def clone(served: Remote, tmp_path: Path, runtime: Path) -> Iterator[Git]:
    """A clone whose runs have noted where they log in."""
    root = work(tmp_path / "mine", "sigma")
    git(root, "remote", "add", "origin", served.repo("sigma"))
    (root / ".git/cn").mkdir()
    opened = Git(root)._replace(config=read_config(Git(root)))
    with shared_logins(opened) as sharing:
        list_remotes(sharing, {"": served.repo("sigma")}, SECONDS)
    yield opened
    early_login.give_up()


def note(clone: Git) -> Path:
    return clone.root / ".git/cn/login"


def until_in(runtime: Path) -> None:
    until = time.monotonic() + SECONDS
    while not sockets(runtime) and time.monotonic() < until:
        time.sleep(0.01)


def test_connections_go_on_with_it(served: Remote, clone: Git, runtime: Path) -> None:
    assert note(clone).stat().st_mode & 0o777 == 0o600
    before = logins(served)
    early_login.begin(str(clone.root))
    until_in(runtime)
    urls = {name: served.repo(name) for name in "ab"}
    with shared_logins(clone) as sharing:
        assert list_remotes(sharing, urls, SECONDS) == {"a": {}, "b": {}}
    assert logins(served) == before + 1
    assert sockets(runtime) == []
    early_login.begin(str(clone.root))
    assert early_login.begun == [], "a sync that found news goes on, and has had its login"


def test_one_that_nobody_goes_on_with_ends(clone: Git, runtime: Path) -> None:
    early_login.begin(str(clone.root))
    (one,) = early_login.begun
    assert one.login
    early_login.give_up()
    assert one.login.code is not None
    assert sockets(runtime) == []


@pytest.mark.parametrize(
    "change", ["config", "command", "variant", "settings", "mode", "link", "damaged", "name", "port", "folder", "none"]
)
def test_none_is_begun_where_anything_is_otherwise(
    served: Remote, clone: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = note(clone)
    text = path.read_text()
    match change:
        case "config":
            git(clone.root, "config", "core.sshCommand", "ssh -i other")
        case "command":
            monkeypatch.setenv("GIT_SSH_COMMAND", f"{os.environ['GIT_SSH_COMMAND']} -v")
        case "variant":
            monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
        case "settings":
            monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
        case "mode":
            path.chmod(0o620)
        case "link":
            path.rename(tmp_path / "note")
            path.symlink_to(tmp_path / "note")
        case "damaged":
            path.write_bytes(b"\xff\n")
        case "name":
            path.write_text(text.replace("\nname ", "\nname -oProxyCommand=x@"))
        case "port":
            path.write_text(text.replace("\nport ", "\nport -o"))
        case "folder":
            monkeypatch.setattr(early_login, "private_folder", lambda: None)
        case "none":
            path.unlink()
    early_login.begin(str(clone.root))
    assert early_login.begun == []


def test_one_of_another_command_is_ended_before_a_connection(
    served: Remote, clone: Git, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early_login.begin(str(clone.root))
    (one,) = early_login.begun
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{os.environ['GIT_SSH_COMMAND']} -o LogLevel=ERROR")
    with shared_logins(clone) as sharing:
        assert list_remotes(sharing, {"a": served.repo("a")}, SECONDS) == {"a": {}}
        assert early_login.begun == []
    assert one.login
    assert one.login.code is not None


def test_the_note_goes_where_nobody_is_let_in(
    served: Remote, clone: Git, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (served.root.parent / "server/client_key").rename(served.root.parent / "server/gone")
    early_login.begin(str(clone.root))
    with shared_logins(clone) as sharing:
        found = list_remotes(sharing, {"": served.repo("sigma")}, SECONDS)
    assert "Permission denied" in str(found[""])
    assert not note(clone).exists()


def test_it_is_noted_nowhere_where_the_configuration_takes_in_files(served: Remote, clone: Git, tmp_path: Path) -> None:
    note(clone).unlink()
    git(clone.root, "config", "include.path", str(tmp_path / "more"))
    opened = Git(clone.root)._replace(config=read_config(Git(clone.root)))
    with shared_logins(opened) as sharing:
        list_remotes(sharing, {"": served.repo("sigma")}, SECONDS)
    assert not note(clone).exists()


_KILLED = """
import os, signal, sys
from cn.git import early_login
early_login.begin(sys.argv[1])
print(early_login.begun[0].login.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2)")
def test_it_dies_with_a_killed_command(clone: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "ssh"
    slow.write_text('#!/bin/sh\ncase " $* " in *" -N "*) exec sleep 60 ;; esac\n')
    slow.chmod(0o755)
    place = parse_place(git(clone.root, "config", "remote.origin.url"))
    assert place
    early_login.write_note(str(clone.root), str(slow), place, waits=False)
    env = {**cn_env(), "GIT_SSH_COMMAND": str(slow)}
    words = [sys.executable, "-c", _KILLED, str(clone.root)]
    pid = int(subprocess.run(words, env=env, capture_output=True, check=False).stdout)
    until = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_what_asks_origin_is_a_command() -> None:
    known = {name for section in SECTIONS.values() for name in section}
    assert {words.split(" ")[0] for words in (*_ASKS_ORIGIN, *_ASK_ALONE)} <= known
