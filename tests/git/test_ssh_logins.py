"""Connections of a run share one login at each host, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.git import early_login, ssh_logins
from cn.git.process import Git, GitConfig, Setting
from cn.git.remote import list_remotes
from cn.git.repository import read_config
from cn.git.ssh_logins import Place, logged_in, parse_place, plain_command, shared_logins
from tests.support.hubs import cn_env, work
from tests.support.servers import Remote, serve, stalled_server

SECONDS = 30.0


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("ssh://git@host.example:2222/a/b.git", Place("git@host.example", "2222")),
        ("ssh://host/a", Place("host")),
        ("git+ssh://host/a", Place("host")),
        ("git@host:a/b.git", Place("git@host")),
        ("host:a", Place("host")),
        ("https://host/a", None),
        ("git://host/a", None),
        ("/srv/a", None),
        ("./a:b", None),
        ("ssh://-oProxyCommand=x/a", None),
        ("-oProxyCommand=x:a", None),
        ("ssh://[::1]:22/a", None),
        ("ssh://ho st/a", None),
    ],
)
def test_the_place_of_a_url_is_what_ssh_is_given(url: str, place: Place | None) -> None:
    assert parse_place(url) == place


@pytest.mark.parametrize(
    ("env", "settings", "command"),
    [
        ({}, {}, "ssh"),
        ({"GIT_SSH_COMMAND": "ssh -i key"}, {"core.sshcommand": "ssh -v"}, "ssh -i key"),
        ({}, {"core.sshcommand": "/usr/bin/ssh -oStrictHostKeyChecking=no"}, "/usr/bin/ssh -oStrictHostKeyChecking=no"),
        ({"GIT_SSH": "/bin/wrapper"}, {}, None),
        ({}, {"core.sshcommand": "plink"}, None),
        ({}, {"core.sshcommand": "ssh -o ControlMaster=no"}, None),
        ({}, {"core.sshcommand": "ssh -S none"}, None),
        ({}, {"core.sshcommand": "ssh -4M"}, None),
        ({}, {"core.sshcommand": "ssh; true"}, None),
        ({}, {"ssh.variant": "simple"}, None),
        ({"GIT_SSH_VARIANT": "ssh"}, {"ssh.variant": "simple"}, "ssh"),
    ],
)
def test_only_plain_ssh_shares_logins(env: dict[str, str], settings: dict[str, str], command: str | None) -> None:
    config = GitConfig(tuple(Setting("local", key, value) for key, value in settings.items()))
    assert plain_command(config, env) == command


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets of this test alone lie: with a name as short as they need."""
    with tempfile.TemporaryDirectory(prefix="cn-t", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    with serve("ssh", tmp_path / "served", tmp_path / "server") as remote:
        monkeypatch.setenv("GIT_SSH_COMMAND", remote.env["GIT_SSH_COMMAND"])
        yield remote


def logins(served: Remote) -> int:
    """How often somebody logged in, the probe when the server was started among them."""
    log = served.root.parent / "server/sshd.log"
    return log.read_text(errors="replace").count("Accepted publickey")


def sockets(runtime: Path) -> list[Path]:
    return list(runtime.glob("cn-ssh-*/*"))


def opened(tmp_path: Path) -> Git:
    git = Git(work(tmp_path / "mine", "sigma"))
    return git._replace(config=read_config(git))


def test_connections_at_once_and_in_turn_share_one_login(served: Remote, tmp_path: Path, runtime: Path) -> None:
    """More at once than one login has room for; the login is gone at the end, and its socket."""
    urls = {name: served.repo(name) for name in map(str, range(12))}
    before = logins(served)
    with shared_logins(opened(tmp_path)) as git:
        for _ in range(2):
            assert list_remotes(git, urls, SECONDS) == {url: {} for url in urls}
        assert len(sockets(runtime)) == 1
    assert logins(served) == before + 1
    assert sockets(runtime) == []


def test_masters_of_the_users_own_are_left_alone(
    served: Remote, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("Host *\n  ControlMaster no\n  ControlPath ~/%C\n")
    command = os.environ["GIT_SSH_COMMAND"].replace("-F none", f"-F {config}")
    monkeypatch.setenv("GIT_SSH_COMMAND", command)
    urls = {name: served.repo(name) for name in ("a", "b")}
    before = logins(served)
    with shared_logins(opened(tmp_path)) as git:
        assert list_remotes(git, urls, SECONDS) == {url: {} for url in urls}
        assert sockets(runtime) == []
    assert logins(served) == before + 2


def test_a_host_that_lets_nobody_in_is_asked_by_each_and_says_why(
    served: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {name: served.repo(name) for name in ("a", "b", "c")}
    monkeypatch.setenv("GIT_SSH_COMMAND", os.environ["GIT_SSH_COMMAND"].rpartition(" -i ")[0])
    with shared_logins(opened(tmp_path)) as git:
        answers = list_remotes(git, urls, SECONDS)
    assert all(isinstance(answer, str) and "Permission denied" in answer for answer in answers.values())


def test_who_waits_for_a_login_that_hangs_waits_no_longer_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection takes all the time, so the others have had theirs."""
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -F none")
    asked = []
    enter = ssh_logins.SharedLogins.enter

    def noted(self: ssh_logins.SharedLogins, args: list[str]) -> object:
        answer = enter(self, args)
        asked.append(answer is None)
        return answer

    monkeypatch.setattr(ssh_logins.SharedLogins, "enter", noted)
    with stalled_server() as (port, _), shared_logins(opened(tmp_path)) as git:
        answers = list_remotes(git, {name: f"ssh://nobody@127.0.0.1:{port}/{name}" for name in "abc"}, 2.0)
    assert set(answers.values()) == {"no answer within the time limit"}
    assert any(asked)


def test_a_login_that_is_begun_before_there_is_a_connection_serves_those_that_follow(
    served: Remote, tmp_path: Path, runtime: Path
) -> None:
    urls = {name: served.repo(name) for name in "abc"}
    before = logins(served)
    with logged_in(alone := opened(tmp_path), urls["a"]), shared_logins(alone) as git:
        assert list_remotes(git, urls, SECONDS) == {url: {} for url in urls}
        assert len(sockets(runtime)) == 1
    assert logins(served) == before + 1
    assert sockets(runtime) == []


def test_one_that_nobody_uses_is_ended(served: Remote, tmp_path: Path, runtime: Path) -> None:
    before = logins(served)
    with logged_in(opened(tmp_path), served.repo("a")):
        until = time.monotonic() + SECONDS
        while not sockets(runtime) and time.monotonic() < until:
            time.sleep(0.01)
    assert logins(served) == before + 1
    assert sockets(runtime) == []


def test_one_that_is_let_in_nowhere_leaves_it_to_a_connection_to_say_why(
    served: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {name: served.repo(name) for name in "ab"}
    monkeypatch.setenv("GIT_SSH_COMMAND", os.environ["GIT_SSH_COMMAND"].rpartition(" -i ")[0])
    with logged_in(alone := opened(tmp_path), urls["a"]), shared_logins(alone) as git:
        answers = list_remotes(git, urls, SECONDS)
    assert all(isinstance(answer, str) and "Permission denied" in answer for answer in answers.values())


def test_one_that_hangs_is_ended_before_a_connection_makes_its_own(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -F none")
    monkeypatch.setattr(ssh_logins, "_PATIENCE", 0.5)
    with stalled_server() as (port, _):
        url = f"ssh://nobody@127.0.0.1:{port}/a"
        with logged_in(alone := opened(tmp_path), url), shared_logins(alone) as git:
            assert isinstance(git.logins, ssh_logins.SharedLogins)
            (login,) = git.logins._logins.values()
            assert login
            child = login.early
            assert list_remotes(git, {"a": url}, 2.0) == {"a": "no answer within the time limit"}
    assert child
    assert child.code is not None


def test_where_connections_share_no_login_none_is_begun(
    served: Remote, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{os.environ['GIT_SSH_COMMAND']} -o ControlMaster=no")
    before = logins(served)
    with logged_in(opened(tmp_path), served.repo("a")):
        pass
    assert logins(served) == before


_KILLED = """
import sys, time
from pathlib import Path
from cn.git import early_login, ssh_logins
from cn.git.process import Git
from cn.git.remote import list_remotes
from cn.git.repository import read_config
early_login.LINGER = 6
git = Git(Path(sys.argv[1]))
with ssh_logins.shared_logins(git._replace(config=read_config(git))) as git:
    print(list_remotes(git, {"": sys.argv[2]}, 30.0), flush=True)
    time.sleep(60)
"""


def test_no_login_outlives_a_killed_run_for_long(served: Remote, tmp_path: Path, runtime: Path) -> None:
    """ssh takes its socket away when it ends."""
    url = served.repo("pi")
    words = [sys.executable, "-c", _KILLED, str(opened(tmp_path).root), url]
    with subprocess.Popen(words, env=cn_env(), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        assert len(sockets(runtime)) == 1
        run.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while sockets(runtime) and time.monotonic() < until:
        time.sleep(0.05)
    assert sockets(runtime) == []


def test_a_folder_that_others_may_read_holds_no_socket(runtime: Path) -> None:
    folder = runtime / f"cn-ssh-{os.geteuid()}"
    folder.mkdir(0o755)
    assert early_login.private_folder() != str(folder)
    folder.chmod(0o700)
    assert early_login.private_folder() == str(folder)


@pytest.mark.parametrize(("written", "waits"), [("", True), ("Host *\n  ConnectTimeout 7\n", False)])
def test_an_address_that_is_dead_takes_seconds_unless_the_user_says_how_many(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, written: str, waits: bool
) -> None:
    (tmp_path / "ssh_config").write_text(written)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -F {tmp_path / 'ssh_config'}")
    with shared_logins(opened(tmp_path)) as git:
        assert isinstance(git.logins, ssh_logins.SharedLogins)
        added = git.logins.enter(("ls-remote", "--", "ssh://host.example/a")) or {}
    assert ("-o ConnectTimeout=20 " in added["GIT_SSH_COMMAND"]) == waits
    assert "ControlMaster=auto" in added["GIT_SSH_COMMAND"]


def test_what_a_proxy_says_is_the_reason(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh shows nothing of it where it keeps the login for others."""
    (tmp_path / "bastion").write_text("#!/bin/sh\necho 'me@bastion: Permission denied (publickey).' >&2\n")
    (tmp_path / "bastion").chmod(0o755)
    (tmp_path / "ssh_config").write_text(f"Host *\n  ProxyCommand {tmp_path / 'bastion'}\n")
    monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -F {tmp_path / 'ssh_config'}")
    with shared_logins(opened(tmp_path)) as git:
        answers = list_remotes(git, {n: f"ssh://host.invalid/{n}.git" for n in "ab"}, 30)
    assert all("me@bastion: Permission denied (publickey)" in str(answer) for answer in answers.values()), answers
