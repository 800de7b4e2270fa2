"""``agency.toml``: what can execute on this machine, and errors that name the place."""

import os
import pwd
from pathlib import Path

import pytest

from cn.agents.machine import Machine, machine_path, read_machine
from cn.agents.wraps import Wrap
from cn.values.errors import ConfigError
from tests.support.agents import machine_of

FULL = """
[agents]
runner = "coder"
silence = 60
calls = 9

[runners.coder]
like = "claude"
tools = "Bash,Read"
wrap = "bwrap"
visible = ["/opt/models"]
network = false

[runners.own]
argv = ["my-agent", "{workspace}"]
env = ["MY_KEY"]
set = {MODE = "quiet"}
files = {"notes/a.txt" = "for {session}"}
unguarded = true

[runners.builtin]
model = "claude-opus-5"

[runners.far]
argv = ["ssh", "host", "agent"]
wrap = ["firejail", "--quiet"]

[repos]
site = "https://git.example.org/site.git"
patterns = ["https://git.example.org/*"]
fresh = 5

[servers.mail]
command = ["read by who reaches servers"]

[secrets]
mail = {env = "MAIL"}
"""


def test_a_whole_file() -> None:
    machine = machine_of(FULL)
    coder, own = machine.runner(""), machine.runner("own")
    assert coder
    assert own
    assert coder.wrap == Wrap("bwrap", (), ("/opt/models",), False, "")
    assert (coder.result, coder.shell, coder.unsafe) == ("claude", True, "")
    assert coder.argv[0] == "claude"
    assert (own.set, own.files, own.env) == ((("MODE", "quiet"),), (("notes/a.txt", "for {session}"),), ("MY_KEY",))
    assert own.unsafe == ""
    far, builtin = machine.runner("far"), machine.runner("builtin")
    assert far
    assert builtin
    assert far.wrap == Wrap("own", ("firejail", "--quiet"))
    assert (builtin.model, builtin.shell, builtin.result) == ("claude-opus-5", False, "builtin")
    assert (machine.watch.silence, machine.watch.calls, machine.watch.grace) == (60.0, 9, 20.0)
    assert machine.repos.named == (("site", "https://git.example.org/site.git"),)
    assert (machine.repos.patterns, machine.repos.fresh) == (("https://git.example.org/*",), 5.0)


def test_without_a_file_there_is_what_comes_with_cn(tmp_path: Path) -> None:
    machine = read_machine(tmp_path / "missing.toml")
    assert [one.name for one in machine.runners] == ["builtin", "claude", "person"]
    assert [one.unsafe for one in machine.runners] == ["", "", ""]
    assert [one.is_person for one in machine.runners] == [False, False, True]
    assert machine.runner("") == machine.runner("builtin")
    assert machine.runner("elsewhere") is None


def test_tools_that_run_programs_need_a_wrap_as_a_shell_does() -> None:
    machine = machine_of("[runners.claude]\ntools = 'Bash'\n[runners.own]\nargv = ['x']\n")
    for name in ("claude", "own"):
        runner = machine.runner(name)
        assert runner
        assert f"runner {name} can run programs" in runner.unsafe
        assert "bwrap, sandlock, sudo" in runner.unsafe


def test_where_it_is(tmp_path: Path) -> None:
    home = {"HOME": "/home/ann"}
    assert machine_path("", home) == Path("/home/ann/.config/cn/agency.toml")
    assert machine_path("", home | {"XDG_CONFIG_HOME": "/etc/ann"}) == Path("/etc/ann/cn/agency.toml")
    assert machine_path("/elsewhere.toml", home) == Path("/elsewhere.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        read_machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[runners", "agency.toml: "),
        ("[runners.x]\nargv = 'x'", "runners.x.argv: it is a text"),
        ("[runners.x]\nargv = ['x', 1]", "runners.x.argv: it has something that is no text"),
        ("[runners.x]\nshell = true", "runners.x.argv: it is not given"),
        ("[runners.x]\nargv = ['x']\nsheel = true", "runners.x.sheel: it is not known"),
        ("[runners.x]\nargv = ['x']\nwrap = 'paper'", "runners.x.wrap: it is 'paper'"),
        ("[runners.x]\nargv = ['x']\nwrap = 'sudo'", "runners.x.user: wrap = 'sudo' needs a user"),
        ("[runners.x]\nargv = ['x']\nwrap = 'bwrap'\nuser = 'ann'", "runners.x.user: "),
        ("[runners.x]\nargv = ['x']\nwrap = 'sudo'\nuser = 'root'", "runners.x.user: root is root"),
        ("[runners.x]\nargv = ['x']\nwrap = 'bwrap'\nvisible = ['opt']", "runners.x.visible: 'opt'"),
        ("[runners.x]\nargv = ['x']\nresult = 'poem'", "runners.x.result: it is 'poem'"),
        ("[runners.'Not A Name']\nargv = ['x']", "is no name"),
        ("[runners.person]\nargv = ['x']", "runners.person.argv: nothing is started"),
        ("[agents]\nrunner = 'x'", "agents.runner: there is no runner 'x'"),
        ("[agents]\nsilence = -1", "agents.silence: it is -1"),
        ("[agents]\nsilence = 'long'", "agents.silence: it is a text"),
        ("[agents]\nsilence = true", "agents.silence: it is true or false"),
        ("agents = 3", "agents: it is a number"),
        ("[repos]\nx = 3", "repos.x: it is a number"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_a_next_step(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        machine_of(text)
    assert said in raised.value.text
    assert raised.value.text.startswith("agency.toml: ")
    assert raised.value.hint


def test_who_serves_is_no_user_of_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[runners.x]\nargv = ['x']\nwrap = 'sudo'\nuser = 'daemon'"
    assert machine_of(text).runner("x")
    monkeypatch.setattr(os, "geteuid", lambda: pwd.getpwnam("daemon").pw_uid)
    with pytest.raises(ConfigError, match=r"daemon is who serves"):
        machine_of(text)


def test_a_machine_is_a_plain_value() -> None:
    assert machine_of(FULL) == machine_of(FULL)
    assert isinstance(machine_of(""), Machine)
